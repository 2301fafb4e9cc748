"""What kernel models say about their data, and a kernel SVM about how training ended."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from widemargin._typing import Floats, Ints
from widemargin.estimators.kernel_svm.kernel_model import CURES, interrupted, named_kernel
from widemargin.estimators.kernel_svm.pairs_fit import Solved
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

_LEAST, _SAMPLE = 10, 5000  # rows that scales are judged by: of fewer they are chance

DOMINANT = 0.99
"""Share of the squared distances that features must have together to drown the others."""

FEW = 10
"""At most every so many-th feature has that share."""

_DISTANCES = "of the squared distances"  # what tells this warning from others

STEEP = 1e4
"""C K(x, x) in the mean (linear: of centred rows) above which a linear or polynomial kernel is slow."""


JUMP = 1000.0
"""Or they are all larger than the others by this factor of squared size, however many they are."""


def warn_of_scales(model: Any, kernel: Kernel, X: Any) -> None:
    """Warn of features whose scales drown the other features.

    On scikit-learn's wine data as they are (a feature with 99.8% of the squared distances) a Gaussian kernel has an
    accuracy of 0.66, on scaled ones 0.98.
    """
    if kernel.name in ("precomputed", "callable") or X.shape[0] < _LEAST:
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


def _drowning(X: Any, variance: Floats) -> Ints:
    """The features that drown the others, the largest first; none where there are none.

    Either a wide gap lies between the sizes of features that have nearly all of the squared distances and all others,
    however many they are, or few have nearly all. The size of a feature counts the rows where it differs from its usual
    value, so a rare flag or word is not small.
    """
    order, enough = np.argsort(-variance, kind="stable"), DOMINANT * variance.sum()
    order = order[variance[order] > 0.0]
    if _jumps(variance, order).any():
        size = np.where(variance > 0.0, _squared_sizes(X, variance), 0.0)
        by_size = np.argsort(-size, kind="stable")[: order.shape[0]]
        jump = _jumps(size, by_size) & (np.cumsum(variance[by_size])[:-1] >= enough)
        if jump.any():
            return by_size[: 1 + int(np.argmax(jump))]
    few = 1 + int(np.searchsorted(np.cumsum(variance[order]), enough))
    return order[: few if order.shape[0] >= 3 and few <= max(1, order.shape[0] // FEW) else 0]


def _jumps(size: Floats, order: Ints) -> npt.NDArray[np.bool_]:
    """After which features of a falling order the sizes jump, shape (features - 1,)."""
    return size[order[:-1]] >= JUMP * size[order[1:]]


def _squared_sizes(X: Any, variance: Floats) -> Floats:
    """Mean squared difference from a column's usual value, over the rows that differ from it, shape (d,)."""
    if sp.issparse(X):
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


def warn_of_steepness(model: Any, kernel: Kernel, X: Any) -> None:
    """Warn of features so large that a linear or polynomial kernel trains long: this is where SVC hangs.

    On scikit-learn's breast-cancer data (mean `K(x, x)` 4.5e5) a linear kernel trains 50 times as long as on scaled
    ones.
    """
    if kernel.name not in ("linear", "poly") or X.shape[0] < 2:
        return
    X = _some_rows(X)
    variance = _variances(X)
    size, C = float(variance.sum()) if kernel.name == "linear" else _polynomial(kernel, X), float(model.C)
    if STEEP < C * size < math.inf:
        order = np.argsort(-variance, kind="stable")
        largest = order[: 1 + int(np.searchsorted(np.cumsum(variance[order]), DOMINANT * variance.sum()))]
        warn(
            f"C K(x, x) is {C * size:.1e} on average, nearly all by {_named(model, largest)}, so training takes long "
            f"and C={C:g} hardly regularises: scale the features (sklearn.preprocessing.StandardScaler), or lower C.",
            KernelWarning,
        )


