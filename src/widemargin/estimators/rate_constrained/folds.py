"""Settings (C, steps) trained and measured on the folds of a cross-validation, and the choice among them.

*Training.* Goals are tied and rows merged once a fold. The search starts anew for every setting, so what is measured is
what `RateConstrainedClassifier(C=C, max_steps=steps)`, fitted to the fold's rows, would be.

*Choice.* A bound that training meets with equality is missed by half of all equally good models on other rows, so a
setting is not thrown out for being on the wrong side, only for being there by more than noise: where, for some
constraint,

    mean held-out slack  <  - z(1 - 0.05 / m) * its standard error        (m constraints, z the normal quantile),

which a setting whose true slacks are all 0 does with probability of at most 5% (Bonferroni). Among the others the
lowest mean held-out objective is best; the rule of one standard error takes the simplest setting whose objective is
within one standard error of the best one's (Breiman et al. 1984).
"""

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.stats

from widemargin._typing import Bools, Floats, Ints
from widemargin.distributed.workers import Deadline, is_serial, side_by_side
from widemargin.estimators.rate_constrained import training as steps
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.thresholds.scores import Split, label_and_cell
from widemargin.exceptions import CapabilityError, GoalError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.measuring.intervals import covariance, objective_influence, slack_variances
from widemargin.losses.ramp import ramp
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.majorization import MajorizeOptions
from widemargin.solvers.ramp.search import search


class Setting(NamedTuple):
    """What validation chooses."""

    C: float
    steps: int


class FoldMeasure(NamedTuple):
    """A setting on one fold.

    Attributes
    ----------
    objective : float
        On the held-out rows, in the rates that are enforced.
    objective_variance : float
        Over the draw of the held-out rows.
    slack : ndarray of shape (m,)
    slack_variance : ndarray of shape (n_sources, m)
    met : bool
        Whether the goal was met on the fold's training rows.
    """

    objective: float
    objective_variance: float
    slack: Floats
    slack_variance: Floats
    met: bool
    seconds: float

    def tell(self, budget: Budget, place: int) -> None:
        """Tell the callbacks of the measure of this number."""
        violation = float(np.maximum(-self.slack, 0.0).max(initial=0.0))
        budget.tell("validate", place, self.objective, np.nan, violation)


class ValidationRows:
    """Checked rows from which folds are taken, with the goal tied to all of them.

    Parameters
    ----------
    plain : RateConstrainedClassifier
        Not fitted; it has checked the rows and remembers their classes and features.
    rows : CheckedRows
        What it has checked.

    Raises
    ------
    CapabilityError
        If a bound is a number of rows, which means another thing on a fold.
    """

    def __init__(self, plain: RateConstrainedClassifier, goal: Goal, rows: steps.CheckedRows) -> None:
        self.plain, self.goal, self.rows = plain, goal, rows
        self._uses = baselines_used(goal)
        self.tied = bind(goal, plain._sources(self._uses, rows)[0])
        for item in self.tied.constraints:
            rates = item.cleared.form.rates
            counted = [rate for rate in rates if rate.definition.is_count and rate.population.source is None]
            if counted and (item.cleared.bound != 0.0 or len(counted) < len(rates)):
                raise CapabilityError(
                    f"{item.label!r} bounds a number of rows, which means another thing on a fold of the data. Use a "
                    "rate, or RateConstrainedClassifier with a C of your own."
                )

    def fold(self, number: int, split: Split) -> tuple[steps.TiedRows, steps.TiedRows]:
        """The goal on the training and on the held-out rows of a fold."""
        parts = []
        for index, what in zip(split, ("training", "held-out"), strict=True):
            sources, matrices = self.plain._sources(self._uses, self.rows.take(index))
            try:
                parts.append(steps.TiedRows(bind(self.goal, sources, warn_trivial=False), matrices))
            except GoalError as error:
                raise GoalError(f"on the {len(index)} {what} rows of fold {number}: {error}") from error
        return parts[0], parts[1]

    def unwatched(self) -> "ValidationRows":
        """These rows without callbacks, which do not travel."""
        other = copy.copy(self)
        other.plain = self.plain._unwatched()
        return other

    def strata(self, n_splits: int) -> Ints:
        """What the folds are stratified by."""
        return label_and_cell(self.rows.labels, self.tied.sources[0].cell, n_splits)


