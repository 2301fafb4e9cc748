"""Predicates: conditions on one row, over its columns, its label, or what a baseline model says of it.

>>> from widemargin.goals import col
>>> str((col("sex") == "Female") & ~(col("age") < 30))
'sex == "Female" and not (age < 30)'

A predicate holds no data. On a row where a column it needs is missing it is *unknown* (three-valued logic), and a row
with an unknown predicate is in no population.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from widemargin.exceptions import GoalError
from widemargin.goals.language.checks import (
    LIMITS,
    ColumnName,
    Literal,
    checked_column,
    checked_literal,
    checked_literals,
    checked_name,
    shown,
    typed,
)
from widemargin.goals.text.printing import column_text, list_text, literal_text, quoted

__all__ = [
    "And",
    "BaselineSays",
    "Column",
    "Compare",
    "IsIn",
    "IsNull",
    "IsTrue",
    "LabelIs",
    "Not",
    "Or",
    "Predicate",
    "as_predicate",
    "col",
    "negative_label",
    "positive_label",
    "predicted_negative",
    "predicted_positive",
]

_TRUTH = "a predicate has no truth value. Use & | ~ instead of and, or, not, and two comparisons instead of a chain."


class Predicate:
    """Condition on a row; combine with `&`, `|`, `~`. Immutable, hashable, compared by structure."""

    __array_ufunc__ = None  # NumPy scalars leave the operators to us

    @property
    def nesting(self) -> int:
        """Levels of and / or / not above the deepest leaf."""
        return 0

    def leaves(self) -> Iterator["Predicate"]:
        """The conditions that are neither and, or, nor not, in reading order."""
        yield self

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Columns that are looked at, in order of first appearance."""
        found = (leaf.column for leaf in self.leaves() if isinstance(leaf, (Compare, IsIn, IsNull, IsTrue)))
        return tuple(dict.fromkeys(found))

    @property
    def baselines(self) -> tuple[str, ...]:
        """Baseline models that are asked, in order of first appearance."""
        return tuple(dict.fromkeys(leaf.name for leaf in self.leaves() if isinstance(leaf, BaselineSays)))

    @property
    def uses_label(self) -> bool:
        """Whether the label is looked at."""
        return any(isinstance(leaf, LabelIs) for leaf in self.leaves())

    def __and__(self, other: object) -> "Predicate":
        return And((self, as_predicate(other)))

    def __rand__(self, other: object) -> "Predicate":
        return And((as_predicate(other), self))

    def __or__(self, other: object) -> "Predicate":
        return Or((self, as_predicate(other)))

    def __ror__(self, other: object) -> "Predicate":
        return Or((as_predicate(other), self))

    def __invert__(self) -> "Predicate":
        return Not(self)

    def __bool__(self) -> bool:
        raise GoalError(_TRUTH)

    def __copy__(self) -> "Predicate":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Predicate":
        return self


