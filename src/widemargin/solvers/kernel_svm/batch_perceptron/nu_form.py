"""The stochastic batch perceptron for the slack-constrained SVM (Cotter, Shalev-Shwartz and Srebro, ICML 2012).

    maximise over |w| <= 1, b, xi >= 0:   gamma = min_i y_i (<w, phi(x_i)> + b) + xi_i,   sum_i u_i xi_i <= nu sum_i u_i

(equation 2.3; u are relative weights, 1 in the paper). The value at a direction is its water level
(`water_level`), and a supergradient the mean of `y_i phi(x_i)` over the covered rows: one kernel row estimates
it. Every law p of rows, with half of its mass on each class where there is a bias, bounds the margin:

    gamma <= |sum_i p_i y_i phi(x_i)| + nu (sum_i u_i) max_i p_i / u_i
"""

import math

from widemargin._typing import Floats
from widemargin.exceptions import CapabilityError, DataError
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.batch_perceptron.direction import BatchOptions, Direction
from widemargin.solvers.kernel_svm.batch_perceptron.run import Judged, SBPResult, relative_weight, run
from widemargin.solvers.kernel_svm.batch_perceptron.water_level import Level, WaterLevel, divide_and_conquer
from widemargin.solvers.kernel_svm.problem import KernelProblem

__all__ = ["solve", "solve_published"]


class _SlackForm:
    """The slack-constrained form (margin 1: the direction divided by gamma, if positive).

    With `unit_norm` only directions of norm 1 count. One of norm s < 1 may have a larger margin where rows can hardly
    be separated at nu; its classifier of margin 1 has the mean hinge loss `nu / s |w|`, so it solves a larger nu.
    """

    def __init__(self, problem: KernelProblem, nu: float, *, unit_norm: bool = False) -> None:
        self.weight = relative_weight(problem)
        self._counts = self.weight > 0.0
        self.nu, self.volume, self._unit_norm = nu, nu * float(self.weight.sum()), unit_norm
        self._y = problem.y
        # Two of them, as each remembers its last level as a start for the next, and the average lags behind.
        self.water, self._of_average = (WaterLevel(problem.y, self.weight, problem.fit_intercept) for _ in range(2))

    def level(self, direction: Direction) -> Level:
        return self.water.of_volume(direction.scores, self.volume / direction.scale)

    def judge(self, coef: Floats, scores: Floats) -> Judged:
        norm = math.sqrt(max(float(coef @ scores), 0.0))
        scale, best = 1.0, None
        factors = {1.0 / norm} if norm > 0.0 else {1.0}
        if norm > 0.0 and not self._unit_norm:
            # A direction shorter than 1 may have the larger margin where slack is dear.
            factors.add(min(1.0, 1.0 / norm))
        # The slack does not shrink with the direction, so its margin is not linear in the scale: both are tried.
        for factor in factors:
            level = self._of_average.of_volume(factor * scores, self.volume)
            if best is None or level.gamma > best.gamma:
                scale, best = factor, level
        assert best is not None
        margin = best.gamma
        # Without a positive margin there is no classifier of margin 1 to scale to.
        divisor = margin if margin > 0.0 else 1.0
        coef, scores = scale / divisor * coef, scale / divisor * scores
        return Judged(coef, scores, best.bias / divisor, -margin, margin, self.nu, best.covered)

    def bound(self, mass: Floats, norm: float) -> float:
        rows = self._counts
        # The bound in the head of this file, with its sign turned: the objective is minimised.
        return -(norm + self.volume * float((mass[rows] / self.weight[rows]).max()))


