"""The sections of the report, except that about prices: the goal, its verdicts, other models, margins, the model card.

Each function returns one section of the page, or None where there is nothing to show.
"""

import math
import re
from collections.abc import Mapping, Sequence

from widemargin.diagnostics.margins import COVERAGES
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.goal_report import GoalReport, both_ways_round
from widemargin.goals.measuring.group_table import HEADS, SHOWN_GROUPS, rates_of
from widemargin.goals.measuring.missing_groups import ConstraintSpan
from widemargin.report.content import Content, Margins, ShownRule, shown_rules
from widemargin.report.drawings import error_by_coverage, interval_bar, margin_histogram, rates_by_group
from widemargin.report.markup import Child, Html, element, joined, section, table, terms
from widemargin.report.tradeoff import objective_word, price_sentence
from widemargin.report.words import Unit, Words, capital, decimals, plain_number, shown, unit_of, unit_of_form

THE_OTHER_WAY = "So must it be the other way round"
"""Of rules that compare the same two rates both ways."""


def headline(content: Content) -> Html:
    """The title and the verdict in one line."""
    report = content.report
    all_rules = shown_rules(content, report)
    number, met = len(all_rules), sum(rule.passes for rule in all_rules)
    undecided = sum(rule.worst.verdict == "undecided" for rule in all_rules)
    verdict, text = "met" if report.passed else "not met", ""
    if not number:
        # No green mark: who reads only that would take it for a verdict.
        verdict, text = "undefined", "The goal has no rules, so this page says what the model does, not whether it may."
    else:
        rule = "with confidence" if report.decide == "confident" else "by the estimate"
        rules = "rule is" if number == 1 else "rules are"
        text = f"Goal {'met' if report.passed else 'NOT met'}: {met} of {number} {rules} kept {rule}."
    if undecided and number > 1:
        text += f" For {undecided} of them these rows are too few to be sure."
    elif undecided:
        text += " 1 rule is undecided: these rows are too few to be sure."
    measured = (
        f"{capital(content.model_name)}, measured on {report.data_name} ({plain_number(report.n_rows)} rows). "
        f"{_classes(report)}."
    )
    return element(
        "header",
        element("p", "widemargin report", class_="kicker"),
        element("h1", content.title),
        element("p", _mark(verdict, "mark"), f" {text}", class_=f"banner {_class(verdict)}"),
        element("p", measured),
        *(element("p", element("strong", "Caution: "), capital(text), class_="note") for text in report.cautions),
    )


def _classes(report: GoalReport) -> str:
    """Which classes there are, or which of two is the positive one."""
    if not report.classes:
        return f"Positive class: “{report.positive_class}”"
    return f"{len(report.classes)} classes: {', '.join(f'“{label}”' for label in report.classes)}"


def goal_in_words(content: Content, words: Words) -> Html:
    """What the cards of the rules do not say: the objective, the named populations, and the goal of training."""
    goal, trained, named = content.goal, content.trained_goal, words.populations()
    parts: list[Child] = [] if goal.constraints else [element("p", "There are no rules.")]
    parts.append(element("p", words.objective()))
    if named:
        parts += [element("h3", "Who is meant"), terms(named, "names")]
    if trained is not None and trained != goal:
        why = (
            "Rules that are met exactly on training rows are often missed by a little on others; the model was trained "
            "to:"
        )
        parts += [element("h3", "What training asked for"), element("p", why)]
        parts.append(_rules(trained, Words(trained, words.positive_class)))
    code = Html("\n".join(joined(line) for line in str(goal).split("\n")))
    summary = element("summary", "The rules in the language of goals")
    # On paper the sentences are enough where the text is longer than they are.
    parts.append(element(
        "details", summary, element("pre", element("code", code)), class_="long" if code.count("\n") > 12 else None,
    ))  # fmt: skip
    return section("goal", "The goal behind the rules", *parts)


