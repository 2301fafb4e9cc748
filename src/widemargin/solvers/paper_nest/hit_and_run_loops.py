"""Compiled steps of hit-and-run in a polytope `slack - A x >= 0`."""

from typing import Any

from widemargin._numba import kernel

__all__ = ["walk"]


@kernel
def walk(slack: Any, slopes: Any, draws: Any, steps: Any) -> None:
    """Move along given directions to uniform points of the chords, and write the lengths of the moves to `steps`.

    Parameters
    ----------
    slack : ndarray of shape (r,)
        `slack - A x` at the start, all >= 0; changed to that of the end.
    slopes : ndarray of shape (k, r)
        `A` times the direction of each step.
    draws : ndarray of shape (k,)
        Uniform numbers of [0, 1).
    steps : ndarray of shape (k,)
    """
    for t in range(draws.shape[0]):
        back, forth = -1e300, 1e300
        for r in range(slack.shape[0]):
            slope = slopes[t, r]
            if slope > 0.0:
                forth = min(forth, slack[r] / slope)
            elif slope < 0.0:
                back = max(back, slack[r] / slope)
        step = back + draws[t] * (forth - back)
        steps[t] = step
        for r in range(slack.shape[0]):
            slack[r] = max(0.0, slack[r] - step * slopes[t, r])
