"""Kernel SVMs by nu in place of C: the SVM of a given nu, found by the working-set dual.

The solution w of the SVM with parameter C solves the slack-constrained problem at

    nu = h / |w|,     h = sum_i u_i max(0, 1 - y_i f(x_i)) / sum_i u_i

with margin `1 / |w|`. nu falls as C grows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints
from widemargin.exceptions import DataError
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult

__all__ = ["Dual", "NuSearch", "SVMsByNu", "norm_and_hinge", "nu_by_folds"]


@dataclass(frozen=True)
class NuSearch:
    """How the C of a nu is looked for.

    Attributes
    ----------
    tol : float, default=1e-4
        Violation up to which the dual is solved: nu takes its precision from the hinge losses, which may be small.
    near : float, default=0
        A nu within this relative distance of the one that is sought is as good.
    same : float, default=1e-4
        Relative difference between nus that count as one: what `tol` leaves open.
    widest : float, default=1e12
        C is sought between one over this and this, where the largest K(x, x) is 1.
    step : float, default=log 10
        Between the values of log C that are tried first: each is a good start for the next.
    flat, decades : float and int, default=1e-3, 3
        A nu that has not fallen by this share in so many steps will not fall any more.
    precision : float, default=1e-4
        Of log C.
    """

    tol: float = 1e-4
    near: float = 0.0
    same: float = 1e-4
    widest: float = 1e12
    step: float = math.log(10.0)
    flat: float = 1e-3
    decades: int = 3
    precision: float = 1e-4


class Dual(NamedTuple):
    """An SVM of the family: what `upper` is multiplied by, its nu, its solution, and the solution's `K coef`."""

    factor: float
    nu: float
    coef: Floats
    intercept: float
    scores: Floats


class SVMsByNu:
    """The SVMs of one problem with C multiplied, each solved once and from the one before.

    Parameters
    ----------
    problem : KernelProblem
    search : NuSearch, optional
    budget : Budget, optional
        Of all together.
    """

    def __init__(self, problem: KernelProblem, search: NuSearch = NuSearch(), *, budget: Budget | None = None) -> None:
        self._problem, self._search, self._budget = problem, search, budget
        self._solved: dict[float, Dual] = {}
        self._last: Dual | None = None

    def at(self, factor: float, result: KernelResult | None = None) -> Dual:
        """The SVM with `upper` multiplied, or the `result` where it is known; its nu is infinite where w = 0."""
        if factor not in self._solved:
            problem = replace(self._problem, upper=factor * self._problem.upper)
            if result is None:
                start, scores = (None, None) if self._last is None else self._grown(self._last, problem, factor)
                result = working_set.solve(
                    problem, tol=self._search.tol, start=start, scores=scores, budget=self._budget
                )
            # Half a solution has another nu, which would lead the search astray.
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            assert result.scores is not None
            norm, hinge = norm_and_hinge(problem, result.coef, result.intercept, result.scores)
            nu = hinge / norm if norm > 0.0 else math.inf
            self._last = Dual(factor, nu, result.coef, result.intercept, result.scores)
            self._solved[factor] = self._last
        return self._solved[factor]

    @staticmethod
    def _grown(last: Dual, problem: KernelProblem, factor: float) -> tuple[Floats, Floats]:
        """The last solution multiplied, as far as bounds allow and the dual gains; and its scores.

        Where most support vectors are at their bound the solution grows with C, and what is left to do is little. On
        50 values of C from 1e-3 to 1e3 and 4,000 rows of a9a it takes a third of the working sets.
        """
        square = float(last.coef @ last.scores)
        most = float(problem.y @ last.coef) / square if square > 0.0 else math.inf  # the top of the dual along it
        share = min(factor / last.factor, max(1.0, most))
        start, size = share * last.coef, np.abs(share * last.coef)
        # Rounding must not leave what was at its bound just below it: it would count as free to move.
        bound = size >= (1.0 - 1e-12) * problem.upper
        start[bound] = np.copysign(problem.upper[bound], start[bound])
        return start, share * last.scores

    def of(self, nu: float) -> Dual:
        """The SVM of the least factor that has this nu; with `near` any that is as near.

        Raises
        ------
        DataError
            If none has.
        """
        if not (nu > 0.0 and math.isfinite(nu)):
            raise DataError(f"nu={nu!r} must be a finite number > 0; nu = 0 is the hard margin, an infinite C.")
        search, widest = self._search, math.log(self._search.widest)

        def excess(u: float) -> float:
            value = math.log(max(self.at(math.exp(u)).nu, 1e-300) / nu)
            if search.near > 0.0:
                return 0.0 if abs(value) <= search.near else value
            return value - search.same  # 0 at the beginning of an interval where nu stays the same

        # Where the largest K(x, x) is 1 a C of 1 is a middling one.
        first = -math.log(max(float(self._problem.rows.diagonal().max(initial=0.0)), 1e-300))
        low = high = first
        tried: list[float] = []
        while excess(high) > 0.0:
            tried.append(self.at(math.exp(high)).nu)
            low, high = high, high + search.step
            # On rows that cannot be separated nu falls to a limit above 0 and no further.
            settled = len(tried) > search.decades and tried[-1] > (1.0 - search.flat) * tried[-1 - search.decades]
            if settled or high - first > widest:
                raise DataError(
                    f"nu={nu:g} is smaller than that of every C up to {math.exp(low):.0e}, which has "
                    f"{self.at(math.exp(low)).nu:.3g}: the rows cannot be separated so far. Raise nu, or use a "
                    "kernel that separates them."
                )
        # Towards smaller C nu grows without limit, so only the range of C ends this search.
        while excess(low) < 0.0:
            low, high = low - search.step, low
            if first - low > widest:
                raise DataError(f"nu={nu:g} is larger than that of every C down to {math.exp(high):.0e}; lower nu.")
        return self.at(math.exp(brentq(excess, low, high, xtol=search.precision) if low < high else low))


