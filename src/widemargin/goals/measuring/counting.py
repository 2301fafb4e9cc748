"""Counts of the rows of one source, which are all that rates, reports and intervals need.

Rows with the same label, prediction, baselines, weight and regions of columns are one kind. A kind holds its number of
rows, their weight and the ramp's share of it. Kinds of parts of the rows can be joined in any order, here or in other
processes, and `CountedRows.counted` turns them into a `Source` that is bound like rows.

What a goal can tell apart in a column is its own constants, what lies between them, and a missing value. A column is
cut into these regions, and each region remembers the least value that was seen in it. A table of these values answers
every predicate of the goal as the rows themselves would, and so gives the same populations, errors and warnings,
whatever the blocks were in which the rows came.
"""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin._typing import Bools, Cells, Floats, Label, Signs
from widemargin.exceptions import DataError, GoalError
from widemargin.goals.binding.cells import Packer
from widemargin.goals.binding.membership import moment_of
from widemargin.goals.binding.sources import Repeats, Source
from widemargin.goals.binding.tables import PopulationTable, Scalar, TableColumn
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.predicates import OfColumn
from widemargin.goals.language.values import ColumnName
from widemargin.goals.measuring.bootstrap import BOOTSTRAP, weight_level

Key = Scalar | None
Field: TypeAlias = tuple[npt.NDArray[Any], list[Key]]
"""A small number for each row, and what each number stands for."""


@dataclass(frozen=True)
class CountingLimits:
    """Limits of what is stored of rows that are counted and dropped.

    Attributes
    ----------
    kinds : int
        Most kinds of rows; a goal over a few columns has some hundreds. Each is an entry of a Python dict.
    values : int
        Most distinct values of a column whose values are all compared with each other (a bundle's).
    texts : int
        Texts stored of a column beside the goal's own, so that a message can say what values there are.
    """

    kinds: int = 1_000_000
    values: int = 10_000
    texts: int = 100


COUNTED = CountingLimits()


class ColumnUse(NamedTuple):
    """The constants that a goal compares a column with, and whether every single value matters (bundles).

    Rows may lack a column that nothing but watched groups look at (`is_needed` is false): no row is in them then.
    """

    constants: frozenset[Scalar] = frozenset()
    every_value: bool = False
    is_needed: bool = True


def columns_used(goal: Goal) -> dict[str | None, dict[ColumnName, ColumnUse]]:
    """By source (None: the main rows) and column, how a goal looks at it."""
    uses: dict[str | None, dict[ColumnName, ColumnUse]] = {}

    def note(
        source: str | None, column: ColumnName, constants: Iterable[Scalar], *, every: bool = False, needed: bool = True
    ) -> None:
        columns = uses.setdefault(source, {})
        before = columns.get(column, ColumnUse(is_needed=False))
        columns[column] = ColumnUse(
            before.constants.union(constants), before.every_value or every, before.is_needed or needed
        )

    for entry in goal.constraints:
        if isinstance(entry, Bundle):
            note(entry.within.source, entry.column, entry.values or (), every=entry.values is None)
    spoken_of = [population for entry in (goal.objective, *goal.constraints) for population in entry.populations]
    for population in (*spoken_of, *goal.watched):
        for leaf in population.leaves:
            if isinstance(leaf, OfColumn):
                # Whether a column of numbers holds nothing but 0 and 1 decides whether it may be asked for truth.
                truth = any(isinstance(value, bool) for value in leaf.constants)
                constants = (0, 1) if truth else leaf.constants
                note(population.source, leaf.column, constants, needed=population in spoken_of)
    return uses


