"""Two classifiers against one goal: who meets it, what one gains and loses over the other, and what proves it."""

import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import Any

from widemargin.diagnostics.audit import ask_model, audit, own_pos_label
from widemargin.diagnostics.comparison_counts import ComparisonCounts, PopulationComparison
from widemargin.diagnostics.comparison_layout import comparison_html, comparison_text
from widemargin.exceptions import DataError
from widemargin.goals.binding.labels import column_of, find_classes
from widemargin.goals.binding.sources import External, external_data
from widemargin.goals.language.bundles import BUNDLE_KINDS, Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.metrics import METRICS
from widemargin.goals.measuring.frames import pandas_for_frames
from widemargin.goals.measuring.goal_report import GoalReport

__all__ = ["ComparisonReport", "PopulationComparison", "compare_models", "comparison_report", "needs_labels"]

FORMAT = 1


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
        return comparison_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return comparison_html(self, html.escape)

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


def compare_models(
    model_a: Any,
    model_b: Any,
    goal: Goal | str,
    X: Any = None,
    y: Any = None,
    *,
    populations: Any = None,
    external: Mapping[str, External] | None = None,
    baselines: Mapping[str, Any] | None = None,
    sample_weight: Any = None,
    pos_label: Any = None,
    names: Sequence[str] = ("A", "B"),
    confidence: float = 0.95,
    power: float = 0.8,
    gain: float = 0.01,
    decide: str = "estimate",
    data_name: str = "the data",
) -> ComparisonReport:
    """Compare two classifiers: the goal's verdicts, and wins, losses and churn of the second one over the first.

    Parameters
    ----------
    model_a, model_b : fitted classifier, array-like of shape (n,), or dict
        As `audit` takes them. A win is a row on which B is right and A wrong.
    goal : Goal or str
        Both are audited; its populations are compared one by one, and the rows of each of its external data sets.
    X, y, populations, external, baselines, sample_weight, pos_label, decide
        As in `audit`. `y` may be None or have missing values: only the labels of rows on which A and B differ count
        here (the goal is then measured only if it needs no labels).
    names : sequence of two str
    confidence : float in (0, 1), default=0.95
        Of the intervals; `1 - confidence` is the level of the tests.
    power : float in (0, 1), default=0.8
        For `labels_needed`. Higher asks for more labels.
    gain : float in (0, 1], default=0.01
        Difference in accuracy that `labels_needed` is for where there are no labels.
    data_name : str

    Returns
    -------
    ComparisonReport

    Raises
    ------
    GoalError, DataError
        As `audit`.

    Notes
    -----
    Where some labels are missing, the labelled rows among those on which the two differ must be a random part of these.

    With weights, shares are weighted, and intervals, tests and numbers of labels take effective numbers of rows,
    `(sum w)^2 / sum w^2` (Kish 1965), in the place of counts, as Korn and Graubard (1998) do for proportions. This is
    an approximation; with equal weights it is the exact form.

    Examples
    --------
    >>> from widemargin.diagnostics import compare_models
    >>> y = [1] * 20 + [0] * 20
    >>> a = [1] * 10 + [0] * 30
    >>> b = [1] * 19 + [0] * 21
    >>> report = compare_models(a, b, "subject to recall() >= 0.9", y=y)
    >>> report.overall.wins, report.overall.losses, report.overall.verdict
    (9, 0, 'B better')
    >>> [found.passed for found in report.reports]
    [False, True]
    """
    found = Goal.parse(goal) if isinstance(goal, str) else goal
    given: dict[str | None, External] = {
        None: External(X, y, sample_weight=sample_weight, populations=populations),
        **{name: external_data(name, external or {}) for name in found.sources},
    }
    said = [_said(model, given[None], None) for model in (model_a, model_b)]
    classes = _classes((model_a, model_b), said, y, pos_label)
    own = own_pos_label(model_b) if pos_label is None else pos_label
    counts = ComparisonCounts(found, classes=classes, pos_label=own)
    for name, rows in given.items():
        both_say = said if name is None else [_said(model, rows, name) for model in (model_a, model_b)]
        arrays = {**(baselines or {})} if name is None else {**_models(baselines), **rows.baselines}
        counts.update(
            both_say[0], both_say[1], rows.y, X=rows.X, sample_weight=rows.sample_weight,
            populations=rows.populations, baselines=arrays, source=name,
        )  # fmt: skip
    reports = None
    if counts.is_labelled or not needs_labels(found):
        both = [
            audit(
                model, found, X, y if counts.is_labelled else None, populations=populations, external=external,
                baselines=baselines, sample_weight=sample_weight, pos_label=counts.positive, confidence=confidence,
                decide=decide, data_name=data_name,
            )
            for model in (model_a, model_b)
        ]  # fmt: skip
        reports = both[0], both[1]
    return comparison_report(
        counts, reports, names=names, confidence=confidence, power=power, gain=gain, data_name=data_name
    )


