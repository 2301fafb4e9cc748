"""Where the rows come from: the training or audited data and the external data sets, with their labels as +1 and -1."""

import dataclasses
from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np

from widemargin._text import listing
from widemargin._typing import Bools, Column, Floats, Integers, Ints, Label, Signs
from widemargin.exceptions import CapabilityError, DataError, GoalError, GoalWarning, warn
from widemargin.goals.binding.labels import encode_labels
from widemargin.goals.binding.tables import PopulationTable
from widemargin.goals.language.linear import Rate, ScoreFact
from widemargin.goals.language.values import Literal
from widemargin.rows import Rows, is_asked, is_frame, rows_of_source

__all__ = [
    "SAID", "Repeats", "Sought", "Source", "View", "make_source", "make_sources", "seen", "sought", "view_of",
    "with_predictions",
]  # fmt: skip

SAID = "(the label it would give)"
"""Among the baselines of a source whose classifier abstains: what each row is called if it is decided.

Whatever else is called a prediction of such a source is then whether the row is decided.
"""


@dataclasses.dataclass(frozen=True, eq=False)
class Repeats:
    """What an entry of a source stands for, where alike rows were counted and not kept (`goals/measuring/counting.py`).

    Attributes
    ----------
    count : ndarray of int64, shape (n_rows,)
        Rows that the entry stands for; its weight is their mean weight.
    binned : bool
        Whether these means are over rows of different weights, at most 5% apart (`goals/measuring/intervals.py`).
    """

    count: Ints
    binned: bool = False


Sought: TypeAlias = tuple[str, Literal | None]
"""A class for each row: the same one ("class", "cat"), its own ("label", None), or a baseline's ("baseline", "old")."""


