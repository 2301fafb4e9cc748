"""What a goal looks like after training or auditing: one line per constraint, as text, HTML, dict or data frame."""

import dataclasses
import html
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from widemargin.exceptions import DataError
from widemargin.goals.binding.columns import listing
from widemargin.goals.binding.tied_goal import Dropped, TiedGoal
from widemargin.goals.measuring.frames import pandas_for_frames
from widemargin.goals.measuring.intervals import Interval, simultaneous_confidence, slack_intervals
from widemargin.goals.measuring.rates_of_predictions import TOLERANCE, Measured
from widemargin.goals.measuring.report_layout import html_table, text_table

__all__ = ["ConstraintReport", "GoalReport", "check_decide", "make_report", "verdict_of"]

Verdict = Literal["met", "not met", "undecided", "undefined"]
Decide = Literal["estimate", "confident"]
Label = str | int | float | bool

FORMAT = 1


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

    positive_class: Label
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
        return text_table(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self, html.escape)

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


def verdict_of(slack: float | None, met: bool, interval: Interval | None, *, with_intervals: bool) -> Verdict:
    """What can be said of a constraint.

    Parameters
    ----------
    slack : float or None
        None: undefined.
    met : bool
        By the estimate.
    interval : Interval or None
    with_intervals : bool
        Whether intervals were asked for; then a missing one leaves the constraint undecided.
    """
    if slack is None:
        return "undefined"
    if not with_intervals:
        return "met" if met else "not met"
    if interval is None:
        return "undecided"
    if interval.lower is not None and interval.lower >= -TOLERANCE:
        return "met"
    if interval.upper is not None and interval.upper < -TOLERANCE:
        return "not met"
    return "undecided"


def make_report(
    tied: TiedGoal,
    positive: Sequence[npt.NDArray[Any]],
    *,
    positive_class: Any,
    data_name: str = "the data",
    ramp: Sequence[npt.NDArray[Any]] | None = None,
    multipliers: npt.NDArray[np.float64] | None = None,
    confidence: float | None = None,
    decide: str = "estimate",
    status: str | None = None,
    certificate: str | None = None,
    notes: Sequence[str] = (),
    random_state: int | np.random.RandomState | np.random.Generator | None = 0,
) -> GoalReport:
    """Measure predictions on a tied goal.

    Parameters
    ----------
    tied : TiedGoal
    positive : sequence of ndarray of shape (n_s,)
        0/1 predictions for each source.
    positive_class : label
    data_name : str
        What the rows are called in the first line.
    ramp : sequence of ndarray of shape (n_s,), optional
        Probabilities of the randomised classifier for each source.
    multipliers : ndarray of shape (m,), optional
        In the user's units (`TiedGoal.user_multipliers`).
    confidence : float, optional
        Of intervals; None: no intervals.
    decide : {"estimate", "confident"}
    status, certificate, notes
        Printed as they are.
    """
    rule = check_decide(decide)
    if rule == "confident" and confidence is None:
        raise DataError('decide="confident" needs a confidence, such as 0.95.')
    mass = tied.positive_mass(positive)
    measured = tied.measure(mass)
    soft = None if ramp is None else tied.measure(tied.positive_mass(ramp))
    intervals: Sequence[Interval | None] = [None] * tied.n_constraints
    if confidence is not None:
        intervals = slack_intervals(tied, positive, confidence=confidence, random_state=random_state)
    return GoalReport(
        positive_class=_label(positive_class),
        data_name=data_name,
        n_rows=tied.n_rows[tied.sources.index(None)] if None in tied.sources else 0,
        goal_text=str(tied.goal),
        objective_text=str(tied.goal.objective),
        objective=_number(measured.objective),
        constraints=tuple(
            _constraint(tied, j, measured, soft, multipliers, intervals, confidence) for j in range(tied.n_constraints)
        ),
        external_rows=tuple(
            (name, rows) for name, rows in zip(tied.sources, tied.n_rows, strict=True) if name is not None
        ),
        ramp_objective=None if soft is None else _number(soft.objective),
        status=status,
        certificate=certificate,
        dropped=tied.dropped,
        notes=tuple(notes),
        confidence=confidence,
        decide=rule,
    )


def _constraint(
    tied: TiedGoal,
    j: int,
    measured: Measured,
    soft: Measured | None,
    multipliers: npt.NDArray[np.float64] | None,
    intervals: Sequence[Interval | None],
    confidence: float | None,
) -> ConstraintReport:
    item = tied.constraints[j]
    slack, met = _number(measured.slack[j]), bool(measured.met[j])
    return ConstraintReport(
        label=item.constraint.label or f"#{j + 1}",
        text=item.text,
        sense=item.sense,
        rate=_number(measured.value[j]),
        bound=_number(measured.bound[j]),
        slack=slack,
        met=met,
        verdict=verdict_of(slack, met, intervals[j], with_intervals=confidence is not None),
        n_rows=item.n_rows,
        n_missing=item.n_missing,
        ramp_rate=None if soft is None else _number(soft.value[j]),
        ramp_slack=None if soft is None else _number(soft.slack[j]),
        multiplier=None if multipliers is None else _number(multipliers[j]),
        interval=intervals[j],
        n_populations=item.n_populations,
        bundle=item.bundle,
    )


def _number(value: Any) -> float | None:
    """A float, or None where it is not defined."""
    number = float(value)
    return number if np.isfinite(number) else None


def _label(value: Any) -> Label:
    """A class label as JSON can hold it."""
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, str | int | float | bool) else str(plain)
