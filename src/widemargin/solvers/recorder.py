"""How every run is watched: its history, its best point, its best lower bound, its callbacks, and why it ended."""

import math
from collections.abc import Callable
from typing import Generic, TypeVar

from widemargin.solvers.base import Budget, Status

__all__ = ["Recorder", "end_status", "relative_gap"]

Point = TypeVar("Point")


def end_status(budget: Budget, *, converged: bool) -> Status:
    """Why a run ended. Ctrl-C comes first: its result must be marked even where the gap has closed meanwhile."""
    if budget.interrupted:
        return Status.INTERRUPTED
    if converged:
        return Status.CONVERGED
    if budget.stopped:
        return Status.STOPPED
    return Status.TIME_LIMIT if budget.exhausted else Status.MAX_ITER


def relative_gap(primal: float, dual: float, *, floor: float = 1e-300) -> float:
    """`(primal - dual) / |primal|`; 1 where the objective is infinite, so that nothing is known of it.

    `floor` is the least size of an objective that is worth a relative accuracy.
    """
    return 1.0 if math.isinf(primal) else (primal - dual) / max(abs(primal), floor)


class Recorder(Generic[Point]):
    """The best point and the best lower bound of a run, and what was known at every look.

    A solver offers the points whose objective it knows and the lower bounds that it proves, and calls `look` where it
    can afford a look. The last point of a run may be far worse than the best one, which is why the best is kept.

    Parameters
    ----------
    stage : str or None
        Name of the solver for callbacks; None where the callbacks are told by whoever calls the solver.
    budget : Budget
    tol : float
        Relative gap at which the run has converged.
    copy : callable
        Copies a point, so that the solver may go on changing its own.

    Attributes
    ----------
    point : Point or None
        The point of the least objective.
    primal : float
        Its objective; infinite before the first offer.
    dual : float
        The largest lower bound.
    history : list of dict
        An entry per look: `iteration`, `seconds`, `primal`, `dual` and what the solver adds.
    """

    def __init__(self, stage: str | None, budget: Budget, tol: float, copy: Callable[[Point], Point]) -> None:
        self.stage, self.budget, self.tol = stage, budget, tol
        self.point: Point | None = None
        self.primal, self.dual = float("inf"), float("-inf")
        self.history: list[dict[str, float]] = []
        self._copy, self._began = copy, budget.elapsed

    def offer(self, primal: float, point: Point) -> bool:
        """Keep a copy of a point if its objective is the least so far; whether it was."""
        if not primal <= self.primal:
            return False
        self.primal, self.point = primal, self._copy(point)
        return True

    def bound(self, dual: float) -> None:
        """Take in a lower bound of the optimum."""
        self.dual = max(self.dual, dual)

    @property
    def gap(self) -> float:
        """`(primal - dual) / |primal|`."""
        return relative_gap(self.primal, self.dual)

    @property
    def seconds(self) -> float:
        """Since the recorder was made."""
        return self.budget.elapsed - self._began

    def look(self, iteration: int, *, violation: float = 0.0, **facts: float) -> bool:
        """Write an entry and tell the callbacks; True where the gap is closed."""
        entry = {
            "iteration": float(iteration),
            "seconds": self.budget.elapsed,
            "primal": self.primal,
            "dual": self.dual,
        }
        self.history.append(entry | facts)
        if self.stage is not None:
            self.budget.tell(self.stage, iteration, self.primal, self.gap, violation)
        return self.gap <= self.tol

    def status(self, *, converged: bool) -> Status:
        """Why the run ended."""
        return end_status(self.budget, converged=converged)
