"""Minimisation of Catoni's estimate of the risk (Brownlees, Joly and Lugosi 2015): `CatoniRiskClassifier`."""

from dataclasses import field
from numbers import Real
from typing import Annotated

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from widemargin.extending import Floats, kinds, parameters
from widemargin.losses import catoni_location
from widemargin_papers.baselines.linear_classifier import LinearBaseline, LinearModel, Task, ended
from widemargin_papers.baselines.robust_start import clipped_start, logistic, margins, refit, weights_of

__all__ = ["CatoniRiskClassifier"]

_SCALES = (4.0, 2.0, 1.0, 0.5, 0.25)
"""Scales of "auto", in units of the logistic loss: a row on the boundary has log 2."""

KNEE = float(np.sqrt(2.0))
"""Beyond so many scales a loss has no influence on Catoni's location."""


@parameters
class CatoniRiskClassifier(LinearBaseline):
    """Linear classifier that minimises a robust location of the losses in place of their mean.

    It is `widemargin.RiskClassifier("catoni", level=scale)` with a start and a scale of its own. For a linear model,
    `theta(w)` is the root of `sum_i s_i psi((theta - loss_i) / scale) = 0` over its logistic losses (their Catoni
    estimate of location, `widemargin.losses.catoni_location`), and `theta(w) + 1/(2 C sum s) |w|^2` is minimised. The
    gradient weighs the rows by `psi'`, which is 0 for a loss far from theta: a wrong label, or a row with huge features
    and a wrong label, is left out of the fit, whereas it would dominate a convex loss. So the method resists leverage,
    heavy tails and label noise at once; in return it is not convex, and what it leaves out may be a rare class. It
    therefore starts from a logistic regression on rows whose norms are clipped to the median one.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regulariser, as in `sklearn.linear_model.LogisticRegression`.
    scale : float or "auto", default="auto"
        In units of the logistic loss. Raising it leaves out fewer rows, and tends to the logistic regression. "auto":
        4, 2, 1, 1/2 and 1/4 are tried in turn, each from the solution before, beginning with the start itself; a
        solution replaces the one kept so far where it makes fewer errors on the training rows, by more than two
        standard errors of the difference. Counts of errors are bounded, so outliers cannot dominate the choice.
    fit_intercept : bool, default=True
        The intercept is not regularised.
    tol : float, default=1e-5
        What a Newton step still promises, relative to the objective.
    max_iter : int, default=200
        Most Newton steps at each scale.
    random_state : int, RandomState or None, default=None
        Without effect; nothing is drawn.
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
    scale_ : float
        The one chosen; infinite where the start was kept. The largest of all classes.
    risk_ : float
        theta at the solution, the largest of all classes.
    left_out_ : float
        Weighted share of the training rows whose weight psi' is 0, the largest of all classes.
    n_iter_ : int
    status_ : str
        "converged", "max_iter", "time_limit" or "interrupted".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    Notes
    -----
    The paper allows any influence function between two bounds; it takes the widest, a logarithm, whose slope falls off
    so slowly that rows scaled by 20 still dominate the fit. The one of Catoni and Giulini, used here, is that of margin
    pursuit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from widemargin_papers.baselines import CatoniRiskClassifier
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = X @ [1.0, -2.0] > 0.0
    >>> bad_X, bad_y = X.copy(), y.copy()
    >>> bad_X[:60] *= 10.0; bad_y[:60] = ~y[:60]
    >>> bool(LogisticRegression().fit(bad_X, bad_y).score(X, y) < 0.5)
    True
    >>> bool(CatoniRiskClassifier().fit(bad_X, bad_y).score(X, y) > 0.9)
    True
    """

    C: kinds.Positive = field(default=1.0, kw_only=False)
    scale: Annotated[float | str, Interval(Real, 0.0, None, closed="neither"), StrOptions({"auto"})] = "auto"
    fit_intercept: bool = True
    tol: kinds.Positive = 1e-5
    max_iter: kinds.Count = 200

    def _fit_task(self, task: Task) -> LinearModel:
        best = np.zeros(task.X.shape[1] + 1)
        chosen, n_iter, converged = np.inf, 0, False
        auto = self.scale == "auto"
        try:
            model = clipped_start(task, self.C, self.fit_intercept, self.tol, self.max_iter)
            best, converged = weights_of(model), model.status_ == "converged"
            for scale in _SCALES if auto else (float(self.scale),):
                refit(model.set_params(risk="catoni", level=scale), task.X, task)
                w, n_iter = weights_of(model), n_iter + model.n_iter_
                if not auto or _fewer_errors(task, w, best):
                    best, chosen, converged = w, scale, model.status_ == "converged"
                if task.budget.exhausted:
                    break
        except KeyboardInterrupt:
            task.budget.interrupted = True
        losses, scale = logistic(margins(task, best))[0], min(chosen, 1e6)
        theta = float(catoni_location(losses, scale, sample_weight=task.weight).value)
        left_out = float(task.share @ (np.abs(losses - theta) >= KNEE * scale))
        done = converged and not task.budget.exhausted
        facts = {"scale": chosen, "risk": theta, "left_out": left_out}
        return LinearModel(best[:-1], float(best[-1]), n_iter, ended(task.budget, converged=done), facts)


def _fewer_errors(task: Task, new: Floats, old: Floats) -> bool:
    """Whether a model makes fewer errors on the training rows, by two standard errors of the difference."""
    gain = (margins(task, old) <= 0.0).astype(np.float64) - (margins(task, new) <= 0.0)
    return float(task.share @ gain) > 2.0 * float(np.sqrt(task.share**2 @ gain**2))
