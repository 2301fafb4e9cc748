"""The rates and counts that a user can ask for (Goh et al. 2016, Tables 2 and 4).

`on` is the population, None for everyone. `s_p(D)` is the share of D predicted positive, `s_n(D) = 1 - s_p(D)`; D+ and
D- are the labelled positives and negatives, `D[y,h]` the rows with label y on which the baseline predicts h; TP, FP,
TN, FN are counts on `on`. All counts are weighted by the sample weights.

`of` names the class that counts as positive; all others count as negative. Rates that speak of a class need it with
more than two classes; with two it may take the place of `pos_label`. `error_rate`, `accuracy`, `errors`, `churn`,
`changes`, wins and losses speak of no class.

A new linear rate is one entry in `linear.METRICS` and, here, a function of two lines and its name in `__all__`.
"""

from collections.abc import Callable
from typing import Any

from widemargin.exceptions import GoalError
from widemargin.goals.language.constraints import Constraint, Expression
from widemargin.goals.language.linear import Linear, Rate, Ratio, ScoreFact
from widemargin.goals.language.populations import Population, as_population
from widemargin.goals.language.values import Literal, checked_name, checked_number, number_text

__all__ = [
    "abstention_rate",
    "accuracy",
    "certified_rate",
    "changes",
    "churn",
    "confusion",
    "coverage",
    "decision_rate",
    "decisions",
    "error_rate",
    "errors",
    "f_beta",
    "false_negative_rate",
    "false_negatives",
    "false_positive_rate",
    "false_positives",
    "loss_rate",
    "losses",
    "margin_below",
    "margin_quantile",
    "negative_rate",
    "positive_rate",
    "precision",
    "prediction_rate",
    "recall",
    "selective_error",
    "true_negative_rate",
    "true_negatives",
    "true_positive_rate",
    "true_positives",
    "win_change_ratio",
    "win_loss_ratio",
    "win_rate",
    "wins",
]


def _rate(
    metric: str, on: Population | None, *baseline: str, of: Literal | None = None, actual: Literal | None = None
) -> Expression:
    names = [checked_name(name, "a baseline's name") for name in baseline]
    rate = Rate(metric, as_population(on), names[0] if names else None, of=of, actual=actual)
    return Expression(Linear(((1.0, rate),)))


def _ratio(name: str, above: Expression, below: Expression, on: Population | None, **arguments: Any) -> Expression:
    return Expression(Linear(((1.0, Ratio(above.form, below.form, name, as_population(on), **arguments)),)))


