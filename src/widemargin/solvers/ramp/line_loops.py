"""Compiled loops of the moves along lines: the best classifier on one, and many lines after each other.

Along a direction the scores are `z + t x`, and row i changes sides only at `t = -z_i / x_i`. So all 0/1 rates are step
functions of t, and one pass over the sorted turns tries every classifier on the line.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Cells, Floats, Integers, Ints
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

__all__ = ["TIE", "TINY", "Counted", "Lines", "State", "try_lines"]

TIE = 1e-9
"""Turns closer than this, relative to their distance, count as one: rounding does not tell them apart."""
EQUAL = 1e-12
"""Violations and objectives are sums in another order each time, so equal ones are told by so tiny a difference."""
STILL = 1e-11
"""Entries of a direction below this are what rounding leaves of the rows that it holds fixed."""
SAMPLE = 128
"""Distances that tell about how far the nearest of many lie."""
TINY = float(np.finfo(float).tiny)
"""The smallest distance that is not zero."""


class Counted(NamedTuple):
    """What a row counts in objective and constraints when it turns positive.

    Attributes
    ----------
    weight : ndarray of shape (n,)
        Of each row.
    cell : ndarray of int, shape (n,)
        Of each row.
    gain : ndarray of shape (c,)
        What a unit of weight of each cell adds to the objective.
    indptr : ndarray of int, shape (c + 1,)
        Start of the cells' entries in the two below.
    column, change : ndarray of shape (e,)
        A constraint, and what a unit of weight adds to it.
    """

    weight: Floats
    cell: Cells
    gain: Floats
    indptr: Integers
    column: Integers
    change: Floats


class Lines(NamedTuple):
    """Directions.

    Attributes
    ----------
    direction : ndarray of shape (k, d + 1)
        By feature, the bias last.
    indptr : ndarray of int, shape (k + 1,)
        Start of each line in the two below.
    row, entry : ndarray of shape (e,)
        Rows whose scores a line changes, and by how much; zeros are allowed.
    """

    direction: Floats
    indptr: Ints
    row: Ints
    entry: Floats


class State(NamedTuple):
    """Where a walk is, and the best that it has met; all of it is changed in place.

    Attributes
    ----------
    w, z : ndarray of shape (d + 1,) and (n,)
        The present classifier, the bias last, and its scores.
    excess, objective : ndarray of shape (m,) and (1,)
        Its measures.
    best_w : ndarray of shape (d + 1,)
    best : ndarray of shape (2,)
        Violation and objective of `best_w`, with what growing costs.
    tried : ndarray of int, shape (2,)
        Lines since the last better one; entries looked at.
    """

    w: Floats
    z: Floats
    excess: Floats
    objective: Floats
    best_w: Floats
    best: Floats
    tried: Ints


@kernel
def turns(z: Floats, row: Ints, x: Floats, turn: Floats, distance: Floats) -> None:
    """t at which each row changes sides, and how far that is; 0 and inf where it never does."""
    for e in range(row.shape[0]):
        score = z[row[e]]
        if abs(x[e]) <= STILL:
            turn[e], distance[e] = 0.0, np.inf
        else:
            # A score of exactly 0 counts as negative, so its row turns at once where the direction raises it.
            turn[e] = np.copysign(TINY, x[e]) if score == 0.0 else -score / x[e]
            distance[e] = abs(turn[e])


@kernel
def insert(distance: Floats, e: int, most: int, order: Ints, count: int) -> int:
    """Insert place e into the `count` nearest ones so far, of which at most so many are kept; how many there are."""
    # Most of the distances end here, at one comparison with the farthest of those that are kept.
    if count == most and distance[e] >= distance[order[most - 1]]:
        return count
    j = count if count < most else most - 1
    while j > 0 and distance[order[j - 1]] > distance[e]:
        order[j] = order[j - 1]
        j -= 1
    order[j] = e
    return count + 1 if count < most else most


@kernel
def nearest(distance: Floats, n: int, most: int, order: Ints) -> int:
    """Write the places of the least of n distances to `order`, in order, at most so many; how many these are.

    They are inserted one by one: few of n enter, and NumPy's sorting, compiled, takes seconds at the first fit.
    """
    count, cut = 0, np.inf
    if n > 4 * most + SAMPLE:
        # A sample tells about how far they lie, and spares most of the insertions.
        few = 2 + (3 * most * SAMPLE) // (2 * n)
        for s in range(SAMPLE):
            count = insert(distance, s * (n // SAMPLE), few, order, count)
        count, cut = 0, distance[order[few - 1]]
    for e in range(n):
        if distance[e] <= cut:
            count = insert(distance, e, most, order, count)
    if count < most and cut < np.inf:  # the sample was misleading
        count = 0
        for e in range(n):
            count = insert(distance, e, most, order, count)
    return count


@kernel
def best_on_line(
    turn: Floats, distance: Floats, order: Ints, n: int, end: float, row: Ints, z: Floats, counted: Counted, here:
    Floats, objective: float, ahead: Ints, excess: Floats, found: Floats,
) -> float:  # fmt: skip
    """The length t in [-end, end] of the best classifier on a line; 0 where none is better than `found`.

    The first n places of `order` are the rows that turn, the nearest first. `here` and `objective` are the excesses and
    the objective at z. `found` holds violation, objective and distance of the best so far, and is replaced by what is
    better: lower violation, then lower objective, then the smaller distance. `ahead` and `excess` are work space.
    """
    length = 0.0
    # A line is walked from the present classifier outwards, first in its direction and then against it: on either side
    # the rows turn in the order of their distances, and each changes the measures by its own coefficients alone. So all
    # classifiers of the line cost one pass over the rows that turn.
    for sign in (1.0, -1.0):
        count = 0
        for p in range(n):
            if sign * turn[order[p]] > 0.0:
                ahead[count] = order[p]
                count += 1
        reached = objective
        for j in range(here.shape[0]):
            excess[j] = here[j]
        for p in range(count):
            # The next row to change sides: only its cell's coefficients change anything.
            e = ahead[p]
            reached += turn_over(row[e], z[row[e]] <= 0.0, counted, excess)
            near = distance[e]
            if near >= end:
                break
            far = distance[ahead[p + 1]] if p + 1 < count else end
            if far > end:
                far = end
            # Two turns that rounding does not tell apart leave no room for a classifier between them.
            if far - near <= TIE * (1.0 + near):
                continue
            # The middle of the interval is farthest from both turns; the last interval has no end.
            middle = 0.5 * (near + far) if far < np.inf else 2.0 * near + 1e-3
            violation = total(excess)
            # Violation decides first, whatever the objective is; of what is equal up to rounding the nearest wins,
            # because a small move leaves the margins of all other rows as they were.
            better = violation < found[0] - EQUAL
            if not better and violation <= found[0] + EQUAL:
                better = reached < found[1] - EQUAL or (reached <= found[1] + EQUAL and middle < found[2])
            if better:
                found[0], found[1], found[2] = violation, reached, middle
                length = sign * middle
    return length


@kernel
def total(excess: Floats) -> float:
    """Sum of the excesses, rounding left out."""
    violation = 0.0
    for j in range(excess.shape[0]):
        if excess[j] > FEASIBLE:
            violation += excess[j]
    return violation


@kernel
def turn_over(i: int, up: bool, counted: Counted, excess: Floats) -> float:
    """Count row i on the positive side (`up`) or no more: what it adds to the objective; excesses are changed."""
    c = counted.cell[i]
    moved = counted.weight[i] if up else -counted.weight[i]
    for q in range(counted.indptr[c], counted.indptr[c + 1]):
        excess[counted.column[q]] += moved * counted.change[q]
    return float(moved * counted.gain[c])


@kernel
def add(a: Floats, by: float, b: Floats) -> None:
    """`a += by * b`; compiled, NumPy's own would take half a second at the first fit."""
    for j in range(a.shape[0]):
        a[j] += by * b[j]


