"""The dual of a linear kernel SVM on rows that are more than their columns, by a primal-dual interior point method.

    some steps along pairs of all rows, or some working sets: where they suffice nothing takes less time
    else the central path, by Mehrotra's predictor and corrector (Ferris and Munson 2002): a step factors one matrix of
    (d + 1) x (d + 1) numbers, whatever C and the scales of the columns are
    then the coefficients at a bound are put there, and those between are solved for
    and the working-set dual certifies them, after more steps where these are needed

SMO takes more steps the larger C and the features are: raw columns of some thousands are beyond it. The path has some
twenty steps on such columns, too.
"""

from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._typing import Bools, Floats
from widemargin.exceptions import CapabilityError
from widemargin.solvers.base import Budget, Status, relative_gap
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.dual.working_set import WorkingSetOptions
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult

__all__ = ["FeatureMatrix", "InteriorPointOptions", "solve"]


@dataclass(frozen=True)
class InteriorPointOptions:
    """How the interior point method works.

    Attributes
    ----------
    columns, numbers : int, default=4096, 2^26
        Most columns, and most numbers of the rows, of which two copies are made.
    few : int, default=256
        Columns up to which there may be more of them than rows, too.
    a_round : int, default=40,000
        Squared columns for each of the working sets with which a run begins. They take about a third of the time of the
        path then: 600 to 4,000 rows of 300 to 3,000 columns that they solve take 4 to 65 of them, those that take
        minutes thousands.
    begin : int, default=2^23
        Numbers that steps along pairs of all rows may touch, with which a run begins: about ten milliseconds, in which
        few rows, or few support vectors, are solved for.
    steps : int, default=100
        Most steps along the path.
    gap : float, default=1e-10
        Relative gap at which it ends. Coefficients are then told apart into those at a bound and those between.
    near : float, default=1e-3
        Relative gap up to which they are told apart where the path ends early.
    short : float, default=0.995
        Share of the way to the nearest bound that a step goes.
    sets : int, default=256
        Most working sets after a path that came near: its end is the optimum up to rounding, and where so many do not
        certify it, rounding leaves no coefficients that they would. On 50 raw tables with C up to 1e4 those that
        converge take 213 at most, and the others do not end.
    """

    columns: int = 4096
    numbers: int = 1 << 26
    few: int = 256
    a_round: int = 40_000
    begin: int = 1 << 23
    steps: int = 100
    gap: float = 1e-10
    near: float = 1e-3
    short: float = 0.995
    sets: int = 256

    def suit(self, n_rows: int, n_columns: int) -> bool:
        """Whether such rows are solved so by default: not separable ones, of more columns than rows."""
        return n_columns <= min(self.columns, max(n_rows, self.few)) and n_rows * n_columns <= self.numbers


class FeatureMatrix(Protocol):
    """A kernel matrix whose rows are known by their features (`kernels.rows.KernelRows`)."""

    def features(self) -> Floats | None:
        """Those rows, dense, shape (n, d), of a linear kernel; None of other kernels."""


def solve(
    problem: KernelProblem,
    *,
    tol: float = 1e-3,
    start: Floats | None = None,
    scores: Floats | None = None,
    budget: Budget | None = None,
    options: InteriorPointOptions = InteriorPointOptions(),
) -> KernelResult:
    """Solve the dual of a linear kernel SVM.

    Parameters
    ----------
    problem : KernelProblem
        Its rows have a linear kernel.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, LIBSVM's measure.
    start, scores, budget
        As in `working_set.solve`, which is what a start is left to.

    Returns
    -------
    KernelResult
        `n_iter` counts working sets and steps along the path.

    Raises
    ------
    CapabilityError
        If the kernel is another one.
    """
    budget = budget or Budget()
    X = cast(FeatureMatrix, problem.rows).features() if hasattr(problem.rows, "features") else None
    if X is None:
        raise CapabilityError("solver='interior-point' needs kernel='linear'; use solver='auto'.")
    if start is not None:
        return working_set.solve(problem, tol=tol, start=start, scores=scores, budget=budget)
    steps_a_row = options.begin / max(problem.n_rows, 1) ** 2
    rounds = 1 + X.shape[1] ** 2 // options.a_round
    first = WorkingSetOptions(rounds=rounds, of_all=steps_a_row, of_more=steps_a_row)
    begun = working_set.solve(problem, tol=tol, budget=budget, options=first)
    if begun.status is not Status.MAX_ITER:
        return begun
    with np.errstate(all="ignore"):  # of features whose squares are no finite numbers, which the certificate tells of
        coef, steps, gap = optimum(X, problem, budget, options)
        # Scores by way of the weights lose far less by rounding than sums of kernel values of large features.
        coef = problem.feasible(coef if np.isfinite(coef).all() else None)
        scores = X @ ((X - X.mean(axis=0) if problem.fit_intercept else X).T @ coef)
    last = WorkingSetOptions(rounds=options.sets if gap <= options.near else None)
    result = working_set.solve(problem, tol=tol, start=coef, scores=scores, budget=budget, options=last)
    best = begun if result.status is not Status.CONVERGED and begun.primal < result.primal else result
    return replace(
        best, status=result.status, n_iter=begun.n_iter + steps + result.n_iter,
        history=begun.history + result.history,
    )  # fmt: skip


