"""A goals file read into checked, frozen records. Every problem is named by its line and key, all of them at once.

`keys.py` lists the sections and keys. Unknown keys are refused, with the nearest known one. Paths are relative to the
file. A goals file runs nothing: baselines that are functions are refused unless the command line allows code, and what
it reads beside the main table, or writes, has to lie within its own folder or in one that the command line allows.
"""

import argparse
import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from widemargin.cli.goals_file.keys import GoalsFile, Inner, Key, entries, shown
from widemargin.cli.goals_file.rules import contradictions, refuse_to_replace
from widemargin.cli.goals_file.toml_lines import MOST_TOLD, Problem, TomlLines, read_text, refusal
from widemargin.exceptions import DataError, GoalError, GoalParseError
from widemargin.goals import Goal
from widemargin.goals.language.values import checked_name
from widemargin.goals.text.parser import statements


def goals_of(options: argparse.Namespace) -> GoalsFile:
    """The goals file of a command, with what its options allow; see `read_goals_file` and `refuse_to_replace`.

    Where a command reads a model and none is given, `options.model` becomes that of the file.

    Raises
    ------
    GoalsFileError
        As `read_goals_file`.
    DataError
        As `refuse_to_replace`, or no model is named, or the one of the file is not there.
    """
    allow_code, outside = getattr(options, "allow_code", False), getattr(options, "allow_outside", None)
    goals = read_goals_file(options.goals, allow_code=allow_code, allow_outside=outside or ())
    separator = getattr(options, "separator", None)
    if separator is not None:
        goals = dataclasses.replace(goals, data=dataclasses.replace(goals.data, separator=separator))
    given = vars(options)
    if given["command"] != "train" and given.get("model", "") is None and given.get("predictions") is None:
        if goals.outputs.model is None:
            raise DataError("no model is named. Give --model FILE, or name it by [output] model of the goals file")
        options.model = goals.outputs.model
        if not options.model.exists():
            cure = f"Make it by `widemargin train {options.goals}`, or give --model FILE"
            raise DataError(f"{options.model}: there is no model yet. {cure}")
    refuse_to_replace(options, goals)
    return goals


def read_goals_file(path: Path, *, allow_code: bool = False, allow_outside: Sequence[Path] = ()) -> GoalsFile:
    """Read and check a goals file.

    Parameters
    ----------
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
    """The content of a goals file as far as it can be used, and everything that is wrong in it.

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
    goals, problems = read_values(tables, path.parent)
    if goals.data is None or None in (goals.data.table, goals.data.target):
        return None, problems, lines
    goals = dataclasses.replace(goals, path=path, lines=lines, allowed_folders=(path.parent, *allow_outside))
    problems += contradictions(goals, tables, {problem.path[0] for problem in problems if problem.path}, allow_code)
    wrong = {problem.path[:2] for problem in problems}
    external = {name: value for name, value in goals.external.items() if ("external", name) not in wrong}
    earlier = {name: value for name, value in goals.earlier.items() if ("baselines", name) not in wrong}
    return dataclasses.replace(goals, external=external, earlier=earlier), problems, lines


def read_values(table: Mapping[str, Any], folder: Path = Path()) -> tuple[GoalsFile, list[Problem]]:
    """The records of a file's sections, and what is wrong.

    None stands where a value that must be there is missing or wrong, and the default in the place of any other wrong
    value. Sections that cannot be used without such a value are left out.
    """
    reader = _Reader(folder, [])
    return GoalsFile(path=folder, **reader.values(Inner(GoalsFile), table, ())), reader.problems


