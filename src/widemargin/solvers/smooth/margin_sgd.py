"""The projected stochastic form of margin pursuit (Holland 2019, Section 4), as Pegasos steps.

    for t = 1, 2, ...:
        draw i with probability p_i
        w <- (1 - 1/t) w - phi'(m_i) y_i x_i / (lam t)
        project w onto the ball of radius sqrt(2 phi(0)/lam), in which the optimum lies

A bias has no regulariser, and no such step suits it: now and then it is set to its best value, the Catoni location.

The iterate is `w = scale v`, so that shrinking it is one multiplication, and the weighted sum over all steps is
`sum_t t w_t = total v - u` with `total = sum_t t scale_t`: where v changes by delta x_i, u has to change by
`total delta x_i`, for the steps before have seen the old v. To spare a second pass over the features of the row, only
the number `total delta` is added to `pulls_i`; where the sum is needed, `u + sum_i pulls_i x_i` stands for u.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from widemargin._numba import kernel
from widemargin._typing import Floats, Integers, Ints, Reals
from widemargin.exceptions import CapabilityError
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import MarginLoss, psi
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth.smooth_problem import SmoothProblem, SmoothRecorder, SmoothResult

__all__ = [
    "SCALE", "SMALL", "SQUARE", "STEPS", "TOTAL", "WEIGHT", "Iterate", "MarginProblem", "Terms", "csr_pass",
    "dense_pass", "fold", "solve",
]  # fmt: skip

SCALE, TOTAL, WEIGHT, SQUARE, STEPS = 0, 1, 2, 3, 4
"""Integers in `now`: scale, total, the sum of the t, |w|^2, and the number of steps t."""

SMALL = 1e-9
"""A scale below this is multiplied into v (`fold`): `total v - u` is a difference of numbers as large as v, and loses
digits as the scale falls. Half of the digits of a double are left here."""


class Terms(NamedTuple):
    """The numbers of the objective, the same at every step of a pass.

    Attributes
    ----------
    kind, level, s : int, float, float
        Of the loss (`losses.margin`).
    radius : float
        Of the ball around 0 onto which w is projected.
    """

    kind: int
    level: float
    s: float
    lam: float
    radius: float
    b: float


class Iterate(NamedTuple):
    """The arrays that the steps change, see the docstring of the module.

    Attributes
    ----------
    v, u : ndarray of shape (d,)
    pulls : ndarray of shape (n,), or (1,)
        Where the iterates are not averaged it is not used.
    now : ndarray of shape (5,)
        The numbers at `SCALE`, `TOTAL`, `WEIGHT`, `SQUARE` and `STEPS`.
    """

    v: Floats
    u: Floats
    pulls: Floats
    now: Floats
    averaged: bool


class MarginProblem(SmoothProblem, Protocol):
    """A mean of losses of margins of a linear model."""

    @property
    def rows(self) -> RowBlocks: ...
    @property
    def y(self) -> Floats: ...
    @property
    def share(self) -> Floats: ...
    @property
    def loss(self) -> MarginLoss: ...
    @property
    def fit_intercept(self) -> bool: ...
    def split(self, point: Floats) -> tuple[Floats, float]: ...
    def with_best_bias(self, point: Floats) -> Floats: ...
    def radius(self) -> float: ...


def solve(
    problem: MarginProblem,
    /,
    *,
    tol: float = 1e-6,
    start: Floats | None = None,
    budget: Budget | None = None,
    max_iter: int = 20,
    average: bool = False,
    seed: int = 0,
    steps: int = 0,
    later: float = 1.7,
) -> SmoothResult:
    """Approach the optimum.

    Parameters
    ----------
    problem : MarginProblem
        Of one block of rows, with `lam > 0`.
    tol : float, default=1e-6
        Relative gap; it is looked at after 1, 2, 4, 7, 12, ... passes.
    start : ndarray of shape (n_unknowns,), optional
    max_iter : int, default=20
        Most passes, of as many draws as there are rows.
    average : bool, default=False
        Whether the mean of the iterates with weights t is returned, which is smoother than the last one.
    steps : int, default=0
        The t to go on from; at 0 the first step forgets `start`, as its length is `1 / lam`.
    later : float, default=1.7
        Passes between two looks at the objective and the bias, as a factor. A look takes a third of a pass: fewer save
        time and let the bias lag behind the weights.

    Raises
    ------
    CapabilityError
        If `lam` is 0.
    """
    if not problem.lam > 0.0:
        raise CapabilityError("the stochastic solver needs a regulariser: give a finite C, or use solver='lbfgs'.")
    budget = budget or Budget()
    recorder, n_iter = SmoothRecorder(problem, "sgd", tol, budget), 0
    walk = _Walk(problem, start, average, seed, steps)
    next_look = 0.0
    try:
        while n_iter < max_iter and not budget.exhausted:
            walk.one_pass()
            recorder.n_gradients += problem.n_rows
            n_iter += 1
            if n_iter < next_look and n_iter < max_iter:
                continue
            # Later looks are rarer, so that all of them together cost a constant share of the passes.
            next_look = later * n_iter
            point = walk.point()
            recorder.note(n_iter, *problem.value_gradient(point))
            if recorder.converged(point):
                break
    except KeyboardInterrupt:
        budget.interrupted = True
    return recorder.result(walk.point(), n_iter)


class _Walk:
    """The state of the steps between two passes."""

    def __init__(self, problem: MarginProblem, start: Floats | None, average: bool, seed: int, steps: int) -> None:
        self._problem, self._rng = problem, np.random.default_rng((seed, steps))
        w, self._b = problem.split(np.zeros(problem.n_unknowns) if start is None else start)
        # Step t = 1 multiplies w by 1 - 1/1 = 0, so a start would be lost anyway.
        v = np.array(w, dtype=np.float64) if steps else np.zeros(w.shape[0])
        pulls, now = np.zeros(problem.n_rows if average else 1), np.zeros(5)
        now[SCALE], now[SQUARE], now[STEPS] = 1.0, v @ v, steps
        self._iterate = Iterate(v, np.zeros(w.shape[0]), pulls, now, average)
        self._norms2, self._radius = problem.rows.norms2(), problem.radius()
        (self._block,) = problem.rows.blocks

    def one_pass(self) -> None:
        """As many steps as there are rows."""
        problem, block, loss = self._problem, self._block, self._problem.loss
        lam, level, s = float(problem.lam), float(loss.margin_level), float(loss.scale)
        terms = Terms(loss.kind, level, s, lam, self._radius, self._b)
        common: tuple[Any, ...] = (problem.y, self._norms2, terms, self._iterate)
        if sp.issparse(block.X):
            csr_pass(self._draws(), *block.csr, *common)
        else:
            dense_pass(self._draws(), block.X, *common)

    def point(self) -> Floats:
        """The last iterate, or the mean of all, with its best bias, which the next steps take over."""
        v, u, pulls, now, averaged = self._iterate
        w: Floats = now[SCALE] * v
        if averaged and now[WEIGHT] > 0.0:
            # One product with all rows adds what every step has put into `pulls` (module docstring).
            w = (now[TOTAL] * v - (u + self._problem.rows.tdot(pulls))) / now[WEIGHT]
        if not self._problem.fit_intercept:
            return w
        # The steps leave the bias alone; its best value is one root away, and the next steps take it over.
        point = self._problem.with_best_bias(np.append(w, self._b))
        self._b = float(point[-1])
        return point

    def _draws(self) -> Ints:
        """Numbers of rows, drawn with their weights."""
        n, share = self._problem.n_rows, self._problem.share
        if share.min() == share.max():
            return np.asarray(self._rng.integers(0, n, n))
        # Rows are drawn in proportion to their weights, by their places on a line of length one.
        ends = np.cumsum(share)
        return np.asarray(np.minimum(np.searchsorted(ends, self._rng.random(n) * ends[-1], side="right"), n - 1))


@kernel
def advance(
    terms: Terms, y: float, score: float, norm2: float, t: float, scale: float, square: float
) -> tuple[float, float, float]:
    """Step t: what to add to v along x_i, the new scale and the new |w|^2; `score` is `<w, x_i>` before the step."""
    # The processor computes these divisions while it still waits for the score.
    longest, shrink = terms.s / (terms.lam * t), 1.0 - 1.0 / t
    # The shrinkage is one multiplication of the scale; v keeps its numbers.
    scale = scale * shrink if t > 1.0 else 1.0  # at the first step w is 0
    inverse = 1.0 / scale
    step = y * longest * psi(terms.kind, (terms.level - y * (score + terms.b)) * (1.0 / terms.s))
    # `|shrink w + step x|^2 = shrink^2 |w|^2 + 2 shrink step <w, x> + step^2 |x|^2`: the projection needs it at every
    # step, and a sum over all features would double the cost. Rounding may leave it below zero.
    square = max(0.0, shrink * (shrink * square + 2.0 * step * score) + step * step * norm2)
    delta = step * inverse
    # The projection onto the ball multiplies w by one number, which the scale takes up.
    if square > terms.radius * terms.radius:
        scale *= terms.radius / np.sqrt(square)
        square = terms.radius * terms.radius
    return delta, scale, square


@kernel
def fold(v: Floats, u: Floats, scale: float, total: float) -> tuple[float, float]:
    """Make scale 1 and total 0 again, before scale has become so small that digits would be lost."""
    # `total v - u` has to stay the same with total = 0, so u takes up `-total v` before v becomes w itself.
    for k in range(v.shape[0]):
        u[k] -= total * v[k]
        v[k] *= scale
    return 1.0, 0.0


@kernel
def csr_pass(
    draws: Integers, data: Reals, indices: Integers, indptr: Integers, y: Floats, norms2: Floats, terms: Terms,
    iterate: Iterate,
) -> None:  # fmt: skip
    """Steps on the CSR rows `draws`."""
    v, u, pulls, now, averaged = iterate
    scale, total, weight, square, t = now[SCALE], now[TOTAL], now[WEIGHT], now[SQUARE], now[STEPS]
    for i in draws:
        first, last = indptr[i], indptr[i + 1]
        even = odd = 0.0  # two sums side by side: an addition waits for the one before
        for k in range(first + 1, last, 2):
            even += data[k - 1] * v[indices[k - 1]]
            odd += data[k] * v[indices[k]]
        if (last - first) % 2 == 1:
            even += data[last - 1] * v[indices[last - 1]]
        t += 1.0
        score = scale * (even + odd)
        delta, scale, square = advance(terms, y[i], score, norms2[i], t, scale, square)
        if averaged:  # u takes x_i times that, when the sum is asked for: its features are not touched here
            pulls[i] += total * delta
            total += t * scale
            weight += t
        for k in range(first, last):
            v[indices[k]] += delta * data[k]
        if scale < SMALL:
            scale, total = fold(v, u, scale, total)
    now[SCALE], now[TOTAL], now[WEIGHT], now[SQUARE], now[STEPS] = scale, total, weight, square, t


@kernel
def dense_pass(draws: Integers, X: Reals, y: Floats, norms2: Floats, terms: Terms, iterate: Iterate) -> None:
    """Steps on the dense rows `draws`."""
    v, u, pulls, now, averaged = iterate
    d = X.shape[1]
    scale, total, weight, square, t = now[SCALE], now[TOTAL], now[WEIGHT], now[SQUARE], now[STEPS]
    for i in draws:
        s0 = s1 = s2 = s3 = 0.0  # four sums side by side hide the latency of the additions
        k = 0
        while k + 3 < d:
            s0 += X[i, k] * v[k]
            s1 += X[i, k + 1] * v[k + 1]
            s2 += X[i, k + 2] * v[k + 2]
            s3 += X[i, k + 3] * v[k + 3]
            k += 4
        while k < d:
            s0 += X[i, k] * v[k]
            k += 1
        t += 1.0
        score = scale * ((s0 + s1) + (s2 + s3))
        delta, scale, square = advance(terms, y[i], score, norms2[i], t, scale, square)
        if averaged:  # u takes x_i times that, when the sum is asked for: its features are not touched here
            pulls[i] += total * delta
            total += t * scale
            weight += t
        for k in range(d):
            v[k] += delta * X[i, k]
        if scale < SMALL:
            scale, total = fold(v, u, scale, total)
    now[SCALE], now[TOTAL], now[WEIGHT], now[SQUARE], now[STEPS] = scale, total, weight, square, t
