"""Kinds of values in a goals file: how each is checked, and how JSON Schema says the same."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from widemargin.exceptions import GoalError, GoalParseError
from widemargin.goals import Goal

__all__ = [
    "BINS", "CONFIDENCE", "COUNT", "FILE", "FLAG", "FOLDS", "FRACTION", "FUNCTION", "GAMMA", "GOAL", "LABEL", "NUMBER",
    "POSITIVE", "SEPARATOR", "TABLE", "TEXT", "TEXTS", "Kind", "one_of", "shown",
]  # fmt: skip


class Kind(NamedTuple):
    """A kind of value.

    Attributes
    ----------
    check : callable
        Gives the value in the form that is stored; raises ValueError with what it must be and what was got.
    schema : mapping
        JSON Schema of it.
    """

    check: Callable[[Any], Any]
    schema: Mapping[str, Any]


SEPARATORS_REFUSED = '\r\n"\0'


def shown(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a text between quotes; got {shown(value)}")
    return value


def _file(value: Any) -> str:
    if not _text(value).isprintable():
        raise ValueError(f"must be a file name without control characters; got {shown(value)}")
    return str(value)


def _separator(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value in SEPARATORS_REFUSED:
        raise ValueError(f'must be one character, such as ";" or "\\t"; got {shown(value)}')
    return value


def _table(value: Any) -> str | tuple[str, ...]:
    if not isinstance(value, list):
        return _file(value)
    if not value:
        raise ValueError("must name at least one file; got []")
    return tuple(_file(item) for item in value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f'must be a list of column names, such as ["sex"]; got {shown(value)}')
    if len(set(value)) < len(value):
        raise ValueError(f"names a column twice: {shown(value)}. Name each once")
    return tuple(value)


def _label(value: Any) -> Any:
    if not isinstance(value, str | int | float | bool):
        raise ValueError(f"must be one value of the column; got {shown(value)}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false; got {shown(value)}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _positive(value: Any) -> float:
    if not _is_number(value) or not 0 < value < float("inf"):
        raise ValueError(f"must be a number above 0; got {shown(value)}")
    return _as_float(value)


def _number(value: Any) -> float:
    if not _is_number(value) or not abs(value) < float("inf"):
        raise ValueError(f"must be a number; got {shown(value)}")
    return _as_float(value)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"must be a number below 1e308; got {shown(value)}") from None


def _between(low: float, high: float, *, with_low: bool) -> Callable[[Any], float]:
    said = f"must be a number {'from' if with_low else 'above'} {low:g} and below {high:g}"

    def check(value: Any) -> float:
        if not _is_number(value) or not (low <= value < high if with_low else low < value < high):
            raise ValueError(f"{said}; got {shown(value)}")
        return float(value)

    return check


def _whole(low: int, high: int | None = None) -> Callable[[Any], int]:
    said = "above 0" if (low, high) == (1, None) else f"from {low} to {high}"

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
            raise ValueError(f"must be a whole number {said}; got {shown(value)}")
        return value

    return check


def _gamma(value: Any) -> float | str:
    if value in ("scale", "auto"):
        return str(value)
    try:
        return _positive(value)
    except ValueError:
        raise ValueError(f"must be 'scale', 'auto' or a number above 0; got {shown(value)}") from None


def _goal(value: Any) -> Goal:
    try:
        return Goal.parse(_text(value))
    except GoalParseError:
        raise
    except GoalError as error:
        raise ValueError(f"no valid goal: {error}") from error


_FUNCTION_FORM = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"


def _function(value: Any) -> str:
    if re.fullmatch(_FUNCTION_FORM, _text(value), re.ASCII) is None:
        raise ValueError(f'must be of the form "module:function"; got {shown(value)}')
    return str(value)


def one_of(*options: str) -> Kind:
    """One of a few words."""

    def check(value: Any) -> str:
        if value not in options:
            raise ValueError(f"must be one of {', '.join(map(repr, options))}; got {shown(value)}")
        return str(value)

    return Kind(check, {"enum": list(options)})


_SOME_TEXT = {"type": "string", "minLength": 1}
_ABOVE_0 = {"type": "number", "exclusiveMinimum": 0}

TEXT = Kind(_text, _SOME_TEXT)
FILE = Kind(_file, _SOME_TEXT)
SEPARATOR = Kind(_separator, {"type": "string", "pattern": "^[\\x01-\\x09\\x0b\\x0c\\x0e-!#-\\x7f]$"})
TABLE = Kind(_table, {"anyOf": [_SOME_TEXT, {"type": "array", "items": _SOME_TEXT, "minItems": 1}]})
TEXTS = Kind(_texts, {"type": "array", "items": {"type": "string"}, "uniqueItems": True})  # an index has the name ""
LABEL = Kind(_label, {"type": ["string", "number", "boolean"]})
FLAG = Kind(_flag, {"type": "boolean"})
POSITIVE = Kind(_positive, _ABOVE_0)
NUMBER = Kind(_number, {"type": "number"})
COUNT = Kind(_whole(1), {"type": "integer", "minimum": 1})
BINS = Kind(_whole(2, 1000), {"type": "integer", "minimum": 2, "maximum": 1000})
FOLDS = Kind(_whole(2, 100), {"type": "integer", "minimum": 2, "maximum": 100})
FRACTION = Kind(_between(0.0, 1.0, with_low=False), {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})
CONFIDENCE = Kind(_between(0.5, 1.0, with_low=True), {"type": "number", "minimum": 0.5, "exclusiveMaximum": 1})
GAMMA = Kind(_gamma, {"anyOf": [{"enum": ["scale", "auto"]}, _ABOVE_0]})
GOAL = Kind(_goal, _SOME_TEXT)
FUNCTION = Kind(_function, {"type": "string", "pattern": f"^{_FUNCTION_FORM.replace(chr(92) + 'w', '[A-Za-z0-9_]')}$"})
