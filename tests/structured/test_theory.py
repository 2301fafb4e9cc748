"""Theorems of Choi, Meshi and Srebro (2016), played out.

Theorem 1 and the counterexample to the printed Algorithm 2 are in `search/test_paper.py`, exactness against brute force
in `search/test_exact.py`.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adversary import AdversaryOracle
from point_oracles import PointOracle
from widemargin.structured.search.automatic import SEARCHES as OWN
from widemargin_papers.solvers import label_searches

SEARCHES = OWN | label_searches.SEARCHES

BY_QUESTIONS = ["angular", "hull", "bisecting", "binary", "sarawagi-gupta"]


@pytest.mark.parametrize(("name", "asked"), [*itertools.product(BY_QUESTIONS, [2, 3, 4]), ("angular", 8)])
def test_theorem_3_fewer_questions_than_labels_miss_the_best_one(name, asked):
    """Against labels made up on the way any search fails; with all labels known, it asks the same and fails again."""
    adversary = AdversaryOracle()
    fooled = SEARCHES[name](adversary, max_queries=asked)
    oracle = adversary.revealed()
    labels = oracle.h.shape[0]
    assert labels <= fooled.queries + 1 <= asked + 1
    found = SEARCHES[name](oracle, max_queries=asked)
    assert (found.y, found.value, found.queries) == (fooled.y, fooled.value, fooled.queries)
    assert found.value < (1.0 - 1e-9) * oracle.optimum
    assert oracle.optimum <= found.upper
    assert not found.exact


def test_theorem_3_the_angular_search_goes_on_until_it_has_every_label():
    adversary = AdversaryOracle()
    SEARCHES["angular"](adversary, max_queries=8)
    oracle = adversary.revealed()
    found = SEARCHES["angular"](oracle)
    assert found.y == oracle.h.shape[0] - 1
    assert found.queries > 8
    assert found.exact


class FirstCone(PointOracle):
    """Remembers the first question for a cone: `v` is how far the slope of its answer is from 1 / lam."""

    v = None

    def cone(self, lam, alpha, beta):
        answer = super().cone(lam, alpha, beta)
        if self.v is None and answer is not None and answer.h > 0.0:
            self.v = max(lam * answer.g / answer.h, answer.h / (lam * answer.g))
        return answer


@given(
    points=st.lists(st.tuples(st.floats(0.01, 3.0), st.integers(1, 12)), min_size=1, max_size=25),
    r=st.integers(1, 4),
)
def test_theorem_4_bounds_what_an_early_stop_loses(points, r):
    """After t = 2^r - 1 cones the optimum is at most v^(4 / (t + 1)) times the best label; best first like FIFO."""
    oracle = FirstCone([(1.0, 0.0), *points])
    t = 2**r - 1
    found = SEARCHES["angular"](oracle, max_queries=1 + t)
    loses = 1.0 if oracle.v is None else oracle.v ** (4.0 / (t + 1))
    assert found.upper <= found.value * loses * (1.0 + 1e-6)
    assert oracle.optimum <= found.upper * (1.0 + 1e-12)


@given(points=st.lists(st.tuples(st.floats(-1.0, 3.0), st.integers(1, 12)), min_size=1, max_size=25))
def test_theorem_2_two_questions_a_label(points):
    """2M + 1, up to the labels on a split ray, which belong to both cones, and the first question for the largest h."""
    distinct = len({(h, g) for h, g in points if h > 0.0})
    found = SEARCHES["angular"](PointOracle([(1.0, 0.0), *points]))
    assert found.exact
    assert found.queries <= 4 * distinct + 3


@given(
    points=st.lists(st.tuples(st.floats(-3.0, 3.0), st.floats(0.1, 9.0)), min_size=1, max_size=25),
    lam=st.floats(1e-3, 1e3),
)
def test_lemma_5_a_line_bounds_the_optimum(points, lam):
    """Also with labels of h <= 0 among them, as the true label has h = 1."""
    oracle = PointOracle([(1.0, 0.0), *points])
    top = oracle.free(lam)
    assert oracle.optimum <= (top.h + lam * top.g) ** 2 / (4.0 * lam) * (1.0 + 1e-12)


def test_appendix_c_h_falls_and_g_grows_with_lambda():
    rng = np.random.default_rng(0)
    oracle = PointOracle(list(zip(rng.normal(size=200), rng.exponential(size=200), strict=True)))
    answers = [oracle.free(lam) for lam in np.geomspace(1e-3, 1e3, 60)]
    assert (np.diff([answer.h for answer in answers]) <= 0.0).all()
    assert (np.diff([answer.g for answer in answers]) >= 0.0).all()
    assert math.isclose(answers[0].h, oracle.h.max())
