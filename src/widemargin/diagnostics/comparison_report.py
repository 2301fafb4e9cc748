"""Two classifiers side by side: the report of a comparison, as text of at most 100 columns, HTML, dict or frame."""

import dataclasses
import html
import textwrap
from collections.abc import Sequence
from typing import Any

from widemargin._text import html_table, pandas_for_frames, printable
from widemargin.diagnostics.comparison_counts import PopulationComparison
from widemargin.exceptions import DataError
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport

__all__ = ["ComparisonReport"]

FORMAT = 1
_WIDTH = 100
_LONGEST_NAME = 44


@dataclasses.dataclass(frozen=True)
class ComparisonReport:
    """Two classifiers side by side. `print(report)`, `.to_frame()`, `.to_dict()`; notebooks show a table.

    Attributes
    ----------
    names : tuple of two str
        What the classifiers are called; the second is compared with the first.
    data_name : str
    n_rows, n_labelled : int
    confidence : float
        Of each interval.
    power : float
        Probability with which `labels_needed` labels prove the difference.
    assumed_gain : float
        Difference in accuracy that is to be proved where there are no labels.
    populations : tuple of PopulationComparison
        All rows first, then the goal's populations of the main rows.
    reports : tuple of two GoalReport, or None
        None where the goal needs labels that are not there.
    notes : tuple of str
    """

    names: tuple[str, str]
    data_name: str
    n_rows: int
    n_labelled: int
    confidence: float
    power: float
    assumed_gain: float
    populations: tuple[PopulationComparison, ...]
    reports: tuple[GoalReport, GoalReport] | None = None
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> PopulationComparison:
        """The population of that name; "all rows" is the whole."""
        for item in self.populations:
            if item.name == name:
                return item
        raise KeyError(f"no population {name!r}; there are {[item.name for item in self.populations]}")

    @property
    def overall(self) -> PopulationComparison:
        """All rows."""
        return self.populations[0]

    @property
    def exit_code(self) -> int:
        """1 if the second classifier does not meet the goal, else 0 (also where the goal was not measured)."""
        return 0 if self.reports is None else self.reports[1].exit_code

    def __str__(self) -> str:
        return _text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON; `from_dict` reads them."""
        plain: dict[str, Any] = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "reports"
        }
        plain |= {"names": list(self.names), "notes": list(self.notes), "format": FORMAT}
        plain["populations"] = [dataclasses.asdict(item) for item in self.populations]
        plain["reports"] = None if self.reports is None else [report.to_dict() for report in self.reports]
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "ComparisonReport":
        """A report from what `to_dict` returned (also after JSON).

        Raises
        ------
        DataError
            If the dict is no such report, or of a newer format.
        """
        values = dict(plain)
        version = values.pop("format", None)
        if not isinstance(version, int) or version > FORMAT:
            raise DataError(f"a comparison of format {version!r} cannot be read; this version reads format {FORMAT}.")
        try:
            values["names"] = tuple(values["names"])
            values["notes"] = tuple(values["notes"])
            values["populations"] = tuple(PopulationComparison(**item) for item in values["populations"])
            if values["reports"] is not None:
                values["reports"] = tuple(GoalReport.from_dict(item) for item in values["reports"])
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"this is no comparison: {error}.") from None

    def to_frame(self) -> Any:
        """One row per population as a pandas DataFrame, indexed by name.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = pandas_for_frames()
        return pd.DataFrame([dataclasses.asdict(item) for item in self.populations]).set_index("name")


def _text(report: ComparisonReport) -> str:
    """The comparison as text: verdicts of the goal, then the rows on which the two differ."""
    lines = _wrapped(_headline(report))
    for table in (_goal_table(report), _population_table(report), _needs_table(report)):
        if table:
            lines += ["", *_aligned(table)]
    lines += ["", *(line for text in _legend(report) for line in _wrapped(text))]
    return "\n".join(lines)


def _html(report: ComparisonReport) -> str:
    """The comparison as a self-contained HTML fragment."""
    parts = [f"<div><p><strong>{html.escape(_headline(report))}</strong></p>"]
    tables = (_goal_table(report), _population_table(report), _needs_table(report))
    parts += [html_table(table[0], table[1:]) for table in tables if table]
    parts += [f"<p>{html.escape(line)}</p>" for line in _legend(report)]
    return "".join([*parts, "</div>"])


def _headline(report: ComparisonReport) -> str:
    labelled = "all labelled" if report.n_labelled == report.n_rows else f"{report.n_labelled} labelled"
    first, second = report.names
    return f"{second} against {first} on {report.data_name} ({report.n_rows} rows, {labelled})."


