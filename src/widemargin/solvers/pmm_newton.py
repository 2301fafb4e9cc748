"""Proximal method of multipliers with a semismooth Newton inner solve: the default for linear models.

Outer loop (proximal point in the dual variables): each hinge `max(0, t) = max_{0<=U<=1} U t` gets a proximal term
`-delta/2 (U - u)^2`, each constraint `max_{0<=v<=rho} v c` a term `-(v - v_old)^2 / (2 tau)`. What is left to minimise
over (w, b) is convex, once differentiable and piecewise quadratic: Newton with a line search to the minimum. Its
Hessian touches only the rows inside a band of width delta around the margin and next to it, so a step gets cheaper as
the solution comes near.

`U` and `v` at the end of an inner solve are a dual point; with them the bound of spec 1, section 4b certifies the
result (see `certificate`). The penalty weight `rho` makes every problem feasible and is exact once it exceeds the
multipliers.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from widemargin.linalg import _cell_loops as cell_loops
from widemargin.linalg.cells import Floats, Ints
from widemargin.solvers._loops import pmm_newton as loops
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.certificate import Bracket
from widemargin.solvers.newton_system import BandGram, Curvature, FactoredSystem, IterativeSystem, NewtonSystem

__all__ = ["solve"]

_SHRINK = 0.5  # delta is halved; 0.15-0.35 fail or cost 2-3 times the steps
_DELTA_MIN, _TAU_MAX = 1e-3, 1e4  # where both stop, unless the gap does too
_DELTA_LAST, _TAU_LAST = 1e-8, 1e8
_MAX_OUTER = 60
_MAX_INNER = 50
_MAX_EVALUATIONS = 30  # of a line search
_SLOPE_LEFT = 0.1  # of the first slope, where a line search ends: an Armijo step takes a third more Newton steps
_ARMIJO = 1e-4
_AHEAD = 0.3  # of the last step: rows that near to the band count in the curvature
_NOISE = 1e-13  # relative accuracy of the smoothed value, a sum over all rows
_RIDGE = 1e-12
_FINE = 1e-5  # gap
_BROAD = 200  # features from which the wide bands of a first width of 1 cost more than they save
_WIDE = 1500  # features from which factors of d x d matrices cost more than conjugate gradients
_WIDE_SPARSE = 600  # the same where rows are thin: at 700 two to five times less, at 500 a quarter less to a half more
_THIN = 0.15  # share of the numbers that are stored
_TINY = float(np.finfo(np.float64).tiny)
_CELL_SUMS = 100_000  # numbers that sums by cell may always take


def solve(
    sub: ConstrainedHinge,
    *,
    tol: float = 1e-4,
    start: ConvexState | None = None,
    rho: float = 1.0,
    max_iter: int = 300,
    delta: float | None = None,
    iterative: bool | None = None,
    budget: Budget | None = None,
) -> ConvexResult:
    """Solve the convex subproblem, with a penalty `rho` on every constraint.

    Parameters
    ----------
    sub : ConstrainedHinge
    tol : float, default=1e-4
        Relative duality gap to reach.
    start : ConvexState, optional
        Warm start: the state of an earlier result on the same rows.
    rho : float, default=1.0
        Upper end of the multipliers, the weight of the exact penalty. `inf` is allowed.
    max_iter : int, default=300
        Newton steps.
    delta : float, optional
        First width of the proximal term: 1 from nothing (0.3 with more than 200 features), 0.1 from a warm start.
    iterative : bool, optional
        Solve the Newton systems by conjugate gradients instead of factoring them; by default with more than 1500
        features, or with more than 600 of which less than a seventh are stored.
    budget : Budget, optional

    Returns
    -------
    ConvexResult
        `n_iter` counts Newton steps; `history` has one entry an outer iteration. Infeasible constraints show by their
        multipliers: they end at `rho`, and with `rho=inf` they grow until the steps run out.
    """
    budget = budget or Budget()
    began = budget.elapsed
    run = _Run(sub, rho, start, delta, iterative)
    best = Bracket(rho)
    history: list[dict[str, float]] = []
    status = Status.MAX_ITER
    for _ in range(_MAX_OUTER):
        before = best.gap
        run.minimise(best.primal - best.dual, max_iter, budget)
        run.report(best)
        entry = {"primal": best.primal, "dual": best.dual, "newton": run.steps, "seconds": budget.elapsed - began}
        history.append(entry)
        if best.gap <= tol:
            status = Status.CONVERGED
            break
        if budget.exhausted:
            status = Status.TIME_LIMIT
            break
        if run.steps >= max_iter:
            break
        run.advance(slow=best.gap > 0.5 * before)
    run.adopt_dual()
    return ConvexResult(
        w=best.w,
        b=best.b,
        multipliers=best.v,
        primal=best.primal,
        dual=best.dual,
        gap=best.gap,
        violation=best.excess,
        status=status,
        n_iter=run.steps,
        n_epochs=0,
        seconds=budget.elapsed - began,
        state=ConvexState(run.w, run.b, run.up.astype(np.float32), run.um.astype(np.float32), run.here.vh),
        history=tuple(history),
    )


class _Run:
    """The iterate: primal point, proximal dual point, and what was last computed at it (`here`, `slopes`)."""

    here: "_Value"
    slopes: "_Slopes"

    def __init__(
        self, sub: ConstrainedHinge, rho: float, start: ConvexState | None, delta: float | None, iterative: bool | None
    ) -> None:
        n, d, m, k = sub.rows.n_rows, sub.rows.n_features, sub.n_constraints, sub.coef.n_cells
        if start is None:
            nothing = np.zeros(n, np.float32)
            start = ConvexState(np.zeros(d), 0.0, nothing, nothing, np.zeros(m))
            first = 1.0 if d < _BROAD else 0.3
        else:
            first = 0.1
        self.sub, self.rho = sub, rho
        self.w, self.b, self.z = start.w.copy(), start.b, sub.scores(start.w, start.b)
        self.up, self.um = start.up.astype(np.float64), start.um.astype(np.float64)
        self.v = np.minimum(start.v, rho)
        self.delta, self.tau = first if delta is None else delta, 10.0 if m <= 1 else 30.0
        self.lag, self.steps, self.reach = np.inf, 0, 0.0
        thin = d > _WIDE_SPARSE and sub.rows.n_stored < _THIN * n * d
        self.iterative = (d > _WIDE or thin) if iterative is None else iterative
        self.sums = np.empty((k, 4))
        self.by_cells = 2 * k * d <= max(4 * n, _CELL_SUMS)  # else the sums of all cells would outgrow the rows
        self.dz, self.plus, self.minus = np.zeros(n), np.zeros(n), np.zeros(n)
        self.curvature = np.zeros(n, dtype=np.float32)  # steers the steps only
        self.above, self.below = np.zeros((2, k if self.by_cells else 0, d))
        self.band = None if self.iterative else BandGram(sub.rows, sub.fit_intercept)

    def evaluate(self, step: float) -> "_Value":
        """Smoothed Lagrangian without the regulariser at `z + step dz`."""
        sub, coef = self.sub, self.sub.coef
        sums, m = self.sums, sub.n_constraints  # one array for all calls: where every row is a cell it is a large one
        sums[:] = 0.0
        loops.smooth_sums(self.z, self.dz, step, sub.weight, sub.cell, sub.keep, self.up, self.um, self.delta, sums)
        loss, constraints = coef.totals(sums[:, 0], sums[:, 1], m)
        loss_slope, slopes = coef.totals(sums[:, 2], sums[:, 3], m)
        excess = constraints - sub.gamma
        vh = np.clip(self.v + self.tau * excess, 0.0, self.rho)
        value = loss + vh @ excess - (vh - self.v) @ (vh - self.v) / (2.0 * self.tau)
        return _Value(float(value), float(loss_slope + vh @ slopes), vh)

    def differentiate(self, *, first: bool = False, afresh: bool = False) -> "_Slopes":
        """First derivatives at z, and in `curvature` the second ones by row.

        A Newton step of the band alone would overshoot: rows enter while it is made. So the rows that the last step
        would have brought near count, too, and `first` of a width those that the proximal point has inside the band.
        Most slopes are 0 or 1 and stay so: only what changed is added to the sums by cell, unless `afresh`.
        """
        sub, rows, vh, m = self.sub, self.sub.rows, self.here.vh, self.sub.n_constraints
        A, B = sub.coef.per_cell(vh)
        self.curvature[:] = 0.0
        if afresh:
            self.plus[:], self.minus[:], self.above[:], self.below[:] = 0.0, 0.0, 0.0, 0.0
        common = (sub.weight, sub.cell, sub.keep)
        near = 0.0 if first else _AHEAD * self.reach / self.delta
        change = self.dz  # its steps are done with
        sides = ((1.0, 0, self.up, A, self.plus), (-1.0, 1, self.um, B, self.minus))
        for (sign, bit, u, coefficient, slope), sums in zip(sides, (self.above, self.below), strict=True):
            band = (self.delta, near, first)
            loops.side_slopes(self.z, sign, *common, bit, u, *band, coefficient, slope, change, self.curvature)
            if self.by_cells:
                rows.add_cell_sums(sub.cell, change, sums)
        active = np.flatnonzero((vh > 0.0) & (vh < self.rho))
        if self.by_cells:
            above, below = self.above, self.below
            rise, fall, border = A @ above, B @ below, sub.coef.products(above, below, active, m)
        else:
            products = rows.border(self._right_sides(A, B, active), 2 + active.shape[0])
            rise, fall, border = products[0], products[1], products[2:]
        plus_mass, minus_mass = self.sums[:, 0:1], self.sums[:, 1:2]
        self.sums[:] = 0.0
        loops.add_by_cell(sub.cell, self.plus, self.minus, self.sums)
        totals = sub.coef.products(plus_mass, minus_mass, active, m)[:, 0]
        return _Slopes(rise, fall, float(A @ plus_mass[:, 0]), float(B @ minus_mass[:, 0]), border, totals)

    def _right_sides(self, A: Floats, B: Floats, active: Ints) -> Callable[[slice, Floats], None]:
        """What `RowBlocks.border` is to multiply with the rows, where sums by cell would take too much memory."""
        sub, place_of = self.sub, self.sub.coef.places(active, self.sub.n_constraints)

        def fill(place: slice, columns: Floats) -> None:
            c, plus, minus = sub.cell[place], self.plus[place], self.minus[place]
            cell_loops.fill_columns(*sub.coef.entries, place_of, c, plus, minus, columns[:, 2:])
            columns[:, 0] = A[c] * plus
            columns[:, 1] = B[c] * minus

        return fill

    def minimise(self, gap: float, max_iter: int, budget: Budget) -> None:
        """Newton steps on the smoothed Lagrangian until its gradient harms neither the primal nor the dual value."""
        decrement_tol = 1e-2 * min(gap, 1e-4)
        harm_tol = 0.1 * (gap if gap < 1.0 else 0.01)
        self.single = gap >= _FINE
        self.here = self.evaluate(0.0)
        self.slopes = self.differentiate(
            first=True, afresh=gap < _FINE
        )  # the rounding of many small changes begins to count
        system: NewtonSystem | None = None
        for _ in range(_MAX_INNER):
            gradient = self.gradient()
            if system is not None:  # the last step's will do: only the order of magnitude counts
                decrement = 0.5 * system.estimate(gradient)
                harm = self.harm(gradient)
                if decrement <= 1e-17 or (decrement <= decrement_tol and harm <= harm_tol):
                    return
            if self.steps >= max_iter or budget.exhausted:
                return
            system = self.system()
            if not self.move(-system.solve(gradient), gradient):
                return
            self.slopes = self.differentiate()

    def gradient(self) -> Floats:
        """Gradient of the smoothed Lagrangian with respect to (w, b), or to w alone without an intercept."""
        slopes = self.slopes
        gradient = slopes.rise - slopes.fall + self.sub.lam * self.w
        return np.append(gradient, slopes.fall_total - slopes.rise_total) if self.sub.fit_intercept else gradient

    def harm(self, gradient: Floats) -> float:
        """What the gradient costs the dual value, once the two sides are made to sum to the same (see `report`)."""
        d = self.w.shape[0]
        g = gradient[:d]
        if self.sub.fit_intercept:
            g = g + gradient[d] * self.sub.rows.centre
        return float(g @ g) / (2.0 * self.sub.lam)

    def system(self) -> NewtonSystem:
        """The Newton system at the point."""
        sub, slopes = self.sub, self.slopes
        floor = _RIDGE / self.delta
        curvature = Curvature(self.curvature, sub.lam, slopes.border, slopes.border_totals, self.tau, floor)
        if self.band is None:
            return IterativeSystem(sub.rows, curvature, sub.fit_intercept)
        return FactoredSystem(sub.rows, curvature, sub.fit_intercept, self.band, self.dz)

    def move(self, direction: Floats, gradient: Floats) -> bool:
        """Go to the minimum along the direction; False where no step decreases the value (the end of the numbers)."""
        sub = self.sub
        d = self.w.shape[0]
        dw = direction[:d]
        db = float(direction[d]) if sub.fit_intercept else 0.0
        sub.rows.dot(dw, out=self.dz, single=self.single)
        self.dz -= db
        found = self._search(float(gradient @ direction), sub.lam * float(self.w @ dw), sub.lam * float(dw @ dw))
        if found is None:
            return False
        step, self.here = found
        self.w = self.w + step * dw
        self.b += step * db
        self.dz *= step
        self.z += self.dz
        self.reach = float(np.sqrt(self.dz @ self.dz / max(self.dz.shape[0], 1)))
        self.steps += 1
        return True

    def _search(self, initial: float, linear: float, square: float) -> "tuple[float, _Value] | None":
        """The step at which the slope along `dz` is next to zero, and the value there.

        Along a line the slope rises, in straight pieces: false position with the weights of the Illinois rule, because
        a constraint is a wall before which secants creep. The regulariser adds `linear + step square` to the slope.
        """
        noise = _NOISE * max(abs(self.here.value), 1.0)
        low, high, below, above = 0.0, np.inf, initial, 0.0
        best: tuple[float, _Value] | None = None
        step, side = 1.0, 0
        for attempt in range(_MAX_EVALUATIONS):
            there = self.evaluate(step)
            change = there.value - self.here.value + step * linear + 0.5 * step * step * square
            slope = there.slope + linear + step * square
            flat = change <= noise and slope <= -(1.0 - 2.0 * _ARMIJO) * initial  # Hager and Zhang's approximate rule
            if change <= _ARMIJO * step * initial or flat:
                best = step, there
                if abs(slope) <= -_SLOPE_LEFT * initial:
                    break
            if slope < 0.0:
                low, below = step, slope
                above *= 0.5 if side < 0 else 1.0
                side = -1
            else:
                high, above = step, slope
                below *= 0.5 if side > 0 else 1.0
                side = 1
            if high == np.inf:
                step *= 2.0
            elif attempt == 0 and (far := self._far()) < 0.5:
                step = far
            else:
                width = high - low
                guess = low - below * width / (above - below)
                step = min(max(guess, low + 0.05 * width), high - 0.05 * width)
        return best

    def _far(self) -> float:
        """A step past every kink of every row: beyond it the hinges are straight, and a Newton step has no meaning."""
        reach = max(float(self.dz.max(initial=0.0)), -float(self.dz.min(initial=0.0)))
        spread = max(float(self.z.max(initial=0.0)), -float(self.z.min(initial=0.0)))
        return 4.0 * (spread + 1.0) / reach if reach > 0.0 else 1.0

    def report(self, best: Bracket) -> None:
        """Certify the point: the dual value at (U, vh) below, the exact loss above (spec 1, section 4b).

        With an unregularised bias the dual point must have sum zero: the larger side is scaled down.
        """
        sub, slopes = self.sub, self.slopes
        rise, fall = slopes.rise_total, slopes.fall_total
        q = slopes.rise - slopes.fall
        if sub.fit_intercept:
            common = min(rise, fall)
            q = slopes.rise * (common / max(rise, _TINY)) - slopes.fall * (common / max(fall, _TINY))
            rise = fall = common
        dual = 0.5 * (rise + fall) - float(q @ q) / (2.0 * sub.lam) - float(self.here.vh @ sub.gamma) + sub.constant
        best.add_dual(dual, self.here.vh)
        if self.single and sub.rows.has_singles:
            self.z = sub.scores(self.w, self.b)
        loss, excess = sub.values(self.z)
        best.add_point(self.w, self.b, loss + 0.5 * sub.lam * float(self.w @ self.w), excess)

    def advance(self, *, slow: bool) -> None:
        """One proximal step: the slopes become the new centre, the width shrinks, tau grows where constraints lag."""
        lag = float(np.abs(self.here.vh - self.v).max(initial=0.0)) / self.tau
        if lag > 0.3 * self.lag:
            self.tau = min(5.0 * self.tau, max(_TAU_LAST if slow else _TAU_MAX, self.tau))
        self.lag = lag
        self.adopt_dual()
        self.v = self.here.vh
        before, self.delta = self.delta, max(_SHRINK * self.delta, min(_DELTA_LAST if slow else _DELTA_MIN, self.delta))
        if self.band is not None:
            self.band.rescale(before / self.delta)

    def adopt_dual(self) -> None:
        """Make the slopes U the proximal point."""
        loops.move_dual(self.z, self.sub.keep, self.up, self.um, self.delta)


class _Value(NamedTuple):
    """Smoothed Lagrangian (without the regulariser) at some scores, and what comes with it.

    Attributes
    ----------
    value, slope : float
        Value, and derivative along the line.
    vh : ndarray of shape (m,)
        Multipliers.
    """

    value: float
    slope: float
    vh: Floats


class _Slopes(NamedTuple):
    """First derivatives with respect to w, the two sides of the hinges apart.

    Attributes
    ----------
    rise, fall : ndarrays of shape (d,)
        `sum_i s_i A U+ x_i` and `sum_i s_i B U- x_i`.
    rise_total, fall_total : float
        The same sums without x.
    border : ndarray of shape (a, d)
        Gradients of the constraints whose multiplier lies strictly inside its range.
    border_totals : ndarray of shape (a,)
        The same sums without x.
    """

    rise: Floats
    fall: Floats
    rise_total: float
    fall_total: float
    border: Floats
    border_totals: Floats
