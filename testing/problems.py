"""Random convex subproblems with what occurs in practice: blocks, rows picked from a matrix, cells, dropped hinges."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from testing.cells import of_pairs
from testing.exact import solve_exact

from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.ramp import majoriser
from widemargin.problems.rate_constrained import ConvexSubproblem

__all__ = ["a9a_like", "binding_bounds", "gender_subproblem", "majorise", "random_subproblem"]


def _coefficients(alpha0: np.ndarray, beta0: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> CellCoefficients:
    """Cells from dense tables of shapes (k,), (k,), (k, m), (k, m)."""
    used = (alpha != 0) | (beta != 0)
    owner, column = np.nonzero(used)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=alpha.shape[0]))])
    return of_pairs(alpha0, beta0, indptr.astype(np.int64), column.astype(np.int64), alpha[used], beta[used])


def _blocks(rng: np.random.Generator, X: np.ndarray, sparse: bool, dtype: Any, index_dtype: Any) -> RowBlocks:
    """The rows of X in two blocks of bigger matrices, of which `row_of` picks them out."""
    n, d = X.shape
    cut = n - n // 3
    blocks = []
    for part, whole in ((X[:cut], True), (X[cut:], False)):
        row_of = None
        if not whole:
            row_of = np.sort(rng.choice(part.shape[0] + 5, part.shape[0], replace=False)).astype(np.int64)
            filler = rng.standard_normal((part.shape[0] + 5, d))
            filler[row_of] = part
            part = filler
        part = np.ascontiguousarray(part, dtype=dtype)
        if sparse:
            part = sp.csr_matrix(part)
            part.indices, part.indptr = part.indices.astype(index_dtype), part.indptr.astype(index_dtype)
        blocks.append((part, row_of))
    return RowBlocks(blocks)


def binding_bounds(sub: ConvexSubproblem, rng: np.random.Generator) -> np.ndarray:
    """Bounds that usually bind and leave a strictly feasible point: half way to the point that violates least."""
    m = sub.n_constraints
    free = replace(sub, gamma=np.zeros(0), coef=sub.coef.without_constraints())
    everything = sub.coef.per_cell(np.ones(m))
    only = CellCoefficients(everything[0] - sub.coef.alpha0, everything[1] - sub.coef.beta0, *free.coef[2:])
    best, careful = solve_exact(free), solve_exact(replace(free, coef=only))
    w, b = 0.5 * (best.w + careful.w), 0.5 * (best.b + careful.b)
    reached = sub.values(sub.scores(w, b))[1] + sub.gamma
    return reached + rng.uniform(0.005, 0.05, m)


def random_subproblem(
    seed: int,
    n: int = 60,
    d: int = 4,
    m: int = 2,
    *,
    sparse: bool = False,
    fit_intercept: bool = True,
    lam: float = 0.05,
    feasible: bool = True,
    n_cells: int = 6,
    dtype: Any = np.float64,
    index_dtype: Any = np.int32,
) -> ConvexSubproblem:
    """A convex subproblem of n weighted rows, m constraints over populations that overlap, some hinges dropped.

    The same seed gives the same numbers for `sparse` and dense, and for every dtype (float32 rounds the data of both
    kinds alike). With `feasible` there is a strictly feasible point; otherwise there is none: for m = 1 the bound is
    negative, for m >= 2 the first two constraints contradict each other.

    Returns
    -------
    ConvexSubproblem
        Objective coefficients sum to about one; constraints are means over their population.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[rng.integers(n)] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    label = np.where(X @ rng.standard_normal(d) + 0.7 * rng.standard_normal(n) > 0.3, 1, -1)
    cell = (2 * rng.integers(max(n_cells // 2, 1), size=n) + (label > 0)).astype(np.int32)
    weight = rng.uniform(0.5, 3.0, n)
    k = 2 * max(n_cells // 2, 1)
    mass = np.maximum(np.bincount(cell, weight, k), 1e-9)
    odd = np.arange(k) % 2 == 1
    alpha0, beta0 = np.where(odd, 0.1, 1.0) / weight.sum(), np.where(odd, 1.0, 0.0) / weight.sum()
    alpha, beta = np.zeros((k, m)), np.zeros((k, m))
    for j in range(m):
        members = rng.random(k) < 0.6
        members[rng.integers(k)] = True
        share = members / (mass @ members)
        if j % 2 == 0:
            beta[:, j] = share
            alpha[:, j] = 0.3 * share * (rng.random(k) < 0.3)
        else:
            alpha[:, j] = share
    keep = rng.choice(np.array([3, 3, 3, 3, 1, 2, 0], dtype=np.uint8), n)
    if not feasible:
        keep[:] = 3
        if m >= 2:
            alpha[:, 0], beta[:, 0] = 0.0, 1.0 / weight.sum()
            alpha[:, 1], beta[:, 1] = 1.0 / weight.sum(), 0.0
    sub = ConvexSubproblem(
        rows=_blocks(rng, X, sparse, dtype, index_dtype),
        weight=weight,
        cell=cell,
        coef=_coefficients(alpha0, beta0, alpha, beta),
        gamma=np.zeros(m),
        lam=lam,
        fit_intercept=fit_intercept,
        keep=keep,
        constant=0.1,
    )
    if m == 0:
        return sub
    if feasible:
        gamma = binding_bounds(sub, np.random.default_rng(seed + 1))
    else:
        gamma = np.full(m, 0.4) if m >= 2 else np.full(m, -0.05)
    return replace(sub, gamma=gamma)


def gender_subproblem(
    X: Any,
    y: np.ndarray,
    first: np.ndarray,
    *,
    kappa: float = 0.8,
    lam: float | None = None,
    fit_intercept: bool = False,
) -> ConvexSubproblem:
    """First step from zero of: minimise the error, `rate(others) <= rate(first) / kappa` (spec 1, section 8).

    Parameters
    ----------
    X : matrix of shape (n, d), CSR or C-contiguous
    y : ndarray of -1 / +1, shape (n,)
    first : ndarray of bool, shape (n,)
        Members of the population whose positive rate must not be too small.
    kappa : float
    lam : float, optional
        1 / n by default.
    """
    n = y.shape[0]
    cell = ((y > 0) + 2 * first).astype(np.int32)
    alpha0 = np.array([1.0, 0.0, 1.0, 0.0]) / n
    beta0 = np.array([0.0, 1.0, 0.0, 1.0]) / n
    women, men = float(first.sum()), float((~first).sum())
    alpha = np.array([1 / men, 1 / men, 0.0, 0.0])[:, None]
    beta = np.array([0.0, 0.0, 1 / women, 1 / women])[:, None] / kappa
    return ConvexSubproblem(
        rows=RowBlocks([(X, None)]),
        weight=np.ones(n),
        cell=cell,
        coef=_coefficients(alpha0, beta0, alpha, beta),
        gamma=np.array([1.0 / kappa]),
        lam=1.0 / n if lam is None else lam,
        fit_intercept=fit_intercept,
        keep=np.full(n, 3, dtype=np.uint8),
        constant=0.0,
    )


def majorise(first: ConvexSubproblem, z: np.ndarray) -> ConvexSubproblem:
    """The next majorisation step, tight at scores z, of the ramp problem whose step from zero is `first`."""
    keep = np.empty(z.shape[0], dtype=np.uint8)
    plus, minus = np.zeros(first.coef.n_cells), np.zeros(first.coef.n_cells)
    majoriser(z, first.weight, first.cell, keep, plus, minus)
    constant, used = first.coef.totals(plus, minus, first.n_constraints)
    return replace(first, keep=keep, constant=constant, gamma=first.gamma - used)


def a9a_like(
    seed: int, n: int = 600, *, kappa: float = 0.8, lam: float | None = None, fit_intercept: bool = False
) -> ConvexSubproblem:
    """A task of a9a's shape: one-hot CSR rows, two groups of different base rates, one constraint between them."""
    rng = np.random.default_rng(seed)
    sizes = (5, 8, 7, 2, 4)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    codes = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
    first = codes[:, 3] == 0
    columns = codes + starts[:-1]
    X = sp.csr_matrix((np.ones(columns.size), (np.repeat(np.arange(n), len(sizes)), columns.ravel())))
    effect = rng.standard_normal(starts[-1])
    effect[starts[3]], effect[starts[3] + 1] = -1.0, 1.0
    y = np.where(X @ effect + rng.standard_normal(n) > 0.8, 1, -1)
    return gender_subproblem(X, y, first, kappa=kappa, lam=lam, fit_intercept=fit_intercept)
