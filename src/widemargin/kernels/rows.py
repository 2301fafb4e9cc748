"""Rows of a kernel matrix: blocks by one product, a cache of rows, and an exact count of kernel evaluations.

Every kernel solver of the library asks here, so their costs can be compared in evaluations: `evaluations` is what an
instrumented kernel function would have counted.
"""

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from widemargin._threads import in_threads
from widemargin._typing import Flags, Floats, Index, Integers, Ints, Matrix, Reals
from widemargin.exceptions import KernelError
from widemargin.kernels.backend import (
    Backend,
    NumpyBackend,
    Placed,
    add_packed,
    backend_named,
    diagonal_of_products,
    fill_packed,
)
from widemargin.kernels.functions import Kernel, check_precomputed
from widemargin.kernels.spatial import Count, Tiles
from widemargin.linalg.cholesky import mirror
from widemargin.linalg.powers import NarrowRows
from widemargin.linalg.products import add_columns, add_rows

__all__ = ["KernelRows"]

MEGABYTE = 1 << 20


@dataclass
class _Memory:
    """The memory of the cache, made at its first use and kept: fresh pages cost more than the values in them.

    Attributes
    ----------
    size : int
        In bytes.
    owner : KernelRows or None
        Whose rows are in it; a former owner's are lost.
    """

    size: int
    owner: "KernelRows | None" = None
    held: Flags | None = None

    def rows(self, owner: "KernelRows") -> int:
        """How many rows fit."""
        return min(owner.n_rows, self.size // max(owner.n_rows * owner.dtype.itemsize, 1))


class KernelRows:
    """The kernel matrix of n rows, computed where it is asked for.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        With a precomputed kernel the matrix of shape (n, n).
    cache_size : float, default=200
        Megabytes of rows that `cached` keeps. Raising it saves evaluations until all n rows fit (`8e-6 n^2` MB in
        float64).
    dtype : float32 or float64, optional
        Precision of the values; by default that of X (float64 for other types). float32 halves time and memory, and
        makes Gaussian values wrong by up to 1e-7 of `gamma (|x|^2 + |y|^2)`: centre the rows first where norms are
        large.
    backend : str, default="numpy"
        See `kernels.backend`.

    Attributes
    ----------
    n_rows : int
    evaluations : int
        Kernel values computed (or, precomputed ones, read) so far.
    hits, misses : int
        Rows that `cached` found, and those it had to compute.

    Raises
    ------
    KernelError
        If not even one row fits into the cache, or a precomputed matrix is not square and symmetric.
    """

    at_once = 1 << 20
    """Values of a block that is kept only until it is used: 8 MB stay in the caches of most processors."""

    sum_height, sum_width, sum_least = 256, 1024, 256
    """Rows and columns of a block whose values are summed at once: memory that is new is slow. Where threads would be
    without work a block has fewer columns, at least the last number: each value then takes up to a third longer."""

    worth = 1 << 19
    """Values that are worth a thread: they take it half a millisecond or more."""

    power_error = 1.1e-7
    """Largest relative error of a power in single precision (`linalg.powers`)."""

    few = 16
    """New rows that take BLAS no longer than listing their entries."""

    by_loops = 1 << 18
    """Numbers up to which rows are `narrow`: 2 MB stay in the second cache of most processors."""

    def __init__(
        self, kernel: Kernel, X: Matrix, *, cache_size: float = 200.0, dtype: npt.DTypeLike | None = None,
        backend: str = "numpy",
    ) -> None:  # fmt: skip
        self._given: Reals | None = None
        if kernel.name == "precomputed":
            X = self._given = check_precomputed(X)
        if dtype is None:
            dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
        self.kernel, self.n_rows, self._X = kernel, int(X.shape[0]), X
        self.dtype: np.dtype[np.floating] = np.dtype(np.float32 if np.dtype(dtype) == np.float32 else np.float64)
        self._count = Count()
        self.hits = self.misses = 0
        self._backend: Backend = backend_named(backend)
        self._rows = self._backend.place(X, kernel, self.dtype)
        row_bytes = self.n_rows * self.dtype.itemsize
        # Solvers look at whole rows, so a cache without room for one is an error at once.
        if cache_size * MEGABYTE < row_bytes:
            raise KernelError(
                f"cache_size={cache_size:g} MB cannot hold one row of {self.n_rows} kernel values "
                f"({row_bytes / MEGABYTE:.3g} MB); raise it."
            )
        self._memory = _Memory(int(min(cache_size * MEGABYTE, self.n_rows * row_bytes)))
        self.capacity = self._memory.rows(self)
        self._place: Ints  # of each row in the cache, or -1
        self._owner: Ints  # of each place there
        self._used: Ints  # when each place was used, by a clock that counts uses
        self._held: int  # places that are taken

    def check_function(self) -> None:
        """Refuse a user's function that is no kernel, on at most 64 rows.

        Raises
        ------
        KernelError
            If K(x, z) and K(z, x) differ by more than about the precision of the numbers, or K(x, z) does on what other
            rows come with x and z.
        """
        if self.kernel.name != "callable":
            return
        # Spread over all rows, as neighbours may be alike.
        some = np.unique(np.linspace(0, self.n_rows - 1, 64).astype(int))
        values = self.block(some, some).astype(np.float64)
        rounding = 1e-4 * max(float(np.abs(values).max(initial=0.0)), 1e-300)
        apart = float(np.abs(values - values.T).max(initial=0.0))
        if apart > rounding:
            raise KernelError(
                f"the kernel function is not symmetric: K(x, z) and K(z, x) differ by up to {apart:.2g}; "
                "no SVM has such a kernel."
            )
        # Other company: the same pairs must have the same values.
        half = some[::2]
        apart = float(np.abs(self.block(half, half) - values[::2, ::2]).max(initial=0.0))
        if apart > rounding:
            raise KernelError(
                f"the kernel function gives K(x, z) other values, by up to {apart:.2g}, among other rows: it is called "
                "on blocks of rows, so it must not centre or scale by the rows it is given. Do that to X before."
            )

    @property
    def given(self) -> Reals | None:
        """The precomputed matrix, where there is one in the precision that is wanted; reading it is not counted."""
        return self._given if self._given is not None and self._given.dtype == self.dtype else None

    @property
    def evaluations(self) -> int:
        """Kernel values computed so far, those of every `subset` included."""
        return self._count.evaluations

    def subset(self, rows: Ints) -> "KernelRows":
        """The kernel matrix of some of the rows, which counts and caches with this one.

        Both use the same memory: what one of them has cached is forgotten when the other one caches. The subset's rows
        are shorter, so more of them fit.
        """
        # Counter and memory are shared; places in the cache are its own.
        part = copy.copy(self)
        part.n_rows = int(rows.shape[0])
        if self._given is not None:
            part._given = self._given[np.ix_(rows, rows)]
        else:
            part._rows = self._rows[rows]
        # Shorter rows: more of them fit into the same memory.
        part.capacity = self._memory.rows(part)
        part.hits = part.misses = 0
        return part

    def shares(self, n_rows: int) -> int:
        """Into how many parts the memory of the cache can be cut that hold all kernel rows of so many rows."""
        return self._memory.size // max(n_rows * n_rows * self.dtype.itemsize, 1)

    def apart(self, shares: int) -> "KernelRows":
        """The same matrix with so large a share of the memory for itself, and a count of its own: for one thread."""
        part = copy.copy(self)
        part._count, part._memory = Count(), _Memory(self._memory.size // shares)
        part.capacity = part._memory.rows(part)
        return part

    def count(self, evaluations: int) -> None:
        """Add kernel values that were computed `apart`."""
        self._count.evaluations += evaluations

    def in_double(self, rows: Ints, cache_size: float) -> "KernelRows":
        """The kernel matrix of some of the rows in double precision, from X itself; it counts and caches with this one.

        Of a matrix that is no subset. Megabytes of the cache are raised to two rows where they would not hold them.
        """
        whole = rows.shape[0] == self.n_rows
        X = self._X if whole else self._X[np.ix_(rows, rows)] if self._given is not None else self._X[rows]
        room = max(cache_size, 3 * rows.shape[0] * 8 / MEGABYTE)
        exact = KernelRows(self.kernel, X, cache_size=room, dtype=np.float64)
        exact._count = self._count
        if self._memory.rows(exact) == exact.capacity:
            exact._memory = self._memory  # what it holds is seldom read again
        return exact

    def rounding(self, rows: Ints, coef: Floats) -> Floats:
        """Bound of the error of `K[rows, rows] coef` where values are in single precision, shape (len(rows),).

        Of Gaussian values; infinity for others. By the usual analysis, u half a unit in the last place: an inner
        product of d numbers is off by `(d + 2) u |x| |z|`, entries rounded to single precision included, squared norms
        and the two sums by 8 u of the norms, and the power by `power_error` of itself.
        """
        if self.kernel.name != "rbf":
            return np.full(rows.shape[0], np.inf)
        size, square = np.abs(coef), self.norms()[rows]
        # Half of the sum of two norms, as `2 |x| |z|` is at most that sum.
        exponent = 2.0**-24 * (self.longest_sum() + 10) * self.kernel.gamma * square
        if exponent.max(initial=0.0) > 0.05:  # beyond it the power is no longer nearly linear
            return np.full(rows.shape[0], np.inf)
        bound: Floats = 1.1 * (exponent * size.sum() + exponent @ size) + self.power_error * size.sum()
        return bound

    def norms(self) -> Floats:
        """Squared norms of the rows of a Gaussian kernel, on the host."""
        return np.asarray(self._rows.square, dtype=np.float64)

    def longest_sum(self) -> int:
        """Most roundings that an inner product of two rows adds up: one a product, but those of bytes are exact."""
        X, packed = self._X, self._rows.packed
        if packed is not None:
            return packed.rounded
        return int(np.diff(X.indptr).max(initial=0) if hasattr(X, "indptr") else X.shape[1])

    def narrow(self) -> NarrowRows | None:
        """What compiled loops need to compute rows by themselves; None where that would take them longer than BLAS."""
        if not self.are_narrow(self.n_rows):
            return None
        columns, kernel = np.array(self._rows.X.T, np.float64, order="C"), self.kernel
        if kernel.name != "poly":
            return NarrowRows(columns, kernel.gamma if kernel.name == "rbf" else 0.0)
        self.diagonal()  # no value is larger: one that is not finite is an error here
        # A column more is the constant of the inner products, so that the values are powers of these.
        constant = np.full((1, self.n_rows), kernel.coef0**0.5)
        return NarrowRows(np.concatenate((kernel.gamma**0.5 * columns, constant)), -kernel.degree)

    def features(self) -> Floats | None:
        """The rows themselves of a linear kernel, dense and in double precision; None of another kernel."""
        if self.kernel.name != "linear" or type(self._backend) is not NumpyBackend:
            return None
        X = self._rows.X
        return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)

    def are_narrow(self, n_rows: int) -> bool:
        """Whether so many of the rows are `narrow`."""
        kernel, limit = self.kernel, self.by_loops
        known = kernel.name in ("rbf", "linear")
        if kernel.name == "poly":  # by products, which high powers have too many of; of wide rows BLAS is as fast
            known, limit = kernel.coef0 >= 0.0 and kernel.degree in range(1, 10), limit // 2
        known &= type(self._backend) is NumpyBackend
        return known and n_rows * self._X.shape[1] <= limit and isinstance(self._rows.X, np.ndarray)

    def tiles(self, rows: Ints, dtype: npt.DTypeLike = np.float32, reach: float = 22.0) -> "Tiles":
        """Some of the rows in spatial order, for a Gaussian kernel on few dense columns; see `Tiles`.

        Raises
        ------
        CapabilityError
            If the kernel is another one, or the rows are sparse.
        """
        return Tiles(self.kernel, self._rows[rows].X, self._count, dtype, reach)

    def block(self, rows: Index, columns: Index | None = None) -> Reals:
        """Kernel values of some rows with some others (None: all), shape (len(rows), len(columns)), computed afresh."""
        if self._given is not None:
            if isinstance(rows, np.ndarray) and isinstance(columns, np.ndarray):
                given: Reals = self._given[np.ix_(rows, columns)]
            else:
                given = self._given[rows] if columns is None else self._given[rows, columns]
            self._count.evaluations += given.size
            return given.astype(self.dtype)
        left, right = self._rows[rows], self._rows if columns is None else self._rows[columns]
        size = len(left) * len(right)  # before the sum: another thread may count meanwhile
        self._count.evaluations += size
        return self._backend.block(self.kernel, left, right)

    def cached(self, rows: Integers) -> tuple[Reals, Ints]:
        """Whole rows through the cache.

        Parameters
        ----------
        rows : ndarray of int, shape (k,)
            Different row numbers, at most `capacity`.

        Returns
        -------
        buffer : ndarray of shape (slots, n)
            The cache itself: read it before the next call, do not write.
        slot : ndarray of int64, shape (k,)
            `buffer[slot[i]]` is row `rows[i]`.

        Raises
        ------
        KernelError
            If more rows are asked for than fit.
        """
        if rows.shape[0] > self.capacity:
            raise KernelError(f"{rows.shape[0]} kernel rows were asked for and {self.capacity} fit; raise cache_size.")
        self.cache()
        known = self._place[rows] >= 0
        missing = np.asarray(rows[~known], dtype=np.int64)
        self.hits += rows.shape[0] - missing.shape[0]
        self.misses += missing.shape[0]
        # Rows that are wanted now are used last, so none of them makes room for others.
        self._used[self._place[rows[known]]] = self._clock + np.arange(rows.shape[0] - missing.shape[0])
        if missing.shape[0]:
            # Free places, then those of the rows that were used least recently, which are forgotten.
            first, self._held = self._held, min(self.capacity, self._held + missing.shape[0])
            places, more = np.arange(first, self._held), missing.shape[0] - (self._held - first)
            if more:
                oldest = np.argpartition(self._used[:first], more - 1)[:more]
                self._place[self._owner[oldest]] = -1
                places = np.concatenate((places, oldest))
            self._place[missing] = places
            self._owner[places] = missing
            self._used[places] = self._clock + np.arange(rows.shape[0] - missing.shape[0], rows.shape[0])
            # Blocks of bounded height, so that their temporary memory stays small.
            height = min(512, missing.shape[0])
            for low in range(0, missing.shape[0], height):
                self._fill(missing[low : low + height], places[low : low + height])
        self._clock += rows.shape[0]
        return self._buffer, self._place[rows]

    def cache(self) -> tuple[Reals, Ints, int]:
        """The buffer, of shape (capacity, n), the place of each row in it, or -1, and how many places are taken.

        A loop may write rows to the next places, and their places into the second array, and then calls `take_over`.
        """
        # A subset has used the memory meanwhile: nothing of this matrix is in it.
        if (memory := self._memory).owner is not self:
            if memory.held is None:
                memory.held = np.empty(memory.size, np.uint8)
            used = memory.held[: self.capacity * self.n_rows * self.dtype.itemsize].view(self.dtype)
            self._buffer: Reals = used.reshape(self.capacity, self.n_rows)
            memory.owner = self
            self._place = np.full(self.n_rows, -1)
            self._owner, self._used = np.full(self.capacity, -1), np.zeros(self.capacity, np.int64)
            self._held = self._clock = 0
        return self._buffer, self._place, self._held

    def take_over(self) -> None:
        """Count the rows that a loop has written into the cache."""
        rows = np.flatnonzero(self._place >= self._held)
        self._owner[self._place[rows]] = rows
        self._held += rows.shape[0]
        self.misses += rows.shape[0]
        self._count.evaluations += rows.shape[0] * self.n_rows

    def _fill(self, rows: Ints, places: Ints) -> None:
        """Write rows into the cache: at once where they are packed, else from small blocks (fresh memory is slow)."""
        few = None if self._given is not None else self._rows[rows]
        if few is not None and fill_packed(self.kernel, few, self._rows, self._buffer, places):
            self._count.evaluations += rows.shape[0] * self.n_rows
            return
        in_tiles = self.kernel.name == "poly" and type(self._backend) is NumpyBackend
        width = max(1, min(2048, (NumpyBackend.tile if in_tiles else self.at_once) // rows.shape[0]))

        def part(first: int, last: int) -> None:
            for low in range(first, last, width):
                tile = slice(low, min(low + width, last))
                if few is None:
                    self._buffer[places, tile] = self.block(rows, tile)
                else:
                    self._buffer[places, tile] = self._backend.block(self.kernel, few, self._rows[tile])

        in_threads(self.n_rows, self._share(self.n_rows, rows.shape[0], self.sum_width), part)
        if few is not None:
            self._count.evaluations += rows.shape[0] * self.n_rows

    def _share(self, n: int, values: int, least: int) -> int:
        """How many of n, with so many kernel values each, are worth a thread; all for code that may not run twice."""
        mine = self._given is None and isinstance(self._backend, NumpyBackend)
        alone = self.kernel.name == "callable" or not mine
        return n if alone else max(least, self.worth // max(values, 1))

    def add(self, rows: Ints, change: Floats, scores: Floats, columns: Index | None = None) -> None:
        """Add `K[columns, rows] change` to `scores`, in double precision; nothing is stored.

        Parameters
        ----------
        rows : ndarray of int, shape (k,)
        change : ndarray of shape (k,)
        scores : ndarray of float64, shape (n,) or (len(columns),)
            Changed.
        columns : ndarray of int or slice, optional
            None: all rows.
        """
        if rows.shape[0] == 0 or scores.shape[0] == 0:
            return
        if self._given is not None:
            numbers = slice(None) if columns is None else columns
            add_rows(self.block(rows, numbers), np.arange(rows.shape[0]), change, scores)
            return
        left, these = self._rows[rows], self._rows
        if isinstance(columns, slice):
            these = self._rows[columns]
        if these.packed is not None and not left.is_sparse:
            left.listed(these.packed)  # once for all threads
            if not isinstance(columns, np.ndarray):
                these.packed.tiles  # noqa: B018 - the same

        def add_strips(first: int, last: int) -> None:
            for low in range(first, last, 4 * self.sum_width):
                strip = slice(low, min(low + 4 * self.sum_width, last))
                # What is not a slice is copied, by the thread that needs it.
                right = these[columns[strip] if isinstance(columns, np.ndarray) else strip]
                if not add_packed(self.kernel, left, right, change, scores[strip]):
                    self._add_blocks(left, change, scores[strip], right)

        share = self._share(scores.shape[0], change.shape[0], self.sum_least)
        in_threads(scores.shape[0], share, add_strips, pieces=2)
        self._count.evaluations += rows.shape[0] * scores.shape[0]

    def _add_blocks(self, left: Placed, change: Floats, scores: Floats, right: Placed) -> None:
        """`add` by blocks of values, one after the other."""
        room = np.empty(self.sum_height * self.sum_width, dtype=self.dtype)  # one for all: memory that is new is slow
        # Narrow strips, as many threads get them, have higher blocks: Python begins these one after the other.
        height = room.shape[0] // max(1, min(len(right), self.sum_width))
        for top in range(0, len(left), height):
            part = slice(top, min(top + height, len(left)))
            placed = left[part]
            for low in range(0, len(right), self.sum_width):
                tile = slice(low, min(low + self.sum_width, len(right)))
                mine = right[tile]
                values = room[: len(placed) * len(mine)].reshape(len(placed), len(mine))
                block = self._backend.block(self.kernel, placed, mine, values)
                # A block is less than a thread is worth.
                add_columns(block, np.arange(len(placed)), change[part], scores[tile], 0, len(mine))

    def diagonal(self) -> Floats:
        """K(x, x) of every row, shape (n,); costs n evaluations unless it is 1 by definition."""
        if self.kernel.unit_diagonal:
            return np.ones(self.n_rows)
        if self.kernel.of_products and isinstance(self._backend, NumpyBackend):
            self._count.evaluations += self.n_rows
            return diagonal_of_products(self.kernel, self._rows.X).astype(np.float64)
        # One by one: a block would compute all pairs for the diagonal alone.
        values = [self.block(slice(i, i + 1), slice(i, i + 1)) for i in range(self.n_rows)]
        return np.concatenate(values).ravel().astype(np.float64)

    def full(self) -> Reals:
        """The whole matrix, shape (n, n), exactly symmetric; about half of it is evaluated."""
        n = self.n_rows
        K = np.empty((n, n), dtype=self.dtype)
        step = max(1, min(256, self.at_once // max(n, 1)))

        def part(first: int, last: int) -> int:
            count = 0
            for low in range(first, last, step):
                some, rest = slice(low, min(low + step, last)), slice(low, n)
                block = self._backend.block(self.kernel, self._rows[some], self._rows[rest])
                K[some, rest] = block
                count += block.size
            return count

        if self._given is not None:
            K[:] = self.block(slice(0, n))
        else:
            computed = sum(in_threads(n, self._share(n, n, step), part))
            self._count.evaluations += computed  # read only now: other threads have counted meanwhile
        mirror(K)
        if self.kernel.unit_diagonal:
            # Rounding of the distance of a row to itself is taken out.
            np.fill_diagonal(K, 1.0)
        return K

    def products(self, X: Matrix, coefficients: Matrix) -> Floats:
        """`K(X, rows) @ coefficients` for new rows, in blocks of bounded memory.

        Parameters
        ----------
        X : array or CSR matrix of shape (p, d)
            With a precomputed kernel the values with all n rows, shape (p, n).
        coefficients : ndarray of shape (n,) or (n, k), or CSR matrix of shape (n, k)

        Returns
        -------
        ndarray of shape (p,) or (p, k), float64
        """
        if self._given is not None:
            return np.asarray(check_precomputed(X, square=False, n_columns=self.n_rows) @ coefficients, np.float64)
        out = np.empty((X.shape[0], *coefficients.shape[1:]))
        # As many new rows at a time as a block of bounded memory allows.
        step, rows = max(1, self.at_once // max(self.n_rows, 1)), self._rows
        if X.shape[0] < self.few:
            rows = Placed(rows.X, rows.square)
        elif rows.packed is not None:
            rows.packed.tiles  # noqa: B018 - once for all threads

        def part(first: int, last: int) -> None:
            for low in range(first, last, step):
                some = slice(low, min(low + step, last))
                new = self._backend.place(X[some], self.kernel, self.dtype, left=True)
                out[some] = self._backend.block(self.kernel, new, rows) @ coefficients

        in_threads(X.shape[0], self._share(X.shape[0], self.n_rows, 1), part)
        self._count.evaluations += X.shape[0] * self.n_rows
        return out
