"""Kernel rows that compiled loops compute by themselves: of few short rows, whose columns stay near the processor.

A solver that takes two rows of the kernel a step, and knows them only then, would else return to Python for each.
"""

from typing import NamedTuple

from widemargin._numba import kernel
from widemargin._typing import Reals
from widemargin.linalg.powers import LOG2_E, power_of_two

__all__ = ["NarrowRows", "fill_row"]


class NarrowRows(NamedTuple):
    """Rows by their columns.

    Attributes
    ----------
    columns : ndarray of shape (d, n)
        Contiguous: the n inner products of a row are sums of d multiples of columns, which are vector instructions.
    gamma : float
        Of a Gaussian kernel; 0: the kernel is linear.
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
                target[j] = power_of_two(scale * part[j])
        else:
            for j in range(m):
                target[j] = part[j]
