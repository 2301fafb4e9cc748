"""How far a bound must be tightened on m rows so that it holds on new rows, whatever threshold is then chosen.

Let `delta = 1 - confidence` and let `alpha = delta / M` be the share of each of the M constraints (Bonferroni). For
every constraint a margin is found such that, with probability >= 1 - alpha over the rows, *no* threshold t whatsoever
meets the tightened constraint on the rows and breaks the constraint itself in distribution. The search may then use
the labels of the rows as it likes. Two arguments give the margin; in both, m is the number of rows of the set that a
rate is measured on (for recall: those with a positive label), and given m these rows are independent draws.

**One-sided rates** (recall, positive rate, false positive rate, ...) against a constant. The share q(t) of failing
rows (for a floor on recall: positives with a score <= t) is monotone in t, so the thresholds with q(t) > b form a ray.
On it the number of failures K(t) is least at the ray's end, where it is binomial with a success probability >= b.
Hence P(K(t) <= k at some t with q(t) > b) <= P(Bin(m, b) <= k), and the largest k with P(Bin(m, b) <= k) <= alpha is
allowed: the exact binomial bound needs no correction for the thresholds (this is fixed-sequence testing from the
safest threshold on, with every threshold in the sequence).

**Everything else** (differences, sums, error rate, ratios in their cleared form). The form is a sum of constants times
P(score > t and the row is in S) or P(score <= t and the row is in S) for fixed sets S of rows. Each of these L
probabilities is a distribution function of a score that is set to +-infinity outside S, so the one-sided inequality of
Dvoretzky, Kiefer, Wolfowitz and Massart (1990) bounds its deviation over all t at once by sqrt(log(L/alpha) / (2 m)),
with probability >= 1 - alpha / L (Massart's form needs alpha / L <= 1/2, hence confidence >= 1/2). The sets S come from
the definition of the rates, never from the rows.

**One threshold for each of G groups of rows.** The rows of a rate that can belong to one group only (recall of the
women, with a threshold for women) need nothing more. Otherwise the sum over the groups g of P(score > t_g, row in S and
g) is bounded for all vectors t at once, in the better of two ways. Either each term is a probability as above, so that
the G bands add up. Or let Z be the largest deviation over all t: one row of m changes it by at most 1/m, so by
McDiarmid (1989) it exceeds its mean by sqrt(log(L/alpha) / (2 m)) with probability <= alpha / L. Its mean is at most
the sum of the means of the groups' largest deviations. With m_g of the m rows in group g of probability pi_g, that of g
is at most
E[(m_g/m) D_g] + E[(m_g/m - pi_g)^+] where D_g, the one-sided statistic of Kolmogorov on m_g rows, has mean
<= c / sqrt(m_g) with c = sqrt(log(2)/2) + integral of exp(-2 s^2) from there on, by the same inequality of Massart. So
E Z <= sum_g (c + 1/2) sqrt(pi_g / m) <= (c + 1/2) sqrt(G / m).

**Thresholds drawn at random.** The rates of a mixture of thresholds are the mixture of their rates, so what bounds all
deviations bounds those of mixtures. The binomial argument is about single thresholds; mixtures take the band.

**Ratios.** A ratio whose denominator is not zero on the rows is defined in distribution almost surely, so its cleared
form stands for it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.stats

from widemargin.exceptions import CapabilityError
from widemargin.goals.binding.tied_goal import TiedConstraint, TiedGoal
from widemargin.goals.language.linear import Metric, Rate, When
from widemargin.goals.language.populations import Population
from widemargin.goals.measuring.rates_of_predictions import RateTable

__all__ = ["Margin", "margins"]

BINOMIAL, BAND = "exact binomial", "uniform band"

_MEDIAN = math.sqrt(math.log(2.0) / 2.0)
_GROUP_MEAN = 0.5 + _MEDIAN + math.sqrt(math.pi / 8.0) * math.erfc(math.sqrt(2.0) * _MEDIAN)
"""c + 1/2 of the proof above, 1.24."""


@dataclass(frozen=True)
class Margin:
    """What it takes to be sure of a constraint.

    Attributes
    ----------
    size : float
        Tighten the bound of the cleared form (`ClearedConstraint`) by this much, >= 0.
    method : {"exact binomial", "uniform band"}
    n_rows : int
        Rows of the smallest set that one of its rates is measured on.
    n_needed : int
        With fewer rows nothing can be proved by this method, whatever the scores (0: not known beforehand).
    """

    size: float
    method: str
    n_rows: int
    n_needed: int = 0


def margins(
    tied: TiedGoal,
    confidence: float,
    *,
    reach: Callable[[Population], int] | None = None,
    mixtures: bool = False,
) -> tuple[Margin, ...]:
    """The margin of each constraint, for all of them to hold together with the given confidence.

    Parameters
    ----------
    tied : TiedGoal
        On rows that were used for nothing else.
    confidence : float in [0.5, 1)
    reach : callable, default=None
        Number of groups with a threshold of their own that the rows of a population can belong to, by definition; None:
        there is one threshold.
    mixtures : bool, default=False
        Whether thresholds may be drawn at random.

    Raises
    ------
    CapabilityError
        If rows are weighted, or a constraint is about numbers of rows and not about shares.
    """
    if any(weight is not None for weight in tied.row_weight):
        raise CapabilityError(
            "a confidence can be claimed for unweighted rows only, and these have sample weights. Leave them out, "
            "or set confidence=None to go by the estimates."
        )
    alpha = (1.0 - confidence) / max(1, len(tied.constraints) + len(tied.dropped))
    number = reach or (lambda population: 1)
    return tuple(_margin(item, tied.table, alpha, number, mixtures) for item in tied.constraints)


def _margin(
    item: TiedConstraint, table: RateTable, alpha: float, reach: Callable[[Population], int], mixtures: bool
) -> Margin:
    terms = [(factor, atom) for factor, atom in item.cleared.form.terms if isinstance(atom, Rate)]
    _check_counts(item, terms, table)
    rate = terms[0][1]
    plain = len(terms) == 1 and not rate.definition.is_count and _one_sided(rate.definition)
    if plain and not mixtures and reach(rate.population) == 1:
        return _binomial(item, terms[0][0], int(table.rows[table.place[rate]]), alpha)
    return _band(item, terms, table, alpha, reach)


def _one_sided(metric: Metric) -> bool:
    """Whether it only falls, or only rises, as the threshold moves."""
    return bool(metric.alpha) != bool(metric.beta)


def _check_counts(item: TiedConstraint, terms: list[tuple[float, Rate]], table: RateTable) -> None:
    """Counts are shares in disguise where one population's counts are compared with each other and nothing else."""
    counts = [rate.definition.is_count for _, rate in terms]
    if not any(counts):
        return
    sets = {(rate.population.rows, int(table.rows[table.place[rate]])) for _, rate in terms}
    if not all(counts) or len(sets) > 1 or item.cleared.bound != 0.0:
        raise CapabilityError(
            f"{item.label!r} is about numbers of rows, which depend on how many there are, so no confidence can be "
            "claimed for new rows. Use rates, or counts of one population compared with each other (precision), or "
            "set confidence=None."
        )


