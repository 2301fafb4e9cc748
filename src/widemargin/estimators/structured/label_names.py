"""Label sets as users write them: 0/1 matrices, names row by row, and entries that nobody has looked at; their scorers.

The scorers are for `scoring=` of scikit-learn's searches and of `structural_search`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.metrics import average_precision_score, hamming_loss, make_scorer

from widemargin._typing import ArrayLike, Bools, Features, Floats, Ints
from widemargin.exceptions import DataError
from widemargin.structured.learners.problem import example_weights
from widemargin.structured.models.base import indicator


class GivenSets(NamedTuple):
    """Label sets that were read.

    Attributes
    ----------
    sets : ndarray of shape (n, k)
        0 or 1; 0 where nobody has looked.
    missing : ndarray of bool of shape (n, k), or None
        Where nobody has looked; None where everything is known.
    classes : ndarray of shape (k,)
        Names of the columns, or their numbers.
    named : bool
        Whether the rows were given by names.
    """

    sets: Ints
    missing: Bools | None
    classes: npt.NDArray[Any]
    named: bool


def read_label_sets(y: Features | Sequence[Iterable[str]], classes: Sequence[Any] | None = None) -> GivenSets:
    """Read a matrix of 0, 1 and, where nobody has looked, -1 or NaN; or the names of the labels of every row.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, k), or sequence of n collections of str
    classes : sequence, default=None
        The names there are, in their order; by default those that occur, sorted.

    Raises
    ------
    DataError
        If y is neither, or has a name that is not one of the classes.
    """
    matrix: Any = y
    is_matrix = sparse.issparse(matrix) or getattr(matrix, "ndim", 1) != 1 or not isinstance(matrix, Iterable)
    collections = [] if is_matrix else list(matrix)
    are_collections = all(isinstance(row, (list, tuple, set, frozenset)) for row in collections)
    if are_collections and any(isinstance(entry, str) for row in collections for entry in row):
        rows: list[list[Any]] = [list(row) for row in collections]
        other = next((name for row in rows for name in row if not isinstance(name, str)), None)
        if classes is None and other is not None:
            raise DataError(f"y has the label {other!r}, which is no text: names of labels are strings.")
        known = sorted({name for row in rows for name in row}) if classes is None else list(classes)
        place = {name: column for column, name in enumerate(known)}
        sets = np.zeros((len(rows), len(known)), dtype=np.int64)
        for i, row in enumerate(rows):
            unknown = [name for name in row if name not in place]
            if unknown:
                raise DataError(f"row {i} of y has the label {unknown[0]!r}, which is none of the {len(known)} known.")
            sets[i, [place[name] for name in row]] = 1
        return GivenSets(sets, None, np.asarray(known), named=True)
    if sparse.issparse(matrix):
        return GivenSets(indicator(matrix), None, np.arange(matrix.shape[1]), named=False)
    try:
        table: npt.NDArray[Any] = np.asarray(matrix)
    except ValueError:
        raise DataError(
            "the rows of y have different lengths: give a 0/1 matrix, a column per label, or a list of names, as "
            "strings, for each row."
        ) from None
    if table.ndim != 2:
        raise DataError(
            f"y has {table.ndim} dimension(s): give a 0/1 matrix, a column per label, or a list of names for each row."
        )
    if table.dtype == object:  # of frames: a missing value is no number, and compares with nothing
        marks = [nothing(entry) or (isinstance(entry, (int, float, np.number)) and entry == -1) for entry in table.flat]
        missing = np.array(marks, dtype=bool).reshape(table.shape)
    else:
        missing = (
            np.isnan(table) | (table == -1) if np.issubdtype(table.dtype, np.number) else np.zeros(table.shape, bool)
        )
    if missing.all() and missing.size:
        raise DataError("y holds nothing but NaN or -1: somebody has to have looked at some label.")
    sets = indicator(np.where(missing, 0, table) if missing.any() else table)
    names = np.asarray(getattr(matrix, "columns", np.arange(sets.shape[1])))
    return GivenSets(sets, missing if missing.any() else None, names, named=False)


def nothing(entry: object) -> bool:
    """Whether an entry of a frame or list is a missing value."""
    if entry is None or type(entry).__name__ == "NAType":
        return True
    return isinstance(entry, (float, np.floating)) and bool(np.isnan(entry))


def _matrix(y: ArrayLike) -> tuple[Ints, Bools | None]:
    """Label sets as 0 and 1, and where nobody has looked."""
    given = read_label_sets(y)
    if given.named:
        raise DataError(
            "y has names, and scorers do not know the columns of the predictions: train and score with a 0/1 matrix "
            "(scikit-learn's MultiLabelBinarizer makes one), or use the estimator's own `score`."
        )
    return given.sets, given.missing


def _known(y: ArrayLike) -> Ints:
    """The same where everything is known."""
    sets, missing = _matrix(y)
    if missing is not None:
        raise DataError("some labels of y are unknown (-1 or NaN): only the scorer 'jaccard' leaves them out.")
    return sets


def _predicted(sets: ArrayLike, truth: Ints) -> Ints:
    """Predicted sets, of as many labels: NumPy would compare a single column of y with every column of them."""
    found = indicator(sets)
    if found.shape != truth.shape:
        raise DataError(
            f"y has {truth.shape[1]} labels for {truth.shape[0]} rows, the predictions have {found.shape[1]} for "
            f"{found.shape[0]}: give the labels that the model was trained on, one row each."
        )
    return found


def _share_wrong(y: ArrayLike, predicted: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    truth = _known(y)
    return float(hamming_loss(truth, _predicted(predicted, truth), sample_weight=sample_weight))


def _f1(
    y: ArrayLike, predicted: ArrayLike, axis: int | None, empty: float, sample_weight: ArrayLike | None = None
) -> float:
    """F1 over all decisions (axis None), or the mean of those of the labels (0) or of the examples (1).

    scikit-learn's `f1_score` takes a single label for a vector of two classes, of which both count.
    """
    truth = _known(y)
    found, weight = _predicted(predicted, truth), example_weights(sample_weight, len(truth))[:, None]
    both, sizes = ((weight * counted).sum(axis=axis) for counted in (truth & found, truth + found))
    of_each = np.where(sizes > 0.0, 2.0 * both / np.maximum(sizes, 1e-300), empty)
    return _mean(of_each, sample_weight) if axis == 1 else float(np.mean(of_each))


def example_jaccard(y: ArrayLike, predicted: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Mean over the examples of |both| / |either|; 1 where both sets are empty. A single column is a set too.

    Parameters
    ----------
    y, predicted : array-like or sparse matrix of shape (n, k)
        0 or 1; of y, -1 or NaN where nobody has looked, which counts for neither set.
    sample_weight : array-like of shape (n,), default=None
    """
    truth, missing = _matrix(y)
    found = _predicted(predicted, truth)
    if missing is not None:
        found = np.where(missing, 0, found)
    both, either = (truth & found).sum(axis=1), (truth | found).sum(axis=1)
    return _mean(np.where(either > 0, both / np.maximum(either, 1), 1.0), sample_weight)


