"""What a goal can tell apart in a column: its own constants, what lies between them, and a missing value.

Where rows are counted and not kept, a column is cut into these regions, and each region remembers the least value that
was seen in it. A table of these values answers every predicate of the goal as the rows themselves would, and so gives
the same populations, errors and warnings, whatever the blocks were in which the rows came.
"""

import bisect
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin.exceptions import DataError, GoalError
from widemargin.goals.binding.columns import Scalar, TableColumn
from widemargin.goals.binding.membership import moment_of
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.populations import EVERYONE, Population
from widemargin.goals.language.predicates import Compare, IsIn, IsNull, IsTrue
from widemargin.goals.language.values import ColumnName

__all__ = ["COUNTED", "ColumnDigest", "ColumnUse", "CountingLimits", "columns_used"]


@dataclasses.dataclass(frozen=True)
class CountingLimits:
    """How much is kept of rows that are counted and forgotten.

    Attributes
    ----------
    kinds : int
        Most kinds of rows; a goal over a few columns has some hundreds. Each is an entry of a Python dict.
    values : int
        Most distinct values of a column whose values are all compared with each other (a bundle's).
    texts : int
        Texts kept of a column beside the goal's own, so that a message can say what values there are.
    """

    kinds: int = 1_000_000
    values: int = 10_000
    texts: int = 100


COUNTED = CountingLimits()
Key = Scalar | None


@dataclasses.dataclass(frozen=True)
class ColumnUse:
    """The constants that a goal compares a column with, and whether every single value matters (bundles)."""

    constants: frozenset[Scalar] = frozenset()
    every_value: bool = False

    def joined(self, other: "ColumnUse") -> "ColumnUse":
        """What either needs."""
        return ColumnUse(self.constants | other.constants, self.every_value or other.every_value)


def columns_used(goal: Goal) -> dict[str | None, dict[ColumnName, ColumnUse]]:
    """By source (None: the main rows) and column, how a goal looks at it."""
    uses: dict[str | None, dict[ColumnName, ColumnUse]] = {}

    def note(source: str | None, column: ColumnName, use: ColumnUse) -> None:
        columns = uses.setdefault(source, {})
        columns[column] = use.joined(columns.get(column, ColumnUse()))

    def note_population(population: Population) -> None:
        for leaf in () if population.where is None else population.where.leaves():
            if isinstance(leaf, Compare | IsIn | IsNull | IsTrue):
                note(population.source, leaf.column, ColumnUse(frozenset(_constants(leaf))))

    singles = [entry for entry in goal.constraints if isinstance(entry, Constraint)]
    for form in (goal.objective, *(side for entry in singles for side in (entry.lhs, entry.rhs))):
        for rate in form.rates:
            note_population(rate.population)
    for entry in goal.constraints:
        if isinstance(entry, Bundle):
            within = EVERYONE if entry.population is None else entry.population
            note_population(within)
            note(within.source, entry.column, ColumnUse(frozenset(entry.values or ()), entry.values is None))
    return uses


def _constants(leaf: Compare | IsIn | IsNull | IsTrue) -> Iterable[Scalar]:
    values: tuple[Scalar, ...] = ()
    if isinstance(leaf, Compare):
        values = (leaf.value,)
    elif isinstance(leaf, IsIn):
        values = leaf.values
    if isinstance(leaf, IsTrue) or any(isinstance(value, bool) for value in values):
        return 0, 1  # whether a column of numbers holds nothing else decides whether it may be asked so
    return values


