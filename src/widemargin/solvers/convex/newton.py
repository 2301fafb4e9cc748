"""Semismooth Newton steps on linear rows: the default solver of a convex step. See `proximal` for the method.

The rows may be in memory, or in blocks that may be elsewhere: a step asks for sums over rows only. Kernel rows have
steps of their own (`kernel_newton`).
"""

import numpy as np

from widemargin._typing import Floats
from widemargin.distributed.blocks import BlockedRows
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, CertifiedRecorder, ConstrainedHinge, ConvexResult, ConvexState
from widemargin.solvers.convex.block_passes import BlockPasses
from widemargin.solvers.convex.kernel_newton import KernelRun
from widemargin.solvers.convex.linear_system import Curvature, FactoredSystem, IterativeSystem
from widemargin.solvers.convex.proximal import DEFAULTS, Line, NewtonOptions, ProximalRun, balance
from widemargin.solvers.convex.smoothed_hinges import NewtonRows, Width

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
        First width of the proximal term: 1 from nothing, 0.1 from a warm start, 0.3 with 200 features and more.
    iterative : bool, optional
        Solve the Newton systems by conjugate gradients instead of factoring them; by default with more than 3000
        features (1500 in blocks), or with more than 600 of which less than a seventh are stored. Kernel systems are
        factored.
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
        width = options.wide_width if broad else options.warm_width if start is not None else options.cold_width
    run: ProximalRun
    if isinstance(sub.rows, GramRows):
        run = KernelRun(sub, rho, start, width, options)
    else:
        run = LinearRun(sub, rho, start, width, options, iterative=iterative)
    budget = budget or Budget()
    recorder = CertifiedRecorder(rho, budget, tol)
    # Outer iterations until the gap is closed, or steps or time run out.
    for _ in range(options.most_outer):
        before = recorder.gap
        # The proximal problem need not be solved better than the gap of the whole that is still open.
        run.minimise(recorder.primal - recorder.dual, max_iter, budget)
        run.certify(recorder)
        if recorder.look(run.steps, newton=run.steps) or budget.exhausted or run.steps >= max_iter:
            break
        run.advance(slow=recorder.gap > 0.5 * before)
    state = ConvexState(run.w, run.b, *run.hinges.shares(run.delta), run.here.vh)
    return recorder.result(run.steps, state)


def is_wide(rows: RowBlocks | BlockedRows, options: NewtonOptions = DEFAULTS) -> bool:
    """Whether factors of d x d matrices cost more than conjugate gradients, by features and thinness."""
    d = rows.n_features
    thin = rows.n_stored < options.thin * rows.n_rows * d
    most = options.iterate_blocks_from if isinstance(rows, BlockedRows) else options.iterate_from
    return d > most or (d > options.iterate_thin_from and thin)


