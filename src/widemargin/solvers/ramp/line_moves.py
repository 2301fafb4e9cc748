"""Exact moves of a linear classifier along lines, by its 0/1 rates, and the searches that are made of them.

The lines are the features and the bias; rotations, that is, a feature and the bias together about a row near the
boundary; on tables that fit the cache also any direction in which some rows near the boundary keep their scores; and
the segment between two classifiers.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget
from widemargin.solvers.convex.subsample_start import is_uneven
from widemargin.solvers.ramp.line_loops import TIE, Counted, Lines, State, hold, try_lines
from widemargin.solvers.ramp.majorization import RampProblem
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE, best_threshold, swept

__all__ = ["Columns", "MoveOptions", "Moved", "best_share", "improve"]


@dataclass(frozen=True)
class MoveOptions:
    """Moves along lines.

    Attributes
    ----------
    lines : int
        To be tried from each candidate; half as many on small tables, where they do more on the walk that follows.
    walk, walk_of_few, few_rows : int
        Lines to be tried on a walk that starts again where it finds nothing better: at least the first. Among few rows
        a line costs little and every row counts for much, so on tables of n rows they are the second for each feature
        along which any direction is tried, at most `(few_rows / n) ** 2`. On 175 goals of drawn tables of 110 rows and
        6 features this ended .0006 above the best known training error on average, .018 at worst (1000 lines: .0050 and
        .036), in a tenth more time, and on new rows, at the bound, within a standard error of .0017. On 720 goals of
        drawn tables of 300 to 4,000 rows walks 2.8 to 3.5 times as long ended at training errors lower by .0009 on
        average and at errors on new rows, at the bound, higher by .0007 (standard error .0001); 100 lines ended at
        training errors higher by .0011 and errors there lower by .0009 (.0002).
    any_direction : int
        Features up to which half of the lines go along any direction. Of more features a few act at a time (those of
        tables of words do), and lines along single ones were measured to be better.
    small, copied : int
        Rows times features, of these `any_direction` at most, up to which as many lines are tried; and rows times all
        features, as the entries of dense rows are copied then. On larger tables lines are fewer. Where all features
        counted for the first limit, 128 goals on real tables of 3,300 to 20,000 rows ended at training errors higher by
        .0017 (standard error .0002), as soon, and on new rows, at the bound, lower by .0009 (.0007). As many lines on
        100,000 drawn rows and more doubled the time and gained .0002.
    entries : float
        Entries that the moves from one candidate may look at there, in passes over the features.
    most_fixed : int
        Most rows that a direction holds fixed.
    near : int
        Rows nearest to the boundary that are held fixed, at least; three for each feature.
    reach, reach_share, reach_most : int, float, int
        Such a share of the rows, but so many at least and at most, may change sides in one move. 32 at least ended at
        training errors a third higher above the best known; 128 and 256 at the same ones, and took longer. Without a
        limit moves took a sixth of a fit of 200,000 people of a9a longer, and led as far.
    kicks : tuple of float
        How far from the best a walk starts again, one of these at random, in norms of its w. Near ones end beside the
        best in a better place on tables of a thousand rows; among a hundred rows only far ones leave the place. Where
        weights are very unequal a step is short that takes a few heavy rows across.
    uneven_walk : int
        So many times as long are walks there: every heavy row makes local bests of its own.
    idle : int
        A walk ends after so many lines, and as many again as had led to the best, without a better one. On 546 walks of
        220 real tables .000004 of a gain of .0023 was lost; 4,000 ended .0006 higher on drawn tables of 110 rows. Walks
        of 50,000 lines, between few different rows of very unequal weights, take a fifth of the time.
    more_walks : int
        To be made where the first one leaves bounds missed: of 110 rows some goals have few models, and a refusal says
        that none was found.
    patience : int
        Lines without a better classifier after which it does.
    chunk : int
        Lines that are drawn at a time, about the rows that are near the boundary then.
    numbers : int
        Entries of all of them, at most: half a megabyte or a few.
    """

    lines: int = 150
    walk: int = 400
    walk_of_few: int = 1000
    few_rows: int = 12_000
    any_direction: int = 20
    small: int = 1_000_000
    copied: int = 10_000_000
    entries: float = 0.5
    most_fixed: int = 11
    near: int = 30
    reach: int = 64
    reach_share: float = 0.01
    reach_most: int = 600
    kicks: tuple[float, ...] = (0.05, 0.1, 0.3, 1.0)
    uneven_walk: int = 4
    idle: int = 10_000
    more_walks: int = 3
    patience: int = 100
    chunk: int = 100
    numbers: int = 500_000


OPTIONS = MoveOptions()
"""Those of every fit."""


class Moved(NamedTuple):
    """A classifier after moves along lines.

    Attributes
    ----------
    w, b : the model, `f(x) = <w, x> - b`.
    excess : ndarray of shape (m,)
    """

    w: Floats
    b: float
    objective: float
    excess: Floats


def best_share(problem: RampProblem, z: Floats, there: Floats) -> float:
    """How far to go from a classifier of scores z towards one of scores `there` to violate least, then to err least.

    Both are 0/1 values of `problem`; the share lies in (0, 1], in the middle between two rows that change sides, and is
    0 where nothing on the way is better than z.
    """
    turning = np.flatnonzero((z > 0.0) != (there > 0.0))  # no other row changes sides on the way
    if turning.shape[0] == 0:
        return 0.0
    turn = z[turning] / (z[turning] - there[turning])
    order = np.argsort(turn)
    # Rows that leave the positive side take their weight off, so the way is swept as thresholds are.
    weight = np.where(z[turning] > 0.0, -problem.weight[turning], problem.weight[turning])
    _, excess = problem.values(problem.hard_mass(z))
    count, _, _ = swept(order, -turn, weight, problem.cell[turning], problem.coef, excess, TIE)
    if count == 0:
        return 0.0
    end = float(turn[order[count]]) if count < order.shape[0] else 1.0
    return 0.5 * (float(turn[order[count - 1]]) + end)


def improve(
    problem: RampProblem, columns: "Columns", w: Floats, b: float, *, walk: bool, budget: Budget, seed: int = 0
) -> Moved:
    """Move along one line after the other; the best classifier on the way.

    Parameters
    ----------
    columns : Columns
        The features of its rows.
    w : ndarray of shape (d,)
    walk : bool
        Whether to start again near the best where nothing better is found. Else the moves end there.
    seed : int, default=0
        Of the lines and the random models.

    Returns
    -------
    Moved
        Never worse than (w, b) in (violation, objective), with lam / 2 times what the squared norm has grown by added:
        without that the moves from a strongly regularised model of 1,200 rows and 256 columns lost 6 points of recall
        on new rows.
    """
    n, d = problem.weight.shape[0], problem.n_features
    rng = np.random.default_rng(seed)  # the same rows and start give the same model
    at, counted = _state(problem, np.append(w, b)), _counted(problem)
    lines, most = OPTIONS.lines // (1 + columns.small), OPTIONS.entries * columns.n_stored
    if walk:
        # The ways to divide n rows grow with the power of the features, and a line over few rows costs next to nothing.
        longer = OPTIONS.walk_of_few * (d if columns.any_direction else 1)
        lines = max(min((OPTIONS.few_rows // n) ** 2, longer), OPTIONS.walk)
        lines *= OPTIONS.uneven_walk if is_uneven(problem.weight) else 1
    # The lines go through the features in one random order after the other, so that none is favoured by its number.
    order, done, last_gain, best = rng.permutation(d + 1), 0, 0, at.best.copy()
    reach = max(OPTIONS.reach, min(int(OPTIONS.reach_share * n), OPTIONS.reach_most))
    # On large tables it is the entries that cost time, not the number of lines: their sum is what ends the moves there.
    # Where every row lies on its better side, as those of a separable table may, no model is better.
    least = float(np.minimum(problem.coef.alpha0, problem.coef.beta0) @ problem.cell_weight)
    while done < lines and (columns.small or at.tried[1] < most) and not budget.exhausted:
        if done > 2 * last_gain + OPTIONS.idle or (at.best[0] == 0.0 and at.best[1] <= least + TIE):
            break
        if at.tried[0] >= OPTIONS.patience and walk:
            # Nothing along a line is better than a local best, so the walk goes on from a random model near the best
            # one, which is kept beside it.
            far = OPTIONS.kicks[int(rng.integers(len(OPTIONS.kicks)))]
            kicked = _kicked(problem, columns, at.best_w, far, rng)
            at = _state(problem, kicked)._replace(best_w=at.best_w, best=at.best)
        size = min(max(min(OPTIONS.chunk, OPTIONS.numbers // n), 1), lines - done)
        features = order[np.arange(done, done + size) % (d + 1)]
        done += try_lines(
            columns.lines(features, at.z, rng), counted, problem.lam, reach,
            OPTIONS.patience if walk else lines + 1, float(w @ w), at,
        )  # fmt: skip
        if not np.array_equal(at.best, best):
            last_gain, best = done, at.best.copy()
    # The walk has added up changes; what is returned is measured once more from the model itself.
    w, b = at.best_w[:d].copy(), float(at.best_w[d])
    return Moved(w, b, *problem.values(problem.hard_mass(problem.scores(w, b))))


def _state(problem: RampProblem, w: Floats) -> State:
    """A walk at (w, b), its best so far."""
    z = problem.scores(w[:-1], float(w[-1]))
    objective, excess = problem.values(problem.hard_mass(z))
    best = np.array([excess[excess > FEASIBLE].sum(), objective])
    work = np.empty(z.shape[0]), np.empty(z.shape[0], np.int64), np.empty_like(excess)
    return State(w.copy(), z, excess, np.array([objective]), w.copy(), best, np.zeros(2, np.int64), *work)


def _kicked(problem: RampProblem, columns: "Columns", w: Floats, far: float, rng: np.random.Generator) -> Floats:
    """A random classifier, so many norms of w from it, of its size and with its best bias."""
    # In units of the spread of each feature, so that a kick moves the scores by as much along every one of them.
    direction = rng.standard_normal(w.shape[0] - 1) / columns.spread[:-1]
    kicked, size = w.copy(), float(np.linalg.norm(w[:-1]))
    kicked[:-1] += far * size / np.linalg.norm(direction) * direction
    # Back to the norm of w: 0/1 rates do not feel it, and the price of a larger one is not what is explored here. A
    # kick of a single feature may lead to 0, where there is nothing to scale.
    kicked *= size / (float(np.linalg.norm(kicked[:-1])) or size or 1.0)
    if columns.bias != 0.0:
        z = problem.scores(kicked[:-1], float(kicked[-1]))
        kicked[-1] += best_threshold(
            z, problem.weight, problem.cell, problem.coef, problem.gamma, problem.cell_weight
        ).threshold
    return kicked


def _counted(problem: RampProblem) -> Counted:
    coef = problem.coef
    return Counted(problem.weight, problem.cell, coef.alpha0 - coef.beta0, *coef.entries)


class Columns:
    """The features of all rows, column by column, and lines along them.

    Attributes
    ----------
    small, any_direction : bool
        Whether many lines may be tried, and in any direction.
    n_stored : int
        Entries.
    n_features : int
    bias : float
        What the bias adds to each score: -1, or 0 where it may not move.
    """

    def __init__(self, rows: RowBlocks, fit_intercept: bool) -> None:
        n, d = rows.n_rows, rows.n_features
        self.small = n * (min(d, OPTIONS.any_direction) + 1) <= OPTIONS.small and n * (d + 1) <= OPTIONS.copied
        self.any_direction = self.small and d <= OPTIONS.any_direction
        self.n_stored, self.n_features, self.bias = rows.n_stored, d, -1.0 if fit_intercept else 0.0
        # Lines in any direction are products with all features at once, and need them dense, by column. Of large tables
        # only single columns are looked at: those of dense rows are gathered there, and not all copied.
        self._rows, self._dense, self._sparse = rows, None, None
        all_dense = not any(block.sparse for block in rows.blocks)
        if self.any_direction or (self.small and all_dense):
            self._dense = np.empty((d + 1, n))
            self._dense[d] = self.bias
            for block in rows.blocks:
                part = block.X if block.whole else block.X[block.row_of]
                self._dense[:d, block.place] = (part if isinstance(part, np.ndarray) else part.toarray()).T
        elif not all_dense:
            parts = [sp.csr_matrix(block.X if block.whole else block.X[block.row_of]) for block in rows.blocks]
            self._sparse = sp.csc_matrix(parts[0] if len(parts) == 1 else sp.vstack(parts), dtype=np.float64)

    @cached_property
    def spread(self) -> Floats:
        """Standard deviations of the features, of sparse ones about 0; 1 for constant ones and for the bias."""
        if self._sparse is not None:
            spread = np.sqrt(np.asarray(self._sparse.power(2).mean(axis=0)).ravel())
        else:
            spread = self._columns(np.arange(self.n_features)).std(axis=1)
        return np.append(np.where(spread > 0.0, spread, 1.0), 1.0)

    def lines(self, features: Ints, z: Floats, rng: np.random.Generator) -> Lines:
        """Lines along these features, on small tables half of them as rotations, or half in any direction instead."""
        size, d = features.shape[0], self.n_features
        direction = np.zeros((size, d + 1))
        direction[np.arange(size), features] = 1.0
        if self.small:
            # Only rows near the boundary can change sides soon, so it is about them that a model is turned.
            near = min(z.shape[0], max(OPTIONS.near, 3 * d))
            pivots = np.argpartition(np.abs(z), near - 1)[:near]
            # A rotation adds as much of the bias as the pivot has of the feature, which leaves the score of the pivot
            # as it is: the boundary turns about that row instead of moving away from it.
            turned = np.flatnonzero((rng.random(size) < 0.5) & (features < d) & (self.bias != 0.0))
            direction[turned, d] = self._entries(rng.choice(pivots, turned.shape[0]), features[turned])
            if self.any_direction:
                self._turn_anywhere(direction, pivots, rng)
        if self._sparse is None:
            n = z.shape[0]
            if self.any_direction and self._dense is not None:
                x = direction @ self._dense
            else:
                x = self._columns(features)
                # A feature and as much of the bias as the line has of it; the bias itself is a column already.
                x += (self.bias * direction[:, d] * (features < d))[:, None]
            return Lines(direction, np.arange(size + 1) * n, np.zeros(size, np.int64), np.arange(n), x.ravel())
        n, rows, entries = z.shape[0], list[Ints](), list[Floats]()
        for j, turn in zip(features.tolist(), direction[:, d].tolist(), strict=True):
            place = slice(*self._sparse.indptr[j : j + 2]) if j < d else slice(0)
            row, entry = self._sparse.indices[place], self._sparse.data[place]
            if turn != 0.0:
                # With a share of the bias in it a line moves every row, also those in which the feature is zero.
                whole = np.full(n, self.bias * turn)
                whole[row] += entry
                row, entry = np.arange(n), whole
            rows.append(row)
            entries.append(entry)
        indptr = np.cumsum([0, *(row.shape[0] for row in rows)])
        return Lines(direction, indptr, indptr[:-1], np.concatenate(rows).astype(np.int64), np.concatenate(entries))

    def _turn_anywhere(self, direction: Floats, pivots: Ints, rng: np.random.Generator) -> None:
        """Replace half of the directions by random ones in which some rows keep their scores."""
        assert self._dense is not None
        some = np.flatnonzero(rng.random(direction.shape[0]) < 0.5)
        d, size = direction.shape[1] - 1, some.shape[0]
        # Holding many rows turns the model about them and moves the sides of few others; holding none moves them all a
        # little. Neither is better everywhere, so the number is drawn.
        n_fixed = rng.integers(0, max(min(d, OPTIONS.most_fixed + 1), 1), size)
        v = rng.standard_normal((size, d + 1)) / self.spread
        v[:, d] *= self.bias != 0.0
        # What is drawn is made orthogonal to the rows that are held, extended by the bias.
        rows, last = np.empty((size, 1 + int(n_fixed.max(initial=0)), d + 1)), (np.arange(size), n_fixed)
        rows[:, :-1] = self._dense.T[rng.choice(pivots, (size, rows.shape[1] - 1))]
        rows[last] = v
        hold(rows, n_fixed)
        direction[some] = rows[last]

    def _columns(self, features: Ints) -> Floats:
        """Entries of all rows of features or the bias, where rows are dense, shape (k, n)."""
        if self._dense is not None:
            return self._dense[features]
        entries = np.full((features.shape[0], self._rows.n_rows), self.bias)

        def gather(first: int, last: int) -> None:
            for row, feature in zip(entries[first:last], features[first:last].tolist(), strict=True):
                for block in self._rows.blocks if feature < self.n_features else ():
                    row[block.place] = block.X[:, feature] if block.whole else block.X[block.row_of, feature]

        in_threads(features.shape[0], (1 << 18) // self._rows.n_rows, gather)
        return entries

    def _entries(self, row: Ints, feature: Ints) -> Floats:
        """Feature `feature[k]` of row `row[k]`, shape (k,)."""
        if self._dense is not None:
            return self._dense[feature, row]
        assert self._sparse is not None
        return np.asarray(self._sparse[row, feature], np.float64).ravel() if row.shape[0] else np.empty(0)
