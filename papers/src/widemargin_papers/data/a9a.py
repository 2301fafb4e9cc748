"""a9a, the Adult census data in LIBSVM's binary coding, and synthetic rows of its shape."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from widemargin.datasets.files import CATALOGUE, Folder

N_FEATURES = 123
EDUCATION, FEMALE, MALE = 38, 71, 72
"""Columns of a9a counted from 0: 13 or more years of education (a Bachelor's degree or more), and the sex."""


@dataclass(frozen=True)
class Adult:
    """The rows of a9a (or rows of their kind).

    Attributes
    ----------
    X, X_test : csr_matrix of shape (n, 123) and (n_test, 123)
        With 32-bit indices, the only ones that LinearSVC takes.
    y, y_test : ndarray of -1 and +1
        +1: an income above 50,000 dollars.
    name : str
    """

    X: sp.csr_matrix
    y: npt.NDArray[np.float64]
    X_test: sp.csr_matrix
    y_test: npt.NDArray[np.float64]
    name: str

    def has(self, column: int) -> npt.NDArray[np.bool_]:
        """Training rows with a 1 in a column."""
        return np.asarray(self.X[:, [column]].todense()).ravel() > 0

    def has_test(self, column: int) -> npt.NDArray[np.bool_]:
        """Test rows with a 1 in a column."""
        return np.asarray(self.X_test[:, [column]].todense()).ravel() > 0

    @property
    def women(self) -> npt.NDArray[np.bool_]:
        """Training rows with the column Female."""
        return self.has(FEMALE)

    @property
    def populations(self) -> pa.Table:
        """Table with the column `sex` for the training rows."""
        return pa.table({"sex": np.where(self.women, "Female", "Male")})


def load_a9a(folder: Folder) -> Adult:
    """Read a9a from a folder that holds `a9a` and `a9a.t`, or from its subfolder `binary`.

    Parameters
    ----------
    folder : path-like or None
        The files may be packed: `a9a`, `a9a.gz`, `a9a.bz2`, `a9a.libsvm.gz`, ...

    Raises
    ------
    MissingDataError
        If the files are not there; the message says where to get them.
    """
    parts: list[Any] = []
    for path in CATALOGUE["a9a"].paths(folder, "a9a"):
        X, y = load_svmlight_file(str(path), n_features=N_FEATURES)
        parts += [_narrow(X), y]
    return Adult(*[*parts, "a9a"])


def synthetic_a9a(n: int, seed: int = 0) -> Adult:
    """Rows of about 14 ones in 123 binary columns, columns 71 and 72 the sex, labels that depend on it.

    Parameters
    ----------
    n : int
        Training rows, and test rows.
    seed : int
    """
    rng = np.random.default_rng(seed)
    w = rng.normal(size=N_FEATURES)
    parts: list[Any] = []
    for _ in range(2):
        woman = rng.random(n) < 1 / 3
        dense = rng.random((n, N_FEATURES)) < 12 / N_FEATURES
        dense[:, FEMALE], dense[:, MALE] = woman, ~woman
        X = sp.csr_matrix(dense.astype(np.float64))
        score = X @ w - 0.8 * woman + rng.normal(size=n)
        parts += [_narrow(X), np.where(score > np.quantile(score, 0.76), 1.0, -1.0)]
    return Adult(*[*parts, f"synthetic rows (n={n})"])


def _narrow(X: Any) -> sp.csr_matrix:
    rows = sp.csr_matrix(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows
