"""Which solver is taken, and when it is handed over."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from testing.exact import solve_exact
from testing.kernel_problems import kernel_pair
from testing.problems import random_subproblem

from widemargin.exceptions import CapabilityError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.convex import convex_step
from widemargin.solvers.convex.convex_step import ConvexStep, KernelStep, StepOptions


def call(convex: ConvexStep, sub: Any) -> Any:
    return convex(sub, tol=1e-4, start=None, rho=30.0, budget=Budget())


@pytest.mark.parametrize(("d", "m"), [(50, 2), (1501, 5), (30_000, 9)])
def test_auto_is_newton_for_linear_rows(d: int, m: int) -> None:
    sub = random_subproblem(1, 60, 5, m)
    convex = ConvexStep("auto", d)
    result = call(convex, sub)
    assert convex.used == ["newton"]
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(solve_exact(sub).objective, rel=1e-3)


def test_one_column_that_outweighs_the_others_is_solved() -> None:
    sub = random_subproblem(1, 60, 5, 2)
    heavy = np.vstack([block.X[block.row_of] for block in sub.rows.blocks])
    heavy[:, 2] *= 5e4
    convex = ConvexStep("auto", 2000)
    assert call(convex, replace(sub, rows=RowBlocks([(heavy, None)]))).status is Status.CONVERGED
    assert convex.used == ["newton"]


def test_the_interior_point_of_the_other_package_finds_the_same() -> None:
    sub = random_subproblem(1, 60, 5, 2)
    convex = ConvexStep("interior-point", 5)
    assert call(convex, sub).primal == pytest.approx(solve_exact(sub).objective, rel=1e-3)
    assert convex.used == ["interior-point"]


def test_what_cannot_be_is_refused_with_the_cure() -> None:
    with pytest.raises(CapabilityError, match=r"solver='simplex' is unknown; use one of 'auto', 'newton'"):
        ConvexStep("simplex", 5)
    with pytest.raises(CapabilityError, match=r"10001 x 10001 numbers \(0\.8 GB\); above 10000 features use 'auto'"):
        ConvexStep("interior-point", 10_001)
    assert ConvexStep("newton", 10_001).used == []


# kernel rows


def run_kernel(step, sub, tol=1e-4, start=None):
    return step(sub, tol=tol, start=start, rho=10.0, budget=Budget())


def test_auto_begins_with_the_nest_and_ends_with_newton():
    sub = kernel_pair(Kernel("rbf", 0.5), 1, 60, m=1).sub
    step = KernelStep("auto", sub.rows, StepOptions(small=30))
    first = run_kernel(step, sub)
    assert step.used == ["cutting-plane", "newton"]
    assert first.gap <= 1e-4
    warm = KernelStep("auto", sub.rows, StepOptions(small=30))
    assert run_kernel(warm, sub, start=first.state).gap <= 1e-4
    assert warm.used == ["newton"]


def test_small_problems_go_to_newton_at_once():
    sub = kernel_pair(Kernel("rbf", 0.5), 1, 50, m=1).sub
    step = KernelStep("auto", sub.rows)
    run_kernel(step, sub)
    assert step.used == ["newton"]


def test_the_nest_takes_over_where_newton_does_not_end(monkeypatch):
    sub = kernel_pair(Kernel("rbf", 0.5), 1, 50, m=1).sub
    newton = convex_step._SOLVE["newton"]
    monkeypatch.setitem(convex_step._SOLVE, "newton", lambda *a, **k: newton(*a, **k, max_iter=1))
    step = KernelStep("auto", sub.rows)
    found = run_kernel(step, sub, tol=1e-3)
    assert step.used == ["newton", "cutting-plane"]
    assert found.status is Status.CONVERGED
    # The hand-over is remembered for problems of that many rows.
    monkeypatch.setitem(step._solve_with, "newton", None)
    assert run_kernel(step, sub, tol=1e-3).status is Status.CONVERGED
    with pytest.raises(TypeError):
        run_kernel(step, kernel_pair(Kernel("rbf", 0.5), 1, 40, m=1).sub, tol=1e-3)


def test_rows_through_the_cache_are_for_the_nest():
    pair = kernel_pair(Kernel("rbf", 0.5), 1, 50, m=1)
    rows = GramRows(KernelRows(Kernel("rbf", 0.5), pair.X, dtype=np.float64))
    step = KernelStep("auto", rows)
    assert run_kernel(step, replace(pair.sub, rows=rows), tol=1e-3).gap <= 1e-3
    assert step.used == ["cutting-plane"]


def test_solvers_of_linear_models_are_refused():
    with pytest.raises(CapabilityError, match="'interior-point' cannot train kernels"):
        KernelStep("interior-point", GramRows(np.eye(2)))


@pytest.mark.parametrize("m", [0, 2, 6])
def test_few_rows_of_many_features_are_solved_in_their_span(m: int) -> None:
    narrow = random_subproblem(3, 60, 200, m)
    convex = ConvexStep("auto", 200)
    found, wanted = call(convex, narrow), call(ConvexStep("newton", 200), narrow)
    assert convex._span is not None and found.gap <= 1e-4 and found.w.shape == (200,)
    assert found.primal == pytest.approx(wanted.primal, rel=2e-4)
    loss, excess = narrow.values(narrow.scores(found.w, found.b))
    assert found.primal >= loss + 0.5 * narrow.lam * found.w @ found.w - 1e-12
    np.testing.assert_allclose(found.violation, excess, atol=1e-12)
    again = convex(narrow, tol=1e-6, start=wanted.state, rho=30.0, budget=Budget())
    assert again.gap <= 1e-6 and again.primal <= found.primal * (1.0 + 2e-4)
