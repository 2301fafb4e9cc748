"""Label sets with a weight for every label's features and one for every pair of labels."""

from collections.abc import Iterable

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from widemargin._typing import ArrayLike, Floats, Ints
from widemargin.exceptions import CapabilityError, DataError
from widemargin.structured.compiled import ENUMERATION, GREEDY, TREE, UNARY, Structure, integer_costs, make_structure
from widemargin.structured.learners.example_rows import check_lengths, check_weights
from widemargin.structured.model import Examples, Features
from widemargin.structured.models.base import LabelSetModel, indicator
from widemargin.structured.models.max_marginals import of_others, of_table, of_tree
from widemargin.structured.oracle import Oracle
from widemargin.structured.oracles.lp_relaxation import PairwiseProgram, ProgramOracle, Relaxed
from widemargin.structured.oracles.roof_duality import RoofOracle

_PROGRAMS = ("roof", "lp", "milp")

LOSSES = ("hamming", "jaccard", "f1", "exact")
"""In the order of their numbers in `structured.compiled`."""

ORACLES = ("auto", "enumeration", "greedy", "tree", *_PROGRAMS)
"""Ways to find the argmax."""


class MultiLabelModel(LabelSetModel):
    """`f(x, y) = sum_l y_l <x, w_l> + sum_{pq in edges} theta_pq y_p y_q`, weighted Hamming loss.

    The pairwise model of Finley and Joachims (2008).

    Parameters
    ----------
    edges : {"full", "tree", "auto"} or sequence of pairs or None, default="full"
        Pairs of labels with a weight. "auto": "full" up to 64 labels, else "tree". "tree": maximum spanning tree of the
        labels' mutual information. Forests are solved exactly whatever k is; other graphs exactly up to 18 labels (by
        enumeration), beyond by local search.
    loss : {"hamming", "jaccard", "f1", "exact"}, default="hamming"
        The number of wrong labels, or 1 less the Jaccard index or F1 of the two sets, or 1 for any wrong set. All but
        "hamming" are exact up to 18 labels, whatever the edges; beyond, by local search.
    weights : array-like of shape (k,), optional
        Of "hamming": loss of each wrong label, `>= 0`. Default: 1 each, raw Hamming counts.
    oracle : {"auto", "enumeration", "greedy", "tree", "roof", "lp", "milp"}, default="auto"
        How the argmax is found. "tree": forests and no edges. "roof" and "lp" train on the relaxation, by maximum flow
        or linear programming, with a certified gap of the relaxed problem, whose primal value is no less than that of
        the label sets (the two agree; the flow is much faster); "milp" is exact and slow.
    restarts : int, default=1
        Greedy search: random starts after the first. More find better labels and take longer. Predictions make 10 more.
    seed : int, default=0
        Of those starts.

    Attributes
    ----------
    structure : Structure
        After `prepare`; `structure.pairs` are the edges.
    """

    _kinds = (UNARY, TREE, ENUMERATION, GREEDY)

    def __init__(
        self,
        edges: str | ArrayLike | None = "full",
        *,
        loss: str = "hamming",
        weights: ArrayLike | None = None,
        oracle: str = "auto",
        restarts: int = 1,
        seed: int = 0,
    ) -> None:
        self.edges = edges
        self.loss_over = loss
        self.weights = weights
        self.oracle_kind = oracle
        self.restarts = restarts
        self.seed = seed

    def prepare(self, X: Examples, Y: Examples) -> tuple[int, int, int]:
        """Check the labels and choose the edges; returns (d, k, number of edges).

        Raises
        ------
        DataError
            Y is no 0/1 matrix, or edges or weights do not fit it.
        CapabilityError
            An oracle that cannot serve the edges.
        """
        rows, _ = self.stack(X)
        Y = indicator(Y)
        check_lengths(rows, Y)
        k = Y.shape[1]
        weight = check_weights(self.weights, k).reshape(1, -1)
        self.structure = self._structure(weight, _pairs(self.edges, Y))
        return rows.shape[1], k, int(self.structure.pairs.shape[0])

    def _structure(self, weight: Floats, pairs: Ints) -> Structure:
        """Choose the cheapest exact argmax, or the one that was asked for."""
        if self.oracle_kind not in ORACLES:
            raise CapabilityError(f"oracle={self.oracle_kind!r} is not one of {', '.join(map(repr, ORACLES))}.")
        k = weight.shape[1]
        parent, edge = _as_forest(pairs, k)
        cost, unit = integer_costs(weight)
        if self.loss_over not in LOSSES:
            raise DataError(f"loss={self.loss_over!r} is not one of {', '.join(map(repr, LOSSES))}.")
        scored = LOSSES.index(self.loss_over)
        if scored and (self.weights is not None or self.oracle_kind in (*_PROGRAMS, "tree")):
            given = "weights" if self.weights is not None else f"oracle={self.oracle_kind!r}"
            raise CapabilityError(f"{given} and loss={self.loss_over!r} do not go together: leave one out.")
        # A table of 2^18 label sets takes a millisecond and four megabytes; each label more doubles both.
        able = ["tree"] * (parent is not None and not scored) + ["enumeration"] * (k <= 18) + ["greedy"]
        best = able[0]
        if best == "tree" and unit == 0.0 and "enumeration" in able:
            best = "enumeration"  # weights without a unit have no levels but rounded ones, and a table
        # Relaxations are trained on, but predictions come from the cheapest exact way, or local search.
        chosen = best if self.oracle_kind in ("auto", *_PROGRAMS) else self.oracle_kind
        if chosen not in able:
            raise CapabilityError(
                f"oracle={self.oracle_kind!r} cannot serve {k} labels with {pairs.shape[0]} edges "
                f"({'a forest' if parent is not None else 'with cycles'}); able: {', '.join(sorted(able))}."
            )
        # Labels without edges that all cost the same are sorted, which is quicker than a dynamic programme.
        if chosen == "tree" and not pairs.size and (cost == 1).all():
            return make_structure(UNARY, weight)
        if chosen == "tree":
            return make_structure(TREE, weight, pairs=pairs, parent=parent, edge=edge)
        kind = ENUMERATION if chosen == "enumeration" else GREEDY
        return make_structure(kind, weight, pairs=pairs, restarts=self.restarts, scored=scored)

    def compiles(self, slack: bool) -> bool:
        """Whether the compiled argmax is the oracle that was asked for."""
        return self.oracle_kind not in _PROGRAMS and super().compiles(slack)

    def oracle(self, x: object, truth: object, potentials: Floats, theta: Floats) -> Oracle:
        """The oracle of a training example."""
        if self.oracle_kind == "roof":
            return RoofOracle(potentials, theta, self.encode(truth), self.structure)
        if self.oracle_kind in _PROGRAMS:
            # Making a programme costs more than solving it, so a thread keeps one for all of its examples.
            if not hasattr(self._local, "program"):
                self._local.program = PairwiseProgram(self.structure, integer=self.oracle_kind == "milp")
            return ProgramOracle(potentials, theta, self.encode(truth), self._local.program)
        return super().oracle(x, truth, potentials, theta)

    def features(self, x: object, y: object) -> Features:
        """phi(x, y), factored; of a `Relaxed` label too."""
        return Features(y.mu[None, :], y.pairs) if isinstance(y, Relaxed) else super().features(x, y)

    def loss(self, y: object, truth: object) -> float:
        """L(y, truth); of a `Relaxed` label too."""
        if isinstance(y, Relaxed):
            return float(self.structure.weight[0] @ np.abs(y.mu - self.encode(truth)))
        return super().loss(y, truth)

    def score(self, y: object, potentials: Floats, theta: Floats) -> float:
        """f(x, y); of a `Relaxed` label too."""
        if isinstance(y, Relaxed):
            return float(potentials[0] @ y.mu + theta @ y.pairs)
        return super().score(y, potentials, theta)

    def max_marginals(self, u: Floats, theta: Floats) -> Floats:
        """The best score with each label on, minus the best with it off.

        Where the argmax is local search: the gain of the label being on with the other labels as decoded.
        """
        if self.structure.kind == ENUMERATION:
            self._desk.owner = None
            return of_table(u, theta, self.structure, self._desk.work(1))
        if self.structure.kind == GREEDY:
            # Max-marginals of a hard problem are as hard as the problem for every label.
            return of_others(u, theta, self.decode_all(u, theta), self.structure.pairs)
        return of_tree(u, theta, self.structure)

    def decode_certified(self, potentials: Floats, theta: Floats) -> tuple[Ints, bool]:
        """The decoded label set, and whether it is proved to have the largest score.

        Where the argmax is local search, roof duality decides: a bound equal to the score found proves the set.
        """
        decoded = self.decode(None, potentials, theta)
        # An exact argmax needs no second opinion.
        if self.exact:
            return decoded, True
        bound = RoofOracle(potentials, theta, decoded, self.structure).free(0.0).h
        # The bound and the score come from sums in different orders: they agree up to rounding.
        return decoded, bound <= 1.0 + 1e-9 * (1.0 + abs(self.score(decoded, potentials, theta)))


