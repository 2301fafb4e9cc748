"""Risks: the functions of the losses of all rows that a classifier minimises.

A risk R of the losses `l` of rows with shares `p` (of sum 1) has slopes `q_i = dR / dl_i`: how much each row counts at
this point. To Newton's method every risk is a mean with the weights q, except for the curvature
`d2R / dl2 = diag(diagonal) - columns columns'`, of which every risk here has few columns.

Those that are convex have a dual form `R(l) = max_q q'l - penalty(q)`: any q that is allowed bounds the risk from
below. The others (`certified = False`) count bad rows less instead of more. They have many local minima in general, and
only stationarity can be promised.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.special
from scipy.optimize import brentq

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.losses.location import location_root
from widemargin.losses.margin import CATONI, KNEE


@dataclass(frozen=True)
class Weighed:
    """A risk at some losses.

    Attributes
    ----------
    slopes : ndarray of shape (n,)
        q: how much each row counts. Of sum 1 where the risk grows by what all losses grow by.
    diagonal : ndarray of shape (n,)
        Of the second derivative; 0 where the risk is not convex, or has no curvature.
    columns : ndarray of shape (n, k)
        `columns columns'` is subtracted from the diagonal.
    """

    value: float
    slopes: Floats
    diagonal: Floats
    columns: Floats


class Risk:
    """A function of the losses `l` of rows with shares `p > 0`, both of shape (n,)."""

    certified: ClassVar[bool] = True
    """Whether it is convex and no row counts less for a higher loss."""
    has_corners: ClassVar[bool] = False
    """Whether Newton's method needs it smoothed."""

    def value(self, losses: Floats, share: Floats) -> float:
        """The risk."""
        return self.weighed(losses, share, 0.0).value

    def weighed(self, losses: Floats, share: Floats, mu: float) -> Weighed:
        """The risk with its derivatives, its corners smoothed by mu."""
        raise NotImplementedError

    def penalty(self, slopes: Floats, share: Floats) -> float:
        """The penalty of the dual form for these slopes."""
        return 0.0


def _flat(value: float, slopes: Floats) -> Weighed:
    """A risk whose curvature is 0, or not used."""
    return Weighed(value, slopes, np.zeros(len(slopes)), np.empty((len(slopes), 0)))


class Mean(Risk):
    """The mean loss: plain empirical risk minimisation."""

    def weighed(self, losses: Floats, share: Floats, mu: float) -> Weighed:
        """`sum_i p_i l_i`."""
        return _flat(float(share @ losses), share)


@dataclass(frozen=True)
class Spectral(Risk):
    """A mixture of means of the worst losses, and so any spectral risk (Acerbi 2002): losses weigh by their rank.

    The mean of the worst share alone is the conditional value at risk, or superquantile (Rockafellar and Uryasev 2000),

        min_theta theta + sum_i p_i max(0, l_i - theta) / tail.

    Its corners are too many to be smoothed, so it has a solver of its own, `solvers.smooth.risk_tails`.

    Parameters
    ----------
    tails, weights : tuple of float
        Shares of worst rows, in (0, 1], and the weight of the mean over each of them; the weights have the sum 1.
    """

    tails: tuple[float, ...]
    weights: tuple[float, ...]

    def value(self, losses: Floats, share: Floats) -> float:
        """The risk; a row on the border of a tail counts in part."""
        # The mean of the worst share is a sum over the rows from the worst on, the last of which counts with what is
        # left of the tail.
        worst = np.argsort(-losses)
        losses, share = losses[worst], share[worst]
        before, total = np.cumsum(share) - share, 0.0
        for tail, weight in zip(self.tails, self.weights, strict=True):
            counted = np.clip(tail - before, 0.0, share)
            total += weight * float(counted @ losses) / float(counted.sum())
        return total


@dataclass(frozen=True)
class Tilted(Risk):
    """The entropic risk `log(sum_i p_i exp(t l_i)) / t` (Li et al. 2021): nearer to the largest loss the larger t.

    Its dual form is `max_q q'l - KL(q, p) / t`.

    Parameters
    ----------
    t : float
        > 0, in units of one over a loss.
    """

    t: float

    def weighed(self, losses: Floats, share: Floats, mu: float) -> Weighed:
        """It has no corners."""
        # The second derivative of log-sum-exp is `t (diag(q) - q q')`: a diagonal, and one column off it.
        value, slopes = _tilt(losses, share, self.t)
        return Weighed(value, slopes, self.t * slopes, _column(self.t * slopes, self.t))

    def penalty(self, slopes: Floats, share: Floats) -> float:
        """`KL(q, p) / t`."""
        # With `d = q / p - 1`, and as both have the sum 1, it is `sum_i p_i ((1 + d_i) log(1 + d_i) - d_i)`. The
        # logarithms alone would cancel for a small t, and what rounding leaves of them would be divided by t.
        d = slopes / share - 1.0
        return float(share @ (scipy.special.xlog1py(1.0 + d, d) - d)) / self.t


