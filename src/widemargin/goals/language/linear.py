"""The normal form of expressions: linear combinations of rates (and, in constraints, of one ratio), with their range.

`METRICS` is the registry of linear rates: data, not code (Goh et al. 2016, Tables 2 and 4). `Rate` and
`Ratio` are the atoms, `Linear` the sum. All are frozen, hashable, compared by structure, and hold no data.

Terms on one population have an exact range: its rows fall into cells (label, own prediction, what each baseline says),
and the extreme values of a linear combination, or of a ratio of two, are found among the cells. Terms on different
populations are added by interval arithmetic, so a range is always an outer bound.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin.exceptions import GoalError
from widemargin.goals.language.populations import EVERYONE, Population
from widemargin.goals.language.values import (
    LIMITS,
    Literal,
    checked_literal,
    checked_name,
    checked_number,
    interval_text,
    literal_text,
    number_text,
    quoted,
    shown,
)

Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class When:
    """Rows with this label and this baseline prediction; None: any.

    Attributes
    ----------
    label, baseline : {+1, -1} or None
    """

    label: int | None = None
    baseline: int | None = None

    def __post_init__(self) -> None:
        if self.label not in (None, 1, -1) or self.baseline not in (None, 1, -1):
            raise GoalError(f"When takes +1, -1 or None, got label={self.label!r}, baseline={self.baseline!r}.")

    @property
    def cells(self) -> tuple[slice, slice]:
        """Their places on an axis for the label and on one for the baseline's prediction, +1 before -1."""
        places = {1: slice(0, 1), -1: slice(1, 2), None: slice(0, 2)}
        return places[self.label], places[self.baseline]


@dataclass(frozen=True)
class Metric:
    """A linear rate (or count, where `over` is None).

    Every linear rate on a population P has one form,

        sum_{i in P} s_i (p_i [row i matches alpha] + (1 - p_i) [row i matches beta]) / sum_{i in P matching over} s_i,

    with `p_i` in [0, 1] the (probability of a) positive prediction and `s_i` the row's weight; a count has the
    denominator 1. A row on which a classifier abstains adds nothing above the line. A new rate is one entry in
    `METRICS` and a two-line function in `rates.py`; algebra, ranges, text form, binding and report follow from these.

    Attributes
    ----------
    alpha : tuple of When
        Rows whose *positive* prediction counts.
    beta : tuple of When
        Rows whose *negative* prediction counts.
    over : When or None
        Rows whose weight is the denominator; None: a count.
    doc : str
        What it means. `{rows}`, or `{counted}` of a number: the population; `{yes}`: the class that it speaks of;
        `{actual}`: that of the rows; `{base}`: the model compared with; `{number}`: a margin or a radius.
    """

    name: str
    alpha: tuple[When, ...]
    beta: tuple[When, ...]
    over: When | None
    doc: str

    @cached_property
    def needs_label(self) -> bool:
        """Whether the rows' labels are needed."""
        return any(when.label is not None for when in (*self.alpha, *self.beta, self.over or When()))

    @cached_property
    def needs_baseline(self) -> bool:
        """Whether a baseline's predictions are needed."""
        return any(when.baseline is not None for when in (*self.alpha, *self.beta, self.over or When()))

    @cached_property
    def is_count(self) -> bool:
        """Whether it is a (weighted) number of rows and not a share."""
        return self.over is None

    @cached_property
    def counts_decisions(self) -> bool:
        """Whether every decision counts, so that only a row without one, of a classifier that abstains, does not."""
        return When() in self.alpha and When() in self.beta

    @cached_property
    def names_class(self) -> bool:
        """Whether it says which class is meant: it is another number where the two classes change their roles."""
        values = self.row_values
        swapped = values[::-1, ::-1]  # a baseline's answer changes too, but where a fact stands in its place
        return not any(np.array_equal(values, other) for other in (swapped, swapped[..., ::-1]))

    @property
    def range(self) -> Range:
        """Attainable values: [0, 1] for a rate, [0, inf) for a count."""
        return 0.0, (math.inf if self.over is None else 1.0)

    @cached_property
    def row_values(self) -> npt.NDArray[np.float64]:
        """What a row adds to the numerator, by its label, its prediction and the baseline's: +1 before -1 each."""
        values = np.zeros((2, 2, 2))
        for prediction, conditions in enumerate((self.alpha, self.beta)):
            for when in conditions:
                label, baseline = when.cells
                values[label, prediction, baseline] = 1.0
        return values