def _mean(of_examples: Floats, sample_weight: ArrayLike | None) -> float:
    return float(np.average(of_examples, weights=example_weights(sample_weight, len(of_examples))))


def au_prc(y: ArrayLike, scores: Floats, sample_weight: ArrayLike | None = None) -> float:
    """Average precision of all decisions together; infinite scores, of nodes that no path or every one has, are ends.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, k)
        0 or 1.
    scores : ndarray of shape (n, k)
    sample_weight : array-like of shape (n,), default=None
    """
    truth, ranks = _known(y), np.nan_to_num(scores)
    return float(average_precision_score(truth, ranks, average="micro", sample_weight=sample_weight))


def precision_at(y: ArrayLike, scores: Floats, most: int, sample_weight: ArrayLike | None = None) -> float:
    """Mean share of the right ones among the `most` labels of largest score; of all labels where there are fewer.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, k)
        0 or 1.
    scores : ndarray of shape (n, k)
    sample_weight : array-like of shape (n,), default=None
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :most]
    return _mean(np.take_along_axis(_known(y), best, axis=1).mean(axis=1), sample_weight)


_RANKED_BY = ("predict_proba", "decision_function")
"""What ranks labels: probabilities where an estimator has some."""

label_set_scorers: dict[str, Any] = {
    "jaccard": make_scorer(example_jaccard),
    "hamming": make_scorer(_share_wrong, greater_is_better=False),
    "micro_f1": make_scorer(_f1, axis=None, empty=0.0),
    "macro_f1": make_scorer(_f1, axis=0, empty=0.0),
    "example_f1": make_scorer(_f1, axis=1, empty=1.0),
    "au_prc": make_scorer(au_prc, response_method=_RANKED_BY),
    "precision_at_1": make_scorer(precision_at, most=1, response_method=_RANKED_BY),
    "precision_at_3": make_scorer(precision_at, most=3, response_method=_RANKED_BY),
    "precision_at_5": make_scorer(precision_at, most=5, response_method=_RANKED_BY),
}
"""For `scoring=` of scikit-learn's searches and of `structural_search`, one of them or all. With metadata routing
they take `sample_weight`: a weight of 2 is the example twice.

"jaccard"
    Mean over the examples of |both| / |either| (the papers' Acc); 1 for an empty set that is predicted to be empty.
"hamming"
    Minus the share of wrong labels.
"micro_f1", "macro_f1"
    F1 over all decisions; mean over the labels, 0 for a label that is never there and never predicted.
"example_f1"
    Mean of F1 over the examples; 1 for an empty set that is predicted to be empty.
"au_prc"
    Area under the precision-recall curve of all decisions together, ranked by `predict_proba`, with `calibration`, else
    by `decision_function` (AU(PRC) of Vens et al. 2008, by average precision, without interpolation).
"precision_at_1", "precision_at_3", "precision_at_5"
    Mean share of the right ones among so many labels of largest probability or `decision_function`.
"""
