"""Thresholds of populations by rank: a proof that needs no luck, where constraints are about shares of populations.

A fixed threshold calls a share of a population positive that the rows for the proof can only estimate. For a narrow
difference of groups (within .05, say) the estimate is seldom clear enough, though the best thresholds would do. A
threshold that leaves k of the m rows for the proof above itself is another matter: the share that it calls positive in
distribution lies between two order statistics of uniform numbers, of Beta distributions whatever the scores are (Wilks
1941). Ranks that other rows have chosen therefore break a constraint with a chance that is known before the scores of
the rows for the proof are looked at. Where it is at most `1 - confidence` there is nothing left to test.

**Near the ends.** Shares near 0 or 1 vary less, and those of two populations differ less there. Where the best
thresholds of any tightened bounds are too uncertain, the shares of all populations are moved in proportion towards none
or towards all, as far as it takes: a narrow difference is then proved at a price, where tests would have to call no row
positive.

**Other constraints.** Constraints of one label are proved by ranks (false positive rates, say). Where all others are
about rows of the other label (recalls), they are tested on these: rows are independent draws, and these had no part in
the thresholds. Ranks and tests then share the risk.

**Ties.** Rows of one score cannot be parted. A rank is therefore a window, as wide as ties ask for among the rows that
choose it; the threshold goes between two scores whose rank lies in the window, and its share is bounded by the ends.
Few scores leave wide windows, and a test may then do more.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaincc, betaincinv

from widemargin._typing import Floats
from widemargin.estimators.thresholds.class_offsets import OffsetRule
from widemargin.estimators.thresholds.guarantee import Found, Judged, errors_passed
from widemargin.estimators.thresholds.rule import Rule, fixed_rule
from widemargin.estimators.thresholds.scored_rows import ScoredRows
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.linear import When
from widemargin.goals.language.populations import Population
from widemargin.goals.measuring.exact_tests import Evidence, evidence, linear_shares, standard_errors

_CELLS = 500
"""Of the second of two shares, when the chance of a sum is bounded: the bound is too large by one of them at most."""


class _Window(NamedTuple):
    """Ranks that a threshold may have among the m rows of its population: `low <= rank <= high`.

    `rank` is the one that is wanted; 0 and m stand for the thresholds that call no row positive, or every one.
    """

    low: int
    rank: int
    high: int
    m: int

    def share(self, *, highest: bool) -> tuple[float, float] | float:
        """The Beta distribution that bounds the share from above or below, or the bound itself where it is certain."""
        if self.rank in (0, self.m):
            return float(self.rank > 0)
        # At most as much as the row after the last one lets through, at least as much as the first row does.
        if highest:
            return 1.0 if self.high >= self.m else (self.high + 1.0, float(self.m - self.high))
        return 0.0 if self.low <= 0 else (float(self.low), self.m - self.low + 1.0)


class Ranks(NamedTuple):
    """Ranks for every population, and the chance that they break the goal.

    Attributes
    ----------
    label : int
        Whose rows are counted: 1 or -1, those of that label; 0, all of a population.
    risk : float
        Upper limit of the chance, over draws of the rows for the proof.
    tested : tuple of int
        Constraints about rows of the other label, which ranks say nothing of.
    """

    windows: list[_Window]
    label: int
    risk: float
    tested: tuple[int, ...]

    def rule(self, rows: ScoredRows) -> Rule | None:
        """The thresholds on the rows for the proof; None where ties leave no place for one."""
        thresholds = [_placed(z, window) for z, window in zip(_counted(rows, self.label), self.windows, strict=True)]
        return None if None in thresholds else fixed_rule([each for each in thresholds if each is not None])

    def judged(self, rule: Rule | OffsetRule, proving: TiedGoal, positive_mass: Floats) -> Judged[Rule | OffsetRule]:
        """The thresholds with what is known of them."""
        rows = min(window.m for window in self.windows)
        known = [Evidence(self.risk, "ranks of scores", rows)] * proving.n_constraints
        # The thresholds depend on the scores of one label alone, so to rows of the other they are fixed beforehand.
        tests = evidence(proving, positive_mass) if self.tested else known
        known = [tests[j] if j in self.tested else each for j, each in enumerate(known)]
        return Judged(rule, proving.measure(positive_mass), known)


_Constraint = tuple[list[tuple[float, int]], float]


def chosen_ranks(
    ordering: ScoredRows,
    alike: ScoredRows,
    proving: ScoredRows,
    groups: Sequence[Population],
    delta: float,
    search: Callable[[Floats], Found[Rule | OffsetRule]],
) -> Ranks | None:
    """The ranks of best objective that break the goal with a chance of at most delta; None where there are none.

    Where other constraints are left to tests the ranks may risk half of delta; and None where tests of all constraints
    are likely to succeed.

    Parameters
    ----------
    ordering : ScoredRows
        The rows that choose, with scores like those of new rows.
    alike : ScoredRows
        The same rows with scores by the fitted scorer itself, which say how many rows share a score.
    proving : ScoredRows
        The rows for the proof: only their numbers by population and label are looked at.
    search : callable
        The best thresholds on `ordering`, with bounds tightened by given margins.
    """
    stated = _stated(ordering.tied, groups)
    if stated is None:
        return None
    constraints, label, tested = stated
    level = delta / 2.0 if tested else delta
    numbers, scores, shared = (_counted(rows, label) for rows in (proving, ordering, alike))
    if not all(len(z) for z in (*numbers, *scores)):
        return None

    def ranks_of(shares: Floats) -> Ranks:
        """The ranks that leave such shares of the populations above themselves, and what they risk."""
        windows = [_window(share, same, len(m)) for share, same, m in zip(shares, shared, numbers, strict=True)]
        risk = sum(_chance(terms, bound, windows) for terms, bound in constraints)
        return Ranks(windows, label, risk, tested)

    def mass_of(shares: Floats) -> Floats:
        """What thresholds decide that leave such shares of the rows that choose above themselves."""
        return ordering.positive_mass(fixed_rule([_threshold(*each) for each in zip(scores, shares, strict=True)]))

    def enough(shares: Floats) -> bool:
        """Whether the ranks are sure, and tests of the other constraints will most likely succeed."""
        return ranks_of(shares).risk <= level and (
            not tested or bool(errors_passed(ordering.tied, mass_of(shares), proving.tied)[list(tested)].min() >= clear)
        )

    # What passes all bounds by so many standard errors will pass tests, too.
    clear = 4.0
    plain = search(np.zeros(ordering.tied.n_constraints))
    mass = plain.positive_mass
    by_tests = search(clear * standard_errors(ordering.tied, mass, proving.tied))
    if tested and by_tests.met:
        return None
    best: Ranks | None = None
    least = math.inf
    if errors_passed(ordering.tied, by_tests.positive_mass, proving.tied).min() >= clear:
        least = ordering.tied.measure(by_tests.positive_mass).objective
    for size in (0.0, 0.8, 1.28, 1.64, 1.8, 1.96, 2.2, 2.6, 3.1):
        found = search(size * standard_errors(ordering.tied, mass, proving.tied)) if size else plain
        if not found.met or not isinstance(found.candidate, Rule):
            break
        mass, pairs = found.positive_mass, zip(found.candidate.medians, scores, strict=True)
        shares = np.array([np.count_nonzero(z > threshold) / len(z) for threshold, z in pairs])
        at_once = enough(shares)
        ends = (np.zeros(len(shares)), np.ones(len(shares)))
        for moved in [shares] if at_once else [_moved(shares, end, enough) for end in ends]:
            if moved is not None and (reached := ordering.tied.measure(mass_of(moved)).objective) <= least:
                best, least = ranks_of(moved), reached
        if at_once:  # larger margins only cost more
            break
    return best


def _moved(shares: Floats, end: Floats, enough: Callable[[Floats], bool]) -> Floats | None:
    """Shares moved towards others by about as little as is enough; None where almost all of the way is not."""
    low, high = 0.0, 0.95
    if not enough(shares + high * (end - shares)):
        return None
    for _ in range(5):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(shares + middle * (end - shares)) else (middle, high)
    return shares + high * (end - shares)


def _threshold(scores: Floats, share: float) -> float:
    """A threshold that about such a share of scores, largest first, lies above."""
    place = round(share * len(scores))
    return math.inf if place == 0 else -math.inf if place == len(scores) else float(scores[place])


def _stated(tied: TiedGoal, groups: Sequence[Population]) -> tuple[list[_Constraint], int, tuple[int, ...]] | None:
    """Constraints by shares of the groups, whose rows these count, and the numbers of all other constraints.

    None where there are none, or where another one is about rows that these count.
    """
    number = {group.rows: g for g, group in enumerate(groups)}
    by_label: dict[int, dict[int, _Constraint]] = {}
    about: list[set[int]] = []
    for j, item in enumerate(tied.constraints):
        stated = linear_shares(tied, item)
        if stated is None:
            return None
        of_groups, labels = [], set()
        for factor, rate in stated[0]:
            over = rate.definition.over or When()
            labels.add((over.label or 0) * tied.space.turned(rate)[0])
            if rate.population.rows in number and over.baseline is None:
                of_groups.append((factor, number[rate.population.rows]))
        about.append(set(labels))
        # Two shares of the same rows are not independent, and a threshold has one rank, among the rows of one label.
        if len({g for _, g in of_groups}) == len(stated[0]) <= 2 and len(labels) == 1:
            by_label.setdefault(labels.pop(), {})[j] = (of_groups, stated[1])
    for label, constraints in sorted(by_label.items(), key=lambda each: -len(each[1])):
        others = tuple(j for j in range(tied.n_constraints) if j not in constraints)
        if all(label != 0 and about[j] == {-label} for j in others):
            return list(constraints.values()), label, others
    return None


def _counted(rows: ScoredRows, label: int) -> list[Floats]:
    """Scores of the rows that ranks count, for each group, largest first."""
    own, space = rows.tied.sources[0], rows.tied.space
    signs = space.parts[own.key].label[own.cell - space.start[own.key]]
    kept = (signs == label) | (label == 0)
    return [np.sort(rows.scores[0][kept & (rows.group[0] == g)])[::-1] for g in range(rows.n_groups)]


def _window(share: float, shared: Floats, m: int) -> _Window:
    """The rank among m rows that leaves a share of them above itself, with room for ties.

    Parameters
    ----------
    shared : ndarray
        Scores that say how many rows share one, largest first.
    """
    if share in (0.0, 1.0):
        rank = round(share * m)
        return _Window(rank, rank, rank, m)
    rank = min(max(round(share * m), 1), m - 1)
    # The most rows around the place that share a score, and how many of the m rows will: about as many, and two
    # standard deviations more. A window of that width holds a place between two scores, wherever the tied rows lie.
    place, around = round(share * len(shared)), 10 + len(shared) // 100
    near = np.unique(shared[max(place - around, 0) : place + around])
    ascending = shared[::-1]
    ties = int((np.searchsorted(ascending, near, "right") - np.searchsorted(ascending, near)).max())
    many = 0.0 if ties == 1 else ties * m / len(shared)
    # At least one rank to either side, for two rows that happen to be alike.
    room = max(1, math.ceil(0.5 * many + math.sqrt(many)))
    return _Window(max(rank - room, 0), rank, min(rank + room, m), m)


def _placed(scores: Floats, window: _Window) -> float | None:
    """A threshold between two scores with a rank within the window, the nearest one; None where all are tied."""
    if window.rank in (0, window.m):
        return math.inf if window.rank == 0 else -math.inf
    ranks = np.arange(max(window.low, 1), min(window.high, window.m - 1) + 1)
    parted = ranks[scores[ranks - 1] > scores[ranks]]
    if not len(parted):
        return None
    rank = parted[np.argmin(np.abs(parted - window.rank))]
    above, below = float(scores[rank - 1]), float(scores[rank])
    middle = below + 0.5 * (above - below)
    return middle if below <= middle < above else below


def _chance(terms: Sequence[tuple[float, int]], bound: float, windows: Sequence[_Window]) -> float:
    """Upper limit of the chance that `sum of factor times share` exceeds the bound."""
    open_ones = []
    for factor, g in terms:
        share = windows[g].share(highest=factor > 0.0)
        if isinstance(share, float):
            bound -= factor * share
        else:
            open_ones.append((factor, *share))
    if not open_ones:
        return float(bound < -1e-12)
    first, *second = open_ones
    if not second:
        return float(_above(first, np.array([bound]))[0])
    # The other share goes through cells of equal chance; in each of them it is taken where it is worst.
    ((factor, a, b),) = second
    edges = betaincinv(a, b, np.linspace(0.0, 1.0, _CELLS + 1))
    worst = factor * (edges[1:] if factor > 0.0 else edges[:-1])
    return float(_above(first, bound - worst).mean())


def _above(share: tuple[float, float, float], bound: Floats) -> Floats:
    """Chance that `factor` times a Beta distributed share is above each bound."""
    factor, a, b = share
    limit = np.clip(bound / factor, 0.0, 1.0)
    return np.asarray(betaincc(a, b, limit) if factor > 0.0 else betainc(a, b, limit))
