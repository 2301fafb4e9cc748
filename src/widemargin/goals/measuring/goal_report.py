"""What a goal looks like after training or auditing: one line per constraint, as text, HTML, dict or data frame."""

import dataclasses
import html
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal

from widemargin._text import html_table, printable
from widemargin.exceptions import DataError
from widemargin.goals.binding.columns import listing
from widemargin.goals.binding.tied_goal import Dropped, dropped_texts
from widemargin.goals.measuring.frames import pandas_for_frames
from widemargin.goals.measuring.intervals import Interval, simultaneous_confidence
from widemargin.goals.measuring.rates_of_predictions import TOLERANCE

__all__ = ["ConstraintReport", "GoalReport", "check_decide"]

Verdict = Literal["met", "not met", "undecided", "undefined"]
Decide = Literal["estimate", "confident"]
PlainLabel = str | int | float | bool

FORMAT = 1
_WIDTH = 100
_LEAST_NAME = 8
_MAX_PAIRS = 6
"""Pairs of one bundle that the text shows at least; of more, those with the least slack."""


@dataclasses.dataclass(frozen=True)
class ConstraintReport:
    """How one constraint came out.

    Attributes
    ----------
    label : str
        The user's label, or `#3` for the third constraint without one.
    text : str
        The constraint as written.
    sense : {">=", "<="}
        Between rate and bound.
    rate, bound : float or None
        Left-hand and right-hand side for the 0/1 predictions (a ratio and its bound); None where undefined.
    slack : float or None
        How far `rate` is on the right side of `bound`; negative: violated; None: undefined.
    met : bool
        Whether the estimate meets it.
    verdict : {"met", "not met", "undecided", "undefined"}
        With an interval: what is known at its confidence. Without one: the estimate.
    ramp_rate, ramp_slack : float or None
        The same for the randomised classifier.
    multiplier : float or None
        Rate of change of the training objective as the bound is relaxed; holds for small changes only.
    interval : Interval or None
        Of the slack.
    n_rows, n_missing, n_populations : int
        As in `TiedConstraint`: `n_rows` counts rows of weight > 0, of the smallest population where there are several.
    bundle : str or None
        The bundle that made it.
    """

    label: str
    text: str
    sense: str
    rate: float | None
    bound: float | None
    slack: float | None
    met: bool
    verdict: Verdict
    n_rows: int
    n_missing: int
    ramp_rate: float | None = None
    ramp_slack: float | None = None
    multiplier: float | None = None
    interval: Interval | None = None
    n_populations: int = 1
    bundle: str | None = None

    @property
    def ramp_met(self) -> bool:
        """Whether the randomised classifier meets it."""
        return self.ramp_slack is not None and self.ramp_slack >= -TOLERANCE

    def passes(self, decide: Decide = "estimate") -> bool:
        """Whether it counts as met: by the estimate, or only if the interval says so ("confident")."""
        return self.met if decide == "estimate" else self.met and self.verdict == "met"


