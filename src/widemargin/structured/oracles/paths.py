"""The paths of a forest, from a root to a node where one may end: all of them, by running sums from the roots down."""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["argmax", "path_to", "points"]


@kernel
def points(u: Any, truth: Any, structure: Any, work: Any) -> Any:
    """Score and loss of the path to every node, into `work.rows[0]` and `work.rows[1]` of k + 1 entries.

    The loss over nodes is what lies on one of the two paths, less twice what they share: exactly 0 for the truth.

    Returns
    -------
    end : int
        The node where the truth ends; k where `truth` is empty, the path of no nodes.
    """
    k = truth.shape[0]
    f, g, size, shared = work.rows[0], work.rows[1], work.rows[2], work.rows[3]
    f[k], size[k], shared[k] = 0.0, 0.0, 0.0
    end = k
    for position in range(k - 1, -1, -1):  # parents before children
        q = structure.order[position]
        p, w = structure.parent[q], structure.weight[0, q]
        f[q] = f[p] + u[0, q]
        size[q] = size[p] + w
        shared[q] = shared[p]
        if truth[q]:
            shared[q] += w
            end = q
    own = structure.weight[1, end] if end < k else 0.0
    for q in range(k):
        g[q] = size[q] + size[end] - 2.0 * shared[q]
        if q != end:
            g[q] += structure.weight[1, q] + own
    return end


@kernel
def path_to(node: int, structure: Any, label: Any) -> None:
    """The path from a root to a node, into `label`."""
    label[:] = 0
    while node < label.shape[0]:
        label[node] = 1
        node = structure.parent[node]


@kernel
def argmax(u: Any, truth: Any, by_product: bool, lam: float, structure: Any, work: Any, label: Any) -> Any:
    """The path with the largest `h g`, or `h + lam g`; returns its (h, g)."""
    k = truth.shape[0]
    end = points(u, truth, structure, work)
    f, g = work.rows[0], work.rows[1]
    top, best = -np.inf, k
    for q in range(k):
        if structure.ends[q]:
            h = 1.0 + f[q] - f[end]
            value = h * g[q] if by_product else h + lam * g[q]
            if value > top:
                top, best = value, q
    path_to(best, structure, label)
    return 1.0 + f[best] - f[end], g[best]
