"""How sure what was measured is: confidence intervals of slacks, standard errors, over the draw of the rows.

A single proportion of unweighted rows against a constant gets the exact interval of Clopper and Pearson (1934).
Everything else (differences, ratios, weights) gets a percentile bootstrap (expanded for small numbers), stratified by
the membership pattern of the populations that the constraint uses, so that every replicate has the same number of rows
in every population.

Rows that a constraint cannot tell apart are counted once, and a replicate is a draw of multinomial counts of these few
kinds of rows: never an array of rows times replicates, so its cost does not grow with the number of rows.

A rate is a quotient of two sums over rows, and everything else is built from rates, so to first order each measure is
a sum of one number per row, its *influence*: how much the measure moves, per unit of weight, with the row. The variance
is then the sum of squared influences (the delta method; for a rate over a fixed population, exactly the textbook
`p (1 - p) / n`). Differences between two classifiers on the same rows are taken row by row, which removes what both
have in common.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.stats

from widemargin._typing import Bools, Floats, Ints, Seed
from widemargin.exceptions import DataError
from widemargin.goals.binding.cells import Packer
from widemargin.goals.binding.tied_goal import Predictions, TiedConstraint, TiedGoal
from widemargin.goals.language.linear import Linear, Ratio
from widemargin.goals.measuring.rates_of_predictions import (
    Measured,
    RateTable,
    constraint_standing,
    rate_values,
    ratio_value,
)


@dataclass(frozen=True)
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
    >>> from widemargin.goals.measuring.intervals import clopper_pearson
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
    tied: TiedGoal,
    positive: Predictions,
    measured: Measured | None = None,
    *,
    confidence: float = 0.95,
    n_replicates: int = 2000,
    random_state: Seed = 0,
) -> tuple[Interval | None, ...]:
    """Confidence interval of the slack of each constraint, for 0/1 predictions.

    Parameters
    ----------
    tied : TiedGoal
    positive : sequence of ndarray of shape (n_s,)
        For each source, 1 or True where a row is predicted positive.
    measured : Measured, optional
        The goal measured on these predictions, where it has been.
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
    measured = measured or tied.measure(tied.positive_mass(signs))
    if random_state is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    elif isinstance(random_state, np.random.RandomState):
        seed = int(random_state.randint(2**31 - 1))
    elif isinstance(random_state, np.random.Generator):
        seed = int(random_state.integers(2**31 - 1))
    else:
        seed = int(random_state)
    rows: Tally | None = None
    intervals: list[Interval | None] = []
    for j, item in enumerate(tied.constraints):
        if np.isnan(measured.slack[j]):
            intervals.append(None)
            continue
        ends = _proportion_ends(item, tied, measured.positive_mass, confidence)
        if ends is not None:
            intervals.append(Interval(*ends, confidence, "clopper-pearson"))
            continue
        # A stream of its own: the interval of a constraint does not move when another one is added to the goal.
        rng = np.random.default_rng([seed, j])
        rows = tally(tied, signs) if rows is None else rows
        slack, size = slack_replicates(item, tied, rows, n_replicates, rng)
        intervals.append(_percentile(slack, float(measured.slack[j]), confidence, size))
    return tuple(intervals)


@dataclass(frozen=True)
class NewRows:
    """What the bootstrap of these rows says of a constraint on very many new ones, drawn as these were.

    Attributes
    ----------
    missed : float
        Share of the replicates in which the bound is missed.
    missed_far : float
        Share in which it is missed by more than `far`.
    one_in_ten : float or None
        By how much it is missed in one of ten replicates; 0 where it is met there, None where it is undefined.
    far : float
        In the constraint's units: 0.05, for counts 5% of the bound. Of `a >= k * b`, which asks for a ratio of two
        rates, what a ratio 0.05 off makes: rates of 1% would else never miss it by much.
    left_out : bool
        Whether each row is decided as if it had been left out of training; else rows that a model was fitted to
        flatter it, and all of this is too low.
    """

    missed: float
    missed_far: float
    one_in_ten: float | None
    far: float
    left_out: bool = False


