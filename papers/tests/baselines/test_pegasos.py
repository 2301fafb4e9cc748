"""Pegasos: near LIBLINEAR's optimum, a gap that is a bound, the ball, and compiled steps that are the plain ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import LinearSVC
from testing.linear_baselines import classes, signs

from widemargin.exceptions import MarginConvergenceWarning
from widemargin_papers.baselines import LinearPegasosClassifier
from widemargin_papers.solvers import linear_sgd_loops as loops


def objective(clf, X, y, C, weight=1.0):
    w = np.append(clf.coef_[0], clf.intercept_)
    return 0.5 * w @ w + C * np.sum(weight * np.maximum(0.0, 1.0 - signs(y) * clf.decision_function(X)))


def optimum(X, y, C, weight=None):
    """LIBLINEAR regularises the weight of its constant feature, as Pegasos does."""
    peer = LinearSVC(C=C, loss="hinge", tol=1e-9, max_iter=10**6).fit(X, y, sample_weight=weight)
    return objective(peer, X, y, C, 1.0 if weight is None else weight)


@pytest.mark.parametrize("projection", [True, False])
@pytest.mark.parametrize("iterate", ["average", "last"])
def test_it_comes_near_the_optimum_and_the_gap_is_a_bound(projection, iterate):
    X, y = classes()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    best = optimum(X, y, 0.3, weight)
    clf = LinearPegasosClassifier(C=0.3, projection=projection, iterate=iterate, max_iter=200, random_state=0)
    value = objective(clf.fit(X, y, sample_weight=weight), X, y, 0.3, weight)
    assert best <= value * (1 + 1e-9) <= 1.01 * best
    assert value - best <= clf.gap_ * value
    assert clf.gap_ < 0.1


@given(seed=st.integers(0, 10**6), passes=st.integers(1, 4), C=st.sampled_from([1e-3, 0.1, 10.0]), ball=st.booleans())
def test_the_gap_is_a_bound_for_every_run(seed, passes, C, ball):
    X, y = classes(40, 4, seed=seed % 5)
    clf = LinearPegasosClassifier(C, projection=ball, max_iter=passes, random_state=seed).fit(X, y)
    value = objective(clf, X, y, C)
    assert value - optimum(X, y, C) <= clf.gap_ * value + 1e-6


def test_projection_keeps_the_last_iterate_in_the_ball():
    X, y = classes()
    C = 1.0
    norms = []
    for projection in (True, False):
        clf = LinearPegasosClassifier(C, projection=projection, iterate="last", max_iter=1, random_state=0)
        clf.fit(5.0 * X[:20], y[:20])
        norms.append(np.linalg.norm(np.append(clf.coef_, clf.intercept_)))
    assert norms[0] <= np.sqrt(C * 20) * (1 + 1e-9)
    assert norms[0] < norms[1]


def test_it_stops_at_the_gap_that_was_asked():
    X, y = classes()
    clf = LinearPegasosClassifier(0.01, tol=0.05, max_iter=1000, random_state=0).fit(X, y)
    assert clf.gap_ <= 0.05
    assert clf.n_iter_ < 1000
    assert clf.status_ == "converged"
    with pytest.warns(MarginConvergenceWarning, match="raise max_iter or tol"):
        assert LinearPegasosClassifier(tol=1e-9, max_iter=2).fit(X, y).status_ == "max_iter"


def plain(monkeypatch):
    """Let the loops call each other as plain Python."""
    for name in (
        "dense_dot",
        "dense_add",
        "csr_dot",
        "csr_add",
        "pegasos_step",
        "close_step",
        "ldm_amounts",
        "project",
    ):
        monkeypatch.setattr(loops, name, getattr(loops, name).py_func)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("loop", ["pegasos", "ldm"])
def test_compiled_steps_are_the_plain_ones(kind, loop, monkeypatch):
    X, y = classes(30)
    rng = np.random.default_rng(0)
    order, other = rng.permutation(30), rng.permutation(30)
    rows = (X,) if kind == "dense" else (sp.csr_matrix(X).data, sp.csr_matrix(X).indices, sp.csr_matrix(X).indptr)
    function = getattr(loops, f"{loop}_{kind}")

    def run(step):
        v, u, hits, now = np.zeros(7), np.zeros(7), np.zeros(30, np.int64), np.array([1.0, 0.0, 0.0, 0.0, 0.0])
        for _ in range(3):
            if loop == "pegasos":
                step(*rows, order, signs(y), np.ones(30), (X * X).sum(1) + 1, 1e-9, 30.0, 1.0, v, u, hits, now)
            else:
                step(*rows, order, other, signs(y), np.array([0.01, 0.01]), 1e-3, 50.0, 1.0, v, u, now)
        return v, u, hits, now

    compiled = run(function)
    plain(monkeypatch)
    for one, two in zip(compiled, run(function.py_func), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


def test_the_average_is_that_of_the_iterates(monkeypatch):
    """Also through the steps at which the scale is made 1 again."""
    X, y = classes(20)
    monkeypatch.setattr(loops, "SMALL", 0.5)
    plain(monkeypatch)
    v, u, hits, now = np.zeros(7), np.zeros(7), np.zeros(20, np.int64), np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    total, weight = np.zeros(7), 0.0
    for t, i in enumerate(np.random.default_rng(0).integers(20, size=60), 1):
        loops.pegasos_dense.py_func(
            X, np.array([i]), signs(y), np.ones(20), (X * X).sum(1) + 1, 0.1, 3.0, 1.0, v, u, hits, now
        )
        w = now[0] * v
        total, weight = total + t * w, weight + t
        assert now[3] == pytest.approx(w @ w, rel=1e-9)
    np.testing.assert_allclose((now[1] * v - u) / now[2], total / weight, rtol=1e-9)
