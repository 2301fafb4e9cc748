"""Label sets closed under the ancestors of a forest, and single paths of it.

Closed sets (a label is active only where its parent is): the best of every number of errors, by dynamic programming. A
node may err in two ways, each with its own cost: in being active, and in being a deepest active node (a leaf of the
label set, where a path stops). Loss over "nodes" uses the first, over "leaves" the second. `E[q, c]` is the best of the
strict descendants of an active q where at least one child is active; where none is, the value is 0 and the cost
`silent[q]`.

Paths, from a root to a node where one may end, are few: all of them are looked at, by running sums from the roots down.
"""

import numpy as np
import numpy.typing as npt

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import Structure, Work
from widemargin.structured.oracles.label_tree import all_one, set_point, take_largest


@kernel
def deepest(label: Ints, structure: Structure, out: Ints) -> None:
    """Mark the active nodes without an active child."""
    k = label.shape[0]
    for q in range(k):
        out[q] = label[q]
    for q in range(k):
        # An active child takes the mark from its parent.
        if label[q] and structure.parent[q] < k:
            out[structure.parent[q]] = 0


@kernel
def loss_of_ends(label: Ints, truth: Ints, structure: Structure, work: Work) -> float:
    """The weights of the deepest nodes that differ."""
    total, asked = 0.0, False
    for index in range(truth.shape[0]):
        asked = asked or structure.weight[1, index] != 0.0
    # Only the second line of weights asks where paths end, which takes a walk over the labels.
    if asked:
        ends, true_ends = work.scratch[0], work.scratch[1]
        deepest(label, structure, ends)
        deepest(truth, structure, true_ends)
        for index in range(truth.shape[0]):
            if ends[index] != true_ends[index]:
                total += structure.weight[1, index]
    return total


@kernel
def point(u: Floats, theta: Floats, label: Ints, truth: Ints, structure: Structure, work: Work) -> tuple[float, float]:
    """(h, g) of a label."""
    h, g = set_point(u[0], theta, label, truth, structure.weight[0], structure.pairs)
    return 1.0 + h, g + loss_of_ends(label, truth, structure, work)


@kernel
def _last_loss(u: Floats, truth: Ints, structure: Structure, work: Work) -> int:
    """The last cost at which H may be positive, for loss over nodes with costs 1: as if sets need not be closed."""
    k, gain = truth.shape[0], work.rows[0]
    for q in range(k):
        gain[q] = -u[0, q] if truth[q] else u[0, q]
    return take_largest(gain, k, work, False)


