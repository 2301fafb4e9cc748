"""Rates of predictions, from the only statistic that is needed: the weight predicted positive in each cell.

The same code serves 0/1 predictions and the probabilities of the ramp, one classifier or a thousand bootstrap
replicates.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin.goals.cells import CellSpace, SourceCells
from widemargin.goals.constraints import ClearedConstraint
from widemargin.goals.linear import Linear, Rate, Ratio
from widemargin.goals.metrics import When

__all__ = ["Measured", "RateTable", "Standing", "constraint_standing", "form_value"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

TOLERANCE = 1e-9
"""Rounding allowed to a constraint that holds with equality."""

TINY = 1e-12
"""Share of its largest value below which a denominator is zero."""


@dataclasses.dataclass(frozen=True, eq=False)
class RateTable:
    """Rates as rows over cells: `value = (alpha P + beta (W - P)) / over W` (spec 1, section 1).

    Attributes
    ----------
    rates : tuple of Rate
        The r rates.
    alpha, beta, over : sparse array of shape (r, k), entries 0 and 1
        Cells whose positive prediction counts, whose negative prediction counts, and whose weight is the denominator.
        For a count, `over` holds the cells of the population.
    is_count : ndarray of bool, shape (r,)
        Whether the denominator is 1.
    population_rows : ndarray of int64, shape (r,)
        Rows of the population.
    rows : ndarray of int64, shape (r,)
        Rows of weight > 0 that the rate is measured on: those of the denominator, for a count those of the population.
    all_rows : ndarray of int64, shape (r,)
        The same with the rows of weight zero.
    total : ndarray of shape (r,)
        Their weight.
    cap : ndarray of shape (r,)
        Largest value of the rate on these data.
    """

    rates: tuple[Rate, ...]
    alpha: Any
    beta: Any
    over: Any
    is_count: Flags
    population_rows: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    all_rows: npt.NDArray[np.int64]
    total: Floats
    cap: Floats

    @classmethod
    def build(cls, rates: Sequence[Rate], space: CellSpace) -> "RateTable":
        """Look up the cells of each rate."""
        found: list[list[npt.NDArray[np.intp]]] = [[], [], []]
        population_rows = np.zeros(len(rates), np.int64)
        for j, rate in enumerate(rates):
            part = space.parts[rate.population.source]
            inside, *cells = _cells(rate, part)
            population_rows[j] = part.count[inside].sum()
            for store, mask in zip(found, cells, strict=True):
                store.append(np.flatnonzero(mask) + space.start[rate.population.source])
        alpha, beta, over = (_indicator(rows, space.n_cells) for rows in found)
        is_count = np.array([rate.definition.is_count for rate in rates], dtype=bool)
        total = over @ space.weight
        reach = alpha.maximum(beta) @ space.weight
        cap = np.where(is_count, reach, np.divide(reach, total, out=np.zeros(len(rates)), where=total > 0))
        rows, all_rows = over @ space.weighty, over @ space.count
        return cls(tuple(rates), alpha, beta, over, is_count, population_rows, rows, all_rows, total, cap)

    def select(self, keep: Sequence[int]) -> "RateTable":
        """The table of some of its rates."""
        rows = list(keep)
        if rows == list(range(len(self.rates))):
            return self
        return RateTable(
            tuple(self.rates[j] for j in rows), self.alpha[rows], self.beta[rows], self.over[rows], self.is_count[rows],
            self.population_rows[rows], self.rows[rows], self.all_rows[rows], self.total[rows], self.cap[rows],
        )  # fmt: skip

    @functools.cached_property
    def place(self) -> dict[Rate, int]:
        """Row of each rate."""
        return {rate: j for j, rate in enumerate(self.rates)}

    def values(self, positive: Floats, weight: Floats) -> Floats:
        """Values of all rates.

        Parameters
        ----------
        positive, weight : ndarray of shape (k,) or (k, B)
            Weight predicted positive, and whole weight, of each cell (in each of B replicates).

        Returns
        -------
        ndarray of shape (r,) or (r, B)
            NaN where the denominator is zero.
        """
        above: Floats = self.alpha @ positive + self.beta @ (weight - positive)
        below = np.array(self.over @ weight, dtype=np.float64)
        below[self.is_count] = 1.0
        return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)

    def weighted(self, form: Linear) -> tuple[Floats, Floats]:
        """Coefficients of a form without ratios on a unit of weight predicted + and -, shapes (k,)."""
        pair = np.zeros((2, self.alpha.shape[1]))
        for coefficient, atom in form.terms:
            if not isinstance(atom, Rate):
                raise TypeError(f"{atom} is a ratio; clear it first.")
            row = self.place[atom]
            factor = coefficient / (1.0 if self.is_count[row] else self.total[row])
            for out, matrix in zip(pair, (self.alpha, self.beta), strict=True):
                out[matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]] += factor
        return pair[0], pair[1]


def _cells(rate: Rate, part: SourceCells) -> tuple[Flags, Flags, Flags, Flags]:
    """Cells of the population; of those, the ones whose + counts, whose - counts, and that are the denominator.

    Rows without a label are left out of everything that needs one, also of the denominator.
    """
    inside = part.member(rate.population.rows)
    metric = rate.definition
    usable = inside & (part.label != 0) if metric.needs_label else inside
    said = None if rate.baseline is None else part.baselines[rate.baseline]

    def match(conditions: Sequence[When]) -> Flags:
        total = np.zeros_like(usable)
        for when in conditions:
            one = usable.copy()
            if when.label is not None:
                one &= part.label == when.label
            if when.baseline is not None and said is not None:
                one &= said == when.baseline
            total |= one
        return total

    return inside, match(metric.alpha), match(metric.beta), match([metric.over or When()])


def _indicator(rows: Sequence[npt.NDArray[np.intp]], n_columns: int) -> Any:
    """Sparse 0/1 matrix with ones in the given columns of each row."""
    indptr = np.cumsum([0, *(len(columns) for columns in rows)])
    small = max(int(indptr[-1]), n_columns) < 2**31
    columns = np.concatenate([np.zeros(0, np.intp), *rows]).astype(np.int32 if small else np.int64)
    return sp.csr_array((np.ones(len(columns)), columns, indptr.astype(columns.dtype)), shape=(len(rows), n_columns))


def form_value(form: Linear, table: RateTable, values: Floats) -> Floats:
    """Value of a linear form, ratios included, from the values of its rates.

    Parameters
    ----------
    values : ndarray of shape (r,) or (r, B)
        As `RateTable.values` gives them.

    Returns
    -------
    ndarray of shape () or (B,)
        NaN where a denominator is zero.
    """
    place = table.place
    total = np.full(values.shape[1:], form.constant)
    for coefficient, atom in form.terms:
        part = values[place[atom]] if isinstance(atom, Rate) else ratio_value(atom, table, values)[0]
        total = total + coefficient * part
    return np.asarray(total)


def ratio_value(ratio: Ratio, table: RateTable, values: Floats) -> tuple[Floats, Floats]:
    """Value of a ratio and its denominator; the value is NaN where the denominator is zero."""
    above = form_value(ratio.numerator, table, values)
    below = form_value(ratio.denominator, table, values)
    place = table.place
    largest = abs(ratio.denominator.constant) + sum(
        abs(coefficient) * table.cap[place[atom]]
        for coefficient, atom in ratio.denominator.terms
        if isinstance(atom, Rate)
    )
    defined = below > TINY * largest
    return np.divide(above, below, out=np.full_like(above, np.nan), where=defined), below


@dataclasses.dataclass(frozen=True, eq=False)
class Standing:
    """Where a constraint stands, in the user's units (scalars, or arrays of B replicates).

    For a constraint with a ratio, `value` is the ratio, `bound` the number it is compared with, `denominator` its
    denominator; for any other, `value` is the left-hand side, `bound` the value of the right-hand side, and
    `denominator` is NaN.
    """

    value: Floats
    bound: Floats
    slack: Floats
    denominator: Floats


def constraint_standing(
    lhs: Linear, rhs: Linear, cleared: ClearedConstraint, table: RateTable, values: Floats
) -> Standing:
    """Value, bound and slack (>= 0: met; NaN: undefined) of one constraint."""
    if cleared.ratio is not None and cleared.ratio_bound is not None:
        value, denominator = ratio_value(cleared.ratio, table, values)
        bound = np.full_like(value, cleared.ratio_bound)
    else:
        value, bound = form_value(lhs, table, values), form_value(rhs, table, values)
        denominator = np.full_like(value, np.nan)
    slack = value - bound if cleared.sense == ">=" else bound - value
    return Standing(value, bound, np.asarray(slack), denominator)


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """A goal measured on predictions, in the user's units.

    Attributes
    ----------
    objective : float
        NaN where it could not be measured.
    value, bound : ndarray of shape (m,)
        Left-hand side and right-hand side of each constraint; for a ratio, the ratio and its bound.
    slack : ndarray of shape (m,)
        How far on the right side of its bound a constraint is; negative: violated; NaN: undefined.
    denominator : ndarray of shape (m,)
        Of the ratios; NaN for other constraints.
    """

    objective: float
    value: Floats
    bound: Floats
    slack: Floats
    denominator: Floats

    @property
    def lhs(self) -> Floats:
        """The same as `value`."""
        return self.value

    @property
    def rhs(self) -> Floats:
        """The same as `bound`."""
        return self.bound

    @property
    def undefined(self) -> Flags:
        """Constraints whose ratio is 0/0 or has another zero denominator."""
        return np.isnan(self.slack)

    @property
    def met(self) -> Flags:
        """Constraints that hold, up to rounding; an undefined one never does."""
        allowed = -TOLERANCE * np.maximum(1.0, np.abs(self.bound))
        return np.greater_equal(self.slack, allowed, out=np.zeros(len(self.slack), bool), where=~self.undefined)

    @property
    def all_met(self) -> bool:
        """Whether every constraint holds."""
        return bool(self.met.all())
