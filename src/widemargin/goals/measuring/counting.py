"""Rows of one source, counted instead of kept: all that rates, reports and intervals need of them.

Rows with the same label, prediction, baselines, weight and regions of columns (`goals/binding/digest.py`) are one
kind. A kind holds its number of rows, their weight and the ramp's share of it. Kinds of parts of the rows can
be joined in any order, here or in other processes, and `source()` turns them into a `Source` that is bound like rows.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.goals.binding.cells import Packer
from widemargin.goals.binding.columns import TableColumn
from widemargin.goals.binding.digest import COUNTED, ColumnDigest, ColumnUse, Key
from widemargin.goals.binding.sources import Repeats, Source
from widemargin.goals.binding.tables import PopulationTable
from widemargin.goals.language.values import ColumnName
from widemargin.goals.measuring.bootstrap import BOOTSTRAP, weight_level

__all__ = ["Counted", "CountedRows"]

Flags = npt.NDArray[np.bool_]
Field: TypeAlias = tuple[npt.NDArray[Any], list[Key]]
"""A small number for each row, and what each number stands for."""


@dataclasses.dataclass(frozen=True, eq=False)
class Counted:
    """Counted rows, ready to be tied to a goal: a source, and what was predicted for each of its entries.

    Attributes
    ----------
    source : Source
    positive : ndarray of bool, shape (n_entries,)
    ramp : ndarray of shape (n_entries,) or None
        Mean probability of the randomised classifier.
    """

    source: Source
    positive: Flags
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
        self._has_labels: bool | None = None
        self._has_ramp: bool | None = None
        self._weights: frozenset[float] = frozenset()
        self._binned = False
        self._kinds: dict[tuple[Key, ...], tuple[int, float, float]] = {}

    def add(self, source: Source, positive: Flags, ramp: Floats | None) -> None:
        """Count the rows of a block; memory grows with new kinds only."""
        self._agree(source.labels is not None, ramp is not None)
        weight = np.ones(source.n_rows) if source.weight is None else source.weight
        labels, *others = self._fields(source)
        cell, kinds = _kinds(source.n_rows, [labels, (positive, [0, 1]), *others, self._levels(weight)])
        count = np.bincount(cell, minlength=len(kinds)).tolist()
        total = np.bincount(cell, weight, len(kinds)).tolist()
        shares = [0.0] * len(kinds) if ramp is None else np.bincount(cell, weight * ramp, len(kinds)).tolist()
        for key, *sums in zip(kinds, count, total, shares, strict=True):
            self._note(key, *sums)
        self.n_rows += source.n_rows

    def _fields(self, source: Source) -> list[Field]:
        """What tells rows apart whoever predicts: label, baselines, and the regions of columns that the goal knows."""
        labels = np.zeros(source.n_rows, np.int8) if source.labels is None else source.labels
        fields: list[Field] = [(labels + 1, [0, 1, 2])]
        fields += [(source.baselines[name] > 0, [0, 1]) for name in self._baselines]
        return [*fields, *(digest.encode(_column(source, column)) for column, digest in self._digests.items())]

    def numbers(self, source: Source, of_kind: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """For each row of a source whose rows have been counted, the number of its kind.

        Parameters
        ----------
        source : Source
        of_kind : ndarray of int32
            A number for each entry of `counted()`; kinds that differ in nothing but their weight or prediction have the
            same.

        Returns
        -------
        ndarray of int32, shape (n_rows,)
        """
        number_of_kind = {
            (key[0], *key[2:-1]): number for (key, _), number in zip(self._ordered(), of_kind.tolist(), strict=True)
        }
        cell, kinds = _kinds(source.n_rows, self._fields(source))
        return np.array([number_of_kind[kind] for kind in kinds], dtype=np.int32)[cell]

    def join(self, other: "CountedRows") -> None:
        """Take in the kinds of other rows of the same source."""
        if not other.n_rows:
            return
        if (other.name, other._baselines, [*other._digests]) != (self.name, self._baselines, [*self._digests]):
            raise DataError("counts of different goals or sources cannot be merged. Count both for the same goal.")
        self._agree(bool(other._has_labels), bool(other._has_ramp))
        # Digests first: they refuse a column that holds texts here and numbers there, before any count is changed.
        for column, digest in self._digests.items():
            digest.join(other._digests[column])
        self._learn_weights(other._weights, binned=other._binned)
        for key, sums in other._kinds.items():
            self._note(self._binned_key(key) if self._binned and not other._binned else key, *sums)
        self.n_rows += other.n_rows

    def _note(self, key: tuple[Key, ...], count: int, weight: float, share: float) -> None:
        before = self._kinds.get(key, (0, 0.0, 0.0))
        self._kinds[key] = (before[0] + count, before[1] + weight, before[2] + share)
        if len(self._kinds) > COUNTED.kinds:
            raise DataError(
                f"the goal tells more than {COUNTED.kinds} kinds of rows apart, too many to count. Use fewer or "
                "coarser columns in its populations and bundles, or measure the rows in memory by widemargin.audit."
            )

    def _agree(self, has_labels: bool, has_ramp: bool) -> None:
        """Every block has labels or none has, and likewise probabilities of the ramp."""
        for what, before, now in (("labels", self._has_labels, has_labels), ("ramp", self._has_ramp, has_ramp)):
            if before is not None and before != now:
                raise DataError(f"some blocks of rows have {what} and others none. Give them with every block.")
        self._has_labels, self._has_ramp = has_labels, has_ramp

    def _learn_weights(self, weights: frozenset[float], *, binned: bool) -> None:
        """Keep weights apart while they are few, as the bootstrap does; beyond, by their level."""
        self._weights |= weights
        if self._binned or not (binned or len(self._weights) > BOOTSTRAP.weights):
            return
        self._binned, self._weights = True, frozenset()
        kinds, self._kinds = self._kinds, {}
        for key, sums in kinds.items():
            self._note(self._binned_key(key), *sums)

    def _levels(self, weight: Floats) -> tuple[npt.NDArray[np.int64], list[Key]]:
        """Code and key of each weight: itself, or its level where there are many."""
        values, codes = np.unique(weight, return_inverse=True)
        self._learn_weights(frozenset() if self._binned else frozenset(values.tolist()), binned=False)
        if self._binned:
            values, coarse = np.unique(weight_level(values), return_inverse=True)
            codes = coarse[codes]
        return codes.astype(np.int64), values.tolist()

    def _binned_key(self, key: tuple[Key, ...]) -> tuple[Key, ...]:
        return (*key[:-1], float(weight_level(float(key[-1] or 0.0))))

    def _ordered(self) -> list[tuple[tuple[Key, ...], tuple[int, float, float]]]:
        """The kinds in the order of the entries."""
        return sorted(self._kinds.items(), key=_order)

    def counted(self) -> Counted:
        """The kinds as entries of a source, in an order that depends on nothing but their content."""
        if not self._kinds:
            raise DataError(f"{'the data' if self.name is None else f'external {self.name!r}'} has no rows.")
        kinds = self._ordered()
        count, total, share = (np.array(part) for part in zip(*(sums for _, sums in kinds), strict=True))
        fields = list(zip(*(key for key, _ in kinds), strict=True))
        label, said, *others = fields
        signs = {
            name: (2 * np.array(values) - 1).astype(np.int8)
            for name, values in zip(self._baselines, others, strict=False)
        }
        columns = zip(self._digests.items(), others[len(signs) : -1], strict=True)
        table = {name: digest.column(keys) for (name, digest), keys in columns}
        weight = None
        if self._binned or self._weights != {1.0}:
            weight = total / count if self._binned else np.array(fields[-1], dtype=np.float64)
        source = Source(
            self.name,
            np.array(label, dtype=np.int8) - np.int8(1) if self._has_labels else None,
            weight,
            PopulationTable.of_columns(table, len(kinds)) if table else None,
            signs,
            len(kinds),
            Repeats(count.astype(np.int64), self._binned),
        )
        ramp = None
        if self._has_ramp:
            ramp = np.divide(share, total, out=np.zeros(len(kinds)), where=total > 0)
        return Counted(source, np.array(said) > 0, ramp)


def _kinds(n_rows: int, fields: Sequence[Field]) -> tuple[npt.NDArray[np.int32], list[tuple[Key, ...]]]:
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


def _column(source: Source, name: ColumnName) -> TableColumn:
    if source.table is None:
        where = "populations=table" if source.name is None else f"populations=table for external {source.name!r}"
        raise DataError(f"the goal looks at column {name!r}, and {source.title} has no table; give {where}.")
    return source.table.column(name)


def _order(kind: tuple[tuple[Key, ...], Any]) -> tuple[tuple[bool, Any], ...]:
    return tuple((key is None, 0 if key is None else key) for key in kind[0])
