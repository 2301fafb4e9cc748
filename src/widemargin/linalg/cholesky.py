"""Symmetric matrices in memory: Cholesky factors straight from LAPACK, and compiled loops over parts of them.

scipy's `cho_factor` checks and copies its argument; at a few hundred features that costs more than the factorisation.
NumPy takes ten times as long as the loops: it walks columns through memory, or makes copies to throw away.

A pivoted factor of a kernel matrix, `K = F F'`, gives features whose inner products are the kernel: a linear model on F
is the kernel model exactly, `f = sum_j a_j K(x_j, .)`, with coefficients on the pivot rows alone, because the rest of
the rows are combinations of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular
from scipy.linalg.blas import dtrsv, strsv
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf, spotrf, spotrs

from widemargin._numba import kernel, summing_kernel
from widemargin._threads import NUMBERS_PER_THREAD, blas_threads, in_threads
from widemargin._typing import Floats, Ints, Reals
from widemargin.exceptions import KernelError

TILE = 64
"""Rows and columns of a tile: two of them stay in the first cache while one is read along its columns."""


@kernel
def take(K: Reals, rows: Ints, out: Reals) -> None:
    """Set `out` to `K[rows][:, rows]`."""
    for i in range(rows.shape[0]):
        # One row of K at a time stays in the cache while its entries are picked out.
        row = K[rows[i]]
        for j in range(rows.shape[0]):
            out[i, j] = row[rows[j]]


@kernel
def mirror(K: Reals) -> None:
    """Copy what is right of the diagonal to the left of it."""
    n = K.shape[0]
    # Tile by tile, because the columns of one half are the rows of the other: one of the two is read across memory, and
    # within a tile both stay in the cache.
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i)):
                    K[i, j] = K[j, i]


@summing_kernel
def turned_apart(K: Reals, weight: Floats, apart: Floats) -> None:
    """Set `apart` to `(K - K') weight`: in one pass over K in the order of its memory, which nothing is as quick as.

    Where weights are random, a row of it is nearly 0 only where that row and that column of K are the same. It is not
    finite where K is not.
    """
    apart[:] = 0.0
    for i in range(K.shape[0]):
        row, mine, total = K[i], weight[i], 0.0
        for j in range(K.shape[0]):
            total += row[j] * weight[j]
            apart[j] -= row[j] * mine
        apart[i] += total


def over_lower_triangle(act: Callable[..., object], *matrices: Reals) -> None:
    """Call `act` on the lower triangles of matrices of one size, a range of columns at a time, side by side in threads.

    Columns from the diagonal down lie together in Fortran order. The ranges reach half a square above the diagonal,
    where such matrices hold nothing that is read.
    """
    size = matrices[0].shape[0]

    def part(first: int, last: int) -> None:
        # What grows beyond the range of the numbers becomes infinite, and the factor fails. Each thread has its own
        # `errstate`.
        with np.errstate(over="ignore", invalid="ignore"):
            act(*(matrix[first:, first:last] for matrix in matrices))

    in_threads(size, max(1, NUMBERS_PER_THREAD // max(size, 1)), part)


def factor(matrix: Floats, *, single: bool = False) -> Reals:
    """Factor of a symmetric positive definite matrix given by its lower triangle in Fortran order.

    Where rounding made it singular each pivot is raised, by a relative 1e-14 first and then a hundred times more each
    time: relative to the pivot and not to the largest one, because Cholesky does not care how the unknowns are scaled.

    With `single` the factor is in float32 (half the time, four digits or fewer in the solution) unless that fails.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where raising the diagonal by a hundredth does not help, or the matrix is not finite.
    """
    if single:
        short = np.empty(matrix.shape, dtype=np.float32, order="F")
        over_lower_triangle(np.copyto, short, matrix)
        # Half the time; a failure falls through to double precision.
        with blas_threads(matrix.shape[0] ** 3 / 3.0):
            lower, info = spotrf(short, lower=1, clean=0, overwrite_a=1)
        if info == 0 and np.isfinite(np.diagonal(lower)).all():
            return np.asarray(lower)
    with blas_threads(matrix.shape[0] ** 3 / 3.0):
        lower, info = dpotrf(matrix, lower=1, clean=0)
    ridge = 1e-14
    while info != 0 and ridge < 1e-2:
        pivots = np.abs(np.diagonal(matrix))
        if not np.isfinite(pivots).all():  # squares of features that overflow: raised pivots would not help
            break
        raised = matrix.copy(order="F")
        # The last term is for a row of zeros: nothing depends on that unknown.
        np.fill_diagonal(raised, np.diagonal(matrix) + ridge * pivots + 1e-300)
        lower, info = dpotrf(raised, lower=1, clean=0)
        ridge *= 100.0
    if info != 0 or not np.isfinite(np.diagonal(lower)).all():
        raise LinAlgError("The Newton system stays singular: scale the features (columns of very different size).")
    return np.asarray(lower)


def solve(lower: Reals, right: Floats) -> Floats:
    """Solution of the factored system for a right-hand side of shape (d,) or (d, k)."""
    right = right.astype(lower.dtype, copy=False)
    if right.ndim == 2:
        potrs = spotrs if lower.dtype == np.float32 else dpotrs
        return np.asarray(potrs(lower, right, lower=1)[0], dtype=np.float64)
    # LAPACK solves for one right-hand side as for many, by products of blocks, which takes four times as long.
    trsv = strsv if lower.dtype == np.float32 else dtrsv
    return np.asarray(trsv(lower, trsv(lower, right, lower=1), lower=1, trans=1), dtype=np.float64)


@dataclass(frozen=True)
class KernelFeatures:
    """The factor.

    Attributes
    ----------
    features : ndarray of shape (n, r)
        F, C order.
    pivots : ndarray of int64, shape (r,)
        Rows on which F is triangular.
    """

    features: Floats
    pivots: Ints

    def coefficients(self, w: Floats) -> Floats:
        """Coefficients of the pivot rows for weights of the features, shape (r,) or (r, k): `F[pivots]' a = w`."""
        return np.asarray(solve_triangular(self.features[self.pivots], w, lower=True, trans="T"))


def kernel_features(K: Floats) -> KernelFeatures:
    """Factor a symmetric positive semi-definite matrix, up to 1e-11 of its largest entry; n r^2 operations.

    Raises
    ------
    KernelError
        If it has negative eigenvalues.
    """
    largest = float(np.diagonal(K).max(initial=0.0))
    # A row whose squared distance from the span of the others is 1e-11 of the largest norm adds nothing but rounding.
    with blas_threads(K.shape[0] ** 3 / 3.0):
        lower, order, rank, _ = dpstrf(K, tol=max(1e-11 * largest, 1e-300), lower=1)
    order = np.asarray(order, dtype=np.int64) - 1
    features = np.zeros((K.shape[0], int(rank)))
    features[order] = np.tril(lower)[:, :rank]
    # LAPACK stops at the first negative pivot as if the rank ended there; a product with K shows what it left out.
    # A random product shows an error of the factor whatever its direction.
    probe = np.random.default_rng(0).standard_normal(K.shape[0])
    product = K @ probe
    error = float(np.linalg.norm(product - features @ (features.T @ probe)))
    if error > 1e-6 * float(np.linalg.norm(product)):
        raise KernelError(
            f"the kernel matrix is not positive semi-definite: its factor is off by {error:.1e}. Use another kernel, "
            "or a feature_map."
        )
    return KernelFeatures(features, order[:rank])
