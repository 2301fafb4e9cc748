"""Where the robust baselines start: a logistic regression on rows whose norms are clipped, and the logistic losses."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.utils.extmath import safe_sparse_dot

from widemargin.extending import Floats, Matrix
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.smooth.lbfgs import Coordinates
from widemargin_papers.baselines.linear_classifier import Task, norms2

__all__ = [
    "Descent", "clipped_rows", "clipped_start", "descend", "even_coordinates", "logistic", "margins", "row_gradient",
]  # fmt: skip


def logistic(m: Floats) -> tuple[Floats, Floats]:
    """Logistic losses of margins, and their slopes."""
    return np.logaddexp(0.0, -m), -expit(-m)


def margins(task: Task, w: Floats) -> Floats:
    """`y f(x)`; w has the intercept last."""
    m: Floats = task.y * (safe_sparse_dot(task.X, w[:-1]) + w[-1])
    return m


def row_gradient(task: Task, by_row: Floats, fit_intercept: bool) -> Floats:
    """`sum_i by_row_i y_i (x_i, 1)`; without an intercept its entry is 0."""
    signed = by_row * task.y
    return np.append(safe_sparse_dot(task.X.T, signed), float(signed.sum()) if fit_intercept else 0.0)


def clipped_rows(X: Matrix, weight: Floats) -> Matrix:
    """Rows whose norm is above the median one are scaled down to it: the first remedy against leverage.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
    weight : ndarray of shape (n,)
        For the median.
    """
    size = np.sqrt(norms2(X))
    order = np.argsort(size, kind="stable")
    below = np.cumsum(weight[order])
    middle = size[order[np.searchsorted(below, 0.5 * below[-1])]]
    factor = np.minimum(1.0, middle / np.maximum(size, 1e-300)) if middle > 0.0 else np.ones(size.shape[0])
    return sp.diags_array(factor) @ X if sp.issparse(X) else X * factor[:, None]


_WIDEST, _FULLEST = 1000, 400
"""Columns, and numbers in a row, up to which the products of columns take less time than they save."""


class Descent(NamedTuple):
    """Where L-BFGS ended, shape (d + 1,), its iterations, and whether it met its own rules (not a limit)."""

    w: Floats
    n_iter: int
    converged: bool


def even_coordinates(X: Matrix, share: Floats, lam: float, fit_intercept: bool) -> Coordinates:
    """Coordinates of w in which the mean logistic loss with `lam/2 |w|^2` bends alike in every direction.

    From a bound of its second derivative; where that takes too long, along the axes only.
    """
    rows, d = RowBlocks([(X, None)]), X.shape[1]
    if d > _WIDEST or rows.n_stored > _FULLEST * rows.n_rows:
        squares, _ = rows.diagonal(share)
        units = np.sqrt(0.25 * np.append(squares, float(fit_intercept)) + lam)
        units[~(units > 0.0)] = 1.0
        return Coordinates(None, units)
    bound = np.zeros((d + 1, d + 1), order="F")
    gram, sums = rows.moments(share)
    bound[:d, :d], bound[d, :d], bound[d, d] = 0.25 * gram, 0.25 * sums * fit_intercept, 0.25
    bound[np.arange(d), np.arange(d)] += lam
    return Coordinates(bound, np.empty(0))


def descend(
    function: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    place: Coordinates,
    task: Task,
    tol: float,
    max_iter: int,
) -> Descent:
    """L-BFGS on a function that returns value and gradient at w, shape (d + 1,).

    Parameters
    ----------
    function : callable
    start : ndarray of shape (d + 1,)
    place : Coordinates
    task : Task
        For its budget.
    tol : float
        Largest entry of the gradient in these coordinates.
    max_iter : int
    """

    def placed(x: Floats) -> tuple[float, Floats]:
        value, gradient = function(place.point(x))
        return value, place.gradient(gradient)

    def stop(_: Floats) -> None:
        if task.budget.exhausted:
            raise StopIteration

    options = {"maxiter": max_iter, "gtol": tol, "ftol": 1e-14}
    found = minimize(placed, place.of(start), jac=True, method="L-BFGS-B", callback=stop, options=options)
    return Descent(place.point(found.x), int(found.nit), bool(found.success) and not task.budget.exhausted)


def clipped_start(task: Task, lam: float, fit_intercept: bool, max_iter: int) -> Descent:
    """Minimiser of `lam/2 |w|^2 + mean logistic loss` on clipped rows, the intercept last."""
    clipped = replace(task, X=clipped_rows(task.X, task.weight))

    def value(w: Floats) -> tuple[float, Floats]:
        loss, slope = logistic(margins(clipped, w))
        gradient = row_gradient(clipped, task.share * slope, fit_intercept)
        gradient[:-1] += lam * w[:-1]
        return float(task.share @ loss) + 0.5 * lam * float(w[:-1] @ w[:-1]), gradient

    place = even_coordinates(clipped.X, task.share, lam, fit_intercept)
    return descend(value, np.zeros(task.X.shape[1] + 1), place, task, 1e-5, max_iter)
