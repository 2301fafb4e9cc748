"""What the experiments of the batch perceptron share: its data and settings, and kernel matrices that count.

Data and settings are those of Table 2 of Cotter, Shalev-Shwartz and Srebro (ICML 2012): Adult, MNIST's 8 against the
rest and (of LIBSVM's table only) Forest, with `K(x, x') = exp(-|x - x'|^2 / (2 sigma^2))`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from widemargin.datasets import (
    load_a9a,
    load_covtype,
    load_mnist,
    synthetic_a9a,
    synthetic_digits,
    synthetic_forest,
)
from widemargin.exceptions import MissingDataError
from widemargin.extending import Floats, Index, Integers, Ints
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.problem import KernelProblem
from widemargin_papers.reproductions.experiment import QUICK_ROWS

__all__ = [
    "FOREST",
    "TITLES",
    "CountedMatrix",
    "Reference",
    "Study",
    "Task",
    "about",
    "drawn_rows",
    "load",
    "load_with_forest",
    "matrix",
    "reference",
    "steps",
    "titles",
]

DIGIT = 8
TITLES = {"adult": "Adult", "mnist": f"MNIST, {DIGIT} against the rest"}
FOREST = {"forest": "Forest, cover type 2 against the rest"}

_HEIGHT = 512  # rows of the matrix made at a time


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
    return Study({**study.tasks, "forest": Task(forest.X, forest.y, forest.X_test, forest.y_test)}, name)


def titles(summary: Mapping[str, Any]) -> dict[str, str]:
    """What tables and figures call the tasks of a summary."""
    known = {name: title for name, title in (TITLES | FOREST).items() if name in summary}
    return {name: f"synthetic rows like {t}" if "synthetic" in summary[name] else t for name, t in known.items()}


def about(settings: Mapping[str, Any]) -> dict[str, bool]:
    """What a task's summary says of its data: where they are synthetic, that they are."""
    return {"synthetic": True} if settings["data"] == "synthetic" else {}


def drawn_rows(task: Task, count: int, seed: int) -> Task:
    """The task with so many of its training rows, drawn at random; all of them in random order if there are fewer."""
    rows = np.random.default_rng(seed).permutation(task.y.shape[0])[:count]
    return task._replace(X=task.X[rows], y=task.y[rows])


def matrix(task: Task, sigma2: float) -> npt.NDArray[np.float32]:
    """Kernel values of the training rows with themselves and then the test rows, shape (n, n + n_test)."""
    n = task.y.shape[0]
    made = np.empty((n, n + task.y_test.shape[0]), dtype=np.float32)
    rows = KernelRows(Kernel("rbf", 0.5 / sigma2), np.concatenate((task.X, task.X_test)), dtype=np.float32)
    for low in range(0, n, _HEIGHT):
        made[low : low + _HEIGHT] = rows.block(slice(low, min(low + _HEIGHT, n)))
    return made


class CountedMatrix:
    """Rows of a kernel matrix in memory, counted as if each had to be computed: n evaluations a row.

    The columns of the test rows are not counted: no optimiser needs them, they only show its test error.

    Parameters
    ----------
    values : ndarray of shape (n, n + n_test)
        Of a Gaussian kernel.
    cache : bool, default=False
        Whether a row that was asked for before is free.
    """

    def __init__(self, values: npt.NDArray[np.float32], *, cache: bool = False) -> None:
        self._values, self._train = values, values.shape[0]
        self.n_rows, self.capacity, self.dtype = values.shape[1], values.shape[0], values.dtype
        self.evaluations = 0
        self._free = np.zeros(values.shape[0], dtype=bool) if cache else None

    def block(self, rows: Index, columns: Index | None = None) -> npt.NDArray[np.float32]:
        """Values of some training rows with some others (None: all)."""
        found: npt.NDArray[np.float32] = self._values[rows] if columns is None else self._values[rows][:, columns]
        self.evaluations += min(found.size, found.shape[0] * self._train)
        return found

    def cached(self, rows: Integers) -> tuple[npt.NDArray[np.float32], Ints]:
        """The matrix, and the rows as their places in it."""
        new = rows
        if self._free is not None:
            new = rows[~self._free[rows]]
            self._free[rows] = True
        self.evaluations += new.shape[0] * self._train
        return self._values, rows.astype(np.int64)

    def add(
        self, rows: npt.NDArray[np.integer[Any]], change: Floats, scores: Floats, columns: Index | None = None
    ) -> None:
        """Add `K[columns, rows] change` to `scores`."""
        scores += change @ self.block(rows, columns)

    def diagonal(self) -> Floats:
        """Ones."""
        return np.ones(self.n_rows)

    def subset(self, rows: Integers) -> "CountedMatrix":
        """The matrix of some of the training rows; it is copied, and counts by itself.

        Raises
        ------
        IndexError
            If a test row is among them.
        """
        return CountedMatrix(self._values[np.ix_(rows, rows)], cache=self._free is not None)

    def problem(self, task: Task, C: float, *, fit_intercept: bool = False) -> KernelProblem:
        """The SVM on the training rows; the test rows are held out."""
        upper = np.concatenate((np.full(task.y.shape[0], C), np.zeros(task.y_test.shape[0])))
        return KernelProblem(self, np.concatenate((task.y, task.y_test)), upper, fit_intercept)


def reference(task: Task, values: npt.NDArray[np.float32], C: float, *, fit_intercept: bool = False) -> Reference:
    """The optimum by the working-set dual."""
    problem = CountedMatrix(values).problem(task, C, fit_intercept=fit_intercept)
    found = working_set.solve(problem, tol=1e-3)
    n = task.y.shape[0]
    scores = found.coef[:n] @ values
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
