"""Which rows share a threshold: the groups of a threshold classifier, found at `fit` and looked up at prediction.

A group is a population with a condition on columns alone. Every row belongs to exactly one; rows that belong to none
(a missing or new value) or to several are refused, because no threshold was chosen for them.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from widemargin._text import listing
from widemargin._typing import Ints
from widemargin.exceptions import DataError, GoalError
from widemargin.goals.binding.membership import members
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable, TableColumn
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import OfColumn, col


def find_groups(per_population: Any, X: Any, populations: Any, n_rows: int, most: int = 1000) -> tuple[Population, ...]:
    """The groups of rows that get a threshold of their own.

    Parameters
    ----------
    per_population : str, int or sequence of Population
        A column, whose distinct values are the groups, or the groups themselves.
    X, populations
        Where the column is looked up, as for a goal.

    Raises
    ------
    DataError
        If there is no such table, a column has no values or more than `most`, or a list holds something else.
    GoalError
        If a population is external, or its condition looks at labels or baselines, which prediction has not.
    """
    if isinstance(per_population, str | int):
        table = PopulationTable.build(populations, X, n_rows=n_rows)
        if table is None:
            raise DataError(
                f"per_population={per_population!r} names a column, and there is no table; give populations=table, or "
                "X as a data frame."
            )
        values = table.column(per_population).distinct()
        if not 1 <= len(values) <= most:
            raise DataError(
                f"column {per_population!r} has {len(values)} different values, and each would get a threshold; name "
                f"a column with 1 to {most}."
            )
        return tuple(Population(str(value).strip() or "blank", where=col(per_population) == value) for value in values)
    groups = tuple(per_population)
    for group in groups:
        if not isinstance(group, Population):
            raise DataError(
                f"per_population holds a {type(group).__name__}, {group!r:.40}; give a sequence of populations, or the "
                "name of one column by itself, per_population='region' say."
            )
        if group.source is not None or group.where is None or group.uses_label or group.baselines:
            raise GoalError(
                f"per_population: {group.reference} is no condition on columns alone, and nothing else is known at "
                "prediction. Give populations like Population(name, where=col(...) == ...)."
            )
    if not groups:
        raise DataError("per_population holds 0 populations; give at least one, or None for one threshold.")
    return groups


def group_numbers(
    groups: Sequence[Population] | None, X: Any, populations: Any, n_rows: int, *, may_lack: bool = False
) -> Ints:
    """Number of the group of each row, shape (n,); 0 without groups, -1 where it belongs to none and may.

    Raises
    ------
    DataError
        If rows belong to no group or to several.
    GoalError
        If a column is missing or of another type.
    """
    if groups is None or n_rows == 0:
        return np.zeros(n_rows, np.int64)
    table = PopulationTable.build(populations, X, n_rows=n_rows)
    # New rows may lack a word that a condition names, which would be refused as misspelt.
    known = None if table is None else cast(PopulationTable, _KnownTable(table, groups))
    source = Source(None, None, None, known, {}, n_rows)
    number, times = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64)
    for g, group in enumerate(groups):
        # A condition on a missing value is neither true nor false, so such a row is in no group.
        inside = members(group, source).true
        number[inside] = g
        times += inside
    if may_lack:
        number[times == 0], times[times == 0] = -1, 1
    if (times != 1).any():
        none, several = int((times == 0).sum()), int((times > 1).sum())
        raise DataError(
            f"{none} of {n_rows} rows belong to none of the {len(groups)} groups that have thresholds "
            f"({listing([group.reference for group in groups], 5)}), and {several} to more than one. Fill in missing "
            "values, leave such rows out, or fit with a list of populations that covers every row once, one of them "
            "for the rest."
        )
    return number


class _KnownTable:
    """A table in which the words that conditions name are known, also where no row has them.

    A goal refuses a word that no row has, since it is most likely misspelt. At prediction it is only absent.
    """

    def __init__(self, table: Any, groups: Sequence[Population]) -> None:
        self._table = table
        self._words: dict[str | int, set[str]] = {}
        for group in groups:
            for leaf in group.leaves:
                if isinstance(leaf, OfColumn):
                    words = self._words.setdefault(leaf.column, set())
                    words.update(value for value in leaf.constants if isinstance(value, str))

    @property
    def n_rows(self) -> int:
        return int(self._table.n_rows)

    def column(self, name: str | int) -> TableColumn:
        """The column, with its categories and those that are known."""
        found: TableColumn = self._table.column(name)
        new = self._words.get(name, set()) - set(found.categories)
        if found.kind != "string" or not new:
            return found
        # Categories have to be sorted, so the words that are added move the codes of the others. The last code, -1, is
        # that of a missing value and stays what it is.
        categories = tuple(sorted({*found.categories, *new}))
        place = {word: code for code, word in enumerate(categories)}
        codes = np.array([*(place[word] for word in found.categories), -1], np.int32)
        return dataclasses.replace(found, values=codes[found.values], categories=categories)
