"""Coefficients shared by cells of rows.

Rows with the same label, the same baseline predictions and the same population memberships have the same coefficients
in every rate (up to their weight). A row therefore stores one integer, its cell, and the coefficients live here: never
a dense array of rows times constraints.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints
from widemargin.linalg import _cell_loops as loops

__all__ = ["CellCoefficients"]


class CellCoefficients(NamedTuple):
    """What a unit of weight in each of k cells adds to the objective and to m constraints (spec 1, section 2).

    With `P[c]` the weight of cell c that is predicted positive and `W[c]` its whole weight, the objective is
    `alpha0 @ P + beta0 @ (W - P)` and constraint j is `sum_c alpha[c, j] P[c] + beta[c, j] (W[c] - P[c]) <= bound[j]`.
    Every coefficient is >= 0. What binding makes has a zero in every pair of alpha and beta, so one signed number holds
    both; where both are positive there are two entries.

    Attributes
    ----------
    alpha0, beta0 : ndarray of shape (k,)
        Objective coefficients of the positive and of the negative prediction.
    indptr : ndarray of int32 or int64, shape (k + 1,)
        Start of each cell's entries in `column` and `value`.
    column : ndarray of int32 or int64, shape (nnz,)
        Constraint number of an entry.
    value : ndarray of shape (nnz,)
        Coefficient of the positive prediction where it is positive, minus that of the negative one where negative:
        what the constraint gains when a unit of weight turns positive.
    """

    alpha0: Floats
    beta0: Floats
    indptr: npt.NDArray[Any]
    column: npt.NDArray[Any]
    value: Floats

    @classmethod
    def of_pairs(
        cls,
        alpha0: Floats,
        beta0: Floats,
        indptr: npt.NDArray[Any],
        column: npt.NDArray[Any],
        alpha: Floats,
        beta: Floats,
    ) -> "CellCoefficients":
        """From entries with two coefficients >= 0 each, shapes (nnz,)."""
        signed = np.column_stack([alpha, -beta])
        used = signed != 0.0
        before = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
        return cls(alpha0, beta0, before[indptr], np.repeat(column, used.sum(axis=1)), signed[used])

    @property
    def n_cells(self) -> int:
        """Number of cells k."""
        return int(self.alpha0.shape[0])

    @property
    def alpha(self) -> Floats:
        """Constraint coefficients of the positive prediction, shape (nnz,); made anew at each call."""
        return np.maximum(self.value, 0.0)

    @property
    def beta(self) -> Floats:
        """Constraint coefficients of the negative prediction, shape (nnz,); made anew at each call."""
        return np.maximum(-self.value, 0.0)

    @property
    def entries(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Floats]:
        """What the compiled loops take."""
        return self.indptr, self.column, self.value

    def without_constraints(self) -> "CellCoefficients":
        """The objective alone."""
        return self._replace(indptr=np.zeros_like(self.indptr), column=self.column[:0], value=self.value[:0])

    def per_cell(self, multipliers: Floats) -> tuple[Floats, Floats]:
        """Lagrangian coefficients `A = alpha0 + alpha v` and `B = beta0 + beta v` of each cell, shapes (k,)."""
        A, B = self.alpha0.copy(), self.beta0.copy()
        loops.add_weighted(*self.entries, multipliers, A, B)
        return A, B

    def change(self, multipliers: Floats) -> Floats:
        """`alpha v` of each cell, then `beta v` of each cell, shape (2 k,)."""
        k = self.n_cells
        both = np.zeros(2 * k)
        loops.add_weighted(*self.entries, multipliers, both[:k], both[k:])
        return both

    def of_column(self, j: int) -> tuple[Floats, Floats]:
        """Coefficients of constraint j by cell, `alpha` and `beta`, shapes (k,)."""
        one = np.zeros(int(self.column.max(initial=j)) + 1)
        one[j] = 1.0
        both = self.change(one)
        return both[: self.n_cells], both[self.n_cells :]

    def columns(self, kept: Ints) -> "CellCoefficients":
        """The same with the constraints `kept` only (increasing numbers), numbered anew."""
        mine = np.isin(self.column, kept)
        before = np.concatenate([[0], np.cumsum(mine)])
        return self._replace(
            indptr=before[self.indptr].astype(self.indptr.dtype),
            column=np.searchsorted(kept, self.column[mine]).astype(self.column.dtype),
            value=self.value[mine],
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
        constraints = np.zeros(n_constraints)
        loops.add_totals(*self.entries, positive, negative, constraints)
        return float(self.alpha0 @ positive + self.beta0 @ negative), constraints

    def products(self, above: Floats, below: Floats, constraints: Ints, n_constraints: int) -> Floats:
        """`alpha' above - beta' below` for some of the constraints, from arrays of shape (k, d); shape (a, d)."""
        out = np.zeros((constraints.shape[0], above.shape[1]))
        loops.add_products(*self.entries, self.places(constraints, n_constraints), above, below, out)
        return out

    def squares(self, positive: Floats, negative: Floats, n_constraints: int) -> Floats:
        """`alpha' diag(positive) alpha + beta' diag(negative) beta`, shape (m, m)."""
        out = np.zeros((n_constraints, n_constraints))
        loops.add_squares(*self.entries, positive, negative, out)
        return out

    @staticmethod
    def places(constraints: Ints, n_constraints: int) -> Ints:
        """Position of each of the m constraints among some of them, or -1."""
        place = np.full(n_constraints, -1)
        place[constraints] = np.arange(constraints.shape[0])
        return place
