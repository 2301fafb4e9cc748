"""Dual coordinate ascent on kernel rows (appendix F.3), and which ascent fits the rows."""

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Integers, Reals
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.paper_nest.sdca import Ascent, DualRows, coordinate_step

__all__ = ["KernelAscent", "ascend_kernel", "ascent_for", "pick_moving"]


class KernelAscent(Ascent):
    """Ascent for kernel rows (F.3 of the paper): w is a combination of the rows, and a visit reads its score.

    A change of one variable changes the scores of all rows by a row of the kernel matrix, which is why only the rows
    that would move are fetched. The certificate is the same: `|w|^2 = c' K c`.
    """

    rows: GramRows

    def epoch(self, b: float, regulariser: float) -> int:
        """One pass in random order on the problem of that regulariser; returns the number of rows looked at."""
        order = self._rng.permutation(self.rows.n_rows)
        scale, visits = 1.0 / regulariser, 0
        dual = DualRows(self.plus, self.minus, scale * self._norms2, self.xi, self._rest, self._delay)
        # Fetching a kernel row costs as much as many steps. So the rows that would move are found first, from their
        # scores alone, and only these are fetched, a batch at a time.
        for low in range(0, order.shape[0], self.rows.batch):
            picked = order[low : low + self.rows.batch].copy()
            looked, moving = pick_moving(picked, dual, self.options.longest_rest, self._s, b)
            visits += looked
            if moving:
                buffer, slot = self.rows.some(picked[:moving])
                ascend_kernel(buffer, slot, picked[:moving], dual, self._w, self._s, b, scale)
        self.n_epochs += 1
        return visits

    def _heavy_columns(self) -> tuple[Floats, list[tuple[int, Floats]]]:
        """Coefficients of kernel rows are not columns: one strength for all, 1."""
        return np.ones(1), []

    def _move_to(self, w: Floats) -> None:
        self._w = w
        self._s = self.rows.dot(w)


def ascent_for(rows: RowBlocks | GramRows, lam: float, *, seed: int = 0, max_epochs: int = 50_000) -> Ascent:
    """The ascent that fits the rows: on features, or on a kernel matrix."""
    kind = KernelAscent if isinstance(rows, GramRows) else Ascent
    return kind(rows, lam, seed=seed, max_epochs=max_epochs)


@kernel
def pick_moving(rows: Integers, dual: DualRows, longest: int, s: Floats, b: float) -> tuple[int, int]:
    """Move to the front of `rows` those that would move at the present scores `s - b`, and let the others rest.

    Returns the number of rows looked at and the number of those that would move.
    """
    plus, minus, q, xi, rest, delay = dual
    visits = 0
    moving = 0
    for k in range(rows.shape[0]):
        i = rows[k]
        if rest[i] > 0:
            rest[i] -= 1
            continue
        visits += 1
        if coordinate_step(s[i] - b, xi[i], plus[i], minus[i], q[i]) == xi[i]:
            # A variable that its bound holds seldom leaves it, so every visit in vain doubles the pause until the next.
            delay[i] = min(longest, 2 * delay[i] + 1)
            rest[i] = delay[i]
            continue
        delay[i] = 0
        # The front of the array collects the rows that move; the order among them stays random.
        rows[k] = rows[moving]
        rows[moving] = i
        moving += 1
    return visits, moving


@kernel
def ascend_kernel(
    K: Reals, slot: Integers, rows: Integers, dual: DualRows, c: Floats, s: Floats, b: float, scale: float
) -> None:
    """Change `xi`, the coefficients c and the scores `s = K c` by one step for each of `rows`.

    Row `rows[k]` of the kernel matrix is `K[slot[k]]`.
    """
    plus, minus, q, xi, _, _ = dual
    for k in range(rows.shape[0]):
        i = rows[k]
        # The steps before have moved the scores since the row was picked: its step is found anew, and may be none.
        new = coordinate_step(s[i] - b, xi[i], plus[i], minus[i], q[i])
        change = new - xi[i]
        if change == 0.0:
            continue
        xi[i] = new
        # In the coefficients and the scores a step of the dual counts by one over the regulariser.
        change *= scale
        c[i] -= change
        row = K[slot[k]]
        for j in range(s.shape[0]):
            s[j] -= change * row[j]
