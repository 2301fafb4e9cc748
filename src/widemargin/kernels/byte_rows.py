"""Dense rows whose numbers are 0 to 255 times one unit (images, counts), packed as bytes for fast and exact products.

Groups of four columns in which the left row is all 0 are left out. On one core with AVX-512 VNNI MNIST (784 columns,
19% of the entries not 0) takes a third of the time of the products of `mostly_zero`. Processors without that
instruction multiply such rows in other ways.

The right side is packed tile by tile, its bytes 128 less than they are, because the instruction multiplies unsigned
bytes by signed ones: `packed[t, g]` holds group g of four columns of the rows `COLUMNS t` and following, as `tile_dots`
reads it. A row of the left side is the list of its words (four bytes) that are not 0.
"""

from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin._byte_dots import COLUMNS, has_instruction, tile_dots
from widemargin._numba import kernel
from widemargin._threads import in_threads
from widemargin._typing import Index, Ints, Reals, Signs
from widemargin.kernels.gaussian import finish_gaussian

__all__ = [
    "ByteRows",
    "Words",
    "byte_rows_of",
    "fill_byte_products",
    "fill_words",
    "list_words",
    "smallest_and_largest",
]

Int32s: TypeAlias = npt.NDArray[np.int32]
Uint32s: TypeAlias = npt.NDArray[np.uint32]

LARGEST = 255


class Words(NamedTuple):
    """The groups of four columns of rows that are not all 0: of row i from `start[i]` to `start[i + 1]`.

    Attributes
    ----------
    start : ndarray of int64, shape (m + 1,)
    group : ndarray of int32
        Their numbers.
    word : ndarray of uint32
        Their bytes.
    total : ndarray of int64, shape (m,)
        Sum of a row's bytes.
    """

    start: Ints
    group: Int32s
    word: Uint32s
    total: Ints


def byte_rows_of(X: Reals) -> "ByteRows | None":
    """Rows packed as bytes; None where they are something else, or this processor has no instruction for it."""
    # The sum of 65,536 products of two bytes, one of them 128 less, is the longest that fits into 32 bits.
    if not has_instruction() or X.dtype not in (np.float32, np.float64) or not 0 < X.shape[1] <= 1 << 16:
        return None
    smallest, largest = smallest_and_largest(X)
    if smallest == 0.0:
        return None
    unit = largest / round(largest / smallest)
    words = _words(X, unit)
    return None if words is None else ByteRows(words, unit)


