"""Numbers as thermometers: one 0/1 column for each threshold that a value reaches.

The same thresholds as `QuantileBins` has edges, but cumulative: the weight of a column is the *step* of the shape at
its threshold. A regularised linear model then prefers shapes with few steps, where bins make it learn every level by
itself.
"""

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from widemargin._typing import Features, Floats
from widemargin.preprocessing.bins import dense_for_frames, quantile_edges

__all__ = ["ThermometerEncoder"]


class ThermometerEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cumulative 0/1 columns `x >= threshold` at quantiles; a value shared by most rows does not use them up.

    The thresholds of a column are quantiles of its values. Where one value holds more than half of the rows (capital
    gains: mostly 0), they are quantiles of the other values, and two thresholds fence that value in.

    Parameters
    ----------
    n_thresholds : int, default=30
        Thresholds a column; ties make fewer, a dominant value adds up to two. More follow finer shapes and need more
        rows.

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
    has_missing_: npt.NDArray[np.bool_]
    n_features_in_: int

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
        values: Floats = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        self.has_missing_ = np.asarray(np.isnan(values).any(axis=0))
        self.thresholds_ = [quantile_edges(column[~np.isnan(column)], self.n_thresholds + 1) for column in values.T]
        return self

    def transform(self, X: Features) -> Any:
        """0/1 matrix, CSR: in each column's block as many ones as thresholds are reached.

        A data frame where `set_output` asks for one.
        """
        check_is_fitted(self)
        values: Floats = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
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

    def get_feature_names_out(self, input_features: npt.ArrayLike | None = None) -> npt.NDArray[np.object_]:
        """Names of the columns, such as `age >= 30`."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        result: list[str] = []
        for name, thresholds, has_missing in zip(names, self.thresholds_, self.has_missing_, strict=True):
            result += [f"{name} >= {threshold:g}" for threshold in thresholds]
            result += [f"{name} missing"] if has_missing else []
        return np.array(result, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: NaN is allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _runs_of_ones(length: npt.NDArray[np.int64], first: npt.NDArray[np.int64], width: int) -> sparse.csr_array:
    """CSR matrix of `width` columns whose row i has, for each block k, ones at `first[k] ... + length[i, k]`."""
    run = length.ravel()
    ends = np.cumsum(run)
    inside = np.arange(ends[-1]) - np.repeat(ends - run, run)
    columns = np.repeat(np.tile(first, length.shape[0]), run) + inside
    starts = np.zeros(length.shape[0] + 1, dtype=np.int64)
    np.cumsum(length.sum(axis=1), out=starts[1:])
    index = np.int32 if ends[-1] < 2**31 else np.int64  # most of scikit-learn takes 32-bit indices only
    parts = (np.ones(len(columns)), columns.astype(index), starts.astype(index))
    return sparse.csr_array(parts, shape=(length.shape[0], width))
