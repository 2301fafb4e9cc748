"""The ramp, the rate of the randomised classifier, and the hinges that majorise it.

`ramp(z) = max(0, min(1, 1/2 + z))` is the probability of saying "positive" at score z. The negative side is `ramp(-z)`.
The compiled sums below run over rows and leave one number for each cell.
"""

import numpy as np

from widemargin._numba import kernel, larger
from widemargin._typing import Cells, Flags, Floats

__all__ = ["KEEP_MINUS", "KEEP_PLUS", "clipped", "hinge_sums", "majoriser", "positive_sums", "ramp", "ramp_sums"]

KEEP_PLUS = 1  # bit of `keep`: the positive side is bounded by max(0, 1/2 + z), not by the constant 1
KEEP_MINUS = 2  # the same for the negative side and max(0, 1/2 - z)


def ramp(z: Floats) -> Floats:
    """Probability of the positive prediction, `clip(1/2 + z, 0, 1)`, elementwise."""
    return np.clip(z + 0.5, 0.0, 1.0)


@kernel
def clipped(t: float) -> float:
    """The nearest number in [0, 1] to one that is not NaN, without a branch, which processors would guess wrong."""
    return -larger(-larger(t, 0.0), -1.0)


@kernel
def ramp_sums(z: Floats, weight: Floats, cell: Cells, positive: Floats) -> None:
    """Add `weight_i ramp(z_i)` to `positive[cell_i]`."""
    for i in range(z.shape[0]):
        # The probability of "positive", so the sum is the mass of the randomised classifier.
        positive[cell[i]] += weight[i] * clipped(0.5 + z[i])


@kernel
def positive_sums(z: Floats, weight: Floats, cell: Cells, positive: Floats) -> None:
    """Add `weight_i [z_i > 0]` to `positive[cell_i]`."""
    for i in range(z.shape[0]):
        # Comparisons are factors here and below: scores come in no order, so branches would be guessed wrong.
        positive[cell[i]] += weight[i] * (z[i] > 0.0)


@kernel
def hinge_sums(z: Floats, weight: Floats, cell: Cells, keep: Flags, plus: Floats, minus: Floats) -> None:
    """Add the kept hinges: `weight_i max(0, 1/2 + z_i)` to `plus[cell_i]`, those of -z_i to `minus`."""
    for i in range(z.shape[0]):
        # A side whose bit is not set is constant; `majoriser` has counted it already.
        plus[cell[i]] += weight[i] * larger(0.5 + z[i], 0.0) * ((keep[i] & KEEP_PLUS) != 0)
        minus[cell[i]] += weight[i] * larger(0.5 - z[i], 0.0) * ((keep[i] & KEEP_MINUS) != 0)


@kernel
def majoriser(z: Floats, weight: Floats, cell: Cells, keep: Flags, plus: Floats, minus: Floats) -> None:
    """Set `keep` for the majoriser tight at z; add the weight of the constant sides to `plus` and `minus` by cell.

    A side is bounded by its hinge where that is at most 1 at z, and by the constant 1 elsewhere.
    """
    for i in range(z.shape[0]):
        # Where the hinge is at most 1 it equals the ramp, so the bound by it is tight at z, as the descent requires;
        # beyond, the ramp is 1 and the constant is tight. In between both hinges are kept.
        rise, fall = z[i] <= 0.5, z[i] >= -0.5
        keep[i] = KEEP_PLUS * rise + KEEP_MINUS * fall
        plus[cell[i]] += weight[i] * (not rise)
        minus[cell[i]] += weight[i] * (not fall)
