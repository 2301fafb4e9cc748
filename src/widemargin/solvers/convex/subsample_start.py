"""A start on a sample of the rows.

Majorisation from nothing spends most of its time far from the solution, where a tenth of the rows says as much as all
of them. The sample is drawn by cell, and the weights of a cell's rows are scaled up to what the cell weighed before:
every population and every constraint keeps its total, so bounds and multipliers mean the same. The run on all rows then
begins close to its end, and only that run is certified.

Where weights are very unequal a few heavy rows decide every rate. Searches by 0/1 rates look at these alone first, in
the same way: of each cell those that hold nearly all of its weight, which is scaled up to the whole.
"""

from dataclasses import dataclass
from typing import Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from widemargin._typing import Cells, Floats, Ints
from widemargin.distributed.blocks import BlockedPoint, BlockedRows
from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import ConvexState, Shares

__all__ = [
    "SampleOptions", "SampledProblem", "draw", "heaviest", "is_uneven", "sampled", "spread_shares", "spread_state",
]  # fmt: skip


@dataclass(frozen=True)
class SampleOptions:
    """When a sample is drawn, and how large it is.

    Attributes
    ----------
    rows, numbers : int
        Rows, and numbers stored in them, up to which all rows at once are quick enough.
    share : float
        Of the rows that are drawn; a tenth says as much far from the solution.
    most_numbers : int
        Of a sample from rows in blocks: all that must be in one place.
    least : int
        Rows of each cell, so that no constraint rests on a handful.
    per_feature : int
        Rows for each feature: a sample of fewer may be separable where all rows are not, and its SVM leads away.
    worth : float
        Share of the rows from which a sample saves nothing.
    uneven : float
        Weights are very unequal where all rows count as much as fewer equal ones than this share of them. Weights of
        surveys, log-normal ones of spread 1 say, are not.
    heavy : float
        Share of the weight of each cell that its heavy rows hold. With less, moves fit the heavy rows too closely; of
        log-normal weights of spread 2 a third of the rows holds as much.
    """

    rows: int = 50_000
    numbers: int = 4_000_000
    share: float = 0.1
    most_numbers: int = 10_000_000
    least: int = 200
    per_feature: int = 50
    worth: float = 0.5
    uneven: float = 0.25
    heavy: float = 0.95


DEFAULTS = SampleOptions()


@runtime_checkable
class SampledProblem(Protocol):
    """The interface of a ramp problem that a sample can be drawn from."""

    @property
    def rows(self) -> RowBlocks | GramRows | BlockedRows: ...
    @property
    def weight(self) -> Floats: ...
    @property
    def cell(self) -> Cells: ...
    @property
    def coef(self) -> CellCoefficients: ...
    @property
    def cell_count(self) -> Ints:
        """Rows of each cell, where they are in blocks."""

    def on_rows(self, positions: Ints, weight: Floats) -> Self:
        """The same problem on the rows at these positions, with these weights."""

    def drawn(self, chance: Floats, seed: int) -> Self:
        """The problem in memory on rows of blocks drawn with a chance by cell, the weight of every cell as before."""


P = TypeVar("P")
S = TypeVar("S", bound=SampledProblem)


def sampled(problem: P) -> P | None:
    """The problem on a sample of its rows, always the same; None where there are too few for that to save time."""
    if not isinstance(problem, SampledProblem):
        return None
    rows, options = problem.rows, DEFAULTS
    if isinstance(rows, GramRows) or (rows.n_rows <= options.rows and rows.n_stored <= options.numbers):
        return None
    # With few rows a feature the sample could be separated, and would lead away.
    least = options.per_feature * rows.n_features / rows.n_rows
    share = max(options.share, least)
    if share > options.worth:
        return None
    if isinstance(rows, BlockedRows):
        # The sample has to fit into one process, but a sample too small for the number of features would lead away.
        share = max(min(share, options.most_numbers / rows.n_stored), least)
        return problem.drawn(_chance(problem.cell_count, share), 0)
    positions = draw(problem.cell, problem.coef.n_cells, share, np.random.default_rng(0))
    # Many small cells, of which each gives some rows, may have made the sample nearly as large as all rows.
    if positions.shape[0] > options.worth * rows.n_rows:
        return None
    return _standing_for_all(problem, positions)


