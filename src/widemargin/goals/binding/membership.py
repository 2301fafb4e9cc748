"""Which rows belong to a population: predicates in three-valued logic.

A comparison with a missing value is neither true nor false but unknown, `not` leaves it unknown, and a row on which the
whole predicate is unknown is in no population. Only `is_null()` is always known. Two populations can be disjoint by
their definitions, whatever rows there are.
"""

import bisect
import contextlib
import datetime
import operator
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np

from widemargin._text import close_match, folded, listing
from widemargin._typing import Bools
from widemargin.exceptions import DataError, GoalError, GoalWarning, warn
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable, Scalar, TableColumn, column_of
from widemargin.goals.language import predicates
from widemargin.goals.language.populations import Population

__all__ = ["Truth", "disjoint", "evaluate", "members", "moment_of"]

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Truth(NamedTuple):
    """Rows on which a predicate is true and rows on which it may be true, as it is unknown on the difference.

    Attributes
    ----------
    true : ndarray of bool, shape (n,)
        False where unknown.
    may : ndarray of bool, shape (n,)
        True where unknown; the same array as `true` where everything is known.
    """

    true: Bools
    may: Bools

    @property
    def unknown(self) -> Bools | None:
        """Rows on which it is unknown; None where everything is known."""
        return None if self.may is self.true else self.may & ~self.true


def members(population: Population, source: Source) -> Truth:
    """Rows of a source that belong to a population, and rows that may.

    Raises
    ------
    GoalError
        On a column, value or type that the data do not have; the message names the population.
    DataError
        If there is no table at all.
    """
    if population.where is None:
        everywhere = np.ones(source.n_rows, bool)
        return Truth(everywhere, everywhere)
    try:
        return evaluate(population.where, source)
    except (GoalError, DataError) as error:
        if population.name is None:
            raise
        raise type(error)(f"population {population.name!r}: {error}") from None


def evaluate(predicate: predicates.Predicate, source: Source) -> Truth:
    """Evaluate a predicate on every row of a source (Kleene's strong three-valued logic)."""
    unknown: Bools | None
    if isinstance(predicate, predicates.Not):
        true, may = evaluate(predicate.part, source)
        not_true = ~true
        return Truth(not_true if may is true else ~may, not_true)
    if isinstance(predicate, predicates.And | predicates.Or):
        # "and" and "or" act on what is true and on what may be true alike; a third value would follow from the two.
        join = np.logical_and if isinstance(predicate, predicates.And) else np.logical_or
        true, may = evaluate(predicate.parts[0], source)
        for part in predicate.parts[1:]:
            other = evaluate(part, source)
            all_known = may is true and other.may is other.true
            true = join(true, other.true)
            may = true if all_known else join(may, other.may)
        return Truth(true, may)
    if isinstance(predicate, predicates.LabelIs | predicates.BaselineSays):
        rows = source.whole or source
        numbers = rows.labels if isinstance(predicate, predicates.LabelIs) else rows.baselines[predicate.name]
        if numbers is None:
            raise GoalError(f"{predicate} needs labels, and {source.title} has no y.")
        signs = rows.signs(numbers, predicate.of, predicate)
        true, unknown = signs == (1 if predicate.positive else -1), signs == 0
        return Truth(true, true | unknown if unknown.any() else true)
    if not isinstance(predicate, predicates.Compare | predicates.IsIn | predicates.IsNull | predicates.IsTrue):
        raise GoalError(f"unknown predicate {predicate!r}.")
    if source.table is None:
        where = (
            "populations=table (STEP__populations= in a pipeline)"
            if source.name is None
            else f"External(X, populations=table) for {source.name!r}"
        )
        raise DataError(
            f"{predicate} looks at column {predicate.column!r}, and {source.title} has no table; "
            f"give {where}, or X as a data frame."
        )
    column = source.table.column(predicate.column)
    true, unknown = np.zeros(len(column.values), bool), column.missing
    if isinstance(predicate, predicates.IsNull):
        true, unknown = true if unknown is None else unknown, None
    elif column.kind == "empty":
        pass  # nothing is true of missing values
    elif isinstance(predicate, predicates.IsTrue):
        if not column.is_binary:
            raise GoalError(
                f"column {column.name!r} ({column.dtype}) is used as a condition and is not boolean; "
                f"compare it, for example col({column.name!r}) == {column.distinct()[0]!r}."
            )
        true = column.values != 0
    elif isinstance(predicate, predicates.IsIn):
        true = _is_in(column, predicate.values)
    else:
        true = _compare(column, predicate.op, predicate.value)
    return Truth(true, true) if unknown is None else Truth(true & ~unknown, true | unknown)


def _compare(column: TableColumn, op: str, value: Scalar) -> Bools:
    """`column op value`; what it says where the value is missing is overwritten by the caller."""
    _check_type(column, value)
    if column.kind != "string":
        constant: Any = np.datetime64(moment_of(column, value), "us") if column.kind == "date" else value
        return np.asarray(OPERATORS[op](column.values, constant))
    # Codes are in the order of the texts, so they are compared in place of them.
    codes, start = column.values, bisect.bisect_left(column.categories, str(value))
    stop = bisect.bisect_right(column.categories, str(value))
    if op in ("==", "!="):
        if start == stop:
            so = ", so the population is empty on these rows." if op == "==" else " on these rows."
            raise GoalError(_no_value(column, [value], so))
        _warn_of_spellings(column, [value])
        return np.asarray(OPERATORS[op](codes, start))
    threshold = start if op in ("<", ">=") else stop
    return np.asarray(codes < threshold if op in ("<", "<=") else codes >= threshold)


