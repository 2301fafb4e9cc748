"""Offsets of many classes by rows that decide softly, and ever harder.

Decisions leap when an offset moves, and a search that moves one offset at a time (`class_costs.improved`) ends where
two would have to move together: a bound on one class is met only by giving up the surplus of another. Where a row is
given to class k with the probability `softmax((scores + offsets) / temperature)_k`, objective and constraints are
smooth in the offsets. At each of a few falling temperatures an augmented Lagrangian takes all offsets at once to where
the soft constraints hold; in the end, when single offsets are moved to their best places, every row decides again.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from widemargin._numba import array_kernel
from widemargin._typing import Floats, Ints
from widemargin.solvers.thresholds.class_costs import ClassCosts, improved

UPDATES, STEPS = 4, 30
"""Updates of the multipliers at a temperature, and steps of L-BFGS between them."""

MOST_READ = 5e5
"""Of larger tables a sample is taken that has so many numbers: an evaluation reads all of them, and some hundred are
made. The offsets of a sample are moved to their best places on all rows."""


def soft_offsets(costs: ClassCosts, start: Floats, sweeps: int, temperatures: Sequence[float]) -> Floats:
    """The best offsets that the temperatures lead to, each moved alone to its best place in the end.

    Parameters
    ----------
    costs : ClassCosts
    start : ndarray of shape (n_groups, K)
    sweeps : int
        Of `improved`.
    temperatures : sequence of float
        Falling, in units of the usual distance between the two largest scores of a row.

    Returns
    -------
    ndarray of shape (n_groups, K)
        `start`, where nothing better was found.
    """
    few, share = costs, MOST_READ / costs.cost.size
    if share < 1.0:
        # So many rows as one evaluation may read, each standing for as many as were left out.
        n = len(costs.scores)
        rows = np.sort(np.random.default_rng(0).permutation(n)[: max(1, int(share * n))])
        cost = costs.cost[rows] * (n / len(rows))
        few = replace(costs, scores=costs.scores[rows], cost=cost, group=costs.group[rows])
    # In this unit temperatures mean the same whatever the scale of the scores is.
    ordered = np.partition(few.scores, -2, axis=1)
    unit = float(np.median(ordered[:, -1] - ordered[:, -2])) or 1.0
    best, rank = start, costs.rank(costs.totals(start))
    offsets, multipliers, stiffness = start, np.zeros(len(costs.bound)), 10.0
    for temperature in temperatures:
        offsets, multipliers = _at(few, offsets, multipliers, stiffness, temperature * unit)
        stiffness *= 2.0
        # Offsets that differ by one number for all classes decide the same; here the first class has none.
        trial = improved(costs, offsets - offsets[:, :1], sweeps)
        best, rank = min((best, rank), (trial, costs.rank(costs.totals(trial))), key=lambda one: one[1])
    return best


def _at(
    costs: ClassCosts, offsets: Floats, multipliers: Floats, stiffness: float, temperature: float
) -> tuple[Floats, Floats]:
    """Offsets and multipliers at a temperature, by the method of multipliers."""

    def lagrangian(flat: Floats, multipliers: Floats) -> tuple[float, Floats]:
        at = flat.reshape(costs.n_groups, -1)
        totals, likely = soft_totals(costs.scores, costs.cost, costs.group, at, temperature)
        # A constraint that holds with room has the price 0: its term is constant then, and pulls at nothing.
        prices = np.maximum(0.0, multipliers + stiffness * (totals[1:] - costs.bound))
        slopes = soft_slopes(likely, costs.cost, costs.group, prices, costs.n_groups) / temperature
        penalty = float(prices @ prices - multipliers @ multipliers) / (2.0 * stiffness)
        return float(totals[0]) + penalty, slopes.ravel()

    options = {"maxiter": STEPS}
    for _ in range(UPDATES):
        found = minimize(lagrangian, offsets.ravel(), multipliers, "L-BFGS-B", jac=True, options=options)
        offsets = np.asarray(found.x, np.float64).reshape(offsets.shape)
        totals, _ = soft_totals(costs.scores, costs.cost, costs.group, offsets, temperature)
        # The prices where the last minimisation ended are the next multipliers. With them the constraints come to hold
        # at a finite stiffness, where a penalty alone would have to grow without end.
        multipliers = np.maximum(0.0, multipliers + stiffness * (totals[1:] - costs.bound))
    return offsets, multipliers


@array_kernel
def soft_totals(
    scores: Floats, cost: Floats, group: Ints, offsets: Floats, temperature: float
) -> tuple[Floats, Floats]:
    """What all rows add that are decided softly, shape (1 + m,), and the probabilities of their classes."""
    n_classes = scores.shape[1]
    totals, likely = np.zeros(cost.shape[2]), np.empty(scores.shape)
    for i in range(scores.shape[0]):
        most, whole = -np.inf, 0.0
        for k in range(n_classes):
            likely[i, k] = (scores[i, k] + offsets[group[i], k]) / temperature
            most = max(most, likely[i, k])
        # The largest exponent is taken off all of them, so that none overflows.
        for k in range(n_classes):
            likely[i, k] = np.exp(likely[i, k] - most)
            whole += likely[i, k]
        for k in range(n_classes):
            likely[i, k] /= whole
            # At low temperatures most classes are impossible for most rows.
            if likely[i, k] > 1e-12:
                for j in range(totals.shape[0]):
                    totals[j] += likely[i, k] * cost[i, k, j]
    return totals, likely


@array_kernel
def soft_slopes(likely: Floats, cost: Floats, group: Ints, prices: Floats, n_groups: int) -> Floats:
    """Derivatives of objective and constraints at prices in the offsets, times the temperature, shape (n_groups, K)."""
    n_classes = likely.shape[1]
    slopes, own = np.zeros((n_groups, n_classes)), np.zeros(n_classes)
    for i in range(likely.shape[0]):
        mean = 0.0
        for k in range(n_classes):
            own[k] = 0.0
            if likely[i, k] > 1e-12:
                own[k] = cost[i, k, 0]
                for j in range(prices.shape[0]):
                    own[k] += prices[j] * cost[i, k, 1 + j]
                mean += likely[i, k] * own[k]
        # A larger offset takes probability from all classes in proportion to theirs, so it gains what its class costs
        # beyond the mean of the row.
        for k in range(n_classes):
            slopes[group[i], k] += likely[i, k] * (own[k] - mean)
    return slopes
