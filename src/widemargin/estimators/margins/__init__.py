"""Margin pursuit as an estimator, and the steps of its fit."""
