"""Formulas of one example: values, bounds and their sums over cells."""
