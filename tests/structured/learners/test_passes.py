"""Compiled passes against the same steps in Python, for every kind of ready-made model."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin._threads import limit_threads
from widemargin.structured.learners import block_frank_wolfe, example_rows, visits
from widemargin.structured.learners.passes import CompiledPasses, PythonPasses, choose_passes
from widemargin.structured.learners.problem import StructuredProblem, zero_blocks
from widemargin.structured.model import Weights
from widemargin.structured.models import ChainModel, HierarchyModel, MulticlassModel, MultiLabelModel
from widemargin_papers.solvers import structured_sgd as sgd
from widemargin_papers.solvers.structured_cutting_planes import one_slack, slack_per_example

KINDS = ["none", "tree", "full", "weighted", "hierarchy", "paths", "chain", "classes"]


def task(kind, n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.7)
    if kind == "classes":
        return MulticlassModel(), X, np.argmax(X[:, :3] + rng.normal(size=(n, 3)), axis=1)
    if kind == "chain":
        lengths = rng.integers(1, 6, n)
        X = [rng.normal(size=(m, 6)) for m in lengths]
        return ChainModel(), X, [np.argmax(x[:, :3] + rng.normal(size=(x.shape[0], 3)), axis=1) for x in X]
    Y = (X[:, :5] + 0.7 * rng.normal(size=(n, 5)) > 0).astype(int)
    if kind == "hierarchy":
        parent = [-1, 0, 0, -1, 3]
        for label, p in enumerate(parent):
            if p >= 0:
                Y[:, label] &= Y[:, p]
        return HierarchyModel(parent), X, Y
    if kind == "paths":
        parent = [-1, 0, 0, -1, 3]
        end = np.argmax(X[:, :5] + 0.7 * rng.normal(size=(n, 5)), axis=1)
        return HierarchyModel(parent, labels="path"), X, HierarchyModel(parent).closed(np.eye(5, dtype=int)[end])
    edges = {"none": None, "tree": "tree", "full": "full", "weighted": "tree"}[kind]
    weights = [1.0, 2.0, 3.0, 1.0, 2.0] if kind == "weighted" else None
    return MultiLabelModel(edges, weights=weights), X, Y


# Every pair is another compilation, of half a minute on a slow processor. The learners that papers/ compares with ask
# the same oracles as the default one, so they are tried on a few kinds of them; and the one of them that compiles its
# pass for each, on chains, whose examples have several rows, and on two kinds that other tests compile it for.
PAIRS = [
    *itertools.product([block_frank_wolfe.solve], KINDS, ["slack", "margin"]),
    *itertools.product([slack_per_example, one_slack], ["tree", "chain"], ["slack"]),
    *itertools.product([slack_per_example, one_slack], ["weighted", "paths"], ["margin"]),
    *((sgd.solve, kind, rescaling) for kind, rescaling in (("chain", "slack"), ("full", "slack"), ("full", "margin"))),
]


@pytest.mark.parametrize(("learner", "kind", "rescaling"), PAIRS)
def test_compiled_and_python_steps_agree(learner, kind, rescaling):
    model, X, Y = task(kind)
    problem = StructuredProblem(model, X, Y, C=0.1, rescaling=rescaling)
    assert isinstance(choose_passes(problem), CompiledPasses)
    assert isinstance(choose_passes(problem, compiled=False), PythonPasses)
    fast, slow = (learner(problem, tol=1e-9, max_iter=3, compiled=compiled) for compiled in (None, False))
    np.testing.assert_allclose(fast.weights.W, slow.weights.W, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.weights.theta, slow.weights.theta, rtol=1e-9, atol=1e-12)
    assert fast.primal == pytest.approx(slow.primal, rel=1e-9)
    assert fast.dual == pytest.approx(slow.dual, rel=1e-9)
    assert fast.n_oracle_calls == slow.n_oracle_calls


@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_closes(kind):
    model, X, Y = task(kind)
    result = block_frank_wolfe.solve(StructuredProblem(model, X, Y, C=0.1), tol=1e-3, max_iter=3000)
    assert result.gap <= 1e-3
    assert result.certified


def test_csr_and_dense_give_the_same_model():
    model, X, Y = task("tree")
    dense, csr = (
        block_frank_wolfe.solve(StructuredProblem(model, rows, Y, C=0.1), tol=1e-9, max_iter=5)
        for rows in (X, sp.csr_matrix(X))
    )
    np.testing.assert_allclose(dense.weights.W, csr.weights.W, rtol=1e-10)


def test_threads_change_nothing():
    model, X, Y = task("tree", n=400)
    problem = StructuredProblem(model, X, Y, C=0.1)
    weights = Weights(np.random.default_rng(0).normal(size=(6, 5)), np.random.default_rng(1).normal(size=4))
    results = []
    for n_jobs in (1, 2):
        with limit_threads(n_jobs):
            results.append(CompiledPasses(problem).responses(weights, keep=True))
    np.testing.assert_array_equal(results[0].value, results[1].value)
    np.testing.assert_array_equal(results[0].labels.a, results[1].labels.a)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("csr", [False, True])
def test_loops_on_rows_are_what_numpy_says(m, csr):
    rng = np.random.default_rng(m)
    X = rng.normal(size=(m + 2, 7)) * (rng.random((m + 2, 7)) < 0.5)
    W, change, b = rng.normal(size=(7, 4)), rng.normal(size=(m, 4)), rng.normal(size=5)
    sparse = sp.csr_matrix(X)
    none = np.empty(0, dtype=np.int32)
    rows = example_rows.ExampleRows(
        *((sparse.data[None, :], sparse.indices, sparse.indptr) if csr else (X, none, none))
    )
    u = np.empty((m, 4))
    example_rows.scores(rows, 1, 1 + m, W, u)
    np.testing.assert_allclose(u, X[1 : 1 + m] @ W)
    moved = W.copy()
    example_rows.add_rows(rows, 1, 1 + m, change, -0.5, moved)
    np.testing.assert_allclose(moved, W - 0.5 * X[1 : 1 + m].T @ change)
    gram = example_rows.grams(rows, np.array([0, 1, 1 + m, 2 + m]), 7)[1:-1]
    np.testing.assert_allclose(gram.reshape(m, m), X[1 : 1 + m] @ X[1 : 1 + m].T, atol=1e-15)
    norm = visits.squared_norm(change, b, gram)
    assert norm == pytest.approx(((X[1 : 1 + m].T @ change) ** 2).sum() + (b**2).sum())


def test_compiled_loops_are_python_loops():
    """The pass, run as plain Python over the compiled argmax."""
    model, X, Y = task("tree", n=6)
    problem = StructuredProblem(model, X, Y, C=0.1)
    results = []
    for run in (visits.visit, visits.visit.py_func):
        mine = CompiledPasses(problem)
        blocks, W, theta = zero_blocks(problem), np.zeros((problem.d, problem.S)), np.zeros(problem.P)
        average = visits.Average(np.zeros_like(blocks.a), np.zeros(6), np.zeros(problem.P), np.zeros(6, dtype=np.int64))
        gap = run(
            np.arange(6), visits.AVERAGED_STEPS, mine.training, mine.work, Weights(W, theta), blocks, np.empty(0),
            0, problem.C, average, mine.buffers(),
        )  # fmt: skip
        results.append((gap, W))
    assert results[0][0] == pytest.approx(results[1][0])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-12)
