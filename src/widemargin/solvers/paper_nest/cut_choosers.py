"""Where to look next: the paper's CutChooser (Algorithm 2, line 8; appendix E), and a stabilised one.

A chooser sees the cuts between the best lower bound L and their maximum U, and says at which multipliers `v_t` to solve
the next SVM and how accurately. The cuts at `v_t` or the new lower bound then take a part of the region away.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from widemargin._typing import Floats
from widemargin.solvers.paper_nest.hit_and_run import HitAndRun
from widemargin.solvers.paper_nest.hypograph import Hypograph, Mass, exact_mass

__all__ = ["CHOOSERS", "CentreOfMass", "Choice", "Chooser", "level", "make_chooser", "maximisation"]

_LEVEL = 0.9  # of the way from L to U; .7 to .95 were measured to be about as good, .5 takes a fifth more epochs
_INEXACT = 0.1  # of what the cuts rise above that level: rounding by which a projection may miss it
_ZERO = 1e-12


class Choice(NamedTuple):
    """Multipliers to look at, shape (m,), and the absolute accuracy of the SVM there."""

    v: Floats
    eps: float


Chooser = Callable[[Hypograph], Choice]

CHOOSERS = ("level", "maximisation", "centre_of_mass")
"""Names; the first is the default of the nest."""


def maximisation(region: Hypograph) -> Choice:
    """The maximiser of the cuts and half of U - L (the paper's Definition 1, E.1). It has no proved rate."""
    return Choice(region.peak, 0.5 * (region.upper - region.lower))


class CentreOfMass:
    """The centre of mass (v, z) of the region and half of z - L (the paper's Definition 2, E.2).

    Exact for one and two multipliers, the mean of hit-and-run samples for more. Each step takes at least 1/2e of the
    volume away (exact centres). Where the region is too thin for floating point, the maximiser.

    Parameters
    ----------
    seed : int, default=0
    """

    def __init__(self, seed: int = 0) -> None:
        self._sampler = HitAndRun(seed)

    def __call__(self, region: Hypograph) -> Choice:
        """Choose."""
        mass = exact_mass(region) if region.top.shape[0] <= 2 else self._sampled(region)
        if mass is None or not region.lower < mass.z < region.upper:
            return maximisation(region)
        return Choice(mass.v, 0.5 * (mass.z - region.lower))

    def _sampled(self, region: Hypograph) -> Mass | None:
        """Centre of mass by sampling; its volume is not known."""
        if not region.upper > region.lower:
            return None
        points = self._sampler.sample(*region.halfspaces, np.append(region.top, region.upper - region.lower))
        if points is None:
            return None
        centre = points.mean(axis=0)
        return Mass(np.nan, np.clip(centre[:-1], 0.0, region.top), float(centre[-1]))


def level(region: Hypograph) -> Choice:
    """The point nearest to the best multipliers where the cuts are at z, nine tenths of the way from L to U; (z - L)/2.

    The level method of Lemarechal, Nemirovskii and Nesterov (1995). While the cuts are few their maximum jumps between
    far corners of the box; this stays as near as it can to what is known to be good.
    """
    z = region.lower + _LEVEL * (region.upper - region.lower)
    return Choice(_nearest(region, z), 0.5 * (z - region.lower))


def _nearest(region: Hypograph, height: float) -> Floats:
    """Projection of the best multipliers onto `{v in the box: cuts >= height}`.

    Least distance programming by non-negative least squares (Lawson and Hanson 1974, chapter 23), in units of the
    distance from the best multipliers to the peak, which is in the set.
    """
    unit = float(np.linalg.norm(region.peak - region.best))
    short = height - region.value - region.excess @ region.best
    if unit == 0.0 or not (short > 0.0).any():
        return region.best
    G = np.vstack([region.excess, np.eye(region.top.shape[0]), -np.eye(region.top.shape[0])])
    h = np.concatenate([short / unit, -region.best / unit, (region.best - region.top) / unit])
    E = np.vstack([G.T, h])
    f = np.append(np.zeros(region.top.shape[0]), 1.0)
    try:
        u, _ = nnls(E, f)
    except RuntimeError:  # too many iterations
        u = np.zeros(h.shape[0])
    r = E @ u - f
    v = region.best
    if r[-1] < -_ZERO:
        v = np.clip(region.best - unit * r[:-1] / r[-1], 0.0, region.top)
    if region.at(v) < height - _INEXACT * (region.upper - height):
        return region.best + _LEVEL * (region.peak - region.best)  # high enough, since the cuts are concave
    return v


def make_chooser(name: str, seed: int = 0) -> Chooser:
    """Chooser by name, one of `CHOOSERS`; it keeps state, so a run needs its own.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    made: dict[str, Chooser] = {"level": level, "maximisation": maximisation, "centre_of_mass": CentreOfMass(seed)}
    if name not in made:
        raise ValueError(f"chooser is {name!r}; use {', '.join(map(repr, CHOOSERS[:-1]))} or {CHOOSERS[-1]!r}")
    return made[name]
