"""The direction of the stochastic batch perceptron: steps, projection and average (Algorithm 1), and the rows it draws.

A direction `v = sum_i coef_i phi(x_i)` of norm at most 1 moves along mixtures of covered rows:

    v <- v + eta_t sum_i p_i y_i phi(x_i),   eta_t = eta_0 / sqrt(t),   eta_0 = 1 / sqrt(max K(x, x));   |v| <= 1

The projection is one number, `scale`; the arrays of n numbers are not divided. The average of the iterates gives later
ones more weight: iterate t has weight ~ t^power.
"""

from dataclasses import dataclass

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints
from widemargin.exceptions import KernelError
from widemargin.linalg.products import add_rows
from widemargin.solvers.kernel_svm.batch_perceptron.water_level import Level, WaterLevel
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, responses, significantly_negative

__all__ = ["BatchOptions", "Direction", "Sampler", "average", "cached_responses"]


@dataclass(frozen=True)
class BatchOptions:
    """How the batch perceptron draws, averages, and when it is first judged; chosen on rows of a9a and MNIST.

    Attributes
    ----------
    batch : int, default=256
        Rows of a step: one block of the kernel matrix instead of as many products with one row. More make steps more
        exact and dearer. 1 draws a single row, as published.
    power : int, default=3
        Iterate t has weight about `t^power` in the average; 0 is the published plain average, which converges more
        slowly, as it never forgets the first steps.
    fresh, every : int, default=0, 1
        0: draw from all covered rows. Else draw from a pool of cached rows, to which `fresh` new covered rows are added
        every `every` steps. This is biased towards the pool until all covered rows are in it.
    warm : int, default=100
        With a start, the first step is as short as step `warm + 1`: long ones would throw the start away.
    least_steps : int, default=50
        Steps before rows held out may end the run: some rows of every kind have to be drawn by then.
    """

    batch: int = 256
    power: int = 3
    fresh: int = 0
    every: int = 1
    warm: int = 100
    least_steps: int = 50


@kernel
def average(mean: Floats, value: Floats, scale: float, share: float) -> None:
    """Move `mean` by `share` of the way to `scale * value`."""
    for i in range(mean.shape[0]):
        mean[i] += share * (scale * value[i] - mean[i])


