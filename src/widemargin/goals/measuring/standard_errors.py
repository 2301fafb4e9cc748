"""Standard errors of what a goal measures, over the draw of the rows.

A rate is a quotient of two sums over rows, and everything else is built from rates, so to first order each measure is
a sum of one number per row, its *influence*: how much the measure moves, per unit of weight, with the row. The variance
is then the sum of squared influences (the delta method; for a rate over a fixed population, exactly the textbook
`p (1 - p) / n`). Differences between two classifiers on the same rows are taken row by row, which removes what both
have in common.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.linear import Linear, Ratio
from widemargin.goals.measuring.rates_of_predictions import RateTable, ratio_value

__all__ = ["Influence", "covariance", "objective_influence", "quotient_error", "slack_variances"]

Influence: TypeAlias = tuple[Floats, ...]
"""For each source, what every row adds to a measure, weight included."""


def objective_influence(tied: TiedGoal, positive: Sequence[npt.NDArray[Any]]) -> Influence:
    """Influence of each row on the objective.

    Parameters
    ----------
    tied : TiedGoal
    positive : sequence of ndarray of shape (n_s,)
        For each source, 1 or True where a row is predicted positive, or the probability of it.

    Returns
    -------
    tuple of ndarray of shape (n_s,)
    """
    values = tied.table.values(tied.positive_mass(positive))
    return _by_row(_form_influence(tied.goal.objective, tied.table, values), tied, positive)


def slack_variances(tied: TiedGoal, positive: Sequence[npt.NDArray[Any]]) -> Floats:
    """Variance of the slack of each constraint, split by source, shape (n_sources, m).

    NaN where a ratio is undefined.
    """
    values = tied.table.values(tied.positive_mass(positive))
    variances = np.empty((len(tied.sources), tied.n_constraints))
    for j, item in enumerate(tied.constraints):
        ratio = item.cleared.ratio
        # The sign does not matter: that of the slack or of its negative.
        if ratio is None:
            pair = _form_influence(item.constraint.difference, tied.table, values)
        else:
            pair = _quotient_influence(ratio.numerator, ratio.denominator, tied.table, values)
        variances[:, j] = _variances(_by_row(pair, tied, positive))
    return variances


def quotient_error(above: Linear, below: Linear, tied: TiedGoal, positive: Sequence[npt.NDArray[Any]]) -> float:
    """Standard error of the quotient of two forms without ratios; NaN where the denominator is zero."""
    values = tied.table.values(tied.positive_mass(positive))
    pair = _quotient_influence(above, below, tied.table, values)
    return float(np.sqrt(_variances(_by_row(pair, tied, positive)).sum()))


def covariance(influences: Sequence[Influence]) -> Floats:
    """Covariance matrix of K measures on the same rows, shape (K, K)."""
    total = np.zeros((len(influences), len(influences)))
    for parts in zip(*influences, strict=True):
        rows = np.stack(parts)
        sums = rows.sum(axis=1)
        total += rows @ rows.T - np.outer(sums, sums) / max(rows.shape[1], 1)
    return total


def _variances(influence: Influence) -> Floats:
    """Variance of the sum over the rows of each source, which are independent draws."""
    sums = [float(x @ x) - float(x.sum()) ** 2 / max(len(x), 1) for x in influence]
    variances: Floats = np.maximum(sums, 0.0)  # NaN stays NaN
    return variances


def _form_influence(form: Linear, table: RateTable, values: Floats) -> tuple[Floats, Floats]:
    """Influence of a form without ratios, by cell: of a row predicted negative, and what a positive prediction adds."""
    positive, base = table.weighted(form)
    gain = positive - base
    factors = table.factors([form])
    offset = factors.multiply(np.where(table.is_count, 0.0, np.nan_to_num(values)))
    for block in table.blocks():
        base[block.place] -= (offset @ block.over)[0]
    return base, gain


def _quotient_influence(above: Linear, below: Linear, table: RateTable, values: Floats) -> tuple[Floats, Floats]:
    """The same of a quotient: `(influence of above - quotient * influence of below) / below`."""
    quotient, denominator = ratio_value(Ratio(above, below), table, values)
    if not np.isfinite(quotient):
        nothing = np.full(table.space.n_cells, np.nan)
        return nothing, nothing
    base, gain = _form_influence(above.plus(below, -float(quotient)), table, values)
    return base / float(denominator), gain / float(denominator)


def _by_row(pair: tuple[Floats, Floats], tied: TiedGoal, positive: Sequence[npt.NDArray[Any]]) -> Influence:
    base, gain = pair
    return tuple(
        (base[cell] + gain[cell] * share) * (1.0 if weight is None else weight)
        for cell, weight, share in zip(tied.cell, tied.row_weight, positive, strict=True)
    )
