"""Regions between cuts and a level, for the tests of the cut choosers; degenerate ones too."""

import numpy as np
from hypothesis import strategies as st

from widemargin.solvers.highs import CutModel
from widemargin.solvers.paper_nest.multiplier_search import CutRegion

__all__ = ["degenerate_regions", "random_region", "region_of"]


def region_of(value: np.ndarray, excess: np.ndarray, top: np.ndarray, best: np.ndarray, depth: float) -> CutRegion:
    """The region of these cuts whose level is `depth` below them at `best`."""
    model = CutModel(top)
    for row, slope in zip(value, excess, strict=True):
        model.add(float(row), slope)
    upper, peak, _ = model.maximise()
    lower = float((value + excess @ best).min()) - depth
    return CutRegion(value, excess, top, lower, upper, peak, best)


def random_region(seed: int, m: int, k: int = 8, *, thin: float = 1.0) -> CutRegion:
    """Tangents of a concave quadratic at k points, the level of a point nearby; `thin` scales the last multiplier."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((m, m))
    curvature = half @ half.T + 0.1 * np.eye(m)
    centre, points = rng.uniform(0.2, 0.8, m), rng.uniform(0.0, 1.0, (k, m))
    excess = -(points - centre) @ curvature
    value = 0.3 - 0.5 * np.einsum("ij,jk,ik->i", points - centre, curvature, points - centre)
    value -= np.einsum("ij,ij->i", excess, points)
    scale = np.append(np.ones(m - 1), thin)
    best = np.clip(centre + 0.1 * rng.standard_normal(m), 0.0, 1.0)
    return region_of(value, excess / scale, scale.copy(), best * scale, 0.02)


@st.composite
def degenerate_regions(draw: st.DrawFn, most: int = 3) -> CutRegion:
    """Cuts on a coarse grid: equal, parallel, flat, redundant and meeting ones are common; the box may be long."""
    m = draw(st.integers(1, most))
    coarse = st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])
    cuts = draw(st.lists(st.tuples(coarse, *[coarse] * m), min_size=1, max_size=8))
    table = np.array(cuts)
    top = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 64.0]), min_size=m, max_size=m)))
    best = np.array(draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=m, max_size=m))) * top
    depth = draw(st.sampled_from([0.0, 1e-9, 1e-3, 0.5]))
    return region_of(table[:, 0], table[:, 1:], top, best, depth)
