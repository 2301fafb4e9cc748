"""One column of a population table, read once into arrays.

Strings become codes into their sorted distinct values, so that a predicate costs one look-up per row; numbers,
booleans and dates keep their values. Missing is whatever the table calls missing: None, NaN, NaT, a null.
"""

import dataclasses
import difflib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widemargin.exceptions import DataError

__all__ = ["NEAR_SPELLING", "TableColumn", "close_match", "column_from_arrow", "column_from_values", "listing"]

NEAR_SPELLING = 0.85
"""Similarity from which one value is taken for another spelling of the other; Male and Female have 0.8."""

Kind = Literal["string", "number", "boolean", "date", "empty"]
Flags = npt.NDArray[np.bool_]
Scalar = str | int | float | bool


@dataclasses.dataclass(frozen=True, eq=False)
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

    name: str | int
    kind: Kind
    dtype: str
    values: npt.NDArray[Any]
    missing: Flags | None
    categories: tuple[str, ...] = ()

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
        if self.missing is not None:
            fits |= self.missing
        return bool(fits.all())

    def distinct(self, rows: Flags | None = None) -> list[Scalar]:
        """Sorted distinct values that occur (in the given rows), without the missing one; dates as ISO text."""
        values = self.values
        if self.missing is not None:
            values = values[~self.missing if rows is None else rows & ~self.missing]
        elif rows is not None:
            values = values[rows]
        if self.kind == "string":
            present = np.flatnonzero(np.bincount(values, minlength=len(self.categories)))
            return [self.categories[code] for code in present]
        if self.kind == "empty":
            return []
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


def column_from_values(name: str | int, values: npt.ArrayLike) -> TableColumn:
    """Read a one-dimensional array (any dtype) or sequence.

    Raises
    ------
    DataError
        If the values are of mixed or unsupported types.
    """
    array = np.asarray(values)
    if array.dtype.kind == "f":
        missing = np.isnan(array)
        wide = array if array.dtype.itemsize >= 4 else array.astype(np.float32)
        return TableColumn(name, "number", str(array.dtype), wide, missing if missing.any() else None)
    if array.dtype.kind in "iu":
        return TableColumn(name, "number", str(array.dtype), array, None)
    if array.dtype.kind == "b":
        return TableColumn(name, "boolean", "bool", array, None)
    if array.dtype.kind == "M":
        missing = np.isnat(array)
        return TableColumn(
            name, "date", str(array.dtype), array.astype("datetime64[us]"), missing if missing.any() else None
        )
    try:
        arrow = pa.array(array, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _mixed(name, error) from None
    return column_from_arrow(name, arrow)


def column_from_arrow(
    name: str | int, data: pa.Array | pa.ChunkedArray, dtype: str | None = None, *, declared: bool = True
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
    array = data
    if isinstance(array, pa.ChunkedArray):
        if pa.types.is_dictionary(array.type):
            array = array.unify_dictionaries()
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # some types stay chunked
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    dtype = dtype or str(array.type)
    kind = array.type
    if pa.types.is_dictionary(kind):
        if _is_text(kind.value_type):
            return _from_dictionary(name, array, dtype, declared=declared)
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_null(kind) or (len(array) and array.null_count == len(array)):
        return TableColumn(name, "empty", dtype, np.zeros(len(array), np.int8), np.ones(len(array), bool))
    if _is_text(kind):
        text = array if pa.types.is_string(kind) else array.cast(pa.large_string())
        return _from_dictionary(name, text.dictionary_encode(), dtype, declared=True)
    return _from_plain(name, array, dtype)


def _from_plain(name: str | int, array: pa.Array, dtype: str) -> TableColumn:
    """Numbers, booleans and dates."""
    kind = array.type
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_boolean(kind):
        return TableColumn(name, "boolean", dtype, _dense(array, False), missing)
    if pa.types.is_integer(kind):
        return TableColumn(name, "number", dtype, _dense(array, 0), missing)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        if not pa.types.is_float64(kind):
            array = array.cast(pa.float64())
        values = _dense(array, np.nan)
        absent = np.isnan(values)  # a NaN is missing too, also where the table tells it from a null
        return TableColumn(name, "number", dtype, values, absent if absent.any() else None)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        moments = array.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
        return TableColumn(name, "date", dtype, moments.astype("datetime64[us]"), missing)
    raise DataError(
        f"column {name!r} is of type {dtype}; a predicate needs strings, numbers, booleans or dates. "
        "Convert the column, or leave it out of the goal."
    )


def _from_dictionary(name: str | int, array: pa.DictionaryArray, dtype: str, *, declared: bool) -> TableColumn:
    """Strings, with the codes renumbered so that the categories are sorted."""
    levels = array.dictionary.to_pylist()
    codes = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    categories_set = {level for level in levels if level is not None}
    if not declared:
        seen = np.bincount(codes if missing is None else codes[~missing], minlength=len(levels))
        categories_set = {level for level, count in zip(levels, seen, strict=True) if count and level is not None}
    categories = tuple(sorted(categories_set))
    place = {level: code for code, level in enumerate(categories)}
    table = np.array([place.get(level, -1) for level in levels] or [-1], dtype=np.int32)
    renumbered = table[codes]
    if missing is not None:
        renumbered[missing] = -1
    absent = renumbered < 0
    if absent.all() and len(absent):
        return TableColumn(name, "empty", dtype, np.zeros(len(absent), np.int8), absent)
    return TableColumn(name, "string", dtype, renumbered, absent if absent.any() else None, categories)


def _dense(array: pa.Array, fill: float | bool) -> npt.NDArray[Any]:
    """As NumPy values of the array's own type, with `fill` where null."""
    filled = array.fill_null(fill) if array.null_count else array
    values: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return values


def _is_text(kind: pa.DataType) -> bool:
    is_view = getattr(pa.types, "is_string_view", lambda _: False)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or is_view(kind))


def _mixed(name: str | int, error: Exception) -> DataError:
    reason = str(error).splitlines()[0]
    return DataError(
        f"column {name!r} mixes types or holds values that are no string, number, boolean or date ({reason}). "
        "Give it one type, for example .astype(str)."
    )


def close_match(wanted: object, known: Sequence[object], *, cutoff: float = 0.6) -> str:
    """`" Did you mean 'age'?"` for the known value closest to a wanted one, else an empty string.

    Parameters
    ----------
    cutoff : float, default=0.6
        Least similarity, from 0 to 1; `NEAR_SPELLING` keeps out words of their own, such as Male for Female.
    """
    by_text = {str(value): value for value in known}
    folded = {text.strip().casefold(): text for text in by_text}
    matches = difflib.get_close_matches(str(wanted), by_text, n=1, cutoff=cutoff) or [
        folded[text] for text in difflib.get_close_matches(str(wanted).strip().casefold(), folded, n=1, cutoff=cutoff)
    ]
    return f" Did you mean {by_text[matches[0]]!r}?" if matches else ""


def listing(values: Sequence[object], limit: int = 10) -> str:
    """The first values as they are written in code, and how many more there are."""
    shown = ", ".join(repr(value) for value in values[:limit])
    rest = len(values) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown or "none"
