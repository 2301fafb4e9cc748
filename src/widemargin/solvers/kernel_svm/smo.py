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

from dataclasses import dataclass, replace

import numpy as np

from widemargin._typing import Bools, Floats, Ints
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.certificate import KernelRecorder
from widemargin.solvers.kernel_svm.dual import pair_steps
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult, responses, significantly_negative

__all__ = ["SMOOptions", "solve"]


@dataclass(frozen=True)
class SMOOptions:
    """How SMO leaves rows out and when it gives up.

    Attributes
    ----------
    interval : int, default=1000
        Steps between two attempts to leave rows out, as in LIBSVM. An attempt costs a pass over the gradient.
    shrunk : float, default=0.5
        Rows are left out when so many can be that this share is left: their cached kernel rows are lost with the
        others', so it has to save at least half of each later row.
    near : float, default=10
        Multiple of tol at which all gradients are restored for the first time, as in LIBSVM: rows left out by mistake
        come back before much is solved without them.
    single : bool, default=False
        Without a bias: whether a step moves one variable, as in the paper. It does where the cache holds one row.
    most_steps : int, default=10,000,000
        LIBSVM's limit; it is 100 a row where that is more.
    """

    interval: int = 1000
    shrunk: float = 0.5
    near: float = 10.0
    single: bool = False
    most_steps: int = 10_000_000


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    shrinking: bool = True,
    max_iter: int | None = None,
    options: SMOOptions = SMOOptions(),
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
    shrinking : bool, default=True
        Whether to leave out rows that seem to stay at their bound.
    max_iter : int, optional
        Most steps; by default 10 million, or 100 a row.

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
    problem.refuse_small_cache()
    # Many rows need many steps; so the limit of LIBSVM grows with them.
    most = max(options.most_steps, 100 * problem.n_rows) if max_iter is None else max_iter
    run = _Run(problem, start, KernelRecorder(problem, "smo", budget, tol), options)
    try:
        # At LIBSVM's tolerance the hold-out rule has nothing left to do; it judges scores of all rows, so none may
        # be left out.
        run.go(1e-3 if tol is None else tol, most, shrinking and tol is not None, budget)
    except KeyboardInterrupt:
        budget.interrupted = True
    run.restore()
    result = run.recorder.finish(run.coef, run.scores, run.steps, ended=run.ended)
    return replace(result, indefinite=result.indefinite or run.indefinite)


