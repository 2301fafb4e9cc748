"""Random small structured problems, with ties: potentials are halves."""

import numpy as np
from testing import structured_brute as brute

from widemargin.structured.models import ChainModel, HierarchyModel, MultiLabelModel

WEIGHTS = ("counts", "integers", "reals")


class Graph:
    """A directed graph with the face of networkx."""

    def __init__(self, arcs, nodes=(), directed=True):
        self.nodes = list(dict.fromkeys([*nodes, *(node for arc in arcs for node in arc)]))
        self._arcs, self._directed = list(arcs), directed

    def edges(self):
        return self._arcs

    def is_directed(self):
        return self._directed


def halves(rng, *shape):
    return np.round(2 * rng.normal(size=shape) * 1.5) / 2


def weights(rng, kind, k):
    if kind == "counts":
        return None
    if kind == "reals":
        return rng.random(k) + 0.1
    chosen = rng.integers(0, 4, k)
    chosen[rng.integers(k)] = 1
    return chosen


def multi_label(seed, k, edges="full", weight="counts", **options):
    """(model, truth, u, theta, brute force) of a multi-label problem."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((6, k)) < 0.4).astype(int)
    if edges == "forest":
        edges = [(int(rng.integers(q)), q) for q in range(1, k) if rng.random() < 0.8]
    w = weights(rng, weight, k)
    model = MultiLabelModel(edges, weights=w, **options)
    _, _, P = model.prepare(np.zeros((6, 2)), Y)
    u, theta = halves(rng, 1, k), halves(rng, P)
    w = np.ones(k) if w is None else np.asarray(w, dtype=float)
    return model, Y[0], u, theta, brute.label_sets(u, theta, model.structure.pairs, w, Y[0])


def hierarchy(seed, k, over="nodes", weight="counts"):
    """The same of a hierarchy: a random forest."""
    rng = np.random.default_rng(seed)
    parent = np.array([rng.integers(-1, q) for q in range(k)])
    w = weights(rng, weight, k)
    model = HierarchyModel(parent, loss=over, weights=w)
    Y = model.closed((rng.random((4, k)) < 0.3).astype(int))
    model.prepare(np.zeros((4, 2)), Y)
    u, theta = halves(rng, 1, k), np.zeros(0)
    w = np.ones(k) if w is None else np.asarray(w, dtype=float)
    return model, Y[0], u, theta, brute.closed_sets(u, model.graph.arcs.tolist(), w, Y[0], over)


def paths(seed, k, over="nodes", weight="counts"):
    """The same of a hierarchy whose labels are single paths; four of them at most, the ends of the training labels."""
    rng = np.random.default_rng(seed)
    renamed = rng.permutation(k)  # a parent may come after its children
    parent = np.empty(k, dtype=int)
    for q in range(k):
        above = int(rng.integers(-1, q))
        parent[renamed[q]] = -1 if above < 0 else renamed[above]
    w = weights(rng, weight, k)
    model = HierarchyModel(parent, loss=over, weights=w, labels="path")
    ends = rng.integers(0, k, 4)
    Y = model.closed(np.eye(k, dtype=int)[ends])
    model.prepare(np.zeros((4, 2)), Y)
    u, theta = halves(rng, 1, k), np.zeros(0)
    w = np.ones(k) if w is None else np.asarray(w, dtype=float)
    return model, Y[0], u, theta, brute.paths(u, parent, np.unique(ends), w, Y[0], over)


def chain(seed, T, S, weight="counts"):
    """The same of a chain."""
    rng = np.random.default_rng(seed)
    w = weights(rng, weight, S)
    model = ChainModel(w)
    Y = [rng.integers(0, S, T), np.arange(S)]
    model.prepare([np.zeros((len(y), 2)) for y in Y], Y)
    u, theta = halves(rng, T, S), halves(rng, S * S)
    w = np.ones(S) if w is None else np.asarray(w, dtype=float)
    return model, Y[0], u, theta, brute.sequences(u, theta, w, Y[0])
