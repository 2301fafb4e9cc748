"""The intercept where the data leave an interval: no support vector is free, and LIBSVM takes the middle."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from widemargin import KernelSVC

WITH_BIAS = ("dual", "nested-dual", "spatial-dual", "smo")


def balanced(n, seed, *, apart=0.0):
    """Classes of n rows each."""
    y = np.repeat([0, 1], n)
    return np.random.default_rng(seed).normal(size=(2 * n, 2)) + apart * y[:, None], y


def free(model, upper):
    """Whether a coefficient of a fitted SVC is between its bounds."""
    size = np.abs(model.dual_coef_[0])
    return bool(((size > 1e-9 * upper.min()) & (size < (1.0 - 1e-9) * upper[model.support_])).any())


@pytest.mark.parametrize("solver", WITH_BIAS)
@settings(max_examples=40)
@given(
    st.sampled_from([1, 2, 3, 5, 10, 33]),
    st.integers(0, 10_000),
    st.sampled_from([1e-6, 1e-3, 0.01, 0.1, 1 / 3, 0.7]),
    st.sampled_from([0.0, 3.0]),
)
@example(10, 0, 0.1, 0.0)
@example(10, 1, 0.1, 0.0)
def test_classes_of_equal_size_and_a_small_C(solver, n, seed, C, apart):
    X, y = balanced(n, seed, apart=apart)
    tol = 1e-3 if solver == "spatial-dual" else 1e-8  # its values are of single precision
    theirs = SVC(C=C, gamma=0.5, tol=1e-8).fit(X, y)
    ours = KernelSVC(C=C, gamma=0.5, tol=tol, solver=solver).fit(X, y)
    assert ours.intercept_[0] == pytest.approx(theirs.intercept_[0], abs=1e-5 + 5.0 * tol)
    if solver != "spatial-dual" and not free(theirs, np.full(2 * n, C)):
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("solver", [*WITH_BIAS, "sbp", "sbp-unbiased"])
def test_weights_of_equal_sums(solver):
    """Weights whose sums are rounded: of numbers that are not, SVC's are right, and ours of both."""
    tol = 0.01 if solver.startswith("sbp") else 1e-3 if solver == "spatial-dual" else 1e-8
    for seed in range(6):
        X, y = balanced(20, seed)
        rng = np.random.default_rng(seed)
        half = rng.integers(1, 9, 20) / 4.0
        weight = np.concatenate([half, rng.permutation(half)])
        theirs = SVC(C=2.0**-7, gamma=0.5).fit(X, y, sample_weight=weight)
        assert not free(theirs, 2.0**-7 * weight)
        for scale in (1.0, 0.3):  # of the weights; C has it the other way round
            ours = KernelSVC(C=2.0**-7 / scale, gamma=0.5, solver=solver, tol=tol, random_state=0)
            ours.fit(X, y, sample_weight=scale * weight)
            assert ours.intercept_[0] == pytest.approx(theirs.intercept_[0], abs=1e-5)


def test_pairs_and_classes_against_the_rest():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.repeat([0, 1, 2], 20)
    theirs = SVC(C=0.01, gamma=0.5, tol=1e-8).fit(X, y)
    ours = KernelSVC(C=0.01, gamma=0.5, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    rest = KernelSVC(C=0.01, gamma=0.5, tol=1e-8, solver_options={"multi_class": "ovr"}, class_weight="balanced").fit(
        X, y
    )
    for c in range(3):
        alone = SVC(C=0.01, gamma=0.5, tol=1e-8).fit(X, y == c)
        assert rest.intercept_[c] == pytest.approx(alone.intercept_[0], abs=1e-6)


def test_the_batch_perceptron_by_C_takes_the_middle():
    for n in (1, 2, 5, 10):
        X, y = balanced(n, n)
        theirs = SVC(C=1e-3, gamma=0.5).fit(X, y)
        ours = KernelSVC(C=1e-3, gamma=0.5, solver="sbp", tol=0.01, random_state=0).fit(X, y)
        assert ours.intercept_[0] == pytest.approx(theirs.intercept_[0], abs=1e-6)
