"""The exact threshold of given scores under constraints on 0/1 rates, for rows in memory and in blocks.

All rates are step functions of the threshold that change only at the scores, so one sort and one pass try every
threshold there is: O(n log n + n m). This is the bias-shifting of the paper's baseline for any number of constraints.

Few rows are one interval of scores, which is swept as a whole. Of many rows, and of rows in blocks, masses between a
few edges give all rates exactly at these edges, and bounds of what thresholds between them could reach: only where such
a bound is better than the best edge is there anything to look for. Those intervals are cut again until few enough rows
are left to be fetched and swept in the same way. All threads sum the masses, and most rows are never sorted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from widemargin._numba import kernel
from widemargin._threads import ROWS_PER_THREAD, Answer, in_threads
from widemargin._typing import Bools, Cells, Floats, Integers, Ints, Reals
from widemargin.distributed.blocks import Block, BlockedPoint, BlockedRows, BlockMap, block_scores
from widemargin.linalg.cells import CellCoefficients

FEASIBLE = 1e-10
"""Excess that counts as rounding."""


@dataclass(frozen=True)
class SweepOptions:
    """The sweep of thresholds.

    Attributes
    ----------
    tie : float
        Relative to the largest score: there is no threshold between scores closer than this, because rounding would
        decide on which side they fall.
    bins : int
        Intervals of a round over blocks. More leave fewer rounds, and larger sums to send.
    fetched : int
        Rows that may be fetched from blocks. More spare rounds and take memory here, 20 bytes each.
    digits : int
        Of violations: sums over blocks come in another order, and where bounds pull against each other many thresholds
        have equal ones.
    rounds : int
        Most rounds; by then an interval is as narrow as the numbers are.
    sorted_rows : int
        Most rows in memory that are sorted as a whole, in 40 ns a row. Sums between edges take a quarter of that for
        500,000 rows, and as long for 60,000; where there are more pairs of interval and cell than rows, longer.
    """

    tie: float = 1e-12
    bins: int = 2048
    fetched: int = 200_000
    digits: int = 11
    rounds: int = 12
    sorted_rows: int = 100_000


OPTIONS = SweepOptions()
"""The options of every fit."""


@dataclass(frozen=True)
class SweptThreshold:
    """The best threshold found.

    Attributes
    ----------
    threshold : float
        Call a row positive where its score is larger. It lies in the middle between two scores.
    objective : float
        0/1 objective there (in the problem's scale).
    violation : float
        Sum of the excesses of the constraints; 0 where all are met.
    n_positive : int
        Rows called positive.
    """

    threshold: float
    objective: float
    violation: float
    n_positive: int

    @property
    def met(self) -> bool:
        """Whether all constraints are met."""
        return self.violation == 0.0


def best_threshold(
    z: Floats, weight: Floats, cell: Cells, coef: CellCoefficients, gamma: Floats, cell_weight: Floats,
    options: SweepOptions = OPTIONS,
) -> SweptThreshold:  # fmt: skip
    """Try every threshold of the scores z and keep the best one that meets the constraints.

    Parameters
    ----------
    z : ndarray of shape (n,)
    weight, cell : ndarrays of shape (n,)
    coef : CellCoefficients
    gamma : ndarray of shape (m,)
        Bounds of the constraints.
    cell_weight : ndarray of shape (k,)

    Returns
    -------
    SweptThreshold
        Of the thresholds that meet all constraints the one of lowest objective (the smallest shift among equals); where
        none does, the one of smallest violation.
    """
    objective, values = coef.totals(np.zeros_like(cell_weight), cell_weight, gamma.shape[0])
    tie = options.tie * max(1.0, float(z.max(initial=0.0)), -float(z.min(initial=0.0)))
    if z.shape[0] > max(options.sorted_rows, options.bins * coef.n_cells):
        rows = _Scored(z, weight, cell)
        found = _search(rows, coef, gamma, cell_weight, options)
        below, above = zip(*rows.map(_neighbours, found.threshold), strict=True)
        if min(above) - max(below) > tie:  # else an edge between equal scores, of which a sweep knows
            return replace(found, threshold=_middle(max(below), min(above)))
    order = np.argsort(-z)  # no threshold lies between equal scores, so any order of theirs will do
    count, change, violation = swept(order, z, weight, cell, coef, values - gamma, tie)
    return SweptThreshold(between(z, order, count), objective + change, violation, count)


def swept(
    order: Ints, z: Floats, weight: Floats, cell: Cells, coef: CellCoefficients, excess: Floats, tie: float
) -> tuple[int, float, float]:
    """How many of the rows in `order` (falling scores) to call positive; what it adds to the objective; the violation.

    `excess` is that of the constraints while none of them is positive.
    """
    best = np.zeros(3)
    gain = coef.alpha0 - coef.beta0
    count = sweep(order, z, weight, cell, gain, *coef.entries, excess.copy(), tie, best)
    return count, float(best[0]), float(best[1])


def between(z: Floats, order: Ints, count: int) -> float:
    """A threshold that calls exactly the first `count` rows positive."""
    n = order.shape[0]
    return _middle(float(z[order[count]]) if count < n else -np.inf, float(z[order[count - 1]]) if count else np.inf)


def _middle(low: float, high: float) -> float:
    """A threshold between two neighbours of all scores; infinite where there is none."""
    if high == np.inf:
        return low + 0.5
    if low == -np.inf:
        return high - 0.5
    if low <= 0.0 < high:
        return 0.0  # the scores' own sign already does it
    return 0.5 * (low + high)


@kernel
def total(excess: Floats) -> float:
    """Sum of the excesses, rounding left out."""
    violation = 0.0
    for j in range(excess.shape[0]):
        if excess[j] > FEASIBLE:
            violation += excess[j]
    return violation


@kernel
def turn_over(
    c: int, moved: float, gain: Floats, indptr: Integers, column: Integers, change: Floats, excess: Floats
) -> float:
    """Move so much weight of cell c to the positive side: what it adds to the objective; excesses are changed."""
    for e in range(indptr[c], indptr[c + 1]):
        excess[column[e]] += moved * change[e]
    return float(moved * gain[c])


@kernel
def sweep(
    order: Ints, z: Floats, weight: Floats, cell: Cells, gain: Floats, indptr: Integers, column: Integers,
    change: Floats, excess: Floats, tie: float, best_values: Floats,
) -> int:  # fmt: skip
    """Move the rows in `order` (falling scores) to the positive side one by one; return how many to call positive.

    `gain[c]` and `change[e]` are what a unit of weight of cell c adds to the objective and to constraint `column[e]`
    when it turns positive. `excess` starts at the values of the all-negative classifier and is changed in place.
    Thresholds lie only between scores that differ by more than `tie`. Feasible thresholds win over others, then the
    lower violation, then the lower objective, then the smaller shift of the threshold. `best_values` receives objective
    change, violation and number.
    """
    n = order.shape[0]
    objective, violation = 0.0, total(excess)
    best, best_objective, best_violation, best_digits = 0, objective, violation, np.rint(violation * 1e11)
    best_shift = z[order[0]] if z[order[0]] > 0.0 else 0.0
    for p in range(n):
        # One more row is called positive, which changes the objective and the constraints of its cell.
        i = order[p]
        objective += turn_over(cell[i], weight[i], gain, indptr, column, change, excess)
        # The threshold would lie between this score and the next one. Scores closer than rounding leave no room for it.
        low = z[order[p + 1]] if p + 1 < n else -np.inf
        if z[i] - low <= tie:
            continue
        # Summed afresh: a running sum of violations would drift, and equal violations would look different.
        violation = total(excess)
        # Sums in another order, as those over blocks, differ in their last digits and must count as equal.
        digits = np.rint(violation * 1e11)
        # From zero to the nearest threshold between the two scores.
        shift = low if low > 0.0 else -z[i] if z[i] < 0.0 else 0.0
        # Less violation wins, then the lower objective, then the smaller move of the threshold, so that a model that is
        # the best already stays as it is.
        better = digits < best_digits
        if digits == best_digits:
            better = objective < best_objective - 1e-15
            if not better and objective <= best_objective + 1e-15:
                better = shift < best_shift
        if better:
            best, best_objective, best_shift = p + 1, objective, shift
            best_violation, best_digits = violation, digits
    best_values[0] = best_objective
    best_values[1] = best_violation
    best_values[2] = best
    return best


class _Bins(NamedTuple):
    """Sums over the rows between two edges, one line an interval (low, high], from the highest down.

    Attributes
    ----------
    gains : ndarray of shape (p, 1 + m)
        What objective and constraints gain when all of them turn positive.
    least : ndarray of shape (p, 1 + m)
        The same of those alone that gain less than nothing.
    n_rows : ndarray of shape (p,)
    """

    gains: Floats
    least: Floats
    n_rows: Floats


class _Scored(NamedTuple):
    """Rows in memory: their scores, weights and cells."""

    z: Floats
    weight: Reals
    cell: Cells

    def map(self, act: "_Act[Answer]", message: object) -> list[Answer]:
        """What `act` returns for ranges of the rows, side by side in threads."""

        def part(first: int, last: int) -> Answer:
            return act(_Scored(self.z[first:last], self.weight[first:last], self.cell[first:last]), message)

        return in_threads(self.z.shape[0], ROWS_PER_THREAD, part)

    def sum(self, act: "_Act[_Bins]", message: object) -> _Bins:
        """The sum of what `act` returns for them."""
        return _Bins(*(np.sum(same, axis=0) for same in zip(*self.map(act, message), strict=True)))


class _ScoredBlocks(NamedTuple):
    """Rows in blocks, scored by a model where they are."""

    blocks: BlockMap
    at: BlockedPoint

    def map(self, act: "_Act[Answer]", message: object) -> list[Answer]:
        """See `_Scored`; a range is a block."""
        return self.blocks.map(_in_block, (act, self.at, message))

    def sum(self, act: "_Act[_Bins]", message: object) -> _Bins:
        """See `_Scored`."""
        bins: _Bins = self.blocks.sum(_in_block, (act, self.at, message))
        return bins


def best_threshold_of_blocks(
    rows: BlockedRows, at: BlockedPoint, coef: CellCoefficients, gamma: Floats, cell_weight: Floats,
    options: SweepOptions = OPTIONS,
) -> SweptThreshold:  # fmt: skip
    """Find the best threshold there is of the scores of a model.

    Parameters
    ----------
    rows : BlockedRows
    at : BlockedPoint
        The model.
    coef, gamma, cell_weight
        As in `best_threshold`.

    Returns
    -------
    SweptThreshold
    """
    return _search(_ScoredBlocks(rows.blocks, at), coef, gamma, cell_weight, options)


def _search(
    rows: _Scored | _ScoredBlocks, coef: CellCoefficients, gamma: Floats, cell_weight: Floats, options: SweepOptions
) -> SweptThreshold:
    """The best threshold, by sums between edges."""
    objective, values = coef.totals(np.zeros_like(cell_weight), cell_weight, gamma.shape[0])
    start = np.concatenate([[objective], values - gamma])
    reach = rows.map(_reach, None)
    low, high = min(part[0] for part in reach), max(part[1] for part in reach)
    largest = max(abs(low), abs(high), 1.0)
    tie, beyond = options.tie * largest, 0.5 + 1e-9 * largest
    # 0, the threshold of the model as it is, is always among the edges, so that it wins where no other is better.
    edges = np.unique(np.concatenate([np.linspace(low - beyond, high + beyond, options.bins + 1), [0.0]]))[::-1]
    bins = rows.sum(_bins, (coef, gamma.shape[0], edges))
    bins, edges = _merged_empty(bins, edges)
    wanted = _wanted(start, bins, edges, tie)
    for _ in range(options.rounds):
        # Only intervals that may hold a better threshold are cut again, until the rows in them are few enough to fetch.
        if bins.n_rows[wanted].sum() <= options.fetched:
            break
        parts = max(2, options.bins // int(np.count_nonzero(wanted)))
        cuts = np.linspace(edges[:-1][wanted], edges[1:][wanted], parts, endpoint=False)[1:]
        edges = np.unique(np.concatenate([edges, cuts.ravel()]))[::-1]
        bins, edges = _merged_empty(rows.sum(_bins, (coef, gamma.shape[0], edges)), edges)
        wanted = _wanted(start, bins, edges, tie)
    return _best_of(rows, coef, start, bins, edges, wanted, tie, options)


def _at_edges(start: Floats, bins: _Bins) -> Floats:
    """Objective and excesses when everything above each edge is positive, shape (p + 1, 1 + m)."""
    risen: Floats = np.concatenate([np.zeros((1, start.shape[0])), np.cumsum(bins.gains, axis=0)])
    return start + risen


def _violation(values: Floats) -> Floats:
    """Sums of excesses, without the digits that are rounding: where bounds pull against each other many are equal."""
    excess: Floats = np.where(values[..., 1:] > FEASIBLE, values[..., 1:], 0.0).sum(axis=-1)
    return np.round(excess, OPTIONS.digits)


def _best_edge(values: Floats, edges: Floats) -> int:
    """The edge of least violation, then of lowest objective, then next to 0."""
    return int(np.lexsort((np.abs(edges), values[:, 0], _violation(values)))[0])


def _wanted(start: Floats, bins: _Bins, edges: Floats, tie: float) -> Bools:
    """Intervals in which a threshold might be better than the best edge, and those beside that edge."""
    values = _at_edges(start, bins)
    best = _best_edge(values, edges)
    # A threshold inside an interval calls some of its rows positive. If those were all rows that lower a value and none
    # that raise it, the value would be the least that any threshold in the interval can reach.
    bound = values[:-1] + bins.least
    violation, least = _violation(bound), float(_violation(values[best]))
    slack = 1e-12 * max(1.0, abs(values[best, 0]))
    wanted = (violation < least) | ((violation <= least) & (bound[:, 0] < values[best, 0] - slack))
    wanted[max(best - 1, 0) : best + 1] = True  # beside the best edge a threshold may be nearer to 0
    return np.asarray(wanted & (bins.n_rows > 1) & (edges[:-1] - edges[1:] > tie))


def _merged_empty(bins: _Bins, edges: Floats) -> tuple[_Bins, Floats]:
    """The same without the edges between two empty intervals: the same rates hold at all of them."""
    empty = bins.n_rows == 0
    dull = np.zeros(edges.shape[0], bool)
    dull[1:-1] = empty[:-1] & empty[1:] & (edges[1:-1] != 0.0)
    left = np.flatnonzero(~dull)
    return _Bins(*(np.add.reduceat(part, left[:-1], axis=0) for part in bins)), edges[left]


def _best_of(
    rows: _Scored | _ScoredBlocks, coef: CellCoefficients, start: Floats, bins: _Bins, edges: Floats, wanted: Bools,
    tie: float, options: SweepOptions,
) -> SweptThreshold:  # fmt: skip
    """The best of the edges and of all thresholds inside the wanted intervals."""
    values, above = _at_edges(start, bins), np.concatenate([[0.0], np.cumsum(bins.n_rows)])
    best = _best_edge(values, edges)
    candidates = [
        SweptThreshold(float(edges[best]), float(values[best, 0]), float(_violation(values[best])), int(above[best]))
    ]
    if not wanted.any():
        return candidates[0]
    z, weight, cell = map(np.concatenate, zip(*rows.map(_fetched, (edges, wanted)), strict=True))
    ends = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    for first, last in ends.reshape(-1, 2):
        mine = np.flatnonzero((z <= edges[first]) & (z > edges[last]))
        if not mine.shape[0]:
            continue
        order = mine[np.argsort(-z[mine])]
        # The excesses at the upper edge of the interval are exact, so the sweep may start from them.
        count, change, violation = swept(order, z, weight, cell, coef, values[first, 1:], tie)
        inside = 0 < count < order.shape[0]
        threshold = between(z, order, count) if inside else float(edges[first if count == 0 else last])
        candidates.append(
            SweptThreshold(threshold, float(values[first, 0]) + change, violation, int(above[first]) + count)
        )
    return min(
        candidates,
        key=lambda choice: (round(choice.violation, options.digits), choice.objective, abs(choice.threshold)),
    )


# What runs where the rows are: two numbers and sums leave the machine of a block, and scores of few rows.

_Act: TypeAlias = Callable[[_Scored, Any], Answer]


def _in_block(block: Block, message: tuple[_Act[Answer], BlockedPoint, object]) -> Answer:
    act, at, rest = message
    return act(_Scored(block_scores(block, at.w, at.b), block.data.weight, block.data.cell), rest)


def _reach(rows: _Scored, _: None) -> tuple[float, float]:
    return float(rows.z.min(initial=0.0)), float(rows.z.max(initial=0.0))


def _neighbours(rows: _Scored, threshold: float) -> tuple[float, float]:
    """The highest score not above a threshold, and the lowest above it; infinite where there is none."""
    above = rows.z > threshold
    return float(rows.z.max(where=~above, initial=-np.inf)), float(rows.z.min(where=above, initial=np.inf))


def _interval(z: Floats, edges: Floats) -> Integers:
    """Number of the interval of each score, edges falling."""
    rising, number = edges[::-1].copy(), np.empty(z.shape[0], dtype=np.int64)
    # A finer grid of equal distances says at which edge to begin: in the first round most scores need no further step.
    guide = np.searchsorted(rising, np.linspace(rising[0], rising[-1], 8 * edges.shape[0] + 1), side="left")
    place(z, rising, guide, number)
    return number


@kernel
def place(z: Floats, rising: Floats, guide: Ints, number: Ints) -> None:
    """Set `number` to how many edges lie at each score or above it, without the highest; `guide` says where to look."""
    last = rising.shape[0] - 1
    scale = (guide.shape[0] - 1) / (rising[last] - rising[0])
    for i in range(z.shape[0]):
        at = (z[i] - rising[0]) * scale  # no number where the score is none, which must not lead outside of `guide`
        below = guide[int(at)] if 0.0 <= at < guide.shape[0] else 0  # edges below about this score
        while below > 0 and rising[below - 1] >= z[i]:
            below -= 1
        while below <= last and rising[below] < z[i]:
            below += 1
        number[i] = last - below


def _bins(rows: _Scored, message: tuple[CellCoefficients, int, Floats]) -> _Bins:
    coef, m, edges = message
    n_bins, interval = edges.shape[0] - 1, _interval(rows.z, edges)
    pair = interval * coef.n_cells + rows.cell
    # Where there are few rows and many cells, a table of all pairs of interval and cell would be nearly empty.
    if n_bins * coef.n_cells > 4 * pair.shape[0]:
        pairs, number = np.unique(pair, return_inverse=True)
        mass = np.bincount(number, rows.weight, pairs.shape[0])
    else:
        whole = np.bincount(pair, rows.weight, n_bins * coef.n_cells)
        pairs = np.flatnonzero(whole)
        mass = whole[pairs]
    where, cell = np.divmod(pairs, coef.n_cells)
    # `gains` adds up everything, `least` only what lowers a value (see `_wanted`).
    gains, least = np.zeros((2, n_bins, 1 + m))
    gain = mass * (coef.alpha0 - coef.beta0)[cell]
    for out, part in ((gains, gain), (least, np.minimum(gain, 0.0))):
        out[:, 0] = np.bincount(where, part, n_bins)
    # The CSR entries of all cells in `cell`, one after the other: `arange` counts through each cell's own entries.
    entries = np.diff(coef.indptr)[cell]
    pick = np.repeat(coef.indptr[cell] - np.cumsum(entries) + entries, entries) + np.arange(entries.sum())
    bin_of, column, change = np.repeat(where, entries), coef.column[pick], np.repeat(mass, entries) * coef.value[pick]
    np.add.at(gains, (bin_of, 1 + column), change)
    np.add.at(least, (bin_of, 1 + column), np.minimum(change, 0.0))
    return _Bins(gains, least, np.bincount(interval, minlength=n_bins).astype(np.float64))


def _fetched(rows: _Scored, message: tuple[Floats, Bools]) -> _Scored:
    """The rows in the wanted intervals."""
    edges, wanted = message
    mine = np.flatnonzero(wanted[_interval(rows.z, edges)])
    return _Scored(rows.z[mine], rows.weight[mine].astype(np.float64), rows.cell[mine])
