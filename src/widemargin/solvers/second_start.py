"""A second start for majorisation: the plain SVM, its threshold moved.

From a constant classifier majorisation can end beside it: under a floor on precision, "all negative" satisfies the
cleared form, and nothing leads away. The unconstrained SVM with the exact best threshold (the paper's baseline) is a
cheap second opinion. Where it beats what was found, the search is repeated from there, and the best of all is kept: the
result is never worse than that baseline.
"""

from dataclasses import replace
from typing import Protocol, Self

import numpy as np

from widemargin.solvers.base import Budget
from widemargin.solvers.majorize import ConvexSolver, MajorizeOptions, RampResult, minimise_ramp
from widemargin.solvers.tightening import Enforced, EnforcedProblem, Judge, enforce

__all__ = ["ReleasableProblem", "enforce_from_two_starts"]


class ReleasableProblem(EnforcedProblem, Protocol):
    """A problem that can be stripped of its constraints."""

    def unconstrained(self) -> Self:
        """The same problem without constraints."""
        ...


def enforce_from_two_starts(
    problem: ReleasableProblem,
    convex: ConvexSolver,
    judge: Judge,
    options: MajorizeOptions,
    *,
    hard_judge: Judge,
    give_back: bool,
    budget: Budget,
    known: RampResult | None = None,
) -> Enforced:
    """`enforce`, and again from the plain SVM where that looks better.

    Parameters
    ----------
    hard_judge : Judge
        Measures 0/1 rates at the best threshold: what the plain SVM is compared by, whatever `judge` measures.
    known : RampResult, optional
        The ramp solution of the first start, where there is one already.

    Other parameters are those of `enforce`.
    """
    first = enforce(problem, convex, judge, options, give_back=give_back, first=known, budget=budget)
    constant = problem.constant_start(options.rhos[0]) != 0.0
    if budget.exhausted or problem.n_constraints == 0 or not (constant or first.best.violation > 0.0):
        return first
    try:
        plain = _plain(problem, convex, options, budget)
        shifted = hard_judge(plain)
        if budget.exhausted or not shifted.beats(hard_judge(first.best.solution)):
            return first
        second = shifted.w, shifted.b
        again = enforce(problem, convex, judge, options, give_back=give_back, start=second, budget=budget)
        best = min(first.best, again.best, judge(plain), key=lambda found: (found.violation, found.objective))
    except KeyboardInterrupt:  # outside the descents, which keep what they have themselves
        budget.interrupted = True
        return first
    return Enforced(
        best=best,
        n_rounds=first.n_rounds + again.n_rounds,
        n_steps=first.n_steps + plain.n_steps + again.n_steps,
        n_iter=first.n_iter + plain.n_iter + again.n_iter,
        n_epochs=first.n_epochs + plain.n_epochs + again.n_epochs,
        history=first.history + plain.history + again.history,
    )


def _plain(problem: ReleasableProblem, convex: ConvexSolver, options: MajorizeOptions, budget: Budget) -> RampResult:
    """The hinge-loss SVM without constraints, as a result of the constrained problem (its multipliers are zero)."""
    free = problem.unconstrained()
    zero = np.zeros(problem.n_features), 0.0
    once = replace(options, steps=0, rhos=options.rhos[:1])
    found = minimise_ramp(free, convex, once, start=zero, budget=budget)
    nothing = np.zeros(problem.n_constraints)
    objective, excess = problem.ramp_values(found.w, problem.scores(found.w, found.b))
    return replace(found.without_state(), multipliers=nothing, objective=objective, excess=excess, certified=False)
