"""Newton's method on a risk of margin losses, down to a proved gap.

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

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from widemargin._typing import Floats
from widemargin.losses.risks import Spectral, Weighed
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth.risk_problem import RiskProblem, RiskRecorder
from widemargin.solvers.smooth.smooth_problem import SmoothResult

__all__ = ["solve"]

_ROUNDING = 1e-15
"""Relative rounding error of a value of the problem."""


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
