"""Maximum closure: the best set of nodes that holds the parents of each of its nodes, by a minimum cut."""

from typing import Any

import numpy as np

from widemargin._numba import kernel
from widemargin.structured.oracles.max_flow import add_arc, augment

__all__ = ["closure"]

_NOTHING = 1e-12


@kernel
def closure(gain: Any, arcs: Any, first: Any, after: Any, head: Any, cap: Any, scratch: Any, label: Any) -> None:
    """Fill `label` with the smallest best closed set.

    Parameters
    ----------
    gain : array of shape (k,)
    arcs : int array of shape (m, 2)
        (parent, child).
    first : int array of shape (k + 2,)
    after, head, cap : arrays of shape (2 (k + m),)
    scratch : int array of shape (4, k + 2)
    label : int array of shape (k,)
    """
    k = gain.shape[0]
    source, sink = k, k + 1
    for node in range(k + 2):
        first[node] = -1
    e, largest = 0, 0.0
    for node in range(k):
        largest = max(largest, abs(gain[node]))
        if gain[node] > 0.0:
            e = add_arc(e, source, node, gain[node], 0.0, first, after, head, cap)
        else:
            e = add_arc(e, node, sink, -gain[node], 0.0, first, after, head, cap)
    for i in range(arcs.shape[0]):
        e = add_arc(e, arcs[i, 1], arcs[i, 0], np.inf, 0.0, first, after, head, cap)
    depth = scratch[0]
    augment(first, after, head, cap, source, sink, _NOTHING * largest, depth, scratch[1], scratch[2], scratch[3])
    for node in range(k):
        label[node] = 1 if depth[node] >= 0 else 0