class Direction:
    """A direction that is moved, and its average.

    Parameters
    ----------
    start : ndarray of shape (n,), optional
        Coefficients to begin from.

    Attributes
    ----------
    coef, scores : ndarray of shape (n,)
        Of `v / scale`: `y_i alpha_i`, and `K coef`.
    square : float
        Squared norm of `v / scale`.
    scale : float
    mean_coef, mean_scores : ndarray of shape (n,)
        Of the average of v.
    steps : int
    largest : float
        Largest K(x, x).

    Raises
    ------
    KernelError
        If a K(x, x) is negative.
    """

    def __init__(self, problem: KernelProblem, options: BatchOptions, start: Floats | None = None) -> None:
        n = problem.n_rows
        self._problem, self._power, self._offset = problem, options.power, 0 if start is None else options.warm
        diagonal = problem.rows.diagonal()
        # A squared norm that is negative says at once that no feature space has this kernel.
        if diagonal.min(initial=0.0) < 0.0:
            raise _indefinite(float(diagonal.min()))
        self.largest = float(diagonal.max(initial=0.0))
        # eta_0 of Algorithm 1.
        self._first_step = 1.0 / np.sqrt(self.largest) if self.largest > 0.0 else 0.0
        self.coef, self.scores, self.square, self.scale, self.steps = np.zeros(n), np.zeros(n), 0.0, 1.0, 0
        if start is not None and np.any(start):
            self.coef, self.scores = start.astype(np.float64), cached_responses(problem.rows, start)
            self._measure()
            self.scale = 1.0 / np.sqrt(self.square) if self.square > 0.0 else 1.0
        self.mean_coef, self.mean_scores = self.scale * self.coef, self.scale * self.scores

    def advance(self, rows: Ints, mass: Floats, *, cache: bool) -> float:
        """One step along `sum_k mass[k] y_k phi(x_k)` over different rows; the weight it has in the average.

        `cache` says whether the rows go through the cache, or are computed afresh and not kept.
        """
        self.steps += 1
        # eta_t = eta_0 / sqrt(t), divided by the scale in which the arrays are kept.
        step = self._first_step / np.sqrt(self._offset + self.steps)
        change = step / self.scale * self._problem.y[rows] * mass
        before = self.scores[rows]
        if cache:
            buffer, slot = self._problem.rows.cached(rows)
            add_rows(buffer, slot, change, self.scores)
        else:
            self._problem.rows.add(rows, change, self.scores)
        self.coef[rows] += change
        gained = float(change @ (self.scores[rows] - before))  # squared norm of the step
        if significantly_negative(gained, self.largest * float(np.abs(change).sum()) ** 2):
            raise _indefinite(gained / float(np.abs(change).sum()) ** 2)
        # |v + d|^2 = |v|^2 + 2 <v, d> + |d|^2, from the scores before and after the step.
        self.square = max(0.0, self.square + 2.0 * float(change @ before) + gained)
        # The projection onto the unit ball.
        if self.scale * self.scale * self.square > 1.0:
            self.scale = 1.0 / np.sqrt(self.square)
        if self.scale < 1e-4:  # the arrays would grow beyond what their digits can tell apart
            self.coef *= self.scale
            self.scores *= self.scale
            self._measure()
            self.scale = 1.0
        # Weights t^power, as a running average.
        share = (self._power + 1.0) / (self.steps + self._power)
        average(self.mean_coef, self.coef, self.scale, share)
        average(self.mean_scores, self.scores, self.scale, share)
        return share

    def _measure(self) -> None:
        """The squared norm anew, free of the rounding of many steps."""
        self.square = float(self.coef @ self.scores)
        if significantly_negative(self.square, self.largest * float(np.abs(self.coef).sum()) ** 2):
            raise _indefinite(self.square)
        self.square = max(self.square, 0.0)


def cached_responses(rows: KernelMatrix, coef: Floats) -> Floats:
    """`K coef`, through the cache where it holds all the rows: a path of problems finds most of them there."""
    support: Ints = np.flatnonzero(coef)
    # Too many to keep: computed afresh, block by block, without storing them.
    if support.shape[0] > rows.capacity:
        return responses(rows, coef)
    scores = np.zeros(rows.n_rows)
    buffer, slot = rows.cached(support)
    add_rows(buffer, slot, coef[support], scores)
    return scores


def _indefinite(square: float) -> KernelError:
    return KernelError(
        f"a squared norm came out as {square:.3g}: the kernel is not positive semi-definite on these rows, and this "
        "method needs it to be. Use another kernel (rbf, laplacian, linear, or poly with coef0 >= 0), or other "
        "parameters."
    )


