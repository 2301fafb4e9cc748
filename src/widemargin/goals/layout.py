"""Goal reports as an aligned text of at most 100 columns, and as an HTML table."""

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the report stands above its layout
    from widemargin.goals.report import ConstraintReport, GoalReport

__all__ = ["html_table", "text_table"]

WIDTH = 100
LEAST_NAME = 8


def text_table(report: "GoalReport") -> str:
    """The report as text."""
    lines = _wrapped(_headline(report)) + _header_lines(report)
    columns = _columns(report)
    if report.constraints:
        cells = [[name, *(show(item) for item in report.constraints)] for name, show in columns]
        widths = [max(map(len, column)) for column in cells]
        widths[0] = max(LEAST_NAME, min(widths[0], WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1)))
        lines.append("")
        for row in zip(*cells, strict=True):
            fields = [_cut(row[0], widths[0]).ljust(widths[0])]
            fields += [text.rjust(width) for text, width in zip(row[1:-1], widths[1:-1], strict=True)]
            lines.append("  ".join([*fields, row[-1]]).rstrip())
        lines.append("")
        for item in report.constraints:
            lines += _wrapped(f"{item.label}: {item.text}{_rows_text(item)}", "  ")
    lines += [line for text in _tail(report) for line in _wrapped(text)]
    return "\n".join(lines)


def html_table(report: "GoalReport", escape: Callable[[str], str]) -> str:
    """The report as a self-contained HTML fragment; every text passes through `escape`."""
    colours = {"met": "#e6f4ea", "not met": "#fce8e6", "undecided": "#fef7e0", "undefined": "#fce8e6"}
    parts = [f"<div><p><strong>{escape(_headline(report))}</strong></p>"]
    parts += [f"<p>{escape(line)}</p>" for line in _header_lines(report)]
    columns = _columns(report)
    if report.constraints:
        head = "".join(f"<th>{escape(name)}</th>" for name, _ in columns)
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
        for item in report.constraints:
            title = escape(f"{item.text}{_rows_text(item)}")
            cells = "".join(f"<td>{escape(show(item))}</td>" for _, show in columns)
            parts.append(f'<tr style="background:{colours[item.verdict]}" title="{title}">{cells}</tr>')
        parts.append("</tbody></table>")
    parts += [f"<p>{escape(line)}</p>" for line in _tail(report)]
    return "".join([*parts, "</div>"])


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
    return [*lines, *_wrapped(f"Objective {report.objective_text} = {_number(report.objective)}{ramp}")]


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
    lines = [f"Dropped: {item.label}: {item.reason}." for item in report.dropped]
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
    if report.confidence is not None and report.simultaneous_confidence is not None:
        lines.append(
            f"{100 * report.confidence:g}% of slack: interval of each; all hold together with "
            f"{100 * report.simultaneous_confidence:.3g}% (Bonferroni). undecided: 0 is inside."
        )
    if any(item.multiplier is not None for item in items):
        lines.append("multiplier: fall of the training objective per unit by which the bound is relaxed (local).")
    return lines


def _rows_text(item: "ConstraintReport") -> str:
    missing = f", {item.n_missing} unknown by missing values" if item.n_missing else ""
    return f"  [{item.n_rows} rows{missing}]"


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


def _cut(text: str, width: int) -> str:
    """Text of at most `width`; the middle is left out, because the labels of a bundle differ at their end."""
    text = _clean(text)
    head = (width - 3) // 3
    return text if len(text) <= width else f"{text[:head]}...{text[len(text) - (width - 3 - head) :]}"


def _clean(text: str) -> str:
    """Text in which no control character of a name can break the layout."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Lines of at most 100 columns."""
    clean = _clean(text)
    if not clean:
        return [""]
    return textwrap.wrap(
        clean, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False,
        replace_whitespace=False, drop_whitespace=True,
    )  # fmt: skip