def on_new_rows(
    tied: TiedGoal, positive: Predictions, *, left_out: bool, n_replicates: int = 400
) -> tuple[NewRows | None, ...]:
    """For each constraint what to expect on new rows, for 0/1 predictions; None where it is undefined on these.

    400 replicates know a share to 2.5 points, which is finer than the word "about" that it is told with. Of more
    constraints than a dozen only those with the least slack are looked at: the draws would take as long as training.
    """
    measured = tied.measure(tied.positive_mass(positive))
    rows, expected = tally(tied, positive), list[NewRows | None]()
    tightest = np.argsort(measured.slack / np.maximum(1.0, np.abs(measured.bound)))[:12]
    for j, item in enumerate(tied.constraints):
        if np.isnan(measured.slack[j]) or j not in tightest:
            expected.append(None)
            continue
        # A fixed seed for each constraint: the same model on the same rows is told the same.
        slack, _ = slack_replicates(item, tied, rows, n_replicates, np.random.default_rng([0, j]))
        slack = np.where(np.isnan(slack), -np.inf, slack)  # an undefined one is not met
        bound = float(measured.bound[j])
        far = 0.05 * max(1.0, abs(bound))
        match item.constraint.rhs.terms:
            case [(factor, _)] if item.constraint.rhs.constant == 0.0 and factor != 1.0:
                far = 0.05 * abs(bound / factor)
        allowed = -1e-9 * max(1.0, abs(bound))
        tenth = float(np.quantile(slack, 0.1, method="lower"))
        missed, missed_far = float((slack < allowed).mean()), float((slack < -far).mean())
        by = max(0.0, -tenth) if np.isfinite(tenth) else None
        expected.append(NewRows(missed, missed_far, by, far, left_out))
    return tuple(expected)


def _proportion_ends(
    item: TiedConstraint, tied: TiedGoal, mass: Floats, confidence: float
) -> tuple[float, float] | None:
    """Clopper-Pearson ends of the slack, where one unweighted proportion is compared with a constant.

    A ratio is a proportion (precision, wins in changes) if both its sides are counts without a constant, if the
    denominator counts each row once or not at all, and if every row of the numerator is one of the denominator.
    """
    cleared, ratio, table = item.cleared, item.cleared.ratio, tied.table
    weighted = {source.name for source in tied.sources if source.weight is not None}
    if any(rate.population.source in weighted for rate in cleared.form.rates):
        return None
    if ratio is not None and cleared.ratio_bound is not None:
        sides = ratio.numerator, ratio.denominator
        if any(side.constant != 0.0 or not all(rate.definition.is_count for rate in side.rates) for side in sides):
            return None
        above, below = np.concatenate(table.weighted(sides[0])), np.concatenate(table.weighted(sides[1]))
        if above.max() <= 0 or below.max() <= 0:
            return None
        share, whole = above / above.max(), below / below.max()
        if not (np.isin(share, (0.0, 1.0)).all() and np.isin(whole, (0.0, 1.0)).all() and (share <= whole).all()):
            return None
        weight = np.concatenate([mass, tied.cell_weight - mass])
        successes, trials = float(share @ weight), float(whole @ weight)
        factor, target = float(above.max() / below.max()), cleared.ratio_bound
    elif len(cleared.form.terms) == 1:
        row = table.place[cleared.form.rates[0]]
        trials = float(table.total[row])
        units = trials if table.is_count[row] else 1.0  # a count is its number of rows times a share
        successes = float(table.select([row]).values(mass)[0] / units * trials)
        factor, target = cleared.form.terms[0][0] * units, cleared.bound
    else:
        return None
    low, high = clopper_pearson(round(successes), round(trials), confidence)
    sign = 1.0 if cleared.sense == ">=" else -1.0
    ends = sign * (factor * low - target), sign * (factor * high - target)
    return min(ends), max(ends)


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
    low, high = lower if np.isfinite(lower) else None, upper if np.isfinite(upper) else None
    return Interval(low, high, confidence, "bootstrap")


