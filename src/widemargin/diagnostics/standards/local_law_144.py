"""The bias audit of New York City's Local Law 144 of 2021, from decisions or scores alone (6 RCNY 5-300 to 5-304).

The rules of the city's Department of Consumer and Worker Protection ask for the rate of each category of sex, of race
or ethnicity, and of both together, and for its *impact ratio*: the rate over the highest rate. The rate is the
*selection rate* where a tool selects or classifies, and the *scoring rate*, the share with a score above the median of
the whole sample, where it scores. The rules ask for the number of people of unknown category beside the tables; here
the range of every impact ratio over all ways to place these people is given, too.
"""

import dataclasses
import datetime
import html
from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from widemargin._text import (
    aligned,
    entry_named,
    html_table,
    listing,
    pandas_for_frames,
    printable_name,
    stored_report,
    with_lists,
    wrapped,
)
from widemargin._typing import Bools, Column, Ints, Label
from widemargin.diagnostics.standards.unknown_groups import ImpactRange, Unknown, impact_ranges
from widemargin.exceptions import DataError
from widemargin.goals.binding.tables import TableColumn, column_of
from widemargin.goals.measuring.goal_report import check_decide
from widemargin.goals.measuring.group_table import GroupRate
from widemargin.goals.measuring.intervals import clopper_pearson

FORMAT = 1
FOUR_FIFTHS = 0.8
"""Of the highest rate: below it federal agencies see evidence of adverse impact (29 CFR 1607.4 D). Local Law 144 itself
asks for no least ratio."""
SMALL = 0.02
"""An auditor may leave out a category with a smaller share of the data (6 RCNY 5-301 (d))."""
UNKNOWN_WORDS = (
    "", "?", "-", "n/a", "na", "none", "null", "unknown", "not known", "unspecified", "not specified", "not stated",
    "not disclosed", "undisclosed", "missing", "declined", "decline to answer", "decline to state",
    "decline to self-identify", "prefer not to say", "prefer not to answer", "i do not wish to answer",
)  # fmt: skip
"""Texts that say that a category is not known, in lower case."""

MOST = 24
"""Categories of sex or of race: a column with more is most likely another one."""

Verdict: TypeAlias = Literal["yes", "no", "open", "undefined", "left out"]


@dataclasses.dataclass(frozen=True)
class Category:
    """A category of a table.

    Attributes
    ----------
    name : str
    n_people, n_selected : int
        Of known category; selected, or with a score above the median.
    share : float
        Of all people assessed, those of unknown category among them.
    rate : GroupRate
        Selection or scoring rate, with the exact 95% interval.
    impact_ratio : float or None
        None where it is undefined (nobody in the category, or all rates 0) or the category is left out.
    least, largest : float or None
        Of the impact ratio, over all ways to place the people of unknown category.
    is_small : bool
        Whether the share is below 2%.
    four_fifths : {"yes", "no", "open", "undefined", "left out"}
        Whether the impact ratio is 0.8 or more; "open" where this depends on people of unknown category.
    """

    name: str
    n_people: int
    n_selected: int
    share: float
    rate: GroupRate
    impact_ratio: float | None
    least: float | None
    largest: float | None
    is_small: bool
    four_fifths: Verdict


@dataclasses.dataclass(frozen=True)
class CategoryTable:
    """The categories of sex, of race or ethnicity, or of both.

    Attributes
    ----------
    title : str
    categories : tuple of Category
    n_unknown, n_unknown_selected : int
        People of unknown category; of them selected, or with a score above the median.
    """

    title: str
    categories: tuple[Category, ...]
    n_unknown: int
    n_unknown_selected: int


