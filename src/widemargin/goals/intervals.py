"""Confidence intervals for the slack of each constraint (DESIGN, decision 7).

A single proportion of unweighted rows against a constant gets the exact interval of Clopper and Pearson (1934).
Everything else (differences, ratios, weights) gets a percentile bootstrap (expanded for small numbers), stratified by
the membership pattern of the populations that the constraint uses, so that every replicate has the same number of
rows in every population. It draws multinomial counts of the few kinds of rows that the constraint can tell apart,
never rows, so its cost does not grow with their number.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.stats

from widemargin.exceptions import DataError
from widemargin.goals.bound import BoundConstraint, BoundGoal
from widemargin.goals.cells import Packer
from widemargin.goals.linear import Linear, Rate, Ratio
from widemargin.goals.measure import RateTable, constraint_standing

__all__ = ["Interval", "clopper_pearson", "simultaneous_confidence", "slack_intervals"]

Floats = npt.NDArray[np.float64]

MAX_WEIGHTS = 1000
"""Distinct kinds of weighted rows that are kept apart; beyond, weights within 1% of each other are averaged."""

WEIGHT_STEP = 0.01
DRAWS_AT_ONCE = 4_000_000


@dataclasses.dataclass(frozen=True)
class Interval:
    """Two-sided confidence interval of a slack, in the constraint's units.

    Each end alone is a one-sided bound at confidence `(1 + confidence) / 2`.

    Attributes
    ----------
    lower, upper : float or None
        None: unbounded (replicates in which a denominator is zero count as the worst case of either end).
    confidence : float
    method : {"clopper-pearson", "bootstrap"}
    """

    lower: float | None
    upper: float | None
    confidence: float
    method: Literal["clopper-pearson", "bootstrap"]


def clopper_pearson(successes: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Exact two-sided interval of a proportion.

    Parameters
    ----------
    successes, trials : int
        0 <= successes <= trials, trials >= 1.
    confidence : float in (0, 1), default=0.95

    Returns
    -------
    lower, upper : float

    References
    ----------
    C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
    Biometrika 26, 1934.

    Examples
    --------
    >>> from widemargin.goals.intervals import clopper_pearson
    >>> [round(end, 4) for end in clopper_pearson(8, 10)]
    [0.4439, 0.9748]
    """
    tail = (1.0 - confidence) / 2.0
    lower = 0.0 if successes <= 0 else scipy.stats.beta.ppf(tail, successes, trials - successes + 1)
    upper = 1.0 if successes >= trials else scipy.stats.beta.ppf(1.0 - tail, successes + 1, trials - successes)
    return float(lower), float(upper)


def simultaneous_confidence(confidence: float, number: int) -> float:
    """Confidence with which `number` intervals hold together, by Bonferroni's inequality."""
    return max(0.0, 1.0 - number * (1.0 - confidence))


def slack_intervals(
    bound: BoundGoal,
    positive: Sequence[npt.NDArray[Any]],
    *,
    confidence: float = 0.95,
    n_replicates: int = 2000,
    random_state: int | np.random.RandomState | np.random.Generator | None = 0,
) -> tuple[Interval | None, ...]:
    """Confidence interval of the slack of each constraint, for 0/1 predictions.

    Parameters
    ----------
    bound : BoundGoal
    positive : sequence of ndarray of shape (n_s,)
        For each source, 1 or True where a row is predicted positive.
    confidence : float in (0, 1), default=0.95
    n_replicates : int, default=2000
        Of the bootstrap.
    random_state : int, RandomState, Generator or None, default=0
        Each constraint has its own stream, so its interval does not depend on the others.

    Returns
    -------
    tuple of Interval or None
        None where the ratio is undefined on these predictions.

    Raises
    ------
    DataError
        If a prediction is neither 0 nor 1, or the confidence is no share.
    """
    if not 0.0 < confidence < 1.0:
        raise DataError(f"confidence must lie between 0 and 1, got {confidence}.")
    signs = [np.asarray(array) for array in positive]
    for array in signs:
        if array.dtype != bool and not np.isin(array, (0, 1)).all():
            raise DataError("intervals need 0/1 predictions, not probabilities.")
    mass = bound.positive_mass(signs)
    measured = bound.measure(mass)
    seed = _seed(random_state)
    found: list[Interval | None] = []
    for j, item in enumerate(bound.constraints):
        if np.isnan(measured.slack[j]):
            found.append(None)
            continue
        ends = _proportion_ends(item, bound, mass, confidence)
        if ends is not None:
            found.append(Interval(*ends, confidence, "clopper-pearson"))
            continue
        rng = np.random.default_rng([seed, j])
        slack, size = _replicates(item, bound, signs, n_replicates, rng)
        found.append(_percentile(slack, float(measured.slack[j]), confidence, size))
    return tuple(found)