def _goal_table(report: ComparisonReport) -> list[list[str]]:
    if report.reports is None:
        return []
    one, other = report.reports
    rows = [["goal", "bound", report.names[0], "", report.names[1], ""]]
    if one.objective is not None and other.objective is not None:
        rows.append([one.objective_text, "", f"{one.objective:.4f}", "", f"{other.objective:.4f}", ""])
    for a, b in zip(one.constraints, other.constraints, strict=True):
        name = a.text if a.label.startswith("#") else a.label
        bound = "-" if b.bound is None else f"{b.sense} {b.bound:.4f}"
        rows.append([name, bound, *_cells(a, one), *_cells(b, other)])
    return rows


def _cells(item: ConstraintReport, report: GoalReport) -> list[str]:
    verdict: str = "NOT MET" if item.verdict == "not met" else item.verdict
    if report.decide == "estimate" and item.verdict == "undecided":
        verdict = "met (undecided)" if item.met else "NOT MET (undecided)"
    return ["-" if item.rate is None else f"{item.rate:.4f}", verdict]


def _population_table(report: ComparisonReport) -> list[list[str]]:
    level = f"{100 * report.confidence:g}%"
    labelled = any(item.p_value is not None for item in report.populations)
    more = ["wins", "losses", "gain", level, "p", "verdict"] if labelled else []
    rows = [["population", "rows", "differ", "churn", level, *more]]
    for item in report.populations:
        row = [item.name, str(item.n_rows), str(item.changes), _number(item.churn)]
        row.append(_range(item.churn_lower, item.churn_upper))
        if labelled:
            row += [str(item.wins), str(item.losses), _signed(item.gain), _range(item.gain_lower, item.gain_upper, "+")]
            row += ["-" if item.p_value is None else f"{item.p_value:.2g}", item.verdict]
        rows.append(row)
    return rows


def _needs_table(report: ComparisonReport) -> list[list[str]]:
    rows = [["labels to prove it", "have", "need, where they differ", "rows to draw"]]
    for item in report.populations:
        if item.changes:
            needed = "none: as many wins as losses" if item.p_value is not None else "none: they differ on fewer rows"
            if item.labels_needed is not None:
                needed = str(item.labels_needed)
            drawn = "-" if item.rows_needed is None else str(item.rows_needed)
            rows.append([item.name, str(item.wins + item.losses), needed, drawn])
    return rows if len(rows) > 1 else []


def _legend(report: ComparisonReport) -> list[str]:
    first, second = report.names
    level = f"{100 * report.confidence:g}%"
    number = len(report.populations)
    together = max(0.0, 1.0 - number * (1.0 - report.confidence))
    what = (
        "churn: share of rows on which the two differ; "
        f"win: {second} is right and {first} wrong; gain: accuracy of {second} minus that of {first}; "
        "p: exact test of McNemar, two-sided."
    )
    each = f"{level}: of each interval by itself."
    if number > 1 and together:
        each = f"{level}: each by itself; all {number} lines hold together with {100 * together:.3g}% (Bonferroni)."
    labels = (
        "labels to prove it: labelled rows among those on which the two differ that find "
        f"{_assumed(report)} with probability {100 * report.power:g}%; rows to draw until so many are found."
    )
    return [what, each, labels, *(f"Note: {note}" for note in report.notes)]


def _assumed(report: ComparisonReport) -> str:
    estimated = [item for item in report.populations if item.p_value is not None]
    if len(estimated) == len(report.populations):
        return "the measured difference"
    assumed = f"a difference of {100 * report.assumed_gain:g} points of accuracy"
    return assumed if not estimated else f"the measured difference (without labels: {assumed})"


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    clean = [[_short(printable(row[0])), *map(printable, row[1:])] for row in table]
    widths = [max(len(row[j]) for row in clean) for j in range(len(clean[0]))]
    lines = []
    for row in clean:
        fields = [row[0].ljust(widths[0])]
        fields += [
            text.ljust(width) if _is_word(text) else text.rjust(width)
            for text, width in zip(row[1:], widths[1:], strict=True)
        ]
        lines.append("  ".join(fields).rstrip())
    return lines


def _is_word(text: str) -> bool:
    return text.startswith(("met", "NOT", "un", ">=", "<=", "bound", "verdict", "none")) or text.endswith("better")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 3] + "..."


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _range(low: float | None, high: float | None, sign: str = "") -> str:
    return "-" if low is None or high is None else f"[{low:{sign}.4f}, {high:{sign}.4f}]"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(printable(text), _WIDTH, subsequent_indent="  ", break_on_hyphens=False) or [""]
