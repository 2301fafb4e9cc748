"""Steps of block-coordinate Frank-Wolfe in which every label of a set has a length of its own, for margin rescaling.

A step towards a label set has one length for all labels, and is the shorter the more labels there are: what moves far
enough for one of them is too far for most others. But a dual point is a distribution over label sets. Draw a set from
it and U uniform on [0, 1], and take every label l of `length_l > U` from the goal of the step, the others from the set
drawn: that is a distribution over label sets, too. So each label may go its own length towards the goal. Without pairs
of labels the best lengths are those of dual coordinate ascent, one binary problem for each label (Hsieh et al. 2008);
where two labels have a pair, it follows from both lengths, and each of them counts half of what it gains.
"""

import numpy as np

from widemargin._numba import inlined_kernel, kernel, kernel_by_class
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import (
    ChainStructure,
    HierarchyStructure,
    MulticlassStructure,
    PathsStructure,
    Structure,
)

__all__ = ["go_by_label"]


@inlined_kernel
def _gained(gap: float, bend: float) -> float:
    """What the dual grows by along a parabola, at the best length up to 1."""
    return gap - 0.5 * bend if gap >= bend else 0.5 * gap * gap / bend


@inlined_kernel
def _pair(
    q: int, r: int, truth: Ints, mass: float, lengths: Floats, a: Floats, p: Floats, own: float, C: float
) -> float:  # fmt: skip
    """What stands in b for the pair of labels q and r after steps of their lengths; times 1 / C, as p is."""
    # The label of the larger length comes from the goal wherever the other one does.
    far, near = (q, r) if lengths[q] >= lengths[r] else (r, q)
    both = float(truth[q] * truth[r])
    goal_far = truth[far] - p[far] / mass
    goal_near, now_near = truth[near] - p[near] / mass, truth[near] - a[near] / (C * mass)
    on = lengths[near] * goal_far * goal_near + (lengths[far] - lengths[near]) * goal_far * now_near
    return float(mass * (both - on) - (1.0 - lengths[far]) * (mass * both - own / C))


@kernel
def _as_one(
    u: Floats, theta: Floats, truth: Ints, mass: float, square: float, structure: Structure, C: float, a: Floats,
    b: Floats, p: Floats, p_b: Floats, goal_loss: float,
) -> tuple[float, float]:  # fmt: skip
    """Other labels than sets, and sets that have to be closed, move as one."""
    return goal_loss, -np.inf


@kernel_by_class(
    "structure",
    dict.fromkeys((ChainStructure, HierarchyStructure, MulticlassStructure, PathsStructure), _as_one),
)
def go_by_label(
    u: Floats, theta: Floats, truth: Ints, mass: float, square: float, structure: Structure, C: float, a: Floats,
    b: Floats, p: Floats, p_b: Floats, goal_loss: float,
) -> tuple[float, float]:  # fmt: skip
    """Replace the goal (p, p_b) of a step of margin rescaling by where the lengths of its labels lead, if that gains.

    Parameters
    ----------
    u : ndarray of shape (1, k)
        Potentials.
    theta : ndarray of shape (P,)
    truth : ndarray of shape (k,)
    mass : float
        Weight of the example.
    square : float
        Squared length of its row.
    structure : Structure
    C : float
    a : ndarray of shape (1, k), b : ndarray of shape (P,)
        The block.
    p : ndarray of shape (1, k), p_b : ndarray of shape (P,)
        A label set, times `mass`.
    goal_loss : float
        Its loss, times `mass`.

    Returns
    -------
    loss : float
        Of the goal as it is now.
    gap : float
        Of the block, by the goal as it was; -inf where that is not known.
    """
    pairs, weight = structure.pairs, structure.weight[0]
    k = truth.shape[0]
    # Jaccard, F1 and exact match are no sums over labels.
    if structure.scored != 0 or mass == 0.0:
        return goal_loss, -np.inf
    gains, lengths, moved = np.empty(k), np.empty(k), np.empty(pairs.shape[0])
    gap = bend = 0.0
    for label in range(k):
        # A place of p or a is off 0 only as far as the label differs from the truth, so its absolute value is the share
        # of the loss that the label brings, and the gap is a sum over labels.
        move = C * p[0, label] - a[0, label]
        gains[label] = weight[label] * (abs(C * p[0, label]) - abs(a[0, label])) - move * u[0, label]
        lengths[label] = move * move * square
        gap += gains[label]
        bend += lengths[label]
    for e in range(pairs.shape[0]):
        q, r = pairs[e, 0], pairs[e, 1]
        move = C * p_b[e] - b[e]
        gap -= move * theta[e]
        bend += move * move
        gains[q] -= 0.5 * move * theta[e]
        gains[r] -= 0.5 * move * theta[e]
        lengths[q] += 0.5 * move * move
        lengths[r] += 0.5 * move * move
    if gap <= 0.0:
        return goal_loss, gap
    # Where a label is at its goal nothing bends, and it is as good as there.
    for label in range(k):
        lengths[label] = 1.0 if gains[label] >= lengths[label] else max(0.0, gains[label] / lengths[label])
    mine = turn = 0.0
    for label in range(k):
        step = lengths[label] * (C * p[0, label] - a[0, label])
        mine += weight[label] * (abs(a[0, label] + step) - abs(a[0, label])) - step * u[0, label]
        turn += step * step * square
    for e in range(pairs.shape[0]):
        moved[e] = _pair(pairs[e, 0], pairs[e, 1], truth, mass, lengths, a[0], p[0], b[e], C)
        step = C * moved[e] - b[e]
        mine -= step * theta[e]
        turn += step * step
    # Without pairs the lengths are the best there are; with pairs they are a guess.
    if mine <= 0.0 or _gained(mine, turn) <= _gained(gap, bend):
        return goal_loss, gap
    for e in range(pairs.shape[0]):
        p_b[e] = moved[e]
    loss = 0.0
    for label in range(k):
        p[0, label] = a[0, label] / C + lengths[label] * (p[0, label] - a[0, label] / C)
        loss += weight[label] * abs(p[0, label])
    return loss, gap
