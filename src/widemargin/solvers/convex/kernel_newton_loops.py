"""Compiled derivatives of the smoothed hinges for kernel rows; see `pmm_newton` beside it for the smoothing."""

from typing import Any

from widemargin._numba import kernel

__all__ = ["slopes"]


@kernel
def slopes(
    z: Any, weight: Any, cell: Any, keep: Any, up: Any, um: Any, delta: float, A: Any, B: Any,
    plus: Any, minus: Any, curvature: Any,
) -> None:  # fmt: skip
    """Set the slopes U of both sides times the weight, and the second derivative of the smoothed Lagrangian, by row."""
    inverse = 1.0 / delta
    for i in range(z.shape[0]):
        c, s = cell[i], weight[i]
        sp, sm = s * (keep[i] & 1), s * ((keep[i] >> 1) & 1)
        U, V = up[i] + (0.5 + z[i]) * inverse, um[i] + (0.5 - z[i]) * inverse
        a, b = A[c] * sp, B[c] * sm
        curvature[i] = ((a if 0.0 < U < 1.0 else 0.0) + (b if 0.0 < V < 1.0 else 0.0)) * inverse
        plus[i] = sp * min(1.0, max(0.0, U))
        minus[i] = sm * min(1.0, max(0.0, V))
