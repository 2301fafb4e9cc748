"""The spatial dual ends where the working-set dual ends."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin._threads import limit_threads
from widemargin.exceptions import CapabilityError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.kernels.spatial import Tiles
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.dual import spatial as spatial_dual
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.dual.spatial import SpatialOptions
from widemargin.solvers.kernel_svm.dual.working_set import WorkingSetOptions
from widemargin.solvers.kernel_svm.problem import KernelProblem

RBF = Kernel("rbf", 4.0)


def problem(seed=0, n=1500, C=5.0, fit_intercept=True, kernel=RBF, made=np.asarray):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 3))
    y = np.where(np.sin(2 * X).sum(axis=1) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return KernelProblem(KernelRows(kernel, made(X)), y, np.full(n, C), fit_intercept)


SMALL = SpatialOptions(cell=128, worst=16, first=300)


@pytest.fixture(autouse=True)
def small_leaves(monkeypatch):
    monkeypatch.setattr(Tiles, "leaf", 64)


def solve_spatial(p, options=SMALL, **others):
    return spatial_dual.solve(p, options=options, **others)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_same_optimum_as_the_working_set(fit_intercept, C):
    p = problem(C=C, fit_intercept=fit_intercept)
    spatial, flat = solve_spatial(p, tol=1e-3), working_set.solve(p, tol=1e-3)
    assert spatial.status is Status.CONVERGED
    assert spatial.dual == pytest.approx(flat.dual, rel=1e-4)
    assert spatial.primal == pytest.approx(flat.primal, rel=2e-3)
    scores = p.rows.block(slice(None)) @ spatial.coef
    fresh = p.values(spatial.coef, scores, spatial.intercept)  # float64, nothing left out
    assert fresh.violation < 2e-3
    np.testing.assert_allclose(fresh[:2], (spatial.primal, spatial.dual), rtol=1e-4)


def test_a_norm_that_rounding_makes_negative_is_no_sign_of_an_indefinite_kernel():
    # All values are nearly 1: the squared norm of the solution is nearly 0, and rounding makes some negative.
    for seed in range(12):
        p = problem(seed=seed, n=20)
        rows = KernelRows(Kernel("rbf", 1e-8), np.random.default_rng(seed).integers(-1, 2, (20, 1)).astype(float))
        assert not solve_spatial(replace(p, rows=rows), tol=1e-2).indefinite


def test_subsamples_grow_and_a_start_leaves_them_out():
    p = problem(1)
    result = solve_spatial(p, tol=0.01)
    assert sorted({entry["rows"] for entry in result.history}) == [375.0, 1500.0]
    again = solve_spatial(p, tol=0.02, start=result.coef)
    assert again.n_iter == 0
    assert {entry["rows"] for entry in again.history} == {1500.0}


def test_threads_do_not_change_a_bit():
    found = []
    for threads in (1, 2):
        with limit_threads(threads):
            found.append(solve_spatial(problem(2), tol=0.01))
    np.testing.assert_array_equal(found[0].coef, found[1].coef)
    assert found[0].evaluations == found[1].evaluations


@pytest.mark.parametrize("moment", [0, 3])
def test_cut_short_it_certifies_a_feasible_point_of_all_rows(moment):
    calls = []

    def interrupt(progress):
        calls.append(progress)
        if len(calls) == moment + 1:
            raise KeyboardInterrupt

    p = problem(3)
    result = solve_spatial(p, replace(SMALL, every=1), tol=1e-6, budget=Budget(callbacks=(interrupt,)))
    assert result.status is Status.INTERRUPTED
    assert result.coef.shape == (1500,)
    assert abs(result.coef.sum()) < 1e-9
    fresh = p.values(result.coef, p.rows.block(slice(None)) @ result.coef, result.intercept)
    np.testing.assert_allclose(fresh[:2], (result.primal, result.dual), rtol=1e-4)


def test_other_kernels_and_rows_are_refused():
    with pytest.raises(CapabilityError, match="'linear'"):
        solve_spatial(problem(kernel=Kernel("linear")))
    wide = KernelRows(RBF, sp.random(20, 2000, format="csr", random_state=0))
    with pytest.raises(CapabilityError, match="CSR rows"):
        solve_spatial(KernelProblem(wide, np.repeat([1.0, -1.0], 10), np.ones(20)))
    narrow = problem(made=sp.csr_matrix)  # kept as dense rows
    assert solve_spatial(narrow, tol=0.1).dual == solve_spatial(problem(), tol=0.1).dual


def test_rows_held_out_end_the_run():
    whole = problem()
    held = np.arange(0, 1500, 7)
    upper = whole.upper.copy()
    upper[held] = 0.0
    p = replace(whole, upper=upper)
    early, late = solve_spatial(p, tol=None), solve_spatial(p, tol=1e-4)
    assert early.status is Status.CONVERGED
    assert early.evaluations <= 0.7 * (late.evaluations - early.evaluations)  # one counter for both
    assert (early.coef[held] == 0.0).all() and early.coef.any()
    K = p.rows.block(held)
    errors = [np.mean(p.y[held] * (K @ found.coef + found.intercept) <= 0) for found in (early, late)]
    assert errors[0] <= errors[1] + 0.03
    with pytest.raises(CapabilityError, match="0; hold some out"):
        solve_spatial(whole, tol=None)


def test_the_budget_is_looked_at_within_a_block(monkeypatch):
    """One block of all rows takes tens of thousands of steps; slices of it end with the time."""
    options = SpatialOptions(cell=1500, worst=16, first=1500, blocks=WorkingSetOptions(slice=1500 * 10))
    looks = iter([False] * 6 + [True] * 10_000)
    monkeypatch.setattr(Budget, "exhausted", property(lambda self: next(looks)))
    p = problem(C=1e5)
    steps = []
    solve_pairs = working_set.pair_steps.solve_pairs
    monkeypatch.setattr(working_set.pair_steps, "solve_pairs", lambda *a: steps.append(a[-1]) or solve_pairs(*a))
    cut = solve_spatial(p, options, tol=1e-3)
    assert cut.n_iter == 1
    assert steps == [10] * len(steps) and 1 < len(steps) < 8
    assert abs(cut.coef.sum()) < 1e-9 and cut.coef.any()
