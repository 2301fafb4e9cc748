"""Small problems of margin pursuit, and their exact solution by Newton steps on formulas written out."""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import CatoniLoss
from widemargin.problems.margin_pursuit import MarginPursuitProblem


def task(n=120, d=6, seed=0, sparse=False, dtype=np.float64):
    """Rows of two classes that overlap, some of them far out, with labels of both kinds wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.3, 3.0, d)
    X[:, 0] += 1.0
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0.5, 1.0, -1.0)
    X[: n // 20] *= 4.0
    if sparse:
        X[rng.random(X.shape) < 0.6] = 0.0
        return sp.csr_matrix(X.astype(dtype)), y
    return np.ascontiguousarray(X.astype(dtype)), y


def problem(X, y, *, lam=0.01, loss=None, fit_intercept=True, weight=None):
    """The problem of rows, of equal weights if none are given."""
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    total = float(weight.sum())
    rows = RowBlocks([(X, None)])
    return MarginPursuitProblem(rows, y, weight / total, total, lam, loss or CatoniLoss(), fit_intercept)


def exact(given):
    """Point and value of the optimum, to rounding: a trust-region Newton method with exact second derivatives."""
    (block,) = given.rows.blocks
    X = np.asarray(block.X.toarray() if sp.issparse(block.X) else block.X, dtype=np.float64)
    Z = np.column_stack([X, np.ones(len(X))]) if given.fit_intercept else X
    penalty = np.full(Z.shape[1], given.lam)
    penalty[X.shape[1] :] = 0.0

    def value(v):
        return 0.5 * penalty @ v**2 + given.share @ given.loss.value(given.y * (Z @ v))

    def gradient(v):
        return penalty * v + Z.T @ (given.share * given.y * given.loss.slope(given.y * (Z @ v)))

    def hessian(v):
        return np.diag(penalty) + (Z.T * (given.share * given.loss.curvature(given.y * (Z @ v)))) @ Z

    options = {"gtol": 1e-13, "maxiter": 2000}
    found = minimize(value, np.zeros(Z.shape[1]), jac=gradient, hess=hessian, method="trust-exact", options=options).x
    for _ in range(50):  # the differences of values that the trust region goes by lose the last digits
        slope = gradient(found)
        ridge = np.linalg.norm(slope) * np.eye(len(found))
        better = found - np.linalg.solve(hessian(found) + ridge, slope)
        if np.linalg.norm(gradient(better)) >= np.linalg.norm(slope):
            break
        found = better
    assert np.linalg.norm(gradient(found)) < 1e-10
    return found, float(value(found))
