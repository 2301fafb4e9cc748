"""`RateConstrainedClassifierCV`: the regulariser and the number of steps by cross-validation under the goal."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from widemargin._threads import limit_threads
from widemargin._typing import Bools, Floats
from widemargin.estimators._binary import as_goal
from widemargin.estimators._options import cause_of, parameters
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.folds import FoldMeasure, Setting, ValidationRows, choose_setting, validate
from widemargin.estimators.rate_constrained.ramp_model import RampParameters
from widemargin.estimators.thresholds.scores import make_splits, row_wise
from widemargin.exceptions import CapabilityError, DataError, GoalWarning, MarginConvergenceWarning, warn
from widemargin.rows import External
from widemargin.solvers.base import Budget


@parameters
class RateConstrainedClassifierCV(RampParameters, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """`RateConstrainedClassifier` with C and the number of steps chosen by cross-validation under the goal.

    A lower training objective does not mean a lower test error (on a9a more steps and a larger C lower only the first).
    So both are chosen by the objective on held-out rows, among the settings that keep the goal's bounds there up to
    noise.

    Parameters
    ----------
    goal : Goal or str, default=None
        What to minimise and what must hold. None: the error rate, unconstrained.
    Cs : int or array-like of float, default=6
        Candidates of C, or how many between 0.02 and 2 (lambda = 100 / n and 1 / n), on a logarithmic scale.
    max_steps : int or array-like of int, default=(5, 8)
        Candidates of the number of majorisation steps: early stopping. Fewer than 4 or 5 do not get away from the
        start.
    cv : int, splitter or iterable of (train, test), default=5
        An integer: that many shuffled folds, stratified by label and populations.
    rule : {"best", "one-standard-error"}, default="best"
        The lowest mean held-out objective, or the simplest setting (smallest C, then fewest steps) within one standard
        error of it.
    refit : bool, default=True
        Fit the chosen setting to all rows; without it there is nothing to predict with.
    kernel, gamma, feature_map
        As in `RateConstrainedClassifier`; kernel="precomputed" is refused, because folds slice rows only.
    enforce, pos_label, baselines, on_infeasible
        As in `RateConstrainedClassifier`.
    time_budget : float, default=None
        Seconds after which validation ends with the folds done; fitting all rows is not cut short.
    callbacks, n_jobs
        As in `RateConstrainedClassifier`; stage "validate" counts the settings measured, and a callback that returns
        True ends validation with the folds done.
    random_state : int, RandomState or None, default=None
        Of the folds where `cv` is an integer.
    solver_options : TrainingOptions or dict, default=None
        As in `RateConstrainedClassifier`. The folds are solved to `step_tol`, without a last step to `tol`.

    Attributes
    ----------
    C_ : float
    n_steps_ : int
        The setting chosen, `max_steps` of `best_estimator_`.
    best_index_ : int
        Its place in `cv_results_`.
    cv_results_ : dict of ndarray
        One entry a setting: "C", "max_steps", "mean_objective", "objective_error", "mean_slack" and "slack_error" of
        shape (K, m), "excess" (largest violation in standard errors), "met" (on the training rows of all folds),
        "admissible", "mean_fit_time", and "split0_objective", "split0_slack", ...
    n_splits_ : int
        Folds that were done: fewer where the time ended, or where every setting had missed the goal in training.
    best_estimator_ : RateConstrainedClassifier
    coef_, intercept_, goal_report_, status_
        Those of `best_estimator_` (no `coef_` for an exact kernel); all these only with `refit=True`.
    classes_ : ndarray of shape (2,)
    positive_class_ : label
    goal_ : Goal
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    widemargin.tradeoff_path : The price of one bound.

    Notes
    -----
    **The rule.** Objective and slacks of a setting are means over the folds, measured in the rates that are enforced
    (0/1 or ramp). Their standard errors are those of the draw of the held-out rows; external data sets are the same in
    every fold, so their part does not average out. A setting is admissible if it met the goal on the training rows of
    every fold and no constraint's mean slack lies below `-z(1 - 0.05 / m)` standard errors (m constraints, z the normal
    quantile): one that exactly meets all its bounds is then rejected with a probability of at most 5%. Of the
    admissible settings the one with the best objective is taken, and of equal ones the simpler. If none is admissible,
    the one of least violation is taken, with a warning.

    Nothing is guaranteed on new rows, because the folds have chosen the setting. For a guarantee keep rows aside and
    use `GoalThresholdClassifier(..., confidence=...)`.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import RateConstrainedClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = (X[:, 0] + rng.normal(size=400) > 0.8).astype(int)
    >>> goal = "minimize error_rate()\\nsubject to recall() >= 0.8"
    >>> clf = RateConstrainedClassifierCV(goal, Cs=[0.02, 0.2], cv=3, random_state=0).fit(X, y)
    >>> clf.C_ in (0.02, 0.2)
    True
    """

    Cs: Annotated[int | Sequence[float], Interval(Integral, 1, None, closed="left"), "array-like"] = 6
    max_steps: Annotated[int | Sequence[int], Interval(Integral, 1, None, closed="left"), "array-like"] = (5, 8)
    cv: Annotated[Any, "cv_object"] = 5
    rule: Literal["best", "one-standard-error"] = "best"
    refit: bool = True

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        populations: Any = None,
        external: Mapping[str, External] | None = None,
    ) -> "RateConstrainedClassifierCV":
        """Choose the setting on folds of labelled rows, and fit it to all of them.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
        populations : table with n rows, default=None
            Sliced with the rows, as the weights are.
        external : dict of str to External, default=None
            Never sliced: each data set is whole in every fold.

        Returns
        -------
        self

        Raises
        ------
        GoalError
            If the goal does not fit the data, or the rows of a fold.
        DataError
            If data are missing or of the wrong shape, or too few for the folds.
        CapabilityError
            If a bound is a number of rows, or the kernel is precomputed.
        InfeasibleGoalError
            If no model that meets the goal was found on all rows, unless `on_infeasible="warn"`.
        """
        if self.kernel == "precomputed":
            raise CapabilityError("kernel='precomputed' cannot be cut into folds; give the kernel by name.")
        # by default lambda falls from 100 / n to 1 / n
        Cs = np.geomspace(0.02, 2.0, self.Cs) if isinstance(self.Cs, Integral) else np.asarray(self.Cs)
        steps = np.atleast_1d(np.asarray(self.max_steps))
        if Cs.ndim != 1 or not len(Cs) or not (np.isfinite(Cs).all() and (Cs > 0).all()):
            raise DataError(f"Cs holds {Cs.size} candidates; give at least one, each a finite number > 0.")
        if steps.ndim != 1 or not len(steps) or not (np.equal(steps, np.round(steps)).all() and (steps >= 1).all()):
            raise DataError(f"max_steps holds {steps.size} candidates; give at least one, each an integer >= 1.")
        settings = [Setting(float(C), int(s)) for C in np.unique(Cs) for s in np.unique(steps)]
        shared = {name: getattr(self, name) for name in RampParameters.__dataclass_fields__ if name != "time_budget"}
        plain, budget = RateConstrainedClassifier(**shared), self._budget()
        self.goal_ = as_goal(self.goal)
        checked = plain._checked(row_wise(X), y, sample_weight, populations, external)
        rows = ValidationRows(plain, self.goal_, checked)
        for name in ("classes_", "positive_class_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(plain, name):
                setattr(self, name, getattr(plain, name))
        splits = make_splits(self.cv, checked.labels, check_random_state(self.random_state), rows.strata)
        with limit_threads(self.n_jobs):
            done = validate(rows, splits, settings, budget)
        self._choose(settings, done, len(splits), budget)
        if self.refit:
            chosen = RateConstrainedClassifier(C=self.C_, max_steps=self.n_steps_, **shared)
            # C is no parameter here, and where the folds preferred a smaller one, a larger one is no cure.
            chosen._more_room = "allow a larger C" if Cs.max() == self.C_ else ""
            if budget.interrupted:
                chosen.solver_options = replace(chosen._options, on_interrupt="return")
            try:
                chosen.fit(X, y, sample_weight, populations, external)
            finally:
                del chosen._more_room
                if hasattr(chosen, "goal_report_"):  # what it has found is kept, also where it raises
                    self.best_estimator_, self.goal_report_ = chosen, chosen.goal_report_
                    self.intercept_, self.status_ = chosen.intercept_, chosen.status_
                    if hasattr(chosen, "coef_"):
                        self.coef_ = chosen.coef_
                    if budget.interrupted:
                        self.status_ = "interrupted"
        if budget.interrupted and self._options.on_interrupt == "raise":
            raise KeyboardInterrupt
        return self

    def decision_function(self, X: Any) -> Floats:
        """Signed scores, shape (n,); positive means `classes_[1]`."""
        return self._fitted().decision_function(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,)."""
        return self._fitted().predict(X)

    def randomized_proba(self, X: Any) -> Floats:
        """Probabilities with which the randomised classifier names each class, shape (n, 2)."""
        return self._fitted().randomized_proba(X)

    def predict_randomized(self, X: Any, random_state: Any = None) -> npt.NDArray[Any]:
        """Labels drawn from `randomized_proba`, shape (n,)."""
        return self._fitted().predict_randomized(X, random_state)

    def _fitted(self) -> RateConstrainedClassifier:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def _choose(
        self, settings: Sequence[Setting], done: Sequence[Sequence[FoldMeasure]], expected: int, budget: Budget
    ) -> None:
        """Set what validation found, and say where it ended early or found nothing within noise."""
        self.n_splits_ = len(done)
        if budget.exhausted:
            seconds, cause = budget.elapsed, cause_of(budget)
            warn(
                f"validation ended after {seconds:.1f} s with {len(done)} of {expected} folds ({cause}).",
                MarginConvergenceWarning,
            )
        if not done:  # nothing to choose by
            self.best_index_ = len(settings) // 2
            self.cv_results_: dict[str, Floats | Bools] = {}
        else:
            choice, self.cv_results_ = choose_setting(settings, done, self.rule)
            self.best_index_ = choice.index
            if not choice.admissible.any():
                warn(
                    f"none of {len(settings)} settings keeps the goal's bounds on held-out rows up to noise; the "
                    f"nearest, C={settings[choice.index].C:.3g}, misses one by {choice.excess[choice.index]:.2g} "
                    "standard errors. Loosen the bounds, or give other candidates.",
                    GoalWarning,
                )
        self.C_, self.n_steps_ = settings[self.best_index_]
