"""Best-first search for one candidate in each group: boxes of thresholds and of the levels of families of links.

A box is a range of candidates for each group and an interval for the level of each family (`links.py`). The interval of
a level rules out candidates, and the candidates that are left narrow the interval, until nothing changes any more. The
cheapest candidates that are left bound the objective in the box from below. Where they violate a link, the interval of
its family is cut at a level that makes them infeasible in both halves. At a fixed level the groups are independent of
each other, so few cuts are needed however many groups there are. Boxes whose lower bound is no better than the best
thresholds known are dropped.
"""

import heapq
import itertools
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints
from widemargin.solvers.thresholds.links import Links
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

STEPS = 6
"""Steps of the prices in a box. More raise the bound further and cost more; four to eight took equally long."""

STEP = 30_000
"""Candidates that are read in the time of what surrounds them in a step: about a tenth of a millisecond."""


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
        A step of the prices aims at most this far above the highest bound so far: Polyak's step needs a value to aim
        at, and the optimum is not known.
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
    # Doubling: the smallest of 2^t prices is the smaller of those of its two halves.
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
    """Rule out candidates by the levels and parts of the levels by the candidates; False where nothing is left.

    `low[g]`, ..., `high[g]` are the candidates of group g, `least[k]` to `most[k]` is the level of family k.
    """
    changed = True
    while changed:
        changed = False
        for k in range(links.factor.shape[0]):
            # `t <= rate of v` for every floored rate: the level is at most what the last candidate of v reaches.
            for e in range(links.floored_start[k], links.floored_start[k + 1]):
                v = links.floored[e]
                most[k] = min(most[k], links.rate[links.shift[v] + high[links.group[v]]])
            for e in range(links.capped_start[k], links.capped_start[k + 1]):
                u = links.capped[e]
                # `rate of u <= factor t + slack` for every capped rate: the level is at least what the first candidate
                # of u, which has the lowest rate, needs.
                needed = (links.rate[links.shift[u] + low[links.group[u]]] - links.slack[k]) / links.factor[k]
                least[k] = max(least[k], needed)
            if least[k] > most[k]:
                return False
            cap = links.factor[k] * most[k] + links.slack[k]
            for e in range(links.capped_start[k], links.capped_start[k + 1]):
                u = links.capped[e]
                g = links.group[u]
                if links.rate[links.shift[u] + high[g]] > cap:
                    # Rates rise with the candidates: bisection finds the last one that is not above the cap.
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
                if links.rate[links.shift[v] + low[g]] < least[k]:
                    # The first candidate that is not below the level.
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
        # Without the links each group takes its cheapest candidate on its own, which is a lower bound with them.
        bound = priced.constant
        for g in range(n_groups):
            pick[g] = least_place(priced.price, priced.cheapest, low[g], high[g])
            bound += priced.price[pick[g]]
        if not bound < known:
            return np.inf
        # Swapping one group's cheapest candidate for a dearer one raises the bound by the difference. Candidates at the
        # ends of the range with which it would reach the best known value are ruled out, and the links are tried again.
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
    # A constraint that is no link cannot be met in the box if even the least that every group can add exceeds it.
    for j in range(priced.excess.shape[0]):
        smallest = priced.excess[j]
        for u in range(links.group.shape[0]):
            # Rates rise from the first candidate to the last, so the least share is at one of the two ends.
            end = low[links.group[u]] if priced.share[j, u] > 0.0 else high[links.group[u]]
            smallest += priced.share[j, u] * links.rate[links.shift[u] + end]
        if smallest > FEASIBLE:
            return np.inf
    return bound


@kernel
def cheapest_at(priced: Priced, toll: Floats, low: Ints, high: Ints, pick: Ints) -> float:
    """Set `pick` to the cheapest candidate of each group where a unit of each rate costs `toll`; the sum of prices."""
    links, total = priced.links, 0.0
    for g in range(low.shape[0]):
        smallest = np.inf
        for c in range(low[g], high[g] + 1):
            price = priced.gain[c]
            for u in range(links.start[g], links.start[g + 1]):
                price += toll[u] * links.rate[links.shift[u] + c]
            if price < smallest and priced.price[c] < np.inf:
                smallest, pick[g] = price, c
        total += smallest
    return total


