"""Any model under a goal, beside other libraries: error at equal violation, on rows that nothing was chosen on.

Every method is asked for the same bounds, and ends wherever it ends on new rows. So methods are compared by frontiers:
the least error at a violation, over mixtures of the method's own models, of the model without a goal, and of the
constant one.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
from sklearn.preprocessing import KBinsDiscretizer, OrdinalEncoder

from benchmarks.data.halves import HALVES
from benchmarks.data.sources import OUTCOMES, People
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, grouped, mean_and_error
from widemargin import GoalReduction, GoalThresholdClassifier, RateConstrainedClassifier

TRAIN_ROWS = 6_000
"""Most rows to train on, at most half of a table.

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

PARITY, RECALL_FLOOR = "demographic parity", "recall floor"
GOALS = (PARITY, "equal opportunity", "equalised odds")


class Case(NamedTuple):
    """Rows to train on and new ones, and the goal with its level."""

    train: People
    test: People
    kind: str
    level: float

    @property
    def goal(self) -> str:
        """The least error under the goal, as ours take it."""
        name = self.kind.replace(" ", "_").replace("ised", "ized")
        rule = f"{name}(group, difference={self.level})"
        if self.kind == RECALL_FLOOR:
            rule = f"recall() >= {1.0 - self.level:g}"
        return f"minimize error_rate()\nsubject to {rule}"


def people(name: str, table: pa.Table) -> People:
    """Two groups of a table; words are numbered, and the column of the groups is no feature."""
    frame = table.to_pandas()
    group, left_out = GROUPS[name], [OUTCOMES[name], "split", "deployed", "old_model", "fnlwgt"]
    if name in OLDER:
        first = frame[group] <= OLDER[name]
    else:
        common = frame[group].value_counts().index[:2]
        frame = frame[frame[group].isin(common)]
        first = frame[group] == min(common)
        left_out += [group]
    features = frame.drop(columns=left_out, errors="ignore")
    words = features.select_dtypes(exclude="number").astype(str)
    X = np.column_stack([features.select_dtypes("number").to_numpy(np.float64), OrdinalEncoder().fit_transform(words)])
    return People(X, np.unique(frame[OUTCOMES[name]], return_inverse=True)[1].astype(np.int64), first.to_numpy())


def booster() -> Any:
    """The model under the goals: LightGBM where it is installed."""
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        return HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8, max_bins=32, random_state=0)
    return LGBMClassifier(n_estimators=100, num_leaves=15, n_jobs=1, verbose=-1, random_state=0)


# --- methods: the probability that each new row is called positive ----------------------------------------------------


def _ours(of: Case, make: Callable[..., Any], aware: bool = False) -> Any:
    clf = make(booster(), of.goal, random_state=0, on_infeasible="warn")
    clf.fit(of.train.X, of.train.y, populations=of.train.table)
    return clf.predict(of.test.X, *([of.test.table] if aware else []))


def _linear(of: Case) -> Any:
    bins = KBinsDiscretizer(10, encode="onehot", quantile_method="averaged_inverted_cdf")
    rule = RateConstrainedClassifier(of.goal, on_infeasible="warn", random_state=0)
    rule.fit(bins.fit_transform(of.train.X), of.train.y, populations=of.train.table)
    return rule.predict(bins.transform(of.test.X))


def _plain(of: Case) -> Any:
    return booster().fit(of.train.X, of.train.y).predict(of.test.X)


def _held_out(of: Case) -> tuple[Any, People]:
    """A model of three quarters of the rows, and the others: thresholds chosen on rows learned from say nothing."""
    train = of.train
    fit, held = train_test_split(np.arange(len(train.y)), test_size=0.25, random_state=0, stratify=train.y)
    return booster().fit(train.X[fit], train.y[fit]), train.take(held)


def _exponentiated_gradient(of: Case, word: str) -> Any:
    from fairlearn import reductions

    moment = getattr(reductions, word)(difference_bound=of.level)
    reduction = reductions.ExponentiatedGradient(booster(), moment, eps=of.level)
    reduction.fit(of.train.X, of.train.y, sensitive_features=of.train.code)
    return reduction._pmf_predict(of.test.X)[:, 1]


