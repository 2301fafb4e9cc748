"""One threshold for each group, exactly: boxes of thresholds, bounded by weak duality.

Comparisons of two groups' rates are links and have levels (`links.py`, `boxes.py`). Where there is nothing else but
rules of one group, the prices of the candidates are what they add to the objective. Every other constraint, such as a
recall of all rows, has a price v from the best mixture of thresholds: whatever thresholds meet the constraints have an
objective of at least the sum of `gain + v change` over their candidates, plus `v` times what is exceeded without them.
A search by that bound is exact, and where it is cut short the bound of the boxes that are left says by how much.
"""

from dataclasses import dataclass

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.solvers.thresholds.boxes import BoxSearch, Priced, range_minima
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.links import Parts, take_apart
from widemargin.solvers.thresholds.mixture import Mixture, best_mixture
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

MOST_RANGES = 2_000_000
"""Limit of a search, about two seconds: the number of its boxes times that of the groups."""

MOST_LOOKS = 3e8
"""Limit of the candidates read in a search with other constraints than links, about a second."""


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
    n_boxes : int
        Boxes that were looked at.
    """

    numbers: Ints
    objective: float
    violation: float
    lower: float
    proved: bool
    n_boxes: int


def best_per_group(candidates: Candidates, *, most_ranges: int = MOST_RANGES) -> GroupThresholds:
    """The thresholds of lowest objective that meet all constraints.

    Parameters
    ----------
    candidates : Candidates
    most_ranges : int, default=2,000,000
        Where the search would take more, the best thresholds found are returned, with `lower` as certificate.

    Returns
    -------
    GroupThresholds
        Where no thresholds meet the constraints, those of small violation that a local search finds.
    """
    parts = take_apart(candidates)
    gain = candidates.prices(1.0, np.zeros(candidates.n_constraints))
    mixture, lower, multipliers = None, -np.inf, np.zeros(candidates.n_constraints)
    if len(parts.rest):
        mixture = best_mixture(candidates)
        # Fixed thresholds are mixtures, too: where no mixture meets the constraints no thresholds do, and that is the
        # proof.
        if mixture.violation > 0.0:
            return _nearest(candidates, mixture, proved=True)
        lower, multipliers = mixture.lower, mixture.multipliers
    spread = float(np.abs(gain).max(initial=0.0)) or 1.0
    rounding = 1e-9 * spread
    # Where every row counts a whole multiple of the smallest step, such as one error each, no two objectives differ by
    # less: a box that promises less than a step is not worth a look.
    granule, most_boxes = max(candidates.granule - rounding, 0.1 * rounding), max(3, most_ranges // candidates.n_groups)
    search = BoxSearch(_priced(candidates, parts, gain, multipliers), granule)
    if parts.possible:
        search.run(multipliers[parts.rest], most_boxes, MOST_LOOKS)
    # Where the search was cut short, other thresholds are improved, one group at a time: the likeliest of the mixture,
    # and, as groups that are compared with all rows together have no levels, those that bring the groups as near to
    # each other, which are found by levels.
    if mixture is not None and search.bound < search.known:
        nearer, starts = take_apart(candidates, pairwise=True), [_likeliest(candidates, mixture)]
        if len(nearer.rest) < len(parts.rest):
            levels = BoxSearch(_priced(candidates, nearer, gain, multipliers), granule)
            levels.run(multipliers[nearer.rest], most_boxes, MOST_LOOKS)
            starts += [levels.best] if levels.known < np.inf else []
        starts += [search.best] if search.known < np.inf else []
        for numbers in map(candidates.improve, starts):
            total = float(gain[numbers].sum())
            if total < search.known and candidates.totals(numbers)[1].max() <= FEASIBLE:
                search.known, search.best, search.bound = total, numbers, min(search.bound, total)
    # Nothing that meets the constraints was found. Either the boxes are all closed, which proves that there is nothing,
    # or the looks were used up.
    if search.known == np.inf:
        return _nearest(candidates, mixture or best_mixture(candidates), proved=search.bound == np.inf)
    # `known` and `bound` leave out the same terms of the objective, so their difference is that of the objectives.
    objective = float(candidates.totals(search.best)[0])
    lower = max(lower, objective - (search.known - search.bound))
    return GroupThresholds(
        search.best, objective, 0.0, min(lower, objective), objective - lower <= rounding, search.n_boxes
    )


def _priced(candidates: Candidates, parts: Parts, gain: Floats, multipliers: Floats) -> Priced:
    """The candidates with prices for the constraints that are no links, and what the search by boxes needs of them."""
    # The duals of the mixture are the prices at which its bound is highest, and so the best ones to begin the boxes
    # with.
    price, paid = gain.copy(), multipliers[parts.rest]
    for toll, g, shift in zip(paid @ parts.share, parts.links.group, parts.links.shift, strict=True):
        numbers = np.arange(candidates.first[g], candidates.first[g + 1])
        price[numbers] += toll * parts.links.rate[shift + numbers]
    # A candidate that breaks a rule of its own group is never the cheapest one.
    price[~parts.allowed] = np.inf
    spread = float(np.abs(gain).max(initial=0.0)) or 1.0
    longest = int(np.diff(candidates.first).max())
    # A sparse table: the cheapest candidate of every range whose length is a power of two. Two of its entries give that
    # of any range, which every bound of a box needs once a group.
    cheapest = np.zeros((longest.bit_length(), len(price)), np.int64)
    range_minima(price, cheapest)
    return Priced(
        candidates.first, gain, price, cheapest, parts.links, parts.share,
        candidates.excess[parts.rest], 0.02 * spread, float(paid @ candidates.excess[parts.rest]),
    )  # fmt: skip


def _likeliest(candidates: Candidates, mixture: Mixture) -> Ints:
    """The thresholds that a mixture would draw most often: it violates as little as can be, or costs as little."""
    owner = candidates.group[mixture.numbers]
    order = np.argsort(-mixture.probability, kind="stable")
    return mixture.numbers[order[np.unique(owner[order], return_index=True)[1]]]


def _nearest(candidates: Candidates, mixture: Mixture, *, proved: bool) -> GroupThresholds:
    """Thresholds of small violation: the likeliest of the mixture, improved one group at a time."""
    numbers = candidates.improve(_likeliest(candidates, mixture))
    total, excess = candidates.totals(numbers)
    violation = float(excess[excess > FEASIBLE].sum())
    lower = np.inf if proved else mixture.lower
    return GroupThresholds(numbers, float(total), violation, lower, proved, 0)
