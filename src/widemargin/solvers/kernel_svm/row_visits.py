"""Going through rows one after the other, with the kernel rows of those that will change something fetched together.

Stochastic kernel methods look at one row a step, but only some steps need its row of the kernel matrix. One block of
many rows costs far less than as many blocks of one row, so the rows of the next steps that would move at the present
scores are fetched ahead. The steps stay the same; a row that was fetched and does not move in the end is the price.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Ints
from widemargin.solvers.kernel_svm.problem import KernelMatrix

__all__ = ["AHEAD", "Advance", "Moves", "visit"]

AHEAD = 8
"""Kernel rows fetched together. Raising it saves time and costs evaluations of rows that do not move in the end.

On 4000 rows of a9a the Perceptron asks for 4.5 million values one by one, 8.2 with 8 rows together and 11.4 with 32.
"""

_WINDOW = 8  # steps looked ahead, in units of AHEAD
_LEAST_WINDOW = 64

Moves = Callable[[Ints], npt.NDArray[np.bool_]]
"""`moves(rows)`: which rows would change w at the present scores."""

Advance = Callable[[Ints, int, int, Ints, npt.NDArray[Any]], int]
"""`advance(draws, first, last, place, buffer)`: steps until one needs a row that is not at hand; the draw before it."""


def visit(rows: KernelMatrix, draws: Ints, moves: Moves, advance: Advance, ahead: int = AHEAD) -> Iterator[int]:
    """Take the steps of `draws` in their order.

    Parameters
    ----------
    rows : KernelMatrix
    draws : ndarray of int64, shape (m,)
        Row numbers, repeated ones too.
    moves, advance : callable
    ahead : int, default=8
        At most so many kernel rows are fetched together; at most as many as the cache holds.

    Yields
    ------
    int
        Steps done so far.
    """
    ahead = min(ahead, rows.capacity)
    window = max(_LEAST_WINDOW, _WINDOW * ahead)
    place = np.full(rows.n_rows, -1, dtype=np.int64)
    buffer = np.empty((0, rows.n_rows), dtype=rows.dtype)
    done, stuck = 0, False
    while done < draws.shape[0]:
        last = min(done + window, draws.shape[0])
        soon = draws[done:last]
        wanted = soon[:1] if stuck else _first_different(soon[moves(soon)], ahead)
        if wanted.shape[0]:
            buffer, place[wanted] = rows.cached(wanted)
        before, done = done, advance(draws, done, last, place, buffer)
        place[wanted] = -1
        stuck = done == before  # rounding: moves and advance disagree about the first step
        if not stuck:
            yield done


def _first_different(rows: Ints, count: int) -> Ints:
    _, first = np.unique(rows, return_index=True)
    return rows[np.sort(first)[:count]]
