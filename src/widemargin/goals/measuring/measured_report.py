"""Predictions measured on a tied goal, as a report: rates, intervals and a verdict for every constraint."""

from collections.abc import Sequence

import numpy as np

from widemargin._text import listing
from widemargin._typing import Floats, Label, Seed
from widemargin.exceptions import DataError
from widemargin.goals.binding.labels import plain_value
from widemargin.goals.binding.sources import SAID
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.linear import ScoreFact
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport, PlainLabel, Verdict, check_decide
from widemargin.goals.measuring.group_table import group_table
from widemargin.goals.measuring.intervals import Interval, NewRows, on_new_rows, slack_intervals
from widemargin.goals.measuring.rates_of_predictions import TOLERANCE, Measured, finite

FEW_ROWS = 30
"""Fewer than these, and a 95% interval of a rate is wider than a third: a usual least size of a group."""


def verdict_of(slack: float | None, met: bool, interval: Interval | None, *, with_intervals: bool) -> Verdict:
    """The verdict on a constraint.

    Parameters
    ----------
    slack : float or None
        None: undefined.
    met : bool
        By the estimate.
    with_intervals : bool
        Whether intervals were asked for; then a missing one leaves the constraint undecided.
    """
    if slack is None:
        return "undefined"
    if not with_intervals:
        return "met" if met else "not met"
    if interval is not None and interval.lower is not None and interval.lower >= -TOLERANCE:
        return "met"
    if interval is not None and interval.upper is not None and interval.upper < -TOLERANCE:
        return "not met"
    return "undecided"


def make_report(
    tied: TiedGoal,
    positive: Predictions,
    *,
    positive_class: Label,
    data_name: str = "the data",
    soft: Measured | None = None,
    randomized: bool = False,
    multipliers: Floats | None = None,
    confidence: float | None = None,
    decide: str = "estimate",
    status: str | None = None,
    certificate: str | None = None,
    notes: Sequence[str] = (),
    random_state: Seed = 0,
    foretell: bool = False,
    left_out: Predictions | None = None,
    with_groups: bool = False,
) -> GoalReport:
    """Measure predictions on a tied goal.

    Parameters
    ----------
    positive : sequence of ndarray of shape (n_s,)
        0/1 predictions for each source.
    data_name : str
        What the rows are called in the first line.
    soft : Measured, optional
        The goal measured on the probabilities of the randomised classifier.
    randomized : bool, default=False
        Whether the bounds were enforced on the rates of that one.
    multipliers : ndarray of shape (m,), optional
        In the user's units (`Measured.user_multipliers`).
    confidence : float, optional
        Of intervals; None: no intervals.
    decide : {"estimate", "confident"}
    status, certificate, notes
        Printed as they are.
    foretell : bool, default=False
        Whether to say how often bounds will be missed on new rows.
    left_out : sequence of ndarray of shape (n_s,), optional
        Those of models that were trained without the row.
    with_groups : bool, default=False
        Whether the rates of all groups are told, too; the goal is then tied for measuring only.
    """
    rule = check_decide(decide)
    if rule == "confident" and confidence is None:
        raise DataError('decide="confident" needs a confidence, such as 0.95.')
    measured = tied.measure(tied.positive_mass(positive))
    intervals: Sequence[Interval | None] | None = None
    if confidence is not None:
        intervals = slack_intervals(tied, positive, measured, confidence=confidence, random_state=random_state)
    expected = on_new_rows(tied, positive, measured, left_out) if foretell else None
    constraints = [
        _constraint_report(j, tied, measured, soft, multipliers, intervals, expected) for j in range(tied.n_constraints)
    ]
    main, n_rows = next(iter(tied.space.parts.values())), tied.given[0].n_rows
    weightless = int(main.count.sum() - main.weighty.sum())
    ignored = [f"rows of weight 0, which count for nothing: {weightless} of {n_rows}."] if weightless else []
    enforced = soft if randomized and soft is not None else measured
    drawn = ["the bounds were enforced on the rates of predict_randomized (ramp), not on those of predict"]
    of_constants, empty = _of_constants(tied, positive, enforced, plain_value(positive_class))
    return GoalReport(
        positive_class=None if tied.several else _plain(positive_class),
        classes=tuple(map(_plain, tied.classes)) if tied.several else (),
        data_name=data_name,
        n_rows=n_rows,
        goal_text=str(tied.goal),
        objective_text=str(tied.goal.objective),
        objective=finite(measured.objective),
        constraints=tuple(constraints),
        external_rows=tuple((str(source.name), source.n_rows) for source in tied.given[1:]),
        ramp_objective=None if soft is None else finite(soft.objective),
        status=status,
        certificate=certificate,
        dropped=tied.dropped,
        notes=(*(drawn if randomized else ()), *notes, *ignored, *empty),
        cautions=(*of_constants, *_of_rows(constraints), *_of_dropped(tied)),
        confidence=confidence,
        decide=rule,
        groups=group_table(tied, measured.positive_mass, confidence) if with_groups else (),
    )


