"""Oracles that know the points of all labels: classes, small tables, enumeration of label sets, paths of a forest."""

from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.structured.compiled import Structure
from widemargin.structured.oracle import CONE, DIRECT, FREE, LEVEL, LEVELS, Answer
from widemargin.structured.oracles import enumeration as loops
from widemargin.structured.oracles import paths
from widemargin.structured.oracles.desk import Desk

__all__ = ["PointOracle", "enumeration_oracle", "path_oracle"]


_CONE_ROUNDING = 1e-12  # relative; far below the tolerance of the angular search


class PointOracle:
    """An oracle over a list of labels with their points; answers everything, exactly.

    Parameters
    ----------
    h, g : ndarray of shape (N,)
    label : callable
        From an index to the user's label.
    """

    def __init__(self, h: Floats, g: Floats, label: Callable[[int], Any]) -> None:
        self._h, self._g, self._label = h, g, label
        positive = g[g > 0.0]
        self.smallest_loss = float(positive.min(initial=np.inf)) if positive.size else 0.0
        self.largest_loss = float(g.max(initial=0.0))
        whole = bool((g == np.rint(g)).all())
        self.capabilities = frozenset({FREE, CONE, DIRECT, LEVEL, LEVELS} if whole else {FREE, CONE, DIRECT})

    def _best(self, value: Floats) -> Answer | None:
        index = int(np.argmax(value))
        if value[index] == -np.inf:
            return None
        return Answer(self._label(index), float(self._h[index]), float(self._g[index]))

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        answer = self._best(self._h + lam * self._g)
        assert answer is not None
        return answer

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same among the labels with `beta h <= g <= alpha h` and `h >= 0`."""
        h, g = self._h, self._g
        steep = np.full(h.shape, np.inf) if np.isinf(alpha) else alpha * h
        inside = (h >= 0.0) & (beta * h <= g * (1.0 + _CONE_ROUNDING)) & (g <= steep * (1.0 + _CONE_ROUNDING))
        return self._best(np.where(inside, h + lam * g, -np.inf))

    def level(self, c: int) -> Answer | None:
        """The label with the largest h among those of loss c."""
        return self._best(np.where(self._g == c, self._h, -np.inf))

    def levels(self) -> Floats:
        """The largest h of every loss 0, 1, ...; -inf where there is no label."""
        H = np.full(int(self.largest_loss) + 1, -np.inf)
        np.maximum.at(H, self._g.astype(np.intp), self._h)
        return H

    def direct(self) -> Answer:
        """The label with the largest `h g`."""
        answer = self._best(self._h * self._g)
        assert answer is not None
        return answer


def enumeration_oracle(
    u: Floats,
    theta: Floats,
    truth: Ints,
    structure: Structure,
    desk: Desk | None = None,
    restore: Callable[[Ints], Any] | None = None,
) -> PointOracle:
    """All `2 ** k` label sets of a pairwise model, by table doubling (k up to about 18).

    Parameters
    ----------
    u : ndarray of shape (1, k)
    theta : ndarray of shape (P,)
    truth : ndarray of shape (k,)
    structure : Structure
        Of kind ENUMERATION.
    desk, restore
        As in `LevelOracle`.
    """
    desk = desk or Desk(structure)
    work = desk.work(1)
    desk.owner = None
    loops.fill(u, theta, truth, structure, work)

    def label(mask: int) -> Any:
        y = np.empty_like(truth)
        loops.label_of(mask, truth, y)
        return y if restore is None else restore(y)

    return PointOracle(1.0 + work.rows[0], structure.table, label)


def path_oracle(
    u: Floats,
    truth: Ints,
    structure: Structure,
    desk: Desk | None = None,
    restore: Callable[[Ints], Any] | None = None,
) -> PointOracle:
    """All paths of a forest that end where one may.

    Parameters
    ----------
    u : ndarray of shape (1, k)
    truth : ndarray of shape (k,)
    structure : Structure
        Of kind PATHS.
    desk, restore
        As in `LevelOracle`.
    """
    desk = desk or Desk(structure)
    work = desk.work(1)
    desk.owner = None
    end = paths.points(u, truth, structure, work)
    ends = np.flatnonzero(structure.ends)
    f, g = work.rows[0], work.rows[1]

    def label(index: int) -> Any:
        y = np.empty_like(truth)
        paths.path_to(int(ends[index]), structure, y)
        return y if restore is None else restore(y)

    return PointOracle(1.0 + f[ends] - f[end], g[ends], label)
