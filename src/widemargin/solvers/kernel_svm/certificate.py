"""The certificate of a kernel SVM in double precision, whatever precision its steps used.

Kernel values in single precision are those of another problem: at a large C its optimum is not the user's. The scores
of all rows in double precision may cost more than the run, and most do not matter: the certificate knows only on which
side of its margin a row is whose coefficient is at its bound. So a bound of the rounding tells which rows are on their
side for certain, and the scores of the others are computed in double precision.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from widemargin._typing import Bools, Floats, Ints
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, KernelResult

__all__ = ["certified", "exact_scores"]


def certified(
    problem: KernelProblem, result: KernelResult, exact: Callable[[Ints], KernelMatrix], doubt: Floats
) -> tuple[KernelResult, Bools]:
    """The result with a violation and a gap that hold for the kernel values in double precision; its exact scores.

    Parameters
    ----------
    problem : KernelProblem
    result : KernelResult
        Of a solver that knows its scores and its violation; any other is returned as it is.
    exact : callable
        `exact(rows)`: the kernel matrix of some rows in double precision.
    doubt : ndarray of shape (n,)
        Bound of the error of each score as the run had it; infinity: unknown.
    """
    coef, y, upper, intercept = result.coef, problem.y, problem.upper, result.intercept
    if result.scores is None or not np.isfinite(result.violation):
        return result, np.zeros(coef.shape[0], dtype=bool)
    scores, known = result.scores.copy(), upper == 0.0  # rows held out have no cost, and no side
    at_zero, at_bound = coef == 0.0, np.abs(coef) >= upper
    while True:  # the bias moves with the scores, and with it the rows that could be on the other side
        margin = y * (scores + intercept)
        settled = (at_zero & (margin - doubt > 1.0)) | (at_bound & (margin + doubt < 1.0))
        rows = np.flatnonzero(~(settled | known))
        if not rows.shape[0]:
            break
        scores[rows] = exact_scores(exact, coef, rows)
        known[rows] = True
        intercept = problem.optimal_bias(scores)
    primal, dual, _ = problem.values(coef, scores, intercept)
    # `primal - dual` does not depend on the other scores. Their gradients decide the violation only where it is nearly
    # 0, and count as if they were off to the worse side: towards the margin.
    worse = np.where(known, 0.0, y * np.where(at_zero, -doubt, doubt))
    violation = problem.values(coef, scores + worse, intercept).violation
    made = replace(result, intercept=intercept, primal=primal, dual=dual, violation=violation, scores=scores)
    return made, known & (upper > 0.0)


def exact_scores(exact: Callable[[Ints], KernelMatrix], coef: Floats, rows: Ints) -> Floats:
    """`K[rows] coef` in double precision, shape (len(rows),)."""
    support = np.flatnonzero(coef)
    both, scores = np.union1d(rows, support), np.zeros(rows.shape[0])
    exact(both).add(np.searchsorted(both, support), coef[support], scores, np.searchsorted(both, rows))
    return scores
