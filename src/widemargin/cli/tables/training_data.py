"""The rows of a goals file as training sees them, and their features."""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin.cli.console import warnings_reworded
from widemargin.cli.goals_file.keys import GoalsFile, TablePath, table_text
from widemargin.cli.tables.column_roles import (
    TableRows,
    external_rows,
    feature_columns,
    named_columns,
    parts_of,
    require_columns,
    rows_of,
)
from widemargin.cli.tables.table_files import read_table
from widemargin.exceptions import DataError, TableWarning
from widemargin.preprocessing import TablePreprocessor, make_preprocessor

__all__ = [
    "Features",
    "TrainingData",
    "is_trained_on",
    "make_features",
    "one_class",
    "read_data",
    "warn_of_training_rows",
]


@dataclass(frozen=True)
class TrainingData:
    """The rows by part (train, test), those of external data sets by name, and the feature columns."""

    rows: Mapping[str, TableRows]
    external: Mapping[str, TableRows]
    features: list[str]


@dataclass(frozen=True)
class Features:
    """What the estimator is given: features by part, and of the external data sets."""

    rows: Mapping[str, Any]
    external: Mapping[str, Any]


def read_data(goals: GoalsFile) -> TrainingData:
    """Read all tables that a goals file names.

    Raises
    ------
    DataError
        A table cannot be read, lacks a column that the file names, or holds labels that cannot be used.
    """
    where = table_text(goals.data.table)
    table = read_table(goals.data.table, words=goals.data.words, separator=goals.data.separator)
    require_columns(table, named_columns(goals), where)
    rows = {part: rows_of(content, goals) for part, content in parts_of(table, goals).items()}
    only = one_class(rows["train"].y)
    if only is not None:
        raise DataError(
            f"{where}: the target {goals.data.target!r} is {only!r} in all {rows['train'].n_rows} training rows; two "
            "classes are needed. Add rows of the other one, or correct data.target"
        )
    return TrainingData(rows, external_rows(goals, goals.goal, goals.audit_goal), feature_columns(table, goals))


def one_class(labels: npt.NDArray[Any] | None) -> Any:
    """The class of all labels, where there is but one; else None."""
    return None if labels is None or len(np.unique(labels)) != 1 else labels[:1].tolist()[0]


def make_features(goals: GoalsFile, data: TrainingData) -> tuple[TablePreprocessor, Features]:
    """The first step of the model, fitted to the training rows, and what it makes of all rows.

    Raises
    ------
    DataError
        A feature column cannot be read, or does not fit the training rows elsewhere.
    """
    step = make_preprocessor(
        data.features,
        words=[name for name in goals.data.words if name in data.features],
        numbers=goals.model.numbers,
        n_bins=goals.model.bins,
        rare_words=goals.model.rare_words,
    )
    made = {"train": step.fit_transform(data.rows["train"].populations)}
    made |= {part: step.transform(rows.populations) for part, rows in data.rows.items() if part != "train"}
    return step, Features(made, {name: _external(step, name, rows) for name, rows in data.external.items()})


def _external(step: TablePreprocessor, name: str, rows: TableRows) -> Any:
    """Features of an external data set; what is said about its table names it."""
    try:
        with warnings_reworded(lambda warning: f"external.{name}: {warning}"):
            return step.transform(rows.populations)
    except DataError as error:
        raise DataError(f"external.{name}: {error}") from error


def warn_of_training_rows(goals: GoalsFile, measured: TablePath) -> None:
    """Warn where a model is to be measured on the table it was trained on, and no column says on which rows of it."""
    if not is_trained_on(goals, measured):
        return
    held = "" if goals.validation.fraction is None else "; `train` has measured those that validation.fraction held out"
    warnings.warn(
        f"{table_text(measured)} holds the rows that the model was trained on, so its rates are better than on new "
        f"rows{held}. Measure new rows, or name a column by data.split",
        TableWarning,
        stacklevel=2,
    )


def is_trained_on(goals: GoalsFile, table: TablePath) -> bool:
    """Whether a table is that of the goals file, and no column of it says which rows are for training."""
    return goals.data.split is None and _files(table) == _files(goals.data.table)


def _files(table: TablePath) -> list[str]:
    paths: tuple[Path, ...] = table if isinstance(table, tuple) else (table,)
    return [os.path.realpath(path) for path in paths]