@kernel
def try_lines(lines: Lines, counted: Counted, lam: float, reach: int, patience: int, start: float, at: State) -> int:
    """Try lines one after the other, each from where the last has led to; how many were tried.

    Only the nearest `reach` turns of a line are tried. It ends after `patience` lines without a better classifier than
    `best_w`, and a better one has to be worth what the squared norm of w grows by over `start`, times lam / 2.
    """
    d, longest = at.w.shape[0] - 1, 0
    for k in range(lines.indptr.shape[0] - 1):
        if lines.indptr[k + 1] - lines.indptr[k] > longest:
            longest = lines.indptr[k + 1] - lines.indptr[k]
    # The work space of the longest line serves them all, since nothing may be allocated inside of the loop.
    turn, distance, found, excess = np.empty(longest), np.empty(longest), np.empty(3), np.empty(at.excess.shape[0])
    order, ahead = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for k in range(lines.indptr.shape[0] - 1):
        if at.tried[0] >= patience:
            return k
        row = lines.row[lines.indptr[k] : lines.indptr[k + 1]]
        entry = lines.entry[lines.indptr[k] : lines.indptr[k + 1]]
        at.tried[0] += 1
        at.tried[1] += row.shape[0]
        turns(at.z, row, entry, turn, distance)
        # Beyond the nearest turns lie other models altogether, and looking at all of them would cost a sort of the
        # rows.
        count, end = nearest(distance, row.shape[0], reach if reach < row.shape[0] else row.shape[0], order), np.inf
        if count < row.shape[0]:
            # The last turn that is known closes the search: what lies beyond it has turns that nobody has looked at.
            count -= 1
            end = distance[order[count]]
        found[0], found[1], found[2] = total(at.excess), at.objective[0], 0.0
        length = best_on_line(
            turn, distance, order, count, end, row, at.z, counted, at.excess, at.objective[0], ahead, excess,
            found,
        )  # fmt: skip
        if length == 0.0:
            continue
        # Scores and measures are moved row by row, as a sum over all rows would cost many times what the line did.
        for e in range(row.shape[0]):
            i = row[e]
            before = at.z[i] > 0.0
            at.z[i] += length * entry[e]
            if before != (at.z[i] > 0.0):
                at.objective[0] += turn_over(i, not before, counted, at.excess)
        add(at.w, length, lines.direction[k])
        grown = 0.0
        for i in range(d):
            grown += at.w[i] * at.w[i]
        # A larger w counts for nothing in 0/1 rates and is paid for in the problem that is solved; without this price
        # moves from a strongly regularised model lost points of recall on new rows.
        worth, violation = at.objective[0] + 0.5 * lam * (grown - start if grown > start else 0.0), total(at.excess)
        if violation < at.best[0] - EQUAL or (violation <= at.best[0] + EQUAL and worth < at.best[1] - EQUAL):
            # A copy, made by the loop that is compiled already.
            add(at.best_w, -1.0, at.best_w)
            add(at.best_w, 1.0, at.w)
            at.best[0], at.best[1], at.tried[0] = violation, worth, 0
        if grown > 0.0 and start > 0.0:
            # 0/1 rates do not feel the scale; moves alone would let w grow, or shrink until growing costs nothing.
            add(at.w, np.sqrt(start / grown) - 1.0, at.w)
            add(at.z, np.sqrt(start / grown) - 1.0, at.z)
    return int(lines.indptr.shape[0] - 1)
