"""What a kernel solver returns: its looks and best iterate on record, and a certificate in double precision.

Kernel values in single precision are those of another problem: at a large C its optimum is not the user's. The scores
of all rows in double precision may cost more than the run, and most do not matter: the certificate knows only on which
side of its margin a row is whose coefficient is at its bound. So a bound of the rounding tells which rows are on their
side for certain, and the scores of the others are computed in double precision.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from widemargin._typing import Bools, Floats, Ints
from widemargin.solvers.base import Budget, Recorder, relative_gap
from widemargin.solvers.kernel_svm.problem import (
    KernelMatrix,
    KernelProblem,
    KernelResult,
    TiledMatrix,
    significantly_negative,
)
from widemargin.solvers.kernel_svm.stopping import HoldOut

__all__ = ["ExactMatrix", "KernelRecorder", "Schedule", "certified", "exact_scores", "near_scores"]


@dataclass(frozen=True)
class Schedule:
    """When a run is looked at.

    Attributes
    ----------
    ratio : float, default=1.1
        Kernel evaluations between two looks, as a factor. A look costs a pass over the scores, so a tenth more rows of
        the kernel matrix outweigh it.
    rough : float, default=1
        Violation above which the error on rows held out says nothing yet: margins are still off by more than
        themselves. That is the distance between two sides; without a bias there is one, and half of it. `w = 0` is
        above either.
    head_start_rows, head_start_share : int, default=64, 10
        The hold-out rule counts work from below zero: so many kernel rows, or one for so many of all rows. It ends a
        run whose work has doubled in vain, and two steps are twice as many as one.
    cached_step : float, default=0.1
        A step counts as so much of a kernel row, besides the rows that are computed: work goes on once all are cached.
    """

    ratio: float = 1.1
    rough: float = 1.0
    head_start_rows: int = 64
    head_start_share: int = 10
    cached_step: float = 0.1


class KernelRecorder(Recorder[tuple[Floats, Floats]]):
    """The recorder of a kernel solver: it looks as the work grows, applies the hold-out rule, and makes the result.

    Its points are pairs of `coef` and `scores = K coef`. The best point is what a run returns that ends before it has
    converged: the last one may be far worse where C is large, as the dual rises with every step and the primal does not
    fall with it.

    Parameters
    ----------
    stage : str
        Name of the solver for callbacks.
    tol : float or None
        None: the rule of rows held out ends the run.
    copy : callable, optional
        Of the present point, for `point`; by default of the two arrays that are handed over.

    Attributes
    ----------
    history : list of dict
        `iteration`, `seconds`, `evaluations` (since the counter of the rows began), what the solver knows, and
        `held_out_error` where rows are held out.
    rule : HoldOut or None
        With the iterate of the least error.

    Raises
    ------
    CapabilityError
        If `tol` is None and no row is held out.
    """

    def __init__(
        self, problem: KernelProblem, stage: str, budget: Budget, tol: float | None, schedule: Schedule = Schedule(),
        copy: Callable[[tuple[Floats, Floats]], tuple[Floats, Floats]] | None = None,
    ) -> None:  # fmt: skip
        copy = copy or (lambda point: (point[0].copy(), point[1].copy()))
        super().__init__(stage, budget, 0.0 if tol is None else tol, copy)
        held_out = HoldOut(problem) if tol is None or (problem.upper == 0.0).any() else None
        self.rule, self._errors = held_out if tol is None else None, held_out
        self._problem, self._stage, self._schedule = problem, stage, schedule
        # Several problems may count on the same rows, so the work is a difference.
        self._first, self._next, self._later = problem.rows.evaluations, 0.0, 0.0
        n = problem.n_rows
        self._head_start = n * max(schedule.head_start_rows, n // schedule.head_start_share)
        # Without a bias the violation has one side, so half as much is as rough.
        self._rough = schedule.rough if problem.fit_intercept else 0.5 * schedule.rough

    @property
    def work(self) -> int:
        """Kernel evaluations of this run so far."""
        return self._problem.rows.evaluations - self._first

    def due(self, iteration: int) -> bool:
        """Whether the schedule asks for a look: by the work or, where the cache saves all of it, by the iterations."""
        return self.work >= self._next or iteration >= self._later

    def watch(
        self, iteration: int, coef: Floats, scores: Floats, intercept: float, facts: dict[str, float], *,
        judge: bool = True,
    ) -> bool:  # fmt: skip
        """Write down what is known, tell the callbacks; True if the hold-out rule ends the run.

        Parameters
        ----------
        coef, scores : ndarray of shape (n,)
            `scores = K coef`.
        facts : dict
            `primal`, `dual`, `violation`, as far as they are known. The hold-out rule does not judge an iterate of a
            violation above `Schedule.rough`.
        judge : bool, default=True
            Whether the hold-out rule may judge this iterate: False where the solver knows that it is too rough.
        """
        # Once all kernel rows are cached the work stands still, and the iterations decide.
        self._next = self._schedule.ratio * self.work
        self._later = self._schedule.ratio * iteration + self._problem.n_rows
        self.note(coef, scores, {"iteration": float(iteration)} | facts)
        if self._errors is not None:
            self.history[-1]["held_out_error"] = self._errors.error(scores, intercept)
        primal, dual = facts.get("primal", np.nan), facts.get("dual", np.nan)
        # Solvers that leave rows out know no primal value: their gap is NaN.
        gap = relative_gap(primal, dual)
        self.budget.tell(self._stage, iteration, dual, gap, facts.get("violation", np.nan))
        if self.rule is None or not judge or facts.get("violation", 0.0) > self._rough:
            return False
        # Steps on cached rows are work too, or a run that needs no new rows would never end.
        steps = self._schedule.cached_step * self._problem.n_rows * iteration
        return self.rule.look(self._head_start + self.work + steps, coef, scores, intercept)

    def note(self, coef: Floats, scores: Floats, facts: dict[str, float]) -> None:
        """Write an entry of the history, and remember the iterate if its `primal` is known and the least."""
        spent = {"seconds": self.budget.elapsed, "evaluations": float(self._problem.rows.evaluations)}
        self.history.append(spent | facts)
        self.offer(facts.get("primal", math.nan), (coef, scores))  # NaN is never the least
        self.bound(facts.get("dual", -math.inf))

    def restore(self, primal: float, coef: Floats, scores: Floats) -> bool:
        """Overwrite an iterate of this primal value by the best one, where that is better."""
        if self.point is None or not self.primal < primal:
            return False
        coef[:], scores[:] = self.point
        return True

    def finish(
        self, coef: Floats, scores: Floats, rounds: int, *, ended: bool = False, limit: float | None = None
    ) -> KernelResult:
        """The result, with the best intercept and the certificate.

        Where the violation is above `limit`, by default the tolerance, the best model that was looked at takes the
        place of a worse last one, in `coef` and `scores` too; its primal value is bounded by the largest dual value.
        Without a tolerance a run has converged where it `ended` by itself, and the rule of rows held out knows the best
        model if it has judged one.
        """
        problem, limit = self._problem, self.tol if limit is None else limit
        if self.rule is not None:  # where it decides, it alone says whether the run has converged
            limit = np.inf if ended else -1.0
            if self.rule.best is not None:
                coef[:], scores[:] = self.rule.best.coef, self.rule.best.scores
                self.point, self.primal, self.dual = None, np.inf, -np.inf
        intercept = problem.optimal_bias(scores)
        at = problem.values(coef, scores, intercept)
        # The violation is measured at the end, whatever the solver thought of its last step.
        dual, converged = at.dual, at.violation <= limit
        if not converged:
            if self.restore(at.primal, coef, scores):
                intercept = problem.optimal_bias(scores)
                at = problem.values(coef, scores, intercept)
            dual = max(dual, self.dual)
        # Steps along pairs need not meet what makes a kernel indefinite; the norm of the solution may.
        square, size = float(coef @ scores), float(np.abs(coef).sum()) ** 2
        indefinite = square < 0.0 and significantly_negative(
            square, size * float(np.abs(problem.rows.diagonal()).max())
        )
        return KernelResult(
            coef, intercept, at.primal, dual, at.violation, self.budget.status(converged=converged), rounds,
            problem.rows.evaluations, self.budget.elapsed, tuple(self.history), indefinite, scores,
        )  # fmt: skip


class ExactMatrix(KernelMatrix, Protocol):
    """A kernel matrix that can be had in double precision, and in spatial order (`kernels.rows.KernelRows`)."""

    def in_double(self, rows: Ints, cache_size: float) -> "ExactMatrix":
        """That of some of the rows; the megabytes of its cache are raised to two rows."""

    def tiles(self, rows: Ints, dtype: npt.DTypeLike, reach: float) -> TiledMatrix:
        """Some of the rows, without values below `2^-reach`."""


def certified(
    problem: KernelProblem, result: KernelResult, exact: Callable[[Floats, Ints], Floats], doubt: Floats,
    left_out: float = 0.0, known: Bools | None = None,
) -> tuple[KernelResult, Bools]:  # fmt: skip
    """The result with a violation and a gap that hold for the kernel values in double precision; its exact scores.

    Parameters
    ----------
    result : KernelResult
        Of a solver that knows its scores and its violation; any other is returned as it is.
    exact : callable
        `exact(coef, rows)`: scores of some rows in double precision (`exact_scores`, `near_scores`).
    doubt : ndarray of shape (n,)
        Bound of the error of each score as the run had it; infinity: unknown.
    left_out : float, default=0.0
        Bound of the error of those scores in double precision.
    known : ndarray of bool, shape (n,), optional
        Rows whose score is one of those already.
    """
    coef, y, upper, intercept = result.coef, problem.y, problem.upper, result.intercept
    known = np.zeros(coef.shape[0], dtype=bool) if known is None else known
    if result.scores is None or not np.isfinite(result.violation):
        return result, known
    if result.stale is not None:
        doubt, known = doubt + result.stale, known & (result.stale == 0.0)
    scores, known = result.scores.copy(), known | (upper == 0.0)  # rows held out have no cost, and no side
    at_zero, at_bound = coef == 0.0, np.abs(coef) >= upper
    while True:  # the bias moves with the scores, and with it the rows that could be on the other side
        margin = y * (scores + intercept)
        settled = (at_zero & (margin - doubt > 1.0)) | (at_bound & (margin + doubt < 1.0))
        rows = np.flatnonzero(~(settled | known))
        if not rows.shape[0]:
            break
        scores[rows] = exact(coef, rows)
        known[rows] = True
        intercept = problem.optimal_bias(scores)
    primal, dual, _ = problem.values(coef, scores, intercept)
    # `primal - dual` does not depend on the other scores. Their gradients decide the violation only where it is nearly
    # 0, and count as if they were off to the worse side: towards the margin.
    error = np.where(known, left_out, doubt)
    worse = y * np.where(at_zero, -error, error)
    primal += left_out * float(upper.sum())
    violation = problem.values(coef, scores + worse, intercept).violation + 2.0 * left_out
    made = replace(
        result, intercept=intercept, primal=primal, dual=dual, violation=violation, scores=scores, stale=None
    )
    return made, known & (upper > 0.0)


def exact_scores(matrix: ExactMatrix, index: Ints, cache_size: float, coef: Floats, rows: Ints) -> Floats:
    """`K[rows] coef` in double precision, shape (len(rows),), with K of the rows `index` of the matrix."""
    support, wanted = np.flatnonzero(coef), coef != 0.0
    wanted[rows] = True
    both, scores = np.flatnonzero(wanted), np.zeros(rows.shape[0])
    exact = matrix.in_double(index[both], cache_size)
    exact.add(np.searchsorted(both, support), coef[support], scores, np.searchsorted(both, rows))
    return scores


def near_scores(
    matrix: ExactMatrix, index: Ints, cache_size: float, coef: Floats, rows: Ints, *, reach: float
) -> Floats:
    """The same without the kernel values below `2^-reach`: most, where a Gaussian kernel is narrow.

    Their sum is at most `2^-reach sum |coef|`.
    """
    support = np.flatnonzero(coef)
    both = np.union1d(rows, support)
    tiles = matrix.in_double(index[both], cache_size).tiles(np.arange(both.shape[0]), np.float64, reach)
    moved, scores = coef[both[tiles.order]], np.zeros(both.shape[0])
    places = np.flatnonzero(moved)
    tiles.add(places, moved[places], scores)
    of_row = np.empty(both.shape[0])
    of_row[tiles.order] = scores
    return of_row[np.searchsorted(both, rows)]
