"""Few rows of many features: the same geometry in as many features as there are rows.

The weights of a regularised linear model lie in the span of its rows. Coordinates of the rows in an orthonormal basis
of that span have the same inner products, so a problem in them has the same optimum, and its matrices are n x n instead
of d x d.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr, solve_triangular

from widemargin._threads import blas_threads
from widemargin._typing import Floats, Matrix
from widemargin.linalg.cholesky import kernel_features
from widemargin.linalg.matrix_blocks import RowBlocks


class _Basis(Protocol):
    coordinates: Floats

    def into(self, w: Floats) -> Floats: ...
    def back(self, coordinates: Floats) -> Floats: ...


class _Reflections:
    """A basis of dense rows by Householder reflections, which keep what narrow columns hold beside wide ones."""

    def __init__(self, matrices: Sequence[Matrix]) -> None:
        n, d = sum(X.shape[0] for X in matrices), matrices[0].shape[1]
        columns, first = np.empty((d, n), order="F"), 0
        for X in matrices:
            columns[:, first : first + X.shape[0]] = X.T if isinstance(X, np.ndarray) else X.T.toarray()
            first += X.shape[0]
        # The factorisation works in the columns themselves, for a copy would be as large as all rows.
        with blas_threads(4.0 * d * n * n):
            self._basis, upper = qr(columns, mode="economic", overwrite_a=True, check_finite=False)
        self.coordinates: Floats = np.ascontiguousarray(upper.T)

    def into(self, w: Floats) -> Floats:
        return np.asarray(self._basis.T @ w)

    def back(self, coordinates: Floats) -> Floats:
        return np.asarray(self._basis @ coordinates)


class _Combinations:
    """A basis of sparse rows, as combinations of some of them: it is never written down, since it would be dense."""

    def __init__(self, whole: sp.csr_matrix) -> None:
        self._factor = kernel_features((whole @ whole.T).toarray())
        # Only the rows that the factor has chosen as pivots span, so weights need no other.
        self._some = whole[self._factor.pivots]
        self.coordinates = self._factor.features

    def into(self, w: Floats) -> Floats:
        return np.asarray(solve_triangular(self.coordinates[self._factor.pivots], self._some @ w, lower=True))

    def back(self, coordinates: Floats) -> Floats:
        return np.asarray(self._some.T @ self._factor.coefficients(coordinates))


class RowSpan:
    """Coordinates of rows in their span.

    Parameters
    ----------
    matrices : sequence of array or CSR matrix, shapes (n_b, d)
        Of n rows in all.
    basis
        Of their span, of r dimensions.

    See Also
    --------
    RowSpan.of : finds a basis.
    """

    def __init__(self, matrices: Sequence[Matrix], basis: _Basis) -> None:
        ends = np.cumsum([X.shape[0] for X in matrices])
        # The matrices are held, so that no other one gets the number by which they are found.
        self._of_matrix = {
            id(X): (basis.coordinates[end - X.shape[0] : end], X) for X, end in zip(matrices, ends, strict=True)
        }
        self.n_features, self.into, self.back = int(basis.coordinates.shape[1]), basis.into, basis.back

    @classmethod
    def of(
        cls, rows: RowBlocks, *, share: float = 0.5, most: int = 3000, largest: int = 1 << 26, dearest: int = 1 << 35
    ) -> "RowSpan | None":
        """The span of rows that are at most half as many as the features; None for others.

        Parameters
        ----------
        rows : RowBlocks
            Of n rows, with those of their matrices that are left out.
        share : float, default=0.5
            Most dense rows, of the features: of systems that are factored anyway all that are fewer pay. Sparse rows
            have no zeros left in their span.
        most : int, default=3000
            Largest n: matrices of n x n are factored, again and again.
        largest, dearest : int, default=2^26, 2^35
            Most numbers n d of dense rows, as a basis has as many: half a gigabyte; and most operations n^2 d, four
            seconds of one core, as no time limit ends them.
        """
        matrices = [block.X for block in rows.blocks]
        n, d = sum(X.shape[0] for X in matrices), int(rows.n_features)
        sparse = all(sp.issparse(X) for X in matrices)
        if n >= d or n > min(most, (0.5 if sparse else share) * d):
            return None
        if sparse:
            whole = sp.csr_matrix(sp.vstack(matrices, format="csr"), dtype=np.float64)
            squares = np.asarray(whole.multiply(whole).sum(axis=0)).ravel()
            # Inner products hold the 16 digits of the largest column, and six of each are to be left.
            if squares.sum() <= 1e10 * squares[squares > 0.0].min(initial=np.inf):
                return cls(matrices, _Combinations(whole))
        return cls(matrices, _Reflections(matrices)) if n * d <= largest and n * n * d <= dearest else None

    def knows(self, rows: RowBlocks) -> bool:
        """Whether these are rows of the matrices."""
        return all(id(block.X) in self._of_matrix for block in rows.blocks)

    def coordinates(self, rows: RowBlocks) -> RowBlocks:
        """The rows in the basis, r numbers each."""
        return RowBlocks([(self._of_matrix[id(block.X)][0], block.row_of) for block in rows.blocks])
