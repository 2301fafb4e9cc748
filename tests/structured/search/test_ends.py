"""When a search ends: the number of its questions where each of its rules is the one that stops it."""

import pytest

from point_oracles import PointOracle
from widemargin.structured.oracle import Answer
from widemargin.structured.search.angular import angular
from widemargin.structured.search.hull import Mixture, best_between, edge, hull
from widemargin_papers.solvers.label_searches import binary, bisecting

TRUTH, A, B = (1.0, 0.0), (2.0, 1.0), (0.5, 3.0)


class Scripted(PointOracle):
    """Answers from a list, the last one for ever; what an oracle that errs may say."""

    def __init__(self, *answers):
        super().__init__([TRUTH, *answers])
        self.script, self.lams = [Answer(k, *answer) for k, answer in enumerate(answers)], []

    def free(self, lam):
        self.lams.append(lam)
        return self.script[min(len(self.lams), len(self.script)) - 1]


@pytest.mark.parametrize(("search", "hint", "queries"), [(hull, 1.0, 1), (bisecting, 1.0, 1), (binary, None, 2)])
def test_a_label_that_meets_the_bound_ends_the_search(search, hint, queries):
    """(1, 1) at lam = 1: the bound K^2 / (4 lam) = 1 is its value."""
    found = search(PointOracle([(1.0, 1.0), (0.01, 0.5)]), hint=hint)
    assert (found.queries, found.value, found.upper, found.exact) == (queries, 1.0, 1.0, True)


def test_binary_search_ends_when_both_ends_give_the_same_label():
    """The range is [1/2, 2]; (1, 1) answers at 0.9 and at (1.8)^(1/2), on either side of its own lam, 1."""
    found = binary(PointOracle([(1.0, 1.0), (0.01, 0.5)]), hint=0.9)
    assert found.queries == 3
    assert found.y == 0


@pytest.mark.parametrize("search", [binary, angular], ids=lambda f: f.__name__)
def test_one_question_where_no_label_has_a_positive_h(search):
    found = search(PointOracle([(0.0, 1.0), (-1.0, 3.0)]))
    assert (found.queries, found.upper, found.y) == (1, 0.0, None)


@pytest.mark.parametrize("search", [hull, bisecting, binary, angular], ids=lambda f: f.__name__)
def test_no_question_about_labels_without_a_loss(search):
    found = search(PointOracle([TRUTH, (0.5, 0.0)]))
    assert found.queries == (search in (binary, angular))
    assert (found.upper, found.y) == (0.0, None)


@pytest.mark.parametrize(
    ("second", "eps", "queries"),
    [
        # A = (2, 1) at lam = 1 leaves h and g in [1, 2]; at lam = 2 the second answer leaves
        ((3.0, 4.0), 1e-9, 2),  # h >= 3
        ((1.2, 0.9), 1e-9, 2),  # g <= 0.9
        ((2.4, 4.0), 0.5, 3),  # h >= 2.4, which a tolerance of a half allows
        ((1.2, 0.9), 0.5, 3),
        ((1.2, 0.9), 0.05, 2),
        ((2.2, 4.0), 0.05, 2),
    ],
)
def test_bisecting_ends_when_a_range_is_empty(second, eps, queries):
    oracle = Scripted(A, second, (1.4, 1.1))
    assert bisecting(oracle, hint=1.0, eps=eps, ratio=100.0, max_queries=3).queries == queries


def test_bisecting_ends_when_only_labels_without_loss_remain():
    """Losses are 1, so lam > 1 leaves h <= 1 - lam < 0 to every label but the true one."""
    oracle = Scripted(TRUTH, TRUTH, (-2.0, 1.0))
    bisecting(oracle, hint=1.0)
    assert oracle.lams == [1.0, 2.0]


@pytest.mark.parametrize(("eps", "queries"), [(1.0, 2), (0.99, 3)])
def test_bisecting_ends_when_high_is_low_and_the_tolerance(eps, queries):
    """B at lam = 1, A at 1/2."""
    assert bisecting(PointOracle([TRUTH, A, B]), hint=1.0, eps=eps, max_queries=3).queries == queries


def test_angular_search_without_a_value_begins_with_a_cone_down_to_a_billionth():
    """H = 2 and largest g = 2: slopes up to 2^2 / 4e-9, from the least loss over H on."""
    asked = []

    class Asked(PointOracle):
        def cone(self, *cone):
            asked.append(cone)
            return super().cone(*cone)

    angular(Asked([(2.0, 0.0), (0.5, 2.0), (-1.0, 1.0)]))
    assert asked[0] == pytest.approx((1.0, 1e9, 0.5))


def test_angular_search_ends_where_a_billionth_is_left():
    """H = 1 and largest g = 100: the label (1e-5, 1e-5) is worth nothing, and so is everything below its line."""
    found = angular(PointOracle([TRUTH, (1e-5, 1e-5), (-1.0, 100.0)]))
    assert (found.queries, found.exact) == (2, True)


