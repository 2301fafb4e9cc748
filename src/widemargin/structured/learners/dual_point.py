"""The dual point of a learner: a small block (a_i, b_i, l_i) per example, and the weights they add up to.

The dual point is a convex combination of labels per example, of which only `C sum_y alpha(y) p_i(y)`, factored, and
`C sum_y alpha(y) l_i(y)` matter: n (rows S + P) numbers, whatever the number of features. Weights: `W = X' a`,
`theta = sum_i b_i`; dual value `sum_i l_i - 1/2 |w|^2`.
"""

from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.structured.learners.example_rows import add_blocks
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.model import Weights

__all__ = ["Blocks", "begin", "dual_value", "norm2", "weights_of", "zero_blocks"]


class Blocks(NamedTuple):
    """A dual point.

    Attributes
    ----------
    a : ndarray of shape (all rows, S)
    b : ndarray of shape (n, P)
    loss : ndarray of shape (n,)
    """

    a: Floats
    b: Floats
    loss: Floats

    @staticmethod
    def _stored_arrays() -> dict[str, str]:
        return {"a": "float * *", "b": "float n *", "loss": "float n"}

    def scaled(self, factor: float) -> "Blocks":
        """A copy, times a number in [0, 1]: still feasible; or times C' / C: feasible for C'."""
        return Blocks(factor * self.a, factor * self.b, factor * self.loss)


def zero_blocks(problem: StructuredProblem) -> Blocks:
    """The dual point 0."""
    return Blocks(np.zeros((int(problem.start[-1]), problem.S)), np.zeros((problem.n, problem.P)), np.zeros(problem.n))


def weights_of(problem: StructuredProblem, blocks: Blocks) -> Weights:
    """The weights that the blocks add up to."""
    # Blocks hold multiples of rows: only here are features looked at.
    W = np.zeros((problem.d, problem.S))
    add_blocks(problem.rows, problem.start, blocks.a, W)
    return Weights(W, blocks.b.sum(axis=0))


def norm2(weights: Weights) -> float:
    """`|w|^2`."""
    return float(np.vdot(weights.W, weights.W) + weights.theta @ weights.theta)


def dual_value(blocks: Blocks, weights: Weights) -> float:
    """Lower bound of the optimum."""
    # At the weights that the blocks add up to, the Lagrangian is this.
    return float(blocks.loss.sum()) - 0.5 * norm2(weights)


def begin(problem: StructuredProblem, start: Blocks | None) -> tuple[Blocks, Weights]:
    """A copy of a point to start from, or 0, and its weights.

    Raises
    ------
    DataError
        If the blocks are those of other examples or another model.
    """
    if start is None:
        blocks = zero_blocks(problem)
        return blocks, Weights(np.zeros((problem.d, problem.S)), np.zeros(problem.P))
    # Blocks of another problem would be added up without complaint, and prove nothing.
    wanted = [part.shape for part in zero_blocks(problem)]
    if [part.shape for part in start] != wanted:
        raise DataError(f"the blocks to start from have shapes {[part.shape for part in start]}, not {wanted}.")
    # A copy, as the learner changes its blocks in place.
    blocks = start.scaled(1.0)
    return blocks, weights_of(problem, blocks)
