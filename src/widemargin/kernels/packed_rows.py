"""Dense rows packed for fast products: rows that are mostly 0, and rows of bytes.

*Mostly 0* (one-hot columns, counts). A product touches only the entries of the left row that are not 0, and where all
entries are 0 or one other value (one-hot columns) it only counts matches, in bytes. Measured by
`python -m benchmarks kernel_ablations`. The right side is packed tile by tile: `packed[t, k]` holds column k of the
rows `t * tile` and following, and its last column is 0. A row of the left side is the list of its entries, filled up
with that column to a multiple of four.

*Bytes* (images): numbers that are 0 to 255 times one unit; products are exact. Groups of four columns in which the left
row is all 0 are left out. On one core with AVX-512 VNNI MNIST (784 columns, 19% of the entries not 0) takes a third of
the time of the products of single entries. Processors without that instruction multiply such rows in other ways. The
right side is packed tile by tile, its bytes 128 less than they are, because the instruction multiplies unsigned bytes
by signed ones: `packed[t, g]` holds group g of four columns of the rows `COLUMNS t` and following, as `tile_dots` reads
it. A row of the left side is the list of its words (four bytes) that are not 0.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin._byte_dots import COLUMNS, has_instruction, tile_dots
from widemargin._numba import kernel
from widemargin._threads import in_threads
from widemargin._typing import Flags, Floats, Index, Ints, Reals, Signs
from widemargin.kernels.functions import finish_gaussian

MOST_UNITS = 1.01 * 255
"""Largest ratio of two bytes that are not 0, with room for rounded numbers."""

_HEIGHT, _RUN = 32, 8 * COLUMNS
"""Rows and columns of sums of bytes that are finished at once: loops over single tiles take longer to begin than to
end. MNIST: 2.6 instead of 3.2 ns a value."""

Int32s: TypeAlias = npt.NDArray[np.int32]
Uint32s: TypeAlias = npt.NDArray[np.uint32]
Packed: TypeAlias = Reals | Flags


def is_mostly_zero(X: Reals) -> bool:
    """Whether at most a fifth of the entries are not 0: with more of them BLAS, which skips none, is as fast."""
    some = X[:: max(1, X.shape[0] // 2048)]  # enough to tell, and far sooner read than all rows
    return bool(X.size > 0 and np.count_nonzero(some) <= 0.2 * some.size)


def _rows_each(X: Reals) -> int:
    """Rows of an array that are worth a thread which reads them once."""
    return max(1, (1 << 20) // max(1, int(X.shape[1])))


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


def list_entries(X: Packed) -> Entries:
    """The entries of the left side of products, listed once for any number of them."""
    m, d = X.shape
    # Every entry of every row, and up to four more to fill its list up.
    room = m * (d + 4)
    start, place, weight = np.empty(m + 1, np.int64), np.empty(room, np.int32), np.zeros(room, X.dtype)
    one_value = bool(entries(X, start, place, weight))
    count = int(start[-1]) if m else 0
    return Entries(start, place[:count].copy(), weight[:count].copy(), one_value)


def _in_tiles(X: Packed, most: int) -> Packed:
    """Rows tile by tile, shape (tiles, d + 1, tile): at most so many rows to a tile, and a last column of 0."""
    n, d = X.shape
    fit = (1 << 21) // ((d + 1) * X.dtype.itemsize)  # a tile of about 2 MB stays in the second cache
    # A power of two of rows, within what keeps the loops long and the tile in the cache.
    tile = max(1, min(int(np.clip(1 << max(0, fit.bit_length() - 1), 128, most)), n))
    packed = np.zeros((max(1, -(-n // tile)), d + 1, tile), dtype=X.dtype)
    for t in range(packed.shape[0]):
        part = X[t * tile : (t + 1) * tile]
        packed[t, :d, : part.shape[0]] = part.T
    return packed


class MostlyZero:
    """Rows of which only the entries that are not 0 are multiplied.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Packed at the first product.
    """

    worth = 1 << 18
    """Values that are worth a thread: they take it a third of a millisecond."""

    def __init__(self, X: Reals) -> None:
        self._X = X

    @cached_property
    def rounded(self) -> int:
        """Roundings that an inner product adds up at most: one of each product."""
        return int(np.count_nonzero(self._X, axis=1).max(initial=0))

    @cached_property
    def tiles(self) -> Packed:
        """The rows, shape (tiles, d + 1, tile)."""
        return _in_tiles(self._X, 512)


class Marked:
    """Rows whose entries are 0 or one other value (one-hot columns): their products count matches.

    Parameters
    ----------
    marks : ndarray of uint8, shape (n, d)
        1 where an entry is not 0, at most 255 times in a row, as matches are counted in bytes.
    value : number
        The other value, in the precision of the rows.
    """

    worth, rounded = 1 << 18, 0
    """As of `MostlyZero`; a count adds up no roundings."""

    def __init__(self, marks: Flags, value: np.floating[Any]) -> None:
        self.marks, self.value = marks, value

    @cached_property
    def tiles(self) -> Packed:
        """The marks, shape (tiles, d + 1, tile)."""
        return _in_tiles(self.marks, 4096)

    def part(self, rows: Index) -> "Marked":
        """The same for some of the rows."""
        return Marked(self.marks[rows], self.value)


def marked_rows_of(X: Reals) -> Marked | None:
    """Rows of one value that is not 0; None where they have several, or one of them too many entries to count."""
    # Most other rows are told by the first of them.
    for some in (X[:64], X):
        largest, smallest = some.max(initial=0.0), some.min(initial=0.0)
        value = largest if largest > 0.0 else smallest
        marks = some != 0.0
        if value == 0.0 or np.count_nonzero(some == value) != np.count_nonzero(marks):
            return None
    counted = np.count_nonzero(marks, axis=1)
    return Marked(marks.view(np.uint8), X.dtype.type(value)) if counted.max() <= np.iinfo(np.uint8).max else None


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
    ends = in_threads(X.shape[0], _rows_each(X), partial(smallest_and_largest, X))
    # Rows of zeros have no smallest number; that of others is (0, 0) where they are no bytes.
    smallest, largest = min(low for low, _ in ends), max(high for _, high in ends)
    if smallest == 0.0 or not 0.0 < largest <= MOST_UNITS * smallest:
        return None
    # The smallest number is a few units, so the ratio to the largest tells how many.
    unit = largest / round(largest / smallest)
    words = words_of(X, unit)
    return None if words is None else ByteRows(words, unit)


def words_of(X: Reals, unit: float) -> Uint32s | None:
    """Rows as bytes, shape (n, groups); None where a number is not 0 to 255 times the unit.

    A number may be wrong by four units of its rounding: whoever divided the bytes by 255 has rounded, too.
    """
    # Columns are filled up to a multiple of four by zeros.
    words = np.zeros((X.shape[0], -(-X.shape[1] // 4)), np.uint32)
    accuracy = 4.0 * float(np.finfo(X.dtype).eps)
    filled = in_threads(X.shape[0], _rows_each(X), partial(fill_words, X, unit, accuracy, words))
    return words if all(filled) else None


class ByteRows:
    """Rows of bytes.

    Parameters
    ----------
    words : ndarray of uint32, shape (n, groups)
        The rows, four bytes to a word.
    unit : float
        What the numbers are multiples of.
    """

    worth = 1 << 17
    """Values that are worth a thread: of 784 columns they take it half a millisecond."""
    rounded = 16
    """Products are exact; both factors may be off by four units, eight halves, of their rounding (`words_of`)."""

    def __init__(self, words: Uint32s, unit: float) -> None:
        self.words, self.unit = words, unit

    @cached_property
    def tiles(self) -> Signs:
        """Signed bytes, shape (tiles, groups, 4 COLUMNS)."""
        n, groups = self.words.shape
        # Filled up to whole tiles, so that the loops need no special last one.
        whole = np.zeros((-(-n // COLUMNS) * COLUMNS, groups), np.uint32)
        np.bitwise_xor(self.words, np.uint32(0x80808080), out=whole[:n])  # 128 less, byte by byte
        # The instruction reads one group of four columns for a whole tile of rows.
        tiles = whole.reshape(-1, COLUMNS, groups).transpose(0, 2, 1)
        return np.ascontiguousarray(tiles).view(np.int8)

    def part(self, rows: Index) -> "ByteRows":
        """The same for some of the rows."""
        return ByteRows(self.words[rows], self.unit)


def listed_words(words: Uint32s) -> Words:
    """Rows of bytes as the left side of products, listed once for any number of them."""
    start, total = np.empty(words.shape[0] + 1, np.int64), np.empty(words.shape[0], np.int64)
    group, word = np.empty(words.size, np.int32), np.empty(words.size, np.uint32)
    list_words(words, start, group, word, total)
    return Words(start, group[: start[-1]].copy(), word[: start[-1]].copy(), total)


PackedRows: TypeAlias = Marked | MostlyZero | ByteRows


def fill(
    packed: PackedRows, left: Entries | Words | None, squares: tuple[Reals, Reals] | None, scale: float, first: int,
    last: int, out: Reals, rows: Ints,
) -> bool:  # fmt: skip
    """Set `out[rows[i]]` to the products of row i of `left` with the rows `first` to `last` that are packed.

    Parameters
    ----------
    packed : Marked, MostlyZero or ByteRows
    left : Entries or Words
        Of m rows; None where they are no bytes.
    squares : tuple of two ndarrays, shapes (m,) and (n,), or None
        Squared norms of both sides: give the Gaussian kernel `2^(scale |x - y|^2)` instead of products.
    scale : float
    first, last : int
    out : ndarray of shape (slots, last - first)
    rows : ndarray of int, shape (m,)

    Returns
    -------
    bool
        False where nothing was done: matches cannot be counted, because a left row has several values, or the left side
        is no bytes.
    """
    m, nothing = rows.shape[0], np.empty(0)
    if m == 0 or last <= first:
        return True
    loop = _loop(packed, left, out.dtype, squares, scale)
    if loop is None:
        return False
    in_threads(last - first, max(1, packed.worth // m), lambda low, high: loop(
        first, first + low, first + high, out, rows, nothing, nothing
    ))  # fmt: skip
    return True


def add(
    packed: PackedRows, left: Entries | Words | None, squares: tuple[Reals, Reals], scale: float, first: int, last: int,
    change: Floats, scores: Floats,
) -> bool:  # fmt: skip
    """Add the Gaussian values of `fill`, times `change`, shape (m,), to `scores`, shape (last - first,).

    Nothing is stored but the values of one row with one tile, so one call of a loop does it all.
    """
    m, dtype = change.shape[0], squares[0].dtype
    if m == 0 or last <= first:
        return True
    loop = _loop(packed, left, dtype, squares, scale)
    if loop is None:
        return False
    room = np.empty((1, _RUN if isinstance(packed, ByteRows) else packed.tiles.shape[2]), dtype)
    loop(first, first, last, room, np.zeros(m, np.int64), change, scores)
    return True


def _loop(
    packed: PackedRows, left: Entries | Words | None, dtype: np.dtype[Any], squares: tuple[Reals, Reals] | None,
    scale: float,
) -> Callable[..., None] | None:  # fmt: skip
    """The loop for these rows, with what does not change from call to call; None where they have none."""
    # The loops take arrays in any case; without a Gaussian they are not read.
    norms = (np.empty(0, dtype), np.empty(0, dtype)) if squares is None else squares
    exponent = dtype.type(0.0 if squares is None else scale)

    def with_room(
        loop: Callable[..., None], given: tuple[Any, ...], room: int | tuple[int, int], kind: npt.DTypeLike
    ) -> Callable[..., None]:
        return lambda *ends: loop(*given, np.empty(room, kind), *ends)  # every thread has room of its own

    if isinstance(packed, ByteRows):
        if not isinstance(left, Words):
            return None
        unit = dtype.type(packed.unit * packed.unit)
        given = (*left, unit, packed.tiles, *norms, exponent)
        return with_room(fill_byte_products, given, (_HEIGHT, _RUN), np.int32)
    if not isinstance(left, Entries):
        return None
    if isinstance(packed, MostlyZero):
        several: tuple[Any, ...] = (left.start, left.place, left.weight, packed.tiles, *norms, exponent)
        return partial(fill_products, *several)
    if not left.one_value:
        return None
    # The one value of the right side goes into the weights of the left one.
    given = (left.start, left.place, left.weight * packed.value, packed.tiles, *norms, exponent)
    return with_room(fill_matches, given, packed.tiles.shape[2], np.uint8)


def pack(X: Reals) -> PackedRows | None:
    """Dense rows packed for products; None where BLAS is as fast.

    Matches are counted faster than bytes are multiplied, and bytes are multiplied faster than single entries.
    """
    mostly_zero = is_mostly_zero(X)
    marked = marked_rows_of(X) if mostly_zero else None
    return marked or byte_rows_of(X) or (MostlyZero(X) if mostly_zero else None)


@kernel
def entries(left: Packed, start: Ints, place: Int32s, weight: Reals) -> bool:
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
def _conclude(
    sums: Reals, left: Reals, i: int, right: Reals, scale: np.floating[Any], change: Floats, scores: Floats
) -> None:
    """What follows the inner products of left row i with a tile: the Gaussian, and what it adds to the scores."""
    if scale != 0.0:
        finish_gaussian(sums, left[i], right, scale)
    if change.shape[0]:
        for j in range(sums.shape[0]):
            scores[j] += change[i] * sums[j]


@kernel
def fill_products(
    start: Ints, place: Int32s, weight: Reals, packed: Packed, left: Reals, right: Reals, scale: np.floating[Any],
    origin: int, first: int, last: int, out: Reals, rows: Ints, change: Floats, scores: Floats,
) -> None:  # fmt: skip
    """Set part of `out[rows[i]]` to the inner products of left row i with the right rows first to last.

    The first column of `out`, and the first of the norms `right` and of `scores`, belong to row `origin`.
    Where `scale` is not 0, to the Gaussian kernel `2^(scale |x - y|^2)`; `left` and `right` are the squared norms.
    With `change` the values times it are added to `scores`, and `out` is room for a tile of them.
    """
    tile = packed.shape[2]
    for t in range(first // tile, (last - 1) // tile + 1):
        low, high = max(first, t * tile), min(last, (t + 1) * tile)
        part, a, b = packed[t], low - t * tile, high - t * tile
        begin = low if change.shape[0] else origin
        norms, total = right[low - origin : high - origin], scores[low - origin : high - origin]
        for i in range(rows.shape[0]):
            sums = out[rows[i], low - begin : high - begin]
            for j in range(b - a):
                sums[j] = 0.0
            # Four entries at a time: a pass over the sums costs more than the arithmetic.
            for k in range(start[i], start[i + 1], 4):
                u, v, w, x = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
                one, two = part[place[k], a:b], part[place[k + 1], a:b]
                three, four = part[place[k + 2], a:b], part[place[k + 3], a:b]
                for j in range(b - a):
                    sums[j] += (u * one[j] + v * two[j]) + (w * three[j] + x * four[j])
            _conclude(sums, left, i, norms, scale, change, total)


@kernel
def fill_matches(
    start: Ints, place: Int32s, weight: Reals, packed: Packed, left: Reals, right: Reals, scale: np.floating[Any],
    count: Flags, origin: int, first: int, last: int, out: Reals, rows: Ints, change: Floats, scores: Floats,
) -> None:  # fmt: skip
    """`fill_products` where all entries of the right side are 0 or 1, and those of a left row 0 or its first weight.

    The products count matches: bytes are added, 64 at a time. `count` is room for a tile of them.
    """
    tile = packed.shape[2]
    for t in range(first // tile, (last - 1) // tile + 1):
        low, high = max(first, t * tile), min(last, (t + 1) * tile)
        part, a, b = packed[t], low - t * tile, high - t * tile
        same, begin = count[: b - a], low if change.shape[0] else origin
        norms, total = right[low - origin : high - origin], scores[low - origin : high - origin]
        for i in range(rows.shape[0]):
            for j in range(b - a):
                same[j] = 0
            for k in range(start[i], start[i + 1], 4):
                one, two = part[place[k], a:b], part[place[k + 1], a:b]
                three, four = part[place[k + 2], a:b], part[place[k + 3], a:b]
                for j in range(b - a):
                    same[j] += one[j] + two[j] + three[j] + four[j]
            sums, value = out[rows[i], low - begin : high - begin], weight[start[i]]
            for j in range(b - a):
                sums[j] = value * same[j]
            _conclude(sums, left, i, norms, scale, change, total)


@kernel
def smallest_and_largest(X: Reals, first: int, last: int) -> tuple[float, float]:
    """The smallest number above 0 (infinity: none) and the largest one of some rows; (0, 0) where they are no bytes."""
    smallest, largest = np.inf, 0.0
    for i in range(first, last):
        for k in range(X.shape[1]):
            x = float(X[i, k])
            if x != 0.0:
                if not x > 0.0:
                    return 0.0, 0.0
                smallest, largest = min(smallest, x), max(largest, x)
        # Looked at after every row, so that other data are given up early.
        if largest > MOST_UNITS * smallest:
            return 0.0, 0.0
    return smallest, largest


@kernel
def fill_words(X: Reals, unit: float, accuracy: float, words: Uint32s, first: int, last: int) -> bool:
    """Write some rows as bytes, four to a word, the first one lowest; False where one is not a byte times the unit."""
    d = X.shape[1]
    for i in range(first, last):
        for k in range(d):
            x = float(X[i, k])
            if x != 0.0:
                units = np.floor(x / unit + 0.5)
                # A number that is no byte times the unit ends the attempt.
                if not 0.0 <= units <= 255 or abs(x - units * unit) > accuracy * x:
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
    start: Ints, group: Int32s, word: Uint32s, total: Ints, unit: np.floating[Any], packed: Signs, left: Reals,
    right: Reals, scale: np.floating[Any], room: Int32s, origin: int, first: int, last: int, out: Reals, rows: Ints,
    change: Floats, scores: Floats,
) -> None:  # fmt: skip
    """`fill_products` of bytes; `room` holds sums of some rows with some tiles, `unit` is the square of the unit."""
    tile, height = packed.shape[2] // 4, room.shape[0]
    wide, end = room.shape[1] // tile, (last - 1) // tile + 1
    for t in range(first // tile, end, wide):
        stop = min(t + wide, end)
        low, high = max(first, t * tile), min(last, stop * tile)
        a, b, begin = low - t * tile, high - t * tile, low if change.shape[0] else origin
        norms, here = right[low - origin : high - origin], scores[low - origin : high - origin]
        for top in range(0, rows.shape[0], height):
            # A tile stays in the second cache for a block of rows; what follows takes long runs of sums.
            for s in range(t, stop):
                for i in range(top, min(top + height, rows.shape[0])):
                    part = room[i - top, (s - t) * tile : (s - t + 1) * tile]
                    tile_dots(packed[s], group, word, start[i], start[i + 1], part)
            for i in range(top, min(top + height, rows.shape[0])):
                # The right bytes are 128 less than they are, so 128 times the sum of the left ones is missing.
                sums, missing = out[rows[i], low - begin : high - begin], np.int32(128 * total[i])
                whole = room[i - top, a:b]
                for j in range(high - low):
                    sums[j] = unit * (whole[j] + missing)
                _conclude(sums, left, i, norms, scale, change, here)
