"""Compiled passes over the coefficients of cells: a CSR matrix of k cells and m constraints with signed entries.

A positive entry is the coefficient of the positive prediction (or side), a negative one minus that of the negative
prediction. A cell may have two entries of one constraint.
"""

from typing import Any

from widemargin._numba import kernel

__all__ = ["add_products", "add_squares", "add_totals", "add_weighted", "fill_columns"]


@kernel
def add_weighted(indptr: Any, column: Any, value: Any, v: Any, A: Any, B: Any) -> None:
    """Add `sum_j alpha[c, j] v[j]` to `A[c]` and `sum_j beta[c, j] v[j]` to `B[c]`."""
    for c in range(A.shape[0]):
        for e in range(indptr[c], indptr[c + 1]):
            if value[e] > 0.0:
                A[c] += value[e] * v[column[e]]
            else:
                B[c] -= value[e] * v[column[e]]


@kernel
def add_totals(indptr: Any, column: Any, value: Any, positive: Any, negative: Any, out: Any) -> None:
    """Add `sum_c alpha[c, j] positive[c] + beta[c, j] negative[c]` to `out[j]`."""
    for c in range(positive.shape[0]):
        for e in range(indptr[c], indptr[c + 1]):
            out[column[e]] += value[e] * positive[c] if value[e] > 0.0 else -value[e] * negative[c]


@kernel
def add_products(
    indptr: Any, column: Any, value: Any, place: Any, above: Any, below: Any, out: Any
) -> None:  # fmt: skip
    """Add `sum_c alpha[c, j] above[c] - beta[c, j] below[c]` to row `place[j]` of `out`, unless that is negative."""
    for c in range(above.shape[0]):
        for e in range(indptr[c], indptr[c + 1]):
            row = place[column[e]]
            if row < 0:
                continue
            if value[e] > 0.0:
                for k in range(out.shape[1]):
                    out[row, k] += value[e] * above[c, k]
            else:
                for k in range(out.shape[1]):
                    out[row, k] += value[e] * below[c, k]


@kernel
def add_squares(indptr: Any, column: Any, value: Any, positive: Any, negative: Any, out: Any) -> None:
    """Add `alpha' diag(positive) alpha + beta' diag(negative) beta` to `out`, shape (m, m)."""
    for c in range(positive.shape[0]):
        for e in range(indptr[c], indptr[c + 1]):
            side = positive[c] if value[e] > 0.0 else negative[c]
            for f in range(indptr[c], indptr[c + 1]):
                if (value[e] > 0.0) == (value[f] > 0.0):
                    out[column[e], column[f]] += side * value[e] * value[f]


@kernel
def fill_columns(
    indptr: Any, column: Any, value: Any, place: Any, cell: Any, plus: Any, minus: Any, out: Any
) -> None:  # fmt: skip
    """Set `out[i, place[j]]` to `alpha[c, j] plus[i] - beta[c, j] minus[i]`, c the cell of row i."""
    out[:] = 0.0
    for i in range(cell.shape[0]):
        for e in range(indptr[cell[i]], indptr[cell[i] + 1]):
            j = place[column[e]]
            if j >= 0:
                out[i, j] += value[e] * (plus[i] if value[e] > 0.0 else minus[i])
