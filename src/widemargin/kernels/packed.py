"""Index packed once as the right side of products with any other rows: what `thin` and `levels` have in common."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._threads import in_threads
from widemargin._typing import Index

__all__ = ["Index", "Packed", "Task"]

Array = npt.NDArray[Any]


class Task(NamedTuple):
    """What a compiled loop fills: `out[rows[i]]`, from the row `origin` on.

    Attributes
    ----------
    left, right : ndarray
        Squared norms of both sides, or empty.
    scale : scalar
        Of the Gaussian kernel `2^(scale |x - y|^2)`; 0 for inner products.
    out : ndarray of shape (slots, columns)
    rows : ndarray of int
    """

    left: Array
    right: Array
    scale: Any
    out: Array
    rows: Array


class Packed(ABC):
    """The right side of products.

    Attributes
    ----------
    worth : int
        Values that are worth a thread.
    """

    worth: int

    @abstractmethod
    def part(self, rows: Index, X: Array) -> "Packed":
        """The same for some of the rows; X are these."""

    @abstractmethod
    def listed(self, X: Array, packed: "Packed | None", first: int) -> Any:
        """Index as the left side of products; None where they cannot be it.

        Where they are packed themselves they begin with row `first` of `packed`.
        """

    def _usable(self, left: Any) -> bool:
        """Whether products with these rows can be made."""
        return True

    @abstractmethod
    def _fill(self, left: Any, origin: int, first: int, last: int, task: Task) -> None:
        """Fill the columns of the rows first to last; they begin with row `origin`."""

    def fill(
        self, left: Any, squares: tuple[Array, Array] | None, scale: float, first: int, last: int, out: Array,
        rows: Array,
    ) -> bool:  # fmt: skip
        """Set `out[rows[i]]` to the products of `left[i]` with the rows `first` to `last`.

        Parameters
        ----------
        left : what `listed` made
            Of m rows.
        squares : tuple of two ndarrays, shapes (m,) and (n,), or None
            Squared norms of both sides: give the Gaussian kernel `2^(scale |x - y|^2)`, float32, instead of products.
        scale : float
        first, last : int
        out : ndarray of shape (slots, last - first)
        rows : ndarray of int, shape (m,)

        Returns
        -------
        bool
            False where nothing was done, because `left` cannot be the left side.
        """
        m = rows.shape[0]
        if m == 0 or last <= first:
            return True
        if left is None or not self._usable(left):
            return False
        empty = np.empty(0, out.dtype)
        norms = (empty, empty) if squares is None else squares
        task = Task(*norms, out.dtype.type(0.0 if squares is None else scale), out, rows)

        def part(low: int, high: int) -> None:
            self._fill(left, first, first + low, first + high, task)

        in_threads(last - first, max(1, self.worth // m), part)
        return True
