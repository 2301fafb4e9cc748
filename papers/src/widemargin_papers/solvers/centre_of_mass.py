"""The centre of mass of the region that the cuts leave (the paper's Equation 12), exactly for m <= 2 multipliers.

The volume of that region is what a step of the centre-of-mass cutting plane shrinks by 1 - 1/2e at least. Above the box
the region `{(x, y, z): 0 <= z <= value_s + excess_s . (x, y) for all s}` falls into one piece a cut: over the convex
polygon where this cut is positive and the lowest of all. A piece is cut from the box line by line.
"""

from typing import NamedTuple

import numpy as np

from widemargin.extending import Floats, kernel
from widemargin.solvers.paper_nest.multiplier_search import CutRegion


class Mass(NamedTuple):
    """Volume of a region and its centre of mass (v, z)."""

    volume: float
    v: Floats
    z: float


def halfspaces(region: CutRegion) -> tuple[Floats, Floats]:
    """A of shape (k + 2m + 1, m + 1) and b with the region `{x = (v, z): A x <= b}`."""
    k, m = region.excess.shape
    eye, none = np.eye(m), np.zeros((m, 1))
    cuts = np.hstack([-region.excess, np.ones((k, 1))])
    floor = np.append(np.zeros(m), -1.0)
    A = np.vstack([cuts, np.hstack([eye, none]), np.hstack([-eye, none]), floor])
    return A, np.concatenate([region.value, region.top, np.zeros(m), [-region.lower]])


def exact_mass(region: CutRegion) -> Mass | None:
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
    moments(region.value - region.lower, excess, box, np.empty((room, 2)), np.empty((room, 2)), out)
    if not out[0] > 0.0:
        return None
    centre = out[1:] / out[0]
    return Mass(float(out[0]), np.clip(centre[:m], 0.0, region.top), region.lower + float(centre[2]))


@kernel
def clip(polygon: Floats, n: int, a: float, b: float, c: float, out: Floats) -> int:
    """Write the part of a convex polygon with `a x + b y + c >= 0` to `out`; return its number of corners.

    `polygon` and `out` have shape (capacity, 2); the polygon has its corners in order in the first n rows.
    """
    kept = 0
    if n == 0:
        return 0
    x0, y0 = polygon[n - 1, 0], polygon[n - 1, 1]
    h0 = a * x0 + b * y0 + c
    for i in range(n):
        x1, y1 = polygon[i, 0], polygon[i, 1]
        h1 = a * x1 + b * y1 + c
        if (h0 > 0.0 and h1 < 0.0) or (h0 < 0.0 and h1 > 0.0):
            t = h0 / (h0 - h1)
            out[kept, 0], out[kept, 1] = x0 + t * (x1 - x0), y0 + t * (y1 - y0)
            kept += 1
        if h1 >= 0.0:
            out[kept, 0], out[kept, 1] = x1, y1
            kept += 1
        if kept >= out.shape[0] - 1:  # rounding may bend nearly straight corners; a convex polygon never gets here
            break
        x0, y0, h0 = x1, y1, h1
    return kept


@kernel
def moments(value: Floats, excess: Floats, top: Floats, polygon: Floats, other: Floats, out: Floats) -> None:
    """Set `out` to the volume of the region and its first moments in x, y and z.

    `value` has shape (k,), `excess` (k, 2), `top` (2,); `polygon` and `other` are work space of shape (2 k + 16, 2).
    """
    out[:] = 0.0
    for s in range(value.shape[0]):
        polygon[0, 0], polygon[0, 1] = 0.0, 0.0
        polygon[1, 0], polygon[1, 1] = top[0], 0.0
        polygon[2, 0], polygon[2, 1] = top[0], top[1]
        polygon[3, 0], polygon[3, 1] = 0.0, top[1]
        n = clip(polygon, 4, excess[s, 0], excess[s, 1], value[s], other)
        polygon, other = other, polygon
        for r in range(value.shape[0]):
            if n == 0:
                break
            a, b, c = excess[r, 0] - excess[s, 0], excess[r, 1] - excess[s, 1], value[r] - value[s]
            if a == 0.0 and b == 0.0 and c == 0.0:  # the same cut twice: the first counts
                n = 0 if r < s else n
                continue
            n = clip(polygon, n, a, b, c, other)
            polygon, other = other, polygon
        x0, y0 = polygon[0, 0], polygon[0, 1]
        h0 = max(0.0, value[s] + excess[s, 0] * x0 + excess[s, 1] * y0)
        for i in range(1, n - 1):  # triangles from the first corner
            x1, y1, x2, y2 = polygon[i, 0], polygon[i, 1], polygon[i + 1, 0], polygon[i + 1, 1]
            h1 = max(0.0, value[s] + excess[s, 0] * x1 + excess[s, 1] * y1)
            h2 = max(0.0, value[s] + excess[s, 0] * x2 + excess[s, 1] * y2)
            area = 0.5 * abs((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0))
            h = h0 + h1 + h2
            out[0] += area * h / 3.0
            out[1] += area * (x0 * (h0 + h) + x1 * (h1 + h) + x2 * (h2 + h)) / 12.0
            out[2] += area * (y0 * (h0 + h) + y1 * (h1 + h) + y2 * (h2 + h)) / 12.0
            out[3] += area * (h0 * h0 + h1 * h1 + h2 * h2 + h0 * h1 + h1 * h2 + h0 * h2) / 12.0
