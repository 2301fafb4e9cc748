"""Predictions measured on a tied goal: rates, intervals and a verdict for every constraint, as a `GoalReport`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Label, Seed
from widemargin.exceptions import DataError
from widemargin.goals.binding.labels import plain_value
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport, Verdict, check_decide
from widemargin.goals.measuring.intervals import Interval, slack_intervals
from widemargin.goals.measuring.rates_of_predictions import TOLERANCE, Measured

__all__ = ["make_report", "verdict_of"]


def verdict_of(slack: float | None, met: bool, interval: Interval | None, *, with_intervals: bool) -> Verdict:
    """What can be said of a constraint.

    Parameters
    ----------
    slack : float or None
        None: undefined.
    met : bool
        By the estimate.
    interval : Interval or None
    with_intervals : bool
        Whether intervals were asked for; then a missing one leaves the constraint undecided.
    """
    if slack is None:
        return "undefined"
    if not with_intervals:
        return "met" if met else "not met"
    if interval is None:
        return "undecided"
    if interval.lower is not None and interval.lower >= -TOLERANCE:
        return "met"
    if interval.upper is not None and interval.upper < -TOLERANCE:
        return "not met"
    return "undecided"


def make_report(
    tied: TiedGoal,
    positive: Sequence[npt.NDArray[Any]],
    *,
    positive_class: Label,
    data_name: str = "the data",
    ramp: Sequence[npt.NDArray[Any]] | None = None,
    multipliers: Floats | None = None,
    confidence: float | None = None,
    decide: str = "estimate",
    status: str | None = None,
    certificate: str | None = None,
    notes: Sequence[str] = (),
    random_state: Seed = 0,
) -> GoalReport:
    """Measure predictions on a tied goal.

    Parameters
    ----------
    tied : TiedGoal
    positive : sequence of ndarray of shape (n_s,)
        0/1 predictions for each source.
    positive_class : label
    data_name : str
        What the rows are called in the first line.
    ramp : sequence of ndarray of shape (n_s,), optional
        Probabilities of the randomised classifier for each source.
    multipliers : ndarray of shape (m,), optional
        In the user's units (`TiedGoal.user_multipliers`).
    confidence : float, optional
        Of intervals; None: no intervals.
    decide : {"estimate", "confident"}
    status, certificate, notes
        Printed as they are.
    """
    rule, label = check_decide(decide), plain_value(positive_class)
    if rule == "confident" and confidence is None:
        raise DataError('decide="confident" needs a confidence, such as 0.95.')
    mass = tied.positive_mass(positive)
    measured = tied.measure(mass)
    soft = None if ramp is None else tied.measure(tied.positive_mass(ramp))
    intervals: Sequence[Interval | None] = [None] * tied.n_constraints
    if confidence is not None:
        intervals = slack_intervals(tied, positive, confidence=confidence, random_state=random_state)
    return GoalReport(
        positive_class=label if isinstance(label, str | int | float | bool) else str(label),  # as JSON can hold it
        data_name=data_name,
        n_rows=tied.n_rows[tied.sources.index(None)] if None in tied.sources else 0,
        goal_text=str(tied.goal),
        objective_text=str(tied.goal.objective),
        objective=_number(measured.objective),
        constraints=tuple(
            _constraint(tied, j, measured, soft, multipliers, intervals, confidence) for j in range(tied.n_constraints)
        ),
        external_rows=tuple(
            (name, rows) for name, rows in zip(tied.sources, tied.n_rows, strict=True) if name is not None
        ),
        ramp_objective=None if soft is None else _number(soft.objective),
        status=status,
        certificate=certificate,
        dropped=tied.dropped,
        notes=tuple(notes),
        confidence=confidence,
        decide=rule,
    )


def _constraint(
    tied: TiedGoal,
    j: int,
    measured: Measured,
    soft: Measured | None,
    multipliers: Floats | None,
    intervals: Sequence[Interval | None],
    confidence: float | None,
) -> ConstraintReport:
    item = tied.constraints[j]
    slack, met = _number(measured.slack[j]), bool(measured.met[j])
    return ConstraintReport(
        label=item.constraint.label or f"#{j + 1}",
        text=item.text,
        sense=item.sense,
        rate=_number(measured.value[j]),
        bound=_number(measured.bound[j]),
        slack=slack,
        met=met,
        verdict=verdict_of(slack, met, intervals[j], with_intervals=confidence is not None),
        n_rows=item.n_rows,
        n_missing=item.n_missing,
        ramp_rate=None if soft is None else _number(soft.value[j]),
        ramp_slack=None if soft is None else _number(soft.slack[j]),
        multiplier=None if multipliers is None else _number(multipliers[j]),
        interval=intervals[j],
        n_populations=item.n_populations,
        bundle=item.bundle,
    )


def _number(value: float | np.float64) -> float | None:
    """A float, or None where it is not defined."""
    number = float(value)
    return number if np.isfinite(number) else None
