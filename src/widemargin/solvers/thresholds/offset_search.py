"""One offset for each of several classes: a row gets the class of largest score plus offset, under constraints.

Decisions depend on the differences of the offsets alone, and are constant on the regions between the planes `offset_k -
offset_l = score_l - score_k` of all rows. The best region is found by branch and bound over *zones*: ranges of all
differences, as tight as the triangle inequality makes them. In a zone class k can win a row if `offset_k - offset_l`
can exceed `score_l - score_k` for every l, because the offset of k can be as far above all others at once as it can be
above each. Most rows are certain: one class wins them everywhere in the zone. Any other row costs at least what the
cheapest class that can win costs. That bounds objective and constraints from below, and a point inside the zone is a
candidate. A zone is cut at a difference where rows change from one class to another, so zones end as single regions,
and near the optimum of n rows there are few of them: with three classes the search is exact within seconds for tens of
thousands of rows. Where it is cut short, the least bound of the zones that are left says by how much the result may
exceed the optimum.

Offsets of several groups depend on each other through the constraints alone. At fixed prices of the constraints the
groups are independent, and the sum of their minima is a lower bound for all offsets that meet the constraints (weak
duality). Its maximum over the prices is found by cutting planes, and the offsets visited are improved one by one.

With more than three classes zones prove little: there offsets are found by rows that decide softly (`soft_offsets.py`),
and the bound of pairs (`pair_bound.py`), of one group or of several, gives prices, offsets to improve and, up to six
classes, a narrower zone to begin with.
"""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linprog

from widemargin._numba import array_kernel
from widemargin._typing import Floats, Ints
from widemargin.solvers.thresholds.class_costs import FEASIBLE, ClassCosts, improved, merged, range_of, total_cost
from widemargin.solvers.thresholds.pair_bound import PairBound, PairOptions, least_excess, priced
from widemargin.solvers.thresholds.soft_offsets import soft_offsets

HIGHEST = 1e3
"""Highest price, in objective per unit of a constraint: there the objective hardly counts beside a violation."""

OVERHEAD = 2e4
"""What a zone costs besides its rows, in numbers that could be read in the same time."""


@dataclass(frozen=True)
class OffsetOptions:
    """What the search may cost.

    Attributes
    ----------
    looks : float
        Numbers that may be read in all zones together, about two seconds; beyond three classes a quarter of them.
    share : float
        Share of the looks for one search at prices; every round makes one for each group.
    narrowest : float
        Zones narrower than this share of the range of the scores are dropped: there the scores' own rounding decides.
    rounds : int
        Of prices, where there are several groups.
    sweeps : int
        Most rounds over all offsets, each moved to its best place while the others stay.
    zoned : int
        Most classes for which zones are searched. On drawn rows of eight they closed nothing of what pairs had left.
    phases : int
        With more than three classes: so often the bound of pairs is raised from the best offsets so far.
    pairs : PairOptions
        Of each such bound.
    temperatures : tuple of float
        At which rows decide softly before (`soft_offsets.py`), in units of the usual distance between the two largest
        scores of a row. On drawn rows of 8 to 20 classes with bounds that some offsets just meet, the first four left
        one problem of 24 unmet; 1 before them gained nothing.
    """

    looks: float = 2e9
    share: float = 0.025
    narrowest: float = 1e-9
    rounds: int = 30
    sweeps: int = 20
    zoned: int = 6
    phases: int = 2
    pairs: PairOptions = field(default_factory=PairOptions)
    temperatures: tuple[float, ...] = (0.5, 0.25, 0.12, 0.06, 0.03, 0.015)


OPTIONS = OffsetOptions()


@dataclass(frozen=True, eq=False)
class ClassOffsets:
    """The best offsets found.

    Attributes
    ----------
    offsets : ndarray of shape (n_groups, K)
        The first class has 0.
    objective, violation : float
        `violation` is the summed excess, 0 where all constraints are met.
    lower : float
        No offsets that meet the constraints have a smaller objective; inf where it is proved that none meet them.
    least_violation : float
        No offsets have a smaller summed excess; 0 where nothing is proved of it.
    """

    offsets: Floats
    objective: float
    violation: float
    lower: float
    least_violation: float


