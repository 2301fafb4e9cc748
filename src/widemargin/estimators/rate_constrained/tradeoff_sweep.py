"""One run of `tradeoff_path`: from checked rows to the points of the path."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.fitting import refuse_overflow, step_plan
from widemargin.estimators.rate_constrained.path import GoalSeries
from widemargin.estimators.rate_constrained.tradeoff_resume import cut_short, neighbour, restored
from widemargin.exceptions import DataError, GoalError, GoalWarning, MarginConvergenceWarning
from widemargin.goals import Goal
from widemargin.goals._warn import warn
from widemargin.goals.binding.bind import Source, TiedGoal, baselines_used, bind
from widemargin.goals.binding.sources import External
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.measuring.tradeoff_measures import MeasureLog
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.losses.ramp import ramp
from widemargin.solvers.base import Budget

__all__ = ["GivenRows", "Piece", "Sweep"]


class GivenRows(NamedTuple):
    """Rows as a caller gives them."""

    X: Any
    y: Any
    populations: Any = None
    sample_weight: Any = None


@dataclass
class _Measured:
    """Rows that the models are measured on: what goals are tied to, and the features of each source."""

    sources: tuple[Source, ...]
    matrices: list[Any]
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
    training, held : GivenRows
        `held` may be None.
    external : dict of str to External, or None
    goals : sequence of Goal
    levels : ndarray of shape (K,)
    place : int or None
        Number of the swept constraint in each goal; None where no single one is.
    """

    def __init__(
        self,
        classifier: RateConstrainedClassifier,
        training: GivenRows,
        held: GivenRows | None,
        external: Mapping[str, External] | None,
        *,
        goals: Sequence[Goal],
        levels: npt.NDArray[np.float64],
        place: int | None,
    ) -> None:
        self.model = model = clone(classifier)
        options = model._options
        model.calibrator_ = None
        self.goals, self.levels, self.place = goals, levels, place
        self.budget = Budget(model.time_budget, model._watchers())
        uses = _all_uses(goals)
        X, y, weight = model._checked(training.X, training.y, training.sample_weight)
        sources, matrices = model._sources(uses, X, y, weight, training.X, training.populations, external=external)
        self.lam = 2.0 / (float(X.shape[0] if weight is None else weight.sum()) * model.C)
        space = model._space(X, weight, n_sources=len(matrices))
        self.series = GoalSeries(
            sources, matrices, space, fit_intercept=options.fit_intercept, enforcement=model.enforce,
            solver=options.solver,
            cold=step_plan(model.C, model.max_steps, options.tol, options.step_tol), budget=self.budget,
        )  # fmt: skip
        self.training = _Measured(sources, matrices, MeasureLog(X.shape[0], with_errors=False))
        self.held: _Measured | None = None
        if held is not None:
            X, y, weight = model._checked(held.X, held.y, held.sample_weight, reset=False)
            sources, matrices = model._sources(uses, X, y, weight, held.X, held.populations, external=external)
            self.held = _Measured(sources, matrices, MeasureLog(X.shape[0], with_errors=True))
        self.points: list[_Point] = []
        self.labels: tuple[str, ...] = ()

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
        trained = self.series.train(tied, self.lam)
        if self.budget.exhausted and self.points:
            return  # cut short; its neighbours are done
        model = copy.copy(self.model)
        model.goal = model.goal_ = goal
        model._adopt_point(self.series.space, trained.best.w, trained.best.b)
        model._adopt(trained, tied, self.training.matrices, None)
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
