"""Where the rows come from: the training or audited data and the external data sets, with their labels as +1 and -1.

Targets, baseline predictions, labels of external data sets and prediction arrays all pass through `encode_labels`. A
value that is no label is refused, never rounded.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from widemargin._text import listing
from widemargin._typing import Bools, Classifier, Column, Features, Floats, Ints, Label, Signs, Table
from widemargin.exceptions import DataError, GoalWarning, warn
from widemargin.goals.binding.tables import PopulationTable, column_of, is_frame
from widemargin.goals.language.linear import ScoreFact
from widemargin.rows import Rows, is_asked

__all__ = [
    "SAID", "ClassPair", "External", "Repeats", "Source", "encode_labels", "external_data", "find_classes",
    "make_source", "make_sources", "plain_value", "positive_class", "rows_of_source", "with_predictions",
]  # fmt: skip

# (negative, positive) pairs whose alphabetical order is also the order of their meaning
ORDERED_PAIRS = {
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("neg", "pos"), ("negative", "positive"), ("-", "+"),
    ("bad", "good"), ("absent", "present"), ("off", "on"),
}  # fmt: skip

SAID = "(the label it would give)"
"""Among the baselines of a source whose classifier abstains: what each row is called if it is decided.

Whatever else is called a prediction of such a source is then whether the row is decided.
"""

_DECIDE_FIRST = (
    "These look like scores or probabilities: decide them first, such as np.where(p >= 0.5, positive, negative)."
)


class External(Rows):
    """A data set beside the training data: unlabelled traffic, a hand-made example set, last year's rows.

    It is named in the goal by `Population.external(name)` and handed over as `external={name: External(...)}`. It is
    never sliced by cross-validation.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d), or None
        Features. None is enough where predictions are audited and not a model.
    y : array-like of shape (n,), default=None
        Labels; None (or missing values) where they are unknown.
    sample_weight : array-like of shape (n,), default=None
    populations : table with n rows, default=None
        Columns for predicates and baselines; a data frame X is looked up after it.
    **baselines : array-like of shape (n,)
        Predictions of baseline models by name, in y's label space.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.goals import External
    >>> External(np.zeros((3, 2)), deployed=[0, 1, 1])
    External(3 rows, baselines: 'deployed')
    """

    def __init__(
        self,
        X: Features | None,
        y: Column | None = None,
        *,
        sample_weight: Column | None = None,
        populations: Table | None = None,
        **baselines: Column | Classifier,
    ) -> None:
        super().__init__(X, y, sample_weight, populations, baselines=baselines)

    def __repr__(self) -> str:
        parts = [f"{self.n_rows} rows"]
        if self.y is not None:
            parts.append("labelled")
        if self.baselines:
            parts.append(f"baselines: {listing(list(self.baselines))}")
        return f"External({', '.join(parts)})"


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


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """Rows of one origin, ready to be tied to a goal.

    Attributes
    ----------
    name : str or None
        None for the training (or audited) rows, else the name of the external data set.
    labels : ndarray of int8, shape (n_rows,), or None
        +1, -1, or 0 where the label is missing.
    weight : ndarray of float64, shape (n_rows,), or None
        Weights >= 0; None means all ones.
    table : PopulationTable or None
    baselines : mapping of str to ndarray of int8, shape (n_rows,)
        Predictions +1 and -1 of the baseline models.
    n_rows : int
        Entries: rows, or with `repeats` groups of alike ones.
    repeats : Repeats or None
        None: an entry is a row.
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

    def that_says(self, said: Signs) -> "Source":
        """The same rows of a classifier that abstains, with what it would call each, +1 or -1."""
        return dataclasses.replace(self, baselines={**self.baselines, SAID: said})


