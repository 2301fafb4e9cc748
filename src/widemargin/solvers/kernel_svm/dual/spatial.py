"""The working-set dual for many rows of few columns: spatial working sets, no row cache.

    for m = 32768, 131072, ..., n rows:                     # each level starts from the coefficients of the last one
        repeat until the violation is at most tol:
            W = the cell of neighbouring rows that violates most, and the rows that violate most of all
            solve the dual in the variables of W
            scores += the rows that moved, computed afresh and only where they reach

The rows that violate most of all are needed: within a cell the sum of the coefficients could not change.
"""

from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints
from widemargin.exceptions import CapabilityError
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.hold_out import HoldOut
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, KernelResult, optimal_bias, values
from widemargin.solvers.kernel_svm.progress import Best

__all__ = ["TiledMatrix", "solve"]

CELL, GLOBAL = 4096, 256
"""Rows of a cell, and rows of either side that are taken from everywhere."""

FIRST, GROWTH = 32_768, 4
"""Rows of the first level, and how many times as many the next one has."""

LOOSE = 0.5
"""Violation at which a run by the hold-out rule has nothing left to do."""

EVERY = 8  # rounds between two entries of the history


class TiledMatrix(Protocol):
    """A kernel matrix in spatial order (`kernels.tiles.Tiles`)."""

    n_rows: int
    order: Ints

    def block(self, rows: Ints) -> npt.NDArray[Any]:
        """Values among some rows."""
        ...

    def add(self, rows: Ints, change: Floats, scores: Floats) -> None:
        """Add `K[:, rows] change` to `scores`."""
        ...


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    seed: int = 0,
) -> KernelResult:
    """Solve the dual of a kernel SVM with a Gaussian kernel on few columns.

    Memory is a block of 4608^2 float32 (85 MB) and about 30 numbers a row. Kernel values below 2^-22 count as 0, so a
    score is wrong by at most that times the sum of |coef|, in practice by far less.

    Parameters
    ----------
    problem : KernelProblem
        Its rows must offer `tiles` (`kernels.rows.KernelRows` with dense rows and the kernel "rbf").
    tol : float or None, default=1e-3
        Largest violation of the optimality conditions, LIBSVM's measure; None: 0.5, or sooner by the hold-out rule. On
        hundreds of thousands of rows 0.5 gives the test error that 0.1 gives, in half the time.
    start : ndarray of shape (n,), optional
        `coef` to begin from; the smaller levels are then left out.
    budget : Budget, optional
        When it runs out the best model of the level is returned, by the primal value on its rows: one look in eight
        working sets. Then the scores of all rows are computed, for the certificate.
    seed : int, default=0
        Of the levels' rows.

    Returns
    -------
    KernelResult
        `n_iter` counts the working sets. Entries of the history have `rows`, the number of rows of their level.

    Raises
    ------
    CapabilityError
        If the kernel or the rows are of another kind; if `tol` is None and no row is held out.
    """
    tiles_of = getattr(problem.rows, "tiles", None)
    if tiles_of is None:
        raise CapabilityError("the spatial dual needs rows in spatial order; use the working-set dual.")
    budget = budget or Budget()
    n = problem.n_rows
    order = np.random.default_rng(seed).permutation(n)
    sizes = [n]
    while start is None and sizes[0] > FIRST * GROWTH // 2:
        sizes.insert(0, max(FIRST, sizes[0] // GROWTH))
    coef = working_set.feasible(problem, start)
    history: list[dict[str, float]] = []
    rounds, indefinite = 0, False
    for m in sizes:
        rows = np.sort(order[:m])
        tiles = cast(TiledMatrix, tiles_of(rows))
        level = _Level(problem, tiles, rows[tiles.order], coef, budget)
        level.run(LOOSE if tol is None else tol, HoldOut(level.part) if tol is None and m == n else None)
        coef[level.index] = level.coef
        rounds += level.rounds
        indefinite |= level.block.indefinite
        history += level.history
        if budget.exhausted and m < n:
            tiles = cast(TiledMatrix, tiles_of(np.arange(n)))
            level = _Level(problem, tiles, tiles.order, coef, budget)
            break
    limit = tol if tol is not None else np.inf if level.settled else LOOSE
    result = working_set.finish(level.part, level.coef, level.scores, limit, budget, rounds, history, level.best)
    return replace(result, coef=coef, indefinite=indefinite)


class _Level:
    """One level: the problem on its rows in spatial order, coefficients and scores."""

    def __init__(self, problem: KernelProblem, tiles: TiledMatrix, index: Ints, coef: Floats, budget: Budget) -> None:
        self.part = KernelProblem(
            cast(KernelMatrix, tiles), problem.y[index], problem.upper[index], problem.fit_intercept
        )
        self.tiles, self.index, self.budget = tiles, index, budget
        self.coef, self.scores = coef[index], np.zeros(index.shape[0])
        self.block = working_set.Block(self.part, 0, budget)
        self.best = Best()
        self.rounds, self.settled = 0, False
        self.history: list[dict[str, float]] = []
        support = np.flatnonzero(self.coef)
        if support.shape[0]:
            tiles.add(support, self.coef[support], self.scores)

    def run(self, tol: float, rule: HoldOut | None = None) -> None:
        """Rounds until the violation is at most `tol`, the rule has seen enough, or the budget ends."""
        lower, upper = working_set.bounds(self.part)
        try:
            while True:
                left = working_set.violation(self.part, self.coef, self.scores, GLOBAL, lower, upper)
                spent = self.part.rows.evaluations
                if rule is not None and (rule.due(spent) or left.size <= tol):
                    self.settled = rule.look(spent, self.coef, self.scores, left.middle) or left.size <= tol
                done = left.size <= tol or self.settled or self.budget.exhausted
                if done or self.rounds % EVERY == 0:
                    self._note(left)
                if done:
                    break
                work = np.union1d(np.concatenate((left.up, left.down)), self._cell(left.middle, lower, upper))
                b, change = self.block.solve(
                    self.tiles.block(work), work, self.coef, self.scores, lower, upper, 0.5 * tol
                )
                moved = np.flatnonzero(change)
                scores = self.scores.copy()  # an interrupt leaves the old ones
                self.tiles.add(work[moved], change[moved], scores)
                self.coef[work], self.scores = b, scores
                self.rounds += 1
                if not moved.shape[0]:
                    break
        except KeyboardInterrupt:
            self.budget.interrupted = True
        if rule is not None and rule.best is not None:
            self.coef, self.scores, self.best = rule.best.coef, rule.best.scores, Best()
        elif self.budget.exhausted:
            at = values(self.part, self.coef, self.scores, optimal_bias(self.part, self.scores))
            self.best.restore(at.primal, self.coef, self.scores)

    def _cell(self, middle: float, lower: Floats, upper: Floats) -> Ints:
        """The rows of the cell with the largest sum of violations."""
        ahead = self.part.y - self.scores - middle
        excess = np.where(ahead > 0.0, ahead * (self.coef < upper), -ahead * (self.coef > lower))
        starts = np.arange(0, excess.shape[0], CELL)
        best = CELL * int(np.argmax(np.add.reduceat(excess, starts)))
        return np.arange(best, min(best + CELL, excess.shape[0]))

    def _note(self, left: working_set.Violation) -> None:
        at = values(self.part, self.coef, self.scores, left.middle)
        self.best.offer(at._asdict(), self.coef, self.scores)
        self.history.append(
            {
                "seconds": self.budget.elapsed, "evaluations": float(self.part.rows.evaluations), "primal": at.primal,
                "dual": at.dual, "violation": left.size, "rows": float(self.part.n_rows),
            }
        )  # fmt: skip
        self.budget.tell("spatial dual", self.rounds, at.dual, at.primal - at.dual, left.size)
