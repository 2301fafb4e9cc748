"""Kernel values computed where the rows are."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import KernelSVC, SBPClassifier
from widemargin.exceptions import CapabilityError, DataError, MarginConvergenceWarning
from widemargin.kernels.functions import Kernel
from widemargin.kernels.partitioned import PartitionedRows
from widemargin.kernels.rows import KernelRows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5000, 6))
Y = (X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=5000) > 0).astype(int)


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.3), Kernel("poly", 0.5, 2, 1.0), Kernel("laplacian", 0.2)])
@pytest.mark.parametrize("rows", [X, sp.csr_matrix(np.where(X > 1.0, X, 0.0))])
def test_sums_and_whole_rows(kernel, rows):
    whole, parts = KernelRows(kernel, rows), PartitionedRows(kernel, rows, workers=2)
    few, change = np.array([7, 4999, 0, 1234]), np.array([0.5, -1.0, 2.0, 0.25])
    wanted, found = np.ones(5000), np.ones(5000)
    whole.add(few, change, wanted)
    parts.add(few, change, found)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)
    (left, at), (right, there) = whole.cached(few), parts.cached(few)
    np.testing.assert_allclose(right[there], left[at], rtol=1e-11, atol=1e-13)
    assert parts.evaluations == whole.evaluations
    some = np.arange(0, 5000, 2)
    wanted, found = np.zeros(2500), np.zeros(2500)
    whole.subset(some).add(few[:1], change[:1], wanted)
    parts.subset(some).add(few[:1], change[:1], found)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)


def test_the_batch_perceptron_on_a_cluster(dask_client):
    settings = {"nu": 0.05, "max_iter": 30, "cache_size": 20.0, "random_state": 0, "gamma": 0.5}
    with pytest.warns(MarginConvergenceWarning, match="30 steps"):
        alone = SBPClassifier(**settings).fit(X, Y)
    with pytest.warns(MarginConvergenceWarning, match="30 steps"):
        there = SBPClassifier(**settings, solver_options={"backend": "dask"}).fit(X, Y)
    np.testing.assert_allclose(there.decision_function(X[:50]), alone.decision_function(X[:50]), rtol=1e-7)
    assert there.n_evaluations_ == alone.n_evaluations_


def test_what_cannot_be_done_there(dask_client):
    with pytest.raises(CapabilityError, match="'precomputed' cannot be computed in blocks"):
        PartitionedRows(Kernel("precomputed"), np.eye(3), workers=2)
    clf = KernelSVC(solver_options={"backend": "dask"}, solver="sbp", max_iter=5, random_state=0)
    with pytest.warns(MarginConvergenceWarning, match="max_iter"):
        clf.fit(X[:300], Y[:300])
    assert clf.predict(X[:5]).shape == (5,)


def test_without_a_client():
    import distributed

    if distributed.client._get_global_client() is None:
        with pytest.raises(DataError, match="no Dask client"):
            PartitionedRows(Kernel("rbf", 1.0), X)
