"""The paper's cut choosers (Goh et al. 2016, Algorithm 2, line 8; appendices E, F.2): maximisation, centres of mass.

`RateConstrainedClassifier(solver="cutting-plane-maximisation")` and `"cutting-plane-centre-of-mass"` solve their convex
steps by the two functions at the end.
"""

import numpy as np

from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState
from widemargin.solvers.paper_nest import cutting_plane
from widemargin.solvers.paper_nest.bias_search import LowerModel
from widemargin.solvers.paper_nest.multiplier_search import Chooser, CutRegion, LevelMethod, NextMultipliers
from widemargin_papers.solvers.centre_of_mass import Mass, exact_mass, halfspaces
from widemargin_papers.solvers.hit_and_run import HitAndRun

CHOOSERS = ("level", "maximisation", "centre_of_mass")
"""Names; the first is the library's own."""


def maximisation(region: CutRegion) -> NextMultipliers:
    """The maximiser of the cuts and half of U - L (the paper's Definition 1, E.1). It has no proved rate."""
    return NextMultipliers(region.peak, 0.5 * (region.upper - region.lower))


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

    def __call__(self, region: CutRegion) -> NextMultipliers:
        """Choose."""
        mass = exact_mass(region) if region.top.shape[0] <= 2 else self._sampled(region)
        if mass is None or not region.lower < mass.z < region.upper:
            return maximisation(region)
        return NextMultipliers(mass.v, 0.5 * (mass.z - region.lower))

    def _sampled(self, region: CutRegion) -> Mass | None:
        """Centre of mass by sampling; its volume is not known."""
        if not region.upper > region.lower:
            return None
        points = self._sampler.sample(*halfspaces(region), np.append(region.top, region.upper - region.lower))
        if points is None:
            return None
        centre = points.mean(axis=0)
        return Mass(np.nan, np.clip(centre[:-1], 0.0, region.top), float(centre[-1]))


def make_chooser(name: str, seed: int = 0) -> Chooser:
    """Chooser by name, one of `CHOOSERS`; it keeps state, so a run needs its own.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    by_name: dict[str, Chooser] = {
        "level": LevelMethod(), "maximisation": maximisation, "centre_of_mass": CentreOfMass(seed),
    }  # fmt: skip
    if name not in by_name:
        raise ValueError(f"chooser is {name!r}; use {', '.join(map(repr, CHOOSERS[:-1]))} or {CHOOSERS[-1]!r}")
    return by_name[name]


def bias_centre_of_mass(model: LowerModel, low: float, high: float, top: float, near: float) -> tuple[float, float]:
    """Centre of mass (b, z) of `{model(b) <= z <= top, low <= b <= high}`, exactly, segment by segment (F.2.2)."""
    b = model.corners(low, high)
    offset, slope = np.asarray(model.offset), np.asarray(model.slope)
    if not slope.any():  # a flat model says nothing about b: stay where the search is
        return model.minimum(low, high, near)
    steep = slope != 0.0
    reach = (top - offset[steep]) / slope[steep]  # where lines leave through the top
    b = np.unique(np.concatenate([b, reach[(reach > low) & (reach < high)]]))
    # Between two corners the room below the top is a trapezium: its area and moments in closed form.
    room = np.maximum(top - model.at(b), 0.0)
    width, left, right = np.diff(b), room[:-1], room[1:]
    area = 0.5 * (left + right) * width
    if not area.sum() > 0.0:
        return 0.5 * (low + high), top
    moment_b = area * b[:-1] + width**2 * (left + 2.0 * right) / 6.0
    depth = width * (left**2 + left * right + right**2) / 6.0
    return float(moment_b.sum() / area.sum()), top - float(depth.sum() / area.sum())


def solve_by_maximisation(
    sub: ConstrainedHinge, *, tol: float, start: ConvexState | None, rho: float, budget: Budget
) -> ConvexResult:
    """The nest with the maximisers of the cuts, over multipliers (E.1) and bias (F.2.1)."""
    return cutting_plane.solve(sub, tol=tol, start=start, rho=rho, budget=budget, chooser=maximisation)


def solve_by_centre_of_mass(
    sub: ConstrainedHinge, *, tol: float, start: ConvexState | None, rho: float, budget: Budget
) -> ConvexResult:
    """The nest with centres of mass, over multipliers (E.2) and bias (F.2.2)."""
    return cutting_plane.solve(
        sub, tol=tol, start=start, rho=rho, budget=budget, chooser=CentreOfMass(), bias_chooser=bias_centre_of_mass
    )
