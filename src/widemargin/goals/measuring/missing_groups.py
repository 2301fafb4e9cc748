"""What rates and constraints can be where some rows' groups are not known: least and largest over all ways to fill in.

A row whose group is missing is in no population, so every rate of a population is a rate of those who answered. Here
each missing value may be any value that its column has elsewhere, each row for itself, and every way to fill them all
in is a table that may be the true one.

A rate is a fraction, and each row adds to its numerator and its denominator, whatever the others do. The extreme of one
fraction is found by Dinkelbach's method: at the level t every row takes the way that is best for `above - t * below`,
and the fraction found is the next level. A constraint of several rates is monotone in each. Where a row has one way
that is best for all of them at every level that they can have, it takes it. Ways that are left are tried out; where
there are too many, the ends of the single rates are put together, which is never too narrow.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from widemargin._text import aligned, digits, fields_of, printable, with_lists
from widemargin._typing import Bools, Floats, Ints
from widemargin.exceptions import DataError
from widemargin.goals.binding.cells import turns
from widemargin.goals.binding.membership import members
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable, TableColumn
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.linear import Linear, Range, Rate, Ratio, quotient_range
from widemargin.goals.measuring.rates_of_predictions import (
    TOLERANCE,
    RateTable,
    constraint_standing,
    finite,
    rate_values,
    rows_that_count,
)

TRIED = 20_000
"""Ways to fill in that are tried one by one, for each end of a constraint: a tenth of a second."""
WAYS = 1_000_000
"""Ways of single rows that are looked at: a few hundred megabytes."""


@dataclasses.dataclass(frozen=True)
class RateSpan:
    """What a rate can be.

    Attributes
    ----------
    text : str
        The rate as it stands in texts: `positive_rate(women)`.
    value, least, largest : float or None
        Of the rows whose group is known, and over all ways to fill in the others; None where it is undefined.
    """

    text: str
    value: float | None
    least: float | None
    largest: float | None


@dataclasses.dataclass(frozen=True)
class ConstraintSpan:
    """What a constraint can be.

    Attributes
    ----------
    label : str
        As in `ConstraintReport`.
    least, largest : float or None
        Of the slack (how far on the right side of its bound); of two rates compared by a factor the slack of their
        ratio, unless the denominator may be 0. None where it is undefined whatever is filled in, or not exact and
        without a known end.
    is_exact : bool
        Whether both are attained; else the span may be too wide, but never too narrow.
    holds : {"yes", "no", "open"}
        Whether it is met in every case, or never; "open" if that depends on what is filled in.
    """

    label: str
    least: float | None
    largest: float | None
    is_exact: bool
    holds: Literal["yes", "no", "open"]


@dataclasses.dataclass(frozen=True)
class MissingGroups:
    """How far rows of unknown group can change the rates and constraints of a goal.

    Attributes
    ----------
    n_rows : int
        Rows of which it is unknown, by missing values, whether they belong to some population.
    rates : tuple of RateSpan
        Those of the constraints that these rows can move.
    constraints : tuple of ConstraintSpan
        All constraints, in their order.
    """

    n_rows: int
    rates: tuple[RateSpan, ...]
    constraints: tuple[ConstraintSpan, ...]

    @property
    def is_certain(self) -> bool:
        """Whether every constraint is met in every case."""
        return all(item.holds == "yes" for item in self.constraints)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any] | None) -> "MissingGroups | None":
        """From what `to_dict` returned (also after JSON)."""
        return None if plain is None else cls(**fields_of(cls, plain))

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON; `from_dict` reads them."""
        return dataclasses.asdict(self, dict_factory=with_lists)

    def __str__(self) -> str:
        if not self.n_rows:
            return "It is known of every row to which populations of the constraints it belongs."
        rates = [["rate", "of known groups", "can be"]]
        rates += [[printable(item.text), digits(item.value), _span(item.least, item.largest)] for item in self.rates]
        rules = [["constraint", "slack can be", "holds"]]
        moved = [item for item in self.constraints if item.least != item.largest or item.holds == "open"]
        for item in moved:
            words = {"yes": "always", "no": "never", "open": "OPEN"}
            about = "" if item.is_exact else ", at the widest"
            rules.append([printable(item.label), _span(item.least, item.largest, "+") + about, words[item.holds]])
        lines = [f"The group of {self.n_rows} rows is not known. Over all ways to fill them in:"]
        lines += [*(["", *aligned(rates)] if self.rates else []), *(["", *aligned(rules)] if moved else []), ""]
        certain = sum(item.holds == "yes" for item in self.constraints)
        return "\n".join([*lines, f"Constraints that hold in every case: {certain} of {len(self.constraints)}."])