def norm_and_hinge(problem: KernelProblem, coef: Floats, intercept: float, scores: Floats) -> tuple[float, float]:
    """|w| and the mean hinge loss of a classifier, by weight."""
    hinge = np.maximum(0.0, 1.0 - problem.y * (scores + intercept))
    return math.sqrt(max(float(coef @ scores), 0.0)), float(problem.upper @ hinge / problem.upper.sum())


def nu_by_folds(problem: KernelProblem, folds: Sequence[Ints], search: NuSearch, budget: Budget) -> float | None:
    """The nu of the SVM that errs least on rows held out in turn, of SVMs whose C grow by decades.

    Parameters
    ----------
    problem : KernelProblem
        Its `upper` weighs the errors, too.
    folds : sequence of ndarray of int
        Rows held out.
    search : NuSearch
        C goes from a tenth to the `widest`, where the largest K(x, x) is 1.
    budget : Budget

    Returns
    -------
    float or None
        In the mean over the folds; of equal errors that of the smallest C. None where no SVM is more than a constant,
        or there is no time.
    """
    paths = []
    for held in folds:
        upper = problem.upper.copy()
        upper[held] = 0.0  # without a loss; their scores come with the solution
        paths.append(SVMsByNu(replace(problem, upper=upper), search, budget=budget))
    best, least, size = None, math.inf, float(problem.rows.diagonal().max(initial=0.0))
    for decade in range(-1, 1 + round(math.log10(search.widest))):
        factor = 10.0**decade / max(size, 1e-300)

        def solve(first: int, last: int, factor: float = factor) -> list[Dual]:
            return [path.at(factor) for path in paths[first:last]]

        duals = [dual for part in in_threads(len(paths), 1, solve) for dual in part]
        if budget.exhausted:
            break
        missed = sum(
            float(problem.upper[held] @ (problem.y[held] * (dual.scores[held] + dual.intercept) <= 0.0))
            for held, dual in zip(folds, duals, strict=True)
        )
        nu = float(np.mean([dual.nu for dual in duals]))
        if missed < least:
            best, least = nu if math.isfinite(nu) else None, missed
    return best
