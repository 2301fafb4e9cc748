"""What a compiled argmax knows of a model, and the arrays it works in.

A model that the compiled loops serve describes itself by one `Structure`; labels are int64 arrays: 0/1 per label, the
state of every step, or one class. `structured.oracles.argmax.best_answer` answers from these alone, so a whole pass of
a learner can be compiled, once for all models.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints

__all__ = [
    "CHAIN", "CLASSES", "ENUMERATION", "EXACT", "F1", "GREEDY", "HAMMING", "HIERARCHY", "JACCARD", "MULTICLASS",
    "PATHS", "TREE", "UNARY", "ChainStructure", "CompiledModel", "Desk", "EnumerationStructure",
    "GreedyStructure", "HierarchyStructure", "MulticlassStructure", "PathsStructure", "Structure", "TreeStructure",
    "UnaryStructure", "Work", "forest", "integer_costs", "make_structure", "workspace",
]  # fmt: skip

UNARY, TREE, HIERARCHY, CHAIN, MULTICLASS, ENUMERATION, GREEDY, PATHS = range(8)
HAMMING, JACCARD, F1, EXACT = range(4)


class Structure(NamedTuple):
    """A model, as the compiled loops see it.

    Attributes
    ----------
    kind : int
        One of UNARY, TREE, HIERARCHY, CHAIN, MULTICLASS, ENUMERATION, GREEDY, PATHS.
    weight : ndarray of shape (r, S)
        Weights of the loss. Multi-label: `(1, k)`, per label. Hierarchy and paths: `(2, k)`, of a node's activity and
        of its being a deepest active node. Chain: `(1, S)`, by the true state. Multiclass: `(S, S)`, loss of class j
        where i is true.
    cost : ndarray of shape (r, S)
        `weight / unit`, integers: steps of the levels.
    unit : float
        Loss of one level; 0 where the weights have no common unit, not even nearly, so that there are no levels.
        Weights that nearly have one are rounded up in `cost`; see `rounding`.
    pairs : ndarray of shape (P, 2)
        Labels joined by each pair weight.
    parent, edge : ndarray of shape (k,)
        Parent of a label, k for roots; index in theta of the edge to it, -1 for none.
    order : ndarray of shape (k,)
        Labels, children before parents.
    child_start : ndarray of shape (k + 2,), child : ndarray of shape (k,)
        Children of a label (of the roots' virtual parent k), in the order in which `order` meets them.
    table : ndarray of shape (2 ** k,)
        Enumeration: loss of every set of flipped labels.
    restarts : int
        Greedy search: random starts after the first.
    ends : ndarray of shape (k,)
        Paths: 1 where one may end. Empty for other kinds.
    scored : int
        Enumeration and greedy search: HAMMING, the sum of the weights of wrong labels, or the loss 1 - JACCARD, 1 - F1
        or 1 - EXACT of two sets, whose weights are all 1.
    """

    kind: int
    weight: Floats
    cost: Ints
    unit: float
    pairs: Ints
    parent: Ints
    edge: Ints
    order: Ints
    child_start: Ints
    child: Ints
    table: Floats
    restarts: int
    ends: Ints
    scored: int = HAMMING

    @property
    def n_theta(self) -> int:
        """Weights of pairs: of successive states in chains, else of the joined labels."""
        return int(self.weight.shape[1] ** 2 if self.kind == CHAIN else self.pairs.shape[0])

    @property
    def rounding(self) -> float:
        """What the loss of any label gains at most where it is counted in levels, as a share of it."""
        there = self.cost > 0
        excess = float((self.cost[there] * self.unit / self.weight[there]).max(initial=1.0)) - 1.0
        return excess if excess > 1e-9 else 0.0

    @staticmethod
    def _stored_arrays() -> dict[str, str]:  # a method, as a named tuple has no attributes of the class
        return {
            "weight": "float r k", "cost": "count r k", "pairs": "count m 2", "parent": "count k", "edge": "integer k",
            "order": "count k", "child_start": "count *", "child": "count k", "table": "float *", "ends": "count *",
        }  # fmt: skip

    def _refuse_arrays(self) -> None:
        """What was made from the rest must be what is made from it again."""
        k, table = self.weight.shape[1], 0
        n_rows = {MULTICLASS: k, HIERARCHY: 2, PATHS: 2}.get(self.kind, 1)
        if type(self.kind) is not int or not UNARY <= self.kind <= PATHS or self.weight.shape[0] != n_rows or k == 0:
            raise ValueError(f"weights of shape {self.weight.shape} are none of the kind {self.kind!r}")
        if self.kind == ENUMERATION:  # before a table of that size is made
            table = 1 << min(k, 62)
        indices = (
            (self.pairs, 0, k - 1), (self.parent, 0, k), (self.edge, -1, self.pairs.shape[0] - 1), (self.ends, 0, 1),
        )  # fmt: skip
        if any(part.size and not low <= part.min() <= part.max() <= high for part, low, high in indices):
            raise ValueError(f"its labels and edges are beyond the {k} labels and {self.pairs.shape[0]} edges")
        sets = self.kind in (ENUMERATION, GREEDY) and bool((self.weight == 1.0).all())
        if self.scored not in ((HAMMING, JACCARD, F1, EXACT) if sets else (HAMMING,)):
            raise ValueError(f"no loss of its kind has the number {self.scored}")
        if (
            self.table.shape != (table,)
            or self.ends.shape != (k if self.kind == PATHS else 0,)
            or self.weight.min() < 0
        ):
            raise ValueError("its table, ends or weights are damaged")
        again = make_structure(
            self.kind, self.weight, pairs=self.pairs, parent=self.parent, edge=self.edge, restarts=self.restarts,
            ends=self.ends, scored=self.scored,
        )  # fmt: skip
        if self.unit == 0.0:  # stored before there were units below the least weight, or nearly common ones
            again = again._replace(unit=0.0, cost=np.zeros_like(again.cost))
        for name in self._fields:
            part, other = np.asarray(getattr(self, name)), np.asarray(getattr(again, name))
            if not np.array_equal(part, other) or part.dtype != other.dtype:
                raise ValueError(f"{name} does not follow from the rest of the structure")


class UnaryStructure(Structure):
    """Label sets without pairs."""

    __slots__ = ()


class TreeStructure(Structure):
    """Label sets with pairs that make a forest."""

    __slots__ = ()


class HierarchyStructure(Structure):
    """Label sets closed under the ancestors of a forest."""

    __slots__ = ()


class ChainStructure(Structure):
    """Sequences of states."""

    __slots__ = ()


class MulticlassStructure(Structure):
    """One class."""

    __slots__ = ()


class EnumerationStructure(Structure):
    """Label sets with any pairs, so few that all are looked at."""

    __slots__ = ()


class GreedyStructure(Structure):
    """Label sets with any pairs, by local search."""

    __slots__ = ()


class PathsStructure(Structure):
    """Paths from the roots of a forest."""

    __slots__ = ()


CLASSES: tuple[type[Structure], ...] = (
    UnaryStructure, TreeStructure, HierarchyStructure, ChainStructure, MulticlassStructure, EnumerationStructure,
    GreedyStructure, PathsStructure,
)  # fmt: skip
"""Class of each kind: loops are compiled for the class of their structure, so only those of the kind in use are."""


class Work(NamedTuple):
    """Arrays that an argmax works in; one set per thread, for all examples. See the loops for what is in them."""

    values: Floats
    choice: npt.NDArray[np.int32]
    split: npt.NDArray[np.int32]
    rows: Floats
    H: Floats
    scratch: Ints
    draws: Floats


@runtime_checkable
class CompiledModel(Protocol):
    """A `StructuredModel` whose argmax is compiled: what the learners' compiled passes use.

    Attributes
    ----------
    structure : Structure
        Known after `prepare`.
    """

    structure: Structure

    def compiles(self, slack: bool) -> bool:
        """Whether the compiled argmax answers for this loss: slack rescaling needs levels or a table."""
        ...

    def encode(self, y: object) -> Ints:
        """A label as the loops represent it. Raises DataError for a label outside the model."""
        ...

    def encode_all(self, Y: object) -> tuple[Ints, Ints]:
        """All labels one after the other, and where each begins (n + 1 numbers)."""
        ...

    def restore(self, label: Ints) -> object:
        """A label as the user represents it."""
        ...

    def stack(self, X: object) -> tuple[object, Ints]:
        """Rows of all examples, (total, d) as ndarray or CSR, and where each example begins (n + 1 numbers)."""
        ...


def integer_costs(weight: Floats, *, rounded: bool = False) -> tuple[Ints, float]:
    """Weights of a loss as integers times a unit: the least positive weight, its half, ..., or its tenth.

    Parameters
    ----------
    weight : ndarray
    rounded : bool, default=False
        Where they are multiples of none, take integers times a unit that are the weights or up to 1% more; 2% if those
        would make more than ten thousand levels.

    Returns
    -------
    cost : ndarray of int64, the shape of `weight`
    unit : float
        The largest that will do; 0 (and all costs 0) where the weights are multiples of none, up to 1e-9.
    """
    best, there = (np.zeros(weight.shape, dtype=np.int64), 0.0), weight > 0.0
    if not there.any():
        return best
    least = float(weight[there].min())
    # With ever smaller units there would be more levels than weights need, and each costs a step of the programmes.
    # Beyond so many of them the dynamic programmes would take minutes and gigabytes.
    for parts in range(1, 11):
        unit = least / parts
        cost = np.rint(weight / unit)
        if np.abs(weight / unit - cost).max() <= 1e-9 * cost.max() and cost.sum() <= 100_000:
            return cost.astype(np.int64), unit
    closest = 1.02
    for parts in range(1, 101 if rounded else 1):
        cost = np.rint(weight / (least / parts))
        if cost.sum() > 10_000 or closest <= 1.01:
            break
        # A little larger, so that no weight is rounded down.
        unit = float((weight[there] / cost[there]).max())
        excess = float((cost[there] * unit / weight[there]).max())
        if excess < closest:
            best, closest = (cost.astype(np.int64), unit), excess
    return best


def forest(parent: Ints) -> tuple[Ints, Ints, Ints]:
    """Order of a forest with children before parents, and the children of every node.

    Parameters
    ----------
    parent : ndarray of shape (k,)
        k for roots; must have no cycle.

    Returns
    -------
    order, child_start, child : ndarray
        See `Structure`.
    """
    k = parent.shape[0]
    child = np.argsort(parent, kind="stable").astype(np.int64)
    child_start = np.searchsorted(parent[child], np.arange(k + 2)).astype(np.int64)
    # From the virtual root down, filled in from the end: every node comes before its parent.
    order, stack = np.empty(k, dtype=np.int64), [k]
    filled = k
    while stack:
        node = stack.pop()
        if node < k:
            filled -= 1
            order[filled] = node
        # Nodes are put in from the end, so a node comes after all that is below it.
        stack.extend(child[child_start[node] : child_start[node + 1]].tolist())
    # What no root leads to lies on a cycle or below one.
    if filled:
        raise ValueError(f"{filled} nodes are not below a root: parent has a cycle")
    # The dynamic programmes merge children in the order in which they meet them.
    return order, child_start, np.lexsort((np.argsort(order), parent)).astype(np.int64)


def make_structure(
    kind: int,
    weight: Floats,
    *,
    pairs: Ints | None = None,
    parent: Ints | None = None,
    edge: Ints | None = None,
    restarts: int = 0,
    ends: Ints | None = None,
    scored: int = HAMMING,
) -> Structure:
    """Fill in what follows from the rest; see `Structure`."""
    # Other kinds look at the losses of labels themselves.
    cost, unit = integer_costs(weight, rounded=kind in (UNARY, TREE, HIERARCHY, CHAIN))
    k = weight.shape[1]
    # Without a forest every label is a root.
    if parent is None:
        parent = np.full(k, k, dtype=np.int64)
    order, child_start, child = forest(parent)
    table = np.zeros(0)
    if kind == ENUMERATION:
        table = np.zeros(1)
        # Every label doubles the table: without it, then with it.
        for w in weight[0]:
            table = np.concatenate([table, table + w])
    return CLASSES[kind](
        kind=int(kind),
        weight=np.ascontiguousarray(weight, dtype=np.float64),
        cost=cost,
        unit=unit,
        pairs=np.zeros((0, 2), dtype=np.int64) if pairs is None else np.ascontiguousarray(pairs, dtype=np.int64),
        parent=parent,
        edge=np.full(k, -1, dtype=np.int64) if edge is None else edge,
        order=order,
        child_start=child_start,
        child=child,
        table=table,
        restarts=int(restarts),
        ends=np.zeros(0, dtype=np.int64) if ends is None else np.ascontiguousarray(ends, dtype=np.int64),
        scored=int(scored),
    )


def workspace(structure: Structure, n_rows: int = 1, seed: int = 0) -> Work:
    """Arrays for the argmax of examples with at most `n_rows` rows.

    Parameters
    ----------
    n_rows : int, default=1
        Most rows of an example (steps of a sequence).
    seed : int, default=0
        Of the random starts of the greedy search.
    """
    kind, k = structure.kind, structure.weight.shape[1]
    # One more than the largest loss there is, as the loss 0 is a level too.
    levels = int(structure.cost.sum()) + 1
    shape, rows, draws = (0, 0, 0), (0, 0), 1
    if kind in (UNARY, TREE, HIERARCHY):
        shape = (k + 1, 2, levels)
        rows = (5, max(levels, k + 1))
    elif kind == CHAIN:
        # Chains weigh every step, so the levels grow with the longest sequence.
        levels = n_rows * int(structure.cost.max()) + 1
        shape = (n_rows, levels, k)
        rows = (2, max(k, levels))
    elif kind == ENUMERATION:
        shape, rows = (1, k, k), (4, structure.table.shape[0])
    elif kind == PATHS:
        rows = (4, k + 1)
    elif kind == GREEDY:
        # Draws: a prime, so that the restarts of successive examples begin elsewhere in the table.
        shape, rows, draws = (1, k, k), (2, k), 10_007
    return Work(
        values=np.zeros(shape),
        choice=np.zeros(shape, dtype=np.int32),
        split=np.zeros(shape, dtype=np.int32),
        rows=np.zeros(rows),
        H=np.full(levels, -np.inf),
        scratch=np.zeros((4, max(k, n_rows) + 1), dtype=np.int64),
        draws=np.random.default_rng(seed).random(draws),
    )


class Desk:
    """Holds the arrays of the compiled loops, and knows whose dynamic programme lies in them.

    Parameters
    ----------
    seed : int, default=0
        Of the random starts of the greedy search.
    """

    def __init__(self, structure: Structure, seed: int = 0) -> None:
        self._structure = structure
        self._seed = seed
        self._work: Work | None = None
        self._rows = 0
        self.owner: object = None

    def work(self, n_rows: int) -> Work:
        """Arrays for an example of that many rows. Who writes to them sets `owner`: to None where nobody reads on."""
        # Twice as much as before at least, so that examples of growing length seldom need new arrays.
        if self._work is None or n_rows > self._rows:
            self._rows = max(n_rows, 2 * self._rows)
            self._work = workspace(self._structure, self._rows, self._seed)
            self.owner = None
        return self._work
