"""Small kernel SVMs, and their optimum by a generic interior-point solver."""

import importlib.util
from typing import Any

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.problem import KernelProblem

__all__ = ["DEVICES", "RBF", "Counting", "data", "exact", "problem"]

RBF = Kernel("rbf", 0.3)


def _has_gpu() -> bool:
    return importlib.util.find_spec("torch") is not None and importlib.import_module("torch").cuda.is_available()


DEVICES = [
    "array-api",
    pytest.param("torch", marks=pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")),
    pytest.param("torch:cuda", marks=pytest.mark.skipif(not _has_gpu(), reason="needs PyTorch and a GPU")),
]
"""Backends of the code for devices."""


class Counting:
    """The kernel `RBF` as a function that counts the pairs it is asked for."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Kernel values of all pairs."""
        self.count += X.shape[0] * Y.shape[0]
        return np.exp(-RBF.gamma * ((X[:, None] - Y[None]) ** 2).sum(axis=2))


def data(seed: int = 0, n: int = 300, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of two classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0.1, 1.0, -1.0)
    return X, y


def problem(
    X: Any, y: np.ndarray, C: Any = 1.0, kernel: Kernel = RBF, fit_intercept: bool = True, **options: Any
) -> KernelProblem:
    """A kernel SVM; C is a number, or one for each row."""
    upper = np.full(y.shape[0], C) if np.isscalar(C) else C
    return KernelProblem(KernelRows(kernel, X, **options), y, upper, fit_intercept)


def exact(p: KernelProblem) -> float:
    """Optimal value by clarabel."""
    n = p.n_rows
    K = p.rows.block(slice(None)).astype(float)
    A = [np.eye(n), -np.eye(n)]
    lower, upper = p.bounds
    b, cones = [upper, -lower], [clarabel.NonnegativeConeT(2 * n)]
    if p.fit_intercept:
        A, b, cones = [np.ones((1, n)), *A], [np.zeros(1), *b], [clarabel.ZeroConeT(1), *cones]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = 1e-10
    P = sp.csc_matrix(np.triu(K + 1e-12 * np.eye(n)))
    found = clarabel.DefaultSolver(P, -p.y, sp.csc_matrix(np.vstack(A)), np.concatenate(b), cones, settings).solve()
    return float(-found.obj_val)
