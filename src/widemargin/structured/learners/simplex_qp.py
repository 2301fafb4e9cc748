"""Small quadratic programmes over a simplex, for the cutting planes."""

import numpy as np

from widemargin._typing import Floats
from widemargin.structured.learners.simplex_qp_loops import ascend

__all__ = ["maximise"]

_MOST_MOVES = 100_000


def maximise(G: Floats, c: Floats, x: Floats, tol: float, slope: Floats | None = None) -> Floats:
    """Maximise `c.x - 1/2 x'Gx` over `x >= 0` with the sum of x kept.

    Parameters
    ----------
    G : ndarray of shape (K, K)
        Positive semi-definite.
    c : ndarray of shape (K,)
    x : ndarray of shape (K,)
        Feasible; changed in place.
    tol : float
        Largest gain left, per unit moved from one variable to another.
    slope : ndarray of shape (K,), default=None
        `c - G x` where it is known.

    Returns
    -------
    ndarray of shape (K,)
        x.
    """
    gradient = c - G @ x if slope is None else np.array(slope, dtype=np.float64)
    ascend(np.ascontiguousarray(G), gradient, x, tol, _MOST_MOVES)
    return x
