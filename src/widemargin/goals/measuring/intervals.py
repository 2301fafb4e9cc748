"""How sure what was measured is: confidence intervals of slacks, standard errors, over the draw of the rows.

A single proportion of unweighted rows against a constant gets the exact interval of Clopper and Pearson (1934).
Everything else (differences, ratios, weights) gets a percentile bootstrap (expanded for small numbers), stratified by
the membership pattern of the populations that the constraint uses, so that every replicate has the same number of rows
in every population.

A rate is a quotient of two sums over rows, and everything else is built from rates, so to first order each measure is
a sum of one number per row, its *influence*: how much the measure moves, per unit of weight, with the row. The variance
is then the sum of squared influences (the delta method; for a rate over a fixed population, exactly the textbook
`p (1 - p) / n`). Differences between two classifiers on the same rows are taken row by row, which removes what both
have in common.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy.special

from widemargin._typing import Floats, Seed
from widemargin.exceptions import DataError
from widemargin.goals.binding.tied_goal import Predictions, TiedConstraint, TiedGoal
from widemargin.goals.language.linear import Linear
from widemargin.goals.measuring.bootstrap import slack_replicates, tallies
from widemargin.goals.measuring.rates_of_predictions import Measured, ratio_value


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
    # Quantiles of the beta distribution, without the machinery around `beta.ppf`, which takes forty times as long.
    lower = 0.0 if successes <= 0 else scipy.special.betaincinv(successes, trials - successes + 1, tail)
    upper = 1.0 if successes >= trials else scipy.special.betaincinv(successes + 1, trials - successes, 1.0 - tail)
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
        if array.dtype != bool and not tied.several and not np.isin(array, (0, 1)).all():
            raise DataError("intervals need 0/1 predictions, not probabilities.")
    measured = measured or tied.measure(tied.positive_mass(signs))
    seed = np.random.default_rng() if random_state is None else random_state
    if isinstance(seed, np.random.Generator | np.random.RandomState):
        seed = int((seed.integers if isinstance(seed, np.random.Generator) else seed.randint)(2**31 - 1))
    counted, values = tallies(tied, signs), tied.table.values(measured.positive_mass)
    intervals: list[Interval | None] = []
    for j, item in enumerate(tied.constraints):
        if np.isnan(measured.slack[j]):
            intervals.append(None)
            continue
        ends = _proportion_ends(item, tied, measured.positive_mass, values, confidence)
        if ends is not None:
            intervals.append(Interval(*ends, confidence, "clopper-pearson"))
            continue
        # A stream of its own: the interval of a constraint does not move when another one is added to the goal.
        rng = np.random.default_rng([seed, j])
        slack, size = slack_replicates(item, tied, counted(item), n_replicates, rng)
        intervals.append(_percentile(slack, float(measured.slack[j]), confidence, size))
    return tuple(intervals)


@dataclass(frozen=True)
class NewRows:
    """How often the bootstrap misses a constraint: for very many new rows, drawn as those by which the model was
    chosen.

    Attributes
    ----------
    missed : float
        Share of the draws (replicates, spread as `on_new_rows` says) in which the bound is missed.
    missed_far : float
        Share in which it is missed by more than `far`.
    one_in_ten : float or None
        By how much it is missed in one of ten replicates; 0 where it is met there, None where it is undefined.
    far : float
        In the constraint's units: 0.05, for counts 5% of the bound. For `a >= k * b` what a ratio 0.05 off makes,
        because small rates would never be off by 0.05.
    left_out : bool
        Whether two of three replicates decide rows as if they had been left out of training. Else the rows flatter the
        model that was fitted to them, and all these numbers are too low.
    """

    missed: float
    missed_far: float
    one_in_ten: float | None
    far: float
    left_out: bool = False


def on_new_rows(
    tied: TiedGoal, positive: Predictions, measured: Measured, left_out: Predictions | None = None, *,
    n_replicates: int = 400,
) -> tuple[NewRows | None, ...]:  # fmt: skip
    """For each constraint what to expect on new rows, for measured 0/1 predictions; None where it is undefined on them.

    400 replicates give a share to within 2.5 points, which is enough for the "about" in the sentence that states it. Of
    more than a dozen constraints only those with the least slack are examined: all would take as long as training.

    Where it is known what models trained without each row would predict (`left_out`), two replicates of three take
    that, and one takes the predictions as they are. On 75 real tables, with 611 bounds of five kinds that training met,
    this had the least squared error of all shares of the two. On 74 other tables the bounds that were said to be
    missed by much in a fourth of the draws or more were said to be so in 55% of them on average, and 51% were (of rows
    that are left out alone: 74% and 47%; of rows as they are a third of these bounds is named at all).

    Replicates differ from the estimate as a rate of one and the same model does. That the model was chosen by rows that
    were drawn, too, makes new rows differ by more: twice as much where weights were trained on these rows, and by the
    square root of 2, as for a difference of two draws, where thresholds alone were chosen. Of 791 bounds on 72 real
    tables that had no part in the choice new rows fell below the value of one in ten draws in 13% (without this 20%; of
    123 bounds on tables of 2,000 to 6,000 rows in 7 and 25%), and of thresholds in 9 and 15% of 419.
    """
    n_left_out = 0 if left_out is None else 2 * n_replicates // 3
    parts = [(tallies(tied, positive), n_replicates - n_left_out, measured)]
    spread = math.sqrt(2.0)
    if left_out is not None:
        spread, measured = 2.0, tied.measure(tied.positive_mass(left_out))
        parts.append((tallies(tied, left_out), n_left_out, measured))
    expected = list[NewRows | None]()
    tightest = np.argsort(measured.slack / np.maximum(1.0, np.abs(measured.bound)))[:12]
    for j, item in enumerate(tied.constraints):
        if np.isnan(measured.slack[j]) or j not in tightest:
            expected.append(None)
            continue
        # A fixed seed for each constraint: the same model on the same rows is told the same.
        rng, replicates = np.random.default_rng([0, j]), list[Floats]()
        for of, number, whole in parts:
            here, _ = slack_replicates(item, tied, of(item), number, rng)
            estimate = whole.slack[j]
            replicates.append(here if np.isnan(estimate) else estimate + spread * (here - estimate))
        slack = np.concatenate(replicates)
        slack = np.where(np.isnan(slack), -np.inf, slack)  # an undefined one is not met
        # Of `a >= k b` the bound is k times a rate, so 0.05 of the ratio is 0.05 b (see `NewRows.far`).
        bound = float(measured.bound[j])
        far = 0.05 * max(1.0, abs(bound))
        match item.constraint.rhs.terms:
            case [(factor, _)] if item.constraint.rhs.constant == 0.0 and factor != 1.0:
                far = 0.05 * abs(bound / factor)
        allowed = -1e-9 * max(1.0, abs(bound))
        tenth = float(np.quantile(slack, 0.1, method="lower"))
        missed, missed_far = float((slack < allowed).mean()), float((slack < -far).mean())
        by = max(0.0, -tenth) if np.isfinite(tenth) else None
        expected.append(NewRows(missed, missed_far, by, far, left_out is not None))
    return tuple(expected)


def _proportion_ends(
    item: TiedConstraint, tied: TiedGoal, mass: Floats, values: Floats, confidence: float
) -> tuple[float, float] | None:
    """Clopper-Pearson ends of the slack, where one unweighted proportion is compared with a constant.

    `mass` is predicted positive, and gives the rates these `values`.

    A ratio is a proportion (precision, wins in changes) if both its sides are counts without a constant, if the
    denominator counts each row once or not at all, and if every row of the numerator is one of the denominator.
    """
    cleared, ratio, table = item.cleared, item.cleared.ratio, tied.table
    # The number of successes is binomial only where every row counts once.
    weighted = {source.key for source in tied.sources if source.weight is not None}
    if any(table.space.key_of(rate) in weighted for rate in cleared.form.rates):
        return None
    if ratio is not None and cleared.ratio_bound is not None:
        sides = ratio.numerator, ratio.denominator
        if any(side.constant != 0.0 or not all(rate.definition.is_count for rate in side.rates) for side in sides):
            return None
        # By cell and decision, what a row adds to each side: 0 or one and the same number, in the numerator only where
        # it does in the denominator. Then the numerator counts successes among the rows of the denominator.
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
        successes = float(values[row] / units * trials)
        factor, target = cleared.form.terms[0][0] * units, cleared.bound
    else:
        return None
    low, high = clopper_pearson(round(successes), round(trials), confidence)
    # The slack is linear in the proportion, so its interval follows from the ends.
    sign = 1.0 if cleared.sense == ">=" else -1.0
    ends = sign * (factor * low - target), sign * (factor * high - target)
    return min(ends), max(ends)


def _percentile(slack: Floats, estimate: float, confidence: float, size: float) -> Interval:
    """Expanded percentile interval that holds the estimate; undefined replicates are the worst case of either end.

    A bootstrap of n rows is too narrow by sqrt((n - 1) / n), and normal where it should be Student's; taking quantiles
    further out makes up for both (T. Hesterberg, "What teachers should know about the bootstrap", 2015).
    """
    size = max(size, 2.0)
    student = scipy.special.stdtrit(size - 1.0, (1.0 + confidence) / 2.0)
    tail = float(scipy.special.ndtr(-np.sqrt(size / (size - 1.0)) * student))
    least = np.sort(np.where(np.isnan(slack), -np.inf, slack))
    most = np.sort(np.where(np.isnan(slack), np.inf, slack))
    lower = min(float(least[int(np.floor(tail * (len(slack) - 1)))]), estimate)
    upper = max(float(most[int(np.ceil((1.0 - tail) * (len(slack) - 1)))]), estimate)
    low, high = lower if np.isfinite(lower) else None, upper if np.isfinite(upper) else None
    return Interval(low, high, confidence, "bootstrap")


Influence: TypeAlias = tuple[Floats, ...]
"""For each source that was given, what every row adds to a measure, weight included."""


def objective_influence(tied: TiedGoal, positive: Predictions) -> Influence:
    """Influence of each row on the objective.

    Parameters
    ----------
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
    variances = np.empty((len(tied.given), tied.n_constraints))
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
        # Each source is a sample of its own, so variances are taken around its own mean and then add up.
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
        quotient, denominator = ratio_value(above, below, table, values)
        divisor = float(denominator) if np.isfinite(quotient) else np.nan
        form = above.plus(below, -float(quotient)) if np.isfinite(quotient) else above
    # By cell: what a row predicted negative adds, and how much more one predicted positive does.
    of_positive, base = table.weighted(form)
    gain = (of_positive - base) / divisor
    offset = table.factors([form]).multiply(np.where(table.is_count, 0.0, np.nan_to_num(values)))
    for block in table.blocks():
        base[block.place] -= (offset @ block.over)[0]
    base /= divisor
    added = [np.zeros(len(source.cell)) for source in tied.given]
    for source, share in zip(tied.sources, tied.seen(positive), strict=True):
        added[source.given] += (base[source.cell] + gain[source.cell] * share) * source.weights
    return tuple(added)
