"""fairlearn's reduction (ExponentiatedGradient over LinearSVC) on the two tasks: the nearest thing to a peer.

Its predictor is a mixture, so its rates here are expectations over that draw. It takes no sparse matrices.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from fairlearn.reductions import ClassificationMoment, DemographicParity, ExponentiatedGradient
from sklearn.svm import LinearSVC

from benchmarks.task import quietly
from widemargin_papers.reproductions.recall_task import RecallTask

__all__ = ["Mixture", "fit_parity", "fit_recall_churn"]

Floats = npt.NDArray[np.float64]


class Mixture:
    """A fitted reduction, read as shares of positive predictions."""

    def __init__(self, fitted: Any) -> None:
        self._fitted = fitted

    def share(self, X: Any) -> Floats:
        """Probability of the positive class for each row of X (sparse or dense)."""
        dense = X.toarray() if hasattr(X, "toarray") else X
        weights = self._fitted.weights_
        total = np.zeros(dense.shape[0])
        for index in weights.index[weights > 0]:
            total += weights[index] * self._fitted.predictors_[index].predict(dense)
        return total


def _base() -> LinearSVC:
    return LinearSVC(loss="hinge", C=1.0, random_state=0)


def fit_parity(
    X: Floats, y: npt.NDArray[np.int64], male: npt.NDArray[np.bool_], kappa: float, *, base: Any = None
) -> Mixture:
    """`s_p(men) <= s_p(women) / kappa` by fairlearn's demographic parity.

    fairlearn bounds each group against everyone, so the bound between the two groups is reached by
    `ratio_bound = 1 / (q / kappa + 1 - q)` with q the share of men. `base` is the classifier that is reduced to, by
    default LinearSVC.
    """
    q = float(male.mean())
    bound = min(1.0, 1.0 / (q / kappa + 1.0 - q))
    reduction = ExponentiatedGradient(base or _base(), DemographicParity(ratio_bound=bound))
    with quietly():
        reduction.fit(X, y, sensitive_features=male)
    return Mixture(reduction)


class _Linear(ClassificationMoment):
    """Rows of linear functions of the predictions: `value_j = constant_j + mean_i slope_ij h(x_i)`, each at most 0."""

    def __init__(self, slope: Floats, constant: Floats) -> None:
        super().__init__()
        self.slope, self.constant = slope, constant

    def load_data(self, X: Any, y: Any, **_: Any) -> None:
        super().load_data(X, pd.Series(y))

    @property
    def index(self) -> pd.Index:
        return pd.RangeIndex(self.slope.shape[1])

    def gamma(self, predictor: Callable[[Any], Any]) -> pd.Series:
        said = np.asarray(predictor(self.X), dtype=np.float64)
        return pd.Series(self.constant + said @ self.slope / len(said), self.index)

    def bound(self) -> pd.Series:
        return pd.Series(0.0, self.index)

    def project_lambda(self, lambda_vec: pd.Series) -> pd.Series:
        return lambda_vec

    def signed_weights(self, lambda_vec: pd.Series | None = None) -> pd.Series:
        factor = np.ones(self.slope.shape[1]) if lambda_vec is None else np.asarray(lambda_vec)
        return pd.Series(-self.slope @ factor)


def fit_recall_churn(task: RecallTask, X: Floats, least_recall: float, most_churn: float) -> Mixture:
    """The recall + churn task with moments written by hand.

    Parameters
    ----------
    X : ndarray of shape (n1 + n2 + n3, d)
        Rows of D1, D2 and D3 in this order, dense.
    """
    n12, n3 = task.y.shape[0], task.deployed3.shape[0]
    n = n12 + n3
    second = np.arange(n12) >= task.n1
    positive = task.y > 0
    objective = np.zeros((n, 1))
    objective[:n12, 0] = np.where(positive, np.where(second, 0.0, -1.0), 1.0) * n / n12
    wanted = second & positive
    slope = np.zeros((n, 2))
    slope[:n12, 0][wanted] = -n / wanted.sum()
    slope[n12:, 1] = np.where(task.deployed3 > 0, -1.0, 1.0) * n / n3
    changed = float((task.deployed3 > 0).mean())
    labels = np.concatenate([positive, task.deployed3 > 0]).astype(int)
    reduction = ExponentiatedGradient(
        _base(),
        _Linear(slope, np.array([least_recall, changed - most_churn])),
        objective=_Linear(objective, np.array([float((positive & ~second).sum()) / n12])),
    )
    with quietly():
        reduction.fit(X, labels)
    return Mixture(reduction)
