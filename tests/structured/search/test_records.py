"""What searches keep, the searches through levels, and Sarawagi and Gupta's: worked by hand."""

import math

import pytest

from point_oracles import PointOracle
from widemargin.structured.oracle import Answer
from widemargin.structured.search.best_label import BestLabel
from widemargin.structured.search.hull import all_losses, direct, loss_by_loss
from widemargin_papers.solvers.label_searches import sarawagi_gupta

TRUTH = (1.0, 0.0)


class Asked(PointOracle):
    def __init__(self, *points):
        super().__init__(points)
        self.lams, self.single = [], []

    def free(self, lam):
        self.lams.append(lam)
        return super().free(lam)

    def level(self, c):
        self.single.append(c)
        return super().level(c)


@pytest.mark.parametrize(
    ("lam", "h", "g", "K", "upper"),
    [
        (1.0, 2.0, 1.0, 3.0, 2.25),
        (4.0, 2.0, 1.0, 6.0, 2.25),
        (0.0, 2.0, 1.0, 2.0, math.inf),  # a line of slope 0 bounds h alone
        (0.0, 0.0, 1.0, 0.0, 0.0),
        (1.0, -2.0, 1.0, -1.0, 0.0),
        (1.0, -1.0, 1.0, 0.0, 0.0),
    ],
)
def test_the_bound_of_a_line(lam, h, g, K, upper):
    record = BestLabel()
    assert record.line(lam, Answer("y", h, g)) == K
    assert (record.upper, record.queries) == (upper, 1)


def test_without_a_label_of_positive_value_the_true_one_is_answered():
    """Its h is 1 and its loss 0."""
    record = BestLabel(Answer("y", -1.0, 2.0))
    record.upper = 0.0
    assert record.found(1e-9) == (None, 1.0, 0.0, 0.0, 0, True)


def test_direct_search_asks_once_and_levels_twice():
    oracle = PointOracle([TRUTH, (2.0, 1.0), (1.5, 2.0)])
    assert (direct(oracle).queries, direct(oracle).value, direct(oracle).exact) == (1, 3.0, True)
    assert (all_losses(oracle).queries, all_losses(oracle).value, all_losses(oracle).exact) == (2, 3.0, True)
    nothing = all_losses(PointOracle([TRUTH, (0.0, 1.0), (-1.0, 2.0)]))
    assert (nothing.queries, nothing.y, nothing.upper) == (1, None, 0.0)


@pytest.mark.parametrize(
    ("middle", "single", "value"),
    [
        ((1.3, 2.0), [2], 2.6),  # more than level 3 can have
        ((1.1, 2.0), [2, 3], 2.2),
        ((0.7, 3.0), [2, 3], 2.1),
    ],
)
def test_level_search_leaves_out_levels_below_the_line(middle, single, value):
    """(2, 1) and (0.2, 4) span h + 0.6 g = 2.6: level 2 has at most 2 times 1.4, level 3 at most 3 times 0.8."""
    oracle = Asked(TRUTH, (2.0, 1.0), (0.2, 4.0), middle)
    found = loss_by_loss(oracle)
    assert oracle.single == single
    assert (found.value, found.exact) == (pytest.approx(value), True)
    assert found.queries == len(oracle.lams) + len(single)


def test_level_search_counts_all_its_questions():
    oracle = Asked(TRUTH, (2.0, 1.0), (0.2, 4.0), (1.1, 2.0))
    found = loss_by_loss(oracle, max_queries=4)
    assert (found.queries, oracle.single, found.exact) == (4, [2], False)
    assert found.upper == pytest.approx(3 * 0.8)
    found = loss_by_loss(oracle, max_queries=3)
    assert (found.queries, found.exact) == (3, False)
    assert found.upper == pytest.approx(2 * 1.4)


def test_sarawagi_gupta_ends_at_the_best_slack_line():
    """K = 1.9 + 3 lam over all of [1/9, 1], so F = K - 2 lam^(1/2) is least at 1/9."""
    oracle = Asked(TRUTH, (2.0, 1.0), (1.9, 3.0))
    sarawagi_gupta(oracle, slack=1.0, max_queries=20)
    assert oracle.lams[-1] == pytest.approx(1 / 9, rel=1e-3)


def test_sarawagi_gupta_begins_between_the_squares_of_the_losses():
    """[1 / 36, 1 / 4], a golden section of its logarithm."""
    oracle = Asked(TRUTH, (2.0, 2.0), (0.5, 6.0))
    sarawagi_gupta(oracle, slack=1.0, max_queries=2)
    golden = (5**0.5 - 1.0) / 2.0
    assert oracle.lams == pytest.approx([9**-golden / 4.0, 9 ** (golden - 1.0) / 4.0])


def test_sarawagi_gupta_keeps_no_label_of_height_0():
    """(0.1, 1) breaks its constraint by less than (0, 1000), whose h g is nothing."""
    assert sarawagi_gupta(PointOracle([(0.1, 1.0), (0.0, 1000.0)]), slack=1.0).y == 0
    assert sarawagi_gupta(Asked((2.0, 1.0)), slack=1.0, eps=0.0).queries == 2  # one loss: a range of one point
