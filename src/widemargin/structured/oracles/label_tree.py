"""Independent labels and labels joined by the edges of a forest: the best label set of every number of errors.

Independent labels are sorted by what a flip gains, with a heap. Trees need a dynamic programme: in flip coordinates
`z = y xor y_i` the score is `f(y) - f(y_i) = v . z + sum_q t_q z_q z_parent(q)`. `S[q, s, c]` is the best of the
subtree of q where q has state s and its strict descendants cost c; the children are merged one by one. The roots hang
below a virtual root of state 0. O(k^2) for Hamming counts.
"""

import numpy as np

from widemargin._numba import kernel, summing_kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import Structure, Work


@summing_kernel
def set_point(u: Floats, theta: Floats, label: Ints, truth: Ints, weight: Floats, pairs: Ints) -> tuple[float, float]:
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


@kernel
def all_one(cost: Ints) -> bool:
    """Whether every label costs one level, so that the number of flips is the level."""
    same = True
    for q in range(cost.shape[0]):
        same = same and cost[q] == 1
    return same


@kernel
def _sink(gain: Floats, heap: Ints, at: int | np.int64, size: int) -> None:
    """Restore the heap (largest gain first) below a place."""
    node = heap[at]
    # The larger of the two below moves up, until the node is in its place.
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and gain[heap[below + 1]] > gain[heap[below]]:
            below += 1
        if gain[heap[below]] <= gain[node]:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = node


@kernel
def sort_flips(u: Floats, theta: Floats, truth: Ints, structure: Structure, work: Work, everything: bool) -> None:
    """H[c] = 1 + the c largest gains `(1 - 2 y_l) u_l`, into `work.H`; the flips into `work.scratch[1]`, best first.

    Without `everything` it ends where H is negative for good (the rest is -inf): enough for the largest `c H[c]`.
    """
    # A flip takes a label that is on out of the score, and puts one that is off in.
    for label in range(truth.shape[0]):
        work.rows[0, label] = u[0, label] if truth[label] == 0 else -u[0, label]
    take_largest(work.rows[0], truth.shape[0], work, everything)


