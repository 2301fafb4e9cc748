"""How a block of rows is read: recipes that can be pickled and sent to a worker, again if another one was lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from widemargin._files import parquet_files
from widemargin._typing import Features
from widemargin.exceptions import DataError, MissingDataError
from widemargin.rows import Rows, check_sparse, length_of

_BLOCK_ROWS = 65_536  # rows of a block of arrays, unless told otherwise


class Recipe(Protocol):
    """How the rows of a block are read. Small, unless the rows are in memory; can be pickled."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where that is not known before reading."""

    def load(self) -> Any:
        """Read the rows."""


@dataclass(frozen=True)
class ArrayRows:
    """Rows in memory, a dict of arrays or CSR matrices with the same rows; they are pickled with the recipe."""

    arrays: Mapping[str, Any]

    @property
    def n_rows(self) -> int:
        """See `Recipe`."""
        return int(next(iter(self.arrays.values())).shape[0])

    def load(self) -> dict[str, Any]:
        """The arrays."""
        return dict(self.arrays)


@dataclass(frozen=True)
class HeldRows:
    """Rows in memory in any form; they are pickled with the recipe.

    Attributes
    ----------
    rows : Rows, table, array or mapping of str to arrays
    """

    rows: Any

    @property
    def n_rows(self) -> int:
        """See `Recipe`."""
        return rows_of(self.rows)

    def load(self) -> Any:
        """The rows."""
        return self.rows


@dataclass(frozen=True)
class NpyRows:
    """Rows `first : last` of .npy files, mapped into memory and read as they are touched.

    The files must be where the workers can read them, under the same path.
    """

    paths: Mapping[str, str]
    first: int
    last: int

    @property
    def n_rows(self) -> int:
        """See `Recipe`."""
        return self.last - self.first

    def load(self) -> dict[str, Any]:
        """Views of the mapped files."""
        return {name: np.load(path, mmap_mode="r")[self.first : self.last] for name, path in self.paths.items()}


@dataclass(frozen=True)
class ParquetRows:
    """Row groups of one Parquet file, as a pyarrow table.

    Attributes
    ----------
    path : str
    row_groups : tuple of int
    columns : tuple of str, default=None
        Columns to read; None: all.
    n_rows : int
    name : str, default=None
        With a name the table is the one entry of a dict.
    """

    path: str
    row_groups: tuple[int, ...]
    n_rows: int
    columns: tuple[str, ...] | None = None
    name: str | None = None

    def load(self) -> Any:
        """A `pyarrow.Table`, or a dict that holds it."""
        import pyarrow.parquet as pq

        names = None if self.columns is None else list(self.columns)
        with pq.ParquetFile(self.path) as file:
            table = file.read_row_groups(list(self.row_groups), columns=names, use_threads=False)
        table = table if names is None else table.select(names)  # read in the order of the file, not that of `columns`
        return table if self.name is None else {self.name: table}


@dataclass(frozen=True)
class FramePartition:
    """One partition of a Dask data frame or array: whatever its task graph computes.

    `DaskMap` makes it part of its own graph; other back ends compute it in their process.
    """

    delayed: Any

    @property
    def n_rows(self) -> None:
        """Not known before it is computed."""
        return

    def load(self) -> Any:
        """Compute the partition in this thread."""
        import dask

        # Before version 2025.5 Dask warns if the scheduler is given by its name while there is a client.
        return self.delayed.compute(scheduler=dask.get)


def array_rows(arrays: Mapping[str, Any], *, block_rows: int = _BLOCK_ROWS) -> list[ArrayRows]:
    """Recipes for arrays in memory, cut into blocks.

    Parameters
    ----------
    arrays : mapping of str to array or CSR matrix
        All with the same number of rows.
    block_rows : int, default=65536
        Rows of a block.

    Raises
    ------
    DataError
        If there are no rows, or the arrays differ in their number.

    Examples
    --------
    >>> import numpy as np
    >>> [recipe.n_rows for recipe in array_rows({"X": np.zeros((10, 2)), "y": np.zeros(10)}, block_rows=4)]
    [4, 4, 2]
    """
    for name, value in arrays.items():
        check_sparse(value, repr(name))
    held = {name: value if sp.issparse(value) else np.asarray(value) for name, value in arrays.items()}
    cuts = _cuts({name: value.shape[0] for name, value in held.items()}, block_rows)
    return [ArrayRows({name: value[first:last] for name, value in held.items()}) for first, last in cuts]


def npy_rows(paths: Mapping[str, str | Path], *, block_rows: int = _BLOCK_ROWS) -> list[NpyRows]:
    """Recipes for .npy files with the same rows, cut into blocks; parameters and errors as in `array_rows`."""
    places = {name: str(Path(path).absolute()) for name, path in paths.items()}
    for path in places.values():
        if not Path(path).is_file():
            raise MissingDataError(f"there is no file {path}. Correct the path.")
    cuts = _cuts({name: np.load(path, mmap_mode="r").shape[0] for name, path in places.items()}, block_rows)
    return [NpyRows(places, first, last) for first, last in cuts]


