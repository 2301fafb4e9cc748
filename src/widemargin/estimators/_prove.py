"""The verb between `fit` and `predict`: prove a fitted classifier on rows that nothing was chosen on."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import Classifier, Column, Features, Table
from widemargin.estimators._binary import BinaryGoalMixin, predicted_goal
from widemargin.estimators.thresholds.guarantee import Judged, fixed_sequence, guarantee_text, unproved_text
from widemargin.exceptions import DataError, InfeasibleGoalError
from widemargin.goals import Goal
from widemargin.goals.binding.labels import ordered_classes
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.measured_report import make_report
from widemargin.rows import Rows


class Provable(BinaryGoalMixin):
    """A fitted classifier with a goal, which fresh rows can prove."""

    goal_: Goal
    status_: str
    baselines: Mapping[str, Classifier] | None
    predict: Any

    def prove(
        self,
        X: Features,
        y: Column,
        populations: Table | None = None,
        external: Mapping[str, Rows] | None = None,
        *,
        confidence: float = 0.95,
    ) -> GoalReport:
        """Prove on fresh rows that the fitted classifier meets its goal in the distribution that they come from.

        `fit` chooses, `prove` looks at rows that nothing was chosen on, `predict` decides. One classifier is tested, so
        nothing is paid for a choice: each constraint has an exact test at the full level, and the goal is proved where
        all tests reject (`fit` with a `confidence` does the same for several candidates, on rows it holds out). Where
        the goal is about random predictions, decisions are drawn for these rows once, and their rates are tested.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        y : array-like of shape (n,)
        populations : table with n rows, default=None
            As in `fit`.
        external : dict of str to External, default=None
            Fresh rows of the data sets that the goal names.
        confidence : float in [0.5, 1), default=0.95

        Returns
        -------
        GoalReport
            On these rows; its `certificate` is what is proved, and under which assumptions.

        Raises
        ------
        InfeasibleGoalError
            If the rows do not prove it; the message names what is missing, with p-values and numbers of rows.
        CapabilityError
            If a constraint is about numbers of rows.
        """
        check_is_fitted(self, "goal_report_")
        if not 0.5 <= confidence < 1.0:
            raise DataError(f"confidence={confidence!r} must be at least 0.5 and below 1.")
        rows = Rows(X, y, None, populations, external=external or {}, baselines=self.baselines or {})
        classes = ordered_classes(self.classes_.tolist(), self.positive_class_)
        tied, positive = predicted_goal(self.goal_, rows, classes, self._enforced, getattr(self, "abstain", None))
        proof = fixed_sequence([self], [], lambda _: Judged.of(self, tied, tied.positive_mass(positive)), confidence)
        if not proof.met:
            text = unproved_text(tied, proof, confidence, refused="this classifier cannot", nearest="it")
            raise InfeasibleGoalError(text)
        return make_report(
            tied, positive, positive_class=self.positive_class_, data_name="rows of the proof", status=self.status_,
            certificate=guarantee_text(tied, proof, confidence),
        )  # fmt: skip

    def _enforced(self, X: Features, populations: Table | None) -> npt.NDArray[Any]:
        """Labels by the predictions that the goal is enforced on."""
        return np.asarray(self.predict(X))
