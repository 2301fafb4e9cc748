"""No command replaces what it reads: every file that is to be written is compared with every file that is read."""

import argparse
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from widemargin._files import PARQUET_ENDINGS
from widemargin.cli.goals_file.records import GoalsFile
from widemargin.exceptions import DataError

__all__ = ["files_read", "free_name", "refuse_to_replace", "what_is_replaced"]

_TABLE = "the table that is read"
_MODEL = "a model that is read"


def refuse_to_replace(options: argparse.Namespace, goals: GoalsFile | None = None) -> None:
    """Compare the files that a command is to write with those that it reads, and with each other.

    Raises
    ------
    DataError
        One of them would be replaced.
    """
    read = [*_read_by_options(options), *([] if goals is None else files_read(goals))]
    for option, path in _written(options, goals):
        what = what_is_replaced(path, read)
        if what is not None:
            raise DataError(f"{path}: {option} is {what}, which would be replaced. Give another name")
        read.append((f"written by {option} too", path))


def free_name(path: Path, word: str) -> Path:
    """A name beside a file for an unfinished one, which no file has: `p.csv` gives `p.WORD.csv`, `p.WORD2.csv`, ..."""
    numbers = itertools.chain([""], map(str, itertools.count(2)))
    candidates = (path.with_name(f"{path.stem}.{word}{number}{path.suffix}") for number in numbers)
    return next(candidate for candidate in candidates if not candidate.exists())


def files_read(goals: GoalsFile) -> list[tuple[str, Path]]:
    """What a goals file reads, itself among it: what each file is, and its path."""
    tables = [(_TABLE, path) for path in _paths(goals.data.table)]
    for name, section in goals.external.items():
        tables += [(f"the table of external.{name}", path) for path in _paths(section.table)]
    models = [(f"the model of baselines.{name}", path) for name, path in goals.baseline_models.items()]
    return [("the goals file itself", goals.path), *tables, *models]


def what_is_replaced(path: Path, read: list[tuple[str, Path]]) -> str | None:
    """Which of some files that are read an output would replace, or become a further part of; None: none."""
    real = os.path.realpath(path)
    may_be_part = path.suffix.lower() in PARQUET_ENDINGS
    for what, other in read:
        if real == os.path.realpath(other):
            return what
        if may_be_part and other.is_dir() and os.path.dirname(real) == os.path.realpath(other):
            return f"in the folder of {what}"
    return None


def _paths(table: Any) -> tuple[Path, ...]:
    return table if isinstance(table, tuple) else (table,)


def _read_by_options(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    said = vars(options)
    for name in ("table", "data"):
        if isinstance(said.get(name), Path):
            yield _TABLE, said[name]
    models = said.get("models") or ()
    if said.get("command") != "train" and said.get("model") is not None:
        models = (*models, said["model"])
    yield from ((_MODEL, path) for path in models)
    yield from (("a stored path that is read", path) for path in said.get("tradeoff") or ())
    predictions = said.get("predictions") or ()
    for text in (predictions,) if isinstance(predictions, str) else predictions:
        for file in {text, text.rpartition(":")[0]} - {""}:
            yield "a file of predictions that is read", Path(file)


def _written(options: argparse.Namespace, goals: GoalsFile | None) -> Iterator[tuple[str, Path]]:
    said = vars(options)
    main = {"train": ("model", "output"), "report": ("out", "report"), "predict": ("out", "predictions")}
    option, key = main.get(said.get("command", ""), ("out", ""))
    if said.get(option) is not None:
        yield f"--{option}", Path(said[option])
    elif key and getattr(goals, key, None) is not None:
        yield f"[output] {'model' if key == 'output' else key}", getattr(goals, key)
    for name in ("plot", "report_json", "junit"):
        if said.get(name) is not None:
            yield f"--{name.replace('_', '-')}", said[name]
