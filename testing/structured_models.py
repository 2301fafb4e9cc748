"""Structured models small enough to list all labels, and the exact optimum of their training problem."""

import functools
import itertools

import clarabel
import numpy as np
import scipy.sparse as sp

from point_oracles import PointOracle
from widemargin.exceptions import DataError
from widemargin.structured.model import Features
from widemargin.structured.oracle import Answer


class ListedOracle(PointOracle):
    """Answers with the labels themselves."""

    def __init__(self, labels, points, capabilities):
        super().__init__(points, capabilities)
        self.labels = labels

    def answer(self, chosen):
        number, h, g = super().answer(chosen)
        return Answer(self.labels[number], h, g)


class ListedModel:
    """A model by the list of its labels: `labels(x)`, `features(x, y)`, `loss(y, truth)`, `sizes`."""

    capabilities = ("free", "cone", "level", "levels", "direct")

    def prepare(self, X, Y):
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            if not self.contains(x, y):
                raise DataError(f"label {i} is {y!r}, which is none of the model's.")
        return self.sizes(X)

    def contains(self, x, y):
        return any(y == label for label in self.labels(x))

    def rows(self, x):
        return x if sp.issparse(x) else np.atleast_2d(x)

    def value(self, x, y, potentials, theta):
        A, b = self.features(x, y)
        return float(np.vdot(A, potentials) + b @ theta)

    def oracle(self, x, truth, potentials, theta):
        labels, own = self.labels(x), self.value(x, truth, potentials, theta)
        points = [(1.0 + self.value(x, y, potentials, theta) - own, self.loss(y, truth)) for y in labels]
        return ListedOracle(labels, points, self.capabilities)

    def decode(self, x, potentials, theta):
        return max(self.labels(x), key=lambda y: self.value(x, y, potentials, theta))


class Classes(ListedModel):
    """Multi-class: a column of W a class, loss 1."""

    def __init__(self, n_classes):
        self.n_classes = n_classes

    def sizes(self, X):
        return X[0].shape[-1], self.n_classes, 0

    def labels(self, x):
        return range(self.n_classes)

    def features(self, x, y):
        return Features(np.eye(self.n_classes)[[y]], np.empty(0))

    def loss(self, y, truth):
        return float(y != truth)


class LabelSets(ListedModel):
    """Multi-label with all pairs: loss is the Hamming count."""

    def __init__(self, k, capabilities=ListedModel.capabilities):
        self.k, self.capabilities = k, capabilities

    def sizes(self, X):
        return X[0].shape[-1], self.k, self.k * (self.k - 1) // 2

    def labels(self, x):
        return words(2, self.k)

    def features(self, x, y):
        return features_of_set(tuple(y))

    def loss(self, y, truth):
        return float(sum(a != b for a, b in zip(y, truth, strict=True)))


class Sequences(ListedModel):
    """Chains of any length: a state a row, a weight for every pair of states in a row."""

    def __init__(self, n_states):
        self.n_states = n_states

    def sizes(self, X):
        return X[0].shape[-1], self.n_states, self.n_states**2

    def labels(self, x):
        return words(self.n_states, x.shape[0])

    def features(self, x, y):
        return features_of_sequence(self.n_states, tuple(y))

    def loss(self, y, truth):
        return float(sum(a != b for a, b in zip(y, truth, strict=True)))


# The same few labels are asked for a hundred thousand times.


@functools.cache
def words(n_letters, length):
    return list(itertools.product(range(n_letters), repeat=length))


@functools.cache
def features_of_set(y):
    pairs = [a * b for a, b in itertools.combinations(y, 2)]
    return Features(np.array([y], dtype=float), np.array(pairs, dtype=float))


@functools.cache
def features_of_sequence(n_states, y):
    b = np.zeros((n_states, n_states))
    np.add.at(b, (list(y[:-1]), list(y[1:])), 1.0)
    return Features(np.eye(n_states)[list(y)], b.ravel())


def examples(kind, *, n=12, seed=0):
    """(model, X, Y) with noisy labels of a linear model."""
    rng = np.random.default_rng(seed)
    if kind == "sequences":
        X = [rng.normal(size=(int(rng.integers(1, 4)), 4)) for _ in range(n)]
        Y = [tuple((x[:, :2].sum(axis=1) + 0.5 * rng.normal(size=x.shape[0]) > 0).astype(int).tolist()) for x in X]
        return Sequences(2), X, Y
    X = [rng.normal(size=4) for _ in range(n)]
    if kind == "classes":
        return Classes(3), X, [int(np.argmax(x[:3] + rng.normal(size=3))) for x in X]
    Y = [tuple((x[:3] + 0.7 * rng.normal(size=3) > 0).astype(int).tolist()) for x in X]
    return LabelSets(3), X, Y


def joint(model, x, y):
    """phi(x, y) as one vector."""
    A, b = model.features(x, y)
    rows = model.rows(x)
    rows = rows.toarray() if sp.issparse(rows) else rows
    return np.concatenate([(rows.T @ A).ravel(), b])


def exact_training(model, X, Y, *, C, slack):
    """Optimum and weights of `1/2 |w|^2 + C sum_i H_i(w)` by an interior point method over all labels."""
    lines, levels, owners = [], [], []
    for i, (x, truth) in enumerate(zip(X, Y, strict=True)):
        own = joint(model, x, truth)
        for y in model.labels(x):
            loss = model.loss(y, truth)
            psi = own - joint(model, x, y)
            lines.append(loss * psi if slack else psi)
            levels.append(loss)
            owners.append(i)
    n, size = len(X), lines[0].shape[0]
    # xi_i >= l - w.p:  -p.w - xi_i <= -l
    pick = sp.csc_matrix((np.ones(len(owners)), (range(len(owners)), owners)), shape=(len(owners), n))
    G = sp.hstack([sp.csc_matrix(-np.array(lines)), -pick], format="csc")
    P = sp.block_diag([sp.eye(size), sp.csc_matrix((n, n))], format="csc")
    q = np.concatenate([np.zeros(size), np.full(n, C)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(P, q, G, -np.array(levels), [clarabel.NonnegativeConeT(len(levels))], settings)
    solution = solver.solve()
    return float(solution.obj_val), np.array(solution.x)[:size]
