"""Scorers of label sets, for `scoring=` of scikit-learn's searches and of `structural_search`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, f1_score, hamming_loss, make_scorer

from widemargin._typing import Bools, Floats, Ints
from widemargin.estimators.structured.label_names import read_label_sets
from widemargin.exceptions import DataError
from widemargin.structured.learners.problem import example_weights
from widemargin.structured.models.base import indicator

__all__ = ["au_prc", "example_jaccard", "label_set_scorers", "precision_at"]


def _matrix(y: npt.ArrayLike) -> tuple[Ints, Bools | None]:
    """Label sets as 0 and 1, and where nobody has looked."""
    given = read_label_sets(y)
    if given.named:
        raise DataError(
            "y has names, and scorers do not know the columns of the predictions: train and score with a 0/1 matrix "
            "(scikit-learn's MultiLabelBinarizer makes one), or use the estimator's own `score`."
        )
    return given.sets, given.missing


def _known(y: npt.ArrayLike) -> Ints:
    """The same where everything is known."""
    sets, missing = _matrix(y)
    if missing is not None:
        raise DataError("nobody has looked at some labels of y: only the scorer 'jaccard' leaves them out.")
    return sets


def _of_sets(
    y: npt.ArrayLike, predicted: npt.ArrayLike, measure: Callable[..., float],
    sample_weight: npt.ArrayLike | None = None, **how: Any,
) -> float:  # fmt: skip
    """One of scikit-learn's measures."""
    return measure(_known(y), indicator(predicted), sample_weight=sample_weight, **how)


def example_jaccard(y: npt.ArrayLike, predicted: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
    """Mean over the examples of |both| / |either|; 1 where both sets are empty. A single column is a set too.

    Parameters
    ----------
    y, predicted : array-like or sparse matrix of shape (n, k)
        0 or 1; of y, -1 or NaN where nobody has looked, which counts for neither set.
    sample_weight : array-like of shape (n,), default=None
    """
    (truth, missing), found = _matrix(y), indicator(predicted)
    if missing is not None:
        found = np.where(missing, 0, found)
    both, either = (truth & found).sum(axis=1), (truth | found).sum(axis=1)
    return _mean(np.where(either > 0, both / np.maximum(either, 1), 1.0), sample_weight)


def _mean(of_examples: Floats, sample_weight: npt.ArrayLike | None) -> float:
    return float(np.average(of_examples, weights=example_weights(sample_weight, len(of_examples))))


def au_prc(y: npt.ArrayLike, scores: Floats, sample_weight: npt.ArrayLike | None = None) -> float:
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


def precision_at(y: npt.ArrayLike, scores: Floats, most: int, sample_weight: npt.ArrayLike | None = None) -> float:
    """Mean share of the right ones among the `most` labels of largest score; of all labels where there are fewer.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, k)
        0 or 1.
    scores : ndarray of shape (n, k)
    most : int
    sample_weight : array-like of shape (n,), default=None
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :most]
    return _mean(np.take_along_axis(_known(y), best, axis=1).mean(axis=1), sample_weight)


_RANKED_BY = ("predict_proba", "decision_function")
"""What ranks labels: probabilities where an estimator has some."""

label_set_scorers: dict[str, Any] = {
    "jaccard": make_scorer(example_jaccard),
    "hamming": make_scorer(_of_sets, measure=hamming_loss, greater_is_better=False),
    "micro_f1": make_scorer(_of_sets, measure=f1_score, average="micro", zero_division=0.0),
    "macro_f1": make_scorer(_of_sets, measure=f1_score, average="macro", zero_division=0.0),
    "example_f1": make_scorer(_of_sets, measure=f1_score, average="samples", zero_division=1.0),
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
