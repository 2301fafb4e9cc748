"""Visits of examples: the most violating label at the weights of now, and the step of a block towards it, compiled.

The loop is one for all that a pass may be for, so that it is compiled once: the argmax within it takes most of that
time.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import inlined_kernel, kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import Structure, Work
from widemargin.structured.learners.example_rows import ExampleRows, add_rows, scores
from widemargin.structured.learners.label_steps import go_by_label
from widemargin.structured.learners.problem import Blocks
from widemargin.structured.model import Weights
from widemargin.structured.oracles.argmax import best_answer, difference

__all__ = [
    "AVERAGED_STEPS", "LABELS", "STEPS", "VALUES", "Average", "Buffers", "Training", "keep_in_place", "no_sums",
    "remember", "respond", "squared_norm", "update_block", "visit",
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


@kernel
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


@inlined_kernel
def keep_in_place(shift: Floats, i: int, u: Floats) -> None:
    """Move the potentials of example i so that labels that are left out of its loss keep their value."""
    if shift.shape[0] > 0:
        for s in range(u.shape[1]):
            u[0, s] += shift[i, s]


@inlined_kernel
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
    C: float, average: Average, buffers: Buffers, known: Blocks,
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
    C : float
    known : Blocks
        Of all examples, (p, p_b, loss) of labels that were found before, at other weights, and that steps go towards.
        Without rows they are looked for at the weights of now.

    Returns
    -------
    float
        Sum of the gaps of the blocks, each before its step; labels that are no longer worth one count 0.
    """
    rows, start, gram, gram_start, truth, truth_start, structure, lam, weight, shift = training
    (a, b, loss), (W, theta), (u, p, p_b, label) = blocks, weights, buffers
    a_sums, loss_sums, theta_sums, visited = average
    total, least = 0.0, -np.inf if known.loss.shape[0] == 0 else 0.0
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
        if known.loss.shape[0] > 0:
            # Number by number: compiling NumPy's copies would take seconds at the first fit.
            own_loss, value = known.loss[i], 0.0
            for r in range(m):
                for s in range(u.shape[1]):
                    p[r, s] = known.a[first + r, s]
            for j in range(p_b.shape[0]):
                p_b[j] = known.b[i, j]
        else:
            own_loss, value = respond(
                u[:m], theta, mine, weight[i], lam, structure, work, label[: mine.shape[0]], p[:m], p_b
            )
        if purpose < STEPS:
            values[i] = value
        if purpose == LABELS:
            loss[i] = own_loss
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
        products, before = gram[gram_start[i] : gram_start[i + 1]], -np.inf
        if lam is not None:
            own_loss, before = go_by_label(
                u[:m], theta, mine, weight[i], products[0], structure, C, a[first:last], b[i], p[:m], p_b, own_loss
            )
        gap, _ = update_block(
            rows, first, last, products, u[:m], p[:m], p_b, own_loss, C, a[first:last], b[i], loss, i, W, theta
        )
        total += max(gap, before, least)
    return total
