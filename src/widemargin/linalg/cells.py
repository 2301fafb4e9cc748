"""Coefficients shared by cells of rows.

Rows with the same label, the same baseline predictions and the same population memberships have the same coefficients
in every rate (up to their weight). A row therefore stores one integer, its cell, and the coefficients live here: never
a dense array of rows times constraints.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Cells, Floats, Integers, Ints

__all__ = ["CellCoefficients", "fill_columns"]


class CellCoefficients(NamedTuple):
    """Coefficients of a unit of weight in each of k cells in the objective and m constraints.

    With `P[c]` the weight of cell c that is predicted positive and `W[c]` its whole weight, the objective is
    `alpha0 @ P + beta0 @ (W - P)` and constraint j is `sum_c alpha[c, j] P[c] + beta[c, j] (W[c] - P[c]) <= bound[j]`.
    Every coefficient is >= 0. After binding at least one of each pair of alpha and beta is zero, so one signed number
    holds both; where both are positive there are two entries.

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
    indptr: Integers
    column: Integers
    value: Floats

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
    def entries(self) -> tuple[Integers, Integers, Floats]:
        """The arguments of the compiled loops."""
        return self.indptr, self.column, self.value

    def without_constraints(self) -> "CellCoefficients":
        """The objective alone."""
        return self._replace(indptr=np.zeros_like(self.indptr), column=self.column[:0], value=self.value[:0])

    def per_cell(self, multipliers: Floats) -> tuple[Floats, Floats]:
        """Lagrangian coefficients `A = alpha0 + alpha v` and `B = beta0 + beta v` of each cell, shapes (k,)."""
        # The Lagrangian is linear in the multipliers, cell by cell.
        A, B = self.alpha0.copy(), self.beta0.copy()
        add_weighted(*self.entries, multipliers, A, B)
        return A, B

    def change(self, multipliers: Floats) -> Floats:
        """`alpha v` of each cell, then `beta v` of each cell, shape (2 k,)."""
        k = self.n_cells
        # One array, so that both sides can be taken apart or together.
        both = np.zeros(2 * k)
        add_weighted(*self.entries, multipliers, both[:k], both[k:])
        return both

    def of_column(self, j: int) -> tuple[Floats, Floats]:
        """Coefficients of constraint j by cell, `alpha` and `beta`, shapes (k,)."""
        one = np.zeros(int(self.column.max(initial=j)) + 1)
        # The multipliers that pick out one constraint.
        one[j] = 1.0
        both = self.change(one)
        return both[: self.n_cells], both[self.n_cells :]

    def columns(self, kept: Ints) -> "CellCoefficients":
        """The same with the constraints `kept` only (increasing numbers), numbered anew."""
        # The entries lie by cell, so their starts follow from how many are left before.
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
        # Summed by entry: a cell has few entries, whatever the number of constraints.
        constraints = np.zeros(n_constraints)
        add_totals(*self.entries, np.ascontiguousarray(positive), np.ascontiguousarray(negative), constraints)
        return float(self.alpha0 @ positive + self.beta0 @ negative), constraints

    def products(self, above: Floats, below: Floats, constraints: Ints, n_constraints: int) -> Floats:
        """`alpha' above - beta' below` for some of the constraints, from arrays of shape (k, d); shape (a, d)."""
        out = np.zeros((constraints.shape[0], above.shape[1]))
        # Views with steps would have the loop compiled a second time at the first fit.
        above, below = np.ascontiguousarray(above), np.ascontiguousarray(below)
        add_products(*self.entries, self.places(constraints, n_constraints), above, below, out)
        return out

    def squares(self, positive: Floats, negative: Floats, n_constraints: int) -> Floats:
        """`alpha' diag(positive) alpha + beta' diag(negative) beta`, shape (m, m)."""
        out = np.zeros((n_constraints, n_constraints))
        add_squares(*self.entries, positive, negative, out)
        return out

    @staticmethod
    def places(constraints: Ints, n_constraints: int) -> Ints:
        """Position of each of the m constraints among some of them, or -1."""
        # The loops ask for each entry where its constraint stands, and skip those at -1.
        place = np.full(n_constraints, -1)
        place[constraints] = np.arange(constraints.shape[0])
        return place


# Compiled passes over the entries, a CSR matrix of k cells and m constraints. A cell may have two entries of one
# constraint: one for each side.


@kernel
def add_weighted(indptr: Integers, column: Integers, value: Floats, v: Floats, A: Floats, B: Floats) -> None:
    """Add `sum_j alpha[c, j] v[j]` to `A[c]` and `sum_j beta[c, j] v[j]` to `B[c]`."""
    for c in range(A.shape[0]):
        for e in range(indptr[c], indptr[c + 1]):
            # The sign says whether the coefficient belongs to the positive or to the negative prediction.
            if value[e] > 0.0:
                A[c] += value[e] * v[column[e]]
            else:
                B[c] -= value[e] * v[column[e]]


@kernel
def add_totals(
    indptr: Integers, column: Integers, value: Floats, positive: Floats, negative: Floats, out: Floats
) -> None:
    """Add `sum_c alpha[c, j] positive[c] + beta[c, j] negative[c]` to `out[j]`."""
    for c in range(positive.shape[0]):
        for e in range(indptr[c], indptr[c + 1]):
            # One signed number a pair of coefficients: its sign says which side it belongs to.
            out[column[e]] += value[e] * positive[c] if value[e] > 0.0 else -value[e] * negative[c]


@kernel
def add_products(
    indptr: Integers, column: Integers, value: Floats, place: Ints, above: Floats, below: Floats, out: Floats
) -> None:
    """Add `sum_c alpha[c, j] above[c] - beta[c, j] below[c]` to row `place[j]` of `out`, unless that is negative."""
    for c in range(above.shape[0]):
        for e in range(indptr[c], indptr[c + 1]):
            row = place[column[e]]
            if row < 0:  # a constraint that was not asked for
                continue
            side = above if value[e] > 0.0 else below
            for k in range(out.shape[1]):
                out[row, k] += value[e] * side[c, k]


@kernel
def add_squares(
    indptr: Integers, column: Integers, value: Floats, positive: Floats, negative: Floats, out: Floats
) -> None:
    """Add `alpha' diag(positive) alpha + beta' diag(negative) beta` to `out`, shape (m, m)."""
    for c in range(positive.shape[0]):
        for e in range(indptr[c], indptr[c + 1]):
            side = positive[c] if value[e] > 0.0 else negative[c]
            # The two sides of a cell have masses of their own, so entries of different sides have no product.
            for f in range(indptr[c], indptr[c + 1]):
                if (value[e] > 0.0) == (value[f] > 0.0):
                    out[column[e], column[f]] += side * value[e] * value[f]


@kernel
def fill_columns(
    indptr: Integers, column: Integers, value: Floats, place: Ints, cell: Cells, plus: Floats, minus: Floats, out:
    Floats,
) -> None:  # fmt: skip
    """Set `out[i, place[j]]` to `alpha[c, j] plus[i] - beta[c, j] minus[i]`, c the cell of row i."""
    out[:] = 0.0
    for i in range(cell.shape[0]):
        for e in range(indptr[cell[i]], indptr[cell[i] + 1]):
            # A row has an entry for every constraint that looks at its cell; those not asked for have no column.
            j = place[column[e]]
            if j >= 0:
                out[i, j] += value[e] * (plus[i] if value[e] > 0.0 else minus[i])
