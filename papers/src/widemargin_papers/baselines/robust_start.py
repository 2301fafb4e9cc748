"""Where the robust baselines start: a logistic regression on rows whose norms are clipped, and the logistic losses."""

import warnings

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils.extmath import safe_sparse_dot

from widemargin import RiskClassifier
from widemargin.exceptions import MarginConvergenceWarning
from widemargin.extending import Floats, Matrix
from widemargin_papers.baselines.linear_classifier import Task, norms2

__all__ = ["clipped_rows", "clipped_start", "logistic", "margins", "refit", "row_gradient", "weights_of"]


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


def clipped_start(task: Task, C: float, fit_intercept: bool, tol: float, max_iter: int) -> RiskClassifier:
    """A logistic regression on clipped rows; further fits of it go on from there."""
    model = RiskClassifier(
        "mean", C=C, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter, warm_start=True,
        callbacks=[lambda _: task.budget.exhausted],
    )  # fmt: skip
    return refit(model, clipped_rows(task.X, task.weight), task)


def refit(model: RiskClassifier, X: Matrix, task: Task) -> RiskClassifier:
    """Fit to the labels and weights of a task; how that ends is told by the estimator around it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MarginConvergenceWarning)
        model.fit(X, task.y, sample_weight=task.weight)
    return model


def weights_of(model: RiskClassifier) -> Floats:
    """Its weights, the intercept last."""
    return np.append(model.coef_[0], model.intercept_[0])
