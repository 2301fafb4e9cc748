"""The sections of the report, except that about prices: the goal, its verdicts, other models, margins, the model card.

What is known, what only the owner can say, and what it was all made from.
"""

from collections.abc import Mapping

from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport
from widemargin.report.content import MODEL, Content
from widemargin.report.drawings import interval_bar, margin_histogram
from widemargin.report.markup import Child, Html, element, joined, section, table
from widemargin.report.tradeoff import objective_word, price_sentence
from widemargin.report.words import NONE, Unit, Words, capital, decimals, plain_number, shown, unit_of, unit_of_form

__all__ = ["CARD", "beside", "changes", "goal_in_words", "headline", "margins", "model_card", "record", "verdicts"]

MARKS = {"met": "✓", "not met": "✗", "undecided": "?", "undefined": "∅"}


def headline(content: Content) -> Html:
    """The title and the verdict in one line."""
    report = content.report
    number = len(report.constraints)
    met = sum(item.passes(report.decide) for item in report.constraints)
    rule = "with confidence" if report.decide == "confident" else "by the estimate"
    if not number:
        verdict, text = "met", "The goal has no rules; nothing had to be met."
    else:
        verdict = "met" if report.passed else "not met"
        word = "Goal met" if report.passed else "Goal NOT met"
        rules = "rule is" if number == 1 else "rules are"
        text = f"{word}: {met} of {number} {rules} kept {rule}."
    open_ones = sum(item.verdict == "undecided" for item in report.constraints)
    more = ""
    if open_ones:
        kind = "rule is" if open_ones == 1 else "rules are"
        more = (
            f" For {open_ones} of them these rows are too few to be sure."
            if number > 1
            else (f" {open_ones} {kind} undecided: these rows are too few to be sure.")
        )
    mark = element("span", MARKS[verdict], aria_hidden="true", class_="mark")
    measured = (
        f"{capital(content.model_name)}, measured on {report.data_name} ({plain_number(report.n_rows)} rows). "
        f"Positive class: “{report.positive_class}”."
    )
    return element(
        "header",
        element("p", "widemargin report", class_="kicker"),
        element("h1", content.title),
        element("p", mark, f" {text}{more}", class_=f"banner {_class(verdict)}"),
        element("p", measured),
    )


def goal_in_words(content: Content, words: Words) -> Html:
    """What is asked for."""
    goal = content.goal
    rules = [element("li", _label(entry.label), words.sentence(entry)) for entry in goal.constraints]
    parts: list[Child] = [element("ol", *rules, class_="rules")] if rules else [element("p", "There are no rules.")]
    parts.append(element("p", words.objective()))
    named = words.populations()
    if named:
        items = [joined(element("dt", name), element("dd", meaning)) for name, meaning in named]
        parts += [element("h3", "Who is meant"), element("dl", *items, class_="names")]
    if content.trained_goal is not None and content.trained_goal != goal:
        parts += [element("h3", "What training asked for"), *_trained(content.trained_goal, words.positive_class)]
    code = element("pre", element("code", _lines(str(goal))))
    parts.append(element("details", element("summary", "The same in the language of goals"), code))
    return section("goal", "The goal in words", *parts)


def _trained(goal: Goal, positive_class: object) -> list[Html]:
    """The rules of training, where they are stricter than what is promised."""
    words = Words(goal, positive_class)
    said = (
        "Rules that are met exactly on training rows are often missed by a little on others; the model was trained to:"
    )
    rules = [element("li", _label(entry.label), words.sentence(entry)) for entry in goal.constraints]
    return [element("p", said), element("ol", *rules, class_="rules")]


def _label(label: str | None) -> Html | None:
    return None if label is None else joined(element("strong", label), ": ")


def _lines(text: str) -> Html:
    """Lines of code, each escaped."""
    return Html("\n".join(joined(line) for line in text.split("\n")))


def verdicts(content: Content, words: Words) -> Html:
    """One card for each rule: verdict, picture, numbers, price."""
    report = content.report
    cards = [_card(content, item, words) for item in report.constraints]
    legend = (
        "Dot: what was measured. Bar: its interval. Line: the bound of the rule. Hatched: the side that keeps the rule."
    )
    parts: list[Child] = [element("p", legend, class_="note")] if cards else []
    parts += cards
    parts += [element("p", text, class_="note") for text in _notes(report)]
    return section("verdicts", "Is it met?", *parts)


def _card(content: Content, item: ConstraintReport, words: Words) -> Html:
    entry = content.entry_of(item)
    unit = unit_of_item(content, item)
    sentence = item.text
    if entry is not None:
        sentence = (
            words.sentence(entry) if not isinstance(entry, Bundle) else f"{words.sentence(entry)} Here: {item.text}."
        )
    body: list[Child] = [
        element("h3", item.label, " ", _badge(item)),
        element("p", sentence),
        interval_bar(item, unit) or element("p", "Undefined on these rows: a denominator is 0.", class_="note"),
        element("p", _numbers(item, unit), class_="numbers"),
    ]
    price = price_sentence(content, item, unit)
    if price is not None:
        body.append(element("p", element("strong", "Price: "), price, class_="price"))
    return element("article", *body, class_=f"card {_class(item.verdict)}")


