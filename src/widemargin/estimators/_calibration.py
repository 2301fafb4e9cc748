"""Class probabilities by calibration on rows that training did not see."""

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from widemargin._typing import Bools, Floats, Index, Seed
from widemargin.exceptions import DataError


class Calibrator(Protocol):
    """What maps scores to probabilities: scikit-learn's isotonic or logistic regression."""

    def predict(self, X: Floats) -> Floats:
        """Of isotonic regression: the probability of the second class."""
        ...


def calibrates(estimator: Any) -> bool:
    """Whether an estimator has a predict_proba, and if not, why."""
    if estimator.calibration is None:
        ramp = " The ramp of the randomised classifier, which is no such probability, is randomized_proba."
        raise AttributeError(
            'predict_proba needs probabilities calibrated on held-out rows: set calibration="sigmoid" or "isotonic".'
            + (ramp if hasattr(estimator, "randomized_proba") else "")
        )
    return True


def hold_out(y: npt.NDArray[Any], random_state: Seed, share: float = 0.2) -> tuple[Index, Index]:
    """Row numbers to train on and to calibrate on, which are a share of the rows, stratified by label.

    Raises
    ------
    DataError
        If a class has fewer than two rows, or fewer rows are held out than there are classes.
    """
    counts = np.unique(y, return_counts=True)[1]
    smallest, held = int(counts.min()), math.ceil(share * y.shape[0])
    if smallest < 2:
        raise DataError(f"calibration holds out {share:.0%} of each class, and the smallest has {smallest} row.")
    if held < len(counts):
        raise DataError(
            f"calibration holds out {share:.0%} of the {y.shape[0]} rows, which is {held}, of {len(counts)} classes. "
            "Give more rows, or leave calibration out."
        )
    train, held = train_test_split(np.arange(y.shape[0]), test_size=share, stratify=y, random_state=random_state)
    return np.sort(train), np.sort(held)


def fit_calibrator(method: str, scores: Floats, second: Bools, weight: Floats | None) -> Calibrator:
    """A map from scores to the probability of `classes_[1]`: Platt's sigmoid or isotonic regression.

    The sigmoid is fitted to Platt's targets `(N+ + 1) / (N+ + 2)` and `1 / (N- + 2)` in the place of 1 and 0, N+ and N-
    being the sums of weights (J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999, section 2.2): scores
    that separate the classes then have a finite slope, and no probability comes from few rows alone.
    """
    if method == "isotonic":
        model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        isotonic: Calibrator = model.fit(scores, second.astype(np.float64), sample_weight=weight)
        return isotonic
    weight = np.ones(scores.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    positive, negative = float(weight[second].sum()), float(weight[~second].sum())
    target = np.where(second, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
    scale = max(float(np.abs(scores).max(initial=0.0)), 1e-300)  # large scores would stop the optimiser early
    shares = np.concatenate((target * weight, (1.0 - target) * weight))  # a target t: a row of weight t, one of 1 - t
    labels = np.repeat([True, False], scores.shape[0])
    logistic = LogisticRegression(C=np.inf, tol=1e-6).fit(
        np.tile(scores / scale, 2)[:, None], labels, sample_weight=shares
    )
    logistic.coef_ /= scale
    sigmoid: Calibrator = logistic
    return sigmoid


def calibrated(model: Calibrator, scores: Floats) -> Floats:
    """Probabilities of both classes, shape (n, 2)."""
    if isinstance(model, LogisticRegression):
        return np.asarray(model.predict_proba(scores[:, None]), dtype=np.float64)
    second = np.asarray(model.predict(scores), dtype=np.float64)
    return np.column_stack([1.0 - second, second])
