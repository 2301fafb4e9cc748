"""Numbers as bins or thermometers: a 0/1 column for each interval between quantiles, or for each one reached.

A linear model on scaled numbers can only weigh a number; on bins it can follow any shape. scikit-learn's
`KBinsDiscretizer` takes the quantiles of all rows, so a column that is zero in nine rows of ten (capital gains in the
Adult data) keeps hardly any bin for the rest. Here a value that holds more than half of the rows gets a bin of its own
and the quantiles are those of the other rows: a linear SVM on the Adult data errs on 13.3 % of the test rows with 30
such bins a column, 14.3 % with `KBinsDiscretizer`'s, 14.8 % with scaled numbers (C = 0.2).

Thermometers have the same thresholds, but cumulative columns: the weight of a column is the *step* of the shape at its
threshold. A regularised linear model then prefers shapes with few steps; with bins it has to learn every level by
itself.
"""

import itertools
from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from widemargin._typing import ArrayLike, Features, Floats


class _QuantileEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of encoders of numbers by quantiles."""

    has_missing_: npt.NDArray[np.bool_]
    n_features_in_: int

    _stored_arrays: ClassVar[Mapping[str, str]] = {
        "has_missing_": "bool d", "edges_": "each d: increasing *", "thresholds_": "each d: increasing *",
    }  # fmt: skip

    def _learn_edges(self, X: Features, n_bins: int) -> list[Floats]:
        values: Floats = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        self.has_missing_ = np.asarray(np.isnan(values).any(axis=0))
        return [quantile_edges(column[~np.isnan(column)], n_bins) for column in values.T]

    def _checked(self, X: Features) -> Floats:
        check_is_fitted(self)
        values: Floats = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return values

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: NaN is allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class QuantileBins(_QuantileEncoder):
    """One-hot bins between quantiles; a value shared by most rows has its own bin, and so have missing values.

    Parameters
    ----------
    n_bins : int, default=30
        Number of bins with about equally many rows; ties make fewer. More bins follow finer shapes and need more rows.

    Attributes
    ----------
    edges_ : list of ndarray
        Increasing left edges of each column's bins but the first: bin k holds `edges_[j][k - 1] <= x < edges_[j][k]`.
    has_missing_ : ndarray of bool, shape (n_features,)
        Whether the column has a bin for missing values (NaN). Where it has none, a missing value is in no bin.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.0], [0.0], [0.0], [1.0], [2.0], [3.0]])
    >>> bins = QuantileBins(n_bins=3).fit(X)
    >>> bins.get_feature_names_out(["gain"]).tolist()
    ['gain < 1', 'gain in [1, 2)', 'gain in [2, 3)', 'gain >= 3']
    >>> bins.transform([[0.5], [2.5]]).toarray()
    array([[1., 0., 0., 0.],
           [0., 0., 1., 0.]])
    """

    edges_: list[Floats]

    def __init__(self, n_bins: int = 30) -> None:
        self.n_bins = n_bins

    def fit(self, X: Features, y: object = None) -> Self:
        """Find the edges.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where missing.
        y : ignored

        Raises
        ------
        ValueError
            `n_bins` below 2, or an infinite number.
        """
        if self.n_bins < 2:
            raise ValueError(f"n_bins must be at least 2. Got {self.n_bins} instead.")
        self.edges_ = self._learn_edges(X, self.n_bins)
        return self

    def transform(self, X: Features) -> Any:
        """0/1 matrix of the bins, CSR, at most one 1 for each column of X in a row. A frame where `set_output` asks."""
        values = self._checked(X)
        missing = np.isnan(values)
        first, width = np.empty(values.shape, dtype=np.int64), 0
        for j, edges in enumerate(self.edges_):
            bins = np.searchsorted(edges, values[:, j], side="right")
            # The bin of missing values is the last; where there is none, the run below has length 0 for them.
            first[:, j] = width + np.where(missing[:, j], len(edges) + 1, bins)
            width += len(edges) + 1 + int(self.has_missing_[j])
        return dense_for_frames(self, _runs_of_ones((~missing | self.has_missing_).astype(np.int64), first, width))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> npt.NDArray[np.object_]:
        """Names of the bins, such as `age in [30, 35)`."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        result: list[str] = []
        for name, edges, has_missing in zip(names, self.edges_, self.has_missing_, strict=True):
            marks = [f"{edge:g}" for edge in edges]
            between = [f"in [{low}, {high})" for low, high in itertools.pairwise(marks)]
            bins = [f"< {marks[0]}", *between, f">= {marks[-1]}"] if marks else ["known"]
            result += [f"{name} {text}" for text in (*bins, *(["missing"] if has_missing else []))]
        return np.array(result, dtype=object)


