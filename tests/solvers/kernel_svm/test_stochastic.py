"""What Pegasos, SGD in a norm ball and the Perceptron share: laws of the run, and the compiled steps."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from testing.kernel_svms import RBF, Counting, data, problem

from widemargin.exceptions import CapabilityError
from widemargin.kernels.functions import Kernel
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm import perceptron
from widemargin.solvers.kernel_svm import stochastic as kernel_sgd
from widemargin.solvers.kernel_svm.problem import responses
from widemargin_papers.solvers import kernel_pegasos, norm_ball_sgd
from widemargin_papers.solvers import kernel_sdca as sdca

SOLVERS = {
    "pegasos": kernel_pegasos.solve,
    "pegasos, projected": partial(kernel_pegasos.solve, project=True, average=False),
    "ball": norm_ball_sgd.solve,
    "ball, last": partial(norm_ball_sgd.solve, radius=2.0, average=False),
    "perceptron": perceptron.solve,
    "perceptron, last": partial(perceptron.solve, iterate="last", max_iter=3),
    "perceptron, drawn": partial(perceptron.solve, iterate="drawn", max_iter=3),
}
every = pytest.mark.parametrize("solve", SOLVERS.values(), ids=SOLVERS)
free = partial(problem, fit_intercept=False)


@every
def test_primal_is_that_of_the_coefficients_and_the_dual_is_below_it(solve):
    X, y = data(1, 200)
    p = free(X, y, np.random.default_rng(0).uniform(0.5, 2.0, 200))
    result = solve(p)
    scores = responses(p.rows, result.coef)
    hinge = p.upper @ np.maximum(0.0, 1.0 - y * scores)
    square = 0.0 if "ball" in result.history[0] else float(result.coef @ scores)
    assert result.primal == pytest.approx(hinge, rel=1e-9) or result.primal == pytest.approx(hinge + 0.5 * square)
    assert result.dual < result.primal
    assert result.intercept == 0.0


@every
def test_the_rows_fetched_ahead_change_no_step_and_evaluations_are_counted(solve):
    X, y = data(2, 150)
    results, functions = [], []
    for ahead in (1, 5, 64):
        functions.append(Counting())
        kernel = Kernel("callable", function=functions[-1])
        results.append(solve(free(X, y, kernel=kernel), ahead=ahead))
    for result, function in zip(results, functions, strict=True):
        np.testing.assert_allclose(result.history[-1]["primal"], results[0].history[-1]["primal"], rtol=1e-9)
        assert result.evaluations == function.count
    assert results[0].evaluations <= results[2].evaluations
    assert results[0].n_iter == results[1].n_iter == results[2].n_iter


@every
def test_the_same_seed_gives_the_same_bits_and_another_one_others(solve):
    X, y = data(3, 150)
    one, two, other = (solve(free(X, y), seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.coef, two.coef)
    assert not np.array_equal(one.coef, other.coef)


@every
def test_csr_is_dense_and_float32_comes_near(solve):
    X, y = data(4, 150)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, sparse, single = (solve(free(Z, y)) for Z in (X, sp.csr_matrix(X), X.astype(np.float32)))
    np.testing.assert_allclose(sparse.coef, dense.coef, atol=1e-9)
    assert single.primal == pytest.approx(dense.primal, rel=1e-3)


@every
def test_rows_held_out_do_not_move_and_their_error_is_in_the_history(solve):
    X, y = data(5, 400)
    C = np.where(np.arange(400) % 3 == 0, 0.0, 1.0)
    p = free(X, y, C)
    result = solve(p)
    assert (result.coef[C == 0.0] == 0.0).all()
    assert np.count_nonzero(result.coef) > 20
    alone = solve(free(X[C > 0.0], y[C > 0.0]))
    assert result.n_iter == alone.n_iter
    scores = responses(p.rows, result.coef)
    errors = [entry["held_out_error"] for entry in result.history]
    assert np.isclose(errors, (y * scores <= 0)[C == 0.0].mean(), atol=1e-9).any()


@every
def test_the_hold_out_rule_returns_the_iterate_of_least_error(solve):
    X, y = data(6, 900)
    C = np.where(np.arange(900) % 3 == 0, 0.0, 1.0)
    p = free(X, y, C)
    result = solve(p, tol=None, max_iter=30)
    scores = responses(p.rows, result.coef)
    error = (y * scores <= 0)[C == 0.0].mean()
    assert error == pytest.approx(min(entry["held_out_error"] for entry in result.history), abs=1e-9)
    assert result.status is Status.CONVERGED or result.n_iter == 30 * 600
    with pytest.raises(CapabilityError, match="hold some out"):
        solve(free(X, y), tol=None)


@every
def test_a_bias_is_refused_with_the_cure(solve):
    with pytest.raises(CapabilityError, match="fit_intercept=False"):
        solve(problem(*data(7, 30)))


@every
def test_one_class_zero_norms_and_no_rows_that_count(solve):
    X, y = data(8, 40)
    one = solve(free(X, np.ones(40)))
    assert (responses(free(X, y).rows, one.coef) > 0.0).all()
    zero = solve(free(np.zeros((40, 2)), y, kernel=Kernel("linear")))
    assert zero.primal == pytest.approx(40.0)
    nothing = solve(free(X, y, np.zeros(40)))
    assert (nothing.coef == 0.0).all()


@every
def test_time_callbacks_and_the_keyboard_stop_it(solve):
    X, y = data(9, 300)
    assert solve(free(X, y), budget=Budget(seconds=0.0)).status is Status.TIME_LIMIT
    stopped = solve(free(X, y), budget=Budget(callbacks=(lambda told: told.iteration >= 30,)))
    assert stopped.status is Status.STOPPED
    assert stopped.n_iter < 200

    def interrupt(told):
        if told.iteration > 40:
            raise KeyboardInterrupt

    cut = solve(free(X, y), budget=Budget(callbacks=(interrupt,)))
    assert cut.status is Status.INTERRUPTED
    assert np.count_nonzero(cut.coef) > 0
    assert cut.primal >= cut.dual


@every
def test_a_start_is_where_it_begins(solve):
    X, y = data(10, 300)
    good = kernel_pegasos.solve(free(X, y), max_iter=30)
    first = solve(free(X, y), start=good.coef).history[0]["primal"]
    assert first < solve(free(X, y)).history[0]["primal"]


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["pegasos", "norm_ball", "perceptron", "coordinate_ascent"])
def test_compiled_steps_are_their_python(name, kind, averaged):
    X, y = data(11, 30)
    K = problem(X.astype(kind), y).rows.full()
    draws = np.random.default_rng(0).integers(30, size=60)
    place = np.where(np.arange(30) == draws[0], -1, np.arange(30))  # one row is not at hand
    middle = {
        "pegasos": (K.diagonal().astype(float), 0.05, 3.0, averaged),
        "norm_ball": (K.diagonal().astype(float), 2.0, 1.0, averaged),  # scale falls below the limit of fold
        "perceptron": (np.linspace(0.5, 2.0, 30), averaged),
        "coordinate_ascent": (K.diagonal().astype(float), np.minimum(y, 0.0), np.maximum(y, 0.0)),
    }[name]
    ends = []
    module = {"pegasos": kernel_pegasos, "norm_ball": norm_ball_sgd, "perceptron": perceptron}.get(name, sdca)
    for function in (getattr(module, name), getattr(module, name).py_func):
        state = [np.zeros(30) for _ in range(4)] + [np.array([1.0, 0.0, 0.0, 0.0, 0.0])]
        state = state[:2] if name == "coordinate_ascent" else state
        stops = [function(draws, 0, 60, place, K, y, *middle, *state)]
        stops.append(function(draws, stops[0], 60, np.arange(30), K, y, *middle, *state))
        ends.append((np.array(stops), *state))
    assert 0 == ends[0][0][0] < ends[0][0][1] == 60
    assert np.count_nonzero(ends[0][1]) > 5
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_draws_follow_the_weights():
    X, y = data(12, 4)
    p = free(X, y, np.array([0.0, 1.0, 3.0, 0.0]))
    rng = np.random.default_rng(0)
    counts = sum(np.bincount(kernel_pegasos.drawn(p, rng), minlength=4) for _ in range(2000))
    assert counts[[0, 3]].sum() == 0
    assert counts[2] / counts.sum() == pytest.approx(0.75, abs=0.03)
    assert sorted(kernel_sgd.passes(p, rng)) == [1, 2]


def test_the_bound_of_a_multiple_is_the_best_feasible_one():
    X, y = data(13, 20)
    p = free(X, y, np.linspace(0.5, 1.0, 20))
    a = np.random.default_rng(1).uniform(0.0, 3.0, 20)
    scores = RBF_matrix(X) @ (y * a)
    point = kernel_sgd.Point(y * a, scores, float(y * a @ scores))
    most = (p.upper / a).min()
    shares = np.linspace(0.0, most, 2001)
    best = (shares * a.sum() - 0.5 * shares**2 * point.square).max()
    assert kernel_sgd.judge_svm(p, point)["dual"] == pytest.approx(best, rel=1e-6)
    negative = kernel_sgd.Point(-y * a, -scores, point.square)
    assert kernel_sgd.judge_svm(p, negative)["dual"] == 0.0


def RBF_matrix(X):
    return np.exp(-RBF.gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
