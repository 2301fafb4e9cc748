"""Exact moves of a linear classifier along one direction, by its 0/1 rates; and the descent that is made of them.

Along a direction x the scores are `z + t x`, and a row changes sides only at `t = -z_i / x_i`. So all 0/1 rates are
step functions of t: one sort and one pass over cumulative sums try every classifier on the line. The directions are the
features and the bias, rotations about a row near the boundary where these help no more, and the segment between two
classifiers where slack is to be used.
"""

from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._numba import kernel
from widemargin._threads import in_threads, threads_in_force
from widemargin._typing import Cells, Floats, Integers, Ints
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.majorization import RampProblem
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

__all__ = ["Columns", "MoveOptions", "Moved", "Step", "best_step", "descend", "walk"]


@dataclass(frozen=True)
class MoveOptions:
    """Moves of single coordinates.

    Attributes
    ----------
    tie : float
        Turns closer than this, relative to their distance, count as one: the rounding of a score does not tell them
        apart.
    passes : int
        Entries that the descents of a search may look at, in passes over the features. Six lowered the error of one
        table of seven any more, and took as long as the convex steps.
    least_entries : int
        Entries that may be looked at anyway: on small tables a hundred passes take a few milliseconds.
    pivots : int
        Rotations that are tried for each feature once moves of features help no more.
    near : float
        Share of the rows, those nearest to the boundary, that the pivots are drawn from; and so many may change sides
        in one move. A descent is local: longer moves were measured to be rare, and sorting all rows to be most of the
        work.
    few : int
        Rows that may change sides in one move in any case.
    restarts : int
        Descents from random models near the best one, on small tables.
    kicks : tuple of float
        How far from it they start, by turns, in norms of its w: nearer ends in the same place, farther in worse ones.
    restart_passes : int
        So many passes over all entries must be within `least_entries`, or there are no restarts: on larger tables a
        descent from a random model would not come to its end.
    abreast : int
        Rows from which several lines are tried at a time by threads; one takes as long as calling them on fewer.
    """

    tie: float = 1e-9
    passes: float = 2.0
    least_entries: int = 300_000
    pivots: int = 4
    near: float = 0.1
    few: int = 500
    restarts: int = 20
    kicks: tuple[float, ...] = (0.3, 1.0)
    restart_passes: int = 10
    abreast: int = 10_000


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
class Moved:
    """A classifier after moves along single directions.

    Attributes
    ----------
    w, b : the model, `f(x) = <w, x> - b`.
    objective : float
    excess : ndarray of shape (m,)
    n_moves : int
    looked_at : int
        Entries of features that were looked at.
    """

    w: Floats
    b: float
    objective: float
    excess: Floats
    n_moves: int
    looked_at: int


