"""Goals on the same rows, trained one after the other: what does not change is done once, and each starts warm.

The rows are tied to the goal, checked and merged once; from goal to goal only coefficients by cell and bounds are made
anew. A point starts from the last one's model, hinge variables and multipliers, and takes two to four majorisation
steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats, Matrix
from widemargin.estimators.feature_space import ColumnSpace
from widemargin.estimators.rate_constrained.training import (
    Plan,
    Trained,
    Watched,
    make_measures,
    result_status,
    with_solver,
)
from widemargin.goals import Goal
from widemargin.goals.binding.bind import Source, TiedGoal, bind
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem
from widemargin.solvers.base import Budget, ConvexState
from widemargin.solvers.ramp.majorization import ConvexSolver
from widemargin.solvers.ramp.tightening import Enforced, Measures, enforce, enforce_from_two_starts

__all__ = ["GoalSeries", "Neighbour"]


@dataclass(frozen=True)
class WarmOptions:
    """Majorisation from a neighbour's solution.

    Attributes
    ----------
    steps : int
        Most steps, the last one included. Two were measured to be enough between close neighbours; more follow a goal
        that lies farther off, and cost as much each.
    stall : float
        Relative decrease of the merit below which only the last step is taken. It is twenty times that of a start from
        nothing, because a neighbour's solution is good already; smaller takes more steps for nothing that shows.
    """

    steps: int = 4
    stall: float = 1e-2


class Neighbour(NamedTuple):
    """What a point starts from: a solution, its penalty, whether it met its goal, and that goal's constraints."""

    w: Floats
    b: float
    rho: float
    met: bool
    n_constraints: int


class GoalSeries:
    """Trains goals on the same rows, in order.

    Parameters
    ----------
    sources : sequence of Source
        What the goals are tied to.
    matrices : sequence of matrices
        Features of each source.
    space : ColumnSpace
        What the models are linear in. Of an exact kernel the matrix is computed anew for each goal.
    plan : Plan
        Of a start from nothing, which the first goal gets, and as a second opinion every goal that ends unlike its
        neighbour, met after one that was not, or not met after one that was.
    budget : Budget
    warm : WarmOptions, optional
    """

    def __init__(
        self,
        sources: Sequence[Source],
        matrices: Sequence[Matrix],
        space: ColumnSpace,
        plan: Plan,
        budget: Budget,
        warm: WarmOptions = WarmOptions(),
    ) -> None:
        self.sources, self.space, self.plan, self.budget = sources, space, plan, budget
        self.features = space.features(matrices)
        cold = plan.steps
        self.warm = replace(cold, steps=warm.steps - 1, slopes=(), tol=cold.loose_tol, stall=warm.stall)
        self._tied: TiedGoal | None = None
        self._flat: RateConstrainedProblem | None = None
        self._last: Neighbour | None = None
        self._given: Neighbour | None = None
        self._state: ConvexState | None = None

    def bind(self, goal: Goal) -> TiedGoal:
        """Tie a goal to the rows, with the cells of the goal before where they suffice."""
        return bind(goal, self.sources, warn_trivial=self._tied is None, like=self._tied)

    def go_on(self, tied: TiedGoal, before: Neighbour | None) -> None:
        """Take over from an earlier run that ended with this goal; its solution is where the next one starts."""
        self._tied, self._given = tied, before

    def train(self, tied: TiedGoal) -> Trained:
        """Train on a tied goal, warm where there is a goal before."""
        self._flat = self._rows_of(tied)
        problem, solver = with_solver(self._flat, self.space, self.plan.solver)
        measures, hard = make_measures(problem, self.plan.enforce)
        convex = Watched(solver)
        before, search, resumed = self._given or self._last, None, self._given is not None
        self._given = None
        if before is not None and before.n_constraints == problem.n_constraints:
            search = self._from(before, problem, convex, measures, give_back=measures is hard)
        # a resumed start knows neither penalty nor hinge variables, so it gets a second opinion too
        if before is None or search is None or resumed or before.met != (search.best.violation <= 0.0):
            search = self._second_opinion(search, problem, convex, measures, hard)
        trained = Trained(search, problem, result_status(search.best, self.budget), tuple(solver.used))
        last = trained.solution
        self._last = Neighbour(last.w, last.b, last.rho, trained.met, problem.n_constraints)
        self._tied, self._state = tied, convex.last
        return trained

    def _rows_of(self, tied: TiedGoal) -> RateConstrainedProblem:
        """The problem; its rows are those of the last one where the cells are."""
        if self._flat is not None and self._tied is not None and self._tied.space is tied.space:
            again = self._flat.retied(self._tied, tied)
            if again is not None:
                return again
        self._last = None  # hinge variables belong to rows
        return build_problem(tied, self.features, self.plan.lam, fit_intercept=self.plan.fit_intercept)

    def _from(
        self,
        before: Neighbour,
        problem: RateConstrainedProblem,
        convex: ConvexSolver,
        measures: Measures,
        *,
        give_back: bool,
    ) -> Enforced:
        """A few steps from the last goal's solution, and rounds of tightening only where they are needed.

        The tightening starts anew: the last goal's was measured to stay for good where the sweep of the bias hides it.
        """
        state = self._state
        if state is not None and state.v.shape[0] != problem.n_constraints:  # the plain SVM was trained last
            state = state._replace(v=np.zeros(problem.n_constraints))
        rhos = tuple(rho for rho in self.warm.rhos if rho >= before.rho)  # its neighbour will need it too
        return enforce(
            problem, convex, measures.judge, replace(self.warm, rhos=rhos), give_back=give_back, moves=measures.moves,
            start=(before.w, before.b), state=state, budget=self.budget,
        )  # fmt: skip

    def _second_opinion(
        self,
        warm: Enforced | None,
        problem: RateConstrainedProblem,
        convex: ConvexSolver,
        measures: Measures,
        hard: Measures,
    ) -> Enforced:
        """A start from nothing; the better of it and the warm one."""
        if warm is not None and self.budget.exhausted:
            return warm
        cold = enforce_from_two_starts(
            problem, convex, measures, self.plan.steps, hard=hard, give_back=measures is hard, budget=self.budget
        )
        return cold if warm is None or cold.best.beats(warm.best) else warm