class _PublishedForm(_SlackForm):
    """The same with the level found by halving (Algorithms 2 and 3), for rows of equal weight."""

    def __init__(self, problem: KernelProblem, nu: float) -> None:
        super().__init__(problem, nu)
        if (self.weight[self._counts] != 1.0).any():
            raise CapabilityError(
                f"the published algorithm takes no weights, and they differ by a factor of "
                f"{1.0 / self.weight[self._counts].min():.3g}; leave them out or use solve()."
            )
        self._second = self._counts & (problem.y < 0.0) if problem.fit_intercept else None
        self._first = self._counts if self._second is None else self._counts & (problem.y > 0.0)

    def level(self, direction: Direction) -> Level:
        # Margins in units of the direction as it is kept; the volume is divided by its scale instead of each of them.
        responses = self._y * direction.scores
        second = None if self._second is None else responses[self._second]
        return divide_and_conquer(responses[self._first], second, self.volume / direction.scale)


def solve(
    problem: KernelProblem,
    *,
    nu: float,
    tol: float | None = 0.1,
    start: Floats | None = None,
    budget: Budget | None = None,
    max_iter: int = 10_000,
    unit_norm: bool = False,
    seed: int = 0,
    options: BatchOptions | None = None,
) -> SBPResult:
    """Mini-batch form: the supergradient is estimated by several covered rows, whose kernel rows are cached.

    Parameters
    ----------
    problem : KernelProblem
        `upper` gives the relative weights u of rows.
    nu : float
        Mean slack, >= 0, in units of the normalised direction. Raising it covers more rows.
    tol : float or None, default=0.1
        Largest relative gap between the margin and its bound; None stops by the rows held out. The bound is loose:
        below a few percent it costs many times the steps.
    start : ndarray of shape (n,), optional
        Coefficients of a direction to begin from.
    budget : Budget, optional
    max_iter : int, default=10,000
        Largest number of steps.
    unit_norm : bool, default=False
        Whether only directions of norm 1 count, so that the classifier of margin 1 has `mean hinge loss <= nu |w|`. The
        problem also allows shorter ones, which may have a larger margin; theirs is `nu / |direction| |w|`.
    seed : int, default=0
    options : BatchOptions, optional
        By default the draws are unbiased.

    Returns
    -------
    SBPResult
        `coef` and `intercept` have margin 1. Where the margin found is not positive they are those of the direction
        itself: no positive margin was found at this nu.

    Raises
    ------
    KernelError
        If the kernel turns out not to be positive semi-definite, or the cache does not hold the rows of a step.
    DataError
        If nu is negative or not finite, or a class is missing that the bias needs.
    CapabilityError
        If tol is None and no row is held out.
    """
    form = _SlackForm(problem, _checked(problem, nu), unit_norm=unit_norm)
    options = options or BatchOptions()
    return run(problem, form, options, tol=tol, start=start, budget=budget, max_iter=max_iter, seed=seed)


def solve_published(
    problem: KernelProblem, *, nu: float, tol: float | None = 0.1, budget: Budget | None = None,
    max_iter: int = 10_000, seed: int = 0,
) -> SBPResult:  # fmt: skip
    """Algorithm 1 as published: one covered row a step, computed afresh, its level by halving, the plain average.

    Parameters and result as in `solve`; the average is scaled to norm 1 where its margin is larger there. A step costs
    n kernel evaluations.
    """
    form = _PublishedForm(problem, _checked(problem, nu))
    # A step draws one row, so it takes ten times as many of them until some of every kind have been drawn.
    options = BatchOptions(batch=1, power=0, least_steps=500)
    return run(problem, form, options, tol=tol, budget=budget, max_iter=max_iter, seed=seed, cache=False)


def _checked(problem: KernelProblem, nu: float) -> float:
    if not (math.isfinite(nu) and nu >= 0.0):
        raise DataError(f"nu={nu!r} must be a finite number >= 0.")
    counts = problem.upper > 0.0
    n_positive, n = int((problem.y[counts] > 0).sum()), int(counts.sum())
    if n == 0 or (problem.fit_intercept and n_positive in (0, n)):
        raise DataError(
            f"there are {n_positive} positive and {n - n_positive} negative rows; with a bias the margin of one class "
            "is unbounded. Give rows of both, or no bias."
        )
    return float(nu)
