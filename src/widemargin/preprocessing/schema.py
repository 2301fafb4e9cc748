"""The schema of a table: names, kinds and known values of its columns, learned once, checked at every use.

A column is read as one of four kinds: `number` (missing: null or NaN), `date` (days or times, as numbers of days since
1970; missing: null), `word` (text or category codes; missing: null) and `flag` (true or false; missing: null). A later
table that deviates is either refused by a `DataError` that names the column (absent, wrong type, infinite, not one
known word in four rows or more), or its deviations are handled in a documented way and counted (some unknown words,
missing values where training had none).
"""

import difflib
import json
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt

from widemargin._text import time_of
from widemargin._typing import Table
from widemargin.exceptions import DataError, TableWarning

Kind = Literal["number", "date", "word", "flag"]
Frame = nw.DataFrame[Any]
Column = nw.Series[Any]

_PLURAL: dict[Kind, str] = {"number": "numbers", "date": "dates", "word": "words", "flag": "true/false values"}


class Deviation(NamedTuple):
    """Values of one column that did not occur in training: how many rows, unknown or missing, and some examples.

    Where training knew missing values, they deviate only if not one of more than three rows has a value.
    """

    column: str
    n_rows: int
    what: Literal["unknown", "missing"]
    examples: tuple[str, ...] = ()


class TableContents(NamedTuple):
    """The feature columns of a table as arrays, in the order of the schema.

    Attributes
    ----------
    numbers : ndarray of shape (n_rows, n_number_and_date_columns)
        Dates among them; NaN where missing.
    words : ndarray of object, shape (n_rows, n_word_and_flag_columns)
        None where missing.
    deviations : tuple of Deviation
        Values that did not occur in training; empty where there are none.
    """

    numbers: npt.NDArray[np.float64]
    words: npt.NDArray[np.object_]
    deviations: tuple[Deviation, ...]


@dataclass(frozen=True)
class ColumnSchema:
    """One column: its name, its kind, whether training had missing values, and the known words, sorted."""

    name: str
    kind: Kind
    has_missing: bool
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableSchema:
    """The feature columns of a table, in order.

    See Also
    --------
    TableSchema.of : learn a schema from a table.
    TableSchema.read : check a table against it and take the columns out.
    """

    columns: tuple[ColumnSchema, ...]

    def __getstate__(self) -> dict[str, str]:
        """One text for all columns: model files check objects one by one, which takes seconds for thousands of them."""
        return {"columns": json.dumps([astuple(column) for column in self.columns])}

    def __setstate__(self, state: dict[str, str | tuple[ColumnSchema, ...]]) -> None:
        """Take the columns from that text, or from a file that was saved before there was one."""
        columns = state["columns"]
        if isinstance(columns, str):
            columns = tuple(_column(*fields) for fields in json.loads(columns))
        object.__setattr__(self, "columns", columns)

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        columns: Sequence[str] | None = None,
        words: Iterable[str] = (),
        dates: Iterable[str] = (),
        max_words: int = 1000,
    ) -> "TableSchema":
        """Learn the schema of a pandas, polars or pyarrow table.

        Parameters
        ----------
        table : data frame
            Any table narwhals can read.
        columns : sequence of str, default=None
            The feature columns; None takes all.
        words : iterable of str
            Columns of numbers that are codes without an order.
        dates : iterable of str
            Columns of days or times, or of texts such as `2024-01-31`, that are features, as numbers of days.
        max_words : int, default=1000
            A word column with more distinct values than this is refused: it is most likely an identifier.

        Raises
        ------
        DataError
            No rows, an unknown or repeated column, a column of dates that `dates` does not name, of lists or of mixed
            types, without any value, with infinite numbers, or with too many distinct words.

        Warns
        -----
        TableWarning
            A column of words holds mostly numbers.
        """
        frame = as_frame(table)
        if not len(frame):
            raise DataError("the table has 0 rows. Give at least one row")
        names = list(frame.columns if columns is None else columns)
        _refuse_absent(names, frame.columns)
        asked: dict[str, Kind] = {**dict.fromkeys(words, "word"), **dict.fromkeys(dates, "date")}
        _refuse_absent(sorted(asked), names)
        if len(set(names)) < len(names):
            raise DataError(f"the feature columns are named more than once: {names}. Name each column once")
        if not names:
            raise DataError("no feature column is left. Name at least one column as a feature")
        return cls(tuple(_learn(frame[name], asked.get(name), max_words) for name in names))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def of_kind(self, *kinds: Kind) -> tuple[ColumnSchema, ...]:
        """Columns of these kinds, in order."""
        return tuple(column for column in self.columns if column.kind in kinds)

    def read(self, table: Table) -> TableContents:
        """Check a table and take the feature columns out of it; columns that the schema does not name are ignored.

        Raises
        ------
        DataError
            A column is absent, holds another kind of value, infinite numbers, or no word that training knew.
        """
        frame = as_frame(table)
        _refuse_absent(self.names, frame.columns)
        if not len(frame):
            raise DataError("the table has 0 rows. Give at least one row")
        deviations: list[Deviation] = []
        numbers = [_read_numbers(frame[column.name], column, deviations) for column in self.of_kind("number", "date")]
        words = [_read_words(frame[column.name], column, deviations) for column in self.of_kind("word", "flag")]
        return TableContents(
            np.column_stack(numbers) if numbers else np.empty((len(frame), 0)),
            np.column_stack(words) if words else np.empty((len(frame), 0), dtype=object),
            tuple(deviations),
        )


