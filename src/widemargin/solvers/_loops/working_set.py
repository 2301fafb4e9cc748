"""Compiled steps of the working-set dual: SMO inside a block of the kernel matrix, and the scores that follow.

The variables are `b_i = y_i a_i` in [lower_i, upper_i], and `g = y - K b` is the gradient of the dual: with a bias a
step moves one of them up and another one down by the same amount, without a bias it moves one.
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["LANES", "gather", "peak", "solve_pairs", "solve_singles"]

LANES = 64  # numbers that are compared side by side
_TAU = 1e-12  # smallest curvature, as in LIBSVM


@kernel
def gather(buffer: Any, slot: Any, work: Any, before: Any, place: Any, block: Any) -> None:
    """Set `block[i, j] = buffer[slot[i], work[j]]`, what the last block has from there.

    `place[i]` is the row of `work[i]` in `before`, the last block, or -1: far memory is read only for the new rows.
    """
    q = work.shape[0]
    for i in range(q):
        if place[i] < 0:
            row = buffer[slot[i]]
            for j in range(q):
                block[i, j] = row[work[j]]
    for i in range(q):
        if place[i] >= 0:
            row = before[place[i]]
            for j in range(q):
                block[i, j] = row[place[j]] if place[j] >= 0 else block[j, i]


@kernel
def peak(value: Any, lanes: Any) -> int:
    """The first place of the largest value. `lanes` is room for `LANES` numbers, which become vector instructions."""
    q, width = value.shape[0], lanes.shape[0]
    full = q - q % width
    best = 0
    if full > 0:
        for k in range(width):
            lanes[k] = value[k]
        for start in range(width, full, width):
            part = value[start : start + width]
            for k in range(width):
                lanes[k] = max(lanes[k], part[k])
        for k in range(1, width):
            if lanes[k] > lanes[best]:
                best = k
        top = lanes[best]
        while value[best] != top:
            best += width
    for k in range(full, q):
        if value[k] > value[best]:
            best = k
    return best


@kernel
def solve_pairs(
    K: Any, diagonal: Any, g: Any, b: Any, lower: Any, upper: Any, room: Any, lanes: Any, share: float, floor: float,
    most: int,
) -> tuple[int, float]:  # fmt: skip
    """SMO on a block with second-order selection of pairs (Fan, Chen and Lin 2005); changes `b` and `g`.

    Stops where the violation is at most `max(share * the initial one, floor)`, or after `most` steps. Returns the
    number of steps and the smallest curvature met. `room`, of shape (5, q), and `lanes` are in the precision of K; the
    loops over them are plain so that they become vector instructions.
    """
    q = g.shape[0]
    up, down, full, empty, gain = room[0], room[1], room[2], room[3], room[4]
    zero, two, tau = K.dtype.type(0.0), K.dtype.type(2.0), K.dtype.type(_TAU)
    for k in range(q):
        full[k] = 0.0 if b[k] < upper[k] else np.inf  # what keeps a variable from going up
        empty[k] = 0.0 if b[k] > lower[k] else np.inf  # and down
        up[k], down[k] = g[k] - full[k], -g[k] - empty[k]
    flattest = np.inf
    target = -1.0
    steps = 0
    while True:
        i = peak(up, lanes)  # the steepest way up
        top, left = up[i], up[i] + down[peak(down, lanes)]
        if target < 0.0:
            target = max(share * left, floor)
        if not left > target or steps >= most:
            break
        row, corner = K[i], diagonal[i]
        for k in range(q):
            drop = max(zero, top + down[k])
            gain[k] = drop * drop / max(tau, corner + diagonal[k] - two * row[k])
        j = peak(gain, lanes)  # its best partner
        if not gain[j] > zero:
            break
        other = K[j]
        curvature = float(corner) + float(diagonal[j]) - 2.0 * float(row[j])
        flattest = min(flattest, curvature)
        above, below = upper[i] - b[i], b[j] - lower[j]
        step = min((g[i] - g[j]) / max(curvature, _TAU), above, below)
        b[i] = upper[i] if step == above else b[i] + step
        b[j] = lower[j] if step == below else b[j] - step
        full[i] = 0.0 if b[i] < upper[i] else np.inf
        full[j] = 0.0 if b[j] < upper[j] else np.inf
        empty[i] = 0.0 if b[i] > lower[i] else np.inf
        empty[j] = 0.0 if b[j] > lower[j] else np.inf
        for k in range(q):
            g[k] -= step * (row[k] - other[k])
            up[k], down[k] = g[k] - full[k], -g[k] - empty[k]
        steps += 1
    return steps, flattest


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
        worst = 0.0
        for k in range(q):
            slope = abs(g[k])
            room = upper[k] - b[k] if g[k] > 0.0 else b[k] - lower[k]
            step = min(slope / max(float(diagonal[k]), _TAU), room)
            gain[k] = step * (slope - 0.5 * step * diagonal[k])
            if room > 0.0 and slope > worst:
                worst = slope
        if target < 0.0:
            target = max(share * worst, floor)
        i, best = -1, 0.0
        for k in range(q):
            if gain[k] > best:
                best = gain[k]
                i = k
        if i < 0 or worst <= target or steps >= most:
            break
        step = g[i] / max(float(diagonal[i]), _TAU)
        if step >= upper[i] - b[i]:
            step = upper[i] - b[i]
            b[i] = upper[i]
        elif step <= lower[i] - b[i]:
            step = lower[i] - b[i]
            b[i] = lower[i]
        else:
            b[i] += step
        row = K[i]
        for k in range(q):
            g[k] -= step * row[k]
        steps += 1
    return steps, flattest
