"""What the ready-made structural SVMs share: parameters of training, the constant column, training itself."""

from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._typing import Floats
from widemargin.estimators.structured.margins import structured_margins
from widemargin.estimators.structured.structural_svm import StructuralSVM
from widemargin.exceptions import DataError
from widemargin.structured.models.base import StructureModel

__all__ = ["LabelSetSVM", "ReadyMadeSVM", "potentials", "with_constant"]


_SHARED = (
    "C", "rescaling", "solver", "tol", "max_iter", "warm_start", "random_state", "on_interrupt", "time_budget",
    "callbacks", "verbose", "n_jobs",
)  # fmt: skip
_RESULTS = (
    "model_", "primal_", "dual_", "gap_", "certified_", "proved_primal_", "proved_gap_", "averaged_",
    "search_", "status_", "n_iter_", "n_oracle_calls_", "n_queries_", "history_", "blocks_", "_origin",
)  # fmt: skip


class ReadyMadeSVM(BaseEstimator):  # type: ignore[misc]
    """A `StructuralSVM` whose model follows from the parameters. Subclasses say which, and translate X and Y."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: StructuralSVM._parameter_constraints[name] for name in _SHARED},
        "fit_intercept": ["boolean"],
    }

    _prove = True
    C: float
    fit_intercept: bool
    warm_start: bool
    _origin: tuple[float, int, int]
    model_: Any
    coef_: Floats
    intercept_: Floats
    theta_: Floats

    @abstractmethod
    def _model(self) -> StructureModel:
        """The model that the parameters describe."""

    def _train(self, X: Any, Y: Any) -> None:
        """Train on rows that have their constant column already."""
        svm = StructuralSVM(self._model(), **{name: getattr(self, name) for name in _SHARED})
        svm._prove = self._prove
        if self.warm_start and hasattr(self, "blocks_"):
            svm.blocks_, svm._origin = self.blocks_, self._origin
        try:
            svm.fit(X, Y)
        finally:  # an interrupt leaves a fitted model
            if hasattr(svm, "coef_"):
                self._adopt(svm)

    def _adopt(self, svm: StructuralSVM) -> None:
        """Set the fitted attributes."""
        for name in set(_RESULTS) & set(vars(svm)):
            setattr(self, name, getattr(svm, name))
        W = svm.coef_
        self.intercept_ = W[-1].copy() if self.fit_intercept else np.zeros(W.shape[1])
        self.coef_ = np.ascontiguousarray((W[:-1] if self.fit_intercept else W).T)
        self.theta_ = svm.theta_


class LabelSetSVM(ClassifierMixin, ReadyMadeSVM):  # type: ignore[misc]
    """A ready-made structural SVM that predicts 0/1 matrices.

    Of scikit-learn's `check_estimator` it fails, on purpose, the checks that give a vector or a column of values other
    than 0 and 1 as y (`tests/estimators/structured/test_multilabel_svc.py` lists them).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReadyMadeSVM._parameter_constraints,
        "offset": [Interval(Real, None, None, closed="neither")],
    }

    offset: float

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any) -> Any:
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
        Y: Any = y.tocsr() if sparse.issparse(y) else np.asarray(y)
        if Y.ndim != 2:
            raise DataError(f"y has {Y.ndim} dimension(s): give a 0/1 matrix, one row per example, a column per label.")
        self.classes_ = np.asarray(getattr(y, "columns", np.arange(Y.shape[1])))
        self._train(with_constant(X) if self.fit_intercept else X, Y)
        return self

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
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

    def decode_certified(self, X: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
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

    def decision_function(self, X: Any) -> Floats:
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
        scores: Floats = self.model_.max_marginals(u, self.theta_)
        return scores

    def _potentials(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return potentials(X, self.coef_, self.intercept_ + self.offset)

    def margins(self, X: Any, y: Any) -> Floats:
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
        Y = y.toarray() if sparse.issparse(y) else np.asarray(y)
        if Y.shape != (X.shape[0], len(self.classes_)):
            raise DataError(f"y has the shape {Y.shape}; give one of {(X.shape[0], len(self.classes_))}.")
        u = potentials(X, self.coef_, self.intercept_)
        examples = ((None, labels, u[i : i + 1]) for i, labels in enumerate(Y))
        return structured_margins(self.model_, examples, self.theta_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags


def with_constant(X: Any) -> Any:
    """Rows with a last column of ones, ndarray or CSR: its weights are intercepts, regularised like the others."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


def potentials(X: Any, coef: Floats, intercept: Floats) -> Floats:
    """`X coef' + intercept`, an ndarray in float64 of shape (rows, S)."""
    u: Floats = np.asarray(safe_sparse_dot(X, coef.T, dense_output=True), dtype=np.float64) + intercept
    return u
