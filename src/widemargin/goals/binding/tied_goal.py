"""What binding a goal to data gives: coefficients, bounds and the means to measure predictions."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.goals.binding.cells import CellSpace
from widemargin.goals.binding.sources import Repeats
from widemargin.goals.language.constraints import ClearedConstraint, Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.rates_of_predictions import Measured, RateTable, constraint_standing, form_value
from widemargin.linalg.cells import CellCoefficients

__all__ = ["Dropped", "TiedConstraint", "TiedGoal", "dropped_texts"]


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
