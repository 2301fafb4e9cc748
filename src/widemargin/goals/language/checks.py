"""Checks of the small values that goals are made of: names, columns, literals, numbers, options.

Each returns the value in its one stored form (Python scalars, never NumPy's), so that equality, hashing and the text
form depend on nothing else. Each refuses with a `GoalError` that names what was given.
"""

import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import numpy as np

from widemargin.exceptions import GoalError

__all__ = [
    "LIMITS",
    "ColumnName",
    "Literal",
    "TextLimits",
    "checked_column",
    "checked_literal",
    "checked_literals",
    "checked_min_rows",
    "checked_name",
    "checked_number",
    "checked_on_small",
    "shown",
    "typed",
]

ColumnName: TypeAlias = str | int
Literal: TypeAlias = str | int | float | bool


@dataclass(frozen=True)
class TextLimits:
    """How large goals and their texts may be: each keeps a hostile or mistaken text from costing time or memory.

    Attributes
    ----------
    characters : int
        Of a text; it bounds the time of reading one. A goal of ten constraints has about a thousand.
    depth : int
        Brackets and prefix operators inside each other. Python's own parser recurses, and stays far from its limit.
    digits : int
        Characters of a number. 17 digits say all of a double; longer ones are a mistake, or take quadratic time.
    name : int
        Characters of a name. Longer ones fit into no line of a report.
    integer : int
        Largest integer that a column is compared with; tables hold 64-bit integers.
    nesting : int
        And / or / not inside each other; with brackets around each it prints within `depth`.
    bundle : int
        Constraints that one bundle may expand to: all pairs of 32 groups. More are a column of too many values.
    baselines : int
        Baselines in one sum up to which its range is exact. The cells double with each; beyond, terms are added up
        as intervals, which are wider.
    """

    characters: int = 10_000
    depth: int = 100
    digits: int = 60
    name: int = 200
    integer: int = 2**63 - 1
    nesting: int = 40
    bundle: int = 1000
    baselines: int = 6


LIMITS = TextLimits()


def shown(value: object) -> str:
    """Short `repr` of anything, for messages; never fails and never runs long."""
    try:
        text = repr(value)
    except Exception:  # a foreign object whose repr is broken must not hide our message
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def checked_name(value: object, what: str) -> str:
    """A name of a population, baseline, source or label: a printable, non-blank string of at most 200 characters."""
    if not isinstance(value, str):
        raise GoalError(f"{what} must be a string, got {shown(value)} ({type(value).__name__}).")
    name = str(value)
    if not name.strip() or len(name) > LIMITS.name or not name.isprintable():
        raise GoalError(
            f"{what} must have 1 to {LIMITS.name} printable characters and not be blank, "
            f"got {shown(name)} ({len(name)})."
        )
    return name


def _is_integer(value: object) -> TypeGuard[int]:
    """Python or NumPy integer; a boolean is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def checked_column(value: object) -> ColumnName:
    """A column: its name (any non-empty string), or its position in a 2-D array (an integer >= 0)."""
    if isinstance(value, str):
        if not value:
            raise GoalError("a column name must not be empty.")
        return str(value)
    if _is_integer(value) and 0 <= int(value) <= LIMITS.integer:
        return int(value)
    raise GoalError(
        f"a column is a name (string) or a position (integer >= 0), got {shown(value)} ({type(value).__name__})."
    )


def checked_literal(value: object) -> Literal:
    """A value that a column is compared with: a string, a 64-bit integer, a finite float or a boolean."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise GoalError("a column cannot be compared with a missing value. Use col(...).is_null().")
    if isinstance(value, (str, bool)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        if abs(value) > LIMITS.integer:
            raise GoalError(f"the integer {shown(value)} does not fit into 64 bits; compare with a float or a string.")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise GoalError(f"a column cannot be compared with {value}; give a finite number.")
        return float(value)
    raise GoalError(
        f"a column is compared with a string, a number or a boolean, got {shown(value)} ({type(value).__name__})."
    )


def checked_literals(values: object, what: str) -> tuple[Literal, ...]:
    """A non-empty collection of literals, without repetitions; sets are put into a fixed order."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise GoalError(f"{what} must be a list of values, got {shown(values)}. Write [{shown(values)}] for one value.")
    if isinstance(values, (set, frozenset)):  # the order of a set differs between processes
        values = sorted(values, key=lambda value: (type(value).__name__, repr(value)))
    literals: dict[tuple[bool, Literal], Literal] = {}
    for value in values:
        literal = checked_literal(value)
        literals.setdefault(typed(literal), literal)
    if not literals:
        raise GoalError(f"{what} is empty; give at least one value.")
    return tuple(literals.values())


def typed(value: Literal) -> tuple[bool, Literal]:
    """Key under which True and 1 differ (Python's `==` calls them equal, a text does not)."""
    return isinstance(value, bool), value


def checked_number(value: object, what: str) -> float:
    """A finite real number as a Python float; booleans, strings, arrays, NaN and infinities are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise GoalError(f"{what} must be a number, got {shown(value)} ({type(value).__name__}).")
    try:
        number = float(value)
    except OverflowError:
        raise GoalError(f"{what} is too large for a float: {shown(value)}.") from None
    if not math.isfinite(number):
        raise GoalError(f"{what} must be finite, got {number}.")
    return number + 0.0  # -0.0 becomes 0.0


def checked_min_rows(value: object) -> int | None:
    """Least number of rows of a population: an integer >= 1, or None."""
    if value is None:
        return None
    if _is_integer(value) and 1 <= int(value) <= LIMITS.integer:
        return int(value)
    raise GoalError(f"min_rows must be an integer >= 1 or None, got {shown(value)}.")


def checked_on_small(value: object) -> str | None:
    """What to do with a population of fewer than `min_rows` rows: "error", "drop", or None (not said)."""
    if value is None or (isinstance(value, str) and value in ("error", "drop")):
        return value
    raise GoalError(f'on_small must be "error" or "drop", got {shown(value)}.')
