"""Newton's method on a risk of margin losses, down to a proved gap.

The problem has a ridge and a norm beside the risk:

    P(w, b) = lam/2 |w|^2 + radius |w| + R(l),      l_i = phi(y_i (<x_i, w> + b))

Certificate. For allowed weights q and slopes sigma with `sum_i q_i sigma_i y_i = 0` every (w, b) has

    P >= sum_i q_i a(sigma_i) - penalty(q) - max(0, |v| - radius)^2 / (2 lam),      v = sum_i q_i sigma_i y_i x_i

by `R(l) >= q'l - penalty(q)` and `phi(m) >= a(sigma) - sigma m`. Those of a step are almost balanced; the heavier side
is scaled down until they are.

At a point the risk says how much each row counts (`losses.risks`), and what remains is a Newton step on weighted rows.
Corners of the risk and of the norm are smoothed by mu, which falls until the gap is small enough. A risk that is not
convex gives away its concave part and descends all the same, to a point where no step promises anything.

Means of the worst losses have corners that no smoothing gets around, and an interior point method of their own:

    min_theta theta_k + sum_i p_i max(0, l_i - theta_k) / tail_k  =  max_u sum_i p_i u_ik l_i / tail_k,
    0 <= u_ik <= 1,  sum_i p_i u_ik = tail_k

u says which part of row i counts among the worst ones of tail k. At a solution u is 1 above theta_k, 0 below it, and in
between on it. A barrier `mu (log u + log(1 - u))` keeps u inside, where

    l_i - theta_k = psi(u_ik),      psi(u) = mu (1 / (1 - u) - 1 / u).

Every step solves this, linearised at the present u *and* w, together with the stationarity of w: what u does adds
`(p_i / tail_k) sigma_i^2 / psi'(u_ik)` to the curvature of row i, less one column a tail for theta_k. One length for u
and w keeps u inside. It takes 10 to 40 steps on 30,000 rows, where Newton steps on w alone, with u (or a smoothed
risk) following w, get stuck in corners.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from widemargin._typing import Floats
from widemargin.linalg.cholesky import factor
from widemargin.linalg.cholesky import solve as solve_factored
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import Surrogate
from widemargin.losses.risks import Risk, Spectral, Weighed
from widemargin.solvers.base import Budget, Recorder
from widemargin.solvers.smooth.smooth_problem import SmoothResult

__all__ = ["solve"]


_ROUNDING = 1e-15
"""Relative rounding error of a value of the problem."""
_DENSE = 1500
"""Columns up to which the system of a step is factored; more are left to conjugate gradients. Coordinates of
rows in their span, as many as rows, are factored up to twice as many: no diagonal would precondition them."""


@dataclass(frozen=True)
class RiskProblem:
    """The problem of one class against the other. Points are `w`, followed by `b` where there is a bias.

    Parameters
    ----------
    rows : RowBlocks
        n rows of d features.
    y : ndarray of shape (n,)
        +1 and -1.
    share : ndarray of shape (n,)
        Weights p_i > 0 of sum 1.
    lam : float
        > 0.
    radius : float
        >= 0.
    """

    rows: RowBlocks
    y: Floats
    share: Floats
    lam: float
    radius: float
    risk: Risk
    loss: Surrogate
    fit_intercept: bool

    def of_class(self, y: Floats) -> Self:
        """The same problem for other targets."""
        return replace(self, y=y)

    @property
    def n_unknowns(self) -> int:
        """Length of a point."""
        return self.rows.n_features + int(self.fit_intercept)

    def scores(self, point: Floats) -> Floats:
        """`X w + b`, shape (n,), or what a step along `point` adds to them."""
        return self.rows.dot(point[: self.rows.n_features]) + (point[-1] if self.fit_intercept else 0.0)

    def back(self, slopes: Floats) -> Floats:
        """Gradient of a sum over rows, from its slopes along the scores."""
        image = self.rows.tdot(slopes)
        return np.append(image, slopes.sum()) if self.fit_intercept else image

    def value(self, point: Floats, scores: Floats) -> float:
        """P."""
        losses = self.loss.derivatives(self.y * scores)[0]
        return self.regulariser(point, 0.0) + self.risk.value(losses, self.share)

    def regulariser(self, point: Floats, mu: float) -> float:
        """Ridge and norm, the norm smoothed by mu."""
        return 0.5 * self.lam * self._length(point, 0.0) ** 2 + self.radius * self._length(point, mu)

    def _length(self, point: Floats, mu: float) -> float:
        w = point[: self.rows.n_features]
        return math.sqrt(float(w @ w) + mu**2)

    def _ridge(self, point: Floats, mu: float) -> float:
        """What w is multiplied by in the gradient of the regulariser."""
        return self.lam + (self.radius / self._length(point, mu) if self.radius > 0.0 else 0.0)

    def gradient(self, point: Floats, weights: Floats, sigma: Floats, mu: float) -> Floats:
        """Of the problem smoothed by mu, where rows count by these weights and their losses have the slopes -sigma."""
        # The chain rule: a row counts by its weight, its loss falls by sigma along the margin, and the margin is y
        # times the score.
        gradient, d = self.back(-weights * sigma * self.y), self.rows.n_features
        gradient[:d] += self._ridge(point, mu) * point[:d]
        return gradient

    def newton(self, point: Floats, gradient: Floats, curvature: Floats, columns: Floats, mu: float) -> Floats:
        """The Newton step.

        Parameters
        ----------
        point, gradient : ndarray of shape (n_unknowns,)
        curvature : ndarray of shape (n,)
            By row, along its score, >= 0.
        columns : ndarray of shape (n, k)
            What is taken off: `columns columns'`.
        mu : float
            That of the gradient.
        """
        d, size = self.rows.n_features, (self.n_unknowns,) * 2
        # What the risk takes off the curvature of the losses is of low rank, so it is taken off the small matrix as
        # outer products of gradients, and never as a matrix over rows.
        taken = [self.back(np.ascontiguousarray(column)) for column in columns.T]
        ridge = self._ridge(point, mu)
        if self.radius > 0.0:  # the norm is flat along w
            along = point * math.sqrt(self.radius / self._length(point, mu) ** 3)
            along[d:] = 0.0
            taken.append(along)
        taken_off = np.array(taken).reshape(-1, self.n_unknowns)
        # The bias has no ridge, and where no loss is curved it needs a little to keep the system definite.
        total = float(curvature.sum())
        tiny = 1e-12 * total + 1e-300
        if self.n_unknowns <= _DENSE or d <= self.rows.n_rows <= 2 * _DENSE:
            gram, sums = self.rows.moments(curvature)
            system = np.zeros(size, order="F")
            system[:d, :d] = gram
            if self.fit_intercept:
                system[d, :d], system[d, d] = sums, total + tiny
            system[np.arange(d), np.arange(d)] += ridge
            # The risk is convex, so what is left is positive semi-definite, and the ridge makes it definite.
            system -= taken_off.T @ taken_off
            return solve_factored(factor(system), -gradient)

        def product(direction: Floats) -> Floats:
            image = self.back(curvature * self.scores(direction)) - taken_off.T @ (taken_off @ direction)
            image[:d] += ridge * direction[:d]
            return image

        # Conjugate gradients preconditioned by the diagonal, to a thousandth: a step of Newton's method need not be
        # exact, because the line search and the next step make up for it.
        diagonal = self.rows.diagonal(curvature)[0] + ridge
        inverse = 1.0 / np.append(diagonal, total + tiny)[: self.n_unknowns]
        direction, _ = cg(
            LinearOperator(size, matvec=product, dtype=np.float64), -gradient, rtol=1e-3, maxiter=250,
            M=LinearOperator(size, matvec=lambda residual: inverse * residual, dtype=np.float64),
        )  # fmt: skip
        return np.asarray(direction)

    def left_out(self, weights: Floats) -> float:
        """Share of the rows of a class none of which counts by these weights, 0 where both count or there is no bias.

        Then there is no least value: the larger the bias is, the lower are the losses of the rows that count.
        """
        if not self.fit_intercept:
            return 0.0
        sides = (self.y == side for side in (1.0, -1.0))
        return max((float(self.share[side].sum()) for side in sides if not weights[side].any()), default=0.0)

    def lower_bound(self, weights: Floats, sigma: Floats) -> float:
        """Of the least P, by allowed weights of rows and slopes of their losses."""
        if self.fit_intercept:
            pull = {side: float((weights * sigma)[self.y == side].sum()) for side in (1.0, -1.0)}
            heavy, light = sorted(pull, key=lambda side: -pull[side])
            # Feasible slopes balance the two classes, and here one class has no weight to balance with.
            if pull[light] <= 0.0:
                return -math.inf
            # Slopes may be made smaller, since a loss has a supporting line for every slope down to 0; they may not be
            # made larger, which for the logistic loss would leave its range.
            sigma = np.where(self.y == heavy, pull[light] / pull[heavy], 1.0) * sigma
        v = self.rows.tdot(weights * sigma * self.y)
        # The minimum over w of `lam/2 |w|^2 + radius |w| - v.w`: the norm takes `radius` off the length of v, and the
        # ridge is minimised by the rest.
        beyond = max(0.0, float(np.linalg.norm(v)) - self.radius)
        bound = float(weights @ self.loss.line(sigma)) - self.risk.penalty(weights, self.share)
        return bound - beyond**2 / (2.0 * self.lam)


class RiskRecorder(Recorder[Floats]):
    """A run on such a problem: the best point and the best bound, or the last point where there is no bound."""

    def __init__(self, problem: RiskProblem, budget: Budget, tol: float) -> None:
        super().__init__("newton", budget, tol, np.copy)
        self.problem, self.n_iter = problem, 0

    def note(self, value: float, mu: float) -> None:
        """Write down a step that led to this value of the problem smoothed by mu, and tell the callbacks."""
        self.n_iter += 1
        gap = self.gap if self.problem.risk.certified else math.nan
        entry = {"iteration": self.n_iter, "gradients": self._n_gradients, "value": value, "gap": gap}
        self.history.append({name: float(item) for name, item in entry.items()} | {"seconds": self.budget.elapsed})
        self.budget.tell("newton", self.n_iter, value, gap, mu)

    def certify(self, point: Floats, scores: Floats, weights: Floats, sigma: Floats) -> bool:
        """Take in a point, and the bound that weights and slopes prove; whether the gap is closed."""
        value = self.problem.value(point, scores)
        if not self.problem.risk.certified:
            # Without convexity a lower value elsewhere is no better answer than a stationary point, so the last point
            # counts, where the steps have come to rest.
            self.primal, self.point = value, point
            return False
        self.offer(value, point)
        self.bound(self.problem.lower_bound(weights, sigma))
        return self.gap <= self.tol

    def result(self, done: bool) -> SmoothResult:
        """The solution, and why the run ended."""
        assert self.point is not None
        gap = self.gap if self.problem.risk.certified else math.nan
        return SmoothResult(
            self.point, self.primal, gap, self.budget.status(converged=done), self.n_iter, self._n_gradients,
            self.seconds, tuple(self.history),
        )  # fmt: skip

    @property
    def _n_gradients(self) -> int:
        return (self.n_iter + 1) * self.problem.rows.n_rows


@dataclass(frozen=True)
class _Look:
    """The problem smoothed by mu, at a point."""

    problem: RiskProblem
    mu: float
    point: Floats
    scores: Floats

    @cached_property
    def losses(self) -> tuple[Floats, Floats, Floats]:
        """Losses, minus their slopes, and their second derivatives."""
        return self.problem.loss.derivatives(self.problem.y * self.scores)

    @cached_property
    def weighed(self) -> Weighed:
        """The risk of the losses."""
        return self.problem.risk.weighed(self.losses[0], self.problem.share, self.mu)

    @cached_property
    def value(self) -> float:
        """Of the smoothed problem."""
        return self.weighed.value + self.problem.regulariser(self.point, self.mu)

    @cached_property
    def gradient(self) -> Floats:
        """Of the smoothed problem."""
        return self.problem.gradient(self.point, self.weighed.slopes, self.losses[1], self.mu)

    @cached_property
    def step(self) -> Floats:
        """The Newton step, or one with a matrix that is positive definite where the problem is not convex."""
        weighed, (_, sigma, bend) = self.weighed, self.losses
        # Rows that count negatively have a negative curvature, which a descent leaves out.
        curvature = np.maximum(weighed.slopes, 0.0) * bend + weighed.diagonal * sigma**2
        columns = weighed.columns * (sigma * self.problem.y)[:, None]
        return self.problem.newton(self.point, self.gradient, curvature, columns, self.mu)

    @property
    def promised(self) -> float:
        """How far the step falls where the problem is a quadratic one."""
        return -0.5 * float(self.gradient @ self.step)

    def at(self, mu: float) -> "_Look":
        """The same point, smoothed otherwise."""
        return _Look(self.problem, mu, self.point, self.scores)

    def descend(self) -> "_Look | None":
        """Go along the step by the first length that passes Armijo's rule; None where none does."""
        # The scores change linearly along the step, so one product with the rows serves every length that is tried.
        change, length = self.problem.scores(self.step), 1.0
        for _ in range(40):
            new = _Look(self.problem, self.mu, self.point + length * self.step, self.scores + length * change)
            # Armijo's rule with a small share: a Newton step falls by half of what its slope says, and a larger share
            # would refuse steps across a corner that is smoothed.
            if new.value <= self.value - 2e-4 * length * self.promised + _ROUNDING * abs(self.value):
                return new
            length *= 0.5
        return None


