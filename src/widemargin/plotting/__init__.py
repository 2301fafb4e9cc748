"""Plots in scikit-learn's Display style. They need matplotlib: `pip install 'widemargin[plot]'`."""

from widemargin.plotting.convergence import ConvergenceDisplay
from widemargin.plotting.labels import LabelPairsDisplay
from widemargin.plotting.margins import MarginDistributionDisplay
from widemargin.plotting.risk_coverage import RiskCoverageDisplay
from widemargin.plotting.tradeoff import ParetoDisplay, TradeoffDisplay

__all__ = [
    "ConvergenceDisplay", "LabelPairsDisplay", "MarginDistributionDisplay", "ParetoDisplay", "RiskCoverageDisplay",
    "TradeoffDisplay",
]  # fmt: skip
