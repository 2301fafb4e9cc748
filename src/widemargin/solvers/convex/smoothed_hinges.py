"""The smoothed hinges of the proximal method of multipliers, and the rows that they belong to.

The hinge `max(0, t)` with proximal dual point u in [0, 1] and width delta is replaced by
`f(t) = U t - delta/2 (U - u)^2` with `U = clip(u + t/delta, 0, 1)`: continuously differentiable, slope U, curvature
1/delta where 0 < U < 1. Each row has a positive side, t = 1/2 + z, and a negative side, t = 1/2 - z. The bits of `keep`
enter as factors 0 or 1: branches on them cost three times the arithmetic.
"""

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Cells, Flags, Floats, Reals, Singles
from widemargin.solvers.base import ConstrainedHinge, Shares

__all__ = ["SmoothedHinges", "add_by_cell", "move_dual", "moved", "side_slopes", "smooth_sums"]


class SmoothedHinges:
    """Rows with their scores z, the change dz of a step, and their shares: the dual variables of their hinges.

    Parameters
    ----------
    sub : ConstrainedHinge
    z : ndarray of shape (n,)
        Scores of the point to start from; changed in place.
    up, um : ndarrays of shape (n,)
        Shares of the positive and of the negative hinges; changed in place by `adopt` alone.
    """

    def __init__(self, sub: ConstrainedHinge, z: Floats, up: Floats | Shares, um: Floats | Shares) -> None:
        self.sub, self.z, self.up, self.um = sub, z, up, um
        self.dz, self._plus, self._minus = np.zeros((3, z.shape[0]))
        # One array for all calls: where every row is a cell of its own it is a large one.
        self._sums = np.empty((sub.coef.n_cells, 4))

    def smooth(self, step: float, delta: float) -> Floats:
        """Smoothed hinges at `z + step dz`: loss and constraints, shape (2, 1 + m); below, their slopes along `dz`."""
        sub, sums, m = self.sub, self._sums, self.sub.n_constraints
        sums[:] = 0.0
        smooth_sums(self.z, self.dz, step, sub.weight, sub.cell, sub.keep, self.up, self.um, delta, sums)
        out = np.empty((2, 1 + m))
        for row, (positive, negative) in zip(out, (sums[:, :2].T, sums[:, 2:].T), strict=True):
            row[0], row[1:] = sub.coef.totals(positive, negative, m)
        return out

    def extent(self) -> tuple[float, float]:
        """Largest `|dz|` and largest `|z|`."""
        reach = max(float(self.dz.max(initial=0.0)), -float(self.dz.min(initial=0.0)))
        return reach, max(float(self.z.max(initial=0.0)), -float(self.z.min(initial=0.0)))

    def adopt(self, delta: float) -> None:
        """Make the slopes U the shares."""
        move_dual(self.z, self.sub.keep, self.up, self.um, delta)

    def shares(self, delta: float) -> tuple[Shares, Shares]:
        """The slopes U as shares of the two sides, in single precision."""
        self.adopt(delta)
        return self.up.astype(np.float32), self.um.astype(np.float32)


# Compiled passes over the rows.


@kernel
def smooth_sums(
    z: Floats, dz: Floats, step: float, weight: Floats, cell: Cells, keep: Flags, up: Reals, um: Reals, delta: float,
    sums: Floats,
) -> None:  # fmt: skip
    """Add to each cell's four sums, of rows at `z + step dz` times their weight, positive side before negative side:
    the smoothed hinges, and their derivatives with respect to `step`.
    """
    inverse, half = 1.0 / delta, 0.5 * delta
    for i in range(z.shape[0]):
        c, zi = cell[i], z[i] + step * dz[i]
        # The positive side, whose argument rises with the score.
        t, s = 0.5 + zi, weight[i] * (keep[i] & 1)
        U = min(1.0, max(0.0, up[i] + t * inverse))
        sums[c, 0] += s * (U * t - half * (U - up[i]) ** 2)
        sums[c, 2] += s * U * dz[i]
        # The negative side, whose argument falls with it.
        t, s = 0.5 - zi, weight[i] * ((keep[i] >> 1) & 1)
        U = min(1.0, max(0.0, um[i] + t * inverse))
        sums[c, 1] += s * (U * t - half * (U - um[i]) ** 2)
        sums[c, 3] -= s * U * dz[i]


@kernel
def side_slopes(
    z: Floats, sign: float, weight: Floats, cell: Cells, keep: Flags, bit: int, u: Reals, delta: float, near: float,
    old: bool, coefficient: Floats, slope: Floats, change: Floats, curvature: Reals,
) -> None:  # fmt: skip
    """Set the slopes U of one side (`sign` 1 and `bit` 0, or -1 and 1) times the weight, and by how much they changed.

    Add the second derivative of the smoothed Lagrangian to `curvature`: that of the rows in the band, of those within
    `near` of it, and with `old` of those whose proximal point is.
    """
    inverse = 1.0 / delta
    for i in range(z.shape[0]):
        s = weight[i] * ((keep[i] >> bit) & 1)
        # Before clipping, U says how far the hinge is from its kink in units of the width.
        U = u[i] + (0.5 + sign * z[i]) * inverse
        if -near < U < 1.0 + near or (old and 0.0 < u[i] < 1.0):
            curvature[i] += coefficient[cell[i]] * s * inverse
        # Most slopes stay 0 or 1 from step to step, so the change is what the sums over the rows need.
        new = s * min(1.0, max(0.0, U))
        change[i] = new - slope[i]
        slope[i] = new


@kernel
def moved(curvature: Singles, counted: Singles, tol: float, change: Floats) -> int:
    """Set `change` to `curvature - counted` where they differ by more than the share `tol`, else to 0; how many do.

    `counted` follows.
    """
    count = 0
    for i in range(curvature.shape[0]):
        # Float32 keeps the count cheap; the difference is taken in double precision, for it goes into sums.
        difference = np.float64(curvature[i]) - np.float64(counted[i])
        if abs(difference) > tol * curvature[i]:
            change[i] = difference
            counted[i] = curvature[i]
            count += 1
        else:
            change[i] = 0.0
    return count


@kernel
def add_by_cell(cell: Cells, plus: Floats, minus: Floats, sums: Floats) -> None:
    """Add `plus` and `minus` to the first two sums of each row's cell; the other two begin at zero and are changed."""
    n = cell.shape[0]
    # An addition has to wait for the last one to the same number, so odd rows go to sums of their own first.
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
def move_dual(z: Floats, keep: Flags, up: Reals, um: Reals, delta: float) -> None:
    """Replace the proximal points `up` and `um` by the slopes U (0 for a side that is not kept)."""
    inverse = 1.0 / delta
    for i in range(z.shape[0]):
        up[i] = min(1.0, max(0.0, up[i] + (0.5 + z[i]) * inverse)) * (keep[i] & 1)
        um[i] = min(1.0, max(0.0, um[i] + (0.5 - z[i]) * inverse)) * ((keep[i] >> 1) & 1)
