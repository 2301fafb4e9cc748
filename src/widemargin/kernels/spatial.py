"""A Gaussian kernel matrix in spatial order: values of distant rows are left out, nothing is stored.

The order is that of a k-d tree: neighbours in space become neighbours in memory.

Meant for few columns and a kernel that is narrow against the spread of the rows: a value is computed from 10 columns
sooner than it is read from memory, and most pairs of boxes of the k-d tree are too far apart to matter.
"""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin._numba import kernel, summing_kernel
from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints, Matrix, Reals
from widemargin.exceptions import CapabilityError
from widemargin.kernels.functions import Kernel, gaussian
from widemargin.linalg.powers import NarrowRows, power_of_two


class Count:
    """Kernel values computed by a matrix and its parts."""

    evaluations = 0


class Tiles:
    """The Gaussian kernel matrix of some rows in the order of a k-d tree.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    count : Count
        Where evaluations are counted.
    dtype : float32 or float64
    reach : float, default=22
        Values below `2^-reach` are left out: those of 22 are below the precision of float32.

    Attributes
    ----------
    order : ndarray of int64, shape (n,)
        Row k here is `X[order[k]]`. All other methods use the numbers here.

    Raises
    ------
    CapabilityError
        If the kernel is not Gaussian, or X is sparse.
    """

    leaf, chunk = 512, 64
    """Rows of a leaf of the tree, and of a run of moved rows, that share a box. Smaller boxes leave out more pairs, and
    more of them have to be compared."""

    worth = 1 << 20
    """Values of a block that are worth a thread: they take half a millisecond."""

    def __init__(
        self, kernel: Kernel, X: Matrix, count: Count, dtype: npt.DTypeLike = np.float32, reach: float = 22.0
    ) -> None:
        if kernel.name != "rbf" or sp.issparse(X):
            raise CapabilityError(
                f"spatial tiles need dense rows and the kernel 'rbf', not {'CSR rows' if sp.issparse(X) else ''}"
                f"{kernel.name!r}; use solver='dual' without them."
            )
        self._count, self.dtype, self._reach = count, np.dtype(dtype), 2.0 * reach  # of a squared distance
        self._room: Reals = np.empty(0, dtype=self.dtype)
        self.n_rows = self.capacity = int(X.shape[0])
        self.order = spatial_order(X, self.leaf)
        # Rows are scaled once, so that the loops need a power of two and no gamma.
        self._scale = np.sqrt(2.0 * kernel.gamma * np.log2(np.e))  # K(x, y) = 2^(-|z_x - z_y|^2 / 2)
        self._centre: Floats = X.mean(axis=0, dtype=np.float64)
        self._Z = np.zeros((self.n_rows, X.shape[1] + X.shape[1] % 2), dtype=self.dtype)
        # Centred in double precision: float32 keeps the digits of differences.
        self._Z[:, : X.shape[1]] = (X[self.order] - self._centre) * self._scale
        # The loops walk along columns of many rows, two columns at a time.
        self._columns = np.ascontiguousarray(self._Z.T)
        self._low, self._high = boxes(self._Z, self.leaf)

    @property
    def evaluations(self) -> int:
        """Kernel values computed so far."""
        return self._count.evaluations

    def diagonal(self) -> Floats:
        """K(x, x) of every row, shape (n,)."""
        return np.ones(self.n_rows)

    def block(self, rows: Ints) -> Reals:
        """Kernel values among some rows, shape (k, k): read them before the next call."""
        part, k = self._Z[rows], rows.shape[0]
        # exp(-log 2 / 2 |z|^2) = 2^(-|z|^2 / 2).
        square = np.einsum("ij,ij->i", part, part)
        if self._room.shape[0] < k * k:
            self._room = np.empty(k * k, dtype=self.dtype)  # kept: memory that is new is slow
        K = self._room[: k * k].reshape(k, k)

        def fill(first: int, last: int) -> None:
            np.matmul(part[first:last], part.T, out=K[first:last])
            gaussian(K[first:last], square[first:last], square, 0.5 * float(np.log(2.0)))

        in_threads(k, max(1, self.worth // max(1, k)), fill)
        self._count.evaluations += K.size
        return K

    def narrow(self, rows: Ints) -> NarrowRows:
        """Some rows, for loops that compute the values among them."""
        return NarrowRows(np.array(self._Z[rows].T, order="C"), 0.5 * float(np.log(2.0)))

    def count(self, values: int) -> None:
        """Count values that such loops have computed."""
        self._count.evaluations += values

    def add(self, rows: Ints, change: Floats, scores: Floats) -> None:
        """Add `K[:, rows] change` to `scores`, shape (n,), without the values that are left out.

        Rows that follow each other in space are fastest: sort them. The leaves are shared out to the threads in force.
        """
        points = self._Z[rows]
        # Moved rows that follow each other share a box, which is compared first.
        chunk_low, chunk_high = boxes(points, self.chunk)

        def part(first: int, last: int) -> int:
            room = np.empty(self.leaf, dtype=self.dtype)
            return add_near(
                points, change, chunk_low, chunk_high, self.chunk, self._columns, self._low, self._high, self.leaf,
                first, last, self._reach, room, scores,
            )  # fmt: skip

        self._count.evaluations += sum(in_threads(self._low.shape[0], 1, part))

    def products(self, X: Reals, coefficients: Matrix) -> Floats:
        """`K(X, rows) @ coefficients` for new rows, without the values that are left out.

        Parameters
        ----------
        X : ndarray of shape (p, d)
        coefficients : ndarray of shape (n, 1)
            In the order of the rows as they were given.

        Returns
        -------
        ndarray of shape (p, 1), float64
        """
        points, coef = np.zeros((X.shape[0], self._Z.shape[1]), dtype=self.dtype), coefficients[self.order, 0]
        points[:, : X.shape[1]] = (X - self._centre) * self._scale
        sums = np.zeros(X.shape[0])

        def part(first: int, last: int) -> int:
            room = np.empty(self.leaf, dtype=self.dtype)
            return near_sums(
                points, coef, self._columns, self._low, self._high, self.leaf, first, last, self._reach, room, sums
            )

        # A row is worth a thread where it has all values.
        self._count.evaluations += sum(in_threads(X.shape[0], max(1, 16 * self.worth // self.n_rows), part))
        return sums[:, None]


def spatial_order(X: Reals, leaf: int) -> Ints:
    """Permutation that puts the rows of every leaf side by side.

    Each node is split across its widest column, near the median, so that every leaf but the last has `leaf` rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    leaf : int
        Rows of a leaf.

    Returns
    -------
    ndarray of int64, shape (n,)
        `X[order[k * leaf : (k + 1) * leaf]]` is leaf k.
    """
    order = np.arange(X.shape[0], dtype=np.int64)
    nodes = [(0, X.shape[0])]
    while nodes:
        low, high = nodes.pop()
        count = -(-(high - low) // leaf)
        if count <= 1:
            continue
        rows = order[low:high]
        inside = X[rows]
        # The widest column is where a cut makes both boxes smallest.
        column = inside[:, int(np.argmax(np.ptp(inside, axis=0)))]
        # A whole number of leaves on the left keeps all leaves but the last full.
        half = leaf * (count // 2)
        order[low:high] = rows[np.argpartition(column, half - 1)]
        nodes += [(low, low + half), (low + half, high)]
    return order


def boxes(X: Reals, leaf: int) -> tuple[Reals, Reals]:
    """Smallest and largest value of every column in blocks of `leaf` rows, shapes (blocks, d)."""
    # The last block may be shorter.
    starts = np.arange(0, X.shape[0], leaf)
    return np.minimum.reduceat(X, starts, axis=0), np.maximum.reduceat(X, starts, axis=0)


@kernel
def boxes_apart(low: Reals, high: Reals, other_low: Reals, other_high: Reals) -> float:
    """Squared distance of two boxes; a point is the box from itself to itself."""
    apart = 0.0
    for k in range(low.shape[0]):
        gap = max(0.0, low[k] - other_high[k], other_low[k] - high[k])
        apart += gap * gap
    return apart


@kernel
def squared_distances(point: Reals, columns: Reals, start: int, end: int, room: Reals) -> None:
    """Set `room[j]` to the squared distance of a point from row `start + j`; the number of columns is even."""
    # Two columns at a time halve the passes over `room`.
    for k in range(0, point.shape[0], 2):
        here, there = point[k], point[k + 1]
        one, other = columns[k, start:end], columns[k + 1, start:end]
        if k == 0:
            for j in range(end - start):
                a, b = here - one[j], there - other[j]
                room[j] = a * a + b * b
        else:
            for j in range(end - start):
                a, b = here - one[j], there - other[j]
                room[j] += a * a + b * b


@kernel
def add_near(
    points: Reals, change: Floats, chunk_low: Reals, chunk_high: Reals, chunk: int, columns: Reals, low: Reals,
    high: Reals, leaf: int, first: int, last: int, reach: float, distance: Reals, scores: Floats,
) -> int:  # fmt: skip
    """Add `sum_i change[i] 2^(-|points[i] - columns[:, j]|^2 / 2)` to `scores[j]` for the leaves first to last.

    Pairs of a point and a leaf whose box is farther than `sqrt(reach)` are left out; chunks of points, with boxes of
    their own, are left out first. The number of columns d is even; `distance` is room for a leaf. Returns the
    number of pairs computed.
    """
    m, half = points.shape[0], np.float32(-0.5)
    pairs = 0
    for box in range(first, last):
        start, end = box * leaf, min((box + 1) * leaf, scores.shape[0])
        part, room = scores[start:end], distance[: end - start]
        for c in range(chunk_low.shape[0]):
            if boxes_apart(chunk_low[c], chunk_high[c], low[box], high[box]) > reach:
                continue
            for i in range(c * chunk, min((c + 1) * chunk, m)):
                if boxes_apart(points[i], points[i], low[box], high[box]) > reach:
                    continue
                pairs += end - start
                squared_distances(points[i], columns, start, end, room)
                weight = change[i]
                for j in range(end - start):
                    part[j] += weight * power_of_two(half * room[j])
    return pairs


@kernel
def near_sums(
    points: Reals, coef: Floats, columns: Reals, low: Reals, high: Reals, leaf: int, first: int, last: int,
    reach: float, distance: Reals, sums: Floats,
) -> int:  # fmt: skip
    """Add `sum_j coef[j] 2^(-|points[i] - columns[:, j]|^2 / 2)` to `sums[i]` for the points first to last.

    As in `add_near`, leaves whose box is too far from a point are left out.
    """
    n, half, pairs = columns.shape[1], np.float32(-0.5), 0
    for i in range(first, last):
        for box in range(low.shape[0]):
            if boxes_apart(points[i], points[i], low[box], high[box]) > reach:
                continue
            start, end = box * leaf, min((box + 1) * leaf, n)
            pairs += end - start
            room = distance[: end - start]
            squared_distances(points[i], columns, start, end, room)
            for j in range(end - start):
                room[j] = power_of_two(half * room[j])
            sums[i] += weighted_sum(coef[start:end], room)
    return pairs


@summing_kernel
def weighted_sum(coef: Floats, values: Reals) -> float:
    """`<coef, values>`, summed in the order that vector instructions take."""
    total = 0.0
    for j in range(values.shape[0]):
        total += coef[j] * values[j]
    return total
