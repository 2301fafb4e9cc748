"""The canonical rate-constrained problem and its convex majorisation (`docs/theory/dataset-constraints.md`).

    min_{w,b}  sum_i s_i [a0_i ramp(z_i) + b0_i ramp(-z_i)] + lam/2 |w|^2,      z = X w - b
    s.t.       sum_i s_i [a_ij ramp(z_i) + b_ij ramp(-z_i)] <= gamma_j          j = 1..m

Rows share coefficients by cells (`linalg.cells`); s_i is a row's weight. This is the only place where goals meet
losses.

The rows are in this process, or in blocks that may be in other processes (`BlockedRows`). Then the data of each block
are a problem of its rows with the coefficients of the whole; this process knows the coefficients, bounds and weights
of the cells but no row, and a model (`BlockedPoint`) is passed in place of the scores of rows.

A move by 0/1 rates takes few rows across the boundary, and these lie near it. So each block hands over its nearest rows
for a problem in memory (`nearest_rows`); the others are replaced by one mean row for each cell and side, of their total
weight. Every rate of the present model is then that of all rows, and a move that takes only near rows across is
measured exactly. A model that larger moves end at has to be measured on all rows: the mean of far rows may stay on its
side where some of them cross.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin._threads import sums_over_rows
from widemargin._typing import Cells, Flags, Floats, Ints, Matrix
from widemargin.distributed.blocks import Block, BlockedPoint, BlockedRows, Variant, block_scores
from widemargin.goals.binding.bind import TiedGoal
from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.equal_rows import merge_rows
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.ramp import hinge_sums, majoriser, positive_sums, ramp_sums

__all__ = ["ConvexSubproblem", "RateConstrainedProblem", "build_problem"]


@dataclass(frozen=True)
class _Weighted:
    """Base of both problems: weighted rows in cells, coefficients by cell, bounds, and the regulariser.

    `weight` and `cell` are empty where the rows are in blocks.
    """

    rows: RowBlocks | GramRows | BlockedRows
    weight: Floats
    cell: Cells
    coef: CellCoefficients
    gamma: Floats
    lam: float
    fit_intercept: bool

    @property
    def n_constraints(self) -> int:
        """Number of constraints m."""
        return int(self.gamma.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.rows.n_features

    def scores(self, w: Floats, b: float) -> Any:
        """`z = X w - b`, shape (n,); for rows in blocks the model, whose scores stay where the rows are."""
        if isinstance(self.rows, BlockedRows):
            return BlockedPoint(w, b, self.rows.n_rows)
        # The product is a copy of the one that the rows remember, so it may be changed in place.
        z = self.rows.dot(w)
        z -= b
        return z


@dataclass(frozen=True)
class ConvexSubproblem(_Weighted):
    """The convex majorisation at a point (the paper's Problem 3).

    Minimise `sum_i s_i [A0 k+ max(0, 1/2 + z_i) + B0 k- max(0, 1/2 - z_i)] + constant + lam/2 |w|^2` subject to
    `sum_i s_i [a_j k+ max(0, 1/2 + z_i) + b_j k- max(0, 1/2 - z_i)] <= gamma_j`, with the constant sides of the
    majoriser moved into `constant` and `gamma`.

    Attributes
    ----------
    keep : ndarray of uint8, shape (n,)
        Bit 1: the positive hinge of the row counts; bit 2: the negative one.
    constant : float
        Objective of the sides that are constant.
    variant : tuple of (method, arguments)
        Calls that make, of the problem of a block, its share of the problem that is solved.
    at : BlockedPoint or None
        Where the majorisation is tight, for rows in blocks.
    """

    keep: Flags
    constant: float
    variant: Variant = ()
    at: BlockedPoint | None = None

    def values(self, z: Floats) -> tuple[float, Floats]:
        """Loss (with `constant`, without the regulariser) and excess of each constraint, at scores z."""
        plus, minus = np.zeros((2, self.coef.n_cells))
        sums_over_rows(hinge_sums, (z, self.weight, self.cell, self.keep), plus, minus)
        loss, constraints = self.coef.totals(plus, minus, self.n_constraints)
        return loss + self.constant, constraints - self.gamma


@dataclass(frozen=True)
class RateConstrainedProblem(_Weighted):
    """The ramp problem (the paper's Problem 2), scaled for the solvers.

    The objective coefficients are divided by `objective_scale` (they then sum to one) and constraint j by
    `constraint_scale[j]` (it is then measured in rates).

    Attributes
    ----------
    cell_weight : ndarray of shape (k,)
        Whole weight of each cell.
    objective_scale : float
    constraint_scale : ndarray of shape (m,)
    owners : tuple of tuple of int
        The last constraints, as many as there are tuples here, keep those of these numbers from being undefined; the
        others are the goal's own.
    cell_count : ndarray of int64, shape (k,)
        Rows of each cell where they are in blocks; else empty.
    variant : tuple of (method, arguments)
        Calls that make, of the problem of a block, its share of this one.
    """

    cell_weight: Floats
    objective_scale: float
    constraint_scale: Floats
    owners: tuple[tuple[int, ...], ...] = ()
    cell_count: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    variant: Variant = ()

    @property
    def n_asked(self) -> int:
        """Number of the goal's own constraints."""
        return self.n_constraints - len(self.owners)

    def over(self, rows: BlockedRows, cell_count: Ints) -> "RateConstrainedProblem":
        """The same problem over rows in blocks, `cell_count[c]` of them in cell c."""
        nothing = np.zeros(0)
        return replace(self, rows=rows, weight=nothing, cell=nothing.astype(np.int32), cell_count=cell_count)

    def _masses(self, at: BlockedPoint) -> Floats:
        """Weight by cell, shape (4, k): positive by the ramp, positive by sign, and the two constant sides."""
        assert isinstance(self.rows, BlockedRows)
        return self.rows.sums_at(_block_masses, at)

    def ramp_mass(self, z: Floats | BlockedPoint) -> Floats:
        """Weight that the randomised classifier calls positive in each cell, shape (k,)."""
        return self._mass(z, 0, ramp_sums)

    def hard_mass(self, z: Floats | BlockedPoint) -> Floats:
        """Weight with `z > 0` in each cell, shape (k,)."""
        return self._mass(z, 1, positive_sums)

    def _mass(self, z: Floats | BlockedPoint, line: int, loop: Callable[..., None]) -> Floats:
        if isinstance(z, BlockedPoint):
            return np.asarray(self._masses(z)[line])
        positive = np.zeros(self.coef.n_cells)
        sums_over_rows(loop, (z, self.weight, self.cell), positive)
        return positive

    def values(self, positive: Floats) -> tuple[float, Floats]:
        """Loss (no regulariser) and excess of each constraint when `positive[c]` of cell c is called positive."""
        loss, constraints = self.coef.totals(positive, self.cell_weight - positive, self.n_constraints)
        return loss, constraints - self.gamma

    def ramp_values(self, w: Floats, z: Floats | BlockedPoint) -> tuple[float, Floats]:
        """Ramp objective with regulariser and excess of each constraint at (w, z)."""
        loss, excess = self.values(self.ramp_mass(z))
        return loss + 0.5 * self.lam * self.rows.square(w), excess

    def majorise(self, z: Floats | BlockedPoint) -> ConvexSubproblem:
        """The convex problem that bounds this one from above and is tight at scores z (Algorithm 1)."""
        if isinstance(z, BlockedPoint):
            # Which hinges a row keeps is known only in its block; here the weights of the constant sides suffice.
            at, keep, (plus, minus) = z, np.zeros(0, np.uint8), self._masses(z)[2:]
        else:
            at, (keep, plus, minus) = None, self.sides(z)
        # A constant side adds to each constraint whatever the model is, so the bound is lowered by it.
        constant, used = self.coef.totals(plus, minus, self.n_constraints)
        return replace(self.hinges(keep), gamma=self.gamma - used, constant=constant, at=at)

    def sides(self, z: Floats) -> tuple[Flags, Floats, Floats]:
        """Which hinges the majoriser at scores z keeps, and by cell the weight of the sides that are constant."""
        keep = np.empty(z.shape[0], dtype=np.uint8)
        plus, minus = np.zeros((2, self.coef.n_cells))
        sums_over_rows(majoriser, (z, self.weight, self.cell, keep), plus, minus)
        return keep, plus, minus

    def hinges(self, keep: Flags) -> ConvexSubproblem:
        """The kept hinges alone: no constants, and bounds of zero."""
        shared = (self.rows, self.weight, self.cell, self.coef, np.zeros(self.n_constraints), self.lam)
        return ConvexSubproblem(*shared, self.fit_intercept, keep=keep, constant=0.0, variant=self.variant)

    def tightened(self, by: Floats) -> "RateConstrainedProblem":
        """The same problem with the bounds lowered by `by`, shape (m,)."""
        return replace(self, gamma=self.gamma - by)

    def on_rows(self, positions: Ints, weight: Floats) -> "RateConstrainedProblem":
        """The same problem on the rows at these increasing positions, with these weights; bounds and totals stay."""
        if not isinstance(self.rows, RowBlocks):
            raise TypeError("only rows of features can be picked out; a Gram matrix belongs to all of its rows")
        return replace(self, rows=self.rows.take(positions), weight=weight, cell=self.cell[positions])

    def drawn(self, chance: Floats, seed: int) -> "RateConstrainedProblem":
        """The problem in memory on rows of blocks, drawn with a chance by cell, the weight of every cell as before."""
        assert isinstance(self.rows, BlockedRows)
        blocks, cells, weights = zip(*self.rows.blocks.map(_drawn, (chance, seed)), strict=True)
        cell, weight = np.concatenate(cells), np.concatenate(weights)
        weight *= self.cell_weight[cell] / np.bincount(cell, weight, self.coef.n_cells)[cell]
        self.rows.n_passes += 1
        return replace(self, rows=RowBlocks([(X, None) for X in blocks]), weight=weight, cell=cell, variant=())

    def with_lam(self, lam: float) -> "RateConstrainedProblem":
        """The same problem with another weight of the regulariser."""
        return replace(self, lam=float(lam))

    def retied(self, before: TiedGoal, tied: TiedGoal) -> "RateConstrainedProblem | None":
        """The same rows under another goal, tied to the same cells as the one before (`bind(..., like=)`).

        None where the two goals look at the cells in different ways, so that the rows have to be merged anew.
        """
        # Rows were merged by kinds of cells. If the new goal makes other kinds of them, rows that were one may now
        # differ.
        kind, coef, cell_weight = _kinds(tied.defined.coefficients, tied.cell_weight)
        other = _kinds(before.defined.coefficients, before.cell_weight)[0]
        alike = kind is other if kind is None or other is None else np.array_equal(kind, other)
        if not alike:
            return None
        return replace(self, cell_weight=cell_weight, **_scaled(coef, tied))

    def unconstrained(self) -> "RateConstrainedProblem":
        """The same problem without constraints."""
        return replace(
            self, coef=self.coef.without_constraints(), gamma=np.zeros(0), constraint_scale=np.zeros(0), owners=(),
            variant=(*self.variant, ("unconstrained", ())),
        )  # fmt: skip

    def restricted(self, kept: Sequence[int], objective: int | None = None) -> "RateConstrainedProblem":
        """The same problem with the constraints `kept` only (increasing numbers).

        With `objective=j` it minimises what constraint j bounds, scaled like any other objective.
        """
        chosen = np.asarray(kept, dtype=np.int64)
        coef, scale = self.coef.columns(chosen), self.objective_scale
        if objective is not None:
            alpha, beta = self.coef.of_column(objective)
            # Its coefficients are made to sum to one, as those of every objective, so that the penalties and tolerances
            # of a search mean the same.
            size = float(np.maximum(alpha, beta) @ self.cell_weight) or 1.0
            coef, scale = coef._replace(alpha0=alpha / size, beta0=beta / size), size
        return replace(
            self, coef=coef, gamma=self.gamma[chosen], constraint_scale=self.constraint_scale[chosen],
            objective_scale=scale, owners=(), variant=(*self.variant, ("restricted", (tuple(kept), objective))),
        )  # fmt: skip

    def constant_start(self, rho: float) -> float:
        """The best b at w = 0, by ramp objective plus `rho` times the violations (a scan of b at w = 0).

        At w = 0 every rate is linear in the one number q = ramp(-b), so the merit is convex and piecewise linear in q
        and its minimum lies at 0, at 1, or where a constraint changes sign. q = 1/2 is kept where it is no worse in
        violation: from there every hinge has a slope, and majorisation was measured to end lower.
        """
        if not self.fit_intercept:
            return 0.0
        loss, excess = self.values(np.zeros_like(self.cell_weight))
        loss_all, excess_all = self.values(self.cell_weight)
        slope = excess_all - excess
        with np.errstate(divide="ignore", invalid="ignore"):
            # A constraint changes sign where its excess, linear in q, is zero; one that never does gives infinity or
            # NaN, and neither lies between 0 and 1.
            turns = -excess / slope
        shares = np.unique(np.concatenate([[0.0, 0.5, 1.0], turns[(turns > 0.0) & (turns < 1.0)]]))
        violation = np.array([np.maximum(excess + q * slope, 0.0).sum() for q in shares])
        merit = loss + shares * (loss_all - loss) + rho * violation
        middle = int(np.searchsorted(shares, 0.5))
        best = int(np.argmin(merit))
        # 1e-12 is the rounding of two sums over all cells.
        chosen = middle if violation[middle] <= violation[best] + 1e-12 else best
        return 0.5 - float(shares[chosen])

    def multipliers_to_goal(self, multipliers: Floats) -> Floats:
        """Multipliers of the goal's own constraints in its units: objective per unit of its bounds."""
        asked = slice(self.n_asked)
        return multipliers[asked] * self.objective_scale / self.constraint_scale[asked]


def build_problem(
    tied: TiedGoal, matrices: Sequence[Matrix], lam: float, *, fit_intercept: bool = True, ordered: bool = True
) -> RateConstrainedProblem:
    """The problem of a tied goal on its rows.

    Its constraints are those of the goal, then those that keep the goal's ratios from being undefined. Equal rows of
    equal cell become one.

    Parameters
    ----------
    tied : TiedGoal
    matrices : sequence of matrices of shape (n_s, d)
        One for each source of `bound`, CSR or C-contiguous dense, float32 or float64. They are referred to, not copied.
    lam : float
        Weight of the regulariser beside an objective whose coefficients sum to one.
    fit_intercept : bool, default=True
    ordered : bool, default=True
        Take the rows of small matrices in an order that does not depend on the one in which they are given.

    Returns
    -------
    RateConstrainedProblem
    """
    kind, coef, cell_weight = _kinds(tied.defined.coefficients, tied.cell_weight)
    blocks, weights, cells = [], [], []
    for X, source in zip(matrices, tied.sources, strict=True):
        # The last digits of sums decide ties on small tables, and with them where the search by 0/1 rates ends. So the
        # same rows come to it in the same order and form: sparse ones as dense ones on about the tables on which it
        # goes along any direction (`MoveOptions.any_direction`, `small`).
        small = X.shape[0] <= 50_000
        if not isinstance(X, np.ndarray) and X.shape[1] <= 20 and small:
            X = np.asarray(X.toarray())
        seen = source.cell if kind is None else kind[source.cell]
        n_stored = X.size if isinstance(X, np.ndarray) else X.nnz  # rows in another order are copied for the passes
        row_of, s = merge_rows(X, seen, source.weight, ordered=ordered and small and n_stored <= 2_000_000)
        blocks.append((X, row_of))
        weights.append(s)
        cells.append(seen[row_of])
        del seen, row_of, s
    return RateConstrainedProblem(
        rows=RowBlocks(blocks),
        weight=_joined(weights),
        cell=_joined(cells),
        lam=float(lam),
        fit_intercept=fit_intercept,
        cell_weight=cell_weight,
        **_scaled(coef, tied),
    )


def _scaled(coef: CellCoefficients, tied: TiedGoal) -> dict[str, Any]:
    """Coefficients, bounds and scales of a problem, from the coefficients of its cells."""
    objective_scale = float(np.maximum(tied.coefficients.alpha0, tied.coefficients.beta0) @ tied.cell_weight)
    # Solvers stop at relative gaps and penalties of 1, 3, 10 ..., which mean the same for every goal only where the
    # objective is a mean and the constraints are rates.
    if objective_scale <= 0.0 or abs(objective_scale - 1.0) < 1e-12:  # nothing to scale, or rounding
        objective_scale = 1.0
    scale = np.concatenate([tied.scale, tied.defined.scale])
    scaled = coef._replace(
        alpha0=coef.alpha0 if objective_scale == 1.0 else coef.alpha0 / objective_scale,
        beta0=coef.beta0 if objective_scale == 1.0 else coef.beta0 / objective_scale,
        value=coef.value if (scale == 1.0).all() else coef.value / scale[coef.column],
    )
    return {
        "coef": scaled, "gamma": np.concatenate([tied.bound, tied.defined.bound]) / scale,
        "objective_scale": objective_scale, "constraint_scale": scale, "owners": tied.defined.owners,
    }  # fmt: skip


def _kinds(coef: CellCoefficients, weight: Floats) -> tuple[Cells | None, CellCoefficients, Floats]:
    """Merge the cells that no constraint touches and that have the same objective.

    Binding tells cells apart by population memberships that a row's label may make irrelevant.

    Returns
    -------
    kind : ndarray of int32, shape (k,), or None
        New number of each cell; -1 for those that nothing looks at. None where every cell keeps its number.
    coef : CellCoefficients
        Their coefficients; the entries are shared with the given ones.
    weight : ndarray
        Whole weight of each new cell.
    """
    # Fewer kinds of cells let more rows be equal, and equal rows become one; the rest of the solver then sees fewer
    # rows.
    lengths = np.diff(coef.indptr)
    touched = lengths > 0
    free = np.flatnonzero(~touched)
    looked_at = (coef.alpha0[free] != 0.0) | (coef.beta0[free] != 0.0)
    # Merging copies what belongs to all cells, so one cell in twenty at least must be free of constraints.
    if free.shape[0] <= 0.05 * coef.n_cells and looked_at.all():
        return None, coef, weight
    objectives, place = np.unique(coef.alpha0[free] - coef.beta0[free], return_inverse=True)  # one of the two is 0
    number = int(np.count_nonzero(touched))
    kind = np.cumsum(touched, dtype=np.int32)
    kind -= 1
    # The cells that are touched keep their order in front, so that the entries of their constraints need not be moved.
    kind[free] = np.where(objectives == 0.0, -1, np.arange(number, number + objectives.shape[0]))[place]
    indptr = np.zeros(number + objectives.shape[0] + 1, dtype=coef.indptr.dtype)
    np.cumsum(lengths[touched], out=indptr[1 : number + 1])
    indptr[number + 1 :] = indptr[number]
    merged = coef._replace(
        alpha0=np.append(coef.alpha0[touched], np.maximum(objectives, 0.0)),
        beta0=np.append(coef.beta0[touched], np.maximum(-objectives, 0.0)),
        indptr=indptr,
    )
    seen = kind >= 0
    return kind, merged, np.bincount(kind[seen], weight[seen], merged.n_cells).astype(np.float64)


def _joined(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """One array of several; the only one itself."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


# Functions that run where a block is. They stand at the top level, so that a look at all rows sends their names to the
# workers and not their code.


def _block_masses(block: Block, at: BlockedPoint) -> Floats:
    """The summands of one block in `RateConstrainedProblem._masses`."""
    problem, z = block.data, block_scores(block, at.w, at.b)
    return np.stack([problem.ramp_mass(z), problem.hard_mass(z), *problem.sides(z)[1:]])


def _drawn(block: Block, message: tuple[Floats, int]) -> tuple[Matrix, Cells, Floats]:
    """Features, cells and weights of the rows of a block that are drawn."""
    (chance, seed), problem = message, block.data
    numbers = np.random.default_rng((seed, block.index)).random(problem.cell.shape[0])
    drawn = np.flatnonzero(numbers < chance[problem.cell])
    (rows,) = problem.rows.take(drawn).blocks
    return rows.X[rows.row_of], problem.cell[drawn], problem.weight[drawn].astype(np.float64)


class _Handed(NamedTuple):
    """The contribution of a block: its nearest rows, and the weight and the weighted sum of the others.

    Attributes
    ----------
    X : matrix of shape (r, d)
    cell, weight : ndarray of shape (r,)
    far_weight : ndarray of shape (2 k,)
        By cell and side: number 2 c is the negative side of cell c.
    far_sum : ndarray of shape (2 k, d)
    """

    X: Matrix
    cell: Cells
    weight: Floats
    far_weight: Floats
    far_sum: Floats


def nearest_rows(problem: RateConstrainedProblem, w: Floats, b: float, most_numbers: int) -> RateConstrainedProblem:
    """The problem on the rows of blocks nearest to the boundary of a model, and on mean rows in place of the others.

    Parameters
    ----------
    problem : RateConstrainedProblem
        Over rows in blocks.
    w : ndarray of shape (d,)
    most_numbers : int
        About how many numbers are gathered; all rows where they hold no more.
    """
    rows = problem.rows
    assert isinstance(rows, BlockedRows)
    # The same share of the rows of every block, because no block knows how near the rows of the others are, and asking
    # would be a pass.
    share = min(most_numbers / max(rows.n_stored, 1), 1.0)
    handed: list[_Handed] = rows.blocks.map(_nearest, (BlockedPoint(w, b, rows.n_rows), share))
    rows.n_passes += 1
    weight = np.sum([part.far_weight for part in handed], axis=0)
    far = np.flatnonzero(weight > 0.0)
    # A mean row lies on the side of the rows that it stands for, as the scores are linear, and it weighs what they
    # weigh: every rate of the model is what it was.
    means = np.sum([part.far_sum for part in handed], axis=0)[far] / weight[far, None]
    return replace(
        problem,
        rows=RowBlocks([(X, None) for X in (*(part.X for part in handed), means) if X.shape[0]]),
        weight=np.concatenate([*(part.weight for part in handed), weight[far]]),
        cell=np.concatenate([*(part.cell for part in handed), far // 2]).astype(np.int32),
        variant=(),
    )


def _nearest(block: Block, message: tuple[BlockedPoint, float]) -> _Handed:
    """The contribution of one block."""
    (at, share), problem = message, block.data
    z, (part,) = block_scores(block, at.w, at.b), problem.rows.blocks
    n, side = z.shape[0], 2 * problem.cell + (z > 0.0)
    count = int(np.ceil(share * n))
    near = np.zeros(n, bool)
    near[np.argpartition(np.abs(z), count - 1)[:count] if count else []] = True
    far, kept, k = np.flatnonzero(~near), np.flatnonzero(near), problem.coef.n_cells
    weight = problem.weight.astype(np.float64)
    of_side = sp.csr_matrix((weight[far], (side[far], part.row_of[far])), shape=(2 * k, part.X.shape[0]))
    total = of_side @ part.X
    return _Handed(
        part.X[part.row_of[kept]], problem.cell[kept], weight[kept],
        np.bincount(side[far], weight[far], 2 * k).astype(np.float64),
        np.asarray(total.toarray() if sp.issparse(total) else total, np.float64),
    )  # fmt: skip
