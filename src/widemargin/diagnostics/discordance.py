"""What two classifiers' disagreements prove: exact tests, intervals, and how many labels they need.

Only rows on which two classifiers differ can tell which one is better (Goh et al., section 1, "Churn"): on all others
both are right or both wrong. Of m labelled rows of that kind, the number W on which the second one is right is binomial
with a share p, and the two are equally good if p = 1/2. That is McNemar's test, exact.
"""

import math

import numpy as np
import numpy.typing as npt
import scipy.special

from widemargin._typing import ArrayLike
from widemargin.exceptions import DataError


def mcnemar_p(wins: float, losses: float) -> float:
    """Two-sided p value of the exact test of McNemar that a win is as likely as a loss.

    Effective counts of weighted rows need not be whole; the binomial distribution is continued by the incomplete beta
    function then, as in the interval of Korn and Graubard.

    Examples
    --------
    >>> from widemargin.diagnostics.discordance import mcnemar_p
    >>> mcnemar_p(9, 1)
    0.021484375
    """
    if wins + losses == 0:
        return 1.0
    return float(min(1.0, 2.0 * scipy.special.betainc(max(wins, losses), min(wins, losses) + 1.0, 0.5)))


def power_of(labels: ArrayLike, share: float, alpha: float = 0.05) -> npt.NDArray[np.float64]:
    """Probability that the exact two-sided test at level alpha finds the difference and its direction.

    Parameters
    ----------
    labels : array-like of int, shape (k,)
        Labelled rows on which the two differ.
    share : float in [0, 1]
        Probability that the better one is right on such a row; above 1/2.
    alpha : float, default=0.05
    """
    from scipy.stats import binom  # slow to import, and not needed by other diagnostics

    number = np.asarray(labels, dtype=np.int64)
    # reject where wins >= least: the smallest number whose upper tail under p = 1/2 is at most alpha / 2
    least = binom.isf(alpha / 2.0, number, 0.5) + 1.0
    return np.asarray(binom.sf(least - 1.0, number, share), dtype=np.float64)


def labels_needed(share: float, *, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """How many labelled rows on which two classifiers differ prove, with some power, which one is better.

    The least number from which on the exact two-sided test of McNemar at level alpha finds the better one with at least
    this probability. The power of an exact test rises and falls like a saw, so the first number that reaches it is not
    yet enough. Beyond 20,000 labels: `((z_a / 2 + z_b sqrt(p (1 - p))) / (p - 1/2))^2` with the normal quantiles z of
    `1 - alpha / 2` and of `power`, and `1 / (p - 1/2)` more for continuity.

    Parameters
    ----------
    share : float in [0, 1]
        Probability that the second one is right on such a row.
    power, alpha : float in (0, 1)

    Returns
    -------
    int or None
        None: the two are equally good, and no number proves a difference.

    Examples
    --------
    The example of the paper: 70% and 75% accurate. Where the second one wins on all of the 5% on which they differ, a
    few labels suffice; where it wins on 30% of all rows and loses on 25%, nearly 1000 are needed.

    >>> from widemargin.diagnostics import labels_needed
    >>> labels_needed(1.0), labels_needed(30 / 55)
    (6, 981)
    """
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0.0 < value < 1.0:
            raise DataError(
                f"{name} is {value!r}; it must lie between 0 and 1, such as {0.8 if name == 'power' else 0.05}."
            )
    if not 0.0 <= share <= 1.0:
        raise DataError(f"share is {share!r}; it must lie between 0 and 1.")
    better = max(share, 1.0 - share)
    if better - 0.5 < 1e-12:
        return None
    z_alpha, z_power = (float(scipy.special.ndtri(level)) for level in (1.0 - alpha / 2.0, power))
    spread = z_alpha / 2.0 + z_power * math.sqrt(better * (1.0 - better))
    guess = max(1.0, spread / (better - 0.5)) ** 2 + 1.0 / (better - 0.5)
    if guess > 20_000:  # beyond, computing the power of each number takes long, and the guess is near
        return math.ceil(guess)
    # The power of an exact test falls now and then as labels are added, so the last number that is too small counts.
    numbers = np.arange(1, int(1.2 * guess) + 100)
    short = np.flatnonzero(power_of(numbers, better, alpha) < power)
    return int(numbers[short[-1]]) + 1 if short.size else 1


def gain_interval(
    wins: float, losses: float, changes: float, n_rows: float, confidence: float = 0.95, *, neither: float = 0.0
) -> tuple[float, float]:
    """Interval of the difference in accuracy, from those of churn and of the share of wins.

    The difference is `c (2 p - 1)`, with the churn c (of all rows) and the share p of wins among the labelled rows that
    differ. Of several classes both may be wrong there, on `neither` of the labelled rows that differ, and only the
    share of the others counts of c. Each gets the interval of Clopper and Pearson; the result covers at least
    `confidence` (Bonferroni).
    """
    from widemargin.goals.measuring.intervals import clopper_pearson

    told = wins + losses
    each = 1.0 - (1.0 - confidence) / (3.0 if neither else 2.0)
    churn = clopper_pearson(changes, n_rows, each)
    share = clopper_pearson(wins, told, each) if told else (0.0, 1.0)
    telling = clopper_pearson(told, told + neither, each) if neither else (1.0, 1.0)
    ends = [c * q * (2.0 * p - 1.0) for c, q in zip(churn, telling, strict=True) for p in share]
    return min(ends), max(ends)