def warn_of_indefiniteness(model: Any, spectrum: Spectrum | None) -> None:
    """Warn of a kernel that is not positive semi-definite, by its eigenvalues or by what a solver met."""
    if spectrum is not None and spectrum.indefinite:
        found = str(spectrum)
    else:
        found = "a solver met a negative squared norm"
    warn(
        f"the kernel {named_kernel(model.kernel)} is not positive semi-definite on these rows ({found}): the model is "
        "one of several points where LIBSVM's conditions hold, and there is no certificate. Choose other parameters, "
        "or kernel='rbf'.",
        KernelWarning,
    )


def refuse_overflow(X: Any) -> None:
    """Refuse rows whose inner products are not finite.

    Raises
    ------
    DataError
        If a feature is that large.
    """
    values = X.data if sp.issparse(X) else X
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > math.sqrt(float(np.finfo(X.dtype).max) / (4.0 * X.shape[1])):
        raise DataError(f"features as large as {largest:.3g} overflow inner products in {X.dtype}: scale them.")


def _some_rows(X: Any) -> Any:
    return X[:: -(-X.shape[0] // _SAMPLE)]


def _variances(X: Any) -> Floats:
    """Variance of every column, shape (d,)."""
    if sp.issparse(X):
        return np.asarray(mean_variance_axis(X.tocsr(), axis=0)[1], dtype=np.float64)
    return np.asarray(X.var(axis=0, dtype=np.float64))


def _polynomial(kernel: Kernel, X: Any) -> float:
    """Mean of K(x, x) for a polynomial kernel."""
    square = np.asarray(X.multiply(X).sum(axis=1)).ravel() if sp.issparse(X) else (X * X).sum(axis=1)
    with np.errstate(over="ignore"):  # the kernel itself will say so
        return float(np.mean(np.abs(kernel.gamma * square.astype(np.float64) + kernel.coef0) ** kernel.degree))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _named(model: Any, columns: Any) -> str:
    names = getattr(model, "feature_names_in_", None)
    shown = [repr(str(names[c])) if names is not None else str(c) for c in columns[:3].tolist()]
    more = f" and {columns.shape[0] - 3} more" if columns.shape[0] > 3 else ""
    return f"feature{'s' if columns.shape[0] > 1 else ''} {', '.join(shown)}{more}"


LOOSE, EMPTY = 0.5, 0.9
"""Gap of a batch perceptron stopped by rows held out that is told, where its draws are biased, and in any case."""


def _warn_of_bias(solved: Sequence[Solved], fit_intercept: bool) -> None:
    """Warn where rows held out ended a batch perceptron far from what its bound proves."""
    for item in solved:
        result = item.result
        if not isinstance(result, SBPResult) or math.isnan(result.held_out_error):
            continue
        covered = math.ceil(result.covered * (2 if fit_intercept else 1))
        biased = item.chosen.name == "sbp" and item.capacity < covered
        if result.gap > (LOOSE if biased else EMPTY):
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


def conclude(model: Any, solved: Sequence[Solved], budget: Budget) -> None:
    """Warn, or raise after an interrupt, according to how training ended."""
    if interrupted(model, budget):
        return
    if model.status_ == "converged":
        _warn_of_bias(solved, model.fit_intercept)
        return
    if model.max_iter >= 0:
        limit = f"max_iter={model.max_iter}: raise it, or scale the features"
    elif any("max_iter" in Chosen(name, "").options for name in model.solver_.split(", ")):
        limit = f"the solver {model.solver_!r} has a limit of its own: raise max_iter, or use tol=None or solver='auto'"
    else:
        limit = "rounding: use float64 rows, scale the features, or raise tol"
    cure = CURES.get(model.status_, limit)
    found = {"violation": model.violation_, "gap": model.gap_}
    known = " and ".join(f"{name} {value:.1e}" for name, value in found.items() if np.isfinite(value))
    warn(f"stopped after {budget.elapsed:.1f} s{known and f' with {known}'} ({cure}).", MarginConvergenceWarning)
