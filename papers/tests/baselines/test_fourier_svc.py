"""The SVM on random Fourier features: scikit-learn's contract, LIBLINEAR's optimum, and the Gaussian SVM behind it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_moons
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.estimators.feature_space import make_feature_map
from widemargin.exceptions import MarginConvergenceWarning
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin_papers.baselines import FourierSVC
from widemargin_papers.baselines.fourier_svc import FourierPairs

WITHIN_TOL = "the order of the rows is random, and solutions agree within tol only"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": WITHIN_TOL,
    "check_sample_weight_equivalence_on_sparse_data": WITHIN_TOL,
}


@parametrize_with_checks([FourierSVC(64)], expected_failed_checks=lambda estimator: EXPECTED)
def test_sklearn_contract(estimator, check):
    check(estimator)


def moons(n=300, seed=0):
    return make_moons(n, noise=0.2, random_state=seed)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_optimum_is_liblinears_on_the_features(C):
    X, y = moons()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    clf = FourierSVC(20, C=C, gamma=1.0, tol=1e-6, random_state=0).fit(X, y, sample_weight=weight)
    F = clf.features_(X)
    peer = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-9, max_iter=10**7).fit(F, y, sample_weight=weight)

    def objective(w):
        return 0.5 * w @ w + C * weight @ np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * (F @ w))

    assert clf.gap_ <= 1e-6
    assert objective(clf.coef_[0]) == pytest.approx(objective(peer.coef_[0]), rel=3e-6)
    assert clf.inner_products_ == 20 * 300


def test_many_features_are_the_gaussian_svm():
    X, y = moons()
    X_new = moons(200, 1)[0]
    peer = SVC(C=1.0, gamma=1.0).fit(X, y)
    few, many = (FourierSVC(k, gamma=1.0, random_state=0).fit(X, y) for k in (4, 1000))
    agree = [(clf.predict(X_new) == peer.predict(X_new)).mean() for clf in (few, many)]
    assert agree[1] > 0.98
    assert agree[0] < agree[1]


def test_sparse_rows_words_and_the_seed():
    X, y = moons()
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    words = np.where(y == 1, "yes", "no")
    dense = FourierSVC(30, gamma=1.0, tol=1e-8, random_state=3).fit(X, words)
    sparse = FourierSVC(30, gamma=1.0, tol=1e-8, random_state=3).fit(sp.csr_matrix(X), words)
    np.testing.assert_allclose(dense.decision_function(X), sparse.decision_function(sp.csr_matrix(X)), atol=1e-3)
    assert set(dense.predict(X)) == {"yes", "no"}
    other = FourierSVC(30, gamma=1.0, random_state=4).fit(X, words)
    assert not np.allclose(other.coef_, dense.coef_)


def test_a_weight_of_two_is_a_row_twice():
    X, y = moons(100)
    weight = np.random.default_rng(0).integers(0, 3, 100)
    many = np.repeat(np.arange(100), weight)
    once = FourierSVC(30, tol=1e-8, random_state=3).fit(X, y, sample_weight=weight)
    twice = FourierSVC(30, tol=1e-8, random_state=3).fit(X[many], y[many])
    assert once.gamma_ == pytest.approx(twice.gamma_, rel=1e-12)
    np.testing.assert_allclose(once.decision_function(X), twice.decision_function(X), atol=1e-3)


def test_too_few_passes_are_told():
    X, y = moons()
    with pytest.warns(MarginConvergenceWarning, match="raise max_iter or tol"):
        FourierSVC(30, C=1000.0, max_iter=1, tol=1e-6).fit(X, y)


def test_pairs_of_fourier_features_are_exact_on_the_diagonal_and_closer_than_single_ones():
    kernel, X = Kernel("rbf", 0.3), np.random.default_rng(0).standard_normal((80, 4))
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
