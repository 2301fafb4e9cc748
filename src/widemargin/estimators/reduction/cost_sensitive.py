"""Any classifier as the learner of a cost-sensitive problem, and its scores on rows that it did not learn from.

Where calling row i positive costs c_i more than calling it negative, a classifier of least cost is one of least
weighted error for the labels `c_i < 0` and the weights `|c_i|`: so whatever takes weights learns from costs. With
several classes a row stands once for each class that is cheaper than the dearest one, with that class as its label and
what it saves as its weight: the weighted error is then the cost, up to a constant (N. Abe, B. Zadrozny, J. Langford,
"An Iterative Method for Multi-class Cost-sensitive Learning", KDD 2004).
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline

from widemargin._typing import Bools, Features, Floats, Ints
from widemargin.distributed.workers import side_by_side
from widemargin.estimators.thresholds.class_offsets import class_scores, log_odds
from widemargin.estimators.thresholds.scores import fit_scorer, with_some_value
from widemargin.rows import length_of, stacked, take

NEGLIGIBLE = 1e-6
"""Rows whose cost is below this share of the mean are left out: they decide nothing, and some learners refuse zeros."""


def last_step(estimator: Any) -> Any:
    """The classifier at the end of a pipeline, or the estimator itself."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def with_last_fitted(
    estimator: Any, X: Features, labels: npt.NDArray[Any], fit: Callable[[Any, Features], Any], *, fresh: bool
) -> Any:
    """An estimator whose last step `fit` has fitted to what the steps before it make of X.

    Parameters
    ----------
    estimator : classifier or Pipeline
        It stays as it is.
    X : array, CSR matrix or data frame of shape (n, d)
    labels : ndarray of shape (n,)
    fit : callable (classifier, X) -> fitted classifier
    fresh : bool
        Whether the steps before the last one are fitted, too; else they are used as they are.
    """
    if not isinstance(estimator, Pipeline):
        return fit(estimator, X)
    whole = copy.copy(estimator)
    *head, (name, last) = whole.steps
    if head:
        steps = Pipeline(head)
        X = steps.fit_transform(X, labels) if fresh else steps.transform(X)
        head = steps.steps
    whole.steps = [*head, (name, with_last_fitted(last, X, labels, fit, fresh=fresh))]
    return whole


def with_few_values(X: Features, most: int) -> Any:
    """The same table with at most so many values in each column of numbers: others become the median of their quantile.

    Histogram boosting looks at no more values than that. With weights, scikit-learn looks for each quantile of a column
    by itself, which takes longer than all trees; few values are their own bins. Thresholds lie between medians, in the
    units of the column, so that the fitted trees take rows as they are.
    """
    if isinstance(X, np.ndarray):
        return np.column_stack([_few_values(column, most) for column in X.T])
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return X
    numbers = {name: frame[name].to_numpy() for name in frame.columns if frame[name].dtype.is_numeric()}
    few = {name: _few_values(column, most) for name, column in numbers.items()}
    changed = [
        nw.new_series(name, column, backend=frame.implementation)
        for name, column in few.items() if column is not numbers[name]
    ]  # fmt: skip
    return frame.with_columns(*changed).to_native() if changed else X


def prepared(estimator: Any, parts: Sequence[Features]) -> list[Any]:
    """Tables of the same columns as learners take them: of histogram boosting with few values in each column.

    Once for all folds and prices, as labels have no part in it. What a pipeline makes of a table differs from fold to
    fold, so there it is done for each fit.
    """
    if not isinstance(estimator, HistGradientBoostingClassifier):
        return [*parts]
    whole, ends = with_few_values(stacked(parts), estimator.max_bins), np.cumsum([length_of(part) for part in parts])
    return [take(whole, np.arange(end - length_of(part), end)) for part, end in zip(parts, ends, strict=True)]


