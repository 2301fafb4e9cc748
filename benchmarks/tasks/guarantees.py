"""How often a guarantee is false: simulated draws from known distributions; and what it costs: splits of real data."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp
from joblib import Parallel, delayed
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from benchmarks.data.halves import names
from benchmarks.data.sources import OUTCOMES, encoded
from benchmarks.task import Content, Context, Limit, Row, Table, Task, mean_and_error, quietly
from benchmarks.tasks.group_thresholds import FirstColumn
from widemargin import GoalThresholdClassifier, RateConstrainedClassifier, audit
from widemargin.exceptions import InfeasibleGoalError

Floats = npt.NDArray[np.float64]

DRAWS, ROWS, POPULATION, DELTA = 1000, 500, 10_000, 0.1
SPLITS, CONFIDENCE = 100, 0.95
PART = 250
"""Draws that one process makes at a time."""

JOBS = int(os.environ.get("WIDEMARGIN_BENCH_JOBS", "1"))
"""Processes; nothing is timed here."""

TRAINED = "trained to the goal"
QUANTILE = 0.999
"""Of the binomial distribution: what the error of the simulation itself may add to delta."""

GROUPS = 'w = population(g == "w")\nm = population(g == "m")\n'


# --- known distributions --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class World:
    """A distribution that is known: the uniform one over finitely many rows. Draws are independent, with replacement.

    Attributes
    ----------
    X : ndarray of shape (N, d)
        The first column is the score that thresholds are chosen for.
    """

    X: Floats
    y: npt.NDArray[np.int64]
    group: npt.NDArray[np.str_]
    deployed: npt.NDArray[np.int64]

    def table(self, rows: Any = slice(None)) -> pa.Table:
        """Columns for populations and the deployed model."""
        return pa.table({"g": self.group[rows], "deployed": self.deployed[rows]})


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to a guarantee in one scenario; by estimate without a confidence."""

    scenario: str
    form: str
    confidence: float | None


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A goal, the world it is measured in, and the true slack of each of its constraints."""

    goal: str
    make: Callable[[np.random.Generator, int], World]
    slacks: Callable[[World, Floats], Sequence[float]]


def shifted(rng: np.random.Generator, n: int) -> World:
    """Scores that are larger for positives and for men; a deployed model that knows the score and some noise."""
    woman, y = rng.random(n) < 0.4, (rng.random(n) < 0.4).astype(np.int64)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.6 * y - 0.5 * woman
    X[:, 1] += 0.5 * y
    deployed = (X[:, 0] + 0.3 * rng.normal(size=n) > 0.6).astype(np.int64)
    return World(np.round(X, 2), y, np.where(woman, "w", "m"), deployed)


def flat(rng: np.random.Generator, n: int) -> World:
    """Every row twice, once positive and once negative: the precision is 1/2 whatever is called positive."""
    half = shifted(rng, n // 2)
    y = np.repeat([0, 1], n // 2)
    return World(np.vstack([half.X, half.X]), y, np.tile(half.group, 2), np.tile(half.deployed, 2))


def mean(values: Floats, where: npt.NDArray[np.bool_]) -> float:
    """Mean over some rows."""
    return float(values[where].mean())


SCENARIOS = {
    "recall floor": Scenario(
        "minimize false_positive_rate()\nsubject to recall() >= 0.8",
        shifted,
        lambda world, p: [mean(p, world.y == 1) - 0.8],
    ),
    "flat precision": Scenario(
        "minimize -1 * recall()\nsubject to precision() >= 0.52",
        flat,
        lambda world, p: [float(p[world.y == 1].sum() / p.sum()) - 0.52 if p.sum() > 0 else -1.0],
    ),
    "difference of groups": Scenario(
        GROUPS + "minimize error_rate()\nsubject to recall(w) >= 0.6\nsubject to recall(m) >= 0.6\n"
        "subject to false_positive_rate(m) - false_positive_rate(w) <= 0.28",
        shifted,
        lambda world, p: [
            *(mean(p, (world.y == 1) & (world.group == g)) - 0.6 for g in "wm"),
            0.28 + mean(p, (world.y == 0) & (world.group == "w")) - mean(p, (world.y == 0) & (world.group == "m")),
        ],
    ),
    "churn": Scenario(
        'minimize false_positive_rate()\nsubject to churn("deployed") <= 0.3\nsubject to recall() >= 0.7',
        shifted,
        lambda world, p: [
            0.3 - float(np.where(world.deployed == 1, 1.0 - p, p).mean()),
            mean(p, world.y == 1) - 0.7,
        ],
    ),
}


def _thresholds(scorer: Any, goal: str, confidence: float | None) -> dict[str, Any]:
    """Thresholds of every kind, chosen on validation rows."""
    kinds: dict[str, dict[str, Any]] = {
        "one threshold": {},
        "per population": {"per_population": "g"},
        "randomised": {"randomize": True},
        "randomised per population": {"per_population": "g", "randomize": True},
    }
    fixed = {"cv": "prefit", "confidence": confidence}
    return {name: GoalThresholdClassifier(scorer, goal, **fixed, **kind) for name, kind in kinds.items()}


def forms(goal: str, confidence: float | None) -> dict[str, Any]:
    """Every way to a guarantee."""
    trained = RateConstrainedClassifier(
        goal, confidence=confidence, max_steps=1, solver_options={"tol": 0.01, "validation_fraction": 0.5}
    )
    return _thresholds(FirstColumn(), goal, confidence) | {TRAINED: trained}


def positive_share(model: Any, X: Any, table: pa.Table) -> Floats:
    """Probability that each row is called positive."""
    if isinstance(model, RateConstrainedClassifier):
        return (model.predict(X) == 1).astype(np.float64)
    if model.randomize:
        return np.asarray(model.randomized_proba(X, table)[:, 1], dtype=np.float64)
    return (model.predict(X, table) == 1).astype(np.float64)


def _fitted(model: Any, X: Any, y: Any, table: pa.Table) -> bool:
    """Fit; whether the goal was not refused."""
    with quietly():
        try:
            model.fit(X, y, populations=table)
        except InfeasibleGoalError:
            return False
    return True


def _simulate(case: Case, draws: int, part: int) -> tuple[int, int, int]:
    """Draws, how many of them gave a model, and in how many it breaks a constraint in truth; `part` seeds the draws."""
    scenario = SCENARIOS[case.scenario]
    world = scenario.make(np.random.default_rng(list(SCENARIOS).index(case.scenario)), POPULATION)
    rng = np.random.default_rng([part, *case.form.encode()])
    everyone, given, wrong = world.table(), 0, 0
    for _ in range(draws):
        rows = rng.integers(0, POPULATION, ROWS if case.form != TRAINED else 2 * ROWS)
        model = forms(scenario.goal, case.confidence)[case.form].set_params(random_state=int(rng.integers(2**31)))
        if not _fitted(model, world.X[rows], world.y[rows], world.table(rows)):
            continue
        given += 1
        wrong += min(scenario.slacks(world, positive_share(model, world.X, everyone))) < -1e-12
    return draws, given, wrong


def simulations(ctx: Context) -> list[Row]:
    """Every scenario and form at a confidence; and, with a tenth of the draws, by estimate."""
    draws = ctx.pick(DRAWS, 1)
    cases = [Case(name, form, level) for name in SCENARIOS for form in forms("", None) for level in (1.0 - DELTA, None)]
    tasks = []
    for case in cases:
        number = max(draws // 10, 1) if case.confidence is None else draws
        tasks += [(case, min(PART, number - start), start // PART) for start in range(0, number, PART)]
    done = Parallel(n_jobs=JOBS, verbose=1)(delayed(_simulate)(*task) for task in tasks)
    rows = []
    for case in cases:
        counts = [found for task, found in zip(tasks, done, strict=True) if task[0] == case]
        number, given, wrong = np.sum(counts, axis=0).tolist()
        rows.append(dataclasses.asdict(case) | {"draws": number, "given": given / number, "false": wrong / number})
    return rows


def most_false(draws: int) -> float:
    """Delta and the simulation's own error."""
    return float(binom.ppf(QUANTILE, draws, DELTA)) / draws


