"""Compiled loops over symmetric matrices in memory: parts of them, the half that is missing, how symmetric they are.

NumPy takes ten times as long for each: it walks columns through memory, or makes copies to throw away.
"""

import numpy as np

from widemargin._numba import kernel, summing_kernel
from widemargin._typing import Ints, Reals

__all__ = ["asymmetry", "mirror", "squared_asymmetry", "take"]

TILE = 64
"""Rows and columns of a tile: two of them stay in the first cache while one is read along its columns."""


@kernel
def take(K: Reals, rows: Ints, out: Reals) -> None:
    """Set `out` to `K[rows][:, rows]`."""
    for i in range(rows.shape[0]):
        row = K[rows[i]]
        for j in range(rows.shape[0]):
            out[i, j] = row[rows[j]]


@kernel
def mirror(K: Reals) -> None:
    """Copy what is right of the diagonal to the left of it."""
    n = K.shape[0]
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i)):
                    K[i, j] = K[j, i]


@summing_kernel
def squared_asymmetry(K: Reals) -> float:
    """`sum (K_ij - K_ji)^2` over i >= j, in a third of the time that `asymmetry` takes; not finite where K is not."""
    n, side = K.shape[0], 16
    turned = np.empty((side, side), K.dtype)
    total = 0.0
    for top in range(0, n, side):
        height = min(side, n - top)
        for left in range(0, top + 1, side):
            width = min(side, n - left)
            # One of two tiles is turned in the first cache, so that the differences are vector instructions.
            for j in range(width):
                row = K[left + j, top : top + height]
                for i in range(height):
                    turned[i, j] = row[i]
            for i in range(height):
                row, other = K[top + i, left : left + width], turned[i, :width]
                for j in range(width):
                    apart = row[j] - other[j]
                    total += apart * apart
    return total


@kernel
def asymmetry(K: Reals) -> tuple[float, float]:
    """The largest difference of two entries that should be equal, and the largest size of an entry."""
    n = K.shape[0]
    apart, largest = 0.0, 0.0
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i + 1)):
                    apart = max(apart, abs(float(K[i, j]) - float(K[j, i])))
                    largest = max(largest, abs(float(K[i, j])))
    return apart, largest
