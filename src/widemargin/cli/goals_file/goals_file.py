"""Goals files: TOML read into checked, frozen records. Every problem is named by its line and key, all of them at once.

`goals_keys.py` lists the sections and keys. Unknown keys are refused, with the nearest known one. Paths are relative to
the file. A goals file runs nothing: baselines that are functions are refused unless the command line allows code, and
what it reads beside the main table, or writes, has to lie within its own folder or in one that the command line allows.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from widemargin.cli.card import CARD_KEYS
from widemargin.cli.goals_file.keys import KERNEL_KEYS, LINEAR
from widemargin.cli.goals_file.reader import Problem, read_text, read_values, refusal
from widemargin.cli.goals_file.records import (
    DataSection,
    ExternalSection,
    GoalsFile,
    Label,
    ModelSection,
    Split,
    TablePath,
    ValidationSection,
    table_text,
)
from widemargin.cli.goals_file.replaced import refuse_to_replace
from widemargin.cli.goals_file.rules import code_that_would_run, contradictions, is_within, strangers
from widemargin.cli.goals_file.toml_lines import TomlLines

__all__ = [
    "DataSection", "ExternalSection", "GoalsFile", "Label", "ModelSection", "Split", "TablePath", "ValidationSection",
    "goals_of", "is_within", "look_at", "read_goals_file", "table_text",
]  # fmt: skip


def goals_of(options: argparse.Namespace) -> GoalsFile:
    """The goals file of a command, with what its options allow; see `read_goals_file` and `refuse_to_replace`."""
    allow_code, outside = getattr(options, "allow_code", False), getattr(options, "allow_outside", None)
    goals = read_goals_file(options.goals, allow_code=allow_code, allow_outside=outside or ())
    separator = getattr(options, "separator", None)
    if separator is not None:
        goals = dataclasses.replace(goals, data=dataclasses.replace(goals.data, separator=separator))
    refuse_to_replace(options, goals)
    return goals


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
    goals, problems, lines = look_at(path, allow_code=allow_code, allow_outside=allow_outside)
    if problems or goals is None:
        raise refusal(path, problems, lines)
    return goals


def look_at(
    path: Path, *, allow_code: bool = False, allow_outside: Sequence[Path] = ()
) -> tuple[GoalsFile | None, list[Problem], TomlLines]:
    """What a goals file says as far as it can be used, and everything that is wrong in it.

    Parameters
    ----------
    path, allow_code, allow_outside
        As in `read_goals_file`.

    Returns
    -------
    goals : GoalsFile or None
        Without the external data sets, baselines and outputs that have a problem, with the defaults of other keys that
        have one, and with None for a goal that has one; None where the table or its target cannot be used.
    problems : list of Problem
    lines : TomlLines

    Raises
    ------
    GoalsFileError
        The file cannot be read or is no TOML.
    """
    tables, lines = read_text(path)
    values, problems = read_values(tables)
    spoilt = {problem.path[0] for problem in problems if problem.path}
    if any(values["data"][key] is None for key in ("table", "target", "positive", "protected", "ignore", "words")):
        return None, problems, lines
    goals = _records(path, _usable(values, problems), lines, (path.parent, *allow_outside))
    problems += contradictions(goals, tables, spoilt)
    problems += strangers(goals)
    if not allow_code:
        problems += code_that_would_run(goals)
    wrong = {problem.path[:2] for problem in problems}

    def right(section: str, said: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in said.items() if (section, name) not in wrong}

    goals = dataclasses.replace(
        goals, external=right("external", goals.external), baselines=right("baselines", goals.baselines),
        baseline_models=right("baselines", goals.baseline_models),
        baseline_functions=right("baselines", goals.baseline_functions),
    )  # fmt: skip
    return goals, problems, lines


def _usable(values: dict[str, Any], problems: Sequence[Problem]) -> dict[str, Any]:
    """The values without those parts that lack a value which must be there."""
    split, goal = values["data"]["split"], values["goal"]
    if split is not None and None in split.values():
        split = None
    audit = goal["audit"] if goal["audit"] is not None and goal["audit"]["text"] is not None else None
    external = {name: said for name, said in values["external"].items() if said["table"] is not None}
    usable = {**values, "data": {**values["data"], "split": split}, "external": external}
    defaults = read_values({})[0] if problems else values
    for section in ("model", "validation", "output", "card"):  # a section of another type has no values at all
        usable[section] = {
            key: defaults[section][key] if value is None else value for key, value in values[section].items()
        }
    return {**usable, "goal": {**goal, "audit": audit}}


def _records(path: Path, values: dict[str, Any], lines: TomlLines, folders: tuple[Path, ...]) -> GoalsFile:
    """Everything the file says; None in the place of a goal that is missing or wrong."""
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
            name: ExternalSection(table(said.get("table")), said.get("target"), said.get("separator"))
            for name, said in values["external"].items()
        },
        baseline_models={name: path.parent / said["model"] for name, said in baselines.items() if "model" in said},
        baseline_functions={name: said["function"] for name, said in baselines.items() if "function" in said},
        validation=ValidationSection(**values["validation"]),
        card={CARD_KEYS[key]: text for key, text in values["card"].items() if text is not None},
        allowed_folders=folders,
        lines=lines,
    )


def _kernel(model: dict[str, Any]) -> dict[str, Any]:
    """Take what is said about the kernel out of the values, as parameters of the estimator; empty for a linear one."""
    options = {"kernel": model.pop("kernel"), **{key: model.pop(key) for key in KERNEL_KEYS}}
    if options["kernel"] == LINEAR:
        return {}
    return {key: value for key, value in options.items() if value is not None}