class _Part:
    """The rows that take part, with all that a step touches as arrays of their length m."""

    def __init__(self, run: "_Run", index: Ints) -> None:
        problem = run.problem
        m = index.shape[0]
        self.whole = m == problem.n_rows
        self.rows = problem.rows if self.whole else problem.rows.subset(index)
        self.index, self.coef = index, run.coef[index]
        self.gradient = problem.y[index] - run.scores[index]
        diagonal, bounds = run.diagonal[index].astype(self.rows.dtype), (bound[index] for bound in problem.bounds)
        self._variables = pair_steps.Variables(diagonal, self.gradient, self.coef, *bounds)
        # Room for the compiled steps is made once a part, not once a step.
        self._room = np.empty((5, m), self.rows.dtype)
        self._gain = np.empty(0 if problem.fit_intercept else m)
        self._tops = pair_steps.sides(self._variables, self._room)
        self._pairs, self._single = problem.fit_intercept, run.options.single or self.rows.capacity < 2
        self._best: tuple[int, float] | None = None  # what gains most, until the next step

    def violation(self) -> float:
        """The largest violation of the optimality conditions in this part."""
        if self._pairs:
            highest, lowest = self.sides()
            return max(0.0, highest - lowest)
        self._best = self._best or pair_steps.most_gaining(self._variables, self._gain)
        return self._best[1]

    def step(self) -> tuple[float, float]:
        """One step of SMO: its gain of the dual, 0 where rounding leaves none, and the curvature met."""
        if not self._pairs:  # the variable that gains most, and its companion
            # The look at the violation has found this variable already.
            i, _ = self._best or pair_steps.most_gaining(self._variables, self._gain)
            if i < 0:
                return 0.0, np.inf
            self._best = None
            buffer, slot = self.rows.cached(np.array([i]))
            curvature, row = float(self._variables.diagonal[i]), buffer[slot[0]]
            j = -1 if self._single else pair_steps.companion(i, row, self._variables, self._gain)
            if j < 0:
                return pair_steps.move_single(i, row, self._variables), curvature
            buffer, slot = self.rows.cached(np.array([i, j]))
            return pair_steps.move_both(i, j, buffer[slot[0]], buffer[slot[1]], self._variables), curvature
        # The last of equals, as LIBSVM: on a kernel that is not positive semi-definite the order decides where it ends.
        i = pair_steps.place(self._room[0], self._tops[0], True)
        buffer, slot = self.rows.cached(np.array([i]))
        j = pair_steps.partner(buffer[slot[0]], self._variables.diagonal, i, self._room, True)
        if j < 0:
            return 0.0, np.inf
        buffer, slot = self.rows.cached(np.array([i, j]))
        row, other = buffer[slot[0]], buffer[slot[1]]
        gain, curvature, *tops = pair_steps.move_pair(i, j, row, other, self._variables, self._room)
        self._tops = (tops[0], tops[1])
        return gain, curvature

    def more_steps(self, floor: float, most: int) -> tuple[int, float, float]:
        """Steps along pairs whose kernel rows are in a cache that has room for all, until a violation of `floor`.

        Returns their number, their gain of the dual, and the smallest curvature met.
        """
        if not (self._pairs and hasattr(self.rows, "cache") and self.rows.capacity == self.rows.n_rows):
            return 0, 0.0, np.inf
        buffer, slot, _ = self.rows.cache()
        taken, flattest, _, _, gain = pair_steps.solve_pairs(
            np.empty((0, 0), buffer.dtype), 0.0, buffer, slot, buffer.shape[0], self._variables, self._room, True, 0.0,
            floor, most,
        )  # fmt: skip
        self._tops = pair_steps.largest(self._room[0]), pair_steps.largest(self._room[1])
        return taken, gain, flattest

    def sides(self) -> tuple[float, float]:
        """The largest gradient of a variable that can go up, and the smallest of one that can go down."""
        if self._pairs:
            return float(self._tops[0]), -float(self._tops[1])
        # Without a bias a gradient has to be compared with 0 alone.
        worst = self.violation()
        return worst, -worst

    def alive(self) -> Bools:
        """All variables but those held at a bound beyond the others; the rows held out stay, for their scores."""
        highest, lowest = self.sides()
        _, gradient, coef, lower, upper = self._variables
        # At the upper bound with a gradient above all that can go up, a variable has no partner: it will stay.
        held = (coef >= upper) & (gradient > highest)
        held |= (coef <= lower) & (gradient < lowest)
        # Rows held out have both bounds at 0: they never move, but their scores are wanted.
        alive: Bools = ~held | (lower == upper)
        return alive


