"""What models with thresholds share: the parameters, the fitted attributes and their report, and predictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from numbers import Integral
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags, validation
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from widemargin._text import listing
from widemargin._typing import Classifier, Column, Features, Floats, Ints, Signs, Table
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import as_goal, asked_rows
from widemargin.estimators._options import parameters
from widemargin.estimators.thresholds.class_offsets import OffsetRule, class_scores
from widemargin.estimators.thresholds.groups import find_groups, group_numbers
from widemargin.estimators.thresholds.guarantee import Provable
from widemargin.estimators.thresholds.rule import Rule
from widemargin.estimators.thresholds.scores import raw_scores, row_wise
from widemargin.exceptions import DataError, DoubtfulModelWarning, InfeasibleGoalError, warn, warn_of_kept
from widemargin.goals import Goal, Population
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.labels import ordered_classes, plain_labels
from widemargin.goals.binding.membership import disjoint
from widemargin.goals.binding.sources import Source, make_sources
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.goals.language.goal import checked_goal
from widemargin.goals.measuring.exact_tests import EITHER, Possible
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.measured_report import make_report
from widemargin.rows import Rows, length_of

FEW = 30
"""Rows of a population: a rate of fewer is off by more than .18 in one draw of twenty."""


def randomizes(estimator: "ThresholdedModel") -> bool:
    """Whether there are random predictions, and if not, why."""
    if not estimator.randomize:
        raise AttributeError("the thresholds are fixed ones; set randomize=True for thresholds drawn at random.")
    return True


@parameters
class ThresholdedModel(Provable, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """An inner scorer and the threshold (or one a group of rows) at which a goal is met; of several classes an offset
    for each of them.
    """

    estimator: Annotated[Any, HasMethods(["fit", "predict_proba"]), HasMethods(["fit", "decision_function"])] = field(
        kw_only=False
    )
    goal: Goal | str | None = field(default=None, kw_only=False)
    per_population: Annotated[str | int | Sequence[Population] | None, str, Integral, list, tuple, None] = None
    randomize: bool = False
    pos_label: kinds.PosLabel = None
    baselines: Mapping[str, Classifier] | None = None
    on_infeasible: kinds.OnInfeasible = "raise"
    random_state: kinds.Random = None
    n_jobs: int | None = None

    # `score` needs no populations where there is one threshold, so routing them to `fit` alone has to be allowed.
    __metadata_request__score: ClassVar[dict[str, bool]] = {"populations": False}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.classifier_tags.multi_class = self._only_binary() is None
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        tags.input_tags.string = inner.string
        tags.input_tags.categorical = inner.categorical
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "threshold_" in vars(self)

    def _set_classes(self, y: npt.NDArray[Any], fitted_classes: npt.NDArray[Any] | None = None) -> None:
        """Two classes, one of them positive, or several; no threshold of an earlier fit is left beside them."""
        self.__dict__.pop("threshold_", None)
        known = np.unique(y) if fitted_classes is None else fitted_classes
        if len(known) <= 2:
            super()._set_classes(y, fitted_classes)
            return
        if not np.isin(y, known).all():
            raise DataError(
                f"y holds the classes {np.unique(y).tolist()} and the fitted estimator knows {known.tolist()}; give "
                "rows of these only."
            )
        ordered_classes(known.tolist(), self.pos_label)  # which refuses a positive one
        if (reason := self._only_binary()) is not None:
            raise DataError(
                "Only binary classification is supported. The type of the target is multiclass "
                f"({len(known)} classes), and {reason}."
            )
        self.classes_, self.positive_class_ = known, None

    def _only_binary(self) -> str | None:
        """Why there may be two classes only."""
        if self.goal is not None and checked_goal(self.goal).needs_positive_class:
            return 'the goal does not say which class it speaks of: name it, as in recall(of="cat")'
        return "randomize=True is for two" if self.randomize else None

    def _several(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.classes_) > 2

    def _direction(self) -> float:
        """+1 where the positive class is `classes_[1]`, else -1; scores of several classes have no direction."""
        return 1.0 if self._several() else super()._direction()

    def _checked(
        self, X: Features, y: Column, sample_weight: Column | None, populations: Table | None,
        external: Mapping[str, Rows] | None,
    ) -> tuple[Rows, npt.NDArray[Any], Floats | None]:  # fmt: skip
        """The rows as they are handed to the estimator, and their labels and weights, which are checked."""
        X = row_wise(X)
        labels: npt.NDArray[Any] = validation._check_y(plain_labels(y), multi_output=False, estimator=self)
        check_classification_targets(labels)
        validation.check_consistent_length(X, labels)
        if labels.shape[0] < 1:
            raise DataError("X and y hold 0 rows; give rows of both classes.")
        weight = None
        if sample_weight is not None:
            weight = validation._check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True)
        if populations is not None and length_of(populations) != labels.shape[0]:
            raise DataError(
                f"populations has {length_of(populations)} rows and y {labels.shape[0]}; give one row per example."
            )
        rows = Rows(X, labels, weight, populations, external=external or {}, baselines=self.baselines or {})
        return rows, labels, weight

    def _set_groups(self, rows: Rows) -> None:
        """The groups of rows that get a threshold of their own; None where there is one threshold."""
        self.groups_: tuple[Population, ...] | None = None
        if self.per_population is not None:
            self.groups_ = find_groups(self.per_population, rows.X, rows.populations, rows.n_rows)

    def _tie(self, rows: Rows, said: Callable[[Source], Signs] | None = None) -> TiedGoal:
        """The goal on the rows that thresholds are chosen on.

        Parameters
        ----------
        said : callable, optional
            For a model that abstains: the decisions on the rows of a source, if all were decided.
        """
        self.goal_ = as_goal(self.goal)
        classes = ordered_classes(self.classes_.tolist(), self.positive_class_)
        sources = make_sources(baselines_used(self.goal_), rows, classes=classes)
        if said is not None:
            sources = tuple(source.that_says(said(source)) for source in sources)
        # No warning that a trivial classifier may meet a ratio: the searches count an undefined one as violated.
        return bind(self.goal_, sources, warn_trivial=False)

    def _group_numbers(self, rows: Rows, tied: TiedGoal) -> list[Ints]:
        """The group of each row of each source, where thresholds are chosen on these rows."""
        numbers = self._groups_of_rows(rows, tied)
        groups = self.groups_ or ()
        empty = [g.reference for i, g in enumerate(groups) if not (numbers[0] == i).any()]
        if empty:
            raise DataError(
                f"{len(empty)} of {len(groups)} populations have no validation rows to choose a threshold "
                f"on: {listing(empty, 5)}. Give more rows, or join small populations."
            )
        sizes = np.bincount(numbers[0], minlength=len(groups))
        if groups and (few := int((sizes < FEW).sum())) and getattr(self, "confidence", None) is None:
            warn(
                f"{few} of {len(groups)} populations have fewer than {FEW} rows to choose a threshold on (the smallest "
                f"{sizes.min()}): such thresholds fit these rows by chance. Join small populations, or take fewer.",
                DoubtfulModelWarning,
            )
        return numbers

    def _groups_of_rows(self, rows: Rows, tied: TiedGoal) -> list[Ints]:
        """The group of each row of each source, whatever the rows are for."""
        of_sources = [asked_rows(rows, part.name) for part in tied.given]
        return [group_numbers(self.groups_, own.X, own.populations, own.n_rows) for own in of_sources]

    def _possible(self, rule: Rule | OffsetRule) -> Possible:
        """What a rule can decide for the rows of a population, by its definition."""
        if not isinstance(rule, Rule):  # of several classes
            return lambda population: EITHER
        said = rule.constant_decisions()
        conditions = [Population(None, where=group.where) for group in self.groups_ or ()]
        # A model that abstains has two groups of thresholds for each population, one a side.
        sides = len(said) // max(1, len(conditions))

        def possible(population: Population) -> slice:
            # Only thresholds of groups that can share rows with this population matter to its rates.
            here = Population(None, where=population.where)
            reached = [g for g in range(len(said)) if not conditions or not disjoint(conditions[g // sides], here)]
            first, *others = {said[g] for g in reached} or {None}
            if others or first is None:
                return EITHER
            if self._abstains():  # all are decided, one way or the other, or none
                return slice(2, 3) if first else slice(0, 2)
            return slice(first, first + 1)

        return possible

    def _abstains(self) -> bool:
        """Whether a row may be left undecided."""
        return False

    def _scores_by(self, estimator: Any, X: Any) -> Floats:
        """What thresholds or offsets are chosen on."""
        return class_scores(estimator, X, self.classes_) if self._several() else raw_scores(estimator, X)

    def _adopt_rule(self, rule: Rule | OffsetRule, *, met: bool) -> None:
        """Set what a rule decides by, and whether the search for it met the goal.

        Scores that rules are chosen on are larger for the positive class; thresholds are set for the estimator's own.
        """
        self.status_ = "converged" if met else "infeasible"
        if isinstance(rule, OffsetRule):
            self.threshold_: Any = None
            self.offsets_: Any = rule.offsets if self.groups_ else rule.offsets[0]
            return
        direction = self._direction()
        self.threshold_ = direction * (rule.medians if self.groups_ else float(rule.medians[0]))
        self.mixture_thresholds_: Any = direction * rule.thresholds if self.randomize else None
        self.mixture_weights_: Any = rule.probability if self.randomize else None

    def _report(
        self, tied: TiedGoal, positive: Predictions, shares: Predictions, *, data_name: str,
        certificate: str | None, foretell: bool,
    ) -> None:  # fmt: skip
        """Measure the decisions on the rows that the thresholds were chosen on; cautions are warned of."""
        self.goal_report_: GoalReport = make_report(
            tied, positive, positive_class=self.positive_class_, certificate=certificate, status=self.status_,
            data_name=data_name, soft=tied.measure(tied.positive_mass(shares)) if self.randomize else None,
            randomized=self.randomize,
            # What was promised of the draws says nothing of `predict`, which is what is foretold.
            foretell=foretell and not self.randomize,
        )  # fmt: skip
        refused = self.status_ == "infeasible" and self.on_infeasible == "raise"  # nobody gets this model
        for caution in () if refused else self.goal_report_.cautions:
            warn(caution, DoubtfulModelWarning)

    def _refuse(self, message: str) -> None:
        """Raise or warn where the goal is not met, as `on_infeasible` says."""
        if self.on_infeasible == "raise":
            raise InfeasibleGoalError(message)
        warn_of_kept(message)

    def decision_function(self, X: Any, populations: Any = None) -> Floats:
        """The estimator's score minus `threshold_` (of the row's population), shape (n,); positive means `classes_[1]`.

        Of several classes the scores plus `offsets_`, shape (n, K); the largest wins.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        populations : table with n rows, default=None
            With `per_population`: the columns that say which population a row belongs to; those not found there are
            looked up in X where it is a data frame.

        Raises
        ------
        DataError
            If a row belongs to no population that has a threshold.
        """
        scores, group = self._scores_and_groups(X, populations)
        if self._several():
            return np.asarray(scores + np.atleast_2d(self.offsets_)[group], dtype=np.float64)
        return np.asarray(scores - np.atleast_1d(self.threshold_)[group], dtype=np.float64)

    def predict(self, X: Any, populations: Any = None) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,); `populations` as in `decision_function`.

        With `randomize=True`: the class that `predict_randomized` names more often; the goal is not enforced on its
        rates.
        """
        scores = self.decision_function(X, populations)
        if self._several():
            return np.asarray(self.classes_[np.argmax(scores, axis=1)])
        return self._labels(self._direction() * scores > 0.0)

    def score(self, X: Any, y: Any, sample_weight: Any = None, populations: Any = None) -> float:
        """Accuracy of `predict`."""
        return float(accuracy_score(y, self.predict(X, populations), sample_weight=sample_weight))

    @available_if(randomizes)  # type: ignore[untyped-decorator]
    def randomized_proba(self, X: Any, populations: Any = None) -> Floats:
        """Probabilities with which `predict_randomized` names each class, shape (n, 2), columns as `classes_`.

        They are a rule of decision, a step function of the score; they do not estimate the probability of the class.
        """
        scores, group = self._scores_and_groups(X, populations)
        above = self._direction() * (scores[:, None] - self.mixture_thresholds_[group]) > 0.0
        return self._class_columns(np.clip((above * self.mixture_weights_[group]).sum(axis=1), 0.0, 1.0))

    @available_if(randomizes)  # type: ignore[untyped-decorator]
    def predict_randomized(self, X: Any, random_state: Any = None, populations: Any = None) -> npt.NDArray[Any]:
        """Labels drawn from `randomized_proba`, shape (n,).

        Parameters
        ----------
        X : array-like of shape (n, d)
        random_state : int, RandomState or None, default=None
            None: the estimator's own `random_state`.
        populations : table with n rows, default=None
        """
        return self._drawn(self.randomized_proba(X, populations), random_state)

    def _enforced(self, X: Any, populations: Any) -> npt.NDArray[Any]:
        if self.randomize:
            return np.asarray(self.predict_randomized(X, populations=populations))
        return self.predict(X, populations)

    def _scores_and_groups(self, X: Any, populations: Any) -> tuple[Floats, Ints]:
        """Scores of the inner estimator, and the number of each row's group (0 where there is one threshold)."""
        validation.check_is_fitted(self, "threshold_")
        scores = self._scores_by(self.estimator_, X if hasattr(X, "shape") else np.asarray(X))
        return scores, group_numbers(self.groups_, X, populations, len(scores))

    @property
    def n_features_in_(self) -> int:
        """Number of features seen by the estimator."""
        return int(self._of_estimator("n_features_in_"))

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """Names of the features seen by the estimator."""
        return np.asarray(self._of_estimator("feature_names_in_"))

    def _of_estimator(self, name: str) -> Any:
        if not hasattr(vars(self).get("estimator_"), name):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}: its estimator has none.")
        return getattr(self.estimator_, name)


def features_of(rows: Rows, tied: TiedGoal) -> list[Features]:
    """Features of the rows of each source, in a form whose rows can be sliced."""
    return [rows.X, *(row_wise(asked_rows(rows, part.name).X) for part in tied.given[1:])]
