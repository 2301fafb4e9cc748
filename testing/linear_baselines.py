"""Small problems for the linear baselines, and rows that spoil a fit."""

import numpy as np
from sklearn.datasets import make_classification


def classes(n=300, d=6, n_classes=2, seed=0, flip=0.1):
    """Rows of some classes, with a share of random labels, in random order."""
    return make_classification(
        n,
        d,
        n_informative=4,
        n_redundant=0,
        n_classes=n_classes,
        n_clusters_per_class=1,
        flip_y=flip,
        random_state=seed,
    )


def signs(y):
    """Labels 0 and 1 as -1 and +1."""
    return np.where(y == 1, 1.0, -1.0)


def spoiled(X, y, share, factor, seed=0):
    """A share of the rows multiplied by a factor, with the other label (0 and 1)."""
    rows = np.random.default_rng(seed).permutation(len(y))[: int(share * len(y))]
    X, y = X.copy(), y.copy()
    X[rows] *= factor
    y[rows] = 1 - y[rows]
    return X, y
