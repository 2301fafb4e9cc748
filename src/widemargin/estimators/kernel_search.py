"""C and gamma of a kernel SVM by cross-validation on a subsample: `kernel_search`.

    for gamma in gammas:
        K = the kernel matrix of the subsample                        # once for all folds and all C
        for each fold: for C in increasing order:
            solve on the other folds, from the solution of the last C

Rows of the fold have upper bound 0, so they take no part, and their scores come with the solution.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.utils import check_random_state, check_X_y, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from widemargin._threads import limit_threads
from widemargin.estimators import _kernel_svc_layout as layout
from widemargin.estimators._kernel_svc_fit import Split, kernel_rows, splits
from widemargin.estimators._progress import watchers
from widemargin.estimators.kernel_svc import KernelSVC
from widemargin.exceptions import DataError, MarginConvergenceWarning
from widemargin.goals._warn import warn
from widemargin.kernels.functions import Kernel, check_precomputed, resolve_kernel
from widemargin.linalg.cells import Floats, Ints
from widemargin.solvers import working_set
from widemargin.solvers.base import Budget, Progress
from widemargin.solvers.kernel_svm import KernelProblem
from widemargin.solvers.whole_matrix import WholeMatrix

__all__ = ["CS", "GAMMAS", "Cell", "KernelSearch", "kernel_search"]

CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Default C."""

GAMMAS = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)
"""Default gamma, in units of `gamma="scale"`."""

TOL = 0.02
"""Violation up to which the models of the search are solved; their errors do not need more."""

_NO_CACHE = 1e9  # the whole matrix is computed, so no row needs to fit
_NEW_ROWS = 10_000  # rows that the error of the best model is measured on

Chosen = tuple[float, float | None]


class Cell(NamedTuple):
    """What was measured at one C and gamma: the cross-validated error, and its standard error."""

    C: float
    gamma: float | None
    error: float
    standard_error: float
    support: float


@dataclass(frozen=True)
class KernelSearch:
    """The result of `kernel_search`.

    Attributes
    ----------
    best_params : dict
        "C", and "gamma" where the kernel has one: for `KernelSVC.set_params`.
    best_estimator : KernelSVC
        The model with these parameters, not fitted.
    cells : tuple of Cell
        In the order of measurement; `support` is the mean share of training rows that are support vectors.
    new_error, new_standard_error : float or None
        Error of the best parameters, trained on the subsample, on rows that the search did not see; None where the
        subsample was all there is. The least of many cross-validated errors is too good; this one is not.
    n_rows : int
        Rows of the subsample.
    status : str
        "converged" (all cells), "time_limit", "stopped" (by a callback) or "interrupted".
    evaluations : int
        Kernel values computed.
    seconds : float
    """

    best_params: dict[str, float]
    best_estimator: KernelSVC
    cells: tuple[Cell, ...]
    new_error: float | None
    new_standard_error: float | None
    n_rows: int
    status: str
    evaluations: int
    seconds: float

    def __str__(self) -> str:
        gammas = sorted({cell.gamma for cell in self.cells if cell.gamma is not None})
        columns: list[float | None] = [*gammas] or [None]
        found = {(cell.C, cell.gamma): cell for cell in self.cells}
        heads = ["all" if gamma is None else f"gamma={gamma:.3g}" for gamma in columns]
        lines = [" ".join([f"{'error':>10}", *(f"{head:>16}" for head in heads)])]
        for C in sorted({cell.C for cell in self.cells}):
            shown = (found.get((C, gamma)) for gamma in columns)
            values = ("" if cell is None else f"{cell.error:.4f} ± {cell.standard_error:.4f}" for cell in shown)
            lines.append(" ".join([f"{f'C={C:g}':>10}", *(f"{value:>16}" for value in values)]))
        best = ", ".join(f"{name}={value:.4g}" for name, value in self.best_params.items())
        new = "" if self.new_error is None else f"; on new rows {self.new_error:.4f} ± {self.new_standard_error:.4f}"
        return "\n".join([*lines, f"best: {best}{new}"])


