"""What is well-formed by itself in a goals file and does not go together, or leads where it may not.

No command replaces what it reads: every file that is to be written is compared with every file that is read.
"""

import argparse
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from widemargin._files import PARQUET_ENDINGS, PREDICTION_ENDINGS, UnfinishedFile
from widemargin.cli.goals_file.keys import KERNEL_KEYS, GoalsFile, paths_of
from widemargin.cli.goals_file.toml_lines import Problem, mention
from widemargin.exceptions import DataError


def contradictions(
    goals: GoalsFile, tables: Mapping[str, Any], spoilt: Collection[str] = (), allow_code: bool = False
) -> Iterator[Problem]:
    """Values that are valid by themselves but exclude each other, and files that a goals file may not name.

    Parameters
    ----------
    tables : mapping of str to object
        The content of the file.
    spoilt : collection of str
        Sections with problems of their own; problems that may follow from these are left out.
    allow_code : bool, default=False
        Whether baselines may be functions.
    """
    if not {"data", "baselines"} & {*spoilt}:
        # Columns that play two roles at once.
        data, split, taken = goals.data, goals.data.split, goals.roles
        if split is not None and split.train == split.test:
            yield Problem(("data", "split"), f"train and test are both {split.train!r}. Name two different values")
        if data.weight is not None and taken[data.weight] not in ("data.weight", "data.ignore"):
            text = f"{data.weight!r} is also named by {taken[data.weight]}. Name another column, or drop one"
            yield Problem(("data", "weight"), text)
        for name in data.protected_as_features:
            if taken.get(name) != "data.protected":
                other = f"is named by {taken[name]}" if name in taken else "is not in data.protected"
                yield Problem(("data", "protected_as_features"), f"{name!r} {other}. List protected columns only")
        for name in data.features or ():
            if name in taken and name not in data.protected_as_features:
                text = f"{name!r} is also named by {taken[name]}. A feature cannot be that: drop one"
                more = ", or list it in data.protected_as_features too" if name in data.protected else ""
                yield Problem(("data", "features"), text + more)
        by = None if "model" in spoilt else goals.model.thresholds_by
        role = "" if by is None else taken.get(by, "")
        if role in ("data.target", "data.weight", "data.split", "data.ignore"):
            yield Problem(("model", "thresholds_by"), f"{by!r} is also named by {role}. Name a column of populations")
        if data.features is not None and not (data.features or data.protected_as_features):
            yield Problem(("data", "features"), "names no column. Name at least one, or drop the key")
    # Baselines and external data sets that a goal names but the file does not.
    for goal, path in ((goals.goal, ("goal", "text")), (goals.audit_goal, ("goal", "audit", "text"))):
        if goal is None:
            continue
        text = tables["goal"]["text"] if len(path) == 2 else tables["goal"]["audit"]["text"]
        for name in goal.baselines:
            if name not in goals.baseline_names and "baselines" not in spoilt:
                why = f"the baseline {name!r} is not in [baselines]. Add: {name} = {{ column = ... }}"
                yield Problem(path, why, mention(text, name), text)
        for name in goal.sources:
            if name not in goals.external and "external" not in spoilt:
                why = f"the external data set {name!r} is not in the file. Add: [external.{name}] with its table"
                yield Problem(path, why, mention(text, name), text)
    for name in {*goals.external} & {*goals.baseline_names}:
        yield Problem(("external", name), f"a baseline is called {name!r} too. Rename one")
    asked = (goal for goal in (goals.goal, goals.audit_goal) if goal is not None)
    if "positive" not in tables.get("data", {}) and any(goal.needs_positive_class for goal in asked):
        why = 'is missing, and the goal does not say which class it speaks of. Add it, or name one: recall(of="cat")'
        yield Problem(("data", "positive"), why)
    yield from _settings(goals, tables, spoilt)
    yield from _files(goals, allow_code)


