"""What is well-formed by itself in a goals file and does not go together, or leads where it may not."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from widemargin.cli.goals_file.keys import KERNEL_KEYS, LINEAR
from widemargin.cli.goals_file.reader import Problem, mention
from widemargin.cli.goals_file.records import GoalsFile
from widemargin.cli.goals_file.replaced import files_read, what_is_replaced

__all__ = ["code_that_would_run", "contradictions", "is_within", "strangers"]


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
    for key, path in (("model", goals.output), ("report", goals.report), ("predictions", goals.predictions)):
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
    kernel = model.get("kernel", LINEAR)
    given = [key for key in KERNEL_KEYS if key in model]
    if kernel == LINEAR:
        for key in given:
            text = f"is for kernels, and model.kernel is {LINEAR!r}. Name another kernel or drop it"
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
        (("output", "model"), goals.output),
        (("output", "report"), goals.report),
        (("output", "predictions"), goals.predictions),
        *((("baselines", name, "model"), path) for name, path in goals.baseline_models.items()),
    ]
    for name, external in goals.external.items():
        files = external.table if isinstance(external.table, tuple) else (external.table,)
        named += [(("external", name, "table"), path) for path in files]
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
