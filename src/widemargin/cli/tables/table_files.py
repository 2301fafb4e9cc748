"""Table files: CSV (packed or not), Parquet and Arrow by pyarrow, whole or in parts; read, and written."""

import csv
import gzip
import json
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from widemargin._files import PARQUET_ENDINGS, parquet_files
from widemargin.cli.goals_file.keys import TablePath, table_text
from widemargin.cli.tables.csv_faults import Fault, csv_fault, no_text, opened
from widemargin.cli.tables.csv_out import safe_table
from widemargin.exceptions import DataError

__all__ = [
    "CSV_ENDINGS", "PARQUET_ENDINGS", "likely_separator", "read_table", "refuse_twice", "separator_of", "table_files",
    "unreadable", "usual_separator", "write_table",
]  # fmt: skip

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_ARROW_ENDINGS = (".arrow", ".feather", ".ipc")
_ENDINGS = (*CSV_ENDINGS, *PARQUET_ENDINGS, *_ARROW_ENDINGS)
# Types are guessed from the first block; most tables fit into one this large.
_BLOCK = 1 << 26
SEPARATORS = (",", ";", "\t", "|")
"""What commonly separates the fields of CSV files."""
_FIRST_LINE = 1 << 20


def read_table(path: TablePath, *, words: Collection[str] = (), separator: str | None = None) -> Any:
    """Read a table: one file, a list of files that hold its parts, or a folder of Parquet files.

    Missing in a CSV file: empty fields and the usual spellings (NA, NaN, null, ...), unless they stand in quotes.

    Parameters
    ----------
    path : Path or tuple of Path
        Files end in .csv, .tsv (both may be followed by .gz), .parquet, .pq, .parq, .arrow, .feather or .ipc.
    words : collection of str
        Columns of a CSV file that are text even if they look like numbers.
    separator : str, optional
        What stands between the fields of CSV files; by default a comma, in .tsv files a tab.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    DataError
        A file cannot be read, has an unknown ending or two columns of the same name; the parts differ in their columns;
        there are no rows.
    """
    files = table_files(path)
    parts = [_read_file(file, words, separator) for file in files]
    table = parts[0] if len(parts) == 1 else _joined(parts, files)
    if not table.num_rows:
        raise DataError(f"{table_text(path)}: the table has 0 rows. Give at least one row")
    return table


def table_files(path: TablePath) -> list[Path]:
    """The files of a table, in order; of a folder, its Parquet files by name, numbers as numbers.

    Raises
    ------
    DataError
        A folder holds no Parquet file.
    """
    files: list[Path] = []
    for given in path if isinstance(path, tuple) else (path,):
        if given.is_dir() and not given.name.lower().endswith(_ENDINGS):
            inside = parquet_files(given)
            if not inside:
                raise DataError(f"{given}: the folder holds no Parquet file. Name a file, or a folder of such parts")
            files += inside
        else:
            files.append(given)
    return files


def _read_file(path: Path, words: Collection[str], separator: str | None) -> Any:
    name = path.name.lower()
    try:
        if not name.endswith(_ENDINGS):
            raise DataError(f"{path}: unknown kind of table. Use {', '.join(_ENDINGS)}")
        if path.exists() and not path.is_file():
            what = "a folder" if path.is_dir() else "no file but a device or pipe"
            raise DataError(f"{path}: the table cannot be read (it is {what}). Name a file")
        if name.endswith(CSV_ENDINGS):
            table = _read_csv(path, words, separator_of(path, separator))
        elif name.endswith(PARQUET_ENDINGS):
            table = pyarrow.parquet.ParquetFile(path).read()
        else:
            table = _read_arrow(path)
        table.validate(full=True)  # a damaged file may hold offsets that lead out of it
    except OSError as error:
        raise DataError(f"{path}: the table cannot be read ({_why(error)}). Check the path") from error
    except (pa.ArrowException, ValueError, OverflowError, MemoryError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error, separator) from error
    refuse_twice(path, table.column_names)
    return table


def unreadable(path: Path, error: BaseException, separator: str | None = None) -> DataError:
    """The error that a table file cannot be read, why, and what to do."""
    if path.name.lower().endswith(CSV_ENDINGS):
        fault = csv_fault(path, separator or usual_separator(path), error)
    else:
        fault = Fault(_why(error).rstrip("."), "Check the path, or write the file again")
    return DataError(f"{path}: the table cannot be read ({fault.fact}). {fault.cure}")


def refuse_twice(where: object, names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{where}: {len(twice)} column name(s) stand twice: {', '.join(map(repr, twice[:5]))}. Rename, or add the "
            "line of names if the file has none"
        )


