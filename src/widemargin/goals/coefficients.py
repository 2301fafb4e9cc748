"""From rates on cells to the coefficients, bounds and scales of the canonical problem (spec 1, section 2)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin.goals.bound import BoundConstraint, BoundGoal, Dropped
from widemargin.goals.cells import CellSpace
from widemargin.goals.goal import Goal
from widemargin.goals.linear import Linear
from widemargin.goals.measure import RateTable
from widemargin.goals.sources import Source
from widemargin.linalg.cells import CellCoefficients

__all__ = ["assemble"]

Floats = npt.NDArray[np.float64]

Column = tuple[npt.NDArray[np.intp], Floats, Floats]
"""Cells that a constraint touches, and their coefficients alpha and beta."""

LEAST_SHARE = 0.05
"""Least share of its largest value that a ratio's denominator counts for in the scale."""


def assemble(
    goal: Goal,
    kept: tuple[BoundConstraint, ...],
    dropped: tuple[Dropped, ...],
    table: RateTable,
    space: CellSpace,
    sources: Sequence[Source],
    objective: Linear,
) -> BoundGoal:
    """Coefficients >= 0 with one zero in every pair, the constants in the bounds.

    `objective` is the goal's, or a form without rates where that one cannot be measured.
    """
    alpha0, beta0 = table.weighted(objective)
    common = np.minimum(alpha0, beta0)
    constant = objective.constant + float(common @ space.weight)
    columns: list[Column] = []
    bounds, scales = [], []
    for item in kept:
        alpha, beta = table.weighted(item.cleared.form)
        sign = 1.0 if item.cleared.sense == "<=" else -1.0
        alpha *= sign
        beta *= sign
        shared = np.minimum(alpha, beta)
        bounds.append(sign * item.cleared.bound - float(shared @ space.weight))
        alpha -= shared
        beta -= shared
        used = np.flatnonzero((alpha != 0) | (beta != 0))
        columns.append((used, alpha[used], beta[used]))
        scales.append(_scale(item, table, space, columns[-1]))
    coefficients = _by_cell(alpha0 - common, beta0 - common, columns, space.n_cells)
    return BoundGoal(
        goal, kept, dropped, space.names,
        tuple(part.cell + np.int32(space.start[name]) for name, part in space.parts.items()),
        tuple(source.weight for source in sources), space.weight, space.count,
        coefficients, np.array(bounds, dtype=np.float64), constant, np.array(scales, dtype=np.float64), table, space,
        has_objective=bool(objective.terms),
    )  # fmt: skip


def _scale(item: BoundConstraint, table: RateTable, space: CellSpace, column: Column) -> float:
    ratio = item.cleared.ratio
    if ratio is not None:
        perfect = np.concatenate([np.where(part.label > 0, part.weight, 0.0) for part in space.parts.values()])
        alpha, beta = table.weighted(ratio.denominator)
        largest = ratio.denominator.constant + float(np.maximum(alpha, beta) @ space.weight)
        at_best = ratio.denominator.constant + float(alpha @ perfect + beta @ (space.weight - perfect))
        return max(at_best, LEAST_SHARE * largest)
    if any(rate.definition.is_count for rate in item.cleared.form.rates):
        return float((column[1] + column[2]) @ space.weight[column[0]]) or 1.0
    return 1.0


def _by_cell(alpha0: Floats, beta0: Floats, columns: Sequence[Column], k: int) -> CellCoefficients:
    """Columns of coefficients as sparse rows by cell, with one pattern for both signs."""
    starts = np.cumsum([0, *(len(used) for used, _, _ in columns)])
    cells = np.concatenate([np.zeros(0, np.intp), *(used for used, _, _ in columns)])
    # the transpose of a matrix that holds 0, 1, 2, ... is the order of the entries by cell, found in linear time
    by_column = sp.csc_array((np.arange(len(cells)), cells, starts), shape=(k, len(columns)))
    by_cell = by_column.tocsr()
    del cells, by_column
    order = by_cell.data
    alpha, beta = (np.concatenate([np.zeros(0), *(column[sign] for column in columns)])[order] for sign in (1, 2))
    return CellCoefficients(
        alpha0, beta0, by_cell.indptr.astype(np.int64), by_cell.indices.astype(np.int64), alpha, beta
    )
