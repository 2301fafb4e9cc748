"""The steps of fitting a rate-constrained model, from checked data to the best model found.

goal + data -> TiedGoal -> RateConstrainedProblem -> majorisation with a convex solver -> tightening -> Trained
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widemargin._typing import Floats
from widemargin.distributed.blocks import BlockedRows
from widemargin.estimators.feature_space import ColumnSpace, GramSpace
from widemargin.estimators.rate_constrained.measures import BlockedDeterministic, Deterministic, Randomized
from widemargin.exceptions import DataError
from widemargin.goals.binding.bind import TiedGoal
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.convex.convex_step import SOLVERS, ConvexStep, KernelStep
from widemargin.solvers.ramp.feasibility import Diagnosis, diagnose
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampResult
from widemargin.solvers.ramp.second_start import enforce_from_two_starts
from widemargin.solvers.ramp.tightening import Candidate, Enforced, Measures, enforce

__all__ = [
    "SOLVERS",
    "Trained",
    "make_measures",
    "refuse_overflow",
    "result_status",
    "step_plan",
    "train",
    "train_problem",
    "with_solver",
]

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
        """Multipliers in objective per unit of the tied goal's bounds."""
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
    tied: TiedGoal,
    matrices: Sequence[Any],
    space: ColumnSpace,
    *,
    lam: float,
    fit_intercept: bool,
    enforcement: str,
    solver: str,
    options: MajorizeOptions,
    start: tuple[Floats, float] | None = None,
    explain: bool = True,
    budget: Budget,
) -> Trained:
    """Train on a tied goal.

    Parameters
    ----------
    tied : TiedGoal
    matrices : sequence of matrices
        Features of each source of `bound`.
    space : ColumnSpace
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
    explain : bool, default=True
        Whether to find out why the bounds are missed, where they are.
    budget : Budget

    Returns
    -------
    Trained
    """
    flat = build_problem(tied, space.features(matrices), lam, fit_intercept=fit_intercept)
    problem, convex = with_solver(flat, space, solver)
    return train_problem(
        problem, convex, convex.used, enforcement=enforcement, options=options, start=start, explain=explain,
        budget=budget,
    )  # fmt: skip


def with_solver(
    problem: RateConstrainedProblem, space: ColumnSpace, solver: str
) -> tuple[RateConstrainedProblem, ConvexStep]:
    """The problem to solve in a space, and its convex solver."""
    if not isinstance(space, GramSpace):
        return problem, ConvexStep(solver, problem.n_features)
    assert isinstance(problem.rows, RowBlocks)
    rows = space.gram(problem.rows, solver)
    return replace(problem, rows=rows), KernelStep(solver, rows)


def train_problem(
    problem: Any,
    convex: ConvexSolver,
    used: Sequence[str],
    *,
    enforcement: str,
    options: MajorizeOptions,
    start: tuple[Floats, float] | None = None,
    explain: bool = True,
    budget: Budget,
) -> Trained:
    """Train on a problem with its convex solver; `used` names those that it called. Else as `train`."""
    measures, hard = make_measures(problem, enforcement)
    give_back = measures is hard
    search = enforce_from_two_starts(
        problem, convex, measures, options, hard=hard, give_back=give_back, start=start, budget=budget
    )
    if start is not None:
        search = replace(search, best=_or_start(search.best, *start, measures))
    diagnosis = None
    if explain and search.best.violation > 0.0 and not budget.exhausted:
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
    return Trained(search, problem, result_status(search.best, budget), tuple(used), diagnosis)


def _or_start(best: Candidate, w: Floats, b: float, measures: Measures) -> Candidate:
    """The best model found, or the one that the search started from where that is no worse."""
    excess = measures.excess(w, b)
    itself = replace(
        best, w=w, b=b, objective=measures.objective(w, b), excess=excess, before_shift=excess, shifted=True,
        how="the model is the one that the search started from",
    )  # fmt: skip
    return itself if itself.beats(best) else best


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


def make_measures(problem: RateConstrainedProblem, enforcement: str) -> tuple[Measures, Measures]:
    """The rates that are enforced, and the 0/1 rates; the same object where these are enforced."""
    hard = BlockedDeterministic(problem) if isinstance(problem.rows, BlockedRows) else Deterministic(problem)
    return (hard if enforcement == "deterministic" else Randomized(problem)), hard


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
