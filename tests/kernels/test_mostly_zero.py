"""Products of rows that are mostly 0: those of BLAS, for every part of the rows, counted or multiplied."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin._threads import limit_threads
from widemargin.kernels import packed_rows
from widemargin.kernels.backend import NumpyBackend
from widemargin.kernels.functions import Kernel
from widemargin.kernels.packed_rows import Marked, MostlyZero, is_mostly_zero, list_entries, marked_rows_of
from widemargin.kernels.rows import KernelRows


def rows(seed=0, n=300, d=9, dtype=np.float32, binary=False, value=1.0):
    rng = np.random.default_rng(seed)
    there = rng.random((n, d)) < 0.15
    X = np.where(there, value if binary else rng.normal(size=(n, d)), 0.0).astype(dtype)
    X[0] = 0.0
    X[1] = value if binary else 1.0
    return X


def gaussian(X, Y, gamma):
    square = ((X[:, None].astype(float) - Y[None]) ** 2).sum(axis=2)
    return np.exp(-gamma * square)


@given(
    seed=st.integers(0, 100), binary=st.booleans(), float64=st.booleans(), first=st.integers(0, 299),
    width=st.integers(1, 300), d=st.integers(1, 9), value=st.sampled_from([1.0, -2.0, 0.25]),
)  # fmt: skip
def test_products_with_any_range_of_rows(seed, binary, float64, first, width, d, value):
    X = rows(seed, d=d, dtype=np.float64 if float64 else np.float32, binary=binary, value=value)
    marked, last = marked_rows_of(X), min(300, first + width)
    assert (marked is not None and marked.value == value) == binary or not np.unique(X[X != 0]).shape[0] > 1
    thin = marked or MostlyZero(X)
    out = np.full((7, last - first), np.nan, X.dtype)
    assert packed_rows.fill(thin, list_entries(X[10:15]), None, 0.0, first, last, out, np.array([6, 0, 2, 3, 4]))
    np.testing.assert_allclose(out[[6, 0, 2, 3, 4]], X[10:15] @ X[first:last].T, rtol=1e-5, atol=1e-6)
    assert np.isnan(out[[1, 5]]).all()


@pytest.mark.parametrize("binary", [False, True])
def test_kernel_values_of_every_kind_of_block(binary):
    X = rows(binary=binary)
    K, made = gaussian(X, X, 0.3), KernelRows(Kernel("rbf", 0.3), X)
    many = np.arange(200)[::-1]
    np.testing.assert_allclose(made.block(many), K[many], atol=2e-6)
    np.testing.assert_allclose(made.block(many, slice(37, 251)), K[many, 37:251], atol=2e-6)
    np.testing.assert_allclose(made.block(many, np.array([4, 280, 9])), K[many][:, [4, 280, 9]], atol=2e-6)
    buffer, slot = made.cached(many)
    np.testing.assert_allclose(buffer[slot], K[many], atol=2e-6)
    np.testing.assert_allclose(made.subset(many).block(np.arange(50)), K[many[:50]][:, many], atol=2e-6)
    assert made.evaluations == 200 * (300 + 214 + 3 + 300) + 50 * 200


def test_new_rows_of_several_values_against_rows_of_one():
    X, new = rows(binary=True), rows(1)
    made = KernelRows(Kernel("rbf", 0.3), X)
    wanted = gaussian(new, X, 0.3) @ np.arange(300.0)
    np.testing.assert_allclose(made.products(new, np.arange(300.0)), wanted, rtol=1e-5)
    assert not packed_rows.fill(
        marked_rows_of(X), list_entries(new), None, 0.0, 0, 300, np.empty((300, 300), np.float32), np.arange(300)
    )


@pytest.mark.parametrize("name", ["linear", "poly", "sigmoid", "rbf"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_kernel_is_that_of_full_rows(name, dtype):
    X = rows(dtype=dtype)
    kernel, backend = Kernel(name, 0.2, 2, 0.5), NumpyBackend()
    placed = backend.place(X, kernel, dtype)
    assert placed.packed is not None
    full = backend.place(X, kernel, dtype)
    full.packed = None
    np.testing.assert_allclose(
        backend.block(kernel, placed, placed), backend.block(kernel, full, full), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("columns", [None, slice(3, 200), np.array([5, 100, 7, 299])])
@pytest.mark.parametrize("thin", [True, False])
def test_added_rows_are_products(columns, thin, monkeypatch):
    monkeypatch.setattr(KernelRows, "sum_height", 30)
    monkeypatch.setattr(KernelRows, "sum_width", 64)
    X = rows() if thin else np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    made, change = KernelRows(Kernel("rbf", 0.3), X), np.random.default_rng(1).normal(size=100)
    part = np.arange(300)[slice(None) if columns is None else columns]
    scores = np.ones(part.shape[0])
    made.add(np.arange(100), change, scores, columns)
    np.testing.assert_allclose(scores, 1.0 + gaussian(X[part], X[:100], 0.3) @ change, atol=1e-5)
    assert made.evaluations == 100 * part.shape[0]


def test_what_is_mostly_zero():
    assert is_mostly_zero(rows())
    assert not is_mostly_zero(np.ones((5, 5)))
    assert not is_mostly_zero(np.empty((0, 3)))
    assert marked_rows_of(np.zeros((3, 2))) is None
    wide = np.zeros((4, 2000), np.float32)
    wide[0, :300] = 1.0  # more matches than a byte counts
    assert marked_rows_of(wide) is None
    wide[0, 255:] = 0.0
    assert marked_rows_of(wide) is not None
    wide[3, 7] = 2.0
    assert marked_rows_of(wide) is None


@pytest.mark.parametrize("binary", [False, True])
def test_compiled_loops_are_their_python(binary):
    X = rows(n=40, binary=binary)
    ends = []
    for python in (False, True):

        def call(name, *arguments, python=python):
            function = getattr(packed_rows, name)
            return (function.py_func if python else function)(*arguments)

        start, place, weight = np.empty(6, np.int64), np.empty(200, np.int32), np.zeros(200, np.float32)
        one_value = call("entries", X[:5], start, place, weight)
        assert one_value == binary
        packed = np.zeros((3, 10, 16), np.uint8 if binary else np.float32)
        for t in range(3):
            part = X[16 * t : 16 * t + 16].T
            packed[t, :9, : part.shape[1]] = part
        square = (X**2).sum(axis=1)
        out = np.zeros((5, 30), np.float32)
        scores, change = np.zeros(30), np.arange(5.0)
        room = (np.empty(16, np.uint8),) if binary else ()
        given = (start, place, weight, packed, square[:5], square[5:35], np.float32(-0.4), *room, 5, 5, 35)
        name = "fill_matches" if binary else "fill_products"
        with np.errstate(over="ignore"):
            call(name, *given, out, np.arange(5), np.empty(0), np.empty(0))
            call(name, *given, np.empty((1, 16), np.float32), np.zeros(5, np.int64), change, scores)
        np.testing.assert_allclose(scores, change @ out, rtol=1e-5)
        ends.append((start, place[: start[-1]], weight[: start[-1]], scores, out))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(ends[0][-1], gaussian(X[:5], X[5:35], 0.4 * np.log(2)), atol=1e-6)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("thin", [False, True])
def test_threads_change_nothing(binary, thin, monkeypatch):
    monkeypatch.setattr(Marked if binary else MostlyZero, "worth", 100)
    monkeypatch.setattr(KernelRows, "worth", 100)
    monkeypatch.setattr(KernelRows, "sum_width", 32)
    X = rows(binary=binary) if thin else np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    blocks = []
    for threads in (1, 2):
        with limit_threads(threads):
            made, scores = KernelRows(Kernel("rbf", 0.3), X), np.zeros(300)
            made.add(np.arange(80), np.arange(80.0), scores)
            blocks.append(np.vstack([made.block(np.arange(100)), scores]))
    np.testing.assert_array_equal(*blocks)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fitted", [np.asarray, sp.csr_matrix])
def test_wide_new_rows_may_be_sparse_or_dense(dtype, fitted):
    X = rows(d=1100, dtype=dtype)  # sparse rows of so many columns stay sparse
    made = KernelRows(Kernel("rbf", 0.01), fitted(X))
    wanted = gaussian(X[:40], X, 0.01) @ np.arange(300.0)
    for new in (X[:40], sp.csr_matrix(X[:40])):
        np.testing.assert_allclose(made.products(new, np.arange(300.0)), wanted, rtol=1e-4)