class _Run:
    """Coefficients and scores of all rows, and the part that is being solved."""

    def __init__(
        self, problem: KernelProblem, start: Floats | None, recorder: KernelRecorder, options: SMOOptions
    ) -> None:
        self.problem, self.recorder, self.options, self.steps, self.ended = problem, recorder, options, 0, False
        self.coef = problem.feasible(start)
        self.scores = responses(problem.rows, self.coef)
        self.diagonal = problem.rows.diagonal()
        self._dual = float(problem.y @ self.coef - 0.5 * self.coef @ self.scores)
        self._flattest = np.inf
        self._stale: list[tuple[Ints, Floats]] = []  # rows left out, and the coefficients that their scores are of
        self._part = _Part(self, np.arange(problem.n_rows))

    @property
    def indefinite(self) -> bool:
        """Whether a step met negative curvature beyond rounding."""
        # Single steps meet the diagonal alone, pairs meet the curvature along both.
        flattest = self._flattest if self.problem.fit_intercept else self.diagonal.min(initial=np.inf)
        return significantly_negative(flattest, float(np.abs(self.diagonal).max(initial=0.0)))

    def go(self, tol: float, most: int, shrinking: bool, budget: Budget) -> None:
        """Steps until the violation of all rows is at most `tol`, or a limit is met."""
        # Small problems try to leave rows out after as many steps as they have rows.
        interval = max(1, min(self.problem.n_rows, self.options.interval))
        restored, last, look_at = False, 0, 0
        while True:
            # Near the optimum of the rows that take part, those left out are looked at again: some may have to move.
            left = self._part.violation()
            if not self._part.whole and (left <= tol or (left <= self.options.near * tol and not restored)):
                self.restore()
                self._restart(tol)
                restored, last = True, self.steps
                left = self._part.violation()
            optimal = left <= tol and self._part.whole
            # A look at the end is due in any case: it is what the history says of the result.
            if (self.steps >= look_at and self.recorder.due(self.steps)) or optimal:
                # Of a matrix in memory, which costs no work, a look would be due at every step.
                look_at = self.steps + (0 if self.recorder.work else max(1, self.problem.n_rows // 10))
                if self._look(left):
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
            floor = tol if self._part.whole or restored else self.options.near * tol
            more, further, flattest = self._part.more_steps(floor, min(interval, most - self.steps - 1))
            self.steps += 1 + more
            # The dual value follows the steps, because scores of rows left out are not known.
            self._dual += gain + further
            self._flattest = min(self._flattest, curvature, flattest)

    def restore(self) -> None:
        """Write the part back, and bring the scores of the rows that were left out up to date."""
        self._write_back()
        # Rows were left out in turns, and the scores of each turn are those of other coefficients.
        while self._stale:
            rows, then = self._stale[-1]
            change, sums = self.coef - then, np.zeros(rows.shape[0])
            moved = np.flatnonzero(change)
            self.problem.rows.add(moved, change[moved], sums, rows)
            self.scores[rows] += sums
            self._stale.pop()

    def _write_back(self) -> None:
        """Coefficients and scores of the part, where all are kept."""
        part = self._part
        self.coef[part.index] = part.coef
        self.scores[part.index] = self.problem.y[part.index] - part.gradient

    def _restart(self, tol: float) -> None:
        """All rows again, if they are not optimal without those held at a bound.

        Where these are the same as before, the part and its cached rows stay.
        """
        # All rows take part for the moment, to see who violates.
        before, self._part = self._part, _Part(self, np.arange(self.problem.n_rows))
        if self._part.violation() <= tol:
            return
        alive = self._part.alive()
        if np.array_equal(self._part.index[alive], before.index):
            self._part = before
            self._stale = [(np.flatnonzero(~alive), self.coef.copy())]
        else:
            self._leave_out(alive)

    def _leave_out(self, alive: Bools) -> None:
        """Go on with the part's rows that are alive, where that saves enough."""
        part = self._part
        # A shorter part loses its cached rows, so it must be much shorter.
        if alive.sum() > self.options.shrunk * alive.shape[0]:
            return
        self._write_back()
        self._stale.append((part.index[~alive], self.coef.copy()))
        self._part = _Part(self, part.index[alive])

    def _look(self, left: float) -> bool:
        """Tell the recorder; True if the hold-out rule ends the run."""
        problem, part = self.problem, self._part
        self._write_back()
        if part.whole:
            intercept = problem.optimal_bias(self.scores)
            facts = problem.values(self.coef, self.scores, intercept)._asdict()
        else:
            # Rows that are left out have no scores, so the middle of the two sides stands for the bias.
            intercept = 0.5 * sum(part.sides()) if problem.fit_intercept else 0.0
            facts = {"dual": self._dual, "violation": left}
        return self.recorder.watch(self.steps, self.coef, self.scores, intercept, facts)
