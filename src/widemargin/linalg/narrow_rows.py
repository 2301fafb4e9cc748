"""Kernel rows that compiled loops compute by themselves: of few short rows, whose columns stay near the processor.

A solver that takes two rows of the kernel a step, and knows them only then, would else return to Python for each.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Reals

__all__ = ["NarrowRows", "fill_row", "negative_power"]


class NarrowRows(NamedTuple):
    """Rows by their columns.

    Attributes
    ----------
    columns : ndarray of shape (d, n)
        Contiguous: the n inner products of a row are sums of d multiples of columns, which are vector instructions.
    gamma : float
        Of a Gaussian kernel; 0: the kernel is linear.
    """

    columns: Floats
    gamma: float


@kernel
def negative_power(t: float) -> float:
    """`e^-t` for t >= 0, without a jump, so that loops of it become vector instructions; relative error below 1e-15.

    `e^-t = 2^k 2^r`, k the nearest integer. What is below 2^-1022, the smallest normal number, is that number.
    """
    t = min(t, 708.0)
    # Adding 1.5 * 2^52 rounds to an integer, and leaves it in the last bits.
    shifted = 6755399441055744.0 - 1.4426950408889634 * t
    k = shifted - 6755399441055744.0
    # ln 2 in two parts: the product of k and the first one is exact.
    r = (-t - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
    # The series of e^r up to r^13, by the scheme of Horner: |r| is at most 0.35.
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    value: float = p * np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return value


@kernel
def fill_row(columns: Floats, gamma: float, i: int, out: Reals, sums: Floats) -> None:
    """Set `out` to row i of the kernel matrix. `sums` is room for some numbers that stay in the first cache."""
    d, n = columns.shape
    width = sums.shape[0]
    for low in range(0, n, width):
        m = min(width, n - low)
        part = sums[:m]
        part[:] = 0.0
        if gamma > 0.0:
            for c in range(0, d - 3, 4):
                # Four columns share one pass over the sums, which costs more than the arithmetic.
                x0, x1, x2, x3 = columns[c, i], columns[c + 1, i], columns[c + 2, i], columns[c + 3, i]
                c0, c1 = columns[c, low : low + m], columns[c + 1, low : low + m]
                c2, c3 = columns[c + 2, low : low + m], columns[c + 3, low : low + m]
                for j in range(m):
                    d0, d1, d2, d3 = x0 - c0[j], x1 - c1[j], x2 - c2[j], x3 - c3[j]
                    part[j] += d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
            for c in range(d - d % 4, d):
                x0, c0 = columns[c, i], columns[c, low : low + m]
                for j in range(m):
                    d0 = x0 - c0[j]
                    part[j] += d0 * d0
        else:
            for c in range(d):
                x0, c0 = columns[c, i], columns[c, low : low + m]
                for j in range(m):
                    part[j] += x0 * c0[j]
        target = out[low : low + m]
        if gamma > 0.0:
            for j in range(m):
                target[j] = negative_power(gamma * part[j])
        else:
            for j in range(m):
                target[j] = part[j]
