"""Uniform samples of a polytope by hit-and-run, for the centre of mass where it has no closed form.

From an inner point, go to a uniform point of the chord in a random direction. Mixing is quick where the polytope is
round, so the directions are normal with the covariance of the samples at hand. A cutting-plane method cuts one polytope
again and again: samples that a cut leaves are uniform in what is left, and give the next start and the next covariance.
"""

import numpy as np
from scipy.optimize import linprog

from widemargin.extending import Floats, kernel

_STEPS = 50  # steps a run, times the square of the dimension: so many a uniform sample costs from a round start
_FEWEST, _MOST = 2_000, 100_000
_KEPT = 2_000  # samples kept for the next run
_BLOCK = 2_000  # steps whose directions are held at once
_SPREAD = 1e-6  # of the variance in any direction, added to all


class HitAndRun:
    """Sampler of polytopes `{x: A x <= b}`, warm from one to the next.

    Parameters
    ----------
    seed : int, default=0
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._kept: Floats | None = None

    def sample(self, A: Floats, b: Floats, scale: Floats) -> Floats | None:
        """Points of the polytope, shape (steps, d), the first quarter of the walk left out.

        Parameters
        ----------
        A : ndarray of shape (r, d)
        b : ndarray of shape (r,)
        scale : ndarray of shape (d,)
            Size of the polytope in each coordinate, for a start without samples.

        Returns
        -------
        ndarray of shape (steps, d) or None
            None where the polytope has no inner point that floating point can tell.
        """
        d = A.shape[1]
        steps = int(np.clip(_STEPS * d * d, _FEWEST, _MOST))
        left = self._survivors(A, b)
        if left.shape[0] > 2 * d:
            start, root = left.mean(axis=0), _root(left)
        else:
            found = inner_point(A, b, scale)
            if found is None:
                self._kept = None
                return None
            start, root = found, np.diag(scale)
            start, root = self._grow_round(A, b, start, root, steps // 4)
        first = self._walk(A, b, start, root, steps // 4)
        points = self._walk(A, b, first[-1], _root(first), steps)
        self._kept = points[:: max(1, steps // _KEPT)]
        return points

    def _survivors(self, A: Floats, b: Floats) -> Floats:
        """Samples of the last polytope that lie in this one."""
        if self._kept is None or self._kept.shape[1] != A.shape[1]:
            return np.empty((0, A.shape[1]))
        return self._kept[(self._kept @ A.T <= b).all(axis=1)]

    def _grow_round(self, A: Floats, b: Floats, x: Floats, root: Floats, steps: int) -> tuple[Floats, Floats]:
        """Short walks from a cold start, each with the covariance of the one before."""
        for _ in range(3):
            points = self._walk(A, b, x, root, steps)
            x, root = points[-1], _root(points)
        return x, root

    def _walk(self, A: Floats, b: Floats, x: Floats, root: Floats, steps: int) -> Floats:
        """A walk from x with directions `root` times normal ones, shape (steps, d)."""
        points = np.empty((steps, x.shape[0]))
        for begin in range(0, steps, _BLOCK):
            part = points[begin : begin + _BLOCK]
            directions = self._rng.standard_normal(part.shape) @ root.T
            lengths = np.empty(part.shape[0])
            slack = np.maximum(b - A @ x, 0.0)
            walk(slack, directions @ A.T, self._rng.random(len(part)), lengths)
            np.cumsum(lengths[:, None] * directions, axis=0, out=part)
            part += x
            x = part[-1]
        return points


def _root(points: Floats) -> Floats:
    """Cholesky factor of the covariance of points, with a little more in every direction."""
    centred = points - points.mean(axis=0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    spread = np.where(spread > 0.0, spread, max(float(spread.max()), np.finfo(float).tiny))
    unit = centred / spread
    correlation = unit.T @ unit / points.shape[0] + _SPREAD * np.eye(points.shape[1])
    root: Floats = spread[:, None] * np.linalg.cholesky(correlation)
    return root


def inner_point(A: Floats, b: Floats, scale: Floats) -> Floats | None:
    """Centre of the largest ball in `{x: A x <= b}`, in coordinates divided by `scale`; None where it has no size."""
    scaled = A * scale
    norms = np.sqrt((scaled**2).sum(axis=1))
    used = norms > 0.0
    left, right = scaled[used] / norms[used, None], b[used] / norms[used]
    d = A.shape[1]
    found = linprog(
        np.append(np.zeros(d), -1.0), np.column_stack([left, np.ones(left.shape[0])]), right,
        bounds=[*[(None, None)] * d, (0.0, None)],
    )  # fmt: skip
    if found.x is None or not found.x[-1] > 0.0:
        return None
    x = found.x[:-1] * scale
    return x if (A @ x < b).all() else None


@kernel
def walk(slack: Floats, slopes: Floats, draws: Floats, steps: Floats) -> None:
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
