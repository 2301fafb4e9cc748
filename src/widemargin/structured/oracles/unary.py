"""Independent labels: the best flips, by a heap of their gains."""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["all_one", "at_level", "free", "levels", "take_largest"]


@kernel
def all_one(cost: Any) -> bool:
    """Whether every label costs one level, so that the number of flips is the level."""
    same = True
    for q in range(cost.shape[0]):
        same = same and cost[q] == 1
    return same


@kernel
def _sink(gain: Any, heap: Any, at: int, size: int) -> None:
    """Restore the heap (largest gain first) below a place."""
    node = heap[at]
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
def levels(u: Any, truth: Any, work: Any, everything: bool) -> None:
    """H[c] = 1 + the c largest gains `(1 - 2 y_l) u_l`, into `work.H`; the flips into `work.scratch[1]`, best first.

    Without `everything` it ends where H is negative for good (the rest is -inf): enough for the largest `c H[c]`.
    """
    for label in range(truth.shape[0]):
        work.rows[0, label] = u[0, label] if truth[label] == 0 else -u[0, label]
    take_largest(work.rows[0], truth.shape[0], work, everything)


@kernel
def take_largest(gain: Any, k: int, work: Any, everything: bool) -> int:
    """H[c] = 1 + the c largest of k gains; returns the last c of interest (see `levels`)."""
    heap, taken, H = work.scratch[0], work.scratch[1], work.H
    for label in range(k):
        heap[label] = label
        H[label + 1] = -np.inf
    for at in range(k // 2 - 1, -1, -1):
        _sink(gain, heap, at, k)
    H[0] = 1.0
    for c in range(k):
        best = heap[0]
        if not everything and H[c] + gain[best] <= 0.0 and gain[best] <= 0.0:
            return c
        taken[c] = best
        H[c + 1] = H[c] + gain[best]
        heap[0] = heap[k - 1 - c]
        _sink(gain, heap, 0, k - 1 - c)
    return k


@kernel
def at_level(c: int, truth: Any, work: Any, label: Any) -> None:
    """The label of level c, after `levels`."""
    for index in range(truth.shape[0]):
        label[index] = truth[index]
    for rank in range(c):
        flipped = work.scratch[1, rank]
        label[flipped] = 1 - truth[flipped]


@kernel
def free(u: Any, truth: Any, lam: float, weight: Any, label: Any) -> None:
    """The label with the largest score plus `lam` times its loss."""
    for index in range(truth.shape[0]):
        gain = u[0, index] if truth[index] == 0 else -u[0, index]
        flip = gain + lam * weight[0, index] > 0.0
        label[index] = 1 - truth[index] if flip else truth[index]
