"""A problem in memory on the rows of blocks that a move of the model can take across its boundary.

A move by 0/1 rates takes few rows across the boundary, and these lie near it. Each block hands over its nearest rows;
the others are replaced by one mean row for each cell and side, of their total weight. So every rate of the present
model is that of all rows, and a move that takes only near rows across is measured exactly. A model that larger moves
end at has to be measured on all rows: the mean of far rows may stay on its side where some of them cross.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Cells, Floats, Matrix
from widemargin.distributed.blocks import Block, BlockedPoint, BlockedRows, block_scores
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.problems.rate_constrained import RateConstrainedProblem


class _Handed(NamedTuple):
    """The contribution of a block: its nearest rows, and the weight and the weighted sum of the others.

    Attributes
    ----------
    X : matrix of shape (r, d)
    cell, weight : ndarray of shape (r,)
    far_weight : ndarray of shape (2 k,)
        By cell and side: number 2 c is the negative side of cell c.
    far_sum : ndarray of shape (2 k, d)
    """

    X: Matrix
    cell: Cells
    weight: Floats
    far_weight: Floats
    far_sum: Floats


def nearest_rows(problem: RateConstrainedProblem, w: Floats, b: float, most_numbers: int) -> RateConstrainedProblem:
    """The problem on the rows of blocks nearest to the boundary of a model, and on mean rows in place of the others.

    Parameters
    ----------
    problem : RateConstrainedProblem
        Over rows in blocks.
    w : ndarray of shape (d,)
    most_numbers : int
        About how many numbers are gathered; all rows where they hold no more.
    """
    rows = problem.rows
    assert isinstance(rows, BlockedRows)
    # The same share of the rows of every block, because no block knows how near the rows of the others are, and asking
    # would be a pass.
    share = min(most_numbers / max(rows.n_stored, 1), 1.0)
    handed: list[_Handed] = rows.blocks.map(_nearest, (BlockedPoint(w, b, rows.n_rows), share))
    rows.n_passes += 1
    weight = np.sum([part.far_weight for part in handed], axis=0)
    far = np.flatnonzero(weight > 0.0)
    # A mean row lies on the side of the rows that it stands for, as the scores are linear, and it weighs what they
    # weigh: every rate of the model is what it was.
    means = np.sum([part.far_sum for part in handed], axis=0)[far] / weight[far, None]
    return replace(
        problem,
        rows=RowBlocks([(X, None) for X in (*(part.X for part in handed), means) if X.shape[0]]),
        weight=np.concatenate([*(part.weight for part in handed), weight[far]]),
        cell=np.concatenate([*(part.cell for part in handed), far // 2]).astype(np.int32),
        variant=(),
    )


def _nearest(block: Block, message: tuple[BlockedPoint, float]) -> _Handed:
    """The contribution of one block."""
    (at, share), problem = message, block.data
    z, (part,) = block_scores(block, at.w, at.b), problem.rows.blocks
    n, side = z.shape[0], 2 * problem.cell + (z > 0.0)
    count = int(np.ceil(share * n))
    near = np.zeros(n, bool)
    near[np.argpartition(np.abs(z), count - 1)[:count] if count else []] = True
    far, kept, k = np.flatnonzero(~near), np.flatnonzero(near), problem.coef.n_cells
    weight = problem.weight.astype(np.float64)
    of_side = sp.csr_matrix((weight[far], (side[far], part.row_of[far])), shape=(2 * k, part.X.shape[0]))
    total = of_side @ part.X
    return _Handed(
        part.X[part.row_of[kept]], problem.cell[kept], weight[kept],
        np.bincount(side[far], weight[far], 2 * k).astype(np.float64),
        np.asarray(total.toarray() if sp.issparse(total) else total, np.float64),
    )  # fmt: skip