def optimum(
    X: Floats, problem: KernelProblem, budget: Budget, options: InteriorPointOptions
) -> tuple[Floats, int, float]:
    """The coefficients at the end of the path, shape (n,), its steps and its gap; where it ends early, as it came."""
    used = problem.upper > 0.0
    X, y, upper = X[used], problem.y[used], problem.upper[used]
    # As coefficients sum to 0 where there is a bias, the mean of the rows takes part in nothing but rounding.
    Z = X - X.mean(axis=0) if problem.fit_intercept else X.copy()
    scale = np.sqrt(np.mean(Z * Z, axis=0))
    varies = scale > 1e-12 * np.abs(X).max(axis=0, initial=1e-300)
    Z, scale = Z[:, varies] / scale[varies], scale[varies]
    # One row for each of y (x'v + b) - 1 + s >= 0; v are weights of scaled columns, and b is not regularised.
    A = np.column_stack((Z, np.ones((y.shape[0], int(problem.fit_intercept))))) * y[:, None]
    path = _Path(A, upper, np.append(scale**-2.0, np.zeros(int(problem.fit_intercept))), y, options)
    steps, coef = 0, np.zeros(problem.n_rows)
    try:
        while steps < options.steps and not budget.exhausted and path.step():
            steps += 1
            budget.tell("interior point", steps, path.primal, path.gap, path.gap)
    except KeyboardInterrupt:
        budget.interrupted = True
    coef[used] = y * path.a
    if path.gap <= options.near:
        low, high = path.at_bounds()
        a = np.where(low, 0.0, np.where(high, upper, path.a))
        coef[used] = y * _between(Z * scale, y, upper, a, np.flatnonzero(~(low | high)), problem.fit_intercept)
    return coef, steps, path.gap


