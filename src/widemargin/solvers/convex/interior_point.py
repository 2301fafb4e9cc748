"""Mehrotra predictor-corrector on the whole convex subproblem: fallback of the default solver, and oracle of its tests.

Every hinge and every constraint is in one primal-dual system. What belongs to a hinge is eliminated row by row, so an
iteration factors one matrix of the features (and the bias), `S = lam I + [X, -1]' D [X, -1]`, and solves one system of
the constraints, `E + F' S^-1 F`. It takes 10 to 30 iterations, whatever lambda, the constraints or the accuracy.

With rows i of weight w_i, hinges h of coefficients c0_h, c_hj, and t_h = 1/2 + z_i or 1/2 - z_i, it solves

    minimise  sum_h w_h c0_h s_h + lam/2 |w|^2 + rho sum_j q_j
    s.t.      p_h = s_h - t_h >= 0,  s_h >= 0,  e_j = gamma_j + q_j - sum_h w_h c_hj s_h >= 0,  q_j >= 0

together with its dual (multipliers u of p, r of s, v of e, y of q):

    u_h + r_h = c0_h + sum_j v_j c_hj,   v_j + y_j = rho,   lam w + X' xi = 0,   xi_i = w_i (u_i+ - u_i-),   sum xi = 0.

On the central path `u p = r s = mu` and `v e = y q = theta mu`. Where rho is infinite the constraints are hard and
there is neither q nor y. A result is certified by the dual value of spec 1, section 4b at (u, v), not by the iteration.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError

from widemargin._typing import Floats, Reals
from widemargin.linalg import cholesky
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.convex import interior_point_loops as loops
from widemargin.solvers.convex.certificate import Bracket

__all__ = ["solve"]

_COLD, _WARM = 0.3, 0.1  # first mu, for a coefficient of one; halving or doubling costs 2-5 iterations of 23 on a9a
_FIRST_MULTIPLIER = 0.1
_THETA = 1e-3  # weight of a constraint's complementarity relative to all hinges'; 1e-5 to 1e-2 make no difference
_CAP = 2.0  # of the second-order terms; without it they overshoot: 35 iterations on a9a instead of 22
_STEP = 0.995
_DIVERGED = 1e6  # dual value, in units of the objective at w = 0 (at least one), that no sensible model can reach
_DIVERGING = 1e3  # the same where the iteration cannot go on
_STALL = 8  # iterations without progress after which the iterate is taken to be too far from the central path
_RESTARTS = 2
_ROUNDING = 1e-9  # relative gap from which on a stall is due to rounding
_LOST = 1e20  # growth of mu that ends a run
_TINY = 1e-300


def solve(
    sub: ConstrainedHinge,
    *,
    tol: float = 1e-4,
    start: ConvexState | None = None,
    rho: float = np.inf,
    max_iter: int = 100,
    budget: Budget | None = None,
) -> ConvexResult:
    """Solve the convex subproblem, constraints included, to any accuracy down to a relative gap of about 1e-10.

    Parameters
    ----------
    sub : ConstrainedHinge
    tol : float, default=1e-4
        Relative duality gap to reach (see `certificate.relative_gap`).
    start : ConvexState, optional
        Warm start; only `w`, `b` and `v` are used, the rows are centred anew around them.
    rho : float, default=inf
        Penalty of a violated constraint, the upper end of its multiplier. `inf` makes the constraints hard.
    max_iter : int, default=100
        Iterations, each with one factorisation.
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
    began = budget.elapsed
    run = _Run(sub, rho, start)
    watch = _Watch(run)
    best = watch.best
    history: list[dict[str, float]] = []
    restarts = 0
    while True:
        history.append({"primal": best.primal, "dual": best.dual, "mu": run.mu, "seconds": budget.elapsed - began})
        status = watch.verdict(tol, budget)
        if status is not None or len(history) > max_iter:
            break
        if run.iterate():
            watch.look(run)
        else:
            watch.stalled = _STALL
        if watch.stalled >= _STALL:
            if restarts == _RESTARTS or best.gap < _ROUNDING:
                status = Status.INFEASIBLE if watch.diverged(_DIVERGING) else None
                break
            restarts += 1
            del run  # before the next one takes as much memory
            run = watch.recentred()
    return ConvexResult(
        w=best.w,
        b=best.b,
        multipliers=best.v,
        primal=best.primal,
        dual=best.dual,
        gap=best.gap,
        violation=best.excess,
        status=status or Status.MAX_ITER,
        n_iter=len(history) - 1,
        n_epochs=0,
        seconds=budget.elapsed - began,
        state=run.state(),
        history=tuple(history),
    )


