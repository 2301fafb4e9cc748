"""A kernel matrix in memory is its rows, and solvers find the same on it as on computed ones."""

import numpy as np

from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.dual import nested as nested_dual
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.problem import KernelProblem, WholeMatrix


def matrix(n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return KernelRows(Kernel("rbf", 0.5), X), WholeMatrix(KernelRows(Kernel("rbf", 0.5), X).full(), 7)


def test_blocks_rows_diagonal_and_subsets():
    rows, whole = matrix()
    some, others = np.array([3, 50, 7]), np.array([1, 3])
    np.testing.assert_allclose(whole.block(some), rows.block(some))
    np.testing.assert_allclose(whole.block(some, others), rows.block(some, others))
    np.testing.assert_allclose(whole.block(slice(2, 9), slice(0, 4)), rows.block(slice(2, 9), slice(0, 4)))
    np.testing.assert_allclose(whole.block(slice(2, 9), others), rows.block(slice(2, 9), others))
    buffer, slot = whole.cached(some)
    np.testing.assert_allclose(buffer[slot], rows.block(some))
    np.testing.assert_array_equal(whole.diagonal(), rows.diagonal())
    part = whole.subset(some)
    np.testing.assert_allclose(part.block(slice(0, 3)), rows.block(some, some))
    assert (part.n_rows, part.capacity, part.evaluations) == (3, 3, 7)


def test_solvers_find_the_same():
    rows, whole = matrix(300)
    y = np.where(np.random.default_rng(1).random(300) < 0.5, -1.0, 1.0)
    upper = np.full(300, 2.0)
    for solve in (working_set.solve, nested_dual.solve):
        computed, stored = (solve(KernelProblem(made, y, upper), tol=1e-6) for made in (rows, whole))
        np.testing.assert_allclose(stored.coef, computed.coef, atol=1e-5)
        assert stored.gap < 1e-6
