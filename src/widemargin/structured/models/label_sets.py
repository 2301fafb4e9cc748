"""Label sets as 0/1 vectors: what the multi-label and the hierarchical model share."""

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from widemargin.exceptions import DataError
from widemargin.structured.models.base import StructureModel

__all__ = ["LabelSetModel", "check_weights", "indicator"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class LabelSetModel(StructureModel):
    """A model whose labels are 0/1 vectors of shape (k,)."""

    @abstractmethod
    def max_marginals(self, u: Floats, theta: Floats) -> Floats:
        """The best score with each label on, minus the best with it off.

        Parameters
        ----------
        u : ndarray of shape (n, k)
            Potentials of n examples.
        theta : ndarray of shape (P,)

        Returns
        -------
        ndarray of shape (n, k)
        """

    def encode(self, y: Any) -> Ints:
        """A 0/1 vector."""
        label = _dense(y).reshape(-1)
        k = self.structure.weight.shape[1]
        if label.shape[0] != k:
            raise DataError(f"a label has {label.shape[0]} entries, the model {k} labels.")
        if not np.isin(label, (0, 1)).all():
            raise DataError("a label has entries other than 0 and 1.")
        whole: Ints = label.astype(np.int64)
        return whole

    def restore(self, label: Ints) -> Ints:
        """The same 0/1 vector, a copy."""
        return label.copy()


def _dense(y: Any) -> npt.NDArray[Any]:
    return y.toarray() if sparse.issparse(y) else np.asarray(y)


def indicator(Y: Any) -> Ints:
    """Labels as a 0/1 matrix.

    Raises
    ------
    DataError
    """
    Y = _dense(Y)
    if Y.ndim != 2 or Y.shape[1] == 0:
        raise DataError(f"Y has shape {Y.shape}: give a 0/1 matrix with one row per example and one column per label.")
    wrong = np.argwhere((Y != 0) & (Y != 1))
    if wrong.size:
        i, label = wrong[0]
        raise DataError(f"Y[{i}, {label}] is {Y[i, label].item()!r}: entries must be 0 or 1.")
    whole: Ints = Y.astype(np.int64)
    return whole


def check_weights(weights: npt.ArrayLike | None, k: int) -> Floats:
    """Loss weights of k labels.

    Raises
    ------
    DataError
    """
    if weights is None:
        return np.ones(k)
    weight = np.asarray(weights, dtype=np.float64)
    if weight.shape != (k,) or not np.isfinite(weight).all() or weight.min() < 0.0 or not weight.any():
        raise DataError(f"weights must be {k} finite numbers >= 0, not all 0, one per label; got shape {weight.shape}.")
    return weight
