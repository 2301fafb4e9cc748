"""A score for searches that knows the goal: feasibility first, then the objective."""

from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from widemargin._typing import Classifier
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import as_goal, predicted_goal
from widemargin.estimators._options import parameters
from widemargin.exceptions import DataError
from widemargin.goals import Goal
from widemargin.goals.binding.labels import innermost, ordered_classes, plain_value
from widemargin.goals.measuring.intervals import slack_variances
from widemargin.goals.measuring.rates_of_predictions import TOLERANCE
from widemargin.rows import External, Rows, ask_model


@parameters
class GoalScorer(BaseEstimator):  # type: ignore[misc]
    """Scores fitted classifiers on a goal; made by `goal_scorer`. Called as `scorer(estimator, X, y, ...)`.

    Where metadata routing is enabled, `set_score_request(populations=True, sample_weight=True)` asks a search for them.
    """

    # scikit-learn reads off `score` what a search may pass on; the estimator is handed over by the search itself.
    __metadata_request__score: ClassVar[dict[str, Any]] = {"estimator": UNUSED}

    goal: Goal | str | None = field(default=None, kw_only=False)
    tolerance: float = 0.0
    external: Mapping[str, External] | None = None
    baselines: Mapping[str, Classifier] | None = None
    pos_label: kinds.PosLabel = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, populations: Any = None) -> float:
        """The same as `score`, as searches call it."""
        return self.score(estimator, X, y, sample_weight, populations)

    def score(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, populations: Any = None) -> float:
        """The score, larger is better; see `goal_scorer`.

        Parameters
        ----------
        estimator : fitted classifier
        X : array-like or data frame of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
        populations : table with n rows, default=None
            Columns not found there are looked up in X where it is a data frame.

        Raises
        ------
        GoalError, DataError
            If the goal does not fit the rows.
        """
        if not np.isfinite(self.tolerance):
            raise DataError(f"tolerance is {self.tolerance!r}; give a number of standard errors, such as 1.")
        goal = as_goal(self.goal)
        inner = innermost(estimator)  # the classifier's own settings stand there, inside a pipeline or a search
        own = getattr(inner, "positive_class_", getattr(inner, "pos_label", None))
        positive = own if self.pos_label is None else self.pos_label
        pair = ordered_classes(list(map(plain_value, estimator.classes_)), positive, goal)
        main = Rows(X, y, sample_weight, populations, external=self.external or {}, baselines=self.baselines or {})
        ask = partial(ask_model, estimator.predict)
        tied, decided = predicted_goal(goal, main, pair, ask, getattr(inner, "abstain", None))
        measured = tied.measure(tied.positive_mass(decided))
        slack = measured.slack
        if self.tolerance != 0.0:
            slack = slack + float(self.tolerance) * np.sqrt(slack_variances(tied, decided).sum(axis=0))
        missed = -slack / np.maximum(1.0, np.abs(np.nan_to_num(measured.bound)))
        # An undefined ratio counts as a violation of 1, as large as that of any rate can be.
        violation = float(np.where(np.isnan(slack), 1.0, missed).max(initial=0.0))
        if violation <= TOLERANCE:
            return -float(measured.objective)
        # Below the score of the worst predictions that could meet the goal, so that feasibility always comes first.
        largest = np.maximum(tied.coefficients.alpha0, tied.coefficients.beta0)
        return -float(largest @ tied.cell_weight + tied.objective_constant) - violation


def goal_scorer(
    goal: Goal | str | None = None,
    *,
    tolerance: float = 0.0,
    external: Mapping[str, External] | None = None,
    baselines: Mapping[str, Any] | None = None,
    pos_label: Any = None,
) -> GoalScorer:
    """A scorer for `GridSearchCV`, `cross_val_score` and the like: feasibility first, then the objective.

    If the 0/1 predictions meet every constraint on the scored rows, the score is minus the objective. If not, it is
    minus the largest objective that any predictions can have there, minus the largest violation. So a model that meets
    the goal always scores higher than one that misses it, and a small violation higher than a large one.

    Parameters
    ----------
    goal : Goal or str, default=None
        What is promised. It stays the same while a search varies the bounds to which its candidates are trained.
    tolerance : float, default=0.0
        In standard errors: a constraint counts as met if its slack is at least minus so many of them. A bound that
        training meets exactly is missed on other rows about half of the time; 1 forgives that noise. Negative values
        ask for room.
    external : dict of str to External, default=None
        Data sets of the goal beside the scored rows; never sliced.
    baselines : dict of str to fitted classifier, default=None
        Models that `churn`, `win_rate`, ... may name; a column of the populations of that name comes first.
    pos_label : label, default=None
        None: the classifier's own, else the second of its classes.

    Returns
    -------
    GoalScorer

    See Also
    --------
    RateConstrainedClassifierCV : Chooses C with a rule for noise over all folds, instead of a mean of scores.

    Notes
    -----
    Searches average scores over folds, so a candidate that misses the goal in one fold of many may still win. With
    `tolerance=1` this is rarer.

    Populations reach a scorer as columns of a data frame X, or by metadata routing (see the examples).

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn.model_selection import GridSearchCV
    >>> from widemargin import RateConstrainedClassifier, goal_scorer
    >>> from widemargin.goals import Goal
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    >>> y = (X["a"] + rng.normal(size=400) > 0.8).astype(int)
    >>> promised = Goal.parse("minimize error_rate(); subject to floor: recall() >= 0.7")
    >>> bounds = [promised.with_level(level, "floor") for level in (0.7, 0.75, 0.8)]
    >>> search = GridSearchCV(RateConstrainedClassifier(), {"goal": bounds}, scoring=goal_scorer(promised), cv=3)
    >>> search.fit(X, y).best_params_["goal"] in bounds
    True
    """
    return GoalScorer(goal, tolerance=tolerance, external=external, baselines=baselines, pos_label=pos_label)
