"""The paper's cut choosers on given regions, degenerate cuts included."""

import numpy as np
import pytest
from hypothesis import given, settings
from testing.cut_regions import degenerate_regions, random_region

from widemargin_papers.solvers.centre_of_mass import exact_mass
from widemargin_papers.solvers.cut_choosers import CHOOSERS, CentreOfMass, make_chooser, maximisation


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
