"""The points of a trade-off path, whatever trains them: their goals, what is measured of each, and the path itself."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.estimators._binary import as_goal
from widemargin.estimators._options import cause_of
from widemargin.exceptions import GoalError, GoalWarning, MarginConvergenceWarning, warn
from widemargin.goals import Goal
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.measuring.tradeoff_path import MeasureLog, TradeoffPath
from widemargin.solvers.base import Budget


class Swept(NamedTuple):
    """The goals of a path.

    Attributes
    ----------
    goals : sequence of Goal
    levels : ndarray of shape (K,)
    place : int or None
        Number of the swept constraint in each goal; None where no single one is.
    """

    goals: Sequence[Goal]
    levels: Floats
    place: int | None


class Point(NamedTuple):
    """What is kept of a point besides its measures."""

    model: Any
    met: bool
    seconds: float
    objective: float
    violation: float


class Decided(NamedTuple):
    """A goal tied to rows, and what a model says of them: its decisions, and those of its random predictions."""

    tied: TiedGoal
    positive: Predictions
    soft: Predictions


class PathPoints:
    """The points so far, and the path that they make.

    Parameters
    ----------
    asked : Goal or str or None
        Of the classifier: at a point a rule has another bound, and so another text, but it is called as it is here.
    swept : Swept
    budget : Budget
    """

    def __init__(self, asked: Goal | str | None, swept: Swept, budget: Budget) -> None:
        self.asked, self.budget = as_goal(asked), budget
        self.goals, self.levels, self.place = swept
        self.points: list[Point] = []
        self.n_constraints: int | None = None
        self.labels: tuple[str, ...] = ()
        self.floors: tuple[bool, ...] = ()  # whether each constraint is one from below
        self.training: MeasureLog | None = None
        self.held: MeasureLog | None = None

    @property
    def is_floor(self) -> bool | None:
        """Whether a higher value asks for more; None where no single constraint is swept."""
        return None if self.place is None else self.asked.constraints[self.place].is_floor

    def agrees(self, n_constraints: int) -> None:
        """Refuse a goal with more or fewer constraints than the first one had."""
        self.n_constraints = n_constraints if self.n_constraints is None else self.n_constraints
        if n_constraints != self.n_constraints:
            raise GoalError(
                f"a goal with {n_constraints} constraints follows one with {self.n_constraints}; the goals of a path "
                "must have the same constraints."
            )

    def keep(self, goal: Goal, point: Point, training: Decided, held: Decided | None) -> None:
        """Measure the model of a point and add it to the path."""
        tied = training.tied
        self.agrees(tied.n_constraints)
        keys = [item.constraint for item in tied.constraints]
        if not self.points:
            self.labels = tuple(item.label for item in tied.constraints)
            self.floors = tuple(item.cleared.sense == ">=" for item in tied.constraints)
        swept: list[Constraint] = []  # the constraints whose level is swept: one, or those of a bundle
        if self.place is not None:
            entry = goal.constraints[self.place]
            bundle = entry.label or entry.text
            swept = [item.constraint for item in tied.constraints if item.constraint == entry or item.bundle == bundle]
        self.training = self.training or MeasureLog(_n_rows(training), with_errors=False)
        self.training.add(*training, keys, swept)
        if held is not None:
            self.held = self.held or MeasureLog(_n_rows(held), with_errors=True)
            self.held.add(*held, keys, swept)
        self.points.append(point)

    def path(self, *, randomized: bool) -> TradeoffPath:
        """The path of the points, with warnings where points are missing or miss their goals.

        Raises
        ------
        KeyboardInterrupt
            If there is no point.
        """
        if self.training is None:
            raise KeyboardInterrupt  # before there was any model
        done, expected = len(self.points), len(self.goals)
        if done < expected or self.budget.exhausted:
            seconds, cause = self.budget.elapsed, cause_of(self.budget)
            warn(f"{done} of {expected} points after {seconds:.1f} s ({cause}).", MarginConvergenceWarning)
        missed = [f"{level:g}" for level, point in zip(self.levels, self.points, strict=False) if not point.met]
        if missed:
            listed = ", ".join(missed[:5]) + (f" and {len(missed) - 5} more" if len(missed) > 5 else "")
            warn(
                f"no model that meets the goal on the training rows was found at {len(missed)} of {done} values "
                f"({listed}); their nearest models are kept, with met = False.",
                GoalWarning,
            )
        models = tuple(point.model for point in self.points)
        training = self.training.finish()
        slack = training.ramp_slack if randomized else training.slack
        met, name, labels = np.array([point.met for point in self.points]), "value", self.labels
        if self.place is not None:
            entry, at_first = (goal.constraints[self.place] for goal in (self.asked, self.goals[0]))
            name, of_first = entry.label or entry.text, at_first.label or at_first.text
            labels = tuple(name if label == of_first else label for label in labels)
        unknown = np.full(len(labels), np.nan)
        return TradeoffPath(
            name=name,
            objective_text=str(self.goals[0].objective),
            labels=labels,
            is_floor=self.is_floor,
            floors=np.array(self.floors, dtype=bool),
            values=self.levels[: len(models)],
            n_asked=len(self.goals),
            coef=np.concatenate([model.coef_ for model in models]) if hasattr(models[0], "coef_") else None,
            intercept=np.array([float(np.ravel(getattr(model, "intercept_", np.nan))[0]) for model in models]),
            training=training,
            held_out=None if self.held is None else self.held.finish(),
            gap=np.array([getattr(model, "subproblem_gap_", np.nan) for model in models]),
            certified=np.array([getattr(model, "certified_point_", False) for model in models]),
            multipliers=np.stack([getattr(model, "multipliers_", unknown) for model in models]),
            met=met,
            violation=np.where(met, 0.0, np.maximum(-slack, 0.0).max(axis=1, initial=0.0)),
            status=tuple(model.status_ for model in models),
            seconds=np.array([point.seconds for point in self.points]),
            n_iter=np.array([getattr(model, "n_iter_", getattr(model, "n_models_", 0)) for model in models]),
            models=models,
        )


def _n_rows(decided: Decided) -> int:
    """Rows of the main data set."""
    return int(decided.positive[0].shape[0])
