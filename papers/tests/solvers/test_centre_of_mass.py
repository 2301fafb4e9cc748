"""The exact centre of mass against qhull, integration and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.spatial import ConvexHull, Delaunay, HalfspaceIntersection
from testing.cut_regions import degenerate_regions, random_region, region_of

from widemargin_papers.solvers import centre_of_mass as loops
from widemargin_papers.solvers.centre_of_mass import exact_mass, halfspaces
from widemargin_papers.solvers.hit_and_run import inner_point


def qhull_mass(region):
    """Volume and centre of mass of a region: its corners, cut into simplices."""
    A, b = halfspaces(region)
    inner = inner_point(A, b, np.append(region.top, region.upper - region.lower))
    corners = HalfspaceIntersection(np.column_stack([A, -b]), inner).intersections
    simplices = corners[Delaunay(corners).simplices]
    edges = simplices[:, 1:] - simplices[:, :1]
    volumes = np.abs(np.linalg.det(edges))
    centre = volumes @ simplices.mean(axis=1) / volumes.sum()
    return ConvexHull(corners).volume, centre


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("thin", [1.0, 1e-3])
@pytest.mark.parametrize("seed", range(10))
def test_equals_qhull(m, thin, seed):
    region = random_region(seed, m, thin=thin)
    mass = exact_mass(region)
    volume, centre = qhull_mass(region)
    assert mass.volume == pytest.approx(volume, rel=1e-9)
    assert [*mass.v, mass.z] == pytest.approx(centre, rel=1e-7)


def integrated(region, points=2000):
    """Volume and first moments by the midpoint rule; the second multiplier on a coarser grid."""
    m = region.top.shape[0]
    sizes = (points,) if m == 1 else (300, 300)
    axes = [(np.arange(size) + 0.5) / size * top for size, top in zip(sizes, region.top, strict=True)]
    v = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
    height = np.maximum((region.value + v @ region.excess.T).min(axis=1) - region.lower, 0.0)
    cell = np.prod(region.top) / v.shape[0]
    volume = cell * height.sum()
    return volume, cell * (height @ v), region.lower * volume + cell * 0.5 * (height @ height)


@settings(max_examples=150)
@given(degenerate_regions(most=2))
def test_degenerate_cuts_are_integrated(region):
    mass = exact_mass(region)
    volume, moment, moment_z = integrated(region)
    room = float(np.prod(region.top)) * max(region.upper - region.lower, 0.0)
    if mass is None:
        assert volume <= 1e-9 * (1.0 + room)
        return
    assert mass.volume == pytest.approx(volume, abs=5e-3 * room)
    assert ((mass.v >= 0.0) & (mass.v <= region.top)).all()
    assert region.lower <= mass.z <= region.upper + 1e-12
    assert mass.z <= region.at(mass.v) + 1e-9 * (1.0 + abs(region.upper))  # inside, since the region is convex
    assert mass.volume * mass.v == pytest.approx(moment, abs=5e-3 * room * float(region.top.max()))
    assert mass.volume * mass.z == pytest.approx(moment_z, abs=5e-3 * room * (1.0 + abs(region.upper)))


@settings(max_examples=50)
@given(degenerate_regions(most=2))
def test_a_cut_twice_or_above_all_others_changes_nothing(region):
    value = np.concatenate([region.value, region.value[:1], region.value + 0.5])
    excess = np.concatenate([region.excess, region.excess[:1], region.excess])
    before, after = exact_mass(region), exact_mass(region._replace(value=value, excess=excess))
    assert (before is None) == (after is None)
    if before is not None:
        assert after.volume == pytest.approx(before.volume, rel=1e-9)
        assert after.v == pytest.approx(before.v, rel=1e-9)


def test_closed_forms():
    flat = region_of(np.array([3.0]), np.zeros((1, 2)), np.array([2.0, 4.0]), np.zeros(2), 1.5)  # a block
    block = exact_mass(flat)
    assert block.volume == pytest.approx(12.0)
    assert [*block.v, block.z] == pytest.approx([1.0, 2.0, 2.25])
    roof = region_of(np.array([0.0, 2.0]), np.array([[1.0], [-1.0]]), np.array([2.0]), np.array([0.0]), 0.0)
    triangle = exact_mass(roof)
    assert triangle.volume == pytest.approx(1.0)
    assert [*triangle.v, triangle.z] == pytest.approx([1.0, 1.0 / 3.0])
    slopes = np.array([[-1.0, -1.0]])
    corner = exact_mass(region_of(np.array([1.0]), slopes, np.array([5.0, 5.0]), np.array([1.0, 0.0]), 0.0))
    assert corner.volume == pytest.approx(1.0 / 6.0)  # the simplex
    assert [*corner.v, corner.z] == pytest.approx([0.25] * 3)
    none = region_of(np.array([1.0]), np.zeros((1, 0)), np.zeros(0), np.zeros(0), 0.5)
    assert (exact_mass(none).volume, exact_mass(none).z) == (0.5, 0.75)


def test_nothing_left_and_too_many_multipliers():
    region = random_region(0, 2)
    assert exact_mass(region._replace(lower=region.upper + 1e-9)) is None
    with pytest.raises(ValueError, match="3 multipliers"):
        exact_mass(random_region(0, 3))


def test_halfspaces_hold_what_lies_between_the_cuts_and_the_level():
    region = random_region(1, 3)
    A, b = halfspaces(region)
    rng = np.random.default_rng(0)
    for _ in range(200):
        v, z = rng.uniform(-0.1, 1.1, 3), rng.uniform(region.lower - 0.1, region.upper + 0.1)
        inside = (v >= 0).all() and (v <= region.top).all() and region.lower <= z <= region.at(v)
        assert (A @ np.append(v, z) <= b).all() == inside


def test_compiled_equals_plain():
    region = random_region(3, 2, k=12)
    room = 2 * 12 + 16
    results = []
    for moments in (loops.moments, loops.moments.py_func):
        out = np.empty(4)
        moments(region.value - region.lower, region.excess, region.top, np.empty((room, 2)), np.empty((room, 2)), out)
        results.append(out)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-13)


def test_clip_keeps_the_side_asked_for():
    square = np.zeros((8, 2))
    square[:4] = [[0, 0], [1, 0], [1, 1], [0, 1]]
    for clip in (loops.clip, loops.clip.py_func):
        out = np.zeros((8, 2))
        assert clip(square, 4, 1.0, 1.0, -0.5, out) == 5
        assert (out[:5].sum(axis=1) >= 0.5 - 1e-12).all()
        assert clip(square, 4, 1.0, 0.0, -2.0, out) == 0
        assert clip(square, 4, 1.0, 0.0, 0.0, out) == 4
        assert clip(square, 0, 1.0, 0.0, 0.0, out) == 0
