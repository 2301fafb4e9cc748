"""The rules of a goal as the page shows them: one line each, with the same numbers and units in every section.

A rule that compares two rates by a factor is shown as their ratio, with both rates beside it. A bundle makes a
constraint for every ordered pair of groups; it is one rule, shown by its worst pair.
"""

import dataclasses
from typing import NamedTuple

from widemargin.exceptions import GoalError
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.linear import Ratio
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport
from widemargin.report.content import Content
from widemargin.report.words import Unit, shown, unit_of, unit_of_form


class ShownRule(NamedTuple):
    """A rule as it was measured.

    Attributes
    ----------
    name : str
    entry : Constraint, Bundle or None
        What the user wrote; None where that is not known.
    worst : ConstraintReport
        The constraint of it that is worst met, as a ratio where two rates are compared by a factor.
    unit : Unit
        Of its rate and bound.
    sides : str
        Both sides of a ratio, in words; else empty.
    n_constraints : int
        How many pairs the worst is the worst of.
    passes : bool
        Whether all of them count as met.
    """

    name: str
    entry: Constraint | Bundle | None
    worst: ConstraintReport
    unit: Unit
    sides: str
    n_constraints: int
    passes: bool


def factor_of(entry: Constraint | Bundle | None) -> tuple[float, bool, bool] | None:
    """The factor by which a rule compares two rates, whether the rate that it limits stands on the left, and whether
    their ratio has to be at least the factor; None of other rules."""
    if isinstance(entry, Bundle):
        return None if entry.ratio is None else (entry.ratio, True, True)
    if entry is None or len(entry.lhs.terms) != 1 or len(entry.rhs.terms) != 1 or entry.lhs.constant:
        return None
    try:
        above, _, is_floor = entry.compared_with_level()
        return None if entry.rhs.constant or not entry.level else (entry.level, above == entry.lhs, is_floor)
    except GoalError:  # no single number stands out
        return None


def shown_rules(content: Content, report: GoalReport) -> list[ShownRule]:
    """One line for each rule that the user wrote, in the order of the report; by any report of the same goal."""
    groups: dict[str, list[ConstraintReport]] = {}
    for item in report.constraints:
        groups.setdefault(item.bundle or item.label, []).append(item)
    rules = []
    for name, items in groups.items():
        entry = content.entry_of(items[0])
        unit = Unit.NUMBER if entry is None else unit_of(entry)
        # What is not met comes first, of this what is undefined, then what is not sure, then what has the least slack.
        worst, sides = min(
            (_as_ratio(item, entry, unit) for item in items),
            key=lambda pair: (pair[0].met, pair[0].slack is not None, pair[0].verdict == "met", pair[0].slack or 0.0),
        )
        passes = all(item.passes(report.decide) for item in items)
        rules.append(ShownRule(name, entry, worst, unit, sides, len(items), passes))
    return rules


def _as_ratio(item: ConstraintReport, entry: Constraint | Bundle | None, unit: Unit) -> tuple[ConstraintReport, str]:
    """A constraint in units of the ratio that it limits, and the two rates in words; other constraints as they are."""
    if item.numerator is not None and item.denominator is not None:
        return item, f"{_side(item.numerator, entry)} / {_side(item.denominator, entry)}"
    compared = factor_of(entry)
    if compared is None or item.rate is None or item.bound is None:
        return item, ""
    factor, is_on_the_left, is_floor = compared
    limited, other = (item.rate, item.bound / factor) if is_on_the_left else (item.bound, item.rate / factor)
    sides = f"{shown(limited, unit)} / {shown(other, unit)}"
    if other <= 0.0:  # no ratio; the verdict about `limited >= factor * 0` stays
        return dataclasses.replace(item, rate=None, bound=factor, slack=None), sides
    scaled = None
    if item.interval is not None:
        # The interval is that of the slack, limited - factor * other. Divided by the other rate as it was measured it
        # is on the scale of the ratio, and its ends keep their signs, so the verdict stays the same. The error of the
        # other rate is not counted a second time: it is part of the slack already.
        lower, upper = (None if end is None else end / other for end in (item.interval.lower, item.interval.upper))
        scaled = dataclasses.replace(item.interval, lower=lower, upper=upper)
    ratio = limited / other
    slack = ratio - factor if is_floor else factor - ratio
    return dataclasses.replace(
        item, rate=ratio, bound=factor, sense=">=" if is_floor else "<=", slack=slack, interval=scaled
    ), sides


def _side(value: float, entry: Constraint | Bundle | None) -> str:
    """A side of a ratio: a share of shares, else a count."""
    forms = [atom for form in (entry.lhs, entry.rhs) for _, atom in form.terms] if isinstance(entry, Constraint) else []
    parts = [atom.numerator for atom in forms if isinstance(atom, Ratio) and atom.name is None]
    unit = Unit.SHARE if parts and unit_of_form(parts[0]) is Unit.SHARE else Unit.NUMBER
    return shown(value, unit)
