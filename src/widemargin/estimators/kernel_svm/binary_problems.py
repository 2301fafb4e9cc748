"""The steps of training a kernel SVM, from checked rows to the solutions of its binary problems.

classes -> binary problems -> kernel rows, shared -> a solver for each -> solutions
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats, Ints, Matrix
from widemargin.kernels.backend import squared_norms
from widemargin.kernels.functions import Kernel, Spectrum, refuse_indefinite, sampled_spectrum
from widemargin.kernels.partitioned import PartitionedRows
from widemargin.kernels.rows import MEGABYTE, KernelRows
from widemargin.solvers.base import Budget, Progress, Status
from widemargin.solvers.kernel_svm.automatic import NEED_NORMS, Chosen, choose
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, KernelResult, WholeMatrix
from widemargin.solvers.kernel_svm.stopping import HoldOutOptions

__all__ = ["Solved", "Split", "Task", "Training", "definiteness", "kernel_rows", "splits", "train"]


@dataclass(frozen=True)
class PrecisionOptions:
    """Where "auto" computes Gaussian values in single precision.

    Attributes
    ----------
    reach : float, default=100
        Largest gamma |x|^2 up to which these values are right to about 1e-5.
    rows : int, default=5000
        Fewer rows are solved at once in either precision.
    tol : float, default=1e-3
        A smaller tolerance would see the rounding.
    """

    reach: float = 100.0
    rows: int = 5000
    tol: float = 1e-3


SINGLE = PrecisionOptions()
"""The ones in force."""


class Split(NamedTuple):
    """A binary problem: the rows of class `positive` against those of `negative` (None: all the others).

    Attributes
    ----------
    positive : int
    negative : int or None
    """

    positive: int
    negative: int | None


@dataclass(frozen=True)
class Training:
    """Rows to train on.

    Attributes
    ----------
    rows : KernelRows
    codes : ndarray of int, shape (n,)
        Class of each row.
    upper : ndarray of shape (n,)
        C times the weights; 0 for rows that are held out.
    n_columns : int
    spatial : bool
        Whether the rows can be put in spatial order.
    """

    rows: KernelRows
    codes: Ints
    upper: Floats
    n_columns: int
    spatial: bool


@dataclass(frozen=True)
class Task:
    """How the binary problems are solved."""

    solver: str
    tol: float | None
    fit_intercept: bool
    max_iter: int
    cache_size: float
    shrinking: bool
    seed: int


@dataclass(frozen=True)
class Solved:
    """The solution of a binary problem.

    Attributes
    ----------
    split : Split
    index : ndarray of int64, shape (m,)
        The rows of the problem, as numbers of training rows.
    result : KernelResult
    chosen : Chosen
    capacity : int
        Kernel rows that the cache held.
    """

    split: Split
    index: Ints
    result: KernelResult
    chosen: Chosen
    capacity: int

    @property
    def support(self) -> Ints:
        """Training rows whose coefficient is not 0."""
        return self.index[np.flatnonzero(self.result.coef)]


def splits(n_classes: int, multi_class: str) -> tuple[Split, ...]:
    """The binary problems, in the order of scikit-learn; of two classes the second is positive."""
    if n_classes == 2:
        return (Split(1, 0),)
    if multi_class == "ovr":
        return tuple(Split(c, None) for c in range(n_classes))
    return tuple(Split(i, j) for i in range(n_classes) for j in range(i + 1, n_classes))


def kernel_rows(
    kernel: Kernel, X: Matrix, *, cache_size: float, backend: str, precision: str = "auto", tol: float | None = 0.0
) -> KernelRows:
    """Rows of the kernel matrix, in a precision that suits.

    "auto" is that of X, but single precision for a Gaussian kernel of many rows that are solved to a `tol` of 1e-3 or
    more (LIBSVM keeps all values so), and double precision for rows far from the origin, where what the norms lose by
    rounding would be seen.
    """
    if precision != "auto":
        dtype: type[np.floating] = np.float32 if precision == "single" else np.float64
    else:
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        if kernel.name == "rbf" and X.shape[0]:
            enough = dtype == np.float32 or (X.shape[0] >= SINGLE.rows and (tol is None or tol >= SINGLE.tol))
            near = enough and kernel.gamma * float(squared_norms(X).max()) <= SINGLE.reach
            dtype = np.float32 if near else np.float64
    if backend == "dask":
        return PartitionedRows(kernel, X, cache_size=cache_size, dtype=dtype)
    return KernelRows(kernel, X, cache_size=cache_size, dtype=dtype, backend=backend)


def definiteness(training: Training, solver: str) -> Spectrum | None:
    """What the eigenvalues on some of the rows say about the kernel; None where it is known.

    Raises
    ------
    KernelError
        If a user's function is not symmetric, or the solver needs a kernel that is positive semi-definite.
    """
    training.rows.check_function()
    spectrum = sampled_spectrum(training.rows)
    if solver in NEED_NORMS:
        refuse_indefinite(spectrum)
    return spectrum


def train(
    training: Training, parts: tuple[Split, ...], task: Task, budget: Budget, *, positive: bool = True
) -> list[Solved]:
    """Solve the binary problems one after the other.

    Several problems use one kernel matrix: computed once where it fits the cache, else row by row, through the cache
    of all (one against the rest: the rows of one problem serve the next) or of the two classes' rows alone.
    """
    matrix: KernelMatrix = training.rows
    spatial = training.spatial and (task.solver != "auto" or task.tol is None or task.tol >= SINGLE.tol)
    n, stored = training.rows.n_rows, False
    fits = n * n * training.rows.dtype.itemsize <= task.cache_size * MEGABYTE
    if len(parts) > 1 and fits and task.solver != "spatial-dual":
        matrix, stored = WholeMatrix(training.rows.full(), training.rows.evaluations), True
    solved = []
    for number, part in enumerate(parts):
        index = np.arange(n)
        if part.negative is not None:
            index = np.flatnonzero((training.codes == part.positive) | (training.codes == part.negative))
        y = np.where(training.codes[index] == part.positive, 1.0, -1.0)
        rows = matrix if index.shape[0] == n else matrix.subset(index)
        problem = KernelProblem(rows, y, training.upper[index], task.fit_intercept)
        chosen = choose(
            task.solver, n_rows=index.shape[0], n_columns=training.n_columns, stored=stored,
            reach=partial(_reach, problem.rows) if spatial else None, hold_out=task.tol is None, positive=positive,
        )  # fmt: skip
        share = _Share(budget, len(parts) - number, task.max_iter)
        if chosen.name == "smo" and len(parts) == 1:  # LIBSVM's first class is the positive one, also of two classes
            mirrored = share.solve(chosen, replace(problem, y=-problem.y), task, positive)
            result = replace(mirrored, coef=-mirrored.coef, intercept=-mirrored.intercept)
        else:
            result = share.solve(chosen, problem, task, positive)
        solved.append(Solved(part, index, result, chosen, problem.rows.capacity))
    return solved


def _reach(rows: KernelMatrix) -> float:
    """Share of the pairs among some rows whose kernel value is not left out in spatial order."""
    some = np.linspace(0, rows.n_rows - 1, min(rows.n_rows, 256)).astype(np.int64)
    return float(np.mean(rows.block(some, some) > 2.0**-22))


class _Share:
    """The share of a budget that one of the remaining problems gets, with its limit of steps."""

    def __init__(self, budget: Budget, remaining: int, max_iter: int) -> None:
        self._whole, self._most, self._steps = budget, max_iter, -1
        self._limited = self._counts = False
        seconds = budget.seconds
        if seconds is not None:
            seconds = budget.elapsed + max(0.0, seconds - budget.elapsed) / remaining
        self.part = replace(budget, seconds=seconds, callbacks=(*budget.callbacks, self._count))

    def solve(self, chosen: Chosen, problem: KernelProblem, task: Task, positive: bool) -> KernelResult:
        """Solve a problem within the share."""
        self._counts = "max_iter" not in chosen.options
        tol = HoldOutOptions.without_rows if task.tol is None and problem.upper.all() else task.tol
        solve = partial(
            chosen.solve, problem, tol=tol, budget=self.part, seed=task.seed, shrinking=task.shrinking,
            max_iter=max(1, self._most) if self._most >= 0 else None, positive=positive,
        )  # fmt: skip
        try:
            result = solve()
        except KeyboardInterrupt:  # between the solver's own loops: what it had is lost
            self.part.interrupted = True
            result = solve()
        self._whole.interrupted |= self.part.interrupted
        self._whole.stopped |= self.part.stopped and not self._limited
        if result.status == Status.STOPPED and self._limited:
            return replace(result, status=Status.MAX_ITER)
        return result

    def _count(self, progress: Progress) -> bool:
        self._steps += 1
        done = self._counts and 0 <= self._most <= max(self._steps, progress.iteration)
        self._limited |= done and not self.part.stopped
        return done
