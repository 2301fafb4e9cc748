"""Compiled epochs of stochastic dual coordinate ascent, and the sums that certify it (spec 1, section 4b).

Row i has the loss `plus_i max(0, 1/2 + z) + minus_i max(0, 1/2 - z)` and a dual variable `xi_i` in [-minus_i, plus_i].
A row whose variable stays where it is rests: it is looked at again after 1, 3, 7, ... epochs (shrinking without a
threshold to choose; nothing is ever dropped for good).
"""

from typing import Any

from widemargin._numba import kernel

__all__ = [
    "ascend_kernel",
    "balance",
    "balance_column",
    "bias_slope",
    "coordinate_step",
    "dual_sums",
    "epoch_csr",
    "epoch_dense",
    "hinge_sum",
    "pick_moving",
    "shares",
    "side_weights",
    "xi_from_shares",
]


@kernel
def coordinate_step(z: float, xi: float, plus: float, minus: float, q: float) -> float:
    """Exact maximiser of the dual in one variable; z is the score with `xi` in place, `q = |x|^2 / lam`."""
    kink = plus - minus
    if q <= 0.0:  # an all-zero row: its score does not move
        if z > 0.5:
            return plus
        if z < -0.5:
            return -minus
        return kink
    right = xi + (z - 0.5) / q
    if right > kink:
        return min(right, plus)
    left = xi + (z + 0.5) / q
    if left < kink:
        return max(left, -minus)
    return kink


@kernel
def epoch_csr(
    data: Any, indices: Any, indptr: Any, row_of: Any, chunks: Any, size: int, rest: Any, delay: Any, longest: int,
    plus: Any, minus: Any, q: Any, xi: Any, w: Any, b: float, scale: Any,
) -> int:  # fmt: skip
    """Change `xi`, `w`, `rest` and `delay` by one epoch over a CSR block; return the number of rows looked at.

    Rows are visited in chunks of `size` neighbours (memory is read in runs) in the order `chunks`. `scale` is one over
    the regulariser of each column, so that w loses `scale * change * x`, and `q[i]` is `sum_k scale_k x_ik^2`.
    """
    visits = 0
    for t in range(chunks.shape[0]):
        start = chunks[t] * size
        for i in range(start, min(start + size, xi.shape[0])):
            if rest[i] > 0:
                rest[i] -= 1
                continue
            visits += 1
            r = row_of[i]
            low, high = indptr[r], indptr[r + 1]
            z = -b
            for k in range(low, high):
                z += data[k] * w[indices[k]]
            new = coordinate_step(z, xi[i], plus[i], minus[i], q[i])
            change = new - xi[i]
            if change == 0.0:
                delay[i] = min(longest, 2 * delay[i] + 1)
                rest[i] = delay[i]
                continue
            delay[i] = 0
            xi[i] = new
            for k in range(low, high):
                w[indices[k]] -= change * scale[indices[k]] * data[k]
    return visits


@kernel
def epoch_dense(
    X: Any, row_of: Any, chunks: Any, size: int, rest: Any, delay: Any, longest: int,
    plus: Any, minus: Any, q: Any, xi: Any, w: Any, b: float, scale: Any,
) -> int:  # fmt: skip
    """Change `xi`, `w`, `rest` and `delay` by one epoch over a dense block; the twin of `epoch_csr`."""
    visits = 0
    d = w.shape[0]
    for t in range(chunks.shape[0]):
        start = chunks[t] * size
        for i in range(start, min(start + size, xi.shape[0])):
            if rest[i] > 0:
                rest[i] -= 1
                continue
            visits += 1
            r = row_of[i]
            even, odd = -b, 0.0  # two sums hide the latency of the additions
            for k in range(0, d - 1, 2):
                even += X[r, k] * w[k]
                odd += X[r, k + 1] * w[k + 1]
            if d % 2 == 1:
                even += X[r, d - 1] * w[d - 1]
            new = coordinate_step(even + odd, xi[i], plus[i], minus[i], q[i])
            change = new - xi[i]
            if change == 0.0:
                delay[i] = min(longest, 2 * delay[i] + 1)
                rest[i] = delay[i]
                continue
            delay[i] = 0
            xi[i] = new
            for k in range(d):
                w[k] -= change * scale[k] * X[r, k]
    return visits


@kernel
def pick_moving(
    rows: Any, rest: Any, delay: Any, longest: int, plus: Any, minus: Any, norms2: Any, xi: Any, s: Any, b: float,
    scale: float,
) -> tuple[int, int]:  # fmt: skip
    """Move to the front of `rows` those that would move at the present scores `s - b`, and let the others rest.

    Returns the number of rows looked at and the number of those that would move.
    """
    visits = 0
    moving = 0
    for k in range(rows.shape[0]):
        i = rows[k]
        if rest[i] > 0:
            rest[i] -= 1
            continue
        visits += 1
        if coordinate_step(s[i] - b, xi[i], plus[i], minus[i], norms2[i] * scale) == xi[i]:
            delay[i] = min(longest, 2 * delay[i] + 1)
            rest[i] = delay[i]
            continue
        delay[i] = 0
        rows[k] = rows[moving]
        rows[moving] = i
        moving += 1
    return visits, moving


