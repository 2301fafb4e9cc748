"""Rows whose labels are probably wrong: margins that stay negative over folds, `label_suspects`."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._text import aligned, html_report, pandas_for_frames, printable
from widemargin._typing import Bools, Classifier, Column, Features, Floats, Ints, Label
from widemargin.diagnostics.margins import against_rivals, margins_of
from widemargin.exceptions import DataError
from widemargin.goals.binding.labels import plain_labels, plain_value
from widemargin.rows import length_of, take


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A row whose label the other rows speak against.

    Attributes
    ----------
    row : int
        Counted from 0.
    label, other : label
        The row's own, and the one that its score is largest for.
    margin : float
        Its mean over the repeats, see `LabelSuspects`.
    """

    row: int
    label: Label
    other: Label
    margin: float


@dataclasses.dataclass(frozen=True, eq=False)
class LabelSuspects:
    """Labels that are probably wrong, the surest first. `print`, `.to_frame()`; notebooks show a table.

    Attributes
    ----------
    ranking : ndarray of int64, shape (n,)
        All rows, the most suspicious first.
    margin : ndarray of shape (n,)
        Of each row by models that did not see it, a mean over the repeats: the log odds of its label where the
        classifier gives probabilities, else its margin.
    suspects : tuple of Suspect
        The rows whose margin is negative in all repeats, in the order of the ranking.
    """

    ranking: Ints
    margin: Floats
    suspects: tuple[Suspect, ...]

    def __str__(self) -> str:
        shown = self.suspects[:20]
        more = f"... and {len(self.suspects) - 20} more in suspects." if len(self.suspects) > 20 else ""
        return "\n".join([self._headline(), "", *aligned(self._table(shown)), *([more] if more else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_report(self._headline(), [self._table(self.suspects[:20])])

    def to_frame(self) -> Any:
        """The suspects as a pandas DataFrame, indexed by row.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        columns = [field.name for field in dataclasses.fields(Suspect)]
        rows = [dataclasses.astuple(item) for item in self.suspects]
        return pandas_for_frames().DataFrame(rows, columns=columns).set_index("row")

    def _headline(self) -> str:
        return f"{len(self.suspects)} of {len(self.ranking)} labels are suspects: models that never saw them disagree."

    @staticmethod
    def _table(suspects: tuple[Suspect, ...]) -> list[list[str]]:
        head = ["row", "label", "other", "margin"]
        rows = [[str(item.row), str(item.label), str(item.other), f"{item.margin:.3f}"] for item in suspects]
        return [head, *(list(map(printable, row)) for row in rows)]


def label_suspects(
    estimator: Classifier,
    X: Features,
    y: Column,
    *,
    folds: int = 5,
    repeats: int = 3,
    random_state: int | np.random.RandomState | None = None,
) -> LabelSuspects:
    """Rank rows by how clearly models that did not see them speak against their labels.

    In each repeat the rows are cut into folds. The margins of a fold come from a clone of the estimator that learned
    from the other folds. A row whose margin is negative in every repeat is a suspect. Rows are ranked by the mean of
    their margins. For two classes cleanlab's "normalized margin" ranks by the same scores.

    Parameters
    ----------
    estimator : classifier
        Clones of it are fitted, `folds * repeats` of them.
    X : array-like, data frame or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    folds : int, default=5
    repeats : int, default=3
        More repeats average out which rows were learned from.
    random_state : int, RandomState or None, default=None
        Of the folds.

    Returns
    -------
    LabelSuspects

    Raises
    ------
    DataError
        If a class has fewer rows than there are folds, or the estimator gives no scores.

    Notes
    -----
    A suspect may be a rare row that is labelled rightly: have it looked at before you delete it. Where a model is wrong
    about every third row, most suspects are its own errors.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from widemargin import label_suspects
    >>> X = np.linspace(-2, 2, 40)[:, None]
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[3] = 1
    >>> found = label_suspects(LogisticRegression(), X, y, random_state=0)
    >>> found.suspects[0].row
    3
    """
    labels = np.asarray(plain_labels(y))
    if labels.ndim != 1 or length_of(X) != len(labels):
        raise DataError(f"X has {length_of(X)} rows and y the shape {labels.shape}; give one label per row.")
    classes, counts = np.unique(labels, return_counts=True)
    if folds < 2 or repeats < 1 or len(classes) < 2 or counts.min() < folds:
        raise DataError(
            f"folds={folds} and repeats={repeats} need at least 2 folds, 1 repeat, and {folds} rows of each of two "
            f"classes or more; the smallest of {len(classes)} has {counts.min()}."
        )
    from sklearn.model_selection import StratifiedKFold  # slow to import, and not needed by other diagnostics
    from sklearn.utils import check_random_state

    rng = check_random_state(random_state)
    cuts = [
        list(StratifiedKFold(folds, shuffle=True, random_state=rng.randint(2**31 - 1)).split(labels, labels))
        for _ in range(repeats)
    ]
    margin, suspect, other = _judged(estimator, X, labels, cuts)
    ranking = np.argsort(margin, kind="stable")
    found = tuple(
        Suspect(int(row), plain_value(labels[row]), plain_value(other[row]), float(margin[row]))
        for row in ranking
        if suspect[row]
    )
    return LabelSuspects(ranking.astype(np.int64), margin, found)


def _judged(
    estimator: Classifier, X: Features, labels: Any, cuts: list[list[tuple[Ints, Ints]]]
) -> tuple[Floats, Bools, npt.NDArray[Any]]:
    """Rows by models that did not see them: mean margins, whether all were negative, the likeliest label."""
    from sklearn.base import clone

    n = len(labels)
    total, suspect = np.zeros(n), np.ones(n, dtype=np.bool_)
    other = labels.copy()
    has_odds = hasattr(estimator, "predict_proba")
    for cut in cuts:
        for training, aside in cut:
            model = clone(estimator).fit(take(X, training), labels[training])
            rows = take(X, aside)
            if has_odds:
                probability = np.asarray(model.predict_proba(rows), dtype=np.float64)
                margins, rival = against_rivals(probability, labels[aside], model.classes_)
                value, negative = probability[np.arange(len(aside)), rival[:, 0]], margins < 0.0
            else:
                value = margins_of(model, rows, labels[aside]).values
                negative = value < 0.0
            total[aside] += value
            suspect[aside] &= negative
            other[aside] = np.where(negative, model.predict(rows), other[aside])
    mean = total / len(cuts)
    if has_odds:  # a probability that is 1 or 0 up to rounding has finite odds
        mean = np.log(np.maximum(mean, 1e-300)) - np.log(np.maximum(1.0 - mean, 1e-16))
    return mean, suspect, other
