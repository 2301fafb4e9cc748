"""Factor and solve against numpy; singular systems get a ridge, unusable ones an error."""

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from widemargin.linalg import cholesky


def test_only_the_lower_triangle_counts() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    matrix = root @ root.T + np.eye(6)
    lower = np.asfortranarray(np.tril(matrix) + np.triu(np.full((6, 6), np.nan), 1))
    kept = lower.copy()
    factored = cholesky.factor(lower)
    for right in (rng.standard_normal(6), rng.standard_normal((6, 3))):
        np.testing.assert_allclose(cholesky.solve(factored, right), np.linalg.solve(matrix, right), rtol=1e-10)
    np.testing.assert_array_equal(lower, kept)


def test_a_singular_consistent_system_is_solved() -> None:
    root = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    matrix = np.asfortranarray(root.T @ root)
    right = matrix @ np.array([1.0, -1.0, 0.5])
    solution = cholesky.solve(cholesky.factor(matrix), right)
    np.testing.assert_allclose(matrix @ solution, right, rtol=1e-6)


def test_an_indefinite_matrix_is_refused() -> None:
    with pytest.raises(LinAlgError, match="scale the features"):
        cholesky.factor(np.asfortranarray([[1.0, 0.0], [0.0, -1.0]]))


def test_pivots_are_raised_each_by_its_own_size() -> None:
    scales = np.array([1e-8, 1.0, 1e8, 1e8])
    root = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]) * scales[:, None]
    factored = np.tril(cholesky.factor(np.asfortranarray(root @ root.T)))
    np.testing.assert_allclose(factored @ factored.T / np.outer(scales, scales), [
        [1.25, 0.25, 0.5, 0.5], [0.25, 1.25, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0], [0.5, 0.5, 1.0, 1.0]
    ], rtol=1e-8)  # fmt: skip


def test_an_unknown_that_nothing_depends_on_is_zero() -> None:
    matrix = np.asfortranarray(np.diag([2.0, 0.0, 4.0]))
    np.testing.assert_allclose(cholesky.solve(cholesky.factor(matrix), np.array([2.0, 0.0, 2.0])), [1.0, 0.0, 0.5])


def test_a_matrix_that_is_not_finite_is_refused() -> None:
    with pytest.raises(LinAlgError, match="scale the features"):
        cholesky.factor(np.full((2, 2), np.nan, order="F"))


def test_a_factor_in_float32_where_it_can_be_made() -> None:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((8, 8))
    good, right = np.asfortranarray(root @ root.T + np.eye(8)), rng.standard_normal(8)
    factored = cholesky.factor(good, single=True)
    assert factored.dtype == np.float32
    solution = cholesky.solve(factored, right)
    assert solution.dtype == np.float64
    np.testing.assert_allclose(solution, np.linalg.solve(good, right), rtol=1e-4, atol=1e-5)
    for bad in (np.diag([1e50, 1.0]), np.array([[1.0, 1.0], [1.0, 1.0 + 1e-9]])):  # too large; singular in float32
        assert cholesky.factor(np.asfortranarray(bad), single=True).dtype == np.float64