class _Path:
    """A point near the central path: weights p, dual variables a, and the slacks of what the two are bounded by.

    Minimise `p' diag(ridge) p / 2 + upper' s` with `A p + s - z = 1`, z and s at least 0, and multipliers a within
    [0, upper]: `z a` and `s (upper - a)` go to 0 together.
    """

    def __init__(self, A: Floats, upper: Floats, ridge: Floats, y: Floats, options: InteriorPointOptions) -> None:
        self._A, self._upper, self._ridge, self._options = A, upper, ridge, options
        # Dual variables in the middle, and less of the heavier class, so that both sum to the same.
        of_y = np.array([upper[y > 0.0].sum(), upper[y < 0.0].sum()])
        share = of_y.min() / np.maximum(of_y, 1e-300) if of_y.min() > 0.0 else np.ones(2)
        self.a = 0.5 * upper * np.where(y > 0.0, share[0], share[1])
        self.p, self._z, self._s = np.zeros(A.shape[1]), np.full(y.shape[0], 0.5), np.full(y.shape[0], 1.5)
        self.primal, self.gap = np.inf, 1.0

    def at_bounds(self) -> tuple[Bools, Bools]:
        """Which dual variables are nearer to a bound, by its share, than the slack of its other side is to 0.

        Where none comes near its upper bound, as of rows that are parted, shares are those of the largest one.
        """
        share = self.a / self._upper
        low, high = self.a / np.minimum(self._upper, self.a.max(initial=1e-300)), 1.0 - share
        return (low < self._z) & (share < 0.5), (high < self._s) & (share >= 0.5)

    def step(self) -> bool:
        """One step; False where the path has ended, or rounding allows no more."""
        A, a, z, s, upper, ridge = self._A, self.a, self._z, self._s, self._upper, self._ridge
        margins, pull = A @ self.p, A.T @ a
        self.primal = float(0.5 * ridge @ self.p**2 + upper @ np.maximum(0.0, 1.0 - margins))
        free = ridge > 0.0
        dual = float(a.sum() - 0.5 * np.sum(pull[free] ** 2 / ridge[free]))
        self.gap = abs(relative_gap(self.primal, dual))
        if self.gap <= self._options.gap and np.abs(pull[~free]).sum() <= 1e-9 * a.sum():
            return False
        room = upper - a
        # What is left of both conditions, and the matrix of the step in p that is left when all else is eliminated.
        stationary, primal = ridge * self.p - pull, margins - 1.0 + s - z
        width = z / a + s / room
        half = A / np.sqrt(width)[:, None]
        matrix = half.T @ half
        matrix[np.diag_indices_from(matrix)] += ridge
        unit = 1.0 / np.sqrt(matrix.diagonal())
        try:
            factor = cho_factor(matrix * unit[:, None] * unit)
        except (LinAlgError, ValueError):  # a number that is not finite, or nothing but rounding is left
            return False

        def towards(of_z: Floats, of_s: Floats) -> tuple[Floats, Floats, Floats, Floats]:
            left = of_z / a - of_s / room - primal
            dp = unit * cho_solve(factor, unit * (A.T @ (left / width) - stationary))
            da = (left - A @ dp) / width
            return dp, da, (of_z - z * da) / a, (of_s + s * da) / room

        def reach(da: Floats, dz: Floats, ds: Floats) -> float:
            ways = ((a, da), (room, -da), (z, dz), (s, ds))
            return min(float(np.min(-x[dx < 0.0] / dx[dx < 0.0], initial=np.inf)) for x, dx in ways)

        # Where the straight way to the end leads tells how far to go towards the middle instead.
        _, da, dz, ds = towards(-z * a, -s * room)
        t, now = min(1.0, reach(da, dz, ds)), z @ a + s @ room
        then = (z + t * dz) @ (a + t * da) + (s + t * ds) @ (room - t * da)
        middle = (then / now) ** 3 * now / (2 * a.shape[0])
        dp, da, dz, ds = towards(middle - z * a - dz * da, middle - s * room + ds * da)
        t = min(1.0, self._options.short * reach(da, dz, ds))
        if not np.isfinite(dp).all() or not np.isfinite(t) or t <= 0.0:
            return False
        self.p, self.a, self._z, self._s = self.p + t * dp, a + t * da, z + t * dz, s + t * ds
        # Rounding must not put a variable on its bound, where the next step would divide by 0.
        inside = (self.a > 0.0) & (self.a < upper) & (self._z > 0.0) & (self._s > 0.0)
        return bool(inside.all())


def _between(X: Floats, y: Floats, upper: Floats, a: Floats, free: np.ndarray, fit_intercept: bool) -> Floats:
    """Dual variables whose `free` ones are such that their rows lie on the margin, as far as the bounds allow."""
    if not 0 < free.shape[0] <= 4 * (X.shape[1] + 1):  # many alike, of which any are as good as others
        return a
    coef, some = y * a, X[free]
    k = free.shape[0]
    size = max(float(np.einsum("ij,ij->", some, some)) / k, 1e-300)
    system = np.zeros((k + 1, k + 1))
    system[:k, :k] = some @ some.T / size
    system[k, :k] = system[:k, k] = float(fit_intercept)
    if not np.isfinite(system).all():
        return a
    inverse = np.linalg.pinv(system, rcond=1e-14, hermitian=True)
    for _ in range(3):  # what the first solution is off by, by rounding, is solved for again
        wanted = np.append((y[free] - some @ (X.T @ coef)) / size, -coef.sum() if fit_intercept else 0.0)
        coef[free] += (inverse @ wanted)[:k]
    return np.clip(y * coef, 0.0, upper)
