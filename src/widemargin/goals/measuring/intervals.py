"""Confidence intervals for the slack of each constraint.

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
import scipy.stats

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.goals.binding.tied_goal import TiedConstraint, TiedGoal
from widemargin.goals.language.linear import Linear, Rate, Ratio
from widemargin.goals.measuring.bootstrap import slack_replicates, tally

__all__ = ["Interval", "clopper_pearson", "simultaneous_confidence", "slack_intervals"]


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
    positive: Sequence[npt.NDArray[Any]],
    *,
    confidence: float = 0.95,
    n_replicates: int = 2000,
    random_state: int | np.random.RandomState | np.random.Generator | None = 0,
) -> tuple[Interval | None, ...]:
    """Confidence interval of the slack of each constraint, for 0/1 predictions.

    Parameters
    ----------
    tied : TiedGoal
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
    mass = tied.positive_mass(signs)
    measured = tied.measure(mass)
    seed, rows = _seed(random_state), None
    intervals: list[Interval | None] = []
    for j, item in enumerate(tied.constraints):
        if np.isnan(measured.slack[j]):
            intervals.append(None)
            continue
        ends = _proportion_ends(item, tied, mass, confidence)
        if ends is not None:
            intervals.append(Interval(*ends, confidence, "clopper-pearson"))
            continue
        # A stream of its own: the interval of a constraint does not move when another one is added to the goal.
        rng = np.random.default_rng([seed, j])
        rows = tally(tied, signs) if rows is None else rows
        slack, size = slack_replicates(item, tied, rows, n_replicates, rng)
        intervals.append(_percentile(slack, float(measured.slack[j]), confidence, size))
    return tuple(intervals)


def _seed(random_state: int | np.random.RandomState | np.random.Generator | None) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(random_state)


def _proportion_ends(
    item: TiedConstraint, tied: TiedGoal, mass: Floats, confidence: float
) -> tuple[float, float] | None:
    """Clopper-Pearson ends of the slack, where one unweighted proportion is compared with a constant."""
    weights = dict(zip(tied.sources, tied.row_weight, strict=True))
    cleared, sign = item.cleared, 1.0 if item.cleared.sense == ">=" else -1.0
    if any(weights[rate.population.source] is not None for rate in cleared.form.rates):
        return None
    if cleared.ratio is not None and cleared.ratio_bound is not None:
        counts = _ratio_counts(cleared.ratio, tied, mass)
        if counts is None:
            return None
        factor, successes, trials = counts
        target = cleared.ratio_bound
    elif len(cleared.form.terms) == 1:
        coefficient, rate = cleared.form.terms[0]
        row = tied.table.place[_rate(rate)]
        trials = float(tied.table.total[row])
        value = tied.table.select([row]).values(mass)[0]
        units = trials if tied.table.is_count[row] else 1.0  # a count is its number of rows times a share
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


def _ratio_counts(ratio: Ratio, tied: TiedGoal, mass: Floats) -> tuple[float, float, float] | None:
    """Factor, successes and trials of a ratio that is a share of rows (precision, wins in changes), else None.

    It is one if both sides are counts without a constant, if the denominator counts each row once or not at all, and if
    every row of the numerator is one of the denominator.
    """
    forms: tuple[Linear, Linear] = (ratio.numerator, ratio.denominator)
    if any(form.constant != 0.0 for form in forms) or not all(
        rate.definition.is_count for form in forms for rate in form.rates
    ):
        return None
    above, below = (np.concatenate(tied.table.weighted(form)) for form in forms)
    unit, factor = float(below.max()), float(above.max())
    share, whole = above / (factor or 1.0), below / (unit or 1.0)
    if unit <= 0 or factor <= 0 or not (_zero_or_one(share) and _zero_or_one(whole) and bool((share <= whole).all())):
        return None
    weight = np.concatenate([mass, tied.cell_weight - mass])
    return factor / unit, float(share @ weight), float(whole @ weight)


def _zero_or_one(values: Floats) -> bool:
    return bool(((values == 0.0) | (values == 1.0)).all())


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
