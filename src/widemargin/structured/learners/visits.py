"""Visits of examples: the most violating label at the weights of now, and the step of a block towards it, compiled.

The loop is one for all that a pass may be for, so that it is compiled once: the argmax within it takes most of that
time.

In steps of margin rescaling every label of a set has a length of its own. A step towards a label set has one length for
all labels, and is the shorter the more labels there are: what moves far enough for one of them is too far for most
others. But a dual point is a distribution over label sets. Draw a set from it and U uniform on [0, 1], and take every
label l of `length_l > U` from the goal of the step, the others from the set drawn: that is a distribution over label
sets, too. So each label may go its own length towards the goal. Without pairs of labels the best lengths are those of
dual coordinate ascent, one binary problem for each label (Hsieh et al. 2008); where two labels have a pair, it follows
from both lengths, and each of them counts half of what it gains.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import array_kernel, kernel, kernel_by_class
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import (
    ChainStructure,
    HierarchyStructure,
    MulticlassStructure,
    PathsStructure,
    Structure,
    Work,
)
from widemargin.structured.learners.example_rows import ExampleRows, add_rows, scores
from widemargin.structured.learners.problem import Blocks
from widemargin.structured.model import Weights
from widemargin.structured.oracles.argmax import best_answer, difference

__all__ = [
    "AVERAGED_STEPS", "LABELS", "STEPS", "VALUES", "Average", "Buffers", "Training", "go_by_label", "keep_in_place",
    "no_sums", "remember", "respond", "squared_norm", "update_block", "visit",
]  # fmt: skip

VALUES, LABELS, STEPS, AVERAGED_STEPS = range(4)
"""What a pass is for: the hinges of all examples, their labels too, or steps of the blocks, with sums of the iterates.
"""


class Training(NamedTuple):
    """Training examples as the compiled passes see them, with their weights.

    lam is 1 for margin rescaling, and None for slack rescaling (see `argmax.best_answer`). The shifts of potentials are
    none or those of every example, a row each.
    """

    rows: ExampleRows
    start: Ints
    gram: Floats
    gram_start: Ints
    truth: Ints
    truth_start: Ints
    structure: Structure
    lam: float | None
    weight: Floats
    shift: Floats


class Buffers(NamedTuple):
    """Scratch for one example: potentials, (p, p_b) and the label."""

    u: Floats
    p: Floats
    p_b: Floats
    label: Ints


class Average(NamedTuple):
    """Sums of the iterates `w_1, w_2, ...` with weights 1, 2, ....

    Attributes
    ----------
    a : ndarray of shape (all rows, S)
    loss : ndarray of shape (n,)
        Of the blocks, up to the last visit of each.
    theta : ndarray of shape (P,)
        Up to the last step. By block it would be as large as all pairs of all examples.
    visited : ndarray of shape (n,)
        Step of the last visit.
    """

    a: Floats
    loss: Floats
    theta: Floats
    visited: Ints


def no_sums(blocks: Blocks) -> Average:
    """What stands for the sums where there are none."""
    return Average(blocks.a, blocks.loss, blocks.loss, np.empty(0, dtype=np.int64))


@kernel
def squared_norm(a: Floats, b: Floats, gram: Floats) -> float:
    """`|sum_r x_r (x) a_r|^2 + |b|^2`, from the products of the rows, `gram` of m^2 numbers."""
    m, total = a.shape[0], 0.0
    for j in range(b.shape[0]):
        total += b[j] * b[j]
    # The rows enter by their products, which were computed once: no loop over features.
    for r in range(m):
        for q in range(r + 1):
            inner = 0.0
            for s in range(a.shape[1]):
                inner += a[r, s] * a[q, s]
            total += gram[r * m + q] * inner * (1.0 if q == r else 2.0)
    return total


@kernel
def remember(
    a: Floats, loss: Floats, theta: Floats, t: int, visited: Ints, sums: Floats, loss_sums: Floats, theta_sums: Floats,
    i: int,
) -> None:  # fmt: skip
    """Add block i, as it was since its last visit, to the sums of the averaged iterate; step t visits it again."""
    # It was the same for the iterates visited[i], ..., t - 1, which have these weights.
    weight = 0.5 * (float(t) * (t - 1) - float(visited[i]) * (visited[i] - 1))
    visited[i] = t
    for r in range(a.shape[0]):
        for s in range(a.shape[1]):
            sums[r, s] += weight * a[r, s]
    loss_sums[i] += weight * loss[i]
    # Every step changes theta: this one is that of the iterate t - 1.
    for j in range(theta.shape[0]):
        theta_sums[j] += (t - 1.0) * theta[j]


@kernel
def update_block(
    rows: ExampleRows, first: int, last: int, gram: Floats, u: Floats,
    p: Floats, p_b: Floats, label_loss: float, C: float,
    a: Floats, b: Floats, loss: Floats, i: int, W: Floats, theta: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Frank-Wolfe step of block i towards `C (p, loss)`, with exact line search.

    `p` and `p_b` are overwritten. Returns the gap of the block before the step, and the step's length.
    """
    # The direction of the step is `C (p, loss)` minus the block; its inner product with the gradient of the dual is
    # the gap of the block.
    gap = C * label_loss - loss[i]
    for r in range(p.shape[0]):
        for s in range(p.shape[1]):
            p[r, s] = C * p[r, s] - a[r, s]
            gap -= p[r, s] * u[r, s]
    for j in range(p_b.shape[0]):
        p_b[j] = C * p_b[j] - b[j]
        gap -= p_b[j] * theta[j]
    # Along the direction the dual is a parabola, so the best length is known: the gap over the curvature, at most 1.
    curvature = squared_norm(p, p_b, gram)
    gamma = 0.0
    if gap > 0.0:
        gamma = 1.0 if gap >= curvature else gap / curvature
    # At a length of 0 nothing changes, and the loop over the features is spared.
    if gamma > 0.0:
        for r in range(p.shape[0]):
            for s in range(p.shape[1]):
                a[r, s] += gamma * p[r, s]
        for j in range(p_b.shape[0]):
            b[j] += gamma * p_b[j]
            theta[j] += gamma * p_b[j]
        loss[i] += gamma * (C * label_loss - loss[i])
        add_rows(rows, first, last, p, gamma, W)
    return gap, gamma


