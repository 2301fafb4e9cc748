"""Which rows a predicate holds on, in three-valued logic.

A comparison with a missing value is neither true nor false but unknown, `not` leaves it unknown, and a row on which the
whole predicate is unknown is in no population. Only `is_null()` is always known.
"""

import bisect
import datetime
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin.exceptions import DataError, GoalError, GoalWarning
from widemargin.goals._warn import warn
from widemargin.goals.binding.columns import NEAR_SPELLING, Scalar, TableColumn, close_match, listing
from widemargin.goals.binding.sources import Source
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import (
    And,
    BaselineSays,
    Compare,
    IsIn,
    IsNull,
    IsTrue,
    LabelIs,
    Not,
    Or,
    Predicate,
)

__all__ = ["Truth", "evaluate", "members", "moment_of"]

Flags = npt.NDArray[np.bool_]

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Truth(NamedTuple):
    """Rows on which a predicate is true and rows on which it is unknown; the rest is false.

    Attributes
    ----------
    true : ndarray of bool, shape (n,)
        False where unknown.
    unknown : ndarray of bool, shape (n,), or None
        None where everything is known.
    """

    true: Flags
    unknown: Flags | None


def members(population: Population, source: Source) -> Truth:
    """Rows of a source that belong to a population, and rows of which that is unknown.

    Raises
    ------
    GoalError
        On a column, value or type that the data do not have; the message names the population.
    DataError
        If there is no table at all.
    """
    if population.where is None:
        return Truth(np.ones(source.n_rows, bool), None)
    try:
        return evaluate(population.where, source)
    except (GoalError, DataError) as error:
        if population.name is None:
            raise
        raise type(error)(f"population {population.name!r}: {error}") from None


def evaluate(predicate: Predicate, source: Source) -> Truth:
    """Evaluate a predicate on every row of a source (Kleene's strong three-valued logic)."""
    if isinstance(predicate, Not):
        inner = evaluate(predicate.part, source)
        return Truth(~inner.true if inner.unknown is None else ~(inner.true | inner.unknown), inner.unknown)
    if isinstance(predicate, And | Or):
        join = _both if isinstance(predicate, And) else _either
        total = evaluate(predicate.parts[0], source)
        for part in predicate.parts[1:]:
            total = join(total, evaluate(part, source))
        return total
    if isinstance(predicate, LabelIs):
        if source.labels is None:
            raise GoalError(f"{predicate} needs labels, and {source.title} has no y.")
        return _sign(source.labels, predicate.positive)
    if isinstance(predicate, BaselineSays):
        return _sign(source.baselines[predicate.name], predicate.positive)
    if isinstance(predicate, Compare | IsIn | IsNull | IsTrue):
        return _of_column(predicate, _column(predicate, source))
    raise GoalError(f"unknown predicate {predicate!r}.")


def _both(a: Truth, b: Truth) -> Truth:
    true = a.true & b.true
    if a.unknown is None and b.unknown is None:
        return Truth(true, None)
    return Truth(true, _may(a) & _may(b) & ~true)


def _either(a: Truth, b: Truth) -> Truth:
    true = a.true | b.true
    if a.unknown is None or b.unknown is None:
        unknown = b.unknown if a.unknown is None else a.unknown
        return Truth(true, None if unknown is None else unknown & ~true)
    return Truth(true, (a.unknown | b.unknown) & ~true)


def _may(truth: Truth) -> Flags:
    """True or unknown."""
    return truth.true if truth.unknown is None else truth.true | truth.unknown


def _sign(signs: npt.NDArray[np.int8], positive: bool) -> Truth:
    unknown = signs == 0
    return Truth(signs == (1 if positive else -1), unknown if unknown.any() else None)


def _column(predicate: Compare | IsIn | IsNull | IsTrue, source: Source) -> TableColumn:
    if source.table is None:
        where = "populations=table" if source.name is None else f"External(X, populations=table) for {source.name!r}"
        raise DataError(
            f"{predicate} looks at column {predicate.column!r}, and {source.title} has no table; "
            f"give {where}, or X as a data frame."
        )
    return source.table.column(predicate.column)


