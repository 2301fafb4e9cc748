"""The rows of a table file a block at a time: Parquet (a file, or a folder of parts) and large CSV in bounded memory.

CSV up to 64 MB is read whole, so that every value has a say in the type of its column; beyond, the first 64 MB decide.
"""

import copy
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from widemargin.cli.goals_file.keys import Split, TablePath, table_text
from widemargin.cli.tables.column_roles import Block, held_out, read_table, rows_equal
from widemargin.cli.tables.table_files import (
    CSV_ENDINGS,
    PARQUET_ENDINGS,
    refuse_twice,
    separator_of,
    table_files,
    unreadable,
)
from widemargin.exceptions import DataError

__all__ = ["Block", "TableBlocks"]

BLOCK_ROWS = 1 << 16
CSV_BLOCK = 1 << 26
_PACKED = 8  # how many times smaller a packed CSV file may be than its text


class TableBlocks:
    """The blocks of a table file, any number of times.

    Parameters
    ----------
    path : Path or tuple of Path
        CSV, Parquet, Arrow, a folder of Parquet files with the same columns, or the parts of a table.
    words : collection of str
        Columns of a CSV file that are text even if they look like numbers.
    separator : str, optional
        As in `read_table`.
    fraction : float, default=None
        The share of rows that training held out of this table, where no column says which.
    pieces : bool, default=False
        Whether a table that is read whole is also given out in blocks, so that work on it can stop between them.

    Attributes
    ----------
    title : str
        The table in messages.
    names : list of str
        Columns of the file.
    n_rows : int
    is_guessed : bool
        Whether the types of the columns were guessed from their texts.

    Raises
    ------
    DataError
        The file cannot be read, the files of a folder differ in their columns, there are no rows.
    """

    def __init__(
        self,
        path: TablePath,
        *,
        words: Collection[str] = (),
        separator: str | None = None,
        fraction: float | None = None,
        pieces: bool = False,
    ) -> None:
        self.title, self.fraction, self._pieces = table_text(path), fraction, pieces
        self._table: Any = None
        self._words, self._separator = tuple(words), separator
        self._files = _parts(path)
        self._groups: list[int] | None = None  # of the one file of a piece
        self._first = 0  # number of its first row
        self.is_guessed = not self._files
        self.names: list[str]
        self._large: Path | None = path if isinstance(path, Path) and not self._files and _is_large_csv(path) else None
        if self._large is not None:
            self.names = list(self._reader(None).schema.names)
            self.n_rows = sum(table.num_rows for table in self._csv_tables(self.names[:1]))
        elif not self._files:
            self._table = read_table(path, words=words, separator=separator)
            self.names = list(self._table.column_names)
            self.n_rows = int(self._table.num_rows)
        else:
            self._look_at_files()
        refuse_twice(self.title, self.names)
        if not self.n_rows:
            raise DataError(f"{self.title}: the table has 0 rows. Give at least one row")

    def _look_at_files(self) -> None:
        schemas = [_opened(file).schema_arrow for file in self._files]
        self.names = list(schemas[0].names)
        for file, schema in zip(self._files, schemas, strict=True):
            strange = sorted({*schema.names} ^ {*self.names})
            if strange:
                raise DataError(
                    f"{file}: its columns differ from those of {self._files[0]}: {', '.join(map(repr, strange[:5]))}. "
                    "Parts of a table need the same columns"
                )
        self.n_rows = sum(_opened(file).metadata.num_rows for file in self._files)

    def read(self, columns: Collection[str] | None = None, *, split: Split | None = None, part: str = "all") -> Any:
        """Iterator over the blocks.

        Parameters
        ----------
        columns : collection of str, default=None
            The columns that are needed; None, or a name that the file lacks: all (so that a message can list them).
        split : Split, default=None
        part : {"all", "train", "test"}, default="all"
            Which rows, by the split.

        Yields
        ------
        Block
            With at least one row.
        """
        chosen = self.names
        if columns is not None and set(columns) <= set(self.names):
            chosen = [name for name in self.names if name in columns]
        start = self._first
        for table in self._tables(chosen):
            rows = np.arange(start, start + table.num_rows)
            start += table.num_rows
            if part != "all" and (split is not None or self.fraction is not None):
                keep = self._kept(table, rows, split, part)
                table, rows = table.filter(keep), rows[np.asarray(keep)]
            if table.num_rows:
                yield Block(table, rows, self.title)

    def cut(self) -> "list[TableBlocks]":
        """The same table cut into pieces that can be sent elsewhere, a row group each; none if it is not Parquet."""
        cut, first = [], 0
        for file in self._files:
            metadata = _opened(file).metadata
            for group in range(metadata.num_row_groups):
                piece = copy.copy(self)
                piece._files, piece._groups, piece._first = [file.absolute()], [group], first
                cut.append(piece)
                first += metadata.row_group(group).num_rows
        return cut

    def _kept(self, table: Any, rows: npt.NDArray[np.int64], split: Split | None, part: str) -> npt.NDArray[np.bool_]:
        """Which rows of a block belong to a part."""
        if split is not None:
            return rows_equal(table[split.column], {"train": split.train, "test": split.test}[part])
        held = held_out(self.n_rows, self.fraction or 0.0)[rows]
        return held if part == "test" else ~held

    def _tables(self, columns: list[str]) -> Iterator[Any]:
        if self._table is not None:
            size = BLOCK_ROWS if self._pieces else self._table.num_rows
            yield from (self._table.slice(start, size) for start in range(0, self._table.num_rows, size))
        elif not self._files:
            yield from self._csv_tables(columns)
        for file in self._files:
            try:
                for batch in _opened(file).iter_batches(BLOCK_ROWS, row_groups=self._groups, columns=columns):
                    batch.validate(full=True)  # a damaged file may hold offsets that lead out of it
                    yield pa.Table.from_batches([batch])
            except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
                raise unreadable(file, error) from error

    def _reader(self, columns: list[str] | None) -> Any:
        assert self._large is not None
        try:
            separator = separator_of(self._large, self._separator)
        except OSError as error:  # a packed file that is none
            raise unreadable(self._large, error) from error
        return _csv_reader(self._large, self._words, separator, columns)

    def _csv_tables(self, columns: list[str]) -> Iterator[Any]:
        assert self._large is not None
        try:
            for batch in self._reader(columns):
                yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError, ValueError) as error:
            raise unreadable(self._large, error, self._separator) from error


def _is_large_csv(path: Path) -> bool:
    name = path.name.lower()
    if not name.endswith(CSV_ENDINGS) or not path.is_file():
        return False
    return path.stat().st_size * (_PACKED if name.endswith(".gz") else 1) > CSV_BLOCK


def _csv_reader(path: Path, words: Collection[str], separator: str, columns: list[str] | None) -> Any:
    try:
        return pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(block_size=CSV_BLOCK),
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                strings_can_be_null=True, quoted_strings_can_be_null=False, include_columns=columns,
                column_types=dict.fromkeys(words, pa.string()),
            ),
        )  # fmt: skip
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(path, error) from error


def _parts(path: TablePath) -> list[Path]:
    """The Parquet files of a table; none if one of its files is of another kind."""
    files = table_files(path)
    return files if all(file.name.lower().endswith(PARQUET_ENDINGS) for file in files) else []


def _opened(path: Path) -> Any:
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise unreadable(path, error) from error
