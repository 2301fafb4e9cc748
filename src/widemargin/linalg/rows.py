"""Products with many rows that lie in several blocks, dense or sparse, without copying them.

`RowBlocks` is what every linear solver of the library sees of the data: `X w`, `X' g`, `X' D X`. A block is a user's
matrix and the numbers of the rows that count (duplicates are merged away by `merge_rows`), so a row costs one integer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg.blas import dsyr2, dsyrk, ssyrk

from widemargin._typing import Floats, Ints
from widemargin.linalg import _loops

__all__ = ["RowBlocks", "canonical_rows", "merge_rows"]

Cells = npt.NDArray[np.int32]

_CHUNK = 4096  # rows of a dense block gathered at a time: 4096 x 100 doubles stay inside the cache
_LEAST_CHUNK, _GATHERED = 512, 400_000  # the same where rows are wide: numbers gathered at a time
_WIDE = 200  # features from which a copy of the rows in float32 pays
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
    def n_stored(self) -> int:
        """Numbers stored in these rows."""
        if sp.issparse(self.X):
            return int(np.diff(self.X.indptr)[self.row_of].sum())
        return int(self.row_of.shape[0]) * int(self.X.shape[1])

    @property
    def csr(self) -> tuple[Any, Any, Any, Ints]:
        """What the compiled loops take for a CSR block.

        The indices are seen as unsigned numbers: that spares the loops a test for negative ones, and the product with a
        vector half of its time.
        """
        return self.X.data, _unsigned(self.X.indices), _unsigned(self.X.indptr), self.row_of


class RowBlocks:
    """n rows of d features in blocks; the data are referred to, never copied. Products are in double precision.

    Parameters
    ----------
    blocks : sequence of (matrix, row_of)
        Matrices of shape (n_b, d), C-contiguous dense or CSR, float32 or float64; `row_of` holds the increasing row
        numbers that count, or is None for all of them.
    centre : ndarray of shape (d,), optional
        Taken for the mean of the rows: that of more rows than these, say.
    """

    def __init__(self, blocks: Sequence[tuple[Any, Ints | None]], centre: Floats | None = None) -> None:
        start = 0
        built: list[_Block] = []
        for X, row_of in blocks:
            rows = _every_row(X.shape[0]) if row_of is None else row_of
            built.append(_Block(X, rows, start))
            start += rows.shape[0]
        self.blocks = tuple(built)
        self.n_rows = start
        self.n_features: int = blocks[0][0].shape[1]
        self._last: tuple[Floats, Floats] | None = None
        self._given_centre = centre

    def forget(self) -> None:
        """Free the product that `dot` remembers, a number a row: for solvers, before they need their own memory."""
        self._last = None

    @cached_property
    def n_stored(self) -> int:
        """Numbers stored in the rows: their features, or the entries of CSR rows."""
        return sum(block.n_stored for block in self.blocks)

    def take(self, positions: Ints) -> "RowBlocks":
        """The rows at these increasing positions; the data are not copied."""
        cuts = np.searchsorted(positions, [block.start for block in self.blocks] + [self.n_rows])
        return RowBlocks(
            [
                (block.X, block.row_of[positions[low:high] - block.start])
                for block, low, high in zip(self.blocks, cuts[:-1], cuts[1:], strict=True)
            ]
        )

    def dot(self, w: Floats, out: Floats | None = None, *, single: bool = False) -> Floats:
        """`X w`, shape (n,); with `single` from the rows in float32 where they are kept (`singles`): half the time.

        A product that is not written to an `out` is remembered: solver, majorisation and judge ask for it in turn.
        """
        if out is None:
            if self._last is None or not np.array_equal(self._last[0], w):
                self._last = w.copy(), self.dot(w, np.empty(self.n_rows))
            return self._last[1].copy()
        for k, block in enumerate(self.blocks):
            mine = out[block.place]
            short = self.singles[k] if single else None
            if sp.issparse(block.X):
                _loops.csr_dot(*block.csr, w, mine)
            elif short is not None:
                _loops.dense_dot(short, block.row_of, w, mine)
                mine += float(self.centre @ w)
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

    def add_cell_sums(self, cell: Cells, g: Floats, out: Floats) -> None:
        """Add `g_i x_i` to `out[cell_i]`, shape (k, d); rows where g is zero cost nothing.

        With these sums `X' C` is at hand for every C that is a combination of columns g with coefficients by cell: the
        gradients of the objective and of all constraints together. Where g changes, only the changes need be added.
        """
        for block in self.blocks:
            mine = (cell[block.place], g[block.place])
            if sp.issparse(block.X):
                _loops.csr_cell_sums(*block.csr, *mine, out)
            else:
                _loops.dense_cell_sums(block.X, block.row_of, *mine, out)

    @cached_property
    def centre(self) -> Floats:
        """Mean of the rows, shape (d,): where `moments` are best taken."""
        if self._given_centre is not None:
            return self._given_centre
        return self.tdot(np.ones(self.n_rows)) / max(self.n_rows, 1)

    @property
    def has_singles(self) -> bool:
        """Whether products with `single` are made in float32."""
        return any(short is not None for short in self.singles)

    @cached_property
    def singles(self) -> tuple[npt.NDArray[np.float32] | None, ...]:
        """By block, `X - centre` in float32 where that pays: dense rows in double precision, all of them, and wide.

        A Newton step on narrow rows spends its time elsewhere. What is steered by these copies has seven digits of the
        spread of each column, whatever its mean.
        """
        made: list[npt.NDArray[np.float32] | None] = []
        for block in self.blocks:
            dense = not sp.issparse(block.X) and block.X.dtype == np.float64
            if not (dense and block.whole and self.n_features >= _WIDE):
                made.append(None)
                continue
            short = np.empty(block.X.shape, dtype=np.float32)
            with np.errstate(over="ignore"):  # numbers beyond float32: found when a factor fails
                for low in range(0, short.shape[0], _CHUNK):
                    np.subtract(
                        block.X[low : low + _CHUNK], self.centre, out=short[low : low + _CHUNK], casting="same_kind"
                    )
            made.append(short)
        return tuple(made)

    def gram(self, scale: Floats) -> Floats:
        """Lower triangle of `X' diag(scale) X`, shape (d, d), Fortran order; only rows of non-zero scale are touched.

        What stands above the diagonal has no meaning.
        """
        return self.moments(scale)[0]

    def moments(
        self, scale: npt.NDArray[np.floating[Any]], *, centred: bool = False, single: bool = False
    ) -> tuple[Floats, Floats]:
        """`gram(scale)` and `X' scale`, of the rows themselves or of `X - centre`.

        A column with a mean much larger than its spread is nearly a multiple of the intercept's: its Gram matrix keeps
        no digits of the spread, that of the centred rows keeps them. Dense chunks are centred as they are gathered; CSR
        rows stay sparse, the centre is subtracted from their sums.

        Parameters
        ----------
        scale : ndarray of shape (n,)
            Weights of either sign; rows of zero cost nothing.
        centred : bool, default=False
        single : bool, default=False
            Multiply dense chunks in float32: half the time, seven digits.

        Returns
        -------
        gram : ndarray of shape (d, d)
            Lower triangle, Fortran order; what stands above the diagonal has no meaning.
        sums : ndarray of shape (d,)
        """
        d = self.n_features
        out, sums = np.zeros((d, d), order="F"), np.zeros(d)
        for k, block in enumerate(self.blocks):
            mine = scale[block.place]
            if sp.issparse(block.X):
                pairs, squares, own = np.zeros((d, d)), np.zeros(d), np.zeros(d)
                _loops.csr_gram(*block.csr, mine, pairs, squares, own)
                _loops.add_folded(pairs, squares, out)
                if centred:
                    total = float(mine.sum(dtype=np.float64))
                    half = own - 0.5 * total * self.centre
                    out = dsyr2(-1.0, half, self.centre, a=out, lower=1, overwrite_a=1)
                    own -= total * self.centre
                sums += own
                continue
            dtype, syrk = (np.float32, ssyrk) if single else (np.float64, dsyrk)
            part = np.zeros((d, d), order="F", dtype=np.float32) if single else out
            short = self.singles[k] if single and centred else None
            for rows, root, sign in self._chunks(block, mine, centred, dtype, short):
                part = syrk(sign, rows.T, beta=1.0, c=part, lower=1, overwrite_c=1)
                sums += sign * (root @ rows)
            if single:
                out += part
        return out, sums

    def diagonal(self, scale: Floats) -> tuple[Floats, Floats]:
        """Diagonal of `X' diag(scale) X`, and `X' scale`, both of shape (d,)."""
        squares, sums = np.zeros(self.n_features), self.tdot(scale)
        for block in self.blocks:
            mine = scale[block.place]
            if sp.issparse(block.X):
                _loops.csr_squares(*block.csr, mine, squares)
            else:
                for rows, _, sign in self._chunks(block, mine, False, np.float64):
                    squares += sign * np.einsum("ij,ij->j", rows, rows)
        return squares, sums

    def _chunks(
        self, block: _Block, scale: npt.NDArray[np.floating[Any]], centred: bool, dtype: Any, short: Any = None
    ) -> Iterator[tuple[Any, Any, float]]:
        """Dense rows times the root of |scale|, a cache full of one sign at a time, with the roots and the sign."""
        size = min(_CHUNK, max(_LEAST_CHUNK, _GATHERED // self.n_features))
        for sign in (1.0, -1.0):
            band = np.flatnonzero(sign * scale > 0.0)
            for low in range(0, band.shape[0], size):
                some = band[low : low + size]
                root = np.sqrt(np.abs(scale[some], dtype=np.float64))
                if short is not None:
                    root = root.astype(np.float32)
                    rows = short[some]
                    rows *= root[:, None]
                    yield rows, root, sign
                    continue
                rows = block.X[block.row_of[some]]
                if centred:
                    rows = rows - self.centre
                rows = np.multiply(rows, root[:, None], dtype=np.float64).astype(dtype, copy=False)
                yield rows, root.astype(dtype, copy=False), sign

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
                    _loops.add_border_csr(*block.csr[:3], rows, columns, out)
                else:
                    out += columns.T @ (block.X[low : low + size] if block.whole else block.X[rows])
        return out

    def square(self, w: Floats, products: Floats | None = None) -> float:
        """`|w|^2`. The products `X w` are not needed here; kernel rows (`linalg.gram`) need them."""
        return float(w @ w)

    def norms2(self, scale: Floats | None = None) -> Floats:
        """Squared norms of the rows, shape (n,); with `scale`, shape (d,), `sum_k scale_k x_ik^2`."""
        out = np.empty(self.n_rows)
        scale = np.ones(self.n_features) if scale is None else scale
        for block in self.blocks:
            X, mine = block.X, out[block.place]
            if sp.issparse(X):
                _loops.csr_norms2(*block.csr, scale, mine)
            else:
                _loops.dense_norms2(X, block.row_of, scale, mine)
        return out


_EVERY: WeakValueDictionary[int, Ints] = WeakValueDictionary()


def _every_row(n: int) -> Ints:
    """The numbers of n rows; blocks of one length share them."""
    rows = _EVERY.get(n)
    if rows is None:
        rows = _EVERY[n] = np.arange(n, dtype=np.int64)
    return rows


def _unsigned(indices: Any) -> Any:
    return indices.view(f"u{indices.dtype.itemsize}")


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
