"""What rules cost: finite differences of stored paths on held-out rows, in the words of people."""

from collections.abc import Sequence

import numpy as np

from widemargin.exceptions import GoalError
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.goal_report import ConstraintReport
from widemargin.goals.measuring.tiers import compared_with_level, level_of
from widemargin.goals.measuring.tradeoff_path import STRETCHES, Price, TradeoffPath
from widemargin.report.content import Content
from widemargin.report.numbers import Unit, decimals, shown, unit_of, unit_of_form

__all__ = [
    "entry_of_path",
    "is_floor",
    "objective_word",
    "path_prices",
    "price_sentence",
    "price_text",
    "trained_level",
    "units_of_path",
]

POINTS_A_STRETCH = 4
"""Differences are taken over that many steps of the path: between close neighbours the noise is larger."""
CLEAR = 2.0
"""From that many standard errors on a price is called different from nothing."""


def entry_of_path(path: TradeoffPath, *goals: Goal | None) -> Constraint | Bundle | None:
    """The constraint of the first goal that has one of the path's name."""
    for goal in goals:
        for entry in () if goal is None else goal.constraints:
            if path.name in (entry.label, entry.text):
                return entry
    return None


def trained_level(path: TradeoffPath, *goals: Goal | None) -> float | None:
    """The bound of that constraint."""
    entry = entry_of_path(path, *goals)
    try:
        return None if entry is None else level_of(entry)
    except GoalError:
        return None


def is_floor(entry: Constraint | Bundle) -> bool:
    """Whether raising the bound makes the rule stricter."""
    return entry.difference is None if isinstance(entry, Bundle) else compared_with_level(entry)[2]


def objective_word(goal: Goal) -> str:
    """What the objective is called in the text."""
    return "error" if str(goal.objective) == "error_rate()" else str(goal.objective)


def path_prices(path: TradeoffPath) -> tuple[Price, ...]:
    """Prices over stretches of several steps; none without held-out rows."""
    if path.held_out is None:
        return ()
    usable = int((path.met & np.isfinite(path.held_out.objective)).sum())
    return path.prices(max(1, min(STRETCHES, (usable - 1) // POINTS_A_STRETCH)))


def price_sentence(content: Content, item: ConstraintReport, unit: Unit) -> str | None:
    """The price of a rule at the bound it was trained with; None where no path was stored for it."""
    for path in content.paths:
        entry = entry_of_path(path, content.trained_goal, content.goal)
        if entry is None or path.name not in (item.label, item.text, item.bundle):
            continue
        prices = path_prices(path)
        level = trained_level(path, content.trained_goal, content.goal)
        price = _nearest(prices, level, up=is_floor(entry))
        if price is None:
            return "not known: too few points of the path met the goal on the training rows."
        return price_text(
            price, is_floor(entry), (unit, unit_of_form(content.goal.objective)), objective_word(content.goal)
        )
    return None


def price_text(price: Price, floor: bool, units: tuple[Unit, Unit], paid_in: str) -> str:
    """`one point more costs 0.30 points of error (± 0.08), between 60 % and 66 %`."""
    cost = price.price if floor else -price.price
    bound = tuple(shown(value, units[0]) for value in (price.start, price.stop))
    step = "one point" if units[0] is Unit.SHARE else "1"
    stricter = f"{step} {'more' if floor else 'less'}"
    if units[0] is not units[1] and units[0] is Unit.SHARE:
        cost, error = cost / 100.0, price.standard_error / 100.0
    elif units[0] is not units[1]:
        cost, error = cost * 100.0, price.standard_error * 100.0
    else:
        error = price.standard_error
    paid = f"points of {paid_in}" if units[1] is Unit.SHARE else f"of {paid_in}"
    where = f"between {bound[0]} and {bound[1]}, on held-out rows"
    spread = "" if not np.isfinite(error) else f" ± {decimals(error)}"
    if not np.isfinite(error) or abs(cost) < CLEAR * error:
        return (
            f"{stricter} costs nothing that these rows can show ({decimals(cost, sign=True)}{spread} {paid}; {where})."
        )
    verb = "costs" if cost > 0 else "saves"
    return f"{stricter} {verb} {decimals(abs(cost))}{spread} {paid} ({where})."


def _nearest(prices: Sequence[Price], level: float | None, *, up: bool) -> Price | None:
    """The stretch that holds the bound; of two that meet there, the one on the stricter side."""
    if not prices or level is None:
        return prices[0] if prices else None

    def distance(price: Price) -> tuple[float, float]:
        outside = max(price.start - level, level - price.stop, 0.0)
        middle = 0.5 * (price.start + price.stop)
        return round(outside, 12), -middle if up else middle

    return min(prices, key=distance)


def units_of_path(path: TradeoffPath, entry: Constraint | Bundle | None, goal: Goal) -> tuple[Unit, Unit]:
    """Of the bound and of the objective."""
    return (Unit.NUMBER if entry is None else unit_of(entry)), unit_of_form(goal.objective)