_ANY, _POS, _NEG = When(), When(label=1), When(label=-1)
_SAID_POS, _SAID_NEG = When(baseline=1), When(baseline=-1)

_ENTRIES = (
    Metric("positive_rate", (_ANY,), (), _ANY, "the share of {rows} that the model calls {yes}"),
    Metric("negative_rate", (), (_ANY,), _ANY, "the share of {rows} that the model does not call {yes}"),
    Metric("error_rate", (_NEG,), (_POS,), _ANY, "the share of {rows} that the model decides wrongly"),
    Metric("accuracy", (_POS,), (_NEG,), _ANY, "the share of {rows} that the model decides rightly"),
    Metric("recall", (_POS,), (), _POS, "the share that the model finds of {rows} that are truly {yes}"),
    Metric("false_positive_rate", (_NEG,), (), _NEG,
           "the share that the model calls {yes} of {rows} that are truly not {yes}"),
    Metric("true_negative_rate", (), (_NEG,), _NEG,
           "the share that the model recognises as not {yes} of {rows} that are truly not {yes}"),
    Metric("false_negative_rate", (), (_POS,), _POS, "the share that the model misses of {rows} that are truly {yes}"),
    Metric("churn", (_SAID_NEG,), (_SAID_POS,), _ANY,
           "the share of {rows} that the model decides differently from {base}"),
    Metric("win_rate", (When(1, -1),), (When(-1, 1),), _ANY,
           "the share of {rows} where the model is right and {base} is wrong"),
    Metric("loss_rate", (When(-1, -1),), (When(1, 1),), _ANY,
           "the share of {rows} where the model is wrong and {base} is right"),
    Metric("errors", (_NEG,), (_POS,), None, "the number of {counted} that the model decides wrongly"),
    Metric("true_positives", (_POS,), (), None,
           "the number of {counted} that are truly {yes} and that the model finds"),
    Metric("false_positives", (_NEG,), (), None,
           "the number of {counted} that are truly not {yes} and that the model calls {yes}"),
    Metric("true_negatives", (), (_NEG,), None,
           "the number of {counted} that are truly not {yes} and that the model does not call {yes}"),
    Metric("false_negatives", (), (_POS,), None,
           "the number of {counted} that are truly {yes} and that the model misses"),
    Metric("wins", (When(1, -1),), (When(-1, 1),), None,
           "the number of {counted} where the model is right and {base} is wrong"),
    Metric("losses", (When(-1, -1),), (When(1, 1),), None,
           "the number of {counted} where the model is wrong and {base} is right"),
    Metric("changes", (_SAID_NEG,), (_SAID_POS,), None,
           "the number of {counted} that the model decides differently from {base}"),
    Metric("confusion", (_POS,), (), _POS, "the share that the model calls {yes} of {rows} that are truly {actual}"),
    Metric("decision_rate", (_ANY,), (_ANY,), _ANY, "the share of {rows} that the model decides, one way or the other"),
    Metric("decisions", (_ANY,), (_ANY,), None, "the number of {counted} that the model decides, one way or the other"),
    Metric("margin_below", (_SAID_POS,), (_SAID_POS,), _ANY, "the share of {rows} whose margin is below {number}"),
    Metric("certified_rate", (_SAID_POS,), (_SAID_POS,), _ANY,
           "the share of {rows} whose decision no change of the features by {number} or less overturns"),
)  # fmt: skip

METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ENTRIES})
"""All linear rates and counts by name."""

Floats: TypeAlias = npt.NDArray[np.float64]


