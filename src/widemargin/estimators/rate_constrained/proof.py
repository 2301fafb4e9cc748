"""Constraints proved on rows that training did not see: a short family of models, and any threshold of each.

Training meets bounds on the rows it sees, and new rows miss them half of the time. So the goal is trained as it stands
and with bounds tightened by shares of the margin that the proof will ask for. Index kept aside then try every threshold
of every model. With K models each has `1 - (1 - confidence) / K` for its own thresholds (`_threshold_guarantee`), so
what is said of the one chosen holds for all K times n candidates at once. Nothing but these rows may have met them
before: the tightening is computed from the numbers of training rows.
"""

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.estimators._calibration import take_rows
from widemargin.estimators.feature_space import ColumnSpace
from widemargin.estimators.rate_constrained.fitting import Trained
from widemargin.estimators.thresholds.candidates import Choice, choose_threshold
from widemargin.estimators.thresholds.guarantee import Margin, margins
from widemargin.estimators.thresholds.rule import best_rule, rows_that_would_do
from widemargin.estimators.thresholds.scores import split_rows
from widemargin.estimators.thresholds.text import cure_text, guarantee_text, refusal_text
from widemargin.exceptions import CapabilityError, DataError
from widemargin.goals.binding.sources import External
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.solvers.base import Budget, Status

__all__ = ["TIGHTENINGS", "KeptRows", "Validated", "keep_rows", "train_validated"]

TIGHTENINGS = (0.0, 0.5, 1.0, 1.5)
"""Shares of the margins by which the bounds of the models are tightened."""

LEAST_ROOM = 0.05
"""Share of its bound that a tightened constraint keeps, lest no model can meet it."""


@dataclasses.dataclass(frozen=True)
class KeptRows:
    """Index that training does not see, for the proof: (X, y, weight, original X, populations), and external ones."""

    parts: tuple[Any, ...]
    external: Mapping[str, External] | None


@dataclasses.dataclass(frozen=True)
class Validated:
    """The model and threshold chosen on the validation rows.

    Attributes
    ----------
    trained : Trained
        Its bias is at the threshold.
    met : bool
        Whether the goal is proved.
    guarantee : str or None
    refusal : str
        Why nothing is proved; empty where it is.
    """

    trained: Trained
    met: bool
    guarantee: str | None
    refusal: str

    @property
    def standing(self) -> str:
        """In a few words."""
        return f"{'proved' if self.met else 'NOT PROVED'} on the validation rows"


def keep_rows(
    model: Any, parts: Sequence[Any], external: Mapping[str, External] | None, *, random_state: np.random.RandomState
) -> tuple[tuple[Any, ...], Mapping[str, External] | None, KeptRows]:
    """Split rows and external data sets into those to train on and those to prove the goal on.

    Raises
    ------
    CapabilityError
        If a confidence cannot be had with these options.
    DataError
        If there are too few rows.
    """
    fraction = float(model.validation_fraction)
    if model.enforce != "deterministic":
        raise CapabilityError(
            f'a confidence covers the rates of predict, and enforce="{model.enforce}" is about those of '
            'predict_randomized. Use enforce="deterministic", or GoalThresholdClassifier(randomize=True) on the model.'
        )
    if model.kernel == "precomputed":
        raise CapabilityError(
            "a confidence keeps rows aside, and kernel='precomputed' has a column for every row. Give the kernel by "
            "name or as a function."
        )
    if not model._options.fit_intercept:
        raise CapabilityError(
            "a confidence is reached by moving the threshold, and fit_intercept=False allows none. Use "
            "fit_intercept=True, or confidence=None."
        )
    train, kept = split_rows(parts[1], fraction, random_state, stratify=False)
    pairs = {name: _halved(name, data, fraction, random_state) for name, data in (external or {}).items()}
    ours = {name: pair[0] for name, pair in pairs.items()}
    theirs = {name: pair[1] for name, pair in pairs.items()}
    return (
        tuple(take_rows(part, train) for part in parts),
        ours if external is not None else None,
        KeptRows(tuple(take_rows(part, kept) for part in parts), theirs if external is not None else None),
    )


def _halved(
    name: str, data: External, fraction: float, random_state: np.random.RandomState
) -> tuple[External, External]:
    """The rows of an external data set to train on, and those to prove the goal on."""
    if not isinstance(data, External):
        raise DataError(f"external[{name!r}] is a {type(data).__name__}; wrap it: External(X, y=None, ...).")
    n = data.n_rows
    held = round(fraction * n)
    if not 0 < held < n:
        raise DataError(
            f"external {name!r} has {n} rows, of which {held} would be kept aside to prove the goal on; give more rows."
        )
    order = random_state.permutation(n)
    return data.take(np.sort(order[held:])), data.take(np.sort(order[:held]))


