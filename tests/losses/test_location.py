"""The Catoni estimator: its root, its limits, how little one outlier moves it, and what its radius promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from widemargin.exceptions import DataError
from widemargin.losses import CatoniLoss, catoni_location, catoni_scale
from widemargin.losses.location import location_root
from widemargin.losses.margin import KNEE

samples = st.lists(st.floats(-100.0, 100.0), min_size=1, max_size=25).map(np.array)
scales = st.floats(0.01, 50.0)


def influence(theta, sample, scale):
    """Sum of psi((theta - m) / s)."""
    return float(-CatoniLoss(1.0, 1.0).slope(1.0 - (theta - sample) / scale).sum())


@given(sample=samples, scale=scales)
def test_the_estimate_is_a_root_between_the_extremes(sample, scale):
    theta = catoni_location(sample, scale).value
    assert sample.min() <= theta <= sample.max()
    below, above = (influence(theta + step, sample, scale) for step in (-1e-7, 1e-7))
    assert below <= 1e-9 and above >= -1e-9


def test_a_bracketed_root_finder_agrees():
    rng = np.random.default_rng(0)
    for scale in (0.3, 1.0, 10.0):
        sample = rng.standard_t(2, size=60)
        expected = brentq(influence, sample.min(), sample.max(), args=(sample, scale), xtol=1e-14)
        assert catoni_location(sample, scale).value == pytest.approx(expected, abs=1e-12)


@given(sample=samples)
def test_limits_are_median_and_mean(sample):
    assert catoni_location(sample, 1e7).value == pytest.approx(sample.mean(), abs=1e-6)
    if np.unique(sample).shape[0] == sample.shape[0] and np.diff(np.sort(sample)).min(initial=1.0) > 1e-3:
        assert catoni_location(sample, 1e-6).value == pytest.approx(np.median(sample), abs=1e-5)


@pytest.mark.parametrize("scale", [1e8, 1e10, 1e14, 1e16, 1e20, 1e100])
def test_the_mean_is_kept_at_scales_far_above_the_sample(scale):
    for sample in (np.array([0.0, 0.0, 0.0, 10.0, 1.0]), np.random.default_rng(0).normal(size=99) * 1e-6):
        assert catoni_location(sample, scale).value == pytest.approx(sample.mean(), rel=1e-9, abs=1e-22)


def test_weights_may_put_the_root_far_from_the_median_of_the_rows():
    """Ten rows at 0 against two at 1e100: each of the two pulls by (2 sqrt 2)/3, so psi(theta) is a fifth of that."""
    found = catoni_location([0.0, 1e100, 1e100], scale=1.0, sample_weight=[10.0, 1.0, 1.0]).value
    assert found - found**3 / 6.0 == pytest.approx(2.0 / 10.0 * 2.0 * KNEE / 3.0, rel=1e-12)


@given(sample=samples, shift=st.floats(-10, 10), factor=st.floats(0.1, 10), scale=scales)
def test_moves_and_scales_with_the_sample_and_is_monotone(sample, shift, factor, scale):
    theta = catoni_location(sample, scale).value
    moved = catoni_location(factor * sample + shift, factor * scale).value
    middle_of_flat = 2e-12 * sample.shape[0] * factor * scale  # a slope of 0 leaves rounding to decide
    assert moved == pytest.approx(factor * theta + shift, abs=1e-7 + middle_of_flat)
    raised = sample.copy()
    raised[0] += 5.0
    assert catoni_location(raised, scale).value >= theta - 1e-7


@given(far=st.floats(-1e12, 1e12), seed=st.integers(0, 50))
def test_one_arbitrary_outlier_moves_it_by_a_bounded_distance(far, seed):
    """Its influence is at most TOP, and near the root the sum has a slope of (points within the knee) / s or so."""
    sample = np.random.default_rng(seed).normal(size=50)
    with_outlier = sample.copy()
    with_outlier[0] = far
    moved = abs(catoni_location(with_outlier, 2.0).value - catoni_location(sample, 2.0).value)
    assert moved < 0.2
    if abs(far) > 1e4:
        assert abs(with_outlier.mean() - sample.mean()) > 100.0


def test_where_no_point_is_near_it_is_the_middle_as_the_median():
    assert catoni_location([0.0, 10.0], 0.1).value == pytest.approx(5.0)
    assert catoni_location([0.0, 1.0, 9.0, 10.0], 0.1).value == pytest.approx(5.0)
    assert catoni_location([3.0], 0.1).value == 3.0


def test_columns_groups_and_weights():
    rng = np.random.default_rng(1)
    table, group = rng.normal(size=(40, 3)), np.repeat(["b", "a"], 20)
    found = catoni_location(table, [0.5, 1.0, 2.0], groups=group)
    assert found.value.shape == found.radius.shape == (2, 3)
    for row, name in enumerate("ab"):
        for j, scale in enumerate((0.5, 1.0, 2.0)):
            alone = catoni_location(table[group == name, j], scale)
            assert found.value[row, j] == alone.value
            assert found.radius[row, j] == pytest.approx(alone.radius)
    assert catoni_location(table, 1.0).value.shape == (3,)
    assert catoni_location(table[:, 0], [0.5, 1.0], groups=group).value.shape == (2,)
    weight = rng.integers(0, 3, 40)
    twice = catoni_location(np.repeat(table, weight, axis=0), 0.7).value
    np.testing.assert_allclose(catoni_location(table, 0.7, sample_weight=weight).value, twice, atol=1e-13)


def test_the_radius_is_that_of_lemma_6_and_least_at_the_catoni_scale():
    sample = np.random.default_rng(2).normal(size=400)
    variance, tail = sample.var(), 2 * np.log(2 / 0.1) / 400
    assert catoni_location(sample, 2.0, 0.1).radius == pytest.approx(variance / 2.0 + 2.0 * tail)
    best = catoni_location(sample, "catoni", 0.1)
    scale = catoni_scale(variance, 400, 0.1)
    assert best.radius == pytest.approx(2 * np.sqrt(variance * tail))
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert catoni_location(sample, factor * scale, 0.1).radius > best.radius
    assert catoni_location(sample, 1e-3).radius == np.inf  # Lemma 6 does not hold there
    assert catoni_location(sample[:3]).radius == np.inf


def test_the_radius_covers_the_mean_of_heavy_tails():
    rng = np.random.default_rng(3)
    sample = rng.standard_t(3, size=(200, 300))
    found = catoni_location(sample, "catoni", 0.05, variance=3.0)
    assert (np.abs(found.value) <= found.radius).mean() >= 0.95


def test_the_compiled_root_is_that_of_its_python_source():
    rng = np.random.default_rng(4)
    for scale in (0.01, 1.0):
        sample, weight = rng.normal(size=20), rng.random(20)
        compiled = location_root(sample, weight, scale, 0, 0.3)
        assert compiled == pytest.approx(location_root.py_func(sample, weight, scale, 0, -5.0), abs=1e-13)
    assert abs(compiled - sample.mean()) < KNEE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample": []}, r"sample has the shape \(0,\)"),
        ({"sample": np.zeros((2, 2, 2))}, "sample has the shape"),
        ({"sample": [1.0, np.nan]}, "not finite"),
        ({"scale": 0.0}, "positive"),
        ({"scale": "mean"}, "'catoni'"),
        ({"delta": 1.0}, "between 0 and 1"),
        ({"groups": [1]}, "groups has the shape"),
        ({"sample_weight": [0.0, 0.0]}, "weight 0"),
        ({"sample_weight": [-1.0, 2.0]}, "not negative"),
        ({"sample": [1.0, 1e200]}, "beyond 1e"),
        ({"sample": ["a", "b"]}, "sample does not hold numbers"),
        ({"scale": [1.0, 2.0, 3.0]}, r"scale has the shape \(3,\)"),
        ({"delta": [0.1, 0.2]}, "between 0 and 1"),
        ({"groups": ["a", None]}, "1 of 2 values of groups are missing"),
        ({"variance": -1.0}, "variance is -1.0"),
        ({"variance": np.nan}, "variance is nan"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        catoni_location(**({"sample": [1.0, 2.0], "scale": 1.0} | arguments))
