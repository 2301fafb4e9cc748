"""Rows of several classes as rows of two: every rate looks for one class in each row, and for nothing else.

`recall(of="cat")` looks for cats everywhere, `error_rate()` for the row's own class, `churn("old")` for what the
baseline said. What is looked for is the positive class of a *view* of the rows, whose labels, baselines and decisions
are those of two classes, so that cells, rates, coefficients and intervals are those of two classes as well. Views of
one source are the same rows, and a classifier makes one decision for each of them.
"""

import dataclasses

import numpy as np

from widemargin._typing import Integers, Signs
from widemargin.goals.binding.sources import Sought, Source, View
from widemargin.goals.language.linear import Rate

__all__ = ["seen", "sought", "view_of"]


def view_of(rate: Rate) -> View:
    """What a rate looks for in rows of several classes."""
    decision: Sought = ("class", rate.of)
    if rate.of is None:
        compares = rate.baseline is not None and not rate.definition.needs_label and rate.fact is None
        decision = ("baseline", rate.baseline) if compares else ("label", None)
    return View(rate.population.source, decision, decision if rate.actual is None else ("class", rate.actual))


def sought(source: Source, what: Sought) -> Integers:
    """The number of the class that is looked for in each row of a source, shape (n_rows,); 0 where it is unknown."""
    kind, name = what
    if kind == "class" and name is not None:
        return np.full(source.n_rows, source.number_of(name), np.int16)
    if kind == "baseline":
        return source.baselines[str(name)]
    return np.zeros(source.n_rows, np.int16) if source.labels is None else source.labels


def seen(source: Source, view: View) -> Source:
    """The rows of a view: labels, and what baselines say, as +1 where they are what is looked for, -1, or 0."""
    decision, label = sought(source, view.decision), sought(source, view.label)

    def signs(numbers: Signs, target: Integers) -> Signs:
        return np.where((numbers == 0) | (target == 0), 0, np.where(numbers == target, 1, -1)).astype(np.int8)

    labels = None if source.labels is None else signs(source.labels, label)
    baselines = {name: signs(numbers, decision) for name, numbers in source.baselines.items()}
    return dataclasses.replace(source, view=view, labels=labels, baselines=baselines, whole=source)
