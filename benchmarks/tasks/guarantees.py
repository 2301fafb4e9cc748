"""How often a guarantee is false: simulated draws from known distributions; and what it costs: draws of real data."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from benchmarks.data.sources import OUTCOMES, People, encoded
from benchmarks.task import Content, Context, Limit, Row, Table, Task, grouped, mean_and_error, quietly
from widemargin import GoalThresholdClassifier, RateConstrainedClassifier, audit
from widemargin.exceptions import InfeasibleGoalError

Floats = npt.NDArray[np.float64]

DRAWS, ROWS, POPULATION, DELTA = 1000, 500, 10_000, 0.1
CONFIDENCE = 0.95
TRAINED = "trained to the goal"
QUANTILE = 0.999
"""Of the binomial distribution: what the error of the simulation itself may add to delta."""

GROUPS = 'w = population(g == "w")\nm = population(g == "m")\n'


# --- known distributions --------------------------------------------------------------------------------------------


class World(NamedTuple):
    """A distribution that is known: the uniform one over finitely many rows. Draws are independent, with replacement.

    The first column of X is the score that thresholds are chosen for.
    """

    X: Floats
    y: npt.NDArray[np.int64]
    group: npt.NDArray[np.str_]
    deployed: npt.NDArray[np.int64]

    def table(self, rows: Any = slice(None)) -> pa.Table:
        """Columns for populations and the deployed model."""
        return pa.table({"g": self.group[rows], "deployed": self.deployed[rows]})


FIRST_COLUMN = LogisticRegression()
"""A fitted scorer whose score is the first column."""
FIRST_COLUMN.coef_, FIRST_COLUMN.intercept_, FIRST_COLUMN.classes_ = np.eye(1, 3), np.zeros(1), np.array([0, 1])


class Scenario(NamedTuple):
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


SCENARIOS = {
    "recall floor": Scenario(
        "minimize false_positive_rate()\nsubject to recall() >= 0.8",
        shifted,
        lambda world, p: [p[world.y == 1].mean() - 0.8],
    ),
    "flat precision": Scenario(
        "minimize -1 * recall()\nsubject to precision() >= 0.52",
        flat,
        lambda world, p: [p[world.y == 1].sum() / p.sum() - 0.52 if p.sum() > 0 else -1.0],
    ),
    "difference of groups": Scenario(
        GROUPS + "minimize error_rate()\nsubject to recall(w) >= 0.6\nsubject to recall(m) >= 0.6\n"
        "subject to false_positive_rate(m) - false_positive_rate(w) <= 0.28",
        shifted,
        lambda world, p: [
            *(p[(world.y == 1) & (world.group == g)].mean() - 0.6 for g in "wm"),
            0.28 + np.subtract(*(p[(world.y == 0) & (world.group == g)].mean() for g in "wm")),
        ],
    ),
    "churn": Scenario(
        'minimize false_positive_rate()\nsubject to churn("deployed") <= 0.3\nsubject to recall() >= 0.7',
        shifted,
        lambda world, p: [0.3 - np.where(world.deployed == 1, 1.0 - p, p).mean(), p[world.y == 1].mean() - 0.7],
    ),
}


def forms(goal: str, confidence: float | None) -> dict[str, Any]:
    """Every way to a guarantee: thresholds of every kind, chosen on validation rows, and training."""
    chosen = partial(GoalThresholdClassifier, FIRST_COLUMN, goal, cv="prefit", confidence=confidence)
    options = {"tol": 0.01, "validation_fraction": 0.5}
    return {
        "one threshold": chosen(),
        "per population": chosen(per_population="g"),
        "randomised": chosen(randomize=True),
        "randomised per population": chosen(per_population="g", randomize=True),
        TRAINED: RateConstrainedClassifier(goal, confidence=confidence, max_steps=1, solver_options=options),
    }


def positive_share(model: Any, X: Any, table: pa.Table) -> Floats:
    """Probability that each row is called positive."""
    if isinstance(model, RateConstrainedClassifier):
        return np.asarray(model.predict(X), dtype=np.float64)
    return np.asarray(model.randomized_proba(X, table)[:, 1] if model.randomize else model.predict(X, table), float)


def _simulate(name: str, form: str, confidence: float | None, draws: int) -> Row:
    """How many of so many draws give a model, and in how many it breaks a constraint in truth."""
    scenario = SCENARIOS[name]
    world = scenario.make(np.random.default_rng(list(SCENARIOS).index(name)), POPULATION)
    rng = np.random.default_rng(list(form.encode()))
    everyone, given, wrong = world.table(), 0, 0
    for _ in range(draws):
        rows = rng.integers(0, POPULATION, ROWS if form != TRAINED else 2 * ROWS)
        model = forms(scenario.goal, confidence)[form].set_params(random_state=int(rng.integers(2**31)))
        try:
            with quietly():
                model.fit(world.X[rows], world.y[rows], populations=world.table(rows))
        except InfeasibleGoalError:  # refused
            continue
        given += 1
        wrong += min(scenario.slacks(world, positive_share(model, world.X, everyone))) < -1e-12
    return {
        "scenario": name, "form": form, "confidence": confidence, "draws": draws, "given": given / draws,
        "false": wrong / draws,
    }  # fmt: skip


def simulations(ctx: Context) -> list[Row]:
    """Every scenario and form at a confidence; and, with a tenth of the draws, by estimate."""
    ways = ctx.pick(((1.0 - DELTA, DRAWS), (None, DRAWS // 10)), ((1.0 - DELTA, 1), (None, 1)))
    return ctx.side_by_side(_simulate, ((*case, *way) for *case, way in product(SCENARIOS, forms("", None), ways)))


def most_false(draws: int) -> float:
    """Delta and the simulation's own error."""
    return float(binom.ppf(QUANTILE, draws, DELTA)) / draws


