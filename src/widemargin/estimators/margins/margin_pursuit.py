"""Margin pursuit: a classifier whose margins gather around a level, `MarginPursuitClassifier`."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from numbers import Real
from typing import Annotated, Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from widemargin._typing import Floats
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import parameters
from widemargin.estimators.margins.margin_model import MarginModel
from widemargin.estimators.margins.pursuit import MAX_ITER, Pursuit, Recipe, Start, pursue
from widemargin.exceptions import CapabilityError, MarginConvergenceWarning, warn
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import LOSSES
from widemargin.problems.margin_pursuit import MarginPursuitProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth.smooth_problem import SmoothSolver


@parameters
class MarginPursuitClassifier(MarginModel):
    """Classifier that pulls every margin to a level, from below and from above (Holland 2019).

    Minimises `1/2 |w|^2 + C sum_i s_i phi(y_i f(x_i))`, `phi(m) = scale^2 rho((margin_level - m) / scale)`. Rows that
    are wrong, and rows that are right by far more than the level, are pulled towards it with a force that the scale
    bounds, so margins gather around the level. This bounds the effect of a wrong *label*, but not that of extreme
    *features*. With more than two classes each is learned against the rest; `sklearn.multiclass.OneVsOneClassifier`
    around this classifier errs less (`docs/margins.md`).

    Parameters
    ----------
    margin_level : float, default=1.0
        The margin that every row should have. If the scale changes in proportion, only the units of the scores change.
    scale : float or {"auto", "catoni", "rescale-once"}, default="auto"
        Distance from the level, in units of the margins, beyond which the pull of a row hardly grows. Raising it turns
        the loss into a square, lowering it into an absolute value. "auto": train at `margin_level`, then again at
        `scale^2` = the 75th percentile of the squared margins. "rescale-once": the paper's update, which sets this
        scale after some iterations of one run and from then on takes `C / scale^2` in place of C, which shortens long
        stochastic steps (Figure 5 of the paper). "catoni": train at `margin_level`, then again at the scale of the
        Catoni estimator of the mean margin, `scale^2 = n var / (2 log(2/delta))`, which grows with n.
    solver : {"lbfgs", "gd", "sgd"} or callable, default="lbfgs"
        "lbfgs" reaches the optimum in few passes. "sgd" is the projected stochastic form of the paper; "gd" is its
        Algorithm 1, gradient descent with a fixed step, and needs widemargin-papers. A function
        `solve(problem, *, tol, start, budget, max_iter)` is a solver of your own (`docs/extending.md`).
    loss : {"catoni", "log-cosh"}, default="catoni"
        rho: that of Catoni and Giulini, whose pull is constant beyond `1.41 scale`, or log-cosh.
    C : float, default=1.0
        Inverse strength of the regulariser; `inf` for none (not with "sgd").
    fit_intercept : bool, default=True
    kernel : {None, "linear", "poly", "rbf", "laplacian", "sigmoid", "precomputed"} or callable, default=None
        None: a linear model. A kernel is used exactly, by the weights of training rows (n^2 memory), or through a
        `feature_map`.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width, as in `sklearn.svm.SVC`.
    feature_map : {None, "fourier", "nystroem"}, default=None
        Explicit features that approximate the kernel, at a cost linear in the rows.
    n_components : int, default=256
        Of the feature map. Raising it brings the model closer to the kernel's.
    tol : float, default=1e-6
        Largest relative gap: by how much the objective may exceed its least value. With `C=inf` the norm of the
        gradient, relative to the first one.
    max_iter : int, default=None
        Most iterations for each scale. None: 1000; for "gd" 10000, for "sgd" 20 passes over the rows.
    warm_start : bool, default=False
        Go on from the weights, steps of "sgd" and feature map of the last fit. With other classes or features, another
        feature map or an exact kernel a fit starts afresh.
    random_state : int, RandomState or None, default=None
        Rows drawn by "sgd", and the feature map.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning. Classes share it equally.
    callbacks : sequence of callable, default=None
        Each is called with a `Progress` at every iteration; returning True stops the fit.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.
    solver_options : PursuitOptions or dict, default=None
        What few users change; None is all defaults.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_problems, n_features)
        One row for two classes, else one a class. Of the mapped features where there is a map; not for exact kernels.
    intercept_ : ndarray of shape (n_problems,)
    support_ : ndarray of int64, shape (n_SV,)
        Exact kernels only: numbers of the training rows that the model is written in.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Exact kernels only; of shape (0, 0) for a precomputed one.
    dual_coef_ : ndarray of shape (n_problems, n_SV)
        Exact kernels only: `decision_function(X) = K(X, support_vectors_) dual_coef_' + intercept_`.
    feature_map_ : transformer
        Only with a feature map.
    gamma_ : float
        Exact kernels only.
    scale_ : ndarray of shape (n_problems,)
        The scale of the solution, and of its certificate.
    gap_ : ndarray of shape (n_problems,)
        Proved: the objective at `scale_` exceeds its least value by at most this, relative to it. NaN with `C=inf`.
    objective_ : ndarray of shape (n_problems,)
        Objective over `C n`: mean loss plus `|w|^2 / (2 C n)`, where n is the sum of weights; after "rescale-once" with
        `C / scale_^2` in place of C.
    n_iter_ : int
        Iterations, or passes over the rows; the largest number of all classes.
    n_gradients_ : int
        Gradients of single rows, of all classes: what the paper counts as cost.
    t_ : int
        Steps of "sgd".
    status_ : str
        "converged", "max_iter", "time_limit", "stopped" (by a callback) or "interrupted".
    history_ : tuple of dict
        `class`, `iteration`, `gradients`, `value`, `gap`, `seconds` and `scale` of the iterations.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    widemargin.margin_report : The distribution of the margins of any classifier.

    References
    ----------
    M. J. Holland, Classification using margin pursuit, AISTATS 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import MarginPursuitClassifier
    >>> X, y = make_classification(400, random_state=0)
    >>> clf = MarginPursuitClassifier().fit(X, y)
    >>> clf.status_, bool(clf.gap_[0] <= 1e-6), round(clf.score(X, y), 2)
    ('converged', True, 0.85)
    """

    margin_level: kinds.Positive = field(default=1.0, kw_only=False)
    scale: Annotated[
        float | str, StrOptions({"auto", "catoni", "rescale-once"}), Interval(Real, 0.0, None, closed="neither")
    ] = field(default="auto", kw_only=False)
    solver: Annotated[str | SmoothSolver, StrOptions(set(MAX_ITER)), callable] = "lbfgs"
    loss: Annotated[str, StrOptions(set(LOSSES))] = "catoni"
    C: Annotated[float, Interval(Real, 0.0, None, closed="right")] = 1.0
    max_iter: kinds.Count | None = None

    def _problem(self, rows: RowBlocks, share: Floats, total: float) -> MarginPursuitProblem:
        if self.solver == "sgd" and np.isinf(self.C):
            raise CapabilityError("solver='sgd' needs a regulariser: give a finite C, or use solver='lbfgs'.")
        loss = LOSSES[self.loss](float(self.margin_level), float(self.margin_level))
        return MarginPursuitProblem(
            rows, np.ones(rows.n_rows), share, total, 1.0 / (total * self.C), loss, self.fit_intercept
        )

    def _limit(self) -> int:
        """Of iterations, for each scale."""
        return int(self.max_iter or MAX_ITER[self.solver if isinstance(self.solver, str) else "lbfgs"])

    def _solve(self, problem: MarginPursuitProblem, start: Start | None, seed: int, budget: Budget) -> Pursuit:
        recipe = Recipe(self.scale, self.solver, self.tol, self._limit(), self._options, seed)
        return pursue(recipe, problem, start, budget)

    def _kept(self, before: Mapping[str, Any], number: int) -> tuple[float, int]:
        return float(before["scale_"][number]), int(before["t_"])

    def _report(self, runs: Sequence[Pursuit], budget: Budget) -> None:
        self.scale_ = np.array([run.scale for run in runs])
        self.t_ = max(run.steps for run in runs)
        super()._report(runs, budget)
        if self.solver != "sgd":
            self._warn_of_iterations(runs, self._limit())
        elif self.status_ == "max_iter" and not self.warm_start:  # with a warm start the next fit may go on
            # Steps of length C n / t are long at first, and may leave a model that is worse than weights of 0.
            kind, level = LOSSES[self.loss], float(self.margin_level)
            zero = np.array([float(kind(level, float(scale)).value(0.0)) for scale in self.scale_])
            above = np.flatnonzero(self.objective_ > 1.1 * zero)
            if above.shape[0]:
                worst_one = above[np.argmax(self.objective_[above] / zero[above])]
                warn(
                    f"after {self.n_iter_} passes the objective is {self.objective_[worst_one]:.2g}; weights of 0 have "
                    f"{zero[worst_one]:.2g}. Steps as long as C n / t are still too long: raise max_iter, lower C, set "
                    "average=True in solver_options, scale the features, or use solver='lbfgs'.",
                    MarginConvergenceWarning,
                )