@kernel
def ascend_kernel(
    K: Any, slot: Any, rows: Any, plus: Any, minus: Any, norms2: Any, xi: Any, c: Any, s: Any, b: float, scale: float
) -> None:
    """Change `xi`, the coefficients c and the scores `s = K c` by one step for each of `rows`.

    Row `rows[k]` of the kernel matrix is `K[slot[k]]`.
    """
    for k in range(rows.shape[0]):
        i = rows[k]
        new = coordinate_step(s[i] - b, xi[i], plus[i], minus[i], norms2[i] * scale)
        change = new - xi[i]
        if change == 0.0:
            continue
        xi[i] = new
        change *= scale
        c[i] -= change
        row = K[slot[k]]
        for j in range(s.shape[0]):
            s[j] -= change * row[j]


@kernel
def dual_sums(xi: Any, plus: Any, minus: Any) -> tuple[float, float]:
    """Sum of `(plus + minus)/2 - |xi - plus + minus|/2`, the dual value of the losses, and the sum of xi."""
    value = 0.0
    total = 0.0
    for i in range(xi.shape[0]):
        value += 0.5 * (plus[i] + minus[i]) - 0.5 * abs(xi[i] - plus[i] + minus[i])
        total += xi[i]
    return value, total


@kernel
def hinge_sum(s: Any, b: float, plus: Any, minus: Any) -> float:
    """Sum of the losses at scores `s - b`."""
    total = 0.0
    for i in range(s.shape[0]):
        z = s[i] - b
        total += plus[i] * max(0.0, 0.5 + z) + minus[i] * max(0.0, 0.5 - z)
    return total


@kernel
def bias_slope(s: Any, b: float, plus: Any, minus: Any) -> float:
    """Right derivative of `hinge_sum` with respect to b."""
    slope = 0.0
    for i in range(s.shape[0]):
        z = s[i] - b
        if z > -0.5:
            slope -= plus[i]
        if z <= 0.5:
            slope += minus[i]
    return slope


@kernel
def side_weights(weight: Any, cell: Any, keep: Any, A: Any, B: Any, plus: Any, minus: Any) -> None:
    """Set the losses' coefficients of each row from those of its cell; a side that is not kept gets 0."""
    for i in range(weight.shape[0]):
        plus[i] = weight[i] * A[cell[i]] if keep[i] & 1 else 0.0
        minus[i] = weight[i] * B[cell[i]] if keep[i] & 2 else 0.0


@kernel
def shares(xi: Any, plus: Any, minus: Any, up: Any, um: Any) -> None:
    """Set `up` and `um` in [0, 1] with `xi = plus up - minus um`, the pair of largest dual value.

    A side of weight zero gets the share that its hinge would have beside the other side.
    """
    for i in range(xi.shape[0]):
        if xi[i] > plus[i] - minus[i]:  # score at or above 1/2
            up[i] = 1.0
            um[i] = max(0.0, (plus[i] - xi[i]) / minus[i]) if minus[i] > 0.0 else 0.0
        else:
            up[i] = max(0.0, min(1.0, (xi[i] + minus[i]) / plus[i])) if plus[i] > 0.0 else 0.0
            um[i] = 1.0 if minus[i] > 0.0 or xi[i] < plus[i] else 0.0


@kernel
def xi_from_shares(up: Any, um: Any, plus: Any, minus: Any, xi: Any) -> None:
    """Set `xi = plus up - minus um`, clipped into its box against rounding."""
    for i in range(xi.shape[0]):
        xi[i] = max(-minus[i], min(plus[i], plus[i] * up[i] - minus[i] * um[i]))


@kernel
def balance_column(xi: Any, x: Any, target: float) -> None:
    """Change xi so that `sum_i x_i xi_i` is `target`, or as near to it as one side allows.

    The terms of the larger sign are scaled down, which keeps the variables in their boxes.
    """
    positive = 0.0
    negative = 0.0
    for i in range(xi.shape[0]):
        term = x[i] * xi[i]
        if term > 0.0:
            positive += term
        else:
            negative -= term
    excess = positive - negative - target
    up = max(0.0, 1.0 - excess / positive) if excess > 0.0 and positive > 0.0 else 1.0
    down = max(0.0, 1.0 + excess / negative) if excess < 0.0 and negative > 0.0 else 1.0
    for i in range(xi.shape[0]):
        term = x[i] * xi[i]
        if term > 0.0:
            xi[i] *= up
        elif term < 0.0:
            xi[i] *= down


@kernel
def balance(xi: Any) -> None:
    """Change xi to sum to zero: the variables of the larger sign are scaled down, which keeps them in their boxes."""
    positive = 0.0
    negative = 0.0
    for i in range(xi.shape[0]):
        if xi[i] > 0.0:
            positive += xi[i]
        else:
            negative -= xi[i]
    up = negative / positive if positive > negative else 1.0
    down = positive / negative if negative > positive else 1.0
    for i in range(xi.shape[0]):
        xi[i] *= up if xi[i] > 0.0 else down
