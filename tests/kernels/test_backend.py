"""The seam for accelerators: the compiled exponential, and every backend gives NumPy's values."""

import importlib.util
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.exceptions import CapabilityError, KernelError
from widemargin.kernels.backend import backend_named, squared_norms, usable_name
from widemargin.kernels.functions import Kernel, gaussian
from widemargin.kernels.rows import KernelRows


@pytest.mark.parametrize(("dtype", "equal", "right"), [(np.float32, 1e-6, 5e-6), (np.float64, 1e-14, 1e-13)])
def test_compiled_gaussian_is_accurate_and_equals_the_plain_python(dtype, equal, right):
    rng = np.random.default_rng(0)
    distance = np.concatenate([rng.uniform(0, 30, 2000), rng.uniform(0, 1e-3, 100), [0.0, 80.0, 1e4]])
    block = (-0.5 * distance[None, :]).astype(dtype)
    zero = np.zeros(1, dtype=dtype), np.zeros(distance.shape[0], dtype=dtype)
    exact = np.exp(-1.3 * -2.0 * block[0].astype(np.float64) * 1.0)
    compiled, plain = block.copy(), block.copy()
    gaussian(compiled, *zero, 1.3)
    with np.errstate(over="ignore"):
        gaussian.py_func(plain, *zero, 1.3)
    np.testing.assert_allclose(compiled, plain, rtol=equal)
    near = exact > 1e-12
    np.testing.assert_allclose(compiled[0][near], np.exp(1.3 * 2.0 * block[0][near].astype(np.float64)), rtol=right)
    assert (compiled[0][~near] <= 2e-12).all()
    assert (compiled >= 0).all() and (compiled <= 1).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_squared_norms(sparse):
    X = np.random.default_rng(0).standard_normal((20, 4))
    np.testing.assert_allclose(squared_norms(sp.csr_matrix(X) if sparse else X), (X**2).sum(axis=1))


def test_unknown_backends_are_refused():
    with pytest.raises(CapabilityError, match="backend 'cupy' is unknown"):
        backend_named("cupy")


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
def test_missing_pytorch_is_named():
    with pytest.raises(CapabilityError, match="needs PyTorch"):
        backend_named("torch")


@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pytorch_gives_the_same_values(name, dtype):
    pytest.importorskip("torch")
    X = np.random.default_rng(0).standard_normal((50, 6)).astype(dtype)
    kernel = Kernel(name, 0.2, 2, 0.5)
    ours, theirs = KernelRows(kernel, X), KernelRows(kernel, X, backend="torch")
    np.testing.assert_allclose(theirs.full(), ours.full(), rtol=1e-5, atol=1e-6 if dtype is np.float32 else 1e-12)
    wanted = np.array([4, 8])
    np.testing.assert_allclose(theirs.cached(wanted)[0][:2], ours.block(wanted), rtol=1e-5)
    np.testing.assert_allclose(theirs.products(X[:5], np.ones(50)), ours.products(X[:5], np.ones(50)), rtol=1e-4)
    assert theirs.evaluations > 0


def test_pytorch_refuses_what_it_cannot_do():
    pytest.importorskip("torch")
    with pytest.raises(CapabilityError, match="cannot do kernel 'laplacian'"):
        KernelRows(Kernel("laplacian"), np.eye(3), backend="torch")


@pytest.mark.parametrize(("degree", "coef0", "scale"), [(2.5, 0.0, 1.0), (300, 1.0, 100.0)], ids=["broken", "overflow"])
def test_a_polynomial_that_is_not_finite_is_refused(degree, coef0, scale):
    X = scale * np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(KernelError, match=rf"not finite numbers.*degree={degree:g}"):
        KernelRows(Kernel("poly", 1.0, degree, coef0), X).full()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pytorch_sums_squared_norms_in_double_precision(dtype):
    pytest.importorskip("torch")
    X = (1000.0 + np.random.default_rng(0).standard_normal((40, 300))).astype(dtype)
    placed = backend_named("torch").place(X, Kernel("rbf", 1e-6), dtype)
    np.testing.assert_allclose(placed.square.numpy(), squared_norms(X), rtol=1e-14 if dtype is np.float64 else 0.0)


def test_a_backend_that_is_not_here_is_replaced_by_numpy(monkeypatch):
    assert usable_name("numpy") == "numpy"
    if importlib.util.find_spec("torch") is not None:
        assert usable_name("torch") == "torch"
        assert usable_name("torch:meta-device") == "numpy"
    monkeypatch.setitem(sys.modules, "torch", None)
    assert usable_name("torch") == "numpy"


@pytest.mark.parametrize("degree", [0, 0.5, 1, 2, 3, 4, 5, 7, 12])
def test_powers_of_a_polynomial_kernel(degree):
    X = np.random.default_rng(0).uniform(0.1, 2.0, (20, 3))
    values = KernelRows(Kernel("poly", 0.7, degree, 0.5), X).block(slice(None))
    np.testing.assert_allclose(values, (0.7 * X @ X.T + 0.5) ** degree, rtol=1e-13)
