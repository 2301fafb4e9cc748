"""The rates and counts that a user can ask for (spec 1, section 1; the paper's Tables 2 and 4).

`on` is the population, None for everyone. `s_p(D)` is the share of D predicted positive, `s_n(D) = 1 - s_p(D)`; D+ and
D- are the labelled positives and negatives, `D[y,h]` the rows with label y on which the baseline predicts h; TP, FP,
TN, FN are counts on `on`. All counts are weighted by the sample weights.

A new linear rate is one entry in `linear.METRICS` and, here, a function of two lines and its name in `__all__`.
"""

from collections.abc import Callable
from typing import Any

from widemargin.exceptions import GoalError
from widemargin.goals.language.constraints import Expression
from widemargin.goals.language.linear import Linear, Rate, Ratio
from widemargin.goals.language.populations import Population, as_population
from widemargin.goals.language.values import checked_name, checked_number

__all__ = [
    "accuracy",
    "changes",
    "churn",
    "coverage",
    "error_rate",
    "errors",
    "f_beta",
    "false_negative_rate",
    "false_negatives",
    "false_positive_rate",
    "false_positives",
    "loss_rate",
    "losses",
    "negative_rate",
    "positive_rate",
    "precision",
    "recall",
    "true_negative_rate",
    "true_negatives",
    "true_positive_rate",
    "true_positives",
    "win_change_ratio",
    "win_loss_ratio",
    "win_rate",
    "wins",
]


def _rate(metric: str, on: Population | None, *baseline: str) -> Expression:
    names = [checked_name(name, "a baseline's name") for name in baseline]
    return Expression(Linear(((1.0, Rate(metric, as_population(on), names[0] if names else None)),)))


def _ratio(name: str, above: Expression, below: Expression, on: Population | None, **arguments: Any) -> Expression:
    return Expression(Linear(((1.0, Ratio(above.form, below.form, name, as_population(on), **arguments)),)))


def positive_rate(on: Population | None = None) -> Expression:
    """Share predicted positive, `s_p(D)`; also called coverage. In [0, 1]; needs no labels.

    Parameters
    ----------
    on : Population, optional
        Default: everyone.
    """
    return _rate("positive_rate", on)


def negative_rate(on: Population | None = None) -> Expression:
    """Share predicted negative, `s_n(D) = 1 - s_p(D)`. In [0, 1]; needs no labels."""
    return _rate("negative_rate", on)


def error_rate(on: Population | None = None) -> Expression:
    """Share of wrong predictions, `(FP + FN) / (|D+| + |D-|)`. In [0, 1]."""
    return _rate("error_rate", on)


def accuracy(on: Population | None = None) -> Expression:
    """Share of right predictions, `(TP + TN) / (|D+| + |D-|)`. In [0, 1]."""
    return _rate("accuracy", on)


def recall(on: Population | None = None) -> Expression:
    """Share of the positives predicted positive, `s_p(D+) = TP / (TP + FN)`; the true positive rate. In [0, 1]."""
    return _rate("recall", on)


def false_positive_rate(on: Population | None = None) -> Expression:
    """Share of the negatives predicted positive, `s_p(D-) = FP / (FP + TN)`. In [0, 1]."""
    return _rate("false_positive_rate", on)


def true_negative_rate(on: Population | None = None) -> Expression:
    """Share of the negatives predicted negative, `s_n(D-) = TN / (FP + TN)`. In [0, 1]."""
    return _rate("true_negative_rate", on)


def false_negative_rate(on: Population | None = None) -> Expression:
    """Share of the positives predicted negative, `s_n(D+) = FN / (TP + FN)`. In [0, 1]."""
    return _rate("false_negative_rate", on)


def churn(baseline: str, on: Population | None = None) -> Expression:
    """Share predicted otherwise than by a baseline model. In [0, 1]; needs no labels.

    `(|D[h+]| s_n(D[h+]) + |D[h-]| s_p(D[h-])) / |D|`.

    Parameters
    ----------
    baseline : str
        Name of the baseline, for example "deployed"; its predictions come with the data.
    on : Population, optional
        Default: everyone.
    """
    return _rate("churn", on, baseline)


