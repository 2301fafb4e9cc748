"""The best rule of a kind for a tied goal: one threshold or one for each group, fixed or drawn from a few.

One threshold is found by a sweep over all of them; the others by linear programmes and searches over candidates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from widemargin._typing import Bools, Cells, Floats, Ints
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.thresholds.threshold_sweep import SweptThreshold, best_threshold


def choose_threshold(tied: TiedGoal, scores: Sequence[Floats], natural: float, margins: Floats) -> SweptThreshold:
    """Try every threshold between two scores, and both ends.

    Parameters
    ----------
    scores : sequence of ndarray of shape (n_s,)
        For each source; larger means rather positive.
    natural : float
        The scorer's own threshold; of equally good ones the nearest to it is taken.
    margins : ndarray of shape (m,)
        Tighten the bounds by this much, see `tightened_goal`.

    Returns
    -------
    SweptThreshold
        A row is positive where its score is larger. Of the thresholds that meet all constraints, the one of lowest
        objective; else the one of smallest summed violation. A ratio with denominator zero meets nothing.
    """
    z, weight, cell, _ = used_rows(tied, scores)
    apart = told_apart(z, natural) - natural
    best = best_threshold(apart, weight, cell, *tightened_goal(tied, margins), tied.cell_weight)
    return replace(best, threshold=between(z, best.n_positive, natural))


def used_rows(tied: TiedGoal, scores: Sequence[Floats]) -> tuple[Floats, Floats, Cells, Bools]:
    """Scores, weights and cells of the rows of positive weight of all sources, and which of all rows they are."""
    z, cell = np.concatenate(scores), np.concatenate([part.cell for part in tied.sources])
    weight = np.concatenate([part.weights for part in tied.sources])
    used = weight > 0.0
    if not used.all():
        z, cell, weight = z[used], cell[used], weight[used]
    return z, weight, cell, used


def told_apart(z: Floats, natural: float, low: float = 0.01) -> Floats:
    """Scores, in their order, of which all that differ by more than rounding differ by more than a sweep asks for.

    A sweep puts no threshold between scores that are closer than 1e-12 of the largest. Probabilities near 0, such as
    those of naive Bayes models, are as exact as they are small: below `low` they are taken by their logarithms.
    """
    if abs(natural) != 0.5:  # not probabilities
        return z
    share = z / (2.0 * natural)
    logarithm = np.log(np.maximum(share, np.finfo(float).smallest_subnormal) / low)
    return np.asarray(2.0 * natural * np.where(share < low, low * (1.0 + logarithm), share))


def told_back(apart: Floats, natural: float, low: float = 0.01) -> Floats:
    """The scores that `told_apart` made these of."""
    if abs(natural) != 0.5:
        return apart
    share = apart / (2.0 * natural)
    return np.asarray(2.0 * natural * np.where(share < low, low * np.exp(np.minimum(share / low - 1.0, 0.0)), share))


def tightened_goal(tied: TiedGoal, margins: Floats, *, for_lp: bool = False) -> tuple[CellCoefficients, Floats]:
    """Scaled coefficients and bounds of the goal, with its bounds tightened by the margins.

    Behind the goal's own constraints there is one for each denominator of a ratio, so that none is met by being
    undefined.

    Parameters
    ----------
    margins : ndarray of shape (m,)
        In units of `tied.bound`, those of a ratio in its own: "at most a tenth of the decided rows are wrong" becomes
        "at most a twentieth". (Fewer errors than a tenth of the decided rows, by a number, would be a bound that
        deciding fewer rows soon cannot keep, though their errors are the rarest.) Those below zero loosen the bounds.
    for_lp : bool, default=False
        With coefficients of moderate size, for linear programmes.
    """
    # A denominator has to be at least this share of its largest value, and one that is zero misses its bound by 1, as
    # much as the worst rate: rules under which a ratio is undefined come last.
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

    def add(column: int, alpha: Floats, beta: Floats, factor: float) -> float:
        """Add `factor (alpha P + beta (W - P))` to a constraint; what its bound rises by.

        `CellCoefficients` holds none below zero: `-a P` becomes `a (W - P)`, which is larger by `a W`, and so is the
        bound.
        """
        for part in (factor * alpha, -factor * beta):
            nonzero = np.flatnonzero(part)
            cells.append(nonzero)
            columns.append(np.full(len(nonzero), column))
            values.append(part[nonzero])
        return 0.0 if factor >= 0.0 else -factor * float((alpha + beta) @ tied.cell_weight)

    for j in np.flatnonzero(margins).tolist():
        if (ratio := tied.constraints[j].cleared.ratio) is not None:
            share = margins[j] / tied.scale[j]
            risen = add(j, *tied.table.weighted(ratio.denominator), share)
            gamma[j] = tied.bound[j] / tied.scale[j] - share * ratio.denominator.constant + risen
    for below in dict.fromkeys(item.cleared.denominator for item in tied.constraints):
        if below is None:
            continue
        alpha, beta = tied.table.weighted(below)
        constant = below.constant
        largest = constant + float(np.maximum(alpha, beta) @ tied.cell_weight)
        if for_lp:
            # Half of the lightest row. A billionth would drown in the tolerances of the programme, and `miss` keeps the
            # coefficients of this constraint at 1000 or below.
            steps = np.concatenate([alpha, beta])
            least = 0.5 * min(smallest, 1.0) * float(steps[steps > 0.0].min(initial=largest)) / largest
            miss = min(1.0, 1e3 * least)
        unit = -miss / (least * max(largest, np.finfo(float).tiny))
        more.append(-miss - unit * constant + add(len(gamma) + len(more), alpha, beta, unit))
    if not more:
        return coef._replace(value=values[0]), gamma
    row = np.concatenate(cells)
    order = np.argsort(row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=k))]).astype(np.int64)
    coef = coef._replace(indptr=indptr, column=np.concatenate(columns)[order], value=np.concatenate(values)[order])
    return coef, np.append(gamma, more)


BY_HEART = 0.2
"""Models whose least cost is by this share lower on the rows that they learned from than on others know these rows."""


def least_cost(cost: Floats, scores: Floats) -> float:
    """What rows cost at the best threshold beside the best decisions, if calling one positive costs so much."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.diff(scores[order]) != 0.0, True)  # rows of equal scores are decided alike
    return float(min(np.cumsum(cost[order])[ends].min(), 0.0) - np.minimum(cost, 0.0).sum())


