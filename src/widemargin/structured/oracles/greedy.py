"""Local search as an oracle: finds good labels fast, proves nothing by itself."""

from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import MARGIN, SLACK, Structure
from widemargin.structured.oracle import DIRECT, FREE, Answer
from widemargin.structured.oracles import argmax as loops
from widemargin.structured.oracles.desk import Desk
from widemargin.structured.oracles.levels import largest_loss
from widemargin.structured.oracles.partial import PartialOracle
from widemargin.structured.oracles.qpbo import RoofOracle

__all__ = ["GreedyOracle"]


class GreedyOracle(PartialOracle):
    """Pairs of any sign on any graph: a greedy path, climbing, seeded restarts; bounds from the roof dual.

    Parameters
    ----------
    u : ndarray of shape (1, k)
    theta : ndarray of shape (P,)
    truth : ndarray of shape (k,)
    structure : Structure
        Of kind GREEDY.
    desk, restore
        As in `LevelOracle`.

    Attributes
    ----------
    exact : bool
        False: the labels of `direct` and `free` need not be the best ones; `relaxed` gives bounds.
    """

    exact = False
    capabilities = frozenset({FREE, DIRECT})

    def __init__(
        self,
        u: Floats,
        theta: Floats,
        truth: Ints,
        structure: Structure,
        desk: Desk | None = None,
        restore: Callable[[Ints], Any] | None = None,
    ) -> None:
        self._u, self._theta, self._truth, self._structure = u, theta, truth, structure
        self._desk = desk or Desk(structure)
        self._restore = restore or np.copy
        self.smallest_loss = float(structure.weight[structure.weight > 0.0].min())
        self.largest_loss = largest_loss(truth, structure)

    def free(self, lam: float) -> Answer:
        """A label with a large `h + lam g`."""
        lam = float(lam)
        scaled = self._structure._replace(weight=lam * self._structure.weight)
        label = np.empty_like(self._truth)
        h, _ = loops.argmax(self._u, self._theta, self._truth, MARGIN, scaled, self._desk.work(1), label)
        wrong = label != self._truth
        return Answer(self._restore(label), float(h), float(self._structure.weight[0, wrong].sum()))

    def direct(self) -> Answer:
        """A label with a large `h g`; y_i, (1, 0) where none is positive."""
        label = np.empty_like(self._truth)
        h, g = loops.argmax(self._u, self._theta, self._truth, SLACK, self._structure, self._desk.work(1), label)
        return Answer(self._restore(label), float(h), float(g))

    def relaxed(self) -> RoofOracle:
        """An oracle of the relaxation: the hull search on it gives an upper bound of `h g` over all labels."""
        return RoofOracle(self._u, self._theta, self._truth, self._structure)
