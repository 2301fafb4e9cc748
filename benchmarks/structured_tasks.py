"""What the benchmarks of structural SVMs share: their data, scores, splits, and the clock that watches a fit."""

import argparse
import gzip
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import f1_score, hamming_loss, jaccard_score
from sklearn.preprocessing import normalize

from benchmarks.common import ROOT, MissingDataError, data_folder
from widemargin.exceptions import MarginConvergenceWarning

__all__ = [
    "SCORES", "Clock", "LabelSets", "Words", "hierarchical", "hold_outs", "jaccards", "mean_and_error", "ocr",
    "quietly", "rcv1", "scores", "shuffled", "standardised", "synthetic_hierarchy", "synthetic_topics",
    "synthetic_words",
]  # fmt: skip

Array = npt.NDArray[Any]

SCORES = ("jaccard", "hamming", "micro_f1", "example_f1", "macro_f1")
N_TOPICS, TOPIC_COLUMNS, TOPIC_SPLIT = 50, 47236, 3000
HELD_OUT = 0.2


@dataclass(frozen=True)
class LabelSets:
    """Training and test rows with their label sets; `paths` are the names of the labels of a hierarchy."""

    X: Any
    Y: Array
    X_test: Any
    Y_test: Array
    paths: tuple[str, ...] = ()

    def rows(self, chosen: Array, rest: Array) -> "LabelSets":
        """Some training rows as training rows, others as test rows."""
        return LabelSets(self.X[chosen], self.Y[chosen], self.X[rest], self.Y[rest], self.paths)


@dataclass(frozen=True)
class Words:
    """Handwritten words: an array of pixels per word, one row a letter; its letters; its fold."""

    X: list[Array]
    Y: list[Array]
    fold: Array


def folder_of(options: argparse.Namespace, name: str) -> Path:
    """A subfolder of the data."""
    return (data_folder(options.data) or ROOT.parent / "shared" / "data") / name


def _present(path: Path) -> Path:
    if not path.is_file():
        raise MissingDataError(f"{path.name} is not in {path.parent}; give the folder above by --data.")
    return path


def rcv1(options: argparse.Namespace) -> LabelSets:
    """rcv1subset1 with its 50 most frequent labels: the file's first 3000 rows, and the other 3000.

    Raises
    ------
    MissingDataError
        If it is not on this machine.
    """
    path = _present(folder_of(options, "multilabel") / "rcv1subset1.libsvm.gz")
    X, labels = load_svmlight_file(str(path), n_features=TOPIC_COLUMNS, multilabel=True)
    Y = np.zeros((X.shape[0], 1 + int(max(max(row, default=0) for row in labels))), dtype=int)
    for i, row in enumerate(labels):
        Y[i, np.asarray(row, dtype=int)] = 1
    Y = Y[:, np.sort(np.argsort(-Y.sum(axis=0), kind="stable")[:N_TOPICS])]
    return LabelSets(X[:TOPIC_SPLIT], Y[:TOPIC_SPLIT], X[TOPIC_SPLIT:], Y[TOPIC_SPLIT:])


def shuffled(task: LabelSets, seed: int) -> LabelSets:
    """All rows drawn anew into as many training and test rows as before."""
    X = sp.vstack([task.X, task.X_test], format="csr") if sp.issparse(task.X) else np.concatenate([task.X, task.X_test])
    Y = np.concatenate([task.Y, task.Y_test])
    order, n = np.random.default_rng(seed).permutation(Y.shape[0]), task.Y.shape[0]
    return LabelSets(X, Y, X, Y, task.paths).rows(np.sort(order[:n]), np.sort(order[n:]))


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
        made.append(task.rows(np.sort(rest), np.sort(order[first:last])))
    return made


