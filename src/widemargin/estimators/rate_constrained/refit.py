"""Training a deployed model again on new rows, under a ceiling on how many decisions change.

Goh et al. 2016, section 2 ("stability"): churn against the deployed model needs no labels, so it can be one more
constraint of the goal, on the new rows or on unlabelled ones.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

import narwhals as nw
from sklearn.utils.validation import check_is_fitted

from widemargin.estimators._binary import as_goal
from widemargin.estimators.feature_space import MappedSpace
from widemargin.exceptions import DataError, InfeasibleGoalError
from widemargin.goals import Goal, Population, churn
from widemargin.goals.binding.sources import External
from widemargin.goals.language.expressions import Expression

__all__ = ["PREVIOUS", "STABILITY", "RefitMixin", "stable_goal"]

PREVIOUS = "model before refit"
"""Name of the baseline that the deployed model becomes."""

STABILITY = "stability"
"""Label of the constraint on its churn, and name of the external data set of `stability_rows`."""


class RefitMixin:
    """`refit` for a linear estimator with a goal."""

    goal: Goal | str | None
    baselines: Mapping[str, Any] | None
    enforce: str
    on_infeasible: str
    _direction: Callable[[], float]
    _fit_rows: Callable[..., Any]
    _validate_params: Callable[[], None]

    def refit(
        self,
        X_new: Any,
        y_new: Any,
        *,
        churn_at_most: float = 0.05,
        sample_weight: Any = None,
        populations: Any = None,
        external: Mapping[str, External] | None = None,
        stability_rows: Any = None,
    ) -> Self:
        """Train on new rows, from the model as it is, changing at most a share of its decisions. In place.

        The goal is met on the new rows, with one more constraint, `stability`: the churn against the model before. The
        search starts at `coef_` and `intercept_`, and the model before stays a candidate. Nothing of earlier rows is
        remembered: give all the rows that count. `C` is measured by the new rows. May be called again and again, also
        on a model that was saved and loaded; each call has its own ceiling, so changes can add up.

        A `feature_map` stays as it was fitted. A kernel model without one is a combination of its training rows: it is
        trained afresh under the ceiling, and is no candidate itself.

        Parameters
        ----------
        X_new : array-like, data frame or CSR matrix of shape (n, d)
            The features of `fit`.
        y_new : array-like of shape (n,)
            Labels of the classes of `fit`.
        churn_at_most : float, default=0.05
            Largest share of decisions that may change, by `predict` (by `predict_randomized`, in expectation, with
            `enforce="randomized"`). Raising it lets the model follow the new rows more closely.
        sample_weight, populations, external
            As for `fit`.
        stability_rows : array-like, data frame or CSR matrix of shape (n_s, d), default=None
            Rows on which the churn is measured, labels not needed, such as recent traffic; None: the new rows.

        Returns
        -------
        self
            With `previous_coef_` and `previous_intercept_` (exact kernel models have none). The model is unchanged
            where anything is raised (after Ctrl-C: unless a model that meets everything had been found).

        Raises
        ------
        GoalError, DataError
            As `fit`.
        InfeasibleGoalError
            If no model within the ceiling that meets the goal was found, unless `on_infeasible="warn"`, which takes the
            one of least violation.

        Notes
        -----
        In a pipeline, refit the last step on transformed rows: `pipe[-1].refit(pipe[:-1].transform(X_new), y_new)`. The
        steps before stay as they are; fitting them again would change decisions behind the ceiling's back.
        """
        check_is_fitted(self)
        self._validate_params()
        _check_names(populations, external, stability_rows)
        goal = stable_goal(self.goal, churn_at_most, on_new_rows=stability_rows is None)
        if stability_rows is not None:
            external = {**(external or {}), STABILITY: External(stability_rows)}
        deployed, before = copy.copy(self), dict(vars(self))
        task = {"goal": goal, "baselines": {**(self.baselines or {}), PREVIOUS: deployed}}
        if "coef_" in before:
            sign = self._direction()
            task["start"] = sign * before["coef_"][0], -sign * float(before["intercept_"][0])
        if "feature_map_" in before:
            task["space"] = MappedSpace(before["feature_map_"], fitted=True)
        try:
            self._fit_rows(X_new, y_new, sample_weight, populations, external, reset=False, **task)
            if self.on_infeasible == "raise" and not self._met():
                raise InfeasibleGoalError(
                    "the refit ended before a model was found that meets the goal and changes at most "
                    f"{churn_at_most:g} of the decisions; the model before it is kept. Give it more time."
                )
        except BaseException as error:
            found = vars(self)["goal_report_"] is not before["goal_report_"] and self._met()
            if not (found and isinstance(error, KeyboardInterrupt)):
                vars(self).clear()
                vars(self).update(before)
                raise
            self._note(before)
            raise
        self._note(before)
        return self

    def _met(self) -> bool:
        """Whether the rates that are enforced meet every bound."""
        report = vars(self)["goal_report_"]
        soft = self.enforce == "randomized"
        return all(item.ramp_met for item in report.constraints) if soft else bool(report.all_met("estimate"))

    def _note(self, before: Mapping[str, Any]) -> None:
        if "coef_" in before:
            self.previous_coef_, self.previous_intercept_ = before["coef_"], before["intercept_"]
        self.n_refits_ = before.get("n_refits_", 0) + 1

    def _forget_refits(self) -> None:
        """Remove what refits have left: a new fit has no model before it."""
        for name in ("previous_coef_", "previous_intercept_", "n_refits_"):
            vars(self).pop(name, None)


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


def _check_names(populations: Any, external: Mapping[str, External] | None, stability_rows: Any) -> None:
    if stability_rows is not None and STABILITY in (external or {}):
        raise DataError(f"stability_rows become the external data set {STABILITY!r}, which was given too; rename it.")
    columns = nw.from_native(populations, eager_only=True, pass_through=True)
    if isinstance(columns, nw.DataFrame) and PREVIOUS in columns.columns:
        raise DataError(f"populations has a column {PREVIOUS!r}, a name that refit gives to a baseline; rename it.")
