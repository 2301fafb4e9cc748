"""What tying a goal to data gives: coefficients, bounds, scales, and measures of predictions."""

import dataclasses
import functools
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin._typing import Cells, Floats, Integers, Label
from widemargin.exceptions import DataError
from widemargin.goals.binding.cells import CellSpace
from widemargin.goals.binding.sources import Repeats, Source, View, sought
from widemargin.goals.language.constraints import ClearedConstraint, Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.linear import Linear
from widemargin.goals.measuring.rates_of_predictions import (
    TOLERANCE,
    Measured,
    RateTable,
    constraint_standing,
    form_value,
)
from widemargin.linalg.cells import CellCoefficients

__all__ = ["Dropped", "Predictions", "TiedConstraint", "TiedGoal", "assemble", "dropped_texts"]

Predictions: TypeAlias = Sequence[npt.NDArray[Any]]
"""For each source that was given, 1 or True where a row is predicted positive, or the probability of it; of several
classes the number of the predicted one, from 1 on."""


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
class TiedSource:
    """The entries of one source of a tied goal, or of a view of it: its rows, or groups of alike ones.

    Attributes
    ----------
    name : str or None
        None stands for the training or audited rows.
    cell : ndarray of int32, shape (n_s,)
        Cell of each entry, numbered through all sources.
    weight : ndarray of shape (n_s,) or None
        None: all ones.
    n_rows : int
    repeats : Repeats or None
        Where the entries are counted rows: how many each stands for.
    given : int
        Number of the source among those that were given.
    view : View or None
        What is looked for, where there are several classes.
    target : ndarray of int16, shape (n_s,), or None
        Of several classes: the number of the one that the view looks for in each row.
    """

    name: str | None
    cell: Cells
    weight: Floats | None
    n_rows: int
    repeats: Repeats | None = None
    given: int = 0
    view: View | None = None
    target: Integers | None = None

    @property
    def key(self) -> Hashable:
        """Under which its cells stand."""
        return self.name if self.view is None else self.view

    @property
    def weights(self) -> Floats:
        """Weight of each entry, also where all are 1, shape (n_s,)."""
        return np.ones(len(self.cell)) if self.weight is None else self.weight


MISSING_DENOMINATOR = 0.05
"""Excess, in rates, that an empty denominator counts as: far above what a search takes for met, so that it is repaired,
and small beside what a model may miss other bounds by."""

LIGHT = 0.1
"""Rows of less than this share of the mean weight in a denominator do not keep it from being empty by themselves."""


FEW_OF_MANY = 0.0002
"""Share of all that could be in a denominator which training asks for at least; more than half a row from 2,500 on."""