def best_offsets(costs: ClassCosts, options: OffsetOptions = OPTIONS) -> ClassOffsets:
    """The offsets of lowest objective that meet all constraints; where none are found, those of least summed excess."""
    # The search is over differences of scores, so equal rows would only make every look longer.
    costs = merged(costs)
    n_classes = costs.scores.shape[1]
    found = improved(costs, np.zeros((costs.n_groups, n_classes)), options.sweeps)
    pairs = PairBound(costs, options.pairs)
    lower = pairs.lower
    if n_classes > 3:
        found = soft_offsets(costs, found, options.sweeps, options.temperatures)
        rank = costs.rank(costs.totals(found))
        for _ in range(options.phases if rank[0] == 0.0 else 0):
            pairs.raise_from(found, rank[1])
            # Where the pairs would have their differences, and what is best at the prices, moved one offset at a time.
            at_prices = replace(costs, cost=priced(costs.cost, pairs.prices)[:, :, None], bound=costs.bound[:0])
            for start in (pairs.offsets, improved(at_prices, found, options.sweeps)):
                trial = improved(costs, start, options.sweeps)
                found, rank = min((found, rank), (trial, costs.rank(costs.totals(trial))), key=lambda one: one[1])
            if pairs.lower >= rank[1]:
                break
    elif costs.n_groups > 1:
        found, lower = _by_prices(costs, found, options)
    rank, lower = costs.rank(costs.totals(found)), max(lower, pairs.lower)
    least = least_excess(costs, found, options.pairs) if rank[0] > 0.0 else 0.0
    # Where none meet the constraints, the search still looks for the least excess.
    if costs.n_groups == 1 and n_classes <= options.zoned and not (rank[0] == 0.0 and lower >= rank[1]):
        # What a quarter of the looks leaves open beside the pairs, all of them seldom close.
        zones = options if n_classes <= 3 else replace(options, looks=0.25 * options.looks)
        search = ZoneSearch(costs, zones, found, pairs.zones[0])
        search.run()
        # The points that the search looks at lie inside of zones and not at their best places.
        found, lower = improved(costs, search.best[None], options.sweeps), max(lower, search.lower)
        least = max(least, search.least)
    violation, objective = costs.rank(costs.totals(found))
    if violation > 0.0:
        return ClassOffsets(found, objective, violation, np.inf if least > 0.0 else lower, min(least, violation))
    return ClassOffsets(found, objective, 0.0, min(lower, objective), 0.0)


# One group: branch and bound over zones


