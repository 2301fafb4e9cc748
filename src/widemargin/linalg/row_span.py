"""Few rows of many features: the same geometry in as many features as there are rows.

The weights of a regularised linear model lie in the span of its rows. Coordinates of the rows in an orthonormal basis
of that span have the same inner products, so a problem in them has the same optimum, and its matrices are n x n instead
of d x d.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import qr

from widemargin._threads import blas_threads
from widemargin._typing import Floats, Matrix
from widemargin.linalg.matrix_blocks import RowBlocks

__all__ = ["RowSpan"]


class RowSpan:
    """Coordinates of rows in their span.

    The basis comes from Householder reflections: a factor of the inner products would be cheaper, but squares are wrong
    in the 16th digit of the largest column, which is more than all that narrow columns hold.

    Parameters
    ----------
    matrices : sequence of array or CSR matrix, shapes (n_b, d)
        Of n rows in all, at most d.
    """

    def __init__(self, matrices: Sequence[Matrix]) -> None:
        n, d = sum(X.shape[0] for X in matrices), matrices[0].shape[1]
        columns = np.empty((d, n), order="F")
        ends = np.cumsum([X.shape[0] for X in matrices])
        for X, end in zip(matrices, ends, strict=True):
            columns[:, end - X.shape[0] : end] = X.T if isinstance(X, np.ndarray) else X.T.toarray()
        with blas_threads(4.0 * d * n * n):
            self._basis, upper = qr(columns, mode="economic", overwrite_a=True, check_finite=False)
        coordinates = np.ascontiguousarray(upper.T)
        # The matrices are held, so that no other one gets the number by which they are found.
        self._of_matrix = {
            id(X): (coordinates[end - X.shape[0] : end], X) for X, end in zip(matrices, ends, strict=True)
        }
        self.n_features = n

    def knows(self, rows: RowBlocks) -> bool:
        """Whether these are rows of the matrices."""
        return all(id(block.X) in self._of_matrix for block in rows.blocks)

    def coordinates(self, rows: RowBlocks) -> RowBlocks:
        """The rows in the basis, n numbers each."""
        return RowBlocks([(self._of_matrix[id(block.X)][0], block.row_of) for block in rows.blocks])

    def into(self, w: Floats) -> Floats:
        """Coordinates of what weights, shape (d,), have in the span, shape (n,)."""
        return np.asarray(self._basis.T @ w)

    def back(self, coordinates: Floats) -> Floats:
        """Weights of all features, shape (d,), for coordinates of shape (n,)."""
        return np.asarray(self._basis @ coordinates)
