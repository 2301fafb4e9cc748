"""The steps of fitting a rate-constrained model, from checked data to the best model found.

goal + data -> BoundGoal -> RateConstrainedProblem -> majorisation with a convex solver -> tightening -> Trained
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from widemargin.estimators._rate_constrained_measures import Deterministic, Randomized
from widemargin.estimators._rate_constrained_space import LinearSpace
from widemargin.goals.binding import BoundGoal
from widemargin.linalg.cells import Floats
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.choice import SOLVERS
from widemargin.solvers.feasibility import Diagnosis, diagnose
from widemargin.solvers.majorize import MajorizeOptions, RampResult
from widemargin.solvers.second_start import enforce_from_two_starts
from widemargin.solvers.tightening import Candidate, Enforced, Measures, enforce

__all__ = ["SOLVERS", "Trained", "train"]


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
    diagnosis : Diagnosis or None
        Why the bounds are missed, where they are and the budget was left for finding out.
    """

    search: Enforced
    problem: RateConstrainedProblem
    status: Status
    solvers: tuple[str, ...]
    diagnosis: Diagnosis | None = None

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
    start: tuple[Floats, float] | None = None,
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
    start : (w, b), optional
        First point of the search; it stays a candidate.
    budget : Budget

    Returns
    -------
    Trained
    """
    flat = build_problem(bound, space.features(matrices), lam, fit_intercept=fit_intercept)
    problem, convex = space.lift(flat, solver)
    by_rates = Deterministic(problem)
    give_back = enforcement == "deterministic"
    measures = by_rates if give_back else Randomized(problem)
    search = enforce_from_two_starts(
        problem, convex, measures, options, hard=by_rates, give_back=give_back, start=start, budget=budget
    )
    if start is not None:
        search = replace(search, best=_or_start(search.best, *start, measures))
    diagnosis = None
    if search.best.violation > 0.0 and not budget.exhausted:
        try:
            diagnosis = diagnose(problem, convex, type(measures), search.best, budget=budget)
            search = replace(search, best=diagnosis.best)
            if search.best.violation <= 0.0:  # one of its searches met everything: start from there
                found = search.best.w, search.best.b
                again = enforce(
                    problem, convex, measures.judge, options, give_back=give_back, moves=measures.moves, start=found,
                    budget=budget,
                )  # fmt: skip
                search, diagnosis = search.followed_by(again), None
        except KeyboardInterrupt:  # outside the descents, which keep what they have themselves
            budget.interrupted = True
    return Trained(search, problem, _status(search.best, budget), tuple(space.used), diagnosis)


def _or_start(best: Candidate, w: Floats, b: float, measures: Measures) -> Candidate:
    """The best model found, or the one that the search started from where that is no worse."""
    excess = measures.excess(w, b)
    itself = replace(
        best, w=w, b=b, objective=measures.objective(w, b), excess=excess, before_shift=excess, shifted=True,
        how="the model is the one that the search started from",
    )  # fmt: skip
    return itself if itself.beats(best) else best


def _status(best: Candidate, budget: Budget) -> Status:
    if budget.interrupted:
        return Status.INTERRUPTED
    if budget.stopped:
        return Status.STOPPED
    if budget.exhausted:
        return Status.TIME_LIMIT
    if best.violation > 0.0:
        return Status.INFEASIBLE
    return Status.CONVERGED if best.solution.status == Status.INFEASIBLE else best.solution.status
