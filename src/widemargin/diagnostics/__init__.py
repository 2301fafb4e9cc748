"""Numbers about a fitted classifier, whatever trained it."""

from widemargin.diagnostics.audit import audit
from widemargin.diagnostics.margin_report import MarginReport, MarginSummary, margin_report
from widemargin.diagnostics.margins import Margins, margins_of
from widemargin.diagnostics.streaming import AuditBlock, AuditCounts, audit_stream
from widemargin.goals.report import ConstraintReport, GoalReport

__all__ = [
    "AuditBlock",
    "AuditCounts",
    "ConstraintReport",
    "GoalReport",
    "MarginReport",
    "MarginSummary",
    "Margins",
    "audit",
    "audit_stream",
    "margin_report",
    "margins_of",
]
