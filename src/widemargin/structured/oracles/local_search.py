"""Local search for pairs of any sign on any graph: a path over the levels, then climbing by flips and swaps.

Not exact. The first path starts at the truth and flips the best label k times; its best labelling is improved by single
flips and swaps until neither helps; random starts do the same climb.
"""

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import Structure, Work
from widemargin.structured.oracles.enumeration import loss_of_sets


@kernel
def _value(h: float, g: float, lam: float | None) -> float:
    """What is maximised."""
    return h * g if lam is None else h + lam * g


@kernel
def _flip(index: int, T: Floats, slope: Floats, y: Ints) -> float:
    """Flip a label; keeps the slopes, returns the gain in score."""
    up = 1.0 - 2.0 * y[index]
    gain: float = up * slope[index]
    y[index] = 1 - y[index]
    for other in range(y.shape[0]):
        # What other flips would gain depends on this label through their pair.
        slope[other] += up * T[index, other]
    return gain


@kernel
def _climb(
    h: float, wrong: float, missed: float, size: float, scored: int, truth: Ints, lam: float | None,
    weight: Floats, T: Floats, slope: Floats, y: Ints,
) -> tuple[float, float]:  # fmt: skip
    """Best flips, then best swaps of a flipped label against another, as long as they improve; returns (h, g)."""
    k = truth.shape[0]
    value = _value(h, loss_of_sets(scored, wrong, missed, size), lam)
    while True:
        # A flip or swap must gain more than rounding: else two labellings of equal value would be exchanged for ever.
        first, second = -1, -1
        bound = value + 1e-12 * (1.0 + abs(value))
        for p in range(k):
            # A flip away from the truth adds the weight of the label to the loss, one back takes it off.
            way = 1.0 if y[p] == truth[p] else -1.0
            g = loss_of_sets(scored, wrong + way * weight[0, p], missed + way * truth[p], size)
            x = _value(h + (1.0 - 2.0 * y[p]) * slope[p], g, lam)
            if x > bound:
                bound, first = x, p
        # No flip helps. A swap leaves the number of errors about as it is, which a flip cannot do: with slack
        # rescaling many local optima of single flips end here.
        if first < 0:
            for p in range(k):
                if y[p] == truth[p]:
                    continue
                up_p = 1.0 - 2.0 * y[p]
                for q in range(k):
                    if y[q] != truth[q]:
                        continue
                    up_q = 1.0 - 2.0 * y[q]
                    # Both slopes are at the same point, so the pair of the two is counted by its own weight.
                    gain = up_p * slope[p] + up_q * slope[q] + up_p * up_q * T[p, q]
                    g = loss_of_sets(scored, wrong - weight[0, p] + weight[0, q], missed - truth[p] + truth[q], size)
                    x = _value(h + gain, g, lam)
                    if x > bound:
                        bound, first, second = x, p, q
        if first < 0:
            return h, loss_of_sets(scored, wrong, missed, size)
        for index in (first, second):
            if index >= 0:
                way = 1.0 if y[index] == truth[index] else -1.0
                wrong, missed = wrong + way * weight[0, index], missed + way * truth[index]
                h += _flip(index, T, slope, y)
        value = _value(h, loss_of_sets(scored, wrong, missed, size), lam)


@kernel
def _path(
    u: Floats, theta: Floats, truth: Ints, lam: float | None, structure: Structure, work: Work, label: Ints
) -> tuple[float, float]:
    """Fill T and the slopes at the truth, then flip the best label again and again; the best labelling into `label`."""
    k = truth.shape[0]
    T, slope, y = work.values[0], work.rows[0], work.scratch[0, : truth.shape[0]]
    for p in range(k):
        slope[p], y[p], label[p] = u[0, p], truth[p], truth[p]
    for e in range(structure.pairs.shape[0]):
        p, q = structure.pairs[e, 0], structure.pairs[e, 1]
        T[p, q] = theta[e]
        T[q, p] = theta[e]
        slope[p] += theta[e] * truth[q]
        slope[q] += theta[e] * truth[p]
    # The restarts begin at the truth, so its slopes are kept.
    for p in range(k):
        work.rows[1, p] = slope[p]
    h, wrong, missed, size, best_h, best_g = 1.0, 0.0, 0.0, float(truth.sum()), 1.0, 0.0
    # The path flips each label once, the one that gains most first, also where all lose: a labelling with more errors
    # may have the larger product.
    best = _value(h, 0.0, lam)
    since = 0
    for _ in range(k):
        chosen, gain = -1, -np.inf
        for p in range(k):
            x = (1.0 - 2.0 * y[p]) * slope[p]
            if y[p] == truth[p] and x > gain:
                chosen, gain = p, x
        h += _flip(chosen, T, slope, y)
        wrong, missed = wrong + structure.weight[0, chosen], missed + truth[chosen]
        g = loss_of_sets(structure.scored, wrong, missed, size)
        value = _value(h, g, lam)
        since += 1
        if value > best:
            best, best_h, best_g, since = value, h, g, 0
            for p in range(k):
                label[p] = y[p]
        elif since >= 10:  # so many flips in vain: better labellings seldom come after
            break
    return best_h, best_g


@kernel
def search(
    u: Floats, theta: Floats, truth: Ints, lam: float | None, structure: Structure, work: Work, label: Ints
) -> tuple[float, float]:
    """The best label found for the largest `h g`, or `h + lam g`; returns its (h, g).

    The cursor in the table of random draws is `work.scratch[3, 0]`.
    """
    k = truth.shape[0]
    y, flips, cursor = work.scratch[0, : truth.shape[0]], work.scratch[1], work.scratch[3]
    best_h, best_g = _path(u, theta, truth, lam, structure, work, label)
    for start in range(structure.restarts + 1):
        # Starts differ in how many labels are flipped; most have few, as good labels are near the truth.
        density = work.draws[cursor[0]] ** 2
        for p in range(k):
            # The first climb begins at the best labelling of the path.
            if start == 0:
                flips[p] = label[p] ^ truth[p]
            else:
                cursor[0] = (cursor[0] + 1) % work.draws.shape[0]
                flips[p] = 1 if work.draws[cursor[0]] < density else 0
        # Slopes and state of the truth with these labels flipped.
        h, wrong, missed, size = 1.0, 0.0, 0.0, float(truth.sum())
        for p in range(k):
            work.rows[0, p], y[p] = work.rows[1, p], truth[p]
        for p in range(k):
            if flips[p]:
                h += _flip(p, work.values[0], work.rows[0], y)
                wrong, missed = wrong + structure.weight[0, p], missed + truth[p]
        h, g = _climb(
            h, wrong, missed, size, structure.scored, truth, lam, structure.weight, work.values[0],
            work.rows[0], y,
        )  # fmt: skip
        cursor[0] = (cursor[0] + 1) % work.draws.shape[0]
        if start == 0 or _value(h, g, lam) > _value(best_h, best_g, lam):
            best_h, best_g = h, g
            for p in range(k):
                label[p] = y[p]
    return best_h, best_g
