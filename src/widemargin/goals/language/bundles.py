"""Bundles: one line for many constraints, one per pair of values of a column (spec 1, section 1).

Which values there are is known only when the goal meets data, so a bundle stays whole until then and is expanded by
the binder. The constraints of a bundle with `ratio=k` are `rate(a) >= k rate(b)` for all ordered pairs (a, b) of
values, or each value against `reference` in both directions; with `difference=d` they are `rate(a) - rate(b) <= d`.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from widemargin.exceptions import DataError, GoalError
from widemargin.goals.language.checks import (
    LIMITS,
    ColumnName,
    Literal,
    checked_column,
    checked_literal,
    checked_literals,
    checked_min_rows,
    checked_name,
    checked_number,
    checked_on_small,
    shown,
    typed,
)
from widemargin.goals.language.constraints import Constraint, Ruled, options_text
from widemargin.goals.language.linear import Linear, Rate
from widemargin.goals.language.populations import EVERYONE, Population, as_population
from widemargin.goals.language.predicates import Column, Compare
from widemargin.goals.text.printing import column_text, list_text, literal_text, name_text, number_text, quoted

__all__ = [
    "BUNDLE_FUNCTIONS",
    "BUNDLE_KINDS",
    "Bundle",
    "demographic_parity",
    "equal_opportunity",
    "equalized_odds",
    "must_be_right",
]

BUNDLE_KINDS = MappingProxyType(
    {
        "demographic_parity": ("positive_rate",),
        "equal_opportunity": ("recall",),
        "equalized_odds": ("recall", "false_positive_rate"),
    }
)
"""The rates that a bundle compares."""


@dataclass(frozen=True, eq=False, repr=False)
class Bundle(Ruled):
    """A family of constraints over the values of a column. Made by `demographic_parity` and the like.

    Attributes
    ----------
    kind : str
        Key of `BUNDLE_KINDS`.
    column : str or int
        Column of the populations table.
    ratio : float or None
        In (0, 1].
    difference : float or None
        In [0, 1]; exactly one of the two is given.
    reference : str, int, float, bool or None
        Compare every value with this one; None: all pairs.
    values : tuple or None
        The values to compare; None: all that the data have.
    population : Population or None
        Rows among which the rates are measured; None: everyone.
    min_rows, small, label
        As in `Constraint`.
    """

    kind: str
    column: ColumnName
    ratio: float | None = None
    difference: float | None = None
    reference: Literal | None = None
    values: tuple[Literal, ...] | None = None
    population: Population | None = None
    min_rows: int | None = None
    small: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in BUNDLE_KINDS:
            raise GoalError(f"unknown bundle {shown(self.kind)}; known: {', '.join(BUNDLE_KINDS)}.")
        self._set("column", checked_column(self.column))
        self._set_level()
        if self.reference is not None:
            self._set("reference", checked_literal(self.reference))
        if self.values is not None:
            self._set_values()
        if self.population is not None:
            population = as_population(self.population, "population")
            self._set("population", None if population == EVERYONE else population)
        self._set("min_rows", checked_min_rows(self.min_rows))
        self._set("small", checked_on_small(self.small))
        if self.label is not None:
            self._set("label", checked_name(self.label, "a bundle's label"))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _set_level(self) -> None:
        if (self.ratio is None) == (self.difference is None):
            raise GoalError(f"{self.kind} takes exactly one of ratio= (such as 0.8) and difference= (such as 0.05).")
        if self.ratio is not None:
            self._set("ratio", checked_number(self.ratio, "ratio"))
            if not 0.0 < self.ratio <= 1.0:
                raise GoalError(f"ratio must lie in (0, 1], got {self.ratio}; 0.8 is the 80% rule.")
        if self.difference is not None:
            self._set("difference", checked_number(self.difference, "difference"))
            if not 0.0 <= self.difference <= 1.0:
                raise GoalError(f"difference must lie in [0, 1], got {self.difference}.")

    def _set_values(self) -> None:
        values = checked_literals(self.values, "values")
        self._set("values", values)
        keys = {typed(value) for value in values}
        if self.reference is not None and typed(self.reference) not in keys:
            raise GoalError(f"reference={shown(self.reference)} is not among values={list_text(values)}.")
        if len(values) < 2:
            raise GoalError(f"values={list_text(values)}: at least two values are needed for a comparison.")

    @property
    def key(self) -> tuple[object, ...]:
        """What decides equality and hash."""
        reference = None if self.reference is None else typed(self.reference)
        values = None if self.values is None else tuple(map(typed, self.values))
        what = (self.kind, self.column, self.ratio, self.difference, reference, values, self.population)
        return (*what, self.min_rows, self.on_small, self.label)

    @property
    def rates(self) -> tuple[str, ...]:
        """Names of the rates that are compared."""
        return BUNDLE_KINDS[self.kind]

    def expand(self, values: Sequence[object]) -> tuple[Constraint, ...]:
        """The constraints over the distinct values of the column.

        Parameters
        ----------
        values : sequence
            Distinct non-missing values found in the data, sorted. Where the bundle lists `values` itself, those are
            used, and each must be among the found ones.

        Returns
        -------
        tuple of Constraint
            Labelled; their populations are named like `sex == 'Female'`, which needs no escapes in a text.

        Raises
        ------
        GoalError
            If a listed value or the reference is not among them.
        DataError
            If there are fewer than two values, or too many.
        """
        present = checked_literals(values, f"the values of column {column_text(self.column)}") if len(values) else ()
        wanted = present if self.values is None else self.values
        asked = wanted if self.reference is None else (*wanted, self.reference)
        for value in asked:
            if value not in present:
                raise GoalError(
                    f"{self}: {literal_text(value)} is no value of column {column_text(self.column)};"
                    f" found: {shown(list(present))}."
                )
        if len(wanted) < 2:
            raise DataError(f"{self}: column {column_text(self.column)} has {len(wanted)} distinct values, needs 2.")
        number = (len(wanted) * (len(wanted) - 1) if self.reference is None else 2 * len(wanted)) * len(self.rates)
        if number > LIMITS.bundle:
            raise DataError(
                f"{self}: column {column_text(self.column)} has {len(wanted)} distinct values, which makes {number}"
                f" constraints (at most {LIMITS.bundle}). Group the values, list some with values=, or give reference=."
            )
        groups = {typed(value): self._group(value) for value in wanted}
        return tuple(self._constraint(rate, groups, a, b) for rate in self.rates for a, b in self._pairs(wanted))

    def _pairs(self, values: Sequence[Literal]) -> Iterator[tuple[Literal, Literal]]:
        if self.reference is None:
            yield from itertools.permutations(values, 2)
            return
        for value in values:
            if value != self.reference:
                yield value, self.reference
                yield self.reference, value

    def _group(self, value: Literal) -> Population:
        condition = Compare(self.column, "==", value)
        within = EVERYONE if self.population is None else self.population
        group = within & condition
        name = _condition_name(self.column, value)
        if within.name is not None or within.where is not None:
            name = f"{within.name or within.reference} and {name}"
        return group.named(name) if len(name) <= LIMITS.name and name.isprintable() else group

    def _constraint(
        self, rate: str, groups: dict[tuple[bool, Literal], Population], a: Literal, b: Literal
    ) -> Constraint:
        of_a, of_b = (Linear(((1.0, Rate(rate, groups[typed(value)])),)) for value in (a, b))
        if self.ratio is not None:
            lhs, sense, rhs = of_a, ">=", of_b.times(self.ratio)
            level = f">= {number_text(self.ratio)} *"
        else:
            lhs, sense, rhs = of_a.plus(of_b, -1.0), "<=", Linear((), self.difference or 0.0)
            level = f"<= {number_text(self.difference or 0.0)} +"
        head = _short(self.label or f"{self.kind}({column_text(self.column)})", 60)
        metric = f", {rate}" if len(self.rates) > 1 else ""
        label = f"{head}{metric}: {_short(literal_text(a), 40)} {level} {_short(literal_text(b), 40)}"
        return Constraint(lhs, sense, rhs, label, self.min_rows, self.small)

    @property
    def text(self) -> str:
        """`demographic_parity(sex, ratio=0.8)`."""
        parts = [column_text(self.column)]
        if self.ratio is not None:
            parts.append(f"ratio={number_text(self.ratio)}")
        if self.difference is not None:
            parts.append(f"difference={number_text(self.difference)}")
        if self.reference is not None:
            parts.append(f"reference={literal_text(self.reference)}")
        if self.values is not None:
            parts.append(f"values={list_text(self.values)}")
        if self.population is not None:
            parts.append(f"population={self.population.reference}")
        return f"{self.kind}({', '.join(parts)})"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        label = "" if self.label is None else f"{name_text(self.label)}: "
        return f"<Bundle {label}{self.text}{options_text(self.min_rows, self.small)}>"


def _condition_name(column: ColumnName, value: Literal) -> str:
    """`race == 'Asian'`: single quotes, because a text puts the name of a population into double ones."""
    column_name = column_text(column)
    if isinstance(column, str) and column_name != column:
        column_name = f"col({quoted(column, mark=chr(39))})"
    return f"{column_name} == {quoted(value, mark=chr(39)) if isinstance(value, str) else literal_text(value)}"


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


BUNDLE_FUNCTIONS: dict[str, Callable[..., Bundle | Constraint]] = {}
"""The functions that a text may use as a whole constraint, by name."""

F = TypeVar("F", bound=Callable[..., Bundle | Constraint])


def _in_texts(function: F) -> F:
    BUNDLE_FUNCTIONS[function.__name__] = function
    return function


def _bundle(
    kind: str,
    column: ColumnName | Column,
    ratio: float | None,
    difference: float | None,
    reference: Literal | None,
    values: Sequence[Literal] | None,
    population: Population | None,
    min_rows: int | None,
    on_small: str | None,
) -> Bundle:
    name = column.name if isinstance(column, Column) else column
    listed = None if values is None else checked_literals(values, "values")
    return Bundle(kind, name, ratio, difference, reference, listed, population, min_rows, on_small)


@_in_texts
def demographic_parity(
    column: ColumnName | Column,
    *,
    ratio: float | None = None,
    difference: float | None = None,
    reference: Literal | None = None,
    values: Sequence[Literal] | None = None,
    population: Population | None = None,
    min_rows: int | None = None,
    on_small: str | None = None,
) -> Bundle:
    """Similar positive rates for all values of a column: `s_p(a) >= ratio * s_p(b)` (0.8: the 80% rule).

    Parameters
    ----------
    column : str, int or Column
        Column of the populations table.
    ratio : float in (0, 1], optional
    difference : float in [0, 1], optional
        Exactly one of the two: the least ratio, or the greatest difference, of any two values' rates.
    reference : optional
        Compare each value with this one only, in both directions; default: all ordered pairs.
    values : sequence, optional
        The values to compare; default: all in the data.
    population : Population, optional
        Rows among which the rates are measured; default: everyone.
    min_rows : int, optional
    on_small : {"error", "drop"}, optional
        Rule for tiny groups, as in `Constraint.with_options`.

    Examples
    --------
    >>> from widemargin.goals import demographic_parity
    >>> for constraint in demographic_parity("sex", ratio=0.8).expand(["Female", "Male"]):
    ...     print(constraint.label)
    demographic_parity(sex): "Female" >= 0.8 * "Male"
    demographic_parity(sex): "Male" >= 0.8 * "Female"
    """
    return _bundle("demographic_parity", column, ratio, difference, reference, values, population, min_rows, on_small)


@_in_texts
def equal_opportunity(
    column: ColumnName | Column,
    *,
    ratio: float | None = None,
    difference: float | None = None,
    reference: Literal | None = None,
    values: Sequence[Literal] | None = None,
    population: Population | None = None,
    min_rows: int | None = None,
    on_small: str | None = None,
) -> Bundle:
    """Similar recalls for all values of a column: `s_p(a and D+) >= ratio * s_p(b and D+)`.

    Parameters as in `demographic_parity`.
    """
    return _bundle("equal_opportunity", column, ratio, difference, reference, values, population, min_rows, on_small)


@_in_texts
def equalized_odds(
    column: ColumnName | Column,
    *,
    ratio: float | None = None,
    difference: float | None = None,
    reference: Literal | None = None,
    values: Sequence[Literal] | None = None,
    population: Population | None = None,
    min_rows: int | None = None,
    on_small: str | None = None,
) -> Bundle:
    """Similar recalls and similar false positive rates for all values of a column.

    Parameters as in `demographic_parity`.
    """
    return _bundle("equalized_odds", column, ratio, difference, reference, values, population, min_rows, on_small)


@_in_texts
def must_be_right(population: Population, share: float = 1.0) -> Constraint:
    """At least `share` of a (small, hand-made) labelled set must be classified correctly: `accuracy >= share`.

    Parameters
    ----------
    population : Population
        The egregious examples.
    share : float in [0, 1], default=1.0
    """
    if population is None:
        raise GoalError("must_be_right needs the population of the examples, got None.")
    form = Linear(((1.0, Rate("accuracy", as_population(population, "population"))),))
    return Constraint(form, ">=", Linear((), checked_number(share, "share")))
