"""Training a deployed model again on new rows, under a ceiling on how many decisions change.

Goh et al. 2016, section 2 ("stability"): churn against the deployed model needs no labels, so it can be one more
constraint of the goal, on the new rows or on unlabelled ones.
"""

from collections.abc import Mapping

import narwhals as nw

from widemargin._typing import Features, Table
from widemargin.estimators._binary import as_goal
from widemargin.exceptions import DataError
from widemargin.goals import Goal, Population, churn
from widemargin.goals.binding.sources import External
from widemargin.goals.language.constraints import Expression

__all__ = ["PREVIOUS", "STABILITY", "check_names", "stable_goal"]

PREVIOUS = "model before refit"
"""Name of the baseline that the deployed model becomes."""

STABILITY = "stability"
"""Label of the constraint on its churn, and name of the external data set of `stability_rows`."""


def stable_goal(goal: Goal | str | None, churn_at_most: float, *, on_new_rows: bool) -> Goal:
    """The goal, and a ceiling on the churn against the model before.

    Raises
    ------
    GoalError
        If the ceiling lies outside [0, 1].
    DataError
        If the goal already has a constraint of that label.
    """
    before = as_goal(goal)
    if any(constraint.label == STABILITY for constraint in before.constraints):
        raise DataError(f"refit adds a constraint {STABILITY!r}, and the goal has one of that label; rename it.")
    rows = None if on_new_rows else Population.external(STABILITY)
    ceiling = (churn(PREVIOUS, on=rows) <= churn_at_most).named(STABILITY)
    return Goal(
        Expression(before.objective), [*before.constraints, ceiling], min_rows=before.min_rows, on_small=before.on_small
    )


def check_names(
    populations: Table | None, external: Mapping[str, External] | None, stability_rows: Features | None
) -> None:
    """Refuse names that a refit gives itself."""
    if stability_rows is not None and STABILITY in (external or {}):
        raise DataError(f"stability_rows become the external data set {STABILITY!r}, which was given too; rename it.")
    columns = nw.from_native(populations, eager_only=True, pass_through=True)
    if isinstance(columns, nw.DataFrame) and PREVIOUS in columns.columns:
        raise DataError(f"populations has a column {PREVIOUS!r}, a name that refit gives to a baseline; rename it.")
