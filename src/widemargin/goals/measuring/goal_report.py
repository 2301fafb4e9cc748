"""What a goal looks like after training or auditing: groups, then a line per constraint; as text, HTML or dict."""

import dataclasses
import html
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, cast

from widemargin._text import (
    aligned,
    digits,
    html_table,
    listing,
    pandas_for_frames,
    printable,
    stored_report,
    with_lists,
    wrapped,
)  # fmt: skip
from widemargin.exceptions import DataError
from widemargin.goals.binding.tied_goal import Dropped, dropped_texts
from widemargin.goals.measuring.group_table import GroupRow, group_cells, group_lines, left_out_groups
from widemargin.goals.measuring.intervals import Interval, NewRows, simultaneous_confidence
from widemargin.goals.measuring.missing_groups import MissingGroups
from widemargin.goals.measuring.rates_of_predictions import TOLERANCE

Verdict = Literal["met", "not met", "undecided", "undefined"]
Decide = Literal["estimate", "confident"]
PlainLabel = str | int | float | bool

FORMAT = 3
"""2: numerators and denominators, cautions, what to expect on new rows; 3: factors between two rates."""


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
        The bundle that it comes from.
    numerator, denominator : float or None
        Of a ratio (weighted counts, or rates), over the same rows; None for other constraints.
    new_rows : NewRows or None
        How often the bound will be missed on new rows, as estimated by the bootstrap; in reports of training.
    factor : float or None
        Of `a >= 0.8 * b` the factor 0.8: `rate` is then `a` and `bound` is `0.8 * b`, while texts and pages show the
        ratio of the two rates (`as_ratio`).
    factor_sense : {">=", "<="} or None
        Between that ratio and the factor.
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
    numerator: float | None = None
    denominator: float | None = None
    new_rows: NewRows | None = None
    factor: float | None = None
    factor_sense: str | None = None

    def as_ratio(self) -> "ConstraintReport":
        """The same in units of the ratio where two rates are compared by a factor; other constraints as they are."""
        if self.factor is None or self.rate is None or self.bound is None:
            return self
        of_left = self.factor_sense == self.sense  # else the sides were exchanged, as in `0.8 * b <= a`
        limited, other = (self.rate, self.bound / self.factor) if of_left else (self.bound, self.rate / self.factor)
        to_ratio = partial(dataclasses.replace, self, bound=self.factor, sense=self.factor_sense)
        if other <= 0.0:  # no ratio; the verdict about `limited >= factor * 0` stays
            return to_ratio(rate=None, slack=None, ramp_rate=None, numerator=limited, denominator=other)
        # The interval is that of the slack, limited - factor * other. Divided by the other rate as it was measured it
        # is on the scale of the ratio, and its ends keep their signs, so the verdict stays the same. The error of the
        # other rate is not counted a second time: it is part of the slack already.
        interval, new_rows = self.interval, self.new_rows
        if interval is not None:
            lower, upper = (None if end is None else end / other for end in (interval.lower, interval.upper))
            interval = dataclasses.replace(interval, lower=lower, upper=upper)
        if new_rows is not None:
            one_in_ten = None if new_rows.one_in_ten is None else new_rows.one_in_ten / other
            new_rows = dataclasses.replace(new_rows, far=new_rows.far / other, one_in_ten=one_in_ten)
        sign, ramp_rate, ramp_slack = 1.0 if self.factor_sense == ">=" else -1.0, None, self.ramp_slack
        if self.ramp_rate is not None and ramp_slack is not None:
            ramp_bound = self.ramp_rate - ramp_slack if self.sense == ">=" else self.ramp_rate + ramp_slack
            over, below = (self.ramp_rate, ramp_bound) if of_left else (ramp_bound, self.ramp_rate)
            if below > 0.0:
                ramp_rate = self.factor * over / below
                ramp_slack = sign * (ramp_rate - self.factor)
        ratio = limited / other
        return to_ratio(
            rate=ratio, slack=sign * (ratio - self.factor), interval=interval, new_rows=new_rows, numerator=limited,
            denominator=other, ramp_rate=ramp_rate, ramp_slack=ramp_slack,
            multiplier=None if self.multiplier is None else self.multiplier * other,
        )  # fmt: skip

    @property
    def rule(self) -> str:
        """Its bundle, the comparison of two rates in both directions, or itself."""
        return self.bundle or both_ways_round(self.text) or self.label

    @property
    def badness(self) -> tuple[bool, bool, bool, float]:
        """Sorts constraints, the worst one first: what is not met, of this what is undefined, then what is not sure,
        then what has the least slack."""
        return self.met, self.slack is not None, self.verdict == "met", self.slack or 0.0

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
    positive_class : str, int, float, bool or None
        None where there are several.
    classes : tuple of str, int, float or bool
        All of them, where there are several.
    data_name : str
    n_rows : int
        Training or audited rows, including those of weight zero.
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
    cautions : tuple of str
        Why the model may be worth little although its goal is met: it is constant, a constant is as good, or a bound
        will often be missed on new rows.
    confidence : float or None
        Of each interval.
    decide : {"estimate", "confident"}
        What `passed` goes by.
    groups : tuple of GroupRow
        Of the groups that the goal speaks of; in reports of audits.
    missing_groups : MissingGroups or None
        How far rows of unknown group can change the rates and verdicts, where that was asked for.
    """

    positive_class: PlainLabel | None
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
    cautions: tuple[str, ...] = ()
    confidence: float | None = None
    decide: Decide = "estimate"
    groups: tuple[GroupRow, ...] = ()
    missing_groups: MissingGroups | None = None
    classes: tuple[PlainLabel, ...] = ()

    def all_met(self, decide: Decide | None = None) -> bool:
        """Whether every constraint is met, by the estimates or with confidence: then neither undecided constraints
        count as met, nor those whose verdict rows of unknown group can change (`missing_groups`).

        Parameters
        ----------
        decide : {"estimate", "confident"}, optional
            Default: the setting of the report.
        """
        rule = check_decide(decide or self.decide)
        if rule == "confident" and self.confidence is None and self.constraints:
            raise DataError('this report has no intervals; make it by audit(..., decide="confident").')
        if rule == "confident" and self.missing_groups is not None and not self.missing_groups.is_certain:
            return False
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
        by_label = {item.label: item for item in reversed(self.constraints)}
        if label not in by_label:
            raise KeyError(f"no constraint {label!r}; there are {listing([item.label for item in self.constraints])}")
        return by_label[label]

    def __str__(self) -> str:
        """Groups, then constraints; long labels stand in the legend below the table, and so does what all say."""
        lines = [line for part in _header(self) for line in wrapped(part)]
        lines += ["", *group_lines(self.groups)] if self.groups else []
        if self.constraints:
            shown, left_out = worst_pairs(self.constraints)
            _, *columns = [[head, *cells] for head, cells in _columns(self, [*shown.values()]).items()]
            # Where a label is too long for the line, the constraint's number stands for it, with its rule if that fits.
            room = 100 - sum(2 + max(map(len, column)) for column in columns)
            labels = [printable(item.label) for item in shown.values()]
            short = [f"#{j + 1} {label.partition(': ')[0]}" for j, label in zip(shown, labels, strict=True)]
            names = [next((text for text in (label, rule) if len(text) <= room), rule.split()[0])
                     for label, rule in zip(labels, short, strict=True)]  # fmt: skip
            *columns, verdicts = [["constraint", *names], *columns]
            table = aligned(list(zip(*columns, strict=True)))
            lines += ["", *(f"{line}  {verdict}".rstrip() for line, verdict in zip(table, verdicts, strict=True))]
            lines += [line for text in left_out for line in wrapped(text)]
            lines.append("")
            for name, label, (j, item) in zip(names, labels, shown.items(), strict=True):
                title = name if name == label else f"#{j + 1} {item.label}"
                lines += wrapped(f"{title}: {_definition(item)}", "  ")
        if self.missing_groups is not None:
            lines += ["", str(self.missing_groups)]
        return "\n".join([*lines, *(line for text in _tail(self) for line in wrapped(text))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The report as a self-contained HTML fragment."""
        (headline, *header), cells = _header(self), group_cells(self.groups)
        parts = [f"<div><p><strong>{html.escape(headline)}</strong></p>"]
        parts += [f"<p>{html.escape(line)}</p>" for line in header]
        parts += [html_table(cells[0], cells[1:])] if cells else []
        parts += [f"<p>{html.escape(line)}</p>" for line in left_out_groups(self.groups)]
        if self.constraints:
            shown, left_out = worst_pairs(self.constraints)
            items = [*shown.values()]
            columns = {**_columns(self, items), "definition": [_definition(item) for item in items]}
            colours = {"met": "#e6f4ea", "not met": "#fce8e6", "undecided": "#fef7e0", "undefined": "#fce8e6"}
            rows = list(zip(*columns.values(), strict=True))
            parts.append(html_table(list(columns), rows, [colours[item.verdict] for item in items]))
            parts += [f"<p>{html.escape(line)}</p>" for line in left_out]
        if self.missing_groups is not None:
            parts.append(f"<pre>{html.escape(str(self.missing_groups))}</pre>")
        parts += [f"<p>{html.escape(line)}</p>" for line in _tail(self) if line]
        return "".join([*parts, "</div>"])

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON; `from_dict` reads them."""
        plain: dict[str, Any] = dataclasses.asdict(self, dict_factory=with_lists)
        return plain | {"external_rows": [*map(list, self.external_rows)], "format": FORMAT}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "GoalReport":
        """A report from what `to_dict` returned (also after JSON).

        Raises
        ------
        DataError
            If the dict is no report, or of a newer format.
        """
        return stored_report(cls, plain, "report", FORMAT)

    def to_frame(self) -> Any:
        """One row per constraint as a pandas DataFrame, indexed by label.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        rows = []
        for item in self.constraints:
            row = dataclasses.asdict(item)
            interval, new_rows = row.pop("interval") or {}, row.pop("new_rows") or {}
            row |= {"lower": interval.get("lower"), "upper": interval.get("upper"), "missed": new_rows.get("missed")}
            rows.append(row)
        names = [f.name for f in dataclasses.fields(ConstraintReport) if f.name not in ("interval", "new_rows")]
        return pandas_for_frames().DataFrame(rows, columns=[*names, "lower", "upper", "missed"]).set_index("label")


