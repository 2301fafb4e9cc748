"""What the ready-made structural SVMs share: the constant column, and what predicts 0/1 matrices."""

from abc import abstractmethod
from numbers import Real
from typing import ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._typing import Bools, Features, Floats, Ints, Matrix
from widemargin.estimators.structured.training import StructuralEstimator
from widemargin.exceptions import DataError
from widemargin.structured.model import Weights
from widemargin.structured.models.base import LabelSetModel, StructureModel

__all__ = ["LabelSetSVM", "ReadyMadeSVM", "potentials", "with_constant"]


class ReadyMadeSVM(StructuralEstimator):
    """A structural SVM whose model follows from the parameters, and whose rows may get a constant column."""

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **StructuralEstimator._parameter_constraints,
        "fit_intercept": ["boolean"],
    }

    fit_intercept: bool
    intercept_: Floats
    model_: StructureModel

    @abstractmethod
    def _model(self) -> StructureModel:
        """The model that the parameters describe."""

    def _set_weights(self, weights: Weights) -> None:
        """Weights of the constant column, which is the last one, are intercepts."""
        W = weights.W
        self.intercept_ = W[-1].copy() if self.fit_intercept else np.zeros(W.shape[1])
        self.coef_ = np.ascontiguousarray((W[:-1] if self.fit_intercept else W).T)
        self.theta_ = weights.theta


class LabelSetSVM(ClassifierMixin, ReadyMadeSVM):  # type: ignore[misc]
    """A ready-made structural SVM that predicts 0/1 matrices.

    Of scikit-learn's `check_estimator` it fails, on purpose, the checks that give a vector or a column of values other
    than 0 and 1 as y (`tests/estimators/structured/test_multilabel_svc.py` lists them).
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **ReadyMadeSVM._parameter_constraints,
        "offset": [Interval(Real, None, None, closed="neither")],
    }

    offset: float
    model_: LabelSetModel

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: Features) -> Self:
        """Train on labelled examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like or sparse matrix of shape (n, k)
            0 or 1. Column names are kept, where it has some.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If y is no 0/1 matrix, or does not fit the parameters.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None: give labels.")
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        Y = sparse.csr_matrix(y) if sparse.issparse(y) else np.asarray(y)
        if Y.ndim != 2:
            raise DataError(f"y has {Y.ndim} dimension(s): give a 0/1 matrix, one row per example, a column per label.")
        self._check_labels(y)
        self.classes_ = np.asarray(getattr(y, "columns", np.arange(Y.shape[1])))
        self._train(self._model(), with_constant(X) if self.fit_intercept else X, Y)
        return self

    def _check_labels(self, y: Features) -> None:
        """Refuse labels that do not fit the parameters."""

    def predict(self, X: Features) -> Ints:
        """The label set of largest score of every example.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k)
            0 or 1.
        """
        return self.decode_certified(X)[0]

    def decode_certified(self, X: Features) -> tuple[Ints, Bools]:
        """The predictions, and which of them are proved to have the largest score of all label sets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        labels : ndarray of shape (n, k)
        proved : ndarray of bool of shape (n,)
            All True where the argmax is exact.
        """
        u = self._potentials(X)
        sets, proved = np.empty(u.shape, dtype=np.int64), np.empty(u.shape[0], dtype=bool)
        for i in range(u.shape[0]):
            sets[i], proved[i] = self.model_.decode_certified(u[i : i + 1], self.theta_)
        return sets, proved

    def decision_function(self, X: Features) -> Floats:
        """How much every label is wanted: the best score with it on, minus the best score with it off.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k)
            Positive where `predict` has the label, up to ties. Where the argmax is local search, the other labels are
            kept as predicted.
        """
        u = self._potentials(X)
        return self.model_.max_marginals(u, self.theta_)

    def _potentials(self, X: Features) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return potentials(X, self.coef_, self.intercept_ + self.offset)

    def margins(self, X: Features, y: Features) -> Floats:
        """Scores of the labels given minus the largest scores of any others (of positive loss), for `margin_report`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like or sparse matrix of shape (n, k)

        Returns
        -------
        ndarray of shape (n,)
            Positive where the prediction is right.

        Raises
        ------
        CapabilityError
            If the oracle does not answer "levels".
        DataError
            If the labels do not fit.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        Y = sparse.csr_matrix(y).toarray() if sparse.issparse(y) else np.asarray(y)
        if Y.shape != (X.shape[0], len(self.classes_)):
            raise DataError(f"y has the shape {Y.shape}; give one of {(X.shape[0], len(self.classes_))}.")
        u = potentials(X, self.coef_, self.intercept_)
        return self._margins((None, labels, u[i : i + 1]) for i, labels in enumerate(Y))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags


def with_constant(X: Matrix) -> Matrix:
    """Rows with a last column of ones, ndarray or CSR: its weights are intercepts, regularised like the others."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


def potentials(X: Matrix, coef: Floats, intercept: Floats) -> Floats:
    """`X coef' + intercept`, an ndarray in float64 of shape (rows, S)."""
    u: Floats = np.asarray(safe_sparse_dot(X, coef.T, dense_output=True), dtype=np.float64) + intercept
    return u