class View(NamedTuple):
    """What a rate looks for in rows of several classes.

    `recall(of="cat")` looks for cats everywhere, `error_rate()` for the row's own class, `churn("old")` for what the
    baseline said. What is looked for is the positive class of a *view* of the rows, in which labels, baselines and
    decisions, and so cells, rates, coefficients and intervals, are those of two classes. Views of one source are the
    same rows, and a classifier makes one decision for each of them.

    Attributes
    ----------
    source : str or None
    decision : (str, label)
        What a decision must be to count as positive.
    label : (str, label)
        The same for labels; another one in `confusion` only.
    """

    source: str | None
    decision: Sought
    label: Sought


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """Rows of one origin, ready to be tied to a goal.

    Attributes
    ----------
    name : str or None
        None for the training (or audited) rows, else the name of the external data set.
    labels : ndarray of int8 or int16, shape (n_rows,), or None
        +1, -1, or 0 where the label is missing; of several classes their numbers, from 1 on.
    weight : ndarray of float64, shape (n_rows,), or None
        Weights >= 0; None means all ones.
    table : PopulationTable or None
    baselines : mapping of str to ndarray of int8, shape (n_rows,)
        Predictions of the baseline models, as the labels are written.
    n_rows : int
        Entries: rows, or with `repeats` groups of alike ones.
    repeats : Repeats or None
        None: an entry is a row.
    classes : tuple of labels
        (negative, positive), or all of several; empty where a goal that names none of them is tied.
    view : View or None
        What is looked for, where these are rows of several classes as rows of two.
    whole : Source or None
        Of a view: the rows with all their classes.
    title : str
        How messages call it.
    has_labels : bool
        Whether any label is known.

    Raises
    ------
    DataError
        If a vector has another length, or a weight is negative or not finite.
    """

    name: str | None
    labels: Signs | None
    weight: Floats | None
    table: PopulationTable | None
    baselines: Mapping[str, Signs]
    n_rows: int
    repeats: Repeats | None = None
    classes: tuple[Label, ...] = ()
    view: View | None = None
    whole: "Source | None" = None
    title: str = dataclasses.field(init=False)
    has_labels: bool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", "the data" if self.name is None else f"external {self.name!r}")
        object.__setattr__(self, "has_labels", self.labels is not None and bool(self.labels.any()))
        if self.n_rows < 1:
            raise DataError(f"{self.title} has no rows.")
        vectors = {f"baseline {name!r}": value for name, value in self.baselines.items()}
        for what, vector in {"y": self.labels, "sample_weight": self.weight, **vectors}.items():
            if vector is not None and vector.shape != (self.n_rows,):
                raise DataError(
                    f"{what} has length {vector.shape[0]} and {self.title} {self.n_rows} rows; give one value per row."
                )
        if self.table is not None and self.table.n_rows != self.n_rows:
            raise DataError(f"the table has {self.table.n_rows} rows and {self.title} {self.n_rows}.")
        bad = 0 if self.weight is None else np.count_nonzero(~(np.isfinite(self.weight) & (self.weight >= 0)))
        if bad:
            raise DataError(f"{bad} sample weights of {self.title} are negative or not finite; a weight is >= 0.")
        largest = 1.0 if self.weight is None else float(self.weight.max())
        if largest > 0.0 and not 1e-150 < largest < 1e150:
            raise DataError(
                f"the largest sample weight of {self.title} is {largest:.3g}: squares of weights overflow or vanish; "
                "divide the weights by their mean."
            )

    @property
    def key(self) -> Hashable:
        """Under which the cells of these rows stand."""
        return self.name if self.view is None else self.view

    @property
    def several(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.classes) > 2

    def number_of(self, of: Literal) -> int:
        """The number of a class, from 1 on in the order of `classes`.

        Raises
        ------
        GoalError
            If it is none of them.
        """
        same = [isinstance(label, bool) == isinstance(of, bool) and label == of for label in self.classes]
        if not any(same):
            raise GoalError(
                f"the goal speaks of the class {of!r}, and the classes of {self.title} are {listing(self.classes)}."
            )
        return same.index(True) + 1

    def signs(self, numbers: Signs, of: Literal | None, what: object) -> Signs:
        """Labels or predictions of these rows as +1 where they are the class `of` and -1 elsewhere; 0 stays 0.

        Raises
        ------
        GoalError
            If no class is named and there are several; `what` asks for it.
        """
        if of is None and not self.several:
            return numbers
        if of is None:
            raise GoalError(
                f"{what} does not say which of the {len(self.classes)} classes {listing(self.classes)} it speaks of; "
                f"write it with of={self.classes[0]!r}, say."
            )
        number = self.number_of(of)
        if not self.several:
            return numbers if number == 2 else -numbers
        return np.where(numbers == 0, 0, np.where(numbers == number, 1, -1)).astype(np.int8)

    def that_says(self, said: Signs) -> "Source":
        """The same rows of a classifier that abstains, with what it would call each, +1 or -1."""
        return dataclasses.replace(self, baselines={**self.baselines, SAID: said})


