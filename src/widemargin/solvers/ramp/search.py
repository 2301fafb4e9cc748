"""The search under a goal: a ladder of regularisers, rounds of tightening, and other starts where bounds are missed.

*Why a ladder.* Which positives are given up is settled in the first steps of a descent, as soon as w has grown so large
that their scores leave the slope of the ramp: nothing pulls them back. A regulariser far above the one asked for keeps
w small and all rows on the slope, so that the choice is made slowly, from rung to rung, each started from the last. The
loose ends of all rungs are judged by the rates that count: one above the regulariser asked for may be the best.

*Other starts.* From a constant classifier majorisation can end beside it: under a floor on precision, "all negative"
satisfies the cleared form, and nothing leads away. The descent at the asked regulariser alone, and the unconstrained
SVM with the exact best threshold (the paper's baseline), are second opinions. All models go into one pool, so the
result is never worse than that baseline.
"""

from dataclasses import dataclass, replace

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget, ConvexState
from widemargin.solvers.convex.subsample_start import is_uneven
from widemargin.solvers.ramp.conflicts import impossible_subset
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampProblem, RampResult, minimise_ramp
from widemargin.solvers.ramp.pool import Candidate, Measures, Pool, by_rank
from widemargin.solvers.ramp.tightening import enforce

__all__ = ["LadderOptions", "refine", "search"]


@dataclass(frozen=True)
class LadderOptions:
    """The rungs.

    Attributes
    ----------
    factors : tuple of float
        Regulariser of each rung, in multiples of the one asked for, which is the last. Five rungs from 100 down were
        measured to be no better than these three, ending below 1 to fit the training rows more closely and new rows
        worse.
    tol : float
        Relative gap of the steps of each rung. More exact steps (1e-3) ended at higher errors on three tables of three.
    rhos : int
        So many penalties of the plan are tried at a rung; the larger ones are left to the tightening.
    small, few_features : int
        Rows times features up to which, and features above which, the descent without a ladder is made beside it in any
        case: on small tables the local minima lie far apart. There models between the best ones and the plain SVM are
        taken in, too, and weaker regularisers are tried last. Among few features moves along lines find them, unless
        weights are very unequal: every heavy row makes minima of its own.
    stricter : float
        From the best model a step is made towards bounds that are stricter by so much. What meets them is often better
        for those asked for: the training error fell by .0005 on average, on a9a by .0025. A second step gave little.
    weaker : tuple of float
        Regularisers of the last attempts to meet bounds on a small table, in multiples of the one asked for: rows that
        are fitted more closely may meet them. Of 275 goals on two real tables 3 were refused that have a model, and two
        of these are met so; of 700 that had no part in it none was refused falsely, with or without. Each is searched
        from all starts: of 154 goals of two bounds that stand where a model of drawn rows does, 10 were refused, now 5.
    polished : int
        Models that moves along lines are tried from at the end: of those that are best and were not moved yet.
    """

    factors: tuple[float, ...] = (30.0, 5.0, 1.0)
    tol: float = 1e-2
    rhos: int = 3
    small: int = 100_000
    few_features: int = 15
    stricter: float = 0.015
    weaker: tuple[float, ...] = (0.3, 0.1)
    polished: int = 4


OPTIONS = LadderOptions()
"""Those of every fit."""


