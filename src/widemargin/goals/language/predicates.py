"""Predicates: conditions on one row, over its columns, its label, or what a baseline model says of it.

>>> from widemargin.goals import col
>>> str((col("sex") == "Female") & ~(col("age") < 30))
'sex == "Female" and not (age < 30)'

A predicate holds no data. On a row where a column it needs is missing it is *unknown* (three-valued logic), and a row
with an unknown predicate is in no population.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from widemargin.exceptions import GoalError
from widemargin.goals.language.values import (
    LIMITS,
    ColumnName,
    Immutable,
    Literal,
    checked_column,
    checked_literal,
    checked_literals,
    checked_name,
    column_text,
    list_text,
    literal_text,
    quoted,
    shown,
)


class _Condition(Immutable):
    """What `&`, `|`, `~` make of a predicate, and of a column that stands for "this boolean column is true"."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy scalars leave the operators to us

    def __and__(self, other: object) -> "Predicate":
        return And((as_predicate(self), as_predicate(other)))

    def __rand__(self, other: object) -> "Predicate":
        return And((as_predicate(other), as_predicate(self)))

    def __or__(self, other: object) -> "Predicate":
        return Or((as_predicate(self), as_predicate(other)))

    def __ror__(self, other: object) -> "Predicate":
        return Or((as_predicate(other), as_predicate(self)))

    def __invert__(self) -> "Predicate":
        return Not(as_predicate(self))

    def __bool__(self) -> bool:
        raise GoalError(
            "a predicate has no truth value. Use & | ~ instead of and, or, not, and two comparisons instead of a chain."
        )


class Predicate(_Condition):
    """Condition on a row; combine with `&`, `|`, `~`. Immutable, hashable, compared by structure.

    Attributes
    ----------
    nesting : int
        Levels of and / or / not above the deepest leaf.
    """

    nesting: int = 0

    def leaves(self) -> Iterator["Predicate"]:
        """The conditions that are neither and, or, nor not, in reading order."""
        yield self

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Columns that are looked at, in order of first appearance."""
        return tuple(dict.fromkeys(leaf.column for leaf in self.leaves() if isinstance(leaf, OfColumn)))

    @property
    def baselines(self) -> tuple[str, ...]:
        """Baseline models that are asked, in order of first appearance."""
        return tuple(dict.fromkeys(leaf.name for leaf in self.leaves() if isinstance(leaf, BaselineSays)))

    @property
    def uses_label(self) -> bool:
        """Whether the label is looked at."""
        return any(isinstance(leaf, LabelIs) for leaf in self.leaves())


@dataclass(frozen=True)
class OfColumn(Predicate):
    """A condition on the value of one column."""

    column: ColumnName

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", checked_column(self.column))

    @property
    def constants(self) -> tuple[Literal, ...]:
        """What the values are compared with."""
        return ()


@dataclass(frozen=True)
class Compare(OfColumn):
    """`column op value`, for example `age >= 30`.

    Parameters
    ----------
    column : str or int
    op : {"==", "!=", "<", "<=", ">", ">="}
    value : str, int, float or bool
        Booleans only with `==` and `!=`.
    """

    op: str
    value: Literal
    _is_boolean: bool = field(init=False, repr=False)  # compared too, because True == 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "value", checked_literal(self.value))
        object.__setattr__(self, "_is_boolean", isinstance(self.value, bool))
        operators = ("==", "!=", "<", "<=", ">", ">=")
        if self.op not in operators:
            raise GoalError(f"unknown comparison {shown(self.op)}; use one of {' '.join(operators)}.")
        if self._is_boolean and self.op not in ("==", "!="):
            raise GoalError(f"{self}: booleans have no order; use == or !=.")

    @property
    def constants(self) -> tuple[Literal, ...]:
        return (self.value,)

    def __str__(self) -> str:
        return f"{column_text(self.column)} {self.op} {literal_text(self.value)}"


@dataclass(frozen=True)
class IsIn(OfColumn):
    """The column has one of the values."""

    values: tuple[Literal, ...]
    _are_boolean: tuple[bool, ...] = field(init=False, repr=False)  # compared too, because True == 1

    def __post_init__(self) -> None:
        super().__post_init__()
        values = checked_literals(self.values, f"the values of {column_text(self.column)}")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_are_boolean", tuple(isinstance(value, bool) for value in values))

    @property
    def constants(self) -> tuple[Literal, ...]:
        return self.values

    def __str__(self) -> str:
        return f"{column_text(self.column)} in {list_text(self.values)}"


@dataclass(frozen=True)
class IsNull(OfColumn):
    """The column's value is missing."""

    def __str__(self) -> str:
        return f"{column_text(self.column)}.is_null()"


@dataclass(frozen=True)
class IsTrue(OfColumn):
    """A boolean column, used as it is."""

    @property
    def constants(self) -> tuple[Literal, ...]:
        return (True,)

    def __str__(self) -> str:
        return column_text(self.column)


