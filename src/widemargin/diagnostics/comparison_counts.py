"""Rows on which two classifiers differ, counted by population; blocks of rows add up in any order."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from widemargin.diagnostics.class_pair import ClassPair
from widemargin.diagnostics.discordance import gain_interval, labels_needed, mcnemar_p
from widemargin.exceptions import DataError
from widemargin.goals.bundles import Bundle
from widemargin.goals.constraints import Constraint
from widemargin.goals.counting import CountedRows
from widemargin.goals.digest import columns_used
from widemargin.goals.goal import Goal
from widemargin.goals.intervals import clopper_pearson
from widemargin.goals.labels import encode_labels
from widemargin.goals.membership import members
from widemargin.goals.populations import EVERYONE, Population
from widemargin.goals.predicates import Compare
from widemargin.goals.sources import Source, count_rows, make_source

__all__ = ["ALL_ROWS", "ComparisonCounts", "PopulationComparison"]

ALL_ROWS = "all rows"
MOST_GROUPS = 50
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
        Its populations of the main rows are compared one by one.
    classes, pos_label
        As in `AuditCounts`.

    Attributes
    ----------
    n_rows, n_labelled : int
    """

    def __init__(self, goal: Goal, *, classes: Sequence[Any] | None = None, pos_label: Any = None) -> None:
        self.goal = goal
        self.n_rows = 0
        self.n_labelled = 0
        self._pair = ClassPair(classes, pos_label)
        self._named = dict(_populations(goal))
        self._columns = [entry.column for entry in goal.constraints if isinstance(entry, Bundle) and _is_main(entry)]
        asked = [name for population in self._named.values() for name in population.baselines]
        self._baselines = tuple(dict.fromkeys(asked))
        self._rows = CountedRows(None, columns_used(goal).get(None, {}), (*self._baselines, _OTHER))

    @property
    def positive(self) -> Any:
        """The positive class."""
        return self._pair.positive

    @property
    def is_labelled(self) -> bool:
        """Whether every row seen has a label."""
        return 0 < self.n_rows == self.n_labelled

    def update(
        self,
        predictions_a: Any,
        predictions_b: Any,
        y: Any = None,
        *,
        X: Any = None,
        populations: Any = None,
        baselines: Mapping[str, Any] | None = None,
    ) -> None:
        """Count a block of rows; labels may be missing."""
        n_rows = count_rows(predictions_b)
        vectors = {"the predictions of A": predictions_a, "the predictions of B": predictions_b}
        pair = self._pair.learn(vectors if y is None else {**vectors, "y": y})
        models = {name: value for name, value in (baselines or {}).items() if hasattr(value, "predict")}
        arrays = {name: value for name, value in (baselines or {}).items() if name not in models}
        source = make_source(
            None, X, None, classes=pair, populations=populations, baselines=arrays, models=models,
            baseline_names=self._baselines, n_rows=n_rows,
        )  # fmt: skip
        labels = np.zeros(n_rows, np.int8)
        if y is not None:
            labels = encode_labels(y, pair, pair[1], allow_missing=True)
        first, second = (encode_labels(values, pair, pair[1], what=what) for what, values in vectors.items())
        known = {**source.baselines, _OTHER: first}
        self._rows.add(dataclasses.replace(source, labels=labels, baselines=known), second > 0, None)
        self.n_rows += n_rows
        self.n_labelled += int(np.count_nonzero(labels))

    def merge(self, other: "ComparisonCounts") -> Self:
        """Take in the counts of other rows; returns self."""
        if other.goal != self.goal:
            raise DataError("counts for two different goals cannot be merged. Count both for the same goal.")
        self._pair.join(other._pair)
        self._rows.join(other._rows)
        self.n_rows += other.n_rows
        self.n_labelled += other.n_labelled
        return self

    def compared(
        self, names: Sequence[str], *, confidence: float, power: float, gain: float
    ) -> tuple[tuple[PopulationComparison, ...], list[str]]:
        """The populations, all rows first, and what is to be said about them."""
        counted = self._rows.counted()
        source, notes = counted.source, list[str]()
        rows = source.repeats.count if source.repeats is not None else np.ones(source.n_rows, np.int64)
        labels = source.labels if source.labels is not None else np.zeros(source.n_rows, np.int8)
        differ = counted.positive != (source.baselines[_OTHER] > 0)
        right = differ & ((labels > 0) == counted.positive) & (labels != 0)
        wrong = differ & ~right & (labels != 0)
        found = []
        for name, inside in self._memberships(source, labels, notes):
            numbers = [int(rows[inside & part].sum()) for part in (np.ones_like(differ), differ, right, wrong)]
            found.append(_compared(name, numbers, names, confidence, power, gain))
        return tuple(found), notes

    def _memberships(
        self, source: Source, labels: npt.NDArray[np.int8], notes: list[str]
    ) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        yield ALL_ROWS, np.ones(source.n_rows, bool)
        for name, population in self._named.items():
            if population.uses_label and not labels.any():
                notes.append(f"population {name} needs labels, and there are none.")
            else:
                yield name, members(population, source).true
        for column in dict.fromkeys(self._columns):
            values = [] if source.table is None else source.table.column(column).distinct()
            if len(values) > MOST_GROUPS:
                notes.append(f"column {column} has {len(values)} values; they are not compared one by one.")
                continue
            for value in values:
                group = Population(None, where=Compare(column, "==", value))
                if group.rows not in {item.rows for item in self._named.values()}:
                    yield f"{column} == {value!r}", members(group, source).true


def _is_main(entry: Bundle) -> bool:
    return entry.population is None or entry.population.source is None


def _populations(goal: Goal) -> Iterator[tuple[str, Population]]:
    """The goal's populations of the main rows, each once, by name (or condition)."""
    seen = {EVERYONE.rows}
    for entry in goal.constraints:
        found: list[Population] = []
        if isinstance(entry, Constraint):
            found = [*entry.lhs.populations, *entry.rhs.populations]
        elif isinstance(entry, Bundle) and entry.population is not None:
            found = [entry.population]
        for population in found:
            if population.source is None and population.rows not in seen:
                seen.add(population.rows)
                yield population.name or str(population.where), population


def _compared(
    name: str, numbers: Sequence[int], names: Sequence[str], confidence: float, power: float, gain: float
) -> PopulationComparison:
    n_rows, changes, wins, losses = numbers
    told = wins + losses
    nothing: _Estimate = (None, None, None)
    churn, share, better = nothing, nothing, nothing
    if n_rows:
        churn = (changes / n_rows, *clopper_pearson(changes, n_rows, confidence))
    if told:
        share = (wins / told, *clopper_pearson(wins, told, confidence))
    p_value = needed = None
    verdict = "equal" if n_rows and not changes else "no labels"
    if told and churn[0] is not None and share[0] is not None:
        better = (churn[0] * (2.0 * share[0] - 1.0), *gain_interval(wins, losses, changes, n_rows, confidence))
        p_value = mcnemar_p(wins, losses)
        verdict = "undecided"
        if p_value <= 1.0 - confidence:
            verdict = f"{names[1] if wins > losses else names[0]} better"
        needed = labels_needed(share[0], power=power, alpha=1.0 - confidence)
    elif changes and gain <= changes / n_rows:
        needed = labels_needed(0.5 + gain * n_rows / (2.0 * changes), power=power, alpha=1.0 - confidence)
    return PopulationComparison(
        name, n_rows, changes, wins, losses, *churn, *share, *better, p_value, verdict, needed,
        None if needed is None else int(np.ceil(needed * n_rows / changes)),
    )  # fmt: skip
