"""Whether rows prove that fixed decisions meet a constraint: p-values that hold for every number of rows.

A constraint bounds a sum of rates. Given how many rows there are in each set that a rate is measured on, the rows of a
set are independent draws, and each adds one of a few values to the sum, by its label, its decision and what a baseline
says. So the null hypothesis, "the constraint is violated in distribution", is about the chances of these values.

**One set whose rows add one value below the bound and one above it** (and perhaps the bound itself, as rows that are
not called positive do to a precision). Of the rows that do not add the bound itself the share above it is then limited,
and their number is binomial.

**Two sets without common rows, each with two values** (a difference of groups, an 80% rule). The test is exact and
unconditional (Barnard 1945): outcomes are ordered by Wald's statistic with one success and one failure added to each
sample (Agresti and Caffo 2000), and the p-value is the largest chance of an outcome at least as extreme, over all pairs
of chances on the boundary. As Berger and Boos (1994) propose, the second chance runs through a confidence interval, and
the risk that it lies outside is added. The interval is cut into cells. The outcomes at least as extreme form a corner
of small counts, whose chance falls in both chances, so in a cell it is at most that at the smallest of each: what is
reported is never below the true p-value.

**Everything else.** A sum of chances, each below its limit of Clopper and Pearson (1934), with the risk shared.

The null hypothesis of a goal is that *some* constraint is violated. Hence the largest p-value of its constraints is one
of the goal, with no correction for their number (Berger 1982, intersection-union test).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincinv, gammaln
from scipy.stats import binom

from widemargin._typing import ArrayLike, Floats, Ints
from widemargin.exceptions import CapabilityError
from widemargin.goals.binding.membership import disjoint
from widemargin.goals.binding.sources import SAID
from widemargin.goals.binding.tied_goal import TiedConstraint, TiedGoal
from widemargin.goals.language.linear import Rate, When
from widemargin.goals.language.populations import Population
from widemargin.goals.measuring.intervals import clopper_pearson
from widemargin.goals.measuring.rates_of_predictions import RateTable, rows_that_count

EITHER = slice(None)
"""Decisions that are possible: positive is at place 0, negative at place 1, none at place 2."""

Possible = Callable[[Population], slice]
"""The decisions that rows of a population can get, by the definition of the classifier."""


@dataclass(frozen=True)
class Evidence:
    """What rows say of one constraint.

    Attributes
    ----------
    p_value : float
        Chance, at most, of rows that speak so clearly for the constraint if it is violated; 0 where the definition of
        the classifier settles it.
    n_rows : int
        Rows of the smallest set that one of its rates is measured on.
    """

    p_value: float
    method: str
    n_rows: int


@dataclass(frozen=True)
class _Part:
    """The rows of one set, and what each adds to the left-hand side of a constraint `<=`.

    Attributes
    ----------
    rate : Rate
        One of those that are measured on the set.
    values : ndarray of shape (2, 2, 2), or (2, 3, 2) where the classifier abstains
        By label, decision and the baseline's, +1 before -1; NaN where a row of the set is never found.
    """

    rate: Rate
    values: Floats

    @property
    def levels(self) -> Floats:
        """The different values, ascending."""
        known = self.values[~np.isnan(self.values)]
        return np.unique(np.round(known, 12))

    def tally(self, table: RateTable, positive: Floats) -> Floats:
        """Rows that add each value, by label, decision and baseline, in the shape of `values`."""
        rate, space = self.rate, table.space
        name, (actual, of) = space.key_of(rate), space.turned(rate)
        part, start = space.parts[name], space.start[name]
        place = slice(start, start + part.n_cells)
        _, _, over = rows_that_count(rate, part.label, part.baselines, (actual, of))
        inside = part.member(rate.population.rows) & over
        label = actual * part.label
        answers = np.ones(len(label)) if rate.baseline is None else part.baselines[rate.baseline]
        # Rows without labels have label 0, which counts as the first place: a rate that needs no labels adds the same
        # whatever they are.
        cell = np.where(label < 0, 1, 0) * 2 + np.where(answers < 0, 1, 0)
        decisions = [positive[place], space.weight[place] - positive[place]]
        # Of a classifier that abstains the mass is that of the decided rows, and SAID holds their decisions.
        if (said := part.baselines.get(SAID)) is not None:
            decided, rest = decisions
            decisions = [np.where(said > 0, decided, 0.0), np.where(said < 0, decided, 0.0), rest]
        decisions[:2] = decisions[:2][::of]
        counts = [np.bincount(cell[inside], mass[inside], 4).reshape(2, 2) for mass in decisions]
        return np.stack(counts, axis=1)

    def counts(self, tally: Floats, levels: Floats) -> Floats:
        """Rows that add each of the levels."""
        near = np.argmin(np.abs(np.nan_to_num(self.values, nan=np.inf)[..., None] - levels), axis=-1)
        return np.asarray(np.bincount(near.ravel(), tally.ravel(), len(levels)), dtype=np.float64)


def _parts(tied: TiedGoal, item: TiedConstraint, possible: Possible) -> tuple[list[_Part], float]:
    """The left-hand side of a constraint `<=` set by set, and its bound."""
    sign = 1.0 if item.cleared.sense == "<=" else -1.0
    terms = [(sign * factor, atom) for factor, atom in item.cleared.form.terms if isinstance(atom, Rate)]
    groups: dict[object, list[tuple[float, Rate]]] = {}
    for factor, rate in terms:
        key = rate.rows, rate.definition.over, rate.baseline, rate.needs_label
        groups.setdefault(key, []).append((factor, rate))
    counted = [rate.definition.is_count for _, rate in terms]
    # Numbers of rows are shares in disguise where those of one population are compared with each other and no other.
    if any(counted) and (not all(counted) or len(groups) > 1 or item.cleared.bound != 0.0):
        raise CapabilityError(
            f"{item.label!r} is about numbers of rows, which depend on how many there are, so no confidence can be "
            "claimed for new rows. Use rates, or counts of one population compared with each other (precision), or "
            "set confidence=None."
        )
    parts = []
    for group in groups.values():
        rate = group[0][1]
        abstains = SAID in tied.space.parts[tied.space.key_of(rate)].baselines
        added = np.zeros((2, 3 if abstains else 2, 2))  # a row without a decision adds nothing
        added[:, :2] = np.sum([factor * each.definition.row_values for factor, each in group], axis=0)
        label, baseline = (rate.definition.over or When()).cells
        decision = possible(rate.population)
        if tied.space.turned(rate)[1] < 0:
            decision = {(0, 1): slice(1, 2), (1, 2): slice(0, 1)}.get((decision.start, decision.stop), decision)
        at, values = (label, decision, baseline), np.full(added.shape, np.nan)
        values[at] = added[at]
        parts.append(_Part(rate, values))
    return parts, sign * item.cleared.bound


def linear_shares(tied: TiedGoal, item: TiedConstraint) -> tuple[list[tuple[float, Rate]], float] | None:
    """A constraint as `sum of factor times share called positive <= bound`; None where labels or baselines matter too.

    The share is that of the rows that the rate is measured on.
    """
    parts, bound = _parts(tied, item, lambda population: EITHER)
    terms = []
    for part in parts:
        by_decision = part.values.swapaxes(0, 1)[:2].reshape(2, -1)
        least, most = np.nanmin(by_decision, axis=1), np.nanmax(by_decision, axis=1)
        if part.values.shape[1] > 2 or (least != most).any():
            return None
        positive, negative = most[:: tied.space.turned(part.rate)[1]]
        if positive != negative:
            terms.append((float(positive - negative), part.rate))
        bound -= float(negative)
    return terms, bound


def evidence(tied: TiedGoal, positive_mass: Floats, possible: Possible = lambda population: EITHER) -> list[Evidence]:
    """What rows say of each constraint of a goal, for decisions that did not depend on these rows.

    Parameters
    ----------
    positive_mass : ndarray of shape (k,)
        Of the decisions: `TiedGoal.positive_mass`.
    possible : callable, default: both decisions everywhere
        Decisions that are possible by the definition of the classifier.

    Raises
    ------
    CapabilityError
        If rows are weighted, or a constraint is about numbers of rows and not about shares.
    """
    return _evidence(tied, possible, lambda part: part.tally(tied.table, positive_mass))


def best_evidence(tied: TiedGoal) -> list[Evidence]:
    """The strongest that these many rows could say of each constraint, if every row spoke for it."""

    def ideal(part: _Part) -> Floats:
        tally = np.zeros(part.values.shape)
        tally[np.unravel_index(np.nanargmin(part.values), tally.shape)] = tied.table.rows[tied.table.place[part.rate]]
        return tally

    return _evidence(tied, lambda population: EITHER, ideal)


def _evidence(tied: TiedGoal, possible: Possible, tally_of: Callable[[_Part], Floats]) -> list[Evidence]:
    if tied.weighted:
        raise CapabilityError(
            "a confidence can be claimed for unweighted rows only, and these have sample weights. Leave them out, "
            "or set confidence=None to go by the estimates."
        )
    found = []
    for item in tied.constraints:
        parts, bound = _parts(tied, item, possible)
        rows = min(int(tied.table.rows[tied.table.place[part.rate]]) for part in parts)
        open_ones, samples = [], []
        for part in parts:
            # A set whose rows all add the same value adds it for certain: there is nothing to test.
            levels = part.levels
            if len(levels) == 1:
                bound -= float(levels[0])
            else:
                open_ones.append(part)
                samples.append((levels, part.counts(tally_of(part), levels)))
        p_value, method = _p_value(open_ones, samples, bound)
        found.append(Evidence(p_value, method, rows))
    return found


def _p_value(parts: Sequence[_Part], samples: Sequence[tuple[Floats, Floats]], bound: float) -> tuple[float, str]:
    """Of `sum of the means of the parts <= bound`, and how it was found."""
    rounding = 1e-10 * max(1.0, abs(bound))
    if sum(float(levels[-1]) for levels, _ in samples) <= bound + rounding:
        return 0.0, "definition"
    if sum(float(levels[0]) for levels, _ in samples) > bound + rounding:
        return 1.0, "definition"
    if len(parts) == 1:
        levels, counts = samples[0]
        above, below = levels > bound + rounding, levels < bound - rounding
        if above.sum() == 1 and below.sum() == 1:
            # The mean exceeds the bound where the share of the rows above it, of those on either side, exceeds
            # `low / (low + high)`: the point at which the two distances balance.
            high, low = float(levels[above][0]) - bound, bound - float(levels[below][0])
            bad, good = float(counts[above][0]), float(counts[below][0])
            return float(binom.cdf(round(bad), round(bad + good), low / (low + high))), "exact binomial test"
    if len(parts) == 2 and all(len(levels) == 2 for levels, _ in samples) and _apart(*(part.rate for part in parts)):
        sizes = [float(levels[1] - levels[0]) for levels, _ in samples]
        rest = bound - sum(float(levels[0]) for levels, _ in samples)
        (x1, m1), (x2, m2) = ((round(counts[1]), round(counts.sum())) for _, counts in samples)
        return two_proportions(x1, m1, x2, m2, (sizes[0], sizes[1]), rest), "exact unconditional test"
    return _clopper_pearson(samples, bound), "Clopper-Pearson limits"


def _apart(first: Rate, second: Rate) -> bool:
    """Whether two sets have no row in common, by their definitions."""
    labels = {rate.definition.over.label for rate in (first, second) if rate.definition.over is not None}
    one_class = (first.of, first.actual) == (second.of, second.actual)
    return (one_class and {1, -1} <= labels) or disjoint(first.population, second.population)


def _clopper_pearson(samples: Sequence[tuple[Floats, Floats]], bound: float) -> float:
    """Smallest risk at which upper limits of all chances keep the bound, by bisection on its logarithm."""
    height, above, below = [], [], []
    for levels, counts in samples:
        bound -= float(levels[0])
        for k in range(1, len(levels)):  # a mean is its least value and a step for each chance to be at a level or more
            height.append(levels[k] - levels[k - 1])
            above.append(counts[k:].sum())
            below.append(counts[:k].sum())
    steps, x, rest = np.array(height), np.array(above), np.array(below)

    def kept(risk: float) -> bool:
        # Bonferroni: with probability 1 - risk every chance is below its limit, and then so is the sum.
        limit = np.where(rest < 0.5, 1.0, betaincinv(x + 1.0, np.maximum(rest, 0.5), 1.0 - risk / len(steps)))
        return float(steps @ limit) <= bound

    low, high = math.log(1e-14), 0.0
    if not kept(1.0):
        return 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if kept(math.exp(middle)) else (middle, high)
    return math.exp(high)


def two_proportions(
    x1: int, m1: int, x2: int, m2: int, factor: tuple[float, float], bound: float, *, outside: float = 1e-3,
    cells: int = 300,
) -> float:  # fmt: skip
    """Upper limit of the exact unconditional p-value of `factor[0] p1 + factor[1] p2 > bound`.

    Parameters
    ----------
    x1, m1, x2, m2 : int
        Successes and draws of the two samples.
    factor : tuple of float > 0
    bound : float
        In `(0, sum of the factors)`.
    outside : float, default=1e-3
        Risk that p2 lies outside the interval that it runs through, which is part of the p-value.
    cells : int, default=300
        Of the interval.

    References
    ----------
    G. A. Barnard, "A New Test for 2 x 2 Tables", Nature 156, 1945.
    R. L. Berger and D. D. Boos, "P Values Maximized Over a Confidence Set for the Nuisance Parameter", JASA 89, 1994.
    """
    c1, c2 = factor
    level = float(_wald(x1, x2, m1, m2, factor, bound))
    if level <= 0.0:
        return 1.0
    # The interval of Berger and Boos for the second chance, by Clopper and Pearson.
    edges = np.linspace(*clopper_pearson(x2, m2, 1.0 - outside), cells + 1)
    # In each cell the smallest second chance, and the smallest first one that can still violate the bound there.
    low2, low1 = edges[:-1], (bound - c2 * edges[1:]) / c1
    held = low1 <= 1.0  # elsewhere no first chance breaks the bound
    low2, low1 = low2[held], np.clip(low1[held], 0.0, 1.0)
    if not len(low2):
        return outside
    # Outside this window the second sample falls with a chance that is added whole.
    first, last = int(binom.ppf(1e-9, m2, low2.min())), int(binom.isf(1e-9, m2, low2.max()))
    x = np.arange(max(first, 0), min(last, m2) + 1)
    most = _largest_first(x, m1, m2, factor, bound, level)
    inside = most >= 0
    chance = np.full(len(low2), 2e-9)
    if inside.any():
        # Of so many second successes, without the checks of `binom.pmf`. The least number above zero stands for zero:
        # no success then has the chance 1, and any other number next to none.
        x, most = x[inside], most[inside]
        ways = gammaln(m2 + 1.0) - gammaln(x + 1.0) - gammaln(m2 - x + 1.0)
        logarithm = np.log(np.maximum(low2, np.finfo(np.float64).tiny))
        exactly = np.exp(ways + np.multiply.outer(logarithm, x) + np.multiply.outer(np.log1p(-low2), m2 - x))
        # Of so many first ones or fewer: an integral takes a third of the time of `bdtr`.
        integral = betainc(np.maximum(m1 - most, 1.0), most + 1.0, 1.0 - low1[:, None])
        chance += (exactly * np.where(most >= m1, 1.0, integral)).sum(axis=1)
    return min(1.0, float(chance.max()) + outside)


def _wald(x1: ArrayLike, x2: ArrayLike, m1: int, m2: int, factor: tuple[float, float], bound: float) -> Floats:
    """How many standard errors two samples lie below the bound, with a success and a failure added to each."""
    p1, p2 = (np.asarray(x1) + 1.0) / (m1 + 2.0), (np.asarray(x2) + 1.0) / (m2 + 2.0)
    variance = factor[0] ** 2 * p1 * (1 - p1) / (m1 + 2.0) + factor[1] ** 2 * p2 * (1 - p2) / (m2 + 2.0)
    return np.asarray((bound - factor[0] * p1 - factor[1] * p2) / np.sqrt(variance))


def _largest_first(x2: Ints, m1: int, m2: int, factor: tuple[float, float], bound: float, level: float) -> Floats:
    """For each second count the largest first one with a statistic of at least `level` > 0, there or at any larger
    second count; -1 where there is none.

    As a function of p1 the squared statistic meets its level where a parabola that opens upwards is zero; below the
    bound that is at its smaller root. With this as the definition of what is at least as extreme, smaller counts always
    are, and a higher level never takes in more.
    """
    (c1, c2), n1, n2 = factor, m1 + 2.0, m2 + 2.0
    x_all = np.arange(int(x2[0]), m2 + 1) if len(x2) else x2
    p2 = (x_all + 1.0) / n2
    room, other = bound - c2 * p2, c2**2 * p2 * (1 - p2) / n2
    # (room - c1 p)^2 = level^2 (c1^2 p (1 - p) / n1 + other)
    t2 = level**2
    a, b, c = c1**2 * (1.0 + t2 / n1), -(2.0 * room * c1 + t2 * c1**2 / n1), room**2 - t2 * other
    root = np.sqrt(np.maximum(b**2 - 4.0 * a * c, 0.0))
    smaller = 2.0 * c / np.where(-b + root > 0.0, -b + root, np.inf)
    # a millionth of a row, so that rounding leaves out no outcome that is on the level
    most = np.floor(smaller * n1 - 1.0 + 1e-6)
    most = np.where((room > 0.0) & (c > -1e-12 * t2), np.clip(most, -1.0, m1), -1.0)
    most = np.where(_wald(m1, x_all, m1, m2, factor, bound) >= level, float(m1), most)
    return np.maximum.accumulate(most[::-1])[::-1][: len(x2)]


def standard_errors(tied: TiedGoal, positive_mass: Floats, proving: TiedGoal) -> Floats:
    """Standard error of each constraint on other rows, shape (m,): of a ratio, else in the units of `bound` on these.

    Parameters
    ----------
    tied : TiedGoal
        On the rows that the decisions were made on.
    positive_mass : ndarray of shape (k,)
    proving : TiedGoal
        On the rows that the constraints are to be proved on; only numbers of rows are looked at.
    """
    errors = []
    for item in tied.constraints:
        total, unit = 0.0, 1.0
        for part in _parts(tied, item, lambda population: EITHER)[0]:
            levels = part.levels
            # One row more of each value, so that a rate of 0 or 1 does not get a standard error of 0.
            counts = part.counts(part.tally(tied.table, positive_mass), levels) + 1.0
            share = counts / counts.sum()
            spread = float(share @ levels**2 - (share @ levels) ** 2)
            place, here = proving.table.place.get(part.rate), int(tied.table.rows[tied.table.place[part.rate]])
            rows = int(proving.table.rows[place]) if place is not None else here * proving.n_rows / tied.n_rows
            total += spread / rows
            if part.rate.definition.is_count:
                unit = float(here)
        if item.cleared.ratio is not None:
            # The cleared form of a ratio varies as much as the ratio does, times the denominator.
            below = item.cleared.ratio.denominator
            alpha, beta = tied.table.weighted(below)
            size = below.constant + float(alpha @ positive_mass + beta @ (tied.cell_weight - positive_mass))
            unit /= size if size > 0.0 else np.inf
        errors.append(unit * math.sqrt(total))
    return np.array(errors, dtype=np.float64)
