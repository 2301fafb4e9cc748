"""Semismooth Newton steps on linear rows: the default solver of a convex step. See `proximal` for the method.

The rows may be in memory, or in blocks that may be elsewhere: a step asks for sums over rows only. Kernel rows have
steps of their own (`kernel_newton`).
"""

from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.distributed.blocks import BlockedRows
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState
from widemargin.solvers.convex.block_passes import BlockPasses
from widemargin.solvers.convex.certificate import CertifiedRecorder
from widemargin.solvers.convex.kernel_newton import KernelRun
from widemargin.solvers.convex.linear_system import Curvature, FactoredSystem, IterativeSystem, NewtonSystem
from widemargin.solvers.convex.proximal import DEFAULTS, Line, NewtonOptions, ProximalRun, balance, run_to_the_end
from widemargin.solvers.convex.row_passes import NewtonRows, Width

__all__ = ["LinearRun", "is_wide", "solve"]


def solve(
    sub: ConstrainedHinge,
    *,
    tol: float = 1e-4,
    start: ConvexState | None = None,
    rho: float = 1.0,
    max_iter: int = 300,
    delta: float | None = None,
    iterative: bool | None = None,
    options: NewtonOptions = DEFAULTS,
    budget: Budget | None = None,
) -> ConvexResult:
    """Solve the convex subproblem, with a penalty `rho` on every constraint.

    Parameters
    ----------
    sub : ConstrainedHinge
        On rows of features, in memory or in blocks, or on a `GramRows` whose matrix is in memory.
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
        features, or with more than 600 of which less than a seventh are stored. Kernel systems are factored.
    options : NewtonOptions
    budget : Budget, optional

    Returns
    -------
    ConvexResult
        `n_iter` counts Newton steps; `history` has one entry an outer iteration. Infeasible constraints show by their
        multipliers: they end at `rho`, and with `rho=inf` they grow until the steps run out. For kernel rows `w` holds
        the coefficients c of the rows, shape (n,).

    Raises
    ------
    CapabilityError
        If the kernel matrix is not in memory.
    KernelError
        If the kernel is not positive semi-definite.
    """
    width = delta
    if width is None:
        broad = sub.rows.n_features >= options.broad and not isinstance(sub.rows, GramRows)
        width = options.warm_width if start is not None else options.wide_width if broad else options.cold_width
    run: ProximalRun
    if isinstance(sub.rows, GramRows):
        run = KernelRun(sub, rho, start, width, options)
    else:
        run = LinearRun(sub, rho, start, width, options, iterative=iterative)
    return run_to_the_end(run, tol, max_iter, budget or Budget())


def is_wide(rows: RowBlocks | BlockedRows, options: NewtonOptions = DEFAULTS) -> bool:
    """Whether factors of d x d matrices cost more than conjugate gradients, by features and thinness."""
    d = rows.n_features
    thin = rows.n_stored < options.thin * rows.n_rows * d
    return d > options.iterate_from or (d > options.iterate_thin_from and thin)


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


