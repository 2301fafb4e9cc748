"""The certificate of a kernel SVM in double precision, whatever precision its steps used.

Kernel values in single precision are those of another problem: at a large C its optimum is not the user's. The scores
of all rows in double precision may cost more than the run. So those of some rows are compared with the run's, and the
largest difference, doubled, bounds the rounding of all: it is added to violation and gap. Only where that is too much
for the tolerance all scores are computed, and where the violation is then above it, the steps go on in double
precision.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, KernelResult, responses

__all__ = ["CertificateOptions", "certified"]


@dataclass(frozen=True)
class CertificateOptions:
    """How the rounding is measured.

    Attributes
    ----------
    compared : int, default=512
        Rows whose scores are compared, half of them at random, the others those that decide the violation. The errors
        are sums of many small ones, hence nearly normal: the largest of 20,000 is 1.3 times the largest of 512.
    safety : float, default=2
        Factor on the largest difference.
    """

    compared: int = 512
    safety: float = 2.0


def certified(
    problem: KernelProblem, result: KernelResult, exact: Callable[[Ints], KernelMatrix], tol: float,
    options: CertificateOptions = CertificateOptions(),
) -> KernelResult:  # fmt: skip
    """The result with a violation and a gap that hold for the kernel values in double precision.

    Parameters
    ----------
    problem : KernelProblem
    result : KernelResult
        Of a solver that knows its scores and its violation; any other is returned as it is.
    exact : callable
        `exact(rows)`: the kernel matrix of some rows in double precision.
    tol : float
        Violation up to which a bound is enough; above it all scores are computed, and the result has them.
    """
    scores, coef, n = result.scores, result.coef, problem.n_rows
    if scores is None or not np.isfinite(result.violation):
        return result
    if n > 2 * options.compared:
        doubt = options.safety * _largest_error(problem, result, scores, exact, options.compared)
        # Either side of the violation may be off by so much.
        violation = result.violation + 2.0 * doubt
        if violation <= tol:
            primal = result.primal + doubt * _leverage(problem, coef, scores + result.intercept, doubt)
            return replace(result, primal=primal, violation=violation)
    scores = responses(exact(np.arange(n)), coef)
    # Other scores have another best bias; with the old one the primal value would be larger than it need be.
    intercept = problem.optimal_bias(scores)
    primal, dual, violation = problem.values(coef, scores, intercept)
    return replace(result, intercept=intercept, primal=primal, dual=dual, violation=violation, scores=scores)


def _largest_error(
    problem: KernelProblem, result: KernelResult, scores: Floats, exact: Callable[[Ints], KernelMatrix], count: int
) -> float:
    """The largest error of the scores of `count` rows, as far as it can matter."""
    coef, n, gradient = result.coef, problem.n_rows, problem.y - scores
    lower, upper = problem.bounds()
    # Half of the rows speak for all, the other half are those whose gradients decide the violation on either side.
    some = np.random.default_rng(0).choice(n, count // 2, replace=False)
    up = np.argpartition(np.where(coef < upper, -gradient, np.inf), count // 4)[: count // 4]
    down = np.argpartition(np.where(coef > lower, gradient, np.inf), count // 4)[: count // 4]
    rows, support = np.unique(np.concatenate((some, up, down))), np.flatnonzero(coef)
    # The matrix in double precision holds the compared rows and the support vectors, and nothing of the rest.
    both, right = np.union1d(rows, support), np.zeros(rows.shape[0])
    matrix = exact(both)
    matrix.add(np.searchsorted(both, support), coef[support], right, np.searchsorted(both, rows))
    # A row without a coefficient matters below its margin only: above it solvers need not know its score.
    y, most = problem.y[rows], np.where(coef[rows] == 0.0, 1.0 + 2.0 * result.violation, np.inf)
    margins = [np.minimum(y * (values + result.intercept), most) for values in (right, scores[rows])]
    return float(np.abs(margins[0] - margins[1]).max(initial=0.0))


def _leverage(problem: KernelProblem, coef: Floats, responses: Floats, doubt: float) -> float:
    """How much `primal - dual` can change where no score changes by more than one, up to `doubt` in all.

    `primal - dual = sum_i C_i hinge_i + coef_i s_i - y_i coef_i`: the derivative by s_i is 0 for a row at its bound
    with a loss, as `coef_i = y_i C_i`, and at a kink it is one of two.
    """
    excess = 1.0 - problem.y * responses
    a = np.abs(coef)
    # Beyond its margin a row has no loss, and only its coefficient weighs its score.
    derivative = np.where(excess > 0.0, problem.upper - a, a)
    at_kink = np.abs(excess) <= doubt
    return float(np.where(at_kink, np.maximum(problem.upper - a, a), derivative).sum())
