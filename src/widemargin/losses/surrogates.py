"""Decreasing convex losses of a margin with their lower bounds: logistic, and the square of the hinge.

A convex loss lies above its tangents: `phi(m) >= a(sigma) - sigma m` for every slope `-sigma`, where a is minus its
conjugate at `-sigma`. Such lines certify a solution.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from widemargin._typing import Floats

__all__ = ["SURROGATES", "Surrogate"]


@dataclass(frozen=True)
class Surrogate:
    """A convex loss of the margins m, of shape (n,).

    Attributes
    ----------
    derivatives : callable
        m to phi(m), sigma (minus its slope, >= 0) and its second derivative.
    line : callable
        a(sigma): the value at `m = 0` of the tangent of slope `-sigma`.
    """

    derivatives: Callable[[Floats], tuple[Floats, Floats, Floats]]
    line: Callable[[Floats], Floats]


def _logistic(m: Floats) -> tuple[Floats, Floats, Floats]:
    # The slope is minus the chance of the other label; as `expit` of the negative margin it keeps its digits where that
    # chance is tiny.
    sigma = np.asarray(expit(-m))
    return np.logaddexp(0.0, -m), sigma, sigma * (1.0 - sigma)


def _squared_hinge(m: Floats) -> tuple[Floats, Floats, Floats]:
    # Its second derivative jumps at the margin 1; Newton's method takes the one from the side where the loss is not
    # zero.
    gap = np.maximum(0.0, 1.0 - m)
    return gap**2, 2.0 * gap, np.where(gap > 0.0, 2.0, 0.0)


SURROGATES = {
    "logistic": Surrogate(_logistic, lambda sigma: -xlogy(sigma, sigma) - xlogy(1.0 - sigma, 1.0 - sigma)),
    "squared-hinge": Surrogate(_squared_hinge, lambda sigma: sigma - 0.25 * sigma**2),
}
"""By the names that `RiskClassifier` takes."""
