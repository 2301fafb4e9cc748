"""The certificate of a kernel SVM in double precision, whatever precision its steps used.

Kernel values in single precision are those of another problem: at a large C its optimum is not the user's. The scores
of all rows in double precision may cost more than the run, and most do not matter: the certificate knows only on which
side of its margin a row is whose coefficient is at its bound. So a bound of the rounding tells which rows are on their
side for certain, and the scores of the others are computed in double precision.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from widemargin._typing import Bools, Floats, Ints
from widemargin.solvers.kernel_svm.dual.spatial import TiledMatrix
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, KernelResult

__all__ = ["SpatialMatrix", "certified", "exact_scores", "near_scores"]


class SpatialMatrix(Protocol):
    """A kernel matrix whose rows can be put in spatial order (`kernels.rows.KernelRows`)."""

    def tiles(self, rows: Ints, dtype: npt.DTypeLike, reach: float) -> TiledMatrix:
        """Some of the rows, without values below `2^-reach`."""


def certified(
    problem: KernelProblem, result: KernelResult, exact: Callable[[Floats, Ints], Floats], doubt: Floats,
    left_out: float = 0.0, known: Bools | None = None,
) -> tuple[KernelResult, Bools]:  # fmt: skip
    """The result with a violation and a gap that hold for the kernel values in double precision; its exact scores.

    Parameters
    ----------
    problem : KernelProblem
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


def exact_scores(exact: Callable[[Ints], KernelMatrix], coef: Floats, rows: Ints) -> Floats:
    """`K[rows] coef` in double precision, shape (len(rows),)."""
    support = np.flatnonzero(coef)
    both, scores = np.union1d(rows, support), np.zeros(rows.shape[0])
    exact(both).add(np.searchsorted(both, support), coef[support], scores, np.searchsorted(both, rows))
    return scores


def near_scores(exact: Callable[[Ints], SpatialMatrix], coef: Floats, rows: Ints, reach: float) -> Floats:
    """The same without the kernel values below `2^-reach`: most, where a Gaussian kernel is narrow.

    Their sum is at most `2^-reach sum |coef|`.
    """
    support = np.flatnonzero(coef)
    both = np.union1d(rows, support)
    tiles = exact(both).tiles(np.arange(both.shape[0]), np.float64, reach)
    moved, scores = coef[both[tiles.order]], np.zeros(both.shape[0])
    places = np.flatnonzero(moved)
    tiles.add(places, moved[places], scores)
    of_row = np.empty(both.shape[0])
    of_row[tiles.order] = scores
    return of_row[np.searchsorted(both, rows)]
