"""Goal reports as an aligned text of at most 100 columns, and as an HTML table."""

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from widemargin._text import printable
from widemargin.goals.binding.tied_goal import dropped_texts

if TYPE_CHECKING:  # the report stands above its layout
    from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport

__all__ = ["html_table", "text_table"]

WIDTH = 100
LEAST_NAME = 8
MAX_PAIRS = 6
"""Pairs of one bundle that the text shows at least; of more, those with the least slack."""


def text_table(report: "GoalReport") -> str:
    """The report as text; long labels stand in the legend below the table, and so does what every constraint says."""
    lines = _wrapped(_headline(report)) + _header_lines(report)
    if report.constraints:
        shown, hidden = _tightest(report.constraints)
        columns = _columns(report)[1:]
        cells = [[name, *(show(report.constraints[j]) for j in shown)] for name, show in columns]
        widths = [max(map(len, column)) for column in cells]
        names = _names(report.constraints, shown, WIDTH - sum(widths) - 2 * len(widths))
        width = max(LEAST_NAME, *map(len, ("constraint", *names)))
        lines.append("")
        for name, *row in zip(["constraint", *names], *cells, strict=True):
            fields = [name.ljust(width)]
            fields += [text.rjust(size) for text, size in zip(row[:-1], widths[:-1], strict=True)]
            lines.append("  ".join([*fields, row[-1]]).rstrip())
        for text in hidden:
            lines += _wrapped(text)
        lines.append("")
        for name, j in zip(names, shown, strict=True):
            item = report.constraints[j]
            called = name if name == printable(item.label) else f"{name} {item.label}"
            lines += _wrapped(f"{called}: {item.text}{_rows_text(item)}", "  ")
    lines += [line for text in _tail(report) for line in _wrapped(text)]
    return "\n".join(lines)


def html_table(report: "GoalReport", escape: Callable[[str], str]) -> str:
    """The report as a self-contained HTML fragment; every text passes through `escape`."""
    colours = {"met": "#e6f4ea", "not met": "#fce8e6", "undecided": "#fef7e0", "undefined": "#fce8e6"}
    parts = [f"<div><p><strong>{escape(_headline(report))}</strong></p>"]
    parts += [f"<p>{escape(line)}</p>" for line in _header_lines(report) if line]
    columns = _columns(report)
    if report.constraints:
        columns.append(("definition", lambda item: f"{item.text}{_rows_text(item)}"))
        head = "".join(f"<th>{escape(name)}</th>" for name, _ in columns)
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
        for item in report.constraints:
            cells = "".join(f"<td>{escape(show(item))}</td>" for _, show in columns)
            parts.append(f'<tr style="background:{colours[item.verdict]}">{cells}</tr>')
        parts.append("</tbody></table>")
    parts += [f"<p>{escape(line)}</p>" for line in _tail(report) if line]
    return "".join([*parts, "</div>"])


def _tightest(items: Sequence["ConstraintReport"]) -> tuple[list[int], list[str]]:
    """Constraints that the text shows, in order, and a line for each large bundle about those that it leaves out.

    What is not met, undecided or undefined is never left out.
    """
    members: dict[str, list[int]] = {}
    for j, item in enumerate(items):
        if item.bundle is not None:
            members.setdefault(item.bundle, []).append(j)
    left_out: set[int] = set()
    lines = []
    for bundle, pairs in members.items():
        easy = sorted((slack, j) for j in pairs if (slack := _safe_slack(items[j])) is not None)
        rest = easy[max(0, MAX_PAIRS - (len(pairs) - len(easy))) :]
        if rest:
            left_out |= {j for _, j in rest}
            pair = "pair holds" if len(rest) == 1 else "pairs hold"
            least = _signed(rest[0][0])
            lines.append(
                f"... {len(rest)} more {pair} with more slack ({least} or more); all in to_frame(). [{bundle}]"
            )
    return [j for j in range(len(items)) if j not in left_out], lines


def _safe_slack(item: "ConstraintReport") -> float | None:
    """Slack of a constraint that is met in every respect; None for one that must be shown."""
    if item.verdict != "met" or not item.met or (item.ramp_slack is not None and item.ramp_slack < 0):
        return None
    return item.slack


def _names(items: Sequence["ConstraintReport"], shown: Sequence[int], width: int) -> list[str]:
    """What the table calls its rows: the label, or the number of the constraint where the label is too long."""
    labels = [printable(items[j].label) for j in shown]
    return [label if len(label) <= width else f"#{j + 1}" for label, j in zip(labels, shown, strict=True)]


