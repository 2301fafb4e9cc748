"""The stochastic kernel methods of the batch perceptron's paper, with both averages.

What a method is worth depends on how its iterates are averaged: plainly, as Algorithm 1 has it, or with the weights t,
which forget the long first steps sooner. Here one run shows the test error of both, and of the last iterate, after
given numbers of kernel rows; a step takes some tens of microseconds on some thousands of rows.

The compiled methods are generators: they read kernel rows where a cache keeps them, and ask for one that it does not
keep by yielding its number. `errors` answers them.

The iterate is `w = scale v`, and its weighted sums over the steps are `total S - U`, S being the scores of v: a change
of S by delta adds `total delta` to U, so a step that adds no row costs a few numbers only.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from widemargin.extending import Floats, Ints, Singles, array_kernel, kernel
from widemargin.kernels.rows import KernelRows

AVERAGES = ("last", "plain", "weighted")
"""The last iterate, the plain average, and the one with the weights t: the rows of what the functions return."""

SMALL = 1e-6
"""A scale below which it is multiplied into the scores, before they grow too large."""


def looks_of(grid: Floats) -> Ints:
    """The numbers of kernel rows to look at: the whole ones of a grid, each once."""
    return np.unique(np.floor(np.asarray(grid)).astype(np.int64))


def errors(
    method: Callable[..., Iterator[int]], rows: KernelRows, n: int, y: Floats, looks: Ints, *arguments: Any
) -> Floats:
    """Test errors of a method's iterates after some numbers of kernel rows.

    Parameters
    ----------
    method : callable
        `batch_perceptron`, `pegasos` or `perceptron`.
    rows : KernelRows
        Of the n training rows and then the test rows; in single precision.
    n : int
    y : ndarray of -1.0 and 1.0, shape (rows.n_rows,)
    looks : ndarray of increasing int64
        Numbers of steps that compute a kernel row, after which errors are noted. What is not reached keeps the last.
    *arguments
        The method's own.

    Returns
    -------
    ndarray of shape (3, number of looks)
        As in `AVERAGES`.
    """
    place, owner = np.full(n, -1), np.full(rows.capacity, -1)
    found = np.empty((looks.shape[0], 3))
    cache, _ = rows.cached(np.array([0]))
    for missing in method(cache, place, y, looks, found, *arguments):
        (slot,) = rows.cached(np.array([missing]))[1]
        if owner[slot] >= 0:  # its row was forgotten
            place[owner[slot]] = -1
        owner[slot], place[missing] = missing, slot
    return found.T.copy()


@kernel
def _add(row: Singles, amount: float, scores: Floats, sums: Floats, totals: Floats) -> None:
    """Add a kernel row to the scores, and keep both sums in step."""
    for j in range(scores.shape[0]):
        change = amount * row[j]
        scores[j] += change
        sums[0, j] += totals[0] * change
        sums[1, j] += totals[1] * change


@kernel
def _fold(scale: float, scores: Floats, totals: Floats) -> float:
    """Multiply a small scale into the scores; the weighted sums `total S - U` stay what they are."""
    if scale >= SMALL:
        return scale
    for j in range(scores.shape[0]):
        scores[j] *= scale
    totals /= scale
    return 1.0


@kernel
def _errors(n: int, y: Floats, scores: Floats, sums: Floats, totals: Floats, found: Floats) -> None:
    """Share of the rows after the first n that the last iterate and both averages get wrong."""
    found[:] = 0.0
    for j in range(n, y.shape[0]):
        found[0] += y[j] * scores[j] <= 0.0
        for k in range(2):
            found[k + 1] += y[j] * (totals[k] * scores[j] - sums[k, j]) <= 0.0
    found /= y.shape[0] - n


@kernel
def _level(y: Floats, n: int, scores: Floats, volume: float, level: float) -> float:
    """The level with `sum_i max(0, level - y_i S_i) = volume` over the first n rows, by Newton steps from a guess.

    The sum is convex in the level, so after the first step every one stays above the solution and falls towards it.
    """
    for _ in range(100):
        count, total = 0, 0.0
        for i in range(n):
            if y[i] * scores[i] < level:
                count += 1
                total += y[i] * scores[i]
        if count == 0:  # the guess lies below all rows: begin above them
            least = np.inf
            for i in range(n):
                least = min(least, y[i] * scores[i])
            level = least + volume
            continue
        new = (volume + total) / count
        if abs(new - level) <= 1e-12 * (1.0 + abs(new)):
            return float(new)
        level = new
    return level


@array_kernel
def batch_perceptron(
    cache: Singles, place: Ints, y: Floats, looks: Ints, found: Floats, nu: float, rng: np.random.Generator
) -> Iterator[int]:
    """Algorithm 1 of Cotter et al. 2012 without a bias: one covered row a step, of a kernel whose diagonal is 1.

    Parameters
    ----------
    cache : ndarray of float32, shape (slots, n + n_test)
        Kernel values of some training rows with all of them and then the test rows.
    place : ndarray of int64, shape (n,)
        Where a training row stands there; -1 where it does not: then its number is yielded until it does.
    y : ndarray of -1.0 and 1.0, shape (n + n_test,)
    looks : ndarray of int64
    found : ndarray of shape (number of looks, 3)
        Written to.
    nu : float
        Mean slack in units of the norm.
    rng : numpy.random.Generator
    """
    n, m = place.shape[0], y.shape[0]
    scores, sums, totals = np.zeros(m), np.zeros((2, m)), np.zeros(2)
    scale, square, level, look = 1.0, 0.0, 0.0, 0
    for t in range(1, looks[-1] + 1):
        level = _level(y, n, scores, n * nu / scale, level)
        # A covered row is drawn by trying rows at random: a share nu of them at least is covered.
        i = int(rng.random() * n)
        while y[i] * scores[i] > level:
            i = int(rng.random() * n)
        step = 1.0 / np.sqrt(t)
        square += 2.0 * step * scale * y[i] * scores[i] + step * step
        while place[i] < 0:
            yield i
        _add(cache[place[i]], step * y[i] / scale, scores, sums, totals)
        if square > 1.0:  # back to the unit ball
            scale /= np.sqrt(square)
            level *= np.sqrt(square)
            square = 1.0
        before = scale
        scale = _fold(scale, scores, totals)
        level *= before / scale
        totals[0] += scale
        totals[1] += t * scale
        if t == looks[look]:
            _errors(n, y, scores, sums, totals, found[look])
            look += 1


@array_kernel
def pegasos(
    cache: Singles, place: Ints, y: Floats, looks: Ints, found: Floats, lam: float, most: int,
    rng: np.random.Generator,
) -> Iterator[int]:  # fmt: skip
    """Pegasos without projection: at most so many draws; a draw that moves the iterate computes one kernel row.

    Parameters as in `batch_perceptron`; `lam` is the regulariser beside a mean of losses.
    """
    n, m = place.shape[0], y.shape[0]
    scores, sums, totals = np.zeros(m), np.zeros((2, m)), np.zeros(2)
    scale, look, rows = 1.0, 0, 0
    for t in range(1, most + 1):
        i = int(rng.random() * n)
        violated = y[i] * scale * scores[i] < 1.0
        if t > 1:  # at the first step w is 0
            scale *= 1.0 - 1.0 / t
        if violated:
            while place[i] < 0:
                yield i
            _add(cache[place[i]], y[i] / (lam * t * scale), scores, sums, totals)
            rows += 1
        scale = _fold(scale, scores, totals)
        totals[0] += scale
        totals[1] += t * scale
        if violated and rows == looks[look]:
            _errors(n, y, scores, sums, totals, found[look])
            look += 1
            if look == looks.shape[0]:
                break
    while look < looks.shape[0]:
        _errors(n, y, scores, sums, totals, found[look])
        look += 1


@array_kernel
def perceptron(
    cache: Singles, place: Ints, y: Floats, looks: Ints, found: Floats, passes: int, rng: np.random.Generator
) -> Iterator[int]:
    """The online Perceptron in passes of random order; a mistake computes one kernel row. Parameters as above."""
    n, m = place.shape[0], y.shape[0]
    scores, sums, totals = np.zeros(m), np.zeros((2, m)), np.zeros(2)
    look, rows, t = 0, 0, 0
    for _ in range(passes):
        order = np.arange(n)
        for first in range(n):  # the next row of a random order
            other = first + int(rng.random() * (n - first))
            i = order[other]
            order[other] = order[first]
            t += 1
            mistaken = y[i] * scores[i] <= 0.0
            if mistaken:
                while place[i] < 0:
                    yield i
                _add(cache[place[i]], y[i], scores, sums, totals)
                rows += 1
            totals[0] += 1.0
            totals[1] += t
            if mistaken and look < looks.shape[0] and rows == looks[look]:
                _errors(n, y, scores, sums, totals, found[look])
                look += 1
    while look < looks.shape[0]:
        _errors(n, y, scores, sums, totals, found[look])
        look += 1
