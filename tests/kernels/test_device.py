"""The kernel matrix on a device: NumPy's values and sums, kept rows, and what does not fit."""

import numpy as np
import pytest
import scipy.sparse as sp
from testing.kernel_svms import DEVICES

from widemargin.exceptions import CapabilityError
from widemargin.kernels.backend import DeviceBackend
from widemargin.kernels.device import DeviceRows
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows

devices = pytest.mark.parametrize("backend", DEVICES)


def rows(n=60, d=5):
    X = np.random.default_rng(0).normal(size=(n, d))
    return np.where(np.abs(X) < 0.5, 0.0, X)


@devices
@pytest.mark.parametrize("name", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("kind", ["dense", "csr", "csr in blocks"])
def test_values_and_sums_are_those_of_numpy(backend, name, kind, monkeypatch):
    kernel, X = Kernel(name, 0.3, 2, 0.5), rows()
    given = X if kind == "dense" else sp.csr_matrix(X)
    if kind == "csr in blocks":
        monkeypatch.setattr(DeviceBackend, "free", lambda self: 4000)  # a dense copy would be too large a part
        monkeypatch.setattr(DeviceRows, "narrowest", 7)
        monkeypatch.setattr(DeviceRows, "height", 11)
    ours, theirs = DeviceRows(kernel, given, backend=backend), KernelRows(kernel, X)
    assert sp.issparse(ours._rows.X) == (kind == "csr in blocks")
    np.testing.assert_allclose(ours.full(), theirs.full(), rtol=1e-12, atol=1e-12)
    rng = np.random.default_rng(1)
    some, change = rng.permutation(60)[:20], rng.normal(size=20)
    for columns in (None, np.array([3, 50, 7]), slice(5, 30)):
        mine = np.ones(np.arange(60)[columns].size)
        other = mine.copy()
        ours.add(some, change, mine, columns)
        theirs.add(some, change, other, columns)
        np.testing.assert_allclose(mine, other, rtol=1e-10)
    for coefficients in (rng.normal(size=60), rng.normal(size=(60, 3))):
        new = given[:13]
        np.testing.assert_allclose(ours.products(new, coefficients), theirs.products(X[:13], coefficients), rtol=1e-10)
    assert ours.evaluations >= 60 * 20


@devices
def test_kept_rows_are_a_ring_that_spares_what_is_wanted(backend, monkeypatch):
    monkeypatch.setattr(DeviceBackend, "free", lambda self: None)  # as of a device without memory of its own
    matrix = DeviceRows(Kernel("rbf", 0.3), rows(), cache_size=12 * 60 * 8 / MEGABYTE, backend=backend)
    exact, rng = matrix.full(), np.random.default_rng(0)
    assert matrix.room == 12
    for _ in range(30):
        wanted = rng.permutation(60)[:9]
        places, change = matrix.keep(wanted), rng.normal(size=9)
        np.testing.assert_allclose(matrix.pull(matrix.kept)[places], exact[wanted], rtol=1e-12)
        np.testing.assert_allclose(matrix.pull(matrix.weighted(places, change)), change @ exact[wanted], rtol=1e-10)
    seen = matrix.misses
    assert 60 < seen < 30 * 9  # rows made room for others, and some were still there
    assert (matrix.keep(wanted) == places).all() and matrix.misses == seen
    part = matrix.subset(np.array([5, 9, 30]))
    places = part.keep(np.array([2, 0]))
    np.testing.assert_allclose(part.pull(part.kept)[places], exact[np.ix_([30, 5], [5, 9, 30])], rtol=1e-12)
    np.testing.assert_allclose(matrix.pull(matrix.kept)[matrix.keep(wanted)], exact[wanted], rtol=1e-12)


@devices
def test_sums_of_single_precision_are_in_double(backend):
    """The values are rounded once; the sum of many is not."""
    matrix = DeviceRows(Kernel("rbf", 1e-6), rows(400), dtype=np.float32, backend=backend)
    places, change = matrix.keep(np.arange(400)), np.tile([1e6, -1e6], 200)
    exact = change @ matrix.pull(matrix.kept)[places].astype(np.float64)
    np.testing.assert_allclose(matrix.pull(matrix.weighted(places, change)), exact, atol=1e-6)
    double = matrix.in_double(np.arange(400), 1.0)
    assert double.dtype == np.float64 and matrix.kept is None
    before = matrix.evaluations
    double.block(np.arange(10))
    assert matrix.evaluations == before + 4000  # they count together


@devices
def test_what_does_not_fit_is_named(backend, monkeypatch):
    monkeypatch.setattr(DeviceBackend, "free", lambda self: 1000)
    with pytest.raises(CapabilityError, match="0 MB free, and two kernel rows of 60 values need"):
        DeviceRows(Kernel("rbf"), rows(), backend=backend).keep(np.arange(2))
    monkeypatch.setattr(DeviceBackend, "free", lambda self: 8000)
    matrix = DeviceRows(Kernel("rbf"), rows(), backend=backend)
    matrix.keep(np.arange(5))
    assert matrix.kept.shape[0] == matrix.room == 12  # three quarters of what is free

    def full(self, values):
        raise RuntimeError("out of memory")

    working = DeviceBackend(np)
    monkeypatch.setattr(DeviceBackend, "_dense", full)
    with pytest.raises(CapabilityError, match=r"cannot hold the rows of 0 MB \(out of memory\); use CSR or float32"):
        working.place(rows(), Kernel("rbf"), np.float64)


@devices
def test_kernels_that_are_no_function_of_inner_products_are_refused(backend):
    with pytest.raises(CapabilityError, match="cannot do kernel 'laplacian'"):
        DeviceRows(Kernel("laplacian"), rows(), backend=backend)


def test_products_of_fewer_digits_have_no_bound_of_their_rounding():
    torch = pytest.importorskip("torch")
    matrix = DeviceRows(Kernel("rbf", 0.3), rows().astype(np.float32), backend="torch")
    assert np.isfinite(matrix.rounding(np.arange(60), np.ones(60))).all()
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert np.isinf(matrix.rounding(np.arange(60), np.ones(60))).all()
    finally:
        torch.set_float32_matmul_precision(before)
