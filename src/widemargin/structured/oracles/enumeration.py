"""Oracles that know all labels: classes, tables of label sets, paths of a forest.

The label sets of at most about 18 labels cost two additions each: the table of scores doubles with every label. Masks
are relative to the truth (`mask = y xor y_i`), so the losses do not depend on the example. The best set alone costs far
less: masks that agree in their first labels make a block, and most blocks are known to hold none that is better.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from widemargin._numba import array_kernel, kernel, larger
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


@kernel
def _labels_of(truth: Ints) -> tuple[int, float]:
    """The mask of the labels of the truth, and their number."""
    own, size = 0, 0.0
    for index in range(truth.shape[0]):
        own |= truth[index] << index
        size += truth[index]
    return own, size


@kernel
def _loss_of_mask(mask: int, own: int, size: float, structure: Structure) -> float:
    """Loss of the set that differs from a truth of `size` labels, `own`, in the labels of the mask."""
    wrong: float = structure.table[mask]
    if structure.scored == HAMMING:
        return wrong
    # The table counts the labels of a mask: of all that are flipped, and of those of the truth among them.
    return loss_of_sets(structure.scored, wrong, structure.table[mask & own], size)


@array_kernel
def losses(truth: Ints, structure: Structure) -> Floats:
    """Loss of every mask."""
    G, (own, size) = np.empty_like(structure.table), _labels_of(truth)
    for mask in range(G.shape[0]):
        G[mask] = _loss_of_mask(mask, own, size, structure)
    return G


@kernel
def _fill_gains(T: Floats, u: Floats, theta: Floats, truth: Ints, structure: Structure) -> None:
    """What flipping one label of the truth gains, on the diagonal, and flipping two beyond the sum of the two."""
    for row in range(truth.shape[0]):
        T[row, row] = u[0, row]
    for e in range(structure.pairs.shape[0]):
        p, q = structure.pairs[e, 0], structure.pairs[e, 1]
        T[p, p] += theta[e] * truth[q]
        T[q, q] += theta[e] * truth[p]
        t = theta[e] if truth[p] == truth[q] else -theta[e]
        T[p, q] = t
        T[q, p] = t
    for row in range(truth.shape[0]):
        T[row, row] = -T[row, row] if truth[row] else T[row, row]


@kernel
def _double(T: Floats, first: int, last: int, F: Floats, R: Floats) -> None:
    """From `F[0]` on, what flipping each set of the labels from `first` to `last` gains on top of it.

    What flipping one later label gains on top of each set goes into R, label by label.
    """
    # Label by label, the upper half of F is the lower half plus what flipping that label (row) gains: two additions a
    # label set, without jumps, so the compiler makes vector instructions of them.
    for row in range(first, T.shape[0]):
        place = max(row - last, 0) << (last - first)
        R[place] = T[row, row]
        for m in range(first, min(row, last)):
            half, step = 1 << (m - first), T[row, m]
            for i in range(place, place + half):
                R[half + i] = R[i] + step
        half = 1 << (row - first) if row < last else 0
        for i in range(half):
            F[half + i] = F[i] + R[i]


@kernel
def fill(u: Floats, theta: Floats, truth: Ints, structure: Structure, work: Work) -> None:
    """`f(y) - f(y_i)` of every mask, into `work.rows[0]`."""
    T, F = work.values[0], work.rows[0]
    _fill_gains(T, u, theta, truth, structure)
    F[0] = 0.0
    _double(T, 0, truth.shape[0], F, work.rows[1])


@kernel
def label_of(mask: int, truth: Ints, label: Ints) -> None:
    """The label of a mask."""
    for index in range(truth.shape[0]):
        label[index] = truth[index] ^ ((mask >> index) & 1)


@kernel
def _bound_blocks(
    T: Floats, slope: float, lam: float | None, outer: int, own: int, size: float, structure: Structure, work: Work
) -> int:
    """Lower the bounds of all blocks by the largest `f + slope w` in each, w the weight of the flipped labels.

    Returns the block with the largest bound.
    """
    F, bound, sums, gains = work.rows[0], work.rows[1], work.rows[2], work.rows[3]
    n, k, top = 1 << outer, T.shape[0], 0
    for i in range(n):
        sums[i] = F[i] + slope * structure.table[i]
    for row in range(outer, k):
        # Each label is flipped where that may gain something. Pairs within a block are counted with the later label.
        most, gain = slope * structure.weight[0, row], gains[(row - outer) * n : (row - outer + 1) * n]
        for other in range(outer, row):
            most += max(T[row, other], 0.0)
        for i in range(n):
            sums[i] += larger(gain[i] + most, 0.0)
    for i in range(n):
        value = sums[i]
        if structure.scored != HAMMING:
            # These losses grow with each flipped label, and are no sums: the slope is 0, and the largest one counts.
            loss = _loss_of_mask(i | (1 << k) - n, own, size, structure)
            value = larger(1.0 + value, 0.0) * loss if lam is None else value + lam * loss
        elif lam is None:
            value = larger(1.0 + value, 0.0) ** 2 / (4.0 * slope)
        bound[i] = min(bound[i], value)
        if bound[i] > bound[top]:
            top = i
    return top


@kernel
def _best_of_block(
    block: int, T: Floats, lam: float | None, outer: int, own: int, size: float, structure: Structure, work: Work
) -> tuple[float, int, float, float]:
    """The largest `f + lam g`, or `(1 + f) g`, of the masks of a block; the mask, and its f and g."""
    k, f, gains = T.shape[0], work.rows[2], work.rows[3]
    for row in range(outer, k):
        T[row, row] = gains[((row - outer) << outer) + block]
    f[0] = work.rows[0, block]
    _double(T, outer, k, f, f[1 << (k - outer) :])
    top, best, at = -np.inf, block, 0
    for i in range(1 << (k - outer)):
        mask = block | i << outer
        g = _loss_of_mask(mask, own, size, structure)
        value = (1.0 + f[i]) * g if lam is None else f[i] + lam * g
        if value > top:
            top, best, at = value, mask, i
    return top, best, f[at], _loss_of_mask(best, own, size, structure)


@kernel
def best_set(
    u: Floats, theta: Floats, truth: Ints, lam: float | None, structure: Structure, work: Work, label: Ints
) -> tuple[float, float]:
    """The label with the largest `h + lam g`, without lam `h g`; returns its (h, g). Of equal ones the truth wins.

    Masks that agree in the first half of the labels make a block. A block is looked at only where its bound is above
    the best value so far. For a product, with g a sum of weights, `(h + slope g)^2 / (4 slope)` is a bound for every
    slope, and the closest one where `h = slope g`. So the slopes are those of the best masks so far.
    """
    k = truth.shape[0]
    outer = k - (k - 1) // 2
    n = 1 << outer
    T, F, bound = work.values[0], work.rows[0], work.rows[1]
    _fill_gains(T, u, theta, truth, structure)
    F[0] = 0.0
    _double(T, 0, outer, F, work.rows[3])
    bound[:n] = np.inf
    own, size = _labels_of(truth)
    slope, n_slopes = 0.0 if lam is None else lam, 1
    if structure.scored != HAMMING:
        slope = 0.0
    elif lam is None:
        # At first h is 1 and half of the labels are wrong. A fourth slope would lower hardly any bound.
        slope, n_slopes = 2.0 / max(structure.weight.sum(), 1e-300), 3
    best, best_mask, best_f, best_g = 0.0, 0, 0.0, 0.0
    for turn in range(n_slopes + n):
        block = turn - n_slopes
        if turn < n_slopes:
            block = _bound_blocks(T, slope, lam, outer, own, size, structure, work)
        if bound[block] > best:
            bound[block] = -np.inf
            value, mask, f, g = _best_of_block(block, T, lam, outer, own, size, structure, work)
            if value > best:
                best, best_mask, best_f, best_g = value, mask, f, g
            if turn < n_slopes and best_g > 0.0 and lam is None and structure.scored == HAMMING:
                slope = (1.0 + best_f) / best_g
    label_of(int(best_mask), truth, label)  # compiled for whole numbers, and not for the constant 0 too
    return 1.0 + best_f, best_g


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
        g = structure.table if structure.scored == HAMMING else losses(truth, structure)

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