def _pairs(edges: str | ArrayLike | None, Y: Ints) -> Ints:
    """The edges as pairs p < q."""
    k = Y.shape[1]
    if edges is None:
        return np.zeros((0, 2), dtype=np.int64)
    if isinstance(edges, str):
        if edges == "auto":
            # The dual point holds a number for every pair and row: 16 kB a row for the 2,016 pairs of 64 labels.
            edges = "full" if k <= 64 else "tree"
        if edges == "full":
            return np.argwhere(np.triu(np.ones((k, k), dtype=bool), 1)).astype(np.int64)
        if edges == "tree":
            return spanning_tree(Y)
        raise DataError(f"edges={edges!r}: give 'auto', 'full', 'tree', None or a list of pairs of labels.")
    # Any list of pairs, also a generator.
    listed = np.asarray(list(edges) if isinstance(edges, Iterable) else [edges])
    if listed.size and (listed.ndim != 2 or listed.shape[1] != 2 or not np.issubdtype(listed.dtype, np.integer)):
        raise DataError(f"edges must be pairs of numbers of labels, such as [(0, 1), (1, 2)]; got {edges!r}.")
    pairs = np.sort(listed.reshape(-1, 2).astype(np.int64), axis=1)
    if pairs.size and (pairs.min() < 0 or pairs.max() >= k or (pairs[:, 0] == pairs[:, 1]).any()):
        raise DataError(f"edges must join two different labels out of 0 to {k - 1}.")
    if np.unique(pairs, axis=0).shape[0] != pairs.shape[0]:
        raise DataError("edges lists a pair twice.")
    return pairs


