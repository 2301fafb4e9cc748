"""Losses of a margin that fall as it grows, with what bounds them from below: hinge, its square, and logistic.

With a slope `-sigma` a convex loss lies above the line `phi(m) >= a(sigma) - sigma m`, where a is minus its conjugate at
`-sigma`. A solution is certified by such lines.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from widemargin._typing import Floats

__all__ = ["SURROGATES", "Surrogate"]


@dataclass(frozen=True)
class Surrogate:
    """A loss of the margins m, of shape (n,).

    Attributes
    ----------
    value : callable
        phi(m).
    smoothed : callable
        `(m, mu)` to the loss smoothed by mu, sigma (minus its slope) and its second derivative.
    line : callable
        a(sigma): where the line of slope `-sigma` below the loss meets `m = 0`.
    has_corners : bool
        Whether it needs smoothing.
    """

    value: Callable[[Floats], Floats]
    smoothed: Callable[[Floats, float], tuple[Floats, Floats, Floats]]
    line: Callable[[Floats], Floats]
    has_corners: bool = False


def _log1p_exp(t: Floats) -> tuple[Floats, Floats]:
    """`log(1 + exp(t))` and its slope."""
    small = np.exp(-np.abs(t))
    return np.maximum(t, 0.0) + np.log1p(small), np.where(t > 0.0, 1.0, small) / (1.0 + small)


def _logistic(m: Floats, mu: float) -> tuple[Floats, Floats, Floats]:
    value, sigma = _log1p_exp(-m)
    return value, sigma, sigma * (1.0 - sigma)


def _hinge(m: Floats, mu: float) -> tuple[Floats, Floats, Floats]:
    value, sigma = _log1p_exp((1.0 - m) / mu)
    return mu * value, sigma, sigma * (1.0 - sigma) / mu


def _squared_hinge(m: Floats, mu: float) -> tuple[Floats, Floats, Floats]:
    gap = np.maximum(0.0, 1.0 - m)
    return gap**2, 2.0 * gap, np.where(gap > 0.0, 2.0, 0.0)


SURROGATES = {
    "logistic": Surrogate(
        lambda m: _log1p_exp(-m)[0], _logistic, lambda sigma: -xlogy(sigma, sigma) - xlogy(1.0 - sigma, 1.0 - sigma)
    ),
    "hinge": Surrogate(lambda m: np.maximum(0.0, 1.0 - m), _hinge, lambda sigma: sigma, has_corners=True),
    "squared-hinge": Surrogate(
        lambda m: np.maximum(0.0, 1.0 - m) ** 2, _squared_hinge, lambda sigma: sigma - 0.25 * sigma**2
    ),
}
"""By the names that `RiskClassifier` takes."""