def _constraint_report(
    j: int, tied: TiedGoal, measured: Measured, soft: Measured | None, multipliers: Floats | None,
    intervals: Sequence[Interval | None] | None, expected: Sequence[NewRows | None] | None,
) -> ConstraintReport:  # fmt: skip
    """What was measured of constraint j, by sign and by the ramp; None where it was not measured."""
    item, slack, met = tied.constraints[j], finite(measured.slack[j]), bool(measured.met[j])
    interval = None if intervals is None else intervals[j]
    factor = item.constraint.factor
    return ConstraintReport(
        label=item.constraint.label or f"#{j + 1}",
        text=item.constraint.text,
        sense=item.cleared.sense,
        rate=finite(measured.value[j]),
        bound=finite(measured.bound[j]),
        slack=slack,
        met=met,
        verdict=verdict_of(slack, met, interval, with_intervals=intervals is not None),
        n_rows=item.n_rows,
        n_missing=item.n_missing,
        ramp_rate=None if soft is None else finite(soft.value[j]),
        ramp_slack=None if soft is None else finite(soft.slack[j]),
        multiplier=None if multipliers is None else finite(multipliers[j]),
        interval=interval,
        n_populations=item.n_populations,
        bundle=item.bundle,
        numerator=finite(measured.numerator[j]),
        denominator=finite(measured.denominator[j]),
        new_rows=None if expected is None else expected[j],
        factor=None if factor is None else factor.value,
        factor_sense=None if factor is None else ">=" if factor.is_floor else "<=",
    )


def _plain(label: Label) -> PlainLabel:
    """A label as JSON can hold it."""
    value = plain_value(label)
    return value if isinstance(value, str | int | float | bool) else str(value)


def _of_constants(
    tied: TiedGoal, predicted: Predictions, measured: Measured, label: Label
) -> tuple[list[str], list[str]]:
    """No empty victories: cautions where the model decides the same for every row, or one that does so is as good; a
    note where the best of those is worse, and yet meets every bound, so that no bound asks for anything."""
    nothing = "It has learned nothing."
    words = [f"no row {label!r}", f"every row {label!r}"]
    if tied.several:
        words = [f"every row {of!r}" for of in tied.classes]
        numbers = np.unique(predicted[0])
        if len(numbers) == 1:
            of, n_rows = tied.classes[int(numbers[0]) - 1], tied.given[0].n_rows
            return [f"the model is constant: it calls all of the {n_rows} rows {of!r}. {nothing}"], []
    else:
        # The labels of the rows asked about are those of the main source; an external one may be all of one kind.
        start, part, n_rows = tied.space.start[None], tied.space.parts[None], tied.sources[0].n_rows
        main = slice(start, start + part.n_cells)
        positive, whole = float(measured.positive_mass[main].sum()), float(tied.cell_weight[main].sum())
        if SAID in part.baselines:
            return _of_abstention(tied, 1.0 - positive / whole if whole > 0.0 else 0.0), []
        for word, share in (("none", 0.0), ("all", 1.0)):
            if abs(positive - share * whole) <= TOLERANCE * whole:
                return [f"the model is constant: it calls {word} of the {n_rows} rows {label!r}. {nothing}"], []
    of_scores = any(ScoreFact.named(name) for part in tied.space.parts.values() for name in part.baselines)
    # What a constant says of every row is no score, and what is asked of scores here are those of this model.
    if of_scores or not tied.has_objective or not np.isfinite(measured.objective):
        return [], []
    others = [(called, tied.measure(mass)) for called, (_, mass) in zip(words, tied.constants(), strict=True)]
    for called, other in others:
        # A constant is as good where its objective is no higher, and it misses only bounds that the model misses by as
        # much: one that finds nobody is worse than a model that finds three quarters of what it should.
        no_further = ~(other.slack < measured.slack - TOLERANCE)
        if other.objective <= measured.objective + TOLERANCE and (other.met | (~measured.met & no_further)).all():
            missed = int(np.count_nonzero(~other.met))
            bounds = f"misses {missed} bound(s) that it misses by as much" if missed else "meets every bound"
            text = f"calling {called} has the objective {other.objective:.4f} (the model:"
            return [f"a constant is no worse: {text} {measured.objective:.4f}) and {bounds}. Add features or rows."], []
    called, best = min(others, key=lambda pair: pair[1].objective)
    if not tied.n_constraints or not best.met.all():
        return [], []
    text = f"the bounds ask for nothing that the best constant does not give: calling {called} meets every one of them"
    return [], [f"{text}, with the objective {best.objective:.4f} (the model: {measured.objective:.4f})."]


