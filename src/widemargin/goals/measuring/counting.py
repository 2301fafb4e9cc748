"""Rows of one source, counted instead of kept: all that rates, reports and intervals need of them.

Rows with the same label, prediction, baselines, weight and regions of columns (`goals/binding/digest.py`) are one
kind. A kind holds its number of rows, their weight and the ramp's share of it. Kinds of parts of the rows can
be joined in any order, here or in other processes, and `source()` turns them into a `Source` that is bound like rows.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.goals.binding.cells import Packer
from widemargin.goals.binding.columns import TableColumn
from widemargin.goals.binding.digest import ColumnDigest, ColumnUse, Key
from widemargin.goals.binding.sources import Repeats, Source
from widemargin.goals.binding.tables import PopulationTable
from widemargin.goals.language.checks import ColumnName
from widemargin.goals.measuring.bootstrap import MAX_WEIGHTS, weight_level

__all__ = ["Counted", "CountedRows"]

Flags = npt.NDArray[np.bool_]

MAX_KINDS = 1_000_000
"""Most kinds of rows; a goal over a few columns has some hundreds."""


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
        packer = Packer(source.n_rows)
        fields: list[tuple[npt.NDArray[Any], list[Key]]] = []
        labels = np.zeros(source.n_rows, np.int8) if source.labels is None else source.labels
        signs = [labels + 1, positive, *(source.baselines[name] > 0 for name in self._baselines)]
        for codes in signs:
            packer.add(codes, 2)
            fields.append((codes, [0, 1, 2]))
        for column, digest in self._digests.items():
            codes, keys = digest.encode(_column(source, column))
            packer.add(codes, max(1, (len(keys) - 1).bit_length()))
            fields.append((codes, keys))
        codes, keys = self._levels(weight)
        packer.add(codes, max(1, (len(keys) - 1).bit_length()))
        fields.append((codes, keys))
        cell, _, n_cells = packer.finish()
        count = np.bincount(cell, minlength=n_cells).tolist()
        total = np.bincount(cell, weight, n_cells).tolist()
        shares = [0.0] * n_cells if ramp is None else np.bincount(cell, weight * ramp, n_cells).tolist()
        first = _first_of_each(cell, n_cells)
        columns = [[keys[code] for code in codes[first].tolist()] for codes, keys in fields]
        for key, *sums in zip(zip(*columns, strict=True), count, total, shares, strict=True):
            self._note(key, *sums)
        self.n_rows += source.n_rows

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
        known = {
            (key[0], *key[2:-1]): number for (key, _), number in zip(self._ordered(), of_kind.tolist(), strict=True)
        }
        labels = np.zeros(source.n_rows, np.int8) if source.labels is None else source.labels
        signs = [labels + 1, *(source.baselines[name] > 0 for name in self._baselines)]
        fields: list[tuple[npt.NDArray[Any], list[Key]]] = [(codes, [0, 1, 2]) for codes in signs]
        fields += [digest.encode(_column(source, column)) for column, digest in self._digests.items()]
        packer = Packer(source.n_rows)
        for codes, keys in fields:
            packer.add(codes, max(2, (len(keys) - 1).bit_length()))
        cell, _, n_cells = packer.finish()
        first = _first_of_each(cell, n_cells)
        columns = [[keys[code] for code in codes[first].tolist()] for codes, keys in fields]
        return np.array([known[key] for key in zip(*columns, strict=True)], dtype=np.int32)[cell]

    def join(self, other: "CountedRows") -> None:
        """Take in the kinds of other rows of the same source."""
        if not other.n_rows:
            return
        if (other.name, other._baselines, [*other._digests]) != (self.name, self._baselines, [*self._digests]):
            raise DataError("counts of different goals or sources cannot be merged. Count both for the same goal.")
        self._agree(bool(other._has_labels), bool(other._has_ramp))
        for column, digest in self._digests.items():
            digest.join(other._digests[column])
        self._learn_weights(other._weights, binned=other._binned)
        for key, sums in other._kinds.items():
            self._note(self._binned_key(key) if self._binned and not other._binned else key, *sums)
        self.n_rows += other.n_rows

    def _note(self, key: tuple[Key, ...], count: int, weight: float, share: float) -> None:
        before = self._kinds.get(key, (0, 0.0, 0.0))
        self._kinds[key] = (before[0] + count, before[1] + weight, before[2] + share)
        if len(self._kinds) > MAX_KINDS:
            raise DataError(
                f"the goal tells more than {MAX_KINDS} kinds of rows apart, too many to count. Use fewer or coarser "
                "columns in its populations and bundles, or measure the rows in memory by widemargin.audit."
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
        if self._binned or not (binned or len(self._weights) > MAX_WEIGHTS):
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


def _first_of_each(cell: npt.NDArray[np.int32], n_cells: int) -> npt.NDArray[np.intp]:
    """The first row of each cell."""
    first = np.empty(n_cells, np.intp)
    first[cell[::-1]] = np.arange(cell.shape[0] - 1, -1, -1)
    return first


def _column(source: Source, name: ColumnName) -> TableColumn:
    if source.table is None:
        where = "populations=table" if source.name is None else f"populations=table for external {source.name!r}"
        raise DataError(f"the goal looks at column {name!r}, and {source.title} has no table; give {where}.")
    return source.table.column(name)


def _order(kind: tuple[tuple[Key, ...], Any]) -> tuple[tuple[bool, Any], ...]:
    return tuple((key is None, 0 if key is None else key) for key in kind[0])