def hierarchical(options: argparse.Namespace, training: Sequence[str], test: str, *, unit: bool = False) -> LabelSets:
    """Clus files. Columns are scaled to mean 0 and variance 1/d by the training rows, or rows to length 1 (`unit`).

    Missing values are the column's mean. A label comes with all its ancestors.

    Raises
    ------
    MissingDataError
        If they are not on this machine.
    """
    folder = folder_of(options, "hierarchical")
    parts = [_clus(_present(folder / name)) for name in training]
    X, Y, paths = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), parts[0][2]
    X_test, Y_test, _ = _clus(_present(folder / test))
    if unit:
        return LabelSets(sp.csr_matrix(normalize(X)), Y, sp.csr_matrix(normalize(X_test)), Y_test, paths)
    return standardised(LabelSets(X, Y, X_test, Y_test, paths))


def standardised(task: LabelSets) -> LabelSets:
    """Columns of mean 0 and variance 1/d by the training rows; missing values are the mean."""
    mean, scale = np.nanmean(task.X, axis=0), np.nanstd(task.X, axis=0)
    scale = np.where(scale > 0.0, scale, 1.0) * task.X.shape[1] ** 0.5
    X, X_test = (np.nan_to_num((some - mean) / scale) for some in (task.X, task.X_test))
    return LabelSets(X, task.Y, X_test, task.Y_test, task.paths)


def _clus(path: Path) -> tuple[Array, Array, tuple[str, ...]]:
    """Columns, closed label sets and paths of a Clus file."""
    head, _, body = gzip.decompress(path.read_bytes()).decode().replace("@data", "@DATA").partition("@DATA")
    named = next(line for line in head.splitlines() if line.split()[1:2] == ["class"])
    paths = tuple(dict.fromkeys(named.split("hierarchical")[1].strip().split(",")))
    index = {name: node for node, name in enumerate(paths)}
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    Y = np.zeros((len(lines), len(paths)), dtype=int)
    X = np.empty((len(lines), lines[0].count(",")))
    for i, line in enumerate(lines):
        *values, labels = line.split(",")
        X[i] = [np.nan if value == "?" else float(value) for value in values]
        for label in labels.split("@"):
            parts = label.split("/")
            for depth in range(1, len(parts) + 1):
                node = index.get("/".join(parts[:depth]))
                if node is not None:
                    Y[i, node] = 1
    return X, Y, paths


def ocr(options: argparse.Namespace) -> Words:
    """OCR letters: 6877 words in ten folds.

    Raises
    ------
    MissingDataError
        If they are not on this machine.
    """
    with np.load(_present(folder_of(options, "structured") / "ocr_letters.npz")) as data:
        X, label, word, fold = (data[name] for name in ("pixels", "label", "word", "fold"))
    start = np.flatnonzero(np.diff(word, prepend=-1))
    X = X.astype(np.float64)
    return Words(np.split(X, start[1:]), np.split(label.astype(int), start[1:]), fold[start])


def synthetic_topics(n: int = 80) -> LabelSets:
    """20 labels, each of which follows from its neighbours; sparse rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * n, 21)) * (rng.random((2 * n, 21)) < 0.7)
    Y = (X[:, :20] + X[:, 1:] > 0.8).astype(int)
    return LabelSets(sp.csr_matrix(X[:n]), Y[:n], sp.csr_matrix(X[n:]), Y[n:])


def synthetic_hierarchy(n: int = 90) -> LabelSets:
    """Three roots with two children each; rows have one path, or end at a root."""
    rng = np.random.default_rng(0)
    paths = tuple(f"{a}" if b is None else f"{a}/{b}" for a in "abc" for b in (None, 0, 1))
    X = rng.normal(size=(2 * n, 6))
    leaf = np.argmax(X + 0.3 * rng.normal(size=X.shape), axis=1)
    Y = np.zeros((2 * n, 9), dtype=int)
    rows = np.arange(2 * n)
    Y[rows, 3 * (leaf // 2)] = 1
    Y[rows, 3 * (leaf // 2) + 1 + leaf % 2] = 1
    return LabelSets(X[:n], Y[:n], X[n:], Y[n:], paths)


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