@dataclass(frozen=True)
class LabelIs(Predicate):
    """The row's label is the positive class, or is not; `of` says which class that is, else the data do."""

    positive: bool
    of: Literal | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", None if self.of is None else checked_literal(self.of))

    def __str__(self) -> str:
        return f"{'positive' if self.positive else 'negative'}_label({_of_class(self.of)})"


@dataclass(frozen=True)
class BaselineSays(Predicate):
    """The named baseline model predicts the positive class, or does not; `of` as in `LabelIs`."""

    name: str
    positive: bool
    of: Literal | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", checked_name(self.name, "a baseline's name"))
        object.__setattr__(self, "of", None if self.of is None else checked_literal(self.of))

    def __str__(self) -> str:
        of = "" if self.of is None else f", {_of_class(self.of)}"
        return f"predicted_{'positive' if self.positive else 'negative'}({quoted(self.name)}{of})"


def _of_class(of: Literal | None) -> str:
    """The argument that names a class, as a text has it."""
    return "" if of is None else f"of={literal_text(of)}"


@dataclass(frozen=True)
class _Several(Predicate):
    """Shared body of And and Or: parts of the same kind are flattened, so `a & b & c` has one form."""

    parts: tuple[Predicate, ...]
    nesting: int = field(init=False, repr=False, compare=False)
    word: ClassVar[str]

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
        object.__setattr__(self, "nesting", _nesting_above(flat))

    def leaves(self) -> Iterator[Predicate]:
        for part in self.parts:
            yield from part.leaves()

    def __str__(self) -> str:
        return f" {self.word} ".join(f"({part})" if isinstance(part, _Several) else str(part) for part in self.parts)


@dataclass(frozen=True)
class And(_Several):
    """All parts hold."""

    word = "and"


@dataclass(frozen=True)
class Or(_Several):
    """At least one part holds."""

    word = "or"


@dataclass(frozen=True)
class Not(Predicate):
    """The part does not hold (unknown stays unknown)."""

    part: Predicate
    nesting: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", as_predicate(self.part))
        object.__setattr__(self, "nesting", _nesting_above([self.part]))

    def leaves(self) -> Iterator[Predicate]:
        yield from self.part.leaves()

    def __str__(self) -> str:
        if isinstance(self.part, IsIn):
            return f"{column_text(self.part.column)} not in {list_text(self.part.values)}"
        if isinstance(self.part, (Compare, _Several)):
            return f"not ({self.part})"
        return f"not {self.part}"


def _nesting_above(parts: list[Predicate]) -> int:
    nesting = max(part.nesting for part in parts) + 1
    if nesting > LIMITS.nesting:
        raise GoalError(
            f"a predicate may nest and / or / not at most {LIMITS.nesting} deep; "
            "put the condition into a boolean column."
        )
    return nesting


def _comparison(op: str) -> Callable[["Column", object], Compare]:
    """The method of a column that compares it with a value."""

    def compare(self: "Column", value: object) -> Compare:
        if isinstance(value, _Condition):
            raise GoalError(f"{self} {op} {value}: a column is compared with a value, not with another column.")
        return Compare(self.name, op, value)  # type: ignore[arg-type]  # Compare checks it

    return compare


class Column(_Condition):
    """A column of the populations table; compare it with a value to get a `Predicate`. Made by `col`.

    Used alone (`col("is_member") & ...`) it stands for a boolean column.
    """

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment]  # == makes a predicate, so a column cannot be a key
    name: ColumnName

    def __init__(self, name: ColumnName) -> None:
        object.__setattr__(self, "name", checked_column(name))

    def __reduce__(self) -> tuple[type["Column"], tuple[ColumnName]]:
        return Column, (self.name,)

    __eq__ = _comparison("==")  # type: ignore[assignment]
    __ne__ = _comparison("!=")  # type: ignore[assignment]
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")

    def isin(self, values: object) -> IsIn:
        """One of `values` (a list, tuple, set or array of strings, numbers or booleans)."""
        return IsIn(self.name, values)  # type: ignore[arg-type]  # IsIn checks it

    def is_null(self) -> IsNull:
        """The value is missing."""
        return IsNull(self.name)

    def __str__(self) -> str:
        return column_text(self.name)

    def __repr__(self) -> str:
        return f"col({literal_text(self.name)})"


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


def positive_label(*, of: Literal | None = None) -> Predicate:
    """Rows whose label is the positive class (the paper's D+), or the class `of`."""
    return LabelIs(True, of)


def negative_label(*, of: Literal | None = None) -> Predicate:
    """Rows whose label is the negative class (the paper's D-), or any class but `of`."""
    return LabelIs(False, of)


def predicted_positive(baseline: str, *, of: Literal | None = None) -> Predicate:
    """Rows that the baseline model `baseline` predicts positive (the paper's D[h+]), or as the class `of`."""
    return BaselineSays(baseline, True, of)


def predicted_negative(baseline: str, *, of: Literal | None = None) -> Predicate:
    """Rows that the baseline model `baseline` predicts negative (the paper's D[h-]), or as any class but `of`."""
    return BaselineSays(baseline, False, of)
