"""Maximum flow with real capacities by Dinic's algorithm, from any residual graph: warm starts are free.

Arc e and its reverse `e ^ 1` are neighbours; the arcs out of a node are a linked list from `first`, by `after`.
"""

from typing import Any

from widemargin._numba import kernel

__all__ = ["add_arc", "augment"]


@kernel
def add_arc(e: int, a: int, b: int, there: float, back: float, first: Any, after: Any, head: Any, cap: Any) -> int:
    """Append the arc a -> b and its reverse; returns the next free place."""
    head[e], cap[e], after[e] = b, there, first[a]
    first[a] = e
    head[e + 1], cap[e + 1], after[e + 1] = a, back, first[b]
    first[b] = e + 1
    return e + 2


@kernel
def _distances(
    first: Any, after: Any, head: Any, cap: Any, start: int, stop: int, back: int, eps: float, depth: Any, queue: Any
) -> None:
    """Breadth-first distances from `start` in the residual graph (back 0) or to it (back 1), until `stop` is met.

    -1 where there is no way.
    """
    for node in range(depth.shape[0]):
        depth[node] = -1
    depth[start], queue[0] = 0, start
    begin, end = 0, 1
    while begin < end:
        node = queue[begin]
        begin += 1
        e = first[node]
        while e >= 0:
            other = head[e]
            if depth[other] < 0 and cap[e ^ back] > eps:
                depth[other] = depth[node] + 1
                if other == stop:
                    return
                queue[end] = other
                end += 1
            e = after[e]


@kernel
def augment(
    first: Any, after: Any, head: Any, cap: Any, source: int, sink: int, eps: float,
    depth: Any, queue: Any, current: Any, path: Any,
) -> float:  # fmt: skip
    """Augment until no way is left whose capacities exceed eps; changes `cap`, returns the flow added.

    Parameters
    ----------
    first : int array of shape (nodes,)
    after, head : int arrays of shape (arcs,)
    cap : float array of shape (arcs,)
        Residual capacities.
    source, sink : int
    eps : float
        What counts as nothing.
    depth, queue, current, path : int arrays of shape (nodes,)
        Scratch; `depth` is left with the distances from the source, -1 where there is no way.
    """
    total = 0.0
    while True:
        _distances(first, after, head, cap, sink, source, 1, eps, depth, queue)
        if depth[source] < 0:
            break
        for node in range(current.shape[0]):
            current[node] = first[node]
        node, length = source, 0
        while True:
            if node == sink:
                room = cap[path[0]]
                for i in range(1, length):
                    room = min(room, cap[path[i]])
                total += room
                full = length - 1
                for i in range(length - 1, -1, -1):
                    cap[path[i]] -= room
                    cap[path[i] ^ 1] += room
                    if cap[path[i]] <= eps:
                        full = i
                length = full  # go on from the tail of the first full arc
                node = head[path[length] ^ 1]
                continue
            e = current[node]
            while e >= 0 and not (depth[head[e]] == depth[node] - 1 and cap[e] > eps):
                e = after[e]
            current[node] = e
            if e >= 0:
                path[length] = e
                length += 1
                node = head[e]
            elif length == 0:
                break
            else:
                length -= 1
                node = head[path[length] ^ 1]
                current[node] = after[current[node]]
    _distances(first, after, head, cap, source, -1, 0, eps, depth, queue)
    return total
