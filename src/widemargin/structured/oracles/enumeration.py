"""All label sets of at most about 18 labels, two additions each: the table of scores doubles with every label.

Masks are relative to the truth (`mask = y xor y_i`), so the losses do not depend on the example.
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["argmax", "fill", "label_of"]

_LANES = 64


@kernel
def fill(u: Any, theta: Any, truth: Any, structure: Any, work: Any) -> None:
    """`f(y) - f(y_i)` of every mask, into `work.rows[0]`."""
    k = truth.shape[0]
    F, R, T = work.rows[0], work.rows[1], work.values[0]
    for row in range(k):
        T[row, row] = u[0, row]
    for e in range(structure.pairs.shape[0]):
        p, q = structure.pairs[e, 0], structure.pairs[e, 1]
        T[p, p] += theta[e] * truth[q]
        T[q, q] += theta[e] * truth[p]
        t = theta[e] if truth[p] == truth[q] else -theta[e]
        T[p, q] = t
        T[q, p] = t
    F[0] = 0.0
    for row in range(k):
        R[0] = -T[row, row] if truth[row] else T[row, row]
        for m in range(row):
            half, step = 1 << m, T[row, m]
            for i in range(half):
                R[half + i] = R[i] + step
        half = 1 << row
        for i in range(half):
            F[half + i] = F[i] + R[i]


@kernel
def label_of(mask: int, truth: Any, label: Any) -> None:
    """The label of a mask."""
    for index in range(truth.shape[0]):
        label[index] = truth[index] ^ ((mask >> index) & 1)


@kernel
def argmax(u: Any, theta: Any, truth: Any, by_product: bool, lam: float, structure: Any, work: Any, label: Any) -> Any:
    """The label with the largest `h g`, or `h + lam g`; returns its (h, g)."""
    fill(u, theta, truth, structure, work)
    F, best, G = work.rows[0], work.rows[1], structure.table
    width = F.shape[0] // 2
    for i in range(width):
        if by_product:
            low, high = (1.0 + F[i]) * G[i], (1.0 + F[width + i]) * G[width + i]
        else:
            low, high = F[i] + lam * G[i], F[width + i] + lam * G[width + i]
        best[i] = high if high > low else low
    while width > _LANES:  # a tournament, half against half: no jumps
        width //= 2
        for i in range(width):
            best[i] = best[width + i] if best[width + i] > best[i] else best[i]
    lane = 0
    for i in range(1, width):
        if best[i] > best[lane]:
            lane = i
    top, mask = -np.inf, 0
    for i in range(lane, F.shape[0], max(width, 1)):
        value = (1.0 + F[i]) * G[i] if by_product else F[i] + lam * G[i]
        if value > top:
            top, mask = value, i
    label_of(mask, truth, label)
    return 1.0 + F[mask], G[mask]
