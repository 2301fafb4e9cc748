"""Tables written a block at a time: whole or not at all, and CSV that no spreadsheet takes for formulas."""

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from widemargin._files import neighbour_of
from widemargin.cli.goals_file.rules import free_name
from widemargin.exceptions import DataError

__all__ = ["TableWriter", "plain_text", "safe_table"]

_FORMULA = r"^([=+\-@\t\r])"


def safe_table(table: Any) -> Any:
    """A table whose texts, also its column names, start with an apostrophe where a spreadsheet would see a formula."""
    columns = [pc.replace_substring_regex(_text(column), _FORMULA, r"'\1") if _is_text(column.type) else column
               for column in table.columns]  # fmt: skip
    names = pc.replace_substring_regex(pa.array(table.column_names, pa.string()), _FORMULA, r"'\1").to_pylist()
    return pa.table(columns, names=names)


def plain_text(column: Any) -> Any:
    """Texts of a CSV file without the apostrophe that `safe_table` put before them; other columns as they are."""
    return pc.replace_substring_regex(_text(column), r"^'([=+\-@\t\r])", r"\1") if _is_text(column.type) else column


def _is_text(kind: Any) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _text(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


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
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def write(self, table: Any) -> None:
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