def best_step(
    problem: RampProblem, z: Floats, row: Ints, x: Floats, *, limits: tuple[float, float] = (-np.inf, np.inf),
    here: tuple[float, Floats] | None = None, nearest: int | None = None,
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
    nearest : int, optional
        Only the classifiers up to so many turns from here are tried; None: all of the line.

    Returns
    -------
    Step
        Violation is the sum of the excesses above rounding; t lies in the middle between two turns.
    """
    objective, excess = problem.values(problem.hard_mass(z)) if here is None else here
    coef, (low, high) = problem.coef, limits
    turn, moving = np.empty(row.shape[0]), np.empty(row.shape[0], dtype=np.int64)
    count = turns(z, row, x, turn, moving)
    turn, moving = turn[:count], moving[:count]
    # NumPy selects and sorts: compiled, these two would take longer at the first fit than all other loops.
    distance = np.abs(turn)
    if nearest is not None and nearest < count:
        within = float(np.partition(distance, nearest)[nearest])
        close = distance < within
        turn, moving, distance = turn[close], moving[close], distance[close]
        low, high = max(low, -within), min(high, within)
    found = np.array([_violation(excess), objective, 0.0])
    length = best_of_line(
        turn, np.argsort(distance), np.empty(turn.shape[0], dtype=np.int64), low, high, distance, moving, z,
        problem.weight, problem.cell, coef.alpha0 - coef.beta0, *coef.entries, excess, objective, OPTIONS.tie,
        FEASIBLE, np.empty_like(excess), found,
    )  # fmt: skip
    return Step(length, float(found[0]), float(found[1]))


def descend(problem: RampProblem, columns: "Columns", w: Floats, b: float, *, entries: float, budget: Budget) -> Moved:
    """Move along one direction after the other, until no move lowers the violation, or without any the objective.

    A pass tries the bias and each feature, in an order that is drawn anew, and takes each move that helps at once: 0/1
    rates are flat between their steps, so the first gain is as good as the best of a pass that costs as much as all
    others. Where no feature helps by itself, a pass of rotations follows: feature j turns the boundary about a row near
    it, that is w_j and b move together. In the plane these are all there is to try.

    Parameters
    ----------
    problem : RampProblem
    columns : Columns
        The features of its rows.
    w : ndarray of shape (d,)
    b : float
    entries : float
        The descent ends when it has looked at so many entries of the features.
    budget : Budget

    Returns
    -------
    Moved
        Never worse than (w, b) in (violation, objective), regulariser included.
    """
    rng = np.random.default_rng(0)  # the same rows and start give the same model
    at = _Point.of(problem, w.copy(), b)
    near = max(OPTIONS.few, int(OPTIONS.near * at.z.shape[0]))
    # Most lines help no more, so several are tried at a time from the same point; those behind a move are tried again.
    abreast = threads_in_force() if at.z.shape[0] >= OPTIONS.abreast else 1
    moves, looked_at, rotating = 0, 0, False

    def look(first: int, last: int) -> list[tuple[int, Step]]:
        here, found = (at.objective, at.excess), list[tuple[int, Step]]()
        for line in lines[first:last]:
            row, x = line.direction(columns)
            found.append((row.shape[0], best_step(problem, at.z, row, x, here=here, nearest=near)))
        return found

    while True:
        before = moves
        features = rng.permutation(len(columns)).tolist()
        for some in [[j] for j in features if j != columns.bias] if rotating else [features]:
            lines = _rotations(columns, some[0], at.z, rng) if rotating else [_Line(j) for j in some]
            while lines:
                for n_rows, step in chain.from_iterable(in_threads(min(abreast, len(lines)), 1, look, pieces=1)):
                    if looked_at >= entries or budget.exhausted:
                        return Moved(at.w, at.b, at.objective, at.excess, moves, looked_at)
                    line = lines.pop(0)
                    looked_at += n_rows
                    moved = _moved_along(problem, at, line, step, is_bias=line.feature == columns.bias)
                    if moved is not None:
                        at, moves = moved, moves + 1
                        break
        if moves > before:
            rotating = False
        elif rotating or columns.bias is None:
            return Moved(at.w, at.b, at.objective, at.excess, moves, looked_at)
        else:
            rotating = True


class _Point(NamedTuple):
    """A classifier (w, b) with its scores, its objective and what each constraint exceeds its bound by."""

    w: Floats
    b: float
    z: Floats
    objective: float
    excess: Floats

    @classmethod
    def of(cls, problem: RampProblem, w: Floats, b: float) -> "_Point":
        z = problem.scores(w, b)  # afresh: sums of moves would gather rounding
        return cls(w, b, z, *problem.values(problem.hard_mass(z)))


def _moved_along(problem: RampProblem, at: _Point, line: "_Line", step: Step, *, is_bias: bool) -> _Point | None:
    """The point behind a step along a line; None where the move is not worth it."""
    violation = _violation(at.excess)
    if step.length == 0.0 or (step.violation, step.objective) >= (violation, at.objective):
        return None
    w = at.w.copy()
    if not is_bias:
        w[line.feature] += step.length
    there = _Point.of(problem, w, at.b + step.length * (1.0 if is_bias else line.turn))
    # A move has to be worth what it adds to the regulariser. Without this, on 1,200 rows of 256 columns the polish of a
    # strongly regularised model lost 6 points of recall on new rows.
    lower_by = at.objective - there.objective - 0.5 * problem.lam * float(w @ w - at.w @ at.w)
    fewer = violation - _violation(there.excess)
    return there if fewer > FEASIBLE or (fewer >= 0.0 and lower_by > FEASIBLE) else None


@dataclass(frozen=True)
class _Line:
    """A direction to move along.

    Attributes
    ----------
    feature : int
        Its number; the bias comes last.
    turn : float
        What the bias moves by for each unit of the feature.
    entries : ndarray of shape (n,) or None
        The feature of all rows, where several lines share it.
    """

    feature: int
    turn: float = 0.0
    entries: Floats | None = None

    def direction(self, columns: "Columns") -> tuple[Ints, Floats]:
        """Rows whose scores change, and by how much for each unit."""
        if self.entries is None:
            return columns[self.feature]
        return np.arange(self.entries.shape[0]), self.entries - self.turn


def _rotations(columns: "Columns", j: int, z: Floats, rng: np.random.Generator) -> list[_Line]:
    """The rotations of a feature about some of the rows that are near the boundary now."""
    row, x = columns[j]
    about_zero = np.zeros(z.shape[0])
    about_zero[row] = x
    nearest = np.argpartition(np.abs(z), int(OPTIONS.near * (z.shape[0] - 1)))
    # The score of the pivot stays, so the bias moves by its entry.
    pivots = rng.choice(nearest[: int(OPTIONS.near * z.shape[0]) + 1], OPTIONS.pivots)
    return [_Line(j, turn, about_zero) for turn in about_zero[pivots].tolist()]


def _violation(excess: Floats) -> float:
    return float(excess[excess > FEASIBLE].sum())


class Columns:
    """The features of all rows: `columns[j]` is (rows, entries); the bias is feature d, -1 everywhere.

    Attributes
    ----------
    bias : int or None
        Number of the bias; None: it may not move.
    """

    def __init__(self, rows: RowBlocks, fit_intercept: bool) -> None:
        self._rows = rows
        self.bias = rows.n_features if fit_intercept else None
        self._parts: list[sp.csc_matrix | None] = [
            sp.csc_matrix(block.X[block.row_of]) if sp.issparse(block.X) else None for block in rows.blocks
        ]

    def __len__(self) -> int:
        return self._rows.n_features + (self.bias is not None)

    def __getitem__(self, j: int) -> tuple[Ints, Floats]:
        if j == self.bias:
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


TINY = float(np.finfo(float).tiny)
"""The smallest distance that is not zero."""


@kernel
def turns(z: Floats, row: Ints, x: Floats, turn: Floats, moving: Ints) -> int:
    """t at which each row changes sides, into `turn`, and the row, into `moving`; returns how many do.

    Rows that the direction does not move never turn and are left out.
    """
    count = 0
    for e in range(row.shape[0]):
        if x[e] == 0.0:
            continue
        score = z[row[e]]
        # a score of exactly 0 counts as negative, so its row turns at once where the direction raises it
        turn[count] = np.copysign(TINY, x[e]) if score == 0.0 else -score / x[e]
        moving[count] = row[e]
        count += 1
    return count


@kernel
def best_of_line(
    turn: Floats, order: Ints, ahead: Ints, low: float, high: float, distance: Floats, row: Ints, z: Floats,
    weight: Floats, cell: Cells, gain: Floats, indptr: Integers, column: Integers, change: Floats, here: Floats,
    objective: float, tie: float, feasible_tol: float, excess: Floats, found: Floats,
) -> float:  # fmt: skip
    """The `length` of `best_step`, both ways along the line: t lies in [low, high] around 0.

    The turns are met in `order`, nearest first; `ahead` is work space, the other arguments are those of `walk`.
    """
    length = 0.0
    for sign, last in ((1.0, high), (-1.0, -low)):
        # Only turns ahead are met when going this way.
        count = 0
        for e in order:
            if sign * turn[e] > 0.0:
                ahead[count] = e
                count += 1
        # The second way has to beat what the first one has found.
        before = found[0], found[1], found[2]
        walk(
            distance, ahead[:count], row, z, weight, cell, gain, indptr, column, change, here, objective, tie, last,
            feasible_tol, excess, found,
        )  # fmt: skip
        if before != (found[0], found[1], found[2]):
            length = sign * found[2]
    return length


@kernel
def walk(
    distance: Floats, order: Ints, row: Ints, z: Floats, weight: Floats, cell: Cells, gain: Floats, indptr: Integers,
    column: Integers, change: Floats, here: Floats, objective: float, tie: float, last: float, feasible_tol: float,
    excess: Floats, found: Floats,
) -> None:  # fmt: skip
    """Go from the present scores over the turns in `order`, outwards; keep the best interval between two of them.

    Row `row[e]` changes sides at `distance[e] > 0`; to the positive side where its score in `z` is not. `gain[c]` and
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
        moved = -weight[i] if z[i] > 0.0 else weight[i]
        objective += moved * gain[c]
        for q in range(indptr[c], indptr[c + 1]):
            excess[column[q]] += moved * change[q]
        low = distance[e]
        if low >= last:
            break
        high = min(distance[order[p + 1]] if p + 1 < n else np.inf, last)
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
