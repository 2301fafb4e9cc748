"""What is well-formed by itself in a goals file and does not go together, or leads where it may not.

No command replaces what it reads: every file that is to be written is compared with every file that is read.
"""

import argparse
import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from widemargin._files import PARQUET_ENDINGS
from widemargin.cli.goals_file.keys import GoalsFile, ModelSection, TablePath
from widemargin.cli.goals_file.toml_lines import Problem, mention
from widemargin.exceptions import DataError

__all__ = [
    "code_that_would_run", "contradictions", "free_name", "is_within", "paths_of", "refuse_to_replace", "strangers",
]  # fmt: skip


def contradictions(goals: GoalsFile, tables: Mapping[str, Any], spoilt: Collection[str] = ()) -> Iterator[Problem]:
    """What is well-formed by itself and does not go together.

    Parameters
    ----------
    goals : GoalsFile
    tables : mapping of str to object
        What the file says.
    spoilt : collection of str
        Sections with problems of their own: what is said about them may follow from these, and is left out.
    """
    if not {"data", "baselines"} & {*spoilt}:
        yield from _roles(goals)
    yield from _names(goals, tables, spoilt)
    if "model" not in spoilt:
        yield from _model_options(tables.get("model", {}))
    if not {"data", "model", "validation"} & {*spoilt}:
        yield from _validation(goals, tables)
    read = files_read(goals)
    for key, path in vars(goals.outputs).items():
        what = None if path is None else what_is_replaced(path, read)
        if path is not None and what is not None:
            yield Problem(("output", key), f"is {what}, which would be replaced. Name another file")
        elif path is not None:
            read.append((f"output.{key} too", path))


def _roles(goals: GoalsFile) -> Iterator[Problem]:
    """Columns that play two roles at once."""
    data, split = goals.data, goals.data.split
    taken = {column: f"baselines.{name}" for name, column in goals.baselines.items()} | {data.target: "data.target"}
    taken |= dict.fromkeys(data.protected, "data.protected") | dict.fromkeys(data.ignore, "data.ignore")
    if split is not None:
        taken[split.column] = "data.split"
        if split.train == split.test:
            text = f"train and test are both {split.train!r}. Name two different values"
            yield Problem(("data", "split"), text)
    if data.weight is not None:
        if data.weight in taken and taken[data.weight] != "data.ignore":
            text = f"{data.weight!r} is also named by {taken[data.weight]}. Name another column, or drop one"
            yield Problem(("data", "weight"), text)
        taken[data.weight] = "data.weight"
    for name in data.protected_as_features:
        if taken.get(name) != "data.protected":
            other = f"is named by {taken[name]}" if name in taken else "is not in data.protected"
            yield Problem(("data", "protected_as_features"), f"{name!r} {other}. List protected columns only")
    for name in data.features or ():
        if name not in taken or name in data.protected_as_features:
            continue
        text = f"{name!r} is also named by {taken[name]}. A feature cannot be that: drop one"
        if name in data.protected:
            text += ", or list it in data.protected_as_features too"
        yield Problem(("data", "features"), text)
    if data.features is not None and not (data.features or data.protected_as_features):
        yield Problem(("data", "features"), "names no column. Name at least one, or drop the key")


def _names(goals: GoalsFile, tables: Mapping[str, Any], spoilt: Collection[str]) -> Iterator[Problem]:
    """Baselines and external data sets that a goal names but the file does not."""
    for goal, path in ((goals.goal, ("goal", "text")), (goals.audit_goal, ("goal", "audit", "text"))):
        if goal is None:
            continue
        text = tables["goal"]["text"] if len(path) == 2 else tables["goal"]["audit"]["text"]
        for name in goal.baselines:
            if name not in goals.baseline_names and "baselines" not in spoilt:
                said = f"the baseline {name!r} is not in [baselines]. Add: {name} = {{ column = ... }}"
                yield Problem(path, said, mention(text, name), text)
        for name in goal.sources:
            if name not in goals.external and "external" not in spoilt:
                said = f"the external data set {name!r} is not in the file. Add: [external.{name}] with its table"
                yield Problem(path, said, mention(text, name), text)
    for name in {*goals.external} & {*goals.baseline_names}:
        yield Problem(("external", name), f"a baseline is called {name!r} too. Rename one")


