"""Features of very different scales, and steep kernels, are named by kernel SVMs; flags and words are left alone."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from widemargin import KernelPerceptron, KernelSVC, SBPClassifier
from widemargin.exceptions import KernelWarning, MarginConvergenceWarning


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_features_that_drown_the_others_are_named(kernel):
    frame, y = load_wine(return_X_y=True, as_frame=True)
    with pytest.warns(KernelWarning, match=r"feature 'proline' makes 99\.8% of the squared distances .* other 12"):
        raw = KernelSVC(kernel=kernel, C=1e-3).fit(frame, y)
    rng = np.random.default_rng(0)
    X = StandardScaler().fit_transform(frame)
    KernelSVC(kernel=kernel).fit(X, y)  # no warning
    if kernel == "rbf":
        rows = rng.permutation(178)
        with pytest.warns(KernelWarning, match="proline"):
            raw.set_params(C=1.0).fit(frame.iloc[rows[:100]], y.iloc[rows[:100]])
        scaled = KernelSVC().fit(X[rows[:100]], y.iloc[rows[:100]])
        test = rows[100:]
        assert (scaled.predict(X[test]) == y.iloc[test]).mean() > 0.95
        assert (raw.predict(frame.iloc[test]) == y.iloc[test]).mean() < 0.8  # so the warning is worth reading


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("large", "columns"), [(1, 2), (2, 4), (3, 4), (4, 8), (3, 10), (5, 20), (3, 40)])
def test_a_group_of_large_features_is_named(large, columns, sparse):
    X = np.random.default_rng(0).normal(size=(200, columns))
    y = X[:, 0] > 0.0
    X[:, columns - large :] *= 1e4 * np.arange(1, large + 1)
    rows = sp.csr_matrix(X) if sparse else X
    last = ", ".join(str(c) for c in range(columns - 1, columns - 1 - min(large, 3), -1))
    more = f" and {large - 3} more" if large > 3 else ""
    match = f"features? {last}{more} makes? (100\\.0|99\\.\\d)% .* hardly sees the other {columns - large} features?"
    match += r" \(feature 0\)" if columns - large < large else ""
    for model in (KernelSVC(max_iter=1), SBPClassifier(max_iter=1), KernelPerceptron()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MarginConvergenceWarning)
            with pytest.warns(KernelWarning, match=match):
                model.fit(rows, y)


def test_rare_flags_and_words_are_not_small_features():
    rng = np.random.default_rng(0)
    shares = 1.0 / np.arange(1, 301) ** 1.5
    words = rng.multinomial(50, shares / shares.sum(), size=500).astype(float)
    flags = (rng.random((6000, 4)) < [0.5, 0.1, 0.01, 0.0005]).astype(float)
    assert flags[:, 3].any()
    mixed = np.column_stack([flags, rng.normal(size=6000)])
    for X in (words, sp.csr_matrix(words), flags, 1.0 - flags, sp.csr_matrix(flags), mixed, load_digits().data):
        model = KernelSVC(max_iter=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error", KernelWarning)
            warnings.simplefilter("ignore", MarginConvergenceWarning)
            model.fit(X, np.arange(X.shape[0]) % 2)


def test_steep_kernels_are_named():
    rng = np.random.default_rng(0)
    X = 1000.0 * rng.normal(size=(100, 5))
    y = (X[:, 0] > 0).astype(int)
    for part in (X, sp.csr_matrix(X)):
        with pytest.warns(
            KernelWarning,
            match=r"C K\(x, x\) is [45]\.\de\+06 on average, nearly all by features \d, \d, \d and 2 more",
        ):
            KernelSVC(kernel="linear", max_iter=100).fit(part, y)
    with (
        pytest.warns(KernelWarning, match=r"C K\(x, x\) is .* or lower C"),
        pytest.warns(MarginConvergenceWarning, match="or scale the features"),  # SVC would take minutes
    ):
        KernelSVC(kernel="poly", gamma=0.1, degree=2, max_iter=3).fit(X, y)
    KernelSVC(kernel="linear", C=1e-4).fit(X, y)  # no warning
    KernelSVC().fit(X, y)  # equal scales do not matter to a Gaussian kernel


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_scores_of_large_coefficients_are_not_lost_in_single_precision(kernel, sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=600) > 0
    rows = sp.csr_matrix(X) if sparse else X
    svc = KernelSVC(C=1e3, kernel=kernel, gamma=0.05).fit(rows, y)
    coef = np.abs(svc.dual_coef_).sum()
    assert coef > 1e5  # so that 1e-7 of it is a hundredth of the margin
    vectors = X.astype(np.float64)[svc.support_]
    dual = svc.dual_coef_.toarray() if sparse else svc.dual_coef_
    exact = pairwise_kernels(X.astype(np.float64), vectors, metric=kernel, filter_params=True, gamma=0.05) @ dual[0]
    assert np.abs(svc.decision_function(rows) - exact - svc.intercept_).max() < 1e-5


@pytest.mark.parametrize("sparse", [False, True])
def test_scores_of_large_polynomial_values_are_not_lost_in_single_precision(sparse):
    X, y = load_wine(return_X_y=True)
    X, y = X.astype(np.float32), y == 1
    rows = sp.csr_matrix(X) if sparse else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)  # the features are not scaled
        svc = KernelSVC(kernel="poly", degree=2, gamma=1.0, C=1e-4).fit(rows, y)
    vectors, dual = X.astype(np.float64)[svc.support_], np.ravel(svc.dual_coef_.toarray() if sparse else svc.dual_coef_)
    exact = (X.astype(np.float64) @ vectors.T) ** 2 @ dual + svc.intercept_
    assert np.abs(svc.decision_function(rows) - exact).max() < 1e-5  # 1.4 in single precision


@pytest.mark.parametrize("solver", ["auto", "smo", "nested-dual"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "mostly zero"])
def test_rows_far_from_the_origin_are_parted_by_their_differences(solver, kind):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 1))
    y = np.sin(3.0 * Z[:, 0]) + 0.3 * rng.normal(size=300) > 0
    far = np.hstack([30.0 * Z + 1.7e9, np.zeros((300, 9 if kind == "mostly zero" else 0))])  # seconds since 1970
    gamma = 1e-3
    svc = KernelSVC(solver=solver, gamma=gamma).fit(sp.csr_matrix(far) if kind == "sparse" else far, y)
    distances = (far[:, :1] - far[svc.support_, 0]) ** 2
    coef = np.ravel(svc.dual_coef_.toarray() if kind == "sparse" else svc.dual_coef_)
    scores = np.exp(-gamma * distances) @ coef
    assert np.abs(svc.decision_function(far) - scores - svc.intercept_).max() < 1e-9
    # What the certificate says holds for these values.
    signs, alpha = np.where(y, 1.0, -1.0), np.zeros(300)
    alpha[svc.support_] = coef * np.where(y[svc.support_], 1.0, -1.0)
    rises = ((signs > 0) & (alpha < 1.0)) | ((signs < 0) & (alpha > 0.0))
    falls = ((signs > 0) & (alpha > 0.0)) | ((signs < 0) & (alpha < 1.0))
    violation = (signs - scores)[rises].max() - (signs - scores)[falls].min()
    assert violation <= svc.violation_ + 1e-9 <= 1e-3 + 1e-9


def test_polynomials_of_short_rows_are_computed_where_steps_ask_for_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 5))
    y = X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.normal(size=1200) > 0.5
    options = {"kernel": "poly", "degree": 2, "coef0": 1.0, "C": 10.0}
    svc, other = KernelSVC(**options, tol=1e-4).fit(X, y), SVC(**options, tol=1e-4).fit(X, y)
    assert svc.evaluations_ < 0.25 * 1200**2
    np.testing.assert_allclose(svc.decision_function(X), other.decision_function(X), atol=0.02, rtol=2e-3)
