"""Norm against mean hinge loss: the path of an `SBPClassifier` over nu, its plot, and which C each nu is."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from widemargin import SBPClassifier
from widemargin.exceptions import CapabilityError, DataError, MarginConvergenceWarning
from widemargin.extending import Column, Features, Floats, axes_for, budget_of, limit_threads, positive_numbers, warn
from widemargin.solvers.base import Status
from widemargin.solvers.kernel_svm.batch_perceptron.direction import BatchOptions
from widemargin.solvers.kernel_svm.problem import KernelProblem
from widemargin_papers.solvers.nu_path import c_from_nu, nu_from_c, nu_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


@dataclass(frozen=True, eq=False)
class ParetoPath:
    """Classifiers between a small norm and a small hinge loss, each with a proof of how near to the front it is.

    Attributes
    ----------
    nu : ndarray of shape (K,)
        Falling.
    norm : ndarray of shape (K,)
        |w| of the classifier of margin 1; infinite where none with `mean_hinge <= nu norm` was found.
    mean_hinge : ndarray of shape (K,)
        Mean hinge loss on the training rows, by weight; `nu norm` up to rounding.
    least_norm : ndarray of shape (K,)
        No classifier with `mean_hinge <= nu norm` has a smaller norm: the certificate, at most `norm`.
    evaluations : ndarray of shape (K,)
        Kernel values computed for the path up to here.
    seconds : ndarray of shape (K,)
    models : tuple of SBPClassifier
        The fitted classifiers.
    """

    nu: Floats
    norm: Floats
    mean_hinge: Floats
    least_norm: Floats
    evaluations: npt.NDArray[np.int64]
    seconds: Floats
    models: tuple[SBPClassifier, ...]

    @property
    def gap(self) -> Floats:
        """`norm / least_norm - 1`, shape (K,); infinite where one of the two says nothing."""
        with np.errstate(divide="ignore"):
            return self.norm / self.least_norm - 1.0

    def to_dict(self) -> dict[str, list[float]]:
        """The numbers as lists, by name; without the models."""
        names = ("nu", "norm", "mean_hinge", "least_norm", "gap", "evaluations", "seconds")
        return {name: getattr(self, name).tolist() for name in names}

    def to_frame(self) -> Any:
        """The numbers as a pandas DataFrame, one row a model."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())


@dataclass(kw_only=True, eq=False, repr=False)
class ParetoDisplay:
    """Mean hinge loss against norm, with the part of the plane that the certificates rule out.

    Made by `from_path`; the constructor takes the computed arrays.

    Parameters
    ----------
    norm, mean_hinge : ndarray of shape (K,)
        Of the classifiers; those of infinite norm are left out.
    nu, least_norm : ndarray of shape (K,)
        No classifier with `mean_hinge <= nu norm` has a norm below `least_norm`.

    Attributes
    ----------
    line_ : matplotlib Line2D
    ruled_out_ : matplotlib PolyCollection
        Below and left of the front: no classifier is there.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from widemargin_papers.pareto import ParetoDisplay
    >>> display = ParetoDisplay.from_path(path)  # doctest: +SKIP
    >>> display.figure_.savefig("front.png")  # doctest: +SKIP
    """

    norm: Floats
    mean_hinge: Floats
    nu: Floats
    least_norm: Floats

    @classmethod
    def from_path(cls, path: ParetoPath, *, ax: "Axes | None" = None, **kwargs: Any) -> "ParetoDisplay":
        """Plot what `pareto_path` gives.

        Parameters
        ----------
        path : ParetoPath
        ax : matplotlib Axes, optional
            Default: a new figure.
        **kwargs
            Given to matplotlib's `plot`.

        Returns
        -------
        ParetoDisplay
        """
        display = cls(norm=path.norm, mean_hinge=path.mean_hinge, nu=path.nu, least_norm=path.least_norm)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: "Axes | None" = None, **kwargs: Any) -> "ParetoDisplay":
        """Draw the front, on a logarithmic axis of the norm.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            Given to matplotlib's `plot`.

        Returns
        -------
        self

        Raises
        ------
        MissingLibraryError
            If matplotlib is not installed.
        """
        (axes,) = axes_for(ax)
        self.ax_, self.figure_ = axes, axes.figure
        finite = np.isfinite(self.norm)
        order = np.argsort(self.norm[finite], kind="stable")
        norm, hinge = self.norm[finite][order], self.mean_hinge[finite][order]
        style: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 1.2, "label": "classifiers found"}
        self.line_: Line2D = axes.plot(norm, hinge, **(style | kwargs))[0]
        left = 0.8 * min(float(self.least_norm.min()), float(norm.min(initial=np.inf)))
        right = 1.1 * max(float(self.least_norm.max()), float(norm.max(initial=0.0)))
        # A curve below which no classifier lies: of norm r it has a hinge loss above `nu r` if `r < least_norm`.
        x = np.union1d(np.geomspace(left, right, 400), self.least_norm)
        y = np.where(x[:, None] < self.least_norm, self.nu * x[:, None], 0.0).max(axis=1)
        gray: dict[str, Any] = {"alpha": 0.15, "color": "gray", "linewidth": 0.0}
        self.ruled_out_ = axes.fill_between(x, y, label="no classifier is here", **gray)
        axes.set(xscale="log", xlabel="norm of w", ylabel="mean hinge loss", xlim=(left, x[-1]))
        axes.legend()
        return self


