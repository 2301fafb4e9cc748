"""Cuts of a loss and of constraints that are sums of hinges, and the small programmes over them: see `bundle_blocks`.

A *cut* of a function h >= 0 of (w, b) is linear and nowhere above it. The largest of its cuts and of zero is the model
of h. With the loss h_0, m constraints `h_j <= gamma_j` and a penalty rho the *master* around a point is

    min_{w,b}  lam/2 |w|^2 + h_0 + rho sum_j max(0, h_j - gamma_j) + mu/2 |w - centre|^2,      h: the models.

It has a dual variable theta >= 0 for every cut; those of the loss sum to one at most, those of constraint j to its
multiplier, at most rho. The bias, which is not regularised, makes one equality. Only products of cuts are needed.
"""

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.solvers.convex import small_qp

__all__ = ["Cuts", "Master"]

_RESTING = 10  # bounds in a row without weight after which a cut goes
_WEIGHT = 1e-3  # of a cut, relative to the largest; 1e-5 takes as many looks and a third more cuts
_TINY = 1e-300


class Cuts:
    """Cuts `height + gradient . w + slope b` with their products.

    Attributes
    ----------
    gradient : ndarray of shape (c, d)
    slope, height : ndarrays of shape (c,)
    owner : ndarray of shape (c,)
        Whose cut it is: 0 the loss, j constraint j.
    gram : ndarray of shape (c, c)
        Products of the gradients.
    """

    def __init__(self, n_features: int) -> None:
        self.gradient, self.gram = np.zeros((0, n_features)), np.zeros((0, 0))
        self.slope, self.height = np.zeros(0), np.zeros(0)
        self.owner: Ints = np.zeros(0, np.int64)
        self.resting: Ints = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return int(self.owner.shape[0])

    def add(self, w: Floats, b: float, value: Floats, gradient: Floats, slope: Floats) -> None:
        """Add what the functions are at a point: values of shape (1 + m,), gradients of (1 + m, d), slopes by b.

        Raises
        ------
        numpy.linalg.LinAlgError
            If products of gradients overflow.
        """
        new = np.flatnonzero(value > 0.0)  # where a function is zero the model is right already
        value, gradient, slope = value[new], gradient[new], slope[new]
        across = gradient @ self.gradient.T
        self.gram = np.block([[self.gram, across.T], [across, gradient @ gradient.T]])
        if not np.isfinite(self.gram).all():
            raise np.linalg.LinAlgError("Products of gradients overflow: scale the features.")
        self.gradient = np.concatenate([self.gradient, gradient])
        self.slope = np.append(self.slope, slope)
        self.height = np.append(self.height, value - gradient @ w - slope * b)
        self.owner, self.resting = np.append(self.owner, new), np.append(self.resting, np.zeros_like(new))

    def models(self, w: Floats, b: float, n_functions: int) -> Floats:
        """The models at a point, shape (1 + m,)."""
        found = np.zeros(n_functions)
        np.maximum.at(found, self.owner, self.height + self.gradient @ w + self.slope * b)
        return found

    def rest(self, theta: Floats) -> None:
        """Drop the cuts that had no weight for long; theta are the present weights."""
        used = theta > _WEIGHT * theta.max(initial=0.0)
        self.resting = np.where(used, 0, self.resting + 1)
        kept = self.resting < _RESTING
        if not kept.all():
            self.gradient, self.slope, self.height = self.gradient[kept], self.slope[kept], self.height[kept]
            self.owner, self.resting, self.gram = self.owner[kept], self.resting[kept], self.gram[np.ix_(kept, kept)]


class Master:
    """The masters over some cuts.

    Parameters
    ----------
    cuts : Cuts
    gamma : ndarray of shape (m,)
        Bounds of the constraints.
    lam : float
    rho : float
        Finite.
    with_bias : bool
    """

    def __init__(self, cuts: Cuts, gamma: Floats, lam: float, rho: float, *, with_bias: bool) -> None:
        self.cuts, self.gamma, self.lam, self.rho, self.with_bias = cuts, gamma, lam, rho, with_bias
        self._limit = np.append(1.0, np.full(gamma.shape[0], rho))

    def bound(self, tol: float) -> tuple[float, Floats]:
        """A lower bound of the problem, about `tol` below the master's without a centre, and its multipliers."""
        cuts, (x, _) = self.cuts, self._solve(0.0, np.zeros(len(self.cuts)), tol)
        theta, idle = self._shares(x)
        if self.with_bias and len(cuts):  # the slopes must sum to zero: the larger side is scaled down
            parts = theta * cuts.slope
            rise, fall = float(parts[parts > 0.0].sum()), float(-parts[parts < 0.0].sum())
            common = min(rise, fall)
            theta = theta * np.where(parts > 0.0, common / max(rise, _TINY), common / max(fall, _TINY))
        v = (np.bincount(cuts.owner, theta, self._limit.shape[0]) + idle)[1:]
        q = theta @ cuts.gradient
        bound = float(theta @ cuts.height) - float(v @ self.gamma) - float(q @ q) / (2.0 * self.lam)
        cuts.rest(theta)
        return bound, v

    def near(self, w: Floats, mu: float, tol: float) -> tuple[Floats, float]:
        """Solution (w, b) of the master with weight `mu` on the distance from w."""
        x, y = self._solve(mu, self.cuts.gradient @ w, tol)
        theta, _ = self._shares(x)
        found = (mu * w - theta @ self.cuts.gradient) / (self.lam + mu)
        return found, float(y[-1]) if self.with_bias else 0.0

    def _shares(self, x: Floats) -> tuple[Floats, Floats]:
        """Weights of the cuts and, shape (1 + m,), of the zeros in the models, neither above the limits together."""
        count, functions = len(self.cuts), self._limit.shape[0]
        theta, idle = x[:count], x[count : count + functions]
        sums = np.bincount(self.cuts.owner, theta, functions) + idle
        shrink = np.minimum(1.0, self._limit / np.maximum(sums, _TINY))
        return theta * shrink[self.cuts.owner], idle * shrink

    def _solve(self, mu: float, products: Floats, tol: float) -> small_qp.Optimum:
        """Unknowns: weights of the cuts, then of the model's zeros, then what is left of each rho."""
        cuts, m = self.cuts, self.gamma.shape[0]
        count, functions = len(cuts), 1 + m
        size = count + functions + m
        H = np.zeros((size, size))
        H[:count, :count] = cuts.gram / (self.lam + mu)
        offer = np.concatenate([[0.0], -self.gamma])
        c = np.concatenate([cuts.height + offer[cuts.owner] + mu / (self.lam + mu) * products, offer, np.zeros(m)])
        group = np.concatenate([cuts.owner, np.arange(functions), np.arange(1, functions)])
        A = np.zeros((functions + self.with_bias, size))
        A[group, np.arange(size)] = 1.0
        b = np.append(self._limit, np.zeros(int(self.with_bias)))
        if self.with_bias:
            A[-1, :count] = cuts.slope
        start = (self._limit / np.bincount(group))[group]
        return small_qp.minimise(H, c, A, b, start, tol)