class _Reader(NamedTuple):
    """Reads sections into their records, and notes what is wrong; files lie relative to a folder."""

    folder: Path
    problems: list[Problem]

    def values(self, section: Inner, table: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        """The values of a section, by the fields of its record."""
        parts = {entry.name: entry for entry in entries(section.record)}
        for name in [name for name in table if name not in parts][:MOST_TOLD]:
            alike = {part.lower(): part for part in parts}
            near = difflib.get_close_matches(name.lower(), alike, 1)
            cure = f"Is it {alike[near[0]]!r}?" if near else f"Known here: {', '.join(parts)}"
            self.problems.append(Problem((*path, name), f"unknown key. {cure}"))
        if section.exactly_one and len(table) != 1:
            got = ", ".join(table) if table else "none"
            self.problems.append(Problem(path, f"needs exactly one of {', '.join(parts)}; got {got}. Keep one"))
            return {}
        return {
            entry.field: self.section(entry.part, table.get(name), (*path, name))
            if isinstance(entry.part, Inner)
            else self.key(entry.part, entry.default, table.get(name), (*path, name))
            for name, entry in parts.items()
        }

    def section(self, section: Inner, value: object, path: tuple[str, ...]) -> object:
        """The record of a section, or the records that it holds by name; None where it is not there or of no use."""
        table: dict[str, Any] = value if isinstance(value, dict) else {}
        if section.named and (value is None or table is value):
            each, by_name = section._replace(named="", absent="none"), {}
            for name, inner in table.items():
                try:
                    checked_name(name, "a name")
                except GoalError as error:
                    self.problems.append(Problem((*path, name), str(error)))
                by_name[name] = self.section(each, inner, (*path, name))
            return {name: record for name, record in by_name.items() if record is not None}
        if value is None and section.absent == "none":
            return None
        values: dict[str, Any] = {}
        if value is None and section.absent == "refused":
            self.problems.append(Problem((), f"[{'.'.join(path)}]: the section is missing. Add it"))
        elif value is not None and table is not value:
            self.problems.append(Problem(path, f"must be a section, [{'.'.join(path)}]; got {shown(value)}"))
            if section.named:
                return {}
        else:
            values = self.values(section, table, path)
        # None stands for what must be there and is not; a section that may be absent is of no use without it.
        lacking = [entry.field for entry in entries(section.record)
                   if isinstance(entry.part, Key) and entry.is_needed and values.get(entry.field) is None]  # fmt: skip
        return None if lacking and section.absent == "none" else section.record(**{**dict.fromkeys(lacking), **values})

    def key(self, key: Key, default: object, value: Any, path: tuple[str, ...]) -> object:
        """The value of a key as it is stored; its default where it is not there, or wrong."""
        if value is None and default is dataclasses.MISSING:
            self.problems.append(Problem(path, "missing. Add it"))
        default = None if default is dataclasses.MISSING else default
        if value is None:
            return default
        try:
            checked = key.kind.check(value)
        except GoalParseError as error:
            for fault in _goal_faults(value, error):
                at = None if fault.line is None else (fault.line, fault.column or 1)
                again = path[-2:] == ("audit", "text") and "unknown population" in fault.reason
                reason = f"{fault.reason} What goal.text defines has to be repeated here." if again else fault.reason
                self.problems.append(Problem(path, f"no valid goal: {reason}", at, value))
            return default
        except (ValueError, TypeError) as error:
            self.problems.append(Problem(path, str(error)))
            return default
        if not key.kind.is_path:
            return checked
        return tuple(self.folder / name for name in checked) if isinstance(checked, tuple) else self.folder / checked


def _goal_faults(text: str, first: GoalParseError, most: int = 20) -> list[GoalParseError]:
    """The fault that the parser found, and those that it finds once each faulty statement is left out.

    Parameters
    ----------
    first : GoalParseError
        What `Goal.parse(text)` raised.
    most : int, default=20
        Faults that are looked for: nobody corrects more at a time.

    Returns
    -------
    list of GoalParseError
        Without faults that only follow from another one, such as the use of a population whose definition is faulty.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    # The parser stops at its first fault. Emptied lines keep the line numbers of those behind them.
    faults, lost, error = [first], set[str](), first
    for _ in range(most):
        if error.line is None:
            break
        # The first and the last line of each statement that touches the faulty one.
        try:
            ends = [(item.line, item.line + item.text.count("\n")) for item in statements("\n".join(lines))]
            touching = [place for place in ends if place[0] <= error.line <= place[1]]
        except GoalParseError:  # no statements yet: this line alone, if it holds what it opens
            text = lines[error.line - 1]
            balanced = all(text.count(one) == text.count(other) for one, other in ("()", "[]"))
            touching = [(error.line, error.line)] if balanced and text.strip() else []
        if not touching:
            break
        start, end = min(start for start, _ in touching), max(end for _, end in touching)
        defined = re.match(r"\s*[\"']?(\w+)[\"']?\s*=(?!=)", lines[start - 1])
        lost |= {defined[1]} if defined else set()
        lines[start - 1 : end] = [""] * (end - start + 1)
        try:
            Goal.parse("\n".join(lines))
            break
        except GoalParseError as further:
            error = further
        if error.line is not None and not any(f"'{name}'" in error.reason for name in lost):
            faults.append(error)
    return faults
