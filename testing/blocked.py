"""Problems in memory, cut into blocks; and back ends that lose what they may lose."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin.distributed.backends import SerialMap
from widemargin.distributed.blocks import BlockedRows
from widemargin.distributed.recipes import ArrayRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.problems.rate_constrained import RateConstrainedProblem

__all__ = ["ForgetfulMap", "StoppedError", "blocked"]


class StoppedError(Exception):
    """The process that made the calls was ended."""


class ForgetfulMap(SerialMap):
    """Blocks in this process; before some calls some of them lose their notes, as if they were made anew elsewhere.

    Attributes
    ----------
    chance : float
        With which a block loses its notes before a call.
    n_lost, n_calls : int
    stop_after : int or None
        Calls after which every further one raises.
    """

    chance = 0.0
    n_lost = n_calls = 0
    stop_after: int | None = None

    def stream(self, function: Any, message: Any = None) -> Any:
        self.n_calls += 1
        if self.stop_after is not None and self.n_calls > self.stop_after:
            raise StoppedError
        rng = np.random.default_rng(self.n_calls)
        for block in self._blocks:
            if rng.random() < self.chance:
                block.scratch.clear()
                self.n_lost += 1
        return super().stream(function, message)


def _problem_of(data: Any, message: tuple[RateConstrainedProblem, np.ndarray]) -> RateConstrainedProblem:
    head, centre = message
    return replace(head, rows=RowBlocks([(data["X"], None)], centre), weight=data["weight"], cell=data["cell"])


def blocked(
    problem: RateConstrainedProblem, block_rows: int, kind: type[SerialMap] = SerialMap
) -> RateConstrainedProblem:
    """The same problem with its rows in blocks."""
    parts = [block.X[block.row_of] for block in problem.rows.blocks]
    X = sp.csr_matrix(sp.vstack(parts)) if sp.issparse(parts[0]) else np.concatenate(parts)
    recipes = [
        ArrayRows({name: value[low : low + block_rows] for name, value in
                   {"X": X, "weight": problem.weight, "cell": problem.cell}.items()})
        for low in range(0, X.shape[0], block_rows)
    ]  # fmt: skip
    d, centre = problem.n_features, problem.rows.centre
    nothing = RowBlocks([(np.zeros((0, d)), None)])
    head = replace(problem, rows=nothing, weight=np.zeros(0), cell=np.zeros(0, np.int32))
    blocks = kind(recipes).prepared(_problem_of, (head, centre))
    rows = BlockedRows(blocks, problem.rows.n_rows, d, problem.rows.n_stored, centre)
    return head.over(rows, np.bincount(problem.cell, minlength=problem.coef.n_cells))
