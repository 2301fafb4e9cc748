"""What the benchmarks of structural SVMs share: their data, scores, splits, and the clock that watches a fit."""

import argparse
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.metrics import f1_score, hamming_loss, jaccard_score
from sklearn.preprocessing import normalize

from benchmarks.common import ROOT, MissingDataError, data_folder
from widemargin.datasets import Hierarchy, LabelSets, synthetic_label_sets
from widemargin.exceptions import MarginConvergenceWarning

__all__ = [
    "SCORES", "Array", "Clock", "LabelSets", "Words", "folder_of", "hold_outs", "jaccards", "mean_and_error", "ocr",
    "paired", "quietly", "scores", "shuffled", "standardised", "synthetic_paths", "synthetic_topics", "synthetic_words",
    "unit_rows",
]  # fmt: skip

Array = npt.NDArray[Any]

SCORES = ("jaccard", "hamming", "micro_f1", "example_f1", "macro_f1")
HELD_OUT = 0.2


@dataclass(frozen=True)
class Words:
    """Handwritten words: an array of pixels per word, one row a letter; its letters; its fold."""

    X: list[Array]
    Y: list[Array]
    fold: Array


def folder_of(options: argparse.Namespace) -> Path:
    """The folder of the data."""
    return data_folder(options.data) or ROOT.parent / "shared" / "data"


def rows_of(task: LabelSets, chosen: Array, rest: Array) -> LabelSets:
    """Some training rows as training rows, others as test rows."""
    return replace(task, X=task.X[chosen], Y=task.Y[chosen], X_test=task.X[rest], Y_test=task.Y[rest])


def shuffled(task: LabelSets, seed: int) -> LabelSets:
    """All rows drawn anew into as many training and test rows as before."""
    # training and then test rows, for other splits
    both = (task.X, task.X_test)
    X = sp.vstack(both, format="csr") if sp.issparse(task.X) else np.concatenate(both)
    Y = np.concatenate((task.Y, task.Y_test))
    order, n = np.random.default_rng(seed).permutation(Y.shape[0]), task.Y.shape[0]
    return rows_of(replace(task, X=X, Y=Y), np.sort(order[:n]), np.sort(order[n:]))


def hold_outs(task: LabelSets, folds: int = 1, seed: int = 0) -> list[LabelSets]:
    """For the choice of parameters: training rows as training and test rows.

    One fold: a fifth of the rows are test rows. More: each of that many parts in turn.
    """
    order = np.random.default_rng(seed).permutation(task.Y.shape[0])
    count = 1 / HELD_OUT if folds == 1 else folds
    cuts = np.round(np.arange(folds + 1) * order.shape[0] / count).astype(int).tolist()
    made = []
    for first, last in itertools.pairwise(cuts):
        rest = np.concatenate([order[:first], order[last:]])
        made.append(rows_of(task, np.sort(rest), np.sort(order[first:last])))
    return made


def unit_rows(task: LabelSets) -> LabelSets:
    """Rows of length 1, as CSR."""
    return replace(task, X=sp.csr_matrix(normalize(task.X)), X_test=sp.csr_matrix(normalize(task.X_test)))


def standardised(task: LabelSets) -> LabelSets:
    """Columns of mean 0 and variance 1/d by the training rows; missing values are the mean."""
    mean, scale = np.nanmean(task.X, axis=0), np.nanstd(task.X, axis=0)
    scale = np.where(scale > 0.0, scale, 1.0) * task.X.shape[1] ** 0.5
    X, X_test = (np.nan_to_num((some - mean) / scale) for some in (task.X, task.X_test))
    return replace(task, X=X, X_test=X_test)


def ocr(options: argparse.Namespace) -> Words:
    """OCR letters: 6877 words in ten folds.

    Raises
    ------
    MissingDataError
        If they are not on this machine.
    """
    path = folder_of(options) / "structured" / "ocr_letters.npz"
    if not path.is_file():
        raise MissingDataError(f"{path.name} is not in {path.parent}; give the folder above by --data.")
    with np.load(path) as data:
        X, label, word, fold = (data[name] for name in ("pixels", "label", "word", "fold"))
    start = np.flatnonzero(np.diff(word, prepend=-1))
    X = X.astype(np.float64)
    return Words(np.split(X, start[1:]), np.split(label.astype(int), start[1:]), fold[start])