def _threshold_optimizer(of: Case, word: str) -> Any:
    from fairlearn.postprocessing import ThresholdOptimizer

    scorer, held = _held_out(of)
    chosen = ThresholdOptimizer(estimator=scorer, constraints=word, prefit=True, predict_method="predict_proba").fit(
        held.X, held.y, sensitive_features=held.code
    )
    return chosen._pmf_predict(of.test.X, sensitive_features=of.test.code)[:, 1]


def _error_parity(of: Case, word: str) -> Any:
    from error_parity import RelaxedThresholdOptimizer

    scorer, held = _held_out(of)
    chosen = RelaxedThresholdOptimizer(
        predictor=lambda X: scorer.predict_proba(X)[:, 1], constraint=word, tolerance=of.level
    )
    chosen.fit(X=held.X, y=held.y, group=held.code)
    return np.mean([chosen.predict(of.test.X, group=of.test.code) for _ in range(DRAWS)], axis=0)


def _oxonfair(of: Case, word: str, guessed: bool = False) -> Any:
    """With groups that are seen or guessed at prediction; a recall floor knows none."""
    from oxonfair import FairPredictor, group_metrics

    (scorer, held), floor = _held_out(of), of.kind == RECALL_FLOOR
    given = [{"data": rows.X, "target": rows.y} | ({} if floor else {"groups": rows.code}) for rows in (held, of.test)]
    known: dict[str, Any] = {"groups": None} if floor else {}
    if guessed:
        known = {"inferred_groups": booster().fit(of.train.X, of.train.code)}
    chosen, rate = FairPredictor(scorer, given[0], **known), getattr(group_metrics, word)
    chosen.fit(group_metrics.accuracy, rate, 1.0 - of.level if floor else of.level)
    return np.ravel(chosen.predict(given[1]))


def _fairgbm(of: Case, word: str) -> Any:
    import fairgbm

    rows = fairgbm.Dataset(of.train.X, of.train.y, constraint_group=of.train.code)
    settings = {
        "objective": "constrained_cross_entropy", "constraint_type": word, "num_leaves": 15,
        "constraint_fnr_tolerance": of.level, "constraint_fpr_tolerance": of.level, "num_threads": 1, "verbose": -1,
        "seed": 0,
    }  # fmt: skip
    return fairgbm.train(settings, rows, 100).predict(of.test.X) > 0.5


def _tuned_threshold(of: Case, word: str) -> Any:
    def score(y: Any, called: Any) -> float:
        """Accuracy, and below it by the shortfall where the floor is missed."""
        found = recall_score(y, called)
        return float(accuracy_score(y, called) if found >= 1.0 - of.level else found - 1.0)

    chosen = TunedThresholdClassifierCV(booster(), scoring=make_scorer(score), random_state=0)
    return chosen.fit(of.train.X, of.train.y).predict(of.test.X)


NO_GOAL = "no goal"
REDUCTION = partial(GoalReduction, one_run=False)
BY_GROUP = partial(GoalThresholdClassifier, cv=5, per_population="group")
UNAWARE: dict[str, Callable[[Case], Any]] = {
    "linear": _linear,
    "reduction": partial(_ours, make=REDUCTION),
    "one run": partial(_ours, make=partial(GoalReduction, one_run=True)),
}


class Comparison(NamedTuple):
    """Methods side by side under some goals: which of ours is held against the peers, all of ours, and the peers.

    Of these the module, the call, and what they call the goals, if they know them.
    """

    title: str
    goals: tuple[str, ...]
    first: str
    ours: dict[str, Callable[[Case], Any]]
    peers: dict[str, tuple[str, Callable[[Case, str], Any], tuple[str | None, ...]]]


