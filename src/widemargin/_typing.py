"""Types that the whole library shares: what users hand over, and the arrays that checked data become.

A parameter that takes "anything table-like" is typed here once, so that signatures say what they mean.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NewType, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

# Checked data.
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Signs: TypeAlias = npt.NDArray[np.signedinteger[Any]]
"""Labels or predictions as +1 and -1, 0 where a label is missing; of several classes their numbers, from 1 on."""
Bools: TypeAlias = npt.NDArray[np.bool_]
Singles: TypeAlias = npt.NDArray[np.float32]
Reals: TypeAlias = npt.NDArray[np.floating[Any]]
"""Numbers in single or double precision, as the user's data are."""
Integers: TypeAlias = npt.NDArray[np.integer[Any]]
"""Integers of any width: the indices of a CSR matrix, say."""
Cells: TypeAlias = npt.NDArray[np.int32]
"""The cell (group of rows with the same coefficients) of each row; -1 for none."""
Flags: TypeAlias = npt.NDArray[np.uint8]
"""A few bits for each row."""
Index: TypeAlias = npt.NDArray[np.integer[Any]] | slice
"""Which rows: their numbers, or a run of them."""
Matrix: TypeAlias = npt.NDArray[np.floating[Any]] | sp.csr_matrix
"""Checked features: a C-ordered array of float32 or float64, or a canonical CSR matrix."""

# What users hand over.
if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame, IntoSeries

    ArrayLike: TypeAlias = npt.ArrayLike
    """What NumPy makes an array of."""
    Label: TypeAlias = Hashable
    """A class label: a number, a string or a boolean."""
    Features: TypeAlias = npt.ArrayLike | sp.spmatrix | IntoDataFrame
    """X: array, sparse matrix or data frame, a row per example."""
    Column: TypeAlias = npt.ArrayLike | IntoSeries | Sequence[Label]
    """One value per example: an array, a list or a series."""
    Table: TypeAlias = IntoDataFrame | npt.ArrayLike
    """Columns by name: a data frame of any library, or a 2-D array."""
    Seed: TypeAlias = int | np.random.RandomState | np.random.Generator | None
    """Where random numbers come from; None is a fresh seed."""
else:
    # `help` and notebooks show these names; an alias they would show as the dozen types that it stands for.
    ArrayLike, Label, Features, Column, Table, Seed = (
        NewType(name, object) for name in ("ArrayLike", "Label", "Features", "Column", "Table", "Seed")
    )

JSON: TypeAlias = "Mapping[str, JSON] | list[JSON] | str | int | float | bool | None"


@runtime_checkable
class Classifier(Protocol):
    """Anything that predicts labels for rows."""

    def predict(self, X: Any) -> Any:
        """Predicted labels, one per row."""
