"""Thresholds for several groups: mixtures against a generic LP, single thresholds against all combinations."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from testing.cells import of_pairs

from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.mixture import best_mixture
from widemargin.solvers.thresholds.per_group import best_pair, best_per_group
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE, best_threshold


def make(seed, n=12, groups=2, m=2, ties=False, cells=4, slack=0.15):
    """Rows in groups; bounds near what random thresholds reach, so that some problems are infeasible."""
    rng = np.random.default_rng(seed)
    z = rng.integers(-3, 4, n) / 2.0 if ties else rng.normal(size=n)
    weight = rng.integers(1, 4, n) / 2.0
    cell = rng.integers(0, cells, n).astype(np.int32)
    cell_weight = np.bincount(cell, weight, cells)
    alpha, beta = rng.random((2, cells, m)) / n
    coef = of_pairs(
        *rng.random((2, cells)) / n, np.arange(cells + 1, dtype=np.int64) * m, np.tile(np.arange(m), cells),
        alpha.ravel(), beta.ravel(),
    )  # fmt: skip
    share = rng.random(cells)
    gamma = coef.totals(share * cell_weight, (1 - share) * cell_weight, m)[1] - slack * rng.random(m) / 3
    group = rng.integers(0, groups, n)
    return (z, weight, cell, group, groups, coef, gamma, cell_weight)


def everything(problem):
    """Objective and excess of every combination of candidates, from the rows themselves."""
    z, weight, cell, group, groups, coef, gamma, cell_weight = problem
    choices = [
        [np.inf, *np.unique(z[group == g])[:-1], -np.inf] if (group == g).any() else [0.0] for g in range(groups)
    ]
    for thresholds in itertools.product(*choices):
        said = z > np.array(thresholds)[group]
        mass = np.bincount(cell, weight * said, len(cell_weight))
        objective, values = coef.totals(mass, cell_weight - mass, len(gamma))
        yield objective, values - gamma, said


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), groups=st.integers(1, 3), m=st.integers(0, 3), ties=st.booleans())
def test_no_combination_is_better(seed, groups, m, ties):
    problem = make(seed, groups=groups, m=m, ties=ties)
    candidates = Candidates(*problem)
    found = best_per_group(candidates)
    every = list(everything(problem))
    assert len(every) == np.prod(np.diff(candidates.first))
    good = [objective for objective, excess, _ in every if (excess <= FEASIBLE).all()]
    assert (found.violation == 0.0) == bool(good)
    assert found.proved
    excess = candidates.totals(found.numbers)[1]
    if good:
        assert found.objective == pytest.approx(min(good), abs=1e-9)
        assert (excess <= FEASIBLE).all()
        assert found.lower == pytest.approx(found.objective, abs=1e-8)
    else:
        assert found.violation == pytest.approx(excess[excess > FEASIBLE].sum())
        assert found.lower == np.inf


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), groups=st.integers(1, 3), m=st.integers(0, 3), ties=st.booleans())
def test_mixture_is_the_optimum_of_the_linear_programme(seed, groups, m, ties):
    problem = make(seed, groups=groups, m=m, ties=ties)
    candidates = Candidates(*problem)
    found = best_mixture(candidates)
    every = list(everything(problem))  # a mixture of combinations gives the same rates as one within each group
    points = np.array([[objective, *excess] for objective, excess, _ in every])
    one = np.ones((1, len(points)))
    exact = linprog(points[:, 0], points[:, 1:].T, np.zeros(m), one, [1.0])
    owner = candidates.group[found.numbers]
    np.testing.assert_allclose(np.bincount(owner, found.probability, groups), 1.0)
    assert len(found.numbers) <= groups + m
    if exact.status == 2:
        assert found.violation > 0.0
        slack = np.hstack([points[:, 1:].T, -np.eye(m)])
        least = linprog(
            np.r_[np.zeros(len(points)), np.ones(m)], slack, np.zeros(m), np.hstack([one, np.zeros((1, m))]), [1.0]
        )
        assert found.violation == pytest.approx(least.fun, abs=1e-8)
    else:
        assert found.violation == 0.0
        assert found.objective == pytest.approx(exact.fun, abs=1e-8)
        assert found.lower <= found.objective + 1e-12
        assert found.objective - found.lower <= 1e-9
        single = best_per_group(candidates)
        if single.violation == 0.0:  # a mixture may meet what no single combination does
            assert found.objective <= single.objective + 1e-9
        assert (found.multipliers >= 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_one_group_agrees_with_the_sweep(seed):
    z, weight, cell, _, _, coef, gamma, cell_weight = problem = make(seed, n=60, groups=1, m=2, ties=seed % 2)
    swept = best_threshold(z, weight, cell, coef, gamma, cell_weight)
    found = best_per_group(Candidates(*problem))
    assert (found.violation == 0.0) == (swept.violation == 0.0)
    assert found.violation == pytest.approx(swept.violation, abs=1e-9)
    if swept.violation == 0.0:
        assert found.objective == pytest.approx(swept.objective, abs=1e-10)


def test_more_rows_than_candidates_in_the_programme():
    """Reduced costs leave a few of thousands of candidates, and the result is still proved best."""
    z, weight, cell, group, groups, coef, _, cell_weight = make(3, n=4000, groups=5, m=2)
    half = 0.5 * cell_weight
    gamma = coef.totals(half, half, 2)[1]
    candidates = Candidates(z, weight, cell, group, groups, coef, gamma, cell_weight)
    found = best_per_group(candidates)
    assert found.proved
    assert found.violation == 0.0
    assert found.n_candidates < 0.5 * len(candidates.count)
    again = best_per_group(Candidates(z, weight, cell, group, groups, coef, gamma, cell_weight))
    np.testing.assert_array_equal(found.numbers, again.numbers)


def test_a_search_cut_short_says_so():
    candidates = Candidates(*make(5, n=400, groups=6, m=3, slack=0.0))
    exact = best_per_group(candidates)
    short = best_per_group(candidates, max_candidates=30)
    assert exact.proved
    if short.violation == 0.0:
        assert short.lower <= exact.objective + 1e-9
        assert short.objective >= exact.objective - 1e-9
        assert short.proved == (short.objective - short.lower <= 1e-9)
    else:
        assert not short.proved


def test_columns_and_prices_are_those_of_the_rows():
    problem = make(7, n=50, groups=3, m=2)
    z, weight, cell, group, _, coef, gamma, cell_weight = problem
    candidates = Candidates(*problem)
    gain, change = candidates.columns(np.arange(len(candidates.count)))
    v = np.array([0.3, 2.0])
    np.testing.assert_allclose(candidates.prices(0.7, v), 0.7 * gain + change @ v, atol=1e-12)
    for number in (0, 9, 25, len(candidates.count) - 1):
        g, count = candidates.group[number], candidates.count[number]
        rows = np.flatnonzero(group == g)
        rows = rows[np.argsort(-z[rows])][:count]
        mass = np.bincount(cell[rows], weight[rows], len(cell_weight))
        assert gain[number] == pytest.approx(mass @ (coef.alpha0 - coef.beta0))
    some = [candidates.first[0] + 3, candidates.first[1] + 2, candidates.first[2] + 1]
    objective, excess = candidates.totals(np.array(some))
    said = np.zeros(len(z), bool)
    for g, count in enumerate((3, 2, 1)):
        said[candidates.rows_of(g)[:count]] = True
    mass = np.bincount(cell, weight * said, len(cell_weight))
    expected = coef.totals(mass, cell_weight - mass, 2)
    assert objective == pytest.approx(expected[0])
    np.testing.assert_allclose(excess, expected[1] - gamma, atol=1e-12)


def test_groups_without_rows_do_nothing():
    z, weight, cell, group, _, coef, gamma, cell_weight = make(11, groups=2, m=1)
    few = best_per_group(Candidates(z, weight, cell, group, 2, coef, gamma, cell_weight))
    many = best_per_group(Candidates(z, weight, cell, 2 * group, 5, coef, gamma, cell_weight))
    assert many.objective == pytest.approx(few.objective, abs=1e-12)


def test_compiled_pairs_are_those_of_plain_python():
    rng = np.random.default_rng(0)
    gain, change, above = rng.normal(size=20), rng.normal(size=(20, 2)), rng.random(20)
    left, right = (part[np.argsort(above[part])] for part in (np.arange(10), np.arange(10, 20)))
    founds = []
    for search in (best_pair, best_pair.py_func):
        found = np.array([0.0, 0.0, np.inf, np.inf, -10.0])
        assert search(gain, change, above, left, right, np.zeros(2), FEASIBLE, found)
        founds.append(found)
    np.testing.assert_array_equal(founds[0], founds[1])
    a, b = left[int(found[0])], right[int(found[1])]
    pairs = [(gain[i] + gain[j], i, j) for i in left for j in right if (change[i] + change[j] <= FEASIBLE).all()]
    assert min(pairs)[1:] == (a, b)
