"""What the ready-made models share: everything that follows from a `Structure`."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from widemargin._typing import Floats, Ints
from widemargin.exceptions import DataError
from widemargin.structured.compiled import DECODE, ENUMERATION, GREEDY, MULTICLASS, PATHS, Desk, Structure
from widemargin.structured.model import Features
from widemargin.structured.oracle import Oracle
from widemargin.structured.oracles import argmax as loops
from widemargin.structured.oracles.compiled_oracles import GreedyOracle, LossOracle
from widemargin.structured.oracles.enumeration import PointOracle, enumeration_oracle, path_oracle

__all__ = ["StructureModel"]


_WITHOUT_LEVELS = (ENUMERATION, MULTICLASS, GREEDY, PATHS)
"""Kinds whose argmax looks at the losses of labels themselves."""


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

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to threads."""
        return {name: value for name, value in vars(self).items() if name != "_per_thread"}

    @property
    def _local(self) -> Any:
        """What each thread has of its own; new after every `prepare`."""
        kept = vars(self).get("_per_thread")
        if kept is None or kept[0] is not self.structure:
            kept = self._per_thread = (self.structure, threading.local())
        return kept[1]

    @property
    def _desk(self) -> Desk:
        local = self._local
        if not hasattr(local, "desk"):
            local.desk = Desk(self.structure, self.seed)
        desk: Desk = local.desk
        return desk

    @abstractmethod
    def prepare(self, X: Any, Y: Any) -> tuple[int, int, int]:
        """Look at the training examples and check them; returns (d, S, P)."""

    @abstractmethod
    def encode(self, y: Any) -> Ints:
        """A label as the compiled loops represent it."""

    def encode_all(self, Y: Any) -> tuple[Ints, Ints]:
        """All labels one after the other, and where each begins."""
        labels = [self.encode(y) for y in Y]
        start = np.concatenate([[0], np.cumsum([label.shape[0] for label in labels])]).astype(np.int64)
        return np.concatenate(labels), start

    @abstractmethod
    def restore(self, label: Ints) -> Any:
        """A label as the user represents it."""

    def compiles(self, slack: bool) -> bool:
        """Whether the compiled argmax answers; for slack the weights of the loss need a unit, or it needs no levels."""
        return not slack or self.structure.unit > 0.0 or self.structure.kind in _WITHOUT_LEVELS

    @property
    def exact(self) -> bool:
        """Whether the compiled argmax is exact: all but the greedy search."""
        return self.structure.kind != GREEDY

    def rows(self, x: Any) -> Any:
        """The one row of an example, shape (1, d)."""
        if sparse.issparse(x):
            return x.reshape(1, -1) if x.ndim == 1 else x
        return np.asarray(x, dtype=np.float64).reshape(1, -1)

    def stack(self, X: Any) -> tuple[Any, Ints]:
        """Rows of all examples, and where each begins: here one row each."""
        if not sparse.issparse(X) and any(sparse.issparse(x) for x in X):
            X = sparse.vstack([self.rows(x) for x in X])
        rows = X.tocsr() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        if rows.ndim != 2:
            raise DataError(f"X has {rows.ndim} dimension(s): give a matrix with one example per row.")
        return rows, np.arange(rows.shape[0] + 1, dtype=np.int64)

    def n_pairs(self) -> int:
        """P, the numbers of phi that do not depend on x."""
        return int(self.structure.pairs.shape[0])

    def features(self, x: Any, y: Any) -> Features:
        """phi(x, y), factored."""
        label = self.encode(y)
        A = np.zeros((self._n_rows(label), self.structure.weight.shape[1]))
        b = np.zeros(self.n_pairs())
        loops.add_features(label, 1.0, self.structure, A, b)
        return Features(A, b)

    def _n_rows(self, label: Ints) -> int:
        return 1

    def loss(self, y: Any, truth: Any) -> float:
        """L(y, truth)."""
        label = self.encode(truth)
        work = self._desk.work(self._n_rows(label))
        self._desk.owner = None
        return float(loops.loss(self.encode(y), label, self.structure, work))

    def score(self, y: Any, potentials: Floats, theta: Floats) -> float:
        """f(x, y) from the potentials of the example."""
        return float(loops.score(potentials, theta, self.encode(y), self.structure))

    def oracle(self, x: Any, truth: Any, potentials: Floats, theta: Floats) -> Oracle:
        """The oracle of a training example."""
        label, structure = self.encode(truth), self.structure
        if structure.kind == MULTICLASS:
            h = 1.0 + potentials[0] - potentials[0, label[0]]
            return PointOracle(h, structure.weight[label[0]], lambda c: self.restore(np.array([c])))
        if structure.kind == ENUMERATION:
            return enumeration_oracle(potentials, theta, label, structure, self._desk, self.restore)
        if structure.kind == PATHS:
            return path_oracle(potentials, label, structure, self._desk, self.restore)
        make: Any = GreedyOracle if structure.kind == GREEDY else LossOracle
        oracle: Oracle = make(potentials, theta, label, structure, self._desk, self.restore)
        return oracle

    def _no_label(self, n_rows: int) -> Ints:
        """A label to decode from."""
        return np.zeros(self.structure.weight.shape[1], dtype=np.int64)

    def decode_certified(self, potentials: Floats, theta: Floats) -> tuple[Any, bool]:
        """The decoded label, and whether it is proved to have the largest score."""
        return self.decode(None, potentials, theta), self.exact

    def decode(self, x: Any, potentials: Floats, theta: Floats) -> Any:
        """A label with the largest score."""
        n_rows = potentials.shape[0]
        base = self._no_label(n_rows)
        label = np.empty_like(base)
        self._desk.owner = None
        work = self._desk.work(n_rows)
        work.scratch[3, 0] = 0  # the same random starts for every example
        loops.argmax(potentials, theta, base, DECODE, self.structure, work, label)
        return self.restore(label)


def check_lengths(X: Any, Y: Sequence[Any] | npt.NDArray[Any]) -> int:
    """As many examples as labels; returns how many.

    Raises
    ------
    DataError
    """
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if n != len(Y):
        raise DataError(f"X has {n} examples, Y has {len(Y)} labels: give one label per example.")
    if n == 0:
        raise DataError("There are no examples.")
    return int(n)