def _of_abstention(tied: TiedGoal, undecided: float) -> list[str]:
    """Cautions where most rows are left undecided, or all, though the goal does not say how many may be."""
    n_rows = tied.sources[0].n_rows
    if undecided >= 1.0 - TOLERANCE:
        return [f"the model abstains on all of the {n_rows} rows."]
    if undecided <= 0.5 or tied.goal.limits_decisions:
        return []
    cure = "Minimise abstention_rate(), or ask for decision_rate() >= 0.8, say"
    return [f"the model leaves {undecided:.0%} of the {n_rows} rows undecided, which the goal does not limit. {cure}."]


def _of_dropped(tied: TiedGoal) -> list[str]:
    """The rules of which nothing is measured: that all others are met says nothing about them."""
    if not tied.dropped:
        return []
    dropped, measured = {item.label for item in tied.dropped}, {item.bundle for item in tied.constraints}
    names = [(entry.label or entry.text, isinstance(entry, Bundle)) for entry in tied.goal.constraints]
    gone = [name for name, is_bundle in names if (name not in measured if is_bundle else name in dropped)]
    if not gone:
        return []
    which = "1 rule is" if len(gone) == 1 else f"{len(gone)} rules are"
    fact = f"{which} not measured, as all constraints of it were dropped: {listing(gone, 3)}"
    return [f"{fact}. Give more rows, widen the populations, or lower min_rows."]


def _of_rows(constraints: Sequence[ConstraintReport]) -> list[str]:
    """What these rows cannot promise: bounds that new rows will often miss; rates of few rows, which hang on chance."""
    cautions = []
    # A bound that training meets exactly is missed by a little on half of all new rows, however many they are, so only
    # misses that matter (`NewRows.far`) are counted, and only where a fourth of the draws or more have one.
    often = 0.25
    poor = [
        (item.new_rows.missed_far, item) for item in constraints
        if item.new_rows is not None and item.met and item.new_rows.missed_far >= often
    ]  # fmt: skip
    if poor:
        share, worst = max(poor, key=lambda pair: pair[0])
        worst = worst.as_ratio()
        assert worst.new_rows is not None
        number = f"{len(poor)} of {len(constraints)} bounds" if len(poor) > 1 else "a bound"
        how = f"by more than {worst.new_rows.far:.2g} in about {100 * share:.0f}% of draws"
        flattery = "" if worst.new_rows.left_out else ", which flatter the model"
        rows = f"bootstrap of the {worst.n_rows} rows under it{flattery}"
        cure = "Give more rows, widen the population, or have it proved on rows kept aside: confidence=, or prove."
        cautions.append(f"{number} will often be missed on new rows: {worst.text} {how} ({rows}). {cure}")
    # Where verdicts have intervals, the constraint with the fewest rows speaks for the others.
    few = [item for item in constraints if item.interval is not None and 0 < item.n_rows < FEW_ROWS]
    if few:
        least = min(few, key=lambda item: item.n_rows)
        which = f"{len(few)} constraints are" if len(few) > 1 else "1 constraint is"
        fact = f"{which} measured on fewer than {FEW_ROWS} rows, {least.label!r} on {least.n_rows}"
        cure = f'widen the population, or leave small ones out by min_rows = {FEW_ROWS} and on_small = "drop"'
        cautions.append(f"{fact}: such a rate hangs on chance. Give more rows, {cure}.")
    return cautions
