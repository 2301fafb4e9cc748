"""The C form of the batch perceptron against the working-set dual and laws of the problem."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from svm_rows import counting_kernel, kernel_problem, noisy_products
from widemargin.exceptions import CapabilityError, KernelError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.batch_perceptron import c_form as sbp_c_form
from widemargin.solvers.kernel_svm.batch_perceptron.c_form import CFormOptions
from widemargin.solvers.kernel_svm.dual import working_set

BOTH = pytest.mark.parametrize("fit_intercept", [False, True])


def primal(p, result):
    """Objective from coefficients and intercept alone."""
    scores = p.rows.block(slice(None)).astype(float) @ result.coef
    hinge = np.maximum(0.0, 1.0 - p.y * (scores + result.intercept))
    return 0.5 * result.coef @ scores + p.upper @ hinge


@BOTH
@pytest.mark.parametrize(("C", "fresh"), [(0.05, 0), (2.0, 64), (100.0, 0), (100.0, 64)])
def test_it_approaches_the_optimum_with_a_valid_bound(fit_intercept, C, fresh):
    X, y = noisy_products(0)
    p = kernel_problem(X, y, C, fit_intercept=fit_intercept)
    best = working_set.solve(p, tol=1e-8).dual
    result = sbp_c_form.solve(p, tol=0.0, max_iter=800, options=CFormOptions(fresh=fresh, every=10))
    assert best * (1 - 1e-9) <= result.primal <= best * (1.06 if C == 100.0 else 1.01)
    assert best * (0.9 if C == 100.0 else 0.97) <= result.dual <= best * (1 + 1e-9)
    assert result.primal == pytest.approx(primal(p, result), rel=1e-9)
    scores = p.rows.block(slice(None)) @ result.coef
    moved = p.optimal_bias(scores)
    assert primal(p, result) <= 0.5 * result.coef @ scores + p.upper @ np.maximum(0, 1 - y * (scores + moved)) + 1e-9
    dual = [entry["dual"] for entry in result.history]
    assert max(dual) <= best * (1 + 1e-9) and (np.diff(dual) >= 0.0).all()
    assert result.margin == pytest.approx(1.0 / np.sqrt(result.coef @ scores))


def test_a_rare_class_does_not_hold_the_search_at_zero():
    """At w = 0 the law holds all rare rows and as many of the others, the worst ones: not all of them."""
    rng = np.random.default_rng(0)
    # Half of the positives stand in a crowd of negatives, which look more positive than the mean of all positives.
    X = np.vstack([
        rng.normal(scale=0.1, size=(60, 2)), rng.uniform(2.0, 6.0, (20, 2)), rng.uniform(-6.0, -2.0, (320, 2)),
    ])  # fmt: skip
    y = np.full(400, -1.0)
    y[:20] = y[60:80] = 1.0
    p = kernel_problem(X, y, 1.0, kernel=Kernel("rbf", gamma=5.0))
    best = working_set.solve(p, tol=1e-8).dual
    assert best < 0.8 * 2.0 * np.count_nonzero(y > 0.0)  # far below the objective of w = 0
    assert sbp_c_form.solve(p, tol=0.0, max_iter=800).primal <= 1.01 * best


def test_nu_and_covered_rows_are_those_of_the_optimum():
    X, y = noisy_products(1)
    p = kernel_problem(X, y, 2.0)
    best = working_set.solve(p, tol=1e-8)
    norm = np.sqrt(best.coef @ p.rows.block(slice(None)) @ best.coef)
    result = sbp_c_form.solve(p, tol=0.0, max_iter=1500)
    assert result.nu == pytest.approx((best.primal - 0.5 * norm**2) / (2.0 * 200) / norm, rel=0.1)
    assert result.covered == pytest.approx(np.abs(best.coef).sum() / 2.0 / 2.0, rel=0.05)


@BOTH
def test_weights_are_repeated_rows(fit_intercept):
    X, y = noisy_products(2, 80)
    weight = np.random.default_rng(0).integers(1, 4, 80)
    many = np.repeat(np.arange(80), weight)
    best = working_set.solve(kernel_problem(X[many], y[many], fit_intercept=fit_intercept), tol=1e-8).dual
    p = kernel_problem(X, y, weight.astype(float), fit_intercept=fit_intercept)
    result = sbp_c_form.solve(p, tol=0.0, max_iter=800, options=CFormOptions(batch=16))
    assert best * (1 - 1e-9) <= result.primal <= best * 1.01
    assert 0.97 * best <= result.dual <= best * (1 + 1e-9)


def test_it_stops_at_the_gap_that_was_asked_for():
    X, y = noisy_products(3)
    for tol in (0.1, 0.03):
        result = sbp_c_form.solve(kernel_problem(X, y), tol=tol)
        assert result.status is Status.CONVERGED
        assert 0.0 <= result.gap <= tol


def test_rows_held_out_stop_it_and_are_never_drawn():
    X, y = noisy_products(4, 600)
    upper = np.full(600, 2.0)
    upper[::4] = 0.0
    result = sbp_c_form.solve(kernel_problem(X, y, upper), tol=None)
    assert result.status is Status.CONVERGED
    assert result.n_iter < 3000
    assert (result.coef[::4] == 0.0).all()
    inside = kernel_problem(X[upper > 0], y[upper > 0], 2.0)
    best = working_set.solve(inside, tol=1e-6).dual
    assert result.dual <= best <= result.primal <= 1.3 * best
    with pytest.raises(CapabilityError, match="there are 0"):
        sbp_c_form.solve(inside, tol=None)


@pytest.mark.parametrize("fresh", [0, 16])
def test_evaluations_are_those_of_an_instrumented_kernel(fresh):
    X, y = noisy_products(5, 60)
    kernel, calls = counting_kernel()
    p = kernel_problem(X, y, kernel=kernel)
    result = sbp_c_form.solve(p, tol=0.0, max_iter=40, options=CFormOptions(batch=8, fresh=fresh, every=10))
    assert result.evaluations == sum(calls)
    assert p.rows.misses * 60 + 60 == result.evaluations
    if fresh:  # sixteen rows every ten steps
        assert p.rows.misses <= 4 * 16


@pytest.mark.parametrize("rows", [2, 7, 40])
def test_a_small_cache_gives_a_biased_answer_with_a_true_gap(rows):
    X, y = noisy_products(6)
    best = working_set.solve(kernel_problem(X, y), tol=1e-8).dual
    cache_size = (rows * 200 * 8 + 8) / MEGABYTE
    result = sbp_c_form.solve(kernel_problem(X, y, cache_size=cache_size), tol=0.0, max_iter=400)
    assert result.dual <= best <= result.primal
    whole = sbp_c_form.solve(
        kernel_problem(X, y, cache_size=cache_size), tol=0.0, max_iter=400, options=CFormOptions(fresh=0)
    )
    assert best <= whole.primal < 1.2 * best
    with pytest.raises(KernelError, match="cannot hold one row"):
        kernel_problem(X, y, cache_size=199 * 8 / MEGABYTE)
    with pytest.raises(KernelError, match="2 kernel rows were asked for and 1 fit"):  # one of each class
        sbp_c_form.solve(kernel_problem(X, y, cache_size=201 * 8 / MEGABYTE))


def test_an_indefinite_kernel_is_named():
    X, y = noisy_products(7, 60)
    with pytest.raises(KernelError, match="not positive semi-definite"):
        sbp_c_form.solve(kernel_problem(X, y, kernel=Kernel("sigmoid", 1.0, 3, -1.0)))


@BOTH
def test_where_no_direction_helps_w_is_0(fit_intercept):
    y = np.where(np.arange(20) % 4 == 0, 1.0, -1.0)
    none = sbp_c_form.solve(kernel_problem(np.zeros((20, 2)), y, kernel=Kernel("linear"), fit_intercept=fit_intercept))
    assert (none.coef == 0.0).all()
    assert none.primal == none.dual == pytest.approx(10.0 if fit_intercept else 20.0)
    assert none.status is Status.CONVERGED
    same = np.tile([[1.0], [1.0]], (10, 1))  # every row with both labels
    p = kernel_problem(same, np.tile([1.0, -1.0], 10), kernel=Kernel("linear"), fit_intercept=fit_intercept)
    torn = sbp_c_form.solve(p)
    assert torn.primal == pytest.approx(20.0, rel=0.02)


def test_one_class_is_a_constant():
    X, _ = noisy_products(8, 30)
    result = sbp_c_form.solve(kernel_problem(X, -np.ones(30)))
    assert (result.coef == 0.0).all()
    assert (result.intercept, result.primal, result.dual) == (-1.0, 0.0, 0.0)
    assert result.status is Status.CONVERGED


@BOTH
def test_float32_and_csr_come_near(fit_intercept):
    X, y = noisy_products(9)
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    double, single, sparse = (
        sbp_c_form.solve(kernel_problem(Z, y, 2.0, fit_intercept=fit_intercept), tol=0.0, max_iter=300)
        for Z in (X, X.astype(np.float32), sp.csr_matrix(X))
    )
    assert single.primal == pytest.approx(double.primal, rel=0.01)
    assert sparse.primal == pytest.approx(double.primal, rel=0.01)


def test_the_same_seed_gives_the_same_bits():
    X, y = noisy_products(10)
    first, again, other = (
        sbp_c_form.solve(kernel_problem(X, y), tol=0.0, max_iter=60, options=CFormOptions(batch=8), seed=seed)
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.coef, again.coef)
    assert (first.coef != other.coef).any()


def test_a_start_is_used():
    X, y = noisy_products(11)
    best = working_set.solve(kernel_problem(X, y), tol=1e-4)
    cold = sbp_c_form.solve(kernel_problem(X, y), tol=0.0, max_iter=5)
    warm = sbp_c_form.solve(kernel_problem(X, y), tol=0.0, max_iter=5, start=best.coef)
    assert warm.primal < cold.primal
    assert warm.primal == pytest.approx(best.primal, rel=0.03)


def test_time_callbacks_and_the_keyboard_stop_it_with_a_certificate():
    X, y = noisy_products(12)

    def interrupt(progress):
        if progress.iteration >= 50:
            raise KeyboardInterrupt

    stopped = sbp_c_form.solve(kernel_problem(X, y), tol=0.0, budget=Budget(callbacks=(lambda p: p.iteration >= 50,)))
    cut = sbp_c_form.solve(kernel_problem(X, y), tol=0.0, budget=Budget(callbacks=(interrupt,)))
    late = sbp_c_form.solve(kernel_problem(X, y), budget=Budget(seconds=0.0))
    assert [r.status for r in (stopped, cut, late)] == [Status.STOPPED, Status.INTERRUPTED, Status.TIME_LIMIT]
    best = working_set.solve(kernel_problem(X, y), tol=1e-6).dual
    for result in (stopped, cut):
        assert result.dual <= best <= result.primal < 1.5 * best


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0, 3]))
def test_any_small_problem_has_valid_bounds(seed, fit_intercept, fresh):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 25))
    X = rng.integers(-2, 3, (n, 2)).astype(float)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    upper = rng.uniform(0.1, 5.0, n) * (rng.random(n) < 0.9)
    p = kernel_problem(X, y, upper, fit_intercept=fit_intercept)
    best = working_set.solve(p, tol=1e-9).dual
    result = sbp_c_form.solve(
        p, max_iter=100, options=CFormOptions(batch=int(rng.integers(1, 30)), fresh=fresh, every=3), seed=seed
    )
    assert result.dual <= best + 1e-6 * (1.0 + upper.sum())
    assert result.primal >= best - 1e-6 * (1.0 + upper.sum())
    assert result.primal == pytest.approx(primal(p, result), rel=1e-6, abs=1e-9)
