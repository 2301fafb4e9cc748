"""C (or nu) and gamma of a kernel SVM by cross-validation on all rows or a subsample: `kernel_search`.

    for gamma in gammas:
        K = the kernel matrix of the rows                             # once for all folds and all C
        for C in increasing order: for each fold, side by side:
            solve on the other folds, from the solution of the last C, multiplied
            the scores of the fold itself come with it: its rows are those without a loss

Every solution has its nu, the mean hinge loss divided by |w| (`batch_perceptron.svms_by_nu`). With nus in the place of
Cs a fold goes up in C to each of them, and takes the SVM that has this nu.
"""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from sklearn.base import clone
from sklearn.utils import check_random_state

from widemargin._threads import limit_threads
from widemargin._typing import Column, Features, Seed
from widemargin.estimators._options import bar, budget_of
from widemargin.estimators.feature_scales import DISTANCES, warn_of_scales
from widemargin.estimators.kernel_svm.kernel_svc import KernelSVC
from widemargin.estimators.kernel_svm.sbp_classifier import SBPClassifier
from widemargin.estimators.kernel_svm.search_cells import SEARCH, Cell, CellSearch
from widemargin.exceptions import CapabilityError, DataError, KernelWarning, MarginConvergenceWarning, warn
from widemargin.solvers.base import Progress


@dataclass(frozen=True)
class KernelSearch:
    """The result of `kernel_search`.

    Attributes
    ----------
    best_params : dict
        "C" (of an `SBPClassifier` "nu"), and "gamma" where the kernel has one: for `set_params`.
    best_estimator : KernelSVC or SBPClassifier
        The model with these parameters; fitted as `refit` says.
    cells : tuple of Cell
        In the order of measurement. A nu that no SVM of a reasonable C has at some gamma has no cell.
    given : {"C", "nu"}
        Which of the two was a grid; the other one is an output.
    new_error, new_standard_error : float or None
        Error of the best parameters, trained on the subsample, on rows that the search did not see (None if there are
        none). Unlike the least of many cross-validated errors it is not too low.
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
        """The cell of `best_params`: that of least error on all folds."""
        return _least(self.cells)


def kernel_search(
    model: KernelSVC | SBPClassifier,
    X: Features,
    y: Column,
    *,
    Cs: Sequence[float] | None = None,
    nus: Sequence[float] | None = None,
    gammas: Sequence[float] | None = None,
    n_rows: int | None = 2000,
    n_folds: int = 3,
    race: bool = False,
    refit: bool | None = None,
    time_budget: float | None = None,
    callbacks: Sequence[Callable[[Progress], object]] | None = None,
    on_interrupt: str = "raise",
    verbose: int = 0,
    n_jobs: int | None = None,
    workers: Any = None,
    random_state: Seed = None,
) -> KernelSearch:
    """Choose C (or nu) and gamma of a kernel SVM by cross-validation, on a subsample or on all rows.

    One kernel matrix serves all folds and all C, which are solved in increasing order, each from the solution before,
    to a violation of 0.02. A grid of C also gives the nu of every cell, a grid of nus the C, for about twice the
    work. nu, a mean slack, does not depend on the number of rows, as C does.

    Parameters
    ----------
    model : KernelSVC or SBPClassifier
        Its kernel, degree, coef0, class weights, intercept and way with many classes are used; C, nu and gamma are not.
        All cells are solved by the working-set dual; `best_estimator` is of the class of the model.
    X : array-like or CSR matrix of shape (n, d)
        With a precomputed kernel the values of all pairs.
    y : array-like of shape (n,)
    Cs : sequence of float, optional
        By default 0.1, 1, 10, 100 and 1000.
    nus : sequence of float, optional
        In the place of Cs; with two classes only.
    gammas : sequence of float, optional
        By default 1/64, 1/16, 1/4, 1 and 4 times `gamma="scale"`. Without effect for kernels that have none.
    n_rows : int or None, default=2000
        Rows of the subsample, drawn with the shares of the classes; None: all rows. Raising it costs time quadratically
        and memory `8e-6 n_rows^2` MB, half of that for Gaussian kernels from 5,000 rows on. C is not adjusted: a good C
        for few rows is good, or somewhat too large, for many.
    n_folds : int, default=3
    race : bool, default=False
        Whether to skip the remaining folds of a cell whose error after two or five folds is clearly above that of the
        best one so far; often these are cells of large C, which take most of the time. Such a cell is not chosen, and
        its error is of fewer folds (`Cell.folds`).
    refit : bool, optional
        Whether `best_estimator` is fitted to all rows of X. None: where the search saw all of them.
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
        Threads, which share the folds; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.
    workers : int or distributed.Client, optional
        Gammas are searched in parallel: by so many processes, or on a Dask cluster; None: as `joblib.parallel_config`
        says. Cells are the same, but each gamma has a race of its own; callbacks are called for its cells when it is
        done.
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
    >>> clf = found.best_estimator  # fitted, as the search saw all rows
    """
    started = time.perf_counter()
    if not isinstance(model, KernelSVC | SBPClassifier):
        raise CapabilityError(
            f"kernel_search needs a KernelSVC or an SBPClassifier, not {type(model).__name__}; of a pipeline give the "
            "last step and transformed rows: kernel_search(pipe[-1], pipe[:-1].fit_transform(X), y)."
        )
    numbers: dict[str, object] = {"n_folds": n_folds, "n_rows": n_rows}
    for name, value in numbers.items():
        if value is None and name == "n_rows":
            continue
        if not isinstance(value, Integral) or value < 2:
            raise DataError(f"{name}={value!r} must be a whole number >= 2.")
    search = CellSearch(model, X, y, n_rows, n_folds, race, check_random_state(random_state))
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
        if search.saw_all if refit is None else refit:
            chosen.fit(X, y)
    return KernelSearch(
        params, chosen, tuple(cells), grid.name, new_error, new_spread, search.n_rows, status, search.evaluations,
        time.perf_counter() - started,
    )  # fmt: skip


def _least(cells: Sequence[Cell]) -> Cell:
    """The cell of least error on all folds; of equals that of the smallest C, then of the smallest gamma."""
    return min(cells, key=lambda cell: (-cell.folds, cell.error, cell.C, cell.gamma or 0.0))
