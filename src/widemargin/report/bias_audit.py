"""A bias audit for people: one page."""

from collections.abc import Sequence

from widemargin.diagnostics.standards.local_law_144 import FOUR_FIFTHS, LEGEND, BiasAudit, CategoryTable
from widemargin.report.drawings import rates_by_group
from widemargin.report.markup import Child, Html, HtmlPage, element, section, table, terms, whole_page
from widemargin.report.words import NONE, Unit, capital, decimals, plain_number, shown

_SIGNS = {"yes": ("✓", "is-met"), "no": ("✗", "is-not-met"), "open": ("?", "is-undecided"), "undefined": ("∅", ""),
          "left out": (NONE, "")}  # fmt: skip


def bias_audit_page(audit: BiasAudit, *, title: str = "Bias audit under Local Law 144") -> HtmlPage:
    """Write a self-contained page: what the rules want published, tables, pictures, and what unknown people can change.

    Parameters
    ----------
    audit : BiasAudit
    title : str, default="Bias audit under Local Law 144"

    Returns
    -------
    HtmlPage

    Examples
    --------
    >>> from widemargin.diagnostics import local_law_144
    >>> from widemargin.report import bias_audit_page
    >>> audit = local_law_144([1, 0, 1, 1], ["F", "F", "M", "M"], ["A", "B", "A", "B"])
    >>> "Impact ratios" in bias_audit_page(audit).text
    True
    """
    verdict, tone = ("✓", "is-met") if audit.passed else ("✗", "is-not-met")
    how = "" if audit.decide == "estimate" else " however people of unknown category are placed"
    rule = f"{'Every' if audit.passed else 'Not every'} impact ratio is at least four fifths{how}. "
    found = (rule if audit.with_ratio else "") + audit.headline()
    header = element(
        "header",
        element("p", "widemargin bias audit", class_="kicker"),
        element("h1", title),
        element("p", element("span", verdict, aria_hidden="true", class_="mark"), f" {found}", class_=f"banner {tone}"),
    )
    return HtmlPage(
        whole_page(
            title, header,
            *(_table(audit, item, f"table-{number}") for number, item in enumerate(audit.tables)),
            section("meaning", "How to read the tables", element("p", LEGEND)),
            section("published", "What the rules want published", terms(audit.facts(), "names")),
            skip=element("a", "To the tables", href="#table-0", class_="skip"),
        ),
        title,
    )  # fmt: skip


def _table(audit: BiasAudit, item: CategoryTable, identifier: str) -> Html:
    """A table, and pictures of its rates and of what its impact ratios can be."""
    head = [
        "category", "people", audit.word, f"{audit.kind} rate", "impact ratio", "can be", "four fifths",
    ]  # fmt: skip
    rows: list[Sequence[Child]] = []
    for category in item.categories:
        rate = category.rate
        ends = "" if rate.lower is None else f" ({shown(rate.lower, Unit.SHARE)} to {shown(rate.upper, Unit.SHARE)})"
        can_be = NONE
        if category.least is not None and category.largest is not None:
            can_be = f"{decimals(category.least, 3)} to {decimals(category.largest, 3)}"
        sign, tone = _SIGNS[category.four_fifths]
        mark = element("span", sign, aria_hidden="true")
        rows.append([
            category.name + (" *" if category.is_small else ""), plain_number(category.n_people),
            plain_number(category.n_selected), shown(rate.value, Unit.SHARE) + ends,
            NONE if category.impact_ratio is None else decimals(category.impact_ratio, 3), can_be,
            element("span", mark, f" {category.four_fifths}", class_=tone or None),
        ])  # fmt: skip
    rows.append(["unknown", plain_number(item.n_unknown), plain_number(item.n_unknown_selected), *[NONE] * 4])
    rates = [(each.name, each.rate.value, each.rate.lower, each.rate.upper) for each in item.categories]
    ratios = [
        (each.name, None if each.impact_ratio is None else round(each.impact_ratio, 3), each.least, each.largest)
        for each in item.categories
    ]
    captions = {
        f"{capital(audit.kind)} rates with exact 95% intervals.": (rates, Unit.SHARE, None),
        "Impact ratios, and what they can be for people of unknown category. Line: four fifths.":
            (ratios, Unit.NUMBER, FOUR_FIFTHS),
    }  # fmt: skip
    figures = [
        element("figure", element("figcaption", text), rates_by_group(drawn, unit, f"{text} See the table.", mark=mark))
        for text, (drawn, unit, mark) in captions.items()
    ]
    return section(
        identifier, item.title, table(f"Impact ratios by {item.title.lower()}", head, rows),
        element("div", *figures, class_="two"),
    )  # fmt: skip
