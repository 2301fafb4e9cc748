"""The psi-transform: closed forms against direct minimisation, a bracketed root finder, laws, and its inverse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from widemargin.exceptions import DataError
from widemargin.losses import CatoniLoss, excess_risk_bound, psi_transform, psi_transform_inverse

LEVELS = (0.01, 0.3, 0.7, np.sqrt(0.5), 0.72, 1.0, 1.2, 1.41, np.sqrt(2.0), 1.5, 4.0, 60.0)
thetas = st.floats(0.0, 1.0) | st.sampled_from([0.0, 1e-6, 0.5, 1.0])
levels = st.floats(0.05, 30.0)


def risk(loss, theta):
    """The conditional risk of a score u, and its slope."""
    eta = 0.5 * (1.0 + theta)
    return (
        lambda u: float(eta * loss.value(u) + (1 - eta) * loss.value(-u)),
        lambda u: float(eta * loss.slope(u) - (1 - eta) * loss.slope(-u)),
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_psi_is_that_of_direct_minimisation_and_of_a_root_finder(level, scale):
    loss = CatoniLoss(level * scale, scale)
    top = float(loss.value(0.0))
    for theta in (0.0, 1e-3, 0.1, 0.35, 0.6, 0.9, 0.999, 1.0):
        value, slope = risk(loss, theta)
        grid = np.linspace(-loss.margin_level, loss.margin_level, 401)
        place = int(np.argmin([value(u) for u in grid]))
        bounds = grid[max(0, place - 1)], grid[min(400, place + 1)]
        least = min(
            minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-10}).fun, value(grid[-1])
        )
        found = psi_transform(theta, loss.margin_level, scale)
        assert found == pytest.approx(top - least, abs=1e-12 * top)
        if slope(0.0) < 0.0 < slope(loss.margin_level):
            root = brentq(slope, 0.0, loss.margin_level, xtol=1e-15)
            assert found == pytest.approx(top - value(root), abs=1e-12 * top)


@given(theta=thetas, level=levels, scale=levels)
def test_inverse_undoes_it(theta, level, scale):
    value = psi_transform(theta, level, scale)
    found = psi_transform_inverse(value, level, scale)
    rounding = 1e-12 * psi_transform(1.0, level, scale)  # Psi is a difference of numbers as large as phi(0)
    assert psi_transform(found, level, scale) == pytest.approx(value, rel=1e-9, abs=rounding)
    if theta > 1e-3:
        assert found == pytest.approx(theta, abs=1e-7)


@pytest.mark.parametrize("level", LEVELS)
def test_inverse_is_that_of_a_root_finder(level):
    for share in (1e-4, 0.01, 0.2, 0.5, 0.9, 0.9999):
        value = share * psi_transform(1.0, level)
        expected = brentq(lambda t, v=value: psi_transform(t, level) - v, 0.0, 1.0, xtol=1e-14)
        assert psi_transform_inverse(value, level) == pytest.approx(expected, abs=1e-9)


@given(theta=thetas, other=thetas, share=st.floats(0, 1), level=levels)
def test_laws_of_the_transform(theta, other, share, level):
    """Convex, even, Psi(0) = 0, Psi(1) = phi(0), and how it scales."""
    top = float(CatoniLoss(level, 1.0).value(0.0))
    assert psi_transform(0.0, level) == pytest.approx(0.0, abs=1e-14 * top)
    assert psi_transform(1.0, level) == pytest.approx(top, rel=1e-12)
    assert psi_transform(-theta, level) == psi_transform(theta, level)
    between = psi_transform(share * theta + (1 - share) * other, level)
    assert between <= share * psi_transform(theta, level) + (1 - share) * psi_transform(other, level) + 1e-12 * top
    assert psi_transform(theta, 3.0 * level, 3.0) == pytest.approx(
        9.0 * psi_transform(theta, level), rel=1e-9, abs=1e-12
    )


def test_wide_scales_tend_to_least_squares():
    """There H(eta) = 2 eta (1 - eta) gamma^2 and Psi(theta) = gamma^2 theta^2 / 2."""
    theta = np.linspace(0, 1, 11)
    np.testing.assert_allclose(psi_transform(theta, 1.0, 1e4), 0.5 * theta**2, atol=1e-7)


def test_arguments_broadcast():
    found = psi_transform(np.linspace(0, 1, 5)[:, None], np.array([0.5, 1.0, 2.0]), 1.0)
    assert found.shape == (5, 3)
    assert psi_transform_inverse(found, [0.5, 1.0, 2.0]).shape == (5, 3)
    assert isinstance(psi_transform(0.5), float)


def test_the_bound_holds_for_every_decision_on_a_finite_space():
    """Excess errors of random scores on five points, against the bound from their excess surrogate risk."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        share, eta = rng.dirichlet(np.ones(5)), rng.random(5)
        scores, (level, scale) = rng.normal(size=5), rng.uniform(0.2, 3.0, 2)
        loss = CatoniLoss(level, scale)
        surrogate = share @ (eta * loss.value(scores) + (1 - eta) * loss.value(-scores))
        least = float(loss.value(0.0)) - share @ psi_transform(2 * eta - 1, level, scale)
        error = share @ np.where(scores > 0, 1 - eta, eta) - share @ np.minimum(eta, 1 - eta)
        assert error <= excess_risk_bound(surrogate - least, level, scale) + 1e-9
    assert excess_risk_bound(1e9) == 1.0


def test_what_is_out_of_range_is_refused():
    with pytest.raises(DataError, match="theta must lie between -1 and 1"):
        psi_transform([0.0, 1.5])
    with pytest.raises(DataError, match="value must lie between 0 and phi"):
        psi_transform_inverse(10.0)
    with pytest.raises(DataError, match="value must lie"):
        excess_risk_bound(-0.1)
    with pytest.raises(DataError, match="margin_level must be positive"):
        psi_transform(0.5, 0.0)
    with pytest.raises(DataError, match="scale must be positive"):
        psi_transform(0.5, 1.0, np.nan)


@pytest.mark.parametrize("level", [1e-6, 1e-3, 0.1, 0.5, 1.0, 1.3])
def test_no_digits_are_lost_for_small_arguments_and_large_scales(level):
    """Near 0 Psi is `theta^2 psi(level)^2 / (2 psi'(level))`, from the second derivatives of its lines."""
    slope, bend = level - level**3 / 6.0, 1.0 - level**2 / 2.0
    theta = np.array([1e-12, 1e-10, 1e-8, 1e-6])
    found = psi_transform(theta, level, 1.0)
    np.testing.assert_allclose(found, theta**2 * slope**2 / (2.0 * bend), rtol=1e-4)
    np.testing.assert_allclose(psi_transform_inverse(found, level, 1.0), theta, rtol=1e-9)
    tiny = 1e-60
    assert excess_risk_bound(tiny, level, 1.0) == pytest.approx(np.sqrt(2.0 * bend * tiny) / slope, rel=1e-9)
    several = np.array([1e-3, 0.1, 0.5, 0.9])
    round_trip = psi_transform_inverse(psi_transform(several, 1.0, 1.0 / level), 1.0, 1.0 / level)
    np.testing.assert_allclose(round_trip, several, rtol=1e-7)


def test_scales_whose_powers_overflow_are_refused():
    for arguments in ({"scale": 1e200}, {"margin_level": 1e-200}, {"margin_level": 1e40, "scale": 1e-40}):
        with pytest.raises(DataError, match="must"):
            psi_transform(0.5, **arguments)
