"""Oracles that look at all labels: classes, tables of label sets, paths of a forest.

The label sets of at most about 18 labels cost two additions each: the table of scores doubles with every label. Masks
are relative to the truth (`mask = y xor y_i`), so the losses do not depend on the example.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from widemargin._numba import array_kernel, kernel
from widemargin._typing import Bools, Floats, Ints
from widemargin.structured.compiled import F1, HAMMING, JACCARD, MULTICLASS, PATHS, Desk, Structure, Work
from widemargin.structured.oracle import CONE, DIRECT, FREE, LEVEL, LEVELS, Answer
from widemargin.structured.oracles.closed_sets import path_points, path_to

__all__ = ["PointOracle", "best_set", "fill", "label_of", "loss_of_sets", "table_oracle"]


@kernel
def loss_of_sets(scored: int, wrong: float, missed: float, size: float) -> float:
    """Loss of a set with so many wrong labels, out of them so many of the truth's `size` labels missed.

    Both sets hold `size - missed` labels, either of them `size + wrong - missed`.
    """
    if scored == HAMMING or wrong == 0.0:
        return wrong
    if scored == JACCARD:
        return wrong / (size + wrong - missed)
    if scored == F1:
        return wrong / (2.0 * size + wrong - 2.0 * missed)
    return 1.0


@array_kernel
def losses(truth: Ints, structure: Structure, work: Work) -> Floats:
    """Loss of every mask: the table, where it does not depend on the truth, else `work.rows[2]`."""
    if structure.scored == HAMMING:
        return structure.table
    own, size, wrong = 0, 0.0, structure.table
    G: Floats = work.rows[2]
    for index in range(truth.shape[0]):
        own |= truth[index] << index
        size += truth[index]
    # The table counts the labels of a mask: of all that are flipped, and of those of the truth among them.
    for mask in range(G.shape[0]):
        G[mask] = loss_of_sets(structure.scored, wrong[mask], wrong[mask & own], size)
    return G


@kernel
def fill(u: Floats, theta: Floats, truth: Ints, structure: Structure, work: Work) -> None:
    """`f(y) - f(y_i)` of every mask, into `work.rows[0]`."""
    k = truth.shape[0]
    F, R, T = work.rows[0], work.rows[1], work.values[0]
    for row in range(k):
        T[row, row] = u[0, row]
    for e in range(structure.pairs.shape[0]):
        p, q = structure.pairs[e, 0], structure.pairs[e, 1]
        T[p, p] += theta[e] * truth[q]
        T[q, q] += theta[e] * truth[p]
        t = theta[e] if truth[p] == truth[q] else -theta[e]
        T[p, q] = t
        T[q, p] = t
    # F[mask] is the gain of flipping the labels of the mask, R[mask] what flipping one more label (row) gains on top
    # of them. Label by label, the upper half of F is the lower half plus R: two additions a label set, without jumps,
    # so the compiler makes vector instructions of them.
    F[0] = 0.0
    for row in range(k):
        R[0] = -T[row, row] if truth[row] else T[row, row]
        for m in range(row):
            half, step = 1 << m, T[row, m]
            for i in range(half):
                R[half + i] = R[i] + step
        half = 1 << row
        for i in range(half):
            F[half + i] = F[i] + R[i]


@kernel
def label_of(mask: int, truth: Ints, label: Ints) -> None:
    """The label of a mask."""
    for index in range(truth.shape[0]):
        label[index] = truth[index] ^ ((mask >> index) & 1)


@array_kernel
def best_set(
    u: Floats, theta: Floats, truth: Ints, lam: float | None, structure: Structure, work: Work, label: Ints
) -> tuple[float, float]:
    """The label with the largest `h + lam g`, without lam `h g`; returns its (h, g)."""
    fill(u, theta, truth, structure, work)
    F, best, G = work.rows[0], work.rows[1], losses(truth, structure, work)
    # The first round of the tournament computes the values, half against half.
    width = F.shape[0] // 2
    for i in range(width):
        if lam is None:
            low, high = (1.0 + F[i]) * G[i], (1.0 + F[width + i]) * G[width + i]
        else:
            low, high = F[i] + lam * G[i], F[width + i] + lam * G[width + i]
        best[i] = high if high > low else low
    while width > 64:  # a tournament, half against half without jumps, down to some lanes of a vector each
        width //= 2
        for i in range(width):
            best[i] = best[width + i] if best[width + i] > best[i] else best[i]
    # The winner is in the lane of the largest value; only the masks of that lane are looked at again.
    lane = 0
    for i in range(1, width):
        if best[i] > best[lane]:
            lane = i
    top, mask = -np.inf, 0
    for i in range(lane, F.shape[0], max(width, 1)):
        value = (1.0 + F[i]) * G[i] if lam is None else F[i] + lam * G[i]
        if value > top:
            top, mask = value, i
    label_of(int(mask), truth, label)  # compiled for whole numbers, and not for the constant 0 too
    return 1.0 + F[mask], G[mask]


class PointOracle:
    """An oracle over a list of labels with their points; answers everything, exactly.

    Parameters
    ----------
    h : ndarray of shape (N,), or callable without arguments that returns it
        It is called with the first question: a learner looks at the capabilities of many an oracle that it never asks.
    g : ndarray of shape (N,)
    label : callable
        From an index to the user's label.
    """

    def __init__(self, h: Floats | Callable[[], Floats], g: Floats, label: Callable[[int], object]) -> None:
        self._points, self._g, self._label = h, g, label
        self.smallest_loss = float(g[g > 0.0].min()) if (g > 0.0).any() else 0.0
        self.largest_loss = float(g.max(initial=0.0))
        # Levels are asked for by whole numbers.
        whole = bool((g == np.rint(g)).all())
        self.capabilities = frozenset({FREE, CONE, DIRECT, LEVEL, LEVELS} if whole else {FREE, CONE, DIRECT})

    @cached_property
    def _h(self) -> Floats:
        return self._points() if callable(self._points) else self._points

    def _at(self, index: int) -> Answer:
        return Answer(self._label(index), float(self._h[index]), float(self._g[index]))

    def _best_of(self, some: Bools, value: Floats) -> Answer | None:
        """The label of largest value among some; None where there are none."""
        return self._at(int(np.argmax(np.where(some, value, -np.inf)))) if some.any() else None

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        return self._at(int(np.argmax(self._h + lam * self._g)))

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same among the labels with `beta h <= g <= alpha h` and `h >= 0`."""
        h, g = self._h, self._g
        # With alpha infinite the upper side of the cone is h = 0: zero times infinity would be no number.
        steep = np.full(h.shape, np.inf) if np.isinf(alpha) else alpha * h
        # Labels on a face count as inside, up to rounding far below the tolerance of the angular search.
        room = 1.0 + 1e-12
        inside = (h >= 0.0) & (beta * h <= g * room) & (g <= steep * room)
        return self._best_of(inside, h + lam * g)

    def level(self, c: int) -> Answer | None:
        """The label with the largest h among those of loss c."""
        return self._best_of(self._g == c, self._h)

    def levels(self) -> Floats:
        """The largest h of every loss 0, 1, ...; -inf where there is no label."""
        # Of all labels with the same loss the one of largest h counts.
        H = np.full(int(self.largest_loss) + 1, -np.inf)
        np.maximum.at(H, self._g.astype(np.intp), self._h)
        return H

    def direct(self) -> Answer:
        """The label with the largest `h g`."""
        return self._at(int(np.argmax(self._h * self._g)))


