"""What the stochastic kernel methods share: the scaled iterate and its average, rows fetched ahead, looks, the bound.

Pegasos, the Perceptron, dual coordinate ascent and SGD in a norm ball look at one row a step, and change w where its
margin asks. They differ in their compiled step and in what they minimise; the run around it is here.

The iterate is `w = scale sum_i v_i phi(x_i)` with the scores `scale V`, `V = K v`: shrinking w is one multiplication.
Its weighted sum over the steps is kept the same way: `sum_t c_t w_t = total v - u`, where `total = sum_t c_t scale_t`
and a change of v by delta adds `total delta` to u. `U = K u`.

Only some steps need their row of the kernel matrix. One block of many rows costs far less than as many blocks of one
row, so the rows of the next steps that would move at the present scores are fetched ahead (`visit`). The steps stay the
same; a row that was fetched and does not move in the end is the price. A compiled step that needs a row which is not at
hand (`place[i] < 0`) ends its call before it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Bools, Floats, Ints, Reals
from widemargin.exceptions import KernelError
from widemargin.linalg.gram import squared_norm
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.certificate import KernelRecorder
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, KernelResult, responses

__all__ = [
    "AHEAD", "Advance", "Iterates", "Method", "Moves", "Now", "Point", "add_row", "hinge", "in_box", "judge_svm",
    "passes", "run", "visit",
]  # fmt: skip

AHEAD = 8
"""Kernel rows fetched together. Raising it saves time and costs evaluations of rows that do not move in the end: on
4,000 rows of a9a the Perceptron asks for 4.5 million values one by one, 8.2 with 8 rows together and 11.4 with 32."""


class _Places(NamedTuple):
    SCALE: int = 0
    TOTAL: int = 1
    WEIGHT: int = 2
    SQUARE: int = 3
    STEPS: int = 4


Now = _Places()
"""Places in the array `now` of the compiled steps: scale, total, the sum of the c_t, |w|^2, and the steps t."""


@kernel
def add_row(row: Reals, i: int, delta: float, v: Floats, V: Floats, u: Floats, U: Floats, total: float) -> None:
    """Add `delta phi(x_i)` to `sum v phi` and keep V, u and U in step; `row` is row i of K."""
    # The scores of all rows move with the one row that is added: this is what a step costs.
    v[i] += delta
    if total == 0.0:  # nothing was averaged yet, so u and U do not change: half of the work
        for j in range(V.shape[0]):
            V[j] += delta * row[j]
        return
    u[i] += total * delta
    for j in range(V.shape[0]):
        change = delta * row[j]
        V[j] += change
        U[j] += total * change


Moves = Callable[[Ints], Bools]
"""`moves(rows)`: which rows would change w at the present scores."""

Advance = Callable[[Ints, int, int, Ints, Reals], int]
"""`advance(draws, first, last, place, buffer)`: steps until one needs a row that is not at hand; the draw before it."""


def visit(rows: KernelMatrix, draws: Ints, moves: Moves, advance: Advance, ahead: int = AHEAD) -> Iterator[int]:
    """Take the steps of `draws` in their order.

    Parameters
    ----------
    draws : ndarray of int64, shape (m,)
        Row numbers, repeated ones too.
    ahead : int, default=8
        At most so many kernel rows are fetched together; at most as many as the cache holds.

    Yields
    ------
    int
        Steps done so far.
    """
    ahead = min(ahead, rows.capacity)
    window = max(64, 8 * ahead)  # steps looked ahead: beyond, the scores will have changed too much to foretell moves
    place = np.full(rows.n_rows, -1, dtype=np.int64)
    buffer = np.empty((0, rows.n_rows), dtype=rows.dtype)
    done, stuck = 0, False
    while done < draws.shape[0]:
        # Rows that would move at the present scores are fetched together. Some of them will not move when it is their
        # turn, because the rows before them have; and where one moves that was not fetched the call ends before it.
        last = min(done + window, draws.shape[0])
        soon = draws[done:last]
        if stuck:
            wanted = soon[:1]
        else:
            moving = soon[moves(soon)]
            _, first = np.unique(moving, return_index=True)
            wanted = moving[np.sort(first)[:ahead]]
        if wanted.shape[0]:
            buffer, place[wanted] = rows.cached(wanted)
        before, done = done, advance(draws, done, last, place, buffer)
        place[wanted] = -1
        stuck = done == before  # rounding: moves and advance disagree about the first step
        if not stuck:
            yield done


class Point(NamedTuple):
    """Coefficients `coef`, the scores `K coef`, and `|w|^2`."""

    coef: Floats
    scores: Floats
    square: float


class Iterates:
    """The iterate and its average, as the compiled steps keep them.

    Parameters
    ----------
    start : ndarray of shape (n,), optional
        `coef` of the first iterate.
    checked : bool, default=True
        Whether a negative squared norm is an error.

    Attributes
    ----------
    arrays : tuple of ndarray
        v, V, u, U and `now`, see the top of this file and `Now`.
    indefinite : bool
        Whether a squared norm came out negative.
    """

    def __init__(self, problem: KernelProblem, start: Floats | None = None, *, checked: bool = True) -> None:
        n = problem.n_rows
        # Rows that are held out may not have a coefficient, whatever the start says.
        coef = np.zeros(n) if start is None else np.where(problem.upper > 0.0, start, 0.0)
        scores = responses(problem.rows, coef)
        now = np.array([1.0, 0.0, 0.0, float(coef @ scores), 0.0])
        self.arrays = (coef, scores, np.zeros(n), np.zeros(n), now)
        self.indefinite = False
        self._largest = float(problem.rows.diagonal().max(initial=0.0))
        self._dtype, self._checked = problem.rows.dtype, checked

    @property
    def steps(self) -> int:
        """Steps so far."""
        return int(self.arrays[4][Now.STEPS])

    def last(self) -> Point:
        """The last iterate."""
        v, V, _, _, now = self.arrays
        return self._point(now[Now.SCALE] * v, now[Now.SCALE] * V)

    def average(self) -> Point:
        """The weighted average of the iterates; the last one where there is none yet."""
        v, V, u, U, now = self.arrays
        # No step has been averaged yet.
        if now[Now.WEIGHT] == 0.0:
            return self.last()
        total, weight = now[Now.TOTAL], now[Now.WEIGHT]
        return self._point((total * v - u) / weight, (total * V - U) / weight)

    def scores_of(self, rows: Ints) -> Floats:
        """Scores of some rows at the last iterate."""
        scores: Floats = self.arrays[4][Now.SCALE] * self.arrays[1][rows]
        return scores

    def _point(self, coef: Floats, scores: Floats) -> Point:
        try:
            return Point(coef, scores, squared_norm(coef, scores, self._largest, self._dtype))
        except KernelError:
            if self._checked:
                raise
        self.indefinite = True
        return Point(coef, scores, float(coef @ scores))


class Method(NamedTuple):
    """One of the methods, on one problem.

    Attributes
    ----------
    name : str
    epoch : callable
        `epoch() -> ndarray of int64`: the rows of the next pass, in their order.
    moves, advance : callable
        Which rows would change w, and its compiled steps: see `visit`.
    read : callable
        `read() -> Point`: the result at this time.
    judge : callable
        `judge(point) -> {"primal": ..., "dual": ...}`, of what it minimises.
    descends : bool
        Whether the point of least primal value is the best one; else it is the last one.
    least : int
        Steps before the hold-out rule judges.
    """

    name: str
    epoch: Callable[[], Ints]
    moves: Moves
    advance: Advance
    read: Callable[[], Point]
    judge: Callable[[Point], dict[str, float]]
    descends: bool = True
    least: int = 0


def run(
    problem: KernelProblem, iterates: Iterates, method: Method, *, tol: float | None, budget: Budget, max_iter: int,
    ahead: int,
) -> KernelResult:  # fmt: skip
    """Passes over the rows until the relative gap is at most `tol`, or the hold-out rule or a limit ends the run.

    A pass in which w does not change ends a method that does not descend. The result is the best point that was looked
    at; `n_iter` counts the steps.
    """
    recorder = KernelRecorder(problem, method.name, budget, tol)
    converged = False

    def look() -> bool:
        point = method.read()
        facts, steps = method.judge(point), iterates.steps
        ended = recorder.watch(steps, point.coef, point.scores, 0.0, facts, judge=steps >= method.least)
        return ended or (tol is not None and facts["primal"] - facts["dual"] <= tol * abs(facts["primal"]))

    try:
        # A look costs passes over the rows, so it is due only when the work has grown by a factor.
        for _ in range(max_iter):
            # A pass that changes nothing is the end of a method that only corrects mistakes.
            before = iterates.arrays[0].copy()
            for _ in visit(problem.rows, method.epoch(), method.moves, method.advance, ahead):
                converged = recorder.due(iterates.steps) and look()
                if converged or budget.exhausted:
                    break
            if not method.descends and np.array_equal(before, iterates.arrays[0]):
                converged = True
            if converged or budget.exhausted:
                break
        converged = look() or converged
    except KeyboardInterrupt:
        budget.interrupted = True
    if recorder.rule is not None and recorder.rule.best is not None:
        coef, scores = recorder.rule.best.coef, recorder.rule.best.scores
    elif method.descends and recorder.point is not None:
        coef, scores = recorder.point  # a stochastic method may get worse; the best point is what it returns
    else:
        coef, scores, _ = method.read()
    best = Point(coef, scores, float(coef @ scores))
    facts = method.judge(best)
    return KernelResult(
        best.coef, 0.0, facts["primal"], facts["dual"], float("nan"), budget.status(converged=converged),
        iterates.steps, problem.rows.evaluations, budget.elapsed, tuple(recorder.history),
    )  # fmt: skip


def passes(problem: KernelProblem, rng: np.random.Generator) -> Ints:
    """All rows that are not held out, once each, in random order."""
    return rng.permutation(np.flatnonzero(problem.upper > 0.0))


def hinge(problem: KernelProblem, scores: Floats) -> float:
    """`sum_i C_i max(0, 1 - y_i f(x_i))`."""
    return float(problem.upper @ np.maximum(0.0, 1.0 - problem.y * scores))


def judge_svm(problem: KernelProblem, point: Point) -> dict[str, float]:
    """Primal value of a point, and the dual value of the best multiple of it that the bounds allow."""
    # The dual is a parabola in the multiple: its top, or the largest multiple that the bounds allow.
    total, most = in_box(problem, point)
    share = min(most, total / point.square if point.square > 0.0 else np.inf)
    dual = share * (total - 0.5 * share * point.square) if np.isfinite(share) else 0.0
    return {"primal": 0.5 * point.square + hinge(problem, point.scores), "dual": dual}


def in_box(problem: KernelProblem, point: Point) -> tuple[float, float]:
    """Sum of `a_i = y_i coef_i`, and the largest multiple of a in `0 <= a_i <= C_i`: 0 where one is negative."""
    # A negative coefficient, as a start may have, makes no multiple feasible but 0.
    a = problem.y * point.coef
    if a.min(initial=0.0) < -1e-12 * a.max(initial=0.0):
        return 0.0, 0.0
    used = a > 0.0
    return float(a.sum()), float((problem.upper[used] / a[used]).min(initial=np.inf))
