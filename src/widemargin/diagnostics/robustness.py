"""How far a row's features may change before its decision does, `certified_radii`; facts of scores that a goal counts.

**Linear scores.** A change d moves `<w, x> + b` by at most `|w|_* |d|`, with the dual norm, and some change does so
much. The distance to the boundary is exact, then: `|f(x)| / |w|_2` for changes measured by their Euclidean length,
`|f(x)| / |w|_1` for the largest change of a single feature. Steps that scale columns before the model scale the
weights, so radii are in the units of the features that the pipeline is given.

**Kernel scores.** `f` lies in the space of its kernel with norm |f|, and `|f(x) - f(z)| <= |f| |K_x - K_z|`, which for
the Gaussian kernel is `|f| sqrt(2 - 2 exp(-gamma |x - z|^2))`. What |f(x)| allows is a lower bound of the distance.
Nystroem's features are an expansion in kernels of the landmarks. Random Fourier features move by at most
`sqrt(2 / D) min(|w|_2 |V|_2, sum_j |w_j| |v_j|_2)` per unit of change: a Lipschitz constant, and a lower bound again.

Predictions do not show whether a margin is below a number or a decision certified, so the classifier itself is asked,
and these facts travel as baselines do (`goals/language/linear.ScoreFact`).
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from widemargin._typing import Classifier, Column, Features, Floats, Label
from widemargin.diagnostics.margins import margins_of
from widemargin.exceptions import DataError
from widemargin.goals.binding.labels import innermost
from widemargin.goals.language.linear import ScoreFact
from widemargin.rows import as_dense, check_sparse

NORMS = ("l2", "linf")
SHRUNK = 1.0 - 1e-9
"""What a lower bound is multiplied by, for the rounding of the scores and sums that it comes from."""


@dataclasses.dataclass(frozen=True, eq=False)
class CertifiedRadii:
    """How far the features of each row may change without changing its decision.

    Attributes
    ----------
    values : ndarray of shape (n,)
        Every smaller change of a row's features leaves its decision as it is; infinite where no change alters it. In
        the units of the features that the classifier is given; of a table with words, only its numbers change.
    norm : {"l2", "linf"}
    exact : bool
        Whether a change of this size that overturns the decision exists; else the radius is a lower bound.
    method : str
        "distance to the boundary", "norm in the space of the kernel" or "Lipschitz constant of the features".
    """

    values: Floats
    norm: str
    exact: bool
    method: str


def certified_radii(clf: Classifier, X: Features, *, norm: str = "l2") -> CertifiedRadii:
    """The largest change of each row's features that provably leaves its decision as it is.

    Parameters
    ----------
    clf : fitted classifier
        Linear, with `coef_`; of this library also with a feature map, or with a Gaussian, Laplacian or linear kernel;
        scikit-learn's SVC with these kernels and two classes. It may stand in a pipeline behind steps that scale
        columns (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, the preprocessor of tables with scaled
        numbers), and in a `GoalThresholdClassifier`.
    X : array-like, data frame or sparse matrix of shape (n, d)
        What the classifier, or its pipeline, is given.
    norm : {"l2", "linf"}, default="l2"
        How changes are measured: Euclidean length, or the largest change of a feature.

    Returns
    -------
    CertifiedRadii

    Raises
    ------
    DataError
        If there is no certificate for this kind of classifier, or for a step before it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from widemargin.diagnostics import certified_radii
    >>> X = np.array([[-2.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    >>> radii = certified_radii(LogisticRegression().fit(X, [0, 0, 1, 1]), X)
    >>> radii.values.round(6).tolist(), radii.exact
    ([2.0, 1.0, 1.0, 2.0], True)
    """
    if norm not in NORMS:
        raise DataError(f"norm is {norm!r}; give 'l2' or 'linf'.")
    check_sparse(X)
    model, slope = _unwrapped(clf)
    if not hasattr(clf, "decision_function") or not hasattr(clf, "classes_"):
        raise DataError(f"{type(clf).__name__} has no decision_function with classes_, so nothing can be certified.")
    scores = np.asarray(clf.decision_function(X), dtype=np.float64)
    of_problems = _of_model(model, slope, norm)
    if scores.ndim == 1:
        # How far scores are from where the decision changes; of a model that abstains, from where there is none.
        gaps, rule = np.abs(scores), innermost(clf)
        if getattr(rule, "abstain", None) is not None:
            if rule.groups_ is not None:
                raise DataError(
                    "a model with two thresholds for each population cannot be certified; certify its estimator_."
                )
            natural = 0.0 if hasattr(rule.estimator_, "decision_function") else 0.5
            below, above = rule.threshold_ - natural
            gaps = np.maximum(np.where(scores > 0.0, scores - above, below - scores), 0.0)
        # With a score for each class that of two classes is the difference of theirs.
        of_each = hasattr(model, "coef_") and len(np.atleast_2d(as_dense(model.coef_))) == 2
        values = of_problems.radius(gaps, np.array([-1.0, 1.0]) if of_each else np.ones(1))
        return CertifiedRadii(values, norm, of_problems.exact, of_problems.method)
    if hasattr(model, "decision_function_shape"):
        raise DataError(
            f"{type(model).__name__} compares pairs of classes; certify a model of one class against the rest."
        )
    # A decision changes where any other class overtakes the best one, so the nearest of these borders counts.
    best, values, classes = scores.argmax(axis=1), np.full(len(scores), np.inf), np.eye(scores.shape[1])
    for first in range(scores.shape[1]):
        rows = np.flatnonzero(best == first)
        for other in range(scores.shape[1]):
            if other != first and len(rows):
                gap = scores[rows, first] - scores[rows, other]
                # Classes of equal weights differ by rounding, in their scores and in the weights it is divided by.
                gap[gap <= 1e-12 * np.abs(scores[rows, first])] = 0.0
                values[rows] = np.minimum(values[rows], of_problems.radius(gap, classes[first] - classes[other]))
    return CertifiedRadii(values, norm, of_problems.exact, of_problems.method)


def _unwrapped(clf: Any) -> tuple[Any, Floats | float]:
    """The classifier inside, and how much each of its features moves with one of the table (0: with none)."""
    slope: Floats | float = 1.0
    if hasattr(clf, "best_estimator_"):
        return _unwrapped(clf.best_estimator_)
    if getattr(clf, "group_estimator", None) is not None:
        raise DataError(
            "the threshold of this model moves with the predicted population, and so with the features; certify its "
            "estimator_."
        )
    if hasattr(clf, "estimator_") and hasattr(clf, "threshold_"):  # the threshold is taken off the score
        return _unwrapped(clf.estimator_)
    if not hasattr(clf, "steps"):
        return clf, slope
    for _, step in clf.steps[:-1]:
        slope = slope * _slope(step)
    model, inner = _unwrapped(clf.steps[-1][1])
    return model, slope * inner


def _slope(step: Any) -> Floats | float:
    """Of a step that scales columns."""
    if step is None or step == "passthrough":
        return 1.0
    kind = type(step).__name__
    if kind in ("StandardScaler", "MaxAbsScaler", "RobustScaler"):
        return 1.0 if step.scale_ is None else 1.0 / np.asarray(step.scale_, dtype=np.float64)
    if kind == "MinMaxScaler" and not step.clip:
        return np.asarray(step.scale_, dtype=np.float64)
    if kind == "TablePreprocessor" and step.numbers == "scale":
        slope = np.zeros(len(step.get_feature_names_out()))
        if step.number_step_ is not None:  # words, and whether a number is missing, are not changed
            scale = step.number_step_[0].scale_
            slope[: len(scale)] = 1.0 / scale
        return slope
    raise DataError(
        f"the step {kind} does more than scale columns, so changes before it are not certified. Certify the classifier "
        "behind it on the features that it is given, such as certified_radii(pipeline[-1], pipeline[:-1].transform(X))."
    )


class _Problems(NamedTuple):
    """The scores of a model, one a class or one for two.

    Attributes
    ----------
    radius : callable
        The radius from gaps in a sum of the scores, whose coefficients are given: 1 of the only score, or 1 of one
        class and -1 of another.
    """

    radius: Callable[[Floats, Floats], Floats]
    exact: bool
    method: str


def _of_model(model: Any, slope: Floats | float, norm: str) -> _Problems:
    feature_map = getattr(model, "feature_map_", None)
    kernel = getattr(model, "kernel", None)
    gamma = getattr(model, "gamma_", getattr(model, "_gamma", None))
    if feature_map is not None and hasattr(feature_map, "random_weights_"):
        return _fourier(model, feature_map, slope, norm)
    if feature_map is not None:
        # The features of a row are its kernels with the landmarks times a matrix: so is the score.
        expansion = np.atleast_2d(model.coef_) @ feature_map.normalization_
        return _expansion(expansion, feature_map.components_, feature_map.kernel, feature_map.gamma, slope, norm)
    if kernel in (None, "linear") and hasattr(model, "coef_"):
        return _linear(np.atleast_2d(as_dense(model.coef_)), slope, norm)
    if kernel is not None and hasattr(model, "dual_coef_"):
        points = as_dense(model.support_vectors_)
        return _expansion(np.atleast_2d(as_dense(model.dual_coef_)), points, kernel, gamma, slope, norm)
    raise DataError(
        f"nothing is known of how the scores of {type(model).__name__} change; certified are linear models (coef_), "
        "feature maps, and kernels."
    )


def _linear(coef: Floats, slope: Floats | float, norm: str) -> _Problems:
    weights = coef * slope

    def radius(gap: Floats, sides: Floats) -> Floats:
        return _divided(gap, float(np.linalg.norm(sides @ weights, 2 if norm == "l2" else 1)))

    return _Problems(radius, True, "distance to the boundary")


def _expansion(coef: Floats, points: Floats, kernel: Any, gamma: Any, slope: Floats | float, norm: str) -> _Problems:
    """Scores that are sums of kernels of some points."""
    if kernel == "linear":
        return _linear(coef @ points, slope, norm)
    if kernel not in ("rbf", "laplacian"):
        raise DataError(f"kernel={kernel!r} is not certified; linear, rbf and laplacian are.")
    metric = "sqeuclidean" if kernel == "rbf" else "cityblock"
    # Squared norms and products of the scores' weight vectors, `C K C'`, a thousand rows of K at a time.
    products = np.zeros((len(coef), len(coef)))
    for start in range(0, len(points), 1000):
        part = slice(start, start + 1000)
        products += coef[:, part] @ np.exp(-gamma * cdist(points[part], points, metric)) @ coef.T
    scale = np.broadcast_to(np.abs(slope), points.shape[1:])
    # What a change of size 1 is in the features of the kernel, in the norm that the kernel sees.
    if kernel == "rbf":
        most = float(scale.max(initial=0.0)) if norm == "l2" else float(np.linalg.norm(scale))
    else:
        most = float(np.linalg.norm(scale)) if norm == "l2" else float(scale.sum())

    def radius(gap: Floats, sides: Floats) -> Floats:
        # `gap <= |f| sqrt(2 - 2 k)` (module docstring) solved for the kernel value k that a change has to reach, and
        # for the distance that has this value. Where k would have to be below 0 no change is large enough.
        kept = 1.0 - gap**2 / np.maximum(2.0 * (sides @ products @ sides), np.finfo(float).tiny)
        with np.errstate(divide="ignore"):
            distance = -np.log(np.clip(kept, 0.0, 1.0)) / gamma
        return SHRUNK * _divided(np.sqrt(distance) if kernel == "rbf" else distance, most)

    return _Problems(radius, False, "norm in the space of the kernel")


def _fourier(model: Any, feature_map: Any, slope: Floats | float, norm: str) -> _Problems:
    coef = np.atleast_2d(model.coef_)
    scale = np.broadcast_to(slope, len(feature_map.random_weights_))
    directions = np.asarray(feature_map.random_weights_, dtype=np.float64) * scale[:, None]
    largest = float(np.linalg.norm(directions, 2))
    lengths = np.linalg.norm(directions, axis=0) if norm == "l2" else np.abs(directions).sum(axis=0)

    def radius(gap: Floats, sides: Floats) -> Floats:
        w = sides @ coef
        steepest = float(np.abs(w) @ lengths)
        if norm == "l2":
            steepest = min(steepest, float(np.linalg.norm(w)) * largest)
        return SHRUNK * _divided(gap, np.sqrt(2.0 / len(w)) * steepest)

    return _Problems(radius, False, "Lipschitz constant of the features")


def _divided(gap: Floats, steepest: float) -> Floats:
    return np.asarray(gap / steepest if steepest > 0.0 else np.full(len(gap), np.inf), dtype=np.float64)


def caution_of_bounds(facts: Sequence[ScoreFact], model: Classifier) -> str | None:
    """The note that certified rates are lower bounds, as they are with kernels and feature maps; else None."""
    norms = {fact.norm or "l2" for fact in facts if fact.metric == "certified_rate"}
    methods = sorted(of.method for norm in norms if not (of := _of_model(*_unwrapped(model), norm)).exact)
    if not methods:
        return None
    return f"certified rates are lower bounds here, by the {methods[0]}: more decisions may withstand such changes."


def score_facts(
    facts: Sequence[ScoreFact], model: Classifier, X: Features, y: Column | None, positive: Label
) -> dict[str, npt.NDArray[np.object_]]:
    """Each fact of each row, as a baseline that says the positive class where it is true.

    Parameters
    ----------
    model : fitted classifier of two classes
    X : array-like of shape (n, d)
    y : array-like of shape (n,) or None
        Labels, for facts about margins.

    Raises
    ------
    DataError
        If the classifier gives no scores, or labels are missing.
    """
    if not facts:
        return {}
    names = [label for label in np.asarray(getattr(model, "classes_", ())).tolist() if label != positive]
    if len(names) != 1:
        raise DataError(f"{facts[0].name} needs a classifier of two classes, with classes_.")
    found = {}
    for fact in facts:
        if fact.metric == "certified_rate":
            holds = certified_radii(model, X, norm=fact.norm or "l2").values > fact.number
        elif y is None:
            raise DataError(f"{fact.name} needs labels; give y.")
        else:
            holds = margins_of(model, X, y).values < fact.number
        found[fact.name] = np.array([names[0], positive], dtype=object)[holds.astype(np.intp)]
    return found