def _model_options(model: Mapping[str, Any]) -> Iterator[Problem]:
    """Options of kernels that do not go together."""
    kernel = model.get("kernel", "linear")
    given = [key for key in ModelSection.KERNEL_KEYS if key in model]
    if kernel == "linear":
        for key in given:
            text = "is for kernels, and model.kernel is 'linear'. Name another kernel or drop it"
            yield Problem(("model", key), text)
        return
    if model.get("feature_map") == "fourier" and kernel != "rbf":
        text = f"'fourier' is for the kernel 'rbf'; got {kernel!r}. Use 'nystroem'"
        yield Problem(("model", "feature_map"), text)
    if "feature_map" in model and "cache_size" in model:
        yield Problem(("model", "cache_size"), "is for kernels without a feature_map. Drop one of them")
    if "n_components" in model and "feature_map" not in model:
        yield Problem(("model", "n_components"), 'is for a feature_map. Add feature_map = "nystroem" or drop it')


def _validation(goals: GoalsFile, tables: Mapping[str, Any]) -> Iterator[Problem]:
    said, place = goals.validation, "validation"
    if said.folds is not None:
        for key in ("fraction", "confidence"):
            if getattr(said, key) is not None:
                text = f"cannot stand beside validation.folds, which promise nothing for new rows. Drop {key} or folds"
                yield Problem((place, key), text)
        if "C" in tables.get("model", {}):
            yield Problem(("model", "C"), "is chosen by validation.folds. Drop one of them")
    if said.confidence is not None and goals.model.enforce == "randomized":
        text = 'covers the rates of predict, and model.enforce is "randomized". Drop one of them'
        yield Problem((place, "confidence"), text)
    if said.fraction is not None and said.confidence is None and said.folds is None and goals.data.split is not None:
        yield Problem((place, "fraction"), "data.split already holds rows out. Drop one of them, or add a confidence")


def strangers(goals: GoalsFile) -> Iterator[Problem]:
    """Files that lie outside the folders which may be looked at. The main table may lie anywhere: it is only read."""
    named: list[tuple[tuple[str, ...], Path | None]] = [
        *((("output", key), path) for key, path in vars(goals.outputs).items()),
        *((("baselines", name, "model"), path) for name, path in goals.baseline_models.items()),
    ]
    for name, external in goals.external.items():
        named += [(("external", name, "table"), path) for path in paths_of(external.table)]
    for key, path in named:
        if path is not None and not is_within(path, goals.allowed_folders):
            text = f"{str(path)!r} leads outside the folder of the goals file. Move it there, or allow its folder by "
            yield Problem(key, text + "--allow-outside FOLDER")


def code_that_would_run(goals: GoalsFile) -> Iterator[Problem]:
    """Baselines that are functions."""
    for name, function in goals.baseline_functions.items():
        text = f"{function!r} would run code, which a goals file may not. If you trust it, add --allow-code"
        yield Problem(("baselines", name, "function"), text)


def is_within(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a file lies in one of some folders, whatever links and `..` are on the way."""
    return any(_real(path).is_relative_to(_real(folder)) for folder in folders)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


# What is written and what is read

_READ_TABLE = "the table that is read"
_READ_MODEL = "a model that is read"


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
    tables = [(_READ_TABLE, path) for path in paths_of(goals.data.table)]
    for name, section in goals.external.items():
        tables += [(f"the table of external.{name}", path) for path in paths_of(section.table)]
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


def paths_of(table: TablePath) -> tuple[Path, ...]:
    """The files of a table, as the goals file names them."""
    return table if isinstance(table, tuple) else (table,)


def _read_by_options(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    said = vars(options)
    for name in ("table", "data"):
        if isinstance(said.get(name), Path):
            yield _READ_TABLE, said[name]
    models = said.get("models") or ()
    if said.get("command") != "train" and said.get("model") is not None:
        models = (*models, said["model"])
    yield from ((_READ_MODEL, path) for path in models)
    yield from (("a stored path that is read", path) for path in said.get("tradeoff") or ())
    predictions = said.get("predictions") or ()
    for text in (predictions,) if isinstance(predictions, str) else predictions:
        for file in {text, text.rpartition(":")[0]} - {""}:
            yield "a file of predictions that is read", Path(file)


def _written(options: argparse.Namespace, goals: GoalsFile | None) -> Iterator[tuple[str, Path]]:
    said = vars(options)
    main = {"train": ("model", "model"), "report": ("out", "report"), "predict": ("out", "predictions")}
    option, key = main.get(said.get("command", ""), ("out", ""))
    if said.get(option) is not None:
        yield f"--{option}", Path(said[option])
    elif goals is not None and key and getattr(goals.outputs, key) is not None:
        yield f"[output] {key}", getattr(goals.outputs, key)
    for name in ("plot", "report_json", "junit"):
        if said.get(name) is not None:
            yield f"--{name.replace('_', '-')}", said[name]
