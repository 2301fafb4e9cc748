"""Losses 1 - Jaccard, 1 - F1 and 1 - exact match of label sets: by the sets themselves, and every label looked at."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import structured_cases as cases

from widemargin import MultiLabelSVC, StructuralSVM
from widemargin.exceptions import CapabilityError, DataError
from widemargin.structured.learners.block_frank_wolfe import solve
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.models import MultiLabelModel
from widemargin.structured.oracles import enumeration
from widemargin.structured.search.hull import edge

SCORED = ("jaccard", "f1", "exact")
seeds = st.integers(0, 10**6)


def loss_of(loss, y, truth):
    """By the definition: what two sets have in common."""
    both, either = int((y & truth).sum()), int((y | truth).sum())
    if either == 0:
        return 0.0
    return {
        "jaccard": 1 - both / either, "f1": 1 - 2 * both / (y.sum() + truth.sum()), "exact": float((y != truth).any())
    }[loss]  # fmt: skip


def points(seed, k, loss, **options):
    """Model, truth, potentials and the points (h, g) of all label sets."""
    model, truth, u, theta, brute = cases.multi_label(seed, k, "full", loss=loss, **options)
    return model, truth, u, theta, brute.h, np.array([loss_of(loss, y, truth) for y in brute.labels]), brute.labels


@pytest.mark.parametrize("loss", SCORED)
def test_losses_of_all_pairs_of_sets(loss):
    model = MultiLabelModel(None, loss=loss)
    every = np.array(list(itertools.product((0, 1), repeat=3)))
    model.prepare(np.zeros((8, 1)), every)
    for y, truth in itertools.product(every, every):
        assert model.loss(y, truth) == pytest.approx(loss_of(loss, y, truth))


@given(seed=seeds, k=st.integers(1, 6), loss=st.sampled_from(SCORED))
def test_enumeration_is_exact(seed, k, loss):
    model, truth, u, theta, h, g, _ = points(seed, k, loss)
    oracle = model.oracle(None, truth, u, theta)
    for lam in (0.0, 0.7, 3.0):
        answer = oracle.free(lam)
        assert answer.h + lam * answer.g == pytest.approx((h + lam * g).max(), abs=1e-9)
    direct = oracle.direct()
    assert direct.g == pytest.approx(loss_of(loss, direct.y, truth))
    assert max(0.0, direct.h * direct.g) == pytest.approx(max(0.0, (h * g).max()), abs=1e-9)
    assert oracle.smallest_loss == pytest.approx(g[g > 0].min())
    assert oracle.largest_loss == pytest.approx(g.max())


@given(seed=seeds, k=st.integers(1, 6), loss=st.sampled_from(SCORED))
def test_a_local_search_is_bounded_by_its_relaxation(seed, k, loss):
    model, truth, u, theta, h, g, labels = points(seed, k, loss, oracle="greedy")
    oracle = model.oracle(None, truth, u, theta)
    best = max(0.0, (h * g).max())
    for answer in (oracle.direct(), oracle.free(1.0)):
        place = next(i for i, y in enumerate(labels) if np.array_equal(y, answer.y))
        assert (answer.h, answer.g) == pytest.approx((h[place], g[place]))
    assert 0.0 <= oracle.direct().h * oracle.direct().g <= best + 1e-9
    assert oracle.smallest_loss <= g[g > 0].min() + 1e-12
    assert oracle.largest_loss >= g.max() - 1e-12
    relaxed = oracle.relaxed()
    assert edge(relaxed).upper >= best - 1e-9
    answer = relaxed.free(1.0)
    assert answer.h + answer.g >= (h + g).max() - 1e-9


@pytest.mark.parametrize("loss", SCORED)
def test_a_local_search_finds_most_optima(loss):
    found = 0
    for seed in range(60):
        model, truth, u, theta, h, g, _ = points(seed, 6, loss, oracle="greedy", restarts=5)
        answer = model.oracle(None, truth, u, theta).direct()
        found += answer.h * answer.g >= (h * g).max() - 1e-9
    assert found >= 54


def rows(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, (X[:, :3] + X[:, 1:] + 0.5 * rng.normal(size=(n, 3)) > 0.4).astype(int)


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
@pytest.mark.parametrize("loss", SCORED)
def test_compiled_training_is_that_of_the_search_over_an_oracle(loss, rescaling):
    X, Y = rows()
    options = {"C": 0.1, "tol": 5e-3, "max_iter": 5000, "random_state": 0, "rescaling": rescaling}
    clf = MultiLabelSVC(loss=loss, solver_options={"fit_intercept": False}, **options).fit(X, Y)
    svm = StructuralSVM(MultiLabelModel(loss=loss), search="angular", debug=True, **options).fit(X, Y)
    assert clf.certified_
    assert svm.dual_ <= clf.primal_ * (1 + 1e-9)
    assert clf.dual_ <= svm.primal_ * (1 + 1e-9)
    greedy = {"fit_intercept": False, "oracle": "greedy", "restarts": 5}
    local = MultiLabelSVC(loss=loss, solver_options=greedy, **options).fit(X, Y)
    assert local.proved_primal_ >= clf.dual_
    assert local.primal_ == pytest.approx(clf.primal_, rel=0.02)


def test_loops_are_python_loops():
    model, truth, _, _, _, g, _ = points(3, 4, "f1")
    compiled = enumeration.losses(truth, model.structure)
    np.testing.assert_allclose(enumeration.losses.py_func(truth, model.structure), compiled)
    assert sorted(compiled) == pytest.approx(sorted(g))


def test_the_loss_is_part_of_the_problem():
    X, Y = rows(20)
    problems = [StructuredProblem(MultiLabelModel(loss=loss), X, Y) for loss in ("hamming", *SCORED)]
    assert len({problem.fingerprint() for problem in problems}) == 4
    assert len({round(solve(problem, max_iter=50).dual, 6) for problem in problems}) == 4


def test_what_does_not_go_together_is_refused():
    X, Y = rows(20)
    for options, error, message in (
        ({"weights": [1, 2, 3]}, CapabilityError, "weights and loss='f1'"),
        ({"solver_options": {"oracle": "roof"}}, CapabilityError, "oracle='roof' and loss='f1'"),
        ({"solver_options": {"oracle": "tree"}, "edges": "tree"}, CapabilityError, "oracle='tree' and loss='f1'"),
    ):
        with pytest.raises(error, match=message):
            MultiLabelSVC(loss="f1", C=0.1, **options).fit(X, Y)
    with pytest.raises(DataError, match="loss='accuracy' is not one of"):
        MultiLabelModel(loss="accuracy").prepare(X, Y)
