"""Any model under a goal, beside other libraries: error at equal violation, on rows that nothing was chosen on.

Every method is asked for the same bounds, and ends wherever it ends on new rows. So methods are compared by frontiers:
the least error at a violation, over mixtures of the method's own models, of the model without a goal, and of the
constant one.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
from sklearn.preprocessing import KBinsDiscretizer, OrdinalEncoder

from benchmarks.data.sources import OUTCOMES, People
from benchmarks.task import Content, Context, Limit, MissingPartError, Row, Table, Task, Timing, grouped, mean_and_error
from widemargin import GoalReduction, GoalThresholdClassifier, RateConstrainedClassifier
from widemargin.goals import Goal, demographic_parity, equal_opportunity, equalized_odds, error_rate, recall

Floats = npt.NDArray[np.float64]

TRAIN_ROWS, SPLITS = 6_000, 8
"""Most rows to train on, at most half of a table, and splits of each table.

All others are test rows. Where the groups hardly differ without a goal (credit-card, .014 in recall), six thousand rows
measure differences of rates to a standard error as large, and the least error at a violation then favours whichever
method's models scatter most.
"""

LEVELS = (0.02, 0.05, 0.1)
FLOORS = (0.05, 0.1, 0.2, 0.4)
"""Allowed differences of rates, and of a recall floor the share of positive rows that may be missed."""

SHARES = (0.25, 0.5, 0.75)
"""Where frontiers are compared: these shares of the violation of the model without a goal."""

DRAWS = 20
"""Of predictions that a peer draws at random."""

GROUPS = {"adult": "sex", "compas": "race", "german": "age", "credit-card": "SEX", "bank": "age"}
OLDER = {"german": 25, "bank": 60}


class Goals(NamedTuple):
    """A goal: ours at a level, and what other libraries call it."""

    constraint: Callable[[float], Any]
    names: Mapping[str, str]

    def at(self, level: float) -> Goal:
        """Ours: the least error under the constraint."""
        return Goal(minimize=error_rate(), subject_to=[self.constraint(level)])


RECALL_FLOOR = "recall floor"

GOALS = {
    "demographic parity": Goals(
        lambda level: demographic_parity("group", difference=level),
        {"fairlearn": "DemographicParity"} | dict.fromkeys(("error_parity", "oxonfair"), "demographic_parity"),
    ),
    "equal opportunity": Goals(
        lambda level: equal_opportunity("group", difference=level),
        {
            "fairlearn": "TruePositiveRateParity", "error_parity": "true_positive_rate_parity",
            "oxonfair": "equal_opportunity", "fairgbm": "FNR",
        },
    ),
    "equalised odds": Goals(
        lambda level: equalized_odds("group", difference=level),
        {
            "fairlearn": "EqualizedOdds", "error_parity": "equalized_odds", "oxonfair": "equalized_odds_max",
            "fairgbm": "FPR,FNR",
        },
    ),
    RECALL_FLOOR: Goals(
        lambda level: recall() >= 1.0 - level, dict.fromkeys(("oxonfair", "sklearn"), "recall")
    ),
}  # fmt: skip


def people(name: str, table: pa.Table, quick: bool) -> People:
    """Two groups of a table; words are numbered, and the column of the groups is no feature."""
    frame = table.to_pandas()
    target, group = OUTCOMES.get(name, "y"), GROUPS[name]
    left_out = [target, "split", "deployed", "old_model", "fnlwgt"]
    if name in OLDER:
        first = frame[group] <= OLDER[name]
    else:
        common = frame[group].value_counts().index[:2]
        frame = frame[frame[group].isin(common)]
        first = frame[group] == min(common)
        left_out += [group]
    features = frame.drop(columns=left_out, errors="ignore")
    words = features.select_dtypes(exclude="number").columns
    numbered = OrdinalEncoder().fit_transform(features[words].astype(str))
    y = np.unique(frame[target], return_inverse=True)[1].astype(np.int64)
    X = np.column_stack([features.drop(columns=words).to_numpy(np.float64), numbered])
    rows = People(X, y, first.to_numpy())
    return rows.take(np.arange(min(len(y), 400))) if quick else rows


def booster() -> Any:
    """The model under the goals: LightGBM where it is installed."""
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        return HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8, max_bins=32, random_state=0)
    return LGBMClassifier(n_estimators=100, num_leaves=15, n_jobs=1, verbose=-1, random_state=0)


Method = Callable[[People, People, Goals, float], Any]
"""Trained on the first rows to a goal at a level: the probability that each of the second is called positive."""


def _ours(
    train: People, test: People, goals: Goals, level: float, *, make: Callable[..., Any], aware: bool = False
) -> Any:
    clf = make(booster(), goals.at(level), random_state=0, on_infeasible="warn")
    clf.fit(train.X, train.y, populations=train.table)
    return clf.predict(test.X, *([test.table] if aware else []))


def _linear(train: People, test: People, goals: Goals, level: float) -> Any:
    bins = KBinsDiscretizer(10, encode="onehot", quantile_method="averaged_inverted_cdf")
    rule = RateConstrainedClassifier(goals.at(level), on_infeasible="warn", random_state=0)
    rule.fit(bins.fit_transform(train.X), train.y, populations=train.table)
    return rule.predict(bins.transform(test.X))


def _plain(train: People, test: People, goals: Goals, level: float) -> Any:
    return booster().fit(train.X, train.y).predict(test.X)


def _held_out(train: People) -> tuple[Any, People]:
    """A model of three quarters of the rows, and the others: thresholds chosen on rows learned from say nothing."""
    fit, held = train_test_split(np.arange(len(train.y)), test_size=0.25, random_state=0, stratify=train.y)
    return booster().fit(train.X[fit], train.y[fit]), train.take(held)


def _exponentiated_gradient(train: People, test: People, goals: Goals, level: float) -> Any:
    from fairlearn import reductions

    moment = getattr(reductions, goals.names["fairlearn"])(difference_bound=level)
    reduction = reductions.ExponentiatedGradient(booster(), moment, eps=level)
    reduction.fit(train.X, train.y, sensitive_features=train.code)
    return reduction._pmf_predict(test.X)[:, 1]


def _threshold_optimizer(train: People, test: People, goals: Goals, level: float) -> Any:
    from fairlearn.postprocessing import ThresholdOptimizer

    scorer, held = _held_out(train)
    chosen = ThresholdOptimizer(
        estimator=scorer, constraints=goals.names["error_parity"], prefit=True, predict_method="predict_proba"
    ).fit(held.X, held.y, sensitive_features=held.code)
    return chosen._pmf_predict(test.X, sensitive_features=test.code)[:, 1]


def _error_parity(train: People, test: People, goals: Goals, level: float) -> Any:
    from error_parity import RelaxedThresholdOptimizer

    scorer, held = _held_out(train)
    chosen = RelaxedThresholdOptimizer(
        predictor=lambda X: scorer.predict_proba(X)[:, 1], constraint=goals.names["error_parity"], tolerance=level
    )
    chosen.fit(X=held.X, y=held.y, group=held.code)
    return np.mean([chosen.predict(test.X, group=test.code) for _ in range(DRAWS)], axis=0)


def _oxonfair(train: People, test: People, goals: Goals, level: float, *, groups: str) -> Any:
    """With groups that are "seen" or "guessed" at prediction, or a recall floor with "none"."""
    from oxonfair import FairPredictor, group_metrics

    scorer, held = _held_out(train)
    given = [{"data": rows.X, "target": rows.y} | ({} if groups == "none" else {"groups": rows.code})
             for rows in (held, test)]  # fmt: skip
    known: dict[str, dict[str, Any]] = {"seen": {}, "none": {"groups": None}}
    if groups == "guessed":
        known["guessed"] = {"inferred_groups": booster().fit(train.X, train.code)}
    chosen, bound = FairPredictor(scorer, given[0], **known[groups]), 1.0 - level if groups == "none" else level
    chosen.fit(group_metrics.accuracy, getattr(group_metrics, goals.names["oxonfair"]), bound)
    return np.ravel(chosen.predict(given[1]))


def _fairgbm(train: People, test: People, goals: Goals, level: float) -> Any:
    import fairgbm

    rows = fairgbm.Dataset(train.X, train.y, constraint_group=train.code)
    settings = {
        "objective": "constrained_cross_entropy", "constraint_type": goals.names["fairgbm"], "num_leaves": 15,
        "constraint_fnr_tolerance": level, "constraint_fpr_tolerance": level, "num_threads": 1, "verbose": -1,
        "seed": 0,
    }  # fmt: skip
    return fairgbm.train(settings, rows, 100).predict(test.X) > 0.5


def _tuned_threshold(train: People, test: People, goals: Goals, level: float) -> Any:
    def score(y: Any, called: Any) -> float:
        """Accuracy, and below it by the shortfall where the floor is missed."""
        found = recall_score(y, called)
        return float(accuracy_score(y, called) if found >= 1.0 - level else found - 1.0)

    chosen = TunedThresholdClassifierCV(booster(), scoring=make_scorer(score), random_state=0)
    return chosen.fit(train.X, train.y).predict(test.X)


class Comparison(NamedTuple):
    """Methods side by side: ours, peers with the modules they come from, and which of ours is held against those."""

    title: str
    first: str
    ours: Mapping[str, Method]
    peers: Mapping[str, tuple[str, Method]]


REDUCTION, ONE_RUN = (partial(_ours, make=partial(GoalReduction, one_run=one_run)) for one_run in (False, True))
BY_GROUP = partial(GoalThresholdClassifier, cv=5, per_population="group")
REDUCTION_BY_GROUP = partial(GoalReduction, one_run=False, per_population="group")
BLIND = Comparison(
    "Group unseen at prediction", "one run",
    {
        "linear": _linear, "reduction": REDUCTION, "one run": ONE_RUN,
        "guessed groups": partial(_ours, make=partial(BY_GROUP, group_estimator=booster())),
    },
    {
        "fairlearn ExponentiatedGradient": ("fairlearn", _exponentiated_gradient),
        "OxonFair, inferred groups": ("oxonfair", partial(_oxonfair, groups="guessed")),
        "FairGBM": ("fairgbm", _fairgbm),
    },
)  # fmt: skip
AWARE = Comparison(
    "Group seen at prediction", "thresholds by group",
    {
        "thresholds by group": partial(_ours, make=BY_GROUP, aware=True),
        "reduction by group": partial(_ours, make=REDUCTION_BY_GROUP, aware=True),
    },
    {
        "fairlearn ThresholdOptimizer": ("fairlearn", _threshold_optimizer),
        "error-parity": ("error_parity", _error_parity),
        "OxonFair": ("oxonfair", partial(_oxonfair, groups="seen")),
    },
)  # fmt: skip
FLOOR = Comparison(
    "Recall floor", "threshold",
    {
        "linear": _linear, "reduction": REDUCTION, "one run": ONE_RUN,
        "threshold": partial(_ours, make=partial(GoalThresholdClassifier, cv=5)),
    },
    {
        "scikit-learn TunedThresholdClassifierCV": ("sklearn", _tuned_threshold),
        "OxonFair": ("oxonfair", partial(_oxonfair, groups="none")),
    },
)  # fmt: skip
NO_GOAL = "no goal"
WITHOUT_LEVEL = {NO_GOAL, "fairlearn ThresholdOptimizer"}
"""One model whatever the level is; the second asks for parity itself."""


def measured(called: Floats, test: People, kind: str) -> tuple[float, float]:
    """Error, and by how much the rates of the two groups differ; of a recall floor the share that is missed."""
    error = float(np.where(test.y == 1, 1.0 - called, called).mean())
    if kind == RECALL_FLOOR:
        return error, float(1.0 - called[test.y == 1].mean())
    # The rows on which rates of the groups are compared: all, the positive ones, or these and the negative ones.
    compared = {"demographic parity": [test.y >= 0], "equal opportunity": [test.y == 1]}
    every = compared.get(kind, [test.y == 1, test.y == 0])
    return error, max(abs(float(called[of & test.first].mean() - called[of & ~test.first].mean())) for of in every)


def points(name: str, context: Context) -> list[Row]:
    """Error and violation on new rows of every method at every level of every goal, on a table."""
    whole, rows = people(name, context.load(name), context.quick), []
    for split in range(context.pick(SPLITS, 1)):
        order = np.random.default_rng(2000 + split).permutation(len(whole.y))
        n_train = min(TRAIN_ROWS, len(order) // 2)
        train, test = whole.take(order[:n_train]), whole.take(order[n_train:])
        for kind in context.pick(list(GOALS), ["demographic parity", RECALL_FLOOR]):
            goals, share = GOALS[kind], float(test.y.mean())
            # The constant model of no violation: of a recall floor it calls everybody positive.
            trivial = 1.0 - share if kind == RECALL_FLOOR else min(share, 1.0 - share)
            about = {"table": name, "split": split, "trivial": trivial, "goal": kind}
            levels = (FLOORS if kind == RECALL_FLOOR else LEVELS)[context.pick(slice(None), slice(1, 2))]
            compared = (FLOOR,) if kind == RECALL_FLOOR else (BLIND, AWARE)
            ours = {NO_GOAL: _plain} | {method: call for of in compared for method, call in of.ours.items()}
            peers = {
                method: call for of in compared for method, (module, call) in of.peers.items()
                if module in goals.names and context.peer(module) is not None
            }  # fmt: skip
            for method, level in product(methods := ours | peers, levels):
                if method in WITHOUT_LEVEL and level != levels[0]:
                    continue
                try:
                    timing = Timing.of(partial(methods[method], train, test, goals, level))
                except Exception as error:
                    if method not in peers:
                        raise
                    print(f"{name}, {kind}, {method}: {error}", file=sys.stderr)  # a peer's own failure
                    continue
                reached = measured(np.asarray(timing.result, dtype=np.float64), test, kind)
                found = {"error": reached[0], "violation": reached[1], "seconds": timing.processor_median}
                rows.append(about | {"method": method, "level": level} | found)
    return rows


def _rows(content: Content) -> list[Row]:
    """The points of all tables that were measured."""
    rows = [row for name in GROUPS for row in content.get(name, [])]
    if not rows:
        raise MissingPartError(*GROUPS)
    return rows


def _measured(content: Content) -> pd.DataFrame:
    """The same as a table."""
    return pd.DataFrame(_rows(content))


def least_error(reached: Iterable[tuple[float, float]], violation: float) -> float:
    """The least error of mixtures of (violation, error) at a violation."""
    several = sorted(set(reached))
    errors = [error for at, error in several if at <= violation]
    errors += [
        error + (other - error) * (violation - low) / (high - low)
        for (low, error), (high, other) in combinations(several, 2) if low <= violation <= high and low < high
    ]  # fmt: skip
    return min(errors, default=np.inf)


def frontiers(content: Content) -> pd.DataFrame:
    """By table, goal and split, for each method: its mean error along the frontier."""
    found = []
    for (table, goal, split), rows in grouped(_rows(content), "table", "goal", "split"):
        reached = {
            name: [(row["violation"], row["error"]) for row in own]
            for name, own in sorted(grouped(rows, "method"))
        }  # fmt: skip
        (plain,) = reached[NO_GOAL]
        beside = [plain, (0.0, rows[0]["trivial"])]
        found.append({"table": table, "goal": goal, "split": split} | {
            name: np.mean([least_error([*own, *beside], share * plain[0]) for share in SHARES])
            for name, own in reached.items()
        })  # fmt: skip
    return pd.DataFrame(found)


def _compared(of: Comparison, content: Content) -> Iterable[Row]:
    """A line for each table and goal: mean errors, and those of the first minus the best peer's, split by split."""
    for (table, goal), errors in frontiers(content).groupby(["table", "goal"], sort=False):
        errors = errors.dropna(axis="columns")  # what failed on a split is compared on none
        if not set(of.ours) <= set(errors):
            continue
        row: Row = {"table": table, "goal": goal} | {name: mean_and_error(errors[name]) for name in of.ours}
        if there := [name for name in of.peers if name in errors]:
            best = errors[there].mean().idxmin()
            minus = mean_and_error(errors[of.first] - errors[best])
            row |= {"best": best, "its": mean_and_error(errors[best]), "minus": minus}
        yield row


