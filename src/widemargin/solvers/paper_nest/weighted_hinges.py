"""Sums over rows with two weighted hinges each, and dual variables in their boxes.

Row i has the loss `plus_i max(0, 1/2 + z) + minus_i max(0, 1/2 - z)` and a dual variable `xi_i` in [-minus_i, plus_i].
"""

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Flags, Floats, Integers
from widemargin.losses.ramp import KEEP_MINUS, KEEP_PLUS
from widemargin.solvers.base import Shares

__all__ = [
    "balance", "balance_column", "dual_sums", "hinge_sum", "shares", "side_weights", "xi_from_shares",
]  # fmt: skip


@kernel
def hinge_sum(s: Floats, b: float, plus: Floats, minus: Floats) -> float:
    """Sum of the losses at scores `s - b`."""
    total = 0.0
    for i in range(s.shape[0]):
        z = s[i] - b
        total += plus[i] * max(0.0, 0.5 + z) + minus[i] * max(0.0, 0.5 - z)
    return total


@kernel
def dual_sums(xi: Floats, plus: Floats, minus: Floats) -> tuple[float, float]:
    """Sum of `(plus + minus)/2 - |xi - plus + minus|/2`, the dual value of the losses, and the sum of xi."""
    value = 0.0
    total = 0.0
    for i in range(xi.shape[0]):
        # Minus the conjugate of a row's two hinges: largest at the kink xi = plus - minus, and falling with a slope of
        # 1/2 on both sides of it, because the loss bends at the scores 1/2 and -1/2.
        value += 0.5 * (plus[i] + minus[i]) - 0.5 * abs(xi[i] - plus[i] + minus[i])
        total += xi[i]
    return value, total


@kernel
def side_weights(
    weight: Floats, cell: Integers, keep: Flags, A: Floats, B: Floats, plus: Floats, minus: Floats
) -> None:
    """Set the losses' coefficients of each row from those of its cell; a side that is not kept gets 0."""
    for i in range(weight.shape[0]):
        # A side that is not kept is bounded by a constant in the majoriser: it pulls on nothing.
        plus[i] = weight[i] * A[cell[i]] if keep[i] & KEEP_PLUS else 0.0
        minus[i] = weight[i] * B[cell[i]] if keep[i] & KEEP_MINUS else 0.0


@kernel
def shares(xi: Floats, plus: Floats, minus: Floats, up: Shares, um: Shares) -> None:
    """Set `up` and `um` in [0, 1] with `xi = plus up - minus um`, the pair of largest dual value.

    A side of weight zero gets the share that its hinge would have beside the other side.
    """
    # At its best pair one of the two shares is 1: the loss is piecewise linear with one kink between the two sides.
    for i in range(xi.shape[0]):
        if xi[i] > plus[i] - minus[i]:  # score at or above 1/2
            up[i] = 1.0
            um[i] = max(0.0, (plus[i] - xi[i]) / minus[i]) if minus[i] > 0.0 else 0.0
        else:
            up[i] = max(0.0, min(1.0, (xi[i] + minus[i]) / plus[i])) if plus[i] > 0.0 else 0.0
            um[i] = 1.0 if minus[i] > 0.0 or xi[i] < plus[i] else 0.0


@kernel
def xi_from_shares(up: Shares, um: Shares, plus: Floats, minus: Floats, xi: Floats) -> None:
    """Set `xi = plus up - minus um`, clipped into its box against rounding."""
    for i in range(xi.shape[0]):
        xi[i] = max(-minus[i], min(plus[i], plus[i] * up[i] - minus[i] * um[i]))


@kernel
def balance_column(xi: Floats, x: Floats, target: float) -> None:
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
    # Scaling a whole side towards 0 is a move inside the box; the side that is too large takes all of it.
    excess = positive - negative - target
    up = max(0.0, (negative + target) / positive) if excess > 0.0 and positive > 0.0 else 1.0
    down = max(0.0, (positive - target) / negative) if excess < 0.0 and negative > 0.0 else 1.0
    for i in range(xi.shape[0]):
        term = x[i] * xi[i]
        if term > 0.0:
            xi[i] *= up
        elif term < 0.0:
            xi[i] *= down


def balance(xi: Floats) -> None:
    """Change xi to sum to zero, in the same way."""
    balance_column(xi, np.ones(xi.shape[0]), 0.0)
