"""A second start for majorisation: the plain SVM, its threshold moved.

From a constant classifier majorisation can end beside it: under a floor on precision, "all negative" satisfies the
cleared form, and nothing leads away. The unconstrained SVM with the exact best threshold (the paper's baseline) is a
cheap second opinion. Where it beats what was found, the search is repeated from there, and the best of all is kept: the
result is never worse than that baseline.
"""

from dataclasses import replace
from functools import partial
from typing import Protocol, Self

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampResult, minimise_ramp
from widemargin.solvers.ramp.tightening import Enforced, EnforcedProblem, Measures, enforce

__all__ = ["ReleasableProblem", "enforce_from_two_starts"]


class ReleasableProblem(EnforcedProblem, Protocol):
    """A problem that can be stripped of its constraints."""

    def unconstrained(self) -> Self:
        """The same problem without constraints."""
        ...


def enforce_from_two_starts(
    problem: ReleasableProblem,
    convex: ConvexSolver,
    measures: Measures,
    options: MajorizeOptions,
    *,
    hard: Measures,
    give_back: bool,
    start: tuple[Floats, float] | None = None,
    budget: Budget,
    known: RampResult | None = None,
) -> Enforced:
    """`enforce`, and again from the plain SVM where that looks better.

    Parameters
    ----------
    measures : Measures
        The rates that have to meet the bounds.
    hard : Measures
        0/1 rates at the best threshold: what the plain SVM is compared by. The same object where they are the rates
        that have to meet the bounds.
    start : (w, b), optional
        First point of the first search. From one that is given the plain SVM is asked only where bounds are missed.
    known : RampResult, optional
        The ramp solution of the first search, where there is one already.

    Other parameters are those of `enforce`.
    """
    search = partial(enforce, problem, convex, options=options, give_back=give_back, budget=budget)
    first = search(judge=measures.judge, moves=measures.moves, start=start, first=known)
    constant = start is None and problem.constant_start(options.rhos[0]) != 0.0
    if budget.exhausted or problem.n_constraints == 0 or not (constant or first.best.violation > 0.0):
        return first
    try:
        plain = _plain(problem, convex, options, budget)
        shifted = hard.judge(plain)
        rival = first.best if measures is hard else hard.judge(first.best.solution)
        if budget.exhausted or not shifted.beats(rival):
            return first
        itself = shifted if measures is hard else measures.judge(plain)
        again = search(judge=measures.judge, moves=measures.moves, start=(shifted.w, shifted.b))
    except KeyboardInterrupt:  # outside the descents, which keep what they have themselves
        budget.interrupted = True
        return first
    svm = Enforced(itself, 0, plain.n_steps, plain.n_iter, plain.n_epochs, plain.history)
    return first.followed_by(svm).followed_by(again)


def _plain(problem: ReleasableProblem, convex: ConvexSolver, options: MajorizeOptions, budget: Budget) -> RampResult:
    """The hinge-loss SVM without constraints, as a result of the constrained problem (its multipliers are zero)."""
    free = problem.unconstrained()
    zero = np.zeros(problem.n_features), 0.0
    once = replace(options, steps=0, rhos=options.rhos[:1])
    found = minimise_ramp(free, convex, once, start=zero, budget=budget)
    nothing = np.zeros(problem.n_constraints)
    objective, excess = problem.ramp_values(found.w, problem.scores(found.w, found.b))
    return replace(found.without_state(), multipliers=nothing, objective=objective, excess=excess, certified=False)
