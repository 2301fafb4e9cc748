"""The table whose columns say which population a row belongs to, each column read once into arrays.

pandas, polars and pyarrow tables come in through narwhals, and so does a plain 2-D array, whose columns are positions.
A column is read when a predicate asks for it. Strings become codes into their sorted distinct values, so that a
predicate costs one look-up per row; numbers, booleans and dates keep their values. Missing is whatever the table calls
missing: None, NaN, NaT, a null.
"""

import functools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widemargin._text import close_match, listing
from widemargin._typing import Bools, Column, Features, Table
from widemargin.exceptions import DataError, GoalError
from widemargin.goals.language.values import ColumnName
from widemargin.rows import ONE_TABLE, is_frame

__all__ = ["PopulationTable", "Scalar", "TableColumn", "column_from_arrow", "column_of"]

Kind = Literal["string", "number", "boolean", "date", "empty"]
Scalar = str | int | float | bool
Reader: TypeAlias = "Callable[[ColumnName], TableColumn]"


@dataclass(frozen=True, eq=False)
class TableColumn:
    """A column with its missing values set apart.

    Attributes
    ----------
    name : str or int
        Name in a frame, position in a 2-D array.
    kind : {"string", "number", "boolean", "date", "empty"}
        "empty" is a column in which every value is missing.
    dtype : str
        The type in the words of the table, for messages.
    values : ndarray of shape (n,)
        Numbers, booleans or datetime64; int32 codes into `categories` for strings (-1 where missing).
    missing : ndarray of bool, shape (n,), or None
        None when nothing is missing. `values` is arbitrary where it is True.
    categories : tuple of str
        Sorted distinct strings, and those that the column's type declares without any row; empty for other kinds.
    """

    name: ColumnName
    kind: Kind
    dtype: str
    values: npt.NDArray[Any]
    missing: Bools | None
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.missing is not None and not self.missing.any():
            object.__setattr__(self, "missing", None)

    @property
    def n_missing(self) -> int:
        """Number of missing values."""
        return 0 if self.missing is None else int(np.count_nonzero(self.missing))

    @property
    def is_binary(self) -> bool:
        """Whether it is boolean, or a number column of nothing but 0 and 1."""
        if self.kind != "number":
            return self.kind == "boolean"
        fits = (self.values == 0) | (self.values == 1)
        return bool((fits if self.missing is None else fits | self.missing).all())

    def distinct(self, rows: Bools | None = None) -> list[Scalar]:
        """Sorted distinct values that occur (in the given rows), without the missing one; dates as ISO text."""
        values = self.values
        if self.missing is not None:
            values = values[~self.missing if rows is None else rows & ~self.missing]
        elif rows is not None:
            values = values[rows]
        if self.kind == "string":
            return [self.categories[code] for code in np.flatnonzero(np.bincount(values))]
        unique = np.unique(values)
        return [str(value) for value in unique] if self.kind == "date" else unique.tolist()

    def to_values(self) -> npt.NDArray[Any]:
        """The values as an array of their own type; an object array with None where some are missing."""
        plain = np.array([*self.categories, None], dtype=object)[self.values] if self.kind == "string" else self.values
        if self.missing is None:
            return plain
        with_none = plain.astype(object)
        with_none[self.missing] = None
        return with_none


def column_of(name: ColumnName, values: Column) -> TableColumn:
    """Read a vector: array, list, or a pandas, polars or pyarrow series.

    Raises
    ------
    DataError
        If it is not one-dimensional, or of mixed or unsupported types.
    """
    series: Any = values if nw.dependencies.is_into_series(values) else None
    if series is not None:
        try:
            return column_from_arrow(name, nw.from_native(series, series_only=True).to_arrow())
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # objects of several kinds, which are looked at one by one
    try:
        # as objects, because NumPy would turn [1, "a"] into two strings
        array = np.asarray(values, object if series is not None or isinstance(values, list | tuple) else None)
    except ValueError:
        raise DataError(f"{name} is a list of lists of different lengths; give one value per row.") from None
    if array.ndim == 0:  # a dict, a number, a generator
        raise DataError(f"{name} is a {type(values).__name__}; give a vector with one value per row.")
    if array.ndim != 1:
        raise DataError(
            f"{name} has shape {array.shape}; give a vector with one value per row, for example by .ravel()."
        )
    kinds: dict[str, Kind] = {"f": "number", "i": "number", "u": "number", "b": "boolean", "M": "date"}
    if array.dtype.kind in kinds:
        missing = np.isnan(array) if array.dtype.kind in "fM" else None  # NaT answers to it, too
        as_read: Any = array.dtype if array.dtype != np.float16 else np.float32
        if array.dtype.kind == "M":
            as_read = "datetime64[us]"
        return TableColumn(name, kinds[array.dtype.kind], str(array.dtype), array.astype(as_read, copy=False), missing)
    try:
        arrow = pa.array(array, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"column {name!r} mixes types or holds values that are no string, number, boolean or date "
            f"({str(error).splitlines()[0]}). Give it one type, for example .astype(str)."
        ) from None
    return column_from_arrow(name, arrow)


