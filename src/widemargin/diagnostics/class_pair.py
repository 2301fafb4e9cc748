"""The two classes of rows that come in blocks: the positive one is known, the negative one shows itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from widemargin.exceptions import DataError
from widemargin.goals.binding.labels import column_of, find_classes, positive_class

__all__ = ["ClassPair"]


class ClassPair:
    """A pair of classes whose negative one may still be unknown.

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

    def __init__(self, classes: Sequence[Any] | None, pos_label: Any) -> None:
        self.positive: Any = pos_label.item() if isinstance(pos_label, np.generic) else pos_label
        self.negative: Any = None
        if classes is not None:
            self.negative, self.positive = positive_class(classes, pos_label)
        elif pos_label is None:
            raise DataError("the positive class is unknown; give classes=(negative, positive) or pos_label=.")

    def learn(self, vectors: Mapping[str, Any]) -> tuple[Any, Any]:
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
