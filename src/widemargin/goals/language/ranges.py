"""Attainable ranges of linear combinations of rates and counts.

Terms on one population are treated exactly: its rows fall into cells (label, baseline predictions, own prediction), and
the extreme values of a linear combination, or of a ratio of two, are found among the cells. Terms on different
populations are added by interval arithmetic, so a range is always an outer bound.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from widemargin.goals.language.checks import LIMITS
from widemargin.goals.language.metrics import Metric

__all__ = ["Range", "Term", "added", "group_range", "negligible", "quotient_range", "same_cells_range", "scaled"]

Range: TypeAlias = tuple[float, float]


class Term(NamedTuple):
    """A coefficient times a metric on the population in question."""

    coefficient: float
    metric: Metric
    baseline: str | None


class _Cell(NamedTuple):
    label: int
    said: dict[str, int]
    positive: bool

    def value(self, term: Term) -> float:
        said = 1 if term.baseline is None else self.said[term.baseline]
        return term.coefficient * term.metric.value(self.label, said, self.positive)


def _cells(terms: Sequence[Term]) -> Iterator[_Cell]:
    names = sorted({term.baseline for term in terms if term.baseline is not None})
    for label, positive in itertools.product((1, -1), (True, False)):
        for said in itertools.product((1, -1), repeat=len(names)):
            yield _Cell(label, dict(zip(names, said, strict=True)), positive)


def scaled(interval: Range, factor: float) -> Range:
    """`factor` times an interval."""
    if factor == 0.0:
        return 0.0, 0.0
    low, high = interval[0] * factor, interval[1] * factor
    return (low, high) if factor > 0 else (high, low)


def added(*intervals: Range) -> Range:
    """Sum of intervals."""
    return math.fsum(low for low, _ in intervals), math.fsum(high for _, high in intervals)


def group_range(terms: Sequence[Term]) -> Range:
    """Attainable values of a linear combination of rates and counts on one population of unknown composition.

    With p the share of positive labels, a sum of rates is `p A + (1 - p) B + C + D`: A and C depend on what happens
    among the positives, B and D (rates over the positives, over the negatives) among the negatives. It is linear in p,
    so the extremes are at p = 1 and p = 0, and there each factor has its extreme on a single cell. Counts depend on
    the number of rows too and are taken apart.
    """
    too_many = len({term.baseline for term in terms if term.baseline is not None}) > LIMITS.baselines
    simple = [term for term in terms if too_many or (term.metric.over and term.metric.over.baseline is not None)]
    rest = [term for term in terms if term not in simple]
    counts = [term for term in rest if term.metric.is_count]
    rates = [term for term in rest if not term.metric.is_count]
    apart = [scaled(term.metric.range, term.coefficient) for term in simple]
    return added(_count_range(counts), _rate_range(rates), *apart)


def negligible(terms: Sequence[Term]) -> float:
    """Largest sum of these terms that may be a rounding error."""
    rounding = 1e-12  # of the sum of the coefficients: what is smaller is a rounding error, and not a sign
    return rounding * math.fsum(abs(term.coefficient) for term in terms)


def _count_range(terms: Sequence[Term]) -> Range:
    sums = [math.fsum(cell.value(term) for term in terms) for cell in _cells(terms)] if terms else [0.0]
    low = -math.inf if min(sums) < -negligible(terms) else 0.0
    return low, math.inf if max(sums) > negligible(terms) else 0.0


def _rate_range(terms: Sequence[Term]) -> Range:
    if not terms:
        return 0.0, 0.0
    cells = list(_cells(terms))

    def extremes(label: int, denominators: tuple[int | None, ...]) -> Range:
        chosen = [term for term in terms if term.metric.over is not None and term.metric.over.label in denominators]
        sums = [math.fsum(cell.value(term) for term in chosen) for cell in cells if cell.label == label]
        return min(sums), max(sums)

    all_positive = added(extremes(1, (None, 1)), extremes(-1, (-1,)))
    all_negative = added(extremes(-1, (None, -1)), extremes(1, (1,)))
    return min(all_positive[0], all_negative[0]), max(all_positive[1], all_negative[1])


def same_cells_range(numerator: Sequence[Term], denominator: Sequence[Term]) -> Range:
    """Range of a ratio of two sums over the same rows: between the least and the greatest ratio of a single cell.

    The denominator must be >= 0 on every cell, and positive on one.
    """
    cells = list(_cells([*numerator, *denominator]))
    ratios = []
    for cell in cells:
        above = math.fsum(cell.value(term) for term in numerator)
        below = math.fsum(cell.value(term) for term in denominator)
        if below > negligible(denominator):
            ratios.append(above / below)
        elif abs(above) > negligible(numerator):
            ratios.append(math.copysign(math.inf, above))
    return min(ratios), max(ratios)


def quotient_range(numerator: Range, denominator: Range) -> Range:
    """Interval division, for a denominator that is >= 0 (and not always 0); 0/0 is undefined and left out."""
    (low, high), (least, most) = numerator, denominator

    def divided(above: float, below: float) -> float:
        if above == 0.0:
            return 0.0
        if below == 0.0:
            return math.copysign(math.inf, above)
        if math.isinf(above):
            return above
        return above / below

    return divided(low, most if low >= 0 else least), divided(high, least if high >= 0 else most)
