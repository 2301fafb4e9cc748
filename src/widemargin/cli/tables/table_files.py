"""Tables read from files: CSV (packed or not), Parquet and Arrow, whole or a block of rows at a time.

Parquet (a file, or a folder of parts) and large CSV are read in blocks, in bounded memory. CSV up to 64 MB is read
whole, so that every value has a say in the type of its column; beyond, the first 64 MB decide.
"""

import copy
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from widemargin._files import PARQUET_ENDINGS, parquet_files
from widemargin._typing import Bools, Ints
from widemargin.cli.goals_file.keys import Label, Split, TablePath, table_text
from widemargin.cli.goals_file.rules import paths_of
from widemargin.cli.tables import csv_reading
from widemargin.cli.tables.csv_reading import CSV_ENDINGS, Fault, csv_fault
from widemargin.cli.tables.table_writing import plain
from widemargin.exceptions import DataError

__all__ = ["BLOCK_ROWS", "Block", "TableBlocks", "held_out", "read_table", "rows_equal", "table_files"]


_ARROW_ENDINGS = (".arrow", ".feather", ".ipc")
_ENDINGS = (*CSV_ENDINGS, *PARQUET_ENDINGS, *_ARROW_ENDINGS)
BLOCK_ROWS = 1 << 16
_PACKED = 8  # how many times smaller a packed CSV file may be than its text
_SEED = 0  # of the rows held out by validation.fraction: the same file holds out the same rows
_FAULTS = (pa.ArrowException, OSError, ValueError, OverflowError)
"""What pyarrow raises at faulty files."""


class Block(NamedTuple):
    """Some rows of a file.

    Attributes
    ----------
    table : pyarrow.Table
    rows : ndarray of int, shape (n,)
        The number of each row in the file, from 0.
    title : str
        The file in messages; empty: not told.
    """

    table: pa.Table
    rows: Ints
    title: str = ""

    @classmethod
    def whole(cls, table: pa.Table, title: str = "") -> "Block":
        """All rows of a file."""
        return cls(table, np.arange(table.num_rows), title)


