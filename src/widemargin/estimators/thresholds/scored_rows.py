"""Rows with the scores of an estimator, as the searches over thresholds and offsets take them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from widemargin._typing import Bools, Floats, Ints
from widemargin.estimators.thresholds.class_offsets import OffsetRule, class_costs
from widemargin.estimators.thresholds.rule import (
    JudgedRule,
    Rule,
    between,
    by_heart,
    choose_threshold,
    least_cost,
    least_loosened,
    tightened_goal,
    told_apart,
    used_rows,
)
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.solvers.thresholds.class_costs import ClassCosts
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.mixture import Mixture, best_mixture
from widemargin.solvers.thresholds.offset_search import OPTIONS, OffsetOptions, best_offsets
from widemargin.solvers.thresholds.per_group import best_per_group


class ScoredRows(NamedTuple):
    """The rows that a rule is chosen on.

    Attributes
    ----------
    scores, group : sequence of ndarray of shape (n_s,)
        For each source, larger scores being rather positive; of several classes one for each, shape (n_s, K).
    natural : float
        The scorer's own threshold, which is taken where it decides as the best one does.
    """

    tied: TiedGoal
    scores: Sequence[Floats]
    group: Sequence[Ints]
    n_groups: int
    natural: float = 0.0

    def best(self, margins: Floats, randomize: bool) -> Rule | OffsetRule:
        """The best rule under tightened bounds."""
        if self.tied.several:
            return self.offsets(margins)
        return self.thresholds(margins, randomize=randomize)

    def thresholds(self, margins: Floats, *, randomize: bool = False) -> Rule:
        """The best thresholds of two classes under tightened bounds, of each group, which may be drawn at random."""
        if not randomize and self.n_groups == 1:
            choice = choose_threshold(self.tied, self.scores, self.natural, margins)
            one = np.ones((1, 1))
            return Rule(choice.threshold * one, one, choice.met, 0.0 if choice.met else np.nan, not choice.met)
        candidates, z = self.candidates(margins), used_rows(self.tied, self.scores)[0]
        best = best_mixture(candidates) if randomize else best_per_group(candidates)
        probability = best.probability if isinstance(best, Mixture) else np.ones(self.n_groups)
        met, proved = best.violation == 0.0, isinstance(best, Mixture) or best.proved
        gap = max(best.objective - best.lower, 0.0) if met else np.nan
        # The searches know candidates by number; a rule has thresholds. Groups draw from different numbers of
        # thresholds, so the rows of the table are filled up with the last one at probability 0.
        owner = candidates.group[best.numbers]
        width = int(np.bincount(owner, minlength=self.n_groups).max())
        thresholds, shares = np.zeros((self.n_groups, width)), np.zeros((self.n_groups, width))
        for g in range(self.n_groups):
            mine, own = np.flatnonzero(owner == g), z[candidates.rows_of(g)]
            values = np.array([between(own, int(candidates.count[k]), self.natural) for k in best.numbers[mine]])
            order = np.argsort(values)
            thresholds[g, : len(mine)] = values[order]
            thresholds[g, len(mine) :] = values[order][-1]
            shares[g, : len(mine)] = probability[mine][order]
        return Rule(thresholds, shares, met, gap, proved)

    def candidates(self, margins: Floats) -> Candidates:
        """Every threshold of each group, for linear programmes and searches."""
        z, weight, cell, used = used_rows(self.tied, self.scores)
        z, number = told_apart(z, self.natural), np.concatenate(list(self.group))[used]
        goal = tightened_goal(self.tied, margins, for_lp=True)
        return Candidates(z, weight, cell, number, self.n_groups, *goal, self.tied.cell_weight)

    def judged(self, margins: Floats, *, randomize: bool = False) -> JudgedRule[Rule]:
        """The best thresholds under tightened bounds, and what they reach."""
        rule = self.thresholds(margins, randomize=randomize)
        mass = self.positive_mass(rule)
        coef, bound = tightened_goal(self.tied, margins)
        objective, values = coef.totals(mass, self.tied.cell_weight - mass, len(bound))
        return JudgedRule(rule, objective, float(np.maximum(values - bound, 0.0).sum()))

    def offsets(self, margins: Floats, options: OffsetOptions = OPTIONS) -> OffsetRule:
        """The best offsets of several classes under tightened bounds; `options` say what the search may cost."""
        cost, bound = class_costs(self.tied, margins)
        used = np.concatenate([part.weights > 0.0 for part in self.tied.given])
        scores, costs, group = (np.concatenate(list(parts))[used] for parts in (self.scores, cost, self.group))
        found = best_offsets(ClassCosts(scores, costs, bound, group, self.n_groups), options)
        met = found.violation == 0.0
        gap = max(found.objective - found.lower, 0.0) if met else np.nan
        return OffsetRule(found.offsets, found.objective, found.violation, met, gap, found.least_violation)

    def nearest(self, best: Rule | OffsetRule, randomize: bool) -> Rule | OffsetRule:
        """The best rule, or where that misses bounds what comes nearest to them in their own units."""
        near = None if best.met else least_loosened(self.tied, lambda margins: self.best(margins, randomize))
        if isinstance(best, OffsetRule):
            return replace(best, offsets=near.offsets) if isinstance(near, OffsetRule) else best
        if isinstance(near, Rule):
            return replace(best, thresholds=near.thresholds, probability=near.probability)
        return best

    def shares(self, rule: Rule | OffsetRule) -> Predictions:
        """Probability of the positive class for each row of each source; of several classes their numbers."""
        return list(map(rule.shares, self.scores, self.group))

    def decided(self, rule: Rule) -> Predictions:
        """Whether each row of each source is more probably called positive than not."""
        return [z > rule.medians[numbers] for z, numbers in zip(self.scores, self.group, strict=True)]

    def positive_mass(self, rule: Rule | OffsetRule) -> Floats:
        """What a rule calls positive, by cell, shape (k,)."""
        return self.tied.positive_mass(self.shares(rule))

    def placed_anew(self, rule: Rule | OffsetRule, crossed: "ScoredRows", positive: Bools) -> Rule | OffsetRule | None:
        """Thresholds on these scores, of a model fitted to these rows, where it cannot do what a rule for others does.

        Models of few scores, such as small trees, have other scores in every fold, so that a threshold on these may lie
        anywhere among their own.

        Parameters
        ----------
        rule : Rule or OffsetRule
            For the cross-fitted scores.
        crossed : ScoredRows
            The same rows with these.
        positive : ndarray of bool, shape (n,)
            Whether the label of a row of the first source is the positive one.

        Returns
        -------
        Rule, OffsetRule or None
            None where there are scores enough to call as large a share of the rows positive, where the model knows its
            rows by heart, and where a goal is not met. Of several classes None unless the model decides alike for all
            rows, where those of the folds tell them apart.
        """
        no_margins = np.zeros(self.tied.n_constraints)
        if isinstance(rule, OffsetRule):
            said, of_folds = (np.concatenate(rows.shares(rule)) for rows in (self, crossed))
            return self.best(no_margins, randomize=False) if np.ptp(said) == 0.0 < np.ptp(of_folds) else None
        before, now = ((rows.scores[0], rows.group[0]) for rows in (crossed, self))
        if not rule.met or rule.carried([before], now, self.natural):
            return None
        cost = np.where(positive, -1.0, 1.0) * self.tied.given[0].weights
        if by_heart(least_cost(cost, now[0]), least_cost(cost, before[0])):
            return None
        anew = self.thresholds(no_margins)
        return anew if anew.met else None
