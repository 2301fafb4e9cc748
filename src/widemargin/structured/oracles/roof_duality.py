"""Roof duality (QPBO): the local-polytope relaxation of a pairwise 0/1 problem as one cut on twice the labels.

Maximise `F(z) = v . z + sum_lm T_lm z_l z_m`, T of any sign (Boros and Hammer 2002; Kolmogorov and Rother 2007). Node l
stands for z_l = 1 on the source's side, node k + l for its complement. Written symmetrically,

    T > 0:   T z z' =  T/2 (z + z') - T/2 |z - z'|                     arcs l - m and l' - m',   T/4 each way
    T < 0:   T z z' =  T/2 (z + z') + |T|/2 - |T|/2 |z - (1 - z')|     arcs l - m' and l' - m, |T|/4 each way

The oracle is the linear programme of `lp_relaxation`, by maximum flow: much faster, and warm over lambda.
"""

import math

import numpy as np

from widemargin._numba import array_kernel, kernel
from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import Structure
from widemargin.structured.oracle import CONE, CONVEX, FREE, Answer, PartialOracle
from widemargin.structured.oracles.label_tree import flip_coordinates
from widemargin.structured.oracles.lp_relaxation import Relaxed
from widemargin.structured.oracles.max_flow import ResidualGraph, add_arc, augment, empty_graph


@kernel
def _add_unary(q: int, gain: float, cap: Floats) -> float:
    """Add `gain z_q` to what is maximised, on a residual graph or a new one; returns the change of the constant."""
    e = 8 * q
    # The gain is split between the label and its complement, so the graph stays symmetric. To lose it, a cut has to
    # go through both arcs: the constant is what is gained at most.
    if gain > 0.0:
        cap[e] += gain / 2.0  # source -> q
        cap[e + 6] += gain / 2.0  # q' -> sink
        return -gain
    cap[e + 2] -= gain / 2.0  # q -> sink
    cap[e + 4] -= gain / 2.0  # source -> q'
    return 0.0


@array_kernel
def build(v: Floats, t: Floats, pairs: Ints, graph: ResidualGraph) -> float:
    """The graph of the pairs; arcs of the terminals come first (8 a label: see `_add_unary`). Returns the constant.

    Parameters
    ----------
    v : array of shape (k,)
    t : array of shape (P,)
    pairs : int array of shape (P, 2)
    graph : ResidualGraph
        Of 2 k + 2 nodes and 8 k + 4 P arcs; filled.
    """
    k = v.shape[0]
    source, sink = 2 * k, 2 * k + 1
    e = 0
    for q in range(k):
        e = add_arc(e, source, q, 0.0, 0.0, graph)
        e = add_arc(e, q, sink, 0.0, 0.0, graph)
        e = add_arc(e, source, k + q, 0.0, 0.0, graph)
        e = add_arc(e, k + q, sink, 0.0, 0.0, graph)
    constant, benefit = 0.0, v.copy()
    for i in range(t.shape[0]):
        p, q = pairs[i, 0], pairs[i, 1]
        # A quarter on each of the two mirrored arcs, both ways: a cut that separates the pair cuts two of the four.
        quarter = abs(t[i]) / 4.0
        benefit[p] += t[i] / 2.0
        benefit[q] += t[i] / 2.0
        if t[i] > 0.0:
            e = add_arc(e, p, q, quarter, quarter, graph)
            e = add_arc(e, k + p, k + q, quarter, quarter, graph)
        else:
            constant -= 2.0 * quarter
            e = add_arc(e, p, k + q, quarter, quarter, graph)
            e = add_arc(e, k + p, q, quarter, quarter, graph)
    for q in range(k):
        constant += _add_unary(q, benefit[q], graph.cap)
    return constant


@kernel
def read(v: Floats, t: Floats, pairs: Ints, depth: Ints, mu: Floats, pair_mu: Floats) -> float:
    """The half-integral maximiser from the least cut; returns F of it.

    Parameters
    ----------
    v, t, pairs
        As in `build`.
    depth : int array of shape (2 k + 2,)
        From `max_flow.augment`.
    mu : array of shape (k,), pair_mu : array of shape (P,)
        Filled.
    """
    k = v.shape[0]
    value = 0.0
    for q in range(k):
        # The node of a label and that of its complement: on one side both or neither, the relaxation cannot decide.
        one, zero = depth[q] >= 0, depth[k + q] >= 0
        mu[q] = 0.5 if one == zero else (1.0 if one else 0.0)
        value += v[q] * mu[q]
    for i in range(t.shape[0]):
        a, b = mu[pairs[i, 0]], mu[pairs[i, 1]]
        pair_mu[i] = min(a, b) if t[i] > 0.0 else max(0.0, a + b - 1.0)
        value += t[i] * pair_mu[i]
    return value


@kernel
def shift(change: float, weight: Floats, cap: Floats) -> float:
    """Add `change` times the loss to what is maximised, on the residual graph; returns the change of the constant."""
    constant = 0.0
    for q in range(weight.shape[0]):
        constant += _add_unary(q, change * weight[q], cap)
    return constant


@kernel
def unflip(mu: Floats, pair_mu: Floats, truth: Ints, pairs: Ints) -> None:
    """Turn means in flip coordinates into means of the labels and of their products, in place."""
    for e in range(pair_mu.shape[0]):
        p, q = pairs[e, 0], pairs[e, 1]
        # y = z where the truth is 0 and 1 - z where it is 1, multiplied out for the mean of the product.
        if truth[p] and truth[q]:
            pair_mu[e] = 1.0 - mu[p] - mu[q] + pair_mu[e]
        elif truth[p]:
            pair_mu[e] = mu[q] - pair_mu[e]
        elif truth[q]:
            pair_mu[e] = mu[p] - pair_mu[e]
    for q in range(truth.shape[0]):
        if truth[q]:
            mu[q] = 1.0 - mu[q]


class RoofOracle(PartialOracle):
    """Roof duality of `max h + lam g`: upper bounds for every lambda, and labels that provably agree with an optimum.

    Answers `free` with labels of the local polytope (`Relaxed`), for pairs of any sign. `h + lam g` of the answer is
    the value of the relaxation, never below the best label set's; where the answer is integral, it is that label set.
    The points of the polytope fill a polygon, so that free questions answer `cone` too: by a corner of the polygon, or
    by the point where its border leaves the cone.

    Parameters
    ----------
    u : ndarray of shape (1, k)
    theta : ndarray of shape (P,)
    truth : ndarray of shape (k,)
    structure : Structure
        Of any multi-label kind; `pairs` and `weight` are used.
    """

    capabilities = frozenset({FREE, CONE, CONVEX})

    def __init__(self, u: Floats, theta: Floats, truth: Ints, structure: Structure) -> None:
        self._truth, self._pairs, self._weight = truth, structure.pairs, structure.weight[0]
        self._v, self._t = np.empty(truth.shape[0]), np.empty(theta.shape[0])
        flip_coordinates(u, theta, truth, self._pairs, self._v, self._t)
        self.smallest_loss = 0.0  # of fractional labels
        self.largest_loss = float(self._weight.sum())
        k = truth.shape[0]
        self._graph = empty_graph(2 * k + 2, 8 * k + 4 * theta.shape[0])
        self._scratch = np.empty((4, 2 * k + 2), dtype=np.int64)
        self._constant = build(self._v, self._t, self._pairs, self._graph)
        self._flow, self._lam = 0.0, 0.0
        self._scale = float(np.abs(self._v).max() + np.abs(self._t).max(initial=0.0))
        self._corners: list[Answer] = []

    def value(self, lam: float) -> float:
        """`K(lam)`, the value of the relaxation: an upper bound of `h + lam g` over all label sets."""
        lam = float(lam)
        # Only the arcs of the terminals depend on lam, and they only grow, so the flow so far stays feasible: the
        # next one is warm.
        self._constant += shift(lam - self._lam, self._weight, self._graph.cap)
        self._lam = lam
        k = self._truth.shape[0]
        eps = 1e-12 * (self._scale + lam * self.largest_loss)
        self._flow += augment(self._graph, 2 * k, 2 * k + 1, eps, self._scratch)
        return 1.0 - (self._constant + self._flow)

    def free(self, lam: float) -> Answer:
        """The point of the local polytope with the largest `h + lam g`."""
        self.value(lam)
        mu, pair_mu = np.empty(self._truth.shape[0]), np.empty(self._t.shape[0])
        h = 1.0 + read(self._v, self._t, self._pairs, self._scratch[0], mu, pair_mu)
        g = float(self._weight @ mu)
        unflip(mu, pair_mu, self._truth, self._pairs)
        return Answer(Relaxed(mu, pair_mu), float(h), g)

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same among the points with `beta h <= g <= alpha h` and `h >= 0`.

        None also where the cone lies beside the slopes from the point of largest h to that of largest loss: one of
        the two has more of both h and loss than any point of the cone, so a search may do without them.
        """
        answer = self.free(lam)
        # The sum is concave on the polygon: outside the cone, its best point inside lies on the side next to it.
        if _left(answer, alpha) < 0.0:
            return self._leaving(alpha)
        return self._leaving(beta) if _left(answer, beta) > 0.0 else answer

    def _leaving(self, slope: float) -> Answer | None:
        """The point with `g = slope h` on the border from the largest h to the largest loss; None beside these two."""
        if not self._corners:
            # At the price where every flip pays, whatever the others do, everything that costs is wrong.
            least = self._weight[self._weight > 0.0].min(initial=math.inf)
            dear = (np.abs(self._v).sum() + np.abs(self._t).sum()) / least
            self._corners = [self.free(0.0), self.free(2.0 * dear)]
        while True:
            # Corners are kept by falling h and growing loss, those before `at` have h to spare.
            at = sum(_left(corner, slope) >= 0.0 for corner in self._corners)
            if at in (0, len(self._corners)):
                return None
            A, B = self._corners[at - 1 : at + 1]
            lam = (A.h - B.h) / (B.g - A.g) if B.g > A.g else 0.0
            answer = self.free(lam)
            rounding = 1e-12 * (self._scale + lam * self.largest_loss)
            if B.g <= A.g or answer.h + lam * answer.g <= A.h + lam * A.g + rounding:
                break  # nothing above the line: A and B are neighbours
            self._corners.insert(at, answer)
        share = _left(A, slope) / (_left(A, slope) - _left(B, slope))
        mu, pairs = ((1.0 - share) * a + share * b for a, b in zip(A.y, B.y, strict=True))
        return Answer(Relaxed(mu, pairs), A.h + share * (B.h - A.h), A.g + share * (B.g - A.g))


def _left(point: Answer, slope: float) -> float:
    """What a point has more of h than the line `g = slope h` asks for its loss, in units of the loss."""
    # Where the slope is infinite the line is h = 0.
    return point.h if math.isinf(slope) else slope * point.h - point.g