def make_source(
    rows: Rows, baseline_names: Collection[str] = (), *, classes: tuple[Label, ...], n_rows: int | None = None
) -> Source:
    """Check and encode the rows of one origin.

    Parameters
    ----------
    rows : Rows
        A baseline is looked up among the columns of its `populations` first, then in its `baselines`; predictions are
        in y's label space, classifiers are asked about its X. Labels may be missing in external data sets only.
    baseline_names : collection of str
        Baselines the goal uses here; only these are read.
    classes : (negative, positive), or all of several
        As `ordered_classes` gives them.
    n_rows : int or None
        Number of rows where `rows` need not hold any, because they are known by their predictions alone.

    Raises
    ------
    DataError
        On strange labels or weights, an unknown baseline.
    """
    n_rows = rows.n_rows if n_rows is None else n_rows
    title = "" if rows.source is None else f" of external {rows.source!r}"
    labels = weight = None
    if rows.y is not None:
        labels = encode_labels(rows.y, classes, what=f"y{title}", allow_missing=rows.source is not None)
    if rows.sample_weight is not None:
        try:
            weight = np.asarray(rows.sample_weight, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"sample_weight{title} is not numeric.") from None
        if weight.ndim != 1:
            raise DataError(f"sample_weight{title} has shape {weight.shape}; give a vector with one weight per row.")
        if len(weight) == n_rows and bool((weight == 1.0).all()):
            weight = None
    if _is_pandas(rows.X):
        # Rows are matched by position, whatever the indices of pandas say.
        X: Any = rows.X
        parts: dict[str, Any] = {"y": rows.y, "sample_weight": rows.sample_weight, "populations": rows.populations}
        strange = [
            what
            for what, part in parts.items()
            if _is_pandas(part) and len(part) == len(X) and part.index is not X.index and not part.index.equals(X.index)
        ]
        if strange:
            several = len(strange) > 1
            warn(
                f"{' and '.join(strange)}{title} {'have' if several else 'has'} another index than X, and rows are "
                f"matched by position. If the order is the same, give {strange[0]}.reset_index(drop=True) and "
                f"X.reset_index(drop=True); if not, {strange[0]}.reindex(X.index).",
                GoalWarning,
            )
    table = PopulationTable.build(rows.populations, rows.X, n_rows=n_rows)
    signs: dict[str, Signs] = {}
    for name in sorted(baseline_names):
        predictions = _predictions_of_baseline(name, rows, table, title)
        signs[name] = encode_labels(predictions, classes, what=f"baseline {name!r}{title}")
    return Source(rows.source, labels, weight, table, signs, n_rows, classes=classes)


def make_sources(
    uses: Mapping[str | None, Collection[str]], rows: Rows, *, classes: tuple[Label, ...]
) -> tuple[Source, ...]:
    """The main rows and every external data set that a goal uses, the main rows first.

    Parameters
    ----------
    uses : mapping of source name to baseline names
        What `baselines_used(goal)` returns: the external data sets of the goal and the baselines needed on each.
    rows : Rows
        The main rows. Classifiers among their baselines are asked on every source that needs them.
    classes : (negative, positive)

    Raises
    ------
    DataError
        If the goal uses an external data set that was not given, or any part is malformed.
    """
    main = make_source(rows, uses.get(None, ()), classes=classes)
    others = sorted(name for name in uses if name is not None)
    return main, *(make_source(rows_of_source(rows, name), uses[name], classes=classes) for name in others)


def _is_pandas(data: object) -> bool:
    return bool(nw.dependencies.is_pandas_dataframe(data) or nw.dependencies.is_pandas_series(data))


def _predictions_of_baseline(name: str, rows: Rows, table: PopulationTable | None, title: str) -> Column:
    """A column of the table of populations, else an array that was given, else what a classifier says."""
    column = table.own_column(name) if table is not None else None
    if column is not None:
        return column.to_values()
    if name not in rows.baselines and ScoreFact.named(name) is not None:
        raise DataError(
            f"{name}{title} is about scores, which predictions alone do not show and which training does not bound. "
            "Audit a fitted classifier, and leave it out of the goal that one is trained to."
        )
    if name not in rows.baselines:
        raise DataError(
            f"baseline {name!r} is unknown{title}; known are {listing(sorted(rows.baselines))}, and the columns of "
            f"populations. Add a column {name!r} to populations, or give "
            + (
                f"External(X, {name}=predictions)."
                if rows.source
                else f"baselines={{{name!r}: a fitted classifier}} (to the estimator; an audit takes predictions, too)."
            )
        )
    baseline = rows.baselines[name]
    if not is_asked(baseline):
        return baseline
    if rows.X is None:
        raise DataError(f"baseline {name!r} is a model, and there is no X to ask it about; give X or its predictions.")
    answers: Column = baseline.predict(rows.X if is_frame(rows.X) or hasattr(rows.X, "shape") else np.asarray(rows.X))
    return answers


