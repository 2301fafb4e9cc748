"""Features of a kernel matrix: their inner products, coefficients on the pivots, matrices that have none."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from widemargin.exceptions import KernelError
from widemargin.linalg.cholesky import kernel_features

X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize("K", [rbf_kernel(X), polynomial_kernel(X, degree=2), X @ X.T], ids=["rbf", "poly", "linear"])
def test_inner_products_are_the_kernel(K):
    made = kernel_features(K)
    np.testing.assert_allclose(made.features @ made.features.T, K, atol=1e-9 * np.abs(K).max())
    w = np.random.default_rng(1).normal(size=(made.features.shape[1], 2))
    a = made.coefficients(w)
    np.testing.assert_allclose(K[:, made.pivots] @ a, made.features @ w, atol=1e-5 * np.abs(K).max())


def test_rank_is_that_of_the_matrix():
    assert kernel_features(X @ X.T).features.shape == (60, 3)
    assert kernel_features(np.ones((4, 4))).pivots.shape == (1,)
    assert kernel_features(np.zeros((4, 4))).features.shape == (4, 0)


@pytest.mark.parametrize("K", [np.diag([1.0, -1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])])
def test_negative_eigenvalues_are_refused(K):
    with pytest.raises(KernelError, match="not positive semi-definite"):
        kernel_features(K)
