"""Bounds met by the classifier that is shipped: tighten, solve again, keep the best.

Majorisation meets the constraints in ramp rates. The 0/1 rates of the deterministic classifier differ a little, so the
bounds are moved by what the last round missed (and moved back where a binding constraint has slack to use) and the ramp
problem is solved again, warm. 0/1 rates jump, so rounds alternate between feasible and slightly infeasible: the best
candidate is kept, never the last one. Between the best candidate and a round that overshot lies a line of
classifiers, which is searched exactly for the one that uses up the slack; what no round meets is repaired by exact
moves of single coordinates (`coordinate_moves`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.solvers.base import Budget, ConvexState
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampProblem, RampResult, minimise_ramp

__all__ = ["Candidate", "Enforced", "EnforcedProblem", "Judge", "Measures", "Moves", "at_limit", "enforce"]

ROUNDING = 1e-10
"""Excess (in rates) that counts as rounding."""

_GROW, _GIVE_BACK, _FLOOR = 1.2, 0.7, -0.05
_PUSH = 0.002  # added to every bound in the last rounds where none was feasible
_SATURATED = 0.99  # share of the penalty at which a multiplier is taken to be at its end
_FAR, _LARGE = 0.02, 10.0  # excess, and penalty, from which rounds were measured to meet no bound
_BINDING = 1e-6  # multiplier from which a constraint counts as binding
_SLACK = 0.002  # slack of a binding constraint that is worth another round
_WORTH = 0.003  # relative gain of the objective that is worth another round


class EnforcedProblem(RampProblem, Protocol):
    """A ramp problem that can also measure the classifier it will ship."""

    def tightened(self, by: Floats) -> Self:
        """The same problem with bounds lowered by `by`, shape (m,)."""
        ...


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
        ...

    def repair(self, missed: Candidate, budget: Budget) -> Candidate:
        """A classifier near one that misses bounds which misses them less, or meets them."""
        ...


class Measures(Protocol):
    """The rates that count."""

    @property
    def moves(self) -> Moves | None:
        """Moves by these rates, where there are any."""
        ...

    def judge(self, solution: RampResult) -> Candidate:
        """A candidate made of a ramp solution."""
        ...

    def objective(self, w: Floats, b: float) -> float:
        """Objective of a model."""
        ...

    def excess(self, w: Floats, b: float) -> Floats:
        """Excess of each constraint at a model, shape (m,)."""
        ...


@dataclass
class _Taken:
    """What the rounds took."""

    runs: int = 0
    steps: int = 0
    iterations: int = 0
    epochs: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    def add(self, run: RampResult) -> None:
        self.runs += 1
        self.steps += run.n_steps
        self.iterations += run.n_iter
        self.epochs += run.n_epochs
        self.history.extend(run.history)


def enforce(
    problem: EnforcedProblem,
    convex: ConvexSolver,
    judge: Judge,
    options: MajorizeOptions,
    *,
    rounds: int = 8,
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
    problem : EnforcedProblem
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
    taken = _Taken()
    taken.add(solution)
    tighten = np.zeros(problem.n_constraints)
    rho, retried = solution.rho, False
    for turn in range(rounds):
        if budget.exhausted or _finished(best, give_back) or _hopeless(best):
            break
        if _powerless(latest):
            rho = next((larger for larger in options.rhos if larger > rho), np.inf)
            if np.isinf(rho):
                break
        change = _change(latest, give_back)
        if best.violation > 0.0 and turn >= rounds - 2:
            change = change + _PUSH
        tighten = np.maximum(tighten + change, _FLOOR)
        try:
            solution, warm = _apart(minimise_ramp(
                problem.tightened(tighten), convex, options.going_on(rho, steps=1),
                start=(solution.w, solution.b), state=warm.pop(), budget=budget,
            ))  # fmt: skip
            taken.add(solution)
            latest, before = judge(solution), best
            finest = _finest(finest, best, latest, moves)
            if latest.beats(best):
                best = latest
            budget.tell("tighten", turn + 1, finest.objective, solution.subproblem.gap, finest.violation)
        except KeyboardInterrupt:
            budget.interrupted = True
            break
        gained = before.violation > 0.0 or before.objective - best.objective > _WORTH * abs(best.objective)
        overshot = not gained and latest.violation > 0.0  # gave back too much: once more, from the other side
        if not gained and (retried or not overshot):
            break
        retried = overshot
    if moves is not None and finest.violation > 0.0 and not budget.exhausted:
        finest = moves.repair(finest, budget)
    return Enforced(
        best=finest,
        n_rounds=taken.runs - 1,
        n_steps=taken.steps,
        n_iter=taken.iterations,
        n_epochs=taken.epochs,
        history=tuple(taken.history),
    )


def _apart(solution: RampResult) -> tuple[RampResult, list[ConvexState]]:
    """A solution to keep, and the warm start for the next round, in a list: the round that takes it lets go of it."""
    return solution.without_state(), [solution.subproblem.state]


def _finest(finest: Candidate, best: Candidate, latest: Candidate, moves: Moves | None) -> Candidate:
    """The finest so far, the latest, or what lies between the rounds' best and the latest."""
    for found in (latest,) if moves is None else (latest, moves.between(best, latest)):
        finest = found if found.beats(finest) else finest
    return finest


def _finished(best: Candidate, give_back: bool) -> bool:
    """Whether the bounds are met with nothing left to give back."""
    if best.violation > 0.0:
        return False
    binding = best.solution.multipliers > _BINDING
    return not give_back or float(-best.excess[binding].min(initial=0.0)) <= _SLACK


def _hopeless(best: Candidate) -> bool:
    """Whether bounds are missed by far though the penalty is all their multipliers can be."""
    return bool(best.excess.max(initial=0.0) > _FAR and at_limit(best.solution).any() and best.solution.rho >= _LARGE)


def _powerless(latest: Candidate) -> bool:
    """Whether a bound is missed whose multiplier is already the whole penalty: tightening it more changes nothing."""
    return bool(np.any((latest.excess > ROUNDING) & at_limit(latest.solution)))


def at_limit(solution: RampResult) -> npt.NDArray[np.bool_]:
    """Constraints whose multiplier is the whole penalty: the solver would pay more to satisfy them, shape (m,)."""
    return solution.multipliers >= _SATURATED * solution.rho


def _change(latest: Candidate, give_back: bool) -> Floats:
    """By how much each bound is tightened further (loosened where negative)."""
    missed = latest.before_shift
    binding = latest.solution.multipliers > _BINDING
    return np.where(missed > 0.0, _GROW * missed, np.where(binding & give_back, _GIVE_BACK * missed, 0.0))
