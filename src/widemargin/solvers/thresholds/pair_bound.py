"""A lower bound on offsets of many classes, from what each pair of classes must cost by itself.

Decisions depend on all differences of the offsets at once, and a search over zones of them (`offset_search.py`) proves
little beyond six classes. The cost of a row can be bounded by pairs. Let c be one class, the row's *centre*, and j
another one. If l is decided, l has beaten c. So, with `[l > c]` for "the score plus offset of l is above that of c",

    cost(decision) >= cost_c + (cost_j - cost_c) [j > c] - sum_{l != j, c} max(0, max(cost_c, cost_j) - cost_l) [l > c]

The last terms, which vanish where errors cost the same, make room for a third class that is cheaper than what the two
say. Every convex combination over centres and rivals j is a bound as well. Added up over the rows, a combination is a
sum of step functions, each of one difference of two offsets: the sum of the minima of these functions is below every
objective. With constraints the costs are those at prices (weak duality), and groups add up.

The bound is concave in weights of the combinations and prices together. At the differences where the minima lie, a row
tells which of its combinations says most: weight moves there, and prices follow the slope. What is lost in the end is
that pairs choose their differences without regard to the others.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from widemargin._numba import array_kernel, kernel
from widemargin._typing import Floats, Ints
from widemargin.solvers.thresholds.class_costs import FEASIBLE, ClassCosts, range_of


@dataclass(frozen=True)
class PairOptions:
    """How long the bound is raised.

    Attributes
    ----------
    rounds : int
        Over all rows, from one choice of centres.
    looks : float
        Fewer rounds where they would read more numbers than that, but at least a twentieth of `rounds`.
    least_gain : float
        The end where fifty rounds raise the bound by less than this share of its distance to the best known.
    step, fading : float
        Round t moves the share `step / (1 + t / 5) ** fading` of the weight that lies on lesser combinations. On drawn
        rows of 8 to 20 classes two hundred rounds left a gap larger by a third than a thousand did.
    price_step : float
        Polyak's, as a share of what the bound is below the best objective known.
    patience : int
        After so many rounds without a higher bound steps of prices shorten by three tenths.
    """

    rounds: int = 500
    looks: float = 5e8
    least_gain: float = 0.01
    step: float = 0.5
    fading: float = 0.6
    price_step: float = 0.1
    patience: int = 15


@dataclass(eq=False)
class PairBound:
    """The bound, and what raising it has found.

    Attributes
    ----------
    costs : ClassCosts
    options : PairOptions
    highest : float
        Price of a constraint.
    lower : float
        No offsets that meet the constraints have a smaller objective.
    prices : ndarray of shape (m,)
        Of the constraints, where `lower` was reached.
    zones : ndarray of shape (n_groups, K, K)
        All offsets better than the best that was known have at most these differences `offset_k - offset_l`.
    offsets : ndarray of shape (n_groups, K)
        In the middle of the differences of the least cost where `lower` was reached.
    """

    costs: ClassCosts
    options: PairOptions = field(default_factory=PairOptions)
    highest: float = np.inf
    lower: float = field(default=-np.inf, init=False)
    prices: Floats = field(init=False)
    zones: Floats = field(init=False)
    offsets: Floats = field(init=False)
    _rows: list[Ints] = field(init=False)

    def __post_init__(self) -> None:
        costs = self.costs
        n_classes = costs.scores.shape[1]
        self.prices = np.zeros(len(costs.bound))
        self._rows = [np.flatnonzero(costs.group == g) for g in range(costs.n_groups)]
        self.zones = np.array([whole_zone(costs.scores[rows]) for rows in self._rows])
        self.offsets = np.zeros((costs.n_groups, n_classes))

    def raise_from(self, offsets: Floats, best_known: float) -> None:
        """Raise the bound by combinations that are exact near these offsets, shape (n_groups, K).

        Parameters
        ----------
        best_known : float
            Objective of offsets that meet the constraints.
        """
        costs, options, prices = self.costs, self.options, self.prices.copy()
        n_classes, n_constraints = costs.scores.shape[1], len(prices)
        given = [(costs.scores[rows], np.ascontiguousarray(costs.cost[rows])) for rows in self._rows]
        stars = [Stars.at(scores, priced(cost, prices), at) for (scores, cost), at in zip(given, offsets, strict=True)]
        reads = sum(len(star.row) for star in stars) * n_classes * 10.0
        rounds = int(np.clip(options.looks / max(reads, 1.0), options.rounds / 20, options.rounds))
        share, since, mean_slope, before = options.price_step, 0, np.zeros(n_constraints), -np.inf
        reached = -np.inf
        for number in range(rounds):
            bound, slope = -float(prices @ costs.bound), -costs.bound
            parts = []
            step = options.step / (1.0 + number / 5.0) ** options.fading
            for (_, cost), star, zone in zip(given, stars, self.zones, strict=True):
                own = priced(cost, prices)
                least, apart = star.least(own, zone)
                bound += least
                parts.append((star, own, apart))
            reached = max(reached, bound)
            if bound > self.lower:
                self.lower, self.prices, since = bound, prices.copy(), 0
                self.offsets = np.array([apart.mean(axis=1) - apart[0].mean() for _, _, apart in parts])
            else:
                since += 1
                if since == options.patience:
                    share, since = 0.7 * share, 0
            if bound >= best_known:  # nothing is better
                return
            if number % 50 == 49:
                if reached - before < options.least_gain * (best_known - reached):
                    return
                before = reached
            # Narrower zones raise the bound as well, but they change slowly.
            if number % 10 == 9:
                for (star, _, _), zone in zip(parts, self.zones, strict=True):
                    # Differences are left out at which a pair costs more by itself than all pairs together may.
                    narrow_pairs(star.start, star.item, star.place, star.value, zone, best_known - bound)
                    for k in range(len(zone)):
                        # No difference is larger than a way by another class.
                        np.minimum(zone, zone[:, [k]] + zone[[k]], out=zone)
                if not all(zone.diagonal().min() >= -1e-9 for zone in self.zones):  # no differences are left
                    self.lower = best_known
                    return
            for (star, own, apart), (_, cost) in zip(parts, given, strict=True):
                slope = slope + star.shift(own, cost, apart, step)
            # The slope of one round leaps from step to step of the rates, so prices follow its running mean.
            mean_slope = 0.7 * mean_slope + 0.3 * slope
            # A price at an end of its range that would leave it stays, and takes no part in the length of the step.
            free = np.where(mean_slope > 0.0, prices < self.highest, prices > 0.0)
            steep = np.where(free, mean_slope, 0.0)
            if (length := float(steep @ steep)) > 0.0:
                moved = prices + share * max(best_known - bound, 1e-4) / length * steep
                prices = np.clip(moved, 0.0, self.highest)


def least_excess(costs: ClassCosts, offsets: Floats, options: PairOptions) -> float:
    """No offsets have a smaller summed excess; 0 where nothing is proved.

    The excess is the objective of a problem of its own: at prices of at most 1, what the constraints cost together less
    what their bounds are worth is below the sum of all excesses.

    Parameters
    ----------
    offsets : ndarray of shape (n_groups, K)
        Those of the least excess known.
    """
    cost, totals = costs.cost.copy(), costs.totals(offsets)
    cost[:, :, 0] = 0.0
    bound = PairBound(replace(costs, cost=cost), options, highest=1.0)
    # At no prices no decision costs anything, and no centre of a row is better than another.
    bound.prices = np.where(totals[1:] > costs.bound - 0.02, 1.0, 0.0)
    for _ in range(2):
        bound.raise_from(offsets, costs.rank(totals)[0])
    return bound.lower if bound.lower > FEASIBLE else 0.0


def priced(cost: Floats, prices: Floats) -> Floats:
    """What each decision costs at prices, shape (n, K)."""
    return np.asarray(cost[:, :, 0] + cost[:, :, 1:] @ prices)


def whole_zone(scores: Floats) -> Floats:
    """Largest differences `offset_k - offset_l` that need be looked at, shape (K, K)."""
    # At a difference of their range a class wins every row against another one, and a tight zone holds differences of
    # up to one such step for each other class.
    n_classes = scores.shape[1]
    zone: Floats = np.full((n_classes, n_classes), 1.0001 * (n_classes - 1) * range_of(scores))
    np.fill_diagonal(zone, 0.0)
    return zone


@dataclass(frozen=True, eq=False)
class Stars:
    """The rows of a group, each with one or two centres, and the weights of their combinations.

    Attributes
    ----------
    scores : ndarray of shape (n, K)
    row, centre : ndarray of int64, shape (s,)
        The class decided, and then the cheapest one where that is another: the stars of a row follow each other.
    weight, value : ndarray of shape (s, K)
        Of the combinations with each rival, summing to 1 over the stars of a row; and what it adds if a class beats the
        centre.
    start : ndarray of int64, shape (K (K - 1) / 2 + 1,)
        Where the steps of each pair k < l begin, `(0, 1), (0, 2), ..., (1, 2), ...`.
    item : ndarray of int64, shape (s (K - 1),)
        The step's place in `value`, flattened.
    place : ndarray of shape (s (K - 1),)
        The difference `offset_k - offset_l` from which on k beats l; rising within a pair.
    """

    scores: Floats
    row: Ints
    centre: Ints
    weight: Floats
    value: Floats
    start: Ints
    item: Ints
    place: Floats

    @classmethod
    def at(cls, scores: Floats, cost: Floats, offsets: Floats) -> "Stars":
        """Combinations that are exact, or nearly so, where no decision is far from that of these offsets."""
        row, centre, weight = stars_at(scores, cost, offsets)
        n_classes = scores.shape[1]
        rival = np.array([[j for j in range(n_classes) if j != k] for k in range(n_classes)], np.int64)[centre]
        one, other = np.minimum(rival, centre[:, None]), np.maximum(rival, centre[:, None])
        at = row[:, None]
        place = (scores[at, other] - scores[at, one]).ravel()
        item = (np.arange(len(row))[:, None] * n_classes + rival).ravel()
        pair = (one * n_classes + other).ravel()
        order = np.lexsort((place, pair))
        pairs = np.flatnonzero(np.triu(np.ones((n_classes, n_classes)), 1).ravel())
        start = np.append(np.searchsorted(pair[order], pairs), len(pair)).astype(np.int64)
        return cls(scores, row, centre, weight, np.zeros_like(weight), start, item[order], place[order])

    def least(self, cost: Floats, zone: Floats) -> tuple[float, Floats]:
        """The sum of the pairs' minima at costs of shape (n, K), and the differences where they lie, shape (K, K)."""
        base = fill_values(cost, self.row, self.centre, self.weight, self.value)
        least, apart = least_pairs(self.start, self.item, self.place, self.value, zone)
        return base + least, apart

    def shift(self, own: Floats, cost: Floats, apart: Floats, step: float) -> Floats:
        """Move weight to what says most at these differences; the slope of the bound in the prices, shape (m,)."""
        slope = np.zeros(cost.shape[2] - 1)
        shift_weights(self.scores, own, cost, self.row, self.centre, self.weight, apart, step, slope)
        return slope


