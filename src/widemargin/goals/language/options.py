"""What a constraint and a bundle have in common: a label, and a rule for tiny populations."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self, cast

__all__ = ["Ruled"]


class Ruled(ABC):
    """A frozen dataclass with the fields `label`, `min_rows` and `small`, compared by its `key`."""

    label: str | None
    min_rows: int | None
    small: str | None

    @property
    def on_small(self) -> str:
        """ "error" or "drop"; where nothing was said, "error"."""
        return self.small or "error"

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """What decides equality and hash."""

    def __eq__(self, other: object) -> bool:
        return self.key == cast(Self, other).key if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def named(self, label: str) -> Self:
        """The same with a label; that of a bundle starts the labels of its constraints.

        Examples
        --------
        >>> from widemargin.goals import recall
        >>> (recall() >= 0.6).named("floor").label
        'floor'
        """
        return self._changed(label=label)

    def with_options(self, *, min_rows: int | None = None, on_small: str | None = None) -> Self:
        """The same with its own rule for tiny populations; None keeps what it has.

        Parameters
        ----------
        min_rows : int, optional
            Least number of rows of weight > 0 (at least 1) that each of its rates must be measured on.
        on_small : {"error", "drop"}, optional
            Refuse the goal where there are fewer, or drop the constraint with a warning.
        """
        rows = self.min_rows if min_rows is None else min_rows
        return self._changed(min_rows=rows, small=self.small if on_small is None else on_small)

    def inheriting(self, min_rows: int | None, on_small: str) -> Self:
        """The goal's rule wherever there is none of its own."""
        rows = min_rows if self.min_rows is None else self.min_rows
        return self._changed(min_rows=rows, small=self.small or on_small)

    def _changed(self, **fields: object) -> Self:
        return cast(Self, replace(cast(Any, self), **fields))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
