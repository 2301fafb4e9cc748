"""Small kernel SVMs for tests of the solvers, and kernels that count."""

import numpy as np

from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.problem import KernelProblem

RBF = Kernel("rbf", 0.3)


def noisy_products(seed=0, n=200, d=3):
    """Rows whose label is the noisy sign of a product of two features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0.1, 1.0, -1.0)


def kernel_problem(X, y, C=1.0, kernel=RBF, fit_intercept=True, **options):
    """A KernelProblem on these rows; C is a number or one for each row."""
    return KernelProblem(KernelRows(kernel, X, **options), y, np.broadcast_to(C, y.shape).astype(float), fit_intercept)


def counting_kernel(gamma=0.3):
    """A Gaussian kernel as a function of rows, and the list to which it adds the number of values of each call."""
    calls = []

    def function(X, Y):
        calls.append(X.shape[0] * Y.shape[0])
        return np.exp(-gamma * ((X[:, None, :] - Y[None]) ** 2).sum(axis=-1))

    return Kernel("callable", function=function), calls