def _rules(goal: Goal, words: Words) -> Html:
    """The rules of a goal as sentences, after their labels."""
    items: dict[str, list[Child]] = {}
    for entry in goal.constraints:
        label = None if entry.label is None else joined(element("strong", entry.label), ": ")
        key = both_ways_round(entry.text) or f"{entry.label}: {entry.text}"
        if key in items:
            items[key].append(f" {THE_OTHER_WAY}.")
        else:
            items[key] = [label, words.sentence(entry)]
    return element("ol", *(element("li", *item) for item in items.values()), class_="rules")


def verdicts(content: Content, words: Words) -> Html:
    """One card for each rule: verdict, picture, numbers, price."""
    report = content.report
    legend = (
        "Dot: what was measured. Bar: its interval. Line: the bound of the rule. Hatched: the side that keeps the rule."
    )
    if not report.constraints:
        legend = "There is no rule that could be."
    parts: list[Child] = [element("p", legend, class_="note")]
    parts += [_card(content, rule, words) for rule in shown_rules(content, report)]
    notes = []
    if report.confidence is not None and report.constraints:
        level = report.simultaneous_confidence
        together = f"with {shown(level, Unit.SHARE)}" if level else "with none that is proved, as they are too many"
        notes.append(
            f"Each interval holds with {shown(report.confidence, Unit.SHARE)} confidence, all of them together "
            f"{together}. “Undecided” means that the bound lies inside the interval: more rows are needed to be sure."
        )
    elif report.constraints:
        notes.append("There are no intervals: these verdicts are estimates on the rows that were measured.")
    missing = max((item.n_missing for item in report.constraints), default=0)
    if missing:
        notes.append(f"{plain_number(missing)} rows lack a value that decides whether they belong to a population.")
    notes += [f"Left out: {item.label}: {item.reason}" for item in report.dropped]
    parts += [element("p", text, class_="note") for text in (*notes, *map(capital, report.notes))]
    return section("verdicts", "Is it met?", *parts)


def _card(content: Content, rule: ShownRule, words: Words) -> Html:
    entry, item, unit = rule.entry, rule.worst, rule.unit
    sentence = item.text if entry is None else words.sentence(entry)
    if rule.n_pairs > 1:
        sentence += f" The worst of {rule.n_pairs} pairs: {rule.pair}."
    if rule.mirrored:
        sentence += f" {THE_OTHER_WAY} (“{'”, “'.join(rule.mirrored)}”), which is met no worse."
    verdict: str = item.verdict
    if verdict == "undecided":
        verdict = f"undecided, {'met' if item.met else 'not met'} by the estimate"
    badge = element("span", _mark(item.verdict, "mark"), f" {verdict}", class_=f"badge {_class(item.verdict)}")
    numbers = [f"{shown(item.rate, unit)} against {'≥' if item.sense == '>=' else '≤'} {shown(item.bound, unit)}"]
    if rule.sides:
        numbers.append(f"that is {rule.sides}")
    if item.slack is not None:
        side = "on the right side" if item.slack >= 0 else "on the wrong side"
        numbers.append(f"{shown(abs(item.slack), unit, points=True)} {side}")
    if item.interval is not None:
        low, high = (shown(end, unit, points=True, sign=True) for end in (item.interval.lower, item.interval.upper))
        numbers.append(f"{shown(item.interval.confidence, Unit.SHARE)} interval of that distance: {low} to {high}")
    rows = f"{plain_number(item.n_rows)} rows"
    numbers.append(rows if item.n_populations == 1 else f"{rows} in the smallest population")
    price = price_sentence(content, item, unit)
    return element(
        "article",
        element("h3", rule.name, " ", badge),
        element("p", sentence),
        interval_bar(item, unit) or element("p", "Undefined on these rows: a denominator is 0.", class_="note"),
        element("p", "; ".join(numbers) + ".", class_="numbers"),
        None if price is None else element("p", element("strong", "Price: "), price, class_="price"),
        class_=f"card {_class(item.verdict)}",
    )


