"""Feature maps: inner products near the kernel, nearer with more features, and refusals by name."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.estimators.feature_space import make_feature_map
from widemargin.exceptions import CapabilityError
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
