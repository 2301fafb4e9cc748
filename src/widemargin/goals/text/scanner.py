"""Splits the text of a goal into statements of known tokens, before Python's own parser sees any of it.

Only the tokens of the goal language pass (names, plain numbers, plain strings, a few operators), brackets must match,
and nothing may nest more than `LIMITS.depth` deep, counting brackets and runs of prefix operators. What passes can
therefore not make `ast.parse` slow, deep, or noisy.
"""

import keyword
import re
from dataclasses import dataclass
from typing import NamedTuple

from widemargin.exceptions import GoalParseError
from widemargin.goals.language.checks import LIMITS

__all__ = ["Statement", "Token", "excerpt", "statements"]

_ESCAPE = r"\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_TOKEN = re.compile(
    rf"""
      (?P<space>[ \t\f]+)
    | (?P<newline>\n)
    | (?P<comment>\#[^\n]*)
    | (?P<string>"(?:[^"\\\n]|{_ESCAPE})*"|'(?:[^'\\\n]|{_ESCAPE})*')
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    | (?P<name>[^\W\d]\w*)
    | (?P<operator><=|>=|==|!=|[-+*/<>=&|~().,:;\[\]])
    """,
    re.VERBOSE,
)
_KEYWORDS = {"and", "or", "not", "in", "True", "False", "None"}
_PREFIX = {"-", "+", "~", "not"}
_CLOSES = {")": "(", "]": "["}


