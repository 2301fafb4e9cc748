"""Which questions a search asks, in which order: worked by hand for A = (2, 1) and B = (1/2, 3) beside y_i = (1, 0)."""

import math

import pytest

from point_oracles import PointOracle
from widemargin.structured.search.angular import angular
from widemargin.structured.search.hull import edge, hull, loss_by_loss
from widemargin_papers.solvers.label_searches import binary, bisecting, sarawagi_gupta

TRUTH, A, B = (1.0, 0.0), (2.0, 1.0), (0.5, 3.0)


class Asked(PointOracle):
    """Keeps the questions, in their order."""

    def __init__(self, *points, **options):
        super().__init__(points, **options)
        self.lams, self.cones, self.single = [], [], []

    def free(self, lam):
        self.lams.append(lam)
        return super().free(lam)

    def cone(self, lam, alpha, beta):
        self.cones.append((lam, alpha, beta))
        return super().cone(lam, alpha, beta)

    def level(self, c):
        self.single.append(c)
        return super().level(c)


@pytest.mark.parametrize(
    ("search", "options", "lams"),
    [
        # 1 / largest loss, times 4 while only one side is known, then the slope of AB, on which nothing lies above
        (hull, {}, [1 / 3, 4 / 3, 3 / 4]),
        (hull, {"hint": 10.0}, [10.0, 2.5, 0.625, 0.75]),
        (hull, {"max_queries": 2}, [1 / 3, 4 / 3]),
        # doubling, then halving
        (bisecting, {"max_queries": 5}, [1 / 3, 2 / 3, 4 / 3, 1.0, 5 / 6]),
        (bisecting, {"hint": 4.0, "max_queries": 4}, [4.0, 2.0, 1.0, 0.5]),
        # halving of [1 / 6, 2] in log lam, after the question for the largest h
        (binary, {"max_queries": 5}, [0.0, 0.57735, 1.07457, 0.78766, 0.67435]),
        (binary, {"hint": 1.0, "max_queries": 2}, [0.0, 1.0]),
        (binary, {"hint": 2.0, "max_queries": 2}, [0.0, 3**-0.5]),
        (binary, {"hint": 1 / 6, "max_queries": 2}, [0.0, 3**-0.5]),
        # golden section of [1 / 9, 1] in log lam: 9 to the minus 0.618, 0.382, 0.236, 0.146, 0.090, 0.180
        (sarawagi_gupta, {"slack": 1.0, "max_queries": 6}, [0.2572, 0.4320, 0.5953, 0.7257, 0.8203, 0.6728]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_first_questions(search, options, lams):
    oracle = Asked(TRUTH, A, B)
    found = search(oracle, **options)
    assert oracle.lams == pytest.approx(lams, abs=1e-4)
    assert found.queries == len(lams)
    assert found.y == 1


def test_bisecting_stops_when_both_ends_give_the_same_label():
    """A alone: `h = lam g` at lam = 2, between the two questions."""
    oracle = Asked(TRUTH, A)
    assert bisecting(oracle, hint=3.0).y == 1
    assert oracle.lams == [3.0, 1.5]


def test_bisecting_stops_when_its_range_is_a_point():
    """From [2/3, 4/3] to a relative width of 1e-9 takes 30 halvings."""
    assert 25 <= bisecting(Asked(TRUTH, A, B)).queries <= 40
    assert bisecting(Asked(TRUTH, A, B), eps=1e-3).queries <= 15


def test_the_range_of_binary_search_ends_at_the_largest_h_over_the_least_loss():
    oracle = Asked(TRUTH, (1.1, 1.0), (0.9, 3.0))
    binary(oracle, max_queries=2)
    assert oracle.lams[1] == pytest.approx(math.sqrt(1.1 / 6))


@pytest.mark.parametrize(("hint", "first"), [(None, 2 / 3), (1.0, 1.0), (1e-3, 2 / 9), (1e3, 2.0)])
def test_angular_search_starts_inside_its_root_cone(hint, first):
    """H = 2, largest g = 3, value 2 known: slopes g / h from 1/2 to 9/2; lam is H over the largest g, or the hint."""
    oracle = Asked(TRUTH, A, B)
    angular(oracle, hint=hint)
    assert oracle.lams == [0.0]
    assert oracle.cones[0] == pytest.approx((first, 4.5, 0.5))


def test_angular_search_splits_at_the_best_point_of_the_line():
    """K = 8/3 at lam = 2/3: the line crosses h g = 2 at slopes 1/2 and 9/2, and splits at 3/2."""
    oracle = Asked(TRUTH, A, B)
    found = angular(oracle, max_queries=3)
    assert oracle.cones[1] == pytest.approx((1 / math.sqrt(0.75), 1.5, 0.5))
    assert found.upper == pytest.approx((8 / 3) ** 2 / (4 * 2 / 3))  # the other half inherits its mother's bound
    assert not found.exact
    assert angular(oracle).exact


def test_the_bound_of_hull_search_is_the_best_point_of_the_edge():
    """K^2 / (4 lam) at lam = 3/4 is 2.75^2 / 3; the label itself is worth 2."""
    found = hull(PointOracle([TRUTH, A, B]))
    assert found.upper == pytest.approx(2.75**2 / 3.0)
    assert found.value == 2.0
    assert not found.exact
    mixed = edge(PointOracle([TRUTH, A, B], ["free", "convex"]))
    assert mixed.value == pytest.approx(2.75**2 / 3.0)
    assert mixed.y.share == pytest.approx(5 / 12)
    assert (mixed.h, mixed.g) == pytest.approx((1.375, 11 / 6))
    assert mixed.exact


@pytest.mark.parametrize(
    ("middle", "value", "single"), [(None, 2.0, [2]), ((1.1, 2.0), 2.2, [2]), ((0.9, 2.0), 2.0, [2])]
)
def test_level_search_asks_only_for_the_level_between(middle, value, single):
    """Levels 1 and 3 are settled by the edge; level 2 may hold up to 2 (2.75 - 1.5) = 2.5."""
    oracle = Asked(TRUTH, A, B, *([] if middle is None else [middle]))
    found = loss_by_loss(oracle)
    assert oracle.single == single
    assert (found.value, found.upper, found.exact) == (pytest.approx(value), pytest.approx(value), True)
    assert found.queries == 4


def test_a_ratio_ends_the_search_with_the_bound_it_has():
    """The first line of hull search bounds everything by (7/3)^2 / (4/3) = 49/12; A is worth 24/49 of it."""
    for ratio, queries in ((24 / 49 - 1e-9, 1), (24 / 49 + 1e-9, 2)):
        oracle = Asked(TRUTH, A, B)
        found = hull(oracle, ratio=ratio)
        assert found.queries == queries
    assert hull(Asked(TRUTH, A, B), ratio=24 / 49 - 1e-9).upper == pytest.approx(49 / 12)
