"""Rows that are equal: merged into one of summed weight; and rows that name a column twice."""

from typing import TypeVar

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Bools, Cells, Floats, Integers, Ints, Matrix, Reals
from widemargin.linalg import products
from widemargin.linalg.matrix_blocks import RowBlocks

__all__ = ["canonical_rows", "csr_equal_rows", "dense_equal_rows", "merge_rows"]

M = TypeVar("M", bound=Matrix)


def canonical_rows(X: M) -> M:
    """X itself, or a copy of a CSR matrix whose rows name a column twice, with such entries added up.

    The copy holds floating-point numbers: the sum of two flags, or of two bytes, may be none.
    """
    if isinstance(X, np.ndarray) or X.has_canonical_format:
        return X
    # In a copy, because this changes the arrays that the user has given.
    copy = X.astype(X.dtype if X.dtype.kind == "f" else np.float64)
    copy.sum_duplicates()
    merged: M = copy
    return merged


def merge_rows(X: Matrix, cell: Cells, weight: Floats | None, *, ordered: bool = False) -> tuple[Ints, Floats]:
    """Merge equal rows of equal cell into one of summed weight; rows of weight zero go.

    Equal rows are found by a random projection and then compared entry by entry, so a collision cannot merge different
    rows. Where less than 5% of the rows would go nothing is merged, unless `ordered`.

    Parameters
    ----------
    X : matrix of shape (n, d), CSR or C-contiguous
    cell : ndarray of int32, shape (n,)
        Cell of each row, or -1 for rows that no rate looks at (dropped).
    weight : ndarray of shape (n,) or None
        None means all ones.
    ordered : bool, default=False
        Sort the rows by cell and projection, in place of their numbers: the answer is the same then for the same rows
        in any order, and for rows that are given twice.

    Returns
    -------
    row_of : ndarray of int64, shape (n_distinct,)
        Increasing row numbers (or sorted rows), the first row of each group.
    weights : ndarray of shape (n_distinct,)
        Summed weights.
    """
    # Rows that nothing looks at, or that weigh nothing, would only cost time.
    used = cell >= 0 if weight is None else (cell >= 0) & (weight > 0)
    rows = np.flatnonzero(used)
    s = np.ones(rows.shape[0]) if weight is None else weight[rows]
    if rows.shape[0] < 2:
        return rows, s
    # Equal rows have equal products with any vector, to the last bit, so they are neighbours in the order of these.
    direction = np.random.default_rng(0).standard_normal(int(X.shape[1]))
    mark = RowBlocks([(X, rows)]).dot(direction, out=np.empty(rows.shape[0]))
    # Merging copies all weights, so it has to save something; numbers alone are sorted in a tenth of the time.
    marks, fewest = np.sort(mark), 0.0 if ordered else 0.05 * rows.shape[0]
    if np.count_nonzero(marks[1:] == marks[:-1]) < fewest:
        return rows, s
    # By cell first: equal rows of different cells are not merged.
    order = np.lexsort((mark, cell[rows]))
    first, second = rows[order[:-1]], rows[order[1:]]
    candidate = np.flatnonzero((mark[order[:-1]] == mark[order[1:]]) & (cell[first] == cell[second]))
    if candidate.shape[0] < fewest:
        return rows, s
    equal = np.zeros(candidate.shape[0], dtype=np.bool_)
    if isinstance(X, np.ndarray):
        dense_equal_rows(X, first[candidate], second[candidate], equal)
    else:
        csr_equal_rows(*products.csr_parts(X), first[candidate], second[candidate], equal)
    # A group of equal rows begins wherever a row differs from the one before it in that order.
    begins = np.ones(rows.shape[0], dtype=np.bool_)
    begins[candidate[equal] + 1] = False
    starts = np.flatnonzero(begins)
    summed = np.add.reduceat(s[order], starts)
    leader = rows[order[starts]]  # lexsort is stable, so the first of a group is its smallest row number
    if ordered:
        return leader, summed
    by_row = np.argsort(leader)
    return leader[by_row], summed[by_row]


@kernel
def csr_equal_rows(data: Reals, indices: Integers, indptr: Integers, first: Ints, second: Ints, equal: Bools) -> None:
    """Set `equal[i]` where rows `first[i]` and `second[i]` store the same entries in the same order."""
    for i in range(first.shape[0]):
        a, b = indptr[first[i]], indptr[second[i]]
        length = indptr[first[i] + 1] - a
        same = length == indptr[second[i] + 1] - b
        if same:
            for k in range(length):
                if indices[a + k] != indices[b + k] or data[a + k] != data[b + k]:
                    same = False
                    break
        equal[i] = same


@kernel
def dense_equal_rows(X: Reals, first: Ints, second: Ints, equal: Bools) -> None:
    """Set `equal[i]` where rows `first[i]` and `second[i]` of X are equal."""
    for i in range(first.shape[0]):
        same = True
        for k in range(X.shape[1]):
            if X[first[i], k] != X[second[i], k]:
                same = False
                break
        equal[i] = same
