"""Exact moves of a linear classifier along lines, by its 0/1 rates, and the searches that are made of them.

The lines are the features and the bias; rotations, that is, a feature and the bias together about a row near the
boundary; on tables that fit the cache also any direction in which some rows near the boundary keep their scores; and
the segment between two classifiers.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Floats, Ints
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.line_loops import Counted, Features, best_on_line, try_lines
from widemargin.solvers.ramp.majorization import RampProblem
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE

__all__ = ["Columns", "MoveOptions", "Moved", "Step", "best_step", "improve"]


@dataclass(frozen=True)
class MoveOptions:
    """Moves along lines.

    Attributes
    ----------
    lines : int
        To be tried from each candidate. More lower the training error further, at a time that grows with them.
    walk : int
        To be tried on a walk that starts again where it finds nothing better.
    any_direction : int
        Features up to which half of the lines go along any direction. Of more features a few act at a time (those of
        tables of words do), and lines along single ones were measured to be better.
    small : int
        Rows times features up to which lines are as many; on larger tables they are fewer.
    entries : float
        Entries that the moves from one candidate may look at there, in passes over the features.
    most_fixed : int
        Most rows that a direction holds fixed.
    near : int
        Rows nearest to the boundary that are held fixed, at least; three for each feature.
    reach, reach_share : int, float
        So many rows, at least, and such a share of all may change sides in one move. Moves are local: longer ones were
        measured to be rare, and sorting all rows to be most of the work.
    kicks : tuple of float
        How far from the best a walk starts again, by turns, in norms of its w: nearer ends in the same place, farther
        in worse ones.
    patience : int
        Lines without a better classifier after which it does.
    chunk : int
        Lines between two looks at the budget.
    """

    lines: int = 150
    walk: int = 400
    any_direction: int = 20
    small: int = 1_000_000
    entries: float = 0.5
    most_fixed: int = 11
    near: int = 30
    reach: int = 64
    reach_share: float = 0.01
    kicks: tuple[float, ...] = (0.3, 1.0)
    patience: int = 100
    chunk: int = 100


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


class Moved(NamedTuple):
    """A classifier after moves along lines.

    Attributes
    ----------
    w, b : the model, `f(x) = <w, x> - b`.
    objective : float
    excess : ndarray of shape (m,)
    """

    w: Floats
    b: float
    objective: float
    excess: Floats


def best_step(
    problem: RampProblem, z: Floats, row: Ints, x: Floats, *, limits: tuple[float, float] = (-np.inf, np.inf)
) -> Step:
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

    Returns
    -------
    Step
        Violation is the sum of the excesses above rounding; t lies in the middle between two turns.
    """
    objective, excess = problem.values(problem.hard_mass(z))
    row, x = row[x != 0.0], x[x != 0.0]
    n = row.shape[0]
    found, order, ahead = np.array([_violation(excess), objective, 0.0]), np.empty(n, np.int64), np.empty(n, np.int64)
    length = best_on_line(
        z, row, x, n, limits[0], limits[1], _counted(problem), excess, objective, np.empty((2, n)), order, ahead,
        np.empty_like(excess), found,
    )  # fmt: skip
    return Step(length, float(found[0]), float(found[1]))


