"""Dual coordinate ascent on kernel rows against clarabel, SMO and laws of the problem."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.kernel_svms import Counting, data, exact, problem

from widemargin.exceptions import CapabilityError, KernelError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE
from widemargin.solvers.base import Budget, Status
from widemargin_papers.solvers import kernel_sdca


def free(X, y, *rest, **options):
    return problem(X, y, *rest, fit_intercept=False, **options)


@pytest.mark.parametrize("C", [0.3, 30.0])
def test_the_exact_optimum(C):
    X, y = data(1, 120)
    result = kernel_sdca.solve(free(X, y, C), tol=1e-6, max_iter=100_000)
    best = exact(free(X, y, C))
    assert result.status is Status.CONVERGED
    assert result.violation <= 1e-6
    assert result.dual == pytest.approx(best, rel=1e-6)
    assert result.primal == pytest.approx(best, rel=1e-5)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_any_small_problem_is_solved(seed, ahead):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    X, y = rng.integers(-2, 3, (n, 2)).astype(float), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    p = free(X, y, rng.uniform(0.1, 3, n) ** 2 * (rng.random(n) < 0.8))
    result = kernel_sdca.solve(p, tol=1e-5, max_iter=20_000, ahead=ahead)
    lower, upper = p.bounds
    assert result.status is Status.CONVERGED
    assert ((result.coef >= lower) & (result.coef <= upper)).all()
    assert result.primal - result.dual <= 1e-5 * (p.upper.sum() + 1.0)


def test_a_weight_of_two_is_a_row_twice():
    X, y = data(2, 60)
    weight = np.random.default_rng(0).integers(1, 4, 60)
    many = np.repeat(np.arange(60), weight)
    once, twice = (
        kernel_sdca.solve(p, tol=1e-7, max_iter=50_000) for p in (free(X, y, weight * 1.0), free(X[many], y[many]))
    )
    assert once.dual == pytest.approx(twice.dual, rel=1e-7)


def test_the_dual_never_falls_and_evaluations_are_counted():
    function = Counting()
    X, y = data(3, 100)
    kernel = Kernel("callable", function=function)
    result = kernel_sdca.solve(free(X, y, 5.0, kernel, cache_size=20 * 100 * 8 / MEGABYTE))
    assert result.evaluations == function.count
    assert np.all(np.diff([entry["dual"] for entry in result.history]) > -1e-9)
    assert min(entry["primal"] for entry in result.history) >= result.dual


@pytest.mark.parametrize("C", [0.7, 5.0])
def test_it_is_the_plain_ascent_and_only_rows_that_move_are_evaluated(C):
    n, passes = 90, 3
    X, y = data(9, n)
    function = Counting()
    p = free(X, y, C, Kernel("callable", function=function), cache_size=1.01 * n * 8 / MEGABYTE)  # one row
    result = kernel_sdca.solve(p, tol=1e-9, max_iter=passes, seed=3)
    K = free(X, y, C, Kernel("callable", function=Counting())).rows.block(slice(None))
    lower, upper = p.bounds
    rng, coef, moved, before, iterates = np.random.default_rng(3), np.zeros(n), 0, -1, []
    for i in np.concatenate([rng.permutation(n) for _ in range(passes)]):
        best = np.clip(coef[i] + (y[i] - K[i] @ coef) / K[i, i], lower[i], upper[i])
        if best != coef[i]:
            moved += i != before  # the row just used is still there
            before, coef[i] = i, best
        iterates.append(coef.copy())
    assert result.n_iter == passes * n
    assert function.count == result.evaluations == (moved + 1) * n  # and K(x, x) of all
    assert min(np.abs(result.coef - other).max() for other in iterates) < 1e-12  # the best one looked at
    assert result.dual <= y @ coef - 0.5 * coef @ K @ coef + 1e-9


class Asked:
    """The Gaussian kernel of all columns but the first, which numbers the rows; it keeps which ones are asked for."""

    def __init__(self):
        self.calls = []

    def __call__(self, X, Y):
        if Y.shape[0] > 1:  # a block, not K(x, x)
            self.calls.append(X[:, 0].astype(int).tolist())
        return np.exp(-((X[:, None, 1:] - Y[None, :, 1:]) ** 2).sum(axis=2))


def numbered(X, y, C):
    """A problem whose kernel tells what it is asked for, with room for 20 rows."""
    n = y.shape[0]
    asked = Asked()
    kernel = Kernel("callable", function=asked)
    return free(np.c_[np.arange(n), X], y, C, kernel, cache_size=20.0 * n * 8 / MEGABYTE), asked


def test_only_rows_that_will_move_are_fetched_and_several_together():
    X, y = data(9, 90)
    p, _ = numbered(X, y, 0.3)
    best = kernel_sdca.solve(p, tol=1e-9, max_iter=10_000).coef
    lower, upper = p.bounds
    inside = np.flatnonzero((best > lower) & (best < upper))
    p, asked = numbered(X, y, 0.3)
    kernel_sdca.solve(p, tol=1e-9, max_iter=3, start=np.where((best > lower) & (best < upper), 0.9 * best, best))
    start, *fetched = asked.calls
    assert len(start) == np.count_nonzero(best)
    assert sorted(row for rows in fetched for row in rows) == inside.tolist()  # the others stay at their bounds
    assert len(fetched[0]) > 1 and len(fetched) < len(inside)


def test_rows_at_their_optimum_are_not_fetched():
    y = np.where(np.arange(20) % 3 == 0, 1.0, -1.0)
    p = free(np.eye(20), y, 2.0, Kernel("linear"))  # K = I: coef = y, and every slope is exactly 0
    before = p.rows.evaluations
    result = kernel_sdca.solve(p, start=y)
    start = 20 + 20 * 20  # K(x, x), and the scores of the start
    assert result.evaluations - before == start
    np.testing.assert_array_equal(result.coef, y)


def test_looks_end_the_run_at_the_row_that_was_visited():
    X, y = data(8, 300)
    result = kernel_sdca.solve(free(X, y), tol=1e-2)
    *before, last = result.history
    assert last["iteration"] == result.n_iter and last["violation"] <= 1e-2
    assert all(entry["violation"] > 1e-2 for entry in before)
    assert last["primal"] == pytest.approx(result.primal, rel=1e-12)
    equal = kernel_sdca.solve(free(X, y), tol=last["violation"])
    assert equal.n_iter == result.n_iter  # at most the tolerance is enough
    short = kernel_sdca.solve(free(X, y), tol=1e-9, max_iter=1)
    assert short.history[-1]["iteration"] == short.n_iter == 300
    stopped = kernel_sdca.solve(free(X, y), tol=1e-9, budget=Budget(callbacks=(lambda told: told.iteration >= 20,)))
    assert 20 <= stopped.n_iter < 100


def test_csr_float32_seeds_and_starts():
    X, y = data(4, 200)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, sparse, single = (kernel_sdca.solve(free(Z, y)) for Z in (X, sp.csr_matrix(X), X.astype(np.float32)))
    assert sparse.dual == pytest.approx(dense.dual, rel=1e-6)
    assert single.dual == pytest.approx(dense.dual, rel=1e-4)
    np.testing.assert_array_equal(kernel_sdca.solve(free(X, y)).coef, dense.coef)
    assert not np.array_equal(kernel_sdca.solve(free(X, y), seed=1).coef, dense.coef)
    again = kernel_sdca.solve(free(X, y), tol=2e-3, start=dense.coef)
    assert again.dual == pytest.approx(dense.dual, rel=1e-4)
    assert again.n_iter <= 200


def test_negative_norms_are_named():
    X, y = data(5, 50)
    with pytest.raises(KernelError, match=r"K\(x, x\) = -"):
        kernel_sdca.solve(free(X, y, kernel=Kernel("sigmoid", 1.0, 3, -1.0)))
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    for scale in (1.0, 1e-20):
        with pytest.raises(KernelError, match="squared norm came out as -"):
            kernel_sdca.solve(free(scale * K, np.array([1.0, -1.0]), 10.0, Kernel("precomputed")))


def test_zero_norms_go_to_their_bounds_and_one_class_is_solved():
    X, y = data(6, 40)
    zero = kernel_sdca.solve(free(np.zeros((40, 2)), y, 0.5, Kernel("linear")))
    np.testing.assert_array_equal(zero.coef, 0.5 * y)
    assert zero.primal == zero.dual == 20.0
    one = kernel_sdca.solve(free(X, np.ones(40)), tol=1e-5)
    assert one.dual == pytest.approx(exact(free(X, np.ones(40))), rel=1e-4)


def test_a_bias_is_refused():
    with pytest.raises(CapabilityError, match="fit_intercept=False"):
        kernel_sdca.solve(problem(*data(7, 30)))


def test_rows_held_out_and_the_ends_of_a_run():
    X, y = data(8, 600)
    C = np.where(np.arange(600) % 3 == 0, 0.0, 10.0)
    result = kernel_sdca.solve(free(X, y, C), tol=None)
    assert result.status is Status.CONVERGED
    assert (result.coef[C == 0.0] == 0.0).all()
    best = kernel_sdca.solve(free(X, y, C), tol=1e-3)
    K = free(X, y).rows.block(slice(None))[C == 0.0]
    early, late = (float((y[C == 0.0] * (K @ found.coef) <= 0.0).mean()) for found in (result, best))
    assert early <= late + 0.005
    assert min(entry["violation"] for entry in result.history) <= 0.5
    assert result.n_iter < best.n_iter
    assert kernel_sdca.solve(free(X, y), budget=Budget(seconds=0.0)).status is Status.TIME_LIMIT
    assert kernel_sdca.solve(free(X, y, 100.0), max_iter=1).status is Status.MAX_ITER

    def interrupt(told):
        if told.iteration > 0:
            raise KeyboardInterrupt

    cut = kernel_sdca.solve(free(X, y), budget=Budget(callbacks=(interrupt,)))
    assert cut.status is Status.INTERRUPTED
    assert 0.0 < cut.dual < cut.primal
