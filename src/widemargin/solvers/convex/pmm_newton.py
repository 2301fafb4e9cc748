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

from typing import Any, NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.distributed.blocked_rows import BlockedRows
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.convex.certificate import Bracket
from widemargin.solvers.convex.newton_blocks import BlockPasses
from widemargin.solvers.convex.newton_rows import NewtonPasses, NewtonRows, Width
from widemargin.solvers.convex.newton_system import Curvature, FactoredSystem, IterativeSystem, NewtonSystem

__all__ = ["is_wide", "solve"]

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
        state=ConvexState(run.w, run.b, *run.rows.shares(run.delta), run.here.vh),
        history=tuple(history),
    )


def is_wide(rows: Any) -> bool:
    """Whether factors of d x d matrices cost more than conjugate gradients, by features and thinness."""
    d = rows.n_features
    return bool(d > _WIDE or (d > _WIDE_SPARSE and rows.n_stored < _THIN * rows.n_rows * d))


class _Run:
    """The iterate: primal point, multipliers, widths, and what was last computed at it (`here`, `slopes`).

    What is as long as the rows is left to `rows`.
    """

    here: "_Value"
    slopes: "_Slopes"

    def __init__(
        self, sub: ConstrainedHinge, rho: float, start: ConvexState | None, delta: float | None, iterative: bool | None
    ) -> None:
        n, d, m = sub.rows.n_rows, sub.rows.n_features, sub.n_constraints
        self.sub, self.rho, self.n_rows = sub, rho, n
        if start is None:
            self.w, self.b, self.v = np.zeros(d), 0.0, np.zeros(m)
            first = 1.0 if d < _BROAD else 0.3
        else:
            self.w, self.b, self.v = start.w.copy(), start.b, np.minimum(start.v, rho)
            first = 0.1
        self.delta, self.tau = first if delta is None else delta, 10.0 if m <= 1 else 30.0
        self.lag, self.steps, self.reach = np.inf, 0, 0.0
        self.iterative = is_wide(sub.rows) if iterative is None else iterative
        self.rows = _passes(sub, start, self.w, self.b, iterative=self.iterative)

    def evaluate(self, step: float) -> "_Value":
        """Smoothed Lagrangian without the regulariser, a step along the direction from here."""
        (loss, *constraints), (loss_slope, *slopes) = self.rows.smooth(step, self.delta)
        excess = np.asarray(constraints) - self.sub.gamma
        vh = np.clip(self.v + self.tau * excess, 0.0, self.rho)
        value = loss + vh @ excess - (vh - self.v) @ (vh - self.v) / (2.0 * self.tau)
        return _Value(float(value), float(loss_slope + vh @ np.asarray(slopes)), vh)

    def differentiate(self, step: float, *, first: bool = False, afresh: bool = False) -> "_Slopes":
        """Go a step along the direction; first derivatives there."""
        vh, d = self.here.vh, self.w.shape[0]
        active = np.flatnonzero((vh > 0.0) & (vh < self.rho))
        width = Width(self.delta, 0.0 if first else _AHEAD * self.reach / self.delta, first, afresh)
        sums = self.rows.slopes(step, vh, active, width)
        rise, fall, *_ = sums
        return _Slopes(rise[:d], fall[:d], float(rise[d]), float(fall[d]), sums[2:, :d], sums[2:, d])

    def minimise(self, gap: float, max_iter: int, budget: Budget) -> None:
        """Newton steps on the smoothed Lagrangian until its gradient harms neither the primal nor the dual value."""
        decrement_tol = 1e-2 * min(gap, 1e-4)
        harm_tol = 0.1 * (gap if gap < 1.0 else 0.01)
        self.single = gap >= _FINE
        self.here = self.evaluate(0.0)
        # where the gap is fine the rounding of many small changes begins to count
        self.slopes = self.differentiate(0.0, first=True, afresh=gap < _FINE)
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
            step = self.move(-system.solve(gradient), gradient)
            if step is None:
                return
            self.slopes = self.differentiate(step)

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
            g = g + gradient[d] * self.rows.centre
        return float(g @ g) / (2.0 * self.sub.lam)

    def system(self) -> NewtonSystem:
        """The Newton system at the point."""
        sub, slopes = self.sub, self.slopes
        centre = self.rows.centre if sub.fit_intercept else None
        curvature = Curvature(sub.lam, slopes.border, slopes.border_totals, self.tau, _RIDGE / self.delta, centre)
        if self.iterative:
            return IterativeSystem(curvature, self.rows.band())
        return FactoredSystem(curvature, self.rows)

    def move(self, direction: Floats, gradient: Floats) -> float | None:
        """Go to the minimum along the direction; None where no step decreases the value (the end of the numbers)."""
        sub = self.sub
        d = self.w.shape[0]
        dw = direction[:d]
        db = float(direction[d]) if sub.fit_intercept else 0.0
        square = self.rows.move(dw, db, self.delta, single=self.single)
        found = self._search(float(gradient @ direction), sub.lam * float(self.w @ dw), sub.lam * float(dw @ dw))
        if found is None:
            return None
        step, self.here = found
        self.w = self.w + step * dw
        self.b += step * db
        self.reach = step * float(np.sqrt(square / max(self.n_rows, 1)))
        self.steps += 1
        return step

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
        reach, spread = self.rows.extent()
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
        loss, excess = self.rows.settle(self.w, self.b, afresh=self.single and sub.rows.has_singles)
        best.add_point(self.w, self.b, loss + 0.5 * sub.lam * float(self.w @ self.w), excess)

    def advance(self, *, slow: bool) -> None:
        """One proximal step: the slopes become the new centre, the width shrinks, tau grows where constraints lag."""
        lag = float(np.abs(self.here.vh - self.v).max(initial=0.0)) / self.tau
        if lag > 0.3 * self.lag:
            self.tau = min(5.0 * self.tau, max(_TAU_LAST if slow else _TAU_MAX, self.tau))
        self.lag = lag
        self.rows.adopt(self.delta)
        self.v = self.here.vh
        before, self.delta = self.delta, max(_SHRINK * self.delta, min(_DELTA_LAST if slow else _DELTA_MIN, self.delta))
        self.rows.rescale(before / self.delta)


def _passes(sub: Any, start: ConvexState | None, w: Floats, b: float, *, iterative: bool) -> NewtonPasses:
    """Who works on the rows: this process, or those where their blocks live."""
    if isinstance(sub.rows, BlockedRows):
        return BlockPasses(sub, w, b, warm=start is not None, iterative=iterative)
    n = sub.rows.n_rows
    up, um = (np.zeros(n), np.zeros(n)) if start is None else (start.up.astype(np.float64), start.um.astype(np.float64))
    scores = sub.scores(w, b)
    sub.rows.forget()
    return NewtonRows(sub, scores, up, um, iterative=iterative)


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
