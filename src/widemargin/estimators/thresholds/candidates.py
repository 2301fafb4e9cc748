"""The best threshold of given scores for a tied goal, by a sweep over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.thresholds.threshold_sweep import best_threshold

__all__ = ["SweepProblem", "TriedThreshold", "between", "choose_threshold", "sweep_problem"]

LEAST_DENOMINATOR = 1e-9
"""Share of its largest value below which a ratio's denominator counts as zero."""

STEEPEST = 1e3
"""Largest coefficient of a denominator where linear programmes are solved."""


@dataclass(frozen=True)
class TriedThreshold:
    """The threshold: a row is positive where its score is larger.

    Attributes
    ----------
    threshold : float
    met : bool
        Whether the (tightened) constraints are met; if not, the threshold is the one of smallest summed violation.
    objective : float
        Of the goal, up to a constant of the data.
    violation : float
        Sum of the scaled excesses.
    """

    threshold: float
    met: bool
    objective: float
    violation: float


class SweepProblem(NamedTuple):
    """Rows of weight > 0 of all sources, and the tightened goal, as the searches over thresholds take them.

    Attributes
    ----------
    z, weight, cell : ndarray of shape (n,)
    used : ndarray of bool
        Which of all rows they are.
    coef : CellCoefficients
    gamma : ndarray
    """

    z: Floats
    weight: Floats
    cell: npt.NDArray[np.int32]
    used: npt.NDArray[np.bool_]
    coef: CellCoefficients
    gamma: Floats


def choose_threshold(tied: TiedGoal, scores: Sequence[Floats], natural: float, margins: Floats) -> TriedThreshold:
    """Try every threshold between two scores, and both ends.

    Parameters
    ----------
    tied : TiedGoal
    scores : sequence of ndarray of shape (n_s,)
        For each source; larger means rather positive.
    natural : float
        The scorer's own threshold; of equally good ones the nearest to it is taken.
    margins : ndarray of shape (m,)
        Tighten the bounds by this much, in units of `bound.bound`.

    Returns
    -------
    TriedThreshold
        Of the thresholds that meet all constraints, the one of lowest objective. A ratio with denominator zero meets
        nothing.
    """
    problem = sweep_problem(tied, scores, margins)
    found = best_threshold(
        problem.z - natural, problem.weight, problem.cell, problem.coef, problem.gamma, tied.cell_weight
    )
    threshold = between(problem.z, found.n_positive, natural)
    return TriedThreshold(threshold, found.violation == 0.0, found.objective, found.violation)


def sweep_problem(tied: TiedGoal, scores: Sequence[Floats], margins: Floats, *, for_lp: bool = False) -> SweepProblem:
    """Rows and goal as `choose_threshold` takes them, or with coefficients of moderate size for linear programmes."""
    z, cell = np.concatenate(scores), np.concatenate(tied.cell)
    weights = [np.ones(len(z_s)) if w is None else w for z_s, w in zip(scores, tied.row_weight, strict=True)]
    weight = np.concatenate(weights)
    used = weight > 0.0  # a row without weight is as good as absent
    if not used.all():
        z, cell, weight = z[used], cell[used], weight[used]
    return SweepProblem(z, weight, cell, used, *_with_denominators(tied, margins, for_lp))


def _with_denominators(tied: TiedGoal, margins: Floats, for_lp: bool) -> tuple[CellCoefficients, Floats]:
    """The scaled coefficients and bounds, and a constraint more for each ratio: its denominator is not zero."""
    least, miss = LEAST_DENOMINATOR, 1.0  # an undefined ratio misses by 1, and so is the nearest one last
    smallest = min((float(w[w > 0.0].min(initial=np.inf)) for w in tied.row_weight if w is not None), default=1.0)
    coef, k = tied.coefficients, len(tied.cell_weight)
    gamma = (tied.bound - margins) / tied.scale
    cells = [np.repeat(np.arange(k), np.diff(coef.indptr))]
    columns: list[npt.NDArray[Any]] = [coef.column]
    values = [coef.value / tied.scale[coef.column]]
    more: list[float] = []
    for ratio in dict.fromkeys(item.cleared.ratio for item in tied.constraints):
        if ratio is None:
            continue
        alpha, beta = tied.table.weighted(ratio.denominator)
        constant = ratio.denominator.constant
        largest = constant + float(np.maximum(alpha, beta) @ tied.cell_weight)
        if for_lp:  # of mixtures: on average half a row; less would drown in the tolerances of the programme
            steps = np.concatenate([alpha, beta])
            least = 0.5 * min(smallest, 1.0) * float(steps[steps > 0.0].min(initial=largest)) / largest
            miss = min(1.0, STEEPEST * least)
        unit = -miss / (least * max(largest, np.finfo(float).tiny))
        for part in (unit * alpha, -unit * beta):
            used = np.flatnonzero(part)
            cells.append(used)
            columns.append(np.full(len(used), len(gamma) + len(more)))
            values.append(part[used])
        # a signed coefficient counts what turns: the constraint is larger by all that could
        more.append(-miss - unit * (constant + float((alpha + beta) @ tied.cell_weight)))
    if not more:
        return coef._replace(value=values[0]), gamma
    row = np.concatenate(cells)
    order = np.argsort(row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=k))]).astype(np.int64)
    coef = coef._replace(indptr=indptr, column=np.concatenate(columns)[order], value=np.concatenate(values)[order])
    return coef, np.append(gamma, more)


def between(z: Floats, count: int, natural: float) -> float:
    """A threshold that calls exactly the `count` largest scores positive, in spite of rounding."""
    n = len(z)
    ordered = np.partition(z, sorted({max(n - count - 1, 0), min(n - count, n - 1)}))
    if count == 0:
        top = float(ordered[-1])
        return natural if top <= natural else top + 0.5
    if count == n:
        least = float(ordered[0])
        return natural if least > natural else float(min(least - 0.5, np.nextafter(least, -np.inf)))
    low, high = float(ordered[n - count - 1]), float(ordered[n - count])
    if low <= natural < high:
        return natural
    middle = low + 0.5 * (high - low)
    return middle if low <= middle < high else low
