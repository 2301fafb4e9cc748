"""Rows of a kernel matrix: the cache gives what is computed, and the counter counts what a function is asked for."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import pairwise_kernels, polynomial_kernel, rbf_kernel

from widemargin.exceptions import KernelError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows

RBF = Kernel("rbf", 0.4)


def rows(n=40, d=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def cache_of(n_rows, n=40):
    """Megabytes for so many rows of n float64."""
    return n_rows * n * 8 / MEGABYTE


class Counting:
    """A Gaussian kernel that counts the pairs it is asked for."""

    def __init__(self):
        self.count = 0

    def __call__(self, X, Y):
        self.count += X.shape[0] * Y.shape[0]
        return rbf_kernel(X, Y, 0.4)


@given(seed=st.integers(0, 1000), capacity=st.integers(1, 12))
def test_cached_rows_are_the_rows(seed, capacity):
    X = rows()
    made, K = KernelRows(RBF, X, cache_size=cache_of(capacity)), rbf_kernel(X, gamma=0.4)
    assert made.capacity == capacity
    rng = np.random.default_rng(seed)
    for _ in range(6):
        wanted = rng.permutation(40)[: rng.integers(1, capacity + 1)]
        buffer, slot = made.cached(wanted)
        np.testing.assert_allclose(buffer[slot], K[wanted], rtol=1e-12)
        assert buffer.shape[0] == capacity
        assert made.evaluations == 40 * made.misses


def test_the_row_not_used_for_longest_goes():
    made = KernelRows(RBF, rows(), cache_size=cache_of(3))
    made.cached(np.array([1, 2, 3]))
    made.cached(np.array([1]))
    made.cached(np.array([4]))  # evicts 2
    assert (made.hits, made.misses) == (1, 4)
    made.cached(np.array([3, 1]))
    assert (made.hits, made.misses) == (3, 4)
    made.cached(np.array([2]))
    assert (made.hits, made.misses) == (3, 5)


def test_rows_found_are_not_evicted_for_those_computed_with_them():
    made = KernelRows(RBF, rows(), cache_size=cache_of(3))
    made.cached(np.array([1, 2, 3]))
    buffer, slot = made.cached(np.array([4, 1, 5]))  # 1 is the oldest, and wanted
    np.testing.assert_allclose(buffer[slot], rbf_kernel(rows(), gamma=0.4)[[4, 1, 5]], rtol=1e-12)
    assert made.hits == 1


def test_too_small_a_cache_is_refused_with_numbers():
    with pytest.raises(KernelError, match=r"cache_size=0\.0001 MB cannot hold one row of 40 kernel values"):
        KernelRows(RBF, rows(), cache_size=1e-4)
    made = KernelRows(RBF, rows(), cache_size=cache_of(2))
    with pytest.raises(KernelError, match="3 kernel rows were asked for and 2 fit"):
        made.cached(np.array([0, 1, 2]))


def test_the_counter_counts_what_a_function_is_asked_for():
    function = Counting()
    made = KernelRows(Kernel("callable", function=function), rows(), cache_size=cache_of(5))
    steps = [
        lambda: made.block(np.array([1, 5]), np.array([2, 3, 4])),
        lambda: made.block(slice(3, 9)),
        lambda: made.cached(np.array([1, 2, 3])),
        lambda: made.cached(np.array([2, 3, 4])),
        made.diagonal,
        made.full,
        lambda: made.products(rows(7), np.ones(40)),
    ]
    counts = []
    for step in steps:
        step()
        assert made.evaluations == function.count
        counts.append(function.count)
    assert np.diff([0, *counts])[:5].tolist() == [6, 240, 120, 40, 40]
    named = KernelRows(RBF, rows(), cache_size=cache_of(5))
    named.full()
    assert named.evaluations == counts[5] - counts[4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_whole_matrix_is_symmetric_to_the_bit(dtype):
    made = KernelRows(RBF, rows(300).astype(dtype))
    K = made.full()
    assert K.dtype == dtype
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diagonal(K), 1.0)
    assert made.evaluations < 0.95 * 300 * 300


@pytest.mark.parametrize("packed", [False, True])
def test_powers_on_their_way_into_the_cache_take_little_memory(packed):
    X = (rows(3000, 20) > 1.5).astype(float) if packed else rows(3000, 4)
    made = KernelRows(Kernel("poly", 0.3, 7, 1.0), X)
    assert (made._rows.packed is not None) is packed
    made.cache()[0].fill(0.0)
    KernelRows(made.kernel, X).cached(np.arange(10))  # what is compiled takes memory, too
    tracemalloc.start()
    try:
        made.cached(np.arange(400))
        assert tracemalloc.get_traced_memory()[1] < 400 * 3000 * 8 / 4
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(made.cached(np.arange(2))[0][0], polynomial_kernel(X[:1], X, 7, 0.3, 1.0)[0])


@pytest.mark.parametrize("sparse", [False, True])
def test_products_with_new_rows(sparse, monkeypatch):
    monkeypatch.setattr(KernelRows, "at_once", 150)  # blocks of three rows
    X, new = rows(), rows(11, seed=1)
    if sparse:
        X, new = sp.csr_matrix(X), sp.csr_matrix(new)
    K = rbf_kernel(new, X, 0.4)
    one, two = np.arange(40.0), np.random.default_rng(2).standard_normal((40, 2))
    made = KernelRows(RBF, X)
    np.testing.assert_allclose(made.products(new, one), K @ one, rtol=1e-12)
    np.testing.assert_allclose(made.products(new, two), K @ two, rtol=1e-10)


def test_float32_is_close_to_float64():
    X = rows(200, 30)
    single, double = (KernelRows(Kernel("rbf", 0.05), X, dtype=kind).full() for kind in (np.float32, np.float64))
    np.testing.assert_allclose(single, double, atol=2e-6)


def test_precomputed_rows_must_be_square():
    with pytest.raises(KernelError, match="must be square"):
        KernelRows(Kernel("precomputed"), rows())
    K = rbf_kernel(rows(), gamma=0.4)
    K = 0.5 * (K + K.T)  # not symmetric to the last bit
    made = KernelRows(Kernel("precomputed"), K, cache_size=cache_of(4))
    np.testing.assert_array_equal(made.block(np.array([3, 1]), np.array([2, 0])), K[[3, 1]][:, [2, 0]])
    buffer, slot = made.cached(np.array([7, 2]))
    np.testing.assert_array_equal(buffer[slot], K[[7, 2]])
    np.testing.assert_array_equal(made.full(), K)


@pytest.mark.parametrize("kernel", [RBF, Kernel("precomputed")], ids=lambda kernel: kernel.name)
def test_a_subset_counts_and_caches_with_the_whole(kernel):
    K = rbf_kernel(rows(), gamma=0.4)
    made = KernelRows(kernel, 0.5 * (K + K.T) if kernel.name == "precomputed" else rows(), cache_size=cache_of(4))
    some = np.array([30, 2, 17, 5, 9, 11, 21, 33])
    part = made.subset(some)
    assert (part.n_rows, part.capacity) == (8, 8)  # shorter rows: more of them fit
    made.cached(np.array([3, 1]))
    buffer, slot = part.cached(np.arange(6))
    np.testing.assert_allclose(buffer[slot], K[some[:6]][:, some], rtol=1e-12)
    assert part.evaluations == made.evaluations == 2 * 40 + 6 * 8
    np.testing.assert_allclose(part.block(np.array([7]), np.array([0, 1])), K[[33]][:, [30, 2]], rtol=1e-12)
    buffer, slot = made.cached(np.array([3]))  # forgotten: the memory was the subset's
    np.testing.assert_allclose(buffer[slot], K[[3]], rtol=1e-12)
    assert made.misses == 3
    assert part.misses == 6


@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "laplacian", "sigmoid"])
@pytest.mark.parametrize("made", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cached_rows_of_few_entries_are_those_of_sklearn(name, made, dtype):
    X = (np.random.default_rng(0).random((60, 50)) < 0.1).astype(dtype)
    wanted = pairwise_kernels(X, metric=name, filter_params=True, gamma=0.1, degree=2, coef0=0.5)
    rows = KernelRows(Kernel(name, 0.1, 2, 0.5), made(X))
    buffer, slot = rows.cached(np.arange(60))
    np.testing.assert_allclose(buffer[slot], wanted, rtol=1e-5)


def test_functions_that_are_not_symmetric_are_refused():
    M = np.array([[1.0, 2.0], [-1.0, 0.5]])
    made = KernelRows(Kernel("callable", function=lambda A, B: A @ M @ B.T), rows(d=2))
    with pytest.raises(KernelError, match=r"not symmetric: K\(x, z\) and K\(z, x\) differ by up to"):
        made.check_function()
    KernelRows(Kernel("callable", function=lambda A, B: A @ (M + M.T) @ B.T), rows(d=2)).check_function()
    other = KernelRows(RBF, rows())
    other.check_function()
    assert other.evaluations == 0
