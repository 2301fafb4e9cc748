"""The margins of any classifier on labelled rows: how far each row is on the right side.

And what abstention would buy: the error of the surest rows, and the area under that curve.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin._text import listing
from widemargin._typing import Bools, Classifier, Column, Features, Floats, Index, Label
from widemargin.exceptions import DataError
from widemargin.goals.binding.labels import innermost, plain_labels
from widemargin.goals.binding.tables import column_of
from widemargin.rows import as_dense, check_sparse, refuse_no_classifier

Group: TypeAlias = tuple[str, npt.NDArray[np.intp]]
"""Name and rows of a group."""


class Margins(NamedTuple):
    """Margins, shape (n,), their source, and their unit.

    `certainty`, shape (n,), is how far the decision of each row is from another one: of two classes the size of the
    margin, of more the largest score minus the second; None where only margins are known.
    """

    values: Floats
    source: str
    unit: str
    certainty: Floats | None = None

    def of(self, rows: Index | Bools) -> "Margins":
        """Those of some rows, by their numbers or a mask."""
        certainty = None if self.certainty is None else self.certainty[rows]
        return self._replace(values=self.values[rows], certainty=certainty)


def margins_of(
    clf: Classifier | Column | Margins,
    X: Features | None,
    y: Column | None,
    *,
    normalize: str | float | None = None,
    classes: Sequence[Label] | None = None,
    sample_weight: Floats | None = None,
) -> Margins:
    """Margins of a fitted classifier, positive where it is right.

    Two classes: `y f(x)`, y = +1 for `classes_[1]`. More: the score of the label minus the largest of the others. A
    classifier with a method `margins(X, y)` is asked for them (structured ones), then `decision_function` is, and then
    `predict_proba`, whose margins are differences of probabilities.

    Parameters
    ----------
    clf : fitted classifier, array-like of shape (n,) or (n, n_classes), or Margins
        An array holds scores. Margins are given back as they are, finite ones without `normalize`.
    X : array-like of shape (n, d)
        Not needed for scores.
    y : array-like of shape (n,)
        Not needed for margins.
    normalize : {None, "norm", "median", "max"} or float, default=None
        What margins are divided by: the norm of the weights (`coef_`; distances to the boundary, for more classes to
        that between the label and the closest other one), the median or the largest of their absolute values, a number.
    classes : array-like of shape (n_classes,), default=None
        Labels of the columns of scores; None: the sorted labels of y. Not for a classifier, which knows its own.
    sample_weight : ndarray of shape (n,), default=None
        Weights for the median; the largest size leaves out rows of weight 0.

    Returns
    -------
    Margins

    Raises
    ------
    DataError
        If the classifier gives no scores, they do not fit y, or `normalize` does not suit the classifier.
    """
    is_number = isinstance(normalize, (int, float, np.number)) and not isinstance(normalize, bool)
    if (
        normalize is not None
        and normalize not in ("norm", "median", "max")
        and not (is_number and 0.0 < float(normalize) < np.inf)
    ):
        raise DataError(f"normalize is {normalize!r}; give None, 'norm', 'median', 'max' or a positive number.")
    if isinstance(clf, Margins) and normalize is not None:
        raise DataError(f"normalize is {normalize!r} and margins were given; normalize where they are made.")
    check_sparse(X)
    rival = certainty = None
    if isinstance(clf, Margins):
        values, source, *_ = clf
    elif callable(own := getattr(clf, "margins", None)):
        values, source = np.asarray(own(X, y), dtype=np.float64), "margins"
    else:
        y = plain_labels(y)
        scores, source, labels = _scores(clf, X, y, classes)
        values, rival = against_rivals(scores, y, labels)
        certainty = np.abs(values)
        if scores.ndim == 2:
            # Of several classes a margin compares with the label; how sure the decision is depends on the scores alone.
            second, first = np.sort(scores, axis=1)[:, -2:].T
            certainty = first - second
    if not np.isfinite(values).all():
        raise DataError(f"{int((~np.isfinite(values)).sum())} margins are not finite; mend the scores or the rows.")
    if isinstance(clf, Margins):
        return clf
    if normalize is None:
        unit = "scores" if source != "predict_proba" else "differences of probabilities"
        return Margins(values, source, unit, certainty)
    size, unit = _size(clf, values, normalize, rival, sample_weight)
    if not np.min(size) > 0.0:
        raise DataError(f"normalize={normalize!r} divides by 0: all margins or weights are 0. Use normalize=None.")
    return Margins(np.asarray(values / size), source, unit, certainty)


def _scores(
    clf: Classifier | Column, X: Features | None, y: Column | None, classes: Sequence[Label] | None
) -> tuple[Floats, str, npt.NDArray[Any]]:
    """Scores of shape (n,) or (n, k), which method gave them, and the classes."""
    refuse_no_classifier(clf, "scores")
    if not hasattr(clf, "predict"):
        scores, source, cure = clf, "given scores", "name all of them, in the order of the columns, by classes=[...]"
        labels = np.unique(np.asarray(y)) if classes is None else np.asarray(classes)
    else:
        from sklearn.base import BaseEstimator  # slow to import, and not needed where there are only decisions
        from sklearn.utils.validation import check_is_fitted

        if isinstance(clf, BaseEstimator):
            check_is_fitted(clf)
        methods = [name for name in ("decision_function", "predict_proba") if hasattr(clf, name)]
        classes = getattr(clf, "classes_", None)
        if not methods or classes is None:
            raise DataError(
                f"{type(clf).__name__} has no decision_function, predict_proba or margins with classes_; margins need "
                "scores. Give the scores themselves, or calibrate the classifier."
            )
        if X is None:
            raise DataError("margins of a classifier need its rows; give X.")
        source, labels, cure = methods[0], np.asarray(classes), "give the scores themselves"
        inner = innermost(clf)
        # Scores of pairs of classes are no scores of classes, though of three classes there are three pairs.
        if len(labels) > 2 and getattr(inner, "decision_function_shape", "ovr") == "ovo":
            raise DataError(
                f"{type(inner).__name__} gives scores of pairs of classes; margins need one score for each class: "
                "set_params(decision_function_shape='ovr'), no new fit is needed."
            )
        scores = getattr(clf, source)(X)
    scores = np.asarray(scores, dtype=np.float64)
    # Two columns for two classes, as of `predict_proba`, become the one score whose sign decides.
    if scores.ndim == 2 and scores.shape[1] == 2 and len(labels) == 2:
        scores = scores[:, 1] - scores[:, 0]
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    expected = 1 if len(labels) == 2 else 2
    if len(labels) < 2 or scores.ndim != expected or (expected == 2 and scores.shape[1] != len(labels)):
        raise DataError(
            f"scores have the shape {scores.shape} and the classes are {listing(labels.tolist())}; scores of two "
            f"classes have the shape (n,), of more (n, n_classes): {cure}."
        )
    return scores, source, labels


def against_rivals(scores: Floats, y: Column | None, classes: npt.NDArray[Any]) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Margins, and for each row the numbers of its label and of the closest other class, shape (n, 2)."""
    labels, n = np.asarray(y), scores.shape[0]
    if labels.shape != (n,):
        raise DataError(f"y has the shape {labels.shape} and there are {n} rows of scores.")
    table = {label: number for number, label in enumerate(classes.tolist())}
    strange = sorted({str(label) for label in labels.tolist() if label not in table})
    if strange:
        raise DataError(f"y holds {listing(strange)}, and the classifier knows {listing(classes.tolist())}.")
    codes = np.array([table[label] for label in labels.tolist()], dtype=np.intp)
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores), np.column_stack([codes, 1 - codes])
    # The rival is the largest score without that of the label.
    rows, others = np.arange(n), scores.copy()
    others[rows, codes] = -np.inf
    rival = others.argmax(axis=1)
    return scores[rows, codes] - others[rows, rival], np.column_stack([codes, rival])


