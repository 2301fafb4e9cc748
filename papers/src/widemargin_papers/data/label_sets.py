"""Multi-label data: yeast and RCV1's first subset from their files, and synthetic label sets."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_svmlight_file

from widemargin.datasets.files import CATALOGUE, Folder, text_of
from widemargin.exceptions import DataError, MissingDataError


@dataclass(frozen=True)
class LabelSets:
    """Rows with sets of labels, as published in two parts.

    Attributes
    ----------
    X, X_test : ndarray or csr_matrix of shape (n, d) and (n_test, d)
    Y, Y_test : ndarray of int64, 0 or 1, shape (n, k) and (n_test, k)
    name : str
    """

    X: Any
    Y: npt.NDArray[np.int64]
    X_test: Any
    Y_test: npt.NDArray[np.int64]
    name: str


def load_yeast(folder: Folder) -> LabelSets:
    """Yeast (Elisseeff and Weston 2001): 1500 and 917 genes, 103 features, 14 functional classes.

    Parameters
    ----------
    folder : path-like or None
        Holds `yeast-train.arff` and `yeast-test.arff`, packed (`.gz`) or not; or its subfolder `multilabel` does.

    Raises
    ------
    MissingDataError
        If the files are not there, or hold something else.
    """
    parts: list[Any] = []
    for path in CATALOGUE["yeast"].paths(folder, "yeast"):
        lines = [line for line in text_of(path).splitlines() if line and line[0] not in "@%"]
        try:
            table = np.array([line.split(",") for line in lines], dtype=np.float64)
        except ValueError as error:
            raise MissingDataError(f"{path} is no file of yeast: {error}.") from None
        if table.ndim != 2 or table.shape[1] <= 14:
            raise MissingDataError(f"{path} is no file of yeast: its table has the shape {table.shape}.")
        parts += [table[:, :-14], table[:, -14:].astype(np.int64)]
    return LabelSets(*[*parts, "yeast"])


def load_rcv1(folder: Folder, n_labels: int = 101) -> LabelSets:
    """RCV1's first subset: 3000 and 3000 articles, 47236 tf-idf features, 101 topics.

    Parameters
    ----------
    folder : path-like or None
        Holds `rcv1subset1.libsvm`, packed (`.gz`) or not; or its subfolder `multilabel` does.
    n_labels : int, default=101
        So many topics, the most frequent ones of all rows, most frequent first.

    Raises
    ------
    DataError
        If there are not so many labels.
    MissingDataError
        If the file is not there.
    """
    if not 1 <= n_labels <= 101:
        raise DataError(f"n_labels is {n_labels}; rcv1subset1 has 101 labels.")
    (path,) = CATALOGUE["rcv1subset1"].paths(folder, "rcv1subset1")
    X, topics = load_svmlight_file(str(path), n_features=47236, multilabel=True)
    Y = np.zeros((X.shape[0], 101), dtype=np.int64)
    for row, labels in enumerate(topics):
        Y[row, np.array(labels, dtype=np.intp)] = 1
    Y = Y[:, np.argsort(-Y.sum(axis=0), kind="stable")[:n_labels]]
    return LabelSets(X[:3000], Y[:3000], X[3000:], Y[3000:], f"rcv1subset1, {n_labels} labels")


def synthetic_label_sets(n: int, k: int, seed: int = 0, d: int = 20) -> LabelSets:
    """Labels that depend on the features and on each other, n training and n test rows.

    Parameters
    ----------
    n, k : int
        Rows, labels.
    seed : int
    d : int
        Features.
    """
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(d, k)) / np.sqrt(d)
    pull = 0.6 * rng.normal(size=(k, k)) / np.sqrt(k)
    parts: list[Any] = []
    for _ in range(2):
        X = rng.normal(size=(n, d))
        score = 2.0 * X @ weight - 0.5
        Y = (score + 0.5 * rng.normal(size=score.shape) > 0.0).astype(np.float64)
        for _ in range(3):
            Y = (score + Y @ (pull + pull.T) + 0.5 * rng.normal(size=score.shape) > 0.0).astype(np.float64)
        parts += [X, Y.astype(np.int64)]
    return LabelSets(*[*parts, f"synthetic rows (n={n})"])
