"""Which candidate validation chooses, under constraints that are measured with noise.

A bound that training meets with equality is missed by half of all equally good models on other rows, so a candidate is
not thrown out for being on the wrong side, only for being there by more than noise: where, for some constraint,

    mean held-out slack  <  - z(1 - 0.05 / m) * its standard error        (m constraints, z the normal quantile),

which a candidate whose true slacks are all 0 does with probability of at most 5% (Bonferroni). Among the others the
lowest mean held-out objective is best; the rule of one standard error takes the simplest candidate whose objective is
within one standard error of the best one's (Breiman et al. 1984).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.stats

from widemargin._typing import Floats

__all__ = ["LEVEL", "RULES", "Choice", "choose_candidate"]

Flags = npt.NDArray[np.bool_]

LEVEL = 0.05
"""Probability with which a candidate that sits on all its bounds is thrown out by chance."""

RULES = ("best", "one-standard-error")


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidate chosen.

    Attributes
    ----------
    index : int
    admissible : ndarray of bool, shape (K,)
        Candidates whose violations are within noise, and that met the goal on the training rows of every fold.
    excess : ndarray of shape (K,)
        The largest violation of each in standard errors (0: none); infinite where a rate is undefined.
    """

    index: int
    admissible: Flags
    excess: Floats


def choose_candidate(
    objective: Floats, objective_error: Floats, slack: Floats, slack_error: Floats, met: Flags, rule: str
) -> Choice:
    """Choose among K candidates, simplest first.

    Parameters
    ----------
    objective, objective_error : ndarray of shape (K,)
        Mean over the folds, and its standard error.
    slack, slack_error : ndarray of shape (K, m)
    met : ndarray of bool, shape (K,)
        Whether the goal was met on the training rows of every fold.
    rule : str
        One of `RULES`.

    Returns
    -------
    Choice
        Where no candidate is admissible, the one of least `excess` (of those that met the goal in training, if any).
    """
    n, m = slack.shape
    missed = np.maximum(-slack, 0.0)
    in_errors = np.divide(missed, slack_error, out=np.where(missed > 0.0, np.inf, 0.0), where=slack_error > 0.0)
    excess = np.where(np.isnan(slack), np.inf, in_errors).max(axis=1, initial=0.0)
    admissible = met & (excess <= scipy.stats.norm.ppf(1.0 - LEVEL / max(m, 1))) & np.isfinite(objective)
    if not admissible.any():
        return Choice(_first_least(excess, met if met.any() else np.ones(n, bool)), admissible, excess)
    best = _first_least(objective, admissible)
    if rule == "one-standard-error":
        within = admissible & (objective <= objective[best] + objective_error[best])
        best = int(np.flatnonzero(within)[0])
    return Choice(best, admissible, excess)


def _first_least(values: Floats, among: Flags) -> int:
    """The first position of the least value among some."""
    return (
        int(np.argmin(np.where(among, values, np.inf)))
        if np.isfinite(values[among]).any()
        else int(np.flatnonzero(among)[0])
    )
