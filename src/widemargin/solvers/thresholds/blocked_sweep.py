"""The exact threshold of scores that live in blocks, under constraints on 0/1 rates.

The same choice as `threshold_sweep` makes of scores in one place. Masses between a few edges give all rates exactly at
these edges, and bounds of what thresholds between them could reach: only where a bound is better than the best edge is
there anything to look for. Those intervals are cut again until few enough rows are left to be fetched and swept.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.distributed.blocks import Block, BlockedPoint, BlockedRows, block_scores
from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.thresholds import bias_sweep_loops as loops
from widemargin.solvers.thresholds.bias_sweep import FEASIBLE, ThresholdChoice, between

__all__ = ["best_threshold_of_blocks"]

_BINS = 2048  # of a round
_FETCHED = 200_000  # rows that may be fetched
_TIE = 1e-12  # relative to the largest score: no threshold between scores closer than this
_DIGITS = 11  # of violations
_ROUNDS = 12  # by then an interval is as narrow as the numbers are

Flags = npt.NDArray[np.bool_]


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


def best_threshold_of_blocks(
    rows: BlockedRows, at: BlockedPoint, coef: CellCoefficients, gamma: Floats, cell_weight: Floats
) -> ThresholdChoice:
    """Find the best threshold there is of the scores of a model.

    Parameters
    ----------
    rows : BlockedRows
    at : BlockedPoint
        The model.
    coef, gamma, cell_weight
        As in `threshold_sweep.best_threshold`.

    Returns
    -------
    ThresholdChoice
    """
    objective, values = coef.totals(np.zeros_like(cell_weight), cell_weight, gamma.shape[0])
    start = np.concatenate([[objective], values - gamma])
    reach = rows.blocks.map(_reach, at)
    low, high = min(part[0] for part in reach), max(part[1] for part in reach)
    edges = np.unique(np.concatenate([np.linspace(low - 0.5, high + 0.5, _BINS + 1), [0.0]]))[::-1]
    bins: _Bins = rows.blocks.sum(_bins, (at, coef, gamma.shape[0], edges))
    tie = _TIE * max(abs(low), abs(high), 1.0)
    bins, edges = _merged_empty(bins, edges)
    wanted = _wanted(start, bins, edges, tie)
    for _ in range(_ROUNDS):
        if bins.n_rows[wanted].sum() <= _FETCHED:
            break
        edges = _cut(edges, wanted)
        bins, edges = _merged_empty(rows.blocks.sum(_bins, (at, coef, gamma.shape[0], edges)), edges)
        wanted = _wanted(start, bins, edges, tie)
    return _swept(rows, at, coef, start, bins, edges, wanted, tie)


def _at_edges(start: Floats, bins: _Bins) -> Floats:
    """Objective and excesses when everything above each edge is positive, shape (p + 1, 1 + m)."""
    risen: Floats = np.concatenate([np.zeros((1, start.shape[0])), np.cumsum(bins.gains, axis=0)])
    return start + risen


def _violation(values: Floats) -> Floats:
    """Sums of excesses, without the digits that are rounding: where bounds pull against each other many are equal."""
    excess: Floats = np.where(values[..., 1:] > FEASIBLE, values[..., 1:], 0.0).sum(axis=-1)
    return np.round(excess, _DIGITS)


def _best_edge(values: Floats, edges: Floats) -> int:
    """The edge of least violation, then of lowest objective, then next to 0."""
    return int(np.lexsort((np.abs(edges), values[:, 0], _violation(values)))[0])


def _wanted(start: Floats, bins: _Bins, edges: Floats, tie: float) -> Flags:
    """Intervals in which a threshold might be better than the best edge, and those beside that edge."""
    values = _at_edges(start, bins)
    best = _best_edge(values, edges)
    bound = values[:-1] + bins.least
    violation, least = _violation(bound), float(_violation(values[best]))
    slack = 1e-12 * max(1.0, abs(values[best, 0]))
    wanted = (violation < least) | ((violation <= least) & (bound[:, 0] < values[best, 0] - slack))
    wanted[max(best - 1, 0) : best + 1] = True
    return np.asarray(wanted & (bins.n_rows > 1) & (edges[:-1] - edges[1:] > tie))


def _merged_empty(bins: _Bins, edges: Floats) -> tuple[_Bins, Floats]:
    """The same without the edges between two empty intervals: the same rates hold at all of them."""
    empty = bins.n_rows == 0
    dull = np.zeros(edges.shape[0], bool)
    dull[1:-1] = empty[:-1] & empty[1:] & (edges[1:-1] != 0.0)
    kept = np.flatnonzero(~dull)
    return _Bins(*(np.add.reduceat(part, kept[:-1], axis=0) for part in bins)), edges[kept]


def _cut(edges: Floats, wanted: Flags) -> Floats:
    """Edges of a next round: those there are, and the wanted intervals cut into equal parts."""
    parts = max(2, _BINS // int(np.count_nonzero(wanted)))
    cuts = np.linspace(edges[:-1][wanted], edges[1:][wanted], parts, endpoint=False)[1:]
    return np.unique(np.concatenate([edges, cuts.ravel()]))[::-1]


def _swept(
    rows: BlockedRows, at: BlockedPoint, coef: CellCoefficients, start: Floats, bins: _Bins, edges: Floats,
    wanted: Flags, tie: float,
) -> ThresholdChoice:  # fmt: skip
    """The best of the edges and of all thresholds inside the wanted intervals."""
    values, above = _at_edges(start, bins), np.concatenate([[0.0], np.cumsum(bins.n_rows)])
    best = _best_edge(values, edges)
    found = [
        ThresholdChoice(float(edges[best]), float(values[best, 0]), float(_violation(values[best])), int(above[best]))
    ]
    parts = rows.blocks.map(_fetched, (at, edges, wanted)) if wanted.any() else []
    z, weight, cell = (np.concatenate(part) for part in zip(*parts, strict=True)) if parts else (np.zeros(0),) * 3
    ends = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    for first, last in ends.reshape(-1, 2):
        mine = np.flatnonzero((z <= edges[first]) & (z > edges[last]))
        if not mine.shape[0]:
            continue
        order, result = mine[np.argsort(-z[mine])], np.zeros(3)
        count = loops.sweep(
            order, z, weight, cell, coef.alpha0 - coef.beta0, *coef.entries, values[first, 1:].copy(), tie, FEASIBLE,
            result,
        )  # fmt: skip
        inside = 0 < count < order.shape[0]
        threshold = between(z, order, count) if inside else float(edges[first if count == 0 else last])
        found.append(
            ThresholdChoice(threshold, float(values[first, 0] + result[0]), float(result[1]), int(above[first]) + count)
        )
    return min(found, key=lambda choice: (round(choice.violation, _DIGITS), choice.objective, abs(choice.threshold)))


# what runs where a block is


def _reach(block: Block, at: BlockedPoint) -> tuple[float, float]:
    z = block_scores(block, at.w, at.b)
    return float(z.min(initial=0.0)), float(z.max(initial=0.0))


def _interval(z: Floats, edges: Floats) -> npt.NDArray[np.intp]:
    """Number of the interval of each score, edges falling."""
    number: npt.NDArray[np.intp] = edges.shape[0] - 1 - np.searchsorted(edges[::-1], z, side="left")
    return number


def _bins(block: Block, message: tuple[BlockedPoint, CellCoefficients, int, Floats]) -> _Bins:
    at, coef, m, edges = message
    problem, n_bins = block.data, edges.shape[0] - 1
    interval = _interval(block_scores(block, at.w, at.b), edges)
    pair = interval * coef.n_cells + problem.cell
    if n_bins * coef.n_cells > 4 * pair.shape[0]:  # few rows, many cells: only the pairs that occur
        pairs, place = np.unique(pair, return_inverse=True)
        mass = np.bincount(place, problem.weight, pairs.shape[0])
    else:
        whole = np.bincount(pair, problem.weight, n_bins * coef.n_cells)
        pairs = np.flatnonzero(whole)
        mass = whole[pairs]
    where, cell = np.divmod(pairs, coef.n_cells)
    gains, least = np.zeros((2, n_bins, 1 + m))
    gain = mass * (coef.alpha0 - coef.beta0)[cell]
    for out, part in ((gains, gain), (least, np.minimum(gain, 0.0))):
        out[:, 0] = np.bincount(where, part, n_bins)
    entries = np.diff(coef.indptr)[cell]
    pick = np.repeat(coef.indptr[cell] - np.cumsum(entries) + entries, entries) + np.arange(entries.sum())
    bin_of, column, change = np.repeat(where, entries), coef.column[pick], np.repeat(mass, entries) * coef.value[pick]
    np.add.at(gains, (bin_of, 1 + column), change)
    np.add.at(least, (bin_of, 1 + column), np.minimum(change, 0.0))
    return _Bins(gains, least, np.bincount(interval, minlength=n_bins).astype(np.float64))


def _fetched(block: Block, message: tuple[BlockedPoint, Floats, Flags]) -> tuple[Floats, Floats, npt.NDArray[np.int32]]:
    """Scores, weights and cells of the rows in the wanted intervals."""
    at, edges, wanted = message
    z = block_scores(block, at.w, at.b)
    mine = np.flatnonzero(wanted[_interval(z, edges)])
    return z[mine], block.data.weight[mine].astype(np.float64), block.data.cell[mine]
