"""Covertype's first class and ijcnn1, dense data sets of two classes, and synthetic rows of their kinds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_svmlight_file

from widemargin.datasets.files import Folder, find, get_it
from widemargin_papers.data.covtype import read_covtype

__all__ = ["TwoClasses", "load_ijcnn1", "load_spruce", "synthetic_rows"]

NUMERIC = 10
"""Columns of Covertype that are numbers; the other 44 are 0 or 1."""

_IJCNN1 = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"


@dataclass(frozen=True)
class TwoClasses:
    """Rows of two classes.

    Attributes
    ----------
    X : ndarray of float32, shape (n, d)
    y : ndarray of -1.0 and +1.0, shape (n,)
    name : str
    """

    X: npt.NDArray[np.float32]
    y: npt.NDArray[np.float64]
    name: str


def load_spruce(folder: Folder) -> TwoClasses:
    """Covertype's class 1 (spruce and fir) against the rest: 10 numeric columns scaled to [0, 1], then 44 of 0 and 1.

    Parameters
    ----------
    folder : path-like or None
        As for `load_covtype`.

    Raises
    ------
    MissingDataError
        If there is no such file, or it holds other numbers.
    """
    X, kind = read_covtype(folder)
    X = X.astype(np.float32)
    low, high = X[:, :NUMERIC].min(axis=0), X[:, :NUMERIC].max(axis=0)
    X[:, :NUMERIC] = (X[:, :NUMERIC] - low) / (high - low)
    return TwoClasses(X, np.where(kind == 1, 1.0, -1.0), "covtype")


def load_ijcnn1(folder: Folder) -> TwoClasses:
    """The training rows of ijcnn1: 49,990 rows of 22 columns, a tenth of them positive.

    Parameters
    ----------
    folder : path-like or None
        Holds `ijcnn1`, which may be packed (`.gz`, `.bz2`), or has it in `binary`.

    Raises
    ------
    MissingDataError
        If the file is not there.
    """
    names = tuple(f"ijcnn1{ending}" for ending in ("", ".gz", ".bz2", ".libsvm", ".libsvm.gz"))
    X, y = load_svmlight_file(str(find(folder, "binary", names, "ijcnn1", get_it("it", _IJCNN1))), n_features=22)
    return TwoClasses(X.toarray().astype(np.float32), np.where(y > 0, 1.0, -1.0), "ijcnn1")


def synthetic_rows(n: int, d: int, seed: int = 0) -> TwoClasses:
    """Rows in [0, 1] of two classes that overlap.

    Parameters
    ----------
    n : int
    d : int
    seed : int
    """
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    X = 0.5 + 0.15 * rng.normal(size=(n, d)) + 0.08 * y[:, None] * rng.normal(size=d)
    return TwoClasses(np.clip(X, 0.0, 1.0).astype(np.float32), y, f"synthetic rows (n={n})")
