"""Stochastic gradient descent in a norm ball (Zhang 2004) as an estimator: `NormBallSVC`."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from widemargin.extending import (
    Column,
    Features,
    Floats,
    checked_rows,
    kinds,
    limit_threads,
    parameters,
    refuse_missing,
    refuse_one_class,
)  # fmt: skip
from widemargin.kernels.functions import Kernel, resolve_kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.problem import KernelProblem
from widemargin_papers.solvers import norm_ball_sgd

__all__ = ["NormBallSVC"]

_KERNELS = ("linear", "poly", "rbf", "laplacian", "sigmoid")


@parameters
class NormBallSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """SVM in its constrained form, by stochastic gradient descent: the paper's baseline beside Pegasos.

    Minimises `sum_i C s_i max(0, 1 - y_i f(x_i))` over `|w| <= radius`, without a bias. The default radius contains the
    solution of the SVM with that C, so the form for C is the special case that `KernelSVC` solves.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses; with a radius it only sets the units of the objective.
    radius : float, default=None
        Largest norm of w. Raising it fits the rows more closely. None: `sqrt(C sum s)`.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid"}, default="rbf"
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width, as in `sklearn.svm.SVC`.
    average : bool, default=True
        Whether the mean of the iterates is kept, else the last one.
    tol : float, default=1e-3
        Relative duality gap in the ball, a loose bound: most runs make all their passes.
    max_iter : int, default=10
        Most passes, of as many draws as there are rows.
    random_state : int, RandomState or None, default=None
        Rows drawn.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
    dual_coef_ : ndarray of shape (1, n_SV)
    gamma_ : float
    gap_ : float
        Relative duality gap in the ball.
    n_iter_ : int
        Draws.
    status_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin_papers.baselines import NormBallSVC
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X**2).sum(axis=1) > 1.4
    >>> NormBallSVC(C=10.0, gamma=0.5, max_iter=30, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    _stored_arrays: ClassVar[Mapping[str, str]] = {
        "classes_": "label 2", "support_vectors_": "float s d", "dual_coef_": "float 1 s",
    }  # fmt: skip
    C: kinds.Positive = field(default=1.0, kw_only=False)
    radius: kinds.NotNegative | None = None
    kernel: Annotated[str, StrOptions(set(_KERNELS))] = "rbf"
    gamma: kinds.Gamma = "scale"
    average: bool = True
    tol: kinds.Positive = 1e-3
    max_iter: kinds.Count = 10
    random_state: kinds.Random = None
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: Column, sample_weight: Column | None = None) -> "NormBallSVC":
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
        y : array-like of shape (n,)
            Two classes.
        sample_weight : array-like of shape (n,), default=None
            Factors of C, >= 0.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a class has no row of positive weight.
        """
        rows, labels = checked_rows(self, X, y)
        check_classification_targets(labels)
        target = type_of_target(labels, input_name="y", raise_unknown=True)
        if target != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {target}.")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        refuse_one_class(self.classes_)
        weight = np.ones(codes.shape[0])
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        refuse_missing(self.classes_, codes[weight > 0.0])
        kernel = resolve_kernel(self.kernel, rows, gamma=self.gamma, sample_weight=weight)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        with limit_threads(self.n_jobs):
            problem = KernelProblem(KernelRows(kernel, rows), np.where(codes == 1, 1.0, -1.0), self.C * weight, False)
            result = norm_ball_sgd.solve(
                problem, tol=self.tol, radius=self.radius, max_iter=self.max_iter, average=self.average, seed=seed
            )
        support = np.flatnonzero(result.coef)
        self.support_vectors_, self.dual_coef_ = rows[support], result.coef[None, support]
        self.gamma_ = kernel.gamma
        self.gap_, self.n_iter_, self.status_ = result.gap, max(1, result.n_iter), str(result.status)
        return self

    def decision_function(self, X: Features) -> Floats:
        """Scores, shape (n,); positive means `classes_[1]`."""
        check_is_fitted(self)
        new = checked_rows(self, X, reset=False)
        if self.dual_coef_.shape[1] == 0:
            return np.zeros(new.shape[0])
        kernel = Kernel(self.kernel, self.gamma_)
        return np.asarray(KernelRows(kernel, self.support_vectors_).products(new, self.dual_coef_[0]))

    def predict(self, X: Features) -> npt.NDArray[np.generic]:
        """Predicted labels, shape (n,)."""
        check_is_fitted(self)
        labels: npt.NDArray[np.generic] = self.classes_[(self.decision_function(X) > 0.0).astype(np.intp)]
        return labels
