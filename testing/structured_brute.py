"""All labels of small structured problems with their points, by the definitions."""

import itertools
from typing import NamedTuple

import numpy as np


class Brute(NamedTuple):
    """Labels, and their points (h, g)."""

    labels: list
    h: np.ndarray
    g: np.ndarray

    def best(self, lam):
        """Largest `h + lam g`."""
        return (self.h + lam * self.g).max()

    def best_product(self):
        """Largest `h g`, at least 0."""
        return max(0.0, (self.h * self.g).max())

    def level(self, c):
        """Largest h of the labels of loss c, -inf where there is none."""
        return self.h[self.g == c].max(initial=-np.inf)

    def holds(self, answer, tol=1e-9):
        """Whether an answer is one of the labels, and its point is that label's."""
        for label, h, g in zip(self.labels, self.h, self.g, strict=True):
            if np.array_equal(label, answer.y):
                return abs(h - answer.h) <= tol and abs(g - answer.g) <= tol
        return False


def points(labels, score, loss, truth):
    """The points of labels by functions for score and loss."""
    own = score(truth)
    return Brute(
        labels, np.array([1 + score(y) - own for y in labels]), np.array([loss(y) for y in labels], dtype=float)
    )


def label_sets(u, theta, pairs, weight, truth):
    """Label sets of a pairwise model."""
    k = len(truth)
    labels = [np.array(y) for y in itertools.product((0, 1), repeat=k)]
    return points(
        labels,
        lambda y: u[0] @ y + sum(theta[e] * y[p] * y[q] for e, (p, q) in enumerate(pairs)),
        lambda y: sum(weight[j] for j in range(k) if y[j] != truth[j]),
        truth,
    )


def closed_sets(u, arcs, weight, truth, over="nodes"):
    """Label sets closed under the ancestors of a graph with arcs (parent, child)."""
    k = len(truth)
    labels = [np.array(y) for y in itertools.product((0, 1), repeat=k)]
    labels = [y for y in labels if all(y[p] >= y[q] for p, q in arcs)]

    def marks(y):
        ends = [y[p] and not any(y[q] for above, q in arcs if above == p) for p in range(k)]
        return np.array(ends) if over == "leaves" else np.array(y, dtype=bool)

    return points(labels, lambda y: u[0] @ y, lambda y: weight[marks(y) != marks(truth)].sum(), truth)


def paths(u, parent, ends, weight, truth, over="nodes"):
    """Paths of a forest, from a root to one of the ends."""
    labels = []
    for end in ends:
        y, node = np.zeros(len(truth), dtype=int), end
        while node >= 0:
            y[node] = 1
            node = parent[node]
        labels.append(y)

    def loss(y):
        if over == "nodes":
            return weight[y != truth].sum()
        one, other = (max(np.flatnonzero(path), key=lambda q: depth(parent, q)) for path in (y, truth))
        return 0.0 if one == other else weight[one] + weight[other]

    return points(labels, lambda y: u[0] @ y, loss, truth)


def depth(parent, node):
    """Nodes above a node."""
    return 0 if parent[node] < 0 else 1 + depth(parent, parent[node])


def sequences(u, theta, weight, truth):
    """Sequences of states."""
    T, S = u.shape
    labels = [np.array(y) for y in itertools.product(range(S), repeat=T)]
    return points(
        labels,
        lambda y: sum(u[t, y[t]] for t in range(T)) + sum(theta[y[t - 1] * S + y[t]] for t in range(1, T)),
        lambda y: sum(weight[truth[t]] for t in range(T) if y[t] != truth[t]),
        truth,
    )
