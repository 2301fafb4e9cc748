"""The bound of pairs: below every offset that meets the constraints, and near the best one."""

import itertools
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.solvers.thresholds import pair_bound
from widemargin.solvers.thresholds.class_costs import ClassCosts
from widemargin.solvers.thresholds.offset_search import OffsetOptions, best_offsets
from widemargin.solvers.thresholds.pair_bound import PairBound, PairOptions, whole_zone


def problem(seed, n, n_classes, m=1, n_groups=1, digits=None, any_cost=False):
    """Rows of noisy scores; the error, or any costs, and floors on the recalls of the first classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    scores = rng.normal(size=(n, n_classes)) + 2.0 * np.eye(n_classes)[y]
    scores = scores if digits is None else np.round(scores, digits)
    cost = np.zeros((n, n_classes, 1 + m))
    cost[:, :, 0] = (np.arange(n_classes) != y[:, None]) / n
    for j in range(m):
        cost[y == j, j, 1 + j] = -1.0 / max(1, (y == j).sum())
    bound = np.full(m, -0.7)
    if any_cost:
        cost, bound = rng.normal(size=cost.shape) / n, np.full(m, 0.05)
    return ClassCosts(scores, cost, bound, rng.integers(0, n_groups, n), n_groups)


def least_of_grid(costs, steps):
    """The least objective among offsets on a grid that meet the constraints, one group; inf where none do."""
    places = np.linspace(-4.0, 4.0, steps) + 1e-3
    n_classes = costs.scores.shape[1]
    best, at = np.inf, np.zeros(n_classes)
    for rest in itertools.product(places, repeat=n_classes - 1):
        offsets = np.array([0.0, *rest])
        violation, objective = costs.rank(costs.totals(offsets[None]))
        if violation == 0.0 and objective < best:
            best, at = objective, offsets
    return best, at


@settings(max_examples=25)
@given(
    st.integers(0, 10**6), st.integers(3, 40), st.integers(2, 4), st.integers(0, 2), st.sampled_from([None, 1, 0]),
    st.booleans(),
)  # fmt: skip
def test_nothing_on_a_grid_lies_below_the_bound(seed, n, n_classes, m, digits, any_cost):
    """Any costs, ties included; and what is better than the best known lies in the zones."""
    costs = problem(seed, n, n_classes, min(m, n_classes), digits=digits, any_cost=any_cost)
    best, at = least_of_grid(costs, {2: 200, 3: 15, 4: 7}[n_classes])
    bound = PairBound(costs, PairOptions(rounds=40))
    bound.raise_from(np.zeros((1, n_classes)), costs.most)
    assert bound.lower <= best + 1e-9
    if best < np.inf:
        bound.raise_from(at[None], best + 1e-6)
        assert bound.lower <= best + 1e-6
        # Beyond the range of the scores decisions no longer change.
        apart = np.minimum(at[:, None] - at, whole_zone(costs.scores))
        assert (apart <= bound.zones[0] + 1e-9).all()


def test_two_classes_without_constraints_are_exact():
    costs = problem(3, 500, 2, m=0)
    bound = PairBound(costs)
    bound.raise_from(np.zeros((1, 2)), costs.most)
    assert bound.lower == pytest.approx(best_offsets(costs).objective)
    assert costs.totals(bound.offsets)[0] == pytest.approx(bound.lower)


@pytest.mark.parametrize("n_groups", [1, 2])
def test_ten_classes_are_within_a_seventh(n_groups):
    """The search over zones alone left two thirds open here."""
    costs = problem(1, 2000, 10, m=3, n_groups=n_groups)
    found = best_offsets(costs)
    assert found.violation == 0.0
    assert 0.86 * found.objective <= found.lower <= found.objective
    if n_groups == 1:
        np.testing.assert_array_equal(best_offsets(costs).offsets, found.offsets)


def test_that_ten_classes_cannot_meet_floors_is_proved():
    costs = problem(1, 1000, 10, m=3)
    refused = best_offsets(ClassCosts(costs.scores, costs.cost, np.full(3, -0.99), costs.group, 1))
    assert refused.lower == np.inf
    assert 0.0 < refused.least_violation <= refused.violation


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(3, 40), st.integers(2, 4), st.sampled_from([None, 0]))
def test_nothing_on_a_grid_has_less_excess_than_is_proved(seed, n, n_classes, digits):
    costs = problem(seed, n, n_classes, 2, digits=digits)
    costs = ClassCosts(costs.scores, costs.cost, np.full(2, -0.97), costs.group, 1)
    least = min(
        costs.rank(costs.totals(np.array([[0.0, *rest]])))[0]
        for rest in itertools.product(
            np.linspace(-4.0, 4.0, {2: 200, 3: 15, 4: 7}[n_classes]) + 1e-3, repeat=n_classes - 1
        )
    )
    found = best_offsets(costs, OffsetOptions(looks=1e6, pairs=PairOptions(rounds=40)))
    assert found.least_violation <= min(least, found.violation) + 1e-9


def test_narrow_zones_keep_what_is_better():
    costs = problem(5, 300, 5, m=1)
    found = best_offsets(costs)
    bound = PairBound(costs)
    whole = bound.zones.copy()
    bound.raise_from(found.offsets, found.objective + 0.02)
    assert (bound.zones <= whole).all()
    assert (bound.zones < whole).any()
    offsets = found.offsets[0]
    assert (offsets[:, None] - offsets <= bound.zones[0]).all()


def test_the_plain_functions_do_the_same():
    costs, bounds = problem(2, 60, 4, m=2), []
    names = ("stars_at", "fill_values", "least_pairs", "narrow_pairs", "shift_weights")
    plain = {name: getattr(getattr(pair_bound, name), "py_func", getattr(pair_bound, name)) for name in names}
    for functions in ({}, plain):
        with mock.patch.multiple(pair_bound, **functions) if functions else mock.MagicMock():
            bound = PairBound(costs, PairOptions(rounds=12))
            bound.raise_from(np.zeros((1, 4)), 1.0)
            bounds.append(bound)
    assert bounds[0].lower == pytest.approx(bounds[1].lower)
    np.testing.assert_allclose(bounds[0].zones, bounds[1].zones)