def make_source(
    rows: Rows, baseline_names: Collection[str] = (), *, classes: tuple[Label, Label], n_rows: int | None = None
) -> Source:
    """Check and encode the rows of one origin.

    Parameters
    ----------
    rows : Rows
        A baseline is looked up among the columns of its `populations` first, then in its `baselines`; predictions are
        in y's label space, classifiers are asked about its X. Labels may be missing in external data sets only.
    baseline_names : collection of str
        Baselines the goal uses here; only these are read.
    classes : (negative, positive)
        As `positive_class` gives them.
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
        _warn_of_indices(rows, title)
    table = PopulationTable.build(rows.populations, rows.X, n_rows=n_rows)
    signs: dict[str, Signs] = {}
    for name in sorted(baseline_names):
        predictions = _predictions_of_baseline(name, rows, table, title)
        signs[name] = encode_labels(predictions, classes, what=f"baseline {name!r}{title}")
    return Source(rows.source, labels, weight, table, signs, n_rows)


def make_sources(
    uses: Mapping[str | None, Collection[str]], rows: Rows, *, classes: tuple[Label, Label]
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


def rows_of_source(rows: Rows, name: str | None) -> Rows:
    """The main rows for None, else an external data set of theirs, which the main rows' classifiers are asked about.

    Raises
    ------
    DataError
        If it was not given, or is no `External`.
    """
    if name is None:
        return rows
    data = external_data(name, rows.external)
    classifiers = {key: value for key, value in rows.baselines.items() if is_asked(value)}
    return data.replaced(source=name, baselines={**classifiers, **data.baselines})


def external_data(name: str, external: Mapping[str, Rows]) -> External:
    """An external data set by name.

    Raises
    ------
    DataError
        If it was not given, or is no `External`.
    """
    if name not in external:
        raise DataError(
            f"the goal measures rates on the external data set {name!r}, which was not given; "
            f"given are {listing(sorted(external))}. Pass external={{{name!r}: External(X)}}."
        )
    data = external[name]
    if not isinstance(data, External):
        raise DataError(f"external[{name!r}] is a {type(data).__name__}; wrap it: External(X, y=None, ...).")
    return data


def _warn_of_indices(rows: Rows, title: str) -> None:
    """Warn where pandas objects have indices that differ from that of X: rows are matched by position."""
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
            f"{' and '.join(strange)}{title} {'have' if several else 'has'} another index than X, and rows are matched "
            f"by position. If the order is the same, give {strange[0]}.reset_index(drop=True) and "
            f"X.reset_index(drop=True); if not, {strange[0]}.reindex(X.index).",
            GoalWarning,
        )


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
            + (f"External(X, {name}=predictions)." if rows.source else f"baselines={{{name!r}: ...}}.")
        )
    baseline = rows.baselines[name]
    if not is_asked(baseline):
        return baseline
    if rows.X is None:
        raise DataError(f"baseline {name!r} is a model, and there is no X to ask it about; give X or its predictions.")
    answers: Column = baseline.predict(rows.X if is_frame(rows.X) or hasattr(rows.X, "shape") else np.asarray(rows.X))
    return answers


def encode_labels(y: Column, classes: tuple[Label, Label], *, what: str = "y", allow_missing: bool = False) -> Signs:
    """Labels as +1 (the positive class) and -1.

    Parameters
    ----------
    y : array-like of shape (n,)
        Values that occur in `classes`.
    classes : (negative, positive)
        As `positive_class` gives them.
    what : str
        What the vector is called in messages.
    allow_missing : bool, default=False
        Encode None and NaN as 0.

    Returns
    -------
    ndarray of int8, shape (n,)

    Raises
    ------
    DataError
        If a value is neither class; the message names the strange values.
    """
    negative, positive = classes
    column = column_of(what, y)
    codes = np.zeros(len(column.values), np.int8)
    if column.kind == "string":
        signs = [int(level == positive) - int(level == negative) for level in column.categories]
        codes = np.array([*signs, 0], np.int8)[column.values]  # the last one is met by the code -1 of a missing value
    elif column.kind != "empty":
        for value, sign in ((negative, -1), (positive, 1)):
            if not isinstance(value, str):
                codes[column.values == value] = sign
    if column.missing is not None:
        codes[column.missing] = 0
        if not allow_missing:
            raise DataError(
                f"{what} has {column.n_missing} missing values of {len(codes)}; leave those rows out or fill them in."
            )
    strange = codes == 0 if column.missing is None else (codes == 0) & ~column.missing
    if strange.any():
        values = column.distinct(strange)
        cure = "Use the labels of y."
        if column.kind == "number" and column.values.dtype.kind == "f" and all(0 <= float(v) <= 1 for v in values):
            cure = _DECIDE_FIRST
        raise DataError(
            f"{what} has {np.count_nonzero(strange)} values that are neither class ({negative!r}, {positive!r}): "
            f"{listing(values)}. {cure}"
        )
    return codes


def with_predictions(
    source: Source, predictions: Column, classes: tuple[Label, Label], *, abstain: Label = None
) -> tuple[Source, Bools]:
    """A source, and which of its rows are predicted positive; of a classifier that abstains, which are decided.

    Parameters
    ----------
    source : Source
    predictions : array-like of shape (n_rows,)
    classes : (negative, positive)
        As `positive_class` gives them.
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
    """
    what = "predictions" if source.name is None else f"predictions for external {source.name!r}"
    if abstain is None:
        return source, encode_labels(predictions, classes, what=what) > 0
    if abstain in classes:
        raise DataError(f"abstain={abstain!r} is one of the classes {classes}; give a label that is none of them.")
    values = np.array(predictions, dtype=object)  # of a text beside numbers NumPy would make texts of all
    decided = np.array([value != abstain for value in values.ravel().tolist()], dtype=np.bool_)
    strange = sorted({str(value) for value in values[decided] if value not in classes}) if values.ndim == 1 else []
    if strange:
        raise DataError(
            f"{what} hold {listing(strange)}, which is neither class {classes} nor abstain={abstain!r}. "
            "Use the labels of y."
        )
    if values.ndim == 1:
        values[~decided] = classes[0]
    return source.that_says(encode_labels(values, classes, what=what)), decided


def find_classes(vectors: Mapping[str, Column], pos_label: Label = None) -> tuple[Label, Label]:
    """The two classes that occur in some vectors of labels, sorted.

    Raises
    ------
    DataError
        If there are more than two, or only one and `pos_label` does not name another.
    """
    classes: set[Any] = set()
    for what, values in vectors.items():
        distinct = column_of(what, values).distinct()
        if any(isinstance(value, float) and not value.is_integer() for value in distinct):
            raise DataError(f"Unknown label type: continuous. {what} holds {listing(distinct, 5)}. {_DECIDE_FIRST}")
        classes.update(distinct)
    if len(classes) == 1 and pos_label is not None:
        classes.add(plain_value(pos_label))
    if len({isinstance(value, str) for value in classes}) > 1:
        raise DataError(
            f"{' and '.join(vectors)} mix strings and numbers as labels: {listing(sorted(classes, key=str))}."
        )
    if len(classes) > 2:
        raise DataError(
            "Only binary classification is supported. The type of the target is multiclass. "
            f"Found {len(classes)} classes in {', '.join(vectors)}: {listing(sorted(classes))}."
        )
    if len(classes) < 2:
        raise DataError(
            f"{' and '.join(vectors)} hold only the class {listing(sorted(classes))}; "
            "give y with both classes, or a model with classes_, so that the positive class is known."
        )
    low, high = sorted(classes)
    return low, high


def positive_class(classes: Sequence[Label], pos_label: Label = None) -> tuple[Label, Label]:
    """The pair (negative, positive) of two classes.

    Warns where `pos_label` is None and the classes are strings whose order says nothing about their meaning.

    Raises
    ------
    DataError
        If there are not two classes, or `pos_label` is none of them.
    """
    pair = list(map(plain_value, classes))
    if len(pair) > 2:
        raise DataError(
            "Only binary classification is supported. The type of the target is multiclass. "
            f"Found {len(pair)} classes: {listing(pair)}."
        )
    if len(pair) < 2:
        raise DataError(f"two classes are needed and there is {len(pair)}: {listing(pair)}.")
    if pos_label is None:
        if isinstance(pair[0], str) and not _has_order(pair[0], str(pair[1])):
            warn(
                f"{pair[1]!r} is taken as the positive class, because it comes last in {listing(pair)}; "
                "set pos_label to choose.",
                GoalWarning,
            )
        return pair[0], pair[1]
    wanted = plain_value(pos_label)
    if wanted not in pair:
        raise DataError(f"pos_label={wanted!r} is none of the classes {listing(pair)}.")
    positive = pair[pair.index(wanted)]
    return pair[1 - pair.index(wanted)], positive


def _has_order(negative: str, positive: str) -> bool:
    """Whether two strings say by themselves which is the positive one: known words, numbers, or < against >."""
    low, high = negative.strip().casefold(), positive.strip().casefold()
    if (low, high) in ORDERED_PAIRS or (low.startswith("<") and high.startswith(">")):
        return True
    try:
        return float(low) < float(high)
    except ValueError:
        return low in {f"not {high}", f"non-{high}", f"no {high}"}


def plain_value(label: Label) -> Label:
    """A NumPy scalar as Python's own."""
    return label.item() if isinstance(label, np.generic) else label