def _places(terms: "Iterable[tuple[float, Atom]]") -> int:
    """Decisions that a row can have: two, and where every decision counts the lack of one as a third."""
    return 3 if any(isinstance(atom, Rate) and atom.definition.counts_decisions for _, atom in terms) else 2


def _on_cells(terms: "Iterable[tuple[float, Atom]]", baselines: Sequence[str], places: int) -> Floats:
    """What one row of each cell adds to the numerators of a sum of rates or counts.

    The axes are the row's label, its own prediction (of some `places`: the third is none, which adds nothing), and what
    each of the baselines says, +1 before -1.
    """
    total = np.zeros((2, places) + (2,) * len(baselines))
    for coefficient, rate in terms:
        assert isinstance(rate, Rate)  # ratios are taken apart before
        values = rate.definition.row_values[:, :, : 1 if rate.baseline is None else 2]
        total[:, :2] += coefficient * values.reshape(2, 2, *(2 if name == rate.baseline else 1 for name in baselines))
    return total


def _negligible(terms: "Iterable[tuple[float, Atom]]") -> float:
    """Largest sum of these terms that may be a rounding error, and not a sign."""
    return 1e-12 * math.fsum(abs(coefficient) for coefficient, _ in terms)


@np.errstate(over="ignore", invalid="ignore")  # sums of coefficients near 1e308 have infinite ends
def group_range(terms: "Sequence[tuple[float, Rate]]") -> Range:
    """Attainable values of a linear combination of rates and counts on one population of unknown composition.

    With p the share of positive labels, a sum of rates is `p A + (1 - p) B + C + D`: A and C depend on what happens
    among the positives, B and D (rates over the positives, over the negatives) among the negatives. It is linear in p,
    so the extremes are at p = 1 and p = 0, and there each factor has its extreme on a single cell. Counts depend on
    the number of rows too and are taken apart.
    """
    baselines = sorted({rate.baseline for _, rate in terms if rate.baseline is not None})
    too_many = len(baselines) > LIMITS.baselines
    low, high = 0.0, 0.0
    counts: list[tuple[float, Rate]] = []
    shares: dict[int | None, list[tuple[float, Rate]]] = {None: [], 1: [], -1: []}  # by the label of the rows in each
    for coefficient, rate in terms:
        metric = rate.definition
        if too_many or (metric.over is not None and metric.over.baseline is not None):
            least, most = sorted(coefficient * end for end in metric.range)
            low, high = low + least, high + most
        else:
            (counts if metric.over is None else shares[metric.over.label]).append((coefficient, rate))
    if too_many:
        return low, high
    if counts:
        total = _on_cells(counts, baselines, _places(counts))
        low = -math.inf if total.min() < -_negligible(counts) else low
        high = math.inf if total.max() > _negligible(counts) else high
    places = _places(shares[None])
    of_all, of_positives, of_negatives = (_on_cells(shares[label], baselines, places) for label in (None, 1, -1))
    all_positive = (of_all + of_positives)[0], of_negatives[1]
    all_negative = (of_all + of_negatives)[1], of_positives[0]
    low += min(among.min() + others.min() for among, others in (all_positive, all_negative))
    high += max(among.max() + others.max() for among, others in (all_positive, all_negative))
    return float(low), float(high)


def quotient_range(numerator: Range, denominator: Range) -> Range:
    """Interval division, for a denominator that is >= 0 (and not always 0); 0/0 is undefined and left out."""
    (low, high), (least, most) = numerator, denominator

    def divided(above: float, below: float) -> float:
        if above == 0.0 or math.isinf(above):
            return above
        return above / below if below else math.copysign(math.inf, above)

    return divided(low, most if low >= 0 else least), divided(high, least if high >= 0 else most)


def _factor_text(form: "Linear") -> str:
    """Operand of a division: brackets unless it is one plain rate or one number."""
    one_rate = form.constant == 0.0 and [coefficient for coefficient, _ in form.terms] == [1.0]
    return str(form) if one_rate or (not form.terms and form.constant >= 0.0) else f"({form})"


