"""Sections of a Hugging Face model card in Markdown: an audit of a goal, a bias audit, each with its `model-index`.

The head is YAML that is JSON at the same time, so every text in it is quoted.
"""

import json
from collections.abc import Iterable, Sequence

from widemargin.diagnostics.standards.local_law_144 import LEGEND, BiasAudit
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport, tally, what_decides, worst_pairs
from widemargin.goals.measuring.group_table import HEADS, group_cells, left_out_groups, rates_of


def goal_card(report: GoalReport, *, model_name: str) -> str:
    """What an audit of a goal found: verdicts, rates by group, the goal.

    Parameters
    ----------
    report : GoalReport
    model_name : str
        Of the model on the hub.

    Returns
    -------
    str

    Examples
    --------
    >>> from widemargin.diagnostics import audit
    >>> from widemargin.report import goal_card
    >>> report = audit([1, 1, 0, 0], "subject to floor: recall() >= 0.5", y=[1, 0, 1, 0])
    >>> [line for line in goal_card(report, model_name="screen").splitlines() if line.startswith("| floor")]
    ['| floor | 0.5000 | \\\\>= 0.5000 | met | undecided |']
    """
    metrics = [(report.objective_text, report.objective_text, report.objective)]
    ratios = map(ConstraintReport.as_ratio, report.constraints)
    metrics += [("goal_constraint", f"{item.label}: {item.text}", item.rate) for item in ratios]
    rates = rates_of(report.groups) if report.groups else []
    metrics += [(rate, f"{HEADS[rate]}, {group.name}", getattr(group, rate).value)
                for group in report.groups for rate in rates]  # fmt: skip
    lines = _head(model_name, report.data_name, metrics)
    found = f"{tally(report.constraints, lambda item: item.met)} met on {report.data_name} ({report.n_rows} rows)"
    verdict = f"{'Passed' if report.passed else 'Not passed'}: {found}; {what_decides(report)}."
    lines += ["## Audit of a goal", "", _escaped(verdict), ""]
    rows = [["constraint", "rate", "bound", "by the rate", "with confidence"]]
    shown, left_out = worst_pairs(report.constraints)
    for item in shown.values():
        rate, bound = ("-" if value is None else f"{value:.4f}" for value in (item.rate, item.bound))
        rows.append([item.label, rate, f"{item.sense} {bound}", "met" if item.met else "not met", item.verdict])
    lines += [*_table(rows), *(f"\n{_escaped(text)}" for text in left_out)]
    if report.groups:
        head, *rows = group_cells(report.groups)
        rows = [["group", *head[1:]], *rows]
        interval = f"In brackets: exact {100 * (report.confidence or 0.95):g}% intervals."
        lines += ["", "### Rates by group", "", *_table(rows), *left_out_groups(report.groups), "", interval]
    if report.missing_groups is not None:
        lines += [
            "",
            "### Rows of unknown group",
            "",
            *(f"    {line}" for line in str(report.missing_groups).splitlines()),
        ]
    lines += ["", *(f"- Caution: {_escaped(text)}" for text in report.cautions)]
    return "\n".join([*lines, "", "### The goal", "", *(f"    {line}" for line in report.goal_text.splitlines()), ""])


def bias_audit_card(audit: BiasAudit, *, model_name: str) -> str:
    """A section of a Hugging Face model card in Markdown, below a head with the ratios as its `model-index`.

    Parameters
    ----------
    audit : BiasAudit
    model_name : str
        Of the model on the hub.

    Returns
    -------
    str
        The head is YAML that is JSON at the same time, so every text in it is quoted.

    Examples
    --------
    >>> from widemargin.diagnostics import local_law_144
    >>> from widemargin.report import bias_audit_card
    >>> audit = local_law_144([1, 0, 1, 1], ["F", "F", "M", "M"], ["A", "B", "A", "B"])
    >>> bias_audit_card(audit, model_name="screen").splitlines()[1][:31]
    'model-index: [{"name": "screen"'
    """
    metrics = [
        ("impact_ratio", f"Impact ratio, {item.title}: {each.name}", each.impact_ratio)
        for item in audit.tables for each in item.categories
    ]  # fmt: skip
    lines = _head(model_name, audit.data_name, metrics)
    lines += ["## Bias audit under New York City Local Law 144", "", _escaped(audit.headline()), ""]
    lines += [f"- {_escaped(name)}: {_escaped(text)}" for name, text in audit.facts()]
    for item in audit.tables:
        lines += ["", f"### {item.title}", "", *_table(audit.texts(item))]
        lines += ["", f"Unknown: {item.n_unknown} people, of them {item.n_unknown_selected} {audit.word}."]
    return "\n".join([*lines, "", _escaped(LEGEND), ""])


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is: no marks, no HTML, on one line."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in " ".join(text.split()))


def _head(model_name: str, data_name: str, metrics: Iterable[tuple[str, str, float | None]]) -> list[str]:
    """The head of a card: type, name and value of each metric that has a value."""
    result = {
        "task": {"type": "tabular-classification"},
        "dataset": {"name": data_name, "type": data_name},
        "metrics": [{"type": kind, "name": name, "value": value} for kind, name, value in metrics if value is not None],
    }
    return ["---", f"model-index: {json.dumps([{'name': model_name, 'results': [result]}])}", "---", ""]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table, its heads first."""
    head, *others = [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
    return [head, "|---" * len(rows[0]) + "|", *others]
