"""How names, literals and numbers are written in the text of a goal.

The objects print themselves with these helpers, and the parser reads exactly what they write, so that
`Goal.parse(str(goal)) == goal`.
"""

import keyword
import re
import unicodedata
from collections.abc import Iterable

from widemargin.goals.language.checks import ColumnName, Literal

__all__ = [
    "RESERVED",
    "column_text",
    "interval_text",
    "is_plain_name",
    "list_text",
    "literal_text",
    "name_text",
    "normal_name",
    "number_text",
    "quoted",
]

RESERVED = frozenset({"minimize", "minimise", "subject", "to", "min_rows", "on_small", "col", "population", "external"})
"""Words of the grammar; a population or a label of that name is written in quotes."""

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str, mark: str = '"') -> str:
    """`text` as a literal in quotes (double ones) on one line; what cannot be printed is escaped."""
    return mark + "".join(f"\\{mark}" if character == mark else _escaped(character) for character in text) + mark


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def is_plain_name(name: str) -> bool:
    """Whether the parser reads `name` without quotes: an identifier in the form Python itself would store."""
    one_token = re.fullmatch(r"[^\W\d]\w*", name) is not None  # narrower than isidentifier: the middle dot is no \w
    return one_token and name.isidentifier() and not keyword.iskeyword(name) and normal_name(name) == name


def normal_name(name: str) -> str:
    """An identifier as Python's parser stores it."""
    return unicodedata.normalize("NFKC", name)


def name_text(name: str) -> str:
    """A population's name or a label: plain where possible, else in quotes."""
    return name if is_plain_name(name) and name not in RESERVED else quoted(name)


def column_text(column: ColumnName) -> str:
    """A column: its plain name, `col("any name")` or `col(0)`."""
    if isinstance(column, int):
        return f"col({column})"
    return column if is_plain_name(column) else f"col({quoted(column)})"


def literal_text(value: Literal) -> str:
    """A string in double quotes; numbers and booleans by their exact `repr`."""
    return quoted(value) if isinstance(value, str) else repr(value)


def list_text(values: Iterable[Literal]) -> str:
    """Literals in square brackets."""
    return "[" + ", ".join(map(literal_text, values)) + "]"


def number_text(value: float) -> str:
    """The shortest text that reads back as the same float (`1` for 1.0)."""
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text


def interval_text(low: float, high: float) -> str:
    """An attainable range, `[0, 1]` or `[0, inf)`."""
    left = "(-inf" if low == -float("inf") else "[" + _rounded(low)
    right = "inf)" if high == float("inf") else _rounded(high) + "]"
    return f"{left}, {right}"


def _rounded(value: float) -> str:
    return number_text(float(f"{value:.6g}"))