def _seed(random_state: int | np.random.RandomState | np.random.Generator | None) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(random_state)


def _proportion_ends(
    item: BoundConstraint, bound: BoundGoal, mass: Floats, confidence: float
) -> tuple[float, float] | None:
    """Clopper-Pearson ends of the slack, where one unweighted proportion is compared with a constant."""
    weights = dict(zip(bound.sources, bound.row_weight, strict=True))
    cleared, sign = item.cleared, 1.0 if item.cleared.sense == ">=" else -1.0
    if any(weights[rate.population.source] is not None for rate in cleared.form.rates):
        return None
    if cleared.ratio is not None and cleared.ratio_bound is not None:
        counts = _ratio_counts(cleared.ratio, bound, mass)
        if counts is None:
            return None
        factor, successes, trials = counts
        target = cleared.ratio_bound
    elif len(cleared.form.terms) == 1:
        coefficient, rate = cleared.form.terms[0]
        row = bound.table.place[_rate(rate)]
        trials = float(bound.table.total[row])
        value = bound.table.values(mass, bound.cell_weight)[row]
        units = trials if bound.table.is_count[row] else 1.0  # a count is its number of rows times a share
        successes, factor, target = float(value / units * trials), coefficient * units, cleared.bound
    else:
        return None
    ends = (sign * (factor * end - target) for end in clopper_pearson(round(successes), round(trials), confidence))
    low, high = sorted(ends)
    return low, high


def _rate(atom: Rate | Ratio) -> Rate:
    if isinstance(atom, Rate):
        return atom
    raise TypeError(f"{atom} is a ratio; clear it first.")


def _ratio_counts(ratio: Ratio, bound: BoundGoal, mass: Floats) -> tuple[float, float, float] | None:
    """Factor, successes and trials of a ratio that is a share of rows (precision, wins in changes), else None.

    It is one if both sides are counts without a constant, if the denominator counts each row once or not at all, and if
    every row of the numerator is one of the denominator.
    """
    forms: tuple[Linear, Linear] = (ratio.numerator, ratio.denominator)
    if any(form.constant != 0.0 for form in forms) or not all(
        rate.definition.is_count for form in forms for rate in form.rates
    ):
        return None
    above, below = (np.concatenate(bound.table.weighted(form)) for form in forms)
    unit, factor = float(below.max()), float(above.max())
    share, whole = above / (factor or 1.0), below / (unit or 1.0)
    if unit <= 0 or factor <= 0 or not (_zero_or_one(share) and _zero_or_one(whole) and bool((share <= whole).all())):
        return None
    weight = np.concatenate([mass, bound.cell_weight - mass])
    return factor / unit, float(share @ weight), float(whole @ weight)


def _zero_or_one(values: Floats) -> bool:
    return bool(((values == 0.0) | (values == 1.0)).all())


@dataclasses.dataclass(frozen=True, eq=False)
class _Kinds:
    """Kinds of rows that a constraint can tell apart: stratum, group of cells, prediction, weight, number of rows."""

    stratum: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    positive: npt.NDArray[np.bool_]
    weight: Floats
    count: Floats


