"""The rows of a table file a block at a time: Parquet (a file, or a folder of parts) and large CSV in bounded memory.

CSV up to 64 MB is read whole, so that every value has a say in the type of its column; beyond, the first 64 MB decide.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from widemargin.cli.goals_file import Label, Split
from widemargin.cli.tables import read_table
from widemargin.exceptions import DataError

__all__ = ["Block", "TableBlocks"]

BLOCK_ROWS = 1 << 16
CSV_BLOCK = 1 << 26
_CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_PACKED = 8  # how many times smaller a packed CSV file may be than its text
_PARQUET_ENDINGS = (".parquet", ".pq")


class Block(NamedTuple):
    """Some rows of a file: a pyarrow table, and the number of each row in the file."""

    table: Any
    rows: npt.NDArray[np.int64]


class TableBlocks:
    """The blocks of a table file, any number of times.

    Parameters
    ----------
    path : Path
        CSV, Parquet, or a folder of Parquet files with the same columns.
    words : collection of str
        Columns of a CSV file that are text even if they look like numbers.

    Attributes
    ----------
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

    def __init__(self, path: Path, *, words: Collection[str] = ()) -> None:
        self.path = path
        self._table: Any = None
        self._words = tuple(words)
        self._files = _parts(path)
        self.is_guessed = not self._files
        self.names: list[str]
        if not self._files and _is_large_csv(path):
            self.names = list(_csv_reader(path, self._words, None).schema.names)
            self.n_rows = sum(table.num_rows for table in self._csv_tables(self.names[:1]))
        elif not self._files:
            self._table = read_table(path, words=words)
            self.names = list(self._table.column_names)
            self.n_rows = int(self._table.num_rows)
        else:
            self._look_at_files()
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise DataError(f"{path}: {len(twice)} column name(s) stand twice: {', '.join(map(repr, twice))}. Rename")
        if not self.n_rows:
            raise DataError(f"{path}: the table has 0 rows. Give at least one row")

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
        start = 0
        for table in self._tables(chosen):
            rows = np.arange(start, start + table.num_rows)
            start += table.num_rows
            if part != "all" and split is not None:
                keep = _equals(table[split.column], {"train": split.train, "test": split.test}[part])
                table, rows = table.filter(keep), rows[np.asarray(keep)]
            if table.num_rows:
                yield Block(table, rows)

    def _tables(self, columns: list[str]) -> Iterator[Any]:
        if self._table is not None:
            yield self._table
        elif not self._files:
            yield from self._csv_tables(columns)
        for file in self._files:
            try:
                for batch in _opened(file).iter_batches(BLOCK_ROWS, columns=columns):
                    batch.validate(full=True)  # a damaged file may hold offsets that lead out of it
                    yield pa.Table.from_batches([batch])
            except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
                raise _unreadable(file, error) from error

    def _csv_tables(self, columns: list[str]) -> Iterator[Any]:
        try:
            for batch in _csv_reader(self.path, self._words, columns):
                yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _unreadable(self.path, error) from error


def _is_large_csv(path: Path) -> bool:
    name = path.name.lower()
    if not name.endswith(_CSV_ENDINGS) or not path.is_file():
        return False
    return path.stat().st_size * (_PACKED if name.endswith(".gz") else 1) > CSV_BLOCK


def _csv_reader(path: Path, words: Collection[str], columns: list[str] | None) -> Any:
    try:
        return pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(block_size=CSV_BLOCK),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter="\t" if ".tsv" in path.name.lower() else ",", newlines_in_values=True
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                strings_can_be_null=True, quoted_strings_can_be_null=False, include_columns=columns,
                column_types=dict.fromkeys(words, pa.string()),
            ),
        )  # fmt: skip
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _parts(path: Path) -> list[Path]:
    """The Parquet files of a table; none if it is no Parquet."""
    if path.is_dir():
        found = sorted(item for item in path.iterdir() if item.name.lower().endswith(_PARQUET_ENDINGS))
        if not found:
            raise DataError(f"{path}: the folder holds no Parquet file. Name a file, or a folder of such parts")
        return found
    return [path] if path.name.lower().endswith(_PARQUET_ENDINGS) else []


def _opened(path: Path) -> Any:
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> DataError:
    text = str(getattr(error, "strerror", None) or error)[:300]
    return DataError(f"{path}: the table cannot be read ({text}). Check the path, or write the file again")


def _equals(column: Any, value: Label) -> npt.NDArray[np.bool_]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        same = pc.equal(column, pa.scalar(value))
    except pa.ArrowException:  # a text asked of a column of numbers, or the other way round: no row
        return np.zeros(len(column), dtype=bool)
    found: npt.NDArray[np.bool_] = pc.fill_null(same, False).to_numpy(zero_copy_only=False).astype(bool)
    return found
