"""The language of goals: what a classifier has to achieve, on which rows.

Populations say *which rows*, rates say *what is measured on them*, comparisons make constraints, and a `Goal` puts an
objective and constraints together. Everything here is immutable, hashable and free of data.
"""

from widemargin.goals.binding.sources import External
from widemargin.goals.language.bundles import (
    Bundle,
    demographic_parity,
    equal_opportunity,
    equalized_odds,
    must_be_right,
)
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.expressions import Expression
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import (
    col,
    negative_label,
    positive_label,
    predicted_negative,
    predicted_positive,
)
from widemargin.goals.language.rates import (
    accuracy,
    changes,
    churn,
    coverage,
    error_rate,
    errors,
    f_beta,
    false_negative_rate,
    false_negatives,
    false_positive_rate,
    false_positives,
    loss_rate,
    losses,
    negative_rate,
    positive_rate,
    precision,
    recall,
    true_negative_rate,
    true_negatives,
    true_positive_rate,
    true_positives,
    win_change_ratio,
    win_loss_ratio,
    win_rate,
    wins,
)

__all__ = [
    "Bundle",
    "Constraint",
    "Expression",
    "External",
    "Goal",
    "Population",
    "accuracy",
    "changes",
    "churn",
    "col",
    "coverage",
    "demographic_parity",
    "equal_opportunity",
    "equalized_odds",
    "error_rate",
    "errors",
    "f_beta",
    "false_negative_rate",
    "false_negatives",
    "false_positive_rate",
    "false_positives",
    "loss_rate",
    "losses",
    "must_be_right",
    "negative_label",
    "negative_rate",
    "positive_label",
    "positive_rate",
    "precision",
    "predicted_negative",
    "predicted_positive",
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
