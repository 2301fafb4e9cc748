"""Dense rows that are mostly 0, packed for fast products: one-hot columns, counts, images.

A product touches only the entries of the left row that are not 0, and where all entries are 0 or one other value
(one-hot columns) it only counts matches, in bytes. Measured by `benchmarks/kernel_ablations.py`.

The right side is packed tile by tile: `packed[t, k]` holds column k of the rows `t * tile` and following, and its last
column is 0. A row of the left side is the list of its entries, filled up with that column to a multiple of four.
"""

from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin._numba import kernel
from widemargin._threads import in_threads
from widemargin._typing import Flags, Index, Ints, Reals
from widemargin.kernels.gaussian import finish_gaussian

__all__ = ["Entries", "MostlyZero", "entries", "fill_matches", "fill_products", "is_mostly_zero", "list_entries"]

Int32s: TypeAlias = npt.NDArray[np.int32]
Packed: TypeAlias = Reals | Flags


def is_mostly_zero(X: Reals) -> bool:
    """Whether at most a fifth of the entries are not 0: with more of them BLAS, which skips none, is as fast."""
    return bool(X.size > 0 and np.count_nonzero(X) <= 0.2 * X.size)


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

    start: Ints
    place: Int32s
    weight: Reals
    one_value: bool


def list_entries(X: Reals) -> Entries:
    """The entries of the left side of products, listed once for any number of them."""
    m, d = X.shape
    room = m * (d + 4)
    start, place, weight = np.empty(m + 1, np.int64), np.empty(room, np.int32), np.zeros(room, X.dtype)
    one_value = bool(entries(X, start, place, weight))
    count = int(start[-1]) if m else 0
    return Entries(start, place[:count].copy(), weight[:count].copy(), one_value)


