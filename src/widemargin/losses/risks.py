"""Risks: what a classifier makes small, as functions of the losses of all rows.

A risk R of the losses `l` of rows with shares `p` (of sum 1) has slopes `q_i = dR / dl_i`: how much each row counts at
this point. With q a step of Newton's method sees weighted rows, whatever the risk. What differs is the curvature
`d2R / dl2 = diag(diagonal) - columns columns'`, of which every risk here has few columns.

Most are convex, and then `R(l) = max_q q'l - penalty(q)`: any q that is allowed bounds the risk from below. Those that
have corners are smoothed by mu > 0 in such a way that the slopes stay allowed, so bounds of the smoothed risk are bounds
of the risk itself.

The others (`certified = False`) count bad rows less instead of more. They have many local minima in general, and only
stationarity can be promised.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.losses.location import location_root
from widemargin.losses.margin import CATONI, KNEE

__all__ = ["RISKS", "Cvar", "Risk", "Weighed", "make_risk"]


@dataclass(frozen=True)
class Weighed:
    """A risk at some losses.

    Attributes
    ----------
    value : float
    slopes : ndarray of shape (n,)
        q, of sum 1: how much each row counts.
    diagonal : ndarray of shape (n,)
        Of the second derivative; 0 where it is not convex, or none.
    columns : ndarray of shape (n, k)
        What is taken off the diagonal: `columns columns'`.
    levels : tuple of float
        Losses at which rows begin to count; where the search for those of the next losses begins.
    """

    value: float
    slopes: Floats
    diagonal: Floats
    columns: Floats
    levels: tuple[float, ...] = ()


class Risk(Protocol):
    """A function of the losses `l` of rows with shares `p`, both of shape (n,)."""

    certified: ClassVar[bool]
    """Whether it is convex and no row counts less for a higher loss."""
    has_corners: ClassVar[bool]
    """Whether it needs smoothing."""

    def value(self, losses: Floats, share: Floats) -> float:
        """The risk itself."""
        ...

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """The risk smoothed by mu, with its derivatives; `levels` are those of losses nearby, or ()."""
        ...

    def penalty(self, slopes: Floats, share: Floats) -> float:
        """What the dual form takes off for these slopes."""
        ...


def _flat(value: float, slopes: Floats) -> Weighed:
    """A risk whose curvature is 0, or not used."""
    return Weighed(value, slopes, np.zeros(len(slopes)), np.empty((len(slopes), 0)))


@dataclass(frozen=True)
class Mean:
    """The mean loss: plain empirical risk minimisation."""

    certified: ClassVar[bool] = True
    has_corners: ClassVar[bool] = False

    def value(self, losses: Floats, share: Floats) -> float:
        """`sum_i p_i l_i`."""
        return float(share @ losses)

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """As it is."""
        return _flat(self.value(losses, share), share)

    def penalty(self, slopes: Floats, share: Floats) -> float:
        """None."""
        return 0.0


@dataclass(frozen=True)
class Cvar:
    """The mean of the worst losses: conditional value at risk, superquantile (Rockafellar and Uryasev 2000).

        min_theta theta + sum_i p_i max(0, l_i - theta) / tail

    Parameters
    ----------
    tail : float
        Share of the worst rows, in (0, 1].
    """

    tail: float

    certified: ClassVar[bool] = True
    has_corners: ClassVar[bool] = True

    def value(self, losses: Floats, share: Floats) -> float:
        """The mean of the worst share; a row on its border counts in part."""
        worst = np.argsort(-losses)
        before = np.cumsum(share[worst]) - share[worst]
        counted = np.clip(self.tail - before, 0.0, share[worst])
        return float(counted @ losses[worst]) / float(counted.sum())

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """With `mu log(1 + exp(t / mu))` for `max(0, t)`."""
        if self.tail == 1.0:
            return _flat(float(share @ losses), share)

        def excess(theta: float) -> tuple[float, float]:
            part = _sigmoid((losses - theta) / mu)
            counted = share * part
            return float(counted.sum()) - self.tail, -float(counted @ (1.0 - part)) / mu

        # At the borders all rows count or none does, up to what a double can tell.
        reach = 40.0 * mu + 1e-9 * (1.0 + float(np.abs(losses).max()))
        theta = _root(excess, float(losses.min()) - reach, float(losses.max()) + reach, levels[0] if levels else None)
        above = (losses - theta) / mu
        part = _sigmoid(above)
        slopes = share * part / self.tail
        bend = slopes * (1.0 - part) / mu
        value = theta + mu * float(share @ _softplus(above)) / self.tail
        # theta is a best one, so what its moving along saves is taken off the curvature.
        return Weighed(value, slopes / slopes.sum(), bend, _column(bend, float(bend.sum())), (theta,))

    def penalty(self, slopes: Floats, share: Floats) -> float:
        """None."""
        return 0.0


@dataclass(frozen=True)
class Spectral:
    """A mixture of `Cvar`, and so any spectral risk (Acerbi 2002): losses weigh the more the higher they rank.

    Parameters
    ----------
    tails, weights : tuple of float
        Shares of worst rows, and what the mean over each of them counts; the weights have the sum 1.
    """

    tails: tuple[float, ...]
    weights: tuple[float, ...]

    certified: ClassVar[bool] = True
    has_corners: ClassVar[bool] = True

    def value(self, losses: Floats, share: Floats) -> float:
        """Mean of the parts."""
        parts = zip(self.tails, self.weights, strict=True)
        return sum(weight * Cvar(tail).value(losses, share) for tail, weight in parts)

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """Each part smoothed."""
        parts = [
            Cvar(tail).smoothed(losses, share, mu, levels[k : k + 1] if tail < 1.0 else ())
            for k, tail in enumerate(self.tails)
        ]
        weights = self.weights
        return Weighed(
            sum(c * part.value for c, part in zip(weights, parts, strict=True)),
            np.sum([c * part.slopes for c, part in zip(weights, parts, strict=True)], axis=0),
            np.sum([c * part.diagonal for c, part in zip(weights, parts, strict=True)], axis=0),
            np.hstack([math.sqrt(c) * part.columns for c, part in zip(weights, parts, strict=True)]),
            tuple((*part.levels, 0.0)[0] for part in parts),
        )

    def penalty(self, slopes: Floats, share: Floats) -> float:
        """None."""
        return 0.0


@dataclass(frozen=True)
class Tilted:
    """The entropic risk `log(sum_i p_i exp(t l_i)) / t` (Li et al. 2021): nearer to the largest loss the larger t.

    Its dual form is `max_q q'l - KL(q, p) / t`.

    Parameters
    ----------
    t : float
        > 0, in units of one over a loss.
    """

    t: float

    certified: ClassVar[bool] = True
    has_corners: ClassVar[bool] = False

    def value(self, losses: Floats, share: Floats) -> float:
        """The risk."""
        return self.smoothed(losses, share, 0.0, ()).value

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """As it is: it has no corners."""
        value, slopes = _tilt(losses, share, self.t)
        return Weighed(value, slopes, self.t * slopes, _column(self.t * slopes, self.t))

    def penalty(self, slopes: Floats, share: Floats) -> float:
        """`KL(q, p) / t`."""
        some = slopes > 0.0
        return float(slopes[some] @ np.log(slopes[some] / share[some])) / self.t


@dataclass(frozen=True)
class ChiSquare:
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

    certified: ClassVar[bool] = True
    has_corners: ClassVar[bool] = True

    def value(self, losses: Floats, share: Floats) -> float:
        """The risk, smoothed by what cannot be seen."""
        spread = float(np.ptp(losses))
        if spread == 0.0:
            return float(losses[0])
        theta = self._level(losses, share, 0.0, ())
        return theta + math.sqrt((1.0 + 2.0 * self.radius) * float(share @ np.maximum(0.0, losses - theta) ** 2))

    def _level(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> float:
        c, spread = math.sqrt(1.0 + 2.0 * self.radius), float(np.ptp(losses)) + mu

        def excess(theta: float) -> tuple[float, float]:
            z = np.maximum(0.0, losses - theta)
            first, second, inside = float(share @ z), float(share @ z**2) + mu**2, float(share @ (z > 0.0))
            if second == 0.0:
                return -1.0, -1.0
            return c * first / math.sqrt(second) - 1.0, c * (first**2 / second - inside) / math.sqrt(second)

        # Far below all losses z^2 is the square of the mean and a variance, and the root is passed.
        far = (spread + 1e-300) * (2.0 + 1.0 / math.sqrt(2.0 * self.radius))
        return _root(excess, float(losses.min()) - far, float(losses.max()), levels[0] if levels else None)

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """With `mu^2` added below the second root: the slopes are then in a smaller ball."""
        c = math.sqrt(1.0 + 2.0 * self.radius)
        theta = self._level(losses, share, mu, levels)
        z = np.maximum(0.0, losses - theta)
        mass, counted = share * z, share * (z > 0.0)
        size = math.sqrt(float(mass @ z) + mu**2)
        # Second derivatives by the losses, by theta, and by both.
        own = math.sqrt(c / size**3) * mass
        both = -c * counted / size + c * float(mass.sum()) * mass / size**3
        theta_theta = c * float(counted.sum()) / size - c * float(mass.sum()) ** 2 / size**3
        columns = np.column_stack([own, _column(both, theta_theta)])
        slopes = c * mass / size
        total = float(slopes.sum())
        return Weighed(theta + c * size, slopes / total if total > 0.0 else share, c * counted / size, columns, (theta,))

    def penalty(self, slopes: Floats, share: Floats) -> float:
        """None: the slopes are inside the ball."""
        return 0.0


@dataclass(frozen=True)
class _Forgiving:
    """What the risks share that count bad rows less."""

    certified: ClassVar[bool] = False
    has_corners: ClassVar[bool] = False

    def value(self, losses: Floats, share: Floats) -> float:
        """The risk."""
        return self.smoothed(losses, share, 0.0, ()).value

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """As it is."""
        raise NotImplementedError

    def penalty(self, slopes: Floats, share: Floats) -> float:
        """There is no dual form."""
        return math.nan


@dataclass(frozen=True)
class Forgiving(_Forgiving):
    """The entropic risk with t < 0: rows count less the higher their loss (Li et al. 2021).

    Parameters
    ----------
    t : float
        < 0.
    """

    t: float

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
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

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """Concave in the losses, as the tilted one."""
        order = np.argsort(losses, kind="stable")
        mass = share[order]
        kept = np.clip((1.0 - self.share_out) - (np.cumsum(mass) - mass), 0.0, mass)
        slopes = np.empty_like(share)
        slopes[order] = kept / kept.sum()
        return _flat(float(slopes @ losses), slopes)


@dataclass(frozen=True)
class CatoniMean(_Forgiving):
    """Catoni's robust mean of the losses: the root theta of `sum_i p_i psi((l_i - theta) / scale) = 0` (Catoni 2012).

    Parameters
    ----------
    scale : float
        > 0, in the units of a loss: from about here on a row counts no more.
    """

    scale: float

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """Neither convex nor concave; a step without its curvature descends."""
        theta = float(location_root(losses, share, self.scale, CATONI, float(share @ losses)))
        distance = np.minimum(np.abs(losses - theta) / self.scale, KNEE)
        slopes = share * (1.0 - 0.5 * distance**2)
        total = float(slopes.sum())
        return _flat(theta, slopes / total if total > 0.0 else share)


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

    def smoothed(self, losses: Floats, share: Floats, mu: float, levels: tuple[float, ...]) -> Weighed:
        """Convex in the losses, but a loss far below theta counts negatively."""

        def excess(theta: float) -> tuple[float, float]:
            pull = np.tanh(losses - theta)
            return self.eta * float(share @ pull) - 1.0, -self.eta * float(share @ (1.0 - pull**2))

        reach = 1.0 + math.atanh(1.0 / self.eta)
        theta = _root(excess, float(losses.min()) - reach, float(losses.max()) + 1.0, levels[0] if levels else None)
        pull = np.tanh(losses - theta)
        bend = self.eta * share * (1.0 - pull**2)
        far = np.abs(losses - theta)
        cosh = far + np.log1p(np.exp(-2.0 * far)) - math.log(2.0)
        value = theta + self.eta * float(share @ cosh)
        return Weighed(value, self.eta * share * pull, bend, _column(bend, float(bend.sum())), (theta,))


def _tilt(losses: Floats, share: Floats, t: float) -> tuple[float, Floats]:
    """`log(sum_i p_i exp(t l_i)) / t` and its slopes."""
    top = float((t * losses).max())
    mass = share * np.exp(t * losses - top)
    total = float(mass.sum())
    return (top + math.log(total)) / t, mass / total


def _column(numbers: Floats, weight: float) -> Floats:
    """`numbers / sqrt(weight)` as a column; none where the weight is 0."""
    return numbers[:, None] / math.sqrt(weight) if weight > 0.0 else np.empty((len(numbers), 0))


def _sigmoid(t: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-t)))


def _softplus(t: Floats) -> Floats:
    return np.asarray(np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t))))


def _root(excess: Callable[[float], tuple[float, float]], low: float, high: float, start: float | None) -> float:
    """Where a falling function, given with its slope, is zero: Newton steps that stay inside a bracket."""
    theta = 0.5 * (low + high) if start is None else min(max(start, low), high)
    for _ in range(200):
        value, slope = excess(theta)
        if value > 0.0:
            low = theta
        else:
            high = theta
        new = theta - value / slope if slope < 0.0 else low
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(value) <= 1e-13 or high - low <= 1e-15 * max(abs(low), abs(high)) or new == theta:
            break
        theta = new
    return theta


def _cvar(level: float) -> Risk:
    return Cvar(_between("cvar", level, 0.0, 1.0, "the share of the worst rows"))


def _tilted(level: float) -> Risk:
    t = _between("tilted", level, -math.inf, math.inf, "the tilt t")
    if t == 0.0:
        return Mean()
    return Tilted(t) if t > 0.0 else Forgiving(t)


def _spectral(level: Sequence[Sequence[float]]) -> Risk:
    pairs = np.asarray(level, dtype=np.float64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise DataError(
            f"level={level!r} of risk='spectral' must be pairs of a share of the worst rows and its weight, such as "
            "[(0.1, 0.5), (1, 0.5)]: half the mean of the worst tenth, half the mean of all."
        )
    tails, weights = pairs.T
    for tail in tails:
        _between("spectral", float(tail), 0.0, 1.0, "a share of the worst rows")
    if not ((weights > 0.0).all() and np.isfinite(weights).all()):
        raise DataError(f"level={level!r} of risk='spectral': each weight must be a finite number > 0.")
    return Spectral(tuple(tails.tolist()), tuple((weights / weights.sum()).tolist()))


def _between(risk: str, level: object, low: float, high: float, what: str) -> float:
    """The level as a number in `(low, high]`, or below an infinite `high`."""
    try:
        number = float(level)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not (low < number <= high and math.isfinite(number)):
        limits = f"in ({low:g}, {high:g}]" if math.isfinite(high) else f"> {low:g} and finite"
        raise DataError(f"level={level!r} of risk={risk!r} must be {what}, a number {limits}.")
    return number


RISKS: dict[str, tuple[object, Callable[..., Risk]]] = {
    "mean": (None, lambda level: Mean()),
    "cvar": (0.1, _cvar),
    "tilted": (1.0, _tilted),
    "spectral": (((0.1, 0.5), (1.0, 0.5)), _spectral),
    "chi-square": (0.5, lambda level: ChiSquare(_between("chi-square", level, 0.0, math.inf, "the radius"))),
    "wasserstein": (0.01, lambda level: Mean()),  # the radius goes into the regulariser
    "trimmed": (0.1, lambda level: Trimmed(_between("trimmed", level, 0.0, 1.0 - 1e-9, "the share left out"))),
    "catoni": (1.0, lambda level: CatoniMean(_between("catoni", level, 0.0, math.inf, "the scale"))),
    "m-location": (2.0, lambda level: MLocation(_between("m-location", level, 1.0, math.inf, "eta"))),
}
"""By name: the default level, and what makes the risk of a level."""


def make_risk(name: str, level: object = None) -> tuple[Risk, float]:
    """A risk by its name and its one number, and the radius by which the Euclidean norm of w is added to it.

    Raises
    ------
    DataError
        If the level is not one of this risk.
    """
    default, make = RISKS[name]
    level = default if level is None else level
    if name == "wasserstein":
        return make(level), _between(name, level, 0.0, math.inf, "the radius")
    if default is None and level is not None:
        raise DataError(f"risk={name!r} has no level, and level={level!r} was given; leave it out.")
    return make(level), 0.0
