"""Points of a trade-off path that ended early, as numbers and as models again."""

import copy
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from widemargin.estimators.feature_space import ColumnSpace, GramSpace, stacked
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.path import Neighbour
from widemargin.exceptions import DataError
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.solvers.base import Status

__all__ = ["cut_short", "model_from_numbers", "model_numbers", "neighbour", "restored"]


def cut_short(path: TradeoffPath) -> bool:
    """Whether not even its first point was trained to the end."""
    return path.status[0] in (Status.TIME_LIMIT, Status.STOPPED, Status.INTERRUPTED)


def model_numbers(model: Any) -> dict[str, Any]:
    """What a model of a path is made of, fit for JSON: coefficients, or of a kernel the weights of training rows."""
    numbers: dict[str, Any] = {"intercept": float(model.intercept_[0])}
    if "dual_coef_" in vars(model):
        return numbers | {"support": model.support_.tolist(), "dual_coef": model.dual_coef_[0].tolist()}
    return numbers | {"coef": model.coef_[0].tolist()}


def model_from_numbers(numbers: Any) -> SimpleNamespace:
    """What `restored` needs of a model, from what `model_numbers` gave (also after JSON).

    Raises
    ------
    DataError
        The numbers are none, or do not fit together.
    """
    try:
        made = SimpleNamespace(intercept_=_finite([numbers["intercept"]]))
        if "coef" in numbers:
            made.coef_ = _finite(numbers["coef"])[None, :]
            return made
        made.dual_coef_, support = _finite(numbers["dual_coef"])[None, :], _finite(numbers["support"])
        made.support_ = support.astype(np.intp)
        if made.support_.shape != made.dual_coef_[0].shape or (made.support_ != support).any():
            raise ValueError("support and dual_coef differ")
        return made
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"the stored models are damaged ({str(error)[:200]}). Train all points again.") from None


def _finite(values: Any) -> Any:
    found = np.array(values, dtype=np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ValueError("a vector of finite numbers is needed")
    return found


def restored(
    template: RateConstrainedClassifier, path: TradeoffPath, number: int, space: ColumnSpace, matrices: Sequence[Any]
) -> RateConstrainedClassifier:
    """The model of a point: itself, or made of its numbers.

    Parameters
    ----------
    template : RateConstrainedClassifier
        With what all models of the path have in common.
    path : TradeoffPath
        With a model, or its numbers (`model_from_numbers`), for each point.
    number : int
    space : ColumnSpace
        With its features made.
    matrices : sequence of matrices
        Training features of each source, of which kernel models take their support vectors.

    Raises
    ------
    DataError
        The path has no models, or they are of another space.
    """
    known = path.model(number)
    if isinstance(known, RateConstrainedClassifier):
        return known
    model, is_kernel = copy.copy(template), isinstance(space, GramSpace)
    if is_kernel != hasattr(known, "dual_coef_"):
        raise DataError("the earlier path has models of another kind (linear, kernel). Train all points again.")
    if isinstance(space, GramSpace):
        rows = stacked(matrices)
        if known.support_.size and not 0 <= known.support_.min() <= known.support_.max() < rows.shape[0]:
            raise DataError("the earlier path has models of rows that are not there. Train all points again.")
        model.support_, model.support_vectors_ = known.support_, rows[known.support_]
        model.dual_coef_, model.intercept_, model.gamma_ = known.dual_coef_, known.intercept_, space.kernel.gamma
    else:
        space.adopt(model, known.coef_)
        model.intercept_ = known.intercept_
    model.subproblem_gap_, model.certified_point_ = float(path.gap[number]), bool(path.certified[number])
    model.multipliers_, model.status_ = path.multipliers[number], path.status[number]
    model.n_iter_ = int(path.n_iter[number])
    return model


def neighbour(model: RateConstrainedClassifier, met: bool, n_constraints: int) -> Neighbour | None:
    """The point to start from; None for an exact kernel, whose weights belong to merged rows of one run."""
    if "dual_coef_" in vars(model):
        return None
    sign = model._direction()
    return Neighbour(sign * model.coef_[0], -sign * float(model.intercept_[0]), 0.0, met, n_constraints)
