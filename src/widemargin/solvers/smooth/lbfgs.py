"""L-BFGS on a smooth convex problem: scipy's L-BFGS-B on our gradient, in coordinates in which curvatures are alike.

With a bound `L L'` of the second derivative the unknowns are `x = L' point`, and the curvature in every direction is at
most 1; where the bound would cost too much only its diagonal is used. The certificate of the problem ends the run, not
scipy's rules, which are turned off.
"""

from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from widemargin._typing import Floats
from widemargin.linalg.cholesky import factor
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth.smooth_problem import SmoothProblem, SmoothResult, Trace

__all__ = ["Coordinates", "coordinates", "solve"]

MEMORY = 20
"""Pairs of steps and changes of gradients kept."""


def solve(
    problem: SmoothProblem,
    *,
    tol: float = 1e-6,
    start: Floats | None = None,
    budget: Budget | None = None,
    max_iter: int = 1000,
) -> SmoothResult:
    """Minimise.

    Parameters
    ----------
    problem : SmoothProblem
    tol : float, default=1e-6
        Relative gap; without a certificate the norm of the gradient, relative to the one at the start.
    start : ndarray of shape (n_unknowns,), optional
    budget : Budget, optional
    max_iter : int, default=1000

    Returns
    -------
    SmoothResult
    """
    run = _Run(problem, tol, budget or Budget(), start)
    options = {"maxiter": max_iter, "maxfun": 4 * max_iter + 20, "maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0}
    try:
        if not run.budget.exhausted:
            minimize(
                run.scaled,
                run.coordinates.of(run.point),
                jac=True,
                method="L-BFGS-B",
                callback=run.watch,
                options=options,
            )
    except KeyboardInterrupt:
        run.budget.interrupted = True
    return run.trace.result(run.point, run.n_iter)


class Coordinates(Protocol):
    """Linear coordinates x of points."""

    def of(self, point: Floats) -> Floats: ...
    def point(self, x: Floats) -> Floats: ...
    def gradient(self, gradient: Floats) -> Floats: ...


class _Scaled:
    """`x = units * point`."""

    def __init__(self, units: Floats) -> None:
        self._units = units

    def of(self, point: Floats) -> Floats:
        """Coordinates of a point."""
        return self._units * point

    def point(self, x: Floats) -> Floats:
        """The point of these coordinates."""
        return x / self._units

    def gradient(self, gradient: Floats) -> Floats:
        """Along the coordinates."""
        return gradient / self._units


class _Whitened:
    """`x = L' point`."""

    def __init__(self, lower: Any) -> None:
        self._lower = np.tril(lower)

    def of(self, point: Floats) -> Floats:
        """Coordinates of a point."""
        return np.asarray(self._lower.T @ point)

    def point(self, x: Floats) -> Floats:
        """The point of these coordinates."""
        return np.asarray(solve_triangular(self._lower, x, lower=True, trans="T", check_finite=False))

    def gradient(self, gradient: Floats) -> Floats:
        """Along the coordinates."""
        return np.asarray(solve_triangular(self._lower, gradient, lower=True, check_finite=False))


def coordinates(bound: Floats | None, units: Floats) -> Coordinates:
    """Coordinates in which curvatures are alike.

    Parameters
    ----------
    bound : ndarray of shape (k, k), or None
        Of the second derivative, lower triangle in Fortran order.
    units : ndarray of shape (k,)
        Roots of curvatures along the axes, for where there is no bound.
    """
    return _Scaled(units) if bound is None else _Whitened(factor(bound))


class _Run:
    """The function and the callback that scipy calls."""

    def __init__(self, problem: SmoothProblem, tol: float, budget: Budget, start: Floats | None) -> None:
        self.problem, self.budget = problem, budget
        self.trace = Trace(problem, "lbfgs", tol, budget)
        bound = problem.curvature()
        self.coordinates = coordinates(bound, problem.column_scales() if bound is None else np.empty(0))
        self.point = np.zeros(problem.n_unknowns) if start is None else np.array(start, dtype=np.float64)
        self.n_iter = 0
        self._last: tuple[Floats, Floats] = (np.empty(0), np.empty(0))

    def scaled(self, x: Floats) -> tuple[float, Floats]:
        """Value and gradient in the coordinates."""
        value, gradient = self.trace.value_gradient(self.coordinates.point(x))
        self._last = (x.copy(), gradient)
        return value, self.coordinates.gradient(gradient)

    def watch(self, intermediate_result: Any) -> None:
        """Keep the iterate; end the run where the gap is small enough, or the budget is spent."""
        x, value = intermediate_result.x, float(intermediate_result.fun)
        self.point = self.coordinates.point(x)
        self.n_iter += 1
        at, gradient = self._last
        if not np.array_equal(at, x):
            gradient = self.trace.value_gradient(self.point)[1]
        self.trace.note(self.n_iter, value, gradient)
        if self.trace.converged(self.point) or self.budget.exhausted:
            raise StopIteration
