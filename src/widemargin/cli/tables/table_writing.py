"""Tables written, whole or not at all, and CSV that no spreadsheet takes for formulas."""

import contextlib
import csv
import gzip
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from widemargin._files import PARQUET_ENDINGS, neighbour_of
from widemargin.cli.goals_file.rules import free_name
from widemargin.exceptions import DataError

__all__ = ["TableWriter", "plain", "plain_text", "safe_table", "write_table"]

_FORMULA = r"^([=+\-@\t\r])"


def safe_table(table: pa.Table) -> pa.Table:
    """A table whose texts, also its column names, start with an apostrophe where a spreadsheet would see a formula."""
    columns = [_replaced(column, _FORMULA, r"'\1") for column in table.columns]
    return pa.table(columns, names=_replaced(pa.array(table.column_names, pa.string()), _FORMULA, r"'\1").to_pylist())


def plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts of a CSV file without the apostrophe that `safe_table` put before them; other columns as they are."""
    return _replaced(column, r"^'([=+\-@\t\r])", r"\1")


def _replaced(column: pa.ChunkedArray, pattern: str, by: str) -> pa.ChunkedArray:
    words = plain(column)
    is_text = pa.types.is_string(words.type) or pa.types.is_large_string(words.type)
    return pc.replace_substring_regex(words, pattern, by) if is_text else column


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of words as words, if it holds them as numbers of a dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def write_table(table: pa.Table, path: Path) -> None:
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
        raise DataError(
            f"{path}: the table cannot be written ({error.strerror or error}). Choose another place"
        ) from error


def _csv_text(table: pa.Table) -> str:
    """Rows of a table as CSV; missing values are empty."""
    said = _Lines()
    writer = csv.writer(said, lineterminator="\r\n")
    writer.writerow(table.column_names)
    words = {True: "true", False: "false"}
    for batch in table.to_batches(max_chunksize=10_000):
        columns = (
            [words[value] if isinstance(value, bool) else value for value in column.to_pylist()]
            for column in batch.columns
        )
        writer.writerows(zip(*columns, strict=True))
    return "".join(said.lines)


class _Lines:
    """Lines that end in a line feed; csv quotes a carriage return in a cell only if its own lines end in one."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        """Take one row."""
        self.lines.append(line.removesuffix("\r\n") + "\n")


class TableWriter:
    """A CSV or Parquet file that appears under its name when everything has been written.

    Parameters
    ----------
    path : Path
        Ends in .csv, .parquet or .pq.

    Raises
    ------
    DataError
        The ending is another one, or the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        name = path.name.lower()
        if not name.endswith((".csv", ".parquet", ".pq")):
            raise DataError(f"{path}: a table is written as .csv, .parquet or .pq. Choose one of these endings")
        self.path = path
        self._is_csv = name.endswith(".csv")
        self._neighbour = neighbour_of(path)
        self._writer: pyarrow.csv.CSVWriter | pyarrow.parquet.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def write(self, table: pa.Table) -> None:
        """Append rows; every block has the columns of the first."""
        ready = safe_table(table) if self._is_csv else table
        try:
            if self._writer is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                kind = pyarrow.csv.CSVWriter if self._is_csv else pyarrow.parquet.ParquetWriter
                self._writer = kind(str(self._neighbour), ready.schema)
            self._writer.write_table(ready.cast(self._writer.schema) if not self._is_csv else ready)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise self._unwritable(error) from error

    def keep_part(self) -> Path | None:
        """Close the file and keep what has been written under a name that says so; None where nothing has been.

        `pred.csv` becomes `pred.partial.csv`, or the first of `pred.partial2.csv`, ... that is free.
        """
        if self._writer is None:
            return None
        try:
            self._writer.close()
            self._writer = None
            path = free_name(self.path, "partial")
            self._neighbour.replace(path)
        except OSError as problem:
            raise self._unwritable(problem) from problem
        return path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
                if kind is None:
                    self._neighbour.replace(self.path)
        except OSError as problem:
            raise self._unwritable(problem) from problem
        finally:
            with contextlib.suppress(OSError):  # the error that led here is the one to be told
                self._neighbour.unlink(missing_ok=True)

    def _unwritable(self, error: BaseException) -> DataError:
        return DataError(
            f"{self.path}: the table cannot be written ({getattr(error, 'strerror', None) or error}). "
            "Choose another place"
        )
