"""The exact threshold of given scores under constraints on 0/1 rates.

All rates are step functions of the threshold that change only at the scores, so one sort and one pass try every
threshold there is: O(n log n + n m). This is the bias-shifting of the paper's baseline for any number of constraints.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.thresholds import bias_sweep_loops as loops

__all__ = ["FEASIBLE", "ThresholdChoice", "best_threshold", "between"]

FEASIBLE = 1e-10
"""Excess that counts as rounding."""


@dataclass(frozen=True)
class ThresholdChoice:
    """The best threshold found.

    Attributes
    ----------
    threshold : float
        Call a row positive where its score is larger. It lies in the middle between two scores.
    objective : float
        0/1 objective there (in the problem's scale).
    violation : float
        Sum of the excesses of the constraints; 0 where all are met.
    n_positive : int
        Rows called positive.
    """

    threshold: float
    objective: float
    violation: float
    n_positive: int


def best_threshold(
    z: Floats,
    weight: Floats,
    cell: npt.NDArray[np.int32],
    coef: CellCoefficients,
    gamma: Floats,
    cell_weight: Floats,
) -> ThresholdChoice:
    """Try every threshold of the scores z and keep the best one that meets the constraints.

    Parameters
    ----------
    z : ndarray of shape (n,)
    weight, cell : ndarrays of shape (n,)
    coef : CellCoefficients
    gamma : ndarray of shape (m,)
        Bounds of the constraints.
    cell_weight : ndarray of shape (k,)

    Returns
    -------
    ThresholdChoice
        Of the thresholds that meet all constraints the one of lowest objective (the smallest shift among equals); where
        none does, the one of smallest violation.
    """
    objective, values = coef.totals(np.zeros_like(cell_weight), cell_weight, gamma.shape[0])
    order = np.argsort(-z)  # between equal scores there is no threshold, so their order means nothing
    top = float(np.abs(z).max(initial=1.0))
    found = np.zeros(3)
    count = loops.sweep(
        order, z, weight, cell, coef.alpha0 - coef.beta0, *coef.entries, values - gamma, 1e-12 * top, FEASIBLE, found,
    )  # fmt: skip
    return ThresholdChoice(between(z, order, count), objective + float(found[0]), float(found[1]), count)


def between(z: Floats, order: npt.NDArray[np.int64], count: int) -> float:
    """A threshold that calls exactly the first `count` rows positive."""
    if count == 0:
        return float(z[order[0]]) + 0.5
    if count == order.shape[0]:
        return float(z[order[-1]]) - 0.5
    low, high = float(z[order[count]]), float(z[order[count - 1]])
    if low <= 0.0 < high:
        return 0.0  # the scores' own sign already does it
    return 0.5 * (low + high)
