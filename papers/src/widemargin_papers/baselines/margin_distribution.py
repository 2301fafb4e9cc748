"""Margin distribution optimisation (Garg and Roth, ICML 2003): `MarginDistributionClassifier`."""

from dataclasses import field
from numbers import Real
from typing import Annotated

import numpy as np
from scipy.optimize import minimize
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import safe_sparse_dot

from widemargin.extending import Column, Floats, kinds, parameters
from widemargin_papers.baselines.linear_classifier import (
    LinearBaseline,
    LinearModel,
    Task,
    ended,
    norms2,
)

__all__ = ["MarginDistributionClassifier", "projection_profile"]

_STARTS = 2  # besides the mean of the rows: directions drawn at random


def projection_profile(margins: Column, k: int) -> float:
    """Bound of the share of rows whose sign a random projection to k dimensions changes: how complex a linear rule is.

    The mean over the rows of `min(3 exp(-nu^2 k / (8 (2 + |nu|)^2)), 2 / (k nu^2), 1)` (Garg and Roth 2003).

    Parameters
    ----------
    margins : array-like of shape (n,)
        nu: scores of a weight vector of norm 1 on rows of norm at most 1.
    k : int
        Dimensions of the projection. Raising it lowers the value.

    Examples
    --------
    >>> from widemargin_papers.baselines import projection_profile
    >>> projection_profile([0.0, 0.0], 100), round(projection_profile([0.5, 0.9], 100), 4)
    (1.0, 0.0523)
    """
    square = np.square(np.asarray(margins, dtype=np.float64))
    tail = 3.0 * np.exp(-square * k / (8.0 * (2.0 + np.sqrt(square)) ** 2))
    return float(np.minimum(np.minimum(tail, 2.0 / (k * np.maximum(square, 1e-300))), 1.0).mean())


_PULL = Interval(Real, 0.0, 500.0, closed="right")  # margins are at most 1 in size: larger exponentials overflow


@parameters
class MarginDistributionClassifier(LinearBaseline):
    """Linear classifier that minimises a sum over all margins, in which near rows count most, for a w of norm 1.

    Minimises `sum_i s_i exp(-a_i y_i f(x_i) / R) / sum_i s_i` over `|(w, b)| = 1` with `a_i = alpha` for rows of the
    positive class and beta for the others; R is the largest norm of a row, with the constant feature. It is a smooth
    stand-in for `projection_profile`, the measure of the paper, whose terms fall off in the same way but have no slope
    far from the boundary. The losses are convex and the sphere is not: where the gradient at the solution points
    inwards (`uncertified_` is 0), no point of the whole ball is better, so the solution is global; this is so for small
    alpha.

    There are no margins to violate and no C: outliers with large features fix R, and so shrink all other margins.

    Parameters
    ----------
    alpha : float, default=3.0
        At most 500. Raising it lets the rows near the boundary, and most of all the wrong ones, count more.
    beta : float, default=None
        The same for the negative class (for two classes `classes_[0]`); None: alpha.
    fit_intercept : bool, default=True
        By a constant feature of value 1.
    tol : float, default=1e-6
        Largest entry of the gradient along the sphere.
    max_iter : int, default=1000
        Most iterations of L-BFGS for each start.
    random_state : int, RandomState or None, default=None
        Two further starts, which are made where the first solution is not certified; the best solution is kept.
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
    objective_ : float
        The largest of all classes.
    uncertified_ : float
        0 where every solution is proved to be global, else 1.
    n_iter_ : int
    status_ : str
        "converged", "max_iter", "time_limit" or "interrupted".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin_papers.baselines import MarginDistributionClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X @ [1.0, -2.0] > 0.3
    >>> MarginDistributionClassifier().fit(X, y).score(X, y) > 0.95
    True
    """

    alpha: Annotated[float, _PULL] = field(default=3.0, kw_only=False)
    beta: Annotated[float, _PULL] | None = field(default=None, kw_only=False)
    fit_intercept: bool = True
    tol: kinds.Positive = 1e-6
    max_iter: kinds.Count = 1000

    def _fit_task(self, task: Task) -> LinearModel:
        problem = _Sphere(task, self.alpha, self.beta or self.alpha, float(self.fit_intercept))
        rng = np.random.default_rng(task.seed)
        drawn = rng.standard_normal((_STARTS, problem.mean.shape[0]))
        drawn[:, -1] *= problem.bias  # without an intercept the last weight stays 0
        starts = [problem.mean, *drawn]
        best, value, inside, n_iter, converged = problem.mean, np.inf, False, 0, False
        try:
            for start in starts:
                found = minimize(
                    problem,
                    start / max(float(np.linalg.norm(start)), 1e-300),
                    jac=True,
                    method="L-BFGS-B",
                    callback=lambda _: _stop(task),
                    options={"maxiter": self.max_iter, "gtol": self.tol, "ftol": 1e-15},
                )
                n_iter += int(found.nit)
                if found.fun < value:
                    best, value, converged = found.x, float(found.fun), bool(found.success)
                    inside = problem.is_global(best)
                if inside or task.budget.exhausted:
                    break
        except KeyboardInterrupt:
            task.budget.interrupted = True
        w = problem.unit(best) / problem.radius
        status = ended(task.budget, converged=converged and not task.budget.exhausted)
        facts = {"objective": value, "uncertified": float(not inside)}
        return LinearModel(w[:-1], float(w[-1]) * problem.bias, n_iter, status, facts)


class _Sphere:
    """The objective as a function of any vector, of which only the direction counts."""

    def __init__(self, task: Task, alpha: float, beta: float, bias: float) -> None:
        self.task, self.bias = task, bias
        self.radius = max(float(np.sqrt(norms2(task.X).max(initial=0.0) + bias**2)), 1e-300)
        self.pull = np.where(task.y > 0.0, alpha, beta) * task.y / self.radius
        self.mean = self._back(task.share * self.pull)

    def __call__(self, u: Floats) -> tuple[float, Floats]:
        """Value and gradient: that along the sphere, over the norm of u."""
        w = self.unit(u)
        value, slope = self.ball(w)
        return value, (slope - (slope @ w) * w) / max(float(np.linalg.norm(u)), 1e-300)

    def ball(self, w: Floats) -> tuple[float, Floats]:
        """The convex function whose values on the sphere count, and its gradient."""
        score = safe_sparse_dot(self.task.X, w[:-1]) + self.bias * w[-1]
        loss = self.task.share * np.exp(-self.pull * score)
        return float(loss.sum()), self._back(-self.pull * loss)

    def is_global(self, u: Floats) -> bool:
        """Whether the gradient points into the ball: by convexity no point of the ball is then better."""
        w = self.unit(u)
        return bool(self.ball(w)[1] @ w <= 0.0)

    def unit(self, u: Floats) -> Floats:
        """The direction of u."""
        return u / max(float(np.linalg.norm(u)), 1e-300)

    def _back(self, by_row: Floats) -> Floats:
        return np.append(safe_sparse_dot(self.task.X.T, by_row), self.bias * float(by_row.sum()))


def _stop(task: Task) -> None:
    """End L-BFGS where the time is up."""
    if task.budget.exhausted:
        raise StopIteration
