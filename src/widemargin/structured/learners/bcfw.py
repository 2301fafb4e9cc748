"""Block-coordinate Frank-Wolfe (Lacoste-Julien, Jaggi, Schmidt and Pletscher 2013, Algorithm 4), the default learner.

A step asks for the most violating label of one example, and moves the block of that example towards it as far as the
dual grows most. A block is small (see `state`), so a step costs no more than the argmax and the example's features.
The certificate needs a pass at fixed weights; it is made when the gaps summed over the last pass promise success, and
now and then.
"""

import numpy as np

from widemargin.solvers.base import Budget
from widemargin.structured.learners.mapped import MappedPasses
from widemargin.structured.learners.passes import PART, Average, Passes, choose_passes
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.result import LearnerResult, Watch, next_look
from widemargin.structured.learners.state import Blocks, begin, dual_value, weights_of, zero_blocks
from widemargin.structured.model import Weights

__all__ = ["solve"]

_FIRST = 10  # passes to the first certificate


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
) -> LearnerResult:
    """Minimise the structured hinge loss.

    Parameters
    ----------
    problem : StructuredProblem
    tol : float, default=0.01
        Relative duality gap at which to stop. It is certified only with an exact oracle and search.
    max_iter : int, default=100
        Most passes.
    start : Blocks, default=None
        Dual point to go on from; that of another C must be scaled (`Blocks.scaled`).
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
        Ask for the labels of so many examples at the same weights, side by side (see `mapped`).

    Returns
    -------
    LearnerResult
        `n_iter` counts passes.
    """
    budget = budget or Budget()
    passes: Passes = choose_passes(problem, seed, compiled) if batch is None else MappedPasses(problem, batch)
    watch = Watch(problem, passes, budget, "bcfw", tol)
    blocks, weights = begin(problem, start)
    averages = Average(zero_blocks(problem), np.zeros(problem.n, dtype=np.int64)) if average else None
    rng, done, due, converged = np.random.default_rng(seed), 0, check_every or _FIRST, False
    t, looked = 0, -1

    def look() -> bool:
        nonlocal looked
        looked = t
        weights.W[:], weights.theta[:] = weights_of(problem, blocks)  # without the rounding errors of many steps
        watch.dual = max(watch.dual, dual_value(blocks, weights))
        if averages is None or not budget.exhausted:
            watch.offer(weights)
        if averages is not None and t:
            _offer_average(watch, blocks, averages, t)
        return watch.look(done)

    try:
        while done < max_iter and not converged:
            order, promised = rng.permutation(problem.n).astype(np.int64), 0.0
            for first in range(0, problem.n, PART):
                part = order[first : first + PART]
                promised += passes.bcfw(part, t, blocks, weights, averages)
                t += part.shape[0]
                if budget.exhausted:
                    break
            watch.calls = t
            if t < (done + 1) * problem.n:
                break
            done += 1
            dual = dual_value(blocks, weights)
            promising = promised <= tol * (dual + promised) and t > 1.1 * looked
            if done >= due or promising:
                converged = look()
                due = done + check_every if check_every else next_look(done, watch.gap, tol)
            else:
                budget.tell("bcfw", done, watch.primal, watch.gap, 0.0)
            if budget.exhausted:
                break
        if looked < t:
            converged = look()
    except KeyboardInterrupt:
        budget.interrupted = True
        weights = weights_of(problem, blocks)
        watch.dual = max(watch.dual, dual_value(blocks, weights))
    return watch.result(weights, blocks, done, converged)


def _offer_average(watch: Watch, blocks: Blocks, average: Average, t: int) -> None:
    """Evaluate the iterates 1, ..., t averaged with weights 1, ..., t, and their dual value."""
    sums, visited = average
    problem = watch.problem
    rest = 0.5 * (float(t) * (t + 1) - visited * (visited - 1.0))
    per_row = np.repeat(rest, np.diff(problem.start))
    mean = Blocks(
        sums.a + per_row[:, None] * blocks.a, sums.b + rest[:, None] * blocks.b, sums.loss + rest * blocks.loss
    ).scaled(2.0 / (float(t) * (t + 1)))
    weights: Weights = weights_of(problem, mean)
    watch.dual = max(watch.dual, dual_value(mean, weights))
    watch.offer(weights, averaged=True)
