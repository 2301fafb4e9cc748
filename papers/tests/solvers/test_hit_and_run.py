"""Hit-and-run against closed forms and the exact centre of mass."""

import numpy as np
import pytest
from testing.cut_regions import random_region

from widemargin_papers.solvers import hit_and_run as loops
from widemargin_papers.solvers.centre_of_mass import exact_mass, halfspaces
from widemargin_papers.solvers.hit_and_run import HitAndRun, inner_point


def scale_of(region):
    return np.append(region.top, region.upper - region.lower)


def test_a_long_simplex_is_sampled_uniformly():
    d, lengths = 4, np.array([1.0, 1e-3, 100.0, 1.0])
    A, b = np.vstack([-np.eye(d), (1.0 / lengths)[None]]), np.append(np.zeros(d), 1.0)
    sampler = HitAndRun(0)
    points = np.concatenate([sampler.sample(A, b, lengths) for _ in range(10)]) / lengths
    assert (points >= 0.0).all()
    assert (points.sum(axis=1) <= 1.0 + 1e-12).all()
    np.testing.assert_allclose(points.mean(axis=0), 1.0 / (d + 1), atol=0.01)
    variance = d / ((d + 1) ** 2 * (d + 2))  # of a Dirichlet with d + 1 ones
    np.testing.assert_allclose(np.cov(points.T), variance * (np.eye(d) * (d + 1) - 1.0) / d, atol=0.1 * variance)
    np.testing.assert_allclose(np.mean(points[:, 0] > 0.5), 0.5**d, atol=0.015)


@pytest.mark.parametrize("thin", [1.0, 1e-4])
@pytest.mark.parametrize("seed", range(6))
def test_the_mean_is_the_exact_centre_of_mass(seed, thin):
    region = random_region(seed, 2, thin=thin)
    points = HitAndRun(seed).sample(*halfspaces(region), scale_of(region))
    mass = exact_mass(region)
    off = (points.mean(axis=0) - np.append(mass.v, mass.z)) / points.std(axis=0)
    assert np.abs(off).max() < 0.2  # 2000 steps, worth some hundred independent points


@pytest.mark.parametrize("m", [3, 10])
def test_half_of_the_volume_lies_beyond_no_centre(m):
    region = random_region(4, m, k=3 * m)
    sampler = HitAndRun(1)
    centre = sampler.sample(*halfspaces(region), scale_of(region)).mean(axis=0)
    points = np.concatenate([sampler.sample(*halfspaces(region), scale_of(region)) for _ in range(5)])
    for direction in np.random.default_rng(0).standard_normal((50, m + 1)):
        share = np.mean(points @ direction > centre @ direction)
        assert 1.0 / np.e - 0.05 <= share <= 1.0 - 1.0 / np.e + 0.05  # Gruenbaum, for an exact centre


def test_a_cut_leaves_a_warm_start(monkeypatch):
    region = random_region(2, 3)
    A, b = halfspaces(region)
    sampler, cold = HitAndRun(0), HitAndRun(5)
    centre = sampler.sample(A, b, scale_of(region)).mean(axis=0)
    monkeypatch.setattr("widemargin_papers.solvers.hit_and_run.inner_point", None)  # not asked for
    normal = np.array([1.0, 0.5, -0.5, 0.0])
    cut = np.vstack([A, normal]), np.append(b, normal @ centre)
    warm = sampler.sample(*cut, scale_of(region))
    assert (warm @ normal <= normal @ centre + 1e-12).all()
    monkeypatch.undo()
    reference = np.concatenate([cold.sample(*cut, scale_of(region)) for _ in range(5)])
    off = (warm.mean(axis=0) - reference.mean(axis=0)) / reference.std(axis=0)
    assert np.abs(off).max() < 0.25


def test_same_seed_gives_the_same_points():
    region = random_region(7, 3)
    first, second, other = (HitAndRun(seed).sample(*halfspaces(region), scale_of(region)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_empty_and_flat_polytopes_are_refused():
    box = np.vstack([np.eye(2), -np.eye(2)])
    for b in (np.array([1.0, 1.0, -2.0, 0.0]), np.array([1.0, 1.0, -1.0, 0.0])):
        assert inner_point(box, b, np.ones(2)) is None
        assert HitAndRun(0).sample(box, b, np.ones(2)) is None
    centre = inner_point(box, np.array([1.0, 1e-6, 0.0, 0.0]), np.array([1.0, 1e-6]))
    assert centre == pytest.approx([0.5, 5e-7])


def test_compiled_equals_plain():
    rng = np.random.default_rng(0)
    slack, slopes, draws = rng.random(7), rng.standard_normal((20, 7)), rng.random(20)
    slopes[:, 0], slopes[:, 1] = 1.0, -1.0  # bounded both ways
    results = []
    for walk in (loops.walk, loops.walk.py_func):
        left, steps = slack.copy(), np.empty(20)
        walk(left, slopes, draws, steps)
        results.append((left, steps))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-13)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-13)
    assert (results[0][0] >= 0.0).all()
    np.testing.assert_allclose(results[0][0], slack - results[0][1] @ slopes, atol=1e-12)
