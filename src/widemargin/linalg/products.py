"""Compiled products with the rows of one block, reached through `row_of` so that nothing of the data is copied."""

from functools import partial

import numpy as np
import scipy.sparse as sp

from widemargin._numba import kernel, summing_kernel
from widemargin._threads import in_threads
from widemargin._typing import Cells, Floats, Integers, Ints, Reals

__all__ = [
    "add_border_csr", "add_folded", "csr_cell_sums", "csr_dot", "csr_gram", "csr_norms2", "csr_parts", "csr_squares",
    "csr_tdot", "dense_cell_sums", "dense_dot", "dense_norms2", "dense_tdot",
]  # fmt: skip


def csr_parts(X: sp.csr_matrix) -> tuple[Reals, Integers, Integers]:
    """Entries, columns and row starts for the loops below.

    The indices are unsigned numbers: that spares the loops a test for negative ones, and the product with a vector
    half of its time. Where they fit they have 32 bits, so that hardly anybody needs loops that are
    compiled for 64.
    """
    fit = max(X.nnz, X.shape[1]) <= np.iinfo(np.int32).max
    parts = (part.astype(np.int32, copy=False) if fit else part for part in (X.indices, X.indptr))
    indices, indptr = (part.view(f"u{part.dtype.itemsize}") for part in parts)
    return X.data, indices, indptr


@kernel
def csr_dot(data: Reals, indices: Integers, indptr: Integers, w: Floats, row_of: Ints, out: Floats) -> None:
    """Set `out[i] = <x_i, w>`."""
    for i in range(row_of.shape[0]):
        r = row_of[i]
        total = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            # Only what is stored counts; the rest of the row is zero.
            total += data[k] * w[indices[k]]
        out[i] = total


@kernel
def csr_tdot(data: Reals, indices: Integers, indptr: Integers, row_of: Ints, g: Floats, out: Floats) -> None:
    """Add `sum_i g_i x_i` to `out`."""
    for i in range(row_of.shape[0]):
        # Most rows have no weight late in a run, and cost a comparison.
        gi = g[i]
        if gi != 0.0:
            r = row_of[i]
            for k in range(indptr[r], indptr[r + 1]):
                out[indices[k]] += gi * data[k]


@kernel
def csr_squares(data: Reals, indices: Integers, indptr: Integers, row_of: Ints, g: Floats, out: Floats) -> None:
    """Add `g_i x_ij^2` of every row i to `out[j]`."""
    for i in range(row_of.shape[0]):
        gi = g[i]
        if gi != 0.0:
            r = row_of[i]
            for k in range(indptr[r], indptr[r + 1]):
                out[indices[k]] += gi * data[k] * data[k]


@kernel
def csr_cell_sums(
    data: Reals, indices: Integers, indptr: Integers, row_of: Ints, cell: Cells, g: Floats, h: Floats, above: Floats,
    below: Floats,
) -> None:  # fmt: skip
    """Add `g_i x_i` to `above[cell_i]` and `h_i x_i` to `below[cell_i]`; rows where both are zero cost nothing."""
    for i in range(row_of.shape[0]):
        gi, hi = g[i], h[i]
        if gi != 0.0 or hi != 0.0:
            r, c = row_of[i], cell[i]
            for k in range(indptr[r], indptr[r + 1]):
                above[c, indices[k]] += gi * data[k]
                below[c, indices[k]] += hi * data[k]


@kernel
def csr_gram(
    data: Reals, indices: Integers, indptr: Integers, row_of: Ints, scale: Reals, pairs: Floats, squares: Floats, sums:
    Floats,
) -> None:  # fmt: skip
    """Add `sum_i scale_i x_i x_i'` to `pairs + pairs' + diag(squares)` and `sum_i scale_i x_i` to `sums`.

    Rows of scale 0 cost nothing.

    Each pair of entries of a row is counted once, on the side of the diagonal where it falls, so the indices need not
    be sorted. Four entries share one walk along the rest of the row: three times as fast as one by one.
    """
    for i in range(row_of.shape[0]):
        si = np.float64(scale[i])
        if si != 0.0:
            r = row_of[i]
            k, stop = np.int64(indptr[r]), np.int64(indptr[r + 1])
            # Four entries of the row at a time: their products among each other, then with the rest of the row.
            while k + 3 < stop:
                x0, x1, x2, x3 = data[k], data[k + 1], data[k + 2], data[k + 3]
                c0, c1, c2, c3 = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
                s0, s1, s2, s3 = si * x0, si * x1, si * x2, si * x3
                sums[c0] += s0
                sums[c1] += s1
                sums[c2] += s2
                sums[c3] += s3
                squares[c0] += s0 * x0
                squares[c1] += s1 * x1
                squares[c2] += s2 * x2
                squares[c3] += s3 * x3
                pairs[c0, c1] += s0 * x1
                pairs[c0, c2] += s0 * x2
                pairs[c0, c3] += s0 * x3
                pairs[c1, c2] += s1 * x2
                pairs[c1, c3] += s1 * x3
                pairs[c2, c3] += s2 * x3
                for q in range(k + 4, stop):
                    col = indices[q]
                    x = data[q]
                    pairs[c0, col] += s0 * x
                    pairs[c1, col] += s1 * x
                    pairs[c2, col] += s2 * x
                    pairs[c3, col] += s3 * x
                k += 4
            # The up to three entries that are left.
            while k < stop:
                sk = si * data[k]
                row = indices[k]
                sums[row] += sk
                squares[row] += sk * data[k]
                for q in range(k + 1, stop):
                    pairs[row, indices[q]] += sk * data[q]
                k += 1


