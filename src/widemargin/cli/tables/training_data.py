"""The rows of a goals file: labels, weights, decisions of earlier models, external data sets, and their features.

Earlier models are columns of the table, model files, and functions where the command line allows code.
"""

import functools
import importlib
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widemargin._typing import Floats
from widemargin.cli.console import warnings_reworded
from widemargin.cli.goals_file.keys import GoalsFile, TablePath, paths_of, table_text
from widemargin.cli.goals_file.rules import is_within
from widemargin.cli.tables.column_roles import (
    feature_columns,
    labels_of,
    named_columns,
    require_columns,
    split_rows,
    weights_of,
)  # fmt: skip
from widemargin.cli.tables.table_files import Block, read_table, table_files
from widemargin.exceptions import DataError, WidemarginError
from widemargin.goals import External, Goal
from widemargin.persistence import load_model
from widemargin.rows import Rows

PART_NAMES = {"train": "training rows", "test": "test rows"}


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


@dataclass(frozen=True)
class TrainingData:
    """The rows by part (train, test), those of external data sets by name, the feature columns, and how many rows of
    the table are left out because their target is missing."""

    rows: Mapping[str, TableRows]
    external: Mapping[str, TableRows]
    features: list[str]
    n_unlabelled: int


def read_data(goals: GoalsFile) -> TrainingData:
    """Read all tables that a goals file names.

    Raises
    ------
    DataError
        A table cannot be read, lacks a column that the file names, or holds labels that cannot be used.
    """
    where, held = table_text(goals.data.table), goals.validation.test_fraction
    table = read_table(goals.data.table, **goals.data.csv)
    require_columns(table.column_names, named_columns(goals), where)
    parts = split_rows(table, goals.data.split, where, fraction=held, needed=goals.data.needed)
    rows = {part: rows_of(content, goals) for part, content in parts.items()}
    for part, content in rows.items():
        if weightless := no_weight(content.sample_weight, goals, part):
            raise DataError(f"{where}: {weightless}, so that none of them counts. Correct data.weight")
        only = one_class(content.y)
        # Held-out rows of the positive class alone do not say what the other one is called.
        if only is not None and (part == "train" or only == goals.data.positive):
            raise DataError(
                f"{where}: the target {goals.data.target!r} is {only!r} in all {content.n_rows} {PART_NAMES[part]}; "
                "two classes are needed. Add rows of the other one, or correct data.target"
            )
    external = external_rows(goals, goals.goal, goals.audit_goal)
    n_unlabelled = 0 if goals.data.needed is None else table[goals.data.target].null_count
    return TrainingData(rows, external, feature_columns(table.column_names, goals), n_unlabelled)


def one_class(labels: npt.NDArray[Any] | None) -> Any:
    """The class of all labels, where there is but one; else None."""
    return None if labels is None or len(np.unique(labels)) != 1 else labels[:1].tolist()[0]


def no_weight(weight: Floats | None, goals: GoalsFile, part: str) -> str:
    """What is wrong with weights of a part that are all 0; else nothing."""
    if weight is None or weight.any():
        return ""
    return f"the weight {goals.data.weight!r} is 0 in all {len(weight)} {PART_NAMES[part]}"


def rows_of(block: Block, goals: GoalsFile, target: str | None = None, *, some_labels: bool = False) -> TableRows:
    """Some rows with their labels (see `labels_of`) and weights, and under its own name each baseline.

    Raises
    ------
    DataError
        A baseline has the name of another column or fails on these rows, or labels or weights are not usable.
    """
    return TableRows(
        populations=with_baselines(block.table, goals, block.title),
        y=labels_of(block, goals, target, some=some_labels),
        sample_weight=weights_of(block, goals),
    )


# External data sets