def column_from_arrow(
    name: ColumnName, data: pa.Array | pa.ChunkedArray, dtype: str | None = None, *, declared: bool = True
) -> TableColumn:
    """Read a pyarrow array or chunked array.

    Parameters
    ----------
    declared : bool, default=True
        Whether the values of a dictionary type that no row has count as known ones (a categorical column's levels).

    Raises
    ------
    DataError
        If the type is neither string, number, boolean nor date.
    """
    types, array = pa.types, data
    if isinstance(array, pa.ChunkedArray):
        if types.is_dictionary(array.type):
            array = array.unify_dictionaries()
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # some types stay chunked
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    dtype, kind, in_codes = dtype or str(array.type), array.type, types.is_dictionary(array.type)
    if in_codes:
        kind = kind.value_type
    if in_codes and str(kind).startswith("extension<pandas.interval"):  # of `pandas.cut`: as text, as pandas prints it
        texts = pa.array(map(str, array.dictionary.to_pandas()), pa.string())
        array = pa.DictionaryArray.from_arrays(array.indices, texts)
        kind = pa.string()
    is_text = types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view"
    if in_codes and not is_text:
        array = array.dictionary_decode()
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if types.is_null(kind) or (len(array) and array.null_count == len(array)):
        return TableColumn(name, "empty", dtype, np.zeros(len(array), np.int8), np.ones(len(array), bool))
    if is_text:
        if not in_codes:
            array = (array if types.is_string(kind) else array.cast(pa.large_string())).dictionary_encode()
        return _column_of_texts(name, array, dtype, missing, declared=declared or not in_codes)
    if types.is_boolean(kind) or types.is_integer(kind):
        # Filled, because an array of integers with nulls would come out as floats and lose its last digits.
        filled = array if missing is None else array.fill_null(False if types.is_boolean(kind) else 0)
        name_of_kind: Kind = "boolean" if types.is_boolean(kind) else "number"
        return TableColumn(name, name_of_kind, dtype, filled.to_numpy(zero_copy_only=False), missing)
    if types.is_floating(kind) or types.is_decimal(kind):
        values = (array if types.is_float64(kind) else array.cast(pa.float64())).to_numpy(zero_copy_only=False)
        # Nulls come out as NaN; a NaN is missing too, also where the table tells it from a null.
        return TableColumn(name, "number", dtype, values, np.isnan(values))
    if types.is_date(kind) or types.is_timestamp(kind):
        moments = array.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
        return TableColumn(name, "date", dtype, moments.astype("datetime64[us]"), missing)
    raise DataError(
        f"column {name!r} is of type {dtype}; a predicate needs strings, numbers, booleans or dates. "
        "Convert the column, or leave it out of the goal."
    )


def _column_of_texts(
    name: ColumnName, array: pa.DictionaryArray, dtype: str, missing: Bools | None, *, declared: bool
) -> TableColumn:
    """Strings, with the codes renumbered so that the categories are sorted."""
    levels = array.dictionary.to_pylist()
    codes = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
    present = np.ones(len(levels), bool)
    if not declared:
        present = np.bincount(codes if missing is None else codes[~missing], minlength=len(levels)) > 0
    categories = sorted({level for level, shown in zip(levels, present, strict=True) if shown and level is not None})
    place = dict(zip(categories, range(len(categories)), strict=True))
    renumbered = np.array([place.get(level, -1) for level in levels] or [-1], dtype=np.int32)[codes]
    if missing is not None:
        renumbered[missing] = -1
    absent = renumbered < 0  # a level may itself be missing
    if absent.all() and len(absent):
        return TableColumn(name, "empty", dtype, np.zeros(len(absent), np.int8), absent)
    return TableColumn(name, "string", dtype, renumbered, absent, tuple(categories))


