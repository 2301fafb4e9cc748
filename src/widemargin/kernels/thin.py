"""Dense rows that are mostly 0, packed for fast products: one-hot columns, images, counts.

A product touches only the entries of the left row that are not 0, and where all entries are 0 or one other value
(one-hot columns) it only counts matches, in bytes. On one core a9a (123 columns, 11% of the entries, all 1) takes a
quarter of BLAS's time, and MNIST (784 columns, 19%) 0.6 of it.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._typing import Index
from widemargin.kernels import _thin_loops as loops
from widemargin.kernels.packed import Packed, Task

__all__ = ["Entries", "Thin", "is_thin", "list_entries"]

Array = npt.NDArray[Any]

SHARE = 0.2
"""Share of entries that are not 0, up to which rows are thin."""

_TILE_BYTES = 1 << 21  # of a packed tile: about the second cache
_BYTE = 255  # matches that a byte can count


def is_thin(X: Any) -> bool:
    """Whether a dense matrix has at most `SHARE` of its entries other than 0."""
    return bool(X.size > 0 and np.count_nonzero(X) <= SHARE * X.size)


class Entries(NamedTuple):
    """The entries of rows that are not 0: of row i from `start[i]` to `start[i + 1]`, filled up to multiples of four.

    Attributes
    ----------
    start : ndarray of int64, shape (m + 1,)
    place : ndarray of int32
        Columns.
    weight : ndarray
    one_value : bool
        Whether every row has one value only.
    """

    start: Array
    place: Array
    weight: Array
    one_value: bool


def list_entries(X: Array) -> Entries:
    """The entries of the left side of products, listed once for any number of them."""
    m, d = X.shape
    room = m * (d + 4)
    start, place, weight = np.empty(m + 1, np.int64), np.empty(room, np.int32), np.zeros(room, X.dtype)
    one_value = bool(loops.entries(X, start, place, weight))
    count = int(start[-1]) if m else 0
    return Entries(start, place[:count].copy(), weight[:count].copy(), one_value)


class Thin(Packed):
    """The right side of products.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Packed at the first product.
    whole : Thin, optional
        The rows that X is a part of.
    """

    worth = 1 << 21

    def __init__(self, X: Array, whole: "Thin | None" = None) -> None:
        self._X, self._whole = X, whole

    @cached_property
    def value(self) -> float:
        """The one value of all entries that are not 0; 0.0 where there are several, or too many in a row to count."""
        if self._whole is not None:
            return self._whole.value
        if self._X.shape[0] == 0:
            return 0.0
        largest, smallest = float(self._X.max()), float(self._X.min())
        value = largest if largest > 0.0 else smallest
        counted = np.count_nonzero(self._X, axis=1)
        same = np.count_nonzero(value == self._X) == counted.sum()
        return value if same and counted.max() <= _BYTE else 0.0

    @cached_property
    def _packed(self) -> Array:
        n, d = self._X.shape
        dtype: Any = np.uint8 if self.value else self._X.dtype
        fit = _TILE_BYTES // ((d + 1) * np.dtype(dtype).itemsize)
        tile = int(np.clip(1 << max(0, fit.bit_length() - 1), 128, 4096 if self.value else 512))
        packed = np.zeros((max(1, -(-n // tile)), d + 1, tile), dtype=dtype)
        for t in range(packed.shape[0]):
            part = self._X[t * tile : (t + 1) * tile]
            packed[t, :d, : part.shape[0]] = (part != 0.0).T if self.value else part.T
        return packed

    def part(self, rows: Index, X: Array) -> "Thin":
        """Some of the rows."""
        return Thin(X, self)

    def listed(self, X: Array, packed: Packed | None, first: int) -> Entries:
        """Index as the left side of products."""
        return list_entries(X)

    def _usable(self, left: Entries) -> bool:
        """False where matches cannot be counted, because a left row has several values."""
        return not self.value or left.one_value

    def _fill(self, left: Entries, origin: int, first: int, last: int, task: Task) -> None:
        weight = left.weight * self._X.dtype.type(self.value) if self.value else left.weight  # of both sides
        arguments = (left.start, left.place, weight, self._packed, origin, first, last, *task)
        if self.value:
            loops.fill_matches(*arguments, np.empty(self._packed.shape[2], np.uint8))
        else:
            loops.fill_products(*arguments)