def validate(
    rows: ValidationRows, splits: Sequence[Split], settings: Sequence[Setting], budget: Budget
) -> list[list[FoldMeasure]]:
    """Measures of every setting on every fold that was done; a fold that is cut short is left out.

    No further fold is done once every setting has missed the goal in training: of these the nearest is taken.

    Folds are measured side by side where `joblib.parallel_config` says so (see `distributed/workers.py`): the callbacks
    are then told of a fold when it is done.
    """
    done: list[list[FoldMeasure]] = []
    here = is_serial()
    if here:
        measure_fold = partial(_one_fold, rows, settings, watched=budget)
    else:
        measure_fold = partial(_one_fold, rows.unwatched(), settings, deadline=Deadline.after(budget.left))
    folds = side_by_side(measure_fold, enumerate(splits), n_jobs=rows.plain.n_jobs)
    try:
        for number, measures in enumerate(folds):
            for k, measure in enumerate(() if here else measures):
                measure.tell(budget, number * len(settings) + k + 1)
            if len(measures) == len(settings):
                done.append(measures)
            # A setting that misses the goal on the training rows of a fold is not admissible, whatever the others say.
            none_left = done and not np.logical_and.reduce([[one.met for one in fold] for fold in done]).any()
            if budget.exhausted or none_left:
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
    training, held = rows.fold(number, split)
    # slacks in the order of the whole data's constraints; +inf where the fold had too few rows for one
    place = {item.constraint: j for j, item in enumerate(held.tied.constraints)}
    columns = [place.get(item.constraint, -1) for item in rows.tied.constraints]
    for measure in fold_measures(training, held, settings, rows.plain, budget):
        slack, variance = np.append(measure.slack, np.inf), np.pad(measure.slack_variance, ((0, 0), (0, 1)))
        measures.append(measure._replace(slack=slack[columns], slack_variance=variance[:, columns]))
        if watched is not None:
            measures[-1].tell(watched, number * len(settings) + len(measures))
    return measures


def fold_measures(
    training: steps.TiedRows,
    held: steps.TiedRows,
    settings: Sequence[Setting],
    plain: RateConstrainedClassifier,
    budget: Budget,
) -> Iterator[FoldMeasure]:
    """Train and measure every setting in turn; ends early where the budget does.

    Parameters
    ----------
    training, held : TiedRows
        The goal on the fold's training rows and on its held-out rows.
    settings : sequence of Setting
        Ordered by C, then by steps.
    plain : RateConstrainedClassifier
        Its parameters but C and `max_steps` are those of all settings.
    """
    tied, matrices = training
    n, weight = tied.sources[0].n_rows, tied.sources[0].weight
    total, options = float(n if weight is None else weight.sum()), plain._options
    space = plain._space(matrices[0], weight, n_sources=len(matrices))
    posed, convex = steps.posed(training, space, plain._plan(total))
    for setting in settings:
        began = time.perf_counter()
        problem = posed.with_lam(2.0 / (total * setting.C))
        plan = MajorizeOptions(steps=setting.steps - 1, tol=options.step_tol, loose_tol=options.step_tol)
        with steps.refuse_overflow(matrices):
            measures, hard = steps.make_measures(problem, plain.enforce)
            # Nothing is taken over from another setting: a model of a weaker regulariser would hide what this one does.
            pool = search(problem, convex, measures, plan, hard=hard, budget=budget)
            pool.restart(budget)
            best = pool.best
        if budget.exhausted:
            return
        scores = plain._scores_at(space, held.matrices, best.w, best.b)
        is_hard = plain.enforce == "deterministic"
        predictions = [(z > 0.0).astype(np.float64) if is_hard else ramp(z) for z in scores]
        measured = held.tied.measure(held.tied.positive_mass(predictions))
        variance = float(covariance([objective_influence(held.tied, predictions)])[0, 0])
        yield FoldMeasure(
            measured.objective, variance, measured.slack, slack_variances(held.tied, predictions),
            best.violation <= 0.0, time.perf_counter() - began,
        )  # fmt: skip


