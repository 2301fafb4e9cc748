"""One run of `tradeoff_path`: from rows to the points of the path; points of an earlier run, as models again."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from widemargin._typing import Floats, Matrix
from widemargin.estimators.feature_space import ColumnSpace, GramSpace, stacked
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.goal_series import GoalSeries, Neighbour
from widemargin.estimators.rate_constrained.training import CheckedRows, TiedRows, refuse_overflow
from widemargin.exceptions import DataError, GoalError, GoalWarning, MarginConvergenceWarning
from widemargin.goals import Goal
from widemargin.goals._warn import warn
from widemargin.goals.binding.bind import Source, TiedGoal, baselines_used, bind
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.measuring.tradeoff_path import MeasureLog, TradeoffPath
from widemargin.losses.ramp import ramp
from widemargin.rows import Rows
from widemargin.solvers.base import Status

__all__ = ["Piece", "Sweep", "cut_short", "model_from_numbers", "model_numbers"]


@dataclass
class _Measured:
    """Rows that the models are measured on: what goals are tied to, and the features of each source."""

    sources: tuple[Source, ...]
    matrices: list[Matrix]
    log: MeasureLog
    tied: TiedGoal | None = None

    def bind(self, goal: Goal) -> TiedGoal:
        """Tie a goal to these rows."""
        try:
            self.tied = bind(goal, self.sources, warn_trivial=False, like=self.tied)
        except GoalError as error:
            raise GoalError(f"on the validation rows: {error}") from error
        return self.tied

    def add(
        self,
        model: RateConstrainedClassifier,
        tied: TiedGoal,
        keys: Sequence[Constraint],
        swept: Sequence[Constraint],
    ) -> None:
        """Measure a model."""
        scores = model._positive_scores(self.matrices)
        self.log.add(tied, [z > 0.0 for z in scores], [ramp(z) for z in scores], keys, swept)


class _Point(NamedTuple):
    """What is kept of a point besides its measures."""

    model: RateConstrainedClassifier
    met: bool
    seconds: float
    objective: float
    violation: float


class Piece(NamedTuple):
    """Points of a path that were trained one from the other, and what was measured of them."""

    points: list[_Point]
    labels: tuple[str, ...]
    training: MeasureLog
    held: MeasureLog | None


class Sweep:
    """Trains and measures the points of a path.

    Parameters
    ----------
    classifier : RateConstrainedClassifier
    training : Rows
        With the external data sets, which are part of the training data also where held-out rates are measured.
    held : Rows or None
    goals : sequence of Goal
    levels : ndarray of shape (K,)
    place : int or None
        Number of the swept constraint in each goal; None where no single one is.
    """

    def __init__(
        self,
        classifier: RateConstrainedClassifier,
        training: Rows,
        held: Rows | None,
        *,
        goals: Sequence[Goal],
        levels: Floats,
        place: int | None,
    ) -> None:
        self.model = model = clone(classifier)
        model.calibrator_ = None
        self.goals, self.levels, self.place = goals, levels, place
        self.budget = model._budget()
        uses = _all_uses(goals)
        self.training, rows = self._checked(training, training.external, uses)
        matrices = self.training.matrices
        space = model._space(rows.X, rows.weight, n_sources=len(matrices))
        self.series = GoalSeries(self.training.sources, matrices, space, model._plan(rows.whole_weight), self.budget)
        self.held = None if held is None else self._checked(held, training.external, uses, is_held=True)[0]
        self.points: list[_Point] = []
        self.labels: tuple[str, ...] = ()

    def _checked(
        self,
        given: Rows,
        external: Mapping[str, Rows],
        uses: Mapping[str | None, Sequence[str]],
        *,
        is_held: bool = False,
    ) -> tuple[_Measured, CheckedRows]:
        """Rows that were given, ready to be measured on."""
        assert given.X is not None and given.y is not None
        rows = self.model._checked(
            given.X, given.y, given.sample_weight, given.populations, external, reset=not is_held
        )
        sources, matrices = self.model._sources(uses, rows)
        return _Measured(sources, matrices, MeasureLog(rows.X.shape[0], with_errors=is_held)), rows

    def go_on_from(self, path: TradeoffPath) -> None:
        """Take the points of a path that ended early as trained: measure their models again, and start from the last.

        Raises
        ------
        DataError
            Its points are not the first of this path, or its models do not give its numbers on these rows.
        """
        if len(path) > len(self.levels) or not np.array_equal(path.values, self.levels[: len(path)]):
            raise DataError(f"the {len(path)} values of the earlier path are not the first of these; train all points.")
        if cut_short(path):
            return
        for number, goal in enumerate(self.goals[: len(path)]):
            tied = self.series.bind(goal)
            if self.held is not None:
                self.held.bind(goal)
            model = restored(self.model, path, number, self.series.space, self.training.matrices)
            model.goal = model.goal_ = goal
            point = _Point(model, bool(path.met[number]), float(path.seconds[number]), np.nan, np.nan)
            self._keep(goal, tied, point)
            self.series.go_on(tied, neighbour(model, bool(path.met[number]), tied.n_constraints))
        found, told = self.training.log.finish().objective, path.training.objective
        if not np.allclose(found, told, rtol=0.0, atol=1e-9, equal_nan=True):
            raise DataError(
                f"the models of the earlier path have the objectives {found.tolist()} on these rows, and it says "
                f"{told.tolist()}: the rows are others, or the numbers were changed. Train all points."
            )

    def train(self) -> "Piece":
        """Train point after point, until the goals or the time end."""
        for goal in self.goals[len(self.points) :]:
            with refuse_overflow(self.training.matrices):
                self._train(goal)
            if self.budget.exhausted:
                break
        held = None if self.held is None else self.held.log
        return Piece(self.points, self.labels, self.training.log, held)

    def run(self, pieces: "Iterable[Piece] | None" = None) -> TradeoffPath:
        """Train all points, or take over those of pieces trained elsewhere, until the user's patience ends."""
        try:
            if pieces is None:
                self.train()
            else:
                for piece in pieces:
                    self._take(piece)
                    if self.budget.exhausted:
                        break
        except KeyboardInterrupt:
            self.budget.interrupted = True
        if not self.points:
            raise KeyboardInterrupt  # before there was any model
        self._conclude()
        return self._path()

    def _train(self, goal: Goal) -> None:
        began = self.budget.elapsed
        tied = self.series.bind(goal)
        self._agrees(tied)
        if self.held is not None:  # what is wrong there is said before the time for training is spent
            self.held.bind(goal)
        trained = self.series.train(tied)
        if self.budget.exhausted and self.points:
            return  # cut short; its neighbours are done
        model = copy.copy(self.model)
        model.goal = model.goal_ = goal
        model._adopt(self.series.space, trained, TiedRows(tied, self.training.matrices))
        met = trained.met if model.enforce == "randomized" else model.goal_report_.all_met("estimate")
        best = trained.best
        self._keep(goal, tied, _Point(model, met, self.budget.elapsed - began, best.objective, best.violation))
        self._tell(self.points[-1])

    def _agrees(self, tied: TiedGoal) -> None:
        if self.points and tied.n_constraints != len(self.labels):
            raise GoalError(
                f"a goal with {tied.n_constraints} constraints follows one with {len(self.labels)}; the goals of a "
                "path must have the same constraints."
            )

    def _keep(self, goal: Goal, tied: TiedGoal, point: _Point) -> None:
        """Measure the model of a point and add it to the path."""
        self._agrees(tied)
        keys = [item.constraint for item in tied.constraints]
        if not self.points:
            self.labels = tuple(item.label for item in tied.constraints)
        swept = self._swept(goal, tied)
        self.training.add(point.model, tied, keys, swept)
        if self.held is not None and self.held.tied is not None:
            self.held.add(point.model, self.held.tied, keys, swept)
        self.points.append(point)

    def _tell(self, point: _Point) -> None:
        self.budget.tell("path", len(self.points), point.objective, point.model.subproblem_gap_, point.violation)

    def _take(self, piece: "Piece") -> None:
        """The points of a piece; the callbacks are told of them."""
        if self.points and piece.labels != self.labels:
            raise GoalError(
                f"a goal with {len(piece.labels)} constraints follows one with {len(self.labels)}; the goals of a "
                "path must have the same constraints."
            )
        self.labels = piece.labels
        self.training.log.join(piece.training)
        if self.held is not None and piece.held is not None:
            self.held.log.join(piece.held)
        for point in piece.points:
            watched = {name: getattr(self.model, name) for name in ("callbacks", "solver_options", "time_budget")}
            point.model.set_params(**watched)
            self.points.append(point)
            self._tell(point)

    def _swept(self, goal: Goal, tied: TiedGoal) -> list[Constraint]:
        """The constraints whose level is swept: one, or those of a bundle."""
        if self.place is None:
            return []
        entry = goal.constraints[self.place]
        return [
            item.constraint
            for item in tied.constraints
            if item.constraint == entry or item.bundle == (entry.label or entry.text)
        ]

    def _conclude(self) -> None:
        done, asked = len(self.points), len(self.goals)
        if done < asked or self.budget.exhausted:
            cause = "interrupted" if self.budget.interrupted else "stopped by a callback"
            if not (self.budget.interrupted or self.budget.stopped):
                cause = "the time budget is spent: raise time_budget"
            warn(f"{done} of {asked} points after {self.budget.elapsed:.1f} s ({cause}).", MarginConvergenceWarning)
        missed = [f"{level:g}" for level, point in zip(self.levels, self.points, strict=False) if not point.met]
        if missed:
            listed = ", ".join(missed[:5]) + (f" and {len(missed) - 5} more" if len(missed) > 5 else "")
            warn(
                f"no model that meets the goal on the training rows was found at {len(missed)} of {done} values "
                f"({listed}); their nearest models are kept, with met = False.",
                GoalWarning,
            )

    def _path(self) -> TradeoffPath:
        models = tuple(point.model for point in self.points)
        training = self.training.log.finish()
        slack = training.ramp_slack if self.model.enforce == "randomized" else training.slack
        met = np.array([point.met for point in self.points])
        name = "value"
        if self.place is not None:
            entry = self.goals[0].constraints[self.place]
            name = entry.label or entry.text
        return TradeoffPath(
            name=name,
            objective_text=str(self.goals[0].objective),
            labels=self.labels,
            values=self.levels[: len(models)],
            n_asked=len(self.goals),
            coef=np.concatenate([model.coef_ for model in models]) if hasattr(models[0], "coef_") else None,
            intercept=np.concatenate([model.intercept_ for model in models]),
            training=training,
            held_out=None if self.held is None else self.held.log.finish(),
            gap=np.array([model.subproblem_gap_ for model in models]),
            certified=np.array([model.certified_point_ for model in models]),
            multipliers=np.stack([model.multipliers_ for model in models]),
            met=met,
            violation=np.where(met, 0.0, np.maximum(-slack, 0.0).max(axis=1, initial=0.0)),
            status=tuple(model.status_ for model in models),
            seconds=np.array([point.seconds for point in self.points]),
            n_iter=np.array([model.n_iter_ for model in models]),
            models=models,
        )


