"""An SVM whose bias is shifted afterwards until the goal is met: `ShiftedSVC`."""

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils.validation import check_is_fitted

from widemargin import External, GoalThresholdClassifier
from widemargin.extending import BinaryGoalMixin, Column, Features, Floats, Table, checked_rows, kinds, parameters
from widemargin.goals import Goal
from widemargin_papers.baselines.zafar import ZafarClassifier

__all__ = ["ShiftedSVC"]


@parameters
class ShiftedSVC(BinaryGoalMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Unconstrained linear SVM whose bias is then shifted, exactly, to meet a goal on the training rows.

    The baseline of Goh et al. (2016, Sections 3 and 4.2), for any number of constraints: of all thresholds that meet
    them, the one with the best objective is taken. The direction of the SVM does not take the goal into account, so
    constraints that pull in opposite directions (a recall floor and a churn ceiling) are often out of its reach.

    Parameters
    ----------
    goal : Goal or str, default=None
        What to minimise and what must hold. None: the error rate, unconstrained.
    C : float, default=1.0
        Inverse strength of the regulariser, `1/2 |w|^2 + C sum hinge`.
    tol : float, default=1e-6
        Relative duality gap of the SVM.
    pos_label : label, default=None
        The class that rates call positive; None means `classes_[1]`.
    baselines : dict of str to fitted classifier, default=None
        Models that `churn`, `win_rate`, ... may name; a column of `populations` of that name comes first.
    on_infeasible : {"raise", "warn"}, default="raise"
        Where no threshold meets the goal: raise `InfeasibleGoalError`, or warn and keep the one of least violation.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        That of the shifted model.
    threshold_ : float
        How far the SVM's own bias was shifted.
    classes_ : ndarray of shape (2,)
    positive_class_ : label
    goal_report_ : GoalReport
        The goal on the training rows.
    status_ : str
        "converged", "infeasible" or "interrupted".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    GoalThresholdClassifier : The same for any scorer, on rows that the scorer did not see.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin_papers.baselines import ShiftedSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = (X[:, 0] + rng.normal(size=400) > 0.8).astype(int)
    >>> clf = ShiftedSVC("minimize false_positive_rate()\\nsubject to recall() >= 0.8").fit(X, y)
    >>> bool(clf.predict(X)[y == 1].mean() >= 0.8)
    True
    """

    _stored_arrays: ClassVar[Mapping[str, str]] = {"classes_": "label 2", "coef_": "float 1 d", "intercept_": "float 1"}
    goal: Goal | str | None = field(default=None, kw_only=False)
    C: kinds.Positive = 1.0
    tol: kinds.Positive = 1e-6
    pos_label: kinds.PosLabel = None
    baselines: Mapping[str, Any] | None = None
    on_infeasible: kinds.OnInfeasible = "raise"
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Features,
        y: Column,
        sample_weight: Column | None = None,
        populations: Table | None = None,
        external: Mapping[str, External] | None = None,
    ) -> "ShiftedSVC":
        """Train the SVM on all rows, then shift its bias by their rates (and those of the external data sets).

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
        y : array-like of shape (n,)
            Two classes.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0, for the SVM and the rates.
        populations : table with n rows, default=None
            The columns that the goal's populations and baselines name.
        external : dict of str to External, default=None
            Rows beside these that the goal names by `Population.external(name)`.

        Returns
        -------
        self

        Raises
        ------
        GoalError, DataError
            As `RateConstrainedClassifier.fit`.
        InfeasibleGoalError
            If no threshold meets the goal, unless `on_infeasible="warn"`.
        """
        _, labels = checked_rows(self, X, y)
        self._set_classes(labels)
        svm = ZafarClassifier(C=self.C, tol=self.tol, pos_label=self.pos_label, n_jobs=self.n_jobs)
        interrupted = False
        try:
            svm.fit(X, y, sample_weight)
        except KeyboardInterrupt:
            if not hasattr(svm, "coef_"):
                raise
            interrupted = True
        shifted = GoalThresholdClassifier(
            svm, self.goal, cv="prefit", pos_label=self.pos_label, baselines=self.baselines,
            on_infeasible=self.on_infeasible, n_jobs=self.n_jobs,
        ).fit(X, y, sample_weight, populations, external)  # fmt: skip
        self.svm_ = svm
        self.coef_ = svm.coef_
        self.threshold_ = shifted.threshold_
        self.intercept_ = svm.intercept_ - shifted.threshold_
        self.status_ = "interrupted" if interrupted else shifted.status_
        self.goal_report_ = dataclasses.replace(shifted.goal_report_, data_name="training rows")
        if interrupted:
            raise KeyboardInterrupt
        return self

    def decision_function(self, X: Features) -> Floats:
        """Signed scores, shape (n,); positive means `classes_[1]`."""
        check_is_fitted(self)
        scores: Floats = self.svm_.decision_function(X)
        return np.asarray(scores - self.threshold_)  # in this order: exactly the predictions that were counted

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,)."""
        check_is_fitted(self)
        return self._labels(self._direction() * self.decision_function(X) > 0.0)