def _binomial(item: TiedConstraint, factor: float, m: int, alpha: float) -> Margin:
    """Margin of `factor * rate sense bound` for a one-sided rate."""
    limit = item.cleared.bound / factor
    is_cap = (item.cleared.sense == "<=") == (factor > 0.0)
    share = limit if is_cap else 1.0 - limit
    allowed = _most_failures(m, share, alpha)
    needed = 0 if not 0.0 < share < 1.0 else math.ceil(math.log(alpha) / math.log1p(-share))
    # half a row above what is allowed, so that rounding decides nothing
    return Margin(abs(factor) * max(0.0, share - (allowed + 0.5) / m), BINOMIAL, m, needed)


def _most_failures(m: int, share: float, alpha: float) -> int:
    """Largest k with P(Bin(m, share) <= k) <= alpha; -1 where there is none."""
    if share >= 1.0:
        return m
    if share <= 0.0:
        return -1
    k = int(scipy.stats.binom.ppf(alpha, m, share))
    return k if scipy.stats.binom.cdf(k, m, share) <= alpha else k - 1


def _band(
    item: TiedConstraint,
    terms: list[tuple[float, Rate]],
    table: RateTable,
    alpha: float,
    reach: Callable[[Population], int],
) -> Margin:
    """Margin of any other form: the sum of the bands of its parts."""
    groups: dict[object, list[tuple[float, Rate]]] = {}
    for factor, rate in terms:
        metric = rate.definition
        key = (rate.population.rows, metric.over, rate.baseline, metric.needs_label)
        groups.setdefault(key, []).append((factor, rate))
    steps = []
    for group in groups.values():
        m = int(table.rows[table.place[group[0][1]]])
        scale = m if group[0][1].definition.is_count else 1
        number = reach(group[0][1].population)
        steps += [(m, scale * height, number) for height in _steps(group)]
    size = sum(height * _deviation(m, number, len(steps) / alpha) for m, height, number in steps)
    return Margin(size, BAND, min(m for m, _, _ in steps))


def _deviation(m: int, n_groups: int, odds: float) -> float:
    """What the largest deviation of a rate of m rows exceeds with probability <= 1 / odds."""
    one = math.sqrt(math.log(odds) / (2 * m))
    if n_groups == 1:
        return one
    each = n_groups * math.sqrt(math.log(n_groups * odds) / (2 * m))
    return min(each, one + _GROUP_MEAN * math.sqrt(n_groups / m))


def _steps(group: list[tuple[float, Rate]]) -> list[float]:
    """Constants c > 0 with which a sum of rates of one set of rows is a sum of +-c P(score > t or <= t, row in S).

    What a row adds when predicted positive (negative) takes few values, by its label and the baseline's prediction.
    Its positive and its negative part are each a stack of steps: each step is one S.
    """
    over = group[0][1].definition.over or When()
    label, baseline = over.cells
    total = np.sum([factor * rate.definition.row_values for factor, rate in group], axis=0)
    steps: list[float] = []
    for prediction in range(2):
        for sign in (1.0, -1.0):
            levels = np.unique([0.0, *np.maximum(sign * total[label, prediction, baseline], 0.0).ravel()])
            steps += np.diff(levels).tolist()
    return steps
