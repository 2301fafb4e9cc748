"""Tables read from files: CSV (packed or not), Parquet and Arrow, whole or a block of rows at a time.

Parquet (a file, or a folder of parts) and large CSV are read in blocks, in bounded memory. CSV up to 64 MB is read
whole, so that every value has a say in the type of its column; beyond, the first 64 MB decide.
"""

import copy
import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from widemargin._files import PARQUET_ENDINGS, file_sha256, parquet_files
from widemargin._text import listing
from widemargin._typing import Bools, Ints
from widemargin.cli.goals_file.keys import Label, Split, TablePath, paths_of, table_text
from widemargin.cli.tables import csv_reading
from widemargin.cli.tables.csv_reading import CSV_ENDINGS, CsvFormat
from widemargin.exceptions import DataError

_ENDINGS = (*CSV_ENDINGS, *PARQUET_ENDINGS, ".arrow", ".feather", ".ipc")
BLOCK_ROWS = 1 << 16
_FAULTS = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, EOFError)
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

    def where(self, mask: Bools) -> "Block":
        """The rows for which a mask holds."""
        return Block(self.table.filter(pa.array(mask)), self.rows[mask], self.title)

    def having(self, column: str | None) -> "Block":
        """The rows with a value in a column; all of them where no column is named, or the table lacks it."""
        if column not in self.table.column_names or not self.table[column].null_count:
            return self
        return self.where(np.asarray(self.table[column].is_valid()))


