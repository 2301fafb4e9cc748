"""Kernels by name: scikit-learn's values, SVC's parameters, and errors that name the number."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from widemargin.exceptions import DataError, KernelError
from widemargin.kernels.functions import KERNELS, Kernel, check_precomputed, resolve_kernel
from widemargin.kernels.rows import KernelRows

NAMED = [name for name in KERNELS if name != "precomputed"]
PARAMETERS = {
    "linear": {},
    "poly": {"gamma": 0.3, "degree": 3, "coef0": 0.7},
    "rbf": {"gamma": 0.3},
    "laplacian": {"gamma": 0.3},
    "sigmoid": {"gamma": 0.3, "coef0": 0.7},
}


def rows(n=30, d=7, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_those_of_scikit_learn(name, sparse, dtype):
    X = rows().astype(dtype)
    expected = pairwise_kernels(X.astype(np.float64), metric=name, **PARAMETERS[name])
    kernel = resolve_kernel(name, X, **PARAMETERS[name])
    made = KernelRows(kernel, sp.csr_matrix(X) if sparse else X)
    assert made.dtype == dtype
    tolerance = {"rtol": 1e-12, "atol": 1e-14} if dtype is np.float64 else {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(made.block(np.arange(30)), expected, **tolerance)
    np.testing.assert_allclose(made.full(), expected, **tolerance)
    np.testing.assert_allclose(made.diagonal(), np.diagonal(expected), **tolerance)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.25])
@pytest.mark.parametrize("sparse", [False, True])
def test_gamma_is_that_of_svc(gamma, sparse):
    X = rows()
    X = sp.csr_matrix(X) if sparse else X
    fitted = SVC(gamma=gamma).fit(X, np.arange(30) % 2)
    assert resolve_kernel("rbf", X, gamma=gamma).gamma == pytest.approx(fitted._gamma, rel=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_of_weight_two_counts_twice_in_gamma(sparse):
    X, weight = rows(), np.arange(30) % 3
    repeated = np.repeat(X, weight, axis=0)
    expected = resolve_kernel("rbf", repeated).gamma
    given = sp.csr_matrix(X) if sparse else X
    assert resolve_kernel("rbf", given, sample_weight=weight.astype(float)).gamma == pytest.approx(expected, rel=1e-12)


def test_names_out_of_an_array_of_settings_are_plain_texts():
    assert repr(resolve_kernel(np.array(["sigmoid"])[0], np.eye(3)).name) == "'sigmoid'"


def test_constant_columns_have_a_gamma():
    assert resolve_kernel("rbf", np.ones((5, 3))).gamma == 1.0


@pytest.mark.parametrize("gamma", [0.0, -1.0, np.nan, np.inf])
def test_gamma_out_of_range_is_named(gamma):
    with pytest.raises(KernelError, match=r"gamma=.* must be a finite number > 0"):
        resolve_kernel("rbf", rows(), gamma=gamma)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("gauss", {}, "kernel 'gauss' is unknown; use one of 'linear', 'poly'"),
        ("rbf", {"gamma": "wide"}, "gamma='wide' is unknown"),
        ("poly", {"degree": -1}, "degree=-1 must be"),
        ("poly", {"coef0": np.nan}, "coef0=nan must be finite"),
    ],
)
def test_wrong_parameters_are_named(name, parameters, message):
    with pytest.raises(KernelError, match=message):
        resolve_kernel(name, rows(), **parameters)


def test_a_function_is_checked():
    X = rows()
    good = KernelRows(resolve_kernel(lambda A, B: A @ B.T, X), X)
    np.testing.assert_allclose(good.full(), X @ X.T)
    short = KernelRows(Kernel("callable", function=lambda A, B: A @ B.T[:, 1:]), X)
    with pytest.raises(KernelError, match=r"returned shape \(30, 29\) for 30 and 30 rows; it must return \(30, 30\)"):
        short.block(slice(None))
    broken = KernelRows(Kernel("callable", function=lambda A, B: np.full((len(A), len(B)), np.nan)), X)
    with pytest.raises(KernelError, match="not finite"):
        broken.block(slice(None))


def test_precomputed_is_checked():
    K = rows() @ rows().T
    assert check_precomputed(sp.csr_matrix(K)).shape == (30, 30)
    with pytest.raises(KernelError, match=r"must be square for training; its shape is \(20, 30\)"):
        check_precomputed(K[:20])
    with pytest.raises(DataError, match=r"of 29 columns was given and there are 30 training rows"):
        check_precomputed(K[:, :29], square=False, n_columns=30)
    tilted = K.copy()
    tilted[0, 1] += 0.5
    with pytest.raises(KernelError, match=r"not symmetric: entries differ by up to 0\.5"):
        check_precomputed(tilted)
    tilted[0, 1] = np.inf
    with pytest.raises(KernelError, match="not finite"):
        check_precomputed(tilted)


def test_a_function_may_return_a_sparse_matrix():
    X = sp.csr_matrix(np.eye(4)[:, :3])
    kernel = resolve_kernel(lambda A, B: A @ B.T, X)
    np.testing.assert_array_equal(kernel.called(X, X[:2]), np.eye(4)[:, :2])
