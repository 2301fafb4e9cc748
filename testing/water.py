"""The water level of one basin by another method than the library's, for tests."""

import numpy as np

from widemargin._typing import Floats

__all__ = ["newton"]


def newton(responses: Floats, volume: float, *, weight: Floats | None = None, start: float | None = None) -> float:
    """The level of one basin by Newton's method: a pass over the rows for each step, 2-4 of them from a near level.

    The volume below a level is convex and piecewise linear in it, so every step but the first comes from above and none
    goes past the level.

    Parameters
    ----------
    responses : ndarray of shape (n,)
    volume : float
        V >= 0.
    weight : ndarray of shape (n,), optional
        u_i > 0; 1 by default.
    start : float, optional
        The last level; the least response by default.
    """
    u = np.ones(responses.shape[0]) if weight is None else weight
    lowest = float(responses.min())

    def step(level: float) -> float:
        covered = responses < level if level > lowest else responses <= lowest
        return max(lowest, float((volume + u[covered] @ responses[covered]) / u[covered].sum()))

    level = step(lowest if start is None else start)
    while (lower := step(level)) < level:
        level = lower
    return level
