"""The model card and the record: what is known, what only the owner can say, and what it was all made from."""

from collections.abc import Mapping
from typing import Any

from widemargin.report.content import Content
from widemargin.report.markup import Child, Html, element, joined
from widemargin.report.numbers import Unit, plain_number, shown
from widemargin.report.sections import section, unit_of_item

__all__ = ["CARD", "model_card", "record"]

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


def _value(value: Any) -> list[Child]:
    """Texts of several lines line by line; lists with commas."""
    if isinstance(value, list | tuple):
        return [", ".join(map(str, value)) or "none"]
    lines: list[Child] = []
    for line in str(value).split("\n"):
        lines += [element("br"), line] if lines else [line]
    return lines
