"""A Gaussian kernel matrix in spatial order: values of distant rows are left out, nothing is stored.

Meant for few columns and a kernel that is narrow against the spread of the rows: a value is computed from 10 columns
sooner than it is read from memory, and most pairs of boxes of the k-d tree are too far apart to matter.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints
from widemargin.exceptions import CapabilityError
from widemargin.kernels import _loops
from widemargin.kernels.functions import Kernel
from widemargin.kernels.tree import boxes, spatial_order

__all__ = ["Count", "Tiles"]

LEAF, CHUNK = 512, 64

REACH = 44.0
"""Values below 2^-22, where twice the exponent exceeds this, are left out."""


class Count:
    """Kernel values computed by a matrix and its parts."""

    evaluations = 0


class Tiles:
    """The Gaussian kernel matrix of some rows, in float32, in the order of a k-d tree.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    count : Count
        Where evaluations are counted.

    Attributes
    ----------
    order : ndarray of int64, shape (n,)
        Row k here is `X[order[k]]`. All other methods use the numbers here.

    Raises
    ------
    CapabilityError
        If the kernel is not Gaussian, or X is sparse.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, kernel: Kernel, X: Any, count: Count) -> None:
        if kernel.name != "rbf" or sp.issparse(X):
            raise CapabilityError(
                f"spatial tiles need dense rows and the kernel 'rbf', not {'CSR rows' if sp.issparse(X) else ''}"
                f"{kernel.name!r}; use solver='dual' without them."
            )
        self._count = count
        self.n_rows = self.capacity = int(X.shape[0])
        self.order = spatial_order(X, LEAF)
        scale = np.sqrt(2.0 * kernel.gamma * np.log2(np.e))  # K(x, y) = 2^(-|z_x - z_y|^2 / 2)
        self._Z = np.zeros((self.n_rows, X.shape[1] + X.shape[1] % 2), dtype=np.float32)
        self._Z[:, : X.shape[1]] = (X[self.order] - X.mean(axis=0, dtype=np.float64)) * scale
        self._columns = np.ascontiguousarray(self._Z.T)
        self._low, self._high = boxes(self._Z, LEAF)

    @property
    def evaluations(self) -> int:
        """Kernel values computed so far."""
        return self._count.evaluations

    def block(self, rows: Ints) -> npt.NDArray[np.float32]:
        """Kernel values among some rows, shape (k, k)."""
        part = self._Z[rows]
        square = np.einsum("ij,ij->i", part, part)
        K = part @ part.T
        _loops.gaussian(K, square, square, 0.5 * float(np.log(2.0)))
        self._count.evaluations += K.size
        return K

    def add(self, rows: Ints, change: Floats, scores: Floats) -> None:
        """Add `K[:, rows] change` to `scores`, shape (n,), without values below 2^-22.

        Rows that follow each other in space are fastest: sort them. The leaves are shared out to the threads in force.
        """
        points = self._Z[rows]
        chunk_low, chunk_high = boxes(points, CHUNK)

        def part(first: int, last: int) -> int:
            room = np.empty(LEAF, dtype=np.float32)
            return _loops.add_near(
                points, change, chunk_low, chunk_high, CHUNK, self._columns, self._low, self._high, LEAF, first, last,
                REACH, room, scores,
            )  # fmt: skip

        self._count.evaluations += sum(in_threads(self._low.shape[0], 1, part))