class ColumnDigest:
    """The regions of one column, over all the blocks that were seen; digests of parts of the rows can be joined."""

    def __init__(self, name: ColumnName, use: ColumnUse) -> None:
        self.name, self.use = name, use
        self._kind: Any = "empty"
        self._dtype = ""
        self._type: np.dtype[Any] | None = None
        self._least: dict[Key, Any] = {}
        self._texts: frozenset[str] = frozenset()

    def encode(self, column: TableColumn) -> Field:
        """A small number for each row, and the key that each number stands for (None: missing).

        Raises
        ------
        DataError
            If the block holds another type than the blocks before, or the column too many values.
        """
        self._learn(column.kind, column.dtype, None if column.kind == "string" else column.values.dtype)
        values = column.values
        if column.kind == "empty":
            return np.zeros(len(values), np.int64), [None]
        present = np.ones(len(values), bool) if column.missing is None else ~column.missing
        keys: list[Key]
        distinct: Any = column.categories
        if column.kind == "string":
            self._keep_texts(distinct)
            codes, keys, texts = values.astype(np.int64), list(distinct), self._constants(column)
            if not self.use.every_value:
                # Even numbers stand for what lies between the goal's own texts, odd ones for these texts: all that `<`,
                # `==` and the like can tell apart.
                keys = [bisect.bisect_left(texts, text) + bisect.bisect_right(texts, text) for text in distinct]
        elif self.use.every_value:
            distinct, codes = np.unique(values, return_inverse=True)
            keys = [str(value) for value in distinct] if column.kind == "date" else distinct.tolist()
        else:
            distinct, codes, constants = None, np.zeros(len(values), np.int64), self._constants(column)
            for constant in constants:
                codes += 2 * (values > constant)
                codes += values == constant
            keys = list(range(2 * len(constants) + 1))
        # One value stands for a whole region. The least one is the same in whatever blocks the rows come.
        for code in np.unique(codes[present]).tolist():
            self._note(keys[code], values[present & (codes == code)].min() if distinct is None else distinct[code])
        shown, numbers = np.unique(np.where(present, codes, len(keys)), return_inverse=True)
        return numbers.astype(np.int64), [keys[code] if code < len(keys) else None for code in shown.tolist()]

    def _constants(self, column: TableColumn) -> list[Any]:
        """The goal's constants of the column's own type, in order; others are refused when the goal is bound."""
        as_text = column.kind in ("string", "date")
        constants: set[Any] = {value for value in self.use.constants if isinstance(value, str) == as_text}
        if column.kind == "date":
            texts, constants = constants, set()
            for text in texts:
                try:
                    constants.add(np.datetime64(moment_of(column, text), "us"))
                except GoalError:
                    continue
        return sorted(constants)

    def _note(self, key: Key, value: np.generic | Scalar) -> None:
        self._least[key] = min(self._least[key], value) if key in self._least else value
        if self.use.every_value and len(self._least) > COUNTED.values:
            raise DataError(
                f"column {self.name!r} has more than {COUNTED.values} distinct values, and the goal compares them all. "
                "Group the values, or list some with values=."
            )

    def _keep_texts(self, texts: Iterable[str]) -> None:
        """Constants and the first few others: which ones does not depend on the order in which they came."""
        everything = self._texts.union(texts)
        others = sorted(everything - self.use.constants)[: COUNTED.texts]
        self._texts = frozenset([*(text for text in everything if text in self.use.constants), *others])

    def _learn(self, kind: str, dtype: str, values: np.dtype[Any] | None) -> None:
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
        if values is not None:
            self._type = values if self._type is None else np.result_type(self._type, values)

    def join(self, other: "ColumnDigest") -> None:
        """Take in what another digest of the same column has seen."""
        self._learn(other._kind, other._dtype, other._type)
        for key, value in other._least.items():
            self._note(key, value)
        self._keep_texts(other._texts)

    def column(self, keys: Sequence[Key]) -> TableColumn:
        """A column that the goal's predicates cannot tell from the one that was digested, a value for each key."""
        missing = np.array([key is None for key in keys], dtype=bool)
        if self._kind == "empty":
            return TableColumn(self.name, "empty", self._dtype, np.zeros(len(keys), np.int8), missing)
        if self._kind == "string":
            categories = tuple(sorted(self._texts.union(self._least.values())))
            place = {text: code for code, text in enumerate(categories)}
            codes = np.array([-1 if key is None else place[self._least[key]] for key in keys], dtype=np.int32)
            return TableColumn(self.name, "string", self._dtype, codes, missing, categories)
        fill = next(iter(self._least.values()))
        values = np.array([fill if key is None else self._least[key] for key in keys]).astype(self._type)
        return TableColumn(self.name, self._kind, self._dtype, values, missing)


class Counted(NamedTuple):
    """Counted rows, ready to be tied to a goal: a source, and what was predicted for each of its entries.

    Attributes
    ----------
    positive : ndarray of bool, shape (n_entries,)
        Of several classes the number of the predicted one.
    ramp : ndarray of shape (n_entries,) or None
        Mean probability of the randomised classifier.
    """

    source: Source
    positive: npt.NDArray[Any]
    ramp: Floats | None