@array_kernel
def go_to(
    examples: Ints, found: Blocks, rows: ExampleRows, start: Ints, gram: Floats, gram_start: Ints, C: float,
    blocks: Blocks, weights: Weights, t: int, average: Average,
) -> float:  # fmt: skip
    """Frank-Wolfe steps of some blocks after t others, each towards (p, p_b, loss) of a label found before.

    `found` holds them one example after the other, and is overwritten. Returns the sum of the gaps of the blocks, each
    before its step; labels that are no longer worth one count 0.
    """
    (a, b, loss), (W, theta), (p, p_b, label_loss) = blocks, weights, found
    a_sums, loss_sums, theta_sums, visited = average
    u, place, total = np.empty((start[1] - start[0], W.shape[1])), 0, 0.0
    for position in range(examples.shape[0]):
        i = examples[position]
        first, last = start[i], start[i + 1]
        if u.shape[0] != last - first:
            u = np.empty((last - first, W.shape[1]))
        scores(rows, first, last, W, u)
        t += 1
        if visited.shape[0] > 0:
            remember(a[first:last], loss, theta, t, visited, a_sums[first:last], loss_sums, theta_sums, i)
        end = place + last - first
        gap, _ = update_block(
            rows, first, last, gram[gram_start[i] : gram_start[i + 1]], u, p[place:end], p_b[position],
            label_loss[position], C, a[first:last], b[i], loss, i, W, theta,
        )  # fmt: skip
        place, total = end, total + max(0.0, gap)
    return total


@kernel
def keep_in_place(shift: Floats, i: int, u: Floats) -> None:
    """Move the potentials of example i so that labels that are left out of its loss keep their value."""
    if shift.shape[0] > 0:
        for s in range(u.shape[1]):
            u[0, s] += shift[i, s]


@kernel
def respond(
    u: Floats, theta: Floats, truth: Ints, weight: float, lam: float | None, structure: Structure, work: Work,
    label: Ints, p: Floats, p_b: Floats,
) -> tuple[float, float]:  # fmt: skip
    """The most violating label as (p, p_b, loss): margin rescaling has p = psi, slack rescaling p = L psi.

    The weight of the example multiplies all three, and with them its hinge.

    Returns
    -------
    loss, value : float
        The loss of the label, and the example's structured hinge.
    """
    slack = lam is None
    h, g = best_answer(u, theta, truth, lam, structure, work, label)
    value = h * g if slack else h + g - 1.0
    # The truth itself has the value 0, so nothing violates.
    if value <= 0.0 or weight == 0.0:
        p[:] = 0.0
        p_b[:] = 0.0
        return 0.0, 0.0
    difference(label, truth, weight * g if slack else weight, structure, p, p_b)
    return weight * g, weight * value