def table_oracle(
    u: Floats, theta: Floats, truth: Ints, structure: Structure, desk: Desk, restore: Callable[[Ints], object]
) -> PointOracle:
    """The oracle that looks at all labels of an example.

    Parameters
    ----------
    u : ndarray of shape (1, k)
    theta : ndarray of shape (P,)
    truth : ndarray of int64
    structure : Structure
        Of kind MULTICLASS, whose classes are few; ENUMERATION, whose `2 ** k` label sets come by table doubling (k up
        to about 18); or PATHS, those of a forest that end where one may.
    desk, restore
        As in `LossOracle`.
    """
    if structure.kind == MULTICLASS:
        h, g = 1.0 + u[0] - u[0, truth[0]], structure.weight[truth[0]]
        return PointOracle(h, g, lambda c: restore(np.array([c])))
    work, desk.owner = desk.work(1), None
    ends = np.flatnonzero(structure.ends)
    if structure.kind == PATHS:
        end = path_points(u, truth, structure, work)
        f, g = work.rows[0], work.rows[1]
        h, g = 1.0 + f[ends] - f[end], g[ends]
    else:
        g = structure.table if structure.scored == HAMMING else losses(truth, structure, work).copy()

        def h() -> Floats:
            work, desk.owner = desk.work(1), None
            fill(u, theta, truth, structure, work)
            points: Floats = 1.0 + work.rows[0]
            return points

    # Labels are written out only where one is the answer.
    def label(index: int) -> object:
        y = np.empty_like(truth)
        if structure.kind == PATHS:
            path_to(int(ends[index]), structure, y)
        else:
            label_of(index, truth, y)
        return restore(y)

    return PointOracle(h, g, label)
