"""C (or nu) and gamma of a kernel SVM by cross-validation on a subsample: `kernel_search`.

    for gamma in gammas:
        K = the kernel matrix of the subsample                        # once for all folds and all C
        for each fold: for C in increasing order:
            solve on the other folds, from the solution of the last C

Every solution has its nu, the mean hinge loss divided by |w| (`batch_perceptron.nu_path`). With nus in the place of Cs
a fold goes up in C to each of them, and takes the SVM that has this nu.
"""

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _get_feature_names

from widemargin._threads import limit_threads
from widemargin._typing import Column, Features, Floats, Ints, Matrix, Seed
from widemargin.distributed.workers import Deadline, is_serial, side_by_side
from widemargin.estimators._binary import checked_rows, refuse_one_class
from widemargin.estimators._options import bar, budget_of
from widemargin.estimators.feature_scales import DISTANCES, warn_of_scales
from widemargin.estimators.kernel_svm import multiclass
from widemargin.estimators.kernel_svm.binary_problems import kernel_rows, splits
from widemargin.estimators.kernel_svm.kernel_model import class_weights, positive_numbers
from widemargin.estimators.kernel_svm.kernel_svc import KernelSVC
from widemargin.estimators.kernel_svm.sbp_classifier import SBPClassifier
from widemargin.exceptions import CapabilityError, DataError, KernelWarning, MarginConvergenceWarning, warn
from widemargin.kernels.functions import Kernel, check_precomputed, resolve_kernel
from widemargin.solvers.base import Budget, Progress
from widemargin.solvers.kernel_svm.batch_perceptron.nu_path import Duals, NuSearch
from widemargin.solvers.kernel_svm.problem import KernelProblem, WholeMatrix


@dataclass(frozen=True)
class SearchOptions:
    """The default grid, and how exactly its cells are solved.

    Attributes
    ----------
    Cs : tuple of float
        Default C: five decades, as most good ones lie within.
    gammas : tuple of float
        Default gamma, in units of `gamma="scale"`.
    duals : NuSearch
        A violation of 0.02 is enough: the errors of the models do not need more; a nu within 2% of the one that is
        asked for is as good; and one that needs a C K(x, x) above 1e5 (or below one over this) has no cell: it would
        take long, and overfit.
    new_rows : int, default=10,000
        Most rows that the error of the best model is measured on: its standard error is then below half a percent.
    """

    Cs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)
    gammas: tuple[float, ...] = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)
    duals: NuSearch = field(default_factory=lambda: NuSearch(tol=0.02, near=0.02, widest=1e5))
    new_rows: int = 10_000


SEARCH = SearchOptions()
"""The ones in force."""


class Cell(NamedTuple):
    """What was measured at one C (or nu) and gamma.

    Attributes
    ----------
    C : float
        Where nu was given: the geometric mean over the folds.
    gamma : float or None
    error, standard_error : float
        Cross-validated.
    support : float
        Mean share of the training rows that are support vectors.
    nu : float
        Where C was given: mean hinge loss divided by |w| at the optimum, in the mean over folds and binary problems;
        infinite where w = 0. Below about 1e-3 it is rough: the solutions are good to a violation of 0.02.
    """

    C: float
    gamma: float | None
    error: float
    standard_error: float
    support: float
    nu: float