class LinearRun(ProximalRun):
    """The iterate (w, b) on linear rows; what is as long as the rows is left to `rows`.

    Parameters
    ----------
    sub, rho, start, width, options
        As in `ProximalRun`.
    iterative : bool, optional
        See `solve`.
    """

    slopes: _Slopes
    rows: NewtonRows | BlockPasses

    def __init__(
        self, sub: ConstrainedHinge, rho: float, start: ConvexState | None, width: float, options: NewtonOptions, *,
        iterative: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(sub, rho, start, width, options)
        self.w = np.zeros(sub.rows.n_features) if start is None else start.w.copy()
        self.b = 0.0 if start is None else start.b
        self.single, self.reach = False, 0.0
        self.iterative = is_wide(sub.rows, options) if iterative is None else iterative
        self._direction, self._change = np.zeros(0), 0.0
        self._gradient = np.zeros(0)
        self._system: NewtonSystem | None = None
        system = options.system
        if isinstance(sub.rows, BlockedRows):
            self.rows = BlockPasses(sub, self.w, self.b, system, warm=start is not None, iterative=self.iterative)
            return
        n = sub.rows.n_rows
        shares = np.zeros((2, n)) if start is None else np.array([start.up, start.um], dtype=np.float64)
        # The scores are changed in place from here on, so nobody else may remember them.
        scores = sub.scores(self.w, self.b)
        sub.rows.forget()
        self.rows = NewtonRows(sub, scores, shares[0], shares[1], system, iterative=self.iterative)

    def smooth(self, step: float) -> Floats:
        """See `ProximalRun`."""
        return self.rows.smooth(step, self.delta)

    def begin(self, gap: float) -> None:
        """See `ProximalRun`. Where the gap is fine the rounding of many small changes begins to count."""
        fine = gap < self.options.fine_gap
        self.single, self._system = not fine, None
        self._differentiate(0.0, first=True, afresh=fine)

    def _differentiate(self, step: float, *, first: bool = False, afresh: bool = False) -> None:
        """Go a step along the direction; first derivatives there."""
        vh, d = self.here.vh, self.w.shape[0]
        # A constraint whose multiplier sits at 0 or rho has no curvature: its wall is not touched.
        active = np.flatnonzero((vh > 0.0) & (vh < self.rho))
        near = 0.0 if first else self.options.ahead * self.reach / self.delta
        sums = self.rows.slopes(step, vh, active, Width(self.delta, near, first, afresh))
        rise, fall, *_ = sums
        self.slopes = _Slopes(rise[:d], fall[:d], float(rise[d]), float(fall[d]), sums[2:, :d], sums[2:, d])
        gradient = self.slopes.rise - self.slopes.fall + self.sub.lam * self.w
        if self.sub.fit_intercept:
            gradient = np.append(gradient, self.slopes.fall_total - self.slopes.rise_total)
        self._gradient = gradient

    def remaining(self) -> tuple[float, float]:
        """See `ProximalRun`; the last step's system will do, because only the order of magnitude counts."""
        if self._system is None:
            return np.inf, np.inf
        d = self.w.shape[0]
        g = self._gradient[:d]
        if self.sub.fit_intercept:  # The dual point's sides are made to sum to the same (see `certify`).
            g = g + self._gradient[d] * self.rows.centre
        return 0.5 * self._system.estimate(self._gradient), float(g @ g) / (2.0 * self.sub.lam)

    def newton(self) -> Line:
        """See `ProximalRun`."""
        sub, slopes, d, options = self.sub, self.slopes, self.w.shape[0], self.options.system
        centre = self.rows.centre if sub.fit_intercept else None
        floor = 1e-12 / self.delta  # a curvature in b that counts as rounding
        # The gradient of the active constraints adds tau times their outer products to the Hessian.
        curvature = Curvature(sub.lam, slopes.border, slopes.border_totals, self.tau, floor, centre)
        if self.iterative:
            self._system = IterativeSystem(curvature, self.rows.band(), options)
        else:
            self._system = FactoredSystem(curvature, self.rows, options)
        self._direction = -self._system.solve(self._gradient)
        dw, db = self._direction[:d], float(self._direction[d:].sum())
        # How far the scores go decides which rows are counted as near to the band in the next step.
        self._change = self.rows.move(dw, db, self.delta, single=self.single)
        initial = float(self._gradient @ self._direction)
        return Line(initial, sub.lam * float(self.w @ dw), sub.lam * float(dw @ dw))

    def go(self, step: float) -> None:
        """See `ProximalRun`."""
        d = self.w.shape[0]
        self.w = self.w + step * self._direction[:d]
        self.b += step * float(self._direction[d:].sum())
        self.reach = step * float(np.sqrt(self._change / max(self.sub.rows.n_rows, 1)))
        self._differentiate(step)

    def extent(self) -> tuple[float, float]:
        """See `ProximalRun`."""
        return self.rows.extent()

    def certify(self, recorder: CertifiedRecorder) -> None:
        """See `ProximalRun`."""
        sub, slopes = self.sub, self.slopes
        rise, fall = slopes.rise_total, slopes.fall_total
        up, down = balance(rise, fall) if sub.fit_intercept else (1.0, 1.0)
        # The dual point's w is -q / lam, so its norm is the regulariser's part of the dual value.
        q = up * slopes.rise - down * slopes.fall
        vh, norm = self.here.vh, float(q @ q) / (2.0 * sub.lam)
        recorder.add_dual(0.5 * (up * rise + down * fall) - norm - float(vh @ sub.gamma) + sub.constant, vh)
        loss, excess = self.rows.settle(self.w, self.b, single=self.single)
        recorder.add_point(self.w, self.b, loss + 0.5 * sub.lam * float(self.w @ self.w), excess)

    def adopt(self) -> None:
        """See `ProximalRun`."""
        self.rows.adopt(self.delta)

    def rescale(self, factor: float) -> None:
        """See `ProximalRun`."""
        self.rows.rescale(factor)

    def state(self) -> ConvexState:
        """See `ProximalRun`."""
        return ConvexState(self.w, self.b, *self.rows.shares(self.delta), self.here.vh)
