"""Closed label sets of a directed acyclic graph: the best one is a minimum cut (Picard 1976)."""

import numpy as np

from widemargin._numba import array_kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.oracle import CONE, FREE, LEVEL, Answer, PartialOracle
from widemargin.structured.oracles.lp_relaxation import PairwiseProgram, ProgramOracle
from widemargin.structured.oracles.max_flow import add_arc, augment, empty_graph

_OPEN, _LIKE = -1, 2
"""Beside 0 and 1: a node that the minimum cut decides, and one that is as another."""


@array_kernel
def _settle(gain: Floats, arcs: Ints, state: Ints, like: Ints, order: Ints) -> int:
    """Decide or merge all nodes that need no cut; returns how many of them are as another.

    Of the nodes that are left, one that gains is in where none of its parents is left, and one that loses is out where
    none of its children is. A node that gains and has one parent left and no child is as its parent, one that loses and
    has one child left and no parent as its child: its gain is added there. On a forest nothing is left in the end.

    Parameters
    ----------
    gain : array of shape (k,)
        Changed in place.
    arcs : int array of shape (m, 2)
    state : int array of shape (k,)
        0, 1, `_OPEN` or `_LIKE`; filled.
    like, order : int arrays of shape (k,)
        What a node is as; the nodes that are as another, in the order in which they became so. Filled.
    """
    k, m = gain.shape[0], arcs.shape[0]
    # Children (side 0) and parents (side 1) of every node, one after the other, and how many of them are left.
    start, left = np.zeros((2, k + 1), np.int64), np.zeros((2, k), np.int64)
    for i in range(m):
        left[0, arcs[i, 0]] += 1
        left[1, arcs[i, 1]] += 1
    for side in range(2):
        for node in range(k):
            start[side, node + 1] = start[side, node] + left[side, node]
    near, place = np.empty((2, m), np.int64), start[:, :k].copy()
    for i in range(m):
        for side in range(2):
            node = arcs[i, side]
            near[side, place[side, node]] = arcs[i, 1 - side]
            place[side, node] += 1
    # A ring of nodes to look at; one whose neighbour is settled comes again.
    ring, waits = np.arange(k), np.ones(k, np.bool_)
    begin, waiting, n_like = 0, k, 0
    state[:] = _OPEN
    while waiting > 0:
        node = ring[begin]
        begin, waiting, waits[node] = (begin + 1) % k, waiting - 1, False
        if state[node] != _OPEN:
            continue
        # What may take a node in are its children, what may keep it out its parents.
        wanted = 1 if gain[node] > 0.0 else 0
        if left[wanted, node] == 0:
            state[node] = wanted
        elif left[1 - wanted, node] == 0 and left[wanted, node] == 1:
            for e in range(start[wanted, node], start[wanted, node + 1]):
                if state[near[wanted, e]] == _OPEN:
                    like[node] = near[wanted, e]
            gain[like[node]] += gain[node]
            state[node], order[n_like] = _LIKE, node
            n_like += 1
        else:
            continue
        for side in range(2):
            for e in range(start[side, node], start[side, node + 1]):
                other = near[side, e]
                left[1 - side, other] -= 1
                if state[other] == _OPEN and not waits[other]:
                    waits[other] = True
                    ring[(begin + waiting) % k] = other
                    waiting += 1
    return n_like


