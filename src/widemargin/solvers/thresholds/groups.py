"""Thresholds for each of several groups of rows: every candidate, and what it adds to the objective and constraints.

A candidate calls the `count` rows of largest score of its group positive. There is one for every threshold that tells
two scores of the group apart, and the two ends. One candidate is taken in each group; objective and constraints are
sums over the groups.
"""

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Cells, Floats, Integers, Ints
from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.thresholds.threshold_sweep import OPTIONS, sweep


class Candidates:
    """All candidates of all groups, numbered on through the groups by rising count.

    Parameters
    ----------
    z, weight : ndarray of shape (n,)
        Scores (larger: rather positive) and weights of the rows.
    cell : ndarray of int32, shape (n,)
    group : ndarray of int, shape (n,)
        0 <= group < n_groups.
    n_groups : int
        A group without rows has one candidate, which does nothing.
    coef : CellCoefficients
    gamma : ndarray of shape (m,)
        Bounds of the constraints.
    cell_weight : ndarray of shape (k,)

    Attributes
    ----------
    group, count : ndarray of shape (K,)
        Of each candidate.
    first : ndarray of shape (n_groups + 1,)
        Number of the first candidate of each group.
    objective : float
        Where nobody is called positive.
    excess : ndarray of shape (m,)
        Values minus bounds where nobody is called positive.
    """

    def __init__(
        self,
        z: Floats,
        weight: Floats,
        cell: Cells,
        group: Integers,
        n_groups: int,
        coef: CellCoefficients,
        gamma: Floats,
        cell_weight: Floats,
    ) -> None:
        m = gamma.shape[0]
        self.n_groups, self.n_constraints = n_groups, m
        self._z, self._weight, self._cell, self._coef = z, weight, cell, coef
        # What a row of each cell adds to objective and constraints when it turns positive.
        self._gain = coef.alpha0 - coef.beta0
        self._change = sp.csr_array((coef.value, coef.column, coef.indptr), shape=(len(cell_weight), m), copy=True)
        self._change.sum_duplicates()
        self._by_constraint = self._change.tocsc()
        self.objective, values = coef.totals(np.zeros_like(cell_weight), cell_weight, m)
        self.excess = values - gamma
        # Group by group, and within a group by falling score; the order of equal scores does not matter.
        self._order = np.argsort(-z) if n_groups == 1 else np.lexsort((-z, group))
        self._start = np.searchsorted(group[self._order], np.arange(n_groups + 1)).astype(np.int64)
        self._ordered_weight, self._ordered_cell = weight[self._order], cell[self._order].astype(np.intp)
        self._tie = OPTIONS.tie * float(np.abs(z).max(initial=1.0))
        # A threshold may lie between any two scores of a group that rounding cannot swap, and at the two ends.
        ordered = z[self._order]
        counts = []
        for g in range(n_groups):
            part = ordered[self._start[g] : self._start[g + 1]]
            inner = np.flatnonzero(part[:-1] - part[1:] > self._tie) + 1
            counts.append(np.concatenate([[0], inner, [len(part)] if len(part) else []]).astype(np.int64))
        sizes = np.array([len(part) for part in counts], np.int64)
        self.count: Ints = np.concatenate(counts)
        self.group: Ints = np.repeat(np.arange(n_groups, dtype=np.int64), sizes)
        self.first: Ints = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._begin = self._start[self.group]
        self._end = self._begin + self.count

    def rows_of(self, g: int) -> Ints:
        """Row numbers of a group, by falling score."""
        rows: Ints = self._order[self._start[g] : self._start[g + 1]]
        return rows

    def scores_of(self, g: int) -> Floats:
        """Scores of a group, falling."""
        return self._z[self.rows_of(g)]

    def running(self, g: int, cells: Ints, values: Floats) -> Floats:
        """What each candidate of group g adds where a unit of weight of some cells adds these values."""
        rows, per_cell = self.rows_of(g), np.zeros(len(self._gain))
        per_cell[cells] = values
        # A candidate calls the rows of the largest scores positive, so what it adds is a running sum.
        sums = np.concatenate([[0.0], np.cumsum(self._weight[rows] * per_cell[self._cell[rows]])])
        counted: Floats = sums[self.count[self.first[g] : self.first[g + 1]]]
        return counted

    def masses(self) -> Floats:
        """Weight of the rows of each group in each cell, shape (n_groups, k)."""
        group = np.repeat(np.arange(self.n_groups), np.diff(self._start))
        # Group and cell as one number, so that one count serves all of them.
        k = len(self._gain)
        summed = np.bincount(group * k + self._ordered_cell, self._ordered_weight, self.n_groups * k)
        return np.asarray(summed.reshape(self.n_groups, k))

    def column(self, j: int) -> tuple[Ints, Floats]:
        """Cells that constraint j looks at, and what a unit of their weight adds to it."""
        part = slice(self._by_constraint.indptr[j], self._by_constraint.indptr[j + 1])
        return self._by_constraint.indices[part], self._by_constraint.data[part]

    @property
    def granule(self) -> float:
        """The objective changes by whole multiples of this number alone; 0 where there is no such number."""
        steps = np.unique(np.abs(self._weight * self._gain[self._cell]))
        steps = steps[steps > 0.0]
        if not len(steps):
            return 0.0
        # Whole multiples of the smallest step, such as errors that count one each.
        whole = steps / steps[0]
        return float(steps[0]) if np.abs(whole - np.round(whole)).max() < 1e-9 else 0.0

    def prices(self, objective: float, multipliers: Floats) -> Floats:
        """`objective` times what each candidate adds to the objective, plus the multipliers times its constraints."""
        per_cell = objective * self._gain + self._change @ multipliers
        # A candidate calls the first rows of its group positive, so what they add is a difference of two running sums.
        total = np.zeros(len(self._order) + 1)
        np.cumsum(self._ordered_weight * per_cell.take(self._ordered_cell), out=total[1:])
        prices: Floats = total.take(self._end) - total.take(self._begin)
        return prices

    def columns(self, numbers: Ints) -> tuple[Floats, Floats]:
        """What some candidates add to the objective, shape (s,), and to the constraints, shape (s, m)."""
        position = self._end[numbers]
        # Running sums by cell at every row would be n times k numbers. The rows between two neighbouring ends of
        # candidates go together, so running sums at these ends are enough.
        cuts = np.unique(np.concatenate([position, self._start]))
        n, k = len(self._order), len(self._gain)
        piece = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts)) if n else np.zeros(0, np.int64)
        mass = np.bincount(piece * k + self._ordered_cell, self._ordered_weight, max(len(cuts) - 1, 0) * k)
        mass = np.concatenate([np.zeros((1, k)), np.cumsum(mass.reshape(-1, k), axis=0)])
        upto = mass[np.searchsorted(cuts, position)] - mass[np.searchsorted(cuts, self._begin[numbers])]
        return upto @ self._gain, upto @ self._change

    def totals(self, numbers: Ints) -> tuple[Floats, Floats]:
        """Objective, shape (...), and excess, shape (..., m), of one candidate a group each: shape (..., n_groups)."""
        gain, change = self.columns(numbers.ravel())
        gains, changes = gain.reshape(numbers.shape), change.reshape(*numbers.shape, self.n_constraints)
        return self.objective + gains.sum(axis=-1), self.excess + changes.sum(axis=-2)

    def improve(self, numbers: Ints, sweeps: int = 50) -> Ints:
        """Move the groups' thresholds in turn, each to its best place given the others, until none moves.

        Best: the smallest sum of the excesses, then the lowest objective. A local search, ended after `sweeps` rounds
        where it has not ended by itself.
        """
        coef, numbers, best = self._coef, numbers.copy(), np.zeros(3)
        change = self.columns(numbers)[1]
        for _ in range(sweeps):
            before = numbers.copy()
            for g in range(self.n_groups):
                rows = self.rows_of(g)
                if not len(rows):
                    continue
                # What the other groups add does not change meanwhile, so one sweep over this group is exact.
                excess = self.excess + np.delete(change, g, axis=0).sum(axis=0)
                cells = self._z, self._weight, self._cell, self._gain
                count = sweep(rows, *cells, *coef.entries, excess, self._tie, best)
                numbers[g] = self.first[g] + np.searchsorted(self.count[self.first[g] : self.first[g + 1]], count)
                called = rows[:count]
                change[g] = np.bincount(self._cell[called], self._weight[called], len(self._gain)) @ self._change
            if (numbers == before).all():
                break
        return numbers