class ClassPair:
    """The two classes of rows that come in blocks: the positive one is known, the negative one shows itself.

    Parameters
    ----------
    classes : sequence of two labels or None
    pos_label : label or None
        None: the second of `classes`.

    Attributes
    ----------
    positive : label
    negative : label or None

    Raises
    ------
    DataError
        If neither is given, or they do not fit together.
    """

    def __init__(self, classes: Sequence[Label] | None, pos_label: Label) -> None:
        self.positive: Label = plain_value(pos_label)
        self.negative: Label = None
        if classes is not None:
            self.negative, self.positive = positive_class(classes, pos_label)
        elif pos_label is None:
            raise DataError("the positive class is unknown; give classes=(negative, positive) or pos_label=.")

    def learn(self, vectors: Mapping[str, Column]) -> tuple[Label, Label]:
        """The pair (negative, positive), after a look at vectors of labels where the negative class is unknown.

        As long as every row is positive, something that is no label of theirs stands for the negative class.
        """
        if self.negative is None:
            shown = {value for values in vectors.values() for value in column_of("labels", values).distinct()}
            if shown - {self.positive}:
                low, high = find_classes({**vectors, "pos_label": [self.positive]})
                self.negative = low if high == self.positive else high
        if self.negative is not None:
            return self.negative, self.positive
        return (f"not {self.positive}" if isinstance(self.positive, str) else not self.positive), self.positive

    def join(self, other: "ClassPair") -> None:
        """Take in what another pair has learned from other rows.

        Raises
        ------
        DataError
            If they are different pairs.
        """
        same = type(other.positive) is type(self.positive) and other.positive == self.positive
        if not same or (None not in (self.negative, other.negative) and self.negative != other.negative):
            raise DataError(
                f"counts of the classes {self.negative!r}, {self.positive!r} and {other.negative!r}, "
                f"{other.positive!r} cannot be merged. Give both the same classes."
            )
        self.negative = other.negative if self.negative is None else self.negative