def _badge(item: ConstraintReport) -> Html:
    text: str = item.verdict
    if item.verdict == "undecided":
        text = f"undecided, {'met' if item.met else 'not met'} by the estimate"
    return element("span", element("span", MARKS[item.verdict], aria_hidden="true", class_="mark"), f" {text}",
                   class_=f"badge {_class(item.verdict)}")  # fmt: skip


def _numbers(item: ConstraintReport, unit: Unit) -> str:
    sign = "≥" if item.sense == ">=" else "≤"
    parts = [f"{shown(item.rate, unit)} against {sign} {shown(item.bound, unit)}"]
    if item.slack is not None:
        side = "on the right side" if item.slack >= 0 else "on the wrong side"
        parts.append(f"{shown(abs(item.slack), unit, points=True)} {side}")
    if item.interval is not None:
        ends = (item.interval.lower, item.interval.upper)
        low, high = (shown(end, unit, points=True, sign=True) for end in ends)
        parts.append(f"{shown(item.interval.confidence, Unit.SHARE)} interval of that distance: {low} to {high}")
    rows = plain_number(item.n_rows)
    parts.append(f"{rows} rows" if item.n_populations == 1 else f"{rows} rows in the smallest population")
    return "; ".join(parts) + "."


def _notes(report: GoalReport) -> list[str]:
    notes = []
    if report.confidence is not None and report.constraints:
        each, all_of = shown(report.confidence, Unit.SHARE), shown(report.simultaneous_confidence, Unit.SHARE)
        notes.append(
            f"Each interval holds with {each} confidence, all of them together with {all_of}. “Undecided” means that "
            "the bound lies inside the interval: more rows are needed to be sure."
        )
    elif report.constraints:
        notes.append("There are no intervals: these verdicts are estimates on the rows that were measured.")
    missing = max((item.n_missing for item in report.constraints), default=0)
    if missing:
        notes.append(f"{plain_number(missing)} rows lack a value that decides whether they belong to a population.")
    notes += [f"Left out: {item.label}: {item.reason}" for item in report.dropped]
    return notes + list(report.notes)


def unit_of_item(content: Content, item: ConstraintReport) -> Unit:
    """In what its rate is read."""
    entry = content.entry_of(item)
    return Unit.NUMBER if entry is None else unit_of(entry)


def beside(content: Content) -> Html | None:
    """The model and others on the same rows and the same goal."""
    if not content.others:
        return None
    reports = {MODEL: content.report, **content.others}
    unit = unit_of_form(content.goal.objective)
    objective: list[Child] = [objective_word(content.goal)]
    rows = [objective + [shown(report.objective, unit) for report in reports.values()]]
    for number, item in enumerate(content.report.constraints):
        name = f"{item.label}: {item.text}" if item.label.startswith("#") else item.label
        cells: list[Child] = [name]
        for report in reports.values():
            other = report.constraints[number]
            mark = "met" if other.met else "not met"
            value = shown(other.rate, unit_of_item(content, item))
            verdict = element("span", element("span", MARKS[mark], aria_hidden="true"), f" {mark}", class_=_class(mark))
            cells.append(joined(f"{value} ", verdict))
        rows.append(cells)
    said = (
        f"By the estimates on the same rows; of {objective_word(content.goal)}, less is better. A model without rules "
        "usually has less of it: the difference is what the rules cost."
    )
    content_table = table("Models on the same rows", ["", *reports], rows, class_="compare")
    return section("beside", "Beside other models", element("p", said), content_table)


def changes(content: Content) -> Html | None:
    """Churn, wins and losses against each baseline."""
    if not content.changes:
        return None
    rows: list[list[Child]] = [
        [f"“{item.name}”", *(_range(part) for part in (item.churn, item.wins, item.losses))] for item in content.changes
    ]
    said = (
        "How many of all rows are decided differently from another model, and which of these changes are for the "
        "better (the model is right and the other wrong) or for the worse. Intervals in brackets."
    )
    head: list[Child] = ["compared with", "changed", "for the better", "for the worse"]
    return section(
        "changes",
        "What changes against other models",
        element("p", said),
        table("Changes against other models", head, rows),
    )


def _range(part: tuple[float, float | None, float | None] | None) -> str:
    if part is None:
        return NONE
    value, low, high = part
    text = shown(value, Unit.SHARE)
    return text if low is None or high is None else f"{text} ({shown(low, Unit.SHARE)} to {shown(high, Unit.SHARE)})"