def by_heart(own: float, fresh: float, share: float = BY_HEART) -> bool:
    """Whether models know the rows that they learned from by heart, by the least costs of these and of other rows."""
    return own < (1.0 - share) * fresh


def between(z: Floats, count: int, natural: float) -> float:
    """A threshold that calls exactly the `count` largest scores positive, in spite of rounding."""
    n = len(z)
    if n == 0:
        return np.inf  # nothing is known of such rows, so none of them is called positive
    # Only the scores on both sides of the threshold have to be in their places, so a full sort would be waste.
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
    # Between two neighbouring floating-point numbers there is no middle; `score > low` separates them as well.
    middle = low + 0.5 * (high - low)
    return middle if low <= middle < high else low


def _share_in_gap(own: Floats, fresh: Floats, threshold: float) -> float | None:
    """Of other rows the share whose scores lie between the same two neighbours among the own ones as a threshold; None
    where it does not lie between two, or there are no other rows."""
    low, high = own[own <= threshold], own[own > threshold]
    if not len(low) or not len(high) or not len(fresh):
        return None
    return float(((fresh > low.max()) & (fresh < high.min())).mean())


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
        The objective exceeds the lowest one of any such rule by at most this; NaN where the constraints are not met.
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

    def carried(
        self,
        before: Sequence[tuple[Floats, Ints]],
        now: tuple[Floats, Ints],
        natural: float,
        *,
        unseen: Sequence[tuple[Floats, Ints]] = (),
        within: float = 0.01,
    ) -> "Rule | None":
        """The same rule for another model: it calls as large a share of the rows that this one was fitted to positive.

        None where no thresholds do: models of few scores, such as small trees, cannot call any share positive.

        Models of more rows are surer of themselves, and those of other rows have other scores, so that a threshold
        means something else to each. The share of the own rows above it means the same to all. Models that know their
        rows by heart, such as forests, leave a gap among the scores of these where other rows have theirs: there the
        share says nothing, and a threshold keeps its distance from the mean of the own scores, in their deviations.

        Parameters
        ----------
        before : sequence of (ndarray of shape (m,), ndarray of int64, shape (m,))
            For each model that the rule was chosen with its scores of the rows that it was fitted to, and their groups.
        now : (ndarray of shape (n,), ndarray of int64, shape (n,))
            The same of the model that the rule is for.
        natural : float
            The scorer's own threshold, which stays.
        unseen : sequence of (ndarray of shape (u,), ndarray of int64, shape (u,))
            Of the models of `before` also scores of rows that they were not fitted to, and their groups.
        within : float, default=0.01
            Shares that differ by no more than this are as large.
        """
        thresholds = self.thresholds.copy()
        for g, k in np.ndindex(*thresholds.shape):
            threshold, own = thresholds[g, k], np.sort(now[0][now[1] == g])
            above = [(z[numbers == g] > threshold).mean() for z, numbers in before if (numbers == g).any()]
            if threshold == natural or not np.isfinite(threshold) or not above or not len(own):
                continue
            in_gap = [
                share
                for (z, numbers), (fresh, fresh_numbers) in zip(before, unseen, strict=False)
                if (share := _share_in_gap(z[numbers == g], fresh[fresh_numbers == g], float(threshold))) is not None
            ]
            # By chance one of so many rows lies between two neighbours; ten times as many do so hardly ever.
            if in_gap and np.mean(in_gap) > max(within, 10.0 / (len(own) + 1)):
                distance = np.mean([(threshold - z.mean()) / z.std() for z, _ in before])
                thresholds[g, k] = now[0].mean() + distance * now[0].std()
                continue
            # Rows of equal scores are called alike, so only these numbers of rows can be above a threshold.
            counts = len(own) - np.append(0, np.flatnonzero(np.append(own[1:] != own[:-1], True)) + 1)
            nearest = int(counts[np.argmin(np.abs(counts - np.mean(above) * len(own)))])
            if abs(nearest / len(own) - np.mean(above)) > within:
                return None
            thresholds[g, k] = between(own, nearest, natural)
        return replace(self, thresholds=thresholds)

    def with_constants(self, scores: Floats, group: Ints) -> "Rule":
        """The same rule on rows with these scores; a threshold above or below all those of a group becomes infinite.

        A rule that decides alike for all rows that it was chosen on then decides alike for every row, so that
        constraints may hold for it by definition.
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


class MeetsOrNot(Protocol):
    """A rule that says whether it meets the constraints."""

    @property
    def met(self) -> bool: ...


AnyRule = TypeVar("AnyRule", bound=MeetsOrNot)


def least_loosened(tied: TiedGoal, search: Callable[[Floats], AnyRule]) -> AnyRule | None:
    """The rule that a search finds under bounds loosened alike, by as little as it takes, up to a half of a hundredth.

    The rule of smallest summed excess is none to keep where a ratio is bounded. `TP >= 0.9 (TP + FP)` is missed by less
    the fewer rows are called positive, and with one wrong row the precision is 0, where a half may be possible.

    Parameters
    ----------
    search : callable
        Finds a rule under bounds tightened by margins, see `tightened_goal`.

    Returns
    -------
    Rule or None
        None where no ratio is bounded.
    """
    if all(item.cleared.ratio is None for item in tied.constraints):
        return None
    by, alike = 1.0, np.ones(tied.n_constraints)
    while not (found := search(-by * alike)).met and by < 1e3:  # shares lie in [0, 1], their ratios need not
        by *= 2.0
    for step in by * 0.5 ** np.arange(1, 9):
        if (closer := search(-(by - step) * alike)).met:
            by, found = by - step, closer
    return found if found.met else None


@dataclass(frozen=True)
class JudgedRule(Generic[AnyRule]):
    """The best rule for some scores, under bounds that may be tightened.

    Attributes
    ----------
    objective : float
        Of the goal, up to a constant of the data.
    violation : float
        Sum of the scaled excesses.
    """

    rule: AnyRule
    objective: float
    violation: float

    @property
    def met(self) -> bool:
        """Whether the rule meets the constraints."""
        return self.rule.met

    @property
    def rank(self) -> tuple[float, float]:
        """Less violation first, then a lower objective; excesses of rounding count as none."""
        return (0.0 if self.met else self.violation, self.objective)


def fixed_rule(thresholds: npt.ArrayLike) -> Rule:
    """The rule of one threshold for each group; that of -infinity calls every row positive, that of infinity none."""
    column = np.array(thresholds, dtype=np.float64)[:, None]
    return Rule(column, np.ones(column.shape), True, np.nan, True)
