"""The losses of margin pursuit: values at hand, exact derivatives, convexity, limits, compiled = plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from widemargin.exceptions import DataError
from widemargin.losses import CatoniLoss, LogCoshLoss
from widemargin.losses.margin import KNEE, LOSSES, TOP, fill, psi, psi_slope, rho, sum_losses

KINDS = pytest.mark.parametrize("made", [CatoniLoss, LogCoshLoss])
margins = st.floats(-20.0, 20.0) | st.sampled_from([0.0, 1.0, -1.0])
positive = st.floats(0.05, 20.0)


def test_catoni_and_giulini_by_the_papers_formula():
    u = np.array([0.0, 0.5, -1.0, KNEE, 1.5, -4.0])
    expected = np.where(np.abs(u) <= KNEE, u**2 / 2 - u**4 / 24, np.abs(u) * 2 * np.sqrt(2) / 3 - 0.5)
    np.testing.assert_allclose(CatoniLoss(1.0, 1.0).value(1.0 - u), expected, rtol=1e-14)
    slope = np.where(np.abs(u) <= KNEE, u - u**3 / 6, np.sign(u) * 2 * np.sqrt(2) / 3)
    np.testing.assert_allclose(CatoniLoss(1.0, 1.0).slope(1.0 - u), -slope, rtol=1e-14, atol=1e-15)


def test_log_cosh_is_the_logarithm_of_cosh_near_and_far():
    u = np.array([1e-9, 1e-3, 0.3, 0.5, 0.7, 3.0, -2.0])
    np.testing.assert_allclose(LogCoshLoss(2.0, 1.0).value(2.0 - u)[1:], np.log(np.cosh(u))[1:], rtol=1e-9)
    assert LogCoshLoss(1.0, 1.0).value(1e4) == pytest.approx(1e4 - 1 - np.log(2), rel=1e-15)
    assert rho(1, 1e-9) == pytest.approx(5e-19, rel=1e-12)


@KINDS
@given(m=margins, level=positive, scale=positive)
def test_value_is_the_integral_of_the_slope_and_slope_of_the_curvature(made, m, level, scale):
    loss = made(level, scale)
    bends = sorted(level + side * KNEE * scale for side in (-1, 1))
    for outer, inner in ((loss.value, loss.slope), (loss.slope, loss.curvature)):
        area = quad(lambda t, f=inner: float(f(t)), level, m, points=bends, limit=200, epsabs=1e-11)[0]
        assert float(outer(m) - outer(level)) == pytest.approx(area, rel=1e-8, abs=1e-8)


@KINDS
@given(m=margins, other=margins, share=st.floats(0.0, 1.0), level=positive, scale=positive)
def test_convex_even_around_the_level_and_of_bounded_slope(made, m, other, share, level, scale):
    loss = made(level, scale)
    between = float(loss.value(share * m + (1 - share) * other))
    chord = share * float(loss.value(m)) + (1 - share) * float(loss.value(other))
    assert between <= chord + 1e-9 * (1 + chord)
    assert float(loss.value(level + m)) == pytest.approx(float(loss.value(level - m)), rel=1e-9, abs=1e-12)
    assert abs(float(loss.slope(m))) <= loss.largest_slope * (1 + 1e-12)
    assert 0.0 <= float(loss.curvature(m)) <= 1.0


@KINDS
def test_limits_of_the_scale_are_a_square_and_an_absolute_value(made):
    m = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(made(1.0, 1e4).value(m), 0.5 * (1 - m) ** 2, rtol=1e-6)
    small = made(1.0, 1e-6)
    np.testing.assert_allclose(small.value(m) / small.largest_slope, np.abs(1 - m), atol=1e-5)


@KINDS
def test_totals_are_weighted_sums(made):
    rng = np.random.default_rng(0)
    m, weight = rng.normal(size=40) * 3, rng.random(40)
    loss, slopes = made(0.7, 0.4), np.empty(40)
    assert loss.total(m, weight, slopes) == pytest.approx(float(weight @ loss.value(m)), rel=1e-13)
    np.testing.assert_allclose(slopes, weight * loss.slope(m), rtol=1e-13)
    expected = weight * loss.slope(m)
    loss.total(m, weight, m)  # in place
    np.testing.assert_allclose(m, expected, rtol=1e-13)


def test_margins_may_have_any_shape():
    loss = CatoniLoss()
    assert loss.value(0.5).shape == ()
    assert loss.slope(np.zeros((2, 3))).shape == (2, 3)
    assert loss.curvature([[1.0]]).tolist() == [[1.0]]


@pytest.mark.parametrize("kind", [0, 1])
def test_compiled_formulas_equal_their_python_source(kind):
    rng = np.random.default_rng(0)
    m, weight = rng.normal(size=30) * 2, rng.random(30)
    for function in (rho, psi, psi_slope):
        for u in m:
            assert function(kind, u) == pytest.approx(function.py_func(kind, u), rel=1e-14)
    totals, slopes = [], np.empty((2, 30))
    for run, out in ((sum_losses, slopes[0]), (sum_losses.py_func, slopes[1])):
        totals.append(run(kind, 1.0, 0.5, m, weight, out))
    assert totals[0] == pytest.approx(totals[1], rel=1e-13)
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-13)
    for order in (0, 1, 2):
        filled = np.empty((2, 30))
        fill(kind, order, 1.0, 0.5, m, filled[0])
        fill.py_func(kind, order, 1.0, 0.5, m, filled[1])
        np.testing.assert_allclose(filled[0], filled[1], rtol=1e-13)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
def test_parameters_that_make_no_loss_are_refused(bad):
    with pytest.raises(DataError, match=r"scale is .*; it must be a positive number"):
        CatoniLoss(1.0, bad)
    with pytest.raises(DataError, match="margin_level is"):
        LogCoshLoss(bad)


def test_names_and_scales():
    assert set(LOSSES) == {"catoni", "log-cosh"}
    assert CatoniLoss(2.0, 1.0).at_scale(3.0) == CatoniLoss(2.0, 3.0)
    assert CatoniLoss(1.0, 2.0).largest_slope == pytest.approx(2.0 * TOP)