def refuse_class_for_no_decision(abstain: Label, classes: Collection[Label]) -> None:
    """Refuse an answer for rows that are not decided that is one of the classes, or is written like one.

    A file of predictions holds texts: `"1"` for no decision would stand there beside the class 1.

    Raises
    ------
    DataError
    """
    if abstain in classes or str(abstain) in map(str, classes):
        classes_text = ", ".join(map(repr, classes)) + ("" if abstain in classes else "; as it is written")
        raise DataError(
            f"abstain={abstain!r} is one of the classes ({classes_text}); give a label that is none of them."
        )


def with_predictions(
    source: Source, predictions: Column, classes: tuple[Label, ...], *, abstain: Label = None
) -> tuple[Source, Bools | Signs]:
    """A source, and which of its rows are predicted positive; of a classifier that abstains, which are decided.

    Of several classes, in place of that, the number of the class that each row is predicted as.

    Parameters
    ----------
    source : Source
    predictions : array-like of shape (n_rows,)
    classes : (negative, positive), or all of several
        As `ordered_classes` gives them.
    abstain : label, default=None
        What stands for no decision; None: every row is decided. Else the source also says what each row is called.

    Returns
    -------
    source : Source
    positive : ndarray of bool, shape (n_rows,)

    Raises
    ------
    DataError
        If a value is neither class nor `abstain`, or that is one of the classes.
    CapabilityError
        If `abstain` is given, and there are several classes.
    """
    what = "predictions" if source.name is None else f"predictions for external {source.name!r}"
    if abstain is None:
        try:
            codes = encode_labels(predictions, classes, what=what)
        except DataError as error:
            raise DataError(f"{error} An answer that stands for no decision is named by abstain=.") from error
        return source, codes > 0 if len(classes) == 2 else codes
    if len(classes) > 2:
        raise CapabilityError(
            f"abstain={abstain!r} is for two classes, and there are {len(classes)}. Audit the rows that are decided."
        )
    refuse_class_for_no_decision(abstain, classes)
    values = np.array(predictions, dtype=object)  # of a text beside numbers NumPy would make texts of all
    nan = abstain != abstain  # NaN differs from itself, so it is known by that
    decided = np.array([value == value if nan else value != abstain for value in values.ravel()], dtype=np.bool_)
    strange = sorted({str(value) for value in values[decided] if value not in classes}) if values.ndim == 1 else []
    if strange:
        raise DataError(
            f"{what} hold {listing(strange)}, which is neither class {classes} nor abstain={abstain!r}. "
            "Use the labels of y."
        )
    if values.ndim == 1:
        values[~decided] = classes[0]
    return source.that_says(encode_labels(values, classes, what=what)), decided


def view_of(rate: Rate) -> View:
    """What a rate looks for in rows of several classes."""
    decision: Sought = ("class", rate.of)
    if rate.of is None:
        compares = rate.baseline is not None and not rate.definition.needs_label and rate.fact is None
        decision = ("baseline", rate.baseline) if compares else ("label", None)
    return View(rate.population.source, decision, decision if rate.actual is None else ("class", rate.actual))


def sought(source: Source, what: Sought) -> Integers:
    """The number of the class that is looked for in each row of a source, shape (n_rows,); 0 where it is unknown."""
    kind, name = what
    if kind == "class" and name is not None:
        return np.full(source.n_rows, source.number_of(name), np.int16)
    if kind == "baseline":
        return source.baselines[str(name)]
    return np.zeros(source.n_rows, np.int16) if source.labels is None else source.labels


def seen(source: Source, view: View) -> Source:
    """The rows of a view: labels, and what baselines say, as +1 where they are what is looked for, -1, or 0."""
    decision, label = sought(source, view.decision), sought(source, view.label)

    def signs(numbers: Signs, target: Integers) -> Signs:
        return np.where((numbers == 0) | (target == 0), 0, np.where(numbers == target, 1, -1)).astype(np.int8)

    labels = None if source.labels is None else signs(source.labels, label)
    baselines = {name: signs(numbers, decision) for name, numbers in source.baselines.items()}
    return dataclasses.replace(source, view=view, labels=labels, baselines=baselines, whole=source)
