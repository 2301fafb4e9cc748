"""Compiled loops over symmetric matrices in memory: parts of them, the half that is missing, how symmetric they are.

NumPy takes ten times as long for each: it walks columns through memory, or makes copies to throw away.
"""

from widemargin._numba import kernel, summing_kernel
from widemargin._typing import Floats, Ints, Reals

TILE = 64
"""Rows and columns of a tile: two of them stay in the first cache while one is read along its columns."""


@kernel
def take(K: Reals, rows: Ints, out: Reals) -> None:
    """Set `out` to `K[rows][:, rows]`."""
    for i in range(rows.shape[0]):
        # One row of K at a time stays in the cache while its entries are picked out.
        row = K[rows[i]]
        for j in range(rows.shape[0]):
            out[i, j] = row[rows[j]]


@kernel
def mirror(K: Reals) -> None:
    """Copy what is right of the diagonal to the left of it."""
    n = K.shape[0]
    # Tile by tile, because the columns of one half are the rows of the other: one of the two is read across memory, and
    # within a tile both stay in the cache.
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i)):
                    K[i, j] = K[j, i]


@summing_kernel
def turned_apart(K: Reals, weight: Floats, apart: Floats) -> None:
    """Set `apart` to `(K - K') weight`: in one pass over K in the order of its memory, which nothing is as quick as.

    Where weights are random, a row of it is nearly 0 only where that row and that column of K are the same. It is not
    finite where K is not.
    """
    apart[:] = 0.0
    for i in range(K.shape[0]):
        row, mine, total = K[i], weight[i], 0.0
        for j in range(K.shape[0]):
            total += row[j] * weight[j]
            apart[j] -= row[j] * mine
        apart[i] += total


@kernel
def asymmetry(K: Reals) -> tuple[float, float]:
    """The largest difference of two entries that should be equal, and the largest size of an entry."""
    n = K.shape[0]
    apart, largest = 0.0, 0.0
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i + 1)):
                    # In double precision, so that a kernel in float32 is not called unsymmetric for the rounding of the
                    # difference.
                    apart = max(apart, abs(float(K[i, j]) - float(K[j, i])))
                    largest = max(largest, abs(float(K[i, j])))
    return apart, largest
