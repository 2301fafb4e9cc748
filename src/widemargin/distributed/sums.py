"""Sums of what functions return for blocks, in one order for all back ends."""

import copy
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from widemargin.exceptions import DataError

__all__ = ["FAN_IN", "RunningSum", "combined"]

FAN_IN = 16  # summands of one addition: what a worker must hold at a time


def combined(values: Sequence[Any]) -> Any:
    """The sum of values from left to right; none of them is changed.

    Raises
    ------
    DataError
        If two of them differ in kind, length, keys or shape, or cannot be added.
    """
    total = _own(values[0])
    for value in values[1:]:
        total = _plus(total, value)
    return total


class RunningSum:
    """The sum of values that come one by one, in the order of a tree: runs of `FAN_IN` values, runs of their sums, ...

    Examples
    --------
    >>> total = RunningSum()
    >>> for value in range(1000):
    ...     total.add(value)
    >>> total.result()
    499500
    """

    def __init__(self) -> None:
        self._levels: list[list[Any]] = [[]]

    def add(self, value: Any, level: int = 0) -> None:
        """Take in the next value."""
        if level == len(self._levels):
            self._levels.append([])
        waiting = self._levels[level]
        waiting.append(value)
        if len(waiting) == FAN_IN:
            self._levels[level] = []
            self.add(combined(waiting), level + 1)

    def add_all(self, values: Iterable[Any]) -> "RunningSum":
        """Take in many values."""
        for value in values:
            self.add(value)
        return self

    def result(self) -> Any:
        """The sum of all values so far."""
        carried: list[Any] = []
        for level in self._levels:
            values = [*level, *carried]
            carried = [combined(values)] if values else []
        if not carried:
            raise DataError("there is no block to sum over. Give some rows.")
        return carried[0]


def _own(value: Any) -> Any:
    """A copy that may be changed: booleans become integers, and integers 64 bits wide."""
    if isinstance(value, np.ndarray):
        small = value.dtype.kind in "biu"
        return value.astype(np.result_type(value, np.int64)) if small else value.copy()
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if value is None or isinstance(value, Number):
        return value
    if isinstance(value, dict):
        return {key: _own(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _like(value, [_own(item) for item in value])
    return copy.deepcopy(value)


def _plus(total: Any, value: Any) -> Any:
    """`total + value`; only `total` may be changed."""
    if (total is None) != (value is None):
        raise _different(total, value)
    if total is None:
        return None
    if isinstance(total, np.ndarray):
        if not isinstance(value, np.ndarray) or value.shape != total.shape:
            raise _different(total, value)
        if np.can_cast(value.dtype, total.dtype, "same_kind"):
            total += value
            return total
        return total + value
    if isinstance(total, dict):
        if not isinstance(value, dict) or total.keys() != value.keys():
            raise _different(total, value)
        return {key: _plus(item, value[key]) for key, item in total.items()}
    if isinstance(total, (list, tuple)):
        if not isinstance(value, type(total)) or len(total) != len(value):
            raise _different(total, value)
        return _like(total, [_plus(*pair) for pair in zip(total, value, strict=True)])
    if hasattr(total, "merge"):
        return total.merge(value)
    return total + value


def _like(model: Any, items: list[Any]) -> Any:
    """The items in a container of the same kind as the model."""
    return type(model)(*items) if hasattr(model, "_fields") else type(model)(items)


def _different(total: Any, value: Any) -> DataError:
    return DataError(f"blocks gave {_kind(total)} and {_kind(value)}, which cannot be added. Return one kind for all.")


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, dict):
        return f"a dict with keys {sorted(map(str, value))[:6]}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"