class Box(NamedTuple):
    """Thresholds and levels to search.

    Attributes
    ----------
    low, high : ndarrays of int64, shape (n_groups,)
        The first and the last candidate of each group.
    least, most : ndarrays of shape (f,)
        The range of the level of each family.
    paid : ndarray of shape (q,)
        Prices of the constraints that are no links.
    pick : ndarray of int64, shape (n_groups,)
        The cheapest candidates.
    """

    low: Ints
    high: Ints
    least: Floats
    most: Floats
    paid: Floats
    pick: Ints

    def copy(self) -> "Box":
        """The same box in arrays of its own."""
        return Box(
            self.low.copy(), self.high.copy(), self.least.copy(), self.most.copy(), self.paid.copy(), self.pick.copy()
        )


class BoxSearch:
    """The search and the best candidates that it has found.

    The loop is Python's: there are tens of boxes, and compiling it took longer than a thousand searches.

    Parameters
    ----------
    priced : Priced
    granule : float
        No two sums of gains differ by less. By that much a box must promise to be better to be looked at.

    Attributes
    ----------
    best : ndarray of int64, shape (n_groups,)
        Candidates of least gain found.
    known : float
        Their sum of gains; inf where nothing is found that meets the constraints.
    bound : float
        No sum of gains is lower.
    n_boxes, looks : int
        Boxes, and candidates and shares looked at.
    """

    def __init__(self, priced: Priced, granule: float) -> None:
        self.priced, self.granule = priced, granule
        self.best, self.known, self.bound = np.zeros(priced.first.shape[0] - 1, np.int64), np.inf, np.inf
        self.n_boxes = self.looks = 0

    def run(self, paid: Floats, most_boxes: int, most_looks: float) -> None:
        """Search, beginning with these prices of the constraints that are no links."""
        first, f = self.priced.first, self.priced.links.factor.shape[0]
        # Any level will do at first: rates lie between 0 and 1, and slack may take a level a little beyond.
        box = Box(first[:-1].copy(), first[1:] - 1, np.full(f, -1.0), np.full(f, 2.0), paid, np.zeros_like(self.best))
        heap, number = [(self._bound(box), 0, box)], itertools.count(1)
        self.n_boxes = 1
        while heap:
            bound, _, box = heapq.heappop(heap)
            # Go on with the better half at once: that finds thresholds to compare with.
            while bound < self.known - self.granule:
                if self.n_boxes + 2 > most_boxes or self.looks > most_looks:
                    self.bound = min([bound, *(entry[0] for entry in heap[:1]), self.known])
                    return
                # No two numbers are equal, so the heap never compares the boxes themselves.
                halves = sorted((self._priced_bound(half), next(number), half) for half in self._halves(box))
                self.n_boxes += len(halves)
                # An infinite bound says that nothing in a half is better than what is known.
                open_halves = [half for half in halves if half[0] < np.inf]
                for half in open_halves[1:]:
                    heapq.heappush(heap, half)
                if not open_halves:
                    break
                bound, _, box = open_halves[0]
        self.bound = self.known

    def _halves(self, box: Box) -> list[Box]:
        """The halves of a box where its cheapest candidates violate something; none where nothing in it is better."""
        family, levels = self._cut_of_links(box.pick)
        one, other = box.copy(), box.copy()
        if family >= 0:
            # With all levels fixed at these values the groups are independent, and the cheapest candidates meet all
            # links: a good feasible point, found early, closes many boxes.
            guess = box.copy()._replace(least=levels.copy(), most=levels.copy())
            if self._bound(guess, self.known) < np.inf and self._cut_of_links(guess.pick)[0] < 0:
                self._take_if_better(guess.pick)
            one.most[family] = min(one.most[family], levels[family])
            other.least[family] = max(other.least[family], levels[family])
            return [one, other]
        # No link is violated: what is left to decide is the thresholds of one group.
        # The group is halved that can change the violated constraint most; among equals, or where none is violated, the
        # one with most candidates (1e-9 makes their number decide between equal changes alone).
        violated, width = self._take_if_better(box.pick), 1e-9 * (box.high - box.low)
        if violated >= 0:
            change = self.priced.share[violated] * (self._rates(box.high) - self._rates(box.low))
            width = width + np.abs(np.bincount(self.priced.links.group, change, width.shape[0]))
        width[box.high == box.low] = -1.0
        group = int(np.argmax(width))
        if width[group] <= 0.0:  # every group has one candidate left
            return []
        middle = (box.low[group] + box.high[group]) // 2
        one.high[group], other.low[group] = middle, middle + 1
        return [one, other]

    def _bound(self, box: Box, known: float | None = None) -> float:
        known = self.known - self.granule if known is None else known
        return bound_box(self.priced, box.low, box.high, box.least, box.most, known, box.pick)

    def _priced_bound(self, box: Box) -> float:
        """The bound of a box, raised by moving the prices of the constraints that are no links.

        The bound is concave in the prices, and what the cheapest candidates exceed is its slope: Polyak's steps.
        Cheapest candidates that meet all constraints are taken.
        """
        bound = self._bound(box)
        if bound == np.inf or not box.paid.shape[0]:
            return bound
        priced, known = self.priced, self.known - self.granule
        here, trial, share, highest = box.paid.copy(), np.zeros_like(box.pick), 1.0, -np.inf
        for _ in range(STEPS):
            value = cheapest_at(priced, here @ priced.share, box.low, box.high, trial) + float(here @ priced.excess)
            self.looks += priced.share.size + int((box.high - box.low + 1).sum()) + STEP
            slope = self._excess(trial)
            # Any prices give a bound, so one that reaches the best value known closes the box.
            if not value < known:
                return np.inf
            if self._cut_of_links(trial)[0] < 0:
                self._take_if_better(trial)
            if value > highest:
                highest, box.paid[:], box.pick[:] = value, here, trial
            else:
                share *= 0.5  # the step went too far
            # A price that is zero and would fall stays where it is, and takes no part in the length of the step.
            steep = float(np.square(slope[(here > 0.0) | (slope > 0.0)]).sum())
            if steep == 0.0:
                break
            here = np.maximum(0.0, here + share * (min(known, highest + priced.reach) - value) / steep * slope)
        return max(bound, highest)

    def _rates(self, pick: Ints) -> Floats:
        links = self.priced.links
        rates: Floats = links.rate[links.shift + pick[links.group]]
        return rates

    def _excess(self, pick: Ints) -> Floats:
        """By how much the constraints that are no links are exceeded, shape (q,)."""
        excess: Floats = self.priced.excess + self.priced.share @ self._rates(pick)
        return excess

    def _cut_of_links(self, pick: Ints) -> tuple[int, Floats]:
        """The family whose links are violated most, or -1; and where levels have to lie or to be cut, shape (f,)."""
        links, rates = self.priced.links, self._rates(pick)
        # A level exists for these candidates where the largest one that a capped rate needs is at most the smallest
        # floored rate.
        largest = np.array([rates[part].max(initial=-np.inf) for part in _parts(links.capped, links.capped_start)])
        smallest = np.array([rates[part].min(initial=np.inf) for part in _parts(links.floored, links.floored_start)])
        needed = (largest - links.slack) / links.factor
        over = needed - smallest
        family = int(np.argmax(over)) if over.max(initial=0.0) > 0.0 else -1
        # Where no level exists, one between the two makes a capped rate infeasible below it and a floored one above.
        return family, np.where(over > 0.0, 0.5 * (smallest + needed), smallest)

    def _take_if_better(self, pick: Ints) -> int:
        """Take thresholds that violate no link, if they are the best so far; the constraint violated most, or -1."""
        excess = self._excess(pick)
        if excess.max(initial=-np.inf) > FEASIBLE:
            return int(np.argmax(excess))
        total = float(self.priced.gain[pick].sum())
        if total < self.known:
            self.known, self.best = total, pick.copy()
        return -1


def _parts(numbers: Ints, start: Ints) -> list[Ints]:
    return [numbers[low:high] for low, high in pairwise(start.tolist())]