# --- real data ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RealData:
    """Rows to be split at random, who is in the first group, and the goal asked of them with its slacks on rows."""

    name: str
    X: Any
    y: npt.NDArray[np.int64]
    group: npt.NDArray[np.str_]
    goal: str


def _real(ctx: Context) -> list[RealData]:
    """Adult as binary features (a9a), w: women; COMPAS with ProPublica's filter, w: African-American, m: Caucasian."""
    adult, compas = ctx.load("a9a"), _populations(ctx, "compas")
    X, y = sp.vstack([adult.X, adult.X_test]).tocsr(), np.concatenate([adult.y, adult.y_test]) > 0
    woman = np.concatenate([adult.women, adult.women_test])
    ratio = "minimize error_rate()\nsubject to positive_rate(w) >= 0.5 * positive_rate(m)\nsubject to recall() >= 0.6"
    difference = (
        "minimize error_rate()\nsubject to false_positive_rate(w) - false_positive_rate(m) <= 0.15\n"
        "subject to recall() >= 0.5"
    )
    return [
        RealData(f"Adult ({len(y)} rows)", X, y.astype(np.int64), np.where(woman, "w", "m"), GROUPS + ratio),
        dataclasses.replace(compas, name=f"COMPAS ({len(compas.y)} rows)", goal=GROUPS + difference),
    ]


