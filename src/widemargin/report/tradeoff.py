"""What rules cost: finite differences of stored paths on held-out rows, and the section that shows them.

The section has a picture, a movable bound, and a table for each stored path.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import GoalError
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.goal_report import ConstraintReport
from widemargin.goals.measuring.rates_of_predictions import TOLERANCE
from widemargin.goals.measuring.tradeoff_path import STRETCHES, Measures, Price, TradeoffPath
from widemargin.report.content import Content
from widemargin.report.drawings import Frontier, frontier
from widemargin.report.markup import Child, Html, element, embedded_json, section, table
from widemargin.report.words import NONE, Unit, capital, decimals, plain_number, shown, unit_of, unit_of_form

__all__ = ["objective_word", "price_sentence", "tradeoff"]

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
        return None if entry is None else entry.level
    except GoalError:
        return None


def is_floor(entry: Constraint | Bundle) -> bool:
    """Whether raising the bound makes the rule stricter."""
    return entry.difference is None if isinstance(entry, Bundle) else entry.compared_with_level()[2]


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


@dataclass(frozen=True)
class _Rule:
    """One constraint along a path: its rates, the bounds that decide on these rows, and whether they are kept."""

    label: str
    unit: Unit
    rate: list[float | None]
    bound: list[float | None]
    kept: list[bool]
    sign: list[str]


def tradeoff(content: Content) -> Html | None:
    """What each rule costs; None where no path was stored."""
    if not content.paths:
        return None
    rows = "training" if all(path.held_out is None for path in content.paths) else "held-out"
    said = (
        "Each picture shows models that were trained to other bounds of one rule, the other rules staying as they are. "
        "Move the bound to see what such a model did on the rows; nothing is guessed between the points."
    )
    legend = (
        f"Dots: {objective_word(content.goal)} on the {rows} rows, with one standard error up and down. Dashed: on the "
        "training rows. Dotted upright line: the bound that this model was trained with. Ring: the bound chosen. "
        "Cross: no model that meets the goal on the training rows was found; this bound asks too much."
    )
    parts = [_path(content, path, number) for number, path in enumerate(content.paths)]
    return section("tradeoff", "What the rules cost", element("p", said), element("p", legend, class_="note"), *parts)


def _path(content: Content, path: TradeoffPath, number: int) -> Html:
    entry = entry_of_path(path, content.trained_goal, content.goal)
    units = units_of_path(path, entry, content.goal)
    trained = trained_level(path, content.trained_goal, content.goal)
    part = path.training if path.held_out is None else path.held_out
    chosen = int(np.argmin(np.abs(path.values - trained))) if trained is not None else len(path) // 2
    identifier = f"path-{number}"
    name = capital(objective_word(content.goal))
    drawn = frontier(path, chosen=chosen, trained=trained, units=units, identifier=identifier, name=name)
    sign = _sign(entry)
    rules = _rules(content, path, part)
    data = _data(path, rules, units, drawn, sign)
    rows_name = "training rows: nothing was held out" if path.held_out is None else "held-out rows"
    caption = element("figcaption", f"{capital(objective_word(content.goal))} against the bound of “{path.name}”.")
    left = element("figure", drawn.picture, caption)
    right = element(
        "div",
        _control(path, identifier, chosen, units, sign),
        _point_table(content, part, rules, chosen, identifier, units, rows_name),
    )
    return element(
        "article",
        element("h3", f"The bound of “{path.name}”"),
        element("div", left, right, class_="two"),
        *_prices(content, path, entry, units),
        _all_points(content, path, units),
        embedded_json(data, f"{identifier}-data"),
        class_="path",
        data_path=identifier,
    )


def _sign(entry: Constraint | Bundle | None) -> str:
    return "" if entry is None else "≥ " if is_floor(entry) else "≤ "


def _control(path: TradeoffPath, identifier: str, chosen: int, units: tuple[Unit, Unit], sign: str) -> Html:
    """The slider, shown where scripts run, and the sentence that follows it."""
    slider = element(
        "input", type="range", id=f"{identifier}-slider", min=0, max=len(path) - 1, step=1, value=chosen,
        aria_valuetext=f"{sign}{shown(float(path.values[chosen]), units[0])}", aria_describedby=f"{identifier}-said",
    )  # fmt: skip
    label = element("label", f"Move the bound of “{path.name}”", for_=f"{identifier}-slider")
    said = element("output", _standing(path, chosen, units, sign), id=f"{identifier}-said", for_=f"{identifier}-slider")
    hint = element(
        "p", "The bound can be moved where scripts run; all points stand in the table below.", class_="no-script"
    )
    return element(
        "div", element("div", label, slider, class_="control", hidden=True, id=f"{identifier}-control"), hint,
        element("p", said, class_="chosen"),
    )  # fmt: skip


def _standing(path: TradeoffPath, i: int, units: tuple[Unit, Unit], sign: str) -> str:
    """The same sentence that the script writes."""
    asked = f"{sign}{shown(float(path.values[i]), units[0])}"
    state = "met on the training rows" if path.met[i] else "NOT met on the training rows"
    return f"Bound {asked}: {state}."


def _point_table(
    content: Content,
    part: Measures,
    rules: list[_Rule],
    chosen: int,
    identifier: str,
    units: tuple[Unit, Unit],
    rows: str,
) -> Html:
    """The rates of one point, which the script rewrites."""
    error = part.objective_error[chosen]
    spread = f" ± {shown(float(error), units[1], points=True)}" if np.isfinite(error) else ""
    objective = shown(_at(part.objective, chosen), units[1]) + spread
    lines: list[list[Child]] = [[objective_word(content.goal), _cell(identifier, "objective", objective), ""]]
    for j, rule in enumerate(rules):
        rate = _cell(identifier, f"rate-{j}", shown(rule.rate[chosen], rule.unit))
        lines.append([rule.label, rate, _cell(identifier, f"bound-{j}", _against(rule, chosen))])
    return table(f"The model at this bound, on {rows}", ["", "measured", "rule"], lines, class_="point")


def _cell(identifier: str, what: str, text: str) -> Html:
    return element("span", text, id=f"{identifier}-{what}")


def _rules(content: Content, path: TradeoffPath, part: Measures) -> list[_Rule]:
    """The constraints of a path.

    Where less is promised than training asked for, the promise decides on held-out rows; else the bound of the path.
    """
    rules = []
    for j, label in enumerate(path.labels):
        rate, bound, slack = part.rate[:, j], part.bound[:, j], part.slack[:, j]
        signs = [_sense(part, i, j) for i in range(len(path))]
        promised = _promised(content, label) if path.held_out is not None else None
        if promised is not None:
            bound = np.full(len(path), promised)
            slack = np.where([sign == "≥" for sign in signs], rate - bound, bound - rate)
        points = range(len(path))
        rules.append(
            _Rule(
                label,
                _unit_of_label(content, label),
                [_at(rate, i) for i in points],
                [_at(bound, i) for i in points],
                [bool(slack[i] >= -TOLERANCE) for i in points],
                signs,
            )
        )
    return rules


def _promised(content: Content, label: str) -> float | None:
    """The constant bound that is promised for a constraint of that label, where training asked for another one."""
    if content.trained_goal is None or content.trained_goal == content.goal:
        return None
    for entry in content.goal.constraints:
        if isinstance(entry, Constraint) and label == entry.label and not entry.rhs.terms:
            return entry.rhs.constant
    return None


def _against(rule: _Rule, i: int) -> str:
    """`≥ 60 % ✓ kept`."""
    if rule.bound[i] is None:
        return NONE
    return f"{rule.sign[i]} {shown(rule.bound[i], rule.unit)} {'✓ kept' if rule.kept[i] else '✗ missed'}"


def _sense(part: Measures, i: int, j: int) -> str:
    """Which side of its bound a rate has to be on, from its slack."""
    floor = abs((part.rate[i, j] - part.bound[i, j]) - part.slack[i, j])
    cap = abs((part.bound[i, j] - part.rate[i, j]) - part.slack[i, j])
    return "≥" if floor <= cap else "≤"


def _unit_of_label(content: Content, label: str) -> Unit:
    """The unit of a constraint of the path, which may be one of a bundle."""
    for goal in (content.trained_goal, content.goal):
        for entry in () if goal is None else goal.constraints:
            if label in (entry.label, entry.text):
                return unit_of(entry)
            if isinstance(entry, Bundle) and label.startswith((entry.label or entry.text, entry.kind)):
                return Unit.SHARE
    return Unit.NUMBER


def _at(values: Floats, i: int) -> float | None:
    value = float(values[i])
    return value if np.isfinite(value) else None


def _data(
    path: TradeoffPath, rules: list[_Rule], units: tuple[Unit, Unit], drawn: Frontier, sign: str
) -> dict[str, Any]:
    """What the script needs: the stored numbers, and where the points stand in the picture."""
    part = path.training if path.held_out is None else path.held_out
    points = range(len(path))
    return {
        "sign": sign,
        "unit": units[0],
        "objectiveUnit": units[1],
        "values": path.values.tolist(),
        "met": path.met.tolist(),
        "objective": [_at(part.objective, i) for i in points],
        "error": [_at(part.objective_error, i) for i in points],
        "rules": [vars(rule) for rule in rules],
        "x": drawn.x,
        "y": drawn.y,
    }


def _prices(
    content: Content, path: TradeoffPath, entry: Constraint | Bundle | None, units: tuple[Unit, Unit]
) -> list[Html]:
    """All stretches, and what a price is."""
    if path.held_out is None:
        return [element("p", "There are no prices: they are differences on held-out rows, and none were held out.")]
    prices = path_prices(path)
    if not prices or entry is None:
        return [element("p", "There are no prices: fewer than two points met the goal on the training rows.")]
    floor = is_floor(entry)
    items = [element("li", price_text(price, floor, units, objective_word(content.goal))) for price in prices]
    rows = plain_number(path.held_out.n_rows)
    note = f"Prices are differences between models of this path on {rows} held-out rows, ± one standard error."
    return [element("h4", "Price"), element("ul", *items), element("p", note, class_="note")]


def _all_points(content: Content, path: TradeoffPath, units: tuple[Unit, Unit]) -> Html:
    part = path.training if path.held_out is None else path.held_out
    head: list[Child] = ["bound", objective_word(content.goal), "± one standard error", *path.labels, "training rows"]
    rows: list[list[Child]] = []
    for i in range(len(path)):
        cells: list[Child] = [shown(float(path.values[i]), units[0]), shown(_at(part.objective, i), units[1])]
        cells.append(shown(_at(part.objective_error, i), units[1]))
        cells += [shown(_at(part.rate[:, j], i), _unit_of_label(content, label)) for j, label in enumerate(path.labels)]
        rows.append([*cells, "met" if path.met[i] else "NOT met"])
    return element("details", element("summary", "All points"), table(f"All points of “{path.name}”", head, rows))