def _mark(verdict: str, class_: str | None = None) -> Html:
    """A sign beside the word, so that no verdict depends on colours."""
    signs = {"met": "✓", "not met": "✗", "undecided": "?", "undefined": "∅"}
    return element("span", signs[verdict], aria_hidden="true", class_=class_)


def _class(verdict: str) -> str:
    return "is-" + verdict.replace(" ", "-")


def groups(content: Content) -> Html | None:
    """Rows, rates and intervals of each group that the goal speaks of, before any verdict."""
    shown_groups = content.report.groups
    if not shown_groups:
        return None
    rates = rates_of(shown_groups)
    rows = [
        [
            _in_words(item.name),
            plain_number(item.n_rows),
            *(_with_ends(rate.value, rate.lower, rate.upper) for rate in (getattr(item, name) for name in rates)),
        ]
        for item in shown_groups[:SHOWN_GROUPS]
    ]
    of_several = "the class that stands before the group" if content.report.classes else ""
    called = of_several or f"“{content.report.positive_class}”"
    truly = "of that class" if of_several else called
    intro = (
        f"Positive rate: of a group's rows, the share that the model calls {called}. Recall: of the rows that are "
        f"truly {truly}, the share that the model finds. Precision: of the rows that the model calls so, the share "
        f"that are. False positive rate: of the rows that are not {truly}, the share that the model calls so."
    )
    if content.report.confidence is not None:
        intro += f" In brackets exact {content.report.confidence:.0%} intervals, where rows are not weighted."
    most = 12  # beyond that tables and pictures are longer than a page
    head = ["group", "rows", *(HEADS[name] for name in rates)]
    tables = [table("Groups of the goal", head, rows[:most])]
    if more := rows[most:]:
        said = f"{len(more)} more groups"
        others = len(shown_groups) - len(rows)
        elsewhere = f"; {others} others are in the file of --report-json" if others else ""
        folded = element("summary", said + elsewhere), table("More groups of the goal", head, more)
        tables.append(element("details", *folded, class_="long"))
        tables.append(element("p", f"The page on the screen shows {said}{elsewhere}.", class_="note printed"))
    figures = []
    for name in rates:
        drawn = [(_in_words(item.name), rate.value, rate.lower, rate.upper) for item in shown_groups[:most]
                 if (rate := getattr(item, name)) is not None]  # fmt: skip
        text = f"{capital(HEADS[name])} and interval."
        picture = rates_by_group(drawn, Unit.SHARE, f"{text} The table of groups holds every number.")
        figures.append(element("figure", element("figcaption", text), picture, class_=_on_screen_if(len(drawn))))
    return section("groups", "Groups", element("p", intro), *tables, element("div", *figures, class_="figures"))


def _on_screen_if(n_groups: int) -> str | None:
    """The class of pictures that are not printed, as the table beside them is enough where there are many groups."""
    return "long" if n_groups > 6 else None


def _in_words(name: str) -> str:
    """A group of a bundle, `col('legal sex') == 'F'` or `flag == 1`, as people write it: `legal sex: F`, `flag: 1`."""
    plain = re.sub(r"\bcol\('([^']*)'\)", r"\1", name)
    return re.sub(r" == (?:'([^']*)'|(-?[\d.]+))", lambda found: f": {found[found.lastindex or 0]}", plain)


