"""Tables and training rows that need not fit into memory, as recipes of blocks.

They are Dask collections with the same partitions, Parquet files, or rows in memory that are cut. Training rows are
loaded as `Rows`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin._typing import Column, Features, Floats, Table
from widemargin.distributed.recipes import FramePartition, HeldRows, ParquetRows, Recipe, frame_partitions, parquet_rows
from widemargin.exceptions import DataError, MissingLibraryError
from widemargin.rows import Rows, is_collection, length_of

if TYPE_CHECKING:
    import pyarrow


def computed(value: Any) -> Any:
    """A Dask collection in memory; anything else as it is."""
    return value.compute() if is_collection(value) else value


def part_recipes(parts: Mapping[str, Any], *, columns: Sequence[str] | None = None) -> list[Recipe]:
    """Recipes whose data are the parts of the rows by name: `{"X": frame, "y": series}`.

    Parameters
    ----------
    parts : mapping of str to Dask collection, path or None
        Dask collections with the same partitions; or one path of a Parquet file or folder, whose data are
        `pyarrow.Table`. None is left out.
    columns : sequence of str, default=None
        Columns to read of files; None: all.

    Raises
    ------
    DataError
        If parts of different kinds are mixed, or their numbers of partitions differ.
    """
    given = {name: part for name, part in parts.items() if part is not None}
    paths = {name: part for name, part in given.items() if isinstance(part, (str, Path))}
    if paths and len(given) == 1:
        (name,) = paths
        return [replace(recipe, name=name) for recipe in parquet_rows(paths[name], columns=columns)]
    strange = {name: type(part).__name__ for name, part in given.items() if not is_collection(part)}
    if strange or not given:
        listed = ", ".join(f"{name} is a {kind}" for name, kind in strange.items()) or "nothing is given"
        raise DataError(
            f"{listed}, beside rows in blocks. Give all of them as Dask collections with the same partitions, or name "
            "columns of X."
        )
    return _side_by_side(given, dict, "the numbers of partitions differ")


def _side_by_side(parts: Mapping[str, Any], kind: Callable[..., dict[str, Any] | Rows], differ: str) -> list[Recipe]:
    """Recipes for Dask collections of the same rows, together in a dict or a `Rows`."""
    from dask import delayed

    blocks = {name: frame_partitions(part) for name, part in parts.items()}
    numbers = {name: len(recipes) for name, recipes in blocks.items()}
    if len(set(numbers.values())) > 1:
        raise DataError(f"{differ}: {numbers}. Repartition them alike.")
    together, rows = delayed(kind, pure=True), zip(*blocks.values(), strict=True)
    return [
        FramePartition(together(**{name: recipe.delayed for name, recipe in zip(blocks, row, strict=True)}))
        for row in rows
    ]


def as_frame(table: Any) -> Any:
    """A pandas frame of a pyarrow table; anything else as it is.

    Raises
    ------
    MissingLibraryError
        If pandas is not installed.
    """
    if not hasattr(table, "to_pandas"):
        return table
    try:
        import pandas  # noqa: F401  pyarrow makes the frame
    except ImportError:
        raise MissingLibraryError.of("rows of files are given to models as pandas frames", "frame") from None
    return table.to_pandas()


def labelled_rows(
    X: Features,
    y: Column | None = None,
    *,
    sample_weight: Column | None = None,
    populations: Table | None = None,
    block_rows: int = 65_536,
) -> list[Recipe]:
    """Recipes for training rows in memory, or in Dask collections.

    Parameters
    ----------
    X : array, CSR matrix, data frame, or Dask array or data frame of shape (n, d)
    y : array-like or Dask collection of shape (n,), default=None
    sample_weight : array-like or Dask collection of shape (n,), default=None
    populations : table or Dask data frame with n rows, default=None
    block_rows : int, default=65536
        Rows of a block; Dask collections keep their partitions.

    Raises
    ------
    DataError
        If the parts differ in their number of rows or partitions, or some are Dask collections and others not.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.distributed import labelled_rows
    >>> [recipe.n_rows for recipe in labelled_rows(np.zeros((10, 2)), np.arange(10) % 2, block_rows=4)]
    [4, 4, 2]
    """
    parts = {"X": X, "y": y, "sample_weight": sample_weight, "populations": populations}
    given = {name: part for name, part in parts.items() if part is not None}
    if any(map(is_collection, given.values())):
        if strange := [name for name, part in given.items() if not is_collection(part)]:
            raise DataError(f"some of the data are Dask collections and {strange[0]} is not. Give all of them as such.")
        return _side_by_side(given, Rows, "the Dask collections differ in their partitions")
    lengths = {name: length_of(part) for name, part in given.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"X, y and what belongs to them differ in length: {lengths}. Give one value per row.")
    if block_rows < 1 or not lengths["X"]:
        raise DataError(
            f"there are {lengths['X']} rows and block_rows is {block_rows}; a block needs one row at least."
        )
    return [HeldRows(rows) for rows in Rows(X, y, sample_weight, populations).blocks(block_rows)]


def as_rows(data: Rows | Mapping[str, Any]) -> Rows:
    """Training rows as a recipe has loaded them; recipes of users may load a dict of the parts by name."""
    return data if isinstance(data, Rows) else Rows(**data)


@dataclass(frozen=True)
class LabelledParquet:
    """Training rows in row groups of a Parquet file.

    Attributes
    ----------
    rows : ParquetRows
    target : str
        Column of the labels.
    features : tuple of str
        Columns of numbers that the model sees.
    sample_weight : str or None
    """

    rows: ParquetRows
    target: str
    features: tuple[str, ...]
    sample_weight: str | None = None

    @property
    def n_rows(self) -> int:
        """See `Recipe`."""
        return self.rows.n_rows

    @property
    def path(self) -> str:
        """The file."""
        return self.rows.path

    def load(self) -> Rows:
        """The training rows; `populations` is the whole table."""
        table = self.rows.load()
        columns = [self._numbers(table, name) for name in self.features]
        # Numbers of at most 16 bits are exact in float32 (24 bits of significand), which takes half the memory.
        small = all(column.dtype.str[1:] in ("f2", "f4", "i1", "i2", "u1", "u2", "b1") for column in columns)
        X = np.empty((table.num_rows, len(columns)), np.float32 if small else np.float64)
        for j, column in enumerate(columns):
            X[:, j] = column
        weight = None if self.sample_weight is None else table[self.sample_weight].to_numpy()
        y = np.asarray(table[self.target].to_pylist() if table[self.target].null_count else table[self.target])
        return Rows(X, y, weight, table, feature_names=self.features)

    def _numbers(self, table: "pyarrow.Table", name: str) -> Floats:
        column = table[name]
        if not _is_of_numbers(column):
            raise DataError(
                f"column {name!r} of {self.rows.path} holds {column.type}, no numbers. Encode it, or leave it out of "
                "features."
            )
        if column.null_count:
            raise DataError(f"column {name!r} of {self.rows.path} has {column.null_count} missing values. Fill them.")
        numbers: Floats = column.to_numpy()
        return numbers


def _is_of_numbers(column: "pyarrow.ChunkedArray | pyarrow.Field") -> bool:
    import pyarrow as pa

    return any(is_(column.type) for is_ in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean))


def labelled_parquet(
    path: str | Path,
    target: str,
    *,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    block_rows: int | None = None,
) -> list[LabelledParquet]:
    """Recipes for training rows in a Parquet file or a folder of them.

    Parameters
    ----------
    path : path of a file or folder
    target : str
        Column of the labels.
    features : sequence of str, default=None
        Columns of numbers that the model sees; None: all columns of numbers besides target and weight.
    sample_weight : str, default=None
        Column of weights.
    block_rows : int, default=None
        As in `parquet_rows`.

    Raises
    ------
    DataError
        If a column is missing or holds no numbers.

    Notes
    -----
    The goal's populations and baselines may use every column of the file.
    """
    import pyarrow.parquet as pq

    rows = parquet_rows(path, block_rows=block_rows)
    schema = pq.read_schema(rows[0].path)
    aside = {target, sample_weight}
    if features is None:
        features = [field.name for field in schema if field.name not in aside and _is_of_numbers(field)]
    wanted = [target, *features, *([] if sample_weight is None else [sample_weight])]
    if missing := [name for name in wanted if name not in schema.names]:
        raise DataError(f"{rows[0].path} has no column {missing[0]!r}; it has {', '.join(sorted(schema.names)[:10])}.")
    if not features:
        raise DataError(f"{rows[0].path} has no columns of numbers besides {target!r}. Encode some as features.")
    return [LabelledParquet(recipe, target, tuple(features), sample_weight) for recipe in rows]
