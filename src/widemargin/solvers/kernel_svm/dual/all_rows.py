"""Steps along pairs of all rows, where a kernel row costs next to nothing: it is in memory, or computed in the loop.

A working set has to guess which rows will move. Pairs of all rows need no guess: each step takes the pair that gains
most, and few kernel rows are ever asked for. A step costs as much as there are rows, so where many are needed the
working sets go on from there.
"""

from typing import NamedTuple, Protocol

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints, Reals
from widemargin.kernels.narrow import NarrowRows, fill_row
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.dual.pair_steps import LANES, solve_pairs
from widemargin.solvers.kernel_svm.problem import KernelProblem, WholeMatrix

__all__ = ["NarrowMatrix", "Steps", "take_steps"]


class NarrowMatrix(Protocol):
    """A kernel matrix whose rows a compiled loop may compute (`kernels.rows.KernelRows`)."""

    def narrow(self) -> NarrowRows | None:
        """Its columns; None where they are too many, or the kernel is another one."""

    def empty_cache(self) -> tuple[Reals, Ints]:
        """Room for whole rows, and the place of every row in it: -1."""

    def keep(self) -> None:
        """Take over the rows that were written into that room, and their places."""


class Steps(NamedTuple):
    """What the steps have come to.

    Attributes
    ----------
    count : int
    flattest : float
        The smallest curvature they have met.
    largest : float
        The largest size of a K(x, x).
    """

    count: int
    flattest: float
    largest: float


def take_steps(
    problem: KernelProblem, coef: Floats, scores: Floats, bounds: tuple[Floats, Floats], goal: float, most: int,
    a_slice: int, budget: Budget,
) -> Steps | None:  # fmt: skip
    """Take at most so many steps to a violation of `goal`; change `coef` and `scores`.

    None, and nothing done, where kernel rows would have to be asked for one by one. The budget is looked at after every
    `a_slice` steps.
    """
    n, rows = problem.n_rows, problem.rows
    columns, gamma = np.empty((0, n)), 0.0
    narrow = rows.narrow() if hasattr(rows, "narrow") else None
    if isinstance(rows, WholeMatrix):
        buffer, slot = rows.cached(np.arange(n))
        diagonal = rows.diagonal().astype(rows.dtype)
    elif narrow is not None:
        (columns, gamma), (buffer, slot) = narrow, rows.empty_cache()
        diagonal = np.ones(n, rows.dtype) if gamma else np.einsum("ij,ij->j", columns, columns).astype(rows.dtype)
    else:
        return None
    gradient = problem.y - scores
    state = (buffer, slot, diagonal, gradient, coef, *bounds, np.empty((5, n), rows.dtype), np.empty(LANES, rows.dtype))
    count, filled, flattest, more = 0, 0, np.inf, True
    while more:
        limit = min(a_slice, most - count)
        taken, filled, curvature = steps_of_all(columns, gamma, filled, *state, goal, limit)
        count, flattest = count + taken, min(flattest, curvature)
        more = 0 < taken == limit and count < most and not budget.exhausted
    if narrow is not None:
        rows.keep()
    scores[:] = problem.y - gradient
    return Steps(count, flattest, float(np.abs(diagonal).max()))


@kernel
def steps_of_all(
    columns: Floats, gamma: float, filled: int, buffer: Reals, slot: Ints, diagonal: Reals, g: Floats, b: Floats,
    lower: Floats, upper: Floats, room: Reals, lanes: Reals, floor: float, most: int,
) -> tuple[int, int, float]:  # fmt: skip
    """`solve_pairs`, where a missing kernel row is computed into the next free place of `buffer`.

    Returns the number of steps, of rows in the buffer, and the smallest curvature met.
    """
    sums = np.empty(512)
    steps, flattest = 0, np.inf
    while True:
        taken, curvature, _, i, j = solve_pairs(
            buffer, slot, diagonal, g, b, lower, upper, room, lanes, 0.0, floor, most - steps
        )
        steps += taken
        flattest = min(flattest, curvature)
        missing = i if i < 0 or slot[i] < 0 else j
        if missing < 0 or filled == buffer.shape[0]:
            return steps, filled, flattest
        fill_row(columns, gamma, missing, buffer[filled], sums)
        slot[missing] = filled
        filled += 1
