"""Scorers of label sets, for `scoring=` of scikit-learn's searches and of `structural_search`."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, f1_score, hamming_loss, make_scorer

from widemargin._typing import Floats
from widemargin.estimators.structured.label_names import read_label_sets
from widemargin.structured.models.base import indicator

__all__ = ["au_prc", "example_jaccard", "label_set_scorers", "precision_at"]


def example_jaccard(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Mean over the examples of |both| / |either|; 1 where both sets are empty. A single column is a set too.

    Parameters
    ----------
    y, predicted : array-like or sparse matrix of shape (n, k)
        0 or 1; of y, -1 or NaN where nobody has looked, which counts for neither set.
    """
    (truth, missing, _, _), found = read_label_sets(y), indicator(predicted)
    if missing is not None:
        found = np.where(missing, 0, found)
    both, either = (truth & found).sum(axis=1), (truth | found).sum(axis=1)
    return float(np.where(either > 0, both / np.maximum(either, 1), 1.0).mean())


def au_prc(y: npt.ArrayLike, scores: Floats) -> float:
    """Average precision of all decisions together; infinite scores, of nodes that no path or every one has, are ends.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, k)
        0 or 1.
    scores : ndarray of shape (n, k)
    """
    return float(average_precision_score(indicator(y), np.nan_to_num(scores), average="micro"))


def precision_at(y: npt.ArrayLike, scores: Floats, most: int) -> float:
    """Mean share of the right ones among the `most` labels of largest score; of all labels where there are fewer.

    Parameters
    ----------
    y : array-like or sparse matrix of shape (n, k)
        0 or 1.
    scores : ndarray of shape (n, k)
    most : int
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :most]
    return float(np.take_along_axis(indicator(y), best, axis=1).mean())


_RANKED_BY = ("predict_proba", "decision_function")
"""What ranks labels: probabilities where an estimator has some."""

label_set_scorers: dict[str, Any] = {
    "jaccard": make_scorer(example_jaccard),
    "hamming": make_scorer(hamming_loss, greater_is_better=False),
    "micro_f1": make_scorer(f1_score, average="micro", zero_division=0.0),
    "macro_f1": make_scorer(f1_score, average="macro", zero_division=0.0),
    "example_f1": make_scorer(f1_score, average="samples", zero_division=1.0),
    "au_prc": make_scorer(au_prc, response_method=_RANKED_BY),
    "precision_at_1": make_scorer(precision_at, most=1, response_method=_RANKED_BY),
    "precision_at_3": make_scorer(precision_at, most=3, response_method=_RANKED_BY),
    "precision_at_5": make_scorer(precision_at, most=5, response_method=_RANKED_BY),
}
"""For `scoring=` of scikit-learn's searches and of `structural_search`, one of them or all.

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
