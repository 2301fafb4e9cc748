"""Self-contained pages: `html_report`, about a classifier and its goal, and `bias_audit_page`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from widemargin._typing import Classifier, Column, Features, Label, Table
from widemargin.diagnostics import audit
from widemargin.diagnostics.standards.local_law_144 import FOUR_FIFTHS, LEGEND, BiasAudit, CategoryTable
from widemargin.exceptions import DataError
from widemargin.goals import External, Goal
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.report import sections
from widemargin.report.content import Content, Model, Record, changes_against, decided_share, margins_by_population
from widemargin.report.drawings import rates_by_group
from widemargin.report.markup import Child, Html, HtmlPage, element, section, table, terms, whole_page
from widemargin.report.tradeoff import tradeoff
from widemargin.report.words import NONE, Unit, Words, capital, decimals, plain_number, shown
from widemargin.rows import Rows, with_populations

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
    head = ["category", "people", audit.word, f"{audit.kind} rate", "impact ratio", "can be", "four fifths"]
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


@dataclass(frozen=True, repr=False)
class HtmlReport(HtmlPage):
    """A page, and the numbers behind it. `save` writes it; notebooks show it in a frame.

    Attributes
    ----------
    text : str
        The HTML file.
    title : str
    content : Content
        Everything that it shows, as numbers.
    """

    content: Content

    @property
    def goal_report(self) -> GoalReport:
        """The model measured on the goal."""
        return self.content.report


def html_report(
    model: Model,
    goal: Goal | str,
    X: Features | None = None,
    y: Column | None = None,
    *,
    populations: Table | None = None,
    external: Mapping[str, External] | None = None,
    baselines: Mapping[str, Column | Classifier] | None = None,
    others: Mapping[str, Model] | None = None,
    sample_weight: Column | None = None,
    pos_label: Label | None = None,
    abstain: Label = None,
    paths: Sequence[TradeoffPath] = (),
    trained_goal: Goal | str | None = None,
    confidence: float | None = 0.95,
    decide: str = "estimate",
    missing_groups: bool = False,
    title: str | None = None,
    model_name: str | None = None,
    data_name: str = "the data",
    record: Record | None = None,
    card: Mapping[str, str] | None = None,
) -> HtmlReport:
    """Measure any classifier on a goal and write a self-contained HTML page about it.

    Parameters
    ----------
    model : fitted classifier, array-like of shape (n,), or dict
        As in `audit`. Predictions alone have no margins.
    goal : Goal or str
        What is measured.
    X, y, populations, external, baselines, sample_weight, pos_label, abstain, confidence, decide, missing_groups,
    data_name
        As in `audit`. Use rows that the model was not trained on, or `confidence=None`: intervals of training rates
        claim too much.
    others : dict of str to fitted classifier or predictions, default=None
        Shown beside the model, for example {"without rules": svm}. The changes against each are counted too.
    paths : sequence of TradeoffPath, default=()
        Give the prices of rules and the movable bounds (`tradeoff_path`).
    trained_goal : Goal or str, default=None
        What training enforced, where it is stricter than `goal`; the movable bounds start there.
    title, model_name : str, default=None
    record : dict of str to dict, default=None
        Data and settings, shown as they are: {"Data": {"rows": 100, ...}, ...}.
    card : dict of str to str, default=None
        What the owner says in the model card, by heading (`widemargin.report.CARD`); headings without an entry are
        marked as not stated.

    Returns
    -------
    HtmlReport

    Raises
    ------
    GoalError, DataError
        As `audit` does.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from widemargin.report import html_report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    >>> model = LogisticRegression().fit(X[:200], y[:200])
    >>> report = html_report(model, "subject to floor: recall() >= 0.5", X[200:], y[200:])
    >>> report.goal_report["floor"].verdict
    'met'
    >>> report.text.startswith("<!DOCTYPE html>")
    True
    """
    goal = Goal.parse(goal) if isinstance(goal, str) else goal
    trained_goal = Goal.parse(trained_goal) if isinstance(trained_goal, str) else trained_goal
    if not isinstance(goal, Goal) or not isinstance(trained_goal, Goal | None):
        raise DataError("goal and trained_goal must be a Goal or its text.")
    for path in paths:
        if not isinstance(path, TradeoffPath):
            raise DataError(f"paths holds a {type(path).__name__}; give what tradeoff_path returns.")
    baselines, others = baselines or {}, others or {}
    measure = partial(
        audit, goal=goal, X=X, y=y, sample_weight=sample_weight, populations=populations, external=external or {},
        baselines=baselines, data_name=data_name, confidence=confidence, decide=decide,
    )  # fmt: skip
    rows = Rows(X, y, sample_weight, populations, baselines=baselines)
    report = measure(model, pos_label=pos_label, abstain=abstain, missing_groups=missing_groups)
    # The other models are measured with the positive class that `audit` found for this one, or their rates could count
    # another class; and of several with its classes, as these rows may lack one.
    positive = report.positive_class
    classes = report.classes if positive is None else None
    if not model_name:
        # A pipeline is called after its last step, the classifier.
        steps = getattr(model, "steps", None)
        model_name = f"a {type(steps[-1][1] if steps else model).__name__}"
        if not hasattr(model, "predict"):
            model_name = "a model known by its predictions"
    model = with_populations(model, populations)
    others = {name: with_populations(other, populations) for name, other in others.items()}
    content = Content(
        goal=goal, trained_goal=trained_goal, report=report,
        others={name: measure(other, pos_label=positive, classes=classes) for name, other in others.items()},
        changes=changes_against(model, goal, rows, others, positive, confidence, abstain),
        margins=margins_by_population(model, goal, rows, positive),
        paths=tuple(paths), title=title or "Does the model meet its goal?", model_name=model_name,
        record=record or {}, card=card or {}, decided=decided_share(model, rows, positive, abstain),
    )  # fmt: skip
    words = Words(goal, positive)
    text = whole_page(
        content.title,
        sections.headline(content),
        sections.groups(content),
        sections.verdicts(content, words),
        sections.missing_groups(content),
        sections.goal_in_words(content, words),
        sections.beside(content),
        sections.changes(content),
        tradeoff(content),
        sections.margins(content),
        sections.model_card(content),
        sections.record(content),
        skip=element("a", "To the verdicts", href="#verdicts", class_="skip"),
    )
    return HtmlReport(text, content.title, content)
