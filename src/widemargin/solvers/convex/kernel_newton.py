"""Proximal method of multipliers with Newton steps for kernel models: exact, on the whole kernel matrix.

The outer loop is that of `pmm_newton`. The inner problem is minimised over `w = sum_i c_i phi(x_i)` and b, and its
Newton system `H (dw, db) = -gradient`, `H = lam + X' D X + tau X' G' G X`, is never built in the n coefficients. With
the second-order slopes `p = D dz + tau G' G dz` its first line says

    dw = -X' (s + lam c + p) / lam,

so only p is unknown, and p is zero outside the band where the curvature D is not, apart from the few columns of G (one
for each constraint whose multiplier is inside its range). What is factored is a matrix of the size of the band,

    [ lam / D + K_BB    K_B G'            ] [ q    ]
    [ G K_B             lam / tau + G K G'] [ zeta ],        p = q on the band, + G' zeta,

and a step costs a product with K, and a third of the cube of the band, which shrinks as the solution comes near.

The model that is returned is the one of the dual point, `c = -xi / lam`: rows whose hinges are flat have the
coefficient 0, exactly.
"""

from typing import NamedTuple, cast

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.exceptions import CapabilityError, KernelError
from widemargin.linalg import cells as cell_loops
from widemargin.linalg import cholesky
from widemargin.linalg.gram import GramRows
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.convex import kernel_newton_loops as kernel_loops
from widemargin.solvers.convex import pmm_newton_loops as loops
from widemargin.solvers.convex.certificate import Bracket

__all__ = ["solve"]

_SHRINK = 0.5
_DELTA_MIN, _TAU_MAX = 1e-3, 1e4  # where both stop, unless the gap does too
_DELTA_LAST, _TAU_LAST = 1e-8, 1e8
_MAX_OUTER, _MAX_INNER, _MAX_BACKTRACK = 60, 50, 30
_ARMIJO = 1e-4
_NOISE = 1e-13
_TINY = float(np.finfo(np.float64).tiny)


def solve(
    sub: ConstrainedHinge,
    *,
    tol: float = 1e-4,
    start: ConvexState | None = None,
    rho: float = 1.0,
    max_iter: int = 300,
    budget: Budget | None = None,
) -> ConvexResult:
    """Solve the convex subproblem on kernel rows, with a penalty `rho` on every constraint.

    Parameters
    ----------
    sub : ConstrainedHinge
        Its rows are a `GramRows` whose matrix is in memory.
    tol : float, default=1e-4
        Relative duality gap to reach.
    start : ConvexState, optional
        Warm start: the state of an earlier result on the same rows.
    rho : float, default=1.0
        Upper end of the multipliers. `inf` is allowed.
    max_iter : int, default=300
        Newton steps.
    budget : Budget, optional

    Returns
    -------
    ConvexResult
        `w` holds the coefficients c, shape (n,); `n_iter` counts Newton steps.

    Raises
    ------
    CapabilityError
        If the kernel matrix is not in memory.
    KernelError
        If the kernel is not positive semi-definite.
    """
    budget = budget or Budget()
    began = budget.elapsed
    run = _Run(sub, rho, start)
    best, history, status = Bracket(rho), list[dict[str, float]](), Status.MAX_ITER
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
        state=ConvexState(run.c, run.b, run.up.astype(np.float32), run.um.astype(np.float32), run.here.vh),
        history=tuple(history),
    )


class _Value(NamedTuple):
    """Smoothed Lagrangian without the regulariser, its derivative along the line, multipliers, cells' coefficients."""

    value: float
    slope: float
    vh: Floats
    A: Floats
    B: Floats


class _Slopes(NamedTuple):
    """First derivatives by row and their products with K.

    Attributes
    ----------
    rise, fall : ndarrays of shape (n,)
        Slopes of the positive and of the negative sides, with their coefficients.
    slope : ndarray of shape (n,)
        Derivative of the smoothed Lagrangian with respect to each score, `s = rise - fall`.
    G : ndarray of shape (n, a)
        Slopes of the constraints whose multiplier is inside its range, G' of the module's head.
    K_slope, KG : ndarrays
        K times both.
    """

    rise: Floats
    fall: Floats
    slope: Floats
    G: Floats
    K_slope: Floats
    KG: Floats


class _Direction(NamedTuple):
    """A Newton step: coefficients, bias, scores, and the derivative of the smoothed Lagrangian along it."""

    c: Floats
    b: float
    z: Floats
    initial: float


