"""Eigenvalues on a sample of rows: which kernels are found to be indefinite, and that none is by rounding."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.exceptions import KernelError
from widemargin.kernels.functions import Kernel, Spectrum, refuse_indefinite, sampled_spectrum
from widemargin.kernels.rows import KernelRows


def rows_of(kernel, n=300, d=4, dtype=np.float64, seed=0):
    return KernelRows(kernel, np.random.default_rng(seed).normal(size=(n, d)).astype(dtype))


def cut_distance(A, B):
    """Positive definite for one column, not for four."""
    return np.maximum(0.0, 3.0 - np.abs(A[:, None, :] - B[None, :, :]).sum(axis=-1))


@pytest.mark.parametrize(
    ("kernel", "known"),
    [
        (Kernel("linear"), True),
        (Kernel("rbf", 0.3), True),
        (Kernel("laplacian", 0.3), True),
        (Kernel("poly", 0.3, 3, 1.0), True),
        (Kernel("poly", 0.3, 2, 0.0), True),
        (Kernel("poly", 0.3, 2, -1.0), False),
        (Kernel("poly", 0.3, 1.5, 1.0), False),
        (Kernel("sigmoid", 0.3), False),
        (Kernel("callable", function=cut_distance), False),
        (Kernel("precomputed"), False),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else str(value),
)
def test_kernels_that_are_positive_whatever_the_rows_are(kernel, known):
    assert kernel.positive is known
    if known:
        rows = rows_of(kernel)
        assert sampled_spectrum(rows) is None and rows.evaluations == 0
        K = rows.full().astype(np.float64)
        found = np.linalg.eigvalsh(K)
        assert not Spectrum(float(found[0]), float(found[-1]), 300).indefinite


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kernel",
    [Kernel("sigmoid", 1.0, 3, -1.0), Kernel("poly", 0.3, 2, -1.0), Kernel("callable", function=cut_distance)],
    ids=["sigmoid", "poly", "function"],
)
def test_indefinite_kernels_are_found(kernel, dtype):
    spectrum = sampled_spectrum(rows_of(kernel, dtype=dtype))
    assert spectrum.indefinite and spectrum.least < 0.0 < spectrum.largest
    with pytest.raises(KernelError, match=re.escape(f"({spectrum})")):
        refuse_indefinite(spectrum)


def test_matrices_of_low_rank_in_single_precision_are_not():
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1.0, 1e6):
        X = scale * rng.normal(size=(400, 5)).astype(np.float32)
        for K in (X @ X.T, (X @ X.T).astype(np.float64), sp.csr_matrix(X @ X.T)):
            assert sampled_spectrum(KernelRows(Kernel("precomputed"), K)) is None
    refuse_indefinite(None)
    assert sampled_spectrum(KernelRows(Kernel("precomputed"), np.zeros((5, 5)))) is None
    assert sampled_spectrum(KernelRows(Kernel("precomputed"), -np.eye(5))).indefinite


def test_what_a_look_costs():
    for n, kernel, expected in (
        (100, Kernel("sigmoid"), 64),
        (1000, Kernel("sigmoid"), 64),
        (50, Kernel("callable", function=cut_distance), 50),
        (100, Kernel("callable", function=cut_distance), 64),
        (600, Kernel("callable", function=cut_distance), 64),
        (2000, Kernel("callable", function=cut_distance), 64),
    ):
        rows = rows_of(kernel, n)
        assert sampled_spectrum(rows).n_rows == expected
        assert rows.evaluations == expected**2
        assert sampled_spectrum(rows) == sampled_spectrum(rows)


def test_what_few_rows_do_not_show_more_of_them_do():
    K = np.eye(200)
    K[0, 1] = K[1, 0] = 2.0  # the negative eigenvalue needs both rows; the first draw lacks one
    rows = KernelRows(Kernel("precomputed"), K)
    found = sampled_spectrum(rows)
    assert (found.n_rows, found.least) == (200, pytest.approx(-1.0))
    K[0, 1] = K[1, 0] = 0.5
    assert sampled_spectrum(KernelRows(Kernel("precomputed"), K)) is None
