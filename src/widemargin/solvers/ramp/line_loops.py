"""Compiled loops of the moves along lines: the best classifier on one, and many lines after each other.

Along a direction the scores are `z + t x`, and row i changes sides only at `t = -z_i / x_i`. So all 0/1 rates are step
functions of t, and one pass over the sorted turns tries every classifier on the line.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Cells, Floats, Integers, Ints

__all__ = ["Counted", "Features", "best_on_line", "try_lines"]

TIE = 1e-9
"""Turns closer than this, relative to their distance, count as one: rounding does not tell them apart."""
FEASIBLE = 1e-10
"""Excess that counts as rounding."""
EQUAL = 1e-12
"""Violations and objectives are sums in another order each time, so equal ones are told by so tiny a difference."""
STILL = 1e-11
"""Entries of a direction below this are what rounding leaves of the rows that it holds fixed."""
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


class Features(NamedTuple):
    """The features by column: dense, shape (d, n), or none of these (0, n) and CSC."""

    dense: Floats
    indptr: Ints
    row: Ints
    value: Floats


@kernel
def nearest_first(key: Floats, index: Ints, most: int) -> None:
    """Order `index` by `key` so that the first `most` are the smallest, in order; the others stay as they come.

    A quicksort that leaves out what is not asked for. NumPy's, compiled, takes seconds at the first fit.
    """
    waiting = np.empty(128, np.int64)  # the longer part waits, so 2 log2(n) places are enough
    waiting[0], waiting[1], top = 0, index.shape[0] - 1, 2
    while top > 0:
        first, last = waiting[top - 2], waiting[top - 1]
        top -= 2
        while first < last:
            if last - first < 12:
                for i in range(first + 1, last + 1):
                    moved, j = index[i], i - 1
                    while j >= first and key[index[j]] > key[moved]:
                        index[j + 1] = index[j]
                        j -= 1
                    index[j + 1] = moved
                break
            a, b, c = key[index[first]], key[index[(first + last) // 2]], key[index[last]]
            pivot = max(min(a, b), min(max(a, b), c))
            i, j = first, last
            while i <= j:
                while key[index[i]] < pivot:
                    i += 1
                while key[index[j]] > pivot:
                    j -= 1
                if i <= j:
                    index[i], index[j] = index[j], index[i]
                    i += 1
                    j -= 1
            if j - first < last - i:
                if i < most:
                    waiting[top], waiting[top + 1] = i, last
                    top += 2
                last = j
            else:
                waiting[top], waiting[top + 1] = first, j
                top += 2
                if i >= most:
                    break
                first = i


@kernel
def nearest_turns(distance: Floats, reach: int, order: Ints) -> int:
    """Write the places of the nearest `reach` distances to `order`, and perhaps of others; how many these are."""
    n, n_sample = distance.shape[0], 128
    cut = np.inf
    if n > 4 * reach + n_sample:
        # A sample tells about how far they lie, and only those within are sorted.
        sample = np.arange(n_sample) * (n // n_sample)
        expected = 2 + (3 * reach * n_sample) // (2 * n)
        nearest_first(distance, sample, expected)
        cut = distance[sample[expected - 1]]
    count = 0
    for e in range(n):
        order[count] = e
        count += distance[e] <= cut
    if count < reach and cut < np.inf:  # the sample was misleading
        for e in range(n):
            order[e] = e
        count = n
    nearest_first(distance, order[:count], reach)
    return count


@kernel
def best_on_line(
    z: Floats, row: Ints, x: Floats, reach: int, low: float, high: float, counted: Counted, here: Floats,
    objective: float, work: Floats, order: Ints, ahead: Ints, excess: Floats, found: Floats,
) -> float:  # fmt: skip
    """The length t in [low, high] of the best classifier `z + t x`; 0 where none is better than `found`.

    `row` holds the rows that the direction moves and `x` their entries, none of them 0; only the nearest `reach` turns
    are tried. `here` and `objective` are the excesses and the objective at z. `found` holds violation, objective and
    distance of the best so far, and is replaced by what is better: lower violation, then lower objective, then the
    smaller distance. `work` (2 rows), `order`, `ahead` and `excess` are work space.
    """
    count, turn, distance = row.shape[0], work[0], work[1]
    for e in range(count):
        score = z[row[e]]
        # A score of exactly 0 counts as negative, so its row turns at once where the direction raises it.
        turn[e] = np.copysign(TINY, x[e]) if score == 0.0 else -score / x[e]
        distance[e] = abs(turn[e])
    count = nearest_turns(distance[:count], reach, order)
    end = np.inf
    if reach < row.shape[0]:
        count = reach - 1
        end = distance[order[count]]
    length = 0.0
    for sign in (1.0, -1.0):
        last = min(high if sign > 0.0 else -low, end)
        n = 0
        for p in range(count):
            if sign * turn[order[p]] > 0.0:
                ahead[n] = order[p]
                n += 1
        before = found[0], found[1], found[2]
        reached = objective
        excess[:] = here
        for p in range(n):
            # The next row to change sides: only its cell's coefficients change anything.
            e = ahead[p]
            reached += turn_over(row[e], z[row[e]] <= 0.0, counted, excess)
            near = distance[e]
            if near >= last:
                break
            far = min(distance[ahead[p + 1]] if p + 1 < n else np.inf, last)
            # Two turns that rounding does not tell apart leave no room for a classifier between them.
            if far - near <= TIE * (1.0 + near):
                continue
            # The middle of the interval is farthest from both turns; the last interval has no end.
            middle = 0.5 * (near + far) if far < np.inf else 2.0 * near + 1e-3
            violation = total(excess)
            better = violation < found[0] - EQUAL
            if not better and violation <= found[0] + EQUAL:
                better = reached < found[1] - EQUAL or (reached <= found[1] + EQUAL and middle < found[2])
            if better:
                found[0], found[1], found[2] = violation, reached, middle
        if before != (found[0], found[1], found[2]):
            length = sign * found[2]
    return length


@kernel
def turn_over(i: int, up: bool, counted: Counted, excess: Floats) -> float:
    """Count row i on the positive side (`up`) or no more: what it adds to the objective; excesses are changed."""
    c = counted.cell[i]
    moved = counted.weight[i] if up else -counted.weight[i]
    for q in range(counted.indptr[c], counted.indptr[c + 1]):
        excess[counted.column[q]] += moved * counted.change[q]
    return float(moved * counted.gain[c])


@kernel
def total(excess: Floats) -> float:
    """Sum of the excesses, rounding left out."""
    violation = 0.0
    for j in range(excess.shape[0]):
        if excess[j] > FEASIBLE:
            violation += excess[j]
    return violation


@kernel
def add_feature(j: int, by: float, features: Features, x: Floats) -> None:
    """Add a multiple of feature j to x, shape (n,)."""
    if features.dense.shape[0] > 0:
        column = features.dense[j]
        for i in range(x.shape[0]):
            x[i] += by * column[i]
    else:
        for e in range(features.indptr[j], features.indptr[j + 1]):
            x[features.row[e]] += by * features.value[e]


@kernel
def entry_of(i: int, j: int, features: Features) -> float:
    """Feature j of row i."""
    if features.dense.shape[0] > 0:
        return float(features.dense[j, i])
    for e in range(features.indptr[j], features.indptr[j + 1]):
        if features.row[e] == i:
            return float(features.value[e])
    return 0.0


@kernel
def hold_fixed(v: Floats, nearest: Ints, picks: Ints, near: int, dense: Floats, bias: float, basis: Floats) -> None:
    """Make a direction of features v, shape (d + 1,), orthogonal to some of the nearest rows: their scores stay."""
    d, n_basis = v.shape[0] - 1, 0
    for pick in picks:
        i, new = nearest[pick % near], basis[n_basis]
        for j in range(d):
            new[j] = dense[j, i]
        new[d] = bias
        size = dot(new, new)
        for k in range(n_basis):
            subtract(new, dot(new, basis[k]), basis[k])
        left = dot(new, new)
        if left > 1e-12 * size:  # else it is a combination of those before
            for j in range(d + 1):
                new[j] /= np.sqrt(left)
            subtract(v, dot(v, new), new)
            n_basis += 1


@kernel
def dot(a: Floats, b: Floats) -> float:
    """Inner product."""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@kernel
def subtract(a: Floats, by: float, b: Floats) -> None:
    """`a -= by b`."""
    for j in range(a.shape[0]):
        a[j] -= by * b[j]


@kernel
def try_lines(
    features: Features, bias: float, counted: Counted, constant: Floats, lam: float, feature: Ints, direction: Floats,
    n_fixed: Ints, picks: Ints, kicks: Floats, patience: int, near: int, reach: int, start: float, w: Floats,
    best_w: Floats, best: Floats, count: Ints,
) -> None:  # fmt: skip
    """Try lines one after the other, each from where the last has led to.

    Line k goes along feature `feature[k]`, or along `direction[k]` where that is -1. `n_fixed[k]` of the `near` rows
    that are nearest to the boundary keep their scores: a feature becomes a rotation about one of them. A move to a
    classifier that is as good is made as well, for it leads off plateaus. After `patience` lines without a better
    `best_w` the walk goes on from a random classifier near it; `kicks` are its distances, by turns, in norms of w.

    The bias is the last entry of w, shape (d + 1,), and adds `bias`, -1 or 0, to each score. `constant` holds objective
    and excesses where no row is positive. `best` holds violation and objective of `best_w` with what its squared norm
    has grown by since `start`, times lam / 2: a move has to be worth that. `count` holds lines since the last better
    one, kicks, and entries looked at.
    """
    d, n, m = w.shape[0] - 1, counted.weight.shape[0], constant.shape[0] - 1
    z, x, entry, work = np.empty(n), np.empty(n), np.empty(n), np.empty((2, n))
    nearest, moving, order, ahead = np.arange(n), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    here, excess, found, v, basis = np.empty(m), np.empty(m), np.empty(3), np.empty(d + 1), np.empty((12, d + 1))
    objective, measured, sorted_now = 0.0, False, False
    for k in range(feature.shape[0]):
        kicked = count[0] >= patience
        if kicked:
            far = kicks[count[1] % kicks.shape[0]] * np.sqrt(squares(best_w) / max(squares(direction[k]), 1e-300))
            for j in range(d):
                w[j] = best_w[j] + far * direction[k, j]
            w[d] = best_w[d]
            count[0], measured = 0, False
            count[1] += 1
        if not measured:
            z[:] = -w[d]
            for j in range(d):
                add_feature(j, w[j], features, z)
            objective = measure(z, counted, constant, here)
            measured, sorted_now = True, False
        # The direction: behind a kick the bias, else a feature, about a row or not, or any that some rows stay in.
        only, fixed = (d, 0) if kicked else (feature[k], n_fixed[k] if bias != 0.0 or feature[k] < 0 else 0)
        if fixed > 0 and not sorted_now:
            for i in range(n):
                entry[i] = abs(z[i])
            nearest_first(entry, nearest, near)
            sorted_now = True
        n_moving = 0
        if only >= 0 and only < d and fixed == 0 and features.dense.shape[0] == 0:
            for e in range(features.indptr[only], features.indptr[only + 1]):
                moving[n_moving], entry[n_moving] = features.row[e], features.value[e]
                n_moving += features.value[e] != 0.0
        else:
            if only >= 0:
                v[:] = 0.0
                v[only] = 1.0
                if fixed > 0 and only < d:
                    v[d] = entry_of(nearest[picks[k, 0] % near], only, features)
            else:
                v[:] = direction[k]
                v[d] *= bias * bias
                if fixed > 0:
                    hold_fixed(v, nearest, picks[k, :fixed], near, features.dense, bias, basis)
            x[:] = bias * v[d]
            if only >= 0 and only < d:
                add_feature(only, 1.0, features, x)
            elif only < 0:
                for j in range(d):
                    add_feature(j, v[j], features, x)
            for i in range(n):
                moving[n_moving], entry[n_moving] = i, x[i]
                n_moving += abs(x[i]) > STILL
        count[2] += max(n_moving, 1)
        # As good counts as better; behind a kick anything does.
        found[0], found[1], found[2] = total(here), objective, np.inf
        if kicked:
            found[0] = np.inf
        length = best_on_line(
            z, moving[:n_moving], entry, n_moving if kicked else min(reach, n_moving), -np.inf, np.inf, counted, here,
            objective, work, order, ahead, excess, found,
        )  # fmt: skip
        count[0] += 1
        if length == 0.0:
            continue
        if only >= 0 and only < d and fixed == 0:
            w[only] += length
        elif only >= 0:
            w[d] += length * v[d]
            w[only] += length * (only < d)
        else:
            subtract(w, -length, v)
        objective = go(z, moving[:n_moving], entry, length, counted, here, objective)
        sorted_now = False
        grown = squares(w)
        worth = objective + 0.5 * lam * max(grown - start, 0.0)
        violation = total(here)
        if violation < best[0] - EQUAL or (violation <= best[0] + EQUAL and worth < best[1] - EQUAL):
            best_w[:] = w
            best[0], best[1] = violation, worth
            count[0] = 0
        if grown > 0.0 and start > 0.0:
            # 0/1 rates do not feel the scale; moves alone would let w grow, or shrink until growing costs nothing.
            w *= np.sqrt(start / grown)
            z *= np.sqrt(start / grown)


@kernel
def squares(w: Floats) -> float:
    """Squared norm without the bias, which is the last entry."""
    total = 0.0
    for j in range(w.shape[0] - 1):
        total += w[j] * w[j]
    return total


@kernel
def measure(z: Floats, counted: Counted, constant: Floats, excess: Floats) -> float:
    """Objective at scores z; the excesses are written. `constant` holds both where no row is positive."""
    objective = constant[0]
    excess[:] = constant[1:]
    for i in range(z.shape[0]):
        if z[i] > 0.0:
            objective += turn_over(i, True, counted, excess)
    return float(objective)


@kernel
def go(z: Floats, row: Ints, x: Floats, length: float, counted: Counted, excess: Floats, objective: float) -> float:
    """Move z along a line; the new objective, and in `excess` the new excesses, from the rows that change sides."""
    for e in range(row.shape[0]):
        i = row[e]
        before = z[i] > 0.0
        z[i] += length * x[e]
        if before != (z[i] > 0.0):
            objective += turn_over(i, not before, counted, excess)
    return objective