def kernel_search(
    model: KernelSVC,
    X: Any,
    y: Any,
    *,
    Cs: Sequence[float] = CS,
    gammas: Sequence[float] | None = None,
    n_rows: int = 2000,
    n_folds: int = 3,
    time_budget: float | None = None,
    callbacks: Sequence[Callable[[Progress], Any]] | None = None,
    on_interrupt: str = "raise",
    verbose: int = 0,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> KernelSearch:
    """Choose C and gamma of a `KernelSVC` by cross-validation on a subsample.

    Every kernel matrix serves all folds and all C, which are solved in increasing order from each other's solutions.

    Parameters
    ----------
    model : KernelSVC
        Its kernel, degree, coef0, class weights, intercept and way with many classes are used; C and gamma are not.
    X : array-like or CSR matrix of shape (n, d)
        With a precomputed kernel the values of all pairs.
    y : array-like of shape (n,)
    Cs : sequence of float, default=(0.1, 1, 10, 100, 1000)
    gammas : sequence of float, optional
        By default 1/64, 1/16, 1/4, 1 and 4 times `gamma="scale"`. Without effect for kernels that have none.
    n_rows : int, default=2000
        Rows of the subsample, drawn with the shares of the classes; raising it costs time quadratically and memory
        `8e-6 n_rows^2` MB in float64. C is not adjusted: a good C of few rows is a good or somewhat large one of many.
    n_folds : int, default=3
    time_budget : float, optional
        Seconds after which the best cell so far is taken.
    callbacks : sequence of callable, optional
        Called with a `Progress` after each cell: `objective` is its error, `gap` the least so far; returning True ends
        the search.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C: raise it again, or return what is known by then.
    verbose : int, default=0
        1 logs every cell to the logger "widemargin".
    n_jobs : int, optional
        Threads; None means 1.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    KernelSearch

    Raises
    ------
    DataError
        If a class has fewer rows in the subsample than there are folds.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import KernelSVC, kernel_search
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> found = kernel_search(KernelSVC(), X, y, random_state=0)
    >>> clf = found.best_estimator.fit(X, y)
    """
    started = time.perf_counter()
    search = _Search(model, X, y, n_rows, n_folds, check_random_state(random_state))
    Cs = sorted({float(C) for C in Cs})
    if not Cs or not all(0.0 < C < math.inf for C in Cs):
        raise DataError(f"Cs={Cs!r} must hold numbers > 0.")
    kernels = search.kernels(gammas)
    budget = Budget(time_budget, watchers(callbacks, verbose))
    cells: list[Cell] = []
    status = "converged"
    with limit_threads(n_jobs):
        try:
            for cell in search.cells(kernels, Cs, budget):
                cells.append(cell)
                least = min(cell.error for cell in cells)
                budget.tell(f"C={cell.C:g} gamma={cell.gamma}", len(cells), cell.error, least, cell.standard_error)
                if budget.exhausted:
                    status = "stopped" if budget.stopped else "time_limit"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
            if on_interrupt == "raise" or not cells:
                raise
        if len(cells) < len(kernels) * len(Cs):
            warn(
                f"the search ended after {len(cells)} of {len(kernels) * len(Cs)} cells ({status}): the best so far "
                "is taken.",
                MarginConvergenceWarning,
            )
        best = min(cells, key=lambda cell: (cell.error, cell.C, cell.gamma or 0.0))
        params = {"C": best.C} | ({} if best.gamma is None else {"gamma": best.gamma})
        chosen = clone(model).set_params(**params)
        new = search.on_new_rows(chosen)
    return KernelSearch(
        params, chosen, tuple(cells), *new, search.n_rows, status, search.evaluations, time.perf_counter() - started
    )


class _Search:
    """The subsample, its folds, and the rows that are left for an honest error."""

    def __init__(self, model: KernelSVC, X: Any, y: Any, n_rows: int, n_folds: int, rng: Any) -> None:
        X, y = check_X_y(X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
        check_classification_targets(y)
        self._model, self._X, self._y = model, X, y
        self._classes, codes = np.unique(y, return_inverse=True)
        if self._classes.shape[0] < 2:
            raise DataError(f"y holds one class only, {self._classes.tolist()[0]!r}; a search needs at least two.")
        chosen, self._rest = np.arange(codes.shape[0]), np.empty(0, dtype=np.intp)
        if n_rows < codes.shape[0]:
            chosen, rest = train_test_split(chosen, train_size=n_rows, stratify=codes, random_state=rng)
            chosen, self._rest = np.sort(chosen), rest[:_NEW_ROWS]
        smallest = int(np.bincount(codes[chosen], minlength=self._classes.shape[0]).min())
        if smallest < n_folds:
            raise DataError(
                f"the subsample of {chosen.shape[0]} rows has {smallest} of the rarest class and there are {n_folds} "
                "folds; raise n_rows, or lower n_folds."
            )
        self.n_rows, self.evaluations = int(chosen.shape[0]), 0
        self._chosen, self._codes = chosen, codes[chosen]
        weight = compute_class_weight(model.class_weight, classes=self._classes, y=y)
        self._weight: Floats = np.asarray(weight, dtype=np.float64)[self._codes]
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=rng).split(chosen, self._codes)
        self._folds: list[Ints] = [held for _, held in folds]
        self._splits = splits(self._classes.shape[0], model.multi_class)

    def kernels(self, gammas: Sequence[float] | None) -> list[tuple[Kernel, float | None]]:
        """The kernels to try, with their gamma; one without gamma where the kernel has none."""
        model, rows = self._model, self._part(self._chosen)
        fixed: dict[str, Any] = {"degree": model.degree, "coef0": model.coef0}
        if callable(model.kernel) or model.kernel in ("linear", "precomputed"):
            return [(resolve_kernel(model.kernel, rows, **fixed), None)]
        scale = resolve_kernel(model.kernel, rows, gamma="scale", **fixed).gamma
        tried = [factor * scale for factor in GAMMAS] if gammas is None else sorted({float(value) for value in gammas})
        return [(resolve_kernel(model.kernel, rows, gamma=value, **fixed), value) for value in tried]

    def cells(
        self, kernels: Sequence[tuple[Kernel, float | None]], Cs: Sequence[float], budget: Budget
    ) -> Iterator[Cell]:
        """Measure all cells, those of one kernel together."""
        rows, inner = self._part(self._chosen), Budget(budget.seconds, started=budget.started)
        for kernel, gamma in kernels:
            computed = kernel_rows(
                kernel, rows, cache_size=_NO_CACHE, backend=self._model.backend, precision=self._model.precision,
                tol=TOL,
            )  # fmt: skip
            matrix = WholeMatrix(computed.full())
            self.evaluations += computed.evaluations
            parts = [self._parts(matrix, held) for held in self._folds]
            for C in Cs:
                missed = np.zeros(self.n_rows, dtype=bool)
                used = [
                    self._one_fold(matrix, fold, held, C, missed, inner)
                    for fold, held in zip(parts, self._folds, strict=True)
                ]
                if inner.interrupted:
                    raise KeyboardInterrupt
                error = float(missed.mean())
                spread = math.sqrt(error * (1.0 - error) / self.n_rows)
                yield Cell(C, gamma, error, spread, float(np.mean(used)))

    def on_new_rows(self, model: KernelSVC) -> tuple[float | None, float | None]:
        """Error of a model trained on the subsample, on rows that are not in it, and its standard error."""
        if not self._rest.shape[0]:
            return None, None
        fitted = clone(model).set_params(tol=TOL).fit(self._part(self._chosen), self._y[self._chosen])
        new = self._X[self._rest]
        new = new[:, self._chosen] if model.kernel == "precomputed" else new
        error = float(np.mean(fitted.predict(new) != self._y[self._rest]))
        return error, math.sqrt(error * (1.0 - error) / self._rest.shape[0])

    def _part(self, rows: npt.NDArray[np.intp]) -> Any:
        if self._model.kernel == "precomputed":
            return check_precomputed(self._X)[np.ix_(rows, rows)]
        return self._X[rows]

    def _parts(self, matrix: WholeMatrix, held: Ints) -> "list[_Part]":
        """The binary problems of a fold."""
        free = self._weight.copy()
        free[held] = 0.0
        return [_Part(matrix, split, self._codes, free, self._model.fit_intercept) for split in self._splits]

    def _one_fold(
        self, matrix: WholeMatrix, parts: "list[_Part]", held: Ints, C: float, missed: npt.NDArray[np.bool_],
        budget: Budget,
    ) -> float:  # fmt: skip
        """Solve at a C, mark the held rows that are missed, and return the share of support vectors."""
        coef, intercept = np.zeros((self.n_rows, len(parts))), np.empty(len(parts))
        for number, part in enumerate(parts):
            coef[part.index, number], intercept[number] = part.solve(C, budget)
        scores = matrix.block(held) @ coef + intercept
        k = self._classes.shape[0]
        if k == 2:
            found = (scores[:, 0] >= 0.0).astype(np.int64)
        elif self._model.multi_class == "ovr":
            found = np.argmax(scores, axis=1)
        else:
            found = layout.votes(scores, k)
        missed[held] = found != self._codes[held]
        return float(np.count_nonzero(coef.any(axis=1)) / (self.n_rows - held.shape[0]))


class _Part:
    """A binary problem of a fold on its way to larger C."""

    def __init__(self, matrix: WholeMatrix, split: Split, codes: Ints, weight: Floats, fit_intercept: bool) -> None:
        mine = np.ones(codes.shape[0], dtype=bool)
        if split.negative is not None:
            mine = (codes == split.positive) | (codes == split.negative)
        self.index = np.flatnonzero(mine & (weight > 0.0))
        self._rows = matrix.subset(self.index)
        self._weight, self._fit_intercept = weight[self.index], fit_intercept
        self._y = np.where(codes[self.index] == split.positive, 1.0, -1.0)
        self._coef: Floats | None = None

    def solve(self, C: float, budget: Budget) -> tuple[Floats, float]:
        """Coefficients of the rows `index`, and intercept, at C."""
        problem = KernelProblem(self._rows, self._y, C * self._weight, self._fit_intercept)
        result = working_set.solve(problem, tol=TOL, start=self._coef, budget=budget)
        self._coef = result.coef
        return result.coef, result.intercept
