"""What the kernel SVM solvers share: the problem, its kernel matrix, feasible starts, the result with its certificate.

    min_{w,b}  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i f(x_i)),      f(x) = <w, phi(x)> + b,   w = sum_i a_i y_i phi(x_i)

in scikit-learn's units: `C_i` is C times the weights of the row and of its class (`upper`). The dual is
`max sum_i a_i - 1/2 |w|^2` over `0 <= a_i <= C_i`, with `sum_i y_i a_i = 0` where the bias is free and unregularised.

Most rounds of a solver move few rows and then look at all of them, so a look is one compiled pass that copies nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from widemargin._numba import array_kernel, kernel
from widemargin._typing import Floats, Index, Integers, Ints, Reals
from widemargin.exceptions import CapabilityError, KernelError
from widemargin.linalg.cholesky import take
from widemargin.linalg.powers import NarrowRows
from widemargin.linalg.products import add_rows
from widemargin.solvers.base import Status, relative_gap
from widemargin.solvers.paper_nest.weighted_hinges import balance

__all__ = [
    "KernelMatrix", "KernelProblem", "KernelResult", "KernelSolver", "TiledMatrix", "Values", "WholeMatrix",
    "best_bias", "excess_sums", "first_above", "gradient_sides", "loss_and_sides", "responses",
    "significantly_negative",
]  # fmt: skip


class KernelMatrix(Protocol):
    """Rows of a kernel matrix (`kernels.rows.KernelRows`)."""

    n_rows: int
    capacity: int

    @property
    def evaluations(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[np.floating]: ...
    def block(self, rows: Index, columns: Index | None = None) -> Reals:
        """Values of some rows with some others (None: all), computed afresh."""

    def cached(self, rows: Integers) -> tuple[Reals, Ints]:
        """A buffer of whole rows and the places of the rows in it, valid until the next call."""

    def add(self, rows: Ints, change: Floats, scores: Floats, columns: Index | None = None) -> None:
        """Add `K[columns, rows] change` to `scores` (float64; columns None: all), computed afresh."""

    def diagonal(self) -> Floats:
        """K(x, x) of every row."""

    def subset(self, rows: Ints) -> "KernelMatrix":
        """The matrix of some of the rows, which counts and caches with this one."""


class TiledMatrix(Protocol):
    """A kernel matrix in spatial order (`kernels.spatial.Tiles`)."""

    n_rows: int
    order: Ints

    def block(self, rows: Ints) -> Reals:
        """Values among some rows."""

    def narrow(self, rows: Ints) -> NarrowRows:
        """Some rows, for loops that compute these values."""

    def count(self, values: int) -> None:
        """Count values that such loops have computed."""

    def add(self, rows: Ints, change: Floats, scores: Floats) -> None:
        """Add `K[:, rows] change` to `scores`."""


class WholeMatrix:
    """A kernel matrix in memory, for several problems on the same rows: a `KernelMatrix` without cache or arithmetic.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric; it is referred to.
    evaluations : int, default=0
        What it cost.
    """

    def __init__(self, K: Reals, evaluations: int = 0) -> None:
        self._K, self.evaluations = K, evaluations
        self.n_rows = self.capacity = int(K.shape[0])
        self.dtype = K.dtype

    def block(self, rows: Index, columns: Index | None = None) -> Reals:
        """Values of some rows with some others (None: all)."""
        if isinstance(rows, np.ndarray) and isinstance(columns, np.ndarray):
            columns_of_rows: Reals = self._K[np.ix_(rows, columns)]
            return columns_of_rows
        part: Reals = self._K[rows]
        return part if columns is None else part[:, columns]

    def cached(self, rows: Integers) -> tuple[Reals, Ints]:
        """The matrix, and the places of the rows in it: their numbers."""
        return self._K, rows.astype(np.int64)

    def cache(self) -> tuple[Reals, Ints, int]:
        """The matrix, the places of all rows, and their number."""
        return self._K, np.arange(self.n_rows), self.n_rows

    def add(self, rows: Ints, change: Floats, scores: Floats, columns: Index | None = None) -> None:
        """Add `K[columns, rows] change` to `scores`."""
        if columns is None:
            # All columns are wanted, so nothing of the matrix has to be copied.
            add_rows(self._K, rows.astype(np.int64), change, scores)
        else:
            add_rows(self.block(rows, columns), np.arange(rows.shape[0]), change, scores)

    def diagonal(self) -> Floats:
        """K(x, x) of every row, shape (n,)."""
        return self._K.diagonal().astype(np.float64)

    def subset(self, rows: Ints) -> "WholeMatrix":
        """The matrix of some of the rows, a copy."""
        part = np.empty((rows.shape[0], rows.shape[0]), self.dtype)
        take(self._K, rows, part)
        return WholeMatrix(part, self.evaluations)


class Values(NamedTuple):
    """Primal and dual value, and the largest violation of the optimality conditions."""

    primal: float
    dual: float
    violation: float


@dataclass(frozen=True)
class KernelProblem:
    """A binary kernel SVM.

    Attributes
    ----------
    rows : KernelMatrix
    y : ndarray of shape (n,)
        Labels -1.0 and 1.0.
    upper : ndarray of shape (n,)
        C_i; 0 for a row that is held out (`kernel_svm.stopping`): it has no loss, and its coefficient is 0.
    fit_intercept : bool
        Whether there is an unregularised bias.
    """

    rows: KernelMatrix
    y: Floats
    upper: Floats
    fit_intercept: bool = True

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return int(self.y.shape[0])

    def values(self, coef: Floats, scores: Floats, intercept: float) -> Values:
        """Certificate of a dual point with a bias.

        Parameters
        ----------
        coef : ndarray of shape (n,)
            `y_i a_i` with `0 <= a_i <= C_i`, and sum 0 where there is a bias (else the dual value bounds nothing).
        scores : ndarray of shape (n,)
            `K coef`, without the intercept.
        intercept : float

        Returns
        -------
        Values
        """
        return self.look(coef, scores, intercept)[1]

    def look(self, coef: Floats, scores: Floats, intercept: float | None = None) -> tuple[float, Values]:
        """`values`, and the intercept: without one that in the middle of the two sides of the optimality conditions."""
        if intercept is None:
            intercept = np.nan if self.fit_intercept else 0.0
        # The coefficients hold y_i a_i, so that |w|^2 = coef' K coef needs no labels.
        square = float(coef @ scores)
        loss, intercept, highest, lowest = loss_and_sides(self.y, self.upper, coef, scores, intercept)
        # LIBSVM's measure: with a bias two variables move together, so it is a difference of two gradients.
        violation = highest - lowest if self.fit_intercept else max(highest, -lowest)
        # Both values as in the head of this file.
        return intercept, Values(0.5 * square + loss, float(self.y @ coef) - 0.5 * square, max(0.0, violation))

    def optimal_bias(self, scores: Floats) -> float:
        """The intercept that minimises the primal at given scores (`best_bias`); 0 without a bias."""
        return best_bias(self.y, self.upper, scores) if self.fit_intercept else 0.0

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Least and largest value of every coefficient, shapes (n,); made once, so not to be changed in place."""
        # A positive row has its coefficient in [0, C_i], a negative one in [-C_i, 0].
        signed = self.y * self.upper
        return np.minimum(signed, 0.0), np.maximum(signed, 0.0)

    def feasible(self, start: Floats | None) -> Floats:
        """A copy of `start` within its bounds and, with a bias, of sum 0; zeros for None."""
        if start is None:
            return np.zeros(self.n_rows)
        # A start may come from another C or other weights, and then lies outside of these bounds.
        coef = np.clip(start, *self.bounds).astype(np.float64)
        # A sum of 0 that is off by rounding only is left as it is: the start may be an optimum.
        if self.fit_intercept and abs(float(coef.sum())) > 1e-12 * float(np.abs(coef).sum()):
            balance(coef)
        return coef

    def refuse_bias(self, name: str) -> None:
        """Raise where the problem has an unregularised bias.

        Raises
        ------
        CapabilityError
        """
        if self.fit_intercept:
            raise CapabilityError(
                f"{name} has no unregularised bias; solve with fit_intercept=False (a constant can be added to the "
                "kernel instead), or use solver='smo' or 'dual'."
            )

    def refuse_small_cache(self) -> None:
        """Raise where the cache does not hold the rows of a single step: two, or one without a bias.

        Raises
        ------
        KernelError
        """
        needed = 2 if self.fit_intercept else 1
        if self.rows.capacity < min(needed, self.n_rows):
            raise KernelError(
                f"the cache holds {self.rows.capacity} kernel row and {needed} are needed; raise cache_size."
            )