@kernel
def take_largest(gain: Floats, k: int, work: Work, everything: bool) -> int:
    """H[c] = 1 + the c largest of k gains; returns the last c of interest (see `best_of_losses`)."""
    heap, taken, H = work.scratch[0], work.scratch[1], work.H
    for label in range(k):
        heap[label] = label
        H[label + 1] = -np.inf
    # A heap costs O(k) to build, and the argmax seldom takes more than a few of its labels: cheaper than sorting.
    for at in range(k // 2 - 1, -1, -1):
        _sink(gain, heap, at, k)
    H[0] = 1.0
    for c in range(k):
        best = heap[0]
        # From here on every gain is negative, so H falls, and no product can be positive.
        if not everything and H[c] + gain[best] <= 0.0 and gain[best] <= 0.0:
            return c
        taken[c] = best
        H[c + 1] = H[c] + gain[best]
        heap[0] = heap[k - 1 - c]
        _sink(gain, heap, np.int64(0), k - 1 - c)  # compiled for whole numbers, and not for the constant 0 too
    return k


@kernel
def flip_best(c: int, truth: Ints, structure: Structure, work: Work, label: Ints) -> None:
    """The label of level c, after `best_of_losses`."""
    for index in range(truth.shape[0]):
        label[index] = truth[index]
    for rank in range(c):
        # The flips were taken best first, so the first c of them are the best label of loss c.
        flipped = work.scratch[1, rank]
        label[flipped] = 1 - truth[flipped]


@kernel
def flip_what_gains(
    u: Floats, theta: Floats, truth: Ints, lam: float, structure: Structure, work: Work, label: Ints
) -> None:
    """The label with the largest score plus `lam` times its loss."""
    for index in range(truth.shape[0]):
        gain = u[0, index] if truth[index] == 0 else -u[0, index]
        # Labels without edges are decided one by one.
        flip = gain + lam * structure.weight[0, index] > 0.0
        label[index] = 1 - truth[index] if flip else truth[index]


@kernel
def flip_coordinates(u: Floats, theta: Floats, truth: Ints, pairs: Ints, v: Floats, t: Floats) -> None:
    """Fill v and t with `f(y) - f(truth) = v . z + sum_e t_e z_p z_q`, `z = y xor truth`."""
    k = truth.shape[0]
    for q in range(k):
        v[q] = u[0, q]
    for e in range(theta.shape[0]):
        p, q = pairs[e, 0], pairs[e, 1]
        v[p] += theta[e] * truth[q]
        v[q] += theta[e] * truth[p]
        t[e] = theta[e] if truth[p] == truth[q] else -theta[e]
    for q in range(k):
        if truth[q]:
            v[q] = -v[q]


@kernel
def _flip_gains(u: Floats, theta: Floats, truth: Ints, structure: Structure, work: Work) -> None:
    """Gain of every single flip, and what the two of a label and its parent gain on top, into the first two rows."""
    of_pair = work.rows[2]
    flip_coordinates(u, theta, truth, structure.pairs, work.rows[0], of_pair)
    for q in range(truth.shape[0]):
        work.rows[1, q] = of_pair[structure.edge[q]] if structure.edge[q] >= 0 else 0.0


@kernel
def _last_loss(v: Floats, t: Floats, structure: Structure, work: Work) -> int:
    """The last cost at which H may be positive, for costs 1: an edge gives each of its ends half of what it gains."""
    k = structure.order.shape[0]
    optimistic = work.rows[4]
    for q in range(k):
        optimistic[q] = v[q]
    for q in range(k):
        # Only edges that gain are shared out: leaving out those that lose keeps the bound an upper one.
        if t[q] > 0.0:
            optimistic[q] += 0.5 * t[q]
            optimistic[structure.parent[q]] += 0.5 * t[q]
    return take_largest(optimistic, k, work, False)


@kernel
def best_of_losses(u: Floats, theta: Floats, truth: Ints, structure: Structure, work: Work, everything: bool) -> None:
    """H[c] for every cost c, into `work.H`; the decisions stay in `work` for `label_of_loss`.

    Without `everything` it leaves out costs beyond which H is negative for good (-inf).
    """
    k = truth.shape[0]
    S, state, split = work.values, work.choice, work.split
    v, t, M, P, size = work.rows[0], work.rows[1], work.rows[2], work.rows[3], work.scratch[0]
    _flip_gains(u, theta, truth, structure, work)
    # Costs at which H is surely negative are left out of all tables.
    most = work.H.shape[0]
    if not everything and all_one(structure.cost[0]):
        most = _last_loss(v, t, structure, work) + 1
    for q in range(k):
        S[q, 0, 0], S[q, 1, 0], size[q] = 0.0, v[q], 1
    # The virtual root stays in state 0, so its branch is the whole forest.
    S[k, 0, 0], size[k] = 0.0, 1
    for position in range(k):
        q = structure.order[position]
        p, n, w = structure.parent[q], size[q], structure.cost[0, q]
        m, own = min(n + w, most), size[p]
        size[p] = min(own + m - 1, most)
        for s in range(1 if p == k else 2):
            extra = s * t[q]
            # The state of q is chosen here, once its branch is complete, for either state of its parent.
            for c in range(m):
                stay = S[q, 0, c] if c < n else -np.inf
                flip = S[q, 1, c - w] + extra if c >= w else -np.inf
                M[c] = flip if flip > stay else stay
                state[q, s, c] = 1 if flip > stay else 0
            # The first child: there is nothing to merge with.
            if own == 1:
                base = S[p, s, 0]
                for b in range(m):
                    S[p, s, b] = base + M[b]
                    split[q, s, b] = b
                continue
            for c in range(size[p]):
                P[c] = -np.inf
            for first in range(min(own, m)):  # the longer loop inside, without jumps
                for second in range(min(max(own, m), most - first)):
                    a, b = (second, first) if own >= m else (first, second)
                    x = S[p, s, a] + M[b]
                    better = x > P[first + second]
                    P[first + second] = x if better else P[first + second]
                    split[q, s, first + second] = b if better else split[q, s, first + second]
            for c in range(size[p]):
                S[p, s, c] = P[c]
    for c in range(work.H.shape[0]):
        work.H[c] = 1.0 + S[k, 0, c] if c < size[k] else -np.inf


@kernel
def label_of_loss(c: int, truth: Ints, structure: Structure, work: Work, label: Ints) -> None:
    """The label of cost c, after `best_of_losses`."""
    k = truth.shape[0]
    z, budget = work.scratch[1], work.scratch[2]
    z[k], budget[k] = 0, c
    for position in range(k, -1, -1):
        q = k if position == k else structure.order[position]
        rest = budget[q]
        if q < k:
            z[q] = work.choice[q, z[structure.parent[q]], rest]
            rest -= z[q] * structure.cost[0, q]
            label[q] = truth[q] ^ z[q]
        # Children are taken back in the reverse order of their merging, each with its share of the cost.
        for at in range(structure.child_start[q + 1] - 1, structure.child_start[q] - 1, -1):
            d = structure.child[at]
            budget[d] = work.split[d, z[q], rest]
            rest -= budget[d]


@kernel
def free(u: Floats, theta: Floats, truth: Ints, lam: float, structure: Structure, work: Work, label: Ints) -> None:
    """The label with the largest score plus `lam` times its loss: max-product, no levels."""
    k = truth.shape[0]
    v, t, stay, z = work.rows[0], work.rows[1], work.rows[2], work.scratch[1]
    _flip_gains(u, theta, truth, structure, work)
    for q in range(k):
        v[q] += lam * structure.weight[0, q]
        stay[q] = 0.0
    for position in range(k):
        q = structure.order[position]
        p = structure.parent[q]
        if p < k:
            # The parent may be flipped or not; for either the better state of q counts.
            stay[p] += max(stay[q], v[q])
            v[p] += max(stay[q], v[q] + t[q])
    z[k] = 0
    for position in range(k - 1, -1, -1):
        q = structure.order[position]
        # From the roots down: what the parent does is known here.
        together = t[q] if z[structure.parent[q]] else 0.0
        z[q] = 1 if v[q] + together > stay[q] else 0
        label[q] = truth[q] ^ z[q]