def _size(
    clf: Classifier | Column,
    values: Floats,
    normalize: str | float,
    rival: npt.NDArray[np.intp] | None,
    weight: Floats | None,
) -> tuple[float | Floats, str]:
    """What margins are divided by, and the name of the unit."""
    weight = np.ones(values.shape[0]) if weight is None else weight
    if normalize == "median":
        return float(weighted_quantiles(np.abs(values), weight, [0.5])[0]), "multiples of the median size"
    if normalize == "max":
        return float(np.abs(values[weight > 0.0]).max(initial=0.0)), "multiples of the largest size"
    if normalize != "norm":
        return float(normalize), f"multiples of {float(normalize):g}"
    coef = getattr(clf, "coef_", None)
    if coef is None or rival is None:
        raise DataError(
            f"normalize='norm' needs a linear classifier with coef_; {type(clf).__name__} has none. Use 'median'."
        )
    weights = np.atleast_2d(as_dense(coef))
    space = " in the space of the feature map" if hasattr(clf, "feature_map_") else ""
    unit = f"distances to the boundary{space}"
    if weights.shape[0] == 1:
        return float(np.linalg.norm(weights)), unit
    if hasattr(clf, "decision_function_shape"):
        raise DataError(
            f"normalize='norm': the rows of coef_ of {type(clf).__name__} belong to pairs of classes, its scores to "
            "classes. Use 'median', or a linear classifier of one class against the rest."
        )
    # The label's score equals the rival's on a hyperplane whose normal is the difference of their weights.
    return np.linalg.norm(weights[rival[:, 0]] - weights[rival[:, 1]], axis=1), unit


