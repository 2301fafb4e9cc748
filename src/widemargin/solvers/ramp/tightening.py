"""Bounds met by the classifier that is shipped: tighten, solve again, keep the best.

Majorisation meets the constraints in ramp rates. The 0/1 rates of the deterministic classifier differ a little, so the
bounds are moved by what the last round missed (and moved back where a binding constraint has slack to use) and the ramp
problem is solved again, warm. 0/1 rates jump, so rounds alternate between feasible and slightly infeasible: the best
candidate is kept, never the last one. Between the best candidate and a round that overshot lies a line of
classifiers, which is searched exactly for the one that uses up the slack. In the end the best models are polished by
exact moves along lines (`line_moves`): first what they miss, then the objective.
"""

from dataclasses import dataclass, replace

import numpy as np

from widemargin._typing import Bools, Floats
from widemargin.solvers.base import Budget, ConvexState
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampProblem, RampResult, minimise_ramp
from widemargin.solvers.ramp.pool import ROUNDING, Pool

__all__ = ["TighteningOptions", "at_limit", "enforce"]


@dataclass(frozen=True)
class TighteningOptions:
    """The rounds of tightening.

    Attributes
    ----------
    rounds : int
        Most rounds. More meet a few goals more, and each costs a warm solve.
    grow : float
        A missed bound is moved by so many times its excess. Above 1, because 0/1 rates follow ramp rates only roughly;
        larger meets bounds sooner and gives more of the objective away.
    give_back : float
        A binding bound with slack to use is loosened by so many times its slack. Below 1, because a round that
        overshoots misses the bound and is lost.
    floor : float
        No bound is loosened by more than this, in rates: 0/1 rates may follow late, and then all at once.
    push : float
        Added to every bound in the last two rounds where none has met them. Larger meets more of them at a higher
        objective.
    saturated : float
        Share of the penalty at which a multiplier is taken to be at its end. Below 1, because solvers stop early.
    far, large : float
        Excess, and penalty, from which rounds were measured to meet no bound any more, so that they are spared.
    binding : float
        Multiplier from which a constraint counts as binding; solvers leave smaller ones at constraints that are not.
    slack : float
        Slack of a binding constraint that is worth another round.
    worth : float
        Relative gain of the objective that is worth another round, whose solve takes as long whatever it gains.
    polished : int
        Models that moves along lines are tried from, at the end of the rounds; more are tried when the search ends.
    """

    rounds: int = 8
    grow: float = 1.2
    give_back: float = 0.7
    floor: float = -0.05
    push: float = 0.002
    saturated: float = 0.99
    far: float = 0.02
    large: float = 10.0
    binding: float = 1e-6
    slack: float = 0.002
    worth: float = 0.003
    polished: int = 2


OPTIONS = TighteningOptions()
"""Those of every fit."""


def enforce(
    problem: RampProblem,
    convex: ConvexSolver,
    pool: Pool,
    options: MajorizeOptions,
    *,
    rounds: int = OPTIONS.rounds,
    give_back: bool = True,
    start: tuple[Floats, float] | None = None,
    state: ConvexState | None = None,
    first: RampResult | None = None,
    budget: Budget | None = None,
) -> Pool:
    """Solve the ramp problem, then tighten in rounds until the judged rates meet the bounds.

    Parameters
    ----------
    pool : Pool
        Judges the solutions by the *original* bounds, and keeps them.
    give_back : bool, default=True
        Also loosen binding constraints that have slack to use, as long as that pays.
    start : (w, b), optional
    state : ConvexState, optional
        Warm start of the convex solver.
    first : RampResult, optional
        The solution before any tightening, where it is known already, and counted.

    Returns
    -------
    Pool
        The one given; the violation of its `best` is 0 where the bounds are met.
    """
    budget = budget or Budget()
    if first is None:
        # the last penalty is for the rounds: it is slow, and where bounds are missed by far it was measured not to help
        ladder = replace(options, rhos=options.rhos[:-1] or options.rhos)
        first = minimise_ramp(problem, convex, ladder, start=start, state=state, budget=budget)
        pool.count(first)
    solution, warm = _apart(first)
    del state, first  # the round that takes the warm start lets go of it
    latest = best = pool.judge(solution)
    tighten = np.zeros(problem.n_constraints)
    # The rounds begin at the penalty that the first solution needed.
    rho, retried = solution.rho, False
    for turn in range(rounds):
        # A round costs a warm solve, so none is begun that cannot help: because nothing is left to gain, or because
        # bounds are missed by far though the penalty is all that their multipliers can be.
        binding = best.solution.multipliers > OPTIONS.binding
        used_up = not give_back or float(-best.excess[binding].min(initial=0.0)) <= OPTIONS.slack
        far = best.excess.max(initial=0.0) > OPTIONS.far and best.solution.rho >= OPTIONS.large
        if budget.exhausted or (used_up and not best.violation > 0.0) or (far and at_limit(best.solution).any()):
            break
        # Tightening a bound changes nothing where its multiplier is the whole penalty already.
        if np.any((latest.excess > ROUNDING) & at_limit(latest.solution)):
            rho = next((larger for larger in options.rhos if larger > rho), np.inf)
            if np.isinf(rho):
                break
        # bounds move by what the last round missed; in the last rounds a little more, because meeting them late is
        # better than not at all
        missed, binding = latest.before_shift, latest.solution.multipliers > OPTIONS.binding
        loosened = np.where(binding & give_back, OPTIONS.give_back * missed, 0.0)
        change = np.where(missed > 0.0, OPTIONS.grow * missed, loosened)
        if best.violation > 0.0 and turn >= rounds - 2:
            change = change + OPTIONS.push
        # Loosening has an end, because 0/1 rates may follow late and then all at once.
        tighten = np.maximum(tighten + change, OPTIONS.floor)
        try:
            solution, warm = _apart(minimise_ramp(
                problem.tightened(tighten), convex, options.going_on(rho, steps=1),
                start=(solution.w, solution.b), state=warm.pop(), budget=budget,
            ))  # fmt: skip
            pool.n_rounds += 1
            pool.count(solution)
            # judged by the original bounds; 0/1 rates jump, so a later round may be worse than an earlier one
            latest, before = pool.judge(solution), best
            pool.add_between(best, latest)
            if latest.beats(best):
                best = latest
            budget.tell("tighten", turn + 1, pool.best.objective, solution.subproblem.gap, pool.best.violation)
        except KeyboardInterrupt:
            budget.interrupted = True
            break
        gained = before.violation > 0.0 or before.objective - best.objective > OPTIONS.worth * abs(best.objective)
        overshot = not gained and latest.violation > 0.0  # gave back too much: once more, from the other side
        if not gained and (retried or not overshot):
            break
        retried = overshot
    pool.polish(budget, OPTIONS.polished)
    return pool


def _apart(solution: RampResult) -> tuple[RampResult, list[ConvexState]]:
    """A solution to keep, and the warm start for the next round, in a list: the round that takes it lets go of it."""
    return solution.without_state(), [solution.subproblem.state]


def at_limit(solution: RampResult) -> Bools:
    """Constraints whose multiplier is the whole penalty: the solver would pay more to satisfy them, shape (m,)."""
    return solution.multipliers >= OPTIONS.saturated * solution.rho
