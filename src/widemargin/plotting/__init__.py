"""Plots in scikit-learn's Display style. They need matplotlib: `pip install 'widemargin[plot]'`."""

from typing import Any

from widemargin._papers import moved_name
from widemargin.plotting.convergence import ConvergenceDisplay
from widemargin.plotting.hierarchy import HierarchyDisplay
from widemargin.plotting.labels import LabelPairsDisplay
from widemargin.plotting.margins import MarginDistributionDisplay
from widemargin.plotting.risk_coverage import RiskCoverageDisplay
from widemargin.plotting.tradeoff import TradeoffDisplay

__all__ = [
    "ConvergenceDisplay", "HierarchyDisplay", "LabelPairsDisplay", "MarginDistributionDisplay", "RiskCoverageDisplay",
    "TradeoffDisplay",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The plot of paths over nu, which was here once: found where widemargin-papers is installed."""
    return moved_name(__name__, name, ("ParetoDisplay",), "pareto")