def _settings(goals: GoalsFile, tables: Mapping[str, Any], spoilt: Collection[str]) -> Iterator[Problem]:
    """Settings of the model, and of the rows that training does not see, that exclude each other."""
    model, held, folds = tables.get("model", {}), goals.validation, goals.validation.folds is not None
    kernel, mapped = model.get("kernel", "linear"), "feature_map" in model
    # Of each rule whether it is broken, the key to name, and the message.
    trees = model.get("learner") == "trees"
    of_model: list[tuple[bool, str, str]] = [
        *((trees and is_set, f"model.{key}", 'is for SVMs, and model.learner is "trees". Drop one of them')
          for key, is_set in (("kernel", "kernel" in model), ("C", "C" in model),
                              ("enforce", model.get("enforce") == "randomized"))),
        *((kernel == "linear" and key in model, f"model.{key}",
           "is for kernels, and model.kernel is 'linear'. Name another kernel or drop it") for key in KERNEL_KEYS),
        (kernel not in ("linear", "rbf") and model.get("feature_map") == "fourier", "model.feature_map",
         f"'fourier' is for the kernel 'rbf'; got {kernel!r}. Use 'nystroem'"),
        (kernel != "linear" and mapped and "cache_size" in model, "model.cache_size",
         "is for kernels without a feature_map. Drop one of them"),
        (kernel != "linear" and not mapped and "n_components" in model, "model.n_components",
         'is for a feature_map. Add feature_map = "nystroem" or drop it'),
    ]  # fmt: skip
    # `goals.abstain` needs a goal and a model; a section that is missing altogether does not count as spoilt.
    abstains = goals.goal is not None and not {"goal", "model"} & {*spoilt} and goals.abstain is not None
    certified = goals.audit_goal is not None and any(fact.metric == "certified_rate" for fact in goals.audit_goal.facts)
    of_rows: list[tuple[bool, str, str]] = [
        (trees and abstains, "model.learner",
         'is "trees", and no trees abstain here. Drop it, or ask nothing about decisions'),
        (not abstains and goals.model.thresholds_by is not None, "model.thresholds_by",
         "is for models that abstain. Ask something about decisions, or drop it"),
        (goals.model.thresholds_by is not None and goals.audit_goal is not None and bool(goals.audit_goal.facts),
         "model.thresholds_by", "leaves margins and certified rates undefined. Ask for none in goal.audit, or drop it"),
        *((certified and model.get(key) == value, f"model.{key}",
           f'is "{value}", and such decisions cannot be certified. Ask for no certified_rate in goal.audit, or drop it')
          for key, value in (("numbers", "bins"), ("learner", "trees"), ("kernel", "poly"), ("kernel", "sigmoid"))),
        (trees and folds, "validation.folds", 'choose C, and model.learner is "trees". Drop one of them'),
        (abstains and goals.model.enforce == "randomized", "model.enforce",
         'is "randomized", and a model that abstains has fixed thresholds. Drop it, or ask nothing about decisions'),
        (abstains and folds, "validation.folds",
         "are for models that decide every row, and this one abstains. Drop folds, or ask nothing about decisions"),
        *((folds and getattr(held, key) is not None, f"validation.{key}",
           f"cannot stand beside validation.folds, which promise nothing for new rows. Drop {key} or folds")
          for key in ("fraction", "confidence")),
        (folds and "C" in model, "model.C", "is chosen by validation.folds. Drop one of them"),
        (held.confidence is not None and goals.model.enforce == "randomized", "validation.confidence",
         'covers the rates of predict, and model.enforce is "randomized". Drop one of them'),
        (held.test_fraction is not None and not folds and goals.data.split is not None, "validation.fraction",
         "data.split already holds rows out. Drop one of them, or add a confidence"),
    ]  # fmt: skip
    for rules, sections in ((of_model, {"model"}), (of_rows, {"data", "goal", "model", "validation"})):
        for is_broken, key, why in rules:
            if is_broken and not sections & {*spoilt}:
                yield Problem(tuple(key.split(".")), why)


def _files(goals: GoalsFile, allow_code: bool) -> Iterator[Problem]:
    """Files that would be replaced or lie outside the allowed folders, and baselines that would run code."""
    read = _files_read(goals)
    for key, path in vars(goals.outputs).items():
        what = None if path is None else _replaced(path, read)
        if what is not None:
            yield Problem(("output", key), f"is {what}, which would be replaced. Name another file")
        elif path is not None:
            read.append((f"output.{key} too", path))
    said = goals.outputs.predictions
    if said is not None and not said.name.lower().endswith(PREDICTION_ENDINGS):
        yield Problem(("output", "predictions"), "is written as .csv, .parquet or .pq. Choose one of these endings")
    # Files outside the folders which may be looked at. The main table may lie anywhere: it is only read.
    named: list[tuple[tuple[str, ...], Path]] = [
        *((("output", key), path) for key, path in vars(goals.outputs).items() if path is not None),
        *((("baselines", name, "model"), path) for name, path in goals.baseline_models.items()),
        *(
            (("external", name, "table"), path)
            for name in goals.external
            for path in paths_of(goals.external[name].table)
        ),
    ]
    for place, path in named:
        if not is_within(path, goals.allowed_folders):
            why = f"{str(path)!r} leads outside the folder of the goals file. Move it there, or allow its folder by "
            yield Problem(place, why + "--allow-outside FOLDER")
    for name, function in {} if allow_code else goals.baseline_functions.items():
        text = f"{function!r} would run code, which a goals file may not. If you trust it, add --allow-code"
        yield Problem(("baselines", name, "function"), text)


