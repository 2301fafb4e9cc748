"""A path over nu: along the Pareto front of norm and mean hinge loss, with the C of every nu and the nu of every C.

The solution w of the SVM with parameter C solves the slack-constrained problem at a nu, `h / |w|` with its mean hinge
loss h; nu falls as C grows. Both ways lead through the working-set dual
(`widemargin.solvers.kernel_svm.batch_perceptron.svms_by_nu`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from widemargin.exceptions import DataError
from widemargin.extending import Floats
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.batch_perceptron import nu_form
from widemargin.solvers.kernel_svm.batch_perceptron.direction import BatchOptions, cached_responses
from widemargin.solvers.kernel_svm.batch_perceptron.run import SBPResult, relative_weight
from widemargin.solvers.kernel_svm.batch_perceptron.svms_by_nu import SVMsByNu, norm_and_hinge
from widemargin.solvers.kernel_svm.problem import KernelProblem


@dataclass(frozen=True)
class ParetoPoint:
    """A classifier on the front, with what proves how near to it.

    Attributes
    ----------
    nu : float
    norm : float
        |w| of the classifier of margin 1; infinite where no direction of norm 1 with a positive margin was found.
    mean_hinge : float
        nu |w|, up to rounding.
    seconds : float
        Since the beginning of the path.
    result : SBPResult
        Its `margin` has the bound `-dual`: every classifier with `mean_hinge <= nu norm` has `norm >= 1 / bound`.
    """

    nu: float
    norm: float
    mean_hinge: float
    seconds: float
    result: SBPResult


def nu_from_c(problem: KernelProblem) -> float:
    """The nu whose slack-constrained problem has the solution of this SVM.

    Parameters
    ----------
    problem : KernelProblem
        `upper` is C times the weights.

    Raises
    ------
    DataError
        If w = 0 is optimal, where no direction is defined.
    """
    nu = SVMsByNu(problem).at(1.0).nu
    if math.isinf(nu):
        raise DataError(f"w = 0 is optimal at C={problem.upper.max():g}, so there is no nu; raise C.")
    return nu


def c_from_nu(problem: KernelProblem, nu: float) -> float:
    """The least C whose SVM has the solution of the slack-constrained problem at nu; rows keep their relative weights.

    Parameters
    ----------
    problem : KernelProblem
        Only the ratios of `upper` matter.
    nu : float
        Positive.

    Returns
    -------
    float
        C of the rows of largest weight: the least whose nu is at most `1.0001 nu`. On rows of few columns w does not
        change over whole intervals of C (with d columns, where d + 1 margins are exactly 1), and nor does nu.

    Raises
    ------
    DataError
        If no C from 1e-12 to 1e12 has this nu: it is too large, or (where the rows cannot be separated) too small. The
        search ends where C has grown a thousandfold without a smaller nu.
    """
    return SVMsByNu(replace(problem, upper=relative_weight(problem))).of(nu).factor


def nu_path(
    problem: KernelProblem, nus: Sequence[float], *, tol: float | None = 0.05, budget: Budget | None = None,
    max_iter: int = 2000, seed: int = 0, options: BatchOptions | None = None,
) -> Iterator[ParetoPoint]:  # fmt: skip
    """Classifiers along the front, each from the one before, from the largest nu to the smallest.

    They are divided by the norms of their directions (`unit_norm` of `nu_form.solve`), so each lies at its nu, and its
    gap is that of the front.

    Parameters
    ----------
    problem : KernelProblem
        `upper` gives the weights of rows.
    nus : sequence of float
    tol : float or None, default=0.05
        Relative gap of every point; None stops each by the rows held out.
    budget : Budget, optional
        Of the whole path, which ends where it does.
    max_iter : int, default=2000
        Largest number of steps of a point.
    seed : int, default=0
    options : BatchOptions, optional
    """
    budget = budget or Budget()
    start: Floats | None = None
    # From the largest nu: its problem is the easiest, and each starts the next.
    for nu in sorted({float(nu) for nu in nus}, reverse=True):
        result = nu_form.solve(
            problem, nu=nu, tol=tol, start=start, budget=budget, max_iter=max_iter, seed=seed, unit_norm=True,
            options=options,
        )  # fmt: skip
        # Along a path the support vectors change little, so most of their kernel rows are in the cache.
        scores = cached_responses(problem.rows, result.coef)
        norm, hinge = norm_and_hinge(problem, result.coef, result.intercept, scores)
        yield ParetoPoint(nu, norm if result.margin > 0.0 < norm else math.inf, hinge, budget.elapsed, result)
        if budget.exhausted:
            return
        start = result.coef
