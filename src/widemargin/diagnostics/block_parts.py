"""Rows that lie in blocks (Dask collections, Parquet files): what the parts of a block are, and one pass over them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from widemargin._text import listing
from widemargin._typing import Classifier
from widemargin.distributed.blocks import BlockMap
from widemargin.distributed.tables import as_frame, part_recipes
from widemargin.distributed.workers import block_map
from widemargin.exceptions import DataError
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.counting import columns_used

__all__ = ["named_parts", "opened_blocks"]


def named_parts(data: Mapping[str, object], columns: Mapping[str, str]) -> dict[str, Any]:
    """The parts of a block by name: X without the columns that are other parts, these, and all of it as populations.

    Parameters
    ----------
    data : mapping of str to array or table
        What was read.
    columns : mapping of str to str
        Parts that are columns of X: `{"y": "income"}`.

    Raises
    ------
    DataError
        If a column is missing.
    """
    parts = {name: as_frame(value) for name, value in data.items()}
    frame = parts.get("X")
    for part, column in columns.items():
        have = [str(name) for name in getattr(frame, "columns", ())]
        if frame is None or column not in have:
            raise DataError(f"X has no column {column!r} ({part}); it has {listing(have[:20])}.")
        parts[part] = frame[column]
    if columns and frame is not None:
        parts.setdefault("populations", frame)
        parts["X"] = frame.drop(columns=list(columns.values()))
    return parts


@contextmanager
def opened_blocks(
    parts: Mapping[str, Any],
    named: Mapping[str, str],
    workers: object,
    *,
    model: Classifier | None,
    goal: Goal | None = None,
    more: Sequence[str] = (),
    read_all: bool = False,
    hold: bool = False,
) -> Iterator[BlockMap]:
    """Blocks of the rows, which are closed in the end; `named` are parts that are columns of X.

    Of files only those columns are read that the model, the goal and the names ask for, and `more` where they are
    there; all of them if the model does not say what it was fitted to, or with `read_all`.
    """
    X, columns = parts.get("X"), None
    features = getattr(model, "feature_names_in_", None)
    if isinstance(X, (str, Path)) and not read_all and (model is None or features is not None):
        from widemargin.distributed.recipes import parquet_columns

        looked_at = [] if goal is None else [str(name) for name in columns_used(goal).get(None, {})]
        wanted = [*map(str, () if features is None else features), *named.values(), *looked_at, *more]
        there = set(parquet_columns(X))
        # A column that the file lacks may stand elsewhere (a baseline given as an array); if not, it is missed later.
        columns = [name for name in dict.fromkeys(wanted) if name in there]
    blocks = block_map(part_recipes(parts, columns=columns), workers, hold=hold)
    try:
        yield blocks
    finally:
        blocks.close()
