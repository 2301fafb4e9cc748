"""The working-set dual on nested subsamples with active columns: most of the work is done on few rows.

    for m = n/8, n/2, n:
        scores of the m rows, from the support vectors of the last subsample
        active = support vectors and rows with a margin below 1.2
        solve the dual in the active variables: the kernel rows are only as long as there are active rows
    at the end the scores of the other rows that could matter; those that violate become active, and the last step is
    repeated

Every subsample starts from the last coefficients. With noisy labels, a start from as many rows of the lowest margins at
their bound as the last subsample foretells took 0.83 to 1.07 times as long on six problems, and a fifth more kernel
values: no gain that is worth a second way to begin.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from widemargin._typing import Bools, Floats, Ints
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.certificate import KernelRecorder
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.dual.working_set import WorkingSetOptions
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult, responses
from widemargin.solvers.kernel_svm.stopping import HoldOut, could_gain

__all__ = ["NestedOptions", "solve"]


@dataclass(frozen=True)
class NestedOptions:
    """How the subsamples are chosen and solved; chosen on rows of a9a and MNIST.

    Attributes
    ----------
    shares : tuple of int, default=(8, 2)
        Shares of the rows, one over these numbers, that are solved before all of them. More subsamples find the support
        vectors with less work, and each costs a pass of its own.
    least_rows : int, default=1000
        Smaller subsamples are left out: they are solved at once, and tell little.
    margin : float, default=1.2
        Rows of a smaller margin are active. A larger one makes kernel rows longer, a smaller one leaves out rows that
        have to be added later.
    loose : float, default=0.1
        Tolerance of the subsamples before the last one: their optimum is another one in any case.
    first_check : float, default=0.02
        Tolerance at which the rows that are not active are looked at for the first time. A more exact solution would
        have to be corrected where a row is missing.
    most_checks : int, default=50
        Most times that they are looked at.
    looked_at, may_lose : int and float, default=500, 0.2
        Where rows held out would end the run: rows of each class, of those left out, whose loss is looked at, and the
        share of the dual value up to which it is let be. Above it all rows are corrected: the run is then the full one.
    blocks : WorkingSetOptions
        Of the working sets.
    """

    shares: tuple[int, ...] = (8, 2)
    least_rows: int = 1000
    margin: float = 1.2
    loose: float = 0.1
    first_check: float = 0.02
    most_checks: int = 50
    looked_at: int = 500
    may_lose: float = 0.2
    blocks: WorkingSetOptions = field(default_factory=WorkingSetOptions)


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    scores: Floats | None = None,
    seed: int = 0,
    positive: bool = True,
    options: NestedOptions = NestedOptions(),
) -> KernelResult:
    """Solve the dual of a kernel SVM by nested subsamples; the certificate is over all rows.

    Parameters
    ----------
    tol : float or None, default=1e-3
        Largest violation of the optimality conditions over all rows, LIBSVM's measure. None: every subsample, the last
        one too, is solved loosely, and the run ends where the rows held out say that more rows would not pay. Where
        labels are noisy all rows are solved: no number of rows held out would tell.
    start : ndarray of shape (n,), optional
        `coef` to begin from; the subsamples are then left out.
    budget : Budget, optional
        When it runs out the best model of the subsample is returned, by the primal value on its rows (or on all rows,
        where these were looked at), and the scores of all rows are still computed, for the certificate.
    scores : ndarray of shape (n,), optional
        `K start`, where it is known and `start` is feasible.
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
    budget, n = budget or Budget(), problem.n_rows
    goal = options.loose if tol is None else tol
    rule = HoldOut(problem) if tol is None else None
    run = _Run(problem, budget, start, scores, goal, options, exact=tol is not None, positive=positive)
    # Nested: every subsample is the beginning of one random order.
    order = np.random.default_rng(seed).permutation(n)
    sizes = [n // share for share in options.shares if n // share >= options.least_rows] if start is None else []
    done = False
    try:
        for m in sizes:
            run.subsample(np.sort(order[:m]), max(goal, options.loose))
            if budget.exhausted:
                break
            # Where labels are noisy the rows held out never say that enough rows were seen.
            if rule is not None and not run.noisy and not run.could_improve(rule) and run.holds():
                return run.early()
        if rule is not None and not run.noisy:
            if not budget.exhausted:
                run.subsample(np.arange(n), goal)
            if budget.exhausted or run.holds():
                return run.early()
        run.all_rows()
        done = True
    except KeyboardInterrupt:
        budget.interrupted = True
    # An interrupt may leave scores of other coefficients, so they are computed afresh.
    scores = run.stale.scores if done else responses(problem.rows, run.coef)
    result = run.recorder.finish(run.coef, scores, run.rounds)
    return replace(result, indefinite=run.indefinite, stale=run.stale.off if done else None)


class _Run:
    """Coefficients and scores of all rows on their way through the subsamples.

    Where the run is not to be exact, rows that were far behind their margin in one subsample are not looked at in the
    next.
    """

    def __init__(
        self, problem: KernelProblem, budget: Budget, start: Floats | None, scores: Floats | None, goal: float,
        options: NestedOptions, *, exact: bool, positive: bool,
    ) -> None:  # fmt: skip
        self.problem, self.budget, self.goal, self.options, self.exact = problem, budget, goal, options, exact
        self.stale = _StaleScores(problem, problem.feasible(start), scores)
        self.coef = self.stale.coef
        self.recorder = KernelRecorder(problem, "nested dual", budget, goal)  # of the looks at all rows
        self.rounds, self.intercept, self.dual = 0, 0.0, 0.0
        self.indefinite, self.noisy = not positive, False
        self._scored = np.zeros(problem.n_rows, dtype=bool)
        self._missed: Bools | None = None
        self._rows: Ints = np.empty(0, dtype=np.int64)

    def subsample(self, rows: Ints, tol: float) -> None:
        """Solve on a subsample, which holds the last one."""
        first, self._rows = not self._rows.shape[0], rows
        self._solve(self._begin(rows), tol)
        if first:
            support = self.coef != 0.0
            at_bound = support & (np.abs(self.coef) >= self.problem.upper)
            # Most support vectors at their bound: many rows are on the wrong side for good.
            self.noisy = 2 * int(at_bound.sum()) > int(support.sum())

    def could_improve(self, rule: HoldOut) -> bool:
        """Whether the rows held out say that more rows could pay."""
        support = np.flatnonzero(self.coef)
        part, scores = np.zeros(rule.rows.shape[0]), np.zeros(self.problem.n_rows)
        self.problem.rows.add(support, self.coef[support], part, rule.rows)
        scores[rule.rows] = part
        self.recorder.history[-1]["held_out_error"] = rule.error(scores, self.intercept)
        missed, before = rule.missed(scores, self.intercept), self._missed
        self._missed = missed
        return before is None or could_gain(missed, before, self.problem.y[rule.rows])

    def holds(self) -> bool:
        """Whether the rows of the subsample that were left out have hardly any loss, by a sample of each class."""
        problem, rng, lost = self.problem, np.random.default_rng(0), 0.0
        left = self._rows[(self.coef[self._rows] == 0.0) & (problem.upper[self._rows] > 0.0)]
        support = np.flatnonzero(self.coef)
        for side in (problem.y[left] > 0.0, problem.y[left] < 0.0):
            rows = left[side]
            some = np.sort(rng.permutation(rows)[: self.options.looked_at])
            if some.shape[0]:
                scores = np.zeros(some.shape[0])
                problem.rows.add(support, self.coef[support], scores, some)
                hinge = np.maximum(0.0, 1.0 - problem.y[some] * (scores + self.intercept))
                lost += float(problem.upper[some] @ hinge) * rows.shape[0] / some.shape[0]
        return lost <= self.options.may_lose * self.dual

    def early(self) -> KernelResult:
        """The last subsample's result."""
        status = self.budget.status(converged=not self.budget.exhausted)
        return KernelResult(
            self.coef, self.intercept, np.nan, self.dual, np.nan, status, self.rounds,
            self.problem.rows.evaluations, self.budget.elapsed, tuple(self.recorder.history), self.indefinite,
        )  # fmt: skip

    def all_rows(self) -> None:
        """Solve on all rows, and correct until none of those that are left out violates."""
        problem, scores, goal = self.problem, self.stale.scores, self.goal
        # All rows count now; those that are left out are only looked at.
        active = self._begin(np.arange(problem.n_rows))
        for tol in (max(goal, self.options.first_check), goal, *[goal] * self.options.most_checks):
            self._solve(active, tol)
            self.stale.refresh(active)
            at = problem.values(self.coef, scores, problem.optimal_bias(scores))
            self.recorder.note(self.coef, scores, at._asdict() | {"rows": float(problem.n_rows)})
            if self.budget.exhausted or at.violation <= goal:
                return
            left = working_set.violation(problem, self.coef, scores, problem.n_rows)
            # Rows that violate the optimality conditions though they were left out.
            outside = np.setdiff1d(np.concatenate((left.up, left.down)), active)
            if outside.shape[0]:  # where one row is missing, those with a small margin are about to be
                near = self._active(np.arange(problem.n_rows))
                active = np.union1d(active, np.union1d(outside, near))
            self.stale.compute(active)

    def _active(self, rows: Ints) -> Ints:
        """Support vectors and rows of a small margin; all rows that have a loss where nothing is known yet."""
        problem, coef = self.problem, self.coef
        # Rows that are held out have no loss and never become active.
        loss = rows[problem.upper[rows] > 0.0]
        if not coef.any():
            return loss
        part = replace(problem, y=problem.y[loss], upper=problem.upper[loss])
        scores = self.stale.scores[loss]
        margin = part.y * (scores + part.optimal_bias(scores))
        # A support vector is active wherever its margin is.
        near: Ints = loss[(coef[loss] != 0.0) | (margin < self.options.margin)]
        return near

    def _begin(self, rows: Ints) -> Ints:
        """The active ones of the rows, with their scores."""
        stale = self.stale
        stale.compute(rows if self.exact or self.noisy else rows[~self._scored[rows]])
        self._scored[rows] = True
        active = self._active(rows)
        stale.compute(active)
        return active

    def _solve(self, active: Ints, tol: float) -> None:
        """Solve in the active rows; change the coefficients, and the scores there."""
        problem, part, scores = self.problem, self.problem, self.stale.scores[active]
        if active.shape[0] < problem.n_rows:
            part = replace(problem, rows=problem.rows.subset(active), y=problem.y[active], upper=problem.upper[active])
        result = working_set.solve(
            part, tol=tol, start=self.coef[active], budget=self.budget, scores=scores, options=self.options.blocks
        )
        self.rounds += result.n_iter
        self.intercept, self.dual = result.intercept, result.dual
        self.indefinite |= result.indefinite
        self.recorder.history += [{**entry, "rows": float(part.n_rows)} for entry in result.history]
        self.stale.put(active, result.coef, scores, bounded=not self.indefinite)


class _StaleScores:
    """Scores of all rows, some of them those of earlier coefficients, and how far off they can be.

    A step of the weights from v to w moves the score of x by at most `|w - v| sqrt(K(x, x))`. Rows whose margin is
    above 1 by more than that have no loss and a coefficient of 0 in the optimality conditions, whatever their score is.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        The coefficients of the scores that are not off.
    scores : ndarray of shape (n,)
    off : ndarray of shape (n,)
        Bound of how far each of them is off.
    """

    def __init__(self, problem: KernelProblem, coef: Floats, scores: Floats | None) -> None:
        self.problem, self.coef = problem, coef
        self.scores = responses(problem.rows, coef) if scores is None else scores.copy()
        self._reach: Floats = np.sqrt(problem.rows.diagonal().clip(min=0.0))
        self.off = np.zeros(problem.n_rows)

    def put(self, active: Ints, coef: Floats, scores: Floats, *, bounded: bool) -> None:
        """New coefficients of active rows, and the scores of these.

        Not `bounded` is what they do to the other scores where the kernel is not positive semi-definite.
        """
        change = coef - self.coef[active]
        # |w - v|^2 = change' K change, from the scores of the rows that moved.
        step = math.sqrt(max(0.0, float(change @ (scores - self.scores[active]))))
        self.off += step * self._reach if bounded else np.inf
        self.off[active] = 0.0
        self.scores[active] = scores
        self.coef[active] = coef

    def refresh(self, active: Ints) -> None:
        """Compute the scores of the rows that could matter."""
        problem = self.problem
        # Active rows have scores of their own from the solver.
        unused = np.ones(problem.n_rows, dtype=bool)
        unused[active] = False
        while True:  # the bias moves with the scores, and with it the rows that could matter
            margin = problem.y * (self.scores + problem.optimal_bias(self.scores))
            # Only rows that may have come within their margin could have a loss now.
            wanted = unused & (self.off > 0.0) & (margin - self.off < 1.0)
            if not wanted.any():
                return
            self.compute(np.flatnonzero(wanted))

    def compute(self, rows: Ints) -> None:
        """Compute the scores of some rows, where they are off."""
        columns, support = rows[self.off[rows] > 0.0], np.flatnonzero(self.coef)
        part = np.zeros(columns.shape[0])
        self.problem.rows.add(support, self.coef[support], part, columns)
        self.scores[columns] = part
        self.off[columns] = 0.0