@array_kernel
def stars_at(scores: Floats, cost: Floats, offsets: Floats) -> tuple[Ints, Ints, Floats]:
    """Rows and centres of stars, and their weights: one combination a row, of its cheapest class and the highest other
    class.
    """
    n_classes = scores.shape[1]
    row, centre = np.empty(2 * len(scores), np.int64), np.empty(2 * len(scores), np.int64)
    weight = np.zeros((2 * len(scores), n_classes))
    n_stars = 0
    for i in range(len(scores)):
        won = 0
        for k in range(1, n_classes):
            if scores[i, k] + offsets[k] > scores[i, won] + offsets[won]:
                won = k
        cheapest = won
        for k in range(n_classes):
            if cost[i, k] < cost[i, cheapest]:
                cheapest = k
        # A row decided for its cheapest class has one star, with the class that comes next as the rival. Else the class
        # that has won is the rival of the cheapest one, and has a star of its own to which weight may move later.
        highest = won
        if cheapest == won:
            highest = 1 if won == 0 else 0
            for k in range(n_classes):
                if k != won and scores[i, k] + offsets[k] > scores[i, highest] + offsets[highest]:
                    highest = k
        else:
            row[n_stars], centre[n_stars] = i, won
            n_stars += 1
        row[n_stars], centre[n_stars] = i, cheapest
        weight[n_stars, highest] = 1.0
        n_stars += 1
    return row[:n_stars].copy(), centre[:n_stars].copy(), weight[:n_stars].copy()


