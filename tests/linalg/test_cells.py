"""CellCoefficients: its three views of the same numbers agree."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.linalg import cells
from widemargin.linalg.cells import CellCoefficients


def sample(seed: int, k: int, m: int) -> tuple[CellCoefficients, np.ndarray, np.ndarray]:
    """Random coefficients and their dense tables; some cells have none, one constraint may have none."""
    rng = np.random.default_rng(seed)
    used = rng.random((k, m)) < 0.4
    used[k // 2] = False
    alpha, beta = rng.random((k, m)) * used, rng.random((k, m)) * used
    indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)
    column = np.nonzero(used)[1].astype(np.int64)
    return CellCoefficients(rng.random(k), rng.random(k), indptr, column, alpha[used], beta[used]), alpha, beta


@pytest.mark.parametrize(("k", "m"), [(1, 0), (1, 1), (5, 3), (7, 1), (30, 12)])
def test_views_agree_with_dense_tables(k: int, m: int) -> None:
    coef, alpha, beta = sample(k + m, k, m)
    rng = np.random.default_rng(0)
    v, positive, negative = rng.random(m), rng.random(k), rng.random(k)
    assert coef.n_cells == k
    A, B = coef.per_cell(v)
    np.testing.assert_allclose(A, coef.alpha0 + alpha @ v, rtol=1e-14)
    np.testing.assert_allclose(B, coef.beta0 + beta @ v, rtol=1e-14)
    objective, constraints = coef.totals(positive, negative, m)
    assert constraints.shape == (m,)
    assert objective == pytest.approx(coef.alpha0 @ positive + coef.beta0 @ negative, rel=1e-14)
    np.testing.assert_allclose(constraints, alpha.T @ positive + beta.T @ negative, rtol=1e-13)
    for matrix, table in zip(coef.matrices(m), (alpha, beta), strict=True):
        np.testing.assert_array_equal(matrix, table)


def test_large_tables_stay_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    coef, alpha, _ = sample(1, 20, 4)
    monkeypatch.setattr(cells, "_DENSE_LIMIT", 79)
    matrix, _ = coef.matrices(4)
    assert sp.issparse(matrix)
    np.testing.assert_array_equal(matrix.toarray(), alpha)
    monkeypatch.setattr(cells, "_DENSE_LIMIT", 80)
    assert isinstance(coef.matrices(4)[0], np.ndarray)
