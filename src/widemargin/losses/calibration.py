"""Bounds of the error rate by the surrogate risk: the psi-transform of margin pursuit (Holland 2019, Section 3).

The loss phi at level gamma and scale s is classification calibrated (Bartlett, Jordan and McAuliffe 2006). With

    H(eta) = min_u  eta phi(u) + (1 - eta) phi(-u),       Psi(theta) = phi(0) - H((1 + theta)/2)

the excess of the error rate over the least possible one is at most `Psi^-1(excess of the surrogate risk)`. In the units
of the scale (`g = gamma/s`, `Psi_{gamma,s} = s^2 Psi_{g,1}`) the minimiser u, for theta >= 0, lies in [0, g] and solves

    eta psi(g - u) = (1 - eta) psi(g + u)

On the left psi is a cubic polynomial; on the right it is one where `g + u <= sqrt 2` and constant beyond.
"""

import math
from typing import Any

import numpy as np

from widemargin._typing import ArrayLike, Floats
from widemargin.exceptions import DataError
from widemargin.losses.margin import KNEE, TOP

_TINY = 1e-50
"""Powers up to the fourth of numbers between this and its inverse neither vanish nor overflow."""


def psi_transform(theta: ArrayLike, margin_level: ArrayLike = 1.0, scale: ArrayLike = 1.0) -> Any:
    """Psi of margin pursuit in closed form.

    Parameters
    ----------
    theta : float or array-like
        In [-1, 1]; `theta = 2 P(y = 1 | x) - 1` of a row, or an excess error rate.
    margin_level, scale : float or array-like, default=1.0
        gamma and s, positive. All arguments broadcast.

    Returns
    -------
    float or ndarray
        From 0 at `theta = 0` to `phi(0)` at `theta = +-1`; convex and even.

    Raises
    ------
    DataError
        If an argument is out of range.

    Examples
    --------
    >>> from widemargin.losses import psi_transform, psi_transform_inverse
    >>> round(psi_transform(0.5), 6)
    0.149281
    >>> round(psi_transform_inverse(psi_transform(0.5)), 6)
    0.5
    """
    size, g, s = _arguments(theta, margin_level, scale)
    size = np.abs(size)
    if not (size <= 1.0 + 1e-12).all():  # an excess of 1e-12 is rounding
        raise DataError("theta must lie between -1 and 1.")
    return _plain(s * (s * _psi(np.minimum(size, 1.0), g)))


def _psi(size: Floats, g: Floats) -> Floats:
    """Psi at scale 1, of theta in [0, 1]."""
    # Where both arguments of psi lie inside, u is the middle root of
    # u^3 - 3 theta g u^2 + (3 g^2 - 6) u + theta (6 g - g^3). With u = t + theta g that is
    # t^3 - 3 r^2 t + 2 theta (1 - theta^2) g^3, r^2 = 2 - g^2 (1 - theta^2).
    r = np.sqrt(np.maximum(2.0 - g**2 * (1.0 - size**2), 1e-12 * (1.0 + g**2)))
    sine = np.minimum(size * (1.0 - size**2) * (g / r) ** 3, 1.0)
    inside = size * g + 2.0 * r * np.sin(np.arcsin(sine) / 3.0)
    # Where psi(g + u) is constant, g - u is the x in [0, sqrt 2] with x - x^3/6 = v, by Viete's formula.
    v = (1.0 - size) / (1.0 + size) * TOP
    beyond = g - 2.0 * KNEE * np.sin(np.arcsin(np.clip(v / TOP, 0.0, 1.0)) / 3.0)
    # Psi is the largest of the lines theta -> theta B(u) - (A(u) - phi(0)), reached at one of the two roots. At the
    # other u the line is merely lower, so the larger value is right without a decision between the cases.
    found = np.zeros(g.shape)
    for u in (inside, beyond):
        rise, odd = _parts(np.clip(u, 0.0, g), g)
        found = np.maximum(found, size * odd - rise)
    return found


