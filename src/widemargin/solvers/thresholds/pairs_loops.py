"""Compiled search over the pairs of thresholds of two groups."""

from typing import Any

from widemargin._numba import kernel

__all__ = ["best_pair"]


@kernel
def best_pair(
    gain: Any, change: Any, above: Any, left: Any, right: Any, excess: Any, feasible_tol: float, found: Any,
) -> bool:  # fmt: skip
    """Of all pairs of a candidate of `left` and one of `right` that meet the constraints, the one of lowest objective.

    `gain[c]`, `change[c]` are what candidate c adds to objective and constraints, `excess` the constraints without any.
    `above[c]` is its price above the cheapest of its group; both lists are in order of rising price. `found` holds the
    places of the best pair in the lists, its price and its gain; its price bounds that of better ones from above, so
    start `found[2]` at inf. Returns whether a pair was found.
    """
    m = excess.shape[0]
    any_found = False
    for i in range(left.shape[0]):
        a = left[i]
        if above[a] > found[2]:
            break
        for k in range(right.shape[0]):
            b = right[k]
            if above[a] + above[b] > found[2]:
                break
            if any_found and gain[a] + gain[b] >= found[3]:
                continue
            good = True
            for j in range(m):
                if excess[j] + change[a, j] + change[b, j] > feasible_tol:
                    good = False
                    break
            if good:
                any_found = True
                found[0], found[1], found[3] = i, k, gain[a] + gain[b]
                found[2] = found[3] - found[4]  # no pair of a higher price has a lower objective
    return any_found
