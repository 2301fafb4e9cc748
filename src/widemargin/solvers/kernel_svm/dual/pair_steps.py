"""Compiled steps along pairs of variables: what the working-set dual does inside a block, and SMO on all rows.

The variables are `b_i = y_i a_i` in [lower_i, upper_i], and `g = y - K b` is the gradient of the dual: with a bias a
step moves one of them up and another one down by the same amount, without a bias it moves two as far as each wants.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from widemargin._numba import array_kernel, kernel, larger
from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints, Reals
from widemargin.linalg.powers import fill_row

STRETCH = 32
"""Numbers that are compared one by one."""

_TAU = 1e-12
"""The smallest curvature that is divided by, as in LIBSVM: equal rows have none."""


class Variables(NamedTuple):
    """The variables of a block, each array of shape (q,).

    Attributes
    ----------
    diagonal : ndarray
        Of K.
    g, b : ndarray
        Gradient and value; the steps change both.
    lower, upper : ndarray
        Their bounds.
    """

    diagonal: Reals
    g: Floats
    b: Floats
    lower: Floats
    upper: Floats


def gather(buffer: Reals, slot: Ints, work: Ints, before: Reals, place: Ints, block: Reals) -> None:
    """Set `block[i, j] = buffer[slot[i], work[j]]`, what the last block has from there.

    `place[i]` is the row of `work[i]` in `before`, the last block, or -1: far memory is read only for the new rows.
    """
    # The others come from the last block; what it lacks of them has just been read, as K is symmetric.
    for new in (True, False):
        part = partial(gather_rows, buffer, slot, work, before, place, block, new)
        in_threads(work.shape[0], max(1, (1 << 17) // work.shape[0]), part)


@kernel
def gather_rows(
    buffer: Reals, slot: Ints, work: Ints, before: Reals, place: Ints, block: Reals, new: bool, first: int, last: int
) -> None:
    """`gather` of some rows: those that are new to the block, or the others, whose symmetric values have been read."""
    q = work.shape[0]
    for i in range(first, last):
        if new and place[i] < 0:
            row = buffer[slot[i]]
            for j in range(q):
                block[i, j] = row[work[j]]
        elif not new and place[i] >= 0:
            row = before[place[i]]
            for j in range(q):
                block[i, j] = row[place[j]] if place[j] >= 0 else block[j, i]


@kernel
def largest(value: Reals) -> np.floating[Any]:
    """The largest number, -inf of none."""
    top = value.dtype.type(-np.inf)
    for k in range(value.shape[0]):
        top = larger(value[k], top)
    return top


@kernel
def place(value: Reals, number: float | np.floating[Any], last: bool) -> int:
    """The first place of the largest number, or the last one, as LIBSVM breaks ties; -1 where it does not occur."""
    low, high = 0, value.shape[0]
    # The compiler makes no vectors of a search that ends where it has found something, but it does of `largest`: which
    # half has the number, and which half of that, is found so, in no more time than one pass takes.
    while high - low > STRETCH:
        middle = (low + high) // 2
        if last:
            here = largest(value[middle:high]) == number
            low, high = (middle, high) if here else (low, middle)
        else:
            here = largest(value[low:middle]) == number
            low, high = (low, middle) if here else (middle, high)
    found = -1
    for k in range(low, high):
        if value[k] == number and (last or found < 0):
            found = k
    return found


@kernel
def sides(variables: Variables, room: Reals) -> tuple[np.floating[Any], np.floating[Any]]:
    """Fill `room`, of shape (5, q), in the precision of K: what each variable gains on its way up, and down.

    Returns the largest of both. Row 0 is g, or -inf where the variable is at its upper bound; row 1 is -g, or -inf at
    the lower one. Rows 2 and 3 are inf at these bounds, else 0. Row 4 is room for `partner`.
    """
    _, g, b, lower, upper = variables
    # The infinities take the place of a test in every later loop: what is at its bound can never be the largest.
    for k in range(g.shape[0]):
        room[2, k] = 0.0 if b[k] < upper[k] else np.inf
        room[3, k] = 0.0 if b[k] > lower[k] else np.inf
        room[0, k], room[1, k] = g[k] - room[2, k], -g[k] - room[3, k]
    return largest(room[0]), largest(room[1])


@kernel
def partner(row: Reals, diagonal: Reals, i: int, room: Reals, last: bool) -> int:
    """The variable to go down while i goes up: the pair's gain to second order is largest (-1: no pair gains).

    `row` is row i of K; `last` says that the last of equals is taken. The loops are plain so that they become vector
    instructions.
    """
    down, gain = room[1], room[4]
    zero, two, tau = row.dtype.type(0.0), row.dtype.type(2.0), row.dtype.type(_TAU)
    top, corner, most = room[0, i], diagonal[i], zero
    # A variable at its lower bound has -inf in `down`: its drop, and with it its gain, come out as 0 without a jump.
    for k in range(gain.shape[0]):
        drop = max(zero, top + down[k])
        gain[k] = drop * drop / max(tau, corner + diagonal[k] - two * row[k])
        most = larger(gain[k], most)
    return place(gain, most, last) if most > zero else -1


@kernel
def move_pair(
    i: int, j: int, row: Reals, other: Reals, variables: Variables, room: Reals
) -> tuple[float, float, np.floating[Any], np.floating[Any]]:
    """Move i up and j down by the best step that their bounds allow; `row` and `other` are their rows of K.

    Returns the gain of the dual, the curvature, and the largest gains on the way up and down after the step.
    """
    diagonal, g, b, lower, upper = variables
    up, down, full, empty, kind = room[0], room[1], room[2], room[3], room.dtype.type
    highest = lowest = kind(-np.inf)
    curvature = float(diagonal[i]) + float(diagonal[j]) - 2.0 * float(row[j])
    slope = g[i] - g[j]
    above, below = upper[i] - b[i], b[j] - lower[j]
    step = min(slope / max(curvature, _TAU), above, below)
    # A bound that is reached is written as it is: rounding would leave the variable just beside it.
    b[i] = upper[i] if step == above else b[i] + step
    b[j] = lower[j] if step == below else b[j] - step
    # Only these two may have reached or left a bound.
    for k in (i, j):
        full[k] = 0.0 if b[k] < upper[k] else np.inf
        empty[k] = 0.0 if b[k] > lower[k] else np.inf
    # The gradient of every variable changes with the two rows; what it gains on either side follows in the same pass.
    for k in range(g.shape[0]):
        g[k] -= step * (row[k] - other[k])
        up[k], down[k] = kind(g[k]) - full[k], -kind(g[k]) - empty[k]
        highest, lowest = larger(up[k], highest), larger(down[k], lowest)
    return step * (slope - 0.5 * step * curvature), curvature, highest, lowest


@array_kernel
def solve_pairs(
    columns: Reals, gamma: float, buffer: Reals, slot: Ints, filled: int, variables: Variables, room: Reals, last: bool,
    share: float, floor: float, most: int,
) -> tuple[int, float, float, int, float]:  # fmt: skip
    """SMO with second-order selection of pairs (Fan, Chen and Lin 2005); changes the variables.

    Of equal gains the last one is taken, as LIBSVM does, or the first.
    `buffer[slot[i]]` is row i of K; where `slot[i] < 0` it is computed (`linalg.narrow_rows`) into the next free place
    of the buffer, whose first `filled` ones are taken. Stops where the violation is at most
    `max(share * the initial one, floor)`, after `most` steps, or where the buffer is full and a row is missing. Returns
    the number of steps, the smallest curvature met, this bound of the violation, the places that are taken, and the
    gain of the dual.
    """
    highest, lowest = sides(variables, room)
    sums = np.empty(min(512, slot.shape[0]), columns.dtype)
    flattest = np.inf
    target = -1.0
    steps, gained = 0, 0.0
    while True:
        # The pair of the two largest gains tells the violation; the steps take a better second variable than that one.
        left = float(highest) + float(lowest)
        if target < 0.0:  # the first violation says how exactly this block is worth solving
            target = max(share * left, floor)
        if not left > target or steps >= most:
            break
        i = place(room[0], highest, last)
        if slot[i] < 0:
            if filled == buffer.shape[0]:
                break
            fill_row(columns, gamma, i, buffer[filled], sums)
            slot[i] = filled
            filled += 1
        row = buffer[slot[i]]
        j = partner(row, variables.diagonal, i, room, last)
        if j < 0:
            break
        if slot[j] < 0:
            if filled == buffer.shape[0]:
                break
            fill_row(columns, gamma, j, buffer[filled], sums)
            slot[j] = filled
            filled += 1
        gain, curvature, highest, lowest = move_pair(i, j, row, buffer[slot[j]], variables, room)
        gained += gain
        flattest = min(flattest, curvature)
        steps += 1
    return steps, flattest, target, filled, gained


@kernel
def most_gaining(variables: Variables, gain: Floats) -> tuple[int, float]:
    """The variable whose best step gains most (-1: none), and the largest violation."""
    (diagonal, g, b, lower, upper), worst = variables, 0.0
    for k in range(g.shape[0]):
        slope = abs(g[k])
        room = upper[k] - b[k] if g[k] > 0.0 else b[k] - lower[k]
        # The dual is a parabola along one variable: its top, or the bound before it, and what that gains.
        step = min(slope / max(float(diagonal[k]), _TAU), room)
        gain[k] = step * (slope - 0.5 * step * diagonal[k])
        if room > 0.0 and slope > worst:
            worst = slope
    most = largest(gain)
    return place(gain, most, False) if most > 0.0 else -1, worst


@kernel
def move_single(i: int, row: Reals, variables: Variables) -> float:
    """Move i by the best step that its bounds allow; `row` is row i of K. Returns the gain of the dual."""
    diagonal, g, b, lower, upper = variables
    before, slope, curvature = float(b[i]), float(g[i]), float(diagonal[i])
    step = slope / max(curvature, _TAU)
    if step >= upper[i] - before:
        b[i] = upper[i]
    elif step <= lower[i] - before:
        b[i] = lower[i]
    else:
        b[i] = before + step
    # What the bounds left of the step is what the gradient has to follow.
    step = float(b[i]) - before
    for k in range(g.shape[0]):
        g[k] -= step * row[k]
    return step * (slope - 0.5 * step * curvature)


@kernel
def joint_step(
    slope: float, other: float, corner: float, end: float, between: float, low: float, high: float, least: float,
    most: float,
) -> tuple[float, float, float]:  # fmt: skip
    """The step of two variables by the best that their bounds allow, and its gain.

    `slope`, `corner`, `low` and `high` are gradient, K(x, x) and room of the first; `other`, `end`, `least` and `most`
    those of the second; `between` is their kernel value. The second goes to its place at the best of both, cut at its
    bounds, the first follows, and then the second: exact where the best of both is within the bounds.
    """
    # The top of the parabola in two variables solves a system of two equations; here its second unknown.
    second = (other * corner - slope * between) / max(corner * end - between * between, _TAU)
    second = min(max(second, least), most)
    first = min(max((slope - between * second) / max(corner, _TAU), low), high)
    second = min(max((other - between * first) / max(end, _TAU), least), most)
    curved = 0.5 * (corner * first * first + end * second * second) + between * first * second
    return first, second, first * slope + second * other - curved


@kernel
def companion(i: int, row: Reals, variables: Variables, gain: Floats) -> int:
    """The variable that gains most together with i (-1: none gains). `row` is row i of K, `gain` room for q numbers."""
    diagonal, g, b, lower, upper = variables
    slope, corner = g[i], float(diagonal[i])
    low, high = lower[i] - b[i], upper[i] - b[i]
    for k in range(g.shape[0]):
        _, _, gain[k] = joint_step(
            slope, g[k], corner, float(diagonal[k]), float(row[k]), low, high, lower[k] - b[k], upper[k] - b[k]
        )
    gain[i] = 0.0  # it cannot accompany itself
    most = largest(gain)
    return place(gain, most, False) if most > 0.0 else -1


@kernel
def move_both(i: int, j: int, row: Reals, other: Reals, variables: Variables) -> float:
    """Move i and j by their joint step; `row` and `other` are their rows of K. Returns the gain of the dual."""
    diagonal, g, b, lower, upper = variables
    first, second, gain = joint_step(
        g[i], g[j], float(diagonal[i]), float(diagonal[j]), float(row[j]), lower[i] - b[i], upper[i] - b[i],
        lower[j] - b[j], upper[j] - b[j],
    )  # fmt: skip
    for k, step in ((i, first), (j, second)):
        if step >= upper[k] - b[k]:
            b[k] = upper[k]
        elif step <= lower[k] - b[k]:
            b[k] = lower[k]
        else:
            b[k] += step
    for k in range(g.shape[0]):
        g[k] -= first * row[k] + second * other[k]
    return gain


@kernel
def solve_free(
    K: Reals, variables: Variables, gain: Floats, share: float, floor: float, most: int
) -> tuple[int, float, float]:
    """The twin of `solve_pairs` without a bias: a step moves the variable that gains most, and its companion."""
    flattest = np.inf
    for k in range(gain.shape[0]):
        flattest = min(flattest, float(variables.diagonal[k]))
    target = -1.0
    steps = 0
    while True:
        i, worst = most_gaining(variables, gain)
        if target < 0.0:
            target = max(share * worst, floor)
        if i < 0 or worst <= target or steps >= most:
            break
        # Two variables at once: one at a time they would undo each other's steps where K is far from diagonal.
        j = companion(i, K[i], variables, gain)
        if j < 0:
            move_single(i, K[i], variables)
        else:
            move_both(i, j, K[i], K[j], variables)
        steps += 1
    return steps, flattest, target
