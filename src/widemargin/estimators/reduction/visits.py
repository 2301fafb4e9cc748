"""The visits of a reduction: costs at prices, cross-fitted scores of a model, and what all models can do together.

Prices of the constraints turn a goal into the cost of each row; a learner fitted to these costs is one visit; the
models visited so far say at which prices the next one is worth most (`solvers/thresholds/model_mixture.py`). A few
visits are enough, because every threshold of every model counts, and so do averages of models' scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import SolverOptions
from widemargin.estimators.reduction.cost_sensitive import CrossFitter
from widemargin.estimators.thresholds.class_offsets import OffsetRule, class_costs
from widemargin.estimators.thresholds.rule import (
    BY_HEART,
    JudgedRule,
    Rule,
    by_heart,
    least_cost,
    least_loosened,
    tightened_goal,
)
from widemargin.estimators.thresholds.scored_rows import ScoredRows
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.base import Budget
from widemargin.solvers.thresholds.class_costs import ClassCosts
from widemargin.solvers.thresholds.model_mixture import MixedModels, ModelMixture
from widemargin.solvers.thresholds.offset_search import OffsetOptions, PricedModels
from widemargin.solvers.thresholds.pair_bound import PairOptions

HIGHEST_PRICE = 1e3
"""Objective per unit of a rate: at this price the objective hardly counts beside a violation."""

QUICK = OffsetOptions(looks=1e8, phases=0, pairs=PairOptions(rounds=25), temperatures=())
"""For the search over offsets that ranks averages of models; only the best average gets a full search."""


@dataclass(frozen=True)
class ReductionOptions(SolverOptions):
    """The search of `GoalReduction`.

    Attributes
    ----------
    price : float
        Largest price of a constraint at first: objective per unit of a rate. It is doubled where the goal is not met at
        it. The second visit is at this price, and is wasted if it is too high. On Adult .5 did as well with three
        visits as 2 with four.
    same_price : float
        Prices nearer than this to visited ones end the search: the learner would give the same model again.
    blended : int
        So many of the best models are averaged in pairs. More models cost one sweep for each pair and gained nothing on
        Adult.
    shares : tuple of float
        Of the first model in an average of two.
    stages : int
        With `one_run`: how often the prices change while the trees grow. In one draw of five tables, 10 had an error
        .001 lower than 5.
    by_heart : float
        A model knows its rows by heart if its cost on them, at the best threshold, is lower by more than this share
        than on rows that it did not learn from. Rates on rows known by heart say nothing, so no threshold is chosen by
        them.
    on_interrupt : {"raise", "return"}
        After Ctrl-C, when the best of the models so far is fitted: raise KeyboardInterrupt again, or return.
    """

    price: float = 0.5
    same_price: float = 1e-4
    blended: int = 4
    shares: tuple[float, ...] = (0.25, 0.5, 0.75)
    stages: kinds.Count = 10
    by_heart: float = BY_HEART
    on_interrupt: kinds.OnInterrupt = "raise"


@dataclass(frozen=True)
class Average:
    """A model, or a weighted mean of the scores of several.

    Attributes
    ----------
    shares : ndarray of shape (most visits,)
        Of each visit's model; they sum to 1.
    scores : list of ndarray of shape (n_s,)
        For each source: cross-fitted.
    """

    shares: Floats
    scores: list[Floats]


@dataclass(frozen=True)
class Placed(JudgedRule[Rule | OffsetRule]):
    """An average with its best thresholds (or offsets), measured on its cross-fitted scores."""

    average: Average


@dataclass
class Visits:
    """A goal on rows, the learner, and every model so far.

    Attributes
    ----------
    group : sequence of ndarray of int64, shape (n_s,)
        The group of each row that has thresholds of its own.
    most : int
        Most visits.
    cost : list of list of ndarray
        What each model was fitted to, for each source.
    scores : list of list of ndarray
        Of each model, cross-fitted, for each source.
    averages : list of Average
        In the order of the models of `mixture`.
    lottery : MixedModels
        The best one over all averages.
    """

    tied: TiedGoal
    fitter: CrossFitter
    group: Sequence[Ints]
    n_groups: int
    most: int
    options: ReductionOptions
    cost: list[list[Floats]] = field(default_factory=list)
    scores: list[list[Floats]] = field(default_factory=list)
    averages: list[Average] = field(default_factory=list)
    mixture: ModelMixture = field(default_factory=ModelMixture)
    lottery: MixedModels = field(init=False)
    _models: dict[int, Any] = field(default_factory=dict)

    def run(self, budget: Budget) -> Placed:
        """Visit models as long as prices change and time is left; the best average."""
        prices, highest = self._no_prices(), self.options.price
        visited: list[Floats] = []
        try:
            while len(self.cost) < self.most:
                visited.append(prices)
                cost = self._cost_at(prices)
                self.scores.append(self.fitter.scores(cost))
                self.cost.append(cost)
                self._take(np.eye(self.most)[len(self.cost) - 1])
                solved = self._solve(highest)
                # A price at its limit beside a violation says that the limit is too low, not that the goal is.
                while solved.violation > 0.0 and (solved.multipliers >= highest).any() and highest < HIGHEST_PRICE:
                    highest *= 2.0
                    solved = self._solve(highest)
                prices = solved.multipliers
                budget.tell("visit", len(self.cost), solved.objective, np.nan, solved.violation)
                # At prices that were visited before, a learner that begins anew would give the same model again.
                nearest = min(np.abs(prices - other).max(initial=0.0) for other in visited)
                if budget.exhausted or (self.fitter.ends_early and nearest < self.options.same_price):
                    break
        except KeyboardInterrupt:
            budget.interrupted = True
            if not self.averages:
                raise
        # Means of two models' scores are further candidates that cost no fit.
        placed = [self.placed(average) for average in self.averages]
        best = sorted(placed, key=lambda one: one.rank)[: self.options.blended]
        for one, other in combinations(best, 2):
            for share in self.options.shares:
                self._take(share * one.average.shares + (1.0 - share) * other.average.shares)
                placed.append(self.placed(self.averages[-1]))
        self.lottery = self._solve(highest, bounded=True)
        chosen = min(placed, key=lambda one: one.rank)
        return chosen if budget.exhausted else self._nearer_the_lottery(chosen, budget)

    def _nearer_the_lottery(self, best: Placed, budget: Budget) -> Placed:
        """The best average; where it is far from the best lottery, means of more models are looked for.

        Under rules for many groups a lottery draws from models on several sides of the bounds, and no two of them
        average to one that is near it. Beginning with the mean of those that it draws from, and with the best average,
        models are mixed in as long as that gains. This costs no fit.
        """
        chance = abs(best.objective) / np.sqrt(sum(map(len, self.group)))
        is_near = best.met and best.objective - self.lottery.value <= chance
        if is_near or self.lottery.violation > 0.0:
            return best

        def placed(shares: Floats) -> Placed:
            return self.placed(Average(shares, self._mean_scores(shares)))

        drawn = zip(self.lottery.model, self.lottery.probability, strict=True)
        mean = placed(np.sum([share * self.averages[number].shares for number, share in drawn], axis=0))
        for one in (best, mean):
            gains = True
            while gains and not budget.exhausted:
                mixed = [
                    placed(share * one.average.shares + (1.0 - share) * np.eye(self.most)[number])
                    for number, share in product(range(len(self.cost)), self.options.shares)
                ]
                nearest = min(mixed, key=lambda other: other.rank)
                gains = nearest.rank < one.rank
                one = nearest if gains else one
            best = min(best, one, key=lambda other: other.rank)
        self.averages.append(best.average)
        return best

    def nearest(self, best: Placed) -> Placed:
        """The best average, or where that misses bounds what comes nearest to them in their own units."""

        def under(margins: Floats) -> Placed:
            return min((self.placed(one, margins) for one in self.averages), key=lambda one: one.rank)

        near = None if best.met else least_loosened(self.tied, under)
        return best if near is None else replace(near, rule=replace(near.rule, met=False, gap=np.nan))

    def scored(self, scores: Sequence[Floats]) -> ScoredRows:
        """The rows of all sources with scores of an average."""
        return ScoredRows(self.tied, scores, self.group, self.n_groups)

    def decisions(self, placed: Placed) -> Predictions:
        """For each source the share of the positive class in each row; of several classes the number of its class."""
        return self.scored(placed.average.scores).shares(placed.rule)

    def model(self, number: int) -> Any:
        """The model of a visit, fitted to all rows when it is first asked for."""
        if number not in self._models:
            self._models[number] = self.fitter.model(number, self.cost[number])
        return self._models[number]

    def mixed(self, averages: Sequence[Average]) -> tuple[ModelMixture, MixedModels]:
        """The best lottery over averages by their scores, and what it is of."""
        mixture = ModelMixture()
        for one in averages:
            self._add(mixture, one.scores)
        return mixture, mixture.solve(HIGHEST_PRICE)

    def _add(self, mixture: ModelMixture, scores: Sequence[Floats]) -> None:
        """Add thresholds on the scores of an average to the candidates of a lottery."""
        mixture.add(self.scored(scores).candidates(self._no_margins))

    def least_cost(self, average: Average) -> float:
        """What an average costs at its best threshold, at its own prices, beside the best decisions."""
        return least_cost(self._cost_of(average), np.concatenate(average.scores))

    def _cost_of(self, average: Average) -> Floats:
        """What the models of an average were fitted to, averaged as they are, for the rows of all sources."""
        used = np.flatnonzero(average.shares).tolist()
        return np.concatenate([sum(average.shares[k] * part[k] for k in used) for part in zip(*self.cost, strict=True)])

    def carried(self, placed: Placed, scores: list[Floats]) -> Placed | None:
        """A rule for the models of all rows, which score those of each source so, or None: see `Rule.carried`."""
        used = np.flatnonzero(placed.average.shares).tolist()
        folds = [*zip(*(self.fitter.own_scores(k) for k in used), strict=True)]
        if not folds or not isinstance(placed.rule, Rule):
            return placed
        group, of_fold, shares = self.group[0], self.fitter.fold[0], placed.average.shares
        before = [
            (sum(shares[k] * part for k, part in zip(used, parts, strict=True)), group[of_fold != number])
            for number, parts in enumerate(folds)
        ]
        fresh, own = placed.average.scores[0], replace(placed.average, scores=scores)
        unseen: list[tuple[Floats, Ints]] = []
        if by_heart(self.least_cost(own), self.least_cost(placed.average), self.options.by_heart):
            unseen = [(fresh[of_fold == number], group[of_fold == number]) for number in range(len(folds))]
        rule = placed.rule.carried(before, (scores[0], group), 0.0, unseen=unseen)
        return None if rule is None else replace(placed, rule=rule)

    @property
    def _no_margins(self) -> Floats:
        return np.zeros(self.tied.n_constraints)

    @cached_property
    def _problem(self) -> tuple[CellCoefficients, Floats]:
        """The goal as the mixture takes it: coefficients and bounds."""
        return tightened_goal(self.tied, self._no_margins, for_lp=True)

    def _no_prices(self) -> Floats:
        return np.zeros(len(self._problem[1]))

    def _cost_at(self, prices: Floats) -> list[Floats]:
        """For each source what calling a row positive costs more than calling it negative."""
        positive, negative = self._problem[0].per_cell(prices)
        return [part.weights * (positive - negative)[part.cell] for part in self.tied.sources]

    def _solve(self, highest: float, bounded: bool = False) -> MixedModels:
        """The best lottery over the models so far, and prices of at most `highest`."""
        return self.mixture.solve(highest)

    def _take(self, shares: Floats) -> None:
        """Add an average of models to the mixture."""
        scores = self._mean_scores(shares)
        self._add(self.mixture, scores)
        self.averages.append(Average(shares, scores))

    def _mean_scores(self, shares: Floats) -> list[Floats]:
        """Scores of an average, for each source."""
        used = np.flatnonzero(shares).tolist()
        return [sum(shares[visit] * self.scores[visit][source] for visit in used) for source in range(len(self.group))]

    def placed(self, average: Average, margins: Floats | None = None) -> Placed:
        """An average with its best thresholds under tightened bounds; None: under those of the goal."""
        tighter = self._no_margins if margins is None else margins
        judged = self.scored(average.scores).judged(tighter)
        return Placed(judged.rule, judged.objective, judged.violation, average)


@dataclass
class ClassVisits(Visits):
    """The same for several classes: a cost for each of them, and offsets in place of thresholds.

    Attributes
    ----------
    priced : PricedModels
        In place of `mixture`.
    """

    priced: PricedModels = field(default_factory=PricedModels)

    def run(self, budget: Budget) -> Placed:
        best = super().run(budget)
        rule = self.scored(best.average.scores).offsets(self._no_margins)
        full = Placed(rule, rule.objective, rule.violation, best.average)
        return min(best, full, key=lambda one: one.rank)

    @cached_property
    def _costs(self) -> tuple[list[Floats], Floats]:
        return class_costs(self.tied, self._no_margins)

    def _no_prices(self) -> Floats:
        return np.zeros(len(self._costs[1]))

    def _cost_at(self, prices: Floats) -> list[Floats]:
        """For each source what each class costs as the decision of a row, shape (n_s, K)."""
        return [cost[:, :, 0] + cost[:, :, 1:] @ prices for cost in self._costs[0]]

    def _solve(self, highest: float, bounded: bool = False) -> MixedModels:
        """Prices, and if asked for a lower bound of every lottery; the best lottery itself is not computed."""
        prices = self.priced.solve(highest, bounded)
        none, at_most = np.zeros(0, np.int64), float((prices >= highest).any())
        return MixedModels(none, none[None], np.zeros(0), np.nan, at_most, self.priced.lower, prices)

    def _take(self, shares: Floats) -> None:
        scores, (cost, bound) = self._mean_scores(shares), self._costs
        if len(self.averages) < len(self.scores):  # averages of two are placed, and bring no prices
            group = np.concatenate(list(self.group))
            self.priced.add(ClassCosts(np.concatenate(scores), np.concatenate(cost), bound, group, self.n_groups))
        self.averages.append(Average(shares, scores))

    def placed(self, average: Average, margins: Floats | None = None) -> Placed:
        """An average with its best offsets under tightened bounds; None: under those of the goal."""
        tighter = self._no_margins if margins is None else margins
        rule = self.scored(average.scores).offsets(tighter, QUICK)
        return Placed(rule, rule.objective, rule.violation, average)

    def _nearer_the_lottery(self, best: Placed, budget: Budget) -> Placed:
        """The best average: the best lottery is not computed, and each search over offsets takes long."""
        return best

    def least_cost(self, average: Average) -> float:
        """What an average costs at its best offsets, at its own prices, beside the best decisions."""
        cost, rule = self._cost_of(average), self.placed(average).rule
        number = np.concatenate(self.scored(average.scores).shares(rule))
        return float((cost[np.arange(cost.shape[0]), number - 1] - cost.min(axis=1)).sum())
