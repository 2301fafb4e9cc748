"""Nested subsamples end at the optimum of all rows, and their certificate says so."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.dual import nested as nested_dual
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.dual.nested import NestedOptions
from widemargin.solvers.kernel_svm.dual.working_set import WorkingSetOptions
from widemargin.solvers.kernel_svm.problem import KernelProblem

RBF = Kernel("rbf", 0.5)


def problem(seed=0, n=800, noise=0.1, C=3.0, fit_intercept=True, made=np.asarray, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 - 1.0 + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    return KernelProblem(KernelRows(RBF, made(X), dtype=dtype), y, np.full(n, C), fit_intercept)


def solve_nested(p, *, size=1024, margin=1.2, shares=(8, 2), **options):
    """Subsamples of 50 rows, too."""
    chosen = NestedOptions(least_rows=50, margin=margin, shares=shares, blocks=WorkingSetOptions(size=size))
    return nested_dual.solve(p, options=chosen, **options)


@pytest.mark.parametrize("noise", [0.1, 3.0], ids=["clean", "noisy"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_same_optimum_as_the_working_set(noise, fit_intercept):
    options = {"noise": noise, "fit_intercept": fit_intercept}
    nested = solve_nested(problem(**options), tol=1e-5, size=64)
    flat = working_set.solve(problem(**options), tol=1e-5, options=WorkingSetOptions(size=64))
    assert nested.status is Status.CONVERGED
    assert nested.violation <= 1e-5
    assert nested.dual == pytest.approx(flat.dual, rel=1e-6)
    p = problem(**options)
    at = p.values(nested.coef, p.rows.block(slice(None)) @ nested.coef, nested.intercept)  # scores afresh
    assert at.violation <= 1.1e-5
    np.testing.assert_allclose(at[:2], (nested.primal, nested.dual), rtol=1e-9)


def test_subsamples_are_smaller_and_the_last_entries_are_of_all_rows():
    result = solve_nested(problem(), size=64)
    rows = [entry["rows"] for entry in result.history]
    assert rows[0] == 100
    assert 100 < min(set(rows) - {100.0}) < 800
    assert result.history[-1]["rows"] == 800
    assert result.history[-1]["violation"] == pytest.approx(result.violation)


def test_rows_that_the_subsamples_missed_are_found():
    """With this margin hardly a row is active but the support vectors."""
    nested, flat = solve_nested(problem(1), tol=1e-4, margin=-5.0), working_set.solve(problem(1), tol=1e-4)
    assert nested.status is Status.CONVERGED
    assert nested.dual == pytest.approx(flat.dual, rel=1e-6)
    assert [entry["rows"] for entry in nested.history].count(800.0) > 1


def test_a_start_leaves_the_subsamples_out():
    p = problem(2)
    first = solve_nested(p, tol=1e-4)
    again = solve_nested(p, tol=2e-4, start=first.coef)
    assert again.n_iter == 0
    assert again.dual == pytest.approx(first.dual, rel=1e-9)


def test_csr_and_float32():
    dense, sparse = solve_nested(problem(3)), solve_nested(problem(3, made=sp.csr_matrix))
    single = solve_nested(problem(3, dtype=np.float32))
    assert sparse.dual == pytest.approx(dense.dual, rel=1e-9)
    assert single.dual == pytest.approx(dense.dual, rel=1e-4)
    assert single.status is Status.CONVERGED


def test_same_seed_same_bits():
    one, two, other = (solve_nested(problem(4), seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.coef, two.coef)
    assert one.primal == two.primal
    assert (one.coef != other.coef).any()


@pytest.mark.parametrize("moment", [0, 3, 12])
def test_cut_short_it_still_certifies_a_feasible_point(moment):
    calls = []

    def interrupt(progress):
        calls.append(progress)
        if len(calls) == moment + 1:
            raise KeyboardInterrupt

    p = problem(5, noise=1.0)
    result = solve_nested(p, size=16, tol=1e-6, budget=Budget(callbacks=(interrupt,)))
    assert result.status is Status.INTERRUPTED
    assert abs(result.coef.sum()) < 1e-9
    fresh = p.values(result.coef, p.rows.block(slice(None)) @ result.coef, result.intercept)
    np.testing.assert_allclose(fresh[:2], (result.primal, result.dual), rtol=1e-9)
    assert solve_nested(p, budget=Budget(seconds=0.0)).status is Status.TIME_LIMIT


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_rows_held_out_are_not_trained_on(noise):
    p = problem(n=1200, noise=noise)
    upper = p.upper.copy()
    upper[::6] = 0.0
    held = replace(p, upper=upper)
    kept = np.flatnonzero(upper)
    part = KernelProblem(p.rows.subset(kept), p.y[kept], p.upper[kept])
    exact = working_set.solve(part, tol=1e-5)
    result = solve_nested(held, tol=1e-4)
    assert not result.coef[::6].any()
    np.testing.assert_allclose(result.dual, exact.dual, rtol=1e-5)
    loose = solve_nested(held, tol=None)
    assert loose.status is Status.CONVERGED
    assert [entry for entry in loose.history if "held_out_error" in entry]
    assert 0.0 < loose.dual <= exact.dual * (1 + 1e-9)


def test_a_subsample_that_is_as_good_ends_the_run():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    upper = np.where(np.arange(4000) % 4 == 0, 0.0, 1000.0)
    p = KernelProblem(KernelRows(Kernel("rbf", 0.3), X), y, upper)
    result = solve_nested(p, tol=None, shares=(8, 4, 2))
    assert np.isnan(result.primal)
    assert 0.0 < result.dual <= working_set.solve(p).dual
    assert np.count_nonzero(result.coef) < 2000


def test_no_subsample_starts_from_a_guess_that_is_worse_than_no_model():
    """With a large C and a narrow kernel "the lowest margins at their bound" can be."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 2))
    y = np.where(X[:, 0] + 2.0 * rng.normal(size=1200) > 0, 1.0, -1.0)
    made = KernelProblem(KernelRows(RBF, X), y, np.full(1200, 1000.0), True)
    result = solve_nested(made, tol=0.1, size=256)
    assert min(entry["dual"] for entry in result.history) >= 0.0
    assert result.status is Status.CONVERGED
