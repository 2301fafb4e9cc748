"""Numbers about a fitted classifier, whatever trained it."""

from widemargin.diagnostics.audit import audit
from widemargin.diagnostics.compare import ComparisonCounts, compare_models, comparison_report, labels_needed, mcnemar_p
from widemargin.diagnostics.comparison_report import ComparisonReport, PopulationComparison
from widemargin.diagnostics.label_suspects import LabelSuspects, Suspect, label_suspects
from widemargin.diagnostics.margin_changes import MarginChange, MarginChanges, RowChange, margin_changes
from widemargin.diagnostics.margin_report import MarginReport, MarginSummary, margin_report
from widemargin.diagnostics.margins import Margins, RiskCoverage, margins_of
from widemargin.diagnostics.metric_frame import GroupRates, as_metric, metric_frame
from widemargin.diagnostics.robustness import CertifiedRadii, certified_radii
from widemargin.diagnostics.standards.local_law_144 import BiasAudit, Category, CategoryTable, local_law_144
from widemargin.diagnostics.streaming import AuditBlock, AuditCounts, audit_stream
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport
from widemargin.goals.measuring.missing_groups import ConstraintSpan, MissingGroups, RateSpan

__all__ = [
    "AuditBlock",
    "AuditCounts",
    "BiasAudit",
    "Category",
    "CategoryTable",
    "CertifiedRadii",
    "ComparisonCounts",
    "ComparisonReport",
    "ConstraintReport",
    "ConstraintSpan",
    "GoalReport",
    "GroupRates",
    "LabelSuspects",
    "MarginChange",
    "MarginChanges",
    "MarginReport",
    "MarginSummary",
    "Margins",
    "MissingGroups",
    "PopulationComparison",
    "RateSpan",
    "RiskCoverage",
    "RowChange",
    "Suspect",
    "as_metric",
    "audit",
    "audit_stream",
    "certified_radii",
    "compare_models",
    "comparison_report",
    "label_suspects",
    "labels_needed",
    "local_law_144",
    "margin_changes",
    "margin_report",
    "margins_of",
    "mcnemar_p",
    "metric_frame",
]
