"""The region that the cuts leave for the maximum of the dual function, and its centre of mass, exactly for m <= 2.

The paper's superlevel hypograph (Equation 12): `{(v, z): L <= z <= f_s + c_s . v for every cut s, 0 <= v <= top}`. Its
volume is what a step of the centre-of-mass cutting plane shrinks by 1 - 1/2e at least.
"""

from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.paper_nest import hypograph_loops as loops

__all__ = ["Hypograph", "Mass", "exact_mass"]


class Hypograph(NamedTuple):
    """Cuts `value_s + excess_s . v` over the box `0 <= v <= top`, above the level `lower`.

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

    @property
    def halfspaces(self) -> tuple[Floats, Floats]:
        """A of shape (k + 2m + 1, m + 1) and b with the region `{x = (v, z): A x <= b}`."""
        k, m = self.excess.shape
        eye, none = np.eye(m), np.zeros((m, 1))
        cuts = np.hstack([-self.excess, np.ones((k, 1))])
        floor = np.append(np.zeros(m), -1.0)
        A = np.vstack([cuts, np.hstack([eye, none]), np.hstack([-eye, none]), floor])
        return A, np.concatenate([self.value, self.top, np.zeros(m), [-self.lower]])


class Mass(NamedTuple):
    """Volume of a region and its centre of mass (v, z)."""

    volume: float
    v: Floats
    z: float


def exact_mass(region: Hypograph) -> Mass | None:
    """Volume and centre of mass for at most two multipliers; None where the volume vanishes.

    Raises
    ------
    ValueError
        For more multipliers.
    """
    m = region.top.shape[0]
    if m > 2:
        raise ValueError(f"{m} multipliers: the exact centre of mass is for at most two; sample it")
    excess = np.zeros((region.value.shape[0], 2))  # below two: the prism of width one over the region
    excess[:, :m] = region.excess
    box = np.append(region.top, [1.0, 1.0])[:2]
    room = 2 * region.value.shape[0] + 16
    out = np.empty(4)
    loops.moments(region.value - region.lower, excess, box, np.empty((room, 2)), np.empty((room, 2)), out)
    if not out[0] > 0.0:
        return None
    centre = out[1:] / out[0]
    return Mass(float(out[0]), np.clip(centre[:m], 0.0, region.top), region.lower + float(centre[2]))
