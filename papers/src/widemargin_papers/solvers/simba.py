"""SIMBA for linear SVMs (Hazan, Koren and Srebro, "Beating SGD: Learning SVMs in Sublinear Time", NIPS 2011).

The slack-constrained form of the stochastic batch perceptron, with features that can be read one by one. Where the
batch perceptron solves for the law p of rows, SIMBA follows it by mirror descent: a step reads a row and a column.

    maximise over |w| <= 1, xi >= 0:   gamma = min_i y_i <w, x_i> + xi_i,      sum_i u_i xi_i <= nu sum_i u_i

    repeat T times:                                                                                (|x_i| <= 1)
        draw row i from p;               w = u / max(1, |u|) after u = u + y_i x_i / sqrt(2 T)
        xi = the slack that gains most at p, at most 2 a row
        draw column j with probability w_j^2 / |w|^2
        v = clip(y X[:, j] |w|^2 / w_j + xi, 1/eta),       eta = sqrt(log n / T)     (an estimate of y X w + xi)
        p = p (1 - eta v + eta^2 v^2), normalised
    return the average of the w

Every law p bounds the margin: `gamma <= |sum_i p_i y_i x_i| + nu (sum_i u_i) max_i p_i / u_i`; the average law is used.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from widemargin.exceptions import DataError
from widemargin.extending import Floats, Matrix
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.batch_perceptron.water_level import WaterLevel

_RATIO = 1.2  # steps between two looks, as a factor


@dataclass(frozen=True)
class SimbaResult:
    """A linear classifier `f(x) = <coef, x>` of margin 1, with the bound of its margin.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        The direction of norm at most 1 divided by its margin; the direction itself where that is not positive.
    margin, bound : float
        gamma of the direction, and an upper bound of the best one.
    status : Status
    n_iter : int
        Steps.
    reads : int
        Entries of X looked at by the steps.
    seconds : float
    history : tuple of dict
        `iteration`, `seconds`, `reads`, `margin`, `bound`.
    """

    coef: Floats
    margin: float
    bound: float
    status: Status
    n_iter: int
    reads: int
    seconds: float
    history: tuple[dict[str, float], ...] = ()

    @property
    def gap(self) -> float:
        """`(bound - margin) / bound`."""
        return (self.bound - self.margin) / max(abs(self.bound), 1e-300)


def solve(
    X: Matrix,
    y: Floats,
    *,
    nu: float,
    weight: Floats | None = None,
    tol: float = 0.05,
    budget: Budget | None = None,
    max_iter: int = 10_000,
    seed: int = 0,
) -> SimbaResult:
    """Approach the largest margin at a mean slack nu, without a bias.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Columns are read as well as rows: one more copy, by columns, is made.
    y : ndarray of shape (n,)
        Labels -1.0 and 1.0.
    nu : float
        Mean slack, >= 0, in units of `<w, x>` with `|w| <= 1`. Raising it lets more rows miss the margin.
    weight : ndarray of shape (n,), optional
        Weights u of the rows; 0 leaves a row out.
    tol : float, default=0.05
        Largest relative gap between margin and bound, looked at now and then.
    budget : Budget, optional
    max_iter : int, default=10,000
        Steps T. They are planned for T: a run that ends before has taken steps that are too small.
    seed : int, default=0

    Returns
    -------
    SimbaResult

    Raises
    ------
    DataError
        If nu is negative or not finite, or no row has a weight.
    """
    if not (math.isfinite(nu) and nu >= 0.0):
        raise DataError(f"nu={nu!r} must be a finite number >= 0.")
    u = np.ones(y.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    if not (u > 0.0).any():
        raise DataError(f"none of the {u.shape[0]} rows has a positive weight; give some.")
    budget = budget or Budget()
    run = _Run(X, y, u / u.max(), nu, max_iter, seed)
    history: list[dict[str, float]] = []
    following, converged = 1.0, False
    try:
        for t in range(1, max_iter + 1):
            run.step()
            if t >= following or t == max_iter:
                following = max(t + 1.0, _RATIO * t)
                margin, bound = run.look()
                history.append(
                    {"iteration": t, "seconds": budget.elapsed, "reads": run.reads, "margin": margin, "bound": bound}
                )
                budget.tell("simba", t, -margin, (bound - margin) / max(abs(bound), 1e-300), math.nan)
                converged = bound - margin <= tol * abs(bound)
            if converged or budget.exhausted:
                break
    except KeyboardInterrupt:
        budget.interrupted = True
    run.look()
    coef = run.best / run.margin if run.margin > 0.0 else run.best
    return SimbaResult(
        coef,
        run.margin,
        run.bound,
        budget.status(converged=converged),
        run.steps,
        run.reads,
        budget.elapsed,
        tuple(history),
    )


class _Run:
    """State: u, the law p, and the sums of the iterates w and p; rows are scaled to norm at most 1."""

    def __init__(self, X: Matrix, y: Floats, u: Floats, nu: float, T: int, seed: int) -> None:
        n = y.shape[0]
        self._rows, self._columns = _both_ways(X)
        squares = self._rows**2 if isinstance(self._rows, np.ndarray) else self._rows.multiply(self._rows)
        self._size = max(float(np.sqrt(np.asarray(squares.sum(axis=1)).max(initial=0.0))), 1e-300)
        self._y, self._weight = y, u
        self._volume = nu / self._size * float(u.sum())
        self._water = WaterLevel(y, u, False)
        self._rate, self._eta = 1.0 / math.sqrt(2.0 * T), math.sqrt(max(math.log(n), 1e-3) / T)
        self._rng = np.random.default_rng(seed)
        self._u, self._sum = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        self._p = u / u.sum()
        self._p_sum = np.zeros(n)
        self.steps = self.reads = 0
        self.best, self.margin, self.bound = np.zeros(X.shape[1]), -math.inf, math.inf

    def step(self) -> None:
        """One step of SIMBA."""
        self._p_sum += self._p
        i = _draw(self._p, self._rng)
        self._add_row(i)
        w = self._u / max(1.0, float(np.linalg.norm(self._u)))
        square = w * w
        v = self._slack()
        if square.any():
            j = _draw(square, self._rng)
            v = v + self._column(j) * (float(square.sum()) / w[j])
        v = np.clip(v, -1.0 / self._eta, 1.0 / self._eta)
        self._p *= 1.0 - self._eta * v + (self._eta * v) ** 2
        self._p /= self._p.sum()
        self._sum += w
        self.steps += 1

    def look(self) -> tuple[float, float]:
        """The best margin of an average so far, and the best bound."""
        if self.steps == 0:
            return self.margin, self.bound
        mean = self._sum / self.steps
        norm = float(np.linalg.norm(mean))
        for w in (mean, mean / norm) if norm > 0.0 else (mean,):
            margin = self._size * self._water.of_volume(np.asarray(self._rows @ w) / self._size, self._volume).gamma
            if margin > self.margin:
                self.best, self.margin = w, margin
        law = self._p_sum / self._p_sum.sum()
        counts = self._weight > 0.0
        pull = float(np.linalg.norm(self._rows.T @ (law * self._y)))
        slack = self._size * self._volume * float((law[counts] / self._weight[counts]).max())
        self.bound = min(self.bound, pull + slack)
        return self.margin, self.bound

    def _add_row(self, i: int) -> None:
        factor = self._rate / self._size * self._y[i]
        if isinstance(self._rows, np.ndarray):
            self._u += factor * self._rows[i]
            self.reads += self._u.shape[0]
        else:
            at = slice(self._rows.indptr[i], self._rows.indptr[i + 1])
            self._u[self._rows.indices[at]] += factor * self._rows.data[at]
            self.reads += at.stop - at.start

    def _column(self, j: int) -> Floats:
        """`y_i x_ij`, shape (n,)."""
        if isinstance(self._columns, np.ndarray):
            self.reads += self._y.shape[0]
            return np.asarray(self._y * self._columns[:, j] / self._size)
        at = slice(self._columns.indptr[j], self._columns.indptr[j + 1])
        rows = self._columns.indices[at]
        column: Floats = np.zeros(self._y.shape[0])
        column[rows] = self._y[rows] * self._columns.data[at] / self._size
        self.reads += at.stop - at.start
        return column

    def _slack(self) -> Floats:
        """The xi in [0, 2] with `sum u xi <= volume` that maximises `p xi`: the rows of largest `p / u` first."""
        price = np.divide(self._p, self._weight, out=np.full_like(self._p, -1.0), where=self._weight > 0.0)
        order = np.argsort(-price, kind="stable")
        spent = np.cumsum(2.0 * self._weight[order])
        xi: Floats = np.zeros(self._p.shape[0])
        cost = np.diff(np.minimum(spent, self._volume), prepend=0.0)
        xi[order] = np.divide(cost, self._weight[order], out=np.zeros_like(cost), where=self._weight[order] > 0.0)
        return xi


def _both_ways(X: Matrix) -> tuple[Matrix, Matrix]:
    """X in double precision, stored by rows and stored by columns."""
    if sp.issparse(X):
        rows = sp.csr_matrix(X, dtype=np.float64)
        return rows, rows.tocsc()
    dense = np.ascontiguousarray(X, dtype=np.float64)
    return dense, np.asfortranarray(dense)


def _draw(mass: Floats, rng: np.random.Generator) -> int:
    total = np.cumsum(mass)
    return int(min(np.searchsorted(total, rng.random() * total[-1], side="right"), mass.shape[0] - 1))
