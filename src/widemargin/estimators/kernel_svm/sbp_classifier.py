"""Kernel SVM in the paper's own parametrisation, by the slack: `SBPClassifier`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from widemargin._threads import limit_threads
from widemargin._typing import Column, Features, Floats, Matrix
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import binary_classes
from widemargin.estimators._options import CURES, Checked, budget_of, interrupted, parameters
from widemargin.estimators.feature_space import model_scores
from widemargin.estimators.kernel_svm.kernel_model import (
    KernelModel,
    KernelParameters,
    SBPOptions,
    class_weights,
    labels_of,
    name_the_kernel,
    refuse_missing,
)
from widemargin.exceptions import MarginConvergenceWarning, warn
from widemargin.kernels.functions import refuse_indefinite, sampled_spectrum
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.batch_perceptron.direction import BatchOptions
from widemargin.solvers.kernel_svm.batch_perceptron.nu_form import solve, solve_published
from widemargin.solvers.kernel_svm.batch_perceptron.run import SBPResult
from widemargin.solvers.kernel_svm.batch_perceptron.svms_by_nu import NuSearch, nu_by_folds
from widemargin.solvers.kernel_svm.problem import KernelProblem, WholeMatrix
from widemargin.solvers.kernel_svm.stopping import HoldOutOptions, choose_rows

INDEFINITE = "Or KernelSVC, which goes on as LIBSVM does."
"""What else to do with a kernel that is not positive semi-definite."""


@dataclass(frozen=True)
class NuOptions:
    """How `nu="auto"` chooses.

    Attributes
    ----------
    folds : int
    most : int
        Rows that are looked at: nu hardly depends on their number, and the duals take the square of it.
    duals : NuSearch
        A violation of 0.02 is enough to tell the errors of decades apart. From a C of 1,000 on the duals take long, and
        overfit.
    least : float
        Below it the margin is nearly a hard one: steps double, and errors are no lower.
    held_out : int
        Rows that stop the run, at least: of fewer the error has a standard error of more than 3 points, the run ends by
        chance, and they are missing from the training. On 78 real tables of up to 750 training rows the error is .5
        points lower without.
    otherwise : float
        Where nothing can be chosen: the best single one of seven on 27 real tables of two classes.
    """

    folds: int = 3
    most: int = 2000
    duals: NuSearch = field(default_factory=lambda: NuSearch(tol=0.02, widest=100.0))
    least: float = 1e-3
    held_out: int = 200
    otherwise: float = 0.03


NU = NuOptions()
"""The ones in force."""


class Task(NamedTuple):
    """Checked rows as a problem; row i of the problem is row `used[i]` of X."""

    problem: KernelProblem
    tol: float | None
    seed: int
    X: Matrix
    used: npt.NDArray[np.intp]


@parameters
class SBPClassifier(KernelParameters, KernelModel, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel SVM of two classes by the stochastic batch perceptron, with the slack as the parameter.

    Among directions of norm at most 1 in the kernel's space it seeks the one with the largest margin, where the rows
    are given slacks whose mean is `nu`, a distance in that space. Every kernel SVM solves this problem for some nu: its
    mean hinge loss divided by the norm of w. The method reaches a moderate accuracy with few kernel evaluations, and
    can be stopped at any time; for the optimum use `KernelSVC`.

    Parameters
    ----------
    nu : float or "auto", default="auto"
        Mean slack, >= 0. Raising it lets more rows violate the margin; 0 asks for a hard margin. "auto": four SVMs
        whose C grow by decades are compared in three folds of at most 2,000 rows, and the nu of the one with the least
        error is taken; `kernel_search` looks more closely, also for `gamma`.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; the kernel must be positive semi-definite.
    fit_intercept : bool, default=True
        Whether there is an unregularised bias.
    tol : float or None, default=None
        Largest relative gap between the margin and its upper bound. None holds out a tenth of the rows (`SBPOptions`)
        and stops when their error no longer falls by more than its noise; with `nu="auto"` it means 0.1 if that tenth
        would be fewer than 200 rows.
    max_iter : int, default=10,000
        Largest number of steps.
    cache_size : float, default=200
        Megabytes of kernel rows kept.
    class_weight, verbose, n_jobs
        As in `KernelSVC`.
    time_budget : float or None, default=None
        Seconds after which the best model so far is kept, with a warning.
    callbacks : sequence of callable, default=None
        Called with a `Progress` between steps, on a geometric schedule; one that returns True ends the run.
    random_state : int, RandomState or None, default=None
        For the draws and the rows held out.
    solver_options : SBPOptions or dict, default=None
        The published algorithm in place of batches, the size of batches, rows held out, and Ctrl-C. None: the defaults
        of `SBPOptions`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    support_ : ndarray of shape (n_support,)
        Rows with a coefficient.
    support_vectors_ : array or CSR matrix of shape (n_support, d)
        Empty for a precomputed kernel.
    n_support_ : ndarray of shape (2,)
        Their number in each class.
    dual_coef_ : ndarray of shape (1, n_support)
        `y_i alpha_i`, where the functional margin is 1.
    intercept_ : ndarray of shape (1,)
    gamma_ : float
        Parameter of the kernel.
    nu_ : float
        `nu`, or what was chosen.
    margin_ : float
        Margin, with the slacks, of the direction that was found. If it is not positive, the coefficients are those of
        the direction, not divided by it.
    margin_bound_ : float
        No classifier has a larger one at this nu, on these rows.
    gap_ : float
        `(margin_bound_ - margin_) / margin_`: the certificate.
    n_covered_ : float
        Rows below the margin (in each class where there is a bias), by weight relative to the largest.
    held_out_error_ : float or None
        Error on the rows held out; slightly too low, as the least of several.
    status_ : str
    n_iter_ : int
        Steps.
    n_evaluations_ : int
        Kernel values computed.
    history_ : tuple of dict
        `seconds`, `evaluations`, `steps`, `primal` (minus the margin), `dual` (minus its bound), `covered`, and
        `held_out_error` where rows are held out.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    widemargin_papers.pareto : The path of solutions over nu, and the nu of the SVM with a given C.

    References
    ----------
    Cotter, Shalev-Shwartz and Srebro, *The Kernelized Stochastic Batch Perceptron*, ICML 2012.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SBPClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = SBPClassifier(nu=0.01, gamma=2.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    nu: kinds.NotNegative | Literal["auto"] = field(default="auto", kw_only=False)
    fit_intercept: bool = True
    tol: kinds.Positive | None = None
    max_iter: kinds.Count = 10_000
    class_weight: kinds.ClassWeight = None
    verbose: kinds.Verbose = 0
    solver_options: SBPOptions | Mapping[str, object] | None = None

    _options = Checked(SBPOptions)

    _stored_arrays: ClassVar[Mapping[str, str]] = {
        "n_support_": "count k",
        "dual_coef_": "float 1 s",
        "intercept_": "float 1",
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: Column, sample_weight: Column | None = None) -> "SBPClassifier":
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            float32 rows give float32 kernel values, which take half the time and memory. With a precomputed kernel its
            values, shape (n, n).
        y : array-like of shape (n,)
            Two classes.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0 of the slack; a row of weight 2 counts as two. Not for the published algorithm.

        Returns
        -------
        self

        Raises
        ------
        KernelError
            If the kernel cannot be used or is found not to be positive semi-definite, or a row does not fit the cache.
        CapabilityError
            If rows have weights and the algorithm is "published".
        DataError
            If y holds one class, the weight of a class is not positive, or features are too large.
        """
        budget = budget_of(self.time_budget, self.callbacks, self.verbose)
        with limit_threads(self.n_jobs):
            task = self.prepare(X, y, sample_weight)
            nu = self._chosen_nu(task, budget) if self.nu == "auto" else float(self.nu)
            run = partial(solve, options=BatchOptions(batch=self._options.batch_size))
            if self._options.algorithm == "published":
                run = partial(solve_published)
            with name_the_kernel(self.kernel, INDEFINITE):
                result = run(task.problem, nu=nu, tol=task.tol, budget=budget, max_iter=self.max_iter, seed=task.seed)
        self.adopt(result, task)
        self._conclude(result, budget)
        return self

    def prepare(self, X: Features, y: Column, sample_weight: Column | None = None) -> Task:
        """Check rows and make their problem, for a solver of one's own; `fit` begins with it.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`. Classes and names of features are kept.

        Returns
        -------
        Task
            The problem, the tolerance and the seed for it, the checked rows, and which of them have a weight.
        """
        checked, labels, weight = self._checked_rows(X, y, sample_weight)
        self.classes_ = binary_classes(labels)
        codes = np.searchsorted(self.classes_, labels)
        weight = weight * class_weights(self.class_weight, self.classes_, labels)[codes]
        used = np.flatnonzero(weight > 0.0)
        refuse_missing(self.classes_, codes[used])
        sign, upper = np.where(labels[used] == self.classes_[1], 1.0, -1.0), weight[used]
        matrix = checked
        if used.shape[0] < matrix.shape[0]:  # rows without weight are left out
            matrix = matrix[np.ix_(used, used)] if self.kernel == "precomputed" else matrix[used]
        kernel = self._resolved(matrix, upper)
        self.gamma_ = kernel.gamma
        rows = KernelRows(kernel, matrix, cache_size=self.cache_size)
        rows.check_function()
        with name_the_kernel(self.kernel, INDEFINITE):
            refuse_indefinite(sampled_spectrum(rows))
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        tol = self.tol
        if tol is None:
            held = choose_rows(sign, self._options.validation_fraction, np.random.default_rng(seed))
            if self.nu == "auto" and held.shape[0] < NU.held_out:
                held = held[:0]
            upper[held] = 0.0
            tol = None if held.shape[0] else HoldOutOptions.without_rows
        return Task(KernelProblem(rows, sign, upper, self.fit_intercept), tol, seed, checked, used)

    def _chosen_nu(self, task: Task, budget: Budget) -> float:
        """What `nu="auto"` means for these rows."""
        options, problem = NU, task.problem
        # Rows that are held out to stop by have no loss, and do not choose.
        rows = np.flatnonzero(problem.upper > 0.0)
        if rows.shape[0] > options.most:
            drawn = choose_rows(problem.y[rows], options.most / rows.shape[0], np.random.default_rng(task.seed))
            rows = rows[drawn]
        y, upper = problem.y[rows], problem.upper[rows]
        if np.unique(y, return_counts=True)[1].min() < options.folds:
            return options.otherwise
        folds = StratifiedKFold(options.folds, shuffle=True, random_state=task.seed).split(y, y)
        some = replace(problem, rows=WholeMatrix(problem.rows.block(rows, rows)), y=y, upper=upper)
        # Callbacks are told of the run itself, and after Ctrl-C there is to be a model, if only its first step.
        inner = Budget(budget.seconds, started=budget.started)
        try:
            nu = nu_by_folds(some, [held for _, held in folds], options.duals, inner)
        except KeyboardInterrupt:
            budget.interrupted, nu = True, None
        return options.otherwise if nu is None else max(nu, options.least)

    def adopt(self, result: SBPResult, task: Task) -> None:
        """Set the fitted attributes by what a solver has found; `fit` ends with it.

        Parameters
        ----------
        result : SBPResult
        task : Task
            Of `prepare`.
        """
        chosen, y = np.flatnonzero(result.coef), task.problem.y
        self.support_ = task.used[chosen]
        self.support_vectors_ = np.empty((0, 0)) if self.kernel == "precomputed" else task.X[self.support_]
        self.n_support_ = np.array([(y[chosen] < 0.0).sum(), (y[chosen] > 0.0).sum()])
        self.dual_coef_ = result.coef[None, chosen]
        self.intercept_ = np.array([result.intercept])
        self.nu_ = result.nu
        self.margin_, self.margin_bound_, self.gap_ = result.margin, -result.dual, result.gap
        self.n_covered_ = result.covered
        self.held_out_error_ = None if math.isnan(result.held_out_error) else result.held_out_error
        self.status_, self.n_iter_ = str(result.status), max(result.n_iter, 1)
        self.n_evaluations_, self.history_ = result.evaluations, result.history

    def _conclude(self, result: SBPResult, budget: Budget) -> None:
        """Warn or raise according to how the run ended."""
        if interrupted(self._options, budget):
            return
        status = str(result.status)
        if result.margin <= 0.0:  # with nu > 0 there is always a positive one: that of w = 0 is nu
            fact = f"the margin found at nu={self.nu_:g} in {result.n_iter} steps is {result.margin:.2g}, not positive"
            more = {
                "time_limit": "raise time_budget", "stopped": "a callback ended the run", "max_iter": "raise max_iter",
            }.get(status, "the rows held out ended the run: give a tol")  # fmt: skip
            bound = f" and at most {self.margin_bound_:.2g}" if math.isfinite(self.margin_bound_) else ""
            if self.nu_ > 0.0:
                more += ", or raise nu" if status == "converged" else ""
                text = f"{fact}; there is one of at least {self.nu_:.2g}{bound} ({more})."
            else:
                kernel = "raise gamma" if self.kernel in ("rbf", "laplacian") else "use kernel='rbf'"
                text = f"{fact}{bound}: {more} if the rows can be separated; if not, raise nu, or {kernel}."
            warn(text, MarginConvergenceWarning)
        elif status != "converged":
            limit = "raise max_iter or tol, or use tol=None, which stops by the error on rows held out"
            warn(
                f"stopped after {result.n_iter} steps with a gap of {result.gap:.1%} between the margin and its bound "
                f"({CURES.get(status, limit)}).",
                MarginConvergenceWarning,
            )

    def decision_function(self, X: Features) -> Floats:
        """Signed scores, shape (n,); positive means `classes_[1]`. Kernel values are computed in blocks."""
        return model_scores(self, self._checked_new(X))[:, 0]

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,)."""
        return labels_of(self.decision_function(X), self.classes_)
