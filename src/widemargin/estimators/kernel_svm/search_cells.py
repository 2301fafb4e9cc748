"""The cells of `kernel_search`: one kernel matrix for all folds and all C of a gamma, each solved from the last one.

The rows of a fold are in its problems, without a loss: no coefficient of theirs moves, and their scores come with the
solution, so nothing of the matrix is copied or multiplied for the error.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _get_feature_names

from widemargin._threads import in_threads
from widemargin._typing import Bools, Column, Features, Floats, Ints, Matrix
from widemargin.distributed.workers import Deadline, is_serial, side_by_side
from widemargin.estimators._binary import checked_rows, refuse_one_class
from widemargin.estimators.kernel_svm import multiclass
from widemargin.estimators.kernel_svm.binary_problems import kernel_rows, largest_problem, splits
from widemargin.estimators.kernel_svm.kernel_model import class_weights, positive_numbers
from widemargin.estimators.kernel_svm.kernel_svc import KernelSVC
from widemargin.estimators.kernel_svm.sbp_classifier import SBPClassifier
from widemargin.exceptions import CapabilityError, DataError
from widemargin.kernels.functions import Kernel, check_precomputed, resolve_kernel
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.batch_perceptron.svms_by_nu import Dual, NuSearch, SVMsByNu
from widemargin.solvers.kernel_svm.dual import small_problems
from widemargin.solvers.kernel_svm.dual.small_problems import SmallProblemOptions
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
    looks : tuple of int, default=(2, 5)
        Folds after which a race looks whether a cell is worse than the best one. The dearest cells end after two.
    hopeless : float, default=4
        By how many standard errors of the difference, on the same rows, it has to be: by chance that happens once in
        thirty thousand looks.
    """

    Cs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)
    gammas: tuple[float, ...] = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)
    duals: NuSearch = field(default_factory=lambda: NuSearch(tol=0.02, near=0.02, widest=1e5))
    new_rows: int = 10_000
    looks: tuple[int, ...] = (2, 5)
    hopeless: float = 4.0


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
    folds : int
        How many the error is of: fewer than there are where a race has left the cell behind.
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
    folds: int
    support: float
    nu: float


class Grid(NamedTuple):
    """The values of C or nu, in the order of increasing C."""

    name: str
    values: tuple[float, ...]


@dataclass
class _Fold:
    """Rows held out, and the binary problems of the others: the rows of each, and its way to larger C.

    Where all are small, also what `small_problems.solve` needs of them: the kernel values of rows that lie in the order
    of their classes, the number of rows of each, the pairs, and the weights.
    """

    held: Ints
    paths: list[tuple[Ints, SVMsByNu]] = field(default_factory=list)
    small: tuple[Floats, Ints, Ints, Floats] | None = None

    def duals(self, name: str, value: float) -> list[Dual]:
        """The solutions of all problems at this C or nu."""
        if name == "nu":
            return [path.of(value) for _, path in self.paths]
        if self.small is None:
            return [path.at(value) for _, path in self.paths]
        K, counts, pairs, upper = self.small
        results = small_problems.solve(K, counts, pairs, value * upper, SEARCH.duals.tol, Budget())
        return [path.at(value, result) for (_, path), result in zip(self.paths, results, strict=True)]


