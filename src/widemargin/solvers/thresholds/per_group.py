"""One threshold for each group, exactly: the mixture's bound leaves few candidates, and these are searched.

The multipliers v of the best mixture price every candidate. Let r_c >= 0 be the price of candidate c above the cheapest
of its group and L the mixture's lower bound. By weak duality any thresholds that meet the constraints have an objective
of at least `L + sum of their r_c`. So once thresholds of objective U are known, every candidate with `r_c > U - L` can
be left out, and a search among the few others is exact ("reduced cost fixing"): of two groups all pairs are tried, in
the order of their prices, for more HiGHS solves the mixed-integer programme. The search starts with the candidates of
smallest r_c and widens until they are enough.
"""

from dataclasses import dataclass

import highspy
import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints
from widemargin.solvers.highs import quiet_highs
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.mixture import Mixture, best_mixture
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE


@dataclass(frozen=True)
class GroupSearchOptions:
    """The search among candidates.

    Attributes
    ----------
    first : int
        Candidates of each group to begin with. Fewer have to be widened more often, more make the first search longer.
    widen : float
        By so much the candidates are widened where they hold no thresholds that meet the constraints.
    repairs : int
        Searches with bounds tightened by what a solution of HiGHS missed beyond its tolerance.
    most_paired, most_mixed : int
        Most candidates: of two groups, of which all pairs are tried (a second), and of more.
    most_nodes : int
        Of the branch and bound for more than two groups: a guard, so that no search runs without end.
    """

    first: int = 60
    widen: float = 4.0
    repairs: int = 3
    most_paired: int = 30_000
    most_mixed: int = 2_000
    most_nodes: int = 5_000


OPTIONS = GroupSearchOptions()
"""Those of every fit."""


@dataclass(frozen=True)
class GroupThresholds:
    """The best thresholds found.

    Attributes
    ----------
    numbers : ndarray of int64, shape (n_groups,)
        One candidate a group.
    objective : float
    violation : float
        Sum of the excesses of the constraints; 0 where all are met.
    lower : float
        Lower bound of the objective of any thresholds that meet the constraints; inf where there are none.
    proved : bool
        Where the constraints are met: that `objective` is the lowest (to 1e-9 of its spread). Where they are not: that
        no thresholds meet them.
    n_candidates : int
        Candidates that were searched.
    """

    numbers: Ints
    objective: float
    violation: float
    lower: float
    proved: bool
    n_candidates: int


def best_per_group(candidates: Candidates, *, max_candidates: int | None = None) -> GroupThresholds:
    """The thresholds of lowest objective that meet all constraints.

    Parameters
    ----------
    candidates : Candidates
    max_candidates : int, default=None
        Candidates that are searched at most; None: 30,000 of two groups (a second), 2,000 of more. Where this or
        another limit is hit, the best thresholds found are returned, with `lower` as certificate.

    Returns
    -------
    GroupThresholds
        Where no thresholds meet the constraints, those of small violation that a local search finds.
    """
    if max_candidates is None:
        max_candidates = OPTIONS.most_paired if candidates.n_groups == 2 else OPTIONS.most_mixed
    mixture = best_mixture(candidates)
    if mixture.violation > 0.0:
        return _nearest(candidates, mixture, proved=True)
    spread = float(np.abs(candidates.prices(1.0, np.zeros(candidates.n_constraints))).max(initial=0.0)) or 1.0
    # Price of every candidate above the cheapest of its group.
    prices = candidates.prices(1.0, mixture.multipliers)
    above = prices - np.minimum.reduceat(prices, candidates.first[:-1])[candidates.group]
    ranked = np.sort(above)
    widest = min(len(above), max_candidates) - 1
    width = float(ranked[min(OPTIONS.first * candidates.n_groups, widest)])
    # candidates are let in by their price above the cheapest; weak duality says when those outside cannot matter
    while True:
        width = min(width, float(ranked[widest]))
        allowed = np.flatnonzero(above <= width)
        if len(allowed) > max_candidates:  # ties
            allowed = np.sort(np.argsort(above, kind="stable")[:max_candidates])
        if candidates.n_groups == 2:
            chosen, bound = _pairs(candidates, allowed, above, mixture.lower)
        else:
            chosen, bound = _search(candidates, allowed, spread)
        everything = len(allowed) == len(above)
        outside = np.inf if everything else mixture.lower + width  # of thresholds with a candidate left out
        if chosen is not None:
            objective = candidates.totals(chosen)[0]
            lower = max(mixture.lower, min(bound, outside))
            if objective - lower <= 1e-9 * spread or width >= ranked[widest]:
                proved = objective - lower <= 1e-9 * spread
                return GroupThresholds(chosen, objective, 0.0, min(lower, objective), proved, len(allowed))
            # thresholds of this objective are known, so dearer candidates than these are ruled out for good
            wanted = (objective - mixture.lower) * (1.0 + 1e-9) + 1e-12 * spread
            if wanted <= width:  # the search itself was cut short
                return GroupThresholds(chosen, objective, 0.0, lower, False, len(allowed))
            width = wanted
        elif everything or width >= ranked[widest]:
            return _nearest(candidates, mixture, proved=everything and bound == np.inf)
        else:
            width = max(OPTIONS.widen * width, float(ranked[min(int(OPTIONS.widen) * len(allowed), widest)]))


