"""Exact moves of a linear classifier along one direction, by its 0/1 rates; and the repair that is made of them.

Along a direction x the scores are `z + t x`, and a row changes sides only at `t = -z_i / x_i`. So all 0/1 rates are
step functions of t: one sort and one pass over cumulative sums try every classifier on the line. The directions are the
features (and the bias) where a bound is missed by a little and has to be met, and the segment between two classifiers
where slack is to be used. Polishing the 0/1 objective by such moves was measured to overfit, so nothing is polished.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._numba import kernel
from widemargin._typing import Bools, Cells, Floats, Integers, Ints
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.majorization import RampProblem
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

__all__ = ["MoveOptions", "Repaired", "Step", "best_step", "repair", "walk"]


@dataclass(frozen=True)
class MoveOptions:
    """Moves of single coordinates.

    Attributes
    ----------
    tie : float
        Turns closer than this, relative to their distance, count as one: the rounding of a score does not tell them
        apart.
    passes : int
        Most moves of a repair. More meet bounds that are missed by more, and each costs up to a look at every feature.
    short : int
        Best features of a whole pass, which are tried alone as long as they gain half as much as it did. Fewer have
        more whole passes made.
    """

    tie: float = 1e-9
    passes: int = 25
    short: int = 16


OPTIONS = MoveOptions()
"""Those of every fit."""


class Step(NamedTuple):
    """The best point of a line.

    Attributes
    ----------
    length : float
        t; 0 where no point beats the present one.
    violation, objective : float
        There, in the problem's scale.
    """

    length: float
    violation: float
    objective: float


@dataclass(frozen=True)
class Repaired:
    """A classifier after moves of single coordinates.

    Attributes
    ----------
    w, b : the model, `f(x) = <w, x> - b`.
    objective : float
    excess : ndarray of shape (m,)
    n_moves : int
    """

    w: Floats
    b: float
    objective: float
    excess: Floats
    n_moves: int


def best_step(
    problem: RampProblem, z: Floats, row: Ints, x: Floats, *, limits: tuple[float, float] = (-np.inf, np.inf),
    here: tuple[float, Floats] | None = None,
) -> Step:  # fmt: skip
    """The best classifier of the line `z + t x`: least violation, then lowest 0/1 objective, then smallest `|t|`.

    Parameters
    ----------
    problem : RampProblem
    z : ndarray of shape (n,)
        Present scores.
    row : ndarray of int, shape (e,)
        Rows that the direction moves, each once.
    x : ndarray of shape (e,)
        Their entries; zeros are allowed and move nothing.
    limits : (low, high)
        Range of t, around 0.
    here : (objective, excess), optional
        At z, where they are known.

    Returns
    -------
    Step
        Violation is the sum of the excesses above rounding; t lies in the middle between two turns.
    """
    objective, excess = problem.values(problem.hard_mass(z)) if here is None else here
    # Rows that the direction does not move never turn.
    moving = x != 0.0
    if not moving.all():
        row, x = row[moving], x[moving]
    coef = problem.coef
    scores = z[row]
    # a score of exactly 0 counts as negative, so its row turns at once where the direction raises it
    turn = np.where(scores == 0.0, np.copysign(np.finfo(float).tiny, x), -scores / x)
    best = np.array([_violation(excess), objective, 0.0])
    work = np.empty_like(excess)
    length = 0.0
    for sign, last in ((1.0, limits[1]), (-1.0, -limits[0])):
        # Only turns ahead are met when going this way.
        mine = np.flatnonzero(sign * turn > 0.0)
        distance = sign * turn[mine]
        best[2] = abs(length)
        # The second way has to beat what the first one has found.
        before = best.copy()
        walk(
            distance, np.argsort(distance, kind="stable"), row[mine], sign * x[mine] > 0.0, problem.weight,
            problem.cell, coef.alpha0 - coef.beta0, *coef.entries, excess, objective,
            OPTIONS.tie, float(last), FEASIBLE, work, best,
        )  # fmt: skip
        if not np.array_equal(before, best):
            length = sign * float(best[2])
    return Step(length, float(best[0]), float(best[1]))


def repair(
    problem: RampProblem, w: Floats, b: float, *, passes: int = OPTIONS.passes, budget: Budget | None = None
) -> Repaired:
    """Move single coordinates until the 0/1 rates meet the bounds, or no move helps.

    A pass tries each feature, and the bias where there is one, and makes the best of all these moves: the one that
    leaves the least violation, and of several that leave none the one of lowest objective. The passes after it try its
    16 best features only, as long as they gain at least half as much. It ends as soon as the bounds are met, and before
    a move at whose pace the passes that are left would not do.

    Parameters
    ----------
    problem : RampProblem
    w : ndarray of shape (d,)
    b : float
    passes : int, default=25
        Most moves.
    budget : Budget, optional

    Returns
    -------
    Repaired
        Never worse than (w, b) in (violation, objective). Kernel rows have no columns to move along: unchanged.
    """
    budget = budget or Budget()
    columns = _Columns(problem.rows, problem.fit_intercept) if isinstance(problem.rows, RowBlocks) else None
    w = w.copy()
    z = problem.scores(w, b)
    objective, excess = problem.values(problem.hard_mass(z))
    moves, hoped, short = 0, np.inf, list[int]()
    while columns is not None and moves < passes and _violation(excess) > 0.0 and not budget.exhausted:
        # first the features that did best last time: a whole pass looks at every entry of X
        before = _violation(excess)
        tried = _try(problem, columns, short, z, objective, excess)
        if not tried or before - tried[0][0] < hoped:  # the short list is used up
            tried = _try(problem, columns, range(len(columns)), z, objective, excess)
            if not tried:
                break
            # The short list is used as long as it gains half as much as a whole pass has gained.
            hoped, short = 0.5 * (before - tried[0][0]), [j for _, _, j, _ in tried[: OPTIONS.short]]
        _, _, chosen, length = tried[0]
        # The bias is the feature behind the last one.
        moved, shifted = w.copy(), b
        if chosen < w.shape[0]:
            moved[chosen] += length
        else:
            shifted += length
        z = problem.scores(moved, shifted)  # afresh: sums of moves would gather rounding
        there, after = problem.values(problem.hard_mass(z))
        # given up where the passes that are left would not do at this pace
        gained = _violation(excess) - _violation(after)
        if gained <= 0.0 or _violation(excess) > gained * (passes - moves):
            break
        w, b, objective, excess = moved, shifted, there, after
        moves += 1
    return Repaired(w, b, objective, excess, moves)


def _try(
    problem: RampProblem, columns: "_Columns", features: Iterable[int], z: Floats, objective: float, excess: Floats
) -> list[tuple[float, float, int, float]]:
    """Violation, objective, feature and length of each feature's best move that helps, the best first."""
    now, found = (_violation(excess), objective), []
    for j in features:
        # The present rates are the same for every feature, so they are handed on.
        step = best_step(problem, z, *columns[j], here=(objective, excess))
        if (step.violation, step.objective) < now:
            found.append((step.violation, step.objective, j, step.length))
    return sorted(found)