def solve(problem: RiskProblem, /, *, tol: float, start: Floats | None, budget: Budget, max_iter: int) -> SmoothResult:
    """Minimise to a relative gap of `tol`; where the risk has no certificate, until steps promise less than that.

    Parameters
    ----------
    start : ndarray of shape (n_unknowns,) or None
        None: the origin.

    Returns
    -------
    SmoothResult
        Its gap is NaN where the risk has no certificate. A run also ends where it leaves out a class whole.
    """
    point = np.zeros(problem.n_unknowns) if start is None else np.array(start, dtype=np.float64)
    recorder = RiskRecorder(problem, budget, tol)
    if isinstance(problem.risk, Spectral):
        return _solve_tails(recorder, point, max_iter)
    # From the origin all losses are alike, which is a corner of some risks.
    smooth = not problem.risk.has_corners and problem.radius == 0.0
    look = _Look(problem, 0.0 if smooth else 0.3 if start is None else 1e-3, point, problem.scores(point))
    before, done = np.inf, False

    def certify() -> bool:
        return recorder.certify(look.point, look.scores, look.weighed.slopes, look.losses[1])

    try:
        while recorder.n_iter < max_iter and not budget.exhausted:
            size = max(abs(look.value), 1e-300)
            last = look.mu <= 1e-2 * tol * size
            near = look.promised <= 0.1 * tol * size
            # By the ridge, the bound that this point proves falls short of the smoothed value by |gradient|^2 / (2 lam)
            # or less. With sharp corners the gradient stays large long after the value is good enough: there the steps
            # also end where one promises more than half of what the one before did, which rounding leads to.
            lacking = float(look.gradient @ look.gradient) / (2.0 * problem.lam)
            # The bias has no ridge. What it lacks is in the promise, which is else at most `lacking`.
            short = max(lacking, look.promised)
            settled = short <= 0.1 * max(tol * size, look.mu) or (near and look.promised > 0.5 * before)
            before = look.promised
            if problem.risk.certified:
                done = (near or settled) and certify()
            else:
                done = (near and last) or problem.left_out(look.weighed.slopes) > 0.0
            new = None if done or settled else look.descend()
            if done or (new is None and last):
                # Where there is no bound, a step that rounding hides is as good as none.
                done = done or not problem.risk.certified
                break
            if new is None:
                before = np.inf
                # The corners are made sharper by a factor at a time: from a solution of the smoother problem the next
                # one is a few steps away, from far off Newton's method would stop in front of a corner.
                look = look.at(0.15 * look.mu)
            else:
                look = new
                recorder.note(look.value, look.mu)
    except KeyboardInterrupt:
        budget.interrupted = True
    done = certify() or done
    return recorder.result(done)


