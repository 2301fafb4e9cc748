"""Boosting in one run: the prices of the constraints change while the trees grow.

    for each stage: the booster of each fold grows by a share of its rounds, on the costs at the prices of now;
                    prices from the scores of the rows that it does not hold, by the models of all stages so far

A reduction fits a model for each choice of prices. Boosted trees need not begin again: what they have learned at other
prices is corrected by the next trees. Prices come from rows that a booster did not see, because on those that it
learned from its rates say nothing; the final model is the mean of the boosters of all folds.

Boosters of LightGBM and XGBoost stay as they are between the stages (`growing_trees.py`). Those of scikit-learn are
fitted further, which puts the rows into bins anew and asks all earlier trees for their scores at every stage.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline

from widemargin._typing import Bools, Features, Floats, Ints
from widemargin.estimators.reduction.cost_sensitive import (
    AveragedScorer,
    CostLearner,
    CrossFitter,
    common_scores,
    last_step,
    with_few_values,
    with_last_fitted,
)
from widemargin.estimators.reduction.growing_trees import GrowingTrees, growing_form
from widemargin.estimators.thresholds.scores import with_some_value
from widemargin.exceptions import CapabilityError, DataError
from widemargin.rows import stacked, take

DEFAULT_ROUNDS = 100
"""Of XGBoost, where `n_estimators` is None."""


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
            return self._grown(last_step(self.estimator), None if fresh else booster, inputs, labels, weight)

        # Steps before the booster are fitted at the first stage alone, so that all trees see the same features.
        return with_last_fitted(clone(self.estimator) if fresh else self.before, X, labels, grow, fresh=fresh)

    def _grown(self, booster: Any, before: Any, X: Features, labels: npt.NDArray[Any], weight: Floats) -> Any:
        # The model before stays as it is: it may turn out to be the best one.
        grown = clone(booster).set_params(warm_start=True) if before is None else copy.deepcopy(before)
        if isinstance(grown, HistGradientBoostingClassifier):
            # Early stopping compares losses of successive rounds, which mean nothing once the costs have changed.
            grown.set_params(max_iter=self.rounds + (0 if before is None else before.max_iter), early_stopping=False)
            X = with_some_value(with_few_values(X, grown.max_bins) if isinstance(self.estimator, Pipeline) else X)
        else:
            grown.set_params(n_estimators=self.rounds + (0 if before is None else before.n_estimators))
        return grown.fit(X, labels, sample_weight=weight)


@dataclass(frozen=True)
class _MeanOfFolds(CrossFitter):
    """A booster for each fold, which every visit makes larger.

    Attributes
    ----------
    learner : BoostingLearner
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
