"""How often a guarantee is false: simulated draws from known distributions; and what it costs: draws of real data."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from benchmarks.data.families import GoalRows
from benchmarks.data.sources import OUTCOMES, People, encoded
from benchmarks.task import Content, Context, Limit, Row, Table, Task, grouped, mean_and_error, quietly
from widemargin import GoalThresholdClassifier, RateConstrainedClassifier, audit
from widemargin.diagnostics import GoalReport
from widemargin.exceptions import InfeasibleGoalError


def measured(model: Any, world: GoalRows, rows: npt.NDArray[np.int64]) -> GoalReport | None:
    """A model that is fitted to some rows, measured on all, which are the distribution; None where it is refused."""
    try:
        with quietly():
            model.fit(world.X[rows], world.y[rows], populations=world.populations.take(rows))
    except InfeasibleGoalError:
        return None
    return audit(model, world.goal, world.X, world.y, populations=world.populations, confidence=None)


# --- known distributions --------------------------------------------------------------------------------------------


DRAWS, ROWS, POPULATION, DELTA = 1000, 500, 10_000, 0.1
TRAINED = "trained to the goal"
QUANTILE = 0.999
"""Of the binomial distribution: what the error of the simulation itself may add to delta."""

FIRST_COLUMN = LogisticRegression()
"""A fitted scorer whose score is the first column."""
FIRST_COLUMN.coef_, FIRST_COLUMN.intercept_, FIRST_COLUMN.classes_ = np.eye(1, 3), np.zeros(1), np.array([0, 1])


World = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], pa.Table]
"""A distribution that is known: the uniform one over finitely many rows. Draws are independent, with replacement. The
first column of X is the score that thresholds are chosen for; labels; populations and the deployed model."""


def shifted(rng: np.random.Generator, n: int) -> World:
    """Scores that are larger for positives and for men; a deployed model that knows the score and some noise."""
    woman, y = rng.random(n) < 0.4, (rng.random(n) < 0.4).astype(np.int64)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.6 * y - 0.5 * woman
    X[:, 1] += 0.5 * y
    deployed = (X[:, 0] + 0.3 * rng.normal(size=n) > 0.6).astype(np.int64)
    return np.round(X, 2), y, pa.table({"g": np.where(woman, "w", "m"), "deployed": deployed})


def flat(rng: np.random.Generator, n: int) -> World:
    """Every row twice, once positive and once negative: the precision is 1/2 whatever is called positive."""
    X, _, table = shifted(rng, n // 2)
    return np.vstack([X, X]), np.repeat([0, 1], n // 2), pa.concat_tables([table, table])


WOMEN, MEN = ("population(g == 'w')", "population(g == 'm')")
SCENARIOS: dict[str, tuple[Callable[[np.random.Generator, int], World], str]] = {
    "recall floor": (shifted, "minimize false_positive_rate()\nsubject to recall() >= 0.8"),
    "flat precision": (flat, "minimize -1 * recall()\nsubject to precision() >= 0.52"),
    "difference of groups": (
        shifted,
        f"""
        minimize error_rate()
        subject to recall({WOMEN}) >= 0.6
        subject to recall({MEN}) >= 0.6
        subject to false_positive_rate({MEN}) - false_positive_rate({WOMEN}) <= 0.28
        """,
    ),
    "churn": (
        shifted,
        "minimize false_positive_rate()\nsubject to churn('deployed') <= 0.3\nsubject to recall() >= 0.7",
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


def _simulate(name: str, form: str, confidence: float | None, draws: int) -> Row:
    """How many of so many draws give a model, and in how many it breaks a constraint in truth."""
    make, goal = SCENARIOS[name]
    world = GoalRows(*make(np.random.default_rng(list(SCENARIOS).index(name)), POPULATION), goal)
    rng, reports = np.random.default_rng(list(form.encode())), []
    for _ in range(draws):
        rows = rng.integers(0, POPULATION, ROWS if form != TRAINED else 2 * ROWS)
        model = forms(goal, confidence)[form].set_params(random_state=int(rng.integers(2**31)))
        reports.append(measured(model, world, rows))
    given = [report for report in reports if report is not None]
    return {
        "scenario": name, "form": form, "confidence": confidence, "draws": draws, "given": len(given) / draws,
        "false": sum(not kept(report, "randomised" in form) for report in given) / draws,
    }  # fmt: skip


def kept(report: GoalReport, in_expectation: bool) -> bool:
    """Whether every constraint holds, of what was predicted or in the expectation of a randomised model."""
    slacks = [one.ramp_slack if in_expectation else one.slack for one in report.constraints]
    return all(slack is not None and slack >= -1e-12 for slack in slacks)


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
    false = Table(f"False guarantees in draws of {ROWS} validation rows, delta = {DELTA:g}", _with_estimates, """
        scenario | form | draws | model given: {given:.3f} | false:.4f | at most: {most:.3f} | within
        | false by estimate: {by estimate:.2f}
    """)  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        rows = list(_with_estimates(content))
        draws, worst = rows[0]["draws"], max(row["false"] for row in rows)
        if draws >= 1000:
            yield Limit(f"false guarantees, largest rate in {draws} draws", worst, most_false(draws))


# --- what a proof costs -----------------------------------------------------------------------------------------------


CONFIDENCE = 0.95
APART = {"adult": "sex", "german": "sex", "credit-card": "SEX", "bank": "marital", "compas": "race"}
"""The column by which populations are told apart; of more than two values the first against all others."""


COSTED = {
    "parity .1": "subject to demographic_parity(group, difference=0.1)",
    "parity .05": "subject to demographic_parity(group, difference=0.05)",
    "80% rule": "subject to demographic_parity(group, ratio=0.8)",
    "opportunity .1": "subject to equal_opportunity(group, difference=0.1)",
    "odds .1": "subject to equalized_odds(group, difference=0.1)",
    "false alarms .15": (
        "subject to false_positive_rate(w) - false_positive_rate(m) <= 0.15\nsubject to recall() >= 0.5"
    ),
}


def _populations(name: str, table: pa.Table) -> People:
    """A table of people whose rows belong to one of two populations; a race is no feature, and compared with one."""
    values = np.asarray(table[APART[name]]).astype(str)
    kinds, counts = np.unique(values, return_counts=True)
    if name == "compas":  # the two most frequent ones
        table, kinds = table.drop_columns(["race"]), np.sort(kinds[np.argsort(-counts)[:2]])
    X, y = encoded(table, OUTCOMES[name])
    return People(X, y, values == kinds[0]).take(np.isin(values, kinds))


def _one_cost(data: People, goal: str, by_group: bool, seed: int) -> tuple[float, bool] | None:
    """Points of error above thresholds chosen by estimate, and whether the goal is broken in truth; None: refused.

    The table is the distribution: the rows for training and for the proof are drawn from it, with replacement.
    """
    n, world = min(2000, len(data.y) // 2), data.asked(goal)
    rows = np.random.default_rng(seed).integers(0, len(data.y), 2 * n)
    estimated, proved = (
        measured(GoalThresholdClassifier(
            LogisticRegression(max_iter=300), world.goal, cv=None, validation_fraction=0.5, confidence=confidence,
            per_population="group" if by_group else None, random_state=seed,
        ), world, rows) for confidence in (None, CONFIDENCE)
    )  # fmt: skip
    if estimated is None or proved is None:
        return None
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
    means = Table("Points of error above a choice by estimate, means over goals", _mean_costs, """
        table | form | goals | draws | refused | proved, but broken: {broken} | cost:.2f
    """)  # fmt: skip
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
