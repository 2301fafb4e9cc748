"""Cross-validation of settings under a goal: the folds, and what all of them say together."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold, check_cv

from widemargin._typing import Floats, Ints
from widemargin.distributed.sweep import Deadline, is_serial, side_by_side
from widemargin.estimators._calibration import take_rows
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.folds import FoldMeasure, Setting, fold_measures
from widemargin.estimators.rate_constrained.validated_point import Choice, choose_candidate
from widemargin.estimators.thresholds.scores import row_wise
from widemargin.exceptions import CapabilityError, DataError, GoalError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import Source, TiedGoal, baselines_used, bind
from widemargin.goals.binding.sources import External
from widemargin.solvers.base import Budget

__all__ = ["ValidationRows", "choose_setting", "make_splits", "validate"]

Split = tuple[Ints, Ints]


class ValidationRows:
    """Checked rows from which folds are taken, with the goal tied to all of them.

    Parameters
    ----------
    plain : RateConstrainedClassifier
        Not fitted; it checks the rows and remembers their classes and features.
    goal : Goal
    X, y, sample_weight, populations, external
        As given to `fit`.

    Raises
    ------
    CapabilityError
        If a bound is a number of rows, which means another thing on a fold.
    """

    def __init__(
        self,
        plain: RateConstrainedClassifier,
        goal: Goal,
        X: Any,
        y: Any,
        sample_weight: Any,
        populations: Any,
        external: Mapping[str, External] | None,
    ) -> None:
        self.plain, self.goal, self.external = plain, goal, external
        self.original, self.populations = row_wise(X), populations
        self.X, self.y, self.weight = plain._checked(X, y, sample_weight)
        self.uses = baselines_used(goal)
        self.tied = bind(goal, self._sources(np.arange(len(self.y)))[0])
        self._refuse_counts()

    def fold(self, number: int, split: Split) -> tuple[TiedGoal, list[Any], TiedGoal, list[Any]]:
        """The goal on the training and on the held-out rows of a fold, and the features of each source."""
        parts: list[Any] = []
        for rows in split:
            sources, matrices = self._sources(rows)
            try:
                parts += [bind(self.goal, sources, warn_trivial=False), matrices]
            except GoalError as error:
                what = "held-out" if rows is split[1] else "training"
                raise GoalError(f"on the {len(rows)} {what} rows of fold {number}: {error}") from error
        return parts[0], parts[1], parts[2], parts[3]

    def unwatched(self) -> "ValidationRows":
        """These rows without callbacks, which do not travel."""
        other = copy.copy(self)
        other.plain = copy.copy(self.plain)
        other.plain.callbacks = None
        other.plain.solver_options = replace(self.plain._options, verbose=0)
        return other

    def strata(self, n_splits: int) -> npt.NDArray[np.intp]:
        """Label and populations of each row as one number; rare combinations are left to their label."""
        cell = self.tied.cell[0].astype(np.intp)
        _, label = np.unique(self.y, return_inverse=True)
        common = np.bincount(cell)[cell] >= n_splits
        together: npt.NDArray[np.intp] = np.where(common, cell + 2, label)
        rare = np.bincount(together)[together] < n_splits
        return np.where(rare, label, together) if rare.any() else together

    def _sources(self, rows: Ints) -> tuple[tuple[Source, ...], list[Any]]:
        parts = (take_rows(part, rows) for part in (self.X, self.y, self.weight, self.original, self.populations))
        return self.plain._sources(self.uses, *parts, external=self.external)

    def _refuse_counts(self) -> None:
        for item in self.tied.constraints:
            rates = item.cleared.form.rates
            counted = [rate for rate in rates if rate.definition.is_count and rate.population.source is None]
            if counted and (item.cleared.bound != 0.0 or len(counted) < len(rates)):
                raise CapabilityError(
                    f"{item.label!r} bounds a number of rows, which means another thing on a fold of the data. Use a "
                    "rate, or RateConstrainedClassifier with a C of your own."
                )


def make_splits(cv: Any, rows: ValidationRows, random_state: np.random.RandomState) -> list[Split]:
    """Row numbers of the folds.

    Raises
    ------
    DataError
        If a class has fewer rows than there are folds.
    """
    if not isinstance(cv, Integral):
        splitter = check_cv(cv, rows.y, classifier=True)
        return [(train, test) for train, test in splitter.split(np.zeros(len(rows.y)), rows.y)]
    folds, smallest = int(cv), int(np.unique(rows.y, return_counts=True)[1].min())
    if folds < 2 or smallest < folds:
        raise DataError(
            f"cv={folds} needs at least 2 folds and {folds} rows of each class; the smaller has {smallest}."
        )
    splitter = StratifiedKFold(folds, shuffle=True, random_state=random_state)
    strata = rows.strata(folds)
    return [(train, test) for train, test in splitter.split(np.zeros(len(strata)), strata)]


def validate(
    rows: ValidationRows, splits: Sequence[Split], settings: Sequence[Setting], budget: Budget
) -> list[list[FoldMeasure]]:
    """Measures of every setting on every fold that was done; a fold that is cut short is left out.

    Folds are measured side by side where `joblib.parallel_config` says so (see `distributed/sweep.py`): the callbacks
    are then told of a fold when it is done.
    """
    done: list[list[FoldMeasure]] = []
    alone = is_serial()
    measure_fold = partial(_one_fold, rows, settings, watched=budget)
    if not alone:
        measure_fold = partial(_one_fold, rows.unwatched(), settings, deadline=Deadline.after(budget.left))
    folds = side_by_side(measure_fold, enumerate(splits), n_jobs=rows.plain.n_jobs)
    try:
        for number, measures in enumerate(folds):
            if not alone:
                for k, measure in enumerate(measures):
                    _tell(budget, number * len(settings) + k + 1, measure)
            if len(measures) == len(settings):
                done.append(measures)
            if budget.exhausted:
                break
    except KeyboardInterrupt:
        budget.interrupted = True
    return done


def _one_fold(
    rows: ValidationRows,
    settings: Sequence[Setting],
    numbered: tuple[int, Split],
    *,
    watched: Budget | None = None,
    deadline: Deadline | None = None,
) -> list[FoldMeasure]:
    """Measures of the settings on one fold, here (watched) or on a worker."""
    number, split = numbered
    budget = watched or Budget(None if deadline is None else deadline.left)
    measures: list[FoldMeasure] = []
    tied, matrices, held, held_matrices = rows.fold(number, split)
    place = {item.constraint: j for j, item in enumerate(held.constraints)}
    columns = [place.get(item.constraint, -1) for item in rows.tied.constraints]
    for measure in fold_measures(tied, matrices, held, held_matrices, settings, rows.plain, budget):
        measures.append(_aligned(measure, columns))
        if watched is not None:
            _tell(budget, number * len(settings) + len(measures), measure)
    return measures


def _tell(budget: Budget, place: int, measure: FoldMeasure) -> None:
    violation = float(np.maximum(-measure.slack, 0.0).max(initial=0.0))
    budget.tell("validate", place, measure.objective, np.nan, violation)


def _aligned(measure: FoldMeasure, columns: Sequence[int]) -> FoldMeasure:
    """Slacks in the order of the whole data's constraints; +inf where the fold had too few rows for one."""
    slack = np.full(len(columns), np.inf)
    variance = np.zeros((measure.slack_variance.shape[0], len(columns)))
    for place, j in enumerate(columns):
        if j >= 0:
            slack[place], variance[:, place] = measure.slack[j], measure.slack_variance[:, j]
    return measure._replace(slack=slack, slack_variance=variance)