class MostlyZero:
    """The right side of products.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Packed at the first product.
    whole : MostlyZero, optional
        The rows that X is a part of.
    """

    worth = 1 << 21
    """Values that are worth a thread: they take about a millisecond."""

    def __init__(self, X: Reals, whole: "MostlyZero | None" = None) -> None:
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
        return value if same and counted.max() <= np.iinfo(np.uint8).max else 0.0

    @cached_property
    def _packed(self) -> Packed:
        n, d = self._X.shape
        dtype = np.dtype(np.uint8) if self.value else self._X.dtype
        fit = (1 << 21) // ((d + 1) * dtype.itemsize)  # a tile of about 2 MB stays in the second cache
        tile = int(np.clip(1 << max(0, fit.bit_length() - 1), 128, 4096 if self.value else 512))
        packed = np.zeros((max(1, -(-n // tile)), d + 1, tile), dtype=dtype)
        for t in range(packed.shape[0]):
            part = self._X[t * tile : (t + 1) * tile]
            packed[t, :d, : part.shape[0]] = (part != 0.0).T if self.value else part.T
        return packed

    def part(self, rows: Index, X: Reals) -> "MostlyZero":
        """The same for some of the rows; X are these."""
        return MostlyZero(X, self)

    def fill(
        self, left: Entries, squares: tuple[Reals, Reals] | None, scale: float, first: int, last: int, out: Reals,
        rows: Ints,
    ) -> bool:  # fmt: skip
        """Set `out[rows[i]]` to the products of row i of `left` with the rows `first` to `last`.

        Parameters
        ----------
        left : Entries
            Of m rows.
        squares : tuple of two ndarrays, shapes (m,) and (n,), or None
            Squared norms of both sides: give the Gaussian kernel `2^(scale |x - y|^2)`, float32, instead of products.
        scale : float
        first, last : int
        out : ndarray of shape (slots, last - first)
        rows : ndarray of int, shape (m,)

        Returns
        -------
        bool
            False where nothing was done: matches cannot be counted, because a left row has several values.
        """
        m = rows.shape[0]
        if m == 0 or last <= first:
            return True
        if self.value and not left.one_value:
            return False
        weight = left.weight * self._X.dtype.type(self.value) if self.value else left.weight  # of both sides
        norms = (np.empty(0, out.dtype), np.empty(0, out.dtype)) if squares is None else squares
        exponent = out.dtype.type(0.0 if squares is None else scale)

        def columns(low: int, high: int) -> None:
            arguments = (left.start, left.place, weight, self._packed, first, first + low, first + high, *norms)
            if self.value:
                fill_matches(*arguments, exponent, out, rows, np.empty(self._packed.shape[2], np.uint8))
            else:
                fill_products(*arguments, exponent, out, rows)

        in_threads(last - first, max(1, self.worth // m), columns)
        return True


@kernel
def entries(left: Reals, start: Ints, place: Int32s, weight: Reals) -> bool:
    """Write the entries of dense rows that are not 0: those of row i stand from `start[i]` to `start[i + 1]`.

    Returns whether every row has one value only.
    """
    m, d = left.shape
    count, one_value = 0, True
    for i in range(m):
        start[i] = count
        for k in range(d):
            if left[i, k] != 0.0:
                place[count] = k
                weight[count] = left[i, k]
                one_value &= weight[count] == weight[start[i]]
                count += 1
        # Whole fours spare the products a loop for the rest; the column that is added holds zeros.
        while count % 4 != 0 or count == start[i]:
            place[count] = d
            weight[count] = 0.0
            count += 1
    start[m] = count
    return one_value


@kernel
def fill_products(
    start: Ints, place: Int32s, weight: Reals, packed: Packed, origin: int, first: int, last: int, left: Reals,
    right: Reals, scale: np.floating[Any], out: Reals, rows: Ints,
) -> None:  # fmt: skip
    """Set part of `out[rows[i]]` to the inner products of left row i with the right rows first to last.

    The first column of `out`, and the first of the norms `right`, belong to row `origin`.
    Where `scale` is not 0, to the Gaussian kernel `2^(scale |x - y|^2)`; `left` and `right` are the squared norms.
    """
    tile = packed.shape[2]
    for t in range(first // tile, (last - 1) // tile + 1):
        low, high = max(first, t * tile), min(last, (t + 1) * tile)
        part, a, b = packed[t], low - t * tile, high - t * tile
        for i in range(rows.shape[0]):
            sums = out[rows[i], low - origin : high - origin]
            for j in range(b - a):
                sums[j] = 0.0
            # Four entries at a time: a pass over the sums costs more than the arithmetic.
            for k in range(start[i], start[i + 1], 4):
                u, v, w, x = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
                one, two = part[place[k], a:b], part[place[k + 1], a:b]
                three, four = part[place[k + 2], a:b], part[place[k + 3], a:b]
                for j in range(b - a):
                    sums[j] += (u * one[j] + v * two[j]) + (w * three[j] + x * four[j])
            if scale != 0.0:
                finish_gaussian(sums, left[i], right[low - origin : high - origin], scale)


@kernel
def fill_matches(
    start: Ints, place: Int32s, weight: Reals, packed: Packed, origin: int, first: int, last: int, left: Reals,
    right: Reals, scale: np.floating[Any], out: Reals, rows: Ints, count: Flags,
) -> None:  # fmt: skip
    """`fill_products` where all entries of the right side are 0 or 1, and those of a left row 0 or its first weight.

    The products count matches: bytes are added, 64 at a time. `count` is room for a tile of them.
    """
    tile = packed.shape[2]
    for t in range(first // tile, (last - 1) // tile + 1):
        low, high = max(first, t * tile), min(last, (t + 1) * tile)
        part, a, b = packed[t], low - t * tile, high - t * tile
        same = count[: b - a]
        for i in range(rows.shape[0]):
            for j in range(b - a):
                same[j] = 0
            for k in range(start[i], start[i + 1], 4):
                one, two = part[place[k], a:b], part[place[k + 1], a:b]
                three, four = part[place[k + 2], a:b], part[place[k + 3], a:b]
                for j in range(b - a):
                    same[j] += one[j] + two[j] + three[j] + four[j]
            sums, value = out[rows[i], low - origin : high - origin], weight[start[i]]
            for j in range(b - a):
                sums[j] = value * same[j]
            if scale != 0.0:
                finish_gaussian(sums, left[i], right[low - origin : high - origin], scale)
