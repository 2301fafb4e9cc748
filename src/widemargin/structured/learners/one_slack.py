"""Cutting plane with one slack (Joachims, Finley and Yu 2009, Algorithm 3).

A cut is the sum of the most violating labels of all examples. Cuts are kept by block, sparse: their products follow
from the scores of a new cut, and no cut needs memory in the number of features.
"""

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Floats
from widemargin.solvers.base import Budget
from widemargin.structured.learners import bcfw_rows as loops
from widemargin.structured.learners.passes import choose_passes
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.result import LearnerResult, Watch
from widemargin.structured.learners.simplex_qp import maximise
from widemargin.structured.learners.state import Blocks, begin, dual_value, weights_of

__all__ = ["solve"]

_SHARE = 0.1  # of the tolerance that the problem of the cuts may leave open
_LEAST = 1e-6  # relative gap that is never asked for


class _Cuts:
    """Sums of labels: their blocks, products and levels, with dual variables; the first is that of all y_i, 0."""

    def __init__(self, problem: StructuredProblem) -> None:
        self.problem = problem
        self.a = [sp.csr_matrix((int(problem.start[-1]), problem.S))]
        self.b = [sp.csr_matrix((problem.n, problem.P))]
        self.loss = [np.zeros(problem.n)]
        self.theta = [np.zeros(problem.P)]
        self.G = np.zeros((1, 1))
        self.x = np.array([problem.C])

    def add(self, labels: Blocks) -> None:
        weights = weights_of(self.problem, labels)
        n_rows = int(self.problem.start[-1])
        u = np.empty((n_rows, self.problem.S))
        loops.scores(self.problem.rows, 0, n_rows, weights.W, u)
        self.a.append(sp.csr_matrix(labels.a))
        self.b.append(sp.csr_matrix(labels.b))
        self.loss.append(labels.loss.copy())
        self.theta.append(weights.theta)
        products = np.array(
            [
                float(a.multiply(u).sum()) + float(theta @ weights.theta)
                for a, theta in zip(self.a, self.theta, strict=True)
            ]
        )
        self.G = np.block([[self.G, products[:-1, None]], [products[None, :]]])
        self.x = np.append(self.x, 0.0)

    def solve(self, tol: float) -> Blocks:
        """Maximise the dual over the cuts; returns its point by block."""
        level: Floats = np.array([loss.sum() for loss in self.loss])
        maximise(self.G, level, self.x, tol)
        active = np.flatnonzero(self.x)
        return Blocks(
            np.asarray(sum(self.x[k] * self.a[k] for k in active).todense()),
            np.asarray(sum(self.x[k] * self.b[k] for k in active).todense()),
            np.sum([self.x[k] * self.loss[k] for k in active], axis=0),
        )


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
    """Minimise the structured hinge loss by cuts of all examples together.

    Parameters
    ----------
    problem : StructuredProblem
    tol : float, default=0.01
        Relative duality gap at which to stop.
    max_iter : int, default=100
        Most cuts.
    start : Blocks, default=None
        Dual point to go on from; that of another C must be scaled (`Blocks.scaled`).
        It becomes the first cut.
    budget : Budget, default=None
    seed : int, default=0
        Of an oracle with random starts.
    compiled : bool, default=None
        False: searches in Python even where the model has compiled ones.

    Returns
    -------
    LearnerResult
        `n_iter` counts cuts.

    Raises
    ------
    CapabilityError
        With the search of Sarawagi and Gupta, which needs a slack per example.
    """
    budget = budget or Budget()
    passes = choose_passes(problem, seed, compiled)
    watch = Watch(problem, passes, budget, "1-slack", tol)
    blocks, weights = begin(problem, start)
    cuts, done, converged = _Cuts(problem), 0, False
    if start is not None:
        cuts.add(start.scaled(1.0 / problem.C))
        cuts.x[:] = 0.0, problem.C
    try:
        while True:
            seen = passes.responses(weights, keep=True)
            watch.calls += problem.n
            watch.offer_seen(weights, seen)
            watch.dual = max(watch.dual, dual_value(blocks, weights))
            converged = watch.look(done)
            if converged or done >= max_iter or budget.exhausted or seen.labels is None:
                break
            cuts.add(seen.labels)
            done += 1
            blocks = cuts.solve(max(_SHARE * tol, _LEAST) * watch.primal / problem.C)
            weights = weights_of(problem, blocks)
    except KeyboardInterrupt:
        budget.interrupted = True
    return watch.result(weights, blocks, done, converged)