def _table(of: Comparison) -> Table:
    errors = " | ".join(f"{name}: {{{name}:±.3f}}" for name in of.ours)
    its = f"best peer: {{best}} | its error: {{its:±.3f}} | {of.first} minus it: {{minus:±+.3f}}"
    return Table(of.title, partial(_compared, of), f"table | goal | {errors} | {its}")


def _seconds(content: Content) -> Iterable[Row]:
    """Mean processor seconds of a fit with predictions, by table."""
    means = _measured(content).pivot_table("seconds", "method", "table", sort=False)
    return means.reset_index().to_dict("records")


def _targets(content: Content) -> Iterable[Limit]:
    """What the guide names first is not behind the best peer by more than two standard errors."""
    for of in (BLIND, AWARE, FLOOR):
        for row in _compared(of, content):
            if "best" in row:
                mean, error = row["minus"]
                what = f"{row['table']}, {row['goal']}: error of {of.first} minus that of {row['best']}"
                yield Limit(what, mean, 2.0 * error if error == error else 0.0)


def _picture(content: Content, path: Path) -> None:
    """Error against the difference between groups on new rows, for bounds on the positive rates, means over splits."""
    from matplotlib.figure import Figure

    points = _measured(content).query("goal == 'demographic parity'")
    means = points.groupby(["table", "method", "level"])[["violation", "error"]].mean()
    tables = points["table"].unique()
    figure = Figure(figsize=(4.2 * len(tables), 7.6), layout="constrained")
    grid = figure.subplots(2, len(tables), squeeze=False, sharex="col", sharey="col")
    for line, of in zip(grid, (BLIND, AWARE), strict=True):
        for axes, table in zip(line, tables, strict=True):
            for number, name in enumerate((NO_GOAL, *of.ours, *of.peers)):
                if name in means.loc[table].index:
                    style = "*" if name == NO_GOAL else "o-" if name in of.ours else "s--"
                    axes.plot(*means.loc[table, name].T.to_numpy(), style, color=f"C{number}", markersize=5, label=name)
            axes.set_title(f"{table}: {of.title.lower()}", fontsize=10)
            axes.grid(color="0.92")
        line[0].set_ylabel("error on new rows")
        shown = {text: drawn for axes in line for drawn, text in zip(*axes.get_legend_handles_labels(), strict=True)}
        line[-1].legend(shown.values(), shown, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for axes in grid[-1]:
        axes.set_xlabel("difference of positive rates on new rows")
    figure.savefig(path, dpi=85, metadata={"Software": None})


def _task(half: Any, names: Sequence[str]) -> Task:
    return Task(
        f"Boosted trees under fairness goals on {', '.join(names)}: the error at equal violation on new rows, beside "
        "fairlearn, error-parity, OxonFair and FairGBM, who does not see the group at prediction and who does; and "
        "under a recall floor",
        {name: partial(points, name) for name in names},
        {
            "blind": _table(BLIND),
            "aware": _table(AWARE),
            "floor": _table(FLOOR),
            "seconds": Table(
                "Mean processor seconds of a fit", _seconds,
                "method | " + " | ".join(f"{name}: {{{name}:.2f}}" for name in names),
            ),
        },
        _targets, subject="any model", half=half, picture=_picture,
        peers=("fairlearn", "oxonfair", "error-parity", "fairgbm", "lightgbm"),
    )  # fmt: skip


TASKS = {
    "any_model": _task("reporting", ("german", "credit-card", "bank")),
    "any_model_tuned": _task("tuning", ("adult", "compas")),
}
