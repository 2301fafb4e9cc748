"""The plain SVM, with extra rows that only constraints look at, by the library's own solvers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from widemargin.extending import Floats, Matrix
from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.problems.rate_constrained import RateConstrainedProblem
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, minimise_ramp

__all__ = ["LinearFit", "minimise_hinge", "minimise_ramps", "svm_problem"]

NEGATIVE, POSITIVE, FIRST_EXTRA = 0, 1, 2
"""Cells: rows of either label, then one cell for each extra row."""

RHOS = (1.0, 10.0, 100.0, 1000.0)
"""Penalty weights of the constraints, tried in turn until they hold."""

FEASIBLE = 1e-6


@dataclass(frozen=True)
class LinearFit:
    """A linear model `f(x) = <w, x> - b` and how its training ended."""

    w: Floats
    b: float
    gap: float
    status: Status
    n_iter: int


def svm_problem(
    X: Matrix,
    positive: npt.NDArray[np.bool_],
    weight: Floats | None,
    C: float,
    *,
    fit_intercept: bool,
    extra: Floats | None = None,
    bounds: Floats | None = None,
) -> RateConstrainedProblem:
    """`mean error + lam/2 |w|^2`, `lam = 2 / (n C)`, subject to `r_p(extra row j) <= bounds[j]`.

    Its first convex majoriser, at w = 0, is the SVM of scikit-learn's C: the margin is 1/2, and n the sum of weights.

    Parameters
    ----------
    X : CSR or C-contiguous matrix of shape (n, d)
    positive : ndarray of bool, shape (n,)
    weight : ndarray of shape (n,) or None
    C : float
    fit_intercept : bool
    extra : ndarray of shape (m, d), optional
        Rows without a label.
    bounds : ndarray of shape (m,), optional
        Bounds of their ramps.
    """
    extra = np.zeros((0, X.shape[1])) if extra is None else extra
    m = extra.shape[0]
    s = np.ones(X.shape[0]) if weight is None else weight
    total = float(s.sum())
    labels = np.where(positive, np.int32(POSITIVE), np.int32(NEGATIVE))
    cell = np.concatenate([labels, FIRST_EXTRA + np.arange(m, dtype=np.int32)])
    row_weight = np.concatenate([s, np.ones(m)])
    alpha0, beta0 = np.zeros(FIRST_EXTRA + m), np.zeros(FIRST_EXTRA + m)
    alpha0[NEGATIVE] = beta0[POSITIVE] = 1.0 / total
    indptr = np.concatenate([np.zeros(FIRST_EXTRA, np.int64), np.arange(m + 1, dtype=np.int64)])
    coef = CellCoefficients(alpha0, beta0, indptr, np.arange(m, dtype=np.int64), np.ones(m))
    return RateConstrainedProblem(
        rows=RowBlocks([(X, None), (extra, None)] if m else [(X, None)]),
        weight=row_weight,
        cell=cell,
        coef=coef,
        gamma=np.zeros(0) if bounds is None else bounds,
        lam=2.0 / (total * C),
        fit_intercept=fit_intercept,
        cell_weight=np.bincount(cell, row_weight, FIRST_EXTRA + m).astype(np.float64),
        objective_scale=1.0,
        constraint_scale=np.ones(m),
    )


def minimise_hinge(problem: RateConstrainedProblem, convex: ConvexSolver, tol: float, budget: Budget) -> LinearFit:
    """The convex problem whose losses and constraints are all hinges (the paper's Problem 3 at w = 0)."""
    nothing = LinearFit(np.zeros(problem.n_features), 0.0, np.inf, Status.INTERRUPTED, 0)
    sub = problem.majorise(np.zeros(problem.rows.n_rows))
    result, n_iter = None, 0
    try:
        for rho in RHOS:
            start = None if result is None else result.state
            result = convex(sub, tol=tol, start=start, rho=rho, budget=budget)
            n_iter += result.n_iter
            if budget.exhausted or float(result.violation.max(initial=0.0)) <= FEASIBLE:
                break
    except KeyboardInterrupt:
        budget.interrupted = True
    if result is None:
        return nothing
    status = Status.INTERRUPTED if budget.interrupted else result.status
    return LinearFit(result.w, result.b, result.gap, status, n_iter)


def minimise_ramps(problem: RateConstrainedProblem, convex: ConvexSolver, options: MajorizeOptions) -> LinearFit:
    """The same problem with ramps, by majorisation-minimisation from w = 0 (Algorithm 1)."""
    start = np.zeros(problem.n_features), 0.0
    found = minimise_ramp(problem, convex, options, start=start)
    return LinearFit(found.w, found.b, found.subproblem.gap, found.status, found.n_iter)