def _hold(data: RealData, test: npt.NDArray[np.intp], p: Floats) -> bool:
    """Whether every constraint holds on the test rows, computed from the rows themselves."""
    y, woman = data.y[test], data.group[test] == "w"
    recall = mean(p, y == 1)
    if data.name.startswith("Adult"):
        return mean(p, woman) >= 0.5 * mean(p, ~woman) and recall >= 0.6
    gap = mean(p, (y == 0) & woman) - mean(p, (y == 0) & ~woman)
    return gap <= 0.15 and recall >= 0.5


def _one_split(data: RealData, seed: int) -> dict[tuple[str, float | None], tuple[bool, bool, float]]:
    """For each form and confidence: whether a model was given, whether the constraints hold, and the test error."""
    train, held, test = np.array_split(np.random.default_rng(seed).permutation(len(data.y)), 3)
    y, table = data.y[test], pa.table({"g": data.group[test]})

    def outcome(p: Floats) -> tuple[bool, bool, float]:
        return True, _hold(data, test, p), float(np.where(y == 1, 1.0 - p, p).mean())

    scorer = LogisticRegression(max_iter=300).fit(data.X[train], data.y[train])
    both = np.sort(np.concatenate([train, held]))
    found = {("no goal", None): outcome((scorer.predict(data.X[test]) == 1).astype(np.float64))}
    for confidence in (None, CONFIDENCE):
        trained = RateConstrainedClassifier(
            data.goal, C=1.0, confidence=confidence, solver_options={"tol": 0.001, "validation_fraction": 0.5}
        )
        models = _thresholds(scorer, data.goal, confidence) | {TRAINED: trained}
        del models["randomised"]
        for name, model in models.items():
            rows = both if name == TRAINED else held
            model.set_params(random_state=seed)
            given = _fitted(model, data.X[rows], data.y[rows], pa.table({"g": data.group[rows]}))
            p = positive_share(model, data.X[test], table) if given else None
            found[name, confidence] = (False, False, np.nan) if p is None else outcome(p)
    return found


def splits(ctx: Context) -> list[Row]:
    """Random thirds (training, validation, test): how often the constraints hold on the test rows, and the error."""
    rows: list[Row] = []
    for data in _real(ctx):
        found: dict[tuple[str, float | None], list[tuple[bool, bool, float]]] = {}
        for one in Parallel(n_jobs=JOBS, verbose=1)(
            delayed(_one_split)(data, seed) for seed in range(ctx.pick(SPLITS, 1))
        ):
            for case, outcome in one.items():
                found.setdefault(case, []).append(outcome)
        for (form, confidence), outcomes in found.items():
            given = [outcome for outcome in outcomes if outcome[0]]
            rows.append({
                "data": data.name, "form": form, "confidence": confidence, "splits": len(outcomes),
                "given": len(given) / len(outcomes),
                "hold": float(np.mean([outcome[1] for outcome in given])) if given else None,
                "error": float(np.mean([outcome[2] for outcome in given])) if given else None,
            })  # fmt: skip
    return rows


