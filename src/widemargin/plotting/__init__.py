"""Plots in scikit-learn's Display style. They need matplotlib: `pip install 'widemargin[plot]'`."""

from typing import Any

from widemargin._papers import moved_name
from widemargin.plotting.convergence import ConvergenceDisplay
from widemargin.plotting.labels import HierarchyDisplay, LabelPairsDisplay
from widemargin.plotting.margins import MarginDistributionDisplay, RiskCoverageDisplay
from widemargin.plotting.tradeoff import TradeoffDisplay

__all__ = [
    "ConvergenceDisplay", "HierarchyDisplay", "LabelPairsDisplay", "MarginDistributionDisplay", "RiskCoverageDisplay",
    "TradeoffDisplay",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The plot of paths over nu, which was here once: found where widemargin-papers is installed."""
    return moved_name(__name__, name, ("ParetoDisplay",), "pareto")
