"""Where blocks of kernel values are computed: by NumPy, or by a library like it on a device.

A backend keeps the rows wherever it likes, and hands blocks of kernel values back as NumPy arrays, so that every solver
works with each of them. What stays on a device from the rows to the scores asks its backend for `values` instead
(`kernels.device`).
"""

import importlib
import logging
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from widemargin._threads import in_threads
from widemargin._typing import ArrayLike, Floats, Index, Ints, Matrix, Reals
from widemargin.exceptions import CapabilityError, KernelError
from widemargin.kernels.functions import Kernel, gaussian
from widemargin.kernels.packed_rows import (
    ByteRows,
    Entries,
    Marked,
    MostlyZero,
    PackedRows,
    Words,
    add,
    fill,
    list_entries,
    listed_words,
    pack,
    words_of,
)
from widemargin.linalg.powers import LOG2_E

logger = logging.getLogger("widemargin")


class Placed:
    """Rows as a backend holds them, with their squared norms where the kernel needs them.

    Parameters
    ----------
    X : the backend's matrix of shape (n, d), or a function that makes it
        Rows that are packed as bytes are seldom read as numbers, and to copy them takes longer than to pack them.
    square : the backend's vector of shape (n,), or None

    Attributes
    ----------
    square : the backend's vector of shape (n,), or None
    packed : PackedRows or None
        These rows packed for products, where X allows it; a slice shares it with the whole.
    first : int
        Number of the first row in `packed`.
    """

    def __init__(self, X: Any, square: Any, packed: PackedRows | None = None, first: int = 0) -> None:
        self._X, self.square, self.packed, self.first = X, square, packed, first
        self._words: tuple[float, Words | None] | None = None

    @cached_property
    def X(self) -> Any:
        """The rows, of shape (n, d)."""
        return self._X() if callable(self._X) else self._X

    def __getitem__(self, rows: Index) -> "Placed":
        square = None if self.square is None else self.square[rows]
        if self.packed is None:
            return Placed(self.X[rows], square)
        if isinstance(rows, slice) and rows.step in (None, 1):
            # A slice of rows is a slice of what is packed, so nothing is packed again.
            return Placed(lambda: self.X[rows], square, self.packed, self.first + rows.indices(len(self))[0])
        if not isinstance(self.packed, MostlyZero):
            return Placed(lambda: self.X[rows], square, self.packed.part(rows))
        X = self.X[rows]
        return Placed(X, square, MostlyZero(X))

    def __len__(self) -> int:
        return int((self.X if self.square is None else self.square).shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows."""
        of_rows: np.dtype[Any] = (self.X if self.square is None else self.square).dtype
        return of_rows

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are CSR; those are never packed."""
        return self.packed is None and sp.issparse(self.X)

    @cached_property
    def _entries(self) -> Entries:
        if not isinstance(self.packed, Marked):
            return list_entries(self.X)
        marks = list_entries(self.packed.marks[self.first : self.first + len(self)])
        return marks._replace(weight=marks.weight * self.packed.value)

    def listed(self, right: PackedRows) -> Entries | Words | None:
        """What is not 0, for the left side of products with these rows; listed once for each unit in a row.

        None where the right side are bytes, and X holds other numbers than bytes times their unit.
        """
        if not isinstance(right, ByteRows):
            return self._entries
        if self._words is None or self._words[0] != right.unit:
            words: npt.NDArray[np.uint32] | None
            mine = self.packed
            # Rows that are packed already in the same unit need not be read again.
            if isinstance(mine, ByteRows) and mine.unit == right.unit:
                words = mine.words[self.first : self.first + len(self)]
            else:
                words = words_of(self.X, right.unit)
            # The unit belongs to the right side: another one asks for another list.
            self._words = right.unit, None if words is None else listed_words(words)
        return self._words[1]


class Backend(Protocol):
    """Computes blocks of kernel values."""

    def place(self, X: Matrix, kernel: Kernel, dtype: npt.DTypeLike, *, left: bool = False) -> Placed:
        """Take over rows (dense or CSR), which are on the left side of products, or also on the right one."""

    def block(self, kernel: Kernel, left: Placed, right: Placed, out: Reals | None = None) -> Reals:
        """Kernel values of all pairs, shape (len(left), len(right)); it may use the memory of `out`."""


class NumpyBackend:
    """BLAS or sparse products, finished in place."""

    tile = 1 << 15
    """Values of a block of polynomials, whose powers each take memory that is new: 256 kB are at hand."""

    def place(self, X: Matrix, kernel: Kernel, dtype: npt.DTypeLike, *, left: bool = False) -> Placed:
        """Rows of the wanted precision, narrow sparse ones as dense ones; a copy only where something changes."""
        if kernel.name == "callable":  # the user's function sees the rows as they are
            return Placed(X, None)
        if not isinstance(X, np.ndarray):
            # Dense products are the faster ones up to about 1,000 columns (a9a, 123 columns, float64: 12 against 32 ns
            # a value), and 256 MB for a copy is little beside the cache.
            narrow = X.shape[1] <= 1000 and X.shape[0] * X.shape[1] * np.dtype(dtype).itemsize <= 256 << 20
            X = X.astype(dtype, copy=False).toarray() if narrow else sp.csr_matrix(X, dtype=dtype)
        # CSR rows that are too wide for a dense copy stay as they are.
        X = np.asarray(X, dtype=dtype) if isinstance(X, np.ndarray) else X
        products = kernel.of_products or kernel.name == "rbf"  # of which inner products and norms are all that is asked
        square = squared_norms(X) if kernel.name == "rbf" else None
        # Sparse rows have a product of their own, and a function of distances needs none.
        packed = pack(X) if products and not left and not sp.issparse(X) and not _are_far(kernel, square) else None
        return Placed(X, square, packed)

    def block(self, kernel: Kernel, left: Placed, right: Placed, out: Reals | None = None) -> Reals:
        """Kernel values of all pairs, shape (len(left), len(right)), in `out` where the rows are dense."""
        if kernel.name == "callable":
            return kernel.called(left.X, right.X)
        if kernel.name == "laplacian":
            distances = manhattan_distances(left.X, right.X)
            distances *= -kernel.gamma
            np.exp(distances, out=distances)
            return np.asarray(distances, dtype=left.X.dtype)
        if right.packed is not None:
            filled = np.empty((len(left), len(right)), dtype=right.dtype) if out is None else out
            if fill_packed(kernel, left, right, filled, np.arange(len(left))):
                return filled
        dense = isinstance(left.X, np.ndarray) and isinstance(right.X, np.ndarray)
        if dense and _are_far(kernel, right.square):
            return np.asarray(np.exp(-kernel.gamma * cdist(left.X, right.X, "sqeuclidean")))
        # What is not packed is a product of BLAS or of sparse matrices.
        if dense:
            block = np.matmul(left.X, right.X.T, out=out)
        else:
            block = left.X @ right.X.T
            block = block.toarray() if sp.issparse(block) else block
        if kernel.name != "rbf":
            return np.asarray(_finish(np, kernel, block))
        gaussian(block, left.square, right.square, kernel.gamma)
        return np.asarray(block)


class DeviceBackend:
    """Dense products by a library with NumPy's functions, on its device.

    Parameters
    ----------
    xp : module
        PyTorch or NumPy.
    device : str, default="cpu"
        Of PyTorch.

    Attributes
    ----------
    at_once : int
        Kernel values of a block: a device works best on some hundred megabytes, a processor within its caches.
    weighted_rows : callable or None
        `kernels.gpu_sums`, where it can be had.

    Raises
    ------
    CapabilityError
        If the device is not there, or does not know double precision, which certificates need.
    """

    def __init__(self, xp: Any, device: str = "cpu") -> None:
        self.xp, self.name = xp, device
        self.at_once = 1 << 20 if device == "cpu" else 1 << 26
        self.weighted_rows = _sums_of_gpu(xp, device) if device.startswith("cuda") else None
        try:
            self.put(np.zeros(1))
        # PyTorch says in three ways that it does not know a device.
        except (RuntimeError, AssertionError, TypeError) as error:
            raise CapabilityError(
                f"backend 'torch:{device}' cannot hold numbers in double precision ({error}); use 'torch', or the "
                "default 'numpy'."
            ) from error

    def put(self, values: ArrayLike) -> Any:
        """A copy of some numbers on the device: it may share memory with NumPy, and users may change theirs later."""
        values = np.asarray(values)
        # What goes to a device of its own is copied on the way; PyTorch warns of arrays that cannot be written.
        copied = self.name != "cpu" and values.flags.writeable
        return self.xp.asarray(values if copied else np.array(values), device=self.name)

    def pull(self, values: Any) -> npt.NDArray[Any]:
        """The numbers of an array of the device."""
        return np.asarray(values if isinstance(values, np.ndarray) else values.cpu().numpy())

    def free(self) -> int | None:
        """Bytes that are free on the device; None where it has no memory of its own."""
        if not self.name.startswith("cuda"):
            return None
        cuda = self.xp.cuda
        # What PyTorch holds and does not use is free, too.
        unused = cuda.memory_reserved(self.name) - cuda.memory_allocated(self.name)
        return int(cuda.mem_get_info(self.name)[0] + unused)

    @property
    def rounds_as_numpy(self) -> bool:
        """Whether products in single precision are: PyTorch may be told to round their factors to fewer digits."""
        return self.xp is np or self.xp.get_float32_matmul_precision() == "highest"

    def place(self, X: Matrix, kernel: Kernel, dtype: npt.DTypeLike, *, left: bool = False) -> Placed:
        """Rows on the device, where they may be already. CSR rows that would fill it come in blocks of dense rows.

        Raises
        ------
        CapabilityError
            If the kernel is no function of inner products, or the rows do not fit.
        """
        if kernel.name in ("callable", "laplacian", "precomputed"):
            raise CapabilityError(f"backend 'torch' cannot do kernel {kernel.name!r}; use the default backend 'numpy'.")
        size = X.shape[0] * X.shape[1] * np.dtype(dtype).itemsize
        # Kernel rows need the memory more: dense copies of CSR rows may take a quarter of it, and 256 MB of the host's.
        room = 256 << 20 if (free := self.free()) is None else free // 4
        try:
            if sp.issparse(X):
                X = X.astype(dtype, copy=False)
                square = self.put(squared_norms(X)) if kernel.name == "rbf" else None
                return Placed(X if size > room else self._dense(X), square)
            if isinstance(X, np.ndarray):
                X = self._dense(X.astype(dtype, copy=False))
            xp = self.xp
            placed = xp.asarray(X, dtype=getattr(xp, np.dtype(dtype).name))
            if kernel.name != "rbf":
                return Placed(placed, None)
            # Summed in double precision and rounded once, to the precision of the rows.
            square = xp.empty(placed.shape[0], dtype=placed.dtype, device=self.name)
            step = max(1, self.at_once // max(1, placed.shape[1]))
            for first in range(0, placed.shape[0], step):
                part = xp.asarray(placed[first : first + step], dtype=xp.float64)
                square[first : first + step] = xp.asarray((part * part).sum(axis=1), dtype=placed.dtype)
            return Placed(placed, square)
        except RuntimeError as error:
            raise CapabilityError(
                f"backend 'torch:{self.name}' cannot hold the rows of {size >> 20} MB ({error}); use CSR or float32 "
                "rows, fewer rows, or the default 'numpy'."
            ) from error

    def values(self, kernel: Kernel, left: Placed, right: Placed, out: Any = None) -> Any:
        """Kernel values of all pairs, shape (len(left), len(right)), on the device; in `out`, if it is given."""
        xp, A, B = self.xp, self._dense(left.X), self._dense(right.X)
        if kernel.name != "rbf":
            values = _finish(xp, kernel, A @ B.T)
            if out is None:
                return values
            out[:] = values
            return out
        # Norms as two more columns make the exponent a product: every pass over its values reads and writes all memory.
        a, b = left.square[:, None], right.square[:, None]
        A = xp.concatenate((2.0 * kernel.gamma * A, -kernel.gamma * a, xp.ones_like(a)), axis=1)
        B = xp.concatenate((B, xp.ones_like(b), -kernel.gamma * b), axis=1)
        values = xp.matmul(A, B.T, out=out)
        xp.clip(values, None, 0.0, out=values)  # rounding can make the distance of equal rows negative
        return xp.exp(values, out=values)

    def _dense(self, X: Any) -> Any:
        """Rows on the device: they are there, or in an array or CSR matrix on the host."""
        if sp.issparse(X):
            X = X.toarray()
        return self.put(X) if isinstance(X, np.ndarray) and self.xp is not np else X

    def block(self, kernel: Kernel, left: Placed, right: Placed, out: Reals | None = None) -> Reals:
        """Kernel values of all pairs, shape (len(left), len(right)), on the host."""
        return self.pull(self.values(kernel, left, right))


@cache
def _sums_of_gpu(xp: Any, device: str) -> Callable[[Any, Any, Any, Any], None] | None:
    """`gpu_sums.weighted_rows`; None where Triton, or the C compiler that it needs, is not there."""
    try:
        weighted_rows: Callable[[Any, Any, Any, Any], None] = importlib.import_module(
            "widemargin.kernels.gpu_sums"
        ).weighted_rows
        row, sums = (xp.zeros((17,), dtype=kind, device=device) for kind in (xp.float32, xp.float64))
        weighted_rows(row[None], xp.zeros(1, dtype=xp.int64, device=device), sums[:1], sums)
    except Exception as error:  # of the device, Triton, or the compiler
        logger.info("%s Kernel rows are summed by PyTorch alone.", error)
        return None
    return weighted_rows


def backend_named(name: str) -> Backend:
    """A backend by name: "numpy", "torch" or "torch:DEVICE" (for example "torch:cuda"), or "array-api".

    "array-api" is the code of devices on NumPy, which needs none.

    Raises
    ------
    CapabilityError
        If the name is unknown, or PyTorch or the device is not there.
    """
    if name == "numpy":
        return NumpyBackend()
    if name == "array-api":
        return DeviceBackend(np)
    first, _, device = name.partition(":")
    if first != "torch":
        raise CapabilityError(f"backend {name!r} is unknown; use 'numpy', 'torch' or 'torch:DEVICE'.")
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise CapabilityError("backend 'torch' needs PyTorch: `pip install 'widemargin[torch]'` adds it.") from error
    return DeviceBackend(torch, device or "cpu")


def usable_name(name: str) -> str:
    """The name of a backend, or "numpy" where it needs a library or a device that is not here.

    A fitted model predicts so wherever it is loaded: both compute the same values up to rounding.
    """
    if name != "numpy":
        try:
            backend_named(name)
        except CapabilityError as error:
            logger.info("%s Predicting by NumPy.", error)
            return "numpy"
    return name


def squared_norms(X: Matrix) -> Reals:
    """Squared Euclidean norms of the rows, shape (n,), summed in double precision, in the precision of X."""
    if not isinstance(X, np.ndarray):
        # Double precision: the distance of near rows is a small difference of large norms.
        squares = X.multiply(X).sum(axis=1, dtype=np.float64)
        return np.asarray(np.asarray(squares).ravel().astype(X.dtype))

    def part(first: int, last: int) -> Floats:
        norms: Floats = np.einsum("ij,ij->i", X[first:last], X[first:last], dtype=np.float64)
        return norms

    return np.concatenate(in_threads(X.shape[0], (1 << 20) // max(1, X.shape[1]), part)).astype(X.dtype)


def diagonal_of_products(kernel: Kernel, X: Matrix) -> Reals:
    """K(x, x) of every row, shape (n,), of a kernel that needs no norms."""
    return np.asarray(_finish(np, kernel, squared_norms(X)))


def _are_far(kernel: Kernel, square: Reals | None, most: float = 1e6) -> bool:
    """Whether rows of a Gaussian kernel are so far from the origin that norms and products hide what parts them.

    A distance is then the sum of the squared differences: 30 instead of 10 ns with 100 columns. With `gamma |x|^2` up
    to a million values are right to about 1e-8. Single precision is not taken for such rows unless it is asked for.
    """
    if square is None or square.dtype != np.float64:
        return False
    return kernel.gamma * float(square.max(initial=0.0)) > most


def fill_packed(kernel: Kernel, left: Placed, right: Placed, out: Reals, rows: Ints) -> bool:
    """Set `out[rows]` to the kernel values of all pairs; False, and nothing done, where not both sides allow it."""
    if right.packed is None or left.is_sparse:
        return False
    # The Gaussian is finished in the same pass, while the products are in the cache.
    squares = (left.square, right.square) if kernel.name == "rbf" else None
    ends = right.first, right.first + len(right)
    if not fill(right.packed, left.listed(right.packed), squares, -kernel.gamma * LOG2_E, *ends, out, rows):
        return False
    if squares is None:
        # A few rows at a time: the powers of all of them would be memory that is new, which is slow.
        height = max(1, NumpyBackend.tile // len(right))
        for low in range(0, len(rows), height):
            some = rows[low : low + height]
            out[some] = _finish(np, kernel, out[some])
    return True


def add_packed(kernel: Kernel, left: Placed, right: Placed, change: Floats, scores: Floats) -> bool:
    """Add `K(right, left) change` to `scores`; False, and nothing done, unless both sides and the kernel allow it."""
    if right.packed is None or left.is_sparse or kernel.name != "rbf":
        return False
    listed, ends = left.listed(right.packed), (right.first, right.first + len(right))
    return add(right.packed, listed, (left.square, right.square), -kernel.gamma * LOG2_E, *ends, change, scores)


def _finish(xp: Any, kernel: Kernel, block: Any) -> Any:
    """From inner products to values of a kernel that needs no norms, in place, in the array namespace `xp`.

    Raises
    ------
    KernelError
        If a power of a polynomial kernel is not a finite number: a broken power of a negative number, or an overflow.
    """
    if kernel.name in ("poly", "sigmoid"):
        block *= kernel.gamma
        block += kernel.coef0
    if kernel.name == "sigmoid":
        return xp.tanh(block, out=block)
    if kernel.name != "poly":
        return block
    # Powers that overflow are found below, with an error that says what to do.
    with np.errstate(all="ignore"):
        # A broken power of a negative number is NaN, and a large one may overflow.
        values = _power(block, kernel.degree)
    if not bool(xp.isfinite(values).all()):
        raise KernelError(
            f"kernel 'poly' gives values that are not finite numbers, as (gamma <x, y> + coef0) is between "
            f"{float(block.min()):.3g} and {float(block.max()):.3g} and degree={kernel.degree:g}: use a whole degree "
            "or a larger coef0 where it is negative; a lower degree or gamma, or scaled features, where it is large."
        )
    return values


def _power(block: Any, degree: float) -> Any:
    """`block ** degree`, of a whole degree by products, as LIBSVM does: each takes a tenth of the time of a power."""
    if degree < 1 or not float(degree).is_integer():
        return block**degree
    values, square, left = None, block, int(degree)
    while True:
        if left % 2:
            values = square if values is None else values * square
        left //= 2
        if not left:
            return values
        square = square * square