@kernel
def fill_values(cost: Floats, row: Ints, centre: Ints, weight: Floats, value: Floats) -> float:
    """What each star adds for each class that beats its centre, into `value`; the sum of what they cost otherwise."""
    n_classes, base = cost.shape[1], 0.0
    for s in range(len(row)):
        i, c = row[s], centre[s]
        value[s] = 0.0
        for j in range(n_classes):
            share = weight[s, j]
            if share == 0.0:
                continue
            base += share * cost[i, c]
            value[s, j] += share * (cost[i, j] - cost[i, c])
            # A third class that is cheaper than what the two say must not be ruled out by them: see the module's head.
            dearer = max(cost[i, j], cost[i, c])
            for other in range(n_classes):
                if other != j and other != c and cost[i, other] < dearer:
                    value[s, other] -= share * (dearer - cost[i, other])
    return base


@array_kernel
def stretches(
    k: int, rival: int, item: Ints, place: Floats, value: Floats, zone: Floats, edge: Floats, height: Floats
) -> int:  # fmt: skip
    """How many stretches of differences in a zone the steps of a pair make, into `height` what the pair adds on each,
    and into `edge` where they begin, and where the last one ends.
    """
    n_classes, end = zone.shape[0], item.shape[0]
    flat, low, high = value.ravel(), -zone[rival, k], zone[k, rival]
    # Left of all steps the rival beats k everywhere; at a step k begins to beat it, and what the rival added goes, or
    # what k adds comes.
    here, q, count = 0.0, 0, 0
    for t in range(end):
        if item[t] % n_classes == rival:
            here += flat[item[t]]
    while q < end and place[q] <= low:
        here += flat[item[q]] if item[q] % n_classes == k else -flat[item[q]]
        q += 1
    edge[0], height[0] = low, here
    while q < end and place[q] <= high:
        count += 1
        edge[count] = place[q]
        # Equal steps are taken together: there is nothing between them.
        while q < end and place[q] == edge[count]:
            here += flat[item[q]] if item[q] % n_classes == k else -flat[item[q]]
            q += 1
        height[count] = here
    edge[count + 1] = high
    return count + 1