class ThermometerEncoder(_QuantileEncoder):
    """Cumulative 0/1 columns `x >= threshold` at quantiles; a value that most rows share adds two at most.

    The thresholds of a column are quantiles of its values. Where one value holds more than half of the rows (capital
    gains: mostly 0), they are quantiles of the other values, and two thresholds fence that value in.

    Parameters
    ----------
    n_thresholds : int, default=30
        Thresholds for each column; ties make fewer, a dominant value adds up to two. More follow finer shapes and need
        more rows.

    Attributes
    ----------
    thresholds_ : list of ndarray
        Increasing thresholds of each column; none for a constant column.
    has_missing_ : ndarray of bool, shape (n_features,)
        Whether the column has an indicator of missing values (NaN). A missing value reaches no threshold.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    QuantileBins : One column for each interval instead.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import ThermometerEncoder
    >>> X = np.array([[18.0], [30.0], [45.0], [60.0]])
    >>> encoder = ThermometerEncoder(n_thresholds=3).fit(X)
    >>> encoder.get_feature_names_out(["age"]).tolist()
    ['age >= 30', 'age >= 45', 'age >= 60']
    >>> encoder.transform([[17.0], [50.0]]).toarray()
    array([[0., 0., 0.],
           [1., 1., 0.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_thresholds": [Interval(Integral, 1, None, closed="left")]
    }

    thresholds_: list[Floats]

    def __init__(self, n_thresholds: int = 30) -> None:
        self.n_thresholds = n_thresholds

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: object = None) -> Self:
        """Find the thresholds.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            NaN where missing.
        y : ignored

        Raises
        ------
        ValueError
            `n_thresholds` below 1, or an infinite number.
        """
        self.thresholds_ = self._learn_edges(X, self.n_thresholds + 1)
        return self

    def transform(self, X: Features) -> Any:
        """0/1 matrix, CSR: in each column's block as many ones as thresholds are reached.

        A data frame where `set_output` asks for one.
        """
        values = self._checked(X)
        reached = np.zeros((values.shape[0], 2 * values.shape[1]), dtype=np.int64)
        first = np.zeros(2 * values.shape[1], dtype=np.int64)
        width = 0
        for j, (column, thresholds) in enumerate(zip(values.T, self.thresholds_, strict=True)):
            missing = np.isnan(column)
            # Two blocks a column: the thresholds, and one 0/1 column for missing values where training had some.
            reached[:, 2 * j] = np.where(missing, 0, np.searchsorted(thresholds, column, side="right"))
            reached[:, 2 * j + 1] = missing & self.has_missing_[j]
            first[2 * j], first[2 * j + 1] = width, width + len(thresholds)
            width += len(thresholds) + int(self.has_missing_[j])
        return dense_for_frames(self, _runs_of_ones(reached, first, width))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> npt.NDArray[np.object_]:
        """Names of the columns, such as `age >= 30`."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        result: list[str] = []
        for name, thresholds, has_missing in zip(names, self.thresholds_, self.has_missing_, strict=True):
            result += [f"{name} >= {threshold:g}" for threshold in thresholds]
            result += [f"{name} missing"] if has_missing else []
        return np.array(result, dtype=object)


def quantile_edges(values: Floats, n_bins: int) -> Floats:
    """Left edges of the bins but the first, for the known values of one column (which may be none).

    A value that more than half of the rows hold lies between two edges of its own; the quantiles are those of the rest.
    """
    if not values.size:
        return np.empty(0)
    distinct, counts = np.unique(values, return_counts=True)
    most = counts.argmax()
    spike: list[float] = []
    rest = np.sort(values)
    if counts[most] > values.size / 2 and distinct.size > 1:
        # A bin of its own: an edge at the spike, and one at the next value above it.
        spike = distinct[most : most + 2].tolist()
        rest = rest[rest != distinct[most]]
    # In sorted order each bin starts at the first of about `rest.size / n_bins` values. No edge is at the least value
    # of all: the bin below it would be empty.
    starts = np.arange(n_bins) * rest.size // n_bins
    edges: Floats = np.unique(np.concatenate([spike, rest[starts]]))
    return np.asarray(edges[edges > distinct[0]])


def dense_for_frames(transformer: BaseEstimator, matrix: sparse.csr_array) -> Any:
    """The matrix, dense where the user asked for a pandas or polars frame, which cannot take sparse rows."""
    return matrix if _get_output_config("transform", transformer)["dense"] == "default" else matrix.toarray()


def _runs_of_ones(length: npt.NDArray[np.int64], first: npt.NDArray[np.int64], width: int) -> sparse.csr_array:
    """CSR matrix of `width` columns whose row i has, for each block k, ones at `first[i, k] ... + length[i, k]`."""
    run = length.ravel()
    ends = np.cumsum(run)
    # The place of each 1 within its run: its place among all ones less that of the first 1 of the run.
    inside = np.arange(ends[-1]) - np.repeat(ends - run, run)
    columns = np.repeat(np.broadcast_to(first, length.shape).ravel(), run) + inside
    starts = np.zeros(length.shape[0] + 1, dtype=np.int64)
    np.cumsum(length.sum(axis=1), out=starts[1:])
    index = np.int32 if ends[-1] < 2**31 else np.int64  # most of scikit-learn takes 32-bit indices only
    parts = (np.ones(len(columns)), columns.astype(index), starts.astype(index))
    return sparse.csr_array(parts, shape=(length.shape[0], width))
