"""Compiled passes over the rows for the proximal method of multipliers.

The hinge `max(0, t)` with proximal dual point u in [0, 1] and width delta is replaced by
`f(t) = U t - delta/2 (U - u)^2` with `U = clip(u + t/delta, 0, 1)`: continuously differentiable, slope U, curvature
1/delta where 0 < U < 1. Each row has a positive side, t = 1/2 + z, and a negative side, t = 1/2 - z. The bits of `keep`
enter as factors 0 or 1: branches on them cost three times the arithmetic.
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["add_by_cell", "move_dual", "moved", "side_slopes", "slopes", "smooth_sums"]


@kernel
def smooth_sums(
    z: Any, dz: Any, step: float, weight: Any, cell: Any, keep: Any, up: Any, um: Any, delta: float, sums: Any
) -> None:
    """Add to each cell's four sums, of rows at `z + step dz` times their weight, positive side before negative side:
    the smoothed hinges, and their derivatives with respect to `step`.
    """
    inverse, half = 1.0 / delta, 0.5 * delta
    for i in range(z.shape[0]):
        c, zi = cell[i], z[i] + step * dz[i]
        t, s = 0.5 + zi, weight[i] * (keep[i] & 1)
        U = min(1.0, max(0.0, up[i] + t * inverse))
        sums[c, 0] += s * (U * t - half * (U - up[i]) ** 2)
        sums[c, 2] += s * U * dz[i]
        t, s = 0.5 - zi, weight[i] * ((keep[i] >> 1) & 1)
        U = min(1.0, max(0.0, um[i] + t * inverse))
        sums[c, 1] += s * (U * t - half * (U - um[i]) ** 2)
        sums[c, 3] -= s * U * dz[i]


@kernel
def slopes(
    z: Any, weight: Any, cell: Any, keep: Any, up: Any, um: Any, delta: float, A: Any, B: Any,
    plus: Any, minus: Any, curvature: Any,
) -> None:  # fmt: skip
    """Set the slopes U of both sides times the weight, and the second derivative of the smoothed Lagrangian, by row."""
    inverse = 1.0 / delta
    for i in range(z.shape[0]):
        c, s = cell[i], weight[i]
        sp, sm = s * (keep[i] & 1), s * ((keep[i] >> 1) & 1)
        U, V = up[i] + (0.5 + z[i]) * inverse, um[i] + (0.5 - z[i]) * inverse
        a, b = A[c] * sp, B[c] * sm
        curvature[i] = ((a if 0.0 < U < 1.0 else 0.0) + (b if 0.0 < V < 1.0 else 0.0)) * inverse
        plus[i] = sp * min(1.0, max(0.0, U))
        minus[i] = sm * min(1.0, max(0.0, V))


@kernel
def side_slopes(
    z: Any, sign: float, weight: Any, cell: Any, keep: Any, bit: int, u: Any, delta: float, near: float,
    old: bool, coefficient: Any, slope: Any, change: Any, curvature: Any,
) -> None:  # fmt: skip
    """Set the slopes U of one side (`sign` 1 and `bit` 0, or -1 and 1) times the weight, and by how much they changed.

    Add the second derivative of the smoothed Lagrangian to `curvature`: that of the rows in the band, of those within
    `near` of it, and with `old` of those whose proximal point is.
    """
    inverse = 1.0 / delta
    for i in range(z.shape[0]):
        s = weight[i] * ((keep[i] >> bit) & 1)
        U = u[i] + (0.5 + sign * z[i]) * inverse
        if -near < U < 1.0 + near or (old and 0.0 < u[i] < 1.0):
            curvature[i] += coefficient[cell[i]] * s * inverse
        new = s * min(1.0, max(0.0, U))
        change[i] = new - slope[i]
        slope[i] = new


@kernel
def moved(curvature: Any, known: Any, tol: float, change: Any) -> int:
    """Set `change` to `curvature - known` where they differ by more than the share `tol`, else to 0; how many do.

    `known` follows.
    """
    count = 0
    for i in range(curvature.shape[0]):
        difference = np.float64(curvature[i]) - np.float64(known[i])
        if abs(difference) > tol * curvature[i]:
            change[i] = difference
            known[i] = curvature[i]
            count += 1
        else:
            change[i] = 0.0
    return count


@kernel
def add_by_cell(cell: Any, plus: Any, minus: Any, sums: Any) -> None:
    """Add `plus` and `minus` to the first two sums of each row's cell; the other two begin at zero and are changed.

    Odd rows go to the latter first: an addition has to wait for the last one to the same number.
    """
    n = cell.shape[0]
    for i in range(0, n - 1, 2):
        sums[cell[i], 0] += plus[i]
        sums[cell[i], 1] += minus[i]
        sums[cell[i + 1], 2] += plus[i + 1]
        sums[cell[i + 1], 3] += minus[i + 1]
    if n % 2 == 1:
        sums[cell[n - 1], 0] += plus[n - 1]
        sums[cell[n - 1], 1] += minus[n - 1]
    for c in range(sums.shape[0]):
        sums[c, 0] += sums[c, 2]
        sums[c, 1] += sums[c, 3]


@kernel
def move_dual(z: Any, keep: Any, up: Any, um: Any, delta: float) -> None:
    """Replace the proximal points `up` and `um` by the slopes U (0 for a side that is not kept)."""
    inverse = 1.0 / delta
    for i in range(z.shape[0]):
        up[i] = min(1.0, max(0.0, up[i] + (0.5 + z[i]) * inverse)) * (keep[i] & 1)
        um[i] = min(1.0, max(0.0, um[i] + (0.5 - z[i]) * inverse)) * ((keep[i] >> 1) & 1)