def both_ways_round(text: str) -> str | None:
    """A name that `a / b >= 0.8` and `b / a >= 0.8` share; None for constraints that do not compare two rates."""
    bound = r"[<>]= [\d.e+-]+"
    for form in (rf"(.+)( / )(.+)( {bound})", rf"(.+)( {bound} \* )(.+)()"):
        if found := re.fullmatch(form, text):
            one, between, other, end = found.groups()
            return between.join(sorted((one, other))) + end
    return None


def check_decide(decide: str) -> Decide:
    """Refuse anything but "estimate" and "confident"."""
    if decide not in ("estimate", "confident"):
        raise DataError(f'decide must be "estimate" or "confident", got {decide!r}.')
    return cast(Decide, decide)


def tally(items: Sequence[ConstraintReport], is_met: Callable[[ConstraintReport], bool]) -> str:
    """How many constraints are met, and how many rules where a rule is many constraints."""
    rules: dict[str, bool] = {}
    for item in items:
        rules[item.rule] = rules.get(item.rule, True) and is_met(item)
    of_rules = "" if len(rules) == len(items) else f" ({sum(rules.values())} of {len(rules)} rules)"
    return f"{sum(map(is_met, items))} of {len(items)} constraints{of_rules}"


def what_decides(report: GoalReport) -> str:
    """Whether estimates or intervals decide, as a part of a sentence."""
    return "the intervals decide" if report.decide == "confident" else "the estimate decides"