def is_within(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a file lies in one of some folders, whatever links and `..` are on the way."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)


# What is written and what is read


def refuse_to_replace(options: argparse.Namespace, goals: GoalsFile | None = None) -> None:
    """Compare the files that a command is to write with those that it reads, and with each other; try each folder.

    Raises
    ------
    DataError
        One of them would be replaced, or cannot be written.
    """
    given = {name: value for name, value in vars(options).items() if value is not None}
    command = given.get("command", "")
    read = [] if goals is None else _files_read(goals)
    tables = ("table", "data", *(("goals",) if "standard" in given else ()))  # a standard takes a table in its place
    read += [("the table that is read", given[name]) for name in tables if isinstance(given.get(name), Path)]
    read += [("a file that --about names", path) for path in given.get("about", ())]
    models = [*given.get("models", ()), *([given["model"]] if command != "train" and "model" in given else [])]
    read += [("a model that is read", path) for path in models]
    read += [("a stored path that is read", path) for path in given.get("tradeoff", ())]
    predictions = given.get("predictions", ())
    for text in (predictions,) if isinstance(predictions, str) else predictions:
        # A file of predictions may be followed by a colon and a column.
        read += [("a file of predictions that is read", Path(file)) for file in {text, text.rpartition(":")[0]} - {""}]
    of_command = {"train": ("model", "model"), "report": ("out", "report"), "predict": ("out", "predictions")}
    option, key = of_command.get(command, ("out", ""))
    in_file = None if goals is None else getattr(goals.outputs, key, None)
    written = [(f"--{option}", Path(given[option]))] if option in given else []
    written += [(f"[output] {key}", in_file)] if not written and in_file is not None else []
    others = ("plot", "report_json", "junit", "html", "csv", "model_card", "in_toto")
    written += [(f"--{name.replace('_', '-')}", given[name]) for name in others if isinstance(given.get(name), Path)]
    for named_by, path in written:
        what = _replaced(path, read)
        if what is not None:
            raise DataError(f"{path}: {named_by} is {what}, which would be replaced. Give another name")
        # A file is filled there, and removed: hours of training are not to end at a closed folder, or a full disk.
        folder = next(folder for folder in path.absolute().parents if folder.exists())  # what is missing is made later
        try:
            file = UnfinishedFile(folder / path.name)
            try:
                file.stream.write(bytes(100_000))  # most models and pages are about as long
                file.stream.flush()
            finally:
                file.drop()
        except OSError as error:
            why = f"nothing can be made in {folder} ({error.strerror}). Choose another folder"
            raise DataError(f"{path}: {named_by} cannot be written: {why}") from error
        read.append((f"written by {named_by} too", path))


def _files_read(goals: GoalsFile) -> list[tuple[str, Path]]:
    """What a goals file reads, itself among it: what each file is, and its path."""
    tables = [("the table that is read", path) for path in paths_of(goals.data.table)]
    for name, section in goals.external.items():
        tables += [(f"the table of external.{name}", path) for path in paths_of(section.table)]
    models = [(f"the model of baselines.{name}", path) for name, path in goals.baseline_models.items()]
    return [("the goals file itself", goals.path), *tables, *models]


def _replaced(path: Path, read: list[tuple[str, Path]]) -> str | None:
    """Which of some files that are read an output would replace, or become a further part of; None: none."""
    real = os.path.realpath(path)
    may_be_part = path.suffix.lower() in PARQUET_ENDINGS
    for what, other in read:
        if real == os.path.realpath(other):
            return what
        if may_be_part and other.is_dir() and os.path.dirname(real) == os.path.realpath(other):
            return f"in the folder of {what}"
    return None
