"""Labels and the classes that they are: found, put in order, encoded as numbers; a strange one is never rounded.

Targets, baseline predictions, labels of external data sets and prediction arrays all pass through `encode_labels`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from widemargin._text import listing
from widemargin._typing import Column, Label, Signs
from widemargin.exceptions import DataError, GoalWarning, warn
from widemargin.goals.binding.tables import column_of
from widemargin.goals.language.goal import Goal

__all__ = [
    "ClassPair",
    "encode_labels",
    "find_classes",
    "innermost",
    "ordered_classes",
    "plain_labels",
    "plain_value",
    "positive_class",
]

# (negative, positive) pairs whose alphabetical order is also the order of their meaning
ORDERED_PAIRS = {
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("neg", "pos"), ("negative", "positive"), ("-", "+"),
    ("bad", "good"), ("absent", "present"), ("off", "on"),
}  # fmt: skip

_DECIDE_FIRST = (
    "These look like scores or probabilities: decide them first, such as np.where(p >= 0.5, positive, negative)."
)


def innermost(model: Any) -> Any:
    """The classifier inside searches and pipelines, whose scores, classes and settings theirs are."""
    while hasattr(model, "best_estimator_") or hasattr(model, "steps"):
        model = model.best_estimator_ if hasattr(model, "best_estimator_") else model.steps[-1][1]
    return model


def encode_labels(y: Column, classes: tuple[Label, ...], *, what: str = "y", allow_missing: bool = False) -> Signs:
    """Labels as +1 (the positive class) and -1, those of several classes as their numbers from 1 on.

    Parameters
    ----------
    y : array-like of shape (n,)
        Values that occur in `classes`.
    classes : (negative, positive), or all of several
        As `ordered_classes` gives them.
    what : str
        What the vector is called in messages.
    allow_missing : bool, default=False
        Encode None and NaN as 0.

    Returns
    -------
    ndarray of int8 or int16, shape (n,)

    Raises
    ------
    DataError
        If a value is no class; the message names the strange values.
    """
    code = dict(zip(classes, (-1, 1) if len(classes) == 2 else range(1, len(classes) + 1), strict=True))
    kind: type[np.signedinteger[Any]] = np.int8 if len(classes) == 2 else np.int16
    column = column_of(what, y)
    codes: Signs = np.zeros(len(column.values), kind)
    if column.kind == "string":
        # the last one is met by the code -1 of a missing value
        codes = np.array([*(code.get(level, 0) for level in column.categories), 0], kind)[column.values]
    elif column.kind != "empty":
        for value, number in code.items():
            if not isinstance(value, str):
                codes[column.values == value] = number
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
        shown = f"neither class ({', '.join(map(repr, classes))})"
        if len(classes) > 2:
            shown = f"none of the classes {listing(classes)}"
            if what.startswith("y"):
                cure = "Leave these rows out, or give predictions in place of a classifier that does not know them."
        raise DataError(f"{what} has {np.count_nonzero(strange)} values that are {shown}: {listing(values)}. {cure}")
    return codes


def plain_labels(y: Column | None) -> Column | None:
    """Labels to learn from or to measure by, of one type and none missing.

    Booleans and numbers in an array of objects, as a column that had missing values keeps them, get their own type.

    Raises
    ------
    DataError
    """
    array = np.asarray(y)
    n_missing = 0
    read: Column | None = y
    if array.dtype.kind == "f":
        n_missing = int(np.count_nonzero(np.isnan(array)))
    elif y is not None and array.dtype.kind == "O" and array.ndim == 1:
        column = column_of("y", y)
        n_missing = column.n_missing
        if column.kind in ("boolean", "number"):
            read = column.values
    if n_missing:
        raise DataError(f"{n_missing} of {array.size} labels are missing; leave those rows out.")
    return read


def find_classes(vectors: Mapping[str, Column], pos_label: Label = None) -> tuple[Label, ...]:
    """The classes that occur in some vectors of labels, sorted.

    Raises
    ------
    DataError
        If there is only one and no `pos_label`.
    """
    classes: set[Any] = set()
    for what, values in vectors.items():
        distinct = column_of(what, values).distinct()
        if any(isinstance(value, float) and not value.is_integer() for value in distinct):
            raise DataError(f"Unknown label type: continuous. {what} holds {listing(distinct, 5)}. {_DECIDE_FIRST}")
        classes.update(distinct)
    if len(classes) == 1 and pos_label is not None:
        positive = plain_value(pos_label)
        classes.add(_any_other(positive) if positive in classes else positive)
    if len({isinstance(value, str) for value in classes}) > 1:
        raise DataError(
            f"{' and '.join(vectors)} mix strings and numbers as labels: {listing(sorted(classes, key=str))}."
        )
    if len(classes) < 2:
        named = " and ".join(vectors)
        found = f"{named} hold only the class {listing(sorted(classes))}" if classes else f"{named} hold no label"
        raise DataError(f"{found}; give y with both classes, pos_label=, or a model with classes_.")
    return tuple(sorted(classes))


def _any_other(label: Label) -> Label:
    """What stands for the other class where rows show one only."""
    return f"not {label}" if isinstance(label, str) else not label


def ordered_classes(classes: Sequence[Label], pos_label: Label = None, goal: Goal | None = None) -> tuple[Label, ...]:
    """The pair (negative, positive) of two classes; more of them as they are.

    Where a goal names every class that it speaks of, nothing hangs on which of two is the positive one.

    Raises
    ------
    DataError
        As `positive_class`; if there are several classes and `pos_label` is given.
    """
    if len(classes) <= 2:
        if pos_label is None and goal is not None and not goal.needs_positive_class:
            pos_label = classes[-1]
        return positive_class(classes, pos_label)
    if pos_label is not None:
        raise DataError(
            f"pos_label={pos_label!r} is for two classes, and there are {len(classes)}: {listing(classes)}. Leave it "
            f"out, and name the class in the rates: recall(of={pos_label!r})."
        )
    return tuple(map(plain_value, classes))


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
        numbered = (
            " Votes, stacks and bags of scikit-learn, and cross_val_predict of scores, number the classes from 0 on "
            "before they call fit: encode y yourself, and name the positive class by its number."
        ) * (pair == [0, 1])
        raise DataError(f"pos_label={wanted!r} is none of the classes {listing(pair)}.{numbered}")
    place = pair.index(wanted)
    return pair[1 - place], pair[place]


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
    """The classes of rows that come in blocks: of two the positive one is known, the negative one shows itself.

    Parameters
    ----------
    pos_label : label or None
        None: the second of two `classes`.
    goal : Goal or None
        Which may name every class that it speaks of.

    Attributes
    ----------
    positive, negative : label or None
        Of two classes.
    several : tuple of labels or None
        All of more than two.

    Raises
    ------
    DataError
        If neither is given, or they do not fit together.
    """

    def __init__(self, classes: Sequence[Label] | None, pos_label: Label, goal: Goal | None = None) -> None:
        self.positive: Label = plain_value(pos_label)
        self.negative: Label = None
        self.several: tuple[Label, ...] | None = None
        known = () if classes is None else ordered_classes(classes, pos_label, goal)
        if len(known) > 2:
            self.several = known
        elif known:
            self.negative, self.positive = known
        elif pos_label is None:
            raise DataError("the positive class is unknown; give classes=(negative, positive) or pos_label=.")

    @property
    def known(self) -> tuple[Label, ...]:
        """(negative, positive), or all of several."""
        return self.several or (self.negative, self.positive)

    def learn(self, vectors: Mapping[str, Column]) -> tuple[Label, ...]:
        """The pair (negative, positive), after a look at vectors of labels where the negative class is unknown.

        As long as every row is positive, something that is no label of theirs stands for the negative class. Several
        classes are all known from the start.
        """
        if self.several is not None:
            return self.several
        if self.negative is None:
            shown = {value for values in vectors.values() for value in column_of("labels", values).distinct()}
            if shown - {self.positive}:
                self.negative = positive_class(find_classes({**vectors, "pos_label": [self.positive]}), self.positive)[
                    0
                ]
        if self.negative is not None:
            return self.negative, self.positive
        return _any_other(self.positive), self.positive

    def join(self, other: "ClassPair") -> None:
        """Take in what another pair has learned from other rows.

        Raises
        ------
        DataError
            If they are different pairs.
        """
        same = type(other.positive) is type(self.positive) and other.positive == self.positive
        same = same and self.several == other.several
        if not same or (None not in (self.negative, other.negative) and self.negative != other.negative):
            raise DataError(
                f"counts of the classes {self.negative!r}, {self.positive!r} and {other.negative!r}, "
                f"{other.positive!r} cannot be merged. Give both the same classes."
            )
        self.negative = other.negative if self.negative is None else self.negative