def _header(report: GoalReport) -> list[str]:
    """What stands above the table: the headline first."""
    rows = f"{report.n_rows} rows" + "".join(f", external {name}: {rows}" for name, rows in report.external_rows)
    ramp = "" if report.ramp_objective is None else f" (ramp: {digits(report.ramp_objective)})"
    value = "not measured: no labels" if report.objective is None else f"{digits(report.objective)}{ramp}"
    positive = f"Positive class: {report.positive_class!r}"
    if report.classes:
        positive = f"{len(report.classes)} classes: {listing(report.classes, 10)}"
    return [
        f"Goal report. {positive}. Measured on {report.data_name} ({rows}).",
        *([f"Status: {report.status}"] if report.status else []),
        *([report.certificate] if report.certificate else []),
        f"Objective {report.objective_text} = {value}",
    ]


def _columns(report: GoalReport, items: Sequence[ConstraintReport]) -> dict[str, list[str]]:
    """Heads and cells of the columns that this report has, for these constraints of it."""
    columns = {"constraint": [item.label for item in items], "rate": [digits(item.rate) for item in items]}
    if any(item.ramp_rate is not None for item in items):
        columns["ramp rate"] = [digits(item.ramp_rate) for item in items]
    columns["bound"] = [f"{item.sense} {digits(item.bound)}" for item in items]
    columns["slack"] = [digits(item.slack, "+") for item in items]
    if report.confidence is not None:
        ends = columns[f"{100 * report.confidence:g}% of slack"] = []
        for item in items:
            low, high = (None, None) if item.interval is None else (item.interval.lower, item.interval.upper)
            left, right = "-inf" if low is None else digits(low, "+"), "+inf" if high is None else digits(high, "+")
            ends.append("-" if item.interval is None else f"[{left}, {right}]")
    if any(item.multiplier is not None for item in items):
        columns["multiplier"] = [digits(item.multiplier) for item in items]
    undecided = {True: "undecided, est. met", False: "undecided, est. not met"}
    words = {"not met": "NOT MET", "met": "met", "undefined": "undefined"}
    columns["verdict"] = [words.get(item.verdict, undecided[item.met]) for item in items]
    return columns