def missing_groups(content: Content) -> Html | None:
    """Between which values rates and rules lie, whatever the unknown groups are; None unless `missing_groups`."""
    report, found = content.report, content.report.missing_groups
    if found is None:
        return None
    title = "Rows of unknown group"
    if not found.n_rows:
        return section("missing-groups", title, element("p", str(found)))
    entries = [content.entry_of(item) for item in report.constraints]
    units = [Unit.NUMBER if entry is None else unit_of(entry) for entry in entries]
    # The list of rates does not say which rule each is part of, so percent is used only where all rules have it.
    of_rates = Unit.NUMBER if Unit.NUMBER in units else Unit.SHARE
    rates = [
        [item.text, shown(item.value, of_rates), f"{shown(item.least, of_rates)} to {shown(item.largest, of_rates)}"]
        for item in found.rates
    ]
    says = {"no": ("not met", "never met"), "open": ("undecided", "open"), "yes": ("met", "always met")}
    # A line for each rule, as in all other tables: what it can be at worst.
    worst: dict[str, tuple[tuple[int, float], ConstraintSpan, Unit]] = {}
    for asked, item, unit in zip(report.constraints, found.constraints, units, strict=True):
        rank = [*says].index(item.holds), -math.inf if item.least is None else item.least
        if asked.rule not in worst or rank < worst[asked.rule][0]:
            worst[asked.rule] = rank, item, unit
    rules: list[Sequence[Child]] = []
    for _, item, unit in worst.values():
        ends = {end: shown(end, unit, points=True, sign=True) for end in (item.least, item.largest)}
        mark, text = says[item.holds]
        verdict = element("span", _mark(mark), f" {text}", class_=_class(mark))
        rules.append([item.label, " to ".join(ends.values()) + ("" if item.is_exact else ", at the widest"), verdict])
    certain = sum(item.holds == "yes" for item in found.constraints)
    intro = (
        f"The group of {plain_number(found.n_rows)} rows is not known. Here is what rates and rules can be over all "
        f"ways to fill it in. {certain} of {len(entries)} constraints are met in every case. “Open” says that these "
        "rows can turn the verdict."
    )
    if len(rules) < len(entries):
        intro += " Of a rule that is several constraints the worst is shown."
    parts = [table("Rates", ["rate", "of known groups", "can be"], rates)] if rates else []
    parts += [table("Constraints", ["constraint", "distance to its bound can be", "verdict"], rules)] if rules else []
    return section("missing-groups", title, element("p", intro), *parts)


def _with_ends(value: float | None, lower: float | None, upper: float | None) -> str:
    """A share, and its interval in brackets where there is one: `40.9 % (38.4 to 43.4)`."""
    ends = "" if lower is None or upper is None else " ({} to {})".format(*map(_percent, (lower, upper)))
    return shown(value, Unit.SHARE) + ends


def _percent(value: float) -> str:
    """A share in percent, without the sign."""
    return shown(value, Unit.SHARE).removesuffix("\u00a0%")


def beside(content: Content) -> Html | None:
    """The model and others on the same rows and the same goal."""
    if not content.others:
        return None
    reports = {"this model": content.report, **content.others}
    unit, word = unit_of_form(content.goal.objective), objective_word(content.goal)
    rows: list[Sequence[Child]] = [[word, *(shown(report.objective, unit) for report in reports.values())]]
    # All reports measure the same goal, so their rules stand in the same order.
    for each in zip(*(shown_rules(content, report) for report in reports.values()), strict=True):
        name, item = each[0].name, each[0].worst
        # A rule without a label is called by its number, "#2", which says nothing without the rule itself.
        cells: list[Child] = [f"{name}: {item.text}" if name.startswith("#") else name]
        for rule in each:
            mark = "met" if rule.worst.met else "not met"
            verdict = element("span", _mark(mark), f" {mark}", class_=_class(mark))
            cells.append(joined(f"{shown(rule.worst.rate, rule.unit)} ", verdict))
        rows.append(cells)
    intro = (
        f"By the estimates on the same rows; of {word}, less is better. A model without rules "
        "usually has less of it: the difference is what the rules cost."
    )
    models = table("Models on the same rows", ["rule", *reports], rows, class_="compare")
    return section("beside", "Beside other models", element("p", intro), models)


