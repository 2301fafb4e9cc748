"""Where the robust baselines start: a logistic regression on rows whose norms are clipped, and the logistic losses."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.utils.extmath import safe_sparse_dot

from widemargin.baselines._linear import Task, norms2
from widemargin.linalg.cells import Floats

__all__ = ["clipped_rows", "clipped_start", "logistic", "margins", "row_gradient"]


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


def clipped_rows(X: Any, weight: Floats) -> Any:
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


def clipped_start(task: Task, lam: float, fit_intercept: bool, max_iter: int) -> Floats:
    """Minimiser of `lam/2 |w|^2 + mean logistic loss` on clipped rows, shape (d + 1,), the intercept last."""
    clipped = Task(clipped_rows(task.X, task.weight), task.y, task.weight, task.seed, task.budget)

    def value(w: Floats) -> tuple[float, Floats]:
        loss, slope = logistic(margins(clipped, w))
        gradient = row_gradient(clipped, task.share * slope, fit_intercept)
        gradient[:-1] += lam * w[:-1]
        return float(task.share @ loss) + 0.5 * lam * float(w[:-1] @ w[:-1]), gradient

    start = np.zeros(task.X.shape[1] + 1)
    found: Floats = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter}).x
    return found
