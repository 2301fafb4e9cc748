"""The level method over rows in blocks: cutting planes without d x d sums, one call of the blocks an iteration.

A look at a point (w, b) gives the loss and the m constraints, all sums of hinges, with a subgradient each: a *cut*, a
linear function that lies below the loss or the constraint everywhere. The largest of the cuts (and zero) is a model of
each of the 1 + m functions h. With the penalty rho the problem of the models, the *master*,

    min_{w,b}  lam/2 |w|^2 + h_0 + rho sum_j max(0, h_j - gamma_j),

has as many dual variables theta >= 0 as there are cuts; those of the loss sum to one at most, those of constraint j to
its multiplier, at most rho. The bias, which is not regularised, makes one equality. Only products of cuts are needed.
Its optimum is a lower bound (Teo, Vishwanathan, Smola and Le 2010). The next look is not at
its solution, which jumps about while cuts are few, but at the point nearest to the best one found where the models have
come a part of the way down to the bound: the level method of Lemarechal, Nemirovskii and Nesterov (1995). With the
multiplier mu of the level that point minimises the master plus `mu/2 |w - best|^2`, a programme over the same cuts.

Measured on text rows (20,000 of 1000 to 30,000 features, 4 constraints, lambda = 10 / n): 9 to 10 looks to a gap of
1e-2, 16 to 17 to 1e-3, 29 to 32 to 1e-4. At 1000 features looks at the minimiser of the master took 26 and 46 to the
first two, a line search to it (OCAS, Franc and Sonnenburg 2009) 13 and 21, with more calls. Cuts of each cell and side
of the hinges apart save no looks.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.distributed.blocks import Block, Variant, block_scores
from widemargin.linalg import cholesky
from widemargin.solvers.base import Budget, CertifiedRecorder, ConstrainedHinge, ConvexResult, ConvexState
from widemargin.solvers.convex.block_passes import Opening, block_problem, open_hinges
from widemargin.solvers.convex.linear_system import SystemOptions
from widemargin.solvers.convex.proximal import balance
from widemargin.solvers.convex.smoothed_hinges import NewtonRows, Width

__all__ = ["Cuts", "LevelOptions", "Master", "minimise", "solve"]


@dataclass(frozen=True)
class LevelOptions:
    """Where the level method looks, and how exactly.

    Attributes
    ----------
    lowest, highest : float
        Share of the way from the bound to the best value where the model is to be at the next point.
    trials : int
        Values of mu that are tried for a level.
    factor : float
        Between two values of mu, while the right one is only known from one side.
    furthest : float
        Of mu, in units of lambda, up and down.
    accurate : float
        Gap of a master, as a share of the tolerance.
    resting : int
        A cut that has had no weight in so many bounds in a row is dropped.
    weight : float
        Of a cut, relative to the largest, that counts as weight; 1e-5 takes as many looks and a third more cuts.
    """

    lowest: float = 0.2
    highest: float = 0.6
    trials: int = 6
    factor: float = 4.0
    furthest: float = 1e6
    accurate: float = 0.01
    resting: int = 10
    weight: float = 1e-3


def solve(
    sub: ConstrainedHinge,
    *,
    tol: float = 1e-4,
    start: ConvexState | None = None,
    rho: float = 1.0,
    max_iter: int = 1000,
    options: LevelOptions = LevelOptions(),
    budget: Budget | None = None,
) -> ConvexResult:
    """Solve the convex subproblem, with a penalty `rho` on every constraint.

    Parameters
    ----------
    sub : ConstrainedHinge
        Its rows are in blocks.
    tol : float, default=1e-4
        Relative duality gap to reach.
    start : ConvexState, optional
        Only its (w, b) is used; by default the first look is at the point where the majorisation is tight.
    rho : float, default=1.0
        Upper end of the multipliers, the weight of the exact penalty; finite.
    max_iter : int, default=1000
        Most looks.
    budget : Budget, optional
        Told after every look.

    Returns
    -------
    ConvexResult
        `n_iter` counts looks: one call of the blocks each, for two products with the rows (`rows.n_passes` counts
        both). `history` has one entry each. Infeasible constraints show by their multipliers: they end at `rho`.

    Raises
    ------
    ValueError
        If rho is infinite, or zero.
    numpy.linalg.LinAlgError
        If products of gradients overflow.
    """
    if not 0.0 < rho < np.inf:
        raise ValueError(f"rho is {rho}; the level method needs a finite penalty above zero")
    assert sub.at is not None
    budget = budget or Budget()
    sub.rows.blocks.advance(open_hinges, Opening(sub.at, None), restart=True)
    sub.rows.n_passes += 1
    search, best = _Search(sub, rho, options), CertifiedRecorder(rho, budget, tol, "level method")
    w, b = (sub.at.w, sub.at.b) if start is None else (start.w, start.b)
    while True:
        loss, excess = search.look(w, b)
        # The value is exact; what the cuts add is the lower bound and where to look next.
        objective = loss + 0.5 * sub.lam * float(w @ w)
        # Objectives are about one, so an accuracy below 1e-6 of the tolerance has no meaning.
        accuracy = options.accurate * tol * max(min(best.primal, objective), 1e-6)
        lower_bound, v = search.master.bound(accuracy)
        best.add_dual(lower_bound + sub.constant, v)
        best.add_point(w, b, objective, excess)
        violation = float(best.best.excess.max(initial=0.0))
        iteration = len(best.history) + 1
        closed = best.look(iteration, violation=violation, cuts=float(len(search.cuts)))
        if closed or budget.exhausted or iteration >= max_iter:
            break
        w, b = search.next_point(best, accuracy)
    nothing = np.zeros(0, np.float32)
    return best.result(iteration, ConvexState(best.best.w, best.best.b, nothing, nothing, best.multipliers))


class _Look(NamedTuple):
    """At which model a block is to look, and by which problem."""

    variant: Variant
    w: Floats
    b: float


class _Search:
    """The looks so far: the cuts and where to look next.

    Points are (w, b) with the bias of centred rows, `b - centre . w`: gradients at the mean keep the digits of the
    spread where columns have large means.
    """

    def __init__(self, sub: ConstrainedHinge, rho: float, options: LevelOptions) -> None:
        self.sub, self.options, self.mu = sub, options, sub.lam
        self.centre = sub.rows.centre if sub.fit_intercept else np.zeros(sub.rows.n_features)
        self.cuts = Cuts(sub.rows.n_features, options)
        self.master = Master(self.cuts, sub.gamma, sub.lam, rho, with_bias=sub.fit_intercept)

    def look(self, w: Floats, b: float) -> tuple[float, Floats]:
        """Loss and excess of the constraints at a point, whose cuts are added."""
        sub = self.sub
        value, sums = sub.rows.blocks.sum(_cuts, _Look(sub.variant, w, b))
        sub.rows.n_passes += 2
        # In centred coordinates the gradient in w loses the multiple of the centre that the bias takes up.
        total = sums[:, -1]
        self.cuts.add(w, b - float(self.centre @ w), value, sums[:, :-1] - np.outer(total, self.centre), -total)
        return float(value[0]) + sub.constant, value[1:] - sub.gamma

    def next_point(self, best: CertifiedRecorder, tol: float) -> tuple[Floats, float]:
        """The point nearest to the best one where the models are as low as the level asks, about."""
        least, most, options = 0.0, np.inf, self.options
        # The level lies a part of the way from the lower bound up to the best value.
        room = best.primal - best.dual
        for _ in range(options.trials):
            w, b = self.master.near(best.best.w, self.mu, tol)
            value, *bounded = self.cuts.models(w, b, 1 + self.sub.gamma.shape[0])
            # The same penalty as that of the best point, because the level lies between its value and the lower bound.
            charged = best.penalty @ np.maximum(np.asarray(bounded) - self.sub.gamma, 0.0)
            height = (value + self.sub.constant + 0.5 * self.sub.lam * float(w @ w) + charged - best.dual) / room
            # The larger mu, the nearer the point stays to the best one and the less the models come down. So a model
            # that is too high asks for a smaller mu and one that is too low for a larger: bisection of its logarithm.
            if height > options.highest:
                most = self.mu
            elif height < options.lowest:
                least = self.mu
            else:
                break
            if least == 0.0:
                self.mu = most / options.factor
            else:
                self.mu = least * options.factor if most == np.inf else float(np.sqrt(least * most))
            furthest = self.sub.lam * options.furthest
            self.mu = float(np.clip(self.mu, self.sub.lam / options.furthest, furthest))
        return w, b + float(self.centre @ w)


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

    def __init__(self, n_features: int, options: LevelOptions = LevelOptions()) -> None:
        self.options = options
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
        # All functions are sums of hinges, so zero is a lower bound of each that every model has from the start. A cut
        # where the function is zero would add nothing to that.
        new = np.flatnonzero(value > 0.0)
        value, gradient, slope = value[new], gradient[new], slope[new]
        across = gradient @ self.gradient.T
        # The products of new cuts with the old ones are all that the masters need of the gradients.
        self.gram = np.block([[self.gram, across.T], [across, gradient @ gradient.T]])
        if not np.isfinite(self.gram).all():
            raise np.linalg.LinAlgError("Products of gradients overflow: scale the features.")
        self.gradient = np.concatenate([self.gradient, gradient])
        self.slope = np.append(self.slope, slope)
        self.height = np.append(self.height, value - gradient @ w - slope * b)
        self.owner, self.resting = np.append(self.owner, new), np.append(self.resting, np.zeros_like(new))

    def models(self, w: Floats, b: float, n_functions: int) -> Floats:
        """The models at a point, shape (1 + m,)."""
        heights = np.zeros(n_functions)
        np.maximum.at(heights, self.owner, self.height + self.gradient @ w + self.slope * b)
        return heights

    def rest(self, theta: Floats) -> None:
        """Drop the cuts that have had no weight for many bounds; theta are the present weights."""
        # Such a cut describes a region that the search has left, and each cut makes every later master dearer.
        used = theta > self.options.weight * theta.max(initial=0.0)
        self.resting = np.where(used, 0, self.resting + 1)
        stay = self.resting < self.options.resting
        if not stay.all():
            self.gradient, self.slope, self.height = self.gradient[stay], self.slope[stay], self.height[stay]
            self.owner, self.resting, self.gram = self.owner[stay], self.resting[stay], self.gram[np.ix_(stay, stay)]


class Master:
    """The programmes over some cuts: the master, and the same with `mu/2 |w - centre|^2` beside it.

    Parameters
    ----------
    gamma : ndarray of shape (m,)
        Bounds of the constraints.
    rho : float
        Finite.
    """

    def __init__(self, cuts: Cuts, gamma: Floats, lam: float, rho: float, *, with_bias: bool) -> None:
        self.cuts, self.gamma, self.lam, self.rho, self.with_bias = cuts, gamma, lam, rho, with_bias
        self._limit = np.append(1.0, np.full(gamma.shape[0], rho))

    def bound(self, tol: float) -> tuple[float, Floats]:
        """A lower bound of the problem, about `tol` below the master's without a centre, and its multipliers."""
        cuts, (x, _) = self.cuts, self._solve(0.0, np.zeros(len(self.cuts)), tol)
        theta, idle = self._shares(x)
        if self.with_bias and len(cuts):  # The slopes must sum to zero: the larger side is scaled down.
            parts = theta * cuts.slope
            up, down = balance(float(parts[parts > 0.0].sum()), float(-parts[parts < 0.0].sum()))
            # Scaling down keeps every weight within its limit, so what is left is a feasible dual point.
            theta = theta * np.where(parts > 0.0, up, down)
        v = (np.bincount(cuts.owner, theta, self._limit.shape[0]) + idle)[1:]
        # The value of the dual at these weights: a lower bound whatever the accuracy of the programme.
        q = theta @ cuts.gradient
        bound = float(theta @ cuts.height) - float(v @ self.gamma) - float(q @ q) / (2.0 * self.lam)
        cuts.rest(theta)
        return bound, v

    def near(self, w: Floats, mu: float, tol: float) -> tuple[Floats, float]:
        """Solution (w, b) of the master with weight `mu` on the distance from w."""
        # The nearest point follows from the weights of the cuts, and the bias is the equality's multiplier.
        x, y = self._solve(mu, self.cuts.gradient @ w, tol)
        theta, _ = self._shares(x)
        nearest = (mu * w - theta @ self.cuts.gradient) / (self.lam + mu)
        return nearest, float(y[-1]) if self.with_bias else 0.0

    def _shares(self, x: Floats) -> tuple[Floats, Floats]:
        """Weights of the cuts and, shape (1 + m,), of the zeros in the models, neither above the limits together."""
        count, functions = len(self.cuts), self._limit.shape[0]
        theta, idle = x[:count], x[count : count + functions]
        sums = np.bincount(self.cuts.owner, theta, functions) + idle
        # The programme is solved roughly, so its sums may exceed their limits by a little; a bound must not.
        shrink = np.minimum(1.0, self._limit / np.maximum(sums, 1e-300))
        return theta * shrink[self.cuts.owner], idle * shrink

    def _solve(self, mu: float, products: Floats, tol: float) -> tuple[Floats, Floats]:
        """Unknowns: weights of the cuts, then of the model's zeros, then what is left of each rho."""
        cuts, m = self.cuts, self.gamma.shape[0]
        count, functions = len(cuts), 1 + m
        size = count + functions + m
        H = np.zeros((size, size))
        H[:count, :count] = cuts.gram / (self.lam + mu)
        # The model of a function is at least zero. A constraint's weight on that zero counts as a cut of height 0, and
        # of both the bound gamma is taken off.
        offer = np.concatenate([[0.0], -self.gamma])
        c = np.concatenate([cuts.height + offer[cuts.owner] + mu / (self.lam + mu) * products, offer, np.zeros(m)])
        group = np.concatenate([cuts.owner, np.arange(functions), np.arange(1, functions)])
        A = np.zeros((functions + self.with_bias, size))
        # One equality a function: its weights and what is left of its limit sum to the limit.
        A[group, np.arange(size)] = 1.0
        b = np.append(self._limit, np.zeros(int(self.with_bias)))
        if self.with_bias:
            A[-1, :count] = cuts.slope
        # An interior point to start from: every function's limit is shared evenly among its unknowns.
        start = (self._limit / np.bincount(group))[group]
        return minimise(H, c, A, b, start, tol)


