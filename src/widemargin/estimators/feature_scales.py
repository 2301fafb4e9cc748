"""What estimators say of the scales of features: too large, too small, or drowning the others."""

import math
from typing import Any

import numpy as np
from sklearn.utils.sparsefuncs import mean_variance_axis

from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints, Matrix
from widemargin.exceptions import DataError, DoubtfulModelWarning, KernelWarning, warn
from widemargin.kernels.functions import Kernel
from widemargin.solvers.kernel_svm.dual.interior_point import InteriorPointOptions

DISTANCES = "of the squared distances"
"""What tells the warning of scales from others."""


def warn_of_scales(model: object, kernel: Kernel | None, X: Matrix, least: int = 10) -> None:
    """Warn of features whose scales drown the other features, for a kernel or (None) a linear model.

    On scikit-learn's wine data as they are (a feature with 99.8% of the squared distances) a Gaussian kernel has an
    accuracy of 0.66, on scaled ones 0.98. Of fewer than `least` rows scales are chance.
    """
    if X.shape[0] < least or (kernel is not None and kernel.name in ("precomputed", "callable")):
        return
    X, variance = _some_rows(X)
    total = float(variance.sum())
    if not (total > 0.0 and np.isfinite(total)):
        return
    largest = _drowning(X, variance)
    count = largest.shape[0]
    if count:
        share, hidden = float(variance[largest].sum()) / total, np.setdiff1d(np.flatnonzero(variance > 0.0), largest)
        # Where these are the fewer ones, they are what is to be looked at.
        others, which = len(hidden), f" ({_named(model, hidden)})" if len(hidden) < count else ""
        warn(
            f"{_named(model, largest)} {'makes' if count == 1 else 'make'} {share:.1%} {DISTANCES} between rows: the "
            f"{'model' if kernel is None else 'kernel'} hardly sees the other {others} feature{'s' * (others != 1)}"
            f"{which}. "
            "Scale them (sklearn.preprocessing.StandardScaler) unless these scales are meant.",
            DoubtfulModelWarning if kernel is None else KernelWarning,
        )


def columns_of_distances(X: Matrix) -> int:
    """How many columns make 99% of the squared distances between rows: by these it is known which rows are near."""
    return len(_most_of(_some_rows(X)[1]))


def _most_of(variance: Floats, share: float = 0.99) -> Ints:
    """The fewest features that have a share of the squared distances, the largest first."""
    order = np.argsort(-variance, kind="stable")
    return order[: 1 + int(np.searchsorted(np.cumsum(variance[order]), share * variance.sum()))]


