"""The working-set dual on nested subsamples with active columns: most of the work is done on few rows.

    for m = n/8, n/2, n:
        scores of the m rows, from the support vectors of the last level
        active = support vectors and rows with a margin below 1.2
        solve the dual in the active variables: the kernel rows are only as long as there are active rows
    at the end the scores of the other rows that could matter; those that violate become active, and the last step is
    repeated

Where most support vectors of the first level are at their bound (noisy labels), a level starts from "the rows with the
lowest margins of each class at their bound", as many as the last level foretells; and else, or where these are worse
than no model (large C, narrow kernel), from the last coefficients.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.hold_out import HoldOut, could_gain
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult, optimal_bias, values
from widemargin.solvers.kernel_svm.progress import Best

__all__ = ["covered", "solve"]

LEVELS = (8, 2)
"""Shares of the rows, one over these numbers, that are solved before all of them."""

LEAST = 1000
"""Levels of fewer rows are left out."""

MARGIN = 1.2
"""Rows of a smaller margin are active."""

LOOSE = 0.1
"""Tolerance of the levels before the last one."""

CHECKED = 0.02
"""Tolerance at which the rows that are not active are looked at for the first time."""

ROUNDS = 50
"""Most times that they are looked at."""


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    size: int = working_set.SIZE,
    seed: int = 0,
    positive: bool = True,
) -> KernelResult:
    """Solve the dual of a kernel SVM by nested subsamples; the certificate is over all rows.

    Parameters
    ----------
    problem : KernelProblem
    tol : float or None, default=1e-3
        Largest violation of the optimality conditions over all rows, LIBSVM's measure. None: every level, the last one
        too, is solved to `LOOSE`, and the run ends where the rows held out say that more rows would not pay. Where
        labels are noisy all rows are solved to `LOOSE`: no number of rows held out would tell.
    start : ndarray of shape (n,), optional
        `coef` to begin from; the subsamples are then left out.
    budget : Budget, optional
        When it runs out the best model of the level is returned, by the primal value on its rows (or on all rows, where
        these were looked at), and the scores of all rows are still computed, for the certificate.
    size : int, default=1024
        Rows of a working set.
    seed : int, default=0
        Of the subsamples.
    positive : bool, default=True
        Whether the kernel is positive semi-definite. If not, norms bound nothing, and the scores of all rows are
        computed where else those of the rows that could matter are.

    Returns
    -------
    KernelResult
        `n_iter` counts the working sets. With `tol=None` `primal` and `violation` may be NaN: the rows that are not
        active have not been looked at. Entries of the history have `rows`, the number of rows that `primal` counts:
        only those with all n rows are certificates of the problem.
    """
    budget = budget or Budget()
    n = problem.n_rows
    run = _Run(problem, budget, size, start, tol is not None, positive)
    order = np.random.default_rng(seed).permutation(n)
    sizes = [n // share for share in LEVELS if n // share >= LEAST] if start is None else []
    goal = LOOSE if tol is None else tol
    rule = HoldOut(problem) if tol is None else None
    done = False
    try:
        before = 0
        for m in sizes:
            run.level(np.sort(order[:m]), before, max(goal, LOOSE))
            before = m
            if budget.exhausted:
                break
            if rule is not None and not run.noisy and not run.judged(rule):
                return run.early()
        if rule is not None and not run.noisy:
            if not budget.exhausted:
                run.level(np.arange(n), before, goal)
            return run.early()
        run.last(before, goal)
        done = True
    except KeyboardInterrupt:
        budget.interrupted = True
    scores = run.stale.scores if done else working_set.responses(problem.rows, run.coef)
    result = working_set.finish(problem, run.coef, scores, goal, budget, run.rounds, run.history, run.best)
    return replace(result, indefinite=run.indefinite)


class _Run:
    """Coefficients and scores of all rows on their way through the levels.

    Where the run is not to be exact, rows that were far behind their margin in one level are not looked at in the next.
    """

    def __init__(
        self, problem: KernelProblem, budget: Budget, size: int, start: Floats | None, exact: bool, positive: bool
    ) -> None:
        self.problem, self.budget, self.size, self.exact = problem, budget, size, exact
        self.coef = working_set.feasible(problem, start)
        self.stale = _Stale(problem, self.coef)
        self.rounds, self.intercept = 0, 0.0
        self.indefinite, self.noisy = not positive, False
        self.history: list[dict[str, float]] = []
        self.best = Best()  # of the looks at all rows
        self._scored = np.zeros(problem.n_rows, dtype=bool)
        self._missed: npt.NDArray[np.bool_] | None = None
        self._guess: Floats | None = None
        self._dual = 0.0

    def level(self, rows: Ints, before: int, tol: float) -> None:
        """Solve on a subsample; `before` is the size of the last one, 0 for the first."""
        self._solve(self._begin(rows, before), tol)
        if not before:
            support = self.coef != 0.0
            full = support & (np.abs(self.coef) >= self.problem.upper)
            self.noisy = 2 * int(full.sum()) > int(support.sum())

    def judged(self, rule: HoldOut) -> bool:
        """Whether the rows held out say that more rows could pay."""
        support = np.flatnonzero(self.coef)
        part, scores = np.zeros(rule.rows.shape[0]), np.zeros(self.problem.n_rows)
        self.problem.rows.add(support, self.coef[support], part, rule.rows)
        scores[rule.rows] = part
        self.history[-1]["held_out_error"] = rule.error(scores, self.intercept)
        missed, before = rule.missed(scores, self.intercept), self._missed
        self._missed = missed
        return before is None or could_gain(missed, before)

    def early(self) -> KernelResult:
        """The last level's result."""
        status = working_set.status_of(self.budget, not self.budget.exhausted)
        return KernelResult(
            self.coef, self.intercept, np.nan, self._dual, np.nan, status, self.rounds,
            self.problem.rows.evaluations, self.budget.elapsed, tuple(self.history), self.indefinite,
        )  # fmt: skip

    def last(self, before: int, tol: float) -> None:
        """Solve on all rows."""
        active = self._begin(np.arange(self.problem.n_rows), before)
        for goal in (max(tol, CHECKED), tol, *[tol] * ROUNDS):
            self._solve(active, goal)
            self.stale.refresh(active)
            outside = self._check(active, tol)
            if self.budget.exhausted or self.history[-1]["violation"] <= tol:
                return
            active = np.union1d(active, outside)
            self.stale.compute(active)

    def _begin(self, rows: Ints, before: int) -> Ints:
        """The active ones of the rows, with their scores; the coefficients to start from."""
        stale, problem = self.stale, self.problem
        new = rows if self.exact or self.noisy else rows[~self._scored[rows]]
        stale.compute(new)
        self._scored[rows] = True
        active = _active(problem, rows, self.coef, stale.scores)
        if before and self.noisy and problem.fit_intercept:
            total = float(self.coef[self.coef > 0.0].sum()) * rows.shape[0] / before
            self._guess = np.zeros(problem.n_rows)
            self._guess[rows] = covered(problem.y[rows], problem.upper[rows], stale.scores[rows], total)
            active = np.union1d(active, np.flatnonzero(self._guess))
        stale.compute(active)
        return active

    def _start(self, part: KernelProblem, active: Ints) -> tuple[Floats, Floats]:
        """The guess, where there is one that is better than no model, else the last coefficients; and their scores.

        A guess of a somewhat lower dual objective than the last coefficients is still the nearer start.
        """
        guess, self._guess = self._guess, None
        if guess is not None:
            begin = guess[active]
            scores = working_set.responses(part.rows, begin)
            if float(part.y @ begin - 0.5 * begin @ scores) > 0.0:
                self.coef = guess
                return begin, scores
        begin = self.coef[active]
        known = np.array_equal(self.coef, self.stale.coef)
        return begin, self.stale.scores[active] if known else working_set.responses(part.rows, begin)

    def _solve(self, active: Ints, tol: float) -> None:
        """Solve in the active rows; change the coefficients, and the scores there."""
        problem, stale, last = self.problem, self.stale, self.coef
        part = problem if active.shape[0] == problem.n_rows else _part(problem, active)
        begin, inside = self._start(part, active)
        result = working_set.solve(part, tol=tol, start=begin, budget=self.budget, size=self.size, scores=inside)
        self.rounds += result.n_iter
        self.intercept, self._dual = result.intercept, result.dual
        self.indefinite |= result.indefinite
        self.history += [{**entry, "rows": float(part.n_rows)} for entry in result.history]
        if self.coef is not last and self.budget.exhausted and result.primal > _primal(part, last, stale, active):
            self.coef = last  # the guess has not made up for its start
            return
        self.coef[active] = result.coef
        stale.put(active, inside, self.coef, bounded=not self.indefinite)

    def _check(self, active: Ints, tol: float) -> Ints:
        """Inactive rows that violate, after an entry of the history over all rows."""
        problem, scores = self.problem, self.stale.scores
        lower, upper = working_set.bounds(problem)
        bias = optimal_bias(problem, scores)
        at = values(problem, self.coef, scores, bias)
        self.history.append(
            {
                "seconds": self.budget.elapsed, "evaluations": float(problem.rows.evaluations), "primal": at.primal,
                "dual": at.dual, "violation": at.violation, "rows": float(problem.n_rows),
            }
        )  # fmt: skip
        self.best.offer(self.history[-1], self.coef, scores)
        if at.violation <= tol:
            return np.empty(0, dtype=np.int64)
        left = working_set.violation(problem, self.coef, scores, problem.n_rows, lower, upper)
        outside = np.setdiff1d(np.concatenate((left.up, left.down)), active)
        if not outside.shape[0]:
            return outside
        near = _active(problem, np.arange(problem.n_rows), self.coef, scores)
        return np.setdiff1d(np.union1d(outside, near), active)


