"""Best-first search for one candidate in each group: boxes of thresholds and of the levels of families of links.

A box is a range of candidates for each group and an interval for the level of each family (`links.py`). Levels cut off
candidates of the groups and candidates narrow the levels, until nothing changes any more. What is left of each group
has a cheapest candidate, and together these bound the objective in the box from below. Where they violate a link, the
level of its family is cut where both halves rule them out; with the level the groups come apart, so few cuts are
needed however many groups there are. Boxes that cannot be better than the best thresholds known are dropped.
"""

import heapq
from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints
from widemargin.solvers.thresholds.links import Links
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

STEPS = 6
"""Of the prices in a box. More raise the bound further and look at more candidates; four to eight took as long."""


class Priced(NamedTuple):
    """Candidates with prices.

    Attributes
    ----------
    first : ndarray of int64, shape (n_groups + 1,)
        Number of the first candidate of each group.
    gain : ndarray of shape (K,)
        What each adds to the objective.
    price : ndarray of shape (K,)
        The same with the prices of what it adds to the constraints that are no links; inf where it is not allowed.
    cheapest : ndarray of int64, shape (t, K)
        See `range_minima`.
    links : Links
    share : ndarray of shape (q, r)
        A candidate adds the rates of its group times these to the constraints that are no links.
    excess : ndarray of shape (q,)
        Of these constraints where nobody is called positive.
    reach : float
        So far at most a step of the prices aims above the bound.
    constant : float
        The sum of prices plus this is a lower bound of the sum of gains, where the constraints are met.
    """

    first: Ints
    gain: Floats
    price: Floats
    cheapest: Ints
    links: Links
    share: Floats
    excess: Floats
    reach: float
    constant: float


@kernel
def range_minima(price: Floats, cheapest: Ints) -> None:
    """Set `cheapest[t, i]` to the place of the smallest price among `i, ..., i + 2^t - 1`."""
    for i in range(price.shape[0]):
        cheapest[0, i] = i
    for t in range(1, cheapest.shape[0]):
        half = 1 << (t - 1)
        for i in range(price.shape[0] - 2 * half + 1):
            a, b = cheapest[t - 1, i], cheapest[t - 1, i + half]
            cheapest[t, i] = a if price[a] <= price[b] else b


@kernel
def least_place(price: Floats, cheapest: Ints, low: int, high: int) -> int:
    """The place of the smallest price among `low, ..., high`: two overlapping ranges hold them all."""
    t = 0
    while (2 << t) <= high - low + 1:
        t += 1
    a, b = cheapest[t, low], cheapest[t, high + 1 - (1 << t)]
    return int(a if price[a] <= price[b] else b)


@kernel
def narrow(links: Links, low: Ints, high: Ints, least: Floats, most: Floats) -> bool:
    """Cut off candidates that levels rule out, and parts of levels that no candidate allows; False: nothing is left.

    `low[g]`, ..., `high[g]` are the candidates of group g, `least[k]` to `most[k]` is the level of family k.
    """
    changed = True
    while changed:
        changed = False
        for k in range(links.factor.shape[0]):
            # The level is at most every floored rate, and at least what the capped ones need.
            for e in range(links.floored_start[k], links.floored_start[k + 1]):
                v = links.floored[e]
                most[k] = min(most[k], links.rate[links.shift[v] + high[links.group[v]]])
            for e in range(links.capped_start[k], links.capped_start[k + 1]):
                u = links.capped[e]
                needed = (links.rate[links.shift[u] + low[links.group[u]]] - links.slack[k]) / links.factor[k]
                least[k] = max(least[k], needed)
            if least[k] > most[k]:
                return False
            cap = links.factor[k] * most[k] + links.slack[k]
            for e in range(links.capped_start[k], links.capped_start[k + 1]):
                u = links.capped[e]
                g = links.group[u]
                if links.rate[links.shift[u] + high[g]] > cap:  # the last candidate that is not above the cap
                    a, b = low[g], high[g]
                    while b - a > 1:
                        middle = (a + b) // 2
                        if links.rate[links.shift[u] + middle] > cap:
                            b = middle
                        else:
                            a = middle
                    if links.rate[links.shift[u] + a] > cap:
                        return False
                    high[g] = a
                    changed = True
            for e in range(links.floored_start[k], links.floored_start[k + 1]):
                v = links.floored[e]
                g = links.group[v]
                if links.rate[links.shift[v] + low[g]] < least[k]:  # the first that is not below the level
                    a, b = low[g], high[g]
                    while b - a > 1:
                        middle = (a + b) // 2
                        if links.rate[links.shift[v] + middle] < least[k]:
                            a = middle
                        else:
                            b = middle
                    if links.rate[links.shift[v] + b] < least[k]:
                        return False
                    low[g] = b
                    changed = True
    return True