RATES = ("demographic_parity", "true_positive_rate_parity", "equalized_odds")
OXONFAIR = ("demographic_parity", "equal_opportunity", "equalized_odds_max")
BLIND = Comparison(
    "Group unseen at prediction", GOALS, "one run",
    UNAWARE | {"guessed groups": partial(_ours, make=partial(BY_GROUP, group_estimator=booster()))},
    {
        "fairlearn ExponentiatedGradient": (
            "fairlearn", _exponentiated_gradient, ("DemographicParity", "TruePositiveRateParity", "EqualizedOdds"),
        ),
        "OxonFair, inferred groups": ("oxonfair", partial(_oxonfair, guessed=True), OXONFAIR),
        "FairGBM": ("fairgbm", _fairgbm, (None, "FNR", "FPR,FNR")),
    },
)  # fmt: skip
AWARE = Comparison(
    "Group seen at prediction", GOALS, "thresholds by group",
    {
        "thresholds by group": partial(_ours, make=BY_GROUP, aware=True),
        "reduction by group": partial(_ours, make=partial(REDUCTION, per_population="group"), aware=True),
    },
    {
        "fairlearn ThresholdOptimizer": ("fairlearn", _threshold_optimizer, RATES),
        "error-parity": ("error_parity", _error_parity, RATES),
        "OxonFair": ("oxonfair", _oxonfair, OXONFAIR),
    },
)  # fmt: skip
FLOOR = Comparison(
    "Recall floor", (RECALL_FLOOR,), "threshold",
    UNAWARE | {"threshold": partial(_ours, make=partial(GoalThresholdClassifier, cv=5))},
    {
        "scikit-learn TunedThresholdClassifierCV": ("sklearn", _tuned_threshold, ("recall",)),
        "OxonFair": ("oxonfair", _oxonfair, ("recall",)),
    },
)  # fmt: skip
COMPARISONS = (BLIND, AWARE, FLOOR)
WITHOUT_LEVEL = {NO_GOAL, "fairlearn ThresholdOptimizer"}
"""One model whatever the level is; the second asks for parity itself."""


def measured(called: Any, test: People, kind: str) -> tuple[float, float]:
    """Error, and by how much the rates of the two groups differ; of a recall floor the share that is missed."""
    called = np.asarray(called, dtype=np.float64)
    error = float(np.where(test.y == 1, 1.0 - called, called).mean())
    if kind == RECALL_FLOOR:
        return error, float(1.0 - called[test.y == 1].mean())
    # The rows on which rates of the groups are compared: all, the positive ones, or these and the negative ones.
    compared = {PARITY: [test.y >= 0], "equal opportunity": [test.y == 1]}
    every = compared.get(kind, [test.y == 1, test.y == 0])
    return error, max(abs(float(called[of & test.first].mean() - called[of & ~test.first].mean())) for of in every)


