"""Solvers of the papers that exist to be compared with."""