class Token(NamedTuple):
    """A piece of the text: kind (string, number, name, operator), its characters, and where it starts."""

    kind: str
    text: str
    start: int

    @property
    def stop(self) -> int:
        """Position after its last character."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Statement:
    """One statement: its tokens, its source from the first to the last of them, and its line and column (from 1)."""

    tokens: tuple[Token, ...]
    text: str
    line: int
    column: int = 1

    def after(self, count: int) -> str:
        """Source after the first `count` tokens."""
        return self.text[self.tokens[count - 1].stop - self.tokens[0].start :] if count else self.text

    def error(self, message: str, at: int | None = None) -> GoalParseError:
        """The documented error, with line and statement; `at` is the place of the cause in `text`, if it is known."""
        line, column = self.place(self._named_in(message) if at is None else at)
        message_with_line = f"line {self.line}: {excerpt(self.text)}: {message}"
        return GoalParseError(message_with_line, line=line, column=column, reason=message)

    def place(self, at: int) -> tuple[int, int]:
        """Line and column of a place in `text`."""
        above = self.text.count("\n", 0, at)
        return self.line + above, at - self.text.rfind("\n", 0, at) if above else self.column + at

    def _named_in(self, message: str) -> int:
        """Place of the first token that a message puts between quotes; 0 if it names none."""
        start = self.tokens[0].start
        for token in self.tokens:
            bare = token.text[1:-1] if token.kind == "string" else token.text
            if token.kind in ("name", "string") and (f"'{bare}'" in message or f'"{bare}"' in message):
                return token.start - start
        return 0


def excerpt(text: str) -> str:
    """A text on one line, shortened and safe to print."""
    flat = " ".join(text.split())
    short = flat if len(flat) <= 120 else flat[:117] + "..."
    return repr(short)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.found: list[Statement] = []
        self.open: list[tuple[str, int, int]] = []  # brackets: character, depth inside, position
        self.depth = 0  # brackets and prefix operators around the next token

    def run(self) -> list[Statement]:
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self.error(position, self._unknown(position))
            kind = match.lastgroup or ""
            if kind in ("comment", "string") and not match.group().replace("\t", " ").isprintable():
                raise self.error(
                    position, "there is a character that cannot be seen; in a string write \\xhh or \\uhhhh."
                )
            if kind == "newline" or match.group() == ";":
                self._end(match.group(), position)
            elif kind not in ("space", "comment"):
                self._take(Token(kind, match.group(), position))
            position = match.end()
        if self.open:
            raise self.error(self.open[-1][2], f"the bracket {self.open[-1][0]!r} is never closed.")
        self._finish()
        return self.found

    def _unknown(self, position: int) -> str:
        character = self.text[position]
        if character in "\"'":
            return (
                'this string is never closed on its line, or has an escape other than \\\\ \\" \\n \\t \\xhh \\uhhhh.'
            )
        if character in "0123456789.":
            return "this is no plain decimal number."
        if character == "%":
            return "unexpected character '%'. Write shares as numbers: 0.6 for 60%."
        return f"unexpected character {character!a}."

    def _end(self, text: str, position: int) -> None:
        if not self.open:
            self._finish()
        elif text == ";":
            raise self.error(self.open[-1][2], f"';' inside brackets; {self.open[-1][0]!r} is not closed.")

    def _finish(self) -> None:
        if self.tokens:
            first, last = self.tokens[0], self.tokens[-1]
            text, line = self.text[first.start : last.stop], self._line(first.start)
            column = first.start - self.text.rfind("\n", 0, first.start)
            self.found.append(Statement(tuple(self.tokens), text, line, column))
        self.tokens = []
        self.depth = 0

    def _take(self, token: Token) -> None:
        before = self.tokens[-1] if self.tokens else None
        joined = before is not None and before.stop == token.start
        if token.kind == "name":
            self._check_word(token)
        elif token.kind == "string" and before is not None and _prefixed(before, token):
            raise self.error(token.start, "prefixed and joined strings are not part of the goal language.")
        elif token.kind == "number" and len(token.text) > LIMITS.digits:
            raise self.error(token.start, f"a number of {len(token.text)} characters (at most {LIMITS.digits}).")
        elif joined and before is not None and before.text + token.text in ("**", "//", "<<", ">>", "<>", ":="):
            raise self.error(before.start, f"{before.text + token.text} is not part of the goal language.")
        self._nest(token, before)
        self.tokens.append(token)

    def _check_word(self, token: Token) -> None:
        if keyword.iskeyword(token.text) and token.text not in _KEYWORDS:
            raise self.error(token.start, f"{token.text!r} is not part of the goal language.")

    def _nest(self, token: Token, before: Token | None) -> None:
        if token.text in ("(", "["):
            self.depth += 1
            self.open.append((token.text, self.depth, token.start))
        elif token.text in _CLOSES:
            if not self.open or self.open[-1][0] != _CLOSES[token.text]:
                raise self.error(token.start, f"{token.text!r} closes nothing.{self._still_open()}")
            self.open.pop()
            self.depth = self._outside()
        elif token.text in _PREFIX and _expects_operand(before):
            self.depth += 1
        elif token.kind == "operator" or token.text in ("and", "or", "in"):
            self.depth = self._outside()  # a binary operator ends the run of prefix operators
        if self.depth > LIMITS.depth:
            raise self.error(token.start, f"nested more than {LIMITS.depth} deep.")

    def _still_open(self) -> str:
        """Where the innermost open bracket is, for a message."""
        if not self.open:
            return ""
        return f" The bracket {self.open[-1][0]!r} of line {self._line(self.open[-1][2])} is open."

    def _outside(self) -> int:
        """Depth inside the innermost open bracket, where a new operand starts."""
        return self.open[-1][1] if self.open else 0

    def _line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def error(self, position: int, message: str) -> GoalParseError:
        start = self.text.rfind("\n", 0, position) + 1
        stop = self.text.find("\n", position)
        line = self.text[start : len(self.text) if stop < 0 else stop]
        number = self._line(position)
        told = f"line {number}: {excerpt(line)}: {message}"
        return GoalParseError(told, line=number, column=position - start + 1, reason=message)


def _prefixed(before: Token, token: Token) -> bool:
    """Whether a string has a prefix (f"...") or another string before it, which Python would join."""
    return before.kind == "string" or (before.kind == "name" and before.stop == token.start)


def _expects_operand(before: Token | None) -> bool:
    """Whether the next token starts an operand, so that - + ~ and not are prefixes there."""
    if before is None:
        return True
    if before.kind == "name":
        return before.text in ("and", "or", "not", "in")
    return before.kind == "operator" and before.text not in (")", "]")


def statements(text: str, max_characters: int = LIMITS.characters) -> list[Statement]:
    """The statements of a text.

    Raises
    ------
    GoalParseError
        If the text is too long, nests too deep, or holds anything that is not part of the language.
    """
    if not isinstance(text, str):
        raise GoalParseError(f"a goal is parsed from a text (str), got {type(text).__name__}.")
    if len(text) > max_characters:
        raise GoalParseError(f"the text has {len(text)} characters, at most {max_characters} are read.")
    return _Scanner(text.replace("\r\n", "\n").replace("\r", "\n")).run()
