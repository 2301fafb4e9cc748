"""Compiled loops of the moves along lines: the best classifier on one, and many lines after each other.

Along a direction the scores are `z + t x`, and row i changes sides only at `t = -z_i / x_i`. So all 0/1 rates are step
functions of t, and one pass over the sorted turns tries every classifier on the line.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Cells, Floats, Integers, Ints
from widemargin.solvers.thresholds.threshold_sweep import total, turn_over

__all__ = ["TIE", "TINY", "Counted", "Lines", "State", "hold", "try_lines"]

TIE = 1e-9
"""Turns closer than this, relative to their distance, count as one: rounding does not tell them apart."""
EQUAL = 1e-12
"""Violations and objectives are sums in another order each time, so equal ones are told by so tiny a difference."""
STILL = 1e-11
"""Entries of a direction below this are what rounding leaves of the rows that it holds fixed."""
SAME = 1e-10
"""Share of its norm that is left of a row which depends on others but for rounding."""
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
        Start of each line in `entry`.
    first : ndarray of int, shape (k,)
        Start of each line in `row`: lines over the same rows share them.
    row, entry : ndarray of int and float
        Rows whose scores a line changes, and by how much; zeros are allowed.
    """

    direction: Floats
    indptr: Ints
    first: Ints
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
    distance, order, ahead : ndarray of shape (n,), of int and shape (n,), and of shape (m,)
        Work space: turns of a line, and excesses on it.
    """

    w: Floats
    z: Floats
    excess: Floats
    objective: Floats
    best_w: Floats
    best: Floats
    tried: Ints
    distance: Floats
    order: Ints
    ahead: Floats


@kernel
def insert(score: float, x: float, e: int, most: int, distance: Floats, order: Ints, count: int) -> int:
    """Insert place e, with the distance at which its row turns, among the `count` nearest so far; how many there are.

    At most so many are kept. A row whose score the line leaves as it is turns nowhere.
    """
    far = np.inf
    if abs(x) > STILL:
        # A score of exactly 0 counts as negative, so its row turns at once where the direction raises it.
        far = TINY if score == 0.0 else abs(score / x)
    # Most of the distances end here, at one comparison with the farthest of those that are kept.
    if count == most and far >= distance[most - 1]:
        return count
    j = count if count < most else most - 1
    while j > 0 and distance[j - 1] > far:
        distance[j] = distance[j - 1]
        order[j] = order[j - 1]
        j -= 1
    distance[j] = far
    order[j] = e
    return count + 1 if count < most else most


@kernel
def nearest(z: Floats, row: Ints, x: Floats, most: int, distance: Floats, order: Ints) -> int:
    """Write the places of the rows that turn first to `order`, the nearest first, at most so many; how many these are.

    Their distances are written beside them. They are inserted one by one: few of n enter, and NumPy's sorting,
    compiled, takes seconds at the first fit.
    """
    n, count, cut = x.shape[0], 0, np.inf
    if n > 4 * most + SAMPLE:
        # A sample tells about how far they lie, which spares most of the divisions and insertions.
        few = 2 + (3 * most * SAMPLE) // (2 * n)
        for s in range(SAMPLE):
            e = s * (n // SAMPLE)
            count = insert(z[row[e]], x[e], e, few, distance, order, count)
        count, cut = 0, distance[few - 1]
    while True:
        for e in range(n):
            # A distance beyond the cut needs no division to be left out.
            if abs(x[e]) > STILL and abs(z[row[e]]) <= cut * abs(x[e]):
                count = insert(z[row[e]], x[e], e, most, distance, order, count)
        if count == most or cut == np.inf:
            return count
        count, cut = 0, np.inf  # the sample was misleading


@kernel
def best_on_line(
    x: Floats, distance: Floats, order: Ints, n: int, end: float, row: Ints, z: Floats, counted: Counted, here: Floats,
    objective: float, excess: Floats,
) -> float:  # fmt: skip
    """The length t in [-end, end] of the best classifier on a line; 0 where none is better than the present one.

    The first n places of `order` are the rows that turn, the nearest first. `here` and `objective` are the excesses and
    the objective at z. Better is a lower violation, then a lower objective, then a smaller distance. `excess` is work
    space.
    """
    weight, cell, gain, indptr, column, change = counted
    length, least, lowest, shortest = 0.0, total(here), objective, 0.0
    # A line is walked from the present classifier outwards, first in its direction and then against it: on either side
    # the rows turn in the order of their distances, and each changes the measures by its own coefficients alone. So all
    # classifiers of the line cost one pass over the rows that turn.
    for side in range(2):
        sign, reached, near = 1.0 - 2.0 * side, objective, -1.0
        for j in range(here.shape[0]):
            excess[j] = here[j]
        for p in range(n + 1):
            i, up, far = -1, True, end
            if p < n:
                # A row turns ahead where the direction takes its score to the other side.
                i = row[order[p]]
                up = z[i] <= 0.0
                if up != (sign * x[order[p]] > 0.0):
                    continue
                if distance[p] < end:
                    far = distance[p]
            # What lies between two turns is one classifier. Two that rounding does not tell apart leave no room for it.
            if near >= 0.0 and far - near > TIE * (1.0 + near):
                # The middle of the interval is farthest from both turns; the last interval has no end.
                middle = 0.5 * (near + far) if far < np.inf else 2.0 * near + 1e-3
                violation = total(excess)
                # Violation decides first, whatever the objective is; of what is equal up to rounding the nearest wins,
                # because a small move leaves the margins of all other rows as they were.
                better = violation < least - EQUAL
                if not better and violation <= least + EQUAL:
                    better = reached < lowest - EQUAL or (reached <= lowest + EQUAL and middle < shortest)
                if better:
                    least, lowest, shortest, length = violation, reached, middle, sign * middle
            if far >= end:
                break
            # The next row changes sides: only its cell's coefficients change anything.
            reached += turn_over(cell[i], weight[i] if up else -weight[i], gain, indptr, column, change, excess)
            near = far
    return length


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
    w, z, excess, objective, best_w, best, tried, distance, order, ahead = at
    weight, cell, gain, indptr, column, change = counted
    n_lines, d = lines.indptr.shape[0] - 1, w.shape[0] - 1
    for k in range(n_lines):
        if tried[0] >= patience:
            return k
        x = lines.entry[lines.indptr[k] : lines.indptr[k + 1]]
        row = lines.row[lines.first[k] : lines.first[k] + x.shape[0]]
        tried[0] += 1
        tried[1] += x.shape[0]
        # Beyond the nearest turns lie other models altogether, and looking at all of them would cost a sort of the
        # rows.
        count, end = nearest(z, row, x, reach, distance, order), np.inf
        if count == reach and count < x.shape[0]:
            # The last turn that is known closes the search: what lies beyond it has turns that nobody has looked at.
            count -= 1
            end = distance[count]
        length = best_on_line(x, distance, order, count, end, row, z, counted, excess, objective[0], ahead)
        if length == 0.0:
            continue
        # Scores and measures are moved row by row, as a sum over all rows would cost many times what the line did.
        for e in range(x.shape[0]):
            i = row[e]
            before = z[i] > 0.0
            z[i] += length * x[e]
            if before != (z[i] > 0.0):
                moved = -weight[i] if before else weight[i]
                objective[0] += turn_over(cell[i], moved, gain, indptr, column, change, excess)
        grown = 0.0
        for j in range(d + 1):
            w[j] += length * lines.direction[k, j]
            if j < d:
                grown += w[j] * w[j]
        # A larger w counts for nothing in 0/1 rates and is paid for in the problem that is solved; without this price
        # moves from a strongly regularised model lost points of recall on new rows.
        worth, violation = objective[0] + 0.5 * lam * (grown - start if grown > start else 0.0), total(excess)
        if violation < best[0] - EQUAL or (violation <= best[0] + EQUAL and worth < best[1] - EQUAL):
            for j in range(d + 1):
                best_w[j] = w[j]
            best[0], best[1], tried[0] = violation, worth, 0
        if grown > 0.0 and start > 0.0:
            # 0/1 rates do not feel the scale; moves alone would let w grow, or shrink until growing costs nothing.
            add(w, np.sqrt(start / grown) - 1.0, w)
            add(z, np.sqrt(start / grown) - 1.0, z)
    return int(n_lines)


@kernel
def hold(rows: Floats, n_held: Ints) -> None:
    """Make row `n_held[k]` of each matrix k of `rows`, shape (k, m, d), orthogonal to those before it.

    The rows are made orthonormal one after the other (Gram-Schmidt), in place. Each step is done twice, which leaves
    only rounding of what it takes away; NumPy's factorisations take longer for matrices this small.
    """
    for k in range(rows.shape[0]):
        for j in range(n_held[k] + 1):
            size = np.sqrt(dot(rows, k, j, j))
            for _ in range(2):
                for i in range(j):
                    add_row(rows, k, j, -dot(rows, k, i, j), i)
            left = np.sqrt(dot(rows, k, j, j))
            if j < n_held[k]:
                # Of a row that depends on those before it only rounding is left, which says nothing.
                add_row(rows, k, j, (1.0 / left if left > SAME * size else 0.0) - 1.0, j)


@kernel
def dot(rows: Floats, k: int, i: int, j: int) -> float:
    """The inner product of two rows; compiled, NumPy's own would take half a second at the first fit."""
    product = 0.0
    for d in range(rows.shape[2]):
        product += rows[k, i, d] * rows[k, j, d]
    return product


@kernel
def add_row(rows: Floats, k: int, j: int, by: float, i: int) -> None:
    """Add `by` times row i to row j."""
    for d in range(rows.shape[2]):
        rows[k, j, d] += by * rows[k, i, d]
