"""What a convex solver may claim: the best point and the best lower bound seen, measured by one penalty.

With multipliers v and the dual value D(v) of spec 1, section 4b, any point x = (w, b) with objective f and excesses c
gives

    D(v) <= optimum of the hard problem,      D(v) <= f(x) + sum_j p_j max(0, c_j(x)) =: P_p(x)  for every p >= v,

because p >= v makes the right-hand side at least `f + v.c >= min f + v.c >= D(v)`. From `P_p - D <= gap` follows

    f(x) <= optimum + gap,                    c_j(x) <= gap / (p_j - v_j):

the point costs at most `gap` more than the best feasible one, and violates next to nothing. Both hold only when P and
D are compared by the *same* p, so the penalty is chosen from the best v (`base.exact_penalty`) and the kept point is
measured anew each time: a primal value taken under an earlier, smaller penalty can lie far below the optimum.
Where v_j = rho the violation is bounded by nothing: the penalty was too small, or the constraints cannot be met.
"""

from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget, ConvexResult, ConvexState, Recorder, Status, exact_penalty, relative_gap

__all__ = ["CertifiedRecorder", "ConvexPoint"]


class ConvexPoint(NamedTuple):
    """A point (w, b), its objective without any penalty, and the excess of each constraint there, shape (m,)."""

    w: Floats
    b: float
    objective: float
    excess: Floats


class CertifiedRecorder(Recorder[ConvexPoint]):
    """The best point and the best lower bound of a convex step, compared by one penalty.

    Parameters
    ----------
    rho : float
        Upper end of the multipliers.
    budget : Budget
    tol : float
    stage : str, optional
        As in `Recorder`.

    Attributes
    ----------
    multipliers : ndarray of shape (m,)
        Those behind the lower bound.
    """

    def __init__(self, rho: float, budget: Budget, tol: float, stage: str | None = None) -> None:
        super().__init__(stage, budget, tol)
        self.rho, self.multipliers = rho, np.zeros(0)

    @property
    def penalty(self) -> Floats:
        """The penalty weights p by which points are measured."""
        return exact_penalty(self.multipliers, self.rho)

    @property
    def gap(self) -> float:
        """Relative gap."""
        # The coefficients of an objective sum to about one, and below 1e-6 of that an objective is zero for all that a
        # user can measure. Relative to its own size the gap of such a problem would never close.
        return relative_gap(self.primal, self.dual, floor=1e-6)

    @property
    def best(self) -> ConvexPoint:
        """The point that is best so far; there must be one."""
        assert self.point is not None
        return self.point

    def _measured(self, point: ConvexPoint) -> float:
        """`P_p` of a point."""
        return point.objective + float(self.penalty @ np.maximum(point.excess, 0.0))

    def add_dual(self, dual: float, multipliers: Floats) -> None:
        """Store a lower bound if it is the best so far, and measure the best point anew by the penalty it leads to."""
        # A first bound that is not a number is stored, too, because points are measured by the multipliers behind it.
        if dual > self.dual or not np.isfinite(self.dual):
            self.dual, self.multipliers = dual, multipliers
            if self.point is not None:
                self.primal = self._measured(self.point)

    def add_point(self, w: Floats, b: float, objective: float, excess: Floats) -> None:
        """Store a point if it is the best under the present penalty; to be called after `add_dual`."""
        point = ConvexPoint(w, b, objective, excess)
        # Points are compared by the penalty in force, never by one they were found under.
        self.offer(self._measured(point), point)

    def correct(self, objective: float, excess: Floats) -> None:
        """Replace the values of the best point by more exact ones."""
        self.point = self.best._replace(objective=objective, excess=excess)
        self.primal = self._measured(self.point)

    def look(self, iteration: int, *, violation: float = 0.0, **facts: float) -> bool:
        """As `Recorder.look`; the seconds are those of this step."""
        return super().look(iteration, violation=violation, **{"seconds": self.seconds, **facts})

    def result(
        self, n_iter: int, state: ConvexState, *, n_epochs: int = 0, status: Status | None = None
    ) -> ConvexResult:
        """The best point with its certificate; by default the status says whether the gap is closed."""
        # The best point, not the last one: steps may get worse.
        w, b, _, excess = self.best
        return ConvexResult(
            w=w, b=b, multipliers=self.multipliers, primal=self.primal, dual=self.dual, gap=self.gap,
            violation=excess, status=status or self.budget.status(converged=self.gap <= self.tol), n_iter=n_iter,
            n_epochs=n_epochs, seconds=self.seconds, state=state, history=tuple(self.history),
        )  # fmt: skip
