"""What a report is about, as numbers: measured once, before a word of it is written; and its rules, one line each.

Every section shows the rules with the same numbers and units. A rule that compares two rates by a factor is shown as
their ratio, with both rates beside it. A bundle makes a constraint for every ordered pair of groups; it is one rule,
shown by its worst pair. So are two constraints that compare the same rates both ways round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from widemargin._typing import Classifier, Column, Floats, Label
from widemargin.diagnostics import MarginReport, audit, margin_report
from widemargin.diagnostics.margins import margins_of
from widemargin.exceptions import DataError
from widemargin.goals import Goal, churn, decision_rate, error_rate, loss_rate, win_rate
from widemargin.goals.binding.labels import ordered_classes
from widemargin.goals.binding.membership import members
from widemargin.goals.binding.sources import Source, make_source
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.linear import Ratio, ScoreFact
from widemargin.goals.language.populations import EVERYONE, Population
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport, pair_of
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.report.words import Unit, shown, unit_of, unit_of_form
from widemargin.rows import Rows

Record: TypeAlias = Mapping[str, Mapping[str, object]]
Model: TypeAlias = Classifier | Column | Mapping[str | None, Column]
"""A fitted classifier, or its predictions: of the rows, or by data set as `audit` takes them."""


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
    """Margins of the model and their histogram, by population.

    Attributes
    ----------
    reports : dict of str to MarginReport
        By population, all rows first.
    edges : ndarray of shape (bins + 1,)
        Of the bins, which all histograms share, so that they can be compared.
    shares : dict of str to ndarray of shape (bins,)
        Share of each population's weight in each bin; margins beyond the edges count in the first or last bin.
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
        What training enforced, where it differs from `goal`.
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
    decided : float or None
        The share of the rows on which the model does not abstain; None where it decides all of them.
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
    decided: float | None = None

    @property
    def asked_entries(self) -> list[Constraint | Bundle]:
        """The constraints that training enforced, then those of the goal."""
        return [entry for goal in (self.trained_goal, self.goal) if goal is not None for entry in goal.constraints]

    def entry_of(self, item: ConstraintReport) -> Constraint | Bundle | None:
        """The constraint or bundle of the goal that a line of the report measures."""
        for entry in self.goal.constraints:
            if item.bundle is not None:
                if isinstance(entry, Bundle) and item.bundle == (entry.label or entry.text):
                    return entry
            elif entry.text == item.text and (entry.label == item.label or entry.label is None):
                return entry
        return None


def changes_against(
    model: Model,
    goal: Goal,
    rows: Rows,
    others: Mapping[str, Model],
    positive: Label,
    confidence: float | None,
    abstain: Label = None,
) -> tuple[Change, ...]:
    """Against every baseline that the goal names or that is given, and against the other classifiers."""
    changes = []
    # Facts about scores (`margin_below`, `certified_rate`) stand among the baselines too; they are no classifiers.
    known = [name for name in rows.baselines if ScoreFact.named(name) is None]
    own = [name for name in (*goal.baselines, *known) if name not in others]
    for name in dict.fromkeys((*own, *others)):
        beside = name in others
        rates = [churn(name)] if rows.y is None else [churn(name), win_rate(name), loss_rate(name)]
        # `audit` gives intervals for constraints only, so each share is audited as the constraint `share <= 1`, which
        # always holds: its slack is 1 - share, and the interval of the share is that of the slack turned around.
        measured = audit(
            of_main_rows(model),
            Goal(churn(name) if rows.y is None else error_rate(), [rate <= 1.0 for rate in rates]),
            rows.X, rows.y, populations=None if beside else rows.populations,
            baselines={name: of_main_rows(others[name])} if beside else rows.baselines,
            sample_weight=rows.sample_weight, pos_label=positive, abstain=abstain, confidence=confidence,
        )  # fmt: skip
        shares = []
        for item in measured.constraints:
            low, high = (None, None) if item.interval is None else (item.interval.upper, item.interval.lower)
            low, high = None if low is None else max(0.0, 1.0 - low), None if high is None else min(1.0, 1.0 - high)
            shares.append((1.0 - (item.slack or 0.0), low, high))
        changes.append(Change(name, shares[0], *(shares[1:] or (None, None))))
    return tuple(changes)


def decided_share(model: Model, rows: Rows, positive: Label, abstain: Label) -> float | None:
    """Share of the rows on which the model does not abstain; None where it decides all of them."""
    share = audit(
        of_main_rows(model), Goal(decision_rate()), rows.X, rows.y, sample_weight=rows.sample_weight,
        pos_label=positive, abstain=abstain, confidence=None,
    ).objective  # fmt: skip
    return None if share == 1.0 else share


def of_main_rows(model: Model) -> Classifier | Column:
    """A classifier as it is; of predictions by data set those of the main rows."""
    return model[None if None in model else ""] if isinstance(model, Mapping) else model


