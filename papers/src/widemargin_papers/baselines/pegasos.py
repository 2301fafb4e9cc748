"""Pegasos for linear SVMs (Shalev-Shwartz, Singer, Srebro and Cotter 2011): `LinearPegasosClassifier`."""

from dataclasses import field
from typing import Literal

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from widemargin.extending import Floats, Integers, kinds, parameters
from widemargin.solvers.smooth.margin_sgd import SCALE, STEPS, TOTAL, WEIGHT
from widemargin_papers.baselines.linear_classifier import (
    LinearBaseline,
    LinearModel,
    Task,
    ended,
    norms2,
)
from widemargin_papers.solvers import linear_sgd_loops as loops

__all__ = ["LinearPegasosClassifier"]


@parameters
class LinearPegasosClassifier(LinearBaseline):
    """Linear SVM by Pegasos, stochastic subgradient steps with and without projection.

    Minimises `1/2 |w|^2 + C sum_i s_i max(0, 1 - y_i f(x_i))`, in the paper's terms `lam/2 |w|^2 + mean hinge` with
    `lam = 1 / (C sum s)`. Step t takes one row: `w <- (1 - 1/t) w + [y f(x) < 1] y x / (lam t)` (Figure 1 there), and
    with `projection` w is scaled into the ball of radius `1/sqrt(lam)`, which holds the optimum. Rows come in a new
    random order in every pass. The counts of the rows that were found inside the margin, over the passes, make a dual
    point, so every run has a duality gap.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regulariser.
    projection : bool, default=True
        Scale w into the ball after each step; it keeps the early iterates small.
    iterate : {"average", "last"}, default="average"
        Which model is kept: the average of the iterates with weights t, which is steadier, or the last one.
    fit_intercept : bool, default=True
        By a constant feature of value 1, whose weight is regularised as the others (section 6 there).
    tol : float or None, default=None
        Relative duality gap at which passes end; None: make all of them, without a look in between.
    max_iter : int, default=20
        Passes over the rows.
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
        One row for two classes, else one a class.
    intercept_ : ndarray of shape (n_problems,)
    classes_ : ndarray of shape (n_classes,)
    gap_ : float
        Relative duality gap of the model, the largest of all classes.
    n_iter_ : int
        Passes.
    status_ : str
        "converged" (also where all passes were made and tol is None), "max_iter", "time_limit" or "interrupted".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    sklearn.svm.LinearSVC : The exact optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin_papers.baselines import LinearPegasosClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X @ [1.0, -2.0] > 0.3
    >>> LinearPegasosClassifier(random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    C: kinds.Positive = field(default=1.0, kw_only=False)
    projection: bool = True
    iterate: Literal["average", "last"] = "average"
    fit_intercept: bool = True
    tol: kinds.Positive | None = None
    max_iter: kinds.Count = 20

    def _fit_task(self, task: Task) -> LinearModel:
        run = _Run(task, self.C, self.projection, float(self.fit_intercept))
        rng, passes, gap = np.random.default_rng(task.seed), 0, np.inf
        try:
            while passes < self.max_iter and gap > (self.tol or 0.0):
                run.step(rng.permutation(task.y.shape[0]))
                passes += 1
                if self.tol is not None:
                    gap = run.gap(run.model(self.iterate))
                if task.budget.exhausted:
                    break
        except KeyboardInterrupt:
            task.budget.interrupted = True
        w = run.model(self.iterate)
        gap = run.gap(w)
        done = passes == self.max_iter if self.tol is None else gap <= self.tol
        return LinearModel(w[:-1], float(w[-1]), passes, ended(task.budget, converged=done), {"gap": gap})


class _Run:
    """The iterates on one task, in the paper's units: `lam/2 |w|^2 + sum_i share_i hinge_i`."""

    def __init__(self, task: Task, C: float, projection: bool, bias: float) -> None:
        n, d = task.X.shape
        self.task, self.bias, self.lam = task, bias, 1.0 / (C * float(task.weight.sum()))
        self.radius = self.lam**-0.5 if projection else 0.0
        self.size = n * task.share  # a step on a row stands for this many rows of weight 1 / n
        self.norms = norms2(task.X) + bias**2
        self.v, self.u, self.hits = np.zeros(d + 1), np.zeros(d + 1), np.zeros(n, dtype=np.int64)
        self.now = np.array([1.0, 0.0, 0.0, 0.0, 0.0])

    def step(self, order: Integers) -> None:
        """Visit rows in this order."""
        X = self.task.X
        rest = (order, self.task.y, self.size, self.norms, self.lam, self.radius, self.bias, self.v, self.u)
        if isinstance(X, np.ndarray):
            loops.pegasos_dense(X, *rest, self.hits, self.now)
        else:
            loops.pegasos_csr(X.data, X.indices, X.indptr, *rest, self.hits, self.now)

    def model(self, iterate: str) -> Floats:
        """Weights, and last that of the constant feature, shape (d + 1,)."""
        if iterate == "last" or self.now[WEIGHT] == 0.0:
            w: Floats = self.now[SCALE] * self.v
        else:
            w = (self.now[TOTAL] * self.v - self.u) / self.now[WEIGHT]
        w[-1] *= self.bias
        return w

    def gap(self, w: Floats) -> float:
        """Relative duality gap; the dual point has a row's share, times how often it was inside the margin."""
        X, y, share = self.task.X, self.task.y, self.task.share
        hinge = np.maximum(0.0, 1.0 - y * (safe_sparse_dot(X, w[:-1]) + self.bias * w[-1]))
        primal = 0.5 * self.lam * float(w @ w) + float(share @ hinge)
        alpha = np.minimum(share, self.size * self.hits / max(self.now[STEPS], 1.0))
        image = np.append(safe_sparse_dot(X.T, alpha * y), self.bias * float(alpha @ y))
        dual = float(alpha.sum()) - 0.5 * float(image @ image) / self.lam
        return max(0.0, primal - dual) / max(primal, 1e-300)