@kernel
def visit(
    order: Ints, purpose: int, training: Training, work: Work, weights: Weights, blocks: Blocks, values: Floats, t: int,
    C: float, average: Average, buffers: Buffers,
) -> float:  # fmt: skip
    """Visit the examples of `order`.

    Parameters
    ----------
    order : ndarray of int64
    purpose : int
        VALUES: their structured hinges go to `values`. LABELS: (p, p_b, loss) of the labels go to `blocks` too. STEPS:
        `blocks` is a dual point; block by block goes towards the label found, and `weights` with it. AVERAGED_STEPS:
        the sums of `average` are kept up too.
    training, work, weights, blocks, values, average, buffers
        Arrays that the purpose has no use for may be empty.
    t : int
        Steps made before.

    Returns
    -------
    float
        Sum of the gaps of the blocks, each before its step.
    """
    rows, start, gram, gram_start, truth, truth_start, structure, lam, weight, shift = training
    (a, b, loss), (W, theta), (u, p, p_b, label) = blocks, weights, buffers
    a_sums, loss_sums, theta_sums, visited = average
    total = 0.0
    for position in range(order.shape[0]):
        i = order[position]
        first, last = start[i], start[i + 1]
        m = last - first
        mine = truth[truth_start[i] : truth_start[i + 1]]
        if purpose < STEPS:
            # Random starts begin at a place in the table of draws that depends on the example alone, not on who is
            # before it: threads share the examples.
            work.scratch[3, 0] = i * 613 % work.draws.shape[0]
        scores(rows, first, last, W, u)
        keep_in_place(shift, i, u)
        own_loss, value = respond(
            u[:m], theta, mine, weight[i], lam, structure, work, label[: mine.shape[0]], p[:m], p_b
        )
        if purpose < STEPS:
            values[i] = value
        if purpose == LABELS:
            loss[i] = own_loss
            # Number by number: compiling NumPy's copies would take seconds at the first fit.
            for r in range(m):
                for s in range(u.shape[1]):
                    a[first + r, s] = p[r, s]
            for j in range(b.shape[1]):
                b[i, j] = p_b[j]
        if purpose < STEPS:
            continue
        t += 1
        # Averages are brought up to date only where a block changes, so a step stays as cheap as the example.
        if purpose == AVERAGED_STEPS:
            remember(a[first:last], loss, theta, t, visited, a_sums[first:last], loss_sums, theta_sums, i)
        products = gram[gram_start[i] : gram_start[i + 1]]
        own_loss, before = go_by_label(
            u[:m], theta, mine, weight[i], lam, products[0], structure, C, a[first:last], b[i], p[:m], p_b, own_loss
        )
        gap, _ = update_block(
            rows, first, last, products, u[:m], p[:m], p_b, own_loss, C, a[first:last], b[i], loss, i, W, theta
        )
        total += max(gap, before)
    return total


@kernel
def _gained(gap: float, bend: float) -> float:
    """What the dual grows by along a parabola, at the best length up to 1."""
    return gap - 0.5 * bend if gap >= bend else 0.5 * gap * gap / bend


@kernel
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
    u: Floats, theta: Floats, truth: Ints, mass: float, lam: float | None, square: float, structure: Structure,
    C: float, a: Floats, b: Floats, p: Floats, p_b: Floats, goal_loss: float,
) -> tuple[float, float]:  # fmt: skip
    """Other labels than sets, and sets that have to be closed, move as one."""
    return goal_loss, -np.inf


@kernel_by_class(
    "structure",
    dict.fromkeys((ChainStructure, HierarchyStructure, MulticlassStructure, PathsStructure), _as_one),
)
@array_kernel
def go_by_label(
    u: Floats, theta: Floats, truth: Ints, mass: float, lam: float | None, square: float, structure: Structure,
    C: float, a: Floats, b: Floats, p: Floats, p_b: Floats, goal_loss: float,
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
    lam : float or None
        Of `Training`. In steps of slack rescaling, which has None, the goal stays what it is; nothing else is compiled.
    square : float
        Squared length of its row.
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
    if lam is None:
        return goal_loss, -np.inf
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
