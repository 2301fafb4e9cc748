"""From the binary problems of a kernel SVM to its classes: scores of new rows, votes, probabilities.

Probabilities: every binary problem is calibrated on rows held out. One against one the pairs' probabilities are coupled
(T.-F. Wu, C.-J. Lin, R. Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling", JMLR 2004,
second method, which LIBSVM uses too); one against the rest they are scaled to sum 1. Sigmoids of few rows are careful
(Platt's targets), and coupling many careful ones makes them much too careful: with 22 rows of each digit their mean log
loss is 0.34, at an accuracy of 98%. So with more than two classes all rows held out fit one more number, a power of the
probabilities: 0.06.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from widemargin._threads import limit_threads
from widemargin._typing import Floats, Ints, Matrix, Reals
from widemargin.estimators._calibration import calibrated, fit_calibrator
from widemargin.estimators.feature_scales import columns_of_distances
from widemargin.estimators.kernel_svm.binary_problems import Split, kernel_rows, share_in_reach
from widemargin.estimators.kernel_svm.kernel_model import KernelModel
from widemargin.exceptions import DataError
from widemargin.kernels.backend import squared_norms, usable_name
from widemargin.kernels.functions import settled_kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.automatic import DEFAULT_TOL, AutomaticOptions


def dense(dual_coef: Matrix) -> Floats:
    """`dual_coef_` as an array; fits on CSR rows keep it as a CSR matrix."""
    return np.asarray(dual_coef if isinstance(dual_coef, np.ndarray) else dual_coef.toarray())


def pair_scores(parts: Sequence[Floats], intercept: Floats) -> Floats:
    """Scores of all pairs of classes, shape (p, k (k - 1) / 2).

    Parameters
    ----------
    parts : sequence of k ndarrays of shape (p, k - 1)
        For each class the kernel values with its support vectors times their part of `dual_coef_`, transposed.
    intercept : ndarray of shape (k (k - 1) / 2,)
    """
    k = len(parts)
    pairs = [parts[i][:, j - 1] + parts[j][:, i] for i in range(k) for j in range(i + 1, k)]
    return np.column_stack(pairs) + intercept


def coef_of_pairs(coef: Floats, n_support: npt.NDArray[np.int32]) -> sp.csr_matrix:
    """`dual_coef_` one against one as a matrix of shape (n_support_vectors, k (k - 1) / 2), a column for each pair."""
    k = n_support.shape[0]
    number = np.zeros((k, k), dtype=np.int32)
    number[np.triu_indices(k, 1)] = np.arange(k * (k - 1) // 2)
    # The coefficients of a class stand in the order of the other classes.
    others = (number + number.T)[~np.eye(k, dtype=bool)].reshape(k, k - 1)
    n, starts = coef.shape[1], np.arange(0, coef.size + 1, k - 1, dtype=np.int32)
    return sp.csr_matrix((coef.T.ravel(), others.repeat(n_support, axis=0).ravel(), starts), (n, k * (k - 1) // 2))


def one_vs_rest(scores: Floats, n_classes: int) -> Floats:
    """Votes of the pairs, made continuous by their scores as scikit-learn does, shape (p, k)."""
    first, second = np.triu_indices(n_classes, 1)
    sides = np.zeros((first.shape[0], n_classes))
    sides[np.arange(first.shape[0]), first], sides[np.arange(first.shape[0]), second] = 1.0, -1.0
    # A score of 0 is a vote for the first class of its pair.
    won = np.where(scores < 0.0, -1.0, 1.0) @ sides
    sums = scores @ sides
    # Votes less those lost, of k - 1 pairs; within 1/3 of that lies what the sums add.
    return np.asarray(0.5 * (won + (n_classes - 1)) + sums / (3.0 * (np.abs(sums) + 1.0)))


def votes(scores: Floats, n_classes: int) -> Ints:
    """The class that most pairs vote for, the first of those, shape (p,)."""
    first, second = np.triu_indices(n_classes, 1)
    winner = np.where(scores > 0.0, first, second) + n_classes * np.arange(scores.shape[0])[:, None]
    count = np.bincount(winner.ravel(), minlength=scores.shape[0] * n_classes)
    return np.asarray(np.argmax(count.reshape(-1, n_classes), axis=1))


def far_mean(X: Reals) -> Floats | None:
    """The mean of the rows where columns are so far from 0 beside their spread that products lose what parts the rows.

    A linear kernel with a bias may be trained on rows without it: that changes the bias alone.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        far = np.abs(mean) > 1e3 * spread
    return mean if (far & (spread > 0.0)).any() and np.isfinite(mean).all() else None


