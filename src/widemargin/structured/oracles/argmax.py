"""One argmax for every compiled model, and what a learner needs beside it: joint features, scores, losses.

Where the kinds of models differ, the class of `structure` says which form of a loop is compiled: the others never are.
"""

from collections.abc import Callable, Mapping

import numpy as np

from widemargin._numba import kernel, kernel_by_class, summing_kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import (
    CHAIN,
    MULTICLASS,
    ChainStructure,
    EnumerationStructure,
    GreedyStructure,
    HierarchyStructure,
    MulticlassStructure,
    PathsStructure,
    Structure,
    TreeStructure,
    UnaryStructure,
    Work,
)
from widemargin.structured.model import Features
from widemargin.structured.oracles import closed_sets, enumeration, label_tree, local_search, viterbi


def score(u: Floats, theta: Floats, label: Ints, structure: Structure) -> float:
    """f(x, label) from the potentials u of shape (rows, S) and theta."""
    # Each kind has its own features: one state, one a step, or sets of labels with pairs.
    if structure.kind in (CHAIN, MULTICLASS):
        steps = u[np.arange(label.shape[0]), label].sum()
        return float(steps + theta[label[:-1] * u.shape[1] + label[1:]].sum())
    return float(u[0] @ label + theta @ label[structure.pairs].prod(axis=1))


def loss(label: Ints, truth: Ints, structure: Structure, work: Work) -> float:
    """L(label, truth)."""
    if structure.kind == MULTICLASS:
        return float(structure.weight[truth[0], label[0]])
    if structure.kind == CHAIN:
        return float(structure.weight[0, truth[label != truth]].sum())
    total = float(structure.weight[0, label != truth].sum())
    if structure.scored:
        return float(
            enumeration.loss_of_sets(structure.scored, total, float((truth > label).sum()), float(truth.sum()))
        )
    # Only the second line of weights, of hierarchies and paths, asks where paths end.
    return total + closed_sets.loss_of_ends(label, truth, structure, work) if structure.weight.shape[0] == 2 else total


def features(label: Ints, structure: Structure) -> Features:
    """The joint features of a label: A of shape (rows, S) and b of shape (P,)."""
    states = structure.weight.shape[1]
    if structure.kind not in (CHAIN, MULTICLASS):
        return Features(label[None, :].astype(np.float64), label[structure.pairs].prod(axis=1).astype(np.float64))
    A = np.zeros((label.shape[0], states))
    A[np.arange(label.shape[0]), label] = 1.0
    # Pairs of states are numbered row by row, by the state before.
    pairs = np.bincount(label[:-1] * states + label[1:], minlength=structure.n_theta)
    return Features(A, pairs.astype(np.float64))


@kernel_by_class("structure", {ChainStructure: viterbi.point, HierarchyStructure: closed_sets.point})
def _point(u: Floats, theta: Floats, label: Ints, truth: Ints, structure: Structure, work: Work) -> tuple[float, float]:
    """(h, g) of a label, for the kinds whose search does not say it; this form is that of label sets."""
    h, g = label_tree.set_point(u[0], theta, label, truth, structure.weight[0], structure.pairs)
    return 1.0 + h, g


# One class is a chain of one step.
@kernel_by_class("structure", dict.fromkeys((ChainStructure, MulticlassStructure), viterbi.difference))
@summing_kernel
def difference(label: Ints, truth: Ints, factor: float, structure: Structure, A: Floats, b: Floats) -> None:
    """`factor` times the joint features of the truth minus those of a label, into A and b."""
    # Label sets have a place for each label and pair. Every one is written, also where the two agree, so nothing has to
    # be cleared before.
    for index in range(truth.shape[0]):
        A[0, index] = factor * (truth[index] - label[index])
    for e in range(structure.pairs.shape[0]):
        p, q = structure.pairs[e, 0], structure.pairs[e, 1]
        b[e] = factor * (truth[p] * truth[q] - label[p] * label[q])