# --- what a proof costs -----------------------------------------------------------------------------------------------

SEXES = {"adult": "sex", "german": "sex", "credit-card": "SEX", "bank": "marital"}
"""The column by which populations are told apart; of more than two values the first against all others."""


def _apart(rate: str, most: float) -> str:
    return "".join(f"subject to {rate}({a}) - {rate}({b}) <= {most}\n" for a, b in ("wm", "mw"))


COSTED = {
    "parity .1": _apart("positive_rate", 0.1),
    "parity .05": _apart("positive_rate", 0.05),
    "80% rule": "".join(f"subject to positive_rate({a}) >= 0.8 * positive_rate({b})\n" for a, b in ("wm", "mw")),
    "opportunity .1": _apart("recall", 0.1),
    "odds .1": _apart("recall", 0.1) + _apart("false_positive_rate", 0.1),
    "false alarms .15": (
        "subject to false_positive_rate(w) - false_positive_rate(m) <= 0.15\nsubject to recall() >= 0.5"
    ),
}


def _populations(ctx: Context, name: str) -> RealData:
    """A table of people whose rows belong to one of two populations."""
    table = ctx.load(name)
    if name == "compas":
        race = np.asarray(table["race"]).astype(str)
        two = np.isin(race, ["African-American", "Caucasian"])
        X, y = encoded(table.drop_columns(["race"]), OUTCOMES[name])
        return RealData(name, X[two], y[two], np.where(race[two] == "Caucasian", "m", "w"), "")
    X, y = encoded(table, OUTCOMES.get(name, "y"))
    values = np.asarray(table[next(each for each in (SEXES[name], "sex") if each in table.column_names)]).astype(str)
    return RealData(name, X, y, np.where(values == np.unique(values)[0], "w", "m"), "")


