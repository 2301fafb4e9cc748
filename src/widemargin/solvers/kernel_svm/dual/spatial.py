"""The working-set dual for many rows of few columns: spatial working sets, no row cache.

    for m = 32768, 131072, ..., n rows:                     # each starts from the coefficients of the last one
        repeat until the violation is at most tol:
            W = the cell of neighbouring rows that violates most, and the rows that violate most of all
            solve the dual in the variables of W
            scores += the rows that moved, computed afresh and only where they reach

The rows that violate most of all are needed: within a cell the sum of the coefficients could not change.
"""

from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.exceptions import CapabilityError
from widemargin.linalg.powers import NarrowRows
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.certificate import KernelRecorder
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.dual.working_set import WorkingSetOptions
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, KernelResult, TiledMatrix, excess_sums
from widemargin.solvers.kernel_svm.stopping import HoldOut

__all__ = ["SpatialOptions", "solve"]


@dataclass(frozen=True)
class SpatialOptions:
    """How the cells and the subsamples are chosen; chosen on covtype.

    Attributes
    ----------
    cell, worst : int, default=4096, 256
        Rows of a cell, and rows of either side that are taken from everywhere. More rows need fewer rounds, and the
        block grows with their square.
    first, growth : int, default=32,768, 4
        Rows of the first subsample, and how many times as many the next one has. Smaller steps waste less on the
        smaller ones, and each starts with a pass of its own.
    loose : float, default=0.5
        Violation at which a run by the hold-out rule has nothing left to do. On hundreds of thousands of rows 0.5 gives
        the test error that 0.1 gives, in half the time.
    every : int, default=8
        Rounds between two entries of the history.
    nearly, negligible : float, default=0.98, 1e-5
        Shares of the tolerance: to which a run is solved, so that the smaller values, which it leaves out, do not lift
        the violation above it; and what the certificate may leave out.
    blocks : WorkingSetOptions
        Of the steps in a cell.
    """

    cell: int = 4096
    worst: int = 256
    first: int = 32_768
    growth: int = 4
    loose: float = 0.5
    every: int = 8
    nearly: float = 0.98
    negligible: float = 1e-5
    blocks: WorkingSetOptions = field(default_factory=WorkingSetOptions)


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    options: SpatialOptions = SpatialOptions(),
) -> KernelResult:
    """Solve the dual of a kernel SVM with a Gaussian kernel on few columns.

    Memory is at most a block of 4608^2 float32 (85 MB) and about 30 numbers a row. Values below 2^-22 count as 0, so a
    score is wrong by at most that times the sum of |coef|, in practice by far less.

    Parameters
    ----------
    problem : KernelProblem
        Its rows must offer `tiles` (`kernels.rows.KernelRows` with dense rows and the kernel "rbf").
    tol : float or None, default=1e-3
        Largest violation of the optimality conditions, LIBSVM's measure; None: 0.5, or sooner by the hold-out rule.
    start : ndarray of shape (n,), optional
        `coef` to begin from; the subsamples are then left out.
    budget : Budget, optional
        When it runs out the best model of the subsample is returned, by the primal value on its rows: one look in eight
        working sets. Then the scores of all rows are computed, for the certificate.
    seed : int, default=0
        Of the subsamples.

    Returns
    -------
    KernelResult
        `n_iter` counts the working sets. Entries of the history have `rows`, the number of rows of their subsample.

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
    # Each subsample is a quarter of the next, down to the first that is worth a start.
    sizes = [n]
    while start is None and sizes[0] > options.first * options.growth // 2:
        sizes.insert(0, max(options.first, sizes[0] // options.growth))
    coef = problem.feasible(start)
    goal = options.loose if tol is None else options.nearly * tol
    history: list[dict[str, float]] = []
    rounds, indefinite = 0, False
    for m in sizes:
        # Sorted, so that the tree of the spatial order sees the rows in memory order.
        rows = np.sort(order[:m])
        stage = _Stage(problem, cast(TiledMatrix, tiles_of(rows)), rows, coef, budget, options)
        # The rule of rows held out judges the last stage alone: models of subsamples would end it too early.
        stage.run(goal, HoldOut(stage.part) if tol is None and m == n else None)
        coef[stage.index] = stage.coef
        rounds += stage.rounds
        indefinite |= stage.block.indefinite
        history += stage.recorder.history
        # The certificate is one over all rows, whatever subsample the run has come to.
        if budget.exhausted and m < n:
            rows = np.arange(n)
            stage = _Stage(problem, cast(TiledMatrix, tiles_of(rows)), rows, coef, budget, options)
            break
    stage.recorder.history = history
    limit = np.inf if tol is None and stage.settled else goal
    result = stage.recorder.finish(stage.coef, stage.scores, rounds, limit=limit)
    # From the spatial order back to the user's.
    scores = np.empty(n)
    scores[stage.index] = stage.scores
    return replace(result, coef=coef, indefinite=indefinite, scores=scores)


class _Stage:
    """One subsample: the problem on its rows in spatial order, coefficients and scores."""

    def __init__(
        self, problem: KernelProblem, tiles: TiledMatrix, rows: Ints, coef: Floats, budget: Budget,
        options: SpatialOptions,
    ) -> None:  # fmt: skip
        self.tiles, self.index, self.budget, self.options = tiles, rows[tiles.order], budget, options
        self.part = replace(
            problem, rows=cast(KernelMatrix, tiles), y=problem.y[self.index], upper=problem.upper[self.index]
        )
        self.coef, self.scores = coef[self.index], np.zeros(rows.shape[0])
        self.block = working_set.Block(self.part, 0, budget, options.blocks)
        self.recorder = KernelRecorder(self.part, "spatial dual", budget, 0.0)
        self.rounds, self.settled = 0, False
        support = np.flatnonzero(self.coef)
        if support.shape[0]:
            tiles.add(support, self.coef[support], self.scores)

    def run(self, tol: float, rule: HoldOut | None = None) -> None:
        """Rounds until the violation is at most `tol`, the rule has seen enough, or the budget ends."""
        try:
            while True:
                # The rows that violate most anywhere, besides the worst cell.
                left = working_set.violation(self.part, self.coef, self.scores, self.options.worst)
                spent = self.part.rows.evaluations
                if rule is not None and (rule.due(spent) or left.size <= tol):
                    self.settled = rule.look(spent, self.coef, self.scores, left.middle) or left.size <= tol
                done = left.size <= tol or self.settled or self.budget.exhausted
                if done or self.rounds % self.options.every == 0:
                    at = self.part.values(self.coef, self.scores, left.middle)
                    facts = at._asdict() | {"violation": left.size, "rows": float(self.part.n_rows)}
                    self.recorder.note(self.coef, self.scores, facts)
                    self.budget.tell("spatial dual", self.rounds, at.dual, at.primal - at.dual, left.size)
                if done:
                    break
                work = np.union1d(np.concatenate((left.up, left.down)), self._cell(left.middle))
                # Of a block one row in ten is asked for, by those who move.
                K = self.tiles.narrow(work) if self.part.fit_intercept else self.tiles.block(work)
                b, change = self.block.solve(K, work, self.coef, self.scores, 0.5 * tol)
                if isinstance(K, NarrowRows):
                    self.tiles.count(self.block.filled * work.shape[0])
                moved = np.flatnonzero(change)
                scores = self.scores.copy()  # an interrupt leaves the old ones
                self.tiles.add(work[moved], change[moved], scores)
                self.coef[work], self.scores = b, scores
                self.rounds += 1
                # Rounding: the block cannot be told from its optimum, and the next one would be the same.
                if not moved.shape[0]:
                    break
        except KeyboardInterrupt:
            self.budget.interrupted = True
        if rule is not None and rule.best is not None:
            self.coef, self.scores = rule.best.coef, rule.best.scores
            self.recorder.point = None  # the rule knows better than the primal value
        elif self.budget.exhausted:
            at = self.part.values(self.coef, self.scores, self.part.optimal_bias(self.scores))
            self.recorder.restore(at.primal, self.coef, self.scores)

    def _cell(self, middle: float) -> Ints:
        """The rows of the cell with the largest sum of violations."""
        size, n = self.options.cell, self.part.n_rows
        sums = np.empty(-(-n // size))
        excess_sums(self.part.y, self.scores, self.coef, *self.part.bounds, middle, size, sums)
        best = size * int(np.argmax(sums))
        return np.arange(best, min(best + size, n))
