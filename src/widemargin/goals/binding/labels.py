"""From the user's labels to +1 and -1, and nothing else: a value that is no label is refused, never rounded.

Targets, baseline predictions, labels of external data sets and prediction arrays all pass through here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from widemargin._typing import Bools, Column, Label, Signs
from widemargin.exceptions import DataError, GoalWarning
from widemargin.goals._warn import warn
from widemargin.goals.binding.columns import TableColumn, column_from_arrow, column_from_values, listing

__all__ = ["ClassPair", "column_of", "encode_labels", "find_classes", "plain_value", "positive_class"]

# (negative, positive) pairs whose alphabetical order is also the order of their meaning
ORDERED_PAIRS = {
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("neg", "pos"), ("negative", "positive"), ("-", "+"),
    ("bad", "good"), ("absent", "present"), ("off", "on"),
}  # fmt: skip

_DECIDE_FIRST = (
    "These look like scores or probabilities: decide them first, such as np.where(p >= 0.5, positive, negative)."
)


def column_of(what: str, values: Column) -> TableColumn:
    """Read a vector: array, list, or a pandas, polars or pyarrow series.

    Raises
    ------
    DataError
        If it is not one-dimensional, or of mixed types.
    """
    series: Any = values if nw.dependencies.is_into_series(values) else None
    if series is not None:
        try:
            return column_from_arrow(what, nw.from_native(series, series_only=True).to_arrow())
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # objects of several kinds, which are looked at one by one
    try:
        # as objects, because NumPy would turn [1, "a"] into two strings
        array = np.asarray(values, object if series is not None or isinstance(values, list | tuple) else None)
    except ValueError:
        raise DataError(f"{what} is a list of lists of different lengths; give one value per row.") from None
    if array.ndim != 1:
        raise DataError(
            f"{what} has shape {array.shape}; give a vector with one value per row, for example by .ravel()."
        )
    return column_from_values(what, array)


def encode_labels(
    y: Column, classes: Sequence[Label], pos_label: Label = None, *, what: str = "y", allow_missing: bool = False
) -> Signs:
    """Labels as +1 (the positive class) and -1.

    Parameters
    ----------
    y : array-like of shape (n,)
        Values that occur in `classes`.
    classes : sequence of two labels
        As in `classes_`.
    pos_label : label, default=None
        None means `classes[1]`.
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
    negative, positive = positive_class(classes, pos_label, warn_order=False)
    column = column_of(what, y)
    codes = _codes(column, negative, positive)
    missing = np.zeros(len(codes), bool) if column.missing is None else column.missing
    if missing.any():
        codes[missing] = 0
        if not allow_missing:
            raise DataError(
                f"{what} has {column.n_missing} missing values of {len(codes)}; leave those rows out or fill them in."
            )
    strange = (codes == 0) & ~missing
    if strange.any():
        raise DataError(_strange(column, strange, what, (negative, positive)))
    return codes


def _codes(column: TableColumn, negative: Label, positive: Label) -> Signs:
    if column.kind == "empty":
        return np.zeros(len(column.values), np.int8)
    if column.kind == "string":
        table = np.zeros(len(column.categories) + 1, np.int8)  # the last entry is met by the code -1 of a missing value
        for code, level in enumerate(column.categories):
            table[code] = int(level == positive) - int(level == negative)
        return np.asarray(table[column.values])
    codes = np.zeros(len(column.values), np.int8)
    for value, sign in ((negative, -1), (positive, 1)):
        if not isinstance(value, str):
            codes[column.values == value] = sign
    return codes


def _strange(column: TableColumn, strange: Bools, what: str, classes: tuple[Label, Label]) -> str:
    values = column.distinct(strange)
    number = int(np.count_nonzero(strange))
    cure = "Use the labels of y."
    if column.kind == "number" and column.values.dtype.kind == "f" and all(0 <= float(v) <= 1 for v in values):
        cure = _DECIDE_FIRST
    return (
        f"{what} has {number} values that are neither class ({classes[0]!r}, {classes[1]!r}): {listing(values)}. {cure}"
    )


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


def positive_class(
    classes: Sequence[Label], pos_label: Label = None, *, warn_order: bool = True
) -> tuple[Label, Label]:
    """The pair (negative, positive) of two classes.

    Parameters
    ----------
    warn_order : bool, default=True
        Warn where `pos_label` is None and the classes are strings whose order says nothing about their meaning.

    Raises
    ------
    DataError
        If there are not two classes, or `pos_label` is none of them.
    """
    pair = [plain_value(value) for value in classes]
    if len(pair) > 2:
        raise DataError(
            "Only binary classification is supported. The type of the target is multiclass. "
            f"Found {len(pair)} classes: {listing(pair)}."
        )
    if len(pair) < 2:
        raise DataError(f"two classes are needed and there is {len(pair)}: {listing(pair)}.")
    if pos_label is None:
        if warn_order and isinstance(pair[0], str) and not _has_order(pair[0], str(pair[1])):
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