def margins_by_population(model: Model, goal: Goal, rows: Rows, positive: Label, *, most: int = 12) -> Margins | str:
    """Margins of all rows and of the `most` largest populations of the goal; or why there are none."""
    if rows.y is None:
        return "There are no labels, and a margin says how far a row is on the side of its label."
    if not hasattr(model, "predict"):
        return "Only predictions were given; margins need the scores of a model."
    try:
        margins = margins_of(model, rows.X, rows.y)
    except DataError as error:
        return f"The model gives no usable scores: {error}"
    values = margins.values
    # Populations that the goal names tell which baselines must be read before the values of bundles are known.
    # Without the table yet, a bundle gives only the population that it is restricted to; that is enough to learn this.
    needed = {name for population in _populations(goal, None) for name in population.baselines}
    classes = ordered_classes(np.asarray(getattr(model, "classes_", [])).tolist(), positive, goal)
    source = make_source(rows, needed, classes=classes)
    weight = np.ones(len(values)) if source.weight is None else source.weight
    parts = {}
    for population in _populations(goal, source):
        inside = members(population, source).true
        if (weight[inside] > 0.0).any():
            name = "all rows" if population == EVERYONE else population.name or str(population.where)
            parts[name] = inside
    largest = sorted(parts, key=lambda name: -int(parts[name].sum()))[:most]
    # A few margins far out would press all other bins together, hence the quantiles.
    low, high = np.quantile(values, [0.002, 0.998])
    edges = np.linspace(min(low, 0.0), max(high, 0.0), 41) if high > low else np.array([low - 1.0, low + 1.0])
    if len(edges) > 2 and edges[0] < 0.0 < edges[-1]:  # one edge is 0, so that no bin holds both right and wrong rows
        edges = edges - edges[int(np.abs(edges).argmin())]
    reports, shares = {}, {}
    for name, inside in parts.items():
        if name in largest:
            weights = None if source.weight is None else weight[inside]
            reports[name] = margin_report(margins.of(inside), sample_weight=weights, data_name=name)
            counts, _ = np.histogram(np.clip(values[inside], edges[0], edges[-1]), edges, weights=weight[inside])
            shares[name] = counts / counts.sum()
    return Margins(reports, edges, shares, len(parts) - len(largest))


def _populations(goal: Goal, source: Source | None) -> list[Population]:
    """All rows and each population of the main rows; with a source, also those of the groups that a bundle compares."""
    populations, in_constraints = [EVERYONE], list(goal.objective.populations)
    for entry in goal.constraints:
        if not isinstance(entry, Bundle):
            in_constraints += entry.populations
            continue
        populations.append(entry.within)
        if source is not None and source.table is not None and entry.within.source is None:
            inside = members(entry.within, source).true
            for constraint in entry.expand(source.table.column(entry.column).distinct(inside)):
                in_constraints += constraint.populations
    # One population can have a name in one place and none in another; what counts is which rows it holds.
    by_rows: dict[object, Population] = {}
    for population in (*populations, *in_constraints):
        by_rows.setdefault(population.rows, population)
    return [population for population in by_rows.values() if population.source is None]


class ShownRule(NamedTuple):
    """A rule as it was measured.

    Attributes
    ----------
    entry : Constraint, Bundle or None
        What the user wrote; None where that is not known.
    worst : ConstraintReport
        The constraint of it that is worst met, as a ratio where two rates are compared by a factor.
    unit : Unit
        Of its rate and bound.
    sides : str
        Both sides of a ratio, in words; else empty.
    n_pairs : int
        How many pairs the worst is the worst of; the same two groups in the other order are no other pair.
    pair : str
        Its two groups, that whose rate stands first or above; empty of a constraint.
    mirrored : list of str
        Labels of constraints that compare the same two rates the other way round, and are met no worse.
    passes : bool
        Whether all of them count as met.
    """

    name: str
    entry: Constraint | Bundle | None
    worst: ConstraintReport
    unit: Unit
    sides: str
    n_pairs: int
    pair: str
    mirrored: list[str]
    passes: bool


def shown_rules(content: Content, report: GoalReport) -> list[ShownRule]:
    """One line for each rule that the user wrote, in the order of the report; by any report of the same goal."""
    groups: dict[str, list[ConstraintReport]] = {}
    for item in report.constraints:
        groups.setdefault(item.rule, []).append(item)
    rules = []
    for items in groups.values():
        worst_item = min(items, key=lambda item: item.as_ratio().badness)
        entry, name = content.entry_of(worst_item), worst_item.bundle or worst_item.label
        unit = Unit.NUMBER if entry is None else unit_of(entry)
        worst, sides = worst_item.as_ratio(), ""
        if worst.numerator is not None and worst.denominator is not None:
            of_sides = unit
            if worst_item.factor is None:  # a ratio by itself: its sides are shares of shares, else counts
                forms = (entry.lhs, entry.rhs) if isinstance(entry, Constraint) else ()
                ratios = [atom for form in forms for _, atom in form.terms if isinstance(atom, Ratio)]
                parts = [ratio.numerator for ratio in ratios if ratio.name is None]
                is_share = bool(parts) and unit_of_form(parts[0]) is Unit.SHARE
                of_sides = Unit.SHARE if is_share else Unit.NUMBER
            sides = f"{shown(worst.numerator, of_sides)} / {shown(worst.denominator, of_sides)}"
        passes = all(item.passes(report.decide) for item in items)
        pairs = {(head, frozenset(groups)) for head, *groups in map(pair_of, items) if worst.bundle is not None}
        mirrored = [item.label for item in items if item is not worst_item and item.bundle is None]
        head, one, other = (text.replace('"', "") for text in pair_of(worst))
        # "odds, recall" is the head of a bundle of several rates.
        rate = f"{head.rpartition(', ')[2]} of " if isinstance(entry, Bundle) and len(entry.rates) > 1 else ""
        pair = f"{rate}“{one}” beside “{other}”"
        rules.append(ShownRule(name, entry, worst, unit, sides, len(pairs), pair, mirrored, passes))
    return rules
