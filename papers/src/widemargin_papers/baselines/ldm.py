"""The large margin distribution machine (Zhang and Zhou, KDD 2014): `LDMClassifier`."""

from dataclasses import field
from typing import Literal

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.utils.extmath import safe_sparse_dot

from widemargin.estimators.feature_space import ColumnSpace, SpaceParameters, make_space, model_scores
from widemargin.extending import (
    Features,
    Floats,
    Integers,
    KernelModel,
    Matrix,
    kernel,
    kinds,
    parameters,
    refuse_overflow,
)
from widemargin.kernels.functions import check_precomputed
from widemargin.solvers.base import Status
from widemargin.solvers.smooth.margin_sgd import SCALE, TOTAL, WEIGHT
from widemargin_papers.baselines.linear_classifier import (
    LinearBaseline,
    LinearModel,
    Task,
    ended,
    norms2,
)
from widemargin_papers.solvers import linear_sgd_loops as loops

__all__ = ["LDMClassifier"]

_WIDEST = 4000
"""Features up to which "auto" takes the dual solver, which stores a matrix of their pairs."""


@parameters
class LDMClassifier(KernelModel, LinearBaseline):
    """Large margin distribution machine: an SVM that also asks for a large mean and a small variance of margins.

    Minimises, with margins `m_i = y_i f(x_i)`, their weighted mean and their (population) variance::

        1/2 |w|^2 + variance_weight Var(m) - mean_weight Mean(m) + C sum_i s_i max(0, 1 - m_i)

    which is the paper's soft-margin problem with `lambda_1 = variance_weight / 2` (its variance is that of pairs, twice
    this one) and `lambda_2 = mean_weight`. A row with a margin far *above* the mean costs, too: outliers with large
    features have a strong pull, unlike in margin pursuit.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge losses. As in the paper the other two terms are not multiplied by the number of rows, so
        raising C makes them matter less.
    variance_weight : float, default=1.0
        Raising it makes the margins more equal. With 0, and `mean_weight=0`, the model is an SVM.
    mean_weight : float, default=1.0
        Raising it makes margins larger on average.
    solver : {"auto", "dual", "sgd"}, default="auto"
        "dual": coordinate ascent, exact, with a certificate; it stores d^2 numbers for d features and the rows once
        more, dense. "sgd": averaged stochastic gradient steps, the paper's way for many rows and features.
        "auto": "dual" up to 4000 features, and for kernels.
    kernel : {None, "linear", "poly", "rbf", "laplacian", "sigmoid", "precomputed"} or callable, default=None
        None: a linear model. A kernel is used exactly: the rows become those of a factor of the kernel matrix, in which
        the kernel model is a linear one. It takes n^2 memory and n^3 time for n rows.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width, as in `sklearn.svm.SVC`.
    degree : float, default=3
        Of "poly".
    coef0 : float, default=0.0
        Of "poly" and "sigmoid".
    cache_size : float, default=1000
        Largest kernel matrix in megabytes.
    fit_intercept : bool, default=True
        By a constant feature of value 1, whose weight is regularised as the others.
    tol : float, default=1e-4
        Relative duality gap at which "dual" ends; "sgd" makes all passes.
    max_iter : int, default=1000
        Most passes over the rows.
    random_state : int, RandomState or None, default=None
        Order of the rows.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning. Classes share it equally.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.

    Attributes
    ----------
    coef_ : ndarray of shape (n_problems, n_features)
        One row for two classes, else one a class. Not with a kernel.
    intercept_ : ndarray of shape (n_problems,)
    support_ : ndarray of int64, shape (n_SV,)
        With a kernel: numbers of the training rows that the model is written in.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        With a kernel; of shape (0, 0) for a precomputed one.
    dual_coef_ : ndarray of shape (n_problems, n_SV)
        With a kernel: `decision_function(X) = K(X, support_vectors_) dual_coef_' + intercept_`.
    gamma_ : float
        With a kernel.
    classes_ : ndarray of shape (n_classes,)
    gap_ : float
        Relative duality gap, the largest of all classes; infinite for "sgd", which proves nothing.
    objective_ : float
        The largest of all classes.
    n_iter_ : int
        Passes.
    status_ : str
        "converged" ("sgd": all passes were made), "max_iter", "time_limit" or "interrupted".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin_papers.baselines import LDMClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X @ [1.0, -2.0] > 0.3
    >>> few, many = (LDMClassifier(variance_weight=weight).fit(X, y) for weight in (0.0, 1000.0))
    >>> bool(few.decision_function(X).std() > many.decision_function(X).std())
    True
    """

    C: kinds.Positive = field(default=1.0, kw_only=False)
    variance_weight: kinds.NotNegative = 1.0
    mean_weight: kinds.NotNegative = 1.0
    solver: Literal["auto", "dual", "sgd"] = "auto"
    kernel: kinds.KernelName | None = None
    gamma: kinds.Gamma = "scale"
    degree: kinds.NotNegative = 3
    coef0: kinds.AnyNumber = 0.0
    cache_size: kinds.Positive = 1000
    fit_intercept: bool = True
    tol: kinds.Positive = 1e-4
    max_iter: kinds.Count = 1000

    def _space(self, X: Matrix, weight: Floats) -> ColumnSpace:
        if self.kernel is None:
            return super()._space(X, weight)
        if self.kernel == "precomputed":
            check_precomputed(X)
        elif not callable(self.kernel):
            refuse_overflow(X)
        return make_space(SpaceParameters.of(self), X, weight, random_state=self.random_state, by_factor=True)

    def decision_function(self, X: Features) -> Floats:
        """Scores, shape (n,) for two classes (positive: `classes_[1]`), else (n, n_classes).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            With a precomputed kernel the values with all training rows.
        """
        if self.kernel is None:
            return super().decision_function(X)
        scores = model_scores(self, self._checked_new(X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _fit_task(self, task: Task) -> LinearModel:
        wide = self.kernel is None and task.X.shape[1] > _WIDEST
        if self.solver == "sgd" or (self.solver == "auto" and wide):
            return self._descend(task)
        return self._ascend(task)

    def _ascend(self, task: Task) -> LinearModel:
        """Coordinate ascent on the dual.

        With the Cholesky factor `Q = L L'` of `Q = I + 2 variance_weight Cov(y x)`, `z = L^-1 x` and `u = L' w` the
        problem is `1/2 |u|^2 - <u0, u> + hinges`, `u0 = L^-1 mean_weight Mean(y x)`, and with `v = u - u0` an SVM whose
        row i has the target `1 - y_i <u0, z_i>`.
        """
        y, upper = task.y, self.C * task.weight
        rows = _with_constant(task.X, float(self.fit_intercept))
        mean = rows.T @ (task.share * y)
        Q = np.eye(rows.shape[1]) + 2.0 * self.variance_weight * (
            (rows * task.share[:, None]).T @ rows - np.outer(mean, mean)
        )
        L = cholesky(Q, lower=True)
        Z = np.ascontiguousarray(solve_triangular(L, rows.T, lower=True).T)
        u0 = self.mean_weight * solve_triangular(L, mean, lower=True)
        target, norms = 1.0 - y * (Z @ u0), norms2(Z)
        alpha, v, rng = np.zeros(y.shape[0]), np.zeros(Z.shape[1]), np.random.default_rng(task.seed)
        passes, gap = 0, np.inf
        try:
            while passes < self.max_iter and gap > self.tol:
                target_ascent(Z, rng.permutation(y.shape[0]), y, target, upper, norms, alpha, v)
                passes += 1
                v = Z.T @ (alpha * y)  # the sum of many steps has lost digits
                primal = 0.5 * float(v @ v) + float(upper @ np.maximum(0.0, target - y * (Z @ v)))
                gap = (primal - float(alpha @ target) + 0.5 * float(v @ v)) / max(primal, 1e-300)
                if task.budget.exhausted:
                    break
        except KeyboardInterrupt:
            task.budget.interrupted = True
        w = solve_triangular(L, u0 + v, lower=True, trans="T")
        return self._model(task, w, passes, ended(task.budget, converged=gap <= self.tol), max(0.0, gap))

    def _descend(self, task: Task) -> LinearModel:
        """Averaged stochastic steps on pairs of rows, in units of `lam/2 |w|^2 + mean hinge`, `lam = 1/(C sum s)`."""
        X, y, bias = task.X, task.y, float(self.fit_intercept)
        n, d = X.shape
        lam = 1.0 / (self.C * float(task.weight.sum()))
        pull = lam * np.array([self.variance_weight, self.mean_weight])
        late = 4.0 * self.variance_weight * float(norms2(X).max(initial=0.0) + bias)  # steps below 1 / the curvature
        v, u, now = np.zeros(d + 1), np.zeros(d + 1), np.array([1.0, 0.0, 0.0, 0.0, 0.0])
        rng, passes = np.random.default_rng(task.seed), 0
        even = bool(np.ptp(task.weight) == 0.0)
        try:
            while passes < self.max_iter:
                # Rows are drawn by their weights, so that all terms of the gradient are unbiased.
                order, other = (
                    rng.permutation(n) if even else rng.choice(np.arange(n), n, p=task.share) for _ in range(2)
                )
                rest = (order, other, y, pull, lam, late, bias, v, u, now)
                if isinstance(X, np.ndarray):
                    loops.ldm_dense(X, *rest)
                else:
                    loops.ldm_csr(X.data, X.indices, X.indptr, *rest)
                passes += 1
                if task.budget.exhausted:
                    break
        except KeyboardInterrupt:
            task.budget.interrupted = True
        w = (now[TOTAL] * v - u) / now[WEIGHT] if now[WEIGHT] > 0.0 else now[SCALE] * v
        return self._model(task, w, passes, ended(task.budget, converged=passes == self.max_iter), np.inf)

    def _model(self, task: Task, w: Floats, passes: int, status: Status, gap: float) -> LinearModel:
        w = w if self.fit_intercept else np.append(w[:-1], 0.0)
        m = task.y * (safe_sparse_dot(task.X, w[:-1]) + w[-1])
        mean = float(task.share @ m)
        variance = float(task.share @ (m - mean) ** 2)
        hinge = float(task.weight @ np.maximum(0.0, 1.0 - m))
        value = 0.5 * float(w @ w) + self.variance_weight * variance - self.mean_weight * mean + self.C * hinge
        return LinearModel(w[:-1], float(w[-1]), passes, status, {"gap": gap, "objective": value})


def _with_constant(X: Matrix, bias: float) -> Floats:
    """Dense rows in double precision with one more feature, of value `bias`."""
    dense = X if isinstance(X, np.ndarray) else X.toarray()
    return np.column_stack((dense, np.full(dense.shape[0], bias))).astype(np.float64)


@kernel
def target_ascent(
    Z: Floats, order: Integers, y: Floats, target: Floats, upper: Floats, norms: Floats, alpha: Floats, v: Floats
) -> None:
    """Exact steps on the coordinates `order` of `max sum_i alpha_i target_i - 1/2 |v|^2`, `v = sum_i alpha_i y_i z_i`.

    With `0 <= alpha_i <= upper_i`; it is the dual of `min 1/2 |v|^2 + sum_i upper_i max(0, target_i - y_i <v, z_i>)`.
    """
    for k in range(order.shape[0]):
        i = order[k]
        # The slope of the dual along this coordinate: its maximum is where that vanishes, or an end of the box.
        slope = target[i]
        for j in range(v.shape[0]):
            slope -= y[i] * Z[i, j] * v[j]
        if norms[i] > 0.0:
            new = max(0.0, min(upper[i], alpha[i] + slope / norms[i]))
        else:
            new = upper[i] if slope > 0.0 else 0.0
        delta = (new - alpha[i]) * y[i]
        if delta != 0.0:
            alpha[i] = new
            for j in range(v.shape[0]):
                v[j] += delta * Z[i, j]
