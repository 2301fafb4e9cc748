"""What kernel models say about their data, and a kernel SVM about how training ended."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.sparsefuncs import mean_variance_axis

from widemargin._typing import Floats, Ints, Matrix
from widemargin.estimators._options import CURES, interrupted
from widemargin.estimators.kernel_svm.binary_problems import Solved
from widemargin.estimators.kernel_svm.kernel_model import named_kernel
from widemargin.estimators.kernel_svm.options import KernelOptions
from widemargin.exceptions import DataError, KernelWarning, MarginConvergenceWarning
from widemargin.goals._warn import warn
from widemargin.kernels.functions import Kernel, Spectrum
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.automatic import Chosen
from widemargin.solvers.kernel_svm.batch_perceptron.run import SBPResult

__all__ = [
    "conclude", "refuse_overflow", "warn_of_indefiniteness", "warn_of_scales", "warn_of_steepness",
    "without_scale_warnings",
]  # fmt: skip

_DISTANCES = "of the squared distances"
"""What tells the warning of scales from others."""


@dataclass(frozen=True)
class AdviceOptions:
    """When features are called badly scaled, and a run far from its optimum.

    Attributes
    ----------
    least, sample : int, default=10, 5000
        Rows from which, and at most so many by which, scales are judged: of fewer they are chance.
    dominant : float, default=0.99
        Share of the squared distances that features must have together to drown the others.
    few : int, default=10
        At most every so many-th feature has that share: many features that have it together are the data.
    jump : float, default=1000
        Or they are all larger than the others by this factor of squared size, however many they are.
    steep : float, default=1e4
        C K(x, x) in the mean (linear: of centred rows) above which a linear or polynomial kernel is slow.
    biased_gap, any_gap : float, default=0.5, 0.9
        Gap of a batch perceptron stopped by rows held out that is told, where its draws are biased, and in any case.
    """

    least: int = 10
    sample: int = 5000
    dominant: float = 0.99
    few: int = 10
    jump: float = 1000.0
    steep: float = 1e4
    biased_gap: float = 0.5
    any_gap: float = 0.9


LIMITS = AdviceOptions()
"""The ones in force."""


def warn_of_scales(model: object, kernel: Kernel, X: Matrix) -> None:
    """Warn of features whose scales drown the other features.

    On scikit-learn's wine data as they are (a feature with 99.8% of the squared distances) a Gaussian kernel has an
    accuracy of 0.66, on scaled ones 0.98.
    """
    if kernel.name in ("precomputed", "callable") or X.shape[0] < LIMITS.least:
        return
    X = _some_rows(X)
    variance = _variances(X)
    total, varying = float(variance.sum()), int((variance > 0.0).sum())
    if not (total > 0.0 and np.isfinite(total)):
        return
    largest = _drowning(X, variance)
    count = largest.shape[0]
    if count:
        share = float(variance[largest].sum()) / total
        warn(
            f"{_named(model, largest)} {'makes' if count == 1 else 'make'} {share:.1%} {_DISTANCES} "
            f"between rows: the kernel hardly sees the other {_counted(varying - count, 'feature')}. Scale them "
            "(sklearn.preprocessing.StandardScaler) unless these scales are meant.",
            KernelWarning,
        )


def _drowning(X: Matrix, variance: Floats) -> Ints:
    """The features that drown the others, the largest first; none where there are none.

    Either a wide gap lies between the sizes of features that have nearly all of the squared distances and all others,
    however many they are, or few have nearly all. The size of a feature counts the rows where it differs from its usual
    value, so a rare flag or word is not small.
    """
    order, enough = np.argsort(-variance, kind="stable"), LIMITS.dominant * variance.sum()
    order = order[variance[order] > 0.0]
    if _jumps(variance, order).any():
        size = np.where(variance > 0.0, _squared_sizes(X, variance), 0.0)
        by_size = np.argsort(-size, kind="stable")[: order.shape[0]]
        jump = _jumps(size, by_size) & (np.cumsum(variance[by_size])[:-1] >= enough)
        if jump.any():
            return by_size[: 1 + int(np.argmax(jump))]
    few = 1 + int(np.searchsorted(np.cumsum(variance[order]), enough))
    return order[: few if order.shape[0] >= 3 and few <= max(1, order.shape[0] // LIMITS.few) else 0]


def _jumps(size: Floats, order: Ints) -> npt.NDArray[np.bool_]:
    """After which features of a falling order the sizes jump, shape (features - 1,)."""
    return size[order[:-1]] >= LIMITS.jump * size[order[1:]]


def _squared_sizes(X: Matrix, variance: Floats) -> Floats:
    """Mean squared difference from a column's usual value, over the rows that differ from it, shape (d,)."""
    if not isinstance(X, np.ndarray):
        stored = np.bincount(X.indices, weights=X.data != 0.0, minlength=X.shape[1])
        square = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[1])
        return np.where(2.0 * stored <= X.shape[0], square / np.maximum(stored, 1.0), variance)
    away = X - np.median(X, axis=0)
    return np.asarray((away * away).sum(axis=0, dtype=np.float64) / np.maximum((away != 0.0).sum(axis=0), 1))


