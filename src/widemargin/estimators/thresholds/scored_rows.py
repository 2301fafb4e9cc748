"""Rows with the scores of an estimator, as the searches over thresholds and offsets take them."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from widemargin._typing import Bools, Floats, Ints
from widemargin.estimators.thresholds.class_offsets import OffsetRule, best_offset_rule
from widemargin.estimators.thresholds.rule import Rule, best_rule, by_heart, least_cost, least_loosened
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal


class ScoredRows(NamedTuple):
    """The rows that a rule is chosen on.

    Attributes
    ----------
    scores, group : list of ndarray of shape (n_s,)
        For each source, larger scores being rather positive; of several classes one for each, shape (n_s, K).
    natural : float
        The scorer's own threshold.
    """

    tied: TiedGoal
    scores: list[Floats]
    group: list[Ints]
    n_groups: int
    natural: float

    def best(self, margins: Floats, randomize: bool) -> Rule | OffsetRule:
        """The best rule under tightened bounds."""
        if self.tied.several:
            return best_offset_rule(self.tied, self.scores, self.group, self.n_groups, margins)
        return self.thresholds(margins, randomize=randomize)

    def thresholds(self, margins: Floats, *, randomize: bool = False) -> Rule:
        """The best thresholds of two classes under tightened bounds."""
        return best_rule(
            self.tied, self.scores, self.group, self.n_groups, natural=self.natural, margins=margins,
            randomize=randomize,
        )  # fmt: skip

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