@kernel
def add_folded(pairs: Floats, squares: Floats, out: Floats) -> None:
    """Add the lower triangle of `pairs + pairs' + diag(squares)` to `out`."""
    for row in range(out.shape[0]):
        # A pair of columns was counted on whichever side of the diagonal its entries stood in the row.
        for col in range(row):
            out[row, col] += pairs[row, col] + pairs[col, row]
        out[row, row] += pairs[row, row] + pairs[row, row] + squares[row]


@kernel
def csr_norms2(data: Reals, indices: Integers, indptr: Integers, scale: Reals, row_of: Ints, out: Floats) -> None:
    """Set `out[i] = sum_k scale_k x_ik^2`."""
    for i in range(row_of.shape[0]):
        r = row_of[i]
        total = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            # Features may have different weights, as in preconditioned steps.
            total += scale[indices[k]] * data[k] * data[k]
        out[i] = total


@kernel
def add_border_csr(
    data: Reals, indices: Integers, indptr: Integers, row_of: Ints, columns: Floats, out: Floats
) -> None:
    """Add `sum_i columns[i, j] x_i` to `out[j]` for every j."""
    m = columns.shape[1]
    for i in range(row_of.shape[0]):
        r = row_of[i]
        # All columns while the row is in the cache; most of them are zero for most rows.
        for j in range(m):
            c = columns[i, j]
            if c != 0.0:
                for k in range(indptr[r], indptr[r + 1]):
                    out[j, indices[k]] += c * data[k]


@summing_kernel
def dense_dot(X: Reals, w: Floats, row_of: Ints, out: Floats) -> None:
    """Set `out[i] = <x_i, w>` in double precision, equal for equal rows to the last bit (a BLAS product is not)."""
    last = row_of.shape[0] - 1
    for i in range(0, row_of.shape[0], 4):
        # Memory answers four rows sooner than one after the other. The last row fills up the last four, so that every
        # row is summed by the same code.
        j, k, m = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        one, two, three, four = row_of[i], row_of[j], row_of[k], row_of[m]
        a = b = c = d = 0.0
        for column in range(X.shape[1]):
            # Sums in any order: vector instructions, and the same order at every call.
            weight = w[column]
            a += X[one, column] * weight
            b += X[two, column] * weight
            c += X[three, column] * weight
            d += X[four, column] * weight
        out[i], out[j], out[k], out[m] = a, b, c, d


@kernel
def dense_scaled(X: Reals, centre: Floats, row_of: Ints, root: Reals, out: Reals) -> None:
    """Set `out[i] = root_i (x_i - centre)`, with the difference in double precision."""
    for i in range(row_of.shape[0]):
        r, factor = row_of[i], root[i]
        for k in range(X.shape[1]):
            out[i, k] = (X[r, k] - centre[k]) * factor


@kernel
def dense_tdot(X: Reals, row_of: Ints, g: Floats, out: Floats) -> None:
    """Add `sum_i g_i x_i` to `out`."""
    for i in range(row_of.shape[0]):
        # A row without weight is not even read.
        gi, r = g[i], row_of[i]
        if gi != 0.0:
            for k in range(X.shape[1]):
                out[k] += gi * X[r, k]


@kernel
def dense_norms2(X: Reals, scale: Reals, row_of: Ints, out: Floats) -> None:
    """Set `out[i] = sum_k scale_k x_ik^2`."""
    for i in range(row_of.shape[0]):
        r = row_of[i]
        total = 0.0
        for k in range(X.shape[1]):
            # In double precision, as squares of float32 lose half of their digits.
            total += scale[k] * float(X[r, k]) ** 2
        out[i] = total


@kernel
def dense_cell_sums(X: Reals, row_of: Ints, cell: Cells, g: Floats, h: Floats, above: Floats, below: Floats) -> None:
    """Add `g_i x_i` to `above[cell_i]` and `h_i x_i` to `below[cell_i]`; rows where both are zero cost nothing."""
    for i in range(row_of.shape[0]):
        gi, hi = g[i], h[i]
        if gi != 0.0 or hi != 0.0:
            row, up, down = X[row_of[i]], above[cell[i]], below[cell[i]]
            for k in range(X.shape[1]):
                # The sums of all rows of a cell serve every column that is constant on the cell.
                up[k] += gi * row[k]
                down[k] += hi * row[k]


def add_rows(buffer: Reals, slot: Integers, change: Reals, scores: Floats) -> None:
    """Add `sum_k change[k] buffer[slot[k]]` to `scores`, in double precision."""
    least = max(2048, (1 << 21) // max(1, slot.shape[0]))
    in_threads(scores.shape[0], least, partial(add_columns, buffer, slot, change, scores))


@kernel
def add_columns(buffer: Reals, slot: Integers, change: Reals, scores: Floats, first: int, last: int) -> None:
    """`add_rows` of the columns from `first` to `last`, four rows at a time."""
    m = slot.shape[0]
    tile = 2048  # scores that stay in the first cache while all rows are added to them
    for low in range(first, last, tile):
        high = min(low + tile, last)
        part = scores[low:high]
        for k in range(0, m - 3, 4):
            one, two = buffer[slot[k], low:high], buffer[slot[k + 1], low:high]
            three, four = buffer[slot[k + 2], low:high], buffer[slot[k + 3], low:high]
            # Four rows share one pass over the scores, which costs more than the arithmetic.
            a, b, c, d = change[k], change[k + 1], change[k + 2], change[k + 3]
            for j in range(high - low):
                part[j] += a * one[j] + b * two[j] + c * three[j] + d * four[j]
        for k in range(m - m % 4, m):
            # The up to three rows that are left.
            row, a = buffer[slot[k], low:high], change[k]
            for j in range(high - low):
                part[j] += a * row[j]
