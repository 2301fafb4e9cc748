"""Exact searches against brute force on points of every degenerate kind; upper bounds of all searches."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from point_oracles import PointOracle, hull_optimum
from widemargin.exceptions import CapabilityError
from widemargin.structured.oracle import Answer
from widemargin.structured.search.angular import angular
from widemargin.structured.search.automatic import EXACT, automatic, named
from widemargin.structured.search.automatic import SEARCHES as OWN
from widemargin.structured.search.hull import Mixture, all_losses, edge, loss_by_loss
from widemargin_papers.solvers import label_searches

SEARCHES = OWN | label_searches.SEARCHES

TRUTH = (1.0, 0.0)
SCALES = st.sampled_from([1e-8, 1e-3, 1.0, 1e3, 1e8])


@st.composite
def families(draw):
    """Points (h, g), y_i among them: integers (many ties), a line, one slope, one hyperbola, any scale, h <= 0."""
    kind = draw(st.sampled_from(["grid", "line", "slope", "hyperbola", "free"]))
    n = draw(st.integers(1, 25))
    size = st.integers(1, 12)
    if kind == "grid":
        points = [(draw(st.integers(-4, 6)), draw(size)) for _ in range(n)]
    elif kind == "line":
        top = draw(st.floats(0.5, 20.0))
        points = [(top - draw(st.sampled_from([1.0, 0.5, 0.1])) * g, g) for g in (draw(size) for _ in range(n))]
    elif kind == "slope":
        points = [(0.7 * g, g) for g in (draw(size) for _ in range(n))]
    elif kind == "hyperbola":
        points = [(5.0 / g, g) for g in (draw(size) for _ in range(n))]
    else:
        points = [(draw(st.floats(-3.0, 3.0)), draw(size)) for _ in range(n)]
    scale = draw(SCALES)
    return [TRUTH, *((scale * h, float(g)) for h, g in points)]


@pytest.mark.parametrize("search", [angular, loss_by_loss, all_losses, SEARCHES["direct"]], ids=lambda f: f.__name__)
@given(points=families())
def test_exact_searches_find_the_best_label(search, points):
    oracle = PointOracle(points)
    found = search(oracle)
    H = max(h for h, _ in points)
    nothing = 1e-9 * H * oracle.largest_loss  # what angular search counts as zero
    assert found.value >= oracle.optimum * (1.0 - 1e-8) - nothing
    assert found.upper >= oracle.optimum * (1.0 - 1e-12)
    assert found.exact
    assert found.y is None or found.h * found.g == points[found.y][0] * points[found.y][1]
    if search is angular:
        assert found.queries <= 4 * len(points) + 4  # 2M + 1, twice for labels on a split ray, and free(0)


@pytest.mark.parametrize("name", sorted(set(SEARCHES) - {"edge"}))
@given(points=families(), few=st.integers(2, 6))
def test_the_upper_bound_is_never_below_the_optimum(name, points, few):
    oracle = PointOracle(points)
    found = SEARCHES[name](oracle, max_queries=few)
    assert found.upper >= oracle.optimum * (1.0 - 1e-12)
    assert found.upper >= found.value
    assert found.value <= oracle.optimum * (1.0 + 1e-12)
    if found.exact:
        assert found.value >= oracle.optimum * (1.0 - 1e-5) - 1e-9 * oracle.h.max() * oracle.largest_loss


@given(points=families(), chosen=st.integers(0, 25), hint=st.floats(1e-6, 1e6))
def test_a_label_known_before_and_a_hint_change_no_answer(points, chosen, hint):
    oracle = PointOracle(points)
    h, g = points[chosen % len(points)]
    best = Answer("known", h, g)
    plain, helped = angular(oracle), angular(oracle, best=best, hint=hint)
    nothing = 1e-9 * oracle.h.max() * oracle.largest_loss
    assert helped.value == pytest.approx(plain.value, rel=1e-8, abs=nothing)


def test_a_good_label_saves_questions():
    rng = np.random.default_rng(0)
    saved = 0
    for _ in range(20):
        g = rng.integers(1, 9, 60)
        oracle = PointOracle([TRUTH, *zip(4.0 / g * rng.uniform(0.8, 1.0, 60), g, strict=True)])
        plain = angular(oracle)
        saved += plain.queries - angular(oracle, best=Answer(plain.y, plain.h, plain.g)).queries
    assert saved > 0


@given(points=families())
def test_a_ratio_bounds_the_loss(points):
    oracle = PointOracle(points)
    found = angular(oracle, ratio=0.9)
    assert found.value >= 0.9 * oracle.optimum * (1.0 - 1e-8) - 1e-9 * oracle.h.max() * oracle.largest_loss


@given(points=families())
def test_a_relaxation_is_solved_by_its_edge(points):
    oracle = PointOracle(points, ["free", "convex"])
    found = edge(oracle)
    optimum = hull_optimum(oracle)
    assert found.value == pytest.approx(optimum, rel=1e-7, abs=1e-9 * oracle.h.max() * oracle.largest_loss)
    assert found.upper >= optimum * (1.0 - 1e-9)
    if isinstance(found.y, Mixture):
        first, second = points[found.y.first], points[found.y.second]
        mixed = [(1.0 - found.y.share) * a + found.y.share * b for a, b in zip(first, second, strict=True)]
        assert mixed == pytest.approx([found.h, found.g])


def test_only_the_true_label():
    for name in sorted(set(SEARCHES) - {"edge"}):
        found = SEARCHES[name](PointOracle([TRUTH]))
        assert (found.y, found.value, found.upper) == (None, 0.0, 0.0), name


@pytest.mark.parametrize("name", sorted(set(SEARCHES) - {"edge"}))
def test_labels_that_cannot_win(name):
    found = SEARCHES[name](PointOracle([TRUTH, (-2.0, 3.0), (-1.0, 1.0), (0.0, 2.0)]))
    assert found.y is None
    assert found.value == 0.0
    if name in EXACT:
        assert found.upper <= 1e-6
    else:
        assert found.upper > 0.0  # the segment from (1, 0) to (0, 2) has points of positive value


def test_auto_takes_the_cheapest_exact_search():
    assert automatic(frozenset({"free", "cone", "level", "levels", "direct"})) == "direct"
    assert automatic(frozenset({"free", "cone", "level", "levels"})) == "levels"
    assert automatic(frozenset({"free", "convex", "cone"})) == "edge"
    assert automatic(frozenset({"free", "cone", "level"})) == "angular"
    assert automatic(frozenset({"free", "level"})) == "level"
    assert automatic(frozenset({"free"})) == "hull"
    with pytest.raises(CapabilityError, match="needs at least 'free'"):
        automatic(frozenset({"cone"}))
    with pytest.raises(CapabilityError, match="'best-first' is not one of"):
        named("best-first", frozenset({"free"}))


@pytest.mark.parametrize(("name", "missing"), [("angular", "cone"), ("level", "level"), ("edge", "convex")])
def test_a_search_refuses_an_oracle_that_cannot_serve_it(name, missing):
    with pytest.raises(CapabilityError, match=f"answers {missing}; PointOracle answers free"):
        SEARCHES[name](PointOracle([TRUTH], ["free"]))


def test_levels_at_infinity_are_no_labels():
    oracle = PointOracle([TRUTH, (2.0, 1.0), (0.5, 7.0)])
    assert math.isinf(oracle.levels()[3])
    assert all_losses(oracle).value == 3.5
