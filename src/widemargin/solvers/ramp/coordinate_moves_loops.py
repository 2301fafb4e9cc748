"""Compiled walk over all 0/1 rates that one direction can reach."""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["walk"]


@kernel
def walk(
    turn: Any, order: Any, row: Any, rising: Any, weight: Any, cell: Any, gain: Any, indptr: Any, column: Any,
    change: Any, here: Any, objective: float, tie: float, last: float, feasible_tol: float, excess: Any, found: Any,
) -> None:  # fmt: skip
    """Go from the present scores over the turns in `order`, outwards; keep the best interval between two of them.

    Row `row[e]` changes sides at the distance `turn[e] > 0`; to the positive side where `rising[e]`. `gain[c]` and
    `change[q]` are what a unit of weight of cell c adds to the objective and to constraint `column[q]` when it turns
    positive; `here` holds the excesses at distance 0, `excess` is work space. Distances that lie less than `tie` (of
    their own size) apart count as one, and those beyond `last` are not tried. `found` holds violation, objective and
    distance of the best so far and is replaced by what is better: lower violation, then lower objective, then the
    smaller distance.
    """
    n, m = order.shape[0], here.shape[0]
    for j in range(m):
        excess[j] = here[j]
    for p in range(n):
        e = order[p]
        i = row[e]
        c = cell[i]
        moved = weight[i] if rising[e] else -weight[i]
        objective += moved * gain[c]
        for q in range(indptr[c], indptr[c + 1]):
            excess[column[q]] += moved * change[q]
        low = turn[e]
        if low >= last:
            break
        high = min(turn[order[p + 1]] if p + 1 < n else np.inf, last)
        if high - low <= tie * (1.0 + low):
            continue
        violation = 0.0
        for j in range(m):
            if excess[j] > feasible_tol:
                violation += excess[j]
        middle = 0.5 * (low + high) if high < np.inf else 2.0 * low + 1e-3
        better = violation < found[0]
        if violation == found[0]:
            better = objective < found[1] - 1e-15
            if not better and objective <= found[1] + 1e-15:
                better = middle < found[2]
        if better:
            found[0], found[1], found[2] = violation, objective, middle
