"""Feature maps: inner products near the kernel, nearer with more features, and refusals by name."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.exceptions import CapabilityError
from widemargin.kernels.feature_maps import FourierPairs, make_feature_map
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows


def error(name, kernel, n_components, X, n=80):
    made = make_feature_map(name, kernel, n_components, seed=0, n_rows=n)
    mapped = made.fit_transform(X)
    return np.abs(mapped @ mapped.T - KernelRows(kernel, X).full()).max()


def rows(n=80, d=4):
    return np.random.default_rng(0).standard_normal((n, d))


def test_fourier_error_falls_with_the_root_of_the_features():
    kernel = Kernel("rbf", 0.3)
    few, many = error("fourier", kernel, 100, rows()), error("fourier", kernel, 10_000, rows())
    assert few < 5 / np.sqrt(100)
    assert many < 5 / np.sqrt(10_000)
    assert many < 0.3 * few


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [Kernel("rbf", 0.3), Kernel("poly", 0.3, 2, 1.0), Kernel("laplacian", 0.3), Kernel("linear")],
    ids=lambda kernel: kernel.name,
)
def test_nystroem_is_exact_with_every_row_a_landmark(kernel, sparse):
    X = sp.csr_matrix(rows()) if sparse else rows()
    assert error("nystroem", kernel, 500, X) < 1e-6  # no more landmarks than rows: no warning of scikit-learn
    if kernel.name != "linear":
        assert error("nystroem", kernel, 10, X) > 1e-3


@pytest.mark.parametrize(
    ("name", "kernel", "message"),
    [
        ("fourier", Kernel("poly"), "is for kernel='rbf', not 'poly'; use 'nystroem'"),
        ("nystroem", Kernel("precomputed"), "needs a named kernel, not a precomputed one"),
        ("nystroem", Kernel("callable", function=max), "needs a named kernel, not a callable one"),
        ("sketch", Kernel("rbf"), "feature_map='sketch' is unknown"),
    ],
)
def test_what_a_map_cannot_do_is_refused(name, kernel, message):
    with pytest.raises(CapabilityError, match=message):
        make_feature_map(name, kernel, 10, seed=0, n_rows=50)


def test_pairs_of_fourier_features_are_exact_on_the_diagonal_and_closer_than_single_ones():
    kernel, X = Kernel("rbf", 0.3), rows()
    K = KernelRows(kernel, X).full()
    pairs, single = [], []
    for seed in range(20):
        F = FourierPairs(0.3, 50, 4, seed=seed)(X)
        assert F.shape == (80, 100)
        np.testing.assert_allclose((F * F).sum(axis=1), 1.0, rtol=1e-12)
        pairs.append(((F @ F.T - K) ** 2).mean())
        made = make_feature_map("fourier", kernel, 100, seed=seed, n_rows=80).fit_transform(X)
        single.append(((made @ made.T - K) ** 2).mean())
    assert np.mean(pairs) < np.mean(single)
    assert np.mean(pairs) < 1.0 / 50
    sparse = FourierPairs(0.3, 50, 4, seed=0)(sp.csr_matrix(X))
    np.testing.assert_allclose(sparse, FourierPairs(0.3, 50, 4, seed=0)(X), atol=1e-12)
    assert FourierPairs(0.3, 50, 4, seed=0)(X.astype(np.float32)).dtype == np.float32
