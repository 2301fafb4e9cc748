"""Gradient descent with a fixed step on a smooth convex problem (Holland 2019, Algorithm 1)."""

import numpy as np

from widemargin.exceptions import CapabilityError
from widemargin.extending import Floats
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth.smooth_problem import SmoothProblem, SmoothRecorder, SmoothResult


def solve(
    problem: SmoothProblem,
    /,
    *,
    tol: float = 1e-6,
    start: Floats | None = None,
    budget: Budget | None = None,
    max_iter: int = 10_000,
    step: float | None = None,
) -> SmoothResult:
    """`w <- w - step grad P(w)`, with or without a bias among the unknowns.

    Parameters
    ----------
    problem : SmoothProblem
    tol : float, default=1e-6
        Relative gap; without a certificate the norm of the gradient, relative to the one at the start.
    start : ndarray of shape (n_unknowns,), optional
    budget : Budget, optional
    max_iter : int, default=10000
    step : float, optional
        Default: one over the problem's smoothness, of which twice as much would diverge.

    Returns
    -------
    SmoothResult

    Raises
    ------
    CapabilityError
        If the step is so long that the steps diverge.
    """
    budget = budget or Budget()
    recorder, n_iter = SmoothRecorder(problem, "gd", tol, budget), 0
    point = np.zeros(problem.n_unknowns) if start is None else np.array(start, dtype=np.float64)
    try:
        step = 1.0 / max(problem.smoothness(), 1e-300) if step is None else step
        while not budget.exhausted:
            value, gradient = recorder.value_gradient(point)
            first = recorder.history[0]["value"] if recorder.history else value
            if not abs(value) <= 1e20 * max(1.0, abs(first)):  # on its way to infinity
                raise CapabilityError(
                    f"gradient descent diverges: after {n_iter} steps of size {step:.3g} the objective is {value:.2g}. "
                    f"Steps below {2.0 / problem.smoothness():.2g} converge: lower step_size, or leave it None."
                )
            recorder.note(n_iter, value, gradient)
            if recorder.converged(point) or n_iter >= max_iter:
                break
            point = point - step * gradient
            n_iter += 1
    except KeyboardInterrupt:
        budget.interrupted = True
    return recorder.result(point, n_iter)