def _column(name: object, kind: Kind, has_missing: object, values: list[object]) -> ColumnSchema:
    """A column as a file describes it."""
    texts = [text for text in (name, *values) if isinstance(text, str)]
    if kind not in _PLURAL or not isinstance(has_missing, bool) or len(texts) < 1 + len(values):
        raise ValueError(f"the schema of a table holds no column but {(name, kind, has_missing)!r}")
    return ColumnSchema(texts[0], kind, has_missing, tuple(texts[1:]))


def as_frame(table: Table) -> Frame:
    """A table of any supported library as a narwhals data frame; a DataError for anything else."""
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError as error:
        raise DataError(
            f"a table is needed (pandas, polars or pyarrow); got {type(table).__name__}. "
            "Wrap the array in a data frame that names its columns"
        ) from error


def _refuse_absent(wanted: Iterable[str], present: Sequence[str]) -> None:
    names = list(wanted)
    absent = [name for name in names if name not in present]
    if not absent:
        return
    others = [name for name in present if name not in names]
    alike = {name.casefold(): name for name in others}
    near = {name: difflib.get_close_matches(name.casefold(), alike, 1) for name in absent[:5]}
    listed = ", ".join(
        f"{name!r}" + (f" (is it {alike[found[0]]!r}?)" if found else "") for name, found in near.items()
    )
    more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
    raise DataError(f"the table lacks {len(absent)} column(s): {listed}{more}. Add them, or correct the names")


def _learn(column: Column, asked: Kind | None, max_words: int) -> ColumnSchema:
    column = _with_days(column) if asked == "date" else column
    name, kind = column.name, asked or _kind(column)
    if kind == "date" and not _holds_dates(column):
        raise DataError(f"column {name!r} is to hold dates and has type {column.dtype}. Write days as 2024-01-31")
    is_word = kind in ("word", "flag")
    missing = np.asarray(column.is_null().to_list()) if is_word or kind is None else np.isnan(_finite(column))
    if kind is None or missing.all():
        raise DataError(f"column {name!r} holds no value at all. Leave it out of the features")
    if not is_word:
        return ColumnSchema(name, kind, bool(missing.any()))
    words = _words(column)
    values = {word for word in words if word is not None}
    if len(values) > max_words:
        raise DataError(
            f"column {name!r} has {len(values)} distinct words, more than {max_words}; it looks like an identifier. "
            "Leave it out of the features, or group its values"
        )
    # One text such as "unknown" turns a column of numbers into one of words, which is seldom intended.
    others = [] if asked == "word" else sorted(value for value in values if not is_number(value))
    if 0 < len(others) <= len(values) / 4:
        warnings.warn(
            f"column {name!r} is read as words, but {len(values) - len(others)} of its {len(values)} distinct values "
            f"are numbers; the others are {', '.join(map(_shown, others[:3]))}. Correct these, say that they are "
            "missing values, or name it as words",
            TableWarning,
            stacklevel=2,
        )
    return ColumnSchema(name, kind, None in words, tuple(sorted(values)))


