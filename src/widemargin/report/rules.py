"""The rules of a goal as the page shows them: one line each, with the same numbers and units in every section.

A rule that compares two rates by a factor is shown as their ratio, with both rates beside it. A bundle makes a
constraint for every ordered pair of groups; it is one rule, shown by its worst pair. So are two constraints that
compare the same rates both ways round.
"""

from typing import NamedTuple

from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.linear import Ratio
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport, pair_of
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
