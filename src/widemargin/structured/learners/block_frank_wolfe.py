"""Block-coordinate Frank-Wolfe (Lacoste-Julien, Jaggi, Schmidt and Pletscher 2013, Algorithm 4), the default learner.

A step asks for the most violating label of one example, and moves the block of that example towards it as far as the
dual grows most; for margin rescaling of label sets every label goes its own way there (`visits`). A block is small
(see `problem`), so a step costs no more than the argmax and the example's features. The certificate needs a pass at
fixed weights; it is made when the gaps summed over the last pass promise success, and now and then.
"""

from functools import partial

import numpy as np

from widemargin.solvers.base import Budget
from widemargin.structured.learners.example_rows import row_parts
from widemargin.structured.learners.passes import choose_passes
from widemargin.structured.learners.problem import Blocks, StructuredProblem, begin, dual_value, norm2, weights_of
from widemargin.structured.learners.result import DEFAULTS, LearnerOptions, LearnerRecorder, LearnerResult
from widemargin.structured.learners.visits import Average
from widemargin.structured.model import Weights

__all__ = ["solve"]


def solve(
    problem: StructuredProblem,
    *,
    tol: float = 0.01,
    max_iter: int = 100,
    start: Blocks | None = None,
    budget: Budget | None = None,
    average: bool = True,
    check_every: int | None = None,
    seed: int = 0,
    compiled: bool | None = None,
    batch: int | None = None,
    options: LearnerOptions = DEFAULTS,
) -> LearnerResult:
    """Minimise the structured hinge loss.

    Parameters
    ----------
    tol : float, default=0.01
        Relative duality gap at which to stop. It is certified only with an exact oracle and search.
    max_iter : int, default=100
        Most passes.
    start : Blocks, default=None
        Dual point to go on from, changed in place; that of another C must be scaled (`Blocks.scaled`).
    budget : Budget, default=None
        Time limit and callbacks; a limit is looked at every 512 steps, and one certificate comes after it.
    average : bool, default=True
        Evaluate the averaged iterate too, and return the better one.
    check_every : int, default=None
        Passes between certificates; None: rarely, as they cost a pass or two each.
    seed : int, default=0
        Of the order of the examples.
    compiled : bool, default=None
        False: steps in Python even where the model has compiled ones.
    batch : int, default=None
        Ask for the labels of so many examples at the same weights, side by side (see `BatchedPasses`).

    Returns
    -------
    LearnerResult
        `n_iter` counts passes.
    """
    budget = budget or Budget()
    passes = choose_passes(problem, seed, compiled, batch)
    recorder = LearnerRecorder(problem, passes, budget, "bcfw", tol)
    blocks, weights = begin(problem, start)
    iterates = None
    if average:
        visited = np.zeros(problem.n, dtype=np.int64)
        iterates = Average(np.zeros_like(blocks.a), np.zeros(problem.n), np.zeros(problem.P), visited)

    def judge() -> None:
        # Many small steps leave rounding errors in the weights: before they are judged, they are added up anew.
        weights.W[:], weights.theta[:] = weights_of(problem, blocks)
        recorder.bound(dual_value(blocks, weights))
        if iterates is None or not budget.exhausted:
            recorder.evaluate(weights)
        t = float(recorder.steps)
        if iterates is None or t == 0:
            return
        # The iterates 1, ..., t averaged with weights 1, ..., t are a dual point, as every iterate is one. A block has
        # been as it is since its last visit: the sum of the weights since then is still missing in its sum.
        share, rest = 2.0 / (t * (t + 1)), 0.5 * (t * (t + 1) - iterates.visited * (iterates.visited - 1.0))
        per_row = np.repeat(rest, np.diff(problem.start))
        mean = Weights(np.zeros_like(weights.W), share * (iterates.theta + t * weights.theta))
        for part, X in row_parts(problem.rows, problem.d):  # all blocks at once would be there three times
            mean.W[:] += X.T @ (share * (iterates.a[part] + per_row[part, None] * blocks.a[part]))
        loss = share * float((iterates.loss + rest * blocks.loss).sum())
        recorder.bound(loss - 0.5 * norm2(mean))
        recorder.evaluate(mean, averaged=True)

    converged = recorder.run_passes(
        partial(passes.steps, blocks=blocks, weights=weights, average=iterates), judge,
        partial(dual_value, blocks, weights), max_iter=max_iter, check_every=check_every, seed=seed, options=options,
    )  # fmt: skip
    # Ctrl-C may come between a block and its weights.
    if budget.interrupted:
        weights = weights_of(problem, blocks)
        recorder.bound(dual_value(blocks, weights))
    return recorder.result(weights, blocks, converged)