def choose_setting(
    settings: Sequence[Setting], done: Sequence[Sequence[FoldMeasure]], rule: str
) -> tuple["Admissible", dict[str, Floats | Bools]]:
    """The setting chosen, and `cv_results_`.

    Parameters
    ----------
    settings : sequence of Setting
        Simplest first.
    done : sequence of sequence of FoldMeasure
        For each fold (at least one) the measures of all settings.
    """
    by_setting = list(zip(*done, strict=True))
    objective = np.array([[fold.objective for fold in folds] for folds in by_setting])
    variance = np.array([[fold.objective_variance for fold in folds] for folds in by_setting])
    error = np.sqrt(variance.sum(axis=1)) / len(done)
    slacks = np.array([[fold.slack for fold in folds] for folds in by_setting])  # (settings, folds, m)
    variances = np.array([[fold.slack_variance for fold in folds] for folds in by_setting])  # ... sources before m
    # Means over the folds that measured a constraint. Held-out rows differ from fold to fold, so their errors average
    # out; external rows are the same in all folds, so theirs do not.
    present = ~np.isposinf(slacks)
    number = np.maximum(present.sum(axis=1), 1)
    slack = np.where(present, slacks, 0.0).sum(axis=1) / number
    own = np.where(present, variances[:, :, 0], 0.0).sum(axis=1) / number**2
    shared = np.where(present[:, :, None], np.sqrt(variances[:, :, 1:]), 0.0).sum(axis=1) / number[:, None]
    slack_error = np.sqrt(own + (shared**2).sum(axis=1))
    met = np.array([all(fold.met for fold in folds) for folds in by_setting])
    choice = choose_candidate(objective.mean(axis=1), error, slack, slack_error, met, rule)
    results: dict[str, Floats | Bools] = {
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
        results[f"split{k}_slack"] = slacks[:, k]
    return choice, results


@dataclass(frozen=True, eq=False)
class Admissible:
    """The candidate chosen, and which were admissible.

    Attributes
    ----------
    admissible : ndarray of bool, shape (K,)
        Candidates whose violations are within noise, and that met the goal on the training rows of every fold.
    excess : ndarray of shape (K,)
        The largest violation of each in standard errors (0: none); infinite where a rate is undefined.
    """

    index: int
    admissible: Bools
    excess: Floats


def choose_candidate(
    objective: Floats, objective_error: Floats, slack: Floats, slack_error: Floats, met: Bools, rule: str,
    *, level: float = 0.05,
) -> Admissible:  # fmt: skip
    """Choose among K candidates, simplest first.

    Parameters
    ----------
    objective, objective_error : ndarray of shape (K,)
        Mean over the folds, and its standard error.
    slack, slack_error : ndarray of shape (K, m)
    met : ndarray of bool, shape (K,)
        Whether the goal was met on the training rows of every fold.
    rule : {"best", "one-standard-error"}
    level : float, default=0.05
        Probability with which a candidate that sits on all its bounds is thrown out by chance.

    Returns
    -------
    Admissible
        Where no candidate is admissible, the one of least `excess` (of those that met the goal in training, if any).
    """
    n, m = slack.shape
    missed = np.maximum(-slack, 0.0)
    in_errors = np.divide(missed, slack_error, out=np.where(missed > 0.0, np.inf, 0.0), where=slack_error > 0.0)
    excess = np.where(np.isnan(slack), np.inf, in_errors).max(axis=1, initial=0.0)
    admissible = met & (excess <= scipy.stats.norm.ppf(1.0 - level / max(m, 1))) & np.isfinite(objective)
    if not admissible.any():
        return Admissible(_first_least(excess, met if met.any() else np.ones(n, bool)), admissible, excess)
    best = _first_least(objective, admissible)
    if rule == "one-standard-error":
        within = admissible & (objective <= objective[best] + objective_error[best])
        best = int(np.flatnonzero(within)[0])
    return Admissible(best, admissible, excess)


def _first_least(values: Floats, among: Bools) -> int:
    """The first position of the least value among some; the first of them where none is finite."""
    finite = among & np.isfinite(values)
    return int(np.argmin(np.where(finite, values, np.inf))) if finite.any() else int(np.argmax(among))