def comparison_report(
    counts: ComparisonCounts,
    reports: tuple[GoalReport, GoalReport] | None,
    *,
    names: Sequence[str] = ("A", "B"),
    confidence: float = 0.95,
    power: float = 0.8,
    gain: float = 0.01,
    data_name: str = "the data",
) -> ComparisonReport:
    """The report of rows that were counted in blocks; parameters as in `compare_models`."""
    if len(names) != 2 or names[0] == names[1]:
        raise DataError(f"names are {list(names)}; give two different ones.")
    for what, value in (("confidence", confidence), ("power", power), ("gain", gain)):
        if not 0.0 < value < 1.0:
            raise DataError(f"{what} is {value!r}; it must lie between 0 and 1.")
    found, notes = counts.compared(names, confidence=confidence, power=power, gain=gain)
    if reports is None:
        notes.append("the goal needs labels of all rows, so its verdicts are left out.")
    return ComparisonReport(
        (str(names[0]), str(names[1])), data_name, counts.n_rows, counts.n_labelled, confidence, power, gain,
        found, reports, tuple(notes),
    )  # fmt: skip


def needs_labels(goal: Goal) -> bool:
    """Whether a constraint of a goal (not its objective) looks at the labels of the main rows."""
    for entry in goal.constraints:
        if isinstance(entry, Constraint):
            rates = [*entry.lhs.rates, *entry.rhs.rates]
            looks = [(rate.definition.needs_label or rate.population.uses_label, rate.population) for rate in rates]
            if any(needed and population.source is None for needed, population in looks):
                return True
        elif isinstance(entry, Bundle):
            within = entry.population
            named = any(METRICS[name].needs_label for name in BUNDLE_KINDS[entry.kind])
            if named or (within is not None and within.uses_label):
                return True
    return False


def _said(model: Any, rows: External, name: str | None) -> Any:
    """Predictions for the main rows, or those of an external data set."""
    where = "" if name is None else f" for external {name!r}"
    if hasattr(model, "predict"):
        if rows.X is None:
            raise DataError(f"a classifier needs rows to classify; give X{where}.")
        return ask_model(model.predict, rows.X, rows.populations)
    found = model if name is None else None
    if isinstance(model, dict):
        found = model.get(None, model.get("")) if name is None else model.get(name)
    if found is None:
        raise DataError(
            f"there are no predictions{where}; give the models, or dicts with predictions of every data set."
        )
    return found


def _models(baselines: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (baselines or {}).items() if hasattr(value, "predict")}


def _classes(models: Sequence[Any], said: Sequence[Any], y: Any, pos_label: Any) -> Sequence[Any]:
    own = next((model.classes_ for model in models if hasattr(model, "classes_")), None)
    if own is not None:
        return list(own)
    vectors = {"the predictions of A": said[0], "the predictions of B": said[1]}
    if y is not None and len(column_of("y", y).distinct()) > 0:
        vectors["y"] = y
    return find_classes(vectors, pos_label)