@kernel
def best_of_losses(u: Floats, theta: Floats, truth: Ints, structure: Structure, work: Work, everything: bool) -> None:
    """H[c] for every cost c, into `work.H`; the decisions stay in `work` for `label_of_loss`.

    Without `everything` it leaves out costs beyond which H is negative for good (-inf), where that is easily known.
    """
    k = truth.shape[0]
    E, mode, split, M, P = work.values, work.choice, work.split, work.rows[0], work.rows[1]
    size, silent, stop = work.scratch[0], work.scratch[1], work.scratch[2]
    most = work.H.shape[0]
    # With costs of 1 in nodes alone, closedness only takes away from the free labels, whose last loss is known.
    if not everything and all_one(structure.cost[0]) and most == k + 1:
        most = _last_loss(u, truth, structure, work) + 1
    deepest(truth, structure, stop)
    for q in range(k + 1):
        E[q, 0, 0], size[q], silent[q] = -np.inf, 1, 0
    own = 0.0
    for position in range(k):
        q = structure.order[position]
        p, n = structure.parent[q], size[q]
        cost, stop_cost = structure.cost[0, q], structure.cost[1, q]
        m = min(n + cost + stop_cost, most)
        # What an active q costs: itself where it is wrong, the end of the true path where that was here and now goes
        # on below (shift), or a new end where there was none, with all below it silent (alone).
        active_error = 0 if truth[q] else cost
        shift = active_error + (stop_cost if stop[q] else 0)
        alone = active_error + (0 if stop[q] else stop_cost) + silent[q]
        for c in range(m):
            M[c] = -np.inf
            mode[q, 0, c] = 1
            mode[q, 1, c] = 1
        for c in range(min(n, m - shift)):
            M[c + shift] = E[q, 0, c] + u[0, q]
        # q as the end of its path, against q with something active below at the same cost.
        if alone < m and u[0, q] > M[alone]:
            M[alone], mode[q, 0, alone] = u[0, q], 0
        # An inactive q has nothing active below: the whole branch costs what is true in it.
        off = silent[q] + (cost if truth[q] else 0) + (stop_cost if stop[q] else 0)
        own += u[0, q] if truth[q] else 0.0
        before, quiet = size[p], silent[p]
        # The parent needs the best with at least one child active, as it is no end then: a child is the first active
        # one, or joins others.
        together = min(before + m - 1, most)
        _first_active(q, quiet, min(m, most - quiet), together, M, P, split)
        # q inactive, against q active at the same cost.
        if off < m and M[off] < 0.0:
            M[off], mode[q, 1, off] = 0.0, 0
        _merge(q, before, m, most, E[p, 0], M, P, split)
        for c in range(together):
            E[p, 0, c] = P[c]
        size[p], silent[p] = together, quiet + off
    for c in range(work.H.shape[0]):
        work.H[c] = 1.0 - own + E[k, 0, c] if c < size[k] else -np.inf
        mode[k, 0, c] = 1
    if silent[k] < size[k] and E[k, 0, silent[k]] < 0.0:  # nothing active
        work.H[silent[k]], mode[k, 0, silent[k]] = 1.0 - own, 0


@kernel
def _first_active(
    q: int, quiet: int, m: int, together: int, M: Floats, P: Floats, split: npt.NDArray[np.int32]
) -> None:
    """Fill P with the branch of q as the first active child: the children before it cost `quiet`."""
    for c in range(together):
        P[c] = -np.inf
    for b in range(m):
        if M[b] > -np.inf:
            P[quiet + b] = M[b]
            split[q, 0, quiet + b], split[q, 1, quiet + b] = b, 1


@kernel
def _merge(
    q: int, before: int, m: int, most: int, done: Floats, M: Floats, P: Floats, split: npt.NDArray[np.int32]
) -> None:
    """Join the branch of q with those before it, one of which is active, up to the cost `most - 1`."""
    for a in range(before):
        base = done[a]
        if base == -np.inf:
            continue
        for b in range(min(m, most - a)):
            x = base + M[b]
            if x > P[a + b]:
                P[a + b] = x
                split[q, 0, a + b], split[q, 1, a + b] = b, 0


@kernel
def label_of_loss(c: int, truth: Ints, structure: Structure, work: Work, label: Ints) -> None:
    """The label of cost c, after `best_of_losses`."""
    k = truth.shape[0]
    stop, budget = work.scratch[2], work.scratch[3]
    budget[k] = c
    for q in range(k):
        label[q] = 0
    for position in range(k, -1, -1):
        q = k if position == k else structure.order[position]
        # Inactive nodes have inactive branches, and so do nodes where the path ends.
        if (q < k and label[q] == 0) or work.choice[q, 0, budget[q]] == 0:
            continue
        rest = budget[q]
        if q < k:
            rest -= (0 if truth[q] else structure.cost[0, q]) + (structure.cost[1, q] if stop[q] else 0)
        for at in range(structure.child_start[q + 1] - 1, structure.child_start[q] - 1, -1):
            d = structure.child[at]
            budget[d] = work.split[d, 0, rest]
            first = work.split[d, 1, rest] == 1
            label[d] = 1 if first else work.choice[d, 1, budget[d]]
            if first:
                break
            rest -= budget[d]


