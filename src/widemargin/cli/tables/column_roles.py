"""The roles of the columns of a table, by the goals file: labels, weights, features, and which rows are held out."""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widemargin._typing import Bools, Features, Floats
from widemargin.cli.goals_file.keys import GoalsFile, Split, table_text
from widemargin.cli.goals_file.rules import is_within
from widemargin.cli.tables.baselines import with_baselines
from widemargin.cli.tables.table_files import Block, held_out, read_table, rows_equal, table_files
from widemargin.exceptions import DataError
from widemargin.goals import External, Goal
from widemargin.rows import Rows

__all__ = [
    "TableRows", "as_external", "external_rows", "external_set", "feature_columns", "hold_out", "is_it",
    "labels_of", "named_columns", "parts_of", "require_columns", "rows_of", "split_rows",
    "third_class", "weights_of",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class TableRows(Rows):
    """Rows of a table file ready for training or an audit.

    Attributes
    ----------
    y : ndarray of shape (n_rows,) or None
        The target; None where the table has none.
    sample_weight : ndarray of float64, shape (n_rows,), or None
        `data.weight`; None where there is none.
    populations : pyarrow.Table
        All columns, and each baseline under its own name.
    """

    y: npt.NDArray[Any] | None = None
    sample_weight: Floats | None = None
    populations: pa.Table = None


def require_columns(table: pa.Table, wanted: Mapping[str, str], where: str) -> None:
    """Refuse a table that lacks a column; `wanted` maps the column to the key of the goals file that names it."""
    absent = [column for column in wanted if column not in table.column_names]
    if absent:
        named = ", ".join(f"{column!r} ({wanted[column]})" for column in absent)
        cures = "".join(is_it(column, table.column_names) for column in absent)
        raise DataError(
            f"{where}: {len(absent)} column(s) of the goals file are not in the table: {named}.{cures} "
            f"It has {', '.join(map(repr, table.column_names[:20]))}"
        )


def is_it(wrong: object, right: Iterable[object]) -> str:
    """The question whether another name or value was meant, after a space; empty where none is near."""
    known = {str(item).casefold(): item for item in right}
    near = difflib.get_close_matches(str(wrong).casefold(), known, 1)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def feature_columns(table: pa.Table, goals: GoalsFile) -> list[str]:
    """Columns a model may use: those named, or all that play no other role.

    Protected ones are among them only if `data.protected_as_features` lists them.
    """
    data = goals.data
    asked = set(data.protected_as_features)
    if data.features is not None:
        return [*data.features, *(name for name in data.protected_as_features if name not in data.features)]
    others = {data.target, *data.protected, *data.ignore, *goals.baselines.values()} - asked
    if data.weight is not None:
        others.add(data.weight)
    if data.split is not None:
        others.add(data.split.column)
    return [name for name in table.column_names if name not in others]


def hold_out(table: pa.Table, fraction: float, where: str = "") -> dict[str, Block]:
    """Rows by part, `train` and `test`, where a share of them is held out at random (always the same rows).

    Raises
    ------
    DataError
        No row would be left in a part.
    """
    held = held_out(table.num_rows, fraction)
    return {part: _part(table, rows, where) for part, rows in (("train", ~held), ("test", held))}


def _part(table: pa.Table, mask: Bools, where: str) -> Block:
    return Block(table.filter(pa.array(mask)), np.flatnonzero(mask), where)


def parts_of(table: pa.Table, goals: GoalsFile) -> dict[str, Block]:
    """The rows to train on, and those held out by `data.split` or, without a confidence, by `validation.fraction`."""
    said, where = goals.validation, table_text(goals.data.table)
    if goals.data.split is None and said.fraction is not None and said.confidence is None:
        return hold_out(table, said.fraction, where)
    return split_rows(table, goals.data.split, where)


def named_columns(goals: GoalsFile) -> dict[str, str]:
    """Columns that the file names, each with its key."""
    data = goals.data
    named = {column: f"baselines.{name}" for name, column in goals.baselines.items()}
    named |= dict.fromkeys(data.ignore, "data.ignore") | dict.fromkeys(data.words, "data.words")
    named |= dict.fromkeys(data.protected, "data.protected") | dict.fromkeys(data.features or (), "data.features")
    if data.split is not None:
        named[data.split.column] = "data.split"
    if data.weight is not None:
        named[data.weight] = "data.weight"
    return named | {data.target: "data.target"}


def split_rows(
    table: pa.Table,
    split: Split | None,
    where: str,
    *,
    wanted: Collection[str] = ("train", "test"),
    cure: str = "Correct the value",
) -> dict[str, Block]:
    """Rows by part: those wanted of `train` and `test`, or all as `train` where the goals file names no split.

    Raises
    ------
    DataError
        A part that is wanted has no rows; the message ends in `cure`.
    """
    if split is None:
        return {"train": Block.whole(table, where)}
    parts = {}
    for part in wanted:
        value = {"train": split.train, "test": split.test}[part]
        mask = rows_equal(table[split.column], value)
        if not mask.any():
            found = ", ".join(map(repr, pc.unique(table[split.column]).to_pylist()[:5]))
            raise DataError(
                f"{where}: 0 rows have {value!r} in column {split.column!r} (data.split.{part}); it holds {found}. "
                f"{cure}"
            )
        parts[part] = _part(table, mask, where)
    return parts


def rows_of(block: Block, goals: GoalsFile) -> TableRows:
    """Some rows with their labels and weights, and under its own name each baseline that can be had.

    Raises
    ------
    DataError
        A baseline has the name of another column or fails on these rows, or labels or weights are not usable.
    """
    return TableRows(
        populations=with_baselines(block.table, goals, block.title),
        y=labels_of(block, goals),
        sample_weight=weights_of(block, goals),
    )


def labels_of(block: Block, goals: GoalsFile) -> npt.NDArray[Any] | None:
    """The target of some rows; None where the table has no such column. A DataError if it cannot be used."""
    target = goals.data.target
    return _labels(block, target, goals) if target in block.table.column_names else None


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


def _row(block: Block, place: int) -> str:
    """A row as the file counts it."""
    return f"row {int(block.rows[place])} (counted from 0)"


def external_rows(goals: GoalsFile, *wanted: Goal | None, words: Collection[str] = ()) -> dict[str, TableRows]:
    """The rows of the external data sets that some goals use, by name.

    Parameters
    ----------
    goals : GoalsFile
    *wanted : Goal or None
    words : collection of str
        Columns of CSV files that are text, beside `data.words`.

    Raises
    ------
    DataError
        A table cannot be read, leads outside the folders that are allowed, or has labels that cannot be used.
    """
    used = dict.fromkeys(name for goal in wanted if goal is not None for name in goal.sources)
    return {name: external_set(name, goals, words) for name in used}


def external_set(name: str, goals: GoalsFile, words: Collection[str] = ()) -> TableRows:
    """The rows of one external data set; see `external_rows`."""
    said = goals.external[name]
    for file in table_files(said.table):  # a folder may hold links
        if not is_within(file, goals.allowed_folders):
            raise DataError(
                f"external.{name}.table: {str(file)!r} leads outside the folder of the goals file. Move it there, or "
                "allow its folder by --allow-outside FOLDER"
            )
    where = table_text(said.table)
    separator = said.separator or goals.data.separator
    table = read_table(said.table, words=[*goals.data.words, *words], separator=separator)
    if said.target is not None:
        require_columns(table, {said.target: f"external.{name}.target"}, where)
    target, block = said.target or goals.data.target, Block.whole(table, where)
    labels = _some_labels(block, target, goals) if target in table.column_names else None
    return TableRows(populations=with_baselines(table, goals, where), y=labels, sample_weight=weights_of(block, goals))


def as_external(
    rows: Mapping[str, TableRows], features: Mapping[str, Features] | None = None
) -> dict[str, External] | None:
    """External data sets for `fit` and `audit`; None where there are none.

    Parameters
    ----------
    rows : mapping of str to TableRows
    features : mapping of str to matrix, optional
        What a model takes; by default the table itself, for pipelines.
    """
    found = {
        name: External(
            content.populations if features is None else features[name], content.y, sample_weight=content.sample_weight,
            populations=content.populations,
        )
        for name, content in rows.items()
    }  # fmt: skip
    return found or None


def _some_labels(block: Block, target: str, goals: GoalsFile) -> npt.NDArray[Any] | None:
    """The labels of an external data set: None stands where one is missing, and for a column without any."""
    column = block.table[target]
    if not column.null_count:
        return _labels(block, target, goals)
    if column.null_count == len(column):
        return None
    known = np.flatnonzero(~np.asarray(column.is_null()))
    _labels(Block(block.table.take(pa.array(known)), block.rows[known], block.title), target, goals)
    return np.array(column.to_pylist(), dtype=object)


def _labels(block: Block, target: str, goals: GoalsFile) -> npt.NDArray[Any]:
    positive, column, where = goals.data.positive, block.table[target], block.title
    if column.null_count:
        first = _row(block, pc.index(column.is_null(), True).as_py())
        raise DataError(
            f"{where}: the target {target!r} is missing in {column.null_count} of {len(column)} row(s) looked at, the "
            f"first is {first}. Drop these rows or fill them"
        )
    values = np.array([] if pa.types.is_nested(column.type) else column.to_pylist(), dtype=None)
    if values.ndim != 1 or values.dtype.kind not in "biufU" or not len(values):
        raise DataError(f"{where}: the target {target!r} holds {column.type}. Use two words, two numbers or true/false")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(
            f"{where}: the target {target!r} holds numbers that are not finite. Use two words or two numbers"
        )
    classes = np.unique(values).tolist()
    if len(classes) > 2:
        raise third_class(block, target, values, classes)
    known = any(type(positive) is type(value) and positive == value for value in classes)
    if len(classes) == 2 and not known:
        raise DataError(
            f"{where}: data.positive is {positive!r}, but the target {target!r} holds {', '.join(map(repr, classes))}."
            f"{is_it(positive, classes) or ' Correct data.positive'}"
        )
    return values


def third_class(block: Block, target: str, values: npt.NDArray[Any], classes: Sequence[Any]) -> DataError:
    """The error that a target has more than two classes: which, and where the rarest of these rows stands."""
    shown = ", ".join(map(repr, classes[:5])) + (", ..." if len(classes) > 5 else "")
    found, first, number = np.unique(values, return_index=True, return_counts=True)
    rarest = int(number.argmin())
    return DataError(
        f"{block.title}: the target {target!r} has {len(classes)} classes ({shown}); two are needed. Join some, or "
        f"drop rows: {found[rarest].item()!r} is first in {_row(block, first[rarest])}"
    )
