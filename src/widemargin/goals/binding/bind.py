"""A goal tied to data, with every check that needs the data.

`bind` is the only way from a `Goal` to numbers. What it returns knows nothing of features or solvers; the learning side
marries it to a loss (`problems/rate_constrained.py`), the explaining side measures predictions with it.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from widemargin.exceptions import DataError, GoalError, GoalWarning
from widemargin.goals._warn import warn
from widemargin.goals.binding.cells import CellSpace, build_cells
from widemargin.goals.binding.columns import listing
from widemargin.goals.binding.membership import members
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tied_goal import Dropped, TiedConstraint, TiedGoal, assemble, dropped_texts
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.linear import Linear, Rate, When
from widemargin.goals.language.populations import EVERYONE, Population
from widemargin.goals.language.values import number_text
from widemargin.goals.measuring.rates_of_predictions import RateTable

__all__ = ["Dropped", "Source", "TiedConstraint", "TiedGoal", "baselines_used", "bind"]


def bind(
    goal: Goal,
    sources: Sequence[Source],
    *,
    warn_trivial: bool = True,
    need_objective: bool = True,
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
    need_objective : bool, default=True
        Refuse an objective that needs labels where there are none; otherwise the tied goal has no objective then.
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
    bundles: dict[Constraint, str] = {}
    constraints = tuple(_expanded(goal, by_name, bundles))
    objective = goal.objective
    # Traffic without labels can still be audited: an objective that nobody can measure there becomes empty.
    if not need_objective and _lacks_labels(objective, by_name):
        objective = Linear((), 0.0)
    rates = list(dict.fromkeys([*objective.rates, *(rate for c in constraints for rate in _rates(c))]))
    _check_sources(rates, by_name, constraints)
    # On the path of a bound every goal asks for the same memberships, so the cells of the goal before serve again.
    covered = like is not None and like.space.names == tuple(by_name) and like.space.covers(rates)
    space = like.space if like is not None and covered else _cell_space(rates, sources)
    table = RateTable.build(rates, space)
    _check_objective(objective, table, space)
    kept, dropped = _sift(constraints, table, space, bundles)
    if dropped and like is None:
        _warn_dropped(dropped, len(constraints))
    # Rates that only dropped constraints looked at need not be measured any more.
    used = {*objective.rates, *(rate for item in kept for rate in _rates(item.constraint))}
    table = table.select([j for j, rate in enumerate(rates) if rate in used])
    tied = assemble(goal, kept, dropped, table, space, sources, objective)
    _check_attainable(tied)
    if warn_trivial:
        _warn_trivial(tied)
    return tied


def baselines_used(goal: Goal) -> dict[str | None, tuple[str, ...]]:
    """Every source that a goal uses, the main rows (None) among them, and the baselines it asks there."""
    names_by_source: dict[str | None, dict[str, None]] = {None: {}}

    def note(population: Population, *names: str | None) -> None:
        names_by_source.setdefault(population.source, {}).update(
            dict.fromkeys(name for name in (*population.baselines, *names) if name is not None)
        )

    for form in (goal.objective, *(side for c in goal.constraints if isinstance(c, Constraint) for side in _sides(c))):
        for rate in form.rates:
            note(rate.population, rate.baseline)
    for bundle in goal.constraints:
        if isinstance(bundle, Bundle):
            note(_within(bundle))
    return {name: tuple(names) for name, names in names_by_source.items()}


def _lacks_labels(form: Linear, by_name: Mapping[str | None, Source]) -> bool:
    """Whether a form needs labels of a given source that has none."""
    return any(
        (rate.definition.needs_label or rate.population.uses_label) and _is_unlabelled(by_name[rate.population.source])
        for rate in form.rates
        if rate.population.source in by_name
    )


def _is_unlabelled(source: Source) -> bool:
    return source.labels is None or not source.labels.any()


def _within(bundle: Bundle) -> Population:
    """Rows among which a bundle compares."""
    return EVERYONE if bundle.population is None else bundle.population


def _sides(constraint: Constraint) -> tuple[Linear, Linear]:
    return constraint.lhs, constraint.rhs


def _rates(constraint: Constraint) -> Iterator[Rate]:
    for side in _sides(constraint):
        yield from side.rates


def _expanded(goal: Goal, by_name: Mapping[str | None, Source], bundles: dict[Constraint, str]) -> Iterator[Constraint]:
    """The constraints with their rule for tiny populations; bundles over the values that the data have.

    `bundles` is told which constraints a bundle made.
    """
    for entry in goal.constraints:
        ruled = entry.inheriting(goal.min_rows, goal.on_small)
        if isinstance(ruled, Constraint):
            yield ruled
            continue
        population = _within(ruled)
        source = _source(population.source, by_name, ruled.text)
        if source.table is None:
            raise DataError(
                f"{ruled.text} needs column {ruled.column!r}, and {source.title} has no table of populations."
            )
        # values that nobody in the population has would only make empty groups; listed ones are looked for everywhere
        everywhere = population.where is None or ruled.values is not None
        rows = None if everywhere else members(population, source).true
        expanded = ruled.expand(source.table.column(ruled.column).distinct(rows))
        bundles.update(dict.fromkeys(expanded, ruled.label or ruled.text))
        yield from expanded


def _source(name: str | None, by_name: Mapping[str | None, Source], text: str) -> Source:
    if name not in by_name:
        known = listing(sorted(other for other in by_name if other is not None))
        what = "the main rows" if name is None else f"the external data set {name!r}"
        raise DataError(f"{text} is measured on {what}, which is not given; external data sets given: {known}.")
    return by_name[name]


def _check_sources(
    rates: Sequence[Rate], by_name: Mapping[str | None, Source], constraints: Sequence[Constraint]
) -> None:
    """Every rate finds its source, its labels and its baseline there."""
    users = {rate: c for c in reversed(constraints) for rate in _rates(c)}
    for rate in rates:
        owner = _called(users[rate]) if rate in users else f"the objective's {rate}"
        source = _source(rate.population.source, by_name, owner)
        if rate.definition.needs_label and _is_unlabelled(source):
            cure = "y=labels" if source.name is None else f"External(X, y) for {source.name!r}"
            raise DataError(
                f"{owner}: {rate.metric} needs labels, and {source.title} has none. Give {cure}, or use a rate "
                "without labels (positive_rate, negative_rate, churn)."
            )
        for name in (*rate.population.baselines, *([] if rate.baseline is None else [rate.baseline])):
            if name not in source.baselines:
                raise DataError(
                    f"{owner}: baseline {name!r} is unknown on {source.title}; "
                    f"known are {listing(sorted(source.baselines))}."
                )


def _cell_space(rates: Sequence[Rate], sources: Sequence[Source]) -> CellSpace:
    parts = []
    for source in sources:
        here = [rate for rate in rates if rate.population.source == source.name]
        names = list(dict.fromkeys(rate.baseline for rate in here if rate.baseline is not None))
        use_label = any(rate.definition.needs_label for rate in here)
        parts.append(build_cells(source, [rate.population for rate in here], names, use_label=use_label))
    return CellSpace(sources, parts)


def _called(constraint: Constraint) -> str:
    return constraint.text if constraint.label is None else f"{constraint.label!r} ({constraint.text})"


def _shortage(rate: Rate, row: int, table: RateTable, space: CellSpace, least: int) -> str | None:
    """Why a rate cannot be measured on these rows; None if it can."""
    population, where = rate.population, space.titles[rate.population.source]
    name = "everyone" if population == EVERYONE else population.reference
    n_all = int(space.parts[population.source].count.sum())
    if table.population_rows[row] == 0:
        unknown = space.parts[population.source].unknown[population.rows]
        missing = f", and for {unknown} of them a missing value leaves it open" if unknown else ""
        return f"population {name} is empty: none of the {n_all} rows of {where} belongs to it{missing}"
    n, n_given = int(table.rows[row]), int(table.all_rows[row])
    part = {1: " with a positive label", -1: " with a negative label", None: ""}[(rate.definition.over or When()).label]
    if n_given == 0:
        return (
            f"{rate} has no rows: of the {table.population_rows[row]} rows of population {name} in {where} "
            f"none is one{part or ' with a label'}"
        )
    if table.total[row] <= 0:
        return (
            f"all {n_given} rows{part} of population {name} in {where} have weight zero, "
            f"so {rate} has the denominator 0"
        )
    if n < least:
        idle = f" ({n_given - n} more have weight zero)" if n_given > n else ""
        return (
            f"{rate} is measured on {n} rows{part} of population {name} in {where}{idle}, fewer than min_rows={least}"
        )
    return None


def _cause(rate: Rate, row: int, table: RateTable, least: int) -> str:
    """The population and its size, in the same words for every constraint that is dropped for it."""
    part = {1: " with a positive label", -1: " with a negative label", None: ""}[(rate.definition.over or When()).label]
    population = rate.population
    name = "everyone" if population == EVERYONE else population.name or population.reference
    return f"{name} ({int(table.rows[row])} rows{part} < min_rows {least})"


def _check_objective(objective: Linear, table: RateTable, space: CellSpace) -> None:
    for rate in objective.rates:
        reason = _shortage(rate, table.place[rate], table, space, 1)
        if reason is not None:
            raise GoalError(f"the objective {objective}: {reason}.")


def _sift(
    constraints: Sequence[Constraint], table: RateTable, space: CellSpace, bundles: Mapping[Constraint, str]
) -> tuple[tuple[TiedConstraint, ...], tuple[Dropped, ...]]:
    """Refuse or drop the constraints with too few rows, count the rows of the others."""
    kept, dropped = [], []
    for constraint in constraints:
        rates = list(dict.fromkeys(_rates(constraint)))
        rows = [table.place[rate] for rate in rates]
        least = constraint.min_rows or 1
        reasons = (
            (_shortage(rate, row, table, space, least), _cause(rate, row, table, least))
            for rate, row in zip(rates, rows, strict=True)
        )
        reason, cause = next((found for found in reasons if found[0] is not None), (None, ""))
        if reason is None:
            kept.append(_with_rows(constraint, rates, rows, table, space, bundles.get(constraint)))
        elif constraint.on_small == "drop":
            dropped.append(Dropped(constraint.label or constraint.text, constraint.text, reason, cause))
        else:
            cure = 'Give more rows, widen the population, or set on_small="drop".'
            raise GoalError(f"{_called(constraint)}: {reason}. {cure}")
    return tuple(kept), tuple(dropped)


def _warn_dropped(dropped: Sequence[Dropped], number: int) -> None:
    texts = dropped_texts(dropped)
    listed = "; ".join(texts[:5])
    more = f"; and {len(texts) - 5} more" if len(texts) > 5 else ""
    warn(f"{len(dropped)} of {number} constraints are dropped. {listed}{more}.", GoalWarning)


def _with_rows(
    constraint: Constraint,
    rates: Sequence[Rate],
    rows: Sequence[int],
    table: RateTable,
    space: CellSpace,
    bundle: str | None,
) -> TiedConstraint:
    """A constraint with the numbers of rows under it."""
    smallest = min(rows, key=lambda row: int(table.rows[row]))
    unknown = (space.parts[rate.population.source].unknown[rate.population.rows] for rate in rates)
    return TiedConstraint(
        constraint,
        constraint.cleared(),
        int(table.rows[smallest]),
        float(table.total[smallest]),
        max(unknown),
        n_populations=len({(rate.population.rows, rate.definition.over or When()) for rate in rates}),
        bundle=bundle,
    )


def _check_attainable(tied: TiedGoal) -> None:
    """Refuse a constraint that no assignment of predictions to these rows can meet.

    The reduced form is a sum of terms >= 0 and can be 0, so it is attainable exactly if its bound is >= 0.
    """
    spread = np.maximum(tied.scale, np.abs(tied.bound))
    for j in np.flatnonzero(tied.bound < -1e-9 * spread):
        item = tied.constraints[j]
        called = _called(item.constraint)
        if item.cleared.ratio is not None:
            raise GoalError(
                f"{called}: no predictions on these rows bring {item.cleared.ratio} to {item.sense} "
                f"{number_text(item.cleared.ratio_bound or 0.0)}. Move the bound."
            )
        sign = 1.0 if item.sense == "<=" else -1.0
        best = item.cleared.bound - sign * float(tied.bound[j])
        extreme = "at least" if item.sense == "<=" else "at most"
        raise GoalError(
            f"{called} cannot hold on these rows: {item.cleared.form} is {extreme} {best:.6g} whatever is predicted "
            f"({item.n_rows} rows), and the bound is {number_text(item.cleared.bound)}. Move the bound."
        )


def _warn_trivial(tied: TiedGoal) -> None:
    """Warn when predicting one class everywhere passes only because a ratio is undefined for it."""
    if not any(item.is_ratio for item in tied.constraints):
        return
    for word, mass in (("nothing", np.zeros_like(tied.cell_weight)), ("everything", tied.cell_weight)):
        _, totals = tied.coefficients.totals(mass, tied.cell_weight - mass, tied.n_constraints)
        undefined = tied.measure(mass).undefined
        if undefined.any() and (totals <= tied.bound + 1e-9 * tied.scale).all():
            names = listing([str(tied.constraints[j].cleared.ratio) for j in np.flatnonzero(undefined)], 3)
            warn(
                f"a classifier that predicts {word} positive passes every constraint, because {names} is 0/0 for it "
                "and its cleared form holds. Add a constraint that it fails, such as a floor on recall().",
                GoalWarning,
            )
