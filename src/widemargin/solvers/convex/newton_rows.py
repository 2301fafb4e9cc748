"""What the Newton passes of `pmm_newton` do with rows: sums go out, everything as long as the rows stays here.

The solver asks for sums over rows only, so the rows may be cut into blocks that live elsewhere: `NewtonRows` works on
the rows of one block (in memory: on all rows), and `newton_blocks.MappedRows` adds up what several of them say.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints
from widemargin.linalg import cells as cell_loops
from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Shares
from widemargin.solvers.convex import pmm_newton_loops as loops
from widemargin.solvers.convex.newton_system import BandGram, BandProducts, BandRows, Moments

__all__ = ["HingeRows", "NewtonPasses", "NewtonRows", "Width"]

_CELL_SUMS = 100_000  # numbers that sums by cell may always take


class HingeRows(Protocol):
    """The rows of a convex subproblem, see `base.ConstrainedHinge`; coefficients only, neither bounds nor constants."""

    @property
    def rows(self) -> RowBlocks: ...
    @property
    def weight(self) -> Floats: ...
    @property
    def cell(self) -> npt.NDArray[np.int32]: ...
    @property
    def coef(self) -> CellCoefficients: ...
    @property
    def keep(self) -> npt.NDArray[np.uint8]: ...
    @property
    def n_constraints(self) -> int: ...
    @property
    def fit_intercept(self) -> bool: ...
    def scores(self, w: Floats, b: float) -> Floats:
        """`X w - b`."""
        ...

    def values(self, z: Floats) -> tuple[float, Floats]:
        """Loss without the regulariser and value (or excess) of each constraint."""
        ...


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


class NewtonPasses(Protocol):
    """What the client of the Newton passes asks for; the methods are those of `NewtonRows`."""

    @property
    def centre(self) -> Floats: ...
    def smooth(self, step: float, delta: float) -> Floats: ...
    def slopes(self, step: float, multipliers: Floats, active: Ints, width: Width) -> Floats: ...
    def moments(self, lam: float, *, exact: bool = False) -> Moments: ...
    def band(self) -> BandProducts: ...
    def move(self, dw: Floats, db: float, delta: float, *, single: bool) -> float: ...
    def extent(self) -> tuple[float, float]: ...
    def settle(self, w: Floats, b: float, *, afresh: bool) -> tuple[float, Floats]: ...
    def adopt(self, delta: float) -> None: ...
    def rescale(self, factor: float) -> None: ...
    def shares(self, delta: float) -> tuple[Shares, Shares]: ...


class NewtonRows:
    """Rows with their scores z, the change dz of a step, and their shares: the dual variables of their hinges.

    Parameters
    ----------
    sub : HingeRows
    z : ndarray of shape (n,)
        Scores of the point to start from; changed in place.
    up, um : ndarrays of shape (n,)
        Shares of the positive and of the negative hinges; changed in place by `adopt` alone.
    iterative : bool
        Whether systems are iterated: there is no Gram matrix then.
    """

    def __init__(self, sub: HingeRows, z: Floats, up: Floats | Shares, um: Floats | Shares, *, iterative: bool) -> None:
        n, d, k = sub.rows.n_rows, sub.rows.n_features, sub.coef.n_cells
        self.sub, self.z, self.up, self.um, self.iterative = sub, z, up, um, iterative
        self._sums = np.empty((k, 4))
        self.by_cells = 2 * k * d <= max(4 * n, _CELL_SUMS)  # else the sums of all cells would outgrow the rows
        self.dz, self._plus, self._minus = np.zeros(n), np.zeros(n), np.zeros(n)
        self.curvature = np.zeros(n, dtype=np.float32)  # steers the steps only
        self._above, self._below = np.zeros((2, k if self.by_cells else 0, d))
        self._gram = None if iterative else BandGram(sub.rows, sub.fit_intercept)

    def bind(self, sub: HingeRows) -> None:
        """Go on with the same rows and coefficients, read anew."""
        self.sub = sub
        if self._gram is not None:
            self._gram.rows = sub.rows

    @property
    def centre(self) -> Floats:
        """Mean of the rows, shape (d,)."""
        return self.sub.rows.centre

    def smooth(self, step: float, delta: float) -> Floats:
        """Smoothed hinges at `z + step dz`: loss and constraints, shape (2, 1 + m); below, their slopes along `dz`."""
        sub = self.sub
        sums, m = self._sums, sub.n_constraints  # one array for all calls: where every row is a cell it is a large one
        sums[:] = 0.0
        loops.smooth_sums(self.z, self.dz, step, sub.weight, sub.cell, sub.keep, self.up, self.um, delta, sums)
        out = np.empty((2, 1 + m))
        for row, (positive, negative) in zip(out, (sums[:, :2].T, sums[:, 2:].T), strict=True):
            row[0], row[1:] = sub.coef.totals(positive, negative, m)
        return out

    def slopes(self, step: float, multipliers: Floats, active: Ints, width: Width) -> Floats:
        """Go the step; then the first derivatives, and by row, kept for `moments`, the second ones.

        A Newton step of the band alone would overshoot: rows enter while it is made. So the rows that the last step
        would have brought near count, too, and at first those that the proximal point has inside the band. Most slopes
        are 0 or 1 and stay so: only what changed is added to the sums by cell, unless they are made afresh.

        Returns
        -------
        ndarray of shape (2 + a, d + 1)
            `sum_i s_i A U+ x_i`, `sum_i s_i B U- x_i`, and the gradients of the active constraints; in the last column
            the same sums without x.
        """
        sub, rows, m = self.sub, self.sub.rows, self.sub.n_constraints
        d = rows.n_features
        if step != 0.0:
            self.dz *= step
            self.z += self.dz
        A, B = sub.coef.per_cell(multipliers)
        self.curvature[:] = 0.0
        if width.afresh:
            self._plus[:], self._minus[:], self._above[:], self._below[:] = 0.0, 0.0, 0.0, 0.0
        common, band = (sub.weight, sub.cell, sub.keep), (width.delta, width.near, width.first)
        change = self.dz  # its steps are done with
        sides = ((1.0, 0, self.up, A, self._plus), (-1.0, 1, self.um, B, self._minus))
        for (sign, bit, u, coefficient, slope), sums in zip(sides, (self._above, self._below), strict=True):
            loops.side_slopes(self.z, sign, *common, bit, u, *band, coefficient, slope, change, self.curvature)
            if self.by_cells:
                rows.add_cell_sums(sub.cell, change, sums)
        out = np.empty((2 + active.shape[0], d + 1))
        if self.by_cells:
            above, below = self._above, self._below
            out[0, :d], out[1, :d] = A @ above, B @ below
            out[2:, :d] = sub.coef.products(above, below, active, m)
        else:
            out[:, :d] = rows.border(self._right_sides(A, B, active), 2 + active.shape[0])
        plus_mass, minus_mass = self._sums[:, 0:1], self._sums[:, 1:2]
        self._sums[:] = 0.0
        loops.add_by_cell(sub.cell, self._plus, self._minus, self._sums)
        out[0, d], out[1, d] = A @ plus_mass[:, 0], B @ minus_mass[:, 0]
        out[2:, d] = sub.coef.products(plus_mass, minus_mass, active, m)[:, 0]
        return out

    def _right_sides(self, A: Floats, B: Floats, active: Ints) -> Callable[[slice, Floats], None]:
        """What `RowBlocks.border` is to multiply with the rows, where sums by cell would take too much memory."""
        sub, place_of = self.sub, self.sub.coef.places(active, self.sub.n_constraints)

        def fill(place: slice, columns: Floats) -> None:
            c, plus, minus = sub.cell[place], self._plus[place], self._minus[place]
            cell_loops.fill_columns(*sub.coef.entries, place_of, c, plus, minus, columns[:, 2:])
            columns[:, 0] = A[c] * plus
            columns[:, 1] = B[c] * minus

        return fill

    def moments(self, lam: float, *, exact: bool = False) -> Moments:
        """Sums over the band of the last slopes, for a factored system."""
        assert self._gram is not None
        return self._gram.update(self.curvature, lam, self.dz, exact=exact)

    def band(self) -> BandProducts:
        """The band of the last slopes, for an iterated system."""
        return BandRows(self.sub.rows, self.curvature)

    def move(self, dw: Floats, db: float, delta: float, *, single: bool) -> float:
        """Set `dz` to the change of the scores by a step (dw, db); returns its square."""
        self.sub.rows.dot(dw, out=self.dz, single=single)
        self.dz -= db
        return float(self.dz @ self.dz)

    def extent(self) -> tuple[float, float]:
        """Largest `|dz|` and largest `|z|`."""
        reach = max(float(self.dz.max(initial=0.0)), -float(self.dz.min(initial=0.0)))
        return reach, max(float(self.z.max(initial=0.0)), -float(self.z.min(initial=0.0)))

    def settle(self, w: Floats, b: float, *, afresh: bool) -> tuple[float, Floats]:
        """Exact values at (w, b), where the steps have led; with `afresh` the scores are computed anew for them."""
        if afresh:
            self.z = self.sub.scores(w, b)
        return self.sub.values(self.z)

    def adopt(self, delta: float) -> None:
        """Make the slopes U the shares."""
        loops.move_dual(self.z, self.sub.keep, self.up, self.um, delta)

    def rescale(self, factor: float) -> None:
        """Multiply the curvatures that the Gram matrix is made of by a factor."""
        if self._gram is not None:
            self._gram.rescale(factor)

    def shares(self, delta: float) -> tuple[Shares, Shares]:
        """The slopes U as shares of the two sides, in single precision."""
        self.adopt(delta)
        return self.up.astype(np.float32), self.um.astype(np.float32)
