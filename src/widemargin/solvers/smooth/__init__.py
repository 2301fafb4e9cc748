"""Smooth objectives of linear models: L-BFGS, gradient steps, stochastic steps."""