def _headline(report: "GoalReport") -> str:
    rows = f"{report.n_rows} rows" + "".join(f", external {name}: {rows}" for name, rows in report.external_rows)
    return f"Goal report. Positive class: {report.positive_class!r}. Measured on {report.data_name} ({rows})."


def _header_lines(report: "GoalReport") -> list[str]:
    lines = [
        line
        for part in (report.status and f"Status: {report.status}", report.certificate)
        if part
        for line in _wrapped(part)
    ]
    ramp = "" if report.ramp_objective is None else f" (ramp: {_number(report.ramp_objective)})"
    value = "not measured: no labels" if report.objective is None else f"{_number(report.objective)}{ramp}"
    return [*lines, *_wrapped(f"Objective {report.objective_text} = {value}")]


def _columns(report: "GoalReport") -> list[tuple[str, Callable[["ConstraintReport"], str]]]:
    """Heads and contents of the columns that this report has."""
    items = report.constraints
    columns: list[tuple[str, Callable[[ConstraintReport], str]]] = [
        ("constraint", lambda item: item.label),
        ("rate", lambda item: _number(item.rate)),
    ]
    if any(item.ramp_rate is not None for item in items):
        columns.append(("ramp rate", lambda item: _number(item.ramp_rate)))
    columns.append(("bound", lambda item: f"{item.sense} {_number(item.bound)}"))
    columns.append(("slack", lambda item: _signed(item.slack)))
    if report.confidence is not None:
        columns.append((f"{100 * report.confidence:g}% of slack", _interval))
    if any(item.multiplier is not None for item in items):
        columns.append(("multiplier", lambda item: _number(item.multiplier)))
    columns.append(("verdict", _verdict))
    return columns


def _tail(report: "GoalReport") -> list[str]:
    """Dropped constraints, notes, the summary, and what the words mean."""
    items = report.constraints
    lines = [f"Dropped: {text}." for text in dropped_texts(report.dropped)]
    lines += [f"Note: {note}" for note in report.notes]
    if not items:
        return [*lines, "No constraints."]
    number = sum(item.met for item in items)
    summary = f"{number} of {len(items)} constraints met by the estimate"
    if report.confidence is not None:
        summary += f", {sum(item.verdict == 'met' for item in items)} with confidence"
    lines += ["", f"{'PASSED' if report.passed else 'NOT PASSED'}: {summary} (decided by {report.decide})."]
    lines.append("rate: what the 0/1 predictions give (left-hand side); bound: the right-hand side on the same rows.")
    if any(item.ramp_rate is not None for item in items):
        lines.append("ramp rate: the same for the randomised classifier, + with probability 1/2 + f(x) cut to [0, 1].")
    lines.append("slack: distance of the rate to its bound, on the right side if >= 0.")
    together = report.simultaneous_confidence
    if report.confidence is not None and together is not None and any(item.interval is not None for item in items):
        level = f"all hold together with {100 * together:.3g}%" if together else "no level is proved for all together"
        lines.append(
            f"{100 * report.confidence:g}% of slack: interval of each; {level} (Bonferroni). undecided: 0 is inside."
        )
    if any(item.multiplier is not None for item in items):
        lines.append(
            "multiplier: fall of the training objective per unit by which the bound is relaxed; "
            "it holds for small changes only."
        )
    return lines


def _rows_text(item: "ConstraintReport") -> str:
    missing = f", {item.n_missing} unknown by missing values" if item.n_missing else ""
    which = "smallest population: " if item.n_populations > 1 else ""
    return f"  [{which}{item.n_rows} rows{missing}]"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.6g}"


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    rounded = f"{value:+.4f}" if abs(value) < 100 else f"{value:+.6g}"
    return rounded.replace("-", "+", 1) if float(rounded) == 0 and value >= 0 else rounded


def _interval(item: "ConstraintReport") -> str:
    if item.interval is None:
        return "-"
    low, high = item.interval.lower, item.interval.upper
    return f"[{'-inf' if low is None else _signed(low)}, {'+inf' if high is None else _signed(high)}]"


def _verdict(item: "ConstraintReport") -> str:
    if item.verdict == "undecided":
        return "undecided, est. met" if item.met else "undecided, est. not met"
    return "NOT MET" if item.verdict == "not met" else item.verdict


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Lines of at most 100 columns."""
    clean = printable(text)
    if not clean:
        return [""]
    return textwrap.wrap(
        clean, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False,
        replace_whitespace=False, drop_whitespace=True,
    )  # fmt: skip
