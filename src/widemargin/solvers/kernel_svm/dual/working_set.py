"""The working-set dual: block SMO over cached kernel rows, the fast way to the optimum of a kernel SVM.

    repeat until the violation is at most tol:
        W = the rows that violate most on either side, and the newest of the last W
        solve the dual in the variables of W on the block K[W, W] (SMO, second-order selection)
        scores += the rows that moved

The variables are `coef = y a`. Scores and gradient are kept in double precision, whatever the rows are in.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.exceptions import KernelError
from widemargin.linalg.products import add_rows
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.dual import working_set_loops as loops
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, KernelResult, optimal_bias, values
from widemargin.solvers.kernel_svm.progress import Best, Watch
from widemargin.solvers.paper_nest.weighted_hinges import balance

__all__ = ["Block", "bounds", "conclude", "feasible", "finish", "responses", "solve", "status_of", "violation"]

SIZE = 1024
"""Rows of a working set; below that more rounds, above it longer steps (a step touches two rows of the block)."""

FINE = 1e-3
"""Violation at which a run by the hold-out rule has nothing left to do."""

SHARE, STEPS = 0.1, 100
"""A block is solved to this share of its violation, or by this many steps a row."""

_SLICE = 1 << 26
"""Numbers that the steps of a block touch between two looks at the budget: about a tenth of a second."""

INDEFINITE = 1e-5
"""Negative curvature, relative to the diagonal, that rounding does not explain."""

SMALLEST = 32
"""Where the steps do not suffice (badly scaled features), the next block has a quarter of the rows, down to so many: a
step costs as much as the block has rows, and few of them move. The raw breast-cancer data, linear: 0.6 s, not 5 s."""


class Violation(NamedTuple):
    """What is left to do: how far apart the two sides are, the level between them, and who is beyond it."""

    size: float
    middle: float
    up: Ints
    down: Ints


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    size: int = SIZE,
    scores: Floats | None = None,
) -> KernelResult:
    """Solve the dual of a kernel SVM.

    Parameters
    ----------
    problem : KernelProblem
        Rows that are not positive semi-definite are solved as LIBSVM does, and reported.
    tol : float or None, default=1e-3
        Largest violation of the optimality conditions, LIBSVM's measure; None: the hold-out rule.
    start : ndarray of shape (n,), optional
        `coef` to begin from; it is made feasible.
    budget : Budget, optional
    size : int, default=1024
        Rows of the working set, fewer where fewer fit into the cache.
    scores : ndarray of shape (n,), optional
        `K start`, float64, where it is known and `start` is feasible; it is changed to `K coef`. Saves as many rows as
        `start` has entries.

    Returns
    -------
    KernelResult
        `n_iter` counts the working sets. Where the budget ends the run this is the best model that was looked at, by
        its primal value: one look a working set.

    Raises
    ------
    KernelError
        If the cache does not hold two rows (one without a bias).
    CapabilityError
        If `tol` is None and no row is held out.
    """
    budget = budget or Budget()
    lower, upper = bounds(problem)
    coef = feasible(problem, start)
    scores = responses(problem.rows, coef) if scores is None else scores
    least = 2 if problem.fit_intercept else 1
    size = min(max(size, least), problem.rows.capacity, problem.n_rows)
    if size < min(least, problem.n_rows):
        raise KernelError(
            f"the cache holds {problem.rows.capacity} kernel row and {least} are needed; raise cache_size."
        )
    block = Block(problem, size, budget)
    work: Ints = np.empty(0, dtype=np.int64)
    now = size
    watch = Watch(problem, "working set", budget, tol)
    goal = FINE if tol is None else tol
    rounds, stopped = 0, False
    try:
        while True:
            left = violation(problem, coef, scores, max(1, now // 4), lower, upper)
            facts = values(problem, coef, scores, left.middle)._asdict() | {"violation": left.size}
            stopped = watch.look(rounds, coef, scores, left.middle, facts) or left.size <= goal
            if stopped or budget.exhausted:
                break
            if now < problem.n_rows:
                fresh = np.concatenate((left.up, left.down))
                work = np.concatenate((fresh, work[~np.isin(work, fresh)]))[:now]
            else:
                work = np.arange(problem.n_rows)
            buffer, slot = problem.rows.cached(work)
            moved = block.improve(buffer, slot, work, coef, scores, lower, upper, 0.5 * goal)
            rounds += 1
            now = max(min(SMALLEST, size), now // 4) if block.tired else min(size, 2 * now)
            if not moved:  # rounding: the block cannot be told from its optimum
                break
    except KeyboardInterrupt:
        budget.interrupted = True
    result = conclude(problem, coef, scores, tol, budget, rounds, watch, ended=stopped)
    return replace(result, indefinite=result.indefinite or block.indefinite)


class Block:
    """The block of the working set, with the memory that its steps need.

    Parameters
    ----------
    problem : KernelProblem
    size : int
        Largest number of rows of `improve`.
    budget : Budget, optional
        Its time is looked at between the steps; what they have gained by then is kept.
    """

    def __init__(self, problem: KernelProblem, size: int, budget: Budget | None = None) -> None:
        self._y, self._pairs, self._dtype = problem.y, problem.fit_intercept, problem.rows.dtype
        self._blocks = np.empty((2, size * size), dtype=self._dtype)  # the present and the last one
        self._last: Ints = np.empty(0, dtype=np.int64)
        self._lanes = np.empty(loops.LANES, dtype=self._dtype)
        self._budget = budget or Budget()
        self.steps = 0
        self.tired = False  # whether the last block was left before it was solved
        self.indefinite = False

    def improve(
        self, buffer: np.ndarray, slot: Ints, work: Ints, coef: Floats, scores: Floats, lower: Floats, upper: Floats,
        floor: float,
    ) -> bool:  # fmt: skip
        """Solve in the variables of `work`, whose rows are `buffer[slot]`; change `coef` and `scores`."""
        K = self._gather(buffer, slot, work)
        b, change = self.solve(K, work, coef, scores, lower, upper, floor)
        moved = np.flatnonzero(change)
        add_rows(buffer, slot[moved], change[moved], scores)
        coef[work] = b
        return moved.shape[0] > 0

    def _gather(self, buffer: np.ndarray, slot: Ints, work: Ints) -> np.ndarray:
        """The kernel values among `work`."""
        q, p = work.shape[0], self._last.shape[0]
        made, last = (self._blocks[k, : m * m].reshape(m, m) for k, m in ((0, q), (1, p)))
        place = np.full(q, -1)
        if p:
            order = np.argsort(self._last)
            found = order[np.minimum(np.searchsorted(self._last, work, sorter=order), p - 1)]
            place = np.where(self._last[found] == work, found, -1)
        loops.gather(buffer, slot, work, last, place, made)
        self._blocks, self._last = self._blocks[::-1], work
        return made

    def solve(
        self, K: np.ndarray, work: Ints, coef: Floats, scores: Floats, lower: Floats, upper: Floats, floor: float
    ) -> tuple[Floats, Floats]:
        """The new coefficients of `work`, and what they gained, from the block K of their kernel values."""
        q = work.shape[0]
        diagonal = K.diagonal().copy()
        b, g = coef[work], self._y[work] - scores[work]
        before = b.copy()
        share = SHARE if q < self._y.shape[0] else 0.0  # there is no other block to turn to
        state = (K, diagonal, g, b, lower[work], upper[work])
        room, some = np.empty((5, q), K.dtype), max(1, _SLICE // max(q, 1))
        steps, flattest, more = 0, np.inf, True
        while more:
            most = min(some, STEPS * q - steps)
            if self._pairs:
                taken, curvature, floor = loops.solve_pairs(*state, room, self._lanes, share, floor, most)
            else:
                taken, curvature, floor = loops.solve_free(*state, np.empty(q), share, floor, most)
            steps, flattest, share = steps + taken, min(flattest, curvature), 0.0  # the first slice has set the goal
            more = 0 < taken == most and steps < STEPS * q and not self._budget.exhausted
        self.steps += steps
        self.tired = steps >= STEPS * q
        self.indefinite |= bool(flattest < -INDEFINITE * max(1e-300, float(np.abs(diagonal).max(initial=0.0))))
        return b, b - before


def bounds(problem: KernelProblem) -> tuple[Floats, Floats]:
    """Least and largest value of every coefficient, shapes (n,)."""
    signed = problem.y * problem.upper
    return np.minimum(signed, 0.0), np.maximum(signed, 0.0)


def feasible(problem: KernelProblem, start: Floats | None) -> Floats:
    """A copy of `start` within its bounds and, with a bias, of sum 0; zeros for None."""
    if start is None:
        return np.zeros(problem.n_rows)
    coef = np.clip(start, *bounds(problem)).astype(np.float64)
    if problem.fit_intercept and abs(float(coef.sum())) > 1e-12 * float(np.abs(coef).sum()):
        balance(coef)
    return coef


def responses(rows: KernelMatrix, coef: Floats) -> Floats:
    """`K coef` in double precision, shape (n,), by blocks of the rows whose coefficient is not 0."""
    scores, support = np.zeros(rows.n_rows), np.flatnonzero(coef)
    rows.add(support, coef[support], scores)
    return scores


def violation(
    problem: KernelProblem, coef: Floats, scores: Floats, count: int, lower: Floats, upper: Floats
) -> Violation:
    """The largest violation, and the `count` rows of either side that violate most."""
    gradient = problem.y - scores
    up, down = np.where(coef < upper, gradient, -np.inf), np.where(coef > lower, gradient, np.inf)
    highest, lowest = float(up.max(initial=-np.inf)), float(down.min(initial=np.inf))
    if problem.fit_intercept:
        size = max(0.0, highest - lowest)
        middle = 0.5 * (highest + lowest) if np.isfinite(highest - lowest) else 0.0
    else:
        size, middle = max(0.0, highest, -lowest), 0.0
    return Violation(size, middle, _largest(up, middle, count), _largest(-down, -middle, count))


def _largest(value: Floats, level: float, count: int) -> Ints:
    """The rows of the `count` largest values above `level`."""
    rows = np.flatnonzero(value > level)
    return rows if rows.shape[0] <= count else rows[np.argpartition(-value[rows], count - 1)[:count]]


def status_of(budget: Budget, converged: bool) -> Status:
    """Why a run ended."""
    if converged:
        return Status.CONVERGED
    if budget.interrupted:
        return Status.INTERRUPTED
    if budget.stopped:
        return Status.STOPPED
    return Status.TIME_LIMIT if budget.exhausted else Status.MAX_ITER


def conclude(
    problem: KernelProblem, coef: Floats, scores: Floats, tol: float | None, budget: Budget, rounds: int, watch: Watch,
    *, ended: bool,
) -> KernelResult:  # fmt: skip
    """The result of a watched run; without a tolerance it has converged where it `ended` by itself.

    The rule of rows held out knows the best model if it has judged one. `coef` and `scores` become those of the result.
    """
    limit, best = tol if tol is not None else np.inf if ended else -1.0, watch.best
    if watch.rule is not None and watch.rule.best is not None:
        coef[:], scores[:] = watch.rule.best.coef, watch.rule.best.scores
        best = Best()
    return finish(problem, coef, scores, limit, budget, rounds, watch.history, best)


def finish(
    problem: KernelProblem, coef: Floats, scores: Floats, tol: float, budget: Budget, rounds: int,
    history: list[dict[str, float]], best: Best,
) -> KernelResult:  # fmt: skip
    """The result, with the best intercept and the certificate.

    Where the violation is above `tol` the best model that was looked at takes the place of a worse last one, in `coef`
    and `scores` too; its primal value is bounded by the largest dual value.
    """
    intercept = optimal_bias(problem, scores)
    at = values(problem, coef, scores, intercept)
    dual, status = at.dual, status_of(budget, at.violation <= tol)
    if status is not Status.CONVERGED:
        if best.restore(at.primal, coef, scores):
            intercept = optimal_bias(problem, scores)
            at = values(problem, coef, scores, intercept)
        dual = max(dual, best.dual)
    evaluations = problem.rows.evaluations
    return KernelResult(
        coef, intercept, at.primal, dual, at.violation, status, rounds, evaluations, budget.elapsed, tuple(history),
        _negative(problem, coef, scores),
    )  # fmt: skip


def _negative(problem: KernelProblem, coef: Floats, scores: Floats) -> bool:
    """Whether `|w|^2` came out negative: steps along pairs need not meet what is not positive semi-definite."""
    square = float(coef @ scores)
    if square >= 0.0:
        return False
    return square < -INDEFINITE * float(np.abs(coef).sum()) ** 2 * float(np.abs(problem.rows.diagonal()).max())