@pytest.mark.parametrize(("known", "queries"), [(0.8, 1), (0.75, 2)])
def test_angular_search_ends_where_the_tolerance_covers_the_bound(known, queries):
    """The label (1, 1) may be worth 1 = 0.8 (1 + 1/4), to the last bit."""
    found = angular(PointOracle([TRUTH, (1.0, 1.0)]), best=Answer("known", known, 1.0), eps=0.25)
    assert (found.queries, found.exact) == (queries, True)


@pytest.mark.parametrize(
    ("points", "queries"),
    [
        ([(0.0, 1.0)], 20),  # K^2 / (4 lam) = lam / 4 after 1, 1/4, 1/16, ... is below 1e-12
        ([(0.0, 8.0)], 19),  # 16 lam after 1/8, 1/32, ... is below 64e-12
    ],
)
def test_hull_search_ends_where_no_label_is_near_winning(points, queries):
    found = hull(PointOracle(points))
    assert (found.queries, found.y) == (queries, None)


@pytest.mark.parametrize(("g", "queries"), [(1.0, 20), (4.0, 20)])
def test_the_edge_is_looked_for_until_nothing_is_left(g, queries):
    """The true label alone above every line: 1 / (4 lam) falls below 1e-12 largest h times largest g."""
    oracle = PointOracle([TRUTH, (-1e13, g)], ["free", "convex"])
    found = edge(oracle)
    assert (found.queries, found.value) == (queries, 0.0)
    whole = hull(oracle)  # whole labels have a least loss: lam = 4 / g leaves them h < 0
    assert (whole.queries, whole.upper, whole.exact) == (2, 0.0, True)


def test_fractional_labels_may_lose_less_than_whole_ones():
    """At lam = 1 whole labels, whose least loss is 1, could be left out; (0.55, 0.5) is found at lam = 4."""
    oracle = PointOracle([TRUTH, (0.9, 0.25), (0.55, 0.5), (-3.0, 1.0)], ["free", "convex"])
    oracle.smallest_loss = 1.0
    assert hull(oracle).y == 1
    assert edge(oracle).value > 0.55 * 0.5


@pytest.mark.parametrize(("B", "eps", "queries"), [((1.2, 1.5), 1e-9, 3), ((1.2, 1.5), 0.5, 2), ((1.2, 1.5), 0.25, 3)])
def test_hull_search_ends_at_losses_of_almost_one_size(B, eps, queries):
    """A = (2, 1) at lam = 1 and B at lam = 4; the third question is the line through them."""
    assert hull(PointOracle([A, B]), hint=1.0, eps=eps).queries == queries


def test_hull_search_ends_at_vertices_of_one_height():
    assert hull(Scripted((1.5, 1.0), (1.5, 3.0)), hint=1.0).queries == 2


def test_the_edge_of_one_question_is_its_label():
    found = edge(PointOracle([TRUTH, A, B], ["free", "convex"]), max_queries=1)
    assert (found.value, found.y) == (2.0, 1)


def test_the_edge_is_exact_only_if_its_bound_says_so():
    """Two questions bound it by 4.5^2 / (16/3) = 3.8; the segment from A to B has 2.52."""
    oracle = PointOracle([TRUTH, A, B], ["free", "convex"])
    found = edge(oracle, max_queries=2)
    assert found.upper == pytest.approx(243 / 64)
    assert not found.exact
    assert edge(PointOracle([(1.0, 1.0), (0.01, 0.5)], ["free", "convex"]), hint=1.0).queries == 1


@pytest.mark.parametrize(
    ("A", "B", "best"),
    [
        ((1.0, 1.0), (1.0, 3.0), "B"),  # as high
        ((2.0, 1.0), (1.0, 1.0), "A"),  # of one loss
        ((1.0, 2.0), (1.5, 3.0), "B"),  # only answers that err lie this way round
        ((1.0, 3.0), (1.1, 2.0), "A"),
        ((0.5, 1.0), (1.0, 0.75), "B"),
        ((1.0, 3.0), (3.0, 1.0), "A"),
        ((4.0, 3.0), (1.0, 3.5), "A"),  # the hyperbolas rise towards A all along the segment
        ((1.1, 1.0), (1.0, 9.0), "B"),
    ],
)
def test_the_best_point_of_a_segment_is_an_end(A, B, best):
    assert best_between(Answer("A", *A), Answer("B", *B)).y == best


def test_the_best_point_of_a_segment_lies_inside():
    """(3 - 2 s)(1 + 2 s) is largest at s = 1/2."""
    assert best_between(Answer("A", 3.0, 1.0), Answer("B", 1.0, 3.0)) == (Mixture("A", "B", 0.5), 2.0, 2.0)


@pytest.mark.parametrize(("eps", "queries"), [(1.0, 2), (0.99, 3)])
def test_binary_search_ends_when_high_is_low_and_the_tolerance(eps, queries):
    """[1/2, 2] and an answer of great h at lam = 1."""
    assert binary(PointOracle([(1.0, 0.5), (0.2, 1.0)]), eps=eps, max_queries=3).queries == queries