class ColumnDigest:
    """The regions of one column, over all the blocks that were seen; digests of parts of the rows can be joined."""

    def __init__(self, name: ColumnName, use: ColumnUse) -> None:
        self.name, self.use = name, use
        self._kind: Any = "empty"
        self._dtype = ""
        self._type: np.dtype[Any] | None = None
        self._least: dict[Key, Any] = {}
        self._texts: frozenset[str] = frozenset()

    def encode(self, column: TableColumn) -> tuple[npt.NDArray[np.int64], list[Key]]:
        """A small number for each row, and the key that each number stands for (None: missing).

        Raises
        ------
        DataError
            If the block holds another type than the blocks before, or the column too many values.
        """
        self._learn(column.kind, column.dtype, None if column.kind == "string" else column.values.dtype)
        n = len(column.values)
        if column.kind == "empty":
            return np.zeros(n, np.int64), [None]
        keys = self._text_keys(column) if column.kind == "string" else None
        if keys is not None:
            codes = column.values.astype(np.int64)
        else:
            codes, keys = self._value_keys(column)
        if column.missing is not None:
            codes = np.where(column.missing, len(keys), codes)
        present, numbers = np.unique(codes, return_inverse=True)
        return numbers.astype(np.int64), [keys[code] if code < len(keys) else None for code in present.tolist()]

    def _text_keys(self, column: TableColumn) -> list[Key]:
        texts = sorted(value for value in self.use.constants if isinstance(value, str))
        categories = column.categories
        self._keep_texts(categories)
        if self.use.every_value:
            present = [categories[code] for code in np.unique(column.values).tolist() if code >= 0]
            self._least.update({text: text for text in present})
            self._check_number()
            return list(categories)
        keys: list[Key] = [2 * (place := bisect.bisect_left(texts, text)) + int(text in texts[place : place + 1])
                           for text in categories]  # fmt: skip
        for code in np.unique(column.values).tolist():
            if code >= 0:
                self._note(keys[code], categories[code])
        return keys

    def _value_keys(self, column: TableColumn) -> tuple[npt.NDArray[np.int64], list[Key]]:
        values, known = column.values, ~_missing(column)
        if self.use.every_value:
            distinct, codes = np.unique(values, return_inverse=True)
            keys = [str(value) for value in distinct] if column.kind == "date" else distinct.tolist()
            for code in np.unique(codes[known]).tolist():
                self._least[keys[code]] = distinct[code]
            self._check_number()
            return codes.astype(np.int64), keys
        codes = np.zeros(len(values), np.int64)
        constants = self._comparable(column)
        for constant in constants:
            codes += 2 * (values > constant)
            codes += values == constant
        for code in np.unique(codes[known]).tolist():
            self._note(code, values[known & (codes == code)].min())
        return codes, list(range(2 * len(constants) + 1))

    def _comparable(self, column: TableColumn) -> list[Any]:
        """Constants of the column's own type, in order; others are refused when the goal is bound."""
        if column.kind != "date":
            return sorted({value for value in self.use.constants if not isinstance(value, str)})
        moments = []
        for value in self.use.constants:
            try:
                moments.append(np.datetime64(moment_of(column, value), "us"))
            except GoalError:
                continue
        return sorted(set(moments))

    def _note(self, key: Key, value: np.generic | Scalar) -> None:
        self._least[key] = min(self._least[key], value) if key in self._least else value

    def _keep_texts(self, texts: Iterable[str]) -> None:
        """Constants and the first few others: which ones does not depend on the order in which they came."""
        wanted = {value for value in self.use.constants if isinstance(value, str)}
        everything = self._texts.union(texts)
        self._texts = frozenset([*(everything & wanted), *sorted(everything - wanted)[: COUNTED.texts]])

    def _check_number(self) -> None:
        if len(self._least) > COUNTED.values:
            raise DataError(
                f"column {self.name!r} has more than {COUNTED.values} distinct values, and the goal compares them all. "
                "Group the values, or list some with values=."
            )

    def _learn(self, kind: str, dtype: str, found: np.dtype[Any] | None) -> None:
        if kind == "empty":
            self._dtype = self._dtype or dtype
            return
        if self._kind not in ("empty", kind):
            raise DataError(
                f"column {self.name!r} holds {self._kind} values ({self._dtype}) in one block of rows and {kind} "
                f"values ({dtype}) in another. Give it one type."
            )
        if self._kind == "empty":
            self._kind, self._dtype = kind, dtype
        if found is not None:
            self._type = found if self._type is None else np.result_type(self._type, found)

    def join(self, other: "ColumnDigest") -> None:
        """Take in what another digest of the same column has seen."""
        self._learn(other._kind, other._dtype, other._type)
        for key, value in other._least.items():
            self._note(key, value)
        self._keep_texts(other._texts)
        if self.use.every_value:
            self._check_number()

    def column(self, keys: Sequence[Key]) -> TableColumn:
        """A column that the goal's predicates cannot tell from the one that was digested, a value for each key."""
        missing = np.array([key is None for key in keys], dtype=bool)
        absent = missing if missing.any() else None
        if self._kind == "empty":
            return TableColumn(self.name, "empty", self._dtype, np.zeros(len(keys), np.int8), missing)
        if self._kind == "string":
            categories = tuple(sorted(self._texts.union(self._least.values())))
            place = {text: code for code, text in enumerate(categories)}
            codes = np.array([-1 if key is None else place[self._least[key]] for key in keys], dtype=np.int32)
            return TableColumn(self.name, "string", self._dtype, codes, absent, categories)
        fill = next(iter(self._least.values()))
        values = np.array([fill if key is None else self._least[key] for key in keys]).astype(self._type)
        return TableColumn(self.name, self._kind, self._dtype, values, absent)


def _missing(column: TableColumn) -> npt.NDArray[np.bool_]:
    return np.zeros(len(column.values), bool) if column.missing is None else column.missing