class DefinedRatios(NamedTuple):
    """A bound for each denominator that can be zero: `-denominator <= -least`, beside the constraints of the user.

    The cleared form of a ratio holds where its denominator is zero, although the ratio is undefined there and so not
    met. Training therefore also asks for half a row of the smallest weight in every denominator, or of many rows for 1
    in 5,000. Measuring asks nothing.

    Attributes
    ----------
    owners : tuple of tuple of int
        Numbers of the constraints with each of the h denominators.
    coefficients : CellCoefficients
        Of the m constraints, and of these as numbers m to m + h - 1.
    bound, scale : ndarray of shape (h,)
    """

    owners: tuple[tuple[int, ...], ...]
    coefficients: CellCoefficients
    bound: Floats
    scale: Floats


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
    sources : tuple of TiedSource
        The training or audited rows first; of several classes each view of them.
    classes : tuple of labels
        As those of the sources; empty where nobody named them.
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
        False where the objective needs labels that are not there (`bind(..., for_training=False)`); its coefficients
        are then 0 and it measures as NaN.
    defined : DefinedRatios
        What keeps constraints from being undefined.
    """

    goal: Goal
    constraints: tuple[TiedConstraint, ...]
    dropped: tuple[Dropped, ...]
    sources: tuple[TiedSource, ...]
    cell_weight: Floats
    cell_count: npt.NDArray[np.int32]
    coefficients: CellCoefficients
    bound: Floats
    objective_constant: float
    scale: Floats
    table: RateTable
    space: CellSpace
    has_objective: bool
    defined: "DefinedRatios"
    classes: tuple[Label, ...] = ()

    @functools.cached_property
    def given(self) -> tuple[TiedSource, ...]:
        """The sources that were given, each by its only or its first view."""
        first = {source.given: source for source in reversed(self.sources)}
        return tuple(first[number] for number in sorted(first))

    @property
    def several(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.classes) > 2

    @property
    def n_constraints(self) -> int:
        """m."""
        return len(self.constraints)

    @property
    def n_rows(self) -> int:
        """Rows of all sources."""
        return sum(source.n_rows for source in self.given)

    @property
    def weighted(self) -> bool:
        """Whether rows have weights that differ from 1."""
        return any(source.weight is not None for source in self.sources)

    def seen(self, predicted: Predictions) -> Predictions:
        """For each of `sources` which rows are predicted positive, or the probability of it.

        Raises
        ------
        DataError
            If an array is missing.
        """
        if len(predicted) != len(self.given):
            names = tuple(source.name for source in self.given)
            raise DataError(f"{len(predicted)} arrays of predictions for the {len(names)} sources {names}.")
        return [
            predicted[part.given] if part.target is None else predicted[part.given] == part.target
            for part in self.sources
        ]

    def constants(self) -> list[tuple[str, Floats]]:
        """What classifiers predict that decide the same for every row, in words, and the weight predicted positive."""
        if not self.several:
            return [("nothing positive", np.zeros_like(self.cell_weight)), ("everything positive", self.cell_weight)]
        numbers = enumerate(self.classes, start=1)
        rows = [np.ones(len(part.cell), np.int16) for part in self.given]
        return [(f"{label!r} everywhere", self.positive_mass([k * one for one in rows])) for k, label in numbers]

    def positive_mass(self, positive: Predictions) -> Floats:
        """Weight predicted positive in each cell.

        Parameters
        ----------
        positive : sequence of ndarray of shape (n_s,)
            For each source that was given, 1 or True where a row is predicted positive, or the probability of it; of
            several classes the number of the predicted one.

        Returns
        -------
        ndarray of shape (k,)

        Raises
        ------
        DataError
            If an array is missing or has another length.
        """
        mass = np.zeros(len(self.cell_weight))
        for source, share in zip(self.sources, self.seen(positive), strict=True):
            if share.shape != source.cell.shape:
                title = self.space.parts[source.key].title
                raise DataError(f"{title}: {len(source.cell)} rows and predictions of shape {share.shape}.")
            positive_weight = share if source.weight is None else source.weight * share
            if source.repeats is not None:
                positive_weight = source.repeats.count * positive_weight
            mass += np.bincount(source.cell, positive_weight, len(mass))
        return np.minimum(mass, self.cell_weight)  # rounding of a sum of probabilities must not make a negative rest

    def measure(self, positive_mass: Floats) -> Measured:
        """Objective and constraints of predictions, in the user's units (see `Measured`)."""
        values = self.table.values(positive_mass)
        rows = [constraint_standing(item.constraint, self.table, values) for item in self.constraints]
        columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T.copy()
        objective = float(form_value(self.goal.objective, self.table, values)) if self.has_objective else float("nan")
        return Measured(positive_mass, objective, *columns)


def assemble(
    goal: Goal,
    constraints: tuple[TiedConstraint, ...],
    dropped: tuple[Dropped, ...],
    table: RateTable,
    sources: Sequence[Source],
    objective: Linear,
    *,
    for_training: bool,
) -> TiedGoal:
    """Coefficients >= 0 with one zero in every pair, the constants in the bounds.

    `objective` is the goal's, or a form without rates where that one cannot be measured.
    """
    space, cleared = table.space, [item.cleared for item in constraints]
    alpha0, beta0 = table.weighted(objective)
    # What both predictions cost alike cannot be learned away. Taken out as a constant, it leaves one zero in every pair
    # of coefficients, and the hinge bounds of the solvers as tight as they can be.
    common = np.minimum(alpha0, beta0)
    constant = objective.constant + float(common @ space.weight)
    alpha0 -= common
    beta0 -= common
    del common
    # A constraint `>=` is the constraint `<=` of its negative.
    sign = np.array([1.0 if item.sense == "<=" else -1.0 for item in cleared])
    entries, shared, spread = _entries(table, sign, table.factors([item.form for item in cleared]))
    coefficients = CellCoefficients(alpha0, beta0, *entries)
    scale = np.ones(len(cleared))
    for j, item in enumerate(cleared):
        if item.ratio is not None:
            below = item.ratio.denominator
            alpha, beta = table.weighted(below)
            largest = below.constant + float(np.maximum(alpha, beta) @ space.weight)
            perfect = np.concatenate([np.where(part.label > 0, part.weight, 0.0) for part in space.parts.values()])
            at_best = below.constant + float(alpha @ perfect + beta @ (space.weight - perfect))
            # Where the perfect classifier makes a denominator nearly nothing, 5% of its largest value stand for it.
            scale[j] = max(at_best, 0.05 * largest)
        elif any(rate.definition.is_count for rate in item.form.rates):
            scale[j] = spread[j] or 1.0
    tied_sources = []
    given = list(dict.fromkeys(source.name for source in sources))
    for source in sources:
        cell, start = space.parts[source.key].cell, space.start[source.key]
        n_rows = source.n_rows if source.repeats is None else int(source.repeats.count.sum())
        # Cells are numbered on through all sources; those of the first are taken as they are, for they may be many.
        numbered = cell + np.int32(start) if start else cell
        target = None
        if source.whole is not None and source.view is not None:
            target = sought(source.whole, source.view.decision)
        number, repeats = given.index(source.name), source.repeats
        tied_sources.append(
            TiedSource(source.name, numbered, source.weight, n_rows, repeats, number, source.view, target)
        )
    return TiedGoal(
        goal, constraints, dropped, tuple(tied_sources), space.weight, space.count,
        coefficients, sign * np.array([item.bound for item in cleared]) - shared, constant,
        scale, table, space, bool(objective.terms),
        _defined(cleared if for_training else (), coefficients, table, tied_sources), sources[0].classes,
    )  # fmt: skip


