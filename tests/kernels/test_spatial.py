"""Tiles: every value that is not negligible is there, in the order of the tree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from fresh import fresh_seed
from widemargin.kernels import spatial
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.kernels.spatial import Tiles, boxes, spatial_order


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 300), st.integers(1, 5), st.integers(1, 40))
def test_the_order_is_a_permutation_into_leaves_that_are_boxes(seed, n, d, leaf):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n, d)).astype(np.float32)  # ties
    order = spatial_order(X, leaf)
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    low, high = boxes(X[order], leaf)
    assert low.shape == (-(-n // leaf), d)
    for k in range(low.shape[0]):
        inside = X[order][k * leaf : (k + 1) * leaf]
        np.testing.assert_array_equal(low[k], inside.min(axis=0))
        np.testing.assert_array_equal(high[k], inside.max(axis=0))


def test_leaves_are_compact():
    X = np.random.default_rng(0).random((4096, 2))
    low, high = boxes(X[spatial_order(X, 64)], 64)
    assert (high - low).max() < 0.2  # 64 leaves of about 1/8
    low, high = boxes(X, 64)
    assert (high - low).min() > 0.8


@pytest.mark.parametrize("d", [1, 3, 10])
def test_sums_are_those_of_the_whole_matrix_and_pairs_are_left_out(d, monkeypatch):
    monkeypatch.setattr(Tiles, "leaf", 64)
    rng = np.random.default_rng(d)
    X = rng.normal(size=(3000, d)) * 3 + 100.0  # far from the origin: float32 must not mind
    rows = KernelRows(Kernel("rbf", 2.0), X)
    tiles = rows.tiles(np.arange(0, 3000, 2))
    here = X[::2][tiles.order]
    some = np.sort(rng.choice(1500, 200, replace=False))
    change, scores = rng.normal(size=200), np.ones(1500)
    tiles.add(some, change, scores)
    expected = 1.0 + rbf_kernel(here, here[some], 2.0) @ change
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert 0 < rows.evaluations == tiles.evaluations <= 1500 * 200
    np.testing.assert_allclose(tiles.block(some), rbf_kernel(here[some], gamma=2.0), atol=1e-4)
    if d == 1:
        assert rows.evaluations - 200 * 200 < 0.6 * 1500 * 200


def test_the_compiled_loop_is_its_python():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(48, 2)).astype(np.float32) * 4
    Z = Z[spatial_order(Z, 16)]
    low, high = boxes(Z, 16)
    ends = []
    for run in (spatial.add_near, spatial.add_near.py_func):
        scores, room = np.zeros(48), np.empty(16, np.float32)
        chunk_low, chunk_high = boxes(Z[:20], 8)
        pairs = run(
            Z[:20], np.ones(20), chunk_low, chunk_high, 8, np.ascontiguousarray(Z.T), low, high, 16, 0, 3, 20.0, room,
            scores,
        )  # fmt: skip
        ends.append((pairs, scores))
    assert ends[0][0] == ends[1][0] < 20 * 48
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-6)
    assert Tiles.chunk > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_new_rows_leave_out_what_they_say(dtype):
    rng = np.random.default_rng(fresh_seed())
    X, new, coef = rng.normal(size=(1500, 3)), rng.normal(size=(200, 3)), rng.normal(size=(1500, 1))
    rows = KernelRows(Kernel("rbf", 30.0), X, dtype=dtype)
    made = rows.tiles(np.arange(1500), dtype, 30.0)
    before = made.evaluations
    exact = KernelRows(Kernel("rbf", 30.0), X, dtype=np.float64).products(new, coef)
    allowed = 2.0**-30 * np.abs(coef).sum() + (1e-12 if dtype == np.float64 else 1e-4)
    assert np.abs(made.products(new, coef) - exact).max() <= allowed
    assert made.evaluations - before < 0.9 * 1500 * 200


def test_the_loop_of_new_rows_is_its_python():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(48, 4)) * 3
    Z = Z[spatial_order(Z, 16)]
    given = (Z[:5] + 0.1, rng.normal(size=48), np.ascontiguousarray(Z.T), *boxes(Z, 16), 16, 0, 5, 20.0, np.empty(16))
    sums, same = np.zeros(5), np.zeros(5)
    assert spatial.near_sums(*given, sums) == spatial.near_sums.py_func(*given, same)
    np.testing.assert_allclose(sums, same, rtol=1e-12)
    assert spatial.weighted_sum.py_func(given[1], given[1]) == pytest.approx(spatial.weighted_sum(given[1], given[1]))