def _replicates(
    item: BoundConstraint, bound: BoundGoal, positive: Sequence[npt.NDArray[Any]], number: int, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Slack of the constraint in each replicate (NaN where undefined), and the least effective number of rows."""
    constraint = item.constraint
    wanted = dict.fromkeys((*constraint.lhs.rates, *constraint.rhs.rates))
    table = bound.table.select([bound.table.place[rate] for rate in wanted])
    groups, first, strata = _groups(table, bound)
    small = _grouped(table, first)
    kinds = _kinds(bound, positive, groups, strata[first])
    slack = np.empty(number)
    step = max(1, DRAWS_AT_ONCE // max(1, len(kinds.count)))
    for start in range(0, number, step):
        stop = min(start + step, number)
        mass, weight = _draw(kinds, len(first), stop - start, rng)
        values = small.values(mass, weight)
        slack[start:stop] = constraint_standing(constraint.lhs, constraint.rhs, item.cleared, small, values).slack
    first_moment = np.bincount(kinds.group, kinds.count * kinds.weight, len(first))
    second_moment = np.bincount(kinds.group, kinds.count * kinds.weight**2, len(first))
    sizes = (small.over @ first_moment) ** 2 / (small.over @ second_moment)
    return slack, float(sizes.min())


def _groups(
    table: RateTable, bound: BoundGoal
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Group of each cell (-1: in no population here), one cell of each group, stratum of each cell."""
    space = bound.space
    patterns, packer = Packer(space.n_cells), Packer(space.n_cells)
    inside = np.zeros(space.n_cells, bool)
    for rows in dict.fromkeys(rate.population.rows for rate in table.rates):
        member = np.zeros(space.n_cells, bool)
        start, part = space.start[rows[0]], space.parts[rows[0]]
        member[start : start + part.n_cells] = part.member(rows)
        patterns.add(member, 1)
        packer.add(member, 1)
        inside |= member
    strata = patterns.finish()[0].astype(np.int64)
    for matrix in (table.alpha, table.beta, table.over):
        for row in range(len(table.rates)):
            member = np.zeros(space.n_cells, bool)
            member[matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]] = True
            packer.add(member, 1)
    codes = packer.finish()[0]
    _, first, groups = np.unique(np.where(inside, codes, -1), return_index=True, return_inverse=True)
    if not inside.all():
        first, groups = first[1:], groups - 1
    return groups.astype(np.int64), first.astype(np.int64), strata


def _grouped(table: RateTable, first: npt.NDArray[np.int64]) -> RateTable:
    """The table over groups of cells, as dense arrays."""
    dense = [matrix[:, first].toarray() for matrix in (table.alpha, table.beta, table.over)]
    return dataclasses.replace(table, alpha=dense[0], beta=dense[1], over=dense[2])


def _kinds(
    bound: BoundGoal,
    positive: Sequence[npt.NDArray[Any]],
    groups: npt.NDArray[np.int64],
    stratum_of: npt.NDArray[np.int64],
) -> _Kinds:
    """Count the rows of each kind, over all sources.

    A prediction that a group of cells never shows has half a row, with the group's mean weight: else a rate of 0 or 1
    would have an interval of no width.
    """
    n_groups = len(stratum_of)
    keys, weights, counts = [], [], []
    for cell, weight, sign in zip(bound.cell, bound.row_weight, positive, strict=True):
        key = 2 * groups[cell] + (sign != 0)
        if weight is None:
            found = np.bincount(key[key >= 0], minlength=2 * n_groups)
            keys.append(np.flatnonzero(found))
            weights.append(np.ones(len(keys[-1])))
            counts.append(found[keys[-1]].astype(np.float64))
        else:
            one, mean, number = _weight_kinds(key[key >= 0], weight[key >= 0])
            keys.append(one)
            weights.append(mean)
            counts.append(number)
    key, weight, count = np.concatenate(keys), np.concatenate(weights), np.concatenate(counts)
    rows = np.bincount(key, count, 2 * n_groups).reshape(n_groups, 2)
    total = np.bincount(key, count * weight, 2 * n_groups).reshape(n_groups, 2).sum(axis=1)
    lonely = np.flatnonzero((rows == 0).any(axis=1) & (rows > 0).any(axis=1))
    key = np.concatenate([key, 2 * lonely + (rows[lonely, 1] == 0)])
    weight = np.concatenate([weight, total[lonely] / rows[lonely].sum(axis=1)])
    count = np.concatenate([count, np.full(len(lonely), 0.5)])
    group = key // 2
    order = np.argsort(stratum_of[group], kind="stable")
    group = group[order]
    return _Kinds(stratum_of[group], group, key[order] % 2 == 1, weight[order], count[order])