def _all_uses(goals: Sequence[Goal]) -> dict[str | None, tuple[str, ...]]:
    """Every source and baseline that some goal uses."""
    uses: dict[str | None, dict[str, None]] = {}
    for goal in goals:
        for source, names in baselines_used(goal).items():
            uses.setdefault(source, {}).update(dict.fromkeys(names))
    return {source: tuple(names) for source, names in uses.items()}


def cut_short(path: TradeoffPath) -> bool:
    """Whether not even its first point was trained to the end."""
    return path.status[0] in (Status.TIME_LIMIT, Status.STOPPED, Status.INTERRUPTED)


def model_numbers(model: RateConstrainedClassifier) -> dict[str, Any]:
    """What a model of a path is made of, fit for JSON: coefficients, or of a kernel the weights of training rows."""
    numbers: dict[str, Any] = {"intercept": float(model.intercept_[0])}
    if "dual_coef_" in vars(model):
        return numbers | {"support": model.support_.tolist(), "dual_coef": model.dual_coef_[0].tolist()}
    return numbers | {"coef": model.coef_[0].tolist()}


def model_from_numbers(numbers: Mapping[str, Any]) -> SimpleNamespace:
    """What `restored` needs of a model, from what `model_numbers` gave (also after JSON).

    Raises
    ------
    DataError
        The numbers are none, or do not fit together.
    """
    try:
        made = SimpleNamespace(intercept_=_finite([numbers["intercept"]]))
        if "coef" in numbers:
            made.coef_ = _finite(numbers["coef"])[None, :]
            return made
        made.dual_coef_, support = _finite(numbers["dual_coef"])[None, :], _finite(numbers["support"])
        made.support_ = support.astype(np.intp)
        if made.support_.shape != made.dual_coef_[0].shape or (made.support_ != support).any():
            raise ValueError("support and dual_coef differ")
        return made
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"the stored models are damaged ({str(error)[:200]}). Train all points again.") from None


