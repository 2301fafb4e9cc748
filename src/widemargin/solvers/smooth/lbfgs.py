"""L-BFGS on a smooth convex problem: scipy's L-BFGS-B on our gradient, in coordinates in which curvatures are alike.

With a bound `L L'` of the second derivative the unknowns are `x = L' point`, and the curvature in every direction is at
most 1; where the bound would cost more than a hundred steps only its diagonal is used, until hundreds of steps were not
enough. The certificate of the problem ends the run, not
scipy's rules, which are turned off.
"""

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import OptimizeResult, minimize

from widemargin._typing import Floats
from widemargin.linalg.cholesky import factor
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth.smooth_problem import SmoothProblem, SmoothRecorder, SmoothResult

__all__ = ["Coordinates", "solve"]


def solve(
    problem: SmoothProblem,
    /,
    *,
    tol: float = 1e-6,
    start: Floats | None = None,
    budget: Budget | None = None,
    max_iter: int = 1000,
    memory: int = 20,
    patience: int = 250,
) -> SmoothResult:
    """Minimise.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative gap; without a certificate the norm of the gradient, relative to the one at the start.
    start : ndarray of shape (n_unknowns,), optional
    memory : int, default=20
        Pairs of steps and changes of gradients that are stored. More of them model the curvature better, and each costs
        two products of vectors a step; 20 are little beside a pass over the rows.
    patience : int, default=250
        Steps after which a bound of the second derivative is worth four times as many. 3,000 rows of 600 correlated
        columns take 1,072 steps without it, and 260 with it then.
    """
    budget = budget or Budget()
    recorder = SmoothRecorder(problem, "lbfgs", tol, budget)
    # In coordinates in which the bound of the second derivative is the identity, no direction is much more curved than
    # another, and L-BFGS takes few steps.
    bound = problem.curvature()
    coordinates = Coordinates(bound, problem.column_scales() if bound is None else np.empty(0))
    limit = max_iter if bound is not None else min(patience, max_iter)
    point = np.zeros(problem.n_unknowns) if start is None else np.array(start, dtype=np.float64)
    n_iter = 0
    last_x, last_gradient = np.empty(0), np.empty(0)

    def scaled(x: Floats) -> tuple[float, Floats]:
        """Value and gradient in the coordinates."""
        nonlocal last_x, last_gradient
        value, gradient = recorder.value_gradient(coordinates.point(x))
        last_x, last_gradient = x.copy(), gradient
        return value, coordinates.gradient(gradient)

    def watch(intermediate_result: OptimizeResult) -> None:
        """Keep the iterate; end the run where the gap is small enough, or the budget is spent."""
        nonlocal point, n_iter
        x = intermediate_result.x
        point = coordinates.point(x)
        n_iter += 1
        # The line search usually ends at the iterate, whose gradient is then known.
        gradient = last_gradient if np.array_equal(last_x, x) else recorder.value_gradient(point)[1]
        recorder.note(n_iter, float(intermediate_result.fun), gradient)
        if recorder.converged(point) or budget.exhausted:
            raise StopIteration

    # scipy's own stopping rules are turned off: they know nothing of the certificate, and end too early or too late.
    # maxfun leaves a line search four evaluations a step on average, which it never needs.
    rules = {"maxcor": memory, "ftol": 0.0, "gtol": 0.0}
    try:
        # A budget that is spent before the first step still gets its certificate.
        while not budget.exhausted:
            limits = {"maxiter": limit - n_iter, "maxfun": 4 * (limit - n_iter) + 20} | rules
            minimize(scaled, coordinates.of(point), jac=True, method="L-BFGS-B", callback=watch, options=limits)
            if n_iter < limit or limit == max_iter:
                break
            limit, bound = max_iter, problem.curvature(4 * patience)
            if bound is not None:
                coordinates = Coordinates(bound, np.empty(0))
    except KeyboardInterrupt:
        budget.interrupted = True
    return recorder.result(point, n_iter)


class Coordinates:
    """Linear coordinates x of points in which curvatures are alike: `x = L' point`, or `x = units point`.

    Parameters
    ----------
    bound : ndarray of shape (k, k), or None
        `L L'`, of the second derivative: lower triangle in Fortran order.
    units : ndarray of shape (k,)
        Roots of curvatures along the axes, for where there is no bound.
    """

    def __init__(self, bound: Floats | None, units: Floats) -> None:
        # LAPACK leaves what was above the diagonal as it was.
        self._lower = None if bound is None else np.tril(factor(bound))
        self._units = units

    def of(self, point: Floats) -> Floats:
        """Coordinates of a point."""
        return self._units * point if self._lower is None else np.asarray(self._lower.T @ point)

    def point(self, x: Floats) -> Floats:
        """The point of these coordinates."""
        return x / self._units if self._lower is None else self._solve(x, "T")

    def gradient(self, gradient: Floats) -> Floats:
        """Along the coordinates."""
        return gradient / self._units if self._lower is None else self._solve(gradient)

    def _solve(self, right: Floats, trans: str = "N") -> Floats:
        return np.asarray(solve_triangular(self._lower, right, lower=True, trans=trans, check_finite=False))
