"""Numbers about a fitted classifier, whatever trained it."""

from widemargin.diagnostics.audit import audit
from widemargin.diagnostics.margin_report import MarginReport, MarginSummary, margin_report
from widemargin.diagnostics.margins import Margins, margins_of
from widemargin.goals.report import ConstraintReport, GoalReport

__all__ = [
    "ConstraintReport",
    "GoalReport",
    "MarginReport",
    "MarginSummary",
    "Margins",
    "audit",
    "margin_report",
    "margins_of",
]