def changes(content: Content) -> Html | None:
    """Churn, wins and losses against each baseline."""
    if not content.changes:
        return None
    rows = []
    for item in content.changes:
        shares = (_with_ends(*(part or (None, None, None))) for part in (item.churn, item.wins, item.losses))
        rows.append([f"“{item.name}”", *shares])
    intro = (
        "How many of all rows are decided differently from another model, and which of these changes are for the "
        "better (the model is right and the other wrong) or for the worse. Intervals in brackets."
    )
    if content.decided is not None:
        intro += " Rows that are left undecided count as unchanged."
    head = ["compared with", "changed", "for the better", "for the worse"]
    return section(
        "changes", "What changes against other models", element("p", intro),
        table("Changes against other models", head, rows),
    )  # fmt: skip


def margins(content: Content) -> Html:
    """How far rows are on the right side, by population."""
    margins, title = content.margins, "How sure the model is"
    if isinstance(margins, str):
        return section("margins", title, element("p", margins))
    # One scale for all populations: bars of the same height are the same share.
    highest = max(float(shares.max()) for shares in margins.shares.values())
    figures = []
    rows = []
    for (name, report), shares in zip(margins.reports.items(), margins.shares.values(), strict=True):
        item = report.overall
        below, n_rows = shown(item.below, Unit.SHARE), plain_number(item.n_rows)
        name = _in_words(name)
        text = f"{name}: {n_rows} rows, median margin {decimals(item.median)}, {below} on the wrong side"
        picture = margin_histogram(margins.edges, shares, highest, text + ".")
        figures.append(element("figure", element("figcaption", text), picture))
        low, *_, high = item.quantiles
        middle = decimals(item.median)
        if item.median_interval is not None and item.below_interval is not None:
            middle += " ({} to {})".format(*map(decimals, item.median_interval))
            below += " ({} to {})".format(*map(_percent, item.below_interval))
        rows.append([name, n_rows, middle, *map(decimals, (item.mean, low, high)), below])
    intro = (
        f"The margin of a row is the score of its true class ({report.unit}): the further right of 0, the surer the "
        "right answer; left of 0 (hatched) the answer is wrong. A population further left is served worse. Intervals "
        "in brackets."
    )
    head = ["population", "rows", "median", "mean", "5 %", "95 %", "wrong side"]
    more = f"{margins.left_out} smaller populations are not shown."
    return section(
        "margins", title, element("p", intro),
        element("div", *figures, class_=f"figures {_on_screen_if(len(rows)) or ''}".strip()),
        table("Margins by population", head, rows),
        element("p", more, class_="note") if margins.left_out else None,
        *_abstention(content, margins),
    )  # fmt: skip


def _abstention(content: Content, margins: Margins) -> list[Child]:
    """Selective risk against coverage, by population; nothing where the model does not say how sure it is."""
    curves = {
        name: report.overall.risk_coverage for name, report in margins.reports.items() if report.overall.risk_coverage
    }
    if not curves:
        return []
    (first, curve), *_ = curves.items()
    decided = content.decided
    intro = (
        f"If only the surest rows were decided, fewer of the decisions would be wrong. The curve is that of {first}: "
        f"at the right end every row is decided. Its mean, the area below it, is {shown(curve.area, Unit.SHARE)}; with "
        f"every wrong row among the least sure it would be {shown(curve.best_area, Unit.SHARE)}."
    )
    if decided is not None:
        intro += f" The line stands where this model decides: {shown(decided, Unit.SHARE)} of the rows."
    text = "Error of the surest rows by their share. The table holds the numbers."
    # Four columns, so that a phone shows the table whole.
    places = [place for place, share in enumerate(COVERAGES) if round(share, 2) in (0.5, 0.7, 0.9, 1.0)]
    head = ["population", *(f"of {shown(COVERAGES[place], Unit.SHARE)}" for place in places), "area"]
    rows = [
        [_in_words(name), *(shown(item.errors[place], Unit.SHARE) for place in places), shown(item.area, Unit.SHARE)]
        for name, item in curves.items()
    ]
    return [
        element("h3", "What abstention buys" if decided is not None else "What abstention would buy"),
        element("p", intro),
        element("figure", error_by_coverage(COVERAGES, curve.errors, decided, text), class_=_on_screen_if(len(rows))),
        table("Error of the surest rows", head, rows),
    ]