def search(
    problem: RampProblem,
    convex: ConvexSolver,
    measures: Measures,
    options: MajorizeOptions,
    *,
    hard: Measures,
    start: tuple[Floats, float] | None = None,
    budget: Budget,
) -> Pool:
    """Search for the best model of a problem.

    Parameters
    ----------
    measures : Measures
        The rates that have to meet the bounds.
    options : MajorizeOptions
        Of the descent. Without at least two loose steps there is no ladder: the convex problem of the start, say.
    hard : Measures
        0/1 rates at the best threshold: what the plain SVM is compared by. The same object where they are the rates
        that have to meet the bounds, and then slack is given back.
    start : (w, b), optional
        First point of the search, in place of the ladder. From it the other starts are made only where bounds are
        missed; models between the best ones and the plain SVM are taken in on small tables in any case.

    Returns
    -------
    Pool
        Every model visited that no other beats in every respect.
    """
    pool, first, give_back = Pool(measures), None, measures is hard
    try:
        if start is None and options.steps > 1:
            first = _ladder(problem, convex, pool, options, budget)
            if pool.best.perfect:
                return pool
        enforce(problem, convex, pool, options, give_back=give_back, start=start, first=first, budget=budget)
        if problem.n_constraints == 0:
            return pool
        plain = _second_opinions(
            problem, convex, pool, options, hard, start=start, ladder=first is not None, budget=budget
        )
        small = measures.moves is not None and _is_small(problem)
        if small and not budget.exhausted:
            # Where few rows are positive, models that keep bounds on their rates may all decide ten times as many rows
            # wrongly as the SVM without constraints does, with models between that keep the bounds, too.
            if plain is None:
                solution = _plain(problem, convex, options, budget)
                pool.count(solution)
                plain = pool.judge(solution)
            for member in sorted(pool.members, key=by_rank)[: OPTIONS.polished]:
                pool.add_between(member, plain)
        refine(problem, convex, pool, options, budget)
        if small:
            _below(problem, convex, pool, options, budget)
    except KeyboardInterrupt:  # outside the descents, which keep what they have themselves
        if not pool.members:
            raise
        budget.interrupted = True
    return pool


def _is_small(problem: RampProblem) -> bool:
    """Whether more is tried than one search, as local minima lie far apart and cost little."""
    return problem.rows.n_rows * problem.n_features <= OPTIONS.small


def _second_opinions(
    problem: RampProblem, convex: ConvexSolver, pool: Pool, options: MajorizeOptions, hard: Measures, *,
    start: tuple[Floats, float] | None, ladder: bool, budget: Budget,
) -> Candidate | None:  # fmt: skip
    """Search from other starts where bounds are missed, and on small tables in any case.

    Returns the SVM without constraints, if it was made.
    """
    give_back = pool.measures is hard
    few = problem.n_features <= OPTIONS.few_features
    moves_find_all = pool.measures.moves is not None and few and not is_uneven(problem.weight)
    small = _is_small(problem) and not moves_find_all
    # The descent without a ladder, from the constant start.
    if not budget.exhausted and ladder and (small or pool.best.violation > 0.0):
        enforce(problem, convex, pool, options, give_back=give_back, budget=budget)
    # Bounds that are missed are worth another look, and so is a constant classifier, where majorisation may stay.
    constant = (small or not ladder) and start is None and problem.constant_start(options.rhos[0]) != 0.0
    if budget.exhausted or not (constant or pool.best.violation > 0.0):
        return None
    # The SVM without constraints, with the threshold that meets them best.
    plain, rival = _plain(problem, convex, options, budget), pool.best
    pool.count(plain)
    judged = shifted = pool.judge(plain)
    if not give_back:
        rival, shifted = hard.judge(rival.solution), hard.judge(plain)
    if not budget.exhausted and shifted.beats(rival):
        enforce(problem, convex, pool, options, give_back=give_back, start=(shifted.w, shifted.b), budget=budget)
    return judged


def refine(problem: RampProblem, convex: ConvexSolver, pool: Pool, options: MajorizeOptions, budget: Budget) -> None:
    """Look from the best model towards stricter bounds, and move along lines from the best ones.

    What meets stricter bounds may be better for the bounds asked for. Without 0/1 moves nothing is done.
    """
    if pool.measures.moves is None or problem.n_constraints == 0 or budget.exhausted:
        return
    best, stricter = pool.best, problem.tightened(np.full(problem.n_constraints, OPTIONS.stricter))
    once = options.going_on(best.solution.rho, steps=1)
    solution = minimise_ramp(stricter, convex, once, start=(best.w, best.b), budget=budget)
    pool.count(solution)
    # The model for stricter bounds lies beyond the bounds asked for, and the best one on this side: the classifier that
    # just meets them lies between the two.
    pool.add_between(best, pool.judge(solution))
    pool.polish(budget, OPTIONS.polished)