class CellSearch:
    """The subsample, its folds, and the rows that are left for an honest error."""

    def __init__(
        self, model: KernelSVC | SBPClassifier, X: Features, y: Column, n_rows: int | None, n_folds: int, race: bool,
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
        if n_rows is not None and n_rows < codes.shape[0]:
            chosen, rest = train_test_split(chosen, train_size=n_rows, stratify=codes, random_state=rng)
            chosen, self._rest = np.sort(chosen), rest[: SEARCH.new_rows]
        smallest = int(np.bincount(codes[chosen], minlength=self._classes.shape[0]).min())
        if smallest < n_folds:
            raise DataError(
                f"the subsample of {chosen.shape[0]} of {codes.shape[0]} rows has {smallest} of the rarest class and "
                f"there are {n_folds} folds; {'raise n_rows, or ' if len(chosen) < len(codes) else ''}lower n_folds."
            )
        self.n_rows, self.evaluations = int(chosen.shape[0]), 0
        self._chosen, self._codes = chosen, codes[chosen]
        self._weight: Floats = class_weights(model.class_weight, self._classes, labels)[self._codes]
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=rng).split(chosen, self._codes)
        self._folds: list[Ints] = [held for _, held in folds]
        self._splits = splits(self._classes.shape[0], self._option("multi_class", "ovo"))
        self._pairs = len(self._splits) > 1 and self._splits[0].negative is not None
        self._race = race
        self._best: tuple[float, Bools] = math.inf, np.empty(0, dtype=bool)  # the least error, and which rows it is of

    @property
    def saw_all(self) -> bool:
        """Whether no row was left out."""
        return self._rest.shape[0] == 0

    @property
    def rows(self) -> Matrix:
        """The rows of the subsample."""
        if self._model.kernel == "precomputed":
            return check_precomputed(self._X)[np.ix_(self._chosen, self._chosen)]
        return self._X[self._chosen]

    def _option(self, name: str, default: str) -> str:
        """An option that only one of the two kinds of models has."""
        return str(getattr(self._model._options, name, default))

    def grid(self, Cs: Sequence[float] | None, nus: Sequence[float] | None) -> Grid:
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
        return Grid(name.removesuffix("s"), tuple(values))

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
        self, kernels: Sequence[tuple[Kernel, float | None]], grid: Grid, budget: Budget, workers: Any
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
        self, grid: Grid, deadline: Deadline, given: tuple[Kernel, float | None]
    ) -> tuple[list[tuple[str, Cell | None]], int]:
        """The cells of one kernel, on a worker, and the kernel evaluations they took."""
        self.evaluations, budget, measured = 0, Budget(deadline.left), []
        for cell in self.of_kernel(given, grid, budget):
            measured.append(cell)
            if budget.exhausted:
                break
        return measured, self.evaluations

    def of_kernel(
        self, given: tuple[Kernel, float | None], grid: Grid, budget: Budget
    ) -> Iterator[tuple[str, Cell | None]]:
        """Measure the cells of one kernel."""
        kernel, gamma = given
        computed = kernel_rows(
            kernel, self.rows, cache_size=1e9, backend=self._option("backend", "numpy"),
            precision=self._option("precision", "auto"), tol=SEARCH.duals.tol,
        )  # fmt: skip
        matrix = WholeMatrix(computed.full())
        self.evaluations += computed.evaluations
        model = self._model
        bias = model.fit_intercept if isinstance(model, SBPClassifier) else model._options.fit_intercept
        folds = [_Fold(held) for held in self._folds]
        by_class = [np.flatnonzero(self._codes == c) for c in range(self._classes.shape[0])]
        counts, few = np.array([len(own) for own in by_class]), SmallProblemOptions
        largest = largest_problem(counts, pairs=True)
        if self._pairs and bias and self.n_rows <= few.all_rows and largest <= few.rows // 2:
            # Python takes several times as long as the steps of so small problems: compiled code solves all of a fold.
            # It solves each C afresh, so that problems twice as large are better left to the working sets.
            order = np.concatenate(by_class)
            K = matrix.block(order, order).astype(np.float64, copy=False)
            pairs = np.array([(split.positive, split.negative) for split in self._splits])
            for fold in folds:
                fold.small = K, counts, pairs, np.where(np.isin(order, fold.held), 0.0, self._weight[order])
        for split in self._splits:  # pairs of classes have a matrix of their own, which all folds share, too
            index, part = np.arange(self.n_rows), matrix
            if split.negative is not None and self._pairs:
                index = np.concatenate((by_class[split.positive], by_class[split.negative]))
                part = matrix.subset(index)
            y = np.where(self._codes[index] == split.positive, 1.0, -1.0)
            for fold in folds:  # its own rows have no loss, and get scores
                upper = np.where(np.isin(index, fold.held), 0.0, self._weight[index])
                path = SVMsByNu(KernelProblem(part, y, upper, bias), SEARCH.duals, budget=budget)
                fold.paths.append((index, path))
        for value in grid.values:
            try:
                cell = self._cell(matrix, folds, grid.name, value, gamma)
            except DataError:  # a nu that no C has
                cell = None
            yield f"{grid.name}={value:.4g}" + ("" if gamma is None else f" gamma={gamma:.4g}"), cell

    def _cell(
        self, matrix: WholeMatrix, folds: Sequence["_Fold"], name: str, value: float, gamma: float | None
    ) -> Cell:
        """Measure one cell."""
        missed, duals, done = np.zeros(self.n_rows, dtype=bool), list[Dual](), 0
        used: list[float] = []
        for stop in (*(SEARCH.looks if self._race else ()), len(folds)):
            stage = folds[done:stop]

            def solve(first: int, last: int, stage: Sequence[_Fold] = stage) -> list[list[Dual]]:
                return [fold.duals(name, value) for fold in stage[first:last]]

            solved = [found for part in in_threads(len(stage), 1, solve) for found in part]
            for fold, found in zip(stage, solved, strict=True):
                k, intercept = self._classes.shape[0], [dual.intercept for dual in found]
                coef = np.zeros((self.n_rows, len(found)))
                for number, ((index, _), dual) in enumerate(zip(fold.paths, found, strict=True)):
                    coef[index, number] = dual.coef
                if self._pairs:
                    called = multiclass.votes(matrix.block(fold.held) @ coef + intercept, k)
                else:  # every problem has scores of all rows
                    sums = np.column_stack([dual.scores[fold.held] for dual in found]) + intercept
                    called = (sums[:, 0] >= 0.0).astype(np.int64) if k == 2 else np.argmax(sums, axis=1)
                missed[fold.held] = called != self._codes[fold.held]
                supports = (coef != 0.0).any(axis=1)
                used.append(np.count_nonzero(supports) / (self.n_rows - fold.held.shape[0]))
                duals += found
            done += len(stage)
            rows = np.concatenate([fold.held for fold in folds[:done]])
            if done == len(folds):
                break
            # A cell that has missed clearly more of these rows than the best one, by McNemar's test, is given up.
            if math.isfinite(self._best[0]):
                change = missed[rows].astype(float) - self._best[1][rows]
                if float(change.sum()) > SEARCH.hopeless * float(np.linalg.norm(change)):
                    break
        error = float(missed[rows].mean())
        if done == len(folds) and error < self._best[0]:
            self._best = error, missed
        spread = math.sqrt(error * (1.0 - error) / rows.shape[0])
        C = value if name == "C" else math.exp(float(np.mean([math.log(dual.factor) for dual in duals])))
        nu = value if name == "nu" else float(np.mean([dual.nu for dual in duals]))
        return Cell(C, gamma, error, spread, done, float(np.mean(used)), nu)

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
