"""Conjugate gradients with a preconditioner, stopped in its norm, in which the scale of an unknown does not matter."""

from collections.abc import Callable

import numpy as np

from widemargin._typing import Floats

__all__ = ["solve"]


def solve(
    product: Callable[[Floats], Floats], precondition: Callable[[Floats], Floats], right: Floats, *, share: float,
    most: int,
) -> tuple[Floats, bool]:  # fmt: skip
    """Solve `H x = right` for a symmetric positive definite H, until a share of the residual is left.

    Parameters
    ----------
    product : callable
        `v -> H v`.
    precondition : callable
        `r -> P^-1 r` for a P near H.
    right : ndarray of shape (d,)
    share : float
    most : int
        Products.

    Returns
    -------
    x : ndarray of shape (d,)
    ended : bool
        Whether so many products were enough.
    """
    x, residual = np.zeros_like(right), right
    z = precondition(residual)
    p, rz = z, float(residual @ z)
    goal = share**2 * rz
    for _ in range(most):
        if rz <= goal:
            break
        # The usual recurrence: step to the minimum along p, and make the next direction conjugate to it.
        Hp = product(p)
        step = rz / float(p @ Hp)
        x += step * p
        residual = residual - step * Hp
        z = precondition(residual)
        before, rz = rz, float(residual @ z)
        p = z + (rz / before) * p
    return x, rz <= goal
