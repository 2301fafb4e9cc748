"""Coordinates of few rows of many features."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.linalg.row_span import RowSpan


@given(seed=st.integers(0, 1000), n=st.integers(1, 12), more=st.integers(0, 30), rank=st.integers(1, 12))
def test_inner_products_and_scores_stay(seed, n, more, rank):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, 2 * n + more)) * 10.0 ** rng.integers(-6, 6)
    span = RowSpan.of(RowBlocks([(X, None)]))
    rows = span.coordinates(RowBlocks([(X, None)]))
    F = rows.blocks[0].X
    np.testing.assert_allclose(F @ F.T, X @ X.T, atol=1e-12 * np.abs(X @ X.T).max())
    c = rng.normal(size=n)
    np.testing.assert_allclose(X @ span.back(c), F @ c, atol=1e-12 * np.abs(F).max() * n)
    w = rng.normal(size=2 * n + more)
    np.testing.assert_allclose(F @ span.into(w), X @ w, atol=1e-12 * np.abs(X).max() * (2 * n + more))


def test_narrow_columns_beside_a_huge_one_are_kept():
    X = np.random.default_rng(0).normal(size=(20, 60))
    X[:, 0] = 1e9
    F = RowSpan.of(RowBlocks([(X, None)])).coordinates(RowBlocks([(X, None)])).blocks[0].X
    apart = ((F[:, None] - F[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(apart, ((X[:, None] - X[None]) ** 2).sum(axis=2), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_some_rows_of_several_matrices(make):
    rng = np.random.default_rng(0)
    first, second = (make(rng.normal(size=(n, 40)) * (rng.random((n, 40)) < 0.5)) for n in (7, 9))
    span, some = (
        RowSpan.of(RowBlocks([(first, None), (second, None)])),
        RowBlocks([(first, np.array([1, 4])), (second, None)]),
    )
    assert span.knows(some) and not span.knows(RowBlocks([(first.copy(), None)]))
    w = rng.normal(size=16)
    np.testing.assert_allclose(span.coordinates(some).dot(w), some.dot(span.back(w)), atol=1e-12)


def test_sparse_rows_of_uneven_columns_are_taken_as_dense_ones_or_not_at_all():
    X = sp.random(20, 90, density=0.3, random_state=0, format="csr")
    uneven = sp.csr_matrix(X @ sp.diags(np.geomspace(1e-6, 1e6, 90)))
    of = lambda X: RowSpan.of(RowBlocks([(X, None)]), largest=10)  # noqa: E731
    assert of(X) is not None and of(uneven) is None and of(X.toarray()) is None
    F = RowSpan.of(RowBlocks([(uneven, None)])).coordinates(RowBlocks([(uneven, None)])).blocks[0].X
    np.testing.assert_allclose(F @ F.T, (uneven @ uneven.T).toarray(), rtol=1e-9, atol=1e-3)


def test_only_few_rows_of_many_features_have_one():
    X = np.random.default_rng(0).normal(size=(20, 40))
    for fewest, share, make in ((40, 0.5, np.asarray), (21, 1.0, np.asarray), (40, 1.0, sp.csr_matrix)):
        assert RowSpan.of(RowBlocks([(make(X[:, :fewest]), None)]), share=share) is not None
        assert RowSpan.of(RowBlocks([(make(X[:, : fewest - 1]), None)]), share=share) is None
    assert RowSpan.of(RowBlocks([(X, None)]), most=19) is None
    assert RowSpan.of(RowBlocks([(X, None)]), dearest=15_999) is None