@dataclasses.dataclass(frozen=True)
class GoalReport:
    """A goal measured on data. `print(report)`, `.to_frame()`, `.to_dict()`; notebooks show a table.

    Attributes
    ----------
    positive_class : str, int, float or bool
    data_name : str
    n_rows : int
        Training or audited rows, those of weight zero among them.
    external_rows : tuple of (str, int)
        Rows of the external data sets.
    goal_text : str
        `str(goal)`; `Goal.parse` reads it.
    objective_text : str
    objective : float or None
        Value for the 0/1 predictions; None where it needs labels and there are none.
    constraints : tuple of ConstraintReport
    ramp_objective : float or None
        Value for the randomised classifier.
    status, certificate : str or None
        How training ended, and what is proved about its result.
    dropped : tuple of Dropped
    notes : tuple of str
    confidence : float or None
        Of each interval.
    decide : {"estimate", "confident"}
        What `passed` goes by.
    """

    positive_class: PlainLabel
    data_name: str
    n_rows: int
    goal_text: str
    objective_text: str
    objective: float | None
    constraints: tuple[ConstraintReport, ...]
    external_rows: tuple[tuple[str, int], ...] = ()
    ramp_objective: float | None = None
    status: str | None = None
    certificate: str | None = None
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    confidence: float | None = None
    decide: Decide = "estimate"

    def all_met(self, decide: Decide | None = None) -> bool:
        """Whether every constraint is met, by the estimates or with confidence (undecided then counts as not met).

        Parameters
        ----------
        decide : {"estimate", "confident"}, optional
            Default: what the report was made with.
        """
        rule = check_decide(decide or self.decide)
        if rule == "confident" and self.confidence is None and self.constraints:
            raise DataError('this report has no intervals; make it by audit(..., decide="confident").')
        return all(item.passes(rule) for item in self.constraints)

    @property
    def passed(self) -> bool:
        """`all_met` by the report's own rule."""
        return self.all_met()

    @property
    def exit_code(self) -> int:
        """0 if passed, else 1, as the command line returns it."""
        return 0 if self.passed else 1

    @property
    def simultaneous_confidence(self) -> float | None:
        """Confidence with which all intervals hold together (Bonferroni); None without intervals."""
        number = sum(item.interval is not None for item in self.constraints)
        return None if self.confidence is None else simultaneous_confidence(self.confidence, number)

    def __getitem__(self, label: str) -> ConstraintReport:
        """The constraint of that label."""
        for item in self.constraints:
            if item.label == label:
                return item
        raise KeyError(f"no constraint {label!r}; there are {listing([item.label for item in self.constraints])}")

    def __str__(self) -> str:
        return _text_table(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON; `from_dict` reads them."""
        plain = dataclasses.asdict(self)
        plain["format"] = FORMAT
        for key in ("constraints", "dropped", "notes", "external_rows"):
            plain[key] = [list(item) if isinstance(item, tuple) else item for item in plain[key]]
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "GoalReport":
        """A report from what `to_dict` returned (also after JSON).

        Raises
        ------
        DataError
            If the dict is no report, or of a newer format.
        """
        values = dict(plain)
        version = values.pop("format", None)
        if not isinstance(version, int) or version > FORMAT:
            raise DataError(f"a report of format {version!r} cannot be read; this version reads format {FORMAT}.")
        try:
            items = []
            for item in values["constraints"]:
                interval = None if item["interval"] is None else Interval(**item["interval"])
                items.append(ConstraintReport(**{**item, "interval": interval}))
            values["constraints"] = tuple(items)
            values["dropped"] = tuple(Dropped(**item) for item in values["dropped"])
            values["external_rows"] = tuple((name, rows) for name, rows in values["external_rows"])
            values["notes"] = tuple(values["notes"])
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"this is no report: {error}.") from None

    def to_frame(self) -> Any:
        """One row per constraint as a pandas DataFrame, indexed by label.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = pandas_for_frames()
        rows = []
        for item in self.constraints:
            row = {
                field.name: getattr(item, field.name) for field in dataclasses.fields(item) if field.name != "interval"
            }
            row["lower"] = None if item.interval is None else item.interval.lower
            row["upper"] = None if item.interval is None else item.interval.upper
            rows.append(row)
        names = [field.name for field in dataclasses.fields(ConstraintReport) if field.name != "interval"]
        return pd.DataFrame(rows, columns=[*names, "lower", "upper"]).set_index("label")


def check_decide(decide: str) -> Decide:
    """Refuse anything but "estimate" and "confident"."""
    if decide == "estimate":
        return "estimate"
    if decide == "confident":
        return "confident"
    raise DataError(f'decide must be "estimate" or "confident", got {decide!r}.')


def _text_table(report: GoalReport) -> str:
    """The report as text; long labels stand in the legend below the table, and so does what every constraint says."""
    lines = _wrapped(_headline(report)) + _header_lines(report)
    if report.constraints:
        shown, hidden = _tightest(report.constraints)
        columns = _columns(report)[1:]
        cells = [[name, *(show(report.constraints[j]) for j in shown)] for name, show in columns]
        widths = [max(map(len, column)) for column in cells]
        names = _names(report.constraints, shown, _WIDTH - sum(widths) - 2 * len(widths))
        width = max(_LEAST_NAME, *map(len, ("constraint", *names)))
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


def _html_table(report: GoalReport) -> str:
    """The report as a self-contained HTML fragment."""
    colours = {"met": "#e6f4ea", "not met": "#fce8e6", "undecided": "#fef7e0", "undefined": "#fce8e6"}
    parts = [f"<div><p><strong>{html.escape(_headline(report))}</strong></p>"]
    parts += [f"<p>{html.escape(line)}</p>" for line in _header_lines(report) if line]
    columns = _columns(report)
    if report.constraints:
        columns.append(("definition", lambda item: f"{item.text}{_rows_text(item)}"))
        rows = [[show(item) for _, show in columns] for item in report.constraints]
        parts.append(html_table([name for name, _ in columns], rows, [colours[i.verdict] for i in report.constraints]))
    parts += [f"<p>{html.escape(line)}</p>" for line in _tail(report) if line]
    return "".join([*parts, "</div>"])


def _tightest(items: Sequence[ConstraintReport]) -> tuple[list[int], list[str]]:
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
        rest = easy[max(0, _MAX_PAIRS - (len(pairs) - len(easy))) :]
        if rest:
            left_out |= {j for _, j in rest}
            pair = "pair holds" if len(rest) == 1 else "pairs hold"
            least = _signed(rest[0][0])
            lines.append(
                f"... {len(rest)} more {pair} with more slack ({least} or more); all in to_frame(). [{bundle}]"
            )
    return [j for j in range(len(items)) if j not in left_out], lines


def _safe_slack(item: ConstraintReport) -> float | None:
    """Slack of a constraint that is met in every respect; None for one that must be shown."""
    if item.verdict != "met" or not item.met or (item.ramp_slack is not None and item.ramp_slack < 0):
        return None
    return item.slack


def _names(items: Sequence[ConstraintReport], shown: Sequence[int], width: int) -> list[str]:
    """What the table calls its rows: the label, or the number of the constraint where the label is too long."""
    labels = [printable(items[j].label) for j in shown]
    return [label if len(label) <= width else f"#{j + 1}" for label, j in zip(labels, shown, strict=True)]


def _headline(report: GoalReport) -> str:
    rows = f"{report.n_rows} rows" + "".join(f", external {name}: {rows}" for name, rows in report.external_rows)
    return f"Goal report. Positive class: {report.positive_class!r}. Measured on {report.data_name} ({rows})."


def _header_lines(report: GoalReport) -> list[str]:
    lines = [
        line
        for part in (report.status and f"Status: {report.status}", report.certificate)
        if part
        for line in _wrapped(part)
    ]
    ramp = "" if report.ramp_objective is None else f" (ramp: {_number(report.ramp_objective)})"
    value = "not measured: no labels" if report.objective is None else f"{_number(report.objective)}{ramp}"
    return [*lines, *_wrapped(f"Objective {report.objective_text} = {value}")]


def _columns(report: GoalReport) -> list[tuple[str, Callable[[ConstraintReport], str]]]:
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


def _tail(report: GoalReport) -> list[str]:
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


def _rows_text(item: ConstraintReport) -> str:
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


def _interval(item: ConstraintReport) -> str:
    if item.interval is None:
        return "-"
    low, high = item.interval.lower, item.interval.upper
    return f"[{'-inf' if low is None else _signed(low)}, {'+inf' if high is None else _signed(high)}]"


def _verdict(item: ConstraintReport) -> str:
    if item.verdict == "undecided":
        return "undecided, est. met" if item.met else "undecided, est. not met"
    return "NOT MET" if item.verdict == "not met" else item.verdict


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Lines of at most 100 columns."""
    clean = printable(text)
    if not clean:
        return [""]
    return textwrap.wrap(
        clean, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False,
        replace_whitespace=False, drop_whitespace=True,
    )  # fmt: skip
