"""What abstention would buy: the error of the surest rows, and the area under that curve."""

import dataclasses

import numpy as np

from widemargin._typing import Bools, Floats

COVERAGES = tuple(tenth / 10 for tenth in range(1, 11))
"""Shares of the rows that a report shows the error of."""


@dataclasses.dataclass(frozen=True)
class RiskCoverage:
    """The error of a classifier that decides only where it is surest.

    Attributes
    ----------
    area : float
        Mean of the error over all coverages, the area under the curve (Geifman and El-Yaniv 2017); lower is better.
    best_area : float
        That of the same errors if every wrong row were among the least sure.
    errors : tuple of float
        Of the surest 10%, 20%, ... 100% of the rows (`COVERAGES`).
    """

    area: float
    best_area: float
    errors: tuple[float, ...]


def risk_coverage(certainty: Floats, wrong: Bools, weight: Floats) -> RiskCoverage:
    """The curve of some rows.

    Rows of equal certainty are decided together; weight 2 is a row that is there twice.

    Parameters
    ----------
    certainty : ndarray of shape (n,)
        Larger: surer.
    wrong : ndarray of bool, shape (n,)
    weight : ndarray of shape (n,)
        >= 0, with a positive sum.

    References
    ----------
    Y. Geifman and R. El-Yaniv, "Selective classification for deep neural networks", NeurIPS 2017.
    """
    covered, errors = curve(certainty, wrong, weight)
    steps = np.diff(covered, prepend=0.0)
    total = float(errors[-1])
    # With the share r of the weight wrong and all of it least sure, the error is 0 up to a coverage of 1 - r and
    # `1 - (1 - r) / c` beyond, whose integral is `r + (1 - r) log(1 - r)`.
    best = total + (1.0 - total) * float(np.log1p(-total)) if total < 1.0 else 1.0
    places = np.minimum(np.searchsorted(covered, np.array(COVERAGES) - 1e-12), len(covered) - 1)
    return RiskCoverage(float(steps @ errors), best, tuple(errors[places].tolist()))


def curve(certainty: Floats, wrong: Bools, weight: Floats) -> tuple[Floats, Floats]:
    """Every coverage that a threshold of the certainty can have, rising, and the error there."""
    # A threshold cannot separate rows of equal certainty, so the curve has a point only behind the last of them.
    used = np.flatnonzero(weight > 0.0)
    order = used[np.argsort(-certainty[used], kind="stable")]
    ends = np.append(np.flatnonzero(np.diff(certainty[order])), len(order) - 1)
    decided = np.cumsum(weight[order])[ends]
    missed = np.cumsum(weight[order] * wrong[order])[ends]
    return decided / decided[-1], missed / decided
