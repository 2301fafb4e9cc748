"""Kernel functions by name, as in `sklearn.svm.SVC`, and the Laplacian; whether they are positive semi-definite.

| name | K(x, y) |
|---|---|
| linear | `<x, y>` |
| poly | `(gamma <x, y> + coef0)^degree` |
| rbf | `exp(-gamma |x - y|_2^2)` |
| laplacian | `exp(-gamma |x - y|_1)` |
| sigmoid | `tanh(gamma <x, y> + coef0)`, which is not positive semi-definite for many parameters |
| a function | `function(X, Y)` returns the matrix of all pairs |
| precomputed | X itself holds the values |

Definiteness is judged by the eigenvalues of the kernel matrix of some of the rows. No eigenvalue of a part of a
symmetric matrix is below the least one of the whole: one that is negative beyond rounding proves that the kernel is not
positive semi-definite. The converse does not hold; solvers that meet a negative squared norm later say so.

Gaussian values are finished by compiled loops, from inner products to `exp(-gamma |x - y|^2)` in one pass. NumPy needs
six passes: 1.06 ns an entry in float32 against 0.34 here (one core).
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp

from widemargin._numba import kernel
from widemargin._typing import Floats, Index, Ints, Matrix, Reals
from widemargin.exceptions import DataError, KernelError
from widemargin.linalg.cholesky import turned_apart
from widemargin.linalg.powers import LOG2_E, power_of_two

__all__ = [
    "FEATURE_MAPS", "KERNELS", "Kernel", "KernelFunction", "Spectrum", "check_precomputed", "finish_gaussian",
    "gaussian", "refuse_indefinite", "resolve_kernel", "sampled_spectrum", "settled_kernel",
]  # fmt: skip

KERNELS = ("linear", "poly", "rbf", "laplacian", "sigmoid", "precomputed")
"""The names."""

FEATURE_MAPS = ("fourier", "nystroem")
"""Of the explicit features that approximate a kernel (`make_feature_map`)."""

KernelFunction: TypeAlias = Callable[[Any, Any], Any]
"""A user's kernel: `function(X, Y)` returns the values of all pairs of rows."""


@dataclass(frozen=True)
class Kernel:
    """A kernel function with all its parameters settled.

    Attributes
    ----------
    name : str
        One of `KERNELS`, or "callable".
    gamma, degree, coef0 : float
        As in the table above; unused ones are kept as given.
    function : callable or None
        `function(X, Y) -> array of shape (len(X), len(Y))`.
    """

    name: str
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0
    function: KernelFunction | None = None

    @property
    def unit_diagonal(self) -> bool:
        """Whether K(x, x) = 1 for every x, without computing it."""
        return self.name in ("rbf", "laplacian")

    @property
    def of_products(self) -> bool:
        """Whether K(x, z) is a function of the inner product alone."""
        return self.name in ("linear", "poly", "sigmoid")

    @property
    def positive(self) -> bool:
        """Whether the kernel is known to be positive semi-definite, whatever the rows are."""
        if self.name == "poly":
            return self.gamma > 0.0 and self.coef0 >= 0.0 and float(self.degree).is_integer()
        return self.name in ("linear", "rbf", "laplacian")

    def called(self, X: Matrix, Y: Matrix) -> Reals:
        """What the user's function returns for two sets of rows, checked.

        Raises
        ------
        KernelError
            If the shape is wrong or a value is not finite.
        """
        assert self.function is not None
        values = self.function(X, Y)
        values = np.asarray(values.toarray() if sp.issparse(values) else values)
        if values.shape != (X.shape[0], Y.shape[0]):
            raise KernelError(
                f"the kernel function returned shape {values.shape} for {X.shape[0]} and {Y.shape[0]} rows; "
                f"it must return ({X.shape[0]}, {Y.shape[0]}), one value for every pair."
            )
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise KernelError(
                "the kernel function returned values that are not finite numbers; check it on these rows."
            )
        return values


