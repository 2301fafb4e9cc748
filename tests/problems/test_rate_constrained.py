"""The canonical problem against rates computed row by row from the goal's words."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from testing.cells import of_pairs
from testing.naive_rates import NaiveSource, naive_constraint, naive_form
from testing.ramp_problems import random_ramp_problem

from widemargin.goals import (
    External,
    Goal,
    Population,
    churn,
    col,
    error_rate,
    errors,
    positive_rate,
    precision,
    recall,
)
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.losses.ramp import ramp
from widemargin.problems import rate_constrained
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem
from widemargin.rows import Rows

WOMEN = Population("women", where=col("sex") == "F")
MEN = Population("men", where=col("sex") == "M")
TRAFFIC = Population.external("traffic")
GOAL = Goal(
    error_rate() + 0.5 * churn("old", on=TRAFFIC),
    [
        positive_rate(WOMEN) >= 0.8 * positive_rate(MEN),
        recall() >= 0.6,
        churn("old", on=TRAFFIC) <= 0.3,
        errors(WOMEN) <= 8,
        precision() >= 0.55,
    ],
)
IS_RATIO = np.array([False, False, False, False, True])


class Data:
    """Training rows and unlabelled traffic, with many equal rows."""

    def __init__(self, seed: int, n: int = 60, n_traffic: int = 25) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.integers(0, 2, (n, 3)) - 0.25  # eight different rows
        self.y = rng.integers(0, 2, n)
        self.y[:4] = [0, 1, 0, 1]
        self.sex = rng.choice(np.array(["F", "M", "x"]), n, p=[0.45, 0.45, 0.1])
        self.sex[:4] = ["F", "F", "M", "M"]
        self.weight = rng.integers(1, 4, n).astype(float)
        self.X_traffic = rng.integers(0, 2, (n_traffic, 3)) - 0.25
        self.old = rng.integers(0, 2, n_traffic)
        self.weight_traffic = rng.integers(1, 3, n_traffic).astype(float)

    def bind(self, rows: Any = slice(None), traffic: Any = slice(None), *, weighted: bool = True) -> TiedGoal:
        traffic_weight = self.weight_traffic[traffic] if weighted else None
        external = {"traffic": External(self.X_traffic[traffic], old=self.old[traffic], sample_weight=traffic_weight)}
        weight, table = self.weight[rows] if weighted else None, pd.DataFrame({"sex": self.sex[rows]})
        main = Rows(self.X[rows], self.y[rows], weight, table, external)
        sources = make_sources(baselines_used(GOAL), main, classes=(0, 1))
        return bind(GOAL, sources, warn_trivial=False)

    def naive(self) -> dict[str | None, NaiveSource]:
        return {
            None: NaiveSource({"sex": list(self.sex)}, list(2 * self.y - 1), list(self.weight), {}, len(self.y)),
            "traffic": NaiveSource({}, None, list(self.weight_traffic), {"old": list(2 * self.old - 1)}, len(self.old)),
        }


def build(data: Data, *, storage: Any = np.asarray, **options: Any) -> RateConstrainedProblem:
    return build_problem(data.bind(), [storage(data.X), storage(data.X_traffic)], 0.1, **options)


def apart(X: Any, cell: Any, weight: Any, *, ordered: bool) -> tuple[Any, Any]:
    """In the place of `merge_rows`: every row that is looked at stays one."""
    rows = np.flatnonzero(cell >= 0)
    return rows, np.ones(len(rows)) if weight is None else weight[rows]


@pytest.mark.parametrize("seed", range(4))
def test_ramp_and_hard_values_follow_the_definition(seed: int) -> None:
    data = Data(seed)
    tied, problem = data.bind(), build(data)
    rng = np.random.default_rng(seed + 100)
    w, b = rng.standard_normal(3), 0.1
    scores = {None: data.X @ w - b, "traffic": data.X_traffic @ w - b}
    z = problem.scores(w, b)
    soft, soft_excess = problem.ramp_values(w, z)
    hard, hard_excess = problem.values(problem.hard_mass(z))
    for objective, excess, p in (
        (soft - 0.05 * w @ w, soft_excess, {name: ramp(s) for name, s in scores.items()}),
        (hard, hard_excess, {name: (s > 0).astype(float) for name, s in scores.items()}),
    ):
        naive = data.naive()
        expected = naive_form(GOAL.objective, naive, p)
        assert objective * problem.objective_scale + tied.objective_constant == pytest.approx(expected, abs=1e-12)
        slack = np.array([naive_constraint(constraint, naive, p) for constraint in GOAL.constraints])
        weight = np.concatenate([data.weight])
        positive = float(weight @ p[None])  # the denominator of precision
        units = np.where(IS_RATIO, positive, 1.0)
        excess *= problem.constraint_scale
        np.testing.assert_allclose(-excess[: problem.n_asked], slack * units, rtol=0, atol=1e-9)
        # After the goal's own: half a row of the least weight in the denominators of the 80% rule and of precision.
        of_men = np.where(data.sex == "M", weight, 0.0) / weight[data.sex == "M"].sum()
        denominators = float(of_men @ p[None]), positive
        least = 0.5 * of_men[of_men > 0.0].min(), 0.5 * weight.min()
        np.testing.assert_allclose(excess[problem.n_asked :], np.subtract(least, denominators), rtol=0, atol=1e-9)


def test_scales_make_the_objective_sum_to_one_and_constraints_rates() -> None:
    problem = build(Data(0))
    coef = problem.coef
    assert np.maximum(coef.alpha0, coef.beta0) @ problem.cell_weight == pytest.approx(1.0)
    spread = np.zeros(problem.n_constraints)
    sizes = np.abs(coef.alpha - coef.beta) * np.repeat(problem.cell_weight, np.diff(coef.indptr))
    np.add.at(spread, coef.column, sizes)
    assert np.all((spread > 0.2)[: problem.n_asked] & (spread < 5.0)[: problem.n_asked])
    # An empty denominator counts as 5%.
    none_positive = problem.values(np.zeros_like(problem.cell_weight))[1]
    np.testing.assert_allclose(none_positive[problem.n_asked :], [0.05, 0.05], rtol=1e-9)


@given(seed=st.integers(0, 500))
def test_the_majoriser_bounds_the_ramp_problem_and_is_tight(seed: int) -> None:
    problem = build(Data(seed % 5))
    rng = np.random.default_rng(seed)
    w, b, other, c = rng.standard_normal(3), rng.normal(), rng.standard_normal(3), rng.normal()
    z = problem.scores(w, b)
    sub = problem.majorise(z)
    loss, excess = sub.values(z)
    objective, ramp_excess = problem.values(problem.ramp_mass(z))
    assert loss == pytest.approx(objective, abs=1e-13)
    np.testing.assert_allclose(excess, ramp_excess, rtol=0, atol=1e-13)
    z = problem.scores(other, c)
    loss, excess = sub.values(z)
    objective, ramp_excess = problem.values(problem.ramp_mass(z))
    assert loss >= objective - 1e-13
    assert np.all(excess >= ramp_excess - 1e-13)


def both_at(one: RateConstrainedProblem, other: RateConstrainedProblem, seed: int) -> list[tuple[Any, Any]]:
    """Ramp, 0/1 and majoriser values of two problems at the same random point."""
    rng = np.random.default_rng(seed)
    w, b, v = rng.standard_normal(3), rng.normal(), rng.standard_normal(3)
    pairs = []
    for problem in (one, other):
        z, y = problem.scores(w, b), problem.scores(v, b)
        values = [problem.ramp_values(w, z), problem.values(problem.hard_mass(z)), problem.majorise(z).values(y)]
        pairs.append(np.concatenate([np.append(excess, objective) for objective, excess in values]))
    return [(pairs[0], pairs[1])]


@pytest.mark.parametrize("seed", range(3))
def test_storage_merging_and_repetition_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Data(seed)
    reference = build(data)
    assert reference.rows.n_rows <= 70  # something was merged
    twice = np.repeat(np.arange(60), data.weight.astype(int))
    traffic = np.repeat(np.arange(25), data.weight_traffic.astype(int))
    repeated = build_problem(data.bind(twice, traffic, weighted=False), [data.X[twice], data.X_traffic[traffic]], 0.1)
    np.testing.assert_array_equal(reference.weight, repeated.weight)
    variants = [build(data, storage=sp.csr_matrix), build(data, storage=np.float32), repeated]
    monkeypatch.setattr(rate_constrained, "merge_rows", apart)
    variants.append(build(data))
    assert variants[-1].rows.n_rows > reference.rows.n_rows
    for variant in variants:
        for one, other in both_at(reference, variant, seed):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)


def test_rows_that_no_rate_looks_at_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Data(0)
    goal = Goal(error_rate(WOMEN), positive_rate(WOMEN) >= 0.2)
    table = pd.DataFrame({"sex": data.sex})
    sources = make_sources(baselines_used(goal), Rows(data.X, data.y, populations=table), classes=(0, 1))
    for join in (rate_constrained.merge_rows, apart):
        monkeypatch.setattr(rate_constrained, "merge_rows", join)
        problem = build_problem(bind(goal, sources), [data.X], 0.1)
        assert problem.weight.sum() == (data.sex == "F").sum() == problem.cell_weight.sum()


def test_cells_that_no_constraint_touches_are_merged_by_their_objective() -> None:
    """Memberships of a row that a rate does not look at (recall: of a negative one) make no kind of row."""
    rng = np.random.default_rng(0)
    n = 60
    table = pd.DataFrame({f"p{j}": rng.random(n) < 0.5 for j in range(5)})
    y = np.arange(n) % 3 == 0
    X = np.ones((n, 1))
    parts = [Population(f"p{j}", where=col(f"p{j}")) for j in range(5)]
    goal = Goal(error_rate(), [recall(part) >= 0.5 for part in parts])
    tied = bind(goal, make_sources({None: ()}, Rows(X, y, populations=table), classes=(False, True)))
    problem = build_problem(tied, [X], 0.1)
    signatures = {tuple(row) for row in table[y].to_numpy().tolist() if any(row)}
    idle_positive = int((~table[y].any(axis=1)).any())
    assert problem.coef.n_cells == len(signatures) + idle_positive + 1 < tied.coefficients.n_cells
    assert problem.rows.n_rows == problem.coef.n_cells  # X is the same everywhere, so equal rows are merged
    for mass_of in (np.zeros_like, np.copy):
        whole, merged = mass_of(tied.cell_weight), mass_of(problem.cell_weight)
        objective, values = tied.coefficients.totals(whole, tied.cell_weight - whole, 5)
        loss, excess = problem.values(merged)
        assert loss * problem.objective_scale == pytest.approx(objective, rel=1e-12)
        np.testing.assert_allclose(excess + problem.gamma, values / problem.constraint_scale, rtol=1e-12, atol=1e-15)


def test_tightened_lowers_the_bounds_only() -> None:
    problem = build(Data(1))
    by = np.arange(problem.n_constraints) / 100.0
    z = problem.scores(np.ones(3), 0.0)
    before, after = problem.values(problem.ramp_mass(z)), problem.tightened(by).values(problem.ramp_mass(z))
    assert before[0] == after[0]
    np.testing.assert_allclose(after[1], before[1] + by, rtol=0, atol=1e-15)


@pytest.mark.parametrize("rho", [1.0, 100.0])
@given(seed=st.integers(0, 2000))
def test_constant_start_is_the_best_constant(rho: float, seed: int) -> None:
    """No b on a grid has a lower merit at w = 0, unless 1/2 violates as little (all hinges slope there)."""
    rng = np.random.default_rng(seed)
    k, m = 4, int(rng.integers(0, 4))
    used = np.ones((k, m), dtype=bool)
    coef = of_pairs(
        rng.random(k), rng.random(k), np.arange(0, k * m + 1, m) if m else np.zeros(k + 1, dtype=np.int64),
        np.tile(np.arange(m), k), rng.random((k, m))[used], rng.random((k, m))[used],
    )  # fmt: skip
    mass = rng.random(k)
    positive = coef.totals(mass, np.zeros(k), m)[1]
    negative = coef.totals(np.zeros(k), mass, m)[1]
    gamma = rng.uniform(-0.2, 1.2, m) * (positive - negative) + negative  # some cannot be met by a constant
    template = build(Data(0))
    problem = replace(template, coef=coef, gamma=gamma, cell_weight=mass)

    def merit(b: float) -> tuple[float, float]:
        loss, excess = problem.values(mass * ramp(np.array(-b)))
        violation = float(np.maximum(excess, 0.0).sum())
        return loss + rho * violation, violation

    b = problem.constant_start(rho)
    assert -0.5 <= b <= 0.5
    chosen, violation = merit(b)
    grid = [merit(other) for other in np.linspace(-0.6, 0.6, 61)]
    lowest = min(value for value, _ in grid)
    if chosen > lowest + 1e-12:
        assert b == 0.0
        assert violation <= min(grid)[1] + 1e-9
    if m == 0:
        assert b == 0.0
    assert replace(problem, fit_intercept=False).constant_start(rho) == 0.0


def test_multipliers_in_the_units_of_the_goal() -> None:
    problem = build(Data(0))
    v, scale = np.arange(1.0, 8.0), problem.constraint_scale[:5]
    np.testing.assert_allclose(problem.multipliers_to_goal(v) * scale / problem.objective_scale, v[:5], rtol=1e-14)


def test_a_problem_with_some_constraints_and_one_of_them_as_objective() -> None:
    problem, _, _ = random_ramp_problem(5, 60, 3, 3)
    z = problem.scores(np.array([1.0, -0.5, 0.2]), 0.1)
    objective, excess = problem.values(problem.hard_mass(z))
    part = problem.restricted((0, 2))
    assert part.n_constraints == 2
    assert part.values(part.hard_mass(z))[0] == objective
    np.testing.assert_array_equal(part.values(part.hard_mass(z))[1], excess[[0, 2]])
    aimed = problem.restricted((2,), objective=1)
    value, left = aimed.values(aimed.hard_mass(z))
    assert value * aimed.objective_scale == pytest.approx(excess[1] + problem.gamma[1])
    np.testing.assert_array_equal(left, excess[[2]])
    most = np.maximum(aimed.coef.alpha0, aimed.coef.beta0) @ aimed.cell_weight
    assert most == pytest.approx(1.0)
    assert problem.unconstrained().n_constraints == 0


# --- another goal on the same rows -----------------------------------------------------------------------------------


def _tied_at(data: Data, goal: Goal, like: TiedGoal | None = None) -> TiedGoal:
    sources = make_sources(
        baselines_used(goal),
        Rows(data.X, data.y, sample_weight=data.weight, populations=pd.DataFrame({"sex": data.sex})),
        classes=(0, 1),
    )
    return bind(goal, sources, warn_trivial=False, like=like)


def test_a_problem_bound_again_is_the_problem_built_anew() -> None:
    data = Data(0)
    goal = Goal(error_rate(), [(positive_rate(WOMEN) >= 0.8 * positive_rate(MEN)).named("fair"), precision() >= 0.5])
    first = _tied_at(data, goal)
    problem = build_problem(first, [data.X], 0.1)
    for moved in (goal.with_level(0.3, "fair"), goal.with_level(0.7, "precision() >= 0.5")):
        tied = _tied_at(data, moved, first)
        again, fresh = problem.retied(first, tied), build_problem(tied, [data.X], 0.1)
        assert again is not None
        assert again.rows is problem.rows
        w = np.random.default_rng(0).standard_normal(3)
        z = fresh.scores(w, 0.1)
        np.testing.assert_array_equal(again.scores(w, 0.1), z)
        assert again.ramp_values(w, z)[0] == pytest.approx(fresh.ramp_values(w, z)[0], abs=1e-14)
        np.testing.assert_allclose(again.ramp_values(w, z)[1], fresh.ramp_values(w, z)[1], rtol=0, atol=1e-14)
        np.testing.assert_array_equal(again.constraint_scale, fresh.constraint_scale)


def test_rows_that_are_looked_at_in_another_way_are_merged_anew() -> None:
    data = Data(0)
    narrow = Goal(error_rate(WOMEN), positive_rate(MEN) <= 0.5)
    wide = Goal(error_rate(), [positive_rate(WOMEN) >= 0.1, positive_rate(MEN) <= 0.5])
    first = _tied_at(data, wide)
    second = _tied_at(data, narrow, first)
    assert build_problem(second, [data.X], 0.1).retied(second, first) is None  # the rows of neither sex are not there
    assert build_problem(first, [data.X], 0.1).retied(first, second) is None


def test_another_lambda_changes_the_regulariser_only() -> None:
    problem = build(Data(0))
    w = np.ones(3)
    z = problem.scores(w, 0.0)
    stronger = problem.with_lam(0.3)
    assert stronger.ramp_values(w, z)[0] - problem.ramp_values(w, z)[0] == pytest.approx(0.5 * 0.2 * 3.0)
