"""The steps of fitting a rate-constrained model, from checked data to the best model found.

goal + data -> BoundGoal -> RateConstrainedProblem -> majorisation with a convex solver -> tightening -> Trained
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widemargin.estimators._rate_constrained_space import LinearSpace
from widemargin.exceptions import DataError
from widemargin.goals.binding import BoundGoal
from widemargin.linalg.cells import Floats
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.choice import SOLVERS
from widemargin.solvers.majorize import MajorizeOptions, RampResult
from widemargin.solvers.second_start import enforce_from_two_starts
from widemargin.solvers.threshold_sweep import best_threshold
from widemargin.solvers.tightening import Candidate, Enforced, Judge

__all__ = ["SOLVERS", "Trained", "make_judges", "refuse_overflow", "result_status", "step_plan", "train"]

_CONTINUE_FROM = 1.0  # C
_CONTINUED_SLOPES = (30.0, 5.0)  # lambda times n


@dataclass(frozen=True)
class Trained:
    """What training found.

    Attributes
    ----------
    search : Enforced
    problem : RateConstrainedProblem
    status : Status
    solvers : tuple of str
        The convex solvers that were used.
    """

    search: Enforced
    problem: RateConstrainedProblem
    status: Status
    solvers: tuple[str, ...]

    @property
    def best(self) -> Candidate:
        """The best model."""
        return self.search.best

    @property
    def solution(self) -> RampResult:
        """The ramp solution behind the model."""
        return self.best.solution

    @property
    def met(self) -> bool:
        """Whether the enforced rates meet every bound on the training rows."""
        return self.best.violation <= 0.0

    def linear_multipliers(self) -> Floats:
        """Multipliers in objective per unit of the bound goal's bounds."""
        return self.problem.multipliers_to_goal(self.solution.multipliers)


def step_plan(C: float, max_steps: int, tol: float, step_tol: float) -> MajorizeOptions:
    """The steps of majorisation from a constant start.

    With a weak regulariser (C >= 1) the first three steps make way for two at lambda = 30 / n and two at 5 / n (slope
    continuation): on a9a 10% to 40% fewer Newton steps and a lower objective, at C = 1, 2 and 10. With a stronger one
    it was measured to change nothing.
    """
    plain = MajorizeOptions(steps=max_steps - 1, tol=tol, loose_tol=step_tol)
    if C < _CONTINUE_FROM or max_steps < 5:
        return plain
    asked = 2.0 / C
    return replace(plain, steps=max_steps - 4, slopes=tuple(slope / asked for slope in _CONTINUED_SLOPES))


def train(
    bound: BoundGoal,
    matrices: Sequence[Any],
    space: LinearSpace,
    *,
    lam: float,
    fit_intercept: bool,
    enforcement: str,
    solver: str,
    options: MajorizeOptions,
    budget: Budget,
) -> Trained:
    """Train on a bound goal.

    Parameters
    ----------
    bound : BoundGoal
    matrices : sequence of matrices
        Features of each source of `bound`.
    space : LinearSpace
        What the model is linear in.
    lam : float
    fit_intercept : bool
    enforcement : {"deterministic", "randomized"}
        Whose rates have to meet the bounds on these rows.
    solver : str
        One of `SOLVERS`.
    options : MajorizeOptions
    budget : Budget

    Returns
    -------
    Trained
    """
    flat = build_problem(bound, space.features(matrices), lam, fit_intercept=fit_intercept)
    problem, convex = space.lift(flat, solver)
    judge, by_rates = make_judges(problem, enforcement)
    search = enforce_from_two_starts(
        problem, convex, judge, options, hard_judge=by_rates, give_back=judge is by_rates, budget=budget
    )
    return Trained(search, problem, result_status(search.best, budget), tuple(space.used))


@contextmanager
def refuse_overflow(matrices: Sequence[Any]) -> Iterator[None]:
    """Turn the failure of a factorisation into advice.

    Raises
    ------
    DataError
        If features are too large for double precision.
    """
    try:
        yield
    except np.linalg.LinAlgError as error:
        largest = max(float(abs(part).max()) for part in matrices)
        raise DataError(f"the solver cannot handle features as large as {largest:.3g}: scale them.") from error


def make_judges(problem: RateConstrainedProblem, enforcement: str) -> tuple[Judge, Judge]:
    """The judge of the rates that are enforced, and the one of 0/1 rates."""
    hard = _judge_deterministic(problem)
    return (hard if enforcement == "deterministic" else _judge_randomized(problem)), hard


def result_status(best: Candidate, budget: Budget) -> Status:
    """How training ended."""
    if budget.interrupted:
        return Status.INTERRUPTED
    if budget.stopped:
        return Status.STOPPED
    if budget.exhausted:
        return Status.TIME_LIMIT
    if best.violation > 0.0:
        return Status.INFEASIBLE
    return Status.CONVERGED if best.solution.status == Status.INFEASIBLE else best.solution.status


def _judge_deterministic(problem: RateConstrainedProblem) -> Judge:
    """Measure 0/1 rates, with the exact best threshold where there is an intercept to move."""

    def judge(solution: RampResult) -> Candidate:
        z = problem.scores(solution.w, solution.b)
        objective, excess = problem.values(problem.hard_mass(z))
        after, shift = excess, 0.0
        if problem.fit_intercept:
            choice = best_threshold(z, problem.weight, problem.cell, problem.coef, problem.gamma, problem.cell_weight)
            shift = choice.threshold
            if shift != 0.0:
                objective, after = problem.values(problem.hard_mass(z - shift))
        return Candidate(solution.w, solution.b + shift, objective, after, excess, shift != 0.0, solution)

    return judge


def _judge_randomized(problem: RateConstrainedProblem) -> Judge:
    """Measure ramp rates."""

    def judge(solution: RampResult) -> Candidate:
        # not solution.excess: that is measured by the tightened bounds
        objective, excess = problem.ramp_values(solution.w, problem.scores(solution.w, solution.b))
        return Candidate(solution.w, solution.b, objective, excess, excess, False, solution)

    return judge
