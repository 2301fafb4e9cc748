"""The projected stochastic form of margin pursuit (Holland 2019, Section 4; spec 4 section 2), as Pegasos steps.

for t = 1, 2, ...:
    draw i with probability p_i
    w <- (1 - 1/t) w - phi'(m_i) y_i x_i / (lam t)
    project w onto the ball of radius sqrt(2 phi(0)/lam), in which the optimum lies

A bias has no regulariser, and no such step suits it: now and then it is set to its best value, the Catoni location.
"""

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Floats, Ints
from widemargin.exceptions import CapabilityError
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import MarginLoss
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth import margin_sgd_loops as loops
from widemargin.solvers.smooth.smooth_problem import SmoothProblem, SmoothResult, Trace

__all__ = ["MarginProblem", "solve"]


LATER = 1.3
"""Passes between two looks at the objective and the bias, as a factor: each takes a third of a pass."""


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
    *,
    tol: float = 1e-6,
    start: Floats | None = None,
    budget: Budget | None = None,
    max_iter: int = 20,
    average: bool = False,
    seed: int = 0,
    steps: int = 0,
) -> SmoothResult:
    """Approach the optimum.

    Parameters
    ----------
    problem : MarginProblem
        Of one block of rows, with `lam > 0`.
    tol : float, default=1e-6
        Relative gap; it is looked at after 1, 2, 3, 4, 6, 8, 11, ... passes.
    start : ndarray of shape (n_unknowns,), optional
    budget : Budget, optional
    max_iter : int, default=20
        Most passes, of as many draws as there are rows.
    average : bool, default=False
        Whether the mean of the iterates with weights t is returned, which is smoother than the last one.
    seed : int, default=0
    steps : int, default=0
        The t to go on from; at 0 the first step forgets `start`, as its length is `1 / lam`.

    Returns
    -------
    SmoothResult

    Raises
    ------
    CapabilityError
        If `lam` is 0.
    """
    if not problem.lam > 0.0:
        raise CapabilityError("the stochastic solver needs a regulariser: give a finite C, or use solver='lbfgs'.")
    budget = budget or Budget()
    trace, n_iter = Trace(problem, "sgd", tol, budget), 0
    walk = _Walk(problem, start, average, seed, steps)
    next_look = 0.0
    try:
        while n_iter < max_iter and not budget.exhausted:
            walk.one_pass()
            trace.n_gradients += problem.n_rows
            n_iter += 1
            if n_iter < next_look and n_iter < max_iter:
                continue
            next_look = LATER * n_iter
            point = walk.point()
            trace.note(n_iter, *problem.value_gradient(point))
            if trace.converged(point):
                break
    except KeyboardInterrupt:
        budget.interrupted = True
    return trace.result(walk.point(), n_iter)


class _Walk:
    """The state of the steps between two passes."""

    def __init__(self, problem: MarginProblem, start: Floats | None, average: bool, seed: int, steps: int) -> None:
        self._problem, self._average, self._rng = problem, average, np.random.default_rng((seed, steps))
        w, self._b = problem.split(np.zeros(problem.n_unknowns) if start is None else start)
        self._v, self._u, self._now = np.array(w, dtype=np.float64), np.zeros(w.shape[0]), np.zeros(5)
        if steps == 0:
            self._v[:] = 0.0
        self._now[loops.SCALE], self._now[loops.STEPS] = 1.0, steps
        self._now[loops.SQUARE] = self._v @ self._v
        self._pulls = np.zeros(problem.n_rows if average else 1)
        self._norms2, self._radius = problem.rows.norms2(), problem.radius()
        (self._block,) = problem.rows.blocks

    def one_pass(self) -> None:
        """As many steps as there are rows."""
        problem, block = self._problem, self._block
        loss = problem.loss
        common: tuple[Any, ...] = (
            problem.y, self._norms2, loss.kind, float(loss.margin_level), float(loss.scale), problem.lam, self._radius,
            self._b, self._average, self._pulls, self._v, self._u, self._now,
        )  # fmt: skip
        if sp.issparse(block.X):
            loops.csr_pass(self._draws(), *block.csr[:3], *common)
        else:
            loops.dense_pass(self._draws(), block.X, *common)

    def point(self) -> Floats:
        """The last iterate, or the mean of all, with its best bias, which the next steps take over."""
        w: Floats = self._now[loops.SCALE] * self._v
        if self._average and self._now[loops.WEIGHT] > 0.0:
            missing = self._u + self._problem.rows.tdot(self._pulls)
            w = (self._now[loops.TOTAL] * self._v - missing) / self._now[loops.WEIGHT]
        if not self._problem.fit_intercept:
            return w
        point = self._problem.with_best_bias(np.append(w, self._b))
        self._b = float(point[-1])
        return point

    def _draws(self) -> Ints:
        """Numbers of rows, drawn with their weights."""
        n, share = self._problem.n_rows, self._problem.share
        if share.min() == share.max():
            return np.asarray(self._rng.integers(0, n, n))
        ends = np.cumsum(share)
        return np.asarray(np.minimum(np.searchsorted(ends, self._rng.random(n) * ends[-1], side="right"), n - 1))