def centred(vectors: Matrix, fit_intercept: bool) -> Matrix:
    """Dense support vectors without their mean, in double precision, for the weights of a linear kernel.

    With a bias the coefficients of a problem sum to 0, so that the mean takes part in its weights by rounding alone: of
    columns far from 0, such as seconds since 1970, that is more than the weights.
    """
    vectors = vectors.astype(np.float64)
    return vectors - vectors.mean(axis=0) if fit_intercept and isinstance(vectors, np.ndarray) else vectors


def linear_weights(dual_coef: Floats, vectors: Matrix, n_support: npt.NDArray[np.int32]) -> Floats:
    """Weights of the columns for a linear kernel, shape (n_problems, d)."""
    rows, (k1, _) = n_support.shape[0], dual_coef.shape
    if k1 != rows - 1 or rows == 2:
        return np.asarray(dual_coef @ vectors)
    cuts = np.concatenate(([0], np.cumsum(n_support)))
    parts = [dual_coef[:, cuts[c] : cuts[c + 1]] @ vectors[cuts[c] : cuts[c + 1]] for c in range(rows)]
    return np.array([parts[i][j - 1] + parts[j][i] for i in range(rows) for j in range(i + 1, rows)])


def score_blocks(
    model: KernelModel, X: Matrix, *, pairs: bool = False, backend: str = "numpy", numbers: int = 1 << 21
) -> Iterator[tuple[slice, Floats]]:
    """Scores of checked rows by all binary problems, shape (rows, n_problems), and the rows that they belong to.

    One against one (`pairs`), the kernel values of a class's support vectors serve all its problems at once. A model
    without `intercept_` has none. NumPy computes the values where the backend is not to be had. At
    most `numbers` scores are held at a time, 16 MB.
    """
    k, coef = model.classes_.shape[0], dense(model.dual_coef_)
    weights, cuts = [np.ascontiguousarray(coef.T)], [0, coef.shape[1]]
    if pairs and X.shape[0] < KernelRows.few and coef.shape[1] <= 256 * k:
        # For few rows and support vectors calls cost more than values, so that those of all classes are one product.
        weights, pairs = [coef_of_pairs(coef, model.n_support_)], False  # type: ignore[attr-defined]
    elif pairs:
        cuts = [0, *np.cumsum(model.n_support_).tolist()]  # type: ignore[attr-defined]
        weights = np.split(weights[0], cuts[1:-1])
    backend = usable_name(backend)
    parts = [_weigher(model, slice(*place), some, backend) for place, some in zip(pairwise(cuts), weights, strict=True)]
    intercept: Floats = getattr(model, "intercept_", np.zeros(1))
    step = max(1, numbers // (k * k))
    for low in range(0, X.shape[0], step):
        rows = slice(low, min(low + step, X.shape[0]))
        with limit_threads(model.n_jobs):
            sums = [part(X[rows]) for part in parts]
        yield rows, pair_scores(sums, intercept) if pairs else sums[0] + intercept


_SUPPORT_ROWS: "WeakKeyDictionary[KernelModel, tuple[object, dict[tuple[int, int], tuple[object, Products]]]]"
_SUPPORT_ROWS = WeakKeyDictionary()
"""Of each model, packed for products by its first prediction: this takes longer than the scores of a few rows."""


class Products(Protocol):
    """What multiplies kernel values (`KernelRows`, `Tiles`)."""

    def products(self, X: Matrix, coefficients: Matrix) -> Floats:
        """`K(X, rows) @ coefficients`."""


def _weigher(model: KernelModel, place: slice, weights: Matrix, backend: str) -> Callable[[Matrix], Floats]:
    """What gives kernel values of rows with some of the support vectors, times their coefficients.

    The support vectors are packed for it once; nobody can change them any more after that.
    """
    if model.kernel == "precomputed":
        columns = model.support_[place]
        return lambda X: np.asarray(X[:, columns] @ weights, dtype=np.float64)
    if not weights.shape[0]:
        return lambda X: np.zeros((X.shape[0], weights.shape[1]))
    if model.kernel == "linear":
        # Large coefficients of both signs nearly cancel in the weights of the columns, so they are summed in double
        # precision; and these need one product with new rows where support vectors need one each.
        has_bias = bool(getattr(getattr(model, "_options", None), "fit_intercept", False))
        of_columns = dense(weights.T @ centred(model.support_vectors_, has_bias)[place]).T
        return lambda X: np.asarray(X @ of_columns, dtype=np.float64)
    largest, alone = float(abs(weights).sum(axis=0).max()), weights.shape[1] == 1
    vectors, kept = model.support_vectors_, _SUPPORT_ROWS.get(model)
    if kept is None or kept[0] is not vectors:  # what was packed of an earlier fit is given up
        kept = _SUPPORT_ROWS[model] = vectors, {}
    kernel = settled_kernel(model.kernel, gamma=model.gamma_, degree=model.degree, coef0=model.coef0)
    key, settings = (place.start, place.stop), (kernel, largest, backend, alone)
    packed = kept[1].get(key)
    if packed is None or packed[0] != settings:
        # Products store no rows, so none needs to fit the cache. Where rounding could move scores by a few times
        # LIBSVM's tolerance, values of float32 rows are in double precision, too, at twice the time. A value is rounded
        # by as many units as it is large, a Gaussian one by as many as its exponent has of the two norms.
        some, off = vectors[place], largest
        if kernel.name in ("rbf", "poly"):
            square = np.float64(kernel.gamma) * squared_norms(some).max(initial=0.0)
            with np.errstate(over="ignore"):
                off *= 1.0 + square if kernel.name == "rbf" else (square + abs(kernel.coef0)) ** kernel.degree
        rows: Products = kernel_rows(kernel, some, cache_size=1e9, backend=backend, tol=3e-3, largest=off)
        if alone and isinstance(vectors, np.ndarray) and kernel.name == "rbf" and type(rows) is KernelRows:
            most = AutomaticOptions().spatial_share(rows.n_rows, some.shape[1], partial(columns_of_distances, some))
            if most > 0.0 and share_in_reach(rows) <= most:
                # Most values are too small to matter: all that are left out add up to LIBSVM's tolerance at most.
                reach = max(22.0, float(np.log2(largest / DEFAULT_TOL)))
                rows = rows.tiles(np.arange(rows.n_rows), rows.dtype, reach)
        (vectors if isinstance(vectors, np.ndarray) else vectors.data).flags.writeable = False
        packed = kept[1][key] = settings, rows
    products = packed[1].products
    return lambda X: products(X, weights)


def fit_calibrators(method: str, parts: Sequence[Split], scores: Floats, codes: Ints, weight: Floats) -> list[Any]:
    """The calibrator of every binary problem.

    Parameters
    ----------
    method : {"sigmoid", "isotonic"}
    scores : ndarray of shape (n, n_problems)
        Of rows that training did not see.
    codes : ndarray of int, shape (n,)
        Their classes.
    weight : ndarray of shape (n,)

    Raises
    ------
    DataError
        If a class has none of these rows.
    """
    absent = sorted({c for part in parts for c in part if c is not None} - set(codes.tolist()))
    if absent:
        raise DataError(f"calibration held out no row of class number {absent[0]}; it needs at least 5 rows of each.")
    calibrators = []
    for number, part in enumerate(parts):
        rows = slice(None) if part.negative is None else (codes == part.positive) | (codes == part.negative)
        calibrators.append(fit_calibrator(method, scores[rows, number], codes[rows] == part.positive, weight[rows]))
    return calibrators


def probabilities(calibrators: Sequence[Any], parts: Sequence[Split], scores: Floats) -> Floats:
    """Probabilities of all classes, shape (p, k), from the scores of all problems, shape (p, n_problems)."""
    each = np.column_stack([calibrated(model, scores[:, number])[:, 1] for number, model in enumerate(calibrators)])
    if len(parts) == 1:
        return np.column_stack([1.0 - each[:, 0], each[:, 0]])
    if parts[0].negative is not None:
        return coupled(each, parts)
    total = each.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, each / np.where(total > 0.0, total, 1.0), 1.0 / each.shape[1])


