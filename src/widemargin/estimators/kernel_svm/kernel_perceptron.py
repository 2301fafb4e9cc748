"""The kernel Perceptron, the simplest of the kernel classifiers: `KernelPerceptron`."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from widemargin._threads import limit_threads
from widemargin._typing import Column, Features, Floats
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import CURES, budget_of, interrupted, parameters, worst
from widemargin.estimators.kernel_svm.kernel_model import KernelModel, KernelParameters, labels_of
from widemargin.estimators.kernel_svm.multiclass import score_blocks
from widemargin.exceptions import MarginConvergenceWarning, warn
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm import perceptron
from widemargin.solvers.kernel_svm.problem import KernelProblem


@parameters
class KernelPerceptron(KernelParameters, KernelModel, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel Perceptron: rows that the model so far gets wrong become support vectors.

    Each mistake costs one row of the kernel matrix. One pass with the average of its models has a guarantee
    (Cesa-Bianchi, Conconi and Gentile 2001). More passes fit the training rows more closely, and may overfit. For a
    large margin use `KernelSVC`. With more than two classes each is learned against the rest. There is no bias: add a
    column of ones if the kernel has no constant (as a linear one).

    Parameters
    ----------
    kernel, gamma, degree, coef0
        As in `KernelSVC`.
    max_iter : int, default=5
        Most passes over the rows; a pass without a mistake ends the training.
    iterate : {"average", "last", "drawn"}, default="average"
        Which model is kept: the average over all steps, the last one, or that of a step drawn at random.
    cache_size : float, default=200
        Megabytes of kernel values kept. Raising it saves arithmetic in passes after the first.
    random_state : int, RandomState or None, default=None
        Order of the rows, and the step drawn.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning. Classes share it equally.
    callbacks : sequence of callable, default=None
        Each is called with a `Progress` now and then; returning True stops the fit.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of int64, shape (n_SV,)
        Numbers of the training rows that a mistake was made on.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Of shape (0, 0) for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_problems, n_SV)
        One row for two classes, else one a class: `decision_function(X) = K(X, support_vectors_) dual_coef_'`.
    gamma_ : float
    n_iter_ : int
        Passes, the largest number of all classes.
    evaluations_ : int
        Kernel values computed by `fit`.
    status_ : str
        "converged" (a pass without mistakes), "max_iter", "time_limit", "stopped" (by a callback) or "interrupted".
    shape_fit_ : tuple of int
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    sklearn.linear_model.Perceptron : For linear kernels, much faster.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import KernelPerceptron
    >>> X = np.array([[0, 0], [1, 1], [0, 1], [1, 0]])
    >>> clf = KernelPerceptron(gamma=1.0, max_iter=20, random_state=0).fit(X, [0, 0, 1, 1])
    >>> clf.predict(X).tolist()
    [0, 0, 1, 1]
    """

    max_iter: kinds.Count = 5
    iterate: Annotated[str, StrOptions(set(perceptron.ITERATES))] = "average"
    on_interrupt: kinds.OnInterrupt = "raise"

    _stored_arrays: ClassVar[Mapping[str, str]] = {"dual_coef_": "float p s"}

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: Column, sample_weight: Column | None = None) -> "KernelPerceptron":
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            float32 and float64 are used as they are, and set the precision of kernel values. With a precomputed kernel
            the values of all pairs, shape (n, n).
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            A mistake on a row adds it with its weight divided by the mean weight; rows of weight 0 are left out. A row
            of weight 2 is not a row given twice, on which two mistakes may be made.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a class has no row of positive weight.
        KernelError
            If the kernel cannot be used, or the cache does not hold a row.
        """
        budget = budget_of(self.time_budget, self.callbacks)
        checked, labels, weight = self._checked_rows(X, y, sample_weight)
        codes = self._classified(labels, weight)
        kernel = self._resolved(checked)
        rows = KernelRows(kernel, checked, cache_size=self.cache_size)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        targets = range(self.classes_.shape[0]) if self.classes_.shape[0] > 2 else (1,)
        results = []
        with limit_threads(self.n_jobs):
            rows.check_function()
            for number, target in enumerate(targets):  # the problems share the cached kernel rows
                problem = KernelProblem(rows, np.where(codes == target, 1.0, -1.0), weight, fit_intercept=False)
                with budget.part(len(targets) - number) as share:
                    results.append(
                        perceptron.solve(problem, budget=share, max_iter=self.max_iter, iterate=self.iterate, seed=seed)
                    )
        coef = np.array([result.coef for result in results])
        self.status_ = str(worst([result.status for result in results], budget))
        self.n_iter_ = -(-max(result.n_iter for result in results) // int((weight > 0.0).sum()))
        self.evaluations_, self.gamma_, self.shape_fit_ = rows.evaluations, kernel.gamma, checked.shape
        self.support_ = np.flatnonzero(coef.any(axis=0))
        self.dual_coef_ = coef[:, self.support_]
        self.support_vectors_ = (
            np.empty((0, 0), checked.dtype) if self.kernel == "precomputed" else checked[self.support_]
        )
        if not interrupted(self, budget) and self.status_ in CURES:
            warn(f"stopped after {budget.elapsed:.1f} s ({CURES[self.status_]}).", MarginConvergenceWarning)
        return self

    def decision_function(self, X: Features) -> Floats:
        """Scores, shape (n,) for two classes (positive: `classes_[1]`), else (n, n_classes).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            With a precomputed kernel the values with all training rows.
        """
        scores = np.concatenate([block for _, block in score_blocks(self, self._checked_new(X))])
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Labels, shape (n,)."""
        return labels_of(self.decision_function(X), self.classes_)
