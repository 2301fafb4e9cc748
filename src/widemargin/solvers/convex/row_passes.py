"""What Newton steps over linear rows ask of the rows: sums go out, everything as long as the rows stays here.

The solver asks for sums over rows only, so the rows may be cut into blocks that live elsewhere: `NewtonRows` works on
the rows of one block (rows in memory are one block, and are called without a detour), and `block_passes.BlockPasses`
adds up what several of them answer.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.linalg.cells import fill_columns
from widemargin.solvers.base import ConstrainedHinge, Shares
from widemargin.solvers.convex.linear_system import BandGram, BandRows, Moments, SystemOptions
from widemargin.solvers.convex.smoothed_hinges import SmoothedHinges, add_by_cell, side_slopes

__all__ = ["NewtonRows", "Width"]


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


class NewtonRows(SmoothedHinges):
    """Rows of features, with the sums that Newton steps over (w, b) ask of them.

    Parameters
    ----------
    sub : ConstrainedHinge
    z, up, um : ndarrays of shape (n,)
        As in `SmoothedHinges`.
    options : SystemOptions
    iterative : bool
        Whether systems are iterated: there is no Gram matrix then.
    """

    def __init__(
        self, sub: ConstrainedHinge, z: Floats, up: Floats | Shares, um: Floats | Shares, options: SystemOptions, *,
        iterative: bool,
    ) -> None:  # fmt: skip
        super().__init__(sub, z, up, um)
        n, d, k = sub.rows.n_rows, sub.rows.n_features, sub.coef.n_cells
        self.iterative = iterative
        # Sums by cell make the gradients of all constraints at once, unless there are so many cells that these sums
        # would outgrow the rows.
        self.by_cells = 2 * k * d <= max(4 * n, options.cell_sums)
        self.curvature = np.zeros(n, dtype=np.float32)  # it steers the steps only
        self._above, self._below = np.zeros((2, k if self.by_cells else 0, d))
        self._gram = None if iterative else BandGram(sub.rows, options, centred=sub.fit_intercept)

    def bind(self, sub: ConstrainedHinge) -> None:
        """Go on with the same rows and coefficients, read anew."""
        self.sub = sub
        if self._gram is not None:
            self._gram.rows = sub.rows

    @property
    def centre(self) -> Floats:
        """Mean of the rows, shape (d,)."""
        centre: Floats = self.sub.rows.centre
        return centre

    def slopes(self, step: float, multipliers: Floats, active: Ints, width: Width) -> Floats:
        """Go the step; then the first derivatives, and by row, kept for `moments`, the second ones.

        A Newton step of the band alone would overshoot: rows enter while it is made. So the rows that the last step
        would have brought near count, too, and at first those that the proximal point has inside the band.

        Returns
        -------
        ndarray of shape (2 + a, d + 1)
            `sum_i s_i A U+ x_i`, `sum_i s_i B U- x_i`, and the gradients of the active constraints; in the last column
            the same sums without x.
        """
        sub, rows, m = self.sub, self.sub.rows, self.sub.n_constraints
        d = rows.n_features
        if step != 0.0:
            # The scores are moved, not computed anew: a product with the rows is what a step costs.
            self.dz *= step
            self.z += self.dz
        A, B = sub.coef.per_cell(multipliers)
        self.curvature[:] = 0.0
        if width.afresh:
            self._plus[:], self._minus[:], self._above[:], self._below[:] = 0.0, 0.0, 0.0, 0.0
        common, band = (sub.weight, sub.cell, sub.keep), (width.delta, width.near, width.first)
        change = self.dz  # The step has been made, so its memory is free.
        sides = ((1.0, 0, self.up, A, self._plus), (-1.0, 1, self.um, B, self._minus))
        for (sign, bit, u, coefficient, slope), sums in zip(sides, (self._above, self._below), strict=True):
            side_slopes(self.z, sign, *common, bit, u, *band, coefficient, slope, change, self.curvature)
            if self.by_cells:  # Most slopes are 0 or 1 and stay so: only what changed is added.
                rows.add_cell_sums(sub.cell, change, sums)
        out = np.empty((2 + active.shape[0], d + 1))
        if self.by_cells:
            above, below = self._above, self._below
            out[0, :d], out[1, :d] = A @ above, B @ below
            out[2:, :d] = sub.coef.products(above, below, active, m)
        else:
            out[:, :d] = rows.border(self._right_sides(A, B, active), 2 + active.shape[0])
        # Masses by cell serve all constraints at once, as the sums of rows do.
        plus_mass, minus_mass = self._sums[:, 0:1], self._sums[:, 1:2]
        self._sums[:] = 0.0
        add_by_cell(sub.cell, self._plus, self._minus, self._sums)
        # The same sums without x: what the bias sees of the gradients.
        out[0, d], out[1, d] = A @ plus_mass[:, 0], B @ minus_mass[:, 0]
        out[2:, d] = sub.coef.products(plus_mass, minus_mass, active, m)[:, 0]
        return out

    def _right_sides(self, A: Floats, B: Floats, active: Ints) -> Callable[[slice, Floats], None]:
        """What `RowBlocks.border` is to multiply with the rows, where sums by cell would take too much memory."""
        sub, place_of = self.sub, self.sub.coef.places(active, self.sub.n_constraints)

        def fill(place: slice, columns: Floats) -> None:
            c, plus, minus = sub.cell[place], self._plus[place], self._minus[place]
            fill_columns(*sub.coef.entries, place_of, c, plus, minus, columns[:, 2:])
            columns[:, 0] = A[c] * plus
            columns[:, 1] = B[c] * minus

        return fill

    def moments(self, lam: float, *, exact: bool = False) -> Moments:
        """Sums over the band of the last slopes, for a factored system."""
        assert self._gram is not None
        return self._gram.update(self.curvature, lam, self.dz, exact=exact)

    def band(self) -> BandRows:
        """The band of the last slopes, for an iterated system."""
        return BandRows(self.sub.rows, self.curvature)

    def move(self, dw: Floats, db: float, delta: float, *, single: bool) -> float:
        """Set `dz` to the change of the scores by a step (dw, db); returns its square."""
        self.sub.rows.dot(dw, out=self.dz, single=single)
        self.dz -= db
        return float(self.dz @ self.dz)

    def settle(self, w: Floats, b: float, *, single: bool) -> tuple[float, Floats]:
        """Exact values at (w, b), where the steps have led; scores that float32 rows steered are computed anew."""
        if single and self.sub.rows.has_singles:
            self.z = self.sub.scores(w, b)
        return self.sub.values(self.z)

    def rescale(self, factor: float) -> None:
        """Multiply the curvatures that the Gram matrix is made of by a factor."""
        if self._gram is not None:
            self._gram.rescale(factor)
