"""A TOML text read by the table of keys: checked values, and everything that is wrong with its line and a cure."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from widemargin._text import printable
from widemargin.cli.goals_file.goal_text import goal_faults
from widemargin.cli.goals_file.keys import GOALS_FILE, REQUIRED, Key, Named, Part, Section
from widemargin.cli.goals_file.kinds import shown
from widemargin.cli.goals_file.toml_lines import TomlLines
from widemargin.exceptions import GoalError, GoalParseError, GoalsFileError
from widemargin.goals.language.checks import checked_name

__all__ = ["Problem", "mention", "read_text", "read_values", "refusal"]

_MAX_BYTES = 1 << 20
_MOST_TOLD = 100
_SLASH = "In double quotes a backslash begins an escape: write paths with / or in single quotes"
_TOML_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")


class Problem(NamedTuple):
    """Something that is wrong.

    Attributes
    ----------
    path : tuple of str
        The key or section; empty for the whole file.
    text : str
        The fact and the cure.
    at : (line, column) or None
        Within the text that the key holds, both from 1.
    value : str
        That text.
    """

    path: tuple[str, ...]
    text: str
    at: tuple[int, int] | None = None
    value: str = ""

    @property
    def key(self) -> str:
        """The key as the file would dot it."""
        return ".".join(self.path)

    def line(self, lines: TomlLines) -> int | None:
        """Its line in the file."""
        place = None if self.at is None else lines.place_in(self.path, self.value, *self.at)
        return lines.line(self.path) if place is None else place.line

    def told(self, lines: TomlLines | None) -> str:
        """The problem with its line; where a text is wrong, that line of it and a mark below the place."""
        number = None if lines is None else self.line(lines)
        head = "" if number is None else f"line {number}: "
        told = head + (f"{self.key}: {self.text}" if self.key else self.text)
        place = None if self.at is None or lines is None else lines.place_in(self.path, self.value, *self.at)
        if place is None or lines is None:
            return told
        line = lines.text_of_line(place.line)
        indent = len(line) - len(line.lstrip())
        marked = " " * (place.column - 1 - indent) + "^"
        return f"{told}\n    {printable(line.strip().replace(chr(9), ' '))}\n    {marked}"


def mention(text: str, name: str) -> tuple[int, int] | None:
    """Line and column of the first place where a text names something; None where it does not."""
    found = re.search(rf"(?<![\w\"']){re.escape(name)}(?!\w)|[\"']{re.escape(name)}[\"']", text)
    if found is None:
        return None
    start = found.start()
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)


def refusal(path: Path, problems: Iterable[Problem], lines: TomlLines | None) -> GoalsFileError:
    """The error that lists all problems, in the order of their lines."""
    found = list(problems)
    if lines is not None:
        found.sort(key=lambda problem: problem.line(lines) or 0)
    count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
    told = [problem.told(lines).replace("\n", "\n  ") for problem in found[:_MOST_TOLD]]
    told += [f"and {len(found) - _MOST_TOLD} more"] * (len(found) > _MOST_TOLD)
    records = [
        {"line": None if lines is None else problem.line(lines), "key": problem.key, "text": problem.text}
        for problem in found
    ]
    return GoalsFileError(f"{path}: {count}\n" + "\n".join(f"  {text}" for text in told), records)


def read_text(path: Path) -> tuple[dict[str, Any], TomlLines]:
    """The tables of a file, and where its keys stand.

    Raises
    ------
    GoalsFileError
        It cannot be read, or is no TOML.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise _whole(path, f"the file cannot be read ({why}). Check the path") from error
    if len(raw) > _MAX_BYTES:
        raise _whole(path, f"larger than {_MAX_BYTES} bytes. A goals file is a short text")
    try:
        text = raw.decode("utf-8-sig")
        return tomllib.loads(text), TomlLines(text)
    except UnicodeDecodeError as error:
        raise _whole(path, f"no UTF-8 text (byte {error.start}). Save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        line = int(place[1]) if place else None
        shows = "" if place is None else _shown_place(text, int(place[1]), int(place[2]))
        cure = _SLASH if "\\" in shows and '"' in shows else "Correct that place"
        raise _whole(path, f"no valid TOML: {error}. {cure}{shows}", line) from error
    except RecursionError as error:
        raise _whole(path, "brackets are nested too deeply. A goals file needs two levels") from error
    except ValueError as error:  # a number of more digits than Python turns into an integer
        raise _whole(path, f"no valid TOML: {error}. Correct that value") from error


def _whole(path: Path, text: str, line: int | None = None) -> GoalsFileError:
    return GoalsFileError(f"{path}: {text}", [{"line": line, "key": "", "text": text}])


def _shown_place(text: str, line: int, column: int) -> str:
    found = text.replace("\r\n", "\n").split("\n")[line - 1][:200]
    return f"\n    {printable(found.replace(chr(9), ' '))}\n    {' ' * (min(column, 200) - 1)}^"


def read_values(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The value of every key, and what is wrong; None stands where a value that must be there is missing or wrong.

    A wrong value of any other key gives its default. An optional section that is not there is None or full of defaults,
    as the table of keys says.
    """
    problems: list[Problem] = []
    return _section(GOALS_FILE, table, (), problems), problems


def _section(spec: Section, table: Mapping[str, Any], path: tuple[str, ...], problems: list[Problem]) -> dict[str, Any]:
    unknown = [key for key in table if key not in spec.parts]
    told = unknown[:_MOST_TOLD]
    problems += [Problem((*path, key), f"unknown key. {_nearest(key, spec.parts)}") for key in told]
    if spec.exactly_one and len(table) != 1:
        listed = ", ".join(spec.parts)
        got = ", ".join(table) if table else "none"
        problems.append(Problem(path, f"needs exactly one of {listed}; got {got}. Keep one"))
        return dict.fromkeys(spec.parts)
    values = {}
    for name, part in spec.parts.items():
        optional = spec.exactly_one and isinstance(part, Key) and name not in table
        values[name] = None if optional else _part(part, table.get(name), (*path, name), problems)
    return values


def _part(part: Part, value: Any, path: tuple[str, ...], problems: list[Problem]) -> Any:
    if isinstance(part, Key):
        return _value(part, value, path, problems)
    if value is not None and not isinstance(value, dict):
        problems.append(Problem(path, f"must be a section, [{'.'.join(path)}]; got {shown(value)}"))
        return {} if isinstance(part, Named) else dict.fromkeys(part.parts)
    if isinstance(part, Named):
        return _named(part, value or {}, path, problems)
    if value is None and part.absent == "refused":
        problems.append(Problem((), f"[{'.'.join(path)}]: the section is missing. Add it"))
        return dict.fromkeys(part.parts)
    if value is None and part.absent == "none":
        return None
    return _section(part, value or {}, path, problems)


def _named(part: Named, table: Mapping[str, Any], path: tuple[str, ...], problems: list[Problem]) -> dict[str, Any]:
    found = {}
    for name, inner in table.items():
        try:
            checked_name(name, "a name")
        except GoalError as error:
            problems.append(Problem((*path, name), str(error)))
        found[name] = _part(part.each, inner, (*path, name), problems)
    return found


def _value(key: Key, value: Any, path: tuple[str, ...], problems: list[Problem]) -> Any:
    if value is None:
        if key.default is REQUIRED:
            problems.append(Problem(path, "missing. Add it"))
            return None
        return key.default
    try:
        return key.kind.check(value)
    except GoalParseError as error:
        for fault in goal_faults(value, error):
            at = None if fault.line is None else (fault.line, fault.column or 1)
            problems.append(Problem(path, f"no valid goal: {fault.reason}", at, value))
    except (ValueError, TypeError) as error:
        problems.append(Problem(path, str(error)))
    return None if key.default is REQUIRED else key.default


def _nearest(key: str, known: Iterable[str]) -> str:
    alike = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower(), alike, 1)
    return f"Is it {alike[near[0]]!r}?" if near else f"Known here: {', '.join(alike.values())}"
