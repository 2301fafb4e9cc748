"""Kernels that are not positive semi-definite: named, trained as LIBSVM trains them, refused where norms are needed."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from widemargin import KernelPerceptron, KernelSVC, SBPClassifier
from widemargin.exceptions import KernelError, KernelWarning
from widemargin.solvers.kernel_svm.automatic import NEED_NORMS, SOLVERS
from widemargin.solvers.kernel_svm.dual import nested as nested_dual


def cut_distance(A, B):
    return np.maximum(0.0, 3.0 - np.abs(A[:, None, :] - B[None, :, :]).sum(axis=-1))


def asymmetric(A, B):
    return A @ np.triu(np.ones((A.shape[1], B.shape[1]))) @ B.T


def centring(A, B):
    return (A - A.mean(axis=0)) @ (B - B.mean(axis=0)).T


def noise(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    return X, (X[:, 0] + 0.7 * rng.normal(size=n) > 0.0).astype(int)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (cancer(), {"kernel": "sigmoid"}),
        (noise(), {"kernel": "sigmoid"}),
        (noise(), {"kernel": "poly", "degree": 3, "coef0": -1.0}),
        (noise(), {"kernel": "poly", "degree": 2, "coef0": -1.0}),
        (noise(), {"kernel": cut_distance}),
        (iris(), {"kernel": "sigmoid", "gamma": 0.3}),
    ],
    ids=["cancer", "sigmoid", "cubic", "square", "function", "classes"],
)
def test_auto_ends_where_svc_ends(data, options):
    """There are several such points; LIBSVM's steps, in its order of rows and classes, lead to its one."""
    X, y = data
    with pytest.warns(KernelWarning, match=r"not positive semi-definite on these rows \(eigenvalues from -"):
        ours = KernelSVC(**options).fit(X, y)
    theirs = SVC(**options).fit(X, y)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=0.02)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.solver_ == "smo" and "LIBSVM's steps" in ours.solver_reason_
    assert np.isnan(ours.gap_) and ours.violation_ <= 1e-3


def test_a_function_that_no_step_shows_to_be_indefinite_has_no_certificate():
    """The duals meet no negative norm here: without a look at the eigenvalues the gap would be a certificate."""
    X, y = noise()
    for solver in ("dual", "nested-dual", "smo"):
        with pytest.warns(KernelWarning, match="the kernel cut_distance is not positive semi-definite"):
            model = KernelSVC(kernel=cut_distance, solver=solver).fit(X, y)
        assert np.isnan(model.gap_) and model.solver_ == solver


@pytest.mark.parametrize("solver", ["dual", "nested-dual", "smo"])
def test_the_violation_is_that_of_all_rows(solver, monkeypatch):
    small = partial(nested_dual.solve, options=nested_dual.NestedOptions(least_rows=100))
    monkeypatch.setitem(SOLVERS, "nested-dual", small)
    X, y = make_moons(1500, noise=0.3, random_state=0)
    with pytest.warns(KernelWarning, match="not positive semi-definite"):
        model = KernelSVC(kernel=cut_distance, solver=solver).fit(X, y)
    gradient = np.where(y == 1, 1.0, -1.0) - (model.decision_function(X) - model.intercept_[0])
    coef = np.zeros(1500)
    coef[model.support_] = model.dual_coef_[0]
    up = np.where(y == 1, coef < 1.0, coef < 0.0)
    down = np.where(y == 1, coef > 0.0, coef > -1.0)
    assert gradient[up].max() - gradient[down].min() <= 1.1e-3


@pytest.mark.parametrize("solver", sorted(NEED_NORMS))
def test_methods_of_norms_refuse_them_before_they_begin(solver):
    X, y = noise()
    model = KernelSVC(kernel=cut_distance, solver=solver, solver_options={"fit_intercept": solver.startswith("sbp")})
    with pytest.raises(
        KernelError, match=r"^kernel=cut_distance: .*positive semi-definite .*from -\d.* Or solver='dual'"
    ):
        model.fit(X, y)


def test_functions_that_are_no_kernels_are_refused():
    X, y = noise()
    for maker in (KernelSVC, SBPClassifier, KernelPerceptron):
        with pytest.raises(KernelError, match="the kernel function is not symmetric"):
            maker(kernel=asymmetric).fit(X, y)
        with pytest.raises(KernelError, match=r"K\(x, z\) other values, by up to .* must not centre or scale"):
            maker(kernel=centring).fit(X, y)
        with pytest.raises(KernelError, match=r"returned shape .* one value for every pair"):
            maker(kernel=lambda A, B: np.ones(A.shape[0])).fit(X, y)


def test_so_does_the_batch_perceptron():
    X, y = noise()
    with pytest.raises(KernelError, match=r"^kernel=cut_distance: .*positive semi-definite .*eigenvalues from -"):
        SBPClassifier(0.1, kernel=cut_distance).fit(X, y)


def test_precomputed_values():
    X, y = noise()
    indefinite, positive = cut_distance(X, X), X @ X.T
    with pytest.warns(KernelWarning, match="the kernel 'precomputed' is not positive semi-definite"):
        KernelSVC(kernel="precomputed").fit(indefinite, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for K in (positive, positive.astype(np.float32)):  # of rank 5: eigenvalues of 0, and rounding
            model = KernelSVC(kernel="precomputed", C=0.1).fit(K, y)
            assert model.gap_ < 1e-2 and model.solver_ == "dual"
        KernelSVC(kernel="poly", coef0=1.0).fit(X, y)
