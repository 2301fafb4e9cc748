"""The stochastic batch perceptron against the exact slack-constrained optimum and laws of the problem."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from svm_rows import counting_kernel, kernel_problem, noisy_products
from widemargin.exceptions import CapabilityError, DataError, KernelError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.batch_perceptron import nu_form as sbp
from widemargin.solvers.kernel_svm.batch_perceptron.direction import BatchOptions, average
from widemargin.solvers.kernel_svm.batch_perceptron.run import relative_weight
from widemargin.solvers.kernel_svm.batch_perceptron.water_level import divide_and_conquer

BOTH = pytest.mark.parametrize("fit_intercept", [False, True])


def exact(p, nu):
    """Largest margin: the least `|sum p_i y_i phi(x_i)| + nu sum(u) max p_i / u_i` over laws p, by clarabel."""
    n, u, y = p.n_rows, relative_weight(p), p.y
    value, vector = np.linalg.eigh(p.rows.block(slice(None)).astype(float))
    root = (vector * np.sqrt(np.maximum(value, 0.0))).T * y  # |root @ p| is the norm
    sums = [y > 0, y < 0] if p.fit_intercept else [np.ones(n, bool)]
    equal = np.array([np.r_[rows.astype(float), 0, 0] for rows in sums])
    most = np.hstack([np.eye(n), -u[:, None], np.zeros((n, 1))])  # p - s u <= 0
    least = np.hstack([-np.eye(n), np.zeros((n, 2))])
    cone = np.vstack([np.r_[np.zeros(n + 1), -1.0], np.hstack([-root, np.zeros((n, 2))])])
    A = sp.csc_matrix(np.vstack([equal, most, least, cone]))
    b = np.r_[np.full(len(sums), 1.0 / len(sums)), np.zeros(3 * n + 1)]
    cones = [clarabel.ZeroConeT(len(sums)), clarabel.NonnegativeConeT(2 * n), clarabel.SecondOrderConeT(n + 1)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    cost = np.r_[np.zeros(n), nu * u.sum(), 1.0]
    empty = sp.csc_matrix((n + 2, n + 2))
    return clarabel.DefaultSolver(empty, cost, A, b, cones, options).solve().obj_val


def margin_of(p, result, nu):
    """Margin that a solution reaches, from its classifier alone."""
    scores = p.rows.block(slice(None)).astype(float) @ result.coef
    norm = np.sqrt(result.coef @ scores)
    c, u = p.y * (scores + result.intercept) / norm, relative_weight(p)
    rows = np.repeat(c, u.astype(int)) if (u == u.astype(int)).all() else c
    return divide_and_conquer(rows, None, nu * u.sum()).gamma


@BOTH
@pytest.mark.parametrize(("solver", "nu"), [("batch", 0.0), ("batch", 0.03), ("pool", 0.0), ("published", 0.03)])
def test_it_approaches_the_exact_optimum(fit_intercept, nu, solver):
    X, y = noisy_products(0, 80)
    kernel = Kernel("rbf", 3.0)
    p = kernel_problem(X, y, kernel=kernel, fit_intercept=fit_intercept)
    best = exact(p, nu)
    assert best > 0.0
    if solver == "published":
        result, near = sbp.solve_published(p, nu=nu, tol=0.0, max_iter=1500), 0.15
    else:
        pool = {"fresh": 32, "every": 10} if solver == "pool" else {}
        result, near = sbp.solve(p, nu=nu, tol=0.0, max_iter=800, options=BatchOptions(batch=32, **pool)), 0.01
        near = 0.1 if nu == 0.0 else near  # one or two rows a step
    assert best * (1 - near) <= result.margin <= best * (1 + 1e-6)
    assert -result.dual >= best * (1 - 1e-6)
    assert -result.primal == result.margin
    assert margin_of(p, result, nu) >= result.margin * (1 - 1e-6)
    assert result.status is Status.MAX_ITER
    if not fit_intercept:
        assert result.intercept == 0.0


@BOTH
def test_the_bound_is_valid_and_shrinks(fit_intercept):
    X, y = noisy_products(1, 120)
    p = kernel_problem(X, y, fit_intercept=fit_intercept)
    best = exact(p, 0.05)
    result = sbp.solve(p, nu=0.05, tol=0.0, max_iter=800, options=BatchOptions(batch=32))
    upper = np.array([-entry["dual"] for entry in result.history])
    lower = np.array([-entry["primal"] for entry in result.history])
    assert (upper >= best * (1 - 1e-6)).all() and (lower <= best * (1 + 1e-6)).all()
    assert (np.diff(upper) <= 0.0).all()
    assert upper[-1] - lower[-1] < 0.05 * best < 0.3 * (upper[0] - lower[0])
    single = sbp.solve_published(p, nu=0.05, tol=0.0, max_iter=1000)
    first, last = single.history[5], single.history[-1]
    assert -last["dual"] >= best
    assert last["primal"] - last["dual"] < 0.3 * (first["primal"] - first["dual"])


def test_it_stops_at_the_gap_that_was_asked_for():
    X, y = noisy_products(2)
    result = sbp.solve(kernel_problem(X, y), nu=0.05, tol=0.05)
    assert result.status is Status.CONVERGED
    assert 0.0 <= result.gap <= 0.05
    assert result.n_iter < 2000
    tighter = sbp.solve(kernel_problem(X, y), nu=0.05, tol=0.02)
    assert tighter.gap <= 0.02 and tighter.n_iter > result.n_iter


def test_weights_are_repeated_rows():
    X, y = noisy_products(3, 60)
    weight = np.random.default_rng(0).integers(1, 4, 60)
    p = kernel_problem(X, y, weight.astype(float))
    many = np.repeat(np.arange(60), weight)
    assert exact(p, 0.05) == pytest.approx(exact(kernel_problem(X[many], y[many]), 0.05), rel=1e-5)
    result = sbp.solve(p, nu=0.05, tol=0.0, max_iter=600, options=BatchOptions(batch=20))
    assert result.margin == pytest.approx(exact(p, 0.05), rel=0.02)
    with pytest.raises(CapabilityError, match="differ by a factor of 3"):
        sbp.solve_published(p, nu=0.05)


def test_rows_held_out_stop_it_and_are_never_drawn():
    X, y = noisy_products(4, 600)
    upper = np.ones(600)
    upper[::4] = 0.0
    result = sbp.solve(kernel_problem(X, y, upper), nu=0.05, tol=None, options=BatchOptions(batch=32))
    assert result.status is Status.CONVERGED
    assert result.n_iter < 5000
    assert (result.coef[::4] == 0.0).all()
    alone = kernel_problem(X[upper > 0], y[upper > 0])
    assert result.margin <= exact(alone, 0.05)
    assert result.gap < 0.3
    with pytest.raises(CapabilityError, match="there are 0"):
        sbp.solve(alone, nu=0.05, tol=None)


@pytest.mark.parametrize("solver", [sbp.solve, sbp.solve_published])
def test_evaluations_are_those_of_an_instrumented_kernel(solver):
    X, y = noisy_products(5, 60)
    kernel, calls = counting_kernel()
    result = solver(kernel_problem(X, y, kernel=kernel), nu=0.05, tol=0.0, max_iter=30)
    assert result.evaluations == sum(calls)
    if solver is sbp.solve_published:
        assert result.evaluations == 60 + 30 * 60  # the diagonal, and a row a step
    else:
        assert result.evaluations <= 60 + 60 * 60
    assert [entry["evaluations"] for entry in result.history] == sorted(e["evaluations"] for e in result.history)


def test_a_small_cache_costs_evaluations_only():
    X, y = noisy_products(6, 100)
    large = sbp.solve(kernel_problem(X, y), nu=0.05, tol=0.0, max_iter=200, options=BatchOptions(batch=10))
    small = sbp.solve(
        kernel_problem(X, y, cache_size=12 * 100 * 8 / MEGABYTE),
        nu=0.05,
        tol=0.0,
        max_iter=200,
        options=BatchOptions(batch=10),
    )
    np.testing.assert_allclose(small.coef, large.coef, rtol=1e-6, atol=1e-9)
    assert small.evaluations > 2 * large.evaluations
    with pytest.raises(KernelError, match="cannot hold one row"):
        kernel_problem(X, y, cache_size=99 * 8 / MEGABYTE)
    for rows in (1, 2):
        tiny = kernel_problem(X, y, cache_size=(rows * 100 * 8 + 8) / MEGABYTE)
        assert sbp.solve(tiny, nu=0.05, tol=0.0, max_iter=50).margin > 0.0


def test_an_indefinite_kernel_is_named():
    X, y = noisy_products(7, 60)
    with pytest.raises(KernelError, match="not positive semi-definite"):
        sbp.solve(kernel_problem(X, y, kernel=Kernel("sigmoid", 1.0, 3, -1.0)), nu=0.05)
    K = np.eye(4) - 1.0  # the mean of the rows has a squared norm of -3/4, and K(x, x) = 0
    K = K + np.eye(4) * 0.5  # now -5/8, and K(x, x) = 1/2
    with pytest.raises(KernelError, match=r"came out as -0\.625"):
        sbp.solve(kernel_problem(K, np.ones(4), kernel=Kernel("precomputed"), fit_intercept=False), nu=0.5)
    with pytest.raises(KernelError, match="came out as -1:"):
        sbp.solve(kernel_problem(-np.eye(4), np.ones(4), kernel=Kernel("precomputed"), fit_intercept=False), nu=0.5)


def test_rows_of_norm_zero():
    y = np.where(np.arange(20) % 4 == 0, 1.0, -1.0)
    none = sbp.solve(kernel_problem(np.zeros((20, 2)), y, kernel=Kernel("linear")), nu=0.05)
    assert (none.coef == 0.0).all()
    assert none.status is Status.CONVERGED
    X, y = noisy_products(8, 60)
    X[::10] = 0.0
    p = kernel_problem(X, y, kernel=Kernel("poly", 1.0, 2))
    result = sbp.solve(p, nu=0.2, tol=0.0, max_iter=1000)
    assert result.margin == pytest.approx(exact(p, 0.2), rel=0.02)


def test_where_no_margin_is_positive_the_direction_is_kept():
    X = np.array([[1.0], [1.0], [-1.0], [2.0]])
    y = np.array([1.0, -1.0, 1.0, -1.0])
    result = sbp.solve(kernel_problem(X, y, kernel=Kernel("linear")), nu=0.0, max_iter=50)
    assert result.margin <= 0.0
    assert np.isfinite(result.coef).all()
    assert result.status is Status.MAX_ITER


def test_bad_input_is_refused():
    X, y = noisy_products(9, 30)
    for nu in (-1.0, np.nan, np.inf):
        with pytest.raises(DataError, match="must be a finite number >= 0"):
            sbp.solve(kernel_problem(X, y), nu=nu)
    with pytest.raises(DataError, match="30 positive and 0 negative"):
        sbp.solve(kernel_problem(X, np.ones(30)), nu=0.1)
    assert sbp.solve(kernel_problem(X, np.ones(30), fit_intercept=False), nu=0.1).margin > 0.0


@BOTH
def test_float32_and_csr_come_near(fit_intercept):
    X, y = noisy_products(10)
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    double, single, sparse = (
        sbp.solve(
            kernel_problem(Z, y, fit_intercept=fit_intercept),
            nu=0.05,
            tol=0.0,
            max_iter=300,
            options=BatchOptions(batch=32),
        )
        for Z in (X, X.astype(np.float32), sp.csr_matrix(X))
    )
    assert single.margin == pytest.approx(double.margin, rel=0.02)
    assert sparse.evaluations == pytest.approx(double.evaluations, rel=0.05)
    assert sparse.margin == pytest.approx(double.margin, rel=0.02)


@pytest.mark.parametrize("solver", [sbp.solve, sbp.solve_published])
def test_the_same_seed_gives_the_same_bits(solver):
    X, y = noisy_products(11, 600)
    first, again, other = (solver(kernel_problem(X, y), nu=0.05, max_iter=60, tol=0.0, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.coef, again.coef)
    assert first.history[-1]["primal"] == again.history[-1]["primal"]
    assert (first.coef != other.coef).any()


def test_a_start_is_used():
    X, y = noisy_products(12)
    good = sbp.solve(kernel_problem(X, y), nu=0.05, tol=0.0, max_iter=600)
    cold = sbp.solve(kernel_problem(X, y), nu=0.05, tol=0.0, max_iter=5, options=BatchOptions(batch=32))
    warm = sbp.solve(
        kernel_problem(X, y), nu=0.05, tol=0.0, max_iter=5, options=BatchOptions(batch=32), start=good.coef
    )
    assert cold.margin < warm.margin
    assert warm.margin == pytest.approx(good.margin, rel=0.05)


def test_the_average_by_late_weights_is_better_than_the_plain_one():
    X, y = noisy_products(13)
    plain, late = (
        sbp.solve(
            kernel_problem(X, y), nu=0.05, tol=0.0, max_iter=300, options=BatchOptions(batch=16, power=power)
        ).margin
        for power in (0, 3)
    )
    assert plain < late


def test_time_callbacks_and_the_keyboard_stop_it_with_a_certificate():
    X, y = noisy_products(14)
    told = []

    def stop(progress):
        told.append(progress.objective)
        return progress.iteration >= 50

    def interrupt(progress):
        if progress.iteration >= 50:
            raise KeyboardInterrupt

    stopped = sbp.solve(kernel_problem(X, y), nu=0.05, tol=0.0, budget=Budget(callbacks=(stop,)))
    assert stopped.status is Status.STOPPED and 50 <= stopped.n_iter < 80
    assert told[-1] < told[0]
    cut = sbp.solve(kernel_problem(X, y), nu=0.05, tol=0.0, budget=Budget(callbacks=(interrupt,)))
    assert cut.status is Status.INTERRUPTED
    best = exact(kernel_problem(X, y), 0.05)
    for result in (stopped, cut):
        assert 0.0 < result.margin <= best * (1 + 1e-6) <= -result.dual * (1 + 2e-6)
    assert sbp.solve(kernel_problem(X, y), nu=0.05, budget=Budget(seconds=0.0)).status is Status.TIME_LIMIT


def test_hundreds_of_foldings_do_not_spoil_the_scale():
    X, _ = noisy_products(15, 40)
    p = kernel_problem(X, np.ones(40), kernel=Kernel("rbf", 0.001), fit_intercept=False)  # rows alike: it falls fast
    result = sbp.solve_published(p, nu=0.1, tol=0.0, max_iter=500)
    assert result.margin == pytest.approx(exact(p, 0.1), rel=2e-3)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.0, 0.01, 0.3]))
def test_any_small_problem_has_valid_bounds(seed, fit_intercept, nu):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 25))
    X = rng.integers(-2, 3, (n, 2)).astype(float)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    p = kernel_problem(X, y, rng.uniform(0.2, 3.0, n), fit_intercept=fit_intercept)
    result = sbp.solve(p, nu=nu, max_iter=100, options=BatchOptions(batch=int(rng.integers(1, 30))), seed=seed)
    best = exact(p, nu)
    assert result.margin <= best + 1e-5
    assert best - 1e-5 <= -result.dual


def test_compiled_loop_is_its_python():
    mean, value = np.arange(4.0), np.array([1.0, 5.0, -2.0, 0.0])
    twin = mean.copy()
    average(mean, value, 0.5, 0.25)
    average.py_func(twin, value, 0.5, 0.25)
    np.testing.assert_array_equal(mean, twin)
    np.testing.assert_allclose(mean, 0.75 * np.arange(4.0) + 0.125 * value)
