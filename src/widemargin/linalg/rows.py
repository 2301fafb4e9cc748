"""Products with many rows that lie in several blocks, dense or sparse, without copying them.

`RowBlocks` is what every linear solver of the library sees of the data: `X w`, `X' g`, `X' D X`. A block is a user's
matrix and the numbers of the rows that count (duplicates are merged away by `merge_rows`), so a row costs one integer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg.blas import dsyrk

from widemargin.linalg import _loops
from widemargin.linalg.cells import Floats, Ints

__all__ = ["RowBlocks", "canonical_rows", "merge_rows"]

Cells = npt.NDArray[np.int32]

_CHUNK = 4096  # rows of a dense block gathered at a time: 4096 x 100 doubles stay inside the cache
_COLUMNS = 1 << 16  # entries of a chunk of right-hand sides made for CSR rows: half a megabyte


@dataclass(frozen=True)
class _Block:
    """Rows `row_of` of one matrix, at positions `start : start + len(row_of)` of the whole."""

    X: Any
    row_of: Ints
    start: int

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + self.row_of.shape[0])

    @property
    def whole(self) -> bool:
        """Whether every row counts: increasing numbers as many as rows are all of them, in order."""
        return bool(self.row_of.shape[0] == self.X.shape[0])

    @property
    def csr(self) -> tuple[Any, Any, Any, Ints]:
        """What the compiled loops take for a CSR block."""
        return self.X.data, self.X.indices, self.X.indptr, self.row_of


class RowBlocks:
    """n rows of d features in blocks; the data are referred to, never copied. Products are in double precision.

    Parameters
    ----------
    blocks : sequence of (matrix, row_of)
        Matrices of shape (n_b, d), C-contiguous dense or CSR, float32 or float64; `row_of` holds the increasing row
        numbers that count, or is None for all of them.
    """

    def __init__(self, blocks: Sequence[tuple[Any, Ints | None]]) -> None:
        start = 0
        built: list[_Block] = []
        for X, row_of in blocks:
            rows = np.arange(X.shape[0], dtype=np.int64) if row_of is None else row_of
            built.append(_Block(X, rows, start))
            start += rows.shape[0]
        self.blocks = tuple(built)
        self.n_rows = start
        self.n_features: int = blocks[0][0].shape[1]

    def dot(self, w: Floats, out: Floats | None = None) -> Floats:
        """`X w`, shape (n,)."""
        out = np.empty(self.n_rows) if out is None else out
        for block in self.blocks:
            mine = out[block.place]
            if sp.issparse(block.X):
                _loops.csr_dot(*block.csr, w, mine)
            else:
                _loops.dense_dot(block.X, block.row_of, w, mine)
        return out

    def tdot(self, g: Floats) -> Floats:
        """`X' g`, shape (d,); rows where g is zero cost nothing."""
        out = np.zeros(self.n_features)
        for block in self.blocks:
            mine = g[block.place]
            if sp.issparse(block.X):
                _loops.csr_tdot(*block.csr, mine, out)
            else:
                _loops.dense_tdot(block.X, block.row_of, mine, out)
        return out

    def cell_sums(self, cell: Cells, plus: Floats, minus: Floats, n_cells: int) -> tuple[Floats, Floats]:
        """Sums of `plus_i x_i` and of `minus_i x_i` over the rows of each cell, two arrays of shape (k, d).

        One pass over the data, after which `X' C` is at hand for every C that is a combination of `plus` and `minus`
        with coefficients by cell: the gradients of the objective and of all constraints together.
        """
        above, below = np.zeros((n_cells, self.n_features)), np.zeros((n_cells, self.n_features))
        for block in self.blocks:
            mine = (cell[block.place], plus[block.place], minus[block.place])
            if sp.issparse(block.X):
                _loops.csr_cell_sums(*block.csr, *mine, above, below)
            else:
                _loops.dense_cell_sums(block.X, block.row_of, *mine, above, below)
        return above, below

    def gram(self, scale: Floats) -> Floats:
        """Lower triangle of `X' diag(scale) X`, shape (d, d), Fortran order; only rows of non-zero scale are touched.

        `scale` must be >= 0. What stands above the diagonal has no meaning.
        """
        d = self.n_features
        out = np.zeros((d, d), order="F")
        for block in self.blocks:
            mine = scale[block.place]
            if sp.issparse(block.X):
                pairs, squares = np.zeros((d, d)), np.zeros(d)
                _loops.csr_gram(*block.csr, mine, pairs, squares)
                _loops.add_folded(pairs, squares, out)
                continue
            band = np.flatnonzero(mine)
            for low in range(0, band.shape[0], _CHUNK):
                some = band[low : low + _CHUNK]
                rows = block.X[block.row_of[some]] * np.sqrt(mine[some])[:, None]
                out = dsyrk(1.0, rows.T, beta=1.0, c=out, lower=1, overwrite_c=1)
        return out

    def border(self, fill: Callable[[slice, Floats], None], n_columns: int) -> Floats:
        """`C' X`, shape (k, d), for a matrix C of shape (n, k) that is made a chunk at a time.

        `fill(place, columns)` writes the rows `place` of C into `columns`; C never exists as a whole.
        """
        out = np.zeros((n_columns, self.n_features))
        for block in self.blocks:
            sparse = sp.issparse(block.X)
            size = max(1, _COLUMNS // max(n_columns, 1)) if sparse else _CHUNK
            for low in range(0, block.row_of.shape[0], size):
                rows = block.row_of[low : low + size]
                columns = np.empty((rows.shape[0], n_columns))
                fill(slice(block.start + low, block.start + low + rows.shape[0]), columns)
                if sparse:
                    _loops.add_border_csr(block.X.data, block.X.indices, block.X.indptr, rows, columns, out)
                else:
                    out += columns.T @ (block.X[low : low + size] if block.whole else block.X[rows])
        return out

    def square(self, w: Floats, products: Floats | None = None) -> float:
        """`|w|^2`. The products `X w` are not needed here; kernel rows (`linalg.gram`) need them."""
        return float(w @ w)

    def norms2(self) -> Floats:
        """Squared norms of the rows, shape (n,)."""
        out = np.empty(self.n_rows)
        for block in self.blocks:
            X, mine = block.X, out[block.place]
            if sp.issparse(X):
                _loops.csr_norms2(X.data, X.indptr, block.row_of, mine)
            else:
                _loops.dense_norms2(X, block.row_of, mine)
        return out


def canonical_rows(X: Any) -> Any:
    """X itself, or a copy of a CSR matrix whose rows name a column twice, with such entries added up."""
    if not sp.issparse(X) or X.has_canonical_format:
        return X
    copy = X.copy()
    copy.sum_duplicates()
    return copy


def merge_rows(X: Any, cell: Cells, weight: Floats | None) -> tuple[Ints, Floats]:
    """Merge equal rows of equal cell into one of summed weight; rows of weight zero go.

    Equal rows are found by a random projection and then compared entry by entry, so a collision cannot merge different
    rows. Where less than 5% of the rows would go nothing is merged.

    Parameters
    ----------
    X : matrix of shape (n, d), CSR or C-contiguous
    cell : ndarray of int32, shape (n,)
        Cell of each row, or -1 for rows that no rate looks at (dropped).
    weight : ndarray of shape (n,) or None
        None means all ones.

    Returns
    -------
    row_of : ndarray of int64, shape (n_distinct,)
        Increasing row numbers, the first row of each group.
    weights : ndarray of shape (n_distinct,)
        Summed weights.
    """
    used = cell >= 0 if weight is None else (cell >= 0) & (weight > 0)
    rows = np.flatnonzero(used)
    s = np.ones(rows.shape[0]) if weight is None else weight[rows]
    if rows.shape[0] < 2:
        return rows, s
    mark, direction = np.empty(rows.shape[0]), np.random.default_rng(0).standard_normal(X.shape[1])
    if sp.issparse(X):
        _loops.csr_dot(X.data, X.indices, X.indptr, rows, direction, mark)
    else:
        _loops.dense_dot(X, rows, direction, mark)
    order = np.lexsort((mark, cell[rows]))
    first, second = rows[order[:-1]], rows[order[1:]]
    candidate = np.flatnonzero((mark[order[:-1]] == mark[order[1:]]) & (cell[first] == cell[second]))
    if candidate.shape[0] < 0.05 * rows.shape[0]:
        return rows, s
    equal = np.zeros(candidate.shape[0], dtype=np.bool_)
    if sp.issparse(X):
        _loops.csr_equal_rows(X.data, X.indices, X.indptr, first[candidate], second[candidate], equal)
    else:
        _loops.dense_equal_rows(X, first[candidate], second[candidate], equal)
    begins = np.ones(rows.shape[0], dtype=np.bool_)
    begins[candidate[equal] + 1] = False
    starts = np.flatnonzero(begins)
    summed = np.add.reduceat(s[order], starts)
    leader = rows[order[starts]]  # lexsort is stable, so the first of a group is its smallest row number
    by_row = np.argsort(leader)
    return leader[by_row], summed[by_row]
