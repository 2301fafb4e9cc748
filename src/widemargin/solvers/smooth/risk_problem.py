"""A risk of margin losses with a ridge and a norm, its lower bound, and the Newton step on weighted rows.

    P(w, b) = lam/2 |w|^2 + radius |w| + R(l),      l_i = phi(y_i (<x_i, w> + b))

Certificate. For allowed weights q and slopes sigma with `sum_i q_i sigma_i y_i = 0` every (w, b) has

    P >= sum_i q_i a(sigma_i) - penalty(q) - max(0, |v| - radius)^2 / (2 lam),      v = sum_i q_i sigma_i y_i x_i

by `R(l) >= q'l - penalty(q)` and `phi(m) >= a(sigma) - sigma m`. Those of a step are almost balanced; the heavier side
is scaled down until they are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np

from widemargin._threads import blas_threads
from widemargin._typing import Floats, Reals
from widemargin.linalg import conjugate_gradients
from widemargin.linalg.cholesky import factor
from widemargin.linalg.cholesky import solve as solve_factored
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import Surrogate
from widemargin.losses.risks import Risk
from widemargin.solvers.base import Budget, Recorder
from widemargin.solvers.smooth.smooth_problem import SmoothResult

_DENSE = 1500
"""Unknowns up to which the system of a step is factored: columns, or rows where these are fewer. Larger systems are
left to conjugate gradients. Twice as many are factored where no diagonal would precondition them: coordinates of rows
in their span, and risks that take something off the curvature."""
_STIFF = 1e8
"""Curvature of a row beside the ridge from which a system with one number a row would keep too few digits."""


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
    # The factor of the last system that was factored, for `_by_last_factor`; a problem made of this one has none.
    _factored: list[Reals] = field(default_factory=list, init=False, repr=False, compare=False)

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
        d = self.rows.n_features
        ridge = self._ridge(point, mu)
        # The bias has no ridge, and where no loss is curved it needs a little to keep the system definite.
        total = float(curvature.sum())
        tiny = 1e-12 * total + 1e-300
        # What the risk takes off makes systems that conjugate gradients do not solve.
        most = 2 * _DENSE if columns.shape[1] else _DENSE
        few = self.radius == 0.0 and self.rows.n_rows <= min(d, most)
        # The more the rows count beside the ridge, the more digits are lost when their part is taken off again.
        if few and (self.rows.inner_products.diagonal() * curvature).max(initial=0.0) <= _STIFF * ridge:
            return self._newton_by_rows(gradient, curvature, columns, ridge, tiny)
        # What the risk takes off the curvature of the losses is of low rank, so it is taken off the small matrix as
        # outer products of gradients, and never as a matrix over rows.
        taken = [self.back(np.ascontiguousarray(column)) for column in columns.T]
        if self.radius > 0.0:  # the norm is flat along w
            along = point * math.sqrt(self.radius / self._length(point, mu) ** 3)
            along[d:] = 0.0
            taken.append(along)
        taken_off = np.array(taken).reshape(-1, self.n_unknowns)

        def product(direction: Floats) -> Floats:
            image = self.back(curvature * self.scores(direction)) - taken_off.T @ (taken_off @ direction)
            image[:d] += ridge * direction[:d]
            return image

        if self.n_unknowns <= most or d <= self.rows.n_rows <= 2 * _DENSE:
            step = None if taken else self._by_last_factor(product, gradient, int(np.count_nonzero(curvature)))
            if step is not None:
                return step
            gram, sums = self.rows.moments(curvature)
            system = np.zeros((self.n_unknowns, self.n_unknowns), order="F")
            system[:d, :d] = gram
            if self.fit_intercept:
                system[d, :d], system[d, d] = sums, total + tiny
            system[np.arange(d), np.arange(d)] += ridge
            # The risk is convex, so what is left is positive semi-definite, and the ridge makes it definite.
            if taken:
                system -= taken_off.T @ taken_off
            self._factored[:] = [factor(system)]
            return solve_factored(self._factored[0], -gradient)

        # Conjugate gradients preconditioned by the diagonal, to a thousandth: a step of Newton's method need not be
        # exact, because the line search and the next step make up for it.
        inverse = 1.0 / np.append(self.rows.diagonal(curvature)[0] + ridge, total + tiny)[: self.n_unknowns]
        return conjugate_gradients.solve(product, partial(np.multiply, inverse), -gradient, share=1e-3, most=250)[0]

    def _by_last_factor(
        self, product: Callable[[Floats], Floats], gradient: Floats, n_curved: int, close: float = 1e-3
    ) -> Floats | None:
        """The Newton step by conjugate gradients, to a thousandth; None where a new factor is the quicker way to it.

        From one step to the next the curvatures of the rows change little, so a few products with the last factor as
        preconditioner do, in whose norm the scale of a column does not matter.
        """
        n, d = self.rows.n_rows, self.rows.n_features
        per_row = self.rows.n_stored / n
        # Products read each number for two operations, and take ten times as long for these as sums of outer products.
        most = int((n_curved * per_row**2 + d**3 / 3.0) / (10.0 * (4.0 * n * per_row + 2.0 * d**2)))
        if not self._factored or most < 4 or n_curved == 0:
            return None
        step, ended = conjugate_gradients.solve(
            product, partial(solve_factored, self._factored[0]), -gradient, share=close, most=most
        )
        return step if ended and step.any() else None

    def _newton_by_rows(
        self, gradient: Floats, curvature: Floats, columns: Floats, ridge: float, tiny: float
    ) -> Floats:
        """The Newton step by a system of one number a row, the change z of its score, where rows are few.

        With `M = diag(curvature) - columns columns'` the step has `ridge dw = -gradient - X' M z` and `z = X dw + db`,
        so `(I + X X' M / ridge) z = db - X gradient / ridge`.
        """
        d, system = self.rows.n_features, self.rows.inner_products * (curvature / ridge)
        if columns.shape[1]:
            system -= (self.rows.inner_products @ columns) @ (columns.T / ridge)
        system[np.diag_indices_from(system)] += 1.0
        right = np.column_stack([self.rows.dot(gradient[:d]) / -ridge, np.ones(len(system))])
        with blas_threads(len(system) ** 3):
            z = np.linalg.solve(system, right)
        moved, by_bias = (curvature[:, None] * z - columns @ (columns.T @ z)).T
        if not self.fit_intercept:
            return np.asarray((gradient + self.rows.tdot(moved)) / -ridge)
        db = -(gradient[d] + moved.sum()) / (by_bias.sum() + tiny)
        return np.append((gradient[:d] + self.rows.tdot(moved + db * by_bias)) / -ridge, db)

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