def _finite(values: npt.ArrayLike) -> Floats:
    found = np.array(values, dtype=np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ValueError("a vector of finite numbers is needed")
    return found


def restored(
    template: RateConstrainedClassifier, path: TradeoffPath, number: int, space: ColumnSpace, matrices: Sequence[Matrix]
) -> RateConstrainedClassifier:
    """The model of a point: itself, or made of its numbers.

    Parameters
    ----------
    template : RateConstrainedClassifier
        With what all models of the path have in common.
    path : TradeoffPath
        With a model, or its numbers (`model_from_numbers`), for each point.
    number : int
    space : ColumnSpace
        With its features made.
    matrices : sequence of matrices
        Training features of each source, of which kernel models take their support vectors.

    Raises
    ------
    DataError
        The path has no models, or they are of another space.
    """
    known = path.model(number)
    if isinstance(known, RateConstrainedClassifier):
        return known
    model, is_kernel = copy.copy(template), isinstance(space, GramSpace)
    if is_kernel != hasattr(known, "dual_coef_"):
        raise DataError("the earlier path has models of another kind (linear, kernel). Train all points again.")
    if isinstance(space, GramSpace):
        rows = stacked(matrices)
        if known.support_.size and not 0 <= known.support_.min() <= known.support_.max() < rows.shape[0]:
            raise DataError("the earlier path has models of rows that are not there. Train all points again.")
        model.support_, model.support_vectors_ = known.support_, rows[known.support_]
        model.dual_coef_, model.intercept_, model.gamma_ = known.dual_coef_, known.intercept_, space.kernel.gamma
    else:
        space.adopt(model, known.coef_)
        model.intercept_ = known.intercept_
    model.subproblem_gap_, model.certified_point_ = float(path.gap[number]), bool(path.certified[number])
    model.multipliers_, model.status_ = path.multipliers[number], path.status[number]
    model.n_iter_ = int(path.n_iter[number])
    return model


def neighbour(model: RateConstrainedClassifier, met: bool, n_constraints: int) -> Neighbour | None:
    """The point to start from; None for an exact kernel, whose weights belong to merged rows of one run."""
    if "dual_coef_" in vars(model):
        return None
    sign = model._direction()
    return Neighbour(sign * model.coef_[0], -sign * float(model.intercept_[0]), 0.0, met, n_constraints)
