"""Newton's method on a risk of margin losses with a ridge and a norm, down to a proved gap.

    P(w, b) = lam/2 |w|^2 + radius |w| + R(l),      l_i = phi(y_i (<x_i, w> + b))

At a point the risk says how much each row counts (`losses.risks`), and what remains is a Newton step on weighted rows.
Corners of the risk, the loss and the norm are smoothed by mu, which falls until the gap is small enough.

Certificate. For allowed weights q and slopes sigma with `sum_i q_i sigma_i y_i = 0` every (w, b) has

    P >= sum_i q_i a(sigma_i) - penalty(q) - max(0, |v| - radius)^2 / (2 lam),      v = sum_i q_i sigma_i y_i x_i

by `R(l) >= q'l - penalty(q)` and `phi(m) >= a(sigma) - sigma m`. Those of the last step are almost balanced; the heavier
side is scaled down until they are.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from widemargin._typing import Floats
from widemargin.linalg.cholesky import factor
from widemargin.linalg.cholesky import solve as solve_factored
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.risks import Risk, Weighed
from widemargin.losses.surrogates import Surrogate
from widemargin.solvers.base import Budget, Recorder
from widemargin.solvers.smooth.smooth_problem import SmoothResult

__all__ = ["RiskProblem", "solve"]

_DENSE = 1500
"""Columns up to which the system of a step is factored; more are left to conjugate gradients."""


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
    lam, radius : float
        >= 0.
    risk : Risk
    loss : Surrogate
    fit_intercept : bool
    """

    rows: RowBlocks
    y: Floats
    share: Floats
    lam: float
    radius: float
    risk: Risk
    loss: Surrogate
    fit_intercept: bool

    def of_class(self, y: Floats) -> "RiskProblem":
        """The same problem for other targets."""
        return replace(self, y=y)

    @property
    def n_unknowns(self) -> int:
        """Length of a point."""
        return self.rows.n_features + int(self.fit_intercept)

    @property
    def smooth(self) -> bool:
        """Whether there are no corners."""
        return not (self.risk.has_corners or self.loss.has_corners or self.radius > 0.0)

    def scores(self, point: Floats) -> Floats:
        """`X w + b`, shape (n,), or what a step along `point` adds to them."""
        return self.rows.dot(point[: self.rows.n_features]) + (point[-1] if self.fit_intercept else 0.0)

    def back(self, slopes: Floats) -> Floats:
        """Gradient of a sum over rows, from its slopes along the scores."""
        image = self.rows.tdot(slopes)
        return np.append(image, slopes.sum()) if self.fit_intercept else image

    def value(self, point: Floats, scores: Floats) -> float:
        """P."""
        return self._norms(point, 0.0)[0] + self.risk.value(self.loss.value(self.y * scores), self.share)

    def _norms(self, point: Floats, mu: float) -> tuple[float, float]:
        """Ridge and smoothed norm, and the length by which the norm is divided in its derivatives."""
        w = point[: self.rows.n_features]
        square = float(w @ w)
        length = math.sqrt(square + mu**2)
        return 0.5 * self.lam * square + self.radius * length, length

    def lower_bound(self, look: "_Look") -> float:
        """Of the least P, by the rows' weights and slopes at a look."""
        q, sigma, y = look.weighed.slopes, look.sigma.copy(), self.y
        if self.fit_intercept:
            pull = [float((q * sigma)[y == side].sum()) for side in (1.0, -1.0)]
            if min(pull) == 0.0:
                return -math.inf
            heavy = 1.0 if pull[0] > pull[1] else -1.0
            sigma[y == heavy] *= min(pull) / max(pull)
        v = self.rows.tdot(q * sigma * y)
        beyond = max(0.0, float(np.linalg.norm(v)) - self.radius)
        if self.lam == 0.0 and beyond > 0.0:
            # Without a ridge the slopes have to fit into the ball of the norm, and smaller ones are allowed too.
            sigma *= self.radius / (self.radius + beyond)
            beyond = 0.0
        cost = 0.0 if beyond == 0.0 else beyond**2 / (2.0 * self.lam)
        return float(q @ self.loss.line(sigma)) - self.risk.penalty(q, self.share) - cost


