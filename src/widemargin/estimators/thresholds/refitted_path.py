"""A trade-off path of a model that is fitted anew at every value: boosted trees, thresholds, several classes."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from widemargin.distributed.workers import Deadline
from widemargin.estimators._binary import asked_rows, predicted_goal
from widemargin.estimators._options import budget_of
from widemargin.estimators.path_points import Decided, PathPoints, Point, Swept
from widemargin.estimators.thresholds.thresholded_model import ThresholdedModel
from widemargin.exceptions import DoubtfulModelWarning, GoalError, GoalWarning, MarginConvergenceWarning
from widemargin.goals import Goal
from widemargin.goals.binding.labels import ordered_classes
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.rows import Rows


class _Fitted(NamedTuple):
    """A model, and the decisions that its goal was judged by."""

    model: Any
    tied: TiedGoal
    positive: Predictions
    shares: Predictions
    told: Mapping[str, Any]  # what its report says besides
    objective: float  # of what the model enforces
    seconds: float

    @property
    def met(self) -> bool:
        """Whether it meets its goal."""
        status = self.model.status_
        return bool(status == "converged" or (status != "infeasible" and self.model.goal_report_.passed))

    @property
    def soft(self) -> Predictions:
        """The decisions that the model enforces: drawn ones by their probabilities."""
        return self.shares if self.model.randomize else self.positive

    def at(self, other: "_Fitted", goal: Goal) -> "_Fitted":
        """The same model as the answer to another goal, which was tied to the same rows."""
        model = copy.copy(self.model)
        model.goal = model.goal_ = goal
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulModelWarning)
            model._report(other.tied, self.positive, self.shares, **self.told)
        return self._replace(model=model, tied=other.tied, seconds=other.seconds)


class RefittedPath(PathPoints):
    """Fits a model at every value, and measures it.

    Parameters
    ----------
    classifier : ThresholdedModel
    training : Rows
        With the external data sets, which are part of the training data also where held-out rates are measured.
    held : Rows or None
    swept : Swept
    """

    def __init__(self, classifier: ThresholdedModel, training: Rows, held: Rows | None, swept: Swept) -> None:
        own = classifier.get_params(deep=False)
        budget = budget_of(own.get("time_budget"), own.get("callbacks"))
        super().__init__(classifier.goal, swept, budget)
        self.rows, self.classifier = training, classifier
        self.unseen = None if held is None else held.replaced(
            external=training.external, baselines=classifier.baselines or {}
        )  # fmt: skip
        # All points see the same folds and held-out rows, or their rates could not be compared.
        self.seed = classifier.random_state
        if not isinstance(self.seed, int):
            self.seed = int(check_random_state(self.seed).randint(2**31 - 1))

    def run(self) -> TradeoffPath:
        """Fit point after point until the user's patience ends; then each gets the best for its goal of all models."""
        fitted: list[_Fitted] = []
        try:
            for goal in self.goals:
                new = self._fit(goal)
                self.budget.interrupted |= new.model.status_ == "interrupted"
                if self.budget.exhausted and fitted:
                    break  # cut short; its neighbours are done
                self.agrees(new.tied.n_constraints)
                fitted.append(new)
                self.budget.tell("path", len(fitted) - 1, new.objective, np.nan, 0.0 if new.met else np.nan)
                if self.budget.exhausted:
                    break
        except KeyboardInterrupt:
            self.budget.interrupted = True
        for number, (goal, own) in enumerate(zip(self.goals, fitted, strict=False)):
            best = min(self._candidates(number, fitted), key=lambda one: one.objective)
            one = own if best is own else best.at(own, goal)
            point = Point(one.model, one.met, one.seconds, one.objective, 0.0)
            self.keep(goal, point, Decided(one.tied, one.positive, one.soft), self._of_held_out(goal, one.model))
        return self.path(randomized=self.classifier.randomize)

    def _fit(self, goal: Goal) -> _Fitted:
        """The model of a goal."""
        model, began, rows = clone(self.classifier), self.budget.elapsed, self.rows
        own = {"goal": goal, "on_infeasible": "warn", "random_state": self.seed}
        own |= {"time_budget": Deadline.after(self.budget.left).left}
        own |= {"callbacks": getattr(self.classifier, "callbacks", None)}  # these, and no copies of them
        model.set_params(**{name: value for name, value in own.items() if name in model.get_params(deep=False)})
        report, seen = model._report, []

        def recorded(tied: TiedGoal, positive: Predictions, shares: Predictions, **told: Any) -> None:
            report(tied, positive, shares, **told)
            seen.append((tied, positive, shares, told))

        model._report = recorded
        try:
            with warnings.catch_warnings():
                # The path says in one sentence which points miss their goals, and whether it ended early.
                warnings.simplefilter("ignore", DoubtfulModelWarning)
                warnings.simplefilter("ignore", GoalWarning)
                warnings.filterwarnings("ignore", ".* is kept", MarginConvergenceWarning)
                model.fit(rows.X, rows.y, rows.sample_weight, rows.populations, rows.external or None)
        finally:
            del model._report
        fitted = _Fitted(model, *seen[-1], np.nan, self.budget.elapsed - began)
        measured = fitted.tied.measure(fitted.tied.positive_mass(fitted.soft))
        return fitted._replace(objective=float(measured.objective))

    def _candidates(self, number: int, fitted: Sequence[_Fitted]) -> list[_Fitted]:
        """The model of a point, and those that met a stricter goal, so that a looser one is never worse off.

        A proof is about one model and goal, so with a confidence there is no choice. Rates of rows that a model learned
        from and rates of others are not compared either.
        """
        own = fitted[number]
        if self.is_floor is None or getattr(self.classifier, "confidence", None) is not None:
            return [own]
        sign, rows = 1.0 if self.is_floor else -1.0, own.told["data_name"]
        others = [
            one for one, level in zip(fitted, self.levels, strict=False)
            if one.met and one.told["data_name"] == rows and sign * (level - self.levels[number]) > 0.0
        ]  # fmt: skip
        return [own, *others] if own.met else others or [own]

    def _of_held_out(self, goal: Goal, model: Any) -> Decided | None:
        """What a model says of the held-out rows."""
        if self.unseen is None:
            return None
        classes = ordered_classes(model.classes_.tolist(), model.positive_class_)
        try:
            tied, positive = predicted_goal(goal, self.unseen, classes, model.predict, getattr(model, "abstain", None))
        except GoalError as error:
            raise GoalError(f"on the validation rows: {error}") from error
        soft: Predictions = positive
        if model.randomize:
            parts = [asked_rows(self.unseen, part.name) for part in tied.given]
            column = int(model._direction() > 0.0)
            soft = [model.randomized_proba(part.X, part.populations)[:, column] for part in parts]
        return Decided(tied, positive, soft)