_OPERATORS = ("==", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, eq=False)
class Compare(Predicate):
    """`column op value`, for example `age >= 30`.

    Parameters
    ----------
    column : str or int
    op : {"==", "!=", "<", "<=", ">", ">="}
    value : str, int, float or bool
        Booleans only with `==` and `!=`.
    """

    column: ColumnName
    op: str
    value: Literal

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", checked_column(self.column))
        object.__setattr__(self, "value", checked_literal(self.value))
        if self.op not in _OPERATORS:
            raise GoalError(f"unknown comparison {shown(self.op)}; use one of {' '.join(_OPERATORS)}.")
        if isinstance(self.value, bool) and self.op not in ("==", "!="):
            raise GoalError(f"{self}: booleans have no order; use == or !=.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Compare):
            return NotImplemented
        return (self.column, self.op, typed(self.value)) == (other.column, other.op, typed(other.value))

    def __hash__(self) -> int:
        return hash((self.column, self.op, typed(self.value)))

    def __str__(self) -> str:
        return f"{column_text(self.column)} {self.op} {literal_text(self.value)}"


@dataclass(frozen=True, eq=False)
class IsIn(Predicate):
    """The column has one of the values."""

    column: ColumnName
    values: tuple[Literal, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", checked_column(self.column))
        object.__setattr__(self, "values", checked_literals(self.values, f"the values of {column_text(self.column)}"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IsIn):
            return NotImplemented
        return self.column == other.column and list(map(typed, self.values)) == list(map(typed, other.values))

    def __hash__(self) -> int:
        return hash((self.column, tuple(map(typed, self.values))))

    def __str__(self) -> str:
        return f"{column_text(self.column)} in {list_text(self.values)}"


@dataclass(frozen=True)
class _OfColumn(Predicate):
    """Shared body of the conditions that need nothing but a column."""

    column: ColumnName

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", checked_column(self.column))


@dataclass(frozen=True)
class IsNull(_OfColumn):
    """The column's value is missing."""

    def __str__(self) -> str:
        return f"{column_text(self.column)}.is_null()"


@dataclass(frozen=True)
class IsTrue(_OfColumn):
    """A boolean column, used as it is."""

    def __str__(self) -> str:
        return column_text(self.column)


@dataclass(frozen=True)
class LabelIs(Predicate):
    """The row's label is the positive (or the negative) class."""

    positive: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "positive", bool(self.positive))

    def __str__(self) -> str:
        return "positive_label()" if self.positive else "negative_label()"


@dataclass(frozen=True)
class BaselineSays(Predicate):
    """The named baseline model predicts the positive (or the negative) class."""

    name: str
    positive: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", checked_name(self.name, "a baseline's name"))
        object.__setattr__(self, "positive", bool(self.positive))

    def __str__(self) -> str:
        return f"predicted_{'positive' if self.positive else 'negative'}({quoted(self.name)})"


@dataclass(frozen=True)
class _Several(Predicate):
    """Shared body of And and Or: parts of the same kind are flattened, so `a & b & c` has one form."""

    parts: tuple[Predicate, ...]
    _nesting: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kind = type(self)
        if not isinstance(self.parts, (tuple, list)) or len(self.parts) == 0:
            raise GoalError(f"{kind.__name__} needs a tuple of predicates, got {shown(self.parts)}.")
        flat: list[Predicate] = []
        for part in map(as_predicate, self.parts):
            flat.extend(part.parts if isinstance(part, kind) else (part,))
        if len(flat) == 1:
            raise GoalError(f"{kind.__name__} needs at least two predicates, got one: {flat[0]}.")
        object.__setattr__(self, "parts", tuple(flat))
        object.__setattr__(self, "_nesting", _checked_nesting(max(part.nesting for part in flat) + 1))

    @property
    def nesting(self) -> int:
        return self._nesting

    def leaves(self) -> Iterator[Predicate]:
        for part in self.parts:
            yield from part.leaves()

    def _joined(self, word: str) -> str:
        return f" {word} ".join(f"({part})" if isinstance(part, _Several) else str(part) for part in self.parts)


@dataclass(frozen=True)
class And(_Several):
    """All parts hold."""

    def __str__(self) -> str:
        return self._joined("and")


@dataclass(frozen=True)
class Or(_Several):
    """At least one part holds."""

    def __str__(self) -> str:
        return self._joined("or")


@dataclass(frozen=True)
class Not(Predicate):
    """The part does not hold (unknown stays unknown)."""

    part: Predicate
    _nesting: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", as_predicate(self.part))
        object.__setattr__(self, "_nesting", _checked_nesting(self.part.nesting + 1))

    @property
    def nesting(self) -> int:
        return self._nesting

    def leaves(self) -> Iterator[Predicate]:
        yield from self.part.leaves()

    def __str__(self) -> str:
        if isinstance(self.part, IsIn):
            return f"{column_text(self.part.column)} not in {list_text(self.part.values)}"
        if isinstance(self.part, (Compare, _Several)):
            return f"not ({self.part})"
        return f"not {self.part}"


def _checked_nesting(nesting: int) -> int:
    if nesting > LIMITS.nesting:
        raise GoalError(
            f"a predicate may nest and / or / not at most {LIMITS.nesting} deep; "
            "put the condition into a boolean column."
        )
    return nesting


class Column:
    """A column of the populations table; compare it with a value to get a `Predicate`. Made by `col`.

    Used alone (`col("is_member") & ...`) it stands for a boolean column.
    """

    __slots__ = ("name",)
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # == makes a predicate, so a column cannot be a key
    name: ColumnName

    def __init__(self, name: ColumnName) -> None:
        object.__setattr__(self, "name", checked_column(name))

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"a column cannot be changed: {attribute} = {shown(value)}.")

    def __reduce__(self) -> tuple[type["Column"], tuple[ColumnName]]:
        return Column, (self.name,)

    def _compare(self, op: str, value: object) -> Compare:
        if isinstance(value, (Column, Predicate)):
            raise GoalError(f"{self} {op} {value}: a column is compared with a value, not with another column.")
        return Compare(self.name, op, value)  # type: ignore[arg-type]  # Compare checks it

    def __eq__(self, value: object) -> Compare:  # type: ignore[override]
        return self._compare("==", value)

    def __ne__(self, value: object) -> Compare:  # type: ignore[override]
        return self._compare("!=", value)

    def __lt__(self, value: object) -> Compare:
        return self._compare("<", value)

    def __le__(self, value: object) -> Compare:
        return self._compare("<=", value)

    def __gt__(self, value: object) -> Compare:
        return self._compare(">", value)

    def __ge__(self, value: object) -> Compare:
        return self._compare(">=", value)

    def isin(self, values: object) -> IsIn:
        """One of `values` (a list, tuple, set or array of strings, numbers or booleans)."""
        return IsIn(self.name, values)  # type: ignore[arg-type]  # IsIn checks it

    def is_null(self) -> IsNull:
        """The value is missing."""
        return IsNull(self.name)

    def __and__(self, other: object) -> Predicate:
        return IsTrue(self.name) & other

    def __rand__(self, other: object) -> Predicate:
        return as_predicate(other) & self

    def __or__(self, other: object) -> Predicate:
        return IsTrue(self.name) | other

    def __ror__(self, other: object) -> Predicate:
        return as_predicate(other) | self

    def __invert__(self) -> Predicate:
        return ~IsTrue(self.name)

    def __bool__(self) -> bool:
        raise GoalError(_TRUTH)

    def __str__(self) -> str:
        return column_text(self.name)

    def __repr__(self) -> str:
        return f"col({quoted(self.name) if isinstance(self.name, str) else self.name})"


def as_predicate(value: object) -> Predicate:
    """A predicate as it is, a column as "this boolean column is true"; anything else is refused."""
    if isinstance(value, Predicate):
        return value
    if isinstance(value, Column):
        return IsTrue(value.name)
    cure = 'Write for example col("sex") == "Female", and put each comparison in brackets: (a == 1) & (b == 2).'
    raise GoalError(f"{shown(value)} ({type(value).__name__}) is no predicate. {cure}")


def col(name: ColumnName) -> Column:
    """Column of the populations table.

    Parameters
    ----------
    name : str or int
        The column's name, or its position in a 2-D array.

    Raises
    ------
    GoalError
        If `name` is neither.

    Examples
    --------
    >>> from widemargin.goals import col
    >>> print(col("age") >= 30)
    age >= 30
    """
    return Column(name)


def positive_label() -> Predicate:
    """Rows whose label is the positive class (the paper's D+)."""
    return LabelIs(True)


def negative_label() -> Predicate:
    """Rows whose label is the negative class (the paper's D-)."""
    return LabelIs(False)


def predicted_positive(baseline: str) -> Predicate:
    """Rows that the baseline model `baseline` predicts positive (the paper's D[h+])."""
    return BaselineSays(baseline, True)


def predicted_negative(baseline: str) -> Predicate:
    """Rows that the baseline model `baseline` predicts negative (the paper's D[h-])."""
    return BaselineSays(baseline, False)
