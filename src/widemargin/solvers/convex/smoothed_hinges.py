"""The smoothed hinges of the proximal method of multipliers, and what Newton steps ask of the rows they belong to.

The hinge `max(0, t)` with proximal dual point u in [0, 1] and width delta is replaced by
`f(t) = U t - delta/2 (U - u)^2` with `U = clip(u + t/delta, 0, 1)`: continuously differentiable, slope U, curvature
1/delta where 0 < U < 1. Each row has a positive side, t = 1/2 + z, and a negative side, t = 1/2 - z. The bits of `keep`
enter as factors 0 or 1: branches on them cost three times the arithmetic.

The solver needs sums over rows only, so the rows may lie in blocks on other machines: `NewtonRows` computes the sums of
one block (rows in memory are one block, and are called directly), and `block_passes.BlockPasses` adds up those of
several.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._threads import loop_over_rows, sums_over_rows
from widemargin._typing import Cells, Flags, Floats, Ints, Reals
from widemargin.linalg.cells import fill_columns
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.ramp import clipped
from widemargin.solvers.base import ConstrainedHinge, Shares
from widemargin.solvers.convex.linear_system import BandGram, BandRows, Moments, SystemOptions

__all__ = ["NewtonRows", "Width", "move_dual", "slopes_of_rows", "smooth_sums"]


class Width(NamedTuple):
    """How slopes are taken.

    Attributes
    ----------
    delta : float
        Width of the proximal term.
    near : float
        Rows that near to the band, in units of delta, count in the curvature.
    first : bool
        Whether those do whose proximal point is inside the band.
    afresh : bool
        Whether sums by cell are made anew, not from what changed.
    """

    delta: float
    near: float
    first: bool
    afresh: bool


class NewtonRows:
    """Rows with their scores z, the change dz of a step, and the sums over them that Newton steps over (w, b) need.

    Parameters
    ----------
    z : ndarray of shape (n,)
        Scores of the point to start from; changed in place.
    up, um : ndarrays of shape (n,)
        Shares of the positive and of the negative hinges, their dual variables; changed in place by `adopt` alone.
    iterative : bool
        Whether systems are iterated: there is no Gram matrix then.
    rows : RowBlocks, optional
        Other features than those of `sub`.

    Attributes
    ----------
    plus, minus : ndarrays of shape (n,)
        Slopes of the two sides times the weights, as `slopes` left them.
    curvature : ndarray of shape (n,)
        Second derivatives by row, of which Newton systems are made, and no certificate: float32 will do.
    """

    def __init__(
        self, sub: ConstrainedHinge, z: Floats, up: Floats | Shares, um: Floats | Shares, options: SystemOptions, *,
        iterative: bool, rows: RowBlocks | None = None,
    ) -> None:  # fmt: skip
        self.sub, self.z, self.up, self.um = sub, z, up, um
        self.rows: RowBlocks = sub.rows if rows is None else rows
        n, d, k = self.rows.n_rows, self.rows.n_features, sub.coef.n_cells
        self.dz, self.plus, self.minus, self._fall = np.zeros((4, n))
        self.curvature = np.zeros(n, dtype=np.float32)
        # One array for all calls: where every row is a cell of its own it is a large one.
        self._sums = np.empty((k, 4))
        self.iterative = iterative
        # Sums by cell make the gradients of all constraints at once, unless there are so many cells that these sums
        # would outgrow the rows.
        self.by_cells = 2 * k * d <= max(4 * n, options.cell_sums)
        self._above, self._below = np.zeros((2, k if self.by_cells else 0, d))
        self._gram = None if iterative else BandGram(self.rows, options, centred=sub.fit_intercept)

    def bind(self, sub: ConstrainedHinge) -> None:
        """Go on with the same rows and coefficients, read anew."""
        self.sub, self.rows = sub, sub.rows
        if self._gram is not None:
            self._gram.rows = sub.rows

    @property
    def centre(self) -> Floats:
        """Mean of the rows, shape (d,)."""
        return self.rows.centre

    def smooth(self, step: float, delta: float) -> Floats:
        """Smoothed hinges at `z + step dz`: loss and constraints, shape (2, 1 + m); below, their slopes along `dz`."""
        sub, sums, m = self.sub, self._sums, self.sub.n_constraints
        sums[:] = 0.0
        by_row = (self.z, self.dz, sub.weight, sub.cell, sub.keep, self.up, self.um)
        sums_over_rows(smooth_sums, by_row, sums, given=(step, delta))
        out = np.empty((2, 1 + m))
        for row, k in ((out[0], 0), (out[1], 2)):
            row[0], row[1:] = sub.coef.totals(sums[:, k], sums[:, k + 1], m)
        return out

    def extent(self) -> tuple[float, float]:
        """Largest `|dz|` and largest `|z|`."""
        reach = max(float(self.dz.max(initial=0.0)), -float(self.dz.min(initial=0.0)))
        return reach, max(float(self.z.max(initial=0.0)), -float(self.z.min(initial=0.0)))

    def adopt(self, delta: float) -> None:
        """Make the slopes U the shares."""
        loop_over_rows(move_dual, (self.z, self.sub.keep, self.up, self.um), delta)

    def shares(self, delta: float) -> tuple[Shares, Shares]:
        """The slopes U as shares of the two sides, in single precision."""
        self.adopt(delta)
        return self.up.astype(np.float32), self.um.astype(np.float32)

    def slopes(self, step: float, multipliers: Floats, active: Ints, width: Width) -> Floats:
        """Go the step; then return the first derivatives, and store the second ones by row for `moments`.

        A Newton step with the curvature of the band alone would overshoot, because rows enter the band along the way.
        So rows within a part of the last step's length from the band count, too; before the first step, which has no
        such length, those whose proximal point is inside the band.

        Returns
        -------
        ndarray of shape (2 + a, d + 1)
            `sum_i s_i A U+ x_i`, `sum_i s_i B U- x_i`, and the gradients of the active constraints; in the last column
            the same sums without x.
        """
        sub, rows, m = self.sub, self.rows, self.sub.n_constraints
        d = rows.n_features
        if width.afresh:
            self.plus[:], self.minus[:], self._above[:], self._below[:] = 0.0, 0.0, 0.0, 0.0
        A, B = sub.coef.per_cell(multipliers)
        # The scores are moved, not computed anew, because a product with the rows is what a step costs. Afterwards the
        # memory of the step is free: it takes the changes of the slopes.
        by_row = (
            self.z, self.dz, sub.weight, sub.cell, sub.keep, self.up, self.um, self.plus, self.minus, self._fall,
            self.curvature,
        )  # fmt: skip
        self._sums[:] = 0.0
        sums_over_rows(slopes_of_rows, by_row, self._sums, given=(step, *width[:3], A, B))
        out = np.empty((2 + active.shape[0], d + 1))
        if self.by_cells:
            above, below = self._above, self._below
            # Most slopes are 0 or 1 and stay so: only what changed is added.
            rows.add_cell_sums(sub.cell, self.dz, self._fall, above, below)
            out[0, :d], out[1, :d] = A @ above, B @ below
            out[2:, :d] = sub.coef.products(above, below, active, m)
        else:
            place_of = sub.coef.places(active, m)

            def right_sides(place: slice, columns: Floats) -> None:
                # What is multiplied with the rows, a chunk at a time, where sums by cell would take too much memory.
                c, plus, minus = sub.cell[place], self.plus[place], self.minus[place]
                fill_columns(*sub.coef.entries, place_of, c, plus, minus, columns[:, 2:])
                columns[:, 0], columns[:, 1] = A[c] * plus, B[c] * minus

            out[:, :d] = rows.border(right_sides, 2 + active.shape[0])
        # Masses by cell serve all constraints at once, as the sums of rows do.
        plus_mass, minus_mass = self._sums[:, 0:1], self._sums[:, 1:2]
        # The same sums without x: what the bias sees of the gradients.
        out[0, d], out[1, d] = A @ plus_mass[:, 0], B @ minus_mass[:, 0]
        out[2:, d] = sub.coef.products(plus_mass, minus_mass, active, m)[:, 0]
        return out

    def moments(self, lam: float, *, exact: bool = False) -> Moments:
        """Sums over the band of the last slopes, for a factored system."""
        assert self._gram is not None
        return self._gram.moments(self.curvature, lam, exact=exact)

    def band(self) -> BandRows:
        """The band of the last slopes, for an iterated system."""
        return BandRows(self.rows, self.curvature)

    def move(self, dw: Floats, db: float, delta: float) -> float:
        """Set `dz` to the change of the scores by a step (dw, db); returns its square."""
        self.rows.dot(dw, out=self.dz)
        square = np.zeros(1)
        sums_over_rows(shift, (self.dz,), square, given=(db,))
        return float(square[0])

    def settle(self, w: Floats, b: float) -> tuple[float, Floats]:
        """Values at (w, b), where the steps have led."""
        return self.sub.values(self.z)


def shift(dz: Floats, db: float, square: Floats) -> None:
    """Take db off; add the squares of what is left."""
    dz -= db
    square += dz @ dz


@kernel
def smooth_sums(
    z: Floats, dz: Floats, weight: Floats, cell: Cells, keep: Flags, up: Reals, um: Reals, step: float, delta: float,
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
        U = clipped(up[i] + t * inverse)
        moved = U - up[i]
        sums[c, 0] += s * (U * t - half * (moved * moved))
        sums[c, 2] += s * U * dz[i]
        # The negative side, whose argument falls with it.
        t, s = 0.5 - zi, weight[i] * ((keep[i] >> 1) & 1)
        U = clipped(um[i] + t * inverse)
        moved = U - um[i]
        sums[c, 1] += s * (U * t - half * (moved * moved))
        sums[c, 3] -= s * U * dz[i]


@kernel
def within(t: float, near: float) -> bool:
    """Whether a number is that near to [0, 1]: a factor, as a processor would guess half of such branches wrong."""
    return (t > -near) & (t < 1.0 + near)


@kernel
def slopes_of_rows(
    z: Floats, dz: Floats, weight: Floats, cell: Cells, keep: Flags, up: Reals, um: Reals, plus: Floats, minus: Floats,
    fall: Floats, curvature: Reals, step: float, delta: float, near: float, old: bool, above: Floats, below: Floats,
    sums: Floats,
) -> None:  # fmt: skip
    """Go the step; set the slopes U of both sides times the weight, and in `dz` and `fall` by how much they changed.

    Set `curvature` to the second derivative of the smoothed Lagrangian: that of the rows in the band, of those within
    `near` of it, and with `old` of those whose proximal point is. Add the slopes to the first two sums of each cell.
    """
    inverse = 1.0 / delta
    for i in range(z.shape[0]):
        c, zi = cell[i], z[i] + step * dz[i]
        z[i] = zi
        # Before clipping, U says how far the hinge is from its kink in units of the width.
        s, U = weight[i] * (keep[i] & 1), up[i] + (0.5 + zi) * inverse
        inside = within(U, near) | old & within(up[i], 0.0)
        bend = above[c] * s * inside
        # Most slopes stay 0 or 1 from step to step, so the change is what the sums over the rows need.
        new = s * clipped(U)
        dz[i], plus[i] = new - plus[i], new
        sums[c, 0] += new
        s, U = weight[i] * ((keep[i] >> 1) & 1), um[i] + (0.5 - zi) * inverse
        inside = within(U, near) | old & within(um[i], 0.0)
        new = s * clipped(U)
        fall[i], minus[i] = new - minus[i], new
        sums[c, 1] += new
        curvature[i] = (bend + below[c] * s * inside) * inverse


@kernel
def move_dual(z: Floats, keep: Flags, up: Reals, um: Reals, delta: float) -> None:
    """Replace the proximal points `up` and `um` by the slopes U (0 for a side that is not kept)."""
    inverse = 1.0 / delta
    for i in range(z.shape[0]):
        up[i] = clipped(up[i] + (0.5 + z[i]) * inverse) * (keep[i] & 1)
        um[i] = clipped(um[i] + (0.5 - z[i]) * inverse) * ((keep[i] >> 1) & 1)
