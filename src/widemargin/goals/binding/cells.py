"""Which rows belong to a population, and the cells: rows that share label, baseline predictions and all populations.

A comparison with a missing value is neither true nor false but unknown, `not` leaves it unknown, and a row on which the
whole predicate is unknown is in no population. Only `is_null()` is always known.

Rows of one cell have the same coefficients in every rate, so a row stores the number of its cell and nothing else. The
cells are found by packing the memberships into the bits of one integer per row, which is renumbered whenever it is
full: time grows with the number of populations, memory does not.
"""

import bisect
import dataclasses
import datetime
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widemargin._text import close_match, listing
from widemargin._typing import Bools, Cells, Floats, Ints, Signs
from widemargin.exceptions import DataError, GoalError, GoalWarning
from widemargin.goals._warn import warn
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import Scalar, TableColumn
from widemargin.goals.language import predicates
from widemargin.goals.language.linear import Rate
from widemargin.goals.language.populations import Population

__all__ = ["CellSpace", "Packer", "Rows", "SourceCells", "Truth", "build_cells", "evaluate", "members", "moment_of"]

Rows = tuple[str | None, predicates.Predicate | None]
"""What decides membership: `Population.rows`."""

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
        signs = source.labels if isinstance(predicate, predicates.LabelIs) else source.baselines[predicate.name]
        if signs is None:
            raise GoalError(f"{predicate} needs labels, and {source.title} has no y.")
        true, unknown = signs == (1 if predicate.positive else -1), signs == 0
        return Truth(true, true | unknown if unknown.any() else true)
    if not isinstance(predicate, predicates.Compare | predicates.IsIn | predicates.IsNull | predicates.IsTrue):
        raise GoalError(f"unknown predicate {predicate!r}.")
    if source.table is None:
        where = "populations=table" if source.name is None else f"External(X, populations=table) for {source.name!r}"
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


def _no_value(column: TableColumn, absent: Sequence[Scalar], so: str) -> str:
    """That a column lacks values, those that it has, and another spelling of the wanted one among them."""
    hint = close_match(absent[0], column.categories, cutoff=0.85)  # Male, no other spelling of Female, has 0.8
    return (
        f"column {column.name!r} has no value {listing(absent)}{so} The values there are: "
        f"{listing(column.categories)}.{hint}"
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


@dataclasses.dataclass(frozen=True, eq=False)
class SourceCells:
    """The k cells of one source.

    Attributes
    ----------
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
    """

    cell: Cells
    label: Signs
    baselines: Mapping[str, Signs]
    count: npt.NDArray[np.int32]
    weight: Floats
    weighty: npt.NDArray[np.int32]
    unknown: Mapping[Rows, int]
    _words: tuple[Ints, ...]
    _place: Mapping[Rows, tuple[int, int]]

    @property
    def n_cells(self) -> int:
        """k."""
        return int(self.label.shape[0])

    def member(self, rows: Rows, which: slice = slice(None)) -> Bools:
        """Whether each cell (of some) belongs to a population, shape (k,)."""
        if rows[1] is None:
            return np.ones(self.label[which].shape[0], bool)
        word, bit = self._place[rows]
        return (self._words[word][which] >> bit & 1).astype(bool)


class CellSpace:
    """The cells of all sources, numbered on through them."""

    def __init__(self, sources: Sequence[Source], parts: Sequence[SourceCells]) -> None:
        self.names = tuple(source.name for source in sources)
        self.titles = {source.name: source.title for source in sources}
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

    def covers(self, rates: Iterable[Rate]) -> bool:
        """Whether these cells tell apart all that the rates look at, so that they need not be found anew."""
        for rate in rates:
            part, rows = self.parts.get(rate.population.source), rate.population.rows
            if part is None or (rows[1] is not None and rows not in part._place):
                return False
            if rate.baseline not in (None, *part.baselines) or (rate.definition.needs_label and not part.label.any()):
                return False
        return True


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
    weight = np.bincount(cell, source.whole_weight, k).astype(np.float64)
    weighty = count
    if source.weight is not None:
        some = source.weight > 0
        weighty = np.bincount(cell[some], None if rows is None else rows[some], k).astype(np.int32)
    label = np.zeros(k, np.int8)
    if label_place is not None:
        label = ((words[label_place[0]] >> label_place[1] & 3) - 1).astype(np.int8)
    signs = {name: (2 * (words[word] >> bit & 1) - 1).astype(np.int8) for name, (word, bit) in in_words.items()}
    return SourceCells(cell, label, signs, count, weight, weighty, unknown, words, place)
