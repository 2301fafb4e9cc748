"""Settings (C, steps) trained and measured on the folds of a cross-validation, and the choice among them.

*Training.* Goals are tied and rows merged once a fold; a setting with more steps goes on from the one with fewer; and
the first convex step of each C, the dearest one, starts from the solution of the last C's first step (a fifth fewer
Newton steps on a9a). Majorisation itself starts anew for every C, so what is measured is what
`RateConstrainedClassifier(C=C, max_steps=steps)`, fitted from nothing to the fold's rows, would be.

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
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from sklearn.model_selection import StratifiedKFold, check_cv

from widemargin._typing import Bools, Floats, Ints
from widemargin.distributed.workers import Deadline, is_serial, side_by_side
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.training import (
    CheckedRows,
    Solution,
    TiedRows,
    Watched,
    make_measures,
    refuse_overflow,
    step_plan,
    with_solver,
)
from widemargin.exceptions import CapabilityError, DataError, GoalError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.measuring.standard_errors import covariance, objective_influence, slack_variances
from widemargin.losses.ramp import ramp
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem
from widemargin.solvers.base import Budget, ConvexState
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampResult, minimise_ramp
from widemargin.solvers.ramp.tightening import Candidate, enforce_from_two_starts

__all__ = [
    "LEVEL", "RULES", "Admissible", "FoldMeasure", "Setting", "ValidationRows", "choose_candidate", "choose_setting",
    "fold_measures", "make_splits", "validate",
]  # fmt: skip

Split = tuple[Ints, Ints]
Cv = Any  # an integer, a splitter or an iterable of splits, as scikit-learn's check_cv takes them

LEVEL = 0.05
"""Probability with which a candidate that sits on all its bounds is thrown out by chance."""

RULES = ("best", "one-standard-error")


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
    seconds : float
    """

    objective: float
    objective_variance: float
    slack: Floats
    slack_variance: Floats
    met: bool
    seconds: float


class ValidationRows:
    """Checked rows from which folds are taken, with the goal tied to all of them.

    Parameters
    ----------
    plain : RateConstrainedClassifier
        Not fitted; it has checked the rows and remembers their classes and features.
    goal : Goal
    rows : CheckedRows
        What it has checked.

    Raises
    ------
    CapabilityError
        If a bound is a number of rows, which means another thing on a fold.
    """

    def __init__(self, plain: RateConstrainedClassifier, goal: Goal, rows: CheckedRows) -> None:
        self.plain, self.goal, self.rows = plain, goal, rows
        self._uses = baselines_used(goal)
        self.tied = bind(goal, plain._sources(self._uses, rows)[0])
        self._refuse_counts()

    def fold(self, number: int, split: Split) -> tuple[TiedRows, TiedRows]:
        """The goal on the training and on the held-out rows of a fold."""
        parts = []
        for index, what in zip(split, ("training", "held-out"), strict=True):
            sources, matrices = self.plain._sources(self._uses, self.rows.take(index))
            try:
                parts.append(TiedRows(bind(self.goal, sources, warn_trivial=False), matrices))
            except GoalError as error:
                raise GoalError(f"on the {len(index)} {what} rows of fold {number}: {error}") from error
        return parts[0], parts[1]

    def unwatched(self) -> "ValidationRows":
        """These rows without callbacks, which do not travel."""
        other = copy.copy(self)
        other.plain = copy.copy(self.plain)
        other.plain.callbacks = None
        other.plain.solver_options = replace(self.plain._options, verbose=0)
        return other

    def strata(self, n_splits: int) -> Ints:
        """Label and populations of each row as one number; rare combinations are left to their label."""
        cell = self.tied.cell[0].astype(np.int64)
        _, label = np.unique(self.rows.labels, return_inverse=True)
        common = np.bincount(cell)[cell] >= n_splits
        together: Ints = np.where(common, cell + 2, label)
        rare = np.bincount(together)[together] < n_splits
        return np.where(rare, label, together) if rare.any() else together

    def _refuse_counts(self) -> None:
        for item in self.tied.constraints:
            rates = item.cleared.form.rates
            counted = [rate for rate in rates if rate.definition.is_count and rate.population.source is None]
            if counted and (item.cleared.bound != 0.0 or len(counted) < len(rates)):
                raise CapabilityError(
                    f"{item.label!r} bounds a number of rows, which means another thing on a fold of the data. Use a "
                    "rate, or RateConstrainedClassifier with a C of your own."
                )


def make_splits(cv: Cv, rows: ValidationRows, random_state: np.random.RandomState) -> list[Split]:
    """Row numbers of the folds.

    Raises
    ------
    DataError
        If a class has fewer rows than there are folds.
    """
    y = rows.rows.labels
    if not isinstance(cv, Integral):
        splitter = check_cv(cv, y, classifier=True)
        return [(train, test) for train, test in splitter.split(np.zeros(len(y)), y)]
    folds, smallest = int(cv), int(np.unique(y, return_counts=True)[1].min())
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

    Folds are measured side by side where `joblib.parallel_config` says so (see `distributed/workers.py`): the callbacks
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
    training, held = rows.fold(number, split)
    place = {item.constraint: j for j, item in enumerate(held.tied.constraints)}
    columns = [place.get(item.constraint, -1) for item in rows.tied.constraints]
    for measure in fold_measures(training, held, settings, rows.plain, budget):
        measures.append(_aligned(measure, columns))
        if watched is not None:
            _tell(budget, number * len(settings) + len(measures), measure)
    return measures


