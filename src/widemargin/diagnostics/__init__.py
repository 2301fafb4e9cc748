"""Numbers about a fitted classifier, whatever trained it."""

from widemargin.diagnostics.audit import audit
from widemargin.goals.report import ConstraintReport, GoalReport

__all__ = ["ConstraintReport", "GoalReport", "audit"]
