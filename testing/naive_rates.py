"""Rates straight from their definitions, one row after the other in plain Python: the oracle for binding and measuring.

Nothing here uses the registry of metrics, cells, or arrays; a row is a dict, a missing value is None.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from widemargin.goals.language.linear import Linear, Rate, Ratio
from widemargin.goals.language.predicates import (
    And,
    BaselineSays,
    Compare,
    IsIn,
    IsNull,
    IsTrue,
    LabelIs,
    Not,
    Or,
    Predicate,
)

__all__ = ["NaiveSource", "naive_constraint", "naive_form", "naive_holds", "naive_rate"]


@dataclass
class NaiveSource:
    """Rows of one source; labels and baselines hold +1 and -1, None where a label is missing.

    With more than two `classes` they hold the classes themselves.
    """

    columns: Mapping[Any, Sequence[Any]] = field(default_factory=dict)
    labels: Sequence[int | None] | None = None
    weight: Sequence[float] | None = None
    baselines: Mapping[str, Sequence[int]] = field(default_factory=dict)
    n_rows: int = 0
    classes: Sequence[Any] = ()

    @property
    def several(self) -> bool:
        """Whether labels are classes and not signs."""
        return len(self.classes) > 2

    def is_class(self, label: Any, of: Any) -> bool:
        """Whether a label, or what a baseline says, is a class; None: the positive one of two."""
        return bool(label == of if self.several else label == (1 if of is None or of == self.classes[1] else -1))

    def weight_of(self, row: int) -> float:
        """Weight of a row."""
        return 1.0 if self.weight is None else float(self.weight[row])


def naive_holds(predicate: Predicate | None, source: NaiveSource, row: int) -> bool | None:
    """True, False, or None where a missing value leaves it open."""
    if predicate is None:
        return True
    if isinstance(predicate, Not):
        inner = naive_holds(predicate.part, source, row)
        return None if inner is None else not inner
    if isinstance(predicate, And):
        answers = [naive_holds(part, source, row) for part in predicate.parts]
        return False if False in answers else (None if None in answers else True)
    if isinstance(predicate, Or):
        answers = [naive_holds(part, source, row) for part in predicate.parts]
        return True if True in answers else (None if None in answers else False)
    if isinstance(predicate, LabelIs):
        label = None if source.labels is None else source.labels[row]
        return None if label is None else source.is_class(label, predicate.of) == predicate.positive
    if isinstance(predicate, BaselineSays):
        return source.is_class(source.baselines[predicate.name][row], predicate.of) == predicate.positive
    assert isinstance(predicate, Compare | IsIn | IsNull | IsTrue)
    value = source.columns[predicate.column][row]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True if isinstance(predicate, IsNull) else None
    if isinstance(predicate, IsNull):
        return False
    if isinstance(predicate, IsTrue):
        return bool(value)
    if isinstance(predicate, IsIn):
        return value in predicate.values
    compare: dict[str, Callable[[Any, Any], bool]] = {
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }
    return bool(compare[predicate.op](value, predicate.value))


def _as_two(rate: Rate, source: NaiveSource, row: int, predicted: Any) -> tuple[int | None, float, int | None]:
    """Label (+1 or -1), decision and the baseline's of a row, where what the rate looks for is the positive class."""
    said = None if rate.baseline is None else source.baselines[rate.baseline][row]
    label = None if source.labels is None else source.labels[row]
    actual = rate.of if rate.actual is None else rate.actual
    if not source.several:
        if label is not None and not source.is_class(1, actual):
            label = -label
        return label, float(predicted) if source.is_class(1, rate.of) else 1.0 - float(predicted), said
    if rate.of is not None:
        of_label = None if label is None else 1 if label == actual else -1
        return of_label, float(predicted == rate.of), None
    if rate.metric in ("churn", "changes"):
        return (None if label is None else 1), float(predicted == said), 1
    right = None if said is None else 1 if said == label else -1
    return (None if label is None else 1), float(predicted == label), right