def positive_rate(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Share predicted positive, `s_p(D)`; the paper calls it coverage. In [0, 1]; needs no labels.

    Parameters
    ----------
    on : Population, optional
        Default: everyone.
    of : label, optional
        As in `prediction_rate`, which it then is.
    """
    return _rate("positive_rate", on, of=of)


def negative_rate(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Share predicted negative, `s_n(D) = 1 - s_p(D)`. In [0, 1]; needs no labels."""
    return _rate("negative_rate", on, of=of)


def error_rate(on: Population | None = None) -> Expression:
    """Share of wrong predictions, `(FP + FN) / (|D+| + |D-|)`. In [0, 1]."""
    return _rate("error_rate", on)


def accuracy(on: Population | None = None) -> Expression:
    """Share of right predictions, `(TP + TN) / (|D+| + |D-|)`. In [0, 1]."""
    return _rate("accuracy", on)


def recall(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Share of the positives predicted positive, `s_p(D+) = TP / (TP + FN)`; the true positive rate. In [0, 1].

    Parameters
    ----------
    on : Population, optional
        Default: everyone.
    of : label, optional
        The class whose rows are to be found, `recall(of="cat")`; default: the positive one of two.
    """
    return _rate("recall", on, of=of)


def false_positive_rate(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Share of the negatives predicted positive, `s_p(D-) = FP / (FP + TN)`. In [0, 1]."""
    return _rate("false_positive_rate", on, of=of)


def true_negative_rate(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Share of the negatives predicted negative, `s_n(D-) = TN / (FP + TN)`. In [0, 1]."""
    return _rate("true_negative_rate", on, of=of)


def false_negative_rate(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Share of the positives predicted negative, `s_n(D+) = FN / (TP + FN)`. In [0, 1]."""
    return _rate("false_negative_rate", on, of=of)


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


def true_positives(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Number of positives predicted positive, `TP = |D+| s_p(D+)`. In [0, inf)."""
    return _rate("true_positives", on, of=of)


def false_positives(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Number of negatives predicted positive, `FP = |D-| s_p(D-)`. In [0, inf)."""
    return _rate("false_positives", on, of=of)


def true_negatives(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Number of negatives predicted negative, `TN = |D-| s_n(D-)`. In [0, inf)."""
    return _rate("true_negatives", on, of=of)


def false_negatives(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Number of positives predicted negative, `FN = |D+| s_n(D+)`. In [0, inf)."""
    return _rate("false_negatives", on, of=of)


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


def precision(on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """Share of the positive predictions that are right, `TP / (TP + FP)`. In [0, 1]; in constraints only.

    Parameters
    ----------
    on : Population, optional
        Default: everyone.
    of : label, optional
        The class whose predictions are meant; default: the positive one of two.

    Examples
    --------
    >>> from widemargin.goals import precision
    >>> (precision() >= 0.75).cleared.form
    0.25 * true_positives() - 0.75 * false_positives()
    """
    above = true_positives(on, of=of)
    return _ratio("precision", above, above + false_positives(on, of=of), on, of=of)


def f_beta(beta: float = 1.0, on: Population | None = None, *, of: Literal | None = None) -> Expression:
    """F-measure, `(1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP)`. In [0, 1]; in constraints only.

    Parameters
    ----------
    beta : float > 0, default=1.0
        Weight of recall against precision; above 1 recall counts more.
    on : Population, optional
        Default: everyone.
    of : label, optional
        As in `precision`.
    """
    weight = checked_number(beta, "beta")
    if not 1e-3 <= weight <= 1e3:
        raise GoalError(f"beta must lie in [0.001, 1000], got {weight}. Use precision() or recall() for the limits.")
    above = (1.0 + weight**2) * true_positives(on, of=of)
    wrong = weight**2 * false_negatives(on, of=of) + false_positives(on, of=of)
    return _ratio("f_beta", above, above + wrong, on, beta=weight, of=of)


def win_loss_ratio(baseline: str, on: Population | None = None) -> Expression:
    """Wins against a baseline for each loss, `wins / losses`. In [0, inf); in constraints only."""
    return _ratio("win_loss_ratio", wins(baseline, on), losses(baseline, on), on, baseline=baseline)


def win_change_ratio(baseline: str, on: Population | None = None) -> Expression:
    """Share of the changed predictions that are wins, `wins / changes`. In [0, 1]; in constraints only."""
    return _ratio("win_change_ratio", wins(baseline, on), changes(baseline, on), on, baseline=baseline)


def prediction_rate(on: Population | None = None, *, of: Literal) -> Expression:
    """Share predicted as a class; the `positive_rate` for the positive one of two. In [0, 1]; needs no labels.

    Parameters
    ----------
    on : Population, optional
        Default: everyone.
    of : label
        The class.
    """
    if of is None:
        raise GoalError('prediction_rate needs the class that it speaks of: prediction_rate(of="cat").')
    return positive_rate(on, of=of)


def confusion(actual: Literal, predicted: Literal, on: Population | None = None) -> Expression:
    """Share of the rows of one class that are predicted as another. In [0, 1].

    Parameters
    ----------
    actual, predicted : label
        The class that the rows have, and the one that they get; if both are the same, this is the recall of the class.
    on : Population, optional
        Default: everyone.

    Examples
    --------
    >>> from widemargin.goals import confusion
    >>> confusion("cat", "dog") <= 0.05
    <Constraint confusion("cat", "dog") <= 0.05>
    """
    return _rate("confusion", on, of=predicted, actual=actual)


def decision_rate(on: Population | None = None) -> Expression:
    """Share of rows that are decided; 1 unless the classifier abstains. In [0, 1]; needs no labels.

    A classifier that abstains (`GoalThresholdClassifier(abstain=...)`) calls a row neither positive nor negative. Every
    rate counts decisions: an undecided row is in the denominator of `recall`, `positive_rate` and `error_rate`, but is
    neither found, nor called positive, nor wrong.
    """
    return _rate("decision_rate", on)


def coverage(on: Population | None = None, *, abstain: bool = False) -> Expression:
    """Share predicted positive, as in the paper; with `abstain=True` the share that is decided. In [0, 1].

    Parameters
    ----------
    on : Population, optional
        Default: everyone.
    abstain : bool, default=False
        False: `positive_rate`. True: `decision_rate`, which is what coverage means for classifiers that abstain.
    """
    return decision_rate(on) if abstain else positive_rate(on)


def abstention_rate(on: Population | None = None) -> Expression:
    """Share of rows that are not decided, `1 - decision_rate(on)`. In [0, 1]; needs no labels."""
    return 1.0 - decision_rate(on)


def decisions(on: Population | None = None) -> Expression:
    """Number of rows that are decided. In [0, inf); needs no labels."""
    return _rate("decisions", on)


def selective_error(on: Population | None = None) -> Expression:
    """Share of the decisions that are wrong, `errors / decisions`. In [0, 1]; in constraints only.

    Undefined, and so never met, where no row is decided; the error rate if all are.
    """
    return _ratio("selective_error", errors(on), decisions(on), on)


def margin_below(level: float, on: Population | None = None) -> Expression:
    """Share of rows whose margin is below a number. In [0, 1].

    The margin of a row is `y f(x)`, as in `margin_report`: in units of `decision_function`, else a difference of
    probabilities. For audits of fitted classifiers; training refuses it. Of a classifier that abstains it counts
    decided rows: add `abstention_rate` to count the others, too.

    Parameters
    ----------
    level : float
        0 asks for the share that is wrong.
    on : Population, optional
        Default: everyone.
    """
    return _rate("margin_below", on, ScoreFact("margin_below", checked_number(level, "a margin level")).name)


class MarginQuantile:
    """A quantile of margins; what `margin_quantile` returns. Its one use is `margin_quantile(q) >= level`."""

    def __init__(self, share: float, on: Population | None) -> None:
        self.share, self.on = share, on

    def __repr__(self) -> str:
        return f"margin_quantile({number_text(self.share)})"

    def __ge__(self, level: object) -> Constraint:
        constraint = margin_below(checked_number(level, "the bound of a quantile of margins"), self.on) <= self.share
        assert isinstance(constraint, Constraint)
        return constraint

    def __le__(self, level: object) -> Constraint:
        raise GoalError("a quantile of margins has a floor only: write margin_quantile(q) >= level.")


def margin_quantile(q: float, on: Population | None = None) -> MarginQuantile:
    """The margin that all but a share q of the rows reach; compared with `>=` and a number only.

    `margin_quantile(q, on) >= level` is the constraint `margin_below(level, on) <= q`, and is reported as such, because
    a share of rows has an exact interval and an exact test.

    Parameters
    ----------
    q : float in (0, 1)
    on : Population, optional
        Default: everyone.

    Examples
    --------
    >>> from widemargin.goals import margin_quantile
    >>> margin_quantile(0.05) >= 0.1
    <Constraint margin_below(0.1) <= 0.05>
    """
    share = checked_number(q, "the share of a quantile of margins")
    if not 0.0 < share < 1.0:
        raise GoalError(f"margin_quantile takes a share of rows between 0 and 1, got {share}. 0.05 leaves out 5%.")
    return MarginQuantile(share, as_population(on))


def certified_rate(radius: float, on: Population | None = None, *, norm: str = "l2") -> Expression:
    """Share of rows whose decision no change of their features up to a radius overturns. In [0, 1]; needs no labels.

    In the units of the features that the classifier is given (`certified_radii`). For audits of fitted classifiers;
    training refuses it.

    Parameters
    ----------
    radius : float > 0
    on : Population, optional
        Default: everyone.
    norm : {"l2", "linf"}, default="l2"
        How the size of a change is measured: by its Euclidean length, or by the largest change of a single feature.
    """
    size = checked_number(radius, "the radius of certified_rate")
    if size <= 0.0:
        raise GoalError(f"certified_rate takes a radius above 0, got {size}.")
    if norm not in ("l2", "linf"):
        raise GoalError(f'certified_rate takes norm="l2" or norm="linf", got {norm!r}.')
    return _rate("certified_rate", on, ScoreFact("certified_rate", size, None if norm == "l2" else norm).name)


true_positive_rate = recall

RATES: dict[str, Callable[..., Expression | MarginQuantile]] = {name: globals()[name] for name in __all__}
"""Every function that makes an expression, by its name in texts. Its parameters have readers of their names there."""
