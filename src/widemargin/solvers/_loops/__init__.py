"""Compiled loops of the solvers: numba functions over arrays, one file for each solver that has any."""
