"""SIMBA as an estimator: a linear SVM in sublinear time (Hazan, Koren and Srebro 2011), `SimbaClassifier`."""

from dataclasses import field

import numpy as np

from widemargin.extending import kinds, parameters
from widemargin_papers.baselines.linear_classifier import LinearBaseline, LinearModel, Task
from widemargin_papers.solvers import simba

__all__ = ["SimbaClassifier"]


@parameters
class SimbaClassifier(LinearBaseline):
    """Linear classifier whose training reads a row and a column a step, in place of all rows; without a bias.

    It approaches the largest margin `min_i y_i <w, x_i> + xi_i` of a direction with `|w| <= 1`, where the mean of the
    slacks xi is nu: what `SBPClassifier` solves exactly, by steps that look at `n + d` numbers.

    Parameters
    ----------
    nu : float, default=0.1
        Mean slack of the rows, in units of `<w, x>`. Raising it lets more rows miss the margin.
    tol : float, default=0.05
        Largest relative gap between the margin and its upper bound.
    max_iter : int, default=10000
        Steps. Their size is planned for so many: a run that ends before has taken steps that are too small.
    random_state : int, RandomState or None, default=None
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning. Classes share it equally.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.

    Attributes
    ----------
    coef_ : ndarray of shape (n_problems, n_features)
        Of margin 1. One row for two classes, else one a class.
    intercept_ : ndarray of shape (n_problems,)
        Zeros.
    classes_ : ndarray of shape (n_classes,)
    gap_ : float
        Relative gap between margin and bound, the largest of all classes.
    reads_ : float
        Numbers of X that the steps looked at, the largest of all classes.
    n_iter_ : int
    status_ : str
        "converged", "max_iter", "time_limit" or "interrupted".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    widemargin.SBPClassifier : The batch perceptron, exact and with kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin_papers.baselines import SimbaClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = X @ [1.0, -2.0, 0.5] > 0.0
    >>> SimbaClassifier(tol=0.2, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    nu: kinds.NotNegative = field(default=0.1, kw_only=False)
    tol: kinds.Positive = 0.05
    max_iter: kinds.Count = 10_000

    def _fit_task(self, task: Task) -> LinearModel:
        result = simba.solve(
            task.X, task.y, nu=self.nu, weight=task.weight, tol=self.tol, budget=task.budget, max_iter=self.max_iter,
            seed=task.seed,
        )  # fmt: skip
        facts = {"gap": max(0.0, result.gap), "reads": float(result.reads)}
        return LinearModel(np.asarray(result.coef), 0.0, result.n_iter, result.status, facts)
