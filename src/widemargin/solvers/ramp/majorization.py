"""Majorisation-minimisation of the ramp problem (Algorithm 1 of Goh et al. 2016).

Each step bounds the ramps by hinges that are tight at the current point and solves that convex problem. The merit, ramp
objective plus `rho` times the violations, never increases. All steps but the last are solved loosely (solving them
exactly was measured to be a waste); the last one carries the certificate.

`rho` is an exact penalty, so an infeasible start needs no phase one: where violations stay, `rho` grows 1, 3, 10, 100,
warm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.convex.subsample_start import SampledProblem, sampled, spread_state

__all__ = ["ConvexSolver", "MajorizeOptions", "RampProblem", "RampResult", "minimise_ramp"]

ConvexSolver = Callable[..., ConvexResult]


class RampProblem(SampledProblem, Protocol):
    """A ramp problem whose constraints can be moved, chosen or dropped, and whose classifiers can be measured."""

    @property
    def lam(self) -> float: ...
    @property
    def gamma(self) -> Floats: ...
    @property
    def cell_weight(self) -> Floats: ...
    @property
    def fit_intercept(self) -> bool: ...
    @property
    def n_constraints(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def owners(self) -> tuple[tuple[int, ...], ...]: ...
    def scores(self, w: Floats, b: float) -> Any:
        """`X w - b`; for rows in blocks the model itself."""

    def ramp_values(self, w: Floats, z: Floats) -> tuple[float, Floats]:
        """Ramp objective with regulariser, and excess of each constraint."""

    def hard_mass(self, z: Floats) -> Floats:
        """Weight of each cell with `z > 0`."""

    def values(self, positive: Floats) -> tuple[float, Floats]:
        """Loss and excess of each constraint at a mass by cell."""

    def majorise(self, z: Floats) -> Any:
        """The convex problem that is tight at these scores."""

    def constant_start(self, rho: float) -> float:
        """The best b at w = 0."""

    def with_lam(self, lam: float) -> Self:
        """The same problem with another weight of the regulariser."""

    def tightened(self, by: Floats) -> Self:
        """The same problem with bounds lowered by `by`, shape (m,)."""

    def unconstrained(self) -> Self:
        """The same problem without constraints."""

    def restricted(self, kept: Sequence[int], *, objective: int | None = None) -> Self:
        """The constraints `kept` only; with `objective=j` what j bounds is minimised."""


@dataclass(frozen=True)
class MajorizeOptions:
    """The outer loop.

    Attributes
    ----------
    steps : int
        Most loose steps for each rho. More fit the training rows more closely, not better unseen ones.
    loose_tol, tol : float
        Relative gap of the loose steps and of the last one. Exact loose steps were measured to be a waste.
    rhos : tuple of float
        The penalty ladder. The step at 3 halves the time where the multipliers end a little above 1, as four tight
        constraints make them.
    feasibility_tol : float
        Violation (in rates) above which the next rho is tried. Smaller takes a penalty more for what rounds of
        tightening repair at less cost.
    stall : float
        Relative decrease of the merit below which the loose steps end. Smaller takes more steps for less each.
    finest : float
        Least gap of steps on a plateau where nothing was gained since the start. Near w = 0 a loose step may hide what
        there is to gain; finer than this no plateau was met.
    looser, loosest : float
        Loose steps from points that are good already are so many times looser, and at most as loose as the second: a
        third less time at 1e-2 than at 1e-3 was measured, and models as good.
    free : float
        Violation of each constraint, in rates, that costs nothing in the merit: solvers leave as much.
    """

    steps: int = 4
    loose_tol: float = 1e-2
    tol: float = 1e-4
    rhos: tuple[float, ...] = (1.0, 3.0, 10.0, 100.0)
    feasibility_tol: float = 1e-3
    stall: float = 5e-4
    finest: float = 1e-6
    looser: float = 10.0
    loosest: float = 1e-2
    free: float = 1e-5

    def going_on(self, rho: float, steps: int) -> "MajorizeOptions":
        """For a run from a good point: at most `steps` steps before the last one, loose ones, at one penalty."""
        return replace(self, steps=steps, rhos=(rho,), loose_tol=self.later_tol)

    @property
    def later_tol(self) -> float:
        """Relative gap of loose steps from points that are good already."""
        return max(self.loose_tol, min(self.looser * self.loose_tol, self.loosest))


@dataclass(frozen=True)
class RampResult:
    """A local minimum of the ramp problem.

    Attributes
    ----------
    w, b : the model, `f(x) = <w, x> - b`.
    multipliers : ndarray of shape (m,)
    objective : float
        Ramp objective with regulariser.
    excess : ndarray of shape (m,)
        Excess of each constraint in ramp rates.
    subproblem : ConvexResult
        The last, certified convex step; (w, b) is its solution.
    certified : bool
        Whether (w, b) is the point that `subproblem.gap` certifies.
    rho : float
        Last penalty weight.
    n_steps, n_iter : int
        Majorisation steps; iterations of the convex solver in all.
    """

    w: Floats
    b: float
    multipliers: Floats
    objective: float
    excess: Floats
    subproblem: ConvexResult
    certified: bool
    rho: float
    status: Status
    n_steps: int
    n_iter: int
    history: tuple[dict[str, float], ...]

    def without_state(self) -> "RampResult":
        """The same without the shares of its last step's warm start, two numbers for every row."""
        state = self.subproblem.state
        bare = state._replace(up=state.up[:0].copy(), um=state.um[:0].copy())
        return replace(self, subproblem=replace(self.subproblem, state=bare))


