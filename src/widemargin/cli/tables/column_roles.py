"""The roles of the columns of a table, by the goals file: labels, weights, features, and which rows are held out."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widemargin._text import close_match, listing
from widemargin._typing import Floats
from widemargin.cli.goals_file.keys import GoalsFile, Split
from widemargin.cli.tables.table_files import Block, held_out, rows_equal
from widemargin.exceptions import DataError

MOST_CLASSES = 200
"""Most classes of a target without a positive class: with more it is a number to predict, or a name of rows."""


def require_columns(names: Sequence[str], wanted: Mapping[str, str], where: str) -> None:
    """Refuse a table that lacks a column; `wanted` maps the column to the key of the goals file that names it."""
    absent = [column for column in wanted if column not in names]
    if absent:
        named = ", ".join(f"{column!r} ({wanted[column]})" for column in absent)
        cures = "".join(close_match(column, names) for column in absent)
        raise DataError(
            f"{where}: {len(absent)} column(s) of the goals file are not in the table: {named}.{cures} "
            f"It has {', '.join(map(repr, names[:20]))}"
        )


def feature_columns(names: Sequence[str], goals: GoalsFile) -> list[str]:
    """Columns a model may use: those named, or all of a table that play no other role.

    Protected ones are among them only if `data.protected_as_features` lists them.
    """
    data, roles = goals.data, goals.roles
    if data.features is not None:
        return [*data.features, *(name for name in data.protected_as_features if name not in data.features)]
    return [name for name in names if name not in roles or name in data.protected_as_features]


def named_columns(goals: GoalsFile) -> dict[str, str]:
    """Columns that the file names, each with its key."""
    data = goals.data
    asked = {"data.words": data.words, "data.dates": data.dates, "data.features": data.features or ()}
    if goals.model.thresholds_by is not None:
        asked["model.thresholds_by"] = (goals.model.thresholds_by,)
    return {name: key for key, names in asked.items() for name in names} | goals.roles


def split_rows(
    table: pa.Table,
    split: Split | None,
    where: str,
    *,
    fraction: float | None = None,
    needed: str | None = None,
    wanted: Collection[str] = ("train", "test"),
    cure: str = "Correct the value",
) -> dict[str, Block]:
    """Rows by part: those wanted of `train` and `test`; all as `train` where no column and no fraction says which.

    Parameters
    ----------
    split : Split or None
        The column that says which rows are held out.
    where : str
        The table in messages.
    fraction : float, default=None
        The share of the rows that is held out at random (always the same rows) where there is no such column.
    needed : str, default=None
        A column; rows without a value in it are left out. Which rows are held out does not depend on it.
    cure : str
        The end of the message where a part has no rows.

    Raises
    ------
    DataError
        A part that is wanted has no rows.
    """
    whole = Block.whole(table, where)
    if split is None:
        held = None if fraction is None else held_out(table.num_rows, fraction)
        by_part = {"train": whole} if held is None else {"train": whole.where(~held), "test": whole.where(held)}
        return {part: block.having(needed) for part, block in by_part.items()}
    parts = {}
    for part in wanted:
        value = {"train": split.train, "test": split.test}[part]
        parts[part] = whole.where(rows_equal(table[split.column], value)).having(needed)
        if not len(parts[part].rows):
            values = ", ".join(map(repr, pc.unique(table[split.column]).to_pylist()[:5]))
            raise DataError(
                f"{where}: 0 rows have {value!r} in column {split.column!r} (data.split.{part}); it holds {values}. "
                f"{cure}"
            )
    return parts


def weights_of(block: Block, goals: GoalsFile) -> Floats | None:
    """The weights of some rows, where the goals file names a column of them and the table has it.

    Raises
    ------
    DataError
        The column holds no numbers, or some are missing, negative or not finite.
    """
    name = goals.data.weight
    if name is None or name not in block.table.column_names:
        return None
    column = block.table[name]
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise DataError(f"{block.title}: the weight {name!r} holds {kind}. Use numbers, 0 or more")
    values = column.to_numpy().astype(np.float64)
    strange = np.flatnonzero(~(np.isfinite(values) & (values >= 0.0)))
    if strange.size:
        raise DataError(
            f"{block.title}: the weight {name!r} is missing, negative or not finite in {strange.size} of {len(values)} "
            f"row(s) looked at, the first is {_row(block, strange[0])}. A weight is a number, 0 or more"
        )
    return np.asarray(values)


def labels_of(
    block: Block, goals: GoalsFile, target: str | None = None, *, some: bool = False
) -> npt.NDArray[Any] | None:
    """The target of some rows; None where the table has no such column.

    Parameters
    ----------
    block : Block
    goals : GoalsFile
    target : str, default=None
        By default `data.target`.
    some : bool, default=False
        Whether labels may be missing; None stands for them then.

    Raises
    ------
    DataError
        The column cannot be used.
    """
    target, where, positive = target or goals.data.target, block.title, goals.data.positive
    if target not in block.table.column_names:
        return None
    column = block.table[target]
    if column.null_count and some:
        # The labels that are there are checked like any others.
        if column.null_count < len(column):
            present = np.asarray(column.is_valid())
            values = np.full(len(column), None, dtype=object)
            values[present] = np.asarray(labels_of(block.where(present), goals, target)).tolist()
            return values
        return np.array(column.to_pylist(), dtype=object)
    if column.null_count:
        first = _row(block, pc.index(column.is_null(), True).as_py())
        raise DataError(
            f"{where}: the target {target!r} is missing in {column.null_count} of {len(column)} row(s) looked at, the "
            f'first is {first}. Leave them out by data.unlabelled = "drop", or fill them'
        )
    if not len(column):
        raise DataError(f"{where}: no row asked for has a value of the target {target!r}. Give rows with one")
    values = np.array([] if pa.types.is_nested(column.type) else column.to_pylist(), dtype=None)
    if values.ndim != 1 or values.dtype.kind not in "biufU" or not len(values):
        raise DataError(f"{where}: the target {target!r} holds {column.type}. Use two words, two numbers or true/false")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(
            f"{where}: the target {target!r} holds numbers that are not finite. Use two words or two numbers"
        )
    classes = np.unique(values).tolist()
    if positive is not None and len(classes) > 2:
        raise third_class(block, target, values, classes)
    # Estimators refuse numbers that are not whole, of two values too.
    if len(classes) > MOST_CLASSES or (values.dtype.kind == "f" and (values != np.round(values)).any()):
        raise DataError(
            f"{where}: the target {target!r} holds {len(classes)} different values, such as "
            f"{', '.join(map(repr, classes[:5]))}. A class is a word or a whole number, and there are at most "
            f"{MOST_CLASSES}. Cut numbers into classes, or name another column"
        )
    if positive is None:
        return values
    # A program that knows no missing whole number writes 1.0 for 1 in a column with gaps.
    if values.dtype.kind in "iuf" and type(positive) in (int, float):
        values = values.astype(type(positive))
        classes = np.unique(values).tolist()
    # To Python 1 and True are equal; in a goals file they are different labels.
    if len(classes) == 2 and not any(type(positive) is type(value) and positive == value for value in classes):
        raise DataError(
            f"{where}: data.positive is {positive!r}, but the target {target!r} holds {', '.join(map(repr, classes))}."
            f"{close_match(positive, classes) or ' Correct data.positive'}"
        )
    return values


def third_class(block: Block, target: str, values: npt.NDArray[Any], classes: Sequence[Any]) -> DataError:
    """The error that a target has more than two classes: which, and where the rarest of these rows stands."""
    shown = ", ".join(map(repr, classes[:5])) + (", ..." if len(classes) > 5 else "")
    here, first, number = np.unique(values, return_index=True, return_counts=True)
    rarest = int(number.argmin())
    return DataError(
        f"{block.title}: the target {target!r} has {len(classes)} classes ({shown}); two are needed. Join some, or "
        f"drop rows: {here[rarest].item()!r} is first in {_row(block, first[rarest])}. Or leave out data.positive, and "
        f"name the classes in the goal: recall(of={classes[0]!r})"
    )


def never_learned(classes: Sequence[Any], target: str) -> str:
    """What rows of classes mean that no training row has: an error each; nothing where there are none."""
    if not classes:
        return ""
    return f"no training row has {listing(classes)} as its {target!r}, so rows that have are decided wrongly"


def _row(block: Block, place: int) -> str:
    """A row as the file counts it."""
    return f"row {int(block.rows[place])} (counted from 0)"
