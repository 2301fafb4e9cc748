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

from widemargin._typing import Floats, Ints
from widemargin.solvers.thresholds import pairs_loops as loops
from widemargin.solvers.thresholds.bias_sweep import FEASIBLE
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.mixture import Mixture, best_mixture, quiet_highs

__all__ = ["GroupThresholds", "best_per_group"]

_FIRST = 60
_WIDEN = 4.0
_REPAIRS = 3
_MOST_PAIRED, _MOST_MIXED = 30_000, 2_000
"""Candidates that are searched at most: of two groups, and of more."""


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


def best_per_group(
    candidates: Candidates, *, max_candidates: int | None = None, max_nodes: int = 5_000
) -> GroupThresholds:
    """The thresholds of lowest objective that meet all constraints.

    Parameters
    ----------
    candidates : Candidates
    max_candidates : int, default=None
        Candidates that are searched at most; None: 30,000 of two groups (a second), 2,000 of more.
    max_nodes : int, default=5000
        Of the branch and bound for more than two groups. Where a limit is hit, the best thresholds found are returned,
        with `lower` as certificate.

    Returns
    -------
    GroupThresholds
        Where no thresholds meet the constraints, those of small violation that a local search finds.
    """
    if max_candidates is None:
        max_candidates = _MOST_PAIRED if candidates.n_groups == 2 else _MOST_MIXED
    mixture = best_mixture(candidates)
    if mixture.violation > 0.0:
        return _nearest(candidates, mixture, proved=True)
    spread = float(np.abs(candidates.prices(1.0, np.zeros(candidates.n_constraints))).max(initial=0.0)) or 1.0
    above = _above(candidates, mixture.multipliers)
    ranked = np.sort(above)
    widest = min(len(above), max_candidates) - 1
    width = float(ranked[min(_FIRST * candidates.n_groups, widest)])
    while True:
        width = min(width, float(ranked[widest]))
        kept = np.flatnonzero(above <= width)
        if len(kept) > max_candidates:  # ties
            kept = np.sort(np.argsort(above, kind="stable")[:max_candidates])
        if candidates.n_groups == 2:
            chosen, bound = _pairs(candidates, kept, above, mixture.lower)
        else:
            chosen, bound = _search(candidates, kept, spread, max_nodes)
        everything = len(kept) == len(above)
        outside = np.inf if everything else mixture.lower + width  # of thresholds with a candidate left out
        if chosen is not None:
            objective = candidates.totals(chosen)[0]
            lower = max(mixture.lower, min(bound, outside))
            if objective - lower <= 1e-9 * spread or width >= ranked[widest]:
                proved = objective - lower <= 1e-9 * spread
                return GroupThresholds(chosen, objective, 0.0, min(lower, objective), proved, len(kept))
            wanted = (objective - mixture.lower) * (1.0 + 1e-9) + 1e-12 * spread
            if wanted <= width:  # the search itself was cut short
                return GroupThresholds(chosen, objective, 0.0, lower, False, len(kept))
            width = wanted
        elif everything or width >= ranked[widest]:
            return _nearest(candidates, mixture, proved=everything and bound == np.inf)
        else:
            width = max(_WIDEN * width, float(ranked[min(int(_WIDEN) * len(kept), widest)]))


def _above(candidates: Candidates, multipliers: Floats) -> Floats:
    """Price of every candidate above the cheapest of its group."""
    prices = candidates.prices(1.0, multipliers)
    least: Floats = np.minimum.reduceat(prices, candidates.first[:-1])
    above: Floats = prices - least[candidates.group]
    return above


def _pairs(candidates: Candidates, kept: Ints, above: Floats, lower: float) -> tuple[Ints | None, float]:
    """As `_search`, for two groups."""
    gain, change = candidates.columns(kept)
    price, owner = above[kept], candidates.group[kept]
    left, right = (
        part[np.argsort(price[part], kind="stable")] for part in (np.flatnonzero(owner == g) for g in (0, 1))
    )
    found = np.array([0.0, 0.0, np.inf, np.inf, lower - candidates.objective])
    if not loops.best_pair(gain, change, price, left, right, candidates.excess, FEASIBLE, found):
        return None, np.inf
    chosen = kept[[left[int(found[0])], right[int(found[1])]]]
    return chosen, candidates.totals(chosen)[0]


def _search(candidates: Candidates, kept: Ints, spread: float, max_nodes: int) -> tuple[Ints | None, float]:
    """The best choice among some candidates, or None; and a lower bound (inf: proved that there is none)."""
    gain, change = candidates.columns(kept)
    room = -candidates.excess
    for _ in range(_REPAIRS):
        picked, bound = _mixed_integer(candidates, kept, gain / spread, change, room, max_nodes)
        if picked is None:
            return None, bound
        excess = candidates.totals(picked)[1]
        if excess.max(initial=0.0) <= FEASIBLE:
            return picked, candidates.objective + spread * bound
        room = np.where(excess > FEASIBLE, room - 2.0 * excess, room)  # beyond the tolerance of HiGHS
    return None, -np.inf


def _mixed_integer(
    candidates: Candidates, kept: Ints, cost: Floats, change: Floats, room: Floats, max_nodes: int
) -> tuple[Ints | None, float]:
    m, groups = candidates.n_constraints, candidates.n_groups
    model = quiet_highs()
    model.setOptionValue("mip_feasibility_tolerance", 1e-10)
    model.setOptionValue("mip_rel_gap", 0.0)
    model.setOptionValue("mip_abs_gap", 1e-10)
    model.setOptionValue("mip_max_nodes", max_nodes)
    for j in range(m):
        model.addRow(-highspy.kHighsInf, float(room[j]), 0, [], [])
    for _ in range(groups):
        model.addRow(1.0, 1.0, 0, [], [])
    rows = np.arange(m + 1, dtype=np.int32)
    for place, number in enumerate(kept):
        rows[m] = m + candidates.group[number]
        model.addCol(float(cost[place]), 0.0, 1.0, m + 1, rows, np.append(change[place], 1.0))
    model.changeColsIntegrality(
        len(kept), np.arange(len(kept), dtype=np.int32), np.full(len(kept), highspy.HighsVarType.kInteger)
    )
    model.run()
    if model.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None, np.inf
    info = model.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None, -np.inf
    x = np.asarray(model.getSolution().col_value)
    sides = (np.flatnonzero(candidates.group[kept] == g) for g in range(groups))
    picked = [kept[part[np.argmax(x[part])]] for part in sides]
    return np.array(picked, np.int64), float(info.mip_dual_bound)


def _nearest(candidates: Candidates, mixture: Mixture, *, proved: bool) -> GroupThresholds:
    """Thresholds of small violation: the likeliest of the mixture, improved one group at a time."""
    owner = candidates.group[mixture.numbers]
    start = [
        mixture.numbers[part[np.argmax(mixture.probability[part])]]
        for part in (np.flatnonzero(owner == g) for g in range(candidates.n_groups))
    ]
    numbers = candidates.improve(np.array(start, np.int64))
    objective, excess = candidates.totals(numbers)
    violation = float(excess[excess > FEASIBLE].sum())
    lower = np.inf if proved else mixture.lower
    return GroupThresholds(numbers, objective, violation, lower, proved, 0)
