"""Rows on which two classifiers differ, counted by population; blocks of rows add up in any order."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from widemargin._text import listing
from widemargin._typing import Bools, Classifier, Column, Features, Label, Signs, Table
from widemargin.diagnostics.discordance import gain_interval, labels_needed, mcnemar_p
from widemargin.exceptions import DataError
from widemargin.goals.binding.cells import members
from widemargin.goals.binding.sources import ClassPair, Source, encode_labels, make_source
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import Compare
from widemargin.goals.measuring.counting import CountedRows, columns_used
from widemargin.goals.measuring.intervals import clopper_pearson
from widemargin.rows import Rows, length_of

__all__ = ["ComparisonCounts", "PopulationComparison"]

_OTHER = "the first classifier"

_Estimate = tuple[float | None, float | None, float | None]


@dataclasses.dataclass(frozen=True)
class PopulationComparison:
    """Classifier B against classifier A on the rows of one population.

    Attributes
    ----------
    name : str
    n_rows, changes : int
        Rows, and those on which the two differ.
    wins, losses : int
        Of these, labelled ones on which B is right, and on which A is.
    churn, churn_lower, churn_upper : float or None
        Share of rows on which they differ (None: no rows), with the interval of Clopper and Pearson.
    win_share, win_share_lower, win_share_upper : float or None
        Share of wins among the labelled rows on which they differ, with the interval; None without such rows.
    gain, gain_lower, gain_upper : float or None
        Accuracy of B minus that of A, with an interval (`gain_interval`).
    p_value : float or None
        Of the exact two-sided test of McNemar.
    verdict : str
        `"B better"` or `"A better"` (by their names) where the test decides at level 1 - confidence, else
        `"undecided"`; `"no labels"` without any; `"equal"` where they never differ.
    labels_needed : int or None
        Labelled rows on which the two differ that prove the difference with the asked power: the estimated difference,
        or without labels the assumed one. None: no number does.
    rows_needed : int or None
        Rows to draw until so many are found.
    """

    name: str
    n_rows: int
    changes: int
    wins: int
    losses: int
    churn: float | None
    churn_lower: float | None
    churn_upper: float | None
    win_share: float | None
    win_share_lower: float | None
    win_share_upper: float | None
    gain: float | None
    gain_lower: float | None
    gain_upper: float | None
    p_value: float | None
    verdict: str
    labels_needed: int | None
    rows_needed: int | None


class ComparisonCounts:
    """What a comparison needs of the rows seen so far; can be pickled, and merged in any order.

    Parameters
    ----------
    goal : Goal
        Its populations are compared one by one, and the rows of each of its external data sets.
    classes, pos_label
        As in `AuditCounts`.

    Attributes
    ----------
    n_rows, n_labelled : int
        Of the main rows.
    """

    def __init__(self, goal: Goal, *, classes: Sequence[Label] | None = None, pos_label: Label = None) -> None:
        self.goal = goal
        self.n_rows = 0
        self.n_labelled = 0
        self._pair = ClassPair(classes, pos_label)
        looked_at = columns_used(goal)
        self._named = {name: dict(_populations(goal, name)) for name in (None, *goal.sources)}
        self._baselines: dict[str | None, tuple[str, ...]] = {}
        self._parts: dict[str | None, CountedRows] = {}
        for name, named in self._named.items():
            asked = [baseline for population in named.values() for baseline in population.baselines]
            self._baselines[name] = tuple(dict.fromkeys(asked))
            self._parts[name] = CountedRows(name, looked_at.get(name, {}), (*self._baselines[name], _OTHER))

    @property
    def positive(self) -> Label:
        """The positive class."""
        return self._pair.positive

    @property
    def is_labelled(self) -> bool:
        """Whether every row seen has a label."""
        return 0 < self.n_rows == self.n_labelled

    def update(
        self,
        predictions_a: Column,
        predictions_b: Column,
        y: Column | None = None,
        *,
        X: Features | None = None,
        sample_weight: Column | None = None,
        populations: Table | None = None,
        baselines: Mapping[str, Column | Classifier] | None = None,
        source: str | None = None,
    ) -> None:
        """Count a block of rows, the main ones or those of an external data set (`source`); labels may be missing.

        Raises
        ------
        DataError
            The goal has no such external data set, or the rows do not fit together.
        """
        rows = Rows(X, y, sample_weight, populations, baselines=baselines or {}, source=source)
        self.add(rows, predictions_a, predictions_b)

    def add(self, rows: Rows, predictions_a: Column, predictions_b: Column) -> None:
        """Count a block of rows; errors as in `update`."""
        if rows.source not in self._parts:
            raise DataError(f"rows of {rows.source!r} were given, and the goal uses {listing(self.goal.sources)}.")
        n_rows = length_of(predictions_b)
        where = "" if rows.source is None else f" for external {rows.source!r}"
        vectors = {f"the predictions of A{where}": predictions_a, f"the predictions of B{where}": predictions_b}
        pair = self._pair.learn(vectors if rows.y is None else {**vectors, "y": rows.y})
        # Labels may be missing here, in the main rows, too, so they are encoded apart.
        source = make_source(rows.replaced(y=None), self._baselines[rows.source], classes=pair, n_rows=n_rows)
        labels = np.zeros(n_rows, np.int8)
        if rows.y is not None:
            labels = encode_labels(rows.y, pair, pair[1], allow_missing=True)
        first, second = (encode_labels(values, pair, pair[1], what=what) for what, values in vectors.items())
        signs = {**source.baselines, _OTHER: first}
        counted = dataclasses.replace(source, labels=labels, baselines=signs)
        self._parts[rows.source].add(counted, second > 0, None)
        if rows.source is None:
            self.n_rows += n_rows
            self.n_labelled += int(np.count_nonzero(labels))

    def merge(self, other: "ComparisonCounts") -> Self:
        """Take in the counts of other rows; returns self."""
        if other.goal != self.goal:
            raise DataError("counts for two different goals cannot be merged. Count both for the same goal.")
        self._pair.join(other._pair)
        for name, part in self._parts.items():
            part.join(other._parts[name])
        self.n_rows += other.n_rows
        self.n_labelled += other.n_labelled
        return self

    def compared(
        self, names: Sequence[str], *, confidence: float, power: float, gain: float
    ) -> tuple[tuple[PopulationComparison, ...], list[str]]:
        """The populations, all rows first, those of external data sets last, and what is to be said about them."""
        lines, notes = [], list[str]()
        for part_name, part in self._parts.items():
            if part_name is not None and not part.n_rows:
                notes.append(f"external data set {part_name}: no rows were given.")
                continue
            counted = part.counted()
            source = counted.source
            labels = source.labels if source.labels is not None else np.zeros(source.n_rows, np.int8)
            # Only rows on which the two differ tell which one is better; B is right there if it says the label.
            differ = counted.positive != (source.baselines[_OTHER] > 0)
            right = differ & ((labels > 0) == counted.positive) & (labels != 0)
            wrong = differ & ~right & (labels != 0)
            for name, inside in self._memberships(source, labels, notes):
                tallies = [_tally(source, inside & rows) for rows in (np.ones_like(differ), differ, right, wrong)]
                lines.append(_compared(name, tallies, names, confidence, power, gain))
            if source.weight is not None:
                everyone = _tally(source, np.ones_like(differ))
                where = "rows" if part_name is None else f"the rows of {part_name}"
                notes.append(
                    f"{where} have weights: shares are weighted, and intervals, tests and numbers of labels go by "
                    f"effective numbers of rows (Kish), {everyone.effective:.6g} of all {everyone.rows}."
                )
        return tuple(lines), notes

    def _memberships(self, source: Source, labels: Signs, notes: list[str]) -> Iterator[tuple[str, Bools]]:
        prefix = "" if source.name is None else f"{source.name}: "
        yield source.name or "all rows", np.ones(source.n_rows, bool)
        named = self._named[source.name]
        for name, population in named.items():
            if population.uses_label and not labels.any():
                notes.append(f"population {name} needs labels, and there are none.")
            else:
                yield f"{prefix}{name}", members(population, source).true
        bundles = [entry for entry in self.goal.constraints if isinstance(entry, Bundle)]
        for column in dict.fromkeys(entry.column for entry in bundles if _source_of(entry) == source.name):
            values = [] if source.table is None else source.table.column(column).distinct()
            if len(values) > 50:  # more lines would bury the others
                notes.append(f"column {column} has {len(values)} values; they are not compared one by one.")
                continue
            for value in values:
                group = Population(None, source.name, Compare(column, "==", value))
                if group.rows not in {item.rows for item in named.values()}:
                    yield f"{prefix}{column} == {value!r}", members(group, source).true


class _Tally(NamedTuple):
    """Rows of positive weight, their weight and the sum of its squares."""

    rows: int
    weight: float
    squares: float

    def __add__(self, other: object) -> "_Tally":
        assert isinstance(other, _Tally)
        return _Tally(self.rows + other.rows, self.weight + other.weight, self.squares + other.squares)

    @property
    def effective(self) -> float:
        """Effective number of rows, `(sum w)^2 / sum w^2` (Kish, *Survey Sampling*, 1965); all if weights are equal."""
        if self.weight == self.squares == self.rows:
            return float(self.rows)
        return self.weight**2 / self.squares


def _tally(source: Source, inside: Bools) -> _Tally:
    count = source.repeats.count[inside] if source.repeats is not None else np.ones(int(inside.sum()), np.int64)
    if source.weight is None:
        rows = int(count.sum())
        return _Tally(rows, float(rows), float(rows))
    weight = source.weight[inside]
    return _Tally(int(count[weight > 0.0].sum()), float(count @ weight), float(count @ weight**2))


def _source_of(entry: Bundle) -> str | None:
    return None if entry.population is None else entry.population.source


def _populations(goal: Goal, source: str | None) -> Iterator[tuple[str, Population]]:
    """The goal's populations of the main rows or an external data set, each once, by name (or condition)."""
    seen: set[object] = {(source, None)}
    for entry in goal.constraints:
        mentioned: list[Population] = []
        if isinstance(entry, Constraint):
            mentioned = [*entry.lhs.populations, *entry.rhs.populations]
        elif isinstance(entry, Bundle) and entry.population is not None:
            mentioned = [entry.population]
        for population in mentioned:
            if population.source == source and population.rows not in seen:
                seen.add(population.rows)
                yield population.name or str(population.where), population


