"""Tables written, whole or not at all, and CSV that no spreadsheet takes for formulas."""

import contextlib
import csv
import gzip
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from widemargin._files import PARQUET_ENDINGS, PREDICTION_ENDINGS, UnfinishedFile, free_name, replace_file
from widemargin.cli.tables.table_files import plain
from widemargin.exceptions import DataError


def safe_table(table: pa.Table) -> pa.Table:
    """A table whose texts, also its column names, start with an apostrophe where a spreadsheet would see a formula."""
    formula, guarded = r"^([=+\-@\t\r])", r"'\1"
    columns = [_replaced(column, formula, guarded) for column in table.columns]
    return pa.table(columns, names=_replaced(pa.array(table.column_names, pa.string()), formula, guarded).to_pylist())


def plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts of a CSV file without the apostrophe that `safe_table` put before them; other columns as they are."""
    return _replaced(column, r"^'([=+\-@\t\r])", r"\1")


def _replaced(column: pa.ChunkedArray, pattern: str, by: str) -> pa.ChunkedArray:
    words = plain(column)
    is_text = pa.types.is_string(words.type) or pa.types.is_large_string(words.type)
    return pc.replace_substring_regex(words, pattern, by) if is_text else column


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
            sink = pa.BufferOutputStream()
            pyarrow.parquet.write_table(table, sink)
            replace_file(path, sink.getvalue().to_pybytes())
        elif name.endswith((".csv", ".csv.gz")):
            lines: list[str] = []
            # csv quotes a carriage return in a cell only if its own lines end in one; ours end in a line feed.
            taker = SimpleNamespace(write=lambda line: lines.append(line.removesuffix("\r\n") + "\n"))
            writer, safe = csv.writer(taker, lineterminator="\r\n"), safe_table(table)
            writer.writerow(safe.column_names)
            words = {True: "true", False: "false"}
            for batch in safe.to_batches(max_chunksize=10_000):
                columns = [
                    [words[value] if isinstance(value, bool) else value for value in column.to_pylist()]
                    for column in batch.columns
                ]
                writer.writerows(zip(*columns, strict=True))
            text = "".join(lines).encode()
            replace_file(path, gzip.compress(text, compresslevel=9, mtime=0) if name.endswith(".gz") else text)
        else:
            raise DataError(
                f"{path}: a table is written as .csv, .csv.gz, .parquet or .pq. Choose one of these endings"
            )
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: BaseException) -> DataError:
    why = getattr(error, "strerror", None) or error
    return DataError(f"{path}: the table cannot be written ({why}). Choose another place")


class TableWriter(contextlib.AbstractContextManager["TableWriter"]):
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
        if not name.endswith(PREDICTION_ENDINGS):
            raise DataError(f"{path}: a table is written as .csv, .parquet or .pq. Choose one of these endings")
        self.path = path
        self._is_csv = name.endswith(".csv")
        self._file: UnfinishedFile | None = None
        self._writer: pyarrow.csv.CSVWriter | pyarrow.parquet.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        """Append rows; every block has the columns of the first."""
        # Parquet is no format that spreadsheets open, so only CSV needs the apostrophes.
        ready = safe_table(table) if self._is_csv else table
        try:
            if self._writer is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = UnfinishedFile(self.path)
                kind = pyarrow.csv.CSVWriter if self._is_csv else pyarrow.parquet.ParquetWriter
                self._writer = kind(self._file.stream, ready.schema)
            self._writer.write_table(ready.cast(self._writer.schema) if not self._is_csv else ready)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise _unwritable(self.path, error) from error

    def keep_part(self) -> Path | None:
        """Close the file and keep what has been written under a name that says so; None where nothing has been.

        `pred.csv` becomes `pred.partial.csv`, or the first of `pred.partial2.csv`, ... that is free.
        """
        if self._writer is None or self._file is None:
            return None
        try:
            self._writer.close()
            self._writer = None
            path = free_name(self.path, "partial")
            self._file.keep(path)
        except OSError as problem:
            raise _unwritable(self.path, problem) from problem
        return path

    def __exit__(self, kind: type[BaseException] | None, *problem: object) -> None:
        try:
            if self._writer is not None and self._file is not None:
                self._writer.close()
                if kind is None:
                    self._file.keep()
        except OSError as error:
            raise _unwritable(self.path, error) from error
        finally:
            if self._file is not None:
                self._file.drop()
