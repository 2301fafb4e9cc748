"""One of several classes, with any cost matrix."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from widemargin._typing import Ints
from widemargin.exceptions import DataError
from widemargin.structured.compiled import MULTICLASS, make_structure
from widemargin.structured.model import Examples
from widemargin.structured.models.base import StructureModel, check_lengths


class MulticlassModel(StructureModel):
    """`f(x, y) = <x, w_y>`, with the loss 0/1 or a cost matrix (Crammer and Singer 2001).

    Parameters
    ----------
    cost : array-like of shape (S, S), optional
        Loss of class j where class i is true, `cost[i, j] >= 0`, 0 on the diagonal; classes in sorted order. Default:
        0/1.

    Attributes
    ----------
    classes : ndarray of shape (S,)
        After `prepare`.
    """

    _kinds = (MULTICLASS,)
    _stored_arrays: ClassVar[Mapping[str, str]] = {"classes": "label *"}

    def _refuse_arrays(self) -> None:
        super()._refuse_arrays()
        if "classes" in vars(self) and len(self.classes) != self.structure.weight.shape[1]:
            raise ValueError(
                f"{len(self.classes)} classes are named, the structure has {self.structure.weight.shape[1]}"
            )

    def __init__(self, cost: npt.ArrayLike | None = None) -> None:
        self.cost = cost

    def prepare(self, X: Examples, Y: Examples) -> tuple[int, int, int]:
        """Collect the classes and check the cost matrix; returns (d, S, 0).

        Raises
        ------
        DataError
            Fewer than two classes, a cost matrix that does not fit them.
        """
        rows, _ = self.stack(X)
        Y = np.asarray(Y)
        check_lengths(rows, Y)
        self.classes = np.unique(Y)
        S = self.classes.shape[0]
        if S < 2:
            raise DataError(f"Y has {S} class: give at least two.")
        # Without a matrix every confusion costs the same.
        cost = 1.0 - np.eye(S) if self.cost is None else np.asarray(self.cost, dtype=np.float64)
        if cost.shape != (S, S):
            raise DataError(f"cost has shape {cost.shape}, Y has {S} classes: give a matrix of shape ({S}, {S}).")
        # The truth itself must cost nothing, and something must cost, or there is nothing to learn.
        off = cost[~np.eye(S, dtype=bool)]
        if not np.isfinite(cost).all() or off.min() < 0.0 or np.diag(cost).any() or not off.any():
            raise DataError("cost must be finite, >= 0, not all 0, and 0 on the diagonal.")
        self.structure = make_structure(MULTICLASS, cost)
        # Classes have no pairs, so theta is empty.
        return rows.shape[1], S, 0

    def encode(self, y: object) -> Ints:
        """Index of a class."""
        # Classes are sorted, so that the number of one is found by bisection.
        at = int(np.searchsorted(self.classes, np.asarray(y)))
        if at >= self.classes.shape[0] or self.classes[at] != y:
            raise DataError(
                f"label {np.asarray(y).tolist()!r} is not one of the {self.classes.shape[0]} classes of the training "
                "examples."
            )
        return np.array([at], dtype=np.int64)

    def restore(self, label: Ints) -> Any:
        """The class of an index."""
        return self.classes[label[0]]
