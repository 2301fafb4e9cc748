"""What the stochastic kernel methods share: the scaled iterate and its average, draws, looks, and the bound.

`kernel_pegasos`, `norm_ball_sgd` and `perceptron` differ in their step (`_loops/kernel_sgd.py`) and in what they
minimise; the run around it is here.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.exceptions import CapabilityError, KernelError
from widemargin.linalg.gram import squared_norm
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm import stochastic_loops as loops
from widemargin.solvers.kernel_svm.dual.working_set import responses, status_of
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult
from widemargin.solvers.kernel_svm.progress import Watch
from widemargin.solvers.kernel_svm.row_visits import Advance, Moves, visit

__all__ = [
    "Iterates", "Method", "Point", "drawn", "hinge", "in_box", "judge_svm", "passes", "refuse_bias", "run",
]  # fmt: skip


class Point(NamedTuple):
    """Coefficients `coef`, the scores `K coef`, and `|w|^2`."""

    coef: Floats
    scores: Floats
    square: float


class Iterates:
    """The iterate and its average, as the compiled steps keep them.

    Parameters
    ----------
    problem : KernelProblem
    start : ndarray of shape (n,), optional
        `coef` of the first iterate.
    checked : bool, default=True
        Whether a negative squared norm is an error.

    Attributes
    ----------
    arrays : tuple of ndarray
        v, V, u, U and `now`, see `_loops/kernel_sgd.py`.
    indefinite : bool
        Whether a squared norm came out negative.
    """

    def __init__(self, problem: KernelProblem, start: Floats | None = None, *, checked: bool = True) -> None:
        n = problem.n_rows
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
        return int(self.arrays[4][loops.STEPS])

    def last(self) -> Point:
        """The last iterate."""
        v, V, _, _, now = self.arrays
        return self._point(now[loops.SCALE] * v, now[loops.SCALE] * V)

    def average(self) -> Point:
        """The weighted average of the iterates; the last one where there is none yet."""
        v, V, u, U, now = self.arrays
        if now[loops.WEIGHT] == 0.0:
            return self.last()
        total, weight = now[loops.TOTAL], now[loops.WEIGHT]
        return self._point((total * v - u) / weight, (total * V - U) / weight)

    def scores_of(self, rows: Ints) -> Floats:
        """Scores of some rows at the last iterate."""
        scores: Floats = self.arrays[4][loops.SCALE] * self.arrays[1][rows]
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
        Which rows would change w, and its compiled steps: see `solvers.row_visits`.
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
    watch = Watch(problem, method.name, budget, tol)
    best, least, converged = method.read(), np.inf, False

    def look() -> bool:
        nonlocal best, least
        point = method.read()
        facts = method.judge(point)
        if facts["primal"] < least or not method.descends:
            best, least = point, facts["primal"]
        ended = watch.look(iterates.steps, point.coef, point.scores, 0.0, facts, judge=iterates.steps >= method.least)
        return ended or (tol is not None and facts["primal"] - facts["dual"] <= tol * abs(facts["primal"]))

    try:
        for _ in range(max_iter):
            before = iterates.arrays[0].copy()
            for _ in visit(problem.rows, method.epoch(), method.moves, method.advance, ahead):
                converged = watch.due(iterates.steps) and look()
                if converged or budget.exhausted:
                    break
            if not method.descends and np.array_equal(before, iterates.arrays[0]):
                converged = True
            if converged or budget.exhausted:
                break
        converged = look() or converged
    except KeyboardInterrupt:
        budget.interrupted = True
        best = best if np.isfinite(least) and method.descends else method.read()
    if watch.rule is not None and watch.rule.best is not None:
        coef, scores = watch.rule.best.coef, watch.rule.best.scores
        best = Point(coef, scores, float(coef @ scores))
    facts = method.judge(best)
    return KernelResult(
        best.coef, 0.0, facts["primal"], facts["dual"], float("nan"), status_of(budget, converged), iterates.steps,
        problem.rows.evaluations, budget.elapsed, tuple(watch.history),
    )  # fmt: skip


def passes(problem: KernelProblem, rng: np.random.Generator) -> Ints:
    """All rows that are not held out, once each, in random order."""
    return rng.permutation(np.flatnonzero(problem.upper > 0.0))


def drawn(problem: KernelProblem, rng: np.random.Generator) -> Ints:
    """As many rows as are not held out, drawn with replacement in proportion to `upper`."""
    rows = np.flatnonzero(problem.upper > 0.0)
    weight = problem.upper[rows]
    if rows.shape[0] == 0 or weight.min() == weight.max():
        return rows[rng.integers(max(rows.shape[0], 1), size=rows.shape[0])]
    return rng.choice(rows, rows.shape[0], p=weight / weight.sum())


def hinge(problem: KernelProblem, scores: Floats) -> float:
    """`sum_i C_i max(0, 1 - y_i f(x_i))`."""
    return float(problem.upper @ np.maximum(0.0, 1.0 - problem.y * scores))


def judge_svm(problem: KernelProblem, point: Point) -> dict[str, float]:
    """Primal value of a point, and the dual value of the best multiple of it that the bounds allow."""
    total, most = in_box(problem, point)
    share = min(most, total / point.square if point.square > 0.0 else np.inf)
    dual = share * (total - 0.5 * share * point.square) if np.isfinite(share) else 0.0
    return {"primal": 0.5 * point.square + hinge(problem, point.scores), "dual": dual}


def in_box(problem: KernelProblem, point: Point) -> tuple[float, float]:
    """Sum of `a_i = y_i coef_i`, and the largest multiple of a in `0 <= a_i <= C_i`: 0 where one is negative."""
    a = problem.y * point.coef
    if a.min(initial=0.0) < -1e-12 * a.max(initial=0.0):
        return 0.0, 0.0
    used = a > 0.0
    return float(a.sum()), float((problem.upper[used] / a[used]).min(initial=np.inf))


def refuse_bias(problem: KernelProblem, name: str) -> None:
    """Raise where the problem has an unregularised bias.

    Raises
    ------
    CapabilityError
    """
    if problem.fit_intercept:
        raise CapabilityError(
            f"{name} has no unregularised bias; solve with fit_intercept=False (a constant can be added to the kernel "
            "instead), or use solver='smo' or 'dual' (solvers.smo, solvers.working_set)."
        )
