"""Dense rows whose numbers are 0 to 255 times one unit (images, counts), packed as bytes for fast and exact products.

Groups of four columns in which the left row is all 0 are left out. On one core with AVX-512 VNNI MNIST (784 columns,
19% of the entries not 0) takes a third of the time of `thin` products.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._byte_dots import COLUMNS, has_instruction
from widemargin._typing import Index
from widemargin.kernels import _level_loops as loops
from widemargin.kernels.packed import Packed, Task

__all__ = ["Levels", "Words", "levels_of"]

Array = npt.NDArray[Any]

_WIDEST = 1 << 16  # columns whose products fit into 32 bits
_ACCURACY = 4.0  # of the numbers, in units of their rounding


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

    start: Array
    group: Array
    word: Array
    total: Array


def levels_of(X: Array) -> "Levels | None":
    """Index packed as bytes; None where they are something else, or this processor has no instruction for it."""
    if not has_instruction() or X.dtype not in (np.float32, np.float64) or not 0 < X.shape[1] <= _WIDEST:
        return None
    smallest, largest = loops.smallest_and_largest(X)
    if smallest == 0.0:
        return None
    unit = largest / round(largest / smallest)
    words = _words(X, unit)
    return None if words is None else Levels(words, unit)


def _words(X: Array, unit: float) -> Array | None:
    """Index as bytes, shape (n, groups); None where a number is none of the 256 levels."""
    words = np.zeros((X.shape[0], -(-X.shape[1] // 4)), np.uint32)
    return words if loops.fill_words(X, unit, _ACCURACY * float(np.finfo(X.dtype).eps), words) else None


class Levels(Packed):
    """The right side of products.

    Parameters
    ----------
    words : ndarray of uint32, shape (n, groups)
        The rows, four bytes to a word.
    unit : float
        What the numbers are multiples of.
    """

    worth = 1 << 23

    def __init__(self, words: Array, unit: float) -> None:
        self._words, self.unit = words, unit

    def part(self, rows: Index, X: Array) -> "Levels":
        """Some of the rows."""
        return Levels(self._words[rows], self.unit)

    @cached_property
    def _packed(self) -> Array:
        """Signed bytes, shape (tiles, groups, 4 COLUMNS)."""
        n, groups = self._words.shape
        whole = np.zeros((-(-n // COLUMNS) * COLUMNS, groups), np.uint32)
        np.bitwise_xor(self._words, np.uint32(0x80808080), out=whole[:n])  # 128 less, byte by byte
        tiles = whole.reshape(-1, COLUMNS, groups).transpose(0, 2, 1)
        return np.ascontiguousarray(tiles).view(np.int8)

    def listed(self, X: Array, packed: Packed | None, first: int) -> Words | None:
        """Index as the left side of products; None where they are no multiples of the unit."""
        if isinstance(packed, Levels) and packed.unit == self.unit:
            words = packed._words[first : first + X.shape[0]]
        else:
            made = _words(X, self.unit)
            if made is None:
                return None
            words = made
        start, total = np.empty(words.shape[0] + 1, np.int64), np.empty(words.shape[0], np.int64)
        group, word = np.empty(words.size, np.int32), np.empty(words.size, np.uint32)
        loops.list_words(words, start, group, word, total)
        return Words(start, group[: start[-1]].copy(), word[: start[-1]].copy(), total)

    def _fill(self, left: Words, origin: int, first: int, last: int, task: Task) -> None:
        square = task.out.dtype.type(self.unit * self.unit)
        loops.fill_products(*left, square, self._packed, origin, first, last, *task, np.empty(COLUMNS, np.int32))
