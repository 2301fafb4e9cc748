"""The exact randomised thresholds: a linear programme over mixtures of candidates, by column generation.

In every group the threshold is drawn anew for each row from a few candidates with fixed probabilities. Objective and
constraints are then linear in the probabilities, so the best mixture is an LP,

    min sum_c q_c p_c   s.t.   sum_c a_cj p_c <= gamma_j,   sum_{c in group} p_c = 1,   p >= 0,

whose vertices have at most one more candidate than there are groups for every constraint that binds: two thresholds in
one group where one constraint binds. HiGHS solves it over the candidates met so far; the one of lowest reduced cost in
each group joins, found by one pass over the sorted rows, until the Lagrangian bound proves that none is missing. The
bound also holds for thresholds that are not drawn at random, and `best_per_group` starts from its prices.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.solvers.highs import quiet_highs, solved
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

ROUNDING = 1e-9
"""Excess that counts as rounding of a linear programme."""


@dataclass(frozen=True)
class MixtureOptions:
    """The column generation.

    Attributes
    ----------
    tolerance : float
        Feasibility of HiGHS, as fine as it goes, because rates are compared with their bounds to 1e-9.
    gap : float
        Of the scaled objective, at which no candidate is missing. Smaller ends in rounding.
    negligible : float
        Probability that is rounding of zero.
    rounds : int
        Most LPs: a guard against cycling; far fewer are needed.
    first : int
        Candidates of each group to begin with, evenly spaced. Fewer take more rounds, more make each LP larger.
    """

    tolerance: float = 1e-10
    gap: float = 1e-10
    negligible: float = 1e-13
    rounds: int = 1000
    first: int = 9


OPTIONS = MixtureOptions()
"""The options of every fit."""


@dataclass(frozen=True)
class Mixture:
    """The best mixture of thresholds.

    Attributes
    ----------
    numbers : ndarray of int64, shape (s,)
        Candidates of positive probability.
    probability : ndarray of shape (s,)
        They sum to 1 in every group.
    objective : float
    violation : float
        Sum of the excesses of the constraints; 0 where all are met. Where it is positive, no thresholds whatsoever meet
        them, drawn at random or not, and it is the smallest there is.
    lower : float
        Lower bound of the objective (0 where the constraints cannot be met).
    multipliers : ndarray of shape (m,)
        Behind the lower bound; of the sum of excesses where the constraints cannot be met.
    n_iter : int
        LPs solved.
    """

    numbers: Ints
    probability: Floats
    objective: float
    violation: float
    lower: float
    multipliers: Floats
    n_iter: int


def best_mixture(candidates: Candidates) -> Mixture:
    """The best mixture, with a certificate: `objective - lower` is at most 1e-10 of the objective's spread.

    First the sum of the excesses is minimised, and if it can be made 0, the objective.
    """
    master = _Master(candidates)
    # The first phase looks for any mixture that meets the constraints, and for the least excess where none does.
    bound, multipliers = master.generate(0.0)
    if master.value > FEASIBLE:
        return master.mixture(0.0, multipliers)
    master.forbid_excess()
    bound, multipliers = master.generate(1.0 / master.spread)
    return master.mixture(bound * master.spread, multipliers * master.spread)


class _Master:
    """The LP over the candidates met so far, with a slack for each constraint."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        m, groups = candidates.n_constraints, candidates.n_groups
        gains = candidates.prices(1.0, np.zeros(m))
        self.spread = float(np.abs(gains).max(initial=0.0)) or 1.0
        self.numbers = np.zeros(0, np.int64)
        self.gain, self.change = np.zeros(0), np.zeros((0, m))
        self.n_iter = 0
        self._lp = quiet_highs(OPTIONS.tolerance)
        for j in range(m):
            self._lp.addRow(-np.inf, -float(candidates.excess[j]), 0, [], [])
        for _ in range(groups):
            self._lp.addRow(1.0, 1.0, 0, [], [])
        for j in range(m):
            # A slack of price 1 keeps the programme feasible; `forbid_excess` takes it away.
            self._lp.addCol(1.0, 0.0, np.inf, 1, np.array([j], np.int32), np.array([-1.0]))
        self._scale = 0.0
        # A few candidates of each group, evenly spaced, are enough to begin with: the others come as they are missed.
        first = [np.linspace(a, b - 1, min(OPTIONS.first, b - a)) for a, b in pairwise(candidates.first)]
        self._add(np.concatenate(first).round().astype(np.int64))

    @property
    def value(self) -> float:
        """Optimum over the candidates met so far, without the constant."""
        return float(self._lp.getObjectiveValue())

    def forbid_excess(self, but: float = 0.0) -> None:
        """From now on the constraints must hold."""
        for j in range(self.candidates.n_constraints):
            self._lp.changeColBounds(j, 0.0, but)
            self._lp.changeColCost(j, 0.0)

    def generate(self, scale: float) -> tuple[float, Floats]:
        """Add candidates until none is missing; the best lower bound, and the multipliers behind it."""
        candidates, m = self.candidates, self.candidates.n_constraints
        self._scale = scale
        for place, gain in enumerate(self.gain):
            self._lp.changeColCost(m + place, scale * float(gain))
        best, behind = -np.inf, np.zeros(m)
        for _ in range(OPTIONS.rounds):
            multipliers = self._solve()
            # In the first phase a unit of slack costs 1, so a multiplier above 1 is rounding, and would not be feasible
            # in the dual programme of all candidates.
            if scale == 0.0:
                multipliers = np.minimum(multipliers, 1.0)
            # The Lagrangian bound: one pass prices every candidate at these multipliers, and the cheapest of each group
            # bound the optimum from below.
            prices = candidates.prices(scale, multipliers)
            cheapest = np.array([a + int(np.argmin(prices[a:b])) for a, b in pairwise(candidates.first)])
            bound = float(prices[cheapest].sum() + multipliers @ candidates.excess) + scale * candidates.objective
            if bound > best:
                best, behind = bound, multipliers
            # Where the LP holds all of the cheapest ones already, its optimum is that over all candidates.
            missing = np.setdiff1d(cheapest, self.numbers)
            reached = self.value + scale * candidates.objective
            if reached - best <= OPTIONS.gap or not len(missing) or (scale == 0.0 and reached <= FEASIBLE):
                break
            self._add(missing)
        return best, behind

    def mixture(self, lower: float, multipliers: Floats) -> Mixture:
        """The current solution."""
        candidates, m = self.candidates, self.candidates.n_constraints
        p = np.asarray(self._lp.getSolution().col_value)[m:]
        # What HiGHS leaves at rounding of zero is left out.
        keep = np.flatnonzero(p > OPTIONS.negligible)
        keep = keep[np.argsort(self.numbers[keep])]
        numbers, p = self.numbers[keep], p[keep]
        # The rest has to sum to one again in every group.
        group = candidates.group[numbers]
        p = p / np.bincount(group, p, candidates.n_groups)[group]
        excess = candidates.excess + p @ self.change[keep]
        violation = float(excess[excess > ROUNDING].sum())
        objective = candidates.objective + float(p @ self.gain[keep])
        return Mixture(numbers, p, objective, violation, lower, multipliers, self.n_iter)

    def _add(self, numbers: Ints) -> None:
        # A column for each candidate: what it costs, what it adds to every constraint, and a one in the row of its
        # group.
        gain, change = self.candidates.columns(numbers)
        m = self.candidates.n_constraints
        rows = np.arange(m + 1, dtype=np.int32)
        for number, cost, values in zip(numbers, gain, change, strict=True):
            rows[m] = m + self.candidates.group[number]
            self._lp.addCol(self._scale * float(cost), 0.0, np.inf, m + 1, rows, np.append(values, 1.0))
        self.numbers = np.concatenate([self.numbers, numbers])
        self.gain, self.change = np.concatenate([self.gain, gain]), np.concatenate([self.change, change])

    def _solve(self) -> Floats:
        """Solve the LP; the multipliers (>= 0) of the constraints."""
        self.n_iter += 1
        optimal = solved(self._lp)
        # The first phase may have ended with an excess within rounding, without which the second has no feasible point:
        # then that much is allowed.
        for rounding in (FEASIBLE, ROUNDING):
            if not optimal and self._scale > 0.0:
                self.forbid_excess(rounding)
                optimal = solved(self._lp)
        if not optimal:
            status = self._lp.getModelStatus()
            raise RuntimeError(f"HiGHS ended with {status} on an LP that has a solution; report the problem")
        dual = np.asarray(self._lp.getSolution().row_dual)[: self.candidates.n_constraints]
        multipliers: Floats = np.maximum(-dual, 0.0)
        return multipliers