def _compared(
    name: str, tallies: Sequence[_Tally], names: Sequence[str], confidence: float, power: float, gain: float
) -> PopulationComparison:
    """One line; with weights intervals and tests take effective numbers of rows (Korn and Graubard 1998)."""
    everyone, changed, won, lost = tallies
    told, size = won + lost, everyone.effective
    nothing: _Estimate = (None, None, None)
    churn, share, better = nothing, nothing, nothing
    if everyone.rows:
        rate = changed.weight / everyone.weight
        churn = (rate, *clopper_pearson(rate * size, size, confidence))
    if told.rows:
        part = won.weight / told.weight
        share = (part, *clopper_pearson(part * told.effective, told.effective, confidence))
    p_value = needed = None
    verdict = "equal" if everyone.rows and not changed.rows else "no labels"
    if told.rows and churn[0] is not None and share[0] is not None:
        wins, losses = share[0] * told.effective, (1.0 - share[0]) * told.effective
        ends = gain_interval(wins, losses, churn[0] * size, size, confidence)
        better = (churn[0] * (2.0 * share[0] - 1.0), *ends)
        p_value = mcnemar_p(wins, losses)
        verdict = "undecided"
        if p_value <= 1.0 - confidence:
            verdict = f"{names[1] if wins > losses else names[0]} better"
        needed = labels_needed(share[0], power=power, alpha=1.0 - confidence)
        needed = None if needed is None else math.ceil(needed * (told.rows / told.effective))
    elif churn[0] and gain <= churn[0]:
        needed = labels_needed(0.5 + gain / (2.0 * churn[0]), power=power, alpha=1.0 - confidence)
        needed = None if needed is None else math.ceil(needed * (changed.rows / changed.effective))
    return PopulationComparison(
        name, everyone.rows, changed.rows, won.rows, lost.rows, *churn, *share, *better, p_value, verdict, needed,
        None if needed is None else int(np.ceil(needed * everyone.rows / changed.rows)),
    )  # fmt: skip
