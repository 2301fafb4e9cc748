"""A kernel matrix that is in memory: the protocol `kernel_svm.KernelMatrix` without cache or arithmetic.

For several problems on the same rows, whose kernel values are then computed once.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Index, Ints
from widemargin.linalg.products import add_rows
from widemargin.solvers.kernel_svm.dual.working_set_loops import gather

__all__ = ["WholeMatrix"]


class WholeMatrix:
    """A kernel matrix in memory.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric; it is referred to.
    evaluations : int, default=0
        What it cost.
    """

    def __init__(self, K: npt.NDArray[Any], evaluations: int = 0) -> None:
        self._K, self.evaluations = K, evaluations
        self.n_rows = self.capacity = int(K.shape[0])
        self.dtype = K.dtype

    def block(self, rows: Index, columns: Index | None = None) -> npt.NDArray[Any]:
        """Values of some rows with some others (None: all)."""
        if columns is None:
            return self._K[rows]
        if isinstance(rows, np.ndarray) and isinstance(columns, np.ndarray):
            return np.asarray(self._K[np.ix_(rows, columns)])
        return np.asarray(self._K[rows][:, columns])

    def cached(self, rows: npt.NDArray[np.integer[Any]]) -> tuple[npt.NDArray[Any], Ints]:
        """The matrix, and the places of the rows in it: their numbers."""
        return self._K, rows.astype(np.int64)

    def add(
        self, rows: npt.NDArray[np.integer[Any]], change: Floats, scores: Floats, columns: Index | None = None
    ) -> None:
        """Add `K[columns, rows] change` to `scores`."""
        if columns is None:
            add_rows(self._K, rows.astype(np.int64), change, scores)
        else:
            add_rows(self.block(rows, columns), np.arange(rows.shape[0]), change, scores)

    def diagonal(self) -> Floats:
        """K(x, x) of every row, shape (n,)."""
        return self._K.diagonal().astype(np.float64)

    def subset(self, rows: npt.NDArray[np.integer[Any]]) -> "WholeMatrix":
        """The matrix of some of the rows, a copy."""
        part = np.empty((rows.shape[0], rows.shape[0]), dtype=self.dtype)
        gather(self._K, rows, rows, self._K[:0, :0], np.full(rows.shape[0], -1), part)
        return WholeMatrix(part, self.evaluations)
