"""The working-set dual against LIBSVM, clarabel and laws of the problem."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC
from testing.kernel_svms import RBF, data, exact, problem

from widemargin.exceptions import CapabilityError, KernelError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows
from widemargin.linalg.products import add_columns, add_rows
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.dual import pair_steps, working_set
from widemargin.solvers.kernel_svm.dual.working_set import WorkingSetOptions


@pytest.mark.parametrize("C", [0.1, 1.0, 1000.0])
@pytest.mark.parametrize("size", [1024, 32])
def test_optimum_and_support_set_of_libsvm(C, size):
    X, y = data()
    result = working_set.solve(problem(X, y, C), tol=1e-6, options=WorkingSetOptions(size=size))
    peer = SVC(C=C, gamma=0.3, tol=1e-6).fit(X, y)
    assert result.status is Status.CONVERGED
    assert result.violation <= 1e-6
    assert result.gap < 1e-5
    np.testing.assert_array_equal(np.flatnonzero(np.abs(result.coef) > 1e-7 * C), np.sort(peer.support_))
    coef = np.zeros(y.shape[0])
    coef[peer.support_] = peer.dual_coef_[0]
    np.testing.assert_allclose(result.coef, coef, atol=2e-3 * C)  # 1e-6 in the scores
    assert result.intercept == pytest.approx(peer.intercept_[0], abs=1e-4)
    assert abs(result.coef.sum()) < 1e-9 * C * y.shape[0]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("C", [0.3, 30.0])
def test_the_exact_optimum(fit_intercept, C):
    X, y = data(1, 120)
    result = working_set.solve(
        problem(X, y, C, fit_intercept=fit_intercept), tol=1e-7, options=WorkingSetOptions(size=16)
    )
    best = exact(problem(X, y, C, fit_intercept=fit_intercept))
    assert result.dual == pytest.approx(best, rel=1e-6)
    assert result.primal == pytest.approx(best, rel=1e-6)
    assert (result.intercept != 0.0) == fit_intercept


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_weight_of_two_is_a_row_twice(fit_intercept):
    X, y = data(2, 80)
    weight = np.random.default_rng(0).integers(1, 4, 80)
    once = working_set.solve(problem(X, y, weight.astype(float), fit_intercept=fit_intercept), tol=1e-8)
    many = np.repeat(np.arange(80), weight)
    twice = working_set.solve(problem(X[many], y[many], fit_intercept=fit_intercept), tol=1e-8)
    assert once.dual == pytest.approx(twice.dual, rel=1e-7)
    np.testing.assert_allclose(np.bincount(many, twice.coef), once.coef, atol=1e-4)


@pytest.mark.parametrize("kernel", [RBF, Kernel("linear"), Kernel("poly", 0.5, 2, 1.0)], ids=lambda kernel: kernel.name)
def test_csr_is_dense(kernel):
    X, y = data(3, 150)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, sparse = (working_set.solve(problem(Z, y, kernel=kernel), tol=1e-6) for Z in (X, sp.csr_matrix(X)))
    assert sparse.dual == pytest.approx(dense.dual, rel=1e-8)
    assert sparse.evaluations == dense.evaluations


def test_float32_rows_come_near():
    X, y = data(4, 400)
    single, double = (working_set.solve(problem(X.astype(kind), y, 10.0)) for kind in (np.float32, np.float64))
    assert single.status is double.status is Status.CONVERGED
    assert single.primal == pytest.approx(double.primal, rel=1e-4)
    np.testing.assert_allclose(single.intercept, double.intercept, atol=1e-2)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_warm_start_at_the_optimum_takes_no_step(fit_intercept):
    X, y = data(5)
    p = problem(X, y, 5.0, fit_intercept=fit_intercept)
    first = working_set.solve(p, tol=1e-4, options=WorkingSetOptions(size=64))
    again = working_set.solve(p, tol=2e-4, start=first.coef)
    assert (again.n_iter, first.n_iter > 0) == (0, True)
    assert again.dual == pytest.approx(first.dual, rel=1e-9)
    wild = working_set.solve(p, tol=1e-4, start=np.random.default_rng(0).normal(size=300) * 50)
    assert wild.dual == pytest.approx(first.dual, rel=1e-5)


def test_given_scores_save_the_rows_of_the_start_and_are_kept_up():
    X, y = data(5)
    first = working_set.solve(problem(X, y, 5.0), tol=0.1)
    p = problem(X, y, 5.0)
    scores = p.rows.block(slice(None)) @ first.coef
    before = p.rows.evaluations
    result = working_set.solve(p, tol=1e-6, start=first.coef, scores=scores, options=WorkingSetOptions(size=32))
    assert result.n_iter > 0
    assert result.evaluations - before == p.rows.misses * 300
    np.testing.assert_allclose(scores, p.rows.block(slice(None)) @ result.coef, atol=1e-10)


def test_a_cache_smaller_than_the_working_set_gives_the_same_optimum():
    X, y = data(6)
    large = working_set.solve(problem(X, y), tol=1e-6)
    for rows in (2, 3, 10):
        small = working_set.solve(problem(X, y, cache_size=rows * 300 * 8 / MEGABYTE + 1e-9), tol=1e-6)
        assert small.dual == pytest.approx(large.dual, rel=1e-8)
        assert small.evaluations > large.evaluations
    with pytest.raises(KernelError, match="holds 1 kernel row and 2 are needed"):
        working_set.solve(problem(X, y, cache_size=300 * 8 / MEGABYTE))


def test_duplicates_ties_and_conflicting_labels():
    X = np.repeat(np.arange(6.0)[:, None], 10, axis=0)
    y = np.tile([1.0, -1.0, 1.0], 20)
    for kind in (np.float32, np.float64):
        p = problem(X.astype(kind), y, 3.0)
        result = working_set.solve(p, tol=1e-5, options=WorkingSetOptions(size=8))
        assert result.status is Status.CONVERGED
        assert result.dual == pytest.approx(exact(problem(X, y, 3.0)), rel=1e-5)
        assert not result.indefinite


def test_one_huge_bound():
    X, y = data(7, 150)
    C = np.ones(150)
    C[np.flatnonzero(y > 0)[0]] = 1e6
    result = working_set.solve(problem(X, y, C), tol=1e-6)
    peer = SVC(gamma=0.3, tol=1e-7).fit(X, y, sample_weight=C)
    scores = peer.decision_function(X)
    assert result.gap < 1e-6
    np.testing.assert_allclose(
        problem(X, y).rows.block(slice(None)) @ result.coef + result.intercept, scores, atol=1e-3
    )


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_an_indefinite_kernel_ends_and_is_reported(fit_intercept):
    X, y = data(8, 100)
    result = working_set.solve(problem(X, y, kernel=Kernel("sigmoid", 1.0, 3, -1.0), fit_intercept=fit_intercept))
    assert result.indefinite
    assert np.isfinite(result.primal)
    assert not working_set.solve(problem(X, y, fit_intercept=fit_intercept)).indefinite


def test_one_class_and_rows_of_norm_zero():
    X, _ = data(9, 30)
    result = working_set.solve(problem(X, np.ones(30)))
    assert (result.coef == 0.0).all()
    assert (result.primal, result.status) == (0.0, Status.CONVERGED)
    y = np.where(np.arange(30) % 3 == 0, 1.0, -1.0)
    zero = working_set.solve(problem(np.zeros((30, 2)), y, kernel=Kernel("linear")), tol=1e-6)
    assert zero.primal == pytest.approx(20.0)  # the ten positives, missed by 2 each
    assert zero.dual == pytest.approx(20.0)


def test_time_callbacks_and_the_keyboard_stop_it_with_a_feasible_point():
    X, y = data(10, 400)
    stopped = working_set.solve(
        problem(X, y, 100.0), options=WorkingSetOptions(size=16), budget=Budget(callbacks=(lambda p: p.iteration >= 3,))
    )
    assert (stopped.status, stopped.n_iter) == (Status.STOPPED, 3)
    assert working_set.solve(problem(X, y), budget=Budget(seconds=0.0)).status is Status.TIME_LIMIT

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    cut = working_set.solve(
        problem(X, y, 100.0), options=WorkingSetOptions(size=16), budget=Budget(callbacks=(interrupt,))
    )
    assert cut.status is Status.INTERRUPTED
    for result in (stopped, cut):
        assert abs(result.coef.sum()) < 1e-9
        assert result.dual < result.primal
        assert result.dual > 0.0


def test_the_history_rises_to_the_result():
    X, y = data(11, 400)
    result = working_set.solve(problem(X, y, 10.0), options=WorkingSetOptions(size=32))
    dual = [entry["dual"] for entry in result.history]
    assert np.all(np.diff(dual) > 0)
    assert len(dual) == result.n_iter + 1
    assert result.history[-1]["violation"] == pytest.approx(result.violation)
    assert min(entry["primal"] for entry in result.history) >= result.dual
    assert result.history[-1]["evaluations"] == result.evaluations


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([4, 9, 64]))
def test_any_small_problem_is_solved(seed, fit_intercept, size):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    X = rng.integers(-2, 3, (n, 2)).astype(float)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    p = problem(X, y, rng.uniform(0.1, 10, n) ** 2, fit_intercept=fit_intercept)
    result = working_set.solve(p, tol=1e-6, options=WorkingSetOptions(size=size))
    lower, upper = p.bounds
    assert result.status is Status.CONVERGED
    assert ((result.coef >= lower) & (result.coef <= upper)).all()
    assert result.primal - result.dual <= 1e-6 * (p.upper.sum() + 1.0)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_compiled_loops_are_their_python(kind):
    rng = np.random.default_rng(0)
    X, y = data(12, 40)
    K = KernelRows(RBF, X.astype(kind)).full()
    for name in ("solve_pairs", "solve_free"):
        ends = []
        for run in (getattr(pair_steps, name), getattr(pair_steps, name).py_func):
            g, b = y.copy(), np.zeros(40)
            pairs = name == "solve_pairs"
            work = [np.empty((5, 40), kind), False] if pairs else [np.empty(40)]
            rows = [np.empty((0, 0)), 0.0, K, np.arange(40), 40] if pairs else [K]
            variables = pair_steps.Variables(K.diagonal().copy(), g, b, np.minimum(y, 0), np.maximum(y, 0))
            steps = run(*rows, variables, *work, 0.1, 1e-3, 500)
            ends.append((steps[0], steps[1], g, b))
        assert ends[0][0] == ends[1][0] > 5
        for one, other in zip(ends[0][1:], ends[1][1:], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    slot, change = np.array([3, 1, 7, 2, 9, 30]), rng.normal(size=6)
    sums, same = np.ones(40), np.ones(40)
    add_rows(K, slot, change, sums)
    add_columns.py_func(K, slot, change, same, 0, 30)
    add_columns.py_func(K, slot, change, same, 30, len(same))
    np.testing.assert_allclose(sums, 1.0 + change @ K[slot].astype(float), rtol=1e-12)
    np.testing.assert_allclose(sums, same, rtol=1e-12)
    work, place = np.array([5, 0, 8, 6]), np.array([-1, 1, -1, 0])  # two of them were in the last block
    before = K[np.ix_([6, 0, 12], [6, 0, 12])].copy()
    block, same_block = np.empty((4, 4), kind), np.empty((4, 4), kind)
    pair_steps.gather(K, work, work, before, place, block)
    for new in (True, False):
        pair_steps.gather_rows.py_func(K, work, work, before, place, same_block, new, 0, 4)
    np.testing.assert_array_equal(block, K[np.ix_(work, work)])
    np.testing.assert_array_equal(same_block, block)


@given(seed=st.integers(0, 1000), q=st.integers(0, 300), last=st.booleans(), kind=st.sampled_from(("f", "d")))
def test_the_largest_number_and_its_places(seed, q, last, kind):
    value = np.random.default_rng(seed).integers(0, 40, q).astype(kind)
    value[value < 5] = -np.inf
    top = pair_steps.largest(value)
    assert top == pair_steps.largest.py_func(value) == value.max(initial=-np.inf)
    places = np.flatnonzero(value == top)
    for find in (pair_steps.place, pair_steps.place.py_func):
        assert find(value, top, last) == (places[-1 if last else 0] if q else -1)
        assert find(value, 41.0, last) == -1


def test_rows_held_out_stay_out_and_end_the_run():
    X, y = data(3, 1500)
    upper = np.full(1500, 10.0)
    upper[::5] = 0.0
    result = working_set.solve(problem(X, y, upper), tol=None, options=WorkingSetOptions(size=100))
    assert not result.coef[::5].any()
    assert result.status is Status.CONVERGED
    errors = [entry["held_out_error"] for entry in result.history]
    assert min(errors) < 0.32 < errors[0]
    kept = np.flatnonzero(upper)
    exact = working_set.solve(problem(X[kept], y[kept], 10.0), tol=1e-3, options=WorkingSetOptions(size=100))
    assert result.evaluations < 1.25 * 1500 / 1200 * exact.evaluations
    held = working_set.solve(problem(X, y, upper), tol=1e-4)
    np.testing.assert_allclose(held.dual, exact.dual, rtol=1e-4)
    with pytest.raises(CapabilityError, match="rows held out, and there are 0"):
        working_set.solve(problem(X, y, 1.0), tol=None)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_blocks_shrink_where_their_steps_do_not_suffice(monkeypatch, fit_intercept):
    X, y = data()
    p = problem(X * np.array([1.0, 1.0, 50.0]), y, kernel=Kernel("linear"), fit_intercept=fit_intercept)
    whole = working_set.solve(p, tol=1e-4)
    sizes = []
    solve = working_set.Block.solve

    def watched(self, K, *rest):
        sizes.append(K.shape[0])
        return solve(self, K, *rest)

    monkeypatch.setattr(working_set.Block, "solve", watched)
    small = working_set.solve(p, tol=1e-4, options=WorkingSetOptions(steps=1))
    assert small.status is Status.CONVERGED
    assert small.dual == pytest.approx(whole.dual, rel=1e-6)
    assert sizes[:2] == [300, 75]
    assert min(sizes) == 32


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_blocks_solved_in_slices_take_the_same_steps(fit_intercept):
    X, y = data(5, 200)
    p = problem(X, y, 50.0, fit_intercept=fit_intercept)
    whole = working_set.solve(p, tol=1e-5, options=WorkingSetOptions(size=64))
    sliced = working_set.solve(p, tol=1e-5, options=WorkingSetOptions(size=64, slice=64 * 7))
    assert whole.n_iter == sliced.n_iter > 1
    np.testing.assert_array_equal(whole.coef, sliced.coef)


def test_few_support_vectors_are_found_on_few_kernel_rows():
    """A ball in a shell."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(4000, 3)), np.where(np.arange(4000) % 2 == 0, 1.0, -1.0)
    radius = np.where(y > 0.0, rng.uniform(2.0, 3.0, 4000), rng.uniform(0.0, 1.0, 4000))
    X *= (radius / np.linalg.norm(X, axis=1))[:, None]
    pairs = working_set.solve(problem(X, y), tol=1e-4)
    growing, at_once = (
        working_set.solve(problem(X, y), tol=1e-4, options=WorkingSetOptions(first=first, whole=0))
        for first in (64, 1024)
    )
    assert growing.dual == pytest.approx(at_once.dual, rel=1e-5)
    assert pairs.dual == pytest.approx(at_once.dual, rel=1e-5)
    assert pairs.evaluations < 0.5 * growing.evaluations < 0.25 * at_once.evaluations < 0.1 * 4000**2


def test_an_interrupt_between_pairs_of_all_rows_leaves_a_certificate(monkeypatch):
    X, y = data(10, 300)
    solve_pairs = pair_steps.solve_pairs

    def interrupted(*arguments):
        solve_pairs(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(pair_steps, "solve_pairs", interrupted)
    made = problem(X, y, 1.0)
    result = working_set.solve(made, options=WorkingSetOptions(slice=300 * 150))
    assert result.status is Status.INTERRUPTED
    assert result.coef.any()
    np.testing.assert_allclose(result.scores, made.rows.full() @ result.coef, atol=1e-9)
    assert 0.0 < result.dual < result.primal
