"""Exact solution of the convex subproblem by a generic interior-point solver: one row a hinge, nothing eliminated."""

from typing import Any, NamedTuple

import clarabel
import numpy as np
import scipy.sparse as sp

__all__ = ["ExactSolution", "InfeasibleSubproblemError", "objective_of", "solve_exact", "stacked_rows"]


class ExactSolution(NamedTuple):
    """Optimum of the hard-constrained problem: `f(x) = <w, x> - b`, multipliers v of the constraints, objective."""

    w: np.ndarray
    b: float
    v: np.ndarray
    objective: float


class InfeasibleSubproblemError(Exception):
    """The reference solver proved that no point meets the constraints."""


def stacked_rows(sub: Any) -> sp.csr_matrix:
    """All rows of the problem as one CSR matrix of float64, shape (n, d)."""
    return sp.csr_matrix(
        sp.vstack([sp.csr_matrix(block.X[block.row_of]).astype(np.float64) for block in sub.rows.blocks])
    )


def objective_of(sub: Any, w: np.ndarray, b: float) -> float:
    """Objective with the regulariser at (w, b), constraints not looked at."""
    loss, _ = sub.values(sub.scores(w, b))
    return float(loss + 0.5 * sub.lam * (w @ w))


def solve_exact(sub: Any, tol: float = 1e-10) -> ExactSolution:
    """Solve the hard-constrained subproblem with clarabel.

    Variables are w, b (if there is an intercept), and one slack for each kept hinge.

    Raises
    ------
    InfeasibleSubproblemError
        Where the constraints cannot be met.
    RuntimeError
        Where the reference solver fails otherwise.
    """
    X, coef = stacked_rows(sub), sub.coef
    numbers = (X.indptr, X.indices, X.data, sub.keep, sub.weight, sub.cell, *coef, sub.gamma)
    key = (X.shape, *(part.tobytes() for part in numbers), sub.lam, sub.fit_intercept, tol)
    if key not in _SOLVED:  # several tests look at the same problem
        _SOLVED[key] = _solved(sub, X, tol)
    w, b, v = _SOLVED[key]
    return ExactSolution(w.copy(), b, v.copy(), objective_of(sub, w, b))


_SOLVED: dict[tuple[object, ...], tuple[np.ndarray, float, np.ndarray]] = {}


def _solved(sub: Any, X: sp.csr_matrix, tol: float) -> tuple[np.ndarray, float, np.ndarray]:
    """Weights, bias and multipliers."""
    n, d = X.shape
    intercept = int(sub.fit_intercept)
    Z = sp.hstack([X, sp.csr_matrix(-np.ones((n, 1)))]).tocsr() if intercept else X
    plus, minus = np.flatnonzero(sub.keep & 1), np.flatnonzero(sub.keep & 2)
    hinges = plus.shape[0] + minus.shape[0]
    coef, m = sub.coef, sub.n_constraints
    shape = (coef.n_cells, m)
    owner = np.repeat(np.arange(coef.n_cells), np.diff(coef.indptr))
    alpha = sp.csr_matrix((coef.alpha, (owner, coef.column)), shape=shape).toarray()
    beta = sp.csr_matrix((coef.beta, (owner, coef.column)), shape=shape).toarray()
    s, cell = sub.weight, sub.cell
    cost = np.concatenate([s[plus] * coef.alpha0[cell[plus]], s[minus] * coef.beta0[cell[minus]]])
    limit = np.vstack([s[plus, None] * alpha[cell[plus]], s[minus, None] * beta[cell[minus]]]).T
    nothing = sp.csc_matrix((hinges + m, d + intercept))
    A = sp.vstack(
        [
            sp.hstack([sp.vstack([Z[plus], -Z[minus]]), -sp.identity(hinges)]),
            sp.hstack([nothing, sp.vstack([-sp.identity(hinges), sp.csr_matrix(limit.reshape(m, hinges))])]),
        ]
    ).tocsc()
    right = np.concatenate([np.full(hinges, -0.5), np.zeros(hinges), sub.gamma])
    P = sp.diags(np.concatenate([np.full(d, sub.lam), np.zeros(intercept + hinges)])).tocsc()
    q = np.concatenate([np.zeros(d + intercept), cost])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    solution = clarabel.DefaultSolver(P, q, A, right, [clarabel.NonnegativeConeT(A.shape[0])], settings).solve()
    status = str(solution.status)
    if "PrimalInfeasible" in status:
        raise InfeasibleSubproblemError(status)
    if status not in ("Solved", "AlmostSolved"):
        raise RuntimeError(f"clarabel ended with {status}")
    x = np.asarray(solution.x)
    return x[:d], float(x[d]) if intercept else 0.0, np.asarray(solution.z)[2 * hinges :]
