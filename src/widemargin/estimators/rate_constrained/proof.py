"""Constraints proved on rows that training did not see: a short family of models, and thresholds of each.

Training meets bounds on the rows it sees, and new rows miss them half of the time. So the goal is trained as it stands
and with bounds tightened by some standard errors of the rows that were kept aside. On the training rows the best model
and threshold is found that passes all bounds by so many standard errors, for many such numbers; these candidates, the
safest first, are then tested on the rows kept aside (`estimators/thresholds/guarantee.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.estimators.feature_space import ColumnSpace
from widemargin.estimators.rate_constrained.training import CheckedRows, Plan, Solution, TiedRows, Trained, posed, train
from widemargin.estimators.thresholds.guarantee import (
    Found,
    Judged,
    fixed_sequence,
    guarantee_text,
    safest_first,
    unproved_text,
)
from widemargin.estimators.thresholds.rule import choose_threshold
from widemargin.estimators.thresholds.scores import split_sources
from widemargin.exceptions import CapabilityError, DataError
from widemargin.goals.measuring.exact_tests import EITHER, standard_errors
from widemargin.rows import take
from widemargin.solvers.base import Budget, Status

TIGHTENINGS = (0.0, 2.0, 4.0, 6.0, 9.0)
"""Standard errors by which the bounds of the models are tightened."""


class _Member(NamedTuple):
    """A model of the family, and its scores of the rows that it learned from and of those kept aside."""

    model: Trained
    learned: list[Floats]
    aside: list[Floats]


_Candidate = tuple[_Member, float]


@dataclass(frozen=True)
class Validated:
    """The model and threshold chosen on the validation rows.

    Attributes
    ----------
    trained : Trained
        Its bias is at the threshold.
    met : bool
        Whether the goal is proved.
    refusal : str
        Why nothing is proved; empty where it is.
    """

    trained: Trained
    met: bool
    guarantee: str | None
    refusal: str


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
    refusal = ""
    if isinstance(kernel, str) and kernel == "precomputed":
        refusal = "keeps rows aside, and kernel='precomputed' has a column for every row. Give the kernel by name"
    elif not fit_intercept:
        refusal = "is reached by moving the threshold, and fit_intercept=False allows none. Use fit_intercept=True"
    if refusal:
        raise CapabilityError(f"a confidence {refusal}, or confidence=None.")


def keep_rows(
    rows: CheckedRows, fraction: float, random_state: np.random.RandomState
) -> tuple[CheckedRows, CheckedRows]:
    """Rows and external data sets to train on, and those to prove the goal on.

    Raises
    ------
    DataError
        If there are too few rows.
    """
    first, second, learnt, aside = split_sources(rows.rows, rows.labels, fraction, random_state)
    return CheckedRows(first, take(rows.X, learnt)), CheckedRows(second, take(rows.X, aside))


def train_validated(
    rows: TiedRows, aside: TiedRows, confidence: float, space: ColumnSpace, plan: Plan, budget: Budget, *,
    start: Solution | None, scores_of: Callable[[TiedRows, Floats, float], list[Floats]],
) -> Validated:  # fmt: skip
    """Train the family and choose model and threshold.

    Parameters
    ----------
    rows, aside : TiedRows
        The goal on the training rows and on the validation rows.
    space, plan, start
        As `train` takes them.
    budget : Budget
        Where it is spent, the models so far are the family.
    scores_of : callable
        Scores of the positive class by a solution (w, b), for each source of some rows.

    Returns
    -------
    Validated
        Of all candidates that are proved, the one of lowest objective on the validation rows; where there is none, the
        safest. After Ctrl-C in the middle of the proof the first model, of which nothing is proved.
    """
    tied, proving = rows.tied, aside.tied
    ours, theirs = ([item.constraint.text for item in part.constraints] for part in (tied, proving))
    if ours != theirs:  # what is trained must be what is proved: bundles and tiny populations depend on the rows
        strange = sorted({*ours} ^ {*theirs})
        raise DataError(
            f"{len(strange)} constraints are there on the training rows or on the validation rows only, for example "
            f"{strange[0] if strange else ours[0]}: a population is too small for one of them. Give more rows, or a "
            "larger validation_fraction in solver_options."
        )
    family: list[_Member] = []
    errors = np.zeros(tied.n_constraints)
    for size in TIGHTENINGS if tied.n_constraints else TIGHTENINGS[:1]:
        # a bound keeps a twentieth of itself, lest no model can meet it
        tighter = np.maximum(tied.bound - size * errors, 0.05 * np.maximum(tied.bound, 0.0))
        stricter = posed(rows._replace(tied=replace(tied, bound=tighter)), space, plan)
        model = train(*stricter, plan, budget, start=start, explain=False)
        member = _Member(model, *(scores_of(of, model.best.w, model.best.b) for of in (rows, aside)))
        if not family:
            errors = standard_errors(tied, tied.positive_mass([z > 0.0 for z in member.learned]), proving)
        family.append(member)
        # What cannot be met is met no better with stricter bounds, and is what takes longest. Of 80 goals on 16 real
        # tables the same 48 were proved, and refusals took a third of the time.
        if budget.exhausted or not model.met:
            break

    ended = budget.status(converged=not budget.exhausted)  # of the family, whichever of its models is chosen

    def search(margins: Floats) -> Found[_Candidate]:
        found = [(item, choose_threshold(tied, item.learned, 0.0, margins)) for item in family]
        member, choice = min(found, key=lambda pair: (not pair[1].met, pair[1].violation, pair[1].objective))
        return Found(
            (member, choice.threshold), choice.met, tied.positive_mass([z > choice.threshold for z in member.learned])
        )

    def test(candidate: _Candidate) -> Judged[_Candidate]:
        member, threshold = candidate
        said = [z > threshold for z in member.aside]
        constant = np.isinf(threshold)
        decisions = EITHER if not constant else slice(0, 1) if threshold < 0.0 else slice(1, 2)
        return Judged.of(candidate, proving, proving.positive_mass(said), lambda population: decisions)

    try:
        path = safest_first(search, tied, proving)
        constants = [(family[0], threshold) for threshold in (-np.inf, np.inf)]
        proof = fixed_sequence(path, constants, test, confidence)
    except KeyboardInterrupt:  # the model of the goal as it stands is there, and nothing is proved of it
        budget.interrupted = True
        return Validated(replace(family[0].model, status=Status.INTERRUPTED), False, None, "")
    member, threshold = proof.chosen.candidate
    text, refusal = None, ""
    if not proof.met:
        refusal = unproved_text(
            proving, proof, confidence, refused=f"none of {len(family)} models at any threshold can",
            keeping="this model",
        )  # fmt: skip
    elif proving.n_constraints:
        text = guarantee_text(proving, proof, confidence)
    model, best = member.model, member.model.best
    status = ended if proof.met or ended is not Status.CONVERGED else Status.INFEASIBLE
    # a constant is a model without features
    moved = (best.w, best.b + threshold) if np.isfinite(threshold) else (np.zeros_like(best.w), np.sign(threshold))
    best = replace(best, w=moved[0], b=moved[1], shifted=best.shifted or threshold != 0.0, how="")
    return Validated(replace(model, best=best, status=status), proof.met, text, refusal)
