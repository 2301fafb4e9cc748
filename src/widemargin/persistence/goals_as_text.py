"""Goals, populations and reports inside a model: stored as text and read back by their own readers.

So a file never holds the language's objects, and a later version of the library, whose classes look different, can
still read the text.
"""

import copy
import dataclasses
import inspect
import json
from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier

from widemargin.estimators._options import Checked
from widemargin.estimators.rate_constrained.outcome import Infeasibility
from widemargin.goals import Goal, Population, positive_rate
from widemargin.goals.measuring.goal_report import GoalReport

_LONGEST = 1_000_000  # goals built in Python may be longer than the parser allows for texts that users write


@dataclasses.dataclass(frozen=True)
class StoredGoal:
    """The statements of a goal, in the place where the model holds the goal."""

    text: str


class StoredPopulation(StoredGoal):
    """The statements of a goal that uses nothing but the population, in the place where the model holds it."""


class StoredReport(StoredGoal):
    """A goal report as JSON, in the place where the model holds the report."""


class StoredInfeasibility(StoredGoal):
    """What is known about an unmet goal as JSON, in the place where the model holds it."""


def first_goal(model: object) -> Goal | None:
    """The outermost goal that a model holds; None without one."""
    found: list[Goal] = []

    def note(part: object) -> object:
        found.extend([part] if isinstance(part, Goal) else [])
        return part

    mapped(model, note)
    return found[0] if found else None


def as_text(part: object) -> object:
    """A part of a model as a file holds it; for `mapped`."""
    if isinstance(part, Goal):
        return StoredGoal(str(part))
    if isinstance(part, HistGradientBoostingClassifier):  # a copy, see `mapped`
        # To restore a generator skops would call a function that the file names, which is refused. Only `fit` draws
        # from it, so it is not stored.
        vars(part)["_feature_subsample_rng"] = None
    if isinstance(part, Population):
        return StoredPopulation(str(Goal(positive_rate(part))))
    if isinstance(part, Infeasibility):
        return StoredInfeasibility(json.dumps(part.to_dict()))
    return StoredReport(json.dumps(part.to_dict())) if isinstance(part, GoalReport) else part


def from_text(part: object) -> object:
    """Inverse of `as_text`; the estimators of an older file get the constructor parameters of today."""
    if isinstance(part, BaseEstimator):
        # Parameters that are entries of `solver_options` today are moved there; parameters that are new get their
        # default, which is chosen so that it is what older versions did.
        values, parameters = vars(part), inspect.signature(type(part)).parameters
        checked = inspect.getattr_static(type(part), "_options", None)
        names = checked.record.__dataclass_fields__ if isinstance(checked, Checked) else ()
        options = {name: values.pop(name) for name in list(values) if name in names and name not in parameters}
        if options:
            values["solver_options"] = options
        for name, parameter in parameters.items():
            if name not in values and parameter.default is not parameter.empty:
                values[name] = parameter.default
    if isinstance(part, StoredReport):
        return GoalReport.from_dict(json.loads(part.text))
    if isinstance(part, StoredInfeasibility):
        return Infeasibility.from_dict(json.loads(part.text))
    if isinstance(part, StoredGoal):
        goal = Goal.parse(part.text, max_characters=_LONGEST)
        return goal.objective.populations[0] if isinstance(part, StoredPopulation) else goal
    return part


def mapped(part: Any, change: Callable[[object], object]) -> Any:
    """A copy of a model in which every part, from the innermost outwards, is replaced by `change` of it."""
    if isinstance(part, dict):
        inside, part = part, copy.copy(part)  # not every kind of dict is made of pairs
        part.update((key, mapped(value, change)) for key, value in inside.items())
    elif isinstance(part, tuple):
        values = [mapped(value, change) for value in part]
        part = type(part)(*values) if hasattr(part, "_fields") else type(part)(values)
    elif isinstance(part, list):
        part = [mapped(value, change) for value in part]
    elif isinstance(part, BaseEstimator) or hasattr(type(part), "_stored_arrays"):
        inside = vars(part)
        part = copy.copy(part)
        vars(part).update((name, mapped(value, change)) for name, value in inside.items())
    return change(part)
