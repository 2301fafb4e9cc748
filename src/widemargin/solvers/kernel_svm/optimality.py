"""Compiled passes over the rows of a kernel SVM: its loss, its optimality conditions, and its best bias.

Most rounds of a solver move few rows and then look at all of them, so a look is one pass that copies nothing.
"""

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats

__all__ = ["best_bias", "excess_sums", "first_above", "gradient_sides", "loss_and_sides"]


@kernel
def loss_and_sides(
    y: Floats, upper: Floats, coef: Floats, scores: Floats, intercept: float
) -> tuple[float, float, float, float]:
    """`sum_i C_i max(0, 1 - y_i (s_i + b))`, that b, and the two sides whose distance is the violation.

    These are the largest gradient of a coefficient that may grow, and the smallest one of a coefficient that may
    shrink; infinities where there is none. b is `intercept`, or the middle of the two where that is NaN.
    """
    highest, lowest = -np.inf, np.inf
    for i in range(y.shape[0]):
        a, gradient = y[i] * coef[i], y[i] - scores[i]
        # The coefficient y a of a negative row grows where a shrinks.
        below, above = a < upper[i], a > 0.0
        if below if y[i] > 0.0 else above:
            highest = max(highest, gradient)
        if above if y[i] > 0.0 else below:
            lowest = min(lowest, gradient)
    b = intercept
    if np.isnan(b):
        b = 0.5 * (highest + lowest) if np.isfinite(highest - lowest) else 0.0
    # Every row that is on the wrong side of its margin has a loss, whatever its coefficient is.
    loss = 0.0
    for i in range(y.shape[0]):
        loss += upper[i] * max(0.0, 1.0 - y[i] * (scores[i] + b))
    return loss, b, highest, lowest


@kernel
def gradient_sides(
    y: Floats, scores: Floats, coef: Floats, lower: Floats, upper: Floats, up: Floats, down: Floats
) -> tuple[float, float]:
    """Set `up` to the gradients of coefficients that may grow, else -inf, `down` to those that may shrink, else inf.

    Returns the largest of the first and the smallest of the second.
    """
    highest, lowest = -np.inf, np.inf
    for i in range(y.shape[0]):
        gradient = y[i] - scores[i]
        up[i] = gradient if coef[i] < upper[i] else -np.inf
        down[i] = gradient if coef[i] > lower[i] else np.inf
        highest, lowest = max(highest, up[i]), min(lowest, down[i])
    return highest, lowest


@kernel
def excess_sums(
    y: Floats, scores: Floats, coef: Floats, lower: Floats, upper: Floats, middle: float, size: int, sums: Floats
) -> None:
    """Set `sums[c]` to how far rows `size c` and following are from their conditions, where they may still move."""
    n = y.shape[0]
    for c in range(sums.shape[0]):
        total = 0.0
        for i in range(c * size, min((c + 1) * size, n)):
            ahead = y[i] - scores[i] - middle
            if coef[i] < upper[i]:
                total += max(0.0, ahead)
            if coef[i] > lower[i]:
                total += max(0.0, -ahead)
        sums[c] = total


@kernel
def best_bias(y: Floats, upper: Floats, scores: Floats) -> float:
    """The intercept that minimises the primal at given scores; the middle where an interval does; 0 without a loss.

    `sum_i C_i max(0, 1 - y_i (s_i + b))` is convex and piecewise linear in b with kinks at `y_i - s_i`: its slope
    there is the weight of the negative rows below minus that of the positive ones above. It is flat between two
    kinks where no support vector is free, as with classes of equal weight and a small C. LIBSVM takes the middle,
    too.
    """
    n = y.shape[0]
    place, weight = np.empty(n), np.empty(n)
    m, positive = 0, 0.0
    for i in range(n):
        # Rows held out have no loss, and so no kink.
        if upper[i] > 0.0:
            place[m], weight[m] = y[i] - scores[i], upper[i]
            m += 1
            # Left of its kink a positive row has a loss, right of it a negative row has one.
            if y[i] > 0.0:
                positive += upper[i]
    if m == 0:
        return 0.0
    # Sums of weights are rounded: a slope this small, relative to the weight of the class, is 0.
    rounding = max(1e-12, m * 2.0**-52) * positive
    # The slope right of a kink is the weight of the kinks up to it, less that of the positive rows.
    first, total = first_above(place[:m], weight[:m], positive - rounding)
    if total > positive + rounding:
        return first
    last, _ = first_above(place[:m], weight[:m], positive + rounding)  # the slope between the two is 0
    return 0.5 * (first + last)


@kernel
def first_above(place: Floats, weight: Floats, target: float) -> tuple[float, float]:
    """The smallest place such that the weights up to it sum to more than `target`, and their sum.

    The largest place where no sum does. Changes the order of `place` and `weight`: it looks on in one of three parts
    only, as a selection of the median does, where sorting all places would cost more than the rest of a look.
    """
    low, high, before = 0, place.shape[0], 0.0
    found = -np.inf
    while low < high:
        # The median of three is a good guess also where places are sorted already.
        a, b, c = place[low], place[(low + high) // 2], place[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        # Smaller places go before `smaller`, larger ones from `larger` on, equal ones stay between.
        smaller, k, larger = low, low, high
        left, equal = 0.0, 0.0
        while k < larger:
            x, w = place[k], weight[k]
            if x < pivot:
                left += w
                place[k], weight[k] = place[smaller], weight[smaller]
                place[smaller], weight[smaller] = x, w
                smaller += 1
                k += 1
            elif x > pivot:
                larger -= 1
                place[k], weight[k] = place[larger], weight[larger]
                place[larger], weight[larger] = x, w
            else:
                equal += w
                k += 1
        if before + left > target:
            high = smaller
            continue
        before += left + equal
        found = pivot
        if before > target:
            break
        low = larger
    return found, before