@dataclass(frozen=True)
class ChiSquare(Risk):
    """The largest mean loss over all reweightings within a chi-square distance (Duchi and Namkoong 2019).

        max_q q'l,  sum_i (q_i - p_i)^2 / p_i <= 2 radius,  q >= 0
        = min_theta theta + sqrt(1 + 2 radius) sqrt(sum_i p_i max(0, l_i - theta)^2)

    For a small radius it is the mean and `sqrt(2 radius)` standard deviations of the losses.

    Parameters
    ----------
    radius : float
        > 0.
    """

    radius: float
    has_corners: ClassVar[bool] = True

    def weighed(self, losses: Floats, share: Floats, mu: float) -> Weighed:
        """With `mu^2` added below the second root: the slopes are then in a smaller ball."""
        c, spread = math.sqrt(1.0 + 2.0 * self.radius), float(np.ptp(losses)) + mu
        if spread == 0.0:
            return _flat(float(losses[0]), share)

        def excess(theta: float) -> float:
            z = np.maximum(0.0, losses - theta)
            second = float(share @ z**2) + mu**2
            # No loss lies above theta: the root lies below.
            return c * float(share @ z) / math.sqrt(second) - 1.0 if second > 0.0 else -1.0

        # Far below all losses z^2 is the square of the mean and a variance, and the root is passed.
        far = spread * (2.0 + 1.0 / math.sqrt(2.0 * self.radius))
        theta = _root(excess, float(losses.min()) - far, float(losses.max()))
        z = np.maximum(0.0, losses - theta)
        mass, counted = share * z, share * (z > 0.0)
        size = math.sqrt(float(mass @ z) + mu**2)
        if size == 0.0:  # only the largest losses count, and theta is on them
            top = losses == losses.max()
            return _flat(float(losses.max()), share * top / float(share[top].sum()))
        # Second derivatives by the losses, by theta, and by both.
        # theta is itself a function of the losses, so its own curvature is taken off by a second column (the Schur
        # complement of theta).
        own = math.sqrt(c / size**3) * mass
        both = -c * counted / size + c * float(mass.sum()) * mass / size**3
        theta_theta = c * float(counted.sum()) / size - c * float(mass.sum()) ** 2 / size**3
        columns = np.column_stack([own, _column(both, theta_theta)])
        slopes = c * mass / size
        total = float(slopes.sum())
        # In exact arithmetic the slopes sum to 1 at the root; they are divided by their sum so that the lower bound is
        # one of allowed weights.
        return Weighed(theta + c * size, slopes / total if total > 0.0 else share, c * counted / size, columns)


class _Forgiving(Risk):
    """What the risks share that count bad rows less: they are not convex."""

    certified: ClassVar[bool] = False


@dataclass(frozen=True)
class Forgiving(_Forgiving):
    """The entropic risk with t < 0: rows count less the higher their loss (Li et al. 2021).

    Parameters
    ----------
    t : float
        < 0.
    """

    t: float

    def weighed(self, losses: Floats, share: Floats, mu: float) -> Weighed:
        """Concave in the losses: its tangent lies above it, so the curvature may be left out."""
        return _flat(*_tilt(losses, share, self.t))


@dataclass(frozen=True)
class Trimmed(_Forgiving):
    """The mean of all but the worst losses (least trimmed losses, Rousseeuw 1984).

    Parameters
    ----------
    share_out : float
        Share of the rows that is left out, in (0, 1).
    """

    share_out: float

    def weighed(self, losses: Floats, share: Floats, mu: float) -> Weighed:
        """Concave in the losses, as the tilted one with t < 0."""
        order, kept = np.argsort(losses), 1.0 - self.share_out
        border = losses[order[min(int(np.searchsorted(np.cumsum(share[order]), kept)), len(order) - 1)]]
        below, equal = losses < border, losses == border
        # Rows on the border count in part and alike, whatever their order is.
        part = (kept - float(share[below].sum())) / float(share[equal].sum())
        slopes = share * (below + min(max(part, 0.0), 1.0) * equal)
        slopes /= slopes.sum()
        return _flat(float(slopes @ losses), slopes)