@array_kernel
def closure(gain: Floats, arcs: Ints) -> Ints:
    """See `best_closure`; changes the gains in place.

    Of the nodes that need one, a least cut leaves the best set on the source's side: to leave out a node that gains
    cuts its arc from the source, to take in one that loses cuts its arc to the sink. The arcs from children to parents
    cannot be cut: a child on the source's side keeps its parents there.
    """
    k, m = gain.shape[0], arcs.shape[0]
    state, like, order, number = np.empty((4, k), np.int64)
    n_like = _settle(gain, arcs, state, like, order)
    n, largest = 0, 0.0
    for node in range(k):
        if state[node] == _OPEN:
            number[node] = n
            n += 1
            largest = max(largest, abs(gain[node]))
    if n > 0:
        source, sink, e = n, n + 1, 0
        graph, scratch = empty_graph(n + 2, 2 * (n + m)), np.empty((4, n + 2), np.int64)
        for node in range(k):
            if state[node] == _OPEN:
                if gain[node] > 0.0:
                    e = add_arc(e, source, number[node], gain[node], 0.0, graph)
                else:
                    e = add_arc(e, number[node], sink, -gain[node], 0.0, graph)
        for i in range(m):
            if state[arcs[i, 0]] == _OPEN and state[arcs[i, 1]] == _OPEN:
                e = add_arc(e, number[arcs[i, 1]], number[arcs[i, 0]], np.inf, 0.0, graph)
        # A capacity that counts as none: far below what decides a label, far above rounding.
        augment(graph, source, sink, 1e-12 * largest, scratch)
        # Where the source still reaches after the flow is its side of the least cut.
        for node in range(k):
            if state[node] == _OPEN:
                state[node] = 1 if scratch[0, number[node]] >= 0 else 0
    # The last ones first: what they are as may be as another itself.
    for i in range(n_like - 1, -1, -1):
        state[order[i]] = state[like[order[i]]]
    return state


def best_closure(gain: Floats, arcs: Ints) -> Ints:
    """The set of nodes with the largest sum of gains in which every node's parents are active.

    Parameters
    ----------
    gain : ndarray of shape (k,)
    arcs : ndarray of shape (m, 2)
        (parent, child).

    Returns
    -------
    ndarray of shape (k,)
        0 or 1; the smallest such set.
    """
    return closure(np.array(gain, dtype=np.float64), arcs)


class ClosureOracle(PartialOracle):
    """Label sets closed under the ancestors of a directed acyclic graph, with the weighted Hamming loss.

    Answers `free` exactly, by one minimum cut. Levels and cones are hard here: with a programme, branch and bound
    answers levels where the losses are integers (6 times faster than cones, measured on 30 nodes), else cones; without,
    slack rescaling has heuristic searches with a certified upper bound.

    Parameters
    ----------
    u : ndarray of shape (1, k)
    truth : ndarray of shape (k,)
    weight : ndarray of shape (k,)
        Of the loss.
    arcs : ndarray of shape (m, 2)
        (parent, child).
    program : PairwiseProgram, optional
        With integers and these arcs; shared by the examples of a thread.
    """

    def __init__(
        self, u: Floats, truth: Ints, weight: Floats, arcs: Ints, program: PairwiseProgram | None = None
    ) -> None:
        # Levels are quicker than cones, but need losses that are integers.
        whole = bool((weight == np.rint(weight)).all())
        self.capabilities = frozenset({FREE} if program is None else {FREE, LEVEL} if whole else {FREE, CONE})
        self._exact = None if program is None else ProgramOracle(u, np.zeros(0), truth, program)
        self.tolerance = 0.0 if self._exact is None else self._exact.tolerance
        self._u, self._truth, self._weight, self._arcs = u[0], truth, weight, arcs
        self.smallest_loss = float(weight[weight > 0.0].min())
        # Where everything is wrong; no closed set need be that far away, but bounds may be too large.
        self.largest_loss = float(weight.sum())

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        # A wrong label costs its weight: both parts of the question are sums over the nodes.
        label = best_closure(self._u + lam * self._weight * (1.0 - 2.0 * self._truth), self._arcs)
        change = label - self._truth
        return Answer(label, 1.0 + float(self._u @ change), float(self._weight @ np.abs(change)))

    def level(self, c: int) -> Answer | None:
        """The label with the largest h among those of loss c."""
        return super().level(c) if self._exact is None else self._exact.level(c)

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same among the labels with `beta h <= g <= alpha h` and `h >= 0`."""
        return super().cone(lam, alpha, beta) if self._exact is None else self._exact.cone(lam, alpha, beta)
