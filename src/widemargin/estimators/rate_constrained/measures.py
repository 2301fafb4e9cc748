"""By which rates a linear model is judged, those of `predict` or those of `predict_randomized`, and moved."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from widemargin._typing import Floats
from widemargin.distributed.blocks import BlockedPoint
from widemargin.problems.rate_constrained import RateConstrainedProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.coordinate_moves import best_step, repair
from widemargin.solvers.ramp.majorization import RampResult
from widemargin.solvers.ramp.tightening import Candidate, Moves
from widemargin.solvers.thresholds.bias_sweep import best_threshold
from widemargin.solvers.thresholds.blocked_sweep import best_threshold_of_blocks

__all__ = ["BlockedDeterministic", "Deterministic", "Randomized"]


class _HardRates(ABC):
    """0/1 rates, with the exact best threshold where there is an intercept to move.

    Parameters
    ----------
    problem : RateConstrainedProblem
    """

    moves: Moves | None = None

    def __init__(self, problem: Any) -> None:
        self._problem = problem

    def _values(self, w: Floats, b: float) -> tuple[float, Floats]:
        problem = self._problem
        values: tuple[float, Floats] = problem.values(problem.hard_mass(problem.scores(w, b)))
        return values

    def objective(self, w: Floats, b: float) -> float:
        """0/1 objective, in the problem's scale."""
        return self._values(w, b)[0]

    def excess(self, w: Floats, b: float) -> Floats:
        """Excess of each constraint in 0/1 rates, shape (m,)."""
        return self._values(w, b)[1]

    def judge(self, solution: RampResult) -> Candidate:
        """The solution at its best threshold."""
        problem = self._problem
        z = problem.scores(solution.w, solution.b)
        objective, excess = problem.values(problem.hard_mass(z))
        after, shift = excess, 0.0
        if problem.fit_intercept:
            shift = self._threshold(z)
            if shift != 0.0:
                objective, after = problem.values(problem.hard_mass(self._shifted(z, shift)))
        return Candidate(solution.w, solution.b + shift, objective, after, excess, shift != 0.0, solution)

    @abstractmethod
    def _threshold(self, z: Any) -> float:
        """The best threshold of scores."""

    @abstractmethod
    def _shifted(self, z: Any, shift: float) -> Any:
        """The scores less a shift."""


class BlockedDeterministic(_HardRates):
    """0/1 rates over rows in blocks. There are no moves: they would have to look at every row for each of them."""

    def _threshold(self, z: BlockedPoint) -> float:
        problem = self._problem
        choice = best_threshold_of_blocks(problem.rows, z, problem.coef, problem.gamma, problem.cell_weight)
        return choice.threshold

    def _shifted(self, z: BlockedPoint, shift: float) -> BlockedPoint:
        return z._replace(b=z.b + shift)


class Deterministic(_HardRates):
    """0/1 rates, with the exact best threshold where there is an intercept to move, and exact moves by them."""

    def __init__(self, problem: RateConstrainedProblem) -> None:
        super().__init__(problem)
        self.moves = self

    def _threshold(self, z: Floats) -> float:
        problem = self._problem
        choice = best_threshold(z, problem.weight, problem.cell, problem.coef, problem.gamma, problem.cell_weight)
        return choice.threshold

    def _shifted(self, z: Floats, shift: float) -> Floats:
        return z - shift

    def between(self, one: Candidate, other: Candidate) -> Candidate:
        """The best classifier on the segment, at its own best threshold."""
        problem = self._problem
        z = problem.scores(one.w, one.b)
        along = problem.scores(other.w, other.b)
        along -= z
        turning = np.flatnonzero((z > 0.0) != (z + along > 0.0))  # no other row changes sides on the way
        share = best_step(problem, z, turning, along[turning], limits=(0.0, 1.0)).length
        if share == 0.0:
            return one
        w, b = one.w + share * (other.w - one.w), one.b + share * (other.b - one.b)
        found = self.judge(replace(one.solution, w=w, b=b, certified=False))
        return replace(found, how=f"the model lies between two solutions, {share:.3g} of the way")

    def repair(self, missed: Candidate, budget: Budget) -> Candidate:
        """The candidate after exact moves of single coordinates."""
        found = repair(self._problem, missed.w, missed.b, budget=budget)
        if found.n_moves == 0:
            return missed
        moved = "one coordinate was" if found.n_moves == 1 else f"{found.n_moves} coordinates were"
        how = f"{moved} moved afterwards to meet the bounds"
        return Candidate(found.w, found.b, found.objective, found.excess, found.excess, True, missed.solution, how)


class Randomized:
    """Ramp rates, the expected ones of the randomised classifier.

    Parameters
    ----------
    problem : RateConstrainedProblem
    """

    moves: Moves | None = None

    def __init__(self, problem: Any) -> None:
        self._problem = problem

    def _values(self, w: Floats, b: float) -> tuple[float, Floats]:
        values: tuple[float, Floats] = self._problem.ramp_values(w, self._problem.scores(w, b))
        return values

    def objective(self, w: Floats, b: float) -> float:
        """Ramp objective with the regulariser, in the problem's scale."""
        return self._values(w, b)[0]

    def excess(self, w: Floats, b: float) -> Floats:
        """Excess of each constraint in ramp rates, shape (m,)."""
        return self._values(w, b)[1]

    def judge(self, solution: RampResult) -> Candidate:
        """The solution as it is; not by `solution.excess`, which is measured by the tightened bounds."""
        objective, excess = self._values(solution.w, solution.b)
        return Candidate(solution.w, solution.b, objective, excess, excess, False, solution)
