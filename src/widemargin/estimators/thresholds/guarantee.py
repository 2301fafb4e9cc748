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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from widemargin.exceptions import CapabilityError
from widemargin.goals.binding.tied_goal import TiedConstraint, TiedGoal
from widemargin.goals.language.linear import Rate, When
from widemargin.goals.language.populations import Population
from widemargin.goals.language.values import number_text
from widemargin.goals.measuring.rates_of_predictions import Measured, RateTable


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
    tied: TiedGoal, confidence: float, *, reach: Callable[[Population], int] | None = None, mixtures: bool = False
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
    if tied.weighted:
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
    """Margin of one constraint, whose share of the error is alpha."""
    terms = [(factor, atom) for factor, atom in item.cleared.form.terms if isinstance(atom, Rate)]
    sizes = [int(table.rows[table.place[rate]]) for _, rate in terms]
    counts = [rate.definition.is_count for _, rate in terms]
    # counts are shares in disguise where one population's counts are compared with each other and nothing else
    sets = {(rate.population.rows, m) for (_, rate), m in zip(terms, sizes, strict=True)}
    if any(counts) and (not all(counts) or len(sets) > 1 or item.cleared.bound != 0.0):
        raise CapabilityError(
            f"{item.label!r} is about numbers of rows, which depend on how many there are, so no confidence can be "
            "claimed for new rows. Use rates, or counts of one population compared with each other (precision), or "
            "set confidence=None."
        )
    (factor, rate), m = terms[0], sizes[0]
    one_sided = bool(rate.definition.alpha) != bool(rate.definition.beta)  # it only falls, or only rises
    if len(terms) > 1 or any(counts) or not one_sided or mixtures or reach(rate.population) > 1:
        return _band(terms, sizes, alpha, reach)
    limit = item.cleared.bound / factor
    is_cap = (item.cleared.sense == "<=") == (factor > 0.0)
    share = limit if is_cap else 1.0 - limit
    needed = 0 if not 0.0 < share < 1.0 else math.ceil(math.log(alpha) / math.log1p(-share))
    # half a row above what is allowed, so that rounding decides nothing
    size = abs(factor) * max(0.0, share - (_most_failures(m, share, alpha) + 0.5) / m)
    return Margin(size, "exact binomial", m, needed)


def _most_failures(m: int, share: float, alpha: float) -> int:
    """Largest k with P(Bin(m, share) <= k) <= alpha; -1 where there is none."""
    if share >= 1.0:
        return m
    if share <= 0.0:
        return -1
    k = int(scipy.stats.binom.ppf(alpha, m, share))
    return k if scipy.stats.binom.cdf(k, m, share) <= alpha else k - 1


def _band(
    terms: list[tuple[float, Rate]], sizes: list[int], alpha: float, reach: Callable[[Population], int]
) -> Margin:
    """Margin of any other form: the sum of the bands of its parts."""
    parts: dict[object, tuple[int, list[tuple[float, Rate]]]] = {}  # of one set of rows: their number, and the terms
    for (factor, rate), m in zip(terms, sizes, strict=True):
        metric = rate.definition
        key = (rate.population.rows, metric.over, rate.baseline, rate.needs_label)
        parts.setdefault(key, (m, []))[1].append((factor, rate))
    steps = []
    for m, part in parts.values():
        rate = part[0][1]
        scale = m if rate.definition.is_count else 1
        steps += [(m, scale * height, reach(rate.population)) for height in _steps(part)]
    odds, size = len(steps) / alpha, 0.0
    # c + 1/2 of the proof above, 1.24
    median = math.sqrt(math.log(2.0) / 2.0)
    group_mean = 0.5 + median + math.sqrt(math.pi / 8.0) * math.erfc(math.sqrt(2.0) * median)
    for m, height, n_groups in steps:
        # what the largest deviation of a rate of m rows exceeds with probability <= 1 / odds
        deviation = math.sqrt(math.log(odds) / (2 * m))
        if n_groups > 1:
            each = n_groups * math.sqrt(math.log(n_groups * odds) / (2 * m))
            deviation = min(each, deviation + group_mean * math.sqrt(n_groups / m))
        size += height * deviation
    return Margin(size, "uniform band", min(m for m, _, _ in steps))


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


def guarantee_text(
    tied: TiedGoal, proofs: Sequence[Margin], confidence: float, *, searched: str = "threshold searched", more: str = ""
) -> str:
    """The statement proved, with its assumptions.

    Parameters
    ----------
    searched : str
        What it is valid for every one of.
    more : str
        Further sentences, about what is not covered.
    """
    how = "; ".join(
        f"{item.label!r} by {proof.method} on {proof.n_rows} rows"
        for item, proof in zip(tied.constraints, proofs, strict=True)
    )
    left_out = f" {len(tied.dropped)} dropped constraints are not covered." if tied.dropped else ""
    which = "the constraint holds" if tied.n_constraints == 1 else f"all {tied.n_constraints} constraints hold"
    return (
        f"With probability >= {number_text(confidence)} over the draw of the validation rows, {which} in the "
        f"distribution that they come from, valid for every {searched}, if these rows are independent draws "
        f"from it and were used for nothing else ({how}).{left_out}{more}"
    )


def refusal_text(
    tied: TiedGoal, measured: Measured, proofs: Sequence[Margin] | None, *, refused: str, tried: str, nearest: str
) -> str:
    """Which constraints the nearest candidate misses, and by how much.

    Parameters
    ----------
    refused : str
        Such as "no threshold of these scores".
    tried : str
        Which were tried; said where the goal is missed by estimate.
    nearest : str
        The nearest candidate, which is measured.
    """
    lines = []
    for j, item in enumerate(tied.constraints):
        value, slack = float(measured.value[j]), float(measured.slack[j])
        name = "" if item.constraint.label is None else f"{item.label!r}: "
        if np.isnan(slack):
            lines.append(f"{name}{item.constraint.text} is undefined (zero denominator)")
            continue
        need, sure = 0.0, ""
        if proofs is not None:
            proof = proofs[j]
            need = proof.size / (float(measured.denominator[j]) if item.cleared.ratio is not None else 1.0)
            more = f"; at least {proof.n_needed} are needed" if proof.n_needed > proof.n_rows else ""
            sure = f" (to be sure it must pass the bound by {need:.2g}: {proof.method}, {proof.n_rows} rows{more})"
        if slack < need - 1e-9:
            lines.append(f"{name}{item.constraint.text} reaches {value:.4g}, short by {need - slack:.2g}{sure}")
    rows = tied.n_rows
    head = (
        f"{refused} meets the goal on the {rows} validation rows ({tried})"
        if proofs is None
        else f"{refused} can be shown to meet the goal on the {rows} validation rows"
    )
    return f"{head}; {nearest} misses {len(lines)} of {tied.n_constraints} constraints: {'; '.join(lines)}."


def cure_text(*, proved: bool, rows: int | None, keeping: str) -> str:
    """What can be done.

    Parameters
    ----------
    proved : bool
        Whether a proof was asked for.
    rows : int or None
        Number of validation rows that would do, of a goal that is met by estimate; None: it is not.
    keeping : str
        What `on_infeasible="warn"` keeps.
    """
    keep = f'or keep {keeping} with on_infeasible="warn".'
    if not proved:
        return f"Loosen one of them, use a better estimator, {keep}"
    if rows is None:
        return f"Nor is it met by estimate. Give looser bounds or a better estimator, {keep}"
    return (
        f"By estimate it can be met (confidence=None); if the rates stay as they are, about {rows} validation rows "
        f"prove it. Give more rows, a lower confidence or looser bounds, {keep}"
    )
