"""What tying a goal to data gives: coefficients, bounds, scales (spec 1, section 2), and measures of predictions."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.goals.binding.cells import CellSpace
from widemargin.goals.binding.sources import Repeats, Source
from widemargin.goals.language.constraints import ClearedConstraint, Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.linear import Linear
from widemargin.goals.measuring.rates_of_predictions import Measured, RateTable, constraint_standing, form_value
from widemargin.linalg.cells import CellCoefficients

__all__ = ["Dropped", "TiedConstraint", "TiedGoal", "dropped_texts"]


_LEAST_SHARE = 0.05
"""Least share of its largest value that a ratio's denominator counts for in the scale."""


@dataclasses.dataclass(frozen=True)
class TiedConstraint:
    """A constraint and the data under it.

    Attributes
    ----------
    constraint : Constraint
        As the user (or a bundle) wrote it.
    cleared : ClearedConstraint
        The same without ratios; its `sense` is the one that value and bound are compared by.
    n_rows : int
        Rows of weight > 0 of the smallest set that one of its rates is measured on (for recall: rows with a positive
        label).
    weight : float
        Weight of that set.
    n_missing : int
        Rows of which it is unknown, by missing values, whether they belong; the largest number over its populations.
    n_populations : int
        Number of different sets that its rates are measured on.
    bundle : str or None
        Label (or text) of the bundle that made it.
    """

    constraint: Constraint
    cleared: ClearedConstraint
    n_rows: int
    weight: float
    n_missing: int
    n_populations: int = 1
    bundle: str | None = None

    @property
    def label(self) -> str:
        """The user's label, else the text."""
        return self.constraint.label or self.constraint.text

    @property
    def text(self) -> str:
        """The constraint as the user wrote it."""
        return self.constraint.text

    @property
    def sense(self) -> str:
        """`>=` or `<=`, between the reported value and its bound."""
        return self.cleared.sense

    @property
    def is_ratio(self) -> bool:
        """Whether a ratio was cleared."""
        return self.cleared.ratio is not None


@dataclasses.dataclass(frozen=True)
class Dropped:
    """A constraint left out because a population was too small (`on_small="drop"`).

    Attributes
    ----------
    label, text : str
    reason : str
        A sentence.
    cause : str or None
        The population and its size in short, the same for all constraints that it costs.
    """

    label: str
    text: str
    reason: str
    cause: str | None = None