def _pairs(candidates: Candidates, allowed: Ints, above: Floats, lower: float) -> tuple[Ints | None, float]:
    """As `_search`, for two groups."""
    gain, change = candidates.columns(allowed)
    price, owner = above[allowed], candidates.group[allowed]
    # Cheapest first: once a pair costs more than the best one, so do all that come after it.
    by_price = np.argsort(price, kind="stable")
    left, right = (by_price[owner[by_price] == g] for g in (0, 1))
    best = np.array([0.0, 0.0, np.inf, np.inf, lower - candidates.objective])
    if not best_pair(gain, change, price, left, right, candidates.excess, FEASIBLE, best):
        return None, np.inf
    chosen = allowed[[left[int(best[0])], right[int(best[1])]]]
    return chosen, candidates.totals(chosen)[0]


def _search(candidates: Candidates, allowed: Ints, spread: float) -> tuple[Ints | None, float]:
    """The best choice among some candidates, or None; and a lower bound (inf: proved that there is none)."""
    gain, change = candidates.columns(allowed)
    room = -candidates.excess
    for _ in range(OPTIONS.repairs):
        picked, bound = _mixed_integer(candidates, allowed, gain / spread, change, room)
        if picked is None:
            return None, bound
        excess = candidates.totals(picked)[1]
        if excess.max(initial=0.0) <= FEASIBLE:
            return picked, candidates.objective + spread * bound
        room = np.where(excess > FEASIBLE, room - 2.0 * excess, room)  # beyond the tolerance of HiGHS
    return None, -np.inf


def _mixed_integer(
    candidates: Candidates, allowed: Ints, cost: Floats, change: Floats, room: Floats
) -> tuple[Ints | None, float]:
    m, groups = candidates.n_constraints, candidates.n_groups
    # One whole number, 0 or 1, for each candidate; the constraints, and one candidate in every group.
    model = quiet_highs(mip_rel_gap=0.0, mip_abs_gap=1e-10, mip_max_nodes=OPTIONS.most_nodes)
    for j in range(m):
        model.addRow(-np.inf, float(room[j]), 0, [], [])
    for _ in range(groups):
        model.addRow(1.0, 1.0, 0, [], [])
    rows = np.arange(m + 1, dtype=np.int32)
    for place, number in enumerate(allowed):
        rows[m] = m + candidates.group[number]
        model.addCol(float(cost[place]), 0.0, 1.0, m + 1, rows, np.append(change[place], 1.0))
    model.changeColsIntegrality(
        len(allowed), np.arange(len(allowed), dtype=np.int32), np.full(len(allowed), highspy.HighsVarType.kInteger)
    )
    model.run()
    if model.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None, np.inf
    info = model.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None, -np.inf
    x = np.asarray(model.getSolution().col_value)
    sides = (np.flatnonzero(candidates.group[allowed] == g) for g in range(groups))
    picked = [allowed[part[np.argmax(x[part])]] for part in sides]
    return np.array(picked, np.int64), float(info.mip_dual_bound)


def _nearest(candidates: Candidates, mixture: Mixture, *, proved: bool) -> GroupThresholds:
    """Thresholds of small violation: the likeliest of the mixture, improved one group at a time."""
    owner = candidates.group[mixture.numbers]
    # The mixture violates as little as can be, so what it would draw most often is a good place to begin.
    likeliest = np.argsort(-mixture.probability, kind="stable")
    start = mixture.numbers[likeliest[np.unique(owner[likeliest], return_index=True)[1]]]
    numbers = candidates.improve(start)
    objective, excess = candidates.totals(numbers)
    violation = float(excess[excess > FEASIBLE].sum())
    lower = np.inf if proved else mixture.lower
    return GroupThresholds(numbers, objective, violation, lower, proved, 0)


@kernel
def best_pair(
    gain: Floats, change: Floats, above: Floats, left: Ints, right: Ints, excess: Floats, feasible_tol: float,
    best: Floats,
) -> bool:  # fmt: skip
    """Of all pairs of a candidate of `left` and one of `right` that meet the constraints, the one of lowest objective.

    `gain[c]`, `change[c]` are what candidate c adds to objective and constraints, `excess` the constraints without any.
    `above[c]` is its price above the cheapest of its group; both lists are in order of rising price. `best` holds the
    places of the best pair in the lists, its price and its gain; its price bounds that of better ones from above, so
    start `best[2]` at inf. Returns whether a pair was found.
    """
    m = excess.shape[0]
    any_pair = False
    for i in range(left.shape[0]):
        a = left[i]
        if above[a] > best[2]:  # both lists rise in price, so nothing better comes after this
            break
        for k in range(right.shape[0]):
            b = right[k]
            if above[a] + above[b] > best[2]:
                break
            # the constraints are looked at only for pairs that would be better
            if any_pair and gain[a] + gain[b] >= best[3]:
                continue
            good = True
            for j in range(m):
                if excess[j] + change[a, j] + change[b, j] > feasible_tol:
                    good = False
                    break
            if good:
                any_pair = True
                best[0], best[1], best[3] = i, k, gain[a] + gain[b]
                best[2] = best[3] - best[4]  # no pair of a higher price has a lower objective
    return any_pair
