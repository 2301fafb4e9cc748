"""A goal tied to data, with every check that needs the data.

`bind` is the only way from a `Goal` to numbers. What it returns knows nothing of features or solvers; the learning side
marries it to a loss (`problems/rate_constrained.py`), the explaining side measures predictions with it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from widemargin._text import listing
from widemargin.exceptions import DataError, GoalError, GoalWarning, warn
from widemargin.goals.binding.cells import CellSpace, build_cells
from widemargin.goals.binding.membership import members
from widemargin.goals.binding.sources import SAID, Sought, Source, View, seen, view_of
from widemargin.goals.binding.tied_goal import Dropped, TiedConstraint, TiedGoal, assemble, dropped_texts
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.linear import Linear, Rate, When
from widemargin.goals.language.populations import EVERYONE, Population
from widemargin.goals.language.values import checked_literal, number_text
from widemargin.goals.measuring.rates_of_predictions import RateTable

__all__ = ["Dropped", "Source", "TiedConstraint", "TiedGoal", "baselines_used", "bind"]


def bind(
    goal: Goal,
    sources: Sequence[Source],
    *,
    warn_trivial: bool = True,
    for_training: bool = True,
    like: TiedGoal | None = None,
) -> TiedGoal:
    """Tie a goal to data.

    Parameters
    ----------
    goal : Goal
    sources : sequence of Source
        The training or audited rows (name None) and the external data sets that the goal names.
    warn_trivial : bool, default=True
        Warn when a constant classifier passes because a ratio is undefined for it.
    for_training : bool, default=True
        Whether a model will be trained to it. Otherwise an objective that needs labels is left out where there are
        none, and not refused, and denominators bring no bounds (`DefinedRatios`).
    like : TiedGoal, optional
        A goal that was tied to the same sources, such as this one with another bound. Its cells are used again where
        they suffice, which spares every look at a row, and dropped constraints are not warned of once more.

    Returns
    -------
    TiedGoal

    Raises
    ------
    GoalError
        On an unknown column or value, an empty population, a population below `min_rows`, a bound that no classifier
        reaches on these rows.
    DataError
        If an external data set, a baseline, a table or labels are missing.
    """
    by_name = {source.name: source for source in sources}
    if len(by_name) != len(sources):
        raise DataError(f"two sources have the same name: {listing([source.name for source in sources])}.")
    constraints = _expanded(goal, by_name)
    objective = goal.objective
    unlabelled = {name for name, source in by_name.items() if not source.has_labels}
    # Traffic without labels can still be audited: an objective that nobody can measure there becomes empty.
    if not for_training and any(
        rate.population.source in unlabelled and (rate.needs_label or rate.population.uses_label)
        for rate in objective.rates
    ):
        objective = Linear((), 0.0)
    users: dict[Rate, Constraint | None] = dict.fromkeys(objective.rates)
    for constraint, _ in constraints:
        for rate in constraint.rates:
            if users.get(rate) is None:
                users[rate] = constraint
    _check_sources(users, by_name)
    rates = list(users)
    # Finer cells would cost training time; only reports show the groups.
    with_groups = not for_training and bool(goal.watched or any(rate.population.where is not None for rate in rates))
    sources = [part for source in sources for part in _as_two_classes(source, rates, every_class=with_groups)]
    # On the path of a bound every goal asks for the same memberships, so the cells of the goal before serve again.
    keys = tuple(source.key for source in sources)
    if like is not None and like.space.names == keys and like.space.covers(rates):
        space = like.space
    else:
        parts = []
        for source in sources:
            of_rows = [rate for rate in rates if rate.population.source == source.name]
            # Every class is shown for every group, also for those that a rule about another class speaks of.
            shows_all = with_groups and source.name is None
            here = [rate for rate in of_rows if shows_all or source.key in (source.name, view_of(rate))]
            names = list(dict.fromkeys(rate.baseline for rate in here if rate.baseline is not None))
            names += [SAID] if SAID in source.baselines else []
            use_label = any(rate.needs_label for rate in here)
            # Rows that are measured later may lack a value, or the column: no rule hangs on it, and the report shows
            # the group without rows.
            shown = goal.watched if shows_all else ()
            watched = [group for group in shown if why_unknown(group, source) is None]
            populations = [*(rate.population for rate in here), *watched]
            parts.append(build_cells(source, populations, names, use_label=use_label))
        space = CellSpace(sources, parts)
    table = RateTable.build(rates, space)
    for rate in objective.rates:
        too_few = _too_few_rows(rate, table, 1)
        if too_few is not None:
            raise GoalError(f"the objective {objective}: {too_few[0]}.")
    tied_constraints, dropped = _sift(constraints, table)
    if dropped and like is None:
        texts = dropped_texts(dropped)
        listed = "; ".join(texts[:5])
        more = f"; and {len(texts) - 5} more" if len(texts) > 5 else ""
        warn(f"{len(dropped)} of {len(constraints)} constraints are dropped. {listed}{more}.", GoalWarning)
    # Rates that only dropped constraints looked at need not be measured any more.
    used = set(objective.rates).union(*(item.constraint.rates for item in tied_constraints))
    table = table.select([j for j, rate in enumerate(rates) if rate in used])
    tied = assemble(goal, tied_constraints, dropped, table, sources, objective, for_training=for_training)
    # What a classifier that abstains would say of the other rows is not known, or settled already.
    if not any(SAID in source.baselines for source in sources):
        _check_attainable(tied)
    if warn_trivial:
        _warn_trivial(tied)
    return tied


def why_unknown(group: Population, source: Source) -> str | None:
    """Why rows cannot tell who belongs to a group: they lack its column, or its value; None where they can."""
    try:
        members(group, source)
    except GoalError as error:
        return str(error)
    return None


def _as_two_classes(source: Source, rates: Sequence[Rate], *, every_class: bool) -> list[Source]:
    """The source; of one of several classes, a view for everything that rates look for in it. Where these name no class
    by which reports could show groups, `every_class` adds a view for each."""
    if not source.several:
        return [source]
    right: Sought = ("label", None)
    views = [view_of(rate) for rate in rates if rate.population.source == source.name]
    views = views or [View(source.name, right, right)]
    is_named = any(view.decision == view.label and view.decision != right for view in views)
    # Of up to 20 classes reports show every one by group where the goal names none; of more only those that it names.
    if every_class and source.name is None and not is_named and len(source.classes) <= 20:
        of_class: list[Sought] = [("class", checked_literal(label)) for label in source.classes]
        views += [View(None, decision, decision) for decision in of_class]
    return [seen(source, view) for view in dict.fromkeys(views)]


def baselines_used(goal: Goal) -> dict[str | None, tuple[str, ...]]:
    """Every source that a goal uses, the main rows (None) among them, and the baselines it asks there."""
    names_by_source: dict[str | None, dict[str, None]] = {None: {}}
    for entry in (goal.objective, *goal.constraints):
        for population in entry.populations:
            names_by_source.setdefault(population.source, {}).update(dict.fromkeys(population.baselines))
        for rate in () if isinstance(entry, Bundle) else entry.rates:
            if rate.baseline is not None:
                names_by_source[rate.population.source][rate.baseline] = None
    return {name: tuple(names) for name, names in names_by_source.items()}


def _expanded(goal: Goal, by_name: Mapping[str | None, Source]) -> list[tuple[Constraint, str | None]]:
    """The constraints, and those of bundles over the values that the data have.

    Beside each constraint stands the bundle that made it.
    """
    constraints: list[tuple[Constraint, str | None]] = []
    for entry in goal.constraints:
        if isinstance(entry, Constraint):
            constraints.append((entry, None))
            continue
        population = entry.within
        source = by_name.get(population.source)
        if source is None:
            raise DataError(entry.text + _not_given(population.source, by_name))
        if source.table is None:
            raise DataError(
                f"{entry.text} needs column {entry.column!r}, and {source.title} has no table of populations."
            )
        # values that nobody in the population has would only make empty groups; listed ones are looked for everywhere
        everywhere = population.where is None or entry.values is not None
        rows = None if everywhere else members(population, source).true
        expanded = entry.expand(source.table.column(entry.column).distinct(rows))
        constraints += [(constraint, entry.label or entry.text) for constraint in expanded]
    return constraints


def _not_given(name: str | None, by_name: Mapping[str | None, Source]) -> str:
    given = listing(sorted(other for other in by_name if other is not None))
    what = "the main rows" if name is None else f"the external data set {name!r}"
    return f" is measured on {what}, which is not given; external data sets given: {given}."


def _check_sources(users: Mapping[Rate, Constraint | None], by_name: Mapping[str | None, Source]) -> None:
    """Every rate finds its source, its labels and its baseline there."""
    for rate, user in users.items():
        source, fault = by_name.get(rate.population.source), ""
        if source is None:
            fault = _not_given(rate.population.source, by_name)
        elif rate.needs_label and not source.has_labels:
            cure = "y=labels" if source.name is None else f"External(X, y) for {source.name!r}"
            fault = (
                f": {rate.metric} needs labels, and {source.title} has none. Give {cure}, or use a rate "
                "without labels (positive_rate, negative_rate, churn)."
            )
        else:
            absent = [
                name for name in (*rate.population.baselines, rate.baseline) if name not in (None, *source.baselines)
            ]
            if rate.of is None and rate.definition.names_class:
                source.signs(np.zeros(0, np.int16), None, rate)  # which says that a class has to be named
            if absent:
                there = listing(sorted(source.baselines))
                fault = f": baseline {absent[0]!r} is unknown on {source.title}; known are {there}."
        if fault:
            raise DataError((f"the objective's {rate}" if user is None else _label_and_text(user)) + fault)


def _label_and_text(constraint: Constraint) -> str:
    return constraint.text if constraint.label is None else f"{constraint.label!r} ({constraint.text})"


def _too_few_rows(rate: Rate, table: RateTable, least: int) -> tuple[str, str] | None:
    """Why a rate cannot be measured on these rows, and the same in short; None if it can.

    The short form says the population and its size, in the same words for every constraint that is dropped for it.
    """
    row, population = table.place[rate], rate.population
    n, n_given, in_population = int(table.rows[row]), int(table.all_rows[row]), int(table.population_rows[row])
    if n >= least and table.total[row] > 0:
        return None
    name = "everyone" if population == EVERYONE else population.reference
    short_name = "everyone" if population == EVERYONE else population.name or name
    cells = table.space.parts[table.space.key_of(rate)]
    where, named = cells.title, rate.of if rate.actual is None else rate.actual
    label = (rate.definition.over or When()).label
    part = {1: " with a positive label", -1: " with a negative label", None: ""}[label]
    if label is not None and named is not None:
        part = f" with {'the' if label > 0 else 'another'} label{' than' if label < 0 else ''} {named!r}"
    if in_population == 0:
        unknown = cells.unknown[population.rows]
        missing = f", and for {unknown} of them a missing value leaves it open" if unknown else ""
        reason = f"population {name} is empty: none of the {cells.count.sum()} rows of {where} belongs to it{missing}"
    elif n_given == 0:
        reason = (
            f"{rate} has no rows: of the {in_population} rows of population {name} in {where} "
            f"none is one{part or ' with a label'}"
        )
    elif table.total[row] <= 0:
        reason = (
            f"all {n_given} rows{part} of population {name} in {where} have weight zero, "
            f"so {rate} has the denominator 0"
        )
    else:
        idle = f" ({n_given - n} more have weight zero)" if n_given > n else ""
        reason = (
            f"{rate} is measured on {n} rows{part} of population {name} in {where}{idle}, fewer than min_rows={least}"
        )
    return reason, f"{short_name} ({n} rows{part} < min_rows {least})"


def _sift(
    constraints: Sequence[tuple[Constraint, str | None]], table: RateTable
) -> tuple[tuple[TiedConstraint, ...], tuple[Dropped, ...]]:
    """Refuse or drop the constraints with too few rows, count the rows of the others."""
    enough, dropped = [], []
    for constraint, bundle in constraints:
        too_few = None
        for rate in constraint.rates:
            too_few = too_few or _too_few_rows(rate, table, constraint.min_rows or 1)
        if too_few is None:
            rows = [table.place[rate] for rate in constraint.rates]
            smallest = rows[int(np.argmin(table.rows[rows]))]
            populations, n_missing = set(), 0
            for rate in constraint.rates:
                source, rows_of = table.space.key_of(rate), rate.population.rows
                populations.add((rows_of, rate.definition.over or When()))
                n_missing = max(n_missing, table.space.parts[source].unknown[rows_of])
            n_rows, weight = int(table.rows[smallest]), float(table.total[smallest])
            cleared, number = constraint.cleared, len(populations)
            enough.append(TiedConstraint(constraint, cleared, n_rows, weight, n_missing, number, bundle))
        elif constraint.on_small == "drop":
            dropped.append(Dropped(constraint.label or constraint.text, constraint.text, *too_few))
        else:
            cure = 'Give more rows, widen the population, or set on_small="drop".'
            raise GoalError(f"{_label_and_text(constraint)}: {too_few[0]}. {cure}")
    return tuple(enough), tuple(dropped)


def _check_attainable(tied: TiedGoal) -> None:
    """Refuse a constraint that no assignment of predictions to these rows can meet.

    The reduced form is a sum of terms >= 0 and can be 0, so it is attainable exactly if its bound is >= 0.
    """
    spread = np.maximum(tied.scale, np.abs(tied.bound))
    for j in np.flatnonzero(tied.bound < -1e-9 * spread):
        item = tied.constraints[j]
        if any(rate.fact is not None for rate in item.constraint.rates):
            continue  # of scores that are there, no prediction changes anything
        owner = _label_and_text(item.constraint)
        if item.cleared.ratio is not None:
            raise GoalError(
                f"{owner}: no predictions on these rows bring {item.cleared.ratio} to {item.cleared.sense} "
                f"{number_text(item.cleared.ratio_bound or 0.0)}. Move the bound."
            )
        extreme, sign = ("at least", 1.0) if item.cleared.sense == "<=" else ("at most", -1.0)
        best = round(item.cleared.bound - sign * float(tied.bound[j]), 9) + 0.0  # 0 is 0, whatever the rounding
        raise GoalError(
            f"{owner} cannot hold on these rows: {item.cleared.form} is {extreme} {best:.6g} for any predictions "
            f"({item.n_rows} rows), and the bound is {number_text(item.cleared.bound)}. Move the bound."
        )


def _warn_trivial(tied: TiedGoal) -> None:
    """Warn when predicting one class everywhere breaks no bound only because a ratio is undefined for it."""
    if all(item.cleared.ratio is None for item in tied.constraints):
        return
    for word, mass in tied.constants():
        _, totals = tied.coefficients.totals(mass, tied.cell_weight - mass, tied.n_constraints)
        undefined = tied.measure(mass).undefined
        if undefined.any() and (totals <= tied.bound + 1e-9 * tied.scale).all():
            cleared = [tied.constraints[j].cleared for j in np.flatnonzero(undefined)]
            names = listing([str(item.ratio or item.denominator) for item in cleared], 3)
            verb = "is" if len(cleared) == 1 else "are"
            warn(
                f"a classifier that predicts {word} breaks no bound: {names} {verb} 0/0 for it. That is not met, "
                "yet models near it may meet the goal and be worth little. Add a constraint that they fail, such as a "
                "floor on recall().",
                GoalWarning,
            )
