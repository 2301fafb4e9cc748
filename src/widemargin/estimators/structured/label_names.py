"""Label sets as users write them: 0/1 matrices, names row by row, and entries that nobody has looked at."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt
from scipy import sparse

from widemargin._typing import Bools, Features, Ints
from widemargin.exceptions import DataError
from widemargin.structured.models.base import indicator

__all__ = ["GivenSets", "nothing", "read_label_sets"]


class GivenSets(NamedTuple):
    """Label sets that were read.

    Attributes
    ----------
    sets : ndarray of shape (n, k)
        0 or 1; 0 where nobody has looked.
    missing : ndarray of bool of shape (n, k), or None
        Where nobody has looked; None where everything is known.
    classes : ndarray of shape (k,)
        Names of the columns, or their numbers.
    named : bool
        Whether the rows were given by names.
    """

    sets: Ints
    missing: Bools | None
    classes: npt.NDArray[Any]
    named: bool


def read_label_sets(y: Features | Sequence[Iterable[str]], classes: Sequence[Any] | None = None) -> GivenSets:
    """Read a matrix of 0, 1 and, where nobody has looked, -1 or NaN; or the names of the labels of every row.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, k), or sequence of n collections of str
    classes : sequence, default=None
        The names there are, in their order; by default those that occur, sorted.

    Raises
    ------
    DataError
        If y is neither, or has a name that is not one of the classes.
    """
    if _has_names(y):
        rows: list[list[Any]] = [list(row) for row in y]
        other = next((name for row in rows for name in row if not isinstance(name, str)), None)
        if classes is None and other is not None:
            raise DataError(f"y has the label {other!r}, which is no text: names of labels are strings.")
        known = sorted({name for row in rows for name in row}) if classes is None else list(classes)
        place = {name: column for column, name in enumerate(known)}
        sets = np.zeros((len(rows), len(known)), dtype=np.int64)
        for i, row in enumerate(rows):
            unknown = [name for name in row if name not in place]
            if unknown:
                raise DataError(f"row {i} of y has the label {unknown[0]!r}, which is none of the {len(known)} known.")
            sets[i, [place[name] for name in row]] = 1
        return GivenSets(sets, None, np.asarray(known), named=True)
    matrix: Any = y
    if sparse.issparse(matrix):
        return GivenSets(indicator(matrix), None, np.arange(matrix.shape[1]), named=False)
    try:
        table: npt.NDArray[Any] = np.asarray(matrix)
    except ValueError:
        raise DataError(
            "the rows of y have different lengths: give a 0/1 matrix, a column per label, or a list of names, as "
            "strings, for each row."
        ) from None
    if table.ndim != 2:
        raise DataError(
            f"y has {table.ndim} dimension(s): give a 0/1 matrix, a column per label, or a list of names for each row."
        )
    if table.dtype == object:  # of frames: a missing value is no number, and compares with nothing
        marks = [nothing(entry) or (isinstance(entry, (int, float, np.number)) and entry == -1) for entry in table.flat]
        missing = np.array(marks, dtype=bool).reshape(table.shape)
    else:
        missing = (
            np.isnan(table) | (table == -1) if np.issubdtype(table.dtype, np.number) else np.zeros(table.shape, bool)
        )
    if missing.all() and missing.size:
        raise DataError("y holds nothing but NaN or -1: somebody has to have looked at some label.")
    sets = indicator(np.where(missing, 0, table) if missing.any() else table)
    names = np.asarray(getattr(matrix, "columns", np.arange(sets.shape[1])))
    return GivenSets(sets, missing if missing.any() else None, names, named=False)


def _has_names(y: object) -> TypeGuard[Iterable[Iterable[str]]]:
    """Whether the rows are collections of names: no matrix, and a row of it holds a text."""
    if sparse.issparse(y) or getattr(y, "ndim", 1) != 1 or not isinstance(y, Iterable):
        return False
    rows = list(y)
    collections = all(isinstance(row, (list, tuple, set, frozenset)) for row in rows)
    return collections and any(isinstance(entry, str) for row in rows for entry in row)


def nothing(entry: object) -> bool:
    """Whether an entry of a frame or list is a missing value."""
    if entry is None or type(entry).__name__ == "NAType":
        return True
    return isinstance(entry, (float, np.floating)) and bool(np.isnan(entry))