CARD: Mapping[str, str] = {
    "Intended use": "What the model decides, about whom, and who acts on it.",
    "Not intended for": "Uses that nobody has looked at, or that are ruled out.",
    "Where the rows come from": "Who collected them, when, how, with which consent, and whom they leave out.",
    "Harm of wrong decisions": "What a wrong decision does to a person, either way, and how it can be contested.",
    "Owner and contact": "Who answers for the model, and when it is to be looked at again.",
}
"""The fields of the model card that no measurement can fill: heading, and the question to the owner."""


def model_card(content: Content) -> Html:
    """What is known about the model, and what is not."""
    report = content.report
    answers = f"one of {len(report.classes) or 'two'} classes"
    answers += "" if content.decided is None else ", or that it does not know"
    facts = [
        f"The model is {content.model_name}; it answers with {answers}.",
        f"{_classes(report)}." if report.classes else f"Rates count “{report.positive_class}” as positive.",
        f"It was measured on {report.data_name}: {plain_number(report.n_rows)} rows.",
    ]
    facts += [f"The external data set “{name}” has {plain_number(rows)} rows." for name, rows in report.external_rows]
    if report.groups:
        facts.append(f"Rates of {plain_number(len(report.groups) - 1)} groups are in the table “Groups of the goal”.")
    limits = []
    for rule in shown_rules(content, report):
        item = rule.worst
        if item.verdict == "undecided":
            limits.append(
                f"“{rule.name}” is undecided: measured {shown(item.rate, rule.unit)} on "
                f"{plain_number(item.n_rows)} rows, too few to be sure on which side of its bound it is."
            )
        elif not item.met:
            limits.append(f"“{rule.name}” is not kept.")
    limits += [f"“{item.label}” was not measured: {item.reason}" for item in report.dropped]
    if report.confidence is None:
        limits.append("There are no intervals: nothing is said about rows other than those measured.")
    else:
        limits.append(
            f"The {shown(report.confidence, Unit.SHARE)} intervals are about rows drawn as these were; nothing is "
            "known about other times and places, or about people whom the rows leave out."
        )
    limits.append("Groups that the goal does not name were not looked at.")
    limits.append("A rate says nothing about why a single decision was made.")
    fields = []
    for name, question in {**CARD, **{name: "" for name in content.card if name not in CARD}}.items():
        answer, blank = content.card.get(name), f"To be filled in by the owner: {question}"
        text = (
            element("dd", answer)
            if answer or name not in CARD
            else element("dd", element("strong", "Not stated. "), blank, class_="blank")
        )
        fields.append(joined(element("dt", name), text))
    return section(
        "card", "Model card",
        element("h3", "Known from the model and the rows"), element("ul", *(element("li", text) for text in facts)),
        element("h3", "Known limits"), element("ul", *(element("li", text) for text in limits)),
        element("h3", "What only the owner can say"), element("dl", *fields, class_="card-fields"),
    )  # fmt: skip


def record(content: Content) -> Html | None:
    """Data and settings, so that the measurements can be repeated."""
    if not content.record:
        return None
    parts: list[Child] = []
    for heading, entries in content.record.items():
        # Texts of several lines line by line; lists with commas.
        texts = {
            name: ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
            for name, value in entries.items()
        }
        lines = [(name, Html(element("br").join(map(joined, text.split("\n"))))) for name, text in texts.items()]
        parts += [element("h3", heading), terms(lines, "record")]
    return section("record", "Data and settings", *parts)
