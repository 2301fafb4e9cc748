"""What a solver knows of rows that live in blocks: how many they are, their mean, and whom to ask about them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.distributed.base import Block, BlockMap

__all__ = ["BlockedPoint", "BlockedRows", "Variant", "block_scores"]

Variant = tuple[tuple[str, tuple[Any, ...]], ...]
"""Methods of a block's problem, with their arguments, that lead from it to the problem that is solved."""


class BlockedPoint(NamedTuple):
    """A model (w, b), where a problem in memory has the scores of all rows."""

    w: Floats
    b: float
    n_rows: int

    @property
    def shape(self) -> tuple[int]:
        """That of the scores."""
        return (self.n_rows,)


@dataclass
class BlockedRows:
    """n rows of d features in blocks.

    Attributes
    ----------
    blocks : BlockMap
    n_rows, n_features : int
    n_stored : int
        Numbers stored in the rows.
    centre : ndarray of shape (d,)
        Their mean.
    n_passes : int
        How often the features of all rows have been looked at so far.
    """

    blocks: BlockMap
    n_rows: int
    n_features: int
    n_stored: int
    centre: Floats
    n_passes: int = 0
    has_singles = False
    _last: tuple[BlockedPoint, Floats] | None = None

    def square(self, w: Floats) -> float:
        """`|w|^2`."""
        return float(w @ w)

    def sums_at(self, function: Callable[[Block, BlockedPoint], Floats], at: BlockedPoint) -> Floats:
        """The sum of one function of the blocks and a model; that of the last model is remembered."""
        if self._last is None or self._last[0].b != at.b or not np.array_equal(self._last[0].w, at.w):
            self._last = at._replace(w=at.w.copy()), np.asarray(self.blocks.sum(function, at))
            self.n_passes += 1
        return self._last[1]


def block_scores(block: Block, w: Floats, b: float) -> Floats:
    """Scores `X w - b` of a block's rows; those of the last model are remembered. Not to be changed."""
    known: tuple[Floats, float, Floats] | None = block.scratch.get("scores")
    if known is None or known[1] != b or not np.array_equal(known[0], w):
        rows = block.data.rows
        z = rows.dot(w, out=np.empty(rows.n_rows))
        z -= b
        known = block.scratch["scores"] = w.copy(), b, z
    return known[2]