def _with_estimates(content: Content) -> Iterable[Row]:
    """One row for each scenario and form, with the share by estimate beside it."""
    for _, (proved, guessed) in grouped(content["simulations"], "scenario", "form"):
        most = most_false(proved["draws"])
        yield proved | {"most": most, "within": proved["false"] <= most, "by estimate": guessed["false"]}


class guarantees(Task, half="neutral"):
    """How often "with confidence" is wrong. Four distributions are known exactly; a model is accepted on 500 validation
    rows at delta = .1 and measured in the distribution itself. The rate of false draws may be delta and what the
    simulation adds.
    """

    parts = {"simulations": simulations}
    false = Table(
        f"False guarantees in draws of {ROWS} validation rows, delta = {DELTA:g}", _with_estimates,
        "scenario | form | draws | model given: {given:.3f} | false:.4f | at most: {most:.3f} | within "
        "| false by estimate: {by estimate:.2f}",
    )  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        rows = list(_with_estimates(content))
        draws, worst = rows[0]["draws"], max(row["false"] for row in rows)
        if draws >= 1000:
            yield Limit(f"false guarantees, largest rate in {draws} draws", worst, most_false(draws))


# --- what a proof costs -----------------------------------------------------------------------------------------------


APART = {"adult": "sex", "german": "sex", "credit-card": "SEX", "bank": "marital", "compas": "race"}
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


def _populations(name: str, table: pa.Table) -> People:
    """A table of people whose rows belong to one of two populations; a race is no feature, and compared with one."""
    values = np.asarray(table[APART[name]]).astype(str)
    X, y = encoded(table.drop_columns(["race"]) if name == "compas" else table, OUTCOMES[name])
    people = People(X, y, values == np.unique(values)[0])
    return people.take(np.isin(values, ["African-American", "Caucasian"])) if name == "compas" else people


def _one_cost(data: People, goal: str, by_group: bool, seed: int) -> tuple[float, bool] | None:
    """Points of error above thresholds chosen by estimate, and whether the goal is broken in truth; None: refused.

    The table is the distribution: the rows for training and for the proof are drawn from it, with replacement.
    """
    n = min(2000, len(data.y) // 2)
    rows = np.random.default_rng(seed).integers(0, len(data.y), 2 * n)
    drawn, whole = data.take(rows), data.asked(goal)
    models = [
        GoalThresholdClassifier(
            LogisticRegression(max_iter=300), whole.goal, cv=None, validation_fraction=0.5, confidence=confidence,
            per_population="group" if by_group else None, random_state=seed, on_infeasible="warn",
        ) for confidence in (None, CONFIDENCE)
    ]  # fmt: skip
    with quietly():
        fitted = [model.fit(drawn.X, drawn.y, populations=drawn.table) for model in models]
    if fitted[1].guarantee_ is None:
        return None
    estimated, proved = (audit(model, whole.goal, data.X, data.y, populations=whole.populations) for model in fitted)
    return 100.0 * (proved.objective - estimated.objective), not proved.all_met()


def costs(ctx: Context) -> list[Row]:
    """By table, form and goal: what a proof costs beside a choice by estimate, refusals, and broken goals."""
    rows: list[Row] = []
    draws = ctx.pick(20, 1)
    for name, table in ctx.every(slice(None)):
        data = _populations(name, table)
        for form, title in product(("one threshold", "per population"), list(COSTED)[: ctx.pick(None, 1)]):
            cases = product([data], [COSTED[title]], [form == "per population"], range(draws))
            given = [each for each in ctx.side_by_side(_one_cost, cases) if each is not None]
            rows.append({
                "table": name, "form": form, "goal": title, "draws": draws, "refused": draws - len(given),
                "broken": sum(broken for _, broken in given),
                "cost": mean_and_error([cost for cost, _ in given]) if given else None,
            })  # fmt: skip
    return rows


def _mean_costs(content: Content) -> Iterable[Row]:
    """By table and form, over the goals."""
    for (table, form), some in grouped(content["costs"], "table", "form"):
        cost = float(np.mean([row["cost"][0] for row in some if row["cost"] is not None] or [np.nan]))
        counts = {key: sum(row[key] for row in some) for key in ("draws", "refused", "broken")}
        yield {"table": table, "form": form, "goals": len(some), "cost": cost, **counts}


class guarantee_costs(Task, subject="proofs"):
    """What a proof costs: thresholds of logistic regression, proved at 95%, beside those chosen by estimate, on tables
    that nothing was chosen on. As many rows train as prove, 2,000 at most.
    """

    parts = {"costs": costs}
    means = Table(
        "Points of error above a choice by estimate, means over goals", _mean_costs,
        "table | form | goals | draws | refused | proved, but broken: {broken} | cost:.2f",
    )  # fmt: skip
    costs = Table("The same by goal", "costs", "table | form | goal | draws | refused | broken | cost: {cost:±.2f}")

    def targets(self, content: Content) -> Iterable[Limit]:
        rows = list(_mean_costs(content))
        for row in rows:
            most = 3.0 if row["form"] == "one threshold" else 2.0
            what = f"what a proof costs, {row['table']}, {row['form']}, mean over goals"
            yield Limit(what, row["cost"], most, "points")
        given = sum(row["draws"] - row["refused"] for row in rows)
        yield Limit("share of the proved goals that are broken", sum(row["broken"] for row in rows) / given, 0.05)


class guarantee_costs_tuned(guarantee_costs, half="tuning"):
    """The same on the tables that the search for ranks and the order of tests were looked at on."""
