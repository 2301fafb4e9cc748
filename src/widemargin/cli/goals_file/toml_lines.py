"""A TOML file with the line of each key, and of each character of a text, so that problems can be told by their place.

`tomllib` gives values only, so the text, which `tomllib` has accepted, is read once more, statement by statement. Of a
key that stands nowhere by itself (a section that is implied, a missing key) the line is that of the nearest section
around it.
"""

import bisect
import contextlib
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from widemargin._text import printable
from widemargin.exceptions import GoalsFileError

KeyPath: TypeAlias = tuple[str, ...]

MOST_TOLD = 100
"""Most problems that a message lists."""

_QUOTED = r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'"
_KEY = rf"(?:[A-Za-z0-9_-]+|{_QUOTED})"
_KEYS = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_STATEMENT = re.compile(rf"(?:[ \t\n]|#[^\n]*+)*+(?:(\[\[?[ \t]*(?P<header>{_KEYS}))|(?P<key>{_KEYS})[ \t]*=[ \t]*)")
_TEXTS = {
    '"""': re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL),
    "'''": re.compile(r"'''.*?'{3,5}", re.DOTALL),
    '"': re.compile(_QUOTED),
    "'": re.compile(_QUOTED),
}
"""How a text stands in the file, by its quotes."""
_ESCAPE = re.compile(r"\\(?:(?P<short>[btnfre\"\\])|x(?P<x>.{2})|u(?P<u>.{4})|U(?P<U>.{8})|(?P<line>[ \t]*\n[ \t\n]*))")
_SHORT = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}


class Place(NamedTuple):
    """A line and a column of a file, both from 1."""

    line: int
    column: int


class TomlLines:
    """Where the keys of a TOML text stand.

    Parameters
    ----------
    text : str
        That `tomllib.loads` accepts; what is no TOML only has fewer keys.
    """

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self.keys: dict[KeyPath, int] = {}
        self.values: dict[KeyPath, int] = {}
        with contextlib.suppress(RecursionError, tomllib.TOMLDecodeError):  # nested deep, or no TOML: no further keys
            self._read()

    def _read(self) -> None:
        # The text is valid TOML, so a regular expression finds where the next statement begins, and `tomllib` itself
        # reads its key and its value.
        section: KeyPath = ()
        at = 0
        while (match := _STATEMENT.match(self.text, at)) is not None:
            path = next(_paths(tomllib.loads(f"{match['header'] or match['key']} = 0"), leaves=True))
            if match["header"]:
                section = path
                self.keys.setdefault(section, match.start(1))
                at = match.end()
            else:
                for end in range(1, len(path) + 1):  # a dotted key opens the sections it names
                    self.keys.setdefault(section + path[:end], match.start("key"))
                self.values.setdefault(section + path, match.end())
                at, value = self._value(match.end())
                for inner in _paths(value):
                    self.keys.setdefault(section + path + inner, match.start("key"))
            at = self.text.find("\n", at)
            if at < 0:
                return

    def _value(self, start: int) -> tuple[int, object]:
        """Where a value ends, and the value, if it is no text of several lines."""
        text = _TEXTS.get(self.text[start : start + 3])
        if text is not None:
            match = text.match(self.text, start)
            return (match.end() if match else len(self.text)), None
        end = start
        # A list or an inline table may go on over several lines: one more line is tried until the value is complete.
        # Lists of more than a thousand lines are skipped; no keys are looked for behind them.
        for _ in range(1000):
            end = self.text.find("\n", end + 1)
            with contextlib.suppress(tomllib.TOMLDecodeError):
                value = tomllib.loads(f"x = {self.text[start : end if end >= 0 else None]}")["x"]
                return (end if end >= 0 else len(self.text)), value
            if end < 0:
                break
        return len(self.text), None

    def line(self, path: Sequence[str]) -> int | None:
        """Line of a key or section, or of the nearest section around it; None where none of them is in the text."""
        place = tuple(path)
        while place:
            if place in self.keys:
                return self._place(self.keys[place]).line
            place = place[:-1]
        return None

    def place_in(self, path: Sequence[str], value: str, line: int, column: int = 1) -> Place | None:
        """Where a character of a text value stands in the file.

        Parameters
        ----------
        path : sequence of str
            The key.
        value : str
            The text as `tomllib` gives it.
        line, column : int
            The character, both from 1.

        Returns
        -------
        Place or None
            None where the key is not in the text or holds another value.
        """
        characters = self._characters(path)
        if "".join(character for character, _ in characters) != value or not characters:
            return None
        index = sum(len(text) + 1 for text in value.split("\n")[: line - 1]) + column - 1
        return self._place(characters[min(index, len(characters) - 1)][1])

    def value_of(self, path: Sequence[str]) -> str:
        """The text that a key holds; empty where it holds none."""
        return "".join(character for character, _ in self._characters(path))

    def _characters(self, path: Sequence[str]) -> list[tuple[str, int]]:
        """The characters of the text that a key holds, and the position of each; none where it holds no text."""
        start = self.values.get(tuple(path), len(self.text))
        quotes = next((mark for mark in _TEXTS if self.text.startswith(mark, start)), "")
        match = _TEXTS[quotes].match(self.text, start) if quotes else None
        if match is None:
            return []
        characters = []
        at, end = start + len(quotes), match.end() - len(quotes)
        at += len(quotes) == 3 and self.text.startswith("\n", at)
        while at < end:
            escape = _ESCAPE.match(self.text, at) if quotes[0] == '"' else None
            if escape is None:
                characters.append((self.text[at], at))
            elif escape["short"]:
                characters.append((_SHORT[escape["short"]], at))
            elif escape["line"] is None:
                characters.append((chr(int(escape["x"] or escape["u"] or escape["U"], 16)), at))
            at = at + 1 if escape is None else escape.end()
        return characters

    def _place(self, position: int) -> Place:
        line = bisect.bisect_right(self._starts, position)
        return Place(line, position - self._starts[line - 1] + 1)


