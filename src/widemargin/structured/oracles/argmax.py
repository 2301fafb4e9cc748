"""One argmax for every compiled model, and what a learner needs beside it: joint features, scores, losses.

The answers depend on `structure.kind` alone, so that one compiled pass of a learner serves all models.
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel, summing_kernel
from widemargin.structured.oracles import chain_loops as chain
from widemargin.structured.oracles import enumeration, label_tree, paths, unary
from widemargin.structured.oracles import greedy_loops as greedy
from widemargin.structured.oracles import hierarchy_loops as hierarchy

__all__ = ["add_features", "argmax", "at_level", "difference", "free", "levels", "loss", "score"]

_UNARY, _TREE, _HIERARCHY, _CHAIN, _MULTICLASS, _ENUMERATION, _GREEDY, _PATHS = 0, 1, 2, 3, 4, 5, 6, 7
_MARGIN, _SLACK, _SCORE = 0, 1, 2


@kernel
def score(u: Any, theta: Any, label: Any, structure: Any) -> Any:
    """f(x, label) from the potentials u of shape (rows, S) and theta."""
    total = 0.0
    if structure.kind == _MULTICLASS:
        return total + u[0, label[0]]
    if structure.kind == _CHAIN:
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
def loss(label: Any, truth: Any, structure: Any, work: Any) -> Any:
    """L(label, truth)."""
    total = 0.0
    if structure.kind == _MULTICLASS:
        return total + structure.weight[truth[0], label[0]]
    if structure.kind == _CHAIN:
        for t in range(truth.shape[0]):
            if label[t] != truth[t]:
                total += structure.weight[0, truth[t]]
        return total
    for index in range(truth.shape[0]):
        total += (label[index] ^ truth[index]) * structure.weight[0, index]
    return total + _loss_of_ends(label, truth, structure, work)


@kernel
def _loss_of_ends(label: Any, truth: Any, structure: Any, work: Any) -> Any:
    """What a hierarchy or path asks for deepest nodes that differ."""
    total = 0.0
    if (structure.kind == _HIERARCHY or structure.kind == _PATHS) and structure.weight[1].any():
        ends, true_ends = work.scratch[0], work.scratch[1]
        hierarchy.deepest(label, structure, ends)
        hierarchy.deepest(truth, structure, true_ends)
        for index in range(truth.shape[0]):
            if ends[index] != true_ends[index]:
                total += structure.weight[1, index]
    return total


@kernel
def add_features(label: Any, factor: float, structure: Any, A: Any, b: Any) -> None:
    """Add `factor` times the joint features of a label to A of shape (rows, S) and b of shape (P,)."""
    if structure.kind == _MULTICLASS:
        A[0, label[0]] += factor
        return
    if structure.kind == _CHAIN:
        for t in range(A.shape[0]):
            A[t, label[t]] += factor
            if t > 0:
                b[label[t - 1] * A.shape[1] + label[t]] += factor
        return
    for index in range(label.shape[0]):
        A[0, index] += label[index] * factor
    for e in range(structure.pairs.shape[0]):
        b[e] += label[structure.pairs[e, 0]] * label[structure.pairs[e, 1]] * factor


@summing_kernel
def _set_point(u: Any, theta: Any, label: Any, truth: Any, weight: Any, pairs: Any) -> Any:
    """f(label) - f(truth), and the weights of the labels that differ, of 0/1 labels, in one go."""
    h, g = 0.0, 0.0
    for index in range(truth.shape[0]):
        h += (label[index] - truth[index]) * u[index]
        g += (label[index] ^ truth[index]) * weight[index]
    for e in range(pairs.shape[0]):
        p, q = pairs[e, 0], pairs[e, 1]
        h += (label[p] * label[q] - truth[p] * truth[q]) * theta[e]
    return h, g


@summing_kernel
def _set_difference(label: Any, truth: Any, factor: float, pairs: Any, A: Any, b: Any) -> None:
    """`difference` of 0/1 labels, in one go."""
    for index in range(truth.shape[0]):
        A[index] = factor * (truth[index] - label[index])
    for e in range(pairs.shape[0]):
        p, q = pairs[e, 0], pairs[e, 1]
        b[e] = factor * (truth[p] * truth[q] - label[p] * label[q])


@kernel
def difference(label: Any, truth: Any, factor: float, structure: Any, A: Any, b: Any) -> None:
    """`factor` times the joint features of the truth minus those of a label, into A and b."""
    if structure.kind == _MULTICLASS or structure.kind == _CHAIN:
        A[:] = 0.0
        b[:] = 0.0
        add_features(truth, factor, structure, A, b)
        add_features(label, -factor, structure, A, b)
    else:
        _set_difference(label, truth, factor, structure.pairs, A[0], b)


@kernel
def levels(u: Any, theta: Any, truth: Any, structure: Any, work: Any, everything: bool) -> None:
    """H of every level into `work.H`: the largest h of the labels of loss `unit c`. Kinds with a dynamic programme."""
    if structure.kind == _UNARY:
        unary.levels(u, truth, work, everything)
    elif structure.kind == _TREE:
        label_tree.levels(u, theta, truth, structure, work, everything)
    elif structure.kind == _HIERARCHY:
        hierarchy.levels(u, truth, structure, work, everything)
    else:
        chain.levels(u, theta, truth, structure, work)


@kernel
def at_level(c: int, truth: Any, structure: Any, work: Any, label: Any) -> None:
    """The label behind `H[c]`, after `levels`."""
    if structure.kind == _UNARY:
        unary.at_level(c, truth, work, label)
    elif structure.kind == _TREE:
        label_tree.at_level(c, truth, structure, work, label)
    elif structure.kind == _HIERARCHY:
        hierarchy.at_level(c, truth, structure, work, label)
    else:
        chain.at_level(c, truth, structure, work, label)


@kernel
def _best_class(u: Any, truth: Any, by_product: bool, lam: float, structure: Any, label: Any) -> Any:
    """The class with the largest `h g`, or `h + lam g`."""
    own, row, top = u[0, truth[0]], structure.weight[truth[0]], -np.inf
    for c in range(u.shape[1]):
        h = 1.0 + u[0, c] - own
        value = h * row[c] if by_product else h + lam * row[c]
        if value > top:
            top, label[0] = value, c
    return 1.0 + u[0, label[0]] - own, row[label[0]]


@kernel
def free(u: Any, theta: Any, truth: Any, lam: float, structure: Any, work: Any, label: Any) -> Any:
    """The label with the largest `h + lam g`, into `label`; returns (h, g). Exact, but for the greedy search."""
    if structure.kind == _MULTICLASS:
        return _best_class(u, truth, False, lam, structure, label)
    if structure.kind == _ENUMERATION:
        return enumeration.argmax(u, theta, truth, False, lam, structure, work, label)
    if structure.kind == _PATHS:
        return paths.argmax(u, truth, False, lam, structure, work, label)
    if structure.kind == _UNARY:
        unary.free(u, truth, lam, structure.weight, label)
    elif structure.kind == _TREE:
        label_tree.free(u, theta, truth, lam, structure, work, label)
    elif structure.kind == _HIERARCHY:
        hierarchy.free(u, truth, lam, structure, work, label)
    else:
        chain.free(u, theta, truth, lam, structure, work, label)
        h = 1.0 + score(u, theta, label, structure) - score(u, theta, truth, structure)
        return h, loss(label, truth, structure, work)
    h, g = _set_point(u[0], theta, label, truth, structure.weight[0], structure.pairs)
    return 1.0 + h, g + _loss_of_ends(label, truth, structure, work)


@kernel
def argmax(u: Any, theta: Any, truth: Any, rescale: int, structure: Any, work: Any, label: Any) -> Any:
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
    slack = rescale == _SLACK
    kind = structure.kind
    if kind == _GREEDY:
        h, g = greedy.search(u, theta, truth, rescale, structure, work, label)
    elif not slack:
        h, g = free(u, theta, truth, 1.0 if rescale == _MARGIN else 0.0, structure, work, label)
    elif kind == _MULTICLASS:
        h, g = _best_class(u, truth, True, 0.0, structure, label)
    elif kind == _ENUMERATION:
        h, g = enumeration.argmax(u, theta, truth, True, 0.0, structure, work, label)
    elif kind == _PATHS:
        h, g = paths.argmax(u, truth, True, 0.0, structure, work, label)
    else:
        levels(u, theta, truth, structure, work, False)
        best = 0
        for c in range(1, work.H.shape[0]):
            if c * work.H[c] > best * work.H[best]:
                best = c
        at_level(best, truth, structure, work, label)
        h, g = work.H[best], best * structure.unit
    if slack and h * g <= 0.0:
        for index in range(truth.shape[0]):
            label[index] = truth[index]
        h, g = 1.0, 0.0
    return h, g
