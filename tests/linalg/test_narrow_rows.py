"""Kernel rows that compiled loops compute by themselves, against NumPy and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from widemargin.exceptions import KernelError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.linalg.cholesky import turned_apart
from widemargin.linalg.powers import fill_row, power_of_two


@pytest.mark.parametrize(("kind", "lowest", "right"), [(np.float32, -126, 1.1e-7), (np.float64, -1022, 5e-16)])
def test_powers_are_right_to_the_last_digits(kind, lowest, right):
    t = np.concatenate((np.linspace(lowest, 0.0, 5001), np.linspace(-0.5, -0.4, 20_001))).astype(kind)
    found = np.array([power_of_two(value) for value in t])
    np.testing.assert_allclose(found, 2.0 ** t.astype(np.longdouble), rtol=right, atol=0.0)
    assert power_of_two(kind(0.0)) == 1.0
    assert power_of_two(kind(-1e9)) == 2.0**lowest


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 4, 7])
def test_rows_are_those_of_the_kernel(kind, d):
    X = np.random.default_rng(0).normal(size=(700, d))
    cubes = polynomial_kernel(X, degree=3, gamma=0.3, coef0=0.5)
    for kernel, values in (
        (Kernel("rbf", 0.3), rbf_kernel(X, gamma=0.3)),
        (Kernel("linear"), X @ X.T),
        (Kernel("poly", 0.3, 3, 0.5), cubes),
    ):
        narrow, row, sums = KernelRows(kernel, X).narrow(), np.empty(700, kind), np.empty(512)
        for run in (fill_row, fill_row.py_func)[: 1 + (d == 1)]:
            run(*narrow, 3, row, sums)
            np.testing.assert_allclose(row, values[3], rtol=1e-6 if kind == np.float32 else 1e-12, atol=1e-12)
    for other in (Kernel("sigmoid", 0.3), Kernel("poly", 0.3, 2, -1.0), Kernel("poly", 0.3, 2.5, 1.0)):
        assert KernelRows(other, X).narrow() is None
    assert KernelRows(Kernel("rbf", 0.3), np.zeros((1000, 300))).narrow() is None


def test_powers_that_overflow_are_an_error():
    with pytest.raises(KernelError, match="not finite"):
        KernelRows(Kernel("poly", 1.0, 9), np.full((20, 2), 1e30)).narrow()


def test_one_pass_tells_what_is_not_symmetric():
    rng = np.random.default_rng(0)
    K, weight, apart = rng.normal(size=(30, 30)), rng.normal(size=30), np.empty(30)
    for run in (turned_apart, turned_apart.py_func):
        run(K, weight, apart)
        np.testing.assert_allclose(apart, (K - K.T) @ weight, atol=1e-12)
    K[3, 4] = np.nan
    turned_apart(K, weight, apart)
    assert not np.isfinite(apart).all()