def _why(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)[:300]


def separator_of(path: Path, said: str | None) -> str:
    """What separates the fields of a CSV file: as said, else a comma, or a tab in .tsv files.

    Raises
    ------
    DataError
        The file is empty or no text; or the separator does not occur in the first line, and another common one does.
    """
    fault = no_text(path)
    if fault is not None:
        raise DataError(f"{path}: the table cannot be read ({fault.fact}). {fault.cure}")
    separator = said or usual_separator(path)
    seen = likely_separator(path, separator)
    if seen != separator:
        raise DataError(
            f"{path}: the first line has no {_named(separator)}, and is all one column; it seems to be separated by "
            f"{_named(seen)}. Say so: [data] separator = {json.dumps(seen)} in the goals file, or --separator"
        )
    return separator


def usual_separator(path: Path) -> str:
    """A comma, or in .tsv files a tab."""
    return "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","


def likely_separator(path: Path, expected: str | None = None) -> str:
    """The expected (or usual) separator of a CSV file, unless only another common one occurs in its first line."""
    expected = expected or usual_separator(path)
    with opened(path) as file:
        line = re.sub(rb'"[^"]*"', b"", file.readline(_FIRST_LINE).lstrip(b"\xef\xbb\xbf"))
    if expected.encode() in line:
        return expected
    return max(SEPARATORS, key=lambda other: line.count(other.encode())) if _any_of(line) else expected


def _any_of(line: bytes) -> bool:
    return any(other.encode() in line for other in SEPARATORS)


def _named(separator: str) -> str:
    return {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}.get(separator, repr(separator))


def _read_csv(path: Path, words: Collection[str], delimiter: str) -> Any:
    return pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, column_types=dict.fromkeys(words, pa.string())
        ),
    )


def _read_arrow(path: Path) -> Any:
    with pa.OSFile(str(path)) as file:
        try:
            return pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:  # not the format of files, so that of streams
            file.seek(0)
            return pa.ipc.open_stream(file).read_all()


def _joined(parts: list[Any], files: list[Path]) -> Any:
    """The parts below each other, in the first one's order of columns."""
    names = parts[0].column_names
    for part, file in zip(parts[1:], files[1:], strict=True):
        strange = sorted(set(names) ^ set(part.column_names))
        if strange:
            whose = files[0] if strange[0] in names else file
            raise DataError(
                f"{file}: its columns differ from those of {files[0]}: {', '.join(map(repr, strange[:5]))} "
                f"{'is' if len(strange) == 1 else 'are'} in one of them only (the first of these in {whose}). "
                "Parts of a table need the same columns"
            )
    try:
        return pa.concat_tables([part.select(names) for part in parts], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"{files[0]} and {len(files) - 1} more: a column has different types in them ({_why(error)}). "
            "Give it one type, or name it in data.words"
        ) from error


def write_table(table: Any, path: Path) -> None:
    """Write a table as CSV (.gz has no time stamp) or Parquet; texts in a CSV file are made safe (`safe_table`).

    Parameters
    ----------
    table : pyarrow.Table
        Columns of numbers, texts and true/false.
    path : Path
        Ends in .csv, .csv.gz, .parquet or .pq.

    Raises
    ------
    DataError
        The ending is another one, or the file cannot be written.
    """
    name = path.name.lower()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(PARQUET_ENDINGS):
            pyarrow.parquet.write_table(table, path)
        elif name.endswith((".csv", ".csv.gz")):
            text = _csv_text(safe_table(table)).encode()
            path.write_bytes(gzip.compress(text, compresslevel=9, mtime=0) if name.endswith(".gz") else text)
        else:
            raise DataError(
                f"{path}: a table is written as .csv, .csv.gz, .parquet or .pq. Choose one of these endings"
            )
    except OSError as error:
        raise DataError(f"{path}: the table cannot be written ({_why(error)}). Choose another place") from error


def _csv_text(table: Any) -> str:
    made = _Lines()
    writer = csv.writer(made, lineterminator="\r\n")
    writer.writerow(table.column_names)
    writer.writerows(_rows(table))
    return "".join(made.lines)


class _Lines:
    """Lines that end in a line feed; csv quotes a carriage return in a cell only if its own lines end in one."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        """Take one row."""
        self.lines.append(line.removesuffix("\r\n") + "\n")


def _rows(table: Any) -> Iterator[list[Any]]:
    """Rows of cells; None becomes an empty one."""
    for batch in table.to_batches(max_chunksize=10_000):
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield [_cell(value) for value in row]


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value
