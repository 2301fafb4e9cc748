"""Constraints proved on rows that training did not see: a short family of models, and any threshold of each.

Training meets bounds on the rows it sees, and new rows miss them half of the time. So the goal is trained as it stands
and with bounds tightened by shares of the margin that the proof will ask for. Index kept aside then try every threshold
of every model. With K models each has `1 - (1 - confidence) / K` for its own thresholds (`_threshold_guarantee`), so
what is said of the one chosen holds for all K times n candidates at once. Nothing but these rows may have met them
before: the tightening is computed from the numbers of training rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.estimators.feature_space import ColumnSpace
from widemargin.estimators.rate_constrained.training import CheckedRows, Plan, Solution, TiedRows, Trained, train
from widemargin.estimators.thresholds.candidates import TriedThreshold, choose_threshold
from widemargin.estimators.thresholds.guarantee import Margin, margins
from widemargin.estimators.thresholds.rule import best_rule, rows_that_would_do
from widemargin.estimators.thresholds.scores import split_rows
from widemargin.estimators.thresholds.text import cure_text, guarantee_text, refusal_text
from widemargin.exceptions import CapabilityError, DataError
from widemargin.goals.binding.sources import External
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.rows import Rows
from widemargin.solvers.base import Budget, Status

__all__ = ["TIGHTENINGS", "Validated", "keep_rows", "refuse_unprovable", "train_validated"]

TIGHTENINGS = (0.0, 0.5, 1.0, 1.5)
"""Shares of the margins by which the bounds of the models are tightened."""

LEAST_ROOM = 0.05
"""Share of its bound that a tightened constraint keeps, lest no model can meet it."""


@dataclass(frozen=True)
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


def refuse_unprovable(enforce: str, kernel: object, *, fit_intercept: bool) -> None:
    """Refuse parameters with which no confidence can be had.

    Raises
    ------
    CapabilityError
        If predictions are drawn, the kernel is precomputed, or there is no threshold to move.
    """
    if enforce != "deterministic":
        raise CapabilityError(
            f'a confidence covers the rates of predict, and enforce="{enforce}" is about those of '
            'predict_randomized. Use enforce="deterministic", or GoalThresholdClassifier(randomize=True) on the model.'
        )
    if isinstance(kernel, str) and kernel == "precomputed":
        raise CapabilityError(
            "a confidence keeps rows aside, and kernel='precomputed' has a column for every row. Give the kernel by "
            "name or as a function."
        )
    if not fit_intercept:
        raise CapabilityError(
            "a confidence is reached by moving the threshold, and fit_intercept=False allows none. Use "
            "fit_intercept=True, or confidence=None."
        )


def keep_rows(
    rows: CheckedRows, fraction: float, random_state: np.random.RandomState
) -> tuple[CheckedRows, CheckedRows]:
    """Rows and external data sets to train on, and those to prove the goal on.

    Raises
    ------
    DataError
        If there are too few rows.
    """
    parts = split_rows(rows.labels, fraction, random_state, stratify=False)
    external = rows.rows.external
    pairs = {name: _halved(name, data, fraction, random_state) for name, data in external.items()}
    ours, theirs = (rows.take(part) for part in parts)
    return (
        replace(ours, rows=ours.rows.replaced(external={name: pair[0] for name, pair in pairs.items()})),
        replace(theirs, rows=theirs.rows.replaced(external={name: pair[1] for name, pair in pairs.items()})),
    )


def _halved(name: str, data: Rows, fraction: float, random_state: np.random.RandomState) -> tuple[Rows, Rows]:
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
    rows: TiedRows, kept: TiedRows, confidence: float, space: ColumnSpace, plan: Plan, budget: Budget, *,
    start: Solution | None, scores_of: Callable[[Floats, float], list[Floats]],
) -> Validated:  # fmt: skip
    """Train the family and choose model and threshold.

    Parameters
    ----------
    rows, kept : TiedRows
        The goal on the training rows and on the validation rows.
    confidence : float
    space, plan, start
        As `train` takes them.
    budget : Budget
        Where it is spent, the models so far are the family.
    scores_of : callable
        Scores of the positive class by a solution (w, b), for each source of `kept`.

    Returns
    -------
    Validated
        Of all candidates that are proved, the one of lowest objective on the validation rows; where there is none, the
        one that fewest rows would prove.
    """
    tied, proving = rows.tied, kept.tied
    _check_same(tied, proving)
    shares = TIGHTENINGS if tied.n_constraints else TIGHTENINGS[:1]
    level = 1.0 - (1.0 - confidence) / len(shares)
    proofs = margins(proving, level)
    sizes = np.array([proof.size for proof in proofs])
    ratio = np.sqrt(sum(tied.n_rows) / sum(proving.n_rows))
    expected = ratio * np.array([proof.size for proof in margins(tied, level)])
    family: list[tuple[Trained, list[Floats], TriedThreshold]] = []
    for share in shares:
        # a bound keeps a share of itself, lest no model can meet it
        tighter = np.maximum(tied.bound - share * expected, LEAST_ROOM * np.maximum(tied.bound, 0.0))
        goal = rows._replace(tied=replace(tied, bound=tighter))
        model = train(goal, space, plan, budget, start=start, explain=False)
        scores = scores_of(model.best.w, model.best.b)
        family.append((model, scores, choose_threshold(proving, scores, 0.0, sizes)))
        if budget.exhausted:
            break
    proved = [item for item in family if item[2].met]
    if not proved:
        return _refused(proving, family, proofs, sizes)
    model, _, choice = min(proved, key=lambda item: item[2].objective)
    text = None
    if proving.n_constraints:
        text = guarantee_text(
            proving, proofs, confidence, searched=f"threshold of each of the {len(shares)} models trained"
        )
    return Validated(_moved(model, choice.threshold, proved=True), True, text, "")


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


def _moved(model: Trained, threshold: float, *, proved: bool) -> Trained:
    """The model with its bias at the threshold."""
    best = model.best
    moved = replace(best, b=best.b + threshold, shifted=best.shifted or threshold != 0.0, how="")
    stopped = model.status in (Status.INTERRUPTED, Status.STOPPED, Status.TIME_LIMIT)
    status = Status.INFEASIBLE if not proved else Status.CONVERGED
    return replace(model, search=replace(model.search, best=moved), status=model.status if stopped else status)


def _refused(
    kept: TiedGoal,
    found: Sequence[tuple[Trained, list[Floats], TriedThreshold]],
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
