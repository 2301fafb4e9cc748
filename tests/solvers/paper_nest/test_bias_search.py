"""The cutting plane over the bias: its geometry against brute force, its results against the exact reference."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing.exact import solve_exact
from testing.problems import random_subproblem

from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget
from widemargin.solvers.paper_nest import weighted_hinges as hinges
from widemargin.solvers.paper_nest.bias_search import BiasSearch, LowerModel, minimisation
from widemargin.solvers.paper_nest.sdca import Ascent
from widemargin_papers.solvers.cut_choosers import bias_centre_of_mass

CHOOSERS = (minimisation, bias_centre_of_mass)


def searcher(sub, chooser=minimisation, b=0.0, v=None):
    """A search over the objective of `sub` (its constraints charged at v)."""
    ascent = Ascent(sub.rows, sub.lam)
    reweigh(ascent, sub, v)
    return BiasSearch(ascent, chooser, b=b)


def reweigh(ascent, sub, v=None):
    A, B = sub.coef.per_cell(np.zeros(sub.n_constraints) if v is None else np.asarray(v))
    plus, minus = np.empty(sub.rows.n_rows), np.empty(sub.rows.n_rows)
    hinges.side_weights(sub.weight, sub.cell, sub.keep, A, B, plus, minus)
    ascent.set_sides(plus, minus)


@st.composite
def models(draw):
    """Lines of both slopes and some flat ones."""
    numbers = st.floats(-2, 2).map(lambda x: round(x, 3))
    lines = draw(st.lists(st.tuples(numbers, numbers, numbers), min_size=0, max_size=6))
    model = LowerModel()
    model.add(0.0, draw(numbers), -draw(st.floats(0.1, 2)))
    model.add(0.0, draw(numbers), draw(st.floats(0.1, 2)))
    for b, value, slope in lines:
        model.add(b, value, slope)
    return model


@given(model=models())
def test_minimum_and_lower_bound_against_a_grid(model):
    grid = np.linspace(-60, 60, 24001)
    heights = model.at(grid)
    b, lowest = model.minimum(-60.0, 60.0, 0.0)
    assert lowest <= heights.min() + 1e-9
    assert heights.min() - lowest <= 2.0 * (grid[1] - grid[0])
    assert model.at(np.array([b]))[0] == pytest.approx(lowest, abs=1e-9)
    assert model.lower_bound() == pytest.approx(lowest, abs=1e-9)


@given(model=models(), depth=st.floats(0.05, 2.0))
def test_centre_of_mass_against_integration(model, depth):
    top = model.lower_bound() + depth
    low, high = -40.0, 40.0
    b, z = bias_centre_of_mass(model, low, high, top, near=0.0)
    inside = np.linspace(low, high, 200_001)
    inside = inside[model.at(inside) < top]
    inside = np.linspace(inside[0], inside[-1], 20_001)
    gap = np.maximum(top - model.at(inside), 0.0)
    area = gap.sum()
    assert b == pytest.approx((gap * inside).sum() / area, abs=2e-3)
    assert z == pytest.approx(top - (gap**2 / 2).sum() / area, abs=2e-3)
    assert model.at(np.array([b]))[0] <= z <= top


def test_centre_of_mass_of_a_triangle():
    model = LowerModel()
    model.add(0.0, 0.0, -1.0)
    model.add(0.0, 0.0, 1.0)
    b, z = bias_centre_of_mass(model, -5.0, 5.0, 1.0, near=0.0)
    assert b == pytest.approx(0.0, abs=1e-15)
    assert z == pytest.approx(2.0 / 3.0)
    assert bias_centre_of_mass(model, -5.0, 5.0, -1.0, near=0.0) == (0.0, -1.0)  # nothing between the lines and the top


def test_lines_that_fall_one_way_bound_nothing():
    model = LowerModel()
    assert model.lower_bound() == -np.inf
    model.add(1.0, 0.5, -1.0)
    assert model.lower_bound() == -np.inf
    assert model.minimum(-1.0, 3.0, 0.0) == (3.0, -1.5)
    model.add(0.0, 0.2, 0.0)
    assert model.lower_bound() == pytest.approx(0.2)
    assert model.minimum(-1.0, 3.0, 2.0) == pytest.approx((2.0, 0.2))  # flat from 1.3 on: the nearest point


@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("seed", range(5))
def test_reaches_the_optimum_of_the_reference(chooser, seed):
    sub = replace(random_subproblem(seed, 80, 4, 0, sparse=seed % 2 == 0, lam=10.0 ** -(seed % 3 + 1)), constant=0.0)
    exact = solve_exact(sub)
    search = searcher(sub, chooser)
    result = search.solve(1e-6)
    assert result.primal - result.dual <= 1e-6
    assert result.dual - 1e-9 <= exact.objective <= result.primal + 1e-9
    assert result.primal == pytest.approx(search.ascent.primal(result.point, result.b), abs=1e-13)
    np.testing.assert_allclose(result.point.w, exact.w, atol=np.sqrt(2e-6 / sub.lam))
    assert abs(search.ascent.xi.sum()) < 1e-12  # the optimality condition of b, kept exactly
    assert search.ascent.dual(123.0).value == pytest.approx(result.dual, abs=1e-5)  # "close": ten times the gap


def test_the_lower_bound_holds_for_every_bias():
    sub = random_subproblem(3, 100, 4, 0, lam=0.01)
    result = searcher(sub).solve(1e-3)
    for b in np.linspace(-2, 2, 9):
        ascent = Ascent(sub.rows, sub.lam)
        reweigh(ascent, sub)
        assert ascent.solve(float(b), 1e-5).primal >= result.dual - 1e-9


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_finds_a_bias_far_from_zero(chooser):
    rng = np.random.default_rng(0)
    label = rng.random(120) < 0.4
    X = np.where(label, 51.0, 49.5)[:, None] + 0.5 * rng.standard_normal((120, 1))
    sub = random_subproblem(0, 120, 1, 0, lam=0.01)
    sub = replace(
        sub,
        rows=RowBlocks([(X, None)]),
        cell=label.astype(np.int32),
        weight=np.ones(120),
        keep=np.full(120, 3, dtype=np.uint8),
        constant=0.0,
    )
    exact = solve_exact(sub)
    result = searcher(sub, chooser).solve(1e-5)
    assert abs(exact.b) > 10.0
    assert result.dual - 1e-9 <= exact.objective <= result.primal + 1e-9
    assert result.primal - result.dual <= 1e-5


@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("side", [1, 2])
def test_one_sided_losses_vanish_for_a_large_bias(chooser, side):
    sub = random_subproblem(1, 60, 3, 0)
    sub = replace(sub, keep=np.full(60, side, dtype=np.uint8))
    result = searcher(sub, chooser).solve(1e-9)
    assert result.primal == pytest.approx(0.0, abs=1e-9)
    assert result.dual >= -1e-9
    assert (result.b > 0) == (side == 1)


def test_the_best_bias_of_a_point_is_a_minimum():
    sub = random_subproblem(5, 90, 4, 1)
    search = searcher(sub, v=[0.7])
    point = search.ascent.at(np.random.default_rng(1).standard_normal(4))
    best = search._offer(point, np.inf)
    biases = np.linspace(point.s.min() - 2, point.s.max() + 2, 4001)
    assert best <= min(search.ascent.primal(point, b) for b in biases) + 1e-9
    assert best == pytest.approx(search.ascent.primal(point, search.b), abs=1e-15)


def test_a_warm_search_needs_fewer_epochs():
    """After a change of the size of the accuracy; a larger one costs as much as a cold start."""
    sub = random_subproblem(4, 2000, 20, 1, lam=1e-3)
    search = searcher(sub, v=[0.3])
    search.solve(1e-3)
    before = search.ascent.n_epochs
    reweigh(search.ascent, sub, [0.301])
    warm = search.solve(1e-3)
    cold = searcher(sub, v=[0.301])
    cold.solve(1e-3)
    assert warm.primal - warm.dual <= 1e-3
    assert search.ascent.n_epochs - before < 0.7 * cold.ascent.n_epochs


def test_stops_early_with_valid_bounds():
    sub = replace(random_subproblem(9, 200, 5, 0, lam=1e-3), constant=0.0)
    exact = solve_exact(sub).objective
    result = searcher(sub).solve(1e-10, budget=Budget(seconds=0.0))
    assert result.cuts == 1
    assert result.dual <= exact <= result.primal
    search = searcher(sub)
    search.max_cuts = 2
    assert search.solve(1e-12).cuts == 2
