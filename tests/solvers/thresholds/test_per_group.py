"""Thresholds for several groups: mixtures against a generic LP, single thresholds against all combinations."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from testing.cells import of_pairs

from widemargin.solvers.thresholds import boxes, per_group
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.links import _with_each, families_of, take_apart
from widemargin.solvers.thresholds.mixture import best_mixture
from widemargin.solvers.thresholds.per_group import best_per_group
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


@settings(max_examples=40, deadline=None)
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


@settings(max_examples=30, deadline=None)
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
    assert found.n_boxes < 0.5 * len(candidates.count)
    again = best_per_group(Candidates(z, weight, cell, group, groups, coef, gamma, cell_weight))
    np.testing.assert_array_equal(found.numbers, again.numbers)


def test_a_search_cut_short_says_so():
    candidates = Candidates(*make(5, n=400, groups=6, m=3, slack=0.0))
    exact = best_per_group(candidates)
    short = best_per_group(candidates, most_ranges=30)
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


def comparing(seed, groups, rules, *, n=14, ties=False, overall=False, floor=False):
    """Rows of groups, and rules between rates of every two of them, of a part of the pairs, or against one of them."""
    rng = np.random.default_rng(seed)
    group, label = rng.integers(0, groups, n), rng.integers(0, 2, n)
    z = rng.integers(-3, 4, n) / 2.0 if ties else rng.normal(size=n)
    weight = rng.integers(1, 4, n) / 2.0
    cell = (2 * group + label).astype(np.int32)
    cells = 2 * groups
    cell_weight = np.bincount(cell, weight, cells)
    change, bounds = [], []

    def rate(g, over):
        counted = np.zeros(cells)
        counted[[2 * g + side for side in over]] = 1.0
        return counted / max(counted @ cell_weight, 0.5)

    for over, ratio, level in rules:
        pairs = [(a, b) for a in range(groups) for b in range(groups) if a != b]
        pairs = [pairs, [pair for pair in pairs if 0 in pair], pairs[::2]][rng.integers(3)]
        for a, b in pairs:  # rate of a <= level * rate of b, or <= rate of b + level
            change.append(rate(a, over) - (level if ratio else 1.0) * rate(b, over))
            bounds.append(0.0 if ratio else level)
    if overall:  # at least half of all positive rows are found
        found = np.tile([0.0, -1.0], groups)
        change.append(found / max(-found @ cell_weight, 0.5))
        bounds.append(-0.5)
    if floor:
        change.append(-rate(0, (0, 1)))
        bounds.append(-0.4)
    steps = np.array(change).T
    alpha, beta = np.maximum(steps, 0.0), np.maximum(-steps, 0.0)
    gamma = np.array(bounds) + beta.T @ cell_weight  # what is negative counts those who are not called positive
    wrong = 1.0 / weight.sum()
    m = len(gamma)
    coef = of_pairs(
        np.tile([wrong, 0.0], groups), np.tile([0.0, wrong], groups), np.arange(cells + 1, dtype=np.int64) * m,
        np.tile(np.arange(m), cells), alpha.ravel(), beta.ravel(),
    )  # fmt: skip
    return z, weight, cell, group, groups, coef, gamma, cell_weight


BOTH, POSITIVE, NEGATIVE = (0, 1), (1,), (0,)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(2, 4),
    rules=st.lists(
        st.tuples(
            st.sampled_from([BOTH, POSITIVE, NEGATIVE]),
            st.booleans(),
            st.sampled_from([0.0, 0.05, 0.3, 0.8, 1.0, 1.25]),
        ),
        min_size=1,
        max_size=2,
    ),
    ties=st.booleans(),
    overall=st.booleans(),
    floor=st.booleans(),
)
def test_no_combination_is_better_where_groups_are_compared(seed, groups, rules, ties, overall, floor):
    rules = [(over, ratio and level > 0.0, level) for over, ratio, level in rules]
    problem = comparing(seed, groups, rules, ties=ties, overall=overall, floor=floor)
    candidates = Candidates(*problem)
    found = best_per_group(candidates)
    good = [objective for objective, excess, _ in everything(problem) if (excess <= FEASIBLE).all()]
    assert found.proved
    assert (found.violation == 0.0) == bool(good)
    if good:
        assert found.objective == pytest.approx(min(good), abs=1e-9)
        assert (candidates.totals(found.numbers)[1] <= FEASIBLE).all()


def test_links_with_each_group_are_enough_for_a_comparison_with_their_mean():
    rng, held = np.random.default_rng(0), 0
    for _ in range(2000):
        factors = rng.random(4) * [1.0, -1.0, -1.0, -1.0] * rng.choice([-1.0, 1.0])
        parts, excess = list(enumerate(factors.tolist())), float(rng.normal(scale=0.3))
        factor, slack, edges = _with_each(parts, excess)
        rates = rng.random(4)
        if all(rates[u] <= factor * rates[v] + slack for u, v in edges):
            held += 1
            assert factors @ rates + excess <= 1e-8
    assert 100 < held < 1900
    assert _with_each([(0, 1.0), (1, 1.0), (2, -1.0), (3, -1.0)], 0.0) is None


def test_all_pairs_are_two_bounds_a_group():
    """Their families have as many ends as there are groups, and the search hardly grows with their number."""
    rules = [(POSITIVE, False, 0.1), (NEGATIVE, False, 0.1)]
    candidates = Candidates(*comparing(0, 12, rules, n=3000))
    parts = take_apart(candidates)
    assert len(parts.rest) == 0
    assert len(parts.links.factor) <= 24
    found = best_per_group(candidates)
    assert found.proved
    assert found.violation == 0.0
    assert found.n_boxes < 1000


@pytest.mark.parametrize(
    ("edges", "law", "expected"),
    [
        ({(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)}, (1.0, 0.05), [([0, 1, 2], [0, 1, 2])]),
        ({(0, 1), (1, 0)}, (0.8, 0.0), [([0], [1]), ([1], [0])]),  # not linked with itself: that would say rate = 0
        ({(0, 2), (1, 2), (2, 0), (2, 1)}, (1.0, 0.05), [([0, 1], [2]), ([2], [0, 1])]),
        ({(3, 5)}, (1.25, 0.0), [([3], [5])]),
    ],
)
def test_links_are_gathered_in_families(edges, law, expected):
    assert sorted(families_of(edges, law)) == expected
    assert {(u, v) for capped, floored in families_of(edges, law) for u in capped for v in floored if u != v} == edges


def test_the_compiled_search_is_that_of_plain_python(monkeypatch):
    problem = comparing(3, 3, [(POSITIVE, False, 0.05)], n=60, overall=True)
    compiled = best_per_group(Candidates(*problem))
    for name in ("range_minima", "least_place", "narrow", "bound_box", "cheapest_at"):
        monkeypatch.setattr(boxes, name, getattr(boxes, name).py_func)
    monkeypatch.setattr(per_group, "range_minima", boxes.range_minima)
    plain = best_per_group(Candidates(*problem))
    np.testing.assert_array_equal(compiled.numbers, plain.numbers)
    assert compiled.n_boxes == plain.n_boxes
