"""Mehrotra predictor-corrector on the whole convex subproblem: a solver to compare with, and an oracle of tests.

Every hinge and every constraint is in one primal-dual system. What belongs to a hinge is eliminated row by row, so an
iteration factors one matrix of the features (and the bias), `S = lam I + [X, -1]' D [X, -1]`, and solves one system of
the constraints, `E + F' S^-1 F`. It takes 10 to 30 iterations, whatever lambda, the constraints or the accuracy.

With rows i of weight w_i, hinges h of coefficients c0_h, c_hj, and t_h = 1/2 + z_i or 1/2 - z_i, it solves

    minimise  sum_h w_h c0_h s_h + lam/2 |w|^2 + rho sum_j q_j
    s.t.      p_h = s_h - t_h >= 0,  s_h >= 0,  e_j = gamma_j + q_j - sum_h w_h c_hj s_h >= 0,  q_j >= 0

together with its dual (multipliers u of p, r of s, v of e, y of q):

    u_h + r_h = c0_h + sum_j v_j c_hj,   v_j + y_j = rho,   lam w + X' xi = 0,   xi_i = w_i (u_i+ - u_i-),   sum xi = 0.

On the central path `u p = r s = mu` and `v e = y q = theta mu`. Where rho is infinite the constraints are hard and
there is neither q nor y. A result is certified by the dual value at (u, v), not by the iteration.

Beside it clarabel 0.11 on the same programme took 13 to 17 times as long with 5,000 rows of 20 features and two
constraints, and 63 to 70 times with 100 features, at gaps of 1e-4 and 1e-8 alike: that solver factors a sparse matrix
of all hinges, this one eliminates them by hand.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from widemargin.extending import Floats
from widemargin.linalg import cholesky
from widemargin.solvers.base import Budget, CertifiedRecorder, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin_papers.solvers import barrier_loops as loops


@dataclass(frozen=True)
class InteriorOptions:
    """How the interior point walks along the central path.

    Attributes
    ----------
    cold, warm : float
        First mu from nothing and from a warm start, for a coefficient of one; halving or doubling costs 2 to 5
        iterations of 23 on a9a.
    first_multiplier : float
        Of every constraint, from nothing.
    theta : float
        Weight of a constraint's complementarity relative to that of all hinges; 1e-5 to 1e-2 make no difference.
    cap : float
        Of the second-order terms; without it they overshoot: 35 iterations on a9a instead of 22.
    step : float
        Share of the way to where a variable becomes zero.
    diverged, diverging : float
        Dual value, in units of the objective at w = 0 (at least one), that no sensible model can reach; and the same
        where the iteration cannot go on.
    stall : int
        Iterations without progress after which the iterate is taken to be too far from the central path.
    restarts : int
        How often the run begins again on the central path.
    rounding : float
        Relative gap from which on a stall is due to rounding.
    lost : float
        Growth of mu that ends a run.
    """

    cold: float = 0.3
    warm: float = 0.1
    first_multiplier: float = 0.1
    theta: float = 1e-3
    cap: float = 2.0
    step: float = 0.995
    diverged: float = 1e6
    diverging: float = 1e3
    stall: int = 8
    restarts: int = 2
    rounding: float = 1e-9
    lost: float = 1e20


def solve(
    sub: ConstrainedHinge,
    *,
    tol: float = 1e-4,
    start: ConvexState | None = None,
    rho: float = np.inf,
    max_iter: int = 100,
    options: InteriorOptions = InteriorOptions(),
    budget: Budget | None = None,
) -> ConvexResult:
    """Solve the convex subproblem, constraints included, to any accuracy down to a relative gap of about 1e-10.

    Parameters
    ----------
    sub : ConstrainedHinge
    tol : float, default=1e-4
        Relative duality gap to reach (see `solvers.base.relative_gap`).
    start : ConvexState, optional
        Warm start; only `w`, `b` and `v` are used, the rows are centred anew around them.
    rho : float, default=inf
        Penalty of a violated constraint, the upper end of its multiplier. `inf` makes the constraints hard.
    max_iter : int, default=100
        Iterations, each with one factorisation.
    options : InteriorOptions
    budget : Budget, optional
        Looked at once an iteration.

    Returns
    -------
    ConvexResult
        `history` has one entry an iteration (with the start): best primal and dual value so far, mu, seconds. With hard
        constraints the status is `infeasible` where the dual value passes 1e6 times the objective at w = 0 (at least
        1e6; 1e3 where the iteration cannot go on): no point of a smaller objective meets the constraints, and the
        multipliers that grow are those of the constraints in conflict.
    """
    budget = budget or Budget()
    run, recorder = _Run(sub, rho, start, options), CertifiedRecorder(rho, budget, tol)
    scale = max(1.0, sub.values(np.zeros(run.z.shape[0]))[0])

    def certify() -> bool:
        """Offer the bound and the point of the iterate; whether that is progress."""
        gap, dual = recorder.gap, recorder.dual
        recorder.add_dual(run.dual_value(), run.v)
        loss, excess = sub.values(run.z)
        recorder.add_point(run.w, run.b, loss + 0.5 * sub.lam * float(run.w @ run.w), excess)
        # A lower bound that climbs is progress, even where the gap waits for a better point.
        climbs = recorder.dual - dual > 1e-3 * max(recorder.primal - recorder.dual, 0.0)
        return recorder.gap < gap or climbs

    def diverged(limit: float) -> bool:
        """Whether hard constraints drove the dual value beyond a limit that no sensible model reaches."""
        return bool(np.isinf(rho)) and recorder.dual > limit * scale

    stalled, restarts = 0 if certify() else 1, 0
    while True:
        iteration = len(recorder.history)
        recorder.look(iteration, mu=run.mu)
        if recorder.gap <= tol:
            # The scores of the run are sums of many small steps: the gap must hold with scores computed afresh.
            w, b = recorder.best.w, recorder.best.b
            loss, excess = sub.values(sub.scores(w, b))
            recorder.correct(loss + 0.5 * sub.lam * float(w @ w), excess)
        if recorder.gap <= tol:
            status = Status.CONVERGED
            break
        if diverged(options.diverged):
            status = Status.INFEASIBLE
            break
        if budget.exhausted:
            status = Status.INTERRUPTED if budget.stopped else budget.status(converged=False)
            break
        status = Status.MAX_ITER
        if iteration == max_iter:
            break
        moved = run.iterate()
        stalled = options.stall if not moved else 0 if certify() else stalled + 1
        if stalled >= options.stall:
            if restarts == options.restarts or recorder.gap < options.rounding:
                status = Status.INFEASIBLE if diverged(options.diverging) else Status.MAX_ITER
                break
            # Begin again from the best point, on the central path.
            stalled, restarts, nothing = 0, restarts + 1, np.zeros(0, np.float32)
            best = ConvexState(recorder.best.w, recorder.best.b, nothing, nothing, recorder.multipliers)
            del run  # The next one takes as much memory.
            run = _Run(sub, rho, best, options)
    return recorder.result(iteration, run.state(), status=status)


class _Target(NamedTuple):
    """Right-hand side of a Newton system: of (w, b), of the constraints by slot, of `v e` and of `y q`."""

    right: Floats
    pull: Floats
    ve: Floats
    yq: Floats


class _Direction(NamedTuple):
    """Solution of a Newton system: of (w, b), v, e and q, and the change of the coefficients by slot."""

    point: Floats
    v: Floats
    e: Floats
    q: Floats
    coefficients: Floats


class _Run:
    """The iterate: primal and dual point, its hinges, and a scratch array by row."""

    def __init__(self, sub: ConstrainedHinge, rho: float, start: ConvexState | None, options: InteriorOptions) -> None:
        coef, m, k = sub.coef, sub.n_constraints, sub.coef.n_cells
        self.options = options
        self.sub, self.rho, self.elastic = sub, rho, bool(np.isfinite(rho))
        # Kept hinges of rows of positive weight whose coefficient is positive for some v.
        n, touched = sub.rows.n_rows, sub.coef.per_cell(np.ones(m))
        row, slot = np.empty((2, 2 * n), dtype=np.int32)
        count = loops.list_hinges(sub.cell, sub.weight, sub.keep, np.concatenate(touched) > 0.0, row, slot)
        self.hinges = loops.Hinges(row[:count].copy(), slot[:count].copy(), *(np.empty(count) for _ in range(6)))
        mass, value = np.zeros(2 * k), np.zeros(2 * k)
        self.hinges.s.fill(1.0)
        loops.slot_sums(self.hinges, sub.weight, mass)
        # The hinges have the weights of their rows, so a constraint's complementarity is weighed against all of them.
        self.total = float(mass.sum()) or 1.0
        self.theta = options.theta * self.total
        # Every product of the path counts in the mean that is mu: two of a hinge, two of an elastic constraint.
        self.count = 2.0 * self.total + (2.0 if self.elastic else 1.0) * m * self.theta
        first = min(options.first_multiplier, 0.5 * rho)
        if start is None:
            self.w, self.b, self.v = np.zeros(sub.rows.n_features), 0.0, np.full(m, first)
        else:
            self.w, self.b = start.w.copy(), float(start.b) if sub.fit_intercept else 0.0
            # Off the ends of its range, where the slack of a multiplier would be zero and the run could not move.
            self.v = np.clip(start.v, 0.1 * first, min(0.9 * rho, 1e8))
        self.z = sub.scores(self.w, self.b)
        sub.rows.forget()
        coefficients = np.concatenate(coef.per_cell(self.v))
        # Coefficients differ between problems, and mu has their units.
        mean = float(mass @ coefficients) / self.total
        self.mu = (options.cold if start is None else options.warm) * (mean or 1.0)
        self.first_mu = self.mu
        # On the central path every hinge follows from its score alone, so the start needs no line search.
        loops.centre(self.hinges, self.z, coefficients, self.mu)
        loops.slot_sums(self.hinges, sub.weight, value)
        slack: Floats = sub.gamma - self.by_constraint(value)
        # An infinite penalty leaves neither y nor q; ones and zeros take them out of every formula below.
        self.y = rho - self.v if self.elastic else np.ones(m)
        self.q = self.theta * self.mu / self.y if self.elastic else np.zeros(m)
        self.e = np.maximum(slack, self.theta * self.mu / self.v)
        self.dz = self.scratch = np.empty(sub.rows.n_rows)  # one array: what is in one is used up before the other

    def by_constraint(self, slots: Floats) -> Floats:
        """`sum_slot c_slot,j slots[slot]`, shape (m,)."""
        k = self.sub.coef.n_cells
        return self.sub.coef.totals(slots[:k], slots[k:], self.sub.n_constraints)[1]

    def iterate(self) -> bool:
        """One predictor-corrector step; False where the numbers end."""
        sub, hinges = self.sub, self.hinges
        try:
            # Predictor: the direction to complementarity zero tells how far the central path can be left behind.
            system = _System(self)
            step = system.solve(system.affine)
            del system.affine  # two numbers a cell, where every row may be one
        except LinAlgError:
            return False
        sums = np.zeros(5)
        loops.predictor(hinges, sub.weight, self.dz, step.coefficients, sums)
        # Corrector: the same factor with a target that the affine step shows to be within reach.
        target = self.centring(step, sums)
        corrected = self.corrected(step, target)
        del step  # two numbers a cell, where every row may be one
        # The same factor serves both directions, so the corrector is nearly free.
        step = system.solve(corrected)
        loops.furthest(hinges, self.dz, step.coefficients, sums)
        primal, dual = self.lengths(step, sums, self.options.step)
        # Where steps have no length any more, or mu grows without end, rounding decides what the factor says.
        lost = self.mu > self.options.lost * self.first_mu
        if lost or not np.isfinite(step.point).all() or max(primal, dual) < 1e-12:
            return False
        self.move(step, primal, dual)
        return True

    def lengths(self, step: _Direction, sums: Floats, share: float) -> tuple[float, float]:
        """Longest primal and dual step, at most one: `share` of the way to where a variable becomes zero."""
        primal = max(float(sums[0]), float((-step.e / self.e).max(initial=0.0)))
        dual = max(float(sums[1]), float((-step.v / self.v).max(initial=0.0)))
        if self.elastic:
            primal = max(primal, float((-step.q / self.q).max(initial=0.0)))
            dual = max(dual, float((step.v / self.y).max(initial=0.0)))
        return min(1.0, share / max(primal, 1e-300)), min(1.0, share / max(dual, 1e-300))

    def centring(self, step: _Direction, sums: Floats) -> float:
        """Mehrotra's target, `mu (mu_affine / mu)^3`, from the affine direction."""
        primal, dual = self.lengths(step, sums, 1.0)
        # Complementarity now, and after the affine step; each product is quadratic in the two step lengths.
        now = float(sums[2] + self.v @ self.e + self.y @ self.q)
        after = (1 - dual) * sums[2] + (primal * (1 - dual) - dual) * sums[3] - primal * dual * sums[4]
        after += (self.v + dual * step.v) @ (self.e + primal * step.e)
        after += (self.y - dual * step.v) @ (self.q + primal * step.q)
        return now / self.count * min(1.0, max(0.0, float(after) / now)) ** 3

    def corrected(self, step: _Direction, target: float) -> _Target:
        """Right-hand side that aims at `target` and takes back the second-order error of the affine direction."""
        sub, pull = self.sub, np.zeros(2 * self.sub.coef.n_cells)
        loops.corrector(self.hinges, sub.weight, target, self.options.cap, self.scratch, pull)
        d = self.w.shape[0]
        # What is left of the stationarity in (w, b) once the hinges are eliminated.
        right = np.empty(d + int(sub.fit_intercept))
        right[:d] = -sub.lam * self.w - sub.rows.tdot(self.scratch)
        right[d:] = self.scratch.sum()
        ve = self.theta * target - self.v * self.e - step.v * step.e
        yq = self.theta * target - self.y * self.q + step.v * step.q if self.elastic else np.zeros_like(ve)
        return _Target(right, pull, ve, yq)

    def move(self, step: _Direction, primal: float, dual: float) -> None:
        """Take the step, with separate lengths for the primal and the dual variables."""
        d = self.w.shape[0]
        total = loops.move(self.hinges, self.sub.weight, self.dz, step.coefficients, primal, dual)
        self.w = self.w + primal * step.point[:d]
        self.b += primal * float(step.point[d:].sum())
        # Scores move with the point; the certificate at the end computes them afresh.
        self.dz *= primal
        self.z += self.dz
        self.e = self.e + primal * step.e
        self.v = self.v + dual * step.v
        if self.elastic:
            self.q = self.q + primal * step.q
            self.y = self.y - dual * step.v
        self.mu = (total + float(self.v @ self.e + self.y @ self.q)) / self.count

    def dual_value(self) -> float:
        """Lower bound of the optimum at (u, v).

        The unregularised bias asks for `sum xi = 0`: the larger side is scaled down.
        """
        sub, hinges, k = self.sub, self.hinges, self.sub.coef.n_cells
        sums = np.zeros(2)
        loops.side_sums(hinges, k, sub.weight, sums)
        # Scaling a whole side keeps u between 0 and its coefficient, so the dual point stays feasible.
        shares = np.ones(2)
        if sub.fit_intercept:
            shares = sums.min() / np.maximum(sums, 1e-300)
        loops.dual_direction(hinges, k, sub.weight, shares[0], shares[1], self.scratch)
        # Minimised over w, `lam/2 |w|^2 + g . w` is `-|g|^2 / (2 lam)`. A hinge of dual variable u adds `u/2`, what
        # `u (1/2 + z)` or `u (1/2 - z)` is at z = 0.
        g = sub.rows.tdot(self.scratch)
        return float(0.5 * (shares @ sums) - (g @ g) / (2.0 * sub.lam) - self.v @ sub.gamma) + sub.constant

    def state(self) -> ConvexState:
        """Where another solver can go on."""
        up, um = np.zeros((2, self.sub.rows.n_rows), np.float32)
        loops.shares(self.hinges, self.sub.coef.n_cells, up, um)
        return ConvexState(self.w, self.b, up, um, self.v)


