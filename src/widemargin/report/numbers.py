"""Numbers as people read them: shares in percent, differences of shares in points, counts as they are."""

import enum
import math

from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.linear import Atom, Linear, Rate, Ratio

__all__ = ["Unit", "decimals", "plain_number", "shown", "unit_of", "unit_of_form"]

_SHARES = frozenset({"precision", "f_beta", "win_change_ratio"})
NONE = "–"
PERCENT = "\u00a0%"  # the space does not break


class Unit(enum.StrEnum):
    """What a number is."""

    SHARE = "share"
    NUMBER = "number"


def unit_of(entry: Constraint | Bundle) -> Unit:
    """Whether both sides of a constraint are shares."""
    if isinstance(entry, Bundle):
        return Unit.SHARE
    return Unit.SHARE if Unit.SHARE is unit_of_form(entry.lhs) is unit_of_form(entry.rhs) else Unit.NUMBER


def unit_of_form(form: Linear) -> Unit:
    """Whether a form is made of shares."""
    return Unit.SHARE if all(_is_share(atom) for _, atom in form.terms) else Unit.NUMBER


def _is_share(atom: Atom) -> bool:
    if isinstance(atom, Rate):
        return not atom.definition.is_count
    if atom.name is not None:
        return atom.name in _SHARES
    return _is_quotient_of_shares(atom)


def _is_quotient_of_shares(ratio: Ratio) -> bool:
    """Whether "84 % of the other rate" is how it is said."""
    return all(unit_of_form(form) is Unit.SHARE for form in (ratio.numerator, ratio.denominator))


def shown(value: float | None, unit: Unit, *, points: bool = False, sign: bool = False) -> str:
    """A number in its unit: `64.1 %`, with `points` (of percent) `0.3 points`; a dash where there is none.

    Zeros behind the comma are left out of round numbers: `60 %`.
    """
    if value is None or not math.isfinite(value):
        return NONE
    plus = "+" if sign and value > 0 else ""
    if unit is Unit.NUMBER:
        return plus + plain_number(value).replace("-", "−")
    number = 100.0 * value
    text = (
        f"{number:.0f}"
        if abs(number - round(number)) < 1e-9
        else f"{number:.2f}"
        if abs(number) < 1
        else f"{number:.1f}"
    )
    text = text.replace("-", "−") if float(text) else text.replace("-", "")
    return plus + text + (" points" if points else PERCENT)


def decimals(value: float, digits: int = 2, *, sign: bool = False) -> str:
    """A number with so many digits behind the point, and a true minus."""
    text = f"{value:.{digits}f}"
    text = text.removeprefix("-") if not float(text) else text
    return ("+" if sign and float(text) > 0.0 else "") + text.replace("-", "−")


def plain_number(value: float) -> str:
    """Up to four digits, thousands apart."""
    if abs(value) >= 1000 and float(value).is_integer():
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.4g}"
