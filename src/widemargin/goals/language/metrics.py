"""The registry of linear rates: data, not code (spec 1, section 1; the paper's Tables 2 and 4).

Every linear rate on a population P has one form,

    sum_{i in P} s_i (p_i [row i matches alpha] + (1 - p_i) [row i matches beta]) / sum_{i in P matching over} s_i,

with `p_i` in [0, 1] the (probability of a) positive prediction and `s_i` the row's weight; a count has the denominator
1. A new rate is one entry here and a two-line function in `rates.py`; algebra, ranges, text form, binding and report
follow from these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from widemargin.exceptions import GoalError

__all__ = ["METRICS", "Metric", "When"]


@dataclass(frozen=True)
class When:
    """Rows with this label and this baseline prediction; None: any.

    Attributes
    ----------
    label, baseline : {+1, -1} or None
    """

    label: int | None = None
    baseline: int | None = None

    def __post_init__(self) -> None:
        if self.label not in (None, 1, -1) or self.baseline not in (None, 1, -1):
            raise GoalError(f"When takes +1, -1 or None, got label={self.label!r}, baseline={self.baseline!r}.")

    def matches(self, label: int, baseline: int) -> bool:
        """Whether a row with this label and baseline prediction (+1 or -1 each) is meant."""
        return self.label in (None, label) and self.baseline in (None, baseline)


@dataclass(frozen=True)
class Metric:
    """A linear rate (or count, where `over` is None).

    Attributes
    ----------
    name : str
    alpha : tuple of When
        Rows whose *positive* prediction counts.
    beta : tuple of When
        Rows whose *negative* prediction counts.
    over : When or None
        Rows whose weight is the denominator; None: a count.
    doc : str
        The formula in words of the spec's table.
    """

    name: str
    alpha: tuple[When, ...]
    beta: tuple[When, ...]
    over: When | None
    doc: str

    def _conditions(self) -> tuple[When, ...]:
        return self.alpha + self.beta + (() if self.over is None else (self.over,))

    @property
    def needs_label(self) -> bool:
        """Whether the rows' labels are needed."""
        return any(when.label is not None for when in self._conditions())

    @property
    def needs_baseline(self) -> bool:
        """Whether a baseline's predictions are needed."""
        return any(when.baseline is not None for when in self._conditions())

    @property
    def is_count(self) -> bool:
        """Whether it is a (weighted) number of rows and not a share."""
        return self.over is None

    @property
    def range(self) -> tuple[float, float]:
        """Attainable values: [0, 1] for a rate, [0, inf) for a count."""
        return (0.0, float("inf")) if self.is_count else (0.0, 1.0)

    def value(self, label: int, baseline: int, positive: bool) -> int:
        """What one row adds to the numerator: 1 or 0."""
        return int(any(when.matches(label, baseline) for when in (self.alpha if positive else self.beta)))


_ANY, _POS, _NEG = When(), When(label=1), When(label=-1)
_SAID_POS, _SAID_NEG = When(baseline=1), When(baseline=-1)

_ENTRIES = (
    Metric("positive_rate", (_ANY,), (), _ANY, "s_p(D), the share predicted positive (coverage)"),
    Metric("negative_rate", (), (_ANY,), _ANY, "s_n(D), the share predicted negative"),
    Metric("error_rate", (_NEG,), (_POS,), _ANY, "(FP + FN) / (|D+| + |D-|)"),
    Metric("accuracy", (_POS,), (_NEG,), _ANY, "(TP + TN) / (|D+| + |D-|)"),
    Metric("recall", (_POS,), (), _POS, "s_p(D+), the true positive rate"),
    Metric("false_positive_rate", (_NEG,), (), _NEG, "s_p(D-)"),
    Metric("true_negative_rate", (), (_NEG,), _NEG, "s_n(D-)"),
    Metric("false_negative_rate", (), (_POS,), _POS, "s_n(D+)"),
    Metric("churn", (_SAID_NEG,), (_SAID_POS,), _ANY, "(|D[h+]| s_n(D[h+]) + |D[h-]| s_p(D[h-])) / |D|"),
    Metric("win_rate", (When(1, -1),), (When(-1, 1),), _ANY, "wins / |D|"),
    Metric("loss_rate", (When(-1, -1),), (When(1, 1),), _ANY, "losses / |D|"),
    Metric("errors", (_NEG,), (_POS,), None, "FP + FN"),
    Metric("true_positives", (_POS,), (), None, "TP = |D+| s_p(D+)"),
    Metric("false_positives", (_NEG,), (), None, "FP = |D-| s_p(D-)"),
    Metric("true_negatives", (), (_NEG,), None, "TN = |D-| s_n(D-)"),
    Metric("false_negatives", (), (_POS,), None, "FN = |D+| s_n(D+)"),
    Metric("wins", (When(1, -1),), (When(-1, 1),), None, "|D[+,h-]| s_p(D[+,h-]) + |D[-,h+]| s_n(D[-,h+])"),
    Metric("losses", (When(-1, -1),), (When(1, 1),), None, "|D[+,h+]| s_n(D[+,h+]) + |D[-,h-]| s_p(D[-,h-])"),
    Metric("changes", (_SAID_NEG,), (_SAID_POS,), None, "|D[h+]| s_n(D[h+]) + |D[h-]| s_p(D[h-])"),
)

METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ENTRIES})
"""All linear rates and counts by name."""