def _of_column(predicate: Compare | IsIn | IsNull | IsTrue, column: TableColumn) -> Truth:
    missing = column.missing
    if isinstance(predicate, IsNull):
        return Truth(np.zeros(len(column.values), bool) if missing is None else missing, None)
    if column.kind == "empty":
        return Truth(np.zeros(len(column.values), bool), missing)
    if isinstance(predicate, IsTrue):
        if not column.is_binary:
            raise GoalError(
                f"column {column.name!r} ({column.dtype}) is used as a condition and is not boolean; "
                f"compare it, for example col({column.name!r}) == {column.distinct()[0]!r}."
            )
        true = column.values != 0
    elif isinstance(predicate, IsIn):
        true = _is_in(column, predicate.values)
    else:
        true = _compare(column, predicate.op, predicate.value)
    return Truth(true if missing is None else true & ~missing, missing)


def _compare(column: TableColumn, op: str, value: Scalar) -> Flags:
    """`column op value`; what it says where the value is missing is overwritten by the caller."""
    _check_type(column, value)
    if column.kind == "string":
        text = str(value)
        levels, codes = column.categories, column.values
        start, stop = (
            bisect.bisect_left(levels, text),
            bisect.bisect_right(levels, text),
        )  # codes in the order of the text
        if op in ("==", "!="):
            if start == stop:
                raise _absent(column, [text], empty=op == "==")
            return np.asarray(OPERATORS[op](codes, start))
        threshold = start if op in ("<", ">=") else stop
        return np.asarray(codes < threshold if op in ("<", "<=") else codes >= threshold)
    constant: Any = np.datetime64(moment_of(column, value), "us") if column.kind == "date" else value
    return np.asarray(OPERATORS[op](column.values, constant))


def _is_in(column: TableColumn, values: Sequence[Scalar]) -> Flags:
    for value in values:
        _check_type(column, value)
    if column.kind == "string":
        place = {level: code for code, level in enumerate(column.categories)}
        absent = [value for value in values if value not in place]
        if len(absent) == len(values):
            raise _absent(column, absent, empty=True)
        if absent:
            warn(
                f"column {column.name!r} has no value {listing(absent)}; {len(values) - len(absent)} of the "
                f"{len(values)} values asked for are there.{_known(column, absent[0])}",
                GoalWarning,
            )
        wanted = np.zeros(len(column.categories) + 1, bool)  # the last entry is met by the code -1 of a missing value
        wanted[[place[str(value)] for value in values if value in place]] = True
        return np.asarray(wanted[column.values])
    if column.kind == "date":
        moments = np.array([moment_of(column, value) for value in values], dtype="datetime64[us]")
        return np.isin(column.values, moments)
    return np.isin(column.values, np.array(values))


def _check_type(column: TableColumn, value: Scalar) -> None:
    """Refuse a comparison of a column with a value of another type."""
    if column.kind in ("string", "date"):
        fits = isinstance(value, str)
    elif isinstance(value, str):
        fits = False
    elif column.kind == "boolean" or isinstance(value, bool):
        fits = column.is_binary and value in (0, 1)
    else:
        fits = True
    if not fits:
        name = {"string": "text", "number": "numbers", "boolean": "booleans", "date": "dates"}[column.kind]
        cure = {"string": "Quote the value", "number": "Write a number, without quotes", "date": "Write it as a text",
                "boolean": "Write True or False"}[column.kind]  # fmt: skip
        raise GoalError(
            f"column {column.name!r} holds {name} ({column.dtype}) and is compared with {value!r} "
            f"({type(value).__name__}); its values are like {listing(column.distinct(), 3)}. {cure}."
        )


def _absent(column: TableColumn, values: Sequence[Scalar], *, empty: bool) -> GoalError:
    so = ", so the population is empty on these rows" if empty else " on these rows"
    return GoalError(f"column {column.name!r} has no value {listing(values)}{so}.{_known(column, values[0])}")


def _known(column: TableColumn, wanted: object) -> str:
    """The values there are, and another spelling of the wanted one among them."""
    hint = close_match(wanted, column.categories, cutoff=NEAR_SPELLING)
    return f" The values there are: {listing(column.categories)}.{hint}"


def moment_of(column: TableColumn, value: Scalar) -> datetime.datetime:
    """An ISO date or time that dates are compared with; with a time zone it is turned into UTC, as the column is."""
    try:
        moment = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        raise GoalError(
            f"column {column.name!r} holds dates ({column.dtype}) and is compared with {value!r}; write an ISO date, "
            "for example '2024-12-31'."
        ) from None
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)
