"""Constraints proved on rows that training did not see: a short family of models, and any threshold of each.

Training meets bounds on the rows it sees, and new rows miss them half of the time. So the goal is trained as it stands
and with bounds tightened by shares of the margin that the proof will ask for. On rows that were kept aside every
threshold of every model is then tried. With K models each has `1 - (1 - confidence) / K` for its own thresholds
(`estimators/thresholds/guarantee.py`), so what is said of the one chosen holds for all K times n candidates at once.
These rows were used for nothing before: the tightening is computed from the numbers of training rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.estimators.feature_space import ColumnSpace
from widemargin.estimators.rate_constrained.training import CheckedRows, Plan, Solution, TiedRows, Trained, train
from widemargin.estimators.thresholds.guarantee import cure_text, guarantee_text, margins, refusal_text
from widemargin.estimators.thresholds.rule import TriedThreshold, best_rule, choose_threshold, rows_that_would_do
from widemargin.estimators.thresholds.scores import split_rows
from widemargin.exceptions import CapabilityError, DataError
from widemargin.goals.binding.sources import External
from widemargin.rows import Rows
from widemargin.solvers.base import Budget, Status

TIGHTENINGS = (0.0, 0.5, 1.0, 1.5)
"""Shares of the margins by which the bounds of the models are tightened."""


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
    own = [rows.take(part) for part in split_rows(rows.labels, fraction, random_state, stratify=False)]
    beside: tuple[dict[str, Rows], dict[str, Rows]] = {}, {}
    for name, data in rows.rows.external.items():
        if not isinstance(data, External):
            raise DataError(f"external[{name!r}] is a {type(data).__name__}; wrap it: External(X, y=None, ...).")
        n, held = data.n_rows, round(fraction * data.n_rows)
        if not 0 < held < n:
            raise DataError(
                f"external {name!r} has {n} rows, of which {held} would be kept aside to prove the goal on; give more "
                "rows."
            )
        order = random_state.permutation(n)
        beside[0][name], beside[1][name] = data.take(np.sort(order[held:])), data.take(np.sort(order[:held]))
    first, second = (
        replace(part, rows=part.rows.replaced(external=external)) for part, external in zip(own, beside, strict=True)
    )
    return first, second


def train_validated(
    rows: TiedRows, aside: TiedRows, confidence: float, space: ColumnSpace, plan: Plan, budget: Budget, *,
    start: Solution | None, scores_of: Callable[[Floats, float], list[Floats]],
) -> Validated:  # fmt: skip
    """Train the family and choose model and threshold.

    Parameters
    ----------
    rows, aside : TiedRows
        The goal on the training rows and on the validation rows.
    confidence : float
    space, plan, start
        As `train` takes them.
    budget : Budget
        Where it is spent, the models so far are the family.
    scores_of : callable
        Scores of the positive class by a solution (w, b), for each source of `aside`.

    Returns
    -------
    Validated
        Of all candidates that are proved, the one of lowest objective on the validation rows; where there is none, the
        one that fewest rows would prove.
    """
    tied, proving = rows.tied, aside.tied
    ours, theirs = ([item.constraint.text for item in part.constraints] for part in (tied, proving))
    if ours != theirs:  # what is trained must be what is proved: bundles and tiny populations depend on the rows
        strange = sorted({*ours} ^ {*theirs})
        raise DataError(
            f"{len(strange)} constraints are there on the training rows or on the validation rows only, for example "
            f"{strange[0] if strange else ours[0]}: a population is too small for one of them. Give more rows, or a "
            "larger validation_fraction."
        )
    shares = TIGHTENINGS if tied.n_constraints else TIGHTENINGS[:1]
    level = 1.0 - (1.0 - confidence) / len(shares)
    proofs = margins(proving, level)
    sizes = np.array([proof.size for proof in proofs])
    ratio = np.sqrt(tied.n_rows / proving.n_rows)
    expected = ratio * np.array([proof.size for proof in margins(tied, level)])
    family: list[tuple[Trained, list[Floats], TriedThreshold]] = []
    for share in shares:
        # a bound keeps a twentieth of itself, lest no model can meet it
        tighter = np.maximum(tied.bound - share * expected, 0.05 * np.maximum(tied.bound, 0.0))
        goal = rows._replace(tied=replace(tied, bound=tighter))
        model = train(goal, space, plan, budget, start=start, explain=False)
        scores = scores_of(model.best.w, model.best.b)
        family.append((model, scores, choose_threshold(proving, scores, 0.0, sizes)))
        if budget.exhausted:
            break
    proved, text, refusal = [item for item in family if item[2].met], None, ""
    if proved:
        model, _, choice = min(proved, key=lambda item: item[2].objective)
        if proving.n_constraints:
            searched = f"threshold of each of the {len(shares)} models trained"
            text = guarantee_text(proving, proofs, confidence, searched=searched)
    else:  # the candidate that fewest rows would prove, else the one of smallest violation
        group: list[Ints] = [np.zeros(source.n_rows, np.int64) for source in proving.sources]
        rule = partial(best_rule, natural=0.0, margins=sizes, randomize=False)
        needed = [rows_that_would_do(partial(rule, proving, scores, group, 1)) for _, scores, _ in family]
        order = [(np.inf if n is None else n, item[2].violation) for n, item in zip(needed, family, strict=True)]
        place = min(range(len(family)), key=order.__getitem__)
        model, scores, choice = family[place]
        measured = proving.measure(proving.positive_mass([z > choice.threshold for z in scores]))
        refusal = refusal_text(
            proving, measured, proofs, refused=f"none of {len(family)} models at any threshold",
            tried="every one was tried", nearest="the nearest",
        )  # fmt: skip
        refusal = f"{refusal} {cure_text(proved=True, rows=needed[place], keeping='this model')}"
    best, status = model.best, Status.CONVERGED if proved else Status.INFEASIBLE
    moved = replace(best, b=best.b + choice.threshold, shifted=best.shifted or choice.threshold != 0.0, how="")
    if model.status in (Status.INTERRUPTED, Status.STOPPED, Status.TIME_LIMIT):
        status = model.status
    model = replace(model, best=moved, status=status)
    return Validated(model, bool(proved), text, refusal)
