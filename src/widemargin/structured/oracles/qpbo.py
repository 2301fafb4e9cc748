"""The relaxation of a pairwise model by maximum flow: equal to the linear programme, much faster, warm over lambda."""

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import Structure
from widemargin.structured.oracle import CONVEX, FREE, Answer
from widemargin.structured.oracles import max_flow
from widemargin.structured.oracles import qpbo_loops as qpbo
from widemargin.structured.oracles.partial import PartialOracle
from widemargin.structured.oracles.relaxed import Relaxed

__all__ = ["RoofOracle"]


_NOTHING = 1e-12  # relative capacity that is no way


class RoofOracle(PartialOracle):
    """Roof duality of `max h + lam g`: upper bounds for every lambda, and labels that provably agree with an optimum.

    Answers `free` with labels of the local polytope (`Relaxed`), for pairs of any sign. `h + lam g` of the answer is
    the value of the relaxation, never below the best label set's; where the answer is integral, it is that label set.

    Parameters
    ----------
    u : ndarray of shape (1, k)
    theta : ndarray of shape (P,)
    truth : ndarray of shape (k,)
    structure : Structure
        Of any multi-label kind; `pairs` and `weight` are used.
    """

    capabilities = frozenset({FREE, CONVEX})

    def __init__(self, u: Floats, theta: Floats, truth: Ints, structure: Structure) -> None:
        self._truth, self._pairs, self._weight = truth, structure.pairs, structure.weight[0]
        self._v, self._t = np.empty(truth.shape[0]), np.empty(theta.shape[0])
        qpbo.flip_coordinates(u, theta, truth, self._pairs, self._v, self._t)
        self.smallest_loss = 0.0  # of fractional labels
        self.largest_loss = float(self._weight.sum())
        k, n_arcs = truth.shape[0], 8 * truth.shape[0] + 4 * theta.shape[0]
        self._first = np.empty(2 * k + 2, dtype=np.int64)
        self._after, self._head, self._cap = np.empty(n_arcs, np.int64), np.empty(n_arcs, np.int64), np.empty(n_arcs)
        self._scratch = np.empty((4, 2 * k + 2), dtype=np.int64)
        self._constant = qpbo.build(
            self._v, self._t, self._pairs, np.empty(k), self._first, self._after, self._head, self._cap
        )
        self._flow, self._lam = 0.0, 0.0
        self._scale = float(np.abs(self._v).max() + np.abs(self._t).max(initial=0.0))

    def _solve(self, lam: float) -> float:
        """Move to lam on the residual graph; returns the value of the relaxation, `K(lam)`."""
        self._constant += qpbo.shift(lam - self._lam, self._weight, self._cap)
        self._lam = lam
        k = self._truth.shape[0]
        eps = _NOTHING * (self._scale + lam * self.largest_loss)
        self._flow += max_flow.augment(
            self._first, self._after, self._head, self._cap, 2 * k, 2 * k + 1, eps, *self._scratch
        )
        return 1.0 - (self._constant + self._flow)

    def free(self, lam: float) -> Answer:
        """The point of the local polytope with the largest `h + lam g`."""
        self._solve(float(lam))
        mu, pair_mu = np.empty(self._truth.shape[0]), np.empty(self._t.shape[0])
        h = 1.0 + qpbo.read(self._v, self._t, self._pairs, self._scratch[0], mu, pair_mu)
        g = float(self._weight @ mu)
        qpbo.unflip(mu, pair_mu, self._truth, self._pairs)
        return Answer(Relaxed(mu, pair_mu), float(h), g)

    def value(self, lam: float) -> float:
        """`K(lam)`, an upper bound of `h + lam g` over all label sets."""
        return self._solve(float(lam))