class _Run:
    """The iterate: coefficients, scores, proximal dual point, and what was last computed at it."""

    here: _Value
    slopes: _Slopes

    def __init__(self, sub: ConstrainedHinge, rho: float, start: ConvexState | None) -> None:
        rows = cast(GramRows, sub.rows)
        if rows.matrix is None:
            raise CapabilityError(
                f"solver 'newton' needs the whole kernel matrix of {rows.n_rows} rows in memory; use 'cutting-plane'."
            )
        n, m = rows.n_rows, sub.n_constraints
        first = 1.0 if start is None else 0.1
        if start is None:
            nothing = np.zeros(n, np.float32)
            start = ConvexState(np.zeros(n), 0.0, nothing, nothing, np.zeros(m))
        self.sub, self.rows, self.K, self.rho = sub, rows, rows.matrix, rho
        self.c, self.b = start.w.copy(), start.b
        self.z = rows.dot(self.c) - self.b
        self.up, self.um = start.up.astype(np.float64), start.um.astype(np.float64)
        self.v = np.minimum(start.v, rho)
        self.delta, self.tau = first, 10.0 if m <= 1 else 30.0
        self.lag, self.steps = np.inf, 0
        self.dz, self.curvature = np.zeros(n), np.empty(n)

    def evaluate(self, step: float) -> _Value:
        """Smoothed Lagrangian without the regulariser at `z + step dz`."""
        sub, coef, m = self.sub, self.sub.coef, self.sub.n_constraints
        sums = np.zeros((coef.n_cells, 4))
        loops.smooth_sums(self.z, self.dz, step, sub.weight, sub.cell, sub.keep, self.up, self.um, self.delta, sums)
        loss, constraints = coef.totals(sums[:, 0], sums[:, 1], m)
        loss_slope, slopes = coef.totals(sums[:, 2], sums[:, 3], m)
        excess = constraints - sub.gamma
        vh = np.clip(self.v + self.tau * excess, 0.0, self.rho)
        value = loss + vh @ excess - (vh - self.v) @ (vh - self.v) / (2.0 * self.tau)
        return _Value(float(value), float(loss_slope + vh @ slopes), vh, *coef.per_cell(vh))

    def differentiate(self) -> _Slopes:
        """First derivatives at z, and in `curvature` the second ones by row."""
        sub, here, cell = self.sub, self.here, self.sub.cell
        active = np.flatnonzero((here.vh > 0.0) & (here.vh < self.rho))
        plus, minus = np.empty_like(self.z), np.empty_like(self.z)
        kernel_loops.slopes(
            self.z, sub.weight, cell, sub.keep, self.up, self.um, self.delta, here.A, here.B,
            plus, minus, self.curvature,
        )  # fmt: skip
        G = np.empty((cell.shape[0], active.shape[0]))
        cell_loops.fill_columns(*sub.coef.entries, sub.coef.places(active, sub.n_constraints), cell, plus, minus, G)
        plus *= here.A[cell]
        minus *= here.B[cell]
        slope = plus - minus
        return _Slopes(plus, minus, slope, G, self.rows.times(slope), self.rows.times(G))

    def minimise(self, gap: float, max_iter: int, budget: Budget) -> None:
        """Newton steps on the smoothed Lagrangian until its gradient harms neither the primal nor the dual value."""
        decrement_tol = 1e-2 * min(gap, 1e-4)
        harm_tol = 0.1 * (gap if gap < 1.0 else 0.01)
        self.here = self.evaluate(0.0)
        self.slopes = self.differentiate()
        decrement = np.inf
        for _ in range(_MAX_INNER):
            gradient = self.slopes.slope + self.sub.lam * self.c
            products = self.slopes.K_slope + self.sub.lam * (self.z + self.b)
            harm = max(float(gradient @ products), 0.0) / (2.0 * self.sub.lam)  # what the gradient costs the dual value
            if decrement <= 1e-17 or (decrement <= decrement_tol and harm <= harm_tol):
                return
            if self.steps >= max_iter or budget.exhausted:
                return
            direction = self.newton(gradient, products)
            if not self.move(direction):
                return
            decrement = -0.5 * direction.initial  # of the step just made: the next one is shorter
            self.slopes = self.differentiate()

    def newton(self, gradient: Floats, products: Floats) -> _Direction:
        """The Newton step; `products` is K times the coefficients of the gradient."""
        lam, slopes = self.sub.lam, self.slopes
        band = np.flatnonzero(self.curvature)
        q = self.solve_band(band, gradient, products)
        zeta = q[0][band.shape[0] :]
        p = slopes.G @ zeta
        p[band] += q[0][: band.shape[0]]
        dc = -(gradient + p) / lam
        dz = -(products + self.rows.times(p)) / lam
        db = q[1]
        initial = float(gradient @ dz) - float(slopes.slope.sum()) * db
        return _Direction(dc, db, dz - db, initial)

    def solve_band(self, band: Ints, gradient: Floats, products: Floats) -> tuple[Floats, float]:
        """The unknowns (q, zeta) of the module's head, and the change of the bias."""
        sub, lam = self.sub, self.sub.lam
        G, KG = self.slopes.G, self.slopes.KG
        inner, size = band.shape[0], band.shape[0] + G.shape[1]
        matrix = np.empty((size, size), order="F")
        matrix[:inner, :inner] = self.K[np.ix_(band, band)].T  # symmetric: the transpose is in Fortran order
        matrix[inner:, :inner] = KG[band].T
        matrix[inner:, inner:] = G.T @ KG
        diagonal = np.arange(size)
        matrix[diagonal[:inner], diagonal[:inner]] += lam / self.curvature[band]
        matrix[diagonal[inner:], diagonal[inner:]] += lam / self.tau
        right = np.empty((size, 2), order="F")
        right[:inner, 0], right[inner:, 0] = -products[band], -(G.T @ products)
        right[:inner, 1], right[inner:, 1] = 1.0, G.sum(axis=0)
        try:
            solved = cholesky.solve(cholesky.factor(matrix), right) if size else right
        except np.linalg.LinAlgError as error:
            raise KernelError(
                "the kernel is not positive semi-definite on the rows near the margin (no Cholesky factor). "
                "Use another kernel (rbf, laplacian, linear), or other parameters."
            ) from error
        if not sub.fit_intercept:
            return solved[:, 0], 0.0
        # the second line of the system: the slopes after the step sum to zero
        wanted = float(self.slopes.slope.sum()) + float(right[:, 1] @ solved[:, 0])
        share = wanted / (float(right[:, 1] @ solved[:, 1]) + 1e-12)
        return solved[:, 0] - share * solved[:, 1], share / lam

    def move(self, direction: _Direction) -> bool:
        """Search along the direction; False where no step decreases the value (the end of the numbers)."""
        lam, self.dz = self.sub.lam, direction.z
        linear = lam * float((self.z + self.b) @ direction.c)
        square = lam * float(direction.c @ (direction.z + direction.b))
        noise = _NOISE * max(abs(self.here.value), 1.0)
        step = 1.0
        for attempt in range(_MAX_BACKTRACK):
            there = self.evaluate(step)
            change = there.value - self.here.value + step * linear + 0.5 * step * step * square
            slope = there.slope + linear + step * square
            flat = change <= noise and slope <= -(1.0 - 2.0 * _ARMIJO) * direction.initial  # Hager and Zhang's rule
            if change <= _ARMIJO * step * direction.initial or flat:
                self.c = self.c + step * direction.c
                self.b += step * direction.b
                self.z = self.z + step * direction.z
                self.here = there
                self.steps += 1
                return True
            if attempt == 0:
                step = min(step, self._far())
            step *= 0.5
        return False

    def _far(self) -> float:
        """A step past every kink of every row: beyond it a Newton step has no meaning."""
        reach, spread = float(np.abs(self.dz).max(initial=0.0)), float(np.abs(self.z).max(initial=0.0))
        return 4.0 * (spread + 1.0) / reach if reach > 0.0 else 1.0

    def report(self, best: Bracket) -> None:
        """Certify the dual point (U, vh), and offer the primal point that it stands for (spec 1, section 4b).

        With an unregularised bias the dual point must have sum zero: the larger side is scaled down.
        """
        sub, lam, slopes = self.sub, self.sub.lam, self.slopes
        rise, fall = float(slopes.rise.sum()), float(slopes.fall.sum())
        up = down = 1.0
        if sub.fit_intercept:
            up, down = min(1.0, fall / max(rise, _TINY)), min(1.0, rise / max(fall, _TINY))
        xi = up * slopes.rise - down * slopes.fall
        scores = -(up * slopes.K_slope + (up - down) * self.rows.times(slopes.fall)) / lam
        square = self.rows.square(-xi / lam, scores)
        dual = 0.5 * (up * rise + down * fall) - 0.5 * lam * square - float(self.here.vh @ sub.gamma) + sub.constant
        best.add_dual(dual, self.here.vh)
        loss, excess = sub.values(scores - self.b)
        best.add_point(-xi / lam, self.b, loss + 0.5 * lam * square, excess)

    def advance(self, *, slow: bool) -> None:
        """One proximal step: the slopes become the new centre, the width shrinks, tau grows where constraints lag."""
        lag = float(np.abs(self.here.vh - self.v).max(initial=0.0)) / self.tau
        if lag > 0.3 * self.lag:
            self.tau = min(5.0 * self.tau, max(_TAU_LAST if slow else _TAU_MAX, self.tau))
        self.lag = lag
        self.adopt_dual()
        self.v = self.here.vh
        self.delta = max(_SHRINK * self.delta, min(_DELTA_LAST if slow else _DELTA_MIN, self.delta))

    def adopt_dual(self) -> None:
        """Make the slopes U the proximal point."""
        loops.move_dual(self.z, self.sub.keep, self.up, self.um, self.delta)
