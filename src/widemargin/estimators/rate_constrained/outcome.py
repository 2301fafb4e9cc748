"""What is said of how training ended: the certificate, a bound on new rows without any held out, warnings, errors."""

import numpy as np

from widemargin._typing import Floats
from widemargin.distributed.blocks import BlockedRows
from widemargin.estimators.rate_constrained.infeasibility import Infeasibility, explain
from widemargin.estimators.rate_constrained.proof import Validated
from widemargin.estimators.rate_constrained.training import Trained
from widemargin.exceptions import GoalWarning, InfeasibleGoalError, MarginConvergenceWarning
from widemargin.goals._warn import warn
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.problems.generalization import capacity, datasets_of, violation_bound
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.ramp.majorization import MajorizeOptions

__all__ = ["DELTA", "ENFORCED_RAMPS", "certificate_text", "conclude", "generalization_note", "model_bound"]

ENFORCED_RAMPS = "the bounds were enforced on the ramp rates (predict_randomized), not on those of predict"
"""Note of a report."""

DELTA = 0.05
"""Probability with which the bound may fail."""

BOXES = MajorizeOptions.rhos
"""Largest multipliers that the steps of the ladder allow, known before any data are seen. The bound holds for all of
them at once, each with its share of `DELTA`, so that of the step that was reached may be used."""


def certificate_text(trained: Trained) -> str:
    """What is proved of the model, and of which point."""
    best, solution = trained.best, trained.solution
    if solution.certified and not best.shifted:
        point = "the model is that step's solution"
    elif best.how:
        point = best.how
    elif best.shifted:
        point = "the bias was moved afterwards"
    else:
        point = "the model is an earlier step's, which was better"
    return f"gap {solution.subproblem.gap:.1e} of the last convex step ({point}); the ramp problem is solved locally"


def conclude(
    trained: Trained, budget: Budget, validated: Validated | None, why: Infeasibility | None, report: GoalReport,
    enforce: str, *, tol: float, on_infeasible: str, on_interrupt: str,
) -> None:  # fmt: skip
    """Warn or raise according to how training ended.

    Parameters
    ----------
    validated : Validated or None
        What was proved, where a confidence was asked for.
    why : Infeasibility or None
        Why the goal is not met on the training rows; None where it is.

    Raises
    ------
    InfeasibleGoalError
        If the goal is not met, or not proved, and `on_infeasible="raise"`.
    KeyboardInterrupt
        After Ctrl-C, unless `on_interrupt="return"`.
    """
    gap = trained.solution.subproblem.gap
    if budget.interrupted:
        warn(f"interrupted after {budget.elapsed:.1f} s; the best model so far is kept.", MarginConvergenceWarning)
        if on_interrupt == "raise":
            raise KeyboardInterrupt
        return
    standing = f"{'NOT MET' if why else 'met'} on the training rows" if validated is None else validated.standing
    if trained.status in (Status.TIME_LIMIT, Status.STOPPED):
        spent = trained.status == Status.TIME_LIMIT
        cause = "the time budget is spent: raise time_budget" if spent else "by a callback"
        warn(
            f"stopped after {budget.elapsed:.1f} s with gap {gap:.1e} and the goal {standing} ({cause}).",
            MarginConvergenceWarning,
        )
        return
    if why is not None or (validated is not None and not validated.met):
        message = explain(why, report, enforce) if why else str(validated and validated.refusal)
        if on_infeasible == "raise":
            raise InfeasibleGoalError(message, **(vars(why) if why else {}))
        warn(message, GoalWarning)
    elif trained.status == Status.MAX_ITER:
        warn(
            f"gap {gap:.1e} > tol {tol:g} in the last convex step; scale the features or raise tol.",
            MarginConvergenceWarning,
        )


def model_bound(tied: TiedGoal, trained: Trained, enforcement: str, *, mapped: bool) -> tuple[float, Floats] | None:
    """E, and by how much each constraint may fail on new rows, shape (m,), in rates; 1 and more says nothing.

    None for a model that the theorem is not about: one whose bias was chosen by 0/1 rates, that is no solution of a
    convex step, or was trained on weighted rows or on features that were themselves fitted (`mapped`). The largest norm
    of the training rows (in the kernel's space, where there is one) stands for that of all rows.
    """
    weighted = any(weight is not None for weight in tied.row_weight)
    searched = enforcement != "randomized" or trained.best.shifted or not trained.solution.certified
    if searched or weighted or mapped or tied.n_constraints == 0:
        return None
    rows = trained.problem.rows
    assert not isinstance(rows, BlockedRows)
    radius = float(np.sqrt(rows.norms2().max()))
    data = datasets_of(tied)
    box, share = trained.solution.rho, DELTA / len(BOXES)
    factor = capacity(data, radius=radius, lam=trained.problem.lam, box=box, delta=share)
    return factor, violation_bound(data, factor)


def generalization_note(tied: TiedGoal, found: tuple[float, Floats] | None) -> tuple[str, ...]:
    """The note for the report, none without constraints; `found` None stands for a model that it is not about."""
    if tied.n_constraints == 0:
        return ()
    if found is None:
        cause = "the bias was searched, or rows are weighted, or features fitted"
        return (f"generalisation bound (Appendix C): not applicable ({cause}; it is about the randomised classifier)",)
    factor, violation = found
    shown = np.minimum(violation, 1.0)
    if (shown >= 1.0).all():
        values = "1 for every constraint: vacuous"
    else:
        values = ", ".join(
            f"{item.constraint.label or f'#{j + 1}'} {value:.3f}{' (vacuous)' if value >= 1.0 else ''}"
            for j, (item, value) in enumerate(zip(tied.constraints, shown, strict=True))
        )
    note = (
        f"generalisation bound (Appendix C, {1.0 - DELTA:.0%}, E = {factor:.3g}): a constraint of the randomised "
        f"classifier is violated on new rows by at most {values}; held-out rows say more"
    )
    return (note,)
