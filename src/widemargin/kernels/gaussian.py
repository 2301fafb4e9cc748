"""Compiled finish of Gaussian kernel values: from inner products to `exp(-gamma |x - y|^2)` in one pass.

NumPy needs six passes: 1.06 ns an entry in float32 against 0.34 here (one core).
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Reals
from widemargin.linalg.powers import LOG2_E, power_of_two

__all__ = ["finish_gaussian", "gaussian"]


@kernel
def finish_gaussian(out: Reals, left: np.floating[Any], right: Reals, scale: np.floating[Any]) -> None:
    """Replace inner products of a row by `2^(scale |x - y|^2)`; `left` and `right` are the squared norms.

    Rounding can make the distance of equal rows negative, so it is cut at 0.
    """
    zero, two = np.float32(0.0), np.float32(2.0)
    for j in range(out.shape[0]):
        out[j] = power_of_two(scale * max(zero, left + right[j] - two * out[j]))


@kernel
def gaussian(block: Reals, left: Reals, right: Reals, gamma: float) -> None:
    """`finish_gaussian` of a block: replace inner products by the kernel `exp(-gamma |x - y|^2)`, all of one type."""
    scale = block.dtype.type(-gamma * LOG2_E)
    for i in range(block.shape[0]):
        finish_gaussian(block[i], left[i], right, scale)
