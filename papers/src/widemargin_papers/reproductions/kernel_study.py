"""What the experiments of the batch perceptron share: its data and settings, and kernel rows that are counted.

Data and settings are those of Table 2 of Cotter, Shalev-Shwartz and Srebro (ICML 2012): Adult, MNIST's 8 against the
rest and (of LIBSVM's table only) Forest, with `K(x, x') = exp(-|x - x'|^2 / (2 sigma^2))`.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin.exceptions import MissingDataError
from widemargin.extending import Floats, Index, Integers, Ints, Reals
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.problem import KernelProblem
from widemargin_papers.data import load_a9a, load_covtype, load_mnist, synthetic_a9a, synthetic_digits, synthetic_forest
from widemargin_papers.reproductions.experiment import QUICK_ROWS

DIGIT = 8
TITLES = {"adult": "Adult", "mnist": f"MNIST, {DIGIT} against the rest"}
FOREST = dict.fromkeys(("forest", "whole forest"), "Forest, cover type 2 against the rest")
"""A part of its training rows, on which LIBSVM takes minutes, and all of them, on which it takes days."""

CACHE = 4000.0
"""Megabytes of kernel rows that are kept while all methods of a figure run."""


class Task(NamedTuple):
    """Training and test rows of two classes, dense float32; labels -1.0 and 1.0."""

    X: npt.NDArray[np.float32]
    y: Floats
    X_test: npt.NDArray[np.float32]
    y_test: Floats


@dataclass(frozen=True)
class Study:
    """The tasks by name."""

    tasks: Mapping[str, Task]
    name: str


class Reference(NamedTuple):
    """The SVM's optimum: its objective, its mean slack nu in normalised units, its test error."""

    objective: float
    nu: float
    error: float


def load(folder: Path | None, quick: bool) -> Study:
    """Adult and MNIST, or synthetic rows of their kinds."""
    adult = synthetic_a9a(QUICK_ROWS) if quick else load_a9a(folder)
    digits = synthetic_digits(QUICK_ROWS) if quick else load_mnist(folder)
    tasks = {
        "adult": Task(adult.X.toarray().astype(np.float32), adult.y, _dense(adult.X_test), adult.y_test),
        "mnist": Task(digits.X, _one(digits.digit), digits.X_test, _one(digits.digit_test)),
    }
    return Study(tasks, adult.name if quick else f"{adult.name}, {digits.name}")


def load_with_forest(folder: Path | None, quick: bool) -> Study:
    """The same, and Forest where it is in the folder."""
    study = load(folder, quick)
    try:
        forest = synthetic_forest(QUICK_ROWS) if quick else load_covtype(folder)
    except MissingDataError:
        return study
    name = study.name if quick else f"{study.name}, {forest.name}"
    task = Task(forest.X, forest.y, forest.X_test, forest.y_test)
    return Study({**study.tasks, **dict.fromkeys(FOREST, task)}, name)


def titles(summary: Mapping[str, Any]) -> dict[str, str]:
    """What tables and figures call the tasks of a summary."""
    known = {name: title for name, title in (TITLES | FOREST).items() if name in summary}
    return {name: f"synthetic rows like {t}" if "synthetic" in summary[name] else t for name, t in known.items()}


def about(settings: Mapping[str, Any]) -> dict[str, bool]:
    """What a task's summary says of its data: where they are synthetic, that they are."""
    return {"synthetic": True} if settings["data"] == "synthetic" else {}


def drawn_rows(task: Task, count: int | None, seed: int) -> Task:
    """The task with so many of its training rows, drawn at random; all of them (None) in random order."""
    rows = np.random.default_rng(seed).permutation(task.y.shape[0])[:count]
    return task._replace(X=task.X[rows], y=task.y[rows])


def kernel_rows(task: Task, sigma2: float) -> KernelRows:
    """Kernel values of the training rows and then the test rows with all of them, computed where they are asked for."""
    gc.collect()  # rows and their cache refer to each other: without this the last task's four gigabytes would stay
    both = np.concatenate((task.X, task.X_test))
    return KernelRows(Kernel("rbf", 0.5 / sigma2), both, cache_size=CACHE, dtype=np.float32)


