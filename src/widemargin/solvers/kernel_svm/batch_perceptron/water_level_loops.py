"""Compiled passes of the water level: the rows near a former level, and the pieces between them."""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["collect", "merge"]

_SAME = 1.0 + 1e-12  # covered weights that differ by less are one: sums of the same weights are rounded


@kernel
def collect(
    scores: Any, y: Any, basin: Any, weight: Any, low: Any, high: Any, value: Any, mass: Any, count: Any, base: Any
) -> None:
    """Sum what lies below a band of responses `y * scores`, and gather what lies inside.

    Parameters
    ----------
    scores, y, weight : arrays of shape (n,)
    basin : int8 array of shape (n,)
        0 or 1; -1 for rows that do not count.
    low, high : arrays of shape (2,)
        The band [low, high] of each basin.
    value, mass : arrays of shape (2, n)
        Filled with responses and weights inside, `count[basin]` of them.
    count : int array of shape (2,)
    base : array of shape (2, 3)
        Set to weight below, sum of weight times response below, least response above (inf: there is none).
    """
    low_0, low_1, high_0, high_1 = low[0], low[1], high[0], high[1]
    weight_0, weight_1, sum_0, sum_1, above_0, above_1 = 0.0, 0.0, 0.0, 0.0, np.inf, np.inf
    count[0] = count[1] = 0
    for i in range(scores.shape[0]):  # without jumps that depend on the data, but for the few rows inside
        c = y[i] * scores[i]
        k = basin[i]
        below_0 = weight[i] if k == 0 and c < low_0 else 0.0
        below_1 = weight[i] if k == 1 and c < low_1 else 0.0
        weight_0 += below_0
        weight_1 += below_1
        sum_0 += below_0 * c
        sum_1 += below_1 * c
        above_0 = min(above_0, c if k == 0 and c > high_0 else np.inf)
        above_1 = min(above_1, c if k == 1 and c > high_1 else np.inf)
        if (k == 0 and low_0 <= c <= high_0) or (k == 1 and low_1 <= c <= high_1):
            value[k, count[k]] = c
            mass[k, count[k]] = weight[i]
            count[k] += 1
    base[0, 0], base[0, 1], base[0, 2] = weight_0, sum_0, above_0
    base[1, 0], base[1, 1], base[1, 2] = weight_1, sum_1, above_1


@kernel
def merge(
    first: Any, first_mass: Any, second: Any, second_mass: Any, base: Any, two: bool, end: Any, total: Any, level: Any
) -> int:
    """The pieces between rows: as the covered weight of a basin grows, the levels stay and then jump to the next row.

    Parameters
    ----------
    first, first_mass, second, second_mass : arrays
        Ascending responses inside the band of either basin, and their weights.
    base : array of shape (2, 3)
        From `collect`.
    two : bool
        Whether there is a second basin.
    end, total : arrays of shape (m,)
        Filled: covered weight of a basin at the end of each piece, and sum of weight times response up to there.
        Piece 0 is the empty one where the band begins.
    level : array of shape (2, m)
        Filled: level of each basin on the piece. Behind the last piece stands the jump above the band (inf: no row).

    Returns
    -------
    int
        Number of pieces without the jump above the band; -1 if the two bands have no weight in common.
    """
    i, j = 0, 0
    p, q = first.shape[0], second.shape[0]
    done_first, done_second = base[0, 0], base[1, 0]  # weight of the rows that are wholly covered
    covered = max(done_first, done_second) if two else done_first
    low = base[0, 1] + base[1, 1]
    while i < p and done_first + first_mass[i] <= _SAME * covered:
        done_first += first_mass[i]
        low += first_mass[i] * first[i]
        i += 1
    while two and j < q and done_second + second_mass[j] <= _SAME * covered:
        done_second += second_mass[j]
        low += second_mass[j] * second[j]
        j += 1
    if (i == p and _SAME * done_first < covered) or (two and j == q and _SAME * done_second < covered):
        return -1
    if i < p:
        low += (covered - done_first) * first[i]
    if two and j < q:
        low += (covered - done_second) * second[j]
    m = 0
    end[0], total[0] = covered, low
    level[0, 0] = level[1, 0] = -np.inf
    while True:
        m += 1
        level[0, m] = first[i] if i < p else base[0, 2]
        level[1, m] = 0.0 if not two else (second[j] if j < q else base[1, 2])
        if i == p or (two and j == q):
            return m
        next_first = done_first + first_mass[i]
        next_second = done_second + second_mass[j] if two else np.inf
        to = min(next_first, next_second)
        low += (to - covered) * (level[0, m] + level[1, m])
        covered = to
        end[m], total[m] = covered, low
        if next_first <= _SAME * to:
            done_first = next_first
            i += 1
        if two and next_second <= _SAME * to:
            done_second = next_second
            j += 1
