"""Hierarchical multi-label: label sets closed under ancestors, or single paths."""

from typing import Any

import numpy as np

from widemargin._typing import ArrayLike, Floats, Ints
from widemargin.exceptions import CapabilityError, DataError
from widemargin.structured.compiled import HIERARCHY, PATHS, make_structure
from widemargin.structured.learners.example_rows import check_lengths, check_weights
from widemargin.structured.model import Examples
from widemargin.structured.models.base import LabelSetModel, indicator
from widemargin.structured.models.label_graph import Hierarchy, LabelGraph, read_hierarchy, storable
from widemargin.structured.models.max_marginals import of_closed_sets, of_closures, of_paths
from widemargin.structured.oracle import Oracle
from widemargin.structured.oracles.closures import ClosureOracle, best_closure
from widemargin.structured.oracles.lp_relaxation import PairwiseProgram


class HierarchyModel(LabelSetModel):
    """`f(x, y) = sum_v y_v <x, w_v>` over label sets in which an active node has an active parent.

    A set may end at an inner node; the empty set is one of them. On a forest everything is exact, by dynamic
    programming. Where nodes have several parents (all of which must be active), the argmax for margin rescaling and the
    decoding are exact, by minimum cuts; for slack rescaling the oracle then answers "free" questions only, so its
    searches are heuristic, with a certified upper bound, unless `oracle="milp"`. Such hierarchies allow only
    `loss="nodes"`.

    Parameters
    ----------
    hierarchy : array-like of int, directed graph, or sequence of str
        Parent of every node (-1: root); or a networkx graph, arcs from parent to child; or the paths of the nodes.
        Nodes are the columns of Y, in this order.
    loss : {"nodes", "leaves"}, default="nodes"
        What is counted: nodes that differ, or deepest active nodes that differ (where a path stops, at a leaf of the
        hierarchy or before).
    weights : array-like of shape (k,), optional
        Of the counted nodes, `>= 0`. Default: 1 each.
    separator : str, default="/"
        Between the parts of a path.
    oracle : {"auto", "milp"}, default="auto"
        "milp": slack rescaling is exact where nodes have several parents too, by integer programming; slow.
    labels : {"sets", "path"}, default="sets"
        "path": the labels are the paths from a root to a node where a training label ends, all of which are looked at.
        Every training label must be one path; for forests.

    Attributes
    ----------
    graph : LabelGraph
        After `prepare`.
    """

    _kinds = (HIERARCHY, PATHS)

    def _refuse_arrays(self) -> None:
        super()._refuse_arrays()
        if "graph" in vars(self):
            parent = self.structure.parent
            if len(self.graph.names) != len(parent) or (
                self.graph.is_forest and not np.array_equal(self.graph.parent(), parent)
            ):
                raise ValueError("the graph is not that of the structure")

    def __init__(
        self,
        hierarchy: Hierarchy,
        *,
        loss: str = "nodes",
        weights: ArrayLike | None = None,
        separator: str = "/",
        oracle: str = "auto",
        labels: str = "sets",
    ) -> None:
        self.hierarchy = hierarchy
        self.loss_over = loss
        self.weights = weights
        self.separator = separator
        self.oracle_kind = oracle
        self.labels = labels

    graph: LabelGraph

    def __getstate__(self) -> dict[str, Any]:
        """With the nodes and arcs of a graph in its place."""
        return super().__getstate__() | {"hierarchy": storable(self.hierarchy)}

    def prepare(self, X: Examples, Y: Examples) -> tuple[int, int, int]:
        """Read the hierarchy and check that the label sets are closed; returns (d, k, 0).

        Raises
        ------
        DataError
            A cycle; Y does not fit the hierarchy, or a row of it is not closed, or not one path where it should be.
        CapabilityError
            `loss="leaves"` or `labels="path"`, and a node with several parents.
        """
        rows, _ = self.stack(X)
        Y = indicator(Y)
        check_lengths(rows, Y)
        self.graph = read_hierarchy(self.hierarchy, self.separator)
        k = len(self.graph.names)
        if Y.shape[1] != k:
            raise DataError(f"Y has {Y.shape[1]} columns, the hierarchy {k} nodes: give one column per node.")
        weight = check_weights(self.weights, k)
        if self.oracle_kind not in ("auto", "milp"):
            raise CapabilityError(f"oracle={self.oracle_kind!r}: give 'auto' or 'milp'.")
        if self.loss_over not in ("nodes", "leaves"):
            raise DataError(f"loss={self.loss_over!r}: give 'nodes' or 'leaves'.")
        if self.labels not in ("sets", "path"):
            raise DataError(f"labels={self.labels!r}: give 'sets' or 'path'.")
        # Where a path ends and which way it came is unique in forests only.
        for option, wrong, right in (("loss", "leaves", "nodes"), ("labels", "path", "sets")):
            if not self.graph.is_forest and wrong in (self.loss_over, self.labels):
                twice = self.graph.names[np.flatnonzero(np.bincount(self.graph.arcs[:, 1]) > 1)[0]]
                raise CapabilityError(
                    f"node {twice!r} has several parents: {option}={wrong!r} is for trees, use {option}={right!r}."
                )
        self._check(Y, "row {} of Y")
        # The first line of weights is of nodes that differ, the second of deepest nodes that differ.
        both = np.zeros((2, k))
        both[0 if self.loss_over == "nodes" else 1] = weight
        # With several parents no dynamic programme runs, and only the weights of the structure are used.
        parent = self.graph.parent() if self.graph.is_forest else None
        if self.labels == "path":
            # A path may end only where one of the training examples does.
            ends = _deepest(Y, self.graph.arcs).max(axis=0)
            self.structure = make_structure(PATHS, both, parent=parent, ends=ends)
        else:
            self.structure = make_structure(HIERARCHY, both, parent=parent)
        return rows.shape[1], k, 0

    def compiles(self, slack: bool) -> bool:
        """Whether the compiled argmax answers: on forests."""
        return self.graph.is_forest and super().compiles(slack)

    def oracle(self, x: object, truth: object, potentials: Floats, theta: Floats) -> Oracle:
        """The oracle of a training example."""
        # With several parents there is no dynamic programme; minimum cuts answer instead.
        if self.graph.is_forest:
            return super().oracle(x, truth, potentials, theta)
        # Making a programme costs more than solving it, so a thread keeps one for all of its examples.
        if not hasattr(self._local, "program"):
            exact = self.oracle_kind == "milp"
            arcs = self.graph.arcs
            self._local.program = PairwiseProgram(self.structure, integer=True, arcs=arcs) if exact else None
        label, weight = self.encode(truth), self.structure.weight[0]
        return ClosureOracle(potentials, label, weight, self.graph.arcs, self._local.program)

    def decode_all(self, u: Floats, theta: Floats) -> Ints:
        """The closed label sets with the largest scores, for potentials of shape (n, k)."""
        if self.graph.is_forest:
            return super().decode_all(u, theta)
        return np.array([best_closure(own, self.graph.arcs) for own in u], dtype=np.int64).reshape(u.shape)

    def max_marginals(self, u: Floats, theta: Floats) -> Floats:
        """The best score of a closed label set, or of a path, with each label on, minus the best with it off."""
        if self.labels == "path":
            return of_paths(u, self.structure)
        return of_closed_sets(u, self.structure) if self.graph.is_forest else of_closures(u, self.graph.arcs)

    def _check(self, Y: Ints, what: str) -> None:
        """Refuse a row that is not closed, or no path where it should be one; `what` names it by its number."""
        # A set is closed where no arc leads from an inactive parent to an active child.
        above, below = self.graph.arcs[:, 0], self.graph.arcs[:, 1]
        wrong = Y[:, below] > Y[:, above]
        if wrong.any():
            i, arc = np.argwhere(wrong)[0].tolist()
            p, q = self.graph.names[above[arc]], self.graph.names[below[arc]]
            raise DataError(
                f"{what.format(i)} has node {q!r} but not its parent {p!r}: close the label sets, see `closed`."
            )
        if self.labels != "path":
            return
        for i, ends in enumerate(map(np.flatnonzero, _deepest(Y, self.graph.arcs))):
            if ends.size == 0:
                raise DataError(
                    f"{what.format(i)} is empty: labels='path' wants one path; leave it out, or use labels='sets'."
                )
            if ends.size > 1:
                p, q = self.graph.names[ends[0]], self.graph.names[ends[1]]
                raise DataError(
                    f"{what.format(i)} has {ends.size} paths, which end at {p!r} and {q!r}: labels='path' wants one "
                    "path; keep one, or use labels='sets'."
                )

    def closed(self, Y: Examples) -> Ints:
        """Label sets with the ancestors of their nodes added."""
        graph = read_hierarchy(self.hierarchy, self.separator)
        sets = indicator(Y).copy()
        for p, q in graph.deep_first():
            sets[:, p] |= sets[:, q]
        return sets

    def encode(self, y: object) -> Ints:
        """A closed 0/1 vector; one path where labels are paths."""
        label = super().encode(y)
        self._check(label[None, :], "a label")
        return label

    def encode_all(self, Y: Examples) -> tuple[Ints, Ints]:
        """All label sets one after the other, and where each begins."""
        whole, start = super().encode_all(Y)
        self._check(whole.reshape(start.shape[0] - 1, -1), "row {} of Y")
        return whole, start


def _deepest(Y: Ints, arcs: Ints) -> Ints:
    """Mark the nodes of each label set of which no child is in it: where its paths end."""
    # A node is passed on the way where a child of it is in the set.
    goes_on = np.zeros_like(Y)
    np.maximum.at(goes_on.T, arcs[:, 0], Y[:, arcs[:, 1]].T)
    return Y & (1 - goes_on)