def spool(arrays: Mapping[str, Any], folder: str | Path, *, block_rows: int = _BLOCK_ROWS) -> list[NpyRows]:
    """Write arrays to `folder` as .npy files and return recipes that map them; for workers on the same machine."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name, value in arrays.items():
        if sp.issparse(value):
            raise DataError(f"{name!r} is a sparse matrix, which .npy files do not hold. Use array_rows.")
        np.save(place / f"{name}.npy", np.asarray(value), allow_pickle=False)
    return npy_rows({name: place / f"{name}.npy" for name in arrays}, block_rows=block_rows)


def parquet_rows(
    path: str | Path, *, columns: Sequence[str] | None = None, block_rows: int | None = None
) -> list[ParquetRows]:
    """Recipes for a Parquet file, or for all files of a folder (and of its folders) in order of name.

    Files end in .parquet, .pq or .parq. Numbers in names count as numbers: part.2 comes before part.10. Names that
    begin with a dot or an underscore are left out.

    Parameters
    ----------
    path : path of a file or folder
    columns : sequence of str, default=None
        Columns to read; None: all.
    block_rows : int, default=None
        Row groups of one file are joined to blocks of up to so many rows; None: every row group is a block.

    Raises
    ------
    MissingDataError
        If there is no such file, or none in the folder.
    DataError
        If a file is no Parquet file, lacks a column, or (where all columns are read) has others than the first one.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = Path(path).absolute()
    files = parquet_files(place, deep=True) if place.is_dir() else [place]
    if not files or not files[0].exists():
        raise MissingDataError(f"there is no Parquet file {place}{'/*.parquet' if place.is_dir() else ''}. Correct it.")
    recipes: list[ParquetRows] = []
    first: tuple[Path, list[str]] | None = None
    for file in files:
        try:
            metadata = pq.read_metadata(file)
        except pa.ArrowInvalid as error:
            raise DataError(f"{file} is no Parquet file ({error}). Write it again, or move it away.") from error
        if not metadata.num_rows:
            continue
        have = metadata.schema.to_arrow_schema().names
        if missing := [name for name in columns or () if name not in have]:
            raise DataError(f"{file} has no column {missing[0]!r}; it has {', '.join(sorted(have)[:10])}.")
        first = first or (file, have)
        names = columns
        if columns is None and have != first[1]:  # the same columns in another order are read in that of the first file
            names = first[1]
            if strange := sorted({*have} ^ {*names}):
                text = ", ".join(
                    f"{name!r} is in {'this' if name in have else 'that'} one only" for name in strange[:5]
                )
                raise DataError(
                    f"{file} has other columns than {first[0]}: {text}. Write both alike, or say which to read."
                )
        # Row groups are the smallest unit that is read at once; they are joined to blocks of up to `block_rows` rows.
        blocks: list[tuple[tuple[int, ...], int]] = []
        for number in range(metadata.num_row_groups):
            n_rows = metadata.row_group(number).num_rows
            if blocks and block_rows is not None and blocks[-1][1] + n_rows <= block_rows:
                groups, before = blocks.pop()
                blocks.append(((*groups, number), before + n_rows))
            elif n_rows:
                blocks.append(((number,), n_rows))
        read = None if names is None else tuple(names)
        recipes += [ParquetRows(str(file), groups, n_rows, read) for groups, n_rows in blocks]
    if not recipes:
        raise DataError(f"{place} has no rows. Give some.")
    return recipes


def parquet_columns(path: str | Path) -> list[str]:
    """Columns of a Parquet file, or of the first file of a folder; errors as in `parquet_rows`."""
    import pyarrow.parquet as pq

    return list(pq.read_schema(parquet_rows(path)[0].path).names)


def frame_partitions(frame: object) -> list[FramePartition]:
    """Recipes for a Dask data frame or array: a block for every partition.

    Raises
    ------
    DataError
        If it is neither, or an array cut along its columns.
    """
    if not hasattr(frame, "to_delayed"):
        raise DataError(f"a {type(frame).__name__} is no Dask collection. Give a Dask data frame or array.")
    parts = np.asarray(frame.to_delayed(), dtype=object)
    if parts.ndim == 2 and parts.shape[1] > 1:
        raise DataError(f"the array is cut into {parts.shape[1]} parts along its columns. Use X.rechunk({{1: -1}}).")
    return [FramePartition(part) for part in parts.ravel().tolist()]


def rows_of(data: Rows | Mapping[str, Any] | Features) -> int:
    """Rows of what a recipe has read: `Rows`, a table, an array, or a mapping of them."""
    if isinstance(data, Rows):
        return data.n_rows
    if isinstance(data, Mapping):
        data = next(part for part in data.values() if part is not None)
    return length_of(data)


def _cuts(lengths: Mapping[str, int], block_rows: int) -> list[tuple[int, int]]:
    """First and last row of every block."""
    if not lengths or not min(lengths.values()):
        raise DataError("there are no rows to cut into blocks. Give some.")
    if len(set(lengths.values())) > 1:
        raise DataError(
            f"the arrays differ in their number of rows: {dict(lengths)}. Give one row per example in each."
        )
    if block_rows < 1:
        raise DataError(f"block_rows is {block_rows}; a block needs one row at least.")
    n_rows = next(iter(lengths.values()))
    return [(first, min(first + block_rows, n_rows)) for first in range(0, n_rows, block_rows)]
