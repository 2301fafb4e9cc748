"""Coefficients shared by cells of rows.

Rows with the same label, the same baseline predictions and the same population memberships have the same coefficients
in every rate (up to their weight). A row therefore stores one integer, its cell, and the coefficients live here: never
a dense array of rows times constraints.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = ["CellCoefficients"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_DENSE_LIMIT = 200_000  # entries: a dense product of this size costs less than 0.1 ms


class CellCoefficients(NamedTuple):
    """What a unit of weight in each of k cells adds to the objective and to m constraints (spec 1, section 2).

    With `P[c]` the weight of cell c that is predicted positive and `W[c]` its whole weight, the objective is
    `alpha0 @ P + beta0 @ (W - P)` and constraint j is `sum_c alpha[c, j] P[c] + beta[c, j] (W[c] - P[c]) <= bound[j]`.
    Every coefficient is >= 0.

    Attributes
    ----------
    alpha0, beta0 : ndarray of shape (k,)
        Objective coefficients of the positive and of the negative prediction.
    indptr : ndarray of int64, shape (k + 1,)
        Start of each cell's entries in `column`, `alpha` and `beta`.
    column : ndarray of int64, shape (nnz,)
        Constraint number of an entry.
    alpha, beta : ndarray of shape (nnz,)
        Constraint coefficients of the positive and of the negative prediction.
    """

    alpha0: Floats
    beta0: Floats
    indptr: Ints
    column: Ints
    alpha: Floats
    beta: Floats

    @property
    def n_cells(self) -> int:
        """Number of cells k."""
        return int(self.alpha0.shape[0])

    def matrices(self, n_constraints: int) -> tuple[Any, Any]:
        """Constraint coefficients as two (k, m) matrices for many products: dense where small, else CSR."""
        shape = (self.n_cells, n_constraints)
        pair = [sp.csr_array((part, self.column, self.indptr), shape=shape) for part in (self.alpha, self.beta)]
        if shape[0] * shape[1] <= _DENSE_LIMIT:
            return pair[0].toarray(), pair[1].toarray()
        return pair[0], pair[1]

    def per_cell(self, multipliers: Floats) -> tuple[Floats, Floats]:
        """Lagrangian coefficients `A = alpha0 + alpha v` and `B = beta0 + beta v` of each cell, shapes (k,)."""
        cells = np.repeat(np.arange(self.n_cells), np.diff(self.indptr))
        v = multipliers[self.column]
        return (
            self.alpha0 + np.bincount(cells, self.alpha * v, self.n_cells),
            self.beta0 + np.bincount(cells, self.beta * v, self.n_cells),
        )

    def totals(self, positive: Floats, negative: Floats, n_constraints: int) -> tuple[float, Floats]:
        """Objective and constraint values when cell c contributes `positive[c]` to + and `negative[c]` to -.

        Parameters
        ----------
        positive, negative : ndarray of shape (k,)
            Weight times loss (or prediction) summed over the rows of each cell.
        n_constraints : int
            m.

        Returns
        -------
        objective : float
        constraints : ndarray of shape (m,)
        """
        counts = np.diff(self.indptr)
        entries = self.alpha * np.repeat(positive, counts) + self.beta * np.repeat(negative, counts)
        constraints: Floats = np.bincount(self.column, entries, n_constraints).astype(np.float64, copy=False)
        return float(self.alpha0 @ positive + self.beta0 @ negative), constraints
