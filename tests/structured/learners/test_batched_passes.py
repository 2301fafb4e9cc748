"""Oracles asked side by side: batches of one are the usual steps, larger ones reach the same optimum."""

import numpy as np
import pytest

from structured_models import examples
from widemargin import StructuralSVM
from widemargin.exceptions import CapabilityError
from widemargin.structured.learners import block_frank_wolfe
from widemargin.structured.learners.passes import BatchedPasses
from widemargin.structured.learners.problem import StructuredProblem


def task():
    model, X, Y = examples("sets", n=30)
    return StructuredProblem(model, X, Y, C=0.1)


def solve(problem, max_iter=60, **options):
    return block_frank_wolfe.solve(problem, tol=0.01, max_iter=max_iter, compiled=False, **options)


def test_a_batch_of_one_makes_the_usual_steps():
    usual, mapped = (solve(task(), max_iter=4, **options) for options in ({}, {"batch": 1}))
    np.testing.assert_allclose(mapped.weights.W, usual.weights.W, rtol=1e-12, atol=1e-14)
    assert mapped.n_queries == usual.n_queries
    assert mapped.gap == pytest.approx(usual.gap, rel=1e-9)


def test_batches_reach_the_optimum_wherever_the_oracles_are(dask_client):
    usual, there = solve(task()), solve(task(), batch=8)
    assert there.gap <= 0.01
    assert there.dual <= usual.primal * (1.0 + 1e-12)
    assert usual.dual <= there.primal * (1.0 + 1e-12)
    here = BatchedPasses(task(), 8, workers=2)
    order, weights = np.arange(30), there.weights
    on_cluster = BatchedPasses(task(), 8, workers=dask_client)
    left, right = (passes.responses(weights, keep=True) for passes in (here, on_cluster))
    np.testing.assert_array_equal(left.value, right.value)
    np.testing.assert_array_equal(left.labels.a, right.labels.a)
    assert here.queries == on_cluster.queries >= order.shape[0]


def test_the_estimator(dask_client):
    model, X, Y = examples("sets", n=20)
    clf = StructuralSVM(model, C=0.1, solver_options={"oracle_batch": 5}, random_state=0, tol=0.05).fit(X, Y)
    assert clf.gap_ <= 0.05
    with pytest.raises(CapabilityError, match="oracle_batch is for solver='bcfw'"):
        StructuralSVM(model, solver="sgd", solver_options={"oracle_batch": 5}).fit(X, Y)
