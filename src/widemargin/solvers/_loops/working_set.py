"""Compiled steps of the working-set dual: SMO inside a block of the kernel matrix, and the scores that follow.

The variables are `b_i = y_i a_i` in [lower_i, upper_i], and `g = y - K b` is the gradient of the dual: with a bias a
step moves one of them up and another one down by the same amount, without a bias it moves one.
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = [
    "add_rows", "gather", "least", "most_gaining", "move_pair", "move_single", "partner", "solve_pairs",
    "solve_singles", "steepest",
]  # fmt: skip

_TILE = 2048  # columns whose scores stay in the first cache while rows are added
_TAU = 1e-12  # smallest curvature, as in LIBSVM


@kernel
def gather(buffer: Any, slot: Any, columns: Any, block: Any) -> None:
    """Set `block[i, j] = buffer[slot[i], columns[j]]`."""
    for i in range(slot.shape[0]):
        row = buffer[slot[i]]
        for j in range(columns.shape[0]):
            block[i, j] = row[columns[j]]


@kernel
def add_rows(buffer: Any, slot: Any, change: Any, scores: Any) -> None:
    """Add `sum_k change[k] buffer[slot[k]]` to `scores`, in double precision, four rows at a time."""
    m, n = slot.shape[0], scores.shape[0]
    for low in range(0, n, _TILE):
        high = min(low + _TILE, n)
        part = scores[low:high]
        for k in range(0, m - 3, 4):
            first, second = buffer[slot[k], low:high], buffer[slot[k + 1], low:high]
            third, fourth = buffer[slot[k + 2], low:high], buffer[slot[k + 3], low:high]
            a, b, c, d = change[k], change[k + 1], change[k + 2], change[k + 3]
            for j in range(high - low):
                part[j] += a * first[j] + b * second[j] + c * third[j] + d * fourth[j]
        for k in range(m - m % 4, m):
            row, a = buffer[slot[k], low:high], change[k]
            for j in range(high - low):
                part[j] += a * row[j]


@kernel
def steepest(g: Any, bar: Any) -> tuple[int, float]:
    """The variable that gains most on its way up, and its gradient; -inf where none can rise."""
    i, top = 0, -np.inf
    for k in range(g.shape[0]):
        value = g[k] + bar[k]
        if value > top:
            top = value
            i = k
    return i, top


@kernel
def least(g: Any, down: Any) -> float:
    """The smallest gradient of a variable that can go down; inf where none can."""
    lowest = np.inf
    for k in range(g.shape[0]):
        if down[k] > 0.0 and g[k] < lowest:
            lowest = g[k]
    return lowest


@kernel
def partner(row: Any, diagonal: Any, i: int, top: float, g: Any, down: Any, gain: Any) -> int:
    """The variable to go down while i, whose gradient is `top`, goes up: the pair's gain to second order is largest.

    `row` is row i of K. Returns -1 where no pair gains.
    """
    zero, two, tau = row.dtype.type(0.0), row.dtype.type(2.0), row.dtype.type(_TAU)
    corner = diagonal[i]
    for k in range(g.shape[0]):
        drop = row.dtype.type(max(0.0, top - g[k])) * down[k]
        gain[k] = drop * drop / max(tau, corner + diagonal[k] - two * row[k])
    j, best = -1, zero
    for k in range(g.shape[0]):
        if gain[k] > best:
            best = gain[k]
            j = k
    return j


@kernel
def move_pair(
    i: int, j: int, row: Any, other: Any, diagonal: Any, g: Any, b: Any, lower: Any, upper: Any, bar: Any, down: Any
) -> tuple[float, float]:
    """Move i up and j down by the best step that their bounds allow; `row` and `other` are their rows of K.

    Returns the gain of the dual and the curvature.
    """
    curvature = float(diagonal[i]) + float(diagonal[j]) - 2.0 * float(row[j])
    slope = g[i] - g[j]
    above, below = upper[i] - b[i], b[j] - lower[j]
    step = min(slope / max(curvature, _TAU), above, below)
    b[i] = upper[i] if step == above else b[i] + step
    b[j] = lower[j] if step == below else b[j] - step
    bar[i] = 0.0 if b[i] < upper[i] else -np.inf
    bar[j] = 0.0 if b[j] < upper[j] else -np.inf
    down[i] = 1.0 if b[i] > lower[i] else 0.0
    down[j] = 1.0 if b[j] > lower[j] else 0.0
    for k in range(g.shape[0]):
        g[k] -= step * (row[k] - other[k])
    return step * (slope - 0.5 * step * curvature), curvature


@kernel
def solve_pairs(
    K: Any, diagonal: Any, g: Any, b: Any, lower: Any, upper: Any, bar: Any, down: Any, gain: Any, share: float,
    floor: float, most: int,
) -> tuple[int, float]:  # fmt: skip
    """SMO on a block with second-order selection of pairs (Fan, Chen and Lin 2005); changes `b` and `g`.

    Stops where the violation is at most `max(share * the initial one, floor)`, or after `most` steps. Returns the
    number of steps and the smallest curvature met. `bar`, `down` and `gain` are room for q numbers, the last two in
    the precision of K; the loops over them are plain so that they become vector instructions.
    """
    q = g.shape[0]
    for k in range(q):
        bar[k] = 0.0 if b[k] < upper[k] else -np.inf
        down[k] = 1.0 if b[k] > lower[k] else 0.0
    flattest = np.inf
    target = -1.0
    steps = 0
    while True:
        i, top = steepest(g, bar)
        if top == -np.inf:
            break
        row = K[i]
        j = partner(row, diagonal, i, top, g, down, gain)
        lowest = least(g, down)
        if target < 0.0:
            target = max(share * (top - lowest), floor)
        if j < 0 or top - lowest <= target or steps >= most:
            break
        _, curvature = move_pair(i, j, row, K[j], diagonal, g, b, lower, upper, bar, down)
        flattest = min(flattest, curvature)
        steps += 1
    return steps, flattest


@kernel
def most_gaining(diagonal: Any, g: Any, b: Any, lower: Any, upper: Any, gain: Any) -> tuple[int, float]:
    """The variable whose best step gains most (-1: none), and the largest violation."""
    worst = 0.0
    for k in range(g.shape[0]):
        slope = abs(g[k])
        room = upper[k] - b[k] if g[k] > 0.0 else b[k] - lower[k]
        step = min(slope / max(float(diagonal[k]), _TAU), room)
        gain[k] = step * (slope - 0.5 * step * diagonal[k])
        if room > 0.0 and slope > worst:
            worst = slope
    i, best = -1, 0.0
    for k in range(g.shape[0]):
        if gain[k] > best:
            best = gain[k]
            i = k
    return i, worst


@kernel
def move_single(i: int, row: Any, curvature: float, g: Any, b: Any, lower: Any, upper: Any) -> Any:
    """Move i by the best step that its bounds allow; `row` is row i of K. Returns the gain of the dual."""
    before, slope = b[i], g[i]
    step = slope / max(curvature, _TAU)
    if step >= upper[i] - before:
        b[i] = upper[i]
    elif step <= lower[i] - before:
        b[i] = lower[i]
    else:
        b[i] = before + step
    step = b[i] - before
    for k in range(g.shape[0]):
        g[k] -= step * row[k]
    return step * (slope - 0.5 * step * curvature)


@kernel
def solve_singles(
    K: Any, diagonal: Any, g: Any, b: Any, lower: Any, upper: Any, gain: Any, share: float, floor: float, most: int
) -> tuple[int, float]:  # fmt: skip
    """The twin of `solve_pairs` without a bias: every step moves the variable that gains most."""
    q = g.shape[0]
    flattest = np.inf
    for k in range(q):
        flattest = min(flattest, float(diagonal[k]))
    target = -1.0
    steps = 0
    while True:
        i, worst = most_gaining(diagonal, g, b, lower, upper, gain)
        if target < 0.0:
            target = max(share * worst, floor)
        if i < 0 or worst <= target or steps >= most:
            break
        move_single(i, K[i], float(diagonal[i]), g, b, lower, upper)
        steps += 1
    return steps, flattest
