"""From rates on cells to the coefficients, bounds and scales of the canonical problem (spec 1, section 2)."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.goals.binding.cells import CellSpace
from widemargin.goals.binding.sources import Repeats, Source
from widemargin.goals.binding.tied_goal import Dropped, TiedConstraint, TiedGoal
from widemargin.goals.language.constraints import ClearedConstraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.linear import Linear
from widemargin.goals.measuring.rates_of_predictions import RateTable
from widemargin.linalg.cells import CellCoefficients

__all__ = ["assemble"]


LEAST_SHARE = 0.05
"""Least share of its largest value that a ratio's denominator counts for in the scale."""


def assemble(
    goal: Goal,
    kept: tuple[TiedConstraint, ...],
    dropped: tuple[Dropped, ...],
    table: RateTable,
    space: CellSpace,
    sources: Sequence[Source],
    objective: Linear,
) -> TiedGoal:
    """Coefficients >= 0 with one zero in every pair, the constants in the bounds.

    `objective` is the goal's, or a form without rates where that one cannot be measured.
    """
    alpha0, beta0 = table.weighted(objective)
    common = np.minimum(alpha0, beta0)
    constant = objective.constant + float(common @ space.weight)
    alpha0 -= common
    beta0 -= common
    del common
    forms = _Forms.of([item.cleared for item in kept], table)
    lengths, shared, spread = forms.first_pass(space)
    bound = np.array([sign * item.cleared.bound for sign, item in zip(forms.sign, kept, strict=True)]) - shared
    coefficients = CellCoefficients(alpha0, beta0, *forms.second_pass(lengths))
    scale = [_scale(item, table, space, float(total)) for item, total in zip(kept, spread, strict=True)]
    return TiedGoal(
        goal, kept, dropped, space.names,
        tuple(_numbered(part.cell, space.start[name]) for name, part in space.parts.items()),
        tuple(source.weight for source in sources), space.weight, space.count,
        coefficients, bound, constant, np.array(scale, dtype=np.float64), table, space,
        has_objective=bool(objective.terms), repeats=_repeats(sources),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Forms:
    """The left-hand sides of m constraints `<=`, looked at a block of cells at a time and twice.

    The entries by cell then go where they belong at once: sorting them would take several times their own memory.

    Attributes
    ----------
    table : RateTable
    sign : ndarray of shape (m,)
        -1 for a constraint `>=`.
    factors : sparse array of shape (m, r)
    """

    table: RateTable
    sign: Floats
    factors: Any

    @classmethod
    def of(cls, cleared: Sequence[ClearedConstraint], table: RateTable) -> "_Forms":
        sign = np.array([1.0 if item.sense == "<=" else -1.0 for item in cleared])
        return cls(table, sign, table.factors([item.form for item in cleared]))

    def __iter__(self) -> Iterator[tuple[slice, Floats, Floats]]:
        """Cells, their signed coefficients and what both predictions have in common, shapes (m, width)."""
        for block in self.table.blocks():
            alpha, beta = (self.sign[:, None] * (self.factors @ part) for part in (block.alpha, block.beta))
            yield block.place, alpha - beta, np.minimum(alpha, beta)

    def first_pass(self, space: CellSpace) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
        """Entries of each cell, shape (k,); weight that each form has whatever is predicted, and its spread, (m,)."""
        lengths = np.zeros(space.n_cells, np.intp)
        shared, spread = np.zeros((2, len(self.sign)))
        for place, signed, common in self:
            lengths[place] = np.count_nonzero(signed, axis=0)
            shared += common @ space.weight[place]
            spread += np.abs(signed) @ space.weight[place]
        return lengths, shared, spread

    def second_pass(self, lengths: npt.NDArray[np.intp]) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Floats]:
        """The CSR arrays: starts of the cells, constraint numbers, signed coefficients."""
        number = int(lengths.sum())
        index: type[np.signedinteger[Any]] = np.int32 if max(number, len(self.sign)) < 2**31 else np.int64
        starts = np.zeros(len(lengths) + 1, index)
        np.cumsum(lengths, out=starts[1:])
        column, value = np.empty(number, index), np.empty(number)
        for place, signed, _ in self:
            mine = slice(starts[place.start], starts[place.stop])
            by_cell = signed.T
            owner, column[mine] = np.nonzero(by_cell)
            value[mine] = by_cell[owner, column[mine]]
        return starts, column, value


def _repeats(sources: Sequence[Source]) -> tuple[Repeats | None, ...] | None:
    """Of each source; None where every entry is a row, as nearly always."""
    found = tuple(source.repeats for source in sources)
    return None if all(repeats is None for repeats in found) else found


def _numbered(cell: npt.NDArray[np.int32], start: int) -> npt.NDArray[np.int32]:
    """Cells numbered on through all sources."""
    return cell + np.int32(start) if start else cell


def _scale(item: TiedConstraint, table: RateTable, space: CellSpace, spread: float) -> float:
    ratio = item.cleared.ratio
    if ratio is not None:
        perfect = np.concatenate([np.where(part.label > 0, part.weight, 0.0) for part in space.parts.values()])
        alpha, beta = table.weighted(ratio.denominator)
        largest = ratio.denominator.constant + float(np.maximum(alpha, beta) @ space.weight)
        at_best = ratio.denominator.constant + float(alpha @ perfect + beta @ (space.weight - perfect))
        return max(at_best, LEAST_SHARE * largest)
    if any(rate.definition.is_count for rate in item.cleared.form.rates):
        return spread or 1.0
    return 1.0
