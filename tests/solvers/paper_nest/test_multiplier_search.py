"""Choosers on given regions: what they promise, degenerate cuts included."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize
from testing.cut_regions import degenerate_regions, random_region

from widemargin.solvers.paper_nest.multiplier_search import LevelMethod

level = LevelMethod()


@settings(max_examples=60)
@given(region=degenerate_regions())
def test_choices_lie_in_the_region(region):
    v, eps = level(region)
    gap = region.upper - region.lower
    assert ((v >= 0.0) & (v <= region.top)).all()
    assert eps <= 0.5 * gap + 1e-15
    assert eps > 0.0 or gap <= 1e-12
    size = 1.0 + np.abs(region.value).max() + np.abs(region.excess).max() * region.top.max()
    assert region.at(v) >= region.lower + 2.0 * eps - 1e-8 * size


@settings(max_examples=60)
@given(region=degenerate_regions())
def test_level_is_no_farther_than_the_peak(region):
    v, _ = level(region)
    assert np.linalg.norm(v - region.best) <= np.linalg.norm(region.peak - region.best) * (1.0 + 1e-9) + 1e-12


@pytest.mark.parametrize("m", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_level_is_a_projection(m, seed):
    region = random_region(seed, m, k=3 * m)
    v, eps = level(region)
    z = region.lower + 2.0 * eps
    assert eps == pytest.approx(0.45 * (region.upper - region.lower))
    reference = minimize(
        lambda x: ((x - region.best) ** 2).sum(), region.peak, jac=lambda x: 2.0 * (x - region.best),
        bounds=[(0.0, top) for top in region.top], method="SLSQP", options={"ftol": 1e-15, "maxiter": 500},
        constraints={
            "type": "ineq", "fun": lambda x: region.value + region.excess @ x - z, "jac": lambda x: region.excess
        },
    )  # fmt: skip
    np.testing.assert_allclose(v, reference.x, atol=1e-6)


def test_level_does_without_a_projection(monkeypatch):
    region = random_region(1, 3)
    z = region.lower + 0.9 * (region.upper - region.lower)

    def gives_up(E, f):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("widemargin.solvers.paper_nest.multiplier_search.nnls", gives_up)
    v, _ = level(region)
    assert region.at(v) >= z - 1e-12
    assert np.linalg.norm(v - region.best) <= np.linalg.norm(region.peak - region.best)


@pytest.mark.parametrize("seed", range(3))
def test_level_with_many_multipliers_and_cuts(seed):
    region = random_region(seed, 40, k=160)
    v, eps = level(region)
    assert region.at(v) == pytest.approx(region.lower + 2.0 * eps, abs=1e-6 * (region.upper - region.lower))


def test_level_stays_where_the_cuts_are_high_enough():
    region = random_region(0, 2)
    there = region._replace(best=region.peak)
    np.testing.assert_array_equal(level(there).v, region.peak)
