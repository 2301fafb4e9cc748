"""Thresholds for each of several groups: processor seconds to the exact optimum, or what is left of the gap."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.data.sources import encoded
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing
from widemargin import GoalThresholdClassifier
from widemargin.estimators.thresholds import rule

ROWS = 32_000
LIMITS = {2: 0.03, 4: 0.2, 9: 2.0}
"""Seconds allowed for the search, by the number of groups."""

GOALS = {
    f"{kind.replace('_', ' ')}, {bound}": f"minimize error_rate()\nsubject to {kind}(group, {bound})"
    for kind in ("demographic_parity", "equal_opportunity", "equalized_odds")
    for bound in ("difference=0.05", "ratio=0.8")
} | {
    "parity and a recall of all": (
        "minimize error_rate()\nsubject to demographic_parity(group, ratio=0.8)\nsubject to recall() >= 0.65"
    )
}


class FirstColumn(ClassifierMixin, BaseEstimator):
    """A fitted scorer whose score is the first column, so that no time goes to making scores."""

    classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> "FirstColumn":
        """Nothing is to be learned."""
        return self

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """The column."""
        return np.asarray(X[:, 0], dtype=np.float64)


def _people(table: pa.Table) -> tuple[Any, Any, Mapping[int, npt.NDArray[np.str_]]]:
    """Scores by boosted trees that saw the other rows, labels, and groups by their number."""
    column = {name: np.array(table[name].to_pylist()) for name in ("split", "sex", "race", "age")}
    X, y = encoded(table.drop_columns(["sex", "race"]), "income")
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(column["split"] == "train"))[:ROWS]
    others = np.setdiff1d(np.arange(len(y)), chosen)
    model = HistGradientBoostingClassifier(random_state=0).fit(X[others].toarray(), y[others])
    sex, race, age = (column[name][chosen] for name in ("sex", "race", "age"))
    coarse = np.where(race == "White", "White", np.where(race == "Black", "Black", "other"))
    thirds = np.digitize(age.astype(float), (30.0, 45.0)).astype(str)
    groups = {
        2: sex, 4: np.char.add(sex, (race == "White").astype(str)), 5: race,
        9: np.char.add(thirds, coarse), 10: np.char.add(sex, race),
    }  # fmt: skip
    return model.decision_function(X[chosen].toarray()), y[chosen], groups


def rows(ctx: Context) -> list[Row]:
    """Every goal on every division into groups, the search alone beside the whole fit, warm."""
    scores, labels, groups = _people(ctx.load("adult"))
    found, best_per_group = [], rule.best_per_group
    for n_groups in ctx.pick(tuple(groups), (2, 4)):
        table = pa.table({"group": groups[n_groups]})
        for what, goal in GOALS.items():
            options = {"per_population": "group", "cv": "prefit", "on_infeasible": "warn"}
            model, search = GoalThresholdClassifier(FirstColumn(), goal, **options), Timing()

            def timed(candidates: Any, search: Timing = search) -> Any:
                return search.add(partial(best_per_group, candidates)).result

            case = partial(model.fit, scores[:, None], labels, populations=table)
            with patch.object(rule, "best_per_group", timed):
                timing = ctx.clock({what: case}, warm_up=True)[what]  # a goal that cannot be met is a result here
            report = timing.result.goal_report_
            found.append({
                "groups": n_groups, "goal": what,
                "search_s": float(np.median(search.processor[1:])),  # the first may compile
                "fit_s": timing.processor_median, "error": report.objective, "met": report.passed,
                "gap": timing.result.optimality_gap_, "limit_s": LIMITS.get(n_groups),
            })  # fmt: skip
    return found


def _targets(content: Content) -> Iterable[Limit]:
    for n_groups, limit in LIMITS.items():
        seconds = [row["search_s"] for row in content["rows"] if row["groups"] == n_groups]
        if seconds:
            yield Limit(f"thresholds of {n_groups} groups, slowest search", max(seconds), limit, "s")


TASKS = {
    "group_thresholds": Task(
        "Exact thresholds of 2 to 10 groups on 32,000 rows of Adult with scores of boosted trees: processor seconds of "
        "the search and of the whole `fit` without the scorer's own, warm.",
        {"rows": rows},
        {
            "seconds": Table(
                f"Processor seconds on {ROWS:,} rows, warm", "rows",
                "groups | goal | search: {search_s:.3f} | whole fit: {fit_s:.3f} | error: {error:.4f} | met | gap: "
                "{gap:.1g} | allowed: {limit_s}",
            ),
        },
        _targets, half="tuning",
    ),
}  # fmt: skip
