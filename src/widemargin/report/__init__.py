"""The report that people read: one HTML file about a classifier and its goal, or of a bias audit.

Like `diagnostics`, it knows predictions, scores and stored paths, never an estimator.
"""

from widemargin.report.html_report import HtmlReport, bias_audit_page, html_report
from widemargin.report.markup import HtmlPage
from widemargin.report.model_card import bias_audit_card, goal_card
from widemargin.report.sections import CARD

__all__ = ["CARD", "HtmlPage", "HtmlReport", "bias_audit_card", "bias_audit_page", "goal_card", "html_report"]