def synthetic_topics(n: int = 80) -> LabelSets:
    """20 labels, sparse rows."""
    dense = synthetic_label_sets(n, 20)
    return replace(dense, X=sp.csr_matrix(dense.X), X_test=sp.csr_matrix(dense.X_test))


def synthetic_paths(n: int = 90) -> Hierarchy:
    """Three roots with two children each, one path a row."""
    rng = np.random.default_rng(0)
    paths = tuple(f"{a}" if b is None else f"{a}/{b}" for a in "abc" for b in (None, 0, 1))
    X = rng.normal(size=(2 * n, 6))
    leaf = np.argmax(X + 0.3 * rng.normal(size=X.shape), axis=1)
    Y = np.zeros((2 * n, 9), dtype=int)
    rows = np.arange(2 * n)
    Y[rows, 3 * (leaf // 2)] = 1
    Y[rows, 3 * (leaf // 2) + 1 + leaf % 2] = 1
    return Hierarchy(X[:n], Y[:n], X[n:], Y[n:], "synthetic paths", paths)


def synthetic_words(n: int = 60) -> Words:
    """Four letters that follow each other in turn, seen through noise; two folds."""
    rng = np.random.default_rng(0)
    Y = [(int(first) + np.arange(length)) % 4 for first, length in zip(*rng.integers(2, 7, (2, n)), strict=True)]
    X = [np.eye(4)[y] + 0.6 * rng.normal(size=(y.shape[0], 4)) for y in Y]
    return Words(X, Y, np.arange(n) % 2)


def jaccards(Y: Array, predicted: Array) -> Array:
    """Jaccard index of every row; 1 where both sets are empty."""
    both, either = (Y & predicted).sum(axis=1), (Y | predicted).sum(axis=1)
    return np.where(either > 0, both / np.maximum(either, 1), 1.0)


def scores(Y: Array, predicted: Array) -> dict[str, float]:
    """Scores of predicted label sets, by scikit-learn's functions."""
    return {
        "jaccard": jaccard_score(Y, predicted, average="samples", zero_division=1.0),
        "hamming": hamming_loss(Y, predicted),
        "micro_f1": f1_score(Y, predicted, average="micro", zero_division=0.0),
        "example_f1": f1_score(Y, predicted, average="samples", zero_division=1.0),
        "macro_f1": f1_score(Y, predicted, average="macro", zero_division=0.0),
    }


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error (NaN for one value)."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return statistics.fmean(values), error


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings of unfinished training (the gap is in the tables) and of columns with one class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MarginConvergenceWarning)
        warnings.filterwarnings("ignore", message="Label .* is present in all training examples")
        warnings.filterwarnings("ignore", message="Liblinear failed to converge")
        yield


@dataclass
class Clock:
    """A callback that notes processor seconds, passes and the gap; `fit` runs a fit under it."""

    seen: list[tuple[float, int, float]] = field(default_factory=list)
    processor: float = 0.0
    wall: float = 0.0
    _started: float = 0.0

    def __call__(self, progress: Any) -> None:
        self.seen.append((time.process_time() - self._started, progress.iteration, progress.gap))

    def fit(self, train: Callable[[], Any]) -> Any:
        """Run a fit that has this clock among its callbacks."""
        wall, self._started = time.perf_counter(), time.process_time()
        with quietly():
            made = train()
        self.processor, self.wall = time.process_time() - self._started, time.perf_counter() - wall
        return made

    def until(self, gap: float) -> tuple[float, int] | None:
        """Processor seconds and passes to a certified gap, certificates counted; None if it was not reached."""
        return next(((seconds, passes) for seconds, passes, reached in self.seen if reached <= gap), None)


def paired(runs: Sequence[Mapping[str, Any]], method: str, reference: str, score: str) -> tuple[float, float]:
    """Mean difference of a score to the reference's on the same splits, and its standard error."""
    values = {(run["method"], run["split"]): run[score] for run in runs}
    splits = [split for name, split in values if name == method]
    return mean_and_error([values[method, split] - values[reference, split] for split in splits])
