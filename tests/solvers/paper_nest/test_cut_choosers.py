"""Choosers on given regions: what they promise, degenerate cuts included."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize
from testing.cut_regions import degenerate_regions, random_region

from widemargin.solvers.paper_nest.cut_choosers import CHOOSERS, CentreOfMass, level, make_chooser, maximisation
from widemargin.solvers.paper_nest.hypograph import exact_mass


@pytest.mark.parametrize("name", CHOOSERS)
@settings(max_examples=60)
@given(region=degenerate_regions())
def test_choices_lie_in_the_region(name, region):
    v, eps = make_chooser(name)(region)
    gap = region.upper - region.lower
    assert ((v >= 0.0) & (v <= region.top)).all()
    assert eps <= 0.5 * gap + 1e-15
    assert eps > 0.0 or gap <= 1e-12
    size = 1.0 + np.abs(region.value).max() + np.abs(region.excess).max() * region.top.max()
    assert region.at(v) >= region.lower + 2.0 * eps - 1e-8 * size or name == "maximisation"


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

    monkeypatch.setattr("widemargin.solvers.paper_nest.cut_choosers.nnls", gives_up)
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


def test_maximisation_is_the_peak():
    region = random_region(0, 3)
    v, eps = maximisation(region)
    np.testing.assert_array_equal(v, region.peak)
    assert eps == 0.5 * (region.upper - region.lower)


@pytest.mark.parametrize("m", [1, 2])
def test_centre_of_mass_is_exact_for_few_multipliers(m):
    region = random_region(5, m)
    mass = exact_mass(region)
    v, eps = CentreOfMass()(region)
    np.testing.assert_array_equal(v, mass.v)
    assert eps == 0.5 * (mass.z - region.lower)


def test_sampled_centres_of_mass_are_seeded():
    region = random_region(5, 4)
    first, second, other = (CentreOfMass(seed)(region).v for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert 0.0 < np.abs(first - other).max() < 0.1


def test_an_empty_region_falls_back_to_the_peak():
    for m in (1, 2, 4):
        region = random_region(6, m)
        closed = region._replace(lower=region.upper)
        v, eps = CentreOfMass()(closed)
        np.testing.assert_array_equal(v, region.peak)
        assert eps == 0.0


def test_unknown_choosers_are_refused():
    with pytest.raises(ValueError, match="'centre'; use 'level', 'maximisation' or 'centre_of_mass'"):
        make_chooser("centre")
