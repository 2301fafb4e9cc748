"""The report that people read: one HTML file about a classifier and its goal, for any classifier.

Like `diagnostics`, it knows predictions, scores and stored paths, never an estimator.
"""

from widemargin.report.html_report import HtmlReport, html_report
from widemargin.report.sections import CARD

__all__ = ["CARD", "HtmlReport", "html_report"]
