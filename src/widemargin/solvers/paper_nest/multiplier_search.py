"""Where the nest looks next: the level method of Lemarechal, Nemirovskii and Nesterov (1995).

A chooser sees the region that the cuts leave for the maximum of the dual function (the paper's superlevel hypograph,
Equation 12), `{(v, z): L <= z <= f_s + c_s . v for every cut s, 0 <= v <= top}`, and says at which multipliers to solve
the next SVM and how accurately. The new cuts there, or the new lower bound, then take a part of the region away. The
paper's own choosers are in widemargin-papers (`solvers/cut_choosers.py`); any function of this protocol will do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import nnls

from widemargin._typing import Floats

__all__ = ["Chooser", "CutRegion", "LevelMethod", "NextMultipliers"]


class CutRegion(NamedTuple):
    """Cuts `value_s + excess_s . v` over the box `0 <= v <= top`, above the best lower bound `lower`.

    Attributes
    ----------
    value : ndarray of shape (k,)
    excess : ndarray of shape (k, m)
    top : ndarray of shape (m,)
    lower, upper : float
        L, the best lower bound of the dual function, and U, the maximum of the cuts.
    peak : ndarray of shape (m,)
        Where the cuts have their maximum.
    best : ndarray of shape (m,)
        Where the dual function reached L.
    """

    value: Floats
    excess: Floats
    top: Floats
    lower: float
    upper: float
    peak: Floats
    best: Floats

    def at(self, v: Floats) -> float:
        """Height of the cuts, `h(v)` in the paper."""
        return float((self.value + self.excess @ v).min())


class NextMultipliers(NamedTuple):
    """Multipliers to look at, shape (m,), and the absolute accuracy of the SVM there."""

    v: Floats
    eps: float


Chooser: TypeAlias = Callable[[CutRegion], NextMultipliers]
"""A chooser may keep state, so a run needs its own."""


@dataclass(frozen=True)
class LevelMethod:
    """The point nearest to the best multipliers where the cuts are high enough.

    While the cuts are few their maximum jumps between far corners of the box; this stays as near as it can to what is
    known to be good.

    Attributes
    ----------
    share : float
        How high the cuts must be there, from L to U. Larger moves faster towards the maximum of the cuts and is misled
        by it for longer. On a9a with one to ten constraints .7 to .95 were measured to be about as good, and .5 takes
        a fifth more epochs.
    slip : float
        How much of what the cuts rise above that height rounding may lose before the projection is given up for the
        segment to the peak, which is high enough but farther away.
    """

    share: float = 0.9
    slip: float = 0.1

    def __call__(self, region: CutRegion) -> NextMultipliers:
        """Choose; the accuracy is half of the way from L to that height."""
        height = region.lower + self.share * (region.upper - region.lower)
        v, eps = region.best, 0.5 * (height - region.lower)
        # Projection of the best multipliers onto `{v in the box: cuts >= height}`: least distance programming by
        # non-negative least squares (Lawson and Hanson 1974, chapter 23), in units of the distance from the best
        # multipliers to the peak, which is in the set.
        unit = float(np.linalg.norm(region.peak - region.best))
        short = height - region.value - region.excess @ region.best
        if unit == 0.0 or not (short > 0.0).any():
            return NextMultipliers(v, eps)
        # In x = (v - best) / unit the set is {G x >= h}: the cuts, then the two ends of the box.
        m = region.top.shape[0]
        G = np.vstack([region.excess, np.eye(m), -np.eye(m)])
        h = np.concatenate([short / unit, -region.best / unit, (region.best - region.top) / unit])
        E, f = np.vstack([G.T, h]), np.append(np.zeros(m), 1.0)
        try:
            weights, _ = nnls(E, f)
        except RuntimeError:  # too many iterations: the check below sees that nothing was found
            weights = np.zeros(h.shape[0])
        residual = E @ weights - f
        if residual[-1] < -1e-12:  # the last residual is minus the squared distance, 0 for an empty set
            v = np.clip(region.best - unit * residual[:-1] / residual[-1], 0.0, region.top)
        if region.at(v) < height - self.slip * (region.upper - height):
            v = region.best + self.share * (region.peak - region.best)  # high enough, since the cuts are concave
        return NextMultipliers(v, eps)