@kernel
def bound_box(
    priced: Priced, low: Ints, high: Ints, least: Floats, most: Floats, known: float, pick: Ints
) -> float:  # fmt: skip
    """Narrow a box; the lower bound of the sum of gains in it, inf where nothing in it is below `known`.

    `pick` receives the cheapest candidate of each group.
    """
    n_groups, links = low.shape[0], priced.links
    again = True
    while again:
        if not narrow(links, low, high, least, most):
            return np.inf
        bound = priced.constant
        for g in range(n_groups):
            pick[g] = least_place(priced.price, priced.cheapest, low[g], high[g])
            bound += priced.price[pick[g]]
        if not bound < known:
            return np.inf
        # A candidate that is dearer than the cheapest of its group by more than there is room for is ruled out.
        again = False
        for g in range(n_groups):
            limit = priced.price[pick[g]] + (known - bound)
            while priced.price[low[g]] > limit:
                low[g] += 1
                again = True
            while priced.price[high[g]] > limit:
                high[g] -= 1
                again = True
        again = again and links.factor.shape[0] > 0
    # Constraints that are no links: even the smallest that each group can add may be too much.
    for j in range(priced.excess.shape[0]):
        smallest = priced.excess[j]
        for u in range(links.group.shape[0]):
            end = low[links.group[u]] if priced.share[j, u] > 0.0 else high[links.group[u]]
            smallest += priced.share[j, u] * links.rate[links.shift[u] + end]
        if smallest > FEASIBLE:
            return np.inf
    return bound


@kernel
def cut_of_links(priced: Priced, pick: Ints, levels: Floats) -> int:
    """The family whose links `pick` violates most, or -1; `levels` receives where levels have to lie or to be cut."""
    links, worst, family = priced.links, 0.0, -1
    for k in range(links.factor.shape[0]):
        largest, smallest = -np.inf, np.inf
        for e in range(links.capped_start[k], links.capped_start[k + 1]):
            u = links.capped[e]
            largest = max(largest, links.rate[links.shift[u] + pick[links.group[u]]])
        for e in range(links.floored_start[k], links.floored_start[k + 1]):
            v = links.floored[e]
            smallest = min(smallest, links.rate[links.shift[v] + pick[links.group[v]]])
        needed = (largest - links.slack[k]) / links.factor[k]
        levels[k] = smallest
        if needed > smallest:
            levels[k] = 0.5 * (smallest + needed)  # between them, either a capped or a floored rate is ruled out
            if needed - smallest > worst:
                worst, family = needed - smallest, k
    return family


@kernel
def added(priced: Priced, j: int, g: int, c: int) -> float:
    """What candidate c of group g adds to a constraint that is no link."""
    links, total = priced.links, 0.0
    for u in range(links.start[g], links.start[g + 1]):
        total += priced.share[j, u] * links.rate[links.shift[u] + c]
    return total


@kernel
def worst_excess(priced: Priced, pick: Ints) -> int:
    """The constraint that is no link and is violated most, or -1."""
    worst, number = FEASIBLE, -1
    for j in range(priced.excess.shape[0]):
        value = priced.excess[j]
        for g in range(pick.shape[0]):
            value += added(priced, j, g, pick[g])
        if value > worst:
            worst, number = value, j
    return number


@kernel
def sum_of(values: Floats, pick: Ints) -> float:
    """Sum of the values of the candidates picked."""
    total = 0.0
    for g in range(pick.shape[0]):
        total += values[pick[g]]
    return total


@kernel
def take_if_better(priced: Priced, pick: Ints, best: Ints, found: Floats) -> int:
    """Take thresholds that violate no link, if they are the best so far; the constraint violated most, or -1."""
    violated = worst_excess(priced, pick)
    if violated < 0 and sum_of(priced.gain, pick) < found[0]:
        found[0] = sum_of(priced.gain, pick)
        best[:] = pick
    return violated


@kernel
def widest_group(priced: Priced, low: Ints, high: Ints, violated: int) -> int:
    """The group to halve the range of: that which matters most for a violated constraint; -1: all are single ones."""
    widest, group = -1.0, -1
    for g in range(low.shape[0]):
        if high[g] > low[g]:
            width = 1e-9 * (high[g] - low[g])  # decides where nothing else does
            if violated >= 0:
                width += abs(added(priced, violated, g, high[g]) - added(priced, violated, g, low[g]))
            if width > widest:
                widest, group = width, g
    return group