def _is_in(column: TableColumn, values: Sequence[Scalar]) -> Bools:
    for value in values:
        _check_type(column, value)
    if column.kind == "date":
        moments = np.array([moment_of(column, value) for value in values], dtype="datetime64[us]")
        return np.isin(column.values, moments)
    if column.kind != "string":
        return np.isin(column.values, np.array(values))
    levels, texts = set(column.categories), set(values)
    absent = [value for value in values if value not in levels]
    if len(absent) == len(values):
        raise GoalError(_no_value(column, absent, ", so the population is empty on these rows."))
    if absent:
        there = f"; {len(values) - len(absent)} of the {len(values)} values asked for are there."
        warn(_no_value(column, absent, there), GoalWarning)
    _warn_of_spellings(column, values)
    wanted = [level in texts for level in column.categories]
    return np.asarray(np.array([*wanted, False])[column.values])  # the last is met by the code -1 of a missing value


def _check_type(column: TableColumn, value: Scalar) -> None:
    """Refuse a comparison of a column with a value of another type."""
    fits = isinstance(value, str) == (column.kind in ("string", "date"))
    if fits and (column.kind == "boolean" or isinstance(value, bool)):
        fits = column.is_binary and value in (0, 1)
    if not fits:
        name, cure = {
            "string": ("text", "Quote the value"), "number": ("numbers", "Write a number, without quotes"),
            "date": ("dates", "Write it as a text"), "boolean": ("booleans", "Write True or False"),
        }[column.kind]  # fmt: skip
        raise GoalError(
            f"column {column.name!r} holds {name} ({column.dtype}) and is compared with {value!r} "
            f"({type(value).__name__}); its values are like {listing(column.distinct(), 3)}. {cure}."
        )


def _warn_of_spellings(column: TableColumn, values: Sequence[Scalar]) -> None:
    """Warn where rows are left out of a population, or fall into it, because their value is spelt in another way."""
    asked = {folded(str(value)) for value in values}
    others = [level for level in column.categories if folded(level) in asked and level not in values]
    if others:
        warn(
            f"column {column.name!r} holds {listing(others)} beside {listing(values)}, other values by case or blanks "
            "only. Write each value in one way, or name all spellings by isin.",
            GoalWarning,
        )


def _no_value(column: TableColumn, absent: Sequence[Scalar], so: str) -> str:
    """That a column lacks values, those that it has, and another spelling of the wanted one among them."""
    hint = close_match(absent[0], column.categories, cutoff=0.85)  # Male, no other spelling of Female, has 0.8
    return (
        f"column {column.name!r} has no value {listing(absent)}{so} The values there are: "
        f"{listing(column.categories)}.{hint or ' Name one of these, or give rows with it.'}"
    )


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


def disjoint(first: Population, second: Population) -> bool:
    """Whether no row can belong to both: other data sets, opposite labels or answers, conditions on one column.

    False where the definitions do not show it.
    """
    if first.source != second.source:
        return True
    return any(_exclude(one, other) for one in _parts(first) for other in _parts(second))


def _parts(population: Population) -> Iterator[predicates.Predicate]:
    """Conditions that all rows of a population fulfil."""
    waiting: list[predicates.Predicate] = [] if population.where is None else [population.where]
    while waiting:
        part = waiting.pop()
        if isinstance(part, predicates.And):
            waiting += part.parts
        else:
            yield part


def _exclude(one: predicates.Predicate, other: predicates.Predicate) -> bool:
    """Whether two conditions never hold together."""
    if isinstance(one, predicates.LabelIs) and isinstance(other, predicates.LabelIs):
        return one.positive != other.positive
    if isinstance(one, predicates.BaselineSays) and isinstance(other, predicates.BaselineSays):
        return one.name == other.name and one.positive != other.positive
    if len(one.columns) != 1 or one.columns != other.columns:
        return False
    if any(part.uses_label or part.baselines for part in (one, other)):
        return False
    leaves = [leaf for part in (one, other) for leaf in part.leaves() if isinstance(leaf, predicates.OfColumn)]
    constants = [value for leaf in leaves for value in leaf.constants]
    # A value of every kind that conditions with these constants tell apart.
    if not constants:
        return False
    if all(isinstance(value, bool) for value in constants):
        column = column_of("", [True, False, None])
    elif all(isinstance(value, str) for value in constants):
        words = sorted({str(value) for value in constants})
        column = column_of("", [*words, "other than " + "".join(words), None])
    elif all(isinstance(value, int | float) and not isinstance(value, bool) for value in constants):
        points = np.unique(np.array(constants, dtype=np.float64))
        between = 0.5 * (points[:-1] + points[1:])
        column = column_of("", np.concatenate([points, between, [points[0] - 1.0, points[-1] + 1.0, np.nan]]))
    else:  # constants of several types
        return False
    alone = cast(PopulationTable, SimpleNamespace(n_rows=len(column.values), column=lambda name: column))
    source, both = Source(None, None, None, alone, {}, len(column.values)), np.ones((2, len(column.values)), bool)
    for part, holds in zip((one, other), both, strict=True):
        # A condition of another type is refused by binding, in better words; here it may hold anywhere.
        with contextlib.suppress(GoalError):
            holds[:] = evaluate(part, source).true
    return not both.all(axis=0).any()
