"""Plots in scikit-learn's Display style. They need matplotlib: `pip install 'widemargin[plot]'`."""

from widemargin.plotting.tradeoff import TradeoffDisplay

__all__ = ["TradeoffDisplay"]