@contextmanager
def without_scale_warnings() -> Iterator[None]:
    """Keep `warn_of_scales` silent: the features were looked at before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f".* {_DISTANCES} ", category=KernelWarning)
        yield


def warn_of_steepness(model: Any, kernel: Kernel, X: Matrix) -> None:
    """Warn of features so large that a linear or polynomial kernel trains long: this is where SVC hangs.

    On scikit-learn's breast-cancer data (mean `K(x, x)` 4.5e5) a linear kernel trains 50 times as long as on scaled
    ones.
    """
    if kernel.name not in ("linear", "poly") or X.shape[0] < 2:
        return
    X = _some_rows(X)
    variance = _variances(X)
    size, C = float(variance.sum()) if kernel.name == "linear" else _polynomial(kernel, X), float(model.C)
    if LIMITS.steep < C * size < math.inf:
        order = np.argsort(-variance, kind="stable")
        largest = order[: 1 + int(np.searchsorted(np.cumsum(variance[order]), LIMITS.dominant * variance.sum()))]
        warn(
            f"C K(x, x) is {C * size:.1e} on average, nearly all by {_named(model, largest)}, so training takes long "
            f"and C={C:g} hardly regularises: scale the features (sklearn.preprocessing.StandardScaler), or lower C.",
            KernelWarning,
        )


def warn_of_indefiniteness(model: Any, spectrum: Spectrum | None) -> None:
    """Warn of a kernel that is not positive semi-definite, by its eigenvalues or by what a solver met."""
    proof = "a solver met a negative squared norm"
    if spectrum is not None and spectrum.indefinite:
        proof = str(spectrum)
    warn(
        f"the kernel {named_kernel(model.kernel)} is not positive semi-definite on these rows ({proof}): the model is "
        "one of several points where LIBSVM's conditions hold, and there is no certificate. Choose other parameters, "
        "or kernel='rbf'.",
        KernelWarning,
    )


def refuse_overflow(X: Matrix) -> None:
    """Refuse rows whose inner products are not finite.

    Raises
    ------
    DataError
        If a feature is that large.
    """
    values = X if isinstance(X, np.ndarray) else X.data
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > math.sqrt(float(np.finfo(X.dtype).max) / (4.0 * X.shape[1])):
        raise DataError(f"features as large as {largest:.3g} overflow inner products in {X.dtype}: scale them.")


def _some_rows(X: Matrix) -> Matrix:
    return X[:: -(-X.shape[0] // LIMITS.sample)]


def _variances(X: Matrix) -> Floats:
    """Variance of every column, shape (d,)."""
    if not isinstance(X, np.ndarray):
        return np.asarray(mean_variance_axis(X.tocsr(), axis=0)[1], dtype=np.float64)
    return np.asarray(X.var(axis=0, dtype=np.float64))


def _polynomial(kernel: Kernel, X: Matrix) -> float:
    """Mean of K(x, x) for a polynomial kernel."""
    square = (X * X).sum(axis=1) if isinstance(X, np.ndarray) else np.asarray(X.multiply(X).sum(axis=1)).ravel()
    with np.errstate(over="ignore"):  # the kernel itself will say so
        return float(np.mean(np.abs(kernel.gamma * square.astype(np.float64) + kernel.coef0) ** kernel.degree))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _named(model: object, columns: Ints) -> str:
    names = getattr(model, "feature_names_in_", None)
    shown = [repr(str(names[c])) if names is not None else str(c) for c in columns[:3].tolist()]
    more = f" and {columns.shape[0] - 3} more" if columns.shape[0] > 3 else ""
    return f"feature{'s' if columns.shape[0] > 1 else ''} {', '.join(shown)}{more}"


def _warn_of_bias(solved: Sequence[Solved], fit_intercept: bool) -> None:
    """Warn where rows held out ended a batch perceptron far from what its bound proves."""
    for item in solved:
        result = item.result
        if not isinstance(result, SBPResult) or math.isnan(result.held_out_error):
            continue
        covered = math.ceil(result.covered * (2 if fit_intercept else 1))
        biased = item.chosen.name == "sbp" and item.capacity < covered
        if result.gap > (LIMITS.biased_gap if biased else LIMITS.any_gap):
            why = (
                f"; the cache holds {item.capacity} of about {covered} covered rows" if item.capacity < covered else ""
            )
            bias = ", so the draws are biased" if biased else ""
            other = ", or use solver='sbp-unbiased'" if biased else ", or use solver='auto'"
            warn(
                f"rows held out ended the run with a gap of {result.gap:.0%}{why}{bias}: the objective may be far from "
                f"its optimum. Raise cache_size{other}, or give a tol.",
                MarginConvergenceWarning,
            )
            return


def conclude(model: Any, solved: Sequence[Solved], options: KernelOptions, budget: Budget) -> None:
    """Warn, or raise after an interrupt, according to how training ended."""
    if interrupted(options, budget):
        return
    if model.status_ == "converged":
        _warn_of_bias(solved, options.fit_intercept)
        return
    if model.max_iter >= 0:
        limit = f"max_iter={model.max_iter}: raise it, or scale the features"
    elif any("max_iter" in Chosen(name, "").options for name in model.solver_.split(", ")):
        limit = f"the solver {model.solver_!r} has a limit of its own: raise max_iter, or use tol=None or solver='auto'"
    else:
        limit = "rounding: use float64 rows, scale the features, or raise tol"
    cure = CURES.get(model.status_, limit)
    measures = {"violation": model.violation_, "gap": model.gap_}
    left = " and ".join(f"{name} {value:.1e}" for name, value in measures.items() if np.isfinite(value))
    warn(f"stopped after {budget.elapsed:.1f} s{left and f' with {left}'} ({cure}).", MarginConvergenceWarning)