def _definition(item: ConstraintReport) -> str:
    """A constraint as it was written, both sides of a ratio, and the rows that it is measured on."""
    missing = f", {item.n_missing} unknown by missing values" if item.n_missing else ""
    which = "smallest population: " if item.n_populations > 1 else ""
    counts = ""
    if item.denominator is not None:  # of rates, else of counts, which are shown whole
        form = ".6g" if item.factor is None else ".4g"
        numbers = (f"{value:{form}}" for value in (item.numerator, item.denominator))
        counts = f"{' / '.join(numbers)}; "
    new = ""
    if item.new_rows is not None and item.new_rows.missed > 0.0:
        by = f", in 10% by more than {item.new_rows.one_in_ten:.2g}" if item.new_rows.one_in_ten else ""
        new = f"; on new rows missed in about {100 * item.new_rows.missed:.0f}% of draws{by}"
    return f"{item.text}  [{counts}{which}{item.n_rows} rows{missing}{new}]"


def worst_pairs(items: Sequence[ConstraintReport], *, most: int = 3) -> tuple[dict[int, ConstraintReport], list[str]]:
    """What tables show of constraints, as ratios: of a bundle the worst pair, two more that are not surely met, and a
    line that counts the others; of two rates that are compared both ways round the worse way, and a line for the other.

    Parameters
    ----------
    most : int, default=3
        Pairs of a bundle.

    Returns
    -------
    shown : dict of int to ConstraintReport
        By their places; the pairs of a bundle are called by both groups, and the worst comes first.
    left_out : list of str
        A line for each bundle with more pairs. The same two groups in the other order are no pair of their own.
    """
    pairs: dict[tuple[str, object], int] = {}
    ratios = []
    for item in items:
        ratio = item.as_ratio()
        if item.bundle is not None and item.factor is not None:  # its label is the quotient, `sex: "f" / "m"`
            head, one, other = pair_of(item)
            ratio = dataclasses.replace(ratio, label=f"{head}: {one} / {other}")
        ratios.append(ratio)
    order = {j: (*item.badness[:3], not _missed_by_ramp(item), item.badness[3]) for j, item in enumerate(ratios)}
    for j in sorted(order, key=lambda j: order[j]):
        item = ratios[j]
        head, *groups = pair_of(items[j])
        pairs.setdefault((item.rule, None if item.bundle is None else (head, frozenset(groups))), j)
    members: dict[str, list[int]] = {}
    for (name, _), j in pairs.items():
        members.setdefault(name, []).append(j)
    shown: dict[int, ConstraintReport] = {}
    lines = []
    for name in dict.fromkeys(item.rule for item in items):
        worst, *others = members[name]
        doubtful = [j for j in others if not ratios[j].passes("confident") or _missed_by_ramp(ratios[j])]
        shown |= {j: ratios[j] for j in (worst, *doubtful[: most - 1])}
        rest = [ratios[j] for j in others if j not in shown]
        if rest:
            counts = Counter("missed by the ramp" if _missed_by_ramp(item) else item.verdict for item in rest)
            found = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            pair = "pair" if len(rest) == 1 else "pairs"
            where = "all in to_dict(), and in the file of --report-json"
            lines.append(f"... {len(rest)} more {pair} of {name}: {found}; {where}.")
    for j, item in enumerate(ratios):
        if item.bundle is None and j not in shown:
            lines.append(f"... {item.label}, the same the other way round: {digits(item.rate)}, {item.verdict}.")
    return shown, lines


