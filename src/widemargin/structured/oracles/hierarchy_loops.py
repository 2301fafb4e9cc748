"""Closed label sets of a forest (a label is active only where its parent is): the best of every number of errors.

A node may err in two ways, each with its own cost: in being active, and in being a deepest active node (a leaf of the
label set, where a path stops). Loss over "nodes" uses the first, over "leaves" the second. `E[q, c]` is the best of the
strict descendants of an active q where at least one child is active; where none is, the value is 0 and the cost
`silent[q]`.
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel
from widemargin.structured.oracles.unary import all_one, take_largest

__all__ = ["at_level", "deepest", "free", "levels"]


@kernel
def deepest(label: Any, structure: Any, out: Any) -> None:
    """Mark the active nodes without an active child."""
    k = label.shape[0]
    for q in range(k):
        out[q] = label[q]
    for q in range(k):
        if label[q] and structure.parent[q] < k:
            out[structure.parent[q]] = 0


@kernel
def _last_level(u: Any, truth: Any, structure: Any, work: Any) -> int:
    """The last cost at which H may be positive, for loss over nodes with costs 1: as if sets need not be closed."""
    k, gain = truth.shape[0], work.rows[0]
    for q in range(k):
        gain[q] = -u[0, q] if truth[q] else u[0, q]
    return take_largest(gain, k, work, False)


@kernel
def levels(u: Any, truth: Any, structure: Any, work: Any, everything: bool) -> None:
    """H[c] for every cost c, into `work.H`; the decisions stay in `work` for `at_level`.

    Without `everything` it leaves out costs beyond which H is negative for good (-inf), where that is easily known.
    """
    k = truth.shape[0]
    E, mode, split, M, P = work.values, work.choice, work.split, work.rows[0], work.rows[1]
    size, silent, stop = work.scratch[0], work.scratch[1], work.scratch[2]
    most = work.H.shape[0]
    if not everything and all_one(structure.cost[0]) and most == k + 1:
        most = _last_level(u, truth, structure, work) + 1
    deepest(truth, structure, stop)
    for q in range(k + 1):
        E[q, 0, 0], size[q], silent[q] = -np.inf, 1, 0
    own = 0.0
    for position in range(k):
        q = structure.order[position]
        p, n = structure.parent[q], size[q]
        cost, stop_cost = structure.cost[0, q], structure.cost[1, q]
        m = min(n + cost + stop_cost, most)
        active_error = 0 if truth[q] else cost
        shift = active_error + (stop_cost if stop[q] else 0)
        alone = active_error + (0 if stop[q] else stop_cost) + silent[q]
        for c in range(m):
            M[c] = -np.inf
            mode[q, 0, c] = 1
            mode[q, 1, c] = 1
        for c in range(min(n, m - shift)):
            M[c + shift] = E[q, 0, c] + u[0, q]
        if alone < m and u[0, q] > M[alone]:
            M[alone], mode[q, 0, alone] = u[0, q], 0
        off = silent[q] + (cost if truth[q] else 0) + (stop_cost if stop[q] else 0)
        own += u[0, q] if truth[q] else 0.0
        before, quiet = size[p], silent[p]
        together = min(before + m - 1, most)
        _first_active(q, quiet, min(m, most - quiet), together, M, P, split)
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
def _first_active(q: int, quiet: int, m: int, together: int, M: Any, P: Any, split: Any) -> None:
    """Fill P with the branch of q as the first active child: the children before it cost `quiet`."""
    for c in range(together):
        P[c] = -np.inf
    for b in range(m):
        if M[b] > -np.inf:
            P[quiet + b] = M[b]
            split[q, 0, quiet + b], split[q, 1, quiet + b] = b, 1


@kernel
def _merge(q: int, before: int, m: int, most: int, done: Any, M: Any, P: Any, split: Any) -> None:
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
def at_level(c: int, truth: Any, structure: Any, work: Any, label: Any) -> None:
    """The label of cost c, after `levels`."""
    k = truth.shape[0]
    stop, budget = work.scratch[2], work.scratch[3]
    budget[k] = c
    for q in range(k):
        label[q] = 0
    for position in range(k, -1, -1):
        q = k if position == k else structure.order[position]
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
def free(u: Any, truth: Any, lam: float, structure: Any, work: Any, label: Any) -> None:
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
