"""Counts, rates and intervals of every group that a goal speaks of, and of their intersections."""

import dataclasses
import itertools
from collections.abc import Hashable, Sequence

import numpy as np

from widemargin._text import aligned, printable
from widemargin._typing import Bools, Floats
from widemargin.goals.binding.sources import SAID, View
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.populations import EVERYONE, Population
from widemargin.goals.measuring.intervals import clopper_pearson


@dataclasses.dataclass(frozen=True)
class GroupRate:
    """A rate of a group.

    Attributes
    ----------
    value : float or None
        None where no row is in the denominator.
    lower, upper : float or None
        Of the exact interval by Clopper and Pearson (1934); None for weighted rows, and where none was asked for.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return "-"
        return f"{self.value:.3f}" + ("" if self.lower is None else f" [{self.lower:.3f}, {self.upper:.3f}]")


@dataclasses.dataclass(frozen=True)
class GroupRow:
    """A group of the main rows, or all of them.

    Attributes
    ----------
    n_rows : int
        Rows of weight > 0.
    positive_rate : GroupRate
        Share that the model calls positive.
    recall, precision, false_positive_rate : GroupRate or None
        None where the goal needs no labels.
    decision_rate : GroupRate or None
        Share that is decided; None where the model never abstains.
    selective_error : GroupRate or None
        Share of the decisions that are wrong; None as well where the goal needs no labels.
    """

    name: str
    n_rows: int
    positive_rate: GroupRate
    recall: GroupRate | None = None
    precision: GroupRate | None = None
    false_positive_rate: GroupRate | None = None
    decision_rate: GroupRate | None = None
    selective_error: GroupRate | None = None


HEADS = {
    "positive_rate": "positive rate",
    "recall": "recall",
    "precision": "precision",
    "false_positive_rate": "false positive rate",
    "decision_rate": "decided",
    "selective_error": "error if decided",
}
"""What the columns of the table are called."""


SHOWN_GROUPS = 40
"""Texts and pages show so many; the report as a dict or in JSON holds all of them."""


def group_table(tied: TiedGoal, mass: Floats, confidence: float | None, *, most: int = 1000) -> tuple[GroupRow, ...]:
    """All rows, every group of the main rows in a constraint or watched, and what two of different columns share.

    Of several classes there is such a table for each one that the goal names; if it names none, for each of up to 20. A
    watched group whose column or value the rows lack has no rows.

    Parameters
    ----------
    mass : ndarray of shape (k,)
        Weight that is predicted positive, by cell.
    confidence : float or None
        Of each interval; None: no intervals.
    most : int, default=1000
        Groups; the intersections beyond, of which there can be very many, are left out.

    Returns
    -------
    tuple of GroupRow
        Empty where the goal speaks of no group.
    """
    tables, intersections = list[GroupRow](), list[GroupRow]()
    for key in tied.space.parts:
        # Where what is decided and what is true are two classes, as in `confusion`, there is no recall of one.
        if isinstance(key, View) and key.source is None and key.decision[0] == "class" and key.label == key.decision:
            prefix = f"{key.decision[1]!r}: "
        elif key is None:
            prefix = ""
        else:
            continue
        of_groups, of_both = _of_part(tied, key, prefix, mass, confidence, most)
        tables += of_groups
        intersections += of_both
    return (*tables, *intersections)


def _of_part(
    tied: TiedGoal, key: Hashable, prefix: str, mass: Floats, confidence: float | None, most: int
) -> tuple[list[GroupRow], list[GroupRow]]:
    """The table of the main rows, or of their view of one class: all rows and groups, and the intersections."""
    part, start = tied.space.parts[key], tied.space.start[key]
    asked = [rate.population for item in tied.constraints for rate in item.constraint.rates]
    asked += tied.goal.watched
    # Of two populations of the same rows the last one in this order is shown: the one that the user has named.
    names = tied.goal.populations
    by_name = sorted(asked, key=lambda population: population.name in names)
    named = {population.rows: population for population in by_name if population.source is None}
    groups = [population for rows, population in named.items() if rows != EVERYONE.rows]
    nobody = np.zeros(part.n_cells, bool)
    members: dict[str, Bools] = {
        _name(group): part.member(group.rows) if group.rows in part.unknown else nobody for group in groups
    }
    for one, other in itertools.combinations(groups, 2):
        both = members[_name(one)] & members[_name(other)]
        if _columns(one) and _columns(other) and _columns(one).isdisjoint(_columns(other)) and both.any():
            members[f"{_name(one)} and {_name(other)}"] = both
    cells = slice(start, start + part.n_cells)
    weighted = not np.array_equal(part.weight, part.weighty)
    positive, negative, called = part.label > 0, part.label < 0, mass[cells]
    said, decided = part.baselines.get(SAID), part.weight
    # Of a model that abstains the mass is that of the decided rows, and SAID holds what they were called.
    if said is not None:
        decided, called = called, np.where(said > 0, called, 0.0)

    def rate(over: Floats, of: Floats, inside: Bools) -> GroupRate:
        above, below = float(of[inside].sum()), float(over[inside].sum())
        if below <= 0.0:
            return GroupRate(None)
        if weighted or confidence is None:
            return GroupRate(above / below)
        return GroupRate(above / below, *clopper_pearson(round(above), round(below), confidence))

    def row(name: str, inside: Bools) -> GroupRow:
        of_rows = GroupRow(prefix + name, int(part.weighty[inside].sum()), rate(part.weight, called, inside))
        if said is not None:
            of_rows = dataclasses.replace(of_rows, decision_rate=rate(part.weight, decided, inside))
        if not part.label.any():
            return of_rows
        right = called * positive
        wrong = np.where(positive, decided - called, np.where(negative, called, 0.0))
        return dataclasses.replace(
            of_rows,
            selective_error=None if said is None else rate(decided * (positive | negative), wrong, inside),
            recall=rate(part.weight, called, inside & positive),
            precision=rate(called, right, inside),
            false_positive_rate=rate(part.weight, called, inside & negative),
        )

    rows = [row("all rows", part.member(EVERYONE.rows))] if members else []
    rows += itertools.islice(itertools.starmap(row, members.items()), most)
    return rows[: 1 + len(groups)], rows[1 + len(groups) :]


def rates_of(groups: Sequence[GroupRow]) -> list[str]:
    """The rates that a table of groups has: without labels only one is known."""
    return [name for name in HEADS if getattr(groups[0], name) is not None]


def group_cells(groups: Sequence[GroupRow]) -> list[list[str]]:
    """The first rows of the table as texts, its head first; nothing of no groups."""
    if not groups:
        return []
    rates, first = rates_of(groups), groups[:SHOWN_GROUPS]
    rows = [[printable(item.name), str(item.n_rows), *(str(getattr(item, name)) for name in rates)] for item in first]
    return [["", "rows", *(HEADS[name] for name in rates)], *rows]


def group_lines(groups: Sequence[GroupRow]) -> list[str]:
    """The table as lines, and how many rows of it are not shown."""
    return [*aligned(group_cells(groups)), *left_out_groups(groups)]


def left_out_groups(groups: Sequence[GroupRow]) -> list[str]:
    """A line that says how many rows of the table are not shown, and where they are; none where all are."""
    more = len(groups) - SHOWN_GROUPS
    return [f"... {more} more groups are in to_dict(), and in the file of --report-json."] if more > 0 else []


def _name(population: Population) -> str:
    return population.name or str(population.where)


def _columns(population: Population) -> set[object]:
    return set() if population.where is None else {*population.where.columns}
