"""Products with many rows that lie in several blocks, dense or sparse, without copying them.

`RowBlocks` is what every linear solver of the library sees of the data: `X w`, `X' g`, `X' D X`. A block is a user's
matrix and the numbers of the rows that count (`equal_rows.merge_rows` takes duplicates away), so a row
costs one integer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dsyr2, dsyrk, ssyrk

from widemargin._threads import (
    NUMBERS_PER_THREAD,
    add_in_threads,
    blas_threads,
    in_threads,
    loop_over_rows,
    sums_over_rows,
    threads_in_force,
)
from widemargin._typing import Cells, Floats, Integers, Ints, Matrix, Reals
from widemargin.linalg import products
from widemargin.linalg.cholesky import over_lower_triangle

__all__ = ["RowBlocks"]

Loop: TypeAlias = Callable[..., None]

_CHUNK = 4096
"""Rows of a dense block gathered at a time: 4096 x 100 doubles stay inside the cache."""
_STRIPE = 100
"""Columns whose products with the others are worth a thread; narrower ones are slow products."""
_COLUMNS = 1 << 16
"""Entries of a chunk of right-hand sides made for CSR rows: half a megabyte."""


@dataclass(frozen=True)
class _Block:
    """Rows `row_of` of one matrix, from position `start` of the whole on.

    Attributes
    ----------
    place : slice
        Their positions in the whole.
    sparse : bool
        Whether the rows are CSR.
    whole : bool
        Whether every row counts: increasing numbers as many as rows are all of them, in order.
    """

    X: Matrix
    row_of: Ints
    start: int
    place: slice = field(init=False)
    sparse: bool = field(init=False)
    whole: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", slice(self.start, self.start + self.row_of.shape[0]))
        object.__setattr__(self, "sparse", not isinstance(self.X, np.ndarray))
        n = self.X.shape[0]
        object.__setattr__(self, "whole", self.row_of.shape[0] == n and bool((np.diff(self.row_of) > 0).all()))

    @cached_property
    def n_stored(self) -> int:
        """Numbers stored in these rows."""
        if not isinstance(self.X, np.ndarray):
            return int(np.diff(self.X.indptr)[self.row_of].sum())
        return int(self.row_of.shape[0]) * int(self.X.shape[1])

    @cached_property
    def worth(self) -> int:
        """Rows that are worth a thread."""
        return 1 + int(NUMBERS_PER_THREAD * self.row_of.shape[0] // max(self.n_stored, 1))

    @cached_property
    def csr(self) -> tuple[Reals, Integers, Integers]:
        """What the compiled loops take for a CSR block, before the numbers of the rows."""
        assert not isinstance(self.X, np.ndarray)
        return products.csr_parts(self.X)

    def loop(self, csr_loop: Loop, dense_loop: Loop, *vector: Floats) -> Loop:
        """The loop of this kind of rows, and of a vector of features, which is still to be told which rows."""
        return partial(csr_loop, *self.csr, *vector) if self.sparse else partial(dense_loop, self.X, *vector)

    def add(self, loop: Loop, by_row: Sequence[Reals | Cells], *sums: Floats) -> None:
        """Add to sums by a loop that looks at row i and at entry i of what is given by row."""
        # Every thread has sums of its own, so its rows have to be worth them, too.
        least = max(self.worth, sum(out.size for out in sums) * self.row_of.shape[0] // max(self.n_stored, 1))
        sums_over_rows(loop, (self.row_of, *by_row), *sums, least=least)


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

    def __init__(self, blocks: Sequence[tuple[Matrix, Ints | None]], centre: Floats | None = None) -> None:
        start = 0
        built: list[_Block] = []
        for X, row_of in blocks:
            rows = _EVERY.get(X.shape[0]) if row_of is None else row_of
            if rows is None:
                rows = _EVERY[X.shape[0]] = np.arange(X.shape[0], dtype=np.int64)
            built.append(_Block(X, rows, start))
            start += rows.shape[0]
        self.blocks = tuple(built)
        self.n_rows = start
        self.n_features: int = blocks[0][0].shape[1]
        # The last weights and their product with all rows.
        self._last: tuple[Floats, Floats] | None = None
        # The rows of a block are centred at the mean of all blocks, so that their sums can be added up.
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
        # Increasing positions fall into the blocks in runs, so two cuts a block say which are its own.
        cuts = np.searchsorted(positions, [block.start for block in self.blocks] + [self.n_rows])
        return RowBlocks(
            [
                (block.X, block.row_of[positions[low:high] - block.start])
                for block, low, high in zip(self.blocks, cuts[:-1], cuts[1:], strict=True)
            ]
        )

    def as_they_lie(self) -> "RowBlocks":
        """The same rows, those that are taken in another order than they lie in copied: passes read memory in order."""
        return RowBlocks(
            [
                (block.X, block.row_of) if (np.diff(block.row_of) > 0).all() else (block.X[block.row_of], None)
                for block in self.blocks
            ]
        )

    def dot(self, w: Floats, out: Floats | None = None) -> Floats:
        """`X w`, shape (n,).

        A product that is not written to an `out` is remembered: solver, majorisation and judge ask for it in turn.
        """
        if remember := out is None:
            # Other threads may ask for products of their own, so what is compared is what is returned.
            last = self._last
            if last is not None and np.array_equal(last[0], w):
                return last[1].copy()
            out = np.empty(self.n_rows)
        for block in self.blocks:
            loop = block.loop(products.csr_dot, products.dense_dot, w)
            loop_over_rows(loop, (block.row_of, out[block.place]), least=block.worth)
        if remember:
            self._last = w.copy(), out
            return out.copy()
        return out

    def tdot(self, g: Floats) -> Floats:
        """`X' g`, shape (d,); rows where g is zero cost nothing."""
        out = np.zeros(self.n_features)
        for block in self.blocks:
            block.add(block.loop(products.csr_tdot, products.dense_tdot), (g[block.place],), out)
        return out

    def add_cell_sums(self, cell: Cells, g: Floats, h: Floats, above: Floats, below: Floats) -> None:
        """Add `g_i x_i` to `above[cell_i]` and `h_i x_i` to `below[cell_i]`, shape (k, d) both.

        With these sums `X' C` is at hand for every C that is a combination of columns g and h with coefficients by
        cell: the gradients of the objective and of all constraints together. Where g and h change, only the changes
        need be added: rows where both are zero cost nothing.
        """
        for block in self.blocks:
            mine = (cell[block.place], g[block.place], h[block.place])
            block.add(block.loop(products.csr_cell_sums, products.dense_cell_sums), mine, above, below)

    @cached_property
    def centre(self) -> Floats:
        """Mean of the rows, shape (d,): where `moments` are best taken."""
        if self._given_centre is not None:
            return self._given_centre
        # Any point near the rows would do as well, for what is subtracted is added back; the mean leaves the sums of
        # the centred rows at zero.
        return self.tdot(np.ones(self.n_rows)) / max(self.n_rows, 1)

    @cached_property
    def inner_products(self) -> Floats:
        """`X X'`, the inner products of all rows with each other, shape (n, n): for few rows of many features."""
        with blas_threads(float(self.n_rows) ** 2 * self.n_features):
            parts = [block.X[block.row_of] for block in self.blocks]
            if all(isinstance(part, np.ndarray) for part in parts):
                whole = np.concatenate(parts, dtype=np.float64)
                return np.asarray(whole @ whole.T)
            sparse = sp.vstack(parts, format="csr", dtype=np.float64)
            return np.asarray((sparse @ sparse.T).toarray())

    def gram(self, scale: Floats) -> Floats:
        """Lower triangle of `X' diag(scale) X`, shape (d, d), Fortran order; only rows of non-zero scale are touched.

        What stands above the diagonal has no meaning.
        """
        return self.moments(scale)[0]

    def moments(
        self, scale: Reals, *, centred: bool = False, single: bool = False, onto: tuple[Floats, Floats] | None = None
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
        onto : tuple of (gram, sums), optional
            Sums to add to in place; they are what is returned.

        Returns
        -------
        gram : ndarray of shape (d, d)
            Lower triangle, Fortran order; what stands above the diagonal has no meaning.
        sums : ndarray of shape (d,)
        """
        d = self.n_features
        out, sums = (np.zeros((d, d), order="F"), np.zeros(d)) if onto is None else onto
        for block in self.blocks:
            mine = scale[block.place]
            if block.sparse:
                # In double precision always: for float32 the loop would be compiled a second time at the first fit.
                mine = mine.astype(np.float64, copy=False)
                # Sparse rows are summed as they are, and centred afterwards.
                pairs, squares, own = np.zeros((d, d)), np.zeros(d), np.zeros(d)
                block.add(partial(products.csr_gram, *block.csr), (mine,), pairs, squares, own)
                products.add_folded(pairs, squares, out)
                if centred:
                    total = float(mine.sum(dtype=np.float64))
                    # Centred, X'DX is X'DX - s c' - c s' + total c c' with the sums s and the centre c: one
                    # symmetric update, which leaves the zeros of the rows alone.
                    half = own - 0.5 * total * self.centre
                    out = dsyr2(-1.0, half, self.centre, a=out, lower=1, overwrite_a=1)
                    own -= total * self.centre
                sums += own
                continue
            # A sum of its own in float32; only the total of the block is rounded.
            part = np.zeros((d, d), order="F", dtype=np.float32) if single else out
            dense = _DenseRows(block, mine, self.centre if centred else None, part.dtype)
            for sign, band in _signs(mine):
                # Threads share the rows, each with a matrix of its own; where there are too few rows for all threads,
                # the columns, if these are enough (`add_moments`). BLAS shared out by its own threads kept 16 cores
                # busy for nothing.
                least = max(d, 20 * NUMBERS_PER_THREAD // d**2)
                if d >= 4 * _STRIPE and band.shape[0] < least * threads_in_force():
                    least = band.shape[0] + 1
                add_in_threads(band.shape[0], least, partial(dense.add_moments, band, sign), part, sums)
            if single:
                over_lower_triangle(np.add, out, part, out)
        return out, sums

    def diagonal(self, scale: Floats) -> tuple[Floats, Floats]:
        """Diagonal of `X' diag(scale) X`, and `X' scale`, both of shape (d,)."""
        squares, sums = np.zeros(self.n_features), self.tdot(scale)
        for block in self.blocks:
            mine = scale[block.place]
            if block.sparse:
                block.add(partial(products.csr_squares, *block.csr), (mine,), squares)
            else:
                dense = _DenseRows(block, mine, None, np.dtype(np.float64))
                for sign, band in _signs(mine):
                    for rows, _ in dense.chunks(band):
                        # The chunks come times the roots of their weights, so their squares are the weighted sums.
                        squares += sign * np.einsum("ij,ij->j", rows, rows)
        return squares, sums

    def border(self, fill: Callable[[slice, Floats], None], n_columns: int) -> Floats:
        """`C' X`, shape (k, d), for a matrix C of shape (n, k) that is made a chunk at a time.

        `fill(place, columns)` writes the rows `place` of C into `columns`; C never exists as a whole.
        """
        out = np.zeros((n_columns, self.n_features))
        for block in self.blocks:
            # Sparse chunks are bounded by their right-hand sides, dense ones by the cache.
            size = max(1, _COLUMNS // max(n_columns, 1)) if block.sparse else _CHUNK
            for low in range(0, block.row_of.shape[0], size):
                rows = block.row_of[low : low + size]
                columns = np.empty((rows.shape[0], n_columns))
                fill(slice(block.start + low, block.start + low + rows.shape[0]), columns)
                if block.sparse:
                    products.add_border_csr(*block.csr, rows, columns, out)
                else:
                    # Rows that all count need no gathering.
                    out += columns.T @ (block.X[low : low + size] if block.whole else block.X[rows])
        return out

    def square(self, w: Floats, products: Floats | None = None) -> float:
        """`|w|^2`. The products `X w` are not needed here; kernel rows (`linalg.gram`) need them."""
        return float(w @ w)

    def norms2(self, scale: Floats | None = None) -> Floats:
        """Squared norms of the rows, shape (n,); with `scale`, shape (d,), `sum_k scale_k x_ik^2`."""
        out = np.empty(self.n_rows)
        # Without a scale all features count alike.
        scale = np.ones(self.n_features) if scale is None else scale
        for block in self.blocks:
            loop = block.loop(products.csr_norms2, products.dense_norms2, scale)
            loop_over_rows(loop, (block.row_of, out[block.place]), least=block.worth)
        return out


class _DenseRows(NamedTuple):
    """Dense rows times the root of a weight, a cache full at a time.

    Attributes
    ----------
    scale : ndarray of shape (n_b,)
        The weights.
    centre : ndarray of shape (d,) or None
        What is subtracted from the rows.
    dtype : dtype
        Of the products.
    """

    block: _Block
    scale: Reals
    centre: Floats | None
    dtype: np.dtype[np.float32] | np.dtype[np.float64]

    def chunks(self, band: Ints) -> Iterator[tuple[Reals, Reals]]:
        """The rows of a band times their roots, in memory that the next ones are written to, and the roots."""
        d = self.block.X.shape[1]
        centre = np.zeros(d) if self.centre is None else self.centre
        # Fewer where rows are wide, for the same cache; but enough to be worth a matrix of products.
        size = min(_CHUNK, max(512, 400_000 // d, 2 * d))
        place = np.empty((min(size, band.shape[0]), d), dtype=self.dtype)
        for low in range(0, band.shape[0], size):
            some = band[low : low + size]
            # A symmetric product takes roots of the weights.
            root: Reals = np.sqrt(np.abs(self.scale[some], dtype=np.float64)).astype(self.dtype, copy=False)
            scaled: Reals = place[: some.shape[0]]
            by_row = (self.block.row_of[some], root, scaled)
            least = max(1, NUMBERS_PER_THREAD // d)
            loop_over_rows(partial(products.dense_scaled, self.block.X, centre), by_row, least=least)
            yield scaled, root

    def add_moments(self, band: Ints, sign: float, first: int, last: int, gram: Reals, sums: Floats) -> None:
        """Add the products of a range of a band with themselves to the lower triangle of `gram`, the rows to `sums`."""
        d, syrk = gram.shape[0], ssyrk if self.dtype == np.float32 else dsyrk
        striped = d >= 4 * _STRIPE and threads_in_force() > 1
        # Many rows are worth a matrix for their products with themselves.
        room = np.empty((d, d), dtype=self.dtype) if last - first >= d and not striped else None
        add = np.add if sign > 0.0 else np.subtract

        def add_stripe(rows: Reals, left: int, right: int) -> None:
            # A stripe from the diagonal on: together the stripes are the upper triangle, and no product is made twice.
            mine = rows[:, left:right]
            for others, place in ((mine, slice(left, right)), (rows[:, right:], slice(right, d))):
                stripe = gram.T[left:right, place]
                add(stripe, mine.T @ others, out=stripe)

        for rows, root in self.chunks(band[first:last]):
            if room is not None and rows.shape[0] >= d:
                # NumPy knows that this is symmetric, and lets other threads go on, which scipy's `syrk` does not. What
                # overflows is infinite in both.
                with np.errstate(over="ignore", invalid="ignore"):
                    np.matmul(rows.T, rows, out=room)
                    add(gram, room.T, out=gram)  # both in Fortran order
            elif striped:
                in_threads(d, _STRIPE, partial(add_stripe, rows), pieces=2)
            else:
                syrk(sign, rows.T, beta=1.0, c=gram, lower=1, overwrite_c=1)  # in place: Fortran order, of one type
            sums += sign * (root @ rows)


def _signs(scale: Reals) -> Iterator[tuple[float, Ints]]:
    """The rows of positive weight, then those of negative weight: a symmetric product takes them off by themselves."""
    for sign, mine in ((1.0, scale > 0.0), (-1.0, scale < 0.0)):
        if len(band := mine.nonzero()[0]):
            yield sign, band


_EVERY: WeakValueDictionary[int, Ints] = WeakValueDictionary()
"""The numbers of n rows, by n: blocks of one length share them."""