@dataclass(frozen=True)
class KernelResult:
    """Solution with its certificate.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        `y_i a_i`: `f(x) = sum_i coef_i K(x_i, x) + intercept`.
    primal, dual : float
        Objective of (w, b), and a lower bound of the optimum.
    violation : float
        LIBSVM's stopping measure (largest violation of the optimality conditions), NaN where a solver does not know it.
    n_iter : int
        Steps of the solver's own kind (its docstring says which).
    evaluations : int
        Kernel values computed.
    history : tuple of dict
        Entries with `seconds`, `evaluations`, and what the solver knows at that time.
    indefinite : bool
        Whether the solver met a negative squared norm: the kernel is not positive semi-definite, and `dual` bounds
        nothing.
    scores : ndarray of shape (n,) or None
        `K coef` as the run had it, where its certificate rests on it.
    stale : ndarray of shape (n,) or None
        Bound of what the last steps changed in each of these scores without being added to it; None: nothing.
    """

    coef: Floats
    intercept: float
    primal: float
    dual: float
    violation: float
    status: Status
    n_iter: int
    evaluations: int
    seconds: float
    history: tuple[dict[str, float], ...] = ()
    indefinite: bool = False
    scores: Floats | None = None
    stale: Floats | None = None

    @property
    def gap(self) -> float:
        """`(primal - dual) / |primal|`."""
        return relative_gap(self.primal, self.dual)


