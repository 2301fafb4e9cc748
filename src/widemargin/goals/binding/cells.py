"""The cells: rows that share their label, their baseline predictions and all their populations.

Rows of one cell have the same coefficients in every rate, so a row stores the number of its cell and nothing else. The
cells are found by packing the memberships into the bits of one integer per row, which is renumbered whenever it is
full: time grows with the number of populations, memory does not.
"""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widemargin._typing import Bools, Cells, Floats, Ints, Signs
from widemargin.exceptions import DataError
from widemargin.goals.binding.membership import members
from widemargin.goals.binding.sources import Source, view_of
from widemargin.goals.language.linear import Rate
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import Predicate

__all__ = ["CellSpace", "Packer", "Rows", "SourceCells", "build_cells", "turns"]

Rows = tuple[str | None, Predicate | None]
"""What decides membership: `Population.rows`."""


@dataclasses.dataclass(frozen=True, eq=False)
class SourceCells:
    """The k cells of one source.

    Attributes
    ----------
    title : str
        How messages call the source.
    cell : ndarray of int32, shape (n,)
        Cell of each row, 0 <= cell < k. Numbered by content, not by order of appearance.
    label : ndarray of int8, shape (k,)
        +1, -1, or 0 where the label is missing or not used by the goal.
    baselines : mapping of str to ndarray of int8, shape (k,)
    count, weight : ndarray of shape (k,)
        Rows and weight of each cell.
    weighty : ndarray of shape (k,)
        Rows of weight > 0 of each cell.
    unknown : mapping of Rows to int
        Rows of which it is not known whether they belong, by population.
    n_cells : int
        k.
    """

    title: str
    cell: Cells
    label: Signs
    baselines: Mapping[str, Signs]
    count: npt.NDArray[np.int32]
    weight: Floats
    weighty: npt.NDArray[np.int32]
    unknown: Mapping[Rows, int]
    n_cells: int
    _words: tuple[Ints, ...]
    _place: Mapping[Rows, tuple[int, int]]

    def member(self, rows: Rows, which: slice = slice(None)) -> Bools:
        """Whether each cell (of some) belongs to a population, shape (k,)."""
        if rows[1] is None:
            return np.ones(self.label[which].shape[0], bool)
        word, bit = self._place[rows]
        return (self._words[word][which] >> bit & 1).astype(bool)


class CellSpace:
    """The cells of all sources, numbered on through them; of a source of several classes those of its views."""

    def __init__(self, sources: Sequence[Source], parts: Sequence[SourceCells]) -> None:
        self.sources = {source.key: source for source in sources}
        self.names = tuple(self.sources)
        self.parts = dict(zip(self.names, parts, strict=True))
        starts = np.cumsum([0, *(part.n_cells for part in parts)])
        self.start = dict(zip(self.names, starts[:-1].tolist(), strict=True))
        self.n_cells = int(starts[-1])
        # The arrays of an only source are taken as they are, for every row may be a cell.
        self.count, self.weight, self.weighty = parts[0].count, parts[0].weight, parts[0].weighty
        if len(parts) > 1:
            self.count = np.concatenate([part.count for part in parts])
            self.weight = np.concatenate([part.weight for part in parts])
            self.weighty = np.concatenate([part.weighty for part in parts])

    def key_of(self, rate: Rate) -> Hashable:
        """Under which the cells of a rate stand: the name of its source, or a view of it."""
        name = rate.population.source
        return name if name in self.sources else view_of(rate)

    def turned(self, rate: Rate) -> tuple[int, int]:
        """`turns` of the rate's source; of a view the class that is looked for is the positive one."""
        source = self.sources.get(rate.population.source)
        return (1, 1) if source is None else turns(source, rate)

    def covers(self, rates: Iterable[Rate]) -> bool:
        """Whether these cells tell apart all that the rates look at, so that they need not be found anew."""
        for rate in rates:
            part, rows = self.parts.get(self.key_of(rate)), rate.population.rows
            if part is None or (rows[1] is not None and rows not in part._place):
                return False
            if rate.baseline not in (None, *part.baselines) or (rate.needs_label and not part.label.any()):
                return False
        return True


def turns(source: Source, rate: Rate) -> tuple[int, int]:
    """-1 where the negative one of two classes is what a rate speaks of, else 1: in labels, and in predictions."""
    if rate.of is None:
        return 1, 1
    label = rate.of if rate.actual is None else rate.actual
    return 2 * source.number_of(label) - 3, 2 * source.number_of(rate.of) - 3


