"""Newton passes over blocks: the solution in memory, its certificate, and the same bits after every loss."""

import numpy as np
import pytest
from testing.blocked import ForgetfulMap, blocked
from testing.exact import solve_exact
from testing.ramp_problems import random_ramp_problem

from widemargin.distributed.blocks import BlockedRows
from widemargin.solvers.base import ConvexResult, ConvexState, Status
from widemargin.solvers.convex.linear_system import SystemOptions
from widemargin.solvers.convex.newton import solve
from widemargin.solvers.convex.proximal import NewtonOptions
from widemargin.solvers.ramp.majorization import minimise_ramp


def check_certificate(sub: object, result: ConvexResult, tol: float) -> None:
    """The bracket holds the exact optimum of the problem in memory."""
    exact = solve_exact(sub)
    assert result.status is Status.CONVERGED
    assert result.gap <= tol
    scale = max(abs(exact.objective), 1e-3)
    assert result.dual <= exact.objective + 1e-8 * scale
    assert result.primal >= exact.objective - 1e-7 * scale


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("iterative", [False, True])
def test_the_optimum_in_memory_is_reached_with_a_certificate(seed: int, iterative: bool) -> None:
    options = {"sparse": seed % 2 == 0, "fit_intercept": seed < 3}
    problem, w, b = random_ramp_problem(seed, 120, 5, 2, **options)
    over = blocked(problem, 30)
    sub, there = problem.majorise(problem.scores(w, b)), over.majorise(over.scores(w, b))
    result = solve(there, tol=1e-7, rho=100.0, iterative=iterative)
    check_certificate(sub, result, 1e-7)
    here = solve(sub, tol=1e-7, rho=100.0, iterative=iterative)
    np.testing.assert_allclose(result.w, here.w, rtol=0, atol=1e-4)
    _, excess = sub.values(sub.scores(result.w, result.b))
    np.testing.assert_allclose(result.violation, excess, rtol=0, atol=1e-10)


def test_where_rows_are_fewer_than_cells_the_gradients_are_made_by_columns() -> None:
    options = NewtonOptions(system=SystemOptions(cell_sums=0))
    problem, w, b = random_ramp_problem(3, 120, 5, 2, n_cells=12)
    over = blocked(problem, 10)
    result = solve(over.majorise(over.scores(w, b)), tol=1e-7, options=options)
    check_certificate(problem.majorise(problem.scores(w, b)), result, 1e-7)


def test_a_warm_start_spreads_the_shares_at_its_scores() -> None:
    problem, w, b = random_ramp_problem(1, 200, 4, 2)
    over = blocked(problem, 64)
    there = over.majorise(over.scores(w, b))
    cold = solve(there, tol=1e-6, rho=30.0)
    nothing = np.zeros(0, np.float32)
    warm = solve(there, tol=1e-6, rho=30.0, start=ConvexState(cold.w, cold.b, nothing, nothing, cold.multipliers))
    assert warm.primal == pytest.approx(cold.primal, rel=3e-6)
    assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize("iterative", [False, True])
def test_blocks_that_lose_their_notes_come_to_the_same_bits(iterative: bool) -> None:
    """Notes are lost where a block is made anew on another worker; the journal in every message makes them again."""
    problem, w, b = random_ramp_problem(2, 150, 5, 2)
    kept, lossy = blocked(problem, 40), blocked(problem, 40, ForgetfulMap)
    lossy.rows.blocks.chance = 0.3
    results = [solve(over.majorise(over.scores(w, b)), tol=1e-7, iterative=iterative) for over in (kept, lossy)]
    assert lossy.rows.blocks.n_lost > 50
    assert np.array_equal(results[0].w, results[1].w)
    assert (results[0].b, results[0].gap) == (results[1].b, results[1].gap)


def test_a_whole_majorisation_over_blocks_that_forget() -> None:
    problem, _, _ = random_ramp_problem(4, 150, 4, 2)
    here = minimise_ramp(problem, solve)
    kept, lossy = blocked(problem, 40), blocked(problem, 40, ForgetfulMap)
    lossy.rows.blocks.chance = 0.2
    one, other = minimise_ramp(kept, solve), minimise_ramp(lossy, solve)
    assert lossy.rows.blocks.n_lost > 50
    assert np.array_equal(one.w, other.w)
    assert one.objective == pytest.approx(here.objective, rel=0.02)
    assert one.subproblem.gap <= 1e-4


def test_a_newton_step_looks_at_the_features_twice() -> None:
    problem, w, b = random_ramp_problem(5, 200, 4, 1)
    over = blocked(problem, 50)
    sub = over.majorise(over.scores(w, b))
    assert isinstance(sub.rows, BlockedRows)
    before = over.rows.n_passes
    result = solve(sub, tol=1e-6)
    outer = len(result.history)
    # once to begin, then by step the change of the scores and the slopes, by outer iteration slopes and exact values
    assert over.rows.n_passes - before == 1 + 2 * result.n_iter + 2 * outer