def _defined(
    cleared: Sequence[ClearedConstraint],
    coefficients: CellCoefficients,
    table: RateTable,
    sources: Sequence[TiedSource],
) -> DefinedRatios:
    """A bound for each denominator that some predictions make zero, beside the coefficients of the constraints."""
    # Constraints may share a denominator: in a bundle one rate stands below many others.
    owners: dict[Linear, list[int]] = {}
    for j, item in enumerate(cleared):
        if item.denominator is not None:
            owners.setdefault(item.denominator, []).append(j)
    for form in [*owners]:
        alpha, beta = table.weighted(form)
        least, most = (bound(alpha, beta) @ table.space.weight for bound in (np.minimum, np.maximum))
        # That of f_beta holds all positive rows, whatever is predicted, and one that is always zero keeps no bound.
        if most <= 0.0 or least + form.constant > TOLERANCE * most:
            del owners[form]
    if not owners:
        return DefinedRatios((), coefficients, np.zeros(0), np.zeros(0))
    space, forms = table.space, list(owners)
    lightest = np.full(space.n_cells, np.inf)
    for source in sources:
        some = np.flatnonzero(source.weights > 0.0)
        np.minimum.at(lightest, source.cell[some], source.weights[some])
    (starts, number, value), shared, spread = _entries(table, -np.ones(len(forms)), table.factors(forms))
    one_row = np.full(len(forms), np.inf)
    np.minimum.at(one_row, number, np.abs(value) * np.repeat(lightest, np.diff(starts)))
    # Rows far lighter than others would make this bound, whose violation is measured in rows, the only one that counts.
    counted = np.bincount(number, np.repeat(space.weighty, np.diff(starts)), len(forms))
    one_row = np.maximum(one_row, LIGHT * spread / counted)
    # Half of it, so that the rounding of a sum is no missing row; of many rows a few, for a bound in which one of them
    # is large bends so sharply that Newton steps on 30,000 rows took three times as long.
    least = np.maximum(0.5 * one_row, FEW_OF_MANY * spread)
    both = sp.hstack([
        sp.csr_array((part[2], part[1], part[0]), shape=(space.n_cells, width))
        for part, width in ((coefficients.entries, len(cleared)), ((starts, number, value), len(forms)))
    ], format="csr")  # fmt: skip
    return DefinedRatios(
        tuple(tuple(numbers) for numbers in owners.values()),
        coefficients._replace(indptr=both.indptr, column=both.indices, value=both.data),
        np.array([form.constant for form in forms]) - shared - least,
        least / MISSING_DENOMINATOR,
    )


def _entries(
    table: RateTable, sign: Floats, factors: sp.csr_array
) -> tuple[tuple[Integers, Integers, Floats], Floats, Floats]:
    """The signed left-hand sides of m constraints by cell, looked at a block of cells at a time and twice.

    The entries then go where they belong at once: sorting them would take several times their own memory.

    Returns
    -------
    starts, numbers, values : ndarray
        The CSR arrays: where each cell starts, constraints, coefficients.
    shared, spread : ndarray of shape (m,)
        Weight that each form has whatever is predicted, and its attainable spread.
    """
    weight, lengths = table.space.weight, np.zeros(table.space.n_cells, np.intp)
    shared, spread = np.zeros((2, len(sign)))
    for block in table.blocks():
        alpha, beta = sign[:, None] * (factors @ block.alpha), sign[:, None] * (factors @ block.beta)
        signed = alpha - beta
        lengths[block.place] = np.count_nonzero(signed, axis=0)
        shared += np.minimum(alpha, beta) @ weight[block.place]
        spread += np.abs(signed) @ weight[block.place]
    n_entries = int(lengths.sum())
    index: type[np.signedinteger[Any]] = np.int32 if max(n_entries, len(sign)) < 2**31 else np.int64
    starts = np.zeros(len(lengths) + 1, index)
    np.cumsum(lengths, out=starts[1:])
    number, value = np.empty(n_entries, index), np.empty(n_entries)
    for block in table.blocks():
        # The first pass counted the entries of every cell, so each block knows where its own begin.
        own = slice(starts[block.place.start], starts[block.place.stop])
        by_cell = (sign[:, None] * (factors @ block.alpha - factors @ block.beta)).T
        owner, number[own] = np.nonzero(by_cell)
        value[own] = by_cell[owner, number[own]]
    return (starts, number, value), shared, spread
