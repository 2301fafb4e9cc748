"""The language of goals: what a classifier has to achieve, on which rows.

Populations say *which rows*, rates say *what is measured on them*, comparisons make constraints, and a `Goal` puts an
objective and constraints together. Everything here is immutable, hashable and free of data.
"""

from widemargin.goals.language import rates
from widemargin.goals.language.bundles import (
    Bundle,
    demographic_parity,
    equal_opportunity,
    equalized_odds,
    must_be_right,
)
from widemargin.goals.language.constraints import Constraint, Expression
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import (
    col,
    negative_label,
    positive_label,
    predicted_negative,
    predicted_positive,
)
from widemargin.goals.language.rates import *  # noqa: F403 - its __all__ is the list of rates
from widemargin.rows import External

__all__ = [
    "Bundle",
    "Constraint",
    "Expression",
    "External",
    "Goal",
    "Population",
    "col",
    "demographic_parity",
    "equal_opportunity",
    "equalized_odds",
    "must_be_right",
    "negative_label",
    "positive_label",
    "predicted_negative",
    "predicted_positive",
]
__all__ += rates.__all__