@dataclass(frozen=True)
class CatoniMean(_Forgiving):
    """Catoni's robust mean of the losses: the root theta of `sum_i p_i psi((l_i - theta) / scale) = 0` (Catoni 2012).

    Parameters
    ----------
    scale : float
        > 0, in the units of a loss: rows further than about this from the mean do not count.
    """

    scale: float

    def weighed(self, losses: Floats, share: Floats, mu: float) -> Weighed:
        """Neither convex nor concave; a step without its curvature descends."""
        theta = float(location_root(losses, share, self.scale, CATONI, float(share @ losses)))
        # By the implicit function theorem a row moves theta in proportion to psi' at its distance, which is `1 - u^2/2`
        # up to the knee and 0 beyond.
        distance = np.minimum(np.abs(losses - theta) / self.scale, KNEE)
        slopes = share * (1.0 - 0.5 * distance**2)
        total = float(slopes.sum())
        return _flat(theta, slopes / total if total > 0.0 else share)


@dataclass(frozen=True)
class LabelNoise(_Forgiving):
    """Minus the mean log-likelihood of labels a share of which is wrong at random (Natarajan et al. 2013, one rate).

        -sum_i p_i log(share_wrong + (1 - 2 share_wrong) exp(-l_i))

    With the logistic loss `exp(-l)` is the chance of the label. No row costs more than `-log(share_wrong)`.

    Parameters
    ----------
    share_wrong : float
        In (0, 1/2).
    """

    share_wrong: float

    def of_rows(self, losses: Floats) -> Floats:
        """Minus the log-likelihood of each label."""
        return np.asarray(-np.log(self.share_wrong + (1.0 - 2.0 * self.share_wrong) * np.exp(-losses)))

    def weighed(self, losses: Floats, share: Floats, mu: float) -> Weighed:
        """Concave in the losses, as the trimmed mean; the slopes are shares times the chance of a right label."""
        # The chance of the label that was seen, where a true label is flipped with chance e: it is
        # `(1 - e) exp(-l) + e (1 - exp(-l)) = e + (1 - 2 e) exp(-l)`.
        right = (1.0 - 2.0 * self.share_wrong) * np.exp(-losses)
        chance = self.share_wrong + right
        return _flat(-float(share @ np.log(chance)), share * right / chance)


@dataclass(frozen=True)
class MLocation(_Forgiving):
    """`min_theta theta + eta sum_i p_i log cosh(l_i - theta)` (Holland 2020, with the log-cosh deviation).

    Losses far above theta pull with a bounded force, and those below it push.

    Parameters
    ----------
    eta : float
        > 1. Raising it takes theta nearer to a robust mean, lowering it nearer to the worst losses.
    """

    eta: float

    def weighed(self, losses: Floats, share: Floats, mu: float) -> Weighed:
        """Convex in the losses, but a loss far below theta counts negatively."""

        def excess(theta: float) -> float:
            return self.eta * float(share @ np.tanh(losses - theta)) - 1.0

        # So far below the smallest loss every row pulls by more than 1 / eta, so the root lies above it.
        reach = 1.0 + math.atanh(1.0 / self.eta)
        theta = _root(excess, float(losses.min()) - reach, float(losses.max()) + 1.0)
        pull = np.tanh(losses - theta)
        bend = self.eta * share * (1.0 - pull**2)
        far = np.abs(losses - theta)
        # log cosh without the overflow of cosh.
        cosh = far + np.log1p(np.exp(-2.0 * far)) - math.log(2.0)
        value = theta + self.eta * float(share @ cosh)
        return Weighed(value, self.eta * share * pull, bend, _column(bend, float(bend.sum())))


def _tilt(losses: Floats, share: Floats, t: float) -> tuple[float, Floats]:
    """`log(sum_i p_i exp(t l_i)) / t` and its slopes."""
    # The largest exponent is taken out, so that nothing overflows and the sum is at least the share of one row.
    exponents = t * losses
    top = float(exponents.max())
    mass = share * np.exp(exponents - top)
    total = float(mass.sum())
    # For a small t all masses are nearly shares: how far their sum is from 1 is known better than the sum.
    logarithm = math.log(total) if total < 0.5 else math.log1p(float(share @ np.expm1(exponents - top)))
    return (top + logarithm) / t, mass / total