def _span(least: float | None, largest: float | None, sign: Literal["", "+"] = "") -> str:
    if least is None or largest is None:
        ends = [f"{digits(least, sign)} or more"] if least is not None else []
        ends += [f"{digits(largest, sign)} or less"] if largest is not None else []
        return ends[0] if ends else "undefined"
    return f"{digits(least, sign)} to {digits(largest, sign)}"


class _Alike(NamedTuple):
    """Rows of unknown group that are alike, and the ways in which they can be filled in.

    Attributes
    ----------
    above, below : ndarray of shape (ways, r)
        What one of them adds to the numerators and the denominators of r rates.
    """

    above: Floats
    below: Floats
    n_rows: int


class _Sums(NamedTuple):
    """Numerators and denominators of r rates, shape (r,) or (r, B)."""

    above: Floats
    below: Floats


def missing_groups(tied: TiedGoal, sources: Sequence[Source], positive: Sequence[Bools]) -> MissingGroups:
    """The spans of all rates and constraints.

    Parameters
    ----------
    sources : sequence of Source
        Those it was tied to; counted rows, in which a column has few values.
    positive : sequence of ndarray of bool, shape (n_s,)
        What was predicted, by source.

    Raises
    ------
    DataError
        There are too many ways to fill in a single row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from widemargin.diagnostics import audit
    >>> goal = 'women = population(sex == "F")\\nsubject to floor: positive_rate(women) >= 0.4'
    >>> people = pa.table({"sex": ["F", None, None, "M"]})
    >>> report = audit([1, 1, 0, 0], goal, y=[1, 1, 0, 0], populations=people, missing_groups=True)
    >>> report.missing_groups.rates
    (RateSpan(text='positive_rate(women)', value=1.0, least=0.5, largest=1.0),)
    """
    table = tied.table
    fixed = _Sums(np.zeros(len(table.rates)), np.zeros(len(table.rates)))
    alike: dict[bytes, _Alike] = {}
    n_rows = 0
    for source, chosen in zip(sources, positive, strict=True):
        n_rows += _collect(table.rates, source, chosen, fixed, alike)
    fixed.below[table.is_count] = 1.0
    groups = list(alike.values())
    ends: list[Range | None] = []
    for j in range(len(table.rates)):
        ways = [(item.above[:, j], item.below[:, j], item.n_rows) for item in groups]
        low, high = (_extreme(float(fixed.above[j]), float(fixed.below[j]), ways, sign) for sign in (-1.0, 1.0))
        ends.append(None if low is None or high is None else (low, high))
    values = tied.measure(tied.positive_mass(positive))
    known = table.values(values.positive_mass)
    moved = [j for j in range(len(table.rates)) if any(_varies(item, j) for item in groups)]
    of_constraints = {rate for item in tied.constraints for rate in item.constraint.rates}
    spans = _Spans(table, fixed, groups, ends)
    return MissingGroups(
        n_rows,
        tuple(
            RateSpan(str(table.rates[j]), finite(known[j]), *(end if (end := ends[j]) else (None, None)))
            for j in moved if table.rates[j] in of_constraints
        ),
        tuple(
            spans.of_constraint(item.constraint, item.constraint.label or f"#{j + 1}")
            for j, item in enumerate(tied.constraints)
        ),
    )  # fmt: skip


def _varies(item: _Alike, j: int) -> bool:
    return bool(np.ptp(item.above[:, j]) or np.ptp(item.below[:, j]))


