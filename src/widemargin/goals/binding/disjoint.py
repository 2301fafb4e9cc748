"""Whether two populations have no row in common, by their definitions and not by the rows there are."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import numpy as np

from widemargin._typing import Bools
from widemargin.exceptions import GoalError
from widemargin.goals.binding.membership import evaluate
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable, TableColumn, column_of
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import And, BaselineSays, LabelIs, OfColumn, Predicate


def disjoint(first: Population, second: Population) -> bool:
    """Whether no row can belong to both: other data sets, opposite labels or answers, conditions on one column.

    False where the definitions do not show it.
    """
    if first.source != second.source:
        return True
    return any(_exclude(one, other) for one in _parts(first) for other in _parts(second))


def _parts(population: Population) -> Iterator[Predicate]:
    """Conditions that all rows of a population fulfil."""
    waiting = [] if population.where is None else [population.where]
    while waiting:
        part = waiting.pop()
        if isinstance(part, And):
            waiting += part.parts
        else:
            yield part


def _exclude(one: Predicate, other: Predicate) -> bool:
    """Whether two conditions never hold together."""
    if isinstance(one, LabelIs) and isinstance(other, LabelIs):
        return one.positive != other.positive
    if isinstance(one, BaselineSays) and isinstance(other, BaselineSays):
        return one.name == other.name and one.positive != other.positive
    if len(one.columns) != 1 or one.columns != other.columns:
        return False
    if any(part.uses_label or part.baselines for part in (one, other)):
        return False
    leaves = [leaf for part in (one, other) for leaf in part.leaves() if isinstance(leaf, OfColumn)]
    column = _all_kinds_of_values([value for leaf in leaves for value in leaf.constants])
    if column is None:
        return False
    both = [_holds(part, column) for part in (one, other)]
    return not (both[0] & both[1]).any()


def _all_kinds_of_values(constants: list[str | int | float | bool]) -> TableColumn | None:
    """A value of every kind that conditions with these constants tell apart; None where they are of several types."""
    if constants and all(isinstance(value, bool) for value in constants):
        return column_of("", [True, False, None])
    if constants and all(isinstance(value, str) for value in constants):
        words = sorted({str(value) for value in constants})
        return column_of("", [*words, "other than " + "".join(words), None])
    if constants and all(isinstance(value, int | float) and not isinstance(value, bool) for value in constants):
        points = np.unique(np.array(constants, dtype=np.float64))
        between = 0.5 * (points[:-1] + points[1:])
        return column_of("", np.concatenate([points, between, [points[0] - 1.0, points[-1] + 1.0, np.nan]]))
    return None


def _holds(part: Predicate, column: TableColumn) -> Bools:
    """Whether a condition on one column holds on each of its values."""
    alone = cast(PopulationTable, SimpleNamespace(n_rows=len(column.values), column=lambda name: column))
    try:
        return evaluate(part, Source(None, None, None, alone, {}, len(column.values))).true
    except GoalError:  # a condition of another type, which binding refuses in better words
        return np.ones(len(column.values), bool)