def _few_values(column: npt.NDArray[Any], most: int) -> npt.NDArray[Any]:
    if column.dtype.kind not in "fiu":
        return column
    known = np.flatnonzero(~np.isnan(column))
    order = known[np.argsort(column[known])]
    values = column[order]
    if np.count_nonzero(values[1:] != values[:-1]) < most:
        return column
    # Each quantile begins with the first row of its least value, so that equal values stay together.
    first = np.unique(np.searchsorted(values, values[np.arange(most) * len(values) // most]))
    size = np.diff(first, append=len(values))
    few = column.copy()
    few[order] = np.repeat(values[first + size // 2], size)
    return few


@dataclass(frozen=True)
class CostLearner:
    """A classifier that is fitted to costs.

    Attributes
    ----------
    estimator : classifier
        Not fitted.
    classes : ndarray of shape (K,)
    direction : float
        +1 where the positive one of two classes is `classes[1]`, else -1.
    """

    estimator: Any
    classes: npt.NDArray[Any]
    direction: float

    def fit(self, X: Features, cost: Floats, mass: Floats) -> Any:
        """A fitted clone, or None where all rows that cost anything have the same label: then nothing is to be learned.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n, d)
        cost : ndarray of shape (n,) or (n, K)
            What calling the row positive costs more than calling it negative; of several classes what each costs.
        mass : ndarray of shape (n,)
            How many rows each row stands for: its sample weight.
        """
        if cost.ndim == 2:
            # A row stands once for each class that is cheaper than its dearest one (module docstring).
            saved = cost.max(axis=1, keepdims=True) - cost
            row, number = np.nonzero(saved > NEGLIGIBLE * saved.sum(axis=1).mean())
            if len(np.unique(number)) < 2:
                return None
            weight = saved[row, number]
            if type(last_step(self.estimator)).__module__.startswith("xgboost"):
                # XGBoost takes no labels with gaps, so a class that is nowhere the cheaper one gets a row that weighs
                # next to nothing.
                never = np.setdiff1d(np.arange(len(self.classes)), number)
                row, number = np.append(row, np.zeros(len(never), np.intp)), np.append(number, never)
                weight = np.append(weight, np.full(len(never), NEGLIGIBLE * weight.mean()))
            return self._fit(take(X, row), self.classes[number], weight * (mass.sum() / weight.sum()))
        task = self.task(cost, mass)
        if task is None:
            return None
        counts, second, weight = task
        if not counts.all():
            X, second, weight = take(X, np.flatnonzero(counts)), second[counts], weight[counts]
        return self._fit(X, self.classes[second.astype(np.intp)], weight)

    def task(self, cost: Floats, mass: Floats) -> tuple[Bools, Bools, Floats] | None:
        """Which rows count, which are to be called `classes[1]`, and their weights; None if one answer suits them all.

        Weights are 0 where a row does not count.
        """
        weight = np.abs(cost)
        counts = weight > NEGLIGIBLE * weight.mean() if len(weight) else np.zeros(0, bool)
        second = (cost < 0.0) == (self.direction > 0.0)
        if not 0 < np.count_nonzero(second[counts]) < np.count_nonzero(counts):
            return None
        # The weights have the same sum as the rows, so that C, least leaf weights and the like mean what they always
        # mean.
        return counts, second, np.where(counts, weight, 0.0) * (mass[counts].sum() / weight[counts].sum())

    def _fit(self, X: Features, labels: npt.NDArray[Any], weight: Floats) -> Any:
        """A fitted clone."""
        if not isinstance(self.estimator, Pipeline) or not isinstance(
            last_step(self.estimator), HistGradientBoostingClassifier
        ):
            return fit_scorer(self.estimator, X, labels, weight)

        def fit(booster: Any, inputs: Features) -> Any:
            few = with_some_value(with_few_values(inputs, booster.max_bins))
            return booster.fit(few, labels, sample_weight=weight)

        return with_last_fitted(clone(self.estimator), X, labels, fit, fresh=True)


def common_class_scores(fitted: Any, X: Features, classes: npt.NDArray[Any]) -> Floats:
    """Scores of several classes on a scale that models share, shape (n, K); 0 where nothing was to be learned."""
    return np.zeros((length_of(X), len(classes))) if fitted is None else class_scores(fitted, X, classes)


def common_scores(fitted: Any, X: Features, direction: float) -> Floats:
    """Scores on a scale that models share, shape (n,): larger is rather positive, the model changes its mind at 0.

    Parameters
    ----------
    fitted : classifier or None
        None, where nothing was to be learned, scores every row 0.
    X : array, CSR matrix or data frame of shape (n, d)
    direction : float
        +1 where the positive class is `classes_[1]`, else -1.
    """
    return np.zeros(length_of(X)) if fitted is None else direction * log_odds(fitted, X)


@dataclass
class AveragedScorer:
    """A weighted mean of the scores of fitted models, as one scorer.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    models : list of (fitted classifier or None)
        As in `common_scores`.
    shares : ndarray of shape (number of models,)
    direction : float
    """

    classes_: npt.NDArray[Any]
    models: list[Any]
    shares: Floats
    direction: float

    _stored_arrays: ClassVar[Mapping[str, str]] = {"classes_": "label k", "shares": "float m"}

    def __getattr__(self, name: str) -> Any:
        # What the models learned of the features is the same for all of them.
        if name in ("n_features_in_", "feature_names_in_"):
            for model in self.models:
                if hasattr(model, name):
                    return getattr(model, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def of_each(self, X: Features) -> Floats:
        """Scores of each model, larger is rather positive, shape (number of models, n), or (.., n, K) of K classes."""
        if len(self.classes_) > 2:
            return np.array([common_class_scores(model, X, self.classes_) for model in self.models])
        return np.array([common_scores(model, X, self.direction) for model in self.models])

    def decision_function(self, X: Features) -> Floats:
        """The mean score, shape (n,), larger for `classes_[1]`; with K > 2 classes shape (n, K)."""
        mean: Floats = self.direction * np.tensordot(self.shares, self.of_each(X), 1)
        return mean


@dataclass(frozen=True)
class CrossFitter:
    """Models of all rows but a part, which score that part.

    Rates of flexible models on the rows that they learned from say nothing: boosted trees were off by .03 to .16.

    Attributes
    ----------
    X : sequence of array, CSR matrix or data frame
        For each source.
    mass : sequence of ndarray of shape (n_s,)
        Weights of the rows.
    fold : sequence of ndarray of int64, shape (n_s,)
        The part of each row.
    n_jobs : int or None
        Parts at a time, in processes.
    both : bool, default=False
        Whether models also score the rows that they learned from; of two classes and a single source.
    own : list of list of ndarray
        With `both` these scores, of each visit and part.
    """

    learner: CostLearner
    X: Sequence[Features]
    mass: Sequence[Floats]
    fold: Sequence[Ints]
    n_folds: int
    n_jobs: int | None
    both: bool = False
    own: list[list[Floats]] = field(default_factory=list)

    ends_early: ClassVar[bool] = True
    """Whether nothing is gained by a visit at prices that were visited before."""

    def scores(self, cost: Sequence[Floats]) -> list[Floats]:
        """Scores of every row by a model that did not see it, for each source: a visit."""
        done = list(side_by_side(partial(self._one_fold, cost), range(self.n_folds), self.n_jobs))
        self._keep([answer for _, answer in done])
        return self._joined(cost, [held for held, _ in done])

    def _keep(self, answers: list[Any]) -> None:
        """Note what the folds of a visit leave for later visits."""
        self.own.append([own for own in answers if own is not None])

    def own_scores(self, visit: int) -> list[Floats]:
        """For each part the scores of the rows that its model saw, or none."""
        return self.own[visit]

    def model(self, visit: int, cost: Sequence[Floats]) -> Any:
        """The model of a visit at these costs, for rows that no fold held; None where nothing was to be learned."""
        return self.fitted(cost)

    def _joined(self, cost: Sequence[Floats], parts: Iterable[Sequence[Floats]]) -> list[Floats]:
        """Scores of all rows from those of the parts."""
        scores = [np.zeros(np.shape(part)) for part in cost]
        for number, of_fold in enumerate(parts):
            for whole, fold, part in zip(scores, self.fold, of_fold, strict=True):
                whole[fold == number] = part
        return scores

    def _one_fold(self, cost: Sequence[Floats], number: int) -> tuple[list[Floats], Any]:
        """Scores of the rows that a fold holds out, and what is to be kept: scores of the others, where they count."""
        others = self._others(number)
        fitted, own = self.fitted(cost, others), None
        if self.both:
            own = common_scores(fitted, take(self.X[0], others[0]), self.learner.direction)
        return self._scores_by(fitted, cost, number), own

    def _others(self, number: int) -> list[Ints]:
        """The rows that a part does not hold."""
        return [np.flatnonzero(fold != number) for fold in self.fold]

    def _held(self, number: int) -> list[Ints]:
        """The rows of a part."""
        return [np.flatnonzero(fold == number) for fold in self.fold]

    def _scores_by(self, fitted: Any, cost: Sequence[Floats], number: int) -> list[Floats]:
        """Scores of the rows of a part."""
        held = self._held(number)
        several = len(self.learner.classes) > 2
        return [
            np.zeros((0, *part.shape[1:])) if not len(rows)
            else common_class_scores(fitted, take(X, rows), self.learner.classes) if several
            else common_scores(fitted, take(X, rows), self.learner.direction)
            for X, rows, part in zip(self.X, held, cost, strict=True)
        ]  # fmt: skip

    def fitted(self, cost: Sequence[Floats], rows: Sequence[Ints] | None = None) -> Any:
        """A model of some rows of each source; None: of all."""
        everyone = [np.arange(len(part)) for part in cost] if rows is None else rows
        # Rows whose decision costs nothing, such as traffic that no binding constraint looks at, are left out.
        matters = [part != 0.0 if part.ndim == 1 else np.ptp(part, axis=1) > 0.0 for part in cost]
        used = [index[counts[index]] for counts, index in zip(matters, everyone, strict=True)]
        some = [k for k, index in enumerate(used) if len(index)]
        if not some:
            return None
        X = stacked([take(self.X[k], used[k]) for k in some])
        costs, mass = (np.concatenate([part[k][used[k]] for k in some]) for part in (cost, self.mass))
        return self.learner.fit(X, costs, mass)
