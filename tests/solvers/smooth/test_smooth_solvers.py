"""L-BFGS, gradient descent and stochastic steps of margin pursuit: the exact optimum, certificates, budgets."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from testing.margin_problems import exact, problem, task

from widemargin.exceptions import CapabilityError
from widemargin.losses.margin import CatoniLoss, LogCoshLoss
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.smooth import lbfgs, margin_sgd
from widemargin.solvers.smooth import margin_sgd as loops
from widemargin_papers.solvers import gradient_descent

SOLVERS = {"lbfgs": lbfgs.solve, "gd": gradient_descent.solve, "sgd": margin_sgd.solve}


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("made", [CatoniLoss, LogCoshLoss])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_lbfgs_reaches_the_exact_optimum(scale, made, fit_intercept):
    """What is asked for: within 1e-8 relative of an exact convex reference."""
    X, y = task()
    given = problem(X, y, loss=made(1.0, scale), fit_intercept=fit_intercept)
    point, least = exact(given)
    found = lbfgs.solve(given, tol=1e-8)
    assert found.status is Status.CONVERGED
    assert -1e-12 <= found.value - least <= 1e-8 * least
    assert found.gap <= 1e-8
    np.testing.assert_allclose(found.point, point, atol=1e-3)


@given(seed=st.integers(0, 40), lam=st.floats(1e-4, 1.0), scale=st.floats(0.2, 5.0))
def test_lbfgs_on_random_problems(seed, lam, scale):
    X, y = task(n=50, d=4, seed=seed, sparse=seed % 2 == 1)
    given = problem(X, y, lam=lam, loss=CatoniLoss(1.0, scale), weight=1.0 + np.arange(50) % 3)
    found = lbfgs.solve(given, tol=1e-8)
    assert found.value - exact(given)[1] <= 1e-8 * found.value
    assert found.gap <= 1e-8


def test_lbfgs_without_the_matrix_of_curvatures(monkeypatch):
    X, y = task()
    given = problem(X, y)
    expected = lbfgs.solve(given, tol=1e-8)
    monkeypatch.setattr(type(given), "curvature", lambda self: None)
    found = lbfgs.solve(given, tol=1e-8)
    assert found.status is Status.CONVERGED
    assert found.value == pytest.approx(expected.value, rel=1e-7)
    assert found.n_iter > expected.n_iter


def test_lbfgs_takes_the_matrix_after_all_where_many_steps_were_not_enough():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5)) @ rng.normal(size=(5, 450)) + 0.3 * rng.normal(size=(500, 450))
    y = np.where(X[:, 0] + rng.normal(size=500) > 0.0, 1.0, -1.0)

    def solved(patience, max_iter):  # the matrix is kept by a problem, and then there from the start
        return lbfgs.solve(problem(X, y, lam=1e-3), patience=patience, max_iter=max_iter)

    assert problem(X, y).curvature() is None
    found = solved(100, 300)
    assert found.status is Status.CONVERGED and 100 < found.n_iter < 250 and found.gap <= 1e-6
    assert solved(300, 300).gap > 1e3 * found.gap
    assert solved(100, 100).n_iter == 100


def test_lbfgs_without_a_regulariser():
    X, y = task()
    given = problem(X, y, lam=0.0)
    found = lbfgs.solve(given, tol=1e-8)
    assert found.status is Status.CONVERGED and np.isnan(found.gap)
    assert found.value == pytest.approx(exact(given)[1], rel=1e-8)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_gradient_descent_is_algorithm_1(fit_intercept):
    X, y = task()
    given = problem(X, y, fit_intercept=fit_intercept)
    two = gradient_descent.solve(given, max_iter=2, step=0.1)
    point = np.zeros(given.n_unknowns)
    for _ in range(2):
        point = point - 0.1 * given.value_gradient(point)[1]
    np.testing.assert_allclose(two.point[:6], point[:6], rtol=1e-14)  # the bias is the best one for them
    assert two.status is Status.MAX_ITER and two.n_iter == 2
    found = gradient_descent.solve(given, tol=1e-8)
    assert found.status is Status.CONVERGED
    assert found.value - exact(given)[1] <= 1e-8 * found.value
    values = [entry["value"] for entry in found.history]
    assert (np.diff(values) <= 1e-15).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stochastic_steps_are_those_of_the_formula(sparse, average, dtype):
    X, y = task(sparse=sparse, dtype=dtype)
    given = problem(X, y, lam=0.05, fit_intercept=False)
    found = margin_sgd.solve(given, max_iter=1, average=average, seed=3)
    dense = np.asarray(X.toarray() if sparse else X, dtype=np.float64)
    w, total, weight = np.zeros(6), np.zeros(6), 0.0
    for t, i in enumerate(np.random.default_rng((3, 0)).integers(0, 120, 120), start=1):
        margin = y[i] * dense[i] @ w
        w = (1 - 1 / t) * w - float(given.loss.slope(margin)) * y[i] * dense[i] / (0.05 * t)
        w *= min(1.0, given.radius() / max(np.linalg.norm(w), 1e-300))
        total, weight = total + t * w, weight + t
    atol = 2e-5 if dtype is np.float32 else 1e-10  # squared norms of rows are in single precision there
    np.testing.assert_allclose(found.point, total / weight if average else w, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_stochastic_steps_approach_the_optimum_and_can_go_on(fit_intercept):
    X, y = task()
    given = problem(X, y, lam=0.1, fit_intercept=fit_intercept)
    least = exact(given)[1]
    found = margin_sgd.solve(given, max_iter=400, average=True)
    assert least - 1e-12 <= found.value <= 1.003 * least
    assert found.gap * found.value >= found.value - least
    first = margin_sgd.solve(given, max_iter=20)
    second = margin_sgd.solve(given, max_iter=20, start=first.point, steps=20 * 120)
    assert second.value < first.value * 1.05
    assert second.value <= 1.05 * least
    weighted = problem(X, y, lam=0.1, fit_intercept=fit_intercept, weight=np.arange(120) % 4)
    found = margin_sgd.solve(weighted, max_iter=400, average=True)
    assert found.value <= 1.005 * exact(weighted)[1]


def test_same_seed_same_bits_and_sparse_equals_dense():
    X, y = task(sparse=True)
    one, two = (margin_sgd.solve(problem(X, y), max_iter=3, seed=5).point for _ in range(2))
    np.testing.assert_array_equal(one, two)
    dense = margin_sgd.solve(problem(X.toarray(), y), max_iter=3, seed=5).point
    np.testing.assert_allclose(one, dense, rtol=1e-8)
    assert not np.array_equal(one, margin_sgd.solve(problem(X, y), max_iter=3, seed=6).point)
    for solve in (lbfgs.solve, gradient_descent.solve):
        np.testing.assert_array_equal(solve(problem(X, y)).point, solve(problem(X, y)).point)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_compiled_passes_equal_their_python_source(sparse, average, monkeypatch):
    X, y = task(n=30, sparse=sparse)
    draws = np.random.default_rng(0).integers(0, 30, 60)
    ends = []
    for plain in (False, True):
        if plain:
            for name in ("advance", "fold", "psi"):
                monkeypatch.setattr(loops, name, getattr(loops, name).py_func)
        v, u, now, pulls = np.zeros(6), np.zeros(6), np.zeros(5), np.zeros(30)
        now[loops.SCALE] = 1.0
        # Of the type that the solver gives: for others the loops would be compiled once more.
        rows = (X.data, X.indices.astype(np.uint32), X.indptr.astype(np.uint32)) if sp.issparse(X) else (X,)
        run = loops.csr_pass if sparse else loops.dense_pass
        norms2 = np.asarray(X.multiply(X).sum(axis=1)).ravel() if sparse else (X**2).sum(axis=1)
        run = run.py_func if plain else run
        terms, iterate = loops.Terms(0, 1.0, 0.5, 0.1, 1.0, 0.2), loops.Iterate(v, u, pulls, now, average)
        run(draws, *rows, y, norms2, terms, iterate)
        assert now[loops.SCALE] ** 2 * (v @ v) == pytest.approx(now[loops.SQUARE], rel=1e-9)
        assert now[loops.SQUARE] <= 1.0 + 1e-12
        assert pulls.any() == average
        ends.append((v, u, now, pulls))
    for one, two in zip(*ends, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_average_is_that_of_the_iterates(sparse, monkeypatch):
    """Also through the steps at which the scale is made 1 again."""
    X, y = task(n=20, sparse=sparse)
    monkeypatch.setattr(loops, "SMALL", 0.5)
    for name in ("advance", "fold", "psi"):
        monkeypatch.setattr(loops, name, getattr(loops, name).py_func)
    rows = (X.data, X.indices, X.indptr) if sparse else (X,)
    dense = X.toarray() if sparse else X
    run, norms2 = (loops.csr_pass if sparse else loops.dense_pass).py_func, (dense**2).sum(axis=1)
    v, u, pulls, now = np.zeros(6), np.zeros(6), np.zeros(20), np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    total, weight = np.zeros(6), 0.0
    for t, i in enumerate(np.random.default_rng(0).integers(20, size=60), start=1):
        terms, iterate = loops.Terms(0, 1.0, 0.5, 0.1, 1.0, 0.2), loops.Iterate(v, u, pulls, now, True)
        run(np.array([i]), *rows, y, norms2, terms, iterate)
        assert now[loops.STEPS] == t and now[loops.SCALE] > 0.25
        total, weight = total + t * now[loops.SCALE] * v, weight + t
    found = (now[loops.TOTAL] * v - u - dense.T @ pulls) / now[loops.WEIGHT]
    np.testing.assert_allclose(found, total / weight, rtol=1e-9)


@pytest.mark.parametrize("name", SOLVERS)
def test_budgets_callbacks_and_interrupts(name):
    X, y = task()
    solve = partial(SOLVERS[name], problem(X, y, lam=1e-4), tol=1e-15)
    seen = []
    stopped = solve(budget=Budget(callbacks=(lambda progress: seen.append(progress) or len(seen) == 2,)))
    assert stopped.status is Status.STOPPED and len(seen) == 2
    assert {progress.stage for progress in seen} == {name}
    assert solve(budget=Budget(seconds=0.0)).status is Status.TIME_LIMIT

    def interrupt(progress):
        raise KeyboardInterrupt

    budget = Budget(callbacks=(interrupt,))
    result = solve(budget=budget)
    assert result.status is Status.INTERRUPTED and budget.interrupted
    assert np.isfinite(result.point).all()
    assert solve(max_iter=2).status is Status.MAX_ITER


@pytest.mark.parametrize("name", SOLVERS)
def test_history_and_cost_are_counted(name):
    X, y = task()
    found = SOLVERS[name](problem(X, y, lam=0.1), max_iter=4, tol=1e-12)
    costs = [entry["gradients"] for entry in found.history]
    assert costs == sorted(costs) and costs[0] >= 120 and found.n_gradients >= costs[-1]
    assert {"iteration", "gradients", "seconds", "value", "gap"} <= set(found.history[0])
    assert found.history[-1]["value"] == pytest.approx(found.value, rel=0.05)


def test_stochastic_steps_need_a_regulariser():
    X, y = task()
    with pytest.raises(CapabilityError, match="finite C"):
        margin_sgd.solve(problem(X, y, lam=0.0))
