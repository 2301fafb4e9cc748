"""Decisions of earlier models: columns of the table, model files, and functions where the command line allows code."""

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from widemargin.cli.console import warnings_reworded
from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.exceptions import DataError, WidemarginError
from widemargin.persistence import load_model

__all__ = ["with_baselines"]


def with_baselines(table: pa.Table, goals: GoalsFile, where: str) -> Any:
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
    for name, column in goals.baselines.items():
        if name != column and column in given.column_names:
            _refuse_taken(given, name, f"reads column {column!r}", where)
            table = table.append_column(name, given[column])
    for name, path in goals.baseline_models.items():
        _refuse_taken(given, name, f"is a model, {path.name}", where)
        said = _said(functools.partial(_predict, path), given, name, str(path), where)
        table = table.append_column(name, said)
    for name, function in goals.baseline_functions.items():
        _refuse_taken(given, name, f"is a function, {function}", where)
        call = _function(function, goals.path.parent, name)
        table = table.append_column(name, _said(call, given, name, function, where))
    return table


def _refuse_taken(table: pa.Table, name: str, what: str, where: str) -> None:
    if name in table.column_names:
        raise DataError(f"{where}: baselines.{name} {what}, but there is a column {name!r} too. Rename")


def _said(ask: Callable[[Any], Any], table: pa.Table, name: str, what: str, where: str) -> Any:
    """The labels that a model or function gives, one a row."""
    try:
        with warnings_reworded(lambda warning: f"baselines.{name}: {warning}"):
            said = ask(table)
    except WidemarginError as error:
        raise type(error)(f"baselines.{name} ({what}) on {where}: {error}") from error
    except Exception as error:  # another's code may do anything
        raise DataError(
            f"baselines.{name}: {what} fails on {where} ({type(error).__name__}: {str(error)[:200]}). Correct it"
        ) from error
    try:
        labels = np.asarray(said)
        if labels.shape != (table.num_rows,):
            shape = f"shape {labels.shape}"
            raise DataError(
                f"baselines.{name}: {what} gives an answer of {shape} for the {table.num_rows} rows of {where}. "
                "It has to give one label per row"
            )
        return pa.array(labels.tolist())
    except (pa.ArrowException, ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"baselines.{name}: {what} gives no labels ({str(error)[:200]}). It has to give one label per row"
        ) from error


def _predict(path: Path, table: pa.Table) -> Any:
    return _model(path, path.stat().st_mtime_ns if path.exists() else 0).predict(table)


@functools.lru_cache(maxsize=8)
def _model(path: Path, changed: int) -> Any:
    """The model of a file, read once as long as the file does not change."""
    model = load_model(path)
    first = model[0] if hasattr(model, "steps") else model
    if not hasattr(first, "schema_"):
        raise DataError(
            "the model takes arrays, not tables. Save a Pipeline that starts with make_preprocessor(), or write its "
            "decisions into a column"
        )
    return model


def _function(name: str, folder: Path, baseline: str) -> Callable[[Any], Any]:
    """Import `module:function`; modules in the folder of the goals file are found too."""
    module_name, _, function_name = name.partition(":")
    sys.path.insert(0, str(folder.resolve()))
    try:
        found = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # another's code may do anything
        raise DataError(
            f"baselines.{baseline}: {name} cannot be imported ({type(error).__name__}: {str(error)[:200]}). "
            "Put the module beside the goals file, or install it"
        ) from error
    finally:
        sys.path.remove(str(folder.resolve()))
    if not callable(found):
        raise DataError(f"baselines.{baseline}: {name} is a {type(found).__name__}, no function. Name a function")
    checked: Callable[[Any], Any] = found
    return checked