@dataclass(frozen=True)
class BootstrapOptions:
    """What the bootstrap and the counts of rows trade.

    Attributes
    ----------
    weights : int
        Most distinct weights of a source that are kept apart; beyond, those of one bin are averaged. More make more
        kinds of rows, each of which is drawn in every replicate.
    weight_step : float
        Width of a bin of weights on the logarithmic scale. 0.05 averages weights within 5% of each other, which hides
        2e-4 of their second moment and nothing of the first.
    draws : int
        Kinds times replicates drawn at once: 32 MB of counts.
    """

    weights: int = 256
    weight_step: float = 0.05
    draws: int = 4_000_000


BOOTSTRAP = BootstrapOptions()


@dataclass(frozen=True, eq=False)
class Tally:
    """Rows counted by cell, prediction and weight; one entry per kind that occurs.

    Attributes
    ----------
    cell, bin : ndarray of int64
        Cell, and number of the bin of weights.
    positive : ndarray of bool
    weight, count : ndarray of float64
        Mean weight of the rows of the kind, and their number.
    """

    cell: Ints
    bin: Ints
    positive: Bools
    weight: Floats
    count: Floats


def tally(tied: TiedGoal, positive: Predictions) -> Tally:
    """Count the rows of all sources, given 0/1 predictions for each source."""
    parts, n_bins = [], 0
    for source, sign in zip(tied.sources, positive, strict=True):
        cell, weight, repeats = source.cell, source.weight, source.repeats
        bins, number = np.zeros(len(cell), np.int64), 1
        if weight is not None:
            # One bin for each weight while there are few and they are not means; beyond, one for each level.
            values, bins = np.unique(weight, return_inverse=True)
            if (repeats is not None and repeats.binned) or len(values) > BOOTSTRAP.weights:
                bins = np.unique(weight_level(values), return_inverse=True)[1][bins]
            number = int(bins.max(initial=0)) + 1
        key = (2 * cell.astype(np.int64) + (sign != 0)) * number + bins
        rows = None if repeats is None else repeats.count
        n_keys = 2 * len(tied.cell_weight) * number
        if n_keys > 4 * len(key):  # sort, where counting would need more memory than the rows
            keys, place = np.unique(key, return_inverse=True)
        else:
            keys, place = np.flatnonzero(np.bincount(key, minlength=n_keys)), key
        count = np.bincount(place, rows).astype(np.float64)
        total = count if weight is None else np.bincount(place, weight if rows is None else weight * rows)
        if place is key:
            count, total = count[keys], total[keys]
        cells_and_signs = keys // number
        parts.append((cells_and_signs // 2, keys % number + n_bins, cells_and_signs % 2 == 1, total / count, count))
        n_bins += number
    return Tally(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def weight_level(weight: npt.ArrayLike) -> Floats:
    """Where a weight lies on the coarse scale, which knows no other weight; weight 0 is at -inf, all for itself."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.floor(np.log(np.asarray(weight, np.float64)) / BOOTSTRAP.weight_step), np.float64)


def slack_replicates(
    item: TiedConstraint, tied: TiedGoal, rows: Tally, number: int, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Slack of a constraint in replicates of the data, drawn with replacement within each stratum.

    Parameters
    ----------
    rows : Tally
        What `tally` counted.
    number : int
        Of replicates.

    Returns
    -------
    slack : ndarray of shape (number,)
        NaN where the constraint is undefined.
    size : float
        Effective number of rows, `(sum of weights)^2 / sum of squares`, of the smallest denominator.
    """
    constraint = item.constraint
    table = tied.table.select([tied.table.place[rate] for rate in constraint.rates])
    # The 0/1 matrices of the few rates of a constraint, each of shape (r, k).
    matrices = np.zeros((3, len(table.rates), table.space.n_cells), bool)
    for block in table.blocks():
        matrices[:, :, block.place] = block.alpha, block.beta, block.over
    group_of, first, stratum_of = _groups(table, matrices)
    alpha, beta, over = matrices[:, :, first].astype(np.float64)
    group, positive, weight_of_row, count = _kinds(rows, group_of, stratum_of[first])
    slack, m = np.empty(number), len(first)
    strata = []
    _, starts = np.unique(stratum_of[first][group], return_index=True)
    for start, stop in zip(starts, [*starts[1:], len(group)], strict=True):
        own, n_kinds = slice(start, stop), stop - start
        # Half a row stands for a prediction that was never seen; it may be drawn, but the sample does not grow by it.
        n_rows = round(float(count[own][count[own] >= 1].sum()))
        place, weight = (group[own], np.arange(n_kinds)), weight_of_row[own]
        whole = sp.csr_array((weight, place), shape=(m, n_kinds))
        chosen = sp.csr_array((weight * positive[own], place), shape=(m, n_kinds))
        strata.append((n_rows, count[own] / count[own].sum(), whole, chosen))
    step = max(1, BOOTSTRAP.draws // max(1, len(count)))
    for start in range(0, number, step):
        # Some replicates at a time, so that the drawn counts stay small whatever the number of kinds.
        stop = min(start + step, number)
        weight, mass = np.zeros((2, m, stop - start))
        for n_rows, shares, whole, chosen in strata:
            drawn = rng.multinomial(n_rows, shares, size=stop - start).T.astype(np.float64)
            weight += whole @ drawn
            mass += chosen @ drawn
        values = rate_values(alpha @ mass + beta @ (weight - mass), over @ weight, table.is_count)
        slack[start:stop] = constraint_standing(constraint, table, values).slack
    first_moment = np.bincount(group, count * weight_of_row, m)
    second_moment = np.bincount(group, count * weight_of_row**2, m)
    sizes = (over @ first_moment) ** 2 / (over @ second_moment)
    return slack, float(sizes.min())


def _groups(table: RateTable, matrices: Bools) -> tuple[Ints, Ints, Ints]:
    """Group of each cell (-1: in no population here), one cell of each group, stratum of each cell."""
    space = table.space
    patterns, packer = Packer(space.n_cells), Packer(space.n_cells)
    inside = np.zeros(space.n_cells, bool)
    for rows in dict.fromkeys(rate.population.rows for rate in table.rates):
        member = np.zeros(space.n_cells, bool)
        start, part = space.start[rows[0]], space.parts[rows[0]]
        member[start : start + part.n_cells] = part.member(rows)
        patterns.add(member, 1)
        packer.add(member, 1)
        inside |= member
    for counts in matrices.reshape(-1, space.n_cells):
        packer.add(counts, 1)
    codes = np.where(inside, packer.finish()[0], -1)
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    if not inside.all():
        first, groups = first[1:], groups - 1
    return groups.astype(np.int64), first.astype(np.int64), patterns.finish()[0].astype(np.int64)


def _kinds(rows: Tally, groups: Ints, stratum_of: Ints) -> tuple[Ints, Bools, Floats, Floats]:
    """Merge the kinds of rows of cells that the constraint cannot tell apart.

    Of each kind, stratum after stratum: group of cells, prediction, weight of a row, number of rows.

    A prediction that a group of cells never shows has half a row, with the group's mean weight: else a rate of 0 or 1
    would have an interval of no width.
    """
    n_groups, n_bins = len(stratum_of), int(rows.bin.max(initial=0)) + 1
    used = groups[rows.cell] >= 0
    whole_key = (2 * groups[rows.cell[used]] + rows.positive[used]) * n_bins + rows.bin[used]
    keys, place = np.unique(whole_key, return_inverse=True)
    count = np.bincount(place, rows.count[used], len(keys)).astype(np.float64)
    weight = np.bincount(place, rows.count[used] * rows.weight[used], len(keys)) / count
    key = keys // n_bins
    seen = np.bincount(key, count, 2 * n_groups).reshape(n_groups, 2)
    total = np.bincount(key, count * weight, 2 * n_groups).reshape(n_groups, 2).sum(axis=1)
    lonely = np.flatnonzero((seen == 0).any(axis=1) & (seen > 0).any(axis=1))
    key = np.concatenate([key, 2 * lonely + (seen[lonely, 1] == 0)])
    weight = np.concatenate([weight, total[lonely] / seen[lonely].sum(axis=1)])
    count = np.concatenate([count, np.full(len(lonely), 0.5)])
    group = key // 2
    order = np.argsort(stratum_of[group], kind="stable")
    return group[order], key[order] % 2 == 1, weight[order], count[order]


Influence: TypeAlias = tuple[Floats, ...]
"""For each source, what every row adds to a measure, weight included."""


def objective_influence(tied: TiedGoal, positive: Predictions) -> Influence:
    """Influence of each row on the objective.

    Parameters
    ----------
    tied : TiedGoal
    positive : sequence of ndarray of shape (n_s,)
        For each source, 1 or True where a row is predicted positive, or the probability of it.

    Returns
    -------
    tuple of ndarray of shape (n_s,)
    """
    values = tied.table.values(tied.positive_mass(positive))
    return _influence(tied.goal.objective, None, tied, values, positive)


def slack_variances(tied: TiedGoal, positive: Predictions) -> Floats:
    """Variance of the slack of each constraint, split by source, shape (n_sources, m).

    NaN where a ratio is undefined.
    """
    values = tied.table.values(tied.positive_mass(positive))
    variances = np.empty((len(tied.sources), tied.n_constraints))
    for j, item in enumerate(tied.constraints):
        ratio = item.cleared.ratio
        # The sign does not matter: that of the slack or of its negative.
        above, below = (item.constraint.difference, None) if ratio is None else (ratio.numerator, ratio.denominator)
        variances[:, j] = _variances(_influence(above, below, tied, values, positive))
    return variances


def quotient_error(above: Linear, below: Linear, tied: TiedGoal, positive: Predictions) -> float:
    """Standard error of the quotient of two forms without ratios; NaN where the denominator is zero."""
    values = tied.table.values(tied.positive_mass(positive))
    return float(np.sqrt(_variances(_influence(above, below, tied, values, positive)).sum()))


def covariance(influences: Sequence[Influence]) -> Floats:
    """Covariance matrix of K measures on the same rows, shape (K, K)."""
    total = np.zeros((len(influences), len(influences)))
    for parts in zip(*influences, strict=True):
        rows = np.stack(parts)
        sums = rows.sum(axis=1)
        total += rows @ rows.T - np.outer(sums, sums) / max(rows.shape[1], 1)
    return total


def _variances(influence: Influence) -> Floats:
    """Variance of the sum over the rows of each source, which are independent draws."""
    sums = [float(x @ x) - float(x.sum()) ** 2 / max(len(x), 1) for x in influence]
    variances: Floats = np.maximum(sums, 0.0)  # NaN stays NaN
    return variances


def _influence(above: Linear, below: Linear | None, tied: TiedGoal, values: Floats, positive: Predictions) -> Influence:
    """Influence of each row on a form without ratios, or on the quotient of two; NaN where the denominator is zero.

    That on `above / below` is `(influence on above - quotient * influence on below) / below`.
    """
    table, form, divisor = tied.table, above, 1.0
    if below is not None:
        quotient, denominator = ratio_value(Ratio(above, below), table, values)
        divisor = float(denominator) if np.isfinite(quotient) else np.nan
        form = above.plus(below, -float(quotient)) if np.isfinite(quotient) else above
    # By cell: what a row predicted negative adds, and how much more one predicted positive does.
    of_positive, base = table.weighted(form)
    gain = (of_positive - base) / divisor
    offset = table.factors([form]).multiply(np.where(table.is_count, 0.0, np.nan_to_num(values)))
    for block in table.blocks():
        base[block.place] -= (offset @ block.over)[0]
    base /= divisor
    return tuple(
        (base[source.cell] + gain[source.cell] * share) * source.weights
        for source, share in zip(tied.sources, positive, strict=True)
    )