def naive_rate(rate: Rate, sources: Mapping[str | None, NaiveSource], p: Mapping[str | None, Sequence[float]]) -> float:
    """Value of a rate when row i of a source is predicted positive with probability p[i]; NaN for 0/0.

    Of several classes p[i] is the class that the row is predicted as.
    """
    source = sources[rate.population.source]
    total: dict[str, float] = dict.fromkeys(
        ("all", "plus", "minus", "pos", "neg", "tp", "fp", "tn", "fn", "wins", "losses", "changes", "true"), 0.0
    )
    labelled_all = 0.0
    for row in range(source.n_rows):
        if naive_holds(rate.population.where, source, row) is not True:
            continue
        s, (label, positive, said) = source.weight_of(row), _as_two(rate, source, row, p[rate.population.source][row])
        if label is None and rate.labelled:  # beside a count that needs labels in the same ratio
            continue
        total["all"] += s
        total["plus"] += s * positive
        total["minus"] += s * (1 - positive)
        if said is not None:
            total["changes"] += s * (1 - positive if said == 1 else positive)
            total["true"] += s * (said == 1)
        if label is None:
            continue
        labelled_all += s
        if label == 1:
            total["pos"] += s
            total["tp"] += s * positive
            total["fn"] += s * (1 - positive)
        else:
            total["neg"] += s
            total["fp"] += s * positive
            total["tn"] += s * (1 - positive)
        if said is not None:
            right = positive if label == 1 else 1 - positive
            if said == label:
                total["losses"] += s * (1 - right)
            else:
                total["wins"] += s * right
    errors = total["fp"] + total["fn"]
    table = {
        "positive_rate": (total["plus"], total["all"]),
        "negative_rate": (total["minus"], total["all"]),
        "error_rate": (errors, labelled_all),
        "accuracy": (total["tp"] + total["tn"], labelled_all),
        "recall": (total["tp"], total["pos"]),
        "false_positive_rate": (total["fp"], total["neg"]),
        "true_negative_rate": (total["tn"], total["neg"]),
        "false_negative_rate": (total["fn"], total["pos"]),
        "churn": (total["changes"], total["all"]),
        "win_rate": (total["wins"], labelled_all),
        "loss_rate": (total["losses"], labelled_all),
        "errors": (errors, 1.0),
        "true_positives": (total["tp"], 1.0),
        "false_positives": (total["fp"], 1.0),
        "true_negatives": (total["tn"], 1.0),
        "false_negatives": (total["fn"], 1.0),
        "wins": (total["wins"], 1.0),
        "losses": (total["losses"], 1.0),
        "changes": (total["changes"], 1.0),
        "confusion": (total["tp"], total["pos"]),
        "decision_rate": (total["all"], total["all"]),
        "decisions": (total["all"], 1.0),
        "margin_below": (total["true"], total["all"]),
        "certified_rate": (total["true"], total["all"]),
    }
    above, below = table[rate.metric]
    return above / below if below > 0 else math.nan


def naive_form(
    form: Linear, sources: Mapping[str | None, NaiveSource], p: Mapping[str | None, Sequence[float]]
) -> float:
    """Value of a linear form; a ratio with a zero denominator is NaN."""
    total = form.constant
    for coefficient, atom in form.terms:
        if isinstance(atom, Ratio):
            below = naive_form(atom.denominator, sources, p)
            value = naive_form(atom.numerator, sources, p) / below if below > 1e-9 else math.nan
        else:
            value = naive_rate(atom, sources, p)
        total += coefficient * value
    return total


def naive_constraint(
    constraint: Any, sources: Mapping[str | None, NaiveSource], p: Mapping[str | None, Sequence[float]]
) -> float:
    """`lhs - rhs` of a constraint as the user wrote it, turned so that >= 0 means met; NaN where undefined."""
    gap = naive_form(constraint.lhs, sources, p) - naive_form(constraint.rhs, sources, p)
    return gap if constraint.sense == ">=" else -gap