@dataclasses.dataclass(frozen=True)
class BiasAudit:
    """A bias audit. `print(audit)`, `.to_dict()`, `.to_frame()`; notebooks show tables.

    `widemargin.report.bias_audit_page` and `bias_audit_card` make a page and a section of a model card of it.

    Attributes
    ----------
    standard : str
        "ll144".
    kind : {"selection", "scoring"}
        Which rate was calculated.
    selected : str
        What counts as selected, in words.
    median : float or None
        Of all scores.
    n_people, n_not_assessed : int
        People with a decision or score, and those without, who are in no table.
    tables : tuple of CategoryTable
    decide : {"estimate", "confident"}
        Whether a category passes by its impact ratio, or only if no way to place the unknown people brings it below.
    data_name, audit_date : str
    source, distribution_date, left_out_because : str or None
        As stated by the auditor: source and explanation of the data, when the tool came into use, and why small
        categories were left out.
    """

    standard: str
    kind: Literal["selection", "scoring"]
    selected: str
    median: float | None
    n_people: int
    n_not_assessed: int
    tables: tuple[CategoryTable, ...]
    decide: Literal["estimate", "confident"]
    data_name: str
    audit_date: str
    source: str | None = None
    distribution_date: str | None = None
    left_out_because: str | None = None

    def __getitem__(self, title: str) -> CategoryTable:
        """The table of that title."""
        return entry_named(self.tables, [table.title for table in self.tables], title, "table")

    @property
    def passed(self) -> bool:
        """Whether there are impact ratios and every one is at least four fifths, as `decide` says."""
        ratios = [item.impact_ratio if self.decide == "estimate" else item.least for item in self.with_ratio]
        return bool(ratios) and all(ratio is not None and ratio >= FOUR_FIFTHS for ratio in ratios)

    @property
    def with_ratio(self) -> list[Category]:
        """The categories of all tables that have an impact ratio."""
        return [item for table in self.tables for item in table.categories if item.impact_ratio is not None]

    @property
    def word(self) -> str:
        """What people with the better outcome are, in the head of a column."""
        return "selected" if self.kind == "selection" else "above median"

    @property
    def exit_code(self) -> int:
        """0 if `passed`, else 1."""
        return 0 if self.passed else 1

    def headline(self) -> str:
        """What is found, in one sentence."""
        every = self.with_ratio
        below = sum(item.impact_ratio is not None and item.impact_ratio < FOUR_FIFTHS for item in every)
        if not every:
            turning = sum(item.four_fifths == "open" for table in self.tables for item in table.categories)
            return (
                f"No impact ratio of {self.data_name} ({self.n_people} people) is defined, as nobody of known category "
                f"is {self.word}; people of unknown category can turn {turning} verdicts."
            )
        # A category in which nobody is known to be has no verdict that could turn.
        turning = sum(item.four_fifths == "open" for item in every)
        return (
            f"Impact ratios of {self.data_name} ({self.n_people} people): {below} of {len(every)} below four fifths; "
            f"people of unknown category can turn {turning} of these verdicts."
        )

    def facts(self) -> list[tuple[str, str]]:
        """What the rules want published beside the tables (6 RCNY 5-303), heading and text."""
        blank = "not stated"
        known = [
            ("Date of the audit", self.audit_date),
            ("Source and explanation of the data", self.source or blank),
            ("Date from which the tool is used", self.distribution_date or blank),
            ("Counts as selected", self.selected),
            ("Without a decision or score", f"{self.n_not_assessed} people, in no table"),
        ]
        unknown = [(f"Unknown category, {table.title}", f"{table.n_unknown} people") for table in self.tables]
        why = [] if self.left_out_because is None else [("Why small categories are left out", self.left_out_because)]
        return [*known, *unknown, *why]

    def __str__(self) -> str:
        lines = wrapped(self.headline())
        for table in self.tables:
            lines += ["", table.title, *aligned(self.texts(table))]
            lines.append(f"Unknown: {table.n_unknown} people, of them {table.n_unknown_selected} {self.word}")
        lines += ["", *(line for name, text in self.facts() for line in wrapped(f"{name}: {text}"))]
        return "\n".join([*lines, "", *wrapped(LEGEND)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<div><p><strong>{html.escape(self.headline())}</strong></p>"]
        for table in self.tables:
            head, *rows = self.texts(table)
            parts += [f"<p>{html.escape(table.title)}</p>", html_table(head, rows)]
        return "".join([*parts, "</div>"])

    def texts(self, table: CategoryTable) -> list[list[str]]:
        """The cells of a table, its heads first."""
        rows = [["", "people", self.word, f"{self.kind} rate", "impact ratio", "can be", "four fifths"]]
        for item in table.categories:
            name = printable_name(item.name) + (" *" if item.is_small else "")
            ratio = "-" if item.impact_ratio is None else f"{item.impact_ratio:.3f}"
            can_be = "-" if item.least is None else f"{item.least:.3f} to {item.largest:.3f}"
            rows.append([name, str(item.n_people), str(item.n_selected), str(item.rate), ratio, can_be,
                         item.four_fifths])  # fmt: skip
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON; `from_dict` reads them."""
        plain: dict[str, Any] = dataclasses.asdict(self, dict_factory=with_lists)
        return plain | {"format": FORMAT}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "BiasAudit":
        """An audit from what `to_dict` returned (also after JSON).

        Raises
        ------
        DataError
            If the dict is no bias audit, or of a newer format.
        """
        return stored_report(cls, plain, "bias audit", FORMAT)

    def rows(self) -> list[dict[str, str | int | float | bool | None]]:
        """One flat row per category, for CSV files and data frames."""
        rows = []
        for table in self.tables:
            for item in table.categories:
                row = {"table": table.title, **dataclasses.asdict(item)}
                rate = row.pop("rate")
                rows.append(row | {f"{self.kind}_rate": rate["value"], "lower": rate["lower"], "upper": rate["upper"]})
            unknown = dict.fromkeys(rows[-1]) | {"table": table.title, "name": "unknown"}
            rows.append(unknown | {"n_people": table.n_unknown, "n_selected": table.n_unknown_selected})
        return rows

    def to_frame(self) -> Any:
        """One row per category as a pandas DataFrame, indexed by table and name.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        return pandas_for_frames().DataFrame(self.rows()).set_index(["table", "name"])


LEGEND = (
    "In brackets: exact 95% interval. Impact ratio: the rate over the highest rate. Can be: the least and the largest "
    "impact ratio over all ways to place the people of unknown category. *: less than 2% of the data. Four fifths: the "
    "mark of the federal guidelines (29 CFR 1607.4 D), which Local Law 144 does not ask to reach, only to publish the "
    "ratios. Open: people of unknown category can turn it."
)


def local_law_144(
    outcomes: Column,
    sex: Column,
    race_ethnicity: Column,
    *,
    selected: Label = None,
    unknown: Collection[str] = (),
    leave_out_small: str | None = None,
    decide: str = "estimate",
    data_name: str = "the data",
    audit_date: str | None = None,
    source: str | None = None,
    distribution_date: str | None = None,
) -> BiasAudit:
    """Make the tables of a bias audit under New York City's Local Law 144, with bounds for unknown categories.

    Parameters
    ----------
    outcomes : array-like of shape (n,)
        Decisions (two values, or several classes of which `selected` names one) or scores (numbers of more than two
        values). Missing: the person was not assessed, and is counted apart.
    sex, race_ethnicity : array-like of shape (n,)
        Missing values and the words of `UNKNOWN_WORDS` are unknown.
    selected : label, default=None
        The value of `outcomes` that counts as selected. None: 1 or True of decisions that are 0 and 1; scores if
        numbers have more than two values.
    unknown : collection of str, default=()
        Further values of sex and race or ethnicity that mean unknown.
    leave_out_small : str, default=None
        The reason why categories with less than 2% of the data are left out of the impact ratios, which the rules want
        published. None: these categories are marked and stay in.
    decide : {"estimate", "confident"}, default="estimate"
        What `passed` goes by: the impact ratios, or the least that they can be over all ways to place the unknown
        people.
    data_name : str, default="the data"
    audit_date, source, distribution_date : str, default=None
        What the rules want published: the date of the audit (None: today), source and explanation of the data, and
        from when the tool is used.

    Returns
    -------
    BiasAudit

    Raises
    ------
    DataError
        If the columns differ in length, nobody was assessed, nobody's category is known, or nothing says which value
        of the outcomes counts as selected.

    References
    ----------
    Rules of the City of New York, title 6, chapter 5, subchapter T, sections 5-300 to 5-304 (2023).

    Examples
    --------
    >>> from widemargin.diagnostics import local_law_144
    >>> audit = local_law_144([1, 0, 1, 1, 0, 1], ["F", "F", "F", "M", "M", None], ["A", "B", "A", "A", "B", "B"])
    >>> [(item.name, item.n_people, round(item.impact_ratio, 2)) for item in audit["Sex"].categories]
    [('F', 3, 1.0), ('M', 2, 0.75)]
    >>> audit["Sex"].n_unknown
    1
    """
    given = {"outcomes": outcomes, "sex": sex, "race_ethnicity": race_ethnicity}
    columns = {name: column_of(name, values) for name, values in given.items()}
    lengths = {name: len(column.values) for name, column in columns.items()}
    if len({*lengths.values()}) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(f"the columns differ in length: {told}. Give one value per person in each.")
    outcome = columns["outcomes"]
    assessed = np.ones(len(outcome.values), bool) if outcome.missing is None else ~outcome.missing
    if outcome.kind == "empty" or not assessed.any():
        raise DataError(
            f"none of {len(assessed)} people has a decision or score. Give outcomes of at least one person."
        )
    for name, date in (("audit_date", audit_date), ("distribution_date", distribution_date)):
        try:
            datetime.date.fromisoformat(date or "2000-01-01")
        except ValueError:
            raise DataError(f"{name} is {date!r}, which is no date. Write it as 2023-07-05.") from None
    if outcome.kind == "number" and not np.isfinite(outcome.values[assessed]).all():
        count = int((~np.isfinite(outcome.values[assessed])).sum())
        raise DataError(f"{count} outcomes are infinite, which are no scores. Mend them, or leave them empty.")
    chosen, median, meaning = _chosen(outcome, assessed, selected)
    words = {*UNKNOWN_WORDS, *(word.strip().casefold() for word in unknown)}
    sex_code, sexes = _categories(columns["sex"], words, assessed)
    race_code, races = _categories(columns["race_ethnicity"], words, assessed)
    # Numbers of people by outcome and pair of codes, the last code of each being "unknown". The three tables are sums
    # over this one, so they agree with each other.
    counts = np.zeros((2, len(sexes) + 1, len(races) + 1), dtype=np.int64)
    place = sex_code * (len(races) + 1) + race_code
    for taken in (0, 1):
        inside = place[assessed & (chosen == bool(taken))]
        counts[taken] = np.bincount(inside, minlength=counts[0].size).reshape(counts[0].shape)
    of_sex, of_race, is_left_out = counts.sum(axis=2), counts.sum(axis=1), leave_out_small is not None
    # Of whom neither is known may be in any cell, of whom one is known in the cells of its row or column.
    cells = np.arange(len(sexes) * len(races)).reshape(len(sexes), len(races))
    known = counts[:, :-1, :-1].reshape(2, -1)
    unsure = [_unknown(cells.ravel().tolist(), counts[:, -1, -1])]
    unsure += [_unknown(cells[j].tolist(), counts[:, j, -1]) for j in range(len(sexes))]
    unsure += [_unknown(cells[:, j].tolist(), counts[:, -1, j]) for j in range(len(races))]
    names = [f"{sex}, {race}" for sex in sexes for race in races]
    tables = (
        _table("Sex", sexes, of_sex[:, :-1], [_unknown(range(len(sexes)), of_sex[:, -1])], is_left_out),
        _table("Race/ethnicity", races, of_race[:, :-1], [_unknown(range(len(races)), of_race[:, -1])], is_left_out),
        _table("Sex and race/ethnicity", names, known, unsure, is_left_out),
    )
    return BiasAudit(
        "ll144", "selection" if median is None else "scoring", meaning, median, int(assessed.sum()),
        int((~assessed).sum()), tables, check_decide(decide), data_name,
        audit_date or datetime.date.today().isoformat(), source, distribution_date, leave_out_small,
    )  # fmt: skip


def is_unknown(value: object, words: Collection[str] = UNKNOWN_WORDS) -> bool:
    """Whether a value says that a row's group is not known: missing, or one of these words, such as "not stated"."""
    return value is None or str(value).strip().casefold() in words


def _chosen(outcome: TableColumn, assessed: Bools, selected: Label) -> tuple[Bools, float | None, str]:
    """Who was selected or has a score above the median; the median of scores; and what that is called."""
    values = outcome.distinct(assessed)
    if selected is None and outcome.kind == "number" and len(values) > 2:
        median = float(np.median(outcome.values[assessed]))
        return outcome.values > median, median, f"a score above the median of all scores, {median:g}"
    if selected is None and outcome.is_binary:
        selected = True if outcome.kind == "boolean" else 1
    value = next((value for value in values if value == selected or str(value) == str(selected)), None)
    if selected is None or value is None:
        problem = "nothing says which of them" if selected is None else f"none of them is {selected!r}, which"
        raise DataError(
            f"the outcomes have the values {listing(values)}; {problem} counts as selected. Name one by selected=; of "
            "several classes make one audit for each."
        )
    code = outcome.categories.index(str(value)) if outcome.kind == "string" else value
    return outcome.values == code, None, f"the outcome {value!r}"


def _categories(column: TableColumn, unknown: Collection[str], assessed: Bools) -> tuple[Ints, list[str]]:
    """The category of every person as a number, unknown ones the last; and the categories' names."""
    values = [value for value in column.distinct(assessed) if not is_unknown(value, unknown)]
    if not values:
        raise DataError(
            f"column {column.name!r} names nobody's category: its values are {listing(column.distinct(assessed), 5)}. "
            "Give a column of categories."
        )
    if len(values) > MOST:
        raise DataError(
            f"column {column.name!r} has {len(values)} values ({listing(values, 5)}); a bias audit takes up to {MOST} "
            "categories. Name another column, or join values."
        )
    codes = np.full(len(column.values), len(values))
    for code, value in enumerate(values):
        known = column.categories.index(str(value)) if column.kind == "string" else value
        codes[column.values == known] = code
    if column.missing is not None:
        codes[column.missing] = len(values)
    return codes, [str(value) for value in values]


def _unknown(groups: Sequence[int], passed_over_and_selected: Ints) -> Unknown:
    passed_over, selected = passed_over_and_selected.tolist()
    return Unknown(tuple(groups), selected, passed_over)


def _table(
    title: str, names: Sequence[str], counts: Ints, unknown: Sequence[Unknown], is_left_out: bool
) -> CategoryTable:
    """A table from how many people of each category were passed over and selected, shape (2, n_categories)."""
    n_unknown = sum(kind.selected + kind.passed_over for kind in unknown)
    people = counts.sum(axis=0)
    total = int(people.sum()) + n_unknown
    is_small = people < SMALL * total
    counted = ~is_small if is_left_out else np.ones(len(names), bool)
    rates = counts[1] / np.maximum(people, 1)
    highest = float(rates[counted].max(initial=0.0))
    ranges = impact_ranges(counts[1], counts[0], unknown, counted)
    categories = []
    for name, n_people, n_selected, rate, small, ends, takes_part in zip(
        names, people.tolist(), counts[1].tolist(), rates.tolist(), is_small.tolist(), ranges, counted, strict=True
    ):
        ratio = rate / highest if takes_part and n_people and highest > 0.0 else None
        ends = ends or ImpactRange(None, None)
        ends_of_rate = clopper_pearson(n_selected, n_people) if n_people else (None, None)
        categories.append(
            Category(
                name, n_people, n_selected, share=n_people / total,
                rate=GroupRate(rate if n_people else None, *ends_of_rate),
                impact_ratio=ratio, least=ends.least, largest=ends.largest, is_small=small,
                four_fifths=_four_fifths(ends) if takes_part else "left out",
            )
        )  # fmt: skip
    return CategoryTable(title, tuple(categories), n_unknown, sum(kind.selected for kind in unknown))


def _four_fifths(ends: ImpactRange) -> Verdict:
    """Whether a ratio is four fifths or more, and stays so whatever the unknown people are."""
    if ends.least is None or ends.largest is None:
        return "undefined"
    if ends.least >= FOUR_FIFTHS:
        return "yes"
    return "no" if ends.largest < FOUR_FIFTHS else "open"