def _collect(rates: Sequence[Rate], source: Source, chosen: Bools, fixed: _Sums, alike: dict[bytes, _Alike]) -> int:
    """Add known rows of a source to the sums and the others to those that are alike; returns how many these are."""
    here = [(j, rate) for j, rate in enumerate(rates) if rate.population.source == source.name]
    truths = {rate.population.rows: members(rate.population, source) for _, rate in here}
    unsure = np.zeros(source.n_rows, bool)
    for truth in truths.values():
        unsure |= False if truth.unknown is None else truth.unknown
    count = np.ones(source.n_rows, np.int64) if source.repeats is None else source.repeats.count
    weight = np.ones(source.n_rows) if source.weight is None else source.weight
    labels = np.zeros(source.n_rows, np.int8) if source.labels is None else source.labels
    entry, filled = _filled(source, unsure)
    above, below = np.zeros((2, len(entry), len(rates)))
    places: dict[object, Bools] = {}
    for j, rate in here:
        truth = truths[rate.population.rows]
        if rate.population.rows not in places:
            # Where Kleene's logic knows the answer it stays: `is_null()` speaks of the table as it is.
            anew = members(rate.population, filled).true
            open_rows = np.zeros(source.n_rows, bool) if truth.unknown is None else truth.unknown
            places[rate.population.rows] = np.where(open_rows[entry], anew, truth.true[entry])
        alpha, beta, over = rows_that_count(rate, labels, source.baselines, turns(source, rate))
        inside = places[rate.population.rows] * weight[entry]
        above[:, j] = np.where(chosen, alpha, beta)[entry] * inside
        below[:, j] = 0.0 if rate.definition.is_count else over[entry] * inside
    starts = np.searchsorted(entry, np.arange(source.n_rows + 1))
    is_known = np.flatnonzero(~unsure)
    fixed.above[:] += count[is_known] @ above[starts[is_known]]
    fixed.below[:] += count[is_known] @ below[starts[is_known]]
    for e in np.flatnonzero(unsure).tolist():
        ways = np.unique(np.hstack([above, below])[starts[e] : starts[e + 1]], axis=0)
        n = int(count[e])
        if len(ways) == 1:  # whatever is filled in, the row adds the same
            fixed.above[:] += n * ways[0, : len(rates)]
            fixed.below[:] += n * ways[0, len(rates) :]
            continue
        key = ways.tobytes()
        n += alike[key].n_rows if key in alike else 0
        alike[key] = _Alike(ways[:, : len(rates)], ways[:, len(rates) :], n)
    return int(count[unsure].sum())


def _filled(source: Source, unsure: Bools) -> tuple[Ints, Source]:
    """The rows with every way to fill in those of unknown group: which row each stands for, and all as a source."""
    table = source.table
    if table is None or not unsure.any():
        return np.arange(source.n_rows), source
    columns = {name: table.column(name) for name in table.columns}
    # For each column with gaps an entry that holds each value they can be filled in with.
    gaps = {name: column.missing for name, column in columns.items() if column.missing is not None}
    donors = {
        name: np.flatnonzero(~gap)[np.unique(columns[name].values[~gap], return_index=True)[1]]
        for name, gap in gaps.items() if not gap.all()
    }  # fmt: skip
    entries: list[int] = []
    taken: dict[object, list[int]] = {name: [] for name in donors}
    for e in range(source.n_rows):
        open_columns = [name for name in donors if unsure[e] and gaps[name][e]]
        n_ways = math.prod(len(donors[name]) for name in open_columns)
        if len(entries) + n_ways > WAYS:
            raise DataError(
                f"a row without {', '.join(map(str, open_columns))} can be filled in in {n_ways} ways, and more than "
                f"{WAYS} are too many to look at. Name fewer values in populations and bundles."
            )
        for ways in itertools.product(*(donors[name].tolist() for name in open_columns)):
            entries.append(e)
            for name in donors:
                taken[name].append(ways[open_columns.index(name)] if name in open_columns else e)
    entry = np.array(entries)
    made = {}
    for name, column in columns.items():
        rows = np.array(taken[name]) if name in donors else entry
        missing = None if column.missing is None else column.missing[rows]
        made[name] = TableColumn(name, column.kind, column.dtype, column.values[rows], missing, column.categories)
    return entry, dataclasses.replace(
        source, labels=None if source.labels is None else source.labels[entry], weight=None, repeats=None,
        table=PopulationTable(len(entry), dict.fromkeys(made, made.__getitem__), made, len(made)),
        baselines={name: signs[entry] for name, signs in source.baselines.items()}, n_rows=len(entry),
    )  # fmt: skip