@kernel
def raise_bound(
    priced: Priced, low: Ints, high: Ints, paid: Floats, known: float, pick: Ints, best: Ints, found: Floats
) -> float:  # fmt: skip
    """Move the prices `paid` of the constraints that are no links until the bound of a box is higher; the bound.

    The bound is concave in them, and what the cheapest candidates exceed is its slope: Polyak's steps. Cheapest
    candidates that meet all constraints are taken. `found[2]` counts looks at candidates and shares.
    """
    n_groups, q = low.shape[0], priced.excess.shape[0]
    links, toll = priced.links, np.empty(priced.links.group.shape[0])
    here, slope, trial, share, highest = paid.copy(), np.empty(q), np.empty(n_groups, np.int64), 1.0, -np.inf
    for _ in range(STEPS):
        value = 0.0
        slope[:] = priced.excess
        for j in range(q):
            value += here[j] * priced.excess[j]
        for u in range(links.group.shape[0]):
            toll[u] = 0.0  # of a unit of each rate
            for j in range(q):
                toll[u] += here[j] * priced.share[j, u]
        found[2] += q * links.group.shape[0]
        for g in range(n_groups):
            smallest = np.inf
            for c in range(low[g], high[g] + 1):
                price = priced.gain[c]
                for u in range(links.start[g], links.start[g + 1]):
                    price += toll[u] * links.rate[links.shift[u] + c]
                if price < smallest and priced.price[c] < np.inf:
                    smallest, trial[g] = price, c
            value += smallest
            found[2] += high[g] - low[g] + 1
            for j in range(q):
                slope[j] += added(priced, j, g, trial[g])
        if not value < known:
            return np.inf
        if cut_of_links(priced, trial, np.empty(priced.links.factor.shape[0])) < 0:
            take_if_better(priced, trial, best, found)
        if value > highest:
            highest, paid[:], pick[:] = value, here, trial
        else:
            share *= 0.5
        steep = 0.0
        for j in range(q):
            if here[j] > 0.0 or slope[j] > 0.0:
                steep += slope[j] * slope[j]
        if steep == 0.0:
            break
        step = share * (min(known, highest + priced.reach) - value) / steep
        for j in range(q):
            here[j] = max(0.0, here[j] + step * slope[j])
    return highest


@kernel
def search_boxes(
    priced: Priced, paid_at_first: Floats, granule: float, most_boxes: int, most_looks: float, best: Ints, found: Floats
) -> int:  # fmt: skip
    """Find the candidates of least gain that meet everything; return the number of boxes.

    `found[0]` is the sum of gains of `best` (inf where nothing is known that meets the constraints) and is updated
    with it. `found[1]` becomes a lower bound of the sums of gains, `found[2]` the number of looks at a candidate. No
    two sums differ by less than `granule`; by that much a box must promise to be better to be looked at.
    """
    n_groups, n_families, q = priced.first.shape[0] - 1, priced.links.factor.shape[0], priced.excess.shape[0]
    low, high, picks = np.empty((3, most_boxes, n_groups), np.int64)
    least, most = np.empty((2, most_boxes, n_families))
    paid = np.empty((most_boxes, q))
    low[0], high[0] = priced.first[:-1], priced.first[1:] - 1
    least[0], most[0], paid[0] = -1.0, 2.0, paid_at_first  # levels wider than rates
    trial, levels, some_low, some_high = (
        np.empty(n_groups, np.int64),
        np.empty(n_families),
        low[0].copy(),
        high[0].copy(),
    )
    n = 1
    bound = bound_box(priced, low[0], high[0], least[0], most[0], found[0] - granule, picks[0])
    found[1] = np.inf
    heap, box = [(bound, 0)], -1
    while True:
        if box < 0:
            if len(heap) == 0:
                break
            bound, box = heapq.heappop(heap)
            # The boxes come by rising bounds: if this one promises too little, so do all others.
            if not bound < found[0] - granule:
                break
        if n + 2 > most_boxes or found[2] > most_looks:
            found[1] = bound
            if len(heap) > 0:
                found[1] = min(bound, heap[0][0])
            break
        family, group = cut_of_links(priced, picks[box], levels), 0
        if family >= 0:
            # A guess: the levels in the middle, with which the groups are on their own.
            some_low[:], some_high[:] = low[box], high[box]
            guessed = bound_box(priced, some_low, some_high, levels.copy(), levels.copy(), found[0], trial)
            if guessed < np.inf and cut_of_links(priced, trial, levels.copy()) < 0:
                take_if_better(priced, trial, best, found)
        else:
            violated = take_if_better(priced, picks[box], best, found)
            group = widest_group(priced, low[box], high[box], violated)
            if group < 0 or not bound < found[0] - granule:
                box = -1  # nothing in this box is better
                continue
        middle = (low[box, group] + high[box, group]) // 2
        parent, box, ahead = box, -1, np.inf
        for side in range(2):
            low[n], high[n], least[n], most[n], paid[n] = (
                low[parent],
                high[parent],
                least[parent],
                most[parent],
                paid[parent],
            )
            if family >= 0:
                if side == 0:
                    most[n, family] = min(most[n, family], levels[family])
                else:
                    least[n, family] = max(least[n, family], levels[family])
            elif side == 0:
                high[n, group] = middle
            else:
                low[n, group] = middle + 1
            value = bound_box(priced, low[n], high[n], least[n], most[n], found[0] - granule, picks[n])
            if q > 0 and value < np.inf:
                known = found[0] - granule
                value = max(value, raise_bound(priced, low[n], high[n], paid[n], known, picks[n], best, found))
            if value == np.inf:
                continue
            # Go on with the better half at once: that finds thresholds to compare with.
            if value < ahead:
                if box >= 0:
                    heapq.heappush(heap, (ahead, box))
                ahead, box = value, n
            else:
                heapq.heappush(heap, (value, n))
            n += 1
        bound = ahead
    found[1] = min(found[1], found[0])
    return n
