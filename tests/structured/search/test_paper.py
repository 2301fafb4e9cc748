"""The theorems of Choi, Meshi and Srebro (2016) as tests, and the searches of the paper beside the corrected one."""

import numpy as np
import pytest

from point_oracles import PointOracle
from widemargin.structured.oracle import Answer
from widemargin.structured.search.angular import angular
from widemargin.structured.search.hull import hull
from widemargin_papers.solvers.label_searches import binary, bisecting, sarawagi_gupta

LAMBDA_ONLY = [hull, bisecting, binary, sarawagi_gupta]


@pytest.mark.parametrize("search", LAMBDA_ONLY, ids=lambda f: f.__name__)
def test_theorem_1_three_labels_defeat_every_search_by_lambda(search):
    """A = (e, G), B = (H, e) and C = (H, G)/2 below the line from A to B: C is never found, the cones find it."""
    e, H, G = 1e-3, 1.0, 1.0
    oracle = PointOracle([(e, G), (H, e), (0.499 * H, 0.499 * G)])
    found = search(oracle)
    assert found.value <= e * max(H, G)
    assert not found.exact
    assert found.upper >= oracle.optimum == pytest.approx(0.249, rel=1e-2)
    assert angular(oracle).y == 2


def on_one_hyperbola(M):
    """M labels whose values differ by 1e-7 at most: any one of them may be the best, and none is below a line."""
    slopes = np.exp(np.linspace(-1.5, 1.5, M))  # g / h
    value = 1.0 + 1e-7 / M * np.random.default_rng(1).permutation(M)
    return [(float(np.sqrt(v / s)), float(np.sqrt(v * s))) for v, s in zip(value, slopes, strict=True)]


@pytest.mark.parametrize("M", [8, 32, 64])
def test_theorem_3_a_search_may_need_as_many_queries_as_there_are_labels(M):
    """On one hyperbola (up to 1e-7) every query's line has all labels but one below it, and none can be left out."""
    points = on_one_hyperbola(M)
    oracle = PointOracle(points)
    found = angular(oracle, eps=1e-10)
    assert found.value == oracle.optimum
    assert M / 4 <= found.queries <= 4 * M + 2


def printed_algorithm_2(oracle, lam0):
    """Algorithm 2 as printed, up to the places that are undefined: an answer with z = z' ends the search."""
    queue, best, value, lam = [(np.inf, 0.0)], None, 0.0, lam0
    while queue:
        alpha, beta = queue.pop(0)
        if beta > 0.0 and np.isfinite(alpha):
            lam = 1.0 / np.sqrt(alpha * beta)
        # The rule s: the upper end is excluded from the first child, the lower one from the second.
        inside = (beta * oracle.h <= oracle.g) & (oracle.g < alpha * oracle.h)
        if not inside.any():
            continue
        y = int(np.argmax(np.where(inside, oracle.h + lam * oracle.g, -np.inf)))
        h, g = float(oracle.h[y]), float(oracle.g[y])
        if h * g > value:
            best, value = y, h * g
        if h == lam * g:
            return y
        z, mirrored, middle = g / h, h / (lam * lam * g), 1.0 / lam
        queue += [(max(z, mirrored), middle), (middle, min(z, mirrored))]
    return best


def test_the_printed_algorithm_2_ends_on_a_worse_label():
    """Spec 4.2: a = (4, 1), b = (1, 2), lam0 = 1. The second cone's answer b has h = lam g; the search ends with it."""
    oracle = PointOracle([(4.0, 1.0), (1.0, 2.0)])
    assert printed_algorithm_2(oracle, 1.0) == 1
    assert angular(oracle, hint=1.0).y == 0


@pytest.mark.parametrize("search", [hull, bisecting, binary], ids=lambda f: f.__name__)
def test_searches_by_lambda_find_the_same_vertices(search):
    """All minimise K^2 / (4 lam): the same success, whatever the number of questions."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        oracle = PointOracle([(1.0, 0.0), *zip(rng.normal(1.0, 2.0, 40), rng.integers(1, 9, 40), strict=True)])
        assert search(oracle).value == pytest.approx(hull(oracle).value, rel=1e-9)


def test_hull_search_asks_less_than_the_searches_that_halve():
    rng = np.random.default_rng(4)
    asked = dict.fromkeys([f.__name__ for f in LAMBDA_ONLY], 0)
    for _ in range(30):
        oracle = PointOracle([(1.0, 0.0), *zip(rng.normal(1.0, 2.0, 300), rng.integers(1, 15, 300), strict=True)])
        for search in LAMBDA_ONLY:
            asked[search.__name__] += search(oracle).queries
    assert asked["hull"] < asked["bisecting"]
    assert asked["hull"] < asked["binary"] < asked["sarawagi_gupta"]


def test_questions_are_counted():
    rng = np.random.default_rng(5)
    oracle = PointOracle([(1.0, 0.0), *zip(rng.normal(1.0, 2.0, 50), rng.integers(1, 9, 50), strict=True)])
    for search in [*LAMBDA_ONLY, angular]:
        oracle.asked = 0
        assert search(oracle).queries == oracle.asked


def test_sarawagi_gupta_returns_the_most_violated_constraint_it_met():
    """With slack xi the wanted label has the largest h - xi / g, which need not have the largest h g."""
    oracle = PointOracle([(1.0, 0.0), (2.0, 1.0), (0.9, 3.0)])
    assert sarawagi_gupta(oracle, slack=0.1).y == 1
    assert sarawagi_gupta(oracle, slack=3.0).y == 2


def test_a_cached_label_counts_for_every_search():
    oracle = PointOracle([(1e-3, 1.0), (1.0, 1e-3), (0.4, 0.4)])
    known = Answer("cached", 0.4, 0.4)
    for search in (hull, bisecting, binary):
        assert search(oracle, best=known).y == "cached"