KernelSolver = Callable[..., KernelResult]
"""`solve(problem, *, tol=1e-3, start=None, budget=None, ...) -> KernelResult`; `start` is a `coef` to begin from."""


def responses(rows: KernelMatrix, coef: Floats) -> Floats:
    """`K coef` in double precision, shape (n,), by blocks of the rows whose coefficient is not 0."""
    # Only support vectors cost kernel rows; most runs begin without any.
    scores, support = np.zeros(rows.n_rows), np.flatnonzero(coef)
    if support.shape[0]:
        rows.add(support, coef[support], scores)
    return scores


def significantly_negative(number: float, scale: float) -> bool:
    """Whether a curvature or squared norm is negative by more than rounding explains.

    Kernel values in single precision, summed over the rows of a block, are right to about 1e-6 of their `scale`;
    ten times that tells a kernel that is not positive semi-definite from one that is.
    """
    return number < -1e-5 * max(scale, 1e-300)


@kernel
def loss_and_sides(
    y: Floats, upper: Floats, coef: Floats, scores: Floats, intercept: float
) -> tuple[float, float, float, float]:
    """`sum_i C_i max(0, 1 - y_i (s_i + b))`, that b, and the two sides whose distance is the violation.

    These are the largest gradient of a coefficient that may grow, and the smallest one of a coefficient that may
    shrink; infinities where there is none. b is `intercept`, or the middle of the two where that is NaN.
    """
    highest, lowest = -np.inf, np.inf
    for i in range(y.shape[0]):
        a, gradient = y[i] * coef[i], y[i] - scores[i]
        # The coefficient y a of a negative row grows where a shrinks.
        below, above = a < upper[i], a > 0.0
        if below if y[i] > 0.0 else above:
            highest = max(highest, gradient)
        if above if y[i] > 0.0 else below:
            lowest = min(lowest, gradient)
    b = intercept
    if np.isnan(b):
        b = 0.5 * (highest + lowest) if np.isfinite(highest - lowest) else 0.0
    # Every row that is on the wrong side of its margin has a loss, whatever its coefficient is.
    loss = 0.0
    for i in range(y.shape[0]):
        loss += upper[i] * max(0.0, 1.0 - y[i] * (scores[i] + b))
    return loss, b, highest, lowest


