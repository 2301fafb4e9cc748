"""SIMBA against the exact slack-constrained margin, and its bound."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.exceptions import DataError
from widemargin.solvers.base import Budget, Status
from widemargin_papers.solvers import simba


def data(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def best_margin(X, y, nu, u):
    """max gamma: gamma - xi_i - y_i <w, x_i> <= 0, xi >= 0, sum u xi <= nu sum u, |w| <= 1; variables w, xi, gamma."""
    n, d = X.shape
    rows = np.vstack(
        [
            np.hstack([-y[:, None] * X, -np.eye(n), np.ones((n, 1))]),
            np.hstack([np.zeros((n, d)), -np.eye(n), np.zeros((n, 1))]),
            np.hstack([np.zeros(d), u, [0.0]])[None],
            np.zeros((1, d + n + 1)),
            np.hstack([-np.eye(d), np.zeros((d, n + 1))]),
        ]
    )
    right = np.concatenate([np.zeros(2 * n), [nu * u.sum(), 1.0], np.zeros(d)])
    cost = np.zeros(d + n + 1)
    cost[-1] = -1.0
    options = clarabel.DefaultSettings()
    options.verbose = False
    cones = [clarabel.NonnegativeConeT(2 * n + 1), clarabel.SecondOrderConeT(d + 1)]
    P = sp.csc_matrix((d + n + 1, d + n + 1))
    return -clarabel.DefaultSolver(P, cost, sp.csc_matrix(rows), right, cones, options).solve().obj_val


@pytest.mark.parametrize("nu", [0.3, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_approaches_the_exact_margin_from_below_and_the_bound_from_above(nu, weighted):
    X, y = data()
    u = np.random.default_rng(1).integers(0, 3, 60).astype(float) if weighted else np.ones(60)
    best = best_margin(X[u > 0], y[u > 0], nu, u[u > 0])
    few, many = (simba.solve(X, y, nu=nu, weight=u, tol=0.0, max_iter=T) for T in (200, 4000))
    assert few.margin <= best * (1 + 1e-6)
    assert best * 0.96 <= many.margin <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= many.bound <= 1.15 * best
    assert many.gap < few.gap
    assert np.linalg.norm(many.coef) == pytest.approx(1.0 / many.margin, rel=1e-6)


@settings(max_examples=20)
@given(seed=st.integers(0, 999), nu=st.floats(0.0, 2.0))
def test_margin_and_bound_enclose_the_optimum(seed, nu):
    X, y = data(seed, 12, 3)
    best = best_margin(X, y, nu, np.ones(12))
    result = simba.solve(X, y, nu=nu, max_iter=50)
    assert result.margin <= best + 1e-5
    assert result.bound >= best - 1e-5


def test_a_weight_of_two_is_a_row_twice_for_the_slack():
    X, y = data(2, 6)
    run = simba._Run(X, y, np.array([1.0, 0.5, 0.5, 0.5, 0.5, 0.0]), 0.0, 10, 0)
    run._p = np.array([0.3, 0.2, 0.05, 0.25, 0.2, 0.0])
    run._volume = 3.5
    xi = run._slack()  # by p/u: row 3 (0.5), 1 and 4 (0.4), 0 (0.3), 2
    np.testing.assert_allclose(xi, [0.5, 2.0, 0.0, 2.0, 2.0, 0.0])


def test_csr_is_dense_and_the_same_seed_gives_the_same_bits():
    X, y = data(3)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, sparse, again, other = (
        simba.solve(Z, y, nu=0.5, max_iter=300, seed=seed)
        for Z, seed in ((X, 0), (sp.csr_matrix(X), 0), (X, 0), (X, 1))
    )
    np.testing.assert_allclose(sparse.coef, dense.coef, rtol=1e-9)
    np.testing.assert_array_equal(again.coef, dense.coef)
    assert not np.array_equal(other.coef, dense.coef)
    assert dense.reads == 300 * (60 + 4)
    assert sparse.reads < dense.reads
    scaled = simba.solve(10.0 * X, y, nu=5.0, max_iter=300)
    assert scaled.margin == pytest.approx(10.0 * dense.margin, rel=1e-9)


def test_the_ends_of_a_run_and_bad_input():
    X, y = data(4)
    easy = simba.solve(X, y, nu=1.0, tol=0.5)
    assert easy.status is Status.CONVERGED
    assert easy.gap <= 0.5
    assert simba.solve(X, y, nu=1.0, tol=0.0, budget=Budget(seconds=0.0)).status is Status.TIME_LIMIT
    hard = simba.solve(X, -y * np.sign(y), nu=0.0, max_iter=20)  # one class on both sides of 0: no positive margin
    assert hard.status is Status.MAX_ITER
    assert hard.margin <= 0.0
    assert np.isfinite(hard.coef).all()

    def interrupt(told):
        if told.iteration > 10:
            raise KeyboardInterrupt

    cut = simba.solve(X, y, nu=1.0, tol=0.0, budget=Budget(callbacks=(interrupt,)))
    assert (cut.status, cut.margin > -np.inf) == (Status.INTERRUPTED, True)
    zero = simba.solve(np.zeros((5, 2)), y[:5], nu=1.0, max_iter=10)
    assert zero.margin == pytest.approx(1.0)
    for nu in (-1.0, np.nan):
        with pytest.raises(DataError, match="nu="):
            simba.solve(X, y, nu=nu)
    with pytest.raises(DataError, match="none of the 60 rows"):
        simba.solve(X, y, nu=1.0, weight=np.zeros(60))