def _holds_dates(column: Column) -> bool:
    return column.dtype in (nw.Date, nw.Datetime)


def _with_days(column: Column) -> Column:
    """A column that is to hold days or times, read where they are texts (see `time_of`)."""
    texts = column.drop_nulls().to_list() if column.dtype in (nw.String, nw.Object) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        return column
    nulls = column.is_null().to_list()
    times: list[datetime | None] = []
    for row, (text, null) in enumerate(zip(column.to_list(), nulls, strict=True)):
        time = None if null else time_of(text)
        if time is None and not null:
            raise DataError(
                f"column {column.name!r} is to hold dates and holds {_shown(text)} in row {row}. Write days as "
                "2024-01-31 or 31.01.2024, and leave cells without one empty",
                row=row,
            )
        times.append(time if time is None or time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None))
    return nw.new_series(column.name, times, nw.Datetime("us"), backend=column.implementation)


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _kind(column: Column) -> Kind | None:
    """Kind of a column by its type, or that of its values; None for a column without any value."""
    dtype = column.dtype
    if dtype.is_numeric():
        return "number"
    if dtype == nw.Boolean:
        return "flag"
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return "word"
    is_bytes = str(dtype) == "Binary"
    if dtype in (nw.Object, nw.Unknown):  # pandas' object columns, and pyarrow's and polars' columns of nulls
        values = column.drop_nulls().to_list()
        kinds: set[Kind | None] = set()
        for type_ in {type(value) for value in values}:  # a bool is an int to Python, so flags are looked for first
            is_number = issubclass(type_, int | float | Decimal | np.number)
            word_or_other: Kind | None = "word" if issubclass(type_, str) else None
            kinds.add("flag" if issubclass(type_, bool | np.bool_) else "number" if is_number else word_or_other)
        if not kinds:
            return None
        if len(kinds) == 1 and None not in kinds:
            return kinds.pop()
        is_bytes = isinstance(values[0], bytes)  # columns of bytes, where narwhals knows no such type
        if not is_bytes:
            raise DataError(
                f"column {column.name!r} mixes types or holds something else than numbers, words and true/false "
                f"(first value: {_shown(values[0])}). Give it one type, or leave it out of the features"
            )
    if is_bytes:
        raise DataError(
            f"column {column.name!r} holds bytes that are no UTF-8 text. Save the file as UTF-8, or leave the column "
            "out of the features"
        )
    raise DataError(
        f"column {column.name!r} has type {dtype}, which is neither number, word nor true/false. "
        + ("Name it in dates" if _holds_dates(column) else "Turn it into numbers or words")
        + ", or leave it out of the features"
    )


def _read_numbers(column: Column, schema: ColumnSchema, deviations: list[Deviation]) -> npt.NDArray[np.float64]:
    column = _with_days(column) if schema.kind == "date" else column
    kind: Kind | None = "date" if schema.kind == "date" and _holds_dates(column) else _kind(column)
    if kind is None:
        numbers = np.full(len(column), np.nan)
    elif kind != schema.kind:
        values = column.drop_nulls().to_list()
        strange = [value for value in values if not (isinstance(value, str) and is_number(value))] or values
        raise DataError(
            f"column {schema.name!r} held {_PLURAL[schema.kind]} in training but holds {_PLURAL[kind]} now "
            f"(in {len(strange)} of {len(values)} cells; first: {_shown(strange[0])}). Correct the column or its values"
        )
    else:
        numbers = _finite(column)
    _note_missing(int(np.isnan(numbers).sum()), len(numbers), schema, deviations)
    return numbers


def _note_missing(missing: int, n_rows: int, schema: ColumnSchema, deviations: list[Deviation]) -> None:
    if missing and (not schema.has_missing or missing == n_rows > 3):
        deviations.append(Deviation(schema.name, missing, "missing"))