def _call_text(name: str, first: str | None, population: Population | None, of: Literal | None = None) -> str:
    arguments = [] if first is None else [first]
    if population is not None and population != EVERYONE:
        arguments.append(f"on={population.reference}" if arguments else population.reference)
    if of is not None:
        arguments.append(f"of={literal_text(of)}")
    return f"{name}({', '.join(arguments)})"


@dataclass(frozen=True, repr=False)
class Rate:
    """A linear rate or count of `METRICS` on a population.

    Attributes
    ----------
    metric : str
        Key of `METRICS`.
    population : Population
    baseline : str or None
        The baseline model it compares with, where the metric needs one.
    labelled : bool
        Whether only rows of known label count although the metric needs no labels. A `Ratio` sets it, so that both of
        its sides are over the same rows; texts do not show it.
    of : label or None
        The class that counts as positive, in labels and predictions; None: that of the data, or none is needed.
    actual : label or None
        Of `confusion`: the class that counts as positive in labels, where that of predictions is `of`.
    definition : Metric
        Its entry in the registry.
    needs_label : bool
        Whether it counts only rows whose label is known.
    """

    metric: str
    population: Population
    baseline: str | None = None
    labelled: bool = False
    of: Literal | None = None
    actual: Literal | None = None
    definition: Metric = field(init=False, compare=False)
    needs_label: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise GoalError(f"unknown rate {shown(self.metric)}; known: {', '.join(METRICS)}.")
        if not isinstance(self.population, Population):
            raise GoalError(f"{self.metric} needs a Population, got {shown(self.population)}.")
        definition = METRICS[self.metric]
        if definition.needs_baseline:
            object.__setattr__(self, "baseline", checked_name(self.baseline, f"the baseline of {self.metric}"))
        elif self.baseline is not None:
            raise GoalError(f"{self.metric} compares with no baseline, got {shown(self.baseline)}.")
        for name in ("of", "actual"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_literal(getattr(self, name)))
        if (self.metric == "confusion") != (self.actual is not None) or (self.actual is not None and self.of is None):
            raise GoalError('two classes make a confusion: confusion("cat", "dog").')
        if self.of is not None and not definition.names_class:
            raise GoalError(f"{self.metric} is about all classes; leave out of={shown(self.of)}.")
        object.__setattr__(self, "definition", definition)
        object.__setattr__(self, "needs_label", self.labelled or definition.needs_label)

    @property
    def rows(self) -> object:
        """What two rates share whose values hang together row by row: the rows, and what counts as positive there."""
        return self.population.rows, self.of, self.actual

    @property
    def fact(self) -> "ScoreFact | None":
        """The fact about scores that stands in the place of a baseline."""
        return None if self.baseline is None else ScoreFact.named(self.baseline)

    def __str__(self) -> str:
        first = None if self.baseline is None else quoted(self.baseline)
        if self.baseline is not None and self.fact is not None:
            first = self.baseline.partition("(")[2].removesuffix(")")
        if self.actual is not None:
            return _call_text(self.metric, f"{literal_text(self.actual)}, {literal_text(self.of)}", self.population)
        name = "prediction_rate" if self.metric == "positive_rate" and self.of is not None else self.metric
        return _call_text(name, first, self.population, self.of)

    __repr__ = __str__


class ScoreFact(NamedTuple):
    """A fact about a classifier's score of a row, which stands in the place of a baseline: true is positive.

    Whoever measures asks the classifier for it and hands it on under its name, `certified_rate(0.1, norm="linf")`.

    Attributes
    ----------
    metric : str
        The rate that counts it.
    number : float
        The margin or the radius.
    norm : {"l2", "linf"} or None
        Of the radius; None: l2.
    """

    metric: str
    number: float
    norm: str | None = None

    @property
    def name(self) -> str:
        """What it is called among the baselines."""
        norm = "" if self.norm is None else f", norm={quoted(self.norm)}"
        return f"{self.metric}({number_text(self.number)}{norm})"

    @classmethod
    def named(cls, name: str) -> "ScoreFact | None":
        """The fact of that name; None where it is the name of a model."""
        found = re.fullmatch(r'(margin_below|certified_rate)\(([-+.e\d]+)(?:, norm="(l2|linf)")?\)', name)
        return None if found is None else cls(found[1], float(found[2]), found[3])


