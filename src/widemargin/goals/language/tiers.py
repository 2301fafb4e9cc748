"""The level of a constraint: the one number of it that a trade-off moves.

`recall() >= 0.6` has the level 0.6, `positive_rate(a) >= 0.8 * positive_rate(b)` the level 0.8, a bundle the level of
its `ratio=` or `difference=`.
"""

from typing import TypeVar

from widemargin.exceptions import GoalError
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.checks import checked_number
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.linear import Linear

__all__ = ["at_level", "compared_with_level", "level_of"]

Entry = TypeVar("Entry", bound=Constraint | Bundle)


def level_of(entry: Constraint | Bundle) -> float:
    """The level of a constraint or bundle.

    Where one side is a constant, that constant; where both sides are one rate times a factor, the factor that is not 1
    (the right-hand one where both are); of a bundle, its `ratio` or `difference`.

    Raises
    ------
    GoalError
        If no single number stands out.
    """
    if isinstance(entry, Bundle):
        return float(entry.ratio if entry.ratio is not None else entry.difference or 0.0)
    side: Linear = getattr(entry, _side(entry))
    return side.terms[0][0] if side.terms else side.constant


def at_level(entry: Entry, level: float) -> Entry:
    """The same constraint or bundle with another level.

    Raises
    ------
    GoalError
        If it has no level, or the new one makes no sense there (a recall above 1, a ratio of 0 in a bundle).
    """
    number = checked_number(level, "a level")
    if isinstance(entry, Bundle):
        field = "difference" if entry.ratio is None else "ratio"
        return entry._changed(**{field: number})
    assert isinstance(entry, Constraint)
    name = _side(entry)
    side: Linear = getattr(entry, name)
    moved = Linear(((number, side.terms[0][1]),)) if side.terms else Linear((), number)
    return entry._changed(**{name: moved})


def compared_with_level(constraint: Constraint) -> tuple[Linear, Linear | None, bool]:
    """What the level is compared with.

    Returns
    -------
    above, below : Linear, Linear or None
        A form, or the quotient of two where the level is a factor: of `positive_rate(a) >= 0.8 * positive_rate(b)` the
        quotient of the two rates.
    is_floor : bool
        Whether it has to be at least the level, not at most.

    Raises
    ------
    GoalError
        If the constraint has no level.
    """
    name = _side(constraint)
    side: Linear = getattr(constraint, name)
    other = constraint.lhs if name == "rhs" else constraint.rhs
    below = Linear(((1.0, side.terms[0][1]),)) if side.terms else None
    return other, below, (constraint.sense == ">=") == (name == "rhs")


def _side(constraint: Constraint) -> str:
    """The side that holds the level: "lhs" or "rhs"."""
    lhs, rhs = constraint.lhs, constraint.rhs
    if not rhs.terms:
        return "rhs"
    if not lhs.terms:
        return "lhs"
    if all(len(side.terms) == 1 and side.constant == 0.0 for side in (lhs, rhs)):
        left, right = lhs.terms[0][0], rhs.terms[0][0]
        if left == 1.0:
            return "rhs"
        if right == 1.0:
            return "lhs"
    raise GoalError(
        f"{constraint.text} has no single level: {len(lhs.terms)} rates stand against {len(rhs.terms)}. Write all rates"
        " on one side and a number on the other, or one rate against a factor times another."
    )
