"""One offset a class: the search against all cells, its bounds, and several groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.solvers.thresholds.class_costs import ClassCosts, improved
from widemargin.solvers.thresholds.offset_search import OffsetOptions, ZoneSearch, best_offsets
from widemargin.solvers.thresholds.pair_bound import PairOptions, whole_zone


def problem(seed, n, n_classes=3, m=1, n_groups=1, digits=None, tight=0.0):
    """Rows of noisy scores; the error, and floors on the recalls of the first classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    scores = rng.normal(size=(n, n_classes)) + 1.2 * np.eye(n_classes)[y]
    scores = scores if digits is None else np.round(scores, digits)
    weight = rng.integers(1, 4, n) / n
    cost = np.zeros((n, n_classes, 1 + m))
    cost[:, :, 0] = weight[:, None] * (np.arange(n_classes) != y[:, None])
    for j in range(m):
        cost[y == j, j, 1 + j] = -1.0 / max(1, (y == j).sum())
    bound = -np.array([0.8, 0.65, 0.5, 0.4])[:m] - tight
    return ClassCosts(scores, cost, bound, rng.integers(0, n_groups, n), n_groups)


def every_cell(costs):
    """Rank of the best of many offsets: around every point where two planes cross, in six directions."""
    z = costs.scores
    a, b = z[:, 0] - z[:, 1], z[:, 0] - z[:, 2]
    points = [(p, q) for p in a for q in b]
    points += [(a[i], b[j] + a[i] - a[j]) for i in range(len(a)) for j in range(len(a))]
    points += [(a[j] + b[i] - b[j], b[i]) for i in range(len(a)) for j in range(len(a))]
    best = (np.inf, np.inf)
    for step in ((1, 2), (2, 1), (-1, -2), (-2, -1), (1, -1), (-1, 1)):
        shifts = np.array(points) + 1e-7 * np.array(step)
        shifted = z[None] + np.column_stack([np.zeros(len(shifts)), shifts])[:, None]
        won = shifted.argmax(axis=2)
        totals = costs.cost[np.arange(len(z))[None], won].sum(axis=1)
        best = min([best, *map(costs.rank, totals)])
    return best


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(4, 12), st.integers(0, 2), st.sampled_from([None, 1, 0]))
def test_three_classes_are_exact(seed, n, m, digits):
    """Ties and shared planes (scores of few digits) included."""
    costs = problem(seed, n, m=m, digits=digits)
    found = best_offsets(costs)
    assert costs.rank(costs.totals(found.offsets)) == pytest.approx((found.violation, found.objective))
    tried = every_cell(costs)
    assert (found.violation, found.objective) <= (tried[0] + 1e-9, tried[1] + 1e-9)
    if found.violation == 0.0:
        assert found.lower == pytest.approx(found.objective)
    else:  # that none meet the bounds is proved
        assert found.lower == np.inf


@pytest.mark.parametrize("n_classes", [2, 4, 5])
def test_no_offsets_lie_below_the_bound(n_classes):
    costs = problem(n_classes, 60, n_classes, m=1)
    found = best_offsets(costs)
    assert found.violation == 0.0
    rng = np.random.default_rng(0)
    for spread in (0.3, 1.0, 3.0):
        for offsets in rng.normal(size=(3000, 1, n_classes)) * spread + found.offsets:
            violation, objective = costs.rank(costs.totals(offsets))
            assert violation > 0.0 or objective >= found.lower - 1e-12
    assert found.lower == pytest.approx(found.objective)


def test_a_search_that_is_cut_short_says_how_far_it_may_be_off():
    costs = problem(1, 400, 6, m=2)
    short = best_offsets(costs, OffsetOptions(looks=1e6, phases=1, pairs=PairOptions(rounds=20)))
    long = best_offsets(costs, OffsetOptions(looks=1e8))
    assert short.lower <= long.lower <= long.objective <= short.objective + 1e-12
    assert long.objective - long.lower < short.objective - short.lower


def test_ten_thousand_rows_take_a_moment():
    costs = problem(3, 10_000, m=2)
    found = best_offsets(costs)
    assert found.violation == 0.0
    assert found.lower == pytest.approx(found.objective)


def test_weight_two_is_a_row_twice():
    costs = problem(5, 80, m=1)
    twice = ClassCosts(
        np.repeat(costs.scores, 2, axis=0), np.repeat(costs.cost, 2, axis=0) / 2, costs.bound,
        np.repeat(costs.group, 2), 1,
    )  # fmt: skip
    one, other = best_offsets(costs), best_offsets(twice)
    assert other.objective == pytest.approx(one.objective)


def test_groups_meet_common_bounds_near_their_bound():
    costs = problem(7, 3000, m=2, n_groups=2)
    found = best_offsets(costs)
    assert found.violation == 0.0
    assert found.offsets.shape == (2, 3)
    together = best_offsets(ClassCosts(costs.scores, costs.cost, costs.bound, np.zeros(3000, np.int64), 1))
    assert found.lower <= found.objective <= together.objective + 1e-12  # one set of offsets serves both groups too
    assert found.objective - found.lower < 0.01
    assert (costs.rank(costs.totals(found.offsets))) == (0.0, found.objective)


def test_what_no_offsets_reach_is_told():
    for n_groups in (1, 2):
        costs = problem(7, 300, m=3, n_groups=n_groups, tight=0.3)
        found = best_offsets(costs)
        assert found.violation > 0.0
        assert found.lower == np.inf


def test_improving_never_makes_it_worse():
    costs = problem(9, 200, 4, m=2, n_groups=3)
    start = np.random.default_rng(0).normal(size=(3, 4))
    before, after = (costs.rank(costs.totals(at)) for at in (start, improved(costs, start, 20)))
    assert after < before


def test_the_plain_functions_do_the_same():
    from widemargin.solvers.thresholds import class_costs, offset_search

    costs = problem(2, 30, m=1)
    zone = np.full((3, 3), 3.0) - 3.0 * np.eye(3)
    rows, inside = np.arange(30), offset_search.inside_of(zone)
    for name, arguments in {
        "look": (costs.scores, costs.cost, rows, zone, inside), "cut": (costs.scores, rows, zone, inside),
        "narrowed": (zone, 0, 1, 0.5), "inside_of": (zone,), "total_cost": (costs.scores, costs.cost),
    }.items():  # fmt: skip
        compiled = getattr(class_costs if name == "total_cost" else offset_search, name)
        plain = getattr(compiled, "py_func", compiled)
        one, other = compiled(*arguments), plain(*arguments)
        pairs = zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs)


def test_a_start_that_is_best_is_kept():
    costs = problem(2, 50, m=0)
    best = best_offsets(costs)
    search = ZoneSearch(costs, OffsetOptions(), best.offsets, whole_zone(costs.scores))
    search.run()
    np.testing.assert_array_equal(search.best, best.offsets[0])
