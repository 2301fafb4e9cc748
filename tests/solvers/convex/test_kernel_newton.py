"""Newton steps on kernel rows against the exact reference on features that span the same space."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.exact import InfeasibleSubproblemError, solve_exact
from testing.kernel_problems import kernel_pair
from testing.problems import majorise, random_subproblem

from widemargin.exceptions import CapabilityError, KernelError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.linalg.gram import GramRows
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.convex import newton
from widemargin.solvers.paper_nest import cutting_plane

KERNELS = [Kernel("rbf", 0.5), Kernel("poly", 0.3, 2, 1.0), Kernel("laplacian", 0.3), Kernel("linear")]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("m", [0, 1, 2, 4])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_reaches_the_optimum_of_the_reference(kernel, m, fit_intercept):
    pair = kernel_pair(kernel, 20 + m, m=m, fit_intercept=fit_intercept)
    exact = solve_exact(pair.twin)
    result = newton.solve(pair.sub, tol=1e-7, rho=np.inf)
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-7
    assert result.dual - 1e-8 <= exact.objective <= result.primal + 1e-8
    assert result.primal == pytest.approx(exact.objective, rel=2e-7)
    assert result.violation.max(initial=0.0) <= 1e-6
    np.testing.assert_allclose(pair.K @ result.w, pair.twin.rows.dot(exact.w), atol=2e-3)
    if not fit_intercept:
        assert result.b == 0.0


@given(seed=st.integers(0, 10_000), m=st.integers(0, 4), fit_intercept=st.booleans())
@settings(max_examples=15)
def test_certificate_holds(seed, m, fit_intercept):
    pair = kernel_pair(Kernel("rbf", 0.4), seed, 40, m=m, fit_intercept=fit_intercept)
    try:
        exact = solve_exact(pair.twin)
    except InfeasibleSubproblemError:
        return
    result = newton.solve(pair.sub, tol=1e-3, rho=np.inf)
    assert result.dual <= exact.objective + 1e-8
    assert result.gap == pytest.approx((result.primal - result.dual) / result.primal)
    loss, excess = pair.sub.values(pair.K @ result.w - result.b)
    np.testing.assert_allclose(excess, result.violation, atol=1e-9)
    square = float(result.w @ pair.K @ result.w)
    assert result.primal >= loss + 0.5 * pair.sub.lam * square - 1e-9


@pytest.mark.parametrize("m", [1, 3])
def test_linear_kernel_equals_the_linear_solver(m):
    flat = random_subproblem(5, 80, 4, m)
    pair = kernel_pair(Kernel("linear"), 5, 80, 4, m)
    kernelised = newton.solve(replace(pair.sub, gamma=flat.gamma), tol=1e-8)
    linear = newton.solve(flat, tol=1e-8)
    assert kernelised.primal == pytest.approx(linear.primal, rel=1e-7)
    np.testing.assert_allclose(pair.X.T @ kernelised.w, linear.w, atol=1e-3)
    np.testing.assert_allclose(kernelised.multipliers, linear.multipliers, atol=1e-3)


def test_rows_with_flat_hinges_have_no_coefficient():
    pair = kernel_pair(Kernel("rbf", 0.5), 3, 80, m=1)
    result = newton.solve(pair.sub, tol=1e-6, rho=np.inf)
    z = pair.K @ result.w - result.b
    A, B = pair.sub.coef.per_cell(result.multipliers)
    pulls_down = (pair.sub.keep & 1 > 0) & (A[pair.sub.cell] > 0) & (z > -0.5 - 1e-3)
    pulls_up = (pair.sub.keep & 2 > 0) & (B[pair.sub.cell] > 0) & (z < 0.5 + 1e-3)
    idle = ~pulls_down & ~pulls_up
    assert idle.sum() > 3
    np.testing.assert_array_equal(result.w[idle], 0.0)


def test_warm_starts_save_steps():
    pair = kernel_pair(Kernel("rbf", 0.5), 4, 150, m=2, lam=0.01)
    first = newton.solve(pair.sub, tol=1e-4)
    second = majorise(pair.sub, pair.K @ first.w - first.b)
    cold, warm = (newton.solve(second, tol=1e-4, start=start) for start in (None, first.state))
    assert warm.primal == pytest.approx(cold.primal, rel=1e-3)
    assert newton.solve(pair.sub, tol=1e-4, start=first.state).n_iter < 0.5 * first.n_iter


def test_states_pass_between_the_nest_and_newton():
    pair = kernel_pair(Kernel("rbf", 0.5), 6, 120, m=2)
    exact = solve_exact(pair.twin)
    rough = cutting_plane.solve(pair.sub, tol=3e-2)
    fine = newton.solve(pair.sub, tol=1e-6, start=rough.state, rho=np.inf)
    assert fine.primal == pytest.approx(exact.objective, rel=2e-6)
    again = cutting_plane.solve(pair.sub, tol=1e-4, start=fine.state)
    assert again.n_epochs <= rough.n_epochs
    assert again.dual <= exact.objective + 1e-9


def test_infeasible_constraints_end_at_the_penalty():
    pair = kernel_pair(Kernel("rbf", 0.5), 3, m=2, feasible=False)
    with pytest.raises(InfeasibleSubproblemError):
        solve_exact(pair.twin)
    result = newton.solve(pair.sub, tol=1e-4, rho=5.0)
    assert result.status is Status.CONVERGED
    assert result.multipliers.max() == 5.0
    assert result.violation.max() > 1e-3


def test_float32_matrix():
    pair = kernel_pair(Kernel("rbf", 0.5), 2, 100, m=1)
    single = replace(pair.sub, rows=GramRows(pair.K.astype(np.float32)))
    double = newton.solve(pair.sub, tol=1e-5)
    result = newton.solve(single, tol=1e-5)
    assert result.primal == pytest.approx(double.primal, rel=1e-4)


def test_same_input_same_bits():
    pair = kernel_pair(Kernel("rbf", 0.5), 2, 100, m=2)
    first, second = newton.solve(pair.sub), newton.solve(pair.sub)
    np.testing.assert_array_equal(first.w, second.w)
    assert (first.b, first.gap) == (second.b, second.gap)


def test_stops_by_steps_and_by_the_budget():
    pair = kernel_pair(Kernel("rbf", 0.5), 2, 100, m=2)
    assert newton.solve(pair.sub, tol=1e-9, max_iter=3).status is Status.MAX_ITER
    spent = newton.solve(pair.sub, tol=1e-9, budget=Budget(0.0))
    assert spent.status is Status.TIME_LIMIT
    assert np.isfinite(spent.primal)


def test_needs_the_matrix_and_a_definite_kernel():
    pair = kernel_pair(Kernel("rbf", 0.5), 2, 30, m=0)
    cached = replace(pair.sub, rows=GramRows(KernelRows(Kernel("rbf", 0.5), pair.X)))
    with pytest.raises(CapabilityError, match="the whole kernel matrix of 30 rows in memory"):
        newton.solve(cached)
    indefinite = np.full((30, 30), -0.5)
    np.fill_diagonal(indefinite, 1.0)
    with pytest.raises(KernelError, match="not positive semi-definite"):
        newton.solve(replace(pair.sub, rows=GramRows(indefinite)))
