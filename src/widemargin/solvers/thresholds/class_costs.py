"""Rows that are decided by the largest score plus offset: what offsets cost, and the best place of one at a time."""

import itertools
from dataclasses import dataclass, replace

import numpy as np

from widemargin._numba import array_kernel
from widemargin._typing import Floats, Ints

FEASIBLE = 1e-9
"""Summed excess that is rounding."""


@dataclass(frozen=True, eq=False)
class ClassCosts:
    """Rows with a score for each class, and what each decision adds to objective and constraints.

    Attributes
    ----------
    scores : ndarray of shape (n, K)
    cost : ndarray of shape (n, K, 1 + m)
        What a row adds that is decided as each class: to the objective, then to constraints `<= bound`.
    bound : ndarray of shape (m,)
    group : ndarray of int64, shape (n,)
        Rows of a group share offsets.
    n_groups : int
    """

    scores: Floats
    cost: Floats
    bound: Floats
    group: Ints
    n_groups: int

    @property
    def most(self) -> float:
        """No decisions have a larger objective: a larger lower bound says that none meet the constraints."""
        return float(self.cost[:, :, 0].max(axis=1).sum())

    def totals(self, offsets: Floats) -> Floats:
        """Objective and constraints of offsets, shape (n_groups, K)."""
        return total_cost(self.scores + offsets[self.group], self.cost)

    def rank(self, totals: Floats) -> tuple[float, float]:
        """Summed excess first, rounding being none, then the objective."""
        excess = float(np.maximum(totals[1:] - self.bound, 0.0).sum())
        return (excess if excess > FEASIBLE else 0.0), float(totals[0])


def range_of(scores: Floats) -> float:
    """The largest difference between the scores of a row, 1 where there is none."""
    return float((scores.max(axis=1) - scores.min(axis=1)).max(initial=0.0)) or 1.0


def merged(costs: ClassCosts) -> ClassCosts:
    """Rows with the same scores in a group are decided alike: one row stands for them."""
    keys = np.column_stack([costs.group, costs.scores])
    distinct, place = np.unique(keys, axis=0, return_inverse=True)
    if len(distinct) == len(keys):
        return costs
    cost = np.zeros((len(distinct), *costs.cost.shape[1:]))
    np.add.at(cost, place, costs.cost)
    return replace(costs, scores=distinct[:, 1:].copy(), cost=cost, group=distinct[:, 0].astype(np.int64))


def improved(costs: ClassCosts, offsets: Floats, sweeps: int) -> Floats:
    """Offsets of which none can be moved alone to a better place."""
    offsets = offsets.copy()
    n_classes = offsets.shape[1]
    totals = costs.totals(offsets)
    best = costs.rank(totals)
    of_group = [costs.group == g for g in range(costs.n_groups)]
    parts = [(costs.scores[rows], costs.cost[rows]) for rows in of_group]
    for _ in range(sweeps):
        before = best
        for g, k in itertools.product(range(costs.n_groups), range(n_classes)):
            trial = offsets.copy()
            trial[g, k] = _best_place(*parts[g], costs.bound, offsets[g], totals, k)
            if trial[g, k] == offsets[g, k]:
                continue
            # Only differences of offsets decide, so the first class keeps 0.
            trial[g] -= trial[g, 0]
            there = costs.totals(trial)
            found = costs.rank(there)
            if found < best:
                offsets, totals, best = trial, there, found
        # A whole sweep without a better place is a local best along every coordinate.
        if best == before:
            break
    return offsets


def _best_place(scores: Floats, cost: Floats, bound: Floats, offsets: Floats, totals: Floats, k: int) -> float:
    """Where to put the offset of one class, while all others stay; `totals` are those of now, with other groups'."""
    shifted = scores + offsets
    # Without the class that moves every row has one rival left, the best of the others, and one place at which it
    # changes its mind between the two.
    shifted[:, k] = -np.inf
    everyone, other = np.arange(len(scores)), np.argmax(shifted, axis=1)
    # The row is of class k where the offset is above this.
    at = shifted[everyone, other] - scores[:, k]
    order = np.argsort(at)  # the places of rows that share one are no different in any order
    at = at[order]
    change = (cost[:, k] - cost[everyone, other])[order]
    none = totals - change[at < offsets[k]].sum(axis=0)  # with no row of class k in this group
    # With the rows in the order of these places, running sums give the totals of every offset at once.
    every = none + np.concatenate([np.zeros((1, change.shape[1])), np.cumsum(change, axis=0)])
    excess = np.maximum(every[:, 1:] - bound, 0.0).sum(axis=1)
    excess[excess <= FEASIBLE] = 0.0
    edges = np.concatenate([[-np.inf], at, [np.inf]])
    best = np.flatnonzero(edges[1:] > edges[:-1])  # intervals of no width are never taken
    # The middle between two such places is as far as can be from both, so rounding cannot turn a row. The outer
    # intervals have no middle: one beyond the last place stands for them.
    middle = 0.5 * (np.clip(edges[:-1], at[0] - 1.0, None) + np.clip(edges[1:], None, at[-1] + 1.0))
    inside = (edges[:-1] < offsets[k]) & (offsets[k] < edges[1:])
    # Where the present offset is as good as any of its interval, nothing moves.
    middle[inside] = offsets[k]
    # The excess decides, then the objective, then the smallest move.
    for key in (excess, every[:, 0], np.abs(middle - offsets[k])):
        best = best[key[best] == key[best].min()]
    return float(middle[best[0]])


@array_kernel
def total_cost(shifted: Floats, cost: Floats) -> Floats:
    """What all rows add that are decided as the class of largest shifted score, shape (1 + m,)."""
    total = np.zeros(cost.shape[2])
    for i in range(shifted.shape[0]):
        won = 0
        for k in range(1, shifted.shape[1]):
            if shifted[i, k] > shifted[i, won]:
                won = k
        for j in range(total.shape[0]):
            total[j] += cost[i, won, j]
    return total