def improve(problem: RampProblem, columns: "Columns", w: Floats, b: float, *, walk: bool, budget: Budget) -> Moved:
    """Move along one line after the other; the best classifier on the way.

    Parameters
    ----------
    problem : RampProblem
    columns : Columns
        The features of its rows.
    w : ndarray of shape (d,)
    b : float
    walk : bool
        Whether to start again near the best where nothing better is found. Else the moves end there.
    budget : Budget

    Returns
    -------
    Moved
        Never worse than (w, b) in (violation, objective), with lam / 2 times what the squared norm has grown by added:
        without that the moves from a strongly regularised model of 1,200 rows and 256 columns lost 6 points of recall
        on new rows.
    """
    n, d = problem.weight.shape[0], problem.n_features
    rng = np.random.default_rng(0)  # the same rows and start give the same model
    at, best_w = np.append(w, b), np.append(w, b)
    objective, excess = problem.values(problem.hard_mass(problem.scores(w, b)))
    best, count = np.array([_violation(excess), objective]), np.zeros(3, np.int64)
    constant = np.concatenate([np.atleast_1d(part) for part in problem.values(np.zeros_like(problem.cell_weight))])
    near, reach = min(n, max(OPTIONS.near, 3 * d)), max(OPTIONS.reach, int(OPTIONS.reach_share * n))
    lines, most = OPTIONS.walk if walk else OPTIONS.lines, OPTIONS.entries * columns.n_stored
    order, done = rng.permutation(d + 1), 0
    while done < lines and (columns.small or count[2] < most) and not budget.exhausted:
        size = min(OPTIONS.chunk, lines - done)
        feature = order[np.arange(done, done + size) % (d + 1)]
        n_fixed = (rng.random(size) < 0.5 * columns.small).astype(np.int64)  # half are rotations
        if columns.any_direction:
            along = rng.random(size) < 0.5
            feature[along], n_fixed[along] = (
                -1,
                rng.integers(0, max(min(d, OPTIONS.most_fixed + 1), 1), int(along.sum())),
            )
        try_lines(
            columns.features, columns.bias, _counted(problem), constant, problem.lam, feature,
            rng.standard_normal((size, d + 1)) / columns.spread, n_fixed,
            rng.integers(0, 1 << 30, (size, OPTIONS.most_fixed)), np.array(OPTIONS.kicks),
            OPTIONS.patience if walk else lines + 1, near, reach, float(w @ w), at, best_w, best, count,
        )  # fmt: skip
        done += size
    w, b = best_w[:d].copy(), float(best_w[d])
    return Moved(w, b, *problem.values(problem.hard_mass(problem.scores(w, b))))


def _counted(problem: RampProblem) -> Counted:
    coef = problem.coef
    return Counted(problem.weight, problem.cell, coef.alpha0 - coef.beta0, *coef.entries)


def _violation(excess: Floats) -> float:
    return float(excess[excess > FEASIBLE].sum())


class Columns:
    """The features of all rows, column by column.

    Attributes
    ----------
    small, any_direction : bool
        Whether many lines may be tried, and in any direction.
    n_stored : int
        Entries.
    features : Features
    bias : float
        What the bias adds to each score: -1, or 0 where it may not move.
    spread : ndarray of shape (d + 1,)
        Standard deviations of the features; 1 for constant ones and for the bias.
    """

    def __init__(self, rows: RowBlocks, fit_intercept: bool) -> None:
        n, d = rows.n_rows, rows.n_features
        self.small = n * (d + 1) <= OPTIONS.small
        self.any_direction = self.small and d <= OPTIONS.any_direction
        self.n_stored, self.bias = rows.n_stored, -1.0 if fit_intercept else 0.0
        parts = [block.X if block.whole else block.X[block.row_of] for block in rows.blocks]
        indptr, row, value = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)
        if self.any_direction or not any(sp.issparse(part) for part in parts):
            dense = np.empty((d, n))
            for block, part in zip(rows.blocks, parts, strict=True):
                dense[:, block.place] = part.T if isinstance(part, np.ndarray) else part.toarray().T
            spread = dense.std(axis=1)
        else:
            dense, columns = np.zeros((0, n)), sp.csc_matrix(sp.vstack([sp.csr_matrix(part) for part in parts]))
            indptr, row = columns.indptr.astype(np.int64), columns.indices.astype(np.int64)
            value = columns.data.astype(np.float64)
            spread = np.sqrt(np.asarray(columns.multiply(columns).mean(axis=0)).ravel())
        self.features = Features(dense, indptr, row, value)
        self.spread = np.append(np.where(spread > 0.0, spread, 1.0), 1.0)
