"""Block-coordinate Frank-Wolfe (Lacoste-Julien, Jaggi, Schmidt and Pletscher 2013, Algorithm 4), the default learner.

A step asks for the most violating label of one example, and moves the block of that example towards it as far as the
dual grows most. A block is small (see `problem`), so a step costs no more than the argmax and the example's
features. The certificate needs a pass at fixed weights; it is made when the gaps summed over the last pass promise
success, and now and then.
"""

from typing import NamedTuple

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints
from widemargin.solvers.base import Budget
from widemargin.structured.compiled import Work
from widemargin.structured.learners.example_rows import ExampleRows, add_blocks, add_rows, scores
from widemargin.structured.learners.passes import (
    BatchedPasses,
    Buffers,
    CompiledPasses,
    Passes,
    Training,
    choose_passes,
    keep_in_place,
    respond,
)
from widemargin.structured.learners.problem import Blocks, StructuredProblem, begin, dual_value, norm2, weights_of
from widemargin.structured.learners.result import DEFAULTS, LearnerOptions, LearnerRecorder, LearnerResult
from widemargin.structured.model import Weights

__all__ = ["Average", "compiled_pass", "one_pass", "remember", "solve", "squared_norm", "update_block"]


class Average(NamedTuple):
    """Sums of the iterates `w_1, w_2, ...` with weights 1, 2, ....

    Attributes
    ----------
    a : ndarray of shape (all rows, S)
    loss : ndarray of shape (n,)
        Of the blocks, up to the last visit of each.
    theta : ndarray of shape (P,)
        Up to the last step. By block it would be as large as all pairs of all examples.
    visited : ndarray of shape (n,)
        Step of the last visit.
    """

    a: Floats
    loss: Floats
    theta: Floats
    visited: Ints


@kernel
def squared_norm(a: Floats, b: Floats, gram: Floats) -> float:
    """`|sum_r x_r (x) a_r|^2 + |b|^2`, from the products of the rows, `gram` of m^2 numbers."""
    m, total = a.shape[0], 0.0
    for j in range(b.shape[0]):
        total += b[j] * b[j]
    # The rows enter by their products, which were computed once: no loop over features.
    for r in range(m):
        for q in range(r + 1):
            inner = 0.0
            for s in range(a.shape[1]):
                inner += a[r, s] * a[q, s]
            total += gram[r * m + q] * inner * (1.0 if q == r else 2.0)
    return total


@kernel
def remember(
    a: Floats, loss: Floats, theta: Floats, t: int, visited: Ints, sums: Floats, loss_sums: Floats, theta_sums: Floats,
    i: int,
) -> None:  # fmt: skip
    """Add block i, as it was since its last visit, to the sums of the averaged iterate; step t visits it again."""
    # It was the same for the iterates visited[i], ..., t - 1, which have these weights.
    weight = 0.5 * (float(t) * (t - 1) - float(visited[i]) * (visited[i] - 1))
    visited[i] = t
    for r in range(a.shape[0]):
        for s in range(a.shape[1]):
            sums[r, s] += weight * a[r, s]
    loss_sums[i] += weight * loss[i]
    # Every step changes theta: this one is that of the iterate t - 1.
    for j in range(theta.shape[0]):
        theta_sums[j] += (t - 1.0) * theta[j]


