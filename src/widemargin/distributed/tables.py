"""Tables that do not fit: Dask collections with the same partitions, or Parquet files, as recipes of blocks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from widemargin.distributed.recipes import FramePartition, Recipe, frame_partitions, parquet_rows
from widemargin.exceptions import DataError, MissingLibraryError

__all__ = ["as_frame", "computed", "is_collection", "is_table_in_blocks", "part_recipes"]


def is_collection(value: Any) -> bool:
    """Whether a value is a Dask data frame, series or array; Dask is not imported to find out."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "to_delayed")


def computed(value: Any) -> Any:
    """A Dask collection in memory; anything else as it is."""
    return value.compute() if is_collection(value) else value


def is_table_in_blocks(value: Any) -> bool:
    """Whether a value is a Dask collection, or the path of a Parquet file or folder."""
    return is_collection(value) or isinstance(value, (str, Path))


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
        return [_Named(name, recipe) for recipe in parquet_rows(paths[name], columns=columns)]
    strange = {name: type(part).__name__ for name, part in given.items() if not is_collection(part)}
    if strange or not given:
        listed = ", ".join(f"{name} is a {kind}" for name, kind in strange.items()) or "nothing is given"
        raise DataError(
            f"{listed}, beside rows in blocks. Give all of them as Dask collections with the same partitions, or name "
            "columns of X."
        )
    from dask import delayed

    blocks = {name: frame_partitions(part) for name, part in given.items()}
    numbers = {name: len(recipes) for name, recipes in blocks.items()}
    if len(set(numbers.values())) > 1:
        raise DataError(f"the numbers of partitions differ: {numbers}. Repartition them alike.")
    names = list(blocks)
    rows = zip(*blocks.values(), strict=True)
    together = delayed(_together, pure=True)
    return [FramePartition(together(names, *(recipe.delayed for recipe in row))) for row in rows]


class _Named:
    """A recipe whose data are a dict with one entry."""

    def __init__(self, name: str, recipe: Recipe) -> None:
        self.name, self.recipe = name, recipe

    @property
    def n_rows(self) -> int | None:
        """See `Recipe`."""
        return self.recipe.n_rows

    @property
    def path(self) -> str | None:
        """The file, if it is one."""
        return getattr(self.recipe, "path", None)

    def load(self) -> dict[str, Any]:
        """See `Recipe`."""
        return {self.name: self.recipe.load()}


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
        raise MissingLibraryError(
            "rows of files are given to models as pandas frames. Install widemargin[frame]."
        ) from None
    return table.to_pandas()


def _together(names: Sequence[str], *values: Any) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))
