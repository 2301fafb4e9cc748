"""One argmax for every compiled model, and what a learner needs beside it: joint features, scores, losses.

The answers depend on `structure.kind` alone, so that one compiled pass of a learner serves all models.
"""

import numpy as np

from widemargin._numba import kernel, summing_kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import (
    CHAIN,
    ENUMERATION,
    GREEDY,
    HIERARCHY,
    MARGIN,
    MULTICLASS,
    PATHS,
    SLACK,
    TREE,
    UNARY,
    Structure,
    Work,
)
from widemargin.structured.oracles import closed_sets, enumeration, label_tree, local_search, viterbi

__all__ = ["add_features", "argmax", "best_of_losses", "difference", "free", "label_of_loss", "loss", "score"]


@kernel
def score(u: Floats, theta: Floats, label: Ints, structure: Structure) -> float:
    """f(x, label) from the potentials u of shape (rows, S) and theta."""
    total = 0.0
    # Each kind has its own features: one state, one a step, or sets of labels with pairs.
    if structure.kind == MULTICLASS:
        return float(total + u[0, label[0]])
    if structure.kind == CHAIN:
        for t in range(u.shape[0]):
            total += u[t, label[t]]
            if t > 0:
                total += theta[label[t - 1] * u.shape[1] + label[t]]
        return total
    for index in range(label.shape[0]):  # 0 or 1: products, as jumps would be guessed wrong
        total += label[index] * u[0, index]
    for e in range(structure.pairs.shape[0]):
        total += label[structure.pairs[e, 0]] * label[structure.pairs[e, 1]] * theta[e]
    return total


@kernel
def loss(label: Ints, truth: Ints, structure: Structure, work: Work) -> float:
    """L(label, truth)."""
    total = 0.0
    if structure.kind == MULTICLASS:
        return float(total + structure.weight[truth[0], label[0]])
    if structure.kind == CHAIN:
        for t in range(truth.shape[0]):
            if label[t] != truth[t]:
                total += structure.weight[0, truth[t]]
        return total
    for index in range(truth.shape[0]):
        total += (label[index] ^ truth[index]) * structure.weight[0, index]
    return total + _loss_of_ends(label, truth, structure, work)


@kernel
def _loss_of_ends(label: Ints, truth: Ints, structure: Structure, work: Work) -> float:
    """What a hierarchy or path asks for deepest nodes that differ."""
    total = 0.0
    if (structure.kind == HIERARCHY or structure.kind == PATHS) and structure.weight[1].any():
        ends, true_ends = work.scratch[0], work.scratch[1]
        # Only the second line of weights asks where paths end, which takes a walk over the labels.
        closed_sets.deepest(label, structure, ends)
        closed_sets.deepest(truth, structure, true_ends)
        for index in range(truth.shape[0]):
            if ends[index] != true_ends[index]:
                total += structure.weight[1, index]
    return total


@kernel
def add_features(label: Ints, factor: float, structure: Structure, A: Floats, b: Floats) -> None:
    """Add `factor` times the joint features of a label to A of shape (rows, S) and b of shape (P,)."""
    if structure.kind == MULTICLASS:
        # A class has the features of its one state and no pairs.
        A[0, label[0]] += factor
        return
    if structure.kind == CHAIN:
        for t in range(A.shape[0]):
            A[t, label[t]] += factor
            if t > 0:
                # Pairs of states are numbered row by row, by the state before.
                b[label[t - 1] * A.shape[1] + label[t]] += factor
        return
    for index in range(label.shape[0]):
        A[0, index] += label[index] * factor
    for e in range(structure.pairs.shape[0]):
        b[e] += label[structure.pairs[e, 0]] * label[structure.pairs[e, 1]] * factor


@summing_kernel
def _set_point(u: Floats, theta: Floats, label: Ints, truth: Ints, weight: Floats, pairs: Ints) -> tuple[float, float]:
    """f(label) - f(truth), and the weights of the labels that differ, of 0/1 labels, in one go."""
    h, g = 0.0, 0.0
    for index in range(truth.shape[0]):
        h += (label[index] - truth[index]) * u[index]
        g += (label[index] ^ truth[index]) * weight[index]
    for e in range(pairs.shape[0]):
        # A pair counts where both of its labels are on.
        p, q = pairs[e, 0], pairs[e, 1]
        h += (label[p] * label[q] - truth[p] * truth[q]) * theta[e]
    return h, g


@summing_kernel
def _set_difference(label: Ints, truth: Ints, factor: float, pairs: Ints, A: Floats, b: Floats) -> None:
    """`difference` of 0/1 labels, in one go."""
    for index in range(truth.shape[0]):
        # Every place is written, also where the two agree, so nothing has to be cleared before.
        A[index] = factor * (truth[index] - label[index])
    for e in range(pairs.shape[0]):
        p, q = pairs[e, 0], pairs[e, 1]
        b[e] = factor * (truth[p] * truth[q] - label[p] * label[q])


@kernel
def difference(label: Ints, truth: Ints, factor: float, structure: Structure, A: Floats, b: Floats) -> None:
    """`factor` times the joint features of the truth minus those of a label, into A and b."""
    if structure.kind == MULTICLASS or structure.kind == CHAIN:
        A[:] = 0.0
        b[:] = 0.0
        add_features(truth, factor, structure, A, b)
        add_features(label, -factor, structure, A, b)
    # Classes and chains have features that collide (two steps in one state), so they are added one label after the
    # other; label sets have a place for each label and pair, written once.
    else:
        _set_difference(label, truth, factor, structure.pairs, A[0], b)


