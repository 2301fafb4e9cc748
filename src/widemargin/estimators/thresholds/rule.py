"""The best rule of a kind for a tied goal: one threshold or one for each group, fixed or drawn from a few."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints
from widemargin.estimators.thresholds.candidates import between, choose_threshold, sweep_problem
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.mixture import best_mixture
from widemargin.solvers.thresholds.per_group import best_per_group

__all__ = ["Rule", "best_rule", "rows_that_would_do"]

_BISECTIONS = 7


@dataclass(frozen=True)
class Rule:
    """A row of group g is called positive with probability `sum_k probability[g, k] [score > thresholds[g, k]]`.

    Attributes
    ----------
    thresholds, probability : ndarray of shape (n_groups, s)
        Thresholds rise along each row; one of probability 0 only fills the row.
    met : bool
        Whether the (tightened) constraints are met; if not, it is the rule of smallest summed violation, of group
        thresholds one that a local search found.
    gap : float
        At most so far is the objective from the lowest that such a rule can have; NaN where the constraints are not
        met.
    proved : bool
        Where the constraints are not met: that no such rule meets them.
    """

    thresholds: Floats
    probability: Floats
    met: bool
    gap: float
    proved: bool

    @property
    def medians(self) -> Floats:
        """The threshold of each group above which a row is more probably positive than not, shape (n_groups,)."""
        place = np.argmax(np.cumsum(self.probability, axis=1) > 0.5, axis=1)
        medians: Floats = np.take_along_axis(self.thresholds, place[:, None], axis=1)[:, 0]
        return medians

    def shares(self, scores: Floats, group: Ints) -> Floats:
        """Probability of the positive class for each row, shape (n,)."""
        above = scores[:, None] > self.thresholds[group]
        shares: Floats = np.minimum((above * self.probability[group]).sum(axis=1), 1.0)
        return shares


def best_rule(
    tied: TiedGoal,
    scores: Sequence[Floats],
    group: Sequence[Ints],
    n_groups: int,
    *,
    natural: float,
    margins: Floats,
    randomize: bool,
) -> Rule:
    """The rule of lowest objective that meets all constraints.

    Parameters
    ----------
    tied : TiedGoal
    scores, group : sequence of ndarray of shape (n_s,)
        For each source: scores, of which larger ones are rather positive, and numbers of groups.
    n_groups : int
    natural : float
        The scorer's own threshold; it is kept where it lies between the same two scores.
    margins : ndarray of shape (m,)
        Tighten the bounds by this much, in units of `bound.bound`.
    randomize : bool
        Whether thresholds may be drawn at random.
    """
    if not randomize and n_groups == 1:
        choice = choose_threshold(tied, scores, natural, margins)
        one = np.ones((1, 1))
        return Rule(choice.threshold * one, one, choice.met, 0.0 if choice.met else np.nan, not choice.met)
    candidates = _candidates(tied, scores, group, n_groups, margins)
    if randomize:
        mixture = best_mixture(candidates)
        met = mixture.violation == 0.0
        gap, proved = max(mixture.objective - mixture.lower, 0.0), True
        numbers, probability = mixture.numbers, mixture.probability
    else:
        found = best_per_group(candidates)
        met, gap, proved = found.violation == 0.0, max(found.objective - found.lower, 0.0), found.proved
        numbers, probability = found.numbers, np.ones(n_groups)
    return _rule(candidates, scores, group, numbers, probability, natural, met, gap if met else np.nan, proved)


def rows_that_would_do(find: "partial[Rule]") -> int | None:
    """About how many rows would prove the goal if all rates stayed as they are; None where no number would.

    Margins shrink as the root of the number of rows, so the largest share of them that can be met is looked for. For
    group thresholds mixtures stand in, which are quicker to find and need a little fewer rows.

    Parameters
    ----------
    find : partial of `best_rule`
    """
    tied, scores, group, n_groups = find.args
    sizes = find.keywords["margins"]
    options = find.keywords | {"randomize": find.keywords["randomize"] or n_groups > 1}

    def meets(share: float) -> bool:
        return best_rule(tied, scores, group, n_groups, **(options | {"margins": share * sizes})).met

    low, high = 0.0, 1.0
    if not meets(low):
        return None
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if meets(middle) else (low, middle)
    return None if low == 0.0 else int(np.ceil(sum(tied.n_rows) / low**2))


def _candidates(
    tied: TiedGoal, scores: Sequence[Floats], group: Sequence[Ints], n_groups: int, margins: Floats
) -> Candidates:
    problem = sweep_problem(tied, scores, margins, for_lp=True)
    number = np.concatenate(list(group))[problem.used]
    return Candidates(
        problem.z, problem.weight, problem.cell, number, n_groups, problem.coef, problem.gamma, tied.cell_weight
    )


def _rule(
    candidates: Candidates,
    scores: Sequence[Floats],
    group: Sequence[Ints],
    numbers: Ints,
    probability: npt.NDArray[np.float64],
    natural: float,
    met: bool,
    gap: float,
    proved: bool,
) -> Rule:
    """Numbers of candidates as thresholds between scores."""
    owner, n_groups = candidates.group[numbers], candidates.n_groups
    width = int(np.bincount(owner, minlength=n_groups).max())
    thresholds, shares = np.zeros((n_groups, width)), np.zeros((n_groups, width))
    for g in range(n_groups):
        mine = np.flatnonzero(owner == g)
        z = candidates.scores_of(g)
        values = np.array([between(z, int(candidates.count[number]), natural) for number in numbers[mine]])
        order = np.argsort(values)
        thresholds[g, : len(mine)] = values[order]
        thresholds[g, len(mine) :] = values[order][-1]
        shares[g, : len(mine)] = probability[mine][order]
    return Rule(thresholds, shares, met, gap, proved)