@array_kernel
def least_pairs(start: Ints, item: Ints, place: Floats, value: Floats, zone: Floats) -> tuple[float, Floats]:
    """The sum of the minima of all pairs' step functions in a zone, and the differences where they lie."""
    n_classes = zone.shape[0]
    apart, total, pair = np.zeros((n_classes, n_classes)), 0.0, 0
    edge, height = np.empty(item.shape[0] + 2), np.empty(item.shape[0] + 1)
    for k in range(n_classes):
        for rival in range(k + 1, n_classes):
            own, best = slice(start[pair], start[pair + 1]), 0
            for t in range(stretches(k, rival, item[own], place[own], value, zone, edge, height)):
                if height[t] < height[best]:
                    best = t
            # All differences of the best stretch cost the same; its middle is the one farthest from a step.
            total += height[best]
            apart[k, rival] = 0.5 * (edge[best] + edge[best + 1])
            apart[rival, k] = -apart[k, rival]
            pair += 1
    return total, apart


@array_kernel
def narrow_pairs(start: Ints, item: Ints, place: Floats, value: Floats, zone: Floats, slack: float) -> None:
    """Shrink a zone to differences at which no pair is more than `slack` above its minimum."""
    n_classes, pair = zone.shape[0], 0
    edge, height = np.empty(item.shape[0] + 2), np.empty(item.shape[0] + 1)
    for k in range(n_classes):
        for rival in range(k + 1, n_classes):
            own, best, first, last = slice(start[pair], start[pair + 1]), np.inf, zone[k, rival], -zone[rival, k]
            count = stretches(k, rival, item[own], place[own], value, zone, edge, height)
            for t in range(count):
                best = min(best, height[t])
            # A zone is one interval a pair, so a dear stretch between two that may be wanted stays in it.
            for t in range(count):
                if height[t] <= best + slack:
                    first, last = min(first, edge[t]), edge[t + 1]
            zone[k, rival], zone[rival, k] = last, -first
            pair += 1


