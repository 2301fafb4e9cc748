"""Small quadratic programmes over a simplex by pairs of variables (as in LIBSVM: Fan, Chen and Lin 2005)."""

from typing import Any

from widemargin._numba import kernel

__all__ = ["ascend"]

_TINY = 1e-300


@kernel
def ascend(G: Any, slope: Any, x: Any, tol: float, max_steps: int) -> int:
    """Maximise `c.x - 1/2 x'Gx` over `x >= 0` with the sum of x kept, from a feasible x.

    `slope` holds `c - G x` and is kept. Ends when no move from one variable to another gains at a rate above `tol`.
    Returns the number of moves.
    """
    n = x.shape[0]
    for moves in range(max_steps):
        up = 0
        for j in range(1, n):
            if slope[j] > slope[up]:
                up = j
        down, most, worst = -1, 0.0, 0.0
        for j in range(n):
            rate = slope[up] - slope[j]
            if x[j] > 0.0 and rate > 0.0:
                worst = max(worst, rate)
                gain = rate * rate / max(G[up, up] + G[j, j] - 2.0 * G[up, j], _TINY)
                if gain > most:
                    most, down = gain, j
        if worst <= tol or down < 0:
            return moves
        curvature = G[up, up] + G[down, down] - 2.0 * G[up, down]
        length = x[down]
        if curvature > 0.0:
            length = min(length, (slope[up] - slope[down]) / curvature)
        before = x[down]
        x[up] += length
        x[down] = before - length if length < before else 0.0
        for j in range(n):
            slope[j] -= length * (G[j, up] - G[j, down])
    return max_steps
