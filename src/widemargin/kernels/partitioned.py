"""A kernel matrix whose values are computed where its rows are: in blocks on a cluster.

What stochastic methods need, a few whole rows of the matrix or their sum, is computed side by side: the few rows
travel to all blocks, and each answers for its own rows. This process keeps the rows, too, to read the few from.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Index, Ints, Matrix, Reals
from widemargin.distributed.blocks import Block, BlockMap
from widemargin.distributed.dask_map import dask_client
from widemargin.distributed.recipes import array_rows
from widemargin.distributed.workers import block_map
from widemargin.exceptions import CapabilityError
from widemargin.kernels.backend import NumpyBackend, Placed
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows, most_entries

__all__ = ["PartitionedRows"]


class PartitionedRows(KernelRows):
    """The kernel matrix of n rows, computed on workers; see `KernelRows`.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    cache_size : float, default=200
    dtype : float32 or float64, optional
    workers : int or distributed.Client, default=None
        As in `block_map`; None: the Dask client in force.

    Raises
    ------
    CapabilityError
        If the kernel is precomputed or a function.
    DataError
        If there is no Dask client.
    """

    def __init__(
        self, kernel: Kernel, X: Matrix, *, cache_size: float = 200.0, dtype: npt.DTypeLike | None = None,
        workers: Any = None,
    ) -> None:  # fmt: skip
        if kernel.name in ("precomputed", "callable"):
            raise CapabilityError(f"kernel {kernel.name!r} cannot be computed in blocks; use backend='numpy'.")
        super().__init__(kernel, X, cache_size=cache_size, dtype=dtype)
        self._workers = workers if isinstance(workers, int) else dask_client(workers)
        self._map: BlockMap | None = None

    def subset(self, rows: Ints) -> "PartitionedRows":
        """See `KernelRows`; its blocks are others."""
        part = super().subset(rows)
        assert isinstance(part, PartitionedRows)
        part._map = None
        return part

    def longest_sum(self) -> int:
        """See `KernelRows`; a block may be packed in another way than all rows."""
        return most_entries(self._X)

    def are_narrow(self, n_rows: int) -> bool:
        """See `KernelRows`; its rows are computed on the workers."""
        return False

    def add(self, rows: Ints, change: Floats, scores: Floats, columns: Index | None = None) -> None:
        """See `KernelRows`; side by side for all rows."""
        if columns is not None:
            super().add(rows, change, scores, columns)
            return
        # Each block sums for its own rows, so only n numbers travel back.
        scores += np.concatenate(self._blocks().map(_sums, (self._rows.X[rows], change)))
        self._count.evaluations += rows.shape[0] * self.n_rows

    def _fill(self, rows: Ints, places: Ints) -> None:
        first = 0
        for part in self._blocks().map(_values, self._rows.X[rows]):
            # Blocks answer in the order of their rows.
            self._buffer[places, first : first + part.shape[1]] = part
            first += part.shape[1]
        self._count.evaluations += rows.shape[0] * self.n_rows

    def _blocks(self) -> BlockMap:
        if self._map is None:
            n_workers = self._workers if isinstance(self._workers, int) else len(self._workers.nthreads())
            # Four blocks a worker even out their speeds; below 1,024 rows a block costs more messages than arithmetic.
            size = max(1024, -(-self.n_rows // (4 * max(1, n_workers))))
            recipes = array_rows({"X": self._rows.X}, block_rows=size)
            self._map = block_map(recipes, self._workers).prepared(_placed, (self.kernel, self.dtype))
        return self._map


def _placed(data: dict[str, Any], message: tuple[Kernel, Any]) -> tuple[Kernel, Any, Placed]:
    kernel, dtype = message
    return kernel, dtype, NumpyBackend().place(data["X"], kernel, dtype)


def _values(block: Block, few_rows: Matrix) -> Reals:
    """Kernel values of the few rows with those of the block, shape (k, rows of the block)."""
    (kernel, dtype, placed), backend = block.data, NumpyBackend()
    return backend.block(kernel, backend.place(few_rows, kernel, dtype, left=True), placed)


def _sums(block: Block, message: tuple[Matrix, Floats]) -> Floats:
    """Sums of these values times the changes of the few rows, shape (rows of the block,), in double precision."""
    (kernel, dtype, placed), (few_rows, change), backend = block.data, message, NumpyBackend()
    few = backend.place(few_rows, kernel, dtype, left=True)
    sums = np.empty(len(placed))
    # A tile at a time, so that a block of values is never as long as the rows of the block.
    for low in range(0, sums.shape[0], 4096):
        tile = slice(low, low + 4096)  # their values need no more memory than a row of the cache
        sums[tile] = change @ backend.block(kernel, few, placed[tile]).astype(np.float64, copy=False)
    return sums
