"""Closed label sets of a directed acyclic graph: the best one is a minimum cut (Picard 1976)."""

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.structured.oracle import CONE, FREE, LEVEL, Answer
from widemargin.structured.oracles import closure as loops
from widemargin.structured.oracles.lp_relaxation import PairwiseProgram, ProgramOracle
from widemargin.structured.oracles.partial import PartialOracle

__all__ = ["ClosureOracle", "best_closure"]


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
    n_arcs = 2 * (k + arcs.shape[0])
    label = np.empty(k, dtype=np.int64)
    loops.closure(
        np.ascontiguousarray(gain, dtype=np.float64), arcs, np.empty(k + 2, np.int64), np.empty(n_arcs, np.int64),
        np.empty(n_arcs, np.int64), np.empty(n_arcs), np.empty((4, k + 2), np.int64), label,
    )  # fmt: skip
    return label


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
        whole = bool((weight == np.rint(weight)).all())
        self.capabilities = frozenset({FREE} if program is None else {FREE, LEVEL} if whole else {FREE, CONE})
        self._exact = None if program is None else ProgramOracle(u, np.zeros(0), truth, program)
        self.tolerance = 0.0 if self._exact is None else self._exact.tolerance
        self._u, self._truth, self._weight, self._arcs = u[0], truth, weight, arcs
        self.smallest_loss = float(weight[weight > 0.0].min())
        self.largest_loss = float(weight.sum())

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        label = best_closure(self._u + lam * self._weight * (1.0 - 2.0 * self._truth), self._arcs)
        change = label - self._truth
        return Answer(label, 1.0 + float(self._u @ change), float(self._weight @ np.abs(change)))

    def level(self, c: int) -> Answer | None:
        """The label with the largest h among those of loss c."""
        return super().level(c) if self._exact is None else self._exact.level(c)

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same among the labels with `beta h <= g <= alpha h` and `h >= 0`."""
        return super().cone(lam, alpha, beta) if self._exact is None else self._exact.cone(lam, alpha, beta)