def points(name: str, context: Context) -> list[Row]:
    """Error and violation on new rows of every method at every level of every goal, on a table."""
    whole, rows = people(name, context.load(name)), []
    for split, kind in product(range(context.repeats), context.pick([*GOALS, RECALL_FLOOR], [PARITY, RECALL_FLOOR])):
        order = np.random.default_rng(2000 + split).permutation(len(whole.y))
        n_train = min(TRAIN_ROWS, len(order) // 2)
        train, test = whole.take(order[:n_train]), whole.take(order[n_train:])
        share = float(test.y.mean())
        # The constant model of no violation: of a recall floor it calls everybody positive.
        trivial = 1.0 - share if kind == RECALL_FLOOR else min(share, 1.0 - share)
        levels = (FLOORS if kind == RECALL_FLOOR else LEVELS)[context.pick(slice(None), slice(1, 2))]
        ours, peers = {NO_GOAL: _plain}, dict[str, Callable[[Case], Any]]()
        for of in (of for of in COMPARISONS if kind in of.goals):
            ours |= of.ours
            for title, (module, call, words) in of.peers.items():
                word = words[of.goals.index(kind)]
                if word is not None and context.peer(module) is not None:
                    peers[title] = partial(call, word=word)
        for (method, call), level in product((ours | peers).items(), levels):
            if method in WITHOUT_LEVEL and level != levels[0]:
                continue
            try:
                timing = Timing.of(partial(call, Case(train, test, kind, level)))
            except Exception as error:
                if method in ours:
                    raise
                print(f"{name}, {kind}, {method}: {error}", file=sys.stderr)  # a peer's own failure
                continue
            error, violation = measured(timing.result, test, kind)
            rows.append({
                "table": name, "split": split, "trivial": trivial, "goal": kind, "method": method, "level": level,
                "error": error, "violation": violation, "seconds": timing.processor_median,
            })  # fmt: skip
    return rows


def _rows(content: Content) -> list[Row]:
    """The points of all tables that were measured."""
    return [row for name in GROUPS for row in content.get(name, [])]


def least_error(reached: Iterable[tuple[float, float]], violation: float) -> float:
    """The least error of mixtures of (violation, error) at a violation."""
    several = sorted(set(reached))
    errors = [error for at, error in several if at <= violation]
    errors += [
        error + (other - error) * (violation - low) / (high - low)
        for (low, error), (high, other) in combinations(several, 2) if low <= violation <= high and low < high
    ]  # fmt: skip
    return min(errors, default=np.inf)


def frontiers(rows: Sequence[Row]) -> Row:
    """For each method of a split its mean error along the frontier."""
    found = {name: [(row["violation"], row["error"]) for row in own] for name, own in grouped(rows, "method")}
    (plain,) = found[NO_GOAL]
    beside = [plain, (0.0, rows[0]["trivial"])]
    return {
        name: np.mean([least_error([*reached, *beside], share * plain[0]) for share in SHARES])
        for name, reached in found.items()
    }


def _compared(of: Comparison, content: Content) -> Iterable[Row]:
    """A line for each table and goal: mean errors, and those of the first minus the best peer's, split by split."""
    for (table, goal), rows in grouped(_rows(content), "table", "goal"):
        errors = pd.DataFrame([frontiers(here) for _, here in grouped(rows, "split")])
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


def _seconds(names: Sequence[str]) -> Table:
    def means(content: Content) -> Iterable[Row]:
        for method, rows in grouped(_rows(content), "method"):
            by_table = grouped(rows, "table")
            yield {"method": method} | {table: fmean(row["seconds"] for row in some) for table, some in by_table}

    return Table("Mean processor seconds of a fit", means, " | ".join(["method", *(f"{name}:.2f" for name in names)]))


class any_model(
    Task, subject="any model", repeats=8, peers=("fairlearn", "oxonfair", "error-parity", "fairgbm", "lightgbm")
):
    """Boosted trees under fairness goals on german, credit-card, bank: the error at equal violation on new rows, beside
    fairlearn, error-parity, OxonFair and FairGBM, who does not see the group at prediction and who does; and under a
    recall floor
    """

    parts = {name: partial(points, name) for name in HALVES["any model"]["reporting"]}
    blind, aware, floor, seconds = _table(BLIND), _table(AWARE), _table(FLOOR), _seconds(tuple(parts))

    def targets(self, content: Content) -> Iterable[Limit]:
        """What the guide names first is not behind the best peer by more than two standard errors."""
        for of in COMPARISONS:
            for row in _compared(of, content):
                if "best" in row:
                    mean, error = row["minus"]
                    what = f"{row['table']}, {row['goal']}: error of {of.first} minus that of {row['best']}"
                    yield Limit(what, mean, 2.0 * error if error == error else 0.0)

    def picture(self, content: Content, path: Path) -> None:
        """Error against the difference between groups on new rows, for bounds on the positive rates, means."""
        from matplotlib.figure import Figure

        points = pd.DataFrame(_rows(content)).query(f"goal == '{PARITY}'")
        means = points.groupby(["table", "method", "level"])[["violation", "error"]].mean()
        tables = points["table"].unique()
        figure = Figure(figsize=(4.2 * len(tables), 7.6), layout="constrained")
        grid = figure.subplots(2, len(tables), squeeze=False, sharex="col", sharey="col")
        for line, of in zip(grid, (BLIND, AWARE), strict=True):
            for axes, table in zip(line, tables, strict=True):
                axes.set(title=f"{table}: {of.title.lower()}", xlabel="difference of positive rates on new rows")
                for number, name in enumerate((NO_GOAL, *of.ours, *of.peers)):
                    if name in means.loc[table].index:
                        style = "*" if name == NO_GOAL else "o-" if name in of.ours else "s--"
                        axes.plot(*means.loc[table, name].T.to_numpy(), style, color=f"C{number}", label=name)
            line[0].set_ylabel("error on new rows")
            # A method may be missing from a table.
            every = [pair for axes in line for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
            drawn = {label: handle for handle, label in every}
            line[-1].legend(drawn.values(), drawn, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.savefig(path, dpi=85, metadata={"Software": None})


class any_model_tuned(any_model, half="tuning"):
    """Boosted trees under fairness goals on adult, compas: the error at equal violation on new rows, beside fairlearn,
    error-parity, OxonFair and FairGBM, who does not see the group at prediction and who does; and under a recall floor
    """

    parts = {name: partial(points, name) for name in HALVES["any model"]["tuning"]}
    seconds = _seconds(tuple(parts))
