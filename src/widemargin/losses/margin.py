"""Losses that pull every margin to a level, from both sides (Holland 2019; `docs/theory/margin-pursuit.md`).

    phi(m) = s^2 rho((gamma - m) / s),     phi'(m) = -s psi((gamma - m) / s),     phi''(m) = psi'((gamma - m) / s)

with the margin `m = y f(x)`, the margin level gamma and the scale s. rho is even and convex, its slope psi continuous:

    Catoni and Giulini:   rho(u) = u^2/2 - u^4/24 for |u| <= sqrt 2,  |u| 2 sqrt2/3 - 1/2 beyond;   psi(u) = u - u^3/6
    log-cosh:             rho(u) = log cosh u,                                                      psi(u) = tanh u

As s grows phi tends to half a square, and as s shrinks to an absolute value. rho is even, so the loss of a margin is
that of the distance of f(x) from the target `y gamma`.

Beside them stand the decreasing losses that risks are made of, logistic and the square of the hinge, with their lower
bounds. A convex loss lies above its tangents: `phi(m) >= a(sigma) - sigma m` for every slope `-sigma`, where a is minus
its conjugate at `-sigma`. Such lines certify a solution.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit, xlogy

from widemargin._numba import kernel
from widemargin._typing import ArrayLike, Floats
from widemargin.exceptions import DataError

__all__ = [
    "CATONI", "LOG_COSH", "LOSSES", "SURROGATES", "CatoniLoss", "LogCoshLoss", "MarginLoss", "Surrogate", "fill", "psi",
    "psi_slope", "rho",
]  # fmt: skip

CATONI, LOG_COSH = 0, 1
"""The `kind` of the compiled formulas."""

_TINY = 1e-100
"""Squares of levels and scales between this and its inverse neither vanish nor overflow."""

KNEE = float(np.sqrt(2.0))
"""The point from which on psi of Catoni and Giulini is constant."""

TOP = 2.0 * KNEE / 3.0
"""The value of psi there."""


@kernel
def rho(kind: int, u: float) -> float:
    """The loss at scale 1 of the distance u."""
    a = abs(u)
    if kind == CATONI:
        # Beyond the knee the loss goes on as a line, whose slope is TOP.
        c = min(a, KNEE)
        return c * c * (0.5 - c * c / 24.0) + (a - c) * TOP
    # log cosh u is `log1p(sinh^2 u) / 2`, which is small where u is, while the logarithm of a number near 1 is all
    # rounding; far out the form with exp(-2a) cannot overflow.
    if a < 0.5:
        return float(0.5 * np.log1p(np.sinh(a) ** 2))  # keeps its digits where cosh is close to 1
    return float(a + np.log1p(np.exp(-2.0 * a)) - np.log(2.0))


@kernel
def psi(kind: int, u: float) -> float:
    """The slope of rho, the influence of a row at distance u."""
    if kind == CATONI:
        c = min(max(u, -KNEE), KNEE)
        return c * (1.0 - c * c / 6.0)
    return float(np.tanh(u))


@kernel
def psi_slope(kind: int, u: float) -> float:
    """The second derivative of rho, from 1 at u = 0 down to 0."""
    if kind == CATONI:
        c = min(abs(u), KNEE)
        return max(0.0, 1.0 - 0.5 * c * c)
    # The derivative of tanh is 1 - tanh^2.
    t = float(np.tanh(u))
    return 1.0 - t * t


@kernel
def sum_losses(kind: int, level: float, scale: float, m: Floats, weight: Floats, slope: Floats) -> float:
    """`sum_i weight_i phi(m_i)`; sets `slope_i = weight_i phi'(m_i)`."""
    total = 0.0
    for i in range(m.shape[0]):
        u = (level - m[i]) / scale
        total += weight[i] * rho(kind, u)
        # phi' = -s psi: the margin falls as the distance u grows.
        slope[i] = -scale * weight[i] * psi(kind, u)
    return scale * scale * total


@kernel
def fill(kind: int, order: int, level: float, scale: float, m: Floats, out: Floats) -> None:
    """Set `out` to phi (order 0), its slope (1) or its curvature (2) at the margins m, both flat."""
    for i in range(m.shape[0]):
        u = (level - m[i]) / scale
        # The scale s^2 in front of rho makes phi a square near its minimum whatever s is, so the curvature needs no
        # factor.
        if order == 0:
            out[i] = scale * scale * rho(kind, u)
        elif order == 1:
            out[i] = -scale * psi(kind, u)
        else:
            out[i] = psi_slope(kind, u)


@dataclass(frozen=True)
class MarginLoss:
    """A loss of one margin at a level and a scale; an abstract base, use `CatoniLoss` or `LogCoshLoss`.

    Parameters
    ----------
    margin_level : float, default=1.0
        gamma > 0: the margin that every row should have.
    scale : float, default=1.0
        s > 0, in the units of the margins. Raising it lets distant rows count more: the loss becomes a square.

    Raises
    ------
    DataError
        If a parameter is not positive and finite.
    """

    margin_level: float = 1.0
    scale: float = 1.0

    kind: ClassVar[int]
    top: ClassVar[float]

    def __post_init__(self) -> None:
        for name in ("margin_level", "scale"):
            # Squares of these numbers must neither vanish nor overflow.
            value = getattr(self, name)
            if not (value > 0.0 and _TINY <= value <= 1.0 / _TINY):
                raise DataError(f"{name} is {value!r}; it must be a positive number from {_TINY:g} to {1.0 / _TINY:g}.")

    def value(self, margins: ArrayLike) -> Floats:
        """phi of margins of any shape."""
        return self._each(0, margins)

    def slope(self, margins: ArrayLike) -> Floats:
        """phi' of margins of any shape; negative below the level, positive above it."""
        return self._each(1, margins)

    def curvature(self, margins: ArrayLike) -> Floats:
        """phi'' of margins of any shape, in [0, 1]."""
        return self._each(2, margins)

    def total(self, margins: Floats, weight: Floats, slopes: Floats) -> float:
        """Weighted sum of the losses; the weighted slopes go into `slopes`.

        Parameters
        ----------
        margins, weight : ndarray of float64, shape (n,)
        slopes : ndarray of float64, shape (n,)
            Overwritten; may be `margins` itself.
        """
        return float(sum_losses(self.kind, self.margin_level, self.scale, margins, weight, slopes))

    def at_scale(self, scale: float) -> Self:
        """The same loss at another scale."""
        return replace(self, scale=float(scale))

    @property
    def largest_slope(self) -> float:
        """Bound of `|phi'|`: the largest influence of a single row, however far off it is."""
        return self.scale * self.top

    def _each(self, order: int, margins: ArrayLike) -> Floats:
        # The loop runs over flat arrays, whatever the shape of the margins.
        m = np.asarray(margins, dtype=np.float64)
        out = np.empty(m.shape)
        fill(self.kind, order, float(self.margin_level), float(self.scale), m.ravel(), out.reshape(-1))
        return out


@dataclass(frozen=True)
class CatoniLoss(MarginLoss):
    """The loss of margin pursuit, by the function of Catoni and Giulini (2017).

    Examples
    --------
    >>> from widemargin.losses.margin import CatoniLoss
    >>> CatoniLoss(margin_level=1.0, scale=2.0).value([1.0, 0.0, 2.0]).tolist()
    [0.0, 0.4895833333333333, 0.4895833333333333]
    """

    kind = CATONI
    top = TOP


@dataclass(frozen=True)
class LogCoshLoss(MarginLoss):
    """The same with the logarithm of the hyperbolic cosine, which has derivatives of every order."""

    kind = LOG_COSH
    top = 1.0


LOSSES: dict[str, type[MarginLoss]] = {"catoni": CatoniLoss, "log-cosh": LogCoshLoss}
"""By the names that estimators take."""


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