@dataclass(eq=False)
class ZoneSearch:
    """The search over the offsets of one group.

    Attributes
    ----------
    costs : ClassCosts
    options : OffsetOptions
    start : ndarray of shape (1, K)
        Offsets to begin with.
    whole : ndarray of shape (K, K)
        The zone that holds everything better.
    best : ndarray of shape (K,)
    rank : (float, float)
        Excess and objective of the best.
    lower : float
        Lower bound of the objective of all offsets that meet the constraints.
    least : float
        Lower bound of the summed excess of all offsets.
    """

    costs: ClassCosts
    options: OffsetOptions
    start: Floats
    whole: Floats
    best: Floats = field(init=False)
    rank: tuple[float, float] = field(init=False)
    lower: float = field(init=False)
    least: float = field(init=False)

    def run(self) -> None:
        """Cut zones, the most promising first, until none is left or the looks are used up."""
        scores, cost, n_classes = self.costs.scores, self.costs.cost, self.costs.scores.shape[1]
        # A zone so narrow holds no two rows that scores tell apart: what is left in it is rounding.
        narrow = self.options.narrowest * range_of(scores)
        self.best, self.rank = self.start[0], self.costs.rank(self.costs.totals(self.start))
        counter, looks = itertools.count(), 0.0
        heap: list[tuple[tuple[float, float], int, Floats, Floats, Ints]] = []
        fresh = [(self.whole, np.zeros(cost.shape[2]), np.arange(len(scores)))]
        while True:
            for zone, certain, rows in fresh:
                # The budget is counted in numbers read and not in seconds, so that the same rows give the same answer
                # on any machine.
                looks += OVERHEAD + (n_classes**2 + cost[0].size) * len(rows)
                inside = inside_of(zone)
                base, least, middle, left = look(scores, cost, rows, zone, inside)
                found = self.costs.rank(certain + middle)
                if found < self.rank:
                    self.rank, self.best = found, inside
                # Each row that may still change its mind counts at its cheapest, in objective and in every constraint
                # separately: no offsets of the zone can do better than that.
                bound = self.costs.rank(certain + least)
                if len(left) and self._promising(bound):
                    heapq.heappush(heap, (bound, next(counter), zone, certain + base, left))
            if not heap or looks > self.options.looks or not self._promising(heap[0][0]):
                break
            _, _, zone, certain, rows = heapq.heappop(heap)
            # The two halves share no offsets but their border, and together they are the zone.
            k, rival, places = cut(scores, rows, zone, inside_of(zone))
            place = float(np.sort(places)[len(places) // 2])
            halves = narrowed(zone, k, rival, place), narrowed(zone, rival, k, -place)
            fresh = [(half, certain, rows) for half in halves if (half + half.T + np.eye(n_classes)).min() > narrow]
        # Where the looks are used up, the least bound of what was left open still holds for all offsets.
        still_open = [bound for bound, *_ in heap if self._promising(bound)]
        reached = self.rank[1] if self.rank[0] == 0.0 else np.inf
        self.lower = min([reached, *(objective for excess, objective in still_open if excess == 0.0)])
        self.least = min([self.rank[0], *(excess for excess, _ in still_open)])

    def _promising(self, bound: tuple[float, float]) -> bool:
        """Whether something better than the best so far could be where this is the bound."""
        rounding = 1e-12 * max(1.0, abs(self.rank[1]))
        return bound[0] < self.rank[0] - FEASIBLE or (bound[0] <= self.rank[0] and bound[1] < self.rank[1] - rounding)


@array_kernel
def inside_of(zone: Floats) -> Floats:
    """Offsets inside a zone: the mean of the points where each class is as far above all others as it can be."""
    n_classes = zone.shape[0]
    inside = np.zeros(n_classes)
    for k in range(n_classes):
        for rival in range(n_classes):
            inside[rival] += (zone[k, 0] - zone[k, rival]) / n_classes
    return inside


@array_kernel
def narrowed(zone: Floats, k: int, rival: int, place: float) -> Floats:
    """The part of a zone where `offset_k - offset_l <= place`; `zone[k, rival]` is the largest such difference."""
    part = zone.copy()
    part[k, rival] = min(part[k, rival], place)
    for a in range(part.shape[0]):
        for b in range(part.shape[0]):
            # No other difference is larger than a way that passes this one.
            part[a, b] = min(part[a, b], zone[a, k] + part[k, rival] + zone[rival, b])
    return part


@array_kernel
def look(
    scores: Floats, cost: Floats, rows: Ints, zone: Floats, offsets: Floats
) -> tuple[Floats, Floats, Floats, Ints]:
    """Rows in a zone: what the certain ones add, what all add at least, and what all add at offsets inside, of shape
    (1 + m,); and the rows that are not certain.
    """
    n_classes, width = scores.shape[1], cost.shape[2]
    base, least, middle = np.zeros(width), np.zeros(width), np.zeros(width)
    left = np.empty(rows.shape[0], rows.dtype)
    n_left = 0
    possible = np.zeros(n_classes, np.bool_)
    for r in range(rows.shape[0]):
        i = rows[r]
        won, n_possible = 0, 0
        for k in range(n_classes):
            if scores[i, k] + offsets[k] > scores[i, won] + offsets[won]:
                won = k
            possible[k] = True
            for rival in range(n_classes):
                # The class can win nowhere in the zone: even at the largest difference of the offsets its rival is as
                # high.
                if rival != k and zone[k, rival] <= scores[i, rival] - scores[i, k]:
                    possible[k] = False
            n_possible += possible[k]
        for j in range(width):
            middle[j] += cost[i, won, j]
        if n_possible <= 1:
            for j in range(width):
                base[j] += cost[i, won, j]
                least[j] += cost[i, won, j]
            continue
        left[n_left] = i
        n_left += 1
        for j in range(width):
            smallest = np.inf
            for k in range(n_classes):
                if possible[k] and cost[i, k, j] < smallest:
                    smallest = cost[i, k, j]
            least[j] += smallest
    return base, least, middle, left[:n_left].copy()


@array_kernel
def cut(scores: Floats, rows: Ints, zone: Floats, offsets: Floats) -> tuple[int, int, Floats]:
    """Two classes to cut between, and the differences of their offsets where rows change their minds between these two,
    which are the first two of more rows than any others are.
    """
    n_classes = scores.shape[1]
    count = np.zeros((n_classes, n_classes), np.int64)
    first, second = np.zeros(rows.shape[0], np.int64), np.zeros(rows.shape[0], np.int64)
    for r in range(rows.shape[0]):
        i = rows[r]
        # Of the classes that differ from the winner by no more than the zone allows, the nearest one.
        for k in range(n_classes):
            if scores[i, k] + offsets[k] > scores[i, first[r]] + offsets[first[r]]:
                first[r] = k
        nearest, a = np.inf, first[r]
        second[r] = -1
        for k in range(n_classes):
            at = scores[i, k] - scores[i, a]
            if k != a and -zone[k, a] < at < zone[a, k] and offsets[a] - offsets[k] - at < nearest:
                nearest, second[r] = offsets[a] - offsets[k] - at, k
        if second[r] >= 0:
            count[min(a, second[r]), max(a, second[r])] += 1
    k, rival, most = 0, 1, 0
    for a in range(n_classes):
        for b in range(a + 1, n_classes):
            if count[a, b] > most:
                k, rival, most = a, b, count[a, b]
    at, n_at = np.empty(most), 0
    for r in range(rows.shape[0]):
        if min(first[r], second[r]) == k and max(first[r], second[r]) == rival:
            at[n_at] = scores[rows[r], rival] - scores[rows[r], k]
            n_at += 1
    return k, rival, at


# Several groups, and several models: prices


def at_prices(
    costs: ClassCosts, prices: Floats, start: Floats, options: OffsetOptions = OPTIONS
) -> tuple[Floats, list[Floats], float]:
    """The best offsets where a unit of each constraint has a price and no bound.

    Returns
    -------
    offsets : ndarray of shape (n_groups, K)
    totals : list of ndarray of shape (1 + m,)
        Of each group.
    lower : float
        Lower bound of the objective and what the constraints cost; without phases there may be none, -inf.
    """
    # At given prices the cost of a decision is one number, and the groups are independent of each other.
    priced_costs = priced(costs.cost, prices)[:, :, None]
    n_classes = costs.scores.shape[1]
    quick = replace(options.pairs, looks=options.pairs.looks * options.share)
    options = replace(options, looks=options.looks * options.share)
    offsets, totals, lower = start.copy(), list[Floats](), 0.0
    for g in range(costs.n_groups):
        rows = np.flatnonzero(costs.group == g)
        own = ClassCosts(costs.scores[rows], priced_costs[rows], costs.bound[:0], np.zeros(len(rows), np.int64), 1)
        begin, pairs = improved(own, start[g : g + 1], options.sweeps), PairBound(own, quick)
        offsets[g], least = begin[0], own.totals(begin)[0]
        if n_classes > 3:
            if options.phases > 0:
                pairs.raise_from(begin, least)
            least = min(least, pairs.lower)
        if n_classes <= options.zoned:
            search = ZoneSearch(own, options, begin, pairs.zones[0])
            search.run()
            offsets[g], least = search.best, search.lower if n_classes <= 3 else max(least, search.lower)
        lower += least
        totals.append(total_cost(costs.scores[rows] + offsets[g], costs.cost[rows]))
    return offsets, totals, lower


def _by_prices(costs: ClassCosts, offsets: Floats, options: OffsetOptions) -> tuple[Floats, float]:
    """Offsets of several groups, by the groups' best ones at prices of the constraints, and a lower bound."""
    best, rank = offsets, costs.rank(costs.totals(offsets))
    columns: list[list[Floats]] = [[] for _ in range(costs.n_groups)]
    prices, lower = np.zeros(len(costs.bound)), -np.inf
    for _ in range(options.rounds):
        visited, totals, least = at_prices(costs, prices, best, options)
        # Weak duality: at any prices, what is cheapest without bounds costs no more than the best that meets them, less
        # what the bounds are worth.
        lower = max(lower, least - float(prices @ costs.bound))
        for visits, added in zip(columns, totals, strict=True):
            visits.append(added)
        # What is best at prices seldom meets the bounds itself; moved one offset at a time it often does.
        trial = improved(costs, visited, options.sweeps)
        found = costs.rank(costs.totals(trial))
        best, rank = (trial, found) if found < rank else (best, rank)
        # The cutting planes of the dual: every visit so far is an upper bound of it, and the next prices are where the
        # least of them is highest.
        following = next_prices(columns, costs.bound, HIGHEST)
        if np.abs(following - prices).max(initial=0.0) <= 1e-9:
            break
        prices = following
    return best, lower


def next_prices(columns: Sequence[Sequence[Floats]], bound: Floats, highest: float) -> Floats:
    """Prices at which the bound is highest as far as the offsets visited tell, shape (m,).

    `max sum_g t_g - prices @ bound  s.t.  t_g <= objective + prices @ constraints` for every visit of group g.
    """
    m, n_groups = len(bound), len(columns)
    rows, right = list[Floats](), list[float]()
    for g, visits in enumerate(columns):
        for totals in visits:
            row = np.zeros(m + n_groups)
            row[:m], row[m + g] = -totals[1:], 1.0
            rows.append(row)
            right.append(float(totals[0]))
    goal = np.concatenate([bound, -np.ones(n_groups)])
    limits = [(0.0, highest)] * m + [(None, None)] * n_groups
    solved = linprog(goal, A_ub=np.array(rows), b_ub=right, bounds=limits, method="highs")
    return np.asarray(solved.x[:m], dtype=np.float64)


@dataclass
class PricedModels:
    """Models of the same rows, each with all its offsets: the prices at which the next one is worth most.

    As `ModelMixture` for one threshold: at given prices every model's best offsets are a column, and a linear programme
    over the columns gives prices. At any prices the cheapest column, less what the bounds are worth, is a bound on
    every lottery over these models.

    Attributes
    ----------
    models : list of ClassCosts
    rounds : int
        Programmes for one answer.
    lower : float
        The best such bound, if it was asked for; it falls as models are added.
    """

    models: list[ClassCosts] = field(default_factory=list)
    rounds: int = 6
    lower: float = -np.inf
    _columns: list[Floats] = field(default_factory=list)

    def add(self, costs: ClassCosts) -> None:
        """Take in a model."""
        self.models.append(merged(costs))
        self._columns.append(costs.totals(np.zeros((costs.n_groups, costs.scores.shape[1]))))

    def solve(self, highest: float, bounded: bool) -> Floats:
        """Prices of at most `highest`, shape (m,); `bounded`: also the bound, which takes longer than the prices."""
        options = OPTIONS if bounded else replace(OPTIONS, phases=0)
        bound, self.lower = self.models[0].bound, -np.inf
        prices = next_prices([self._columns], bound, highest)
        for _ in range(self.rounds):
            least = np.inf
            for model in self.models:
                start = np.zeros((model.n_groups, model.scores.shape[1]))
                _, totals, lower = at_prices(model, prices, start, options)
                self._columns.append(np.sum(totals, axis=0))
                least = min(least, lower)
            self.lower = max(self.lower, least - float(prices @ bound))
            before, prices = prices, next_prices([self._columns], bound, highest)
            if np.abs(prices - before).max(initial=0.0) <= 1e-6:
                break
        return prices
