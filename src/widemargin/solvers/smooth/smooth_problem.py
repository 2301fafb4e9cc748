"""What the first-order solvers of smooth convex problems share: the problem, the result, and how a run is recorded.

A solver is a function `solve(problem, *, tol, start, budget, max_iter) -> SmoothResult` (`SmoothSolver`).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget, Recorder, Status

__all__ = ["Certified", "SmoothProblem", "SmoothRecorder", "SmoothResult", "SmoothSolver"]


class Certified(Protocol):
    """A point, its value, and a bound of what it exceeds the least value by (NaN: none is known)."""

    @property
    def point(self) -> Floats: ...
    @property
    def value(self) -> float: ...
    @property
    def gap(self) -> float: ...


class SmoothProblem(Protocol):
    """A convex function of `n_unknowns` numbers with a continuous gradient, a mean over `n_rows` rows.

    It is `lam/2 |w|^2` and a convex rest: the square of the gradient's norm over `2 lam` bounds what a value exceeds
    the least one by, up to the bias, which has no regulariser.
    """

    @property
    def lam(self) -> float: ...
    @property
    def n_unknowns(self) -> int: ...
    @property
    def n_rows(self) -> int: ...
    def value_gradient(self, point: Floats) -> tuple[float, Floats]: ...
    def certify(self, point: Floats) -> Certified:
        """The point, or one at least as good that is easy to find from it, with its value and gap."""
        ...

    def column_scales(self) -> Floats:
        """Roots of curvatures along the axes."""
        ...

    def curvature(self, most: int = 100) -> Floats | None:
        """A bound of the second derivative, lower triangle in Fortran order; None where it costs `most` gradients."""
        ...

    def smoothness(self) -> float:
        """A bound of the curvature."""
        ...


@dataclass(frozen=True)
class SmoothResult:
    """Solution with its certificate.

    Attributes
    ----------
    point : ndarray of shape (n_unknowns,)
    value : float
    gap : float
        What `value` may exceed the least one by, relative to it; NaN where the problem has no certificate.
    status : Status
    n_iter : int
        Full steps, or passes of as many single steps as there are rows.
    n_gradients : int
        Gradients of single rows.
    seconds : float
    history : tuple of dict
        Entries with `iteration`, `gradients`, `value`, the `gap` that the gradient promises, and `seconds` since the
        budget began.
    """

    point: Floats
    value: float
    gap: float
    status: Status
    n_iter: int
    n_gradients: int
    seconds: float
    history: tuple[dict[str, float], ...] = ()


class SmoothSolver(Protocol):
    """A solver of smooth problems, from `start` (default: the origin) to a relative gap of `tol`."""

    def __call__(
        self, problem: SmoothProblem, /, *, tol: float, start: Floats | None, budget: Budget, max_iter: int
    ) -> SmoothResult: ...


class SmoothRecorder(Recorder[Floats]):
    """A run on a smooth problem: counts gradients, and decides by the certificate whether a gap is small enough.

    Parameters
    ----------
    problem : SmoothProblem
    stage : str
        Name of the solver for callbacks.
    tol : float
        Relative gap; without a certificate the norm of the gradient, relative to the first one.
    budget : Budget
    """

    def __init__(self, problem: SmoothProblem, stage: str, tol: float, budget: Budget) -> None:
        super().__init__(stage, budget, tol, np.copy)
        self.problem, self._name = problem, stage
        self.n_gradients = 0
        self._first_norm = 0.0

    def value_gradient(self, point: Floats) -> tuple[float, Floats]:
        """Of the problem, counted."""
        # Work is counted in gradients of single rows, so that full and stochastic steps can be compared.
        self.n_gradients += self.problem.n_rows
        value, gradient = self.problem.value_gradient(point)
        # Without a certificate gradients are compared with the first one.
        self._first_norm = self._first_norm or float(np.linalg.norm(gradient))
        return value, gradient

    def note(self, iteration: int, value: float, gradient: Floats) -> None:
        """Write down a step and tell the callbacks."""
        norm, lam = float(np.linalg.norm(gradient)), self.problem.lam
        # Strong convexity: the value exceeds the optimum by at most |gradient|^2 / (2 lam), up to the bias. This costs
        # nothing, so the certificate is only computed once it is small enough (`converged`).
        gap = norm**2 / (2.0 * lam) / _size(value) if lam > 0.0 else norm / _size(self._first_norm)
        entry = {"iteration": iteration, "gradients": self.n_gradients, "value": value, "gap": gap}
        self.history.append({name: float(item) for name, item in entry.items()} | {"seconds": self.budget.elapsed})
        self.budget.tell(self._name, iteration, value, gap, norm)

    def converged(self, point: Floats) -> bool:
        """Whether the gap that the last gradient promised is small enough, and the certificate confirms it."""
        if self.history[-1]["gap"] > self.tol:
            return False
        # The bias has no regulariser, so strong convexity says nothing of it; the certificate finds the best bias.
        self._done = self.problem.lam == 0.0 or self._certify(point)[1] <= self.tol
        return self._done

    def result(self, point: Floats, n_iter: int) -> SmoothResult:
        """The last point with its certificate, and why the run ended."""
        # The certificate may find a better point on its way, such as one with a better bias.
        certified, gap = self._certify(point)
        status = self.budget.status(converged=self._done or gap <= self.tol)
        return SmoothResult(
            certified.point, certified.value, gap, status, n_iter, self.n_gradients, self.seconds, tuple(self.history)
        )

    _done = False

    def _certify(self, point: Floats) -> tuple[Certified, float]:
        # A certificate costs a gradient, and is counted as one.
        self.n_gradients += self.problem.n_rows
        certified = self.problem.certify(point)
        return certified, certified.gap / _size(certified.value)


def _size(number: float) -> float:
    return max(abs(number), 1e-300)