def train_validated(
    estimator: Any,
    tied: TiedGoal,
    kept: TiedGoal,
    kept_matrices: Sequence[Any],
    *,
    fit: Callable[..., Trained],
    space: ColumnSpace,
    budget: Budget,
) -> Validated:
    """Train the family and choose model and threshold.

    Parameters
    ----------
    estimator : RateConstrainedClassifier
    tied, kept : TiedGoal
        The goal on the training rows and on the validation rows.
    kept_matrices : sequence of matrices
        Features of each source of `kept`.
    fit : callable
        Trains on a tied goal.
    space : ColumnSpace
        What the models are linear in.
    budget : Budget
        Where it is spent, the models so far are the family.

    Returns
    -------
    Validated
        Of all candidates that are proved, the one of lowest objective on the validation rows; where there is none, the
        one that fewest rows would prove.
    """
    _check_same(tied, kept)
    confidence = float(estimator.confidence)
    shares = TIGHTENINGS if tied.n_constraints else TIGHTENINGS[:1]
    level = 1.0 - (1.0 - confidence) / len(shares)
    proofs = margins(kept, level)
    sizes = np.array([proof.size for proof in proofs])
    ratio = np.sqrt(sum(tied.n_rows) / sum(kept.n_rows))
    expected = ratio * np.array([proof.size for proof in margins(tied, level)])
    found: list[tuple[Trained, list[Floats], Choice]] = []
    for share in shares:
        model = fit(_tightened(tied, share * expected), explain=False)
        scores = _scores(estimator, model, space, kept_matrices)
        found.append((model, scores, choose_threshold(kept, scores, 0.0, sizes)))
        if budget.exhausted:
            break
    proved = [item for item in found if item[2].met]
    if proved:
        model, _, choice = min(proved, key=lambda item: item[2].objective)
        text = None
        if kept.n_constraints:
            text = guarantee_text(
                kept, proofs, confidence, searched=f"threshold of each of the {len(shares)} models trained"
            )
        return Validated(_moved(model, choice.threshold, proved=True), True, text, "")
    return _refused(kept, found, proofs, sizes)


def _scores(estimator: Any, model: Trained, space: ColumnSpace, matrices: Sequence[Any]) -> list[Floats]:
    """Scores of a model's positive class on checked rows, by the attributes that it would set."""
    other = copy.copy(estimator)
    other._adopt_point(space, model.best.w, model.best.b)
    scores: list[Floats] = other._positive_scores(matrices)
    return scores


def _check_same(tied: TiedGoal, kept: TiedGoal) -> None:
    """What is trained must be what is proved: bundles and tiny populations depend on the rows."""
    ours, theirs = ([item.text for item in part.constraints] for part in (tied, kept))
    if ours != theirs:
        strange = sorted({*ours} ^ {*theirs})
        raise DataError(
            f"{len(strange)} constraints are there on the training rows or on the validation rows only, for example "
            f"{strange[0] if strange else ours[0]}: a population is too small for one of them. Give more rows, or a "
            "larger validation_fraction."
        )


def _tightened(tied: TiedGoal, by: Floats) -> TiedGoal:
    return dataclasses.replace(tied, bound=np.maximum(tied.bound - by, LEAST_ROOM * np.maximum(tied.bound, 0.0)))


def _moved(model: Trained, threshold: float, *, proved: bool) -> Trained:
    """The model with its bias at the threshold."""
    best = model.best
    moved = dataclasses.replace(best, b=best.b + threshold, shifted=best.shifted or threshold != 0.0, how="")
    stopped = model.status in (Status.INTERRUPTED, Status.STOPPED, Status.TIME_LIMIT)
    status = Status.INFEASIBLE if not proved else Status.CONVERGED
    return dataclasses.replace(
        model, search=dataclasses.replace(model.search, best=moved), status=model.status if stopped else status
    )


def _refused(
    kept: TiedGoal,
    found: Sequence[tuple[Trained, list[Floats], Choice]],
    proofs: Sequence[Margin],
    sizes: Floats,
) -> Validated:
    """The candidate that fewest rows would prove, else the one of smallest violation."""
    group: list[npt.NDArray[np.int64]] = [np.zeros(n, np.int64) for n in kept.n_rows]

    def needed(scores: Sequence[Floats]) -> int | None:
        find = partial(best_rule, kept, scores, group, 1, natural=0.0, margins=sizes, randomize=False)
        return rows_that_would_do(find)

    rows = [needed(scores) for _, scores, _ in found]
    order = [np.inf if number is None else float(number) for number in rows]
    place = min(range(len(found)), key=lambda i: (order[i], found[i][2].violation))
    model, scores, choice = found[place]
    measured = kept.measure(kept.positive_mass([z > choice.threshold for z in scores]))
    text = refusal_text(
        kept, measured, proofs, refused=f"none of {len(found)} models at any threshold", tried="every one was tried",
        nearest="the nearest",
    )  # fmt: skip
    cure = cure_text(proved=True, rows=rows[place], kept="this model")
    return Validated(_moved(model, choice.threshold, proved=False), False, None, f"{text} {cure}")
