"""Tightening: what it returns with violation 0 is met, and it never returns less than its first candidate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.ramp_problems import random_ramp_problem, scores_of_rows

from widemargin.problems.rate_constrained import RateConstrainedProblem
from widemargin.solvers.base import Budget, ConvexResult, ConvexState, Progress, Status
from widemargin.solvers.convex import newton
from widemargin.solvers.ramp.majorization import MajorizeOptions, RampResult, minimise_ramp
from widemargin.solvers.ramp.pool import Candidate, Pool
from widemargin.solvers.ramp.tightening import enforce
from widemargin.solvers.thresholds.threshold_sweep import best_threshold

OPTIONS = MajorizeOptions()

Judge = Callable[[RampResult], Candidate]


@dataclass
class Judged:
    """Measures made of a judge and of moves."""

    judge: Judge
    moves: Any = None

    def ramp_objective(self, w: np.ndarray, b: float) -> float:
        """Here the regulariser alone: between models of equal rates the shorter is taken."""
        return float(w @ w)


def pool_of(judge: Judge, moves: Any = None) -> Pool:
    return Pool(Judged(judge, moves))  # type: ignore[arg-type]


def deterministic(problem: RateConstrainedProblem, seen: list[Candidate]) -> Judge:
    """Measures 0/1 rates at the best threshold, by the original bounds, and keeps what it saw."""

    def judge(solution: RampResult) -> Candidate:
        z = problem.scores(solution.w, solution.b)
        _, before = problem.values(problem.hard_mass(z))
        shift = 0.0
        if problem.fit_intercept:
            shift = best_threshold(
                z, problem.weight, problem.cell, problem.coef, problem.gamma, problem.cell_weight
            ).threshold
        objective, excess = problem.values(problem.hard_mass(z - shift))
        seen.append(Candidate(solution.w, solution.b + shift, objective, excess, before, shift != 0.0, solution))
        return seen[-1]

    return judge


def zero_one(problem: RateConstrainedProblem, w: np.ndarray, b: float) -> tuple[float, np.ndarray]:
    """0/1 objective and excesses of a classifier, row by row from the stored matrices."""
    coef, m = problem.coef, problem.n_constraints
    positive = scores_of_rows(problem, w, b) > 0
    objective, values = 0.0, np.zeros(m)
    for said, c, s in zip(positive, problem.cell, problem.weight, strict=True):
        entries = slice(coef.indptr[c], coef.indptr[c + 1])
        objective += s * (coef.alpha0[c] if said else coef.beta0[c])
        np.add.at(values, coef.column[entries], s * (coef.alpha if said else coef.beta)[entries])
    return float(objective), values - problem.gamma


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    m=st.integers(1, 4),
    fit_intercept=st.booleans(),
    give_back=st.booleans(),
    slack=st.sampled_from([0.0, 0.03]),
)
def test_what_is_called_met_is_met_and_nothing_beats_it(
    seed: int, m: int, fit_intercept: bool, give_back: bool, slack: float
) -> None:
    problem, _, _ = random_ramp_problem(seed, 150, 4, m, lam=5e-3, slack=slack, fit_intercept=fit_intercept)
    seen: list[Candidate] = []
    found = enforce(problem, newton.solve, pool_of(deterministic(problem, seen)), OPTIONS, give_back=give_back)
    objective, excess = zero_one(problem, found.best.w, found.best.b)
    assert found.best.objective == pytest.approx(objective, abs=1e-12)
    np.testing.assert_allclose(found.best.excess, excess, rtol=0, atol=1e-12)
    if found.best.violation == 0.0:
        assert np.all(excess <= 1e-10)
    assert not any(other.beats(found.best) for other in seen)
    assert found.n_rounds == len(seen) - 1 <= 8
    assert found.n_steps == sum(candidate.solution.n_steps for candidate in seen)
    assert found.n_iter == sum(candidate.solution.n_iter for candidate in seen)
    assert len(found.history) == found.n_steps


def test_tightening_reaches_the_bounds_where_the_ramp_solution_misses_them() -> None:
    """Without an intercept nothing but the rounds can repair a missed bound."""
    missed = repaired = 0
    for seed in range(20):
        problem, _, _ = random_ramp_problem(seed, 300, 5, 2, lam=2e-3, slack=0.02, fit_intercept=False)
        seen: list[Candidate] = []
        found = enforce(problem, newton.solve, pool_of(deterministic(problem, seen)), OPTIONS)
        if seen[0].violation > 0.0:
            missed += 1
            repaired += found.best.violation == 0.0
    assert missed >= 4
    assert repaired >= 0.55 * missed  # two thirds of 100 such problems


def test_giving_back_pays() -> None:
    """Somewhere slack is turned into a better objective, and nowhere does it cost anything."""
    gains = []
    for seed in range(12):
        problem, _, _ = random_ramp_problem(seed, 300, 5, 2, lam=2e-3, slack=0.02)
        without, with_it = (
            enforce(problem, newton.solve, pool_of(deterministic(problem, [])), OPTIONS, give_back=give_back).best
            for give_back in (False, True)
        )
        if without.violation == 0.0:
            assert with_it.violation == 0.0
            gains.append(without.objective - with_it.objective)
    assert max(gains) > 0.003
    assert np.mean(gains) > 0.0


# scripted: every turn of the loop


@dataclass(frozen=True)
class Bounded:
    """One constraint whose bound is lowered by `by`; the scripted solver ignores it."""

    lam: float = 0.0
    n_constraints: int = 1
    n_features: int = 1
    by: tuple[float, ...] = (0.0,)

    def scores(self, w: np.ndarray, b: float) -> np.ndarray:
        return w - b

    def ramp_values(self, w: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
        return float(w[0]), np.array([self.by[0] * 0.0])

    def majorise(self, z: np.ndarray) -> "Bounded":
        return self

    def constant_start(self, rho: float) -> float:
        return 0.0

    def tightened(self, by: np.ndarray) -> "Bounded":
        return replace(self, by=tuple(by))


class Script:
    """Judges the rounds by a list of (objective, excess, excess before the shift), and notes what they were asked.

    `share` is the multiplier as a share of the penalty.
    """

    def __init__(self, verdicts: list[tuple[float, float, float]], share: float = 0.5) -> None:
        self.verdicts, self.share = verdicts, share
        self.by: list[float] = []
        self.rho: list[float] = []
        self.judged = 0

    def convex(self, sub: Bounded, *, rho: float, **options: Any) -> ConvexResult:
        if len(self.by) == self.judged:
            self.by.append(sub.by[0])
            self.rho.append(rho)
        w, none = np.array([-float(self.judged)]), np.zeros(0)
        state = ConvexState(w, 0.0, none, none, none)
        v = np.array([self.share * rho])
        return ConvexResult(w, 0.0, v, 0.0, 0.0, 0.0, np.zeros(1), Status.CONVERGED, 1, 0, 0.0, state)

    def judge(self, solution: RampResult) -> Candidate:
        self.judged += 1
        objective, excess, before = self.verdicts[self.judged - 1]
        w = np.array([float(self.judged)])
        return Candidate(w, 0.0, objective, np.array([excess]), np.array([before]), False, solution)


def scripted(
    verdicts: list[tuple[float, float, float]],
    *,
    share: float = 0.5,
    rhos: tuple[float, ...] = (1.0,),
    moves: Any = None,
    **options: Any,
) -> tuple[Pool, Script]:
    """Run the rounds of a script."""
    script = Script(verdicts, share)
    pool = pool_of(script.judge, moves)
    return enforce(Bounded(), script.convex, pool, MajorizeOptions(steps=1, rhos=rhos), **options), script


def test_a_miss_tightens_by_more_than_the_miss() -> None:
    found, script = scripted([(1.0, 0.05, 0.05), (1.1, 0.01, 0.01), (1.2, 0.0, 0.0)])
    assert script.by == pytest.approx([0.0, 0.06, 0.072])
    assert (found.best.objective, found.n_rounds) == (1.2, 2)


def test_a_miss_counts_before_the_shift_of_the_bias() -> None:
    _, script = scripted([(1.0, 0.01, 0.05), (1.1, 0.0, 0.0)])
    assert script.by == pytest.approx([0.0, 0.06])


def test_slack_of_a_binding_constraint_is_given_back_while_that_pays() -> None:
    found, script = scripted([(1.0, -0.02, -0.02), (0.9, -0.01, -0.01), (0.899, -0.01, -0.01), (0.5, 0.0, 0.0)])
    assert script.by == pytest.approx([0.0, -0.014, -0.021])
    assert (found.best.objective, found.n_rounds) == (0.899, 2)
    _, script = scripted([(1.0 - 0.1 * i, -0.09, -0.09) for i in range(5)], rounds=3)
    assert script.by == pytest.approx([0.0, -0.05, -0.05, -0.05])  # the floor


def test_giving_back_too_much_is_tried_once_more_from_the_other_side() -> None:
    verdicts = [(1.0, -0.02, -0.02), (0.8, 0.01, 0.01), (0.9, -0.001, -0.001)]
    found, script = scripted(verdicts)
    assert script.by == pytest.approx([0.0, -0.014, -0.002])
    assert found.best.objective == 0.9
    found, _ = scripted([(1.0, -0.02, -0.02), (0.8, 0.01, 0.01), (0.7, 0.02, 0.02), (0.1, 0.0, 0.0)])
    assert (found.best.objective, found.n_rounds) == (1.0, 2)


@pytest.mark.parametrize("case", [{"share": 0.0}, {"give_back": False}])
def test_slack_is_left_alone_where_it_buys_nothing(case: dict[str, Any]) -> None:
    found, _ = scripted([(1.0, -0.02, -0.02)], **case)
    assert found.n_rounds == 0


def test_tiny_slack_is_not_worth_a_round() -> None:
    assert scripted([(1.0, -0.0019, -0.0019)])[0].n_rounds == 0


def test_the_last_rounds_push_every_bound() -> None:
    _, script = scripted([(1.0, 1e-3, 1e-3)] * 4, rounds=3)
    np.testing.assert_allclose(np.diff(script.by), [0.0012, 0.0032, 0.0032], rtol=1e-12)


def test_the_best_candidate_is_kept_and_not_the_last() -> None:
    found, _ = scripted([(1.0, 0.05, 0.05), (1.2, 0.0, -0.02), (1.1, 0.03, 0.03), (0.9, 0.1, 0.1)], rounds=3)
    assert (found.best.objective, found.best.violation, found.best.w[0]) == (1.2, 0.0, 2.0)
    found, _ = scripted([(1.0, 0.05, 0.05), (0.5, 0.08, 0.08), (2.0, 0.04, 0.04)], rounds=2)
    assert found.best.objective == 2.0


def test_a_multiplier_at_the_penalty_raises_the_penalty() -> None:
    """There the elastic problem no longer looks at the bound: tightening it alone would repeat the same round."""
    verdicts = [(1.0, 0.05, 0.05), (1.0, 0.04, 0.04), (1.1, 0.0, 0.0)]
    _, script = scripted(verdicts, share=1.0, rhos=(1.0, 3.0, 10.0))
    assert script.rho == [1.0, 3.0, 10.0]
    _, script = scripted(verdicts, share=0.9, rhos=(1.0, 3.0, 10.0))
    assert script.rho == [1.0, 1.0, 1.0]
    found, script = scripted(verdicts, share=1.0, rhos=(1.0, 3.0))
    assert script.rho == [1.0, 3.0]
    assert found.best.objective == 1.0
    assert scripted([(1.0, 0.05, 0.05)], share=1.0)[0].n_rounds == 0  # nothing left to try


def test_a_saturated_bound_that_is_met_does_not_end_the_rounds() -> None:
    assert scripted([(1.0, -0.02, -0.02), (0.9, 0.0, 0.0)], share=1.0)[1].rho == [1.0, 1.0]


def test_rounds_keep_the_penalty_that_made_the_bounds_hold() -> None:
    """A penalty of 10 that was needed to meet the ramp bounds must not be given up in the rounds."""
    problem, _, _ = random_ramp_problem(4, 80, 3, 2)
    used: list[float] = []

    def convex(sub: Any, *, rho: float, **options: Any) -> ConvexResult:
        used.append(rho)
        return newton.solve(sub, rho=rho, **options)

    judge_hard = deterministic(problem, [])

    def judge(solution: RampResult) -> Candidate:
        used.append(0.0)
        return replace(judge_hard(solution), excess=np.array([0.01, 0.01]), before_shift=np.array([0.01, 0.01]))

    enforce(problem, convex, pool_of(judge), MajorizeOptions(rhos=(10.0, 100.0)), rounds=2)
    assert set(used[used.index(0.0) :]) == {0.0, 10.0}


def interrupting(at: Callable[[Progress], bool]) -> Budget:
    def callback(progress: Progress) -> None:
        if at(progress):
            raise KeyboardInterrupt

    return Budget(callbacks=(callback,))


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (lambda p: p.stage == "tighten" and p.iteration == 2, 1.2),
        (lambda p: p.stage == "majorise" and p.objective <= -2.0, 1.2),
        (lambda p: p.stage == "majorise" and p.objective <= -1.0, 1.1),
    ],
)
def test_an_interrupt_keeps_the_best_so_far(at: Callable[[Progress], bool], expected: float) -> None:
    budget = interrupting(at)
    found, _ = scripted([(1.0, 0.05, 0.05), (1.1, 0.04, 0.04), (1.2, 0.03, 0.03), (1.3, 0.0, 0.0)], budget=budget)
    assert budget.interrupted
    assert found.best.objective == expected


def test_a_spent_budget_ends_with_the_first_candidate() -> None:
    found, _ = scripted([(1.0, 0.05, 0.05)], budget=Budget(seconds=0.0))
    assert (found.best.objective, found.n_rounds) == (1.0, 0)


def test_rounding_is_no_violation() -> None:
    found, _ = scripted([(1.0, 0.9e-10, 0.9e-10)])
    assert (found.best.violation, found.n_rounds) == (0.0, 0)


class Scribe:
    """Moves that note what they were asked, and give candidates of a given objective and excess."""

    def __init__(self, between: tuple[float, float] | None = None, polished: tuple[float, float] | None = None) -> None:
        self.given, self.polished = between, polished
        self.asked: list[str] = []

    def between(self, one: Candidate, other: Candidate) -> Candidate:
        self.asked.append(f"between {one.objective} and {other.objective}")
        return one if self.given is None else self.made(one, self.given)

    def polish(self, candidates: Sequence[Candidate], budget: Budget) -> list[Candidate]:
        self.asked.append(f"polish {candidates[0].objective}")
        return [] if self.polished is None else [self.made(candidates[0], self.polished)]

    @staticmethod
    def made(like: Candidate, numbers: tuple[float, float]) -> Candidate:
        return replace(like, objective=numbers[0], excess=np.array([numbers[1]]), how="moved")


def test_between_two_rounds_lies_a_better_one_that_does_not_steer_the_rounds() -> None:
    verdicts = [(1.0, -0.02, -0.02), (0.8, 0.01, 0.01), (0.9, -0.001, -0.001)]
    moves = Scribe(between=(0.85, 0.0))
    found, script = scripted(verdicts, moves=moves)
    assert moves.asked == ["between 1.0 and 0.8", "between 1.0 and 0.9", "polish 0.85"]
    assert (found.best.objective, found.best.how) == (0.85, "moved")
    assert script.by == scripted(verdicts)[1].by


@pytest.mark.parametrize("narrow_first", [True, False])
def test_of_equal_rates_the_wider_margins_stay(narrow_first: bool) -> None:
    problem, _, _ = random_ramp_problem(0, 30, 2, 1)
    solution, excess = minimise_ramp(problem, newton.solve, OPTIONS), np.zeros(1)
    narrow, wide = (Candidate(size * np.ones(2), 0.0, 0.2, excess, excess, False, solution) for size in (2.0, 1.0))
    better = Candidate(np.full(2, 9.0), 0.0, 0.1, excess, excess, False, solution)
    pool = pool_of(lambda _: narrow)
    for candidate in (narrow, wide) if narrow_first else (wide, narrow):
        pool.add(candidate)
    assert pool.members == [wide] and pool.best is wide
    pool.add(better)
    pool.add(wide)
    assert pool.members == [better]


def test_the_best_of_all_rounds_is_polished() -> None:
    missed = [(1.0, 0.01, 0.01)] * 9
    moves = Scribe(polished=(1.3, 0.0))
    found, _ = scripted(missed, moves=moves)
    assert moves.asked[-1] == "polish 1.0"
    assert (found.best.objective, found.best.violation) == (1.3, 0.0)
    moves = Scribe(polished=(1.2, 0.0))  # no better than what a round has met
    assert scripted([(1.0, 0.01, 0.01), (1.1, 0.0, 0.0)], moves=moves)[0].best.objective == 1.1
    moves = Scribe(polished=(0.1, 0.0))
    assert scripted(missed, moves=moves, budget=Budget(seconds=0.0))[0].best.violation > 0.0
    assert moves.asked == []


def test_bounds_missed_by_far_at_a_large_penalty_get_no_rounds() -> None:
    far = [(1.0, 0.03, 0.03)] * 9
    assert scripted(far, share=1.0, rhos=(10.0, 100.0))[0].n_rounds == 0
    assert scripted(far, share=0.5, rhos=(10.0, 100.0))[0].n_rounds == 8
    assert scripted(far, share=1.0, rhos=(1.0, 3.0, 10.0))[0].n_rounds > 0


def test_a_known_solution_is_not_sought_again() -> None:
    problem, _, _ = random_ramp_problem(3, 200, 4, 2, lam=5e-3)
    judge = deterministic(problem, [])
    known = minimise_ramp(problem, newton.solve, OPTIONS)
    again = enforce(problem, newton.solve, pool_of(judge), OPTIONS, first=known)
    fresh = enforce(problem, newton.solve, pool_of(judge), OPTIONS)
    np.testing.assert_array_equal(again.best.w, fresh.best.w)
    warm = enforce(
        problem, newton.solve, pool_of(judge), OPTIONS, start=(known.w, known.b), state=known.subproblem.state
    )
    assert warm.n_iter < fresh.n_iter
