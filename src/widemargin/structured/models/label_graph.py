"""Label hierarchies as users give them: parent array, paths, graph; one form inside."""

from collections.abc import Callable, Collection, Hashable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from widemargin._typing import ArrayLike, Ints
from widemargin.exceptions import DataError


class LabelGraph(NamedTuple):
    """Nodes 0 to k - 1 and arcs (parent, child).

    Attributes
    ----------
    names : tuple
        Of the nodes, in the order of the columns of Y.
    arcs : ndarray of shape (m, 2)
    """

    names: tuple[Hashable, ...]
    arcs: Ints

    @staticmethod
    def _stored_arrays() -> dict[str, str]:
        return {"arcs": "count m 2"}

    def _refuse_arrays(self) -> None:
        if self.arcs.max(initial=-1) >= len(self.names):
            raise ValueError(f"an arc leads to node {self.arcs.max()} of {len(self.names)}")

    @property
    def is_forest(self) -> bool:
        """Whether no node has two parents."""
        # Every oracle asks: as many arcs as nodes are told at once.
        return self.arcs.shape[0] < len(self.names) and bool(np.bincount(self.arcs[:, 1]).max(initial=0) <= 1)

    def parent(self) -> Ints:
        """Parent of every node of a forest, k for roots."""
        k = len(self.names)
        # The number k stands for no parent, a virtual node above all roots.
        parent = np.full(k, k, dtype=np.int64)
        parent[self.arcs[:, 1]] = self.arcs[:, 0]
        return parent

    def topological(self) -> Ints:
        """Nodes, parents before children.

        Raises
        ------
        DataError
            Where there is a cycle; the message names one of its nodes.
        """
        # The sorter takes what has to come before each node.
        above: dict[int, list[int]] = {node: [] for node in range(len(self.names))}
        for p, q in self.arcs.tolist():
            above[q].append(p)
        try:
            return np.array(list(TopologicalSorter(above).static_order()), dtype=np.int64)
        except CycleError as error:
            cycle = error.args[1][1:]
            raise DataError(
                f"the hierarchy has a cycle: {len(cycle)} nodes are on it, such as {self.names[min(cycle)]!r}. "
                "Remove an arc of it."
            ) from error

    def deep_first(self) -> Ints:
        """Arcs in an order in which what a node gets from its children is there before its parents are looked at."""
        position = np.empty(len(self.names), dtype=np.int64)
        position[self.topological()] = np.arange(len(self.names))
        return np.asarray(self.arcs[np.argsort(-position[self.arcs[:, 1]], kind="stable")])


@runtime_checkable
class DirectedGraph(Protocol):
    """A graph as networkx has them; arcs lead from parent to child."""

    @property
    def nodes(self) -> Collection[Hashable]: ...
    @property
    def edges(self) -> Callable[[], Collection[tuple[Hashable, Hashable]]]: ...


Hierarchy: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]] | Sequence[str] | DirectedGraph | LabelGraph
"""Parents of the nodes (-1: root), paths of the nodes, a graph, or what all of these become."""


def storable(hierarchy: Hierarchy) -> Hierarchy:
    """A hierarchy without objects of other libraries: graphs become a `LabelGraph`, the rest is kept."""
    return _from_graph(hierarchy) if isinstance(hierarchy, DirectedGraph) else hierarchy


def read_hierarchy(hierarchy: Hierarchy, separator: str = "/") -> LabelGraph:
    """A hierarchy from what a user has.

    Parameters
    ----------
    hierarchy : array-like of int, graph, sequence of str, or LabelGraph
        Parent of every node, -1 for roots; or a directed graph with `nodes` and `edges` (networkx), arcs from parent to
        child; or the paths of the nodes, whose parent is the longest shorter path among them.
    separator : str, default="/"
        Between the parts of a path.

    Raises
    ------
    DataError
        A cycle, a parent that does not exist, a path twice.
    """
    if isinstance(hierarchy, LabelGraph):
        graph = hierarchy
    elif isinstance(hierarchy, DirectedGraph):
        graph = _from_graph(hierarchy)
    else:
        nodes = list(hierarchy)
        if not nodes:
            raise DataError("the hierarchy has no nodes.")
        paths = [node for node in nodes if isinstance(node, str)]
        # Numbers among paths are no parents: which kind is meant cannot be told.
        if 0 < len(paths) < len(nodes):
            raise DataError(
                f"the hierarchy mixes {len(paths)} paths with {len(nodes) - len(paths)} other entries: give one kind."
            )
        if paths:
            # The parent of a path is the longest of its beginnings that is there: some levels may be left out.
            index = {path: node for node, path in enumerate(paths)}
            if len(index) < len(paths):
                twice = next(path for node, path in enumerate(paths) if index[path] != node)
                raise DataError(f"the hierarchy lists the path {twice!r} twice.")
            arcs = []
            for path, node in index.items():
                parts = path.split(separator)
                beginnings = (separator.join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
                above = next((index[beginning] for beginning in beginnings if beginning in index), None)
                if above is not None:
                    arcs.append((above, node))
            graph = LabelGraph(tuple(paths), np.array(arcs, dtype=np.int64).reshape(-1, 2))
        else:
            parent = np.asarray(nodes)
            if parent.ndim != 1 or not np.issubdtype(parent.dtype, np.integer):
                raise DataError(
                    "give the hierarchy as parents of the nodes (integers, -1 for roots), as a graph, or as paths."
                )
            k = parent.shape[0]
            wrong = np.flatnonzero((parent < -1) | (parent >= k))
            if wrong.size:
                raise DataError(
                    f"node {wrong[0]} has the parent {parent[wrong[0]]}: there are {k} nodes, -1 means a root."
                )
            # Roots have no arc; every other node has exactly one, so this is a forest unless there is a cycle.
            child = np.flatnonzero(parent >= 0)
            graph = LabelGraph(tuple(range(k)), np.stack([parent[child], child], axis=1).astype(np.int64))
    graph.topological()  # refuses cycles
    return graph


def check_order(graph: LabelGraph, columns: ArrayLike) -> None:
    """Refuse columns of Y that are named like nodes, but like others than those at their places.

    Parameters
    ----------
    columns : array-like of shape (k,)
        Names of the columns, or their numbers.

    Raises
    ------
    DataError
    """
    # Columns without names of nodes say nothing about their order.
    place = {name: node for node, name in enumerate(graph.names)}
    for column, (name, node) in enumerate(zip(np.asarray(columns).tolist(), graph.names, strict=False)):
        if place.get(name, column) != column:
            raise DataError(
                f"column {column} of y is {name!r}, but node {column} of the hierarchy is {node!r}: bring the columns "
                "into the order of the nodes (of a graph: the one in which they were added)."
            )


def _from_graph(graph: DirectedGraph) -> LabelGraph:
    # An undirected graph lists each edge once, in any direction.
    if hasattr(graph, "is_directed") and not graph.is_directed():
        raise DataError("the hierarchy is an undirected graph: give a directed one, arcs from parent to child.")
    names = tuple(graph.nodes)
    if not names:
        raise DataError("the hierarchy has no nodes.")
    # Nodes are numbered in the order in which they were added.
    index = {name: node for node, name in enumerate(names)}
    arcs = dict.fromkeys((index[a], index[b]) for a, b in graph.edges())  # a multigraph may have one twice
    return LabelGraph(names, np.array(list(arcs), dtype=np.int64).reshape(-1, 2))