class LinearRun(ProximalRun):
    """The iterate (w, b) on linear rows; what is as long as the rows is left to `rows`.

    Parameters
    ----------
    sub, rho, start, width, options
        As in `ProximalRun`.
    iterative : bool, optional
        See `solve`.
    """

    slopes: Floats
    """What `NewtonRows.slopes` gave last: both sides, then the constraints strictly inside their range, a row each."""
    hinges: NewtonRows | BlockPasses

    def __init__(
        self, sub: ConstrainedHinge, rho: float, start: ConvexState | None, width: float, options: NewtonOptions, *,
        iterative: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(sub, rho, start, width, options)
        self.reach = 0.0
        self.iterative = is_wide(sub.rows, options) if iterative is None else iterative
        self._direction, self._change = np.zeros(0), 0.0
        self._gradient = np.zeros(0)
        self._system: FactoredSystem | IterativeSystem | None = None
        system = options.system
        if isinstance(sub.rows, BlockedRows):
            self.hinges = BlockPasses(sub, self.w, self.b, system, warm=start is not None, iterative=self.iterative)
            return
        n = sub.rows.n_rows
        # Shares steer the proximal steps, so they are kept in double precision while they move.
        shares = np.zeros((2, n)) if start is None else np.array([start.up, start.um], dtype=np.float64)
        # The rows remember their last product, and the scores are changed in place from here on.
        scores = sub.scores(self.w, self.b)
        sub.rows.forget()
        self.hinges = NewtonRows(sub, scores, shares[0], shares[1], system, iterative=self.iterative)

    def begin(self, gap: float) -> None:
        """See `ProximalRun`. Where the gap is fine the rounding of many small changes begins to count."""
        self._system = None
        self._differentiate(0.0, first=True, afresh=gap < self.options.fine_gap)

    def _differentiate(self, step: float, *, first: bool = False, afresh: bool = False) -> None:
        """Go a step along the direction; first derivatives there."""
        vh, d = self.here.vh, self.w.shape[0]
        # A constraint whose multiplier sits at 0 or rho has no curvature: its wall is not touched.
        active = ((vh > 0.0) & (vh < self.rho)).nonzero()[0]
        near = 0.0 if first else self.options.ahead * self.reach / self.delta
        self.slopes = self.hinges.slopes(step, vh, active, Width(self.delta, near, first, afresh))
        gradient = self.slopes[0] - self.slopes[1]
        gradient[:d] += self.sub.lam * self.w
        gradient[d] *= -1.0  # scores are X w - b
        self._gradient = gradient if self.sub.fit_intercept else gradient[:d]

    def remaining(self) -> tuple[float, float]:
        """See `ProximalRun`; the last step's system will do, because only the order of magnitude counts."""
        if self._system is None:
            return np.inf, np.inf
        d = self.w.shape[0]
        g = self._gradient[:d]
        if self.sub.fit_intercept:  # The dual point's sides are made to sum to the same (see `certify`).
            g = g + self._gradient[d] * self.hinges.centre
        return 0.5 * self._system.estimate(self._gradient), float(g @ g) / (2.0 * self.sub.lam)

    def newton(self) -> Line:
        """See `ProximalRun`."""
        sub, d, options = self.sub, self.w.shape[0], self.options.system
        centre = self.hinges.centre if sub.fit_intercept else None
        # Where no row is in the band nothing bends along the bias, and the system would be singular.
        floor = 1e-12 / self.delta  # a curvature in b that counts as rounding
        # The gradient of the active constraints adds tau times their outer products to the Hessian.
        curvature = Curvature(sub.lam, self.slopes[2:, :d], self.slopes[2:, d], self.tau, floor, centre)
        if self.iterative:
            self._system = IterativeSystem(curvature, self.hinges.band(), options)
        else:
            self._system = FactoredSystem(curvature, self.hinges, options)
        self._direction = -self._system.solve(self._gradient)
        dw, db = self._direction[:d], float(self._direction[d:].sum())
        # The change of the scores tells which rows are near enough to the band to enter it in the next step.
        self._change = self.hinges.move(dw, db, self.delta)
        initial = float(self._gradient @ self._direction)
        return Line(initial, sub.lam * float(self.w @ dw), sub.lam * float(dw @ dw))

    def go(self, step: float) -> None:
        """See `ProximalRun`."""
        d = self.w.shape[0]
        self.w = self.w + step * self._direction[:d]
        self.b += step * float(self._direction[d:].sum())
        self.reach = step * float(np.sqrt(self._change / max(self.sub.rows.n_rows, 1)))
        self._differentiate(step)

    def certify(self, recorder: CertifiedRecorder) -> None:
        """See `ProximalRun`."""
        sub, d = self.sub, self.w.shape[0]
        rise, fall = float(self.slopes[0, d]), float(self.slopes[1, d])
        up, down = balance(rise, fall) if sub.fit_intercept else (1.0, 1.0)
        # The dual point's w is -q / lam, so its norm is the regulariser's part of the dual value.
        q = up * self.slopes[0, :d] - down * self.slopes[1, :d]
        vh, norm = self.here.vh, float(q @ q) / (2.0 * sub.lam)
        recorder.add_dual(0.5 * (up * rise + down * fall) - norm - float(vh @ sub.gamma) + sub.constant, vh)
        loss, excess = self.hinges.settle(self.w, self.b)
        recorder.add_point(self.w, self.b, loss + 0.5 * sub.lam * float(self.w @ self.w), excess)