def external_rows(goals: GoalsFile, *wanted: Goal | None, words: Collection[str] = ()) -> dict[str, TableRows]:
    """The rows of the external data sets that some goals use, by name.

    Parameters
    ----------
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
    section = goals.external[name]
    for file in table_files(section.table):  # a folder may hold links
        if not is_within(file, goals.allowed_folders):
            raise DataError(
                f"external.{name}.table: {str(file)!r} leads outside the folder of the goals file. Move it there, or "
                "allow its folder by --allow-outside FOLDER"
            )
    where, how = table_text(section.table), goals.data.csv
    how |= {"words": [*goals.data.words, *words], "separator": section.separator or goals.data.separator}
    table = read_table(section.table, **how)
    if section.target is not None:
        require_columns(table.column_names, {section.target: f"external.{name}.target"}, where)
    rows = rows_of(Block.whole(table, where), goals, section.target, some_labels=True)
    has_labels = rows.y is not None and any(label is not None for label in rows.y)
    return rows if has_labels else rows.replaced(y=None)


def as_external(rows: Mapping[str, TableRows]) -> dict[str, External]:
    """External data sets for `fit` and `audit`; a model takes their features, a pipeline their table."""
    return {
        name: External(
            content.populations if content.X is None else content.X, content.y, sample_weight=content.sample_weight,
            populations=content.populations,
        )
        for name, content in rows.items()
    }  # fmt: skip


# Rows that were trained on


def is_trained_on(goals: GoalsFile, table: TablePath) -> bool:
    """Whether a table is that of the goals file, and no column of it says which rows are for training."""
    files, trained = ([os.path.realpath(path) for path in paths_of(one)] for one in (table, goals.data.table))
    return goals.data.split is None and files == trained


# Decisions of earlier models


def with_baselines(table: pa.Table, goals: GoalsFile, where: str) -> pa.Table:
    """A table with a column for each baseline, under its own name.

    A baseline that is a column is left out where the table lacks that column; models and functions are asked about the
    rows.

    Raises
    ------
    DataError
        A baseline has the name of another column, or its model or function fails on these rows.
    ModelFileError
        A model file cannot be read.
    """
    given = table
    for name, section in goals.earlier.items():
        column, path, function = section.column, section.model, section.function
        if column is not None and (name == column or column not in given.column_names):
            continue
        if name in given.column_names:
            what = f"reads column {column!r}" if column is not None else f"is a function, {function}"
            what = what if path is None else f"is a model, {path.name}"
            raise DataError(f"{where}: baselines.{name} {what}, but there is a column {name!r} too. Rename")
        if column is not None:
            labels = given[column]
        elif path is not None:
            changed = path.stat().st_mtime_ns if path.exists() else 0
            labels = _answer(functools.partial(_predict, path, changed), given, f"baselines.{name}", str(path), where)
        else:
            # `module:function`; modules in the folder of the goals file are looked for too.
            module_name, _, function_name = str(function).partition(":")
            sys.path.insert(0, str(goals.path.parent.resolve()))
            try:
                ask = getattr(importlib.import_module(module_name), function_name)
            except Exception as error:  # another's code may do anything
                raise DataError(
                    f"baselines.{name}: {function} cannot be imported ({type(error).__name__}: {str(error)[:200]}). "
                    "Put the module beside the goals file, or install it"
                ) from error
            finally:
                sys.path.remove(str(goals.path.parent.resolve()))
            if not callable(ask):
                what = type(ask).__name__
                raise DataError(f"baselines.{name}: {function} is a {what}, no function. Name a function")
            labels = _answer(ask, given, f"baselines.{name}", str(function), where)
        table = table.append_column(name, labels)
    return table


def baseline_labels(goals: GoalsFile, tables: Mapping[str | None, pa.Table]) -> dict[str, dict[str | None, Any]]:
    """The decisions of the earlier models that all tables have, by name and table."""
    return {
        name: {source: table[name] for source, table in tables.items()}
        for name in goals.baseline_names
        if all(name in table.column_names for table in tables.values())
    }


def _answer(ask: Callable[[pa.Table], Any], table: pa.Table, name: str, what: str, where: str) -> pa.Array:
    """The labels that a model or function gives, one a row."""
    try:
        with warnings_reworded(functools.partial("{}: {}".format, name)):
            answer = ask(table)
    except WidemarginError as error:
        raise type(error)(f"{name} ({what}) on {where}: {error}") from error
    except Exception as error:  # another's code may do anything
        raise DataError(
            f"{name}: {what} fails on {where} ({type(error).__name__}: {str(error)[:200]}). Correct it"
        ) from error
    cure = "It has to give one label per row"
    try:
        labels = np.asarray(answer)
        column = pa.array(labels.tolist()) if labels.shape == (table.num_rows,) else None
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"{name}: {what} gives no labels ({str(error)[:200]}). {cure}") from error
    if column is None:
        raise DataError(
            f"{name}: {what} gives an answer of shape {labels.shape} for the {table.num_rows} rows of {where}. {cure}"
        )
    return column


def _predict(path: Path, changed: int, table: pa.Table) -> Any:
    return _model(path, changed).predict(table)


@functools.lru_cache(maxsize=8)
def _model(path: Path, changed: int) -> Any:
    """The model of a file, read once as long as the file does not change."""
    model = load_model(path)
    if not hasattr(model[0] if hasattr(model, "steps") else model, "schema_"):
        raise DataError(
            "the model takes arrays, not tables. Save a Pipeline that starts with make_preprocessor(), or write its "
            "decisions into a column"
        )
    return model