def _extreme(top: float, bottom: float, ways: Sequence[tuple[Floats, Floats, int]], sign: float) -> float | None:
    """The least (`sign` -1) or largest fraction `top / bottom` to which each row adds one of its ways; exact.

    None where the denominator is zero whatever is filled in.
    """

    def sums(taken: Sequence[int]) -> tuple[float, float]:
        return (
            math.fsum([top, *(n * float(above[i]) for (above, _, n), i in zip(ways, taken, strict=True))]),
            math.fsum([bottom, *(n * float(below[i]) for (_, below, n), i in zip(ways, taken, strict=True))]),
        )

    # Dinkelbach's method begins at any fraction that is defined: at the one of the largest denominator.
    above, below = sums([int(np.argmax(item[1])) for item in ways])
    if below <= 0.0:
        return None
    level = above / below
    while True:
        above, below = sums([int(np.argmax(sign * (item[0] - level * item[1]))) for item in ways])
        # At the extreme nothing is left to gain; a denominator of zero gains nothing either.
        if below <= 0.0 or sign * (above / below - level) <= 1e-14 * max(1.0, abs(level)):
            return level
        level = above / below


class _Spans(NamedTuple):
    """The rates of a goal over all ways to fill in.

    Attributes
    ----------
    fixed : _Sums
        What the rows of known groups add to each rate.
    groups : list of _Alike
        All other rows.
    ends : list of tuple of float, or None
        The least and the largest value of each rate; None where it is undefined in every way.
    """

    table: RateTable
    fixed: _Sums
    groups: Sequence[_Alike]
    ends: Sequence[Range | None]

    def of_constraint(self, constraint: Constraint, label: str) -> ConstraintSpan:
        """The span of a constraint's slack; where it compares two rates by a factor, in units of their ratio."""
        if constraint.factor is not None:
            above, below, is_floor = constraint.compared_with_level()
            if below is not None and self._range_of(below)[0] > 1e-12:  # else there is no ratio in some ways
                ratio = Linear(((1.0, Ratio(above, below)),))
                # Where one side alone looks at labels, the ratio would be that of the labelled rows: other rates.
                if all(rate in self.table.place for rate in ratio.rates):
                    constraint = Constraint(ratio, ">=" if is_floor else "<=", Linear((), constraint.factor.value))
        used = [self.table.place[rate] for rate in constraint.rates]
        own = [item for item in self.groups if any(_varies(item, j) for j in used)]
        # To the rates of this constraint the other rows add the same whatever they are filled in with.
        others = [item for item in self.groups if not any(_varies(item, j) for j in used)]
        fixed = _Sums(
            sum((item.n_rows * item.above[0] for item in others), self.fixed.above),
            sum((item.n_rows * item.below[0] for item in others), self.fixed.below),
        )
        cleared = constraint.cleared
        may_be_undefined = cleared.denominator is not None and self._range_of(cleared.denominator)[0] <= 1e-12
        spans: list[tuple[float | None, bool]]
        if cleared.ratio is not None and all(rate.definition.is_count for rate in constraint.rates):
            # Both sides are sums over rows, so the ratio is one fraction.
            sides = [self._weighted(side) for side in (cleared.ratio.numerator, cleared.ratio.denominator)]
            top, bottom = (float(fixed.above @ factors) + constant for factors, constant in sides)
            ways = [(item.above @ sides[0][0], item.above @ sides[1][0], item.n_rows) for item in own]
            spans = [(_extreme(top, bottom, ways, sign), True) for sign in (-1.0, 1.0)]
            bound, turn = cleared.ratio_bound or 0.0, 1.0 if cleared.sense == ">=" else -1.0
            spans = [(None if end is None else turn * (end - bound), exact) for end, exact in spans][:: int(turn)]
        else:
            of_own = self._replace(fixed=fixed, groups=own)
            spans = [of_own._end(constraint, sign) for sign in (-1.0, 1.0)]
        (least, exact_least), (largest, exact_largest) = spans
        near = -TOLERANCE * max(1.0, abs(cleared.ratio_bound or cleared.bound))
        holds: Literal["yes", "no", "open"] = "open"
        if largest is None:  # undefined in every way, or without an end that is known
            holds = "no" if exact_largest else "open"
        elif largest < near:
            holds = "no"
        elif least is not None and least >= near and not may_be_undefined:
            holds = "yes"
        return ConstraintSpan(label, least, largest, exact_least and exact_largest, holds)

    def _weighted(self, form: Linear) -> tuple[Floats, float]:
        """Coefficients of a form on the rates of the table, and its constant."""
        factors = np.zeros(len(self.table.rates))
        for coefficient, atom in form.terms:
            assert isinstance(atom, Rate)  # there is no ratio within a ratio
            factors[self.table.place[atom]] += coefficient
        return factors, form.constant

    def _range_of(self, form: Linear) -> Range:
        """Where a form without ratios lies, each rate for itself."""
        low = high = form.constant
        for coefficient, atom in form.terms:
            assert isinstance(atom, Rate)
            first, last = sorted(
                coefficient * end for end in self.ends[self.table.place[atom]] or atom.definition.range
            )
            low, high = low + first, high + last
        return low, high

    def _end(self, constraint: Constraint, sign: float) -> tuple[float | None, bool]:
        """The least (`sign` -1) or largest slack, and whether it is attained."""
        table, groups = self.table, self.groups
        directions, outer = self._directions(constraint)
        best = [self._worth_trying(item, sign * directions) for item in groups]
        # Where the constraint is undefined in some of the best ways, one that these beat may be the best of the others.
        for tried in (best, groups):
            n_ways = math.prod(math.comb(item.n_rows + len(item.above) - 1, len(item.above) - 1) for item in tried)
            if n_ways > TRIED:
                break
            above, below = (np.repeat(part[:, None], n_ways, axis=1) for part in self.fixed)
            for number, taken in enumerate(itertools.product(*(list(_shares(len(i.above), i.n_rows)) for i in tried))):
                for item, shares in zip(tried, taken, strict=True):
                    above[:, number] += shares @ item.above
                    below[:, number] += shares @ item.below
            slacks = constraint_standing(constraint, table, rate_values(above, below, table.is_count)).slack
            defined = slacks[~np.isnan(slacks)]
            if len(defined) == n_ways or tried is groups:
                return (float(sign * (sign * defined).max()) if len(defined) else None), True
        end = outer[0] if sign < 0.0 else outer[1]
        return (float(end) if math.isfinite(end) else None), False

    def _directions(self, constraint: Constraint) -> tuple[Floats, Range]:
        """In which direction each rate moves the slack (+1, -1; NaN: unknown, 0: not at all); where it surely lies."""
        cleared = constraint.cleared
        turn = 1.0 if cleared.sense == ">=" else -1.0
        if cleared.ratio is None:
            factors, _ = self._weighted(constraint.difference)
            low, high = sorted(turn * end for end in self._range_of(constraint.difference))
            return turn * np.sign(factors), (low, high)
        sides = cleared.ratio.numerator, cleared.ratio.denominator
        top, bottom = map(self._range_of, sides)
        (of_top, _), (of_bottom, _) = map(self._weighted, sides)
        directions = turn * (np.sign(of_top) - np.sign(of_bottom))
        # A rate of both sides, or a numerator that may be negative, leaves it open what is best.
        if top[0] < 0.0 or (of_top * of_bottom).any():
            directions[(of_top != 0.0) | (of_bottom != 0.0)] = np.nan
        low, high = quotient_range(top, (max(bottom[0], 0.0), bottom[1])) if bottom[1] > 0.0 else (-math.inf, math.inf)
        bound = cleared.ratio_bound or 0.0
        low, high = sorted((turn * (low - bound), turn * (high - bound)))
        return directions, (low, high)

    def _worth_trying(self, item: _Alike, directions: Floats) -> _Alike:
        """Without the ways that another one beats in every rate, at both ends of the levels that the rate can have."""
        used = np.flatnonzero(directions != 0.0)
        levels = np.array([self.ends[j] or (0.0, 1.0) for j in used.tolist()]).reshape(-1, 2)
        # A fraction at level t gains by a change of its sums where `above - t * below` grows, which is linear in t.
        gains = np.concatenate([item.above[:, used] - levels[:, end] * item.below[:, used] for end in (0, 1)], axis=1)
        signs = np.tile(directions[used], 2)
        keep: list[int] = []
        for i in range(len(gains)):
            beaten = False
            for k in (*keep, *range(i + 1, len(gains))):
                change = gains[k] - gains[i]
                better = np.where(np.isnan(signs), change == 0.0, np.nan_to_num(signs) * change >= -1e-15)
                beaten = beaten or bool(better.all())
            if not beaten:
                keep.append(i)
        return _Alike(item.above[keep], item.below[keep], item.n_rows)


def _shares(ways: int, count: int) -> Iterator[Floats]:
    """All numbers of rows that take each way."""
    if ways == 1:
        yield np.array([float(count)])
        return
    for cuts in itertools.combinations(range(count + ways - 1), ways - 1):
        yield np.diff(np.array([-1, *cuts, count + ways - 1])) - 1.0