class _Hinges(NamedTuple):
    """The hinges that count, by row: where they belong, the four variables of each, and what the corrector keeps."""

    row: npt.NDArray[np.int32]
    slot: npt.NDArray[np.int32]
    s: Floats
    p: Floats
    u: Floats
    r: Floats
    first: Floats
    second: Floats

    @property
    def place(self) -> tuple[Any, Any]:
        return self.row, self.slot

    @property
    def pairs(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.s, self.p, self.u, self.r

    @classmethod
    def of(cls, sub: ConstrainedHinge) -> "_Hinges":
        """Kept hinges of rows of positive weight whose coefficient is positive for some v."""
        n = sub.rows.n_rows
        touched = sub.coef.per_cell(np.ones(sub.n_constraints))
        row, slot = np.empty(2 * n, dtype=np.int32), np.empty(2 * n, dtype=np.int32)
        count = loops.list_hinges(sub.cell, sub.weight, sub.keep, np.concatenate(touched) > 0.0, row, slot)
        return cls(row[:count].copy(), slot[:count].copy(), *(np.empty(count) for _ in range(6)))


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

    def __init__(self, sub: ConstrainedHinge, rho: float, start: ConvexState | None) -> None:
        coef, m, k = sub.coef, sub.n_constraints, sub.coef.n_cells
        self.sub, self.rho, self.elastic = sub, rho, bool(np.isfinite(rho))
        self.hinges = _Hinges.of(sub)
        mass, value = np.zeros(2 * k), np.zeros(2 * k)
        self.hinges.s.fill(1.0)
        loops.slot_sums(*self.hinges.place, sub.weight, self.hinges.s, mass)
        self.total = float(mass.sum()) or 1.0
        self.theta = _THETA * self.total
        self.count = 2.0 * self.total + (2.0 if self.elastic else 1.0) * m * self.theta
        first = min(_FIRST_MULTIPLIER, 0.5 * rho)
        if start is None:
            self.w, self.b, self.v = np.zeros(sub.rows.n_features), 0.0, np.full(m, first)
        else:
            self.w, self.b = start.w.copy(), float(start.b) if sub.fit_intercept else 0.0
            self.v = np.clip(start.v, 0.1 * first, min(0.9 * rho, 1e8))
        self.z = sub.scores(self.w, self.b)
        sub.rows.forget()
        coefficients = np.concatenate(coef.per_cell(self.v))
        mean = float(mass @ coefficients) / self.total
        self.mu = (_COLD if start is None else _WARM) * (mean or 1.0)
        self.first_mu = self.mu
        loops.centre(*self.hinges.place, self.z, coefficients, self.mu, *self.hinges.pairs)
        loops.slot_sums(*self.hinges.place, sub.weight, self.hinges.s, value)
        slack: Floats = sub.gamma - self.by_constraint(value)
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
            system, affine = _System.condense(self)
            step = system.solve(affine)
            del affine
        except LinAlgError:
            return False
        sums = np.zeros(5)
        loops.predictor(
            *hinges.place, sub.weight, self.dz, step.coefficients, *hinges.pairs, hinges.first, hinges.second, sums
        )
        target = self.centring(step, sums)
        corrected = self.corrected(step, target)
        del step  # two numbers a cell, where every row may be one
        step = system.solve(corrected)
        loops.furthest(*hinges.place, self.dz, step.coefficients, *hinges.pairs, hinges.first, hinges.second, sums)
        primal, dual = self.lengths(step, sums, _STEP)
        if not np.isfinite(step.point).all() or max(primal, dual) < 1e-12 or self.mu > _LOST * self.first_mu:
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
        return min(1.0, share / max(primal, _TINY)), min(1.0, share / max(dual, _TINY))

    def centring(self, step: _Direction, sums: Floats) -> float:
        """Mehrotra's target, `mu (mu_affine / mu)^3`, from the affine direction."""
        primal, dual = self.lengths(step, sums, 1.0)
        now = float(sums[2] + self.v @ self.e + self.y @ self.q)
        after = (1 - dual) * sums[2] + (primal * (1 - dual) - dual) * sums[3] - primal * dual * sums[4]
        after += (self.v + dual * step.v) @ (self.e + primal * step.e)
        after += (self.y - dual * step.v) @ (self.q + primal * step.q)
        return now / self.count * min(1.0, max(0.0, float(after) / now)) ** 3

    def corrected(self, step: _Direction, target: float) -> _Target:
        """Right-hand side that aims at `target` and takes back the second-order error of the affine direction."""
        sub, hinges = self.sub, self.hinges
        pull = np.zeros(2 * sub.coef.n_cells)
        loops.corrector(
            *hinges.place, sub.weight, target, _CAP, *hinges.pairs, hinges.first, hinges.second, self.scratch, pull
        )
        d = self.w.shape[0]
        right = np.empty(d + int(sub.fit_intercept))
        right[:d] = -sub.lam * self.w - sub.rows.tdot(self.scratch)
        right[d:] = self.scratch.sum()
        ve = self.theta * target - self.v * self.e - step.v * step.e
        yq = self.theta * target - self.y * self.q + step.v * step.q if self.elastic else np.zeros_like(ve)
        return _Target(right, pull, ve, yq)

    def move(self, step: _Direction, primal: float, dual: float) -> None:
        """Take the step, with separate lengths for the primal and the dual variables."""
        hinges, d = self.hinges, self.w.shape[0]
        total = loops.move(
            *hinges.place, self.sub.weight, self.dz, step.coefficients, primal, dual, *hinges.pairs, hinges.first,
            hinges.second,
        )  # fmt: skip
        self.w = self.w + primal * step.point[:d]
        self.b += primal * float(step.point[d:].sum())
        self.dz *= primal
        self.z += self.dz
        self.e = self.e + primal * step.e
        self.v = self.v + dual * step.v
        if self.elastic:
            self.q = self.q + primal * step.q
            self.y = self.y - dual * step.v
        self.mu = (total + float(self.v @ self.e + self.y @ self.q)) / self.count

    def dual_value(self) -> float:
        """Lower bound of the optimum at (u, v): spec 1, section 4b.

        The unregularised bias asks for `sum xi = 0`: the larger side is scaled down.
        """
        sub, hinges, k = self.sub, self.hinges, self.sub.coef.n_cells
        sums = np.zeros(2)
        loops.side_sums(*hinges.place, k, sub.weight, hinges.u, sums)
        shares = np.ones(2)
        if sub.fit_intercept:
            shares = sums.min() / np.maximum(sums, _TINY)
        loops.dual_direction(*hinges.place, k, sub.weight, hinges.u, shares[0], shares[1], self.scratch)
        g = sub.rows.tdot(self.scratch)
        return float(0.5 * (shares @ sums) - (g @ g) / (2.0 * sub.lam) - self.v @ sub.gamma) + sub.constant

    def state(self) -> ConvexState:
        """Where another solver can go on."""
        n, hinges = self.sub.rows.n_rows, self.hinges
        up, um = np.zeros(n, np.float32), np.zeros(n, np.float32)
        loops.shares(*hinges.place, self.sub.coef.n_cells, hinges.u, hinges.r, up, um)
        return ConvexState(self.w, self.b, up, um, self.v)


@dataclass(frozen=True)
class _System:
    """The condensed Newton system at an iterate: `S dx + F dv = right` and `E dv - F' dx = h`, factored."""

    run: _Run
    factor: Reals
    border: Floats
    solved_border: Floats
    schur: Reals
    residual: Floats

    @classmethod
    def condense(cls, run: _Run) -> tuple["_System", _Target]:
        """Eliminate the hinges, and factor; also the right-hand side of the affine direction."""
        sub, hinges, k, m = run.sub, run.hinges, run.sub.coef.n_cells, run.sub.n_constraints
        d = sub.rows.n_features
        value, inverse, pull = np.zeros(2 * k), np.zeros(2 * k), np.zeros(2 * k)
        loops.condense(*hinges.place, sub.weight, *hinges.pairs, run.scratch, value, inverse, pull)
        residual = sub.gamma + run.q - run.by_constraint(value) - run.e
        schur = sub.coef.squares(inverse[:k], inverse[k:], m)
        del value, inverse
        columns = _columns(sub, hinges)
        matrix = np.zeros((columns.shape[1], columns.shape[1]), order="F")
        matrix[:d, :d] = sub.rows.gram(run.scratch)
        matrix[np.arange(d), np.arange(d)] += sub.lam
        if sub.fit_intercept:
            matrix[d, :d] = -columns[1, :d]
            matrix[d, d] = -columns[1, d]
        factor = cholesky.factor(matrix)
        border = columns[2:].T
        solved = cholesky.solve(factor, border) if m else border
        schur += border.T @ solved
        schur[np.arange(m), np.arange(m)] += run.e / run.v + run.q / run.y
        right = -columns[0]
        right[:d] -= sub.lam * run.w
        affine = _Target(right, pull, -run.v * run.e, -run.y * run.q)
        return cls(run, factor, border, solved, cholesky.factor(schur), residual), affine

    def solve(self, target: _Target) -> _Direction:
        """The Newton direction; `run.dz` becomes its change of the scores."""
        run, sub = self.run, self.run.sub
        d = sub.rows.n_features
        h = target.ve / run.v - target.yq / run.y - self.residual + run.by_constraint(target.pull)
        free = cholesky.solve(self.factor, target.right)
        h += self.border.T @ free
        dv = cholesky.solve(self.schur, h) if h.size else h
        point = free - self.solved_border @ dv
        sub.rows.dot(point[:d], run.dz)
        if sub.fit_intercept:
            run.dz -= point[d]
        return _Direction(
            point,
            dv,
            (target.ve - run.e * dv) / run.v,
            (target.yq + run.q * dv) / run.y,
            sub.coef.change(dv),
        )


class _Watch:
    """Keeps what is best, and sees whether the run gets on."""

    def __init__(self, run: _Run) -> None:
        self.sub = run.sub
        self.best = Bracket(run.rho)
        self.scale = max(1.0, run.sub.values(np.zeros(run.z.shape[0]))[0])
        self.stalled = 0
        self.look(run)

    def look(self, run: _Run) -> None:
        """Certify the iterate, and count the iterations without progress."""
        best, gap, dual = self.best, self.best.gap, self.best.dual
        best.add_dual(run.dual_value(), run.v)
        best.add_point(run.w, run.b, *self.values(run.w, run.z))
        moving = best.gap < gap or best.dual - dual > 1e-3 * max(best.primal - best.dual, 0.0)
        self.stalled = 0 if moving else self.stalled + 1

    def values(self, w: Floats, z: Floats) -> tuple[float, Floats]:
        """Objective with the regulariser, and excess of the constraints."""
        loss, excess = self.sub.values(z)
        return loss + 0.5 * self.sub.lam * float(w @ w), excess

    def verdict(self, tol: float, budget: Budget) -> Status | None:
        """Why to stop now, or None."""
        if self.best.gap <= tol and self.confirmed(tol):
            return Status.CONVERGED
        if self.diverged(_DIVERGED):
            return Status.INFEASIBLE
        if budget.exhausted:
            return Status.INTERRUPTED if budget.stopped or budget.interrupted else Status.TIME_LIMIT
        return None

    def confirmed(self, tol: float) -> bool:
        """Whether the gap holds with scores computed afresh: the run's are sums of many small steps."""
        best = self.best
        best.objective, best.excess = self.values(best.w, self.sub.scores(best.w, best.b))
        return best.gap <= tol

    def diverged(self, limit: float) -> bool:
        """Whether hard constraints drove the dual value beyond `limit`."""
        return bool(np.isinf(self.best.rho)) and self.best.dual > limit * self.scale

    def recentred(self) -> _Run:
        """A new run from the best point, on the central path."""
        self.stalled = 0
        best, nothing = self.best, np.zeros(0, np.float32)
        return _Run(self.sub, best.rho, ConvexState(best.w, best.b, nothing, nothing, best.v))


def _columns(sub: ConstrainedHinge, hinges: _Hinges) -> Floats:
    """`[X, -1]' C` for the columns of `fill_border`, transposed, shape (m + 2, d) or (m + 2, d + 1)."""
    coef, m, d = sub.coef, sub.n_constraints, sub.rows.n_features
    out, totals = np.empty((m + 2, d + int(sub.fit_intercept))), np.zeros(m + 2)

    def fill(place: slice, columns: Floats) -> None:
        low, high = np.searchsorted(hinges.row, np.array((place.start, place.stop), np.int32))  # else a copy in int64
        loops.fill_border(
            *hinges.place, low, high, place.start, sub.weight, *hinges.pairs, *coef.entries, columns, totals,
        )  # fmt: skip

    out[:, :d] = sub.rows.border(fill, m + 2)
    out[:, d:] = -totals[:, None]
    return out
