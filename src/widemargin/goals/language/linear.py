"""The normal form of expressions: linear combinations of rates (and, in constraints, of one ratio).

`Rate` and `Ratio` are the atoms, `Linear` the sum. All are frozen, hashable, compared by structure, and hold no data.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from widemargin.exceptions import GoalError
from widemargin.goals.language import ranges
from widemargin.goals.language.checks import checked_name, checked_number, shown
from widemargin.goals.language.metrics import METRICS, Metric
from widemargin.goals.language.populations import EVERYONE, Population
from widemargin.goals.text.printing import interval_text, number_text, quoted

__all__ = ["Atom", "Linear", "Rate", "Ratio"]


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
    """

    metric: str
    population: Population
    baseline: str | None = None

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise GoalError(f"unknown rate {shown(self.metric)}; known: {', '.join(METRICS)}.")
        if not isinstance(self.population, Population):
            raise GoalError(f"{self.metric} needs a Population, got {shown(self.population)}.")
        if self.definition.needs_baseline:
            object.__setattr__(self, "baseline", checked_name(self.baseline, f"the baseline of {self.metric}"))
        elif self.baseline is not None:
            raise GoalError(f"{self.metric} compares with no baseline, got {shown(self.baseline)}.")

    @property
    def definition(self) -> Metric:
        """Its entry in the registry."""
        return METRICS[self.metric]

    @property
    def range(self) -> ranges.Range:
        """Attainable values."""
        return self.definition.range

    def __str__(self) -> str:
        return _call_text(self.metric, None if self.baseline is None else quoted(self.baseline), self.population)

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Ratio:
    """A ratio of two linear forms without ratios; 0/0 is undefined and meets no constraint.

    Attributes
    ----------
    numerator, denominator : Linear
        The denominator's range must be >= 0 and not only 0.
    name : str or None
        "precision", "f_beta", "win_loss_ratio", "win_change_ratio"; None for a user's own `a / b`.
    population, baseline, beta
        The arguments of a named ratio.
    """

    numerator: "Linear"
    denominator: "Linear"
    name: str | None = None
    population: Population | None = None
    baseline: str | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        if self.numerator.ratios or self.denominator.ratios:
            raise GoalError(f"{self}: a ratio of ratios is not supported; divide sums of rates or counts only.")
        low, high = self.denominator.range
        rounding = ranges.negligible(self.denominator.rate_terms())
        if low < -rounding or high <= rounding:
            raise GoalError(
                f"{self}: the denominator {self.denominator} lies in {interval_text(low, high)}, but it must be"
                " >= 0 for every classifier, and not always 0. Divide by a sum of counts, for example changes(...)."
            )

    @property
    def _cellwise(self) -> bool:
        """Whether both sides are plain sums over the rows of one population, in the same units."""
        rates = [*self.numerator.rates, *self.denominator.rates]
        alike = len({rate.population.rows for rate in rates}) == 1
        units = {rate.definition.over for rate in rates}
        plain = len(units) == 1 and all(over is None or (over.label, over.baseline) == (None, None) for over in units)
        few = len({rate.baseline for rate in rates}) <= 6
        return alike and plain and few and self.numerator.constant == 0.0 and self.denominator.constant == 0.0

    @property
    def range(self) -> ranges.Range:
        """Attainable values where it is defined."""
        if self._cellwise:
            return ranges.same_cells_range(self.numerator.rate_terms(), self.denominator.rate_terms())
        low, high = self.denominator.range
        return ranges.quotient_range(self.numerator.range, (max(low, 0.0), high))

    def __str__(self) -> str:
        if self.name is None:
            return f"{_factor_text(self.numerator)} / {_factor_text(self.denominator)}"
        first = None
        if self.baseline is not None:
            first = quoted(self.baseline)
        elif self.beta is not None:
            first = number_text(self.beta)
        return _call_text(self.name, first, EVERYONE if self.population is None else self.population)

    __repr__ = __str__


Atom: TypeAlias = Rate | Ratio


