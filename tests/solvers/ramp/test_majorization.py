"""Majorisation: what Algorithm 1 promises with exact steps, the penalty ladder, and every way to end early."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.ramp_problems import random_ramp_problem

from widemargin.solvers.base import Budget, ConvexResult, ConvexState, Progress, Status
from widemargin.solvers.convex import newton
from widemargin.solvers.ramp import majorization as majorize
from widemargin.solvers.ramp.majorization import MajorizeOptions, RampResult, minimise_ramp

EXACT = MajorizeOptions(steps=6, loose_tol=1e-9, tol=1e-9, rhos=(100.0,), stall=0.0)


def merits(result: RampResult) -> list[tuple[float, float]]:
    return [(entry["rho"], entry["merit"]) for entry in result.history]


def assert_consistent(problem: Any, result: RampResult) -> None:
    """The numbers of the result are those of its point."""
    objective, excess = problem.ramp_values(result.w, problem.scores(result.w, result.b))
    assert result.objective == pytest.approx(objective, abs=1e-12)
    np.testing.assert_allclose(result.excess, excess, rtol=0, atol=1e-12)
    assert result.n_steps == len(result.history)
    assert [entry["step"] for entry in result.history] == list(range(1, result.n_steps + 1))


# with the real convex solver


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    m=st.integers(0, 3),
    fit_intercept=st.booleans(),
    sparse=st.booleans(),
    lam=st.sampled_from([1e-3, 0.02, 0.5]),
)
def test_exact_steps_never_raise_the_objective_and_stay_feasible(
    seed: int, m: int, fit_intercept: bool, sparse: bool, lam: float
) -> None:
    """Spec 1, section 3: from a feasible point every step is feasible and no worse."""
    problem, w, b = random_ramp_problem(seed, 60, 3, m, fit_intercept=fit_intercept, sparse=sparse, lam=lam)
    before, excess = problem.ramp_values(w, problem.scores(w, b))
    assert np.all(excess < 0.0)
    result = minimise_ramp(problem, newton.solve, EXACT, start=(w, b))
    objectives = [before, *(entry["objective"] for entry in result.history)]
    assert np.all(np.diff(objectives) <= 1e-8)
    assert all(entry["violation"] <= 1e-6 for entry in result.history)
    assert objectives[-1] < before
    assert_consistent(problem, result)


@pytest.mark.parametrize("seed", range(12))
def test_default_steps_never_raise_the_merit(seed: int) -> None:
    problem, _, _ = random_ramp_problem(seed, 120, 4, 2, lam=5e-3)
    result = minimise_ramp(problem, newton.solve)
    pairs = merits(result)
    for (rho, before), (next_rho, after) in itertools.pairwise(pairs):
        assert next_rho > rho or after <= before
    assert_consistent(problem, result)
    assert result.subproblem.gap <= 1e-4
    assert result.subproblem.gap >= 0.0


def test_a_feasible_goal_ends_feasible_from_an_infeasible_start() -> None:
    ended = []
    for seed in range(15):
        problem, _, _ = random_ramp_problem(seed, 120, 4, 2, lam=5e-3, slack=0.05)
        w, b = np.zeros(4), 0.5  # everything negative
        if problem.ramp_values(w, problem.scores(w, b))[1].max() > 0.01:
            result = minimise_ramp(problem, newton.solve, start=(w, b))
            ended.append(result.status)
            assert (result.excess.max() <= 1e-3) == (result.status is not Status.INFEASIBLE)
    assert len(ended) >= 8
    assert ended.count(Status.INFEASIBLE) <= 1  # a local search may fail


@pytest.mark.parametrize("m", [1, 2])
def test_an_infeasible_goal_climbs_the_ladder(m: int) -> None:
    problem, _, _ = random_ramp_problem(0, 80, 3, m, feasible=False)
    asked: dict[float, None] = {}

    def convex(sub: Any, *, rho: float, **options: Any) -> ConvexResult:
        asked[rho] = None
        return newton.solve(sub, rho=rho, **options)

    result = minimise_ramp(problem, convex)
    assert result.status is Status.INFEASIBLE
    assert tuple(asked) == MajorizeOptions().rhos
    assert result.rho == 100.0
    assert result.excess.max() > 1e-3
    assert result.multipliers.max() == pytest.approx(100.0)
    first = minimise_ramp(problem, newton.solve, MajorizeOptions(rhos=(1.0,)))
    assert np.maximum(result.excess, 0).sum() <= np.maximum(first.excess, 0).sum() + 1e-6


def test_the_first_point_is_the_best_constant() -> None:
    problem, _, _ = random_ramp_problem(3, 80, 3, 2)
    by_default = minimise_ramp(problem, newton.solve)
    b = problem.constant_start(1.0)
    given_it = minimise_ramp(problem, newton.solve, start=(np.zeros(3), b))
    np.testing.assert_array_equal(by_default.w, given_it.w)
    assert by_default.b == given_it.b


def test_a_warm_state_saves_steps() -> None:
    problem, _, _ = random_ramp_problem(5, 300, 6, 2, lam=1e-3)
    first = minimise_ramp(problem, newton.solve)
    moved = problem.tightened(np.full(2, 0.005))
    options = MajorizeOptions(steps=1)
    at = (first.w, first.b)
    cold = minimise_ramp(moved, newton.solve, options, start=at)
    warm = minimise_ramp(moved, newton.solve, options, start=at, state=first.subproblem.state)
    assert warm.n_iter < cold.n_iter


# with a convex solver that says what it is told: every turn of the loop


class Line:
    """A ramp problem in one number w: objective w, excess `1 - w`; its merit falls where w falls."""

    lam, n_constraints, n_features = 0.0, 1, 1

    def __init__(self, excess: Callable[[float], float] = lambda w: -1.0) -> None:
        self.excess = excess

    def scores(self, w: np.ndarray, b: float) -> np.ndarray:
        return w - b

    def ramp_values(self, w: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
        return float(w[0]), np.array([self.excess(float(w[0]))])

    def majorise(self, z: np.ndarray) -> str:
        return "sub"

    def constant_start(self, rho: float) -> float:
        return 0.0


class Scripted:
    """Gives the points of a list, one a call, and notes what it was asked."""

    def __init__(
        self, points: list[float], gap: float = 0.0, before: Callable[[int], None] = lambda call: None
    ) -> None:
        self.points, self.gap, self.before = points, gap, before
        self.asked: list[dict[str, Any]] = []

    def __call__(self, sub: str, **options: Any) -> ConvexResult:
        self.before(len(self.asked))
        self.asked.append(options)
        w = np.array([self.points[len(self.asked) - 1]])
        none = np.zeros(0)
        state = ConvexState(w, 0.0, none, none, none)
        return ConvexResult(
            w, 0.0, np.zeros(1), 0.0, 0.0, self.gap, np.zeros(1), Status.CONVERGED, 10, 3, 0.0, state
        )  # fmt: skip


def walk(points: list[float], options: MajorizeOptions | None = None, **extra: Any) -> tuple[RampResult, Scripted]:
    convex = Scripted(points, **{key: extra.pop(key) for key in ("gap", "before") if key in extra})
    problem = extra.pop("problem", Line())
    options = options or MajorizeOptions(steps=3, loose_tol=0.1, tol=1e-3, stall=0.01)
    return minimise_ramp(problem, convex, options, start=(np.array([10.0]), 0.0), **extra), convex


def test_loose_steps_then_one_at_the_final_tolerance() -> None:
    result, convex = walk([8.0, 6.0, 4.0, 3.0])
    assert [call["tol"] for call in convex.asked] == [0.1, 0.1, 0.1, 1e-3]
    assert [call["rho"] for call in convex.asked] == [1.0] * 4
    assert [None if call["start"] is None else call["start"].w[0] for call in convex.asked] == [None, 8.0, 6.0, 4.0]
    assert (result.w[0], result.certified, result.status) == (3.0, True, Status.CONVERGED)
    assert (result.n_steps, result.n_iter) == (4, 40)
    assert [entry["merit"] for entry in result.history] == [8.0, 6.0, 4.0, 3.0]


def test_a_stalled_merit_ends_the_loose_steps() -> None:
    result, convex = walk([8.0, 7.99, 7.98])
    assert [call["tol"] for call in convex.asked] == [0.1, 0.1, 1e-3]
    assert result.certified


def test_a_stall_that_the_last_step_belies_is_no_end() -> None:
    """The steps that are left are taken ten times as exactly, and there are never more of them than were asked for."""
    result, convex = walk([9.99, 8.0, 7.0, 6.0])
    assert [call["tol"] for call in convex.asked] == pytest.approx([0.1, 1e-3, 0.01, 1e-3])
    assert (result.n_steps, result.certified) == (4, True)
    options = MajorizeOptions(steps=8, loose_tol=0.1, tol=1e-2, stall=0.01)
    _, convex = walk([9.99, 8.0, 7.99, 6.0, 5.0, 4.999, 4.998], options)
    assert [call["tol"] for call in convex.asked] == pytest.approx([0.1, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01])


class Lazy:
    """The exact solver, which gives away all that the tolerance allows: of the way to its solution the least share."""

    def __call__(self, sub: Any, *, tol: float, start: ConvexState | None, rho: float, **options: Any) -> ConvexResult:
        exact = newton.solve(sub, tol=1e-9, start=start, rho=rho)
        here = np.zeros_like(exact.w) if start is None else start.w
        for share in np.linspace(0.0, 1.0, 21):
            w = here + share * (exact.w - here)
            loss, excess = sub.values(sub.scores(w, 0.0))
            primal = loss + 0.5 * sub.lam * float(w @ w) + rho * float(np.maximum(excess, 0.0).sum())
            if primal - exact.dual <= tol * abs(primal):
                break
        gap = (primal - exact.dual) / abs(primal)
        return replace(exact, w=w, gap=max(gap, 0.0), state=exact.state._replace(w=w))


@pytest.mark.parametrize("seed", range(4))
def test_a_plateau_that_loose_steps_do_not_leave_is_left(seed: int) -> None:
    """A start that is within the loose tolerance of every convex problem's optimum, and far above the ramp's."""
    problem, _, _ = random_ramp_problem(seed, 200, 4, 1, fit_intercept=False, lam=1e-3, slack=0.2)
    start = np.zeros(4), 0.0
    options = MajorizeOptions(steps=9, loose_tol=0.3, tol=1e-4)
    lazy = minimise_ramp(problem, Lazy(), options, start=start)
    exact = minimise_ramp(problem, Lazy(), replace(options, loose_tol=1e-4), start=start)
    assert lazy.n_steps <= 10
    assert lazy.objective <= 1.06 * exact.objective


def test_a_step_that_does_not_improve_is_repeated_once_more_accurately() -> None:
    result, convex = walk([11.0, 8.0, 6.0, 4.0, 3.0])
    assert [call["tol"] for call in convex.asked] == pytest.approx([0.1, 0.01, 0.1, 0.1, 1e-3])
    assert convex.asked[1]["start"].w[0] == 11.0  # warm from the failed attempt
    assert result.n_steps == 4


def test_a_merit_that_rises_by_a_hair_is_no_step() -> None:
    result, _ = walk([8.0, 8.0 + 1e-9, 8.0 + 1e-9, 8.0 + 1e-9, 8.0 + 1e-9])
    assert (result.w[0], result.n_steps) == (8.0, 1)


def test_a_point_that_stays_behind_is_not_called_certified() -> None:
    result, convex = walk([8.0, 9.0, 9.0, 9.0, 9.0])
    assert [call["tol"] for call in convex.asked] == pytest.approx([0.1, 0.1, 0.01, 1e-3, 1e-4])
    assert (result.w[0], result.certified, result.n_steps) == (8.0, False, 1)


def test_a_gap_above_the_tolerance_is_reported() -> None:
    result, _ = walk([8.0, 6.0, 4.0, 3.0], gap=0.01)
    assert result.status is Status.MAX_ITER


def test_violations_below_rounding_cost_nothing_and_larger_ones_the_penalty() -> None:
    tiny, _ = walk([8.0, 6.0, 4.0, 3.0], problem=Line(lambda w: 9e-6))
    assert [entry["merit"] for entry in tiny.history] == [8.0, 6.0, 4.0, 3.0]
    assert tiny.status is Status.CONVERGED
    options = MajorizeOptions(steps=1, stall=0.0, rhos=(1.0, 10.0))
    large, _ = walk([8.0, 6.0, 4.0, 3.0], options, problem=Line(lambda w: 0.005))
    expected = [8 + 0.00499, 6 + 0.00499, 4 + 0.0499, 3 + 0.0499]
    assert [rho for rho, _ in merits(large)] == [1.0, 1.0, 10.0, 10.0]
    assert [merit for _, merit in merits(large)] == pytest.approx(expected)
    assert large.status is Status.INFEASIBLE


def test_the_ladder_ends_where_the_goal_is_met() -> None:
    options = MajorizeOptions(steps=1, stall=0.0)
    result, convex = walk([8.0, 6.0, 4.0, 3.0], options, problem=Line(lambda w: 0.005 if w > 5 else 0.0))
    assert [call["rho"] for call in convex.asked] == [1.0, 1.0, 3.0, 3.0]
    assert (result.rho, result.status) == (3.0, Status.CONVERGED)


def test_a_hopeless_penalty_gets_no_certified_step() -> None:
    """A large violation is left to the next rho; the last one is always certified."""
    options = MajorizeOptions(steps=2, loose_tol=0.1, tol=1e-3, stall=0.0, rhos=(1.0, 10.0))
    _, convex = walk([9.0, 8.0, 7.0, 6.0, 5.0], options, problem=Line(lambda w: 0.5))
    assert [(call["rho"], call["tol"]) for call in convex.asked] == [
        (1.0, 0.1), (1.0, 0.1), (10.0, 0.1), (10.0, 0.1), (10.0, 1e-3),
    ]  # fmt: skip


def test_steps_that_only_repair_are_never_exact() -> None:
    options = MajorizeOptions(steps=1, loose_tol=1e-3, tol=1e-4, stall=0.0, rhos=(1.0, 10.0))
    _, convex = walk([9.0, 8.0, 7.0, 6.0], options, problem=Line(lambda w: 0.005))
    assert [call["tol"] for call in convex.asked] == [1e-3, 1e-4, 1e-2, 1e-4]


def test_without_loose_steps_there_is_one_certified_step() -> None:
    options = MajorizeOptions(steps=0, tol=1e-3)
    for problem in (Line(), Line(lambda w: 0.5 if w > 9 else 0.0)):
        result, convex = walk([8.0], options, problem=problem, budget=Budget())
        assert [call["tol"] for call in convex.asked] == [1e-3]
        assert result.certified
    assert walk([8.0], options, budget=Budget(seconds=0.0))[0].n_steps == 1


def test_an_interrupt_in_a_callback_keeps_the_best_so_far() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.iteration == 2:
            raise KeyboardInterrupt

    budget = Budget(callbacks=(interrupt,))
    result, convex = walk([8.0, 6.0, 4.0, 3.0], budget=budget)
    assert budget.interrupted
    assert (result.w[0], result.status, result.certified) == (6.0, Status.INTERRUPTED, True)
    assert (result.n_steps, len(convex.asked)) == (2, 2)


def test_an_interrupt_inside_the_convex_solver_keeps_the_last_step() -> None:
    def interrupt(call: int) -> None:
        if call == 2:
            raise KeyboardInterrupt

    budget = Budget()
    result, _ = walk([8.0, 9.0, 4.0, 3.0], before=interrupt, budget=budget)
    assert budget.interrupted
    assert (result.w[0], result.status) == (8.0, Status.INTERRUPTED)
    assert not result.certified  # the last convex result is not the point's


def test_an_interrupt_in_the_first_step_leaves_the_start() -> None:
    def interrupt(call: int) -> None:
        raise KeyboardInterrupt

    budget = Budget()
    result, _ = walk([8.0], before=interrupt, budget=budget)
    assert budget.interrupted
    assert (result.status, result.n_steps, result.certified) == (Status.INTERRUPTED, 0, False)
    assert result.subproblem.gap == np.inf


def test_a_callback_may_stop_the_run() -> None:
    budget = Budget(callbacks=(lambda progress: progress.iteration == 2,))
    result, _ = walk([8.0, 6.0, 4.0, 3.0], budget=budget)
    assert (result.w[0], result.status, result.n_steps) == (6.0, Status.STOPPED, 2)
    assert not budget.interrupted


def test_a_spent_budget_ends_after_one_step() -> None:
    result, convex = walk([8.0, 6.0, 4.0, 3.0], budget=Budget(seconds=0.0))
    assert (result.w[0], result.status, len(convex.asked)) == (8.0, Status.TIME_LIMIT, 1)


def test_a_time_limit_holds_with_the_real_solver() -> None:
    problem, _, _ = random_ramp_problem(0, 200, 5, 2)
    budget = Budget(seconds=0.0)
    result = minimise_ramp(problem, newton.solve, budget=budget)
    assert result.status is Status.TIME_LIMIT
    assert result.n_steps + result.n_iter <= 1
    assert_consistent(problem, result)


def test_an_empty_ladder_is_refused() -> None:
    with pytest.raises(ValueError, match="rhos is empty"):
        walk([1.0], MajorizeOptions(rhos=()))


@pytest.mark.parametrize("rho", [1.0, 10.0])
def test_a_plateau_at_the_start_is_left_by_more_exact_steps(rho: float) -> None:
    """Steps of 1e-3 and 1e-4 gain nothing, those of 1e-5 do: they are made at the first penalty, not at later ones."""
    asked: list[float] = []

    class Plateau:
        last, budget, violation, value = object(), Budget(), 0.0, 1.0

        def __init__(self) -> None:
            self.rho = rho

        def merit(self) -> float:
            return self.value

        def step(self, tol: float) -> bool:
            asked.append(tol)
            self.value *= 0.9 if tol <= 1.5e-5 and self.value > 0.5 else 1.0
            return True

    walk: Any = Plateau()
    majorize._descend(walk, MajorizeOptions(steps=20, tol=1e-4, loose_tol=1e-3, rhos=(1.0, 10.0)))
    assert (walk.value <= 0.5) == (rho == 1.0)
    assert min(asked) == pytest.approx(1e-5 if rho == 1.0 else 1e-4)
    assert len(asked) <= 20
