"""Rows that are known by their products with each other only: the linear algebra of kernel models.

A weight vector is a combination of the rows, `w = sum_i c_i phi(x_i)`, and is stored as its coefficients c. With the
matrix `K_ij = <phi(x_i), phi(x_j)>` all that solvers need is at hand: the scores are `X w = K c`, the coefficients of
`X' g` are g itself, and `|w|^2 = c' K c`. `GramRows` offers this under the names of `RowBlocks`, so majorisation,
cutting planes, bias search and enforcement run on it as they are, with d = n.
"""

from typing import Any, Protocol

import numpy as np
from scipy.linalg.blas import get_blas_funcs

from widemargin._typing import Floats, Integers, Ints, Reals
from widemargin.exceptions import KernelError

__all__ = ["GramRows", "RowSource", "squared_norm"]

_BATCH = 256  # rows fetched together, and visited without looking for others that began to move


class RowSource(Protocol):
    """What hands out rows of K that are not all in memory (`kernels.rows.KernelRows`)."""

    n_rows: int
    capacity: int
    dtype: np.dtype[np.floating[Any]]

    def cached(self, rows: Integers) -> tuple[Reals, Ints]:
        """A buffer and the places of the rows in it, valid until the next call."""

    def diagonal(self) -> Floats:
        """The diagonal of K."""


class GramRows:
    """n rows in a space of features that is never built.

    Parameters
    ----------
    source : ndarray of shape (n, n), or RowSource
        The matrix K, symmetric; or what computes its rows.

    Attributes
    ----------
    n_rows, n_features : int
        Both n: weight vectors have one coefficient for each row.
    matrix : ndarray of shape (n, n) or None
        K where it is in memory.
    """

    def __init__(self, source: Reals | RowSource) -> None:
        self.matrix = source if isinstance(source, np.ndarray) else None
        self._source = None if isinstance(source, np.ndarray) else source
        self.dtype = np.dtype(source.dtype)
        self.n_rows = int(source.shape[0]) if isinstance(source, np.ndarray) else source.n_rows
        self.n_features = self.n_rows
        self._last: tuple[Floats, Floats] | None = None
        # What rounding can make of a squared norm is measured by the largest row.
        self._largest = float(self.norms2().max(initial=0.0))

    @property
    def n_stored(self) -> int:
        """Numbers that one look at all scores touches."""
        return self.n_rows

    @property
    def batch(self) -> int:
        """The most rows that `some` takes at once."""
        return _BATCH if self._source is None else min(_BATCH, self._source.capacity)

    def some(self, rows: Ints) -> tuple[Reals, Ints]:
        """Rows of K as a buffer and their places in it; valid until the next call."""
        return (self.matrix, rows) if self._source is None else self._source.cached(rows)  # type: ignore[return-value]

    def dot(self, c: Floats, out: Floats | None = None) -> Floats:
        """`X w = K c`, shape (n,). The product of the last c is remembered: its square is often wanted next."""
        if self._last is None or not np.array_equal(self._last[0], c):
            if self.matrix is not None:
                # A symmetric product reads half of the matrix.
                symv = get_blas_funcs("symv", (self.matrix,))
                product = np.asarray(symv(1.0, self.matrix.T, c.astype(self.dtype, copy=False), lower=1), np.float64)
            else:
                # Only the rows whose coefficient is not 0 are fetched, a batch at a time.
                product, used = np.zeros(self.n_rows), np.flatnonzero(c)
                for low in range(0, used.shape[0], self.batch):
                    rows = used[low : low + self.batch]
                    buffer, slot = self.some(rows)
                    product += c[rows].astype(self.dtype, copy=False) @ buffer[slot]
            self._last = c.copy(), product
        if out is None:
            return self._last[1].copy()
        out[:] = self._last[1]
        return out

    def forget(self) -> None:
        """As `RowBlocks.forget`, which frees what would count; beside K one product does not."""

    def tdot(self, g: Floats) -> Floats:
        """`X' g` in coefficients: a copy of g."""
        return g.copy()

    def square(self, c: Floats, products: Floats | None = None) -> float:
        """`|w|^2 = c' K c`; `products` is `K c` where it is at hand.

        Raises
        ------
        KernelError
            If it is negative beyond rounding.
        """
        Kc = self.dot(c) if products is None else products
        return squared_norm(c, Kc, self._largest, self.dtype)

    def norms2(self) -> Floats:
        """Squared norms of the rows, the diagonal of K, shape (n,).

        Raises
        ------
        KernelError
            If one is negative.
        """
        diagonal = self._source.diagonal() if self._source is not None else np.diagonal(self.matrix)  # type: ignore[arg-type]
        norms2 = np.array(diagonal, dtype=np.float64)
        if norms2.min(initial=0.0) < 0.0:
            raise KernelError(f"the kernel is not positive semi-definite: K(x, x) = {norms2.min():.3g} for some x.")
        return norms2


def squared_norm(c: Floats, products: Floats, largest: float, dtype: np.dtype[np.floating[Any]]) -> float:
    """`|w|^2 = c' K c` from `products = K c`.

    Parameters
    ----------
    c, products : ndarray of shape (n,)
    largest : float
        Of the diagonal of K.
    dtype : dtype
        Precision of K.

    Raises
    ------
    KernelError
        If it is negative beyond rounding.
    """
    value, size = float(c @ products), float(np.abs(c).sum()) ** 2 * largest
    if value < -float(np.finfo(dtype).eps) * size:  # not by rounding
        raise KernelError(
            f"the kernel is not positive semi-definite: a squared norm came out as {value:.3g}. Use another kernel "
            "(rbf, laplacian, linear, or poly with coef0 >= 0), or other parameters."
        )
    return max(value, 0.0)
