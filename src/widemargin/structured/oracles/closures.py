"""Closed label sets of a directed acyclic graph: the best one is a minimum cut (Picard 1976)."""

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.oracle import CONE, FREE, LEVEL, Answer, PartialOracle
from widemargin.structured.oracles.lp_relaxation import PairwiseProgram, ProgramOracle
from widemargin.structured.oracles.max_flow import ResidualGraph, add_arc, augment, empty_graph

__all__ = ["ClosureOracle", "best_closure", "fill_graph"]


@kernel
def fill_graph(gain: Floats, arcs: Ints, graph: ResidualGraph) -> float:
    """Arcs whose least cut leaves the best closed set on the source's side; returns the largest absolute gain.

    To leave out a node that gains cuts its arc from the source, to take in one that loses cuts its arc to the sink. The
    arcs from children to parents cannot be cut: a child on the source's side keeps its parents there.
    """
    k = gain.shape[0]
    source, sink = k, k + 1
    e, largest = 0, 0.0
    for node in range(k):
        largest = max(largest, abs(gain[node]))
        if gain[node] > 0.0:
            e = add_arc(e, source, node, gain[node], 0.0, graph)
        else:
            e = add_arc(e, node, sink, -gain[node], 0.0, graph)
    for i in range(arcs.shape[0]):
        e = add_arc(e, arcs[i, 1], arcs[i, 0], np.inf, 0.0, graph)
    return largest


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
    k = gain.shape[0]
    # Where the source still reaches after the flow is its side of the least cut.
    graph, scratch = empty_graph(k + 2, 2 * (k + arcs.shape[0])), np.empty((4, k + 2), np.int64)
    largest = fill_graph(np.ascontiguousarray(gain, dtype=np.float64), arcs, graph)
    # A capacity that counts as none: far below what decides a label, far above rounding.
    augment(graph, k, k + 1, 1e-12 * largest, scratch)
    return (scratch[0, :k] >= 0).astype(np.int64)


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