def _below(problem: RampProblem, convex: ConvexSolver, pool: Pool, options: MajorizeOptions, budget: Budget) -> None:
    """Search with weaker regularisers while bounds are missed: on from the best model, then from the other starts.

    The best model may be a local one that no regulariser leads away from. None helps where a linear program proves
    that no classifier of any kind meets the bounds.
    """
    if pool.best.violation <= 0.0 or impossible_subset(problem.coef, problem.cell_weight, problem.gamma):
        return
    for factor in OPTIONS.weaker:
        below = problem.with_lam(factor * problem.lam)
        for start in ("best", "ladder", "constant"):
            best = pool.best
            if budget.exhausted or best.violation <= 0.0:
                return
            # Other starts have a pool of their own, as a ladder goes on from the best of its pool.
            one = pool if start == "best" else Pool(pool.measures)
            enforce(
                below, convex, one, options, give_back=True, budget=budget,
                start=(best.w, best.b) if start == "best" else None,
                first=_ladder(below, convex, one, options, budget) if start == "ladder" else None,
            )  # fmt: skip
            refine(below, convex, one, options, budget)
            if one is not pool:
                pool.take_over(one)


def _ladder(
    problem: RampProblem, convex: ConvexSolver, pool: Pool, options: MajorizeOptions, budget: Budget
) -> RampResult:
    """The solution at the regulariser asked for, to begin the rounds with."""
    point: tuple[Floats, float] | None = None
    state: ConvexState | None = None
    rho = options.rhos[0]
    for factor in OPTIONS.factors:
        last = factor == OPTIONS.factors[-1]
        # The upper rungs only choose which rows are given up, so their steps are loose, and however little they gain
        # all of them are made (stall=0); the last rung ends as exactly as the user asked for.
        rung = replace(
            options, steps=max(options.steps - 2, 1), loose_tol=max(OPTIONS.tol, options.loose_tol), stall=0.0,
            tol=options.tol if last else max(OPTIONS.tol, options.tol),
            rhos=tuple(penalty for penalty in options.rhos[: OPTIONS.rhos] if penalty >= rho),
        )  # fmt: skip
        solution = minimise_ramp(
            problem.with_lam(factor * problem.lam), convex, rung, start=point, state=state, budget=budget
        )
        # A rung starts from the point, the hinge variables and the penalty of the one before.
        point, state, rho = (solution.w, solution.b), solution.subproblem.state, solution.rho
        pool.judge(solution)
        pool.count(solution)
        if budget.exhausted:
            return solution
    best = pool.best.solution
    # A stronger regulariser was better: its end is where the asked one starts.
    if best.w is not solution.w and not pool.best.perfect:
        at_asked = options.going_on(best.rho, steps=1)
        solution = minimise_ramp(problem, convex, at_asked, start=(best.w, best.b), budget=budget)
        pool.count(solution)
    pool.stand_for(solution.without_state())
    return solution


def _plain(problem: RampProblem, convex: ConvexSolver, options: MajorizeOptions, budget: Budget) -> RampResult:
    """The hinge-loss SVM without constraints, as a result of the constrained problem (its multipliers are zero)."""
    free = problem.unconstrained()
    zero = np.zeros(problem.n_features), 0.0
    # without constraints the hinge majoriser of the start is the whole SVM problem: one exact step solves it
    once = replace(options, steps=0, rhos=options.rhos[:1])
    svm = minimise_ramp(free, convex, once, start=zero, budget=budget)
    nothing = np.zeros(problem.n_constraints)
    objective, excess = problem.ramp_values(svm.w, problem.scores(svm.w, svm.b))
    return replace(svm.without_state(), multipliers=nothing, objective=objective, excess=excess, certified=False)