def psi_transform_inverse(value: ArrayLike, margin_level: ArrayLike = 1.0, scale: ArrayLike = 1.0) -> Any:
    """The theta in [0, 1] of which Psi is `value`, by bisection.

    Parameters
    ----------
    value : float or array-like
        In [0, phi(0)].
    margin_level, scale : float or array-like, default=1.0

    Returns
    -------
    float or ndarray

    Raises
    ------
    DataError
        If an argument is out of range.
    """
    a, g, s = _arguments(value, margin_level, scale)
    a = a / s / s
    if not ((a >= 0.0) & (a <= _rho(g) * (1.0 + 1e-12))).all():
        raise DataError("value must lie between 0 and phi(0), the largest value of Psi: psi_transform(1.0, ...).")
    # Psi rises with theta, so every value between tells on which side of it theta is. The logarithm of theta is halved,
    # because small ones need all their digits, too; 70 halvings leave nothing but rounding.
    low, high = np.full(g.shape, math.log(_TINY**4)), np.zeros(g.shape)
    for _ in range(70):
        middle = 0.5 * (low + high)
        is_below = _psi(np.exp(middle), g) < a
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    theta = np.where(a < _rho(g) * (1.0 - 1e-15), np.exp(high), 1.0)  # near its end Psi is flat within rounding
    return _plain(np.where(a > 0.0, theta, 0.0))


def excess_risk_bound(surrogate_excess: ArrayLike, margin_level: ArrayLike = 1.0, scale: ArrayLike = 1.0) -> Any:
    """Bound of the excess error rate of a classifier, from its excess surrogate risk: `Psi^-1(surrogate excess)`.

    Parameters
    ----------
    surrogate_excess : float or array-like
        `E phi(y f(x)) - inf_f E phi(y f(x))`, over all functions f, >= 0. Beyond `phi(0)` the bound is 1.
    margin_level, scale : float or array-like, default=1.0

    Returns
    -------
    float or ndarray
        Bound of `P(sign f(x) != y)` minus the least error rate of any classifier.

    Raises
    ------
    DataError
        If an argument is out of range.

    Examples
    --------
    >>> from widemargin.losses import excess_risk_bound
    >>> float(excess_risk_bound(0.0)), float(excess_risk_bound(10.0))
    (0.0, 1.0)
    """
    excess, g, s = _arguments(surrogate_excess, margin_level, scale)
    return psi_transform_inverse(np.minimum(excess, s * (s * _rho(g))), g * s, s)


def _arguments(value: ArrayLike, margin_level: ArrayLike, scale: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Value, `g = gamma / s` and s, of one shape."""
    given = (np.asarray(item, dtype=np.float64) for item in (value, margin_level, scale))
    value, level, s = np.broadcast_arrays(*given)
    for name, item in (("margin_level", level), ("scale", s)):
        if not ((item > 0.0) & (item >= _TINY) & (item <= 1.0 / _TINY)).all():
            raise DataError(f"{name} must be positive, from {_TINY:g} to {1.0 / _TINY:g}.")
    # Only the ratio matters: Psi is s^2 times that of scale 1.
    g = level / s
    if not ((g >= _TINY) & (g <= 1.0 / _TINY)).all():
        raise DataError(f"margin_level over scale must lie between {_TINY:g} and {1.0 / _TINY:g}.")
    return value, g, s


def _plain(values: Floats) -> Any:
    """A float where all arguments were numbers."""
    return values if np.ndim(values) else float(values)


def _parts(u: Floats, g: Floats) -> tuple[Floats, Floats]:
    """`A(u) - rho(g)` and B: half the sum and half the difference of `rho(g + u)` and `rho(g - u)`, u in [0, g].

    Free of cancellation: u may be so small that `rho(g + u)` and `rho(g - u)` agree in all their digits. Around the
    knee K the function is its quartic inside plus `K d^3/6 + d^4/24`, d beyond it, and its line outside plus
    `K d^3/6 - d^4/24`, d inside it.
    """
    small = np.minimum(g, KNEE)  # the quartic is used only where g is inside the knee
    square = u**2
    # How far g + u lies beyond the knee, where the quartic has to be bent back.
    over = np.maximum(g + u - KNEE, 0.0)
    bend = over**3 * (KNEE / 6.0 + over / 24.0)
    inside_rise = square * (0.5 - small**2 / 4.0 - square / 24.0) + 0.5 * bend
    inside_odd = u * (small - small * (small**2 + square) / 6.0) + 0.5 * bend
    # The same from the other side: how far g - u lies inside it.
    under = np.clip(KNEE - (g - u), 0.0, 2.0 * KNEE)
    dip = under**3 * (KNEE / 6.0 - under / 24.0)
    inside = g <= KNEE
    return np.where(inside, inside_rise, 0.5 * dip), np.where(inside, inside_odd, TOP * u - 0.5 * dip)


def _rho(u: Floats) -> Floats:
    """rho at scale 1."""
    c = np.minimum(np.abs(u), KNEE)
    return np.asarray(c**2 * (0.5 - c**2 / 24.0) + (np.abs(u) - c) * TOP)