# The quadratic programme of the master.


def minimise(
    H: Floats, c: Floats, A: Floats, b: Floats, x: Floats, tol: float, *, most: int = 60
) -> tuple[Floats, Floats]:
    """Minimise `1/2 x'Hx - c'x` subject to `A x = b`, `x >= 0`, from a point x > 0 that need not meet the equalities.

    By Mehrotra's predictor-corrector, for small dense H that is positive semi-definite and few equalities. An iteration
    factors `H + diag(z / x)`, so cuts that are next to equal do no harm. The multipliers y of the equalities are those
    of the Lagrangian `1/2 x'Hx - c'x - y'(A x - b) - z'x`.

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
    x : ndarray of shape (n,)
        `x > 0`, the equalities up to rounding.
    y : ndarray of shape (p,)
        Multipliers of the equalities.
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
            system = _NewtonSystem(H, A, x, z)
        except np.linalg.LinAlgError:
            break
        # Predictor: all complementarity at once, to see how far that goes.
        dx, _, dz = system.solve(-x * z, dual_left, primal_left)
        # The affine direction shows how much complementarity a step can take away; Mehrotra aims at its cube.
        ahead = float((x + _room(x, dx) * dx) @ (z + _room(z, dz) * dz))
        target = (ahead / gap) ** 3 * gap / n
        # Corrector: the same factor, with the target and the product of the first changes.
        dx, dy, dz = system.solve(target - x * z - dx * dz, dual_left, primal_left)
        # One length for x and z: the programme is quadratic, so the two are tied by the gradient.
        step = min(1.0, 0.99 * min(_room(x, dx), _room(z, dz)))
        if not step > 1e-10:  # rounding ends the progress
            break
        x, y, z = x + step * dx, y + step * dy, z + step * dz
        slope = H @ x - c
    return x, y


class _NewtonSystem:
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


def _room(x: Floats, dx: Floats) -> float:
    """How far x may go along dx before an entry is zero, at most 1 / 0.99."""
    shrinking = dx < 0.0
    return float(np.min(-x[shrinking] / dx[shrinking], initial=1.0 / 0.99))


# What runs where a block is.


def _cuts(block: Block, message: _Look) -> tuple[Floats, Floats]:
    """Values of loss and constraints, shape (1 + m,), and derivatives by w and by -b, shape (1 + m, d + 1)."""
    sub = block_problem(block, message.variant)
    z, m = block_scores(block, message.w, message.b), sub.n_constraints
    nothing = np.zeros(z.shape[0], np.float32)
    rows = NewtonRows(sub, z, nothing, nothing, SystemOptions(), iterative=True)
    # A width of next to nothing: the slopes of the hinges themselves, not smoothed.
    rise, fall, *others = rows.slopes(0.0, np.zeros(m), np.arange(m), Width(1e-30, 0.0, False, True))
    loss, constraints = sub.values(z)
    return np.append(loss, constraints), np.stack([rise - fall, *others])