def read_table(path: TablePath, *, words: Collection[str] = (), separator: str | None = None) -> pa.Table:
    """Read a table: one file, a list of files that hold its parts, or a folder of Parquet files.

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
    for given in paths_of(path):
        if given.is_dir() and not given.name.lower().endswith(_ENDINGS):
            inside = parquet_files(given)
            if not inside:
                raise DataError(f"{given}: the folder holds no Parquet file. Name a file, or a folder of such parts")
            files += inside
        else:
            files.append(given)
    return files


def _read_file(path: Path, words: Collection[str], separator: str | None) -> pa.Table:
    name = path.name.lower()
    try:
        if not name.endswith(_ENDINGS):
            raise DataError(f"{path}: unknown kind of table. Use {', '.join(_ENDINGS)}")
        if path.exists() and not path.is_file():
            what = "a folder" if path.is_dir() else "no file but a device or pipe"
            raise DataError(f"{path}: the table cannot be read (it is {what}). Name a file")
        if name.endswith(CSV_ENDINGS):
            table = csv_reading.read_csv(path, words=words, separator=separator)
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
        raise _unreadable(path, error, separator) from error
    _refuse_twice(path, table.column_names)
    return table


def _unreadable(path: Path, error: BaseException, separator: str | None = None) -> DataError:
    """The error that a table file cannot be read, why, and what to do."""
    fault = Fault(_why(error).rstrip("."), "Check the path, or write the file again")
    if path.name.lower().endswith(CSV_ENDINGS):
        fault = csv_fault(path, separator, error)
    return DataError(f"{path}: the table cannot be read ({fault.fact}). {fault.cure}")


def _refuse_twice(where: object, names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{where}: {len(twice)} column name(s) stand twice: {', '.join(map(repr, twice[:5]))}. Rename, or add the "
            "line of names if the file has none"
        )


def _why(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)[:300]


def _read_arrow(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file:
        try:
            return pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:  # not the format of files, so that of streams
            file.seek(0)
            return pa.ipc.open_stream(file).read_all()


def _joined(parts: list[pa.Table], files: list[Path]) -> pa.Table:
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
        self._table: pa.Table | None = None
        self._words, self._separator = tuple(words), separator
        self._files = _parquet_parts(path)
        self._groups: list[int] | None = None  # of the one file of a piece
        self._first = 0  # number of its first row
        self.is_guessed = not self._files
        self.names: list[str]
        self._large: Path | None = path if isinstance(path, Path) and not self._files and _is_large_csv(path) else None
        if self._large is not None:
            self.names = list(self._csv_reader(None).schema.names)
            self.n_rows = sum(table.num_rows for table in self._csv_tables(self.names[:1]))
        elif not self._files:
            self._table = read_table(path, words=words, separator=separator)
            self.names = list(self._table.column_names)
            self.n_rows = int(self._table.num_rows)
        else:
            self._look_at_files()
        _refuse_twice(self.title, self.names)
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

    def read(
        self, columns: Collection[str] | None = None, *, split: Split | None = None, part: str = "all"
    ) -> Iterator[Block]:
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
                table, rows = table.filter(pa.array(keep)), rows[keep]
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

    def _kept(self, table: pa.Table, rows: Ints, split: Split | None, part: str) -> Bools:
        """Which rows of a block belong to a part."""
        if split is not None:
            return rows_equal(table[split.column], {"train": split.train, "test": split.test}[part])
        held = held_out(self.n_rows, self.fraction or 0.0)[rows]
        return held if part == "test" else ~held

    def _tables(self, columns: list[str]) -> Iterator[pa.Table]:
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
            except _FAULTS as error:
                raise _unreadable(file, error) from error

    def _csv_reader(self, columns: Collection[str] | None) -> pyarrow.csv.CSVStreamingReader:
        assert self._large is not None
        try:
            return csv_reading.open_csv(self._large, words=self._words, separator=self._separator, columns=columns)
        except DataError:
            raise
        except _FAULTS as error:
            raise _unreadable(self._large, error) from error

    def _csv_tables(self, columns: Collection[str]) -> Iterator[pa.Table]:
        assert self._large is not None
        reader = self._csv_reader(columns)
        try:
            for batch in reader:
                yield pa.Table.from_batches([batch])
        except _FAULTS as error:
            raise _unreadable(self._large, error, self._separator) from error


def _is_large_csv(path: Path) -> bool:
    name = path.name.lower()
    if not name.endswith(CSV_ENDINGS) or not path.is_file():
        return False
    return path.stat().st_size * (_PACKED if name.endswith(".gz") else 1) > csv_reading.CSV_BLOCK


def _parquet_parts(path: TablePath) -> list[Path]:
    """The Parquet files of a table; none if one of its files is of another kind."""
    files = table_files(path)
    return files if all(file.name.lower().endswith(PARQUET_ENDINGS) for file in files) else []


def _opened(path: Path) -> pyarrow.parquet.ParquetFile:
    try:
        return pyarrow.parquet.ParquetFile(path)
    except _FAULTS as error:
        raise _unreadable(path, error) from error


def held_out(n_rows: int, fraction: float) -> Bools:
    """Which rows of a table of that length are held out.

    Raises
    ------
    DataError
        No row would be left in a part.
    """
    number = round(fraction * n_rows)
    if not 0 < number < n_rows:
        raise DataError(
            f"validation.fraction is {fraction:g}: of {n_rows} rows {number} would be held out. Give more rows"
        )
    held = np.zeros(n_rows, dtype=bool)
    held[np.random.default_rng(_SEED).permutation(n_rows)[:number]] = True
    return held


def rows_equal(column: pa.ChunkedArray, value: Label) -> Bools:
    """Which rows of a column hold a value, shape (n,); a missing one is not it, and no text is a number."""
    try:
        same = pc.equal(plain(column), pa.scalar(value))
    except pa.ArrowException:  # a text asked of a column of numbers, or the other way round: no row
        return np.zeros(len(column), dtype=bool)
    found: Bools = pc.fill_null(same, False).to_numpy(zero_copy_only=False).astype(bool)
    return found
