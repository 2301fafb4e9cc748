"""The water level of the stochastic batch perceptron: the margin a direction reaches when its slack is spent best.

Pour the slack, a volume V, into a basin whose floor are the responses `c_i = y_i <w, phi(x_i)>` (rows of weight `u_i`):

    level G:   sum_i u_i max(0, G - c_i) = V,      gamma = G

With an unregularised bias every class is a basin of its own. The levels G+ and G- cover the same weight in both, and

    gamma = (G+ + G-) / 2,      bias = (G- - G+) / 2                                 (Algorithm 3, from its optimality)

Where a range of (G+, G-) is optimal the middle is taken. The rows below the level are the covered ones: the
supergradient of gamma is a mixture of their `y_i phi(x_i)`, with half of the mass on each class.

The *C form* chooses scale and bias of a direction of squared norm r^2 so that they minimise

    r^2 / (2 gamma^2) + C sum_i u_i max(0, 1 - (c_i + y_i b) / gamma)

The covered rows, whose sum of `u_i c_i` is S, satisfy

    C gamma S = r^2

and S, gamma > 0. `gamma S` grows with the covered weight once both factors are positive, so there is one solution;
where even all rows are too few, `gamma = r^2 / (C S)`; and where S <= 0 for all rows, scale 0 is best and gamma is
infinite.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints

__all__ = ["Level", "WaterLevel", "collect", "divide_and_conquer", "merge"]


class Level(NamedTuple):
    """Levels of the two basins (equal where there is no bias).

    Attributes
    ----------
    positive, negative : float
        G+ and G-, of the responses of the class itself; infinite where all rows of the class are covered.
    covered : float
        Weight covered in each basin.
    share_positive, share_negative : float
        How much of the rows exactly at the level belongs to the covered weight.
    """

    positive: float
    negative: float
    covered: float
    share_positive: float = 1.0
    share_negative: float = 1.0

    @property
    def gamma(self) -> float:
        """The margin."""
        return 0.5 * (self.positive + self.negative)

    @property
    def bias(self) -> float:
        """The bias that makes the two levels one; divide it by gamma as the direction."""
        return 0.5 * (self.negative - self.positive) if math.isfinite(self.gamma) else 0.0


class _Pieces(NamedTuple):
    """What `merge` makes: levels between the ends of pieces, and the rows of the band."""

    end: Floats
    total: Floats
    level: Floats
    rows: tuple[Floats, Floats]
    mass: tuple[Floats, Floats]
    base: Floats


class WaterLevel:
    """Finds levels, each from where the last one was: one pass over the rows and a sort of those near the old level.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels -1.0 and 1.0.
    weight : ndarray of shape (n,)
        u_i; rows of weight 0 are not looked at. With a bias both classes need a row.
    near : int, default=64
        Rows on either side of the last level among which the next one is looked for first. Fewer are sorted sooner, and
        more often the level has left them: then eight times their band is tried, and then all rows.
    """

    def __init__(self, y: Floats, weight: Floats, fit_intercept: bool, near: int = 64) -> None:
        n, self._near = y.shape[0], near
        self._two = fit_intercept
        self.basin = np.where((y < 0.0) & fit_intercept, 1, 0).astype(np.int8)
        self.basin[weight <= 0.0] = -1
        self._y, self._weight = y, weight
        self._value, self._mass = np.empty((2, n)), np.empty((2, n))
        self._end, self._total, self._level = np.empty(n + 2), np.empty(n + 2), np.empty((2, n + 2))
        self._last: Level | None = None
        self._reach = math.inf  # how far from the old level the new one is looked for

    def of_volume(self, scores: Floats, volume: float) -> Level:
        """The level at which a volume is used up.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            `<w, phi(x_i)>`, without a bias; finite.
        volume : float
            V >= 0; with 0 the level is the least response.
        """

        def spend(at: _Pieces) -> Level | None:
            # The first jump that takes more than the volume; None if it is not in the band.
            height = at.level.sum(axis=0)[1:]
            first = at.end[0] * height[0] - at.total[0] if at.end[0] > 0.0 else 0.0
            needed = first + np.cumsum(at.end[1:] * np.diff(height))
            beyond = np.flatnonzero(needed > volume)
            if first > volume or beyond.shape[0] == 0:
                return None
            j = int(beyond[0]) + 1
            return self._between(at, j, (volume + at.total[j]) / at.end[j])

        return self._find(scores, spend)

    def of_norm(self, scores: Floats, square: float) -> Level:
        """The level of the C form at `square = r^2 / C`; an infinite margin where scale 0 is best."""
        return self._find(scores, lambda pieces: self._balance(pieces, square))

    def covered(self, scores: Floats, level: Level, rows: npt.NDArray[np.integer] | None = None) -> Floats:
        """Weight of each row (of `rows`) that is covered, shape as theirs."""
        pick = slice(None) if rows is None else rows
        basin, c = self.basin[pick], self._y[pick] * scores[pick]
        second = basin == 1
        # A row exactly at the level is covered in part.
        height = np.where(second, level.negative, level.positive)
        share = np.where(second, level.share_negative, level.share_positive)
        return self._weight[pick] * (basin >= 0) * np.where(c < height, 1.0, np.where(c == height, share, 0.0))

    def _find(self, scores: Floats, rule: Callable[[_Pieces], Level | None]) -> Level:
        # Near the last level first, as it moves little from step to step; then in a wider band; then among all rows.
        # Few rows lie near the last level, and sorting them is nearly all the work.
        bands = [self._reach, 8.0 * self._reach] if math.isfinite(self._reach) and self._reach > 0.0 else []
        for reach in (*bands, math.inf):
            pieces = self._pieces(scores, reach)
            level = rule(pieces) if pieces is not None else None
            if level is not None:
                break
        assert level is not None and pieces is not None  # the last band holds every row
        self._last, self._reach = level, 0.0 if math.isfinite(level.gamma) else math.inf
        # The next band reaches to the `near` rows above and below; where this band holds fewer, twice as far.
        for rows, base, height in zip(pieces.rows, pieces.base, (level.positive, level.negative), strict=True):
            k, near = int(np.searchsorted(rows, height)), self._near
            if math.isinf(self._reach):
                break
            if (k < near and base[0] > 0.0) or (k + near >= rows.shape[0] and base[2] < math.inf):
                self._reach = 2.0 * reach
                break
            if rows.shape[0] > 0:
                far = max(height - rows[max(0, k - near)], rows[min(k + near, rows.shape[0] - 1)] - height)
                self._reach = max(self._reach, float(far))
        return level

    def _pieces(self, scores: Floats, reach: float) -> _Pieces | None:
        last = self._last or Level(0.0, 0.0, 0.0)
        middle = np.array([last.positive, last.negative]) if math.isfinite(reach) else np.zeros(2)
        count, base = np.empty(2, dtype=np.int64), np.empty((2, 3))
        collect(
            scores, self._y, self.basin, self._weight, middle - reach, middle + reach, self._value, self._mass, count,
            base,
        )  # fmt: skip
        rows, mass = [], []
        for k in range(2):
            value = self._value[k, : count[k]]
            # Only rows inside the band are sorted.
            order = np.argsort(value)
            rows.append(value[order])
            mass.append(self._mass[k, : count[k]][order])
        m = merge(rows[0], mass[0], rows[1], mass[1], base, self._two, self._end, self._total, self._level)
        if m < 0:
            return None
        return _Pieces(
            self._end[:m], self._total[:m], self._level[:, : m + 1], (rows[0], rows[1]), (mass[0], mass[1]), base
        )

    def _balance(self, at: _Pieces, square: float) -> Level | None:
        """The first piece, or the jump before it, where gamma S reaches the square; None if it is not in the band."""
        share = 0.5 if self._two else 1.0
        height = at.level.sum(axis=0)
        gamma, total = share * height, at.total
        # C gamma S = r^2 has its solution in the first piece that reaches r^2 / C.
        reached = (gamma[1:-1] > 0.0) & (total[1:] > 0.0) & (gamma[1:-1] * total[1:] >= square)
        j = int(np.argmax(reached)) + 1 if reached.any() else at.end.shape[0]
        if j == at.end.shape[0]:  # no piece: the jump behind them, or beyond
            if total[-1] > 0.0 and gamma[-1] > 0.0 and (gamma[-1] * total[-1] >= square):
                return None if j == 1 else self._between(at, j - 1, square / total[-1] / share)
            # Scale 0 is best. The class of less weight is covered wholly, the other one as far: its worst rows.
            (first, second), end = at.level[:, -1], at.end[-1]
            return self._level_at(at, first, second, end) if math.isinf(gamma[-1]) else None
        before = total[j - 1]
        if before > 0.0 and square / before < gamma[j]:
            return None if j == 1 else self._between(at, j - 1, square / before / share)
        # Inside a piece the levels stay and S grows with the covered weight, in a line.
        covered = at.end[j - 1] + (square / gamma[j] - before) / height[j]
        return self._level_at(at, at.level[0, j], at.level[1, j], min(max(covered, at.end[j - 1]), at.end[j]))

    def _between(self, at: _Pieces, j: int, height: float) -> Level:
        """The level at the end of piece j, where the sum of the two levels is `height`: the middle of the range."""
        below, above = at.level[:, j], at.level[:, j + 1]
        if not self._two:
            return self._level_at(at, min(max(height, below[0]), above[0]), 0.0, at.end[j])
        return self._level_at(at, *_middle(height, below, above), at.end[j])

    def _level_at(self, at: _Pieces, first: float, second: float, covered: float) -> Level:
        shares = []
        for k, height in ((0, first), (1, second)):
            low, high = np.searchsorted(at.rows[k], height, "left"), np.searchsorted(at.rows[k], height, "right")
            below, level = at.base[k, 0] + at.mass[k][:low].sum(), at.mass[k][low:high].sum()
            shares.append(min(1.0, max(0.0, float((covered - below) / level))) if level > 0.0 else 1.0)
        if not self._two:
            second, shares[1] = first, shares[0]
        return Level(float(first), float(second), float(covered), *shares)


def divide_and_conquer(positive: Floats, negative: Floats | None, volume: float) -> Level:
    """The level of rows of weight 1 by halving, in time O(n) (Algorithm 2; with two basins Algorithm 3).

    To cover k rows of each basin takes `k (c+_(k) + c-_(k)) - S_k`, which grows with k. Only the half of the rows that
    holds the answer is partitioned again.

    Parameters
    ----------
    positive : ndarray
        Responses of the first basin, at least one.
    negative : ndarray or None
        Those of the second basin; None for one basin.
    volume : float
        V >= 0.
    """
    basins = [positive.copy()] if negative is None else [positive.copy(), negative.copy()]
    # No basin can cover more rows than the smaller one has.
    m = min(rows.shape[0] for rows in basins)
    for rows in basins:
        if rows.shape[0] > m:
            rows.partition(m)
    low, high, total = 0, m, 0.0  # `low` rows are covered for sure, their sum is `total`; `high` + 1 are too many
    while high - low > 1:
        middle = (low + high) // 2
        for rows in basins:
            rows[low:high].partition(middle - low)
        part = total + sum(float(rows[low:middle].sum()) for rows in basins)
        # To cover `middle` rows of each basin takes this volume.
        if middle * sum(float(rows[middle]) for rows in basins) - part > volume:
            high = middle
        else:
            low, total = middle, part
    last = [float(rows[low]) for rows in basins]
    after = [float(rows[high]) if high < rows.shape[0] else math.inf for rows in basins]
    height = (volume + total + sum(last)) / high
    if negative is None:
        return Level(max(height, last[0]), max(height, last[0]), float(high))
    return Level(*_middle(height, last, after), float(high))


def _middle(height: float, below: Sequence[float] | Floats, above: Sequence[float] | Floats) -> tuple[float, float]:
    """The middle of the pairs of levels of sum `height`, each between its last covered row and the next one."""
    # The pairs of levels that are allowed are an interval; its middle is taken.
    low, high = max(below[0], height - above[1]), min(above[0], height - below[1])
    first = min(max(0.5 * (low + high), below[0]), above[0])  # rounding must not pass a row
    return float(first), float(min(max(height - first, below[1]), above[1]))


@kernel
def collect(
    scores: Floats, y: Floats, basin: npt.NDArray[np.int8], weight: Floats, low: Floats, high: Floats, value: Floats,
    mass: Floats, count: Ints, base: Floats,
) -> None:  # fmt: skip
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
    first: Floats, first_mass: Floats, second: Floats, second_mass: Floats, base: Floats, two: bool, end: Floats,
    total: Floats, level: Floats,
) -> int:  # fmt: skip
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
    same = 1.0 + 1e-12  # covered weights that differ by less are one: sums of the same weights are rounded
    i, j = 0, 0
    p, q = first.shape[0], second.shape[0]
    done_first, done_second = base[0, 0], base[1, 0]  # weight of the rows that are wholly covered
    covered = max(done_first, done_second) if two else done_first
    low = base[0, 1] + base[1, 1]
    while i < p and done_first + first_mass[i] <= same * covered:
        done_first += first_mass[i]
        low += first_mass[i] * first[i]
        i += 1
    while two and j < q and done_second + second_mass[j] <= same * covered:
        done_second += second_mass[j]
        low += second_mass[j] * second[j]
        j += 1
    if (i == p and same * done_first < covered) or (two and j == q and same * done_second < covered):
        return -1
    if i < p:
        low += (covered - done_first) * first[i]
    if two and j < q:
        low += (covered - done_second) * second[j]
    m = 0
    end[0], total[0] = covered, low
    level[0, 0] = level[1, 0] = -np.inf
    # From here on the two basins fill together: the covered weight grows to where the next row of either is wholly
    # covered, and the level of that basin then jumps to its next row.
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
        if next_first <= same * to:
            done_first = next_first
            i += 1
        if two and next_second <= same * to:
            done_second = next_second
            j += 1
