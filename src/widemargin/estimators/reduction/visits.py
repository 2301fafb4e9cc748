"""The visits of a reduction: costs at prices, cross-fitted scores of a model, and what all models can do together.

Prices of the constraints turn a goal into the cost of each row; a learner fitted to these costs is one visit; the
models visited so far say at which prices the next one is worth most (`solvers/thresholds/model_mixture.py`). A few
visits are enough, because every threshold of every model counts, and so do averages of two models' scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import SolverOptions
from widemargin.estimators.reduction.cost_sensitive import CrossFitter
from widemargin.estimators.thresholds.rule import Rule, best_rule, sweep_problem
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.solvers.base import Budget
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.model_mixture import MixedModels, ModelMixture

HIGHEST_PRICE = 1e3
"""Objective per unit of a rate, at which nothing but the constraint counts any more."""


@dataclass(frozen=True)
class ReductionOptions(SolverOptions):
    """The search of `GoalReduction`.

    Attributes
    ----------
    price : float
        Largest price of a constraint at first: objective per unit of a rate. A higher one wastes the second visit at
        the end of its range; it is doubled where the goal is not met at it. On Adult .5 came as far with three visits
        as 2 with four.
    same_price : float
        Prices nearer than this to visited ones end the search: the learner would give the same model again.
    blended : int
        So many of the best models are averaged in pairs. More cost a sweep a pair and gained nothing on Adult.
    shares : tuple of float
        Of the first model in an average of two.
    on_interrupt : {"raise", "return"}
        After Ctrl-C, when the best of the models so far is fitted: raise KeyboardInterrupt again, or return.
    """

    price: float = 0.5
    same_price: float = 1e-4
    blended: int = 4
    shares: tuple[float, ...] = (0.25, 0.5, 0.75)
    on_interrupt: kinds.OnInterrupt = "raise"


@dataclass(frozen=True)
class Visit:
    """A model, by the costs it was fitted to, and its cross-fitted scores of each source."""

    cost: list[Floats]
    scores: list[Floats]


@dataclass(frozen=True)
class Blend:
    """A model, or an average of two, with its best thresholds.

    Attributes
    ----------
    visits : tuple of int
    shares : tuple of float
        They sum to 1.
    scores : list of ndarray
        For each source.
    rule : Rule
    objective : float
        On the cross-fitted scores.
    violation : float
        Sum of the scaled excesses.
    """

    visits: tuple[int, ...]
    shares: tuple[float, ...]
    scores: list[Floats]
    rule: Rule
    objective: float
    violation: float

    @property
    def rank(self) -> tuple[float, float]:
        """Less violation first, then a lower objective; excesses of rounding count as none."""
        return (0.0 if self.rule.met else self.violation, self.objective)


@dataclass
class Visits:
    """A goal on rows, the learner, and every model so far.

    Attributes
    ----------
    tied : TiedGoal
    fitter : CrossFitter
    group : sequence of ndarray of int64, shape (n_s,)
        The group of each row that has thresholds of its own.
    n_groups : int
    options : ReductionOptions
    lottery : MixedModels
        The best lottery over the models visited, once there is one.
    """

    tied: TiedGoal
    fitter: CrossFitter
    group: Sequence[Ints]
    n_groups: int
    options: ReductionOptions
    done: list[Visit] = field(default_factory=list)
    mixture: ModelMixture = field(default_factory=ModelMixture)
    lottery: MixedModels = field(init=False)

    def run(self, most: int, budget: Budget) -> None:
        """Visit up to so many models, as long as prices change and time is left."""
        nobody = [np.zeros(len(cell)) for cell in self.tied.cell]
        *_, coef, gamma = sweep_problem(self.tied, nobody, np.zeros(self.tied.n_constraints), for_lp=True)
        prices, highest = np.zeros(len(gamma)), self.options.price
        visited: list[Floats] = []
        try:
            while len(self.done) < most:
                visited.append(prices)
                positive, negative = coef.per_cell(prices)
                self._visit(positive - negative)
                solved = self.mixture.solve(highest)
                while solved.violation > 0.0 and (solved.multipliers >= highest).any() and highest < HIGHEST_PRICE:
                    highest *= 2.0
                    solved = self.mixture.solve(highest)
                self.lottery, prices = solved, solved.multipliers
                budget.tell("visit", len(self.done), solved.objective, np.nan, solved.violation)
                nearest = min(np.abs(prices - other).max(initial=0.0) for other in visited)
                if budget.exhausted or nearest < self.options.same_price:
                    break
        except KeyboardInterrupt:
            budget.interrupted = True
            if not self.done:
                raise

    def _visit(self, change: Floats) -> None:
        """Fit the learner to the costs by cell, and take its model in."""
        cost = [
            change[cell] if weight is None else weight * change[cell]
            for cell, weight in zip(self.tied.cell, self.tied.row_weight, strict=True)
        ]
        scores = self.fitter.scores(cost)
        z, weight, cell, used, coef, gamma = sweep_problem(
            self.tied, scores, np.zeros(self.tied.n_constraints), for_lp=True
        )
        number = np.concatenate(list(self.group))[used]
        self.mixture.add(Candidates(z, weight, cell, number, self.n_groups, coef, gamma, self.tied.cell_weight))
        self.done.append(Visit(cost, scores))

    def best(self) -> Blend:
        """The best single model, or average of two, with one threshold (or one a group)."""
        alone = [self._blend((k,), (1.0,)) for k in range(len(self.done))]
        ranked = sorted(alone, key=lambda blend: blend.rank)[: self.options.blended]
        pairs = [
            self._blend((*one.visits, *other.visits), (share, 1.0 - share))
            for one, other in combinations(ranked, 2)
            for share in self.options.shares
        ]
        return min([*ranked, *pairs], key=lambda blend: blend.rank)

    def _blend(self, visits: tuple[int, ...], shares: tuple[float, ...]) -> Blend:
        parts = [self.done[k].scores for k in visits]
        scores = [
            sum(share * z for share, z in zip(shares, column, strict=True)) for column in zip(*parts, strict=True)
        ]
        rule = best_rule(
            self.tied, scores, self.group, self.n_groups, natural=0.0, margins=np.zeros(self.tied.n_constraints),
            randomize=False,
        )  # fmt: skip
        mass = self.tied.positive_mass([rule.shares(z, g) for z, g in zip(scores, self.group, strict=True)])
        objective, values = self.tied.coefficients.totals(mass, self.tied.cell_weight - mass, self.tied.n_constraints)
        excess = np.maximum((values - self.tied.bound) / self.tied.scale, 0.0)
        return Blend(visits, shares, scores, rule, objective, float(excess.sum()))