class _System:
    """The condensed Newton system at an iterate: `S dx + F dv = right` and `E dv - F' dx = h`, factored.

    `affine` is the right-hand side of the direction to complementarity zero.
    """

    def __init__(self, run: _Run) -> None:
        # The hinges are eliminated first.
        sub, hinges, k, m = run.sub, run.hinges, run.sub.coef.n_cells, run.sub.n_constraints
        d = sub.rows.n_features
        value, inverse, pull = np.zeros(2 * k), np.zeros(2 * k), np.zeros(2 * k)
        loops.condense(hinges, sub.weight, run.scratch, value, inverse, pull)
        # What the constraints miss, with their slacks as they are.
        self.run, self.residual = run, sub.gamma + run.q - run.by_constraint(value) - run.e
        schur = sub.coef.squares(inverse[:k], inverse[k:], m)
        del value, inverse
        columns = _columns(sub, hinges)
        # S: the curvature of all hinges in the features, bordered by the bias, which is not regularised.
        matrix = np.zeros((columns.shape[1], columns.shape[1]), order="F")
        matrix[:d, :d] = sub.rows.gram(run.scratch)
        matrix[np.arange(d), np.arange(d)] += sub.lam
        if sub.fit_intercept:
            matrix[d, :d] = -columns[1, :d]
            matrix[d, d] = -columns[1, d]
        self.factor = cholesky.factor(matrix)
        self.border = columns[2:].T
        self.solved_border = cholesky.solve(self.factor, self.border) if m else self.border
        # The constraints that are left once (w, b) is eliminated: as many unknowns as there are of them.
        schur += self.border.T @ self.solved_border
        schur[np.arange(m), np.arange(m)] += run.e / run.v + run.q / run.y
        right = -columns[0]
        right[:d] -= sub.lam * run.w
        self.schur = cholesky.factor(schur)
        self.affine = _Target(right, pull, -run.v * run.e, -run.y * run.q)

    def solve(self, target: _Target) -> _Direction:
        """The Newton direction; `run.dz` becomes its change of the scores."""
        run, sub = self.run, self.run.sub
        d = sub.rows.n_features
        h = target.ve / run.v - target.yq / run.y - self.residual + run.by_constraint(target.pull)
        free = cholesky.solve(self.factor, target.right)
        # From `S dx + F dv = right` and `E dv - F' dx = h`: the point is eliminated, which leaves
        # `(E + F' S^-1 F) dv = h + F' S^-1 right` for the multipliers.
        h += self.border.T @ free
        dv = cholesky.solve(self.schur, h) if h.size else h
        point = free - self.solved_border @ dv
        sub.rows.dot(point[:d], run.dz)
        if sub.fit_intercept:
            run.dz -= point[d]
        e, q = (target.ve - run.e * dv) / run.v, (target.yq + run.q * dv) / run.y
        return _Direction(point, dv, e, q, sub.coef.change(dv))


def _columns(sub: ConstrainedHinge, hinges: loops.Hinges) -> Floats:
    """`[X, -1]' C` for the columns of `fill_border`, transposed, shape (m + 2, d) or (m + 2, d + 1)."""
    coef, m, d = sub.coef, sub.n_constraints, sub.rows.n_features
    out, totals = np.empty((m + 2, d + int(sub.fit_intercept))), np.zeros(m + 2)

    def fill(place: slice, columns: Floats) -> None:
        # Bounds of the type of the rows, because numpy would make a copy of the rows in int64.
        low, high = map(int, np.searchsorted(hinges.row, np.array((place.start, place.stop), np.int32)))
        loops.fill_border(hinges, low, high, place.start, sub.weight, *coef.entries, columns, totals)

    out[:, :d] = sub.rows.border(fill, m + 2)
    out[:, d:] = -totals[:, None]
    return out
