"""Boosting in one run: the prices of the constraints change while the trees grow.

    for each stage: the booster of each fold grows by a share of its rounds, on the costs at the prices of now;
                    prices from the scores of the rows that it does not hold, by the models of all stages so far

A reduction fits a model for each choice of prices. Boosted trees need not begin again: what they have learned at other
prices is corrected by the next trees. Prices come from rows that a booster did not see, because on those that it
learned from its rates say nothing; the final model is the mean of the boosters of all folds.

Boosters of LightGBM and XGBoost stay as they are between the stages: both libraries put the rows into bins once, and
store the scores of all rows while trees are added, so further rounds at other costs take no longer than their trees,
and the state of a booster some rounds ago is its first trees. Those of scikit-learn are fitted further, which puts the
rows into bins anew and asks all earlier trees for their scores at every stage.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _check_feature_names, _get_feature_names

from widemargin._typing import Bools, Features, Floats, Ints
from widemargin.estimators.reduction.cost_sensitive import (
    AveragedScorer,
    CostLearner,
    CrossFitter,
    common_scores,
    last_step,
    stacked,
    with_few_values,
    with_last_fitted,
)
from widemargin.estimators.thresholds.class_offsets import CERTAIN
from widemargin.exceptions import CapabilityError, DataError
from widemargin.rows import length_of, take

DEFAULT_ROUNDS = 100
"""Of XGBoost, where `n_estimators` is None."""


@dataclass
class GrownTrees(ABC):
    """The first trees of a booster, as a scorer.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    before : Pipeline or None
        Fitted steps that make the features of the trees.
    start : float
        Score before the first tree.
    missing : float
        The number that stands for a missing value, of XGBoost.
    names : ndarray of str or None
        Of the columns, where the rows to learn from had names.
    """

    classes_: npt.NDArray[Any]
    before: Pipeline | None
    booster: Any
    rounds: int
    start: float
    missing: float
    names: npt.NDArray[Any] | None

    @property
    def n_features_in_(self) -> int:
        """Number of features d."""
        return int(self._width() if self.before is None else self.before.n_features_in_)

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """Names of the features, where the trees learned from a table that has some."""
        if self.names is None:
            raise AttributeError("feature_names_in_: the trees learned from rows whose columns have no names.")
        return self.names

    def decision_function(self, X: Features) -> Floats:
        """Log odds of `classes_[1]`, shape (n,).

        Raises
        ------
        ValueError
            If X names its columns, and not as the rows that the trees learned from.
        """
        # LightGBM takes columns in any order for those that it knows, without a word.
        if self.names is not None and _get_feature_names(X) is not None:
            _check_feature_names(self, X, reset=False)
        # To both libraries a limit of 0 rounds means all trees.
        if self.rounds == 0:
            return np.full(length_of(X), self.start)
        return np.asarray(self._margins(X if self.before is None else self.before.transform(X)), np.float64)

    @abstractmethod
    def _width(self) -> int: ...

    @abstractmethod
    def _margins(self, X: Features) -> Floats: ...


class LightGBMTrees(GrownTrees):
    """Of LightGBM, whose boosters leave the start out."""

    def _width(self) -> int:
        return int(self.booster.num_feature())

    def _margins(self, X: Features) -> Floats:
        return np.asarray(self.booster.predict(X, raw_score=True, num_iteration=self.rounds) + self.start)


class XGBoostTrees(GrownTrees):
    """Of XGBoost."""

    def _width(self) -> int:
        return int(self.booster.num_features())

    def _margins(self, X: Features) -> Floats:
        rounds = (0, self.rounds)
        return np.asarray(
            self.booster.inplace_predict(X, iteration_range=rounds, predict_type="margin", missing=self.missing)
        )


class GrowingTrees(ABC):
    """A booster, the rows that it learns from, and rows held out.

    Parameters
    ----------
    estimator : LGBMClassifier, XGBClassifier, or a Pipeline that ends with one
        It stays as it is.
    labels : ndarray of shape (n,)
        For the steps before the trees, which are fitted once.
    classes : ndarray of shape (2,)
    X, held : array, CSR matrix or data frame of shape (n, d) and (p, d)
    share : float
        Of the weight, what `classes[1]` has at the first costs.

    Raises
    ------
    DataError
        If no column can be split.
    """

    MODULE: ClassVar[str]
    ROUNDS: ClassVar[tuple[str, ...]]
    """The names under which the number of trees may be given."""
    KINDS: ClassVar[tuple[tuple[str, ...], tuple[Any, ...]]]
    """Those of the way in which trees are added, and its values by which earlier trees stay as they are."""
    WEIGHING: ClassVar[tuple[str, ...]]
    """Those of what weighs classes."""
    trees: ClassVar[type[GrownTrees]]

    def __init__(
        self, estimator: Any, classes: npt.NDArray[Any], X: Features, labels: npt.NDArray[Any], held: Features,
        share: float,
    ) -> None:  # fmt: skip
        self.names = _get_feature_names(X)
        *steps, (_, booster) = steps_of(clone(estimator))
        self.before = Pipeline(steps).fit(X, labels) if steps else None
        if self.before is not None:
            X, held = self.before.transform(X), self.before.transform(held)
        self.missing: float = booster.get_params().get("missing", np.nan)
        # Boosting begins at the log odds of the class, which are infinite where the class has no weight.
        share = min(max(share, CERTAIN), 1.0 - CERTAIN)
        self.classes, self.rounds, self.start = classes, 0, float(logit(share))
        self.scores = np.full(length_of(held), self.start)
        self.booster = self._made(booster, X, held, share)

    @classmethod
    def why_not(cls, booster: Any) -> str | None:
        """Why a booster cannot grow at costs that change; None if it can."""
        settings, (names, kinds) = booster.get_params(), cls.KINDS
        for name in names:
            if name in settings and settings[name] not in kinds:
                return (
                    f"one_run=True adds trees to those that are there, and {name}={settings[name]!r} changes these. "
                    f"Use {name}={kinds[0]!r}, or one_run=False."
                )
        for name in cls.WEIGHING:
            if settings.get(name):
                return (
                    f"with one_run=True the goal says what each error costs; leave out {name}, or use one_run=False, "
                    "where it multiplies these costs."
                )
        return None

    @abstractmethod
    def _made(self, trees: Any, X: Features, held: Features, share: float) -> Any:
        """The booster before its first tree."""

    @abstractmethod
    def _add(self, rounds: int, slopes: Any) -> Floats:
        """Add trees by `slopes(scores, _) -> (first, second derivative)`; scores of the rows held out."""

    def grow(self, rounds: int, second: Bools, weight: Floats) -> None:
        """Add trees that tell `classes[1]` (`second`) by the logistic loss of weighted rows."""

        # The objective of the booster: weights and labels come from the costs of now, so they cannot be stored in its
        # data set. Both libraries keep scores and slopes in single precision.
        weight, second = weight.astype(np.float32), second.astype(np.float32)

        def slopes(scores: Floats, _: Any) -> tuple[Floats, Floats]:
            likely = expit(scores.astype(np.float32, copy=False))
            return weight * (likely - second), weight * likely * (np.float32(1.0) - likely)

        self.scores = self._add(rounds, slopes)

    def grown(self) -> GrownTrees:
        """The scorer of all trees so far; it stays when more are added."""
        return self.trees(self.classes, self.before, self.booster, self.rounds, self.start, self.missing, self.names)


class GrowingLightGBM(GrowingTrees):
    """LightGBM."""

    MODULE, WEIGHING = "lightgbm", ("class_weight", "is_unbalance", "unbalance", "scale_pos_weight")
    ROUNDS = "num_iterations", "num_boost_round", "num_rounds", "num_trees", "max_iter", "n_estimators"
    KINDS = ("boosting", "boost", "boosting_type"), ("gbdt", "goss")
    trees = LightGBMTrees

    def _made(self, trees: Any, X: Features, held: Features, share: float) -> Any:
        import lightgbm

        left_out = {*self.ROUNDS, "class_weight", "objective", "importance_type"}
        settings = {name: value for name, value in trees.get_params().items() if name not in left_out}
        settings = {name: value for name, value in settings.items() if value is not None} | {"objective": "none"}
        n, p = length_of(X), length_of(held)
        rows = lightgbm.Dataset(X, np.zeros(n), init_score=np.full(n, self.start), params=settings).construct()
        if not any(rows.feature_num_bin(j) for j in range(rows.num_feature())):
            raise DataError(
                f"LightGBM can split none of the {rows.num_feature()} columns of {n} rows: min_child_samples="
                f"{settings.get('min_child_samples')} of them must be on either side. Lower it, or give more rows."
            )
        beside = lightgbm.Dataset(held, np.zeros(p), init_score=self.scores, reference=rows, params=settings)
        return lightgbm.Booster(settings, rows).add_valid(beside, "held")

    def _add(self, rounds: int, slopes: Any) -> Floats:
        found: list[Floats] = []

        def keep(scores: Floats, _: Any) -> tuple[str, float, bool]:
            found.append(scores.copy())
            return "scores", 0.0, False

        for _ in range(rounds):
            self.booster.update(fobj=slopes)
        # Where no leaf can be split any more there are fewer rounds than were asked for.
        self.rounds = int(self.booster.current_iteration())
        self.booster.eval_valid(keep)
        return found[0]


class GrowingXGBoost(GrowingTrees):
    """XGBoost."""

    MODULE, WEIGHING, ROUNDS = "xgboost", ("scale_pos_weight",), ("n_estimators",)
    KINDS = ("booster",), (None, "gbtree")
    trees = XGBoostTrees

    def _made(self, trees: Any, X: Features, held: Features, share: float) -> Any:
        import xgboost

        settings = {name: value for name, value in trees.get_xgb_params().items() if value is not None}
        given = trees.get_params()
        about = {"missing": self.missing, "enable_categorical": bool(given["enable_categorical"])}
        self._rows = xgboost.QuantileDMatrix(X, np.zeros(length_of(X)), max_bin=given["max_bin"] or 256, **about)
        self._beside = xgboost.DMatrix(held, **about)
        settings |= {"objective": "binary:logistic", "base_score": share}
        return xgboost.Booster(settings, [self._rows, self._beside])

    def _add(self, rounds: int, slopes: Any) -> Floats:
        for _ in range(rounds):
            self.booster.update(self._rows, self.rounds, fobj=slopes)
            self.rounds += 1
        return np.asarray(self.booster.predict(self._beside, output_margin=True), np.float64)


LIBRARIES: Mapping[str, type[GrowingTrees]] = {"LGBMClassifier": GrowingLightGBM, "XGBClassifier": GrowingXGBoost}
FORESTS = "XGBRFClassifier"  # derived from a booster, but its trees are all grown in one round


def steps_of(estimator: Any) -> list[tuple[str, Any]]:
    """What follows each other in an estimator, pipelines in pipelines taken apart."""
    if not isinstance(estimator, Pipeline):
        return [("last", estimator)]
    *before, (_, last) = estimator.steps
    return [*before, *((f"{name}-{len(before)}", step) for name, step in steps_of(last))]


def growing_form(estimator: Any) -> type[GrowingTrees] | None:
    """How an estimator, or the one at the end of a pipeline, grows here; None where it does not."""
    for kind in type(last_step(estimator)).__mro__:
        form = LIBRARIES.get(kind.__name__)
        if kind.__name__ == FORESTS:
            return None
        if form is not None and kind.__module__.startswith(form.MODULE):
            return form
    return None


def number_of_rounds(estimator: Any) -> int:
    """Rounds that a boosted classifier, or the one at the end of a pipeline, is to be fitted for.

    Raises
    ------
    CapabilityError
        If it cannot go on from a model, weighs classes by itself, or changes earlier trees.
    DataError
        If it is to grow no tree.
    """
    booster, form = last_step(estimator), growing_form(estimator)
    if form is not None and (why := form.why_not(booster)) is not None:
        raise CapabilityError(why)
    if isinstance(booster, HistGradientBoostingClassifier):
        return int(booster.max_iter)
    if isinstance(booster, GradientBoostingClassifier):
        return int(booster.n_estimators)
    if form is not None:
        settings = booster.get_params()
        name, rounds = next(
            ((name, settings[name]) for name in form.ROUNDS if settings.get(name) is not None), ("", DEFAULT_ROUNDS)
        )
        if rounds < 1:
            raise DataError(f"{name}={rounds} of {type(booster).__name__} is no number of trees; give at least 1.")
        return int(rounds)
    raise CapabilityError(
        "one_run=True needs boosted trees that can go on from a model: scikit-learn's HistGradientBoostingClassifier "
        "or GradientBoostingClassifier, LightGBM or XGBoost, also at the end of a pipeline; got "
        f"{type(booster).__name__}. Use one_run=False."
    )


def gains_by_one_run(estimator: Any) -> bool:
    """Whether one run takes less time than a model for each choice of prices."""
    form = growing_form(estimator)
    return form is not None and form.why_not(last_step(estimator)) is None


@dataclass(frozen=True)
class BoostingLearner(CostLearner):
    """A boosted classifier that goes on from `before`, None at first, by so many rounds."""

    rounds: int
    before: Any = None

    def _fit(self, X: Features, labels: npt.NDArray[Any], weight: Floats) -> Any:
        fresh = self.before is None

        def grow(booster: Any, inputs: Features) -> Any:
            # The model before stays as it is: it may turn out to be the best one.
            start = clone(last_step(self.estimator)).set_params(warm_start=True) if fresh else copy.deepcopy(booster)
            if isinstance(start, HistGradientBoostingClassifier):
                # Early stopping compares losses of successive rounds, which mean nothing once the costs have changed.
                start.set_params(max_iter=self.rounds + (0 if fresh else booster.max_iter), early_stopping=False)
                inputs = with_few_values(inputs, start.max_bins) if isinstance(self.estimator, Pipeline) else inputs
            else:
                start.set_params(n_estimators=self.rounds + (0 if fresh else booster.n_estimators))
            return start.fit(inputs, labels, sample_weight=weight)

        # Steps before the booster are fitted at the first stage alone, so that all trees see the same features.
        return with_last_fitted(clone(self.estimator) if fresh else self.before, X, labels, grow, fresh=fresh)


@dataclass(frozen=True)
class _MeanOfFolds(CrossFitter):
    """A booster for each fold, which every visit makes larger.

    Attributes
    ----------
    boosters : list of list
        After each visit, for each fold; None where nothing was to be learned yet.
    """

    learner: BoostingLearner
    boosters: list[list[Any]] = field(default_factory=list)

    ends_early: ClassVar[bool] = False

    def own_scores(self, visit: int) -> list[Floats]:
        if not self.both:
            return []
        return [
            common_scores(booster, take(self.X[0], self._others(number)[0]), self.learner.direction)
            for number, booster in enumerate(self.boosters[visit])
        ]

    def model(self, visit: int, cost: Sequence[Floats]) -> Any:
        """The mean of the boosters of all folds after a visit."""
        learner, boosters = self.learner, self.boosters[visit]
        return AveragedScorer(learner.classes, boosters, np.full(len(boosters), 1.0 / len(boosters)), learner.direction)


@dataclass(frozen=True)
class ContinuedFitter(_MeanOfFolds):
    """Of scikit-learn, each fitted further."""

    def _keep(self, answers: list[Any]) -> None:
        self.boosters.append(answers)

    def _one_fold(self, cost: Sequence[Floats], number: int) -> tuple[list[Floats], Any]:
        before = self.boosters[-1][number] if self.boosters else None
        going_on = replace(self, learner=replace(self.learner, before=before))
        fitted = going_on.fitted(cost, self._others(number))
        booster = before if fitted is None else fitted
        return self._scores_by(booster, cost, number), booster


@dataclass(frozen=True)
class GrowingFitter(_MeanOfFolds):
    """Of LightGBM or XGBoost, which stay as they are between the visits.

    Attributes
    ----------
    growing : list
        The booster of each fold, None before its first visit.
    """

    growing: list[GrowingTrees | None] = field(default_factory=list)

    def scores(self, cost: Sequence[Floats]) -> list[Floats]:
        self.growing.extend([None] * (self.n_folds - len(self.growing)))
        parts: list[list[Floats]] = []
        for number in range(self.n_folds):
            # The booster of a part grows on the rows of all other parts, and then scores the rows of its own.
            others, held = self._others(number), self._held(number)
            costs, mass = (
                np.concatenate([part[rows] for part, rows in zip(given, others, strict=True)])
                for given in (cost, self.mass)
            )
            task = self.learner.task(costs, mass)
            if task is not None:
                _, second, weight = task
                growing = self.growing[number] or self._begun(others, held, second, weight)
                growing.grow(self.learner.rounds, second, weight)
                self.growing[number] = growing
            begun, sizes = self.growing[number], [len(rows) for rows in held]
            scores = np.zeros(sum(sizes)) if begun is None else self.learner.direction * begun.scores
            parts.append(np.split(scores, np.cumsum(sizes)[:-1]))
        self.boosters.append([growing and growing.grown() for growing in self.growing])
        return self._joined(cost, parts)

    def _begun(self, others: Sequence[Ints], held: Sequence[Ints], second: Bools, weight: Floats) -> GrowingTrees:
        """A booster without trees."""
        learner = self.learner
        X, X_held = (stacked([take(X, rows) for X, rows in zip(self.X, part, strict=True)]) for part in (others, held))
        labels, share = learner.classes[second.astype(np.intp)], float(weight[second].sum() / weight.sum())
        form = growing_form(learner.estimator)
        assert form is not None
        return form(learner.estimator, learner.classes, X, labels, X_held, share)


def continued_fitter(learner: BoostingLearner, *about: Any) -> CrossFitter:
    """The fitter of a kind of boosted trees; `about` as `CrossFitter` has it after its learner."""
    return (GrowingFitter if growing_form(learner.estimator) else ContinuedFitter)(learner, *about)