def pareto_path(
    classifier: SBPClassifier, X: Features, y: Column, *, nus: Iterable[float], sample_weight: Column | None = None
) -> ParetoPath:
    """Models along nu, each started from the solution of its larger neighbour.

    Parameters
    ----------
    classifier : SBPClassifier
        Gives all parameters but nu; it is not changed. `time_budget`, `callbacks` and `n_jobs` are those of the whole
        path, `tol` and `max_iter` of each model.
    X : array-like or CSR matrix of shape (n, d)
    y : array-like of shape (n,)
    nus : iterable of float
        Positive numbers, in any order.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    ParetoPath
        Shorter than `nus` where the budget ends it; then there is a warning, and another where models did not reach
        `tol` within `max_iter` steps.

    Raises
    ------
    DataError
        If a nu is not positive.
    CapabilityError
        If the model is no SBPClassifier.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SBPClassifier
    >>> from widemargin_papers.pareto import pareto_path
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> path = pareto_path(SBPClassifier(gamma=2.0, tol=0.05, random_state=0), X, y, nus=[0.1, 0.01])
    >>> bool(path.norm[0] < path.norm[1]) and bool(path.mean_hinge[0] > path.mean_hinge[1])
    True
    >>> bool(((path.gap >= 0.0) & (path.gap <= 0.06)).all())
    True
    """
    _refuse_others(classifier, "pareto_path")
    values = positive_numbers("nus", nus)
    model = clone(classifier)
    model._validate_params()
    options = model._options
    budget = budget_of(model.time_budget, model.callbacks, model.verbose)
    with limit_threads(model.n_jobs):
        task = model.prepare(X, y, sample_weight)
        points = list(nu_path(
            task.problem, values, tol=task.tol, budget=budget, max_iter=model.max_iter, seed=task.seed,
            options=BatchOptions(batch=options.batch_size),
        ))  # fmt: skip
    models, names = [], ("classes_", "gamma_", "n_features_in_", "feature_names_in_")
    for point in points:
        one = clone(model).set_params(nu=point.nu)
        vars(one).update({name: vars(model)[name] for name in names if name in vars(model)})
        one.adopt(point.result, task)
        models.append(one)
    path = ParetoPath(
        nu=np.array([point.nu for point in points]),
        norm=np.array([point.norm for point in points]),
        mean_hinge=np.array([point.mean_hinge for point in points]),
        least_norm=1.0 / np.array([-point.result.dual for point in points]),
        evaluations=np.array([point.result.evaluations for point in points]),
        seconds=np.array([point.seconds for point in points]),
        models=tuple(models),
    )
    if budget.interrupted and options.on_interrupt == "raise":
        raise KeyboardInterrupt
    # points that are not as near to the front as was asked for; those of a spent budget are named below
    ended = np.array([point.result.status == Status.MAX_ITER for point in points])
    lost = np.array([point.result.status in (Status.MAX_ITER, Status.CONVERGED) for point in points])
    lost &= np.isinf(path.norm)
    facts = [(ended & ~lost, f"the gap is up to {path.gap[ended & ~lost].max(initial=0.0):.1%}")]
    facts.append((lost, "no classifier with mean_hinge <= nu norm was found"))
    told = [f"at nu={', '.join(f'{nu:.3g}' for nu in path.nu[which])} {fact}" for which, fact in facts if which.any()]
    if told:
        warn(
            f"{'; '.join(told)} after at most {model.max_iter} steps: raise max_iter or tol, or leave out so small a "
            "nu.",
            MarginConvergenceWarning,
        )
    if budget.exhausted:
        many = f"{len(points)} of {len(set(values))} models"
        warn(f"the path ended at {many} after {budget.elapsed:.1f} s; give it more time.", MarginConvergenceWarning)
    return path