@dataclass(frozen=True, repr=False)
class Ratio:
    """A ratio of two linear forms without ratios; 0/0 is undefined and meets no constraint.

    Where either side looks at the labels of a source, rows of that source without a label are left out of both: two
    wins among two labelled changes are not one third of six changes, four of which nobody can judge.

    Attributes
    ----------
    numerator, denominator : Linear
        The denominator's range must be >= 0 and not only 0.
    name : str or None
        "precision", "f_beta", "win_loss_ratio", "win_change_ratio"; None for a user's own `a / b`.
    population, baseline, beta, of
        The arguments of a named ratio.
    """

    numerator: "Linear"
    denominator: "Linear"
    name: str | None = None
    population: Population | None = None
    baseline: str | None = None
    beta: float | None = None
    of: Literal | None = None

    def __post_init__(self) -> None:
        if self.numerator.ratios or self.denominator.ratios:
            raise GoalError(f"{self}: a ratio of ratios is not supported; divide sums of rates or counts only.")
        rates = self.numerator.rates + self.denominator.rates
        judged = {rate.population.source for rate in rates if rate.needs_label or rate.population.uses_label}
        object.__setattr__(self, "numerator", self.numerator.labelled_on(judged))
        object.__setattr__(self, "denominator", self.denominator.labelled_on(judged))
        low, high = self.denominator.range
        rounding = _negligible(self.denominator.terms)
        if low < -rounding or high <= rounding:
            raise GoalError(
                f"{self}: the denominator {self.denominator} lies in {interval_text(low, high)}, but it must be"
                " >= 0 for every classifier, and not always 0. Divide by a sum of counts, for example changes(...)."
            )

    @property
    def range(self) -> Range:
        """Attainable values where it is defined.

        Where both sides are plain sums over the rows of one population, in the same units, the ratio lies between the
        least and the greatest ratio of a single cell; the denominator is >= 0 on every cell, and positive on one.
        """
        above, below = self.numerator, self.denominator
        rates = [*above.rates, *below.rates]
        units = {rate.definition.over for rate in rates}
        baselines = sorted({rate.baseline for rate in rates if rate.baseline is not None})
        alike = len({rate.rows for rate in rates}) == 1 and units in ({None}, {When()})
        if not alike or len(baselines) > LIMITS.baselines or above.constant != 0.0 or below.constant != 0.0:
            low, high = below.range
            return quotient_range(above.range, (max(low, 0.0), high))
        with np.errstate(over="ignore", invalid="ignore"):
            places = _places((*above.terms, *below.terms))
            top, bottom = (_on_cells(side.terms, baselines, places) for side in (above, below))
            finite, infinite = bottom > _negligible(below.terms), np.abs(top) > _negligible(above.terms)
            quotients = np.copysign(np.inf, top)
            np.divide(top, bottom, out=quotients, where=finite)
        quotients = quotients[finite | infinite]
        return float(quotients.min()), float(quotients.max())

    def __str__(self) -> str:
        if self.name is None:
            return f"{_factor_text(self.numerator)} / {_factor_text(self.denominator)}"
        first = quoted(self.baseline) if self.baseline is not None else None
        return _call_text(self.name, first if self.beta is None else number_text(self.beta), self.population, self.of)

    __repr__ = __str__


Atom: TypeAlias = Rate | Ratio


