"""Upper bounds by relaxation: never below the optimum, and what a run with local search proves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structured_models import LabelSets, exact_training, examples
from widemargin._threads import limit_threads
from widemargin.solvers.base import Budget, Status
from widemargin.structured.learners import block_frank_wolfe
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.result import hinge_bound, proved_primal
from widemargin.structured.model import Weights
from widemargin.structured.models import MultiLabelModel
from widemargin_papers.solvers import structured_cutting_planes as cutting_planes


def problem_of(seed, slack, oracle="greedy", n=6, **options):
    _, X, Y = examples("label sets", n=n, seed=seed)
    rescaling = "slack" if slack else "margin"
    return StructuredProblem(
        MultiLabelModel("full", oracle=oracle), np.array(X), np.array(Y), rescaling=rescaling, **options
    )


@given(seed=st.integers(0, 10_000), slack=st.booleans(), size=st.sampled_from([0.0, 0.3, 3.0]))
def test_a_bound_is_never_below_the_optimum(seed, slack, size):
    greedy, table = problem_of(seed, slack), problem_of(seed, slack, "enumeration")
    rng = np.random.default_rng(seed)
    weights = Weights(size * rng.normal(size=(4, 3)), size * rng.normal(size=3))
    for i in range(6):
        u = table.potentials(i, weights.W)
        best = table.violation(i, u, weights.theta).value
        assert hinge_bound(greedy, i, u, weights.theta) >= best - 1e-9 * (1.0 + best)
    assert proved_primal(table, weights) == np.inf  # it offers no relaxation, and needs none


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("learner", [block_frank_wolfe.solve, cutting_planes.one_slack])
def test_local_search_proves_an_interval_around_the_optimum(learner, slack):
    problem = problem_of(0, slack, n=12, C=0.3)
    _, X, Y = examples("label sets")
    optimum, _ = exact_training(LabelSets(3), X, Y, C=0.3, slack=slack)
    result = learner(problem, tol=1e-3, max_iter=2000)
    assert not result.certified
    assert result.status == Status.CONVERGED
    assert result.dual <= optimum * (1.0 + 1e-7)
    assert result.proved >= max(optimum, result.primal) * (1.0 - 1e-9)
    assert result.gap <= result.proved_gap < 1.0


def test_an_exact_run_is_proved_and_an_interrupted_one_is_not():
    result = block_frank_wolfe.solve(problem_of(0, True, "enumeration"), max_iter=20)
    assert (result.proved, result.proved_gap) == (result.primal, result.gap)

    def interrupt(progress):
        raise KeyboardInterrupt

    result = block_frank_wolfe.solve(problem_of(0, True), budget=Budget(callbacks=(interrupt,)))
    assert result.proved == np.inf
    assert result.proved_gap == 1.0


@given(seed=st.integers(0, 100))
@settings(max_examples=3)
def test_threads_change_no_bound(seed):
    problem = problem_of(seed, True, n=200)
    rng = np.random.default_rng(seed)
    weights = Weights(rng.normal(size=(4, 3)), rng.normal(size=3))
    with limit_threads(1):
        one = proved_primal(problem, weights)
    with limit_threads(2):
        assert proved_primal(problem, weights) == pytest.approx(one, rel=1e-12)
