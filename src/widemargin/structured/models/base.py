"""What the ready-made models share: what follows from a `Structure`, and label sets as 0/1 vectors."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from widemargin._typing import Floats, Ints
from widemargin.exceptions import DataError
from widemargin.rows import as_csr, check_sparse
from widemargin.structured.compiled import CHAIN, CLASSES, ENUMERATION, GREEDY, MULTICLASS, PATHS, Desk, Structure
from widemargin.structured.model import Examples, Features
from widemargin.structured.oracle import Oracle
from widemargin.structured.oracles import argmax as loops
from widemargin.structured.oracles.compiled_oracles import GreedyOracle, LossOracle
from widemargin.structured.oracles.enumeration import table_oracle


class StructureModel(ABC):
    """A model whose argmax is compiled. Subclasses make `structure` in `prepare` and translate labels.

    Attributes
    ----------
    structure : Structure
        Known after `prepare`.
    seed : int
        Of the random starts of a greedy search.
    """

    structure: Structure
    seed: int = 0

    _kinds: ClassVar[tuple[int, ...]]  # of structures that `prepare` may make

    def _refuse_arrays(self) -> None:
        if "structure" in vars(self) and self.structure.kind not in self._kinds:
            raise ValueError(f"a {type(self).__name__} has no structure of the kind {self.structure.kind}")

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to threads; the kind of the structure says its class."""
        state = {name: value for name, value in vars(self).items() if name != "_per_thread"}
        return state | ({"structure": Structure(*self.structure)} if "structure" in state else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The class of the structure is that of its kind, by which loops are compiled."""
        vars(self).update(state)
        if "structure" in state:
            kind = self.structure.kind  # of a damaged file any, which `_refuse_arrays` tells
            of_kind = CLASSES[kind] if kind in self._kinds else Structure
            self.structure = of_kind(*self.structure)

    @property
    def _local(self) -> Any:
        """What each thread has of its own; new after every `prepare`."""
        per_thread = vars(self).get("_per_thread")
        # Threads that answer for examples side by side must not share arrays.
        if per_thread is None or per_thread[0] is not self.structure:
            per_thread = self._per_thread = (self.structure, threading.local())
        return per_thread[1]

    @property
    def _desk(self) -> Desk:
        local = self._local
        if not hasattr(local, "desk"):
            local.desk = Desk(self.structure, self.seed)
        desk: Desk = local.desk
        return desk

    @abstractmethod
    def prepare(self, X: Examples, Y: Examples) -> tuple[int, int, int]:
        """Look at the training examples and check them; returns (d, S, P)."""

    @abstractmethod
    def encode(self, y: object) -> Ints:
        """A label as the compiled loops represent it."""

    def encode_all(self, Y: Examples) -> tuple[Ints, Ints]:
        """All labels one after the other, and where each begins."""
        labels = [self.encode(y) for y in Y]
        start = np.concatenate([[0], np.cumsum([label.shape[0] for label in labels])]).astype(np.int64)
        return np.concatenate(labels), start

    @abstractmethod
    def restore(self, label: Ints) -> Any:
        """A label as the user represents it."""

    def compiles(self, slack: bool) -> bool:
        """Whether the compiled argmax answers; for slack the weights of the loss need a unit, or it needs no levels."""
        # These kinds look at the losses of labels themselves, so that they need no levels.
        without_levels = (ENUMERATION, MULTICLASS, GREEDY, PATHS)
        return not slack or self.structure.unit > 0.0 or self.structure.kind in without_levels

    @property
    def exact(self) -> bool:
        """Whether the compiled argmax is exact: all but the greedy search."""
        return self.structure.kind != GREEDY

    def rows(self, x: object) -> Any:
        """The one row of an example, shape (1, d)."""
        if sparse.issparse(x):
            check_sparse(x, "an example")
            part: sparse.csr_matrix = x
            return part.reshape(1, -1) if part.ndim == 1 else part
        return np.asarray(x, dtype=np.float64).reshape(1, -1)

    def stack(self, X: Examples) -> tuple[Any, Ints]:
        """Rows of all examples, and where each begins: here one row each."""
        # A list with a sparse row becomes one sparse matrix; an array of numbers has none.
        numbers = isinstance(X, np.ndarray) and X.dtype != object
        if not numbers and not sparse.issparse(X) and any(sparse.issparse(x) for x in X):
            X = sparse.vstack([self.rows(x) for x in X])
        rows = as_csr(X) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        if rows.ndim != 2:
            raise DataError(f"X has {rows.ndim} dimension(s): give a matrix with one example per row.")
        return rows, np.arange(rows.shape[0] + 1, dtype=np.int64)

    def features(self, x: object, y: object) -> Features:
        """phi(x, y), factored."""
        return loops.features(self.encode(y), self.structure)

    def loss(self, y: object, truth: object) -> float:
        """L(y, truth)."""
        label = self.encode(truth)
        work = self._desk.work(label.shape[0] if self.structure.kind == CHAIN else 1)
        # The arrays are used for something else now: nobody finds his own in them.
        self._desk.owner = None
        return loops.loss(self.encode(y), label, self.structure, work)

    def score(self, y: object, potentials: Floats, theta: Floats) -> float:
        """f(x, y) from the potentials of the example."""
        return loops.score(potentials, theta, self.encode(y), self.structure)

    def oracle(self, x: object, truth: object, potentials: Floats, theta: Floats) -> Oracle:
        """The oracle of a training example."""
        # Where all labels can be looked at, that is the oracle; else a search or a dynamic programme.
        kind = self.structure.kind
        make: Callable[..., Oracle] = GreedyOracle if kind == GREEDY else LossOracle
        if kind in (MULTICLASS, ENUMERATION, PATHS):
            make = table_oracle
        return make(potentials, theta, self.encode(truth), self.structure, self._desk, self.restore)

    def decode_certified(self, potentials: Floats, theta: Floats) -> tuple[Any, bool]:
        """The decoded label, and whether it is proved to have the largest score."""
        return self.decode(None, potentials, theta), self.exact

    def decode(self, x: object, potentials: Floats, theta: Floats) -> Any:
        """A label with the largest score."""
        n_rows = potentials.shape[0]
        # The score alone does not depend on a truth: any label of the right length will do in its place.
        lengths: dict[int, int] = {CHAIN: n_rows, MULTICLASS: 1}
        base = np.zeros(lengths.get(self.structure.kind, int(self.structure.weight.shape[1])), dtype=np.int64)
        label = np.empty_like(base)
        self._desk.owner = None
        work = self._desk.work(n_rows)
        # Predictions must not depend on what was predicted before.
        work.scratch[3, 0] = 0  # the same random starts for every example
        loops.best_of_sum(potentials, theta, base, 0.0, self.structure, work, label)
        return self.restore(label)


class LabelSetModel(StructureModel):
    """A model whose labels are 0/1 vectors of shape (k,).

    Attributes
    ----------
    more_starts : int
        Random starts of a greedy search for the best label set, beyond those of training. On 50 topics of RCV1 ten find
        better sets for 2% of the rows, at 30 microseconds each.
    """

    more_starts: int = 10

    @property
    def n_labels(self) -> int:
        """k: a potential each, where the states are labels."""
        return int(self.structure.weight.shape[1])

    def raised(self, u: Floats, gain: Floats | float) -> Floats:
        """Potentials, shape (n, S), by which a set scores more by the sum of the gains of its labels, shape (n, k)."""
        return u + gain

    @abstractmethod
    def max_marginals(self, u: Floats, theta: Floats) -> Floats:
        """The best score with each label on, minus the best with it off.

        Parameters
        ----------
        u : ndarray of shape (n, k)
            Potentials of n examples.
        theta : ndarray of shape (P,)

        Returns
        -------
        ndarray of shape (n, k)
        """

    def decode(self, x: object, potentials: Floats, theta: Floats) -> Ints:
        """A label set with the largest score, or the best one found; `decode_certified` says which."""
        best: Ints = self.decode_all(potentials, theta)[0]
        return best

    def decode_all(self, u: Floats, theta: Floats) -> Ints:
        """The same for n examples at once: potentials and label sets of shape (n, k)."""
        structure, labels = self.structure, np.empty(u.shape, dtype=np.int64)
        if structure.kind == GREEDY:
            structure = structure._replace(restarts=structure.restarts + self.more_starts)
        self._desk.owner = None
        nothing = np.zeros(u.shape[1], dtype=np.int64)
        loops.best_sets(np.ascontiguousarray(u), theta, nothing, structure, self._desk.work(1), labels)
        return labels

    def scores_of(self, sets: Ints, u: Floats, theta: Floats) -> Floats:
        """Scores of some label sets, shape (s, k), for n examples: shape (n, s)."""
        # The part of the pairs is the same for every example.
        pairs = self.structure.pairs
        together = (sets[:, pairs[:, 0]] * sets[:, pairs[:, 1]]) @ theta if theta.shape[0] else 0.0
        scores: Floats = u @ sets.T.astype(np.float64) + together
        return scores

    def encode(self, y: object) -> Ints:
        """A 0/1 vector."""
        label = np.asarray(as_csr(y, "a label").toarray() if sparse.issparse(y) else y).reshape(-1)
        k = self.n_labels
        if label.shape[0] != k:
            raise DataError(f"a label has {label.shape[0]} entries, the model {k} labels.")
        # The loops use labels as numbers, and would take a 2 for two labels. Every answer of an oracle comes here, and
        # np.isin takes ten times as long.
        if not ((label == 0) | (label == 1)).all():
            raise DataError("a label has entries other than 0 and 1.")
        return label.astype(np.int64)

    def encode_all(self, Y: Examples) -> tuple[Ints, Ints]:
        """All 0/1 vectors one after the other, and where each begins."""
        Y = indicator(Y)
        k = self.n_labels
        if Y.shape[1] != k:
            raise DataError(f"Y has {Y.shape[1]} columns, the model {k} labels.")
        # Not `reshape`, which leaves a column of a wider matrix what it is: the loops would be compiled for it anew.
        return Y.ravel(), k * np.arange(Y.shape[0] + 1, dtype=np.int64)

    def restore(self, label: Ints) -> Ints:
        """The same 0/1 vector, a copy."""
        return label.copy()


def indicator(Y: Examples) -> Ints:
    """Labels as a 0/1 matrix of int64; Y itself where it is one, as a thousand labels take 8 kB a row.

    Raises
    ------
    DataError
    """
    Y = as_csr(Y, "Y").toarray() if sparse.issparse(Y) else np.asarray(Y)
    if Y.ndim != 2 or Y.shape[1] == 0:
        raise DataError(f"Y has shape {Y.shape}: give a 0/1 matrix with one row per example and one column per label.")
    if Y.dtype == object:  # of frames: numbers, but also missing values, which compare with nothing
        right = [isinstance(entry, (bool, int, float, np.bool_, np.number)) and entry in (0, 1) for entry in Y.flat]
        wrong = np.argwhere(~np.array(right, dtype=bool).reshape(Y.shape))
    else:
        wrong = np.argwhere((Y != 0) & (Y != 1))
    if wrong.size:
        i, label = wrong[0].tolist()
        raise DataError(f"Y[{i}, {label}] is {Y[i : i + 1, label].tolist()[0]!r}: entries must be 0 or 1.")
    whole: Ints = Y.astype(np.int64, copy=False)
    return whole
