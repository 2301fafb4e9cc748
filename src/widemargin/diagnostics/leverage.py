"""Rows whose features stand out so far that a model depends on them alone: leverage."""

import dataclasses
from typing import Any

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.rows import as_dense


@dataclasses.dataclass(frozen=True)
class LeverageRow:
    """A row of high leverage.

    Attributes
    ----------
    row : int
        Counted from 0.
    leverage : float
        Between 0 and 1: by how much the row's own value moves what a least squares fit says of it (the diagonal of the
        hat matrix, with an intercept).
    times : float
        The same over the mean of all rows. Beyond 3 a row is commonly called one of high leverage.
    margin : float
    """

    row: int
    leverage: float
    times: float
    margin: float


def leverage_rows(clf: Any, X: Any, margins: Floats, most: int) -> tuple[LeverageRow, ...]:
    """The `most` rows of largest leverage, in the features that the last step of a pipeline is given.

    Raises
    ------
    DataError
        If X does not hold numbers, a value is missing, or there are more features than 5,000.
    """
    features = clf[:-1].transform(X) if hasattr(clf, "steps") and len(clf.steps) > 1 else X
    try:
        matrix = as_dense(features)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise DataError("leverage needs numbers without missing values as features; leave leverage=0.")
    if matrix.shape[1] > 5000:
        raise DataError(f"leverage of {matrix.shape[1]} features takes too long; leave leverage=0.")
    centred = matrix - matrix.mean(axis=0)
    # What rounding leaves of a constant column is small beside the column itself; the units of columns do not matter.
    spread = np.linalg.norm(centred, axis=0)
    varies = spread > 1e-12 * np.linalg.norm(matrix, axis=0)
    centred = centred[:, varies] / spread[varies]
    # The diagonal of `X (X'X)^-1 X'` by the eigenvectors of X'X. Directions whose eigenvalue is rounding are left out,
    # because dependent columns would divide by it; the intercept adds 1 / n to every row.
    values, vectors = np.linalg.eigh(centred.T @ centred)
    kept = values > 1e-12 * max(float(values.max(initial=0.0)), 1e-300)
    own = ((centred @ (vectors[:, kept] / np.sqrt(values[kept]))) ** 2).sum(axis=1) + 1.0 / len(matrix)
    mean = float(own.mean())
    rows = np.argsort(-own, kind="stable")[:most]
    return tuple(LeverageRow(int(row), float(own[row]), float(own[row]) / mean, float(margins[row])) for row in rows)
