"""Label sets as 0/1 vectors: what the multi-label and the hierarchical model share."""

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from widemargin._typing import Floats, Ints
from widemargin.exceptions import DataError
from widemargin.structured.models.base import StructureModel

__all__ = ["LabelSetModel", "check_weights", "indicator"]


_NUMBERS = (bool, int, float, np.bool_, np.number)


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

    def encode_all(self, Y: Any) -> tuple[Ints, Ints]:
        """All 0/1 vectors one after the other, and where each begins."""
        Y = indicator(Y)
        k = self.structure.weight.shape[1]
        if Y.shape[1] != k:
            raise DataError(f"Y has {Y.shape[1]} columns, the model {k} labels.")
        return Y.reshape(-1), k * np.arange(Y.shape[0] + 1, dtype=np.int64)

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
    if Y.dtype == object:  # of frames: numbers, but also missing values, which compare with nothing
        right = [isinstance(entry, _NUMBERS) and entry in (0, 1) for entry in Y.flat]
        wrong = np.argwhere(~np.array(right, dtype=bool).reshape(Y.shape))
    else:
        wrong = np.argwhere((Y != 0) & (Y != 1))
    if wrong.size:
        i, label = wrong[0].tolist()
        raise DataError(f"Y[{i}, {label}] is {Y[i : i + 1, label].tolist()[0]!r}: entries must be 0 or 1.")
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
    if weight.shape != (k,):
        raise DataError(f"weights have the shape {weight.shape}: give {k} numbers, one per label.")
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0.0)))
    if wrong.size or not weight.any():
        found = f"that of label {wrong[0]} is {weight[wrong[0]]:g}" if wrong.size else "all are 0"
        raise DataError(f"weights must be finite numbers >= 0, not all 0; {found}.")
    return weight