class Sampler:
    """Draws the rows of a step from the covered ones, half of the mass on each class where there is a bias.

    Parameters
    ----------
    water : WaterLevel
        Says which rows are covered.
    options : BatchOptions
        Where a class covers no more than its share of the batch, all its rows are taken: the exact supergradient.
    """

    def __init__(
        self, problem: KernelProblem, water: WaterLevel, options: BatchOptions, rng: np.random.Generator
    ) -> None:
        self._rows, self._water, self._rng = problem.rows, water, rng
        # A batch larger than the cache could not be fetched at once.
        fits = problem.rows.capacity >= problem.n_rows
        self._batch = options.batch if fits else max(1, min(options.batch, problem.rows.capacity))
        self._two = problem.fit_intercept
        self._fresh, self._every = min(options.fresh, problem.rows.capacity), options.every
        self._everything: Ints = np.flatnonzero(water.basin >= 0)
        self._drawn = 0
        self.pool: Ints = np.empty(0, dtype=np.int64)
        self.mass: Floats = np.zeros(problem.n_rows)
        self._law: tuple[Ints, Floats] = self.pool, np.empty(0)

    def draw(self, scores: Floats, level: Level) -> tuple[Ints, Floats]:
        """Different rows, and their mass, which sums to 1."""
        if self._fresh and self._drawn % self._every == 0:
            self._refill(scores, level)
        self._drawn += 1
        for attempt in range(2):
            rows = self.pool if self._fresh else self._everything
            weight = self._water.covered(scores, level, rows)
            rows, weight = rows[weight > 0.0], weight[weight > 0.0]
            if attempt or not self._fresh or all(part.sum() > 0.0 for part in self._split(rows, weight)):
                break
            self._refill(scores, level)  # a class has no covered row in the pool
        chosen, masses = [], []
        sides = self._split(rows, weight)
        self._law = rows, _half_on_each(sides)
        # A fair coin chooses the class, so the draw is unbiased.
        if self._batch == 1:  # a single row, as published
            sides = [sides[self._rng.integers(len(sides))]]
        for part in sides:
            some, mass = self._some(rows, part, max(1, self._batch // len(sides)))
            chosen.append(some)
            masses.append(mass / len(sides))
        return np.concatenate(chosen), np.concatenate(masses)

    def keep(self, share: float) -> None:
        """Move the average law of the draws, `mass`, by a share towards the last one."""
        # The law of the draw and not the rows drawn, so that the average has none of the draw's noise.
        rows, law = self._law
        self.mass *= 1.0 - share
        self.mass[rows] += share * law

    def law_on(self, rows: Ints) -> Floats | None:
        """The average law restricted to some rows, half on each class; None where a class has none of it."""
        mass = np.zeros_like(self.mass)
        mass[rows] = self.mass[rows]
        sides = self._split(np.arange(mass.shape[0]), mass)
        if any(part.sum() <= 0.0 for part in sides):
            return None
        return _half_on_each(sides)

    def _split(self, rows: Ints, weight: Floats) -> list[Floats]:
        """The weights of each basin, 0 elsewhere."""
        if not self._two:
            return [weight]
        second = self._water.basin[rows] == 1
        return [np.where(second, 0.0, weight), np.where(second, weight, 0.0)]

    def _some(self, rows: Ints, weight: Floats, count: int) -> tuple[Ints, Floats]:
        """All rows, or `count` drawn by weight, with masses of sum 1."""
        inside = np.flatnonzero(weight)
        rows, weight = rows[inside], weight[inside]
        # Few covered rows: all of them give the exact supergradient.
        if rows.shape[0] <= count:
            return rows, weight / weight.sum()
        if weight.min() == weight.max():
            drawn = self._rng.choice(rows.shape[0], count, replace=False, shuffle=False)
            return rows[drawn], np.full(count, 1.0 / count)
        # With replacement, by weight; equal draws are one row of a larger mass.
        sums = np.cumsum(weight)
        drawn = np.searchsorted(sums, self._rng.random(count) * sums[-1], side="right")
        different, times = np.unique(np.minimum(drawn, rows.shape[0] - 1), return_counts=True)
        return rows[different], times / count

    def _refill(self, scores: Floats, level: Level) -> None:
        """Add covered rows that are not in the pool, as many of each class; forget uncovered and then old ones."""
        weight = self._water.covered(scores, level)
        weight[self.pool] = 0.0
        sides = self._split(np.arange(weight.shape[0]), weight)
        fresh_rows = []
        for part in sides:
            rows = np.flatnonzero(part)
            count = min(rows.shape[0], max(1, self._fresh // len(sides)))
            fresh_rows.append(self._rng.choice(rows, count, replace=False, shuffle=False))
        new = np.concatenate(fresh_rows)
        if new.shape[0] == 0:
            return
        # The pool has to fit into the cache: uncovered rows go first, then the oldest.
        room = self._rows.capacity - new.shape[0]
        if self.pool.shape[0] > room:
            still = self._water.covered(scores, level, self.pool) > 0.0
            self.pool = np.concatenate((self.pool[~still], self.pool[still]))[self.pool.shape[0] - room :]
        self.pool = np.concatenate((self.pool, new))
        self._rows.cached(self.pool)


def _half_on_each(sides: list[Floats]) -> Floats:
    """The law that gives the same mass to every side, within a side by weight."""
    law: Floats = np.sum([part / (part.sum() * len(sides)) for part in sides], axis=0)
    return law
