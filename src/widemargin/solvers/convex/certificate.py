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

from dataclasses import dataclass, field

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import exact_penalty

__all__ = ["Bracket", "relative_gap"]

_FLOOR = 1e-6
"""Objective coefficients sum to about one, so a smaller objective is not worth a relative accuracy."""


def relative_gap(primal: float, dual: float) -> float:
    """`(primal - dual) / |primal|`, with a floor under the denominator."""
    return (primal - dual) / max(abs(primal), _FLOOR)


@dataclass
class Bracket:
    """Best primal point and best lower bound seen.

    Attributes
    ----------
    rho : float
        Upper end of the multipliers.
    w, b : the point.
    objective : float
        Its objective without any penalty.
    excess : ndarray of shape (m,)
        Its constraints.
    v : ndarray of shape (m,)
        The multipliers behind the lower bound.
    dual : float
        The lower bound.
    """

    rho: float
    w: Floats = field(default_factory=lambda: np.zeros(0))
    b: float = 0.0
    objective: float = np.inf
    excess: Floats = field(default_factory=lambda: np.zeros(0))
    v: Floats = field(default_factory=lambda: np.zeros(0))
    dual: float = -np.inf

    @property
    def penalty(self) -> Floats:
        """The penalty weights p by which points are measured."""
        return exact_penalty(self.v, self.rho)

    @property
    def primal(self) -> float:
        """`P_p` of the kept point."""
        if np.isinf(self.objective):
            return self.objective
        return self.objective + float(self.penalty @ np.maximum(self.excess, 0.0))

    @property
    def gap(self) -> float:
        """Relative gap."""
        return relative_gap(self.primal, self.dual)

    def add_dual(self, dual: float, v: Floats) -> None:
        """Keep a lower bound if it is the best."""
        if dual > self.dual or not np.isfinite(self.dual):
            self.dual, self.v = dual, v

    def add_point(self, w: Floats, b: float, objective: float, excess: Floats) -> None:
        """Keep a point if it is the best under the present penalty; call after `add_dual`."""
        if objective + float(self.penalty @ np.maximum(excess, 0.0)) <= self.primal:
            self.w, self.b, self.objective, self.excess = w, b, objective, excess