@dataclass(frozen=True)
class _Look:
    """The smoothed problem at a point."""

    problem: RiskProblem
    mu: float
    point: Floats
    scores: Floats
    levels: tuple[float, ...]
    value: float = field(init=False)
    weighed: Weighed = field(init=False)
    sigma: Floats = field(init=False)
    bend: Floats = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        losses, sigma, bend = problem.loss.smoothed(problem.y * self.scores, self.mu)
        weighed = problem.risk.smoothed(losses, problem.share, self.mu, self.levels)
        value = weighed.value + problem._norms(self.point, self.mu)[0]
        for name, item in (("value", value), ("weighed", weighed), ("sigma", sigma), ("bend", bend)):
            object.__setattr__(self, name, item)

    def gradient(self) -> Floats:
        """Of the smoothed problem."""
        problem, d = self.problem, self.problem.rows.n_features
        gradient = problem.back(-self.weighed.slopes * self.sigma * problem.y)
        gradient[:d] += self._ridge * self.point[:d]
        return gradient

    @property
    def _ridge(self) -> float:
        """What w is multiplied by in the gradient."""
        problem = self.problem
        length = problem._norms(self.point, self.mu)[1]
        return problem.lam + (problem.radius / length if length > 0.0 else 0.0)

    def step(self, gradient: Floats) -> Floats:
        """The Newton step, or one with a matrix that is positive definite where the problem is not convex."""
        problem, d = self.problem, self.problem.rows.n_features
        weighed, sigma = self.weighed, self.sigma
        # Rows that count negatively have a negative curvature, which a descent leaves out.
        curvature = np.maximum(weighed.slopes, 0.0) * self.bend + weighed.diagonal * sigma**2
        columns = weighed.columns * (sigma * problem.y)[:, None]
        # Besides what risks take off: the norm is flat along w.
        taken = [problem.back(np.ascontiguousarray(column)) for column in columns.T]
        length = problem._norms(self.point, self.mu)[1]
        if problem.radius > 0.0:
            along = self.point.copy()
            along[d:] = 0.0
            taken.append(along * math.sqrt(problem.radius / length**3))
        taken_off = np.array(taken).reshape(-1, problem.n_unknowns)
        # Bias and weights of columns without rows keep a definite system.
        tiny = 1e-12 * float(curvature.sum()) + 1e-300
        if problem.n_unknowns <= _DENSE:
            gram, sums = problem.rows.moments(curvature)
            system = np.zeros((problem.n_unknowns,) * 2, order="F")
            system[:d, :d] = gram
            if problem.fit_intercept:
                system[d, :d], system[d, d] = sums, curvature.sum() + tiny
            system[np.arange(d), np.arange(d)] += self._ridge + (tiny if self._ridge == 0.0 else 0.0)
            system -= taken_off.T @ taken_off
            return solve_factored(factor(system), -gradient)

        def product(direction: Floats) -> Floats:
            image = problem.back(curvature * problem.scores(direction)) - taken_off.T @ (taken_off @ direction)
            image[:d] += self._ridge * direction[:d]
            return image

        squares, _ = problem.rows.diagonal(curvature)
        diagonal = squares + self._ridge
        diagonal = np.append(diagonal, curvature.sum()) if problem.fit_intercept else diagonal
        inverse = 1.0 / np.maximum(diagonal, tiny)
        size = (problem.n_unknowns,) * 2
        direction, _ = cg(
            LinearOperator(size, matvec=product, dtype=np.float64), -gradient, rtol=1e-3, maxiter=250,
            M=LinearOperator(size, matvec=lambda residual: inverse * residual, dtype=np.float64),
        )  # fmt: skip
        return np.asarray(direction)


def solve(
    problem: RiskProblem, /, *, tol: float, start: Floats | None, budget: Budget, max_iter: int
) -> SmoothResult:
    """Minimise to a relative gap of `tol`; where the risk has no certificate, until steps promise less than that.

    Parameters
    ----------
    problem : RiskProblem
    tol : float
    start : ndarray of shape (n_unknowns,) or None
    budget : Budget
    max_iter : int

    Returns
    -------
    SmoothResult
        Its gap is NaN where the risk has no certificate.
    """
    recorder = Recorder[Floats]("newton", budget, tol, np.copy)
    point = np.zeros(problem.n_unknowns) if start is None else np.array(start, dtype=np.float64)
    mu = 0.0 if problem.smooth else (0.3 if start is None else 1e-3)
    look = _Look(problem, mu, point, problem.scores(point), ())
    n_iter, n_gradients, done, history = 0, 0, False, list[dict[str, float]]()
    try:
        while n_iter < max_iter and not budget.exhausted:
            gradient = look.gradient()
            step = look.step(gradient)
            n_gradients += problem.rows.n_rows
            promised = -0.5 * float(gradient @ step)
            size = max(abs(look.value), 1e-300)
            least_mu = 1e-2 * tol * size
            if promised <= 0.1 * max(tol * size, 1e-2 * mu if mu > least_mu else 0.0):
                gap = _certify(problem, look, recorder, promised)
                if gap <= tol and (problem.risk.certified or mu <= least_mu):
                    done = True
                    break
                if mu > least_mu:
                    mu *= 0.15
                    look = _Look(problem, mu, look.point, look.scores, look.weighed.levels)
                    continue
                if promised <= 1e-3 * tol * size:
                    break
            new = _descend(look, step, gradient)
            if new is None:
                # Rounding hides any further descent at this mu.
                if mu <= least_mu:
                    break
                mu *= 0.15
                look = _Look(problem, mu, look.point, look.scores, look.weighed.levels)
                continue
            look = new
            n_iter += 1
            entry = {"iteration": n_iter, "gradients": n_gradients, "value": look.value, "gap": promised / size}
            history.append({name: float(item) for name, item in entry.items()} | {"seconds": budget.elapsed})
            budget.tell("newton", n_iter, look.value, promised / size, mu)
    except KeyboardInterrupt:
        budget.interrupted = True
    gap = _certify(problem, look, recorder, math.nan)
    assert recorder.point is not None
    if problem.risk.certified:
        done, gap = done or recorder.gap <= tol, recorder.gap
    return SmoothResult(
        recorder.point, recorder.primal, gap if problem.risk.certified else math.nan, budget.status(converged=done),
        n_iter, n_gradients, recorder.seconds, tuple(history),
    )  # fmt: skip


def _certify(problem: RiskProblem, look: _Look, recorder: Recorder[Floats], promised: float) -> float:
    """Take in a point and a bound; the relative gap, or what a step promises where there is no bound."""
    recorder.offer(problem.value(look.point, look.scores), look.point)
    if not problem.risk.certified:
        return promised / max(abs(look.value), 1e-300)
    recorder.bound(problem.lower_bound(look))
    return recorder.gap


def _descend(look: _Look, step: Floats, gradient: Floats) -> _Look | None:
    """Along a step, as far as the value falls by its share; None where it falls nowhere that can be seen."""
    slope = float(gradient @ step)
    change = look.problem.scores(step)
    length = 1.0
    for _ in range(40):
        new = _Look(
            look.problem, look.mu, look.point + length * step, look.scores + length * change, look.weighed.levels
        )
        if new.value <= look.value + 1e-4 * length * slope:
            return new
        length *= 0.5
    return None