@array_kernel
def shift_weights(
    scores: Floats, own: Floats, cost: Floats, row: Ints, centre: Ints, weight: Floats, apart: Floats, step: float,
    slope: Floats,
) -> None:  # fmt: skip
    """Move a share of every row's weight to the combinations that say most at the differences `apart`, and add up what
    the constraints are there.
    """
    n_stars, n_classes = weight.shape
    says, counted = np.empty(2 * n_classes), np.empty(n_classes)
    beaten = np.empty(n_classes, np.int64)
    s = 0
    while s < n_stars:
        # The one or two stars of a row lie together, and weight moves between their combinations alone.
        i = row[s]
        n_own = 2 if s + 1 < n_stars and row[s + 1] == i else 1
        says[:] = -np.inf
        counted[:] = 0.0
        most = -np.inf
        for own_star in range(n_own):
            c, n_beaten, nearest, gap = centre[s + own_star], 0, -1, np.inf
            for k in range(n_classes):
                if k == c:
                    continue
                short = scores[i, c] - scores[i, k] - apart[k, c]
                if short < 0.0:
                    beaten[n_beaten] = k
                    n_beaten += 1
                if short < gap:
                    nearest, gap = k, short
            for j in range(n_classes):
                share = weight[s + own_star, j]
                # Of the rivals without weight that do not beat the centre one stands for all.
                if j == c or (share == 0.0 and j != nearest and scores[i, c] - scores[i, j] - apart[j, c] >= 0.0):
                    continue
                dearer = j if own[i, j] > own[i, c] else c
                said = own[i, c]
                counted[c] += share
                for b in range(n_beaten):
                    k = beaten[b]
                    if k == j:
                        said += own[i, j] - own[i, c]
                        counted[j] += share
                        counted[c] -= share
                    elif own[i, k] < own[i, dearer]:
                        said -= own[i, dearer] - own[i, k]
                        counted[dearer] -= share
                        counted[k] += share
                says[own_star * n_classes + j] = said
                most = max(most, said)
        # What is said is a sum of costs, and each of these is linear in the prices, so it is enough to have counted how
        # often the cost of each class stands in it.
        for k in range(n_classes):
            if counted[k] != 0.0:
                for j in range(len(slope)):
                    slope[j] += counted[k] * cost[i, k, 1 + j]
        moved, n_best = 0.0, 0
        for own_star in range(n_own):
            for j in range(n_classes):
                if says[own_star * n_classes + j] == most:
                    n_best += 1
                elif weight[s + own_star, j] > 0.0:
                    moved += step * weight[s + own_star, j]
                    weight[s + own_star, j] *= 1.0 - step
        # Combinations that say equally much share what the others give up.
        if moved > 0.0:
            for own_star in range(n_own):
                for j in range(n_classes):
                    if says[own_star * n_classes + j] == most:
                        weight[s + own_star, j] += moved / n_best
        s += n_own
