"""Rates of predictions, from the only statistic that is needed: the weight predicted positive in each cell.

The same code serves 0/1 predictions and the probabilities of the ramp, one classifier or a thousand bootstrap
replicates.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Bools, Floats, Ints, Signs
from widemargin.goals.binding.cells import CellSpace, Rows
from widemargin.goals.binding.sources import SAID
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.linear import Linear, Rate, When

TOLERANCE = 1e-9
"""Rounding allowed to a constraint that holds with equality."""


@dataclasses.dataclass(frozen=True)
class BlockSize:
    """How many cells are looked at together.

    Attributes
    ----------
    entries : int
        Rates times cells of a block. The three matrices of a block are made and multiplied while they are in the
        cache; a whole table that is no larger is kept and not made again.
    least_cells : int
        Cells of a block however many rates there are, so that the loop over blocks costs little beside its products.
    """

    entries: int = 1 << 18
    least_cells: int = 256


BLOCKS = BlockSize()


class CellBlock(NamedTuple):
    """Which cells of a run of them count in which way for r rates.

    Attributes
    ----------
    place : slice
        The cells, in the numbering of the whole.
    inside, alpha, beta, over : ndarray of bool, shape (r, width)
        Cells of the population; of those, the ones whose positive prediction counts, whose negative prediction counts,
        and whose weight is the denominator (for a count: all with a label, where one is needed).
    """

    place: slice
    inside: Bools
    alpha: Bools
    beta: Bools
    over: Bools


@dataclasses.dataclass(frozen=True, eq=False)
class RateTable:
    """Rates as rows over cells: `value = (alpha P + beta (W - P)) / over W`.

    The 0/1 matrices alpha, beta and over are made from the memberships a block of cells at a time, because with every
    row a cell of its own they would take as much memory as rows times rates.

    Attributes
    ----------
    rates : tuple of Rate
        The r rates.
    space : CellSpace
        The k cells.
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
    space: CellSpace
    is_count: Bools
    population_rows: Ints
    rows: Ints
    all_rows: Ints
    total: Floats
    cap: Floats

    @classmethod
    def build(cls, rates: Sequence[Rate], space: CellSpace) -> "RateTable":
        """Count the rows and the weight of each rate."""
        is_count = np.array([rate.definition.is_count for rate in rates], dtype=bool)
        population_rows, rows, all_rows = np.zeros((3, len(rates)), np.int64)
        total, reach = np.zeros((2, len(rates)))
        table = cls(tuple(rates), space, is_count, population_rows, rows, all_rows, total, reach)
        for block in table.blocks():
            # As numbers, because NumPy is slow to multiply truth values with integers.
            inside, over, at = block.inside.astype(np.float64), block.over.astype(np.float64), block.place
            population_rows += (inside @ space.count[at]).astype(np.int64)
            rows += (over @ space.weighty[at]).astype(np.int64)
            all_rows += (over @ space.count[at]).astype(np.int64)
            total += over @ space.weight[at]
            reach += (block.alpha | block.beta) @ space.weight[at]
        reach[~is_count] = np.divide(reach, total, out=np.zeros(len(rates)), where=total > 0)[~is_count]
        return table

    def select(self, keep: Sequence[int]) -> "RateTable":
        """The table of some of its rates."""
        rows = list(keep)
        if rows == list(range(len(self.rates))):
            return self
        return RateTable(
            tuple(self.rates[j] for j in rows), self.space, self.is_count[rows], self.population_rows[rows],
            self.rows[rows], self.all_rows[rows], self.total[rows], self.cap[rows],
        )  # fmt: skip

    @functools.cached_property
    def place(self) -> dict[Rate, int]:
        """Row of each rate."""
        return dict(zip(self.rates, range(len(self.rates)), strict=True))

    def blocks(self) -> Iterable[CellBlock]:
        """The cells a block at a time; where one block holds those of every source, they are kept."""
        return self._all_at_once if len(self.rates) * self.space.n_cells <= BLOCKS.entries else self._one_by_one()

    @functools.cached_property
    def _all_at_once(self) -> tuple[CellBlock, ...]:
        return tuple(self._one_by_one())

    def _one_by_one(self) -> Iterator[CellBlock]:
        width = max(BLOCKS.least_cells, BLOCKS.entries // max(1, len(self.rates)))
        # A block never crosses two sources: the memberships of a source say nothing of the rows of another.
        for key, part in self.space.parts.items():
            here = [(j, rate) for j, rate in enumerate(self.rates) if self.space.key_of(rate) == key]
            for low in range(0, part.n_cells if here else 0, width):
                which = slice(low, min(low + width, part.n_cells))
                masks = np.zeros((4, len(self.rates), which.stop - low), bool)
                label, answers = part.label[which], {name: signs[which] for name, signs in part.baselines.items()}
                # Many rates share a population, and many a metric: each is looked at once.
                members: dict[Rows, Bools] = {}
                conditions: dict[tuple[object, ...], tuple[Bools, ...]] = {}
                for j, rate in here:
                    rows = rate.population.rows
                    kind = rate.metric, rate.baseline, rate.labelled, rate.of, rate.actual
                    if rows not in members:
                        members[rows] = part.member(rows, which)
                    if kind not in conditions:
                        conditions[kind] = rows_that_count(rate, label, answers, self.space.turned(rate))
                    masks[0, j] = members[rows]
                    for mask, condition in zip(masks[1:], conditions[kind], strict=True):
                        np.logical_and(members[rows], condition, out=mask[j])
                start = self.space.start[key]
                yield CellBlock(slice(start + low, start + which.stop), *masks)

    def values(self, positive: Floats) -> Floats:
        """Values of all rates.

        Parameters
        ----------
        positive : ndarray of shape (k,)
            Weight predicted positive in each cell.

        Returns
        -------
        ndarray of shape (r,)
            NaN where the denominator is zero.
        """
        above = np.zeros(len(self.rates))
        for block in self.blocks():
            # A rate counts the weight predicted positive in some cells and the weight predicted negative in others.
            chosen = positive[block.place]
            above += block.alpha @ chosen + block.beta @ (self.space.weight[block.place] - chosen)
        return rate_values(above, self.total, self.is_count)

    def weighted(self, form: Linear) -> tuple[Floats, Floats]:
        """Coefficients of a form without ratios on a unit of weight predicted + and -, shapes (k,)."""
        factors = self.factors([form])
        pair = np.zeros((2, self.space.n_cells))
        for block in self.blocks():
            pair[0, block.place], pair[1, block.place] = factors @ block.alpha, factors @ block.beta
        return pair[0], pair[1]

    def factors(self, forms: Sequence[Linear]) -> sp.csr_array:
        """What a unit of weight that counts for each rate adds to forms without ratios: sparse, shape (f, r)."""
        rows, columns, values = [], [], []
        for i, form in enumerate(forms):
            for coefficient, atom in form.terms:
                if not isinstance(atom, Rate):
                    raise TypeError(f"{atom} is a ratio; clear it first.")
                j = self.place[atom]
                rows.append(i)
                columns.append(j)
                values.append(coefficient / (1.0 if self.is_count[j] else self.total[j]))
        return sp.csr_array((values, (rows, columns)), shape=(len(forms), len(self.rates)), dtype=np.float64)


def rate_values(above: Floats, total: Floats, is_count: Bools) -> Floats:
    """Numerators over denominators; NaN where a denominator is zero.

    Parameters
    ----------
    above, total : ndarray of shape (r,) or (r, B)
        Numerators, and weights of what the rates are measured on (in each of B replicates).
    is_count : ndarray of bool, shape (r,)
        Where the denominator is 1.
    """
    below = total.copy()
    below[is_count] = 1.0
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def rows_that_count(
    rate: Rate, label: Signs, baselines: Mapping[str, Signs], turned: tuple[int, int]
) -> tuple[Bools, Bools, Bools]:
    """Rows whose positive prediction counts, those whose negative one counts, and those that the rate is measured on.

    Rows without a label are left out of everything that needs one, also of the denominator. `turned` as `turns` tells.
    """
    metric, (actual, of) = rate.definition, turned
    answers = None if rate.baseline is None else baselines[rate.baseline]
    usable = label != 0 if rate.needs_label else np.ones(label.shape, bool)
    alpha, beta, over = np.zeros((3, len(usable)), bool)
    for mask, whens in ((alpha, metric.alpha), (beta, metric.beta), (over, (metric.over or When(),))):
        for when in whens:
            one = usable.copy()
            if when.label is not None:
                one &= actual * label == when.label
            if when.baseline is not None and answers is not None:
                one &= answers == when.baseline
            mask |= one
    alpha, beta = (alpha, beta) if of > 0 else (beta, alpha)
    if (said := baselines.get(SAID)) is not None:
        # Here "predicted positive" means decided, and a row that is not decided adds nothing.
        alpha, beta = np.where(said > 0, alpha, beta), np.zeros_like(beta)
    return alpha, beta, over


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
        if isinstance(atom, Rate):
            part = values[place[atom]]
        else:
            part, _ = ratio_value(atom.numerator, atom.denominator, table, values)
        total = total + coefficient * part
    return np.asarray(total)


def ratio_value(numerator: Linear, denominator: Linear, table: RateTable, values: Floats) -> tuple[Floats, Floats]:
    """Value of a quotient and its denominator; the value is NaN where the denominator is zero.

    It need not be a `Ratio`, whose sides are of the same labelled rows.
    """
    above = form_value(numerator, table, values)
    below, defined = denominator_value(denominator, table, values)
    return np.divide(above, below, out=np.full_like(above, np.nan), where=defined), below


def denominator_value(form: Linear, table: RateTable, values: Floats) -> tuple[Floats, Bools]:
    """Value of a denominator, and whether it is more than the rounding of one that is zero."""
    largest = abs(form.constant)
    for coefficient, atom in form.terms:
        if isinstance(atom, Rate):
            largest += abs(coefficient) * table.cap[table.place[atom]]
    # Sums that cancel leave rounding in the place of zero, so "zero" is relative to the largest value of the form.
    below = form_value(form, table, values)
    return below, below > 1e-12 * largest


class Standing(NamedTuple):
    """Where a constraint stands, in the user's units (scalars, or arrays of B replicates).

    For a constraint with a ratio, `value` is the ratio, `bound` the number it is compared with, `numerator` and
    `denominator` are its two sides; for any other, `value` is the left-hand side, `bound` the value of the right-hand
    side, and both are NaN. A `slack` >= 0 is met, NaN is undefined.
    """

    value: Floats
    bound: Floats
    slack: Floats
    numerator: Floats
    denominator: Floats


def constraint_standing(constraint: Constraint, table: RateTable, values: Floats) -> Standing:
    """Value, bound and slack of one constraint, from the values of the rates."""
    cleared = constraint.cleared
    if cleared.ratio is not None and cleared.ratio_bound is not None:
        value, denominator = ratio_value(cleared.ratio.numerator, cleared.ratio.denominator, table, values)
        numerator = form_value(cleared.ratio.numerator, table, values)
        bound = np.full_like(value, cleared.ratio_bound)
    else:
        value, bound = form_value(constraint.lhs, table, values), form_value(constraint.rhs, table, values)
        numerator = denominator = np.full_like(value, np.nan)
    slack = value - bound if cleared.sense == ">=" else bound - value
    if cleared.denominator is not None:
        slack = np.where(denominator_value(cleared.denominator, table, values)[1], slack, np.nan)
    return Standing(value, bound, slack, numerator, denominator)


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """A goal measured on predictions, in the user's units.

    Attributes
    ----------
    positive_mass : ndarray of shape (k,)
        Weight predicted positive in each cell: what the rest follows from.
    objective : float
        NaN where it could not be measured.
    value, bound : ndarray of shape (m,)
        Left-hand side and right-hand side of each constraint; for a ratio, the ratio and its bound.
    slack : ndarray of shape (m,)
        How far on the right side of its bound a constraint is; negative: violated; NaN: undefined.
    numerator, denominator : ndarray of shape (m,)
        Of the ratios; NaN for other constraints.
    """

    positive_mass: Floats
    objective: float
    value: Floats
    bound: Floats
    slack: Floats
    numerator: Floats
    denominator: Floats

    @functools.cached_property
    def undefined(self) -> Bools:
        """Constraints whose denominator is zero (see `ClearedConstraint`)."""
        return np.isnan(self.slack)

    @functools.cached_property
    def met(self) -> Bools:
        """Constraints that hold, up to rounding; an undefined one never does."""
        allowed = -TOLERANCE * np.maximum(1.0, np.abs(self.bound))
        return np.greater_equal(self.slack, allowed, out=np.zeros(len(self.slack), bool), where=~self.undefined)

    def user_multipliers(self, linear: Floats) -> Floats:
        """Multipliers in the user's units: objective per unit of each constraint's own bound.

        Parameters
        ----------
        linear : ndarray of shape (m,)
            Multipliers of the linear forms, objective per unit of `TiedGoal.bound`. Moving the bound of a ratio by d
            moves that of its cleared form by d times the denominator, as it is on these predictions.
        """
        return linear * np.where(np.isnan(self.denominator), 1.0, self.denominator)


def finite(value: float | np.float64) -> float | None:
    """A float, or None where it is not defined."""
    return float(value) if np.isfinite(value) else None