class CountedRows:
    """Kinds of rows of one source.

    Parameters
    ----------
    name : str or None
        Of the source.
    uses : mapping of column to ColumnUse
        What the goal looks at here.
    baselines : sequence of str
        Whose predictions it looks at.
    """

    def __init__(self, name: str | None, uses: Mapping[ColumnName, ColumnUse], baselines: Sequence[str]) -> None:
        self.name = name
        self.n_rows = 0
        self._baselines = tuple(baselines)
        self._digests = {column: ColumnDigest(column, use) for column, use in uses.items()}
        self._has: dict[str, bool] = {}
        self._weights: frozenset[float] = frozenset()
        self._binned = False
        self._kinds: dict[tuple[Key, ...], tuple[int, float, float]] = {}

    def add(self, source: Source, positive: Bools | Signs, ramp: Floats | None) -> None:
        """Count the rows of a block; memory grows with new kinds only."""
        self._agree({"labels": source.labels is not None, "ramp": ramp is not None})
        weight = np.ones(source.n_rows) if source.weight is None else source.weight
        labels, *others = self._fields(source)
        # Rows of one weight are one kind while there are few weights; beyond, weights of one bin are averaged, as in
        # the bootstrap, so that the number of kinds stays small.
        values, codes = np.unique(weight, return_inverse=True)
        self._learn_weights(frozenset() if self._binned else frozenset(values.tolist()), binned=False)
        if self._binned:
            values, coarse = np.unique(weight_level(values), return_inverse=True)
            codes = coarse[codes]
        cell, kinds = _kinds(source.n_rows, [labels, _small(positive), *others, (codes, values.tolist())])
        count = np.bincount(cell, minlength=len(kinds)).tolist()
        total = np.bincount(cell, weight, len(kinds)).tolist()
        shares = [0.0] * len(kinds) if ramp is None else np.bincount(cell, weight * ramp, len(kinds)).tolist()
        for key, *sums in zip(kinds, count, total, shares, strict=True):
            self._note(key, *sums)
        self.n_rows += source.n_rows

    def _fields(self, source: Source) -> list[Field]:
        """What tells rows apart whoever predicts: label, baselines, and the regions of columns that the goal knows."""
        labels = np.zeros(source.n_rows, np.int8) if source.labels is None else source.labels
        fields: list[Field] = [_small(labels)]
        fields += [_small(source.baselines[name]) for name in self._baselines]
        for name, digest in self._digests.items():
            if source.table is None:
                where = "populations=table" + ("" if source.name is None else f" for external {source.name!r}")
                raise DataError(f"the goal looks at column {name!r}, and {source.title} has no table; give {where}.")
            if digest.use.is_needed or name in source.table.columns:
                column = source.table.column(name)
            else:
                values = np.zeros(source.n_rows, np.int8)
                column = TableColumn(name, "empty", "absent", values, np.ones(source.n_rows, bool))
            fields.append(digest.encode(column))
        return fields

    def numbers(self, source: Source, of_kind: Cells) -> Cells:
        """For each row of a source whose rows have been counted, the number of its kind.

        Parameters
        ----------
        of_kind : ndarray of int32
            A number for each entry of `counted()`; kinds that differ in nothing but their weight or prediction have the
            same.

        Returns
        -------
        ndarray of int32, shape (n_rows,)
        """
        number_of_kind = {
            (key[0], *key[2:-1]): number for key, number in zip(self._ordered(), of_kind.tolist(), strict=True)
        }
        cell, kinds = _kinds(source.n_rows, self._fields(source))
        return np.array([number_of_kind[kind] for kind in kinds], dtype=np.int32)[cell]

    def join(self, other: "CountedRows") -> None:
        """Take in the kinds of other rows of the same source."""
        if not other.n_rows:
            return
        if (other.name, other._baselines, [*other._digests]) != (self.name, self._baselines, [*self._digests]):
            raise DataError("counts of different goals or sources cannot be merged. Count both for the same goal.")
        self._agree(other._has)
        # Digests first: they refuse a column that holds texts here and numbers there, before any count is changed.
        for column, digest in self._digests.items():
            digest.join(other._digests[column])
        self._learn_weights(other._weights, binned=other._binned)
        self._take_in(other._kinds, binned=self._binned and not other._binned)
        self.n_rows += other.n_rows

    def _note(self, key: tuple[Key, ...], count: int, weight: float, share: float) -> None:
        before = self._kinds.get(key, (0, 0.0, 0.0))
        self._kinds[key] = (before[0] + count, before[1] + weight, before[2] + share)
        if len(self._kinds) > COUNTED.kinds:
            raise DataError(
                f"the goal tells more than {COUNTED.kinds} kinds of rows apart, too many to count. Use fewer or "
                "coarser columns in its populations and bundles, or measure the rows in memory by widemargin.audit."
            )

    def _take_in(self, kinds: Mapping[tuple[Key, ...], tuple[int, float, float]], *, binned: bool) -> None:
        """Add kinds; `binned` puts the level of their weight in its place."""
        for key, sums in kinds.items():
            self._note((*key[:-1], float(weight_level(float(key[-1] or 0.0)))) if binned else key, *sums)

    def _agree(self, has: dict[str, bool]) -> None:
        """Every block has labels or none has, and likewise probabilities of the ramp."""
        for what, given in has.items():
            if self._has.setdefault(what, given) != given:
                raise DataError(f"some blocks of rows have {what} and others none. Give them with every block.")

    def _learn_weights(self, weights: frozenset[float], *, binned: bool) -> None:
        """Keep weights apart while they are few, as the bootstrap does; beyond, by their level."""
        self._weights |= weights
        if not self._binned and (binned or len(self._weights) > BOOTSTRAP.weights):
            self._binned, self._weights = True, frozenset()
            kinds, self._kinds = self._kinds, {}
            self._take_in(kinds, binned=True)

    def _ordered(self) -> list[tuple[Key, ...]]:
        """The kinds in the order of the entries; a missing value comes last."""
        return sorted(self._kinds, key=lambda kind: [(part is None, 0 if part is None else part) for part in kind])

    def counted(self, classes: tuple[Label, ...] = ()) -> Counted:
        """The kinds as entries of a source with these classes, in an order that depends on their content alone."""
        if not self._kinds:
            raise DataError(f"{'the data' if self.name is None else f'external {self.name!r}'} has no rows.")
        kinds = self._ordered()
        count, total, share = (np.array(part) for part in zip(*(self._kinds[kind] for kind in kinds), strict=True))
        label, predicted, *others = zip(*kinds, strict=True)
        n_baselines = len(self._baselines)
        signs = [np.array(values, np.int16) for values in others[:n_baselines]]
        columns = zip(self._digests.items(), others[n_baselines:-1], strict=True)
        table = {name: digest.column(keys) for (name, digest), keys in columns}
        weight = total / count if self._binned else np.array(others[-1], dtype=np.float64)
        source = Source(
            self.name,
            np.array(label, np.int16) if self._has["labels"] else None,
            weight if self._binned or self._weights != {1.0} else None,
            PopulationTable(len(kinds), dict.fromkeys(table, table.__getitem__), table) if table else None,
            dict(zip(self._baselines, signs, strict=True)),
            len(kinds),
            Repeats(count.astype(np.int64), self._binned),
            classes,
        )
        ramp = np.divide(share, total, out=np.zeros(len(kinds)), where=total > 0) if self._has["ramp"] else None
        return Counted(source, np.array(predicted, np.int16) if source.several else np.array(predicted) > 0, ramp)


def _small(values: npt.NDArray[Any]) -> Field:
    """Small integers as a field: labels, or what is predicted."""
    least = int(values.min(initial=0))
    return values.astype(np.int64) - least, list(range(least, int(values.max(initial=0)) + 1))


def _kinds(n_rows: int, fields: Sequence[Field]) -> tuple[Cells, list[tuple[Key, ...]]]:
    """The number of each row's kind, and the keys of each kind, one a field."""
    packer = Packer(n_rows)
    for codes, keys in fields:
        packer.add(codes, max(1, (len(keys) - 1).bit_length()))
    cell, _, n_kinds = packer.finish()
    # Keys are Python objects, so they are looked up once a kind, at its first row: written from the last row to the
    # first, the first one stays.
    first = np.empty(n_kinds, np.intp)
    first[cell[::-1]] = np.arange(n_rows - 1, -1, -1)
    columns = [[keys[code] for code in codes[first].tolist()] for codes, keys in fields]
    return cell, list(zip(*columns, strict=True))
