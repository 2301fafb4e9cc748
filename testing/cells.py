"""Coefficients of cells, as tests write them down: two of them, >= 0, for each entry."""

import numpy as np

from widemargin._typing import Floats, Integers
from widemargin.linalg.cells import CellCoefficients

__all__ = ["of_pairs"]


def of_pairs(
    alpha0: Floats, beta0: Floats, indptr: Integers, column: Integers, alpha: Floats, beta: Floats
) -> CellCoefficients:
    """From entries with two coefficients >= 0 each, shapes (nnz,)."""
    signed = np.column_stack([alpha, -beta])
    used = signed != 0.0
    # An entry with two positive coefficients becomes two, as the sign says the side.
    before = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    # Of 32 bits, as those of tied goals: for others the loops would be compiled once more.
    start, whose = before[indptr].astype(np.int32), np.repeat(column, used.sum(axis=1)).astype(np.int32)
    return CellCoefficients(alpha0, beta0, start, whose, signed[used])