def choose_setting(
    settings: Sequence[Setting], done: Sequence[Sequence[FoldMeasure]], rule: str
) -> tuple[Choice, dict[str, Any]]:
    """The setting chosen, and `cv_results_`.

    Parameters
    ----------
    settings : sequence of Setting
        Simplest first.
    done : sequence of sequence of FoldMeasure
        For each fold (at least one) the measures of all settings.
    rule : str
    """
    by_setting = list(zip(*done, strict=True))
    objective = np.array([[fold.objective for fold in folds] for folds in by_setting])
    variance = np.array([[fold.objective_variance for fold in folds] for folds in by_setting])
    error = np.sqrt(variance.sum(axis=1)) / len(done)
    pooled = [_pooled_slack(folds) for folds in by_setting]
    slack, slack_error = (np.stack([pair[k] for pair in pooled]) for k in (0, 1))
    met = np.array([all(fold.met for fold in folds) for folds in by_setting])
    choice = choose_candidate(objective.mean(axis=1), error, slack, slack_error, met, rule)
    results: dict[str, Any] = {
        "C": np.array([setting.C for setting in settings]),
        "max_steps": np.array([setting.steps for setting in settings]),
        "mean_objective": objective.mean(axis=1),
        "objective_error": error,
        "mean_slack": slack,
        "slack_error": slack_error,
        "excess": choice.excess,
        "met": met,
        "admissible": choice.admissible,
        "mean_fit_time": np.array([np.mean([fold.seconds for fold in folds]) for folds in by_setting]),
    }
    for k in range(len(done)):
        results[f"split{k}_objective"] = objective[:, k]
        results[f"split{k}_slack"] = np.stack([folds[k].slack for folds in by_setting])
    return choice, results


def _pooled_slack(folds: Sequence[FoldMeasure]) -> tuple[Floats, Floats]:
    """Mean slack of each constraint over the folds that measured it, and its standard error.

    Held-out rows differ from fold to fold, so their errors average out; external rows are the same in all folds, so
    theirs do not.
    """
    slack = np.stack([fold.slack for fold in folds])
    variance = np.stack([fold.slack_variance for fold in folds])  # (folds, sources, m)
    present = ~np.isposinf(slack)
    number = np.maximum(present.sum(axis=0), 1)
    mean = np.where(present, slack, 0.0).sum(axis=0) / number
    own = np.where(present, variance[:, 0], 0.0).sum(axis=0) / number**2
    shared = (np.where(present[:, None], np.sqrt(variance[:, 1:]), 0.0).sum(axis=0) / number) ** 2
    return mean, np.sqrt(own + shared.sum(axis=0))
