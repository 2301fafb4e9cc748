"""Forest cover type (UCI), class 2 against the rest, and synthetic rows of its kind."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from widemargin.datasets.files import CATALOGUE, Folder, get_it
from widemargin.exceptions import MissingDataError

__all__ = ["Forest", "load_covtype", "read_covtype", "synthetic_forest"]


@dataclass(frozen=True)
class Forest:
    """Rows in a fixed random order, nine tenths of them to train on.

    Attributes
    ----------
    X, X_test : ndarray of float32, shape (n, 54) and (n_test, 54)
        Columns as published, less their means over all rows: Gaussian kernels are the same, and lose less by rounding.
    y, y_test : ndarray of -1 and +1
        +1: cover type 2, lodgepole pine.
    name : str
    """

    X: npt.NDArray[np.float32]
    y: npt.NDArray[np.float64]
    X_test: npt.NDArray[np.float32]
    y_test: npt.NDArray[np.float64]
    name: str


def load_covtype(folder: Folder) -> Forest:
    """Read the cover types from a folder, or its subfolder `binary`, and shuffle them (seed 0): they are in order.

    Parameters
    ----------
    folder : path-like or None
        With UCI's `covtype.data`, packed (`.gz`) or not, or `covtype.npz` with arrays X and y.

    Raises
    ------
    MissingDataError
        If there is no such file, or it holds other numbers.
    """
    X, kind = read_covtype(folder)
    order = np.random.default_rng(0).permutation(kind.shape[0])
    return _split(X[order].astype(np.float32), kind[order] == 2, "covtype")


def read_covtype(folder: Folder) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Columns, shape (581012, 54), and cover types, 1 to 7, as published; see `load_covtype` for files and errors."""
    (path,) = CATALOGUE["covtype"].paths(folder, "covtype")
    cure = get_it("it", CATALOGUE["covtype"].source)
    try:
        if path.suffix == ".npz":
            with np.load(path) as stored:
                X, kind = stored["X"], stored["y"]
        else:
            table = pa.csv.read_csv(path, read_options=pa.csv.ReadOptions(autogenerate_column_names=True))
            values = np.column_stack([column.to_numpy() for column in table.columns])
            X, kind = values[:, :-1], values[:, -1]
    except (OSError, ValueError, KeyError, pa.ArrowInvalid) as error:
        raise MissingDataError(f"{path} cannot be read ({error}). {cure}") from error
    if X.ndim != 2 or X.shape[1] != 54 or kind.shape != X.shape[:1]:
        raise MissingDataError(f"{path} holds shapes {X.shape} and {kind.shape}, not rows of 54. {cure}")
    return X, kind


def synthetic_forest(n: int, seed: int = 0) -> Forest:
    """Patches of two kinds of forest in ten columns of different scales, with noise; the other 44 columns are 0 or 1.

    Parameters
    ----------
    n : int
        Training rows; the test rows are a ninth of them.
    seed : int
    """
    rng = np.random.default_rng(seed)
    total = n + max(1, n // 9)
    place = rng.uniform(-1.0, 1.0, (total, 2))
    X = np.zeros((total, 54), dtype=np.float32)
    waves = np.cos(place @ rng.normal(size=(2, 10)) + rng.uniform(0.0, 6.0, 10))
    X[:, :10] = 1000.0 * waves + 20.0 * rng.normal(size=(total, 10))
    X[np.arange(total), 10 + rng.integers(44, size=total)] = 1.0
    second = np.sin(5.0 * place[:, 0]) * np.cos(5.0 * place[:, 1]) + 0.1 * rng.normal(size=total) > 0.0
    return _split(X, second, f"synthetic rows (n={n})", n)


def _split(X: npt.NDArray[np.float32], second: npt.NDArray[np.bool_], name: str, n: int | None = None) -> Forest:
    X -= X.mean(axis=0, dtype=np.float64).astype(np.float32)
    y = np.where(second, 1.0, -1.0)
    # Cotter, Shalev-Shwartz and Srebro (ICML 2012) train on 522,910 of all rows, nine tenths
    n = round(522_910 / 581_012 * y.shape[0]) if n is None else n
    return Forest(X[:n], y[:n], X[n:], y[n:], name)