def read_table(path: TablePath, **how: Unpack[CsvFormat]) -> pa.Table:
    """Read a table: one file, a list of files that hold its parts, or a folder of Parquet files.

    Parameters
    ----------
    path : Path or tuple of Path
        Files end in .csv, .tsv (both may be followed by .gz), .parquet, .pq, .parq, .arrow, .feather or .ipc.
    **how
        How CSV files among them are written.

    Raises
    ------
    DataError
        A file cannot be read, has an unknown ending or two columns of the same name; the parts differ in their columns;
        there are no rows.
    """
    files = table_files(path)
    parts = [_read_file(file, how) for file in files]
    table = parts[0]
    for file, part in zip(files, parts, strict=True):
        _refuse_other_columns(file, part.column_names, files[0], table.column_names)
    if len(parts) > 1:
        try:  # below each other, in the first one's order of columns
            select = [part.select(table.column_names) for part in parts]
            table = pa.concat_tables(select, promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(
                f"{files[0]} and {len(files) - 1} more: a column has different types in them ({_why(error)}). "
                "Give it one type, or name it in data.words"
            ) from error
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


def sha256_of(table: TablePath) -> str:
    """The SHA-256 of a table's file; of a table in several files, that of their SHA-256 in order."""
    digests = [file_sha256(file) for file in table_files(table)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _read_file(path: Path, how: CsvFormat) -> pa.Table:
    name = path.name.lower()
    if not name.endswith(_ENDINGS):
        raise DataError(f"{path}: unknown kind of table. Use {', '.join(_ENDINGS)}")
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "no file but a device or pipe"
        raise DataError(f"{path}: the table cannot be read (it is {what}). Name a file")
    try:
        if name.endswith(CSV_ENDINGS):
            table = pyarrow.csv.read_csv(path, **csv_reading.reading_options(path, quoted=True, **how))
            _refuse_twice(path, table.column_names)
            words = [name for name in _texts(table) if table[name].null_count]
            if words:
                options = csv_reading.reading_options(path, words, quoted=False, **how)
                table = _with_words(table, pyarrow.csv.read_csv(path, **options), how.get("missing", ()))
        elif name.endswith(PARQUET_ENDINGS):
            table = pyarrow.parquet.ParquetFile(path).read()
        else:
            with pa.OSFile(str(path)) as file:
                try:
                    table = pa.ipc.open_file(file).read_all()
                except pa.ArrowInvalid:  # not the format of files, so that of streams
                    file.seek(0)
                    table = pa.ipc.open_stream(file).read_all()
        table.validate(full=True)  # a damaged file may hold offsets beyond its own data
    except _FAULTS as error:
        raise _unreadable(path, error, how.get("separator")) from error
    _refuse_twice(path, table.column_names)
    return table


def _texts(table: pa.Table) -> list[str]:
    return [field.name for field in table.schema if pa.types.is_string(field.type)]


def _with_words(table: pa.Table, words: pa.Table, missing: Collection[str]) -> pa.Table:
    """The table with words as quotes mean them in the place of columns of their names.

    Texts that were named as missing are so in quotes, too.
    """
    for name in words.column_names:
        column = words[name]
        column = pc.if_else(pc.is_in(column, pa.array(missing, column.type)), pa.scalar(None, column.type), column)
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _unreadable(path: Path, error: BaseException, separator: str | None = None) -> DataError:
    """The error that a table file cannot be read, why, and what to do; one of ours stays as it is."""
    if isinstance(error, DataError):
        return error
    fact, cure = _why(error).rstrip("."), "Check the path, or write the file again"
    if path.name.lower().endswith(CSV_ENDINGS):
        fact, cure = csv_reading.csv_fault(path, separator, error)
    return DataError(f"{path}: the table cannot be read ({fact}). {cure}")


def _refuse_twice(where: object, names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    unnamed = [number for number, name in enumerate(names, 1) if not name]
    if len(unnamed) > 1:
        raise DataError(
            f"{where}: {len(unnamed)} columns have no name: {listing(unnamed)}, counted from 1. Name them in the first "
            "line, or remove them"
        )
    twice = sorted(name for name, number in Counter(names).items() if number > 1)
    if twice:
        raise DataError(
            f"{where}: {len(twice)} column name(s) stand twice: {', '.join(map(repr, twice[:5]))}. Rename or remove "
            "one of each, or add the line of names if the file has none"
        )


def _refuse_other_columns(file: Path, names: Sequence[str], first: Path, wanted: Sequence[str]) -> None:
    """Refuse a part of a table that has not the columns of the first one."""
    strange = sorted({*names} ^ {*wanted})
    if strange:
        raise DataError(
            f"{file}: its columns differ from those of {first}: {', '.join(map(repr, strange[:5]))} "
            f"{'is' if len(strange) == 1 else 'are'} in one of them only (the first of these in "
            f"{first if strange[0] in wanted else file}). Parts of a table need the same columns"
        )


def _why(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)[:300]


class TableBlocks:
    """The blocks of a table file, any number of times.

    Parameters
    ----------
    path : Path or tuple of Path
        CSV, Parquet, Arrow, a folder of Parquet files with the same columns, or the parts of a table.
    fraction : float, default=None
        The share of rows that training held out of this table, where no column says which.
    pieces : bool, default=False
        Whether a table that is read whole is also given out in blocks, so that work on it can stop between them.
    **how
        As in `read_table`.

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
        fraction: float | None = None,
        pieces: bool = False,
        **how: Unpack[CsvFormat],
    ) -> None:
        self.title, self.fraction, self._pieces = table_text(path), fraction, pieces
        self._table: pa.Table | None = None
        self._how = how
        files = table_files(path)
        # Parquet files are read in blocks if all parts are of this kind.
        self._files = files if all(file.name.lower().endswith(PARQUET_ENDINGS) for file in files) else []
        self._groups: list[int] | None = None  # of the one file of a piece
        self._first = 0  # number of its first row
        self._large: Path | None = None
        self.is_guessed = not self._files
        if isinstance(path, Path) and path.name.lower().endswith(CSV_ENDINGS) and path.is_file():
            packed = 8 if path.name.lower().endswith(".gz") else 1  # how many times smaller than its text it may be
            self._large = path if path.stat().st_size * packed > csv_reading.CSV_BLOCK else None
        self.names: list[str]
        if self._large is not None:
            self.names = list(self._csv_reader(None, quoted=True).schema.names)
            self.n_rows = sum(table.num_rows for table in self._tables(self.names[:1]))
        elif not self._files:
            self._table = read_table(path, **how)
            self.names = list(self._table.column_names)
            self.n_rows = int(self._table.num_rows)
        else:
            schemas = [_opened(file).schema_arrow for file in self._files]
            self.names = list(schemas[0].names)
            for file, schema in zip(self._files, schemas, strict=True):
                _refuse_other_columns(file, schema.names, self._files[0], self.names)
            self.n_rows = sum(_opened(file).metadata.num_rows for file in self._files)
        _refuse_twice(self.title, self.names)
        if not self.n_rows:
            raise DataError(f"{self.title}: the table has 0 rows. Give at least one row")

    def read(
        self,
        columns: Collection[str] | None = None,
        *,
        split: Split | None = None,
        part: str = "all",
        needed: str | None = None,
    ) -> Iterator[Block]:
        """Iterator over the blocks.

        Parameters
        ----------
        columns : collection of str, default=None
            The columns that are needed; None, or a name that the file lacks: all (so that a message can list them).
        part : {"all", "train", "test"}, default="all"
            Which rows, by the split.
        needed : str, default=None
            A column; rows without a value in it are left out.

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
            block = Block(table, np.arange(start, start + table.num_rows), self.title)
            start += table.num_rows
            if part != "all" and (split is not None or self.fraction is not None):
                if split is not None:
                    in_part = rows_equal(table[split.column], {"train": split.train, "test": split.test}[part])
                else:
                    in_part = held_out(self.n_rows, self.fraction or 0.0)[block.rows] == (part == "test")
                block = block.where(in_part)
            block = block.having(needed)
            if len(block.rows):
                yield block

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

    def _tables(self, columns: list[str]) -> Iterator[pa.Table]:
        if self._table is not None:
            size = BLOCK_ROWS if self._pieces else self._table.num_rows
            yield from (self._table.slice(start, size) for start in range(0, self._table.num_rows, size))
        elif self._large is not None:
            words: Iterator[tuple[int, pa.RecordBatch]] | None = None
            try:
                for number, batch in enumerate(self._csv_reader(columns, quoted=True)):
                    table = pa.Table.from_batches([batch])
                    names = _texts(table)
                    # Only gaps can be words in quotes. Without one the file is not read a second time.
                    if any(table[name].null_count for name in names):
                        words = words or enumerate(self._csv_reader(names, quoted=False))
                        others = next(some for place, some in words if place == number)
                        table = _with_words(table, pa.Table.from_batches([others]), self._how.get("missing", ()))
                    yield table
            except _FAULTS as error:
                raise _unreadable(self._large, error, self._how.get("separator")) from error
        for file in self._files:
            try:
                for batch in _opened(file).iter_batches(BLOCK_ROWS, row_groups=self._groups, columns=columns):
                    batch.validate(full=True)  # a damaged file may hold offsets beyond its own data
                    yield pa.Table.from_batches([batch])
            except _FAULTS as error:
                raise _unreadable(file, error) from error

    def _csv_reader(self, columns: Collection[str] | None, *, quoted: bool) -> pyarrow.csv.CSVStreamingReader:
        """A large CSV file a block at a time: the first block decides the types of the columns."""
        assert self._large is not None
        try:
            options = csv_reading.reading_options(self._large, columns, quoted=quoted, **self._how)
            return pyarrow.csv.open_csv(self._large, **options)
        except _FAULTS as error:
            raise _unreadable(self._large, error, self._how.get("separator")) from error


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
    # Always the same rows: the same file holds out the same.
    held[np.random.default_rng(0).permutation(n_rows)[:number]] = True
    return held


def rows_equal(column: pa.ChunkedArray, value: Label) -> Bools:
    """Which rows of a column hold a value, shape (n,); a missing one is not it, and no text is a number."""
    try:
        same = pc.equal(plain(column), pa.scalar(value))
    except pa.ArrowException:  # a text asked of a column of numbers, or the other way round: no row
        return np.zeros(len(column), dtype=bool)
    is_same: Bools = pc.fill_null(same, False).to_numpy(zero_copy_only=False).astype(bool)
    return is_same


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of words as words, if it holds them as numbers of a dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