def is_uneven(weight: Floats) -> bool:
    """Whether weights of rows, shape (n,), are very unequal."""
    return bool(weight.sum() ** 2 < DEFAULTS.uneven * weight.shape[0] * (weight @ weight))


def heaviest(problem: S) -> S:
    """The problem on the heaviest rows of each cell, which stand for all of them."""
    cell, weight = problem.cell, problem.weight
    order = np.lexsort((-weight, cell))
    whole = np.bincount(cell, weight, problem.coef.n_cells)
    # In this order the cells follow each other, and in each the heavier rows come first.
    heavier = np.cumsum(weight[order]) - weight[order] - (np.cumsum(whole) - whole)[cell[order]]
    return _standing_for_all(problem, np.sort(order[heavier < DEFAULTS.heavy * whole[cell[order]]]))


def _standing_for_all(problem: S, positions: Ints) -> S:
    """The problem on some rows, of every cell some."""
    cell, weight = problem.cell[positions], problem.weight[positions]
    k = problem.coef.n_cells
    # Each cell keeps its weight, so rates, bounds and multipliers keep their meaning.
    whole, drawn = np.bincount(problem.cell, problem.weight, k), np.bincount(cell, weight, k)
    return problem.on_rows(positions, weight * (whole[cell] / drawn[cell]))


def draw(cell: Cells, n_cells: int, share: float, rng: np.random.Generator) -> Ints:
    """Increasing positions of about `share` of the rows, and of about 200 at least of each cell that has them.

    Where there are so many cells that this would be most of the rows, the least number is smaller, but never zero.
    """
    count = np.bincount(cell, minlength=n_cells)
    drawn = rng.random(cell.shape[0]) < _chance(count, share)[cell]
    # A cell that the draw has missed gives its first row: written backwards, the first one is written last.
    first = np.zeros(n_cells, dtype=np.int64)
    first[cell[::-1]] = np.arange(cell.shape[0] - 1, -1, -1)
    missed = (count > 0) & (np.bincount(cell[drawn], minlength=n_cells) == 0)
    drawn[first[missed]] = True
    return np.flatnonzero(drawn)


def _chance(count: Ints, share: float) -> Floats:
    """Chance of a row of each cell to be drawn, from the rows of each."""
    # Where cells are many, so many rows of each would be most of all rows.
    least = min(DEFAULTS.least, max(1, int(count.sum()) // (4 * count.shape[0])))
    chance: Floats = np.maximum(share, least / np.maximum(count, 1))
    return chance


def spread_state(w: Floats, b: float, v: Floats, z: Floats | BlockedPoint) -> ConvexState:
    """A warm start of the convex solvers at scores z; where rows are in blocks, these spread the shares themselves."""
    if isinstance(z, BlockedPoint):
        return ConvexState(w, b, np.zeros(0, np.float32), np.zeros(0, np.float32), v)
    return ConvexState(w, b, *spread_shares(z), v)


def spread_shares(z: Floats) -> tuple[Shares, Shares]:
    """Shares of both sides at scores z: hinges clearly on one side have the slope of that side."""
    width = 0.1  # of the scores that are near enough to the kink of a hinge for a slope between 0 and 1
    up, um = ((0.5 + sign * z) / width for sign in (1.0, -1.0))
    for slope in (up, um):
        # On the kink itself the slope is a half.
        slope += 0.5
        np.clip(slope, 0.0, 1.0, out=slope)
    return up.astype(np.float32), um.astype(np.float32)
