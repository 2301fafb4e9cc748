"""Oracles whose argmax is compiled: dynamic programmes by loss, and local search."""

from collections.abc import Callable

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import CHAIN, EXACT, GREEDY, Desk, Structure
from widemargin.structured.oracle import CONE, DIRECT, FREE, LEVEL, LEVELS, Answer, PartialOracle
from widemargin.structured.oracles import argmax as loops
from widemargin.structured.oracles.enumeration import PointOracle, loss_of_sets
from widemargin.structured.oracles.roof_duality import RoofOracle


class _CompiledOracle(PartialOracle):
    """An oracle whose argmax is compiled.

    Parameters
    ----------
    u : ndarray of shape (rows, S)
        Potentials of the example.
    theta : ndarray of shape (P,)
    truth : ndarray of int64
    desk : Desk, optional
        Shared by the oracles of a model.
    restore : callable, optional
        From an int64 label to the user's.
    """

    def __init__(
        self,
        u: Floats,
        theta: Floats,
        truth: Ints,
        structure: Structure,
        desk: Desk | None = None,
        restore: Callable[[Ints], object] | None = None,
    ) -> None:
        self._u, self._theta, self._truth, self._structure = u, theta, truth, structure
        self._desk = desk or Desk(structure)
        self._restore = restore or np.copy
        # Products need levels, unless the search is local; questions about single losses are asked by whole numbers.
        able = {FREE, DIRECT} if structure.unit > 0.0 or structure.kind == GREEDY else {FREE}
        by_loss = {LEVEL, LEVELS} if structure.unit == 1.0 and structure.kind != GREEDY else set()
        by_loss |= {CONE} if structure.unit > 0.0 and structure.kind != GREEDY else set()
        # Levels of rounded losses are good for products, whose bound takes the rounding into account.
        self.tolerance = structure.rounding
        self.capabilities = frozenset(able if self.tolerance else able | by_loss)
        self.smallest_loss = float(structure.weight[structure.weight > 0.0].min())
        # The loss where everything is wrong, an upper bound. Chains weigh a step by its true state; in hierarchies one
        # of the two lines of weights is 0, and with one line it is the sum over the labels.
        if structure.scored:
            # One label more than the truth has is the least of these losses, nothing in common the largest.
            self.smallest_loss, self.largest_loss = (
                float(loss_of_sets(structure.scored, *counts, float(truth.sum())))
                for counts in ((1.0, 0.0), (float(len(truth)), float(truth.sum())))
            )
            return
        self.largest_loss = float((structure.weight[0, truth] if structure.kind == CHAIN else structure.weight).sum())

    def direct(self) -> Answer:
        """The label with the largest `h g`, or the best one found; y_i, (1, 0) where that is not positive."""
        answer = self._best(None)
        return answer if answer.h * answer.g > 0.0 else Answer(self._restore(self._truth), 1.0, 0.0)

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`, or the best one found."""
        return self._best(float(lam))

    def _best(self, lam: float | None) -> Answer:
        work, label = self._desk.work(self._u.shape[0]), np.empty_like(self._truth)
        self._desk.owner = None
        answer = loops.best_answer(self._u, self._theta, self._truth, lam, self._structure, work, label)
        return Answer(self._restore(label), *map(float, answer))


class LossOracle(_CompiledOracle):
    """The best label of every loss by one dynamic programme.

    Parameters
    ----------
    u, theta, truth, structure, desk, restore
        As in `_CompiledOracle`. Where the weights of the loss have no common unit the oracle answers `free` and, with
        the losses of rounded weights, `direct`; where the unit is not 1, `free`, `cone` and `direct`.
    """

    def _fill(self) -> Floats:
        """H of all levels; the dynamic programme is run again only if another oracle used the desk since."""
        work = self._desk.work(self._u.shape[0])
        # Oracles of a model share the arrays; `owner` is the one whose dynamic programme lies in them.
        if self._desk.owner is not self:
            loops.best_of_losses(self._u, self._theta, self._truth, self._structure, work, True)
            self._desk.owner = self
        return work.H

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The label with the largest `h + lam g` among the best ones of every loss with `beta h <= g <= alpha h`.

        Other labels of a loss have smaller products than its best one, so a search may do without them.
        """
        H = self._fill()
        reached = np.flatnonzero(-np.inf < H)
        g: Floats = self._structure.unit * reached.astype(np.float64)
        best = PointOracle(H[reached], g, lambda index: index).cone(lam, alpha, beta)
        return None if best is None else self.level(int(reached[best.y]))

    def level(self, c: int) -> Answer | None:
        """The label with the largest h among those of loss c."""
        H = self._fill()
        if not 0 <= c < H.shape[0] or H[c] == -np.inf:
            return None
        label = np.empty_like(self._truth)
        loops.label_of_loss(int(c), self._truth, self._structure, self._desk.work(self._u.shape[0]), label)
        return Answer(self._restore(label), float(H[c]), float(c * self._structure.unit))

    def levels(self) -> Floats:
        """The largest h of every loss 0, 1, ...; -inf where there is no label."""
        return self._fill().copy()


class GreedyOracle(_CompiledOracle):
    """Pairs of any sign on any graph: a greedy path, climbing, seeded restarts; bounds from the roof dual.

    Attributes
    ----------
    exact : bool
        False: the labels of `direct` and `free` need not be the best ones; `relaxed` gives bounds.
    """

    exact = False

    def relaxed(self) -> RoofOracle:
        """An oracle of the relaxation: the hull search on it gives an upper bound of `h g` over all labels."""
        structure, least = self._structure, max(1.0, float(self._truth.sum()))
        if structure.scored:
            # No such loss is above the number of wrong labels, 1 - Jaccard and 1 - F1 not above its share of the
            # truth's size either: the relaxation of these counts bounds them.
            structure = structure._replace(weight=structure.weight / (1.0 if structure.scored == EXACT else least))
        return RoofOracle(self._u, self._theta, self._truth, structure)