class CountedRows:
    """Kernel rows of a task, counted as if each had to be computed: n evaluations a row, n being the training rows.

    The columns of the test rows are not counted: no optimiser needs them, they only show its test error.

    Parameters
    ----------
    rows : KernelRows
        Of `kernel_rows`; what its cache holds is not computed again, and counted nevertheless.
    n : int
    free : bool, default=False
        Whether a row that was asked for before is free.
    """

    def __init__(self, rows: KernelRows, n: int, *, free: bool = False) -> None:
        self._rows, self._train = rows, n
        self.n_rows, self.capacity, self.dtype = rows.n_rows, rows.capacity, rows.dtype
        self.evaluations = 0
        self._known = np.zeros(rows.n_rows, dtype=bool) if free else None

    def block(self, rows: Index, columns: Index | None = None) -> Reals:
        """Values of some training rows with some others (None: all)."""
        found = self._rows.block(rows, columns)
        self.evaluations += min(found.size, found.shape[0] * self._train)
        return found

    def cached(self, rows: Integers) -> tuple[Reals, Ints]:
        """A buffer of whole rows and the places of the rows in it, valid until the next call."""
        new = rows.shape[0]
        if self._known is not None:
            new -= int(self._known[rows].sum())
            self._known[rows] = True
        self.evaluations += new * self._train
        return self._rows.cached(rows)

    def add(self, rows: Ints, change: Floats, scores: Floats, columns: Index | None = None) -> None:
        """Add `K[columns, rows] change` to `scores`."""
        self._rows.add(rows, change, scores, columns)
        self.evaluations += rows.shape[0] * min(scores.shape[0], self._train)

    def diagonal(self) -> Floats:
        """Ones."""
        return np.ones(self.n_rows)

    def subset(self, rows: Integers) -> "CountedRows":
        """The rows and columns of some of the training rows, which are counted by themselves."""
        part = self._rows.subset(np.asarray(rows, dtype=np.int64))
        return CountedRows(part, part.n_rows, free=self._known is not None)

    def problem(self, task: Task, C: float, *, fit_intercept: bool = False) -> KernelProblem:
        """The SVM on the training rows; the test rows are held out."""
        upper = np.concatenate((np.full(task.y.shape[0], C), np.zeros(task.y_test.shape[0])))
        return KernelProblem(self, np.concatenate((task.y, task.y_test)), upper, fit_intercept)


def reference(task: Task, rows: KernelRows, C: float, *, fit_intercept: bool = False) -> Reference:
    """The optimum by the working-set dual."""
    n = task.y.shape[0]
    found = working_set.solve(CountedRows(rows, n).problem(task, C, fit_intercept=fit_intercept), tol=1e-3)
    scores, support = np.zeros(rows.n_rows), np.flatnonzero(found.coef)
    rows.add(support, found.coef[support], scores)
    hinge = np.maximum(0.0, 1.0 - task.y * (scores[:n] + found.intercept)).mean()
    wrong = task.y_test * (scores[n:] + found.intercept) <= 0.0
    return Reference(found.primal, float(hinge / np.sqrt(found.coef[:n] @ scores[:n])), float(wrong.mean()))


def steps(history: Sequence[Mapping[str, float]], grid: Sequence[float]) -> list[float | None]:
    """Test error at each number of evaluations: that of the last look before it; None before the first look.

    After its end a run keeps its last error.
    """
    at = np.array([entry["evaluations"] for entry in history])
    error = [entry["held_out_error"] for entry in history]
    last = np.searchsorted(at, np.asarray(grid), side="right") - 1
    return [round(error[k], 6) if k >= 0 else None for k in last]


def _dense(X: sp.csr_matrix) -> npt.NDArray[np.float32]:
    return np.asarray(X.toarray(), dtype=np.float32)


def _one(digit: npt.NDArray[np.uint8]) -> Floats:
    return np.where(digit == DIGIT, 1.0, -1.0)