def _drowning(X: Matrix, variance: Floats, *, dominant: float = 0.99, jump: float = 1000.0, few: int = 10) -> Ints:
    """The features that drown the others, the largest first; none where there are none.

    Either a wide gap lies between the sizes of features that have nearly all of the squared distances and all others,
    however many they are, or few have nearly all. The size of a feature counts the rows where it differs from its usual
    value, so a rare flag or word is not small.

    Parameters
    ----------
    dominant : float, default=0.99
        Share of the squared distances that features must have together to drown the others.
    jump : float, default=1000
        They are all larger than the others by this factor of squared size.
    few : int, default=10
        Or at most every so many-th feature has that share: many features that have it together are the data.
    """
    order, enough = np.argsort(-variance, kind="stable"), dominant * variance.sum()
    order = order[variance[order] > 0.0]
    if (variance[order[:-1]] >= jump * variance[order[1:]]).any():
        if isinstance(X, np.ndarray):  # mean squared difference from the usual value, over the rows that differ from it
            away = X - np.median(X, axis=0)
            size = (away * away).sum(axis=0, dtype=np.float64) / np.maximum((away != 0.0).sum(axis=0), 1)
        else:
            stored = np.bincount(X.indices, weights=X.data != 0.0, minlength=X.shape[1])
            square = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[1])
            size = np.where(2.0 * stored <= X.shape[0], square / np.maximum(stored, 1.0), variance)
        size = np.where(variance > 0.0, size, 0.0)
        by_size = np.argsort(-size, kind="stable")[: order.shape[0]]
        wide = size[by_size[:-1]] >= jump * size[by_size[1:]]
        wide &= np.cumsum(variance[by_size])[:-1] >= enough
        if wide.any():
            return by_size[: 1 + int(np.argmax(wide))]
    largest = _most_of(variance, dominant)
    return largest if order.shape[0] >= 3 and len(largest) <= max(1, order.shape[0] // few) else order[:0]


def warn_of_steepness(model: Any, kernel: Kernel, X: Matrix, steep: float = 1e4) -> None:
    """Warn of features so large that C hardly regularises a linear or polynomial kernel: this is where SVC hangs.

    That is where C K(x, x) (linear: of centred rows) is above `steep` in the mean. Steps along pairs take long there; a
    linear kernel on no more columns than rows is solved without them.
    """
    if kernel.name not in ("linear", "poly") or X.shape[0] < 2:
        return
    X, variance = _some_rows(X)
    size, C = float(variance.sum()), float(model.C)
    if kernel.name == "poly":  # mean of K(x, x)
        square = (X * X).sum(axis=1) if isinstance(X, np.ndarray) else np.asarray(X.multiply(X).sum(axis=1)).ravel()
        with np.errstate(over="ignore"):  # the kernel itself will say so
            values = np.abs(kernel.gamma * square.astype(np.float64) + kernel.coef0) ** kernel.degree
            size = float(np.mean(values))
    if steep < C * size < math.inf:
        largest = _most_of(variance)
        by_features = model.solver in ("auto", "interior-point") and InteriorPointOptions().suit(*X.shape)
        soon = kernel.name == "linear" and by_features
        warn(
            f"C K(x, x) is {C * size:.1e} on average, nearly all by {_named(model, largest)}, so "
            f"{'' if soon else 'training takes long and '}C={C:g} hardly regularises: scale the features "
            "(sklearn.preprocessing.StandardScaler), or lower C.",
            KernelWarning,
        )


def warn_of_tiny_features(
    model: object, X: Matrix, C: float, weight: Floats | None = None, *, reach: float = 1.0, small: float = 0.05,
    tiny: float = 1e-3,
) -> None:  # fmt: skip
    """Warn of features, or of weights of rows, so small that a linear model with this C can use no feature.

    The coefficients are at most `C sum |x_i|`, so a score moves by no more than `C n var(x)`; where rows have weights,
    their sum takes the place of n. Values are looked at, too, because a rare word of ordinary size is left out for a
    good reason.

    Parameters
    ----------
    reach : float, default=1
        All features together move scores by less: no row comes near the margin, and the model is as good as constant.
        A model whose threshold is searched afterwards needs far less.
    small, tiny : float
        Largest values (less the mean) of all features, and of a single one, that count as scaled down. A single one
        is named where it can also move scores by no more than a hundredth, and a ten thousandth of the best one.
    """
    n_rows = X.shape[0]
    if n_rows < 2:
        return
    X, variance = _some_rows(X)
    if isinstance(X, np.ndarray):
        mean = X.mean(axis=0)
        largest = np.maximum(X.max(axis=0) - mean, mean - X.min(axis=0))
    else:
        largest = np.asarray(abs(X).max(axis=0).todense()).ravel()
    moves, varying = C * n_rows * variance, variance > 0.0
    total = n_rows if weight is None else float(weight.sum())
    # Weights that sum to 1 are a habit, and leave a model of few features just above the bound nearly constant, too.
    if total < 0.1 * n_rows and C * total * variance.sum() < 10.0 * reach <= moves.sum():
        warn(
            f"sample_weight sums to {total:.3g} for {n_rows} rows, and C={C:g} counts by that sum: the model can "
            "hardly use its features and is nearly constant. Multiply the weights so that their mean is 1, or raise C.",
            DoubtfulModelWarning,
        )
        return
    every = bool(varying.any()) and moves.sum() < reach and largest.max() < small
    single = (moves < min(1e-2, 1e-4 * float(moves.max(initial=0.0)))) & (largest < tiny)
    weak = np.flatnonzero(varying & (every | single))
    if len(weak):
        size, one = float(largest[weak].max()), len(weak) == 1
        unused = f"the model cannot use {'it' if one else 'them'} and is nearly constant"
        warn(
            f"{_named(model, weak)} {'is' if one else 'are'} at most {size:.1e} away from the mean: with C={C:g} "
            f"{unused if every else 'it can hardly count' if one else 'they can hardly count'}. "
            "Scale the features (sklearn.preprocessing.StandardScaler), or raise C.",
            DoubtfulModelWarning,
        )


def refuse_overflow(X: Matrix) -> None:
    """Refuse rows whose inner products are not finite.

    Raises
    ------
    DataError
        If a feature is that large.
    """
    values = X if isinstance(X, np.ndarray) else X.data

    def part(first: int, last: int) -> float:
        some = values[first:last]
        return float(max(some.max(initial=0.0), -some.min(initial=0.0)))

    least = (1 << 20) // max(1, values.size // max(1, values.shape[0]))
    largest = max(in_threads(values.shape[0], least, part))
    if largest > math.sqrt(float(np.finfo(X.dtype).max) / (4.0 * X.shape[1])):
        raise DataError(f"features as large as {largest:.3g} overflow inner products in {X.dtype}: scale them.")


def _some_rows(X: Matrix, most: int = 5000) -> tuple[Matrix, Floats]:
    """At most so many rows, by which scales are judged, and the variance of every column, shape (d,)."""
    X = X[:: -(-X.shape[0] // most)]
    if isinstance(X, np.ndarray):

        def part(first: int, last: int) -> Floats:
            some = X[:, first:last]
            with np.errstate(over="ignore"):  # squares beyond double precision: an infinite variance is not tiny
                variance = np.asarray(some.var(axis=0, dtype=np.float64))
                doubtful = np.flatnonzero(variance <= 1e-20 * np.square(some[0], dtype=np.float64))
            # The mean of equal numbers is off by rounding, and a constant column is no column that is scaled down.
            equal = some[:, doubtful].min(axis=0) == some[:, doubtful].max(axis=0)
            variance[doubtful[equal]] = 0.0
            return variance

        return X, np.concatenate(in_threads(X.shape[1], (1 << 18) // max(1, X.shape[0]), part))
    return X, np.asarray(mean_variance_axis(X.tocsr(), axis=0)[1], dtype=np.float64)


def _named(model: object, columns: Ints) -> str:
    names = getattr(model, "feature_names_in_", None)
    shown = [repr(str(names[c])) if names is not None else str(c) for c in columns[:3].tolist()]
    more = f" and {columns.shape[0] - 3} more" if columns.shape[0] > 3 else ""
    return f"feature{'s' if columns.shape[0] > 1 else ''} {', '.join(shown)}{more}"
