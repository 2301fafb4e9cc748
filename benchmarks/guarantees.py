"""How often a guarantee is false: simulated draws from known distributions; and what it costs: splits of real data.

Run as `python -m benchmarks.guarantees`; see README.md here.
"""

import csv
import dataclasses
import gzip
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp
from joblib import Parallel, delayed
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.common import (
    FEMALE,
    ROOT,
    MissingDataError,
    data_folder,
    describe,
    load_adult,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    synthetic_adult,
    verdict,
    write,
)
from widemargin import GoalThresholdClassifier, RateConstrainedClassifier
from widemargin.exceptions import InfeasibleGoalError

Floats = npt.NDArray[np.float64]

DRAWS, ROWS, POPULATION, DELTA = 2000, 500, 10_000, 0.1
SPLITS, CONFIDENCE = 100, 0.95
PART = 250
"""Draws that one process makes at a time."""

TRAINED = "trained to the goal"

QUANTILE = 0.999
"""Of the binomial distribution: what the error of the simulation itself may add to delta."""

GROUPS = 'w = population(g == "w")\nm = population(g == "m")\n'


# --- known distributions --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Case:
    """One way to a guarantee in one scenario; by estimate without a confidence."""

    scenario: str
    form: str
    confidence: float | None


@dataclass(frozen=True)
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
    X = np.vstack([half.X, half.X])
    y = np.repeat([0, 1], n // 2)
    return World(X, y, np.tile(half.group, 2), np.tile(half.deployed, 2))


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


class FirstColumn(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted scorer whose score is the first column."""

    classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> "FirstColumn":
        """Nothing."""
        return self

    def decision_function(self, X: Any) -> Floats:
        """The first column."""
        return np.asarray(X[:, 0], dtype=np.float64)


def forms(goal: str, confidence: float | None) -> dict[str, Any]:
    """Every way to a guarantee."""
    fixed = {"cv": "prefit", "confidence": confidence}
    return {
        "one threshold": GoalThresholdClassifier(FirstColumn(), goal, **fixed),
        "per population": GoalThresholdClassifier(FirstColumn(), goal, per_population="g", **fixed),
        "randomised": GoalThresholdClassifier(FirstColumn(), goal, randomize=True, **fixed),
        "randomised per population": GoalThresholdClassifier(
            FirstColumn(), goal, per_population="g", randomize=True, **fixed
        ),
        TRAINED: RateConstrainedClassifier(
            goal, confidence=confidence, validation_fraction=0.5, max_steps=1, solver_options={"tol": 0.01}
        ),
    }


def positive_share(model: Any, X: Any, table: pa.Table) -> Floats:
    """Probability that each row is called positive."""
    if isinstance(model, RateConstrainedClassifier):
        return (model.predict(X) == 1).astype(np.float64)
    if model.randomize:
        return np.asarray(model.randomized_proba(X, table)[:, 1], dtype=np.float64)
    return (model.predict(X, table) == 1).astype(np.float64)


def fitted(model: Any, X: Any, y: Any, table: pa.Table) -> bool:
    """Fit; whether the goal was not refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y, populations=table)
        except InfeasibleGoalError:
            return False
    return True


def simulate(case: Case, draws: int, part: int) -> tuple[int, int, int]:
    """Draws, how many of them gave a model, and in how many it breaks a constraint in truth; `part` seeds the draws."""
    scenario = SCENARIOS[case.scenario]
    world = scenario.make(np.random.default_rng(list(SCENARIOS).index(case.scenario)), POPULATION)
    rng = np.random.default_rng([part, *case.form.encode()])
    everyone, given, wrong = world.table(), 0, 0
    for _ in range(draws):
        rows = rng.integers(0, POPULATION, ROWS if case.form != TRAINED else 2 * ROWS)
        model = forms(scenario.goal, case.confidence)[case.form].set_params(random_state=int(rng.integers(2**31)))
        if not fitted(model, world.X[rows], world.y[rows], world.table(rows)):
            continue
        given += 1
        wrong += min(scenario.slacks(world, positive_share(model, world.X, everyone))) < -1e-12
    return draws, given, wrong


def simulations(draws: int, by_estimate: int, jobs: int) -> list[dict[str, Any]]:
    """Every scenario and form at a confidence; and, with fewer draws, by estimate."""
    cases = [Case(name, form, level) for name in SCENARIOS for form in forms("", None) for level in (1.0 - DELTA, None)]
    tasks = []
    for case in cases:
        number = by_estimate if case.confidence is None else draws
        tasks += [(case, min(PART, number - start), start // PART) for start in range(0, number, PART)]
    done = Parallel(n_jobs=jobs, verbose=1)(delayed(simulate)(*task) for task in tasks)
    rows = []
    for case in cases:
        counts = [found for task, found in zip(tasks, done, strict=True) if task[0] == case]
        number, given, wrong = np.sum(counts, axis=0).tolist()
        rows.append(dataclasses.asdict(case) | {"draws": number, "given": given / number, "false": wrong / number})
    return rows


def most_false(draws: int) -> float:
    """Delta and the simulation's own error."""
    return float(binom.ppf(QUANTILE, draws, DELTA)) / draws


def show_simulations(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row for each scenario and form, with the share by estimate beside it."""
    sure = [row for row in rows if row["confidence"] is not None]
    guessed = {(row["scenario"], row["form"]): row for row in rows if row["confidence"] is None}
    return show(
        f"False guarantees in {sure[0]['draws']} draws of {ROWS} validation rows, delta = {DELTA:g}",
        ["scenario", "form", "model given", "false", f"<= {most_false(sure[0]['draws']):.3f}", "false by estimate"],
        [
            [
                row["scenario"], row["form"], f"{row['given']:.3f}", f"{row['false']:.4f}",
                verdict(row["false"] <= most_false(row["draws"])),
                f"{guessed[row['scenario'], row['form']]['false']:.2f}",
            ]
            for row in sure
        ],
    )  # fmt: skip


# --- real data ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RealData:
    """Rows to be split at random, and the goal asked of them."""

    name: str
    X: Any
    y: npt.NDArray[np.int64]
    group: npt.NDArray[np.str_]
    goal: str


ADULT_GOAL = GROUPS + (
    "minimize error_rate()\nsubject to positive_rate(w) >= 0.5 * positive_rate(m)\nsubject to recall() >= 0.6"
)
COMPAS_GOAL = GROUPS + (
    "minimize error_rate()\nsubject to false_positive_rate(w) - false_positive_rate(m) <= 0.15\n"
    "subject to recall() >= 0.5"
)
COMPAS_FILE = "compas-scores-two-years.csv.gz"


def adult(options: Namespace) -> RealData:
    """All rows of Adult as binary features (a9a), training and test rows together; w: women."""
    data = load_adult(options)
    X = sp.vstack([data.X, data.X_test]).tocsr()
    y = (np.concatenate([data.y, data.y_test]) > 0).astype(np.int64)
    woman = np.asarray(X[:, [FEMALE]].todense()).ravel() > 0
    return RealData(f"Adult ({len(y)} rows)", X, y, np.where(woman, "w", "m"), ADULT_GOAL)


def compas(options: Namespace) -> RealData:
    """COMPAS with ProPublica's filter; w: African-American, m: Caucasian.

    Raises
    ------
    MissingDataError
    """
    if options.quick:
        data = synthetic_adult(1000)
        return RealData("synthetic", data.X, (data.y > 0).astype(np.int64), np.where(data.women, "w", "m"), COMPAS_GOAL)
    path = (data_folder(options.data) or ROOT.parent / "shared" / "data") / "fairness" / COMPAS_FILE
    if not path.is_file():
        raise MissingDataError(f"{COMPAS_FILE} is not in {path.parent}; give the folder of fairness/ by --data.")
    rows = list(_compas_rows(path))
    X = np.array([row[0] for row in rows])
    y = np.array([row[1] for row in rows], np.int64)
    group = np.array([row[2] for row in rows])
    return RealData(f"COMPAS ({len(y)} rows)", StandardScaler().fit_transform(X), y, group, COMPAS_GOAL)


def _compas_rows(path: Path) -> Any:
    with gzip.open(path, "rt", newline="") as file:
        lines = csv.reader(file)
        place: dict[str, int] = {}
        for position, name in enumerate(next(lines)):
            place.setdefault(name, position)  # priors_count stands there twice
        for line in lines:
            row = {name: line[position] for name, position in place.items()}
            days, race = row["days_b_screening_arrest"], row["race"]
            if days == "" or abs(float(days)) > 30 or row["is_recid"] == "-1" or row["c_charge_degree"] == "O":
                continue
            if race not in ("African-American", "Caucasian"):
                continue
            age, priors = float(row["age"]), float(row["priors_count"])
            features = [
                age, age**2, priors, np.log1p(priors), row["sex"] == "Male", row["c_charge_degree"] == "F",
                *(float(row[f"juv_{kind}_count"]) for kind in ("fel", "misd", "other")),
            ]  # fmt: skip
            yield [float(value) for value in features], int(row["two_year_recid"]), "w" if race[0] == "A" else "m"


def split_models(goal: str, confidence: float | None) -> dict[str, Any]:
    """What is compared on the splits; the threshold classifiers get the fitted scorer."""
    made = {}
    for name, options in {
        "one threshold": {},
        "per population": {"per_population": "g"},
        "randomised per population": {"per_population": "g", "randomize": True},
    }.items():
        made[name] = GoalThresholdClassifier(None, goal, cv="prefit", confidence=confidence, **options)
    made[TRAINED] = RateConstrainedClassifier(
        goal, C=1.0, confidence=confidence, validation_fraction=0.5, solver_options={"tol": 0.001}
    )
    return made


def constraints_hold(data: RealData, test: npt.NDArray[np.intp], p: Floats) -> bool:
    """Whether every constraint holds on the test rows, computed from the rows themselves."""
    y, woman = data.y[test], data.group[test] == "w"
    recall = mean(p, y == 1)
    if data.goal == ADULT_GOAL:
        return mean(p, woman) >= 0.5 * mean(p, ~woman) and recall >= 0.6
    gap = mean(p, (y == 0) & woman) - mean(p, (y == 0) & ~woman)
    return gap <= 0.15 and recall >= 0.5


def splits(data: RealData, number: int, jobs: int) -> list[dict[str, Any]]:
    """Random thirds (training, validation, test): how often the constraints hold on the test rows, and the error."""
    found: dict[tuple[str, float | None], list[tuple[bool, bool, float]]] = {}
    for one in Parallel(n_jobs=jobs, verbose=1)(delayed(one_split)(data, seed) for seed in range(number)):
        for case, outcome in one.items():
            found.setdefault(case, []).append(outcome)
    return [_summary(data, name, confidence, rows) for (name, confidence), rows in found.items()]


def one_split(data: RealData, seed: int) -> dict[tuple[str, float | None], tuple[bool, bool, float]]:
    """For each form and confidence: whether a model was given, whether the constraints hold, and the test error."""
    train, held, test = np.array_split(np.random.default_rng(seed).permutation(len(data.y)), 3)
    y, table = data.y[test], pa.table({"g": data.group[test]})

    def outcome(p: Floats) -> tuple[bool, bool, float]:
        return True, constraints_hold(data, test, p), float(np.where(y == 1, 1.0 - p, p).mean())

    scorer = LogisticRegression(max_iter=300).fit(data.X[train], data.y[train])
    both = np.sort(np.concatenate([train, held]))
    found = {("no goal", None): outcome((scorer.predict(data.X[test]) == 1).astype(np.float64))}
    for confidence in (None, CONFIDENCE):
        for name, model in split_models(data.goal, confidence).items():
            trains = isinstance(model, RateConstrainedClassifier)
            model.set_params(random_state=seed, **({} if trains else {"estimator": scorer}))
            rows = both if trains else held
            given = fitted(model, data.X[rows], data.y[rows], pa.table({"g": data.group[rows]}))
            found[name, confidence] = (
                outcome(positive_share(model, data.X[test], table)) if given else (False, False, np.nan)
            )
    return found


def _summary(
    data: RealData, name: str, confidence: float | None, rows: Sequence[tuple[bool, bool, float]]
) -> dict[str, Any]:
    given = [row for row in rows if row[0]]
    return {
        "data": data.name, "form": name, "confidence": confidence, "splits": len(rows),
        "given": len(given) / len(rows),
        "hold": float(np.mean([row[1] for row in given])) if given else None,
        "error": float(np.mean([row[2] for row in given])) if given else None,
    }  # fmt: skip


def show_splits(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row for each form and confidence."""
    return show(
        f"Constraints on the test third in {rows[0]['splits']} random splits of {rows[0]['data']}",
        ["form", "decided by", "model given", "all constraints hold on test rows", "mean test error"],
        [
            [
                row["form"],
                decided_by(row),
                f"{row['given']:.2f}",
                "-" if row["hold"] is None else f"{row['hold']:.2f}",
                "-" if row["error"] is None else f"{row['error']:.4f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def decided_by(row: Mapping[str, Any]) -> str:
    """How a model was accepted."""
    if row["form"] == "no goal":
        return "-"
    return "estimate" if row["confidence"] is None else f"confidence {row['confidence']}"


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    made = parser("false guarantees in simulated draws; constraints on unseen rows of Adult and COMPAS")
    made.add_argument("--draws", type=int, default=DRAWS, help=f"simulated draws of each case (default {DRAWS})")
    made.add_argument("--splits", type=int, default=SPLITS, help=f"random splits (default {SPLITS})")
    made.add_argument("--jobs", type=int, default=1, help="processes (nothing is timed here; default 1)")
    options = made.parse_args(arguments)
    draws, by_estimate, number = options.draws, max(options.draws // 10, 1), options.splits
    if options.quick:
        draws, by_estimate, number = 1, 1, 1
    try:
        real = [adult(options), compas(options)]
    except MissingDataError as error:
        return skipped(error)
    about = machine()
    print(describe(about), "\n", flush=True)
    with one_thread():
        simulated = simulations(draws, by_estimate, options.jobs)
        sections = [show_simulations(simulated)]
        split = [splits(data, number, options.jobs) for data in real]
        sections += [show_splits(rows) for rows in split]
    goals = {data.name: data.goal for data in real} | {name: case.goal for name, case in SCENARIOS.items()}
    results = {
        "machine": about, "delta": DELTA, "rows": ROWS, "population": POPULATION, "goals": goals,
        "simulations": simulated, "splits": [row for rows in split for row in rows],
    }  # fmt: skip
    write(options, "guarantees", results, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
