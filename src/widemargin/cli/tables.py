"""Tables of the command line: CSV (packed or not) and Parquet by pyarrow, their rows and the roles of their columns."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from widemargin.cli.goals_file import GoalsFile, Label, Split
from widemargin.exceptions import DataError

__all__ = ["Rows", "feature_columns", "is_it", "read_table", "require_columns", "rows_of", "split_rows"]

_CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_PARQUET_ENDINGS = (".parquet", ".pq")
# Types are guessed from the first block; most tables fit into one this large.
_BLOCK = 1 << 26


@dataclass(frozen=True)
class Rows:
    """Rows of a table ready for training or an audit.

    Attributes
    ----------
    table : pyarrow.Table
        All columns, and each baseline under its own name.
    labels : ndarray of shape (n_rows,) or None
        The target; None where the table has none.
    """

    table: Any
    labels: npt.NDArray[Any] | None

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)


def read_table(path: Path, *, words: Collection[str] = ()) -> Any:
    """Read a CSV or Parquet file.

    Missing in a CSV file: empty fields and the usual spellings (NA, NaN, null, ...), unless they stand in quotes.

    Parameters
    ----------
    path : Path
        Ends in .csv, .tsv (both may be followed by .gz), .parquet or .pq.
    words : collection of str
        Columns of a CSV file that are text even if they look like numbers.

    Raises
    ------
    DataError
        The file cannot be read, has an unknown ending, no rows, or two columns of the same name.
    """
    name = path.name.lower()
    try:
        if name.endswith(_CSV_ENDINGS):
            table = _read_csv(path, words)
        elif name.endswith(_PARQUET_ENDINGS):
            table = pyarrow.parquet.read_table(path)
        else:
            raise DataError(f"{path}: unknown kind of table. Use {', '.join((*_CSV_ENDINGS, *_PARQUET_ENDINGS))}")
    except OSError as error:
        raise DataError(f"{path}: the table cannot be read ({error.strerror or error}). Check the path") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: the table cannot be read ({str(error)[:300]}). Correct that place") from error
    twice = sorted({column for column in table.column_names if table.column_names.count(column) > 1})
    if twice:
        raise DataError(f"{path}: {len(twice)} column name(s) stand twice: {', '.join(map(repr, twice[:5]))}. Rename")
    if not table.num_rows:
        raise DataError(f"{path}: the table has 0 rows. Give at least one row")
    return table


def _read_csv(path: Path, words: Collection[str]) -> Any:
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    return pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, column_types=dict.fromkeys(words, pa.string())
        ),
    )


def require_columns(table: Any, wanted: Mapping[str, str], where: str) -> None:
    """Refuse a table that lacks a column; `wanted` maps the column to the key of the goals file that names it."""
    absent = [column for column in wanted if column not in table.column_names]
    if absent:
        named = ", ".join(f"{column!r} ({wanted[column]})" for column in absent)
        cures = "".join(is_it(column, table.column_names) for column in absent)
        raise DataError(
            f"{where}: {len(absent)} column(s) of the goals file are not in the table: {named}.{cures} "
            f"It has {', '.join(map(repr, table.column_names[:20]))}"
        )


def is_it(wrong: object, right: Iterable[object]) -> str:
    """The question whether another name or value was meant, after a space; empty where none is near."""
    known = {str(item).casefold(): item for item in right}
    near = difflib.get_close_matches(str(wrong).casefold(), known, 1)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def feature_columns(table: Any, goals: GoalsFile) -> list[str]:
    """Columns a model may use: those named, or all that play no other role. Protected ones are never among them."""
    if goals.data.features is not None:
        return list(goals.data.features)
    others = {goals.data.target, *goals.data.protected, *goals.data.ignore, *goals.baselines.values()}
    if goals.data.split is not None:
        others.add(goals.data.split.column)
    return [name for name in table.column_names if name not in others]


def split_rows(
    table: Any,
    split: Split | None,
    where: str,
    *,
    wanted: Collection[str] = ("train", "test"),
    cure: str = "Correct the value",
) -> dict[str, Any]:
    """Tables by part: those wanted of `train` and `test`, or `train` alone where the goals file names no split.

    Raises
    ------
    DataError
        A part that is wanted has no rows; the message ends in `cure`.
    """
    if split is None:
        return {"train": table}
    parts = {}
    for part in wanted:
        value = {"train": split.train, "test": split.test}[part]
        rows = table.filter(_equals(table[split.column], value))
        if not rows.num_rows:
            found = ", ".join(map(repr, pc.unique(table[split.column]).to_pylist()[:5]))
            raise DataError(
                f"{where}: 0 rows have {value!r} in column {split.column!r} (data.split.{part}); it holds {found}. "
                f"{cure}"
            )
        parts[part] = rows
    return parts


def _equals(column: Any, value: Label) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return pc.equal(column, pa.scalar(value))
    except pa.ArrowException:  # a text asked of a column of numbers, or the other way round: no row
        return pa.array(np.zeros(len(column), dtype=bool))


def rows_of(table: Any, goals: GoalsFile, where: str) -> Rows:
    """A table with its labels, and under its own name each baseline whose column is there.

    Raises
    ------
    DataError
        A baseline has the name of another column, or the labels are not usable.
    """
    for name, column in goals.baselines.items():
        if name == column or column not in table.column_names:
            continue
        if name in table.column_names:
            raise DataError(
                f"{where}: baselines.{name} reads column {column!r}, but there is a column {name!r} too. Rename"
            )
        table = table.append_column(name, table[column])
    target = goals.data.target
    return Rows(table, _labels(table[target], goals, where) if target in table.column_names else None)


def _labels(column: Any, goals: GoalsFile, where: str) -> npt.NDArray[Any]:
    target, positive = goals.data.target, goals.data.positive
    if column.null_count:
        first = pc.index(column.is_null(), True).as_py()
        raise DataError(
            f"{where}: the target {target!r} is missing in {column.null_count} row(s), the first is row {first}. "
            "Drop these rows or fill them"
        )
    values = np.array([] if pa.types.is_nested(column.type) else column.to_pylist(), dtype=None)
    if values.ndim != 1 or values.dtype.kind not in "biufU" or not len(values):
        raise DataError(f"{where}: the target {target!r} holds {column.type}. Use two words, two numbers or true/false")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(
            f"{where}: the target {target!r} holds numbers that are not finite. Use two words or two numbers"
        )
    classes = np.unique(values).tolist()
    shown = ", ".join(map(repr, classes[:5])) + (", ..." if len(classes) > 5 else "")
    if len(classes) > 2:
        raise DataError(
            f"{where}: the target {target!r} has {len(classes)} classes ({shown}); two are needed. Join some"
        )
    known = any(type(positive) is type(value) and positive == value for value in classes)
    if len(classes) == 2 and not known:
        raise DataError(
            f"{where}: data.positive is {positive!r}, but the target {target!r} holds {shown}."
            f"{is_it(positive, classes) or ' Correct data.positive'}"
        )
    return values
