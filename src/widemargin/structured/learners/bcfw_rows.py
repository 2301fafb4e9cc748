"""Rows of examples times weights, and blocks of the dual: what the passes of the learners do besides the argmax.

Weights are stored a row per feature, W of shape (d, S), so a sparse row of X touches contiguous rows of W. Rows come as
(data, indices, indptr): CSR with `data` of shape (1, stored), or `data` of shape (rows, d) and the others empty.
"""

from typing import Any

from widemargin._numba import kernel

__all__ = ["add_blocks", "add_rows", "grams", "remember", "scores", "squared_norm", "step"]


@kernel
def scores(rows: Any, first: int, last: int, W: Any, u: Any) -> None:
    """`u[r] = x_(first + r) W` for the rows of one example."""
    data, indices, indptr = rows
    S, dense = W.shape[1], indptr.shape[0] == 0
    for r in range(first, last):
        out = u[r - first]
        for s in range(S):
            out[s] = 0.0
        line, place, end = (r, 0, data.shape[1]) if dense else (0, indptr[r], indptr[r + 1])
        while place + 4 <= end:  # four features at a time, so that `out` is loaded and stored less often
            x0, x1, x2, x3 = data[line, place], data[line, place + 1], data[line, place + 2], data[line, place + 3]
            f0, f1, f2, f3 = place, place + 1, place + 2, place + 3
            if not dense:
                f0, f1, f2, f3 = indices[f0], indices[f1], indices[f2], indices[f3]
            w0, w1, w2, w3 = W[f0], W[f1], W[f2], W[f3]
            for s in range(S):
                out[s] = (((out[s] + x0 * w0[s]) + x1 * w1[s]) + x2 * w2[s]) + x3 * w3[s]
            place += 4
        while place < end:
            x, w = data[line, place], W[place if dense else indices[place]]
            for s in range(S):
                out[s] += x * w[s]
            place += 1


@kernel
def add_rows(rows: Any, first: int, last: int, change: Any, factor: float, W: Any) -> None:
    """`W += factor sum_r x_(first + r) (x) change[r]`."""
    data, indices, indptr = rows
    S = W.shape[1]
    for r in range(first, last):
        row = change[r - first]
        if indptr.shape[0] == 0:
            for f in range(data.shape[1]):
                x, w = factor * data[r, f], W[f]
                if x != 0.0:
                    for s in range(S):
                        w[s] += x * row[s]
        else:
            for place in range(indptr[r], indptr[r + 1]):
                x, w = factor * data[0, place], W[indices[place]]
                for s in range(S):
                    w[s] += x * row[s]


@kernel
def add_blocks(rows: Any, start: Any, a: Any, W: Any) -> None:
    """`W += X' a`, all examples."""
    for i in range(start.shape[0] - 1):
        add_rows(rows, start[i], start[i + 1], a[start[i] : start[i + 1]], 1.0, W)


@kernel
def grams(rows: Any, start: Any, place: Any, gram: Any) -> None:
    """Products of the rows of every example with each other, its square in `gram[place[i] : place[i + 1]]`."""
    data, indices, indptr = rows
    for i in range(start.shape[0] - 1):
        first, m = start[i], start[i + 1] - start[i]
        for r in range(m):
            for q in range(r + 1):
                total = 0.0
                if indptr.shape[0] == 0:
                    for f in range(data.shape[1]):
                        total += float(data[first + r, f]) * data[first + q, f]
                else:
                    j, k = indptr[first + r], indptr[first + q]
                    while j < indptr[first + r + 1] and k < indptr[first + q + 1]:
                        left, right = indices[j], indices[k]
                        if left == right:
                            total += float(data[0, j]) * data[0, k]
                        j += 1 if left <= right else 0
                        k += 1 if right <= left else 0
                gram[place[i] + r * m + q] = total
                gram[place[i] + q * m + r] = total


@kernel
def squared_norm(a: Any, b: Any, gram: Any) -> float:
    """`|sum_r x_r (x) a_r|^2 + |b|^2`, from the products of the rows, `gram` of m^2 numbers."""
    m, total = a.shape[0], 0.0
    for j in range(b.shape[0]):
        total += b[j] * b[j]
    for r in range(m):
        for q in range(r + 1):
            inner = 0.0
            for s in range(a.shape[1]):
                inner += a[r, s] * a[q, s]
            total += gram[r * m + q] * inner * (1.0 if q == r else 2.0)
    return total


@kernel
def remember(a: Any, b: Any, loss: Any, weight: float, sums: Any, b_sums: Any, loss_sums: Any, i: int) -> None:
    """Add a block, as it was for a time of that weight, to the sums of the averaged iterate."""
    for r in range(a.shape[0]):
        for s in range(a.shape[1]):
            sums[r, s] += weight * a[r, s]
    for j in range(b.shape[0]):
        b_sums[j] += weight * b[j]
    loss_sums[i] += weight * loss[i]


@kernel
def step(
    rows: Any, first: int, last: int, gram: Any, u: Any,
    p: Any, p_b: Any, level: float, C: float,
    a: Any, b: Any, loss: Any, i: int, W: Any, theta: Any,
) -> Any:  # fmt: skip
    """Frank-Wolfe step of block i towards `C (p, level)`, with exact line search.

    `p` and `p_b` are overwritten. Returns the gap of the block before the step, and the step's length.
    """
    gap = C * level - loss[i]
    for r in range(p.shape[0]):
        for s in range(p.shape[1]):
            p[r, s] = C * p[r, s] - a[r, s]
            gap -= p[r, s] * u[r, s]
    for j in range(p_b.shape[0]):
        p_b[j] = C * p_b[j] - b[j]
        gap -= p_b[j] * theta[j]
    curvature = squared_norm(p, p_b, gram)
    gamma = 0.0
    if gap > 0.0:
        gamma = 1.0 if gap >= curvature else gap / curvature
    if gamma > 0.0:
        for r in range(p.shape[0]):
            for s in range(p.shape[1]):
                a[r, s] += gamma * p[r, s]
        for j in range(p_b.shape[0]):
            b[j] += gamma * p_b[j]
            theta[j] += gamma * p_b[j]
        loss[i] += gamma * (C * level - loss[i])
        add_rows(rows, first, last, p, gamma, W)
    return gap, gamma