def _read_words(column: Column, schema: ColumnSchema, deviations: list[Deviation]) -> npt.NDArray[np.object_]:
    kind = _kind(column)
    if kind is not None and (kind == "flag") != (schema.kind == "flag"):
        raise DataError(
            f"column {schema.name!r} held {_PLURAL[schema.kind]} in training but holds {_PLURAL[kind]} now. "
            "Correct the column or its values"
        )
    words = _words(column)
    known = set(schema.values)
    unknown = [word for word in words if word is not None and word not in known]
    # A code that a CSV file writes as 5 is written as 5.0 where its column was one of numbers with a missing value.
    other = {word: word.removesuffix(".0") if word.endswith(".0") else word + ".0" for word in {*unknown}}
    if same := {word: spelt for word, spelt in other.items() if spelt in known and is_number(word)}:
        words = [word if word is None else same.get(word, word) for word in words]
        unknown = [word for word in unknown if word not in same]
    if unknown:
        examples = tuple(_shown(word) for word in sorted(set(unknown))[:3])
        # Many rows without one known word are spelled in another way. One or two may be the first ones of their kind,
        # and a few other rows of a column of names may all have new ones.
        n_words = sum(word is not None for word in words)
        are_names = len(known) > n_words < 2 * len({*unknown})
        if len(unknown) == n_words > 3 and not are_names:
            raise DataError(
                f"not one value of column {schema.name!r} was known in training ({', '.join(examples)}; known: "
                f"{', '.join(_shown(word) for word in schema.values[:3])}, ...). Correct the column or its values"
            )
        deviations.append(Deviation(schema.name, len(unknown), "unknown", examples))
    _note_missing(sum(word is None for word in words), len(words), schema, deviations)
    result = np.empty(len(words), dtype=object)
    result[:] = words
    return result


def squares_overflow(numbers: npt.NDArray[Any]) -> bool:
    """Whether the squares of finite numbers (NaN: missing) have no finite sum, so that nothing can be scaled by it."""
    with np.errstate(over="ignore"):
        return bool(np.isinf(np.nansum(numbers**2)))


def _finite(column: Column) -> npt.NDArray[np.float64]:
    """Numbers of a column, dates as days since 1970, with NaN where missing; no infinite ones, nor squares of them."""
    if _holds_dates(column):
        days = np.asarray(column.cast(nw.Datetime("us")).to_numpy()).astype("datetime64[us]")
        return np.where(np.isnat(days), np.nan, (days - np.datetime64(0, "us")) / np.timedelta64(1, "D"))
    try:
        numbers = np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    except (TypeError, ValueError, nw.exceptions.NarwhalsError):  # pandas' object column of numbers
        nulls = column.is_null().to_list()
        numbers = np.array(
            [math.nan if null else float(value) for value, null in zip(column.to_list(), nulls, strict=True)]
        )
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        raise DataError(
            f"column {column.name!r} holds {infinite.size} infinite number(s), the first in row {infinite[0]}. "
            "Replace them, by a missing value for instance",
            row=int(infinite[0]),
        )
    if squares_overflow(numbers):
        raise DataError(f"column {column.name!r} holds numbers whose squares overflow. Divide them, or leave it out")
    return numbers


def _words(column: Column) -> list[str | None]:
    """Words of a column; numbers and flags in one fixed spelling, so that 5, 5.0 and a category 5 are the same word."""
    # Texts of pyarrow are Python's texts and None already; skipping the spelling below is four times faster.
    if column.dtype == nw.String and column.implementation.is_pyarrow():
        texts: list[str | None] = column.to_list()
        return texts
    nulls = column.is_null().to_list()
    return [None if null else _spelt(value) for value, null in zip(column.to_list(), nulls, strict=True)]


def words_of(column: Column, name: str) -> list[str | None]:
    """Words of a pyarrow column (or one of another library) as a schema spells them; None where missing."""
    return _words(nw.from_native(column, series_only=True).alias(name))


def _spelt(value: object) -> str | None:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | Decimal | np.floating):
        number = float(value)
        if math.isnan(number):
            return None
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def _shown(value: object) -> str:
    """A value as it may stand in a message: quoted, control characters escaped, cut to 40 characters."""
    text = repr(value if isinstance(value, str) else str(value))
    return text if len(text) <= 40 else text[:36] + "...'"
