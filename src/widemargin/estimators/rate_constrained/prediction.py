"""What a fitted rate-constrained model says of rows: scores, labels, draws, calibrated probabilities."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._typing import Features, Floats, Matrix, Seed
from widemargin.estimators._binary import BinaryGoalMixin
from widemargin.estimators._calibration import Calibrator, calibrated
from widemargin.estimators.feature_space import SpaceParameters, model_scores
from widemargin.estimators.rate_constrained.options import TrainingOptions
from widemargin.losses.ramp import ramp

__all__ = ["DTYPES", "RampModel"]

DTYPES = [np.float64, np.float32]
"""Numbers of features that are used as they are."""


def _calibrates(estimator: "RampModel") -> bool:
    """Whether there is a predict_proba, and if not, why."""
    if estimator.calibration is None:
        raise AttributeError(
            'predict_proba needs probabilities calibrated on held-out rows: set calibration="sigmoid" or "isotonic". '
            "The ramp of the randomised classifier, which is no such probability, is randomized_proba."
        )
    return True


class RampModel(BinaryGoalMixin):
    """What a fitted linear or kernel model with a ramp says of rows (Appendix A of the paper)."""

    calibration: str | None
    random_state: Seed
    calibrator_: Calibrator | None
    solver_options: TrainingOptions | Mapping[str, Any] | None

    @property
    def _options(self) -> TrainingOptions:
        """The options of training, checked."""
        return TrainingOptions.of(self.solver_options)

    def decision_function(self, X: Features) -> Floats:
        """Signed scores, shape (n,); positive means `classes_[1]`. Kernel values are computed in blocks."""
        check_is_fitted(self)
        return self._scores(
            validate_data(self, X, accept_sparse="csr", accept_large_sparse=True, reset=False, dtype=DTYPES, order="C")
        )

    def _scores(self, X: Matrix) -> Floats:
        """Scores of checked rows, shape (n,)."""
        return model_scores(self, X, SpaceParameters.of(self, self._options))[:, 0]

    def _positive_scores(self, matrices: Sequence[Matrix]) -> list[Floats]:
        """Scores of the positive class on checked rows of several sources."""
        return [self._direction() * self._scores(X) for X in matrices]

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,)."""
        check_is_fitted(self)
        return self._labels(self._direction() * self.decision_function(X) > 0.0)

    @available_if(_calibrates)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Features) -> Floats:
        """Calibrated class probabilities, shape (n, 2); only with `calibration="sigmoid"` or `"isotonic"`."""
        check_is_fitted(self)
        assert self.calibrator_ is not None
        return calibrated(self.calibrator_, self.decision_function(X))

    def randomized_proba(self, X: Features) -> Floats:
        """Probabilities with which the randomised classifier names each class, shape (n, 2), columns as `classes_`.

        This is the ramp `clip(1/2 + score, 0, 1)`, a rule of decision, not an estimate of the class probability
        (spec 1, section 5; Appendix A of the paper).
        """
        second = ramp(self.decision_function(X))
        return np.column_stack([1.0 - second, second])

    def predict_randomized(self, X: Features, random_state: Seed = None) -> npt.NDArray[Any]:
        """Labels drawn from `randomized_proba`, shape (n,).

        Parameters
        ----------
        X : array-like of shape (n, d)
        random_state : int, RandomState or None, default=None
            None: the estimator's own `random_state`.
        """
        rng = check_random_state(self.random_state if random_state is None else random_state)
        second = self.randomized_proba(X)[:, 1]
        drawn: npt.NDArray[Any] = self.classes_[(rng.random_sample(second.shape[0]) < second).astype(np.intp)]
        return drawn
