"""Goals files: TOML read into checked, frozen records. Every problem is named by its line and key, all of them at once.

`goals_keys.py` lists the sections and keys. Unknown keys are refused, with the nearest known one. Paths are relative to
the file. A goals file runs nothing: baselines that are functions are refused unless the command line allows code, and
what it reads beside the main table, or writes, has to lie within its own folder or in one that the command line allows.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from widemargin.cli.goals_keys import LINEAR
from widemargin.cli.goals_reader import Problem, mention, read_text, read_values, refusal
from widemargin.cli.toml_lines import TomlLines
from widemargin.goals import Goal

__all__ = [
    "DataSection", "ExternalSection", "GoalsFile", "Label", "ModelSection", "Split", "TablePath", "ValidationSection",
    "goals_of", "is_within", "read_goals_file", "table_text",
]  # fmt: skip

Label: TypeAlias = str | int | float | bool
TablePath: TypeAlias = Path | tuple[Path, ...]
"""One file or folder, or the parts of one table."""


@dataclass(frozen=True)
class Split:
    """The column that says which rows are for training and which are held out, and the two words in it."""

    column: str
    train: Label
    test: Label


@dataclass(frozen=True)
class DataSection:
    """The table and the roles of its columns."""

    table: TablePath
    target: str
    positive: Label
    features: tuple[str, ...] | None
    protected: tuple[str, ...]
    ignore: tuple[str, ...]
    words: tuple[str, ...]
    split: Split | None
    protected_as_features: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExternalSection:
    """The table of an external data set, and the column of its labels (None: that of the main target, if there)."""

    table: TablePath
    target: str | None = None


@dataclass(frozen=True)
class ModelSection:
    """Options of the estimator and of its first step; see `RateConstrainedClassifier` and `make_preprocessor`.

    `kernel` holds what the file sets of the estimator's kernel, gamma, degree, coef0, feature_map, n_components and
    cache_size; it is empty for a linear model.
    """

    C: float
    enforce: Literal["deterministic", "randomized"]
    numbers: Literal["scale", "bins"]
    bins: int
    time_budget: float | None
    on_infeasible: Literal["raise", "warn"] = "raise"
    kernel: Mapping[str, Any] = field(default_factory=dict)
    rare_words: int = 1


@dataclass(frozen=True)
class ValidationSection:
    """Rows kept from training: a share of them, a confidence to prove, or folds to choose C by."""

    fraction: float | None = None
    confidence: float | None = None
    folds: int | None = None


@dataclass(frozen=True)
class GoalsFile:
    """A goals file that has been read and checked.

    Attributes
    ----------
    path : Path
    data : DataSection
    baselines : mapping of str to str
        Name in the goal -> column that holds the earlier model's decisions.
    goal : Goal
        What training enforces.
    audit_goal : Goal or None
        What is promised for unseen rows (may be looser); None: the same goal.
    model : ModelSection
    output, report, predictions : Path or None
        Where `train` saves the model, `report` its page and `predict` its table.
    external : mapping of str to ExternalSection
    baseline_models : mapping of str to Path
        Name in the goal -> model file.
    baseline_functions : mapping of str to str
        Name in the goal -> "module:function"; empty unless the command line allowed code.
    validation : ValidationSection
    allowed_folders : tuple of Path
        Where external tables may lie: the folder of the file, and those that the command line allowed.
    lines : TomlLines or None
        Where its keys stand.
    """

    path: Path
    data: DataSection
    baselines: Mapping[str, str]
    goal: Goal
    audit_goal: Goal | None
    model: ModelSection
    output: Path | None
    report: Path | None = None
    predictions: Path | None = None
    external: Mapping[str, ExternalSection] = field(default_factory=dict)
    baseline_models: Mapping[str, Path] = field(default_factory=dict)
    baseline_functions: Mapping[str, str] = field(default_factory=dict)
    validation: ValidationSection = ValidationSection()
    allowed_folders: tuple[Path, ...] = ()
    lines: TomlLines | None = field(default=None, compare=False, repr=False)

    @property
    def baseline_names(self) -> tuple[str, ...]:
        """All baselines: columns, models and functions."""
        return (*self.baselines, *self.baseline_models, *self.baseline_functions)

    def goal_for(self, part: str) -> Goal:
        """What is measured on a part of the rows: the goal on those trained on, else what is promised."""
        return self.goal if part == "train" or self.audit_goal is None else self.audit_goal


def goals_of(options: argparse.Namespace) -> GoalsFile:
    """The goals file of a command, with what its options allow; see `read_goals_file`."""
    allow_code, outside = getattr(options, "allow_code", False), getattr(options, "allow_outside", None)
    return read_goals_file(options.goals, allow_code=allow_code, allow_outside=outside or ())


def read_goals_file(path: Path, *, allow_code: bool = False, allow_outside: Sequence[Path] = ()) -> GoalsFile:
    """Read and check a goals file.

    Parameters
    ----------
    path : Path
    allow_code : bool, default=False
        Whether baselines may be functions, which run code.
    allow_outside : sequence of Path, default=()
        Folders beside that of the file in which external tables, baseline models and outputs may lie.

    Raises
    ------
    GoalsFileError
        The file cannot be read or is no TOML, or with a list of everything that is wrong in it.
    """
    tables, lines = read_text(path)
    values, problems = read_values(tables)
    goals = _records(path, values, lines, (path.parent, *allow_outside))
    if not problems:  # else some values are None
        problems += _contradictions(goals, tables)
        problems += _strangers(goals)
        if not allow_code:
            problems += _code(goals)
    if problems:
        raise refusal(path, problems, lines)
    return goals


def _records(path: Path, values: dict[str, Any], lines: TomlLines, folders: tuple[Path, ...]) -> GoalsFile:
    """Everything the file says; None in the place of each value that is missing or wrong."""
    data, goal, output = values["data"], values["goal"], values["output"]
    model = dict(values["model"])
    baselines = {name: {key: value for key, value in (said or {}).items() if value is not None}
                 for name, said in values["baselines"].items()}  # fmt: skip

    def in_folder(name: str | None) -> Path | None:
        return None if name is None else path.parent / name

    def table(name: str | tuple[str, ...] | None) -> Any:
        return tuple(path.parent / part for part in name) if isinstance(name, tuple) else in_folder(name)

    return GoalsFile(
        path=path,
        data=DataSection(
            **{
                **data,
                "table": table(data["table"]),
                "split": None if data["split"] is None else Split(**data["split"]),
            }
        ),
        baselines={name: said["column"] for name, said in baselines.items() if "column" in said},
        goal=goal["text"],
        audit_goal=None if goal["audit"] is None else goal["audit"]["text"],
        model=ModelSection(kernel=_kernel(model), **model),
        output=in_folder(output["model"]),
        report=in_folder(output["report"]),
        predictions=in_folder(output["predictions"]),
        external={
            name: ExternalSection(table(said.get("table")), said.get("target"))
            for name, said in values["external"].items()
        },
        baseline_models={name: path.parent / said["model"] for name, said in baselines.items() if "model" in said},
        baseline_functions={name: said["function"] for name, said in baselines.items() if "function" in said},
        validation=ValidationSection(**values["validation"]),
        allowed_folders=folders,
        lines=lines,
    )


_KERNEL_KEYS = ("gamma", "degree", "coef0", "feature_map", "n_components", "cache_size")


def _kernel(model: dict[str, Any]) -> dict[str, Any]:
    """Take what is said about the kernel out of the values, as parameters of the estimator; empty for a linear one."""
    options = {"kernel": model.pop("kernel"), **{key: model.pop(key) for key in _KERNEL_KEYS}}
    if options["kernel"] == LINEAR:
        return {}
    return {key: value for key, value in options.items() if value is not None}


def _contradictions(goals: GoalsFile, tables: Mapping[str, Any]) -> Iterator[Problem]:
    """What is well-formed by itself and does not go together."""
    yield from _roles(goals)
    yield from _names(goals, tables)
    yield from _model_options(tables.get("model", {}))
    yield from _validation(goals, tables)
    files = goals.data.table if isinstance(goals.data.table, tuple) else (goals.data.table,)
    for key, path in (("model", goals.output), ("report", goals.report), ("predictions", goals.predictions)):
        if path is not None and _real(path) in {_real(file) for file in files}:
            yield Problem(("output", key), "is the table itself, which would be replaced. Name another file")


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


def _names(goals: GoalsFile, tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Baselines and external data sets that a goal names but the file does not."""
    for goal, path in ((goals.goal, ("goal", "text")), (goals.audit_goal, ("goal", "audit", "text"))):
        if goal is None:
            continue
        text = tables["goal"]["text"] if len(path) == 2 else tables["goal"]["audit"]["text"]
        for name in goal.baselines:
            if name not in goals.baseline_names:
                said = f"the baseline {name!r} is not in [baselines]. Add: {name} = {{ column = ... }}"
                yield Problem(path, said, mention(text, name), text)
        for name in goal.sources:
            if name not in goals.external:
                said = f"the external data set {name!r} is not in the file. Add: [external.{name}] with its table"
                yield Problem(path, said, mention(text, name), text)
    for name in {*goals.external} & {*goals.baseline_names}:
        yield Problem(("external", name), f"a baseline is called {name!r} too. Rename one")


def _model_options(model: Mapping[str, Any]) -> Iterator[Problem]:
    """Options of kernels that do not go together."""
    kernel = model.get("kernel", LINEAR)
    given = [key for key in _KERNEL_KEYS if key in model]
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


def _strangers(goals: GoalsFile) -> Iterator[Problem]:
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


def _code(goals: GoalsFile) -> Iterator[Problem]:
    for name, function in goals.baseline_functions.items():
        text = f"{function!r} would run code, which a goals file may not. If you trust it, add --allow-code"
        yield Problem(("baselines", name, "function"), text)


def is_within(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a file lies in one of some folders, whatever links and `..` are on the way."""
    return any(_real(path).is_relative_to(_real(folder)) for folder in folders)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def table_text(table: TablePath) -> str:
    """A table in messages."""
    if not isinstance(table, tuple):
        return str(table)
    return str(table[0]) if len(table) == 1 else f"{table[0]} and {len(table) - 1} more"