def win_rate(baseline: str, on: Population | None = None) -> Expression:
    """Share of rows that are right now and were wrong with the baseline, `wins / |D|`. In [0, 1]."""
    return _rate("win_rate", on, baseline)


def loss_rate(baseline: str, on: Population | None = None) -> Expression:
    """Share of rows that are wrong now and were right with the baseline, `losses / |D|`. In [0, 1]."""
    return _rate("loss_rate", on, baseline)


def errors(on: Population | None = None) -> Expression:
    """Number of wrong predictions, `FP + FN`. In [0, inf)."""
    return _rate("errors", on)


def true_positives(on: Population | None = None) -> Expression:
    """Number of positives predicted positive, `TP = |D+| s_p(D+)`. In [0, inf)."""
    return _rate("true_positives", on)


def false_positives(on: Population | None = None) -> Expression:
    """Number of negatives predicted positive, `FP = |D-| s_p(D-)`. In [0, inf)."""
    return _rate("false_positives", on)


def true_negatives(on: Population | None = None) -> Expression:
    """Number of negatives predicted negative, `TN = |D-| s_n(D-)`. In [0, inf)."""
    return _rate("true_negatives", on)


def false_negatives(on: Population | None = None) -> Expression:
    """Number of positives predicted negative, `FN = |D+| s_n(D+)`. In [0, inf)."""
    return _rate("false_negatives", on)


def wins(baseline: str, on: Population | None = None) -> Expression:
    """Number of rows that are right now and were wrong with the baseline. In [0, inf).

    `|D[+,h-]| s_p(D[+,h-]) + |D[-,h+]| s_n(D[-,h+])`.
    """
    return _rate("wins", on, baseline)


def losses(baseline: str, on: Population | None = None) -> Expression:
    """Number of rows that are wrong now and were right with the baseline. In [0, inf).

    `|D[+,h+]| s_n(D[+,h+]) + |D[-,h-]| s_p(D[-,h-])`.
    """
    return _rate("losses", on, baseline)


def changes(baseline: str, on: Population | None = None) -> Expression:
    """Number of rows predicted otherwise than by the baseline. In [0, inf); needs no labels.

    `|D[h+]| s_n(D[h+]) + |D[h-]| s_p(D[h-])`.
    """
    return _rate("changes", on, baseline)


def precision(on: Population | None = None) -> Expression:
    """Share of the positive predictions that are right, `TP / (TP + FP)`. In [0, 1]; in constraints only.

    Examples
    --------
    >>> from widemargin.goals import precision
    >>> (precision() >= 0.75).cleared.form
    0.25 * true_positives() - 0.75 * false_positives()
    """
    above = true_positives(on)
    return _ratio("precision", above, above + false_positives(on), on)


def f_beta(beta: float = 1.0, on: Population | None = None) -> Expression:
    """F-measure, `(1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP)`. In [0, 1]; in constraints only.

    Parameters
    ----------
    beta : float > 0, default=1.0
        Weight of recall against precision; above 1 recall counts more.
    on : Population, optional
        Default: everyone.
    """
    weight = checked_number(beta, "beta")
    if not 1e-3 <= weight <= 1e3:
        raise GoalError(f"beta must lie in [0.001, 1000], got {weight}. Use precision() or recall() for the limits.")
    above = (1.0 + weight**2) * true_positives(on)
    return _ratio("f_beta", above, above + weight**2 * false_negatives(on) + false_positives(on), on, beta=weight)


def win_loss_ratio(baseline: str, on: Population | None = None) -> Expression:
    """Wins against a baseline for each loss, `wins / losses`. In [0, inf); in constraints only."""
    return _ratio("win_loss_ratio", wins(baseline, on), losses(baseline, on), on, baseline=baseline)


def win_change_ratio(baseline: str, on: Population | None = None) -> Expression:
    """Share of the changed predictions that are wins, `wins / changes`. In [0, 1]; in constraints only."""
    return _ratio("win_change_ratio", wins(baseline, on), changes(baseline, on), on, baseline=baseline)


coverage = positive_rate
true_positive_rate = recall

RATES: dict[str, Callable[..., Expression]] = {name: globals()[name] for name in __all__}
"""Every function that makes an expression, by its name in texts. Parameters are called `on`, `baseline`, `beta`."""
