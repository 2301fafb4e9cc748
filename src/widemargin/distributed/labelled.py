"""Recipes for training rows: features, labels, weights and the table of populations of the same rows, by blocks.

What `load` gives is a dict with the keys `X`, `y`, `sample_weight` and `populations`; what is not given is None.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from widemargin.distributed.recipes import ArrayRows, FramePartition, ParquetRows, Recipe, parquet_rows
from widemargin.distributed.tables import is_collection
from widemargin.exceptions import DataError

__all__ = ["LabelledParquet", "labelled_parquet", "labelled_rows"]

_PARTS = ("X", "y", "sample_weight", "populations")
_BLOCK_ROWS = 65_536
_SMALL = ("f2", "f4", "i1", "i2", "u1", "u2", "b1")  # numbers that float32 holds exactly


def labelled_rows(
    X: Any, y: Any = None, *, sample_weight: Any = None, populations: Any = None, block_rows: int = _BLOCK_ROWS
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
    given = {name: part for name, part in zip(_PARTS, (X, y, sample_weight, populations), strict=True)
             if part is not None}  # fmt: skip
    if any(is_collection(part) for part in given.values()):
        return list(_partitions(given))
    lengths = {name: _length(part) for name, part in given.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"X, y and what belongs to them differ in length: {lengths}. Give one value per row.")
    if block_rows < 1 or not lengths["X"]:
        raise DataError(
            f"there are {lengths['X']} rows and block_rows is {block_rows}; a block needs one row at least."
        )
    nothing = dict.fromkeys(_PARTS)
    return [
        ArrayRows({**nothing, **{name: _sliced(part, low, low + block_rows) for name, part in given.items()}})
        for low in range(0, lengths["X"], block_rows)
    ]


def _partitions(given: dict[str, Any]) -> list[FramePartition]:
    import dask

    if strange := [name for name, part in given.items() if not is_collection(part)]:
        raise DataError(f"some of the data are Dask collections and {strange[0]} is not. Give all of them as such.")
    parts = {name: np.asarray(part.to_delayed(), dtype=object) for name, part in given.items()}
    numbers = {name: part.shape[0] for name, part in parts.items()}
    if len(set(numbers.values())) > 1:
        raise DataError(f"the Dask collections differ in their partitions: {numbers}. Repartition them alike.")
    if parts["X"].ndim == 2 and parts["X"].shape[1] > 1:
        raise DataError(f"X is cut into {parts['X'].shape[1]} parts along its columns. Use X.rechunk({{1: -1}}).")
    together = dask.delayed(_together)
    names, rows = list(parts), zip(*(part.ravel().tolist() for part in parts.values()), strict=True)
    return [FramePartition(together(names, *items)) for items in rows]


def _together(names: Sequence[str], *parts: Any) -> dict[str, Any]:
    return {**dict.fromkeys(_PARTS), **dict(zip(names, parts, strict=True))}


def _length(part: Any) -> int:
    shape = getattr(part, "shape", None)
    return int(shape[0]) if shape else len(part)


def _sliced(part: Any, low: int, high: int) -> Any:
    """Rows low : high of an array, matrix, list or table."""
    if isinstance(part, np.ndarray) or sp.issparse(part):
        return part[low:high]
    eager = nw.from_native(part, eager_only=True, allow_series=True, pass_through=True)
    if eager is not part:
        return eager[low:high].to_native()
    return np.asarray(part[low:high])


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

    def load(self) -> dict[str, Any]:
        """The dict of training rows; `populations` is the whole table, and `names` are those of the features."""
        table = self.rows.load()
        columns = [self._numbers(table, name) for name in self.features]
        small = all(column.dtype.str[1:] in _SMALL for column in columns)
        X = np.empty((table.num_rows, len(columns)), np.float32 if small else np.float64)
        for j, column in enumerate(columns):
            X[:, j] = column
        weight = None if self.sample_weight is None else table[self.sample_weight].to_numpy()
        y = np.asarray(table[self.target].to_pylist() if table[self.target].null_count else table[self.target])
        return {"X": X, "y": y, "sample_weight": weight, "populations": table, "names": self.features}

    def _numbers(self, table: Any, name: str) -> Any:
        import pyarrow as pa

        column = table[name]
        if not (
            pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
        ):
            raise DataError(
                f"column {name!r} of {self.rows.path} holds {column.type}, no numbers. Encode it, or leave it out of "
                "features."
            )
        if column.null_count:
            raise DataError(f"column {name!r} of {self.rows.path} has {column.null_count} missing values. Fill them.")
        return column.to_numpy()


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
    Every column is there for the goal's populations and baselines.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = parquet_rows(path, block_rows=block_rows)
    schema = pq.read_schema(rows[0].path)
    aside = {target, sample_weight}
    if features is None:
        numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
        features = [
            field.name for field in schema if field.name not in aside and any(is_(field.type) for is_ in numbers)
        ]
    wanted = [target, *features, *([] if sample_weight is None else [sample_weight])]
    if missing := [name for name in wanted if name not in schema.names]:
        raise DataError(f"{rows[0].path} has no column {missing[0]!r}; it has {', '.join(sorted(schema.names)[:10])}.")
    if not features:
        raise DataError(f"{rows[0].path} has no columns of numbers besides {target!r}. Encode some as features.")
    return [LabelledParquet(recipe, target, tuple(features), sample_weight) for recipe in rows]