class PopulationTable:
    """Columns for the predicates of a goal, looked up in one or more tables in turn.

    Built by `PopulationTable.build`; a column is read when it is asked for, and the last few are kept.

    Parameters
    ----------
    n_rows : int
    readers : mapping of column name to what reads it
    own : sequence of column names
        Those of `populations`, where a baseline may stand, and not of X.
    kept_columns : int, default=8
        Columns kept at a time: hundreds of them, read into arrays, can take more memory than the rows.
    """

    def __init__(
        self, n_rows: int, readers: Mapping[ColumnName, Reader], own: Mapping[ColumnName, Any], kept_columns: int = 8
    ) -> None:
        self.n_rows, self.kept_columns = n_rows, kept_columns
        self._readers, self._own = readers, own
        self._cache: OrderedDict[ColumnName, TableColumn] = OrderedDict()

    @classmethod
    def build(
        cls, populations: Table | None = None, X: Features | None = None, *, n_rows: int | None = None
    ) -> Self | None:
        """Table of `populations` first, then of X if X is a data frame; None where there is neither.

        Parameters
        ----------
        populations : pandas, polars or pyarrow table, ndarray of shape (n, q), or None
        X : any
            The features; used only when it is a data frame.
        n_rows : int or None
            Number of examples that every table must have.

        Raises
        ------
        DataError
            If `populations` is a dict, a vector or of another length than the data.
        """
        readers: dict[ColumnName, Reader] = {}
        length = None
        if populations is not None:
            length, readers = _opened(populations, "populations")
            if n_rows is not None and length != n_rows:
                raise DataError(f"populations has {length} rows and the data {n_rows}. {ONE_TABLE}")
        own = readers
        if X is not None and is_frame(X):
            length_of_X, readers_of_X = _opened(X, "X")
            length, readers = length_of_X if length is None else length, {**own, **readers_of_X, **own}
        return None if length is None else cls(length, readers, own)

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Every column that can be named, those of `populations` first."""
        return tuple(self._readers)

    def column(self, name: ColumnName) -> TableColumn:
        """The column of that name (or position in a 2-D array).

        Raises
        ------
        GoalError
            If there is none; the message lists those there are.
        """
        if name not in self._cache:
            if name not in self._readers:
                hint = close_match(name, self.columns)
                if isinstance(name, int) and not any(isinstance(column, int) for column in self.columns):
                    hint = " A number names a position in a 2-D array; name the columns of a data frame."
                elif isinstance(name, str) and self.columns and all(isinstance(column, int) for column in self.columns):
                    hint = f" These are numbers: write col({self.columns[0]}), or give a data frame with names."
                elif not (hint or self._own):
                    hint = " These are the features: give populations=table with it."
                raise GoalError(f"column {name!r} is in no table given; there are {listing(self.columns)}.{hint}")
            self._cache[name] = self._readers[name](name)
            if len(self._cache) > self.kept_columns:
                self._cache.popitem(last=False)
        self._cache.move_to_end(name)
        return self._cache[name]

    def own_column(self, name: ColumnName) -> TableColumn | None:
        """The column of that name in `populations` alone (a baseline may stand there, never in X); None without one."""
        return self.column(name) if name in self._own else None


def _opened(data: Features | Table, what: str) -> tuple[int, dict[ColumnName, Reader]]:
    """Rows of a table, and what reads each of its columns."""
    if isinstance(data, dict):
        raise DataError(f"{what} is a dict of {len(data)} entries. {ONE_TABLE}")
    if isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise DataError(f"{what} is an array of shape {data.shape}; it must have 2 dimensions. {ONE_TABLE}")
        return data.shape[0], dict.fromkeys(range(data.shape[1]), functools.partial(_read, data))
    if not is_frame(data) and (isinstance(data, list | tuple) or nw.dependencies.is_into_series(data)):
        raise DataError(f"{what} is a {type(data).__name__} of length {len(data)}, not a table. {ONE_TABLE}")
    try:
        frame: Any = nw.from_native(data, eager_only=True)
        return len(frame), dict.fromkeys(frame.columns, functools.partial(_read, frame))
    except (TypeError, ValueError) as error:
        lazy = " Collect a lazy frame first." if "azy" in type(data).__name__ else ""
        if hasattr(data, "__len__"):  # a lazy frame would have to be read for its names
            # pyarrow's `columns` are the arrays, and their names stand elsewhere
            names = getattr(data, "column_names", None) or getattr(data, "columns", ())
            counts: Counter[ColumnName] = Counter(names)
            twice = [name for name, number in counts.items() if number > 1]
            if twice:
                raise DataError(
                    f"{what} has more than one column {listing(twice, 3)}; rename them or drop all but one of each."
                ) from None
        raise DataError(f"{what} cannot be used as a table: {str(error).splitlines()[0]}.{lazy} {ONE_TABLE}") from None


def _read(table: Any, name: ColumnName) -> TableColumn:
    """A column of an array, or of a frame of narwhals."""
    if isinstance(table, np.ndarray):
        return column_of(name, table[:, int(name)])
    series = table.get_column(name)
    try:
        arrow = series.to_arrow()
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        return column_of(name, series.to_list())
    # polars' categories may be shared with other frames, so only those that occur are this column's own
    declared = not (series.dtype == nw.Categorical and series.implementation.is_polars())
    return column_from_arrow(name, arrow, str(series.dtype), declared=declared)
