"""The working-set dual: block SMO over cached kernel rows, the fast way to the optimum of a kernel SVM.

    steps along pairs of all rows, where kernel rows are in memory or short enough to be computed between two steps
    repeat until the violation is at most tol:
        W = the rows that violate most on either side, and the newest of the last W
        solve the dual in the variables of W on the block K[W, W] (SMO, second-order selection)
        scores += the rows that moved

The variables are `coef = y a`. Scores and gradient are kept in double precision, whatever the rows are in.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, cast

import numpy as np

from widemargin._typing import Floats, Ints, Reals
from widemargin.linalg.powers import NarrowRows
from widemargin.linalg.products import add_rows
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.certificate import KernelRecorder
from widemargin.solvers.kernel_svm.dual import pair_steps
from widemargin.solvers.kernel_svm.problem import (
    KernelProblem,
    KernelResult,
    WholeMatrix,
    gradient_sides,
    responses,
    significantly_negative,
)

__all__ = ["Block", "Violation", "WorkingSetOptions", "renewed", "solve", "violation"]


@dataclass(frozen=True)
class WorkingSetOptions:
    """How the working-set dual works.

    Attributes
    ----------
    size : int, default=1024
        Rows of a working set. Fewer need more rounds; more make the steps longer, as each touches two rows of the
        block. Chosen on a9a and MNIST.
    largest, patience : int, default=2048, 32
        Where more rows than `size` are between their bounds, no set holds them all, and the next one moves some of them
        again. So each time that `patience` sets did not suffice, sets grow by half of `size`, to `largest` at most.
        Waves in 10 columns, 12,000 rows, C = 100: 668 sets and 5.1 s, or 238 and 3.6; where few sets suffice, large
        ones take longer.
    first : int, default=64
        Rows of the first working set where one does not hold the problem; each of the next ones has twice as many. A
        problem of few support vectors is then solved on few kernel rows (a ball in a shell, 10,000 rows of 3 columns,
        takes half of the time); others take four rounds more.
    smallest : int, default=32
        Where the steps do not suffice (badly scaled features), the next block has a quarter of the rows, down to so
        many, because a step costs as much as the block has rows, and few of them move. The raw breast-cancer data with
        a linear kernel take 0.6 s instead of 5 s.
    share, steps : float and int, default=0.1, 100
        A block is solved to this share of its violation, or by so many steps a row: more exact solutions are wasted
        where the next block moves the same rows again.
    fine : float, default=1e-3
        Violation at which a run by the hold-out rule has nothing left to do: LIBSVM's tolerance.
    of_all, of_more : float, default=3, 1
        Most steps a row along pairs of all rows, with which a run begins, if one working set holds them all, and if
        none does: a step costs as much as there are rows. Moons, 1,000 rows, C = 1e4: 0.41 s with 3, 0.53 with 1, 0.58
        with 10; waves in 3 columns, 5,000 rows: 0.09 s with 1, 0.18 with 3.
    alive : int, default=8
        So many rows are enough for a working set if all others are held at a bound. Breast cancer, a Gaussian kernel, C
        = 1e4: 18 instead of 44 ms; with one row of two columns a set, linear problems take longer.
    whole : int, default=8
        Multiple of `size` up to which a run begins with pairs of all rows.
    near : float, default=0.9
        Multiple of the tolerance at which they end, so that rounding does not leave it just missed.
    rounds : int, optional
        Most working sets; steps along pairs of all rows count as one.
    slice : int, default=2^26
        Numbers that the steps of a block touch between two looks at the budget: about a tenth of a second, so that
        time limits are kept.
    """

    size: int = 1024
    largest: int = 2048
    patience: int = 32
    first: int = 64
    smallest: int = 32
    share: float = 0.1
    steps: int = 100
    fine: float = 1e-3
    of_all: float = 3
    of_more: float = 1
    alive: int = 8
    whole: int = 8
    near: float = 0.9
    rounds: int | None = None
    slice: int = 1 << 26


class Violation(NamedTuple):
    """What is left to do: how far apart the two sides are, the middle between them, and who is beyond it."""

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
    scores: Floats | None = None,
    options: WorkingSetOptions = WorkingSetOptions(),
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
    scores : ndarray of shape (n,), optional
        `K start`, float64, where it is known and `start` is feasible; it is changed to `K coef`. Saves as many rows as
        `start` has entries.
    options : WorkingSetOptions, optional
        The working set has fewer rows where fewer fit into the cache.

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
    problem.refuse_small_cache()
    lower, upper = problem.bounds
    coef = problem.feasible(start)
    scores = responses(problem.rows, coef) if scores is None else scores
    # A pair needs two rows, and no set is larger than the cache or the problem.
    size = min(max(options.size, 2 if problem.fit_intercept else 1), problem.rows.capacity, problem.n_rows)
    largest = max(size, min(options.largest, problem.rows.capacity, problem.n_rows))
    block = Block(problem, largest, budget, options)
    recorder = KernelRecorder(problem, "working set", budget, tol)
    goal = options.fine if tol is None else tol
    work: Ints = np.empty(0, dtype=np.int64)
    size_now, rounds, ended = size, 0, False
    # Steps along pairs of all rows need no guess of who will move, so they are how a run begins.
    cold, begun = not coef.any(), False
    begins = cold and problem.fit_intercept and problem.n_rows <= options.whole * options.size
    if cold and size < problem.n_rows:
        size_now = min(size, options.first)
    try:
        while True:
            if size_now < problem.n_rows:
                # A quarter of the set from either side: new rows are one half of it.
                left = violation(problem, coef, scores, max(1, size_now // 4))
                at = problem.values(coef, scores, left.middle)
            else:  # a set of all rows is not chosen
                middle, at = problem.look(coef, scores)
                left = Violation(at.violation, middle, work, work)
            ended = recorder.watch(rounds, coef, scores, left.middle, at._asdict()) or left.size <= goal
            if ended or budget.exhausted or rounds == options.rounds:
                break
            rounds += 1
            if begins and block.of_all_rows(coef, scores, options.near * goal):
                size_now, begun = size, True
            else:
                alive = work[:0]
                if begun:  # rows not held at a bound beyond all that can move: LIBSVM's shrinking leaves out the others
                    ahead, half = problem.y - scores - left.middle, 0.5 * left.size
                    alive = np.flatnonzero(((coef < upper) | (ahead <= half)) & ((coef > lower) | (ahead >= -half)))
                if options.alive <= alive.shape[0] <= min(size, problem.n_rows // 2):
                    work = alive
                else:
                    work = renewed(work, left, size_now, problem.n_rows)
                buffer, slot = problem.rows.cached(work)
                # A block is solved more exactly than the run, so that rounding does not stop it short.
                moved = block.improve(buffer, slot, work, coef, scores, 0.5 * goal)
                if rounds % options.patience == 0 and np.count_nonzero((coef > lower) & (coef < upper)) > size:
                    size = min(largest, size + options.size // 2)
                size_now = min(block.next_size(size_now), size)
                if not moved:  # rounding: the block cannot be told from its optimum
                    break
            begins = False
    except KeyboardInterrupt:
        budget.interrupted = True
    result = recorder.finish(coef, scores, rounds, ended=ended)
    return replace(result, indefinite=True) if block.indefinite else result


class NarrowMatrix(Protocol):
    """A kernel matrix whose rows a compiled loop may compute (`kernels.rows.KernelRows`)."""

    def narrow(self) -> NarrowRows | None:
        """What that takes; None where the rows are long, or the kernel is another one."""

    def cache(self) -> tuple[Reals, Ints, int]:
        """A buffer of whole rows, the place of each row in it, or -1, and how many places are taken."""

    def take_over(self) -> None:
        """Count the rows that were written to the next places."""


class Block:
    """The block of the working set, with the memory that its steps need.

    Parameters
    ----------
    problem : KernelProblem
    size : int
        Largest number of rows of `improve`.
    budget : Budget
        Its time is looked at between the steps; what they have gained by then is kept.
    options : WorkingSetOptions, optional

    Attributes
    ----------
    steps : int
        Steps so far, of all blocks.
    filled : int
        Kernel rows that the last block had.
    tired : bool
        Whether the last block was left before it was solved.
    indefinite : bool
        Whether a step met negative curvature.
    """

    def __init__(
        self, problem: KernelProblem, size: int, budget: Budget, options: WorkingSetOptions = WorkingSetOptions()
    ) -> None:
        self._rows, self._y, self._pairs = problem.rows, problem.y, problem.fit_intercept
        self._bounds = problem.bounds
        self._size, self._dtype = size, problem.rows.dtype
        self._blocks: Reals | None = None  # the present and the last one
        self._last: Ints = np.empty(0, dtype=np.int64)
        self._every = np.arange(problem.n_rows)
        self._budget, self._options = budget, options
        self._by_need: Reals = np.empty(0, dtype=self._dtype)
        self.steps, self.filled, self.tired, self.indefinite = 0, 0, False, False

    def next_size(self, size: int) -> int:
        """Rows of the next block: one that ran out of steps was too large; others grow back to the full size."""
        return max(min(self._options.smallest, self._size), size // 4) if self.tired else min(self._size, 2 * size)

    def improve(self, buffer: Reals, slot: Ints, work: Ints, coef: Floats, scores: Floats, floor: float) -> bool:
        """Solve in the variables of `work`, whose rows are `buffer[slot]`; change `coef` and `scores`."""
        # Where all rows are in memory and all are worked on, the buffer is the block already.
        whole = work.shape[0] == buffer.shape[0] == buffer.shape[1] and np.array_equal(slot, work)
        block = buffer
        if not whole:
            q, p = work.shape[0], self._last.shape[0]
            if self._blocks is None:
                self._blocks = np.empty((2, self._size * self._size), dtype=self._dtype)
            block, last = (self._blocks[k, : m * m].reshape(m, m) for k, m in ((0, q), (1, p)))
            # Place of these rows in the last block: values that are there are copied, as they lie together.
            place = np.full(q, -1)
            if p:
                order = np.argsort(self._last)
                nearest = order[np.minimum(np.searchsorted(self._last, work, sorter=order), p - 1)]
                place = np.where(self._last[nearest] == work, nearest, -1)
            pair_steps.gather(buffer, slot, work, last, place, block)
            # The two blocks change places: this one is the last one of the next round.
            self._blocks, self._last = self._blocks[::-1], work
        b, change = self.solve(block, work, coef, scores, floor)
        # Most coefficients stay, and only those that moved change the scores.
        moved = np.flatnonzero(change)
        add_rows(buffer, slot[moved], change[moved], scores)
        coef[work] = b
        return moved.shape[0] > 0

    def solve(
        self, K: Reals | NarrowRows, work: Ints, coef: Floats, scores: Floats, floor: float
    ) -> tuple[Floats, Floats]:
        """The new coefficients of `work`, and what they gained, from the block K of their kernel values.

        Rows that are `narrow`, of a Gaussian kernel and with a bias, are computed where a step asks for them.
        """
        q, options = work.shape[0], self._options
        if isinstance(K, NarrowRows):
            columns, gamma, slot, filled, diagonal = *K, np.full(q, -1), 0, np.ones(q, self._dtype)
            if self._by_need.shape[0] < q * q:
                self._by_need = np.empty(q * q, self._dtype)  # of its pages those are used that steps ask for
            K = self._by_need[: q * q].reshape(q, q)
        else:
            # Kernel rows in memory need no columns; those of their precision need no code of their own.
            columns, gamma, slot, filled = np.empty((0, 0), K.dtype), 0.0, self._every[:q], q
            diagonal = K.diagonal().copy()
        b, g = coef[work], self._y[work] - scores[work]
        before = b.copy()
        share = options.share if q < self._y.shape[0] else 0.0  # of all rows there is no other block to turn to
        variables = pair_steps.Variables(diagonal, g, b, *(bound[work] for bound in self._bounds))
        room, a_slice = np.empty((5, q), K.dtype), max(1, options.slice // max(q, 1))
        steps, flattest, more = 0, np.inf, True
        # In slices, so that a time limit is kept where a block takes tens of thousands of steps.
        while more:
            most = min(a_slice, options.steps * q - steps)
            if self._pairs:
                taken, curvature, floor, filled, _ = pair_steps.solve_pairs(
                    columns, gamma, K, slot, filled, variables, room, False, share, floor, most
                )
            else:
                taken, curvature, floor = pair_steps.solve_free(K, variables, np.empty(q), share, floor, most)
            steps, flattest, share = steps + taken, min(flattest, curvature), 0.0  # the first slice has set the goal
            more = 0 < taken == most and steps < options.steps * q and not self._budget.exhausted
        self.steps += steps
        self.filled = filled
        self.tired = steps >= options.steps * q
        self.indefinite |= significantly_negative(flattest, float(np.abs(diagonal).max(initial=0.0)))
        return b, b - before

    def of_all_rows(self, coef: Floats, scores: Floats, floor: float) -> bool:
        """Some steps along pairs of all rows; change `coef` and `scores`.

        False, and nothing done, where kernel rows are neither in memory nor `narrow`.
        """
        rows, n, kind, options = self._rows, coef.shape[0], self._dtype, self._options
        limit = int((options.of_all if n <= options.size else options.of_more) * n)
        narrow = cast(NarrowMatrix, rows).narrow() if hasattr(rows, "narrow") else None
        if narrow is not None:
            (columns, gamma), (buffer, slot, filled) = narrow, cast(NarrowMatrix, rows).cache()
            square = np.einsum("ij,ij->j", columns, columns)
            diagonal = np.ones(n, kind) if gamma > 0.0 else (square ** max(1.0, -gamma)).astype(kind)
        elif isinstance(rows, WholeMatrix):
            columns, gamma, (buffer, slot, filled) = np.empty((0, 0), kind), 0.0, rows.cache()
            diagonal = rows.diagonal().astype(kind)
        else:
            return False
        gradient, steps, flattest, more = self._y - scores, 0, np.inf, True
        variables, room = pair_steps.Variables(diagonal, gradient, coef, *self._bounds), np.empty((5, n), kind)
        try:
            while more:
                most = min(max(1, options.slice // n), limit - steps)
                taken, curvature, _, filled, _ = pair_steps.solve_pairs(
                    columns, gamma, buffer, slot, filled, variables, room, False, 0.0, floor, most
                )
                steps, flattest = steps + taken, min(flattest, curvature)
                more = 0 < taken == most and steps < limit and not self._budget.exhausted
        finally:  # after an interrupt, too, which comes when the loop returns: the scores are those of the coefficients
            scores[:] = self._y - gradient
            if narrow is not None:
                cast(NarrowMatrix, rows).take_over()
        self.steps += steps
        self.indefinite |= significantly_negative(flattest, float(np.abs(diagonal).max(initial=0.0)))
        return True


def renewed(work: Ints, left: Violation, size: int, n_rows: int) -> Ints:
    """The next working set: the rows that violate most, and others of the last one."""
    if size >= n_rows:  # one block solves the whole problem
        return np.arange(n_rows)
    # Half of the set is new; the rest are rows of the last sets, whose kernel rows are cached and which often have to
    # move again.
    fresh, old = np.concatenate((left.up, left.down)), np.ones(n_rows, dtype=bool)
    old[fresh] = False
    return np.concatenate((fresh, work[old[work]]))[:size]


def violation(problem: KernelProblem, coef: Floats, scores: Floats, count: int) -> Violation:
    """The largest violation, and the `count` rows of either side that violate most."""
    up, down = np.empty(problem.n_rows), np.empty(problem.n_rows)
    highest, lowest = gradient_sides(problem.y, scores, coef, *problem.bounds, up, down)
    if problem.fit_intercept:
        size = max(0.0, highest - lowest)
        middle = 0.5 * (highest + lowest) if np.isfinite(highest - lowest) else 0.0
    else:
        size, middle = max(0.0, highest, -lowest), 0.0
    return Violation(size, middle, _largest(up, middle, count), _largest(-down, -middle, count))


def _largest(value: Floats, threshold: float, count: int) -> Ints:
    """The rows of the `count` largest values above a threshold."""
    rows = np.flatnonzero(value > threshold)
    return rows if rows.shape[0] <= count else rows[np.argpartition(-value[rows], count - 1)[:count]]