def margins(content: Content) -> Html:
    """How far rows are on the right side, by population."""
    found = content.margins
    title = "How sure the model is"
    if isinstance(found, str):
        return section("margins", title, element("p", found))
    highest = max(float(shares.max()) for shares in found.shares.values())
    figures = []
    for name, report in found.reports.items():
        whole = report.overall
        text = (
            f"{name}: {plain_number(whole.n_rows)} rows, median margin {decimals(whole.median)}, "
            f"{shown(whole.below, Unit.SHARE)} on the wrong side"
        )
        picture = margin_histogram(found.edges, found.shares[name], highest, text + ".")
        figures.append(element("figure", element("figcaption", text), picture))
    head: list[Child] = ["population", "rows", "median", "mean", "5 %", "95 %", "wrong side"]
    rows: list[list[Child]] = []
    for name, report in found.reports.items():
        item = report.overall
        low, *_, high = item.quantiles
        numbers = [decimals(value) for value in (item.median, item.mean, low, high)]
        rows.append([name, plain_number(item.n_rows), *numbers, shown(item.below, Unit.SHARE)])
    first = next(iter(found.reports.values()))
    said = (
        f"The margin of a row is the score of its true class ({first.unit}): the further right of 0, the surer the "
        "right answer; left of 0 (hatched) the answer is wrong. A population further left is served worse."
    )
    more = (
        [element("p", f"{found.left_out} smaller populations are not shown.", class_="note")] if found.left_out else []
    )
    return section(
        "margins", title, element("p", said), element("div", *figures, class_="figures"),
        table("Margins by population", head, rows), *more,
    )  # fmt: skip


def _class(verdict: str) -> str:
    return "is-" + verdict.replace(" ", "-")


CARD: Mapping[str, str] = {
    "Intended use": "What the model decides, about whom, and who acts on it.",
    "Not intended for": "Uses that nobody has looked at, or that are ruled out.",
    "Where the rows come from": "Who collected them, when, how, with which consent, and whom they leave out.",
    "Harm of wrong decisions": "What a wrong decision does to a person, either way, and how it can be contested.",
    "Owner and contact": "Who answers for the model, and when it is to be looked at again.",
}
"""What only the owner can say: heading, and what is asked there."""


def model_card(content: Content) -> Html:
    """What is known about the model, and what is not."""
    known = [element("li", text) for text in _facts(content)]
    limits = [element("li", text) for text in _limits(content)]
    fields = []
    for name, question in CARD.items():
        said = content.card.get(name)
        text = said if said else joined(element("strong", "Not stated. "), f"To be filled in by the owner: {question}")
        fields.append(joined(element("dt", name), element("dd", text, class_=None if said else "blank")))
    more = [joined(element("dt", name), element("dd", text)) for name, text in content.card.items() if name not in CARD]
    return section(
        "card", "Model card",
        element("h3", "Known from the model and the rows"), element("ul", *known),
        element("h3", "Known limits"), element("ul", *limits),
        element("h3", "What only the owner can say"), element("dl", *fields, *more, class_="card-fields"),
    )  # fmt: skip


def _facts(content: Content) -> list[str]:
    report = content.report
    facts = [
        f"The model is {content.model_name}; it answers with one of two classes.",
        f"Rates count “{report.positive_class}” as positive.",
        f"It was measured on {report.data_name}: {plain_number(report.n_rows)} rows.",
    ]
    facts += [f"The external data set “{name}” has {plain_number(rows)} rows." for name, rows in report.external_rows]
    if content.goal.populations:
        names = ", ".join(f"“{name}”" for name in content.goal.populations)
        facts.append(f"Rates were measured for {names} apart.")
    return facts


def _limits(content: Content) -> list[str]:
    report = content.report
    limits = []
    for item in report.constraints:
        if item.verdict == "undecided":
            limits.append(
                f"“{item.label}” is undecided: measured {shown(item.rate, unit_of_item(content, item))} on "
                f"{plain_number(item.n_rows)} rows, too few to be sure on which side of its bound it is."
            )
        elif not item.met:
            limits.append(f"“{item.label}” is not kept.")
    limits += [f"“{item.label}” was not measured: {item.reason}" for item in report.dropped]
    if report.confidence is None:
        limits.append("There are no intervals: nothing is said about rows other than those measured.")
    else:
        each = shown(report.confidence, Unit.SHARE)
        limits.append(
            f"The {each} intervals are about rows drawn as these were; nothing is known about other times and places, "
            "or about people whom the rows leave out."
        )
    limits.append("Groups that the goal does not name were not looked at.")
    limits.append("A rate says nothing about why a single decision was made.")
    return limits


def record(content: Content) -> Html | None:
    """Data and settings, so that the report can be made again."""
    if not content.record:
        return None
    parts: list[Child] = []
    for heading, entries in content.record.items():
        items = [joined(element("dt", name), element("dd", *_value(value))) for name, value in entries.items()]
        parts += [element("h3", heading), element("dl", *items, class_="record")]
    return section("record", "Data and settings", *parts)


def _value(value: object) -> list[Child]:
    """Texts of several lines line by line; lists with commas."""
    if isinstance(value, list | tuple):
        return [", ".join(map(str, value)) or "none"]
    lines: list[Child] = []
    for line in str(value).split("\n"):
        lines += [element("br"), line] if lines else [line]
    return lines
