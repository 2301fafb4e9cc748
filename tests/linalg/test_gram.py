"""Rows known by their kernel matrix: the same numbers as rows with explicit features."""

import numpy as np
import pytest

from widemargin.exceptions import KernelError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks


def sources(X):
    """The matrix in memory, and a cache of five rows over it."""
    kernel, n = Kernel("linear"), X.shape[0]
    return KernelRows(kernel, X).full(), KernelRows(kernel, X, cache_size=5 * n * 8 / MEGABYTE)


@pytest.mark.parametrize("which", [0, 1])
def test_products_are_those_of_the_features(which):
    rng = np.random.default_rng(0)
    X, c = rng.standard_normal((20, 3)), rng.standard_normal(20) * (rng.random(20) < 0.7)
    gram, flat = GramRows(sources(X)[which]), RowBlocks([(X, None)])
    w = X.T @ c
    assert (gram.n_rows, gram.n_features) == (20, 20)
    np.testing.assert_allclose(gram.dot(c), flat.dot(w), atol=1e-12)
    assert gram.square(c) == pytest.approx(flat.square(w), rel=1e-12)
    assert gram.square(c, flat.dot(w)) == pytest.approx(float(w @ w), rel=1e-12)
    np.testing.assert_allclose(gram.norms2(), flat.norms2())
    np.testing.assert_array_equal(gram.tdot(c), c)
    out = np.empty(20)
    assert gram.dot(c, out) is out
    wanted = np.array([3, 1])
    buffer, slot = gram.some(wanted)
    np.testing.assert_allclose(buffer[slot], X[wanted] @ X.T, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_in_double_precision(dtype):
    rng = np.random.default_rng(0)
    X, c = rng.standard_normal((12, 3)), rng.standard_normal(12)
    product = GramRows((X @ X.T).astype(dtype)).dot(c)
    assert product.dtype == np.float64
    np.testing.assert_allclose(product, X @ X.T @ c, atol=1e-4 if dtype is np.float32 else 1e-12)


def test_products_do_not_alias_what_is_remembered():
    X = np.random.default_rng(0).standard_normal((6, 3))
    gram, c = GramRows(X @ X.T), np.ones(6)
    first = gram.dot(c)
    expected = first.copy()
    first += 1.0
    np.testing.assert_array_equal(gram.dot(c), expected)
    c[0] = 2.0
    np.testing.assert_allclose(gram.dot(c), X @ X.T @ c)


def test_negative_squares_are_refused():
    K = np.diag([1.0, 1.0, -0.5])
    with pytest.raises(KernelError, match=r"K\(x, x\) = -0\.5"):
        GramRows(K)
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(KernelError, match="a squared norm came out as -2"):
        GramRows(K).square(np.array([1.0, -1.0]))


def test_rounding_is_no_negative_square():
    X = np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32)
    null = np.linalg.svd(X.astype(np.float64).T)[2][-1]
    assert GramRows(X @ X.T).square(1e3 * null) >= 0.0