def _column(numbers: Floats, weight: float) -> Floats:
    """`numbers / sqrt(weight)` as a column; none where the weight is 0."""
    return numbers[:, None] / math.sqrt(weight) if weight > 0.0 else np.empty((len(numbers), 0))


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function is zero; the lower end where rounding leaves it no value above zero."""
    if not excess(low) > 0.0:
        return low
    return float(brentq(excess, low, high, xtol=1e-15 * max(abs(low), abs(high)), maxiter=1000))


def _tilted(level: object) -> Risk:
    t = level_between("tilted", level, -math.inf, math.inf, "the tilt t")
    return Mean() if t == 0.0 else Tilted(t) if t > 0.0 else Forgiving(t)


def _spectral(level: Sequence[Sequence[float]]) -> Risk:
    try:
        tails, weights = np.asarray(level, dtype=np.float64).reshape(len(level), 2).T
    except (TypeError, ValueError):
        tails = weights = np.empty(0)
    if not len(tails):
        raise DataError(
            f"level={level!r} of risk='spectral' must be pairs of a share of the worst rows and its weight, such as "
            "[(0.1, 0.5), (1, 0.5)]: half the mean of the worst tenth, half the mean of all."
        )
    for tail in tails.tolist():
        level_between("spectral", tail, 0.0, 1.0, "a share of the worst rows", closed=True)
    if not ((weights > 0.0).all() and np.isfinite(weights).all()):
        raise DataError(f"level={level!r} of risk='spectral': each weight must be a finite number > 0.")
    return Spectral(tuple(tails.tolist()), tuple((weights / weights.sum()).tolist()))


def level_between(risk: str, level: object, low: float, high: float, what: str, *, closed: bool = False) -> float:
    """The level as a number in `(low, high)`, or `(low, high]`.

    Raises
    ------
    DataError
        If it is not.
    """
    try:
        number = float(level)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not (low < number < high or (closed and number == high)):
        limits = f"in ({low:g}, {high:g}{']' if closed else ')'}" if math.isfinite(high) else f"> {low:g} and finite"
        raise DataError(f"level={level!r} of risk={risk!r} must be {what}, a number {limits}.")
    return number


RISKS: dict[str, tuple[object, Callable[..., Risk]]] = {
    "mean": (None, lambda level: Mean()),
    "cvar": (
        0.8,
        lambda level: Spectral(
            (level_between("cvar", level, 0.0, 1.0, "the share of the worst rows", closed=True),), (1.0,)
        ),
    ),
    "tilted": (1.0, _tilted),
    "spectral": (((0.2, 0.2), (1.0, 0.8)), _spectral),
    "chi-square": (0.05, lambda level: ChiSquare(level_between("chi-square", level, 0.0, math.inf, "the radius"))),
    "wasserstein": (0.01, lambda level: Mean()),  # the radius goes into the regulariser
    "trimmed": (0.1, lambda level: Trimmed(level_between("trimmed", level, 0.0, 1.0, "the share left out"))),
    "catoni": (1.0, lambda level: CatoniMean(level_between("catoni", level, 0.0, math.inf, "the scale"))),
    "label-noise": (
        0.2,
        lambda level: LabelNoise(level_between("label-noise", level, 0.0, 0.5, "the share of wrong labels")),
    ),
    "m-location": (2.0, lambda level: MLocation(level_between("m-location", level, 1.0, math.inf, "eta"))),
}
"""By name: the default level, and the function from a level to its risk.

Of the levels that were tried, those of "cvar", "spectral" and "chi-square" are the strictest with which no fit to data
of the tuning half, also with a tenth or a fifth of the labels wrong, ends with equal scores for all rows.
"""


def make_risk(name: str, level: object = None) -> tuple[Risk, float]:
    """A risk by its name and its one number, and the radius by which the Euclidean norm of w is added to it.

    Raises
    ------
    DataError
        If the level is not one of this risk.
    """
    default, make = RISKS["mean" if name == "auto" else name]  # until another one is chosen
    if default is None and level is not None:
        raise DataError(f"risk={name!r} has no level, and level={level!r} was given; leave it out.")
    level = default if level is None else level
    radius = level_between(name, level, 0.0, math.inf, "the radius") if name == "wasserstein" else 0.0
    return make(level), radius
