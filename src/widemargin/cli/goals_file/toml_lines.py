"""On which line of a TOML file a key stands, and each character of a text. `tomllib` gives values only.

The scanner reads what `tomllib` has accepted, and is never asked about anything else. Of a key that stands nowhere by
itself (a section that is implied, a missing key) the line is that of the nearest section around it.
"""

import bisect
import contextlib
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["Place", "TomlLines"]

Path = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"[ \t]*")
_BLANK_LINES = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_PLAIN = re.compile(r"[^,\]}\n#]*")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'")
_LONG = {
    '"""': re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL),
    "'''": re.compile(r"'''.*?'{3,5}", re.DOTALL),
}
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
        That `tomllib.loads` accepts.
    """

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self.keys: dict[Path, int] = {}
        self.values: dict[Path, int] = {}
        with contextlib.suppress(RecursionError):  # what is nested so deep has the line of its section
            for path, key, value in _Scanner(self.text).found():
                self.keys.setdefault(path, key)
                if value is not None:
                    self.values.setdefault(path, value)

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
        start = self.values.get(tuple(path))
        if start is None:
            return None
        characters = list(_characters(self.text, start))
        if "".join(character for character, _ in characters) != value or not characters:
            return None
        index = 0
        for _ in range(line - 1):
            index = value.find("\n", index) + 1
        index = min(index + column - 1, len(characters) - 1)
        return self._place(characters[index][1])

    def value_of(self, path: Sequence[str]) -> str | None:
        """The text that a key holds; None where it holds no text, or an empty one."""
        start = self.values.get(tuple(path))
        return None if start is None else "".join(character for character, _ in _characters(self.text, start)) or None

    def text_of_line(self, line: int) -> str:
        """A line of the file."""
        return self.text[self._starts[line - 1] :].partition("\n")[0]

    def _place(self, position: int) -> Place:
        line = bisect.bisect_right(self._starts, position)
        return Place(line, position - self._starts[line - 1] + 1)


class _Scanner:
    """Finds the keys; what is no TOML only makes it find fewer."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def found(self) -> Iterator[tuple[Path, int, int | None]]:
        """Path, position of the key, position of its value (None for the header of a section)."""
        section: Path = ()
        while True:
            self._skip(_BLANK_LINES)
            if self.at >= len(self.text):
                return
            start = self.at
            if self.text[start] == "[":
                self.at += 1 + self.text.startswith("[[", start)
                section = self._key()
                if section:
                    yield section, start, None
            else:
                yield from self._pair(section)
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _pair(self, section: Path) -> Iterator[tuple[Path, int, int | None]]:
        """A key and what its value holds; a dotted key opens the sections it names."""
        start, key = self.at, self._key()
        for end in range(1, len(key)):
            yield section + key[:end], start, None
        self._skip(_BLANK)
        if not key or not self.text.startswith("=", self.at):
            return
        self.at += 1
        self._skip(_BLANK)
        yield section + key, start, self.at
        yield from self._value(section + key)

    def _key(self) -> Path:
        """The parts of a dotted key."""
        parts: list[str] = []
        while True:
            self._skip(_BLANK)
            bare, quoted = _BARE.match(self.text, self.at), _QUOTED.match(self.text, self.at)
            match = bare or quoted
            if match is None:
                return tuple(parts)
            self.at = match.end()
            parts.append(match.group() if bare else _plain_key(match.group()))
            self._skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return tuple(parts)
            self.at += 1

    def _value(self, path: Path) -> Iterator[tuple[Path, int, int | None]]:
        first = self.text[self.at : self.at + 1]
        if first == "[":
            self.at += 1
            while not self._closed("]"):
                for _ in self._value(()):  # tables inside lists have no place of their own
                    continue
        elif first == "{":
            self.at += 1
            while not self._closed("}"):
                before = self.at
                yield from self._pair(path)
                self.at += self.at == before  # no TOML: go on behind it
        else:
            long = _LONG.get(self.text[self.at : self.at + 3])
            pattern = long or (_QUOTED if first in ('"', "'") else _PLAIN)
            match = pattern.match(self.text, self.at)
            self.at = match.end() if match else len(self.text)

    def _closed(self, bracket: str) -> bool:
        """Pass over blanks and one comma; whether the list or inline table ends here."""
        self._skip(_BLANK_LINES)
        if self.text.startswith(",", self.at):
            self.at += 1
            self._skip(_BLANK_LINES)
        ends = self.at >= len(self.text) or self.text[self.at] == bracket
        before = self.at
        self.at += ends
        if not ends and self.text[before] in "]},=":  # no TOML: go on behind it
            self.at += 1
        return ends

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at


def _plain_key(quoted: str) -> str:
    try:
        return next(iter(tomllib.loads(f"{quoted} = 0")))
    except tomllib.TOMLDecodeError:
        return quoted


def _characters(text: str, start: int) -> Iterator[tuple[str, int]]:
    """The characters of a text value and the position of each; nothing where no text stands."""
    quotes = next((mark for mark in ('"""', "'''", '"', "'") if text.startswith(mark, start)), "")
    pattern = _LONG.get(quotes, _QUOTED)
    match = pattern.match(text, start) if quotes else None
    if match is None:
        return
    at, end = start + len(quotes), match.end() - len(quotes)
    if len(quotes) == 3 and text.startswith("\n", at):
        at += 1
    while at < end:
        escape = _ESCAPE.match(text, at) if quotes[0] == '"' else None
        if escape is None:
            yield text[at], at
            at += 1
            continue
        if escape["short"]:
            yield _SHORT[escape["short"]], at
        elif escape["line"] is None:
            yield chr(int(escape["x"] or escape["u"] or escape["U"], 16)), at
        at = escape.end()
