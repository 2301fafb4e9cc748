"""Closed sets of acyclic graphs by minimum cuts, against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing import structured_brute
from testing.structured_cases import Graph, halves

from widemargin.exceptions import CapabilityError
from widemargin.structured.learners import block_frank_wolfe
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.models import HierarchyModel
from widemargin.structured.oracle import Answer
from widemargin.structured.oracles.closures import _settle, best_closure, closure
from widemargin.structured.search.automatic import SEARCHES, automatic


def diamond():
    return Graph([("root", "a"), ("root", "b"), ("a", "both"), ("b", "both")])


@given(seed=st.integers(0, 10**6), k=st.integers(1, 7))
def test_free_questions_and_decoding(seed, k):
    rng = np.random.default_rng(seed)
    graph = Graph([(p, q) for q in range(k) for p in range(q) if rng.random() < 0.4], nodes=range(k))
    model = HierarchyModel(graph)
    Y = model.closed((rng.random((3, k)) < 0.3).astype(int))
    model.prepare(np.zeros((3, 1)), Y)
    u, arcs = halves(rng, 1, k), graph.edges()
    brute = structured_brute.closed_sets(u, arcs, np.ones(k), Y[0])
    oracle = model.oracle(None, Y[0], u, np.zeros(0))
    for lam in (0.0, 0.4, 3.0):
        answer = oracle.free(lam)
        assert brute.holds(answer)
        assert answer.h + lam * answer.g == pytest.approx(brute.best(lam), abs=1e-9)
    decoded = model.decode(None, u, np.zeros(0))
    assert all(decoded[p] >= decoded[q] for p, q in arcs)
    assert u[0] @ decoded == pytest.approx(max(u[0] @ y for y in brute.labels), abs=1e-9)


def test_what_several_parents_leave():
    model = HierarchyModel(diamond())
    model.prepare(np.zeros((1, 1)), [[1, 1, 1, 1]])
    assert not model.compiles(slack=False)
    assert model.oracle(None, [1, 1, 0, 0], np.zeros((1, 4)), np.zeros(0)).capabilities == {"free"}
    with pytest.raises(CapabilityError, match="'both' has several parents"):
        HierarchyModel(diamond(), loss="leaves").prepare(np.zeros((1, 1)), [[1, 1, 1, 1]])


def random_arcs(rng, k):
    pairs = np.array([(p, q) for q in range(k) for p in range(q)], dtype=np.int64).reshape(-1, 2)
    return pairs[rng.random(len(pairs)) < 0.4]


@given(seed=st.integers(0, 10**6), k=st.integers(1, 9))
def test_the_best_closed_set_is_the_smallest_of_the_best(seed, k):
    rng = np.random.default_rng(seed)
    arcs, gain = random_arcs(rng, k), halves(rng, k)
    sets = np.array([y for y in np.ndindex(*[2] * k) if all(y[p] >= y[q] for p, q in arcs)])
    best = sets[sets @ gain == (sets @ gain).max()]
    assert best_closure(gain, arcs).tolist() == best[best.sum(axis=1).argmin()].tolist()


def test_forests_need_no_cut():
    rng = np.random.default_rng(0)
    for _ in range(20):
        k = int(rng.integers(1, 30))
        # A node from the second on is a root or has a parent before it.
        arcs = np.array([(rng.integers(q), q) for q in range(1, k) if rng.random() < 0.8]).reshape(-1, 2)
        state, like, order = np.empty((3, k), dtype=np.int64)
        _settle(rng.normal(size=k), arcs.astype(np.int64), state, like, order)
        assert (state >= 0).all()


def test_compiled_is_plain_python():
    rng = np.random.default_rng(0)
    for _ in range(10):
        arcs, gain = random_arcs(rng, 6), halves(rng, 6)
        assert closure(gain.copy(), arcs).tolist() == closure.py_func(gain, arcs).tolist()


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6), weight=st.sampled_from([1.0, 0.3]))
@settings(max_examples=30)
def test_exact_slack_by_integer_programming(seed, k, weight):
    rng = np.random.default_rng(seed)
    graph = Graph([(p, q) for q in range(k) for p in range(q) if rng.random() < 0.5], nodes=range(k))
    model = HierarchyModel(graph, weights=np.full(k, weight), oracle="milp")
    Y = model.closed((rng.random((3, k)) < 0.3).astype(int))
    model.prepare(np.zeros((3, 1)), Y)
    if model.graph.is_forest:
        return
    for truth in Y:  # the programme is one for all examples
        u = halves(rng, 1, k)
        brute = structured_brute.closed_sets(u, graph.edges(), np.full(k, weight), truth)
        oracle = model.oracle(None, truth, u, np.zeros(0))
        found = SEARCHES[automatic(oracle.capabilities)](oracle, eps=oracle.tolerance)
        assert found.exact
        assert found.value == pytest.approx(brute.best_product(), abs=1e-5)
        assert found.y is None or brute.holds(Answer(found.y, found.h, found.g))


def test_training_with_several_parents_is_exact():
    rng = np.random.default_rng(0)
    graph, X = diamond(), rng.normal(size=(8, 3))
    Y = HierarchyModel(graph).closed((X @ rng.normal(size=(3, 4)) > 0.3).astype(int))
    problem = StructuredProblem(HierarchyModel(graph, oracle="milp"), X, Y, C=0.3, check=True)
    assert problem.search_name == "level"
    assert problem.exact
    result = block_frank_wolfe.solve(problem, tol=0.1, max_iter=100)
    assert result.gap <= 0.1
    with pytest.raises(CapabilityError, match="oracle='cuts'"):
        HierarchyModel(graph, oracle="cuts").prepare(X, Y)