class _Stale:
    """Scores of all rows, some of them those of earlier coefficients, and how far off they can be.

    A step of the weights from v to w moves the score of x by at most `|w - v| sqrt(K(x, x))`. Rows whose margin is
    above 1 by more than that have no loss and a coefficient of 0 in the optimality conditions, whatever their score is.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        The coefficients of the scores that are not off.
    scores : ndarray of shape (n,)
    """

    def __init__(self, problem: KernelProblem, coef: Floats) -> None:
        self.problem, self.coef = problem, coef.copy()
        self.scores = working_set.responses(problem.rows, coef)
        self._reach: Floats = np.sqrt(problem.rows.diagonal().clip(min=0.0))
        self._off = np.zeros(problem.n_rows)

    def put(self, active: Ints, scores: Floats, coef: Floats, *, bounded: bool) -> None:
        """New coefficients, which differ in active rows only, and the scores of these.

        Not `bounded` is what they do to the other scores where the kernel is not positive semi-definite.
        """
        change = (coef - self.coef)[active]
        step = math.sqrt(max(0.0, float(change @ (scores - self.scores[active]))))
        self._off += step * self._reach if bounded else np.inf
        self._off[active] = 0.0
        self.scores[active] = scores
        self.coef = coef.copy()

    def refresh(self, active: Ints) -> None:
        """Compute the scores of the rows that could matter."""
        problem = self.problem
        unused = np.ones(problem.n_rows, dtype=bool)
        unused[active] = False
        while True:
            margin = problem.y * (self.scores + optimal_bias(problem, self.scores))
            wanted = unused & (self._off > 0.0) & (margin - self._off < 1.0)
            if not wanted.any():
                return
            self.compute(np.flatnonzero(wanted))

    def compute(self, rows: Ints) -> None:
        """Compute the scores of some rows, where they are off."""
        columns, support = rows[self._off[rows] > 0.0], np.flatnonzero(self.coef)
        part = np.zeros(columns.shape[0])
        self.problem.rows.add(support, self.coef[support], part, columns)
        self.scores[columns] = part
        self._off[columns] = 0.0


