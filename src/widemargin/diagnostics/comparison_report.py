"""Two classifiers side by side: the report of a comparison, as text of at most 100 columns, HTML, dict or frame."""

import dataclasses
from typing import Any

from widemargin._text import entry_named, html_report, pandas_for_frames, printable, stored_report, with_lists, wrapped
from widemargin.goals.measuring.goal_report import GoalReport, worst_pairs
from widemargin.goals.measuring.intervals import simultaneous_confidence

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class PopulationComparison:
    """Classifier B against classifier A on the rows of one population.

    Attributes
    ----------
    name : str
    n_rows, changes : int
        Rows, and those on which the two differ.
    wins, losses : int
        Labelled rows on which they differ and B is right, or A is.
    churn, churn_lower, churn_upper : float or None
        Share of rows on which they differ (None: no rows), with the interval of Clopper and Pearson.
    win_share, win_share_lower, win_share_upper : float or None
        Share of wins among the labelled rows on which they differ, with the interval; None without such rows.
    gain, gain_lower, gain_upper : float or None
        Accuracy of B minus that of A, with an interval (`gain_interval`).
    p_value : float or None
        Of the exact two-sided test of McNemar.
    verdict : str
        `"B better"` or `"A better"` (by their names) where the test decides at level 1 - confidence, else
        `"undecided"`; `"no labels"` without any; `"equal"` where they never differ.
    labels_needed : int or None
        How many labelled rows on which the two differ prove the difference (the estimated one, without labels the
        assumed one) with the wanted power. None: no number does.
    rows_needed : int or None
        Rows to draw until so many are found.
    neither : int
        Labelled rows on which the two differ and both are wrong, which takes more than two classes.
    """

    name: str
    n_rows: int
    changes: int
    wins: int
    losses: int
    churn: float | None
    churn_lower: float | None
    churn_upper: float | None
    win_share: float | None
    win_share_lower: float | None
    win_share_upper: float | None
    gain: float | None
    gain_lower: float | None
    gain_upper: float | None
    p_value: float | None
    verdict: str
    labels_needed: int | None
    rows_needed: int | None
    neither: int = 0


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
        return entry_named(self.populations, [item.name for item in self.populations], name, "population")

    @property
    def overall(self) -> PopulationComparison:
        """All rows."""
        return self.populations[0]

    @property
    def exit_code(self) -> int:
        """1 if the second classifier does not meet the goal, else 0 (also where the goal was not measured)."""
        return 0 if self.reports is None else self.reports[1].exit_code

    def __str__(self) -> str:
        lines = wrapped(_headline(self))
        longest, words = 44, ("met", "NOT", "un", ">=", "<=", "bound", "verdict", "none")
        for table in _tables(self):
            lines.append("")
            clean = [list(map(printable, row)) for row in table]
            for row in clean:
                row[0] = row[0] if len(row[0]) <= longest else row[0][: longest - 3] + "..."
            widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
            for row in clean:
                # Words are set flush left, numbers flush right. A column may hold both, such as a number of labels or a
                # reason why no number will do, so each cell decides by its first word.
                cells = [
                    text.ljust(width)
                    if j == 0 or text.startswith(words) or text.endswith("better")
                    else text.rjust(width)
                    for j, (text, width) in enumerate(zip(row, widths, strict=True))
                ]
                lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, "", *(line for text in _legend(self) for line in wrapped(text))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_report(_headline(self), _tables(self), _legend(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON; `from_dict` reads them."""
        alone = dataclasses.replace(self, reports=None)
        plain: dict[str, Any] = dataclasses.asdict(alone, dict_factory=with_lists) | {"format": FORMAT}
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
        return stored_report(cls, plain, "comparison", FORMAT)

    def to_frame(self) -> Any:
        """One row per population as a pandas DataFrame, indexed by name.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = pandas_for_frames()
        return pd.DataFrame([dataclasses.asdict(item) for item in self.populations]).set_index("name")


def _headline(report: ComparisonReport) -> str:
    labelled = "all labelled" if report.n_labelled == report.n_rows else f"{report.n_labelled} labelled"
    return f"{report.names[1]} against {report.names[0]} on {report.data_name} ({report.n_rows} rows, {labelled})."


def _tables(report: ComparisonReport) -> list[list[list[str]]]:
    """The goal's verdicts, the rows on which the two differ, and the labels that would prove a difference."""
    level = f"{100 * report.confidence:g}%"
    goal = [["goal", "bound", report.names[0], "", report.names[1], ""]]
    if report.reports is not None:
        one, other = report.reports
        if one.objective is not None and other.objective is not None:
            goal.append([one.objective_text, "", f"{one.objective:.4f}", "", f"{other.objective:.4f}", ""])
        # Of a bundle the worst pairs of either. A bound is the same for both where a ratio is compared with a factor.
        shown = worst_pairs(one.constraints)[0] | worst_pairs(other.constraints)[0]
        for j in sorted(shown):
            a, b = one.constraints[j].as_ratio(), other.constraints[j].as_ratio()
            row = [a.text if a.label.startswith("#") else shown[j].label]
            row.append("-" if b.bound is None else f"{b.sense} {b.bound:.4f}")
            for constraint, decide in ((a, one.decide), (b, other.decide)):
                verdict: str = "NOT MET" if constraint.verdict == "not met" else constraint.verdict
                if decide == "estimate" and constraint.verdict == "undecided":
                    verdict = "met (undecided)" if constraint.met else "NOT MET (undecided)"
                row += [_number(constraint.rate), verdict]
            goal.append(row)
    labelled = any(item.p_value is not None for item in report.populations)
    rows = [["population", "rows", "differ", "churn", level]]
    rows[0] += ["wins", "losses", "gain", level, "p", "verdict"] if labelled else []
    needs = [["labels to prove it", "have", "need, where they differ", "rows to draw"]]
    for item in report.populations:
        row = [item.name, str(item.n_rows), str(item.changes), _number(item.churn)]
        row.append(_range(item.churn_lower, item.churn_upper))
        if labelled:
            row += [str(item.wins), str(item.losses), _number(item.gain, "+")]
            row += [_range(item.gain_lower, item.gain_upper, "+")]
            row += ["-" if item.p_value is None else f"{item.p_value:.2g}", item.verdict]
        rows.append(row)
        if item.changes:
            # Without labels the assumed gain may exceed the share of rows on which the two differ at all.
            needed = "none: as many wins as losses" if item.p_value is not None else "none: they differ on fewer rows"
            if item.labels_needed is not None:
                needed = str(item.labels_needed)
            drawn = "-" if item.rows_needed is None else str(item.rows_needed)
            needs.append([item.name, str(item.wins + item.losses + item.neither), needed, drawn])
    return [table for table in (goal, rows, needs) if len(table) > 1 or (table is goal and report.reports is not None)]


def _legend(report: ComparisonReport) -> list[str]:
    first, second = report.names
    level = f"{100 * report.confidence:g}%"
    number = len(report.populations)
    together = simultaneous_confidence(report.confidence, number)
    both_wrong = report.overall.neither
    what = (
        "churn: share of rows on which the two differ; "
        f"win: {second} is right and {first} wrong; "
        + (f"on {both_wrong} of the rows that differ both are wrong; " if both_wrong else "")
        + f"gain: accuracy of {second} minus that of {first}; "
        "p: exact test of McNemar, two-sided, which decides the verdict. The interval of the gain allows for chance in "
        "the churn, too, so it is wider."
    )
    each = f"{level}: of each interval by itself."
    if number > 1 and together:
        each = f"{level}: each by itself; all {number} lines hold together with {100 * together:.3g}% (Bonferroni)."
    estimated = sum(item.p_value is not None for item in report.populations)
    difference = f"a difference of {100 * report.assumed_gain:g} points of accuracy"
    if estimated:
        difference = "the measured difference" + (f" (without labels: {difference})" if estimated < number else "")
    labels = (
        "labels to prove it: labelled rows among those on which the two differ that find "
        f"{difference} with probability {100 * report.power:g}%; rows to draw until so many are found."
    )
    return [what, each, labels, *(f"Note: {note}" for note in report.notes)]


def _number(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.4f}"


def _range(low: float | None, high: float | None, sign: str = "") -> str:
    return "-" if low is None or high is None else f"[{low:{sign}.4f}, {high:{sign}.4f}]"