def dropped_texts(dropped: Sequence[Dropped]) -> list[str]:
    """One text for each cause: the whole reason of a single constraint, the number of several."""
    groups: dict[object, list[Dropped]] = {}
    for position, item in enumerate(dropped):
        groups.setdefault(position if item.cause is None else item.cause, []).append(item)
    return [
        f"{items[0].label}: {items[0].reason}" if len(items) == 1 else f"{cause}: {len(items)} constraints dropped"
        for cause, items in groups.items()
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class TiedGoal:
    """A goal on data: n rows in k cells, m constraints.

    With `P[c]` the weight of cell c predicted positive (0/1 or ramp) and `W` the cells' weights, the objective is
    `alpha0 @ P + beta0 @ (W - P) + objective_constant` and constraint j is
    `sum_c alpha[c, j] P[c] + beta[c, j] (W[c] - P[c]) <= bound[j]`, in the user's units. In every cell one of the two
    coefficients is 0: what both predictions cost alike is a constant (`r_n = 1 - r_p`), which makes the hinge bounds of
    the solvers as tight as they can be.

    Attributes
    ----------
    goal : Goal
    constraints : tuple of TiedConstraint
        Bundles expanded, tiny populations dropped.
    dropped : tuple of Dropped
    sources : tuple of str or None
        None stands for the training or audited rows.
    cell : tuple of ndarray of int32, shape (n_s,)
        Cell of each row, numbered through all sources.
    row_weight : tuple of ndarray of shape (n_s,) or None
        None: all ones. Also under the name `weight`.
    repeats : tuple of Repeats or None
        Where the entries of a source are counted rows: how many each stands for. None in place of the tuple: nowhere.
    cell_weight, cell_count : ndarray of shape (k,)
    coefficients : CellCoefficients
    bound : ndarray of shape (m,)
    objective_constant : float
    scale : ndarray of shape (m,)
        Divide constraint j by it to get something of the size of a rate: 1 for rates; the attainable spread where
        counts are involved; for a ratio, the denominator's value for the perfect classifier, at least 5% of its
        maximum.
    table : RateTable
    space : CellSpace
    has_objective : bool
        False where the objective needs labels that are not there (`bind(..., need_objective=False)`); its coefficients
        are then 0 and it measures as NaN.
    """

    goal: Goal
    constraints: tuple[TiedConstraint, ...]
    dropped: tuple[Dropped, ...]
    sources: tuple[str | None, ...]
    cell: tuple[npt.NDArray[np.int32], ...]
    row_weight: tuple[Floats | None, ...]
    cell_weight: Floats
    cell_count: npt.NDArray[np.int32]
    coefficients: CellCoefficients
    bound: Floats
    objective_constant: float
    scale: Floats
    table: RateTable
    space: CellSpace
    has_objective: bool = True
    repeats: tuple[Repeats | None, ...] | None = None

    @property
    def weight(self) -> tuple[Floats | None, ...]:
        """Row weights of each source; None: all ones."""
        return self.row_weight

    @property
    def n_constraints(self) -> int:
        """m."""
        return len(self.constraints)

    @property
    def n_rows(self) -> tuple[int, ...]:
        """Rows of each source."""
        return tuple(
            cell.shape[0] if repeats is None else int(repeats.count.sum())
            for cell, repeats in zip(self.cell, self.entry_repeats, strict=True)
        )

    @property
    def entry_repeats(self) -> tuple[Repeats | None, ...]:
        """`repeats` of each source."""
        return (None,) * len(self.cell) if self.repeats is None else self.repeats

    def positive_mass(self, positive: Sequence[npt.NDArray[Any]]) -> Floats:
        """Weight predicted positive in each cell.

        Parameters
        ----------
        positive : sequence of ndarray of shape (n_s,)
            For each source, 1 or True where a row is predicted positive, or the probability of it.

        Returns
        -------
        ndarray of shape (k,)

        Raises
        ------
        DataError
            If an array is missing or has another length.
        """
        if len(positive) != len(self.cell):
            raise DataError(f"{len(positive)} arrays of predictions for the {len(self.cell)} sources {self.sources}.")
        mass = np.zeros(len(self.cell_weight))
        parts = zip(self.sources, self.cell, self.row_weight, self.entry_repeats, positive, strict=True)
        for name, cell, weight, repeats, share in parts:
            if share.shape != cell.shape:
                raise DataError(f"{self.space.titles[name]}: {len(cell)} rows and predictions of shape {share.shape}.")
            said = share if weight is None else weight * share
            mass += np.bincount(cell, said if repeats is None else repeats.count * said, len(mass))
        return np.minimum(mass, self.cell_weight)  # rounding of a sum of probabilities must not make a negative rest

    def measure(self, positive_mass: Floats) -> Measured:
        """Objective and constraints of predictions, in the user's units (see `Measured`)."""
        values = self.table.values(positive_mass)
        standings = [
            constraint_standing(item.constraint.lhs, item.constraint.rhs, item.cleared, self.table, values)
            for item in self.constraints
        ]
        columns = [
            np.array([getattr(standing, field) for standing in standings], dtype=np.float64)
            for field in ("value", "bound", "slack", "denominator")
        ]
        objective = float(form_value(self.goal.objective, self.table, values)) if self.has_objective else float("nan")
        return Measured(objective, *columns)

    def user_multipliers(self, linear: Floats, positive_mass: Floats) -> Floats:
        """Multipliers in the user's units: objective per unit of each constraint's own bound.

        Parameters
        ----------
        linear : ndarray of shape (m,)
            Multipliers of the linear forms, objective per unit of `bound`.
        positive_mass : ndarray of shape (k,)
            Where the denominators of the ratios are taken: moving the bound of a ratio by d moves that of its cleared
            form by d times the denominator.
        """
        denominator = self.measure(positive_mass).denominator
        return linear * np.where(np.isnan(denominator), 1.0, denominator)


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
    # What both predictions cost alike cannot be learned away. Taken out as a constant, it leaves one zero in every pair
    # of coefficients, and the hinge bounds of the solvers as tight as they can be.
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
            # A constraint `>=` is the constraint `<=` of its negative.
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
            # The first pass counted the entries of every cell, so each block knows where its own begin.
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
        return max(at_best, _LEAST_SHARE * largest)
    if any(rate.definition.is_count for rate in item.cleared.form.rates):
        return spread or 1.0
    return 1.0