def sharpened(table: Floats, power: float) -> Floats:
    """Probabilities of classes raised to a power and scaled to sum 1, shape (p, k)."""
    logarithm = power * np.log(np.maximum(table, 1e-12))
    table = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def sharpness(table: Floats, codes: Ints, weight: Floats) -> float:
    """The power that makes the log loss of rows held out least.

    Of W rows (by weight) each counts `W / (W + 1)` for its own class and the rest evenly for all, as though there were
    one row more, of every class at once: rows that are all classified correctly do not make probabilities of 1.

    Parameters
    ----------
    table : ndarray of shape (n, k)
        Probabilities of rows that training did not see.
    codes : ndarray of int, shape (n,)
        Their classes.
    weight : ndarray of shape (n,)
    """
    (n, k), total = table.shape, float(weight.sum())
    target = np.full((n, k), 1.0 / (k * (total + 1.0)))
    target[np.arange(n), codes] += total / (total + 1.0)
    target *= weight[:, None]

    def loss(u: float) -> float:
        return -float(np.sum(target * np.log(np.maximum(sharpened(table, float(np.exp(u))), 1e-300))))

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 5.0), method="bounded").x))


def coupled(pairs: Floats, parts: Sequence[Split]) -> Floats:
    """Class probabilities p that agree best with those of the pairs.

    Minimises `sum_ij (r_ji p_i - r_ij p_j)^2` subject to `sum p = 1` (Wu, Lin and Weng, equation 21), r_ij being the
    probability of class i among rows of i or j: p is `Q^-1 e`, scaled, with `Q_ii = sum_j r_ji^2`, `Q_ij = -r_ji r_ij`.

    Parameters
    ----------
    pairs : ndarray of shape (p, k (k - 1) / 2)
        Probabilities of the first class of each pair.

    Returns
    -------
    ndarray of shape (p, k)
    """
    k = 1 + max(part.negative or 0 for part in parts)
    r = np.zeros((pairs.shape[0], k, k))
    for number, part in enumerate(parts):
        first = np.clip(pairs[:, number], 1e-7, 1.0 - 1e-7)  # as in LIBSVM
        r[:, part.positive, part.negative] = first
        r[:, part.negative, part.positive] = 1.0 - first
    turned = r.transpose(0, 2, 1)
    Q = -turned * r
    diagonal = np.arange(k)
    Q[:, diagonal, diagonal] = (turned**2).sum(axis=2) + 1e-12  # never singular
    table = np.maximum(np.linalg.solve(Q, np.ones((pairs.shape[0], k, 1)))[..., 0], 0.0)
    return np.asarray(table / table.sum(axis=1, keepdims=True))