class Packer:
    """Collects small codes of n rows into one cell number a row."""

    def __init__(self, n_rows: int) -> None:
        self._cell = np.zeros(n_rows, np.int32)
        self._n_cells = 1
        self._key = np.zeros(n_rows, np.int64)
        self._bits = 0
        self._words: list[Ints] = []

    def add(self, codes: npt.NDArray[np.generic], bits: int) -> tuple[int, int]:
        """Add codes of some bits; returns the word and the bit where they will be found."""
        if self._bits + bits + (self._n_cells - 1).bit_length() > 62:  # a key stays a positive int64
            self._renumber()
        place = len(self._words), self._bits
        wide = codes.astype(np.int64)
        self._key |= np.left_shift(wide, self._bits, out=wide)
        self._bits += bits
        return place

    def finish(self) -> tuple[Cells, tuple[Ints, ...], int]:
        """The cell of each row, the words of each cell, and the number of cells."""
        if self._bits:
            self._renumber()
        return self._cell, tuple(self._words), self._n_cells

    def _renumber(self) -> None:
        """Number the cells by what has been added since, in the order of the keys."""
        if self._n_cells > 1:
            self._key |= self._cell.astype(np.int64) << self._bits
        self._cell, keys = _ranked(self._key)
        if self._n_cells > 1:
            parent = keys >> self._bits
            self._words = [older[parent] for older in self._words]
        keys &= (1 << self._bits) - 1
        self._words.append(keys)
        self._n_cells = len(keys)
        self._key[:] = 0
        self._bits = 0


def _ranked(key: Ints) -> tuple[Cells, Ints]:
    """Number of each key among the distinct ones, and these in increasing order."""
    some = key[:: max(1, len(key) // 2048)]  # enough to see whether most keys are different
    if len(np.unique(some)) < 0.5 * len(some):
        encoded = pa.array(key).dictionary_encode()  # hashing: ten times faster than a sort
        order = np.argsort(encoded.dictionary.to_numpy())
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return rank[encoded.indices.to_numpy()], encoded.dictionary.to_numpy()[order]
    order = np.argsort(key)  # a table of as many hashes as rows is twice as slow, and takes 16 numbers a row
    ordered = key[order]
    first = np.ones(len(key), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    ordered = ordered[first]
    first[0] = False
    numbers = np.cumsum(first, dtype=np.int32)
    place = np.empty(len(key), np.int32)
    place[order] = numbers
    return place, ordered


def build_cells(
    source: Source, populations: Sequence[Population], baselines: Sequence[str], *, use_label: bool
) -> SourceCells:
    """Group the rows of a source into cells.

    Parameters
    ----------
    populations : sequence of Population
        Those of this source that the goal uses; each distinct condition is evaluated once.
    baselines : sequence of str
        Baselines whose predictions some rate looks at.
    use_label : bool
        Whether some rate looks at the labels.

    Raises
    ------
    DataError
        If there are 2**31 rows or more.
    """
    rows = None if source.repeats is None else source.repeats.count
    number = source.n_rows if rows is None else int(rows.sum())
    if number >= 2**31:
        raise DataError(f"{source.title} has {number} rows; at most {2**31 - 1} can be tied to a goal.")
    packer = Packer(source.n_rows)
    label_place = packer.add(source.labels + 1, 2) if use_label and source.labels is not None else None
    in_words = {name: packer.add(source.baselines[name] > 0, 1) for name in baselines}
    place: dict[Rows, tuple[int, int]] = {}
    unknown: dict[Rows, int] = {}
    for population in populations:
        if population.rows in unknown:
            continue
        truth = members(population, source)
        unsure = truth.unknown
        unknown[population.rows] = 0 if unsure is None else int(np.sum(unsure if rows is None else rows[unsure]))
        if population.where is not None:
            place[population.rows] = packer.add(truth.true, 1)
    cell, words, k = packer.finish()
    count = np.bincount(cell, rows, k).astype(np.int32)
    whole_weight, weighty = source.weight, count
    if rows is not None:
        whole_weight = rows.astype(np.float64) if source.weight is None else rows * source.weight
    weight = np.bincount(cell, whole_weight, k).astype(np.float64)
    if source.weight is not None:
        some = source.weight > 0
        weighty = np.bincount(cell[some], None if rows is None else rows[some], k).astype(np.int32)
    label = np.zeros(k, np.int8)
    if label_place is not None:
        label = ((words[label_place[0]] >> label_place[1] & 3) - 1).astype(np.int8)
    signs = {name: (2 * (words[word] >> bit & 1) - 1).astype(np.int8) for name, (word, bit) in in_words.items()}
    return SourceCells(source.title, cell, label, signs, count, weight, weighty, unknown, k, words, place)
