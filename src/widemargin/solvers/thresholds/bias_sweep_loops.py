"""Compiled sweep over all thresholds of given scores."""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["sweep"]


@kernel
def sweep(
    order: Any, z: Any, weight: Any, cell: Any, gain: Any, indptr: Any, column: Any, change: Any,
    excess: Any, tie: float, feasible_tol: float, found: Any,
) -> int:  # fmt: skip
    """Move the rows in `order` (falling scores) to the positive side one by one; return how many to call positive.

    `gain[c]` and `change[e]` are what a unit of weight of cell c adds to the objective and to constraint `column[e]`
    when it turns positive. `excess` starts at the values of the all-negative classifier and is changed in place.
    Thresholds lie only between scores that differ by more than `tie`. Feasible thresholds win over others, then the
    lower violation, then the lower objective, then the smaller shift of the threshold. `found` receives objective
    change, violation and number.
    """
    n = order.shape[0]
    m = excess.shape[0]
    objective = 0.0
    violation = 0.0
    for j in range(m):
        if excess[j] > feasible_tol:
            violation += excess[j]
    best, best_objective, best_violation = 0, objective, violation
    best_shift = max(z[order[0]], 0.0)
    for p in range(n):
        i = order[p]
        c = cell[i]
        objective += weight[i] * gain[c]
        for e in range(indptr[c], indptr[c + 1]):
            excess[column[e]] += weight[i] * change[e]
        low = z[order[p + 1]] if p + 1 < n else -np.inf
        if z[i] - low <= tie:
            continue
        violation = 0.0
        for j in range(m):
            if excess[j] > feasible_tol:
                violation += excess[j]
        shift = max(low, -z[i], 0.0)  # from zero to the nearest threshold between the two scores
        better = violation < best_violation
        if violation == best_violation:
            better = objective < best_objective - 1e-15
            if not better and objective <= best_objective + 1e-15:
                better = shift < best_shift
        if better:
            best, best_objective, best_violation, best_shift = p + 1, objective, violation, shift
    found[0] = best_objective
    found[1] = best_violation
    found[2] = best
    return best