def _paths(value: object, leaves: bool = False) -> Iterator[KeyPath]:
    """The keys of a table and of the tables in it, or only those that hold no table."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if not (leaves and isinstance(inner, dict)):
            yield (key,)
        yield from ((key, *path) for path in _paths(inner, leaves))


def read_text(path: Path) -> tuple[dict[str, Any], TomlLines]:
    """The tables of a file, and where its keys stand.

    Raises
    ------
    GoalsFileError
        It cannot be read, or is no TOML.
    """
    most_bytes = 1 << 20  # far more than anybody writes by hand
    try:
        with path.open("rb") as file:
            raw = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise _whole(path, f"the file cannot be read ({why}). Check the path") from error
    if len(raw) > most_bytes:
        raise _whole(path, f"larger than {most_bytes} bytes. A goals file is a short text")
    try:
        text = raw.decode("utf-8-sig")
        return tomllib.loads(text), TomlLines(text)
    except UnicodeDecodeError as error:
        raise _whole(path, f"no UTF-8 text (byte {error.start}). Save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        place, line, cure, marked = re.search(r"\(at line (\d+), column (\d+)\)", str(error)), None, "", ""
        if place is not None:
            line, shown = int(place[1]), text.replace("\r\n", "\n").split("\n")[int(place[1]) - 1][:200]
            if "\\" in shown and '"' in shown:
                cure = "In double quotes a backslash begins an escape: write paths with / or in single quotes"
            marked = f"\n    {printable(shown.replace(chr(9), ' '))}\n    {' ' * (min(int(place[2]), 200) - 1)}^"
        raise _whole(path, f"no valid TOML: {error}. {cure or 'Correct that place'}{marked}", line) from error
    except RecursionError as error:
        raise _whole(path, "brackets are nested too deeply. A goals file needs two levels") from error
    except ValueError as error:  # a number of more digits than Python turns into an integer
        raise _whole(path, f"no valid TOML: {error}. Correct that value") from error


def _whole(path: Path, text: str, line: int | None = None) -> GoalsFileError:
    return GoalsFileError(f"{path}: {text}", [{"line": line, "key": "", "text": text}])


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

    def told(self, lines: TomlLines) -> str:
        """The problem with its line; where a text is wrong, that line of it and a mark below the place."""
        number = self.line(lines)
        told = ("" if number is None else f"line {number}: ") + (f"{self.key}: {self.text}" if self.key else self.text)
        place = None if self.at is None else lines.place_in(self.path, self.value, *self.at)
        if place is None:
            return told
        line = lines.text.split("\n")[place.line - 1]
        indent = len(line) - len(line.lstrip())
        marked = " " * (place.column - 1 - indent) + "^"
        return f"{told}\n    {printable(line.strip().replace(chr(9), ' '))}\n    {marked}"


def mention(text: str, name: str) -> tuple[int, int] | None:
    """Line and column of the first place where a text names something; None where it does not."""
    match = re.search(rf"(?<![\w\"']){re.escape(name)}(?!\w)|[\"']{re.escape(name)}[\"']", text)
    if match is None:
        return None
    start = match.start()
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)


def records(problems: Sequence[Problem], lines: TomlLines) -> list[dict[str, str | int | None]]:
    """Problems for --json."""
    return [{"line": problem.line(lines), "key": problem.key, "text": problem.text} for problem in problems]


def refusal(path: Path, problems: Sequence[Problem], lines: TomlLines) -> GoalsFileError:
    """The error that lists all problems, in the order of their lines."""
    ordered = sorted(problems, key=lambda problem: problem.line(lines) or 0)
    count = "1 problem" if len(ordered) == 1 else f"{len(ordered)} problems"
    told = [problem.told(lines).replace("\n", "\n  ") for problem in ordered[:MOST_TOLD]]
    told += [f"and {len(ordered) - MOST_TOLD} more"] * (len(ordered) > MOST_TOLD)
    return GoalsFileError(f"{path}: {count}\n" + "\n".join(f"  {text}" for text in told), records(ordered, lines))
