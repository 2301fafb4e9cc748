"""Compiled loops of the moves along lines: the best classifier on one, and many lines after each other.

Along a direction the scores are `z + t x`, and row i changes sides only at `t = -z_i / x_i`. So all 0/1 rates are step
functions of t, and one pass over the sorted turns tries every classifier on the line.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Cells, Floats, Integers, Ints
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

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
    """

    w: Floats
    z: Floats
    excess: Floats
    objective: Floats
    best_w: Floats
    best: Floats
    tried: Ints


@kernel
def distance_of(score: float, x: float) -> float:
    """How far along a line a row changes sides; inf where it never does."""
    if abs(x) <= STILL:
        return np.inf
    # A score of exactly 0 counts as negative, so its row turns at once where the direction raises it.
    return TINY if score == 0.0 else abs(score / x)


@kernel
def insert(far: float, e: int, most: int, distance: Floats, order: Ints, count: int) -> int:
    """Insert place e among the `count` nearest so far, of which at most so many are kept; how many there are."""
    # Most of the distances end here, at one comparison with the farthest of those that are kept.
    if count == most and far >= distance[most - 1]:
        return count
    j = count if count < most else most - 1
    while j > 0 and distance[j - 1] > far:
        distance[j], order[j] = distance[j - 1], order[j - 1]
        j -= 1
    distance[j], order[j] = far, e
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
            count = insert(distance_of(z[row[e]], x[e]), e, few, distance, order, count)
        count, cut = 0, distance[few - 1]
    for again in range(2):
        for e in range(n):
            # A distance beyond the cut needs no division to be left out.
            if abs(x[e]) > STILL and abs(z[row[e]]) <= cut * abs(x[e]):
                count = insert(distance_of(z[row[e]], x[e]), e, most, distance, order, count)
        if again == 1 or count == most or cut == np.inf:
            break
        count, cut = 0, np.inf  # the sample was misleading
    return count


@kernel
def best_on_line(
    x: Floats, distance: Floats, order: Ints, n: int, end: float, row: Ints, z: Floats, counted: Counted, here: Floats,
    objective: float, ahead: Ints, excess: Floats, found: Floats,
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
            # A row turns ahead where the direction takes its score to the other side.
            if (z[row[order[p]]] <= 0.0) == (sign * x[order[p]] > 0.0):
                ahead[count] = p
                count += 1
        reached = objective
        for j in range(here.shape[0]):
            excess[j] = here[j]
        for p in range(count):
            # The next row to change sides: only its cell's coefficients change anything.
            i = row[order[ahead[p]]]
            reached += turn_over(i, z[i] <= 0.0, counted, excess)
            near = distance[ahead[p]]
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
    if reach > longest:
        reach = longest
    distance, found, excess = np.empty(longest), np.empty(3), np.empty(at.excess.shape[0])
    order, ahead = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for k in range(lines.indptr.shape[0] - 1):
        if at.tried[0] >= patience:
            return k
        entry = lines.entry[lines.indptr[k] : lines.indptr[k + 1]]
        row = lines.row[lines.first[k] : lines.first[k] + entry.shape[0]]
        at.tried[0] += 1
        at.tried[1] += row.shape[0]
        # Beyond the nearest turns lie other models altogether, and looking at all of them would cost a sort of the
        # rows.
        count, end = nearest(at.z, row, entry, reach, distance, order), np.inf
        if count == reach and count < row.shape[0]:
            # The last turn that is known closes the search: what lies beyond it has turns that nobody has looked at.
            count -= 1
            end = distance[count]
        found[0], found[1], found[2] = total(at.excess), at.objective[0], 0.0
        length = best_on_line(
            entry, distance, order, count, end, row, at.z, counted, at.excess, at.objective[0], ahead, excess,
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
            for j in range(d + 1):
                at.best_w[j] = at.w[j]
            at.best[0], at.best[1], at.tried[0] = violation, worth, 0
        if grown > 0.0 and start > 0.0:
            # 0/1 rates do not feel the scale; moves alone would let w grow, or shrink until growing costs nothing.
            add(at.w, np.sqrt(start / grown) - 1.0, at.w)
            add(at.z, np.sqrt(start / grown) - 1.0, at.z)
    return int(lines.indptr.shape[0] - 1)


@kernel
def hold(direction: Floats, held: Floats, n_held: Ints) -> None:
    """Make each direction, shape (k, d), orthogonal to the first `n_held` of its rows `held`, shape (k, m, d).

    The rows are made orthonormal one after the other (Gram-Schmidt), in place. Each step is done twice, which leaves
    only rounding of what it takes away; NumPy's factorisations take longer for matrices this small.
    """
    for k in range(direction.shape[0]):
        for j in range(n_held[k] + 1):
            v = held[k, j] if j < n_held[k] else direction[k]
            size = np.sqrt(dot(v, v))
            for _ in range(2):
                for i in range(j):
                    add(v, -dot(held[k, i], v), held[k, i])
            left = np.sqrt(dot(v, v))
            if j < n_held[k]:
                # Of a row that depends on those before it only rounding is left, which says nothing.
                add(v, (1.0 / left if left > SAME * size else 0.0) - 1.0, v)


@kernel
def dot(a: Floats, b: Floats) -> float:
    """The inner product; compiled, NumPy's own would take half a second at the first fit."""
    product = 0.0
    for j in range(a.shape[0]):
        product += a[j] * b[j]
    return product
