"""The unregularised bias by a one-dimensional cutting plane (the paper's Algorithm 3).

For fixed side weights `g(b) = min_w P(w, b)` is convex. An ascent at b_t gives xi, and the dual value of a fixed xi is
affine in b, so `l_t - (b - b_t) sum xi` is a cut: a lower bound of g everywhere. Upper bounds come from primal points.

Three things are added to the paper's algorithm; none of them changes what is certified:

- At a primal point w, the best b is found by bisection of the piecewise-linear `P(w, .)` in the products `X w`.
- Dual variables that sum to zero have a value free of b, a flat cut. The convex combination of the xi of a falling and
  a rising cut that sums to zero is at least as high as the point where the two cuts cross; before there are two such
  cuts, the larger side of xi is scaled down. The next ascent starts from that xi.
- The interval is the range of the scores at the best point, which moves, and grows while the cuts fall towards one of
  its ends (the interval of the paper's lemma is of length 1e5 on a9a).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget
from widemargin.solvers.paper_nest import weighted_hinges as hinges
from widemargin.solvers.paper_nest.sdca import Ascent, PrimalPoint

__all__ = ["BiasChooser", "BiasResult", "BiasSearch", "LowerModel", "minimisation"]


class BiasResult(NamedTuple):
    """Certificate for fixed side weights: `dual <= min over w and b <= primal`, attained at (point, b)."""

    point: PrimalPoint
    b: float
    primal: float
    dual: float
    cuts: int


class _DualCut(NamedTuple):
    """A cut with its dual point: dual variables xi and their products `g = X' xi`."""

    xi: Floats
    g: Floats
    value: float
    total: float

    def at(self, b: float) -> float:
        """Height of the cut: `value` at b = 0, with a slope of minus the sum of xi."""
        return self.value - self.total * b


class LowerModel:
    """Maximum of lines `offset + slope b`: the paper's h'."""

    def __init__(self) -> None:
        self.offset: list[float] = []
        self.slope: list[float] = []

    def add(self, b: float, value: float, slope: float) -> None:
        """Add the line through (b, value)."""
        self.offset.append(value - slope * b)
        self.slope.append(slope)

    def at(self, b: Floats) -> Floats:
        """Heights at b, shape (k,)."""
        lines = np.asarray(self.offset)[:, None] + np.asarray(self.slope)[:, None] * b
        return lines.max(axis=0)  # type: ignore[no-any-return]

    def corners(self, low: float, high: float) -> Floats:
        """Ends of the interval and the crossings of any two lines inside it, increasing."""
        offset, slope = np.asarray(self.offset), np.asarray(self.slope)
        # All pairs, because there are only some tens of lines.
        i, j = np.triu_indices(offset.shape[0], 1)
        differ = slope[i] != slope[j]
        i, j = i[differ], j[differ]
        b = (offset[j] - offset[i]) / (slope[i] - slope[j])
        return np.unique(np.concatenate([[low, high], b[(b > low) & (b < high)]]))

    def minimum(self, low: float, high: float, near: float) -> tuple[float, float]:
        """Argument and value of the minimum on an interval; the argument nearest to `near` where it is flat."""
        b = self.corners(low, high)
        h = self.at(b)
        # The model is flat where two corners are equally low up to rounding; the search should not leave its
        # place then.
        lowest = b[h <= h.min() + 1e-15 * abs(h.min())]
        return float(np.clip(near, lowest[0], lowest[-1])), float(h.min())

    def lower_bound(self) -> float:
        """Minimum over all b; -inf where every line falls the same way."""
        slope = np.asarray(self.slope)
        if slope.shape[0] == 0 or slope.min() > 0.0 or slope.max() < 0.0:
            return -np.inf
        # A convex function bounded below by lines of both signs has its minimum at a crossing, or on a flat
        # line.
        b = self.corners(-np.inf, np.inf)[1:-1]
        return float(self.at(b).min()) if b.shape[0] else float(max(self.offset))


BiasChooser: TypeAlias = Callable[[LowerModel, float, float, float, float], tuple[float, float]]
"""Where to look for b next: `choose(model, low, high, top, near)` gives b in [low, high] and a height z of the region
between the cuts and the upper bound `top` there; the ascent at b runs to an accuracy of `(top - z) / 2`. `near` is the
best b so far."""


def minimisation(model: LowerModel, low: float, high: float, top: float, near: float) -> tuple[float, float]:
    """The minimiser of the cuts and their minimum (F.2.1)."""
    return model.minimum(low, high, near)


@dataclass
class BiasSearch:
    """Search for b around an `Ascent`, warm from call to call.

    Parameters
    ----------
    chooser : callable
        A `BiasChooser`.
    b : float
        First guess.
    max_cuts : int, default=60
        Most ascents in one call. Beyond some tens the cuts are too close to each other for floating point.
    growth : float, default=2.0
        By how much the interval grows while the cuts fall towards one of its ends. Larger finds a far b in fewer
        ascents and wastes more of them on both sides of a near one.
    """

    ascent: Ascent
    chooser: BiasChooser = minimisation
    b: float = 0.0
    max_cuts: int = 60
    growth: float = 2.0
    point: PrimalPoint = field(init=False)
    _falling: _DualCut | None = field(init=False, default=None)
    _rising: _DualCut | None = field(init=False, default=None)
    _reach: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.point = self.ascent.point

    def solve(self, eps: float, *, budget: Budget | None = None) -> BiasResult:
        """Minimise over w and b until `primal - dual <= eps`.

        Parameters
        ----------
        eps : float
            Absolute gap.

        Returns
        -------
        BiasResult
            Its gap is above `eps` only where `max_cuts`, the epochs or the budget ended the search. The ascent is left
            at dual variables that sum to zero, of a value close to `dual`.
        """
        ascent, model = self.ascent, LowerModel()
        # Without any ascent: xi = 0 is feasible, and its value does not depend on b.
        model.add(0.0, float(np.minimum(ascent.plus, ascent.minus).sum()), 0.0)
        self._falling = self._rising = None
        self._reach = 0.0
        self._flatten(model)
        primal = self._offer(self.point, np.inf)
        cuts = 0
        while primal - model.lower_bound() > eps and cuts < self.max_cuts:
            b, height = self.chooser(model, *self._interval(model, primal), primal, self.b)
            # The best point so far is the best primal start at the new b, too: its products are known.
            ascent.point = self.point
            result = ascent.solve(b, 0.5 * (primal - height), budget=budget)
            cuts += 1
            primal = self._offer(ascent.point, primal)
            # The ascent's own cut leans to one side; the flat cut made of two of them is what lifts the lower bound.
            dual = result.dual
            model.add(b, dual.value, -dual.total)
            # Of the falling and of the rising cuts the highest one at the present b is stored: the flat cut that is
            # made of the two is at least as high as their crossing.
            cut = _DualCut(ascent.xi.copy(), dual.g, dual.value + dual.total * b, dual.total)
            if dual.total > 0.0 and (self._falling is None or self._falling.at(b) <= dual.value):
                self._falling = cut
            elif dual.total < 0.0 and (self._rising is None or self._rising.at(b) <= dual.value):
                self._rising = cut
            self._flatten(model)
            if ascent.n_epochs >= ascent.max_epochs or (budget is not None and budget.exhausted):
                break
        return BiasResult(self.point, self.b, primal, model.lower_bound(), cuts)

    def _offer(self, point: PrimalPoint, primal: float) -> float:
        """Adopt a point with its best b if that beats `primal`; the best value."""
        ascent = self.ascent
        # The sum is piecewise linear in b: its slope rises from minus the positive weights by the weight of each kink.
        kinks, weight = np.concatenate([point.s + 0.5, point.s - 0.5]), np.concatenate([ascent.plus, ascent.minus])
        order = np.argsort(kinks)
        place = np.searchsorted(np.cumsum(weight[order]), ascent.plus.sum())
        b = float(kinks[order[min(int(place), order.shape[0] - 1)]])  # by rounding no kink may reach the sum
        value = ascent.primal(point, b)
        if value < primal:
            self.point, self.b = point, b
            return value
        return primal

    def _flatten(self, model: LowerModel) -> None:
        """Make the ascent's xi sum to zero, and add the flat cut that this gives."""
        falling, rising, ascent = self._falling, self._rising, self.ascent
        if falling is None or rising is None:
            hinges.balance(ascent.xi)
            model.add(0.0, ascent.dual(0.0).value, 0.0)
            return
        # The dual value is concave in xi, so that of the combination is at least the same combination of the two cuts,
        # and flat: at least as high as where they cross.
        share = rising.total / (rising.total - falling.total)
        np.multiply(falling.xi, share, out=ascent.xi)
        ascent.xi += (1.0 - share) * rising.xi
        g = share * falling.g + (1.0 - share) * rising.g
        losses, _ = hinges.dual_sums(ascent.xi, ascent.plus, ascent.minus)
        model.add(0.0, losses - ascent.rows.square(g) / (2.0 * ascent.lam), 0.0)

    def _interval(self, model: LowerModel, top: float) -> tuple[float, float]:
        """Where the cuts leave room below `top`, inside the range of the scores; that grows while it is what limits."""
        offset, slope = np.asarray(model.offset), np.asarray(model.slope)
        falling, rising = slope < 0.0, slope > 0.0
        # A falling line reaches the upper bound from above at its left end, a rising one at its right end.
        low = ((top - offset[falling]) / slope[falling]).max(initial=-np.inf)
        high = ((top - offset[rising]) / slope[rising]).min(initial=np.inf)
        # Beyond the scores of the best point all hinges of one side are active: the best b is seldom farther out.
        first, last = float(self.point.s.min()) - 0.5, float(self.point.s.max()) + 0.5
        downhill = -model.slope[-2]  # of the last ascent; the flat cut came after it
        if (downhill > 0.0 and high > last) or (downhill < 0.0 and low < first):
            self._reach = max(1.0, self.growth * self._reach)
        low, high = max(float(low), first - self._reach), min(float(high), last + self._reach)
        return min(low, self.b), max(high, self.b)
