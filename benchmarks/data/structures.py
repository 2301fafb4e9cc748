"""Label sets, hierarchies and handwritten words: their readers, stand-ins, scalings and splits."""

import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler, normalize

from widemargin.exceptions import MissingDataError
from widemargin_papers.data import Hierarchy, LabelSets, load_hierarchy, synthetic_label_sets

Array = npt.NDArray[Any]

N_TOPICS = 50


@dataclass(frozen=True)
class Words:
    """Handwritten words: an array of pixels per word, one row a letter; its letters; its fold."""

    X: list[Array]
    Y: list[Array]
    fold: Array


# --- splits and scalings ----------------------------------------------------------------------------------------------


def rows_of(task: LabelSets, chosen: Array, rest: Array) -> LabelSets:
    """Some training rows as training rows, others as test rows."""
    return replace(task, X=task.X[chosen], Y=task.Y[chosen], X_test=task.X[rest], Y_test=task.Y[rest])


def shuffled(task: LabelSets, seed: int) -> LabelSets:
    """All rows drawn anew into as many training and test rows as before."""
    both = (task.X, task.X_test)
    X = sp.vstack(both, format="csr") if sp.issparse(task.X) else np.concatenate(both)
    Y = np.concatenate((task.Y, task.Y_test))
    order, n = np.random.default_rng(seed).permutation(Y.shape[0]), task.Y.shape[0]
    return rows_of(replace(task, X=X, Y=Y), np.sort(order[:n]), np.sort(order[n:]))


def hold_outs(task: LabelSets, folds: int = 1) -> list[LabelSets]:
    """For the choice of parameters: training rows as training and test rows.

    One fold: a fifth of the rows are test rows. More: each of that many parts in turn.
    """
    cuts = KFold(5 if folds == 1 else folds, shuffle=True, random_state=0).split(task.Y)
    return [rows_of(task, chosen, rest) for chosen, rest in itertools.islice(cuts, folds)]


def unit_rows(task: LabelSets) -> LabelSets:
    """Rows of length 1, as CSR."""
    return replace(task, X=sp.csr_matrix(normalize(task.X)), X_test=sp.csr_matrix(normalize(task.X_test)))


def standardised(task: LabelSets) -> LabelSets:
    """Columns of mean 0 and variance 1/d by the training rows; missing values are the mean."""
    scaler, root = StandardScaler().fit(task.X), task.X.shape[1] ** 0.5
    X, X_test = (np.nan_to_num(scaler.transform(some) / root) for some in (task.X, task.X_test))
    return replace(task, X=X, X_test=X_test)


# --- readers, of a folder or of None for a stand-in -------------------------------------------------------------------


def hierarchy(name: str, folder: Path | None) -> Hierarchy:
    """A hierarchy of labels, scaled as its kind asks for."""
    if folder is None:
        return paths()
    scaled: Any = (unit_rows if name == "Enron_corr" else standardised)(load_hierarchy(folder, name))
    return scaled


def ocr(folder: Path | None) -> Words:
    """OCR letters: 6877 words in ten folds."""
    if folder is None:
        return words()
    path = folder / "structured" / "ocr_letters.npz"
    if not path.is_file():
        raise MissingDataError(f"{path.name} is not in {path.parent}; give the folder above by --data.")
    with np.load(path) as data:
        X, label, word, fold = (data[name] for name in ("pixels", "label", "word", "fold"))
    start = np.flatnonzero(np.diff(word, prepend=-1))
    X = X.astype(np.float64)
    return Words(np.split(X, start[1:]), np.split(label.astype(int), start[1:]), fold[start])


def topics(n: int = 80) -> LabelSets:
    """20 labels, sparse rows."""
    dense = synthetic_label_sets(n, 20)
    return replace(dense, X=sp.csr_matrix(dense.X), X_test=sp.csr_matrix(dense.X_test))


def paths(n: int = 90) -> Hierarchy:
    """Three roots with two children each, one path a row."""
    rng = np.random.default_rng(0)
    names = tuple(f"{a}" if b is None else f"{a}/{b}" for a in "abc" for b in (None, 0, 1))
    X = rng.normal(size=(2 * n, 6))
    leaf = np.argmax(X + 0.3 * rng.normal(size=X.shape), axis=1)
    Y = np.zeros((2 * n, 9), dtype=int)
    rows = np.arange(2 * n)
    Y[rows, 3 * (leaf // 2)] = 1
    Y[rows, 3 * (leaf // 2) + 1 + leaf % 2] = 1
    return Hierarchy(X[:n], Y[:n], X[n:], Y[n:], "synthetic paths", names)


def words(n: int = 60) -> Words:
    """Four letters that follow each other in turn, seen through noise; two folds."""
    rng = np.random.default_rng(0)
    Y = [(int(first) + np.arange(length)) % 4 for first, length in zip(*rng.integers(2, 7, (2, n)), strict=True)]
    X = [np.eye(4)[y] + 0.6 * rng.normal(size=(y.shape[0], 4)) for y in Y]
    return Words(X, Y, np.arange(n) % 2)
