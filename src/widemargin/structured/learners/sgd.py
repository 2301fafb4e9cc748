"""Stochastic subgradient steps with step size 1/(lambda t) (Pegasos: Shalev-Shwartz et al. 2011; Ratliff et al. 2007).

With `lambda = 1 / (C n)` the weights after t steps are `(C n / t) sum_s p_s`: a plain sum of what the examples visited
said. So only the sum is kept, a step touches the features of one example, and the sum over one example's visits is,
scaled, a dual point: after whole passes in any order every example has had its share. This gives a certificate.
"""

import numpy as np

from widemargin.solvers.base import Budget
from widemargin.structured.learners.passes import PART, choose_passes
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.result import LearnerResult, Watch, next_look
from widemargin.structured.learners.state import Blocks, begin, dual_value
from widemargin.structured.model import Weights

__all__ = ["solve"]

_FIRST = 10  # passes to the first certificate


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

    Returns
    -------
    LearnerResult
        `n_iter` counts passes; `blocks` is the dual point of the last iterate.
    """
    budget = budget or Budget()
    passes = choose_passes(problem, seed, compiled)
    watch = Watch(problem, passes, budget, "sgd", tol)
    earlier = max(1, -(-steps // problem.n)) if start is not None else 0  # passes before this run
    total, sums = begin(problem, None if start is None else start.scaled(earlier / problem.C))  # of p, over all visits
    begun = earlier * problem.n  # what came before counts as one large p of step `begun + 1`
    weighted = Weights((begun + 1.0) * sums.W, (begun + 1.0) * sums.theta)  # the sums, each p times its step
    rng, done, due, converged = np.random.default_rng(seed), 0, check_every or _FIRST, False
    t, looked = begun, -1

    def fair_share() -> float:
        """C over the number of passes begun: no example was visited more often."""
        return problem.C / max(-(-t // problem.n), 1)

    def look() -> bool:
        nonlocal looked
        looked = t
        scale = fair_share()
        last = Weights(scale * sums.W, scale * sums.theta)
        watch.dual = max(watch.dual, dual_value(total.scaled(scale), last))
        watch.offer(last)
        if average and t > begun:  # sum_t t w_t = C n ((t + 1) sum_s p_s - sum_s s p_s)
            share = 2.0 * problem.C * problem.n / (float(t) * (t + 1) - float(begun) * (begun + 1))
            watch.offer(
                Weights(share * ((t + 1) * sums.W - weighted.W), share * ((t + 1) * sums.theta - weighted.theta)),
                averaged=True,
            )
        return watch.look(done)

    try:
        while done < max_iter and not converged:
            order = rng.permutation(problem.n).astype(np.int64)
            for first in range(0, problem.n, PART):
                part = order[first : first + PART]
                passes.sgd(part, t, total, sums, weighted)
                t += part.shape[0]
                if budget.exhausted:
                    break
            watch.calls = t - begun
            if t < begun + (done + 1) * problem.n:
                break
            done += 1
            if done >= due:
                converged = look()
                due = done + check_every if check_every else next_look(done, watch.gap, tol)
            else:
                budget.tell("sgd", done, watch.primal, watch.gap, 0.0)
            if budget.exhausted:
                break
        if looked < t:
            converged = look()
    except KeyboardInterrupt:
        budget.interrupted = True
        t += problem.n  # no example was visited more often
    scale = fair_share()
    last = Weights(scale * sums.W, scale * sums.theta)
    return watch.result(last, total.scaled(scale), done, converged, steps=t)
