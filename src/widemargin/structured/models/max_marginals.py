"""Max-marginals of label sets: the best score with a label on, minus the best score with it off.

What `decision_function` returns for label sets: positive where the best label set has the label, and how much the score
would suffer from the other decision. All rows at once where there is a recursion over the labels.
"""

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import Structure, Work
from widemargin.structured.oracles import enumeration
from widemargin.structured.oracles.closed_sets import path_to
from widemargin.structured.oracles.closures import best_closure


def of_tree(u: Floats, theta: Floats, structure: Structure) -> Floats:
    """Labels joined by the edges of a forest: max-product from the leaves to the roots and back.

    Parameters
    ----------
    u : ndarray of shape (n, k)
    theta : ndarray of shape (P,)
    structure : Structure
        Of kind TREE or UNARY.

    Returns
    -------
    ndarray of shape (n, k)
    """
    k = u.shape[1]
    pair = np.append(theta, 0.0)[structure.edge]  # weight of the edge from each label to its parent; 0 without one
    up = u.copy()  # gain of a label being on, with what is below it
    from_branch = np.zeros_like(u)  # what the branch of q adds to the gain of its parent
    for q in structure.order.tolist():
        p = int(structure.parent[q])
        if p < k:
            # What the branch gains more where its parent is on: the better of q on and off, with and without the edge.
            from_branch[:, q] = np.maximum(up[:, q] + pair[q], 0.0) - np.maximum(up[:, q], 0.0)
            up[:, p] += from_branch[:, q]
    for q in structure.order[::-1].tolist():  # parents before children
        p = int(structure.parent[q])
        if p < k:
            rest = up[:, p] - from_branch[:, q]  # gain of the parent without the branch of q
            up[:, q] += np.maximum(rest + pair[q], 0.0) - np.maximum(rest, 0.0)
    return up


def of_closed_sets(u: Floats, structure: Structure) -> Floats:
    """Label sets closed under the ancestors of a forest.

    Parameters
    ----------
    u : ndarray of shape (n, k)
    structure : Structure
        Of kind HIERARCHY.

    Returns
    -------
    ndarray of shape (n, k)
    """
    k = u.shape[1]
    below = u.copy()  # best of a branch whose top is on; 0 where it is off
    for q in structure.order.tolist():
        p = int(structure.parent[q])
        if p < k:
            below[:, p] += np.maximum(below[:, q], 0.0)
    roots = structure.parent == k
    best = np.maximum(below[:, roots], 0.0).sum(axis=1)
    on, off = np.empty_like(u), np.empty_like(u)
    for q in structure.order[::-1].tolist():
        p = int(structure.parent[q])
        # Taking the branch of q out of the best set leaves what the rest is worth.
        above = best if p == k else on[:, p]  # the best where q may be on
        without = above - np.maximum(below[:, q], 0.0)
        on[:, q] = without + below[:, q]
        off[:, q] = without if p == k else np.maximum(off[:, p], without)
    margin: Floats = on - off
    return margin


def of_paths(u: Floats, structure: Structure) -> Floats:
    """Paths of a forest: by the scores of all of them.

    Parameters
    ----------
    u : ndarray of shape (n, k)
    structure : Structure
        Of kind PATHS.

    Returns
    -------
    ndarray of shape (n, k)
        Infinite where all paths have the label, or none.
    """
    ends = np.flatnonzero(structure.ends)
    paths = np.empty((ends.shape[0], u.shape[1]), dtype=np.int64)
    for row, end in enumerate(ends.tolist()):
        path_to(end, structure, paths[row])
    return of_sets(u @ paths.T, paths)


def of_sets(scores: Floats, sets: Ints) -> Floats:
    """Listed sets, shape (s, k), by the scores of all, shape (n, s); infinite where all or none have a label."""
    margin = np.empty((scores.shape[0], sets.shape[1]))
    for label, on in enumerate(sets.T == 1):
        # The best set with the label against the best one without it.
        best, other = (scores[:, some].max(axis=1, initial=-np.inf) for some in (on, ~on))
        margin[:, label] = best - other
    return margin


def of_closures(u: Floats, arcs: Ints) -> Floats:
    """Label sets closed under the ancestors of a directed acyclic graph: two minimum cuts a label.

    Parameters
    ----------
    u : ndarray of shape (n, k)
    arcs : ndarray of shape (m, 2)
        (parent, child).
    """
    margin = np.empty_like(u)
    for row, gain in enumerate(u):
        large = 2.0 * float(np.abs(gain).sum()) + 1.0  # decides a label whatever the others
        for q in range(u.shape[1]):
            # A gain beyond all others together puts q into the best set, its negative keeps q out.
            forced = gain.copy()
            forced[q] += large
            on = float(gain @ best_closure(forced, arcs))
            forced[q] -= 2.0 * large
            margin[row, q] = on - float(gain @ best_closure(forced, arcs))
    return margin


def of_table(u: Floats, theta: Floats, structure: Structure, work: Work) -> Floats:
    """Label sets of at most about 18 labels: by the scores of all of them.

    Parameters
    ----------
    u : ndarray of shape (n, k)
    theta : ndarray of shape (P,)
    structure : Structure
        Of kind ENUMERATION.
    """
    k = u.shape[1]
    nothing, margin = np.zeros(k, dtype=np.int64), np.empty_like(u)
    for row in range(u.shape[0]):
        enumeration.fill(u[row : row + 1], theta, nothing, structure, work)
        # Label sets are numbered in binary: those with the last label are the second half. The better of the two halves
        # are the best scores by the other labels, of which the last one is next: two looks at each set in all.
        best = work.rows[0]
        for q in range(k - 1, -1, -1):
            off, on = best[: 1 << q], best[1 << q :]
            margin[row, q] = on.max() - off.max()
            best = np.maximum(off, on)
    return margin


def of_others(u: Floats, theta: Floats, labels: Ints, pairs: Ints) -> Floats:
    """Gain of a label being on with the other labels as they are: where max-marginals are too hard.

    Parameters
    ----------
    u : ndarray of shape (n, k)
    theta : ndarray of shape (P,)
    labels : ndarray of shape (n, k)
        The decoded label sets.
    pairs : ndarray of shape (P, 2)
    """
    T = np.zeros((u.shape[1], u.shape[1]))
    T[pairs[:, 0], pairs[:, 1]] = theta
    # What the other labels of the set add to each label through its pairs.
    gain: Floats = u + labels @ (T + T.T)
    return gain
