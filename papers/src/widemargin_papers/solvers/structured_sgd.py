"""Stochastic subgradient steps with step size 1/(lambda t) (Pegasos: Shalev-Shwartz et al. 2011; Ratliff et al. 2007).

With `lambda = 1 / (C n)` the weights after t steps are `(C n / t) sum_s p_s`: a plain sum of what the examples visited
said. So only the sum is kept, a step touches the features of one example, and the sum over one example's visits is,
scaled, a dual point: after whole passes in any order every example has had its share. This gives a certificate.
"""

import numpy as np

from widemargin.extending import Floats, Ints, kernel
from widemargin.solvers.base import Budget
from widemargin.structured.compiled import Work
from widemargin.structured.learners.example_rows import add_rows, scores
from widemargin.structured.learners.passes import CompiledPasses, Passes, choose_passes
from widemargin.structured.learners.problem import Blocks, StructuredProblem, begin, dual_value
from widemargin.structured.learners.result import DEFAULTS, LearnerOptions, LearnerRecorder, LearnerResult
from widemargin.structured.learners.visits import Buffers, Training, keep_in_place, respond
from widemargin.structured.model import Weights


@kernel
def compiled_pass(
    order: Ints, t: int, scale: float, training: Training, work: Work, blocks: Blocks, sums: Weights, weighted: Weights,
    buffers: Buffers, scaled: Floats,
) -> None:  # fmt: skip
    """Pegasos steps: `sums` of all p, and the weights of step t are `scale / t` times them."""
    rows, start, _, _, truth, truth_start, structure, lam, weight, shift = training
    (a, b, loss), (W, theta), (W_sum, theta_sum), (u, p, p_b, label) = blocks, sums, weighted, buffers
    for position in range(order.shape[0]):
        i = order[position]
        first, last = start[i], start[i + 1]
        m = last - first
        mine = truth[truth_start[i] : truth_start[i + 1]]
        # The weights are the sums times this factor, so to shrink them costs nothing; only the scores are multiplied.
        factor = scale / t if t > 0 else 0.0
        scores(rows, first, last, W, u)
        for r in range(m):
            for s in range(u.shape[1]):
                u[r, s] *= factor
        keep_in_place(shift, i, u)
        for j in range(theta.shape[0]):
            scaled[j] = factor * theta[j]
        own_loss, value = respond(
            u[:m], scaled, mine, weight[i], lam, structure, work, label[: mine.shape[0]], p[:m], p_b
        )
        t += 1
        # A label that does not violate has p = 0.
        if value > 0.0:
            add_rows(rows, first, last, p[:m], 1.0, W)
            add_rows(rows, first, last, p[:m], float(t), W_sum)
            for j in range(theta.shape[0]):
                theta[j] += p_b[j]
                theta_sum[j] += t * p_b[j]
                b[i, j] += p_b[j]
            # The same sum, example by example, is what becomes the dual point.
            for r in range(m):
                for s in range(u.shape[1]):
                    a[first + r, s] += p[r, s]
            loss[i] += own_loss


def one_pass(passes: Passes, order: Ints, t: int, blocks: Blocks, sums: Weights, weighted: Weights) -> None:
    """Pegasos steps, in place: `sums` of all p, `weighted` the same times their steps; the blocks like `sums`."""
    problem = passes.problem
    scale = problem.C * problem.n
    if isinstance(passes, CompiledPasses):
        passes.queries += order.shape[0]
        compiled_pass(
            order, t, scale, passes.training, passes.work, blocks, sums, weighted, passes.buffers(), np.empty(problem.P)
        )
        return
    for i in order.tolist():
        first, last = int(problem.start[i]), int(problem.start[i + 1])
        factor = scale / t if t > 0 else 0.0
        seen = problem.violation(i, problem.potentials(i, sums.W, factor), factor * sums.theta)
        passes.queries += seen.queries
        t += 1
        if seen.value > 0.0:
            p = np.ascontiguousarray(seen.A)
            add_rows(problem.rows, first, last, p, 1.0, sums.W)
            add_rows(problem.rows, first, last, p, float(t), weighted.W)
            sums.theta[:] += seen.b
            weighted.theta[:] += t * seen.b
            blocks.a[first:last] += seen.A
            blocks.b[i] += seen.b
            blocks.loss[i] += seen.loss


