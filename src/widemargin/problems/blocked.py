"""The rate-constrained problem over rows that live in blocks: its sums are made where they are.

A block's data is a `RateConstrainedProblem` of its rows with the coefficients of the whole; this side knows the
coefficients, bounds and weights of the cells, but no row. Where a problem in memory hands scores about, this one hands
the model itself, a `BlockedPoint`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints
from widemargin.distributed.base import Block
from widemargin.distributed.blocked_rows import BlockedPoint, BlockedRows, block_scores
from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.rows import RowBlocks
from widemargin.problems.rate_constrained import ConvexSubproblem, RateConstrainedProblem

__all__ = ["BlockedProblem", "BlockedSubproblem"]

Variant = tuple[tuple[str, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class BlockedSubproblem(ConvexSubproblem):
    """A convex majorisation whose rows are in blocks; its own are none.

    Attributes
    ----------
    variant : tuple of (method, arguments)
        What leads from the problem of a block to its share of the one that is solved.
    at : BlockedPoint
        Where the majorisation is tight.
    """

    variant: Variant = ()
    at: BlockedPoint | None = None


@dataclass
class _Look:
    """Masses by cell at the last model: predicted positive by the ramp and by its sign; constant sides."""

    w: Floats = field(default_factory=lambda: np.zeros(0))
    b: float = np.nan
    masses: Floats = field(default_factory=lambda: np.zeros((4, 0)))


@dataclass(frozen=True)
class BlockedProblem:
    """The ramp problem over blocks; methods as in `RateConstrainedProblem`.

    Attributes
    ----------
    head : RateConstrainedProblem
        Coefficients, bounds, scales; without rows.
    rows : BlockedRows
    cell_count : ndarray of int64, shape (k,)
        Rows of each cell.
    variant : tuple of (method, arguments)
        What leads from the problem of a block to its share of this one.
    """

    head: RateConstrainedProblem
    rows: BlockedRows
    cell_count: Ints
    variant: Variant = ()
    _look: _Look = field(default_factory=_Look)

    @property
    def n_constraints(self) -> int:
        """Number of constraints m."""
        return self.head.n_constraints

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.rows.n_features

    @property
    def lam(self) -> float:
        """Weight of the regulariser."""
        return self.head.lam

    @property
    def fit_intercept(self) -> bool:
        """Whether there is a bias."""
        return self.head.fit_intercept

    @property
    def coef(self) -> CellCoefficients:
        """Coefficients by cell."""
        return self.head.coef

    @property
    def gamma(self) -> Floats:
        """Bounds, shape (m,)."""
        return self.head.gamma

    @property
    def cell_weight(self) -> Floats:
        """Whole weight of each cell, shape (k,)."""
        return self.head.cell_weight

    def scores(self, w: Floats, b: float) -> BlockedPoint:
        """The model itself; its scores stay where the rows are."""
        return BlockedPoint(w, b, self.rows.n_rows)

    def _masses(self, at: BlockedPoint) -> Floats:
        look = self._look
        if look.b != at.b or not np.array_equal(look.w, at.w):
            look.masses = np.asarray(self.rows.blocks.sum(_masses, at))
            look.w, look.b = at.w.copy(), at.b
            self.rows.n_passes += 1
        return look.masses

    def ramp_mass(self, at: BlockedPoint) -> Floats:
        """Weight that the randomised classifier calls positive in each cell, shape (k,)."""
        mass: Floats = self._masses(at)[0]
        return mass

    def hard_mass(self, at: BlockedPoint) -> Floats:
        """Weight with a positive score in each cell, shape (k,)."""
        mass: Floats = self._masses(at)[1]
        return mass

    def values(self, positive: Floats) -> tuple[float, Floats]:
        """Loss (no regulariser) and excess of each constraint when `positive[c]` of cell c is called positive."""
        return self.head.values(positive)

    def ramp_values(self, w: Floats, at: BlockedPoint) -> tuple[float, Floats]:
        """Ramp objective with regulariser and excess of each constraint at a model."""
        loss, excess = self.values(self.ramp_mass(at))
        return loss + 0.5 * self.lam * float(w @ w), excess

    def majorise(self, at: BlockedPoint) -> BlockedSubproblem:
        """The convex problem that bounds this one from above and is tight at a model."""
        _, _, plus, minus = self._masses(at)
        head = self.head
        constant, used = head.coef.totals(plus, minus, head.n_constraints)
        nothing = (head.weight, head.cell)
        return BlockedSubproblem(
            self.rows, *nothing, head.coef, head.gamma - used, head.lam, head.fit_intercept,  # type: ignore[arg-type]
            keep=np.zeros(0, np.uint8), constant=constant, variant=self.variant, at=at,
        )  # fmt: skip

    def tightened(self, by: Floats) -> "BlockedProblem":
        """The same problem with the bounds lowered by `by`, shape (m,)."""
        return replace(self, head=self.head.tightened(by))

    def with_lam(self, lam: float) -> "BlockedProblem":
        """The same problem with another weight of the regulariser."""
        return replace(self, head=self.head.with_lam(lam))

    def unconstrained(self) -> "BlockedProblem":
        """The same problem without constraints."""
        return replace(self, head=self.head.unconstrained(), variant=(*self.variant, ("unconstrained", ())))

    def restricted(self, kept: Sequence[int], objective: int | None = None) -> "BlockedProblem":
        """The same problem with some constraints only, see `RateConstrainedProblem.restricted`."""
        step = ("restricted", (tuple(kept), objective))
        return replace(self, head=self.head.restricted(kept, objective=objective), variant=(*self.variant, step))

    def constant_start(self, rho: float) -> float:
        """The best b at w = 0, see `RateConstrainedProblem.constant_start`."""
        return self.head.constant_start(rho)

    def multipliers_to_goal(self, multipliers: Floats) -> Floats:
        """Multipliers in the tied goal's units."""
        return self.head.multipliers_to_goal(multipliers)

    def drawn(self, chance: Floats, seed: int) -> RateConstrainedProblem:
        """The problem in memory on rows drawn with a chance by cell, the weight of every cell as before."""
        parts = self.rows.blocks.map(_drawn, (chance, seed))
        blocks, cells, weights = zip(*parts, strict=True)
        cell, weight = np.concatenate(cells), np.concatenate(weights)
        drawn = np.bincount(cell, weight, self.head.coef.n_cells)
        weight *= self.cell_weight[cell] / drawn[cell]
        self.rows.n_passes += 1
        return replace(self.head, rows=RowBlocks([(X, None) for X in blocks]), weight=weight, cell=cell)


def _drawn(block: Block, message: tuple[Floats, int]) -> tuple[Any, npt.NDArray[np.int32], Floats]:
    """Features, cells and weights of the rows of a block that are drawn."""
    (chance, seed), problem = message, block.data
    kept = np.flatnonzero(
        np.random.default_rng((seed, block.index)).random(problem.cell.shape[0]) < chance[problem.cell]
    )
    (rows,) = problem.rows.take(kept).blocks
    return rows.X[rows.row_of], problem.cell[kept], problem.weight[kept].astype(np.float64)


def _masses(block: Block, at: BlockedPoint) -> npt.NDArray[np.float64]:
    """What `_Look.masses` holds, of one block."""
    problem, z = block.data, block_scores(block, at.w, at.b)
    _, plus, minus = problem.sides(z)
    return np.stack([problem.ramp_mass(z), problem.hard_mass(z), plus, minus])