def row_weights(sample_weight: Column | None, n: int) -> Floats | None:
    """Weights of n rows, checked; None where none are given."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,) or not np.isfinite(weight).all() or weight.min(initial=0.0) < 0.0:
        raise DataError(f"sample_weight has the shape {weight.shape}; give {n} finite numbers >= 0.")
    return weight


def group_rows(groups: Column | None, n: int) -> tuple[list[Group], int]:
    """Names and rows of the groups, and how many rows have none."""
    if groups is None:
        return [], 0
    column = column_of("groups", groups)
    if column.values.shape[0] != n:
        raise DataError(f"groups has {column.values.shape[0]} values and there are {n} rows.")
    has_group = np.ones(n, dtype=np.bool_) if column.missing is None else ~column.missing
    names = column.categories
    parts = []
    for value in np.unique(column.values[has_group]):
        rows = np.flatnonzero(has_group & (column.values == value))
        parts.append((names[int(value)] if names else str(value), rows))
    return parts, int(n - has_group.sum())


def weighted_quantiles(values: Floats, weight: Floats, levels: Sequence[float]) -> Floats:
    """Quantiles of weighted values: the least value at which the weights so far exceed the level.

    Where they just reach it, the mean of that value and the next; weight 2 is a value that is there twice.

    Parameters
    ----------
    values, weight : ndarray of shape (n,)
        Weights >= 0 with a positive sum.
    levels : sequence of float
        In [0, 1].

    Returns
    -------
    ndarray of shape (len(levels),)
    """
    used = np.flatnonzero(weight > 0.0)
    order = used[np.argsort(values[used], kind="stable")]
    ends = np.cumsum(weight[order])
    # A level counts as just reached within the rounding of the running sum, so that weight 2 and a row that is there
    # twice give the same quantile.
    wanted, slack = np.asarray(levels, dtype=np.float64) * ends[-1], 1e-12 * ends[-1]
    last = order.shape[0] - 1
    low = np.minimum(np.searchsorted(ends, wanted - slack, side="left"), last)
    high = np.minimum(np.searchsorted(ends, wanted + slack, side="right"), last)
    return np.asarray(0.5 * (values[order[low]] + values[order[high]]))


COVERAGES = tuple(tenth / 10 for tenth in range(1, 11))
"""Shares of the rows that a report shows the error of."""


@dataclasses.dataclass(frozen=True)
class RiskCoverage:
    """The error of a classifier that decides only where it is surest.

    Attributes
    ----------
    area : float
        Mean of the error over all coverages, the area under the curve (Geifman and El-Yaniv 2017); lower is better.
    best_area : float
        That of the same errors if every wrong row were among the least sure.
    errors : tuple of float
        Of the surest 10%, 20%, ... 100% of the rows (`COVERAGES`).
    """

    area: float
    best_area: float
    errors: tuple[float, ...]


def risk_coverage(certainty: Floats, wrong: Bools, weight: Floats) -> RiskCoverage:
    """The curve of some rows.

    Rows of equal certainty are decided together; weight 2 is a row that is there twice.

    Parameters
    ----------
    certainty : ndarray of shape (n,)
        Larger: surer.
    wrong : ndarray of bool, shape (n,)
    weight : ndarray of shape (n,)
        >= 0, with a positive sum.

    References
    ----------
    Y. Geifman and R. El-Yaniv, "Selective classification for deep neural networks", NeurIPS 2017.
    """
    covered, errors = curve(certainty, wrong, weight)
    steps = np.diff(covered, prepend=0.0)
    total = float(errors[-1])
    # With the share r of the weight wrong and all of it least sure, the error is 0 up to a coverage of 1 - r and
    # `1 - (1 - r) / c` beyond, whose integral is `r + (1 - r) log(1 - r)`.
    best = total + (1.0 - total) * float(np.log1p(-total)) if total < 1.0 else 1.0
    places = np.minimum(np.searchsorted(covered, np.array(COVERAGES) - 1e-12), len(covered) - 1)
    return RiskCoverage(float(steps @ errors), best, tuple(errors[places].tolist()))


def curve(certainty: Floats, wrong: Bools, weight: Floats) -> tuple[Floats, Floats]:
    """Every coverage that a threshold of the certainty can have, rising, and the error there."""
    # A threshold cannot separate rows of equal certainty, so the curve has a point only behind the last of them.
    used = np.flatnonzero(weight > 0.0)
    order = used[np.argsort(-certainty[used], kind="stable")]
    ends = np.append(np.flatnonzero(np.diff(certainty[order])), len(order) - 1)
    decided = np.cumsum(weight[order])[ends]
    missed = np.cumsum(weight[order] * wrong[order])[ends]
    return decided / decided[-1], missed / decided
