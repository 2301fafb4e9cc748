"""Exact moves of a linear classifier along one direction, by its 0/1 rates; and the repair that is made of them.

Along a direction x the scores are `z + t x`, and a row changes sides only at `t = -z_i / x_i`. So all 0/1 rates are
step functions of t: one sort and one pass over cumulative sums try every classifier on the line. The directions are the
features (and the bias) where a bound is missed by a little and has to be met, and the segment between two classifiers
where slack is to be used. Polishing the 0/1 objective by such moves was measured to overfit, so nothing is polished.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin._typing import Floats, Ints
from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp import coordinate_moves_loops as loops
from widemargin.solvers.thresholds.bias_sweep import FEASIBLE

__all__ = ["HardProblem", "Repaired", "Step", "best_step", "repair"]

_TIE = 1e-9  # turns closer than this, relative, are not told apart by the rounding of a score
_PASSES = 25
_SHORT = 16  # best features of a whole pass, which are tried alone as long as they gain half as much as it did


class HardProblem(Protocol):
    """A problem whose 0/1 rates can be measured."""

    @property
    def rows(self) -> RowBlocks | GramRows: ...
    @property
    def weight(self) -> Floats: ...
    @property
    def cell(self) -> npt.NDArray[np.int32]: ...
    @property
    def coef(self) -> CellCoefficients: ...
    @property
    def fit_intercept(self) -> bool: ...
    @property
    def n_constraints(self) -> int: ...
    def scores(self, w: Floats, b: float) -> Floats:
        """`X w - b`."""
        ...

    def hard_mass(self, z: Floats) -> Floats:
        """Weight of each cell with `z > 0`."""
        ...

    def values(self, positive: Floats) -> tuple[float, Floats]:
        """Loss and excess of each constraint at a mass by cell."""
        ...


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
    problem: HardProblem, z: Floats, row: Ints, x: Floats, *, limits: tuple[float, float] = (-np.inf, np.inf)
) -> Step:
    """The best classifier of the line `z + t x`: least violation, then lowest 0/1 objective, then smallest `|t|`.

    Parameters
    ----------
    problem : HardProblem
    z : ndarray of shape (n,)
        Present scores.
    row : ndarray of int, shape (e,)
        Rows that the direction moves, each once.
    x : ndarray of shape (e,)
        Their entries; zeros are allowed and move nothing.
    limits : (low, high)
        Range of t, around 0.

    Returns
    -------
    Step
        Violation is the sum of the excesses above rounding; t lies in the middle between two turns.
    """
    objective, here = problem.values(problem.hard_mass(z))
    return _line(problem, z, row, x, objective, here, limits)


def _line(
    problem: HardProblem, z: Floats, row: Ints, x: Floats, objective: float, here: Floats, limits: tuple[float, float]
) -> Step:
    moving = x != 0.0
    if not moving.all():
        row, x = row[moving], x[moving]
    coef = problem.coef
    scores = z[row]
    turn = np.where(scores == 0.0, np.copysign(np.finfo(float).tiny, x), -scores / x)
    best = np.array([_violation(here), objective, 0.0])
    work = np.empty_like(here)
    length = 0.0
    for sign, last in ((1.0, limits[1]), (-1.0, -limits[0])):
        mine = np.flatnonzero(sign * turn > 0.0)
        distance = sign * turn[mine]
        best[2] = abs(length)
        before = best.copy()
        loops.walk(
            distance, np.argsort(distance, kind="stable"), row[mine], sign * x[mine] > 0.0, problem.weight,
            problem.cell, coef.alpha0 - coef.beta0, *coef.entries, here, objective,
            _TIE, float(last), FEASIBLE, work, best,
        )  # fmt: skip
        if not np.array_equal(before, best):
            length = sign * float(best[2])
    return Step(length, float(best[0]), float(best[1]))


def repair(
    problem: HardProblem, w: Floats, b: float, *, passes: int = _PASSES, budget: Budget | None = None
) -> Repaired:
    """Move single coordinates until the 0/1 rates meet the bounds, or no move helps.

    A pass tries each feature, and the bias where there is one, and makes the best of all these moves: the one that
    leaves the least violation, and of several that leave none the one of lowest objective. The passes after it try its
    16 best features only, as long as they gain at least half as much. It ends as soon as the bounds are met, and before
    a move at whose pace the passes that are left would not do.

    Parameters
    ----------
    problem : HardProblem
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
        before = _violation(excess)
        tried = _try(problem, columns, short, z, objective, excess)
        if not tried or before - tried[0][0] < hoped:  # the short list is used up
            tried = _try(problem, columns, range(len(columns)), z, objective, excess)
            if not tried:
                break
            hoped, short = 0.5 * (before - tried[0][0]), [j for _, _, j, _ in tried[:_SHORT]]
        _, _, chosen, length = tried[0]
        moved, shifted = w.copy(), b
        if chosen < w.shape[0]:
            moved[chosen] += length
        else:
            shifted += length
        z = problem.scores(moved, shifted)  # afresh: sums of moves would gather rounding
        there, after = problem.values(problem.hard_mass(z))
        gained = _violation(excess) - _violation(after)
        if gained <= 0.0 or _violation(excess) > gained * (passes - moves):
            break
        w, b, objective, excess = moved, shifted, there, after
        moves += 1
    return Repaired(w, b, objective, excess, moves)


def _try(
    problem: HardProblem, columns: "_Columns", features: Iterable[int], z: Floats, objective: float, excess: Floats
) -> list[tuple[float, float, int, float]]:
    """Violation, objective, feature and length of each feature's best move that helps, the best first."""
    now, found = (_violation(excess), objective), []
    for j in features:
        step = _line(problem, z, *columns[j], objective, excess, (-np.inf, np.inf))
        if (step.violation, step.objective) < now:
            found.append((step.violation, step.objective, j, step.length))
    return sorted(found)


def _violation(excess: Floats) -> float:
    return float(excess[excess > FEASIBLE].sum())


class _Columns:
    """The features of all rows: `columns[j]` is (rows, entries); the bias is feature d, -1 everywhere."""

    def __init__(self, rows: RowBlocks, fit_intercept: bool) -> None:
        self._rows, self._intercept = rows, fit_intercept
        self._parts: list[Any] = [
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
                place = slice(part.indptr[j], part.indptr[j + 1])
                rows.append(part.indices[place].astype(np.int64) + block.start)
                entries.append(part.data[place].astype(np.float64))
        return np.concatenate(rows), np.concatenate(entries)
