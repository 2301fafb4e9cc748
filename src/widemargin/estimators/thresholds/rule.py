"""The best rule of a kind for a tied goal: one threshold or one for each group, fixed or drawn from a few.

One threshold is found by a sweep over all of them; the others by linear programmes and searches over candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Bools, Cells, Floats, Ints
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.mixture import Mixture, best_mixture
from widemargin.solvers.thresholds.per_group import best_per_group
from widemargin.solvers.thresholds.threshold_sweep import best_threshold


@dataclass(frozen=True)
class TriedThreshold:
    """The threshold: a row is positive where its score is larger.

    Attributes
    ----------
    threshold : float
    met : bool
        Whether the (tightened) constraints are met; if not, the threshold is the one of smallest summed violation.
    objective : float
        Of the goal, up to a constant of the data.
    violation : float
        Sum of the scaled excesses.
    """

    threshold: float
    met: bool
    objective: float
    violation: float


def choose_threshold(tied: TiedGoal, scores: Sequence[Floats], natural: float, margins: Floats) -> TriedThreshold:
    """Try every threshold between two scores, and both ends.

    Parameters
    ----------
    tied : TiedGoal
    scores : sequence of ndarray of shape (n_s,)
        For each source; larger means rather positive.
    natural : float
        The scorer's own threshold; of equally good ones the nearest to it is taken.
    margins : ndarray of shape (m,)
        Tighten the bounds by this much, in units of `bound.bound`.

    Returns
    -------
    TriedThreshold
        Of the thresholds that meet all constraints, the one of lowest objective. A ratio with denominator zero meets
        nothing.
    """
    z, weight, cell, _, coef, gamma = sweep_problem(tied, scores, margins)
    best = best_threshold(z - natural, weight, cell, coef, gamma, tied.cell_weight)
    threshold = between(z, best.n_positive, natural)
    return TriedThreshold(threshold, best.violation == 0.0, best.objective, best.violation)


def sweep_problem(
    tied: TiedGoal, scores: Sequence[Floats], margins: Floats, *, for_lp: bool = False
) -> tuple[Floats, Floats, Cells, Bools, CellCoefficients, Floats]:
    """Rows of weight > 0 of all sources, and the tightened goal, as the searches over thresholds take them.

    Parameters
    ----------
    for_lp : bool, default=False
        With coefficients of moderate size, for linear programmes.

    Returns
    -------
    z, weight, cell : ndarray of shape (n,)
    used : ndarray of bool
        Which of all rows they are.
    coef : CellCoefficients
    gamma : ndarray
    """
    z, cell = np.concatenate(scores), np.concatenate([part.cell for part in tied.sources])
    weight = np.concatenate([part.weights for part in tied.sources])
    used = weight > 0.0  # a row without weight is as good as absent
    if not used.all():
        z, cell, weight = z[used], cell[used], weight[used]
    # The scaled coefficients and bounds, and a constraint more for each denominator: it is not zero, which is a
    # billionth of its largest value. What is undefined misses by 1, and so is the nearest one last.
    least, miss = 1e-9, 1.0
    smallest = min(
        (float(w[w > 0.0].min(initial=np.inf)) for part in tied.sources if (w := part.weight) is not None), default=1.0
    )
    coef, k = tied.coefficients, len(tied.cell_weight)
    gamma = (tied.bound - margins) / tied.scale
    cells = [np.repeat(np.arange(k), np.diff(coef.indptr))]
    columns: list[npt.NDArray[Any]] = [coef.column]
    values = [coef.value / tied.scale[coef.column]]
    more: list[float] = []
    for below in dict.fromkeys(item.cleared.denominator for item in tied.constraints):
        if below is None:
            continue
        alpha, beta = tied.table.weighted(below)
        constant = below.constant
        largest = constant + float(np.maximum(alpha, beta) @ tied.cell_weight)
        if for_lp:  # of mixtures: on average half a row; less would drown in the tolerances of the programme
            steps = np.concatenate([alpha, beta])
            least = 0.5 * min(smallest, 1.0) * float(steps[steps > 0.0].min(initial=largest)) / largest
            miss = min(1.0, 1e3 * least)  # coefficients of 1000 at most
        unit = -miss / (least * max(largest, np.finfo(float).tiny))
        for part in (unit * alpha, -unit * beta):
            nonzero = np.flatnonzero(part)
            cells.append(nonzero)
            columns.append(np.full(len(nonzero), len(gamma) + len(more)))
            values.append(part[nonzero])
        # a signed coefficient counts what turns: the constraint is larger by all that could
        more.append(-miss - unit * (constant + float((alpha + beta) @ tied.cell_weight)))
    if not more:
        return z, weight, cell, used, coef._replace(value=values[0]), gamma
    row = np.concatenate(cells)
    order = np.argsort(row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=k))]).astype(np.int64)
    coef = coef._replace(indptr=indptr, column=np.concatenate(columns)[order], value=np.concatenate(values)[order])
    return z, weight, cell, used, coef, np.append(gamma, more)


def between(z: Floats, count: int, natural: float) -> float:
    """A threshold that calls exactly the `count` largest scores positive, in spite of rounding."""
    n = len(z)
    if n == 0:
        return np.inf  # nothing is known of such rows, so none of them is called positive
    ordered = np.partition(z, sorted({max(n - count - 1, 0), min(n - count, n - 1)}))
    if count == 0:
        top = float(ordered[-1])
        return natural if top <= natural else top + 0.5
    if count == n:
        least = float(ordered[0])
        return natural if least > natural else float(min(least - 0.5, np.nextafter(least, -np.inf)))
    low, high = float(ordered[n - count - 1]), float(ordered[n - count])
    if low <= natural < high:
        return natural
    middle = low + 0.5 * (high - low)
    return middle if low <= middle < high else low


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
        return np.asarray(np.take_along_axis(self.thresholds, place[:, None], axis=1)[:, 0])

    def shares(self, scores: Floats, group: Ints) -> Floats:
        """Probability of the positive class for each row, shape (n,)."""
        above = scores[:, None] > self.thresholds[group]
        return np.asarray(np.minimum((above * self.probability[group]).sum(axis=1), 1.0))

    def with_constants(self, scores: Floats, group: Ints) -> "Rule":
        """The same rule on rows with these scores; a threshold above or below all those of a group becomes infinite.

        A rule that says the same of all rows that it was chosen on is then one that says the same of every row, of
        which more is known.
        """
        thresholds = self.thresholds.copy()
        for g in range(len(thresholds)):
            own = scores[group == g]
            if not len(own):
                continue
            thresholds[g, thresholds[g] >= own.max()] = np.inf
            thresholds[g, thresholds[g] < own.min()] = -np.inf
        return replace(self, thresholds=thresholds)

    def constant_decisions(self) -> list[int | None]:
        """For each group 0 where every row is called positive, 1 where none is, else None."""
        used = np.where(self.probability > 0.0, self.thresholds, np.nan)
        low, high = np.nanmin(used, axis=1), np.nanmax(used, axis=1)
        return [0 if most == -np.inf else 1 if least == np.inf else None for least, most in zip(low, high, strict=True)]


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
    z, weight, cell, used, coef, gamma = sweep_problem(tied, scores, margins, for_lp=True)
    number = np.concatenate(list(group))[used]
    candidates = Candidates(z, weight, cell, number, n_groups, coef, gamma, tied.cell_weight)
    best = best_mixture(candidates) if randomize else best_per_group(candidates)
    probability = best.probability if isinstance(best, Mixture) else np.ones(n_groups)
    met, proved = best.violation == 0.0, isinstance(best, Mixture) or best.proved
    gap = max(best.objective - best.lower, 0.0) if met else np.nan
    # numbers of candidates as thresholds between scores
    owner = candidates.group[best.numbers]
    width = int(np.bincount(owner, minlength=n_groups).max())
    thresholds, shares = np.zeros((n_groups, width)), np.zeros((n_groups, width))
    for g in range(n_groups):
        mine, own = np.flatnonzero(owner == g), candidates.scores_of(g)
        values = np.array([between(own, int(candidates.count[k]), natural) for k in best.numbers[mine]])
        order = np.argsort(values)
        thresholds[g, : len(mine)] = values[order]
        thresholds[g, len(mine) :] = values[order][-1]
        shares[g, : len(mine)] = probability[mine][order]
    return Rule(thresholds, shares, met, gap, proved)


@dataclass(frozen=True)
class JudgedRule:
    """The best rule for some scores, under bounds that may be tightened.

    Attributes
    ----------
    rule : Rule
    objective : float
        Of the goal, up to a constant of the data.
    violation : float
        Sum of the scaled excesses.
    """

    rule: Rule
    objective: float
    violation: float

    @property
    def rank(self) -> tuple[float, float]:
        """Less violation first, then a lower objective; excesses of rounding count as none."""
        return (0.0 if self.rule.met else self.violation, self.objective)


def judged_rule(
    tied: TiedGoal, scores: Sequence[Floats], group: Sequence[Ints], n_groups: int, margins: Floats, *, randomize: bool
) -> JudgedRule:
    """The best rule for scores that change their mind at 0, and what it reaches; parameters as of `best_rule`."""
    rule = best_rule(tied, scores, group, n_groups, natural=0.0, margins=margins, randomize=randomize)
    mass = tied.positive_mass([rule.shares(z, numbers) for z, numbers in zip(scores, group, strict=True)])
    objective, values = tied.coefficients.totals(mass, tied.cell_weight - mass, tied.n_constraints)
    excess = np.maximum((values - tied.bound + margins) / tied.scale, 0.0)
    return JudgedRule(rule, objective, float(excess.sum()))


def constant_rule(threshold: float, n_groups: int) -> Rule:
    """The rule that calls every row positive (threshold -infinity), or none (infinity)."""
    return Rule(np.full((n_groups, 1), threshold), np.ones((n_groups, 1)), True, np.nan, True)