@dataclass
class _Walk:
    """The current point of the majorisation and what led to it."""

    problem: RampProblem
    convex: ConvexSolver
    budget: Budget
    w: Floats
    b: float
    state: ConvexState | None = None
    stage: str = "majorise"
    rho: float = 0.0
    last: ConvexResult | None = None
    certified: bool = False
    n_steps: int = 0
    n_iter: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    objective: float = field(init=False)
    excess: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.z = self.problem.scores(self.w, self.b)
        self.objective, self.excess = self.problem.ramp_values(self.w, self.z)

    @property
    def violation(self) -> float:
        """Largest excess of a constraint, 0 where all are met."""
        return float(np.maximum(self.excess, 0.0).max(initial=0.0))

    def merit(self) -> float:
        """Ramp objective plus penalty; violations below 1e-5 are free."""
        return self.objective + self.rho * float(np.maximum(self.excess - MajorizeOptions.free, 0.0).sum())

    def step(self, tol: float) -> bool:
        """One majorisation step; False, and no move, where the merit did not fall even at a tenth of the tolerance."""
        # The ramp is the difference of two hinges. The convex one is kept, the concave one is replaced by its tangent
        # at the present score, which lies above it: so the majoriser is convex, is nowhere below the ramp, and touches
        # it here.
        sub: ConstrainedHinge = self.problem.majorise(self.z)
        # The majoriser is tight here, so whatever lowers it lowers the merit.
        before, here = self.merit(), (self.objective, self.excess)
        state = self.state
        # a step solved too loosely may raise the merit; it is then solved ten times as exactly, once
        for attempt_tol in (tol, 0.1 * tol):
            result = self.convex(sub, tol=attempt_tol, start=state, rho=self.rho, budget=self.budget)
            self.n_iter += result.n_iter
            z = self.problem.scores(result.w, result.b)
            self.objective, self.excess = self.problem.ramp_values(result.w, z)
            after = self.merit()
            state = self.state = result.state
            # At a minimum the merit stays, up to the rounding of its sums: the gap is of this point.
            self.last, self.certified = result, after <= before + 1e-13 * abs(before)
            if self.certified:
                self.w, self.b, self.z = result.w, result.b, z
                self.n_steps += 1
                self.history.append({
                    "step": float(self.n_steps), "rows": float(z.shape[0]), "rho": self.rho, "lam": self.problem.lam,
                    "merit": after, "objective": self.objective, "violation": self.violation, "gap": result.gap,
                    "iterations": float(result.n_iter), "seconds": self.budget.elapsed,
                })  # fmt: skip
                self.budget.tell(self.stage, self.n_steps, self.objective, result.gap, self.violation)
                return True
            # The step is taken back: what it would have raised is known to be the fault of the solver, not of the
            # problem.
            self.objective, self.excess = here
            if self.budget.exhausted:
                break
        return False


def minimise_ramp(
    problem: RampProblem,
    convex: ConvexSolver,
    options: MajorizeOptions = MajorizeOptions(),
    *,
    start: tuple[Floats, float] | None = None,
    state: ConvexState | None = None,
    budget: Budget | None = None,
) -> RampResult:
    """Run Algorithm 1 with an exact penalty.

    Parameters
    ----------
    convex : callable
        `convex(sub, tol=, start=, rho=, budget=) -> ConvexResult`.
    start : (w, b), optional
        First point; by default w = 0 with the best b (a scan of the constant scores).
    state : ConvexState, optional
        Warm start of the convex solver.

    Returns
    -------
    RampResult
        An interrupt ends the run with what there is, the start if nothing else, and status INTERRUPTED. Status
        INFEASIBLE where the violation stayed above `feasibility_tol` at the last rho: a statement about this
        local search, not a proof.

    Raises
    ------
    ValueError
        If `options.rhos` is empty.
    """
    if not options.rhos:
        raise ValueError("options.rhos is empty; give at least one penalty weight.")
    budget = budget or Budget()
    if start is None:
        start = np.zeros(problem.n_features), problem.constant_start(options.rhos[0])
    # A warm start is nearer than what a sample could say.
    walk = _from_sample(problem, convex, options, start, budget) if state is None else None
    if walk is None:
        walk = _Walk(problem, convex, budget, start[0], start[1], state)
        del state  # the walk lets go of it when it has a later one
        return _result(_run(walk, options), options)
    # The sample has led to near the end, so one loose step and the exact one suffice as a rule. Only where the bounds
    # are missed on all rows after all does the ladder of penalties go on from the one that the sample needed.
    _run(walk, options.going_on(walk.rho, steps=min(options.steps, 1)))
    if walk.last is not None and walk.violation > options.feasibility_tol and not budget.exhausted:
        _run(walk, replace(options, rhos=tuple(rho for rho in options.rhos if rho >= walk.rho)))
    return _result(walk, options)