def nu_from_C(
    classifier: SBPClassifier, X: Features, y: Column, *, C: float, sample_weight: Column | None = None
) -> float:
    """The nu at which `SBPClassifier` seeks the same classifier as `SVC(C=C)` with the same kernel.

    The SVM is solved by the working-set dual; nu is its mean hinge loss divided by its norm.

    Parameters
    ----------
    classifier : SBPClassifier
        Gives the kernel, `fit_intercept`, `class_weight`, `cache_size` and `n_jobs`; it is not changed.
    X : array-like or CSR matrix of shape (n, d)
    y : array-like of shape (n,)
    C : float
        As in scikit-learn: `1/2 |w|^2 + C sum loss`.
    sample_weight : array-like of shape (n,), optional

    Raises
    ------
    DataError
        If C is not positive, or w = 0 is optimal.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SBPClassifier
    >>> from widemargin_papers.pareto import C_from_nu, nu_from_C
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> nu = nu_from_C(SBPClassifier(gamma=2.0), X, y, C=3.0)
    >>> round(C_from_nu(SBPClassifier(nu, gamma=2.0), X, y), 2)
    3.0
    """
    _refuse_others(classifier, "nu_from_C")
    if not (isinstance(C, int | float | np.number) and 0.0 < C < math.inf):
        raise DataError(f"C={C!r} must be a finite number > 0.")
    with limit_threads(classifier.n_jobs):
        problem = _whole_problem(classifier, X, y, sample_weight)
        scaled = KernelProblem(problem.rows, problem.y, C * problem.upper, problem.fit_intercept)
        return nu_from_c(scaled)


def C_from_nu(classifier: SBPClassifier, X: Features, y: Column, *, sample_weight: Column | None = None) -> float:
    """The least C of an SVM whose solution is that of the classifier's nu: the inverse of `nu_from_C`.

    On rows of few columns several C have the same solution: w then stays the same over whole intervals of C, while the
    dual coefficients grow. This is the beginning of the interval.

    Some ten SVMs are solved by the working-set dual, each from the last one.

    Parameters
    ----------
    classifier : SBPClassifier
        Gives nu and the parameters named in `nu_from_C`.
    X, y, sample_weight
        As there.

    Returns
    -------
    float
        The least C whose nu is at most `1.0001 nu`. nu itself is computed to about 1e-4 relatively where the losses are
        not tiny, so C is less exact where nu falls slowly.

    Raises
    ------
    DataError
        If no C has this nu.
    """
    _refuse_others(classifier, "C_from_nu")
    with limit_threads(classifier.n_jobs):
        problem = _whole_problem(classifier, X, y, sample_weight)
        return c_from_nu(problem, float(classifier.nu)) / float(problem.upper.max())


def _refuse_others(classifier: object, name: str) -> None:
    """Refuse models that have no nu."""
    if not isinstance(classifier, SBPClassifier):
        raise CapabilityError(
            f"{name} needs an SBPClassifier, not {type(classifier).__name__}: give SBPClassifier(kernel=..., gamma=...)"
            " with the same kernel, and rows that are already transformed."
        )


def _whole_problem(classifier: SBPClassifier, X: Features, y: Column, sample_weight: Column | None) -> KernelProblem:
    model = clone(classifier).set_params(tol=0.1)  # no row is held out
    model._validate_params()
    problem: KernelProblem = model.prepare(X, y, sample_weight).problem
    return problem
