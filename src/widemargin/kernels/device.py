"""The kernel matrix on a device: rows, kept kernel rows, sums of them and predictions do not leave it.

What a solver that works there asks for beside `KernelRows`: arrays of the device (`put`, `pull`), kernel rows that stay
(`keep`), and sums of kept rows in double precision (`weighted`). All other solvers get blocks on the host.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin._typing import Floats, Index, Ints, Matrix
from widemargin.exceptions import CapabilityError
from widemargin.kernels.backend import DeviceBackend, Placed, backend_named
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows


class DeviceRows(KernelRows):
    """The kernel matrix of n rows on a device; see `KernelRows`.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    cache_size : float, default=200
        Megabytes of kernel rows on the host. A device with memory of its own keeps as many as there is room for.
    dtype : float32 or float64, optional
    backend : str, default="torch"
        See `kernels.backend`.

    Attributes
    ----------
    xp : module
        The library of the device.
    kept : array of the device, shape (room, n), or None
        Kernel rows, at the places that `keep` tells; made at its first call.
    """

    height, narrowest = 4096, 64
    """Rows of a block that is summed, which stays a small part of the memory; and fewest, where rows are long."""

    power_error = 5e-7
    """See `KernelRows`; what libraries of devices promise of their exponentials."""

    def __init__(
        self, kernel: Kernel, X: Matrix, *, cache_size: float = 200.0, dtype: npt.DTypeLike | None = None,
        backend: str = "torch",
    ) -> None:  # fmt: skip
        device, self._name = backend_named(backend), backend
        assert isinstance(device, DeviceBackend)
        super().__init__(kernel, X, cache_size=cache_size, dtype=dtype, backend=backend)
        self._device = device
        self.xp, self.put, self.pull = device.xp, device.put, device.pull
        self.kept: Any = None
        self._place: Ints  # of each row in `kept`, or -1
        self._owner: Ints  # of each place there, or -1

    @property
    def room(self) -> int:
        """Rows that `kept` has place for.

        Raises
        ------
        CapabilityError
            If the device has memory of its own, and not enough for two.
        """
        free = self._device.free()
        if self.kept is not None:
            return int(self.kept.shape[0])
        if free is None:
            return self.capacity
        # A quarter, 4 GB of a large one, is left to blocks on their way.
        rows = max(3 * free // 4, free - (4 << 30)) // (self.n_rows * self.dtype.itemsize)
        if rows < 2:
            raise CapabilityError(
                f"backend {self._name!r} has {free >> 20} MB free, and two kernel rows of {self.n_rows} values need "
                f"{4 * self.n_rows * 8 >> 20} MB; free memory there, train on fewer rows, or use the default 'numpy'."
            )
        return min(self.n_rows, rows)

    def subset(self, rows: Ints) -> "DeviceRows":
        """See `KernelRows`; it keeps rows of its own."""
        part = super().subset(rows)
        assert isinstance(part, DeviceRows)
        part.kept = None
        return part

    def in_double(self, rows: Ints, cache_size: float) -> "DeviceRows":
        """See `KernelRows`; on the same device, with the memory that this one has used."""
        self.kept = None
        X: Any = self._X
        # Numbers that came in single precision are on the device as they were given, and need not travel again.
        if X.dtype == self.dtype and not sp.issparse(self._rows.X):
            X = self._rows.X
        if rows.shape[0] < self.n_rows:
            X = X[rows] if X is self._X else X[self.put(rows)]
        exact = DeviceRows(
            self.kernel, X, cache_size=max(cache_size, 3 * rows.shape[0] * 8 / MEGABYTE), dtype=np.float64,
            backend=self._name,
        )  # fmt: skip
        exact._count = self._count
        return exact

    def rounding(self, rows: Ints, coef: Floats) -> Floats:
        """See `KernelRows`; infinity where the device rounds products to fewer digits."""
        return super().rounding(rows, coef) if self._device.rounds_as_numpy else np.full(rows.shape[0], np.inf)

    def longest_sum(self) -> int:
        """See `KernelRows`; the norms are added in the same sum, and are as large as the products."""
        return 2 * super().longest_sum() + 4

    def norms(self) -> Floats:
        """See `KernelRows`."""
        return self.pull(self._rows.square).astype(np.float64)

    def keep(self, rows: Ints) -> Ints:
        """Have some whole rows in `kept`: their places.

        Parameters
        ----------
        rows : ndarray of int, shape (k,)
            Different row numbers, at most `room`.
        """
        if self.kept is None:
            room = self.room
            self.kept = self.xp.empty(
                (room, self.n_rows), dtype=getattr(self.xp, self.dtype.name), device=self._device.name
            )
            self._place, self._owner, self._next = np.full(self.n_rows, -1), np.full(room, -1), 0
        place = self._place[rows]
        missing = rows[place < 0]
        # A ring: the oldest rows make room, but for those that are wanted now.
        wanted = np.zeros(self._owner.shape[0], dtype=bool)
        wanted[place[place >= 0]] = True
        ring = np.roll(np.arange(wanted.shape[0]), -self._next)
        taken = ring[~wanted[ring]][: missing.shape[0]]
        if missing.shape[0]:
            self._next = int(taken[-1] + 1) % wanted.shape[0]
            before = self._owner[taken]
            self._place[before[before >= 0]] = -1
            self._place[missing], self._owner[taken] = taken, missing
            few, width, first = self._rows[missing], self._tile(missing.shape[0]), int(taken[0])
            # Places that follow one another are a view of `kept`: the device writes there, and no block is copied.
            following = np.array_equal(taken, np.arange(first, first + taken.shape[0]))
            where = slice(first, first + taken.shape[0]) if following else self.put(taken)
            for low in range(0, self.n_rows, width):
                tile = slice(low, min(low + width, self.n_rows))
                values = self._device.values(
                    self.kernel, few, self._rows[tile], self.kept[where, tile] if following else None
                )
                if not following:
                    self.kept[where, tile] = values
            self._count.evaluations += missing.shape[0] * self.n_rows
        self.hits += rows.shape[0] - missing.shape[0]
        self.misses += missing.shape[0]
        return self._place[rows]

    def weighted(self, places: Ints, change: Floats) -> Any:
        """`sum_k change[k] kept[places[k]]` on the device, in double precision, shape (n,)."""
        where, factors = self.put(places), self.put(change)
        total = self._zeros(self.n_rows)
        if self._device.weighted_rows is not None:
            self._device.weighted_rows(self.kept, where, factors, total)
            return total
        # In single precision the sum of a thousand rows would be off by more than a small tol.
        width = self._tile(places.shape[0])
        for low in range(0, self.n_rows, width):
            tile = slice(low, min(low + width, self.n_rows))
            total[tile] = factors @ self.xp.asarray(self.kept[where, tile], dtype=self.xp.float64)
        return total

    def add(self, rows: Ints, change: Floats, scores: Floats, columns: Index | None = None) -> None:
        """See `KernelRows`; only the sums leave the device."""
        right = self._rows if columns is None else self._rows[columns]
        scores += self.pull(self._sums(right, self._rows[rows], self.put(change[:, None])))[:, 0]
        self._count.evaluations += rows.shape[0] * scores.shape[0]

    def products(self, X: Matrix, coefficients: Matrix) -> Floats:
        """See `KernelRows`; only the sums leave the device."""
        out = np.empty((X.shape[0], *coefficients.shape[1:]))
        given = coefficients if isinstance(coefficients, np.ndarray) else coefficients.toarray()
        weights = self.put(given.reshape(self.n_rows, -1))
        step = self._tile(min(self.height, self.n_rows))
        for low in range(0, X.shape[0], step):
            new = self._device.place(X[low : low + step], self.kernel, self.dtype)
            out[low : low + step] = self.pull(self._sums(new, self._rows, weights)).reshape(-1, *coefficients.shape[1:])
        self._count.evaluations += X.shape[0] * self.n_rows
        return out

    def _sums(self, left: Placed, right: Placed, weights: Any) -> Any:
        """`K(left, right) weights` on the device, in double precision, by blocks of bounded memory."""
        total = self._zeros((len(left), weights.shape[1]))
        height = min(self.height, self._tile(1))
        step = self._tile(min(height, len(right)))
        for low in range(0, len(left), step):
            some = left[low : low + step]
            for first in range(0, len(right), height):
                part = slice(first, first + height)
                values = self._device.values(self.kernel, some, right[part])
                total[low : low + step] += self.xp.asarray(values, dtype=self.xp.float64) @ weights[part]
        return total

    def _tile(self, count: int) -> int:
        """Rows whose kernel values with so many others, and which themselves, where they are CSR, make up a block."""
        long = self._rows.X.shape[1] if sp.issparse(self._rows.X) else 1
        return max(self.narrowest, self._device.at_once // max(count, long))

    def _zeros(self, shape: Any) -> Any:
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self._device.name)