def resolve_kernel(
    kernel: str | KernelFunction,
    X: Matrix,
    *,
    gamma: str | float = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    sample_weight: Floats | None = None,
) -> Kernel:
    """A kernel with its parameters settled on training rows, as `sklearn.svm.SVC` does.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    gamma : {"scale", "auto"} or float, default="scale"
        "scale": `1 / (d Var(X))`; "auto": `1 / d`.
    sample_weight : ndarray of shape (n,), optional
        Weights of the rows in the variance: a row of weight 2 counts as two.

    Raises
    ------
    KernelError
        If the name is unknown, or a parameter is out of range.
    """
    if callable(kernel):
        return Kernel("callable", function=kernel)
    if kernel not in KERNELS:
        raise KernelError(f"kernel {kernel!r} is unknown; use one of {', '.join(map(repr, KERNELS))} or a function.")
    # A negative power has a pole where the inner product is 0.
    if not (degree >= 0 and math.isfinite(degree)):
        raise KernelError(f"degree={degree!r} must be a number >= 0.")
    if not math.isfinite(coef0):
        raise KernelError(f"coef0={coef0!r} must be finite.")
    value = _gamma(gamma, X, sample_weight) if kernel in ("poly", "rbf", "laplacian", "sigmoid") else 1.0
    return Kernel(str(kernel), value, degree, coef0)  # a grid gives NumPy's texts, whose `repr` says so


def settled_kernel(kernel: str | KernelFunction, *, gamma: float, degree: float = 3, coef0: float = 0.0) -> Kernel:
    """The kernel of a fitted model, whose gamma is a number."""
    if callable(kernel):
        return Kernel("callable", function=kernel)
    return Kernel(kernel, gamma, degree, coef0)


def check_precomputed(
    K: Matrix, *, square: bool = True, n_columns: int | None = None, values: bool = True
) -> Reals:  # fmt: skip
    """A dense matrix of kernel values; without `values` only its shape is looked at.

    Raises
    ------
    KernelError
        If a value is not finite; where `square`, if it is not square, or not symmetric to about the precision of its
        numbers.
    DataError
        If it has another number of columns than `n_columns`.
    """
    K = np.asarray(K) if isinstance(K, np.ndarray) else K.toarray()
    if n_columns is not None and K.shape[1] != n_columns:
        raise DataError(
            f"a precomputed kernel of {K.shape[1]} columns was given and there are {n_columns} training rows; "
            "it must hold the values with all of them."
        )
    if square and K.shape[0] != K.shape[1]:
        raise KernelError(f"a precomputed kernel must be square for training; its shape is {K.shape}.")
    if not values:
        return K
    if square:
        # Most are finite and symmetric, which a short pass shows to six digits. Two entries that differ by d differ by
        # at least d in a product with weights of size 1 to 2, and several such differences would have to cancel to a
        # hundredth of what is allowed.
        rng, turned = np.random.default_rng(0), np.empty(K.shape[0])
        turned_apart(K, rng.uniform(1.0, 2.0, K.shape[0]) * rng.choice((-1.0, 1.0), K.shape[0]), turned)
        if np.abs(turned).max(initial=0.0) <= 1e-6 * float(np.abs(K.diagonal()).max(initial=0.0)):
            return K
    if not np.isfinite(K).all():
        raise KernelError("the precomputed kernel holds values that are not finite; check the rows they come from.")
    if square:
        # In double precision, so that a kernel in float32 is not called unsymmetric for the rounding of a difference.
        places = (slice(low, low + 256) for low in range(0, K.shape[0], 256))
        apart = max((float(np.abs(K[some] - K[:, some].T.astype(np.float64)).max()) for some in places), default=0.0)
        # Matrices computed in float32 are symmetric to about their seventh digit.
        if apart > 1e-4 * max(float(K.max(initial=0.0)), -float(K.min(initial=0.0)), 1e-300):
            raise KernelError(f"the precomputed kernel is not symmetric: entries differ by up to {apart:.2g}.")
    return K


def _gamma(gamma: str | float, X: Matrix, weight: Floats | None) -> float:
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise KernelError(f"gamma={gamma!r} is unknown; use 'scale', 'auto' or a number > 0.")
        # Variance of all entries, those that a sparse matrix does not store included.
        if gamma == "auto":
            variance = 1.0
        elif not isinstance(X, np.ndarray):
            share = np.full(X.shape[0], 1.0 / X.shape[0]) if weight is None else weight / weight.sum()
            sums = (np.asarray(power.sum(axis=1, dtype=np.float64)).ravel() for power in (X, X.multiply(X)))
            mean, square = (float(share @ part) / X.shape[1] for part in sums)
            # Var = E[x^2] - E[x]^2; rounding may make it negative where all entries are equal.
            variance = max(float(square - mean * mean), 0.0)
        elif weight is None or (weight == weight[0]).all():
            variance = float(np.var(X, dtype=np.float64))
        else:
            mean = np.average(X.mean(axis=1, dtype=np.float64), weights=weight)
            variance = float(np.average(np.mean((X - mean) ** 2, axis=1, dtype=np.float64), weights=weight))
        return float(1.0 / X.shape[1] / variance) if variance > 0.0 else 1.0
    if not (gamma > 0.0 and math.isfinite(gamma)):
        raise KernelError(f"gamma={gamma!r} must be a finite number > 0, 'scale' or 'auto'.")
    return float(gamma)


