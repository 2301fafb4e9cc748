"""Compiled products of rows of bytes: numbers that are 0 to 255 times one unit, four of them to a word.

The right side is packed tile by tile, its bytes 128 less than they are: `packed[t, g]` holds group g of four columns of
the rows `COLUMNS t` and following, as `tile_dots` reads it. A row of the left side is the list of its words that are
not 0.
"""

from typing import Any

import numpy as np

from widemargin._byte_dots import tile_dots
from widemargin._numba import kernel
from widemargin.kernels._thin_loops import finish_gaussian

__all__ = ["LEVELS", "fill_products", "fill_words", "list_words", "smallest_and_largest"]

LEVELS = 255


@kernel
def smallest_and_largest(X: Any) -> tuple[float, float]:
    """The smallest number above 0 and the largest one; (0, 0) where one is negative or they are too far apart."""
    smallest, largest = np.inf, 0.0
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            x = float(X[i, k])
            if x != 0.0:
                if not x > 0.0:
                    return 0.0, 0.0
                smallest, largest = min(smallest, x), max(largest, x)
        if largest > 1.01 * LEVELS * smallest:
            return 0.0, 0.0
    return (smallest, largest) if largest > 0.0 else (0.0, 0.0)


@kernel
def fill_words(X: Any, unit: float, accuracy: float, words: Any) -> bool:
    """Write rows as bytes, four to a word, the first one lowest; False where a number is no level."""
    d = X.shape[1]
    for i in range(X.shape[0]):
        for k in range(d):
            x = float(X[i, k])
            if x != 0.0:
                units = np.floor(x / unit + 0.5)
                if not 0.0 <= units <= LEVELS or abs(x - units * unit) > accuracy * x:
                    return False
                words[i, k // 4] |= np.uint32(units) << np.uint32(8 * (k % 4))
    return True


@kernel
def list_words(words: Any, start: Any, group: Any, word: Any, total: Any) -> None:
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
def fill_products(
    start: Any, group: Any, word: Any, total: Any, unit: Any, packed: Any, origin: int, first: int, last: int,
    left: Any, right: Any, scale: Any, out: Any, rows: Any, room: Any,
) -> None:  # fmt: skip
    """`_thin_loops.fill_products` of levels; `room` holds the sums of a tile, `unit` is the square of the unit."""
    tile = packed.shape[2] // 4
    for t in range(first // tile, (last - 1) // tile + 1):
        low, high = max(first, t * tile), min(last, (t + 1) * tile)
        part = room[low - t * tile : high - t * tile]
        for i in range(rows.shape[0]):
            tile_dots(packed[t], group, word, start[i], start[i + 1], room)
            sums, missing = out[rows[i], low - origin : high - origin], np.int32(128 * total[i])
            for j in range(high - low):
                sums[j] = unit * (part[j] + missing)
            if scale != 0.0:
                finish_gaussian(sums, left[i], right[low - origin : high - origin], scale)