@dataclass(frozen=True)
class KernelSearch:
    """The result of `kernel_search`.

    Attributes
    ----------
    best_params : dict
        "C" (of an `SBPClassifier` "nu"), and "gamma" where the kernel has one: for `set_params`.
    best_estimator : KernelSVC or SBPClassifier
        The model with these parameters, not fitted.
    cells : tuple of Cell
        In the order of measurement. A nu that no SVM of reasonable C has with some gamma has no cell there.
    given : {"C", "nu"}
        Which of the two was a grid; the other one is an output.
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
    best_estimator: KernelSVC | SBPClassifier
    cells: tuple[Cell, ...]
    given: str
    new_error: float | None
    new_standard_error: float | None
    n_rows: int
    status: str
    evaluations: int
    seconds: float

    def __str__(self) -> str:
        gammas = sorted({cell.gamma for cell in self.cells if cell.gamma is not None})
        columns: list[float | None] = [*gammas] or [None]
        by_place = {(getattr(cell, self.given), cell.gamma): cell for cell in self.cells}
        heads = ["all" if gamma is None else f"gamma={gamma:.3g}" for gamma in columns]
        lines = [" ".join([f"{'error':>10}", *(f"{head:>16}" for head in heads)])]
        for value in sorted({value for value, _ in by_place}):
            shown = (by_place.get((value, gamma)) for gamma in columns)
            texts = ("" if cell is None else f"{cell.error:.4f} ± {cell.standard_error:.4f}" for cell in shown)
            lines.append(" ".join([f"{f'{self.given}={value:.4g}':>10}", *(f"{text:>16}" for text in texts)]))
        best = ", ".join(f"{name}={value:.4g}" for name, value in self.best_params.items())
        new = "" if self.new_error is None else f"; on new rows {self.new_error:.4f} ± {self.new_standard_error:.4f}"
        cell, output = self.best_cell, "C" if "nu" in self.best_params else "nu"
        return "\n".join([*lines, f"best: {best} ({output}={getattr(cell, output):.3g}){new}"])

    @property
    def best_cell(self) -> Cell:
        """The cell of `best_params`: that of least error."""
        return _least(self.cells)


def kernel_search(
    model: KernelSVC | SBPClassifier,
    X: Features,
    y: Column,
    *,
    Cs: Sequence[float] | None = None,
    nus: Sequence[float] | None = None,
    gammas: Sequence[float] | None = None,
    n_rows: int = 2000,
    n_folds: int = 3,
    time_budget: float | None = None,
    callbacks: Sequence[Callable[[Progress], object]] | None = None,
    on_interrupt: str = "raise",
    verbose: int = 0,
    n_jobs: int | None = None,
    workers: Any = None,
    random_state: Seed = None,
) -> KernelSearch:
    """Choose C (or nu) and gamma of a kernel SVM by cross-validation on a subsample.

    Every kernel matrix serves all folds and all C, which are solved in increasing order from each other's solutions.
    Each optimum has a nu, so a grid of C gives the nu of every cell, and a grid of nus (less than twice the work)
    its C. nu is a mean slack, and does not depend on the number of rows as C does.

    Parameters
    ----------
    model : KernelSVC or SBPClassifier
        Its kernel, degree, coef0, class weights, intercept and way with many classes are used; C, nu and gamma are not.
        All cells are solved by the working-set dual; the class of the model decides what the best one is called.
    X : array-like or CSR matrix of shape (n, d)
        With a precomputed kernel the values of all pairs.
    y : array-like of shape (n,)
    Cs : sequence of float, optional
        By default 0.1, 1, 10, 100 and 1000.
    nus : sequence of float, optional
        In the place of Cs; with two classes only.
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
        1 logs every cell to the logger "widemargin", and shows a bar where stderr is a terminal.
    n_jobs : int, optional
        Threads; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.
    workers : int or distributed.Client, optional
        Gammas are searched side by side: by so many processes, or on a Dask cluster; None: as `joblib.parallel_config`
        says. Cells are the same; callbacks are told of those of a gamma when it is done.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    KernelSearch

    Raises
    ------
    DataError
        If a class has fewer rows in the subsample than there are folds, or no cell has one of the nus; if a value of a
        grid is not positive, or n_folds or n_rows below 2.
    CapabilityError
        If the model is another one; if both Cs and nus are given, or nus with more than two classes.

    Warns
    -----
    KernelWarning
        Once, where the scales of some features drown the others.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import KernelSVC, kernel_search
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> found = kernel_search(KernelSVC(), X, y, random_state=0)
    >>> clf = found.best_estimator.fit(X, y)
    """
    started = time.perf_counter()
    if not isinstance(model, KernelSVC | SBPClassifier):
        raise CapabilityError(
            f"kernel_search needs a KernelSVC or an SBPClassifier, not {type(model).__name__}; of a pipeline give the "
            "last step and transformed rows: kernel_search(pipe[-1], pipe[:-1].fit_transform(X), y)."
        )
    numbers: dict[str, object] = {"n_folds": n_folds, "n_rows": n_rows}
    for name, value in numbers.items():
        if not isinstance(value, Integral) or value < 2:
            raise DataError(f"{name}={value!r} must be a whole number >= 2.")
    search = _Search(model, X, y, n_rows, n_folds, check_random_state(random_state))
    grid = search.grid(Cs, nus)
    kernels = search.kernels(gammas)
    warn_of_scales(search, kernels[0][0], search.rows)
    total = len(kernels) * len(grid.values)
    with limit_threads(n_jobs), bar(total, verbose) as show:
        budget = budget_of(time_budget, callbacks, verbose, show)
        cells: list[Cell] = []
        done, status = 0, "converged"
        try:
            for done, (stage, cell) in enumerate(search.cells(kernels, grid, budget, workers), 1):
                cells += [] if cell is None else [cell]
                error, spread = (math.nan, math.nan) if cell is None else (cell.error, cell.standard_error)
                budget.tell(stage, done, error, min((cell.error for cell in cells), default=math.nan), spread)
                if budget.exhausted:
                    status = "stopped" if budget.stopped else "time_limit"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
    if status == "interrupted" and (on_interrupt == "raise" or not cells):
        raise KeyboardInterrupt
    if done < total:
        warn(
            f"the search ended after {done} of {total} cells ({status}): the best so far is taken.",
            MarginConvergenceWarning,
        )
    if not cells:
        raise DataError(
            f"none of the nus {list(grid.values)} is that of an SVM with these gammas and a C K(x, x) up to "
            f"{SEARCH.duals.widest:.0e}; search by Cs, whose cells say which nus there are."
        )
    best = _least(cells)
    params = {"nu": best.nu} if isinstance(model, SBPClassifier) else {"C": best.C}
    params |= {} if best.gamma is None else {"gamma": best.gamma}
    chosen = clone(model).set_params(**params)
    with limit_threads(n_jobs), warnings.catch_warnings():  # the features were looked at before
        warnings.filterwarnings("ignore", message=f".* {DISTANCES} ", category=KernelWarning)
        new_error, new_spread = search.on_new_rows(chosen)
    return KernelSearch(
        params, chosen, tuple(cells), grid.name, new_error, new_spread, search.n_rows, status, search.evaluations,
        time.perf_counter() - started,
    )  # fmt: skip


def _least(cells: Sequence[Cell]) -> Cell:
    """The cell of least error; of equals that of the smallest C, then of the smallest gamma."""
    return min(cells, key=lambda cell: (cell.error, cell.C, cell.gamma or 0.0))


class _Grid(NamedTuple):
    """The values of C or nu, in the order of increasing C."""

    name: str
    values: tuple[float, ...]


class _Search:
    """The subsample, its folds, and the rows that are left for an honest error."""

    def __init__(
        self, model: KernelSVC | SBPClassifier, X: Features, y: Column, n_rows: int, n_folds: int,
        rng: np.random.RandomState,
    ) -> None:  # fmt: skip
        if (names := _get_feature_names(X)) is not None:
            self.feature_names_in_ = names
        rows, labels = checked_rows(clone(model), X, y)
        check_classification_targets(labels)
        self._model, self._X, self._y = model, rows, labels
        self._classes, codes = np.unique(labels, return_inverse=True)
        refuse_one_class(self._classes)
        chosen, self._rest = np.arange(codes.shape[0]), np.empty(0, dtype=np.intp)
        if n_rows < codes.shape[0]:
            chosen, rest = train_test_split(chosen, train_size=n_rows, stratify=codes, random_state=rng)
            chosen, self._rest = np.sort(chosen), rest[: SEARCH.new_rows]
        smallest = int(np.bincount(codes[chosen], minlength=self._classes.shape[0]).min())
        if smallest < n_folds:
            raise DataError(
                f"the subsample of {chosen.shape[0]} rows has {smallest} of the rarest class and there are {n_folds} "
                "folds; raise n_rows, or lower n_folds."
            )
        self.n_rows, self.evaluations = int(chosen.shape[0]), 0
        self._chosen, self._codes = chosen, codes[chosen]
        self._weight: Floats = class_weights(model.class_weight, self._classes, labels)[self._codes]
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=rng).split(chosen, self._codes)
        self._folds: list[Ints] = [held for _, held in folds]
        self._splits = splits(self._classes.shape[0], self._option("multi_class", "ovo"))

    @property
    def rows(self) -> Matrix:
        """The rows of the subsample."""
        if self._model.kernel == "precomputed":
            return check_precomputed(self._X)[np.ix_(self._chosen, self._chosen)]
        return self._X[self._chosen]

    def _option(self, name: str, default: str) -> str:
        """An option that only one of the two kinds of models has."""
        return str(getattr(self._model._options, name, default))

    def grid(self, Cs: Sequence[float] | None, nus: Sequence[float] | None) -> _Grid:
        """The values to try."""
        if Cs is not None and nus is not None:
            raise CapabilityError("Cs and nus are two names of one axis; give one of them.")
        if nus is not None and self._classes.shape[0] > 2:
            raise CapabilityError(
                f"nus need two classes and y has {self._classes.shape[0]}: each binary problem would have a C of its "
                "own. Give Cs; the cells say which nu they have."
            )
        name, given = ("Cs", SEARCH.Cs if Cs is None else Cs) if nus is None else ("nus", nus)
        values = sorted(set(positive_numbers(name, given)), reverse=nus is not None)
        return _Grid(name.removesuffix("s"), tuple(values))

    def kernels(self, gammas: Sequence[float] | None) -> list[tuple[Kernel, float | None]]:
        """The kernels to try, with their gamma; one without gamma where the kernel has none."""
        model, rows = self._model, self.rows
        fixed: dict[str, Any] = {"degree": model.degree, "coef0": model.coef0}
        if callable(model.kernel) or model.kernel in ("linear", "precomputed"):
            return [(resolve_kernel(model.kernel, rows, **fixed), None)]
        base = resolve_kernel(model.kernel, rows, gamma="scale", **fixed)
        given = (
            [factor * base.gamma for factor in SEARCH.gammas] if gammas is None else positive_numbers("gammas", gammas)
        )
        tried = sorted(set(given))
        return [(resolve_kernel(model.kernel, rows, gamma=value, **fixed), value) for value in tried]

    def cells(
        self, kernels: Sequence[tuple[Kernel, float | None]], grid: _Grid, budget: Budget, workers: Any
    ) -> Iterator[tuple[str, Cell | None]]:
        """Measure all cells, those of one kernel together; None where no SVM has the nu."""
        if is_serial(workers):
            inner = Budget(budget.seconds, started=budget.started)
            for each in kernels:
                yield from self.of_kernel(each, grid, inner)
            return
        deadline = Deadline.after(budget.left)
        travels = copy.copy(self)  # with a model without callbacks, which cannot be sent
        unwatched = clone(self._model)
        if isinstance(unwatched, KernelSVC):
            unwatched.set_params(solver_options=replace(unwatched._options, callbacks=None))
        else:
            unwatched.set_params(callbacks=None)
        travels._model = unwatched
        for measured, evaluations in side_by_side(partial(travels.elsewhere, grid, deadline), kernels, workers):
            self.evaluations += evaluations
            yield from measured

    def elsewhere(
        self, grid: _Grid, deadline: Deadline, given: tuple[Kernel, float | None]
    ) -> tuple[list[tuple[str, Cell | None]], int]:
        """The cells of one kernel, on a worker, and the kernel evaluations they took."""
        self.evaluations, budget, measured = 0, Budget(deadline.left), []
        for cell in self.of_kernel(given, grid, budget):
            measured.append(cell)
            if budget.exhausted:
                break
        return measured, self.evaluations

    def of_kernel(
        self, given: tuple[Kernel, float | None], grid: _Grid, budget: Budget
    ) -> Iterator[tuple[str, Cell | None]]:
        """Measure the cells of one kernel."""
        kernel, gamma = given
        computed = kernel_rows(
            kernel, self.rows, cache_size=1e9, backend=self._option("backend", "numpy"),
            precision=self._option("precision", "auto"), tol=SEARCH.duals.tol,
        )  # fmt: skip
        matrix = WholeMatrix(computed.full())
        self.evaluations += computed.evaluations
        model, parts = self._model, []
        bias = model.fit_intercept if isinstance(model, SBPClassifier) else model._options.fit_intercept
        for held in self._folds:  # the binary problems of a fold, each on its way to larger C
            free, fold = self._weight.copy(), []
            free[held] = 0.0
            for split in self._splits:
                mine = free > 0.0
                if split.negative is not None:
                    mine &= (self._codes == split.positive) | (self._codes == split.negative)
                index = np.flatnonzero(mine)
                y = np.where(self._codes[index] == split.positive, 1.0, -1.0)
                problem = KernelProblem(matrix.subset(index), y, free[index], bias)
                fold.append((index, Duals(problem, SEARCH.duals, budget=budget)))
            parts.append(fold)
        for value in grid.values:
            try:
                cell = self._cell(matrix, parts, grid.name, value, gamma)
            except DataError:  # a nu that no C has
                cell = None
            yield f"{grid.name}={value:.4g}" + ("" if gamma is None else f" gamma={gamma:.4g}"), cell

    def _cell(
        self, matrix: WholeMatrix, parts: list[list[tuple[Ints, Duals]]], name: str, value: float, gamma: float | None
    ) -> Cell:
        """Measure one cell."""
        missed, k = np.zeros(self.n_rows, dtype=bool), self._classes.shape[0]
        used, duals = [], []
        for fold, held in zip(parts, self._folds, strict=True):
            coef, intercept = np.zeros((self.n_rows, len(fold))), np.zeros(len(fold))
            for number, (index, path) in enumerate(fold):
                dual = path.at(value) if name == "C" else path.of(value)
                coef[index, number], intercept[number] = dual.coef, dual.intercept
                duals.append(dual)
            scores = matrix.block(held) @ coef + intercept
            if k == 2:
                called = (scores[:, 0] >= 0.0).astype(np.int64)
            elif self._option("multi_class", "ovo") == "ovr":
                called = np.argmax(scores, axis=1)
            else:
                called = multiclass.votes(scores, k)
            missed[held] = called != self._codes[held]
            used.append(np.count_nonzero(coef.any(axis=1)) / (self.n_rows - held.shape[0]))
        error = float(missed.mean())
        spread = math.sqrt(error * (1.0 - error) / self.n_rows)
        C = value if name == "C" else math.exp(float(np.mean([math.log(dual.factor) for dual in duals])))
        nu = value if name == "nu" else float(np.mean([dual.nu for dual in duals]))
        return Cell(C, gamma, error, spread, float(np.mean(used)), nu)

    def on_new_rows(self, model: KernelSVC | SBPClassifier) -> tuple[float | None, float | None]:
        """Error of a model trained on the subsample, on rows that are not in it, and its standard error."""
        if not self._rest.shape[0]:
            return None, None
        own = {} if isinstance(model, SBPClassifier) else {"tol": SEARCH.duals.tol}
        fitted = clone(model).set_params(**own).fit(self.rows, self._y[self._chosen])
        new = self._X[self._rest]
        new = new[:, self._chosen] if model.kernel == "precomputed" else new
        error = float(np.mean(fitted.predict(new) != self._y[self._rest]))
        return error, math.sqrt(error * (1.0 - error) / self._rest.shape[0])
