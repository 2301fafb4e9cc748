"""Thresholds for each of several groups: processor seconds to the exact optimum, or what is left of the gap.

Raw Adult (the table in examples/data): boosted trees are fitted on one part, and thresholds for 2 to 10 groups are
chosen on 32,000 other rows by `GoalThresholdClassifier`. The search alone is timed beside the whole fit, warm.
Run as `python -m benchmarks.group_thresholds`; see README.md here.
"""

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import OrdinalEncoder

from benchmarks.common import ROOT, interleave, machine, one_thread, parser, show, verdict, write
from benchmarks.thermometer_adult import NUMBERS, WORDS
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


class OwnScores(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Scores are the only column, so that no time goes to making them."""

    classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> "OwnScores":
        """Nothing is to be learned."""
        return self

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """The column."""
        return np.asarray(X)[:, 0]


@dataclass(frozen=True)
class People:
    """Scores and labels of the rows, and their groups in several divisions, by the number of groups."""

    scores: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    groups: Mapping[int, npt.NDArray[np.str_]]


def load(n_rows: int) -> People:
    """Rows of the training part with scores of a model that was fitted on the others."""
    table = pyarrow.csv.read_csv(ROOT / "examples" / "data" / "adult.csv.gz")
    column = {name: np.array(table[name].to_pylist()) for name in ("split", "income", "sex", "race", "age")}
    numbers = np.column_stack([table[name].to_numpy().astype(float) for name in NUMBERS])
    words = np.column_stack([np.array(table[name].to_pylist(), str) for name in WORDS if name not in ("sex", "race")])
    X = np.hstack([numbers, OrdinalEncoder().fit_transform(words)])
    y = (column["income"] == ">50K").astype(int)
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(column["split"] == "train"))[:n_rows]
    others = np.setdiff1d(np.arange(len(y)), chosen)
    model = HistGradientBoostingClassifier(random_state=0).fit(X[others], y[others])
    sex, race, age = (column[name][chosen] for name in ("sex", "race", "age"))
    coarse = np.where(race == "White", "White", np.where(race == "Black", "Black", "other"))
    thirds = np.digitize(age.astype(float), (30.0, 45.0)).astype(str)
    groups = {
        2: sex, 4: np.char.add(sex, (race == "White").astype(str)), 5: race,
        9: np.char.add(thirds, coarse), 10: np.char.add(sex, race),
    }  # fmt: skip
    return People(model.decision_function(X[chosen]), y[chosen], groups)


def measure(people: People, n_groups: int, what: str, repeats: int) -> dict[str, Any]:
    """One goal on one division into groups."""
    table = pa.table({"group": people.groups[n_groups]})
    options = {"per_population": "group", "cv": "prefit", "on_infeasible": "warn"}
    search: list[float] = []
    best_per_group = rule.best_per_group

    def timed(candidates: Any) -> Any:
        start = time.process_time()
        found = best_per_group(candidates)
        search.append(time.process_time() - start)
        return found

    def fit() -> GoalThresholdClassifier:
        model = GoalThresholdClassifier(OwnScores(), GOALS[what], **options)
        return model.fit(people.scores[:, None], people.labels, populations=table)

    rule.best_per_group = timed
    try:
        timing = interleave({what: fit}, repeats)[what]
    finally:
        rule.best_per_group = best_per_group
    model, seconds = timing.result, float(np.median(search[1:]))  # the first one may compile
    return {
        "groups": n_groups, "goal": what, "search_s": seconds, "fit_s": timing.processor_median,
        "error": model.goal_report_.objective, "met": model.goal_report_.passed, "gap": model.optimality_gap_,
        "limit_s": LIMITS.get(n_groups),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__.splitlines()[0]).parse_args(arguments)
    about = machine()
    people = load(1500 if options.quick else ROWS)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a goal that cannot be met is a result here
        rows = [
            measure(people, n_groups, what, 1 if options.quick else options.repeats)
            for n_groups in ((2, 4) if options.quick else people.groups)
            for what in GOALS
        ]
    section = show(
        f"Processor seconds on {len(people.labels)} rows, warm",
        ["groups", "goal", "search", "whole fit", "error", "met", "gap", "allowed", "within"],
        [
            [
                row["groups"], row["goal"], f"{row['search_s']:.3f}", f"{row['fit_s']:.3f}", f"{row['error']:.4f}",
                verdict(row["met"]), f"{row['gap']:.1g}", row["limit_s"] or "",
                verdict(row["search_s"] <= row["limit_s"]) if row["limit_s"] else "",
            ]
            for row in rows
        ],
    )  # fmt: skip
    write(options, "group_thresholds", {"machine": about, "rows": rows}, [section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