_STAY_INSIDE = 0.95
"""Share of the way to the nearest border that a step may take."""


def _solve_tails(recorder: RiskRecorder, point: Floats, max_iter: int) -> SmoothResult:
    """Minimise the recorder's problem, whose risk is a `Spectral`, from a point down to the recorder's gap.

    Parameters
    ----------
    point : ndarray of shape (n_unknowns,)
    """
    problem, budget, risk = recorder.problem, recorder.budget, recorder.problem.risk
    assert isinstance(risk, Spectral)
    share, y = problem.share, problem.y
    # The mean over a tail of all rows is the plain mean: every row counts in full, and there is no u to find.
    inner = [(tail, weight) for tail, weight in zip(risk.tails, risk.weights, strict=True) if tail < 1.0]
    tails, weights = np.array(inner).reshape(-1, 2).T
    mean = (1.0 - float(weights.sum())) * share if len(inner) < len(risk.tails) else 0.0 * share
    parts = (weights / tails)[:, None] * share  # what a row of each tail counts where u is 1
    # At first u = tail for every row, which weighs all losses alike: inside the box, and `sum_i p_i u_i = tail`.
    u = np.repeat(tails[:, None], len(share), axis=1)
    scores, mu, least, length, idle, done = problem.scores(point), 0.0, np.inf, 1.0, 0, False

    def u_of(losses: Floats) -> Floats:
        """Where the barrier, linearised at u, puts u for other losses, with the best theta."""
        moved = u + give * (losses - barrier)
        theta = ((parts * moved).sum(axis=1) - weights) / pull.sum(axis=1)
        return np.asarray(moved - give * theta[:, None])

    try:
        while True:
            losses, sigma, bend = problem.loss.derivatives(y * scores)
            counted = mean + (parts * u).sum(axis=0)
            value, gap = recorder.primal, recorder.gap
            done = recorder.certify(point, scores, counted / counted.sum(), sigma)
            # Where ten full steps at the least mu moved neither the value nor the gap, rounding leaves the rest. One
            # alone says nothing, as steps by conjugate gradients are not exact.
            at_rest = mu == least and length == 1.0 and value - recorder.primal <= least and recorder.gap > 0.5 * gap
            idle = idle + 1 if at_rest else 0
            if done or idle >= 10 or recorder.n_iter >= max_iter or budget.exhausted:
                break
            # mu begins at a tenth of the problem's value and falls fast where the last step was (nearly) a full one. A
            # short step means that the point is far from the central path, so mu stays. Below a thousandth of the
            # tolerance a smaller mu changes nothing that counts.
            mu = mu * (0.15 if length > 0.8 else 0.4 if length > 0.4 else 1.0) or 0.1 * recorder.primal
            least = 1e-3 * recorder.tol * recorder.primal
            mu = max(mu, least)
            barrier = mu * tails[:, None] * (1.0 / (1.0 - u) - 1.0 / u)
            give = 1.0 / (mu * tails[:, None] * (1.0 / u**2 + 1.0 / (1.0 - u) ** 2))  # how far u moves with a loss
            pull = parts * give
            gradient = problem.gradient(point, mean + (parts * u_of(losses)).sum(axis=0), sigma, 0.0)
            # Eliminating u leaves the curvature `pull sigma^2` of every row. Eliminating theta, which moves with the
            # losses of its tail, takes a matrix of rank one off it for each tail.
            columns = (pull / np.sqrt(pull.sum(axis=1, keepdims=True)) * sigma * y).T
            step = problem.newton(point, gradient, counted * bend + pull.sum(axis=0) * sigma**2, columns, 0.0)
            change = problem.scores(step)
            du = u_of(losses - sigma * y * change) - u
            border = np.where(du > 0.0, 1.0 - u, u) / np.maximum(np.abs(du), 1e-300)
            length = min(1.0, _STAY_INSIDE * float(border.min(initial=np.inf)))
            # A u that rounding takes for 1 would be divided by what is left of it.
            u = np.minimum(u + length * du, 1.0 - np.finfo(float).epsneg)
            point, scores = point + length * step, scores + length * change
            recorder.note(recorder.primal, mu)
    except KeyboardInterrupt:
        budget.interrupted = True
    return recorder.result(done)
