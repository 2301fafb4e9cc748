"""Compiled products of rows that are mostly 0: only the entries that are not 0 are touched.

The right side is packed tile by tile: `packed[t, k]` holds column k of the rows `t * tile` and following, and its last
column is 0. A row of the left side is the list of its entries, filled up with that column to a multiple of four.
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel
from widemargin.kernels._loops import power_of_two

__all__ = ["entries", "fill_matches", "fill_products", "finish_gaussian"]


@kernel
def entries(left: Any, start: Any, place: Any, weight: Any) -> bool:
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
        while count % 4 != 0 or count == start[i]:
            place[count] = d
            weight[count] = 0.0
            count += 1
    start[m] = count
    return one_value


@kernel
def finish_gaussian(out: Any, left: Any, right: Any, scale: Any) -> None:
    """From inner products to `2^(scale |x - y|^2)`."""
    zero, two, low = np.float32(0.0), np.float32(2.0), np.float32(-126.0)
    for j in range(out.shape[0]):
        out[j] = power_of_two(max(low, scale * max(zero, left + right[j] - two * out[j])))


@kernel
def fill_products(
    start: Any, place: Any, weight: Any, packed: Any, origin: int, first: int, last: int, left: Any, right: Any,
    scale: Any, out: Any, rows: Any,
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
    start: Any, place: Any, weight: Any, packed: Any, origin: int, first: int, last: int, left: Any, right: Any,
    scale: Any, out: Any, rows: Any, count: Any,
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
