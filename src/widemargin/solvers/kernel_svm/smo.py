"""SMO with second-order working sets: the algorithm of LIBSVM (Fan, Chen and Lin 2005), two rows of the kernel a step.

    repeat until the violation is at most tol:
        i = the variable whose gradient is largest of those that can go up
        j = of those that can go down, the one whose pair with i gains most to second order
        move both by the best step that keeps sum_i y_i a_i = 0 and the bounds

Without a bias a step moves the variable that gains most and the one that gains most with it (I. Steinwart, D. Hush and
C. Scovel, "Training SVMs without offset", JMLR 2011); or that one variable alone, as in the paper, which at a large C
takes twenty times as many steps.

Variables that the gradient holds at a bound are left out (shrinking): rows of the kernel are then only as long as the
rest. What was left out gets its gradient back near the optimum, and again before the run ends.

The variables are `coef = y a`, and the gradient of the dual along them is `y - K coef`.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints
from widemargin.exceptions import KernelError
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.dual import working_set_loops as loops
from widemargin.solvers.kernel_svm.dual.working_set import FINE, INDEFINITE, bounds, conclude, feasible, responses
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult, optimal_bias, values
from widemargin.solvers.kernel_svm.progress import Watch

__all__ = ["solve"]

_INTERVAL = 1000  # steps between two attempts to leave rows out, as in LIBSVM
_SHRUNK = 0.5  # rows are left out when so many are that this share is left: their cached kernel rows are lost
_NEAR = 10.0  # multiple of tol at which all gradients are restored for the first time, as in LIBSVM
_LEAST_STEPS = 10_000_000  # LIBSVM's limit, or 100 n


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    shrinking: bool = True,
    max_iter: int | None = None,
    single: bool = False,
) -> KernelResult:
    """Solve the dual of a kernel SVM by SMO.

    Parameters
    ----------
    problem : KernelProblem
        Rows that are not positive semi-definite are solved as LIBSVM does, and reported.
    tol : float or None, default=1e-3
        Largest violation of the optimality conditions, LIBSVM's measure; None: the hold-out rule.
    start : ndarray of shape (n,), optional
        `coef` to begin from; it is made feasible.
    budget : Budget, optional
    shrinking : bool, default=True
        Whether to leave out rows that seem to stay at their bound.
    max_iter : int, optional
        Most steps; by default 10 million, or 100 a row.
    single : bool, default=False
        Without a bias: whether a step moves one variable. It does where the cache holds one row.

    Returns
    -------
    KernelResult
        `n_iter` counts the steps. Entries of the history while rows are left out lack `primal`. Where the budget or
        `max_iter` ends the run this is the best model of those that have it, by its primal value, and the last one.

    Raises
    ------
    KernelError
        If the cache does not hold two rows (one without a bias).
    CapabilityError
        If `tol` is None and no row is held out.
    """
    budget = budget or Budget()
    least = 2 if problem.fit_intercept else 1
    if problem.rows.capacity < min(least, problem.n_rows):
        raise KernelError(
            f"the cache holds {problem.rows.capacity} kernel row and {least} are needed; raise cache_size."
        )
    most = max(_LEAST_STEPS, 100 * problem.n_rows) if max_iter is None else max_iter
    watch = Watch(problem, "smo", budget, tol)
    run = _Run(problem, start, watch, single=single)
    try:
        run.go(FINE if tol is None else tol, most, shrinking and tol is not None, budget)
    except KeyboardInterrupt:
        budget.interrupted = True
    run.restore()
    result = conclude(problem, run.coef, run.scores, tol, budget, run.steps, watch, ended=run.ended)
    return replace(result, indefinite=result.indefinite or run.indefinite)


class _Part:
    """The rows that take part, with all that a step touches as arrays of their length m."""

    def __init__(
        self, problem: KernelProblem, index: Ints, coef: Floats, scores: Floats, diagonal: Floats, single: bool
    ) -> None:
        m = index.shape[0]
        self.whole = m == problem.n_rows
        self.rows = problem.rows if self.whole else problem.rows.subset(index)
        self.index, self.coef, self.gradient = index, coef[index], problem.y[index] - scores[index]
        lower, upper = bounds(problem)
        self.lower, self.upper = lower[index], upper[index]
        self.diagonal = diagonal[index].astype(self.rows.dtype)
        self._room = np.empty((5, m), self.rows.dtype)
        self._lanes = np.empty(loops.LANES, self.rows.dtype)
        self._gain = np.empty(0 if problem.fit_intercept else m)
        loops.sides(self.gradient, self.coef, self.lower, self.upper, self._room)
        self._pairs, self._single = problem.fit_intercept, single or self.rows.capacity < 2
        self._best: tuple[int, float] | None = None  # what gains most, until the next step

    def violation(self) -> float:
        """The largest violation of the optimality conditions in this part."""
        if self._pairs:
            highest, lowest = self.sides()
            return max(0.0, highest - lowest)
        return self._most_gaining()[1]

    def step(self) -> tuple[float, float]:
        """One step of SMO: its gain of the dual, 0 where rounding leaves none, and the curvature met."""
        return self._step_pair() if self._pairs else self._step_free()

    def _step_pair(self) -> tuple[float, float]:
        i = loops.last_peak(self._room[0], self._lanes)
        buffer, slot = self.rows.cached(np.array([i]))
        j = loops.partner(buffer[slot[0]], self.diagonal, i, self._room, self._lanes, True)
        if j < 0:
            return 0.0, np.inf
        buffer, slot = self.rows.cached(np.array([i, j]))
        return loops.move_pair(
            i, j, buffer[slot[0]], buffer[slot[1]], self.diagonal, self.gradient, self.coef, self.lower, self.upper,
            self._room,
        )  # fmt: skip

    def _most_gaining(self) -> tuple[int, float]:
        if self._best is None:
            self._best = loops.most_gaining(*self._state, self._gain)
        return self._best

    def _step_free(self) -> tuple[float, float]:
        i, _ = self._most_gaining()
        if i < 0:
            return 0.0, np.inf
        self._best = None
        buffer, slot = self.rows.cached(np.array([i]))
        curvature, row = float(self.diagonal[i]), buffer[slot[0]]
        j = -1 if self._single else loops.companion(i, row, *self._state, self._gain)
        if j < 0:
            return loops.move_single(i, row, curvature, *self._state[1:]), curvature
        buffer, slot = self.rows.cached(np.array([i, j]))
        return loops.move_both(i, j, buffer[slot[0]], buffer[slot[1]], *self._state), curvature

    @property
    def _state(self) -> tuple[npt.NDArray[np.floating], Floats, Floats, Floats, Floats]:
        return self.diagonal, self.gradient, self.coef, self.lower, self.upper

    def sides(self) -> tuple[float, float]:
        """The largest gradient of a variable that can go up, and the smallest of one that can go down."""
        if self._pairs:
            up, down = self._room[0], self._room[1]
            return float(up[loops.peak(up, self._lanes)]), -float(down[loops.peak(down, self._lanes)])
        worst = self.violation()
        return worst, -worst

    def alive(self) -> npt.NDArray[np.bool_]:
        """All variables but those held at a bound beyond the others; the rows held out stay, for their scores."""
        highest, lowest = self.sides()
        held = (self.coef >= self.upper) & (self.gradient > highest)
        held |= (self.coef <= self.lower) & (self.gradient < lowest)
        alive: npt.NDArray[np.bool_] = ~held | (self.lower == self.upper)
        return alive


class _Run:
    """Coefficients and scores of all rows, and the part that is being solved."""

    def __init__(self, problem: KernelProblem, start: Floats | None, watch: Watch, *, single: bool) -> None:
        self.problem, self.steps, self.ended, self._single = problem, 0, False, single
        self.coef = feasible(problem, start)
        self.scores = responses(problem.rows, self.coef)
        self._watch, self._diagonal = watch, problem.rows.diagonal()
        self._dual = float(problem.y @ self.coef - 0.5 * self.coef @ self.scores)
        self._flattest = np.inf
        self._stale: list[tuple[Ints, Floats]] = []  # rows left out, and the coefficients that their scores are of
        self._part = self._take(np.arange(problem.n_rows))

    @property
    def indefinite(self) -> bool:
        """Whether a step met negative curvature beyond rounding."""
        flattest = self._flattest if self.problem.fit_intercept else self._diagonal.min(initial=np.inf)
        return bool(flattest < -INDEFINITE * max(1e-300, float(np.abs(self._diagonal).max(initial=0.0))))

    def go(self, tol: float, most: int, shrinking: bool, budget: Budget) -> None:
        """Steps until the violation of all rows is at most `tol`, or a limit is met."""
        interval = max(1, min(self.problem.n_rows, _INTERVAL))
        restored, last = False, 0
        while True:
            left = self._part.violation()
            if not self._part.whole and (left <= tol or (left <= _NEAR * tol and not restored)):
                self.restore()
                self._restart(tol)
                restored, last = True, self.steps
                left = self._part.violation()
            optimal = left <= tol and self._part.whole
            if (self._watch.due(self.steps) or optimal) and self._look(left):
                self.ended = True
                return
            if optimal or budget.exhausted or self.steps >= most:
                self.ended = optimal
                return
            if shrinking and self.steps - last >= interval:
                last = self.steps
                self._leave_out(self._part.alive())
            gain, curvature = self._part.step()
            if gain == 0.0:  # rounding leaves nothing
                return
            self.steps += 1
            self._dual += gain
            self._flattest = min(self._flattest, curvature)

    def restore(self) -> None:
        """Write the part back, and bring the scores of the rows that were left out up to date."""
        part = self._part
        self.coef[part.index] = part.coef
        self.scores[part.index] = self.problem.y[part.index] - part.gradient
        while self._stale:
            rows, then = self._stale[-1]
            change, sums = self.coef - then, np.zeros(rows.shape[0])
            moved = np.flatnonzero(change)
            self.problem.rows.add(moved, change[moved], sums, rows)
            self.scores[rows] += sums
            self._stale.pop()

    def _take(self, index: Ints) -> _Part:
        return _Part(self.problem, index, self.coef, self.scores, self._diagonal, self._single)

    def _restart(self, tol: float) -> None:
        """All rows again, if they are not optimal without those held at a bound.

        Where these are the same as before, the part and its cached rows stay.
        """
        before, self._part = self._part, self._take(np.arange(self.problem.n_rows))
        if self._part.violation() <= tol:
            return
        alive = self._part.alive()
        if np.array_equal(self._part.index[alive], before.index):
            self._part = before
            self._stale = [(np.flatnonzero(~alive), self.coef.copy())]
        else:
            self._leave_out(alive)

    def _leave_out(self, alive: npt.NDArray[np.bool_]) -> None:
        """Go on with the part's rows that are alive, where that saves enough."""
        part = self._part
        if alive.sum() > _SHRUNK * alive.shape[0]:
            return
        self.coef[part.index] = part.coef
        self.scores[part.index] = self.problem.y[part.index] - part.gradient
        self._stale.append((part.index[~alive], self.coef.copy()))
        self._part = self._take(part.index[alive])

    def _look(self, left: float) -> bool:
        """Tell the watch; True if the hold-out rule ends the run."""
        problem, part = self.problem, self._part
        self.coef[part.index] = part.coef
        self.scores[part.index] = problem.y[part.index] - part.gradient
        if part.whole:
            intercept = optimal_bias(problem, self.scores)
            facts = values(problem, self.coef, self.scores, intercept)._asdict()
        else:
            intercept = 0.5 * sum(part.sides()) if problem.fit_intercept else 0.0
            facts = {"dual": self._dual, "violation": left}
        return self._watch.look(self.steps, self.coef, self.scores, intercept, facts)