@dataclass(frozen=True, repr=False)
class Linear:
    """`sum coefficient * atom + constant`; equal atoms are merged, in order of first appearance, zeros left out.

    Attributes
    ----------
    terms : tuple of (float, Rate or Ratio)
    constant : float
    """

    terms: tuple[tuple[float, Atom], ...] = ()
    constant: float = 0.0

    def __post_init__(self) -> None:
        merged: dict[Atom, float] = {}
        for coefficient, atom in self.terms:
            if not isinstance(atom, (Rate, Ratio)):
                raise GoalError(f"a linear form is made of rates and ratios, got {shown(atom)}.")
            total = merged.get(atom, 0.0) + float(coefficient)
            if not math.isfinite(total):
                raise GoalError(f"the coefficient of {atom} must be finite, got {total}.")
            merged[atom] = total
        terms = tuple((coefficient, atom) for atom, coefficient in merged.items() if coefficient != 0.0)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "constant", checked_number(self.constant, "the constant of an expression"))

    def plus(self, other: "Linear", factor: float = 1.0) -> "Linear":
        """`self + factor * other`."""
        other = other if factor == 1.0 else other.times(factor)
        return Linear(self.terms + other.terms, self.constant + other.constant)

    def times(self, factor: float) -> "Linear":
        """`factor * self`."""
        return Linear(tuple((factor * c, atom) for c, atom in self.terms), factor * self.constant)

    def without_constant(self) -> "Linear":
        """The terms alone."""
        return Linear(self.terms)

    @property
    def ratios(self) -> tuple[Ratio, ...]:
        """The ratios among the atoms."""
        return tuple(atom for _, atom in self.terms if isinstance(atom, Ratio))

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Every rate, those inside ratios included, in order of first appearance."""
        return tuple(dict.fromkeys(self._walk()))

    def _walk(self) -> Iterator[Rate]:
        for _, atom in self.terms:
            if isinstance(atom, Rate):
                yield atom
            else:
                yield from atom.numerator._walk()
                yield from atom.denominator._walk()

    @property
    def populations(self) -> tuple[Population, ...]:
        """Every population, in order of first appearance (a named ratio's own one first)."""
        found: list[Population] = []
        for _, atom in self.terms:
            if isinstance(atom, Rate):
                found.append(atom.population)
            else:
                found += [] if atom.population is None else [atom.population]
                found += atom.numerator.populations + atom.denominator.populations
        return tuple(dict.fromkeys(found))

    def rate_terms(self) -> list[ranges.Term]:
        """The terms that are rates, as the range arithmetic takes them."""
        pairs = ((c, atom) for c, atom in self.terms if isinstance(atom, Rate))
        return [ranges.Term(c, atom.definition, atom.baseline) for c, atom in pairs]

    @property
    def range(self) -> ranges.Range:
        """Attainable values (an outer bound; exact where one population is used)."""
        groups: dict[object, list[tuple[float, Atom]]] = {}
        intervals: list[ranges.Range] = [(self.constant, self.constant)]
        for coefficient, atom in self.terms:
            if isinstance(atom, Rate):
                groups.setdefault(atom.population.rows, []).append((coefficient, atom))
            else:
                intervals.append(ranges.scaled(atom.range, coefficient))
        intervals += [ranges.group_range(Linear(tuple(terms)).rate_terms()) for terms in groups.values()]
        return ranges.added(*intervals)

    def __str__(self) -> str:
        pieces = [(coefficient, _term_text(coefficient, atom)) for coefficient, atom in self.terms]
        constant = (self.constant, number_text(abs(self.constant)))
        if self.constant > 0 and pieces and pieces[0][0] < 0:
            pieces.insert(0, constant)  # 1 - recall(), not -recall() + 1
        elif self.constant != 0 or not pieces:
            pieces.append(constant)
        return _sum_text(pieces)

    __repr__ = __str__


def _sum_text(pieces: Iterable[tuple[float, str]]) -> str:
    text = ""
    for sign, piece in pieces:
        if text:
            text += f" - {piece}" if math.copysign(1.0, sign) < 0 else f" + {piece}"
        else:
            text = f"-{piece}" if math.copysign(1.0, sign) < 0 else piece
    return text


def _term_text(coefficient: float, atom: Atom) -> str:
    """A term without its sign; a user's own ratio stands in brackets unless nothing is before it."""
    own_ratio = isinstance(atom, Ratio) and atom.name is None
    body = f"({atom})" if own_ratio and coefficient != 1.0 else str(atom)
    return body if abs(coefficient) == 1.0 else f"{number_text(abs(coefficient))} * {body}"


def _factor_text(form: Linear) -> str:
    """Operand of a division: brackets unless it is one plain rate or one number."""
    if len(form.terms) == 1 and form.constant == 0.0 and form.terms[0][0] == 1.0:
        return str(form)
    if not form.terms and form.constant >= 0.0:
        return str(form)
    return f"({form})"


def _call_text(name: str, first: str | None, population: Population) -> str:
    on = "" if population == EVERYONE else population.reference
    if first is None:
        return f"{name}({on})"
    return f"{name}({first}, on={on})" if on else f"{name}({first})"