def covered(y: Floats, upper: Floats, scores: Floats, total: float) -> Floats:
    """Coefficients at their bounds for the rows of the lowest margins, of sum `total` in either class.

    The sum is cut to what both classes can hold; the last row of a class takes what is left.
    """
    positive = y > 0.0
    total = min(total, float(upper[positive].sum()), float(upper[~positive].sum()))
    coef = np.zeros(y.shape[0])
    for sign, side in ((1.0, np.flatnonzero(positive)), (-1.0, np.flatnonzero(~positive))):
        rows = side[np.argsort(sign * scores[side], kind="stable")]
        full = np.cumsum(upper[rows])
        coef[rows] = sign * np.clip(total - full + upper[rows], 0.0, upper[rows])
    return coef


def _part(problem: KernelProblem, rows: Any) -> KernelProblem:
    """The problem on some of the rows."""
    return KernelProblem(problem.rows.subset(rows), problem.y[rows], problem.upper[rows], problem.fit_intercept)


def _primal(part: KernelProblem, coef: Floats, stale: _Stale, rows: Ints) -> float:
    """Primal value on some rows of the coefficients that their scores are of."""
    scores = stale.scores[rows]
    return values(part, coef[rows], scores, optimal_bias(part, scores)).primal


def _active(problem: KernelProblem, rows: Ints, coef: Floats, scores: Floats) -> Ints:
    """Support vectors and rows of a small margin; all rows that have a loss where nothing is known yet."""
    loss = rows[problem.upper[rows] > 0.0]
    if not coef.any():
        return loss
    part = KernelProblem(problem.rows, problem.y[loss], problem.upper[loss], problem.fit_intercept)
    margin = part.y * (scores[loss] + optimal_bias(part, scores[loss]))
    near: Ints = loss[(coef[loss] != 0.0) | (margin < MARGIN)]
    return near
