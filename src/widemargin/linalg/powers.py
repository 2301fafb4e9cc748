"""Compiled powers of two, in loops as vector instructions: `2^t = 2^k 2^r`, k the nearest integer.

The second factor by a polynomial on [-1/2, 1/2], the first by writing k into the exponent bits.

What they are for: kernel rows that compiled loops compute by themselves, of few short rows, whose columns stay near the
processor. A solver that takes two rows of the kernel a step, and knows them only then, would else return to Python for
each.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel, kernel_by_precision
from widemargin._typing import Reals

LOG2_E = 1.4426950408889634
"""Turns powers of e into powers of 2."""


@kernel
def _in_single(t: np.float32) -> np.float32:
    # A polynomial for the fraction, by the scheme of Horner; the whole part goes into the exponent bits.
    t = max(np.float32(-126.0), t)
    k = np.floor(t + np.float32(0.5))
    r = t - k
    p = np.float32(1.535336188319500e-4)
    p = p * r + np.float32(1.339887440266574e-3)
    p = p * r + np.float32(9.618437357674640e-3)
    p = p * r + np.float32(5.550332471162809e-2)
    p = p * r + np.float32(2.402264791363012e-1)
    p = p * r + np.float32(6.931472028550421e-1)
    p = p * r + np.float32(1.0)
    value: np.float32 = p * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    return value


@kernel
def _in_double(t: float) -> float:
    # Added to 1.5 2^52 a number is rounded to a whole one, which then stands in the lowest bits.
    shifted = max(-1022.0, t) + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = max(-1022.0, t) - k
    p = 2.5678435993488205e-11  # log(2)^n / n! for n = 12, 11, ...: what is left out is 2e-16
    p = p * r + 4.4455382718708114e-10
    p = p * r + 7.0549116208011233e-09
    p = p * r + 1.0178086009239699e-07
    p = p * r + 1.3215486790144309e-06
    p = p * r + 1.5252733804059840e-05
    p = p * r + 1.5403530393381609e-04
    p = p * r + 1.3333558146428443e-03
    p = p * r + 9.6181291076284772e-03
    p = p * r + 5.5504108664821580e-02
    p = p * r + 2.4022650695910071e-01
    p = p * r + 6.9314718055994531e-01
    p = p * r + 1.0
    return p * np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)).view(np.float64)


power_of_two = kernel_by_precision(_in_single, _in_double)
"""`2^t` for t up to 126, in the precision of t; the relative error is at most 1.1e-7, in double precision 1e-15.

The first bound was checked for all numbers from -1/2 to 1/2, to which all others are brought without rounding, with
and without fused multiplications. Powers below the smallest normal number, 2^-126 or 2^-1022, are cut there, because
the exponent bits hold no less.
"""


class NarrowRows(NamedTuple):
    """Rows by their columns.

    Attributes
    ----------
    columns : ndarray of shape (d, n)
        Contiguous: the n inner products of a row are sums of d multiples of columns, which are vector instructions.
    gamma : float
        Of a Gaussian kernel; 0: the kernel is linear; -p: values are inner products to the power p, a whole number.
    """

    columns: Reals
    gamma: float


@kernel
def fill_row(columns: Reals, gamma: float, i: int, out: Reals, sums: Reals) -> None:
    """Set `out` to row i of the kernel matrix. `sums` is room for some numbers that stay in the first cache."""
    d, n = columns.shape
    width, scale = sums.shape[0], columns.dtype.type(-gamma * LOG2_E)
    for low in range(0, n, width):
        m = min(width, n - low)
        part = sums[:m]
        part[:] = 0.0
        for c in range(0, d - 3, 4):
            # Four columns share one pass over the sums, which costs more than the arithmetic.
            x0, x1, x2, x3 = columns[c, i], columns[c + 1, i], columns[c + 2, i], columns[c + 3, i]
            c0, c1 = columns[c, low : low + m], columns[c + 1, low : low + m]
            c2, c3 = columns[c + 2, low : low + m], columns[c + 3, low : low + m]
            if gamma > 0.0:
                for j in range(m):
                    d0, d1, d2, d3 = x0 - c0[j], x1 - c1[j], x2 - c2[j], x3 - c3[j]
                    part[j] += d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
            else:
                for j in range(m):
                    part[j] += x0 * c0[j] + x1 * c1[j] + x2 * c2[j] + x3 * c3[j]
        for c in range(d - d % 4, d):
            x0, c0 = columns[c, i], columns[c, low : low + m]
            for j in range(m):
                part[j] += (x0 - c0[j]) ** 2 if gamma > 0.0 else x0 * c0[j]
        target = out[low : low + m]
        if gamma > 0.0:
            for j in range(m):
                target[j] = power_of_two(scale * part[j])
        else:
            for j in range(m):
                target[j] = part[j]
            for _ in range(1, int(-gamma)):
                for j in range(m):
                    target[j] *= part[j]