@kernel_by_class(
    "structure",
    {
        UnaryStructure: label_tree.sort_flips,
        TreeStructure: label_tree.best_of_losses,
        HierarchyStructure: closed_sets.best_of_losses,
    },
)
def best_of_losses(u: Floats, theta: Floats, truth: Ints, structure: Structure, work: Work, everything: bool) -> None:
    """H of every level into `work.H`: the largest h of the labels of loss `unit c`. Kinds with a dynamic programme."""
    viterbi.best_of_losses(u, theta, truth, structure, work)


@kernel_by_class(
    "structure",
    {
        UnaryStructure: label_tree.flip_best,
        TreeStructure: label_tree.label_of_loss,
        HierarchyStructure: closed_sets.label_of_loss,
    },
)
def label_of_loss(c: int, truth: Ints, structure: Structure, work: Work, label: Ints) -> None:
    """The label behind `H[c]`, after `best_of_losses`."""
    viterbi.label_of_loss(c, truth, structure, work, label)


@kernel
def _best_class(
    u: Floats, theta: Floats, truth: Ints, lam: float | None, structure: Structure, work: Work, label: Ints
) -> tuple[float, float]:
    # There are few classes, so all are looked at, whatever the question.
    own, row, top = u[0, truth[0]], structure.weight[truth[0]], -np.inf
    for c in range(u.shape[1]):
        h = 1.0 + u[0, c] - own
        value = h * row[c] if lam is None else h + lam * row[c]
        if value > top:
            top, label[0] = value, c
    return 1.0 + u[0, label[0]] - own, row[label[0]]


_ALL_AT_ONCE: Mapping[
    type, Callable[[Floats, Floats, Ints, float | None, Structure, Work, Ints], tuple[float, float]]
] = {
    MulticlassStructure: _best_class,
    EnumerationStructure: enumeration.best_set,
    GreedyStructure: local_search.search,
    PathsStructure: closed_sets.best_path,
}
"""The kinds without a dynamic programme."""


@kernel_by_class(
    "structure",
    {
        UnaryStructure: label_tree.flip_what_gains,
        TreeStructure: label_tree.free,
        HierarchyStructure: closed_sets.free,
        **_ALL_AT_ONCE,
    },
)
def best_of_sum(
    u: Floats, theta: Floats, truth: Ints, lam: float, structure: Structure, work: Work, label: Ints
) -> tuple[float, float] | None:
    """The label with the largest `h + lam g`, into `label`; some forms return its (h, g) too."""
    viterbi.free(u, theta, truth, lam, structure, work, label)
    return None


@kernel_by_class("structure", _ALL_AT_ONCE)
def best_answer(
    u: Floats, theta: Floats, truth: Ints, lam: float | None, structure: Structure, work: Work, label: Ints
) -> tuple[float, float]:
    """The label with the largest `h + lam g`, or `h g` where lam is None, into `label`; returns (h, g).

    Exact, but for the local search. This form is that of the dynamic programmes. A sum is one question, a product goes
    through the losses: with the loss fixed at c, the largest h gives the largest product. As None is a type of its own,
    only the one of the two that is asked for is compiled.
    """
    if lam is not None:
        best_of_sum(u, theta, truth, lam, structure, work, label)
        return _point(u, theta, label, truth, structure, work)
    best_of_losses(u, theta, truth, structure, work, False)
    best = 0
    # H of a loss that no label has is -inf, which never wins; a loss of 0 has a product of 0, the truth.
    for c in range(1, work.H.shape[0]):
        if c * work.H[c] > best * work.H[best]:
            best = c
    # The loss is chosen by the values alone; only its label is written out. (By `int`, as it would be compiled a second
    # time for the constant 0.)
    label_of_loss(int(best), truth, structure, work, label)
    return work.H[best], best * structure.unit


@kernel
def best_sets(u: Floats, theta: Floats, nothing: Ints, structure: Structure, work: Work, labels: Ints) -> None:
    """The label set of largest score of every row, by potentials of shape (n, k), into `labels` of the same shape.

    `nothing` is the empty set.
    """
    for i in range(u.shape[0]):
        work.scratch[3, 0] = 0  # the same random starts for every row, so that none depends on those before it
        best_of_sum(u[i : i + 1], theta, nothing, 0.0, structure, work, labels[i])
