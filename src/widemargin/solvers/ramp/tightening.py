"""Bounds met by the classifier that is shipped: tighten, solve again, keep the best.

Majorisation meets the constraints in ramp rates. The 0/1 rates of the deterministic classifier differ a little, so the
bounds are moved by what the last round missed (and moved back where a binding constraint has slack to use) and the ramp
problem is solved again, warm. 0/1 rates jump, so rounds alternate between feasible and slightly infeasible: the best
candidate is kept, never the last one. Between the best candidate and a round that overshot lies a line of
classifiers, which is searched exactly for the one that uses up the slack; what no round meets is repaired by exact
moves of single coordinates (`coordinate_moves`).

*A second start.* From a constant classifier majorisation can end beside it: under a floor on precision, "all negative"
satisfies the cleared form, and nothing leads away. The unconstrained SVM with the exact best threshold (the paper's
baseline) is a cheap second opinion. Where it beats what was found, the search is repeated from there, and the best of
all is kept: the result is never worse than that baseline.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from widemargin._typing import Bools, Floats
from widemargin.solvers.base import Budget, ConvexState
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampProblem, RampResult, minimise_ramp

__all__ = [
    "Candidate", "Enforced", "Judge", "Measures", "Moves", "TighteningOptions",
    "at_limit", "enforce", "enforce_from_two_starts",
]  # fmt: skip

ROUNDING = 1e-10
"""Excess (in rates) that counts as rounding."""


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


OPTIONS = TighteningOptions()
"""Those of every fit."""


@dataclass(frozen=True)
class Candidate:
    """A classifier with its own measures.

    Attributes
    ----------
    w, b : the model.
    objective : float
        In the rates that are enforced (0/1 or ramp).
    excess : ndarray of shape (m,)
        Excess of each constraint over its bound in those rates.
    before_shift : ndarray of shape (m,)
        The same before b was moved: what the bounds are tightened by.
    shifted : bool
        Whether b was moved away from the solver's.
    solution : RampResult
        The ramp solution it comes from.
    how : str
        What was done to the solution besides moving b; empty: nothing.
    """

    w: Floats
    b: float
    objective: float
    excess: Floats
    before_shift: Floats
    shifted: bool
    solution: RampResult
    how: str = ""

    @property
    def violation(self) -> float:
        """Sum of the excesses, rounding left out; 0 where every bound is met."""
        return float(self.excess[self.excess > ROUNDING].sum())

    def beats(self, other: "Candidate") -> bool:
        """Less violation, or the same and a lower objective."""
        return (self.violation, self.objective) < (other.violation, other.objective)


@dataclass(frozen=True)
class Enforced:
    """The best candidate and what the search took.

    Attributes
    ----------
    best : Candidate
    n_rounds, n_steps, n_iter, n_epochs : int
        Rounds of tightening; majorisation steps, iterations and epochs of all rounds.
    history : tuple of dict
        The steps of all rounds.
    """

    best: Candidate
    n_rounds: int
    n_steps: int
    n_iter: int
    n_epochs: int
    history: tuple[dict[str, float], ...]

    def followed_by(self, later: "Enforced") -> "Enforced":
        """This search and a later one, with the better of the two models."""
        return Enforced(
            best=later.best if later.best.beats(self.best) else self.best,
            n_rounds=self.n_rounds + later.n_rounds,
            n_steps=self.n_steps + later.n_steps,
            n_iter=self.n_iter + later.n_iter,
            n_epochs=self.n_epochs + later.n_epochs,
            history=self.history + later.history,
        )


Judge = Callable[[RampResult], Candidate]


class Moves(Protocol):
    """Ways from candidates to others that need no solver, by their own 0/1 rates."""

    def between(self, one: Candidate, other: Candidate) -> Candidate:
        """The best classifier on the segment from one to the other."""

    def repair(self, missed: Candidate, budget: Budget) -> Candidate:
        """A classifier near one that misses bounds which misses them less, or meets them."""


class Measures(Protocol):
    """The rates that count."""

    @property
    def moves(self) -> Moves | None:
        """Moves by these rates, where there are any."""

    def judge(self, solution: RampResult) -> Candidate:
        """A candidate made of a ramp solution."""

    def objective(self, w: Floats, b: float) -> float:
        """Objective of a model."""

    def excess(self, w: Floats, b: float) -> Floats:
        """Excess of each constraint at a model, shape (m,)."""


def enforce(
    problem: RampProblem,
    convex: ConvexSolver,
    judge: Judge,
    options: MajorizeOptions,
    *,
    rounds: int = OPTIONS.rounds,
    give_back: bool = True,
    moves: Moves | None = None,
    start: tuple[Floats, float] | None = None,
    state: ConvexState | None = None,
    first: RampResult | None = None,
    budget: Budget | None = None,
) -> Enforced:
    """Solve the ramp problem, then tighten in rounds until the judged rates meet the bounds.

    Parameters
    ----------
    problem : RampProblem
    convex : callable
    judge : callable
        Makes a candidate of a ramp solution, measured by the *original* bounds.
    options : MajorizeOptions
    rounds : int, default=8
    give_back : bool, default=True
        Also loosen binding constraints that have slack to use, as long as that pays.
    moves : Moves, optional
        Search between candidates, and repair what no round meets.
    start : (w, b), optional
    state : ConvexState, optional
        Warm start of the convex solver.
    first : RampResult, optional
        The solution before any tightening, where it is known already.
    budget : Budget, optional

    Returns
    -------
    Enforced
        The violation of its `best` is 0 where the bounds are met.
    """
    budget = budget or Budget()
    if first is None:
        # the last penalty is for the rounds: it is slow, and where bounds are missed by far it was measured not to help
        ladder = replace(options, rhos=options.rhos[:-1] or options.rhos)
        first = minimise_ramp(problem, convex, ladder, start=start, state=state, budget=budget)
    solution, warm = _apart(first)
    del state, first  # the round that takes the warm start lets go of it
    latest = best = finest = judge(solution)
    runs = [solution]
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
            runs.append(solution)
            # judged by the original bounds; 0/1 rates jump, so a later round may be worse than an earlier one
            latest, before = judge(solution), best
            # The finest so far, the latest, or what lies between the rounds' best and the latest.
            for candidate in (latest,) if moves is None else (latest, moves.between(best, latest)):
                finest = candidate if candidate.beats(finest) else finest
            if latest.beats(best):
                best = latest
            budget.tell("tighten", turn + 1, finest.objective, solution.subproblem.gap, finest.violation)
        except KeyboardInterrupt:
            budget.interrupted = True
            break
        gained = before.violation > 0.0 or before.objective - best.objective > OPTIONS.worth * abs(best.objective)
        overshot = not gained and latest.violation > 0.0  # gave back too much: once more, from the other side
        if not gained and (retried or not overshot):
            break
        retried = overshot
    if moves is not None and finest.violation > 0.0 and not budget.exhausted:
        finest = moves.repair(finest, budget)
    return Enforced(
        best=finest,
        n_rounds=len(runs) - 1,
        n_steps=sum(run.n_steps for run in runs),
        n_iter=sum(run.n_iter for run in runs),
        n_epochs=sum(run.n_epochs for run in runs),
        history=tuple(entry for run in runs for entry in run.history),
    )


def _apart(solution: RampResult) -> tuple[RampResult, list[ConvexState]]:
    """A solution to keep, and the warm start for the next round, in a list: the round that takes it lets go of it."""
    return solution.without_state(), [solution.subproblem.state]


def at_limit(solution: RampResult) -> Bools:
    """Constraints whose multiplier is the whole penalty: the solver would pay more to satisfy them, shape (m,)."""
    return solution.multipliers >= OPTIONS.saturated * solution.rho


def enforce_from_two_starts(
    problem: RampProblem,
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
    # a constant classifier is where majorisation may stay, and bounds that are missed are worth another look
    constant = start is None and problem.constant_start(options.rhos[0]) != 0.0
    if budget.exhausted or problem.n_constraints == 0 or not (constant or first.best.violation > 0.0):
        return first
    try:
        # The SVM without constraints, with the threshold that meets them best.
        plain = _plain(problem, convex, options, budget)
        shifted = hard.judge(plain)
        rival = first.best if measures is hard else hard.judge(first.best.solution)
        if budget.exhausted or not shifted.beats(rival):
            return first
        # the SVM itself stays a candidate, so that the result is never worse than this baseline; it is measured by the
        # rates that are enforced, which may not be those of the comparison
        itself = shifted if measures is hard else measures.judge(plain)
        again = search(judge=measures.judge, moves=measures.moves, start=(shifted.w, shifted.b))
    except KeyboardInterrupt:  # outside the descents, which keep what they have themselves
        budget.interrupted = True
        return first
    # The baseline counts as a search of its own, so that its steps are reported too.
    svm = Enforced(itself, 0, plain.n_steps, plain.n_iter, plain.n_epochs, plain.history)
    return first.followed_by(svm).followed_by(again)


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
