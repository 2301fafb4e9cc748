"""What rules cost: finite differences of stored paths on held-out rows, and the section that shows them.

The section has a picture, a movable bound, and a table for each stored path.
"""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from widemargin._typing import Bools, Floats
from widemargin.exceptions import GoalError
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.goal_report import ConstraintReport
from widemargin.goals.measuring.rates_of_predictions import TOLERANCE
from widemargin.goals.measuring.tradeoff_path import STRETCHES, Price, TradeoffPath
from widemargin.report.content import Content, shown_rules
from widemargin.report.drawings import frontier
from widemargin.report.markup import Child, Html, element, embedded_json, section, table
from widemargin.report.words import NONE, Unit, capital, decimals, plain_number, shown, unit_of, unit_of_form


def objective_word(goal: Goal) -> str:
    """What the objective is called in the text."""
    return "error" if str(goal.objective) == "error_rate()" else str(goal.objective)


class SweptRule:
    """A stored path, with the rule of the goal that it sweeps.

    Attributes
    ----------
    entry : Constraint, Bundle or None
        The rule that was swept: that of the goal of training if it has one, else that of the goal of the report.
    trained : float or None
        Its bound.
    is_floor : bool
        Whether raising the bound makes the rule stricter.
    units : (Unit, Unit)
        Of the bound and of the objective.
    prices : tuple of Price
        Over stretches of several steps; none without held-out rows.
    """

    def __init__(self, content: Content, path: TradeoffPath) -> None:
        self.path = path
        self.entry: Constraint | Bundle | None = None
        self.trained: float | None = None
        self.is_floor = bool(path.is_floor)
        for entry in content.asked_entries:
            if path.name in (entry.label, entry.text):
                self.entry = entry
                # A rule in which no single number stands out has no level; its path is shown without a mark.
                with contextlib.suppress(GoalError):
                    self.trained = entry.level
                break
        self.units = Unit.NUMBER if self.entry is None else unit_of(self.entry), unit_of_form(content.goal.objective)
        self.prices: tuple[Price, ...] = ()
        if path.held_out is not None:
            usable = int((path.met & np.isfinite(path.held_out.objective)).sum())
            # over four steps of the path at least: between close neighbours the noise is larger
            self.prices = path.prices(max(1, min(STRETCHES, (usable - 1) // 4)))

    def price_text(self, price: Price, unit: Unit, paid_in: str) -> str:
        """`one point more costs 0.30 points of error (± 0.08), between 60 % and 66 %`."""
        cost, error = price.price if self.is_floor else -price.price, price.standard_error
        # A price is objective per unit of the bound. Where both are shares, "points per point" is the same number.
        # Where only the bound is a share, one point of it is 0.01; where only the objective is, it is told in points.
        in_points = unit is not Unit.NUMBER
        if in_points != (self.units[1] is Unit.SHARE):
            scale = 100.0 if in_points else 0.01
            cost, error = cost / scale, error / scale
        stricter = f"{'one point' if in_points else '1'} {'more' if self.is_floor else 'less'}"
        paid = f"points of {paid_in}" if self.units[1] is Unit.SHARE else f"of {paid_in}"
        where = f"between {shown(price.start, unit)} and {shown(price.stop, unit)}, on held-out rows"
        spread = "" if not np.isfinite(error) else f" ± {decimals(error)}"
        if cost == error == 0.0:
            where = f"between {shown(price.start, unit)} and {shown(price.stop, unit)}"
            return f"{stricter} costs nothing: the bound has slack {where}."
        # From two standard errors on a price is called different from nothing. A stricter bound leaves fewer models to
        # choose from, so what looks like a gain is chance, and no number is given for it.
        if not np.isfinite(error) or cost < 2.0 * error:
            nothing = f"{decimals(cost, sign=True)}{spread} {paid}; {where}" if cost > 0.0 else where
            return f"{stricter} costs nothing that these rows can show ({nothing})."
        return f"{stricter} costs {decimals(cost)}{spread} {paid} ({where})."


def price_sentence(content: Content, item: ConstraintReport, unit: Unit) -> str | None:
    """The price of a rule at the bound it was trained with; None where no path was stored for it."""
    for path in content.paths:
        rule = SweptRule(content, path)
        if rule.entry is None or path.name not in (item.label, item.text, item.bundle):
            continue
        if not rule.prices:
            return "not known: too few points of the path met the goal on the training rows."
        price, level = rule.prices[0], rule.trained
        if level is not None:
            # the stretch that holds the bound; of two that meet there, the one on the stricter side
            upwards = -0.5 if rule.is_floor else 0.5
            price = min(
                rule.prices,
                key=lambda p: (round(max(p.start - level, level - p.stop, 0.0), 12), upwards * (p.start + p.stop)),
            )
        return rule.price_text(price, unit, objective_word(content.goal))
    return None


def tradeoff(content: Content) -> Html | None:
    """What each rule costs; None where no path was stored."""
    if not content.paths:
        return None
    rows = "training" if all(path.held_out is None for path in content.paths) else "held-out"
    intro = (
        "Each picture shows models that were trained to other bounds of one rule, the other rules staying as they are. "
        "Move the bound to see what such a model did on the rows; nothing is guessed between the points."
    )
    legend = (
        f"Dots: {objective_word(content.goal)} on the {rows} rows, with one standard error up and down. Dashed: on the "
        "training rows. Dotted upright line: the bound that this model was trained with. Ring: the bound chosen. "
        "Cross: no model that meets the goal on the training rows was found; this bound asks too much."
    )
    # Of two constraints that compare the same rates both ways round, one rule, the path of the worse one is shown.
    names = {path.name for path in content.paths}
    twins = {label for rule in shown_rules(content, content.report) if rule.name in names for label in rule.mirrored}
    paths = [path for path in content.paths if path.name not in twins]
    rules = [SweptRule(content, path) for path in paths]
    # A path trains its models one from the other, so at the bound of the page's model it may hold another one.
    own, unit = content.report.objective, unit_of_form(content.goal.objective)
    at_bound = [
        float(part.objective[point])
        for rule in rules
        if (part := rule.path.held_out) is not None
        for point in np.flatnonzero(rule.path.values == rule.trained)
    ]
    if own is not None and any(abs(value - own) > TOLERANCE for value in at_bound):
        intro += (
            f" They start from one another; the model of this page was trained by itself, so it is none of them: its "
            f"{objective_word(content.goal)} on its own rows is {shown(own, unit)}."
        )
    parts = [_path(content, rule, f"path-{j}") for j, rule in enumerate(rules)]
    return section("tradeoff", "What the rules cost", element("p", intro), element("p", legend, class_="note"), *parts)


class RuleAlongPath(NamedTuple):
    """A constraint, or a rule, at every point of a path; the page's script reads these fields by their names.

    Attributes
    ----------
    sign : list of str
        "≥" or "≤".
    """

    label: str
    unit: Unit
    rate: list[float | None]
    bound: list[float | None]
    kept: list[bool]
    sign: list[str]


def _path(content: Content, rule: SweptRule, identifier: str) -> Html:
    """Picture, slider, the table of the chosen point, prices, all points, and the numbers that the script needs."""
    path, units, word = rule.path, rule.units, objective_word(content.goal)
    part = path.training if path.held_out is None else path.held_out
    objective, error = _finite(part.objective), _finite(part.objective_error)
    chosen = len(path) // 2 if rule.trained is None else int(np.argmin(np.abs(path.values - rule.trained)))
    sign = "" if rule.entry is None else "≥ " if rule.is_floor else "≤ "
    bound = f"{sign}{shown(float(path.values[chosen]), units[0])}"
    picture, x, y = frontier(
        path, chosen=chosen, trained=rule.trained, units=units, identifier=identifier, name=capital(word)
    )
    rates = _shown_rates(content, path)
    promised = next((rule for rule in shown_rules(content, content.report) if rule.name == path.name), None)
    slider = element(
        "input", type="range", id=f"{identifier}-slider", min=0, max=len(path) - 1, step=1, value=chosen,
        aria_valuetext=bound, aria_describedby=f"{identifier}-said",
    )  # fmt: skip
    moved = f"Move the bound of “{path.name}”"
    if promised is not None and rule.trained is not None and promised.worst.bound != rule.trained:
        moved += f" (promised: {sign}{shown(promised.worst.bound, promised.unit)})"
    label = element("label", moved, for_=f"{identifier}-slider")
    hint = "The bound can be moved where scripts run; all points stand in the table below."
    # Word for word the sentence that page.js writes when the slider moves.
    state = f"Bound {bound}: {'met' if path.met[chosen] else 'NOT met'} on the training rows."
    output = element("output", state, id=f"{identifier}-said", for_=f"{identifier}-slider")
    control = element(
        "div",
        element("div", label, slider, class_="control", hidden=True, id=f"{identifier}-control"),
        element("p", hint, class_="no-script"),
        element("p", output, class_="chosen"),
    )

    def cell(what: str, text: str) -> Html:
        return element("span", text, id=f"{identifier}-{what}")

    spread = "" if error[chosen] is None else f" ± {shown(error[chosen], units[1], points=True)}"
    lines: list[Sequence[Child]] = [[word, cell("objective", shown(objective[chosen], units[1]) + spread), ""]]
    for j, (name, unit, rate, limit, met, sense) in enumerate(rates):
        against = NONE
        if limit[chosen] is not None:
            against = f"{sense[chosen]} {shown(limit[chosen], unit)} {'✓ kept' if met[chosen] else '✗ missed'}"
        lines.append([name, cell(f"rate-{j}", shown(rate[chosen], unit)), cell(f"bound-{j}", against)])
    measured_on = "training rows: nothing was held out" if path.held_out is None else "held-out rows"
    caption_of_point = f"The model at this bound of “{path.name}”, on {measured_on}"
    point = table(caption_of_point, ["rule", "measured", "promised"], lines, class_="point")
    data: dict[str, object] = {
        "sign": sign, "unit": units[0], "objectiveUnit": units[1], "values": path.values.tolist(),
        "met": path.met.tolist(), "objective": list(objective), "error": list(error),
        "rules": [line._asdict() for line in rates],
        "x": list(x), "y": list(y),
    }  # fmt: skip
    head = ["bound", word, "± one standard error", *(name for name, *_ in rates), "training rows"]
    rows = [
        [
            shown(float(path.values[i]), units[0]), shown(objective[i], units[1]),
            shown(error[i], units[1], points=True),
            *(shown(rate[i], unit) for _, unit, rate, *_ in rates), "met" if path.met[i] else "NOT met",
        ]
        for i in range(len(path))
    ]  # fmt: skip
    caption = element("figcaption", f"{capital(word)} against the bound of “{path.name}”.")
    return element(
        "article",
        element("h3", f"The bound of “{path.name}”"),
        element("div", element("figure", picture, caption), element("div", control, point), class_="two"),
        *_prices(rule, word),
        element("details", element("summary", "All points"), table(f"All points of “{path.name}”", head, rows)),
        embedded_json(data, f"{identifier}-data"),
        class_="path flat" if rule.prices and all(price.price == 0.0 for price in rule.prices) else "path",
        data_path=identifier,
    )


def _prices(rule: SweptRule, word: str) -> list[Html]:
    """The price on each stretch of the path, and what a price is."""
    if rule.path.held_out is None:
        return [element("p", "There are no prices: they are differences on held-out rows, and none were held out.")]
    if not rule.prices or rule.entry is None:
        return [element("p", "There are no prices: fewer than two points met the goal on the training rows.")]
    items = [element("li", rule.price_text(price, rule.units[0], word)) for price in rule.prices]
    rows = plain_number(rule.path.held_out.n_rows)
    note = f"Prices are differences between models of this path on {rows} held-out rows, ± one standard error."
    return [element("h4", "Price"), element("ul", *items), element("p", note, class_="note")]


def _shown_rates(content: Content, path: TradeoffPath) -> list[RuleAlongPath]:
    """Each rule that the user wrote at all points of a path, as the cards show it: a rule that compares two rates by a
    factor as their ratio, a bundle by its worst pair, two rates that are compared both ways round by the worse way.

    Where less is promised than training asked for, the promise decides on held-out rows, as in the cards; else the
    bound of the path.
    """
    part = path.training if path.held_out is None else path.held_out
    may_differ = path.held_out is not None and content.trained_goal not in (None, content.goal)
    both_ways = {
        label: f"{rule.name}, the worse way round"
        for rule in shown_rules(content, content.report)
        for label in ([rule.name, *rule.mirrored] if rule.mirrored else [])
    }
    by_rule: dict[str, list[tuple[Unit, Floats, Floats, Bools, bool]]] = {}
    for j, label in enumerate(path.labels):
        rate, bound, slack, is_floor = part.rate[:, j], part.bound[:, j], part.slack[:, j], bool(path.floors[j])
        asked = next((entry for entry in content.asked_entries if entry.owns(label)), None)
        unit = Unit.NUMBER if asked is None else unit_of(asked)
        entry, is_swept = asked, asked is not None and path.name in (asked.label, asked.text)
        if may_differ and asked is not None:
            promised = next((entry for entry in content.goal.constraints if _is_same_rule(asked, entry)), None)
            if promised is not None:
                rate, bound = _at_promise(asked, promised, path.values if is_swept else None, rate, bound)
                entry, is_swept = promised, False
        if path.held_out is not None:
            # The stored slack belongs to the bound of the path; only where it was undefined it stays so.
            slack = np.where(np.isfinite(slack), (rate - bound) if is_floor else (bound - rate), np.nan)
        compared = None if entry is None else entry.factor
        if compared is not None:
            factor, is_on_the_left, is_floor = compared
            # Along its own path the factor changes from point to point; a promise, and all other rules, stay.
            factors = path.values if is_swept else np.full(len(path), factor)
            over, under = (rate, bound) if is_on_the_left else (bound, rate)
            rate = np.divide(over * factors, under, out=np.full(len(path), np.nan), where=under != 0.0)
            bound = factors
        name = entry.label or entry.text if isinstance(entry, Bundle) else label
        by_rule.setdefault(both_ways.get(name, name), []).append((unit, rate, bound, slack >= -TOLERANCE, is_floor))
    rules = []
    for name, lines in by_rule.items():
        units, rates, bounds, kept, floors = map(list, zip(*lines, strict=True))
        # At each point the constraint with the least slack, and the rule is met only where all of them are.
        slacks = [
            rate - bound if floor else bound - rate for rate, bound, floor in zip(rates, bounds, floors, strict=True)
        ]
        worst, points = np.nan_to_num(slacks, nan=-np.inf).argmin(axis=0), np.arange(len(path))
        rules.append(
            RuleAlongPath(
                name, units[0], _finite(np.array(rates)[worst, points]), _finite(np.array(bounds)[worst, points]),
                np.all(kept, axis=0).tolist(), ["≥" if floors[line] else "≤" for line in worst],
            )
        )  # fmt: skip
    return rules


def _at_promise(
    asked: Constraint | Bundle, promised: Constraint | Bundle, swept: Floats | None, rate: Floats, bound: Floats
) -> tuple[Floats, Floats]:
    """Both sides of a constraint along a path, measured at the level that was asked for, at the level that is promised.

    `swept` are the levels of a constraint that is swept.
    """
    try:
        levels = np.full(len(rate), asked.level) if swept is None else swept
        level = promised.level
    except GoalError:  # it has no single number to differ in
        return rate, bound
    # `a >= k * b` was measured with the k of the path; with a factor of 0 there nothing is known of b.
    factor = np.divide(level, levels, out=np.full(len(rate), np.nan), where=levels != 0.0)
    if isinstance(promised, Bundle):
        return rate, (np.full(len(rate), level) if promised.ratio is None else bound * factor)
    is_on_the_right = promised.compared_with_level()[0] == promised.lhs
    side = promised.rhs if is_on_the_right else promised.lhs
    moved = (bound if is_on_the_right else rate) * factor if side.terms else np.full(len(rate), level)
    return (rate, moved) if is_on_the_right else (moved, bound)


def _is_same_rule(one: Constraint | Bundle, other: Constraint | Bundle) -> bool:
    """Whether two rules differ in nothing but their number (and in their names, where one has none)."""
    if isinstance(one, Bundle) and isinstance(other, Bundle):
        same = (one.kind, one.column, one.population, one.ratio is None) == (
            other.kind, other.column, other.population, other.ratio is None,
        )  # fmt: skip
    elif isinstance(one, Constraint) and isinstance(other, Constraint):
        same = (one.sense, one.lhs.rates, one.rhs.rates) == (other.sense, other.lhs.rates, other.rhs.rates)
    else:
        return False
    return same and (one.label == other.label or None in (one.label, other.label))


def _finite(values: Floats) -> list[float | None]:
    """Numbers, None where there is none."""
    return [value if np.isfinite(value) else None for value in values.tolist()]
