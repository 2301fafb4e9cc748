"""Cutting plane with a slack per example (Tsochantaridis, Hofmann, Joachims and Altun 2005, Algorithm 1).

Every round asks for the most violating label of every example, adds those that are violated by more than the slack of
the cuts so far, and solves the problem of all cuts: by example, over the simplex of its cuts, until no example gains.
"""

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget
from widemargin.structured.learners import bcfw_rows as loops
from widemargin.structured.learners.passes import choose_passes
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.result import LearnerResult, Watch
from widemargin.structured.learners.simplex_qp import maximise
from widemargin.structured.learners.state import Blocks, begin, dual_value, norm2, weights_of
from widemargin.structured.model import Weights

__all__ = ["solve"]

_SHARE = 0.1  # of the tolerance that the problem of the cuts may leave open
_LEAST = 1e-6  # relative gap that is never asked for
_MOST_SWEEPS = 1000


class _Cuts:
    """The cuts of one example with their dual variables; the first is the label y_i, whose p and l are 0."""

    def __init__(self, m: int, S: int, P: int, C: float, gram: Floats) -> None:
        self.A = np.zeros((1, m, S))
        self.b = np.zeros((1, P))
        self.level = np.zeros(1)
        self.x = np.array([C])
        self.G = np.zeros((1, 1))
        self.gram = gram.reshape(m, m)

    def add(self, A: Floats, b: Floats, level: float) -> None:
        spread = self.gram @ A  # products of the example's rows with the new cut's
        products = np.append(np.einsum("kms,ms->k", self.A, spread) + self.b @ b, float((A * spread).sum() + b @ b))
        self.G = np.block([[self.G, products[:-1, None]], [products[None, :]]])
        self.A, self.b = np.concatenate([self.A, A[None]]), np.concatenate([self.b, b[None]])
        self.level, self.x = np.append(self.level, level), np.append(self.x, 0.0)

    def slope(self, u: Floats, theta: Floats) -> Floats:
        """`l - w . p` of every cut."""
        slopes: Floats = self.level - np.tensordot(self.A, u, 2) - self.b @ theta
        return slopes


def solve(
    problem: StructuredProblem,
    *,
    tol: float = 0.01,
    max_iter: int = 100,
    start: Blocks | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    compiled: bool | None = None,
) -> LearnerResult:
    """Minimise the structured hinge loss by cuts of single examples.

    Parameters
    ----------
    problem : StructuredProblem
    tol : float, default=0.01
        Relative duality gap at which to stop.
    max_iter : int, default=100
        Most rounds, each of one search per example.
    start : Blocks, default=None
        Dual point to go on from; that of another C must be scaled (`Blocks.scaled`).
        The block of an example becomes its first cut.
    budget : Budget, default=None
    seed : int, default=0
        Of an oracle with random starts.
    compiled : bool, default=None
        False: searches in Python even where the model has compiled ones.

    Returns
    -------
    LearnerResult
        `n_iter` counts rounds.
    """
    budget = budget or Budget()
    passes = choose_passes(problem, seed, compiled)
    watch = Watch(problem, passes, budget, "cutting plane", tol)
    blocks, weights = begin(problem, start)
    cuts, slack = _first_cuts(problem, blocks, weights)
    done, converged = 0, False
    try:
        while True:
            seen = passes.responses(weights, keep=True, slack=slack)
            watch.calls += problem.n
            watch.offer_seen(weights, seen)
            watch.dual = max(watch.dual, dual_value(blocks, weights))
            converged = watch.look(done)
            if converged or done >= max_iter or budget.exhausted or seen.labels is None:
                break
            primal = 0.5 * norm2(weights) + problem.C * float(seen.value.sum())  # of the labels found
            least = max(_SHARE * tol, _LEAST) * primal
            new = np.flatnonzero(seen.value > slack + least / (problem.C * problem.n))
            if new.shape[0] == 0:
                break  # a heuristic search finds nothing more
            for i in new.tolist():
                rows = slice(int(problem.start[i]), int(problem.start[i + 1]))
                cuts[i].add(seen.labels.a[rows], seen.labels.b[i], float(seen.labels.loss[i]))
            done += 1
            left = max(least, _SHARE * (primal - watch.dual))  # early rounds need no precision
            _solve_cuts(problem, cuts, blocks, weights, slack, left, budget)
            weights = weights_of(problem, blocks)
    except KeyboardInterrupt:
        budget.interrupted = True
    return watch.result(weights, blocks, done, converged)


def _first_cuts(problem: StructuredProblem, blocks: Blocks, weights: Weights) -> tuple[list[_Cuts], Floats]:
    """The truth of every example, and its block to start from as a cut of weight C; with the slacks of these."""
    cuts, slack = [], np.zeros(problem.n)
    for i in range(problem.n):
        rows = slice(int(problem.start[i]), int(problem.start[i + 1]))
        gram = problem.gram[problem.gram_start[i] : problem.gram_start[i + 1]]
        mine = _Cuts(rows.stop - rows.start, problem.S, problem.P, problem.C, gram)
        if blocks.loss[i] > 0.0 or blocks.a[rows].any():
            mine.add(blocks.a[rows] / problem.C, blocks.b[i] / problem.C, float(blocks.loss[i]) / problem.C)
            mine.x[:] = 0.0, problem.C
            slack[i] = max(0.0, float(mine.slope(problem.potentials(i, weights.W), weights.theta).max()))
        cuts.append(mine)
    return cuts, slack


def _solve_cuts(
    problem: StructuredProblem,
    cuts: list[_Cuts],
    blocks: Blocks,
    weights: Weights,
    slack: Floats,
    left: float,
    budget: Budget,
) -> None:
    """Maximise the dual over the cuts, example by example, until the gap is `left`; sets the slacks."""
    enough = left / (problem.C * problem.n)
    for _ in range(_MOST_SWEEPS):
        total = 0.0
        for i, mine in enumerate(cuts):
            if mine.x.shape[0] == 1:
                continue
            first, last = int(problem.start[i]), int(problem.start[i + 1])
            slope = mine.slope(problem.potentials(i, weights.W), weights.theta)
            slack[i] = max(0.0, float(slope.max()))
            gap = problem.C * slack[i] - float(slope @ mine.x)
            total += gap
            if gap <= 0.1 * problem.C * enough:
                continue
            before = mine.x.copy()
            maximise(mine.G, mine.level, mine.x, 0.1 * enough, slope)
            change = mine.x - before
            da, db = np.tensordot(change, mine.A, 1), change @ mine.b
            blocks.a[first:last] += da
            blocks.b[i] += db
            blocks.loss[i] += float(change @ mine.level)
            loops.add_rows(problem.rows, first, last, da, 1.0, weights.W)
            weights.theta[:] += db
        if total <= left or budget.exhausted:
            return