def fold_measures(
    training: TiedRows, held: TiedRows, settings: Sequence[Setting], plain: RateConstrainedClassifier, budget: Budget
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
    budget : Budget
    """
    tied, matrices = training
    n, weight = tied.n_rows[0], tied.row_weight[0]
    total, options = float(n if weight is None else weight.sum()), plain._options
    space = plain._space(matrices[0], weight, n_sources=len(matrices))
    flat = build_problem(tied, space.features(matrices), 1.0, fit_intercept=options.fit_intercept)
    problem, convex = with_solver(flat, space, options.solver)
    before: _Done | None = None
    for setting in settings:
        began = time.perf_counter()
        here = problem.with_lam(2.0 / (total * setting.C))
        with refuse_overflow(matrices):
            before, best = _train(here, convex, setting, before, plain, budget)
        if budget.exhausted:
            return
        yield _measured(plain._at(space, best.w, best.b), best.violation <= 0.0, held, began)


class _Done(NamedTuple):
    """The setting trained last: its plan, its ramp solution, and the solution of its C's first convex step."""

    setting: Setting
    slopes: tuple[float, ...]
    solution: RampResult
    first: ConvexState | None

    def goes_on_to(self, setting: Setting, plan: MajorizeOptions) -> bool:
        """Whether its steps are the first ones of another setting's; not so once it needed a larger penalty."""
        return self.setting.C == setting.C and self.slopes == plan.slopes and self.solution.rho == plan.rhos[0]


def _train(
    problem: RateConstrainedProblem,
    convex: ConvexSolver,
    setting: Setting,
    before: _Done | None,
    plain: RateConstrainedClassifier,
    budget: Budget,
) -> tuple[_Done, Candidate]:
    """The ramp solution of a setting, and the model that enforcement makes of it."""
    step_tol = plain._options.step_tol
    plan = step_plan(setting.C, setting.steps, step_tol, step_tol)
    watched = Watched(convex)
    start: Solution | None
    state: ConvexState | None
    if before is not None and before.goes_on_to(setting, plan):
        prior = before.solution
        run = replace(plan, steps=setting.steps - before.setting.steps - 1, slopes=())
        start, state = (prior.w, prior.b), prior.subproblem.state
        watched.first = before.first
    else:
        run, start = plan, None
        state = None if before is None else before.first
    measures, hard = make_measures(problem, plain.enforce)
    solution = minimise_ramp(problem, watched, run, start=start, state=state, budget=budget)
    search = enforce_from_two_starts(
        problem, watched, measures, plan, hard=hard, give_back=measures is hard, budget=budget, known=solution
    )
    return _Done(setting, plan.slopes, solution, watched.first), search.best


def _measured(model: RateConstrainedClassifier, met: bool, held: TiedRows, began: float) -> FoldMeasure:
    """A model on held-out rows."""
    scores, tied = model._positive_scores(held.matrices), held.tied
    said = [(z > 0.0).astype(np.float64) if model.enforce == "deterministic" else ramp(z) for z in scores]
    measured = tied.measure(tied.positive_mass(said))
    variance = float(covariance([objective_influence(tied, said)])[0, 0])
    return FoldMeasure(
        measured.objective, variance, measured.slack, slack_variances(tied, said), met, time.perf_counter() - began
    )


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
) -> tuple["Admissible", dict[str, Floats | Bools]]:
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


@dataclass(frozen=True, eq=False)
class Admissible:
    """The candidate chosen, and which were admissible.

    Attributes
    ----------
    index : int
    admissible : ndarray of bool, shape (K,)
        Candidates whose violations are within noise, and that met the goal on the training rows of every fold.
    excess : ndarray of shape (K,)
        The largest violation of each in standard errors (0: none); infinite where a rate is undefined.
    """

    index: int
    admissible: Bools
    excess: Floats


def choose_candidate(
    objective: Floats, objective_error: Floats, slack: Floats, slack_error: Floats, met: Bools, rule: str
) -> Admissible:
    """Choose among K candidates, simplest first.

    Parameters
    ----------
    objective, objective_error : ndarray of shape (K,)
        Mean over the folds, and its standard error.
    slack, slack_error : ndarray of shape (K, m)
    met : ndarray of bool, shape (K,)
        Whether the goal was met on the training rows of every fold.
    rule : str
        One of `RULES`.

    Returns
    -------
    Admissible
        Where no candidate is admissible, the one of least `excess` (of those that met the goal in training, if any).
    """
    n, m = slack.shape
    missed = np.maximum(-slack, 0.0)
    in_errors = np.divide(missed, slack_error, out=np.where(missed > 0.0, np.inf, 0.0), where=slack_error > 0.0)
    excess = np.where(np.isnan(slack), np.inf, in_errors).max(axis=1, initial=0.0)
    admissible = met & (excess <= scipy.stats.norm.ppf(1.0 - LEVEL / max(m, 1))) & np.isfinite(objective)
    if not admissible.any():
        return Admissible(_first_least(excess, met if met.any() else np.ones(n, bool)), admissible, excess)
    best = _first_least(objective, admissible)
    if rule == "one-standard-error":
        within = admissible & (objective <= objective[best] + objective_error[best])
        best = int(np.flatnonzero(within)[0])
    return Admissible(best, admissible, excess)


def _first_least(values: Floats, among: Bools) -> int:
    """The first position of the least value among some."""
    return (
        int(np.argmin(np.where(among, values, np.inf)))
        if np.isfinite(values[among]).any()
        else int(np.flatnonzero(among)[0])
    )