def _missed_by_ramp(item: ConstraintReport) -> bool:
    return item.ramp_slack is not None and not item.ramp_met


def pair_of(item: ConstraintReport) -> tuple[str, str, str]:
    """What a constraint of a bundle compares, from its label `head: a >= 0.8 * b`: head, and both groups."""
    head, _, rest = item.label.rpartition(": ")
    one, _, right = rest.partition(f" {item.sense} ")
    return head, one, right.partition(" * " if " * " in right else " + ")[2]


def _tail(report: GoalReport) -> list[str]:
    """Dropped constraints, notes, the summary, and what the words mean."""
    items = report.constraints
    lines = [f"Dropped: {text}." for text in dropped_texts(report.dropped)]
    lines += [f"Note: {note}" for note in report.notes]
    lines += [f"Caution: {caution}" for caution in report.cautions]
    if not items:
        return [*lines, "No constraints."]
    summary = f"{tally(items, lambda item: item.met)} met by the estimate"
    summary += f", {sum(item.verdict == 'met' for item in items)} with confidence" if report.confidence else ""
    lines += ["", f"{'PASSED' if report.passed else 'NOT PASSED'}: {summary}; {what_decides(report)}."]
    lines.append("rate: what the 0/1 predictions give (left-hand side); bound: the right-hand side on the same rows.")
    if any(item.factor is not None for item in items):
        lines.append("Where two rates are compared by a factor, rate is their ratio; both stand in brackets.")
    if any(item.ramp_rate is not None for item in items):
        lines.append("ramp rate: the same for the randomised classifier (predict_randomized), the mean over its draws.")
    lines.append("slack: distance of the rate to its bound, on the right side if >= 0.")
    if expected := [item.new_rows for item in items if item.new_rows is not None and item.new_rows.missed > 0.0]:
        how = "as the model decides them; if it was fitted to them they flatter it, and it will be missed more often"
        if expected[0].left_out:
            how = "in two draws of three as if left out of training, approximately; held-out rows say more"
        lines.append(f"on new rows: other rows of the same kind, drawn by the bootstrap of these, {how}.")
    together = report.simultaneous_confidence
    if report.confidence is not None and any(item.interval is not None for item in items):
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
