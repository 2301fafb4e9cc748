"""Kernel rows that compiled loops compute by themselves, against NumPy and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.linalg.narrow_rows import fill_row, negative_power
from widemargin.linalg.symmetric import turned_apart


def test_the_power_is_right_to_the_last_digits():
    t = np.concatenate((np.linspace(0.0, 50.0, 5001), np.linspace(50.0, 700.0, 651)))
    found = np.array([negative_power(value) for value in t])
    np.testing.assert_allclose(found, np.exp(-t), rtol=5e-16, atol=0.0)
    assert negative_power(0.0) == 1.0
    assert 0.0 < negative_power(1e9) < 1e-300


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 4, 7])
def test_rows_are_those_of_the_kernel(kind, d):
    X = np.random.default_rng(0).normal(size=(700, d))
    for kernel, values in ((Kernel("rbf", 0.3), rbf_kernel(X, gamma=0.3)), (Kernel("linear"), X @ X.T)):
        narrow, row, sums = KernelRows(kernel, X).narrow(), np.empty(700, kind), np.empty(512)
        for run in (fill_row, fill_row.py_func)[: 1 + (d == 1)]:
            run(*narrow, 3, row, sums)
            np.testing.assert_allclose(row, values[3], rtol=1e-6 if kind == np.float32 else 1e-12, atol=1e-12)
    assert KernelRows(Kernel("poly", 0.3, 2), X).narrow() is None
    assert KernelRows(Kernel("rbf", 0.3), np.zeros((1000, 300))).narrow() is None


def test_one_pass_tells_what_is_not_symmetric():
    rng = np.random.default_rng(0)
    K, weight, apart = rng.normal(size=(30, 30)), rng.normal(size=30), np.empty(30)
    for run in (turned_apart, turned_apart.py_func):
        run(K, weight, apart)
        np.testing.assert_allclose(apart, (K - K.T) @ weight, atol=1e-12)
    K[3, 4] = np.nan
    turned_apart(K, weight, apart)
    assert not np.isfinite(apart).all()