def _violation(excess: Floats) -> float:
    return float(excess[excess > FEASIBLE].sum())


class _Columns:
    """The features of all rows: `columns[j]` is (rows, entries); the bias is feature d, -1 everywhere."""

    def __init__(self, rows: RowBlocks, fit_intercept: bool) -> None:
        self._rows, self._intercept = rows, fit_intercept
        self._parts: list[sp.csc_matrix | None] = [
            sp.csc_matrix(block.X[block.row_of]) if sp.issparse(block.X) else None for block in rows.blocks
        ]

    def __len__(self) -> int:
        return self._rows.n_features + int(self._intercept)

    def __getitem__(self, j: int) -> tuple[Ints, Floats]:
        if j == self._rows.n_features:
            return np.arange(self._rows.n_rows), np.full(self._rows.n_rows, -1.0)
        rows, entries = [], []
        for block, part in zip(self._rows.blocks, self._parts, strict=True):
            if part is None:
                rows.append(np.arange(block.start, block.start + block.row_of.shape[0]))
                entries.append(block.X[block.row_of, j].astype(np.float64))
            else:
                # A column of sparse rows lies in one piece in CSC order.
                place = slice(part.indptr[j], part.indptr[j + 1])
                rows.append(part.indices[place].astype(np.int64) + block.start)
                entries.append(part.data[place].astype(np.float64))
        return np.concatenate(rows), np.concatenate(entries)


@kernel
def walk(
    turn: Floats, order: Ints, row: Ints, rising: Bools, weight: Floats, cell: Cells, gain: Floats, indptr: Integers,
    column: Integers, change: Floats, here: Floats, objective: float, tie: float, last: float, feasible_tol: float,
    excess: Floats, found: Floats,
) -> None:  # fmt: skip
    """Go from the present scores over the turns in `order`, outwards; keep the best interval between two of them.

    Row `row[e]` changes sides at the distance `turn[e] > 0`; to the positive side where `rising[e]`. `gain[c]` and
    `change[q]` are what a unit of weight of cell c adds to the objective and to constraint `column[q]` when it turns
    positive; `here` holds the excesses at distance 0, `excess` is work space. Distances that lie less than `tie` (of
    their own size) apart count as one, and those beyond `last` are not tried. `found` holds violation, objective and
    distance of the best so far and is replaced by what is better: lower violation, then lower objective, then the
    smaller distance.
    """
    n, m = order.shape[0], here.shape[0]
    for j in range(m):
        excess[j] = here[j]
    for p in range(n):
        # the next row to change sides; only its cell's coefficients change anything
        e = order[p]
        i = row[e]
        c = cell[i]
        moved = weight[i] if rising[e] else -weight[i]
        objective += moved * gain[c]
        for q in range(indptr[c], indptr[c + 1]):
            excess[column[q]] += moved * change[q]
        low = turn[e]
        if low >= last:
            break
        high = min(turn[order[p + 1]] if p + 1 < n else np.inf, last)
        # two turns that rounding does not tell apart leave no room for a classifier between them
        if high - low <= tie * (1.0 + low):
            continue
        violation = 0.0
        for j in range(m):
            if excess[j] > feasible_tol:
                violation += excess[j]
        # the middle of the interval is farthest from both turns; the last interval has no end
        middle = 0.5 * (low + high) if high < np.inf else 2.0 * low + 1e-3
        # violations and objectives are sums in another order each time, so equal ones are told by a tiny difference
        better = violation < found[0]
        if violation == found[0]:
            better = objective < found[1] - 1e-15
            if not better and objective <= found[1] + 1e-15:
                better = middle < found[2]
        if better:
            found[0], found[1], found[2] = violation, objective, middle
