"""Maximum flow with real capacities by Dinic's algorithm, from any residual graph: warm starts are free."""

from typing import NamedTuple

import numpy as np

from widemargin._numba import array_kernel, kernel
from widemargin._typing import Floats, Ints


class ResidualGraph(NamedTuple):
    """Arcs e with their reverses `e ^ 1` beside them; those out of a node are a linked list.

    Attributes
    ----------
    first : ndarray of shape (nodes,)
        The first arc out of every node, -1 where there is none.
    after : ndarray of shape (arcs,)
        The next arc out of the same node, -1 at the end.
    head : ndarray of shape (arcs,)
        Where an arc leads.
    cap : ndarray of shape (arcs,)
        Residual capacities.
    """

    first: Ints
    after: Ints
    head: Ints
    cap: Floats


@array_kernel
def empty_graph(n_nodes: int, n_arcs: int) -> ResidualGraph:
    """Nodes without arcs, and room for so many arcs, reverses included."""
    # Lists of arcs are empty at first; heads and capacities are written when arcs are added.
    first = np.full(n_nodes, -1, np.int64)
    return ResidualGraph(first, np.empty(n_arcs, np.int64), np.empty(n_arcs, np.int64), np.empty(n_arcs))


@kernel
def add_arc(e: int, a: int, b: int, there: float, back: float, graph: ResidualGraph) -> int:
    """Append the arc a -> b and its reverse at place e; returns the next free place."""
    first, after, head, cap = graph
    head[e], cap[e], after[e] = b, there, first[a]
    first[a] = e
    head[e + 1], cap[e + 1], after[e + 1] = a, back, first[b]
    first[b] = e + 1
    return e + 2


@kernel
def _distances(graph: ResidualGraph, start: int, stop: int, back: int, eps: float, depth: Ints, queue: Ints) -> None:
    """Breadth-first distances from `start` in the residual graph (back 0) or to it (back 1), until `stop` is met.

    -1 where there is no way.
    """
    first, after, head, cap = graph
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
            # To measure distances *to* the start, arcs are walked against their direction: their reverses count.
            if depth[other] < 0 and cap[e ^ back] > eps:
                depth[other] = depth[node] + 1
                if other == stop:
                    return
                queue[end] = other
                end += 1
            e = after[e]


@kernel
def augment(graph: ResidualGraph, source: int, sink: int, eps: float, scratch: Ints) -> float:
    """Augment until no way is left whose capacities exceed eps; changes the capacities, returns the flow added.

    Parameters
    ----------
    graph : ResidualGraph
    source, sink : int
    eps : float
        What counts as nothing.
    scratch : int array of shape (4, nodes)
        Its first row is left with the distances from the source, -1 where there is no way: the source's side of the
        least cut.
    """
    first, after, head, cap = graph
    depth, queue, current, path = scratch[0], scratch[1], scratch[2], scratch[3]
    total = 0.0
    while True:
        # One phase: distances to the sink, then ways along which the distance falls by one with every arc.
        _distances(graph, sink, source, 1, eps, depth, queue)
        if depth[source] < 0:
            break
        # Within a phase an arc that has failed once fails for good, so every node remembers how far it has looked.
        for node in range(current.shape[0]):
            current[node] = first[node]
        node, length = source, 0
        while True:
            if node == sink:
                # A whole way to the sink: as much flows as its narrowest arc lets through.
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
            else:  # a dead end: step back, and never take the arc that led here again in this phase
                length -= 1
                node = head[path[length] ^ 1]
                current[node] = after[current[node]]
    # No way is left: what the source still reaches is its side of the least cut.
    _distances(graph, source, -1, 0, eps, depth, queue)
    return total
