"""One offset for each of several classes that meets a goal: what is added to the scores before the largest one wins."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from widemargin._typing import Floats, Ints, Signs
from widemargin.estimators.thresholds.rule import tightened_goal
from widemargin.estimators.thresholds.scores import raw_scores, refuse_infinite
from widemargin.exceptions import DataError
from widemargin.goals.binding.labels import innermost
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.rows import length_of

CERTAIN = 1e-6
"""Probabilities nearer to 0 or 1 count as hardly nearer: trees say 0 and 1, whose odds are infinite."""


def class_scores(estimator: Any, X: Any, classes: npt.NDArray[Any]) -> Floats:
    """A score for each class, the largest of which wins, shape (n, K): `decision_function`, else logarithms of
    probabilities, so that an offset is a factor of the probability of its class.

    A class that the estimator has not seen, as of few rows in a fold, scores as what is practically impossible.

    Raises
    ------
    DataError
        If the estimator has neither, or scores are not one finite number a row and class.
    """
    name, known = type(estimator).__name__, estimator.classes_
    if len(known) == 2:
        found = np.column_stack([np.zeros(length_of(X)), log_odds(estimator, X)])
    elif hasattr(estimator, "decision_function"):
        found = np.asarray(estimator.decision_function(X), dtype=np.float64)
    elif hasattr(estimator, "predict_proba"):
        found = _flattened(np.log(_possible(np.asarray(estimator.predict_proba(X), np.float64))))
    else:
        raise DataError(f"{name} has neither decision_function nor predict_proba, so there are no scores to move.")
    # Scores of pairs of classes are no scores of classes, though of three classes there are three pairs.
    in_pairs = len(known) > 2 and getattr(innermost(estimator), "decision_function_shape", "ovr") == "ovo"
    if in_pairs or found.ndim != 2 or found.shape[1] != len(known):
        raise DataError(
            f"{name} gives scores {'of pairs of classes, ' * in_pairs}of shape {found.shape}; one for each of the "
            f'{len(known)} classes is needed. Of support vector machines ask for decision_function_shape="ovr".'
        )
    refuse_infinite(name, found)
    scores = np.repeat(found.min(axis=1, keepdims=True) + np.log(CERTAIN), len(classes), axis=1)
    scores[:, np.searchsorted(classes, known)] = found
    return scores


def log_odds(estimator: Any, X: Any) -> Floats:
    """Scores of two classes on a scale that models share, shape (n,)."""
    scores = raw_scores(estimator, X)
    # Log odds can be averaged, unlike probabilities near 0.
    return scores if hasattr(estimator, "decision_function") else _flattened(logit(_possible(scores)))


def _possible(shares: Floats) -> Floats:
    """Probabilities, none of them 0 or 1."""
    return np.clip(shares, np.finfo(np.float64).smallest_subnormal, 1.0 - np.finfo(np.float64).epsneg)


def _flattened(logarithms: Floats) -> Floats:
    """Logarithms of probabilities or odds, those beyond `CERTAIN` at a thousandth of their distance from it.

    In a mean no model that is very sure then outweighs the others, and still tells its rows apart.
    """
    near = np.clip(logarithms, np.log(CERTAIN), -np.log(CERTAIN))
    return np.asarray(near + 1e-3 * (logarithms - near))


@dataclass(frozen=True)
class OffsetRule:
    """A row of group g gets the class k of largest `score_k + offsets[g, k]`.

    Attributes
    ----------
    offsets : ndarray of shape (n_groups, K)
    objective, violation : float
        Of the goal, up to a constant of the data; summed scaled excesses.
    met : bool
        Whether the (tightened) constraints are met; if not, it is the rule of smallest summed violation.
    gap : float
        The objective exceeds the lowest one of any such rule by at most this; NaN where the constraints are not met.
    least_violation : float
        No such rule has a smaller summed excess; 0 where nothing is proved of it.
    """

    offsets: Floats
    objective: float
    violation: float
    met: bool
    gap: float
    least_violation: float

    @property
    def proved(self) -> bool:
        """Whether it is proved that no such rule meets the constraints."""
        return self.least_violation > 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """Less violation first, then a lower objective."""
        return self.violation, self.objective

    def shares(self, scores: Floats, group: Ints) -> Signs:
        """The number of each row's class, from 1 on."""
        return np.asarray(np.argmax(scores + self.offsets[group], axis=1) + 1, np.int16)

    def with_constants(self, scores: Floats, group: Ints) -> "OffsetRule":
        """The rule itself: with several classes no constraint is proved by definition."""
        return self


def class_costs(tied: TiedGoal, margins: Floats) -> tuple[list[Floats], Floats]:
    """What each class costs as the decision of a row: objective, then constraints, scaled, and bounds of these.

    Returns
    -------
    cost : list of ndarray of shape (n_s, K, 1 + m)
        For each source that was given. Denominators that must not be zero are constraints more.
    bound : ndarray of shape (m,)
    """
    coef, bound = tightened_goal(tied, margins, for_lp=True)
    # By cell: what a unit of weight adds to objective and constraints if it is called positive, and if it is not.
    each = np.repeat(np.arange(coef.n_cells), np.diff(coef.indptr))
    sides = np.zeros((2, coef.n_cells, 1 + len(bound)))
    sides[:, :, 0] = coef.alpha0, coef.beta0
    for side, values in zip(sides, (coef.alpha, coef.beta), strict=True):
        np.add.at(side, (each, 1 + coef.column), values)
    positive, negative = sides
    # A goal of several classes is tied to views of the rows. In a view every row has one class that counts as positive
    # there (`target`, such as its own label): to decide for that class adds what a positive prediction adds, to decide
    # for any other what a negative one does.
    costs = [np.zeros((len(part.cell), len(tied.classes), 1 + len(bound))) for part in tied.given]
    for part in tied.sources:
        assert part.target is not None  # every source is a view
        cost, weight = costs[part.given], part.weights[:, None]
        cost += (weight * negative[part.cell])[:, None]
        known = np.flatnonzero(part.target > 0)  # elsewhere no class is what the view looks for
        gain = weight * (positive - negative)[part.cell]
        cost[known, part.target[known] - 1] += gain[known]
    return costs, bound
