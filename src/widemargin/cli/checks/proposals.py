"""Constraints for a first goals file: bounds that a plain model nearly meets, as measured on the table."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widemargin._typing import Floats
from widemargin.cli.checks.guesses import Guesses, is_code
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.exceptions import GoalError, WidemarginError
from widemargin.goals import Constraint, Goal, Population, churn, col, error_rate, positive_rate, recall
from widemargin.goals.language.predicates import Predicate
from widemargin.preprocessing import make_preprocessor

RARE_WORDS = 20
"""Words of fewer rows share one feature in a first model."""

Flags = npt.NDArray[np.bool_]

_SECONDS = 30.0  # for the search of a model that meets a proposal; one that takes longer is asked for less


@dataclass(frozen=True)
class Proposal:
    """A constraint as training enforces it, as it is promised for rows held out, and why."""

    constraint: Constraint
    promise: Constraint
    why: str


def proposed_goal(proposals: list[Proposal], *, promised: bool) -> Goal:
    """The proposals as a goal."""
    return Goal(error_rate(), [item.promise if promised else item.constraint for item in proposals])


def propose(table: pa.Table, guesses: Guesses, n_held_out: int) -> list[Proposal]:
    """Measure a plain linear model on a part of the rows, and ask for a little more than it does.

    Where a model that does all of it together is not found on these rows, as much as the plain model does is asked, and
    after that a little less.

    Parameters
    ----------
    table : pyarrow.Table
        The training rows.
    guesses : Guesses
    n_held_out : int
        Rows that will be held out, for the width of the promises.
    """
    # Rows to fit the plain model to, and rows to measure it on.
    order, most = np.random.default_rng(0).permutation(table.num_rows), 5000
    first = min(most, table.num_rows // 2)
    fit, rest = table.take(order[:first]), table.take(order[first : first + most])
    positive = pc.equal(rest[guesses.target], pa.scalar(guesses.positive)).to_numpy()
    # No time budget: on a slow machine, or where everything is still to be compiled, it would end at nothing.
    scores = _scores(fit, rest, guesses)
    if scores is None or not positive.any():
        return []
    decided: Flags = scores > 0
    if (decided & positive).sum() < 0.3 * positive.sum():  # few are found: the highest scores, as many as positives
        decided = scores > np.quantile(scores, 1.0 - positive.mean())
    share = n_held_out / rest.num_rows if n_held_out else 1.0
    rows = pa.concat_tables([fit, rest])
    proposals: list[Proposal] = []
    for ambition in (1.0, 0.0, -1.0):  # more than a plain model does, as much, less
        reached, number = float(decided[positive].mean()), int(positive.sum())
        bound = min(0.99, _round(max(0.0, reached + 0.02 * ambition), up=False))
        promise = max(0.0, _round(bound - _slack(bound, number * share), up=False))
        floor, looser = (recall() >= bound).named("recall"), (recall() >= promise).named("recall")
        proposals = [Proposal(floor, looser, f"a plain model finds {reached:.2f} of the positives")]
        for column in guesses.protected:
            fair = _fair(rest, column, decided, share, ambition) if len(proposals) <= 2 else None
            proposals += [fair] if fair is not None and _go_together([*proposals, fair]) else []
        for name in guesses.earlier:
            earlier = pc.equal(rest[name], pa.scalar(guesses.positive)).to_numpy()
            changed = float((earlier != decided).mean())
            bound = min(1.0, _round(changed + 0.04 - 0.02 * ambition, up=True))
            promise = min(1.0, _round(bound + _slack(bound, len(decided) * share), up=True))
            label = f"churn_{name}" if len(name) < 100 and name.isprintable() else "churn"
            ceiling, looser = (churn(name) <= bound).named(label), (churn(name) <= promise).named(label)
            cap = Proposal(ceiling, looser, f"a plain model changes {changed:.2f} of the decisions")
            proposals += [cap] if _go_together([*proposals, cap]) else []
        if _scores(rows, rows, guesses, proposed_goal(proposals, promised=False), _SECONDS) is not None:
            break
    return proposals


def _scores(
    fit: pa.Table, rest: pa.Table, guesses: Guesses, goal: Goal | None = None, budget: float | None = None
) -> Floats | None:
    """Scores for the positive class of a model fitted to other rows, as the goals file will ask for it; None where no
    model is found that meets the goal."""
    words = [name for name in guesses.words if name in guesses.features]
    step = make_preprocessor(list(guesses.features), words=words, numbers="bins", rare_words=RARE_WORDS)
    model = RateConstrainedClassifier(goal, pos_label=guesses.positive, time_budget=budget)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # words of few rows, a fit that is good enough for a guess
            model.fit(step.fit_transform(fit), fit[guesses.target].to_numpy(), populations=fit)
            scores = np.asarray(model.decision_function(step.transform(rest)))
    except (WidemarginError, ValueError):
        return None
    return scores if model.positive_class_ == model.classes_[1] else -scores


def _go_together(proposals: list[Proposal]) -> bool:
    """Whether all names in them differ."""
    try:
        proposed_goal(proposals, promised=False)
    except GoalError:
        return False
    return True


def _slack(bound: float, n_rows: float) -> float:
    """Three standard errors: between what training enforces and what is promised for rows held out."""
    return 3.0 * math.sqrt(max(bound * (1 - bound), 0.01) / max(1.0, n_rows))


def _fair(rows: pa.Table, column: str, decided: Flags, share: float, ambition: float) -> Proposal | None:
    """The positive rates of the two largest groups of a protected column; None where a group is too small."""
    groups = [group for group in _groups(rows, column) if group[1].sum() >= 100]
    if len(groups) < 2:
        return None
    (low, in_low), (high, in_high) = sorted(groups, key=lambda group: float(decided[group[1]].mean()))
    rate_low, rate_high = float(decided[in_low].mean()), float(decided[in_high].mean())
    if rate_low < 0.01:
        return None
    ratio = rate_low / rate_high
    wanted = ratio + 0.03 * ambition
    bound, rule = 0.8, "the four-fifths rule"
    if wanted < bound:
        bound, rule = max(0.01, _round(wanted, up=ambition > 0)), "raise it step by step; the four-fifths rule asks 0.8"
    counts = ((rate_low, in_low.sum()), (rate_high, in_high.sum()))
    error = math.sqrt(sum((1 - rate) / max(1.0, rate * number * share) for rate, number in counts))
    promise = max(0.01, _round(bound * (1.0 - min(0.9, 3.0 * error)), up=False))  # of three standard errors, as above
    label = f"fair_{column}" if len(column) < 100 and column.isprintable() else "fair"
    return Proposal(
        (positive_rate(low) >= bound * positive_rate(high)).named(label),
        (positive_rate(low) >= promise * positive_rate(high)).named(label),
        f"a plain model has the ratio {ratio:.2f}; {rule}",
    )


def _groups(rows: pa.Table, column: str) -> Iterator[tuple[Population, Flags]]:
    """The two largest groups: values of words and of numbers that have few, else halves of numbers."""
    values, kind = rows[column], rows[column].type
    many = not is_code(column, values) or "age" in column.casefold()
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and many:
        numbers = values.to_numpy()
        middle = float(np.nanmedian(numbers))
        least = int(middle) if middle.is_integer() or pa.types.is_integer(kind) else middle
        yield Population(_name(f"{column} below {least}"), where=col(column) < least), numbers < least
        yield Population(_name(f"{column} from {least}"), where=col(column) >= least), numbers >= least
        return
    counts = [(item["counts"], item["values"]) for item in pc.value_counts(values).to_pylist()]
    largest = sorted((pair for pair in counts if pair[1] is not None), key=lambda pair: (-pair[0], str(pair[1])))
    for _, value in largest[:2]:
        where = cast(Predicate, col(column) == value)  # a column compares to a predicate, not to a bool
        member = pc.fill_null(pc.equal(values, pa.scalar(value)), False).to_numpy()
        yield Population(_name(f"{column} {value}"), where=where), member


def _name(text: str) -> str:
    """A name that needs no quotes."""
    name = "_".join("".join(c if c.isalnum() and c.isascii() else " " for c in text.casefold()).split())
    return f"group_{name}"[:100] if not name[:1].isalpha() else name[:100]


def _round(value: float, *, up: bool) -> float:
    """To hundredths."""
    return (math.ceil(value * 100 - 1e-9) if up else math.floor(value * 100 + 1e-9)) / 100
