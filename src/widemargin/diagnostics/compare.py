"""Two classifiers against one goal: who meets it, what one gains and loses over the other, and what proves it."""

from collections.abc import Mapping, Sequence

from widemargin._typing import Classifier, Column, Features, Label, Table
from widemargin.diagnostics.audit import ask_model, audit, own_pos_label
from widemargin.diagnostics.comparison_counts import ComparisonCounts
from widemargin.diagnostics.comparison_report import ComparisonReport
from widemargin.exceptions import DataError
from widemargin.goals.binding.sources import External, find_classes, rows_of_source
from widemargin.goals.binding.tables import column_of
from widemargin.goals.language.bundles import BUNDLE_KINDS, Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.linear import METRICS
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.rows import Rows, is_asked

__all__ = ["compare_models", "comparison_report", "needs_labels"]


def compare_models(
    model_a: Classifier | Column | Mapping[str | None, Column],
    model_b: Classifier | Column | Mapping[str | None, Column],
    goal: Goal | str,
    X: Features | None = None,
    y: Column | None = None,
    *,
    populations: Table | None = None,
    external: Mapping[str, External] | None = None,
    baselines: Mapping[str, Column | Classifier] | None = None,
    sample_weight: Column | None = None,
    pos_label: Label = None,
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
    goal = Goal.parse(goal) if isinstance(goal, str) else goal
    main = Rows(X, y, sample_weight, populations, external or {}, baselines or {})
    classes = None
    for name in (None, *goal.sources):
        rows = rows_of_source(main, name)
        both_say = [_said(model, rows) for model in (model_a, model_b)]
        if classes is None:
            classes = _classes((model_a, model_b), both_say, y, pos_label)
            own = own_pos_label(model_b) if pos_label is None else pos_label
            counts = ComparisonCounts(goal, classes=classes, pos_label=own)
        counts.add(rows, both_say[0], both_say[1])
    reports = None
    if counts.is_labelled or not needs_labels(goal):
        both = [
            audit(
                model, goal, X, y if counts.is_labelled else None, populations=populations, external=external,
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
    lines, notes = counts.compared(names, confidence=confidence, power=power, gain=gain)
    if reports is None:
        notes.append("the goal needs labels of all rows, so its verdicts are left out.")
    return ComparisonReport(
        (str(names[0]), str(names[1])), data_name, counts.n_rows, counts.n_labelled, confidence, power, gain,
        lines, reports, tuple(notes),
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


def _said(model: Classifier | Column | Mapping[str | None, Column], rows: Rows) -> Column:
    """Predictions for the main rows, or those of an external data set."""
    where = "" if rows.source is None else f" for external {rows.source!r}"
    if is_asked(model):
        if rows.X is None:
            raise DataError(f"a classifier needs rows to classify; give X{where}.")
        return ask_model(model.predict, rows.X, rows.populations)
    if not isinstance(model, Mapping):
        said = model if rows.source is None else None
    else:
        said = model.get(None, model.get("")) if rows.source is None else model.get(rows.source)
    if said is None:
        raise DataError(
            f"there are no predictions{where}; give the models, or dicts with predictions of every data set."
        )
    return said


def _classes(models: Sequence[object], said: Sequence[Column], y: Column | None, pos_label: Label) -> Sequence[Label]:
    """The classes that a model was fitted to, else those that occur in the predictions and labels."""
    for model in models:
        own = getattr(model, "classes_", None)
        if own is not None:
            return list(own)
    vectors = {"the predictions of A": said[0], "the predictions of B": said[1]}
    if y is not None and len(column_of("y", y).distinct()) > 0:
        vectors["y"] = y
    return find_classes(vectors, pos_label)