def _one_cost(data: RealData, goal: str, by_group: bool, seed: int) -> tuple[float, bool] | None:
    """Points of error above thresholds chosen by estimate, and whether the goal is broken in truth; None: refused.

    The table is the distribution: the rows for training and for the proof are drawn from it, with replacement.
    """
    n = min(2000, len(data.y) // 2)
    rows = np.random.default_rng(seed).integers(0, len(data.y), 2 * n)
    drawn, everyone = (pa.table({"g": group}) for group in (data.group[rows], data.group))
    whole = GROUPS + "minimize error_rate()\n" + goal
    reports = []
    for confidence in (None, CONFIDENCE):
        model = GoalThresholdClassifier(
            LogisticRegression(max_iter=300), whole, cv=None, validation_fraction=0.5, confidence=confidence,
            per_population="g" if by_group else None, random_state=seed, on_infeasible="warn",
        )  # fmt: skip
        with quietly():
            model.fit(data.X[rows], data.y[rows], populations=drawn)
        if confidence is not None and model.guarantee_ is None:
            return None
        reports.append(audit(model, whole, data.X, data.y, populations=everyone))
    estimated, proved = reports
    return 100.0 * (proved.objective - estimated.objective), not proved.all_met()


def costs(ctx: Context) -> list[Row]:
    """By table, form and goal: what a proof costs beside a choice by estimate, refusals, and broken goals."""
    rows: list[Row] = []
    draws = ctx.pick(20, 1)
    for name in names("proofs", ctx.task.half):
        data = _populations(ctx, name)
        for by_group in (False, True):
            for title, goal in list(COSTED.items())[: ctx.pick(None, 1)]:
                every = Parallel(n_jobs=JOBS)(delayed(_one_cost)(data, goal, by_group, seed) for seed in range(draws))
                given = [each for each in every if each is not None]
                rows.append({
                    "table": name, "form": "per population" if by_group else "one threshold", "goal": title,
                    "draws": draws, "refused": draws - len(given), "broken": sum(each[1] for each in given),
                    "cost": mean_and_error([each[0] for each in given]) if given else None,
                })  # fmt: skip
    return rows


def _mean_costs(content: Content) -> Iterable[Row]:
    """By table and form, over the goals."""
    for table, form in dict.fromkeys((row["table"], row["form"]) for row in content["costs"]):
        some = [row for row in content["costs"] if (row["table"], row["form"]) == (table, form)]
        cost = float(np.mean([row["cost"][0] for row in some if row["cost"] is not None] or [np.nan]))
        counts = {key: sum(row[key] for row in some) for key in ("draws", "refused", "broken")}
        yield {"table": table, "form": form, "goals": len(some), "cost": cost, **counts}


def _cost_targets(content: Content) -> Iterable[Limit]:
    rows = list(_mean_costs(content))
    for row in rows:
        most = 3.0 if row["form"] == "one threshold" else 2.0
        yield Limit(f"what a proof costs, {row['table']}, {row['form']}, mean over goals", row["cost"], most, "points")
    given = sum(row["draws"] - row["refused"] for row in rows)
    yield Limit("share of the proved goals that are broken", sum(row["broken"] for row in rows) / given, 0.05)


_COSTS = {
    "means": Table(
        "Points of error above a choice by estimate, means over goals", _mean_costs,
        "table | form | goals | draws | refused | proved, but broken: {broken} | cost: {cost:.2f}",
    ),
    "costs": Table(
        "The same by goal", "costs", "table | form | goal | draws | refused | broken | cost: {cost:±.2f}",
    ),
}  # fmt: skip


def _with_estimates(content: Content) -> Iterable[Row]:
    """One row for each scenario and form, with the share by estimate beside it."""
    guessed = {
        (row["scenario"], row["form"]): row["false"] for row in content["simulations"] if row["confidence"] is None
    }
    for row in content["simulations"]:
        if row["confidence"] is not None:
            most = most_false(row["draws"])
            by_estimate = guessed[row["scenario"], row["form"]]
            yield row | {"most": most, "within": row["false"] <= most, "by estimate": by_estimate}


def _decided(content: Content) -> Iterable[Row]:
    for row in content["splits"]:
        how = "estimate" if row["confidence"] is None else f"confidence {row['confidence']}"
        yield row | {"how": "-" if row["form"] == "no goal" else how}


def _targets(content: Content) -> Iterable[Limit]:
    rows = [row for row in content["simulations"] if row["confidence"] is not None]
    if rows and min(row["draws"] for row in rows) >= 1000:
        draws = rows[0]["draws"]
        most = max(row["false"] for row in rows)
        yield Limit(f"false guarantees, largest rate in {draws} draws", most, most_false(draws))


TASKS = {
    "guarantees": Task(
        "How often \"with confidence\" is wrong. Four distributions are known exactly; a model is accepted on 500 "
        "validation rows at delta = .1 and measured in the distribution itself. The rate of false draws may be delta "
        "and what the simulation adds.",
        {"simulations": simulations},
        {
            "false": Table(
                f"False guarantees in draws of {ROWS} validation rows, delta = {DELTA:g}", _with_estimates,
                "scenario | form | draws | model given: {given:.3f} | false: {false:.4f} | at most: {most:.3f} | "
                "within | false by estimate: {by estimate:.2f}",
            ),
        },
        _targets, half="neutral",
    ),
    "guarantees_splits": Task(
        "What a guarantee costs: random thirds of Adult and COMPAS for training, validation and test. How far bounds "
        "are tightened in training was chosen on such splits.",
        {"splits": splits},
        {
            "hold": Table(
                "Constraints on the test third in random splits", _decided,
                "data | form | decided by: {how} | splits | model given: {given:.2f} "
                "| all constraints hold on test rows: {hold:.2f} | mean test error: {error:.4f}",
            ),
        },
        half="tuning",
    ),
    "guarantee_costs": Task(
        "What a proof costs: thresholds of logistic regression, proved at 95%, beside those chosen by estimate, on "
        "tables that nothing was chosen on. As many rows train as prove, 2,000 at most.",
        {"costs": costs}, _COSTS, _cost_targets, subject="proofs",
    ),
    "guarantee_costs_tuned": Task(
        "The same on the tables that the search for ranks and the order of tests were looked at on.",
        {"costs": costs}, _COSTS, _cost_targets, subject="proofs", half="tuning",
    ),
}  # fmt: skip