@kernel
def update_block(
    rows: ExampleRows, first: int, last: int, gram: Floats, u: Floats,
    p: Floats, p_b: Floats, label_loss: float, C: float,
    a: Floats, b: Floats, loss: Floats, i: int, W: Floats, theta: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Frank-Wolfe step of block i towards `C (p, loss)`, with exact line search.

    `p` and `p_b` are overwritten. Returns the gap of the block before the step, and the step's length.
    """
    # The direction of the step is `C (p, loss)` minus the block; its inner product with the gradient of the dual is
    # the gap of the block.
    gap = C * label_loss - loss[i]
    for r in range(p.shape[0]):
        for s in range(p.shape[1]):
            p[r, s] = C * p[r, s] - a[r, s]
            gap -= p[r, s] * u[r, s]
    for j in range(p_b.shape[0]):
        p_b[j] = C * p_b[j] - b[j]
        gap -= p_b[j] * theta[j]
    # Along the direction the dual is a parabola, so the best length is known: the gap over the curvature, at most 1.
    curvature = squared_norm(p, p_b, gram)
    gamma = 0.0
    if gap > 0.0:
        gamma = 1.0 if gap >= curvature else gap / curvature
    # At a length of 0 nothing changes, and the loop over the features is spared.
    if gamma > 0.0:
        for r in range(p.shape[0]):
            for s in range(p.shape[1]):
                a[r, s] += gamma * p[r, s]
        for j in range(p_b.shape[0]):
            b[j] += gamma * p_b[j]
            theta[j] += gamma * p_b[j]
        loss[i] += gamma * (C * label_loss - loss[i])
        add_rows(rows, first, last, p, gamma, W)
    return gap, gamma


@kernel
def compiled_pass(
    order: Ints, t: int, C: float, training: Training, work: Work, blocks: Blocks, weights: Weights, average: Average,
    averaging: bool, buffers: Buffers,
) -> float:  # fmt: skip
    """Visit the examples of `order`; t steps were made before. Returns the sum of the blocks' gaps."""
    rows, start, gram, gram_start, truth, truth_start, structure, rescale, weight, shift = training
    (a, b, loss), (W, theta), (u, p, p_b, label) = blocks, weights, buffers
    a_sums, loss_sums, theta_sums, visited = average
    total = 0.0
    # One step an example: scores of its labels, the most violating one, the sums of the average, the update.
    for position in range(order.shape[0]):
        i = order[position]
        first, last = start[i], start[i + 1]
        m = last - first
        mine = truth[truth_start[i] : truth_start[i + 1]]
        scores(rows, first, last, W, u)
        keep_in_place(shift, i, u)
        own_loss, _ = respond(
            u[:m], theta, mine, weight[i], rescale, structure, work, label[: mine.shape[0]], p[:m], p_b
        )
        t += 1
        # Averages are brought up to date only where a block changes, so a step stays as cheap as the example.
        if averaging:
            remember(a[first:last], loss, theta, t, visited, a_sums[first:last], loss_sums, theta_sums, i)
        gap, _ = update_block(
            rows, first, last, gram[gram_start[i] : gram_start[i + 1]], u[:m],
            p[:m], p_b, own_loss, C, a[first:last], b[i], loss, i, W, theta,
        )  # fmt: skip
        total += gap
    return total


def one_pass(passes: Passes, order: Ints, t: int, blocks: Blocks, weights: Weights, average: Average | None) -> float:
    """Steps for the examples of `order`, in place, after t earlier ones; returns the sum of the gaps of the blocks."""
    problem, total = passes.problem, 0.0
    if isinstance(passes, CompiledPasses):
        passes.queries += order.shape[0]
        sums = average or Average(blocks.a, blocks.loss, weights.theta, np.empty(0, dtype=np.int64))
        compiled = passes.training, passes.work, blocks, weights, sums, average is not None, passes.buffers()
        return float(compiled_pass(order, t, problem.C, *compiled))
    for i, u, seen in passes.violations(order, weights):
        t += 1
        first, last = int(problem.start[i]), int(problem.start[i + 1])
        passes.queries += seen.queries
        a, b = blocks.a[first:last], blocks.b[i]
        if average is not None:
            sums_a, sums_loss, sums_theta, visited = average
            remember(a, blocks.loss, weights.theta, t, visited, sums_a[first:last], sums_loss, sums_theta, i)
        gram = problem.gram[problem.gram_start[i] : problem.gram_start[i + 1]]
        p, p_b = np.ascontiguousarray(seen.A), np.ascontiguousarray(seen.b)
        gap, _ = update_block(
            problem.rows, first, last, gram, u, p, p_b, seen.loss, problem.C, a, b, blocks.loss, i, *weights
        )
        # Labels of a batch may be out of date by now: then there is no step, and the gap may be negative.
        total += max(0.0, gap) if passes.stale else gap
    return total


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
        Ask for the labels of so many examples at the same weights, side by side (see `BatchedPasses`).
    options : LearnerOptions

    Returns
    -------
    LearnerResult
        `n_iter` counts passes.
    """
    budget = budget or Budget()
    passes = choose_passes(problem, seed, compiled) if batch is None else BatchedPasses(problem, batch)
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
        add_blocks(problem.rows, problem.start, share * (iterates.a + per_row[:, None] * blocks.a), mean.W)
        loss = share * float((iterates.loss + rest * blocks.loss).sum())
        recorder.bound(loss - 0.5 * norm2(mean))
        recorder.evaluate(mean, averaged=True)

    converged = recorder.run_passes(
        lambda order: one_pass(passes, order, recorder.steps, blocks, weights, iterates), judge,
        lambda: dual_value(blocks, weights), max_iter=max_iter, check_every=check_every, seed=seed, options=options,
    )  # fmt: skip
    # Ctrl-C may come between a block and its weights.
    if budget.interrupted:
        weights = weights_of(problem, blocks)
        recorder.bound(dual_value(blocks, weights))
    return recorder.result(weights, blocks, converged)