@kernel
def gradient_sides(
    y: Floats, scores: Floats, coef: Floats, lower: Floats, upper: Floats, up: Floats, down: Floats
) -> tuple[float, float]:
    """Set `up` to the gradients of coefficients that may grow, else -inf, `down` to those that may shrink, else inf.

    Returns the largest of the first and the smallest of the second.
    """
    highest, lowest = -np.inf, np.inf
    for i in range(y.shape[0]):
        gradient = y[i] - scores[i]
        up[i] = gradient if coef[i] < upper[i] else -np.inf
        down[i] = gradient if coef[i] > lower[i] else np.inf
        highest, lowest = max(highest, up[i]), min(lowest, down[i])
    return highest, lowest


@kernel
def excess_sums(
    y: Floats, scores: Floats, coef: Floats, lower: Floats, upper: Floats, middle: float, size: int, sums: Floats
) -> None:
    """Set `sums[c]` to how far rows `size c` and following are from their conditions, where they may still move."""
    n = y.shape[0]
    for c in range(sums.shape[0]):
        total = 0.0
        for i in range(c * size, min((c + 1) * size, n)):
            ahead = y[i] - scores[i] - middle
            if coef[i] < upper[i]:
                total += max(0.0, ahead)
            if coef[i] > lower[i]:
                total += max(0.0, -ahead)
        sums[c] = total


@array_kernel
def best_bias(y: Floats, upper: Floats, scores: Floats) -> float:
    """The intercept that minimises the primal at given scores; the middle where an interval does; 0 without a loss.

    `sum_i C_i max(0, 1 - y_i (s_i + b))` is convex and piecewise linear in b with kinks at `y_i - s_i`: its slope
    there is the weight of the negative rows below minus that of the positive ones above. It is flat between two
    kinks where no support vector is free, as with classes of equal weight and a small C. LIBSVM takes the middle,
    too.
    """
    n = y.shape[0]
    place, weight = np.empty(n), np.empty(n)
    m, positive = 0, 0.0
    for i in range(n):
        # Rows held out have no loss, and so no kink.
        if upper[i] > 0.0:
            place[m], weight[m] = y[i] - scores[i], upper[i]
            m += 1
            # Left of its kink a positive row has a loss, right of it a negative row has one.
            if y[i] > 0.0:
                positive += upper[i]
    if m == 0:
        return 0.0
    # Sums of weights are rounded: a slope this small, relative to the weight of the class, is 0.
    rounding = max(1e-12, m * 2.0**-52) * positive
    # The slope right of a kink is the weight of the kinks up to it, less that of the positive rows.
    first, total = first_above(place[:m], weight[:m], positive - rounding)
    if total > positive + rounding:
        return first
    last, _ = first_above(place[:m], weight[:m], positive + rounding)  # the slope between the two is 0
    return 0.5 * (first + last)


@kernel
def first_above(place: Floats, weight: Floats, target: float) -> tuple[float, float]:
    """The smallest place such that the weights up to it sum to more than `target`, and their sum.

    The largest place where no sum does. Changes the order of `place` and `weight`: it looks on in one of three parts
    only, as a selection of the median does, where sorting all places would cost more than the rest of a look.
    """
    low, high, before = 0, place.shape[0], 0.0
    found = -np.inf
    while low < high:
        # The median of three is a good guess also where places are sorted already.
        a, b, c = place[low], place[(low + high) // 2], place[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        # Smaller places go before `smaller`, larger ones from `larger` on, equal ones stay between.
        smaller, k, larger = low, low, high
        left, equal = 0.0, 0.0
        while k < larger:
            x, w = place[k], weight[k]
            if x < pivot:
                left += w
                place[k], weight[k] = place[smaller], weight[smaller]
                place[smaller], weight[smaller] = x, w
                smaller += 1
                k += 1
            elif x > pivot:
                larger -= 1
                place[k], weight[k] = place[larger], weight[larger]
                place[larger], weight[larger] = x, w
            else:
                equal += w
                k += 1
        if before + left > target:
            high = smaller
            continue
        before += left + equal
        found = pivot
        if before > target:
            break
        low = larger
    return found, before
