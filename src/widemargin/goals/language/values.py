"""The small values in goals, names, columns, literals, numbers, options: how they are checked and written.

Each check returns the value in its one stored form (Python scalars, never NumPy's), so that equality, hashing and the
text form depend on nothing else. Each refuses with a `GoalError` that names what was given. The objects of a goal
print themselves with the functions on texts, and the parser reads exactly what these write, so that
`Goal.parse(str(goal)) == goal`.
"""

import keyword
import math
import numbers
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self, TypeAlias, TypeGuard, cast

import numpy as np

from widemargin.exceptions import GoalError

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


class Immutable:
    """A value that cannot be changed; a copy of it is the value itself."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __setattr__(self, name: str, *value: object) -> None:
        kind = type(self).__name__.lower()
        raise AttributeError(f"{'an' if kind[0] in 'aeio' else 'a'} {kind} cannot be changed ({name}). Make a new one.")

    __delattr__ = __setattr__


class Keyed(Immutable, ABC):
    """An immutable value that equals another of its class where both have the same `key`."""

    __slots__ = ()

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """What decides equality and hash."""

    def __eq__(self, other: object) -> bool:
        return self.key == cast(Self, other).key if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


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


def _is_integer(value: object, least: int) -> TypeGuard[int]:
    """Whether it is a Python or NumPy integer of 64 bits from `least` on; a boolean is none."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return least <= int(value) <= LIMITS.integer


def checked_column(value: object) -> ColumnName:
    """A column: its name (any non-empty string), or its position in a 2-D array (an integer >= 0)."""
    if isinstance(value, str):
        if not value:
            raise GoalError("a column name must not be empty.")
        return str(value)
    if _is_integer(value, 0):
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
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
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
    literals: dict[tuple[bool, object], Literal] = {}
    for value in values:
        literal = checked_literal(value)
        literals.setdefault(typed(literal), literal)
    if not literals:
        raise GoalError(f"{what} is empty; give at least one value.")
    return tuple(literals.values())


def typed(value: Literal | None) -> tuple[bool, object]:
    """Key under which True and 1 differ (Python's `==` calls them equal, a text does not)."""
    return isinstance(value, bool), value


def checked_number(value: object, what: str, *about: object) -> float:
    """A finite real number as a Python float; booleans, strings, arrays, NaN and infinities are refused.

    `what` names the number in a message, with a `%s` for each object of `about`, which is printed only then.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        problem = f"must be a number, got {shown(value)} ({type(value).__name__})"
    else:
        try:
            number = float(value)
            if math.isfinite(number):
                return number + 0.0  # -0.0 becomes 0.0
            problem = f"must be finite, got {number}"
        except OverflowError:
            problem = f"is too large for a float: {shown(value)}"
    raise GoalError(f"{what % about if about else what} {problem}.")


def checked_min_rows(value: object) -> int | None:
    """Least number of rows of a population: an integer >= 1, or None."""
    if value is None or _is_integer(value, 1):
        return None if value is None else int(value)
    raise GoalError(f"min_rows must be an integer >= 1 or None, got {shown(value)}.")


def checked_on_small(value: object) -> str | None:
    """What to do with a population of fewer than `min_rows` rows: "error", "drop", or None (not said)."""
    if value is None or (isinstance(value, str) and value in ("error", "drop")):
        return value
    raise GoalError(f'on_small must be "error" or "drop", got {shown(value)}.')


def quoted(text: str, mark: str = '"') -> str:
    """`text` as a literal in quotes (double ones) on one line; what cannot be printed is escaped."""
    text = text.replace("\\", "\\\\").replace(mark, "\\" + mark)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return mark + text + mark


def is_plain_name(name: str) -> bool:
    """Whether the parser reads `name` without quotes: an identifier in the form Python itself would store."""
    one_token = re.fullmatch(r"[^\W\d]\w*", name) is not None  # narrower than isidentifier: the middle dot is no \w
    normal = unicodedata.normalize("NFKC", name) == name
    return one_token and name.isidentifier() and not keyword.iskeyword(name) and normal


def name_text(name: str) -> str:
    """A population's name or a label: plain where possible, in quotes where the grammar has a word like it."""
    words = ("minimize", "minimise", "subject", "to", "min_rows", "on_small", "col", "population", "external")
    return name if is_plain_name(name) and name not in words else quoted(name)


def column_text(column: ColumnName) -> str:
    """A column: its plain name, `col("any name")` or `col(0)`."""
    if isinstance(column, int):
        return f"col({column})"
    return column if is_plain_name(column) else f"col({quoted(column)})"


def literal_text(value: object) -> str:
    """A string in double quotes; numbers and booleans by their exact `repr`."""
    return quoted(value) if isinstance(value, str) else repr(value)


def list_text(values: Iterable[object]) -> str:
    """Literals in square brackets."""
    return "[" + ", ".join(map(literal_text, values)) + "]"


def number_text(value: float) -> str:
    """The shortest text that reads back as the same float (`1` for 1.0)."""
    return repr(float(value)).removesuffix(".0")


def interval_text(low: float, high: float) -> str:
    """An attainable range, `[0, 1]` or `[0, inf)`."""
    left, right = (number_text(float(f"{end:.6g}")) for end in (low, high))
    return f"{'(' if math.isinf(low) else '['}{left}, {right}{')' if math.isinf(high) else ']'}"