def mutual_information(Y: Ints) -> Floats:
    """Mutual information of every two labels, from counts + 1/4 in each of the four cells.

    Returns
    -------
    ndarray of shape (k, k)
    """
    # A quarter more in each of the four cells keeps the logarithm finite where two labels never meet.
    n, on = Y.shape[0] + 1.0, Y.sum(axis=0).astype(np.float64)
    together, total = np.zeros((Y.shape[1], Y.shape[1])), np.zeros((Y.shape[1], Y.shape[1]))
    for first in range(0, Y.shape[0], 4096):  # whole matrices of labels as floats would take twice the memory of Y
        part = Y[first : first + 4096].astype(np.float64)
        together += part.T @ part
    off = Y.shape[0] - on
    # All four tables follow from how often two labels are there together, and each alone.
    cells = ((together, on, on), (on[:, None] - together, on, off), (on - together, off, on),
             (off[:, None] - on + together, off, off))  # fmt: skip
    for count, left, right in cells:
        joint, alone = (count + 0.25) / n, np.outer(left + 0.5, right + 0.5) / n**2
        total += joint * np.log(joint / alone)
    return total


def spanning_tree(Y: Ints) -> Ints:
    """Edges of the maximum spanning tree of the mutual information (Chow and Liu 1968), sorted pairs p < q."""
    information = mutual_information(Y)
    # The largest sum of information is the smallest of distances.
    distance = 1.0 + information.max() - information  # positive, so that no edge counts as missing
    tree = minimum_spanning_tree(np.triu(distance, 1)).tocoo()
    pairs = np.sort(np.stack([tree.row, tree.col], axis=1), axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))].astype(np.int64)


def _as_forest(pairs: Ints, k: int) -> tuple[Ints | None, Ints | None]:
    """Parent and edge of every label, if the edges have no cycle; else None."""
    # Without a cycle every edge joins two parts that were apart.
    graph = sparse.csr_array((np.ones(pairs.shape[0]), (pairs[:, 0], pairs[:, 1])), shape=(k + 1, k + 1))
    n_parts, part = connected_components(graph, directed=False)
    if pairs.shape[0] > k + 1 - n_parts:
        return None, None
    # A virtual node k above the first label of every part: from there all parents are found in one walk.
    roots = np.unique(part[:k], return_index=True)[1]
    above = sparse.csr_array((np.ones(roots.shape[0]), (np.full(roots.shape[0], k), roots)), shape=graph.shape)
    parent = breadth_first_order(graph + above, k, directed=False)[1][:k].astype(np.int64)
    edge = np.full(k, -1, dtype=np.int64)
    for number, (p, q) in enumerate(pairs.tolist()):
        edge[q if parent[q] == p else p] = number
    return parent, edge