def solve(
    problem: StructuredProblem,
    *,
    tol: float = 0.01,
    max_iter: int = 100,
    start: Blocks | None = None,
    steps: int = 0,
    budget: Budget | None = None,
    average: bool = True,
    check_every: int | None = None,
    seed: int = 0,
    compiled: bool | None = None,
    options: LearnerOptions = DEFAULTS,
) -> LearnerResult:
    """Minimise the structured hinge loss by averaged subgradient steps.

    Parameters
    ----------
    problem : StructuredProblem
    tol : float, default=0.01
        Relative duality gap at which to stop.
    max_iter : int, default=100
        Most passes, each in a random order.
    start : Blocks, default=None
        Dual point to go on from; that of another C must be scaled (`Blocks.scaled`).
    steps : int, default=0
        Steps that led to it, rounded up to whole passes: step sizes go on from there. The average begins anew.
    budget : Budget, default=None
    average : bool, default=True
        Evaluate the average of the iterates with weights 1, 2, ... (Lacoste-Julien, Schmidt and Bach 2012) too, and
        return the better one.
    check_every : int, default=None
        Passes between certificates; None: rarely.
    seed : int, default=0
    compiled : bool, default=None
        False: steps in Python even where the model has compiled ones.
    options : LearnerOptions

    Returns
    -------
    LearnerResult
        `n_iter` counts passes; `blocks` is the dual point of the last iterate.
    """
    budget = budget or Budget()
    # A dual point to start from stands for whole passes: step sizes go on as if they had been made here.
    earlier = max(1, -(-steps // problem.n)) if start is not None else 0  # passes before this run
    begun = earlier * problem.n  # what came before counts as one large p of step `begun + 1`
    recorder = LearnerRecorder(problem, choose_passes(problem, seed, compiled), budget, "sgd", tol, begun)
    total, sums = begin(problem, None if start is None else start.scaled(earlier / problem.C))  # of p, over all visits
    weighted = Weights((begun + 1.0) * sums.W, (begun + 1.0) * sums.theta)  # the sums, each p times its step

    def last_iterate() -> tuple[Blocks, Weights]:
        """The sums over the passes begun, times C: no example was visited more often, so it is a dual point."""
        # Rounded up: within a pass some examples have had one visit more than others.
        scale = problem.C / max(-(-recorder.steps // problem.n), 1)
        return total.scaled(scale), Weights(scale * sums.W, scale * sums.theta)

    def visit(order: Ints, t: int) -> float:
        one_pass(recorder.passes, order, t, total, sums, weighted)
        return np.nan  # steps of this kind know no gaps of blocks

    def judge() -> None:
        t = recorder.steps
        blocks, weights = last_iterate()
        recorder.bound(dual_value(blocks, weights))
        recorder.evaluate(weights)
        if average and t > begun:  # sum_t t w_t = C n ((t + 1) sum_s p_s - sum_s s p_s)
            share = 2.0 * problem.C * problem.n / (float(t) * (t + 1) - float(begun) * (begun + 1))
            recorder.evaluate(
                Weights(share * ((t + 1) * sums.W - weighted.W), share * ((t + 1) * sums.theta - weighted.theta)),
                averaged=True,
            )

    converged = recorder.run_passes(
        visit, judge, lambda: 0.0, max_iter=max_iter, check_every=check_every, seed=seed, options=options
    )
    # Ctrl-C may come within a pass that is not counted: then an example may have had one visit more.
    if budget.interrupted:
        recorder.steps += problem.n
    blocks, weights = last_iterate()
    return recorder.result(weights, blocks, converged)
