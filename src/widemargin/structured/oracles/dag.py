"""Closed label sets of a directed acyclic graph: the best one is a minimum cut (Picard 1976)."""

import numpy as np
import numpy.typing as npt

from widemargin.structured._loops import closure as loops
from widemargin.structured.oracle import FREE, Answer
from widemargin.structured.oracles.partial import PartialOracle

__all__ = ["ClosureOracle", "best_closure"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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

    Answers `free` exactly. Levels and cones are hard here, so slack rescaling has heuristic searches with a certified
    upper bound.

    Parameters
    ----------
    u : ndarray of shape (1, k)
    truth : ndarray of shape (k,)
    weight : ndarray of shape (k,)
        Of the loss.
    arcs : ndarray of shape (m, 2)
        (parent, child).
    """

    capabilities = frozenset({FREE})

    def __init__(self, u: Floats, truth: Ints, weight: Floats, arcs: Ints) -> None:
        self._u, self._truth, self._weight, self._arcs = u[0], truth, weight, arcs
        self.smallest_loss = float(weight[weight > 0.0].min())
        self.largest_loss = float(weight.sum())

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        label = best_closure(self._u + lam * self._weight * (1.0 - 2.0 * self._truth), self._arcs)
        change = label - self._truth
        return Answer(label, 1.0 + float(self._u @ change), float(self._weight @ np.abs(change)))
