"""RowBlocks against plain NumPy, for every storage a user may bring; merging of equal rows."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin.linalg import equal_rows, matrix_blocks, products
from widemargin.linalg.equal_rows import canonical_rows, merge_rows
from widemargin.linalg.matrix_blocks import RowBlocks

STORAGES = ["dense64", "dense32", "csr64", "csr32", "csr-int64", "csr-unsorted", "csr_array"]


def stored(X: np.ndarray, storage: str) -> Any:
    if storage.startswith("dense"):
        return np.ascontiguousarray(X, dtype=np.float32 if storage == "dense32" else np.float64)
    if storage == "csr_array":
        return sp.csr_array(X)
    matrix = sp.csr_matrix(X.astype(np.float32) if storage == "csr32" else X)
    if storage == "csr-int64":
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    if storage == "csr-unsorted":
        for i in range(X.shape[0]):
            place = slice(matrix.indptr[i], matrix.indptr[i + 1])
            matrix.indices[place], matrix.data[place] = matrix.indices[place][::-1], matrix.data[place][::-1]
        matrix.has_sorted_indices = False
    return matrix


def sample(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Half of the entries are zero, one row is; numbers that float32 holds exactly."""
    X = np.round(rng.standard_normal((n, d)) * 64) / 64 * (rng.random((n, d)) < 0.5)
    X[n // 2] = 0.0
    return X


@pytest.fixture(params=["whole", "picked", "blocks"])
def built(request: pytest.FixtureRequest) -> Any:
    """(RowBlocks, the same rows as one NumPy array) for a storage."""

    def build(storage: str, d: int = 9) -> tuple[RowBlocks, np.ndarray]:
        rng = np.random.default_rng(5)
        X = sample(rng, 41, d)
        if request.param == "whole":
            return RowBlocks([(stored(X, storage), None)]), X
        picked = np.flatnonzero(rng.random(41) < 0.6)
        if request.param == "picked":
            return RowBlocks([(stored(X, storage), picked)]), X[picked]
        other, third = sample(rng, 23, d), sample(rng, 6, d)
        mixed = "dense64" if storage.startswith("csr") else "csr64"
        none = np.zeros(0, dtype=np.int64)
        blocks = [
            (stored(X, storage), picked), (stored(other, mixed), None), (stored(third, storage), none),
            (stored(third, storage), np.arange(6)),
        ]  # fmt: skip
        return RowBlocks(blocks), np.vstack([X[picked], other, third])

    return build


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("chunk", [None, 4])
def test_products_match_numpy(built: Any, storage: str, chunk: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if chunk is not None:
        monkeypatch.setattr(matrix_blocks, "_CHUNK", chunk)
        monkeypatch.setattr(matrix_blocks, "_COLUMNS", 3 * chunk)
    blocks, X = built(storage)
    n, d = X.shape
    assert (blocks.n_rows, blocks.n_features) == (n, d)
    rng = np.random.default_rng(1)
    w, g = rng.standard_normal(d), rng.standard_normal(n)
    g[::3] = 0.0
    exact = {"rtol": 0, "atol": 1e-13}
    np.testing.assert_allclose(blocks.dot(w), X @ w, **exact)
    np.testing.assert_allclose(blocks.tdot(g), X.T @ g, **exact)
    np.testing.assert_allclose(blocks.norms2(), (X**2).sum(axis=1), **exact)
    scale = np.abs(g)
    np.testing.assert_allclose(np.tril(blocks.gram(scale)), np.tril((X.T * scale) @ X), rtol=0, atol=1e-12)
    C = rng.standard_normal((n, 3)) * (rng.random((n, 3)) < 0.5)

    def fill(place: slice, columns: np.ndarray) -> None:
        columns[:] = C[place]

    np.testing.assert_allclose(blocks.border(fill, 3), C.T @ X, **exact)
    assert blocks.border(lambda place, columns: None, 0).shape == (0, d)


@pytest.mark.parametrize("storage", STORAGES)
def test_dot_writes_into_out(built: Any, storage: str) -> None:
    blocks, X = built(storage)
    out = np.full(X.shape[0], np.nan)
    assert blocks.dot(np.ones(X.shape[1]), out) is out
    np.testing.assert_allclose(out, X.sum(axis=1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("storage", STORAGES)
def test_cell_sums_match_numpy(built: Any, storage: str) -> None:
    blocks, X = built(storage)
    n, d = X.shape
    rng = np.random.default_rng(2)
    cell = rng.integers(0, 4, n).astype(np.int32)
    plus, minus = rng.random(n) * (rng.random(n) < 0.5), rng.random(n) * (rng.random(n) < 0.5)
    above, below = np.zeros((2, 5, d))
    blocks.add_cell_sums(cell, plus, minus, above, below)
    blocks.add_cell_sums(cell, -minus, plus, above, below)
    for c in range(5):
        np.testing.assert_allclose(above[c], X[cell == c].T @ (plus - minus)[cell == c], rtol=0, atol=1e-13)
        np.testing.assert_allclose(below[c], X[cell == c].T @ (minus + plus)[cell == c], rtol=0, atol=1e-13)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_moments_match_numpy(built: Any, storage: str, single: bool, centred: bool) -> None:
    """With weights of both signs: what rows add and what they take away."""
    blocks, X = built(storage)
    scale = np.random.default_rng(3).standard_normal(X.shape[0]) * (np.arange(X.shape[0]) % 3 > 0)
    np.testing.assert_allclose(blocks.centre, X.mean(axis=0), rtol=0, atol=1e-14)
    base = X - X.mean(axis=0) if centred else X
    gram, sums = blocks.moments(scale, centred=centred, single=single)
    tol = 2e-5 if single else 1e-12
    np.testing.assert_allclose(np.tril(gram), np.tril((base.T * scale) @ base), rtol=0, atol=tol)
    np.testing.assert_allclose(sums, base.T @ scale, rtol=0, atol=tol)
    squares, total = blocks.diagonal(scale)
    np.testing.assert_allclose(squares, (X**2).T @ scale, rtol=0, atol=1e-12)
    np.testing.assert_allclose(total, X.T @ scale, rtol=0, atol=1e-12)


def test_centred_moments_keep_the_spread_of_a_column_of_large_mean() -> None:
    """Uncentred, 1e8 swallows all digits of a spread of 1."""
    spread = np.random.default_rng(0).standard_normal(500)
    blocks = RowBlocks([((spread + 1e8)[:, None], None)])
    spread = (spread + 1e8) - 1e8
    gram, _ = blocks.moments(np.ones(500), centred=True)
    assert gram[0, 0] == pytest.approx(((spread - spread.mean()) ** 2).sum(), rel=1e-7)


@pytest.mark.parametrize("storage", STORAGES)
def test_rows_taken_from_blocks_are_those_rows(built: Any, storage: str) -> None:
    blocks, X = built(storage)
    positions = np.flatnonzero(np.random.default_rng(4).random(X.shape[0]) < 0.4)
    taken = blocks.take(positions)
    w = np.arange(1.0, X.shape[1] + 1)
    np.testing.assert_array_equal(taken.dot(w), blocks.dot(w)[positions])
    assert all(one.X is other.X for one, other in zip(taken.blocks, blocks.blocks, strict=True))
    if storage == "csr64" and len(blocks.blocks) == 1:
        assert blocks.n_stored == np.count_nonzero(X)
        assert taken.n_stored == np.count_nonzero(X[positions])
    if storage == "dense64" and len(blocks.blocks) == 1:
        assert taken.n_stored == X[positions].size


def test_float32_products_are_summed_in_double_precision() -> None:
    X = np.full((3, 50_000), 0.1, dtype=np.float32)
    exact = 50_000 * float(np.float32(0.1))
    for matrix in (X, sp.csr_matrix(X)):
        np.testing.assert_allclose(RowBlocks([(matrix, None)]).dot(np.ones(50_000)), exact, rtol=1e-13)


def test_dense_equals_csr_in_the_gram_of_repeated_entries() -> None:
    """A CSR row may store an entry in two parts: they add up, on the diagonal too."""
    matrix = sp.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    blocks = RowBlocks([(matrix, None)])
    np.testing.assert_allclose(np.tril(blocks.gram(np.array([2.0]))), [[32.0, 0.0], [24.0, 18.0]])


def test_the_data_are_not_copied() -> None:
    X = np.arange(12.0).reshape(4, 3)
    matrix = sp.csr_matrix(X)
    blocks = RowBlocks([(X, np.array([1, 3])), (matrix, None)])
    assert blocks.blocks[0].X is X
    assert blocks.blocks[1].X is matrix


# merging


def brute_groups(X: np.ndarray, cell: np.ndarray, weight: np.ndarray) -> dict[tuple[Any, ...], tuple[int, float]]:
    """First row and summed weight of every group of equal rows of equal cell."""
    groups: dict[tuple[Any, ...], tuple[int, float]] = {}
    for i in range(X.shape[0]):
        if cell[i] >= 0 and weight[i] > 0:
            key = (int(cell[i]), *X[i])
            first, total = groups.get(key, (i, 0.0))
            groups[key] = (first, total + weight[i])
    return groups


@pytest.mark.parametrize("storage", STORAGES)
@given(seed=st.integers(0, 10_000), n=st.integers(0, 60))
def test_merging_matches_brute_force(storage: str, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, 3)) / 4.0
    cell = rng.integers(-1, 3, n).astype(np.int32)
    weight = rng.integers(0, 4, n).astype(float)
    groups = brute_groups(X, cell, weight)
    row_of, s = merge_rows(stored(X, storage), cell, weight)
    used = int(((cell >= 0) & (weight > 0)).sum())
    assert np.all(np.diff(row_of) > 0)
    if used - len(groups) < 0.05 * used:  # too few to be worth it
        np.testing.assert_array_equal(row_of, np.flatnonzero((cell >= 0) & (weight > 0)))
        np.testing.assert_array_equal(s, weight[row_of])
    else:
        assert dict(zip(row_of.tolist(), s.tolist(), strict=True)) == dict(groups.values())


def test_no_weights_count_rows() -> None:
    X = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [1.0, 2.0]])
    row_of, s = merge_rows(X, np.array([0, 0, 0, 1], dtype=np.int32), None)
    np.testing.assert_array_equal(row_of, [0, 1, 3])
    np.testing.assert_array_equal(s, [2.0, 1.0, 1.0])


@pytest.mark.parametrize("sparse", [False, True])
def test_few_repetitions_are_left_alone(sparse: bool) -> None:
    X = np.arange(100.0)[:, None]
    X[1:4] = X[0]  # three of 100 would go
    row_of, s = merge_rows(sp.csr_matrix(X) if sparse else X, np.zeros(100, dtype=np.int32), None)
    assert row_of.shape == (100,)
    assert np.all(s == 1.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_collision_of_the_projection_does_not_merge(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a projection onto nothing every two rows collide: only neighbours that are truly equal may merge."""
    X = np.repeat(np.arange(1.0, 6.0), 2)[:, None]

    class Nothing:
        def standard_normal(self, d: int) -> np.ndarray:
            return np.zeros(d)

    monkeypatch.setattr(equal_rows.np.random, "default_rng", lambda seed: Nothing())
    row_of, s = merge_rows(sp.csr_matrix(X) if sparse else X, np.zeros(10, dtype=np.int32), None)
    np.testing.assert_array_equal(row_of, [0, 2, 4, 6, 8])
    np.testing.assert_array_equal(s, np.full(5, 2.0))
    row_of, s = merge_rows(sp.csr_matrix(X[::-2]) if sparse else X[::-2].copy(), np.zeros(5, dtype=np.int32), None)
    assert row_of.shape == (5,)


def test_dense_duplicates_are_found_wherever_they_stand() -> None:
    """A BLAS product may round equal rows differently by their place; ours must not: merging and ties need it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((997, 37))
    twice = np.vstack([X, X])[rng.permutation(2 * 997)]
    for matrix in (twice, twice.astype(np.float32)):
        z = RowBlocks([(matrix, None)]).dot(rng.standard_normal(37))
        assert np.unique(z).shape == (997,)
        row_of, s = merge_rows(matrix, np.zeros(2 * 997, dtype=np.int32), None)
        assert row_of.shape == (997,)
        assert np.all(s == 2.0)


# compiled loops


def test_compiled_loops_equal_their_python_source() -> None:
    rng = np.random.default_rng(3)
    X = sample(rng, 12, 7)
    matrix = sp.csr_matrix(X)
    # Without a sign, as the blocks keep them: for others the loops would be compiled once more.
    places = matrix.indices.astype(np.uint32), matrix.indptr.astype(np.uint32)
    csr = (matrix.data, *places, np.array([0, 2, 3, 7, 11]))
    w, g, C = rng.standard_normal(7), rng.standard_normal(5), rng.standard_normal((5, 2))
    g[1] = 0.0
    wide, long = sample(rng, 12, 21), rng.standard_normal(21)
    cell, plus, minus = np.array([0, 1, 1, 0, 1], dtype=np.int32), np.abs(g), np.array([0.0, 1.0, 0.0, 2.0, 0.5])
    shapes: dict[Any, tuple[tuple[Any, ...], list[tuple[int, ...]]]] = {
        products.csr_dot: ((*csr[:3], w, csr[3]), [(5,)]),
        products.csr_tdot: ((*csr, g), [(7,)]),
        products.csr_gram: ((*csr, plus), [(7, 7), (7,), (7,)]),
        products.csr_squares: ((*csr, plus), [(7,)]),
        products.csr_norms2: ((*csr[:3], w, csr[3]), [(5,)]),
        products.add_border_csr: ((*csr, C), [(2, 7)]),
        products.csr_cell_sums: ((*csr, cell, plus, minus), [(2, 7), (2, 7)]),
        products.dense_cell_sums: ((X, csr[3], cell, minus, plus), [(2, 7), (2, 7)]),
        products.dense_dot: ((wide, long, csr[3]), [(5,)]),
        products.dense_tdot: ((X, csr[3], g), [(7,)]),
        products.dense_norms2: ((X, w, csr[3]), [(5,)]),
        products.add_folded: ((X[:7], w), [(7, 7)]),
        equal_rows.csr_equal_rows: ((*csr[:3], np.array([0, 6]), np.array([0, 1])), [(2,)]),
        equal_rows.dense_equal_rows: ((X, np.array([0, 6]), np.array([0, 1])), [(2,)]),
    }
    loops = {name for name in products.__all__ if hasattr(getattr(products, name), "py_func")}
    assert {kernel.__name__ for kernel in shapes} == {*loops, "csr_equal_rows", "dense_equal_rows"}
    for kernel, (arguments, outs) in shapes.items():
        compiled, plain = [[np.zeros(shape) for shape in outs] for _ in range(2)]
        kernel(*arguments, *compiled)
        kernel.py_func(*arguments, *plain)
        for one, other in zip(compiled, plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)
        assert any(np.any(one) for one in compiled)


def test_canonical_rows_adds_up_repeated_entries_in_a_copy():
    X = sp.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    tidy = canonical_rows(X)
    np.testing.assert_array_equal(tidy.toarray(), [[0, 3], [4, 0]])
    assert tidy.nnz == 2
    assert X.nnz == 3
    assert canonical_rows(tidy) is tidy


def test_a_product_that_is_remembered_can_be_freed():
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    rows, w = RowBlocks([(X, None)]), np.arange(3.0)
    tracemalloc.start()
    try:
        first = rows.dot(w)
        held = tracemalloc.get_traced_memory()[0]
        rows.forget()
        assert held - tracemalloc.get_traced_memory()[0] >= 8 * rows.n_rows
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(rows.dot(w), first)
