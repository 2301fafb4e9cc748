"""What a report is about, as numbers: measured once, before a word of it is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin._typing import Classifier, Column, Floats, Label
from widemargin.diagnostics import MarginReport, audit, margin_report
from widemargin.diagnostics.margins import margins_of
from widemargin.exceptions import DataError
from widemargin.goals import Goal, churn, error_rate, loss_rate, win_rate
from widemargin.goals.binding.cells import members
from widemargin.goals.binding.sources import External, Source, make_source, positive_class
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.populations import EVERYONE, Population
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.rows import Rows

__all__ = ["Change", "Content", "Margins", "Model", "Record", "gather"]

Record: TypeAlias = Mapping[str, Mapping[str, object]]
Model: TypeAlias = Classifier | Column | Mapping[str | None, Column]
"""A fitted classifier, or its predictions: of the rows, or by data set as `audit` takes them."""

MODEL = "this model"
MAX_POPULATIONS = 12
"""Distributions of margins that are drawn; the largest populations, where there are more."""


@dataclass(frozen=True)
class Change:
    """How often the model differs from another one, all three as (estimate, lower, upper) of a share of the rows.

    `wins` (it is right where the other is wrong) and `losses` are None without labels.
    """

    name: str
    churn: tuple[float, float | None, float | None]
    wins: tuple[float, float | None, float | None] | None
    losses: tuple[float, float | None, float | None] | None


@dataclass(frozen=True)
class Margins:
    """Margins of the model by population, with how many rows stand where.

    Attributes
    ----------
    report : MarginReport
        Of the first population, all rows; `summaries` has one line for each.
    edges : ndarray of shape (bins + 1,)
    shares : dict of str to ndarray of shape (bins,)
        Share of each population's weight in each bin; what lies outside is in the first or last.
    left_out : int
        Populations that are not shown, because there are too many.
    """

    reports: Mapping[str, MarginReport]
    edges: Floats
    shares: Mapping[str, Floats]
    left_out: int


@dataclass(frozen=True)
class Content:
    """Everything that the report shows.

    Attributes
    ----------
    goal : Goal
        What is measured.
    trained_goal : Goal or None
        What training enforced, where that is something else.
    report : GoalReport
    others : dict of str to GoalReport
        Other classifiers on the same rows and the same goal.
    changes : tuple of Change
    margins : Margins or str
        Or why there are none.
    paths : tuple of TradeoffPath
    title, model_name : str
    record : mapping of str to mapping
        Data and settings by heading.
    card : mapping of str to str
        What the owner says of the model.
    """

    goal: Goal
    trained_goal: Goal | None
    report: GoalReport
    others: Mapping[str, GoalReport]
    changes: tuple[Change, ...]
    margins: Margins | str
    paths: tuple[TradeoffPath, ...]
    title: str
    model_name: str
    record: Record = field(default_factory=dict)
    card: Mapping[str, str] = field(default_factory=dict)

    def entry_of(self, item: ConstraintReport) -> Constraint | Bundle | None:
        """What the user wrote that a line of the report is about."""
        for entry in self.goal.constraints:
            if item.bundle is not None:
                if isinstance(entry, Bundle) and item.bundle == (entry.label or entry.text):
                    return entry
            elif entry.text == item.text and (entry.label == item.label or entry.label is None):
                return entry
        return None


def gather(
    model: Model,
    goal: Goal,
    rows: Rows,
    *,
    external: Mapping[str, External],
    pos_label: Label | None,
    data_name: str,
    others: Mapping[str, Model],
    confidence: float | None,
    decide: str,
    **shown: Any,
) -> Content:
    """Measure the model, the others, the changes between them and the margins.

    Parameters
    ----------
    model : fitted classifier or predictions
    goal : Goal
    rows : Rows
    others : mapping of str to fitted classifier or predictions
    confidence, decide
        As in `audit`.
    **shown
        The rest of `Content`.
    """
    measure = partial(
        audit, goal=goal, X=rows.X, y=rows.y, sample_weight=rows.sample_weight, populations=rows.populations,
        external=external, baselines=rows.baselines, data_name=data_name, confidence=confidence, decide=decide,
    )  # fmt: skip
    report = measure(model, pos_label=pos_label)
    rest = {name: measure(other, pos_label=report.positive_class) for name, other in others.items()}
    return Content(
        goal=goal,
        report=report,
        others=rest,
        changes=_changes(model, goal, rows, others, report, confidence),
        margins=_margins(model, goal, rows, report),
        **shown,
    )


def _changes(
    model: Model, goal: Goal, rows: Rows, others: Mapping[str, Model], report: GoalReport, confidence: float | None
) -> tuple[Change, ...]:
    """Against every baseline that the goal names or that is given, and against the other classifiers."""
    own = [name for name in (*goal.baselines, *rows.baselines) if name not in others]
    found = []
    for name in dict.fromkeys((*own, *others)):
        beside = name in others
        said = {name: _of_main_rows(others[name])} if beside else rows.baselines
        rates = [churn(name)] if rows.y is None else [churn(name), win_rate(name), loss_rate(name)]
        asked = Goal(churn(name) if rows.y is None else error_rate(), [rate <= 1.0 for rate in rates])
        measured = audit(
            _of_main_rows(model), asked, rows.X, rows.y, populations=None if beside else rows.populations,
            baselines=said, sample_weight=rows.sample_weight, pos_label=report.positive_class, confidence=confidence,
        )  # fmt: skip
        shares = [
            (
                1.0 - (item.slack or 0.0),
                None if item.interval is None or item.interval.upper is None else max(0.0, 1.0 - item.interval.upper),
                None if item.interval is None or item.interval.lower is None else min(1.0, 1.0 - item.interval.lower),
            )
            for item in measured.constraints
        ]
        found.append(Change(name, shares[0], *(shares[1:] or (None, None))))
    return tuple(found)


def _of_main_rows(model: Model) -> Classifier | Column:
    """A classifier as it is; of predictions by data set those of the main rows."""
    if not isinstance(model, Mapping):
        return model
    return model[None if None in model else ""]


def _margins(model: Model, goal: Goal, rows: Rows, report: GoalReport) -> Margins | str:
    """Margins of all rows and of each population of the goal; or why there are none."""
    if rows.y is None:
        return "There are no labels, and a margin says how far a row is on the side of its label."
    if not hasattr(model, "predict"):
        return "Only predictions were given; margins need the scores of a model."
    try:
        found = margins_of(model, rows.X, rows.y)
    except DataError as error:
        return f"The model gives no usable scores: {error}"
    values = found.values
    source = _source(model, goal, rows, report)
    weight = np.ones(len(values)) if source.weight is None else source.weight
    parts = {name: inside for name, inside in _groups(goal, source) if (weight[inside] > 0.0).any()}
    kept = sorted(parts, key=lambda name: -int(parts[name].sum()))[:MAX_POPULATIONS]
    low, high = np.quantile(values, [0.002, 0.998])
    edges = np.linspace(min(low, 0.0), max(high, 0.0), 41) if high > low else np.array([low - 1.0, low + 1.0])
    edges = _with_zero(edges)
    reports, shares = {}, {}
    for name in [name for name in parts if name in kept]:
        inside = parts[name]
        weights = None if source.weight is None else weight[inside]
        reports[name] = margin_report(found.of(inside), sample_weight=weights, data_name=name)
        counts, _ = np.histogram(np.clip(values[inside], edges[0], edges[-1]), edges, weights=weight[inside])
        shares[name] = counts / counts.sum()
    return Margins(reports, edges, shares, len(parts) - len(kept))


def _with_zero(edges: Floats) -> Floats:
    """Edges moved so that one of them is 0: no bin then holds both right and wrong rows."""
    if len(edges) < 3 or not edges[0] < 0.0 < edges[-1]:
        return edges
    nearest = int(np.abs(edges).argmin())
    return np.asarray(edges - edges[nearest])


def _source(model: Model, goal: Goal, rows: Rows, report: GoalReport) -> Source:
    """The main rows, for the populations among them."""
    classes = np.asarray(getattr(model, "classes_", [])).tolist()
    asked = {name for population in _populations(goal) for name in population.baselines}
    return make_source(rows, asked, classes=positive_class(classes, report.positive_class))


def _populations(goal: Goal, source: Source | None = None) -> list[Population]:
    """Everyone and each population of the main rows; with a source, those too that bundles make of its values."""
    found: dict[Any, Population] = {EVERYONE.rows: EVERYONE}
    forms = [goal.objective]
    for entry in goal.constraints:
        made = [entry] if isinstance(entry, Constraint) else _expanded(entry, source)
        forms += [side for constraint in made for side in (constraint.lhs, constraint.rhs)]
        if isinstance(entry, Bundle) and entry.population is not None:
            found.setdefault(entry.population.rows, entry.population)
    for form in forms:
        for population in form.populations:
            found.setdefault(population.rows, population)
    return [population for population in found.values() if population.source is None]


def _expanded(bundle: Bundle, source: Source | None) -> Sequence[Constraint]:
    if (
        source is None
        or source.table is None
        or (bundle.population is not None and bundle.population.source is not None)
    ):
        return ()
    inside = None if bundle.population is None else members(bundle.population, source).true
    return bundle.expand(source.table.column(bundle.column).distinct(inside))


def _groups(goal: Goal, source: Source) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """Name and rows of each population."""
    found = _populations(goal, source)
    names = ["all rows" if item == EVERYONE else item.name or str(item.where) for item in found]
    return [(name, members(item, source).true) for name, item in zip(names, found, strict=True)]
