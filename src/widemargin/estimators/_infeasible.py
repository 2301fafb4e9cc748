"""What is said when no model that meets a goal was found."""

from widemargin.estimators._rate_constrained_fit import Trained
from widemargin.goals.report import ConstraintReport, GoalReport

__all__ = ["explain"]


def explain(report: GoalReport, trained: Trained, enforce: str) -> str:
    """A message with the violations of the best model found and the constraints that pull against each other.

    Constraints are in conflict where they are violated or where their multiplier stands at the penalty weight: there
    the solver would pay more to satisfy them, at the cost of another one.
    """
    soft = enforce == "randomized"
    broken = [item for item in report.constraints if not _holds(item, soft)]
    solution = trained.solution
    at_limit = solution.multipliers >= 0.99 * solution.rho
    pulling = [
        item.label for item, limit in zip(report.constraints, at_limit, strict=True) if limit or not _holds(item, soft)
    ]
    lines = [_line(item, soft) for item in broken]
    conflict = f"In conflict: {', '.join(map(repr, pulling))}. " if len(pulling) > 1 else ""
    return (
        f"no model that meets the goal on the training rows was found; {len(broken)} of {len(report.constraints)} "
        f"constraints are missed by the best one: {'; '.join(lines)}. {conflict}"
        "(The search is local: this is no proof that none exists.) "
        'Loosen one of them, add features, raise C, or keep this model with on_infeasible="warn".'
    )


def _holds(item: ConstraintReport, soft: bool) -> bool:
    return item.ramp_met if soft else item.met


def _line(item: ConstraintReport, soft: bool) -> str:
    rate, slack = (item.ramp_rate, item.ramp_slack) if soft else (item.rate, item.slack)
    name = "" if item.label.startswith("#") else f"{item.label!r}: "
    if rate is None or slack is None:
        return f"{name}{item.text} is undefined (zero denominator)"
    return f"{name}{item.text} reaches {rate:.4g}, short by {-slack:.2g}"
