"""A k-d tree as an order of the rows: neighbours in space become neighbours in memory."""

from typing import Any

import numpy as np

from widemargin._typing import Ints

__all__ = ["boxes", "spatial_order"]


def spatial_order(X: Any, leaf: int) -> Ints:
    """Permutation that puts the rows of every leaf side by side.

    Each node is split across its widest column, near the median, so that every leaf but the last has `leaf` rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    leaf : int
        Rows of a leaf.

    Returns
    -------
    ndarray of int64, shape (n,)
        `X[order[k * leaf : (k + 1) * leaf]]` is leaf k.
    """
    order = np.arange(X.shape[0], dtype=np.int64)
    nodes = [(0, X.shape[0])]
    while nodes:
        low, high = nodes.pop()
        count = -(-(high - low) // leaf)
        if count <= 1:
            continue
        rows = order[low:high]
        inside = X[rows]
        column = inside[:, int(np.argmax(np.ptp(inside, axis=0)))]
        half = leaf * (count // 2)
        order[low:high] = rows[np.argpartition(column, half - 1)]
        nodes += [(low, low + half), (low + half, high)]
    return order


def boxes(X: Any, leaf: int) -> tuple[Any, Any]:
    """Smallest and largest value of every column in blocks of `leaf` rows, shapes (blocks, d)."""
    starts = np.arange(0, X.shape[0], leaf)
    return np.minimum.reduceat(X, starts, axis=0), np.maximum.reduceat(X, starts, axis=0)
