"""Rows with the scores of an estimator, as the searches over thresholds and offsets take them."""

from typing import NamedTuple

from widemargin._typing import Floats, Ints
from widemargin.estimators.thresholds.class_offsets import OffsetRule, best_offset_rule
from widemargin.estimators.thresholds.rule import Rule, best_rule
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal


class ScoredRows(NamedTuple):
    """The rows that a rule is chosen on.

    Attributes
    ----------
    tied : TiedGoal
    scores, group : list of ndarray of shape (n_s,)
        For each source, larger scores being rather positive; of several classes one for each, shape (n_s, K).
    n_groups : int
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

    def shares(self, rule: Rule | OffsetRule) -> Predictions:
        """Probability of the positive class for each row of each source; of several classes their numbers."""
        return list(map(rule.shares, self.scores, self.group))
