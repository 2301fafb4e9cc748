"""Small dense quadratic programmes by Mehrotra's predictor-corrector: the masters of the level method.

    minimise  1/2 x'Hx - c'x   s.t.   A x = b,  x >= 0

with H positive semi-definite and few equalities. An iteration factors `H + diag(z / x)`, so cuts that are next to equal
do no harm. The multipliers y of the equalities are those of the Lagrangian `1/2 x'Hx - c'x - y'(A x - b) - z'x`.
"""

from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.linalg import cholesky

__all__ = ["Optimum", "minimise"]


class Optimum(NamedTuple):
    """Solution x of shape (n,), and multipliers y of the equalities."""

    x: Floats
    y: Floats


def minimise(H: Floats, c: Floats, A: Floats, b: Floats, x: Floats, tol: float, *, most: int = 60) -> Optimum:
    """Solve the programme from a point x > 0 that need not meet the equalities.

    Parameters
    ----------
    H : ndarray of shape (n, n)
    c : ndarray of shape (n,)
    A : ndarray of shape (p, n)
        Its rows may be dependent as long as the equalities can be met.
    b : ndarray of shape (p,)
    x : ndarray of shape (n,)
    tol : float
        Absolute gap `x'z` to reach; where rounding ends the progress before, the last point is returned.
    most : int, default=60
        Iterations.

    Returns
    -------
    Optimum
        `x > 0`, the equalities up to rounding.
    """
    n, y = x.shape[0], np.zeros(b.shape[0])
    slope = H @ x - c
    # Multipliers so large that no entry of x is pushed to zero at once.
    z = np.maximum(np.abs(slope).max(initial=0.0), tol / n) * np.ones(n)
    scale = 1.0 + np.abs(b).max(initial=0.0)
    for _ in range(most):
        # Stop where complementarity and both residuals are small; the residual of the gradient counts by what it could
        # still change, which is its product with x.
        dual_left, primal_left = slope - A.T @ y - z, b - A @ x
        gap = float(x @ z)
        harm = float(np.abs(dual_left) @ x)
        if max(gap, harm) <= tol and np.abs(primal_left).max(initial=0.0) <= 1e-9 * scale:
            break
        try:
            system = _System(H, A, x, z)
        except np.linalg.LinAlgError:
            break
        # Predictor: all complementarity at once, to see how far that goes.
        dx, _, dz = system.solve(-x * z, dual_left, primal_left)
        # The affine direction shows how much complementarity a step can take away; Mehrotra aims at its cube.
        ahead = float((x + _length(x, dx) * dx) @ (z + _length(z, dz) * dz))
        target = (ahead / gap) ** 3 * gap / n
        # Corrector: the same factor, with the target and the product of the first changes.
        dx, dy, dz = system.solve(target - x * z - dx * dz, dual_left, primal_left)
        # One length for x and z: the programme is quadratic, so the two are tied by the gradient.
        step = min(1.0, 0.99 * min(_length(x, dx), _length(z, dz)))
        if not step > 1e-10:  # rounding ends the progress
            break
        x, y, z = x + step * dx, y + step * dy, z + step * dz
        slope = H @ x - c
    return Optimum(x, y)


class _System:
    """The factored Newton system at a point.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where it is singular, or not finite.
    """

    def __init__(self, H: Floats, A: Floats, x: Floats, z: Floats) -> None:
        self._A, self._x, self._z = A, x, z
        # x and z are eliminated first, then the few equalities; so dependent cuts cost no accuracy.
        self._factor = cholesky.factor(np.asfortranarray(H + np.diag(z / x)))
        self._across = cholesky.solve(self._factor, np.asfortranarray(A.T))
        self._small = cholesky.factor(np.asfortranarray(A @ self._across))

    def solve(self, product: Floats, dual_left: Floats, primal_left: Floats) -> tuple[Floats, Floats, Floats]:
        """Step (dx, dy, dz) to `z dx + x dz = product` that takes away what is left of the other two equations."""
        # The equalities are few: their system is all that is left after x and z.
        right = cholesky.solve(self._factor, product / self._x - dual_left)
        dy = cholesky.solve(self._small, primal_left - self._A @ right)
        dx = right + self._across @ dy
        return dx, dy, (product - self._z * dx) / self._x


def _length(x: Floats, dx: Floats) -> float:
    """How far x may go along dx before an entry is zero, at most 1 / 0.99."""
    shrinking = dx < 0.0
    return float(np.min(-x[shrinking] / dx[shrinking], initial=1.0 / 0.99))