def _weight_kinds(key: npt.NDArray[np.int64], weight: Floats) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    """Rows of the same key and (nearly) the same weight: key, mean weight, number."""
    levels, code = np.unique(weight, return_inverse=True)
    if len(levels) > MAX_WEIGHTS:  # a bin of 1% loses 1e-5 of the variance, and its mean is exact
        with np.errstate(divide="ignore"):
            bins = np.floor(np.log(levels) / WEIGHT_STEP)  # weight 0 has the bin -inf of its own
        _, coarse = np.unique(bins, return_inverse=True)
        code = coarse[code]
    pairs, index = np.unique(key * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    number = np.bincount(index, minlength=len(pairs)).astype(np.float64)
    mean = np.bincount(index, weight, len(pairs)) / number
    return pairs // (int(code.max(initial=0)) + 1), mean, number


def _draw(kinds: _Kinds, n_groups: int, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Weight predicted positive and whole weight of each group in each replicate, shapes (n_groups, number)."""
    mass, whole = np.zeros((n_groups, number)), np.zeros((n_groups, number))
    _, starts = np.unique(kinds.stratum, return_index=True)
    for start, stop in zip(starts, [*starts[1:], len(kinds.stratum)], strict=True):
        count = kinds.count[start:stop]
        rows = round(float(count[count >= 1].sum()))
        drawn = rng.multinomial(rows, count / count.sum(), size=number).T.astype(np.float64)
        place = (kinds.group[start:stop], np.arange(stop - start))
        weight, said = kinds.weight[start:stop], kinds.positive[start:stop]
        whole += sp.csr_array((weight, place), shape=(n_groups, stop - start)) @ drawn
        mass += sp.csr_array((weight * said, place), shape=(n_groups, stop - start)) @ drawn
    return mass, whole


def _percentile(slack: Floats, estimate: float, confidence: float, size: float) -> Interval:
    """Expanded percentile interval that holds the estimate; undefined replicates are the worst case of either end.

    A bootstrap of n rows is too narrow by sqrt((n - 1) / n), and normal where it should be Student's; taking quantiles
    further out makes up for both (T. Hesterberg, "What teachers should know about the bootstrap", 2015).
    """
    size = max(size, 2.0)
    student = scipy.stats.t.ppf((1.0 + confidence) / 2.0, size - 1.0)
    tail = float(scipy.stats.norm.cdf(-np.sqrt(size / (size - 1.0)) * student))
    least = np.sort(np.where(np.isnan(slack), -np.inf, slack))
    most = np.sort(np.where(np.isnan(slack), np.inf, slack))
    lower = min(float(least[int(np.floor(tail * (len(slack) - 1)))]), estimate)
    upper = max(float(most[int(np.ceil((1.0 - tail) * (len(slack) - 1)))]), estimate)
    return Interval(
        lower if np.isfinite(lower) else None, upper if np.isfinite(upper) else None, confidence, "bootstrap"
    )