def _words(X: Reals, unit: float) -> Uint32s | None:
    """Rows as bytes, shape (n, groups); None where a number is not 0 to 255 times the unit.

    A number may be wrong by four units of its rounding: whoever divided the bytes by 255 has rounded, too.
    """
    words = np.zeros((X.shape[0], -(-X.shape[1] // 4)), np.uint32)
    return words if fill_words(X, unit, 4.0 * float(np.finfo(X.dtype).eps), words) else None


class ByteRows:
    """The right side of products.

    Parameters
    ----------
    words : ndarray of uint32, shape (n, groups)
        The rows, four bytes to a word.
    unit : float
        What the numbers are multiples of.
    """

    worth = 1 << 23
    """Values that are worth a thread: they take about a millisecond."""

    def __init__(self, words: Uint32s, unit: float) -> None:
        self._words, self.unit = words, unit

    @cached_property
    def _packed(self) -> Signs:
        """Signed bytes, shape (tiles, groups, 4 COLUMNS)."""
        n, groups = self._words.shape
        whole = np.zeros((-(-n // COLUMNS) * COLUMNS, groups), np.uint32)
        np.bitwise_xor(self._words, np.uint32(0x80808080), out=whole[:n])  # 128 less, byte by byte
        tiles = whole.reshape(-1, COLUMNS, groups).transpose(0, 2, 1)
        return np.ascontiguousarray(tiles).view(np.int8)

    def part(self, rows: Index, X: Reals) -> "ByteRows":
        """The same for some of the rows; X are these."""
        return ByteRows(self._words[rows], self.unit)

    def listed(self, X: Reals, packed: "ByteRows | None", first: int) -> Words | None:
        """Rows as the left side of products; None where they are no multiples of the unit.

        Where they are packed themselves they begin with row `first` of `packed`.
        """
        if packed is not None and packed.unit == self.unit:
            words = packed._words[first : first + X.shape[0]]
        else:
            new_words = _words(X, self.unit)
            if new_words is None:
                return None
            words = new_words
        start, total = np.empty(words.shape[0] + 1, np.int64), np.empty(words.shape[0], np.int64)
        group, word = np.empty(words.size, np.int32), np.empty(words.size, np.uint32)
        list_words(words, start, group, word, total)
        return Words(start, group[: start[-1]].copy(), word[: start[-1]].copy(), total)

    def fill(
        self, left: Words | None, squares: tuple[Reals, Reals] | None, scale: float, first: int, last: int, out: Reals,
        rows: Ints,
    ) -> bool:  # fmt: skip
        """`MostlyZero.fill` of bytes; False, and nothing done, where `left` is None."""
        m = rows.shape[0]
        if m == 0 or last <= first:
            return True
        if left is None:
            return False
        norms = (np.empty(0, out.dtype), np.empty(0, out.dtype)) if squares is None else squares
        exponent = out.dtype.type(0.0 if squares is None else scale)
        square = out.dtype.type(self.unit * self.unit)

        def columns(low: int, high: int) -> None:
            fill_byte_products(
                *left, square, self._packed, first, first + low, first + high, *norms, exponent, out, rows,
                np.empty(COLUMNS, np.int32),
            )  # fmt: skip

        in_threads(last - first, max(1, self.worth // m), columns)
        return True


@kernel
def smallest_and_largest(X: Reals) -> tuple[float, float]:
    """The smallest number above 0 and the largest one; (0, 0) where one is negative or they are too far apart."""
    smallest, largest = np.inf, 0.0
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            x = float(X[i, k])
            if x != 0.0:
                if not x > 0.0:
                    return 0.0, 0.0
                smallest, largest = min(smallest, x), max(largest, x)
        # Looked at after every row, so that other data are given up early; 1% is room for rounded numbers.
        if largest > 1.01 * LARGEST * smallest:
            return 0.0, 0.0
    return (smallest, largest) if largest > 0.0 else (0.0, 0.0)


@kernel
def fill_words(X: Reals, unit: float, accuracy: float, words: Uint32s) -> bool:
    """Write rows as bytes, four to a word, the first one lowest; False where a number is not a byte times the unit."""
    d = X.shape[1]
    for i in range(X.shape[0]):
        for k in range(d):
            x = float(X[i, k])
            if x != 0.0:
                units = np.floor(x / unit + 0.5)
                if not 0.0 <= units <= LARGEST or abs(x - units * unit) > accuracy * x:
                    return False
                words[i, k // 4] |= np.uint32(units) << np.uint32(8 * (k % 4))
    return True


@kernel
def list_words(words: Uint32s, start: Ints, group: Int32s, word: Uint32s, total: Ints) -> None:
    """List the words of each row that are not 0, from `start[i]` to `start[i + 1]`, and sum up its bytes."""
    count = 0
    for i in range(words.shape[0]):
        start[i], whole = count, 0
        for g in range(words.shape[1]):
            four = words[i, g]
            if four != 0:
                group[count], word[count] = g, four
                count += 1
                whole += (four & 255) + ((four >> 8) & 255) + ((four >> 16) & 255) + (four >> 24)
        total[i] = whole
    start[words.shape[0]] = count


@kernel
def fill_byte_products(
    start: Ints, group: Int32s, word: Uint32s, total: Ints, unit: np.floating[Any], packed: Signs, origin: int,
    first: int, last: int, left: Reals, right: Reals, scale: np.floating[Any], out: Reals, rows: Ints, room: Int32s,
) -> None:  # fmt: skip
    """`mostly_zero.fill_products` of bytes; `room` holds the sums of a tile, `unit` is the square of the unit."""
    tile = packed.shape[2] // 4
    for t in range(first // tile, (last - 1) // tile + 1):
        low, high = max(first, t * tile), min(last, (t + 1) * tile)
        part = room[low - t * tile : high - t * tile]
        for i in range(rows.shape[0]):
            tile_dots(packed[t], group, word, start[i], start[i + 1], room)
            # The right bytes are 128 less than they are, so 128 times the sum of the left ones is missing.
            sums, missing = out[rows[i], low - origin : high - origin], np.int32(128 * total[i])
            for j in range(high - low):
                sums[j] = unit * (part[j] + missing)
            if scale != 0.0:
                finish_gaussian(sums, left[i], right[low - origin : high - origin], scale)