@kernel
def best_of_losses(u: Floats, theta: Floats, truth: Ints, structure: Structure, work: Work, everything: bool) -> None:
    """H of every level into `work.H`: the largest h of the labels of loss `unit c`. Kinds with a dynamic programme."""
    if structure.kind == UNARY:
        label_tree.sort_flips(u, truth, work, everything)
    elif structure.kind == TREE:
        label_tree.best_of_losses(u, theta, truth, structure, work, everything)
    elif structure.kind == HIERARCHY:
        closed_sets.best_of_losses(u, truth, structure, work, everything)
    else:
        viterbi.best_of_losses(u, theta, truth, structure, work)


@kernel
def label_of_loss(c: int, truth: Ints, structure: Structure, work: Work, label: Ints) -> None:
    """The label behind `H[c]`, after `best_of_losses`."""
    if structure.kind == UNARY:
        label_tree.flip_best(c, truth, work, label)
    elif structure.kind == TREE:
        label_tree.label_of_loss(c, truth, structure, work, label)
    elif structure.kind == HIERARCHY:
        closed_sets.label_of_loss(c, truth, structure, work, label)
    else:
        viterbi.label_of_loss(c, truth, structure, work, label)


@kernel
def _best_class(
    u: Floats, truth: Ints, by_product: bool, lam: float, structure: Structure, label: Ints
) -> tuple[float, float]:
    """The class with the largest `h g`, or `h + lam g`."""
    # There are few classes, so all are looked at, whatever the question.
    own, row, top = u[0, truth[0]], structure.weight[truth[0]], -np.inf
    for c in range(u.shape[1]):
        h = 1.0 + u[0, c] - own
        value = h * row[c] if by_product else h + lam * row[c]
        if value > top:
            top, label[0] = value, c
    return 1.0 + u[0, label[0]] - own, row[label[0]]


@kernel
def free(
    u: Floats, theta: Floats, truth: Ints, lam: float, structure: Structure, work: Work, label: Ints
) -> tuple[float, float]:
    """The label with the largest `h + lam g`, into `label`; returns (h, g). Exact, but for the greedy search."""
    if structure.kind == MULTICLASS:
        return _best_class(u, truth, False, lam, structure, label)
    if structure.kind == ENUMERATION:
        return enumeration.best_set(u, theta, truth, False, lam, structure, work, label)
    if structure.kind == PATHS:
        return closed_sets.best_path(u, truth, False, lam, structure, work, label)
    if structure.kind == UNARY:
        label_tree.flip_what_gains(u, truth, lam, structure.weight, label)
    elif structure.kind == TREE:
        label_tree.free(u, theta, truth, lam, structure, work, label)
    elif structure.kind == HIERARCHY:
        closed_sets.free(u, truth, lam, structure, work, label)
    else:
        # For sequences the point is computed from the label, which is cheap beside the search.
        viterbi.free(u, theta, truth, lam, structure, work, label)
        h = 1.0 + score(u, theta, label, structure) - score(u, theta, truth, structure)
        return h, loss(label, truth, structure, work)
    # Sets of labels have their point in one go over labels and pairs.
    h, g = _set_point(u[0], theta, label, truth, structure.weight[0], structure.pairs)
    return 1.0 + h, g + _loss_of_ends(label, truth, structure, work)


@kernel
def argmax(
    u: Floats, theta: Floats, truth: Ints, rescale: int, structure: Structure, work: Work, label: Ints
) -> tuple[float, float]:
    """The label that maximises `h + g` (rescale 0, margin), `h g` (1, slack) or the score (2), into `label`.

    Parameters
    ----------
    u : array of shape (rows, S)
        Potentials `rows W`.
    theta : array of shape (P,)
    truth : int64 array
        y_i. For the score alone any label, such as zeros.
    rescale : int
    structure : Structure
    work : Work
    label : int64 array, the shape of `truth`

    Returns
    -------
    h, g : float
        The point of `label`. Slack: where no product is positive, `label` is the truth and the point (1, 0).
    """
    # Local search and tables answer for every rescaling by themselves. For the others margin rescaling is one free
    # question, and slack rescaling goes through the losses: with the loss fixed at c, the largest h gives the largest
    # product.
    slack = rescale == SLACK
    kind = structure.kind
    if kind == GREEDY:
        h, g = local_search.search(u, theta, truth, rescale, structure, work, label)
    elif not slack:
        h, g = free(u, theta, truth, 1.0 if rescale == MARGIN else 0.0, structure, work, label)
    elif kind == MULTICLASS:
        h, g = _best_class(u, truth, True, 0.0, structure, label)
    elif kind == ENUMERATION:
        h, g = enumeration.best_set(u, theta, truth, True, 0.0, structure, work, label)
    elif kind == PATHS:
        h, g = closed_sets.best_path(u, truth, True, 0.0, structure, work, label)
    else:
        best_of_losses(u, theta, truth, structure, work, False)
        best = 0
        # H of a loss that no label has is -inf, which never wins; a loss of 0 has a product of 0, the truth.
        for c in range(1, work.H.shape[0]):
            if c * work.H[c] > best * work.H[best]:
                best = c
        # The loss is chosen by the values alone; only its label is written out.
        label_of_loss(best, truth, structure, work, label)
        h, g = work.H[best], best * structure.unit
    # Then no label violates: the hinge of the example is 0, and the truth stands for that.
    if slack and h * g <= 0.0:
        for index in range(truth.shape[0]):
            label[index] = truth[index]
        h, g = 1.0, 0.0
    return h, g
