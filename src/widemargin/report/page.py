"""The page: sections in order, with the style sheet and the script inside, and a policy that lets nothing else run."""

from importlib.resources import files

from widemargin.report import records, sections
from widemargin.report.content import Content
from widemargin.report.markup import Html, element, fingerprint, joined, raw_script, raw_style
from widemargin.report.tradeoff import tradeoff
from widemargin.report.words import Words

__all__ = ["page"]


def page(content: Content) -> str:
    """The whole HTML file, which needs nothing else and asks for nothing else."""
    words = Words(content.goal, content.report.positive_class)
    found = [
        sections.goal_in_words(content, words),
        sections.verdicts(content, words),
        sections.beside(content),
        sections.changes(content),
        tradeoff(content),
        sections.margins(content),
        records.model_card(content),
        records.record(content),
    ]
    main = element("main", *found, id="main")
    style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    skip = element("a", "To the verdicts", href="#verdicts", class_="skip")
    body = element("body", skip, sections.headline(content), main, _footer(), raw_script(script))
    return "<!DOCTYPE html>\n" + element("html", _head(content.title, style, script), body, lang="en") + "\n"


def _head(title: str, style: str, script: str) -> Html:
    policy = (
        f"default-src 'none'; style-src {fingerprint(style)}; script-src {fingerprint(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("meta", name_="generator", content="widemargin"),
        element("title", title),
        joined(raw_style(style)),
    )


def _footer() -> Html:
    return element(
        "footer",
        element("p", "Made by widemargin. This file holds everything it shows and asks the network for nothing."),
    )
