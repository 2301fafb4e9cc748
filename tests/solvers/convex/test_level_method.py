"""The level method over blocks: the optimum in memory, bounds that hold, the same bits wherever the blocks are."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.blocked import ForgetfulMap, blocked
from testing.exact import solve_exact
from testing.ramp_problems import random_ramp_problem

from widemargin.distributed import JoblibMap
from widemargin.solvers.base import Budget, CertifiedRecorder, ConvexState, exact_penalty
from widemargin.solvers.convex import newton
from widemargin.solvers.convex.block_passes import Opening, open_hinges
from widemargin.solvers.convex.level_method import Cuts, LevelOptions, Master, _Search, minimise, solve
from widemargin.solvers.ramp.majorization import minimise_ramp


def both(problem: Any, w: np.ndarray, b: float, block_rows: int = 40, kind: Any = None) -> tuple[Any, Any]:
    """A majorisation in memory, and over blocks."""
    over = blocked(problem, block_rows) if kind is None else blocked(problem, block_rows, kind)
    return problem.majorise(problem.scores(w, b)), over.majorise(over.scores(w, b))


def check_values(sub: Any, result: Any, rho: float) -> None:
    """What is said of the point is what the problem in memory says of it."""
    loss, excess = sub.values(sub.scores(result.w, result.b))
    charged = exact_penalty(result.multipliers, rho) @ np.maximum(excess, 0.0)
    assert result.primal == pytest.approx(loss + 0.5 * sub.lam * result.w @ result.w + charged, rel=1e-9)
    np.testing.assert_allclose(result.violation, excess, rtol=0, atol=1e-10)
    assert (result.multipliers >= 0.0).all()
    assert (result.multipliers <= rho).all()


@pytest.mark.parametrize("m", [0, 1, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_optimum_in_memory(m: int, fit_intercept: bool) -> None:
    problem, w, b = random_ramp_problem(m, 150, 5, m, sparse=m == 1, fit_intercept=fit_intercept)
    sub, there = both(problem, w, b)
    here = newton.solve(sub, tol=1e-8, rho=30.0)
    result = solve(there, tol=1e-5, rho=30.0)
    assert result.status == "converged"
    assert result.gap <= 1e-5
    check_values(sub, result, 30.0)
    assert result.dual <= here.primal + 1e-9
    assert result.primal >= here.dual - 1e-9
    assert result.b == 0.0 or fit_intercept
    assert abs(result.primal - here.primal) <= 2e-5 * abs(here.primal)


@given(seed=st.integers(0, 10_000), m=st.integers(0, 3), fit_intercept=st.booleans(), looks=st.integers(1, 60))
@settings(max_examples=15)
def test_every_bound_is_below_the_exact_optimum(seed: int, m: int, fit_intercept: bool, looks: int) -> None:
    problem, w, b = random_ramp_problem(seed, 40, 3, m, fit_intercept=fit_intercept)
    sub, there = both(problem, w, b, 15)
    result = solve(there, tol=1e-7, rho=10.0, max_iter=looks)
    exact = solve_exact(sub)
    assert result.dual <= exact.objective + 1e-8 * max(abs(exact.objective), 1e-3)
    check_values(sub, result, 10.0)
    assert [entry["dual"] for entry in result.history] == sorted(entry["dual"] for entry in result.history)


def test_bounds_hold_where_the_programme_is_solved_badly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("widemargin.solvers.convex.level_method.minimise", partial(minimise, most=3))
    for seed in range(5):
        problem, w, b = random_ramp_problem(seed, 60, 3, 2)
        sub, there = both(problem, w, b)
        assert solve(there, max_iter=10, rho=10.0).dual <= solve_exact(sub).objective + 1e-9


def test_constraints_that_cannot_be_met_end_at_the_penalty() -> None:
    problem, w, b = random_ramp_problem(1, 100, 3, 2, feasible=False)
    sub, there = both(problem, w, b)
    result = solve(there, tol=1e-4, rho=3.0)
    assert result.multipliers.max() == pytest.approx(3.0, rel=0.05)
    assert result.violation.max() > 0.0
    here = newton.solve(sub, tol=1e-7, rho=3.0)
    assert result.dual <= here.primal + 1e-9
    assert result.gap <= 1e-4


def test_from_a_point_that_violates_and_from_the_solution() -> None:
    problem, w, b = random_ramp_problem(2, 150, 4, 2)
    sub, there = both(problem, w, b)
    nothing = np.zeros(0, np.float32)
    far = ConvexState(-5.0 * w, 1.0, nothing, nothing, np.zeros(2))
    cold = solve(there, tol=1e-5, rho=30.0, start=far)
    assert sub.values(sub.scores(far.w, far.b))[1].max() > 0.0
    assert cold.gap <= 1e-5
    warm = solve(there, tol=1e-5, rho=30.0, start=cold.state)
    assert warm.history[0]["primal"] <= cold.primal + 0.1
    assert warm.primal == pytest.approx(cold.primal, rel=2e-5)


def test_large_means_of_columns_are_no_matter() -> None:
    problem, _, _ = random_ramp_problem(5, 120, 3, 1)
    (first, *others) = problem.rows.blocks
    shifted = replace(problem, rows=type(problem.rows)([(part.X + 1e5, part.row_of) for part in (first, *others)]))
    start = np.zeros(3), 0.1
    results = [solve(both(each, *start)[1], tol=1e-4, rho=10.0) for each in (problem, shifted)]
    assert results[1].gap <= 1e-4
    assert results[1].primal == pytest.approx(results[0].primal, rel=2e-4)


def test_the_same_bits_on_every_back_end_and_after_losses() -> None:
    problem, w, b = random_ramp_problem(3, 150, 4, 2)

    def threads(recipes: Any) -> JoblibMap:
        return JoblibMap(recipes, n_jobs=2)

    lossy = both(problem, w, b, kind=ForgetfulMap)[1]
    lossy.rows.blocks.chance = 0.3
    subs = [both(problem, w, b)[1], both(problem, w, b, kind=threads)[1], lossy]
    one, *others = [solve(sub, tol=1e-5) for sub in subs]
    assert lossy.rows.blocks.n_lost > 10
    for other in others:
        assert np.array_equal(one.w, other.w)
        assert (one.b, one.primal, one.dual) == (other.b, other.primal, other.dual)


def test_no_time_and_few_looks_leave_a_certificate() -> None:
    problem, w, b = random_ramp_problem(4, 100, 3, 2)
    sub, there = both(problem, w, b)
    optimum = solve_exact(sub).objective
    for result, status in (
        (solve(there, tol=1e-9, rho=10.0, budget=Budget(seconds=0.0)), "time_limit"),
        (solve(there, tol=1e-9, rho=10.0, max_iter=3), "max_iter"),
    ):
        assert result.status == status
        assert result.dual <= optimum + 1e-9
        assert result.primal >= result.dual
        assert result.gap > 0.0
        check_values(sub, result, 10.0)
    assert result.n_iter == len(result.history) == 3


def test_a_callback_stops_the_run() -> None:
    problem, w, b = random_ramp_problem(4, 100, 3, 2)
    told = []
    budget = Budget(callbacks=(lambda progress: told.append(progress) or len(told) == 4,))
    assert solve(both(problem, w, b)[1], tol=1e-9, budget=budget).n_iter == 4
    assert [progress.iteration for progress in told] == [1, 2, 3, 4]


def test_looks_are_counted() -> None:
    problem, w, b = random_ramp_problem(5, 200, 4, 1)
    _, there = both(problem, w, b)
    before = there.rows.n_passes
    result = solve(there, tol=1e-4)
    assert there.rows.n_passes - before == 1 + 2 * result.n_iter


def test_cuts_without_weight_go() -> None:
    problem, w, b = random_ramp_problem(6, 200, 4, 2)
    kept = solve(both(problem, w, b)[1], tol=1e-6, rho=10.0)
    few = solve(both(problem, w, b)[1], tol=1e-6, rho=10.0, options=LevelOptions(resting=3))
    assert few.gap <= 1e-6
    assert few.history[-1]["cuts"] < min(3 * few.n_iter, kept.history[-1]["cuts"])


def test_the_next_look_is_where_the_models_are_some_of_the_way_down() -> None:
    problem, w, b = random_ramp_problem(7, 200, 4, 2)
    _, there = both(problem, w, b)
    there.rows.blocks.advance(open_hinges, Opening(there.at, None), restart=True)
    search, best = _Search(there, 10.0, LevelOptions()), CertifiedRecorder(10.0, Budget(), 0.0)
    for _ in range(6):
        loss, excess = search.look(w, b)
        bound, v = search.master.bound(1e-8)
        best.add_dual(bound + there.constant, v)
        best.add_point(w, b, loss + 0.5 * there.lam * w @ w, excess)
        w, b = search.next_point(best, 1e-8)
        value, *bounded = search.cuts.models(w, b - search.centre @ w, 3)
        charged = best.penalty @ np.maximum(np.asarray(bounded) - there.gamma, 0.0)
        height = value + there.constant + 0.5 * there.lam * w @ w + charged
        assert 0.2 <= (height - best.dual) / (best.primal - best.dual) <= 0.6


def test_a_master_over_one_cut_by_hand() -> None:
    """`min 1/2 w^2 + max(0, 1 - w)` has its minimum 1/2 at w = 1."""
    cuts = Cuts(1)
    cuts.add(np.zeros(1), 0.0, np.array([1.0]), np.array([[-1.0]]), np.zeros(1))
    master = Master(cuts, np.zeros(0), 1.0, 1.0, with_bias=False)
    bound, v = master.bound(1e-10)
    assert bound == pytest.approx(0.5, abs=1e-8)
    assert v.shape == (0,)
    assert master.near(np.zeros(1), 0.0, 1e-10)[0][0] == pytest.approx(1.0, abs=1e-4)
    assert cuts.models(np.array([3.0]), 0.0, 1)[0] == 0.0


def test_weights_whose_slopes_do_not_sum_to_zero_are_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """`max(0, 1 - b)` is zero for a large b; the weight 1 of its one cut would say that it is at least one."""
    cuts = Cuts(1)
    cuts.add(np.zeros(1), 0.0, np.array([1.0]), np.zeros((1, 1)), np.array([-1.0]))
    monkeypatch.setattr(
        "widemargin.solvers.convex.level_method.minimise", lambda *_: (np.array([1.0, 0.0]), np.zeros(2))
    )
    bound, _ = Master(cuts, np.zeros(0), 1.0, 1.0, with_bias=True).bound(1e-8)
    assert bound == 0.0


def test_a_whole_majorisation() -> None:
    problem, _, _ = random_ramp_problem(4, 150, 4, 2)
    here = minimise_ramp(problem, newton.solve)
    there = minimise_ramp(blocked(problem, 40), solve)
    assert there.objective == pytest.approx(here.objective, rel=0.02)
    assert there.subproblem.gap <= 1e-4


@pytest.mark.parametrize("rho", [0.0, np.inf])
def test_a_penalty_that_is_no_number_is_refused(rho: float) -> None:
    problem, w, b = random_ramp_problem(4, 50, 3, 1)
    with pytest.raises(ValueError, match="finite penalty"):
        solve(both(problem, w, b)[1], rho=rho)


def test_products_that_overflow_are_said() -> None:
    cuts = Cuts(1)
    with pytest.raises(np.linalg.LinAlgError, match="scale"), np.errstate(over="ignore", invalid="ignore"):
        cuts.add(np.zeros(1), 0.0, np.array([1.0]), np.array([[1e200]]), np.zeros(1))