@dataclass(frozen=True, repr=False)
class Linear:
    """`sum coefficient * atom + constant`; equal atoms are merged, in order of first appearance, zeros left out.

    Attributes
    ----------
    terms : tuple of (float, Rate or Ratio)
    constant : float
    ratios : tuple of Ratio
        The ratios among the atoms.
    rates : tuple of Rate
        Every rate, those inside ratios included, in order of first appearance.
    populations : tuple of Population
        Those of the rates, in order of first appearance.
    """

    terms: tuple[tuple[float, Atom], ...] = ()
    constant: float = 0.0
    ratios: tuple[Ratio, ...] = field(init=False, compare=False)
    rates: tuple[Rate, ...] = field(init=False, compare=False)
    populations: tuple[Population, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        merged: dict[Atom, float] = {}
        for coefficient, atom in self.terms:
            if not isinstance(atom, (Rate, Ratio)):
                raise GoalError(f"a linear form is made of rates and ratios, got {shown(atom)}.")
            total = merged.get(atom, 0.0) + float(coefficient)
            if not math.isfinite(total):
                raise GoalError(f"the coefficient of {atom} must be finite, got {total}.")
            merged[atom] = total
        terms, ratios, rates = [], [], dict[Rate, None]()
        for atom, coefficient in merged.items():
            if coefficient != 0.0:
                terms.append((coefficient, atom))
                if isinstance(atom, Rate):
                    rates[atom] = None
                else:
                    ratios.append(atom)
                    rates |= dict.fromkeys(atom.numerator.rates + atom.denominator.rates)
        object.__setattr__(self, "terms", tuple(terms))
        object.__setattr__(self, "constant", checked_number(self.constant, "the constant of an expression"))
        object.__setattr__(self, "ratios", tuple(ratios))
        object.__setattr__(self, "rates", tuple(rates))
        object.__setattr__(self, "populations", tuple({rate.population: None for rate in rates}))

    def plus(self, other: "Linear", factor: float = 1.0) -> "Linear":
        """`self + factor * other`."""
        terms = self.terms + tuple((factor * coefficient, atom) for coefficient, atom in other.terms)
        return Linear(terms, self.constant + factor * other.constant)

    def labelled_on(self, sources: Collection[str | None]) -> "Linear":
        """The same with rates of these sources over rows with a known label only."""
        terms = [
            (c, replace(atom, labelled=not atom.definition.needs_label))
            if isinstance(atom, Rate) and atom.population.source in sources
            else (c, atom)
            for c, atom in self.terms
        ]
        return Linear(tuple(terms), self.constant)

    def times(self, factor: float) -> "Linear":
        """`factor * self`."""
        return Linear().plus(self, factor)

    @property
    def range(self) -> Range:
        """Attainable values (an outer bound; exact where one population is used)."""
        groups: dict[object, list[tuple[float, Rate]]] = {}
        ranges = [(self.constant, self.constant)]
        for coefficient, atom in self.terms:
            if isinstance(atom, Rate):
                groups.setdefault(atom.rows, []).append((coefficient, atom))
            else:
                low, high = sorted(coefficient * end for end in atom.range)
                ranges.append((low, high))
        lows, highs = zip(*ranges, *map(group_range, groups.values()), strict=True)
        return math.fsum(lows), math.fsum(highs)

    def __str__(self) -> str:
        pieces = []
        for coefficient, atom in self.terms:
            # a user's own ratio stands in brackets unless nothing is before it
            own_ratio = isinstance(atom, Ratio) and atom.name is None
            text = f"({atom})" if own_ratio and coefficient != 1.0 else str(atom)
            factor = "" if abs(coefficient) == 1.0 else f"{number_text(abs(coefficient))} * "
            pieces.append((coefficient, factor + text))
        constant = (self.constant, number_text(abs(self.constant)))
        if self.constant > 0 and pieces and pieces[0][0] < 0:
            pieces.insert(0, constant)  # 1 - recall(), not -recall() + 1
        elif self.constant != 0 or not pieces:
            pieces.append(constant)
        text = "".join(f" {'-' if sign < 0 else '+'} {piece}" for sign, piece in pieces)
        return text.removeprefix(" + ") if pieces[0][0] >= 0 else "-" + text.removeprefix(" - ")

    __repr__ = __str__