def _from_sample(
    problem: RampProblem, convex: ConvexSolver, options: MajorizeOptions, start: tuple[Floats, float], budget: Budget
) -> _Walk | None:
    """A walk on all rows that stands where one on a sample of them has led; None where none is drawn.

    Without loose steps the majoriser has to stay that of the start, and only the convex solver starts at the sample's.
    """
    # A tenth of the rows leads most of the way at a tenth of the cost.
    few = sampled(problem)
    if few is None:
        return None
    # Nothing of the sample is certified, so it needs no exact last step.
    loose = replace(options, tol=options.loose_tol)
    first = _run(_Walk(few, convex, budget, start[0], start[1], stage="sample"), loose)
    w, b = (first.w, first.b) if options.steps else start
    state = None
    if first.last is not None:
        warm = first.last.state
        state = spread_state(warm.w, warm.b, first.last.multipliers, problem.scores(warm.w, warm.b))
    walk = _Walk(problem, convex, budget, w, b, state, rho=first.rho)
    # What the sample took belongs to the run.
    walk.n_steps, walk.n_iter, walk.history = first.n_steps, first.n_iter, first.history
    return walk


def _run(walk: _Walk, options: MajorizeOptions) -> _Walk:
    """Descend at each penalty weight in turn, until the constraints hold."""
    try:
        # The smallest penalty that makes the constraints hold conditions the subproblems best, so it grows from below.
        for rho in options.rhos:
            walk.rho = rho
            _descend(walk, options)
            if walk.budget.exhausted or walk.violation <= options.feasibility_tol:
                break
    except KeyboardInterrupt:
        walk.budget.interrupted = True
    return walk


def _result(walk: _Walk, options: MajorizeOptions) -> RampResult:
    last = walk.last
    if last is None:  # an interrupt in the first step leaves the start, with nothing proved about it
        multipliers, nothing = np.zeros(walk.problem.n_constraints), np.zeros(walk.z.shape[0], np.float32)
        state = ConvexState(walk.w, walk.b, nothing, nothing, multipliers)
        last = ConvexResult(
            walk.w, walk.b, multipliers, np.inf, -np.inf, np.inf, walk.excess, Status.INTERRUPTED, 0, 0, 0.0, state
        )
    # "Converged" is said only of a run that was not cut short, whose last step is as exact as was asked for, and whose
    # constraints hold; a run that keeps violating them has converged to nothing that anybody asked for.
    closed = not walk.budget.exhausted and (walk.last is None or last.gap <= options.tol)
    missed = not walk.budget.exhausted and walk.violation > options.feasibility_tol
    status = Status.INFEASIBLE if missed else walk.budget.status(converged=closed)
    return RampResult(
        w=walk.w, b=walk.b, multipliers=last.multipliers, objective=walk.objective, excess=walk.excess,
        subproblem=last, certified=walk.certified, rho=walk.rho, status=status, n_steps=walk.n_steps,
        n_iter=walk.n_iter, history=tuple(walk.history),
    )  # fmt: skip


def _descend(walk: _Walk, options: MajorizeOptions) -> None:
    """Loose steps until the merit stalls, then one at the final tolerance.

    Near w = 0 the ramp problem has plateaus on which a loose step gains nothing. Where the last step shows that there
    was something to gain, the steps that are left are taken, ten times as exactly. The last step is saved where the
    violation is so large that the next rho has to deal with it anyway. At penalties after the first, which only
    repair violations, loose steps are never exact.
    """

    def stalled(before: float) -> bool:
        return before - walk.merit() < options.stall * abs(before)

    first, last = walk.rho == options.rhos[0], walk.rho >= options.rhos[-1]
    left, tol = options.steps, options.loose_tol if first else options.later_tol
    began, last_tol = walk.merit(), options.tol
    while True:
        # Loose steps do most of the descent at a fraction of the cost. Each is tight at the last point, so the merit
        # falls until the hinges stop changing.
        for _ in range(left):
            before = walk.merit()
            if not walk.step(tol):
                break
            left -= 1
            if walk.budget.exhausted or stalled(before):
                break
        hopeless = not last and walk.violation > 10.0 * options.feasibility_tol
        if walk.last is not None and (walk.budget.exhausted or hopeless):
            return
        # The step that carries the certificate; what it gains shows whether the loose ones had really arrived.
        before = walk.merit()
        moved = walk.step(last_tol)
        if left == 0 or walk.budget.exhausted:
            return
        if not moved or stalled(before):
            on_plateau = first and stalled(began)
            if not on_plateau or last_tol <= options.finest:
                return
            tol = last_tol = max(0.1 * last_tol, options.finest)
        left, tol = left - 1, max(0.1 * tol, last_tol)
