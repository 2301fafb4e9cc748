"""What is known, and what is said, when no model that meets a goal was found."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from widemargin._typing import Floats
from widemargin.estimators.rate_constrained.training import Trained
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport
from widemargin.goals.measuring.rates_of_predictions import Measured
from widemargin.solvers.ramp.tightening import at_limit

__all__ = ["Infeasibility", "explain", "find_out"]

_MOST = 6  # values that a message lists


@dataclasses.dataclass(frozen=True)
class Infeasibility:
    """Why a goal was not met on the training rows. Constraints go by their labels, as in the goal report.

    Attributes
    ----------
    violations : dict of str to float or None
        By how much `predict` of the best model found misses its bounds, in each constraint's own units; None where a
        ratio is undefined. The constraints that it meets are left out.
    ramp_violations : dict of str to float or None
        The same for `predict_randomized`, in expectation.
    conflict : tuple of str
        Constraints that cannot all be met: by proof where `proved`, else as far as the searches found.
    irreducible : bool
        Whether for each of them the others can be met together: by a model that was found, or, where `proved`, by some
        classifier, which need not be linear.
    proved : bool
        Whether no classifier of any kind meets the conflict on these rows. Otherwise nothing is proved: no start
        reached a feasible model.
    best_values : dict of str to float
        For a constraint of the conflict, the best value found while the rest of the conflict is met.
    asked : dict of str to float
        The bounds that these were compared with, at the same models.
    """

    violations: dict[str, float | None]
    ramp_violations: dict[str, float | None]
    conflict: tuple[str, ...] = ()
    irreducible: bool = False
    proved: bool = False
    best_values: dict[str, float] = dataclasses.field(default_factory=dict)
    asked: dict[str, float] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON; `from_dict` reads them."""
        return dataclasses.asdict(self) | {"conflict": list(self.conflict)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Infeasibility":
        """What `to_dict` was called on."""
        return cls(**{**plain, "conflict": tuple(plain["conflict"])})


def find_out(
    trained: Trained, report: GoalReport, enforce: str, measured: Callable[[Floats, float], Measured]
) -> Infeasibility | None:
    """What is known about why the goal is not met; None where it is met.

    Parameters
    ----------
    trained : Trained
    report : GoalReport
        Of the model, on the training rows.
    enforce : {"deterministic", "randomized"}
    measured : callable
        Measures another solution (w, b) like the model: in the user's units, by the rates that are enforced.
    """
    soft, items, diagnosis = enforce == "randomized", report.constraints, trained.diagnosis
    if all(_holds(item, soft) for item in items):
        return None
    hard_ones = {item.label: _short(item.slack) for item in items if not item.met}
    soft_ones = {item.label: _short(item.ramp_slack) for item in items if not item.ramp_met}
    if diagnosis is None:
        limit = at_limit(trained.solution)
        pulling = [item.label for item, end in zip(items, limit, strict=True) if end or not _holds(item, soft)]
        return Infeasibility(hard_ones, soft_ones, tuple(pulling))
    values, asked = {}, {}
    for j, (w, b) in diagnosis.nearest.items():
        at = measured(w, b)
        if not at.undefined[j]:
            values[items[j].label], asked[items[j].label] = float(at.value[j]), float(at.bound[j])
    conflict = tuple(items[j].label for j in diagnosis.conflict)
    return Infeasibility(hard_ones, soft_ones, conflict, diagnosis.irreducible, diagnosis.proved, values, asked)


def explain(found: Infeasibility, report: GoalReport, enforce: str) -> str:
    """A message: what the best model misses, which constraints pull against each other, and what each could reach."""
    soft = enforce == "randomized"
    broken = [item for item in report.constraints if not _holds(item, soft)]
    cure = 'keep this model with on_infeasible="warn"'
    if found.proved:
        standing = "(Proved: no classifier of any kind meets these together on these rows.) "
        cure = f"Loosen one of them, or {cure}."
    else:
        standing = "(The search is local: no start reached a feasible model, which is no proof that none exists.) "
        cure = f"Loosen one of them, add features, raise C, or {cure}."
    return (
        f"no model that meets the goal on the training rows was found; {len(broken)} of {len(report.constraints)} "
        f"constraints are missed by the best one: {'; '.join(_line(item, soft) for item in broken)}. "
        f"{_conflict_text(found, report)}{standing}{cure}"
    )


def _conflict_text(found: Infeasibility, report: GoalReport) -> str:
    names = [_name(label) for label in found.conflict]
    if not names or (len(names) == 1 and not found.best_values):
        return ""
    text = f"In conflict: {', '.join(names)}" if len(names) > 1 else f"{names[0]} is not met even by itself"
    values = []
    for label in [label for label in found.conflict if label in found.best_values][:_MOST]:
        others = [_name(other) for other in found.conflict if other != label]
        rest = "" if not others else f"with {others[0] if len(others) == 1 else 'the others'} met "
        best = "largest" if report[label].sense == ">=" else "smallest"
        values.append(
            f"{rest}the {best} {_name(label)} found is {found.best_values[label]:.4g} (asked {found.asked[label]:.4g})"
        )
    return f"{text}: {'; '.join(values)}. " if values else f"{text}. "


def _name(label: str) -> str:
    return label if label.startswith("#") else repr(label)


def _short(slack: float | None) -> float | None:
    return None if slack is None else -slack


def _holds(item: ConstraintReport, soft: bool) -> bool:
    return item.ramp_met if soft else item.met


def _line(item: ConstraintReport, soft: bool) -> str:
    rate, slack = (item.ramp_rate, item.ramp_slack) if soft else (item.rate, item.slack)
    name = "" if item.label.startswith("#") else f"{item.label!r}: "
    if rate is None or slack is None:
        return f"{name}{item.text} is undefined (zero denominator)"
    return f"{name}{item.text} reaches {rate:.4g}, short by {-slack:.2g}"
