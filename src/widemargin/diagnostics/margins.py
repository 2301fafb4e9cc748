"""The margins of any classifier on labelled rows: how far each row is on the right side."""

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin.exceptions import DataError
from widemargin.goals.columns import listing

__all__ = ["Margins", "margins_of"]

Floats = npt.NDArray[np.float64]

NORMALIZERS = ("norm", "median", "max")


class Margins(NamedTuple):
    """Margins, shape (n,), what they are made of, and their unit."""

    values: Floats
    source: str
    unit: str


def margins_of(clf: Any, X: Any, y: Any, *, normalize: str | float | None = None) -> Margins:
    """Margins of a fitted classifier, positive where it is right.

    Two classes: `y f(x)`, y = +1 for `classes_[1]`. More: the score of the label minus the largest of the others. A
    classifier with a method `margins(X, y)` is asked for them (structured ones), then `decision_function` is, and then
    `predict_proba`, whose margins are differences of probabilities.

    Parameters
    ----------
    clf : fitted classifier, or array-like of shape (n,) or (n, n_classes)
        An array holds scores; the classes are then the sorted labels of y.
    X : array-like of shape (n, d)
        Not needed for scores.
    y : array-like of shape (n,)
    normalize : {None, "norm", "median", "max"} or float, default=None
        What margins are divided by: the norm of the weights (`coef_`; distances to the boundary, for more classes to
        that between the label and the closest other one), the median or the largest of their absolute values, a number.

    Returns
    -------
    Margins

    Raises
    ------
    DataError
        If the classifier gives no scores, they do not fit y, or the normalizer does not fit the classifier.
    """
    if normalize is not None and normalize not in NORMALIZERS and not _is_positive(normalize):
        raise DataError(f"normalize is {normalize!r}; give None, 'norm', 'median', 'max' or a positive number.")
    if callable(getattr(clf, "margins", None)):
        values, source, rival = np.asarray(clf.margins(X, y), dtype=np.float64), "margins", None
    else:
        scores, source, classes = _scores(clf, X, y)
        values, rival = _of_scores(scores, _codes(y, classes, scores.shape[0]))
    if not np.isfinite(values).all():
        raise DataError(f"{int((~np.isfinite(values)).sum())} margins are not finite; mend the scores or the rows.")
    if normalize is None:
        return Margins(values, source, "scores" if source != "predict_proba" else "differences of probabilities")
    size, unit = _size(clf, values, normalize, rival)
    if not np.min(size) > 0.0:
        raise DataError(f"normalize={normalize!r} divides by 0: all margins or weights are 0. Use normalize=None.")
    return Margins(np.asarray(values / size), source, unit)


def _is_positive(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return bool(0.0 < float(value) < np.inf)


def _scores(clf: Any, X: Any, y: Any) -> tuple[Floats, str, npt.NDArray[Any]]:
    """Scores of shape (n,) or (n, k), which method gave them, and the classes."""
    if isinstance(clf, type):
        raise DataError(f"{clf.__name__} is a class; give a fitted classifier, such as {clf.__name__}().fit(X, y).")
    if not hasattr(clf, "predict"):
        scores, source, classes = clf, "given scores", np.unique(np.asarray(y))
    else:
        found = [name for name in ("decision_function", "predict_proba") if hasattr(clf, name)]
        if not found or not hasattr(clf, "classes_"):
            raise DataError(
                f"{type(clf).__name__} has no decision_function, predict_proba or margins with classes_; margins need "
                "scores. Give the scores themselves, or calibrate the classifier."
            )
        source, classes = found[0], np.asarray(clf.classes_)
        scores = getattr(clf, source)(X)
    scores = np.asarray(scores, dtype=np.float64)
    if source == "predict_proba" and scores.ndim == 2 and scores.shape[1] == 2:
        scores = scores[:, 1] - scores[:, 0]
    expected = 1 if len(classes) == 2 else 2
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim != expected or (expected == 2 and scores.shape[1] != len(classes)):
        raise DataError(
            f"scores have the shape {scores.shape} and there are {len(classes)} classes; give (n,) for two classes, "
            "else (n, n_classes), for example by decision_function_shape='ovr'."
        )
    return scores, source, classes


def _codes(y: Any, classes: npt.NDArray[Any], n: int) -> npt.NDArray[np.intp]:
    """Numbers of the labels among the classes."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise DataError(f"y has the shape {labels.shape} and there are {n} rows of scores.")
    table = {label: number for number, label in enumerate(classes.tolist())}
    codes = np.array([table.get(label, -1) for label in labels.tolist()], dtype=np.intp)
    if (codes < 0).any():
        strange = sorted({str(label) for label, code in zip(labels.tolist(), codes, strict=True) if code < 0})
        raise DataError(f"y holds {listing(strange)}, and the classifier knows {listing(classes.tolist())}.")
    return codes


def _of_scores(scores: Floats, codes: npt.NDArray[np.intp]) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Margins, and for each row the pair (label, closest other class), shape (n, 2)."""
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores), np.column_stack([codes, 1 - codes])
    rows = np.arange(scores.shape[0])
    others = scores.copy()
    others[rows, codes] = -np.inf
    rival = others.argmax(axis=1)
    return scores[rows, codes] - others[rows, rival], np.column_stack([codes, rival])


def _size(clf: Any, values: Floats, normalize: Any, rival: Any) -> tuple[Any, str]:
    """What margins are divided by, and the name of the unit."""
    if normalize == "median":
        return float(np.median(np.abs(values))), "multiples of the median size"
    if normalize == "max":
        return float(np.abs(values).max()), "multiples of the largest size"
    if normalize != "norm":
        return float(normalize), f"multiples of {float(normalize):g}"
    coef = getattr(clf, "coef_", None)
    if coef is None or rival is None:
        raise DataError(
            f"normalize='norm' needs a linear classifier with coef_; {type(clf).__name__} has none. Use 'median'."
        )
    weights = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    unit = "distances to the boundary"
    if weights.shape[0] == 1:
        return float(np.linalg.norm(weights)), unit
    return np.linalg.norm(weights[rival[:, 0]] - weights[rival[:, 1]], axis=1), unit