class _Rows(Protocol):
    kernel: Kernel
    n_rows: int

    def block(self, rows: Index, columns: Index | None = None) -> Reals: ...


_ROUNDING = float(np.finfo(np.float32).eps)


class Spectrum(NamedTuple):
    """The ends of the eigenvalues of a kernel matrix.

    Attributes
    ----------
    n_rows : int
        Rows of the matrix.
    """

    least: float
    largest: float
    n_rows: int

    @property
    def indefinite(self) -> bool:
        """Whether the least eigenvalue is negative by more than values in single precision, which many are, explain."""
        # Rounding of n numbers moves an eigenvalue by about n times the precision.
        return self.least < -self.n_rows * _ROUNDING * max(abs(self.least), abs(self.largest))

    def __str__(self) -> str:
        return f"eigenvalues from {self.least:.2g} to {self.largest:.2g} on {self.n_rows} of them"


def sampled_spectrum(rows: _Rows) -> Spectrum | None:
    """Eigenvalues on at most 256 rows, always the same ones, where one of them is negative; else None.

    No value is looked at where the kernel is known (`Kernel.positive`).

    Parameters
    ----------
    rows : KernelRows
        The values are counted in its `evaluations`.
    """
    if rows.kernel.positive or rows.n_rows == 0:
        return None
    # No eigenvalue of a part lies below the least one of the whole, so some rows can prove it, and often few do: the
    # eigenvalues of 256 take some milliseconds, those of 64 a quarter of one.
    n = rows.n_rows
    most = min(n, 256)
    if rows.kernel.name == "callable":  # it may be slow: no more than a quarter of its values
        most = min(most, max(64, n // 4))
    # The same rows each time, so that a fit and its repetition say the same.
    chosen = np.random.default_rng(0).choice(n, most, replace=False)
    found = None
    for count in sorted({min(most, 64), most}):
        found = found or _spectrum_of(rows, np.sort(chosen[:count]))
    return found


def _spectrum_of(rows: _Rows, some: Ints) -> Spectrum | None:
    """Eigenvalues on some rows where one is negative; else None."""
    values, count = rows.block(some, some).astype(np.float64), some.shape[0]
    # Rounding may leave it a little asymmetric, and only one triangle would be read.
    values = 0.5 * (values + values.T)
    # A factorisation takes a tenth of the time of eigenvalues. It exists only where none is below what is added, and
    # no eigenvalue is as large as the largest one but that on the diagonal, at least.
    with suppress(np.linalg.LinAlgError):
        np.linalg.cholesky(values + count * _ROUNDING * max(float(values.diagonal().max()), 0.0) * np.eye(count))
        return None
    eigenvalues = np.linalg.eigvalsh(values)
    found = Spectrum(float(eigenvalues[0]), float(eigenvalues[-1]), count)
    return found if found.indefinite else None


def refuse_indefinite(spectrum: Spectrum | None) -> None:
    """Refuse a kernel for methods that need squared norms, by its `sampled_spectrum`.

    Raises
    ------
    KernelError
        If it is not positive semi-definite.
    """
    if spectrum is not None:
        raise KernelError(
            f"the kernel is not positive semi-definite on these rows ({spectrum}), and this method needs it to be. "
            "Use another kernel (rbf, laplacian, linear, or poly with coef0 >= 0), or other parameters."
        )


@kernel
def finish_gaussian(out: Reals, left: np.floating[Any], right: Reals, scale: np.floating[Any]) -> None:
    """Replace inner products of a row by `2^(scale |x - y|^2)`; `left` and `right` are the squared norms.

    Rounding can make the distance of equal rows negative, so it is cut at 0.
    """
    zero, two = np.float32(0.0), np.float32(2.0)
    for j in range(out.shape[0]):
        out[j] = power_of_two(scale * max(zero, left + right[j] - two * out[j]))


@kernel
def gaussian(block: Reals, left: Reals, right: Reals, gamma: float) -> None:
    """`finish_gaussian` of a block: replace inner products by the kernel `exp(-gamma |x - y|^2)`, all of one type."""
    scale = block.dtype.type(-gamma * LOG2_E)
    for i in range(block.shape[0]):
        finish_gaussian(block[i], left[i], right, scale)
