"""Relaxed labels: the searches of section 4 on points that fill a polygon, and training on them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing import structured_cases as cases

from point_oracles import PointOracle
from widemargin.structured.learners import block_frank_wolfe
from widemargin.structured.learners.passes import choose_passes
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.result import primal_value
from widemargin.structured.models import MultiLabelModel
from widemargin.structured.oracles.lp_relaxation import PairwiseProgram, ProgramOracle
from widemargin.structured.oracles.roof_duality import RoofOracle
from widemargin.structured.search.automatic import SEARCHES as OWN
from widemargin_papers.solvers import label_searches

SEARCHES = OWN | label_searches.SEARCHES


@given(seed=st.integers(0, 10**6), k=st.integers(2, 6))
@settings(max_examples=25)
def test_cones_and_edges_find_the_same_maximum_of_a_relaxation(seed, k):
    """Theorem 1 does not hold there: free questions suffice, and both bound the best label set."""
    model, truth, u, theta, brute = cases.multi_label(seed, k, "full")
    program = ProgramOracle(u, theta, truth, PairwiseProgram(model.structure))
    by_edge = SEARCHES["edge"](RoofOracle(u, theta, truth, model.structure))
    by_cones = SEARCHES["angular"](program, eps=1e-6)
    assert by_edge.value == pytest.approx(by_cones.value, rel=1e-5, abs=1e-6)
    assert by_edge.upper >= brute.best_product() - 1e-9
    assert by_cones.upper >= brute.best_product() * (1.0 - 1e-7) - 1e-7


@pytest.mark.parametrize("name", ["angular", "hull", "bisecting", "binary", "sarawagi-gupta"])
def test_every_search_takes_labels_without_a_smallest_loss(name):
    for seed in range(5):
        model, truth, u, theta, _ = cases.multi_label(seed, 6, "full")
        oracle = ProgramOracle(u, theta, truth, PairwiseProgram(model.structure))
        assert oracle.smallest_loss == 0.0
        found = SEARCHES[name](oracle, eps=1e-6)
        best = SEARCHES["edge"](oracle, eps=1e-6)
        assert found.value <= best.value * (1.0 + 1e-5) + 1e-6
        assert found.upper >= best.value * (1.0 - 1e-5) - 1e-6


class Slopes(PointOracle):
    """Remembers the steepest cone that was asked for."""

    steepest = 0.0

    def __init__(self, points):
        super().__init__(points)
        self.smallest_loss = 0.0

    def cone(self, lam, alpha, beta):
        self.steepest = max(self.steepest, alpha)
        return super().cone(lam, alpha, beta)


def test_a_loss_of_rounding_errors_asks_for_no_steep_cone():
    """HiGHS refuses coefficients of 1e15."""
    oracle = Slopes([(1.0, 0.0), (3.0, 1e-15), (0.5, 2.0)])
    found = SEARCHES["angular"](oracle)
    assert (found.y, found.value) == (2, 1.0)
    assert oracle.steepest < 1e10


def test_a_warm_programme_hides_no_cone():
    """From the basis of another cone HiGHS may call one empty that is not."""
    rng, k = np.random.default_rng(0), 6
    model = MultiLabelModel("full")
    model.prepare(np.zeros((2, 1)), np.eye(2, k, dtype=int))
    program = PairwiseProgram(model.structure)
    for _ in range(60):
        truth = (rng.random(k) < 0.4).astype(np.int64)
        u = 0.3 * (rng.normal(size=(1, k)) + 2 * truth - 1)
        theta = 0.1 * rng.normal(size=15)
        oracle = ProgramOracle(u, theta, truth, program)
        best = SEARCHES["edge"](oracle, eps=1e-6)
        assert SEARCHES["angular"](oracle, eps=1e-6).value >= best.value * (1.0 - 1e-5)


@pytest.mark.parametrize("kind", ["roof", "lp"])
def test_training_on_the_relaxation_bounds_the_objective_of_label_sets(kind):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(12, 3)), (rng.random((12, 4)) < 0.4).astype(int)
    options = {"C": 0.3} | ({"eps": 1e-6} if kind == "lp" else {})
    relaxed = StructuredProblem(MultiLabelModel("full", oracle=kind), X, Y, check=True, **options)
    result = block_frank_wolfe.solve(relaxed, tol=0.02, max_iter=200)
    assert result.certified
    assert result.gap <= 0.02
    whole = StructuredProblem(MultiLabelModel("full"), X, Y, C=0.3)
    objective = primal_value(whole, result.weights, choose_passes(whole).responses(result.weights))
    assert objective <= result.primal * (1.0 + 1e-6)
    assert block_frank_wolfe.solve(whole, tol=1e-3, max_iter=1000).dual <= result.primal