@kernel
def free(u: Floats, theta: Floats, truth: Ints, lam: float, structure: Structure, work: Work, label: Ints) -> None:
    """The label with the largest score plus `lam` times its loss: max-product, no levels."""
    k = truth.shape[0]
    best, below, top, stop = work.rows[0], work.rows[1], work.rows[2], work.scratch[2]
    favourite, alone = work.scratch[0], work.scratch[1]
    deepest(truth, structure, stop)
    for q in range(k + 1):
        below[q], top[q], favourite[q] = 0.0, -np.inf, -1
    for position in range(k):
        q = structure.order[position]
        p = structure.parent[q]
        # Score and loss of a branch: it may end at q, or go on in the children that gain; if none does, in the one
        # that loses least.
        ends = lam * structure.weight[1, q] * (1 - 2 * stop[q])  # against a label that does not end here
        gain = u[0, q] + lam * structure.weight[0, q] * (1 - 2 * truth[q])
        go_on = below[q] if top[q] > 0.0 else top[q]
        alone[q] = 1 if ends >= go_on else 0
        best[q] = gain + max(ends, go_on)
        below[p] += max(best[q], 0.0)
        if best[q] > top[p]:
            top[p], favourite[p] = best[q], q
    for position in range(k - 1, -1, -1):
        q = structure.order[position]
        p = structure.parent[q]
        if p == k:
            label[q] = 1 if best[q] > 0.0 else 0
        else:
            label[q] = 1 if label[p] and not alone[p] and (best[q] > 0.0 or favourite[p] == q) else 0


@kernel
def path_points(u: Floats, truth: Ints, structure: Structure, work: Work) -> int:
    """Score and loss of the path to every node, into `work.rows[0]` and `work.rows[1]` of k + 1 entries.

    The loss over nodes is what lies on one of the two paths, less twice what they share: exactly 0 for the truth.

    Returns
    -------
    end : int
        The node where the truth ends; k where `truth` is empty, the path of no nodes.
    """
    k: int = truth.shape[0]
    f, g, size, shared = work.rows[0], work.rows[1], work.rows[2], work.rows[3]
    f[k], size[k], shared[k] = 0.0, 0.0, 0.0
    end = k
    for position in range(k - 1, -1, -1):  # parents before children
        q = structure.order[position]
        p, w = structure.parent[q], structure.weight[0, q]
        # A path to q is the path to its parent with q: score, size and what it shares with the true path add up.
        f[q] = f[p] + u[0, q]
        size[q] = size[p] + w
        shared[q] = shared[p]
        if truth[q]:
            shared[q] += w
            end = q
    # The ends of two paths differ, or both are the same node.
    own = structure.weight[1, end] if end < k else 0.0
    for q in range(k):
        g[q] = size[q] + size[end] - 2.0 * shared[q]
        if q != end:
            g[q] += structure.weight[1, q] + own
    return end


@kernel
def path_to(node: int, structure: Structure, label: Ints) -> None:
    """The path from a root to a node, into `label`."""
    label[:] = 0
    while node < label.shape[0]:
        label[node] = 1
        node = structure.parent[node]


@kernel
def best_path(
    u: Floats, theta: Floats, truth: Ints, lam: float | None, structure: Structure, work: Work, label: Ints
) -> tuple[float, float]:
    """The path with the largest `h + lam g`, without lam `h g`; returns its (h, g)."""
    k = truth.shape[0]
    end = path_points(u, truth, structure, work)
    f, g = work.rows[0], work.rows[1]
    top, best = -np.inf, k
    for q in range(k):
        # Paths end only where a training label ends.
        if structure.ends[q]:
            h = 1.0 + f[q] - f[end]
            value = h * g[q] if lam is None else h + lam * g[q]
            if value > top:
                top, best = value, q
    path_to(best, structure, label)
    return 1.0 + f[best] - f[end], g[best]
